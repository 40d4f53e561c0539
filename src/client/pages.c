/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table with one place for each page: the pages of a file lie one after the other in it, from a place that is the file's hash, so that
 * a command fills many at once and a file that is not larger than the table meets none of its own. A place counts who reads from it; who fills
 * it takes it only from nobody, and nobody reads from it meanwhile.
 */
#include "client/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inode/trail.h"
#include "simt/simt.h"

#define PLACES 4096u			       /* 16 MiB of pages; memory where it is written */
#define TABLE (PLACES + G4C_PAGES_AT_ONCE + 1) /* a read that begins in one of the last places goes on behind them */
#define FILLING (1u << 31)

struct place {
	uint32_t state; /* readers, and FILLING */
	uint32_t bytes; /* of the page; fewer than a page: the file ended there */
	uint64_t ino;
	uint64_t generation;
	uint64_t next;	/* the page's number + 1; 0: there is none */
	uint64_t value; /* of the epoch, before the page was read */
	uint64_t epoch;
};

/* What is taken with the first page. */
struct memory {
	uint8_t pages[TABLE][G4_PAGE_BYTES];
	struct place places[TABLE];
};

struct g4c_pages {
	const uint64_t *epochs;
	struct memory *memory; /* NULL: not taken yet; read with acquire order */
};

struct g4c_pages *g4c_pages_new(const uint64_t *epochs)
{
	struct g4c_pages *pages = calloc(1, sizeof(*pages));

	if (pages)
		pages->epochs = epochs;
	return pages;
}

void g4c_pages_free(struct g4c_pages *pages)
{
	if (!pages)
		return;
	if (pages->memory)
		munmap(pages->memory, sizeof(*pages->memory));
	free(pages);
}

uint64_t g4c_pages_epoch(const struct g4c_pages *pages, uint16_t epoch)
{
	return g4_load64_acq(&pages->epochs[epoch % G4_EPOCHS]);
}

static struct memory *memory_of(const struct g4c_pages *pages)
{
	return __atomic_load_n(&pages->memory, __ATOMIC_ACQUIRE);
}

/* The memory of pages, taken if it has not been. NULL: there is none. */
static struct memory *take_memory(struct g4c_pages *pages)
{
	struct memory *memory = memory_of(pages), *none = NULL;

	if (memory)
		return memory;
	memory =
		mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	/* hints, both: a kernel without them copies what nobody uses */
	(void)madvise(memory, sizeof(*memory), MADV_WIPEONFORK);
	(void)madvise(memory, sizeof(*memory), MADV_DONTDUMP);
	if (__atomic_compare_exchange_n(&pages->memory, &none, memory, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return memory;
	munmap(memory, sizeof(*memory));
	return none;
}

static uint32_t place_of(uint64_t ino, uint64_t generation, uint64_t page)
{
	const uint64_t hash = (ino ^ generation << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)((hash >> 32) + page) % PLACES;
}

static bool is_of(const struct place *place, uint64_t ino, uint64_t generation, uint64_t page)
{
	return place->next == page + 1 && place->ino == ino && place->generation == generation;
}

static bool is_new(const struct g4c_pages *pages, const struct place *place)
{
	return g4c_pages_epoch(pages, (uint16_t)place->epoch) == place->value;
}

/* ------------------------------------------------------------------ finding */

static bool begin_reading(struct place *place)
{
	if (!(g4_add32_acq(&place->state, 1) & FILLING))
		return true;
	g4_sub32_rel(&place->state, 1);
	return false;
}

static void end_reading(struct place *place)
{
	g4_sub32_rel(&place->state, 1);
}

/* The bytes of a page from `inside` on. */
static size_t bytes_behind(const struct place *place, uint64_t inside)
{
	return place->bytes > inside ? place->bytes - inside : 0;
}

static int64_t copy(const struct memory *memory, uint32_t slot, uint64_t inside, size_t bytes, g4c_deliver *deliver,
		    uint8_t *to)
{
	int64_t done = 0;

	while (bytes > 0) {
		const size_t behind = bytes_behind(&memory->places[slot], inside),
			     part = behind < bytes ? behind : bytes;
		const uint8_t *from = memory->pages[slot] + inside;

		if (deliver && part > 0 && !deliver(to + done, from, part))
			return -EFAULT;
		if (!deliver)
			memcpy(to + done, from, part);
		done += (int64_t)part;
		bytes -= part;
		if (memory->places[slot].bytes < G4_PAGE_BYTES)
			break;
		slot++;
		inside = 0;
	}
	return done;
}

bool g4c_pages_find(struct g4c_pages *pages, uint64_t ino, uint64_t generation, uint64_t offset, size_t bytes,
		    g4c_deliver *deliver, void *to, int64_t *done, bool *old)
{
	struct memory *memory = memory_of(pages);
	const uint64_t first = offset >> G4_PAGE_SHIFT, last = (offset + bytes - 1) >> G4_PAGE_SHIFT;
	const uint32_t slot = place_of(ino, generation, first);
	uint32_t taken = 0;
	bool all = false;

	*old = false;
	if (!memory)
		return false;
	while (!all) {
		struct place *place = &memory->places[slot + taken];
		if (!begin_reading(place))
			break;
		taken++;
		if (!is_of(place, ino, generation, first + taken - 1))
			break;
		/* all of one read is of one moment: when the first is compared */
		*old = taken == 1 ? !is_new(pages, place) : place->value != memory->places[slot].value;
		if (*old)
			break;
		all = first + taken - 1 == last || place->bytes < G4_PAGE_BYTES;
	}
	if (all)
		*done = copy(memory, slot, offset & (G4_PAGE_BYTES - 1), bytes, deliver, to);
	while (taken > 0)
		end_reading(&memory->places[slot + --taken]);
	return all;
}

/* ------------------------------------------------------------------ filling */

static bool begin_filling(struct place *place)
{
	return g4_cas32(&place->state, 0, FILLING);
}

static void end_filling(struct place *place)
{
	g4_sub32_rel(&place->state, FILLING); /* somebody who does not read may be counted just now */
}

uint8_t *g4c_pages_room(struct g4c_pages *pages, const struct g4c_page_run *run, uint32_t least, uint32_t *count)
{
	struct memory *memory = take_memory(pages);
	const uint32_t slot = place_of(run->ino, run->generation, run->first);
	uint32_t n = 0, most = run->count;

	if (most > TABLE - slot)
		most = TABLE - slot;
	for (; memory && n < most; n++) {
		struct place *place = &memory->places[slot + n];
		if (!begin_filling(place))
			break;
		if (n >= least && is_of(place, run->ino, run->generation, run->first + n) && is_new(pages, place)) {
			end_filling(place); /* what lies ahead is there already */
			break;
		}
	}
	if (n >= least && n > 0) {
		*count = n;
		return memory->pages[slot];
	}
	while (n > 0)
		end_filling(&memory->places[slot + --n]);
	return NULL;
}

void g4c_pages_filled(struct g4c_pages *pages, const struct g4c_page_run *run, uint64_t bytes, bool ends,
		      uint16_t epoch, uint64_t value)
{
	struct memory *memory = memory_of(pages);
	const uint32_t slot = place_of(run->ino, run->generation, run->first);

	for (uint32_t k = 0; k < run->count; k++) {
		struct place *place = &memory->places[slot + k];
		const uint64_t before = (uint64_t)k * G4_PAGE_BYTES;
		const uint64_t has = bytes > before ? g4_min64(bytes - before, G4_PAGE_BYTES) : 0;

		place->ino = run->ino;
		place->generation = run->generation;
		place->next = has == G4_PAGE_BYTES || (ends && bytes >= before) ? run->first + k + 1 : 0;
		place->bytes = (uint32_t)has;
		place->epoch = epoch;
		place->value = value;
		end_filling(place);
	}
}
