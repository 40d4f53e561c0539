/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of disks in the explorer's memory, one disk behind the other: made, mounted with some of their disks, and what is asked of them
 * recorded in one order. Which sets there are is a table; its first line is the one device of all other workloads.
 */
#ifndef CRASH_SETS_H
#define CRASH_SETS_H

#include <pthread.h>

#include "memory.h"
#include "script.h"

#include "engine/disks.h"

struct lab;
struct g4_io;

struct set_kind {
	const char *name;
	struct g4_set_plan plan;
	uint32_t disks, spare; /* so many may be lost */
	bool levels;	       /* half of it is for files of RAID 5, and these are all */
};
#define SET_KINDS 10u
extern const struct set_kind set_kinds[SET_KINDS];

struct request {
	bool flush, fua;
	uint32_t done_at; /* it is complete when so many requests were made; UINT32_MAX: it never was */
	uint32_t disk;
	uint64_t offset, bytes; /* in the explorer's memory */
	const uint8_t *data;
};

/* Whether sets of this kind can do it. */
bool set_can(const struct set_kind *kind, const struct operation *operation, enum tree_kind tree);

struct set_lab {
	struct disks disks;
	uint64_t disk_bytes;
	uint8_t *span;	       /* all of them; NULL: there are none */
	struct g4_dev *device; /* of the set that is mounted */
	uint32_t used;	       /* its disks */
	bool may_leave_out;    /* disks that are none of the set now are left out where it is mounted */
	uint32_t leaving;      /* those that may be none because they were to leave */
	struct set_watch {
		struct lab *lab;
		uint32_t disk;
	} watches[MEMORY_DISKS];
	pthread_mutex_t lock; /* of what watchers do: each disk has a lock of its own */
	/* what is recorded */
	bool recording;
	struct request *requests; /* data allocated each */
	uint32_t count, room;
};

/* Disks of this kind with the tree on them, in memory from lab->set.span on. */
void set_make(struct lab *lab, const struct set_kind *kind, enum tree_kind tree);
void set_free(struct lab *lab);
/* The set of the disks that are present (lab->memory.present), each behind a fault device, or NULL and a sentence. */
struct g4_dev *set_mount_device(struct lab *lab, bool write_through, char *message, size_t room);
void set_unmount_device(struct lab *lab);
/* Whether more of its disks are not used than it can do without. */
bool set_is_short(const struct lab *lab);
/* For the checker the name of those that were mounted last. */
const char *set_name(struct lab *lab);
/* What the pages of memory are that a recovery does not leave its result in. */
void set_leave_out(struct lab *lab);
void set_record(struct lab *lab, bool on);
uint32_t set_recorded(struct lab *lab);

#endif
