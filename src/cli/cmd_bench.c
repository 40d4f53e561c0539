/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs bench: how fast a file system is. Everything happens in a directory with a name of its own, which is removed at
 * the end, after an error and after a signal as well; nothing but memory is ever formatted.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units_host.h"
#include "cli/bench_workload.h"
#include "cli/cli.h"
#include "dev/before_host.h"
#include "fuse/fuse.h"
#include "print/report.h"

const char g4_help_bench[] = "[OPTION...] TARGET\n\n"
			     "Measures how fast files are made, found, read and written. TARGET is a directory, for\n"
			     "the file system mounted there, or a device with a gpu4fs file system that is not\n"
			     "mounted, which is used in this process. The work is done in a new directory, which is\n"
			     "removed at the end. mem:SIZE is formatted first, nothing else is.\n\n"
			     "  -s, --size SIZE       size of the file that is read and written, whole MiB; 64M\n"
			     "      --dirs N          directories for the metadata; 4\n"
			     "      --files N         files in each of them, and small files with contents; 500\n"
			     "      --passes N        how often all of them are made and removed; 1\n"
			     "      --cached-reads N  4 KiB reads from memory; 100000\n"
			     "      --random-ops N    4 KiB reads and writes at random places; 1024\n"
			     "      --fsyncs N        writes that are synced one by one; 100\n"
			     "      --cache SIZE      on a device: memory for its cache; 256M\n"
			     "      --remount COMMAND on a directory: unmounts and mounts it, to empty caches\n"
			     "      --server FILE     on a directory: holds the process id of the FUSE server, whose\n"
			     "                        CPU time counts as well\n"
			     "      --json            print one JSON object\n"
			     "      --help            show this\n\n"
			     "CPU seconds are this program's and the server's, without those of kernel threads.\n"
			     "Of a device it is said whether it looks trimmed or filled: 64 places are read first.\n"
			     "Without the right to empty the kernel's caches, or on mem:SIZE, which would be gone,\n"
			     "reads that should come from the device come from memory in part.\n";

#define RESULTS_MAX 24u
#define NUMBER_MAX 100000000u

static volatile sig_atomic_t signal_caught;

struct bench {
	struct g4_bench_options options;
	bool json;
	struct g4_progress progress;
	struct g4_bench_result results[RESULTS_MAX];
	uint32_t result_count;
	char before[G4_BEFORE_TEXT_BYTES]; /* what the device held; "": nobody has looked */
};

/* ------------------------------------------------------------------ command line */

enum {
	OPTION_DIRS = 256,
	OPTION_FILES,
	OPTION_PASSES,
	OPTION_CACHED_READS,
	OPTION_RANDOM_OPS,
	OPTION_FSYNCS,
	OPTION_CACHE,
	OPTION_REMOUNT,
	OPTION_SERVER,
	OPTION_JSON
};
static const struct option long_options[] = {
	{"size", required_argument, NULL, 's'},
	{"dirs", required_argument, NULL, OPTION_DIRS},
	{"files", required_argument, NULL, OPTION_FILES},
	{"passes", required_argument, NULL, OPTION_PASSES},
	{"cached-reads", required_argument, NULL, OPTION_CACHED_READS},
	{"random-ops", required_argument, NULL, OPTION_RANDOM_OPS},
	{"fsyncs", required_argument, NULL, OPTION_FSYNCS},
	{"cache", required_argument, NULL, OPTION_CACHE},
	{"remount", required_argument, NULL, OPTION_REMOUNT},
	{"server", required_argument, NULL, OPTION_SERVER},
	{"json", no_argument, NULL, OPTION_JSON},
	{NULL, 0, NULL, 0},
};

static int parse_number(const char *text, uint32_t *out)
{
	char *end;

	errno = 0;
	const unsigned long long value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0 || value == 0 || value > NUMBER_MAX)
		return g4_cli_usage("bench", "'%s' is no number from 1 to %u", text, NUMBER_MAX);
	*out = (uint32_t)value;
	return 0;
}

static int parse_size(const char *text, uint64_t *out)
{
	if (g4_parse_size(text, out) == 0 && *out != 0)
		return 0;
	return g4_cli_usage("bench", "'%s' is no size", text);
}

static int parse_option(int answer, char **argv, struct bench *bench)
{
	struct g4_bench_options *options = &bench->options;

	switch (answer) {
	case 's':
		return parse_size(optarg, &options->file_bytes);
	case OPTION_DIRS:
		return parse_number(optarg, &options->dirs);
	case OPTION_FILES:
		return parse_number(optarg, &options->files);
	case OPTION_PASSES:
		return parse_number(optarg, &options->passes);
	case OPTION_CACHED_READS:
		return parse_number(optarg, &options->cached_reads);
	case OPTION_RANDOM_OPS:
		return parse_number(optarg, &options->random_ops);
	case OPTION_FSYNCS:
		return parse_number(optarg, &options->fsyncs);
	case OPTION_CACHE:
		return parse_size(optarg, &options->cache_bytes);
	case OPTION_REMOUNT:
		options->remount = optarg;
		return 0;
	case OPTION_SERVER:
		options->server = optarg;
		return 0;
	case OPTION_JSON:
		bench->json = true;
		return 0;
	default:
		return g4_cli_bad_option("bench", answer, argv);
	}
}

static int parse(int argc, char **argv, struct bench *bench)
{
	struct g4_bench_options *options = &bench->options;

	for (int answer; (answer = getopt_long(argc, argv, ":s:", long_options, NULL)) != -1;) {
		const int status = parse_option(answer, argv, bench);
		if (status != 0)
			return status;
	}
	if (argc - optind != 1)
		return g4_cli_usage("bench", "one directory or device is needed");
	options->target = argv[optind];
	if (options->file_bytes % G4_MIB != 0)
		return g4_cli_usage("bench", "the size of the file is a multiple of 1 MiB");
	if ((uint64_t)options->dirs * options->files > NUMBER_MAX || options->file_bytes / G4_PAGE_BYTES > UINT32_MAX)
		return g4_cli_usage("bench", "that is too much: at most %u files in all, and a file of 16 TiB",
				    NUMBER_MAX);
	return 0;
}

static bool is_directory(const char *path)
{
	struct stat found;

	return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* ------------------------------------------------------------------ what is printed */

static void print_row(const struct g4_bench_result *result)
{
	const int digits = result->value >= 1000 ? 0 : result->value >= 10 ? 1 : 2;

	printf("%-16s %-6s %14.*f %10.3f\n", result->metric, result->unit, digits, result->value, result->cpu_seconds);
	fflush(stdout);
}

static void take_result(void *user, const struct g4_bench_result *result)
{
	struct bench *bench = user;

	if (bench->result_count < RESULTS_MAX)
		bench->results[bench->result_count++] = *result;
	if (bench->json)
		return;
	g4_progress_clear(&bench->progress);
	print_row(result);
}

static void take_progress(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct bench *)user)->progress, done, total);
}

static void print_json(const struct bench *bench, bool directory)
{
	const struct g4_bench_options *options = &bench->options;
	struct g4_report report;

	g4_report_start(&report, stdout, true);
	g4_report_text(&report, "target", options->target);
	g4_report_text(&report, "engine", directory ? "system calls" : "in-process");
	g4_report_text(&report, "device_before", bench->before[0] ? bench->before : "not looked at");
	g4_report_size(&report, "file_bytes", options->file_bytes);
	g4_report_count(&report, "dirs", options->dirs);
	g4_report_count(&report, "files", options->files);
	g4_report_count(&report, "passes", options->passes);
	g4_report_count(&report, "cached_reads", options->cached_reads);
	g4_report_count(&report, "random_ops", options->random_ops);
	g4_report_count(&report, "fsyncs", options->fsyncs);
	g4_report_list(&report, "results");
	for (uint32_t i = 0; i < bench->result_count; i++) {
		g4_report_object(&report, NULL);
		g4_report_text(&report, "metric", bench->results[i].metric);
		g4_report_text(&report, "unit", bench->results[i].unit);
		g4_report_real(&report, "value", bench->results[i].value);
		g4_report_real(&report, "cpu_seconds", bench->results[i].cpu_seconds);
		g4_report_end(&report);
	}
	g4_report_finish(&report);
}

/* ------------------------------------------------------------------ the run */

static void catch_signal(int number)
{
	signal_caught = number;
}

/* Of one device, before it is used: a drive that was trimmed is faster than one that was filled. mem: begins anew. */
static void look_before(struct bench *bench)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	struct g4_dev *dev;
	uint32_t zeros;
	char message[512];

	if (strncmp(bench->options.target, "mem:", 4) == 0 ||
	    g4_dev_open(bench->options.target, &open, &dev, message, sizeof(message)) < 0)
		return; /* what is wrong with it is said by who uses it */
	if (g4_dev_look_before(NULL, dev, G4_BEFORE_PLACES, &zeros) == 0)
		g4_dev_say_before(zeros, G4_BEFORE_PLACES, bench->before);
	g4_dev_close(dev);
}

/* What would end the program stops the workload; a reader of our output that goes away makes printing fail, no more. */
static void catch_signals(sigset_t *caught)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
	struct sigaction action = {.sa_handler = catch_signal, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigemptyset(caught);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;
		/* nohup(1) stays in force */
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
		sigaddset(caught, numbers[i]);
	}
	signal(SIGPIPE, SIG_IGN);
}

static bool has_room(const struct bench *bench, const struct g4_bench_target *target)
{
	const uint64_t needed = g4_bench_space(&bench->options);
	char has[G4_SIZE_TEXT_BYTES], needs[G4_SIZE_TEXT_BYTES];
	uint64_t free_bytes;
	const int rc = target->free_bytes(target->context, &free_bytes);

	if (rc < 0)
		g4_cli_error("bench", "%s: %s", bench->options.target, strerror(-rc));
	else if (free_bytes < needed)
		g4_cli_error("bench", "%s has %s free, and the workload takes %s; --size and --files make it smaller",
			     bench->options.target, g4_format_size(free_bytes, has, sizeof(has)),
			     g4_format_size(needed, needs, sizeof(needs)));
	return rc == 0 && free_bytes >= needed;
}

static bool run_workload(struct bench *bench, const struct g4_bench_target *target)
{
	const struct g4_bench_events events = {
		.user = bench, .result = take_result, .progress = take_progress, .stop = &signal_caught};
	char message[512] = "";

	if (!bench->json)
		printf("%-16s %-6s %14s %10s%s%s\n", "metric", "unit", "value", "CPU s", bench->before[0] ? "  " : "",
		       bench->before);
	fflush(stdout);
	g4_progress_start(&bench->progress, "measuring");
	const int rc = g4_bench_run(target, &bench->options, &events, message, sizeof(message));
	g4_progress_clear(&bench->progress);
	if (rc < 0 && !signal_caught)
		g4_cli_error("bench", "%s: %s", bench->options.target, message);
	return rc == 0;
}

static bool finish(const struct bench *bench, const struct g4_bench_target *target)
{
	const int rc = target->finish(target->context);

	if (rc < 0)
		g4_cli_error("bench",
			     "%s: what was made there can not be removed: %s; its name begins with .gpu4fs-bench",
			     bench->options.target, strerror(-rc));
	return rc == 0;
}

int g4_cli_bench(int argc, char **argv)
{
	struct bench bench = {.options = {.target = "",
					  .dirs = 4,
					  .files = 500,
					  .passes = 1,
					  .file_bytes = 64 * G4_MIB,
					  .cached_reads = 100000,
					  .random_ops = 1024,
					  .fsyncs = 100}};
	struct g4_bench_target target;
	char message[512];
	sigset_t caught;
	const int status = parse(argc, argv, &bench);

	if (status != 0)
		return status;
	const bool directory = is_directory(bench.options.target);
	if (directory && bench.options.cache_bytes != 0)
		return g4_cli_usage("bench", "--cache is for devices");
	if (!directory && (bench.options.remount != NULL || bench.options.server != NULL))
		return g4_cli_usage("bench", "--remount and --server are for directories");
	catch_signals(&caught);
	if (!directory)
		g4_fuse_wait_for_last_mount(bench.options.target); /* umount(8) does not */
	if (!directory)
		look_before(&bench);
	if ((directory ? g4_bench_posix : g4_bench_inprocess)(&bench.options, &target, message, sizeof(message)) < 0) {
		g4_cli_error("bench", "%s", message);
		return G4_EXIT_FAILURE;
	}
	bool good = has_room(&bench, &target) && run_workload(&bench, &target);
	sigprocmask(SIG_BLOCK, &caught, NULL); /* nothing interrupts the removal */
	good = finish(&bench, &target) && good;
	if (good && bench.json)
		print_json(&bench, directory);
	if (signal_caught) {
		g4_cli_error("bench", "stopped by a signal");
		signal(signal_caught, SIG_DFL);
		raise(signal_caught);
		sigprocmask(SIG_UNBLOCK, &caught, NULL); /* ends the program the way its caller expects */
	}
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
