/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where states are made and judged: a device in memory, the fault device over it, prepared trees, what was learnt about
 * states so far. One lab a process.
 */
#ifndef CRASH_LAB_H
#define CRASH_LAB_H

#include "clock.h"
#include "judge.h"
#include "memory.h"
#include "recall.h"
#include "sets.h"
#include "sketch.h"
#include "table.h"

#define DEVICE_BYTES (8 * G4_MIB)

enum device_class {
	DISK512, /* queued, with a write cache, sectors of 512 B */
	DISK4K,	 /* the same, sectors of 4 KiB */
	DAX,	 /* mapped, with processor caches: 8 B, written back in any order */
	MEM,	 /* mapped, what is stored is there (tmpfs and a killed process): in order, 8 B */
	DEVICE_CLASSES
};
extern const char *const class_names[DEVICE_CLASSES];
uint32_t class_unit_bytes(enum device_class class_);

enum engine { /* whose requests are recorded (engines.c) */
	      ENGINE_CPU,
	      ENGINE_REMOTE,
	      ENGINE_CUDA,
	      ENGINE_NVME,
	      ENGINE_LANES,
	      ENGINE_DIRECT,
	      ENGINES
};
extern const char *const engine_names[ENGINES];

struct workload {
	enum device_class class_;
	enum tree_kind tree;
	uint32_t set; /* in set_kinds */
	bool unmount; /* it ends with an unmount, else with the power going */
	bool mount;   /* the mount before it is part of it */
	struct party parties[MAX_PARTIES];
	uint32_t party_count;
	uint32_t orders; /* the party that gives some to disks; party_count: none does */
	uint64_t seed;
	char name[96];
};

struct outcome {  /* what recovery makes of a state */
	bool bad; /* it does not mount, or fsck or free space are wrong: `text` says why */
	char *text;
	struct tree tree;
	uint64_t judged_workload;
	uint32_t judged_window;
};

struct counts {
	uint64_t requests, overlaps; /* recorded; made while the one before it was under way */
	uint64_t beside_kept,
		made_whole; /* stores while parts of stripes were kept; stripes that were granted with such a part */
	uint64_t workloads, states, distinct, mounts, recoveries, trees, fscks, violations;
	uint64_t recalled,
		compared; /* distinct states that were not mounted; of the mounts, those of a known recovery */
	uint64_t by_class[DEVICE_CLASSES];
	struct set_counts {
		uint64_t states, distinct, lost, rotten, refused, violations;
		uint64_t lived_on, then_lost,
			remade;	 /* states that went on; looks at what came of it with others lost; disks made again */
		uint64_t mended; /* with some rotten, scrubbed, and others lost then */
		uint64_t worn, pages_lost; /* looks with more rotten than can be mended; pages that were errors then */
	} by_set[SET_KINDS]; /* with disks lost, with rotten ones; refused, with more lost than there may be */
};

struct lab {
	enum engine engine;
	struct rig rig;
	struct g4_wg *wg[MAX_PARTIES];
	struct g4_dev *fault;
	struct g4_dev *twin;   /* NULL: there is no drive */
	struct g4_dev *driver; /* of a controller whose medium is the fault device; NULL: the engine has none */
	struct memory memory;
	struct sketch sketch;  /* of a state in it */
	struct recall *recall; /* recoveries of it, with the disks that are present */
	struct recall *recalls[1u << MEMORY_DISKS];
	uint8_t *trees[TREE_KINDS]; /* of one device */
	uint32_t tree, kind;	    /* in memory now; kind: in set_kinds */
	struct set_lab set;
	const struct session *sketched; /* whose state the sketch is */
	uint64_t due_commits;		/* what the preamble of the tree DUE takes, as last rehearsed */
	struct table states;		/* all pages -> outcome */
	struct table outcomes;		/* home pages -> outcome */
	struct outcome *outcome;
	uint32_t outcome_count, outcome_room;
	struct counts *counts;
	uint64_t workload_serial;
	uint32_t window_serial;
	/* which states, where there are too many */
	uint64_t seed;
	uint32_t exhaustive;		 /* all subsets of up to so many writes that are not durable */
	uint32_t samples;		 /* subsets beyond that */
	uint32_t singles;		 /* of writes that are not durable so many are looked at alone at a moment */
	uint32_t tears;			 /* places where a write under way is cut off */
	uint32_t moments;		 /* of a record of a set about so many, and those at windows; 0: all */
	bool (*is_late)(void);		 /* no further moment is looked at; NULL: never */
	uint32_t rot;			 /* of so many crash states one has disks that rot; 0: none */
	uint32_t rotten;		 /* disks of the state, bits */
	uint32_t after;			 /* of so many distinct states of sets one lives on; 0: none */
	uint32_t losses;		 /* combinations of lost disks at a state; 0: all */
	uint64_t only_state, only_inner; /* UINT64_MAX: all */
	const char *trace_path;		 /* where records that do not repeat are kept, "": nowhere */
};

/* With a drive (NULL: without) recoveries read that one and write to it, and so does the engine (twin.h). */
void lab_open(struct lab *lab, struct counts *counts, enum engine engine, const char *drive);
void lab_close(struct lab *lab);
/* Puts a prepared tree on the device, or on the disks of a set, and forgets all outcomes. All disks are present. */
void lab_load(struct lab *lab, uint32_t kind, enum tree_kind tree);
void lab_forget(struct lab *lab);
/* Before anything is mounted: the drive has what memory has. */
void lab_settle_drive(struct lab *lab);
/* These disks are there from now on (bits), for sums, mounts and the checker. */
void lab_present(struct lab *lab, uint32_t disks);
static inline uint32_t lab_all_disks(const struct lab *lab)
{
	return (1u << set_disks(&set_kinds[lab->kind])) - 1;
}
struct g4_fs *lab_mount(struct lab *lab, bool write_through, char *message, size_t room);
/* And what was mounted by it is no more. */
int lab_unmount(struct lab *lab, struct g4_fs *fs, bool clean);
/* What is mounted on; a set only while it is. */
struct g4_dev *lab_device(const struct lab *lab);
/* Requests to the device, or to the disks in one order, are recorded; how many were. */
void lab_record(struct lab *lab, bool on);
uint32_t lab_recorded(struct lab *lab);
struct g4_fs_options;
struct g4_fs_options lab_fs_options(void);
/* The same of what is on the device now. */
struct g4_fs_options lab_mount_options(const struct lab *lab);

/* ---- engines.c ---- */
struct mounted {
	struct g4_fs *fs; /* NULL: only the engine can get at it */
	struct g4_dev *remote;
	struct g4_engine *engine;
};
/* By lab->engine. False: *message says why. */
bool engine_mount(struct lab *lab, bool write_through, struct mounted *m, char *message, size_t room);
void engine_actor(const struct mounted *m, struct g4_wg *wg, struct actor *actor);
/* The driver that an engine needs, over the fault device, for as long as the lab is open; it is NULL for most of them. */
struct g4_dev *engine_driver(struct lab *lab);
/* Whether a driver's drive can be like that: no driver makes memory of it. And whether it is one device. */
bool engine_takes(enum engine engine, const struct workload *w);
/* Not clean: what it may still write is nobody's. False: it failed. */
bool engine_unmount(struct lab *lab, struct mounted *m, bool clean);

/* ---- explore.c ---- */
/* Runs a workload, makes and judges its states. False: none of its parts can be done. */
bool explore(struct lab *lab, struct workload *w);
/* The same with a record that was kept, from behind its name and engine. */
void explore_kept(struct lab *lab, struct workload *w, FILE *file);

/* ---- workloads.c ---- */
/*
 * Makes the workload that a name stands for, or prints what is wrong with it:
 *	CLASS/TREE/mount/END
 *	CLASS/TREE/mount/OPERATION/SYNC/END		the record begins with the mount
 *	CLASS/TREE/OPERATION/SYNC/OPERATION/SYNC/END	"-" for no operation, no sync
 *	CLASS/TREE/mix/THREADS/PARTS/SEED/END
 *	CLASS/TREE/mix-OPERATION/THREADS/PARTS/SEED/END	beside what an operation on disks orders
 * A tree of a set of disks is TREE+SET.
 * A sync is fsync, fdatasync, syncfs, fsyncdir (of the parent) or other (of another inode); an end is crash or unmount.
 */
bool workload_parse(const char *name, struct workload *w);
void workload_free(struct workload *w);

#endif
