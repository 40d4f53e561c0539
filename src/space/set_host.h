/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets: several disks that are one device. A set is opened in the place of a device and used as one: its address space is that
 * of its chunks (chunk.h), its superblocks are those of its disks (set_label_host.c). Host only.
 */
#ifndef G4_SET_HOST_H
#define G4_SET_HOST_H

#include "base/progress_host.h"
#include "dev/dev_host.h"
#include "space/chunk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct g4_set_options {
	struct g4_dev_open_options open; /* of each disk */
	bool degraded;			 /* write although a disk is missing, where the others have everything */
	/* it is mounted next: whoever does that says what he knows of rows that a crash has cut short (G4_ORDER_ROWS_CUT) */
	bool mounts;
};

/*
 * Opens the disks of a set, or a device that is no part of one. A name is as for g4_dev_open(), or several of them with commas
 * between (a comma of a path is then written "\,", a backslash "\\"; a path that exists is always one name). All disks are
 * needed; without one that others stand in for a set can still be read, and with `degraded` be written. Spares may be among them. On
 * failure a code and one sentence, and nothing was changed.
 */
int g4_set_open(const char *const *names, uint32_t count, const struct g4_set_options *options, struct g4_dev **out,
		char *message, size_t message_bytes);
/* The same for one name without degraded. */
int g4_set_open_one(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		    size_t message_bytes);
/* The same of open disks, which are the set's from then on, and the caller's on failure. names: for messages, copied. */
int g4_set_assemble(struct g4_dev *const *disks, const char *const *names, uint32_t count,
		    const struct g4_set_options *options, struct g4_dev **out, char *message, size_t message_bytes);

struct g4_set_plan {
	enum g4_raid raid;
	uint32_t copies;	/* of RAID 1, at most G4_COPIES_MAX and one a disk; 0: 2 */
	uint32_t parity;	/* of G4_RAID_PARITY: 1 to 4 */
	uint64_t stripe_bytes;	/* of RAID 0 and parity; 0: G4_STRIPE_DEFAULT */
	uint64_t journal_bytes; /* as mkfs is going to be told: with parity the journal lies in copies */
	uint32_t leave_percent; /* of each disk, less than 100: for chunks that are assigned later */
};
/*
 * Makes a set of at least two open disks; what is on them is gone. What is written into it then, superblocks last, makes a
 * file system of it (g4_mkfs()). The disks are the set's from then on, and the caller's on failure.
 */
int g4_set_make(struct g4_dev *const *disks, const char *const *names, uint32_t count, const struct g4_set_plan *plan,
		struct g4_dev **out, char *message, size_t message_bytes);

/*
 * Opens a set that nobody uses, of which a disk begins to be rebuilt, or goes on to be. rebuild: the names are those of the set,
 * the stale one among them, or one that is being rebuilt. Else the last name is a new disk, which takes the place of the first
 * that is missing; what is on it is gone. *disk: its number. settle: asked before anything is rebuilt, as of a set that is mounted next
 * (g4_set_options); NULL: nothing is known of rows that a crash has cut short. On failure a code and one sentence.
 */
int g4_set_rebuild_open(const char *const *names, uint32_t count, bool rebuild, int (*settle)(struct g4_dev *set),
			struct g4_dev **out, uint32_t *disk, char *message, size_t message_bytes);
/*
 * All that the set has on that disk is made, used or not (fs/rebuild_host.h knows what is). Nobody else uses the set. progress: a
 * started bar, or NULL. After a crash it goes on where it was, here or while the set is mounted.
 */
int g4_set_rebuild_all(struct g4_dev *set, struct g4_progress *progress, char *message, size_t message_bytes);

/*
 * A device, open or NULL, becomes a disk more of an open set, and is the set's from then on; it is closed on failure, and
 * nothing was changed. What was on it is gone. The set's device is longer then, by the chunks of its level that lie on this
 * disk as well and that all have room for, or as long as before; the file system is as large as it was (g4_resize()).
 */
int g4_set_add_to(struct g4_dev *dev, struct g4_dev *disk, const char *name, char *message, size_t message_bytes);
/*
 * A disk, by its name, of an open set that nobody else uses: where the set's addresses would end if those of it were given up, as they
 * are of the one that was added last; 0: what lies on it has to be moved. -G4_E_INVAL: it can not be removed; a sentence says why.
 */
int g4_set_remove_plan(struct g4_dev *dev, const char *name, uint64_t *bytes, char *message, size_t message_bytes);
/*
 * It is no disk of the set any more, and has no superblock. -G4_E_BUSY: the file system does not end there yet, or its resize is
 * not finished.
 */
int g4_set_remove(struct g4_dev *dev, const char *name, char *message, size_t message_bytes);
/* What of the address space is in use: a bit for each 2 MiB; what lies behind is not. */
struct g4_set_in_use {
	const uint64_t *used;
	uint64_t regions;
	uint64_t spare_pages; /* free ones of the file system's own level that it can do without */
};
/*
 * The same of any disk: what is in use of it is copied to the others first, as far as they have room that nothing in use lies on. The
 * addresses stay as they are, but *gone bytes of them that were not in use lie nowhere from then on: reads find zeros, writes fail. progress: a started bar, or NULL. On failure
 * a sentence: -G4_E_NOSPC, there is no room; -G4_E_INVAL, its chunks need all disks; nothing was changed.
 */
int g4_set_remove_moving(struct g4_dev *dev, const char *name, const struct g4_set_in_use *in_use,
			 struct g4_progress *progress, uint64_t *gone, char *message, size_t message_bytes);
/*
 * What lies on an open set that nobody else uses is spread over its disks, by how large they are, and what is not in use is laid anew over the room
 * that there is then, also what removals took; no address changes. *moved: bytes that were copied, 0: nothing can be spread better. progress: a started bar, or NULL. On failure a
 * sentence, and nothing was changed, but that with -G4_E_IO the next open may find either. -G4_E_NOTSUP: all of it is rows with parity.
 */
int g4_set_balance(struct g4_dev *dev, const struct g4_set_in_use *in_use, struct g4_progress *progress,
		   uint64_t *moved, char *message, size_t message_bytes);
/*
 * Chunks of a level, behind those that are there, of what these leave of the disks: of about so many bytes, or with 0 of all.
 * The level bears the loss of as many disks as the set. As above.
 */
int g4_set_assign_to(struct g4_dev *dev, uint32_t level, uint64_t bytes, char *message, size_t message_bytes);
/* The word for a level, as users write it; NULL: there is none of that number. And the level; G4_LEVELS: none is called so. */
const char *g4_level_name(uint32_t level);
uint32_t g4_level_of(const char *name);
/* What chunks of a level, but of OWN, are; *parity: how many parities they have. */
enum g4_raid g4_level_raid(uint32_t level, uint32_t *parity);
/* ---- spares (set_spare_host.c) ---- */
#define G4_MAX_SPARES 8u /* that are open with a set */
/*
 * A device becomes a spare of an open set that has copies or parity: nothing is written to the disks of that, so it may be open for
 * reading alone. The device is the set's then. What was on it is gone. On failure a code and one sentence, and nothing was changed.
 * Thread-safe, as the next.
 */
int g4_set_add_spare(struct g4_dev *dev, const char *name, char *message, size_t message_bytes);
/* A spare of an open set, opened with it or not, is none any more and has no superblock. */
int g4_set_remove_spare(struct g4_dev *dev, const char *name, char *message, size_t message_bytes);
/* Whether a device says that it is a spare, of whatever set. False as well: it can not be read. */
bool g4_set_is_spare(const char *name);

/* Chunks of an open set, one after the other: false: there is no such one. */
bool g4_set_chunk(const struct g4_dev *dev, uint32_t index, struct g4_chunk *chunk);

/* ---- of an open device ---- */
enum g4_disk_state {
	G4_DISK_ACTIVE,
	G4_DISK_MISSING,
	G4_DISK_DROPPED,    /* after an error, while the set is open */
	G4_DISK_STALE,	    /* missed writes while it was away; of g4_set_examine() alone, as the next */
	G4_DISK_APART,	    /* was written without the others, and they without it */
	G4_DISK_REBUILDING, /* gets what is written, and has what lies before `position` */
	G4_DISK_SPARE	    /* holds nothing; of g4_set_spare() */
};
struct g4_disk_info {
	const char *name; /* the set's, as long as it is open; NULL: missing */
	uint8_t uuid[G4_UUID_BYTES];
	uint64_t bytes;
	uint32_t state;	 /* enum g4_disk_state */
	uint64_t since;	 /* the generation from which on it missed writes; 0: none */
	uint64_t mended; /* pages that were not what was written and came from another copy */
	uint64_t
		damaged; /* by the superblock that was written last: pages that were met damaged, and no copy was right */
	uint64_t position; /* of one that is being rebuilt, as it is known; else 0 */
	bool by_hand; /* it is not used because an order said so, or its rebuild was given up: no spare takes its place by itself */
};
/* Its disks in order, one at a time. False: there is no such disk, or the device is no set. Thread-safe. */
bool g4_set_disk(const struct g4_dev *dev, uint32_t index, struct g4_disk_info *info);
/* The same of spares that are open with it: their names, sizes and state are told. */
bool g4_set_spare(const struct g4_dev *dev, uint32_t index, struct g4_disk_info *info);
const char *g4_disk_state_name(uint32_t state);
/* Whether it is a set with a disk missing or dropped. */
bool g4_set_is_degraded(const struct g4_dev *dev);

/* ---- what disks say, of a set that is open elsewhere as well ---- */
struct g4_set_status {
	uint32_t count; /* disks of the set; 0: it is a device of its own */
	uint32_t copies;
	uint64_t generation;
	bool usable; /* the active disks have everything; else `message` says why not */
	bool whole;  /* and all are active */
	/* of a usable one: bytes of chunks that hold data, by level, own ones by the first; and of disks, that no chunk has */
	uint64_t level_bytes[G4_LEVELS], unassigned_bytes;
	uint64_t gone_bytes; /* of chunks without places */
	uint64_t log_bytes;  /* of each disk, in front of what chunks have */
	struct g4_chunk chunks[G4_CHUNKS_MAX];
	uint32_t chunk_count;
	uint32_t own_level;
	struct g4_disk_info disks[G4_MAX_DISKS];
	uint32_t spare_count;
	struct {
		const char *name;
		uint64_t bytes;
	} spares[G4_MAX_SPARES];
	uint32_t other_count; /* names that are no disk of the set now */
	struct {
		const char *name;
		char reason[256];
	} others[G4_MAX_DISKS];
};
/*
 * Judges the disks of a set by their superblocks alone, and refuses none of them. The names in *status are those that were
 * given. A negative code and a sentence: none could be read.
 */
int g4_set_examine(const char *const *names, uint32_t count, struct g4_set_status *status, char *message,
		   size_t message_bytes);

/* ---- past the set ---- */
/* A struct g4_direct_table (space/direct.h) of a device that is a set, as g4_dev_layout() gives it. Thread-safe; no order is carried out meanwhile. */
int g4_set_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes);

/* ---- names ---- */
/* The names that `name` stands for, as g4_set_open() sees them; at most `room`. *out is to be freed in one piece. 0 or a code. */
int g4_set_names(const char *name, char ***out, uint32_t *count);
/*
 * From the root on, and with no links: the same for whoever has another working directory, and for all names of a file. One that leads nowhere stays
 * as it is. To be freed. NULL: no memory.
 */
char *g4_set_full_name(const char *name);
/* Whether two names lead to the same device; those of memory to another one each. */
bool g4_set_is_same_file(const char *a, const char *b);
/* One name for several; to be freed. NULL: no memory. */
char *g4_set_join(const char *const *names, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
