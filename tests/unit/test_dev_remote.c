/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices behind an I/O agent: what an engine on a GPU does its requests with, here between threads. Every way that data
 * can take (chunk, several chunks, in place), queues of one slot and of many, errors of the device, and an engine that
 * posts nonsense.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev/agent_host.h"
#include "dev/dev_types.h"
#include "dev_util.h"

#define IMAGE_BYTES (UINT64_C(8) * G4_MIB)
#define BUFFER_BYTES (2 * G4_MIB)
#define THREADS 4u
#define ROUNDS 200u

static struct g4_wg *wg;
static uint8_t *buffer;

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(1);
	buffer = pages(BUFFER_BYTES);
	return wg ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(buffer);
	g4_wg_destroy(wg);
	return 0;
}

/* A file, which is gone when it is closed. */
static struct g4_dev *open_file_with(uint32_t flags)
{
	const struct g4_dev_open_options options = {
		.flags = G4_DEV_CREATE | flags, .queues = 1, .create_bytes = IMAGE_BYTES};
	char path[512], message[256] = "";
	struct g4_dev *dev;

	temporary_path(path, sizeof(path), temporary_directory());
	if (g4_dev_open(path, &options, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	unlink(path);
	return dev;
}

static struct g4_dev *open_file(void)
{
	return open_file_with(0);
}

static struct g4_dev *open_fault(struct g4_dev *inner, const struct g4_fault *settings)
{
	struct g4_dev *fault;

	assert_int_equal(g4_dev_fault_open(inner, &fault), 0);
	g4_dev_fault_set(fault, settings);
	return fault;
}

static struct g4_dev *behind_agent(struct g4_dev *inner, uint32_t slots, uint64_t chunk_bytes)
{
	const struct g4_agent_options options = {.slots = slots, .chunk_bytes = chunk_bytes};
	struct g4_dev *dev;

	assert_int_equal(g4_dev_remote_open(inner, &options, &dev), 0);
	return dev;
}

/* ------------------------------------------------------------------ data */

static void write_and_read(struct g4_dev *dev, uint64_t offset, uint64_t bytes, uint32_t flags)
{
	fill(buffer, bytes, offset, bytes + flags);
	assert_int_equal(g4_dev_write(wg, dev, offset, buffer, bytes, flags), 0);
	memset(buffer, 0, bytes);
	assert_int_equal(g4_dev_read(wg, dev, offset, buffer, bytes), 0);
	check(buffer, bytes, offset, bytes + flags);
}

static void all_sizes(struct g4_dev *dev)
{
	const uint64_t sizes[] = {4096, 8192, 64 * 1024, 68 * 1024, G4_MIB, BUFFER_BYTES};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (uint32_t flags = 0; flags <= G4_IO_FUA; flags++)
			write_and_read(dev, (i + 1) * 4096, sizes[i], flags);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static void data_comes_back(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 0, 0);

	(void)state;
	all_sizes(dev);
	g4_dev_close(dev);
}

static void one_slot_of_one_page_is_enough(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 1, 4096);

	(void)state;
	all_sizes(dev);
	g4_dev_close(dev);
}

static void a_file_without_io_uring_works_too(void **state)
{
	struct g4_dev *dev = behind_agent(open_file_with(G4_DEV_SYNCHRONOUS), 4, 65536);

	(void)state;
	all_sizes(dev);
	g4_dev_close(dev);
}

static void a_mapped_device_works_too(void **state)
{
	struct g4_dev *dev = behind_agent(open_device("mem:8M"), 3, 16384);

	(void)state;
	assert_null(g4_dev_map(dev, 0));
	all_sizes(dev);
	g4_dev_close(dev);
}

/* Pages of odd places of memory, in several requests at once. */
static void transfer_vectors(struct g4_dev *dev, uint32_t op)
{
	struct g4_iov iov[4][16];
	struct g4_io ios[4];

	memset(ios, 0, sizeof(ios));
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t k = 0; k < 16; k++) {
			iov[i][k].base = buffer + ((i * 16 + k) * 7 % 64) * 8192;
			iov[i][k].bytes = k % 3 == 0 ? 8192 : 4096;
		}
		ios[i].op = op;
		ios[i].offset_bytes = i * G4_MIB;
		ios[i].iov = iov[i];
		ios[i].iov_count = 16;
	}
	submit_all(wg, dev, ios, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(g4_dev_wait(wg, dev, &ios[i]), 0);
}

static void vectors_keep_their_order(void **state)
{
	const uint32_t slots[] = {1, 2, 5, 64};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct g4_dev *dev = behind_agent(open_file(), slots[i], 12288);
		fill(buffer, BUFFER_BYTES, 0, i);
		transfer_vectors(dev, G4_IO_WRITE);
		memset(buffer, 0, BUFFER_BYTES);
		transfer_vectors(dev, G4_IO_READ);
		for (uint32_t k = 0; k < 64; k++)
			check(buffer + (k * 7 % 64) * 8192, k % 16 % 3 == 0 ? 8192 : 4096, (k * 7 % 64) * 8192, i);
		g4_dev_close(dev);
	}
}

static void an_area_is_used_in_place(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 4, 8192);
	struct g4_agent *agent = g4_dev_remote_agent(dev);
	uint8_t *other = pages(G4_MIB);

	(void)state;
	g4_agent_set_area(agent, 3, buffer, BUFFER_BYTES);
	dev->remote->areas[3] = (struct g4_remote_area){(uintptr_t)buffer, BUFFER_BYTES};
	dev->remote->area_count = 4;
	fill(buffer, G4_MIB, 0, 1);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, G4_MIB, 0), 0);
	assert_int_equal(g4_agent_counts(agent).placed, 1);
	assert_int_equal(g4_agent_counts(agent).requests, 1);
	assert_int_equal(g4_dev_read(wg, dev, 0, other, G4_MIB), 0);
	check(other, G4_MIB, 0, 1);
	assert_int_equal(g4_agent_counts(agent).placed, 1);
	/* half of it outside */
	struct g4_iov iov[] = {{other, 64 * 1024}, {buffer + 64 * 1024, G4_MIB}};
	struct g4_io io = {.op = G4_IO_READ, .offset_bytes = 65536, .iov = iov, .iov_count = 2};
	g4_dev_write(wg, dev, G4_MIB, other, 65536, 0);
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	check(other, 65536, 65536, 1);
	check(buffer + 64 * 1024, G4_MIB - 131072, 131072, 1);
	check(buffer + G4_MIB - 65536, 65536, 0, 1);
	assert_true(g4_agent_counts(agent).placed > 1);
	free(other);
	g4_dev_close(dev);
}

/* What a device knows of an area's memory ends with the area: other memory at the same address is other memory. */
static void an_area_may_be_followed_by_another_at_its_address(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 4, 8192);
	struct g4_agent *agent = g4_dev_remote_agent(dev);
	uint8_t *other = pages(G4_MIB), *memory = NULL;

	(void)state;
	dev->remote->area_count = 3;
	for (uint32_t round = 0; round < 8; round++) {
		const uint32_t index = 1 + round % 2;
		memory = mmap(memory, G4_MIB, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | (memory ? MAP_FIXED : 0), -1, 0);
		assert_ptr_not_equal(memory, MAP_FAILED);
		g4_agent_set_area(agent, index, memory, G4_MIB);
		dev->remote->areas[index] = (struct g4_remote_area){(uintptr_t)memory, G4_MIB};
		fill(memory, G4_MIB, 0, round);
		assert_int_equal(g4_dev_write(wg, dev, 0, memory, G4_MIB, 0), 0);
		assert_int_equal(g4_dev_read(wg, dev, 0, other, G4_MIB), 0);
		check(other, G4_MIB, 0, round);
		memset(memory, 0, G4_MIB);
		assert_int_equal(g4_dev_read(wg, dev, 0, memory, G4_MIB), 0);
		check(memory, G4_MIB, 0, round);
		assert_int_equal(g4_agent_counts(agent).placed, 2 * (round + 1));
		dev->remote->areas[index] = (struct g4_remote_area){0};
		g4_agent_set_area(agent, index, NULL, 0);
	}
	munmap(memory, G4_MIB);
	free(other);
	g4_dev_close(dev);
}

static void discarded_space_can_be_written_again(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 2, 65536);
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 0, .discard_bytes = G4_MIB};

	(void)state;
	write_and_read(dev, 0, G4_MIB, 0);
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), g4_dev_props(dev)->discard ? 0 : -G4_E_NOTSUP);
	write_and_read(dev, 0, G4_MIB, 0);
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ many at a time */

struct worker {
	pthread_t thread;
	struct g4_dev *dev;
	uint32_t index;
	uint32_t rounds;
	uint32_t errors;
};

/* Each in its own part of the device, with a request in many pieces now and then. */
static void *work(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *own = g4_wg_create(10 + w->index);
	uint64_t part = w->index * (IMAGE_BYTES / THREADS);
	uint8_t *memory = pages(256 * 1024);

	for (uint32_t round = 0; round < w->rounds; round++) {
		uint64_t bytes = round % 16 == 0 ? 256 * 1024 : 4096 * (1 + round % 5);
		uint64_t at = part + round * 37 % 400 * 4096;
		fill(memory, bytes, at, round);
		w->errors += g4_dev_write(own, w->dev, at, memory, bytes, round % 32 == 0 ? G4_IO_FUA : 0) != 0;
		memset(memory, 0, bytes);
		w->errors += g4_dev_read(own, w->dev, at, memory, bytes) != 0;
		for (uint64_t i = 0; i < bytes / 8; i++)
			w->errors += ((uint64_t *)memory)[i] != (mix(at / 8 + i) ^ mix(round));
		if (round % 50 == 0)
			w->errors += g4_dev_flush(own, w->dev) != 0;
	}
	free(memory);
	g4_wg_destroy(own);
	return NULL;
}

static void run_workers(struct g4_dev *dev, uint32_t rounds)
{
	struct worker workers[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.dev = dev, .index = i, .rounds = rounds};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].errors, 0);
	}
	g4_dev_close(dev);
}

static void threads_do_not_meet(void **state)
{
	(void)state;
	run_workers(behind_agent(open_file(), 64, 65536), ROUNDS);
}

/* Each of the 1 700 pieces waits for one of two slots, and for a wake-up. */
static void threads_share_a_short_queue(void **state)
{
	(void)state;
	run_workers(behind_agent(open_file(), 2, 8192), ROUNDS / 4);
}

static void threads_share_a_slow_device(void **state)
{
	const struct g4_fault slow = {.delay_ns = 50000};

	(void)state;
	run_workers(behind_agent(open_fault(open_file(), &slow), 3, 16384), ROUNDS);
}

/* ------------------------------------------------------------------ errors */

static void checks_come_first(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 4, 4096);

	(void)state;
	assert_int_equal(g4_dev_read(wg, dev, IMAGE_BYTES, buffer, 4096), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_write(wg, dev, 1, buffer, 4096, 0), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_agent_counts(g4_dev_remote_agent(dev)).requests, 0);
	g4_dev_close(dev);
}

static void an_error_of_one_piece_is_the_requests(void **state)
{
	const struct g4_fault third = {.fail_write_at = 3, .fail_read_at = 2, .fail_flush_at = 1};
	struct g4_dev *fault = open_fault(open_file(), &third);
	struct g4_dev *dev = behind_agent(fault, 2, 4096);

	(void)state;
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 8 * 4096, 0), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 8 * 4096), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	write_and_read(dev, 0, 8 * 4096, 0); /* each failed once */
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
}

static void a_durable_write_in_pieces_is_flushed_once(void **state)
{
	const struct g4_fault none = {0};
	struct g4_dev *fault = open_fault(open_file(), &none);
	struct g4_dev *dev = behind_agent(fault, 8, 4096);
	uint64_t reads, writes, flushes;

	(void)state;
	fill(buffer, 65536, 0, 5);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 65536, G4_IO_FUA), 0);
	g4_dev_fault_counts(fault, &reads, &writes, &flushes);
	assert_int_equal(writes, 16);
	assert_int_equal(flushes, 1);
	fill(buffer, 4096, 65536, 5);
	assert_int_equal(g4_dev_write(wg, dev, 65536, buffer, 4096, G4_IO_FUA), 0);
	g4_dev_fault_counts(fault, &reads, &writes, &flushes);
	assert_int_equal(flushes, 1);
	assert_int_equal(g4_dev_fault_cut(fault), 0);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	g4_dev_fault_power_on(fault);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 65536 + 4096), 0);
	check(buffer, 65536 + 4096, 0, 5);
	g4_dev_close(dev);
}

static void a_device_that_has_vanished_fails_every_request(void **state)
{
	const struct g4_fault none = {0};
	struct g4_dev *fault = open_fault(open_file(), &none);
	struct g4_dev *dev = behind_agent(fault, 4, 8192);

	(void)state;
	write_and_read(dev, 0, 65536, 0);
	assert_int_equal(g4_dev_fault_cut(fault), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 65536, 0), -G4_E_IO);
		assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 65536), -G4_E_IO);
		assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	}
	g4_dev_close(dev);
}

static void work_wakes_an_agent_that_rests(void **state)
{
	struct g4_dev *dev = behind_agent(open_file(), 4, 8192);

	(void)state;
	g4_agent_rest(g4_dev_remote_agent(dev), true);
	write_and_read(dev, 0, 65536, 0);
	g4_agent_rest(g4_dev_remote_agent(dev), false);
	write_and_read(dev, 0, 65536, 0);
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ an engine gone wrong */

struct untrusted {
	struct g4_dev *inner;
	struct g4_agent *agent;
	struct g4_remote_layout layout;
	uint8_t *memory;
	uint32_t posted, seen;
};

static void enter(struct untrusted *s)
{
	const struct g4_agent_options options = {.slots = 4, .chunk_bytes = 4096};
	uint64_t bytes;

	memset(s, 0, sizeof(*s));
	s->inner = open_file();
	assert_int_equal(g4_agent_open(s->inner, &options, &s->agent), 0);
	s->layout = g4_remote_layout(4, 4096);
	s->memory = g4_agent_memory(s->agent, &bytes);
	assert_int_equal(bytes, s->layout.bytes);
	g4_agent_rest(s->agent, false);
}

static void leave(struct untrusted *s)
{
	g4_agent_close(s->agent);
	g4_dev_close(s->inner);
}

static void post(struct untrusted *s, uint32_t slot, const struct g4_remote_request *request)
{
	if (request)
		((struct g4_remote_request *)(s->memory + s->layout.requests_at))[slot] = *request;
	g4_store64_rel_sys((uint64_t *)s->memory + s->posted % 4, g4_remote_word(s->posted, slot));
	s->posted++;
}

static int await(struct untrusted *s, uint32_t slot)
{
	uint64_t *place = (uint64_t *)(s->memory + s->layout.finished_at) + s->seen % 4;
	uint64_t word;

	while (!g4_remote_is(word = g4_load64_acq_sys(place), s->seen))
		g4_pause();
	s->seen++;
	assert_int_equal((uint32_t)word >> G4_REMOTE_CODE_BITS, slot);
	return -(int)((uint32_t)word & G4_REMOTE_CODE_MASK);
}

static void impossible_requests_get_errors(void **state)
{
	const struct g4_remote_request good = {.op = G4_IO_READ, .bytes = 4096};
	struct g4_remote_request bad;
	struct untrusted s;

	(void)state;
	enter(&s);
	const struct {
		struct g4_remote_request request;
		int code;
	} cases[] = {
		{{.op = 77, .bytes = 4096}, -G4_E_INVAL},
		{{.op = G4_IO_WRITE, .flags = 0x80, .bytes = 4096}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = 4096, .area = 1}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = 4096, .area = UINT32_MAX}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = 4096, .at = 4 * 4096}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = 4096, .at = UINT64_MAX - 4095}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = UINT64_MAX - 4095, .at = 4096}, -G4_E_INVAL},
		{{.op = G4_IO_READ, .bytes = 4096, .offset_bytes = IMAGE_BYTES}, -G4_E_DEV_RANGE},
		{{.op = G4_IO_WRITE, .bytes = 4096, .offset_bytes = UINT64_MAX - 4095}, -G4_E_DEV_RANGE},
		{{.op = G4_IO_READ, .bytes = 100}, -G4_E_DEV_ALIGN},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bad = cases[i].request;
		post(&s, i % 4, &bad);
		assert_int_equal(await(&s, i % 4), cases[i].code);
		post(&s, i % 4, &good);
		assert_int_equal(await(&s, i % 4), 0);
	}
	post(&s, 4, NULL); /* no slot: no answer */
	post(&s, UINT32_MAX, NULL);
	post(&s, 2, &good);
	assert_int_equal(await(&s, 2), 0);
	leave(&s);
}

static void an_agent_that_ends_leaves_nothing_unanswered(void **state)
{
	const struct g4_remote_request read = {.op = G4_IO_READ, .bytes = 4096};
	struct untrusted s;

	(void)state;
	for (int i = 0; i < 20; i++) {
		enter(&s);
		g4_agent_rest(s.agent, i & 1);
		for (uint32_t slot = 0; slot < 4; slot++)
			post(&s, slot, &read);
		leave(&s); /* returns, whatever it was at */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_comes_back),
		cmocka_unit_test(one_slot_of_one_page_is_enough),
		cmocka_unit_test(a_file_without_io_uring_works_too),
		cmocka_unit_test(a_mapped_device_works_too),
		cmocka_unit_test(vectors_keep_their_order),
		cmocka_unit_test(an_area_is_used_in_place),
		cmocka_unit_test(an_area_may_be_followed_by_another_at_its_address),
		cmocka_unit_test(discarded_space_can_be_written_again),
		cmocka_unit_test(threads_do_not_meet),
		cmocka_unit_test(threads_share_a_short_queue),
		cmocka_unit_test(threads_share_a_slow_device),
		cmocka_unit_test(checks_come_first),
		cmocka_unit_test(an_error_of_one_piece_is_the_requests),
		cmocka_unit_test(a_durable_write_in_pieces_is_flushed_once),
		cmocka_unit_test(a_device_that_has_vanished_fails_every_request),
		cmocka_unit_test(work_wakes_an_agent_that_rests),
		cmocka_unit_test(impossible_requests_get_errors),
		cmocka_unit_test(an_agent_that_ends_leaves_nothing_unanswered),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
