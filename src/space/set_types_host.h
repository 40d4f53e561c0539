/* SPDX-License-Identifier: Apache-2.0 */
/* What is inside an open set. Of the files of this folder alone. */
#ifndef G4_SET_TYPES_HOST_H
#define G4_SET_TYPES_HOST_H

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "space/set_host.h"

struct g4_set_idle { /* a spare */
	struct g4_dev *dev;
	char *name;
};

struct g4_set_member {
	struct g4_dev *dev; /* NULL: missing */
	char *name;
	uint32_t state; /* enum g4_disk_state, atomic */
	uint32_t users; /* atomic: requests under way that no lock keeps; with any it stays open (set_io_host.c) */
	uint64_t
		written; /* atomic: how many writes of requests are complete that a flush has to make durable (set_flush_host.h) */
	bool torn;	  /* lock held: one of its superblocks was not whole when it was opened */
	uint64_t flushed; /* atomic: the same when the newest flush that has succeeded began */
	uint64_t busy;	  /* atomic: bytes of requests under way */
};

/*
 * Which parts of the address space requests write to now, and the part that is copied to a disk that is being rebuilt, which
 * nobody may write to meanwhile (set_window_host.c).
 */
#define G4_SET_WINDOW_PARTS 16384u
#define G4_SET_WATCHES 8u
struct g4_set_window {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t from, to; /* from == to: nothing is copied */
	struct {
		uint64_t from, to;
		bool touched; /* somebody has begun to write there since it is watched */
	} watches[G4_SET_WATCHES];
	uint32_t writers[G4_SET_WINDOW_PARTS];
};

/*
 * Requests look chunks up without a lock, and count themselves in the view that they look at until they are done. A table that is switched
 * under them is put into the other view, which nobody looks at then (set_epoch_host.c).
 */
struct g4_set_view {
	struct g4_chunk_map map;
	uint32_t users; /* atomic */
};

/* The place that is moved next, of a set that others use (set_spread_host.c). With the lock of orders. */
struct g4_set_piece {
	uint64_t generation;	/* of the set, when it was chosen; 0: none is */
	uint32_t chunk, number; /* of that table, and of that chunk's places */
	uint64_t within, bytes; /* of the place */
	uint64_t to;		/* a place */
};

/* Parts of the address space of which nothing is in use, and whose places are room for now (set_lend_host.c). */
struct g4_set_range {
	uint64_t from, to;
};

/*
 * The lock guards `super` and `page`, and is held while superblocks are written: so a thread that finds a disk dropped, and
 * has had the lock
 * since, knows that the other disks say so durably.
 */
struct g4_set {
	struct g4_dev dev; /* what the world sees; its host is this */
	pthread_mutex_t
		orders; /* held by an order that changes which disks or chunks there are; before all other locks */
	pthread_mutex_t lock;
	struct g4_dev_open_options open; /* as its disks were opened */
	uint32_t count;			 /* atomic: a disk is whole before it is counted */
	struct g4_set_member disks
		[G4_MAX_DISKS]; /* from `count` on: numbers that disks had before others were removed (set_leave_host.c) */
	uint32_t leaving;	/* atomic: 1 + the disk that is removed, which is not flushed any more; 0: none is */
	uint64_t
		renumbered; /* atomic: the first epoch in which disks have the numbers of now, 0: those that they were opened with */
	uint64_t
		settled; /* atomic: the same of numbers by which nothing is written any more; else all are flushed (set_flush_host.h) */
	/* changed with both locks held, but of a set that nobody else has: who holds either may look */
	struct g4_set_idle spares[G4_MAX_SPARES];
	uint32_t spare_count;
	uint64_t told; /* orders held: disks, a bit each, of which it was logged that no spare will do */
	uint64_t
		laid; /* orders held: disks, a bit each, that the newest table (g4_set_layout()) has, and lanes may use */
	char **old_names; /* that disks had: a caller that was given one (g4_set_disk()) may use it as long as the set */
	uint32_t old_name_count;
	struct g4_chunk *
		chunks; /* for those who hold a lock that a switch of the table takes, or have the set alone; so is `map` */
	struct g4_chunk_map map;
	struct g4_chunk *
		other_chunks; /* of the view that is not looked at; NULL: the table was never switched under requests */
	struct g4_set_view views[2];
	uint64_t epoch; /* atomic: requests look at views[epoch % 2] */
	struct g4_set_piece next;
	struct g4_set_range lent[G4_LEND_MOST]; /* with the lock of orders, as the next two */
	uint32_t lent_count;
	/* of each part of the address space, of so many bytes, the share that is in use; no bytes: it was not told. Nothing is behind the last one */
	uint64_t use_bytes;
	double use[G4_USE_PARTS];
	bool lent_ready;		/* no request is under way that began before */
	struct g4_set_leave_look *look; /* with the lock of orders: set_leave_room_host.h; NULL: nobody looks */
	struct g4_superblock *super;	/* the newest, as the set gives it */
	uint64_t fs_bytes;   /* atomic: of the file system, by its first superblock; the second is at its end */
	bool has_super;	     /* it was read or written; not while the set is being made */
	bool chunks_damaged; /* on a disk: all get them again with the next superblock */
	bool uneven;	     /* some superblocks have an older generation than the newest: a crash left them so */
	uint32_t unrecorded; /* atomic: a disk is missing, and the others do not say so yet; or they are uneven */
	uint32_t
		stuck; /* atomic: a disk has failed that can not be done without, and what it had not flushed may be lost */
	bool torn; /* lock held: stuck while a table was switched under requests, and nobody knows which one counts: nothing is written */
	uint32_t target; /* atomic: the disk that is being rebuilt, its state is REBUILDING; else G4_MAX_DISKS */
	uint64_t
		position; /* atomic: an address on it; what it has before is as it should be. It never falls while that goes on */
	uint64_t idle_from,
		idle_to; /* of the address space: what comes next, of rows, and nobody has written to since that was
					told; with the lock of rows */
	struct g4_set_taken {
		uint64_t from, to, end; /* of a place; what is behind `to` is left out, and passed with it */
		uint64_t address;	/* of what is there, in the address space; of rows, of their chunk */
		uint64_t disk_address,
			position; /* on the disk: of `from`, and the set's when all that was taken before has counted */
		uint64_t number;
		uint32_t disk, scale; /* so many bytes of the address space stand for one of the place */
		bool rows;
		bool touched; /* rows there have been written since, with their lock; or what is left out was given something to hold */
	} taken[G4_SET_WATCHES]; /* of the disk that is being rebuilt, by somebody who makes it by himself: in their order (set_taken_host.c) */
	uint32_t taken_count;
	uint64_t taken_number;
	uint32_t refused;     /* so many times in a row somebody was in the way of a copy to it */
	uint64_t noted_ns;    /* when that was written to superblocks */
	uint64_t noted_bytes; /* and what it was */
	struct g4_set_window window;
	uint8_t *page;		      /* aligned */
	struct g4_set_parity *parity; /* set_parity_host.h; NULL: no chunk has any */
};

/* Whether bytes of a disk can be read, and are to be written: it has everything, or is being rebuilt and has them already. */
static inline bool g4_set_has(const struct g4_set *set, uint32_t disk, uint64_t address, uint64_t bytes)
{
	const uint32_t state = g4_load32_acq(&set->disks[disk].state);

	return state == G4_DISK_ACTIVE ||
	       (state == G4_DISK_REBUILDING && address + bytes <= g4_load64_acq(&set->position));
}

/* Whether a disk is flushed, and gets what is written in copies, whether it has got there or not. */
static inline bool g4_set_is_written(const struct g4_set *set, uint32_t disk)
{
	const uint32_t state = g4_load32_acq(&set->disks[disk].state);

	return state == G4_DISK_ACTIVE || state == G4_DISK_REBUILDING;
}

/* Of the address space: a file system may have less of it, until it has grown. */
static inline uint64_t g4_set_bytes(const struct g4_set *set)
{
	return g4_load64_acq(&set->dev.props.size_bytes);
}

/* ---- superblocks (set_label_host.c) ---- */
/* Where the copies of the superblock are on a disk, of which so much is used. */
uint64_t g4_set_label_address(uint64_t disk_bytes, bool second);
struct g4_set_label_flaws {
	bool torn;   /* one of the two is not whole */
	bool uneven; /* one has an older generation of the set than the other: a crash came between */
};
/* Reads the newest superblock of a disk of a set or of a single one, into a page. -G4_E_SB_MAGIC: it has none. flaws: or NULL. */
int g4_set_read_label(struct g4_wg *wg, struct g4_dev *disk, struct g4_superblock *out,
		      struct g4_set_label_flaws *flaws);
/*
 * One of the superblocks of the set, by its address in the set: at another than the first one's it is the second. `to` is a
 * page. What is written and is none goes to all disks as it is. Its size, in the first one, is where the second one is from
 * then on.
 */
int g4_set_read_super(struct g4_wg *wg, struct g4_set *set, uint64_t address, void *to);
int g4_set_write_super(struct g4_wg *wg, struct g4_set *set, uint64_t address, const void *from);
/* Chunks that a set is to have, those that it has first, or fewer; and a disk more, or as many as before, or one less. */
struct g4_set_growth {
	struct g4_chunk *chunks;
	uint32_t chunk_count, disk_count;
	uint32_t removed; /* with one less: which; the last one gets its number, as the chunks have it */
	bool moves;	  /* not with one more: all chunks are others; nobody else uses the set, or it is `live` */
	bool live; /* others use the set: rows are locked and empty, the other view is free, nobody writes to what moves, and nobody uses the disk that goes */
	uint64_t disk_bytes; /* of the new disk */
	uint8_t uuid[G4_UUID_BYTES];
};
/*
 * Locks of orders and superblocks held. From now on the set has what `growth` says; a new disk is there in set->disks, wiped.
 * After an error of which the set is not stuck nothing was changed. -G4_E_BUSY: a disk is missing or being rebuilt.
 */
int g4_set_switch_table(struct g4_wg *wg, struct g4_set *set, const struct g4_set_growth *growth);
/* Whether everything is on disks that are active and not `without`. */
bool g4_set_is_whole(const struct g4_set *set, uint32_t without);
/* A disk has failed: the others say so when it returns 0. -G4_E_IO: it can not be done without. */
int g4_set_drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk);
/* Before the first write that missing disks miss: the others say so when it returns 0. All have the newest table then. */
int g4_set_record_missing(struct g4_wg *wg, struct g4_set *set);
/*
 * Nobody takes a disk for one of the set, or of anything, when this returns 0, and it has no part in an epoch of the log, nor a
 * map. The lock is held, or nobody else has the set.
 */
int g4_set_wipe(struct g4_wg *wg, struct g4_set *set, uint32_t disk);
/* The same of a device of so many bytes that was one of its disks. */
int g4_set_wipe_device(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, uint64_t bytes);
/*
 * A disk begins to be rebuilt: the set's device of that number is wiped, nothing uses it, and the others say durably that it
 * has nothing yet. From then on it gets what is written. After an error none is being rebuilt.
 */
int g4_set_begin_target(struct g4_wg *wg, struct g4_set *set, uint32_t disk, bool is_new);
/* The set's position is durable: what lies before is, on the disk that is being rebuilt. */
int g4_set_note_target(struct g4_wg *wg, struct g4_set *set, uint64_t position);
/* It has everything, durably: from now on it is one as the others. */
int g4_set_admit_target(struct g4_wg *wg, struct g4_set *set);
/* A disk is no longer used, because a user says so: as g4_set_drop(). -G4_E_BUSY: it can not be done without. */
int g4_set_leave_out(struct g4_wg *wg, struct g4_set *set, uint32_t disk);
/* Pages of a disk were written from another copy. */
void g4_set_count_mended(struct g4_set *set, uint32_t disk, uint64_t pages);

/* ---- writers and what is copied (set_window_host.c) ---- */
int g4_set_window_begin(struct g4_set_window *window);
void g4_set_window_end(struct g4_set_window *window);
/* A request begins to write there; it waits while that is copied. */
void g4_set_window_enter(struct g4_set_window *window, uint64_t address, uint64_t bytes);
/* And is done. */
void g4_set_window_leave(struct g4_set_window *window, uint64_t address, uint64_t bytes);
/* Nobody writes there from now until it is closed. False, at once: somebody does. */
bool g4_set_window_open(struct g4_set_window *window, uint64_t address, uint64_t bytes);
/* The same, but those that write there have so long to end, while nobody else begins to. */
bool g4_set_window_wait(struct g4_set_window *window, uint64_t address, uint64_t bytes, uint64_t most_ns);
void g4_set_window_close(struct g4_set_window *window);
/* From now on who begins to write there is noticed. One range at a time by each watch. Whether nobody is writing there now. */
bool g4_set_window_watch(struct g4_set_window *window, uint32_t watch, uint64_t address, uint64_t bytes);
/* A part of that: nobody begins to write there until it is closed. False, at once: somebody has since it is watched. */
bool g4_set_window_shut(struct g4_set_window *window, uint32_t watch, uint64_t address, uint64_t bytes);

/* ---- rebuilding (set_rebuild_host.c): one workgroup at a time ---- */
/*
 * The device begins to be rebuilt as that disk, one that is not used; what is on it is gone. It is the set's from then on, on
 * failure as well.
 */
int g4_set_rebuild_begin(struct g4_wg *wg, struct g4_set *set, uint32_t disk, struct g4_dev *dev, const char *name,
			 bool is_new, struct g4_dev_message message);
/*
 * Some more of it, of copies at most *bytes, 0: as much as a step does; then *bytes is how much. 0 of them: somebody writes there, or
 * there is no memory, it is to be tried again later. 1: the disk is as the others. -G4_E_NO_TARGET: none is being rebuilt.
 * After any error none is.
 */
int g4_set_rebuild_step(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes);
/* What comes next, as NEXT tells it (dev.h). Of rows all that a bit of the map is of, also what of that is made. */
int g4_set_rebuild_next(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);
/*
 * *bytes of that, from its beginning on, held nothing when or after it was told: they are not made, as far as nobody has
 * written there since. Then *bytes is how much was left out; of rows a whole bit of the map or several.
 */
int g4_set_rebuild_skip(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes);
/* How far it has got is durable. */
int g4_set_rebuild_note(struct g4_wg *wg, struct g4_set *set);
/* Bytes of the disk before the position, and in all. */
void g4_set_rebuild_progress(const struct g4_set *set, uint64_t *done, uint64_t *all);
/* What commands ask for (dev.h). */
int g4_set_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);
/* Where the second superblock is: at the end of the file system. */
static inline uint64_t g4_set_second_super(const struct g4_set *set)
{
	return g4_load64_acq(&set->fs_bytes) - G4_PAGE_BYTES;
}

/*
 * The set's last page is one as well: who can not read the first looks there, and no file system that ends before it uses
 * it.
 */
static inline bool g4_set_is_super(const struct g4_set *set, uint64_t address)
{
	return address == G4_SUPERBLOCK_ADDRESS || address == g4_set_second_super(set) ||
	       address == g4_set_bytes(set) - G4_PAGE_BYTES;
}

/* ---- adding (set_add_host.c) ---- */
/*
 * A device, open or NULL, becomes a disk of the set, and the set has as many more chunks of its own level as there is room for;
 * what was on it is gone. The device is the set's from then on, and closed on failure. Others may use the set meanwhile.
 * Thread-safe. *disk: its number.
 */
int g4_set_add(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name, uint32_t *disk,
	       struct g4_dev_message message);

/* The same without a disk: chunks of another level, of about so many bytes, or with 0 of all that is left. */
int g4_set_assign(struct g4_wg *wg, struct g4_set *set, uint32_t level, uint64_t bytes, struct g4_dev_message message);

/* Orders held. Whether disks and chunks can be changed: all are there, written and none is being rebuilt; else a sentence. */
int g4_set_check_whole(const struct g4_set *set, struct g4_dev_message message);
/*
 * Orders held, and nobody else uses the set. The set has what `growth` says from now on, which is no disk more, with an empty log; a disk less is closed. As
 * g4_set_switch_table(). (set_remove_host.c)
 */
int g4_set_change_over(struct g4_wg *wg, struct g4_set *set, const struct g4_set_growth *growth);

/* The level of what mkfs made (enum g4_level). The chunks do not change meanwhile. */
uint32_t g4_set_own_level(const struct g4_chunk_map *map);

/* ---- the device (set_io_host.c) ---- */
/* Makes the device of a set whose disks and chunks are there. */
void g4_set_begin(struct g4_set *set);
/* Closes the disks as well. */
void g4_set_free(struct g4_set *set, bool disks);
bool g4_set_is(const struct g4_dev *dev);

/* ---- names (set_names_host.c) ---- */
/* The lock is held. A name that no disk has any more is kept for those who were given it; -G4_E_NOMEM: it is the caller's still. */
int g4_set_keep_name(struct g4_set *set, char *name);

#endif
