/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the FUSE front end: what a server of a mount knows. Each worker thread owns one struct g4_fuse_thread; everything else
 * is read-only after start, apart from the counters marked atomic.
 */
#ifndef G4_FUSE_FUSE_TYPES_H
#define G4_FUSE_FUSE_TYPES_H

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "fuse/convert.h"
#include "fuse/fuse.h"
#include "fuse/payload.h"

#define G4_FUSE_WRITERS_BITS 16
#define G4_FUSE_QUIET_BITS 17

/*
 * One worker. data is page-aligned: it receives the payload of a write, so that the engine can hand it to a device
 * without a copy, and holds the reply of every operation that returns bytes. One request uses it for one of the two.
 */
struct g4_fuse_thread {
	struct g4_fuse_host *host;
	int fd; /* a clone of the session's descriptor; replies must go back through the one that gave the request */
	uint8_t *data;
	const uint8_t *head; /* raw request: struct fuse_in_header and the start of its arguments */
	pthread_t thread;
	/* affinity.c: whose small requests it served last, how many in a row, and where it is bound to (-1: nowhere) */
	uint32_t caller, streak;
	int processor;
	uint64_t look_ns; /* not before */
};

struct g4_fuse_seek_job;
struct g4_fuse_share;
struct g4c_mirror;

struct g4_fuse_host {
	struct g4_fuse_options options;
	struct g4_engine *engine;
	struct fuse_session *session;
	uint64_t root_ino;
	const uint64_t *epochs; /* mirror.c: what answers are compared with; NULL: none are kept */
	struct g4c_mirror *mirror;
	bool writeback;	      /* negotiated */
	bool killpriv;	      /* negotiated: the engine drops set-id bits when the kernel asks for it */
	bool setxattr_flags;  /* negotiated: SETXATTR says whether an access list takes the set-gid bit away */
	uint64_t init_unique; /* INIT's request number and the flags the kernel offered in it */
	uint64_t init_offered;
	bool initialised;

	struct g4_fuse_share *share; /* share.c; NULL: nobody but the kernel changes the file system */
	const char *share_path;	     /* where it is mounted */

	struct g4_fuse_thread *threads;
	uint32_t thread_count;
	cpu_set_t processors; /* where workers may run */
	int wake_fd;	      /* eventfd: a worker saw the end of the session */
	atomic_bool stopping;
	int destroy_fd; /* block.c: where umount(2) waits for an answer, and to which request; -1: nowhere */
	uint64_t destroy_unique;

	/* What the kernel wrote back from its cache and we could not take: programs learn of it at fsync() or close(),
	 * the unmount from lost and no_room, and writers from write_lost(). */
	atomic_int lost; /* a negative code, or 0 */
	atomic_bool
		no_room;  /* that alone is no failure of the mount: who asked for it was told, as on any file system */
	atomic_uint full; /* pages that a write did not get: 0 once there are so many */

	/* limit.c */
	char bdi[48];		    /* where the kernel is told such things about this mount */
	uint64_t dirty_limit;	    /* what it is, in bytes; changed by the thread that takes `limiting` */
	atomic_bool limiting;	    /* set: the next one may look */
	_Atomic int64_t until_look; /* bytes that may be written before */

	/* Opens for writing, counted by a hash of the inode number: zero means that nobody has the inode open for
	 * writing. Fixed size, so that it does not grow with the number of files. */
	atomic_uint *writers;

	_Atomic(uint64_t) *quiet; /* quiet.c */
	bool selinux;		  /* this kernel has SELinux */
	atomic_bool labels;	  /* a file with a label of SELinux was seen */

	pthread_mutex_t seek_lock;
	pthread_cond_t seek_ready;
	struct g4_fuse_seek_job *seek_first, **seek_last;
	bool seek_stop;
	pthread_t seek_thread;
};

/* The calling worker; set at thread start. */
extern _Thread_local struct g4_fuse_thread *g4_fuse_self;

/*
 * What the kernel knows an open file by: the engine's handle, of which no kind has this bit, and a note that it was opened
 * for writing only, though the kernel, which fills pages of its cache, reads it.
 */
#define G4_FUSE_WRITE_ONLY (UINT64_C(1) << 31)
static inline uint64_t g4_fuse_file(uint64_t handle, int flags, bool writeback)
{
	return handle | (writeback && (flags & O_ACCMODE) == O_WRONLY ? G4_FUSE_WRITE_ONLY : 0);
}
static inline uint64_t g4_fuse_handle(const struct fuse_file_info *fi)
{
	return fi->fh & ~G4_FUSE_WRITE_ONLY;
}

#endif
