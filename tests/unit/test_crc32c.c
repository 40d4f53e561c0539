/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C: published vectors, chaining, and all variants against the portable one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hash/crc32c.h"
#include "simt/simt_host.h"

#define BUFFER_BYTES 20000

static uint8_t buffer[BUFFER_BYTES];

static int fill_buffer(void **state)
{
	uint64_t x = 88172645463325252u;

	(void)state;
	for (size_t i = 0; i < sizeof(buffer); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buffer[i] = (uint8_t)x;
	}
	return 0;
}

static void check_value(const void *data, uint64_t bytes, uint32_t crc)
{
	assert_int_equal(g4_crc32c(0, data, bytes), crc);
	assert_int_equal(g4_crc32c_portable(0, data, bytes), crc);
}

static void published_vectors_match(void **state)
{
	/* RFC 3720, appendix B.4, and the check value of the catalogue of parametrised CRC algorithms */
	static const uint8_t read_pdu[48] = {0x01, 0xc0, 0, 0, 0, 0, 0,	   0, 0,    0, 0, 0,	0, 0, 0, 0,
					     0x14, 0,	 0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
					     0x28, 0,	 0, 0, 0, 0, 0,	   0, 0x02, 0, 0, 0,	0, 0, 0, 0};
	uint8_t data[32];

	(void)state;
	check_value("123456789", 9, 0xe3069283);
	memset(data, 0, sizeof(data));
	check_value(data, 32, 0x8a9136aa);
	memset(data, 0xff, sizeof(data));
	check_value(data, 32, 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		data[i] = i;
	check_value(data, 32, 0x46dd794e);
	for (uint8_t i = 0; i < 32; i++)
		data[i] = (uint8_t)(31 - i);
	check_value(data, 32, 0x113fdb5c);
	check_value(read_pdu, 48, 0xd9963a56);
}

static void no_bytes_change_nothing(void **state)
{
	(void)state;
	check_value(NULL, 0, 0);
	assert_int_equal(g4_crc32c(0x12345678, NULL, 0), 0x12345678);
	assert_int_equal(g4_crc32c_portable(0x12345678, NULL, 0), 0x12345678);
}

static void parts_chain_to_the_whole(void **state)
{
	uint32_t whole = g4_crc32c(0, buffer, 8192);

	(void)state;
	for (uint64_t cut = 0; cut <= 8192; cut += 37)
		assert_int_equal(g4_crc32c(g4_crc32c(0, buffer, cut), buffer + cut, 8192 - cut), whole);
}

static void every_bit_counts(void **state)
{
	uint32_t whole = g4_crc32c(0, buffer, G4_PAGE_BYTES);

	(void)state;
	for (uint32_t bit = 0; bit < G4_PAGE_BYTES * 8; bit += 13) {
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(g4_crc32c(0, buffer, G4_PAGE_BYTES), whole);
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void variants_agree_on_every_length(void **state)
{
	(void)state;
#if G4_CRC32C_HAVE_SSE42
	if (!g4_crc32c_sse42_usable())
		skip();
	for (uint64_t bytes = 0; bytes < 9000; bytes++)
		assert_int_equal(g4_crc32c_sse42((uint32_t)bytes, buffer, bytes),
				 g4_crc32c_portable((uint32_t)bytes, buffer, bytes));
#else
	skip();
#endif
}

static void variants_agree_on_every_alignment(void **state)
{
	(void)state;
	for (uint64_t start = 0; start < 64; start++) {
		uint32_t portable = g4_crc32c_portable(0, buffer + start, 12345);

		assert_int_equal(g4_crc32c(0, buffer + start, 12345), portable);
	}
}

/* The portable variant is what GPUs run; the lanes build computes the wide one with four of them. */
static void pages_chain_and_lanes_agree(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	const uint32_t first = g4_crc32c(0, buffer, 4096), second = g4_crc32c(0, buffer + 4096, 4096);

	(void)state;
	assert_non_null(wg);
	assert_int_equal(g4_crc32c_append_pages(first, second, 1), g4_crc32c(0, buffer, 8192));
	uint32_t five = 0, eight = first;
	for (uint32_t k = 0; k < 5; k++)
		five = g4_crc32c_append_page(five, second + k);
	for (uint32_t k = 0; k < 5; k++)
		eight = g4_crc32c_append_page(eight, second + k);
	assert_int_equal(g4_crc32c_append_pages(first, five, 5), eight);
	assert_int_equal(g4_crc32c_append_pages(first, 0, 0), first);
	uint8_t page[4096];
	const uint32_t value = 0x89abcdef;
	memcpy(page, buffer, sizeof(page));
	memset(page + G4_CRC32C_FIELD, 0, 4);
	const uint32_t zero = g4_crc32c(0, page, sizeof(page));
	memcpy(page + G4_CRC32C_FIELD, &value, 4);
	assert_int_equal(g4_crc32c_set_field(zero, value), g4_crc32c(0, page, sizeof(page)));
	assert_int_equal(g4_crc32c_append_page(first, second), g4_crc32c(0, buffer, 8192));
	assert_int_equal(g4_crc32c_append_page(g4_crc32c(0, buffer, 77), g4_crc32c(0, buffer + 77, 4096)),
			 g4_crc32c(0, buffer, 77 + 4096));
	assert_int_equal(g4_crc32c_wide(wg, buffer + 8), g4_crc32c(0, buffer + 8, 4096));
	assert_int_equal(g4_crc32c_wide(wg, buffer + 4096), second);
	g4_wg_destroy(wg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_match),	  cmocka_unit_test(no_bytes_change_nothing),
		cmocka_unit_test(parts_chain_to_the_whole),	  cmocka_unit_test(every_bit_counts),
		cmocka_unit_test(variants_agree_on_every_length), cmocka_unit_test(variants_agree_on_every_alignment),
		cmocka_unit_test(pages_chain_and_lanes_agree),
	};

	return cmocka_run_group_tests_name("crc32c", tests, fill_buffer, NULL);
}
