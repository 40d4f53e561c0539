/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and help. */
#include <getopt.h>
#include <stdarg.h>

#include "cli/cli_host.h"

__attribute__((format(printf, 2, 0))) static void print_message(const char *command, const char *format,
								va_list arguments)
{
	fflush(stdout);
	fprintf(stderr, "gpu4fs%s%s: ", command == NULL ? "" : " ", command == NULL ? "" : command);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
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
	fprintf(stderr, "'gpu4fs %s --help' shows how to use it.\n", command);
	return G4_EXIT_USAGE;
}

void g4_cli_print_help(const char *name, const char *help)
{
	printf("usage: gpu4fs %s %s", name, help);
}

int g4_cli_bad_option(const char *command, int answer, char **argv)
{
	if (answer == ':')
		return g4_cli_usage(command, "option '%s' needs a value", argv[optind - 1]);
	if (optopt != 0)
		return g4_cli_usage(command, "option '-%c' is not known", optopt);
	return g4_cli_usage(command, "option '%s' is not known", argv[optind - 1]);
}
