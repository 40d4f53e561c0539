/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, and strings in JSON. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"

__attribute__((format(printf, 2, 0))) static void print_message(const char *command, const char *format,
								va_list arguments)
{
	fflush(stdout);
	fprintf(stderr, "shredder%s%s: ", command == NULL ? "" : " ", command == NULL ? "" : command);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void cli_error(const char *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(command, format, arguments);
	va_end(arguments);
}

int cli_usage(const char *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(command, format, arguments);
	va_end(arguments);
	fprintf(stderr, "'shredder %s%s--help' shows how to use it.\n", command == NULL ? "" : command,
		command == NULL ? "" : " ");
	return CLI_USAGE;
}

int cli_bad_option(const char *command, int answer, char **argv)
{
	if (answer == ':')
		return cli_usage(command, "option '%s' needs a value", argv[optind - 1]);
	if (optopt != 0 && optopt < CLI_OPT_MIN)
		return cli_usage(command, "option '-%c' is not known", optopt);
	return cli_usage(command, "option '%s' is not known", argv[optind - 1]);
}

int cli_finish_output(const char *command)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_OK;
	cli_error(command, "the output cannot be written: %s", strerror(errno));
	return CLI_FAILURE;
}

/* Bytes of the UTF-8 character at `text`, or 0 when there is none. */
static int utf8_bytes(const unsigned char *text)
{
	const int bytes = text[0] < 0x80		    ? 1 :
			  text[0] >= 0xc2 && text[0] < 0xe0 ? 2 :
			  text[0] >= 0xe0 && text[0] < 0xf0 ? 3 :
			  text[0] >= 0xf0 && text[0] < 0xf5 ? 4 :
							      0;

	for (int i = 1; i < bytes; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) || /* overlong, surrogate */
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return bytes;
}

void cli_print_json_string(FILE *to, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	fputc('"', to);
	while (*p != 0) {
		const int bytes = utf8_bytes(p);

		if (bytes == 0)
			fputs("\\ufffd", to);
		else if (*p == '"' || *p == '\\')
			fprintf(to, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(to, "\\u%04x", *p);
		else
			fwrite(p, 1, (size_t)bytes, to);
		p += bytes == 0 ? 1 : bytes;
	}
	fputc('"', to);
}
