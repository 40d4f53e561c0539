/* SPDX-License-Identifier: Apache-2.0 */
/* shredder snapshots, ls, find, diff, stats: what is in a repository. None of them needs a lock: files never change. */
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"
#include "store/exclude.h"
#include "store/maintain.h"
#include "store/marks.h"

const char cli_help_snapshots[] = "[OPTION]... [SNAPSHOT]...\n\n"
				  "Lists the snapshots, the oldest first.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
				  "      --latest N         the last N of each host and set of paths\n"
				  "      --help             show this\n";
const char cli_help_ls[] = "[OPTION]... SNAPSHOT[:PATH]\n"
			   "       shredder ls [OPTION]... SNAPSHOT PATH\n\n"
			   "Lists what is in a snapshot, or below PATH in it.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
			   "  -l, --long             with mode, owner, size and time\n"
			   "  -d, --directory        only what is in the directory itself\n"
			   "  -0, --null             names end with a zero byte\n"
			   "      --help             show this\n";
const char cli_help_find[] =
	"[OPTION]... PATTERN...\n\n"
	"Tells in which snapshots there is something that matches a pattern, as in .gitignore.\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP "  -i, --ignore-case      letters of either case are alike\n"
	"      --help             show this\n";
const char cli_help_diff[] =
	"[OPTION]... SNAPSHOT[:PATH] SNAPSHOT[:PATH]\n\n"
	"Tells what the second one has more (+), less (-), otherwise (M content, U only metadata, T another type).\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP "      --help             show this\n";
const char cli_help_stats[] =
	"[OPTION]... [SNAPSHOT]...\n\n"
	"Tells how large the snapshots and the repository are; of snapshots that are named or chosen by an option, what of the\n"
	"repository they need, and how much of that no other snapshot does: what it would free to forget and prune them.\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP "      --help             show this\n";

enum { OPT_LATEST = CLI_OPT_REPO_FREE };

enum look { LOOK_SNAPSHOTS, LOOK_LS, LOOK_FIND, LOOK_DIFF, LOOK_STATS };

struct looking {
	struct cli_repo repo;
	struct store *s;
	struct store_codec codec;
	bool detailed, flat;
	uint64_t latest; /* of each host and set of paths; 0: all */
	char end;
	uint64_t printed;
	struct store_excludes patterns; /* to be found */
	bool folded;
	const struct store_snapshot *snapshot;
	uint64_t changes[5];
};

/* ------------------------------------------------------------------------------------------------------ snapshots */

static void print_snapshot(const struct looking *l, const struct store_snapshot *snapshot, bool first)
{
	char hex[STORE_HEX_BYTES], time[32], bytes[G4_SIZE_TEXT_BYTES];

	store_hex(&snapshot->name, hex);
	if (l->repo.json) {
		fputs(first ? "\n  " : ",\n  ", stdout);
		cli_print_json_snapshot(snapshot);
		return;
	}
	printf("%.16s  %s  %9s  %9llu %s  ", hex, cli_format_time(&snapshot->time, time),
	       g4_format_size(snapshot->bytes, bytes, sizeof(bytes)), (unsigned long long)snapshot->files,
	       g4_counted(snapshot->files, "file ", "files"));
	cli_print_name(stdout, snapshot->host);
	for (size_t i = 0; i < snapshot->paths_count; i++) {
		putchar(' ');
		cli_print_name(stdout, snapshot->paths[i]);
	}
	for (size_t i = 0; i < snapshot->tags_count; i++) {
		fputs(i == 0 ? "  #" : ",", stdout);
		cli_print_name(stdout, snapshot->tags[i]);
	}
	if (snapshot->unread > 0)
		printf("  (%llu could not be read)", (unsigned long long)snapshot->unread);
	putchar('\n');
}

/* Whether fewer than `latest` of its host and paths are behind it in the list, which is sorted by time. */
static bool is_latest(const struct looking *l, const struct store_snapshot *list, size_t count, size_t place)
{
	const struct store_snapshot *one = &list[place];
	uint64_t later = 0;

	for (size_t i = place + 1; i < count && l->latest > 0 && later < l->latest; i++)
		later += strcmp(list[i].host, one->host) == 0 &&
			 cli_same_texts(list[i].paths, list[i].paths_count, one->paths, one->paths_count);
	return l->latest == 0 || later < l->latest;
}

static int look_snapshots(struct looking *l, char **names, int count)
{
	const struct store_filter filter = cli_repo_filter(&l->repo);
	struct store_snapshot *list, one;
	size_t found;
	int rc = 0;

	if (l->repo.json)
		putchar('[');
	if (count == 0) {
		rc = store_snapshots(l->s, &filter, &list, &found);
		for (size_t i = 0; i < found; i++)
			if (is_latest(l, list, found, i))
				print_snapshot(l, &list[i], l->printed++ == 0);
		store_snapshots_free(list, found);
	}
	for (int i = 0; i < count && rc == 0; i++) {
		rc = store_snapshot_find(l->s, names[i], &filter, &one);
		if (rc == 0) {
			print_snapshot(l, &one, i == 0);
			store_snapshot_free(&one);
		}
	}
	if (l->repo.json)
		puts("\n]");
	return rc;
}

/* ------------------------------------------------------------------------------------------------------------- ls */

static void print_node(const char *path, const struct store_node *node)
{
	char mode[11], time[32], target[STORE_TARGET_MAX + 1];

	printf("%s %5u %5u %12llu %s ", cli_format_mode(node, mode), node->uid, node->gid,
	       (unsigned long long)node->size, cli_format_time(&node->mtime, time));
	cli_print_name(stdout, path);
	if (node->type == STORE_NODE_LINK) {
		memcpy(target, node->target, node->target_bytes);
		target[node->target_bytes] = 0;
		fputs(" -> ", stdout);
		cli_print_name(stdout, target);
	}
}

static int print_entry(void *user, const char *path, const struct store_node *node)
{
	struct looking *l = (struct looking *)user;

	if (l->repo.json) {
		fputs(l->printed++ == 0 ? "\n  " : ",\n  ", stdout);
		cli_print_json_node(path, node);
	} else {
		if (l->detailed)
			print_node(path, node);
		else if (l->end == 0)
			fputs(path, stdout);
		else
			cli_print_name(stdout, path);
		putchar(l->end);
	}
	return ferror(stdout) ? STORE_E_STOPPED : l->flat ? 1 : 0;
}

/* What SNAPSHOT:PATH names. */
struct named {
	struct store_snapshot snapshot;
	const char *subpath;
	struct store_node node;
	struct store_buf hold; /* the entry */
};

/* `path`: a word of its own instead of what is behind the first one's colon; NULL. Finds all snapshots, then loads the index, which has all that they need then, then finds the entries. */
static int find_entries(struct looking *l, char *const *texts, int count, const char *path, struct named *named)
{
	int status = G4_EXIT_OK, rc = 0;

	memset(named, 0, (size_t)count * sizeof(*named));
	for (int i = 0; i < count && status == G4_EXIT_OK; i++)
		status = cli_snapshot_find(&l->repo, l->s, texts[i], &named[i].snapshot, &named[i].subpath);
	if (status != G4_EXIT_OK)
		return status;
	if (path != NULL)
		named[0].subpath = path;
	rc = store_index_load(l->s, NULL, NULL, NULL);
	for (int i = 0; i < count && rc == 0; i++) {
		const struct store_content root = store_snapshot_root(&named[i].snapshot);

		rc = store_path_find(l->s, &l->codec, &root, named[i].subpath, &named[i].node, &named[i].hold);
	}
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(&l->repo, rc);
}

static void free_named(struct named *named, int count)
{
	for (int i = 0; i < count; i++) {
		store_buf_free(&named[i].hold);
		store_snapshot_free(&named[i].snapshot);
	}
}

/* "/a/b/" as "/a/b", "/" as "". */
static char *trim(const char *path)
{
	char *text = (char *)store_alloc(strlen(path) + 2);

	sprintf(text, "%s%s", path[0] == '/' ? "" : "/", path);
	for (size_t bytes = strlen(text); bytes > 0 && text[bytes - 1] == '/'; bytes--)
		text[bytes - 1] = 0;
	return text;
}

static int look_ls(struct looking *l, char *const *texts, int count)
{
	struct named named;
	int status = find_entries(l, texts, 1, count == 2 ? texts[1] : NULL, &named);

	if (status == G4_EXIT_OK) {
		char *path = trim(named.subpath);
		int rc;

		if (l->repo.json)
			putchar('[');
		rc = named.node.type == STORE_NODE_DIR ?
			     store_visit(l->s, &l->codec, &named.node.content, path, print_entry, l) :
			     print_entry(l, path, &named.node);
		if (l->repo.json)
			puts("\n]");
		status = rc < 0 && rc != STORE_E_STOPPED ? cli_repo_failed(&l->repo, rc) : G4_EXIT_OK;
		free(path);
	}
	free_named(&named, 1);
	return status;
}

/* ----------------------------------------------------------------------------------------------------------- find */

static int find_one(void *user, const char *path, const struct store_node *node)
{
	struct looking *l = (struct looking *)user;
	char hex[STORE_HEX_BYTES], time[32];

	if (!store_excluded(&l->patterns, path, node->type == STORE_NODE_DIR))
		return 0;
	store_hex(&l->snapshot->name, hex);
	if (l->repo.json) {
		printf("%s\n  {\"snapshot\": \"%s\", \"entry\": ", l->printed == 0 ? "" : ",", hex);
		cli_print_json_node(path, node);
		putchar('}');
	} else {
		printf("%.16s  %s  ", hex, cli_format_time(&l->snapshot->time, time));
		print_node(path, node);
		putchar('\n');
	}
	l->printed++;
	return ferror(stdout) ? STORE_E_STOPPED : 0;
}

static int look_find(struct looking *l, char **patterns, int count)
{
	const struct store_filter filter = cli_repo_filter(&l->repo);
	struct store_snapshot *list;
	size_t found;
	int rc = store_snapshots(l->s, &filter, &list, &found);

	if (rc == 0)
		rc = store_index_load(l->s, NULL, NULL, NULL);
	for (int i = 0; i < count; i++)
		store_exclude_add_sought(&l->patterns, patterns[i], l->folded);
	if (l->repo.json)
		putchar('[');
	for (size_t i = 0; i < found && rc == 0; i++) {
		const struct store_content root = store_snapshot_root(&list[i]);

		l->snapshot = &list[i];
		rc = store_visit(l->s, &l->codec, &root, "", find_one, l);
	}
	if (l->repo.json)
		puts("\n]");
	store_snapshots_free(list, found);
	return rc;
}

/* ----------------------------------------------------------------------------------------------------------- diff */

static int print_change(void *user, enum store_change change, const char *path, const struct store_node *left,
			const struct store_node *right)
{
	static const char *const words[] = {"added", "removed", "content", "metadata", "type"};
	static const char letters[] = "+-MUT";
	struct looking *l = (struct looking *)user;
	const struct store_node *node = right != NULL ? right : left;

	if (change == STORE_INODE) /* as a copy of the tree has it */
		return 0;
	l->changes[change]++;
	if (l->repo.json) {
		printf("%s\n  {\"change\": \"%s\", \"path\": ", l->printed == 0 ? "" : ",", words[change]);
		cli_print_json_text(path);
		printf(", \"type\": \"%s\"}", store_node_word(node->type));
	} else {
		printf("%c ", letters[change]);
		cli_print_name(stdout, path);
		puts(node->type == STORE_NODE_DIR ? "/" : "");
	}
	l->printed++;
	return ferror(stdout) ? STORE_E_STOPPED : 0;
}

static int look_diff(struct looking *l, char **texts)
{
	struct named named[2];
	int status = find_entries(l, texts, 2, NULL, named), rc;

	if (status == G4_EXIT_OK && (named[0].node.type != STORE_NODE_DIR || named[1].node.type != STORE_NODE_DIR)) {
		g4_cli_error("diff", "only directories can be compared");
		status = G4_EXIT_FAILURE;
	} else if (status == G4_EXIT_OK) {
		if (l->repo.json)
			putchar('[');
		rc = store_diff(l->s, &l->codec, &named[0].node.content, &named[1].node.content, print_change, l);
		if (l->repo.json)
			puts("\n]");
		else if (rc == 0)
			printf("%llu added, %llu removed, %llu changed, %llu with other metadata\n",
			       (unsigned long long)l->changes[STORE_ADDED],
			       (unsigned long long)l->changes[STORE_REMOVED],
			       (unsigned long long)(l->changes[STORE_CONTENT] + l->changes[STORE_TYPE]),
			       (unsigned long long)l->changes[STORE_METADATA]);
		status = rc < 0 && rc != STORE_E_STOPPED ? cli_repo_failed(&l->repo, rc) : G4_EXIT_OK;
	}
	free_named(named, 2);
	return status;
}

/* ---------------------------------------------------------------------------------------------------------- stats */

struct sums {
	uint64_t blobs, raw, stored;
};

/* By the index's numbers: what the chosen snapshots use, and all others. NULL: nothing is chosen. */
struct shares {
	const uint8_t *chosen, *others;
	struct sums all, needed, own;
};

static void add(struct sums *sums, const struct store_entry *entry, uint64_t stored)
{
	sums->blobs++;
	sums->raw += entry->raw;
	sums->stored += stored;
}

static void sum_blob(void *user, uint32_t number, const struct store_entry *entry, uint64_t stored)
{
	struct shares *shares = (struct shares *)user;

	add(&shares->all, entry, stored);
	if (shares->chosen == NULL || !shares->chosen[number])
		return;
	add(&shares->needed, entry, stored);
	if (!shares->others[number])
		add(&shares->own, entry, stored);
}

static void tell_missing(void *user, const char *sentence)
{
	g4_cli_error(((const struct looking *)user)->repo.command, "%s", sentence);
}

static int sum_shares(struct looking *l, const struct store_snapshot *list, size_t count,
		      const struct store_listed *names, size_t names_count, struct shares *shares)
{
	struct store_listed *others = (struct store_listed *)store_alloc((names_count + 1) * sizeof(*others));
	struct store_listed *chosen = (struct store_listed *)store_alloc((count + 1) * sizeof(*chosen));
	struct store_marks own, other;
	size_t others_count = 0;

	for (size_t i = 0; i < count; i++)
		chosen[i].name = list[i].name;
	for (size_t i = 0; i < names_count; i++) {
		bool is_chosen = false;

		for (size_t k = 0; k < count && !is_chosen; k++)
			is_chosen = store_id_equal(&names[i].name, &chosen[k].name);
		if (!is_chosen)
			others[others_count++] = names[i];
	}
	store_marks_begin(&own, l->s, tell_missing, l);
	store_marks_begin(&other, l->s, tell_missing, l);
	store_marks_snapshots(&own, chosen, count);
	store_marks_snapshots(&other, others, others_count);
	shares->chosen = own.used;
	shares->others = other.used;
	int rc = store_index_shares(l->s, sum_blob, shares);
	if (rc == 0 && own.problems + other.problems > 0)
		rc = store_fail(STORE_E_DAMAGED, "snapshots are not whole: 'shredder check' tells more");
	store_marks_end(&own);
	store_marks_end(&other);
	free(others);
	free(chosen);
	return rc;
}

static void print_sums(const char *what, const struct sums *sums)
{
	char text[2][G4_SIZE_TEXT_BYTES];

	printf("%s%llu different %s, %s, stored as %s\n", what, (unsigned long long)sums->blobs,
	       g4_counted(sums->blobs, "blob", "blobs"), g4_format_size(sums->raw, text[0], sizeof(text[0])),
	       g4_format_size(sums->stored, text[1], sizeof(text[1])));
}

static int look_stats(struct looking *l, char **names, int count)
{
	const bool chosen = count > 0 || l->repo.host != NULL || l->repo.tags_count > 0 || l->repo.paths_count > 0;
	uint64_t bytes = 0, files = 0, packs = 0;
	char text[2][G4_SIZE_TEXT_BYTES];
	struct store_snapshot *list = NULL;
	struct store_listed *all = NULL;
	struct shares shares = {0};
	size_t found = 0, all_count = 0;
	int rc = cli_snapshots_choose(&l->repo, l->s, names, count, &list, &found);

	if (rc == 0)
		rc = store_list_all(l->s->backend, STORE_SNAPSHOT, &all, &all_count);
	if (rc == 0)
		rc = store_index_load(l->s, NULL, NULL, NULL);
	for (size_t i = 0; i < found; i++) {
		bytes += list[i].bytes;
		files += list[i].files;
	}
	if (rc == 0)
		rc = chosen ? sum_shares(l, list, found, all, all_count, &shares) :
			      store_index_shares(l->s, sum_blob, &shares);
	store_snapshots_free(list, found);
	free(all);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < store_pack_count(l->s); i++)
		packs += store_pack_at(l->s, i).bytes;
	if (l->repo.json) {
		printf("{\"snapshots\": %zu, \"files\": %llu, \"bytes\": %llu, ", found, (unsigned long long)files,
		       (unsigned long long)bytes);
		if (chosen)
			printf("\"needed_blobs\": %llu, \"needed_bytes\": %llu, \"needed_stored_bytes\": %llu, "
			       "\"own_blobs\": %llu, \"own_bytes\": %llu, \"own_stored_bytes\": %llu, ",
			       (unsigned long long)shares.needed.blobs, (unsigned long long)shares.needed.raw,
			       (unsigned long long)shares.needed.stored, (unsigned long long)shares.own.blobs,
			       (unsigned long long)shares.own.raw, (unsigned long long)shares.own.stored);
		printf("\"blobs\": %llu, \"blob_bytes\": %llu, \"stored_bytes\": %llu, \"packs\": %u, \"pack_bytes\": %llu}\n",
		       (unsigned long long)shares.all.blobs, (unsigned long long)shares.all.raw,
		       (unsigned long long)shares.all.stored, store_pack_count(l->s), (unsigned long long)packs);
		return 0;
	}
	printf("%zu %s of %llu %s, %s in all\n", found, g4_counted(found, "snapshot", "snapshots"),
	       (unsigned long long)files, g4_counted(files, "file", "files"),
	       g4_format_size(bytes, text[0], sizeof(text[0])));
	if (chosen) {
		print_sums("they need ", &shares.needed);
		print_sums("no other snapshot needs ", &shares.own);
		return 0;
	}
	print_sums("", &shares.all);
	printf("%u %s, %s\n", store_pack_count(l->s), g4_counted(store_pack_count(l->s), "pack", "packs"),
	       g4_format_size(packs, text[1], sizeof(text[1])));
	if (packs > 0)
		printf("%.2f times smaller than the snapshots\n", (double)bytes / (double)packs);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------- commands */

/* Commands that need the index load it after the snapshots are found. */
static int work(struct looking *l, enum look what, char **arguments, int count)
{
	int rc;

	switch (what) {
	case LOOK_SNAPSHOTS:
		rc = look_snapshots(l, arguments, count);
		break;
	case LOOK_LS:
		return look_ls(l, arguments, count);
	case LOOK_FIND:
		rc = look_find(l, arguments, count);
		break;
	case LOOK_DIFF:
		return look_diff(l, arguments);
	default:
		rc = look_stats(l, arguments, count);
	}
	return rc == 0 || rc == STORE_E_STOPPED ? G4_EXIT_OK : cli_repo_failed(&l->repo, rc);
}

static int look(enum look what, const char *command, int min, int max, int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     {"long", no_argument, NULL, 'l'},
						     {"directory", no_argument, NULL, 'd'},
						     {"null", no_argument, NULL, '0'},
						     {"latest", required_argument, NULL, OPT_LATEST},
						     {"ignore-case", no_argument, NULL, 'i'},
						     {NULL, 0, NULL, 0}};
	struct looking l = {.end = '\n'};
	int option;

	cli_repo_init(&l.repo, command);
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "ld0i", long_options, NULL)) != -1) {
		if (cli_repo_take(&l.repo, option, optarg))
			continue;
		if (option == OPT_LATEST && what == LOOK_SNAPSHOTS) {
			if (!cli_parse_number(optarg, 1000000, &l.latest) || l.latest == 0)
				return g4_cli_usage(command, "'%s' is no number of snapshots", optarg);
			continue;
		}
		if (option == 'i' && what == LOOK_FIND) {
			l.folded = true;
			continue;
		}
		if (what != LOOK_LS || option == '?' || option == ':' || option == OPT_LATEST || option == 'i')
			return g4_cli_bad_option(command, option == '?' || option == ':' ? option : '?', argv);
		l.detailed = l.detailed || option == 'l';
		l.flat = l.flat || option == 'd';
		l.end = option == '0' ? 0 : l.end;
	}
	const int count = argc - optind;
	if (count < min || count > max || (count == 2 && what == LOOK_LS && strchr(argv[optind], ':') != NULL))
		return g4_cli_usage(command, what == LOOK_LS ? "it takes one snapshot, or latest, and perhaps a path" :
					     min == max	     ? "it takes two snapshots" :
							       "it takes a pattern");
	int status = cli_repo_open(&l.repo, &l.s);
	if (status != G4_EXIT_OK)
		return status;
	store_codec_init(&l.codec, 0);
	status = work(&l, what, argv + optind, count);
	store_codec_free(&l.codec);
	store_excludes_free(&l.patterns);
	cli_repo_close(&l.repo, l.s);
	return g4_cli_finish_output(command, status);
}

int cli_snapshots(int argc, char **argv)
{
	return look(LOOK_SNAPSHOTS, "snapshots", 0, CLI_LIST_MAX, argc, argv);
}

int cli_ls(int argc, char **argv)
{
	return look(LOOK_LS, "ls", 1, 2, argc, argv);
}

int cli_find(int argc, char **argv)
{
	return look(LOOK_FIND, "find", 1, CLI_LIST_MAX, argc, argv);
}

int cli_diff(int argc, char **argv)
{
	return look(LOOK_DIFF, "diff", 2, 2, argc, argv);
}

int cli_stats(int argc, char **argv)
{
	return look(LOOK_STATS, "stats", 0, CLI_LIST_MAX, argc, argv);
}
