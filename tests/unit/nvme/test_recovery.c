/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller that fails while requests are under way, through the host's queues, through lanes' and
 * through several of lanes': a late command is aborted, the
 * controller is reset, requests end as if nothing had happened, and a flush fails where the reset may have lost what was acknowledged.
 * In the end there is one reset too many.
 */
#define _GNU_SOURCE 1
#include "dev/nvme/recovery_host.h"
#include "unit/nvme/emulated.h"

#define THREADS 3u
#define ROUNDS 20u
#define MANY_RESETS 1000u
#define LATER_NS UINT64_C(3600000000000)

enum kind { HOST, LANES, MAPPED };
#define LANE_QUEUES 3u

static struct g4_dev *dev;
static enum kind kind;

static void open_on(struct g4_dev *medium, struct g4_nvme_options options)
{
	options.queues = options.queues ? options.queues : 1;
	if (kind == HOST)
		host_side = dev = open_emulated(medium, NULL, &options);
	else {
		options.lanes = kind == MAPPED ? LANE_QUEUES : 1;
		dev = open_lanes(medium, NULL, &options, NULL);
		assert_int_equal(((struct g4_nvme *)host_side->host)->lane_count, options.lanes);
	}
}

static int begin_host(void **state)
{
	kind = HOST;
	return begin_emulated(state);
}

static int begin_lanes(void **state)
{
	kind = LANES;
	return begin_emulated(state);
}

static int begin_mapped(void **state)
{
	kind = MAPPED;
	return begin_emulated(state);
}

static struct g4_nvme_counts counts(void)
{
	return g4_nvme_device_counts(host_side);
}

/* Three reads at a time, one of which meets the fault; all of them succeed. */
static void read_through(struct g4_emu_faults faults)
{
	struct g4_iov iov[3];
	struct g4_io io[3];

	fill(buffer, 3 * 4096, 0, 5);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 3 * 4096, 0), 0);
	memset(buffer, 0, 3 * 4096);
	set(faults);
	for (uint32_t i = 0; i < 3; i++) {
		iov[i] = (struct g4_iov){.base = buffer + i * 4096, .bytes = 4096};
		io[i] = (struct g4_io){.op = G4_IO_READ, .offset_bytes = i * 4096, .iov = &iov[i], .iov_count = 1};
	}
	submit_all(wg, dev, io, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(g4_dev_wait(wg, dev, &io[i]), 0);
	check(buffer, 3 * 4096, 0, 5);
	set((struct g4_emu_faults){0});
	assert_int_equal(g4_nvme_device_counts(host_side).failed, 0);
}

/* ---- late commands ---- */

/* By another clock, so that it does not matter how fast this machine is. */
static void a_late_command_is_aborted_and_tried_again(void **state)
{
	struct g4_iov iov[2] = {{.base = buffer, .bytes = 4096}, {.base = buffer + 4096, .bytes = 4096}};
	struct g4_io io[2];

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	for (uint32_t i = 0; i < 2; i++)
		io[i] = (struct g4_io){.op = G4_IO_READ, .iov = &iov[i], .iov_count = 1};
	set((struct g4_emu_faults){.mute_at = 1});
	submit_all(wg, dev, io, 2);
	assert_int_equal(g4_dev_wait(wg, dev, &io[1]), 0);
	assert_false(g4_dev_poll(wg, dev, &io[0]));
	assert_int_equal(counts().aborted, 0);
	g4_nvme_check_at(dev->host, g4_monotonic_ns() + LATER_NS);
	assert_int_equal(g4_dev_wait(wg, dev, &io[0]), 0);
	assert_int_equal(counts().aborted, 1);
	assert_int_equal(counts().resets, 0);
	g4_dev_close(dev); /* which waits for who has aborted it */
}

/* A read that gets no answer: the controller has taken it when the one behind it has ended. */
static void read_in_vain(struct g4_wg *by, struct g4_io *io)
{
	set((struct g4_emu_faults){.mute_at = 1});
	g4_dev_submit(by, dev, io);
	assert_int_equal(g4_dev_read(by, dev, 0, buffer + 8192, 4096), 0);
}

static void wait_for_recovery(void)
{
	const struct g4_nvme *nvme = host_side->host;

	while (g4_load32_acq(&nvme->state) == G4_NVME_RECOVERS)
		g4_pause();
}

/* Until what it begins is over. */
static void check_later(void)
{
	g4_nvme_check_at(dev->host, g4_monotonic_ns() + LATER_NS);
	wait_for_recovery();
}

/* One after the other: what is not aborted yet is not late for the second time. */
static void all_late_commands_are_aborted(void **state)
{
	struct g4_iov iov[2] = {{.base = buffer, .bytes = 4096}, {.base = buffer + 4096, .bytes = 4096}};
	struct g4_wg *const other = g4_wg_create(2);
	struct g4_io io[2];

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){.queues = 2});
	for (uint32_t i = 0; i < 2; i++) {
		io[i] = (struct g4_io){.op = G4_IO_READ, .iov = &iov[i], .iov_count = 1};
		read_in_vain(i == 0 ? wg : other, &io[i]);
	}
	assert_true(io[0].queue != 0 && io[1].queue != 0);
	/* one check aborts both where the first is over before it comes to the second's queue */
	for (uint32_t i = 0; i < 2 && counts().aborted < 2; i++)
		check_later();
	assert_int_equal(counts().aborted, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(g4_dev_wait(i == 0 ? wg : other, dev, &io[i]), 0);
	assert_int_equal(counts().resets, 0);
	g4_dev_close(dev);
	g4_wg_destroy(other);
}

/* Two threads have seen the same; the second one comes when the first has done something about it. */
static void what_two_have_found_is_mended_once(void **state)
{
	struct g4_iov iov = {.base = buffer, .bytes = 4096};
	struct g4_io io = {.op = G4_IO_READ, .iov = &iov, .iov_count = 1};
	struct g4_nvme_finding first, second;

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	struct g4_nvme *nvme = dev->host;
	const uint64_t later = g4_monotonic_ns() + LATER_NS;
	read_in_vain(wg, &io);
	assert_true(g4_nvme_find(nvme, later, &first) && g4_nvme_find(nvme, later, &second));
	assert_int_equal(first.late, second.late);
	assert_true(g4_nvme_mend(nvme, &first));
	wait_for_recovery();
	assert_false(g4_nvme_mend(nvme, &second));
	wait_for_recovery();
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(counts().aborted, 1);
	assert_int_equal(counts().resets, 0);
	g4_dev_close(dev);
}

/* It has ended before anything was done about it, and so nothing is. */
static void what_has_ended_meanwhile_is_not_aborted(void **state)
{
	struct g4_iov iov = {.base = buffer, .bytes = 4096};
	struct g4_io io = {.op = G4_IO_READ, .iov = &iov, .iov_count = 1};
	struct g4_nvme_finding finding;

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	struct g4_nvme *nvme = dev->host;
	read_in_vain(wg, &io);
	assert_true(g4_nvme_find(nvme, g4_monotonic_ns() + LATER_NS, &finding));
	assert_true(g4_nvme_abort(nvme, finding.queue, finding.late - 1)); /* its end, here */
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_true(g4_nvme_mend(nvme, &finding));
	wait_for_recovery();
	assert_int_equal(counts().aborted, 0);
	assert_int_equal(counts().resets, 0);
	all_shapes(dev);
	g4_dev_close(dev);
}

static void what_two_have_seen_fail_is_reset_once(void **state)
{
	struct g4_iov iov = {.base = buffer, .bytes = 4096};
	struct g4_io io = {.op = G4_IO_READ, .iov = &iov, .iov_count = 1};
	struct g4_nvme_finding first, second;

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	struct g4_nvme *nvme = dev->host;
	set((struct g4_emu_faults){.fatal_at = 1});
	g4_dev_submit(wg, dev, &io);
	while (!g4_nvme_find(nvme, g4_monotonic_ns(), &first))
		g4_pause();
	assert_true(g4_nvme_find(nvme, g4_monotonic_ns(), &second));
	assert_true(g4_nvme_mend(nvme, &first));
	wait_for_recovery();
	assert_false(g4_nvme_mend(nvme, &second));
	wait_for_recovery();
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(counts().resets, 1);
	g4_dev_close(dev);
}

/* What is under way was sent long ago. */
static void let_time_pass(void)
{
	struct g4_nvme *nvme = host_side->host;
	struct g4_nvme_flight *flight = kind == HOST ? &nvme->queues[0].flight :
						       &g4_dev_lanes_of(dev)[g4_wg_index(wg) % nvme->lane_count].flight;

	for (uint32_t i = 0; i < flight->count; i++) {
		uint64_t *state = &flight->slots[i].state;
		const uint64_t seen = g4_load64_rlx(state);
		g4_cas64(state, seen, seen & ~G4_NVME_SINCE_MASK);
	}
}

/* Nothing is late twice: there is half a minute for an abort. */
static void what_is_aborted_in_time_needs_no_reset(void **state)
{
	struct g4_iov iov[2] = {{.base = buffer, .bytes = 4096}, {.base = buffer + 4096, .bytes = 4096}};
	struct g4_io io[2];

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	for (uint32_t i = 0; i < 2; i++) {
		io[i] = (struct g4_io){.op = G4_IO_READ, .iov = &iov[i], .iov_count = 1};
		read_in_vain(wg, &io[i]);
	}
	let_time_pass();
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(g4_dev_wait(wg, dev, &io[i]), 0);
	assert_int_equal(counts().aborted, 2);
	assert_int_equal(counts().resets, 0);
	all_shapes(dev);
	g4_dev_close(dev);
}

/* A drive may need long for what its cache holds. */
static void a_late_flush_is_aborted_and_sent_again(void **state)
{
	struct g4_io io = {.op = G4_IO_FLUSH};

	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	read_in_vain(wg, &io);
	let_time_pass();
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(counts().aborted, 1);
	assert_int_equal(counts().resets, 0);
	g4_dev_close(dev);
}

static void a_controller_that_can_not_abort_is_reset(void **state)
{
	const struct g4_emu_faults faults[] = {{.mute_at = 1, .aborts = G4_EMU_ABORTS_NOT},
					       {.mute_at = 2, .aborts = G4_EMU_ABORTS_IN_VAIN},
					       {.wrong_id_at = 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		open_on(open_device("mem:16M"), (struct g4_nvme_options){.timeout_ns = SHORT_NS});
		read_through(faults[i]);
		assert_true(counts().resets > 0);
		all_shapes(dev);
		g4_dev_close(dev);
	}
}

/* ---- resets ---- */

static void a_controller_that_has_failed_is_reset(void **state)
{
	const struct g4_emu_faults faults[] = {{.fatal_at = 1}, {.fatal_at = 3}, {.reset_at = 1}, {.reset_at = 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
		read_through(faults[i]);
		assert_int_equal(counts().resets, 1);
		all_shapes(dev);
		assert_int_equal(counts().resets, 1);
		g4_dev_close(dev);
	}
}

/* Again and again, with more requests than slots, and in any order. */
static void many_threads_go_on_over_resets(void **state)
{
	const struct g4_emu_faults faults[] = {{.fatal_at = 97, .repeat = true},
					       {.reset_at = 61, .repeat = true, .shuffle = 7, .latency_ns = 20000}};
	const struct g4_nvme_options options[] = {{.queues = 1, .slots = 4, .resets = MANY_RESETS},
						  {.queues = 3, .slots = 2, .resets = MANY_RESETS},
						  {.queues = 2, .resets = MANY_RESETS}};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
			open_on(open_device("mem:16M"), options[i]);
			set(faults[k]);
			run_workers(dev, THREADS, ROUNDS);
			assert_true(counts().resets > 0);
			assert_int_equal(counts().failed, 0);
			g4_dev_close(dev);
		}
}

static void all_fails(void)
{
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 512), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, G4_MIB, G4_IO_FUA), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
}

static void resets_are_counted_and_the_last_one_is_death(void **state)
{
	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){.resets = 2});
	set((struct g4_emu_faults){.fatal_at = 1, .repeat = true});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), -G4_E_IO);
	assert_int_equal(counts().resets, 2);
	all_fails();
	g4_dev_close(dev);
}

static void a_controller_that_does_not_come_back_as_it_was_is_dead(void **state)
{
	const uint32_t lies[] = {G4_EMU_FAILS_AT_ONCE, G4_EMU_HALF, G4_EMU_NO_NAMESPACE, G4_EMU_METADATA,
				 G4_EMU_REFUSES_QUEUES};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
		set((struct g4_emu_faults){.fatal_at = 1, .lies = lies[i]});
		all_fails();
		assert_int_equal(counts().resets, 0);
		g4_dev_close(dev);
	}
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	set((struct g4_emu_faults){.vanish_at = 1});
	all_fails();
	g4_dev_close(dev);
}

/* ---- what a reset may lose ---- */

static struct g4_dev *fault;

static void open_with_cache(bool write_through)
{
	const struct g4_fault settings = {.write_through = write_through};

	fault = open_fault();
	g4_dev_fault_set(fault, &settings);
	open_on(fault, (struct g4_nvme_options){0});
	fill(buffer, 4096, 0, 1);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static void forget(void *context)
{
	assert_int_equal(g4_dev_fault_cut(context), 0);
	g4_dev_fault_power_on(context);
}

/* The next command finds the controller failed, and what it had not flushed is lost. */
static void fail_now_by(struct g4_wg *reader)
{
	set((struct g4_emu_faults){.fatal_at = 1, .at_reset = forget, .context = fault});
	assert_int_equal(g4_dev_read(reader, dev, 8192, buffer + 8192, 4096), 0);
	assert_int_equal(counts().resets, 1);
}

static void fail_now(void)
{
	fail_now_by(wg);
}

static void no_flush_succeeds_after_a_reset_that_may_have_lost_something(void **state)
{
	(void)state;
	open_with_cache(false);
	fill(buffer, 4096, 0, 2);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	fail_now();
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	check(buffer, 4096, 0, 1);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, host_side), -G4_E_IO);
	g4_dev_close(dev);
}

static void a_reset_with_nothing_to_lose_is_none_to_a_flush(void **state)
{
	(void)state;
	open_with_cache(false);
	fail_now();
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_int_equal(g4_dev_flush(wg, host_side), 0);
	g4_dev_close(dev);
	open_with_cache(false);
	fill(buffer, 4096, 0, 3);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, G4_IO_FUA), 0);
	fail_now();
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	check(buffer, 4096, 0, 3);
	g4_dev_close(dev);
	open_with_cache(true);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	set((struct g4_emu_faults){.fatal_at = 1});
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_int_equal(counts().resets, 1);
	g4_dev_close(dev);
}

/* Writes that are under way go to the controller's new cache; a flush that is makes no promise. */
static void a_flush_that_a_reset_interrupts_fails_and_a_write_does_not(void **state)
{
	(void)state;
	open_with_cache(false);
	set((struct g4_emu_faults){.fatal_at = 1, .at_reset = forget, .context = fault});
	fill(buffer, 4096, 0, 4);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	assert_int_equal(counts().resets, 1);
	set((struct g4_emu_faults){0});
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_int_equal(g4_dev_fault_cut(fault), 0);
	g4_dev_fault_power_on(fault);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	check(buffer, 4096, 0, 4);
	set((struct g4_emu_faults){.fatal_at = 1, .at_reset = forget, .context = fault});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, G4_IO_FUA), 0);
	set((struct g4_emu_faults){.fatal_at = 1});
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	assert_int_equal(counts().resets, 3);
	g4_dev_close(dev);
}

/* What one side has written, the other side's flush makes durable, or not. */
static void a_loss_is_known_on_both_sides(void **state)
{
	(void)state;
	open_with_cache(false);
	assert_int_equal(g4_dev_write(wg, host_side, 0, buffer, 4096, 0), 0);
	fail_now();
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, host_side), -G4_E_IO);
	g4_dev_close(dev);
}

/* Lanes that have nothing to do see nothing; the host's queues do not wait for them. */
static void lanes_that_rest_are_not_waited_for(void **state)
{
	(void)state;
	open_on(open_device("mem:16M"), (struct g4_nvme_options){0});
	set((struct g4_emu_faults){.fatal_at = 1});
	assert_int_equal(g4_dev_read(wg, host_side, 0, buffer, 4096), 0);
	assert_int_equal(counts().resets, 1);
	all_shapes(host_side);
	all_shapes(dev);
	assert_int_equal(counts().resets, 1);
	g4_dev_close(dev);
}

/*
 * Of several queues of lanes one has written, and the others have nothing under way: nobody looks at them, but the host needs all of
 * them to be quiet. What was lost is known in all.
 */
static void queues_that_rest_are_quiet_too_and_a_loss_is_known_in_all(void **state)
{
	struct g4_wg *others[LANE_QUEUES];

	(void)state;
	for (uint32_t i = 0; i < LANE_QUEUES; i++)
		others[i] = g4_wg_create(i);
	for (uint32_t lossy = 0; lossy < 2; lossy++) {
		open_with_cache(false);
		assert_int_equal(g4_dev_write(others[0], dev, 0, buffer, 4096, 0), 0);
		if (!lossy)
			assert_int_equal(g4_dev_flush(others[1], dev), 0);
		fail_now_by(others[2]);
		for (uint32_t i = 0; i < LANE_QUEUES; i++) {
			assert_int_equal(g4_dev_flush(others[i], dev), lossy ? -G4_E_IO : 0);
			assert_int_equal(g4_dev_read(others[i], dev, 0, buffer, 4096), 0);
		}
		assert_int_equal(g4_dev_flush(wg, host_side), lossy ? -G4_E_IO : 0);
		assert_int_equal(counts().resets, 1);
		g4_dev_close(dev);
	}
	for (uint32_t i = 0; i < LANE_QUEUES; i++)
		g4_wg_destroy(others[i]);
}

static const struct CMUnitTest mapped_tests[] = {
	cmocka_unit_test(queues_that_rest_are_quiet_too_and_a_loss_is_known_in_all),
};
static const struct CMUnitTest host_tests[] = {
	cmocka_unit_test(a_late_command_is_aborted_and_tried_again),
	cmocka_unit_test(all_late_commands_are_aborted),
	cmocka_unit_test(what_two_have_found_is_mended_once),
	cmocka_unit_test(what_has_ended_meanwhile_is_not_aborted),
	cmocka_unit_test(what_two_have_seen_fail_is_reset_once),
};
static const struct CMUnitTest lanes_tests[] = {
	cmocka_unit_test(a_loss_is_known_on_both_sides),
	cmocka_unit_test(lanes_that_rest_are_not_waited_for),
};
static const struct CMUnitTest tests_of_both[] = {
	cmocka_unit_test(what_is_aborted_in_time_needs_no_reset),
	cmocka_unit_test(a_late_flush_is_aborted_and_sent_again),
	cmocka_unit_test(a_controller_that_can_not_abort_is_reset),
	cmocka_unit_test(a_controller_that_has_failed_is_reset),
	cmocka_unit_test(many_threads_go_on_over_resets),
	cmocka_unit_test(resets_are_counted_and_the_last_one_is_death),
	cmocka_unit_test(a_controller_that_does_not_come_back_as_it_was_is_dead),
	cmocka_unit_test(no_flush_succeeds_after_a_reset_that_may_have_lost_something),
	cmocka_unit_test(a_reset_with_nothing_to_lose_is_none_to_a_flush),
	cmocka_unit_test(a_flush_that_a_reset_interrupts_fails_and_a_write_does_not),
};

int main(void)
{
	return cmocka_run_group_tests(host_tests, begin_host, end_emulated) ||
	       cmocka_run_group_tests(tests_of_both, begin_host, end_emulated) ||
	       cmocka_run_group_tests(lanes_tests, begin_lanes, end_emulated) ||
	       cmocka_run_group_tests(tests_of_both, begin_lanes, end_emulated) ||
	       cmocka_run_group_tests(mapped_tests, begin_mapped, end_emulated) ||
	       cmocka_run_group_tests(lanes_tests, begin_mapped, end_emulated) ||
	       cmocka_run_group_tests(tests_of_both, begin_mapped, end_emulated);
}
