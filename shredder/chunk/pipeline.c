/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of the ring: searching regions, resolving cuts, hashing chunks, and a device's transfers. See chunker.h. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "chunk/chunker.h"

/* Chunks that one call of g4_blake3_many() hashes. */
#define GROUP_CHUNKS 64
/* Workers beside a device that gives chunks: one submits while another one waits for an answer. */
#define DEVICE_WORKERS 2

uint64_t shredder_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void shredder_fail(struct shredder *s, int code, const char *format, ...)
{
	va_list arguments;

	if (s->error != 0)
		return;
	s->error = code;
	va_start(arguments, format);
	vsnprintf(s->message, sizeof(s->message), format, arguments);
	va_end(arguments);
	pthread_cond_broadcast(&s->changed);
}

void shredder_wake(struct shredder *s, uint64_t tasks)
{
	if (s->waiting > 0 || tasks > 1)
		pthread_cond_broadcast(&s->changed);
}

void shredder_wait(struct shredder *s)
{
	s->waiting++;
	pthread_cond_wait(&s->changed, &s->lock);
	s->waiting--;
}

/* A task runs between these two, without the lock. */
static uint64_t task_begin(struct shredder *s)
{
	s->active++;
	pthread_mutex_unlock(&s->lock);
	return shredder_now_ns();
}

static void task_end(struct shredder *s, enum shredder_stage stage, uint64_t began_ns)
{
	const uint64_t took = shredder_now_ns() - began_ns;

	pthread_mutex_lock(&s->lock);
	s->stats.busy_ns[stage] += took;
	if (--s->active == 0 && s->error != 0) /* somebody may wait for the last one */
		shredder_wake(s, 0);
}

/* ------------------------------------------------------------------------------------------------------- filling */

struct shredder_slot *shredder_acquire(struct shredder *s)
{
	if (s->acquire_seq == s->deliver_seq + s->slots_count)
		return NULL;
	return shredder_slot_of(s, s->acquire_seq++);
}

/* Nothing was looked for in the slot so far. */
static void prepare_search(const struct shredder *s, struct shredder_slot *slot)
{
	const bool on_device = shredder_on_device(s);

	slot->regions = on_device ? 0 : (slot->bytes + s->region_bytes - 1) / s->region_bytes;
	slot->regions_taken = slot->regions_done = 0;
	slot->submitted = slot->resolved = slot->more = false;
	slot->marked = !on_device && slot->regions == 0;
}

void shredder_fill(struct shredder *s, uint64_t bytes, bool last)
{
	struct shredder_slot *slot = shredder_slot_of(s, s->fill_seq);

	slot->bytes = bytes;
	slot->last = last;
	slot->position = s->filled_bytes;
	memcpy(slot->before, s->tail, sizeof(slot->before));
	if (!last && !s->flat_device) /* every buffer but the last is full, so it has that many bytes */
		memcpy(s->tail, slot->data + bytes - SHREDDER_WINDOW_BYTES, SHREDDER_WINDOW_BYTES);
	prepare_search(s, slot);
	slot->count = slot->groups = slot->groups_taken = slot->groups_done = 0;
	s->filled_bytes += bytes;
	s->complete = last;
	s->fill_seq++;
	shredder_wake(s, g4_max64(slot->regions, s->fill_seq - s->resolve_seq));
}

/* An input in memory fills every free slot at once: nothing is copied. */
static void fill_from_memory(struct shredder *s)
{
	while (s->source == SOURCE_FLAT && !s->complete) {
		struct shredder_slot *slot = shredder_acquire(s);
		const uint64_t rest = s->flat_bytes - s->filled_bytes;

		if (slot == NULL)
			return;
		slot->data = s->flat + s->filled_bytes;
		shredder_fill(s, g4_min64(rest, s->buffer_bytes), rest <= s->buffer_bytes);
	}
}

/* ------------------------------------------------------------------------------------------------------- markers */

static bool work_on_region(struct shredder *s)
{
	for (uint64_t seq = s->resolve_seq; !shredder_on_device(s) && seq < s->fill_seq; seq++) {
		struct shredder_slot *slot = shredder_slot_of(s, seq);

		if (slot->regions_taken == slot->regions)
			continue;
		const uint64_t at = slot->regions_taken++ * s->region_bytes;
		const uint8_t *before = at == 0 ? slot->before + 1 : slot->data + at - SHREDDER_HISTORY_BYTES;
		shredder_find_fn *find =
			s->rule.params.algorithm == SHREDDER_GEAR ? s->kernel->find_gear : s->kernel->find_rabin;
		const uint64_t began = task_begin(s);
		find(&s->rule, before, slot->data + at, g4_min64(slot->bytes - at, s->region_bytes),
		     slot->marks + at / 64);
		task_end(s, SHREDDER_STAGE_KERNEL, began);
		if (++slot->regions_done == slot->regions) {
			slot->marked = true;
			shredder_wake(s, 1);
		}
		return true;
	}
	return false;
}

/* -------------------------------------------------------------------------------------------------------- device */

static bool submit_to_device(struct shredder *s)
{
	if (!shredder_on_device(s) || s->device_error != 0 || s->submitting || s->submit_seq == s->fill_seq)
		return false;

	struct shredder_slot *slot = shredder_slot_of(s, s->submit_seq);
	struct shredder_batch *batch = &slot->batch;
	memset(batch, 0, sizeof(*batch));
	batch->slot = (uint32_t)(s->submit_seq % s->slots_count);
	batch->data = slot->data;
	batch->bytes = slot->bytes;
	batch->position = slot->position;
	batch->last = slot->last;
	batch->marks = slot->marks;
	batch->ends = slot->ends;
	batch->room = s->ends_room;
	s->submitting = true;
	const uint64_t began = task_begin(s);
	const int rc = s->device_ops->submit(s->device, batch);
	task_end(s, SHREDDER_STAGE_STORE, began);
	s->submitting = false;
	s->submit_seq++;
	slot->submitted = true;
	if (rc != 0)
		s->device_error = rc;
	pthread_cond_broadcast(&s->changed);
	return true;
}

static void count_batch(struct shredder *s, const struct shredder_batch *batch)
{
	struct shredder_gpu_stats *gpu = &s->gpu_stats[batch->gpu];

	s->stats.busy_ns[SHREDDER_STAGE_TRANSFER] += batch->transfer_ns;
	s->stats.busy_ns[SHREDDER_STAGE_KERNEL] += batch->kernel_ns;
	gpu->transfer_ns += batch->transfer_ns;
	gpu->kernel_ns += batch->kernel_ns;
	gpu->buffers++;
	gpu->bytes += batch->bytes;
}

/* Waits for the device's answer to the oldest buffer. */
static bool collect_from_device(struct shredder *s)
{
	struct shredder_slot *slot = shredder_slot_of(s, s->resolve_seq);

	if (!shredder_on_device(s) || s->device_error != 0 || s->collecting || s->resolve_seq == s->fill_seq ||
	    !slot->submitted || slot->marked)
		return false;
	s->collecting = true;
	s->active++;
	pthread_mutex_unlock(&s->lock);
	const int rc = s->device_ops->collect(s->device, &slot->batch);
	pthread_mutex_lock(&s->lock);
	s->active--;
	s->collecting = false;
	if (rc != 0)
		s->device_error = rc;
	else if (!slot->more) /* the first answer for this buffer */
		count_batch(s, &slot->batch);
	slot->marked = rc == 0;
	pthread_cond_broadcast(&s->changed);
	return true;
}

/* ------------------------------------------------------------------------------------------ when the device fails */

void shredder_note_failure(struct shredder *s)
{
	size_t at = 0;
	const char *trouble;
	uint32_t number;

	if (s->device == NULL)
		return;
	for (uint32_t i = 0; s->device_ops->gpu(s->device, i, &number, &trouble); i++)
		if (trouble != NULL && at < sizeof(s->fell_back))
			at += (size_t)snprintf(s->fell_back + at, sizeof(s->fell_back) - at, "%sGPU %u: %s",
					       at == 0 ? "" : "; ", number, trouble);
	if (s->device_lost && at == 0)
		snprintf(s->fell_back, sizeof(s->fell_back), "%s", shredder_strerror(SHREDDER_E_KERNEL));
}

/*
 * What precedes the oldest buffer that is not resolved, as far as a GPU needs it to go on there. False: the beginning of
 * the open chunk is not there any more, but hashed.
 */
static bool describe_restart(const struct shredder *s, const struct shredder_slot *slot, struct shredder_restart *at)
{
	const bool digests = s->device_chunks && (s->flags & SHREDDER_NO_DIGEST) == 0;

	at->position = slot->position;
	at->open = s->open_start;
	at->before_bytes = s->flat_device ? 0 : g4_min64(slot->position, SHREDDER_WINDOW_BYTES);
	at->before = slot->before + SHREDDER_WINDOW_BYTES - at->before_bytes;
	if (s->flat_device || !digests || at->open + SHREDDER_WINDOW_BYTES >= at->position)
		return true;
	at->before = shredder_chunk_data(s, slot, at->open);
	at->before_bytes = at->position - at->open;
	return at->before != NULL;
}

/* The CPU engine goes on where the chunks end that are known. */
static void continue_on_cpu(struct shredder *s)
{
	s->device_lost = true;
	if (s->flat_device) {
		shredder_fail(s, SHREDDER_E_KERNEL, "%s: %s", s->device_ops->name, s->fell_back);
		return;
	}
	if (!s->device_chunks)
		return;
	s->device_chunks = false;
	pthread_cond_broadcast(&s->needed);
	shredder_resolver_init(&s->resolver, &s->rule);
	s->resolver.start = s->resolver.scanned = s->open_start;
}

/* After an error: the GPUs that work go on, or the CPU engine does. No chunk that was found is lost or found again. */
static bool recover_device(struct shredder *s)
{
	const struct shredder_slot *slot = shredder_slot_of(s, s->resolve_seq);
	struct shredder_restart at;

	/* what was collected is resolved first; what failed was not collected, so there is such a slot */
	if (!shredder_on_device(s) || s->device_error == 0 || s->submitting || s->collecting || s->resolving ||
	    slot->marked)
		return false;
	s->submitting = s->collecting = s->resolving = true;
	s->active++;
	const bool possible = describe_restart(s, slot, &at);
	pthread_mutex_unlock(&s->lock);
	const int rc = s->device_ops->restart(s->device, possible ? &at : NULL);
	pthread_mutex_lock(&s->lock);
	s->active--;
	s->submitting = s->collecting = s->resolving = false;
	s->device_error = 0;
	if (rc != 0 || !possible)
		continue_on_cpu(s);
	shredder_note_failure(s);
	s->submit_seq = s->resolve_seq;
	for (uint64_t seq = s->resolve_seq; seq < s->fill_seq; seq++)
		prepare_search(s, shredder_slot_of(s, seq));
	pthread_cond_broadcast(&s->changed);
	return true;
}

/* ---------------------------------------------------------------------------------------------------------- cuts */

const uint8_t *shredder_chunk_data(const struct shredder *s, const struct shredder_slot *slot, uint64_t start)
{
	if (s->source == SOURCE_FLAT)
		return s->flat + start;
	if (start >= slot->position)
		return slot->data + (start - slot->position);
	return slot->carried ? slot->data - (slot->position - start) : NULL;
}

/* The first chunk of the slot began in front of it and was hashed so far: its end completes the digest. */
static void finish_long_chunk(struct shredder *s, struct shredder_slot *slot)
{
	struct shredder_end *end = &slot->ends[0];

	if (slot->count == 0 || !s->hashing)
		return;
	s->hashing = false;
	if (end->has_digest || (s->flags & SHREDDER_NO_DIGEST) != 0)
		return;
	g4_blake3_update(&s->hash, slot->data, end->end - slot->position);
	g4_blake3_final(&s->hash, end->digest);
	end->has_digest = 1;
}

/* What the next buffer needs of the chunk that is open at the end of this one. */
static void carry_open_chunk(struct shredder *s, struct shredder_slot *slot)
{
	struct shredder_slot *next = shredder_slot_of(s, s->resolve_seq + 1);
	const uint64_t end = slot->position + slot->bytes;
	const uint64_t bytes = end - s->open_start;
	const uint8_t *data = shredder_chunk_data(s, slot, s->open_start);

	if (s->source == SOURCE_FLAT || slot->last)
		return;
	next->carried = !s->hashing && bytes <= s->carry_bytes;
	if (next->carried) {
		if (bytes > 0)
			memcpy(next->memory + s->carry_bytes - bytes, data, bytes);
		return;
	}
	const bool wanted = (s->flags & SHREDDER_NO_DIGEST) == 0; /* of a device's chunks, too: it may fail */
	if (!s->hashing) {
		s->hashing = true;
		if (wanted) {
			g4_blake3_init(&s->hash);
			g4_blake3_update(&s->hash, data, bytes);
		}
	} else if (wanted) {
		g4_blake3_update(&s->hash, slot->data, slot->bytes);
	}
}

/* The chunks of a slot, and what its end leaves open. Without the lock. */
static int resolve_slot(struct shredder *s, struct shredder_slot *slot)
{
	if (s->device_chunks) {
		slot->count = slot->batch.count;
		slot->more = slot->batch.more;
	} else {
		const struct shredder_view view = {.data = slot->data,
						   .bytes = slot->bytes,
						   .position = slot->position,
						   .before = slot->before,
						   .marks = slot->marks,
						   .last = slot->last};
		const int64_t count = shredder_resolve(&s->resolver, &view, slot->ends, s->ends_room, &slot->more);

		if (count < 0)
			return (int)count;
		slot->count = (uint64_t)count;
	}
	slot->start = s->open_start;
	finish_long_chunk(s, slot);
	if (slot->count > 0)
		s->open_start = slot->ends[slot->count - 1].end;
	if (!slot->more)
		carry_open_chunk(s, slot);
	return 0;
}

static bool work_on_cuts(struct shredder *s)
{
	struct shredder_slot *slot = shredder_slot_of(s, s->resolve_seq);

	if (s->resolving || s->resolve_seq == s->fill_seq || !slot->marked || slot->resolved)
		return false;
	/* the carry area of the next slot must be free */
	if (s->source != SOURCE_FLAT && !slot->last && s->resolve_seq + 1 == s->deliver_seq + s->slots_count)
		return false;
	s->resolving = true;
	const uint64_t began = task_begin(s);
	const int rc = resolve_slot(s, slot);
	task_end(s, SHREDDER_STAGE_STORE, began);
	s->resolving = false;
	if (rc != 0) {
		shredder_fail(s, rc, "%s", shredder_strerror(rc));
		return true;
	}
	slot->resolved = true;
	slot->groups_taken = slot->groups_done = 0;
	slot->groups = (s->flags & SHREDDER_NO_DIGEST) != 0 || s->device_chunks ?
			       0 :
			       (slot->count + GROUP_CHUNKS - 1) / GROUP_CHUNKS;
	if (!slot->more)
		s->resolve_seq++;
	shredder_wake(s, slot->groups + (s->fill_seq - s->resolve_seq));
	return true;
}

/* ------------------------------------------------------------------------------------------------------- digests */

static void hash_group(const struct shredder *s, struct shredder_slot *slot, uint64_t first)
{
	const void *data[GROUP_CHUNKS];
	uint64_t bytes[GROUP_CHUNKS];
	uint8_t digests[GROUP_CHUNKS][G4_BLAKE3_BYTES];
	const uint64_t count = g4_min64(slot->count - first, GROUP_CHUNKS);
	uint64_t start = first == 0 ? slot->start : slot->ends[first - 1].end;
	const uint64_t skip = slot->ends[first].has_digest != 0 ? 1 : 0; /* only a slot's first chunk can have one */

	for (uint64_t i = 0; i < count; i++) {
		data[i] = shredder_chunk_data(s, slot, start);
		bytes[i] = slot->ends[first + i].end - start;
		start += bytes[i];
	}
	g4_blake3_many(count - skip, data + skip, bytes + skip, digests);
	for (uint64_t i = skip; i < count; i++)
		memcpy(slot->ends[first + i].digest, digests[i - skip], G4_BLAKE3_BYTES);
}

static bool work_on_digests(struct shredder *s)
{
	const uint64_t limit = g4_min64(s->resolve_seq + 1, s->fill_seq);

	for (uint64_t seq = s->deliver_seq; seq < limit; seq++) {
		struct shredder_slot *slot = shredder_slot_of(s, seq);

		if (!slot->resolved || slot->groups_taken == slot->groups)
			continue;
		const uint64_t group = slot->groups_taken++;
		const uint64_t began = task_begin(s);
		hash_group(s, slot, group * GROUP_CHUNKS);
		task_end(s, SHREDDER_STAGE_STORE, began);
		if (++slot->groups_done == slot->groups)
			shredder_wake(s, 0);
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------------------------------------------- threads */

bool shredder_work(struct shredder *s)
{
	if (s->source == SOURCE_NONE || s->finished || s->error != 0)
		return false;
	fill_from_memory(s);
	/* the oldest bytes first: what is nearest to the caller's hands frees a buffer soonest */
	return recover_device(s) || submit_to_device(s) || work_on_digests(s) || work_on_cuts(s) || work_on_region(s) ||
	       collect_from_device(s);
}

void *shredder_worker_main(void *chunker)
{
	struct shredder *s = (struct shredder *)chunker;

	pthread_mutex_lock(&s->lock);
	const bool spared = s->begun++ >= DEVICE_WORKERS;
	while (!s->stopping) {
		if (spared && s->device_chunks) {
			s->spare++;
			pthread_cond_wait(&s->needed, &s->lock);
			s->spare--;
		} else if (!shredder_work(s)) {
			pthread_cond_wait(&s->changed, &s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void shredder_reset(struct shredder *s)
{
	s->source = SOURCE_NONE;
	s->finished = false;
	s->result = s->error = s->device_error = 0;
	s->device_chunks = shredder_on_device(s) && s->finds_chunks;
	if (!s->device_chunks)
		pthread_cond_broadcast(&s->needed);
	s->acquire_seq = s->fill_seq = s->submit_seq = s->resolve_seq = s->deliver_seq = s->deliver_index = 0;
	s->filled_bytes = s->push_bytes = s->open_start = 0;
	memset(s->tail, 0, sizeof(s->tail));
	s->complete = s->hashing = s->flat_device = false;
	s->flat = NULL;
	s->flat_bytes = 0;
	s->message[0] = 0;
	for (uint32_t i = 0; i < s->slots_count; i++) {
		struct shredder_slot *slot = &s->slots[i];

		slot->carried = false;
		slot->data = slot->memory != NULL ? slot->memory + s->carry_bytes : NULL;
	}
	shredder_resolver_init(&s->resolver, &s->rule);
	memset(&s->stats, 0, sizeof(s->stats));
	memset(s->gpu_stats, 0, sizeof(s->gpu_stats));
}
