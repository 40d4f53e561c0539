/* SPDX-License-Identifier: Apache-2.0 */
/* The page cache alone, and what it spares the device. */
#include "rig.h"

#include <pthread.h>
#include <sys/mman.h>

#include "cache/cache.h"
#include "fs/fs.h"

#define LINES 512u
#define THREADS 4u

static struct g4_cache cache;
static struct g4_line *lines;
static struct g4_cache_set *sets;
static struct g4_note *notes;
static uint8_t *frames;
static uint32_t *places;

static int setup(void **state)
{
	(void)state;
	places = (uint32_t *)calloc(LINES, sizeof(*places));
	assert_non_null(places);
	lines = (struct g4_line *)calloc(LINES, sizeof(*lines));
	sets = (struct g4_cache_set *)calloc(g4_cache_sets_for(LINES), sizeof(*sets));
	notes = (struct g4_note *)calloc(LINES, sizeof(*notes));
	frames = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, LINES * G4_PAGE_BYTES);
	assert_non_null(lines);
	assert_non_null(sets);
	assert_non_null(notes);
	assert_non_null(frames);
	g4_cache_init(&cache, lines, frames, places, sets, notes, LINES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(lines);
	free(sets);
	free(notes);
	free(frames);
	free(places);
	return 0;
}

static uint32_t fill_as(uint64_t owner, uint64_t index, bool alone)
{
	bool fresh;
	uint32_t line = g4_cache_get(NULL, &cache, owner, index, alone, &fresh);

	if (line != G4_NO_LINE && fresh)
		g4_cache_filled(&cache, line);
	return line;
}

static uint32_t fill(uint64_t owner, uint64_t index)
{
	return fill_as(owner, index, false);
}

static uint64_t page_of(uint32_t line)
{
	uint64_t at = (uint64_t)((uint8_t *)g4_line_data(&cache, line) - frames);

	assert_int_equal(at % G4_PAGE_BYTES, 0);
	assert_true(at < LINES * G4_PAGE_BYTES);
	return at / G4_PAGE_BYTES;
}

static void a_line_that_was_filled_is_found(void **state)
{
	bool fresh;

	(void)state;
	assert_int_equal(g4_cache_find(&cache, 1, 5), G4_NO_LINE);
	uint32_t line = g4_cache_get(NULL, &cache, 1, 5, false, &fresh);
	assert_true(fresh);
	g4_cache_filled(&cache, line);
	g4_cache_put(&cache, line);
	assert_int_equal(g4_cache_find(&cache, 1, 5), line);
	g4_cache_put(&cache, line);
	assert_int_equal(g4_cache_get(NULL, &cache, 1, 5, false, &fresh), line);
	assert_false(fresh);
	g4_cache_put(&cache, line);
	assert_int_equal(g4_cache_find(&cache, 2, 5), G4_NO_LINE);
	g4_cache_drop(&cache, 1, 5);
	assert_int_equal(g4_cache_find(&cache, 1, 5), G4_NO_LINE);
}

static void a_fill_that_failed_leaves_nothing(void **state)
{
	bool fresh;

	(void)state;
	uint32_t line = g4_cache_get(NULL, &cache, 1, 5, false, &fresh);
	assert_true(fresh);
	g4_cache_abort(&cache, line);
	assert_int_equal(g4_cache_find(&cache, 1, 5), G4_NO_LINE);
	line = g4_cache_get(NULL, &cache, 1, 5, false, &fresh);
	assert_true(fresh);
	g4_cache_filled(&cache, line);
	g4_cache_put(&cache, line);
}

static void unreferenced_lines_are_replaced_and_referenced_ones_are_not(void **state)
{
	uint32_t kept = fill(1, 0);

	(void)state;
	for (uint64_t index = 1; index < 10 * LINES; index++) {
		uint32_t line = fill(1, index);
		assert_int_not_equal(line, G4_NO_LINE);
		assert_int_not_equal(line, kept);
		g4_cache_put(&cache, line);
	}
	assert_int_equal(g4_cache_find(&cache, 1, 0), kept);
	g4_cache_put(&cache, kept);
	g4_cache_put(&cache, kept);
	assert_int_equal(g4_cache_find(&cache, 1, 1), G4_NO_LINE);
}

static uint32_t lines_with_pages_of_their_own(bool alone)
{
	bool seen[LINES] = {false};
	uint32_t count = 0, line;

	for (uint64_t index = 0; (line = fill_as(1, index, alone)) != G4_NO_LINE;
	     index++) { /* none is put back: up to the last one */
		assert_false(seen[page_of(line)]);
		seen[page_of(line)] = true;
		count++;
	}
	return count;
}

static void every_line_has_a_page_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(lines_with_pages_of_their_own(false), LINES);
	teardown(state);
	setup(state);
	assert_int_equal(lines_with_pages_of_their_own(true), LINES);
	teardown(state);
	setup(state);
	cache.frame_numbers = NULL; /* as the CUDA engine wants it */
	assert_int_equal(lines_with_pages_of_their_own(false), LINES);
}

/* Memory is touched as the cache fills, not all over from the first pages on. */
static void pages_lie_in_the_order_in_which_they_came(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20; i++) { /* those that come alone do not come between the others */
		assert_int_equal(page_of(fill(1 + i, 1000 * i)), i);
		assert_int_equal(page_of(fill_as(100 + i, 1000 * i, true)), cache.alone_first + i);
	}
}

/* Tags of one set: neighbours in a set lie set_count apart. */
static void a_full_set_borrows_and_gives_back(void **state)
{
	uint32_t held[LINES], count = 0, pool = LINES - cache.overflow_first;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (count = 0;; count++) {
			held[count] = fill(1, (uint64_t)count * cache.set_count);
			if (held[count] == G4_NO_LINE)
				break;
		}
		assert_int_equal(count, G4_CACHE_WAYS + pool);
		for (uint32_t k = 0; k < count; k++) {
			assert_int_equal(g4_cache_find(&cache, 1, (uint64_t)k * cache.set_count), held[k]);
			g4_cache_put(&cache, held[k]);
		}
		/* another set can have the pool as soon as it is given back, in any order */
		for (uint32_t k = 0; k < count; k++)
			g4_cache_put(&cache, held[(k * 5 + round) % count]);
	}
}

#if G4_CACHE_POLICY == G4_CACHE_S3FIFO
/* A page that left a short time ago comes into the main queue, also when the first who asked for it got no line. */
static void a_page_without_a_line_is_known_as_before(void **state)
{
	const uint32_t pool = LINES - cache.overflow_first;
	uint32_t held[LINES];

	(void)state;
	for (uint32_t k = 0; k <= G4_CACHE_WAYS; k++)
		g4_cache_put(&cache, fill(1, (uint64_t)k * cache.set_count));
	assert_int_equal(g4_cache_find(&cache, 1, 0), G4_NO_LINE); /* it has left */
	for (uint32_t k = 1; k <= G4_CACHE_WAYS + pool; k++) {
		held[k] = fill(1, (uint64_t)k * cache.set_count);
		assert_int_not_equal(held[k], G4_NO_LINE);
	}
	assert_int_equal(fill(1, 0), G4_NO_LINE);
	for (uint32_t k = 1; k <= G4_CACHE_WAYS + pool; k++)
		g4_cache_put(&cache, held[k]);
	held[0] = fill(1, 0);
	assert_int_not_equal(held[0], G4_NO_LINE);
	assert_int_equal(lines[held[0]].queue, G4_CACHE_MAIN);
	g4_cache_put(&cache, held[0]);
}
#endif

static void a_range_is_forgotten_and_nothing_else(void **state)
{
	(void)state;
	for (uint64_t index = 0; index < 50; index++)
		g4_cache_put(&cache, fill(1, index));
	g4_cache_put(&cache, fill(2, 20));
	uint32_t used = fill(1, 20);
	g4_cache_drop_range(&cache, 1, 10, 30);
	g4_cache_drop_range(&cache, 1, 40, UINT64_MAX);
	for (uint64_t index = 0; index < 50; index++) {
		uint32_t line = g4_cache_find(&cache, 1, index);
		bool stays = index < 10 || (index >= 30 && index < 40);
		assert_int_equal(line != G4_NO_LINE, stays);
		if (line != G4_NO_LINE)
			g4_cache_put(&cache, line);
	}
	g4_cache_put(&cache, used);
	uint32_t other = g4_cache_find(&cache, 2, 20);
	assert_int_not_equal(other, G4_NO_LINE);
	g4_cache_put(&cache, other);
}

/* A holder of a dropped page keeps what it looks at; the next request for the page gets a new one. */
static void a_dropped_page_in_use_loses_its_name_and_keeps_its_contents(void **state)
{
	uint32_t held[2 * G4_CACHE_WAYS], count = 2 * G4_CACHE_WAYS, pool = 0;

	(void)state;
	/* all of one set, so that half of them lie in lines of the pool */
	for (uint32_t k = 0; k < count; k++) {
		held[k] = fill(1, (uint64_t)k * cache.set_count);
		*(uint32_t *)g4_line_data(&cache, held[k]) = k;
	}
	g4_cache_drop_range(&cache, 1, 0, UINT64_MAX);
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(g4_cache_find(&cache, 1, (uint64_t)k * cache.set_count), G4_NO_LINE);
		assert_int_equal(*(uint32_t *)g4_line_data(&cache, held[k]), k);
	}
	for (uint32_t k = 0; k < count; k++) {
		uint32_t again = fill(1, (uint64_t)k * cache.set_count);
		assert_int_not_equal(again, held[k]);
		g4_cache_put(&cache, again);
		assert_int_equal(*(uint32_t *)g4_line_data(&cache, held[k]), k);
	}
	for (uint32_t k = 0; k < count; k++)
		g4_cache_put(&cache, held[k]);
	for (uint32_t i = cache.pool; i != G4_NO_LINE; i = lines[i].chain)
		pool++;
	assert_int_equal(pool, LINES - cache.overflow_first);
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(lines[i].state & (G4_LINE_REFS | G4_LINE_BUSY), 0);
}

static void metadata_in_use_is_not_dropped(void **state)
{
	uint32_t line = fill(0, 7);

	(void)state;
	g4_cache_drop(&cache, 0, 7);
	assert_int_equal(g4_cache_find(&cache, 0, 7), line);
	g4_cache_put(&cache, line);
	g4_cache_put(&cache, line);
	g4_cache_drop(&cache, 0, 7);
	assert_int_equal(g4_cache_find(&cache, 0, 7), G4_NO_LINE);
}

static void a_peek_finds_what_is_whole_and_waits_for_nothing(void **state)
{
	uint32_t held[G4_CACHE_WAYS + 1];
	bool fresh;

	(void)state;
	assert_int_equal(g4_cache_peek(&cache, 1, 5), G4_NO_LINE);
	uint32_t line = g4_cache_get(NULL, &cache, 1, 5, false, &fresh);
	assert_true(fresh);
	assert_int_equal(g4_cache_peek(&cache, 1, 5), G4_NO_LINE);
	g4_cache_filled(&cache, line);
	assert_int_equal(g4_cache_peek(&cache, 1, 5), line);
	assert_int_equal(lines[line].state & G4_LINE_REFS, 2);
	g4_cache_put(&cache, line);
	assert_int_equal(g4_cache_peek(&cache, 1, 5), line);
	assert_true(g4_cache_put_way(&cache, line));
	g4_cache_put(&cache, line);
	/* a line of the pool would need a lock */
	for (uint32_t k = 0; k <= G4_CACHE_WAYS; k++)
		held[k] = fill(2, (uint64_t)k * cache.set_count);
	assert_true(held[G4_CACHE_WAYS] >= cache.overflow_first);
	assert_int_equal(g4_cache_peek(&cache, 2, (uint64_t)G4_CACHE_WAYS * cache.set_count), G4_NO_LINE);
	assert_false(g4_cache_put_way(&cache, held[G4_CACHE_WAYS]));
	for (uint32_t k = 0; k <= G4_CACHE_WAYS; k++)
		g4_cache_put(&cache, held[k]);
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(lines[i].state & G4_LINE_REFS, 0);
}

static void pins_leave_half_of_the_pool(void **state)
{
	uint32_t held[LINES], pool = LINES - cache.overflow_first, count = 0;

	(void)state;
	while (g4_cache_pin(&cache, 1)) {
		held[count] = fill(1, (uint64_t)count * cache.set_count);
		assert_int_not_equal(held[count], G4_NO_LINE);
		count++;
	}
	assert_int_equal(count, pool / 2);
	for (uint32_t k = 0; k < pool / 2; k++) { /* in the very same set */
		uint32_t line = fill(0, (uint64_t)k * cache.set_count);
		assert_int_not_equal(line, G4_NO_LINE);
		g4_cache_put(&cache, line);
	}
	g4_cache_unpin(&cache, held[--count]);
	assert_true(g4_cache_pin(&cache, 1));
	g4_cache_unpin_none(&cache, 1);
	/* several at a time: all or none */
	assert_false(g4_cache_pin(&cache, 2));
	g4_cache_unpin(&cache, held[--count]);
	assert_false(g4_cache_pin(&cache, UINT32_C(1) << 20));
	assert_true(g4_cache_pin(&cache, 2));
	assert_false(g4_cache_pin(&cache, 1));
	g4_cache_unpin_none(&cache, 2);
	while (count > 0)
		g4_cache_unpin(&cache, held[--count]);
	assert_int_equal(cache.pins, 0);
}

/* ------------------------------------------------------------------ many at once */

#define TAGS 3000u
static uint32_t filling[TAGS];

struct worker {
	pthread_t thread;
	uint64_t random, wrong, misses;
};

static void *use_lines(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t steps = rig_slow() ? 20000 : 200000;

	for (uint64_t n = 0; n < steps; n++) {
		uint64_t tag =
			rig_random(&w->random) % 8 ? rig_random(&w->random) % 100 : rig_random(&w->random) % TAGS;
		bool fresh;
		uint32_t line = g4_cache_get(NULL, &cache, 7, tag, false, &fresh);
		if (line == G4_NO_LINE)
			continue;
		uint64_t *data = (uint64_t *)g4_line_data(&cache, line);
		if (fresh) {
			w->misses++;
			w->wrong += g4_xchg32(&filling[tag], 1) != 0;
			for (uint32_t k = 0; k < 16; k++)
				data[k * 32] = tag;
			g4_store32_rel(&filling[tag], 0);
			if (rig_random(&w->random) % 50 == 0) {
				g4_cache_abort(&cache, line);
				continue;
			}
			g4_cache_filled(&cache, line);
		}
		for (uint32_t k = 0; k < 16; k++)
			w->wrong += data[k * 32] != tag;
		if (rig_random(&w->random) % 200 == 0)
			g4_cache_drop(&cache, 7, rig_random(&w->random) % TAGS);
		g4_cache_put(&cache, line);
	}
	return NULL;
}

static void threads_see_each_page_filled_once_and_whole(void **state)
{
	struct worker workers[THREADS];

	(void)state;
	for (uint32_t k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.random = k + 1};
		assert_int_equal(pthread_create(&workers[k].thread, NULL, use_lines, &workers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].wrong, 0);
		assert_true(workers[k].misses > 0);
	}
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(lines[i].state & (G4_LINE_REFS | G4_LINE_BUSY), 0);
	uint32_t pooled = 0;
	for (uint32_t i = cache.pool; i != G4_NO_LINE; i = lines[i].chain)
		pooled++;
	assert_int_equal(pooled, LINES - cache.overflow_first);
}

struct reader {
	pthread_t thread;
	struct rig *rig;
	uint64_t ino;
	int rc;
};

static void *read_page(void *argument)
{
	struct reader *r = (struct reader *)argument;
	uint8_t page[4096];
	uint64_t done;

	r->rc = op_read(r->rig, r->ino, 0, 20 * 4096, page, sizeof(page), &done);
	return NULL;
}

/* A mounted image with one file, filled with a pattern that is left in `data`. */
static uint64_t open_with_file(struct rig *rig, uint8_t *data, uint64_t bytes)
{
	uint64_t ino;

	rig_open(rig, 16 * G4_MIB, 0);
	rig_mount(rig);
	assert_int_equal(op_mknod(rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	rig_pattern(data, 1, bytes);
	assert_int_equal(op_write(rig, ino, 0, 0, data, bytes, NULL), 0);
	return ino;
}

static void concurrent_readers_of_a_page_read_the_device_once(void **state)
{
	const struct g4_fault slow = {.delay_ns = 20000000};
	struct reader readers[THREADS];
	uint64_t ino, before, after, writes, flushes;
	static uint8_t data[21 * 4096];
	struct rig rig;

	(void)state;
	ino = open_with_file(&rig, data, sizeof(data));
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_NOATIME, &slow), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, data, 1, NULL), 0); /* its inode is in memory now */
	g4_dev_fault_counts(rig.fault, &before, &writes, &flushes);
	for (uint32_t k = 0; k < THREADS; k++) {
		readers[k] = (struct reader){.rig = &rig, .ino = ino};
		assert_int_equal(pthread_create(&readers[k].thread, NULL, read_page, &readers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(readers[k].thread, NULL);
		assert_int_equal(readers[k].rc, 0);
	}
	g4_dev_fault_counts(rig.fault, &after, &writes, &flushes);
	assert_int_equal(after - before, 1);
	rig_close(&rig);
}

/* A caller that keeps what it reads, as a kernel does, is not to have the cache filled with a second copy. */
static void random_reads_of_who_caches_itself_leave_the_cache_alone(void **state)
{
	enum { PAGES = 64 };
	static uint8_t data[PAGES * 4096] __attribute__((aligned(4096))), page[4096] __attribute__((aligned(4096)));
	uint64_t ino, handle, done;
	struct rig rig;

	(void)state;
	ino = open_with_file(&rig, data, sizeof(data));
	for (uint32_t keeps = 0; keeps < 2; keeps++) {
		const struct g4_fault counting = {0};
		uint64_t before, once, twice, writes, flushes;
		assert_int_equal(rig_unmount(&rig), 0);
		assert_int_equal(rig_try_mount(&rig, G4_MOUNT_NOATIME, &counting), 0);
		assert_int_equal(op_open(&rig, ino, G4_OPEN_READ | (keeps ? G4_OPEN_DIRECT : 0), &handle), 0);
		assert_int_equal(op_read(&rig, ino, handle, 0, page, 1, &done), 0); /* its map is known now */
		for (uint32_t round = 0; round < 2; round++) {
			g4_dev_fault_counts(rig.fault, round ? &once : &before, &writes, &flushes);
			for (uint64_t n = PAGES - 1; n >= PAGES / 2; n--) {
				assert_int_equal(op_read(&rig, ino, handle, n * 4096, page, sizeof(page), &done), 0);
				assert_int_equal(done, sizeof(page));
				assert_memory_equal(page, data + n * 4096, sizeof(page));
			}
		}
		g4_dev_fault_counts(rig.fault, &twice, &writes, &flushes);
		assert_int_equal(once - before, PAGES / 2);
		assert_int_equal(twice - once, keeps ? PAGES / 2 : 0);
		assert_int_equal(op_release(&rig, handle), 0);
	}
	rig_close(&rig);
}

static void counted(struct rig *rig, struct g4_cache_use *before, uint64_t hits, uint64_t misses)
{
	static struct g4_health health;
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .length = sizeof(health), .data = &health};

	assert_int_equal(g4_engine_execute(rig->engine, &list), 0);
	assert_int_equal(health.cache.data_hits - before->data_hits, hits);
	assert_int_equal(health.cache.data_misses - before->data_misses, misses);
	*before = health.cache;
}

static uint64_t happened(const struct g4_cache_counts *counts, const struct g4_cache_counts *before,
			 enum g4_cache_event event)
{
	return counts->events[event] - before->events[event];
}

static void what_becomes_of_misses_is_counted(void **state)
{
	struct g4_cache_counts counts, before;
	uint32_t held[LINES], n;

	(void)state;
	g4_cache_put(&cache, fill(1, 0));
	g4_cache_count_all(&cache, &before);
	assert_int_equal(before.events[G4_CACHE_COLD_MISS], 1);
	for (uint64_t index = 0; index < 4 * LINES; index++)
		g4_cache_put(&cache, fill(2, index));
	g4_cache_count_all(&cache, &counts);
	assert_int_equal(happened(&counts, &before, G4_CACHE_COLD_MISS), cache.overflow_first - 1);
	assert_int_equal(happened(&counts, &before, G4_CACHE_CLEAN_MISS), 4 * LINES - (cache.overflow_first - 1));
	assert_int_equal(happened(&counts, &before, G4_CACHE_BORROWED), 0);
	/* one set's lines and then the pool's, until there are none */
	before = counts;
	for (n = 0; (held[n] = fill(3, (uint64_t)n * cache.set_count)) != G4_NO_LINE; n++)
		;
	g4_cache_count_all(&cache, &counts);
	assert_int_equal(n, G4_CACHE_WAYS + LINES - cache.overflow_first);
	assert_int_equal(happened(&counts, &before, G4_CACHE_CLEAN_MISS), G4_CACHE_WAYS);
	assert_int_equal(happened(&counts, &before, G4_CACHE_BORROWED), LINES - cache.overflow_first);
	assert_int_equal(happened(&counts, &before, G4_CACHE_NO_LINE), 1);
	assert_int_equal(happened(&counts, &before, G4_CACHE_LOCKED_HIT), 0);
	/* what was borrowed is found behind the lock */
	const uint32_t borrowed = g4_cache_find(&cache, 3, (uint64_t)(n - 1) * cache.set_count);
	assert_int_equal(borrowed, held[n - 1]);
	g4_cache_put(&cache, borrowed);
	before = counts;
	g4_cache_count_all(&cache, &counts);
	assert_int_equal(happened(&counts, &before, G4_CACHE_LOCKED_HIT), 1);
	while (n-- > 0)
		g4_cache_put(&cache, held[n]);
}

/* By those who want pages of a file, and not by what was read with them. */
static void pages_that_reads_want_are_counted(void **state)
{
	enum { PAGES = 64 };
	static uint8_t data[PAGES * 4096] __attribute__((aligned(4096)));
	const struct g4_fault none = {0};
	struct g4_cache_use counts = {0};
	uint64_t ino, handle, done;
	struct rig rig;

	(void)state;
	ino = open_with_file(&rig, data, sizeof(data));
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_NOATIME, &none), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
	counted(&rig, &counts, 0, 0);
	assert_int_equal(op_read(&rig, ino, handle, 8 * 4096, data, 4 * 4096, &done), 0);
	counted(&rig, &counts, 0, 4); /* by one request */
	assert_int_equal(op_read(&rig, ino, handle, 9 * 4096 + 1, data, 4096, &done), 0);
	counted(&rig, &counts, 2, 0);
	assert_int_equal(op_read(&rig, ino, handle, 10 * 4096, data, 4 * 4096, &done), 0);
	counted(&rig, &counts, 2, 2);
	assert_int_equal(op_read(&rig, ino, handle, 14 * 4096, data, 100, &done), 0); /* sequential: more comes in */
	counted(&rig, &counts, 0, 1);
	assert_int_equal(op_read(&rig, ino, handle, 15 * 4096, data, 100, &done), 0);
	counted(&rig, &counts, 1, 0);
	assert_int_equal(op_read(&rig, ino, handle, PAGES * 4096, data, 100, &done), 0); /* behind the end */
	counted(&rig, &counts, 0, 0);
	assert_true(counts.metadata_hits > 0);
	assert_true(counts.metadata_misses > 0);
	assert_true(counts.cold_misses > 0);
	assert_int_equal(counts.clean_misses, 0);
	assert_int_equal(counts.bytes % G4_PAGE_BYTES, 0);
	assert_int_equal(op_release(&rig, handle), 0);
	rig_close(&rig);
}

/* ------------------------------------------------------------------ pages that get no line */

static struct rig alone; /* without an engine */
static uint64_t alone_ino;
static int written;

static struct g4_cache_counts counts_of_alone(void)
{
	struct g4_cache_counts counts;

	g4_cache_count_all(&alone.fs->cache, &counts);
	return counts;
}

/* Nobody gets a line from here on; returns the pool. */
static uint32_t take_all_lines(struct g4_cache *of)
{
	for (uint32_t i = 0; i < of->overflow_first; i++)
		g4_cache_ref(of, i);
	g4_lock(&of->pool_lock);
	const uint32_t pool = of->pool;
	of->pool = G4_NO_LINE;
	g4_unlock(&of->pool_lock);
	return pool;
}

static void give_all_lines(struct g4_cache *of, uint32_t pool)
{
	g4_lock(&of->pool_lock);
	of->pool = pool;
	g4_unlock(&of->pool_lock);
	for (uint32_t i = 0; i < of->overflow_first; i++)
		g4_cache_put(of, i);
}

/* The set of a page is the rest of a division, though none is made: with few sets, many, and numbers about multiples of them. */
static void a_page_has_the_set_that_the_rest_of_a_division_names(void **state)
{
	(void)state;
	for (uint32_t count = 64; count <= LINES; count += count < 80 ? 1 : 61) {
		memset(lines, 0, LINES * sizeof(*lines));
		memset(sets, 0, g4_cache_sets_for(LINES) * sizeof(*sets));
		memset(places, 0, LINES * sizeof(*places));
		g4_cache_init(&cache, lines, frames, places, sets, notes, count);
		for (uint32_t i = 0; i < 400; i++) {
			const uint64_t owner = i % 4 ? i : UINT64_C(1) << (i % 64);
			uint64_t x = owner * UINT64_C(0x9e3779b97f4a7c15), index = i;
			x ^= x >> 29;
			if (i % 3) /* about the largest multiple, or 0 */
				index = (i % 3 == 1 ? UINT64_MAX - UINT64_MAX % cache.set_count : 0) - x + i % 5 - 2;
			const uint32_t line = fill(owner, index);
			assert_true(line < cache.overflow_first);
			assert_int_equal(line / G4_CACHE_WAYS, (x + index) % cache.set_count);
			g4_cache_put(&cache, line);
		}
	}
}

static void *write_page(void *page)
{
	written = op_write(&alone, alone_ino, 0, UINT64_C(9) * 4096, page, 4096, NULL);
	return NULL;
}

static void pages_that_get_no_line_are_counted(void **state)
{
	static uint8_t data[4 * 4096], page[4096];
	struct g4_cache_counts before, now;
	uint64_t done;
	uint32_t pool, line;
	pthread_t thread;

	(void)state;
	rig_begin(&alone, 16 * G4_MIB, 0, NULL);
	struct g4_cache *of = &alone.fs->cache;
	assert_int_equal(op_mknod(&alone, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &alone_ino), 0);
	rig_pattern(data, 1, sizeof(data));
	assert_int_equal(op_write(&alone, alone_ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&alone), 0);
	assert_int_equal(op_read(&alone, alone_ino, 0, 0, page, 4096, &done), 0); /* its map is known */
	for (uint32_t i = 0; i < of->line_count; i++)
		if (of->lines[i].owner != 0)
			g4_cache_drop(of, of->lines[i].owner, of->lines[i].index);
	/* a page of a file is had without one, metadata is not */
	before = counts_of_alone();
	pool = take_all_lines(of);
	assert_int_equal(op_read(&alone, alone_ino, 0, 4096, page, 4096, &done), 0);
	assert_memory_equal(page, data + 4096, 4096);
	now = counts_of_alone();
	assert_int_equal(now.without[G4_CACHE_DATA] - before.without[G4_CACHE_DATA], 1);
	assert_int_equal(now.misses[G4_CACHE_DATA] - before.misses[G4_CACHE_DATA], 1);
	assert_int_equal(now.without[G4_CACHE_METADATA] - before.without[G4_CACHE_METADATA], 0);
	assert_int_equal(g4_meta_get(alone.wg, &alone.fs->meta, g4_page_address(alone.bytes / 4096 - 3),
				     G4_BLOCK_DIR_LEAF, &line),
			 -G4_E_NOMEM);
	assert_int_equal(counts_of_alone().without[G4_CACHE_METADATA] - now.without[G4_CACHE_METADATA], 1);
	assert_int_equal(counts_of_alone().waited - before.waited, 0);
	give_all_lines(of, pool);
	/* a page that is written waits for one; who has waited too long tells so, and is run again */
	do {
		before = counts_of_alone();
		pool = take_all_lines(of);
		assert_int_equal(pthread_create(&thread, NULL, write_page, data), 0);
		while (counts_of_alone().events[G4_CACHE_NO_LINE] == before.events[G4_CACHE_NO_LINE])
			g4_pause();
		give_all_lines(of, pool);
		assert_int_equal(pthread_join(thread, NULL), 0);
		now = counts_of_alone();
		assert_int_equal(now.waited - before.waited, written == 0);
		assert_int_equal(now.without[G4_CACHE_DATA] - before.without[G4_CACHE_DATA], written != 0);
	} while (written == -G4_E_NOMEM);
	assert_int_equal(written, 0);
	rig_end(&alone);
}

/* ------------------------------------------------------------------ memory that is touched before it is used */

#define MANY_LINES (12 * G4_CACHE_TOUCH_PAGES)

/* How many pages from `first` on have memory. */
static uint32_t with_memory(const uint8_t *memory, uint32_t first, uint32_t count)
{
	static unsigned char in[MANY_LINES];
	uint32_t n = 0;

	assert_int_equal(mincore((void *)(uintptr_t)(memory + (uint64_t)first * G4_PAGE_BYTES),
				 (size_t)count * G4_PAGE_BYTES, in),
			 0);
	for (uint32_t k = 0; k < count; k++)
		n += in[k] & 1;
	return n;
}

/* Linux 5.14; an emulated one may not. */
static bool kernel_can_touch(void)
{
#ifdef MADV_POPULATE_WRITE
	void *page = mmap(NULL, G4_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	const bool can = madvise(page, G4_PAGE_BYTES, MADV_POPULATE_WRITE) == 0;
	munmap(page, G4_PAGE_BYTES);
	return can;
#else
	return false;
#endif
}

/* Nothing before a mount has used half of the first 2 MiB; then the next two of these, and no more until others are used. */
static void pages_have_memory_before_they_come_in(void **state)
{
	const uint64_t bytes = (uint64_t)MANY_LINES * G4_PAGE_BYTES;
	struct g4_line *many = (struct g4_line *)calloc(MANY_LINES, sizeof(*many));
	struct g4_cache_set *of_many = (struct g4_cache_set *)calloc(g4_cache_sets_for(MANY_LINES), sizeof(*of_many));
	struct g4_note *many_notes = (struct g4_note *)calloc(MANY_LINES, sizeof(*many_notes));
	uint32_t *numbers = (uint32_t *)calloc(MANY_LINES, sizeof(*numbers));
	uint8_t *memory = (uint8_t *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t touched = 0, index = 0;

	(void)state;
	assert_true(many && of_many && many_notes && numbers && memory != MAP_FAILED);
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* so that what is touched is what has memory */
	g4_cache_init(&cache, many, memory, numbers, of_many, many_notes, MANY_LINES);
	for (; cache.numbered[0] < G4_CACHE_TOUCH_PAGES / 2 - 1; index++)
		g4_cache_put(&cache, fill(1, index));
	assert_int_equal(cache.coming, 0);
	assert_false(g4_cache_touch(&cache, &touched));
	for (; cache.numbered[0] < G4_CACHE_TOUCH_PAGES / 2; index++)
		g4_cache_put(&cache, fill(1, index));
	assert_int_equal(cache.coming, 1);
	assert_true(g4_cache_touch(&cache, &touched));
	assert_true(g4_cache_touch(&cache, &touched));
	assert_false(g4_cache_touch(&cache, &touched));
	const uint32_t ahead = with_memory(memory, G4_CACHE_TOUCH_PAGES, 2 * G4_CACHE_TOUCH_PAGES);
	assert_int_equal(ahead, kernel_can_touch() ? 2 * G4_CACHE_TOUCH_PAGES : 0);
	assert_int_equal(with_memory(memory, 3 * G4_CACHE_TOUCH_PAGES, MANY_LINES - 3 * G4_CACHE_TOUCH_PAGES), 0);
	for (; cache.numbered[0] <= G4_CACHE_TOUCH_PAGES; index++)
		g4_cache_put(&cache, fill(1, index));
	assert_true(g4_cache_touch(&cache, &touched));
	assert_false(g4_cache_touch(&cache, &touched));
	/* up to those that come in alone, which have pages of their own */
	for (; cache.numbered[0] < cache.alone_first; index++)
		g4_cache_put(&cache, fill(1, index));
	while (g4_cache_touch(&cache, &touched))
		;
	assert_true(touched <= cache.alone_first);
	cache.frame_numbers = NULL; /* each line has a page of its own */
	assert_false(g4_cache_touch(&cache, &touched));
	munmap(memory, bytes);
	free(many);
	free(of_many);
	free(many_notes);
	free(numbers);
}

#define cache_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cache_test(a_line_that_was_filled_is_found),
		cache_test(a_fill_that_failed_leaves_nothing),
		cache_test(pages_lie_in_the_order_in_which_they_came),
		cache_test(unreferenced_lines_are_replaced_and_referenced_ones_are_not),
		cache_test(every_line_has_a_page_of_its_own),
		cache_test(a_full_set_borrows_and_gives_back),
#if G4_CACHE_POLICY == G4_CACHE_S3FIFO
		cache_test(a_page_without_a_line_is_known_as_before),
#endif
		cache_test(a_range_is_forgotten_and_nothing_else),
		cache_test(a_dropped_page_in_use_loses_its_name_and_keeps_its_contents),
		cache_test(metadata_in_use_is_not_dropped),
		cache_test(a_peek_finds_what_is_whole_and_waits_for_nothing),
		cache_test(pins_leave_half_of_the_pool),
		cache_test(what_becomes_of_misses_is_counted),
		cmocka_unit_test(pages_that_reads_want_are_counted),
		cmocka_unit_test_setup_teardown(a_page_has_the_set_that_the_rest_of_a_division_names, setup, teardown),
		cmocka_unit_test(pages_that_get_no_line_are_counted),
		cmocka_unit_test(pages_have_memory_before_they_come_in),
		cache_test(threads_see_each_page_filled_once_and_whole),
		cmocka_unit_test(concurrent_readers_of_a_page_read_the_device_once),
		cmocka_unit_test(random_reads_of_who_caches_itself_leave_the_cache_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
