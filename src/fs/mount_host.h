/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing a file system up and down. Host only. */
#ifndef G4_MOUNT_HOST_H
#define G4_MOUNT_HOST_H

#include "fs/fs.h"

struct g4_fs_options {
	uint32_t flags; /* G4_FS_* */
	uint64_t cache_bytes;
	uint64_t tier_bytes; /* of pages by device address (space/tier.h); 0, memory as device: none */
	/* where they are, g4_tier_frames() bytes that stay the caller's; NULL: with the rest. What the page cache gives up goes there, too */
	void *tier_frames;
	uint64_t dedup_bytes;	  /* of the table of contents; 0: a sixteenth of the cache, at least 1 MiB */
	uint32_t most_inodes;	  /* inodes in memory, where the cache is large enough; 0: 32 768 */
	uint32_t most_txn_blocks; /* metadata blocks of a transaction, where log and cache are; 0: G4_TXN_MAX_BLOCKS */
	bool frames_fixed;	  /* pages of the cache are not laid out in the order of their first use */
	bool may_grow;		  /* memory for as many groups as the tables have room for */
	bool no_replay;		  /* look at the image as it is; implies G4_FS_READ_ONLY */
};

/* Reads and checks the superblock of a device: the newer of the good copies. *backup: that is the second. */
int g4_superblock_read(struct g4_wg *wg, struct g4_dev *dev, struct g4_superblock *out, bool *backup);

/* Mounts: replays the journal, finishes deletions, marks the image in use. On failure: a code and a sentence. */
int g4_fs_mount(struct g4_wg *wg, struct g4_dev *dev, const struct g4_fs_options *options, struct g4_fs **out,
		char *message, size_t message_bytes);
/*
 * Of a set that was opened as one that is mounted next (g4_set_options), for whoever writes to it without a mount: what a mount knows of rows that a crash has cut short. Where
 * that can not be told they follow their data. 0 or a negative code. Does nothing on other devices.
 */
int g4_fs_settle_rows(struct g4_dev *dev);
/*
 * A set, or a device, that nobody uses, for whoever writes to it without a mount: claimed, and its rows settled. degraded: disks may be missing. On failure
 * nothing is open, and the message says why.
 */
int g4_fs_open_unused(const char *const *names, uint32_t count, bool degraded, struct g4_dev **dev, char *message,
		      size_t message_bytes);
/*
 * Memory that the first commands touch here and there, which for tables of names is a huge page each time, gets its pages now. For a thread of its own, behind a
 * mount, so that nobody waits for the kernel to find and clear them.
 */
void g4_fs_touch(struct g4_fs *fs);
/* Writes everything, marks the image clean, frees memory. clean = false: frees only. The device stays open. */
int g4_fs_unmount(struct g4_wg *wg, struct g4_fs *fs, bool clean);

/*
 * A mounted file system is fs->memory_bytes bytes that begin at fs, and all pointers to and in them lie in *fs itself:
 * an idle one can be copied to other memory, a GPU's for example, and used there. This changes the pointers of a copy
 * that is going to be used `by` bytes from where its pointers lead now, with the device at `dev`. Only a copy that lies
 * at its old place, with its old device, can be unmounted.
 */
void g4_fs_moved(struct g4_fs *fs, intptr_t by, struct g4_dev *dev);

#endif
