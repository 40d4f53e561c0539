/* SPDX-License-Identifier: Apache-2.0 */
/* What the public headers and the engine say differently: flags of open(2), times, attributes. For host and GPU. */
#ifndef G4_CLIENT_CONVERT_H
#define G4_CLIENT_CONVERT_H

#include "fs/command.h"
#include "gpu4fs/gpu4fs.h"

#define G4C_NS_PER_SECOND INT64_C(1000000000)
#define G4C_MKDIR_MODE 01777u /* of the bits of a mode, those that mkdir(2) takes */

/* What open(2) flags mean. */
struct g4c_open_flags {
	uint32_t engine; /* G4_OPEN_* for OPEN and CREATE */
	bool create, exclusive, tmpfile, directory, nofollow, noatime;
};

/* Returns 0, or a negative errno for flags that contradict each other or are unknown. */
G4_HD G4_INLINE int g4c_open_flags(int posix, struct g4c_open_flags *out)
{
	const int tmpfile_bit = O_TMPFILE & ~O_DIRECTORY;
	const int known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY | O_NOFOLLOW | O_SYNC |
			  O_DIRECT | tmpfile_bit | O_NOATIME | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | GPU4FS_O_DEDUP |
			  GPU4FS_O_NODEDUP;
	const int both = GPU4FS_O_DEDUP | GPU4FS_O_NODEDUP;
	int access = posix & O_ACCMODE;

	memset(out, 0, sizeof(*out));
	if ((posix & ~known) || access == O_ACCMODE || (posix & both) == both)
		return -EINVAL;
	out->engine = access == O_RDONLY ? G4_OPEN_READ :
		      access == O_WRONLY ? G4_OPEN_WRITE :
					   G4_OPEN_READ | G4_OPEN_WRITE;
	out->exclusive = posix & O_EXCL;
	out->nofollow = posix & O_NOFOLLOW;
	out->noatime = posix & O_NOATIME;
	if (posix & tmpfile_bit) {
		if ((posix & O_TMPFILE) != O_TMPFILE || (posix & O_CREAT) || access == O_RDONLY)
			return -EINVAL;
		out->tmpfile = true;
	} else {
		out->create = posix & O_CREAT;
		out->directory = posix & O_DIRECTORY;
		if (out->create && out->directory)
			return -EINVAL;
		if (posix & O_TRUNC)
			out->engine |= G4_OPEN_TRUNC;
	}
	if (out->directory)
		out->engine |= G4_OPEN_DIRECTORY;
	if (out->create && out->exclusive)
		out->engine |= G4_OPEN_EXCL;
	if (posix & O_APPEND)
		out->engine |= G4_OPEN_APPEND;
	if ((posix & O_SYNC) == O_SYNC)
		out->engine |= G4_OPEN_SYNC;
	else if (posix & O_DSYNC)
		out->engine |= G4_OPEN_DSYNC;
	if (posix & O_DIRECT)
		out->engine |= G4_OPEN_DIRECT;
	if (posix & O_NOATIME)
		out->engine |= G4_OPEN_NOATIME;
	if (posix & GPU4FS_O_DEDUP)
		out->engine |= G4_OPEN_DEDUP;
	if (posix & GPU4FS_O_NODEDUP)
		out->engine |= G4_OPEN_NODEDUP;
	return 0;
}

G4_HD G4_INLINE struct timespec g4c_time_from_ns(int64_t ns)
{
	struct timespec time;

	time.tv_sec = (time_t)(ns / G4C_NS_PER_SECOND);
	time.tv_nsec = (long)(ns % G4C_NS_PER_SECOND);
	if (time.tv_nsec < 0) {
		time.tv_sec--;
		time.tv_nsec += G4C_NS_PER_SECOND;
	}
	return time;
}

G4_HD G4_INLINE void g4c_stat_from_attr(const struct g4_attr *attr, struct gpu4fs_stat *out)
{
	memset(out, 0, sizeof(*out));
	out->ino = attr->ino;
	out->generation = attr->generation;
	out->size = attr->size;
	out->blocks = attr->blocks_512;
	out->rdev = attr->rdev;
	out->change_count = attr->change_count;
	out->mode = attr->mode;
	out->nlink = attr->nlink;
	out->uid = attr->uid;
	out->gid = attr->gid;
	out->flags = attr->flags;
	out->block_bytes = (uint32_t)G4_PAGE_BYTES;
	out->atime = g4c_time_from_ns((int64_t)attr->atime_ns);
	out->mtime = g4c_time_from_ns((int64_t)attr->mtime_ns);
	out->ctime = g4c_time_from_ns((int64_t)attr->ctime_ns);
	out->btime = g4c_time_from_ns((int64_t)attr->btime_ns);
}

#endif
