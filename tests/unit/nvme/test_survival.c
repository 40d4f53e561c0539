/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads were told is durable is there after the controller has failed and lost its cache, in the middle of what they do, through the
 * host's queues and lanes' at a time; and whatever they read is something that they have written, none of it older than that. Commands
 * are executed in any order; some have no answer, a wrong one or two.
 */
#define _GNU_SOURCE 1
#include "dev/nvme/recovery_host.h"
#include "unit/nvme/emulated.h"

#define THREADS 6u
#define PAGES 8u /* of each */
#define APART_BYTES (64 * G4_KIB)
#define STEPS 300u
#define SECTOR_WORDS (512 / 8)

static struct g4_dev *medium;

struct writer {
	pthread_t thread;
	struct g4_dev *dev;
	uint32_t index;
	uint64_t random;
	/* versions of each page: the last that was submitted, acknowledged, and told to be durable */
	uint64_t last[PAGES], acknowledged[PAGES], durable[PAGES];
	bool failed; /* the device says that something may be lost */
	bool wrong;  /* something was read that can not be */
};

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	return *random ^= *random << 17;
}

static uint64_t place_of(const struct writer *writer, uint32_t page)
{
	return (writer->index * PAGES + page) * APART_BYTES;
}

static bool is_possible(const struct writer *writer, uint32_t page, const uint64_t *words)
{
	bool possible = true;

	for (uint32_t i = 0; i < G4_PAGE_BYTES / sizeof(*words); i++) {
		const uint64_t first = words[i - i % SECTOR_WORDS]; /* sectors are whole */
		possible =
			possible && words[i] == first && first >= writer->durable[page] && first <= writer->last[page];
	}
	return possible;
}

/* 0, or the code of the device. */
static int write_page(struct g4_wg *own, struct writer *writer, uint32_t page, uint64_t *words, uint32_t flags)
{
	const uint64_t bytes = next(&writer->random) % 8 == 0 ? APART_BYTES : G4_PAGE_BYTES;
	const uint64_t version = ++writer->last[page];

	for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = version;
	const int rc = g4_dev_write(own, writer->dev, place_of(writer, page), words, bytes, flags);
	if (rc == 0)
		writer->acknowledged[page] = version;
	if (rc == 0 && (flags & G4_IO_FUA))
		writer->durable[page] = version;
	return rc;
}

static int read_page(struct g4_wg *own, struct writer *writer, uint32_t page, uint64_t *words)
{
	memset(words, 0xff, G4_PAGE_BYTES);
	const int rc = g4_dev_read(own, writer->dev, place_of(writer, page), words, G4_PAGE_BYTES);

	writer->wrong = writer->wrong || (rc == 0 && !is_possible(writer, page, words));
	return rc;
}

static int flush_all(struct g4_wg *own, struct writer *writer)
{
	const int rc = g4_dev_flush(own, writer->dev);

	if (rc == 0) /* nobody else writes there */
		memcpy(writer->durable, writer->acknowledged, sizeof(writer->durable));
	return rc;
}

static void *write_on(void *argument)
{
	struct writer *writer = argument;
	struct g4_wg *own = g4_wg_create(2 + writer->index);
	uint64_t *words = (uint64_t *)(void *)pages(APART_BYTES);

	for (uint32_t step = 0; step < STEPS && !writer->failed; step++) {
		const uint32_t page = (uint32_t)(next(&writer->random) % PAGES);
		const uint64_t what =
			next(&writer->random) % 16; /* few flushes: mostly none is under way when it fails */
		const int rc = what == 0 ? flush_all(own, writer) :
			       what < 3	 ? read_page(own, writer, page, words) :
					   write_page(own, writer, page, words, what < 5 ? G4_IO_FUA : 0);
		writer->failed = rc < 0;
	}
	free(words);
	g4_wg_destroy(own);
	return NULL;
}

static void lose(void *context)
{
	assert_int_equal(g4_dev_fault_cut(context), 0);
	g4_dev_fault_power_on(context);
}

/* In every second case the controller also answers as it should not. */
static struct g4_emu_faults faults_for(uint64_t *random, uint32_t round)
{
	struct g4_emu_faults faults = {.at_reset = lose, .context = medium, .shuffle = next(random) | 1};
	const uint64_t at = next(random) % 300 + 1;

	switch (round % 6) {
	case 0:
		faults.fatal_at = at;
		break;
	case 1:
		faults.reset_at = at;
		break;
	case 2:
		faults.wrong_id_at = at;
		break;
	case 3:
		faults.mute_at = at;
		faults.aborts = G4_EMU_ABORTS_NOT;
		break;
	case 4:
		faults.phantom_at = 5;
		faults.fatal_at = at;
		faults.repeat = true;
		break;
	default:
		faults.mute_at = 30;
		faults.fatal_at = at + 100;
		faults.repeat = true;
		break;
	}
	return faults;
}

static void survive(uint32_t round, bool with_lanes)
{
	const struct g4_nvme_options options = {
		.queues = 2, .slots = 4, .lanes = 3, .resets = 1000, .timeout_ns = 20000000};
	struct writer writers[THREADS];
	uint64_t random = mix(2 * round + with_lanes + 1);

	medium = open_fault();
	struct g4_dev *const dev = with_lanes ? open_lanes(medium, NULL, &options, NULL) :
						(host_side = open_emulated(medium, NULL, &options));
	memset(writers, 0, sizeof(writers));
	set(faults_for(&random, round));
	for (uint32_t i = 0; i < THREADS; i++) {
		writers[i].dev = i % 2 ? host_side : dev;
		writers[i].index = i;
		writers[i].random = next(&random) | 1;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	lose(medium); /* what is there now, past the controller */
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_false(writers[i].wrong);
		for (uint32_t page = 0; page < PAGES; page++) {
			assert_int_equal(g4_dev_read(wg, medium, place_of(&writers[i], page), buffer, G4_PAGE_BYTES),
					 0);
			assert_true(is_possible(&writers[i], page, (const uint64_t *)(const void *)buffer));
		}
	}
	g4_dev_close(dev);
}

static void what_was_flushed_survives(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++)
		survive(round, false);
}

static void what_lanes_have_flushed_beside_it_survives(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++)
		survive(round, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_flushed_survives),
		cmocka_unit_test(what_lanes_have_flushed_beside_it_survives),
	};

	return cmocka_run_group_tests(tests, begin_emulated, end_emulated);
}
