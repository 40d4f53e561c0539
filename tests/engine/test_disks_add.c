/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk is added to a file system of several: at every level it has what it is said to have, all that was there stays where
 * it is, a power cut at any request leaves the old set or the new one, and what can not be added is refused with nothing
 * changed.
 */
#include "rebuilding.h"

#include "fs/resize_host.h"
#include "simt/simt_host.h"

#define FILES 3u
#define ADD_BYTES (14 * G4_MIB)

struct level {
	enum g4_raid raid;
	uint32_t disks, copies, parity;
	uint32_t needed; /* disks that are to be added before there is more room */
};
static const struct level levels[] = {{G4_RAID_NONE, 2, 0, 0, 1},  {G4_RAID_0, 2, 0, 0, 1},
				      {G4_RAID_1, 2, 2, 0, 2},	   {G4_RAID_1, 3, 2, 0, 2},
				      {G4_RAID_1, 3, 3, 0, 3},	   {G4_RAID_PARITY, 3, 0, 1, 3},
				      {G4_RAID_PARITY, 4, 0, 2, 4}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))
#define ADDED 4u

/* A set of the first disks of `d`, which has ADDED more. */
static void format(struct disks *d, const struct level *level)
{
	const struct g4_set_plan plan = {
		.raid = level->raid, .copies = level->copies, .parity = level->parity, .stripe_bytes = ROWS_STRIPE};
	uint64_t bytes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		bytes[n] = ADD_BYTES;
	disks_make(d, level->disks + ADDED, bytes);
	d->count = level->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_NONE);
}

static void fill(struct disks *d, uint32_t version)
{
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, version), 0);
}

/* The next of d's disks becomes one of the open set. */
static int add_to(struct disks *d, struct g4_dev *set, struct g4_dev *disk)
{
	uint64_t bytes = 0;
	int rc = g4_set_add_to(set, disk, d->names[d->count], d->message, sizeof(d->message));

	if (rc == 0)
		rc = g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message));
	return rc;
}

static uint64_t add_next(struct disks *d)
{
	struct g4_dev *set;

	assert_int_equal(disks_try_open(d, (1u << d->count) - 1, false, 0, &set), 0);
	if (add_to(d, set, disks_open_one(d->names[d->count])) < 0)
		fail_msg("%s", d->message);
	const uint64_t bytes = g4_dev_props(set)->size_bytes;
	g4_dev_close(set);
	d->count++;
	return bytes;
}

static uint64_t bytes_of(struct disks *d)
{
	struct g4_dev *set;

	assert_int_equal(disks_try_open(d, (1u << d->count) - 1, false, 0, &set), 0);
	const uint64_t bytes = g4_dev_props(set)->size_bytes;
	g4_dev_close(set);
	return bytes;
}

static uint64_t blocks_of(struct disks *d)
{
	struct g4_statfs s;
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .data = &s, .length = sizeof(s)};

	assert_int_equal(g4_engine_execute(d->rig.engine, &cmd), 0);
	return s.blocks;
}

static void release(struct disks *d, const struct level *level)
{
	d->count = level->disks + ADDED;
	disks_free(d);
}

static void each_level_grows_when_enough_disks_are_there(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct disks d;
		uint64_t ino;
		format(&d, &levels[l]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		const uint64_t blocks = blocks_of(&d);
		disks_unmount(&d);
		const uint64_t before = bytes_of(&d);
		for (uint32_t added = 1; added <= levels[l].needed; added++) {
			const uint64_t after = add_next(&d);
			/* rows begin behind the front, which leaves more of some disks than of others */
			if (levels[l].raid == G4_RAID_1 && added < levels[l].needed)
				assert_int_equal(after, before);
			if (added == levels[l].needed)
				assert_true(after >= before + 8 * G4_MIB);
			disks_expect_clean(&d, (1u << d.count) - 1);
		}
		disks_mount(&d, (1u << d.count) - 1);
		assert_true(blocks_of(&d) > blocks);
		disks_expect_files(&d, FILES, 1);
		const uint64_t bytes = disks_fill(&d, &ino);
		assert_true(bytes > before * 3 / 4);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		disks_expect_clean(&d, (1u << d.count) - 1);
		/* any that may be lost, an old one or a new one */
		const uint32_t lost = levels[l].parity ? levels[l].parity : levels[l].copies ? levels[l].copies - 1 : 0;
		for (uint32_t first = 0; first < d.count && lost > 0; first++) {
			uint32_t which = (1u << d.count) - 1;
			for (uint32_t k = 0; k < lost; k++)
				which &= ~(1u << (first + k) % d.count);
			struct g4_dev *dev;
			assert_int_equal(disks_try_open(&d, which, false, G4_DEV_READ_ONLY, &dev), 0);
			disks_begin_fs(&d, dev, G4_FS_READ_ONLY);
			disks_expect_files(&d, FILES, 1);
			disks_expect_filled(&d, ino, bytes);
			disks_unmount_fs(&d, dev, true);
		}
		release(&d, &levels[l]);
	}
}

static void one_is_added_while_users_write(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct disks d;
		uint64_t ino;
		format(&d, &levels[l]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		const uint64_t blocks = blocks_of(&d);
		for (uint32_t added = 1; added <= levels[l].needed; added++) {
			fill(&d, 1 + added);
			begin(&d, G4_DISK_ADD, d.count);
			d.count++;
		}
		assert_true(blocks_of(&d) > blocks);
		disks_expect_files(&d, FILES, 1 + levels[l].needed);
		const uint64_t bytes = disks_fill(&d, &ino);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		disks_expect_clean(&d, (1u << d.count) - 1);
		disks_mount(&d, (1u << d.count) - 1);
		disks_expect_files(&d, FILES, 1 + levels[l].needed);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		release(&d, &levels[l]);
	}
}

/* A crash between both leaves that. */
static void a_set_that_is_longer_is_used_and_grown_over_later(void **state)
{
	(void)state;
	for (uint32_t mounted = 0; mounted < 2; mounted++) {
		struct disks d;
		struct g4_dev *set;
		uint64_t limit, bytes, ino;
		format(&d, &levels[1]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		const uint64_t before = blocks_of(&d);
		disks_unmount(&d);
		assert_int_equal(disks_try_open(&d, (1u << d.count) - 1, false, 0, &set), 0);
		assert_int_equal(g4_set_add_to(set, NULL, d.names[d.count], d.message, sizeof(d.message)), 0);
		g4_dev_close(set);
		d.count++;
		disks_expect_clean(&d, (1u << d.count) - 1);
		disks_mount(&d, (1u << d.count) - 1);
		assert_int_equal(blocks_of(&d), before);
		fill(&d, 2);
		if (mounted) {
			assert_int_equal(g4_engine_resize(d.rig.engine, 12345, &limit), -G4_E_NOTSUP);
			assert_int_equal(g4_engine_resize(d.rig.engine, 0, &limit), 0);
		}
		disks_unmount(&d);
		if (!mounted) {
			assert_int_equal(disks_try_open(&d, (1u << d.count) - 1, false, 0, &set), 0);
			assert_int_equal(g4_resize_device(set, 8 * G4_MIB, &bytes, d.message, sizeof(d.message)),
					 -G4_E_NOTSUP);
			assert_int_equal(g4_resize_device(set, 0, &bytes, d.message, sizeof(d.message)), 0);
			assert_int_equal(bytes, g4_dev_props(set)->size_bytes);
			g4_dev_close(set);
		}
		disks_mount(&d, (1u << d.count) - 1);
		assert_true(blocks_of(&d) > before + before / 4);
		disks_expect_files(&d, FILES, 2);
		bytes = disks_fill(&d, &ino);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		disks_expect_clean(&d, (1u << d.count) - 1);
		release(&d, &levels[1]);
	}
}

static void keep(struct disks *d, uint32_t count, uint8_t **before)
{
	for (uint32_t n = 0; n < count; n++) {
		before[n] = (uint8_t *)malloc(d->bytes[n]);
		rig_copy(before[n], d->memory[n], d->bytes[n]);
	}
}

/* The crashed disks are the old set, or the new one; then the disk can be added, or is there. */
static bool judge_crash(struct disks *crashed, uint32_t old, uint32_t at, uint32_t lost)
{
	const uint32_t gone =
		lost && at % 3 == 0 ? 1u << at / 3 % (old + 1) : 0; /* with a disk, an old one or the new one */

	crashed->count = old + 1;
	int rc = disks_try_mount(crashed, ((2u << old) - 1) & ~gone, gone != 0);
	const bool is_old = rc < 0;

	if (is_old) {
		crashed->count = old;
		rc = disks_try_mount(crashed, ((1u << old) - 1) & ~gone, gone != 0);
	}
	if (rc < 0)
		fail_msg("after %u requests: %s", at, crashed->message);
	disks_expect_files(crashed, FILES, 1);
	disks_unmount(crashed);
	disks_expect_clean(crashed, ((1u << crashed->count) - 1) & ~gone);
	if (is_old && !gone && at % 5 == 0) {
		add_next(crashed);
		disks_expect_clean(crashed, (1u << crashed->count) - 1);
	}
	return is_old;
}

static void a_power_cut_leaves_the_old_set_or_the_new_one(void **state)
{
	static struct disks_order order;
	uint32_t states = 0, old_sets = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct disks d, crashed;
		struct faulty f;
		uint8_t *before[MOST_DISKS];
		uint64_t random = 1 + l;
		const uint32_t old = levels[l].disks + levels[l].needed - 1;
		format(&d, &levels[l]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		disks_unmount(&d);
		while (d.count < old)
			add_next(&d);
		keep(&d, old + 1, before);
		disks_open_faulty(&d, &f);
		assert_int_equal(g4_dev_fault_open(disks_open_one(d.names[old]), &f.fault[old]), 0);
		memset(&order, 0, sizeof(order));
		d.count = old + 1;
		disks_watch(&d, &f, &order);
		d.count = old;
		if (add_to(&d, f.set, f.fault[old]) < 0)
			fail_msg("%s", d.message);
		const uint64_t total = order.count;
		disks_make(&crashed, old + 1, d.bytes);
		for (uint32_t at = l % 2; at <= total; at += 2 * rig_every(2)) {
			crashed.count = old + 1;
			disks_crash(&crashed, before, &f, &order, at, &random);
			old_sets += judge_crash(&crashed, old, at, levels[l].parity + levels[l].copies);
			states++;
		}
		crashed.count = old + 1;
		disks_free(&crashed);
		g4_dev_close(f.set);
		for (uint32_t n = 0; n <= old; n++)
			free(before[n]);
		release(&d, &levels[l]);
	}
	print_message("%u states, %u with the old set\n", states, old_sets);
	assert_true(old_sets > 0 && old_sets < states);
}

/* ---- chunks of another level ---- */

struct assigned {
	struct g4_set_plan plan;
	uint32_t disks, level;
};
static const struct assigned assigned[] = {
	{{.raid = G4_RAID_1, .copies = 2, .leave_percent = 60}, 4, G4_LEVEL_PARITY},
	{{.raid = G4_RAID_1, .copies = 3, .leave_percent = 60}, 5, G4_LEVEL_PARITY + 1},
	{{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = ROWS_STRIPE, .leave_percent = 30}, 3, G4_LEVEL_COPIES},
	{{.raid = G4_RAID_NONE, .leave_percent = 50}, 3, G4_LEVEL_STRIPED},
	{{.raid = G4_RAID_0, .leave_percent = 50}, 3, G4_LEVEL_NONE}};
#define ASSIGNED (sizeof(assigned) / sizeof(assigned[0]))

static void format_assigned(struct disks *d, const struct assigned *a)
{
	uint64_t bytes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		bytes[n] = 2 * ADD_BYTES;
	disks_make(d, a->disks, bytes);
	disks_format_plan(d, &a->plan, G4_CHECKSUM_NONE);
}

static void assign(struct disks *d, struct g4_dev *set, uint32_t level)
{
	uint64_t bytes;

	if (g4_set_assign_to(set, level, 0, d->message, sizeof(d->message)) < 0 ||
	    g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

static void chunks_of_another_level_bear_the_same(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < ASSIGNED; k++) {
		struct disks d;
		struct g4_dev *set;
		struct g4_chunk chunk;
		uint64_t ino;
		format_assigned(&d, &assigned[k]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		disks_unmount(&d);
		assert_int_equal(disks_try_open(&d, (1u << d.count) - 1, false, 0, &set), 0);
		const uint64_t before = g4_dev_props(set)->size_bytes;
		const uint32_t lost = g4_dev_props(set)->copies - 1;
		for (uint32_t level = G4_LEVEL_OWN; level <= G4_LEVELS; level++)
			if (level == G4_LEVEL_OWN || level == G4_LEVELS || (level < G4_LEVEL_COPIES) != (lost == 0) ||
			    (level >= G4_LEVEL_PARITY && level - G4_LEVEL_PARITY + 1 != lost))
				assert_int_equal(g4_set_assign_to(set, level, 0, d.message, sizeof(d.message)),
						 -G4_E_INVAL);
		assign(&d, set, assigned[k].level);
		assert_true(g4_dev_props(set)->size_bytes >= before + 8 * G4_MIB);
		assert_int_equal(g4_set_assign_to(set, assigned[k].level, 0, d.message, sizeof(d.message)),
				 -G4_E_NOSPC);
		uint32_t n = 0;
		while (g4_set_chunk(set, n, &chunk))
			n++;
		assert_int_equal(chunk.level, assigned[k].level);
		assert_int_equal(g4_chunk_shape(&chunk), assigned[k].level);
		g4_dev_close(set);
		disks_expect_clean(&d, (1u << d.count) - 1);
		disks_mount(&d, (1u << d.count) - 1);
		disks_expect_files(&d, FILES, 1);
		const uint64_t bytes = disks_fill(&d, &ino);
		disks_unmount(&d);
		disks_expect_clean(&d, (1u << d.count) - 1);
		for (uint32_t first = 0; first < d.count; first++) {
			uint32_t which = (1u << d.count) - 1;
			for (uint32_t l = 0; l < lost; l++)
				which &= ~(1u << (first + l) % d.count);
			assert_int_equal(disks_try_open(&d, which, false, G4_DEV_READ_ONLY, &set), 0);
			disks_begin_fs(&d, set, G4_FS_READ_ONLY);
			disks_expect_files(&d, FILES, 1);
			disks_expect_filled(&d, ino, bytes);
			disks_unmount_fs(&d, set, true);
		}
		disks_free(&d);
	}
}

/* Where one of the disks has more room than the others, that is left: one disk is no stripes, and a chunk that says so is refused. */
static void what_one_disk_has_more_is_not_assigned_to_stripes(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE, .leave_percent = 50};
	uint64_t bytes[MOST_DISKS];
	struct g4_dev *set;
	struct disks d;

	(void)state;
	for (uint32_t n = 0; n < 3; n++)
		bytes[n] = (n + 2) * ADD_BYTES;
	disks_make(&d, 3, bytes);
	disks_format_plan(&d, &plan, G4_CHECKSUM_NONE);
	disks_mount(&d, 7);
	fill(&d, 1);
	disks_unmount(&d);
	assert_int_equal(disks_try_open(&d, 7, false, 0, &set), 0);
	assign(&d, set, G4_LEVEL_STRIPED);
	g4_dev_close(set);
	disks_expect_clean(&d, 7);
	disks_mount(&d, 7);
	disks_expect_files(&d, FILES, 1);
	disks_unmount(&d);
	disks_free(&d);
}

static void a_power_cut_leaves_the_chunks_that_were_or_the_new_ones(void **state)
{
	static struct disks_order order;

	(void)state;
	for (uint32_t k = 0; k < ASSIGNED; k++) {
		struct disks d, crashed;
		struct faulty f;
		uint8_t *before[MOST_DISKS];
		uint64_t random = 1 + k;
		format_assigned(&d, &assigned[k]);
		disks_mount(&d, (1u << d.count) - 1);
		fill(&d, 1);
		disks_unmount(&d);
		keep(&d, d.count, before);
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		const uint32_t lost = g4_dev_props(f.set)->copies - 1;
		assign(&d, f.set, assigned[k].level);
		disks_make(&crashed, d.count, d.bytes);
		for (uint32_t at = k % 2; at <= order.count; at += 2 * rig_every(2)) {
			uint32_t which = (1u << d.count) - 1;
			disks_crash(&crashed, before, &f, &order, at, &random);
			for (uint32_t l = 0; l < lost; l++) /* with what may be lost */
				which &= ~(1u << (at + l) % d.count);
			if (disks_try_mount(&crashed, which, lost > 0) < 0)
				fail_msg("after %u requests: %s", at, crashed.message);
			disks_expect_files(&crashed, FILES, 1);
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, which);
		}
		disks_free(&crashed);
		g4_dev_close(f.set);
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
}

/* Refused with these words, and all disks are what they were. */
static void expect_refused(struct disks *d, uint32_t which, const char *name, const char *words)
{
	uint8_t *before[MOST_DISKS];
	struct g4_dev *set, *disk = disks_open_one(name);

	keep(d, d->count, before);
	assert_int_equal(disks_try_open(d, which, true, 0, &set), 0);
	assert_true(g4_set_add_to(set, disk, name, d->message, sizeof(d->message)) < 0);
	if (!strstr(d->message, words))
		fail_msg("%s", d->message);
	g4_dev_close(set);
	for (uint32_t n = 0; n < d->count; n++) {
		assert_memory_equal(before[n], d->memory[n], d->bytes[n]);
		free(before[n]);
	}
}

static void what_can_not_be_added_is_refused(void **state)
{
	const uint64_t sizes[MOST_DISKS] = {ADD_BYTES, ADD_BYTES, 4 * G4_MIB};
	struct disks d;
	struct g4_dev *one;

	(void)state;
	disks_make(&d, 3, sizes);
	d.count = 2;
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
	expect_refused(&d, 3, d.names[0], "is disk 0 of this file system already");
	expect_refused(&d, 3, d.names[2], "too small");
	expect_refused(&d, 1, d.names[2], "disk 1 is missing");
	/* of a device that is no set */
	one = disks_open_one(d.names[2]);
	assert_int_equal(g4_set_add_to(one, disks_open_one(d.names[1]), d.names[1], d.message, sizeof(d.message)),
			 -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "made for one disk"));
	g4_dev_close(one);
	d.count = 3;
	disks_free(&d);
}

static void a_disk_that_was_not_added_to_the_end_is_told(void **state)
{
	struct disks d;
	struct g4_dev *set;
	struct g4_superblock *first;

	(void)state;
	format(&d, &levels[1]);
	uint8_t *before[MOST_DISKS];
	keep(&d, d.count, before);
	add_next(&d);
	/* the others as they were; its own word as it is written first */
	for (uint32_t n = 0; n + 1 < d.count; n++) {
		rig_copy(d.memory[n], before[n], d.bytes[n]);
		free(before[n]);
	}
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = copy ? d.bytes[2] - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
		first = (struct g4_superblock *)(void *)(d.memory[2] + at);
		first->disk_since[2] = first->set_generation - 1;
		first->set_generation -= 1;
		g4_block_seal(first, G4_BLOCK_SUPERBLOCK, g4_address_from(at), first->header.generation,
			      g4_superblock_tag(first));
	}
	assert_true(disks_try_open(&d, 7, false, 0, &set) < 0);
	assert_non_null(strstr(d.message, "was being added"));
	d.count = 2;
	disks_expect_clean(&d, 3);
	add_next(&d);
	disks_expect_clean(&d, 7);
	release(&d, &levels[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_level_grows_when_enough_disks_are_there),
		cmocka_unit_test(one_is_added_while_users_write),
		cmocka_unit_test(a_set_that_is_longer_is_used_and_grown_over_later),
		cmocka_unit_test(a_power_cut_leaves_the_old_set_or_the_new_one),
		cmocka_unit_test(chunks_of_another_level_bear_the_same),
		cmocka_unit_test(what_one_disk_has_more_is_not_assigned_to_stripes),
		cmocka_unit_test(a_power_cut_leaves_the_chunks_that_were_or_the_new_ones),
		cmocka_unit_test(what_can_not_be_added_is_refused),
		cmocka_unit_test(a_disk_that_was_not_added_to_the_end_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
