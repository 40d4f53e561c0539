/* SPDX-License-Identifier: Apache-2.0 */
/* The log: a line is built on the stack and written with one call, so that lines of several threads never mix. */
#include "base/log_host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

#include "base/error.h"
#include "base/progress_host.h"

static uint32_t least_level = G4_LOG_INFO;
static uint32_t use_syslog;

static const char *level_word(enum g4_log_level level)
{
	switch (level) {
#define G4_LOG_WORD(name, priority, word)                                                                              \
	case G4_LOG_##name:                                                                                            \
		return word;
		G4_LOG_LEVELS(G4_LOG_WORD)
#undef G4_LOG_WORD
	}
	return "?";
}

static int level_priority(enum g4_log_level level)
{
	switch (level) {
#define G4_LOG_PRIORITY(name, priority, word)                                                                          \
	case G4_LOG_##name:                                                                                            \
		return priority;
		G4_LOG_LEVELS(G4_LOG_PRIORITY)
#undef G4_LOG_PRIORITY
	}
	return LOG_ERR;
}

/* A log that cannot be written has nowhere to say so: an error other than an interruption drops the line. */
static void write_line(const char *line, size_t bytes)
{
	g4_progress_make_way();
	while (bytes) {
		ssize_t n = write(STDERR_FILENO, line, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		line += n;
		bytes -= (size_t)n;
	}
}

__attribute__((format(printf, 2, 0))) static void log_to_stderr(enum g4_log_level level, const char *format,
								va_list args)
{
	char line[G4_LOG_LINE_BYTES];
	const size_t room = sizeof(line) - 1; /* for the newline */
	size_t bytes;
	int n;

	bytes = (size_t)snprintf(line, room, "gpu4fs: %s: ", level_word(level));
	n = vsnprintf(line + bytes, room - bytes, format, args);
	if (n < 0)
		return;
	bytes += (size_t)n;
	if (bytes > room - 1)
		bytes = room - 1;
	line[bytes++] = '\n';
	write_line(line, bytes);
}

void g4_log(enum g4_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	va_list args;

	if ((uint32_t)level > __atomic_load_n(&least_level, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	if (__atomic_load_n(&use_syslog, __ATOMIC_ACQUIRE))
		vsyslog(level_priority(level), format, args);
	else
		log_to_stderr(level, format, args);
	va_end(args);
	errno = saved_errno;
}

void g4_log_set_level(enum g4_log_level level)
{
	__atomic_store_n(&least_level, (uint32_t)level, __ATOMIC_RELAXED);
}

int g4_log_parse_level(const char *word)
{
#define G4_LOG_PARSE(name, priority, level_name)                                                                       \
	if (strcmp(word, level_name) == 0)                                                                             \
		return G4_LOG_##name;
	G4_LOG_LEVELS(G4_LOG_PARSE)
#undef G4_LOG_PARSE
	return -G4_E_INVAL;
}

void g4_log_to_syslog(const char *ident)
{
	if (ident)
		openlog(ident, LOG_PID, LOG_DAEMON);
	__atomic_store_n(&use_syslog, ident != NULL, __ATOMIC_RELEASE);
	if (!ident)
		closelog();
}
