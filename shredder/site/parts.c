/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "site/parts.h"

#define PARTS_BYTES_MAX (256 * G4_MIB)
/* What is shorter is quickly sent again. */
#define PART_BYTES_MIN (64 * G4_KIB)
/* Of one client: others must have room. */
#define PARTS_OF_CLIENT_MAX 16

struct site_part {
	char *key, *url;
	uint64_t wanted;
	struct store_buf body;
	bool coming;		/* a request adds to it, and ends it */
	bool given_up;		/* by its client: nothing more is added */
	struct site_part *next; /* the older one */
};

struct site_parts {
	pthread_mutex_t mutex;
	struct site_part *newest;
};

struct site_parts *site_parts_new(void)
{
	struct site_parts *parts = (struct site_parts *)store_alloc(sizeof(*parts));

	pthread_mutex_init(&parts->mutex, NULL);
	return parts;
}

static void free_part(struct site_part *part)
{
	store_buf_free(&part->body);
	free(part->key);
	free(part->url);
	free(part);
}

void site_parts_free(struct site_parts *parts)
{
	while (parts->newest != NULL) {
		struct site_part *next = parts->newest->next;

		free_part(parts->newest);
		parts->newest = next;
	}
	pthread_mutex_destroy(&parts->mutex);
	free(parts);
}

/* With the mutex held: the newest one of an address that can go on, or NULL. */
static struct site_part *find(struct site_parts *parts, const char *key, const char *url)
{
	struct site_part *at = parts->newest;

	while (at != NULL && (strcmp(at->key, key) != 0 || strcmp(at->url, url) != 0 || at->body.size < PART_BYTES_MIN))
		at = at->next;
	return at;
}

static void unlink_part(struct site_parts *parts, struct site_part *part)
{
	struct site_part **at = &parts->newest;

	while (*at != NULL && *at != part)
		at = &(*at)->next;
	if (*at != NULL)
		*at = part->next;
}

/* With the mutex held: from the newest on, what fits of those that nobody adds to. */
static void make_room(struct site_parts *parts)
{
	uint64_t bytes = 0;

	for (struct site_part **at = &parts->newest; *at != NULL;) {
		struct site_part *part = *at;
		uint32_t of_client = 0;

		for (const struct site_part *newer = parts->newest; newer != part; newer = newer->next)
			of_client += !newer->coming && strcmp(newer->key, part->key) == 0;
		bytes += part->coming ? 0 : part->body.size;
		if (!part->coming && (bytes > PARTS_BYTES_MAX || of_client >= PARTS_OF_CLIENT_MAX)) {
			bytes -= part->body.size;
			*at = part->next;
			free_part(part);
		} else {
			at = &part->next;
		}
	}
}

/* With the mutex held. */
static struct site_part *begin(struct site_parts *parts, const char *key, const char *url, uint64_t wanted)
{
	struct site_part *part = (struct site_part *)store_alloc(sizeof(*part));

	part->key = store_strdup(key);
	part->url = store_strdup(url);
	part->wanted = wanted;
	part->coming = true;
	part->next = parts->newest;
	parts->newest = part;
	return part;
}

struct site_part *site_part_begin(struct site_parts *parts, const char *key, const char *url, uint64_t wanted)
{
	pthread_mutex_lock(&parts->mutex);
	struct site_part *part = begin(parts, key, url, wanted);
	pthread_mutex_unlock(&parts->mutex);
	return part;
}

struct site_part *site_part_resume(struct site_parts *parts, const char *key, const char *url, uint64_t from,
				   uint64_t wanted)
{
	struct site_part *part = NULL;

	pthread_mutex_lock(&parts->mutex);
	struct site_part *old = find(parts, key, url);
	if (old != NULL && old->body.size == from && old->wanted == wanted && (!old->coming || old->given_up)) {
		unlink_part(parts, old);
		part = begin(parts, key, url, wanted);
		part->body = old->body;
		memset(&old->body, 0, sizeof(old->body));
		if (!old->coming)
			free_part(old);
	}
	pthread_mutex_unlock(&parts->mutex);
	return part;
}

bool site_part_add(struct site_parts *parts, struct site_part *part, const void *data, size_t bytes)
{
	pthread_mutex_lock(&parts->mutex);
	const bool may = !part->given_up;
	if (may)
		store_buf_add(&part->body, data, bytes);
	pthread_mutex_unlock(&parts->mutex);
	return may;
}

void site_part_take(struct site_parts *parts, struct site_part *part, struct store_buf *body)
{
	pthread_mutex_lock(&parts->mutex);
	unlink_part(parts, part);
	pthread_mutex_unlock(&parts->mutex);
	*body = part->body;
	memset(&part->body, 0, sizeof(part->body));
	free_part(part);
}

void site_part_leave(struct site_parts *parts, struct site_part *part)
{
	pthread_mutex_lock(&parts->mutex);
	unlink_part(parts, part);
	if (part->body.size >= PART_BYTES_MIN && part->wanted > part->body.size) {
		part->coming = false;
		part->next = parts->newest;
		parts->newest = part;
		make_room(parts);
	} else {
		free_part(part);
	}
	pthread_mutex_unlock(&parts->mutex);
}

size_t site_part_bytes(struct site_parts *parts, const char *key, const char *url)
{
	pthread_mutex_lock(&parts->mutex);
	struct site_part *part = find(parts, key, url);
	const size_t bytes = part != NULL ? part->body.size : 0;
	if (part != NULL)
		part->given_up = part->coming;
	pthread_mutex_unlock(&parts->mutex);
	return bytes;
}
