/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's memory with any number of undo levels, and sums that identify its contents. A page is saved before it
 * changes for the first time in a level, so a state costs what differs in it and not the size of the device.
 */
#ifndef CRASH_MEMORY_H
#define CRASH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_DISKS 8u

struct memory {
	uint8_t *bytes; /* of one disk after the other, each as long */
	uint32_t page_count, disk_pages;
	uint32_t present;   /* a bit for each disk that is in the sums */
	uint8_t *elsewhere; /* a page each: recovery does not leave its result there, but superblocks and the journal */
	uint64_t *settled;  /* a page's part of the sums when they were last settled */
	uint64_t all[MEMORY_DISKS], home[MEMORY_DISKS]; /* sums of all pages, of home pages, as settled */
	uint32_t settle_serial;				/* another one when that has changed */
	uint32_t *saved_in, *visited;			/* serial numbers, a page each */
	uint32_t serial, visit;
	uint32_t *stack; /* pages that were saved */
	uint8_t *copies; /* what was in them */
	uint32_t count, room;
};

/* `bytes` stays the caller's: so many disks, all of them in the sums. Everything is home. */
void memory_open(struct memory *m, uint8_t *bytes, uint64_t disk_bytes, uint32_t disks);
/* These pages are none that a recovery leaves its result in. */
void memory_leave_out(struct memory *m, uint64_t offset, uint64_t bytes);
void memory_close(struct memory *m);
/* Begins a level. */
uint32_t memory_mark(struct memory *m);
/* Before bytes change. */
void memory_save(struct memory *m, uint64_t offset, uint64_t bytes);
/* Undoes all since the mark. */
void memory_back(struct memory *m, uint32_t mark);
/* The same where some of it was settled. */
void memory_back_settled(struct memory *m, uint32_t mark);
/* The sums of the disks that are present, as settled. */
void memory_settled(const struct memory *m, uint64_t *all, uint64_t *home);
/* The sums as they are, when everything before `mark` is settled. */
void memory_sums(struct memory *m, uint32_t mark, uint64_t *all, uint64_t *home);
/* Takes what changed since the mark over into the settled sums. */
void memory_settle(struct memory *m, uint32_t mark);

/* The part in the sums of a page with these contents. */
uint64_t memory_page_sum(uint32_t page, const uint8_t *bytes);
static inline bool memory_is_home(const struct memory *m, uint32_t page)
{
	return !m->elsewhere[page];
}
/* Whether it is a page of a disk that is present. */
static inline bool memory_counts(const struct memory *m, uint32_t page)
{
	return m->present >> page / m->disk_pages & 1;
}

#define HASH_SEED UINT64_C(0x2545f4914f6cdd1d)
/* Well mixed, not against an adversary. */
uint64_t hash_bytes(const void *data, uint64_t bytes, uint64_t seed);

#endif
