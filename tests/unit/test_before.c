/* SPDX-License-Identifier: Apache-2.0 */
/* What a device holds before it is measured is said as it is. */
#include "dev/before_host.h"
#include "simt/simt_host.h"
#include "unit/dev_util.h"

#define PLACES 64u

static void says(uint32_t zeros, uint32_t places, const char *wanted)
{
	char text[G4_BEFORE_TEXT_BYTES];

	assert_string_equal(g4_dev_say_before(zeros, places, text), wanted);
}

static void what_was_never_written_is_as_if_trimmed(void **state)
{
	struct g4_wg *wg = g4_wg_create(1);
	struct g4_dev *dev = open_device("mem:4M");
	uint8_t *page = pages(G4_PAGE_BYTES);
	uint32_t zeros;

	(void)state;
	assert_int_equal(g4_dev_look_before(wg, dev, PLACES, &zeros), 0);
	assert_int_equal(zeros, PLACES);
	memset(page, 0, G4_PAGE_BYTES);
	page[G4_PAGE_BYTES - 1] = 1; /* a page's last byte, on the first page and on the last one that is looked at */
	assert_int_equal(g4_dev_write(wg, dev, 0, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_look_before(wg, dev, PLACES, &zeros), 0);
	assert_int_equal(zeros, PLACES - 1);
	for (uint64_t at = 0; at < 4 * G4_MIB; at += G4_PAGE_BYTES)
		assert_int_equal(g4_dev_write(wg, dev, at, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_look_before(wg, dev, PLACES, &zeros), 0);
	assert_int_equal(zeros, 0);
	free(page);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

/* Of a page, and of fewer pages than places. */
static void small_devices_are_looked_at_too(void **state)
{
	struct g4_wg *wg = g4_wg_create(1);
	struct g4_dev *dev = open_device("mem:8K");
	uint32_t zeros;

	(void)state;
	assert_int_equal(g4_dev_look_before(wg, dev, PLACES, &zeros), 0);
	assert_int_equal(zeros, PLACES);
	assert_int_equal(g4_dev_look_before(wg, dev, 1, &zeros), 0);
	assert_int_equal(zeros, 1);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

static void it_is_said_in_words(void **state)
{
	(void)state;
	says(64, 64, "zeros at 64 of 64 places, as if trimmed");
	says(0, 64, "zeros at 0 of 64 places, as if filled");
	says(3, 64, "zeros at 3 of 64 places, in part as if trimmed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_never_written_is_as_if_trimmed),
		cmocka_unit_test(small_devices_are_looked_at_too),
		cmocka_unit_test(it_is_said_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
