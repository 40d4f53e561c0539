/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs trace: recording accesses to pages, and what caches would make of them. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units_host.h"
#include "cli/cli.h"
#include "print/report.h"
#include "trace/block.h"
#include "trace/record.h"
#include "trace/replay.h"

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define MOST_SIZES 64u
#define MOST_WAYS 16u

const char g4_help_trace[] =
	"record [-d DIRECTORY | --device DEVICE] [--text] -o FILE COMMAND [ARGUMENT...]\n"
	"  or: gpu4fs trace replay [--policy NAME,...] [--size SIZE,...] [--ways N,...] [--json | --plot] FILE\n"
	"  or: gpu4fs trace show FILE\n\n"
	"record runs COMMAND and writes which pages of which files it and the programs that it\n"
	"starts read and write, on any file system. Mapped files count as read where they are\n"
	"mapped. Requests of io_uring and of asynchronous I/O are not seen.\n"
	"With --device it writes what anybody asks that block device for meanwhile, whatever\n"
	"file system is on it; for root.\n"
	"replay tells which part of the accesses caches of 4 KiB pages would have answered.\n"
	"show prints a trace as text.\n\n"
	"  -d, --directory DIRECTORY  only files on the file system of DIRECTORY\n"
	"      --device DEVICE  requests that reach this disk or partition, in place of files\n"
	"  -o, --output FILE    where the trace goes\n"
	"      --text           as text: r or w, a file's number, offset and length in bytes\n"
	"      --policy NAME,...  fifo, clock, second-chance, lru, sieve, s3-fifo, s3-fifo-1, arc,\n"
	"                       clock-pro, srrip, drrip, and min, which knows the future: the bound;\n"
	"                       all if not given\n"
	"      --size SIZE,...  sizes of caches, such as 64M, or percentages of what the trace\n"
	"                       touches, such as 10%; 1%,2%,5%,10%,20%,40%,80% if not given\n"
	"      --ways N,...     pages of a set, or full; 8,full if not given: the engine has 8\n"
	"      --json           print one JSON object\n"
	"      --plot           print columns for gnuplot: a block for each number of ways\n"
	"      --help           show this\n";

enum { OPTION_DEVICE = 256, OPTION_TEXT, OPTION_POLICY, OPTION_SIZE, OPTION_WAYS, OPTION_JSON, OPTION_PLOT };
static const struct option long_options[] = {
	{"directory", required_argument, NULL, 'd'},	    {"device", required_argument, NULL, OPTION_DEVICE},
	{"output", required_argument, NULL, 'o'},	    {"text", no_argument, NULL, OPTION_TEXT},
	{"policy", required_argument, NULL, OPTION_POLICY}, {"size", required_argument, NULL, OPTION_SIZE},
	{"ways", required_argument, NULL, OPTION_WAYS},	    {"json", no_argument, NULL, OPTION_JSON},
	{"plot", no_argument, NULL, OPTION_PLOT},	    {NULL, 0, NULL, 0},
};

struct size { /* of a cache */
	uint64_t bytes;
	double percent; /* of the pages of a trace, if bytes is 0 */
};

struct options {
	const char *directory, *device, *output, *policies, *sizes, *ways;
	bool text, json, plot;
};

static int fail(const char *name, const char *what)
{
	g4_cli_error("trace", "%s: %s", name, what);
	return G4_EXIT_FAILURE;
}

/* ------------------------------------------------------------------ record */

static int finish_record(FILE *out, const char *name)
{
	const bool bad = ferror(out) != 0;

	if (fclose(out) == 0 && !bad)
		return 0;
	return fail(name, bad ? "could not be written" : strerror(errno));
}

static int cannot_run(const char *command, int rc)
{
	g4_cli_error("trace", "%s: %s", command, strerror(-rc));
	return rc == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int record_device(const struct options *options, char **command)
{
	struct g4_block_record record = {
		.device = options->device, .output = options->output, .as_text = options->text};
	char message[G4_BLOCK_MESSAGE_BYTES];
	bool ran;

	const int rc = g4_block_command(&record, command, &ran, message);
	if (message[0]) {
		g4_cli_error("trace", "%s", message);
		return G4_EXIT_FAILURE;
	}
	if (!ran)
		return cannot_run(command[0], rc);
	fprintf(stderr, "%s: %" PRIu64 " requests\n", options->output, record.accesses);
	return rc;
}

static int record_files(const struct options *options, FILE *out, struct g4_record *record, char **command)
{
	bool ran;

	const int rc = g4_record_command(record, command, &ran);
	const int status = finish_record(out, options->output);
	if (!ran)
		return cannot_run(command[0], rc);
	if (rc < 0) {
		g4_cli_error("trace", "%s: could not be followed to its end: %s", command[0], strerror(-rc));
		return G4_EXIT_FAILURE;
	}
	fprintf(stderr, "%s: %" PRIu64 " accesses to %" PRIu64 " files\n", options->output, record->accesses,
		record->files);
	return status ? status : rc;
}

static int record(const struct options *options, char **command)
{
	struct g4_trace_writer writer;
	struct g4_record record = {.writer = &writer};
	struct stat st;

	if (!options->output)
		return g4_cli_usage("trace", "record needs -o FILE");
	if (!command[0])
		return g4_cli_usage("trace", "a command is needed");
	if (options->directory && options->device)
		return g4_cli_usage("trace", "-d and --device exclude each other");
	if (options->directory) {
		if (stat(options->directory, &st) != 0)
			return fail(options->directory, g4_cli_why(errno));
		record.one_file_system = true;
		record.dev = st.st_dev;
	}
	if (options->device)
		return record_device(options, command);
	FILE *out = fopen(options->output, "we");
	if (!out)
		return fail(options->output, strerror(errno));
	g4_trace_write_begin(&writer, out, options->text);
	const int rc = record_files(options, out, &record, command);
	if (options->directory && (stat(options->directory, &st) != 0 || st.st_dev != record.dev))
		g4_cli_error("trace", "%s: was unmounted meanwhile: %s has what was accessed of it until then",
			     options->directory, options->output);
	return rc;
}

/* ------------------------------------------------------------------ replay */

struct replay {
	bool policies[G4_POLICY_COUNT];
	struct size sizes[MOST_SIZES];
	uint32_t ways[MOST_WAYS];
	uint32_t size_count, way_count;
	struct g4_pages pages;
	const char *name;
	uint64_t accesses;
};

/* The next word of a list that commas separate; "" when there is a comma too much. */
static bool next_word(const char **list, char *word, size_t bytes)
{
	if (!*list)
		return false;
	const size_t length = strcspn(*list, ",");
	snprintf(word, bytes, "%.*s", (int)length, *list);
	*list = (*list)[length] ? *list + length + 1 : NULL;
	return true;
}

static int parse_policies(const char *list, struct replay *replay)
{
	char word[32];

	while (next_word(&list, word, sizeof(word))) {
		uint32_t p = 0;
		while (p < G4_POLICY_COUNT && strcmp(word, g4_policy_name((enum g4_policy)p)) != 0)
			p++;
		if (p == G4_POLICY_COUNT)
			return g4_cli_usage("trace", "there is no policy '%s'", word);
		replay->policies[p] = true;
	}
	return 0;
}

static int parse_sizes(const char *list, struct replay *replay)
{
	char word[32];

	for (replay->size_count = 0; next_word(&list, word, sizeof(word)); replay->size_count++) {
		if (replay->size_count == MOST_SIZES)
			return g4_cli_usage("trace", "more than %u sizes", MOST_SIZES);
		struct size *size = &replay->sizes[replay->size_count];
		char *end;
		*size = (struct size){.percent = strtod(word, &end)};
		if (end != word && strcmp(end, "%") == 0 && size->percent > 0 && size->percent <= 100)
			continue;
		if (g4_parse_size(word, &size->bytes) != 0 || size->bytes < G4_TRACE_PAGE_BYTES ||
		    size->bytes / G4_TRACE_PAGE_BYTES > UINT32_MAX / 2)
			return g4_cli_usage(
				"trace", "'%s' is no size of a cache: 4K and more, or a percentage up to 100%%", word);
	}
	return 0;
}

static int parse_ways(const char *list, struct replay *replay)
{
	char word[32];

	for (replay->way_count = 0; next_word(&list, word, sizeof(word)); replay->way_count++) {
		char *end;
		const unsigned long ways = strtoul(word, &end, 10);
		const bool full = strcmp(word, "full") == 0;
		if (replay->way_count == MOST_WAYS)
			return g4_cli_usage("trace", "more than %u numbers of ways", MOST_WAYS);
		if (!full && (end == word || *end || word[0] == '-' || ways == 0 || ways > UINT32_MAX / 2))
			return g4_cli_usage("trace", "'%s' is no number of ways", word);
		replay->ways[replay->way_count] = full ? 0 : (uint32_t)ways;
	}
	return 0;
}

static int load(const char *name, struct g4_trace *trace)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	FILE *in = fopen(name, "re");

	if (!in)
		return fail(name, strerror(errno));
	const int rc = g4_trace_read(in, trace, message);
	fclose(in);
	return rc == 0 ? 0 : fail(name, message);
}

static uint32_t capacity_of(const struct size *size, const struct g4_pages *pages)
{
	const double part = size->percent * pages->distinct / 100;

	if (size->bytes)
		return (uint32_t)(size->bytes / G4_TRACE_PAGE_BYTES);
	return part < 1 ? 1 : (uint32_t)(part + 0.5);
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

static void print_ways(char *text, size_t bytes, uint32_t ways)
{
	snprintf(text, bytes, ways ? "%" PRIu32 : "full", ways);
}

/* A table for people, or columns for gnuplot: a block for each number of ways, two empty lines between. */
static void print_heads(const struct replay *replay, bool plot, uint32_t w)
{
	char ways[16];

	print_ways(ways, sizeof(ways), replay->ways[w]);
	printf(plot ? "%s# ways: %s\n%-9s" : "%sways: %s\n%10s",
	       w == 0 ? "" :
	       plot   ? "\n\n" :
			"\n",
	       ways, plot ? "MiB" : "size");
	for (uint32_t p = 0; p < G4_POLICY_COUNT; p++)
		if (replay->policies[p])
			printf(" %*s", plot ? 1 : 13, g4_policy_name((enum g4_policy)p));
	putchar('\n');
}

static void print_size(uint32_t capacity, bool plot)
{
	char size[G4_SIZE_TEXT_BYTES];

	if (plot)
		printf("%-9.6g", (double)capacity * G4_TRACE_PAGE_BYTES / (1 << 20));
	else
		printf("%10s", g4_format_size((uint64_t)capacity * G4_TRACE_PAGE_BYTES, size, sizeof(size)));
}

static void report_one(struct g4_report *report, const struct replay *replay, uint32_t p, uint32_t ways,
		       const struct g4_replay *found)
{
	g4_report_object(report, NULL);
	g4_report_text(report, "policy", g4_policy_name((enum g4_policy)p));
	g4_report_count(report, "size_bytes", (uint64_t)found->capacity * G4_TRACE_PAGE_BYTES);
	g4_report_count(report, "ways", ways ? ways : found->capacity);
	g4_report_bool(report, "fully_associative", ways == 0);
	g4_report_count(report, "hits", found->hits);
	g4_report_count(report, "read_hits", found->read_hits);
	g4_report_real(report, "hit_ratio", ratio(found->hits, replay->pages.count));
	g4_report_real(report, "read_hit_ratio", ratio(found->read_hits, replay->pages.count - replay->pages.writes));
	g4_report_end(report);
}

static int replay_all(const struct replay *replay, struct g4_report *report, bool plot)
{
	for (uint32_t w = 0; w < replay->way_count; w++) {
		if (!report->json)
			print_heads(replay, plot, w);
		for (uint32_t s = 0; s < replay->size_count; s++) {
			const uint32_t capacity = capacity_of(&replay->sizes[s], &replay->pages);
			if (!report->json)
				print_size(capacity, plot);
			for (uint32_t p = 0; p < G4_POLICY_COUNT; p++) {
				struct g4_replay found;
				if (!replay->policies[p])
					continue;
				if (g4_replay(&replay->pages, (enum g4_policy)p, capacity, replay->ways[w], &found) < 0)
					return fail(replay->name, g4_strerror(-G4_E_NOMEM));
				if (report->json)
					report_one(report, replay, p, replay->ways[w], &found);
				else
					printf(plot ? " %.6f" : " %13.4f", ratio(found.hits, replay->pages.count));
			}
			if (!report->json)
				putchar('\n');
		}
	}
	return 0;
}

static int print_replay(const struct replay *replay, bool json, bool plot)
{
	const struct g4_pages *pages = &replay->pages;
	struct g4_report report;

	g4_report_start(&report, stdout, json);
	if (!plot) {
		g4_report_text(&report, "trace", replay->name);
		g4_report_count(&report, "accesses", replay->accesses);
		g4_report_count(&report, "page_accesses", pages->count);
		g4_report_count(&report, "page_writes", pages->writes);
		g4_report_size(&report, "distinct_bytes", (uint64_t)pages->distinct * G4_TRACE_PAGE_BYTES);
	}
	if (json)
		g4_report_list(&report, "results");
	else if (!plot)
		putchar('\n');
	const int status = replay_all(replay, &report, plot);
	if (json)
		g4_report_finish(&report);
	return status;
}

static int replay(const struct options *options, const char *name)
{
	static struct replay replay;
	struct g4_trace trace = {0};
	int status;

	if (options->json && options->plot)
		return g4_cli_usage("trace", "--json and --plot exclude each other");
	replay.name = name;
	for (uint32_t p = 0; p < G4_POLICY_COUNT; p++)
		replay.policies[p] = options->policies == NULL;
	status = options->policies ? parse_policies(options->policies, &replay) : 0;
	if (status == 0)
		status = parse_sizes(options->sizes ? options->sizes : "1%,2%,5%,10%,20%,40%,80%", &replay);
	if (status == 0)
		status = parse_ways(options->ways ? options->ways : "8,full", &replay);
	if (status == 0)
		status = load(name, &trace);
	replay.accesses = trace.count;
	if (status == 0 && g4_pages_of(&trace, &replay.pages) < 0)
		status = fail(name, g4_strerror(-G4_E_NOMEM));
	g4_trace_free(&trace);
	if (status == 0)
		status = print_replay(&replay, options->json, options->plot);
	g4_pages_free(&replay.pages);
	return status;
}

/* ------------------------------------------------------------------ show */

static int show(const char *name)
{
	struct g4_trace_writer writer;
	struct g4_trace trace = {0};
	const int status = load(name, &trace);

	if (status == 0)
		g4_trace_write_begin(&writer, stdout, true);
	for (uint64_t i = 0; status == 0 && i < trace.count; i++)
		g4_trace_write(&writer, &trace.accesses[i]);
	g4_trace_free(&trace);
	return status;
}

int g4_cli_trace(int argc, char **argv)
{
	struct options options = {0};

	for (int answer; (answer = getopt_long(argc, argv, "+:d:o:", long_options, NULL)) != -1;) {
		(void)answer;
		return g4_cli_usage("trace", "record, replay or show comes first");
	}
	if (optind == argc)
		return g4_cli_usage("trace", "record, replay or show is needed");
	const char *what = argv[optind++];
	const bool records = strcmp(what, "record") == 0, replays = strcmp(what, "replay") == 0;
	if (!records && !replays && strcmp(what, "show") != 0)
		return g4_cli_usage("trace", "'%s' is not record, replay or show", what);
	for (int answer; (answer = getopt_long(argc, argv, records ? "+:d:o:" : ":d:o:", long_options, NULL)) != -1;) {
		switch (answer) {
		case 'd':
			options.directory = optarg;
			break;
		case OPTION_DEVICE:
			options.device = optarg;
			break;
		case 'o':
			options.output = optarg;
			break;
		case OPTION_TEXT:
			options.text = true;
			break;
		case OPTION_POLICY:
			options.policies = optarg;
			break;
		case OPTION_SIZE:
			options.sizes = optarg;
			break;
		case OPTION_WAYS:
			options.ways = optarg;
			break;
		case OPTION_JSON:
			options.json = true;
			break;
		case OPTION_PLOT:
			options.plot = true;
			break;
		default:
			return g4_cli_bad_option("trace", answer, argv);
		}
	}
	const bool for_record = options.directory || options.device || options.output || options.text;
	const bool for_replay = options.policies || options.sizes || options.ways || options.json || options.plot;
	if ((for_record && !records) || (for_replay && !replays))
		return g4_cli_usage("trace", "%s does not take these options", what);
	if (records)
		return record(&options, argv + optind);
	if (argc - optind != 1)
		return g4_cli_usage("trace", "one file is needed");
	return replays ? replay(&options, argv[optind]) : show(argv[optind]);
}
