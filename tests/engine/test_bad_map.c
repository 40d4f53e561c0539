/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device does not give the allocation map of a group: what is done to files, names and attributes that lie there is refused, or done but for what would
 * be freed, and nobody else's writes end. When it can be read again all of the space comes back.
 */
#include "rig.h"

#include "alloc/count.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (128 * G4_MIB)
#define GROUP 1u /* of which the map is bad */
#define NAMES 300u
#define BYTES (40 * (uint64_t)G4_PAGE_BYTES)
#define FAR (600 * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t *data, *found;
static uint64_t other, dir, file, empty_pages;
/*
 * Of what the file is made: single pages; such of which the first of each row lie elsewhere; a large one; and single ones and a large one that another file
 * has as well. These come last: an image in which something was ever shared reads maps earlier.
 */
static enum shape { PAGES, MIXED, LARGE_PAGES, CLONED, LARGE_CLONED, SHAPES } shape;

static bool is_large(void)
{
	return shape == LARGE_PAGES || shape == LARGE_CLONED;
}

static void mount_fs(void)
{
	const struct g4_fault none = {0};

	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
}

static void unmount_clean(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static int begin(uint32_t algorithm)
{
	rig_open_as(&rig, algorithm, 0, IMAGE_BYTES, 8 * G4_MIB);
	rig.wg = g4_wg_create(0);
	data = rig_memory(2 * G4_MIB, 3);
	found = rig_memory(2 * G4_MIB, 0);
	mount_fs();
	other = rig_make_file(&rig, "other", 0, data, BYTES);
	assert_int_equal(op_sync(&rig), 0);
	unmount_clean(); /* slabs that are being filled are free space then */
	mount_fs();
	empty_pages = rig_free_pages(&rig);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_NONE);
}

static int setup_sums(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3);
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	free(found);
	return 0;
}

/* What comes from here on of these classes of pages lies in that group. */
static void go_on_there(uint32_t classes)
{
	for (uint32_t n = 0; n < G4_ALLOC_SHARDS; n++)
		for (uint32_t class = 0; class < 3; class ++)
			rig.fs->alloc.shards[n].region[class] = (classes >> class & 1) ? GROUP * G4_GROUP_REGIONS : 0;
}

static const char *name_of(uint32_t k)
{
	static char name[128];

	snprintf(name, sizeof(name), "%0100u", k);
	return name;
}

static int share(uint64_t from, uint64_t to, uint64_t bytes)
{
	uint64_t in, out, done;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	const int rc = op_copy_as(&rig, in, 0, out, 0, bytes, G4_COPY_SHARE, &done);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return rc;
}

#define EMPTY_FILES 64u

static uint64_t empty[EMPTY_FILES];

/* Two of them at a time. */
static const char *empty_name(uint32_t k)
{
	static char names[2][16];
	static uint32_t turn;
	char *const name = names[turn++ % 2];

	snprintf(name, sizeof(names[0]), "empty%u", k);
	return name;
}

/* Inodes lie elsewhere: whoever asks for one there is told that before all else. */
static void make(uint32_t classes)
{
	uint64_t linked;

	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "linked", G4_S_IFREG | 0600, &linked), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0600, &file), 0);
	if (shape == MIXED) { /* what is met first can be freed */
		assert_int_equal(op_write(&rig, file, 0, 0, data, BYTES / 2, NULL), 0);
		assert_int_equal(op_write(&rig, file, 0, FAR, data, BYTES / 2, NULL), 0);
		assert_int_equal(op_setxattr(&rig, file, "user.first", data, 9000, 0), 0);
		assert_int_equal(op_sync(&rig), 0);
		rig_make_file(&rig, "clone", 0, data, BYTES); /* what comes next does not lie behind them */
		assert_int_equal(op_sync(&rig), 0);
		unmount_clean();
		mount_fs();
	}
	const uint64_t from = shape == MIXED ? BYTES / 2 : 0;
	go_on_there(classes);
	for (uint32_t k = 0; k < EMPTY_FILES; k++) /* in slabs that lie there */
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, empty_name(k), G4_S_IFREG | 0600, &empty[k]), 0);
	assert_int_equal(op_write(&rig, empty[EMPTY_FILES / 2], 0, 0, data, 2 * G4_PAGE_BYTES, NULL), 0);
	for (uint32_t k = 0; k < NAMES; k++)
		assert_int_equal(op_link(&rig, linked, dir, name_of(k)), 0);
	assert_int_equal(op_write(&rig, file, 0, from, data, (is_large() ? 2 * G4_MIB : BYTES) - from, NULL), 0);
	assert_int_equal(op_write(&rig, file, 0, FAR + from, data, BYTES - from, NULL), 0);
	assert_int_equal(op_setxattr(&rig, file, "user.large", data, 20000, 0), 0);
	assert_int_equal(op_setxattr(&rig, file, "user.small", data, 20, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	if (shape >= CLONED) {
		uint64_t clone;
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "clone", G4_S_IFREG | 0600, &clone), 0);
		assert_int_equal(share(file, clone, FAR + BYTES), 0);
		assert_int_equal(op_sync(&rig), 0);
	}
	if (classes & (is_large() ? 4 : 1))
		assert_int_equal(rig_place(&rig, file, from / G4_PAGE_BYTES) / G4_GROUP_BYTES, GROUP);
}

static int remove_names(uint32_t from)
{
	int rc = 0;

	for (uint32_t k = from; k < NAMES && rc == 0; k++)
		rc = op_unlink(&rig, dir, name_of(k));
	return rc;
}

static int over(void)
{
	uint64_t ino;
	const int rc = op_mknod(&rig, G4_NODE_ROOT, "new", G4_S_IFREG | 0600, &ino);

	return rc < 0 ? rc : op_rename(&rig, G4_NODE_ROOT, "new", G4_NODE_ROOT, "file", 0);
}

enum deed {
	SHARE_OVER, /* of what is shared already */
	OVERWRITE,
	PUNCH,
	CUT,
	CUT_ALL,
	UNLINK,
	OVER,
	NAMES_GO,
	ALL_GO,
	XATTR,
	XATTR_GOES,
	LARGE_GOES,
	COLLAPSE,
	INSERT,
	APPEND,
	LARGE,
	ZERO,
	CUT_INSIDE,
	PUNCH_INSIDE,
	PUNCH_ALL,
	ZERO_ALL,
	OVERWRITE_ALL,
	EMPTY_GOES,
	SMALL_GOES,
	EMPTIES_GO,
	EMPTY_OVER,
	MAKE,
	DEEDS
};

static const char *few_name(uint32_t k)
{
	static char name[16];

	snprintf(name, sizeof(name), "few%u", k);
	return name;
}

static int do_deed(enum deed deed)
{
	uint64_t removed;
	int rc;

	switch (deed) {
	case OVERWRITE:
		rc = op_write(&rig, file, 0, 4 * G4_PAGE_BYTES, data + 7, G4_PAGE_BYTES, NULL);
		return rc < 0 ? rc : op_fsync(&rig, file);
	case PUNCH:
		return op_fallocate(&rig, file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, 8 * G4_PAGE_BYTES);
	case CUT:
		return op_truncate(&rig, file, FAR + 7);
	case CUT_ALL:
		return op_truncate(&rig, file, 0);
	case UNLINK:
		return op_unlink(&rig, G4_NODE_ROOT, "file");
	case OVER:
		return over();
	case NAMES_GO:
		return remove_names(20);
	case ALL_GO:
		rc = op_clear(&rig, dir, 10 * NAMES, 0, &removed);
		return rc < 0 ? rc : op_rmdir(&rig, G4_NODE_ROOT, "dir");
	case XATTR:
		return op_setxattr(&rig, file, "user.large", data + 1, 18000, 0);
	case XATTR_GOES:
		rc = op_removexattr(&rig, file, "user.large");
		return rc < 0 ? rc : op_removexattr(&rig, file, "user.small");
	case LARGE_GOES:
		return op_setxattr(&rig, file, "user.large", data + 1, 10, 0);
	case COLLAPSE:
		return op_fallocate(&rig, file, G4_FALLOC_COLLAPSE_RANGE, G4_PAGE_BYTES, 3 * G4_PAGE_BYTES);
	case INSERT:
		return op_fallocate(&rig, file, G4_FALLOC_INSERT_RANGE, G4_PAGE_BYTES, 3 * G4_PAGE_BYTES);
	case APPEND:
		rc = op_write(&rig, file, 0, FAR + BYTES, data + 7, BYTES, NULL);
		return rc < 0 ? rc : op_fsync(&rig, file);
	case LARGE:
		rc = op_write(&rig, file, 0, 0, data, 2 * G4_MIB, NULL);
		return rc < 0 ? rc : op_fsync(&rig, file);
	case SHARE_OVER:
		return share(other, file, BYTES);
	case CUT_INSIDE:
		return op_truncate(&rig, file, 7 * G4_PAGE_BYTES + 100);
	case PUNCH_INSIDE:
		return op_fallocate(&rig, file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 9 * G4_PAGE_BYTES,
				    20 * G4_PAGE_BYTES);
	case PUNCH_ALL:
		return op_fallocate(&rig, file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, FAR + BYTES);
	case EMPTY_GOES:
		return op_unlink(&rig, G4_NODE_ROOT, empty_name(EMPTY_FILES / 2 + 1));
	case SMALL_GOES:
		return op_unlink(&rig, G4_NODE_ROOT, empty_name(EMPTY_FILES / 2));
	case EMPTIES_GO:
		rc = 0;
		for (uint32_t k = 0; k < EMPTY_FILES && rc == 0; k += 2) { /* a slab that is empty would stay */
			rc = op_unlink(&rig, G4_NODE_ROOT, empty_name(k));
			rc = rc == -G4_E_NOENT ? 0 : rc;
		}
		return rc;
	case EMPTY_OVER:
		return op_rename(&rig, G4_NODE_ROOT, empty_name(EMPTY_FILES / 2 - 1), G4_NODE_ROOT,
				 empty_name(EMPTY_FILES / 2 - 2), 0);
	case MAKE: /* where others have gone as well */
		rc = op_unlink(&rig, G4_NODE_ROOT, empty_name(EMPTY_FILES - 1));
		for (uint32_t k = 0; k < 40 && rc == 0; k++) {
			uint64_t made;
			rc = op_mknod(&rig, G4_NODE_ROOT, few_name(k), G4_S_IFREG | 0600, &made);
			rc = rc == -G4_E_EXIST ? 0 : rc;
		}
		return rc;
	case ZERO_ALL:
		return op_fallocate(&rig, file, G4_FALLOC_ZERO_RANGE, 0, FAR + BYTES);
	case OVERWRITE_ALL:
		rc = op_write(&rig, file, 0, 0, data + 7, BYTES, NULL);
		return rc < 0 ? rc : op_fsync(&rig, file);
	default:
		return op_fallocate(&rig, file, G4_FALLOC_ZERO_RANGE, 0, 8 * G4_PAGE_BYTES);
	}
}

/* From the mount on, or after it has read the map, which is not cached any more. */
static bool late;

/* After a power cut, with the sector bad as before. */
static void mount_again(void)
{
	const uint64_t bad = g4_address_stored(g4_layout_map_page(&rig.fs->meta.layout, GROUP));

	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	rig.fs = rig_mount_fs(&rig, rig.wg, &(struct g4_fault){.bad_at = bad, .bad_bytes = 1});
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(rig.fs->flags & G4_FS_READ_ONLY, 0); /* nor where an inode that is to go lies there */
}

/* The group of the device from which the map does not come: nothing of it is cached. */
static void mount_with_bad_map(void)
{
	const uint64_t bad = g4_address_stored(g4_layout_map_page(&rig.fs->meta.layout, GROUP));

	unmount_clean();
	mount_fs();
	if (late) {
		assert_true(g4_alloc_in_use(rig.wg, &rig.fs->alloc, g4_page_address(GROUP * G4_GROUP_PAGES)) >= 0);
		g4_cache_drop(&rig.fs->cache, 0, bad / G4_PAGE_BYTES);
	}
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = bad, .bad_bytes = 1});
	assert_int_equal(g4_alloc_look(rig.wg, &rig.fs->alloc, g4_page_address(GROUP * G4_GROUP_PAGES)), -G4_E_IO);
}

static void remove_all(void)
{
	uint64_t removed;
	int rc;

	for (uint32_t k = 0; k < 4; k++) {
		rc = op_unlink(&rig, G4_NODE_ROOT, k == 0 ? "file" : k == 1 ? "new" : k == 2 ? "clone" : "linked");
		assert_true(rc == 0 || rc == -G4_E_NOENT);
	}
	for (uint32_t k = 0; k < EMPTY_FILES; k++) {
		rc = op_unlink(&rig, G4_NODE_ROOT, empty_name(k));
		assert_true(rc == 0 || rc == -G4_E_NOENT);
		rc = op_unlink(&rig, G4_NODE_ROOT, few_name(k));
		assert_true(rc == 0 || rc == -G4_E_NOENT);
	}
	rc = op_clear(&rig, dir, 10 * NAMES, 0, &removed);
	assert_true(rc == 0 || rc == -G4_E_STALE);
	rc = op_rmdir(&rig, G4_NODE_ROOT, "dir");
	assert_true(rc == 0 || rc == -G4_E_NOENT);
	assert_int_equal(op_sync(&rig), 0);
}

static void expect_others_go_on(uint32_t classes, enum deed deed)
{
	make(classes);
	mount_with_bad_map();
	go_on_there(7); /* and so would what comes now */
	const int rc = do_deed(deed);
	if (rc != 0 && (rc != -G4_E_IO || (late && deed == MAKE)))
		fail_msg("shape %u, deed %u, classes %u: %s", shape, deed, classes, g4_strerror(rc));
	if (rig.fs->journal.aborted)
		fail_msg("shape %u, deed %u, classes %u: the journal has stopped", shape, deed, classes);
	assert_int_equal(op_write(&rig, other, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, other), 0);
	const int synced = op_sync(&rig); /* what could not be written is tried again */
	assert_true(synced == 0 || (synced == -G4_E_IO && (deed == OVERWRITE || deed == OVERWRITE_ALL)));
	assert_int_equal(rig.fs->journal.aborted, 0);
	if (synced == 0 && deed % 2) /* nor a mount, which tries to free what was left */
		mount_again();
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	if (rc < 0)
		assert_int_equal(do_deed(deed), 0);
	assert_int_equal(op_sync(&rig), 0);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with what could not be freed");
	mount_fs();
	rig_expect_contents(&rig, other, 0, found, data, BYTES);
	remove_all();
	unmount_clean();
	rig_expect_clean(&rig, empty_pages, "at the end");
	mount_fs();
}

/* Data, pages of metadata, or both lie there. */
static void what_lies_there_ends_nobody_else(void **state)
{
	const uint32_t classes[] = {1, 6, 7};

	(void)state;
	late = false;
	for (shape = 0; shape < SHAPES; shape++)
		for (uint32_t k = 0; k < sizeof(classes) / sizeof(classes[0]); k++)
			for (enum deed deed = shape < CLONED ? OVERWRITE : SHARE_OVER; deed < EMPTY_GOES; deed++)
				if (shape == PAGES || deed < NAMES_GO || deed > LARGE_GOES)
					expect_others_go_on(classes[k], deed); /* names: it is nothing to them */
}

/* What knows of the group that it was read finds that out when it changes something. */
static void what_goes_bad_later_ends_nobody_else(void **state)
{
	(void)state;
	late = true;
	for (shape = 0; shape < SHAPES; shape++)
		for (enum deed deed = shape < CLONED ? OVERWRITE : SHARE_OVER; deed < DEEDS; deed++)
			if (shape == PAGES || (deed < EMPTY_GOES && (deed < NAMES_GO || deed > LARGE_GOES)))
				expect_others_go_on(7, deed);
	late = false;
}

#define FEW_FILES 14u /* whose blocks of sums fill two slabs */
#define FEW_PAGES 8u

static uint64_t few[FEW_FILES];

enum few_deed {
	GROW,
	FEW_CUT,
	FEW_DIG,
	FEW_GOES,
	FEW_OVER,
	FEW_INSERT,
	FEW_COLLAPSE,
	FEW_SHARE,
	FEW_ZERO,
	ALL_CUT,
	FEW_DEEDS
};

static int do_few(enum few_deed deed)
{
	const uint64_t ino = few[3];
	uint64_t made;
	int rc = 0;

	switch (deed) {
	case GROW:
		rc = op_write(&rig, ino, 0, 20 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		return rc < 0 ? rc : op_fsync(&rig, ino);
	case FEW_CUT:
		return op_truncate(&rig, ino, 0);
	case FEW_DIG:
		return op_fallocate(&rig, ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0,
				    FEW_PAGES * G4_PAGE_BYTES);
	case FEW_GOES:
		return op_unlink(&rig, G4_NODE_ROOT, few_name(3));
	case FEW_OVER:
		rc = op_mknod(&rig, G4_NODE_ROOT, "new", G4_S_IFREG | 0600, &made);
		return rc < 0 ? rc : op_rename(&rig, G4_NODE_ROOT, "new", G4_NODE_ROOT, few_name(3), 0);
	case FEW_INSERT:
		return op_fallocate(&rig, ino, G4_FALLOC_INSERT_RANGE, G4_PAGE_BYTES, 9 * G4_PAGE_BYTES);
	case FEW_COLLAPSE:
		return op_fallocate(&rig, ino, G4_FALLOC_COLLAPSE_RANGE, G4_PAGE_BYTES, 3 * G4_PAGE_BYTES);
	case FEW_SHARE:
		return share(other, ino, BYTES);
	case FEW_ZERO:
		return op_fallocate(&rig, ino, G4_FALLOC_ZERO_RANGE, 0, 20 * G4_PAGE_BYTES);
	default:
		for (uint32_t k = 0; k < FEW_FILES && rc == 0; k++)
			rc = op_truncate(&rig, few[k], 0);
		return rc;
	}
}

/* Of files that are too small for indirect pages, and have more sums than an inode has room for. */
static void blocks_of_sums_stay_where_they_can_not_go(void **state)
{
	(void)state;
	for (uint32_t later = 0; later < 2; later++)
		for (enum few_deed deed = GROW; deed < FEW_DEEDS; deed++) {
			for (uint32_t k = 0; k < FEW_FILES; k++)
				assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, few_name(k), G4_S_IFREG | 0600, &few[k]),
						 0);
			go_on_there(6);
			for (uint32_t k = 0; k < FEW_FILES; k++)
				assert_int_equal(op_write(&rig, few[k], 0, 0, data, FEW_PAGES * G4_PAGE_BYTES, NULL),
						 0);
			assert_int_equal(op_sync(&rig), 0);
			late = later;
			mount_with_bad_map();
			const int rc = do_few(deed);
			if (rc != 0 && rc != -G4_E_IO)
				fail_msg("deed %u: %s", deed, g4_strerror(rc));
			if (rig.fs->journal.aborted)
				fail_msg("deed %u, late %u: the journal has stopped", deed, later);
			assert_int_equal(op_write(&rig, other, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
			assert_int_equal(op_fsync(&rig, other), 0);
			if (deed == GROW || deed == FEW_CUT ||
			    deed == FEW_DIG) /* the block takes sums again, or is in nobody's way */
				assert_int_equal(
					op_write(&rig, few[3], 0, 0, data + 7, FEW_PAGES * G4_PAGE_BYTES, NULL), 0);
			const int synced = op_sync(&rig);
			assert_int_equal(rig.fs->journal.aborted, 0);
			if (synced == 0 && deed % 2)
				mount_again();
			g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
			if (rc < 0)
				assert_int_equal(do_few(deed), 0);
			assert_int_equal(op_sync(&rig), 0);
			unmount_clean();
			rig_expect_clean(&rig, RIG_ANY_FREE, "with blocks of sums that could not be freed");
			mount_fs();
			rig_expect_contents(&rig, other, 0, found, data, BYTES);
			if (deed == GROW || deed == FEW_CUT || deed == FEW_DIG)
				rig_expect_contents(&rig, few[3], 0, found, data + 7, FEW_PAGES * G4_PAGE_BYTES);
			for (uint32_t k = 0; k < FEW_FILES; k++) {
				const int gone = op_unlink(&rig, G4_NODE_ROOT, few_name(k));
				assert_true(gone == 0 || (k == 3 && gone == -G4_E_NOENT));
			}
			(void)op_unlink(&rig, G4_NODE_ROOT, "new");
			assert_int_equal(op_sync(&rig), 0);
			unmount_clean();
			rig_expect_clean(&rig, empty_pages, "at the end");
			mount_fs();
		}
	late = false;
}

/* Everybody's next page would lie there. */
static void who_looks_for_space_there_finds_it_elsewhere(void **state)
{
	uint64_t made;

	(void)state;
	shape = PAGES;
	for (uint32_t later = 0; later < 2; later++) {
		late = later;
		make(7);
		mount_with_bad_map();
		go_on_there(7);
		assert_int_equal(op_write(&rig, file, 0, FAR + BYTES, data, BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, file), 0);
		for (uint32_t k = 0; k < EMPTY_FILES; k++)
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, few_name(k), G4_S_IFREG | 0600, &made), 0);
		assert_int_equal(op_write(&rig, made, 0, 0, data, 2 * G4_MIB, NULL), 0);
		assert_int_equal(op_setxattr(&rig, made, "user.new", data, 20000, 0), 0);
		assert_int_equal(op_sync(&rig), 0);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "with what found space elsewhere");
		mount_fs();
		rig_expect_contents(&rig, file, FAR + BYTES, found, data, BYTES);
		rig_expect_contents(&rig, made, 0, found, data, 2 * G4_MIB);
		remove_all();
		unmount_clean();
		rig_expect_clean(&rig, empty_pages, "at the end");
		mount_fs();
	}
	late = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_lies_there_ends_nobody_else, setup, teardown),
		{"what_lies_there_ends_nobody_else with sums", what_lies_there_ends_nobody_else, setup_sums, teardown,
		 NULL},
		cmocka_unit_test_setup_teardown(what_goes_bad_later_ends_nobody_else, setup_sums, teardown),
		cmocka_unit_test_setup_teardown(blocks_of_sums_stay_where_they_can_not_go, setup_sums, teardown),
		cmocka_unit_test_setup_teardown(who_looks_for_space_there_finds_it_elsewhere, setup_sums, teardown),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("bad_map", tests, NULL, NULL);
}
