/* SPDX-License-Identifier: Apache-2.0 */
/* shredder check, forget, prune, unlock: what keeps a repository in order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"
#include "store/backend.h"
#include "store/maintain.h"

/* Of what is needed: what stays of unused data to save moving the rest. 5 % made images larger than restic leaves them, and saves a twelfth of the moving. */
#define CLI_MAX_UNUSED 0.02

#define PRUNE_HELP                                                                                                          \
	"      --max-unused N%|SIZE  unused data that may stay where used data would have to be moved, or unlimited [2%]\n" \
	"      --max-repack-size SIZE  move no more than that; the next prune goes on [no limit]\n"                         \
	"  -n, --dry-run          tell only\n"
const char cli_help_check[] =
	"[OPTION]...\n\n"
	"Checks that all snapshots can be restored: keys, index, packs, directories, and that every chunk they name is there.\n"
	"Exit status 1: there are problems.\n\n" CLI_REPO_HELP
	"  -d, --read-data        read, authenticate and decompress every chunk as well\n"
	"      --read-data-subset N/M|P%|SIZE  the same of a part: the Nth of M parts, a share by chance, or so much of it\n"
	"      --repair           mend what has parity, and make a new index from the packs; needs the\n"
	"                         repository alone\n" CLI_NO_LOCK_HELP "  -t, --threads N        [one a processor]\n"
	"      --help             show this\n";
const char cli_help_forget[] =
	"[OPTION]... [SNAPSHOT]...\n\n"
	"Removes snapshots, those that are named or those that a policy does not keep; of each host and set of paths by\n"
	"itself. Their data stays until prune.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
	"      --keep-last N      the last N; here and below also: unlimited\n"
	"      --keep-hourly N    the last one of each of the last N hours that have one; likewise:\n"
	"      --keep-daily N, --keep-weekly N, --keep-monthly N, --keep-yearly N\n"
	"      --keep-within TIME all up to so much older than the newest one, or than now if that is earlier: 2y5m7d3h\n"
	"      --keep-within-daily TIME  the last one of each day that is so young; likewise:\n"
	"      --keep-within-hourly TIME, --keep-within-weekly TIME, --keep-within-monthly TIME,\n"
	"      --keep-within-yearly TIME\n"
	"      --keep-tag TAG,... those that have all of these tags\n"
	"      --group-by NAMES   host, paths, tags, with commas; or nothing [host,paths]\n"
	"      --prune            prune afterwards\n" PRUNE_HELP "      --help             show this\n";
const char cli_help_prune[] =
	"[OPTION]...\n\n"
	"Removes data that no snapshot needs. Needs the repository alone.\n\n" CLI_REPO_HELP PRUNE_HELP
	"      --help             show this\n";
const char cli_help_unlock[] =
	"[OPTION]...\n\n"
	"Removes locks whose owner is gone: a process of this host that ended, or another host that was silent for 30 minutes.\n\n" CLI_REPO_HELP
	"      --remove-all       remove all locks; only when nobody works\n"
	"      --help             show this\n";

enum {
	OPT_REPAIR = CLI_OPT_REPO_FREE,
	OPT_SUBSET,
	OPT_MAX_UNUSED,
	OPT_MAX_REPACK,
	OPT_PRUNE,
	OPT_GROUP_BY,
	OPT_KEEP_LAST,
	OPT_KEEP_HOURLY,
	OPT_KEEP_DAILY,
	OPT_KEEP_WEEKLY,
	OPT_KEEP_MONTHLY,
	OPT_KEEP_YEARLY,
	OPT_KEEP_WITHIN,
	OPT_KEEP_WITHIN_HOURLY,
	OPT_KEEP_WITHIN_DAILY,
	OPT_KEEP_WITHIN_WEEKLY,
	OPT_KEEP_WITHIN_MONTHLY,
	OPT_KEEP_WITHIN_YEARLY,
	OPT_KEEP_TAG,
	OPT_REMOVE_ALL
};

/* ---------------------------------------------------------------------------------------------------------- check */

struct checking {
	struct cli_repo repo;
	struct g4_progress progress;
	uint64_t printed;
};

static void tell_problem(void *user, const char *sentence)
{
	struct checking *c = (struct checking *)user;

	g4_progress_clear(&c->progress);
	if (c->repo.json) {
		fputs(c->printed++ == 0 ? "" : ", ", stdout);
		cli_print_json_text(sentence);
		return;
	}
	fputs("problem: ", stdout);
	cli_print_name(stdout, sentence);
	putchar('\n');
}

static void tell_mended(void *user, const char *sentence)
{
	struct checking *c = (struct checking *)user;

	g4_progress_clear(&c->progress);
	if (!c->repo.json) /* there it is a number */
		puts(sentence);
}

static void show_check(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct checking *)user)->progress, done, total);
}

static int check(struct checking *c, struct store *s, struct store_check_options *options)
{
	struct store_check_result result = {0};
	char bytes[G4_SIZE_TEXT_BYTES];
	int rc = cli_repo_lock(&c->repo, s, options->repair);

	if (rc != 0)
		return cli_repo_failed(&c->repo, rc);
	if (c->repo.json)
		printf("{\"problems\": [");
	cli_progress_start(&c->repo, &c->progress, "checking");
	rc = store_check(s, options, &result);
	g4_progress_clear(&c->progress);
	if (c->repo.json)
		printf("], \"complete\": %s, \"snapshots\": %llu, \"packs\": %llu, \"blobs\": %llu, \"directories\": %llu, "
		       "\"bad_packs\": %llu, \"unknown_packs\": %llu, \"mended_packs\": %llu, \"mended_others\": %llu, \"read_packs\": %llu, \"read_bytes\": %llu}\n",
		       rc == 0 ? "true" : "false", (unsigned long long)result.snapshots,
		       (unsigned long long)result.packs, (unsigned long long)result.blobs,
		       (unsigned long long)result.trees, (unsigned long long)result.bad_packs,
		       (unsigned long long)result.unknown_packs, (unsigned long long)result.mended,
		       (unsigned long long)result.mended_others, (unsigned long long)result.read_packs,
		       (unsigned long long)result.read_bytes);
	if (rc != 0)
		return cli_repo_failed(&c->repo, rc);
	if (!c->repo.json && !c->repo.quiet) {
		printf("%llu %s, %llu %s, %llu %s, %llu directory %s", (unsigned long long)result.snapshots,
		       g4_counted(result.snapshots, "snapshot", "snapshots"), (unsigned long long)result.packs,
		       g4_counted(result.packs, "pack", "packs"), (unsigned long long)result.blobs,
		       g4_counted(result.blobs, "blob", "blobs"), (unsigned long long)result.trees,
		       g4_counted(result.trees, "blob", "blobs"));
		if (options->read_data || options->subset != NULL)
			printf(", read %s of %llu packs", g4_format_size(result.read_bytes, bytes, sizeof(bytes)),
			       (unsigned long long)result.read_packs);
		putchar('\n');
		if (result.unknown_packs > 0)
			printf("%llu %s in no index: of a backup that did not finish ('shredder prune' removes them), or "
			       "the index was lost ('shredder check --repair' reads them)\n",
			       (unsigned long long)result.unknown_packs,
			       g4_counted(result.unknown_packs, "pack is", "packs are"));
		if (result.bad_packs > 0)
			printf("%llu %s damaged or missing: %s'shredder repair packs' keeps what can be read of them, and "
			       "tells which snapshots have lost something\n",
			       (unsigned long long)result.bad_packs,
			       g4_counted(result.bad_packs, "pack is", "packs are"),
			       s->parity > 0 && !options->repair ?
				       "'shredder check --repair' mends what has parity enough, then " :
				       "");
		else if (result.losses > 0 && result.unknown_packs == 0) /* else these may have it */
			puts("snapshots have lost something: 'shredder repair packs' tells which");
		const bool read = options->read_data || options->subset != NULL;
		if (result.problems == 0)
			puts(options->repair && !read && s->parity == 0 ?
				     "no problem found; what is in packs was not read, which --read-data does" :
				     "no problem found");
		else
			printf("%llu %s\n", (unsigned long long)result.problems,
			       g4_counted(result.problems, "PROBLEM", "PROBLEMS"));
	}
	return result.problems == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

static bool parse_share(const char *text, double *share)
{
	char *end;

	*share = strtod(text, &end) / 100;
	return end != text && (*end == 0 || strcmp(end, "%") == 0) && *share >= 0 && *share <= 1;
}

/* "2/7", "5%", "10G". */
static bool parse_subset(const char *text, struct store_check_subset *subset)
{
	unsigned part, parts;
	int end = 0;

	*subset = (struct store_check_subset){0};
	if (strchr(text, '%') != NULL)
		return parse_share(text, &subset->share) && subset->share > 0;
	if (strchr(text, '/') == NULL)
		return g4_parse_size(text, &subset->bytes) == 0 && subset->bytes > 0;
	if (sscanf(text, "%3u/%3u%n", &part, &parts, &end) != 2 || text[end] != 0)
		return false;
	subset->part = part;
	subset->parts = parts;
	return part >= 1 && part <= parts && parts <= 256;
}

int cli_check(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_NO_LOCK_LONG,
						     {"read-data", no_argument, NULL, 'd'},
						     {"read-data-subset", required_argument, NULL, OPT_SUBSET},
						     {"repair", no_argument, NULL, OPT_REPAIR},
						     {"threads", required_argument, NULL, 't'},
						     {NULL, 0, NULL, 0}};
	struct store_check_subset subset;
	struct checking c = {0};
	struct store_check_options options = {
		.problem = tell_problem, .mended = tell_mended, .progress = show_check, .user = &c};
	uint64_t number;
	struct store *s;
	int option;

	cli_repo_init(&c.repo, "check");
	c.repo.mends = true;
	c.repo.reads = true;
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT "dt:", long_options, NULL)) != -1) {
		if (cli_repo_take(&c.repo, option, optarg))
			continue;
		if (option == 'd') {
			options.read_data = true;
		} else if (option == OPT_SUBSET) {
			if (!parse_subset(optarg, &subset))
				return g4_cli_usage("check", "'%s' is no part: as 1/7, 10%% or 5G", optarg);
			options.subset = &subset;
		} else if (option == OPT_REPAIR) {
			options.repair = true;
		} else if (option == 't') {
			if (!cli_parse_number(optarg, CLI_THREADS_MAX, &number) || number == 0)
				return g4_cli_usage("check", "'%s' is no number of threads", optarg);
			options.threads = (uint32_t)number;
		} else {
			return g4_cli_bad_option("check", option, argv);
		}
	}
	if (optind != argc)
		return g4_cli_usage("check", "it takes no argument");
	if (options.repair && c.repo.no_lock)
		return g4_cli_usage("check", "--repair writes, and takes a lock");
	int status = cli_repo_open(&c.repo, &s);
	if (status == G4_EXIT_OK) {
		status = check(&c, s, &options);
		cli_repo_close(&c.repo, s);
	}
	return g4_cli_finish_output("check", status);
}

/* ---------------------------------------------------------------------------------------------------------- prune */

struct pruning {
	struct cli_repo *repo;
	struct g4_progress progress;
};

static void show_prune(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct pruning *)user)->progress, done, total);
}

static void warn_limit(const struct cli_repo *repo, const struct store_prune_result *r)
{
	char text[160];

	snprintf(
		text, sizeof(text),
		"--max-repack-size is too small for any pack, so none is moved: one of them needs %llu bytes, the others more",
		(unsigned long long)r->waiting_least_bytes);
	cli_warn(repo->command, repo->path, text);
}

static int prune(struct cli_repo *repo, struct store *s, struct store_prune_options *options)
{
	struct pruning p = {.repo = repo};
	struct store_prune_result r;
	char text[4][G4_SIZE_TEXT_BYTES];

	options->progress = show_prune;
	options->user = &p;
	cli_progress_start(repo, &p.progress, "pruning");
	const int rc = store_prune(s, options, &r);
	g4_progress_clear(&p.progress);
	if (r.in_place && !repo->quiet)
		cli_warn(repo->command, repo->path,
			 "there was no room for a new index beside the old one, which went first");
	if (rc != 0)
		return cli_repo_failed(repo, rc);
	if (r.waiting_packs > 0 && r.repacked_packs == 0) /* the next prune would not go on either */
		warn_limit(repo, &r);
	if (repo->json) {
		printf("{\"used_blobs\": %llu, \"unused_blobs\": %llu, \"used_bytes\": %llu, \"unused_bytes\": %llu, "
		       "\"removed_packs\": %llu, \"removed_bytes\": %llu, \"repacked_packs\": %llu, \"repacked_bytes\": %llu, "
		       "\"left_unused_bytes\": %llu, \"waiting_packs\": %llu, \"dry_run\": %s}\n",
		       (unsigned long long)r.used_blobs, (unsigned long long)r.unused_blobs,
		       (unsigned long long)r.used_bytes, (unsigned long long)r.unused_bytes,
		       (unsigned long long)r.removed_packs, (unsigned long long)r.removed_bytes,
		       (unsigned long long)r.repacked_packs, (unsigned long long)r.repacked_bytes,
		       (unsigned long long)r.left_unused_bytes, (unsigned long long)r.waiting_packs,
		       options->dry_run ? "true" : "false");
		return G4_EXIT_OK;
	}
	if (repo->quiet)
		return G4_EXIT_OK;
	printf("used: %llu %s, %s; unused: %llu %s, %s\n", (unsigned long long)r.used_blobs,
	       g4_counted(r.used_blobs, "blob", "blobs"), g4_format_size(r.used_bytes, text[0], sizeof(text[0])),
	       (unsigned long long)r.unused_blobs, g4_counted(r.unused_blobs, "blob", "blobs"),
	       g4_format_size(r.unused_bytes, text[1], sizeof(text[1])));
	printf("%s %llu %s, %s %s of %llu %s; %s less, %s unused stay\n", options->dry_run ? "would remove" : "removed",
	       (unsigned long long)r.removed_packs, g4_counted(r.removed_packs, "pack", "packs"),
	       options->dry_run ? "move" : "moved", g4_format_size(r.repacked_bytes, text[0], sizeof(text[0])),
	       (unsigned long long)r.repacked_packs, g4_counted(r.repacked_packs, "pack", "packs"),
	       g4_format_size(r.removed_bytes, text[2], sizeof(text[2])),
	       g4_format_size(r.left_unused_bytes, text[3], sizeof(text[3])));
	if (r.waiting_packs > 0 && r.repacked_packs > 0)
		printf("%llu %s for the next prune\n", (unsigned long long)r.waiting_packs,
		       g4_counted(r.waiting_packs, "pack waits", "packs wait"));
	return G4_EXIT_OK;
}

static bool parse_unused(const char *text, struct store_prune_options *options)
{
	options->max_unused_bytes = 0;
	if (strcmp(text, "unlimited") == 0) {
		options->max_unused = HUGE_VAL;
		return true;
	}
	return parse_share(text, &options->max_unused) ||
	       (g4_parse_size(text, &options->max_unused_bytes) == 0 && options->max_unused_bytes > 0);
}

/* 1 taken, 0 none of prune's, -1 after a message. */
static int take_prune(const char *command, int option, const char *value, struct store_prune_options *options)
{
	switch (option) {
	case OPT_MAX_UNUSED:
		if (parse_unused(value, options))
			return 1;
		g4_cli_usage(command, "'%s' is no share or size: 5%%, 2G or unlimited", value);
		return -1;
	case OPT_MAX_REPACK:
		if (g4_parse_size(value, &options->max_repack_bytes) == 0 && options->max_repack_bytes > 0)
			return 1;
		g4_cli_usage(command, "'%s' is no size", value);
		return -1;
	case 'n':
		options->dry_run = true;
		return 1;
	default:
		return 0;
	}
}

#define PRUNE_LONG                                                                                                     \
	{"max-unused", required_argument, NULL, OPT_MAX_UNUSED},                                                       \
		{"max-repack-size", required_argument, NULL, OPT_MAX_REPACK},                                          \
	{                                                                                                              \
		"dry-run", no_argument, NULL, 'n'                                                                      \
	}

int cli_prune(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, PRUNE_LONG, {NULL, 0, NULL, 0}};
	struct store_prune_options options = {.max_unused = CLI_MAX_UNUSED, .level = CLI_LEVEL};
	struct cli_repo repo;
	struct store *s;
	int option;

	cli_repo_init(&repo, "prune");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT "n", long_options, NULL)) != -1) {
		if (cli_repo_take(&repo, option, optarg))
			continue;
		const int taken = take_prune("prune", option, optarg, &options);
		if (taken != 1)
			return taken == 0 ? g4_cli_bad_option("prune", option, argv) : G4_EXIT_USAGE;
	}
	if (optind != argc)
		return g4_cli_usage("prune", "it takes no argument");
	int status = cli_repo_open(&repo, &s);
	if (status == G4_EXIT_OK) {
		const int rc = cli_repo_lock(&repo, s, true);

		status = rc != 0 ? cli_repo_failed(&repo, rc) : prune(&repo, s, &options);
		cli_repo_close(&repo, s);
	}
	return g4_cli_finish_output("prune", status);
}

/* --------------------------------------------------------------------------------------------------------- forget */

struct forgetting {
	struct cli_repo repo;
	struct store_policy policy;
	const char *tags[CLI_LIST_MAX];
	bool by_host, by_paths, by_tags;
	bool prune;
	struct store_prune_options prune_options;
	uint64_t found;	  /* of snapshots that are named: all; else those that the filter takes */
	uint64_t removed; /* or would be */
};

/* "2y5m7d3h": years of 365 days, months of 30. */
static bool parse_within(const char *text, int64_t *seconds)
{
	static const char units[] = "ymdh";
	static const int64_t worth[] = {365 * 86400, 30 * 86400, 86400, 3600};

	*seconds = 0;
	while (*text != 0) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		const unsigned long number = strtoul(text, &end, 10);
		const char *unit = *end == 0 ? NULL : strchr(units, *end);
		if (unit == NULL || number > 100000)
			return false;
		*seconds += (int64_t)number * worth[unit - units];
		text = end + 1;
	}
	return *seconds > 0;
}

static bool parse_groups(struct forgetting *f, const char *text)
{
	char *copy = store_strdup(text), *save = NULL;
	bool right = true;

	f->by_host = false;
	f->by_paths = false;
	f->by_tags = false;
	for (const char *name = strtok_r(copy, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
		f->by_host = f->by_host || strcmp(name, "host") == 0;
		f->by_paths = f->by_paths || strcmp(name, "paths") == 0;
		f->by_tags = f->by_tags || strcmp(name, "tags") == 0;
		right = right && (strcmp(name, "host") == 0 || strcmp(name, "paths") == 0 || strcmp(name, "tags") == 0);
	}
	free(copy);
	return right;
}

static bool same_group(const struct forgetting *f, const struct store_snapshot *a, const struct store_snapshot *b)
{
	return (!f->by_host || strcmp(a->host, b->host) == 0) &&
	       (!f->by_paths || cli_same_texts(a->paths, a->paths_count, b->paths, b->paths_count)) &&
	       (!f->by_tags || cli_same_texts(a->tags, a->tags_count, b->tags, b->tags_count));
}

/* It is told when it is gone. */
static int forget_one(struct forgetting *f, struct store *s, const struct store_snapshot *snapshot)
{
	char hex[STORE_HEX_BYTES], time[32];
	const int rc =
		f->prune_options.dry_run ? 0 : s->backend->ops->remove(s->backend, STORE_SNAPSHOT, &snapshot->name);

	if (rc != 0)
		return rc;
	store_hex(&snapshot->name, hex);
	if (f->repo.json)
		printf("%s\"%s\"", f->removed == 0 ? "" : ", ", hex);
	else if (!f->repo.quiet)
		printf("%s %.16s  %s\n", f->prune_options.dry_run ? "would forget" : "forgot", hex,
		       cli_format_time(&snapshot->time, time));
	f->removed++;
	return 0;
}

/* Which of a list that is sorted by time stay: of each group by itself. A policy that keeps none of one is a slip of the pen. */
static int judge(const struct forgetting *f, const struct store_snapshot *list, size_t count, bool *stays)
{
	struct store_snapshot *group = (struct store_snapshot *)store_alloc((count + 1) * sizeof(*group));
	size_t *places = (size_t *)store_alloc((count + 1) * sizeof(*places));
	bool *done = (bool *)store_alloc(count + 1), *keep = (bool *)store_alloc(count + 1);
	int rc = 0;

	for (size_t i = 0; i < count && rc == 0; i++) {
		size_t members = 0, kept = 0;

		for (size_t k = i; k < count && !done[i]; k++)
			if (!done[k] && same_group(f, &list[i], &list[k])) {
				places[members] = k;
				group[members++] = list[k];
			}
		store_policy_apply(&f->policy, group, members, store_now().seconds, keep);
		for (size_t k = 0; k < members; k++) {
			done[places[k]] = true;
			stays[places[k]] = keep[k];
			kept += keep[k];
		}
		if (members > 0 && kept == 0)
			rc = store_fail(
				STORE_E_INVAL,
				"that keeps none of the snapshots of %s, %s: nothing was forgotten; name those that "
				"should go",
				list[i].host, list[i].paths_count > 0 ? list[i].paths[0] : "standard input");
	}
	free(group);
	free(places);
	free(done);
	free(keep);
	return rc;
}

static int apply(struct forgetting *f, struct store *s, const struct store_snapshot *list, size_t count)
{
	bool *stays = (bool *)store_alloc(count + 1);
	int rc = judge(f, list, count, stays);

	for (size_t i = 0; i < count && rc == 0; i++)
		if (!stays[i])
			rc = forget_one(f, s, &list[i]);
	free(stays);
	return rc;
}

static int forget(struct forgetting *f, struct store *s, char **names, int count)
{
	const struct store_filter filter = cli_repo_filter(&f->repo);
	struct store_snapshot *list, one;
	struct store_listed *all = NULL;
	size_t found = 0;
	int rc = cli_repo_lock(&f->repo, s, f->prune);

	if (rc == 0 && count > 0)
		rc = store_list_all(s->backend, STORE_SNAPSHOT, &all, &found);
	f->found = found;
	free(all);
	if (rc != 0)
		return cli_repo_failed(&f->repo, rc);
	if (f->repo.json)
		printf("{\"removed\": [");
	for (int i = 0; i < count && rc == 0; i++) {
		rc = store_snapshot_find(s, names[i], &filter, &one);
		if (rc == 0) {
			rc = forget_one(f, s, &one);
			store_snapshot_free(&one);
		}
	}
	if (rc == 0 && !store_policy_empty(&f->policy) && (rc = store_snapshots(s, &filter, &list, &found)) == 0) {
		f->found = found;
		rc = apply(f, s, list, found);
		store_snapshots_free(list, found);
	}
	if (f->repo.json)
		printf("], \"kept\": %llu%s", (unsigned long long)(f->found - g4_min64(f->found, f->removed)),
		       f->prune && rc == 0 ? ", \"prune\": " : "}\n");
	else if (rc == 0 && !f->repo.quiet)
		printf("%llu %s %s\n", (unsigned long long)f->removed, g4_counted(f->removed, "snapshot", "snapshots"),
		       f->prune_options.dry_run ? "would be forgotten" : "forgotten");
	if (rc != 0)
		return cli_repo_failed(&f->repo, rc);
	if (!f->prune)
		return G4_EXIT_OK;
	const int status = prune(&f->repo, s, &f->prune_options);
	if (f->repo.json)
		puts(status == G4_EXIT_OK ? "}" : "null}");
	return status;
}

static int take_policy(struct forgetting *f, int option, char **argv)
{
	uint32_t *const counts[] = {&f->policy.last,   &f->policy.hourly,  &f->policy.daily,
				    &f->policy.weekly, &f->policy.monthly, &f->policy.yearly};
	uint64_t number;

	if (option >= OPT_KEEP_LAST && option <= OPT_KEEP_YEARLY) {
		if (strcmp(optarg, "unlimited") == 0)
			number = UINT32_MAX;
		else if (!cli_parse_number(optarg, 1000000, &number))
			return g4_cli_usage("forget", "'%s' is no number of snapshots", optarg);
		*counts[option - OPT_KEEP_LAST] = (uint32_t)number;
		return G4_EXIT_OK;
	}
	switch (option) {
	case OPT_KEEP_WITHIN:
	case OPT_KEEP_WITHIN_HOURLY:
	case OPT_KEEP_WITHIN_DAILY:
	case OPT_KEEP_WITHIN_WEEKLY:
	case OPT_KEEP_WITHIN_MONTHLY:
	case OPT_KEEP_WITHIN_YEARLY:
		return parse_within(optarg, option == OPT_KEEP_WITHIN ?
						    &f->policy.within_seconds :
						    &f->policy.within[option - OPT_KEEP_WITHIN_HOURLY]) ?
			       G4_EXIT_OK :
			       g4_cli_usage("forget", "'%s' is no time as in 2y5m7d3h", optarg);
	case OPT_KEEP_TAG:
		if (f->policy.tags_count == CLI_LIST_MAX)
			return g4_cli_usage("forget", "more than %d times --keep-tag", CLI_LIST_MAX);
		f->tags[f->policy.tags_count++] = optarg;
		return G4_EXIT_OK;
	case OPT_GROUP_BY:
		return parse_groups(f, optarg) ?
			       G4_EXIT_OK :
			       g4_cli_usage("forget", "'%s' names no groups: host, paths, tags", optarg);
	case OPT_PRUNE:
		f->prune = true;
		return G4_EXIT_OK;
	default:
		switch (take_prune("forget", option, optarg, &f->prune_options)) {
		case 1:
			return G4_EXIT_OK;
		case 0:
			return g4_cli_bad_option("forget", option, argv);
		default:
			return G4_EXIT_USAGE;
		}
	}
}

int cli_forget(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_REPO_LONG,
		CLI_FILTER_LONG,
		{"keep-last", required_argument, NULL, OPT_KEEP_LAST},
		{"keep-hourly", required_argument, NULL, OPT_KEEP_HOURLY},
		{"keep-daily", required_argument, NULL, OPT_KEEP_DAILY},
		{"keep-weekly", required_argument, NULL, OPT_KEEP_WEEKLY},
		{"keep-monthly", required_argument, NULL, OPT_KEEP_MONTHLY},
		{"keep-yearly", required_argument, NULL, OPT_KEEP_YEARLY},
		{"keep-within", required_argument, NULL, OPT_KEEP_WITHIN},
		{"keep-within-hourly", required_argument, NULL, OPT_KEEP_WITHIN_HOURLY},
		{"keep-within-daily", required_argument, NULL, OPT_KEEP_WITHIN_DAILY},
		{"keep-within-weekly", required_argument, NULL, OPT_KEEP_WITHIN_WEEKLY},
		{"keep-within-monthly", required_argument, NULL, OPT_KEEP_WITHIN_MONTHLY},
		{"keep-within-yearly", required_argument, NULL, OPT_KEEP_WITHIN_YEARLY},
		{"keep-tag", required_argument, NULL, OPT_KEEP_TAG},
		{"group-by", required_argument, NULL, OPT_GROUP_BY},
		{"prune", no_argument, NULL, OPT_PRUNE},
		PRUNE_LONG,
		{NULL, 0, NULL, 0}};
	struct forgetting f = {
		.by_host = true, .by_paths = true, .prune_options = {.max_unused = CLI_MAX_UNUSED, .level = CLI_LEVEL}};
	struct store *s;
	int option, status = G4_EXIT_OK;

	f.policy.tags = f.tags;
	cli_repo_init(&f.repo, "forget");
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "n", long_options, NULL)) != -1)
		if (!cli_repo_take(&f.repo, option, optarg))
			status = take_policy(&f, option, argv);
	if (status != G4_EXIT_OK)
		return status;
	if ((optind == argc) == store_policy_empty(&f.policy))
		return g4_cli_usage("forget", optind == argc ? "say which snapshots, or what to keep: nothing is kept "
							       "otherwise" :
							       "it takes snapshots or --keep-..., not both");
	status = cli_repo_open(&f.repo, &s);
	if (status == G4_EXIT_OK) {
		status = forget(&f, s, argv + optind, argc - optind);
		cli_repo_close(&f.repo, s);
	}
	return g4_cli_finish_output("forget", status);
}

/* --------------------------------------------------------------------------------------------------------- unlock */

int cli_unlock(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_REPO_LONG, {"remove-all", no_argument, NULL, OPT_REMOVE_ALL}, {NULL, 0, NULL, 0}};
	uint64_t removed, left;
	struct cli_repo repo;
	struct store *s;
	bool all = false;
	int option;

	cli_repo_init(&repo, "unlock");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1) {
		if (option == OPT_REMOVE_ALL)
			all = true;
		else if (!cli_repo_take(&repo, option, optarg))
			return g4_cli_bad_option("unlock", option, argv);
	}
	if (optind != argc)
		return g4_cli_usage("unlock", "it takes no argument");
	int status = cli_repo_open(&repo, &s);
	if (status != G4_EXIT_OK)
		return status;
	const int rc = store_locks_clear(s, all, &removed, &left);
	if (rc != 0)
		status = cli_repo_failed(&repo, rc);
	else if (repo.json)
		printf("{\"removed\": %llu, \"left\": %llu}\n", (unsigned long long)removed, (unsigned long long)left);
	else if (!repo.quiet)
		printf("%llu %s removed, %llu left\n", (unsigned long long)removed,
		       g4_counted(removed, "lock", "locks"), (unsigned long long)left);
	cli_repo_close(&repo, s);
	return g4_cli_finish_output("unlock", status);
}
