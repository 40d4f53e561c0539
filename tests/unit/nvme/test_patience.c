/* SPDX-License-Identifier: Apache-2.0 */
/* How long a controller is waited for: time of this test's own, and a program that is stopped while it waits. */
#define _GNU_SOURCE 1
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dev/nvme/patience_host.h"
#include "dev/nvme/spec.h"
#include "unit/nvme/emulated.h"

#define SECOND_NS UINT64_C(1000000000)

static void time_in_which_somebody_looks_counts(void **state)
{
	struct g4_patience patience = g4_patience(SECOND_NS, 5);
	uint64_t now = 5;

	(void)state;
	for (uint32_t i = 1; i < 1000; i++)
		assert_true(g4_patience_lasts(&patience, now += SECOND_NS / 1000));
	assert_false(g4_patience_lasts(&patience, now += SECOND_NS / 1000));
	assert_false(g4_patience_lasts(&patience, now)); /* and it stays over */
}

static void a_gap_counts_as_one_look(void **state)
{
	struct g4_patience patience = g4_patience(SECOND_NS, 5);
	uint64_t now = 5;

	(void)state;
	for (uint32_t i = 1; i < G4_PATIENCE_LOOKS; i++)
		assert_true(g4_patience_lasts(&patience, now += 100 * SECOND_NS));
	assert_false(g4_patience_lasts(&patience, now += 100 * SECOND_NS)); /* it has an end all the same */
}

static void none_is_over_at_once(void **state)
{
	struct g4_patience patience = g4_patience(0, 5), little = g4_patience(2, 5);

	(void)state;
	assert_false(g4_patience_lasts(&patience, 5));
	assert_true(g4_patience_lasts(&little, 6));
	assert_false(g4_patience_lasts(&little, 7));
}

/* ---- a program that is stopped: the child. This one stops it, and lets it go on. ---- */

static int asks[2], goes_on[2];
static struct g4_nvme_provider inner;
static bool was_stopped;

/* The first admin command has its place in the queue, and the time for it runs. */
static void stopped_at_first_command(void *context)
{
	char byte = 0;

	if (!was_stopped && g4_load32_acq_sys((const uint32_t *)(inner.registers + G4_NVME_CSTS)) & G4_NVME_CSTS_RDY) {
		was_stopped = true;
		if (write(asks[1], &byte, 1) != 1 || read(goes_on[0], &byte, 1) != 1)
			_exit(2);
	}
	inner.rung(context);
}

static int open_while_stopped(void)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_options options = {.queues = 1, .slots = 1, .admin_timeout_ns = SECOND_NS};
	struct g4_nvme_provider provider;
	struct g4_nvme *nvme;

	if (g4_emu_open(open_device("mem:4M"), NULL, &emu, &provider) < 0)
		return 3;
	inner = provider;
	provider.rung = stopped_at_first_command;
	if (g4_nvme_open("emu:test", &provider, &options, &nvme, sentence) < 0) {
		fprintf(stderr, "%s\n", message);
		return 1;
	}
	g4_nvme_close(nvme);
	return was_stopped ? 0 : 4;
}

static void a_program_that_is_stopped_waits_on(void **state)
{
	const struct timespec longer = {.tv_sec = 1, .tv_nsec = 500000000}; /* than the controller has for an answer */
	char byte = 0;
	int status;

	(void)state;
#ifdef G4_TSAN
	skip(); /* it allows no threads behind a fork */
#endif
	assert_int_equal(pipe(asks), 0);
	assert_int_equal(pipe(goes_on), 0);
	const pid_t child = fork();
	if (child == 0)
		_exit(open_while_stopped());
	assert_true(child > 0);
	close(asks[1]); /* a child that ends before it asks is seen */
	assert_int_equal(read(asks[0], &byte, 1), 1);
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	nanosleep(&longer, NULL); /* if it ends early, nothing is tested, and nothing fails */
	assert_int_equal(write(goes_on[1], &byte, 1), 1);
	assert_int_equal(kill(child, SIGCONT), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(asks[0]);
	close(goes_on[0]);
	close(goes_on[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_in_which_somebody_looks_counts),
		cmocka_unit_test(a_gap_counts_as_one_look),
		cmocka_unit_test(none_is_over_at_once),
		cmocka_unit_test(a_program_that_is_stopped_waits_on),
	};

	return cmocka_run_group_tests(tests, begin_emulated, end_emulated);
}
