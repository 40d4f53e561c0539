/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs fsck. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "fs/probe_host.h"
#include "fsck/fsck.h"
#include "fuse/fuse.h"
#include "gpu/sums_host.h"

#define LINES_A_KIND 100
/* Also on few processors: a thread mostly waits for the device. */
#define THREADS_MIN 8

const char g4_help_fsck[] = "[-n | -p | -y | --repair | --dry-run] [-f] [-v] [--data] [--gpu=WHEN]\n"
			    "                   [--degraded] [--json] DEVICE...\n\n"
			    "Checks the file system on DEVICE. A journal that was not replayed yet is taken\n"
			    "into account: the check sees the file system as the next mount will.\n\n"
			    "  -n              change nothing (the default)\n"
			    "  -y, --repair    repair what is wrong; says what files lost. What nothing leads\n"
			    "                  to goes to lost+found\n"
			    "  -p, -a          for use at boot: replay the journal, repair what is safe: counts,\n"
			    "                  maps, links, superblocks; do not check a file system that was\n"
			    "                  unmounted cleanly\n"
			    "      --dry-run   say what --repair would do, and change nothing\n"
			    "  -f, --force     look for lost inodes in free space even when nothing is wrong;\n"
			    "                  with -p: check even when it was unmounted cleanly; with\n"
			    "                  --find-superblock: repair even where another file system is\n"
			    "      --data      read the contents of files, too, and compare them with their sums;\n"
			    "                  what does not match is told and never repaired; so is parity. A\n"
			    "                  repair makes that deduplication finds no such page any more\n"
			    "      --gpu=WHEN  with --data, in a build with CUDA: auto, the default, lets a GPU make\n"
			    "                  sums by BLAKE3 where that is faster than the threads; on, wherever\n"
			    "                  there is one; off\n"
			    "      --degraded  repair although a disk is missing, where the others have a copy of\n"
			    "                  everything\n"
			    "  -v, --verbose   print every problem, not only the first 100 of a kind\n"
			    "  -j, --jobs=N    use N threads, not as many as there are processors\n"
			    "                  (but at least 8: they mostly wait for the device)\n"
			    "      --find-superblock\n"
			    "                  when both superblocks are lost: look for an older copy, or make one\n"
			    "                  from the rest; --repair then writes it\n"
			    "      --json      print one JSON object\n"
			    "      --help      show this\n\n"
			    "Exit status: 0 no problem, 1 problems were repaired, 4 problems remain, 8 the\n"
			    "check could not be made, 16 wrong usage, 32 cancelled.\n";

struct fsck_options {
	const char *device;
	uint32_t threads;
	bool find_superblock;
	bool preen, yes, no, dry_run, force, verbose, data, json, degraded;
	bool gpu_off, gpu_on;
};

enum { OPTION_JSON = 256, OPTION_DRY_RUN, OPTION_FIND_SUPERBLOCK, OPTION_DATA, OPTION_DEGRADED, OPTION_GPU };
static const struct option long_options[] = {
	{"dry-run", no_argument, NULL, OPTION_DRY_RUN},
	{"repair", no_argument, NULL, 'y'},
	{"force", no_argument, NULL, 'f'},
	{"verbose", no_argument, NULL, 'v'},
	{"find-superblock", no_argument, NULL, OPTION_FIND_SUPERBLOCK},
	{"jobs", required_argument, NULL, 'j'},
	{"data", no_argument, NULL, OPTION_DATA},
	{"gpu", required_argument, NULL, OPTION_GPU},
	{"degraded", no_argument, NULL, OPTION_DEGRADED},
	{"json", no_argument, NULL, OPTION_JSON},
	{NULL, 0, NULL, 0},
};

static bool parse_threads(const char *text, uint32_t *threads)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != 0 || value < 1 || value > G4_FSCK_THREADS_MAX)
		return false;
	*threads = (uint32_t)value;
	return true;
}

static uint32_t default_threads(void)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return processors <= THREADS_MIN	       ? THREADS_MIN :
	       processors >= (long)G4_FSCK_THREADS_MAX ? G4_FSCK_THREADS_MAX :
							 (uint32_t)processors;
}

static int parse(int argc, char **argv, struct fsck_options *options)
{
	/* -C: fsck(8) passes a descriptor for progress; -t, -T and -M are its own. */
	for (int answer; (answer = getopt_long(argc, argv, ":npayfvj:C::", long_options, NULL)) != -1;) {
		switch (answer) {
		case 'n':
			options->no = true;
			break;
		case 'p':
		case 'a':
			options->preen = true;
			break;
		case 'y':
			options->yes = true;
			break;
		case 'f':
			options->force = true;
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'j':
			if (!parse_threads(optarg, &options->threads)) {
				g4_cli_usage("fsck", "the number of threads is from 1 to %u", G4_FSCK_THREADS_MAX);
				return G4_FSCK_USAGE;
			}
			break;
		case 'C':
			break;
		case OPTION_JSON:
			options->json = true;
			break;
		case OPTION_DATA:
			options->data = true;
			break;
		case OPTION_GPU:
			options->gpu_on = strcmp(optarg, "on") == 0;
			options->gpu_off = strcmp(optarg, "off") == 0;
			if (!options->gpu_on && !options->gpu_off && strcmp(optarg, "auto") != 0) {
				g4_cli_usage("fsck", "--gpu is auto, on or off, not '%s'", optarg);
				return G4_FSCK_USAGE;
			}
			break;
		case OPTION_DEGRADED:
			options->degraded = true;
			break;
		case OPTION_FIND_SUPERBLOCK:
			options->find_superblock = true;
			break;
		case OPTION_DRY_RUN:
			options->dry_run = true;
			break;
		default:
			g4_cli_bad_option("fsck", answer, argv);
			return G4_FSCK_USAGE;
		}
	}
	if (options->no + options->preen + options->yes + options->dry_run > 1) {
		g4_cli_usage("fsck", "only one of -n, -p, --repair (-y) and --dry-run can be given");
		return G4_FSCK_USAGE;
	}
	if (options->preen && options->find_superblock) {
		g4_cli_usage("fsck", "-p repairs what needs no choice, --find-superblock is one");
		return G4_FSCK_USAGE;
	}
	if (argc == optind) {
		g4_cli_usage("fsck", "no device was given");
		return G4_FSCK_USAGE;
	}
	options->device = g4_cli_disks(argv + optind, argc - optind);
	return 0;
}

/* The superblock's word, which is about the last unmount and not about what the check finds. */
static const char *state_text(const struct g4_superblock *sb)
{
	if ((sb->state & G4_STATE_ERROR) != 0)
		return "stopped after an error";
	return (sb->state & G4_STATE_CLEAN) != 0 ? "unmounted cleanly" : "not unmounted";
}

static void print_summary(const struct g4_fsck *fsck, const struct g4_journal_state *journal, bool data)
{
	const struct g4_image *image = fsck->image;
	const uint64_t pages = image->layout.size_bytes / G4_PAGE_BYTES;
	/* What lies beyond the end in the last group was claimed as well. */
	const uint64_t beyond = image->layout.group_count * G4_GROUP_PAGES - pages;

	if (journal->records > 0)
		fprintf(fsck->out, "%s: journal to be replayed: %" PRIu64 " %s, %" PRIu64 " %s\n", image->name,
			journal->records, g4_counted(journal->records, "transaction", "transactions"), journal->blocks,
			g4_counted(journal->blocks, "block", "blocks"));
	if (fsck->orphan_count > 0)
		fprintf(fsck->out, "%s: %" PRIu64 " removed or shrinking %s will be released by the next mount\n",
			image->name, fsck->orphan_count, g4_counted(fsck->orphan_count, "file", "files"));
	fprintf(fsck->out,
		"%s: %s, %" PRIu64 " %s, %" PRIu64 " %s, %" PRIu64 " %s, %" PRIu64 " others, %" PRIu64 "/%" PRIu64
		" pages used\n",
		image->name, state_text(&image->sb), fsck->files, g4_counted(fsck->files, "file", "files"),
		fsck->directories, g4_counted(fsck->directories, "directory", "directories"), fsck->symlinks,
		g4_counted(fsck->symlinks, "link", "links"), fsck->others, fsck->pages_met - beyond, pages);
	if (data)
		fprintf(fsck->out,
			"%s: %" PRIu64 " pages of contents compared, %" PRIu64 " of them damaged, %" PRIu64
			" without a sum, %" PRIu64 " whose sum is damaged\n",
			image->name, fsck->data_compared, fsck->damaged_pages, fsck->data_without,
			fsck->data_unverified);
	if (data && fsck->data_beside > 0)
		fprintf(fsck->out, "%s: %" PRIu64 " of them by a GPU\n", image->name, fsck->data_beside);
	const uint64_t found = fsck->found + fsck->damaged_pages + fsck->parity_damaged;
	if (found == 0)
		fprintf(fsck->out, "%s: no problem found\n", image->name);
	else
		fprintf(fsck->out, "%s: %" PRIu64 " %s found\n", image->name, found,
			g4_counted(found, "problem", "problems"));
}

static void print_outcome(const struct g4_fsck *fsck, const struct fsck_options *options)
{
	const char *name = fsck->image->name;

	if (fsck->found == 0 && fsck->change_count == 0)
		return;
	if (fsck->problems != 0)
		fprintf(fsck->out, "%s: nothing was changed%s\n", name,
			fsck->replayed ? ", but that the journal was replayed" : "");
	else
		fprintf(fsck->out, "%s: %s: %" PRIu64 " thing%s put right, %" PRIu64 " doubtful, %" PRIu64 " lost\n",
			name, options->dry_run ? "a repair would end so" : "repaired",
			fsck->by_outcome[G4_FSCK_REPAIRED], fsck->by_outcome[G4_FSCK_REPAIRED] == 1 ? "" : "s",
			fsck->by_outcome[G4_FSCK_DOUBTFUL], fsck->by_outcome[G4_FSCK_LOST]);
}

static void report_changes(const struct g4_fsck *fsck)
{
	struct g4_report *report = fsck->report;

	g4_report_object(report, "changes_by_outcome");
	for (uint32_t outcome = 0; outcome < G4_FSCK_OUTCOMES; outcome++)
		g4_report_count(report, g4_fsck_outcome_name((enum g4_fsck_outcome)outcome), fsck->by_outcome[outcome]);
	g4_report_end(report);
	g4_report_list(report, "changes");
	for (uint64_t i = 0; i < fsck->change_count; i++) {
		const struct g4_fsck_change *change = &fsck->changes[i];
		g4_report_object(report, NULL);
		g4_report_text(report, "outcome", g4_fsck_outcome_name(change->outcome));
		if (change->path != NULL)
			g4_report_name(report, "path", change->path, change->path_bytes);
		if (change->ino != 0)
			g4_report_hex(report, "inode", change->ino);
		if (change->bytes != 0) {
			g4_report_count(report, "offset", change->offset);
			g4_report_count(report, "bytes", change->bytes);
		}
		g4_report_text(report, "text", change->text);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void report_data(const struct g4_fsck *fsck)
{
	struct g4_report *report = fsck->report;

	g4_report_object(report, "data");
	g4_report_count(report, "pages_compared", fsck->data_compared);
	g4_report_count(report, "pages_compared_by_gpu", fsck->data_beside);
	g4_report_count(report, "pages_damaged", fsck->damaged_pages);
	g4_report_count(report, "pages_without_sum", fsck->data_without);
	g4_report_count(report, "pages_with_damaged_sum", fsck->data_unverified);
	g4_report_count(report, "places_with_damaged_parity", fsck->parity_damaged);
	g4_report_end(report);
}

static void report_summary(const struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	struct g4_report *report = fsck->report;
	const uint64_t pages = fsck->image->layout.size_bytes / G4_PAGE_BYTES;
	const uint64_t beyond = fsck->image->layout.group_count * G4_GROUP_PAGES - pages;

	g4_report_end(report); /* the list of problems */
	g4_report_count(report, "problem_count", fsck->found + fsck->damaged_pages + fsck->parity_damaged);
	g4_report_object(report, "problems_by_kind");
	for (uint32_t kind = 0; kind < G4_FSCK_PROBLEM_KINDS; kind++) {
		if (fsck->by_kind[kind] != 0)
			g4_report_count(report, g4_fsck_problem_name(kind), fsck->by_kind[kind]);
	}
	g4_report_end(report);
	g4_report_text(report, "state", state_text(&fsck->image->sb));
	g4_report_count(report, "journal_transactions", journal->records);
	g4_report_count(report, "journal_blocks", journal->blocks);
	g4_report_count(report, "orphans", fsck->orphan_count);
	g4_report_count(report, "files", fsck->files);
	g4_report_count(report, "directories", fsck->directories);
	g4_report_count(report, "symbolic_links", fsck->symlinks);
	g4_report_count(report, "other_inodes", fsck->others);
	g4_report_count(report, "pages_used", fsck->pages_met - beyond);
	g4_report_count(report, "pages", pages);
}

static bool repairs(const struct fsck_options *options)
{
	return options->yes || options->preen || options->dry_run;
}

/* After everything else. Whether a GPU was asked for and could not be had is worth a line, whether one helps is not. */
static int compare_data(struct g4_fsck *fsck, const struct fsck_options *options)
{
	char why[256];

	if (!options->gpu_off)
		fsck->hasher = g4_gpu_sums_open(fsck->threads, fsck->pages_met * G4_PAGE_BYTES, options->gpu_on, why,
						sizeof(why));
	if (options->gpu_on && fsck->hasher == NULL)
		g4_cli_error("fsck", "no GPU makes the sums: %s", why);
	const int status = g4_fsck_data(fsck);
	g4_gpu_sums_close(fsck->hasher);
	fsck->hasher = NULL;
	return status;
}

/* The check or the repair itself; its words go to fsck->out as it goes on. */
static int examine(struct g4_fsck *fsck, struct g4_image *image, const struct fsck_options *options,
		   struct g4_journal_state *journal)
{
	const struct g4_fsck_repair_options how = {
		.dry_run = options->dry_run,
		.safe_only = options->preen,
		.force = options->force,
		.degraded = options->degraded,
	};
	char message[512] = "";
	int status;

	if (repairs(options)) {
		status = g4_fsck_repair_device(fsck, image, options->device, &how, journal, message, sizeof(message));
	} else {
		status = g4_fsck_open(fsck, image, options->device, message, sizeof(message));
		if (status == 0) {
			snprintf(message, sizeof(message), "%s", image->name);
			status = g4_image_load_overlay(image, journal);
		}
		if (status == 0)
			status = g4_fsck_run(fsck, image, journal);
		fsck->found = fsck->problems;
	}
	if (status == 0 && options->data)
		status = compare_data(fsck, options);
	if (status == 0 && options->data && repairs(options)) {
		status = g4_fsck_unlist_damaged(fsck, journal);
		if (status < 0 && status != -G4_E_NOMEM)
			snprintf(message, sizeof(message), "%s: %s", image->name, g4_strerror(status));
	}
	g4_progress_clear(&fsck->progress);
	if (status < 0)
		g4_cli_error("fsck", "%s%s%s", message, status == -G4_E_NOMEM ? ": the check was not finished: " : "",
			     status == -G4_E_NOMEM ? g4_strerror(status) : "");
	return status;
}

static int exit_status(const struct g4_fsck *fsck, const struct fsck_options *options)
{
	/* Also a mark that is taken away is something corrected. */
	if (fsck->found == 0 && (fsck->change_count == 0 || options->dry_run))
		return fsck->damaged_pages + fsck->parity_damaged == 0 ? G4_FSCK_OK : G4_FSCK_UNCORRECTED;
	if (fsck->problems == 0 && !options->dry_run && repairs(options))
		return fsck->damaged_pages + fsck->parity_damaged == 0 ? G4_FSCK_CORRECTED : G4_FSCK_UNCORRECTED;
	if (options->preen)
		g4_cli_error("fsck",
			     "%s: more is wrong than can be repaired without anybody looking: run fsck.gpu4fs -y",
			     options->device);
	else if (fsck->problems != 0 && repairs(options))
		g4_cli_error("fsck",
			     "%s: the repair did not come to an end%s; copy what you need from a read-only mount",
			     options->device, fsck->no_room ? " for lack of free space" : "");
	return G4_FSCK_UNCORRECTED;
}

static int check(struct g4_fsck *fsck, const struct fsck_options *options)
{
	struct g4_journal_state journal;
	struct g4_report report;
	struct g4_image image = {.name = NULL};

	fsck->out = stdout;
	fsck->find_superblock = options->find_superblock;
	fsck->thorough = options->force;
	fsck->threads = options->threads != 0 ? options->threads : default_threads();
	fsck->printed_limit = options->verbose ? UINT64_MAX : LINES_A_KIND;
	if (options->json) {
		g4_report_start(&report, stdout, true);
		g4_report_text(&report, "device", options->device);
		g4_report_list(&report, "problems");
		fsck->report = &report;
	}
	g4_progress_start(&fsck->progress, "checking");
	const int status = examine(fsck, &image, options, &journal);
	const bool seen = image.dev != NULL;
	if (options->json) {
		if (seen)
			report_summary(fsck, &journal);
		if (seen && options->data)
			report_data(fsck);
		if (seen && repairs(options))
			report_changes(fsck);
		g4_report_finish(&report);
	} else if (status == 0) {
		g4_fsck_print_left_out(fsck);
		print_summary(fsck, &journal, options->data);
		if (repairs(options))
			print_outcome(fsck, options);
	}
	const int code = status < 0 ? G4_FSCK_ERROR : exit_status(fsck, options);
	g4_fsck_free(fsck);
	if (seen)
		g4_image_close(&image);
	return code;
}

/* -p leaves alone what was unmounted cleanly and has two good superblocks and nothing in its journal. */
static int may_be_skipped(const struct fsck_options *options, bool *skip)
{
	struct g4_image image;
	struct g4_journal_state journal;
	char message[512];

	*skip = false;
	if (!options->preen || options->force || options->data)
		return 0;
	if (g4_image_open(&image, options->device, message, sizeof(message)) < 0) {
		g4_cli_error("fsck", "%s", message);
		return G4_FSCK_ERROR;
	}
	const bool clean = image.sb.state == G4_STATE_CLEAN && !image.from_backup && image.backup_status == 0;
	const int status = g4_image_scan_journal(&image, NULL, NULL, &journal);
	*skip = clean && status == 0 && journal.status == 0 && journal.records == 0;
	g4_image_close(&image);
	return 0;
}

/* A terminal's ^C ends the check with the status that fsck(8) has for it. */
static void cancel(int signal_number)
{
	(void)signal_number;
	_exit(G4_FSCK_CANCELLED);
}

int g4_cli_fsck(int argc, char **argv)
{
	static struct g4_fsck fsck; /* too large for a stack */
	struct fsck_options options = {.device = NULL};
	char message[512];
	bool skip;
	int status = parse(argc, argv, &options);

	if (status != 0)
		return status;
	g4_fuse_wait_for_last_mount(options.device); /* umount(8) does not */
	const bool in_use = g4_probe_in_use(options.device, message, sizeof(message));
	if (in_use && (options.preen || options.yes)) {
		g4_cli_error("fsck", "%s is %s; end that first, or look at it with -n", options.device, message);
		return G4_FSCK_ERROR;
	}
	if (in_use)
		g4_cli_error("fsck", "%s is %s: what changes during the check may look like a problem", options.device,
			     message);
	signal(SIGINT, cancel);
	signal(SIGTERM, cancel);
	status = may_be_skipped(&options, &skip);
	if (status != 0)
		return status;
	if (skip && !options.json) {
		printf("%s: clean\n", options.device);
		return G4_FSCK_OK;
	}
	return check(&fsck, &options);
}
