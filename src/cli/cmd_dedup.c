/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs dedup: shares what is stored more than once, and says how much that is. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "base/units_host.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/dedup.h"
#include "cli/health.h"
#include "client/dedup.h"
#include "print/report.h"

const char g4_help_dedup[] =
	"run|estimate|stats [--memory SIZE] [--rate SIZE] [--idle] [--compare]\n"
	"                    [--chunks] [--json] DIRECTORY|FILE...\n"
	"   or: gpu4fs dedup run|estimate|stats [OPTION]... --image IMAGE|--socket PATH\n"
	"                    [DIRECTORY|FILE]...\n"
	"   or: gpu4fs dedup stats|prune [--older-than AGE] [--json] --mount DIRECTORY\n"
	"   or: gpu4fs dedup prune [--older-than AGE] [--json] --image IMAGE\n\n"
	"Finds 4 KiB pages of files that have the same contents, by their checksums (mkfs\n"
	"--checksum, attr set checksum=), and lets files share them: of a mounted file system,\n"
	"or with --image or --socket of one that is not mounted, or that 'gpu4fs serve' has; then\n"
	"paths begin at its root, and without any all files are looked at.\n\n"
	"  run       share them, and make holes of pages of zeros. Contents, sizes and times of files\n"
	"            stay as they are; others may write meanwhile. It may be ended at any time, and\n"
	"            begun again. Of a mounted file system it is for root and the user who did that\n"
	"  estimate  say how much that would free\n"
	"  stats     say how much is shared, and how many pages of files a stored page has. With\n"
	"            --mount: how often what was written was there already since the mount (with\n"
	"            mkfs --dedup or attr set dedup=on), and how full the table in memory is\n"
	"  prune     no longer find pages that nobody shares: where what is written once stays alone it\n"
	"            frees space, memory, and time after a mount\n\n"
	"Pages with the same BLAKE3 are shared without being read; with other checksums they are\n"
	"read and compared. A page that has become damaged unnoticed is found by a scrub, or with\n"
	"--compare.\n\n"
	"      --image IMAGE   the device with the file system, which is not mounted\n"
	"      --socket PATH   where 'gpu4fs serve' serves it\n"
	"      --mount DIRECTORY\n"
	"                      where it is mounted; for root and the user who did that\n"
	"      --older-than AGE\n"
	"                      with prune: only what could be found for so long and nobody has shared,\n"
	"                      in days of the calendar (30d) or weeks (4w), UTC\n"
	"      --memory SIZE   of so much for what is known of pages, 48 bytes each; where they are\n"
	"                      more, checksums are read several times. Names of files come on top\n"
	"                      (256M)\n"
	"      --rate SIZE     share so many bytes a second, at most\n"
	"      --idle          of a mount: go on only while nobody else uses it, but for a step a second\n"
	"      --compare       read pages and compare them, also with BLAKE3\n"
	"      --chunks        with run and estimate: also read all files and cut them by content, as\n"
	"                      shredder does. It tells how much is the same wherever it begins, how\n"
	"                      much of that lies in pages that are the same (run shares it, also\n"
	"                      of files without checksums), in pages that have other bytes, too, and\n"
	"                      at another place of a page, which can not be shared. 80 bytes of\n"
	"                      memory for a chunk of 8 KiB; --memory is at least 256K\n"
	"      --json          print one JSON object\n"
	"      --help          show this\n\n"
	"Exit status: 0 done; 1 it was ended early, or some files could not be looked at or shared;\n"
	"2 wrong usage.\n";

enum order { RUN, ESTIMATE, STATS, PRUNE };

struct target { /* one of them at most is not NULL; none: paths are of a file system that is mounted here */
	const char *image, *socket;
	char *mount;
};

/* NULL: of paths that are mounted here. */
static const char *name_of(const struct target *target)
{
	return target->image != NULL ? target->image : target->socket != NULL ? target->socket : target->mount;
}

static double ratio(uint64_t pages, uint64_t stored)
{
	return stored == 0 ? 1 : (double)pages / (double)stored;
}

static void print_owners(struct g4_report *report, const struct g4_dedup *dedup)
{
	g4_report_list(report, "owners");
	for (uint32_t k = 0; k < G4_DEDUP_CLASSES; k++) {
		if (dedup->owners[k] == 0)
			continue;
		g4_report_object(report, NULL);
		g4_report_count(report, "at_least", UINT64_C(1) << k);
		g4_report_count(report, "at_most", (UINT64_C(2) << k) - 1);
		g4_report_count(report, "pages", dedup->owners[k]);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void print_counts(struct g4_report *report, const struct g4_dedup_counts *counts)
{
	g4_report_object(report, "since_mount");
	g4_report_count(report, "hits", counts->hits);
	g4_report_count(report, "misses", counts->misses);
	g4_report_count(report, "plain", counts->plain);
	g4_report_count(report, "zeros", counts->zeros);
	g4_report_size(report, "saved_bytes", (counts->hits + counts->zeros) * G4_DEDUP_PAGE_BYTES);
	g4_report_count(report, "hints", counts->hints);
	g4_report_count(report, "places", counts->places);
	g4_report_size(report, "table_bytes", counts->places * sizeof(uint64_t)); /* a hint is a word */
	g4_report_count(report, "inserted", counts->inserted);
	g4_report_count(report, "evicted", counts->evicted);
	g4_report_count(report, "stale", counts->stale);
	g4_report_count(report, "groups_loaded", counts->loaded);
	g4_report_count(report, "groups", counts->groups);
	g4_report_end(report);
	g4_report_object(report, "on_device"); /* what pages are found by */
	if (counts->quota_bytes != 0)
		g4_report_size(report, "quota_bytes", counts->quota_bytes);
	g4_report_size(report, "listing_bytes", counts->listing_bytes);
	g4_report_count(report, "groups_counted", counts->counted);
	g4_report_end(report);
}

static void print_chunks(struct g4_report *report, const struct g4_dedup *dedup)
{
	const struct g4_dedup_chunks *chunks = &dedup->chunks;

	g4_report_object(report, "chunks");
	g4_report_count(report, "count", chunks->count);
	g4_report_size(report, "cut_bytes", chunks->bytes);
	g4_report_count(report, "passes", chunks->passes);
	g4_report_size(report, "duplicate_bytes", chunks->duplicate_bytes);
	g4_report_size(report, "aligned_bytes", chunks->aligned_bytes);
	g4_report_size(report, "partial_page_bytes", chunks->partial_bytes);
	g4_report_size(report, "unaligned_bytes", chunks->unaligned_bytes);
	if (dedup->share)
		g4_report_size(report, "shared_bytes", chunks->shared * G4_DEDUP_PAGE_BYTES);
	g4_report_end(report);
}

static void print_result(enum order order, const struct g4_dedup *dedup, bool whole, bool json)
{
	struct g4_report report;

	g4_report_start(&report, stdout, json);
	g4_report_bool(&report, "ended_early", !whole);
	g4_report_count(&report, "files", dedup->files - dedup->tiny);
	g4_report_count(&report, "files_left_out", dedup->left_out);
	g4_report_size(&report, "data_bytes", dedup->pages * G4_DEDUP_PAGE_BYTES);
	g4_report_size(&report, "stored_bytes", dedup->stored * G4_DEDUP_PAGE_BYTES);
	g4_report_real(&report, "ratio", ratio(dedup->pages, dedup->stored));
	g4_report_size(&report, "without_checksums_bytes", dedup->without_sums * G4_DEDUP_PAGE_BYTES);
	if (order != STATS) {
		g4_report_size(&report, "duplicate_bytes", dedup->duplicates * G4_DEDUP_PAGE_BYTES);
		g4_report_size(&report, "zero_bytes", dedup->zeros * G4_DEDUP_PAGE_BYTES);
		g4_report_count(&report, "passes", dedup->passes);
	}
	if (order == ESTIMATE)
		g4_report_real(&report, "ratio_after", ratio(dedup->pages, dedup->stored - dedup->duplicates));
	if (order == RUN) {
		g4_report_size(&report, "shared_bytes", dedup->shared * G4_DEDUP_PAGE_BYTES);
		g4_report_size(&report, "hole_bytes", dedup->holes * G4_DEDUP_PAGE_BYTES);
		g4_report_size(&report, "different_bytes", dedup->different * G4_DEDUP_PAGE_BYTES);
		g4_report_size(&report, "failed_bytes", dedup->failed * G4_DEDUP_PAGE_BYTES);
	}
	if (order == STATS)
		print_owners(&report, dedup);
	if (dedup->by_chunks)
		print_chunks(&report, dedup);

	g4_report_finish(&report);
}

static bool parse_order(const char *word, enum order *order)
{
	static const char *const words[] = {"run", "estimate", "stats", "prune"};

	for (uint32_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		if (strcmp(word, words[k]) == 0) {
			*order = (enum order)k;
			return true;
		}
	}
	return false;
}

/* g4c_dedup_ask() of the mount at the directory `from`. */
static int ask_mount(void *from, uint32_t order, uint64_t group, struct g4_dedup_counts *counts)
{
	int status = 0;
	const int rc = g4_cli_mount_dedup(from, order, group, counts, &status);

	return rc < 0 ? rc : -g4_errno(status);
}

static int mount_stats(char *mount, bool json)
{
	struct g4_dedup_counts counts;
	struct g4_report report;
	const int rc = ask_mount(mount, G4_DEDUP_STATS, 0, &counts);

	if (rc < 0) {
		g4_cli_error("dedup", "%s: %s", mount, g4_cli_why(-rc));
		return G4_EXIT_FAILURE;
	}

	g4_report_start(&report, stdout, json);
	print_counts(&report, &counts);
	g4_report_finish(&report);
	return G4_EXIT_OK;
}

/* Days. */
static bool parse_age(const char *word, uint32_t *days)
{
	char *end;

	errno = 0;
	const unsigned long number = strtoul(word, &end, 10);
	if (errno != 0 || *word < '0' || *word > '9' || (strcmp(end, "d") != 0 && strcmp(end, "w") != 0) ||
	    number == 0 || number > 1000000)
		return false;
	*days = (uint32_t)number * (*end == 'w' ? 7 : 1);
	return true;
}

/* days 0: of any age. */
static int prune(const struct target *target, uint32_t days, bool json)
{
	struct g4_report report;
	int64_t pruned;
	int rc = 0;

	if (target->mount != NULL) {
		pruned = g4c_dedup_prune(ask_mount, target->mount, days != 0, days);
	} else {
		gpu4fs *fs = g4_cli_attach("dedup", target->image, NULL);
		if (fs == NULL)
			return G4_EXIT_FAILURE;
		pruned = days != 0 ? gpu4fs_dedup_prune_older(fs, days) : gpu4fs_dedup_prune(fs);
		rc = gpu4fs_unmount(fs);
	}
	rc = pruned < 0 ? (int)pruned : rc;
	if (rc < 0) {
		g4_cli_error("dedup", "%s: %s", name_of(target), g4_cli_why(-rc));
		return G4_EXIT_FAILURE;
	}
	g4_report_start(&report, stdout, json);
	if (days != 0)
		g4_report_count(&report, "older_than_days", days);
	g4_report_count(&report, "pruned_pages", (uint64_t)pruned);
	g4_report_finish(&report);
	return G4_EXIT_OK;
}

/* The path of a file system that is mounted here, without links, or NULL. */
static char *find(const char *path)
{
	char *real = realpath(path, NULL);

	if (real == NULL)
		g4_cli_error("dedup", "%s: %s", path, g4_cli_why(errno));
	return real;
}

/* Where the files are. False: it was said why they can not be looked at. */
static bool begin(struct g4_dedup *dedup, char **paths, const struct target *target)
{
	if (target->image != NULL || target->socket != NULL) {
		dedup->place.fs = g4_cli_attach("dedup", target->image, target->socket);
		return dedup->place.fs != NULL;
	}
	char *first = find(paths[0]);
	const int rc = first != NULL ? g4_dedup_place_mounted(&dedup->place, first) : 0;
	if (rc == -ENOTTY)
		g4_cli_error("dedup", "%s: is on no gpu4fs file system, or its server is too old", paths[0]);
	else if (rc < 0)
		g4_cli_error("dedup", "%s: %s", paths[0], g4_cli_why(-rc));
	free(first);
	return first != NULL && rc == 0;
}

static bool add_all(struct g4_dedup *dedup, char **paths, int count)
{
	bool good = true;

	if (count == 0)
		return g4_dedup_add(dedup, "/");
	for (int i = 0; i < count; i++) {
		char *real = dedup->place.fs == NULL ? find(paths[i]) : NULL;
		if (dedup->place.fs != NULL)
			good = g4_dedup_add(dedup, paths[i]) && good;
		else
			good = real != NULL && g4_dedup_add(dedup, real) && good;
		free(real);
	}
	return good;
}

static const char *why(const struct target *target, bool idle, int rc)
{
	if (rc == -EPERM && target->image == NULL && target->socket == NULL)
		return "it is for root and the user who mounted it";
	if (rc == -ENOTSUP && idle)
		return "with this engine nobody knows whether others use it: leave --idle out";
	return g4_cli_why(-rc);
}

static int go(struct g4_dedup *dedup, enum order order, char **paths, int count, const struct target *target, bool json)
{
	if (!begin(dedup, paths, target))
		return G4_EXIT_FAILURE;
	g4_cli_catch_interrupts();
	g4_cli_allow_open_files();
	g4_dedup_place_numbers(&dedup->place);
	g4_progress_start(&dedup->progress, "dedup");
	bool good = add_all(dedup, paths, count);
	int rc = g4_dedup_go(dedup);
	g4_progress_clear(&dedup->progress);

	const int closed = dedup->place.fs != NULL ? gpu4fs_unmount(dedup->place.fs) : 0;
	g4_dedup_place_close(&dedup->place);
	print_result(order, dedup, rc == 0, json);
	rc = rc < 0 ? rc : closed;
	if (rc < 0)
		g4_cli_error("dedup", "%s: %s", name_of(target) != NULL ? name_of(target) : paths[0],
			     why(target, dedup->idle, rc));
	good = good && rc == 0 && dedup->left_out == 0 && dedup->chunks.left_out == 0 && dedup->failed == 0;
	g4_dedup_free(dedup);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_dedup(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"mount", required_argument, NULL, 'M'},
						     {"memory", required_argument, NULL, 'm'},
						     {"rate", required_argument, NULL, 'r'},
						     {"older-than", required_argument, NULL, 'o'},
						     {"idle", no_argument, NULL, 'I'},
						     {"compare", no_argument, NULL, 'c'},
						     {"chunks", no_argument, NULL, 'C'},
						     {"json", no_argument, NULL, 'j'},
						     {NULL, 0, NULL, 0}};
	struct target target = {NULL, NULL, NULL};
	struct g4_dedup dedup = {.memory_bytes = 256 * G4_MIB};
	enum order order;
	uint32_t days = 0;
	bool json = false;

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer == 'i')
			target.image = optarg;
		else if (answer == 's')
			target.socket = optarg;
		else if (answer == 'M')
			target.mount = optarg;
		else if (answer == 'm' &&
			 (g4_parse_size(optarg, &dedup.memory_bytes) < 0 || dedup.memory_bytes < G4_DEDUP_LEAST_BYTES))
			return g4_cli_usage("dedup", "--memory is a size of at least 4K, not '%s'", optarg);
		else if (answer == 'r' && (g4_parse_size(optarg, &dedup.rate) < 0 || dedup.rate == 0))
			return g4_cli_usage("dedup", "--rate is a size, not '%s'", optarg);
		else if (answer == 'o' && !parse_age(optarg, &days))
			return g4_cli_usage("dedup", "--older-than is a number of days or weeks (30d, 4w), not '%s'",
					    optarg);
		else if (answer == 'I')
			dedup.idle = true;
		else if (answer == 'c')
			dedup.compare = true;
		else if (answer == 'C')
			dedup.by_chunks = true;
		else if (answer == 'j')
			json = true;
		else if (answer != 'm' && answer != 'r' && answer != 'o')
			return g4_cli_bad_option("dedup", answer, argv);
	}
	if (optind == argc)
		return g4_cli_usage("dedup", "run, estimate, stats or prune is needed");
	if (!parse_order(argv[optind], &order))
		return g4_cli_usage("dedup", "it can run, estimate, stats or prune, not '%s'", argv[optind]);
	const int targets = (target.image != NULL) + (target.socket != NULL) + (target.mount != NULL);
	if (targets > 1)
		return g4_cli_usage("dedup", "one of --image, --socket and --mount will do");
	if (targets == 0 && order == PRUNE)
		return g4_cli_usage("dedup", "--image or --mount is needed");
	if (targets == 0 && optind + 1 == argc)
		return g4_cli_usage("dedup", "a mounted directory, --image or --socket is needed");
	if (order != RUN && (dedup.rate != 0 || dedup.compare))
		return g4_cli_usage("dedup", "--rate and --compare are for run");
	if (days != 0 && order != PRUNE)
		return g4_cli_usage("dedup", "--older-than is for prune");
	if (dedup.idle && (order == PRUNE || targets > 0))
		return g4_cli_usage("dedup", "--idle is for directories of a mounted file system");
	if (dedup.by_chunks && order != RUN && order != ESTIMATE)
		return g4_cli_usage("dedup", "--chunks is for run and estimate");
	if (dedup.by_chunks && dedup.memory_bytes < G4_DEDUP_CHUNKS_LEAST_BYTES)
		return g4_cli_usage("dedup", "with --chunks --memory is at least 256K");
	if (target.mount != NULL && order != STATS && order != PRUNE)
		return g4_cli_usage("dedup", "--mount is for stats and prune: name the directory alone");
	if (target.socket != NULL && order == PRUNE)
		return g4_cli_usage("dedup", "prune is for --image and --mount");
	if ((target.mount != NULL || order == PRUNE) && optind + 1 < argc)
		return g4_cli_usage("dedup", "it is about all files, not '%s' alone", argv[optind + 1]);
	if (order == PRUNE)
		return prune(&target, days, json);
	if (target.mount != NULL)
		return mount_stats(target.mount, json);
	dedup.share = order == RUN;
	return go(&dedup, order, argv + optind + 1, argc - optind - 1, &target, json);
}
