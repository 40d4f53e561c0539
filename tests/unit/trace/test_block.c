/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel prints of requests, as several of its versions do it. Recording a device: tests/cli/test_trace.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/block.h"

#define HEAD "     kworker/u8:6-21742   [001] ..... 63773.930054: block_bio_queue: "
#define LONG "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" /* 64 */

/* Takes the text in pieces of `piece` bytes, and gives the trace as text. */
static char *taken(struct g4_block_text *text, const char *bytes, size_t piece)
{
	struct g4_trace_writer writer;
	char *out = NULL;
	size_t size, count = strlen(bytes);
	FILE *file = open_memstream(&out, &size);

	assert_non_null(file);
	g4_trace_write_begin(&writer, file, true);
	text->writer = &writer;
	for (size_t at = 0; at < count; at += piece)
		g4_block_take(text, bytes + at, count - at < piece ? count - at : piece);
	assert_int_equal(fclose(file), 0);
	return out;
}

static void assert_taken(const char *bytes, const char *wanted, uint64_t accesses)
{
	for (size_t piece = 1; piece < 200; piece += 11) {
		struct g4_block_text text = {0};
		char *out = taken(&text, bytes, piece);
		assert_non_null(strchr(out, '\n')); /* behind the head */
		assert_string_equal(strchr(out, '\n') + 1, wanted);
		assert_int_equal(text.accesses, accesses);
		assert_int_equal(text.bad, 0);
		assert_int_equal(text.lost, 0);
		free(out);
	}
}

static void requests_are_accesses(void **state)
{
	(void)state;
	assert_taken("# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n" HEAD
		     "7,1 RAM 1064 + 8 [kworker/u8:6]\n" HEAD "7,1 W 263176 + 6144 [kworker/u8:6]\n" HEAD
		     "259,3 FWFSM 9 + 16 [jbd2/loop1-8]\n",
		     "r 0 544768 4096\nw 0 134746112 3145728\nw 0 4096 12288\n", 3);
	/* appended to a zone */
	assert_taken(HEAD "8,0 ZA 8 + 8 [x]\n" HEAD "8,0 FZAFS 16 + 8 [x]\n", "w 0 4096 4096\nw 0 8192 4096\n", 2);
	/* names of programs have spaces, brackets, and ends of lines */
	assert_taken("  a b] [000]-23015   [000] d..1. 1.0: block_bio_queue: 8,0 R 8 + 8 [a b] [000]]\n"
		     "x\ny-7 [000] 2.0: block_bio_queue: 8,0 R 16 + 8 [x\ny]\nCPU:0 [LOST 5]\n",
		     "r 0 4096 4096\nr 0 8192 4096\n", 2);
	assert_taken(" block_bio_queue-5   [000] d..1. 1.0: block_bio_queue: 8,0 R 8 + 8 [block_bio_queue]\n",
		     "r 0 4096 4096\n", 1);
}

static void others_are_none(void **state)
{
	(void)state;
	assert_taken(HEAD "7,1 DS 8 + 800 [fstrim]\n" HEAD "7,1 FWS 0 + 0 [jbd2/loop1-8]\n" HEAD
			  "7,1 FF 0 + 0 [x]\n" HEAD "7,1 N 0 + 8 [x]\n" HEAD "7,1 DE 0 + 8 [x]\n" HEAD
			  "7,1 F 0 + 0 [x]\n" HEAD "7,1 ZR 0 + 8 [x]\n" HEAD "7,1 ZRA 0 + 8 [x]\n" HEAD
			  "7,1 Z 0 + 8 [x]\n" HEAD "7,1 NS 0 + 8 [x]\n" HEAD "7,1 WZ 0 + 8 [x]\n" HEAD
			  "7,1 WZS 0 + 8 [x]\n" HEAD "7,1 FWZFS 0 + 8 [x]\n\n"
			  "dd-1 [000] 1.0: block_rq_issue: 7,1 W 4096 () 0 + 8 [dd]\n",
		     "", 0);
}

static void a_partition_has_offsets_of_its_own(void **state)
{
	struct g4_block_text text = {.first_sector = 2048};
	char *out = taken(&text, HEAD "8,0 R 2056 + 8 [x]\n" HEAD "8,0 R 2040 + 8 [x]\n", 1000);

	(void)state;
	assert_string_equal(strchr(out, '\n') + 1, "r 0 4096 4096\n");
	assert_int_equal(text.bad, 1);
	free(out);
}

static void what_was_lost_is_counted(void **state)
{
	struct g4_block_text text = {0};
	char *out = taken(&text, "CPU:1 [LOST 27 EVENTS]\n" HEAD "8,0 R 0 + 8 [x]\nCPU:0 [LOST 3 EVENTS]\n", 7);

	(void)state;
	assert_int_equal(text.lost, 30);
	assert_int_equal(text.accesses, 1);
	free(out);
	text = (struct g4_block_text){0};
	free(taken(&text, "CPU:1 [LOST EVENTS]\nCPU:1 [LOST 27 EVENTS]\n", 7));
	assert_true(text.lost == G4_BLOCK_LOST_SOME);
	text = (struct g4_block_text){0};
	free(taken(&text, "CPU:1 [LOST 18446744073709551614 EVENTS]\nCPU:1 [LOST 27 EVENTS]\n", 7));
	assert_true(text.lost == G4_BLOCK_LOST_SOME);
}

static void what_is_counted_as_lost_is_too(void **state)
{
	struct g4_block_text text = {0};

	(void)state;
	g4_block_take_count(&text, "entries: 7\n");
	g4_block_take_count(&text, "overrun: 6\n"); /* what the kernel prints as LOST */
	g4_block_take_count(&text, "commit overrun: 0\n");
	g4_block_take_count(&text, "dropped events: 0\n");
	assert_int_equal(text.lost, 0);
	g4_block_take_count(&text, "commit overrun: 5\n");
	g4_block_take_count(&text, "dropped events: 17\n");
	assert_int_equal(text.lost, 22);
	g4_block_take_count(&text, "dropped events: 18446744073709551615\n");
	assert_true(text.lost == G4_BLOCK_LOST_SOME);
	text = (struct g4_block_text){0};
	g4_block_take_count(&text, "dropped events: many\n");
	assert_true(text.lost == G4_BLOCK_LOST_SOME);
}

/* As somebody's options for all instances have it. */
static void an_event_without_its_context_is_told(void **state)
{
	struct g4_block_text text = {0};

	(void)state;
	free(taken(&text, "block_bio_queue: 7,1 R 8 + 8 [dd]\n", 1));
	assert_int_equal(text.bad, 1);
	assert_int_equal(text.accesses, 0);
	assert_string_equal(text.bad_line, "block_bio_queue: 7,1 R 8 + 8 [dd]");
}

static void what_is_not_understood_is_told(void **state)
{
	static const char *const bad[] = {
		HEAD "\n",
		HEAD "8,0 R 0 + 8\n",
		HEAD "8,0 R 0 8 [x]\n",
		HEAD "8,0  0 + 8 [x]\n",
		HEAD "8,0 r 0 + 8 [x]\n",
		HEAD "8:0 R 0 + 8 [x]\n",
		HEAD "8,0 R -1 + 8 [x]\n",
		HEAD "8,0 R 0x10 + 8 [x]\n",
		HEAD "8,0 R 99999999999999999999 + 8 [x]\n",
		HEAD "8,0 R 18446744073709551615 + 8 [x]\n",
		HEAD "8,0 R 18014398509481983 + 8 [x]\n",
		HEAD "8,0 R 0 + 18446744073709551615 [x]\n",
		HEAD "8,0 R 0 + 18014398509481976 [x]\n", /* more than 2^32 pages */
		HEAD "8,0 R 0 + 8 [" LONG LONG LONG LONG LONG LONG LONG LONG "]\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct g4_block_text text = {0};
		char *out = taken(&text, bad[i], 1000);
		if (text.bad != 1 || text.accesses != 0 || strncmp(text.bad_line, HEAD, strlen(HEAD)) != 0)
			fail_msg("taken: number %zu", i);
		/* what follows is taken, and the first one stays */
		free(out);
		out = taken(&text, HEAD "8,0 R 0 + 8 [x]\n" HEAD "?\n", 1);
		assert_int_equal(text.accesses, 1);
		assert_int_equal(text.bad, 2);
		assert_null(strchr(text.bad_line, '?'));
		free(out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_accesses),
		cmocka_unit_test(others_are_none),
		cmocka_unit_test(a_partition_has_offsets_of_its_own),
		cmocka_unit_test(what_was_lost_is_counted),
		cmocka_unit_test(what_is_counted_as_lost_is_too),
		cmocka_unit_test(an_event_without_its_context_is_told),
		cmocka_unit_test(what_is_not_understood_is_told),
	};

	return cmocka_run_group_tests_name("trace_block", tests, NULL, NULL);
}
