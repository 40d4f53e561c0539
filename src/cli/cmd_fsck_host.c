/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs fsck. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "cli/fsck_host.h"
#include "engine/engine.h"
#include "fs/probe_host.h"

#define LINES_A_KIND 100

const char g4_help_fsck[] = "[-n | -p | -y] [-f] [-v] [--json] DEVICE\n\n"
			    "Checks the file system on DEVICE. A journal that was not replayed yet is taken\n"
			    "into account: the check sees the file system as the next mount will.\n\n"
			    "  -n, --dry-run   change nothing (the default)\n"
			    "  -p, -a          for use at boot: replay the journal; do not check a file system\n"
			    "                  that was unmounted cleanly\n"
			    "  -y              replay the journal; nothing else can be repaired yet\n"
			    "  -f, --force     with -p: check even when it was unmounted cleanly\n"
			    "  -v, --verbose   print every problem, not only the first 100 of a kind\n"
			    "      --json      print one JSON object\n"
			    "      --help      show this\n\n"
			    "Exit status: 0 no problem, 4 problems remain, 8 the check could not be made,\n"
			    "16 wrong usage, 32 cancelled.\n";

struct fsck_options {
	const char *device;
	bool preen, yes, no, force, verbose, json;
	bool replayed;
};

enum { OPTION_JSON = 256 };
static const struct option long_options[] = {
	{"dry-run", no_argument, NULL, 'n'},
	{"force", no_argument, NULL, 'f'},
	{"verbose", no_argument, NULL, 'v'},
	{"json", no_argument, NULL, OPTION_JSON},
	{NULL, 0, NULL, 0},
};

static int parse(int argc, char **argv, struct fsck_options *options)
{
	/* -C: fsck(8) passes a descriptor for progress; -t, -T and -M are its own. */
	for (int answer; (answer = getopt_long(argc, argv, ":npayfvC::", long_options, NULL)) != -1;) {
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
		case 'C':
			break;
		case OPTION_JSON:
			options->json = true;
			break;
		default:
			g4_cli_bad_option("fsck", answer, argv);
			return G4_FSCK_USAGE;
		}
	}
	if (options->no + options->preen + options->yes > 1) {
		g4_cli_usage("fsck", "only one of -n, -p and -y can be given");
		return G4_FSCK_USAGE;
	}
	if (argc - optind != 1) {
		g4_cli_usage("fsck", "%s",
			     argc == optind ? "no device was given" : "one device can be checked at a time");
		return G4_FSCK_USAGE;
	}
	options->device = argv[optind];
	return 0;
}

/* Mounting and unmounting replays the journal and releases what the orphan list holds. */
static int replay(const struct fsck_options *options)
{
	const char *const names[] = {options->device};
	const struct g4_mount_options mount = {.cache_bytes = 64 * G4_MIB};
	struct g4_engine *engine;
	char message[512] = "";

	int status = g4_engine_mount(names, 1, &mount, &engine, message, sizeof(message));
	if (status < 0) {
		g4_cli_error("fsck", "the journal was not replayed: %s", message);
		return status;
	}
	status = g4_engine_unmount(engine);
	if (status < 0)
		g4_cli_error("fsck", "%s: the journal was not replayed: %s", options->device, g4_strerror(status));
	return status;
}

static const char *state_text(const struct g4_superblock *sb)
{
	if ((sb->state & G4_STATE_ERROR) != 0)
		return "stopped after an error";
	return (sb->state & G4_STATE_CLEAN) != 0 ? "clean" : "not unmounted";
}

static void print_summary(const struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	const struct g4_image *image = fsck->image;
	const uint64_t pages = image->layout.size_bytes / G4_PAGE_BYTES;
	/* What lies beyond the end in the last group was claimed as well. */
	const uint64_t beyond = image->layout.group_count * G4_GROUP_PAGES - pages;

	if (journal->records > 0)
		fprintf(fsck->out, "%s: journal to be replayed: %" PRIu64 " transactions, %" PRIu64 " blocks\n",
			image->name, journal->records, journal->blocks);
	if (fsck->orphan_count > 0)
		fprintf(fsck->out, "%s: %" PRIu64 " removed or shrinking files will be released by the next mount\n",
			image->name, fsck->orphan_count);
	fprintf(fsck->out,
		"%s: %s, %" PRIu64 " files, %" PRIu64 " directories, %" PRIu64 " links, %" PRIu64 " others, %" PRIu64
		"/%" PRIu64 " pages used\n",
		image->name, state_text(&image->sb), fsck->files, fsck->directories, fsck->symlinks, fsck->others,
		fsck->pages_met - beyond, pages);
	if (fsck->problems == 0)
		fprintf(fsck->out, "%s: no problem found\n", image->name);
	else
		fprintf(fsck->out, "%s: %" PRIu64 " problem%s found\n", image->name, fsck->problems,
			fsck->problems == 1 ? "" : "s");
}

static void report_summary(const struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	struct g4_report *report = fsck->report;
	const uint64_t pages = fsck->image->layout.size_bytes / G4_PAGE_BYTES;
	const uint64_t beyond = fsck->image->layout.group_count * G4_GROUP_PAGES - pages;

	g4_report_end(report); /* the list of problems */
	g4_report_count(report, "problem_count", fsck->problems);
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

static int check(struct g4_fsck *fsck, struct g4_image *image, const struct fsck_options *options)
{
	struct g4_journal_state journal;
	struct g4_report report;

	fsck->out = stdout;
	fsck->printed_limit = options->verbose ? UINT64_MAX : LINES_A_KIND;
	if (options->json) {
		g4_report_start(&report, stdout, true);
		g4_report_text(&report, "device", image->name);
		g4_report_list(&report, "problems");
		fsck->report = &report;
	}
	g4_progress_start(&fsck->progress, "checking");
	int status = g4_image_load_overlay(image, &journal);
	if (status == 0 && options->replayed && journal.records > 0)
		g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL,
				"%" PRIu64 " committed transactions were not replayed by a mount", journal.records);
	if (status == 0)
		status = g4_fsck_run(fsck, image, &journal);
	if (options->json) {
		report_summary(fsck, &journal);
		g4_report_finish(&report);
	} else if (status == 0) {
		g4_fsck_print_left_out(fsck);
		print_summary(fsck, &journal);
	}
	if (status < 0) {
		g4_cli_error("fsck", "%s: the check was not finished: %s", image->name, g4_strerror(status));
		return G4_FSCK_ERROR;
	}
	if (fsck->problems == 0)
		return G4_FSCK_OK;
	if (options->yes || options->preen)
		g4_cli_error("fsck",
			     "%s: this version finds problems, but can not repair them yet; copy what you need from a "
			     "read-only mount",
			     image->name);
	return G4_FSCK_UNCORRECTED;
}

/* -p and -y bring the journal home first, as the next mount would. */
static int prepare(struct fsck_options *options, bool *skip)
{
	struct g4_image image;
	struct g4_journal_state journal;
	char message[512];

	*skip = false;
	if (g4_image_open(&image, options->device, message, sizeof(message)) < 0) {
		g4_cli_error("fsck", "%s", message);
		return G4_FSCK_ERROR;
	}
	const bool clean = image.sb.state == G4_STATE_CLEAN && !image.from_backup && image.backup_status == 0;
	const bool unmount_missed = (image.sb.state & G4_STATE_MOUNTED) != 0 && !image.from_backup;
	const int status = g4_image_scan_journal(&image, NULL, NULL, &journal);
	const bool dirty = status == 0 && journal.status == 0 && journal.records > 0;
	g4_image_close(&image);
	/* Not unmounted: removed files that were open wait for a mount, too. */
	options->replayed = (dirty || unmount_missed) && (options->preen || options->yes);
	if (options->replayed && replay(options) < 0)
		return G4_FSCK_ERROR;
	*skip = options->preen && !options->force && clean && !dirty;
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
	struct fsck_options options = {.device = NULL};
	struct g4_image image;
	char message[512];
	bool skip;
	int status = parse(argc, argv, &options);

	if (status != 0)
		return status;
	const bool in_use = g4_probe_in_use(options.device, message, sizeof(message));
	if (in_use && (options.preen || options.yes)) {
		g4_cli_error("fsck", "%s is %s; unmount it first, or look at it with -n", options.device, message);
		return G4_FSCK_ERROR;
	}
	if (in_use)
		g4_cli_error("fsck", "%s is %s: what changes during the check may look like a problem", options.device,
			     message);
	signal(SIGINT, cancel);
	signal(SIGTERM, cancel);
	status = prepare(&options, &skip);
	if (status != 0)
		return status;
	if (skip && !options.json) {
		printf("%s: clean\n", options.device);
		return G4_FSCK_OK;
	}
	if (g4_image_open(&image, options.device, message, sizeof(message)) < 0) {
		g4_cli_error("fsck", "%s", message);
		return G4_FSCK_ERROR;
	}
	static struct g4_fsck fsck; /* too large for a stack */
	status = check(&fsck, &image, &options);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return status;
}
