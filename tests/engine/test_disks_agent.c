/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of disks behind an I/O agent, without a file system over them: copies are told apart, rows are compared, and what is asked about
 * disks is answered as without the agent; an engine that asks nonsense gets a code.
 */
#include "disks.h"

#include "dev/agent_host.h"
#include "dev/errand_host.h"
#include "simt/simt_host.h"

#define CHUNK_BYTES (16 * G4_KIB)
#define LONG_BYTES (5 * CHUNK_BYTES) /* is cut */

struct pair { /* a set, and the same behind an agent */
	struct disks d;
	struct g4_dev *set, *remote;
	struct g4_wg *wg;
};

static void open_pair(struct pair *p, uint32_t count, const struct g4_set_plan *plan)
{
	const struct g4_agent_options queue = {.slots = 4, .chunk_bytes = CHUNK_BYTES};

	disks_make(&p->d, count, NULL);
	disks_format_plan(&p->d, plan, G4_CHECKSUM_NONE);
	if (disks_try_open(&p->d, (1u << count) - 1, false, 0, &p->set) < 0)
		fail_msg("%s", p->d.message);
	assert_int_equal(g4_dev_remote_open(p->set, &queue, &p->remote), 0);
	p->wg = g4_wg_create(2);
	assert_non_null(p->wg);
}

static void close_pair(struct pair *p)
{
	g4_wg_destroy(p->wg);
	g4_dev_close(p->remote);
	disks_free(&p->d);
}

static int transfer(struct pair *p, uint32_t op, uint32_t flags, uint64_t offset, void *memory, uint64_t bytes)
{
	struct g4_iov iov = {memory, bytes};
	struct g4_io io = {.op = op, .flags = flags, .offset_bytes = offset, .iov = &iov, .iov_count = 1};

	g4_dev_submit(p->wg, p->remote, &io);
	return g4_dev_wait(p->wg, p->remote, &io);
}

static int check(struct pair *p, uint64_t offset, uint64_t bytes)
{
	struct g4_io io = {.op = G4_IO_CHECK, .offset_bytes = offset, .discard_bytes = bytes};

	g4_dev_submit(p->wg, p->remote, &io);
	return g4_dev_wait(p->wg, p->remote, &io);
}

/* ---- copies ---- */

static void one_copy_of_a_long_range_is_meant(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 3};
	uint8_t *memory[3], *back = rig_memory(LONG_BYTES, 0);
	const uint64_t at = 8 * G4_MIB;
	struct pair p;

	(void)state;
	open_pair(&p, 3, &plan);
	for (uint32_t copy = 0; copy < 3; copy++) {
		memory[copy] = rig_memory(LONG_BYTES, 7 + copy);
		assert_int_equal(transfer(&p, G4_IO_WRITE, G4_IO_COPY(copy), at, memory[copy], LONG_BYTES), 0);
	}
	for (uint32_t copy = 0; copy < 3; copy++) {
		assert_int_equal(transfer(&p, G4_IO_READ, G4_IO_COPY(copy), at, back, LONG_BYTES), 0);
		assert_memory_equal(back, memory[copy], LONG_BYTES);
	}
	assert_int_equal(transfer(&p, G4_IO_WRITE, G4_IO_COPY(1) | G4_IO_FUA, at, memory[0], LONG_BYTES), 0);
	assert_int_equal(transfer(&p, G4_IO_READ, G4_IO_COPY(1), at, back, LONG_BYTES), 0);
	assert_memory_equal(back, memory[0], LONG_BYTES);
	assert_int_equal(transfer(&p, G4_IO_READ, G4_IO_COPY(2), at, back, LONG_BYTES), 0);
	assert_memory_equal(back, memory[2], LONG_BYTES);
	assert_int_equal(transfer(&p, G4_IO_READ, G4_IO_COPY(3), at, back, LONG_BYTES), -G4_E_INVAL);
	for (uint32_t copy = 0; copy < 3; copy++)
		free(memory[copy]);
	free(back);
	close_pair(&p);
}

/* ---- rows ---- */

static const struct g4_set_plan rows = {
	.raid = G4_RAID_PARITY, .parity = 2, .stripe_bytes = CHUNK_BYTES, .journal_bytes = JOURNAL_BYTES};

/* A byte that is no more what it was, in rows that parity is right for, is found and written again. */
static void rows_are_compared(void **state)
{
	uint8_t *memory = rig_memory(LONG_BYTES, 3);
	uint32_t found = 0;
	struct pair p;

	(void)state;
	open_pair(&p, 5, &rows);
	const uint64_t all = g4_dev_props(p.remote)->size_bytes, at = all - 4 * G4_MIB;
	assert_int_equal(transfer(&p, G4_IO_WRITE, 0, at, memory, LONG_BYTES), 0);
	assert_int_equal(g4_dev_flush(p.wg, p.remote), 0);
	assert_int_equal(check(&p, at, G4_PAGE_BYTES), 0); /* what the log has is in its place then, too */
	for (uint32_t n = 0; n < 5; n++)
		for (uint64_t page = DISK_BYTES / 2; page < DISK_BYTES && !found;
		     page += G4_PAGE_BYTES) /* behind the log */
			if (memcmp(p.d.memory[n] + page, memory, G4_PAGE_BYTES) == 0) {
				p.d.memory[n][page + 7] ^= 1;
				assert_int_equal(check(&p, at - G4_MIB, 2 * G4_MIB), 0);
				found += memcmp(p.d.memory[n] + page, memory, G4_PAGE_BYTES) == 0;
				assert_int_equal(found, 1);
			}
	assert_int_equal(found, 1);
	assert_int_equal(check(&p, all, G4_PAGE_BYTES), -G4_E_DEV_RANGE);
	free(memory);
	close_pair(&p);
}

/* ---- questions ---- */

static void pages_lie_where_they_lie(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p, 5, &rows);
	for (uint64_t at = 0; at < g4_dev_props(p.set)->size_bytes; at += 37 * G4_PAGE_BYTES)
		assert_int_equal(g4_dev_disks_at(p.wg, p.remote, at), g4_dev_disks_at(p.wg, p.set, at));
	close_pair(&p);
}

static void names_come_and_go(void **state)
{
	char text[128], longest[G4_PAGE_BYTES], few[5] = "";
	struct g4_dev_order order = {.op = G4_ORDER_NAME, .text = text, .text_bytes = sizeof(text)};
	struct pair p;

	(void)state;
	open_pair(&p, 5, &rows);
	for (order.disk = 0; order.disk < 5; order.disk++) {
		assert_int_equal(g4_dev_order(p.wg, p.remote, &order), 0);
		assert_string_equal(text, p.d.names[order.disk]);
	}
	assert_int_equal(g4_dev_order(p.wg, p.remote, &order), -G4_E_NOENT);
	order = (struct g4_dev_order){.op = G4_ORDER_NAME, .text = few, .text_bytes = sizeof(few)};
	assert_int_equal(g4_dev_order(p.wg, p.remote, &order), 0);
	assert_string_equal(few, "dax:");
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	order = (struct g4_dev_order){
		.op = G4_ORDER_OFFLINE, .name = longest, .text = text, .text_bytes = sizeof(text)};
	assert_int_equal(g4_dev_order(p.wg, p.remote, &order), -G4_E_NAMETOOLONG);
	longest[sizeof(longest) - sizeof(struct g4_remote_order) - 1] = 0;
	assert_int_equal(g4_dev_order(p.wg, p.remote, &order), -G4_E_NOENT);
	assert_true(strncmp(text, longest, sizeof(text) - 1) == 0);
	order = (struct g4_dev_order){.op = G4_ORDER_ASK};
	assert_int_equal(g4_dev_order(p.wg, p.remote, &order), -G4_E_NO_TARGET);
	close_pair(&p);
}

static void nonsense_gets_a_code(void **state)
{
	union {
		struct g4_remote_order order;
		uint8_t bytes[2 * G4_REMOTE_ORDER_BYTES];
	} message = {.bytes = {0}};
	struct g4_errand errand = {.request = {.op = G4_REMOTE_ORDER, .bytes = sizeof(message.order)}};
	struct pair p;

	(void)state;
	open_pair(&p, 5, &rows);
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_INVAL);
	errand.message = &message.order;
	for (uint32_t op = 0; op < 64; op++) { /* none of them has a name or an address, nor is a disk being rebuilt */
		message.order = (struct g4_remote_order){.op = op, .disk = UINT32_MAX, .bytes = UINT64_MAX};
		assert_int_equal(g4_errand_do(p.wg, p.set, &errand), 0);
		if (op != G4_ORDER_SPREAD && op != G4_ORDER_SPREAD_NEXT && op != G4_ORDER_SPREAD_MOVE &&
		    op != G4_ORDER_SPREAD_LAY && op != G4_ORDER_SPREAD_BACK && op != G4_ORDER_SPREAD_FILL &&
		    op != G4_ORDER_ROWS_ASK) /* which need neither */
			assert_true(message.order.result < 0);
	}
	memset(message.bytes, 'x', sizeof(message.bytes)); /* a name without an end */
	message.order = (struct g4_remote_order){.op = G4_ORDER_OFFLINE};
	errand.request.bytes = G4_REMOTE_ORDER_BYTES;
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), 0);
	assert_int_equal(message.order.result, -G4_E_NOENT);
	errand.request.bytes = G4_REMOTE_ORDER_BYTES + 1;
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_INVAL);
	errand.request.bytes = sizeof(message.order) - 1;
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_INVAL);
	errand.request = (struct g4_remote_request){.op = G4_REMOTE_WHERE, .bytes = sizeof(message.order)};
	message.order.address = g4_dev_props(p.set)->size_bytes;
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_DEV_RANGE);
	message.order.address = G4_PAGE_BYTES + 1;
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_DEV_RANGE);
	errand.message = (struct g4_remote_order *)(void *)(message.bytes + 1);
	assert_int_equal(g4_errand_do(p.wg, p.set, &errand), -G4_E_INVAL);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_copy_of_a_long_range_is_meant),
		cmocka_unit_test(rows_are_compared),
		cmocka_unit_test(pages_lie_where_they_lie),
		cmocka_unit_test(names_come_and_go),
		cmocka_unit_test(nonsense_gets_a_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
