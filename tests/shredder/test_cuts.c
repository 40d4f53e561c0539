/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From candidates to cuts: as docs/shredder.md says, wherever buffers end.
 * Of chunk/resolve.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/kernels.h"
#include "chunk/resolve.h"
#include "golden.h"
#include "model.h"

#define ENDS 64

/* Resolves the stream in buffers of random sizes, `room` ends at a time, and compares with what is expected. */
static void resolve_in_pieces(const struct shredder_params *params, const uint8_t *data, uint64_t bytes,
			      const struct model_cut *expected, size_t count, struct dice *dice)
{
	uint64_t *marks = malloc((bytes / 64 + 2) * 8);
	struct shredder_resolver resolver;
	struct shredder_rule rule;
	struct shredder_end ends[ENDS];
	size_t found = 0;
	uint8_t tail[SHREDDER_WINDOW_BYTES] = {0};
	const uint64_t largest = 1 + dice_below(dice, dice_below(dice, 2) == 0 ? 50 : bytes + 1);
	const uint64_t room = 1 + dice_below(dice, ENDS);

	shredder_rule_init(&rule, params);
	shredder_resolver_init(&resolver, &rule);
	for (uint64_t at = 0, last = 0; last == 0;) {
		const uint64_t part =
			dice_below(dice, largest + 1) < bytes - at ? dice_below(dice, largest + 1) : bytes - at;
		const uint64_t take = part < bytes - at ? part : bytes - at;
		bool more = true;

		last = at + take == bytes;
		/* a copy of its own: nothing beyond it may be read */
		uint8_t *piece = malloc(take + 1);
		memcpy(piece, data + at, take);
		const struct shredder_kernel *kernel = shredder_kernel_find("portable");
		(params->algorithm == SHREDDER_GEAR ? kernel->find_gear : kernel->find_rabin)(&rule, tail + 1, piece,
											      take, marks);
		const struct shredder_view view = {piece, take, at, tail, marks, last != 0};
		while (more) {
			const int64_t got = shredder_resolve(&resolver, &view, ends, room, &more);

			assert_true(got >= 0 && (uint64_t)got <= room);
			for (int64_t i = 0; i < got; i++, found++) {
				assert_true(found < count);
				assert_int_equal(ends[i].end, expected[found].end);
				assert_int_equal(ends[i].fingerprint, expected[found].fingerprint);
				assert_int_equal(ends[i].cut, expected[found].cut);
			}
		}
		free(piece);
		at += take;
		for (uint64_t i = 0; i < SHREDDER_WINDOW_BYTES; i++)
			tail[i] = at + i >= SHREDDER_WINDOW_BYTES ? data[at + i - SHREDDER_WINDOW_BYTES] : 0;
	}
	assert_int_equal(found, count);
	free(marks);
}

static struct shredder_params pick_params(struct dice *dice)
{
	const uint64_t min = dice_below(dice, 3) == 0 ? SHREDDER_NONE : 1 + dice_below(dice, 300);
	const uint64_t max = dice_below(dice, 3) == 0 ? SHREDDER_NONE : 300 + dice_below(dice, 2000);
	struct shredder_params params = {
		.algorithm = dice_below(dice, 2) == 0 ? SHREDDER_GEAR : SHREDDER_RABIN,
		.mask_bits = 3 + (uint32_t)dice_below(dice, 7),
		.min_bytes = min,
		.max_bytes = max,
		.marker = dice_below(dice, 3) == 0 ? SHREDDER_ZERO_MARKER : 0,
	};

	if (dice_below(dice, 3) == 0) {
		params.delimiter_bytes = 1 + (uint32_t)dice_below(dice, 2);
		memcpy(params.delimiter, "\nthe", 4);
		params.record_bytes = 1 + dice_below(dice, 400);
	}
	return complete(params);
}

static void cuts_are_those_of_the_definition(void **state)
{
	struct dice dice = {11};

	(void)state;
	for (uint64_t i = 0; i < 300; i++) {
		const struct shredder_params params = pick_params(&dice);
		const uint64_t bytes = dice_below(&dice, 6000);
		uint8_t *data = make_content((enum content)(i % CONTENTS), bytes, i, &params);
		struct model_cut *cuts;
		const size_t count = model_cuts(&params, data, bytes, &cuts);

		for (int k = 0; k < 3; k++)
			resolve_in_pieces(&params, data, bytes, cuts, count, &dice);
		free(cuts);
		free(data);
	}
}

/* golden.py's stream */
static uint8_t *golden_stream(uint64_t bytes)
{
	uint8_t *data = malloc(bytes + 8);
	uint64_t seed = 2012;

	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);

		z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
		z ^= z >> 31;
		memcpy(data + at, &z, 8);
	}
	for (uint64_t at = 4096; at < bytes - 1024; at += 4096)
		memcpy(data + at, data, 1024);
	return data;
}

static void golden_cuts_stay(void **state)
{
	static const struct {
		struct shredder_params params;
		const struct model_cut *cuts;
		size_t count;
	} cases[] = {
#define GOLDEN(name, ...) {{__VA_ARGS__}, golden_##name, sizeof(golden_##name) / sizeof(*golden_##name)}
		GOLDEN(rabin, .mask_bits = 10),
		GOLDEN(rabin_53, .polynomial = 0x3DA3358B4DC173, .mask_bits = 11, .marker = 5,
		       .min_bytes = SHREDDER_NONE, .max_bytes = SHREDDER_NONE),
		GOLDEN(gear, .algorithm = SHREDDER_GEAR, .mask_bits = 10),
		GOLDEN(rabin_lines, .mask_bits = 10, .max_bytes = 2048, .delimiter_bytes = 1, .delimiter = "\n",
		       .record_bytes = 300),
#undef GOLDEN
	};
	struct dice dice = {5};
	uint8_t *data = golden_stream(40000);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct shredder_params params = complete(cases[i].params);

		assert_true(cases[i].count > 5);
		for (int k = 0; k < 5; k++)
			resolve_in_pieces(&params, data, 40000, cases[i].cuts, cases[i].count, &dice);
	}
	free(data);
}

/* Lines, found by a scanner that keeps what it saw. */
struct scanner {
	uint64_t calls;
	int64_t lie; /* answered instead, unless it is 0 */
	uint64_t wrong_before;
	bool unlimited; /* a record never ends for its length */
	bool inside;	/* of a record that goes on */
	uint64_t begun_again;
};

static int64_t scan_lines(void *user, const uint8_t *before, const uint8_t *data, uint64_t bytes, int first)
{
	struct scanner *scanner = (struct scanner *)user;

	scanner->calls++;
	scanner->wrong_before += (before != NULL) != (first != 0);
	if (scanner->lie != 0)
		return scanner->lie;
	if (first && before[SHREDDER_WINDOW_BYTES - 1] == '\n')
		return 0;
	const uint8_t *hit = bytes == 0 ? NULL : memchr(data, '\n', bytes);
	scanner->begun_again += first && scanner->inside && scanner->unlimited;
	scanner->inside = hit == NULL;
	return hit == NULL ? SHREDDER_MORE : hit - data + 1;
}

static void a_scanner_of_lines_is_a_delimiter(void **state)
{
	struct dice dice = {21};

	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		struct scanner scanner = {.unlimited = i % 2 == 0};
		const uint64_t record_bytes = scanner.unlimited ? 100000 : 1 + dice_below(&dice, 200);
		struct shredder_params params = complete((struct shredder_params){
			.mask_bits = 6, .delimiter_bytes = 1, .delimiter = "\n", .record_bytes = record_bytes});
		const uint64_t bytes = 1 + dice_below(&dice, 5000);
		uint8_t *data = make_content(CONTENT_TEXT, bytes, i, &params);
		struct model_cut *cuts;
		const size_t count = model_cuts(&params, data, bytes, &cuts);

		params.delimiter_bytes = 0;
		params.record = scan_lines;
		params.record_user = &scanner;
		resolve_in_pieces(&params, data, bytes, cuts, count, &dice);
		assert_int_equal(scanner.wrong_before, 0);
		assert_int_equal(scanner.begun_again, 0);
		assert_true(count < 3 || scanner.calls > 0);
		free(cuts);
		free(data);
	}
}

static void a_scanner_that_lies_is_an_error(void **state)
{
	static const int64_t lies[] = {-2, 1000000, INT64_MIN};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct scanner scanner = {.lie = lies[i]};
		const struct shredder_params params = complete(
			(struct shredder_params){.mask_bits = 4, .record = scan_lines, .record_user = &scanner});
		uint8_t data[2000] = {0}, before[SHREDDER_WINDOW_BYTES] = {0};
		uint64_t marks[32] = {0};
		struct shredder_end ends[ENDS];
		const struct shredder_view view = {data, 2000, 0, before, marks, true};
		struct shredder_resolver resolver;
		struct shredder_rule rule;
		bool more;

		shredder_rule_init(&rule, &params);
		shredder_resolver_init(&resolver, &rule);
		assert_int_equal(shredder_resolve(&resolver, &view, ends, ENDS, &more), SHREDDER_E_SCANNER);
	}
}

/* A cut depends on what is before it alone, and soon not on where the chunk began. */
static void a_local_edit_changes_nearby_cuts_only(void **state)
{
	struct dice dice = {77};
	size_t moved = 0;

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		const struct shredder_params params = complete((struct shredder_params){
			.algorithm = i % 2 == 0 ? SHREDDER_RABIN : SHREDDER_GEAR, .mask_bits = 7});
		const uint64_t bytes = 60000, at = 20000 + dice_below(&dice, 10000), removed = dice_below(&dice, 100);
		uint8_t *data = make_content(CONTENT_RANDOM, bytes, i, &params);
		struct model_cut *old_cuts, *new_cuts;
		const size_t old_count = model_cuts(&params, data, bytes, &old_cuts);

		memmove(data + at, data + at + removed, bytes - at - removed);
		data[at] ^= 1;
		const size_t new_count = model_cuts(&params, data, bytes - removed, &new_cuts);
		resolve_in_pieces(&params, data, bytes - removed, new_cuts, new_count, &dice);

		size_t a = 0, b = 0;
		while (old_cuts[a].end <= at)
			assert_int_equal(old_cuts[a++].end, new_cuts[b++].end);
		/* from the end backwards the cuts are the same, up to a few maximum sizes behind the edit */
		for (a = old_count, b = new_count;
		     a > 0 && b > 0 && old_cuts[a - 1].end == new_cuts[b - 1].end + removed;) {
			a--;
			b--;
		}
		assert_true(a == 0 || old_cuts[a - 1].end < at + 20 * params.max_bytes);
		moved += a;
		free(old_cuts);
		free(new_cuts);
		free(data);
	}
	assert_true(moved > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_are_those_of_the_definition),
		cmocka_unit_test(golden_cuts_stay),
		cmocka_unit_test(a_scanner_of_lines_is_a_delimiter),
		cmocka_unit_test(a_scanner_that_lies_is_an_error),
		cmocka_unit_test(a_local_edit_changes_nearby_cuts_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
