/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line for each GPU: loads that were submitted, the oldest first, as a device wants them collected. There is no thread: one of those that wait
 * collects for all, and when its own load is there, the owner of the oldest one does.
 *
 * Locks: `lock` guards everything but the calls of a device; `order` of a line, taken before it, keeps loads in the order of submit(). A line's
 * entries lie on their owners' stacks, and are off the line before their owner goes on.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chunk/devices.h"
#include "chunk/service.h"

/* Loads of a GPU at a time: one is copied, one is searched, the others wait, so that it never does. */
#define LOADS_MAX 8u

struct entry {
	struct shredder_batch batch;
	struct shredder_load *load;
	struct entry *next; /* submitted behind it */
	pthread_cond_t woken;
	int rc;
	bool done;
};

struct line {
	struct shredder_device *device;
	bool lost;
	pthread_mutex_t order;
	bool used[LOADS_MAX]; /* slots of the device's ring */
	uint32_t under_way;
	struct entry *first, *last;
	bool collecting;
};

enum state { NOT_OPENED, OPENING, OPENED };

struct shredder_service {
	const struct shredder_device_ops *ops; /* NULL: none was built */
	struct shredder_rule rule;
	struct shredder_device_setup setup;
	uint32_t gpus[SHREDDER_GPUS_MAX];
	bool named; /* `gpus` are the caller's */
	pthread_mutex_t lock;
	pthread_cond_t room; /* a slot is free, or a line was lost */
	enum state state;
	struct line lines[SHREDDER_GPUS_MAX];
	uint32_t lines_count;
	struct shredder_service_state told;
};

struct shredder_service *shredder_service_new(const struct shredder_service_options *options)
{
	struct shredder_service *s = (struct shredder_service *)calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->ops = shredder_device_find(NULL);
	s->named = options->gpus != NULL;
	if (s->named)
		memcpy(s->gpus, options->gpus, options->gpus_count * sizeof(*s->gpus));
	shredder_rule_init(&s->rule, options->params);
	s->setup = (struct shredder_device_setup){.rule = &s->rule,
						  .buffer_bytes = options->load_bytes,
						  .buffers = (uint32_t)g4_min64(g4_max64(options->users, 2), LOADS_MAX),
						  .find_chunks = true,
						  .digests = true,
						  .gpus = s->named ? s->gpus : NULL,
						  .gpus_count = options->gpus_count,
						  .borders = options->borders_max};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->room, NULL);
	return s;
}

void shredder_service_close(struct shredder_service *s)
{
	if (s == NULL)
		return;
	for (uint32_t i = 0; i < s->lines_count; i++) {
		s->ops->close(s->lines[i].device);
		pthread_mutex_destroy(&s->lines[i].order);
	}
	pthread_cond_destroy(&s->room);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* With the lock held. */
static void note_trouble(struct shredder_service *s, uint32_t gpu, const char *why)
{
	const size_t at = strlen(s->told.trouble);

	snprintf(s->told.trouble + at, sizeof(s->told.trouble) - at, "%sGPU %u: %s", at == 0 ? "" : "; ", gpu, why);
}

/* Each GPU by itself: they share no stream. By the thread that made the state OPENING. */
static void open_lines(struct shredder_service *s)
{
	const uint32_t count = (uint32_t)g4_min64(s->ops->count(&s->setup), SHREDDER_GPUS_MAX);
	const char *why = "there is no GPU that CUDA can use";

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t number = s->named ? s->gpus[i] : i;
		struct shredder_device_setup setup = s->setup;
		struct line *line = &s->lines[s->lines_count];

		setup.gpus = &number;
		setup.gpus_count = 1;
		const int rc = s->ops->open(&setup, &line->device, &why);
		pthread_mutex_lock(&s->lock);
		if (rc == 0) {
			pthread_mutex_init(&line->order, NULL);
			s->lines_count++;
		} else {
			note_trouble(s, number, why);
		}
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_lock(&s->lock);
	s->told.gpus = count;
	s->told.works = s->lines_count;
	if (count == 0)
		snprintf(s->told.trouble, sizeof(s->told.trouble), "%s", why);
	s->state = OPENED;
	pthread_mutex_unlock(&s->lock);
}

bool shredder_service_begin(struct shredder_service *s)
{
	pthread_mutex_lock(&s->lock);
	const bool mine = s->state == NOT_OPENED;
	if (mine && s->ops == NULL) {
		s->state = OPENED;
		snprintf(s->told.trouble, sizeof(s->told.trouble), "this program was built without that engine");
	} else if (mine) {
		s->state = OPENING;
	}
	pthread_mutex_unlock(&s->lock);
	if (mine && s->ops != NULL)
		open_lines(s);
	return shredder_service_ready(s);
}

bool shredder_service_ready(struct shredder_service *s)
{
	pthread_mutex_lock(&s->lock);
	const bool ready = s->state == OPENED && s->told.works > 0;
	pthread_mutex_unlock(&s->lock);
	return ready;
}

bool shredder_service_hopes(struct shredder_service *s)
{
	pthread_mutex_lock(&s->lock);
	const bool hopes = s->state != OPENED || s->told.works > 0;
	pthread_mutex_unlock(&s->lock);
	return hopes;
}

void *shredder_service_alloc(struct shredder_service *s)
{
	return shredder_service_ready(s) ? s->ops->alloc(s->lines[0].device, s->setup.buffer_bytes) : NULL;
}

void shredder_service_free(struct shredder_service *s, void *memory)
{
	if (memory != NULL)
		s->ops->free(s->lines[0].device, memory, s->setup.buffer_bytes);
}

void shredder_service_get_state(struct shredder_service *s, struct shredder_service_state *state)
{
	pthread_mutex_lock(&s->lock);
	*state = s->told;
	pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------------------------------------------------- loads */

/* With the lock held: a slot of the GPU that has least to do; waits for one. NULL: no GPU works. */
static struct line *take_slot(struct shredder_service *s, uint32_t *slot)
{
	for (;;) {
		struct line *best = NULL;

		for (uint32_t i = 0; i < s->lines_count; i++)
			if (!s->lines[i].lost && (best == NULL || s->lines[i].under_way < best->under_way))
				best = &s->lines[i];
		if (s->state != OPENED || best == NULL)
			return NULL;
		if (best->under_way == s->setup.buffers) {
			pthread_cond_wait(&s->room, &s->lock);
			continue;
		}
		for (*slot = 0; best->used[*slot]; ++*slot)
			;
		best->used[*slot] = true;
		best->under_way++;
		return best;
	}
}

/* With the lock held: nobody begins on it any more. */
static void lose(struct shredder_service *s, struct line *line)
{
	if (line->lost)
		return;
	line->lost = true;
	s->told.works--;
	pthread_cond_broadcast(&s->room);
}

/* With the lock held, of a line that is lost, when the last one has left it: until then its device may be failing in another thread. */
static void tell_loss(struct shredder_service *s, const struct line *line)
{
	const char *trouble = NULL;
	uint32_t number = 0;

	s->ops->gpu(line->device, 0, &number, &trouble);
	note_trouble(s, number, trouble != NULL ? trouble : shredder_strerror(SHREDDER_E_KERNEL));
}

/* Without the lock, by one thread at a time: the oldest entry's chunks. */
static int collect(const struct shredder_service *s, const struct line *line, struct entry *entry)
{
	struct shredder_load *load = entry->load;
	struct shredder_batch *batch = &entry->batch;

	load->count = 0;
	do {
		batch->ends = load->ends + load->count;
		batch->room = load->room - load->count;
		const int rc = s->ops->collect(line->device, batch);
		if (rc != 0)
			return rc;
		load->count += batch->count;
	} while (batch->more && load->count < load->room);
	return batch->declined ? SHREDDER_E_AGAIN : batch->more ? SHREDDER_E_BUFFERS : 0;
}

/* With the lock held, until the entry is off the line. */
static void wait_for(struct shredder_service *s, struct line *line, struct entry *entry)
{
	while (!entry->done) {
		struct entry *oldest = line->first;

		if (line->collecting) {
			pthread_cond_wait(&entry->woken, &s->lock);
			continue;
		}
		line->collecting = true;
		pthread_mutex_unlock(&s->lock);
		const int rc = collect(s, line, oldest);
		pthread_mutex_lock(&s->lock);
		line->collecting = false;
		line->first = oldest->next;
		oldest->rc = rc;
		oldest->done = true;
		if (oldest != entry)
			pthread_cond_signal(&oldest->woken);
	}
	if (!line->collecting && line->first != NULL)
		pthread_cond_signal(&line->first->woken);
}

int shredder_service_cut(struct shredder_service *s, struct shredder_load *load)
{
	struct entry entry = {.load = load};
	uint32_t slot;

	pthread_mutex_lock(&s->lock);
	struct line *line = take_slot(s, &slot);
	pthread_mutex_unlock(&s->lock);
	if (line == NULL)
		return SHREDDER_E_ENGINE;
	pthread_cond_init(&entry.woken, NULL);
	entry.batch = (struct shredder_batch){.slot = slot,
					      .data = load->data,
					      .bytes = load->bytes,
					      .last = true,
					      .alone = true,
					      .borders = load->borders,
					      .borders_count = load->borders_count,
					      .ends = load->ends,
					      .room = load->room};
	pthread_mutex_lock(&line->order);
	int rc = s->ops->submit(line->device, &entry.batch);
	pthread_mutex_lock(&s->lock);
	if (rc == 0) {
		*(line->first == NULL ? &line->first : &line->last->next) = &entry;
		line->last = &entry;
	}
	pthread_mutex_unlock(&line->order);
	if (rc == 0) {
		wait_for(s, line, &entry);
		rc = entry.rc;
	}
	if (rc == 0)
		s->told.bytes += load->bytes;
	else if (rc != SHREDDER_E_AGAIN)
		lose(s, line);
	line->used[slot] = false;
	if (--line->under_way == 0 && line->lost)
		tell_loss(s, line);
	pthread_cond_signal(&s->room);
	pthread_mutex_unlock(&s->lock);
	pthread_cond_destroy(&entry.woken);
	return rc;
}
