/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a GPU makes the sums. Three rates say so, all measured here: a thread's for copying and for hashing, and the GPU's with the
 * way there and back. The GPU's is known only once it has been started, which costs more than small images are worth; so it is first
 * asked whether the fastest one that there can be would pay.
 */
#include "gpu/sums_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "gpu/sums_gpu.h"

#define SLOT_PAGES 1024u
#define MOST_BYTES G4_GIB   /* of the buffer */
#define TRIAL_PAGES 1024u   /* that a thread copies and hashes */
#define TRIALS 3u	    /* the best one counts */
#define START_SECONDS 0.5   /* CUDA's context, and locking the buffer */
#define MOST_GPU_RATE 100e9 /* no bus of today brings more */

bool g4_gpu_sums_pay(const struct g4_gpu_sums_rates *rates, uint32_t threads, uint64_t bytes, double start)
{
	const double alone = threads / (1 / rates->copy + 1 / rates->hash);
	const double reading = threads * rates->copy, with = reading < rates->gpu ? reading : rates->gpu;

	return (double)bytes / with + start < (double)bytes / alone;
}

#if !defined(G4_HAVE_CUDA)
struct g4_page_hasher *g4_gpu_sums_open(uint32_t threads, uint64_t bytes, bool always, char *why, size_t why_bytes)
{
	(void)threads;
	(void)bytes;
	(void)always;
	snprintf(why, why_bytes, "this gpu4fs was built without CUDA");
	return NULL;
}

void g4_gpu_sums_close(struct g4_page_hasher *hasher)
{
	(void)hasher;
}
#else
struct gpu_hasher {
	struct g4_page_hasher hasher; /* first */
	struct g4_gpu_sums *gpu;
	uint64_t bytes;
};

static struct gpu_hasher *of(struct g4_page_hasher *hasher)
{
	return (struct gpu_hasher *)(void *)hasher;
}

static int start(struct g4_page_hasher *hasher, uint32_t slot, uint32_t pages)
{
	return g4_gpu_sums_start(of(hasher)->gpu, slot, pages);
}

static int wait(struct g4_page_hasher *hasher, uint32_t slot, const struct g4_sum **sums)
{
	return g4_gpu_sums_wait(of(hasher)->gpu, slot, sums);
}

static double seconds_since(uint64_t ns)
{
	return (double)(g4_clock_ns(CLOCK_MONOTONIC) - ns + 1) / 1e9;
}

/* Of the calling thread, on memory that is larger than the first caches. */
static bool measure_thread(struct g4_gpu_sums_rates *rates)
{
	static const void *pages[TRIAL_PAGES];
	static uint64_t bytes[TRIAL_PAGES];
	static uint8_t digests[TRIAL_PAGES][G4_BLAKE3_BYTES];
	const uint64_t all = TRIAL_PAGES * G4_PAGE_BYTES;
	uint8_t *memory = calloc(2, all);

	if (!memory)
		return false;
	rates->copy = rates->hash = 0;
	for (uint32_t i = 0; i < TRIAL_PAGES; i++) {
		pages[i] = memory + i * G4_PAGE_BYTES;
		bytes[i] = G4_PAGE_BYTES;
	}
	for (uint32_t trial = 0; trial <= TRIALS; trial++) { /* the first one finds no memory there */
		uint64_t begin = g4_clock_ns(CLOCK_MONOTONIC);
		memcpy(memory + (trial % 2 ? all : 0), memory + (trial % 2 ? 0 : all), all);
		const double copy = (double)all / seconds_since(begin);
		begin = g4_clock_ns(CLOCK_MONOTONIC);
		g4_blake3_many(TRIAL_PAGES, pages, bytes, digests);
		const double hash = (double)all / seconds_since(begin);
		rates->copy = trial > 0 && copy > rates->copy ? copy : rates->copy;
		rates->hash = trial > 0 && hash > rates->hash ? hash : rates->hash;
	}
	free(memory);
	return true;
}

/* All slots at once, a second time: the first one loads the kernel. */
static bool measure_gpu(struct g4_page_hasher *hasher, double *rate)
{
	const struct g4_sum *sums;
	uint64_t begin = 0;

	for (uint32_t round = 0; round < 2; round++) {
		begin = g4_clock_ns(CLOCK_MONOTONIC);
		for (uint32_t k = 0; k < hasher->slots; k++)
			if (hasher->start(hasher, k, hasher->slot_pages) < 0)
				return false;
		for (uint32_t k = 0; k < hasher->slots; k++)
			if (hasher->wait(hasher, k, &sums) < 0)
				return false;
	}
	*rate = (double)hasher->slots * hasher->slot_pages * G4_PAGE_BYTES / seconds_since(begin);
	return true;
}

static struct gpu_hasher *make(uint32_t threads)
{
	struct gpu_hasher *made = calloc(1, sizeof(*made));
	const uint64_t slot_bytes = SLOT_PAGES * G4_PAGE_BYTES;

	if (!made)
		return NULL;
	made->hasher = (struct g4_page_hasher){
		.slots = (uint32_t)g4_min64((uint64_t)threads * G4_GPU_SUMS_SLOTS, MOST_BYTES / slot_bytes),
		.slot_pages = SLOT_PAGES,
		.start = start,
		.wait = wait,
	};
	made->bytes = made->hasher.slots * slot_bytes;
	/* memory of the process, which devices read into, and not CUDA's, into which not all can */
	void *memory = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		free(made);
		return NULL;
	}
	made->hasher.memory = memory;
	if (g4_gpu_sums_make(memory, made->hasher.slots, SLOT_PAGES, &made->gpu) == 0)
		return made;
	munmap(memory, made->bytes);
	free(made);
	return NULL;
}

struct g4_page_hasher *g4_gpu_sums_open(uint32_t threads, uint64_t bytes, bool always, char *why, size_t why_bytes)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const uint32_t running = (uint32_t)g4_min64(threads, processors > 0 ? (uint64_t)processors : 1);
	struct g4_gpu_sums_rates rates = {.gpu = MOST_GPU_RATE};

	if (!measure_thread(&rates)) {
		snprintf(why, why_bytes, "there is no memory");
		return NULL;
	}
	if (!always && !g4_gpu_sums_pay(&rates, running, bytes, START_SECONDS)) {
		snprintf(why, why_bytes, "starting a GPU takes longer than it would save");
		return NULL;
	}
	if (!g4_gpu_sums_there()) {
		snprintf(why, why_bytes, "there is no GPU");
		return NULL;
	}
	struct gpu_hasher *made = make(threads);
	if (!made || !measure_gpu(&made->hasher, &rates.gpu)) {
		snprintf(why, why_bytes, "the GPU: %s", g4_gpu_sums_error());
	} else if (!always && !g4_gpu_sums_pay(&rates, running, bytes, 0)) {
		snprintf(why, why_bytes, "%u threads that hash %.1f GB/s each are faster than the GPU with %.1f GB/s",
			 running, rates.hash / 1e9, rates.gpu / 1e9);
	} else {
		snprintf(why, why_bytes, "the GPU hashes %.1f GB/s, a thread %.1f GB/s", rates.gpu / 1e9,
			 rates.hash / 1e9);
		return &made->hasher;
	}
	if (made)
		g4_gpu_sums_close(&made->hasher);
	return NULL;
}

void g4_gpu_sums_close(struct g4_page_hasher *hasher)
{
	if (!hasher)
		return;
	g4_gpu_sums_end(of(hasher)->gpu);
	munmap(hasher->memory, of(hasher)->bytes);
	free(of(hasher));
}
#endif
