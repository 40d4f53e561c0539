/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/shredder_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "chunk/kernels.h"
#include "chunk/resolve.h"
#include "hash/blake3.h"

#define ROOM 4096u

static const uint8_t zeros[SHREDDER_WINDOW_BYTES];

static void *need(void *memory)
{
	if (!memory) {
		fputs("out of memory\n", stderr);
		exit(2);
	}
	return memory;
}

void reference_marks(const struct shredder_rule *rule, const uint8_t *data, uint64_t bytes, uint64_t *marks)
{
	if (rule->params.algorithm == SHREDDER_GEAR)
		shredder_find_gear_portable(rule, zeros, data, bytes, marks);
	else
		shredder_find_rabin_portable(rule, zeros, data, bytes, marks);
}

uint64_t reference_chunks(const struct shredder_rule *rule, const uint8_t *data, uint64_t bytes,
			  struct shredder_end **out)
{
	uint64_t *marks = (uint64_t *)need(calloc(shredder_mark_words(bytes) + 1, sizeof(*marks)));
	struct shredder_view view = {
		.data = data, .bytes = bytes, .position = 0, .before = zeros, .marks = marks, .last = true};
	struct shredder_resolver resolver;
	uint64_t count = 0;
	uint64_t begin = 0;
	bool more = true;

	*out = NULL;
	reference_marks(rule, data, bytes, marks);
	shredder_resolver_init(&resolver, rule);
	while (more) {
		*out = (struct shredder_end *)need(realloc(*out, (count + ROOM) * sizeof(**out)));
		count += (uint64_t)shredder_resolve(&resolver, &view, *out + count, ROOM, &more);
	}
	for (uint64_t i = 0; i < count; i++) {
		g4_blake3(data + begin, (*out)[i].end - begin, (*out)[i].digest);
		(*out)[i].has_digest = 1;
		begin = (*out)[i].end;
	}
	free(marks);
	return count;
}

struct region {
	pthread_t thread;
	const struct shredder_rule *rule;
	const uint8_t *before, *data;
	uint64_t bytes;
	uint64_t *marks;
};

static void *find_region(void *argument)
{
	const struct region *region = (const struct region *)argument;

	shredder_find_rabin_portable(region->rule, region->before, region->data, region->bytes, region->marks);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double reference_threads(const uint8_t *data, uint64_t bytes, uint32_t threads)
{
	struct region *regions = (struct region *)need(calloc(threads, sizeof(*regions)));
	struct shredder_params params = {.size = sizeof(params)};
	struct shredder_rule rule;
	uint64_t share = bytes / threads;
	double begin;

	shredder_params_complete(&params);
	shredder_rule_init(&rule, &params);
	for (uint32_t i = 0; i < threads; i++) {
		regions[i].rule = &rule;
		regions[i].data = data + i * share;
		regions[i].before = i ? regions[i].data - SHREDDER_HISTORY_BYTES : zeros;
		regions[i].bytes = share;
		regions[i].marks = (uint64_t *)need(calloc(shredder_mark_words(share), sizeof(uint64_t)));
		/* the pages are there before the clock starts */
		memset(regions[i].marks, 1, shredder_mark_words(share) * sizeof(uint64_t));
	}
	begin = now();
	for (uint32_t i = 0; i < threads; i++) {
		if (pthread_create(&regions[i].thread, NULL, find_region, &regions[i]) != 0)
			need(NULL);
	}
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(regions[i].thread, NULL);
	begin = now() - begin;
	for (uint32_t i = 0; i < threads; i++)
		free(regions[i].marks);
	free(regions);
	return (double)(share * threads) / begin;
}
