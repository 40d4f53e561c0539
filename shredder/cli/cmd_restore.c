/* SPDX-License-Identifier: Apache-2.0 */
/* shredder restore: a snapshot, or a part of it, into a directory. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock_host.h"
#include "cli/repo.h"
#include "store/restore.h"

const char cli_help_restore[] =
	"[OPTION]... --target DIR SNAPSHOT[:PATH]\n"
	"       shredder restore [OPTION]... --onto DEVICE SNAPSHOT:FILE\n\n"
	"Writes a snapshot (the beginning of its name, or latest) into a directory, or what is below PATH in it. Of files that\n"
	"are there already only what differs is written, so that an interrupted restore goes on where it was.\n"
	"Exit status 1: something could not be restored as it was.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
	"  -T, --target DIR       where to\n"
	"      --onto DEVICE      the contents of FILE onto a block device, which must be unused and large enough\n"
	"  -e, --exclude PATTERN  leave out what matches, as in .gitignore; \"/...\" from the directory that is restored\n"
	"  -i, --include PATTERN  only what matches, and what is below it\n"
	"      --iexclude PATTERN, --iinclude PATTERN\n"
	"                         the same, letters of either case alike\n"
	"      --exclude-file FILE, --include-file FILE\n"
	"                         patterns, one a line\n"
	"      --overwrite WHEN       what is there: always compare, if-changed: only what has another size or time, if-newer,\n"
	"                         never [always]\n"
	"      --delete           in directories that are restored delete what the snapshot does not have, as far as\n"
	"                         --exclude and --include take it; in / refused without one of these\n"
	"      --no-owner         all files belong to who restores them; always so without root\n"
	"      --owner-names      files belong to who has their owner's name here; else to who has the number\n"
	"      --verify           read all files again afterwards and compare them with the snapshot\n"
	"  -t, --threads N        that fetch and write [one a processor]\n" CLI_NO_LOCK_HELP
	"  -n, --dry-run          write nothing; tell what would be deleted\n"
	"  -v, --verbose          tell what is deleted\n"
	"      --help             show this\n";

enum {
	OPT_NO_OWNER = CLI_OPT_REPO_FREE,
	OPT_ONTO,
	OPT_OWNER_NAMES,
	OPT_VERIFY,
	OPT_OVERWRITE,
	OPT_DELETE,
	OPT_IEXCLUDE,
	OPT_IINCLUDE,
	OPT_EXCLUDE_FILE,
	OPT_INCLUDE_FILE
};

struct restore {
	struct cli_repo repo;
	struct store_restore_options options;
	struct store_excludes excludes, includes;
	bool verify, verbose;
	struct g4_progress progress;
	uint64_t total;
};

static void tell(void *user, const char *path, const char *sentence)
{
	struct restore *r = (struct restore *)user;

	g4_progress_clear(&r->progress);
	cli_warn("restore", path, sentence);
}

static void tell_deleted(void *user, const char *path, bool directory)
{
	struct restore *r = (struct restore *)user;

	if (r->repo.json || r->repo.quiet || !(r->verbose || r->options.dry_run))
		return;
	g4_progress_clear(&r->progress);
	fputs(r->options.dry_run ? "would delete " : "deleted ", stdout);
	cli_print_name(stdout, path);
	puts(directory ? "/" : "");
}

static void show_progress(void *user, const struct store_restore_stats *stats)
{
	struct restore *r = (struct restore *)user;

	g4_progress_step(&r->progress, g4_min64(stats->bytes, r->total), r->total);
}

static int run(struct restore *r, struct store *s, const char *text)
{
	const uint64_t began = g4_clock_ns(CLOCK_MONOTONIC);
	struct store_restore_stats stats = {0};
	struct store_verify_result verified = {0};
	struct store_snapshot snapshot = {0};
	char bytes[G4_SIZE_TEXT_BYTES], written[G4_SIZE_TEXT_BYTES], hex[STORE_HEX_BYTES];
	int rc = cli_repo_lock(&r->repo, s, false);

	if (rc != 0)
		return cli_repo_failed(&r->repo, rc);
	/* before the index is loaded: that has all that the snapshot needs then */
	int status = cli_snapshot_find(&r->repo, s, text, &snapshot, &r->options.subpath);
	if (status != G4_EXIT_OK)
		return status;
	rc = store_index_load(s, NULL, NULL, NULL);
	if (rc != 0) {
		store_snapshot_free(&snapshot);
		return cli_repo_failed(&r->repo, rc);
	}
	cli_warn_repaired("restore", &snapshot);
	r->total = snapshot.bytes;
	cli_progress_start(&r->repo, &r->progress, "restoring");
	rc = store_restore(s, &snapshot, &r->options, &stats);
	if (rc == 0 && r->verify)
		rc = store_restore_verify(s, &snapshot, &r->options, &verified);
	g4_progress_clear(&r->progress);
	const double seconds = (double)(g4_clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
	if (rc != 0)
		status = cli_repo_failed(&r->repo, rc);
	else if (r->repo.json)
		printf("{\"snapshot\": \"%s\", \"files\": %llu, \"directories\": %llu, \"others\": %llu, \"bytes\": %llu, "
		       "\"written_bytes\": %llu, \"errors\": %llu, \"kept\": %llu, \"deleted\": %llu, \"verified_files\": %llu, \"verify_errors\": %llu, "
		       "\"seconds\": %.3f}\n",
		       store_hex(&snapshot.name, hex), (unsigned long long)stats.files,
		       (unsigned long long)stats.directories, (unsigned long long)stats.others,
		       (unsigned long long)stats.bytes, (unsigned long long)stats.written_bytes,
		       (unsigned long long)stats.errors, (unsigned long long)stats.kept,
		       (unsigned long long)stats.deleted, (unsigned long long)verified.files,
		       (unsigned long long)verified.errors, seconds);
	else if (r->options.dry_run && !r->repo.quiet)
		printf("%llu files, %llu directories, %llu others, %s; nothing was compared or written\n",
		       (unsigned long long)stats.files, (unsigned long long)stats.directories,
		       (unsigned long long)stats.others, g4_format_size(stats.bytes, bytes, sizeof(bytes)));
	else if (!r->repo.quiet)
		printf("%llu %s, %llu %s, %llu others, %s, of which %s were written, in %.1f s\n",
		       (unsigned long long)stats.files, g4_counted(stats.files, "file", "files"),
		       (unsigned long long)stats.directories, g4_counted(stats.directories, "directory", "directories"),
		       (unsigned long long)stats.others, g4_format_size(stats.bytes, bytes, sizeof(bytes)),
		       g4_format_size(stats.written_bytes, written, sizeof(written)), seconds);
	if (rc == 0 && r->options.overwrite >= STORE_OVERWRITE_IF_NEWER && !r->repo.json && !r->repo.quiet)
		printf("%llu stay as they were\n", (unsigned long long)stats.kept);
	if (rc == 0 && r->options.delete_others && !r->repo.json && !r->repo.quiet)
		printf("%llu %s\n", (unsigned long long)stats.deleted,
		       r->options.dry_run ? "would be deleted" : "deleted");
	if (rc == 0 && r->verify && !r->repo.json && !r->repo.quiet)
		printf("read again: %llu %s, %s, %s what the snapshot has\n", (unsigned long long)verified.files,
		       g4_counted(verified.files, "file", "files"),
		       g4_format_size(verified.bytes, bytes, sizeof(bytes)), g4_counted(verified.files, "is", "are"));
	if (rc == 0 && verified.errors > 0) {
		g4_cli_error("restore", "%llu %s not what the snapshot has", (unsigned long long)verified.errors,
			     g4_counted(verified.errors, "file is", "files are"));
		status = G4_EXIT_FAILURE;
	}
	if (rc == 0 && r->options.includes != NULL && stats.files + stats.directories + stats.others == 0)
		g4_cli_error("restore", "nothing of the snapshot matches --include");
	if (rc == 0 && stats.errors > 0) {
		g4_cli_error("restore", "%llu %s: not everything is as it was", (unsigned long long)stats.errors,
			     g4_counted(stats.errors, "error", "errors"));
		status = G4_EXIT_FAILURE;
	}
	store_snapshot_free(&snapshot);
	return g4_cli_finish_output("restore", status);
}

static bool parse_overwrite(const char *text, enum store_overwrite *overwrite)
{
	static const char *const words[] = {"always", "if-changed", "if-newer", "never"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(text, words[i]) == 0) {
			*overwrite = (enum store_overwrite)i;
			return true;
		}
	return false;
}

static int take(struct restore *r, int option, char **argv)
{
	uint64_t number;

	switch (option) {
	case 'T':
		r->options.target = optarg;
		return G4_EXIT_OK;
	case OPT_ONTO:
		r->options.device = optarg;
		return G4_EXIT_OK;
	case 'e':
		store_exclude_add_typed(&r->excludes, optarg, false);
		return G4_EXIT_OK;
	case 'i':
		r->options.includes = &r->includes;
		store_exclude_add_typed(&r->includes, optarg, false);
		return G4_EXIT_OK;
	case OPT_IEXCLUDE:
		store_exclude_add_typed(&r->excludes, optarg, true);
		return G4_EXIT_OK;
	case OPT_IINCLUDE:
		r->options.includes = &r->includes;
		store_exclude_add_typed(&r->includes, optarg, true);
		return G4_EXIT_OK;
	case OPT_EXCLUDE_FILE:
		return cli_read_patterns("restore", optarg, &r->excludes, false);
	case OPT_INCLUDE_FILE:
		r->options.includes = &r->includes; /* of an empty file nothing is restored */
		return cli_read_patterns("restore", optarg, &r->includes, false);
	case OPT_OVERWRITE:
		return parse_overwrite(optarg, &r->options.overwrite) ?
			       G4_EXIT_OK :
			       g4_cli_usage("restore", "'%s' is none of always, if-changed, if-newer and never",
					    optarg);
	case OPT_DELETE:
		r->options.delete_others = true;
		return G4_EXIT_OK;
	case 'v':
		r->verbose = true;
		return G4_EXIT_OK;
	case OPT_NO_OWNER:
		r->options.no_owner = true;
		return G4_EXIT_OK;
	case OPT_OWNER_NAMES:
		r->options.owner_names = true;
		return G4_EXIT_OK;
	case OPT_VERIFY:
		r->verify = true;
		return G4_EXIT_OK;
	case 'n':
		r->options.dry_run = true;
		return G4_EXIT_OK;
	case 't':
		if (!cli_parse_number(optarg, CLI_THREADS_MAX, &number) || number == 0)
			return g4_cli_usage("restore", "'%s' is no number of threads", optarg);
		r->options.threads = (uint32_t)number;
		return G4_EXIT_OK;
	default:
		return g4_cli_bad_option("restore", option, argv);
	}
}

static bool is_root(const char *target)
{
	struct stat st, root;

	return target != NULL && stat(target, &st) == 0 && stat("/", &root) == 0 && st.st_ino == root.st_ino &&
	       st.st_dev == root.st_dev;
}

static int check_place(const struct restore *r)
{
	const struct store_restore_options *o = &r->options;

	if (o->target == NULL && o->device == NULL)
		return g4_cli_usage("restore", "where to? Say --target DIR, or --onto DEVICE");
	if (r->verify && o->dry_run)
		return g4_cli_usage("restore", "--verify reads what was written, and --dry-run writes nothing");
	if (r->verify && o->overwrite >= STORE_OVERWRITE_IF_NEWER)
		return g4_cli_usage("restore",
				    "--verify compares with the snapshot what --overwrite may leave as it is");
	if (o->delete_others && o->includes == NULL && o->excludes->count == 0 && is_root(o->target))
		return g4_cli_usage("restore", "--delete in / takes --include or --exclude, too");
	if (o->device != NULL && (o->delete_others || o->overwrite != STORE_OVERWRITE_ALWAYS))
		return g4_cli_usage("restore", "--onto takes neither --delete nor --overwrite");
	if (o->device != NULL && (o->target != NULL || r->excludes.count > 0 || o->includes != NULL))
		return g4_cli_usage("restore", "--onto takes one file, with no --target, --exclude or --include");
	return G4_EXIT_OK;
}

int cli_restore(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     CLI_NO_LOCK_LONG,
						     {"target", required_argument, NULL, 'T'},
						     {"onto", required_argument, NULL, OPT_ONTO},
						     {"exclude", required_argument, NULL, 'e'},
						     {"include", required_argument, NULL, 'i'},
						     {"iexclude", required_argument, NULL, OPT_IEXCLUDE},
						     {"iinclude", required_argument, NULL, OPT_IINCLUDE},
						     {"exclude-file", required_argument, NULL, OPT_EXCLUDE_FILE},
						     {"include-file", required_argument, NULL, OPT_INCLUDE_FILE},
						     {"overwrite", required_argument, NULL, OPT_OVERWRITE},
						     {"delete", no_argument, NULL, OPT_DELETE},
						     {"verbose", no_argument, NULL, 'v'},
						     {"no-owner", no_argument, NULL, OPT_NO_OWNER},
						     {"owner-names", no_argument, NULL, OPT_OWNER_NAMES},
						     {"verify", no_argument, NULL, OPT_VERIFY},
						     {"threads", required_argument, NULL, 't'},
						     {"dry-run", no_argument, NULL, 'n'},
						     {NULL, 0, NULL, 0}};
	struct restore r = {0};
	struct store *s;
	int option, status = G4_EXIT_OK;

	cli_repo_init(&r.repo, "restore");
	r.repo.reads = true;
	while (status == G4_EXIT_OK && (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "T:e:i:t:nv",
							     long_options, NULL)) != -1)
		if (!cli_repo_take(&r.repo, option, optarg))
			status = take(&r, option, argv);
	if (status == G4_EXIT_OK && optind + 1 != argc)
		status = g4_cli_usage("restore", "it takes one snapshot, or latest");
	r.options.excludes = &r.excludes;
	const char *const opens[] = {r.repo.key_file, r.repo.password_file, r.repo.identity};
	const char *spared[3];
	r.options.spared = spared;
	for (size_t i = 0; i < 3; i++)
		if (opens[i] != NULL)
			spared[r.options.spared_count++] = opens[i];
	if (status == G4_EXIT_OK)
		status = check_place(&r);
	r.options.note = tell;
	r.options.deleted = tell_deleted;
	r.options.progress = show_progress;
	r.options.user = &r;
	if (status == G4_EXIT_OK && (status = cli_repo_open(&r.repo, &s)) == G4_EXIT_OK) {
		status = run(&r, s, argv[optind]);
		cli_repo_close(&r.repo, s);
	}
	store_excludes_free(&r.excludes);
	store_excludes_free(&r.includes);
	return status;
}
