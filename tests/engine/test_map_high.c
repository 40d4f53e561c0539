/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps with several indirect pages of level 2, which files have together: whatever is written, copied by reference, punched, cut, inserted and taken
 * out, each file has what a model says, pages with the same contents lie at one place, and the image is clean with its free space exact. Some
 * indirect pages lead to nothing, as images of older versions have them.
 */
#include "damage.h"
#include "rig.h"

#include "data/extent.h"
#include "data/map_own.h"
#include "data/map_path.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#define FILES 5u
#define MOST 4000u /* pages of a file that were written */
#define PART G4_INDIRECT_SLOTS
#define GIB_PAGES ((uint64_t)PART * PART)
#define END (40 * GIB_PAGES) /* no file has more */
#define PUNCH (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE)

struct page {
	uint64_t at;
	uint32_t id; /* of contents: each that is written has its own */
};
struct file {
	uint64_t ino, pages; /* the size */
	uint32_t count;
	char name[12];
	struct page page[MOST]; /* by place */
};

static struct rig rig;
static struct file *files, *wanted;
static uint8_t *bytes;
static uint64_t seed;
static uint32_t last_id, names, refused;
static bool makes_empty;	/* indirect pages without anything */
static uint64_t spacer, spaces; /* a file that lies between what is written, so that that lies apart; its pages */

static uint64_t tells;

static uint64_t any(uint64_t below)
{
	return rig_random(&seed) % below;
}

/* G4_MODEL_TELLS=1: what is done; 2: and all is compared behind each step. */
static void say(const char *what, const struct file *file, uint64_t at, uint64_t pages)
{
	if (tells)
		printf("%s %s: page %llu GiB + %llu * 2 MiB + %llu, %llu * 2 MiB + %llu pages; it has %llu * 2 MiB + %llu\n",
		       what, file->name, (unsigned long long)(at / GIB_PAGES),
		       (unsigned long long)(at % GIB_PAGES / PART), (unsigned long long)(at % PART),
		       (unsigned long long)(pages / PART), (unsigned long long)(pages % PART),
		       (unsigned long long)(file->pages / PART), (unsigned long long)(file->pages % PART));
}

/* ------------------------------------------------------------------ the model */

static uint32_t find(const struct file *file, uint64_t at)
{
	uint32_t low = 0, high = file->count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;
		if (file->page[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What is there from `at` to `end` goes, and room for `pages` is made in its place. */
static struct page *splice(struct file *file, uint64_t at, uint64_t end, uint32_t pages)
{
	const uint32_t first = find(file, at), behind = find(file, end);

	memmove(&file->page[first + pages], &file->page[behind], (file->count - behind) * sizeof(file->page[0]));
	file->count += pages - (behind - first);
	return &file->page[first];
}

static void move(struct file *file, uint64_t at, uint64_t by, bool up)
{
	for (uint32_t k = find(file, at); k < file->count; k++)
		file->page[k].at += up ? by : 0 - by;
}

static void fill(uint8_t *to, uint32_t id)
{
	rig_pattern(to, id, G4_PAGE_BYTES);
}

static bool is_page(uint64_t ino, struct page page)
{
	static uint8_t is[G4_PAGE_BYTES] __attribute__((aligned(64))),
		should[G4_PAGE_BYTES] __attribute__((aligned(64)));
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, page.at * G4_PAGE_BYTES, is, G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, G4_PAGE_BYTES);
	fill(should, page.id);
	return rig_equal(is, should, G4_PAGE_BYTES);
}

/* The first page from `at` on with contents, or the end of the file. */
static uint64_t next_of(const struct file *file, uint64_t at, uint32_t whence)
{
	uint64_t found;
	const int rc = at < file->pages ? op_seek(&rig, file->ino, at * G4_PAGE_BYTES, whence, &found) : -G4_E_NXIO;

	if (rc == -G4_E_NXIO)
		return file->pages;
	assert_int_equal(rc, 0);
	assert_int_equal(found % G4_PAGE_BYTES, 0);
	return found / G4_PAGE_BYTES;
}

static void compare(const struct file *file)
{
	struct g4_attr attr;
	uint64_t at = 0;
	uint32_t k = 0;

	assert_int_equal(op_getattr(&rig, file->ino, &attr), 0);
	assert_int_equal(attr.size, file->pages * G4_PAGE_BYTES);
	while ((at = next_of(file, at, G4_SEEK_DATA)) < file->pages) {
		const uint64_t end = next_of(file, at, G4_SEEK_HOLE);
		for (; at < end; at++, k++)
			if (k >= file->count || file->page[k].at != at || !is_page(file->ino, file->page[k]))
				fail_msg("%s, page %llu: expected is %llu", file->name, (unsigned long long)at,
					 (unsigned long long)(k < file->count ? file->page[k].at : UINT64_MAX));
	}
	if (k != file->count)
		fail_msg("%s has nothing at page %llu", file->name, (unsigned long long)file->page[k].at);
}

struct place {
	uint32_t id;
	uint64_t address;
};

static int by_id(const void *a, const void *b)
{
	const uint32_t x = ((const struct place *)a)->id, y = ((const struct place *)b)->id;

	return x < y ? -1 : x > y;
}

static int by_address(const void *a, const void *b)
{
	const uint64_t x = ((const struct place *)a)->address, y = ((const struct place *)b)->address;

	return x < y ? -1 : x > y;
}

/* Contents that were written once are there once: as many pages as the model has contents. */
static void expect_once(void)
{
	struct place *places = calloc(FILES * MOST, sizeof(*places));
	uint64_t count = 0, ids = 0, addresses = 0;

	for (uint32_t n = 0; n < FILES; n++)
		for (uint32_t k = 0; files[n].ino && k < files[n].count; k++)
			places[count++] =
				(struct place){files[n].page[k].id, rig_place(&rig, files[n].ino, files[n].page[k].at)};
	qsort(places, count, sizeof(*places), by_id);
	for (uint64_t k = 0; k < count; k++) {
		ids += k == 0 || places[k].id != places[k - 1].id;
		if (k > 0 && places[k].id == places[k - 1].id)
			assert_int_equal(places[k].address, places[k - 1].address);
	}
	qsort(places, count, sizeof(*places), by_address);
	for (uint64_t k = 0; k < count; k++)
		addresses += k == 0 || places[k].address != places[k - 1].address;
	assert_int_equal(addresses, ids);
	free(places);
}

/* How many indirect pages below a slot lead to nothing. */
static uint32_t count_empty(const struct g4_inode_core *inode, g4_ptr ptr, uint32_t level)
{
	uint32_t line, empty = 0, used = 0;

	if (level == 0 || !(ptr & G4_PTR_INDIRECT))
		return 0;
	assert_int_equal(g4_map_get_node(rig.wg, rig.fs, inode, ptr, level, &line), 0);
	const g4_le64 *slots = g4_map_slots(rig.fs, line);
	uint64_t one = 1;
	if (level == G4_SHARED_MAP_LEVEL && g4_extent_has_several(rig.wg, rig.fs, g4_ptr_address(ptr), &one))
		assert_int_not_equal(g4_meta_line(&rig.fs->cache, line)->below, 0);
	for (uint32_t k = 0; k < PART; k++) {
		used += slots[k] != 0;
		empty += count_empty(inode, slots[k], level - 1);
	}
	g4_cache_put(&rig.fs->cache, line);
	return empty + (used == 0);
}

static void expect_none_empty(const char *when)
{
	for (uint32_t n = 0; n < FILES; n++) {
		uint32_t index;
		if (!files[n].ino)
			continue;
		assert_int_equal(g4_icache_get(rig.wg, rig.fs, files[n].ino, &index), 0);
		const struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
		for (uint32_t k = 0; k < g4_inode_slots(&inode->disk) && !(inode->disk.flags & G4_INODE_INLINE); k++)
			if (count_empty(inode, inode->disk.map[k], inode->disk.map_height) > 0 && !makes_empty)
				fail_msg("%s: %s has an indirect page that leads to nothing below slot %u", when,
					 files[n].name, k);
		g4_icache_put(rig.fs, index);
	}
}

static void compare_all(void)
{
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t n = 0; n < FILES; n++)
		if (files[n].ino)
			compare(&files[n]);
	expect_once();
	expect_none_empty("at a look");
}

/* After a refusal each page is as it was, or as it was to be. */
static void settle(struct file *file)
{
	static struct file now;
	struct g4_attr attr;
	uint64_t at = 0;

	assert_int_equal(op_getattr(&rig, file->ino, &attr), 0);
	assert_int_equal(attr.size % G4_PAGE_BYTES, 0);
	now = *file;
	now.pages = attr.size / G4_PAGE_BYTES;
	now.count = 0;
	assert_true(now.pages >= (file->pages < wanted->pages ? file->pages : wanted->pages) &&
		    now.pages <= (file->pages > wanted->pages ? file->pages : wanted->pages));
	while ((at = next_of(&now, at, G4_SEEK_DATA)) < now.pages)
		for (const uint64_t end = next_of(&now, at, G4_SEEK_HOLE); at < end; at++) {
			const uint32_t old = find(file, at), new = find(wanted, at);
			struct page page = {at, 0};
			if (old < file->count && file->page[old].at == at && is_page(file->ino, file->page[old]))
				page = file->page[old];
			else if (new < wanted->count &&
				 wanted->page[new].at == at &&is_page(file->ino, wanted->page[new]))
				page = wanted->page[new];
			else
				fail_msg("%s, page %llu is neither", file->name, (unsigned long long)at);
			now.page[now.count++] = page;
		}
	for (uint32_t k = 0; k < file->count; k++) { /* what has gone was to go */
		const uint64_t page = file->page[k].at;
		const uint32_t is = find(&now, page), new = find(wanted, page);
		if ((is == now.count || now.page[is].at != page) && new < wanted->count && wanted->page[new].at == page)
			fail_msg("%s, page %llu has gone", file->name, (unsigned long long)page);
	}
	*file = now;
}

/* `whole`: all of it, or nothing. */
static int outcome(struct file *file, int rc, bool whole)
{
	if (rc == 0) {
		*file = *wanted;
		return 0;
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	refused++;
	say("... refused", file, 0, 0);
	if (!whole)
		settle(file);
	return rc;
}

static void begin_change(const struct file *file)
{
	*wanted = *file;
}

/* ------------------------------------------------------------------ operations */

static void make(struct file *file)
{
	memset(file, 0, sizeof(*file));
	snprintf(file->name, sizeof(file->name), "f%u", ++names);
	const int rc = op_mknod(&rig, G4_NODE_ROOT, file->name, G4_S_IFREG | 0600, &file->ino);
	if (rc != 0) {
		assert_int_equal(rc, -G4_E_NOSPC);
		file->ino = 0;
	}
}

static void drop(struct file *file)
{
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, file->name), 0);
	file->ino = 0;
}

static int put(struct file *file, uint64_t at, uint32_t pages)
{
	uint64_t from = 0, done = 0;
	int rc = 0;

	if (file->count + pages > MOST)
		return 0;
	say("put", file, at, pages);
	begin_change(file);
	struct page *page = splice(wanted, at, at + pages, pages);
	for (uint32_t k = 0; k < pages; k++) {
		page[k] = (struct page){at + k, ++last_id};
		fill(bytes + (uint64_t)k * G4_PAGE_BYTES, last_id);
	}
	wanted->pages = wanted->pages > at + pages ? wanted->pages : at + pages;
	for (; from < (uint64_t)pages * G4_PAGE_BYTES && rc == 0; from += rc == 0 ? done : 0)
		rc = op_write(&rig, file->ino, 0, at * G4_PAGE_BYTES + from, bytes + from, pages * G4_PAGE_BYTES - from,
			      &done);
	return outcome(file, rc, false);
}

static int copy(const struct file *from, uint64_t first, struct file *to, uint64_t at, uint64_t pages)
{
	uint64_t in, out, copied = 0, done = 0;
	int rc = 0;

	pages = first < from->pages ? (pages < from->pages - first ? pages : from->pages - first) : 0;
	const uint32_t begin = find(from, first), count = find(from, first + pages) - begin;
	if (to->count + count > MOST || pages == 0)
		return 0;
	say("copy from", from, first, pages);
	say("to", to, at, pages);
	begin_change(to);
	struct page *page = splice(wanted, at, at + pages, count);
	for (uint32_t k = 0; k < count; k++)
		page[k] = (struct page){from->page[begin + k].at - first + at, from->page[begin + k].id};
	wanted->pages = wanted->pages > at + pages ? wanted->pages : at + pages;
	assert_int_equal(op_open(&rig, from->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to->ino, G4_OPEN_WRITE, &out), 0);
	for (; copied < pages * G4_PAGE_BYTES && rc == 0; copied += rc == 0 ? done : 0) {
		rc = op_copy_as(&rig, in, first * G4_PAGE_BYTES + copied, out, at * G4_PAGE_BYTES + copied,
				pages * G4_PAGE_BYTES - copied, G4_COPY_SHARE, &done);
		assert_true(rc != 0 || done > 0);
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return outcome(to, rc, false);
}

static int cut(struct file *file, uint64_t pages)
{
	say("cut", file, pages, 0);
	begin_change(file);
	wanted->count = find(wanted, pages);
	wanted->pages = pages;
	return outcome(file, op_truncate(&rig, file->ino, pages * G4_PAGE_BYTES), true);
}

static int change(struct file *file, uint32_t mode, uint64_t at, uint64_t pages)
{
	const bool shifts = mode & (G4_FALLOC_INSERT_RANGE | G4_FALLOC_COLLAPSE_RANGE);

	say(mode == G4_FALLOC_INSERT_RANGE   ? "insert" :
	    mode == G4_FALLOC_COLLAPSE_RANGE ? "collapse" :
	    mode & G4_FALLOC_PUNCH_HOLE	     ? "punch" :
	    mode & G4_FALLOC_ZERO_RANGE	     ? "zero" :
					       "allocate",
	    file, at, pages);
	begin_change(file);
	if (mode & (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE | G4_FALLOC_COLLAPSE_RANGE))
		(void)splice(wanted, at, at + pages, 0);
	if (shifts)
		move(wanted, at, pages, mode == G4_FALLOC_INSERT_RANGE);
	if (shifts)
		wanted->pages += mode == G4_FALLOC_INSERT_RANGE ? pages : 0 - pages;
	const int rc = op_fallocate(&rig, file->ino, mode, at * G4_PAGE_BYTES, pages * G4_PAGE_BYTES);
	return outcome(file, rc, !(mode & G4_FALLOC_PUNCH_HOLE));
}

/* An indirect page without anything on the way to a page that has nothing: one of level 1, or one of level 2. */
static void make_empty(struct file *file, uint64_t at, uint32_t level)
{
	struct g4_path path;
	struct g4_txn txn;
	uint32_t index;

	assert_int_equal(op_fsync(&rig, file->ino), 0);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, file->ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_write_lock(&inode->lock);
	if (!(inode->disk.flags & G4_INODE_INLINE) && inode->disk.map_height > level &&
	    at < g4_map_capacity_pages(inode->disk.map_height) && g4_map_own(rig.wg, rig.fs, inode, at, at + 1) == 0) {
		assert_int_equal(g4_begin(rig.wg, rig.fs, 60, &txn), 0);
		g4_path_start(&path, inode, at);
		int rc = 0;
		say("make empty", file, at, level);
		while (rc == 0 && path.level > level && (*path.slot == 0 || (*path.slot & G4_PTR_INDIRECT)))
			rc = g4_path_make(rig.wg, rig.fs, &txn, inode, &path, at, path.level - 1);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		g4_path_forget_below(rig.fs, &txn, &path);
		g4_path_put(rig.fs, &path);
		assert_int_equal(g4_end(rig.fs, &txn, g4_inode_log(rig.wg, rig.fs, &txn, inode)), 0);
	}
	g4_write_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
}

static void make_spacer(void)
{
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "spacer", G4_S_IFREG | 0600, &spacer), 0);
	spaces = 0;
}

/* The next page that is written lies so many further, if there is room. */
static void space(uint32_t pages)
{
	if (rig_free_pages(&rig) < 3 * pages + 4000)
		return;
	assert_int_equal(op_fallocate(&rig, spacer, 0, spaces * G4_PAGE_BYTES, pages * G4_PAGE_BYTES), 0);
	spaces += pages;
}

/* ------------------------------------------------------------------ any order */

/* Around the ends of pages of level 2, and of level 1. */
static uint64_t some_page(void)
{
	static const uint32_t slots[] = {0, 0, 1, 2, 5, 509, 510, 511}, pages[] = {0, 0, 1, 200, 510, 511};
	const uint64_t gib = any(40) == 0 ? 17 : any(4);

	return gib * GIB_PAGES + (uint64_t)slots[any(8)] * PART + pages[any(6)];
}

static uint64_t some_start(void)
{
	const uint64_t page = some_page();

	switch (any(4)) {
	case 0:
		return page / GIB_PAGES * GIB_PAGES;
	case 1:
	case 2:
		return page / PART * PART;
	default:
		return page;
	}
}

static uint64_t some_length(void)
{
	static const uint32_t parts[] = {1, 1, 2, 3, 509, 510, 511, 513};

	switch (any(6)) {
	case 0:
		return 1 + any(40);
	case 1:
		return (1 + any(2)) * GIB_PAGES;
	case 2:
		return 1 + any(3 * PART);
	default:
		return (uint64_t)parts[any(8)] * PART;
	}
}

static void step_shift(struct file *file)
{
	const uint64_t at = some_start(), pages = some_length();

	if (any(2) && at < file->pages && file->pages + pages < END)
		(void)change(file, G4_FALLOC_INSERT_RANGE, at, pages);
	else if (at + pages < file->pages)
		(void)change(file, G4_FALLOC_COLLAPSE_RANGE, at, pages);
}

static void step(void)
{
	struct file *file = &files[any(FILES)], *other = &files[any(FILES)];
	const uint64_t at = some_start();

	if (file->ino == 0) {
		make(file);
		return;
	}
	switch (any(20)) {
	case 0:
	case 1:
	case 2:
	case 3:
		(void)put(file, some_page(), 1 + (uint32_t)any(6));
		break;
	case 4:
		if (any(4) == 0)
			(void)put(file, at / PART * PART, PART);
		else if (spacer && spaces < 20000)
			space(200 + (uint32_t)any(400));
		else if (spacer && op_truncate(&rig, spacer, 0) == 0)
			spaces = 0;
		break;
	case 5:
	case 6:
	case 7:
		if (other != file && other->ino && other->count > 0 && cut(file, 0) == 0)
			(void)copy(other, 0, file, 0, END);
		break;
	case 8:
		if (other != file && other->ino)
			(void)copy(other, at / GIB_PAGES * GIB_PAGES, file, some_page() / GIB_PAGES * GIB_PAGES,
				   (1 + any(2)) * GIB_PAGES);
		break;
	case 9:
		if (other != file && other->ino)
			(void)copy(other, at / PART * PART, file, some_page() / PART * PART, (1 + any(3)) * PART);
		break;
	case 10:
	case 11:
		(void)change(file, PUNCH, at, any(2) ? some_length() : some_page() + 1);
		break;
	case 12:
		(void)change(file, (any(2) ? G4_FALLOC_ZERO_RANGE : 0) | G4_FALLOC_KEEP_SIZE, some_page(), 1 + any(6));
		break;
	case 13:
		if (file->pages > 0)
			(void)cut(file,
				  any(4) ? some_start() : file->pages - any(file->pages < 600 ? file->pages : 600));
		break;
	case 14:
		if (any(4) == 0)
			drop(file);
		break;
	case 15:
		if (makes_empty)
			make_empty(file, some_page(), any(3) == 0);
		break;
	case 16:
		assert_int_equal(op_fsync(&rig, file->ino), 0);
		break;
	default:
		step_shift(file);
	}
}

static void unmount(const char *when)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig.fs->dirty_pages, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, when);
}

static void any_order(uint32_t looks)
{
	const uint64_t steps = rig_setting("G4_MODEL_STEPS", 1200 / rig_every(4));

	for (uint64_t k = 1; k <= steps; k++) {
		step();
		assert_int_equal(rig.fs->journal.aborted, 0);
		if (tells == 1)
			expect_none_empty("behind a step");
		if (tells > 1 || k % looks == 0)
			compare_all();
		if (k % (3 * looks) == 0) {
			unmount("between steps");
			rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
			compare_all();
		}
	}
	compare_all();
	for (uint32_t n = 0; n < FILES; n++)
		if (files[n].ino)
			drop(&files[n]);
}

static void begin_as(uint32_t checksum, uint64_t device_bytes, bool empty)
{
	rig_open_as(&rig, checksum, 0, device_bytes, device_bytes > 100 * G4_MIB ? 6 * G4_MIB : 2 * G4_MIB);
	if (device_bytes > 100 * G4_MIB) /* transactions that can copy what lies apart */
		rig.cache_bytes = 32 * G4_MIB;
	spacer = 0;
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	files = calloc(FILES, sizeof(*files));
	wanted = calloc(1, sizeof(*wanted));
	bytes = rig_memory(PART * G4_PAGE_BYTES, 1);
	seed = rig_setting("G4_MODEL_SEED", 5);
	tells = rig_setting("G4_MODEL_TELLS", 0);
	last_id = names = refused = 0;
	makes_empty = empty;
}

static int setup(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 96 * G4_MIB, false);
	return 0;
}

static int setup_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 96 * G4_MIB, false);
	return 0;
}

static int setup_empty(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 96 * G4_MIB, true);
	return 0;
}

static int setup_empty_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 96 * G4_MIB, true);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 10 * G4_MIB, false);
	return 0;
}

static int setup_small_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 10 * G4_MIB, false);
	return 0;
}

static int setup_apart(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_NONE, 192 * G4_MIB, false);
	make_spacer();
	return 0;
}

static int setup_apart_sums(void **state)
{
	(void)state;
	begin_as(G4_CHECKSUM_BLAKE3, 192 * G4_MIB, false);
	make_spacer();
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
	free(wanted);
	free(bytes);
	return 0;
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	struct g4_statfs before, after;

	(void)state;
	assert_int_equal(op_statfs(&rig, &before), 0);
	any_order(40);
	if (spacer)
		assert_int_equal(op_truncate(&rig, spacer, 0), 0);
	unmount("when all has gone");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_in_range(after.blocks_free + RIG_MOST_SLABS, before.blocks_free, before.blocks_free + RIG_MOST_SLABS);
}

static void any_order_on_a_full_device(void **state)
{
	const uint64_t left = 150;
	uint64_t ino, at = 0;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "filler", G4_S_IFREG | 0600, &ino), 0);
	for (uint64_t n = rig_free_pages(&rig); n > left + 40; n = rig_free_pages(&rig), at++)
		assert_int_equal(op_write(&rig, ino, 0, at * 64 * G4_PAGE_BYTES, bytes,
					  (n - left < 64 ? n - left : 64) * G4_PAGE_BYTES, NULL),
				 0);
	any_order(20);
	if (rig_every(4) == 1)
		assert_true(refused > 20);
}

/* ------------------------------------------------------------------ one thing at a time */

/* A shared page of level 2 that leads to nothing but empty ones of level 1 is a hole, whatever part of it is looked at. */
static void a_page_of_level_2_that_leads_to_nothing_is_in_nobodys_way(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < FILES; n++)
		make(&files[n]);
	assert_int_equal(put(&files[0], 511 * PART + 7, 3), 0);
	assert_int_equal(put(&files[0], GIB_PAGES - 2, 1), 0);
	assert_int_equal(put(&files[0], 2 * GIB_PAGES + 3, 3), 0);
	make_empty(&files[0], GIB_PAGES + 1, 0);
	make_empty(&files[0], GIB_PAGES + PART + 1, 0);
	for (uint32_t n = 1; n < FILES; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, END), 0);
	compare_all();
	unmount("after copies");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(change(&files[1], G4_FALLOC_INSERT_RANGE, 0, PART), 0);		      /* up into it */
	assert_int_equal(change(&files[2], G4_FALLOC_COLLAPSE_RANGE, GIB_PAGES + 2 * PART, PART), 0); /* and down */
	assert_int_equal(change(&files[3], G4_FALLOC_ZERO_RANGE, GIB_PAGES + PART - 2, 6), 0);
	assert_int_equal(change(&files[4], G4_FALLOC_COLLAPSE_RANGE, 3, 2 * PART), 0);
	compare_all();
	assert_int_equal(put(&files[3], GIB_PAGES + 9, 3), 0);
	assert_int_equal(change(&files[4], PUNCH, GIB_PAGES - 40, GIB_PAGES), 0);
	compare_all();
}

/* The indirect page of a level on the way to a page: where it lies; 0: none. */
static uint64_t node_at(const struct file *file, uint64_t page, uint32_t level)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, file->ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	struct g4_path path;
	g4_path_start(&path, inode, page);
	while (path.level > level && (*path.slot & G4_PTR_INDIRECT))
		assert_int_equal(g4_path_down(rig.wg, rig.fs, inode, &path, page), 0);
	const bool found = path.level == level && (*path.slot & G4_PTR_INDIRECT);
	const uint64_t address = found ? g4_address_stored(g4_ptr_address(*path.slot)) : 0;
	g4_path_put(rig.fs, &path);
	g4_icache_put(rig.fs, index);
	return address;
}

/* In how many regions what a file has from one page to another lies. */
static uint32_t count_regions(const struct file *file, uint64_t from, uint64_t to)
{
	uint64_t last = UINT64_MAX;
	uint32_t regions = 0;

	for (uint32_t k = find(file, from); k < file->count && file->page[k].at < to; k++) {
		const uint64_t region = rig_place(&rig, file->ino, file->page[k].at) / G4_REGION_BYTES;
		regions += region != last;
		last = region;
	}
	return regions;
}

/* Single pages and short rows, each in a region of its own: the page that leads to them is shared, a copy of it counts them all. */
static void a_page_that_leads_to_many_regions_is_shared(void **state)
{
	const uint64_t begin = 2 * PART + GIB_PAGES;

	(void)state;
	for (uint32_t n = 0; n < FILES; n++)
		make(&files[n]);
	for (uint32_t k = 0; k < 24; k++) {
		assert_int_equal(put(&files[0], begin + 20 * (uint64_t)k, k % 3 == 0 ? 5 : 1), 0);
		assert_int_equal(op_fsync(&rig, files[0].ino), 0);
		space(500);
	}
	assert_int_equal(put(&files[0], begin + PART, PART), 0); /* a large one beside it */
	assert_int_equal(put(&files[0], begin + 2 * PART, 100), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(count_regions(&files[0], begin, begin + PART) > 8);
	const uint64_t free_pages = rig_free_pages(&rig);
	assert_int_equal(copy(&files[0], begin, &files[1], begin + PART, PART), 0); /* of level 1 */
	for (uint32_t n = 2; n < FILES; n++)
		assert_int_equal(copy(&files[0], 0, &files[n], 0, END), 0); /* of level 2 */
	assert_int_equal(node_at(&files[1], begin + PART, 1), node_at(&files[0], begin, 1));
	assert_int_equal(node_at(&files[2], begin, 2), node_at(&files[0], begin, 2));
	/* files[1] has its own way there; what counts owners */
	assert_in_range(free_pages - rig_free_pages(&rig), 2, 16);
	compare_all();
	unmount("after copies");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(put(&files[1], begin + PART + 40, 1), 0);
	assert_int_equal(put(&files[2], begin + 7, 1), 0);
	assert_int_equal(put(&files[3], begin + PART + 7, 1), 0);
	compare_all();
	assert_int_not_equal(node_at(&files[1], begin + PART, 1), node_at(&files[0], begin, 1));
	assert_int_not_equal(node_at(&files[2], begin, 2), node_at(&files[0], begin, 2));
	assert_int_not_equal(node_at(&files[3], begin, 2), node_at(&files[0], begin, 2));
	assert_int_equal(node_at(&files[3], begin, 1), node_at(&files[0], begin, 1));
	unmount("after changes");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t n = 0; n < FILES; n++) {
		drop(&files[n]);
		compare_all();
	}
	assert_in_range(rig_free_pages(&rig), free_pages, 2 * free_pages);
}

/* A mount whose transactions are the smallest shares less, and changes what others have shared, or says that there is no room. */
static void a_mount_with_little_cache_changes_what_is_shared_if_it_can(void **state)
{
	const uint64_t usual = rig.cache_bytes;

	(void)state;
	for (uint32_t n = 0; n < 4; n++)
		make(&files[n]);
	for (uint32_t k = 0; k < 24; k++) {
		assert_int_equal(put(&files[0], 20 * (uint64_t)k, 1), 0);
		assert_int_equal(op_fsync(&rig, files[0].ino), 0);
		space(500);
	}
	assert_int_equal(put(&files[0], GIB_PAGES, 1), 0);
	assert_int_equal(copy(&files[0], 0, &files[1], 0, END), 0);
	assert_int_equal(node_at(&files[1], 0, 1), node_at(&files[0], 0, 1));
	unmount("after a copy");
	rig.cache_bytes = 2 * G4_MIB;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(rig.fs->journal.max_blocks, G4_TXN_LEAST_BLOCKS);
	assert_int_equal(copy(&files[0], 0, &files[2], 0, END), 0);
	(void)put(&files[1], 3, 1);
	(void)put(&files[2], 3, 1);
	compare_all();
	assert_int_equal(cut(&files[1], 0), 0);
	unmount("of little cache");
	rig.cache_bytes = usual;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(put(&files[2], 4, 1), 0);
	compare_all();
}

static uint64_t filler;
static uint64_t filled;

/* Until not a page more finds space. */
static void fill_device(void)
{
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "filler", G4_S_IFREG | 0600, &filler), 0);
	assert_int_equal(op_sync(&rig), 0);
	filled = 0;
	for (uint64_t pages = 256; pages > 0;) {
		const int rc = op_fallocate(&rig, filler, 0, filled * G4_PAGE_BYTES, pages * G4_PAGE_BYTES);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		filled += rc == 0 ? pages : 0;
		pages = rc == 0 ? pages : pages / 2;
	}
	assert_int_equal(op_sync(&rig), 0);
}

static void free_a_page(void)
{
	assert_int_equal(op_truncate(&rig, filler, --filled * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0);
}

static void begin_full(void)
{
	for (uint32_t n = 0; n < FILES; n++)
		make(&files[n]);
	for (uint64_t gib = 0; gib < 18; gib += gib == 2 ? 15 : 1)
		for (uint32_t k = 0; k < 3; k++) {
			assert_int_equal(put(&files[0], gib * GIB_PAGES + (uint64_t)k * 3 * PART, 1), 0);
			assert_int_equal(put(&files[0], gib * GIB_PAGES + (uint64_t)k * 3 * PART + 8, 2), 0);
		}
	assert_int_equal(op_fsync(&rig, files[0].ino), 0);
}

/* However little space there is: the copy is there, or nothing of it, and no page is kept. */
static void a_copy_that_is_refused_leaves_nothing(void **state)
{
	static const uint64_t first[] = {0, GIB_PAGES, 17 * GIB_PAGES, 0, 3 * PART},
			      at[] = {0, 0, 20 * GIB_PAGES, PART, 17 * GIB_PAGES},
			      pages[] = {END, GIB_PAGES, GIB_PAGES, PART, 5};
	uint32_t before = 0;

	(void)state;
	begin_full();
	fill_device();
	for (uint32_t done = 0; done < 5;) {
		before = refused;
		done = 0;
		for (uint32_t n = 0; n < 5; n++) {
			const uint64_t free_pages = rig_free_pages(&rig);
			const int rc = copy(&files[0], first[n], &files[1], at[n], pages[n]);
			done += rc == 0;
			compare_all();
			if (files[1].count == 0 && rc != 0) /* in parts it may be there */
				assert_int_equal(rig_free_pages(&rig), free_pages);
			assert_int_equal(cut(&files[1], 0), 0);
			assert_int_equal(rig_free_pages(&rig), free_pages);
		}
		free_a_page();
	}
	assert_true(refused == before && refused > 0);
}

/* All of it gets new space, or nothing changes: what others have gives none back. */
static void zeros_that_are_refused_change_nothing(void **state)
{
	static const uint64_t at[] = {0, GIB_PAGES + 3 * PART - 10, 3 * PART, 2 * GIB_PAGES + 6 * PART + 8};
	static const uint64_t pages[] = {9, 22, 15, 2};
	bool shares_pages = true;

	(void)state;
	begin_full();
	assert_int_equal(copy(&files[0], 0, &files[1], 0, END), 0);
	assert_int_equal(copy(&files[0], 5, &files[2], 5, 3 * PART), 0); /* a page at a time */
	fill_device();
	for (uint32_t done = 0; done < 4;) {
		done = 0;
		for (uint32_t n = 0; n < 4; n++) {
			struct file *file = &files[n == 0 && shares_pages ? 2 : 1];
			if (change(file, G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE,
				   at[n] + (file == &files[2] ? 8 : 0), pages[n]) == 0) {
				done++;
				assert_int_equal(cut(file, 0), 0);
				assert_int_equal(op_sync(&rig), 0);
				(void)copy(&files[0], 0, file, 0, END);
			}
			compare_all();
		}
		shares_pages = !shares_pages;
		if (filled < 2)
			break;
		free_a_page();
	}
	assert_true(refused > 0 && filled > 2);
}

/* What is a hole by then is no more than before: where it is zeroed with few pages free, it is with more; and with none, where the file alone has it. */
static void zeros_need_no_more_with_more_room(void **state)
{
	const uint32_t ways = 110;
	bool done = false;

	(void)state;
	make(&files[0]);
	assert_int_equal(put(&files[0], 0, 100), 0);
	assert_int_equal(op_sync(&rig), 0);
	fill_device();
	for (uint32_t k = 0; k < ways; k++) {
		const int rc = op_fallocate(&rig, files[0].ino, G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE,
					    G4_PAGE_BYTES / 2, 99 * G4_PAGE_BYTES);
		if (rc != 0 && (rc != -G4_E_NOSPC || done))
			fail_msg("%d after %u pages were freed", rc, k);
		done |= rc == 0;
		assert_int_equal(op_sync(&rig), 0);
		free_a_page();
	}
	assert_true(done);
}

static void a_large_page_is_zeroed_on_a_full_device(void **state)
{
	(void)state;
	make(&files[0]);
	assert_int_equal(put(&files[0], 0, PART), 0);
	assert_int_equal(put(&files[0], GIB_PAGES, 1), 0);
	assert_int_equal(op_sync(&rig), 0);
	fill_device();
	assert_int_equal(op_fallocate(&rig, files[0].ino, G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE, 0,
				      PART * G4_PAGE_BYTES),
			 0);
}

/* One of level 2 with sums of a large page, and 16 of level 1 in as many regions: with the smallest transactions it is copied all the same. */
static void many_regions_are_copied_by_small_transactions(void **state)
{
	const uint64_t usual = rig.cache_bytes;
	uint64_t other, spread = 0;

	(void)state;
	make(&files[0]);
	make(&files[1]);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	for (uint32_t k = 0; k < 16; k++) {
		assert_int_equal(put(&files[0], k * PART + 7, 1), 0);
		assert_int_equal(op_fsync(&rig, files[0].ino), 0);
		for (uint32_t i = 0; i < 260; i++, spread++) /* each with an indirect page of its own */
			assert_int_equal(
				op_write(&rig, other, 0, spread * PART * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, other), 0);
	}
	assert_int_equal(put(&files[0], 40 * PART, PART), 0);
	assert_int_equal(put(&files[0], GIB_PAGES, 1), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(copy(&files[0], 0, &files[1], 0, END), 0);
	assert_int_equal(node_at(&files[1], 0, 2), node_at(&files[0], 0, 2));
	unmount("copied");
	rig.cache_bytes = 2 * G4_MIB;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(rig.fs->journal.max_blocks < 112);
	assert_int_equal(op_write(&rig, files[1].ino, 0, 7 * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fallocate(&rig, files[1].ino, PUNCH, 7 * G4_PAGE_BYTES, G4_PAGE_BYTES), 0);
	assert_int_equal(op_truncate(&rig, files[1].ino, (40 * PART + 3) * G4_PAGE_BYTES), 0);
	unmount("changed");
	rig.cache_bytes = usual;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

int main(void)
{
#define TEST_AS(name, how, begins)                                                                                     \
	{                                                                                                              \
#name how, name, begins, teardown, NULL                                                                \
	}
	const struct CMUnitTest tests[] = {
		TEST_AS(zeros_need_no_more_with_more_room, "", setup_small),
		TEST_AS(zeros_need_no_more_with_more_room, " with sums", setup_small_sums),
		TEST_AS(a_large_page_is_zeroed_on_a_full_device, "", setup_small),
		TEST_AS(a_large_page_is_zeroed_on_a_full_device, " with sums", setup_small_sums),
		TEST_AS(many_regions_are_copied_by_small_transactions, " with sums", setup_apart_sums),
		TEST_AS(a_page_of_level_2_that_leads_to_nothing_is_in_nobodys_way, "", setup_empty),
		TEST_AS(a_page_of_level_2_that_leads_to_nothing_is_in_nobodys_way, " with sums", setup_empty_sums),
		TEST_AS(a_page_that_leads_to_many_regions_is_shared, "", setup_apart),
		TEST_AS(a_page_that_leads_to_many_regions_is_shared, " with sums", setup_apart_sums),
		TEST_AS(a_mount_with_little_cache_changes_what_is_shared_if_it_can, "", setup_apart),
		TEST_AS(a_mount_with_little_cache_changes_what_is_shared_if_it_can, " with sums", setup_apart_sums),
		TEST_AS(a_copy_that_is_refused_leaves_nothing, "", setup_small),
		TEST_AS(a_copy_that_is_refused_leaves_nothing, " with sums", setup_small_sums),
		TEST_AS(zeros_that_are_refused_change_nothing, "", setup_small),
		TEST_AS(zeros_that_are_refused_change_nothing, " with sums", setup_small_sums),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, "", setup),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with sums", setup_sums),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with pages that lead to nothing",
			setup_empty),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with such pages and sums", setup_empty_sums),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with what lies apart", setup_apart),
		TEST_AS(any_order_of_changes_leaves_what_the_model_has, " with sums of what lies apart",
			setup_apart_sums),
		TEST_AS(any_order_on_a_full_device, "", setup_small),
		TEST_AS(any_order_on_a_full_device, " with sums", setup_small_sums),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("map_high", tests, NULL, NULL);
}
