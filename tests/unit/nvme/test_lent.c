/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that a controller wants: it gets it, writes there, has it anew behind a reset, and gives it back before it is shut down
 * and before that memory is anybody else's; or it does not get it.
 */
#include <errno.h>

#include "base/memory_host.h"
#include "dev/nvme/lent_host.h"
#include "dev/nvme/recovery_host.h"
#include "unit/nvme/emulated.h"

static struct g4_emu_lent lent;

static int begin(void **state)
{
	memset(&lent, 0, sizeof(lent));
	return begin_emulated(state);
}

static int end(void **state)
{
	g4_nvme_lend_most(G4_NVME_LENT_BYTES);
	return end_emulated(state);
}

static struct g4_dev *open_wanting(struct g4_emu_options options)
{
	const struct g4_nvme_options own = {.queues = 1};

	options.lent = &lent;
	return host_side = open_emulated(open_device("mem:16M"), &options, &own);
}

/* What it has is used by each command of I/O. */
static void use(struct g4_dev *dev)
{
	for (uint32_t i = 0; i < 600; i++)
		assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	all_shapes(dev);
}

static void memory_is_lent_and_given_back(void **state)
{
	struct g4_dev *dev = open_wanting((struct g4_emu_options){.memory_kib = 1024, .memory_least_kib = 512});

	(void)state;
	assert_int_equal(lent.given, 1);
	assert_int_equal(lent.bytes, G4_MIB);
	use(dev);
	g4_dev_close(dev);
	assert_int_equal(lent.taken, 1);
	assert_int_equal(lent.kept, 0);
	assert_false(lent.bad);
}

#define ELSEWHERE (UINT64_C(1) << 40)

static bool reaches_all(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	(void)bytes;
	return true;
}

static bool reaches_little(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	errno = ENOMEM;
	return bytes <= 2 * G4_MIB; /* without the page before it */
}

static struct g4_dev *open_elsewhere(bool (*reach)(void *, const void *, uint64_t))
{
	const struct g4_emu_options options = {.memory_kib = 2048, .shift = ELSEWHERE, .lent = &lent};
	const struct g4_nvme_options own = {.queues = 1, .slots = 4};
	struct g4_nvme_provider provider;
	struct g4_dev *dev;

	assert_int_equal(g4_emu_open(open_device("mem:16M"), &options, &emu, &provider), 0);
	provider.shift = ELSEWHERE;
	provider.reach = reach;
	assert_int_equal(g4_nvme_device_open("emu:test", &provider, &own, &dev, (struct g4_dev_message){0}), 0);
	return dev;
}

/* At another address than the process has it at. */
static void a_controller_elsewhere_gets_it_too(void **state)
{
	struct g4_dev *dev = open_elsewhere(reaches_all);

	(void)state;
	assert_int_equal(lent.bytes, 2 * G4_MIB);
	use(dev);
	g4_dev_close(dev);
	assert_int_equal(lent.taken, 1);
	assert_false(lent.bad);
}

/* What can not be mapped for it, as where too little may be locked. */
static void a_controller_that_does_not_reach_it_goes_without(void **state)
{
	struct g4_dev *dev = open_elsewhere(reaches_little);

	(void)state;
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	g4_dev_close(dev);
	assert_int_equal(lent.given, 0);
	assert_false(lent.bad);
}

static void it_is_lent_again_behind_a_reset(void **state)
{
	struct g4_dev *dev = open_wanting((struct g4_emu_options){.memory_kib = 1024});

	(void)state;
	use(dev);
	set((struct g4_emu_faults){.fatal_at = 1});
	use(dev);
	assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
	assert_int_equal(lent.bytes, G4_MIB);
	g4_dev_close(dev);
	assert_int_equal(lent.given, 2);
	assert_int_equal(lent.taken, 1);
	assert_int_equal(lent.kept, 0);
	assert_false(lent.bad);
}

/* One that is gone, or dead, is stopped before the memory goes; nobody asks it. */
static void a_controller_that_has_failed_is_stopped_first(void **state)
{
	const struct g4_emu_faults faults[] = {{.vanish_at = 1}, {.fatal_at = 1, .repeat = true}};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct g4_dev *dev = open_wanting((struct g4_emu_options){.memory_kib = 1024});
		set(faults[i]);
		assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
		g4_dev_close(dev);
	}
	assert_int_equal(lent.kept, 0);
	assert_false(lent.bad);
}

static void there_is_a_most_of_it(void **state)
{
	(void)state;
	g4_nvme_lend_most(300 * G4_KIB + 1);
	struct g4_dev *dev = open_wanting((struct g4_emu_options){.memory_kib = 1024, .memory_least_kib = 300});
	assert_int_equal(lent.bytes, 300 * G4_KIB);
	use(dev);
	g4_dev_close(dev);
	assert_int_equal(lent.taken, 1);
	assert_false(lent.bad);
}

/* Too little is of no use to it, and none is what somebody wants to give. */
static void it_goes_without(void **state)
{
	const uint64_t most[] = {0, 200 * G4_KIB, G4_NVME_LENT_BYTES};
	const uint32_t wants[] = {1024, 1024, 0};

	(void)state;
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		g4_nvme_lend_most(most[i]);
		struct g4_dev *dev =
			open_wanting((struct g4_emu_options){.memory_kib = wants[i], .memory_least_kib = wants[i] / 4});
		use(dev);
		g4_dev_close(dev);
	}
	assert_int_equal(lent.given, 0);
	assert_int_equal(lent.taken, 0);
	assert_false(lent.bad);
}

/* It says that it wants more than there is: it gets what is given at most. */
static void what_it_wants_may_be_anything(void **state)
{
	struct g4_dev *dev = open_wanting((struct g4_emu_options){.memory_kib = UINT32_MAX & ~3u});

	(void)state;
	assert_int_equal(lent.bytes, G4_NVME_LENT_BYTES);
	use(dev);
	g4_dev_close(dev);
	assert_int_equal(lent.taken, 1);
	assert_false(lent.bad);
}

#define LENT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LENT_TEST(memory_is_lent_and_given_back),
		LENT_TEST(a_controller_elsewhere_gets_it_too),
		LENT_TEST(a_controller_that_does_not_reach_it_goes_without),
		LENT_TEST(it_is_lent_again_behind_a_reset),
		LENT_TEST(a_controller_that_has_failed_is_stopped_first),
		LENT_TEST(there_is_a_most_of_it),
		LENT_TEST(it_goes_without),
		LENT_TEST(what_it_wants_may_be_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
