/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect pages that several files have: a copy by reference of a large file leads to those of its source, and each file keeps its contents
 * whatever is done to the others, with the space exact and the image clean at each step. (Power cuts: the crash explorer's "maps".)
 */
#include <pthread.h>

#include "damage.h"
#include "rig.h"

#include "data/map_own.h"
#include "data/map_path.h"
#include "dedup/table.h"
#include "format/indirect.h"
#include "format/owners.h"
#include "fsck/fsck_types.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#define FILES 6u
#define FILE_PAGES 9216u /* sparse: more than a map of height 1 has */
#define PART 512u

/* A page of a file: bytes of pattern `id` up to `keep`, zeros behind; id 0: zeros. */
struct page {
	uint16_t id, keep;
};
struct file {
	uint64_t ino, size;
	char name[8];
	struct page pages[FILE_PAGES];
};

static struct rig rig;
static struct file *files;
static uint8_t *data, *found;
static uint64_t seed;
static uint32_t refused;
static uint64_t ids;	     /* of patterns */
static uint64_t found_again; /* pages that were deduplicated */

static uint64_t any(uint64_t below)
{
	return rig_random(&seed) % below;
}

static void begin_as(uint32_t checksum, uint32_t dedup, uint64_t device_bytes)
{
	rig_open_as(&rig, checksum, dedup, device_bytes, 2 * G4_MIB);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	files = (struct file *)calloc(FILES, sizeof(*files));
	data = rig_memory(PART * G4_PAGE_BYTES, 1);
	found = rig_memory((uint64_t)FILE_PAGES * G4_PAGE_BYTES, 1);
	seed = rig_setting("G4_MODEL_SEED", 11);
	refused = 0;
	found_again = 0;
	ids = dedup ? rig_setting("G4_MODEL_IDS", 200) : 60000; /* few: much of it is found again */
}

static void unmount(const char *when)
{
	struct g4_ddt_stats stats;
	struct g4_statfs statfs;

	g4_ddt_stats(&rig.fs->ddt, &stats);
	found_again += stats.hits;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig.fs->dirty_pages, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, when);
}

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static int setup(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 0, 48 * G4_MIB);
	return 0;
}

static int setup_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 0, 48 * G4_MIB);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 0, 12 * G4_MIB);
	return 0;
}

static int setup_small_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 0, 12 * G4_MIB);
	return 0;
}

static int setup_dedup(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 1, 48 * G4_MIB);
	return 0;
}

static int setup_small_dedup(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 1, 12 * G4_MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		unmount("at the end");
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(files);
	free(data);
	free(found);
	return 0;
}

/* ------------------------------------------------------------------ the model */

static void fill(uint8_t *to, struct page page)
{
	memset(to, 0, G4_PAGE_BYTES);
	if (page.id)
		rig_pattern(to, page.id, page.keep);
}

static bool is_page(const uint8_t *bytes, struct page page)
{
	static uint8_t expected[G4_PAGE_BYTES] __attribute__((aligned(64)));

	fill(expected, page);
	return memcmp(bytes, expected, G4_PAGE_BYTES) == 0;
}

static void read_all(const struct file *file)
{
	uint64_t at = 0, done = 1;

	memset(found, 0, (uint64_t)FILE_PAGES * G4_PAGE_BYTES);
	while (at < file->size && done > 0) {
		assert_int_equal(op_read(&rig, file->ino, 0, at, found + at, file->size - at, &done), 0);
		at += done;
	}
	assert_int_equal(at, file->size);
}

static void compare(uint32_t n)
{
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, files[n].ino, &attr), 0);
	assert_int_equal(attr.size, files[n].size);
	read_all(&files[n]);
	for (uint32_t k = 0; k < FILE_PAGES; k++)
		if (!is_page(found + (uint64_t)k * G4_PAGE_BYTES, files[n].pages[k]))
			fail_msg("file %u, page %u is not %u", n, k, files[n].pages[k].id);
}

static void compare_all(void)
{
	for (uint32_t n = 0; n < FILES; n++)
		if (files[n].ino)
			compare(n);
}

/* After a refusal each page of a range is as it was or as it was to be; the model has what is there. */
static void settle(struct file *file, const struct file *wanted, uint64_t size)
{
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, file->ino, &attr), 0);
	assert_true(attr.size == file->size || attr.size == wanted->size ||
		    (attr.size > size && attr.size < wanted->size));
	file->size = attr.size;
	read_all(file);
	for (uint32_t k = 0; k < FILE_PAGES; k++) {
		const uint8_t *bytes = found + (uint64_t)k * G4_PAGE_BYTES;
		if (is_page(bytes, file->pages[k]))
			continue;
		if (!is_page(bytes, wanted->pages[k]))
			fail_msg("page %u is neither %u nor %u", k, file->pages[k].id, wanted->pages[k].id);
		file->pages[k] = wanted->pages[k];
	}
}

static void outcome(struct file *file, const struct file *wanted, int rc)
{
	if (rc == 0) {
		memcpy(file->pages, wanted->pages, sizeof(file->pages));
		file->size = wanted->size;
		return;
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	refused++;
	settle(file, wanted, file->size);
}

static struct file *next_of(const struct file *file)
{
	static struct file wanted;

	wanted = *file;
	return &wanted;
}

/* ------------------------------------------------------------------ operations */

static void make(uint32_t n)
{
	static uint32_t number;

	memset(&files[n], 0, sizeof(files[n]));
	snprintf(files[n].name, sizeof(files[n].name), "f%u", ++number);
	if (op_mknod(&rig, G4_NODE_ROOT, files[n].name, G4_S_IFREG | 0600, &files[n].ino) != 0) {
		files[n].ino = 0;
		refused++;
	}
}

static void drop(uint32_t n)
{
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, files[n].name), 0);
	files[n].ino = 0;
}

static int put(struct file *file, uint32_t page, uint32_t pages)
{
	struct file *wanted = next_of(file);
	uint64_t at = 0, done = 0;
	int rc = 0;

	for (uint32_t k = 0; k < pages; k++) {
		wanted->pages[page + k] = (struct page){(uint16_t)(1 + any(ids)), G4_PAGE_BYTES};
		fill(data + (uint64_t)k * G4_PAGE_BYTES, wanted->pages[page + k]);
	}
	if (wanted->size < (uint64_t)(page + pages) * G4_PAGE_BYTES)
		wanted->size = (uint64_t)(page + pages) * G4_PAGE_BYTES;
	while (at < (uint64_t)pages * G4_PAGE_BYTES && rc == 0) {
		rc = op_write(&rig, file->ino, 0, (uint64_t)page * G4_PAGE_BYTES + at, data + at,
			      (uint64_t)pages * G4_PAGE_BYTES - at, &done);
		at += rc == 0 ? done : 0;
	}
	outcome(file, wanted, rc);
	return rc;
}

static int copy(struct file *from, uint32_t first, struct file *to, uint32_t at, uint32_t pages)
{
	struct file *wanted = next_of(to);
	pages = pages < FILE_PAGES - first ? pages : FILE_PAGES - first;
	pages = pages < FILE_PAGES - at ? pages : FILE_PAGES - at;
	const uint64_t offset = (uint64_t)first * G4_PAGE_BYTES, target = (uint64_t)at * G4_PAGE_BYTES;
	const uint64_t bytes = from->size > offset ? from->size - offset : 0;
	const uint64_t length = bytes < (uint64_t)pages * G4_PAGE_BYTES ? bytes : (uint64_t)pages * G4_PAGE_BYTES;
	uint64_t in, out, copied = 0, done = 0;
	int rc = 0;

	/* what is behind the last whole page is copied byte by byte, which the model of pages does not follow */
	if (length % G4_PAGE_BYTES && target + length < to->size)
		return 0;
	for (uint32_t k = 0; k * G4_PAGE_BYTES < length; k++)
		wanted->pages[at + k] = from->pages[first + k];
	if (length > 0 && wanted->size < target + length)
		wanted->size = target + length;
	assert_int_equal(op_open(&rig, from->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to->ino, G4_OPEN_WRITE, &out), 0);
	while (copied < length && rc == 0) {
		rc = op_copy(&rig, in, offset + copied, out, target + copied, length - copied, &done);
		copied += rc == 0 ? done : 0;
		assert_true(rc != 0 || done > 0);
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	outcome(to, wanted, rc);
	return rc;
}

static int cut(struct file *file, uint64_t size)
{
	struct file *wanted = next_of(file);
	const int rc = op_truncate(&rig, file->ino, size);

	wanted->size = size;
	for (uint64_t k = size / G4_PAGE_BYTES; k < FILE_PAGES; k++) {
		const uint64_t keep = k == size / G4_PAGE_BYTES ? size % G4_PAGE_BYTES : 0;
		if (keep == 0)
			wanted->pages[k].id = 0;
		else if (keep < wanted->pages[k].keep)
			wanted->pages[k].keep = (uint16_t)keep;
	}
	if (rc != 0) { /* nothing of it, where anything is refused */
		assert_int_equal(rc, -G4_E_NOSPC);
		assert_true(size != 0);
		refused++;
		return rc;
	}
	outcome(file, wanted, rc);
	return rc;
}

static int change(struct file *file, uint32_t mode, uint32_t page, uint32_t pages)
{
	struct file *wanted = next_of(file);
	const uint64_t offset = (uint64_t)page * G4_PAGE_BYTES, bytes = (uint64_t)pages * G4_PAGE_BYTES;
	const int rc = op_fallocate(&rig, file->ino, mode, offset, bytes);

	if (mode & (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE))
		for (uint32_t k = 0; k < pages; k++)
			wanted->pages[page + k].id = 0;
	if (mode == G4_FALLOC_INSERT_RANGE) {
		memmove(&wanted->pages[page + pages], &wanted->pages[page],
			(FILE_PAGES - page - pages) * sizeof(wanted->pages[0]));
		memset(&wanted->pages[page], 0, pages * sizeof(wanted->pages[0]));
		wanted->size += bytes;
	}
	if (mode == G4_FALLOC_COLLAPSE_RANGE) {
		memmove(&wanted->pages[page], &wanted->pages[page + pages],
			(FILE_PAGES - page - pages) * sizeof(wanted->pages[0]));
		memset(&wanted->pages[FILE_PAGES - pages], 0, pages * sizeof(wanted->pages[0]));
		wanted->size -= bytes;
	}
	if (rc != 0 && (mode == G4_FALLOC_INSERT_RANGE || mode == G4_FALLOC_COLLAPSE_RANGE)) {
		assert_int_equal(rc, -G4_E_NOSPC); /* told before anything moves */
		refused++;
		return rc;
	}
	outcome(file, wanted, rc);
	return rc;
}

/* Where something is in such a file, mostly: its beginning, or far behind. */
static uint32_t some_page(void)
{
	static const uint32_t parts[] = {0, 0, 1, 2, 3, 16, 17};

	return parts[any(7)] * PART + (uint32_t)any(PART);
}

static uint32_t pages_from(uint32_t page, uint64_t most)
{
	const uint64_t n = 1 + any(most);

	return (uint32_t)(n < FILE_PAGES - page ? n : FILE_PAGES - page);
}

static void step_shift(struct file *file)
{
	const uint32_t page = (uint32_t)(any(2) ? any(3) * PART : some_page());
	const uint32_t pages = any(2) ? PART * (uint32_t)(1 + any(2)) : 1 + (uint32_t)any(40);
	const uint32_t used = (uint32_t)((file->size + 4095) / 4096);

	if (any(2) && page < file->size / G4_PAGE_BYTES && used + pages < FILE_PAGES)
		(void)change(file, G4_FALLOC_INSERT_RANGE, page, pages);
	else if (page + pages < file->size / G4_PAGE_BYTES)
		(void)change(file, G4_FALLOC_COLLAPSE_RANGE, page, pages);
}

/* What another file has below an indirect page is written here as well, and is found to be the same. */
static void put_twins(struct file *from, struct file *to, uint32_t part)
{
	uint64_t in, out, done = 0;
	uint32_t pages = 0;

	while (pages < PART && (part + pages + 1) * (uint64_t)G4_PAGE_BYTES <= from->size)
		pages++;
	for (uint32_t k = 0; k < pages; k++) {
		const struct page page = from->pages[part + k];
		struct file *wanted = next_of(to);
		if (page.id == 0) {
			if (to->pages[part + k].id != 0)
				(void)change(to, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, part + k, 1);
			continue;
		}
		wanted->pages[part + k] = page;
		if (wanted->size < (part + k + 1) * (uint64_t)G4_PAGE_BYTES)
			wanted->size = (part + k + 1) * (uint64_t)G4_PAGE_BYTES;
		fill(data, page);
		const int rc =
			op_write(&rig, to->ino, 0, (part + k) * (uint64_t)G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		outcome(to, wanted, rc);
		if (rc != 0)
			return;
	}
	assert_int_equal(op_open(&rig, from->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to->ino, G4_OPEN_WRITE, &out), 0);
	if (pages > 0) {
		const int rc = op_copy_as(&rig, in, (uint64_t)part * G4_PAGE_BYTES, out, (uint64_t)part * G4_PAGE_BYTES,
					  pages * G4_PAGE_BYTES, G4_COPY_SAME, &done);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		refused += rc != 0;
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

static void step(void)
{
	const uint32_t n = (uint32_t)any(FILES), other = (n + 1 + (uint32_t)any(FILES - 1)) % FILES;
	struct file *file = &files[n];
	const uint32_t page = some_page();

	if (file->ino == 0) {
		make(n);
		return;
	}
	switch (any(17)) {
	case 16:
		if (files[other].ino && any(3) == 0)
			put_twins(&files[other], file, page / PART * PART);
		break;
	case 0:
	case 1:
	case 2:
		(void)put(file, page, pages_from(page, 8));
		break;
	case 3:
		(void)put(file, page, pages_from(page, 200));
		break;
	case 4:
		if (any(3) == 0)
			(void)put(file, page / PART * PART, PART); /* a page of 2 MiB */
		break;
	case 5:
	case 6:
	case 7:
		if (files[other].ino && files[other].size > 0 && cut(file, 0) == 0)
			(void)copy(&files[other], 0, file, 0, FILE_PAGES);
		break;
	case 8:
		if (files[other].ino)
			(void)copy(&files[other], page / PART * PART, file, some_page() / PART * PART,
				   (uint32_t)(1 + any(2)) * PART);
		break;
	case 9:
		if (files[other].ino)
			(void)copy(&files[other], page, file, some_page(), 1 + (uint32_t)any(300));
		break;
	case 10:
		if (any(3) > 0) {
			(void)change(file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, page, pages_from(page, 700));
		} else { /* from where an indirect page begins, up to inside of another one */
			const uint32_t begin = any(2) ? 0 : page / PART * PART;
			(void)change(file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, begin,
				     some_page() % (FILE_PAGES - begin) + 1);
		}
		break;
	case 11:
		(void)change(file, (any(2) ? G4_FALLOC_ZERO_RANGE : 0) | G4_FALLOC_KEEP_SIZE, page,
			     pages_from(page, 30));
		break;
	case 12:
		(void)cut(file, any(file->size + 1));
		break;
	case 13:
		step_shift(file);
		break;
	case 14:
		if (any(3) == 0)
			drop(n);
		break;
	default:
		assert_int_equal(op_fsync(&rig, file->ino), 0);
	}
}

/* ------------------------------------------------------------------ what is shared */

static bool has_flag(uint64_t ino)
{
	return (damage_inode(&rig, ino)->flags & G4_INODE_SHARES_MAP) != 0;
}

static uint64_t slot_of(uint64_t ino, uint32_t slot)
{
	const g4_ptr ptr = damage_inode(&rig, ino)->map[slot];

	return (ptr & G4_PTR_INDIRECT) ? g4_address_stored(g4_ptr_address(ptr)) : 0;
}

/* Single pages at places that do not follow each other. */
static void put_apart(struct file *file, uint32_t page, uint32_t pages)
{
	for (uint32_t k = 0; k < pages; k++)
		assert_int_equal(put(file, page + 2 * k, 1), 0);
}

static void begin_low_and_high(void)
{
	for (uint32_t n = 0; n < FILES; n++)
		make(n);
	put_apart(&files[0], 0, 100);
	put_apart(&files[0], PART, 100);
	put_apart(&files[1], 0, 100);
	assert_int_equal(put(&files[1], PART, PART), 0);
	put_apart(&files[1], 17 * PART, 20);
	assert_int_equal(op_sync(&rig), 0);
}

/* Copies lead to the pages of their source, and each file to its own when it has changed. */
static void copies_share_and_changes_do_not(void **state)
{
	uint64_t free_pages;

	(void)state;
	begin_low_and_high();
	free_pages = rig_free_pages(&rig);
	assert_int_equal(copy(&files[0], 0, &files[2], 0, FILE_PAGES), 0);
	assert_int_equal(copy(&files[1], 0, &files[3], 0, FILE_PAGES), 0);
	assert_int_equal(copy(&files[3], 0, &files[4], 0, FILE_PAGES), 0);
	/* counts and what leads to them, not maps and sums */
	assert_in_range(free_pages - rig_free_pages(&rig), 1, 6);
	compare_all();
	unmount("after copies");
	for (uint32_t n = 0; n < 5; n++)
		assert_true(has_flag(files[n].ino));
	assert_int_equal(slot_of(files[0].ino, 0), slot_of(files[2].ino, 0));
	assert_int_equal(slot_of(files[0].ino, 1), slot_of(files[2].ino, 1));
	assert_int_equal(slot_of(files[1].ino, 0), slot_of(files[3].ino, 0));
	assert_int_equal(slot_of(files[1].ino, 0), slot_of(files[4].ino, 0));
	assert_int_equal(damage_inode(&rig, files[1].ino)->map_height, 2);
	mount();
	assert_int_equal(put(&files[2], 3, 1), 0);
	assert_int_equal(put(&files[3], 17 * PART + 1, 1), 0);
	compare_all();
	unmount("after changes");
	assert_int_not_equal(slot_of(files[0].ino, 0), slot_of(files[2].ino, 0));
	assert_int_equal(slot_of(files[0].ino, 1), slot_of(files[2].ino, 1));
	assert_int_not_equal(slot_of(files[1].ino, 0), slot_of(files[3].ino, 0));
	assert_int_equal(slot_of(files[1].ino, 0), slot_of(files[4].ino, 0));
	mount();
	for (uint32_t n = 2; n < FILES; n++)
		drop(n);
	assert_in_range(rig_free_pages(&rig), free_pages, free_pages + 1); /* or a slab more */
	compare_all();
	for (uint32_t n = 0; n < 2; n++) {
		assert_int_equal(put(&files[n], 5, 1), 0);
		drop(n);
	}
	unmount("when all has gone");
}

/* What is the last owner's changes in place, though another file made it. */
static void the_last_owner_needs_no_copy(void **state)
{
	(void)state;
	begin_low_and_high();
	assert_int_equal(copy(&files[1], 0, &files[2], 0, FILE_PAGES), 0);
	drop(1);
	assert_int_equal(op_sync(&rig), 0);
	unmount("with one owner");
	const uint64_t top = slot_of(files[2].ino, 0);
	mount();
	assert_int_equal(put(&files[2], 3, 4), 0);
	assert_int_equal(put(&files[2], PART + 3, 1), 0); /* divides what another file made */
	assert_int_equal(put(&files[2], 16 * PART, PART), 0);
	assert_int_equal(change(&files[2], G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 2, 40), 0);
	compare_all();
	unmount("after changes");
	assert_int_equal(slot_of(files[2].ino, 0), top);
	mount();
	assert_int_equal(copy(&files[2], 0, &files[3], 0, FILE_PAGES), 0);
	assert_int_equal(cut(&files[2], 5000), 0);
	compare_all();
	assert_int_equal(cut(&files[3], 0), 0);
	assert_int_equal(put(&files[3], 0, 1), 0);
	assert_int_equal(cut(&files[3], 20), 0); /* goes into the inode, where nothing is shared */
	compare_all();
}

static void set_whole(uint64_t address, uint32_t whole)
{
	const uint64_t at = damage_map(&rig, address)->shares;

	assert_int_not_equal(at, 0);
	((struct g4_shares_page *)(void *)(rig.image + at))->whole[address / G4_REGION_BYTES % G4_GROUP_REGIONS] =
		whole;
	damage_seal(&rig, at);
}

/*
 * Who has made a copy and finds that others have left meanwhile takes it back: nothing has another count than before. That is so each time where
 * a count of the whole region, which only a wrong image has there, says that there are others.
 */
static void a_copy_that_is_taken_back_leaves_nothing(void **state)
{
	struct g4_statfs before, after;
	uint32_t index;

	(void)state;
	begin_low_and_high();
	assert_int_equal(copy(&files[0], 0, &files[3], 0, FILE_PAGES), 0);
	assert_int_equal(copy(&files[1], 0, &files[2], 0, FILE_PAGES), 0);
	drop(1);
	unmount("with one owner");
	const uint64_t top = slot_of(files[2].ino, 0);
	set_whole(top, 1);
	mount();
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &before), 0);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, files[2].ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	const uint64_t pages = inode->disk.pages;
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_map_own(rig.wg, rig.fs, inode, 0, 1), -G4_E_CORRUPT_MAP);
	g4_write_unlock(&inode->lock);
	assert_int_equal(inode->disk.pages, pages);
	g4_icache_put(rig.fs, index);
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_int_equal(after.blocks_free, before.blocks_free);
	compare_all();
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	set_whole(top, 0);
	rig_expect_clean(&rig, after.blocks_free, "after copies that were taken back");
	mount();
	assert_int_equal(put(&files[2], 3, 4), 0);
	compare_all();
}

/* Until not a page more finds space; what a write reserves beside its page is left to no one. */
static void fill_device(uint64_t ino)
{
	uint64_t at = 0;

	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t pages = 256; pages > 0;) {
		const int rc = op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE, at, pages * G4_PAGE_BYTES);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		at += rc == 0 ? pages * G4_PAGE_BYTES : 0;
		pages = rc == 0 ? pages : pages / 2;
	}
	assert_int_equal(op_sync(&rig), 0);
}

/* Removing, and cutting to nothing, need no space; what needs a copy says so before anything has changed. */
static void a_full_device_refuses_and_deletes(void **state)
{
	(void)state;
	begin_low_and_high();
	for (uint32_t n = 2; n < 5; n++)
		assert_int_equal(copy(&files[n % 2], 0, &files[n], 0, FILE_PAGES), 0);
	fill_device(files[5].ino);
	const uint32_t before = refused;
	for (uint32_t n = 0; n < 5; n++) {
		(void)put(&files[n], 1, 1);
		(void)cut(&files[n], 7 * G4_PAGE_BYTES + 100);
		(void)change(&files[n], G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 20, 3);
		(void)change(&files[n], G4_FALLOC_COLLAPSE_RANGE, 1, 1);
		compare(n);
	}
	assert_true(refused > before);
	assert_int_equal(cut(&files[2], 0), 0);
	drop(3);
	drop(0);
	for (uint32_t n = 1; n < 5; n += 3)
		compare(n);
	drop(5);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(put(&files[4], 1, 8), 0);
	compare_all();
}

/* The page of sums of the highest indirect page on the way to a page. */
static uint64_t page_of_sums(uint64_t ino, uint64_t page)
{
	struct g4_map_nodes nodes;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), page, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.sums_count > 0);
	return g4_address_stored(nodes.sums[0]);
}

/* Of a large page whose entry is lost the copy does not lead to pages of sums, and counts none; another one has no sums. */
static void a_copy_beside_damaged_sums_counts_what_it_leads_to(void **state)
{
	struct rig_repair how = {0};
	char *text;

	(void)state;
	begin_low_and_high();
	assert_int_equal(op_setxattr(&rig, files[1].ino, "gpu4fs.checksum", "none", 4, 0), 0);
	assert_int_equal(put(&files[1], 16 * PART, PART), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(copy(&files[1], 0, &files[3], 0, FILE_PAGES), 0);
	const uint64_t sums = page_of_sums(files[3].ino, PART);
	unmount("after a copy");
	const uint64_t before = damage_inode(&rig, files[3].ino)->pages;
	rig.image[sums + 100] ^= 1;
	mount();
	assert_int_equal(put(&files[3], 4, 1), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_not_equal(slot_of(files[1].ino, 0), slot_of(files[3].ino, 0));
	assert_int_equal(damage_inode(&rig, files[3].ino)->pages, before - G4_SUMS_QUARTERS);
	assert_true(rig_fsck(&rig, &text).problems > 0);
	free(text);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(damage_inode(&rig, files[3].ino)->pages, before - G4_SUMS_QUARTERS);
	mount();
}

#define GIB_PAGES (UINT64_C(1) << 18)
#define APART 8u /* pages that are not in a row */

/* At each other page from one on there are contents, or holes; nothing right in front of them. */
static void expect_apart(uint64_t ino, uint64_t page)
{
	uint64_t done;

	for (uint32_t k = 0; k < 2 * APART; k++) {
		assert_int_equal(op_read(&rig, ino, 0, (page + k) * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), 0);
		assert_int_equal(done, G4_PAGE_BYTES);
		if (!is_page(found, (struct page){(uint16_t)(k % 2 ? 0 : 1 + k), G4_PAGE_BYTES}))
			fail_msg("page %llu + %u", (unsigned long long)page, k);
	}
}

static void copy_whole(uint64_t from, uint64_t to, uint64_t pages)
{
	uint64_t in, out, done;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	for (uint64_t at = 0; at < pages * G4_PAGE_BYTES; at += done) {
		assert_int_equal(op_copy(&rig, in, at, out, at, pages * G4_PAGE_BYTES - at, &done), 0);
		assert_true(done > 0);
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

/* Of level 2, by whole pages of it and by parts. */
static void what_is_shared_moves_by_gigabytes(void **state)
{
	const uint64_t at[] = {0, 700, 2 * PART, GIB_PAGES, GIB_PAGES + 2 * PART + 60};
	const uint64_t pages = GIB_PAGES + 4 * PART, gib = GIB_PAGES * G4_PAGE_BYTES;
	struct g4_attr attr;
	uint64_t ino[4];

	(void)state;
	for (uint32_t n = 0; n < 4; n++) {
		const char name[] = {'g', (char)('0' + n), 0};
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino[n]), 0);
	}
	for (uint32_t n = 0; n < 5; n++)
		for (uint32_t k = 0; k < APART; k++) {
			fill(data, (struct page){(uint16_t)(1 + 2 * k), G4_PAGE_BYTES});
			assert_int_equal(op_write(&rig, ino[0], 0, (at[n] + 2 * k) * G4_PAGE_BYTES, data, G4_PAGE_BYTES,
						  NULL),
					 0);
		}
	assert_int_equal(op_truncate(&rig, ino[0], pages * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t n = 1; n < 4; n++)
		copy_whole(ino[0], ino[n], pages);
	/* file 1: in front of everything; 2: inside of a page of level 1; 3: the first GiB goes */
	assert_int_equal(op_fallocate(&rig, ino[1], G4_FALLOC_INSERT_RANGE, 0, gib), 0);
	assert_int_equal(op_fallocate(&rig, ino[2], G4_FALLOC_INSERT_RANGE, 705 * G4_PAGE_BYTES, gib), 0);
	assert_int_equal(op_fallocate(&rig, ino[3], G4_FALLOC_COLLAPSE_RANGE, 0, gib), 0);
	for (uint32_t n = 0; n < 5; n++)
		expect_apart(ino[1], at[n] + GIB_PAGES);
	expect_apart(ino[2], 0);
	for (uint32_t n = 2; n < 5; n++)
		expect_apart(ino[2], at[n] + GIB_PAGES);
	expect_apart(ino[3], 0);
	expect_apart(ino[3], 2 * PART + 60);
	assert_int_equal(op_getattr(&rig, ino[3], &attr), 0);
	assert_int_equal(attr.size, pages * G4_PAGE_BYTES - gib);
	unmount("after a GiB that came, or went");
	assert_int_not_equal(slot_of(ino[0], 0), 0);
	assert_int_equal(slot_of(ino[1], 0), 0);
	assert_int_equal(slot_of(ino[1], 1), slot_of(ino[0], 0));
	assert_int_equal(slot_of(ino[1], 2), slot_of(ino[0], 1));
	assert_int_not_equal(slot_of(ino[2], 0), slot_of(ino[0], 0));
	assert_int_equal(slot_of(ino[2], 2), slot_of(ino[0], 1));
	assert_int_equal(slot_of(ino[3], 0), slot_of(ino[0], 1));
	mount();
	/* back, and by 2 MiB */
	assert_int_equal(op_fallocate(&rig, ino[2], G4_FALLOC_COLLAPSE_RANGE, 705 * G4_PAGE_BYTES, gib), 0);
	assert_int_equal(op_fallocate(&rig, ino[1], G4_FALLOC_COLLAPSE_RANGE, (GIB_PAGES - PART) * G4_PAGE_BYTES,
				      PART * G4_PAGE_BYTES),
			 0);
	assert_int_equal(op_fallocate(&rig, ino[3], G4_FALLOC_INSERT_RANGE, 0, PART * G4_PAGE_BYTES), 0);
	for (uint32_t n = 0; n < 5; n++) {
		expect_apart(ino[0], at[n]);
		expect_apart(ino[1], at[n] + GIB_PAGES - PART);
		expect_apart(ino[2], at[n]);
	}
	expect_apart(ino[3], PART);
	expect_apart(ino[3], 3 * PART + 60);
	unmount("after 2 MiB that came, or went");
	mount();
	for (uint32_t n = 0; n < 4; n++) {
		const char name[] = {'g', (char)('0' + n), 0};
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
}

#define PUNCH (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE)

/* Bytes of a page that is a hole, which somebody has read before. */
static int punch_inside(struct file *file, uint32_t page)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, file->ino, 0, (uint64_t)page * G4_PAGE_BYTES, found, 100, &done), 0);
	return op_fallocate(&rig, file->ino, PUNCH, (uint64_t)page * G4_PAGE_BYTES + 100, 200);
}

/* What leaves a shared page as it is, or takes all that it has, works without space. */
static void what_changes_nothing_needs_no_copy(void **state)
{
	(void)state;
	begin_low_and_high();
	assert_int_equal(copy(&files[0], 0, &files[2], 0, FILE_PAGES), 0);
	assert_int_equal(copy(&files[1], 0, &files[3], 0, FILE_PAGES), 0);
	assert_int_equal(op_truncate(&rig, files[2].ino, (uint64_t)FILE_PAGES * G4_PAGE_BYTES), 0);
	files[2].size = (uint64_t)FILE_PAGES * G4_PAGE_BYTES;
	assert_int_equal(put(&files[4], 0, 3), 0); /* which hang at the inode */
	fill_device(files[5].ino);
	const uint64_t free_pages = rig_free_pages(&rig);
	for (uint32_t n = 2; n < 4; n++) {
		assert_int_equal(change(&files[n], PUNCH, 1, 1), 0);
		assert_int_equal(punch_inside(&files[n], 3), 0);
		assert_int_equal(change(&files[n], PUNCH, 250, 200), 0);
		assert_int_equal(change(&files[n], PUNCH, 250, PART - 250), 0);
		assert_int_equal(change(&files[n], PUNCH, 3 * PART + 7, 5 * PART), 0);
		assert_int_equal(change(&files[n], G4_FALLOC_KEEP_SIZE, 4, 1), 0);
		assert_int_equal(change(&files[n], 0, 198, 1), 0);
	}
	assert_int_equal(change(&files[3], 0, PART, PART), 0);
	assert_int_equal(change(&files[4], 0, 0, 3), 0);
	assert_int_equal(change(&files[2], G4_FALLOC_COLLAPSE_RANGE, 3 * PART + 5, 7), 0);
	assert_int_equal(change(&files[2], G4_FALLOC_INSERT_RANGE, 3 * PART + 5, 7), 0);
	compare_all();
	assert_int_equal(rig_free_pages(&rig), free_pages);
	unmount("after what changes nothing");
	assert_int_equal(slot_of(files[2].ino, 0), slot_of(files[0].ino, 0));
	assert_int_equal(slot_of(files[2].ino, 1), slot_of(files[0].ino, 1));
	assert_int_equal(slot_of(files[3].ino, 0), slot_of(files[1].ino, 0));
	mount();
	assert_int_equal(change(&files[2], PUNCH, PART, 300), 0);	   /* all that one page leads to */
	assert_int_equal(cut(&files[2], 300 * G4_PAGE_BYTES), 0);	   /* nothing is behind it */
	assert_int_equal(change(&files[3], PUNCH, 0, 17 * PART + 100), 0); /* at level 2 */
	compare_all();
	unmount("after what takes everything");
	assert_int_equal(slot_of(files[2].ino, 0), slot_of(files[0].ino, 0));
	assert_int_equal(slot_of(files[2].ino, 1), 0);
	assert_int_equal(slot_of(files[3].ino, 0), 0);
	mount();
}

/* In front of what a hole takes, and behind it, the page has nothing, though it has slots for it. */
static void a_hole_around_all_that_a_page_has_needs_no_copy(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < FILES; n++)
		make(n);
	put_apart(&files[0], 10, 40);
	put_apart(&files[0], PART + 10, 40);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t n = 1; n < 5; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, FILE_PAGES), 0);
	fill_device(files[5].ino);
	assert_int_equal(change(&files[1], PUNCH, 5, 200), 0);
	assert_int_equal(change(&files[2], PUNCH, 5, PART), 0);
	assert_int_equal(change(&files[2], PUNCH, PART + 5, 200), 0);
	assert_int_equal(cut(&files[3], (PART + 10) * G4_PAGE_BYTES), 0);
	assert_int_equal(change(&files[4], PUNCH, 11, 200), -G4_E_NOSPC); /* but for one */
	compare_all();
	unmount("after holes");
	assert_int_equal(slot_of(files[1].ino, 0), 0);
	assert_int_equal(slot_of(files[1].ino, 1), slot_of(files[0].ino, 1));
	assert_int_equal(slot_of(files[2].ino, 0), 0);
	assert_int_equal(slot_of(files[2].ino, 1), 0);
	assert_int_equal(slot_of(files[3].ino, 0), slot_of(files[0].ino, 0));
	assert_int_equal(slot_of(files[3].ino, 1), 0);
	mount();
}

/* Whole slots move, with what others have below them. */
static void insertions_and_collapses_move_what_is_shared(void **state)
{
	(void)state;
	begin_low_and_high();
	for (uint32_t n = 2; n < 4; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, FILE_PAGES), 0);
	fill_device(files[5].ino);
	assert_int_equal(change(&files[2], G4_FALLOC_INSERT_RANGE, PART, 2 * PART), 0);
	assert_int_equal(change(&files[2], G4_FALLOC_INSERT_RANGE, 0, PART), 0);
	assert_int_equal(change(&files[3], G4_FALLOC_COLLAPSE_RANGE, 0, PART), 0);
	compare_all();
	unmount("after moves on a full device");
	assert_int_equal(slot_of(files[2].ino, 1), slot_of(files[0].ino, 0));
	assert_int_equal(slot_of(files[2].ino, 4), slot_of(files[0].ino, 1));
	assert_int_equal(slot_of(files[3].ino, 0), slot_of(files[0].ino, 1));
	mount();
	drop(5);
	assert_int_equal(change(&files[2], G4_FALLOC_INSERT_RANGE, PART + 30, PART), 0); /* inside of one */
	assert_int_equal(change(&files[3], G4_FALLOC_INSERT_RANGE, 1, 1), 0);
	compare_all();
	unmount("after a move inside of a page");
	assert_int_not_equal(slot_of(files[2].ino, 1), slot_of(files[0].ino, 0));
	assert_int_equal(slot_of(files[2].ino, 5), slot_of(files[0].ino, 1));
	assert_int_not_equal(slot_of(files[3].ino, 0), slot_of(files[0].ino, 1));
	mount();
	assert_int_equal(change(&files[2], G4_FALLOC_COLLAPSE_RANGE, PART + 30, PART), 0);
	assert_int_equal(change(&files[3], G4_FALLOC_COLLAPSE_RANGE, 1, 1), 0);
	compare_all();
}

/* What a copy by reference leaves that has found space for an indirect page, and none for sums: one at which nothing hangs. */
static void make_empty(uint64_t ino, uint64_t page)
{
	struct g4_path path;
	struct g4_txn txn;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(rig.wg, rig.fs, 40, &txn), 0);
	g4_path_start(&path, inode, page);
	assert_int_equal(g4_path_make(rig.wg, rig.fs, &txn, inode, &path, page, 0), 0);
	g4_path_put(rig.fs, &path);
	assert_int_equal(g4_end(rig.fs, &txn, g4_inode_log(rig.wg, rig.fs, &txn, inode)), 0);
	g4_write_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
}

/* One that several files have is in nobody's way, and stays the others'. */
static void an_indirect_page_without_anything_changes_like_others(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < FILES; n++)
		make(n);
	put_apart(&files[0], 0, 40);
	put_apart(&files[0], PART, 40);
	put_apart(&files[0], 3 * PART, 40);
	assert_int_equal(op_sync(&rig), 0);
	make_empty(files[0].ino, 2 * PART);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t n = 1; n < FILES; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, FILE_PAGES), 0);
	compare_all();
	unmount("after copies");
	mount();
	assert_int_equal(change(&files[1], G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE, 2 * PART + 10, 5), 0);
	assert_int_equal(change(&files[2], G4_FALLOC_INSERT_RANGE, PART, PART), 0);
	compare_all();
	assert_int_equal(change(&files[3], G4_FALLOC_COLLAPSE_RANGE, 2 * PART - 7, 7), 0);
	compare_all();
	assert_int_equal(change(&files[4], G4_FALLOC_COLLAPSE_RANGE, 2 * PART + 5, 7), 0);
	assert_int_equal(change(&files[4], G4_FALLOC_COLLAPSE_RANGE, PART + 5, PART), 0);
	compare_all();
	assert_int_equal(change(&files[5], PUNCH, 2 * PART + 10, 300), 0);
	assert_int_equal(put(&files[5], 2 * PART + 20, 3), 0);
	assert_int_equal(cut(&files[5], (2 * PART + 10) * G4_PAGE_BYTES), 0);
	compare_all();
	unmount("after changes");
	mount();
	compare_all();
}

/* Nor does it keep space when its files have gone. */
static void an_indirect_page_without_anything_goes_with_its_files(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 3; n++)
		make(n);
	put_apart(&files[0], 0, 40);
	assert_int_equal(op_truncate(&rig, files[0].ino, 4 * PART * G4_PAGE_BYTES), 0);
	files[0].size = 4 * PART * G4_PAGE_BYTES;
	assert_int_equal(op_sync(&rig), 0);
	make_empty(files[0].ino, 2 * PART);
	for (uint32_t n = 1; n < 3; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, FILE_PAGES), 0);
	unmount("after copies");
	assert_int_not_equal(slot_of(files[0].ino, 2), 0);
	assert_int_equal(slot_of(files[1].ino, 2), slot_of(files[0].ino, 2));
	mount();
	assert_int_equal(cut(&files[0], 0), 0);
	for (uint32_t n = 0; n < 3; n++)
		drop(n);
	unmount("when all has gone");
	mount();
}

/* Nor is one of level 2 that leads to nothing but such a page in the way of one that several files have. */
static void what_is_shared_moves_to_where_nothing_hangs(void **state)
{
	const uint64_t pages = GIB_PAGES + 4 * PART, gib = GIB_PAGES * G4_PAGE_BYTES;
	uint64_t ino[2];

	(void)state;
	for (uint32_t n = 0; n < 2; n++) {
		const char name[] = {'g', (char)('0' + n), 0};
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino[n]), 0);
	}
	for (uint32_t n = 0; n < 2; n++)
		for (uint32_t k = 0; k < APART; k++) {
			fill(data, (struct page){(uint16_t)(1 + 2 * k), G4_PAGE_BYTES});
			assert_int_equal(op_write(&rig, ino[0], 0, (n * GIB_PAGES + 2 * k) * G4_PAGE_BYTES, data,
						  G4_PAGE_BYTES, NULL),
					 0);
		}
	assert_int_equal(op_truncate(&rig, ino[0], pages * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0);
	copy_whole(ino[0], ino[1], pages);
	assert_int_equal(op_fallocate(&rig, ino[1], PUNCH, gib, gib), 0);
	make_empty(ino[1], GIB_PAGES + 5);
	assert_int_equal(op_fallocate(&rig, ino[1], G4_FALLOC_INSERT_RANGE, 0, gib), 0);
	expect_apart(ino[0], 0);
	expect_apart(ino[0], GIB_PAGES);
	expect_apart(ino[1], GIB_PAGES);
	unmount("after a move");
	assert_int_equal(slot_of(ino[1], 1), slot_of(ino[0], 0));
	mount();
}

static void any_order(uint64_t steps)
{
	for (uint64_t k = 1; k <= steps; k++) {
		step();
		if (k % 40 == 0)
			compare_all();
		if (k % 80 == 0) {
			unmount("between steps");
			mount();
			compare_all();
		}
	}
	for (uint32_t n = 0; n < FILES; n++)
		if (files[n].ino)
			drop(n);
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	struct g4_statfs before, after;

	(void)state;
	assert_int_equal(op_statfs(&rig, &before), 0);
	any_order(rig_setting("G4_MODEL_STEPS", 1600 / rig_every(4)));
	unmount("when all has gone");
	if (ids < 1000)
		assert_true(found_again > 100);
	mount();
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_in_range(after.blocks_free + RIG_MOST_SLABS, before.blocks_free, before.blocks_free + RIG_MOST_SLABS);
}

static void any_order_on_a_full_device(void **state)
{
	const uint64_t left = 300;
	uint64_t ino, at = 0;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "filler", G4_S_IFREG | 0600, &ino), 0);
	for (uint64_t n = rig_free_pages(&rig); n > left + 40; n = rig_free_pages(&rig), at++)
		assert_int_equal(op_write(&rig, ino, 0, at * 64 * G4_PAGE_BYTES, data,
					  (n - left < 64 ? n - left : 64) * G4_PAGE_BYTES, NULL),
				 0);
	any_order(rig_setting("G4_MODEL_STEPS", 1600 / rig_every(4)));
	if (rig_every(4) == 1)
		assert_true(refused > 20);
}

/* ------------------------------------------------------------------ threads */

#define THREADS 4u
#define SOURCE_PAGES 200u

struct sharer {
	pthread_t thread;
	uint32_t number;
	uint64_t source, own;
	const uint8_t *contents;
};

/*
 * Each has a copy of the source time and again, and writes to it, while another one writes to the source what it has there already: they find at
 * the same time that others have the pages.
 */
static void *share_and_own(void *user)
{
	const struct sharer *s = (const struct sharer *)user;
	uint8_t *bytes = calloc(SOURCE_PAGES, G4_PAGE_BYTES), *own = calloc(1, G4_PAGE_BYTES);
	uint64_t state = s->number + 1, done, in, out;

	assert_int_equal(op_open(&rig, s->source, G4_OPEN_READ | G4_OPEN_WRITE, &in), 0);
	assert_int_equal(op_open(&rig, s->own, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	for (uint32_t i = 0; i < 240 / rig_every(4); i++) {
		const uint64_t page = rig_random(&state) % SOURCE_PAGES, at = page * G4_PAGE_BYTES;
		if (s->number == 0) {
			assert_int_equal(op_write(&rig, 0, in, at, s->contents + at, G4_PAGE_BYTES, NULL), 0);
			continue;
		}
		for (uint64_t copied = 0; copied < (FILE_PAGES - 100) * G4_PAGE_BYTES; copied += done) {
			assert_int_equal(op_copy(&rig, in, copied, out, copied, FILE_PAGES * G4_PAGE_BYTES, &done), 0);
			if (done == 0)
				break;
		}
		memset(own, (int)(s->number * 50 + i % 50), G4_PAGE_BYTES);
		assert_int_equal(op_write(&rig, 0, out, at, own, G4_PAGE_BYTES, NULL), 0);
		if (i % 2)
			assert_int_equal(op_fsync(&rig, s->own), 0);
		assert_int_equal(op_read(&rig, 0, out, 0, bytes, SOURCE_PAGES * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(done, SOURCE_PAGES * G4_PAGE_BYTES);
		assert_memory_equal(bytes + at, own, G4_PAGE_BYTES);
		memcpy(bytes + at, s->contents + at, G4_PAGE_BYTES);
		assert_true(rig_equal(bytes, s->contents, SOURCE_PAGES * G4_PAGE_BYTES));
		assert_int_equal(op_truncate(&rig, s->own, i % 3 ? 0 : page * G4_PAGE_BYTES + 77), 0);
		assert_int_equal(op_truncate(&rig, s->own, 0), 0);
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	free(bytes);
	free(own);
	return NULL;
}

static void owners_that_change_at_the_same_time_keep_what_they_have(void **state)
{
	struct sharer sharers[THREADS];
	struct g4_statfs statfs;
	uint64_t source;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "source", G4_S_IFREG | 0600, &source), 0);
	rig_pattern(data, 7, SOURCE_PAGES * G4_PAGE_BYTES);
	for (uint32_t k = SOURCE_PAGES; k-- > 0;) { /* backwards: not in a row */
		assert_int_equal(op_write(&rig, source, 0, (uint64_t)k * G4_PAGE_BYTES,
					  data + (uint64_t)k * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL),
				 0);
		if (k % 8 == 0)
			assert_int_equal(op_fsync(&rig, source), 0);
	}
	assert_int_equal(op_write(&rig, source, 0, (FILE_PAGES - 1) * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
	for (uint32_t t = 0; t < THREADS; t++) {
		char name[] = {'t', (char)('0' + t), 0};
		sharers[t] = (struct sharer){.number = t, .source = source, .contents = data};
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &sharers[t].own), 0);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&sharers[t].thread, NULL, share_and_own, &sharers[t]), 0);
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(sharers[t].thread, NULL);
	rig_expect_contents(&rig, source, 0, found, data, SOURCE_PAGES * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after threads");
}

int main(void)
{
#define TEST_AS(name, how, begins)                                                                                     \
	{                                                                                                              \
#name how, name, begins, teardown, NULL                                                                \
	}
#define TEST(name) TEST_AS(name, "", setup), TEST_AS(name, " with sums", setup_sums)
	const struct CMUnitTest tests[] = {
		TEST(copies_share_and_changes_do_not),
		TEST(the_last_owner_needs_no_copy),
		TEST(a_copy_that_is_taken_back_leaves_nothing),
		TEST_AS(a_copy_beside_damaged_sums_counts_what_it_leads_to, " with sums", setup_sums),
		TEST_AS(a_full_device_refuses_and_deletes, "", setup_small),
		TEST_AS(a_full_device_refuses_and_deletes, " with sums", setup_small_sums),
		TEST_AS(what_changes_nothing_needs_no_copy, "", setup_small),
		TEST_AS(what_changes_nothing_needs_no_copy, " with sums", setup_small_sums),
		TEST_AS(a_hole_around_all_that_a_page_has_needs_no_copy, "", setup_small),
		TEST_AS(a_hole_around_all_that_a_page_has_needs_no_copy, " with sums", setup_small_sums),
		TEST_AS(insertions_and_collapses_move_what_is_shared, "", setup_small),
		TEST_AS(insertions_and_collapses_move_what_is_shared, " with sums", setup_small_sums),
		TEST(what_is_shared_moves_by_gigabytes),
		TEST(an_indirect_page_without_anything_changes_like_others),
		TEST(an_indirect_page_without_anything_goes_with_its_files),
		TEST(what_is_shared_moves_to_where_nothing_hangs),
		TEST(any_order_of_changes_leaves_what_the_model_has),
		TEST_AS(any_order_on_a_full_device, "", setup_small),
		TEST_AS(any_order_on_a_full_device, " with sums", setup_small_sums),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with deduplication", setup_dedup),
		TEST_AS(any_order_on_a_full_device, " with deduplication", setup_small_dedup),
		TEST(owners_that_change_at_the_same_time_keep_what_they_have),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("map_own", tests, NULL, NULL);
}
