/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backup of the FAST'12 document's section 7.3 in memory: a master image whose chunks the site has; images made of it by replacing
 * segments with given probabilities; each is cut and hashed, the digests are looked up in the index of Shredder's backup, a batch at a time, and
 * a chunk or a pointer goes to the site, which makes the image again. bench/similarity.py calls it and says what is measured.
 *
 * similarity ENGINE THREADS BUFFER BYTES SEGMENT ROUNDS MEMORY SENDERS PROBABILITY...: one line of JSON for each round of each probability, in
 * turns. Exit status 3: the engine cannot run here.
 *
 * BUFFER: bytes of a buffer of the ring; 0: the engine's default.
 * MEMORY "locked": the image and the site lie in page-locked memory, as the document's do, so that a GPU reads and writes them by itself;
 * "pageable": the driver's one thread copies all of the image first.
 * SENDERS: threads that copy new bytes to the site; 0: the one that looks up does. "dma": copy engines of the GPU move them, as a network card
 * takes them from memory; since they do not copy from the host to the host, through a buffer in the GPU's memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "store/table.h"
#include <shredder/shredder.h>

/* Chunks that are looked up together. */
#define BATCH 64u
/* New chunks that follow one another in the image are sent together, up to so many bytes. */
#define RUN_BYTES G4_MIB
#define RUNS 256u
#define SENDERS_MAX 16u
/* Ways through the GPU: while one brings a run there, another one takes its run from there. */
#define LINES 8u
#define HUGE_PAGE_BYTES (2 * G4_MIB)
/* An address in the site's memory as the index has it: pack and offset. */
#define PACK_BITS 30

enum exit_status { FAILED = 1, USAGE = 2, CANNOT_RUN = 3 };

static _Noreturn void fail(enum exit_status status, const char *what)
{
	fprintf(stderr, "similarity: %s\n", what);
	exit(status);
}

/* Zeros, in large pages where there are some, all of them touched. */
static uint8_t *large(uint64_t bytes)
{
	const uint64_t rounded = g4_align_up(bytes, HUGE_PAGE_BYTES);
	void *memory = store_alloc_aligned(HUGE_PAGE_BYTES, rounded);

	madvise(memory, rounded, MADV_HUGEPAGE); /* without them it is slower, and right */
	return (uint8_t *)memset(memory, 0, rounded);
}

/* ----------------------------------------------------------------------------------------------------- the images */

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void fill(uint8_t *to, uint64_t bytes, uint64_t *state)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		const uint64_t word = next_random(state);

		memcpy(to + at, &word, g4_min64(bytes - at, 8));
	}
}

static void make_image(uint8_t *image, const uint8_t *master, uint64_t bytes, uint64_t segment, double probability,
		       uint64_t *state)
{
	memcpy(image, master, bytes);
	for (uint64_t at = 0; at < bytes; at += segment)
		if ((double)(next_random(state) >> 11) / 9007199254740992.0 < probability)
			fill(image + at, g4_min64(bytes - at, segment), state);
}

/* ------------------------------------------------------------------------------------------------ CUDA's driver */

/* Without CUDA's headers: the program is built where there are none. Functions give 0 when all is well. */
struct driver {
	int (*init)(unsigned int flags);
	int (*retain)(void **context, int device);
	int (*use)(void *context);
	int (*lock)(void *memory, size_t bytes, unsigned int flags);
	int (*alloc)(uint64_t *address, size_t bytes);
	int (*make_stream)(void **stream, unsigned int flags);
	int (*make_event)(void **event, unsigned int flags);
	int (*to_gpu)(uint64_t to, const void *from, size_t bytes, void *stream);
	int (*from_gpu)(void *to, uint64_t from, size_t bytes, void *stream);
	int (*record)(void *event, void *stream);
	int (*wait)(void *event);
};
#define LOCK_FOR_ALL_CONTEXTS 1u
#define STREAM_NON_BLOCKING 1u
#define EVENT_WAITS_WITHOUT_SPINNING 1u

static bool find_function(void *library, const char *name, void *function)
{
	void *const found = library == NULL ? NULL : dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

/* The driver, in the context that the engine's runtime has opened. */
static void open_driver(struct driver *d)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *context;

	if (!find_function(library, "cuInit", &d->init) ||
	    !find_function(library, "cuDevicePrimaryCtxRetain", &d->retain) ||
	    !find_function(library, "cuCtxSetCurrent", &d->use) ||
	    !find_function(library, "cuMemHostRegister_v2", &d->lock) ||
	    !find_function(library, "cuMemAlloc_v2", &d->alloc) ||
	    !find_function(library, "cuStreamCreate", &d->make_stream) ||
	    !find_function(library, "cuEventCreate", &d->make_event) ||
	    !find_function(library, "cuMemcpyHtoDAsync_v2", &d->to_gpu) ||
	    !find_function(library, "cuMemcpyDtoHAsync_v2", &d->from_gpu) ||
	    !find_function(library, "cuEventRecord", &d->record) ||
	    !find_function(library, "cuEventSynchronize", &d->wait) || d->init(0) != 0 || d->retain(&context, 0) != 0 ||
	    d->use(context) != 0)
		fail(CANNOT_RUN, "there is no GPU that CUDA can use");
}

static void lock_pages(const struct driver *d, void *memory, size_t bytes)
{
	if (d->lock(memory, bytes, LOCK_FOR_ALL_CONTEXTS) != 0)
		fail(CANNOT_RUN, "memory cannot be page-locked");
}

/* ------------------------------------------------------------------------------------------------------- sending */

/* New bytes on their way to the site. */
struct run {
	const uint8_t *from;
	uint8_t *to;
	uint64_t bytes;
};

struct senders {
	/* threads: one adds, any takes */
	pthread_t threads[SENDERS_MAX];
	uint32_t count;
	struct run runs[RUNS];
	uint64_t added, taken, done;
	double busy; /* seconds of all of them together */
	bool ending;
	pthread_mutex_t mutex;
	pthread_cond_t more, less;
	/* or copy engines: each line has a stream, and a buffer that holds one run */
	const struct driver *driver; /* NULL: threads */
	void *streams[LINES], *events[LINES];
	uint64_t buffers[LINES];
	uint32_t line;
};

static void copy_run(struct senders *s, const struct run *run)
{
	const double began = seconds_of(CLOCK_MONOTONIC);

	memcpy(run->to, run->from, run->bytes);
	const double took = seconds_of(CLOCK_MONOTONIC) - began;
	pthread_mutex_lock(&s->mutex);
	s->busy += took;
	s->done++;
	pthread_cond_signal(&s->less);
	pthread_mutex_unlock(&s->mutex);
}

static void *send_runs(void *user)
{
	struct senders *s = (struct senders *)user;

	pthread_mutex_lock(&s->mutex);
	while (!s->ending || s->taken < s->added) {
		if (s->taken == s->added) {
			pthread_cond_wait(&s->more, &s->mutex);
			continue;
		}
		const struct run run = s->runs[s->taken++ % RUNS];

		pthread_mutex_unlock(&s->mutex);
		copy_run(s, &run);
		pthread_mutex_lock(&s->mutex);
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

static void need(int code)
{
	if (code != 0)
		fail(FAILED, "a copy engine failed");
}

/* What a line has under way comes before it, so its buffer is free by then. */
static void send_by_line(struct senders *s, struct run run)
{
	const struct driver *d = s->driver;

	for (uint64_t bytes; run.bytes > 0; run.bytes -= bytes, run.from += bytes, run.to += bytes) {
		const uint32_t line = s->line++ % LINES;

		bytes = g4_min64(run.bytes, RUN_BYTES);
		need(d->to_gpu(s->buffers[line], run.from, bytes, s->streams[line]));
		need(d->from_gpu(run.to, s->buffers[line], bytes, s->streams[line]));
	}
}

static void send_run(struct senders *s, struct run run)
{
	if (s->driver != NULL) {
		send_by_line(s, run);
		return;
	}
	if (s->count == 0) {
		s->added++;
		copy_run(s, &run);
		return;
	}
	pthread_mutex_lock(&s->mutex);
	while (s->added - s->done >= RUNS)
		pthread_cond_wait(&s->less, &s->mutex);
	s->runs[s->added++ % RUNS] = run;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->mutex);
}

/* All of it is at the site. */
static void wait_for_senders(struct senders *s)
{
	for (uint32_t i = 0; s->driver != NULL && i < LINES; i++)
		need(s->driver->record(s->events[i], s->streams[i]));
	for (uint32_t i = 0; s->driver != NULL && i < LINES; i++)
		need(s->driver->wait(s->events[i]));
	pthread_mutex_lock(&s->mutex);
	while (s->done < s->added)
		pthread_cond_wait(&s->less, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
}

static void begin_senders(struct senders *s, uint64_t count)
{
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->more, NULL);
	pthread_cond_init(&s->less, NULL);
	while (s->count < count && s->count < SENDERS_MAX &&
	       pthread_create(&s->threads[s->count], NULL, send_runs, s) == 0)
		s->count++;
}

static void begin_lines(struct senders *s, const struct driver *d)
{
	for (uint32_t i = 0; i < LINES; i++)
		if (d->make_stream(&s->streams[i], STREAM_NON_BLOCKING) != 0 ||
		    d->make_event(&s->events[i], EVENT_WAITS_WITHOUT_SPINNING) != 0 ||
		    d->alloc(&s->buffers[i], RUN_BYTES) != 0)
			fail(CANNOT_RUN, "the GPU has no room for what is sent");
	s->driver = d;
}

static void end_senders(struct senders *s)
{
	pthread_mutex_lock(&s->mutex);
	s->ending = true;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->mutex);
	for (uint32_t i = 0; i < s->count; i++)
		pthread_join(s->threads[i], NULL);
}

/* -------------------------------------------------------------------------------------------------------- backup */

/* What the site has: chunks one after the other, and an index of them. */
struct site {
	struct store_table *index;
	uint8_t *memory;
	uint64_t used;
};

/* What an image is made of, in its order: what the site gets where it has the chunk. */
struct pointer {
	const uint8_t *data;
	uint64_t bytes;
};

struct backup {
	struct site *site;
	struct senders *senders;
	const uint8_t *image;
	struct pointer *pointers;
	struct run run; /* new chunks that are not sent yet */
	/* chunks that are not looked up yet */
	struct store_found found[BATCH];
	struct pointer pending[BATCH];
	uint32_t pending_count;
	uint64_t chunks, new_chunks, new_bytes;
	double lookup, add; /* seconds */
};

static void send_new(struct backup *b, const uint8_t *from, uint8_t *to, uint64_t bytes)
{
	struct run *run = &b->run;

	if (run->bytes > 0 && (run->from + run->bytes != from || run->bytes + bytes > RUN_BYTES)) {
		send_run(b->senders, *run);
		run->bytes = 0;
	}
	if (run->bytes == 0)
		*run = (struct run){.from = from, .to = to};
	run->bytes += bytes;
}

static uint8_t *place_of(const struct site *site, const struct store_entry *entry)
{
	return site->memory + ((uint64_t)entry->pack << PACK_BITS | entry->offset);
}

/* The place of a chunk at the site, which gets it unless it came a moment ago. */
static const uint8_t *add_chunk(struct backup *b, const struct store_id *id, const struct pointer *chunk)
{
	struct site *site = b->site;
	struct store_entry entry = {.id = *id,
				    .pack = (uint32_t)(site->used >> PACK_BITS),
				    .offset = (uint32_t)(site->used & ((UINT64_C(1) << PACK_BITS) - 1)),
				    .stored = (uint32_t)chunk->bytes,
				    .raw = (uint32_t)chunk->bytes,
				    .type = STORE_DATA};
	uint32_t number;
	const int added = store_table_add(site->index, &entry, &number);

	if (added < 0 || (added == 0 && store_table_at(site->index, number, &entry) != 0))
		fail(FAILED, store_message());
	uint8_t *to = place_of(site, &entry);
	if (added == 1) {
		send_new(b, chunk->data, to, chunk->bytes);
		site->used += chunk->bytes;
		b->new_chunks++;
		b->new_bytes += chunk->bytes;
	}
	return to;
}

/* Looks up what is pending: a chunk that the site has is a pointer, another one is sent. */
static void look_up(struct backup *b)
{
	const double began = seconds_of(CLOCK_MONOTONIC);

	if (store_table_find_all(b->site->index, b->found, b->pending_count) != 0)
		fail(FAILED, store_message());
	const double found = seconds_of(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < b->pending_count; i++) {
		const struct store_found *f = &b->found[i];
		const uint8_t *data = f->there ? place_of(b->site, &f->entry) : add_chunk(b, &f->id, &b->pending[i]);

		b->pointers[b->chunks++] = (struct pointer){.data = data, .bytes = b->pending[i].bytes};
	}
	b->pending_count = 0;
	b->lookup += found - began;
	b->add += seconds_of(CLOCK_MONOTONIC) - found;
}

static int take_chunk(void *user, const struct shredder_chunk *chunk)
{
	struct backup *b = (struct backup *)user;

	memcpy(&b->found[b->pending_count].id, chunk->digest, sizeof(b->found->id));
	b->pending[b->pending_count++] = (struct pointer){.data = b->image + chunk->offset, .bytes = chunk->length};
	if (b->pending_count == BATCH)
		look_up(b);
	return 0;
}

static void must(shredder *chunker, int rc)
{
	if (rc != 0)
		fail(FAILED, shredder_last_message(chunker));
}

/* Seconds; those of several threads together where it says so. */
struct times {
	double wall;
	double cpu;	   /* the process's */
	double caller_cpu; /* of the thread that takes the chunks, looks them up and hands new ones over */
	double begin;	   /* until the chunker has begun */
	double send_wait;  /* at the end, for what is not at the site yet */
	double copy;	   /* of the senders together */
};

static struct times back_up(shredder *chunker, struct backup *b, uint64_t bytes)
{
	const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	const double caller_cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID), busy = b->senders->busy;

	must(chunker, shredder_begin_buffer(chunker, b->image, bytes));
	const double begun = seconds_of(CLOCK_MONOTONIC);
	must(chunker, shredder_each(chunker, take_chunk, b));
	look_up(b);
	if (b->run.bytes > 0)
		send_run(b->senders, b->run);
	b->run.bytes = 0;
	const double taken = seconds_of(CLOCK_MONOTONIC);
	wait_for_senders(b->senders);
	const double end = seconds_of(CLOCK_MONOTONIC);
	return (struct times){.wall = end - wall,
			      .cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu,
			      .caller_cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - caller_cpu,
			      .begin = begun - wall,
			      .send_wait = end - taken,
			      .copy = b->senders->busy - busy};
}

/* The site makes the image again. */
static void check_image(const struct backup *b, uint64_t bytes)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < b->chunks; i++) {
		const struct pointer *p = &b->pointers[i];

		if (p->bytes > bytes - at || memcmp(p->data, b->image + at, p->bytes) != 0)
			break;
		at += p->bytes;
	}
	if (at != bytes)
		fail(FAILED, "the site has made another image");
}

/* ----------------------------------------------------------------------------------------------------------- main */

static uint64_t number(const char *text)
{
	char *end;
	const unsigned long long value = strtoull(text, &end, 10);

	if (*end != 0 || text[0] < '0' || text[0] > '9') {
		fprintf(stderr, "similarity: '%s' is no number\n", text);
		exit(USAGE);
	}
	return value;
}

static shredder *open_chunker(const char *engine, uint32_t threads, uint64_t buffer_bytes,
			      const struct shredder_params *params)
{
	const struct shredder_options options = {.size = sizeof(options),
						 .flags = SHREDDER_NO_DATA,
						 .engine = engine,
						 .threads = threads,
						 .buffer_bytes = buffer_bytes,
						 .params = params};
	struct shredder_stats stats;
	shredder *chunker;
	const int rc = shredder_open(&options, &chunker);

	if (rc != 0)
		fail(rc == SHREDDER_E_ENGINE ? CANNOT_RUN : FAILED, shredder_strerror(rc));
	shredder_get_stats(chunker, &stats);
	if (stats.fell_back != NULL)
		fail(CANNOT_RUN, stats.fell_back);
	return chunker;
}

/* An index of what the master's backup left in another one. */
static struct store_table *index_of(struct store_table *master, uint64_t chunks_max)
{
	struct store_table *t = store_table_open(chunks_max, UINT64_MAX);
	const uint64_t count = store_table_count(master);
	struct store_entry entry;
	uint32_t number;

	for (uint64_t i = 0; i < count; i++)
		if (store_table_at(master, (uint32_t)i, &entry) != 0 || store_table_add(t, &entry, &number) != 1)
			fail(FAILED, store_message());
	return t;
}

static void print_result(const char *probability, const struct shredder_stats *stats,
			 const struct shredder_params *params, const struct backup *b, const struct times *t)
{
	printf("{\"probability\": %s, \"kernel\": \"%s\", \"threads\": %u, \"buffers\": %u, \"buffer_bytes\": %llu, "
	       "\"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"chunks\": %llu, \"new_chunks\": %llu, "
	       "\"new_bytes\": %llu, \"min_bytes\": %llu, \"max_bytes\": %llu, ",
	       probability, stats->kernel, stats->threads, stats->buffers, (unsigned long long)stats->buffer_bytes,
	       (unsigned long long)stats->bytes, t->wall, t->cpu, (unsigned long long)b->chunks,
	       (unsigned long long)b->new_chunks, (unsigned long long)b->new_bytes,
	       (unsigned long long)params->min_bytes, (unsigned long long)params->max_bytes);
	printf("\"stages\": {\"begin\": %.6f, \"transfer\": %.6f, \"kernel\": %.6f, \"store\": %.6f, "
	       "\"lookup\": %.6f, \"add\": %.6f, \"copy\": %.6f, \"send_wait\": %.6f, \"caller_cpu\": %.6f}}\n",
	       t->begin, (double)stats->busy_ns[SHREDDER_STAGE_TRANSFER] / 1e9,
	       (double)stats->busy_ns[SHREDDER_STAGE_KERNEL] / 1e9, (double)stats->busy_ns[SHREDDER_STAGE_STORE] / 1e9,
	       b->lookup, b->add, t->copy, t->send_wait, t->caller_cpu);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct shredder_params params = {.size = sizeof(params)};
	static struct driver driver;
	static struct senders senders;
	uint64_t state = 1;

	if (argc < 10) {
		fprintf(stderr,
			"usage: similarity ENGINE THREADS BUFFER BYTES SEGMENT ROUNDS MEMORY SENDERS PROBABILITY...\n");
		return USAGE;
	}
	const uint64_t bytes = number(argv[4]), segment = number(argv[5]), rounds = number(argv[6]);
	const bool locked = strcmp(argv[7], "locked") == 0, dma = strcmp(argv[8], "dma") == 0;
	const uint64_t threads = dma ? 0 : number(argv[8]);
	if (bytes == 0 || segment == 0 || shredder_params_complete(&params) != 0 || (dma && !locked))
		return USAGE;
	shredder *chunker = open_chunker(argv[1], (uint32_t)number(argv[2]), number(argv[3]), &params);
	const uint64_t chunks_max = 2 * (bytes / params.min_bytes + 2);
	struct site site = {.index = store_table_open(chunks_max, UINT64_MAX), .memory = large(2 * bytes)};
	uint8_t *master = large(bytes), *image = large(bytes);
	struct pointer *pointers = (struct pointer *)large(chunks_max * sizeof(*pointers));

	fill(master, bytes, &state);
	if (locked) {
		open_driver(&driver);
		lock_pages(&driver, image, bytes);
		lock_pages(&driver, site.memory, 2 * bytes);
	}
	begin_senders(&senders, threads);
	if (dma)
		begin_lines(&senders, &driver);
	struct backup first = {.site = &site, .senders = &senders, .image = master, .pointers = pointers};
	back_up(chunker, &first, bytes);
	check_image(&first, bytes);
	struct store_table *const known = site.index;
	const uint64_t known_bytes = site.used;

	for (uint64_t round = 0; round < rounds; round++)
		for (int i = 9; i < argc; i++) {
			struct backup b = {.site = &site, .senders = &senders, .image = image, .pointers = pointers};
			struct shredder_stats stats;

			make_image(image, master, bytes, segment, strtod(argv[i], NULL), &state);
			site.index = index_of(known, chunks_max);
			site.used = known_bytes;
			const struct times times = back_up(chunker, &b, bytes);
			shredder_get_stats(chunker, &stats);
			if (round == 0)
				check_image(&b, bytes);
			store_table_close(site.index);
			print_result(argv[i], &stats, &params, &b, &times);
		}
	shredder_close(chunker);
	end_senders(&senders);
	store_table_close(known);
	free(site.memory);
	free(pointers);
	free(master);
	free(image);
	return 0;
}
