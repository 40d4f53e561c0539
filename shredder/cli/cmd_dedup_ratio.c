/* SPDX-License-Identifier: Apache-2.0 */
/* shredder dedup-ratio: how much of files and directories is the same, and what a later generation adds. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/digests.h"

const char cli_help_dedup_ratio[] =
	"[OPTION]... PATH...\n\n"
	"Cuts all regular files under each PATH into chunks and tells how many bytes are left when each chunk is kept once.\n"
	"Each PATH is a generation: what it adds to those before it is told by itself. Symbolic links are not followed;\n"
	"other files are counted and left out.\n\n"
	"  -j, --json             one JSON object\n"
	"  -p, --plot FILE        draw the result into a PNG; needs gnuplot\n"
	"  -s, --stats            tell what the stages did on standard error\n" CLI_SETTINGS_HELP
	"      --help             show this\n";

/* Class i of the histogram: chunks of 2^i to 2^(i+1) - 1 bytes. */
#define CLASSES 64

struct generation {
	const char *path;
	uint64_t files, others; /* read; left out, as they are no regular files */
	uint64_t bytes, chunks;
	uint64_t new_bytes, new_chunks;	    /* that were nowhere before */
	uint64_t known_bytes, known_chunks; /* that an earlier generation has, too */
};

struct survey {
	shredder *s;
	struct generation *generations;
	uint32_t count;
	struct digest_set digests;
	uint64_t class_chunks[CLASSES], class_bytes[CLASSES];
	uint64_t errors;
	struct g4_progress progress;
	uint64_t busy_ns[SHREDDER_STAGES], elapsed_ns;
};

/* ------------------------------------------------------------------------------------------------------- reading */

static bool add_chunk(struct survey *survey, uint32_t index, const struct shredder_chunk *chunk)
{
	struct generation *g = &survey->generations[index];
	const uint64_t before = survey->digests.used;
	const uint32_t group = digest_set_add(&survey->digests, chunk->digest, index + 1);
	const int class = 63 - __builtin_clzll(chunk->length);

	if (group == 0) {
		g4_cli_error("dedup-ratio", "%s", strerror(ENOMEM));
		return false;
	}
	g->bytes += chunk->length;
	g->chunks++;
	survey->class_chunks[class]++;
	survey->class_bytes[class] += chunk->length;
	if (survey->digests.used > before) {
		g->new_bytes += chunk->length;
		g->new_chunks++;
	} else if (group != index + 1) {
		g->known_bytes += chunk->length;
		g->known_chunks++;
	}
	return true;
}

/* False only when the whole survey must end. What was counted of a file that fails stays: the survey says so. */
static bool read_file(struct survey *survey, uint32_t index, const char *path)
{
	struct shredder_chunk chunk;
	struct shredder_stats stats;
	int rc = shredder_begin_file(survey->s, path);
	const bool begun = rc == 0;

	while (rc >= 0 && (rc = shredder_next(survey->s, &chunk)) == 1)
		if (!add_chunk(survey, index, &chunk))
			return false;
	if (rc < 0) {
		g4_progress_clear(&survey->progress);
		g4_cli_error("dedup-ratio", "%s%s%s", begun ? path : "", begun ? ": " : "",
			     shredder_last_message(survey->s));
		survey->errors++;
		return true;
	}
	survey->generations[index].files++;
	shredder_get_stats(survey->s, &stats);
	for (uint32_t stage = 0; stage < SHREDDER_STAGES; stage++)
		survey->busy_ns[stage] += stats.busy_ns[stage];
	survey->elapsed_ns += stats.elapsed_ns;
	return true;
}

static bool read_entry(struct survey *survey, uint32_t index, const FTSENT *entry)
{
	switch (entry->fts_info) {
	case FTS_F:
		return read_file(survey, index, entry->fts_accpath);
	case FTS_D:
	case FTS_DP:
	case FTS_DOT:
		return true;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		g4_progress_clear(&survey->progress);
		g4_cli_error("dedup-ratio", "%s: %s", entry->fts_path, strerror(entry->fts_errno));
		survey->errors++;
		return true;
	case FTS_SLNONE: /* a PATH */
		return read_file(survey, index, entry->fts_accpath);
	default: /* links, devices, pipes, sockets */
		survey->generations[index].others++;
		return true;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Files in the order of their names, so that the result does not depend on the directory. */
static bool read_generation(struct survey *survey, uint32_t index)
{
	char *paths[] = {(char *)survey->generations[index].path, NULL};
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_name);
	bool going = tree != NULL;
	FTSENT *entry;

	while (going && (errno = 0, entry = fts_read(tree)) != NULL) {
		going = read_entry(survey, index, entry);
		g4_progress_step(&survey->progress, index, survey->count);
	}
	if (going && errno != 0) {
		g4_cli_error("dedup-ratio", "%s: %s", paths[0], strerror(errno));
		survey->errors++;
	}
	if (tree != NULL)
		fts_close(tree);
	else
		g4_cli_error("dedup-ratio", "%s: %s", paths[0], strerror(errno));
	return going;
}

/* ------------------------------------------------------------------------------------------------------ printing */

static struct generation sum(const struct survey *survey)
{
	struct generation total = {.path = "total"};

	for (uint32_t i = 0; i < survey->count; i++) {
		const struct generation *g = &survey->generations[i];

		total.files += g->files;
		total.others += g->others;
		total.bytes += g->bytes;
		total.chunks += g->chunks;
		total.new_bytes += g->new_bytes;
		total.new_chunks += g->new_chunks;
		total.known_bytes += g->known_bytes;
		total.known_chunks += g->known_chunks;
	}
	return total;
}

/* How many times more bytes there are than unique ones. */
static double ratio(const struct generation *g)
{
	return g->new_bytes == 0 ? 1 : (double)g->bytes / (double)g->new_bytes;
}

static void print_row(const struct generation *g)
{
	char bytes[G4_SIZE_TEXT_BYTES], fresh[G4_SIZE_TEXT_BYTES];

	printf("%9llu %10llu %11s %10llu %11s %6.2f %5.1f%%  %s\n", (unsigned long long)g->files,
	       (unsigned long long)g->chunks, g4_format_size(g->bytes, bytes, sizeof(bytes)),
	       (unsigned long long)g->new_chunks, g4_format_size(g->new_bytes, fresh, sizeof(fresh)), ratio(g),
	       g->bytes == 0 ? 0 : (double)g->known_bytes / (double)g->bytes * 100, g->path);
}

static void print_histogram(const struct survey *survey, const struct generation *total)
{
	char from[G4_SIZE_TEXT_BYTES];

	puts("\nchunks of at least");
	for (int i = 0; i < CLASSES; i++) {
		const double share = (double)survey->class_chunks[i] / (double)total->chunks;
		static const char bar[] = "########################################";

		if (survey->class_chunks[i] != 0)
			printf("%10s %10llu %5.1f%% %.*s\n", g4_format_size(UINT64_C(1) << i, from, sizeof(from)),
			       (unsigned long long)survey->class_chunks[i], share * 100, (int)(share * 40), bar);
	}
}

static void print_text(const struct survey *survey)
{
	const struct generation total = sum(survey);

	puts("    files     chunks       bytes new chunks   new bytes  ratio  known  path");
	for (uint32_t i = 0; i < survey->count; i++)
		print_row(&survey->generations[i]);
	if (survey->count > 1)
		print_row(&total);
	printf("\nratio %.3f: %llu bytes, %llu unique", ratio(&total), (unsigned long long)total.bytes,
	       (unsigned long long)total.new_bytes);
	if (total.chunks != 0)
		printf(", %llu a chunk", (unsigned long long)(total.bytes / total.chunks));
	if (total.others != 0)
		printf("; %llu %s left out", (unsigned long long)total.others,
		       g4_counted(total.others, "file is no regular one and", "files are no regular ones and"));
	putchar('\n');
	if (survey->errors != 0)
		printf("INCOMPLETE: %llu %s could not be read\n", (unsigned long long)survey->errors,
		       g4_counted(survey->errors, "file", "files"));
	if (total.chunks != 0)
		print_histogram(survey, &total);
}

static void print_generation_json(const struct generation *g)
{
	fputs("{\"path\": ", stdout);
	g4_print_json_string(stdout, g->path, strlen(g->path));
	printf(", \"files\": %llu, \"others\": %llu, \"bytes\": %llu, \"chunks\": %llu", (unsigned long long)g->files,
	       (unsigned long long)g->others, (unsigned long long)g->bytes, (unsigned long long)g->chunks);
	printf(", \"new_bytes\": %llu, \"new_chunks\": %llu, \"known_bytes\": %llu, \"known_chunks\": %llu",
	       (unsigned long long)g->new_bytes, (unsigned long long)g->new_chunks, (unsigned long long)g->known_bytes,
	       (unsigned long long)g->known_chunks);
	printf(", \"ratio\": %.4f}", ratio(g));
}

static void print_json(const struct survey *survey, const struct shredder_params *params)
{
	const struct generation total = sum(survey);
	const char *comma = "";

	fputs("{\n  \"parameters\": ", stdout);
	cli_print_params(stdout, params);
	fputs(",\n  \"generations\": [", stdout);
	for (uint32_t i = 0; i < survey->count; i++) {
		printf("%s\n    ", i == 0 ? "" : ",");
		print_generation_json(&survey->generations[i]);
	}
	fputs("\n  ],\n  \"total\": ", stdout);
	print_generation_json(&total);
	fputs(",\n  \"histogram\": [", stdout);
	for (int i = 0; i < CLASSES; i++)
		if (survey->class_chunks[i] != 0) {
			printf("%s\n    {\"from_bytes\": %llu, \"chunks\": %llu, \"bytes\": %llu}", comma, 1ULL << i,
			       (unsigned long long)survey->class_chunks[i], (unsigned long long)survey->class_bytes[i]);
			comma = ",";
		}
	printf("\n  ],\n  \"errors\": %llu,\n  \"complete\": %s\n}\n", (unsigned long long)survey->errors,
	       survey->errors == 0 ? "true" : "false");
}

static void print_stats(const struct survey *survey)
{
	const struct generation total = sum(survey);
	const double seconds = (double)survey->elapsed_ns / 1e9;

	fprintf(stderr, "%.3f s in the pipeline: %.3f GB/s\n", seconds,
		seconds > 0 ? (double)total.bytes / 1e9 / seconds : 0);
	for (uint32_t stage = 0; stage < SHREDDER_STAGES; stage++)
		fprintf(stderr, "%-8s %8.3f s busy\n", shredder_stage_name(stage),
			(double)survey->busy_ns[stage] / 1e9);
}

/* ---------------------------------------------------------------------------------------------------------- plot */

/* A name in gnuplot's data. */
static void print_label(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text != 0; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text == '\n' ? ' ' : *text, to);
	}
	fputc('"', to);
}

/* A name in gnuplot's commands: in single quotes nothing has a meaning but the quote; in others it runs `commands`. */
static void print_quoted(FILE *to, const char *text)
{
	fputc('\'', to);
	for (; *text != 0; text++) {
		if (*text == '\'')
			fputc('\'', to);
		fputc(*text, to);
	}
	fputc('\'', to);
}

static void write_plot(FILE *to, const struct survey *survey, const char *file)
{
	fputs("set terminal pngcairo noenhanced size 1100,420 font \"sans,10\"\nset output ", to);
	print_quoted(to, file);
	fputs("\nset multiplot layout 1,2", to);
	if (survey->errors != 0)
		fprintf(to, " title \"INCOMPLETE: %llu %s could not be read\"", (unsigned long long)survey->errors,
			g4_counted(survey->errors, "file", "files"));
	fputs("\nset style fill solid 0.8\nset boxwidth 0.8\nset yrange [0:]\nset grid y\n"
	      "set xtics rotate by -35\nset title \"Bytes of each generation\"\nset ylabel \"GB\"\nset key outside top horizontal\n"
	      "set style data histograms\nset style histogram rowstacked\n"
	      "plot $generations using 2:xtic(1) title \"new\" lc rgb \"#c0504d\", "
	      "'' using 3 title \"again in itself\" lc rgb \"#9bbb59\", '' using 4 title \"known from before\" lc rgb "
	      "\"#4f81bd\"\n",
	      to);
	fputs("set title \"Sizes of chunks\"\nset ylabel \"% of the chunks\"\nset key off\n"
	      "plot $sizes using 2:xtic(1) lc rgb \"#4f81bd\"\nunset multiplot\n",
	      to);
}

static void write_plot_data(FILE *to, const struct survey *survey)
{
	const struct generation total = sum(survey);
	char from[G4_SIZE_TEXT_BYTES];

	fputs("$generations << EOD\n", to);
	for (uint32_t i = 0; i < survey->count; i++) {
		const struct generation *g = &survey->generations[i];
		const char *slash = strrchr(g->path, '/');

		print_label(to, slash != NULL && slash[1] != 0 ? slash + 1 : g->path);
		fprintf(to, " %.6f %.6f %.6f\n", (double)g->new_bytes / 1e9,
			(double)(g->bytes - g->new_bytes - g->known_bytes) / 1e9, (double)g->known_bytes / 1e9);
	}
	fputs("EOD\n$sizes << EOD\n", to);
	for (int i = 0; i < CLASSES; i++)
		if (survey->class_chunks[i] != 0)
			fprintf(to, "\"%s\" %.4f\n", g4_format_size(UINT64_C(1) << i, from, sizeof(from)),
				(double)survey->class_chunks[i] / (double)total.chunks * 100);
	fputs("EOD\n", to);
}

/* Starts gnuplot and gives where to write its script, or NULL with errno. */
static FILE *start_gnuplot(pid_t *pid)
{
	char name[] = "gnuplot";
	char *const words[] = {name, NULL};
	posix_spawn_file_actions_t actions;
	FILE *to = NULL;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return NULL;
	int rc = posix_spawn_file_actions_init(&actions);
	if (rc == 0) {
		rc = posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
		if (rc == 0)
			rc = posix_spawnp(pid, name, &actions, NULL, words, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[0]);
	if (rc == 0)
		to = fdopen(ends[1], "w");
	if (to == NULL)
		close(ends[1]);
	if (rc != 0)
		errno = rc;
	return to;
}

static int draw(const struct survey *survey, const char *file)
{
	const char *why = sum(survey).chunks == 0    ? "there are no chunks" :
			  strchr(file, '\n') != NULL ? "gnuplot takes no line end in a name" :
						       NULL;
	int status = 0;
	pid_t pid;

	if (why != NULL) {
		g4_cli_error("dedup-ratio", "%s cannot be drawn: %s", file, why);
		return G4_EXIT_FAILURE;
	}
	FILE *gnuplot = start_gnuplot(&pid);
	if (gnuplot == NULL) {
		g4_cli_error("dedup-ratio", "gnuplot cannot be started: %s%s", strerror(errno),
			     errno == ENOENT ? "; --plot needs it (in Debian: the package gnuplot-nox)" : "");
		return G4_EXIT_FAILURE;
	}
	signal(SIGPIPE, SIG_IGN); /* should gnuplot end early, its status tells */
	write_plot_data(gnuplot, survey);
	write_plot(gnuplot, survey, file);
	fclose(gnuplot);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return G4_EXIT_OK;
	g4_cli_error("dedup-ratio", "gnuplot did not draw %s", file);
	return G4_EXIT_FAILURE;
}

/* ------------------------------------------------------------------------------------------------------- command */

static int run(struct survey *survey, const struct shredder_params *params, bool json, bool stats, const char *plot)
{
	bool going = true;

	g4_progress_start(&survey->progress, "reading");
	for (uint32_t i = 0; going && i < survey->count; i++)
		going = read_generation(survey, i);
	g4_progress_clear(&survey->progress);
	if (!going)
		return G4_EXIT_FAILURE;
	if (json)
		print_json(survey, params);
	else
		print_text(survey);
	if (stats)
		print_stats(survey);
	int status = g4_cli_finish_output("dedup-ratio", G4_EXIT_OK);
	if (status == G4_EXIT_OK && plot != NULL)
		status = draw(survey, plot);
	return survey->errors == 0 ? status : G4_EXIT_FAILURE;
}

int cli_dedup_ratio(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_SETTINGS_LONG,
						     {"json", no_argument, NULL, 'j'},
						     {"plot", required_argument, NULL, 'p'},
						     {"stats", no_argument, NULL, 's'},
						     {NULL, 0, NULL, 0}};
	struct cli_settings settings;
	struct survey survey = {0};
	const char *plot = NULL;
	bool json = false, stats = false;
	int option;

	cli_settings_init(&settings);
	while ((option = getopt_long(argc, argv, ":" CLI_SETTINGS_SHORT "jp:s", long_options, NULL)) != -1) {
		const int taken = cli_settings_take(&settings, "dedup-ratio", option, optarg);

		if (taken < 0)
			return G4_EXIT_USAGE;
		if (option == 'j')
			json = true;
		else if (option == 'p')
			plot = optarg;
		else if (option == 's')
			stats = true;
		else if (taken == 0)
			return g4_cli_bad_option("dedup-ratio", option, argv);
	}
	if (optind == argc)
		return g4_cli_usage("dedup-ratio", "it takes files or directories");
	settings.options.flags |= SHREDDER_NO_DATA;
	int status = cli_settings_open(&settings, "dedup-ratio", &survey.s);
	if (status != G4_EXIT_OK)
		return status;
	survey.count = (uint32_t)(argc - optind);
	survey.generations = (struct generation *)calloc(survey.count, sizeof(*survey.generations));
	for (uint32_t i = 0; survey.generations != NULL && i < survey.count; i++)
		survey.generations[i].path = argv[optind + (int)i];
	status = survey.generations == NULL ? G4_EXIT_FAILURE : run(&survey, &settings.params, json, stats, plot);
	digest_set_free(&survey.digests);
	free(survey.generations);
	cli_settings_tell(&settings, "dedup-ratio", survey.s);
	shredder_close(survey.s);
	return status;
}
