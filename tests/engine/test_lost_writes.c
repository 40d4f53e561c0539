/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes of a map that never came: an indirect page, its page of sums, or both are what they were before. docs/reliability.md says what
 * of it is noticed by whom, and what is not: this is so.
 */
#include "rig.h"

#include "data/map.h"
#include "fs/fs.h"
#include "fs/jobs.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define PAGES 40u
#define CHANGED 5u /* is written over */
#define ADDED PAGES

enum lost { NODE = 1, SUMS = 2 };

static struct rig rig;
static uint8_t before[PAGES * G4_PAGE_BYTES], after[G4_PAGE_BYTES], found[PAGES * G4_PAGE_BYTES];
static uint8_t old_node[G4_PAGE_BYTES], old_sums[G4_PAGE_BYTES];

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void unmount(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

/* Where the file's indirect page and its page of sums lie. */
static struct g4_map_nodes nodes_of(uint64_t ino)
{
	struct g4_map_nodes nodes;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), CHANGED, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_int_equal(nodes.count, 1);
	assert_int_equal(nodes.sums_count, 1);
	return nodes;
}

/* A file of which a page was written over and another one added, and what the device has kept of the map from before; mounted. */
static uint64_t make_with(uint32_t lost)
{
	uint64_t ino;

	rig_open_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, 64 * G4_MIB, 2 * G4_MIB);
	rig.wg = g4_wg_create(0);
	rig_pattern(before, 1, sizeof(before));
	rig_pattern(after, 2, sizeof(after));
	mount();
	ino = rig_make_file(&rig, "f", 0, before, sizeof(before));
	assert_int_equal(op_sync(&rig), 0);
	const struct g4_map_nodes nodes = nodes_of(ino);
	unmount();
	const uint64_t node = g4_address_stored(nodes.nodes[0]), sums = g4_address_stored(nodes.sums[0]);
	memcpy(old_node, rig.image + node, G4_PAGE_BYTES);
	memcpy(old_sums, rig.image + sums, G4_PAGE_BYTES);
	mount();
	assert_int_equal(op_write(&rig, ino, 0, CHANGED * G4_PAGE_BYTES, after, sizeof(after), NULL), 0);
	assert_int_equal(op_write(&rig, ino, 0, ADDED * G4_PAGE_BYTES, after, sizeof(after), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	const struct g4_map_nodes now = nodes_of(ino);
	assert_true(g4_address_is(now.nodes[0], nodes.nodes[0]) && g4_address_is(now.sums[0], nodes.sums[0]));
	unmount();
	assert_memory_not_equal(old_node, rig.image + node, G4_PAGE_BYTES);
	assert_memory_not_equal(old_sums, rig.image + sums, G4_PAGE_BYTES);
	if (lost & NODE)
		memcpy(rig.image + node, old_node, G4_PAGE_BYTES);
	if (lost & SUMS)
		memcpy(rig.image + sums, old_sums, G4_PAGE_BYTES);
	mount();
	return ino;
}

static int read_page(uint64_t ino, uint64_t page)
{
	return op_read(&rig, ino, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL);
}

static void expect_page(uint64_t ino, uint64_t page, const uint8_t *contents)
{
	memset(found, 0xa5, G4_PAGE_BYTES);
	assert_int_equal(read_page(ino, page), 0);
	assert_memory_equal(found, contents, G4_PAGE_BYTES);
}

static uint64_t scrub(void)
{
	static struct g4_health health;
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health)};

	assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0) {
	}
	assert_int_equal(g4_execute(rig.wg, rig.fs, &list), 0);
	assert_int_equal(health.jobs[0].state, G4_JOB_DONE);
	return health.jobs[0].errors;
}

/* What fsck finds without and with the contents. */
static void judge(bool in_metadata, uint64_t damaged)
{
	char *text = NULL;

	unmount();
	const struct rig_verdict verdict = rig_fsck(&rig, &text);
	free(text);
	assert_int_equal(verdict.problems > 0, in_metadata);
	const struct rig_data data = rig_fsck_data(&rig, 1, &text);
	free(text);
	assert_int_equal(data.damaged, damaged);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
}

static void a_node_that_stayed_old_contradicts_its_sums(void **state)
{
	static const uint8_t zeros[G4_PAGE_BYTES];
	const uint64_t ino = make_with(NODE);

	(void)state;
	assert_int_equal(read_page(ino, CHANGED), -G4_E_DATA);
	expect_page(ino, ADDED, zeros); /* nobody knows of it */
	for (uint64_t page = 0; page < PAGES; page++)
		if (page != CHANGED)
			expect_page(ino, page, before + page * G4_PAGE_BYTES);
	assert_int_equal(scrub(), 1);
	judge(true, 1);
}

static void sums_that_stayed_old_contradict_what_was_written(void **state)
{
	const uint64_t ino = make_with(SUMS);

	(void)state;
	assert_int_equal(read_page(ino, CHANGED), -G4_E_DATA);
	expect_page(ino, ADDED, after); /* it had no sum before: it is not verified */
	for (uint64_t page = 0; page < PAGES; page++)
		if (page != CHANGED)
			expect_page(ino, page, before + page * G4_PAGE_BYTES);
	assert_int_equal(scrub(), 1);
	judge(false, 1);
}

/* They verify each other: readers and a scrub get what was there before, and only the allocation map tells. */
static void both_that_stayed_old_are_believed(void **state)
{
	static const uint8_t zeros[G4_PAGE_BYTES];
	const uint64_t ino = make_with(NODE | SUMS);

	(void)state;
	for (uint64_t page = 0; page < PAGES; page++)
		expect_page(ino, page, before + page * G4_PAGE_BYTES);
	expect_page(ino, ADDED, zeros);
	assert_int_equal(scrub(), 0);
	judge(true, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_stayed_old_contradicts_its_sums),
		cmocka_unit_test(sums_that_stayed_old_contradict_what_was_written),
		cmocka_unit_test(both_that_stayed_old_are_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
