/* SPDX-License-Identifier: Apache-2.0 */
/* The log, read back through a pipe in place of stderr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log_host.h"

#define THREADS 4
#define LINES 50

static int saved_stderr;
static int reader;

static void capture(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(saved_stderr >= 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	close(ends[1]);
	reader = ends[0];
}

/* What was written since capture(). */
static const char *captured(void)
{
	static char text[65536];
	size_t bytes = 0;
	ssize_t n;

	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	while ((n = read(reader, text + bytes, sizeof(text) - 1 - bytes)) > 0)
		bytes += (size_t)n;
	close(reader);
	text[bytes] = '\0';
	return text;
}

static void a_line_names_its_level(void **state)
{
	(void)state;
	capture();
	g4_log(G4_LOG_ERROR, "disk %d is gone", 3);
	g4_log(G4_LOG_INFO, "mounted");
	assert_string_equal(captured(), "gpu4fs: error: disk 3 is gone\ngpu4fs: info: mounted\n");
}

static void less_important_messages_are_dropped(void **state)
{
	(void)state;
	capture();
	g4_log(G4_LOG_DEBUG, "dropped");
	g4_log_set_level(G4_LOG_ERROR);
	g4_log(G4_LOG_WARN, "dropped");
	g4_log_set_level(G4_LOG_DEBUG);
	g4_log(G4_LOG_DEBUG, "kept");
	g4_log_set_level(G4_LOG_INFO);
	assert_string_equal(captured(), "gpu4fs: debug: kept\n");
}

static void a_long_line_is_cut(void **state)
{
	char message[2 * G4_LOG_LINE_BYTES];
	const char *text;

	(void)state;
	memset(message, 'x', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	capture();
	g4_log(G4_LOG_WARN, "%s", message);
	text = captured();
	assert_in_range(strlen(text), G4_LOG_LINE_BYTES - 8, G4_LOG_LINE_BYTES - 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

static void errno_is_kept(void **state)
{
	(void)state;
	capture();
	errno = ENOTTY;
	g4_log(G4_LOG_ERROR, "%s", "message");
	assert_int_equal(errno, ENOTTY);
	captured();
}

static void levels_have_names(void **state)
{
	(void)state;
	assert_int_equal(g4_log_parse_level("error"), G4_LOG_ERROR);
	assert_int_equal(g4_log_parse_level("debug"), G4_LOG_DEBUG);
	assert_int_equal(g4_log_parse_level("loud"), -G4_E_INVAL);
}

static void *write_lines(void *arg)
{
	for (int i = 0; i < LINES; i++)
		g4_log(G4_LOG_INFO, "line of thread %c", *(const char *)arg);
	return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
	static const char names[THREADS] = {'a', 'b', 'c', 'd'};
	pthread_t threads[THREADS];
	const char *text;
	int lines = 0;

	(void)state;
	capture();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, (void *)(uintptr_t)&names[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (text = captured(); *text; text = strchr(text, '\n') + 1) {
		char name;

		assert_int_equal(sscanf(text, "gpu4fs: info: line of thread %c\n", &name), 1);
		lines++;
	}
	assert_int_equal(lines, THREADS * LINES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_its_level), cmocka_unit_test(less_important_messages_are_dropped),
		cmocka_unit_test(a_long_line_is_cut),	  cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(levels_have_names),	  cmocka_unit_test(lines_of_several_threads_do_not_mix),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
