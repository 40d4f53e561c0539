/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounting through FUSE. The front end turns each kernel request into one engine command and runs it on the thread that
 * read the request. It keeps no table of inodes: a kernel node number is the inode number. Host only.
 */
#ifndef G4_FUSE_H
#define G4_FUSE_H

#include "base/error.h"

/* Exit statuses, as mount(8) has them. */
#define G4_MOUNT_EXIT_OK 0
#define G4_MOUNT_EXIT_USAGE 1  /* the command line is wrong: options or the number of arguments */
#define G4_MOUNT_EXIT_SYSTEM 2 /* mounted and served, but the last write-back failed */
#define G4_MOUNT_EXIT_FAIL 32  /* the mount or the unmount did not happen */

enum g4_fuse_atime { G4_ATIME_RELATIME, G4_ATIME_NOATIME, G4_ATIME_STRICTATIME };
enum g4_fuse_readdirplus { G4_READDIRPLUS_ALWAYS, G4_READDIRPLUS_AUTO, G4_READDIRPLUS_NEVER };
enum g4_fuse_mirror { G4_MIRROR_AUTO, G4_MIRROR_ALWAYS, G4_MIRROR_NEVER };

/* g4_fuse_options_init() fills in the defaults; devices and mountpoint are the caller's and must outlive the mount. */
struct g4_fuse_options {
	const char *const *devices; /* names as in space/set_host.h: all disks of a set, or one device */
	uint32_t device_count;
	const char *mountpoint;
	char other_devices
		[4096]; /* of device=: names with commas between, which are to be added to a name of devices */
	bool foreground;
	bool debug;   /* print every request; implies foreground */
	bool remount; /* change the mount at mountpoint instead of making one */
	bool read_only;
	bool nosuid, nodev, noexec;
	bool sync, dirsync;
	bool allow_other;  /* default: when the effective user is root */
	bool degraded;	   /* write although a disk of a set is missing, where the others have all */
	bool dedup_verify; /* what has the same BLAKE3 is compared before it is shared */
	bool discard;	   /* what is freed is discarded on the device */
	bool writeback;	   /* the kernel collects small writes; default on */
	enum g4_fuse_atime atime;
	enum g4_fuse_readdirplus readdirplus;
	enum g4_fuse_mirror mirror; /* auto: with an engine on a GPU */
	uint64_t cache_bytes;	    /* 0: the engine's default */
	uint64_t tier_bytes;	    /* the same (engine/engine.h); less than 256 KiB: none */
	uint64_t dedup_bytes;	    /* 0: the engine's default */
	uint32_t commit_ms;	    /* 0: the engine's default */
	uint32_t engine;	    /* enum g4_engine_kind */
	uint32_t sms;		    /* of a GPU, at most; 0: the engine's default */
	uint32_t gpu_queues;	    /* of a drive, at most, for the GPU */
	uint64_t host_memory_bytes; /* that a drive may have, at most (dev/nvme/lent_host.h) */
	char socket[108];	    /* where programs find the same file system (ring/serve_host.h); "": nowhere */
	uint32_t threads;	    /* 0: chosen from the number of processors; at most 256 */
	double attr_timeout_s, entry_timeout_s, negative_timeout_s; /* default: one week */
};

void g4_fuse_options_init(struct g4_fuse_options *options);
/*
 * Reads one comma-separated mount option string, as after -o or in fstab, into options; call it once per -o. Words that
 * only mount(8) and systemd need (defaults, noauto, user, nofail, _netdev, x-*, X-*, ...) are accepted and ignored.
 *
 *   ro rw  suid nosuid  dev nodev  exec noexec  sync async  dirsync  atime noatime relatime strictatime
 *   allow_other  default_permissions  dedup_verify  discard nodiscard  writeback nowriteback  readdirplus=yes|auto|no
 *   mirror=yes|auto|no
 *   degraded  device=NAME (another disk of the set)
 *   engine=cpu|cuda|auto  sms=N  gpu_queues=N  host_memory=SIZE  cache=SIZE (K, M, G, T)  tier=SIZE  dedup_memory=SIZE  commit=SECONDS  threads=N
 *   attr_timeout=S entry_timeout=S negative_timeout=S
 *   socket=PATH: serves programs there as well; then the kernel caches nothing, whatever the options in front say
 *
 * Returns 0, or -G4_E_INVAL with one sentence that names the option in message[message_bytes].
 */
int g4_fuse_parse_options(const char *text, struct g4_fuse_options *options, char *message, size_t message_bytes);

/*
 * Mounts and serves until unmounted or stopped by SIGTERM or SIGINT; returns an exit status. Call it before the process
 * has threads. Without foreground it forks: the caller returns as soon as the mount works or has failed, the child, which
 * by then logs to the system log, returns when the image is clean again; both should leave main with the status.
 * Failures before that point are printed to stderr, one sentence each.
 */
int g4_fuse_main(const struct g4_fuse_options *options);
/* mount -o remount: gives the mount at options->mountpoint their read_only and kernel's flags. An exit status, the reason printed. */
int g4_fuse_remount(const struct g4_fuse_options *options);

#define G4_UMOUNT_LAZY 1u  /* detach now, do not wait */
#define G4_UMOUNT_FORCE 2u /* also when the server does not answer; do not wait for it */
/*
 * Unmounts dir and waits until the process that served it has written everything back. Returns an exit status: 0 when
 * the image is clean; failures are printed to stderr, one sentence each. Thread-safe.
 */
int g4_fuse_umount(const char *dir, uint32_t flags);
/*
 * Where the file system mounted at dir runs, as g4_engine_name() has it. False: nothing is mounted there, or its state file
 * is not for this user to read. Thread-safe.
 */
bool g4_fuse_mount_engine(const char *dir, char *name, size_t name_bytes);
/*
 * Whether the file system mounted at dir can be written, in words for users; NULL: its server does not answer. Thread-safe.
 */
const char *g4_fuse_mount_access(const char *dir);
/* Whether an errno of what lies on a mount says that the mount's server has ended. */
bool g4_fuse_has_ended(int error);
/*
 * umount(8) does not wait as g4_fuse_umount() does. This waits for a mount of device that is over but whose process still
 * writes, or has open files after umount -l, and says so on stderr after a second; it returns at once when there is none,
 * or when the device is mounted. g4_fuse_main() calls it; so should whatever else opens a device that may just have been
 * unmounted. Thread-safe.
 */
void g4_fuse_wait_for_last_mount(const char *device);

#endif
