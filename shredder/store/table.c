/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing. An entry never moves and never goes, so what a page of the file says stays true. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/table.h"

#define PAGE_BYTES 4096u
#define PAGE_ENTRIES 78u
#define SEGMENT_PAGES 210u
#define SEGMENT_ENTRIES (SEGMENT_PAGES * PAGE_ENTRIES)
#define SEGMENT_BYTES ((uint64_t)SEGMENT_PAGES * PAGE_BYTES)
#define SLOTS_FIRST 65536u
/* Pages of the file that are held. */
#define CACHE_PAGES 1024u
/* The number UINT32_MAX + 1 has no slot. */
#define ENTRIES_MAX UINT32_MAX

struct page {
	struct store_entry entries[PAGE_ENTRIES];
	uint8_t unused[PAGE_BYTES - PAGE_ENTRIES * sizeof(struct store_entry)];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "a page of the file");

struct segment {
	struct page *pages; /* NULL: in the file, at its number times SEGMENT_BYTES */
	uint32_t pending;
};

struct store_table {
	pthread_mutex_t mutex;
	uint32_t *numbers; /* of slots: number + 1; 0: free */
	uint16_t *tags;
	uint64_t slots, count;
	struct segment *segments;
	uint64_t segments_room;
	uint64_t resident, resident_max; /* segments in memory, and how many there should be */
	uint64_t first_resident;	 /* those before are in the file */

	int fd;		/* -1: no file yet */
	bool unwritten; /* and none will be */
	struct page *cache;
	uint64_t *cached; /* page + 1 */
	uint64_t file_bytes, reads;
};

struct store_table *store_table_open(uint64_t expected, uint64_t memory_bytes)
{
	struct store_table *t = (struct store_table *)store_alloc(sizeof(*t));

	pthread_mutex_init(&t->mutex, NULL);
	t->slots = expected + expected / 4 < SLOTS_FIRST ? SLOTS_FIRST : expected + expected / 4;
	t->numbers = (uint32_t *)store_alloc(t->slots * sizeof(*t->numbers));
	t->tags = (uint16_t *)store_alloc(t->slots * sizeof(*t->tags));
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
	free(t->numbers);
	free(t->tags);
	free(t->cache);
	free(t->cached);
	pthread_mutex_destroy(&t->mutex);
	free(t);
}

/* ------------------------------------------------------------------------------------------------------- the file */

/* Without a name: in TMPDIR, else /var/tmp, which is on a disk where /tmp is memory. */
static int make_file(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];

	if (folder == NULL || folder[0] != '/')
		folder = "/var/tmp";
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || snprintf(path, sizeof(path), "%s/shredder-XXXXXX", folder) >= (int)sizeof(path))
		return fd;
	fd = mkostemp(path, O_CLOEXEC); /* a file system without such files */
	if (fd >= 0)
		unlink(path);
	return fd;
}

static bool write_segment(const struct store_table *t, uint64_t number)
{
	const uint8_t *from = (const uint8_t *)t->segments[number].pages;
	uint64_t done = 0;

	while (done < SEGMENT_BYTES) {
		const ssize_t bytes =
			pwrite(t->fd, from + done, SEGMENT_BYTES - done, (off_t)(number * SEGMENT_BYTES + done));

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return false;
		done += (uint64_t)bytes;
	}
	return true;
}

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
			t->fd = make_file();
		if (t->fd < 0 || !write_segment(t, i)) {
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
	uint64_t done = 0;

	while (done < count * PAGE_BYTES) {
		const ssize_t bytes = pread(t->fd, (uint8_t *)to + done, count * PAGE_BYTES - done,
					    (off_t)(first * PAGE_BYTES + done));

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return store_fail(STORE_E_IO, "the index's temporary file cannot be read: %s",
					  bytes < 0 ? strerror(errno) : "it is too short");
		done += (uint64_t)bytes;
	}
	return 0;
}

/* An entry in memory or in a page that is held; NULL and *rc after an error. It stays until the next call. */
static struct store_entry *entry_at(struct store_table *t, uint64_t number, int *rc)
{
	const uint64_t in_segment = number % SEGMENT_ENTRIES, page = number / PAGE_ENTRIES;
	const struct segment *segment = &t->segments[number / SEGMENT_ENTRIES];

	if (segment->pages != NULL)
		return &segment->pages[in_segment / PAGE_ENTRIES].entries[in_segment % PAGE_ENTRIES];
	if (t->cache == NULL) {
		t->cache = (struct page *)store_alloc(CACHE_PAGES * sizeof(*t->cache));
		t->cached = (uint64_t *)store_alloc(CACHE_PAGES * sizeof(*t->cached));
	}
	const uint64_t place = page % CACHE_PAGES;
	if (t->cached[place] != page + 1) {
		t->cached[place] = 0;
		t->reads++;
		*rc = read_pages(t, &t->cache[place], page, 1);
		if (*rc != 0)
			return NULL;
		t->cached[place] = page + 1;
	}
	return &t->cache[place].entries[in_segment % PAGE_ENTRIES];
}

/* ---------------------------------------------------------------------------------------------------------- slots */

/* Ids are as good as random, so their bytes are the hash: the high bits choose the slot, the low ones are the tag. */
static uint64_t hash_of(const struct store_id *id)
{
	uint64_t hash;

	memcpy(&hash, id, sizeof(hash));
	return hash;
}

static uint64_t first_slot(const struct store_table *t, uint64_t hash)
{
	return (uint64_t)(((unsigned __int128)hash * t->slots) >> 64);
}

/* The slot of an id, or the free one where it would be. */
static int find_slot(struct store_table *t, const struct store_id *id, uint64_t *slot, struct store_entry **entry)
{
	const uint64_t hash = hash_of(id);
	int rc = 0;

	for (*slot = first_slot(t, hash); t->numbers[*slot] != 0; *slot = *slot + 1 < t->slots ? *slot + 1 : 0) {
		if (t->tags[*slot] != (uint16_t)hash)
			continue;
		*entry = entry_at(t, t->numbers[*slot] - 1, &rc);
		if (*entry == NULL)
			return rc;
		if (store_id_equal(&(*entry)->id, id))
			return 0;
	}
	*entry = NULL;
	return 0;
}

static void fill_slot(struct store_table *t, uint64_t number, const struct store_id *id)
{
	const uint64_t hash = hash_of(id);
	uint64_t slot = first_slot(t, hash);

	while (t->numbers[slot] != 0)
		slot = slot + 1 < t->slots ? slot + 1 : 0;
	t->numbers[slot] = (uint32_t)number + 1;
	t->tags[slot] = (uint16_t)hash;
}

/* Half as many slots again: segments in the file are read for their ids. The old slots stay after an error. */
static int grow(struct store_table *t)
{
	uint32_t *old_numbers = t->numbers;
	uint16_t *old_tags = t->tags;
	const uint64_t old_slots = t->slots;
	struct page *buffer = NULL;
	int rc = 0;

	t->slots += t->slots / 2;
	t->numbers = (uint32_t *)store_alloc(t->slots * sizeof(*t->numbers));
	t->tags = (uint16_t *)store_alloc(t->slots * sizeof(*t->tags));
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
	free(rc == 0 ? old_numbers : t->numbers);
	free(rc == 0 ? old_tags : t->tags);
	if (rc != 0) {
		t->numbers = old_numbers;
		t->tags = old_tags;
		t->slots = old_slots;
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
	t->segments[number] = (struct segment){.pages = (struct page *)store_alloc(SEGMENT_BYTES)};
	t->resident++;
}

/* With the mutex held: an id that is not there. */
static int append(struct store_table *t, const struct store_entry *entry)
{
	int rc = 0;

	if (t->count == ENTRIES_MAX)
		return store_fail(STORE_E_INVAL, "the repository has too many blobs");
	if (5 * (t->count + 1) > 4 * t->slots && (rc = grow(t)) != 0)
		return rc;
	if (t->count % SEGMENT_ENTRIES == 0)
		begin_segment(t);
	const uint64_t number = t->count++;
	*entry_at(t, number, &rc) = *entry; /* the newest segment is in memory */
	t->segments[number / SEGMENT_ENTRIES].pending += entry->pack == STORE_PACK_PENDING;
	fill_slot(t, number, &entry->id);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- calls */

int store_table_find(struct store_table *t, const struct store_id *id, uint32_t *number, struct store_entry *entry)
{
	struct store_entry *found;
	uint64_t slot;

	pthread_mutex_lock(&t->mutex);
	int rc = find_slot(t, id, &slot, &found);
	if (rc == 0 && found != NULL) {
		*number = t->numbers[slot] - 1;
		*entry = *found;
		rc = 1;
	}
	pthread_mutex_unlock(&t->mutex);
	return rc;
}

int store_table_add(struct store_table *t, const struct store_entry *entry, uint32_t *number)
{
	struct store_entry *found;
	uint64_t slot;

	pthread_mutex_lock(&t->mutex);
	int rc = find_slot(t, &entry->id, &slot, &found);
	if (rc == 0 && found != NULL) {
		*number = t->numbers[slot] - 1;
	} else if (rc == 0 && (rc = append(t, entry)) == 0) {
		*number = (uint32_t)(t->count - 1);
		rc = 1;
	}
	pthread_mutex_unlock(&t->mutex);
	return rc;
}

int store_table_at(struct store_table *t, uint32_t number, struct store_entry *entry)
{
	int rc = 0;

	pthread_mutex_lock(&t->mutex);
	const struct store_entry *found = entry_at(t, number, &rc);
	if (found != NULL)
		*entry = *found;
	pthread_mutex_unlock(&t->mutex);
	return rc;
}

void store_table_place(struct store_table *t, uint32_t number, const struct store_entry *place)
{
	int rc = 0;

	pthread_mutex_lock(&t->mutex);
	struct segment *segment = &t->segments[number / SEGMENT_ENTRIES];
	struct store_entry *entry = segment->pages != NULL ? entry_at(t, number, &rc) : NULL;
	if (entry != NULL && entry->pack == STORE_PACK_PENDING) {
		const struct store_id id = entry->id;

		*entry = *place;
		entry->id = id;
		segment->pending--;
	}
	pthread_mutex_unlock(&t->mutex);
}

uint64_t store_table_count(struct store_table *t)
{
	pthread_mutex_lock(&t->mutex);
	const uint64_t count = t->count;
	pthread_mutex_unlock(&t->mutex);
	return count;
}

struct store_table_sizes store_table_sizes(struct store_table *t)
{
	struct store_table_sizes sizes;

	pthread_mutex_lock(&t->mutex);
	sizes.slot_bytes = t->slots * (sizeof(*t->numbers) + sizeof(*t->tags));
	sizes.entry_bytes = t->resident * SEGMENT_BYTES + (t->cache != NULL ? CACHE_PAGES * sizeof(*t->cache) : 0);
	sizes.file_bytes = t->file_bytes;
	sizes.reads = t->reads;
	pthread_mutex_unlock(&t->mutex);
	return sizes;
}
