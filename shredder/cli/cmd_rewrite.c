/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shredder rewrite, repair and recover: snapshots without what somebody does not want in them, without what the repository has lost, and of
 * directories that no snapshot has any more. A new snapshot comes first, an old one goes after it: a crash between the two leaves both.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"
#include "store/backend.h"
#include "store/maintain.h"
#include "store/rewrite.h"

#define REWRITE_SHARED_HELP                                                                                            \
	"      --forget           remove the old snapshot when the new one is there\n"                                 \
	"  -n, --dry-run          tell what would be left out, and change nothing\n"

const char cli_help_rewrite[] =
	"[OPTION]... [SNAPSHOT]...\n\n"
	"Makes new snapshots of those that are named, or of all that match, without what is excluded, or of another host or time.\n"
	"The old ones stay, and the new ones have the tag 'rewritten'; with --forget the old ones go, and no tag is added. 'shredder\n"
	"prune' removes what is in none any more.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
	"  -e, --exclude PATTERN  leave out what matches, as for backup; \"/...\" from the root of the snapshot\n"
	"      --iexclude PATTERN  the same, letters of either case alike\n"
	"      --exclude-file FILE  patterns, one a line\n"
	"      --new-host NAME    of this host\n"
	"      --new-time TIME    of this time, \"2026-01-31 12:00:00\"\n" REWRITE_SHARED_HELP
	"      --help             show this\n";

const char cli_help_repair[] =
	"[OPTION]... packs [PACK]...\n"
	"       shredder repair [OPTION]... snapshots [SNAPSHOT]...\n\n"
	"After 'shredder check --repair', which mends what has parity, and makes a new index.\n\n"
	"packs: reads all packs, or those that are named. What can be read of those that are damaged goes into new packs, and the rest\n"
	"is lost: the next backup of it stores it again, and the snapshots that had it are whole again. Until then they are named, as\n"
	"what has lost something. Packs that cannot be read at the moment stay, unless they are named. Needs the repository alone.\n\n"
	"snapshots: makes new snapshots of those that are named, or of all that match, without what the repository has lost. A file\n"
	"keeps its size, with zeros for lost chunks, and is read again by the next backup; of directories the names that are left\n"
	"stay. The new snapshots have the tag 'repaired', which a restore warns of; the old ones stay, unless --forget is given.\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP
	"  -d, --read-data        snapshots: read every chunk: what is damaged in its pack is lost as well\n"
	"  -t, --threads N        packs: [one a processor]\n" REWRITE_SHARED_HELP
	"      --help             show this\n";

const char cli_help_recover[] =
	"[OPTION]...\n\n"
	"Makes a snapshot, with the tag 'recovered', of all directories that no snapshot has: of snapshots that were forgotten, until\n"
	"a prune, and of backups that were cut off. Each is below the name of its blob. Where something of them is lost, it has the\n"
	"tag 'repaired' as well.\n\n" CLI_REPO_HELP
	"  -n, --dry-run          tell how many there are, and store nothing\n"
	"      --help             show this\n";

enum { OPT_IEXCLUDE = CLI_OPT_REPO_FREE, OPT_EXCLUDE_FILE, OPT_NEW_HOST, OPT_NEW_TIME, OPT_FORGET };

struct rewriting {
	struct cli_repo repo;
	const char *tag;
	struct store_excludes excludes;
	struct store_rewrite_options options;
	struct store_looked looked;
	const char *new_host;
	bool new_time, forget;
	uint64_t threads; /* 0: not given */
	struct store_time time;
	uint64_t changed, told, empty; /* empty: snapshots of which nothing would be left */
};

static void tell(void *user, const char *path, const char *sentence)
{
	struct rewriting *w = (struct rewriting *)user;

	w->told++;
	if (w->repo.json || w->repo.quiet)
		return;
	cli_print_name(stdout, path);
	printf(": %s\n", sentence);
}

/* --------------------------------------------------------------------------------------------------- rewrite and repair */

static void add_tag(struct store_snapshot *snapshot, const char *tag)
{
	for (size_t i = 0; i < snapshot->tags_count; i++)
		if (strcmp(snapshot->tags[i], tag) == 0)
			return;
	snapshot->tags = (char **)store_realloc(snapshot->tags, (snapshot->tags_count + 1) * sizeof(*snapshot->tags));
	snapshot->tags[snapshot->tags_count++] = store_strdup(tag);
}

static void print_changed(struct rewriting *w, const struct store_id *old, const struct store_id *fresh)
{
	char before[STORE_HEX_BYTES], after[STORE_HEX_BYTES];

	store_hex(old, before);
	store_hex(fresh, after);
	if (w->repo.json && w->options.dry_run)
		printf("%s\n  {\"old\": \"%s\", \"snapshot\": null}", w->changed == 0 ? "" : ",", before);
	else if (w->repo.json)
		printf("%s\n  {\"old\": \"%s\", \"snapshot\": \"%s\"}", w->changed == 0 ? "" : ",", before, after);
	else if (!w->repo.quiet && w->options.dry_run)
		printf("%.16s would change\n", before);
	else if (!w->repo.quiet)
		printf("%.16s is %.16s now%s\n", before, after, w->forget ? "" : ", and is there still");
	w->changed++;
}

static int rewrite(struct rewriting *w, struct store *s, struct store_snapshot *snapshot)
{
	const struct store_id old = snapshot->name;
	bool differs = false;
	char hex[STORE_HEX_BYTES];
	int rc = store_rewrite(s, &w->options, snapshot);

	if (rc == STORE_E_NONE) { /* the others are not worse off for that */
		fflush(stdout);
		g4_cli_error(w->repo.command, "nothing would be left of snapshot %.16s; 'shredder forget' removes it",
			     store_hex(&old, hex));
		w->empty++;
		return 0;
	}
	if (rc < 0)
		return rc;
	differs = rc == 1;
	if (w->new_host != NULL && strcmp(w->new_host, snapshot->host) != 0) {
		free(snapshot->host);
		snapshot->host = store_strdup(w->new_host);
		differs = true;
	}
	if (w->new_time && (snapshot->time.seconds != w->time.seconds || snapshot->time.ns != w->time.ns)) {
		snapshot->time = w->time;
		differs = true;
	}
	if (!differs)
		return 0;
	if (!w->forget || w->options.mend) /* what a repair has lost must be seen, also when the old one is gone */
		add_tag(snapshot, w->tag);
	rc = store_snapshot_texts(snapshot->host, snapshot->paths, snapshot->paths_count, snapshot->tags,
				  snapshot->tags_count);
	if (rc == 0 && !w->options.dry_run)
		rc = w->forget ? store_snapshot_replace(s, snapshot) : store_snapshot_put(s, snapshot);
	if (rc == 0)
		print_changed(w, &old, &snapshot->name);
	return rc;
}

/* All are found before the first one changes. */
static int rewrite_all(struct rewriting *w, struct store *s, char **names, int count)
{
	struct store_snapshot *list = NULL;
	size_t found = 0;
	/* two that remove at once would leave a snapshot each */
	int rc = cli_repo_lock(&w->repo, s, w->forget && !w->options.dry_run);

	if (rc == 0)
		rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = cli_snapshots_choose(&w->repo, s, names, count, &list, &found);
	if (rc == 0 && found > 0 && w->forget && !w->options.dry_run)
		rc = cli_may_remove(s);
	if (w->repo.json)
		fputs("{\"changed\": [", stdout);
	for (size_t i = 0; i < found && rc == 0; i++)
		rc = rewrite(w, s, &list[i]);
	if (w->repo.json)
		printf("], \"snapshots\": %zu, \"told\": %llu, \"empty\": %llu, \"complete\": %s}\n", found,
		       (unsigned long long)w->told, (unsigned long long)w->empty, rc == 0 ? "true" : "false");
	else if (rc == 0 && !w->repo.quiet)
		printf("%llu of %zu snapshots %schanged\n", (unsigned long long)w->changed, found,
		       w->options.dry_run ? "would be " : "");
	store_snapshots_free(list, found);
	return rc != 0 ? cli_repo_failed(&w->repo, rc) : w->empty > 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}

static int take_rewrite(struct rewriting *w, int option, char **argv)
{
	switch (option) {
	case 'e':
		store_exclude_add_typed(&w->excludes, optarg, false);
		return G4_EXIT_OK;
	case OPT_IEXCLUDE:
		store_exclude_add_typed(&w->excludes, optarg, true);
		return G4_EXIT_OK;
	case OPT_EXCLUDE_FILE:
		return cli_read_patterns(w->repo.command, optarg, &w->excludes, false);
	case OPT_NEW_HOST:
		w->new_host = optarg;
		return G4_EXIT_OK;
	case OPT_NEW_TIME:
		w->new_time = true;
		return cli_parse_time(optarg, &w->time) ?
			       G4_EXIT_OK :
			       g4_cli_usage(w->repo.command, "'%s' is no time like 2026-01-31 12:00:00", optarg);
	case 'd':
		w->options.read_data = true;
		return G4_EXIT_OK;
	case 't':
		return cli_parse_number(optarg, CLI_THREADS_MAX, &w->threads) && w->threads > 0 ?
			       G4_EXIT_OK :
			       g4_cli_usage(w->repo.command, "'%s' is no number of threads", optarg);
	case OPT_FORGET:
		w->forget = true;
		return G4_EXIT_OK;
	case 'n':
		w->options.dry_run = true;
		return G4_EXIT_OK;
	default:
		return g4_cli_bad_option(w->repo.command, option, argv);
	}
}

static void begin(struct rewriting *w, const char *command)
{
	memset(w, 0, sizeof(*w));
	cli_repo_init(&w->repo, command);
	w->options.level = CLI_LEVEL;
	w->options.told = tell;
	w->options.user = w;
}

int cli_rewrite(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     {"exclude", required_argument, NULL, 'e'},
						     {"iexclude", required_argument, NULL, OPT_IEXCLUDE},
						     {"exclude-file", required_argument, NULL, OPT_EXCLUDE_FILE},
						     {"new-host", required_argument, NULL, OPT_NEW_HOST},
						     {"new-time", required_argument, NULL, OPT_NEW_TIME},
						     {"forget", no_argument, NULL, OPT_FORGET},
						     {"dry-run", no_argument, NULL, 'n'},
						     {NULL, 0, NULL, 0}};
	struct rewriting w;
	struct store *s;
	int option, status = G4_EXIT_OK;

	begin(&w, "rewrite");
	w.tag = "rewritten";
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "e:n", long_options, NULL)) != -1)
		if (!cli_repo_take(&w.repo, option, optarg))
			status = take_rewrite(&w, option, argv);
	w.options.excludes = &w.excludes;
	if (status == G4_EXIT_OK && w.excludes.count == 0 && w.new_host == NULL && !w.new_time)
		status = g4_cli_usage("rewrite", "what should change? Say --exclude, --new-host or --new-time");
	if (status == G4_EXIT_OK && (status = cli_repo_open(&w.repo, &s)) == G4_EXIT_OK) {
		status = rewrite_all(&w, s, argv + optind, argc - optind);
		cli_repo_close(&w.repo, s);
	}
	store_excludes_free(&w.excludes);
	return g4_cli_finish_output("rewrite", status);
}

/* ------------------------------------------------------------------------------------------------------- repair of packs */

struct salvaging {
	struct rewriting *w;
	struct g4_progress progress;
	uint64_t printed;
	char *path; /* the first thing that a snapshot has lost */
};

static void tell_pack(void *user, const char *sentence)
{
	struct salvaging *v = (struct salvaging *)user;

	g4_progress_clear(&v->progress);
	if (v->w->repo.json) {
		fputs(v->printed++ == 0 ? "" : ", ", stdout);
		cli_print_json_text(sentence);
	} else {
		puts(sentence);
	}
}

static void show_salvage(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct salvaging *)user)->progress, done, total);
}

static void tell_loss(void *user, const char *path, const char *sentence)
{
	struct salvaging *v = (struct salvaging *)user;

	(void)sentence;
	if (v->w->told++ == 0)
		v->path = store_strdup(path);
}

static void print_loss(struct salvaging *v, const struct store_snapshot *snapshot)
{
	char hex[STORE_HEX_BYTES], time[32];
	const char *path = v->path != NULL ? v->path : "/";

	store_hex(&snapshot->name, hex);
	if (v->w->repo.json) {
		printf("%s\n  {\"snapshot\": \"%s\", \"entries\": %llu, \"first\": ", v->w->changed == 0 ? "" : ",",
		       hex, (unsigned long long)v->w->told);
		cli_print_json_text(path);
		putchar('}');
	} else {
		printf("snapshot %.16s of %s has lost something of %llu %s, first ", hex,
		       cli_format_time(&snapshot->time, time), (unsigned long long)v->w->told,
		       g4_counted(v->w->told, "file or directory", "files and directories"));
		cli_print_name(stdout, path);
		putchar('\n');
	}
	v->w->changed++;
	free(v->path);
	v->path = NULL;
	v->w->told = 0;
}

/* Which snapshots are not whole, by what a repair of them would tell. */
static int name_snapshots(struct salvaging *v, struct store *s)
{
	const struct store_filter all = {0};
	struct store_rewrite_options options = {
		.mend = true, .names = true, .looked = &v->w->looked, .dry_run = true, .told = tell_loss, .user = v};
	struct store_snapshot *list = NULL;
	size_t count = 0;
	int rc = store_snapshots(s, &all, &list, &count);

	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = store_rewrite(s, &options, &list[i]);
		const bool nothing_left = rc == STORE_E_NONE;
		if (rc == 1 || nothing_left || v->w->told > 0)
			print_loss(v, &list[i]);
		rc = rc == 1 || nothing_left ? 0 : rc;
	}
	store_snapshots_free(list, count);
	return rc;
}

static void print_salvage(const struct salvaging *v, const struct store_salvage_result *r)
{
	const bool would = v->w->options.dry_run;
	char bytes[G4_SIZE_TEXT_BYTES];

	if (v->w->repo.json) {
		printf("], \"read_packs\": %llu, \"damaged_packs\": %llu, \"missing_packs\": %llu, \"mendable_packs\": %llu, "
		       "\"unread_packs\": %llu, \"moved_blobs\": %llu, \"lost_blobs\": %llu, \"dry_run\": %s}\n",
		       (unsigned long long)r->read_packs, (unsigned long long)r->damaged_packs,
		       (unsigned long long)r->missing_packs, (unsigned long long)r->mendable_packs,
		       (unsigned long long)r->unread_packs, (unsigned long long)r->moved_blobs,
		       (unsigned long long)r->lost_blobs, would ? "true" : "false");
		return;
	}
	if (v->w->repo.quiet)
		return;
	printf("read %s of %llu packs: %llu damaged and %llu missing ones %s; %llu %s %s, %llu %s lost\n",
	       g4_format_size(r->read_bytes, bytes, sizeof(bytes)), (unsigned long long)r->read_packs,
	       (unsigned long long)r->damaged_packs, (unsigned long long)r->missing_packs,
	       would ? "would go" : "are gone", (unsigned long long)r->moved_blobs,
	       g4_counted(r->moved_blobs, "blob", "blobs"),
	       would ? "would be in new packs" : g4_counted(r->moved_blobs, "is in a new pack", "are in new packs"),
	       (unsigned long long)r->lost_blobs, would ? "would be" : g4_counted(r->lost_blobs, "is", "are"));
	if (v->w->changed > 0 && !would)
		puts("back up again what is still there: that stores what is lost anew, and makes these snapshots whole; for what stays "
		     "lost 'shredder repair snapshots' makes snapshots without it");
}

/* Those that are named by their beginnings; the caller frees them. */
static int find_packs(struct store *s, char **names, int count, struct store_id **packs)
{
	int rc = 0;

	*packs = (struct store_id *)store_alloc(((size_t)count + 1) * sizeof(**packs));
	for (int i = 0; i < count && rc == 0; i++)
		rc = store_find_name(s->backend, STORE_PACK, names[i], &(*packs)[i]);
	return rc;
}

static int salvage(struct rewriting *w, struct store *s, char **names, int count)
{
	struct salvaging v = {.w = w};
	struct store_salvage_options options = {.packs_count = (size_t)count,
						.dry_run = w->options.dry_run,
						.threads = (uint32_t)w->threads,
						.level = w->options.level,
						.told = tell_pack,
						.progress = show_salvage,
						.user = &v};
	struct store_salvage_result result = {0};
	struct store_id *packs = NULL;
	int rc = cli_repo_lock(&w->repo, s, !w->options.dry_run);

	if (rc == 0 && !w->options.dry_run)
		rc = cli_may_remove(s);
	if (rc == 0)
		rc = find_packs(s, names, count, &packs);
	if (rc != 0) {
		free(packs);
		return cli_repo_failed(&w->repo, rc);
	}
	options.packs = packs;
	if (w->repo.json)
		fputs("{\"told\": [", stdout);
	cli_progress_start(&w->repo, &v.progress, "reading packs");
	rc = store_salvage(s, &options, &result);
	g4_progress_clear(&v.progress);
	free(packs);
	if (w->repo.json)
		fputs("], \"snapshots\": [", stdout);
	/* whatever was lost now: the index may have been made anew, without a pack that was gone by then */
	if (rc == 0)
		rc = name_snapshots(&v, s);
	if (rc == 0 || w->repo.json)
		print_salvage(&v, &result);
	free(v.path);
	return rc != 0						    ? cli_repo_failed(&w->repo, rc) :
	       result.unread_packs > 0 || result.mendable_packs > 0 ? G4_EXIT_FAILURE :
								      G4_EXIT_OK;
}

int cli_repair(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     {"read-data", no_argument, NULL, 'd'},
						     {"threads", required_argument, NULL, 't'},
						     {"forget", no_argument, NULL, OPT_FORGET},
						     {"dry-run", no_argument, NULL, 'n'},
						     {NULL, 0, NULL, 0}};
	struct rewriting w;
	struct store *s;
	int option, status = G4_EXIT_OK;

	begin(&w, "repair");
	w.tag = CLI_TAG_REPAIRED;
	w.options.mend = true;
	w.options.looked = &w.looked;
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "dnt:", long_options, NULL)) != -1)
		if (!cli_repo_take(&w.repo, option, optarg))
			status = take_rewrite(&w, option, argv);
	if (status != G4_EXIT_OK)
		return status;
	const char *what = optind < argc ? argv[optind] : "";
	const bool packs = strcmp(what, "packs") == 0;
	if (!packs && strcmp(what, "snapshots") != 0)
		return g4_cli_usage(
			"repair",
			"it takes packs or snapshots; the index is what 'shredder check --repair' makes anew");
	const struct store_filter filter = cli_repo_filter(&w.repo);
	if (packs &&
	    (w.forget || w.options.read_data || filter.host != NULL || filter.tags_count + filter.paths_count > 0))
		return g4_cli_usage("repair", "of the options for snapshots packs take --dry-run alone");
	if (!packs && w.threads > 0)
		return g4_cli_usage("repair", "--threads is for packs");
	if ((status = cli_repo_open(&w.repo, &s)) == G4_EXIT_OK) {
		status = (packs ? salvage : rewrite_all)(&w, s, argv + optind + 1, argc - optind - 1);
		store_looked_free(&w.looked);
		cli_repo_close(&w.repo, s);
	}
	return g4_cli_finish_output("repair", status);
}

/* -------------------------------------------------------------------------------------------------------------- recover */

static int recover(struct rewriting *w, struct store *s)
{
	struct store_snapshot snapshot = {0};
	char hex[STORE_HEX_BYTES];
	uint64_t found = 0;
	int rc = cli_repo_lock(&w->repo, s, false);

	if (rc == 0)
		rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = store_recover(s, &w->options, &snapshot, &found);
	const bool stored = rc == 0 && found > 0 && !w->options.dry_run;
	if (stored && w->told > 0)
		add_tag(&snapshot, CLI_TAG_REPAIRED);
	if (stored)
		rc = store_snapshot_put(s, &snapshot);
	if (rc == 0 && w->repo.json)
		printf("{\"directories\": %llu, \"files\": %llu, \"snapshot\": ", (unsigned long long)found,
		       (unsigned long long)snapshot.files);
	if (rc == 0 && w->repo.json && stored)
		printf("\"%s\"}\n", store_hex(&snapshot.name, hex));
	else if (rc == 0 && w->repo.json)
		puts("null}");
	else if (rc == 0 && !w->repo.quiet)
		printf("%llu %s, with %llu %s, %s in no snapshot\n", (unsigned long long)found,
		       g4_counted(found, "directory", "directories"), (unsigned long long)snapshot.files,
		       g4_counted(snapshot.files, "file", "files"), g4_counted(found, "is", "are"));
	if (stored && rc == 0 && !w->repo.json && !w->repo.quiet)
		printf("snapshot %.16s has them\n", store_hex(&snapshot.name, hex));
	store_snapshot_free(&snapshot);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(&w->repo, rc);
}

int cli_recover(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_REPO_LONG, {"dry-run", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
	struct rewriting w;
	struct store *s;
	int option, status = G4_EXIT_OK;

	begin(&w, "recover");
	while (status == G4_EXIT_OK && (option = getopt_long(argc, argv, CLI_REPO_SHORT "n", long_options, NULL)) != -1)
		if (!cli_repo_take(&w.repo, option, optarg))
			status = take_rewrite(&w, option, argv);
	if (status == G4_EXIT_OK && optind < argc)
		status = g4_cli_usage("recover", "it takes no arguments");
	if (status == G4_EXIT_OK && (status = cli_repo_open(&w.repo, &s)) == G4_EXIT_OK) {
		status = recover(&w, s);
		cli_repo_close(&w.repo, s);
	}
	return g4_cli_finish_output("recover", status);
}
