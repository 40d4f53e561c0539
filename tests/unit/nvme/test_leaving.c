/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller that the system asks for: what is to be saved is, before anything fails; nobody touches the controller once it is let go
 * of, all requests come back, and closing works. And one of whose failure the system tells: it is reset.
 */
#define _GNU_SOURCE 1
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "dev/nvme/leaving_host.h"
#include "unit/nvme/emulated.h"

#define REGISTERS_BYTES 8192u /* with the doorbells */

static struct g4_dev *dev;
static uint8_t *registers;
static uint8_t given[REGISTERS_BYTES]; /* what they were when it was let go of */
static int asked, failed;
static uint32_t gone, saves, closed;
static void (*close_emulated)(void *context);

/* Copies them, without what the controller says by itself: its status. */
static void look_at_registers(uint8_t *copy)
{
	const uint32_t *words = (const uint32_t *)registers;

	for (uint32_t i = 0; i < REGISTERS_BYTES / 4; i++) {
		const uint32_t word = i == G4_NVME_CSTS / 4 ? 0 : g4_load32_rlx(&words[i]);
		memcpy(copy + 4 * (size_t)i, &word, 4);
	}
}

static void let_go(void *context)
{
	(void)context;
	look_at_registers(given);
	g4_add32(&gone, 1);
}

static void note_close(void *context)
{
	close_emulated(context);
	g4_add32(&closed, 1);
}

static int begin(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_options options = {.queues = 2, .slots = 8, .timeout_ns = SHORT_NS};
	struct g4_nvme_provider provider;

	begin_emulated(state);
	gone = saves = closed = 0;
	asked = eventfd(0, EFD_CLOEXEC);
	failed = eventfd(0, EFD_CLOEXEC);
	if (asked < 0 || failed < 0 || g4_emu_open(open_device("mem:16M"), NULL, &emu, &provider) < 0)
		return -1;
	provider.asked = asked;
	provider.let_go = let_go;
	provider.failed = failed;
	close_emulated = provider.close;
	provider.close = note_close;
	registers = provider.registers;
	return g4_nvme_device_open("emu:test", &provider, &options, &dev, sentence);
}

static int end(void **state)
{
	g4_nvme_before_leaving(NULL, NULL);
	close(asked);
	close(failed);
	return end_emulated(state);
}
#define leaving_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static void signal_file(int file)
{
	const uint64_t one = 1;

	assert_int_equal(write(file, &one, sizeof(one)), sizeof(one));
}

static void ask(void)
{
	signal_file(asked);
}

static void await(const uint32_t *what)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (g4_load32_acq(what) == 0)
		nanosleep(&nap, NULL);
}

static void close_untouched(void)
{
	g4_dev_close(dev);
	assert_int_equal(g4_load32_acq(&gone), 1);
}

static void expect_end(void)
{
	static uint8_t now[REGISTERS_BYTES];

	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	look_at_registers(now);
	assert_memory_equal(now, given, sizeof(given)); /* no doorbell, no command of the controller */
}

static void an_idle_one_is_let_go_of(void **state)
{
	(void)state;
	all_shapes(dev);
	ask();
	await(&gone);
	expect_end();
	close_untouched();
}

static void who_is_not_asked_keeps_it(void **state)
{
	(void)state;
	all_shapes(dev);
	g4_dev_close(dev);
	assert_int_equal(g4_load32_acq(&gone), 0);
}

static void save(void *context)
{
	assert_ptr_equal(context, &saves);
	assert_int_equal(g4_load32_acq(&gone), 0);
	fill(buffer, 8192, 0, 7);
	assert_int_equal(g4_dev_write(NULL, dev, 0, buffer, 8192, 0), 0);
	assert_int_equal(g4_dev_flush(NULL, dev), 0);
	saves++;
}

static void what_is_to_be_saved_is_first(void **state)
{
	(void)state;
	g4_nvme_before_leaving(save, &saves);
	ask();
	await(&gone);
	assert_int_equal(saves, 1);
	expect_end();
	close_untouched();
}

static uint32_t device_closed;

static void save_slowly(void *context)
{
	(void)context;
	g4_add32(&saves, 1);
	await(&device_closed); /* as a commit would that needs what the one who closes holds */
	assert_int_equal(g4_load32_acq(&closed), 0);
}

/* Who closes may hold locks that saving needs. */
static void closing_does_not_wait_for_what_is_saved(void **state)
{
	(void)state;
	device_closed = 0;
	g4_nvme_before_leaving(save_slowly, NULL);
	ask();
	await(&saves);
	g4_dev_close(dev);
	g4_add32(&device_closed, 1);
	await(&closed); /* the controller is, when it is saved */
	assert_int_equal(g4_load32_acq(&gone), 0);
}

static struct g4_dev *open_as_drive(int wish)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_where where = {.nsid = 1};
	const struct g4_dev_open_options options = {.flags = G4_DEV_EXCLUSIVE};
	struct g4_nvme_provider provider;
	struct g4_dev *drive = NULL;

	assert_int_equal(g4_emu_open(open_device("mem:16M"), NULL, &emu, &provider), 0);
	provider.asked = wish;
	provider.let_go = let_go;
	registers = provider.registers;
	if (g4_nvme_drive_open("it", "ffff:1f:1f.7", &where, &options, &provider, &drive, sentence) < 0)
		fail_msg("%s", message);
	return drive;
}

/* Its users have it still when another drive is in its slot. */
static void another_one_comes_to_its_place(void **state)
{
	struct g4_dev *old, *new;

	(void)state;
	g4_dev_close(dev);
	old = open_as_drive(asked);
	ask();
	await(&gone);
	const int wish = eventfd(0, EFD_CLOEXEC);
	assert_true(wish >= 0);
	new = open_as_drive(wish);
	all_shapes(new);
	assert_int_equal(g4_dev_read(wg, old, 0, buffer, 4096), -G4_E_IO);
	g4_dev_close(old);
	all_shapes(new);
	g4_dev_close(new);
	close(wish);
}

struct writer {
	pthread_t thread;
	uint32_t index;
};

/* Until it fails, which it does. */
static void *write_on(void *argument)
{
	struct writer *writer = argument;
	struct g4_wg *own = g4_wg_create(writer->index + 2);
	uint8_t *memory = pages(65536);
	int rc = 0;

	fill(memory, 65536, 0, writer->index);
	for (uint64_t n = 0; rc == 0; n++)
		rc = g4_dev_write(own, dev, (writer->index * 64 + n % 64) * 65536, memory, 65536,
				  n % 3 ? 0 : G4_IO_FUA);
	assert_int_equal(rc, -G4_E_IO);
	free(memory);
	g4_wg_destroy(own);
	return NULL;
}

static void writers_come_back(void **state)
{
	struct writer writers[WORKERS_MOST];

	(void)state;
	set((struct g4_emu_faults){.latency_ns = 20000, .shuffle = 5});
	for (uint32_t i = 0; i < WORKERS_MOST; i++) {
		writers[i].index = i;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
	}
	const struct timespec nap = {.tv_nsec = 20000000};
	nanosleep(&nap, NULL);
	ask();
	for (uint32_t i = 0; i < WORKERS_MOST; i++)
		pthread_join(writers[i].thread, NULL);
	await(&gone);
	expect_end();
	close_untouched();
}

/* Something else is done about it already, which may be what it is removed for. */
static void one_that_fails_meanwhile_is_let_go_of(void **state)
{
	(void)state;
	set((struct g4_emu_faults){.fatal_at = 2, .repeat = true});
	ask();
	while (g4_dev_write(wg, dev, 0, buffer, 4096, 0) == 0)
		;
	await(&gone);
	expect_end();
	close_untouched();
}

static void one_that_is_gone_is_let_go_of_at_once(void **state)
{
	(void)state;
	g4_nvme_before_leaving(save, &saves);
	set((struct g4_emu_faults){.vanish_at = 1});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	ask();
	await(&gone);
	assert_int_equal(saves, 0);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	close_untouched();
}

/* ---- what the system says of its failures ---- */

static void await_resets(uint64_t count)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (g4_nvme_device_counts(dev).resets < count)
		nanosleep(&nap, NULL);
}

/* Nobody asks it for anything meanwhile. */
static void an_idle_one_that_has_failed_is_reset(void **state)
{
	(void)state;
	all_shapes(dev);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	for (uint32_t n = 1; n <= 3; n++) {
		signal_file(failed);
		await_resets(n);
	}
	all_shapes(dev);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	ask(); /* which it still hears */
	await(&gone);
	expect_end();
	close_untouched();
}

/* Without a word from the system. */
static void an_idle_one_that_somebody_resets_is_used_on(void **state)
{
	(void)state;
	all_shapes(dev);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_store32_rel_sys((uint32_t *)(void *)(registers + G4_NVME_CC), 0);
	g4_nvme_rung(g4_nvme_of(dev));
	await_resets(1);
	all_shapes(dev);
	g4_dev_close(dev);
}

static void one_that_fails_too_often_is_given_up(void **state)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	(void)state;
	for (uint32_t n = 1; n <= 3; n++) {
		signal_file(failed);
		await_resets(n);
	}
	signal_file(failed);
	while (g4_load32_acq(&g4_nvme_of(dev)->state) != G4_NVME_DEAD)
		nanosleep(&nap, NULL);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	signal_file(failed); /* nothing is left to be done */
	g4_dev_close(dev);
}

/* Whether the thread has heard of it or not. */
static void closing_does_not_wait_for_failures(void **state)
{
	(void)state;
	all_shapes(dev);
	signal_file(failed);
	g4_dev_close(dev);
	assert_int_equal(closed, 1);
	assert_int_equal(g4_load32_acq(&gone), 0);
}

#define ROUNDS 200u

/* Each in pages of its own, which have what it wrote last. */
static void *change_on(void *argument)
{
	const struct writer *writer = argument;
	struct g4_wg *own = g4_wg_create(writer->index + 2);
	uint8_t *memory = pages(65536), *found = pages(65536);

	for (uint64_t n = 0; n < ROUNDS; n++) {
		const uint64_t at = (writer->index * 16 + n % 16) * 65536;
		fill(memory, 65536, at, n);
		assert_int_equal(g4_dev_write(own, dev, at, memory, 65536, 0), 0);
		assert_int_equal(g4_dev_read(own, dev, at, found, 65536), 0);
		assert_memory_equal(found, memory, 65536);
		if (n % (ROUNDS / 4) == 0 && writer->index == 0 && n > 0)
			signal_file(failed);
	}
	free(memory);
	free(found);
	g4_wg_destroy(own);
	return NULL;
}

static void nothing_that_is_under_way_is_lost(void **state)
{
	struct writer writers[WORKERS_MOST];

	(void)state;
	set((struct g4_emu_faults){.latency_ns = 20000, .shuffle = 9});
	for (uint32_t i = 0; i < WORKERS_MOST; i++) {
		writers[i].index = i;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, change_on, &writers[i]), 0);
	}
	for (uint32_t i = 0; i < WORKERS_MOST; i++)
		pthread_join(writers[i].thread, NULL);
	await_resets(1);
	assert_in_range(g4_nvme_device_counts(dev).resets, 1, 3);
	g4_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		leaving_test(an_idle_one_is_let_go_of),
		leaving_test(who_is_not_asked_keeps_it),
		leaving_test(what_is_to_be_saved_is_first),
		leaving_test(closing_does_not_wait_for_what_is_saved),
		leaving_test(another_one_comes_to_its_place),
		leaving_test(writers_come_back),
		leaving_test(one_that_fails_meanwhile_is_let_go_of),
		leaving_test(one_that_is_gone_is_let_go_of_at_once),
		leaving_test(an_idle_one_that_has_failed_is_reset),
		leaving_test(an_idle_one_that_somebody_resets_is_used_on),
		leaving_test(one_that_fails_too_often_is_given_up),
		leaving_test(closing_does_not_wait_for_failures),
		leaving_test(nothing_that_is_under_way_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
