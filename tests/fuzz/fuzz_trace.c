/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a file of a trace, of either format. It is refused with a sentence, or it is the same trace when it was written
 * again, as text, binary, and in two parts; and no policy has more hits than Belady's. And the same bytes as what the kernel prints of
 * requests, in two pieces: what is made of that is a trace, with as many accesses as were counted, and does not depend on where they part.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "replay.h"
#include "trace/block.h"
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

/* A trace of what the kernel has printed, if that is what it is. */
static FILE *take(const uint8_t *data, size_t size, size_t piece, struct g4_block_text *text)
{
	struct g4_trace_writer writer;
	FILE *file = scratch();

	g4_trace_write_begin(&writer, file, false);
	*text = (struct g4_block_text){.writer = &writer, .first_sector = size % 3 ? 0 : 8};
	g4_block_take(text, (const char *)data, piece);
	g4_block_take(text, (const char *)data + piece, size - piece);
	text->writer = NULL;
	rewind(file);
	return file;
}

static uint32_t read_kernel_text(const uint8_t *data, size_t size, size_t piece)
{
	char message[G4_TRACE_MESSAGE_BYTES];
	struct g4_block_text text, whole;
	struct g4_trace trace = {0};
	FILE *file = take(data, size, piece, &text);

	const int rc = g4_trace_read(file, &trace, message);
	must(rc == 0 || rc == -G4_E_FBIG);
	must(rc < 0 || trace.count == text.accesses);
	must((text.bad_line[0] != 0) == (text.bad > 0) && memchr(text.bad_line, 0, sizeof(text.bad_line)));
	fclose(file);
	file = take(data, size, 0, &whole);
	if (rc == 0)
		read_back(file, &trace);
	else
		fclose(file);
	must(whole.accesses == text.accesses && whole.bad == text.bad && whole.lost == text.lost);
	must(strcmp(whole.bad_line, text.bad_line) == 0);
	g4_trace_free(&trace);
	return (uint32_t)(text.accesses + 7 * text.bad + 31 * text.lost);
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
	outcome += read_kernel_text(data + 2, size - 2, data[0] % (size - 1));
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return outcome;
}
