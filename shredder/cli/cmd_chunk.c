/* SPDX-License-Identifier: Apache-2.0 */
/* shredder chunk: the chunks of one input. docs/shredder.md defines the formats. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

const char cli_help_chunk[] =
	"[OPTION]... FILE|-\n\n"
	"Prints the chunks of a file or of standard input, one a line: offset, length, BLAKE3-256 digest, fingerprint and\n"
	"reason of the cut (marker, max, end). The last line is \"total BYTES CHUNKS\", only when all was covered.\n\n"
	"  -j, --json             one JSON object instead\n"
	"  -0, --null             lines end with a zero byte\n"
	"  -n, --no-digest        compute no digests; the column is \"-\"\n"
	"  -s, --stats            tell what the stages did on standard error\n" CLI_SETTINGS_HELP
	"      --help             show this\n";

struct output {
	bool json;
	bool digests;
	char end;
	uint64_t chunks, bytes;
};

static void print_digest(const uint8_t *digest)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * SHREDDER_DIGEST_BYTES + 1];

	for (int i = 0; i < SHREDDER_DIGEST_BYTES; i++) {
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[2 * SHREDDER_DIGEST_BYTES] = 0;
	fputs(text, stdout);
}

static void print_chunk(struct output *out, const struct shredder_chunk *chunk)
{
	const unsigned long long offset = chunk->offset, length = chunk->length, fingerprint = chunk->fingerprint;

	if (out->json) {
		printf("%s\n    {\"offset\": %llu, \"length\": %llu, \"fingerprint\": \"%016llx\", \"cut\": \"%s\"",
		       out->chunks == 0 ? "" : ",", offset, length, fingerprint, cli_cut_name(chunk->cut));
		if (out->digests) {
			fputs(", \"digest\": \"", stdout);
			print_digest(chunk->digest);
			putchar('"');
		}
		putchar('}');
	} else {
		printf("%llu %llu ", offset, length);
		if (out->digests)
			print_digest(chunk->digest);
		else
			putchar('-');
		printf(" %016llx %s%c", fingerprint, cli_cut_name(chunk->cut), out->end);
	}
	out->chunks++;
	out->bytes += chunk->length;
}

static void print_begin(const struct output *out, const char *name, const struct shredder_params *params)
{
	if (!out->json)
		return;
	fputs("{\n  \"input\": ", stdout);
	g4_print_json_string(stdout, name, strlen(name));
	fputs(",\n  \"parameters\": ", stdout);
	cli_print_params(stdout, params);
	fputs(",\n  \"chunks\": [", stdout);
}

static void print_end(const struct output *out, const char *error)
{
	const unsigned long long bytes = out->bytes, chunks = out->chunks;

	if (out->json) {
		printf("\n  ],\n  \"bytes\": %llu,\n  \"count\": %llu,\n  \"complete\": %s", bytes, chunks,
		       error == NULL ? "true" : "false");
		if (error != NULL) {
			fputs(",\n  \"error\": ", stdout);
			g4_print_json_string(stdout, error, strlen(error));
		}
		puts("\n}");
	} else if (error == NULL) {
		printf("total %llu %llu%c", bytes, chunks, out->end);
	}
}

static void print_stats(const shredder *s)
{
	struct shredder_stats stats;

	shredder_get_stats(s, &stats);
	const double seconds = (double)stats.elapsed_ns / 1e9;
	fprintf(stderr, "%llu bytes, %llu %s in %.3f s: %.3f GB/s\n", (unsigned long long)stats.bytes,
		(unsigned long long)stats.chunks, g4_counted(stats.chunks, "chunk", "chunks"), seconds,
		(double)stats.bytes / 1e9 / seconds);
	fprintf(stderr, "engine %s (%s), %u %s, %u %s of %llu bytes%s\n", stats.engine, stats.kernel, stats.threads,
		g4_counted(stats.threads, "thread", "threads"), stats.buffers,
		g4_counted(stats.buffers, "buffer", "buffers"), (unsigned long long)stats.buffer_bytes,
		stats.direct != 0 ? ", direct I/O" : "");
	if (stats.fell_back != NULL)
		fprintf(stderr, "not what was asked for: %s\n", stats.fell_back);
	cli_print_gpus(s);
	for (uint32_t stage = 0; stage < SHREDDER_STAGES; stage++)
		fprintf(stderr, "%-8s %8.3f s busy, %5.1f %% of one thread\n", shredder_stage_name(stage),
			(double)stats.busy_ns[stage] / 1e9,
			(double)stats.busy_ns[stage] / (double)stats.elapsed_ns * 100);
}

/* Size of what is read, for the progress bar; 0: unknown. */
static uint64_t input_bytes(const char *name)
{
	struct stat st;
	const int rc = strcmp(name, "-") == 0 ? fstat(STDIN_FILENO, &st) : stat(name, &st);

	return rc == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static int chunk_input(shredder *s, const char *name, struct output *out, const struct shredder_params *params)
{
	const uint64_t total = input_bytes(name);
	struct g4_progress progress = {0};
	struct shredder_chunk chunk;
	int rc = strcmp(name, "-") == 0 ? shredder_begin_fd(s, STDIN_FILENO) : shredder_begin_file(s, name);

	if (rc != 0) {
		g4_cli_error("chunk", "%s", shredder_last_message(s));
		return G4_EXIT_FAILURE;
	}
	if (total > 0 && !isatty(STDOUT_FILENO))
		g4_progress_start(&progress, "chunking");
	print_begin(out, name, params);
	while ((rc = shredder_next(s, &chunk)) == 1 && !ferror(stdout)) {
		print_chunk(out, &chunk);
		g4_progress_step(&progress, out->bytes, total);
	}
	g4_progress_clear(&progress);
	if (rc == 1) { /* nobody reads what is printed */
		shredder_abandon(s);
		return g4_cli_finish_output("chunk", G4_EXIT_FAILURE);
	}
	print_end(out, rc == 0 ? NULL : shredder_last_message(s));
	if (rc != 0)
		g4_cli_error("chunk", "%s: %s", name, shredder_last_message(s));
	return g4_cli_finish_output("chunk", rc == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE);
}

int cli_chunk(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_SETTINGS_LONG,
						     {"json", no_argument, NULL, 'j'},
						     {"null", no_argument, NULL, '0'},
						     {"no-digest", no_argument, NULL, 'n'},
						     {"stats", no_argument, NULL, 's'},
						     {NULL, 0, NULL, 0}};
	struct cli_settings settings;
	struct output out = {.digests = true, .end = '\n'};
	bool stats = false;
	shredder *s;
	int option;

	cli_settings_init(&settings);
	while ((option = getopt_long(argc, argv, ":" CLI_SETTINGS_SHORT "j0ns", long_options, NULL)) != -1) {
		const int taken = cli_settings_take(&settings, "chunk", option, optarg);

		if (taken < 0)
			return G4_EXIT_USAGE;
		if (option == 'j')
			out.json = true;
		else if (option == '0')
			out.end = 0;
		else if (option == 'n')
			out.digests = false;
		else if (option == 's')
			stats = true;
		else if (taken == 0)
			return g4_cli_bad_option("chunk", option, argv);
	}
	if (optind + 1 != argc)
		return g4_cli_usage("chunk", "it takes one file, or - for standard input");
	settings.options.flags |= SHREDDER_NO_DATA | (out.digests ? 0U : SHREDDER_NO_DIGEST);
	int status = cli_settings_open(&settings, "chunk", &s);
	if (status != G4_EXIT_OK)
		return status;
	status = chunk_input(s, argv[optind], &out, &settings.params);
	cli_settings_tell(&settings, "chunk", s);
	if (stats)
		print_stats(s);
	shredder_close(s);
	return status;
}
