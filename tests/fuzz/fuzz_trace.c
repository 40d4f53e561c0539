/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a file of a trace, of either format. It is refused with a sentence, or it is the same trace when it was written
 * again, as text, binary, and in two parts; and no policy has more hits than Belady's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "replay.h"
#include "trace/replay.h"

#define PAGES_MOST 4096u /* of a trace that is replayed */

static uint32_t outcome; /* accesses and hits, or the code of what was refused */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static void must(bool condition)
{
	if (!condition)
		abort();
}

static FILE *scratch(void)
{
	FILE *file = tmpfile();

	must(file != NULL);
	return file;
}

static bool is_same(const struct g4_trace_access *a, const struct g4_trace_access *b)
{
	return a->file == b->file && a->page == b->page && a->pages == b->pages && a->write == b->write;
}

static void read_back(FILE *file, const struct g4_trace *trace)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_trace again = {0};

	rewind(file);
	must(g4_trace_read(file, &again, message) == 0);
	must(again.count == trace->count && again.page_count == trace->page_count);
	for (uint64_t i = 0; i < trace->count; i++)
		must(is_same(&again.accesses[i], &trace->accesses[i]));
	g4_trace_free(&again);
	fclose(file);
}

static void write_again(const struct g4_trace *trace, bool text)
{
	struct g4_trace_writer writer;
	FILE *file = scratch();

	g4_trace_write_begin(&writer, file, text);
	for (uint64_t i = 0; i < trace->count; i++)
		g4_trace_write(&writer, &trace->accesses[i]);
	read_back(file, trace);
}

static void write_in_parts(const struct g4_trace *trace)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_trace_writer writer;
	FILE *file = scratch();

	for (uint64_t part = 0, i = 0; part < 2; part++) {
		must(g4_trace_write_on(&writer, file, message) == 0);
		for (; i < (part ? trace->count : trace->count / 2); i++)
			g4_trace_write(&writer, &trace->accesses[i]);
	}
	read_back(file, trace);
}

static uint32_t replay(const struct g4_trace *trace, uint32_t capacity, uint32_t ways)
{
	struct g4_pages pages;
	struct g4_replay best, out;
	uint32_t sum = 0;

	must(g4_pages_of(trace, &pages) == 0);
	must(pages.count == trace->page_count && pages.distinct <= pages.count);
	must(g4_replay(&pages, G4_POLICY_MIN, capacity, ways, &best) == 0);
	must(best.hits + pages.distinct <= pages.count);
	for (uint32_t policy = 0; policy < G4_POLICY_COUNT; policy++) {
		must(g4_replay(&pages, (enum g4_policy)policy, capacity, ways, &out) == 0);
		must(out.hits <= best.hits && out.read_hits <= out.hits);
		sum = sum * 31 + (uint32_t)out.hits;
	}
	g4_pages_free(&pages);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_trace trace = {0};
	FILE *file;

	/* the first two bytes are the cache */
	outcome = 0;
	if (size < 3)
		return 0;
	file = fmemopen((void *)(uintptr_t)(data + 2), size - 2, "r");
	must(file != NULL);
	const int rc = g4_trace_read(file, &trace, message);
	fclose(file);
	if (rc == 0) {
		write_again(&trace, true);
		write_again(&trace, false);
		write_in_parts(&trace);
		outcome = (uint32_t)trace.count;
		if (trace.page_count <= PAGES_MOST)
			outcome += replay(&trace, 1 + data[0], data[1] % 32);
	} else {
		must(rc == -G4_E_INVAL || rc == -G4_E_FBIG);
		must(message[0] != 0 && strlen(message) < sizeof(message));
		outcome = (uint32_t)-rc;
	}
	g4_trace_free(&trace);
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return outcome;
}
