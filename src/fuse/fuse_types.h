/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the FUSE front end: what its files share. Each worker thread owns one struct g4_fuse_thread; everything else
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

#define G4_FUSE_MAX_WRITE ((size_t)G4_MIB)
/* Room for a whole write, and for the largest other request (an extended attribute of 64 KiB with its name). */
#define G4_FUSE_DATA_BYTES (G4_FUSE_MAX_WRITE + G4_PAGE_BYTES)
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

struct g4_fuse_host {
	struct g4_fuse_options options;
	struct g4_engine *engine;
	struct fuse_session *session;
	uint64_t root_ino;
	bool writeback;	      /* negotiated */
	bool killpriv;	      /* negotiated: the engine drops set-id bits when the kernel asks for it */
	bool setxattr_flags;  /* negotiated: SETXATTR says whether an access list takes the set-gid bit away */
	uint64_t init_unique; /* INIT's request number and the flags the kernel offered in it */
	uint64_t init_offered;
	bool initialised;

	struct g4_fuse_thread *threads;
	uint32_t thread_count;
	cpu_set_t processors; /* where workers may run */
	int wake_fd;	      /* eventfd: a worker saw the end of the session */
	atomic_bool stopping;

	/* What the kernel wrote back from its cache and we could not take: programs learn of it at fsync() or close(),
	 * whoever unmounts from lost, and writers from write_lost(). */
	atomic_int lost;  /* a negative code, or 0 */
	atomic_uint full; /* pages that a write did not get: 0 once there are so many */

	/* limit.c */
	char bdi[48];		    /* where the kernel is told such things about this mount */
	uint64_t dirty_limit;	    /* what it is, in bytes; whoever takes `limiting` changes it */
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

/* wire.c: reading requests and writing replies below libfuse */
extern const struct fuse_custom_io g4_fuse_wire;

/* limit.c: what the kernel may hold in its write-back cache follows what is free */
int g4_fuse_tune(const struct g4_fuse_host *host, const char *name, uint64_t value); /* 0 or -errno */
void g4_fuse_limit_start(struct g4_fuse_host *host);
void g4_fuse_space_taken(struct g4_fuse_host *host, uint64_t bytes); /* about so much, by a command that is complete */

/* affinity.c: workers run where their caller runs */
void g4_fuse_affinity_init(struct g4_fuse_host *host);
void g4_fuse_affinity(struct g4_fuse_thread *self, const struct fuse_in_header *in);

/* quiet.c: files of which the kernel knows everything that a long listing asks for */
void g4_fuse_quiet_request(struct g4_fuse_host *host, const struct fuse_in_header *in);
void g4_fuse_quiet_no_xattr(struct g4_fuse_host *host, uint64_t ino, const char *name);
void g4_fuse_quiet_end(struct g4_fuse_host *host, uint64_t ino);
bool g4_fuse_is_quiet(struct g4_fuse_host *host, uint64_t ino);

/* ops.c and its neighbours */
extern const struct fuse_lowlevel_ops g4_fuse_ops;
void g4_fuse_credentials(fuse_req_t req, struct g4_cred *cred);
void g4_fuse_add_groups(fuse_req_t req, struct g4_cred *cred);
void g4_fuse_add_groups_for(fuse_req_t req, uint64_t ino, struct g4_cred *cred);
double g4_fuse_attr_timeout(const struct g4_fuse_host *host, const struct g4_attr *attr);
void g4_fuse_entry(const struct g4_fuse_host *host, const struct g4_attr *attr, struct fuse_entry_param *entry);
void g4_fuse_writer_opened(struct g4_fuse_host *host, uint64_t ino, int flags, int step);
bool g4_fuse_may_be_written(struct g4_fuse_host *host, uint64_t ino);
bool g4_fuse_is_full_for(struct g4_fuse_host *host, uint64_t handle);
void g4_fuse_release_handle(struct g4_fuse_host *host, uint64_t handle);
/*
 * What the kernel knows an open file by: the engine's handle, of which no kind has this bit, and a note that who has it open
 * may not read, though the kernel, which fills pages of its cache, does.
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

void g4_fuse_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void g4_fuse_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void g4_fuse_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void g4_fuse_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t offset,
		       struct fuse_file_info *fi);
void g4_fuse_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void g4_fuse_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void g4_fuse_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void g4_fuse_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi);
void g4_fuse_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void g4_fuse_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in, struct fuse_file_info *fi_in,
			     fuse_ino_t ino_out, off_t offset_out, struct fuse_file_info *fi_out, size_t length,
			     int flags);
int g4_fuse_seek_start(struct g4_fuse_host *host);
void g4_fuse_seek_stop(struct g4_fuse_host *host);

void g4_fuse_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void g4_fuse_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

void g4_fuse_note_label(struct g4_fuse_host *host, const char *name);
void g4_fuse_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void g4_fuse_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void g4_fuse_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void g4_fuse_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void g4_fuse_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg, struct fuse_file_info *fi,
		   unsigned flags, const void *in_buf, size_t in_bytes, size_t out_bytes);

/*
 * state.c: one small file per mount under /run, named by the mount's device number. The serving process holds an
 * exclusive lock on it for its whole life and writes its result into it last; whoever waits for the unmount waits for
 * the lock.
 */
struct g4_fuse_mount_entry {
	unsigned major, minor;
	unsigned user_id; /* who mounted */
	char type[64];
};
/* The topmost mount on the absolute path dir, from /proc/self/mountinfo: 0 or -errno, -ENOENT when there is none. */
int g4_fuse_find_mount(const char *dir, struct g4_fuse_mount_entry *entry);
/* Creates and locks the file: a descriptor or -errno. `engine` as in g4_engine_name(). */
int g4_fuse_state_create(const struct g4_fuse_mount_entry *entry, const char *device, const char *engine);
/* Opens the file of a mount that somebody serves: a descriptor or -errno. */
int g4_fuse_state_open(const struct g4_fuse_mount_entry *entry);
/* Records the result (a negative code or 0), removes the file and gives the lock back. */
void g4_fuse_state_finish(const struct g4_fuse_mount_entry *entry, int fd, int result);
/* True when the server of the mount on path has ended without unmounting it, so that nothing can answer there any more. */
bool g4_fuse_mount_is_dead(const char *path, const struct g4_fuse_mount_entry *entry);
/* Waits for the server's end. 0: *result holds what it recorded; -ENODATA: it ended without a word; else -errno. */
int g4_fuse_state_wait(const struct g4_fuse_mount_entry *entry, int fd, int *result);

/* umount.c */
/* The absolute path of a mount point, for the caller to free; NULL with errno. */
char *g4_fuse_mount_path(const char *dir);
/*
 * Unmounts what dead servers have left on path: a new mount would hide it, not replace it. Says so on stderr; false, with
 * the reason printed, when one is in use.
 */
bool g4_fuse_remove_dead_mounts(const char *path);

#endif
