/* SPDX-License-Identifier: Apache-2.0 */
/* Files of traces: both formats, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "trace/trace.h"

static int read_bytes(const void *bytes, size_t count, struct g4_trace *trace, char *message)
{
	FILE *in = tmpfile();

	assert_non_null(in);
	assert_int_equal(fwrite(bytes, 1, count, in), count);
	rewind(in);
	memset(trace, 0, sizeof(*trace));
	const int rc = g4_trace_read(in, trace, message);
	fclose(in);
	return rc;
}

static int read_string(const char *text, struct g4_trace *trace, char *message)
{
	return read_bytes(text, strlen(text), trace, message);
}

static void assert_access(const struct g4_trace *trace, uint64_t at, bool write, uint64_t file, uint64_t page,
			  uint32_t pages)
{
	assert_true(at < trace->count);
	assert_int_equal(trace->accesses[at].write, write);
	assert_int_equal(trace->accesses[at].file, file);
	assert_int_equal(trace->accesses[at].page, page);
	assert_int_equal(trace->accesses[at].pages, pages);
}

static void text_is_one_access_a_line(void **state)
{
	char message[G4_TRACE_MESSAGE_BYTES], comment[1000];
	struct g4_trace trace;

	(void)state;
	assert_int_equal(
		read_string(
			"# a comment\n\nr 7 0 4096\n  w 8 4095 2 # two pages\n\tr 18446744073709551615 8192 1\r\nw 1 5 4096",
			&trace, message),
		0);
	assert_int_equal(trace.count, 4);
	assert_int_equal(trace.page_count, 6);
	assert_access(&trace, 0, false, 7, 0, 1);
	assert_access(&trace, 1, true, 8, 0, 2);
	assert_access(&trace, 2, false, UINT64_MAX, 2, 1);
	assert_access(&trace, 3, true, 1, 0, 2);
	g4_trace_free(&trace);
	memset(comment, 'x', sizeof(comment));
	comment[0] = '#';
	memcpy(comment + sizeof(comment) - 12, "\nr 1 0 4096", 12);
	assert_int_equal(read_string(comment, &trace, message), 0);
	assert_int_equal(trace.count, 1);
	g4_trace_free(&trace);
	assert_int_equal(read_string("", &trace, message), 0);
	assert_int_equal(trace.count, 0);
}

static void what_is_no_access_is_refused_by_its_line(void **state)
{
	static const char *const bad[] = {"x 1 0 4096",
					  "r 1 0",
					  "r 1 0 4096 5",
					  "r -1 0 4096",
					  "r 1 0 0",
					  "r 1 0x10 4096",
					  "r1 0 4096",
					  "r 1 18446744073709551616 1",
					  "r 1 9223372036854775807 1",
					  "r 1 0 9223372036854775808",
					  "r 1 0 9223372036854775807",
					  "rr 1 0 1",
					  "r",
					  "read 1 0 1"};
	char message[G4_TRACE_MESSAGE_BYTES], text[200];
	struct g4_trace trace;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "r 1 0 1\n%s\n", bad[i]);
		if (read_string(text, &trace, message) != -G4_E_INVAL)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(strncmp(message, "line 2 ", 7), 0);
		g4_trace_free(&trace);
	}
	/* more than can be replayed, of lines each of which is good */
	assert_int_equal(read_string("r 1 0 17592186040320\nr 1 0 4096\n", &trace, message), -G4_E_FBIG);
	g4_trace_free(&trace);
	char line[1000];
	memset(line, ' ', sizeof(line));
	line[0] = 'r';
	line[sizeof(line) - 1] = 0;
	assert_int_equal(read_string(line, &trace, message), -G4_E_INVAL);
	assert_non_null(strstr(message, "too long"));
	g4_trace_free(&trace);
}

static void what_is_written_is_read_again(void **state)
{
	static const struct g4_trace_access some[] = {{1, 0, 1, false},
						      {1, 1, 16, true},
						      {UINT64_MAX, 5, 1, false},
						      {UINT64_MAX, 0, 3, false},
						      {0, INT64_MAX / 4096 - 1, 1, true},
						      {0, 0, 1, false},
						      {0, 1, UINT32_MAX / 2, true},
						      {9, 1000000, 1, false}};
	const size_t count = sizeof(some) / sizeof(some[0]);
	char message[G4_TRACE_MESSAGE_BYTES];

	(void)state;
	for (int text = 0; text < 2; text++) {
		struct g4_trace_writer writer;
		struct g4_trace trace;
		char *bytes = NULL;
		size_t size = 0;
		FILE *out = open_memstream(&bytes, &size);
		assert_non_null(out);
		g4_trace_write_begin(&writer, out, text);
		for (size_t i = 0; i < count; i++)
			g4_trace_write(&writer, &some[i]);
		assert_int_equal(fclose(out), 0);
		assert_int_equal(read_bytes(bytes, size, &trace, message), 0);
		assert_int_equal(trace.count, count);
		for (size_t i = 0; i < count; i++)
			assert_access(&trace, i, some[i].write, some[i].file, some[i].page, some[i].pages);
		g4_trace_free(&trace);
		/* cut anywhere it is a shorter trace or refused */
		for (size_t cut = 0; !text && cut < size; cut++) {
			const int rc = read_bytes(bytes, cut, &trace, message);
			assert_true(rc == 0 || rc == -G4_E_INVAL);
			assert_true(cut == 0 || cut >= 8 || rc < 0);
			assert_true(trace.count < count);
			g4_trace_free(&trace);
		}
		free(bytes);
	}
}

/* Some with few bytes, some with many. */
static struct g4_trace_access access_at(uint64_t i)
{
	return (struct g4_trace_access){.file = i % 3,
					.page = i % 5 ? i : UINT64_C(1) << (i % 50),
					.pages = 1 + (uint32_t)i % 7,
					.write = i & 1};
}

static FILE *open_named(char *name, const char *mode)
{
	const int fd = mkstemp(name);
	FILE *file = fd < 0 ? NULL : fdopen(fd, mode);

	assert_non_null(file);
	return file;
}

static uint64_t count_in(const char *name)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_trace trace = {0};
	FILE *in = fopen(name, "r");

	assert_non_null(in);
	if (g4_trace_read(in, &trace, message) < 0)
		fail_msg("%s", message);
	fclose(in);
	const uint64_t count = trace.count;
	for (uint64_t i = 0; i < count; i++) {
		const struct g4_trace_access access = access_at(i);
		assert_access(&trace, i, access.write, access.file, access.page, access.pages);
	}
	g4_trace_free(&trace);
	return count;
}

/* Who writes may be killed at any time. */
static void what_is_in_the_file_is_whole(void **state)
{
	(void)state;
	for (int text = 0; text < 2; text++) {
		char name[] = "trace.XXXXXX";
		struct g4_trace_writer writer;
		FILE *out = open_named(name, "w");
		uint64_t before = 0;

		g4_trace_write_begin(&writer, out, text);
		for (uint64_t i = 0; i < 3000; i++) {
			const struct g4_trace_access access = access_at(i);
			g4_trace_write(&writer, &access);
			const uint64_t count = count_in(name);
			assert_in_range(count, before, i + 1);
			before = count;
		}
		assert_true(before > 0);
		assert_int_equal(fclose(out), 0);
		assert_int_equal(count_in(name), 3000);
		assert_int_equal(unlink(name), 0);
	}
}

/* A computer without power may leave any part of it, and what can not be read to its end can be gone on with. */
static void a_trace_goes_on_where_it_was_cut_off(void **state)
{
	char message[G4_TRACE_MESSAGE_BYTES], name[] = "trace.XXXXXX";
	struct g4_trace_writer writer;
	FILE *out = open_named(name, "w");

	(void)state;
	g4_trace_write_begin(&writer, out, false);
	for (uint64_t i = 0; i < 20; i++) {
		const struct g4_trace_access access = access_at(i);
		g4_trace_write(&writer, &access);
	}
	const long all = ftell(out);
	assert_int_equal(fclose(out), 0);
	for (long cut = all; cut >= 8; cut--) {
		assert_int_equal(truncate(name, cut), 0);
		out = fopen(name, "a+");
		assert_non_null(out);
		if (g4_trace_write_on(&writer, out, message) < 0)
			fail_msg("%ld: %s", cut, message);
		assert_int_equal(fflush(out), 0);
		for (uint64_t i = count_in(name); i < 20; i++) {
			const struct g4_trace_access access = access_at(i);
			g4_trace_write(&writer, &access);
		}
		assert_int_equal(fclose(out), 0);
		assert_int_equal(count_in(name), 20);
	}
	/* what is damaged is not cut off */
	assert_int_equal(truncate(name, 8), 0);
	out = fopen(name, "a+");
	assert_non_null(out);
	for (uint32_t i = 0; i < 11; i++)
		assert_int_equal(putc(0xff, out), 0xff);
	assert_int_equal(fflush(out), 0);
	assert_int_equal(g4_trace_write_on(&writer, out, message), -G4_E_INVAL);
	assert_int_equal(fclose(out), 0);
	out = fopen(name, "r");
	assert_non_null(out);
	assert_int_equal(fseek(out, 0, SEEK_END), 0);
	assert_int_equal(ftell(out), 19);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(unlink(name), 0);
}

static void damaged_numbers_are_refused(void **state)
{
	static const char *const bad[] = {
		"G4TRACE1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", /* a head of more than 64 bits */
		"G4TRACE1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x02",
		"G4TRACE1\xfc\xff\xff\xff\x3f\x02",		/* 2^32 pages */
		"G4TRACE1\x01\x01",				/* page -1 */
		"G4TRACE1\x04\xfe\xff\xff\xff\xff\xff\xff\x7f", /* behind 2^63 bytes */
		"G4TRACE2\x01\x02",
		"G4T",
		"GG"};
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_trace trace;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (read_string(bad[i], &trace, message) != -G4_E_INVAL)
			fail_msg("taken: number %zu", i);
		assert_true(message[0] != 0);
		g4_trace_free(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_one_access_a_line),
		cmocka_unit_test(what_is_no_access_is_refused_by_its_line),
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(what_is_in_the_file_is_whole),
		cmocka_unit_test(a_trace_goes_on_where_it_was_cut_off),
		cmocka_unit_test(damaged_numbers_are_refused),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
