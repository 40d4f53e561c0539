/* SPDX-License-Identifier: Apache-2.0 */
/* shredder bench: every engine on data in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

const char cli_help_bench[] =
	"[OPTION]... [FILE]\n\n"
	"Measures kernels and algorithms on random bytes in memory, or on the beginning of FILE: cuts alone, and cuts with\n"
	"digests; with one thread and with all. All of them, unless an option names one. The median of the rounds counts.\n\n"
	"  -j, --json             a JSON array\n"
	"      --size SIZE        bytes to chunk [256M]\n"
	"      --rounds N         rounds [5]\n" CLI_SETTINGS_HELP "      --help             show this\n";

#define ROUNDS_MAX 100
#define OPT_SIZE CLI_OPT_FREE
#define OPT_ROUNDS (CLI_OPT_FREE + 1)

static const char *const kernels[] = {"portable", "avx2", "avx512", "cuda"};

struct bench {
	struct cli_settings settings;
	uint8_t *data;
	uint64_t bytes;
	uint64_t rounds;
	bool json;
	bool printed;
	int status;
};

struct result {
	double gb_per_s;
	double cpu_seconds; /* of one round, the whole process's */
	uint64_t chunks;
};

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int count(void *user, const struct shredder_chunk *chunk)
{
	(void)chunk;
	++*(uint64_t *)user;
	return 0;
}

/* False when the engine is not here, or after a message, with the status for it. */
static bool measure(struct bench *bench, const struct shredder_options *options, struct result *result)
{
	double walls[ROUNDS_MAX], cpus[ROUNDS_MAX];
	struct shredder_stats stats;
	shredder *s;

	const int rc = shredder_open(options, &s);
	if (rc != 0 && rc != SHREDDER_E_ENGINE)
		bench->status = cli_open_failed("bench", options->engine, rc);
	if (rc != 0)
		return false;
	shredder_get_stats(s, &stats);
	bool good = strcmp(stats.kernel, options->engine) == 0;
	for (uint64_t round = 0; good && round <= bench->rounds; round++) {
		const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);

		result->chunks = 0;
		good = shredder_begin_buffer(s, bench->data, bench->bytes) == 0 &&
		       shredder_each(s, count, &result->chunks) == 0;
		if (!good) {
			g4_cli_error("bench", "%s", shredder_last_message(s));
			bench->status = G4_EXIT_FAILURE;
		}
		if (round == 0) /* touches the memory */
			continue;
		walls[round - 1] = seconds(CLOCK_MONOTONIC) - wall;
		cpus[round - 1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	}
	shredder_close(s);
	if (!good)
		return false;
	qsort(walls, bench->rounds, sizeof(*walls), by_value);
	qsort(cpus, bench->rounds, sizeof(*cpus), by_value);
	result->gb_per_s = (double)bench->bytes / 1e9 / walls[bench->rounds / 2];
	result->cpu_seconds = cpus[bench->rounds / 2];
	return true;
}

static void print_result(struct bench *bench, const char *algorithm, const struct shredder_options *options,
			 const struct result *result)
{
	const bool digests = (options->flags & SHREDDER_NO_DIGEST) == 0;

	if (bench->json) {
		printf("%s\n  {\"algorithm\": \"%s\", \"kernel\": \"%s\", \"threads\": %u, \"digests\": %s, "
		       "\"bytes\": %llu, \"chunks\": %llu, \"gb_per_s\": %.4f, \"cpu_seconds\": %.4f}",
		       bench->printed ? "," : "[", algorithm, options->engine, options->threads,
		       digests ? "true" : "false", (unsigned long long)bench->bytes, (unsigned long long)result->chunks,
		       result->gb_per_s, result->cpu_seconds);
	} else {
		if (!bench->printed)
			puts("algorithm  kernel    threads  digests      GB/s  CPU s/GB");
		printf("%-10s %-9s %7u  %-7s %9.3f %9.3f\n", algorithm, options->engine, options->threads,
		       digests ? "yes" : "no", result->gb_per_s, result->cpu_seconds / ((double)bench->bytes / 1e9));
	}
	fflush(stdout);
	bench->printed = true;
}

/* Whether the engine that the user named, if any, has this kernel. */
static bool is_wanted(const char *engine, const char *kernel)
{
	if (engine == NULL || strcmp(engine, "auto") == 0)
		return true;
	return strcmp(engine, kernel) == 0 || (strcmp(engine, "cpu") == 0 && strcmp(kernel, "cuda") != 0);
}

/* All kernels, with one thread and with `threads`, with and without digests. */
static void measure_algorithm(struct bench *bench, const char *algorithm, uint32_t threads)
{
	struct shredder_options options = bench->settings.options;
	struct result result;

	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++)
		for (uint32_t t = 1; t <= threads; t = t == 1 && threads > 1 ? threads : threads + 1)
			for (int digests = 0; digests < 2; digests++) {
				if (bench->status != G4_EXIT_OK ||
				    !is_wanted(bench->settings.options.engine, kernels[k]))
					continue;
				options.engine = kernels[k];
				options.threads = t;
				options.flags = SHREDDER_NO_DATA | (digests != 0 ? 0U : SHREDDER_NO_DIGEST);
				if (measure(bench, &options, &result))
					print_result(bench, algorithm, &options, &result);
			}
}

static int measure_all(struct bench *bench)
{
	struct shredder_params *p = &bench->settings.params;
	const struct shredder_params given = *p;
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const uint32_t threads = bench->settings.options.threads != 0 ? bench->settings.options.threads :
				 processors > 0 ? (uint32_t)g4_min64((uint64_t)processors, CLI_THREADS_MAX) :
						  1;

	for (uint32_t algorithm = SHREDDER_RABIN; algorithm <= SHREDDER_GEAR; algorithm++) {
		*p = given;
		if (given.algorithm != 0 && given.algorithm != algorithm)
			continue;
		p->algorithm = algorithm;
		const int rc = shredder_params_complete(p);
		if (rc != 0)
			return g4_cli_usage("bench", "%s", shredder_strerror(rc));
		measure_algorithm(bench, algorithm == SHREDDER_GEAR ? "gear" : "rabin", threads);
	}
	if (bench->status != G4_EXIT_OK)
		return bench->status;
	if (!bench->printed)
		return cli_open_failed("bench", bench->settings.options.engine, SHREDDER_E_ENGINE);
	if (bench->json)
		puts("\n]");
	return g4_cli_finish_output("bench", G4_EXIT_OK);
}

static bool fill_from_file(struct bench *bench, const char *name)
{
	const int fd = open(name, O_RDONLY | O_CLOEXEC);
	uint64_t done = 0;
	ssize_t got = 1;

	while (fd >= 0 && done < bench->bytes && got > 0) {
		got = read(fd, bench->data + done, bench->bytes - done);
		done += got > 0 ? (uint64_t)got : 0;
	}
	if (fd < 0 || got < 0)
		g4_cli_error("bench", "%s: %s", name, strerror(errno));
	else if (done == 0)
		g4_cli_error("bench", "%s: it is empty", name);
	if (fd >= 0)
		close(fd);
	bench->bytes = done;
	return fd >= 0 && got >= 0 && done > 0;
}

static void fill_randomly(uint8_t *data, uint64_t bytes)
{
	uint64_t x = UINT64_C(88172645463325252);

	for (uint64_t i = 0; i < bytes; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(data + i, &x, 8);
	}
}

static int take_option(struct bench *bench, int option, char **argv)
{
	const int taken = cli_settings_take(&bench->settings, "bench", option, optarg);

	if (taken != 0)
		return taken > 0 ? G4_EXIT_OK : G4_EXIT_USAGE;
	if (option == 'j')
		bench->json = true;
	else if (option == OPT_SIZE &&
		 (g4_parse_size(optarg, &bench->bytes) != 0 || bench->bytes == 0 || bench->bytes > UINT64_C(1) << 40))
		return g4_cli_usage("bench", "--size cannot be '%s'", optarg);
	else if (option == OPT_ROUNDS && (!cli_parse_number(optarg, ROUNDS_MAX, &bench->rounds) || bench->rounds == 0))
		return g4_cli_usage("bench", "--rounds cannot be '%s'", optarg);
	else if (option != OPT_SIZE && option != OPT_ROUNDS)
		return g4_cli_bad_option("bench", option, argv);
	return G4_EXIT_OK;
}

int cli_bench(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_SETTINGS_LONG,
						     {"json", no_argument, NULL, 'j'},
						     {"size", required_argument, NULL, OPT_SIZE},
						     {"rounds", required_argument, NULL, OPT_ROUNDS},
						     {NULL, 0, NULL, 0}};
	struct bench bench = {.bytes = 256 * G4_MIB, .rounds = 5};
	int option, status;

	cli_settings_init(&bench.settings);
	while ((option = getopt_long(argc, argv, ":" CLI_SETTINGS_SHORT "j", long_options, NULL)) != -1) {
		status = take_option(&bench, option, argv);
		if (status != G4_EXIT_OK)
			return status;
	}
	if (argc - optind > 1)
		return g4_cli_usage("bench", "it takes one file at most");
	bench.data = (uint8_t *)malloc(bench.bytes + 8);
	if (bench.data == NULL) {
		g4_cli_error("bench", "%s", strerror(ENOMEM));
		return G4_EXIT_FAILURE;
	}
	status = G4_EXIT_OK;
	if (optind == argc)
		fill_randomly(bench.data, bench.bytes);
	else if (!fill_from_file(&bench, argv[optind]))
		status = G4_EXIT_FAILURE;
	if (status == G4_EXIT_OK)
		status = measure_all(&bench);
	free(bench.data);
	return status;
}
