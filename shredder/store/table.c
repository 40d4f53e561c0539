/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing by buckets, of which the next one is looked at where one is full. An entry never moves and never goes, so what a page of the
 * file says stays true, and the first free slot that is met ends a search.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/scratch.h"
#include "store/table.h"

#define PAGE_BYTES 4096u
#define PAGE_ENTRIES 78u
#define SEGMENT_PAGES 512u
#define SEGMENT_ENTRIES (SEGMENT_PAGES * PAGE_ENTRIES)
#define SEGMENT_BYTES ((uint64_t)SEGMENT_PAGES * PAGE_BYTES)
#define BUCKETS_FIRST 8192u
#define BUCKET_SLOTS 10u
/* Ids that are looked up side by side: as many reads of memory as a processor has under way. */
#define TOGETHER 32u
/* Pages of the file that are held. */
#define CACHE_PAGES 1024u
/* The number UINT32_MAX + 1 has no slot. */
#define ENTRIES_MAX UINT32_MAX

struct page {
	struct store_entry entries[PAGE_ENTRIES];
	uint8_t unused[PAGE_BYTES - PAGE_ENTRIES * sizeof(struct store_entry)];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "a page of the file");

/* A line of the cache. Slots are taken from the first one on. */
struct bucket {
	uint32_t numbers[BUCKET_SLOTS]; /* number + 1; 0: free */
	uint16_t tags[BUCKET_SLOTS];
	uint8_t unused[4];
};
_Static_assert(sizeof(struct bucket) == 64, "one read of memory");

struct segment {
	struct page *pages; /* NULL: in the file, at its number times SEGMENT_BYTES */
	uint32_t pending;
};

struct store_table {
	pthread_rwlock_t lock; /* of all but what `reading` guards */
	struct bucket *buckets;
	uint64_t buckets_count, count;
	struct segment *segments;
	uint64_t segments_room;
	uint64_t resident, resident_max; /* segments in memory, and how many there should be */
	uint64_t first_resident;	 /* those before are in the file */

	int fd;		/* -1: no file yet */
	bool unwritten; /* and none will be */
	uint64_t file_bytes;

	pthread_mutex_t reading; /* within the lock: of the pages that are held */
	struct page *cache;
	uint64_t *cached; /* page + 1 */
	uint64_t reads;
};

/*
 * Memory that is read here and there: from 2 MiB on in pages of that size where there are some, since else finding the page is half the work. Zeros: what is
 * not used of a page goes into the file.
 */
static void *scattered(uint64_t wanted)
{
	const size_t page = 2 * G4_MIB, unit = wanted >= page ? page : sizeof(struct bucket);
	const size_t bytes = (wanted + unit - 1) / unit * unit;
	void *memory = store_alloc_aligned(unit, bytes);

	if (unit == page)
		madvise(memory, bytes, MADV_HUGEPAGE); /* without them it is slower, and right */
	return memset(memory, 0, bytes);
}

static struct bucket *make_buckets(uint64_t count)
{
	return (struct bucket *)scattered(count * sizeof(struct bucket));
}

/* So that of 20 slots 17 are taken. */
static uint64_t buckets_for(uint64_t entries)
{
	const uint64_t count = entries / BUCKET_SLOTS * 20 / 17 + 1;

	return count < BUCKETS_FIRST ? BUCKETS_FIRST : count;
}

struct store_table *store_table_open(uint64_t expected, uint64_t memory_bytes)
{
	struct store_table *t = (struct store_table *)store_alloc(sizeof(*t));

	pthread_rwlock_init(&t->lock, NULL);
	pthread_mutex_init(&t->reading, NULL);
	t->buckets_count = buckets_for(expected);
	t->buckets = make_buckets(t->buckets_count);
	t->resident_max = memory_bytes / SEGMENT_BYTES;
	t->fd = -1;
	return t;
}

void store_table_close(struct store_table *t)
{
	if (t == NULL)
		return;
	for (uint64_t i = 0; i * SEGMENT_ENTRIES < t->count; i++)
		free(t->segments[i].pages);
	if (t->fd >= 0)
		close(t->fd);
	free(t->segments);
	free(t->buckets);
	free(t->cache);
	free(t->cached);
	pthread_rwlock_destroy(&t->lock);
	pthread_mutex_destroy(&t->reading);
	free(t);
}

/* ------------------------------------------------------------------------------------------------------- the file */

/* Full segments without pending entries, the oldest first, until no more are in memory than should be. */
static void spill(struct store_table *t)
{
	const uint64_t full = t->count / SEGMENT_ENTRIES;

	while (t->first_resident < full && t->segments[t->first_resident].pages == NULL)
		t->first_resident++;
	for (uint64_t i = t->first_resident; i < full && t->resident > t->resident_max && !t->unwritten; i++) {
		struct segment *segment = &t->segments[i];

		if (segment->pages == NULL || segment->pending > 0)
			continue;
		if (t->fd < 0)
			t->fd = store_scratch_file();
		if (t->fd < 0 || !store_scratch_write(t->fd, segment->pages, SEGMENT_BYTES, i * SEGMENT_BYTES)) {
			t->unwritten = true;
			return;
		}
		free(segment->pages);
		segment->pages = NULL;
		t->resident--;
		t->file_bytes += SEGMENT_BYTES;
	}
}

static int read_pages(const struct store_table *t, struct page *to, uint64_t first, uint64_t count)
{
	return store_scratch_read(t->fd, to, count * PAGE_BYTES, first * PAGE_BYTES, "the index");
}

/* Where an entry is in memory; NULL: it is in the file. */
static struct store_entry *in_memory(const struct store_table *t, uint64_t number)
{
	const uint64_t in_segment = number % SEGMENT_ENTRIES;
	struct page *pages = t->segments[number / SEGMENT_ENTRIES].pages;

	return pages == NULL ? NULL : &pages[in_segment / PAGE_ENTRIES].entries[in_segment % PAGE_ENTRIES];
}

/* One that is in the file, out of a page that is held. */
static int read_entry(struct store_table *t, uint64_t number, struct store_entry *entry)
{
	const uint64_t page = number / PAGE_ENTRIES, place = page % CACHE_PAGES;
	int rc = 0;

	pthread_mutex_lock(&t->reading);
	if (t->cache == NULL) {
		t->cache = (struct page *)store_alloc(CACHE_PAGES * sizeof(*t->cache));
		t->cached = (uint64_t *)store_alloc(CACHE_PAGES * sizeof(*t->cached));
	}
	if (t->cached[place] != page + 1) {
		t->cached[place] = 0;
		t->reads++;
		rc = read_pages(t, &t->cache[place], page, 1);
		if (rc == 0)
			t->cached[place] = page + 1;
	}
	if (rc == 0)
		*entry = t->cache[place].entries[number % PAGE_ENTRIES];
	pthread_mutex_unlock(&t->reading);
	return rc;
}

/* ---------------------------------------------------------------------------------------------------------- slots */

/* Ids are as good as random, so their bytes are the hash: the high bits choose the bucket, the low ones are the tag. */
static uint64_t hash_of(const struct store_id *id)
{
	uint64_t hash;

	memcpy(&hash, id, sizeof(hash));
	return hash;
}

static uint64_t first_bucket(const struct store_table *t, uint64_t hash)
{
	return (uint64_t)(((unsigned __int128)hash * t->buckets_count) >> 64);
}

static uint64_t bucket_behind(const struct store_table *t, uint64_t bucket)
{
	return bucket + 1 < t->buckets_count ? bucket + 1 : 0;
}

/* Slots of a bucket that have a tag, a bit each; without branches, so that a processor compares them side by side. */
static uint32_t slots_with(const struct bucket *bucket, uint16_t tag)
{
	uint32_t slots = 0;

	for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
		slots |= (uint32_t)(bucket->tags[i] == tag && bucket->numbers[i] != 0) << i;
	return slots;
}

/* The number and a copy of the entry of an id: 1. 0: it has none. */
static int find_entry(struct store_table *t, const struct store_id *id, uint32_t *number, struct store_entry *entry)
{
	const uint64_t hash = hash_of(id);

	for (uint64_t at = first_bucket(t, hash);; at = bucket_behind(t, at)) {
		const struct bucket *bucket = &t->buckets[at];

		for (uint32_t slots = slots_with(bucket, (uint16_t)hash); slots != 0; slots &= slots - 1) {
			const uint32_t place = bucket->numbers[__builtin_ctz(slots)] - 1;
			const struct store_entry *known = in_memory(t, place);

			if (known == NULL) {
				const int rc = read_entry(t, place, entry);

				if (rc != 0)
					return rc;
				known = entry;
			}
			if (!store_id_equal(&known->id, id))
				continue;
			if (known != entry)
				*entry = *known;
			*number = place;
			return 1;
		}
		if (bucket->numbers[BUCKET_SLOTS - 1] == 0)
			return 0;
	}
}

static void fill_slot(struct store_table *t, uint64_t number, const struct store_id *id)
{
	const uint64_t hash = hash_of(id);

	for (uint64_t at = first_bucket(t, hash);; at = bucket_behind(t, at)) {
		struct bucket *bucket = &t->buckets[at];

		for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->numbers[i] == 0) {
				bucket->numbers[i] = (uint32_t)number + 1;
				bucket->tags[i] = (uint16_t)hash;
				return;
			}
	}
}

/* Half as many slots again: segments in the file are read for their ids. The old slots stay after an error. */
static int grow(struct store_table *t)
{
	struct bucket *old = t->buckets;
	const uint64_t old_count = t->buckets_count;
	struct page *buffer = NULL;
	int rc = 0;

	t->buckets_count += t->buckets_count / 2;
	t->buckets = make_buckets(t->buckets_count);
	for (uint64_t begin = 0; begin < t->count && rc == 0; begin += SEGMENT_ENTRIES) {
		const struct page *pages = t->segments[begin / SEGMENT_ENTRIES].pages;

		if (pages == NULL) {
			if (buffer == NULL)
				buffer = (struct page *)store_alloc(SEGMENT_BYTES);
			rc = read_pages(t, buffer, begin / PAGE_ENTRIES, SEGMENT_PAGES);
			pages = buffer;
		}
		for (uint64_t i = 0; rc == 0 && i < SEGMENT_ENTRIES && begin + i < t->count; i++)
			fill_slot(t, begin + i, &pages[i / PAGE_ENTRIES].entries[i % PAGE_ENTRIES].id);
	}
	free(buffer);
	free(rc == 0 ? old : t->buckets);
	if (rc != 0) {
		t->buckets = old;
		t->buckets_count = old_count;
	}
	return rc;
}

static void begin_segment(struct store_table *t)
{
	const uint64_t number = t->count / SEGMENT_ENTRIES;

	spill(t);
	if (number == t->segments_room) {
		t->segments_room = number == 0 ? 64 : 2 * number;
		t->segments = (struct segment *)store_realloc(t->segments, t->segments_room * sizeof(*t->segments));
	}
	t->segments[number] = (struct segment){.pages = (struct page *)scattered(SEGMENT_BYTES)};
	t->resident++;
}

/* With the lock held for itself: an id that is not there. */
static int append(struct store_table *t, const struct store_entry *entry)
{
	int rc = 0;

	if (t->count == ENTRIES_MAX)
		return store_fail(STORE_E_INVAL, "the repository has too many blobs");
	if (20 * (t->count + 1) > 17 * BUCKET_SLOTS * t->buckets_count && (rc = grow(t)) != 0)
		return rc;
	if (t->count % SEGMENT_ENTRIES == 0)
		begin_segment(t);
	const uint64_t number = t->count++;
	*in_memory(t, number) = *entry; /* as the newest segment is */
	t->segments[number / SEGMENT_ENTRIES].pending += entry->pack == STORE_PACK_PENDING;
	fill_slot(t, number, &entry->id);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- calls */

int store_table_find(struct store_table *t, const struct store_id *id, uint32_t *number, struct store_entry *entry)
{
	pthread_rwlock_rdlock(&t->lock);
	const int rc = find_entry(t, id, number, entry);
	pthread_rwlock_unlock(&t->lock);
	return rc;
}

/* Where the entry of an id is in memory, if it is: what the first slot with its tag says. */
static void fetch_entry(const struct store_table *t, uint64_t hash, uint64_t at)
{
	const struct bucket *bucket = &t->buckets[at];
	const uint32_t slots = slots_with(bucket, (uint16_t)hash);

	if (slots == 0)
		return;
	const struct store_entry *entry = in_memory(t, bucket->numbers[__builtin_ctz(slots)] - 1);
	if (entry != NULL) {
		__builtin_prefetch(entry);
		__builtin_prefetch((const uint8_t *)(entry + 1) - 1);
	}
}

int store_table_find_all(struct store_table *t, struct store_found *found, size_t count)
{
	int rc = 0;

	pthread_rwlock_rdlock(&t->lock);
	for (size_t begin = 0; begin < count && rc >= 0; begin += TOGETHER) {
		const size_t some = (size_t)g4_min64(TOGETHER, count - begin);
		uint64_t at[TOGETHER];

		for (size_t i = 0; i < some; i++) {
			at[i] = first_bucket(t, hash_of(&found[begin + i].id));
			__builtin_prefetch(&t->buckets[at[i]]);
		}
		for (size_t i = 0; i < some; i++)
			fetch_entry(t, hash_of(&found[begin + i].id), at[i]);
		for (size_t i = 0; i < some && rc >= 0; i++) {
			struct store_found *f = &found[begin + i];

			rc = find_entry(t, &f->id, &f->number, &f->entry);
			f->there = rc == 1;
		}
	}
	pthread_rwlock_unlock(&t->lock);
	return rc < 0 ? rc : 0;
}

int store_table_add(struct store_table *t, const struct store_entry *entry, uint32_t *number)
{
	struct store_entry found;

	pthread_rwlock_wrlock(&t->lock);
	int rc = find_entry(t, &entry->id, number, &found);
	if (rc == 1) {
		rc = 0;
	} else if (rc == 0 && (rc = append(t, entry)) == 0) {
		*number = (uint32_t)(t->count - 1);
		rc = 1;
	}
	pthread_rwlock_unlock(&t->lock);
	return rc;
}

int store_table_at(struct store_table *t, uint32_t number, struct store_entry *entry)
{
	int rc = 0;

	pthread_rwlock_rdlock(&t->lock);
	const struct store_entry *known = in_memory(t, number);
	if (known != NULL)
		*entry = *known;
	else
		rc = read_entry(t, number, entry);
	pthread_rwlock_unlock(&t->lock);
	return rc;
}

void store_table_place(struct store_table *t, uint32_t number, const struct store_entry *place)
{
	pthread_rwlock_wrlock(&t->lock);
	struct store_entry *entry = in_memory(t, number);
	if (entry != NULL && entry->pack == STORE_PACK_PENDING) {
		const struct store_id id = entry->id;

		*entry = *place;
		entry->id = id;
		t->segments[number / SEGMENT_ENTRIES].pending--;
	}
	pthread_rwlock_unlock(&t->lock);
}

uint64_t store_table_count(struct store_table *t)
{
	pthread_rwlock_rdlock(&t->lock);
	const uint64_t count = t->count;
	pthread_rwlock_unlock(&t->lock);
	return count;
}

struct store_table_sizes store_table_sizes(struct store_table *t)
{
	struct store_table_sizes sizes;

	pthread_rwlock_rdlock(&t->lock);
	pthread_mutex_lock(&t->reading);
	sizes.slot_bytes = t->buckets_count * sizeof(*t->buckets);
	sizes.entry_bytes = t->resident * SEGMENT_BYTES + (t->cache != NULL ? CACHE_PAGES * sizeof(*t->cache) : 0);
	sizes.file_bytes = t->file_bytes;
	sizes.reads = t->reads;
	pthread_mutex_unlock(&t->reading);
	pthread_rwlock_unlock(&t->lock);
	return sizes;
}
