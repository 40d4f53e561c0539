/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests as commands: what they say of their data, that a request ends with its last command, and what answers that are none, late
 * or errors come to. (On a controller with threads and faults: test_emulated.c.)
 */
#include "unit/nvme/queue_memory.h"

#define SLOTS 4u

static struct g4_nvme_queue queue __attribute__((aligned(128)));
static struct g4_nvme_cache cache;
static uint8_t *data;
static struct g4_iov iov;

static int setup(void **state)
{
	(void)state;
	memset(&queue, 0, sizeof(queue));
	begin_queue_memory(&queue.flight.pair);
	queue.flight.count = SLOTS;
	queue.flight.cache = &cache;
	g4_slots_init(&queue.pool, SLOTS);
	queue.lists = pages(SLOTS * G4_NVME_LIST_BYTES);
	queue.first.nsid = 5;
	queue.first.block_shift = 9;
	queue.piece_bytes = 64 * G4_KIB;
	data = pages(G4_MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(queue.lists);
	free(data);
	return 0;
}

static struct g4_io request(uint32_t op, uint64_t offset, void *base, uint64_t bytes)
{
	const struct g4_io io = {.op = op, .offset_bytes = offset, .iov = &iov, .iov_count = 1};

	iov = (struct g4_iov){base, bytes};
	return io;
}

static void a_command_says_where_and_how_much(void **state)
{
	struct g4_io io = request(G4_IO_WRITE, 512 * UINT64_C(0x123456789), data, 3 * G4_PAGE_BYTES);

	(void)state;
	io.flags = G4_IO_FUA;
	g4_nvme_start(&queue, &queue.first, &io);
	const struct g4_nvme_command *command = next_command();
	assert_non_null(command);
	assert_int_equal(command->opcode, G4_NVME_WRITE);
	assert_int_equal(command->nsid, 5);
	assert_int_equal(command->dword10, 0x23456789);
	assert_int_equal(command->dword11, 0x1);
	assert_int_equal(command->dword12, (3 * G4_PAGE_BYTES / 512 - 1) | G4_NVME_RW_FUA);
	assert_int_equal(command->prp1, (uintptr_t)data);
	const uint64_t *list = (const uint64_t *)(uintptr_t)command->prp2;
	assert_int_equal(list[0], (uintptr_t)data + G4_PAGE_BYTES);
	assert_int_equal(list[1], (uintptr_t)data + 2 * G4_PAGE_BYTES);
	assert_null(next_command());
	assert_false(g4_nvme_step(&queue, &queue.first, &io, NULL));
	answer(command->id, G4_NVME_OK);
	assert_true(g4_nvme_step(&queue, &queue.first, &io, NULL));
	assert_int_equal(io.result, 0);
	assert_int_equal(queue.flight.counts.completed, 1);
}

/* More commands than slots: the others start as those end, and the request ends with the last. */
static void a_long_request_is_several_commands(void **state)
{
	struct g4_io io = request(G4_IO_READ, 0, data, G4_MIB);
	uint32_t commands = 0;

	(void)state;
	g4_nvme_start(&queue, &queue.first, &io);
	while (!g4_nvme_step(&queue, &queue.first, &io, NULL)) {
		const struct g4_nvme_command *command = next_command();
		assert_non_null(command);
		assert_int_equal(command->dword10, commands * 64 * G4_KIB / 512);
		assert_int_equal(command->dword12, 64 * G4_KIB / 512 - 1);
		assert_int_equal(command->prp1, (uintptr_t)data + commands * 64 * G4_KIB);
		answer(command->id, G4_NVME_OK);
		commands++;
	}
	assert_int_equal(commands, G4_MIB / (64 * G4_KIB));
	assert_int_equal(io.result, 0);
}

static void an_error_may_be_tried_again_unless_it_is_final(void **state)
{
	struct g4_io io = request(G4_IO_READ, 0, data, 512);

	(void)state;
	g4_nvme_start(&queue, &queue.first, &io);
	for (uint32_t tries = 1; tries < G4_NVME_TRIES; tries++) {
		answer(next_command()->id, G4_NVME_INTERNAL_ERROR);
		assert_false(g4_nvme_step(&queue, &queue.first, &io, NULL));
		assert_int_equal(queue.flight.counts.retried, tries);
	}
	answer(next_command()->id, G4_NVME_INTERNAL_ERROR);
	assert_true(g4_nvme_step(&queue, &queue.first, &io, NULL));
	assert_int_equal(io.result, -G4_E_IO);
	io = request(G4_IO_WRITE, 0, data, 512);
	g4_nvme_start(&queue, &queue.first, &io);
	answer(next_command()->id, G4_NVME_CAPACITY | G4_NVME_DNR);
	assert_true(g4_nvme_step(&queue, &queue.first, &io, NULL));
	assert_int_equal(io.result, -G4_E_NOSPC);
	assert_int_equal(queue.flight.counts.failed, 2);
}

/* One of a slot's turn before, one of no slot, and one that comes twice: nobody ends by them. */
static void an_answer_to_nobody_ends_nothing(void **state)
{
	struct g4_io io = request(G4_IO_READ, 0, data, 512);

	(void)state;
	g4_nvme_start(&queue, &queue.first, &io);
	const uint32_t id = next_command()->id;
	answer(id ^ 0x100, G4_NVME_OK);
	answer(SLOTS, G4_NVME_OK);
	assert_false(g4_nvme_step(&queue, &queue.first, &io, NULL));
	answer(id, G4_NVME_OK);
	answer(id, G4_NVME_OK);
	assert_true(g4_nvme_step(&queue, &queue.first, &io, NULL));
	struct g4_io other = request(G4_IO_READ, 512, data, 512);
	g4_nvme_start(&queue, &queue.first, &other);
	assert_false(g4_nvme_step(&queue, &queue.first, &other, NULL));
	answer(next_command()->id, G4_NVME_OK);
	assert_true(g4_nvme_step(&queue, &queue.first, &other, NULL));
	assert_int_equal(queue.flight.counts.stray, 3);
}

/* Who waits gets the slots in the order of asking. */
static void slots_go_to_those_who_asked_first(void **state)
{
	struct g4_io full[SLOTS], first = request(G4_IO_FLUSH, 0, data, 0), second = first;
	struct g4_nvme_turn turns[2] = {{0}};

	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++) {
		full[i] = (struct g4_io){.op = G4_IO_FLUSH};
		g4_nvme_start(&queue, &queue.first, &full[i]);
	}
	g4_nvme_start(&queue, &queue.first, &first);
	g4_nvme_start(&queue, &queue.first, &second);
	assert_false(g4_nvme_step(&queue, &queue.first, &first, &turns[0]));
	assert_false(g4_nvme_step(&queue, &queue.first, &second, &turns[1]));
	answer(next_command()->id, G4_NVME_OK);
	assert_false(g4_nvme_step(&queue, &queue.first, &second,
				  &turns[1])); /* which looks, and leaves the slot to the other */
	for (uint32_t i = 1; i < SLOTS; i++)
		(void)next_command();
	assert_null(next_command());
	assert_false(g4_nvme_step(&queue, &queue.first, &first, &turns[0]));
	const struct g4_nvme_command *command = next_command();
	assert_non_null(command);
	answer(command->id, G4_NVME_OK);
	assert_true(g4_nvme_step(&queue, &queue.first, &first, &turns[0]));
	assert_false(g4_nvme_step(&queue, &queue.first, &second, &turns[1]));
	answer(next_command()->id, G4_NVME_OK);
	assert_true(g4_nvme_step(&queue, &queue.first, &second, &turns[1]));
}

/* Pieces that begin and end inside pages: PRPs need a command for each, an SGL one for all. */
static void an_sgl_describes_what_prps_would_cut(void **state)
{
	struct g4_iov parts[3] = {{data + 512, 1024}, {data + 8192, 512}, {data + 16384 + 3584, 8192}};
	struct g4_io io = {.op = G4_IO_READ, .iov = parts, .iov_count = 3};

	(void)state;
	for (queue.has_sgl = 0; queue.has_sgl < 2; queue.has_sgl++) {
		uint32_t count = 0;
		io = (struct g4_io){.op = G4_IO_READ, .offset_bytes = 4096, .iov = parts, .iov_count = 3};
		g4_nvme_start(&queue, &queue.first, &io);
		for (const struct g4_nvme_command *command; (command = next_command()); count++) {
			assert_int_equal(command->flags, queue.has_sgl ? G4_NVME_SGL : 0);
			answer(command->id, G4_NVME_OK);
			if (!queue.has_sgl)
				continue;
			const struct g4_nvme_sgl *list = (const struct g4_nvme_sgl *)(uintptr_t)command->prp1;
			assert_int_equal(command->prp2, 48 | UINT64_C(0x30) << 56);
			assert_int_equal(command->dword12, (1024 + 512 + 8192) / 512 - 1);
			for (uint32_t i = 0; i < 3; i++) {
				assert_int_equal(list[i].address, (uintptr_t)parts[i].base);
				assert_int_equal(list[i].bytes, parts[i].bytes);
				assert_int_equal(list[i].type, G4_NVME_SGL_DATA);
			}
		}
		assert_int_equal(count, queue.has_sgl ? 1 : 3);
		while (!g4_nvme_step(&queue, &queue.first, &io, NULL))
			;
		assert_int_equal(io.result, 0);
	}
	queue.has_sgl = 1; /* what PRPs can do stays theirs */
	io = request(G4_IO_WRITE, 0, data, 12288);
	g4_nvme_start(&queue, &queue.first, &io);
	assert_int_equal(next_command()->flags, 0);
}

/* More vectors than a list has places for. */
static void a_long_sgl_is_cut(void **state)
{
	static struct g4_iov parts[300];
	struct g4_io io = {.op = G4_IO_WRITE, .iov = parts, .iov_count = 300};

	(void)state;
	queue.has_sgl = 1;
	queue.piece_bytes = G4_MIB;
	for (uint32_t i = 0; i < 300; i++)
		parts[i] = (struct g4_iov){data + i * 1024 + 512, 512};
	g4_nvme_start(&queue, &queue.first, &io);
	const struct g4_nvme_command *command = next_command();
	assert_int_equal(command->dword12, 256 - 1);
	assert_int_equal((uint32_t)command->prp2, 4096);
	command = next_command();
	assert_int_equal(command->dword10, 256);
	assert_int_equal(command->dword12, 300 - 256 - 1);
}

static void no_command_crosses_a_boundary(void **state)
{
	struct g4_io io = request(G4_IO_WRITE, 5 * 512, data, 24 * 512);
	uint64_t lba = 100 + 5;

	(void)state;
	queue.first.sizes.boundary = 10;
	queue.first.first_block = 100; /* boundaries are the namespace's */
	g4_nvme_start(&queue, &queue.first, &io);
	for (const struct g4_nvme_command *command; (command = next_command());) {
		const uint64_t blocks = (command->dword12 & 0xffff) + 1;
		assert_int_equal(command->dword10, lba);
		assert_int_equal(lba / 10, (lba + blocks - 1) / 10);
		lba += blocks;
		answer(command->id, G4_NVME_OK);
	}
	assert_int_equal(lba, 100 + 5 + 24);
	while (!g4_nvme_step(&queue, &queue.first, &io, NULL))
		;
}

static void a_controller_that_is_dead_ends_all(void **state)
{
	struct g4_io io = request(G4_IO_READ, 0, data, G4_MIB);

	(void)state;
	g4_nvme_start(&queue, &queue.first, &io);
	assert_int_equal(g4_nvme_overdue(&queue, g4_monotonic_ns(), UINT64_C(1000000000000)), 0);
	assert_int_not_equal(g4_nvme_overdue(&queue, UINT64_MAX, 0), 0);
	answer(next_command()->id, G4_NVME_OK);
	assert_int_equal(g4_nvme_overdue(&queue, UINT64_MAX, 0), 0); /* it has answered, and nobody has looked */
	g4_nvme_flight_pause(&queue.flight);
	queue.flight.dead = 1;
	while (!g4_nvme_step(&queue, &queue.first, &io, NULL))
		;
	assert_int_equal(io.result, -G4_E_IO);
}

#define request_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		request_test(a_command_says_where_and_how_much),
		request_test(a_long_request_is_several_commands),
		request_test(an_error_may_be_tried_again_unless_it_is_final),
		request_test(an_answer_to_nobody_ends_nothing),
		request_test(slots_go_to_those_who_asked_first),
		request_test(an_sgl_describes_what_prps_would_cut),
		request_test(a_long_sgl_is_cut),
		request_test(no_command_crosses_a_boundary),
		request_test(a_controller_that_is_dead_ends_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
