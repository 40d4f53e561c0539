/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `gpu4fs nvme id` and `log` print of an emulated controller, also of one that talks nonsense. (Of the command line, and as JSON that
 * a parser takes: tests/cli/test_nvme.sh.)
 */
#include "cli/nvme_show.c" /* NOLINT(bugprone-suspicious-include) */

#include "unit/nvme/emulated.h"

static const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
static char *text;
static size_t text_bytes;

static struct g4_nvme *open_for_questions(const struct g4_emu_options *emulated)
{
	const struct g4_nvme_options options = {.queues = 1, .slots = 1, .read_only = true, .questions = true};
	struct g4_nvme_provider provider;
	struct g4_nvme *nvme = NULL;

	assert_int_equal(g4_emu_open(open_device("mem:4M"), emulated, &emu, &provider), 0);
	assert_int_equal(g4_nvme_open("emu:test", &provider, &options, &nvme, sentence), 0);
	return nvme;
}

/* Into `text`, until the next call. */
static int show_of(struct g4_nvme *nvme, bool json,
		   int (*show)(struct g4_nvme *, struct g4_report *, struct g4_dev_message))
{
	struct g4_report report;

	free(text);
	text = NULL;
	FILE *out = open_memstream(&text, &text_bytes);
	assert_non_null(out);
	g4_report_start(&report, out, json);
	const int rc = show(nvme, &report, sentence);
	g4_report_finish(&report);
	fclose(out);
	return rc;
}

static void shows(const char *what)
{
	if (!strstr(text, what))
		fail_msg("\"%s\" does not show \"%s\"", text, what);
}

static void show_id(const struct g4_emu_options *emulated, bool json)
{
	struct g4_nvme *nvme = open_for_questions(emulated);

	assert_int_equal(show_of(nvme, json, g4_nvme_show_id), 0);
	g4_nvme_close(nvme);
}

static int end_show(void **state)
{
	free(text);
	return end_emulated(state);
}

static void sizes_are_shown(void **state)
{
	const struct g4_emu_options options = {.boundary = 256,
					       .write_granularity = 8,
					       .write_alignment = 4,
					       .write_optimal = 32,
					       .discard_granularity = 64,
					       .discard_alignment = 16,
					       .memory_kib = 512,
					       .discard_ranges = 9,
					       .discard_range = 80,
					       .discard_blocks = 800,
					       .whole = 8,
					       .whole_anywhere = 2,
					       .whole_boundary = 12,
					       .whole_offset = 7};
	const char *const wanted[] = {"\"boundary_blocks\": 256",
				      "\"write_granularity_blocks\": 8",
				      "\"write_alignment_blocks\": 4",
				      "\"write_optimal_blocks\": 32",
				      "\"discard_granularity_blocks\": 64",
				      "\"discard_alignment_blocks\": 16",
				      "\"host_memory_bytes\": 524288",
				      "\"discard_ranges\": 9",
				      "\"discard_range_blocks\": 80",
				      "\"discard_blocks\": 800",
				      "\"atomic_blocks\": 2",
				      "\"atomic_blocks\": 8",
				      "\"atomic_boundary_blocks\": 12",
				      "\"atomic_offset_blocks\": 7",
				      "\"not_gone_by\": []"};

	(void)state;
	show_id(&options, true);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		shows(wanted[i]);
	show_id(&options, false);
	shows("write granularity blocks 8");
}

static void formats_are_shown_with_the_faster_one(void **state)
{
	const struct g4_emu_options slow = {.lies = G4_EMU_MANY_FORMATS | G4_EMU_SLOW_FORMAT};

	(void)state;
	show_id(&slow, true);
	shows("\"format\": 16");
	shows("\"faster_format\": 17");
	shows("2^9+0 degraded");
	shows("2^12+0 best");
}

/* Each with its sentence; what could be shown as a number that is not so is not hidden. */
static void what_is_not_gone_by_is_said(void **state)
{
	const struct g4_emu_options odd = {.lies = G4_EMU_ODD_SIZES};

	(void)state;
	show_id(&odd, false);
	for (uint32_t i = 0; i < G4_NVME_UNHEEDED_COUNT; i++)
		shows(g4_nvme_unheeded[i]);
	shows("write alignment blocks 6");
}

/* A namespace whose format is none is shown as it is said to be: that is what the command is for. */
static void nonsense_is_shown_and_no_more(void **state)
{
	const uint32_t lies[] = {G4_EMU_NO_SUCH_FORMAT,	  G4_EMU_NO_SUCH_FORMAT | G4_EMU_MANY_FORMATS,
				 G4_EMU_TOO_MANY_FORMATS, G4_EMU_STRAY_FORMAT,
				 G4_EMU_TOO_MANY_BLOCKS,  G4_EMU_METADATA,
				 G4_EMU_ODD_BLOCKS};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		const struct g4_emu_options options = {.lies = lies[i]};
		show_id(&options, true);
		shows("\"namespace\": 1");
	}
}

/* The newest first, as many as the controller remembers. */
static void errors_are_shown(void **state)
{
	struct g4_nvme *nvme = open_for_questions(NULL);
	uint8_t page[G4_PAGE_BYTES];

	(void)state;
	assert_int_equal(show_of(nvme, true, g4_nvme_show_log), 0);
	shows("\"errors\": []");
	for (uint32_t i = 0; i < 6; i++) /* there is no such log */
		assert_int_equal(g4_nvme_ask(nvme, G4_NVME_GET_LOG, 7 + i, 0x77, page, "a log", sentence), -G4_E_IO);
	assert_int_equal(show_of(nvme, false, g4_nvme_show_log), 0);
	shows("error 6  status 0x109  retry no  queue 0");
	shows("namespace 12");
	shows("error 3");
	if (strstr(text, "error 2"))
		fail_msg("\"%s\" has an error that the controller does not remember", text);
	g4_nvme_close(nvme);
}

static void health_and_firmware_are_shown(void **state)
{
	const char *const wanted[] = {"\"temperature_kelvin\": 300",
				      "\"spare_percent\": 100",
				      "\"media_errors\": 0",
				      "\"firmware_slot\": 1",
				      "\"slot\": 1",
				      "\"revision\": \"1\""};
	struct g4_nvme *nvme = open_for_questions(NULL);

	(void)state;
	assert_int_equal(show_of(nvme, true, g4_nvme_show_log), 0);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		shows(wanted[i]);
	g4_nvme_close(nvme);
}

/* Numbers of 128 bits are the largest of 64, and what is no text is shown as the report shows such bytes. */
static void logs_of_nonsense_are_shown(void **state)
{
	const struct g4_emu_options odd = {.lies = G4_EMU_ODD_LOGS};
	struct g4_nvme *nvme = open_for_questions(&odd);

	(void)state;
	assert_int_equal(show_of(nvme, true, g4_nvme_show_log), 0);
	shows("\"media_errors\": 18446744073709551615");
	shows("\"firmware_next_slot\": 7");
	shows("\"revision\": \"\\udcff");
	shows("\"error\": 18446744073709551615");
	g4_nvme_close(nvme);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_shown),
		cmocka_unit_test(formats_are_shown_with_the_faster_one),
		cmocka_unit_test(what_is_not_gone_by_is_said),
		cmocka_unit_test(nonsense_is_shown_and_no_more),
		cmocka_unit_test(errors_are_shown),
		cmocka_unit_test(health_and_firmware_are_shown),
		cmocka_unit_test(logs_of_nonsense_are_shown),
	};

	return cmocka_run_group_tests(tests, begin_emulated, end_show);
}
