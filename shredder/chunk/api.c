/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: opening with an engine, beginning inputs, handing out chunks. See chunker.h for the ring. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chunk/chunker.h"
#include "chunk/devices.h"

#define DEFAULT_BUFFER_BYTES (4 * G4_MIB)
/* With GPUs: submitting and collecting a buffer costs the host the same, whatever its size. */
#define DEVICE_BUFFER_BYTES (16 * G4_MIB)
#define BUFFER_BYTES_MAX G4_GIB
#define THREADS_MAX 256
#define BUFFERS_MAX 1024
/* Regions that a buffer is cut into for each thread, and bytes below which that does not pay. */
#define REGIONS_PER_THREAD 2
#define REGION_BYTES_MIN (256 * G4_KIB)
#define ENDS_MAX 65536
/* Buffers that a GPU needs: one is copied, one waits to be, one is searched, one delivered. */
#define BUFFERS_PER_GPU 4
#define HUGE_PAGE_BYTES (2 * G4_MIB)

const char *shredder_stage_name(uint32_t stage)
{
	static const char *const names[SHREDDER_STAGES] = {"read", "transfer", "kernel", "store"};

	return stage < SHREDDER_STAGES ? names[stage] : "unknown";
}

/* ------------------------------------------------------------------------------------------------------- opening */

static int check_options(const struct shredder_options *options)
{
	if (options->size != sizeof(*options) || options->reserved != 0 ||
	    (options->flags & ~(uint32_t)(SHREDDER_NO_DIGEST | SHREDDER_NO_DIRECT | SHREDDER_NO_DATA)) != 0)
		return SHREDDER_E_VERSION;
	if (options->threads > THREADS_MAX)
		return SHREDDER_E_INVAL;
	if (options->gpus_count > SHREDDER_GPUS_MAX || (options->gpus != NULL && options->gpus_count == 0))
		return SHREDDER_E_INVAL;
	if (options->buffers == 1 || options->buffers > BUFFERS_MAX)
		return SHREDDER_E_BUFFERS;
	if (options->buffer_bytes % SHREDDER_DIRECT_ALIGN != 0 || options->buffer_bytes > BUFFER_BYTES_MAX)
		return SHREDDER_E_BUFFERS;
	return 0;
}

static void choose_sizes(struct shredder *s, const struct shredder_options *options)
{
	const struct shredder_params *p = &s->rule.params;
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const bool bounded = p->max_bytes <= SHREDDER_DATA_MAX && p->record_bytes <= SHREDDER_DATA_MAX - p->max_bytes;

	s->flags = options->flags;
	s->threads = options->threads != 0 ? options->threads : processors > 0 ? (uint32_t)processors : 1;
	s->threads = (uint32_t)g4_min64(s->threads, THREADS_MAX);
	s->carry_bytes = 0;
	if (bounded && (s->flags & SHREDDER_NO_DATA) == 0)
		s->carry_bytes = g4_align_up(p->max_bytes + p->record_bytes, SHREDDER_DIRECT_ALIGN);
}

/* The ring's buffers where the caller named none: so many of that size. */
static void choose_ring(struct shredder *s, const struct shredder_options *options, uint32_t buffers,
			uint64_t buffer_bytes)
{
	s->slots_count = options->buffers != 0 ? options->buffers : buffers;
	s->buffer_bytes = options->buffer_bytes != 0 ? options->buffer_bytes : buffer_bytes;
	s->region_bytes = g4_align_up(
		g4_max64(s->buffer_bytes / (REGIONS_PER_THREAD * (uint64_t)s->threads), REGION_BYTES_MIN), 64);
	s->ends_room = g4_min64(s->buffer_bytes / g4_max64(s->rule.params.min_bytes, 64) + 2, ENDS_MAX);
}

static void choose_cpu_ring(struct shredder *s, const struct shredder_options *options)
{
	choose_ring(s, options, s->threads + 3, DEFAULT_BUFFER_BYTES);
}

/* Opens the device, or says why the CPU engine does its work. */
static void open_device(struct shredder *s, const struct shredder_options *options)
{
	const struct shredder_params *p = &s->rule.params;
	const bool chunks = p->delimiter_bytes == 0 && p->record == NULL;
	struct shredder_device_setup setup = {.rule = &s->rule,
					      .buffer_bytes = options->buffer_bytes != 0 ? options->buffer_bytes :
											   DEVICE_BUFFER_BYTES,
					      .find_chunks = chunks,
					      .digests = chunks && (s->flags & SHREDDER_NO_DIGEST) == 0,
					      .gpus = options->gpus,
					      .gpus_count = options->gpus_count};
	const char *why = "";

	choose_ring(s, options, BUFFERS_PER_GPU * s->device_ops->count(&setup) + 1, setup.buffer_bytes);
	setup.buffers = s->slots_count;
	if (s->device_ops->open(&setup, &s->device, &why) != 0) {
		s->device_ops = NULL;
		s->device = NULL;
		choose_cpu_ring(s, options);
		snprintf(s->fell_back, sizeof(s->fell_back), "%s", why);
		return;
	}
	s->finds_chunks = chunks;
	/* what another GPU needs to go on when one fails: the open chunk's bytes */
	if (setup.digests && s->carry_bytes == 0 && p->max_bytes <= s->buffer_bytes)
		s->carry_bytes = g4_align_up(p->max_bytes, SHREDDER_DIRECT_ALIGN);
	shredder_note_failure(s);
}

/* The engine by its name: a kernel of the CPU's, or a device with the CPU's to fall back to. */
static int choose_engine(struct shredder *s, const struct shredder_options *options)
{
	const char *name = options->engine;
	const bool any = name == NULL || strcmp(name, "auto") == 0;

	s->kernel = shredder_kernel_find(any || strcmp(name, "cpu") == 0 ? NULL : name);
	if (s->kernel != NULL && !any)
		return 0;
	if (!any && !shredder_device_known(name))
		return SHREDDER_E_ENGINE;
	s->kernel = shredder_kernel_find(NULL);
	s->device_ops = shredder_device_find(any ? NULL : name);
	if (s->device_ops != NULL)
		open_device(s, options);
	else if (!any || options->gpus_count > 0)
		snprintf(s->fell_back, sizeof(s->fell_back), "this library was built without that engine");
	return 0;
}

/* Memory that the device reads fast, while it works: *locked. */
static void *allocate(struct shredder *s, uint64_t bytes, bool *locked)
{
	const uint64_t unit = bytes < HUGE_PAGE_BYTES ? SHREDDER_DIRECT_ALIGN : HUGE_PAGE_BYTES;
	void *memory;

	*locked = shredder_on_device(s);
	if (*locked)
		return s->device_ops->alloc(s->device, bytes);
	memory = aligned_alloc(unit, g4_align_up(bytes, unit));
	if (memory != NULL && unit == HUGE_PAGE_BYTES) /* a hint: fewer page faults and walks */
		madvise(memory, g4_align_up(bytes, unit), MADV_HUGEPAGE);
	return memory;
}

static void release(struct shredder *s, const struct shredder_slot *slot)
{
	if (slot->memory != NULL && slot->locked)
		s->device_ops->free(s->device, slot->memory, s->carry_bytes + s->buffer_bytes);
	else
		free(slot->memory);
}

/* The buffers' memory: not before an input needs it, since what lies in memory does not. */
static int allocate_buffers(struct shredder *s)
{
	for (uint32_t i = 0; i < s->slots_count; i++) {
		struct shredder_slot *slot = &s->slots[i];

		if (slot->memory == NULL)
			slot->memory = (uint8_t *)allocate(s, s->carry_bytes + s->buffer_bytes, &slot->locked);
		if (slot->memory == NULL)
			return SHREDDER_E_NOMEM;
		slot->data = slot->memory + s->carry_bytes;
	}
	return 0;
}

static int allocate_slots(struct shredder *s)
{
	s->slots = (struct shredder_slot *)calloc(s->slots_count, sizeof(*s->slots));
	s->workers = (pthread_t *)calloc(s->threads, sizeof(*s->workers));
	if (s->slots == NULL || s->workers == NULL)
		return SHREDDER_E_NOMEM;
	for (uint32_t i = 0; i < s->slots_count; i++) {
		struct shredder_slot *slot = &s->slots[i];

		slot->marks = (uint64_t *)malloc(shredder_mark_words(s->buffer_bytes) * sizeof(*slot->marks));
		slot->ends = (struct shredder_end *)malloc(s->ends_room * sizeof(*slot->ends));
		if (slot->marks == NULL || slot->ends == NULL)
			return SHREDDER_E_NOMEM;
	}
	return 0;
}

static int start_workers(struct shredder *s)
{
	for (uint32_t i = 1; i < s->threads; i++) {
		if (pthread_create(&s->workers[s->workers_count], NULL, shredder_worker_main, s) != 0)
			return SHREDDER_E_THREAD;
		s->workers_count++;
	}
	return 0;
}

int shredder_open(const struct shredder_options *options, shredder **out)
{
	const struct shredder_options defaults = {.size = sizeof(defaults)};
	struct shredder_params params = {.size = sizeof(params)};
	int rc;

	if (options == NULL)
		options = &defaults;
	if (out == NULL)
		return SHREDDER_E_INVAL;
	rc = check_options(options);
	if (rc != 0)
		return rc;
	if (options->params != NULL)
		params = *options->params;
	rc = shredder_params_complete(&params);
	if (rc != 0)
		return rc;

	struct shredder *s = (struct shredder *)calloc(1, sizeof(*s));
	if (s == NULL)
		return SHREDDER_E_NOMEM;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	pthread_cond_init(&s->needed, NULL);
	s->fd = -1;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	shredder_rule_init(&s->rule, &params);
	choose_sizes(s, options);
	choose_cpu_ring(s, options);
	rc = s->wake_fd < 0 ? SHREDDER_E_NOMEM : choose_engine(s, options);
	if (rc == 0)
		rc = allocate_slots(s);
	if (rc == 0) {
		shredder_reset(s);
		rc = start_workers(s);
	}
	if (rc != 0) {
		shredder_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void shredder_close(shredder *s)
{
	if (s == NULL)
		return;
	shredder_abandon(s);
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_broadcast(&s->changed);
	pthread_cond_broadcast(&s->needed);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < s->workers_count; i++)
		pthread_join(s->workers[i], NULL);
	for (uint32_t i = 0; s->slots != NULL && i < s->slots_count; i++) {
		release(s, &s->slots[i]);
		free(s->slots[i].marks);
		free(s->slots[i].ends);
	}
	if (s->device != NULL)
		s->device_ops->close(s->device);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	free(s->slots);
	free(s->workers);
	pthread_cond_destroy(&s->changed);
	pthread_cond_destroy(&s->needed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* -------------------------------------------------------------------------------------------------------- inputs */

/* The input is over; its threads and tasks have ended when this returns. */
static void stop_input(struct shredder *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->finished) {
		shredder_fail(s, SHREDDER_E_CANCELLED, "%s", shredder_strerror(SHREDDER_E_CANCELLED));
		s->finished = true;
		s->result = s->error;
		s->stats.elapsed_ns = shredder_now_ns() - s->begun_ns;
	}
	shredder_wake(s, 0);
	pthread_mutex_unlock(&s->lock);
	shredder_input_stop(s);
	pthread_mutex_lock(&s->lock);
	while (s->active > 0)
		shredder_wait(s);
	s->stats.direct = s->direct;
	pthread_mutex_unlock(&s->lock);
}

/* The end of the input as shredder_next() tells it. */
static int finish(struct shredder *s, int result)
{
	s->finished = true;
	s->result = result;
	s->stats.elapsed_ns = shredder_now_ns() - s->begun_ns;
	pthread_mutex_unlock(&s->lock);
	stop_input(s);
	return result;
}

/* An input that could not begin: says why, unless somebody did already. Then there is none, not the end of the last one. */
static int refuse(struct shredder *s, int code)
{
	pthread_mutex_lock(&s->lock);
	if (s->message[0] == 0)
		snprintf(s->message, sizeof(s->message), "%s", shredder_strerror(code));
	if (code != SHREDDER_E_STATE)
		s->source = SOURCE_NONE;
	pthread_mutex_unlock(&s->lock);
	return code;
}

static int check_idle(struct shredder *s)
{
	if (s->source != SOURCE_NONE && !s->finished)
		return SHREDDER_E_STATE;
	s->message[0] = 0;
	return 0;
}

/* An argument that cannot be. */
static int refuse_argument(struct shredder *s)
{
	const int rc = check_idle(s);

	return refuse(s, rc == 0 ? SHREDDER_E_INVAL : rc);
}

/* The device forgets the last input; the CPU engine takes its place when it cannot. */
static void restart_device(struct shredder *s)
{
	if (!shredder_on_device(s))
		return;
	s->device_lost = s->device_ops->restart(s->device, NULL) != 0;
	shredder_note_failure(s);
}

/* `data` and `bytes` are an input that lies in memory. */
static int begin(struct shredder *s, enum shredder_source source, const void *data, uint64_t bytes, bool device)
{
	int rc;

	restart_device(s);
	if (device && s->device_lost)
		return SHREDDER_E_KERNEL;
	rc = source == SOURCE_FLAT ? 0 : allocate_buffers(s);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&s->lock);
	shredder_reset(s);
	s->source = source;
	s->flat = (const uint8_t *)data;
	s->flat_bytes = bytes;
	s->flat_device = device;
	s->begun_ns = shredder_now_ns();
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int shredder_begin_buffer(shredder *s, const void *data, uint64_t bytes)
{
	const bool device = s->device != NULL && s->device_ops->owns(s->device, data);
	int rc = check_idle(s);

	if (rc == 0 && data == NULL && bytes > 0)
		rc = SHREDDER_E_INVAL;
	if (rc == 0 && device && !s->finds_chunks)
		rc = SHREDDER_E_ENGINE; /* records are found by the host, which cannot read these bytes */
	if (rc == 0)
		rc = begin(s, SOURCE_FLAT, data, bytes, device);
	return rc == 0 ? 0 : refuse(s, rc);
}

static int begin_reading(struct shredder *s, const char *path, int fd, shredder_read_fn *read, void *user)
{
	int rc = check_idle(s);

	if (rc == 0 && read == NULL)
		rc = shredder_input_open(s, path, fd);
	if (rc != 0)
		return refuse(s, rc);
	s->read = read;
	s->read_user = user;
	rc = begin(s, SOURCE_READER, NULL, 0, false);
	if (rc == 0)
		rc = shredder_input_start(s);
	if (rc == 0)
		return 0;
	s->message[0] = 0;
	s->finished = true;
	stop_input(s);
	return refuse(s, rc);
}

int shredder_begin_file(shredder *s, const char *path)
{
	return path == NULL ? refuse_argument(s) : begin_reading(s, path, -1, NULL, NULL);
}

int shredder_begin_fd(shredder *s, int fd)
{
	return begin_reading(s, NULL, fd, NULL, NULL);
}

int shredder_begin_reader(shredder *s, shredder_read_fn *read, void *user)
{
	return read == NULL ? refuse_argument(s) : begin_reading(s, NULL, -1, read, user);
}

int shredder_begin_push(shredder *s)
{
	int rc = check_idle(s);

	if (rc == 0)
		rc = begin(s, SOURCE_PUSH, NULL, 0, false);
	return rc == 0 ? 0 : refuse(s, rc);
}

/* The slot that pushed bytes go to, with the lock held; NULL when there is none. */
static struct shredder_slot *push_slot(struct shredder *s)
{
	return s->acquire_seq > s->fill_seq ? shredder_slot_of(s, s->fill_seq) : shredder_acquire(s);
}

int64_t shredder_push(shredder *s, const void *data, uint64_t bytes)
{
	const uint8_t *from = (const uint8_t *)data;
	uint64_t taken = 0;

	if (s->source != SOURCE_PUSH || s->complete || s->finished)
		return SHREDDER_E_STATE;
	while (taken < bytes) {
		pthread_mutex_lock(&s->lock);
		struct shredder_slot *slot = push_slot(s);
		pthread_mutex_unlock(&s->lock);
		if (slot == NULL)
			break;

		const uint64_t began = shredder_now_ns();
		const uint64_t part = g4_min64(bytes - taken, s->buffer_bytes - s->push_bytes);
		memcpy(slot->memory + s->carry_bytes + s->push_bytes, from + taken, part);
		s->push_bytes += part;
		taken += part;
		pthread_mutex_lock(&s->lock);
		s->stats.busy_ns[SHREDDER_STAGE_READ] += shredder_now_ns() - began;
		if (s->push_bytes == s->buffer_bytes) {
			shredder_fill(s, s->push_bytes, false);
			s->push_bytes = 0;
		}
		pthread_mutex_unlock(&s->lock);
	}
	return (int64_t)taken;
}

int shredder_push_end(shredder *s)
{
	int rc = 0;

	if (s->source != SOURCE_PUSH || s->complete || s->finished)
		return SHREDDER_E_STATE;
	pthread_mutex_lock(&s->lock);
	if (push_slot(s) == NULL) {
		rc = SHREDDER_E_AGAIN;
	} else {
		shredder_fill(s, s->push_bytes, true);
		s->push_bytes = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* -------------------------------------------------------------------------------------------------------- chunks */

static void describe(const struct shredder *s, const struct shredder_slot *slot, uint64_t index,
		     struct shredder_chunk *chunk)
{
	const struct shredder_end *end = &slot->ends[index];
	const uint64_t start = index == 0 ? slot->start : slot->ends[index - 1].end;

	memset(chunk, 0, sizeof(*chunk));
	chunk->offset = start;
	chunk->length = end->end - start;
	chunk->fingerprint = end->fingerprint;
	chunk->cut = end->cut;
	chunk->data = shredder_chunk_data(s, slot, start);
	memcpy(chunk->digest, end->digest, sizeof(chunk->digest));
}

/* The slot whose chunks are handed out now, if they are known, with what was handed out before given back. */
static struct shredder_slot *deliverable(struct shredder *s, bool *end)
{
	for (;;) {
		struct shredder_slot *slot = shredder_slot_of(s, s->deliver_seq);

		*end = false;
		if (s->deliver_seq == s->fill_seq || !slot->resolved || slot->groups_done < slot->groups)
			return NULL;
		if (s->deliver_index < slot->count)
			return slot;
		s->deliver_index = 0;
		if (slot->more) { /* the rest of its chunks */
			slot->resolved = false;
			slot->marked = !s->device_chunks;
		} else if (slot->last) {
			*end = true;
			return NULL;
		} else {
			s->deliver_seq++;
			/* a free slot: memory can be searched, or the cuts of the next buffer found */
			shredder_wake(s, s->source == SOURCE_FLAT && !s->complete ? 2 : s->fill_seq - s->resolve_seq);
		}
	}
}

/* The caller must push before anything can happen. */
static bool starved(const struct shredder *s)
{
	return s->source == SOURCE_PUSH && !s->complete && s->active == 0;
}

int shredder_next(shredder *s, struct shredder_chunk *chunk)
{
	bool end;

	if (s->source == SOURCE_NONE)
		return SHREDDER_E_STATE;
	pthread_mutex_lock(&s->lock);
	if (s->finished) {
		pthread_mutex_unlock(&s->lock);
		return s->result;
	}
	for (;;) {
		if (s->error != 0)
			return finish(s, s->error);
		const struct shredder_slot *slot = deliverable(s, &end);
		if (end)
			return finish(s, 0);
		if (slot != NULL) {
			describe(s, slot, s->deliver_index++, chunk);
			s->stats.chunks++;
			s->stats.bytes += chunk->length;
			pthread_mutex_unlock(&s->lock);
			return 1;
		}
		if (shredder_work(s))
			continue;
		if (starved(s)) {
			pthread_mutex_unlock(&s->lock);
			return SHREDDER_E_AGAIN;
		}
		shredder_wait(s);
	}
}

int shredder_each(shredder *s, shredder_chunk_fn *callback, void *user)
{
	struct shredder_chunk chunk;
	int rc;

	while ((rc = shredder_next(s, &chunk)) == 1) {
		if (callback(user, &chunk) == 0)
			continue;
		shredder_abandon(s);
		s->result = SHREDDER_E_STOPPED;
		snprintf(s->message, sizeof(s->message), "%s", shredder_strerror(SHREDDER_E_STOPPED));
		return SHREDDER_E_STOPPED;
	}
	return rc;
}

void shredder_abandon(shredder *s)
{
	if (s->source != SOURCE_NONE)
		stop_input(s);
}

void shredder_cancel(shredder *s)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&s->lock);
	if (s->source != SOURCE_NONE && !s->finished) {
		shredder_fail(s, SHREDDER_E_CANCELLED, "%s", shredder_strerror(SHREDDER_E_CANCELLED));
		while (write(s->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	pthread_mutex_unlock(&s->lock);
}

const char *shredder_last_message(const shredder *s)
{
	return s->message;
}

void shredder_get_stats(const shredder *s, struct shredder_stats *stats)
{
	struct shredder_gpu_stats gpu;

	*stats = s->stats;
	if (!s->finished && s->source != SOURCE_NONE)
		stats->elapsed_ns = shredder_now_ns() - s->begun_ns;
	stats->threads = s->threads;
	stats->buffers = s->slots_count;
	stats->buffer_bytes = s->buffer_bytes;
	stats->engine = shredder_on_device(s) ? s->device_ops->name : "cpu";
	stats->kernel = shredder_on_device(s) ? s->device_ops->name : s->kernel->name;
	stats->fell_back = s->fell_back[0] != 0 ? s->fell_back : NULL;
	stats->gpus = 0;
	while (shredder_get_gpu_stats(s, stats->gpus, &gpu))
		stats->gpus++;
}

int shredder_get_gpu_stats(const shredder *s, uint32_t index, struct shredder_gpu_stats *stats)
{
	const char *trouble;
	uint32_t number;

	if (s->device == NULL || index >= SHREDDER_GPUS_MAX || !s->device_ops->gpu(s->device, index, &number, &trouble))
		return 0;
	*stats = s->gpu_stats[index];
	stats->number = number;
	stats->failed = trouble != NULL;
	return 1;
}
