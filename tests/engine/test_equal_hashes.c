/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of one hash: more than a leaf holds lie in several, which are divided by collision number (FORMAT.md, "Directories"). First the
 * tree alone, with what each change may cost, then commands, then what the checker says of such a tree, and of one that is damaged.
 */
#include "equal_names.h"

#include "damage.h"
#include "long_names.h"

#include "dir/tree.h"
#include "fsck/fsck.h"

#define A_LEAF (G4_LEAF_FILL / 2) /* names of two units in one */
#define A_LEAF_OF_LONG (G4_LEAF_FILL / 17)

#ifdef G4_DIR_TINY /* as many as three levels have room for */
#define SHORT_NAMES 500u
#define LONG_NAMES 60u
#define MODEL_NAMES 240u
#else
#define SHORT_NAMES (rig_slow() ? 260u : 3000u)
#define LONG_NAMES (rig_slow() ? 45u : 1200u)
#define MODEL_NAMES 700u
#endif

static const char hashes[] = "amz";

/* A name of one of the hashes; so many bytes, or 0: as it comes. */
static uint32_t put_name(char name[G4_NAME_MAX + 1], char hash, uint32_t number, uint32_t bytes)
{
	uint32_t length = (uint32_t)snprintf(name, G4_NAME_MAX + 1, "=%c%u", hash, number);

	for (; length < bytes; length++)
		name[length] = '.';
	name[length] = 0;
	return length;
}

/* ------------------------------------------------------------------ the tree */

static int insert(const char *name, uint32_t bytes)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(g4_dir_lookup(names.wg, &names.dir, name, bytes, &slot), -G4_E_NOENT);
	const uint32_t credits = g4_dir_insert_credits(&slot, bytes);
	assert_int_equal(g4_begin(names.wg, names.fs, credits, &txn), 0);
	const uint32_t *blocks = &names.fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	const int rc = g4_dir_insert(names.wg, &names.dir, &txn, &slot, name, bytes, names.inode, 8);
	assert_in_range(*blocks - before, 0, credits);
	g4_txn_end(&txn);
	return rc;
}

static int insert_equal(char hash, uint32_t number, uint32_t length)
{
	char name[G4_NAME_MAX + 1];

	return insert(name, put_name(name, hash, number, length));
}

static int look_up(char hash, uint32_t number, uint32_t length, struct g4_dir_slot *slot)
{
	char name[G4_NAME_MAX + 1];
	const uint32_t bytes = put_name(name, hash, number, length);

	slot->line = G4_NO_LINE;
	return g4_dir_lookup(names.wg, &names.dir, name, bytes, slot);
}

static void take(char hash, uint32_t number, uint32_t length)
{
	char name[G4_NAME_MAX + 1];
	const uint32_t bytes = put_name(name, hash, number, length);
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(look_up(hash, number, length, &slot), 0);
	const uint32_t credits = 1 + g4_dir_shrink_credits(&names.dir, &slot, bytes);
	assert_int_equal(g4_begin(names.wg, names.fs, credits, &txn), 0);
	const uint32_t *blocks = &names.fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
	if (credits > 1)
		assert_int_equal(g4_dir_shrink(names.wg, &names.dir, &txn, g4_dir_position(slot.hash, slot.collision)),
				 0);
	assert_in_range(*blocks - before, 0, credits);
	g4_txn_end(&txn);
}

/* Positions of a listing rise, so that none comes twice, and none that stays is passed over; how many there are. */
static uint32_t count_positions(void)
{
	uint64_t positions[G4_DIR_LEAF_ENTRIES], last = 0;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], count = 0;

	for (uint64_t from = 0; from != UINT64_MAX;) {
		const uint64_t begin = from;
		const uint32_t n = names_read_leaf(&from, numbers, positions);
		assert_true(from > begin);
		for (uint32_t k = 0; k < n; k++, count++) {
			assert_true(count == 0 || positions[k] > last);
			assert_true(positions[k] >= begin && positions[k] < from);
			last = positions[k];
		}
	}
	return count;
}

/* Makes so many names of each hash, and takes them away, in some order. Leaves are full, but for the last ones of a hash. */
static void fill_and_empty(uint32_t count, uint32_t length, uint32_t in_a_leaf)
{
	const uint64_t leaves = 3 * (count / in_a_leaf + 2),
		       most_pages = leaves + leaves / (G4_DIR_INDEX_FILL / 2 - 1) + 4;
	struct g4_dir_slot slot = {0};
	uint32_t *order = malloc(count * sizeof(*order));

	assert_non_null(order);
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t h = 0; h < 3; h++)
			assert_int_equal(insert_equal(hashes[h], k, length), 0);
	assert_int_equal(count_positions(), 3 * count);
	assert_in_range(names.dir.pages, 1, most_pages);
	for (uint32_t h = 0; h < 3; h++)
		for (uint32_t k = 0; k <= count; k++)
			assert_int_equal(look_up(hashes[h], k, length, &slot), k < count ? 0 : -G4_E_NOENT);
	/* where some go there is room for as many, with numbers that none has */
	names_shuffle(order, count, 7);
	for (uint32_t k = 0; k < count / 2; k++)
		take('m', order[k], length);
	const uint64_t pages = names.dir.pages;
	for (uint32_t k = 0; k < count / 2; k++)
		assert_int_equal(insert_equal('m', count + k, length), 0);
	assert_int_equal(count_positions(), 3 * count);
	assert_in_range(names.dir.pages, 1, most_pages);
	assert_true(names.dir.pages >= pages);
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t h = 0; h < 3; h++)
			take(hashes[h], hashes[h] == 'm' && k < count / 2 ? count + k : order[k], length);
	assert_int_equal(count_positions(), 0);
	assert_int_equal(names.dir.pages, 1);
	free(order);
}

static void thousands_of_short_names(void **state)
{
	(void)state;
	fill_and_empty(SHORT_NAMES, 0, A_LEAF);
}

static void hundreds_of_long_names(void **state)
{
	(void)state;
	fill_and_empty(LONG_NAMES, G4_NAME_MAX, A_LEAF_OF_LONG);
}

/* A leaf that is all of one hash takes part in what has another one, too, below it and above. */
static void names_of_other_hashes_in_between(void **state)
{
	struct g4_dir_slot slot = {0};
	char name[16];

	(void)state;
	for (uint32_t k = 0; k < 3 * A_LEAF; k++)
		assert_int_equal(insert_equal('m', k, 0), 0);
	for (uint32_t k = 0; k < 400; k++) {
		const uint32_t bytes = (uint32_t)snprintf(name, sizeof(name), "%u", k);
		assert_int_equal(insert(name, bytes), 0);
	}
	assert_int_equal(insert_equal('l', 0, G4_NAME_MAX), 0);
	assert_int_equal(insert_equal('n', 0, G4_NAME_MAX), 0);
	assert_int_equal(count_positions(), 3 * A_LEAF + 402);
	for (uint32_t k = 0; k < 400; k++) {
		const uint32_t bytes = (uint32_t)snprintf(name, sizeof(name), "%u", k);
		assert_int_equal(g4_dir_lookup(names.wg, &names.dir, name, bytes, &slot), 0);
	}
	for (uint32_t k = 0; k < 3 * A_LEAF; k++)
		take('m', k, 0);
	assert_int_equal(count_positions(), 402);
}

/* A full leaf of one hash, below or above which a name of another one comes. */
static void another_hash_beside_a_full_leaf(void **state)
{
	struct g4_dir_slot slot = {0};

	(void)state;
	for (uint32_t k = 0; k < A_LEAF; k++)
		assert_int_equal(insert_equal('m', k, 0), 0);
	assert_int_equal(names.dir.pages, 1);
	assert_int_equal(look_up('l', 0, 0, &slot), -G4_E_NOENT);
	assert_false(slot.equal);
	assert_int_equal(look_up('m', A_LEAF, 0, &slot), -G4_E_NOENT);
	assert_true(slot.equal);
	assert_true(slot.alone);
	assert_int_equal(insert_equal('l', 0, 0), 0);
	assert_int_equal(insert_equal('n', 0, 0), 0);
	assert_int_equal(names.dir.pages, 4); /* three leaves, none of which divides a hash */
	assert_int_equal(count_positions(), A_LEAF + 2);
}

/* An image has the highest number already. */
static void numbers_that_are_used_up(void **state)
{
	struct g4_dir_slot slot = {0};
	struct g4_leaf leaf;
	uint32_t line;

	(void)state;
	for (uint32_t k = 0; k < A_LEAF; k++)
		assert_int_equal(insert_equal('m', k, 0), 0);
	assert_int_equal(look_up('m', A_LEAF - 1, 0, &slot), 0);
	assert_int_equal(g4_meta_get(names.wg, &names.fs->meta, slot.page, G4_BLOCK_DIR_LEAF, &line), 0);
	g4_leaf_open_alone(&leaf, &names.fs->cache, line);
	g4_leaf_entry(&leaf, slot.unit)->collision = UINT16_MAX;
	g4_cache_put(&names.fs->cache, line);
	assert_int_equal(insert_equal('m', A_LEAF, 0), -G4_E_NOSPC);
	assert_int_equal(count_positions(), A_LEAF);
	take('m', 5, 0);
	assert_int_equal(insert_equal('m', A_LEAF, 0), 0);
	assert_int_equal(look_up('m', A_LEAF, 0, &slot), 0);
	assert_int_equal(slot.collision, 5);
}

/* ------------------------------------------------------------------ commands */

static struct rig rig;
static uint64_t dir;

static bool has_feature(void)
{
	return (rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_EQUAL_HASHES) != 0;
}

static void begin(void)
{
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
}

static void mount_again(const char *when)
{
	const uint64_t free_pages = rig_free_pages(&rig);

	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, free_pages, when);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static const char *name_of(uint32_t number)
{
	static char name[2][G4_NAME_MAX + 1];
	static uint32_t turn;

	turn = !turn;
	put_name(name[turn], 'm', number, number % 4 == 0 ? G4_NAME_MAX : number % 4 == 1 ? 100 : 0);
	return name[turn];
}

static void the_feature_comes_with_the_first_division(void **state)
{
	char name[G4_NAME_MAX + 1];
	uint64_t ino;

	(void)state;
	begin();
	for (uint32_t k = 0; k < A_LEAF; k++) {
		put_name(name, 'm', k, 0);
		assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0600, &ino), 0);
	}
	put_name(name, 'n', 0, 0);
	assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0600, &ino), 0);
	assert_false(has_feature());
	put_name(name, 'm', A_LEAF, 0);
	assert_int_equal(op_symlink(&rig, dir, name, "target", &ino), 0);
	assert_true(has_feature());
	mount_again("with names of one hash in two leaves");
	assert_true(has_feature());
	rig_end(&rig);
}

/* All names are listed, in pieces. */
static uint32_t list(uint64_t room)
{
	static uint8_t records[8192];
	uint64_t cookie = 0, bytes = 0, last = 0;
	uint32_t count = 0;

	do {
		assert_int_equal(op_readdir(&rig, dir, cookie, records, room, &bytes), 0);
		for (uint64_t at = 0; at < bytes;) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)(records + at);
			assert_true(entry->cookie > last);
			last = cookie = entry->cookie;
			count += *(const char *)(entry + 1) != '.';
			at += entry->record_bytes;
		}
	} while (bytes > 0);
	return count;
}

/* Names come, go and move, by what each command says and by what the listing has. */
static void commands_and_a_model(void **state)
{
	static uint64_t has[MODEL_NAMES];
	const uint64_t steps = rig_setting("G4_EQUAL_STEPS", rig_slow() ? 900 : 20000);
	uint64_t random = rig_setting("G4_EQUAL_SEED", 1);
	uint32_t count = 0;

	(void)state;
	memset(has, 0, sizeof(has));
	begin();
	for (uint64_t s = 0; s < steps; s++) {
		const uint64_t dice = rig_random(&random);
		const uint32_t k = (uint32_t)(dice >> 8) % MODEL_NAMES, to = (uint32_t)(dice >> 24) % MODEL_NAMES;
		const bool grows = s * 6 / steps % 2 == 0;
		struct g4_attr attr;
		uint64_t ino;

		switch (dice % 8) {
		case 0:
		case 1:
		case 2:
			if (grows) {
				const int rc = op_mknod(&rig, dir, name_of(k), G4_S_IFREG | 0600, &ino);
				assert_int_equal(rc, has[k] ? -G4_E_EXIST : 0);
				count += rc == 0;
				has[k] = rc == 0 ? ino : has[k];
			} else {
				assert_int_equal(op_unlink(&rig, dir, name_of(k)), has[k] ? 0 : -G4_E_NOENT);
				count -= has[k] != 0;
				has[k] = 0;
			}
			break;
		case 3:
			assert_int_equal(op_rename(&rig, dir, name_of(k), dir, name_of(to), 0),
					 has[k] ? 0 : -G4_E_NOENT);
			if (has[k] && k != to && has[k] != has[to]) {
				count -= has[to] != 0;
				has[to] = has[k];
				has[k] = 0;
			}
			break;
		case 4:
			if (!has[k])
				break;
			assert_int_equal(op_link(&rig, has[k], dir, name_of(to)), has[to] ? -G4_E_EXIST : 0);
			count += !has[to];
			has[to] = has[to] ? has[to] : has[k];
			break;
		case 5:
			assert_int_equal(op_rename(&rig, dir, name_of(k), dir, name_of(to), G4_RENAME_EXCHANGE),
					 has[k] && has[to] ? 0 : -G4_E_NOENT);
			if (has[k] && has[to]) {
				ino = has[k];
				has[k] = has[to];
				has[to] = ino;
			}
			break;
		default:
			assert_int_equal(op_lookup(&rig, dir, name_of(k), &attr), has[k] ? 0 : -G4_E_NOENT);
			if (has[k])
				assert_int_equal(attr.ino, has[k]);
			break;
		}
		if (s % 1000 == 999)
			assert_int_equal(list(s % 2000 == 999 ? 400 : 8192), count);
		if (s % (steps / 6) == steps / 6 - 1)
			mount_again("between two parts");
	}
	assert_true(has_feature());
	for (uint32_t k = 0; k < MODEL_NAMES; k++)
		assert_int_equal(op_unlink(&rig, dir, name_of(k)), has[k] ? 0 : -G4_E_NOENT);
	assert_int_equal(list(400), 0);
	rig_end(&rig);
}

/* A listing goes on where it was, whatever comes, goes and is divided or united meanwhile: what stays is listed once. */
static void a_listing_while_names_come_and_go(void **state)
{
	static uint8_t records[600];
	uint8_t seen[MODEL_NAMES] = {0};
	uint64_t cookie = 0, bytes = 0, ino;
	uint32_t next = MODEL_NAMES, gone = 0;

	(void)state;
	begin();
	for (uint32_t k = 0; k < MODEL_NAMES; k++)
		assert_int_equal(op_mknod(&rig, dir, name_of(k), G4_S_IFREG | 0600, &ino), 0);
	do { /* every third name stays */
		assert_int_equal(op_readdir(&rig, dir, cookie, records, sizeof(records), &bytes), 0);
		for (uint64_t at = 0; at < bytes;) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)(records + at);
			char name[G4_NAME_MAX + 1] = {0};
			memcpy(name, entry + 1, entry->name_bytes);
			const unsigned long number = name[0] == '.' ? MODEL_NAMES : strtoul(name + 2, NULL, 10);
			if (number < MODEL_NAMES)
				seen[number]++;
			cookie = entry->cookie;
			at += entry->record_bytes;
		}
		for (uint32_t k = 0; k < 12; k++, gone++)
			if (gone < MODEL_NAMES && gone % 3)
				assert_int_equal(op_unlink(&rig, dir, name_of(gone)), 0);
		for (uint32_t k = 0; k < 3 && next < 2 * MODEL_NAMES; k++)
			assert_int_equal(op_mknod(&rig, dir, name_of(next++), G4_S_IFREG | 0600, &ino), 0);
	} while (bytes > 0);
	for (uint32_t k = 0; k < MODEL_NAMES; k++)
		assert_true(k % 3 ? seen[k] <= 1 : seen[k] == 1);
	mount_again("after a listing");
	uint64_t removed;
	assert_int_equal(op_clear(&rig, dir, 10000, 0, &removed), 0);
	assert_int_equal(list(400), 0);
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d"), 0);
	rig_end(&rig);
}

/* ------------------------------------------------------------------ the checker */

#ifndef G4_DIR_TINY /* else corrupt.equal damages it */
#define CHECKED_NAMES 1000u

static void begin_checked(void)
{
	uint64_t ino;

	if (rig_one_thread_is_watched() || rig_lanes_are_watched()) /* one thread is the checker's, in either */
		skip();
	begin();
	for (uint32_t k = 0; k < CHECKED_NAMES; k++)
		assert_int_equal(op_mknod(&rig, dir, name_of(k), G4_S_IFREG | 0600, &ino), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, RIG_ANY_FREE, "before it is damaged");
}

static void *page_at(uint64_t address)
{
	return rig.image + address;
}

/* An index page right above leaves. */
static struct g4_dir_index *index_of_leaves(uint64_t *at)
{
	*at = g4_ptr_offset(damage_inode(&rig, dir)->map[0]);
	struct g4_dir_index *index = page_at(*at);

	assert_int_equal(index->header.type, G4_BLOCK_DIR_INDEX);
	for (; index->level > 1; index = page_at(*at))
		*at = index->entries[0].page;
	assert_true(index->count > 20);
	return index;
}

static void expect_repaired(uint64_t lost)
{
	struct rig_repair how = {0};
	struct g4_attr attr;
	uint32_t found = 0;

	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_true(how.found > 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a repair");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t k = 0; k < CHECKED_NAMES; k++)
		found += op_lookup(&rig, dir, name_of(k), &attr) == 0;
	assert_true(found + lost >= CHECKED_NAMES);
	assert_in_range(list(8192), found, found + lost);
	for (uint32_t k = 0; k < CHECKED_NAMES; k++)
		(void)op_unlink(&rig, dir, name_of(k));
	assert_in_range(list(8192), 0, lost);
	rig_end(&rig);
}

static void expect_found(const char *words)
{
	char *text = NULL;
	const struct rig_verdict verdict = rig_fsck(&rig, &text);

	assert_true(verdict.problems > 0);
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in: %s", words, text);
	free(text);
}

static void a_superblock_without_the_feature(void **state)
{
	struct g4_layout layout;

	(void)state;
	begin_checked();
	g4_layout_of(page_at(G4_SUPERBLOCK_ADDRESS), &layout);
	const uint64_t both[] = {G4_SUPERBLOCK_ADDRESS, layout.backup_address};
	for (uint32_t k = 0; k < 2; k++) {
		struct g4_superblock *sb = page_at(both[k]);
		assert_true(sb->features_incompat & G4_FEATURE_INCOMPAT_EQUAL_HASHES);
		sb->features_incompat &= ~G4_FEATURE_INCOMPAT_EQUAL_HASHES;
		damage_seal(&rig, both[k]);
	}
	expect_found("does not say that any do");
	expect_repaired(0);
}

static void a_leaf_that_begins_too_late(void **state)
{
	uint64_t at;

	(void)state;
	begin_checked();
	struct g4_dir_index *index = index_of_leaves(&at);
	assert_int_equal(index->entries[8].hash, index->entries[9].hash);
	index->entries[9].collision++;
	damage_seal(&rig, at);
	expect_found("does not belong into its leaf");
	expect_repaired(0);
}

static void leaves_in_the_wrong_order(void **state)
{
	uint64_t at;

	(void)state;
	begin_checked();
	struct g4_dir_index *index = index_of_leaves(&at);
	const struct g4_dir_index_entry entry = index->entries[8];
	index->entries[8] = index->entries[9];
	index->entries[9] = entry;
	damage_seal(&rig, at);
	expect_found("damaged or contradicts its parent");
	expect_repaired(CHECKED_NAMES); /* by name or in lost+found */
}

static void a_collision_number_that_is_there_twice(void **state)
{
	uint64_t at;

	(void)state;
	begin_checked();
	struct g4_dir_index *index = index_of_leaves(&at);
	struct g4_dir_leaf *leaf = page_at(index->entries[9].page);
	struct g4_dir_entry first;
	memcpy(&first, leaf->units, sizeof(first));
	uint8_t *second = leaf->units + (uint64_t)g4_leaf_units_for(first.name_bytes) * G4_DIR_UNIT_BYTES;
	((struct g4_dir_entry *)(void *)second)->collision = first.collision;
	damage_seal(&rig, index->entries[9].page);
	expect_found("has the same hash");
	expect_repaired(0);
}

/* Two leaves have one name, which is told though a thousand lie between. */
static void a_name_that_is_there_twice(void **state)
{
	uint64_t at;

	(void)state;
	begin_checked();
	struct g4_dir_index *index = index_of_leaves(&at);
	uint8_t *a = ((struct g4_dir_leaf *)page_at(index->entries[2].page))->units;
	struct g4_dir_leaf *last = page_at(index->entries[index->count - 2].page);
	const struct g4_dir_entry *first = (const struct g4_dir_entry *)(const void *)a;
	bool done = false;
	for (uint32_t unit = 0; unit < G4_DIR_UNITS - G4_DIR_HEADER_UNITS && !done;) {
		struct g4_dir_entry *entry = (struct g4_dir_entry *)(void *)(last->units + unit * G4_DIR_UNIT_BYTES);
		done = entry->name_bytes == first->name_bytes;
		if (done)
			memcpy(entry + 1, first + 1, first->name_bytes);
		unit += g4_leaf_units_for(entry->name_bytes);
	}
	assert_true(done);
	damage_seal(&rig, index->entries[index->count - 2].page);
	expect_found("has this name twice");
	expect_repaired(1);
}

/* The directory is built anew of what can be read, and divided again. */
static void an_index_page_that_is_lost(void **state)
{
	uint64_t at;

	(void)state;
	begin_checked();
	(void)index_of_leaves(&at);
	memset(page_at(at), 0, G4_PAGE_BYTES);
	expect_found("damaged or contradicts its parent");
	expect_repaired(CHECKED_NAMES); /* by name or in lost+found */
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(thousands_of_short_names),
		names_test(hundreds_of_long_names),
		names_test(names_of_other_hashes_in_between),
		names_test(another_hash_beside_a_full_leaf),
		names_test(numbers_that_are_used_up),
		cmocka_unit_test(the_feature_comes_with_the_first_division),
		cmocka_unit_test(commands_and_a_model),
		cmocka_unit_test(a_listing_while_names_come_and_go),
#ifndef G4_DIR_TINY
		cmocka_unit_test(a_superblock_without_the_feature),
		cmocka_unit_test(a_leaf_that_begins_too_late),
		cmocka_unit_test(leaves_in_the_wrong_order),
		cmocka_unit_test(a_collision_number_that_is_there_twice),
		cmocka_unit_test(a_name_that_is_there_twice),
		cmocka_unit_test(an_index_page_that_is_lost),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
