/* SPDX-License-Identifier: Apache-2.0 */
/* Text and JSON from one set of calls. */
#include "print/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

#include "base/units_host.h"
#include "base/uuid_host.h"
#include "print/message.h"

#define LABEL_CHARACTERS 24

/* A key as people read it: without the unit that JSON needs to name. Returns its length. */
static int print_label(FILE *out, const char *key)
{
	static const char *const units[] = {"_ns", "_bytes"};
	size_t length = strlen(key);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const size_t unit = strlen(units[i]);
		if (length > unit && strcmp(key + length - unit, units[i]) == 0)
			length -= unit;
	}
	for (size_t at = 0; at < length; at++)
		fputc(key[at] == '_' ? ' ' : key[at], out);
	return (int)length;
}

static void print_indent(const struct g4_report *report)
{
	fprintf(report->out, "%*s", (int)(2 * (report->depth - 1)), "");
}

/* Indentation and label; the padding up to where values start is left for the value to print. */
static void print_padded_label(struct g4_report *report, const char *key)
{
	print_indent(report);
	const int used = print_label(report->out, key) + (int)(2 * (report->depth - 1));
	report->padding = used < LABEL_CHARACTERS ? LABEL_CHARACTERS - used : 1;
}

static void print_padding(struct g4_report *report)
{
	fprintf(report->out, "%*s", report->padding, "");
}

/* Everything before a value: separator, indentation, key. */
static void open_value(struct g4_report *report, const char *key)
{
	FILE *out = report->out;
	const bool first = report->count[report->depth]++ == 0;

	if (report->json) {
		fprintf(out, "%s\n%*s", first ? "" : ",", (int)(2 * report->depth), "");
		if (key != NULL)
			fprintf(out, "\"%s\": ", key);
	} else if (report->line_depth != 0) {
		if (!first)
			fputs(report->is_list[report->depth] ? " " : "  ", out);
		if (key != NULL) {
			print_label(out, key);
			fputc(' ', out);
		}
	} else if (key != NULL) {
		print_padded_label(report, key);
		print_padding(report);
	} else if (first) { /* a list of plain values stays on its label's line */
		print_padding(report);
	} else {
		fputc(' ', out);
	}
}

static void close_value(struct g4_report *report)
{
	if (!report->json && report->line_depth == 0 && !report->is_list[report->depth])
		fputc('\n', report->out);
}

static void push(struct g4_report *report, bool is_list)
{
	if (report->depth + 1 < G4_REPORT_DEPTH)
		report->depth++;
	report->is_list[report->depth] = is_list;
	report->count[report->depth] = 0;
}

static void open_text_container(struct g4_report *report, const char *key, bool is_list)
{
	if (report->line_depth != 0) {
		open_value(report, key);
		if (is_list)
			fputc('[', report->out);
		push(report, is_list);
	} else if (report->is_list[report->depth]) {
		/* An object of a list has a line of its own, and so has the first one. */
		if (report->count[report->depth]++ == 0)
			fputc('\n', report->out);
		print_indent(report);
		push(report, is_list);
		report->line_depth = report->depth;
	} else {
		report->count[report->depth]++;
		print_padded_label(report, key);
		if (!is_list)
			fputc('\n', report->out);
		push(report, is_list);
		report->has_lines[report->depth] = false;
	}
}

static void open_container(struct g4_report *report, const char *key, bool is_list)
{
	if (!report->json) {
		report->has_lines[report->depth] = true;
		open_text_container(report, key, is_list);
		return;
	}
	open_value(report, key);
	fputc(is_list ? '[' : '{', report->out);
	push(report, is_list);
}

void g4_report_start(struct g4_report *report, FILE *out, bool json)
{
	memset(report, 0, sizeof(*report));
	report->out = out;
	report->json = json;
	if (json)
		fputc('{', out);
	report->depth = 1;
}

void g4_report_finish(struct g4_report *report)
{
	while (report->depth > 0)
		g4_report_end(report);
	if (report->json)
		fputc('\n', report->out);
}

void g4_report_object(struct g4_report *report, const char *key)
{
	open_container(report, key, false);
}

void g4_report_list(struct g4_report *report, const char *key)
{
	open_container(report, key, true);
}

static void end_text_container(struct g4_report *report)
{
	const bool is_list = report->is_list[report->depth];

	if (report->line_depth == report->depth) {
		report->line_depth = 0;
		fputc('\n', report->out);
	} else if (report->line_depth != 0) {
		if (is_list)
			fputc(']', report->out);
	} else if (is_list && !report->has_lines[report->depth]) {
		if (report->count[report->depth] == 0)
			fprintf(report->out, "%*s-", report->padding, "");
		fputc('\n', report->out);
	}
}

void g4_report_end(struct g4_report *report)
{
	if (report->json) {
		if (report->count[report->depth] != 0)
			fprintf(report->out, "\n%*s", (int)(2 * (report->depth - 1)), "");
		fputc(report->is_list[report->depth] ? ']' : '}', report->out);
	} else if (report->depth > 1) {
		end_text_container(report);
	}
	report->depth--;
}

void g4_report_name(struct g4_report *report, const char *key, const void *bytes, size_t count)
{
	open_value(report, key);
	if (report->json)
		g4_print_json_string(report->out, bytes, count);
	else
		g4_print_name(report->out, bytes, count);
	close_value(report);
}

void g4_report_text(struct g4_report *report, const char *key, const char *text)
{
	g4_report_name(report, key, text, strlen(text));
}

void g4_report_format(struct g4_report *report, const char *key, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	g4_report_text(report, key, text);
}

void g4_report_bool(struct g4_report *report, const char *key, bool value)
{
	open_value(report, key);
	fputs(report->json ? (value ? "true" : "false") : (value ? "yes" : "no"), report->out);
	close_value(report);
}

void g4_report_count(struct g4_report *report, const char *key, uint64_t value)
{
	open_value(report, key);
	fprintf(report->out, "%" PRIu64, value);
	close_value(report);
}

void g4_report_real(struct g4_report *report, const char *key, double value)
{
	open_value(report, key);
	fprintf(report->out, "%.6g", value);
	close_value(report);
}

void g4_report_hex(struct g4_report *report, const char *key, uint64_t value)
{
	open_value(report, key);
	if (report->json)
		fprintf(report->out, "%" PRIu64, value);
	else
		fprintf(report->out, "0x%" PRIx64, value);
	close_value(report);
}

void g4_report_octal(struct g4_report *report, const char *key, uint64_t value)
{
	open_value(report, key);
	if (report->json)
		fprintf(report->out, "%" PRIu64, value);
	else
		fprintf(report->out, "0%" PRIo64, value);
	close_value(report);
}

void g4_report_size(struct g4_report *report, const char *key, uint64_t bytes)
{
	char text[G4_SIZE_TEXT_BYTES];

	open_value(report, key);
	fprintf(report->out, "%" PRIu64, bytes);
	if (!report->json && bytes >= G4_KIB)
		fprintf(report->out, " (%s)", g4_format_size(bytes, text, sizeof(text)));
	close_value(report);
}

void g4_report_time(struct g4_report *report, const char *key, uint64_t time_ns)
{
	const int64_t signed_ns = (int64_t)time_ns;
	int64_t seconds = signed_ns / 1000000000, rest = signed_ns % 1000000000;
	char text[64];
	struct tm parts;

	if (rest < 0) {
		seconds--;
		rest += 1000000000;
	}
	open_value(report, key);
	const time_t when = (time_t)seconds;
	if (report->json)
		fprintf(report->out, "%" PRId64, signed_ns);
	else if (time_ns == 0)
		fputs("never", report->out);
	else if (gmtime_r(&when, &parts) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts) > 0)
		fprintf(report->out, "%s.%09" PRId64 "Z", text, rest);
	else
		fprintf(report->out, "%" PRId64 " ns", signed_ns);
	close_value(report);
}

void g4_report_uuid(struct g4_report *report, const char *key, const uint8_t *uuid)
{
	char text[G4_UUID_TEXT_BYTES];

	g4_report_text(report, key, g4_uuid_format(uuid, text));
}
