/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single bits. On an image with sums of every algorithm, and with files whose sums are in the inode, in a block, in pages of sums and in
 * those of pages of 2 MiB, and with pages that are listed, each bit that means something is flipped, one at a time:
 *
 *   metadata   every bit of every page: fsck finds it; and of some the image is mounted and everything read, and what is given is what
 *              was written, or an error
 *   contents   one bit in 64 of every page: the read of that page is an error, and never gives the bit
 *   places     pages that change places, within a file and between files, that are what they were before, or that are lost: the same
 *
 * Every page that the maps call used is one or the other, so that none is left out. A sample runs with the other tests; all of it with
 * FLIPS_FULL=1 (make check-flips, scripts/flips.sh), in so many parts side by side with FLIPS_SLICES and FLIPS_SLICE. FLIPS_METADATA=n:
 * one bit of metadata in n.
 */
#include <inttypes.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "data/map.h"
#include "engine/rig.h"
#include "fsck/fsck.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define PAGE_BITS (G4_PAGE_BYTES * 8)
#define CONTENT_STEP 64u /* bits */
/* The sample: one state in so many, primes, so that all bits of a byte have their turn. */
#define METADATA_SAMPLE 2003u
#define VISIT_SAMPLE 64027u
#define VISIT_FULL 2003u
#define CONTENT_SAMPLE 61u

static const char *const algorithms[] = {"blake3", "xxh3", "crc32c"};
#define KINDS (sizeof(algorithms) / sizeof(algorithms[0]) + 1) /* and pages that are listed, with BLAKE3 */
#define LISTED (KINDS - 1)
static const uint64_t sizes[] = {100, 4096, 2 * 4096 + 77, 7 * 4096, 16 * 4096, 17 * 4096, 150 * 4096 + 1, 4 * G4_MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define FILES (SIZES * KINDS)

struct file {
	uint64_t ino, bytes, seed;
	uint64_t dir;
	char name[24];
};
struct content { /* a page of a file */
	uint32_t file;
	uint64_t page, address;
};

static struct rig rig;
static struct g4_layout layout;
static uint32_t tag;
static struct file files[FILES];
static uint64_t metadata[4096];
static uint32_t metadata_count;
static struct content *contents;
static uint32_t content_count;
static uint64_t slices, slice;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void must(int code, const char *what)
{
	if (code < 0)
		die("%s: %s", what, g4_strerror(code));
}

/* ------------------------------------------------------------------ the image */

static uint8_t *bytes_of(const struct file *file)
{
	return rig_memory(g4_align_up(file->bytes, G4_PAGE_BYTES), file->seed);
}

static void make_file(uint32_t index, uint64_t dir, uint32_t size)
{
	struct file *file = &files[index];
	uint64_t done;

	file->bytes = sizes[size];
	file->seed = 1000 + index;
	file->dir = dir;
	snprintf(file->name, sizeof(file->name), "file %u", size);
	uint8_t *bytes = bytes_of(file);
	must(op_mknod(&rig, dir, file->name, S_IFREG | 0644, &file->ino), "mknod");
	if (size % 2) { /* an older version of it: in place of most of its pages another one is written */
		must(op_write(&rig, file->ino, 0, 0, bytes + file->bytes / 2, file->bytes / 2, &done), "write");
		must(op_sync(&rig), "sync");
	}
	for (uint64_t at = 0; at < file->bytes; at += done)
		must(op_write(&rig, file->ino, 0, at, bytes + at, file->bytes - at, &done), "write");
	free(bytes);
}

static void populate(void)
{
	static char value[9000], target[700];
	uint64_t dir, ino;
	char name[64];

	memset(value, 'v', sizeof(value));
	memset(target, 't', sizeof(target) - 1);
	for (uint32_t a = 0; a < KINDS; a++) {
		const char *algorithm = algorithms[a == LISTED ? 0 : a];
		must(op_mkdir(&rig, G4_NODE_ROOT, a == LISTED ? "listed" : algorithm, 0755, &dir), "mkdir");
		must(op_setxattr(&rig, dir, "gpu4fs.checksum", algorithm, strlen(algorithm), 0), "checksum");
		if (a == LISTED)
			must(op_setxattr(&rig, dir, "gpu4fs.dedup", "on", 2, 0), "dedup");
		for (uint32_t s = 0; s < SIZES; s++)
			make_file(a * SIZES + s, dir, s);
	}
	must(op_setxattr(&rig, files[1].ino, "user.large", value, sizeof(value), 0), "attribute");
	must(op_setxattr(&rig, files[2].ino, "user.small", value, 200, 0), "attribute");
	must(op_link(&rig, files[3].ino, G4_NODE_ROOT, "link"), "link");
	must(op_symlink(&rig, G4_NODE_ROOT, "short", "target", &ino), "symlink");
	must(op_mkdir(&rig, G4_NODE_ROOT, "many", 0755, &dir), "mkdir");
	for (uint32_t i = 0; i < 120; i++) { /* an index, leaves */
		snprintf(name, sizeof(name), "one of many with a long name %u", i);
		must(op_mknod(&rig, dir, name, S_IFREG | 0644, &ino), "mknod");
	}
	must(op_sync(&rig), "sync");
	for (uint32_t a = 0; a < LISTED; a++) {
		struct g4_run run;
		rig_run_at(&rig, files[a * SIZES + SIZES - 1].ino, 0, &run);
		if (run.level != 1)
			die("there is no page of 2 MiB");
	}
}

static const struct g4_alloc_page *map_of(uint64_t group)
{
	return (const struct g4_alloc_page *)(void *)(rig.image + layout.alloc_address + group * G4_PAGE_BYTES);
}

static bool is_used(uint64_t page)
{
	const struct g4_alloc_page *map = map_of(page / G4_GROUP_PAGES);
	const uint64_t in = page % G4_GROUP_PAGES;

	return map->header.type == G4_BLOCK_ALLOC &&
	       (map->regions[in / G4_REGION_PAGES].used[in % G4_REGION_PAGES / 64] >> in % 64 & 1) != 0;
}

static void add_metadata(uint64_t address)
{
	if (metadata_count == sizeof(metadata) / sizeof(metadata[0]))
		die("too much metadata");
	metadata[metadata_count++] = address;
}

static void find_contents(void)
{
	uint32_t room = 0;

	for (uint32_t f = 0; f < FILES; f++)
		room += (uint32_t)g4_pages_for(files[f].bytes);
	contents = calloc(room, sizeof(*contents));
	for (uint32_t f = 0; f < FILES; f++) {
		for (uint64_t page = 0; files[f].bytes > G4_INLINE_BYTES && page < g4_pages_for(files[f].bytes);
		     page++) {
			struct g4_run run;
			rig_run_at(&rig, files[f].ino, page, &run);
			if (run.kind != G4_WRITTEN)
				die("file %u has a hole", f);
			contents[content_count++] =
				(struct content){.file = f, .page = page, .address = g4_address_stored(run.address)};
		}
	}
}

static bool is_content(uint64_t address)
{
	for (uint32_t i = 0; i < content_count; i++)
		if (contents[i].address == address)
			return true;
	return false;
}

/* All that is in use and not contents. The image is not mounted. */
static void find_metadata(void)
{
	static uint8_t copy[G4_PAGE_BYTES];

	add_metadata(G4_SUPERBLOCK_ADDRESS);
	add_metadata(layout.backup_address);
	add_metadata(layout.journal_address);
	for (uint64_t page = 0; page < layout.groups_pages; page++)
		add_metadata(layout.groups_address + page * G4_PAGE_BYTES);
	for (uint64_t group = 0; group < layout.group_count; group++)
		if (map_of(group)->header.type == G4_BLOCK_ALLOC)
			add_metadata(layout.alloc_address + group * G4_PAGE_BYTES);
	add_metadata(layout.root_address);
	for (uint64_t at = layout.data_address; at < layout.backup_address; at += G4_PAGE_BYTES) {
		if (!is_used(at / G4_PAGE_BYTES) || at == layout.root_address || is_content(at))
			continue;
		memcpy(copy, rig.image + at, sizeof(copy));
		if (g4_block_generation(copy, g4_address_from(at), tag) == 0)
			die("the page at 0x%" PRIx64 " is in use, and neither metadata nor contents", at);
		add_metadata(at);
	}
}

/* ------------------------------------------------------------------ metadata */

static uint64_t problems(void)
{
	static struct g4_fsck fsck; /* too large for a stack */
	static FILE *nowhere;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];
	uint64_t found = 1;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	memset(&fsck, 0, sizeof(fsck));
	fsck.out = nowhere;
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* a check reads all of the image into memory */
	if (g4_image_open(&image, rig.name, message, sizeof(message)) < 0)
		return 1; /* it says so */
	if (g4_image_load_overlay(&image, &journal) == 0 && g4_fsck_run(&fsck, &image, &journal) == 0)
		found = fsck.problems;
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return found;
}

/* What is read of a file is what was written, or an error. */
static void read_file(const struct file *file)
{
	static uint8_t page[G4_PAGE_BYTES];
	const uint64_t step = file->bytes > 64 * G4_PAGE_BYTES ? 37 : 1;
	struct g4_attr attr;
	uint64_t done;

	if (op_lookup(&rig, file->dir, file->name, &attr) < 0)
		return;
	uint8_t *bytes = bytes_of(file);
	if (attr.ino != file->ino || attr.size != file->bytes)
		die("%s is another file", file->name);
	for (uint64_t at = 0; at < file->bytes; at += step * G4_PAGE_BYTES) {
		const uint64_t wanted = g4_min64(G4_PAGE_BYTES, file->bytes - at);
		if (op_read(&rig, attr.ino, 0, at, page, wanted, &done) < 0)
			continue;
		if (done != wanted || memcmp(page, bytes + at, wanted) != 0)
			die("%s, byte %" PRIu64 ": something else is read", file->name, at);
	}
	free(bytes);
}

static void visit(void)
{
	if (rig_try_mount(&rig, G4_MOUNT_READ_ONLY, NULL) < 0)
		return;
	for (uint32_t f = 0; f < FILES; f++)
		read_file(&files[f]);
	(void)rig_unmount(&rig);
}

static void flip_metadata(uint64_t every, uint64_t visit_every)
{
	uint64_t tried = 0, visited = 0;

	for (uint64_t state = slice * every; state < (uint64_t)metadata_count * PAGE_BITS; state += slices * every) {
		uint8_t *byte = rig.image + metadata[state / PAGE_BITS] + state % PAGE_BITS / 8;
		const uint8_t bit = (uint8_t)(1u << state % 8);
		*byte ^= bit;
		if (problems() == 0)
			die("bit %" PRIu64 " of the page at 0x%" PRIx64 ": fsck finds nothing", state % PAGE_BITS,
			    metadata[state / PAGE_BITS]);
		if (tried++ % (visit_every / every) == 0) {
			visit();
			visited++;
		}
		*byte ^= bit;
	}
	printf("metadata: %" PRIu64 " bits of %u pages, all found by fsck; with %" PRIu64 " everything was read\n",
	       tried, metadata_count, visited);
}

/* ------------------------------------------------------------------ contents */

/* A read of the page is an error; else the test is over. */
static void must_fail(const struct content *content, const char *what)
{
	static uint8_t page[G4_PAGE_BYTES];
	const uint64_t at = content->page * G4_PAGE_BYTES, ino = files[content->file].ino;
	uint64_t done = 0;
	const int rc = op_read(&rig, ino, 0, at, page, g4_min64(sizeof(page), files[content->file].bytes - at), &done);

	if (rc != -G4_E_DATA)
		die("file %u, page %" PRIu64 ", %s: a read gives %d", content->file, content->page, what, rc);
}

/* From the last page to the first, so that none is read ahead; what can not be read is not cached. */
static void flip_contents(uint64_t every)
{
	uint64_t state = 0, tried = 0;

	for (uint32_t i = content_count; i-- > 0;) {
		if (i % slices != slice)
			continue;
		uint8_t *page = rig.image + contents[i].address;
		for (uint64_t n = 0; n < PAGE_BITS / CONTENT_STEP; n++) {
			const uint64_t bit = n * CONTENT_STEP + (n + i) % CONTENT_STEP;
			if (state++ % every != 0)
				continue;
			page[bit / 8] ^= (uint8_t)(1u << bit % 8);
			must_fail(&contents[i], "with a flipped bit");
			page[bit / 8] ^= (uint8_t)(1u << bit % 8);
			tried++;
		}
	}
	printf("contents: %" PRIu64 " bits of %u pages, each an error of its read\n", tried, content_count);
}

static void exchange(uint8_t *a, uint8_t *b)
{
	static uint8_t page[G4_PAGE_BYTES];

	memcpy(page, a, sizeof(page));
	memcpy(a, b, sizeof(page));
	memcpy(b, page, sizeof(page));
}

/* Another page, within the file or in another one; what was there before it was written; nothing. */
static void move_contents(uint64_t every)
{
	static uint8_t page[G4_PAGE_BYTES];
	uint64_t tried = 0;

	for (uint32_t i = content_count; i-- > 1;) {
		if (i % slices != slice || i / slices % every != 0)
			continue;
		uint8_t *here = rig.image + contents[i].address;
		const uint32_t others[] = {i - 1, (i + content_count / 3) % content_count};
		for (uint32_t k = 0; k < 2; k++) {
			uint8_t *there = rig.image + contents[others[k]].address;
			exchange(here, there);
			must_fail(&contents[i], "in another's place");
			exchange(here, there);
			memcpy(page, here, sizeof(page));
			memcpy(here, there, sizeof(page)); /* a write that went astray */
			must_fail(&contents[i], "with another's contents");
			memcpy(here, page, sizeof(page));
			tried += 2;
		}
		memcpy(page, here, sizeof(page));
		memset(here, 0, sizeof(page)); /* a write that never came */
		must_fail(&contents[i], "as it was before");
		memcpy(here, page, sizeof(page));
		memset(here + 512, 0x5a, 512); /* a sector that never came */
		must_fail(&contents[i], "with an old sector");
		memcpy(here, page, sizeof(page));
		tried += 2;
	}
	printf("places: %" PRIu64 " pages swapped, astray or old, each an error of its read\n", tried);
}

/* A page that is what the file had there before, which also was right once. */
static void go_back(void)
{
	uint64_t tried = 0, done;

	for (uint32_t f = 0; f < FILES; f++) {
		const uint64_t pages = g4_min64(g4_pages_for(files[f].bytes), 40);
		static uint8_t old[40 * G4_PAGE_BYTES], fresh[G4_PAGE_BYTES];
		if (files[f].bytes <= G4_INLINE_BYTES || f % slices != slice)
			continue;
		for (uint64_t page = 0; page < pages; page++) {
			struct g4_run run;
			rig_run_at(&rig, files[f].ino, page, &run);
			memcpy(old + page * G4_PAGE_BYTES, rig.image + g4_address_stored(run.address), G4_PAGE_BYTES);
		}
		rig_pattern(fresh, 99 + f, sizeof(fresh));
		for (uint64_t page = 0; page < pages; page++)
			must(op_write(&rig, files[f].ino, 0, page * G4_PAGE_BYTES, fresh,
				      g4_min64(sizeof(fresh), files[f].bytes - page * G4_PAGE_BYTES), &done),
			     "write");
	}
	must(op_sync(&rig), "sync");
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t f = 0; f < FILES; f++) {
		if (files[f].bytes <= G4_INLINE_BYTES || f % slices != slice)
			continue;
		uint8_t *bytes = bytes_of(&files[f]);
		for (uint64_t page = g4_min64(g4_pages_for(files[f].bytes), 40); page-- > 0;) {
			const struct content content = {.file = f, .page = page};
			uint8_t was[G4_PAGE_BYTES] = {0}, now[G4_PAGE_BYTES];
			struct g4_run run;
			rig_run_at(&rig, files[f].ino, page, &run);
			uint8_t *here = rig.image + g4_address_stored(run.address);
			memcpy(was, bytes + page * G4_PAGE_BYTES,
			       g4_min64(G4_PAGE_BYTES, files[f].bytes - page * G4_PAGE_BYTES));
			memcpy(now, here, sizeof(now));
			memcpy(here, was, sizeof(was));
			must_fail(&content, "as an older version");
			memcpy(here, now, sizeof(now));
			tried++;
		}
		free(bytes);
	}
	printf("versions: %" PRIu64 " pages as the file had them before, each an error of its read\n", tried);
}

/* Nothing is left of it all. */
static void read_all(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t f = 0; f < FILES; f++) {
		static uint8_t found[4 * G4_MIB];
		uint8_t *bytes = bytes_of(&files[f]);
		uint64_t done = 0;
		for (uint64_t at = 0; at < files[f].bytes; at += done)
			must(op_read(&rig, files[f].ino, 0, at, found + at, files[f].bytes - at, &done), "read");
		if (memcmp(found, bytes, files[f].bytes) != 0)
			die("file %u is another now", f);
		free(bytes);
	}
}

int main(void)
{
	const bool full = rig_setting("FLIPS_FULL", 0) != 0;
	const uint64_t slow = rig_slow() ? 10 : 1;
	const uint64_t every = rig_setting("FLIPS_METADATA", full ? 1 : METADATA_SAMPLE * slow);

	slices = rig_setting("FLIPS_SLICES", 1);
	slice = rig_setting("FLIPS_SLICE", 0);
	/* a check takes the memory of the one before: half of its time was the kernel's, for new pages */
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
	(void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
	(void)mallopt(M_TOP_PAD, 64 << 20);
	setenv("G4_TEST_CHECKSUM", "1", 1);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	layout = rig.fs->meta.layout;
	tag = rig.fs->meta.fs_tag;
	populate();
	find_contents();
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	find_metadata();
	if (problems() != 0)
		die("the image is not whole");
	flip_metadata(every, g4_max64(every, full ? VISIT_FULL : VISIT_SAMPLE * slow));
	if (problems() != 0)
		die("the image is not what it was");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	flip_contents(full ? 1 : CONTENT_SAMPLE * slow);
	move_contents(full ? 1 : 7 * slow);
	read_all();
	go_back();
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(contents);
	return 0;
}
