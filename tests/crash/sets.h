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
	uint32_t idle;	       /* disks behind these that are none of the set at first, for orders about them */
	uint64_t disk_bytes;   /* 0: as most are */
	bool levels;	       /* half of it is for files of RAID 5, and these are all */
};
#define SET_KINDS 16u
extern const struct set_kind set_kinds[SET_KINDS];

struct request {
	bool flush, fua;
	uint32_t done_at; /* it is complete when so many requests were made; UINT32_MAX: it never was */
	uint32_t disk;
	uint64_t offset, bytes; /* in the explorer's memory */
	const uint8_t *data;
	const struct g4_io *io; /* while it is recorded, until it is complete */
};

/* Disks that are there, whether the set's or not. */
static inline uint32_t set_disks(const struct set_kind *kind)
{
	return kind->disks + kind->idle;
}
/* Whether sets of this kind can do it. */
bool set_can(const struct set_kind *kind, const struct operation *operation, enum tree_kind tree);

struct set_lab {
	struct disks disks;
	uint64_t disk_bytes;
	uint8_t *span;			     /* all of them; NULL: there are none */
	struct g4_dev *device;		     /* of the set that is mounted */
	bool is_agents;			     /* which closes it */
	uint32_t used;			     /* its disks */
	bool may_leave_out;		     /* disks that are none of the set now are left out where it is mounted */
	uint32_t absent;		     /* those that may be none of it now, or may have missed something */
	bool gives_up;			     /* a disk leaves: what is free there is gone */
	struct g4_dev *faults[MEMORY_DISKS]; /* around those of the set that is mounted; NULL: it was not opened */
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
/* The set of the disks that are present (lab->memory.present), each behind a fault device with these settings, or NULL and a sentence. */
struct g4_dev *set_mount_device(struct lab *lab, const struct g4_fault *settings, char *message, size_t room);
void set_unmount_device(struct lab *lab);
/* Whether disks were left out that are the set's, and have missed nothing. */
bool set_is_short(const struct lab *lab);
/* A sum of where the set that is mounted has what; 0: there is none. */
uint64_t set_view(const struct lab *lab);
struct set_members { /* bits, by where disks lie in memory; those that the set lacks have no such place */
	uint32_t active, rebuilt, spares;
	uint32_t missing; /* so many */
};
void set_find_members(const struct lab *lab, struct set_members *m);
/* For the checker the name of those that were mounted last. */
const char *set_name(struct lab *lab);
/* What the pages of memory are that a recovery does not leave its result in. */
void set_leave_out(struct lab *lab);
void set_record(struct lab *lab, bool on);
/* Locked. A request of a disk, which is under way; where it lies in the explorer's memory. */
void set_note(struct set_lab *s, const struct g4_io *io, uint32_t disk, uint64_t offset, uint64_t bytes);
uint32_t set_recorded(struct lab *lab);

/* ---- what lanes store past the set (sets_lanes.c) ---- */
/* What is mounted from now on is memory, and stores to it are recorded; from before it is opened until it is closed. */
void set_lanes_begin(struct lab *lab);
void set_lanes_end(struct lab *lab);
struct g4_fs;
/* It is. False: nobody goes past the set. */
bool set_lanes_mounted(struct lab *lab, const struct g4_fs *fs);
/* A disk of it was opened, and has a fault device around it. */
void set_lanes_map(struct set_lab *s, uint32_t disk, struct g4_dev *dev, const struct g4_dev *inner);
/* Locked. What was stored until now is among the requests. */
void set_catch_up(struct set_lab *s);

#endif
