/* SPDX-License-Identifier: Apache-2.0 */
/* The options that all subcommands share: parameters of the cuts, engine, threads, buffers. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

void cli_settings_init(struct cli_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	settings->params.size = sizeof(settings->params);
	settings->options.size = sizeof(settings->options);
	settings->options.params = &settings->params;
}

bool cli_parse_number(const char *text, uint64_t max, uint64_t *number)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	const unsigned long long value = strtoull(text, &end, 10);
	if (errno != 0 || *end != 0 || value > max)
		return false;
	*number = value;
	return true;
}

static bool parse_hex(const char *text, uint64_t *number)
{
	char *end;

	if (strncmp(text, "0x", 2) == 0)
		text += 2;
	if (strspn(text, "0123456789abcdefABCDEF") != strlen(text) || text[0] == 0)
		return false;
	errno = 0;
	*number = strtoull(text, &end, 16);
	return errno == 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* One character of a delimiter, escaped or not; false: the escape is none. */
static bool unescape(const char **text, uint8_t *byte)
{
	static const char from[] = "nrt0\\", to[] = "\n\r\t\0\\";
	const char *p = *text;

	if (p[0] != '\\') {
		*byte = (uint8_t)p[0];
		*text = p + 1;
		return true;
	}
	if (p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
		*byte = (uint8_t)(hex_digit(p[2]) * 16 + hex_digit(p[3]));
		*text = p + 4;
		return true;
	}
	const char *known = p[1] == 0 ? NULL : strchr(from, p[1]);
	if (known == NULL)
		return false;
	*byte = (uint8_t)to[known - from];
	*text = p + 2;
	return true;
}

static bool parse_delimiter(struct shredder_params *params, const char *text)
{
	params->delimiter_bytes = 0;
	while (*text != 0)
		if (params->delimiter_bytes == SHREDDER_DELIMITER_MAX ||
		    !unescape(&text, &params->delimiter[params->delimiter_bytes++]))
			return false;
	return params->delimiter_bytes > 0;
}

/* A size above 0, or "none" where that is allowed. */
static bool parse_size(const char *text, bool none, uint64_t *bytes)
{
	if (none && strcmp(text, "none") == 0) {
		*bytes = SHREDDER_NONE;
		return true;
	}
	return g4_parse_size(text, bytes) == 0 && *bytes > 0 && *bytes != SHREDDER_NONE;
}

/* A number from 1 on, or "none". */
static bool parse_normalization(const char *text, uint32_t *bits)
{
	uint64_t number = 0;

	if (strcmp(text, "none") == 0)
		*bits = SHREDDER_NO_NORMALIZATION;
	else if (!cli_parse_number(text, 32, &number) || number == 0)
		return false;
	else
		*bits = (uint32_t)number;
	return true;
}

static bool parse_count(const char *text, uint32_t *count)
{
	uint64_t number;

	if (!cli_parse_number(text, UINT32_MAX, &number) || number == 0)
		return false;
	*count = (uint32_t)number;
	return true;
}

/* "N": the first N. "I,J", "I,": those. */
static bool parse_gpus(struct cli_settings *settings, const char *text)
{
	struct shredder_options *options = &settings->options;
	char *end;

	options->gpus_count = 0;
	options->gpus = strchr(text, ',') != NULL ? settings->gpus : NULL;
	if (options->gpus == NULL) {
		return parse_count(text, &options->gpus_count) && options->gpus_count <= SHREDDER_GPUS_MAX;
	}
	for (bool more = true; more; text = end + 1) {
		errno = 0;
		const unsigned long number = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;

		if (number > INT32_MAX || options->gpus_count == SHREDDER_GPUS_MAX || (*end != 0 && *end != ','))
			return false;
		settings->gpus[options->gpus_count++] = (uint32_t)number;
		more = *end == ',' && end[1] != 0;
	}
	return true;
}

/* 1 taken, 0 unknown, -1 the value is none. */
static int take(struct cli_settings *settings, int option, const char *value)
{
	struct shredder_params *p = &settings->params;

	switch (option) {
	case 'a':
		p->algorithm = strcmp(value, "rabin") == 0 ? SHREDDER_RABIN :
			       strcmp(value, "gear") == 0  ? SHREDDER_GEAR :
							     0;
		return p->algorithm != 0 ? 1 : -1;
	case 'b':
		return parse_count(value, &p->mask_bits) ? 1 : -1;
	case CLI_OPT_MIN:
		return parse_size(value, true, &p->min_bytes) ? 1 : -1;
	case CLI_OPT_MAX:
		return parse_size(value, true, &p->max_bytes) ? 1 : -1;
	case CLI_OPT_POLYNOMIAL:
		return parse_hex(value, &p->polynomial) && p->polynomial != 0 ? 1 : -1;
	case CLI_OPT_MARKER:
		if (!parse_hex(value, &p->marker) || p->marker == SHREDDER_ZERO_MARKER)
			return -1;
		if (p->marker == 0)
			p->marker = SHREDDER_ZERO_MARKER;
		return 1;
	case CLI_OPT_NORMAL:
		return parse_size(value, false, &p->normal_bytes) ? 1 : -1;
	case CLI_OPT_NORMALIZATION:
		return parse_normalization(value, &p->normalization) ? 1 : -1;
	case 'd':
		return parse_delimiter(p, value) ? 1 : -1;
	case CLI_OPT_RECORD:
		return parse_size(value, false, &p->record_bytes) ? 1 : -1;
	case 'e':
		settings->options.engine = value;
		return 1;
	case 't':
		return parse_count(value, &settings->options.threads) && settings->options.threads <= CLI_THREADS_MAX ?
			       1 :
			       -1;
	case CLI_OPT_BUFFERS:
		return parse_count(value, &settings->options.buffers) ? 1 : -1;
	case CLI_OPT_BUFFER_SIZE:
		return parse_size(value, false, &settings->options.buffer_bytes) ? 1 : -1;
	case CLI_OPT_GPUS:
		return parse_gpus(settings, value) ? 1 : -1;
	case CLI_OPT_NO_DIRECT:
		settings->options.flags |= SHREDDER_NO_DIRECT;
		return 1;
	default:
		return 0;
	}
}

int cli_settings_take(struct cli_settings *settings, const char *command, int option, const char *value)
{
	static const struct option names[] = {CLI_SETTINGS_LONG, {NULL, 0, NULL, 0}};
	const int taken = take(settings, option, value);

	for (const struct option *row = names; taken < 0 && row->name != NULL; row++)
		if (row->val == option)
			g4_cli_usage(command, "--%s cannot be '%s'", row->name, value);
	return taken;
}

/* What does not work, unless that was said. */
static void tell(struct cli_settings *settings, const char *command, const struct shredder_stats *stats)
{
	const bool cpu = strcmp(stats->engine, "cpu") == 0;

	if (stats->fell_back == NULL || strcmp(stats->fell_back, settings->told) == 0)
		return;
	snprintf(settings->told, sizeof(settings->told), "%s", stats->fell_back);
	g4_cli_error(command, cpu ? "using the CPU: %s" : "using fewer GPUs: %s", stats->fell_back);
}

int cli_open_failed(const char *command, const char *engine, int rc)
{
	if (rc == SHREDDER_E_ENGINE)
		return g4_cli_usage(command, "engine '%s': %s", engine, shredder_strerror(rc));
	if (rc != SHREDDER_E_NOMEM && rc != SHREDDER_E_THREAD)
		return g4_cli_usage(command, "%s", shredder_strerror(rc));
	g4_cli_error(command, "%s", shredder_strerror(rc));
	return G4_EXIT_FAILURE;
}

int cli_settings_open(struct cli_settings *settings, const char *command, shredder **out)
{
	const char *engine = settings->options.engine;
	struct shredder_stats stats;
	int rc = shredder_params_complete(&settings->params);

	if (rc == 0)
		rc = shredder_open(&settings->options, out);
	if (rc != 0)
		return cli_open_failed(command, engine, rc);
	shredder_get_stats(*out, &stats);
	if (stats.gpus > 0 || settings->options.gpus_count > 0 || (engine != NULL && strcmp(engine, "auto") != 0))
		tell(settings, command, &stats);
	return G4_EXIT_OK;
}

void cli_settings_tell(struct cli_settings *settings, const char *command, const shredder *s)
{
	struct shredder_stats stats;

	shredder_get_stats(s, &stats);
	if (stats.gpus > 0)
		tell(settings, command, &stats);
}

void cli_print_gpus(const shredder *s)
{
	struct shredder_gpu_stats gpu;
	struct shredder_stats stats;

	shredder_get_stats(s, &stats);
	for (uint32_t i = 0; shredder_get_gpu_stats(s, i, &gpu); i++)
		fprintf(stderr, "GPU %-4u %llu buffers, %llu bytes, transfer %.1f %%, kernel %.1f %%%s\n", gpu.number,
			(unsigned long long)gpu.buffers, (unsigned long long)gpu.bytes,
			(double)gpu.transfer_ns / (double)stats.elapsed_ns * 100,
			(double)gpu.kernel_ns / (double)stats.elapsed_ns * 100, gpu.failed != 0 ? ", failed" : "");
}

static void print_bound(FILE *to, const char *name, uint64_t bytes)
{
	if (bytes == SHREDDER_NONE)
		fprintf(to, ", \"%s\": null", name);
	else
		fprintf(to, ", \"%s\": %llu", name, (unsigned long long)bytes);
}

void cli_print_params(FILE *to, const struct shredder_params *p)
{
	const bool gear = p->algorithm == SHREDDER_GEAR;

	fprintf(to, "{\"algorithm\": \"%s\", \"mask_bits\": %u", gear ? "gear" : "rabin", p->mask_bits);
	print_bound(to, "min_bytes", p->min_bytes);
	print_bound(to, "max_bytes", p->max_bytes);
	if (gear) {
		fprintf(to, ", \"normal_bytes\": %llu, \"normalization\": %u", (unsigned long long)p->normal_bytes,
			p->normalization == SHREDDER_NO_NORMALIZATION ? 0 : p->normalization);
	} else {
		fprintf(to, ", \"polynomial\": \"%llx\", \"marker\": \"%llx\"", (unsigned long long)p->polynomial,
			(unsigned long long)(p->marker == SHREDDER_ZERO_MARKER ? 0 : p->marker));
	}
	if (p->delimiter_bytes != 0) {
		fputs(", \"delimiter\": \"", to);
		for (uint32_t i = 0; i < p->delimiter_bytes; i++)
			fprintf(to, "%02x", p->delimiter[i]);
		fprintf(to, "\", \"record_bytes\": %llu", (unsigned long long)p->record_bytes);
	}
	fputc('}', to);
}

const char *cli_cut_name(uint32_t cut)
{
	return cut == SHREDDER_CUT_MARKER ? "marker" : cut == SHREDDER_CUT_MAX ? "max" : "end";
}
