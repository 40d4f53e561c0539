/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine on a small device in memory that outlives it: it can be formatted, mounted, abandoned, mounted again behind
 * a fault device, and judged by the offline checker. Commands come as one function each, returning 0 or a negative code.
 */
#ifndef RIG_H
#define RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include "dev/dev_host.h"
#include "engine/engine.h"
#include "format/format.h"

struct g4_fs;
struct g4_run;
struct g4c_mirror;

struct rig {
	int fd; /* the memory behind the device */
	char name[1024];
	uint64_t bytes;
	uint8_t *image; /* all of it, mapped */
	uint64_t cache_bytes;
	uint64_t tier_bytes; /* of the cache's second tier; 0: with an engine its default, else none */
	void *tier_frames;   /* rig_mount_fs(): where its pages are; NULL: with the rest */
	bool may_grow;	     /* rig_mount_fs(): memory for a larger file system */
	struct g4_engine *engine;
	struct g4_dev *fault; /* the engine's, NULL without */
	struct g4_dev *dev;   /* of rig_mount_fs() */
	struct g4_dev *
		twin; /* the test's: mounts are of the drive that the memory is the twin of (twin.h); NULL: of the memory */
	/* without an engine commands go straight to this file system */
	struct g4_fs *fs;
	struct g4_wg *wg;
	const struct g4_cred *cred; /* who asks, NULL: root */
	struct g4c_mirror *mirror;  /* of what root was told; NULL: none (mirrored.h) */
	const uint64_t *epochs;
};

/* Each fails the test when it cannot do its work, unless it returns a code. */
void rig_open(struct rig *rig, uint64_t bytes, uint64_t journal_bytes);
/* The same with these sums (enum g4_checksum_algorithm) and deduplication (0, 1); RIG_AS_SET: what the environment says. */
#define RIG_AS_SET UINT32_MAX
void rig_open_as(struct rig *rig, uint32_t checksum, uint32_t dedup, uint64_t bytes, uint64_t journal_bytes);
void rig_close(struct rig *rig);
/* Settings NULL: no fault device. */
int rig_try_mount(struct rig *rig, uint32_t flags, const struct g4_fault *fault);
void rig_mount(struct rig *rig);
int rig_unmount(struct rig *rig);
/* Stops without writing anything. */
void rig_abandon(struct rig *rig);

/* The same without an engine around it, for tests of what is inside: no background thread, no commands. */
struct g4_fs *rig_mount_fs(struct rig *rig, struct g4_wg *wg, const struct g4_fault *fault);
int rig_try_mount_fs(struct rig *rig, struct g4_wg *wg, const struct g4_fault *fault, struct g4_fs **fs);
/* clean: as an unmount; else the power goes, with a fault device by its rules. */
void rig_unmount_fs(struct rig *rig, struct g4_wg *wg, struct g4_fs *fs, bool clean);

/* ---- what most tests begin and end with ---- */
/* Made and mounted, with a workgroup: rig->fs, rig->wg. cache_bytes 0: as rig_open() has it. Fault NULL: no fault device. */
void rig_begin(struct rig *rig, uint64_t bytes, uint64_t cache_bytes, const struct g4_fault *fault);
/* Made as rig_open_as() says. */
void rig_begin_as(struct rig *rig, uint32_t checksum, uint32_t dedup, uint64_t bytes, uint64_t cache_bytes,
		  const struct g4_fault *fault);
/* Nothing is dirty or reserved after a sync, the journal was not stopped; unmounted, the image is clean and as full as statfs said. */
void rig_end(struct rig *rig);
/* How many locks of leaves of directories somebody holds now. */
uint32_t rig_locked_leaves(struct rig *rig);
/* A new file in the root, its in-core inode referenced: the index, for g4_icache_put() before the end. */
uint32_t rig_hold(struct rig *rig, const char *name, uint64_t *ino);
/* The same with an engine around it, and a test for its end; rig->engine NULL there: unmounted already. */
void rig_begin_engine(struct rig *rig, uint64_t bytes);
void rig_end_engine(struct rig *rig);
/* A new file "f<number>" in the root. */
uint64_t rig_make(struct rig *rig, uint32_t number);
/* Page-aligned memory with the bytes of rig_pattern(); free() it. */
uint8_t *rig_memory(uint64_t bytes, uint64_t seed);

struct rig_verdict {
	uint64_t problems, orphans, free_pages;
};
/* Runs the checker on the unmounted image, its journal taken into account. Its words go to `text` (free it). */
struct rig_verdict rig_fsck(struct rig *rig, char **text);
/* Asks for health; the record of the newest job in it. */
const struct g4_job_record *rig_last_job(struct rig *rig, struct g4_health *health);
struct rig_data {
	uint64_t problems, compared, damaged, without, unverified; /* all but the first: pages */
	uint64_t beside;					   /* compared by the hasher */
};
/* The same with --data: contents are compared with their sums by so many threads. */
struct rig_data rig_fsck_data(struct rig *rig, uint32_t threads, char **text);
struct g4_page_hasher;
struct rig_data rig_fsck_data_beside(struct rig *rig, uint32_t threads, struct g4_page_hasher *hasher, char **text);
struct rig_repair {
	bool find_superblock, dry_run;
	bool data;		/* contents are read, too, and pages that are damaged are no more listed */
	uint64_t stop_at_write; /* as a power cut; 0: no */
	/* out */
	uint64_t found;	     /* problems */
	uint64_t outcome[3]; /* by enum g4_fsck_outcome */
	char words[512];     /* why it could not be done */
	char *text;	     /* what was said; free it */
};
/* What fsck -y does with the unmounted image: 0 or a negative code. A repair that does not come to an end fails the test. */
int rig_repair(struct rig *rig, struct rig_repair *how);
/* Free pages as statfs tells them, when all that was done is on the device. */
uint64_t rig_free_pages(struct rig *rig);
/*
 * Expects a clean image without orphans, with as much free space as statfs told before, and at most what an unmount frees: the empty
 * slabs of a test's workgroups.
 */
#define RIG_MOST_SLABS 16u
void rig_expect_clean(struct rig *rig, uint64_t free_pages, const char *when);
#define RIG_ANY_FREE UINT64_MAX

/* ---- commands ---- */
int op_lookup(struct rig *rig, uint64_t dir, const char *name, struct g4_attr *attr);
int op_getattr(struct rig *rig, uint64_t node, struct g4_attr *attr);
int op_setattr(struct rig *rig, uint64_t node, uint32_t mask, struct g4_attr *attr);
int op_mknod(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t *ino);
int op_mknod_device(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t rdev);
int op_mkdir(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t *ino);
int op_symlink(struct rig *rig, uint64_t dir, const char *name, const char *target, uint64_t *ino);
int op_link(struct rig *rig, uint64_t node, uint64_t dir, const char *name);
int op_unlink(struct rig *rig, uint64_t dir, const char *name);
int op_rmdir(struct rig *rig, uint64_t dir, const char *name);
int op_rename(struct rig *rig, uint64_t dir, const char *name, uint64_t dir2, const char *name2, uint32_t flags);
int op_open(struct rig *rig, uint64_t node, uint32_t flags, uint64_t *handle);
/* MKDIR_ALL, a batch of one; made: also before an error. CLEAR; removed: also where it says why it went no further. */
int op_mkdir_all(struct rig *rig, uint64_t dir, const char *path, uint32_t mode, uint32_t *made, uint64_t *ino);
int op_clear(struct rig *rig, uint64_t dir, uint64_t most, uint64_t from, uint64_t *removed);
int op_tmpfile(struct rig *rig, uint64_t dir, uint64_t *ino, uint64_t *handle);
int op_release(struct rig *rig, uint64_t handle);
/* handle 0: by node. *done may be NULL. */
int op_read(struct rig *rig, uint64_t node, uint64_t handle, uint64_t offset, void *to, uint64_t bytes, uint64_t *done);
int op_write(struct rig *rig, uint64_t node, uint64_t handle, uint64_t offset, const void *from, uint64_t bytes,
	     uint64_t *done);
/* Between two handles. */
int op_copy(struct rig *rig, uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes,
	    uint64_t *done);
/* flags: G4_COPY_* */
int op_copy_as(struct rig *rig, uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes,
	       uint32_t flags, uint64_t *done);
int op_truncate(struct rig *rig, uint64_t node, uint64_t bytes);
int op_fallocate(struct rig *rig, uint64_t node, uint32_t mode, uint64_t offset, uint64_t bytes);
int op_seek(struct rig *rig, uint64_t node, uint64_t offset, uint32_t whence, uint64_t *found);
int op_fsync(struct rig *rig, uint64_t node);
int op_fdatasync(struct rig *rig, uint64_t node);
int op_sync(struct rig *rig);
int op_setxattr(struct rig *rig, uint64_t node, const char *name, const void *value, uint64_t bytes, uint32_t flags);
int op_getxattr(struct rig *rig, uint64_t node, const char *name, void *to, uint64_t room, uint64_t *bytes);
int op_listxattr(struct rig *rig, uint64_t node, void *to, uint64_t room, uint64_t *bytes);
int op_removexattr(struct rig *rig, uint64_t node, const char *name);
int op_readlink(struct rig *rig, uint64_t node, char *to, uint64_t room, uint64_t *bytes);
int op_readdir(struct rig *rig, uint64_t dir, uint64_t cookie, void *to, uint64_t room, uint64_t *bytes);
int op_statfs(struct rig *rig, struct g4_statfs *out);
/* *done bytes */
int op_trim(struct rig *rig, uint64_t start, uint64_t bytes, uint64_t least, uint64_t *done);
int op_job_start(struct rig *rig, uint64_t kind, uint32_t flags, uint64_t rate);
/* mask: G4_JOB_PAUSE, ... */
int op_job_set(struct rig *rig, uint64_t number, uint32_t mask, uint64_t rate);
/* As many extents as there is room for; *count of them. */
int op_map(struct rig *rig, uint64_t node, uint64_t offset, struct g4_map_extent *to, uint32_t room, uint32_t *count);

/* Without an engine: what lies at a page of a file, a run of one. */
void rig_run_at(struct rig *rig, uint64_t ino, uint64_t page, struct g4_run *run);
/* The same of a page that is written: where it lies on the device. */
uint64_t rig_place(struct rig *rig, uint64_t ino, uint64_t page);
/* Without an engine: the page cache gives up all that nobody uses. */
void rig_squeeze(struct rig *rig);
/* Makes a file in the root and writes it from `offset` on: its number. */
uint64_t rig_make_file(struct rig *rig, const char *name, uint64_t offset, const uint8_t *data, uint64_t bytes);
/* Reads from `offset` on into `found`, which then has `contents`. */
void rig_expect_contents(struct rig *rig, uint64_t ino, uint64_t offset, uint8_t *found, const uint8_t *contents,
			 uint64_t bytes);

/* ---- choices ---- */
uint64_t rig_random(uint64_t *state);
/* Bytes that depend on seed and position only. */
void rig_pattern(void *to, uint64_t seed, uint64_t bytes);
/* The number in an environment variable, or what is used without it. */
uint64_t rig_setting(const char *variable, uint64_t otherwise);
/* True in builds that are many times slower: sanitizers, lanes. */
bool rig_slow(void);
/*
 * True where ThreadSanitizer watches lanes. A lane's thread copies for any other lane, so a race that is meant (tests/tsan.supp) can
 * not be told from others by who copies: tests that are about such a one are left to the builds without lanes, or without
 * ThreadSanitizer.
 */
bool rig_lanes_are_watched(void);
/*
 * True where ThreadSanitizer watches, and a test that has no engine's threads has only one: it sees nothing there. What takes long
 * is left to the other builds then, unless G4_TEST_LONG is set (cmake/G4LongTests.cmake).
 */
bool rig_one_thread_is_watched(void);
/*
 * memcpy() of a whole image, put aside or taken back while nothing else runs: ThreadSanitizer, to which this would be most of
 * the work of a test, does not look.
 */
void rig_copy(void *to, const void *from, uint64_t bytes);
/* memcmp() of what tests compare, by words; as rig_copy() it is none that ThreadSanitizer looks at. assert_memory_equal() begins with it. */
bool rig_equal(const void *a, const void *b, size_t bytes);
/*
 * Of tests that go through many states of the disk, one case in so many: 1 in a plain build, `slow` in one with checks, and four
 * times that with ThreadSanitizer, which looks for races: the same threads make each state.
 */
uint64_t rig_every(uint64_t slow);

#endif
