/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many files made of few pages: threads write, cut, punch, remove and make their files, copy by reference from everybody's, copies of
 * copies among them, and others share what is the same and dig holes beside them. Each thread knows what its files have. At the end all
 * is there, each of the contents has exactly one page on the device, which as many lead to as the model has pages of it, the checker counts
 * the same owners and the same space, and when the files have gone the space is what it was.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define WRITERS 3u
#define DEDUPERS 2u
#define FILES 8u       /* of a writer */
#define FILE_PAGES 48u /* more than an inode's own slots */
#define CONTENTS 24u

struct file {
	uint64_t ino;		  /* others read it */
	uint32_t has[FILE_PAGES]; /* 0: zeros, or a hole */
	uint64_t pages;
};

struct worker {
	pthread_t thread;
	struct rig rig; /* with its own workgroup */
	uint32_t number;
	uint64_t seed, done; /* pages that were shared */
	struct file files[FILES];
	uint8_t page[FILE_PAGES * G4_PAGE_BYTES];
};

static struct rig rig;
static uint8_t contents[CONTENTS + 1][G4_PAGE_BYTES];
static struct worker workers[WRITERS + DEDUPERS];

static uint32_t pick(struct worker *worker, uint64_t below)
{
	return (uint32_t)((rig_random(&worker->seed) >> 11) % below);
}

/* ---------------------------------------------------------------------------------------------------- a writer's files */

static void make(struct worker *worker, uint32_t f)
{
	struct file *file = &worker->files[f];
	char name[32];
	uint64_t ino;

	snprintf(name, sizeof(name), "w%u-%u", worker->number, f);
	assert_int_equal(op_mknod(&worker->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	memset(file->has, 0, sizeof(file->has));
	file->pages = 0;
	g4_store64_rel(&file->ino, ino);
}

static void unmake(struct worker *worker, uint32_t f)
{
	char name[32];

	snprintf(name, sizeof(name), "w%u-%u", worker->number, f);
	assert_int_equal(op_unlink(&worker->rig, G4_NODE_ROOT, name), 0);
}

/* What is in the file, which nobody else changes. */
static void read_file(struct worker *worker, const struct file *file, uint64_t pages)
{
	uint64_t done;

	assert_int_equal(op_read(&worker->rig, file->ino, 0, 0, worker->page, sizeof(worker->page), &done), 0);
	assert_int_equal(done, pages * G4_PAGE_BYTES);
}

static void expect_file(struct worker *worker, const struct file *file)
{
	read_file(worker, file, file->pages);
	for (uint64_t page = 0; page < file->pages; page++)
		assert_memory_equal(worker->page + page * G4_PAGE_BYTES, contents[file->has[page]], G4_PAGE_BYTES);
}

static uint32_t which(const uint8_t *page)
{
	for (uint32_t k = 0; k <= CONTENTS; k++)
		if (memcmp(page, contents[k], G4_PAGE_BYTES) == 0)
			return k;
	fail_msg("a page that nobody has written");
	return 0;
}

static void write_some(struct worker *worker, struct file *file)
{
	const uint64_t first = pick(worker, FILE_PAGES), count = 1 + pick(worker, g4_min64(8, FILE_PAGES - first));

	for (uint64_t k = 0; k < count; k++) {
		file->has[first + k] = pick(worker, CONTENTS + 1);
		memcpy(worker->page + k * G4_PAGE_BYTES, contents[file->has[first + k]], G4_PAGE_BYTES);
	}
	assert_int_equal(op_write(&worker->rig, file->ino, 0, first * G4_PAGE_BYTES, worker->page,
				  count * G4_PAGE_BYTES, NULL),
			 0);
	file->pages = g4_max64(file->pages, first + count);
}

static void cut(struct worker *worker, struct file *file)
{
	const uint64_t pages = pick(worker, FILE_PAGES);

	assert_int_equal(op_truncate(&worker->rig, file->ino, pages * G4_PAGE_BYTES), 0);
	memset(&file->has[pages], 0, (FILE_PAGES - pages) * sizeof(file->has[0]));
	file->pages = pages;
}

static void punch(struct worker *worker, struct file *file)
{
	const uint64_t first = pick(worker, FILE_PAGES - 4), count = 1 + pick(worker, 4);

	assert_int_equal(op_fallocate(&worker->rig, file->ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
				      first * G4_PAGE_BYTES, count * G4_PAGE_BYTES),
			 0);
	memset(&file->has[first], 0, count * sizeof(file->has[0]));
}

/* Two handles, or false: one of the files is just removed. */
static bool open_two(struct worker *worker, uint64_t from, uint64_t to, uint64_t *in, uint64_t *out)
{
	if (op_open(&worker->rig, from, G4_OPEN_READ, in) < 0)
		return false;
	if (op_open(&worker->rig, to, G4_OPEN_WRITE, out) == 0)
		return true;
	assert_int_equal(op_release(&worker->rig, *in), 0);
	return false;
}

static void close_two(struct worker *worker, uint64_t in, uint64_t out)
{
	assert_int_equal(op_release(&worker->rig, in), 0);
	assert_int_equal(op_release(&worker->rig, out), 0);
}

static const struct file *any_file(struct worker *worker)
{
	return &workers[pick(worker, WRITERS)].files[pick(worker, FILES)];
}

/* From anybody's file, which may change meanwhile: what has come is looked at, and is the model's then. */
static void copy_some(struct worker *worker, struct file *file)
{
	const struct file *source = any_file(worker);
	const uint64_t from = g4_load64_acq(&source->ino), first = pick(worker, FILE_PAGES),
		       at = pick(worker, FILE_PAGES), count = 1 + pick(worker, FILE_PAGES - g4_max64(first, at));
	uint64_t in, out, done;

	if (source == file || !open_two(worker, from, file->ino, &in, &out))
		return;
	assert_int_equal(op_copy_as(&worker->rig, in, first * G4_PAGE_BYTES, out, at * G4_PAGE_BYTES,
				    count * G4_PAGE_BYTES, 0, &done),
			 0);
	close_two(worker, in, out);
	assert_int_equal(done % G4_PAGE_BYTES, 0);
	if (done == 0)
		return;
	worker->done += done / G4_PAGE_BYTES;
	file->pages = g4_max64(file->pages, at + done / G4_PAGE_BYTES);
	read_file(worker, file, file->pages);
	for (uint64_t page = 0; page < file->pages; page++) {
		const uint32_t has = which(worker->page + page * G4_PAGE_BYTES);
		if (page < at || page >= at + done / G4_PAGE_BYTES)
			assert_int_equal(has, file->has[page]);
		file->has[page] = has;
	}
}

static void *write_files(void *user)
{
	struct worker *worker = (struct worker *)user;

	for (uint32_t i = 0; i < 1200 / rig_every(4); i++) {
		const uint32_t f = pick(worker, FILES), what = pick(worker, 32);
		struct file *file = &worker->files[f];

		if (what < 13) {
			write_some(worker, file);
		} else if (what < 22) {
			copy_some(worker, file);
		} else if (what < 24) {
			cut(worker, file);
		} else if (what < 26) {
			punch(worker, file);
		} else if (what < 28) {
			unmake(worker, f);
			make(worker, f);
		} else if (what < 31) {
			assert_int_equal(op_fsync(&worker->rig, file->ino), 0);
		} else {
			assert_int_equal(op_sync(&worker->rig), 0);
		}
		expect_file(worker, file);
	}
	return NULL;
}

/* ---------------------------------------------------------------------------------------------------- offline */

/* So many pages are the same, and one then; `from` and `to` may be one page: zeros become a hole. */
static uint64_t share(struct worker *worker, uint64_t from, uint64_t from_page, uint64_t to, uint64_t to_page,
		      uint64_t count, uint32_t flags)
{
	uint64_t in, out, done = 0;

	if (!open_two(worker, from, to, &in, &out))
		return 0;
	assert_int_equal(op_copy_as(&worker->rig, in, from_page * G4_PAGE_BYTES, out, to_page * G4_PAGE_BYTES,
				    count * G4_PAGE_BYTES, G4_COPY_SAME | flags, &done),
			 0);
	close_two(worker, in, out);
	return done / G4_PAGE_BYTES;
}

static void *dedupe(void *user)
{
	struct worker *worker = (struct worker *)user;

	for (uint32_t i = 0; i < 2500 / rig_every(4); i++) {
		const struct file *source = any_file(worker), *target = any_file(worker);
		const uint64_t from = pick(worker, FILE_PAGES), to = pick(worker, FILE_PAGES),
			       count = 1 + pick(worker, g4_min64(4, FILE_PAGES - g4_max64(from, to)));
		const uint64_t ino = g4_load64_acq(&target->ino);

		if (i % 8 == 0)
			(void)share(worker, ino, to, ino, to, count, G4_COPY_ZEROS);
		else if (source != target)
			worker->done += share(worker, g4_load64_acq(&source->ino), from, ino, to, count,
					      i % 16 == 1 ? G4_COPY_COMPARE : 0);
	}
	return NULL;
}

/* ---------------------------------------------------------------------------------------------------- the model's space */

/* One page for each of the contents, and none for zeros. */
static void dedupe_all(struct worker *worker)
{
	const struct file *first[CONTENTS + 1] = {NULL};
	uint64_t page_of[CONTENTS + 1];

	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t f = 0; f < FILES; f++)
			for (uint64_t page = 0; page < workers[w].files[f].pages; page++) {
				const struct file *file = &workers[w].files[f];
				const uint32_t has = file->has[page];
				if (has == 0) {
					assert_int_equal(
						share(worker, file->ino, page, file->ino, page, 1, G4_COPY_ZEROS), 1);
				} else if (first[has] == NULL) {
					first[has] = file;
					page_of[has] = page;
				} else {
					assert_int_equal(
						share(worker, first[has]->ino, page_of[has], file->ino, page, 1, 0), 1);
				}
			}
}

/* The device has exactly the pages that the model says, and they are where they are looked for. */
static void expect_space(void)
{
	uint64_t place[CONTENTS + 1] = {0};
	struct g4_run run;

	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t f = 0; f < FILES; f++)
			for (uint64_t page = 0; page < workers[w].files[f].pages; page++) {
				const uint32_t has = workers[w].files[f].has[page];
				rig_run_at(&rig, workers[w].files[f].ino, page, &run);
				if (has == 0) {
					assert_int_equal(run.kind, G4_HOLE);
					continue;
				}
				assert_int_equal(run.kind, G4_WRITTEN);
				if (place[has] == 0)
					place[has] = g4_address_stored(run.address);
				assert_int_equal(g4_address_stored(run.address), place[has]);
			}
	for (uint32_t a = 1; a <= CONTENTS; a++)
		for (uint32_t b = a + 1; b <= CONTENTS; b++)
			assert_true(place[a] == 0 || place[a] != place[b]);
}

static void each(void (*make_or_not)(struct worker *worker, uint32_t f))
{
	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t f = 0; f < FILES; f++)
			make_or_not(&workers[w], f);
}

static void expect_all(void)
{
	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t f = 0; f < FILES; f++)
			expect_file(&workers[w], &workers[w].files[f]);
}

/* Each page of each file is there once: what the slabs of names, inodes and sums take stays. */
static void fill_and_empty(void)
{
	each(make);
	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t f = 0; f < FILES; f++) {
			struct worker *worker = &workers[w];
			for (uint64_t page = 0; page < FILE_PAGES; page++)
				memcpy(worker->page + page * G4_PAGE_BYTES, contents[1 + page % CONTENTS],
				       G4_PAGE_BYTES);
			assert_int_equal(op_write(&worker->rig, worker->files[f].ino, 0, 0, worker->page,
						  sizeof(worker->page), NULL),
					 0);
			assert_int_equal(op_fsync(&worker->rig, worker->files[f].ino), 0);
		}
	each(unmake);
}

static void attach(void)
{
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++) {
		struct g4_wg *wg = workers[k].rig.wg;
		workers[k].rig = rig;
		workers[k].rig.wg = wg;
	}
}

/* Mounted again: a workgroup keeps the slab that it makes inodes in until the unmount. */
static void mount_again(const char *when)
{
	const uint64_t free_pages = rig_free_pages(&rig);

	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, free_pages, when);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	attach();
}

static void many_files_of_few_pages(void **state)
{
	uint64_t shared = 0;

	(void)state;
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++) {
		memset(&workers[k], 0, sizeof(workers[k]));
		workers[k].rig.wg = g4_wg_create(1 + k);
		workers[k].number = k;
		workers[k].seed = 1000 * rig_setting("G4_TEST_SEED", 1) + k;
	}
	for (uint32_t k = 1; k <= CONTENTS; k++)
		rig_pattern(contents[k], k, G4_PAGE_BYTES);
	attach();
	fill_and_empty();
	mount_again("without files");
	const uint64_t empty = rig_free_pages(&rig);
	each(make);
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++)
		assert_int_equal(
			pthread_create(&workers[k].thread, NULL, k < WRITERS ? write_files : dedupe, &workers[k]), 0);
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++) {
		pthread_join(workers[k].thread, NULL);
		shared += workers[k].done;
	}
	print_message("%llu pages were shared\n", (unsigned long long)shared);
	assert_true(shared > 1000 / rig_every(4));
	expect_all();
	dedupe_all(&workers[0]);
	expect_all();
	expect_space();

	mount_again("with one page for each of the contents"); /* the checker counts owners and space by itself */
	expect_all();
	expect_space();
	each(unmake);
	mount_again("when all has gone");
	assert_int_equal(rig_free_pages(&rig), empty);
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++)
		g4_wg_destroy(workers[k].rig.wg);
}

static int begin(uint32_t checksum, uint32_t dedup)
{
	rig_begin_as(&rig, checksum, dedup, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_offline(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3, 0);
}

static int setup_inline(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3, 1);
}

static int setup_crc32c(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_CRC32C, 0);
}

static int setup_none(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_NONE, 0);
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

int main(void)
{
#define TEST(how)                                                                                                      \
	{                                                                                                              \
		"many_files_of_few_pages (" #how ")", many_files_of_few_pages, setup_##how, teardown, NULL             \
	}
	const struct CMUnitTest tests[] = {TEST(offline), TEST(inline), TEST(crc32c), TEST(none)};

	return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
