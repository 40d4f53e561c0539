/* SPDX-License-Identifier: Apache-2.0 */
#include "print/message.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress_host.h"

const char *g4_program = "gpu4fs";

void g4_print_name(FILE *out, const void *name, size_t count)
{
	const uint8_t *bytes = name;

	for (size_t at = 0; at < count;) {
		const size_t length = g4_utf8_length(bytes + at, count - at);
		const bool control = length == 1 && (bytes[at] < 0x20 || bytes[at] == 0x7f);
		/* U+0080 to U+009F steer terminals as well. */
		const bool high_control = length == 2 && bytes[at] == 0xc2 && bytes[at + 1] < 0xa0;
		if (length == 0 || control)
			fprintf(out, "\\x%02x", bytes[at]);
		else if (high_control)
			fprintf(out, "\\x%02x\\x%02x", bytes[at], bytes[at + 1]);
		else
			fwrite(bytes + at, 1, length, out);
		at += length == 0 ? 1 : length;
	}
}

__attribute__((format(printf, 2, 0))) static void print_message(const char *command, const char *format,
								va_list arguments)
{
	char *sentence = NULL, *line = NULL;
	size_t bytes = 0;
	FILE *out = vasprintf(&sentence, format, arguments) >= 0 ? open_memstream(&line, &bytes) : NULL;

	fflush(stdout);
	if (out != NULL) {
		g4_print_name(out, sentence, strlen(sentence));
		fclose(out);
	}
	/* in one piece: others may write to the same terminal */
	flockfile(stderr);
	g4_progress_make_way();
	fprintf(stderr, "%s%s%s: %s\n", g4_program, command == NULL ? "" : " ", command == NULL ? "" : command,
		line != NULL ? line : "out of memory");
	funlockfile(stderr);
	free(line);
	free(sentence);
}

void g4_cli_error(const char *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(command, format, arguments);
	va_end(arguments);
}

int g4_cli_usage(const char *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(command, format, arguments);
	va_end(arguments);
	fprintf(stderr, "'%s %s%s--help' shows how to use it.\n", g4_program, command == NULL ? "" : command,
		command == NULL ? "" : " ");
	return G4_EXIT_USAGE;
}

int g4_cli_bad_option(const char *command, int answer, char **argv)
{
	if (answer == ':')
		return g4_cli_usage(command, "option '%s' needs a value", argv[optind - 1]);
	if (optopt > 0 && optopt <= UINT8_MAX) /* not the value of a long option */
		return g4_cli_usage(command, "option '-%c' is not known", optopt);
	return g4_cli_usage(command, "option '%s' is not known", argv[optind - 1]);
}

const char *g4_cli_why(int error)
{
	switch (error) {
	case EUCLEAN:
		return "is damaged on the device; 'gpu4fs fsck' of what is not mounted says how, and 'fsck -y' repairs it";
	case ENOTCONN:
	case ECONNABORTED:
		return "its server has ended; 'gpu4fs umount' takes away what is left of the mount";
	case EINTR:
		return "interrupted";
	default:
		return strerror(error);
	}
}

void g4_cli_print_help(const char *command, const char *help)
{
	printf("usage: %s %s %s", g4_program, command, help);
}

int g4_cli_finish_output(const char *command, int status)
{
	const bool flushed = fflush(stdout) == 0;

	if (flushed && !ferror(stdout))
		return status;
	if (flushed) /* it failed before, and errno is of something else by now */
		g4_cli_error(command, "cannot write all of the output");
	else
		g4_cli_error(command, "cannot write the output: %s", strerror(errno));
	return status != G4_EXIT_OK ? status : G4_EXIT_FAILURE;
}

size_t g4_utf8_length(const uint8_t *bytes, size_t room)
{
	const uint8_t first = bytes[0];
	size_t length = 0;

	if (first < 0x80)
		length = 1;
	else if (first >= 0xc2 && first < 0xe0)
		length = 2;
	else if (first >= 0xe0 && first < 0xf0)
		length = 3;
	else if (first >= 0xf0 && first < 0xf5)
		length = 4;
	if (length == 0 || length > room)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((first == 0xe0 && bytes[1] < 0xa0) || (first == 0xed && bytes[1] >= 0xa0) ||
	    (first == 0xf0 && bytes[1] < 0x90) || (first == 0xf4 && bytes[1] >= 0x90))
		return 0;
	return length;
}

void g4_print_json_string(FILE *to, const void *text, size_t count)
{
	const uint8_t *bytes = (const uint8_t *)text;

	fputc('"', to);
	for (size_t at = 0; at < count;) {
		const size_t length = g4_utf8_length(bytes + at, count - at);
		if (length == 0)
			fprintf(to, "\\udc%02x", bytes[at]);
		else if (length == 1 && (bytes[at] < 0x20 || bytes[at] == 0x7f))
			fprintf(to, "\\u%04x", bytes[at]);
		else if (bytes[at] == '"' || bytes[at] == '\\')
			fprintf(to, "\\%c", bytes[at]);
		else
			fwrite(bytes + at, 1, length, to);
		at += length == 0 ? 1 : length;
	}
	fputc('"', to);
}
