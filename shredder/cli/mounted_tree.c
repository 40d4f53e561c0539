/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories are read when somebody looks into them. An inode's number is a hash of its path with a key that nobody knows, so it is the
 * same whenever the kernel asks, and no table of paths is needed. The root has a directory for each snapshot and a link, "latest".
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/mounted_parts.h"
#include "hash/siphash.h"
#include "store/backend.h"

#define ROOT 1
#define LATEST "latest"
/* Of directories that nobody has open. */
#define LISTED_BYTES (64 * G4_MIB)

/* -------------------------------------------------------------------------------------------------------- listings */

static void free_listing(struct mounted_listing *listing)
{
	*listing->link = listing->next;
	if (listing->next != NULL)
		listing->next->link = listing->link;
	store_buf_free(&listing->bytes);
	free(listing->offsets);
	free(listing);
}

void mounted_listing_put(struct mounted_listing *listing)
{
	if (--listing->users == 0)
		free_listing(listing);
}

struct store_node mounted_entry(const struct mounted_listing *listing, size_t place)
{
	struct store_in in = store_in_of(listing->bytes.data + listing->offsets[place],
					 listing->bytes.size - listing->offsets[place]);
	struct store_node node;

	store_node_read(&in, &node);
	return node;
}

/* The bytes of an entry were added. */
static void add_offset(struct mounted_listing *listing, size_t offset)
{
	if (listing->count == listing->room) {
		listing->room = listing->room == 0 ? 16 : 2 * listing->room;
		listing->offsets = (size_t *)store_realloc(listing->offsets, listing->room * sizeof(*listing->offsets));
	}
	listing->offsets[listing->count++] = offset;
}

static int list_content(struct mounted_tree *t, const struct store_content *content, struct mounted_listing *listing)
{
	struct store_node node;
	struct store_dir dir;
	int rc;

	pthread_rwlock_rdlock(&t->cache->index);
	store_dir_open(&dir, t->s, &t->codec, content);
	while ((rc = store_dir_next(&dir, &node)) == 1) {
		add_offset(listing, listing->bytes.size);
		store_buf_add(&listing->bytes, node.raw, node.raw_bytes);
	}
	store_dir_close(&dir);
	pthread_rwlock_unlock(&t->cache->index);
	return rc;
}

static struct mounted_listing *new_listing(struct mounted_tree *t)
{
	struct mounted_listing *listing = (struct mounted_listing *)store_alloc(sizeof(*listing));

	listing->users = 1;
	listing->next = t->listings;
	listing->link = &t->listings;
	if (listing->next != NULL)
		listing->next->link = &listing->next;
	t->listings = listing;
	return listing;
}

/* The least lately used listings go while there are too many bytes. */
static void trim(struct mounted_tree *t)
{
	while (t->listed_bytes > LISTED_BYTES) {
		struct mounted_node *oldest = NULL;

		for (size_t row = 0; row < MOUNTED_ROWS; row++)
			for (struct mounted_node *at = t->rows[row]; at != NULL; at = at->next)
				if (at->listing != NULL && !at->root && (oldest == NULL || at->used < oldest->used))
					oldest = at;
		if (oldest == NULL)
			return;
		t->listed_bytes -= oldest->listing->bytes.size;
		mounted_listing_put(oldest->listing);
		oldest->listing = NULL;
	}
}

/* ------------------------------------------------------------------------------------------------------- snapshots */

/* "2026-01-31_120000_0123456789abcdef": in the order of time. */
static void snapshot_name(const struct store_snapshot *snapshot, char name[64])
{
	const time_t at = (time_t)snapshot->time.seconds;
	char hex[STORE_HEX_BYTES], time[32];
	struct tm t;

	if (localtime_r(&at, &t) == NULL || strftime(time, sizeof(time), "%Y-%m-%d_%H%M%S", &t) == 0)
		snprintf(time, sizeof(time), "%lld", (long long)snapshot->time.seconds);
	snprintf(name, 64, "%s_%.16s", time, store_hex(&snapshot->name, hex));
}

static void add_node(struct mounted_listing *listing, const struct store_node *node)
{
	add_offset(listing, listing->bytes.size);
	store_node_write(&listing->bytes, node);
}

struct named {
	char name[64];
	const struct store_snapshot *snapshot;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void list_snapshots(const struct store_snapshot *list, size_t count, struct mounted_listing *listing)
{
	struct named *named = (struct named *)store_alloc(count * sizeof(*named));
	char latest[64];

	for (size_t i = 0; i < count; i++) {
		snapshot_name(&list[i], named[i].name);
		named[i].snapshot = &list[i];
	}
	if (count > 0)
		memcpy(latest, named[count - 1].name, sizeof(latest)); /* the list is sorted by time */
	if (count > 1)
		qsort(named, count, sizeof(*named), by_name);
	for (size_t i = 0; i < count; i++) {
		const struct store_node node = {.name = (const uint8_t *)named[i].name,
						.name_bytes = strlen(named[i].name),
						.type = STORE_NODE_DIR,
						.mode = 0755,
						.uid = named[i].snapshot->uid,
						.gid = named[i].snapshot->gid,
						.mtime = named[i].snapshot->time,
						.content = store_snapshot_root(named[i].snapshot)};

		add_node(listing, &node);
	}
	if (count > 0) { /* letters come behind digits: the order of names */
		const struct store_node node = {.name = (const uint8_t *)LATEST,
						.name_bytes = strlen(LATEST),
						.type = STORE_NODE_LINK,
						.mode = 0777,
						.mtime = list[count - 1].time,
						.target = (const uint8_t *)latest,
						.target_bytes = strlen(latest)};

		add_node(listing, &node);
	}
	free(named);
}

/* Looks which snapshots there are; the root's listing and the index are made again when they are others. */
static int refresh(struct mounted_tree *t)
{
	struct store_listed *names;
	struct store_snapshot *list;
	struct store_id now;
	size_t count;
	int rc = store_list_all(t->s->backend, STORE_SNAPSHOT, &names, &count);

	if (rc != 0)
		return rc;
	store_digest(names, count * sizeof(*names), now.bytes);
	free(names);
	if (t->root->listing != NULL && store_id_equal(&now, &t->snapshots))
		return 0;
	rc = store_snapshots(t->s, &t->filter, &list, &count);
	if (rc != 0)
		return rc;
	rc = mounted_cache_reload(t->cache); /* after the snapshots: it has all that they need */
	if (rc != 0) {
		store_snapshots_free(list, count);
		return rc;
	}
	if (t->root->listing != NULL)
		mounted_listing_put(t->root->listing);
	t->root->listing = new_listing(t);
	list_snapshots(list, count, t->root->listing);
	store_snapshots_free(list, count);
	t->snapshots = now;
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- nodes */

static struct mounted_node **row_of(struct mounted_tree *t, uint64_t number)
{
	return &t->rows[number % MOUNTED_ROWS];
}

struct mounted_node *mounted_node_at(struct mounted_tree *t, uint64_t number)
{
	struct mounted_node *at = *row_of(t, number);

	while (at != NULL && at->number != number)
		at = at->next;
	return at;
}

static uint64_t number_of(const struct mounted_tree *t, const struct mounted_node *directory,
			  const struct store_node *node)
{
	uint8_t path[8 + STORE_NAME_MAX];

	memcpy(path, &directory->number, 8);
	memcpy(path + 8, node->name, node->name_bytes);
	return g4_siphash13(t->key, path, 8 + node->name_bytes) | UINT64_C(1) << 63; /* never the root's */
}

uint64_t mounted_shown(const struct mounted_tree *t, const struct mounted_node *directory,
		       const struct store_node *node)
{
	const uint64_t file[3] = {directory->domain, node->device, node->inode};

	if (directory->root || (node->flags & STORE_LINKED) == 0)
		return number_of(t, directory, node);
	return g4_siphash13(t->key, file, sizeof(file)) | UINT64_C(1) << 63;
}

static void set_entry(struct mounted_node *node, const struct store_node *entry)
{
	node->entry.size = 0;
	store_buf_add(&node->entry, entry->raw, entry->raw_bytes);
	struct store_in in = store_in_of(node->entry.data, node->entry.size);
	store_node_read(&in, &node->node);
}

static struct mounted_node *add_node_below(struct mounted_tree *t, const struct mounted_node *directory,
					   const struct store_node *entry)
{
	struct mounted_node *node = (struct mounted_node *)store_alloc(sizeof(*node));
	struct mounted_node **row;

	node->number = number_of(t, directory, entry);
	node->shown = mounted_shown(t, directory, entry);
	node->domain = directory->root ? node->number : directory->domain;
	set_entry(node, entry);
	row = row_of(t, node->number);
	node->next = *row;
	*row = node;
	return node;
}

static void free_node(struct mounted_tree *t, struct mounted_node *node)
{
	if (node->listing != NULL) {
		t->listed_bytes -= node->root ? 0 : node->listing->bytes.size;
		mounted_listing_put(node->listing);
	}
	store_buf_free(&node->entry);
	free(node);
}

void mounted_forget(struct mounted_tree *t, uint64_t number, uint64_t lookups)
{
	struct mounted_node **at = row_of(t, number);

	while (*at != NULL && (*at)->number != number)
		at = &(*at)->next;
	struct mounted_node *node = *at;
	if (node == NULL || node->root)
		return;
	node->lookups -= g4_min64(node->lookups, lookups);
	if (node->lookups > 0)
		return;
	*at = node->next;
	free_node(t, node);
}

struct mounted_listing *mounted_list(struct mounted_tree *t, struct mounted_node *directory)
{
	if (directory->root && refresh(t) != 0)
		return NULL;
	if (directory->listing == NULL) {
		struct mounted_listing *listing = new_listing(t);
		int rc = list_content(t, &directory->node.content, listing);

		if (rc == STORE_E_NO_BLOB || rc == STORE_E_ABSENT) { /* a prune has moved it */
			mounted_listing_put(listing);
			listing = new_listing(t);
			rc = mounted_cache_reload(t->cache);
			if (rc == 0)
				rc = list_content(t, &directory->node.content, listing);
		}
		if (rc != 0) {
			mounted_listing_put(listing);
			return NULL;
		}
		directory->used = ++t->clock;
		directory->listing = listing;
		t->listed_bytes += listing->bytes.size;
	}
	struct mounted_listing *listing = directory->listing;
	directory->used = ++t->clock;
	listing->users++;
	trim(t);
	return listing;
}

int mounted_lookup(struct mounted_tree *t, struct mounted_node *directory, const char *name, struct mounted_node **out)
{
	struct mounted_listing *listing = mounted_list(t, directory);
	size_t low = 0, high;
	int found = 0;

	if (listing == NULL)
		return STORE_E_IO;
	for (high = listing->count; low < high && found == 0;) {
		const size_t middle = low + (high - low) / 2;
		const struct store_node node = mounted_entry(listing, middle);
		const int order = store_name_compare(node.name, node.name_bytes, (const uint8_t *)name, strlen(name));

		if (order == 0) {
			const uint64_t number = number_of(t, directory, &node);

			*out = mounted_node_at(t, number);
			if (*out == NULL)
				*out = add_node_below(t, directory, &node);
			else if (directory->root) /* "latest" leads elsewhere now */
				set_entry(*out, &node);
			(*out)->lookups++;
			found = 1;
		} else if (order < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	mounted_listing_put(listing);
	return found;
}

/* ------------------------------------------------------------------------------------------------------ everything */

int mounted_tree_init(struct mounted_tree *t, struct store *s, const struct store_filter *filter,
		      struct mounted_cache *cache)
{
	const struct store_node root = {
		.name = (const uint8_t *)"root", .name_bytes = 4, .type = STORE_NODE_DIR, .mode = 0755};
	struct mounted_node *node = (struct mounted_node *)store_alloc(sizeof(*node));

	memset(t, 0, sizeof(*t));
	t->s = s;
	t->filter = *filter;
	t->cache = cache;
	store_codec_init(&t->codec, 0);
	pthread_mutex_init(&t->mutex, NULL);
	store_random(t->key, sizeof(t->key));
	store_node_write(&node->entry, &root);
	struct store_in in = store_in_of(node->entry.data, node->entry.size);
	store_node_read(&in, &node->node);
	node->number = ROOT;
	node->shown = ROOT;
	node->root = true;
	node->node.mtime = store_now();
	*row_of(t, ROOT) = node;
	t->root = node;
	return refresh(t);
}

void mounted_tree_free(struct mounted_tree *t)
{
	for (size_t row = 0; row < MOUNTED_ROWS; row++)
		while (t->rows[row] != NULL) {
			struct mounted_node *next = t->rows[row]->next;

			free_node(t, t->rows[row]);
			t->rows[row] = next;
		}
	while (t->listings != NULL)
		free_listing(t->listings);
	store_codec_free(&t->codec);
	pthread_mutex_destroy(&t->mutex);
}
