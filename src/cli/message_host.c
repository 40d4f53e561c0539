/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, help and the progress bar. */
#include <getopt.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_host.h"

#define SHOW_AFTER_NS UINT64_C(1000000000)
#define SHOW_EVERY_NS UINT64_C(100000000)
#define BAR_CHARACTERS 40

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

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void g4_progress_start(struct g4_progress *progress, const char *label)
{
	progress->label = isatty(STDERR_FILENO) ? label : NULL;
	progress->started_ns = progress->shown_ns = now_ns();
	progress->visible = false;
}

void g4_progress_step(struct g4_progress *progress, uint64_t done, uint64_t total)
{
	char bar[BAR_CHARACTERS + 1];

	if (progress->label == NULL)
		return;
	const uint64_t now = now_ns();
	if (now - progress->started_ns < SHOW_AFTER_NS || now - progress->shown_ns < SHOW_EVERY_NS)
		return;
	const double share = total == 0 ? 0 : done >= total ? 1 : (double)done / (double)total;
	const int full = (int)(share * BAR_CHARACTERS);
	memset(bar, '.', sizeof(bar));
	memset(bar, '#', (size_t)full);
	bar[BAR_CHARACTERS] = 0;
	fprintf(stderr, "\r%s [%s] %3d %%", progress->label, bar, (int)(share * 100));
	progress->shown_ns = now;
	progress->visible = true;
}

void g4_progress_clear(struct g4_progress *progress)
{
	if (progress->visible)
		fputs("\r\033[K", stderr);
	progress->visible = false;
}
