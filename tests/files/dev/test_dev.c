/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every device has in common: no bad request reaches its kind, requests to memory are executed without it but for what makes them
 * durable, and one request from start to end takes the kind's shorter way where there is one. (The kinds: unit/test_dev_*.c.)
 */
#include "files/files.h"

#include "dev/dev_ops_host.h"

#define BYTES (64 * G4_KIB)

static _Alignas(4096) uint8_t memory[BYTES], buffer[2 * G4_PAGE_BYTES];

static struct {
	uint32_t submitted, polled, waited, executed, flushed, persisted, discarded;
	uint64_t offset, bytes;
} asked;

/* Takes those that are left, and ends them when they are waited for. */
static void submit(struct g4_wg *own, struct g4_dev *dev, struct g4_io *first)
{
	(void)own;
	(void)dev;
	for (struct g4_io *io = first; io; io = io->next)
		asked.submitted += !io->done;
}

static void end(struct g4_wg *own, struct g4_dev *dev, struct g4_io *io)
{
	(void)own;
	(void)dev;
	asked.waited++;
	io->result = -G4_E_IO;
	g4_store32_rel(&io->done, 1);
}

static void poll_once(struct g4_wg *own, struct g4_dev *dev, struct g4_io *io)
{
	(void)own;
	(void)dev;
	(void)io;
	asked.polled++;
}

static int execute(struct g4_wg *asking, struct g4_dev *dev, struct g4_io *io)
{
	(void)asking;
	(void)dev;
	(void)io;
	asked.executed++;
	return -G4_E_NOSPC;
}

static int flush(struct g4_dev *dev)
{
	(void)dev;
	asked.flushed++;
	return 0;
}

static int persist(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	(void)dev;
	asked.persisted++;
	asked.offset = offset;
	asked.bytes = bytes;
	return 0;
}

static int discard(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	(void)dev;
	asked.discarded++;
	asked.offset = offset;
	asked.bytes = bytes;
	return 0;
}

static const struct g4_dev_ops queued = {.submit = submit, .poll = poll_once, .wait = end};
static const struct g4_dev_ops queued_and_short = {
	.submit = submit, .poll = poll_once, .wait = end, .execute = execute};
static const struct g4_dev_ops mapped = {.flush = flush, .persist = persist, .discard = discard};

static struct g4_dev make(const struct g4_dev_ops *ops)
{
	const struct g4_dev dev = {.props = {.size_bytes = BYTES, .sector_bytes = 512, .discard = true}, .ops = ops};

	memset(&asked, 0, sizeof(asked));
	return dev;
}

static struct g4_dev make_mapped(enum g4_dev_persist how)
{
	struct g4_dev dev = make(&mapped);

	dev.props.mapped = true;
	dev.map = memory;
	dev.persist = (uint32_t)how;
	return dev;
}

static int submit_one(struct g4_dev *dev, struct g4_io io)
{
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(io.done, 1);
	return io.result;
}

static void no_bad_request_reaches_the_kind(void **state)
{
	struct g4_dev dev = make(&queued);
	struct g4_iov odd_bytes = {buffer, 100}, odd_base = {buffer + 8, 512}, good = {buffer, 512};

	(void)state;
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = 77}), -G4_E_INVAL);
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_WRITE, .flags = 16}), -G4_E_INVAL);
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_READ, .flags = G4_IO_COPY(1)}), -G4_E_INVAL);
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_READ, .iov_count = G4_IO_MAX_IOV + 1}),
			 -G4_E_INVAL);
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_READ, .iov = &odd_bytes, .iov_count = 1}),
			 -G4_E_DEV_ALIGN);
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_READ, .iov = &odd_base, .iov_count = 1}),
			 -G4_E_DEV_ALIGN);
	assert_int_equal(
		submit_one(&dev, (struct g4_io){.op = G4_IO_READ, .offset_bytes = BYTES, .iov = &good, .iov_count = 1}),
		-G4_E_DEV_RANGE);
	assert_int_equal(submit_one(&dev,
				    (struct g4_io){.op = G4_IO_DISCARD, .offset_bytes = 512, .discard_bytes = BYTES}),
			 -G4_E_DEV_RANGE);
	dev.props.discard = false;
	assert_int_equal(submit_one(&dev, (struct g4_io){.op = G4_IO_DISCARD, .discard_bytes = 512}), -G4_E_NOTSUP);
	dev.props.read_only = true;
	assert_int_equal(g4_dev_write(wg, &dev, 0, buffer, 512, 0), -G4_E_DEV_READONLY);
	assert_int_equal(asked.submitted, 0);
}

/* Of a list the bad ones end at once, and the others are the kind's. */
static void a_list_is_left_to_the_kind_but_for_the_bad(void **state)
{
	struct g4_dev dev = make(&queued);
	struct g4_iov iov = {buffer, 512};
	struct g4_io io[3] = {{.op = G4_IO_READ, .iov = &iov, .iov_count = 1, .next = &io[1]},
			      {.op = 77, .next = &io[2]},
			      {.op = G4_IO_FLUSH}};

	(void)state;
	g4_dev_submit(wg, &dev, io);
	assert_int_equal(asked.submitted, 2);
	assert_int_equal(g4_dev_wait(wg, &dev, &io[1]), -G4_E_INVAL);
	assert_int_equal(asked.waited, 0);
	assert_false(g4_dev_poll(wg, &dev, &io[0]));
	assert_int_equal(asked.polled, 1);
	assert_int_equal(g4_dev_wait(wg, &dev, &io[0]), -G4_E_IO);
	assert_true(g4_dev_poll(wg, &dev, &io[0]));
	assert_int_equal(g4_dev_wait(wg, &dev, &io[0]), -G4_E_IO);
	assert_int_equal(asked.waited, 1);
}

static void one_request_takes_the_shorter_way(void **state)
{
	struct g4_dev plain = make(&queued), shorter = make(&queued_and_short);

	(void)state;
	assert_int_equal(g4_dev_read(wg, &plain, 0, buffer, 512), -G4_E_IO);
	assert_int_equal(asked.submitted, 1);
	assert_int_equal(g4_dev_read(wg, &shorter, 0, buffer, 512), -G4_E_NOSPC);
	assert_int_equal(g4_dev_flush(wg, &shorter), -G4_E_NOSPC);
	assert_int_equal(asked.executed, 2);
	assert_int_equal(asked.submitted, 1);
}

/* Stores to memory are made durable when that is asked for, and over what was stored. */
static void memory_is_written_and_made_durable(void **state)
{
	struct g4_dev dev = make_mapped(G4_DEV_PERSIST_MSYNC);

	(void)state;
	rig_pattern(buffer, 9, sizeof(buffer));
	assert_int_equal(g4_dev_write(wg, &dev, 1024, buffer, 4096, 0), 0);
	assert_memory_equal(memory + 1024, buffer, 4096);
	assert_int_equal(asked.persisted, 0);
	assert_int_equal(g4_dev_write(wg, &dev, 8192, buffer, 4096, G4_IO_FUA), 0);
	assert_int_equal(asked.persisted, 1);
	assert_int_equal(asked.offset, 8192);
	assert_int_equal(asked.bytes, 4096);
	assert_int_equal(g4_dev_flush(wg, &dev), 0);
	assert_int_equal(asked.flushed, 1);
	assert_int_equal(
		submit_one(&dev, (struct g4_io){.op = G4_IO_DISCARD, .offset_bytes = 512, .discard_bytes = 1024}), 0);
	assert_int_equal(asked.discarded, 1);
	assert_int_equal(asked.bytes, 1024);
	memset(buffer, 0, sizeof(buffer));
	assert_int_equal(g4_dev_read(wg, &dev, 8192, buffer, 4096), 0);
	assert_memory_equal(memory + 8192, buffer, 4096);
}

static void what_no_power_cut_leaves_needs_no_flush(void **state)
{
	struct g4_dev dev = make_mapped(G4_DEV_PERSIST_NEVER);

	(void)state;
	assert_int_equal(g4_dev_write(wg, &dev, 0, buffer, 512, G4_IO_FUA), 0);
	assert_int_equal(g4_dev_flush(wg, &dev), 0);
	assert_int_equal(asked.persisted + asked.flushed, 0);
}

static void only_memory_has_addresses(void **state)
{
	struct g4_dev memory_device = make_mapped(G4_DEV_PERSIST_NEVER), other = make(&queued);

	(void)state;
	assert_ptr_equal(g4_dev_map(&memory_device, 512), memory + 512);
	assert_null(g4_dev_map(&memory_device, BYTES));
	assert_null(g4_dev_map(&other, 0));
}

RUN_TESTS(fs_test(no_bad_request_reaches_the_kind), fs_test(a_list_is_left_to_the_kind_but_for_the_bad),
	  fs_test(one_request_takes_the_shorter_way), fs_test(memory_is_written_and_made_durable),
	  fs_test(what_no_power_cut_leaves_needs_no_flush), cmocka_unit_test(only_memory_has_addresses))
