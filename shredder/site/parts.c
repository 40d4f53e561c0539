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

struct part {
	char *key, *url;
	uint64_t wanted;
	struct store_buf body;
	struct part *next; /* the older one */
};

struct site_parts {
	pthread_mutex_t mutex;
	struct part *newest;
};

struct site_parts *site_parts_new(void)
{
	struct site_parts *parts = (struct site_parts *)store_alloc(sizeof(*parts));

	pthread_mutex_init(&parts->mutex, NULL);
	return parts;
}

static void free_part(struct part *part)
{
	store_buf_free(&part->body);
	free(part->key);
	free(part->url);
	free(part);
}

void site_parts_free(struct site_parts *parts)
{
	while (parts->newest != NULL) {
		struct part *next = parts->newest->next;

		free_part(parts->newest);
		parts->newest = next;
	}
	pthread_mutex_destroy(&parts->mutex);
	free(parts);
}

/* With the mutex held: where the pointer to a part is, or to NULL. */
static struct part **find(struct site_parts *parts, const char *key, const char *url)
{
	struct part **at = &parts->newest;

	while (*at != NULL && (strcmp((*at)->key, key) != 0 || strcmp((*at)->url, url) != 0))
		at = &(*at)->next;
	return at;
}

static void remove_part(struct part **at)
{
	struct part *part = *at;

	*at = part->next;
	free_part(part);
}

/* With the mutex held: from the newest on, what fits. */
static void make_room(struct site_parts *parts)
{
	uint64_t bytes = 0;

	for (struct part **at = &parts->newest; *at != NULL;) {
		uint32_t of_client = 0;

		for (const struct part *newer = parts->newest; newer != *at; newer = newer->next)
			of_client += strcmp(newer->key, (*at)->key) == 0;
		bytes += (*at)->body.size;
		if (bytes > PARTS_BYTES_MAX || of_client >= PARTS_OF_CLIENT_MAX) {
			bytes -= (*at)->body.size;
			remove_part(at);
		} else {
			at = &(*at)->next;
		}
	}
}

void site_part_keep(struct site_parts *parts, const char *key, const char *url, uint64_t wanted, struct store_buf *body)
{
	if (body->size < PART_BYTES_MIN)
		return;
	struct part *part = (struct part *)store_alloc(sizeof(*part));
	part->key = store_strdup(key);
	part->url = store_strdup(url);
	part->wanted = wanted;
	part->body = *body;
	memset(body, 0, sizeof(*body));
	pthread_mutex_lock(&parts->mutex);
	struct part **old = find(parts, key, url);
	if (*old != NULL)
		remove_part(old);
	part->next = parts->newest;
	parts->newest = part;
	make_room(parts);
	pthread_mutex_unlock(&parts->mutex);
}

size_t site_part_bytes(struct site_parts *parts, const char *key, const char *url)
{
	pthread_mutex_lock(&parts->mutex);
	struct part *const *at = find(parts, key, url);
	const size_t bytes = *at != NULL ? (*at)->body.size : 0;
	pthread_mutex_unlock(&parts->mutex);
	return bytes;
}

bool site_part_take(struct site_parts *parts, const char *key, const char *url, uint64_t from, uint64_t wanted,
		    struct store_buf *body)
{
	bool there = false;

	pthread_mutex_lock(&parts->mutex);
	struct part **at = find(parts, key, url);
	if (*at != NULL && (*at)->body.size == from && (*at)->wanted == wanted) {
		*body = (*at)->body;
		memset(&(*at)->body, 0, sizeof((*at)->body));
		remove_part(at);
		there = true;
	}
	pthread_mutex_unlock(&parts->mutex);
	return there;
}
