/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backup of the FAST'12 document's section 7.3 in memory: a master image whose chunks the site has; images made of it by replacing
 * segments with given probabilities; each is cut and hashed, each digest is looked up, and a chunk or a pointer goes to the site, which makes the
 * image again. bench/similarity.py calls it and says what is measured.
 *
 * similarity ENGINE THREADS BYTES SEGMENT ROUNDS MEMORY SENDERS PROBABILITY...: one line of JSON for each round of each probability, in turns. Exit
 * status 3: the engine cannot run here.
 *
 * MEMORY "locked": the image lies in page-locked memory, as the document's does, so that a GPU reads it by itself; "pageable": the driver's one thread
 * copies all of it first. SENDERS: threads that copy new chunks to the site; 0: the one that looks up does.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shredder/shredder.h>

/* The site's chunks by digest: an open table with room for all that can come. */
struct place {
	uint64_t key[2]; /* half a digest; both 0: free */
	const uint8_t *data;
};

struct site {
	struct place *places;
	uint64_t mask;
	uint8_t *received; /* chunks that were sent, one after the other */
	uint64_t received_bytes;
};

#define COPIES 4096u
#define PIECE 64u
#define SENDERS_MAX 16u

/* New chunks on their way to the site: one thread adds, any takes. */
struct copy {
	const uint8_t *from;
	uint8_t *to;
	uint64_t bytes;
};
struct senders {
	pthread_t threads[SENDERS_MAX];
	uint32_t count;
	struct copy copies[COPIES];
	uint64_t added, taken, done;
	struct copy pending[PIECE]; /* the adder's */
	uint32_t pending_count;
	bool ending;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

struct sending {
	struct senders *senders;
	struct site *site;
	const uint8_t *image;
	const uint8_t **parts; /* what the site makes the image of, in its order; NULL: nobody asks */
	uint64_t chunks, new_chunks, new_bytes;
};

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

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

		memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
}

static void *need(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (memory == NULL) {
		fprintf(stderr, "similarity: out of memory\n");
		exit(1);
	}
	return memory;
}

static struct place *find(const struct site *site, const uint8_t *digest)
{
	uint64_t key[2];

	memcpy(key, digest, sizeof(key));
	for (uint64_t at = key[0] & site->mask;; at = (at + 1) & site->mask) {
		struct place *place = &site->places[at];

		if (memcmp(place->key, key, sizeof(key)) == 0 || (place->key[0] | place->key[1]) == 0)
			return place;
	}
}

static void *send_some(void *user)
{
	struct senders *s = (struct senders *)user;
	struct copy mine[PIECE];

	pthread_mutex_lock(&s->mutex);
	while (!s->ending || s->taken < s->added) {
		const uint64_t left = s->added - s->taken, count = left < PIECE ? left : PIECE;

		if (count == 0) {
			pthread_cond_wait(&s->changed, &s->mutex);
			continue;
		}
		for (uint64_t i = 0; i < count; i++)
			mine[i] = s->copies[s->taken++ % COPIES];
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->mutex);
		for (uint64_t i = 0; i < count; i++)
			memcpy(mine[i].to, mine[i].from, mine[i].bytes);
		pthread_mutex_lock(&s->mutex);
		s->done += count;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

/* What was collected goes to the senders: a mutex for each chunk would cost as much as the copy. */
static void hand_over(struct senders *s)
{
	pthread_mutex_lock(&s->mutex);
	while (s->added + s->pending_count - s->taken > COPIES)
		pthread_cond_wait(&s->changed, &s->mutex);
	for (uint32_t i = 0; i < s->pending_count; i++)
		s->copies[s->added++ % COPIES] = s->pending[i];
	s->pending_count = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
}

static void send_bytes(struct senders *s, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (s->count == 0) {
		memcpy(to, from, bytes);
		return;
	}
	s->pending[s->pending_count++] = (struct copy){from, to, bytes};
	if (s->pending_count == PIECE)
		hand_over(s);
}

/* All of it is at the site. */
static void wait_for_senders(struct senders *s)
{
	hand_over(s);
	pthread_mutex_lock(&s->mutex);
	while (s->done < s->added)
		pthread_cond_wait(&s->changed, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
}

static void begin_senders(struct senders *s, uint64_t count)
{
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->changed, NULL);
	while (s->count < count && s->count < SENDERS_MAX &&
	       pthread_create(&s->threads[s->count], NULL, send_some, s) == 0)
		s->count++;
}

static void end_senders(struct senders *s)
{
	pthread_mutex_lock(&s->mutex);
	s->ending = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
	for (uint32_t i = 0; i < s->count; i++)
		pthread_join(s->threads[i], NULL);
}

/*
 * Page-locks memory by the driver, in the context that the engine's runtime has opened. Without CUDA's headers: the program is built where there
 * is none.
 */
static bool lock_pages(void *memory, size_t bytes)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*const init)(unsigned int) = driver == NULL ? NULL : (int (*)(unsigned int))dlsym(driver, "cuInit");
	int (*const retain)(void **, int) =
		driver == NULL ? NULL : (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	int (*const set)(void *) = driver == NULL ? NULL : (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
	int (*const lock)(void *, size_t, unsigned int) =
		driver == NULL ? NULL : (int (*)(void *, size_t, unsigned int))dlsym(driver, "cuMemHostRegister_v2");
	void *context;

	return init != NULL && retain != NULL && set != NULL && lock != NULL && init(0) == 0 &&
	       retain(&context, 0) == 0 && set(context) == 0 && lock(memory, bytes, 1 /* for all contexts */) == 0;
}

/* A chunk that the site has is a pointer, another one is sent. */
static int send_chunk(void *user, const struct shredder_chunk *chunk)
{
	struct sending *s = (struct sending *)user;
	struct site *site = s->site;
	struct place *place = find(site, chunk->digest);

	if (place->data == NULL) {
		uint8_t *to = site->received + site->received_bytes;

		send_bytes(s->senders, to, s->image + chunk->offset, chunk->length);
		memcpy(place->key, chunk->digest, sizeof(place->key));
		place->data = to;
		site->received_bytes += chunk->length;
		s->new_chunks++;
		s->new_bytes += chunk->length;
	}
	if (s->parts != NULL)
		s->parts[s->chunks] = place->data;
	s->chunks++;
	return 0;
}

static int check_part(void *user, const struct shredder_chunk *chunk)
{
	struct sending *s = (struct sending *)user;

	return memcmp(s->parts[s->chunks++], s->image + chunk->offset, chunk->length) != 0;
}

static void must(shredder *s, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "similarity: %s\n", shredder_last_message(s));
	exit(1);
}

static void back_up(shredder *chunker, struct sending *s, uint64_t bytes)
{
	must(chunker, shredder_begin_buffer(chunker, s->image, bytes));
	must(chunker, shredder_each(chunker, send_chunk, s));
	wait_for_senders(s->senders);
}

static uint64_t number(const char *text)
{
	char *end;
	const unsigned long long value = strtoull(text, &end, 10);

	if (*end != 0 || text[0] < '0' || text[0] > '9') {
		fprintf(stderr, "similarity: '%s' is no number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	struct shredder_params params = {.size = sizeof(params)};
	struct shredder_options options = {.size = sizeof(options), .flags = SHREDDER_NO_DATA, .params = &params};
	struct shredder_stats stats;
	shredder *chunker;
	uint64_t state = 1;

	if (argc < 9) {
		fprintf(stderr,
			"usage: similarity ENGINE THREADS BYTES SEGMENT ROUNDS MEMORY SENDERS PROBABILITY...\n");
		return 2;
	}
	options.engine = argv[1];
	options.threads = (uint32_t)number(argv[2]);
	const uint64_t bytes = number(argv[3]), segment = number(argv[4]), rounds = number(argv[5]);
	if (bytes == 0 || segment == 0 || shredder_params_complete(&params) != 0)
		return 2;
	const int rc = shredder_open(&options, &chunker);
	if (rc != 0) {
		fprintf(stderr, "similarity: engine %s: %s\n", argv[1], shredder_strerror(rc));
		return rc == SHREDDER_E_ENGINE ? 3 : 1;
	}
	shredder_get_stats(chunker, &stats);
	if (stats.fell_back != NULL) {
		fprintf(stderr, "similarity: engine %s: %s\n", argv[1], stats.fell_back);
		return 3;
	}
	const uint64_t chunks_max = 2 * (bytes / params.min_bytes + 2);
	uint64_t places = 1024;
	while (places < 2 * chunks_max)
		places *= 2;
	struct site has = {.places = (struct place *)need(places * sizeof(struct place)), .mask = places - 1},
		    site = has;
	uint8_t *master = (uint8_t *)need(bytes), *image = (uint8_t *)need(bytes);
	has.received = (uint8_t *)need(bytes);
	site.received = (uint8_t *)need(bytes);
	site.places = (struct place *)need(places * sizeof(struct place));
	const uint8_t **parts = (const uint8_t **)need(chunks_max * sizeof(*parts));
	memset(site.received, 1, bytes); /* touched before time is measured */
	fill(master, bytes, &state);
	if (strcmp(argv[6], "locked") == 0 && !lock_pages(image, bytes)) {
		fprintf(stderr, "similarity: memory cannot be page-locked\n");
		return 3;
	}
	struct senders *senders = (struct senders *)need(sizeof(*senders));
	begin_senders(senders, number(argv[7]));
	struct sending first = {.senders = senders, .site = &has, .image = master};
	back_up(chunker, &first, bytes);

	for (uint64_t round = 0; round < rounds; round++)
		for (int i = 8; i < argc; i++) {
			const double probability = strtod(argv[i], NULL);
			struct sending s = {
				.senders = senders, .site = &site, .image = image, .parts = round == 0 ? parts : NULL};

			memcpy(image, master, bytes);
			for (uint64_t at = 0; at < bytes; at += segment)
				if ((double)(next_random(&state) >> 11) / 9007199254740992.0 < probability)
					fill(image + at, bytes - at < segment ? bytes - at : segment, &state);
			memcpy(site.places, has.places, places * sizeof(struct place));
			site.received_bytes = 0;
			const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
			back_up(chunker, &s, bytes);
			const double walls = seconds(CLOCK_MONOTONIC) - wall;
			const double cpus = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
			shredder_get_stats(chunker, &stats);
			if (s.parts != NULL) { /* the site has made the same image */
				struct sending check = {.image = image, .parts = parts};

				must(chunker, shredder_begin_buffer(chunker, image, bytes));
				if (shredder_each(chunker, check_part, &check) != 0 || check.chunks != s.chunks) {
					fprintf(stderr, "similarity: the site has made another image\n");
					return 1;
				}
			}
			printf("{\"probability\": %s, \"kernel\": \"%s\", \"threads\": %u, \"bytes\": %llu, "
			       "\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"chunks\": %llu, \"new_chunks\": %llu, "
			       "\"new_bytes\": %llu, \"min_bytes\": %llu, \"max_bytes\": %llu}\n",
			       argv[i], stats.kernel, stats.threads, (unsigned long long)bytes, walls, cpus,
			       (unsigned long long)s.chunks, (unsigned long long)s.new_chunks,
			       (unsigned long long)s.new_bytes, (unsigned long long)params.min_bytes,
			       (unsigned long long)params.max_bytes);
			fflush(stdout);
		}
	shredder_close(chunker);
	end_senders(senders);
	free(senders);
	free(has.places);
	free(has.received);
	free(site.places);
	free(site.received);
	free(parts);
	free(master);
	free(image);
	return 0;
}
