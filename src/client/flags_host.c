/* SPDX-License-Identifier: Apache-2.0 */
/* The client's pure functions: flags, paths, times and versioned structures. Nothing here touches an engine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>

#include "client/client_host.h"

#define NS_PER_SECOND INT64_C(1000000000)

int g4c_open_flags(int posix, struct g4c_open_flags *out)
{
	const int tmpfile_bit = O_TMPFILE & ~O_DIRECTORY;
	const int known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY | O_NOFOLLOW | O_SYNC |
			  O_DIRECT | tmpfile_bit | O_NOATIME | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int access = posix & O_ACCMODE;

	memset(out, 0, sizeof(*out));
	if ((posix & ~known) || access == O_ACCMODE)
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
	return 0;
}

int g4c_split_path(const char *path, struct g4c_split *out)
{
	size_t bytes, end, start;

	memset(out, 0, sizeof(*out));
	if (!path || !path[0])
		return -ENOENT;
	bytes = strnlen(path, G4C_PATH_MAX);
	if (bytes >= G4C_PATH_MAX)
		return -ENAMETOOLONG;

	out->absolute = path[0] == '/';
	end = bytes;
	while (end > 0 && path[end - 1] == '/')
		end--;
	out->slash = end < bytes;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;

	out->directory = path;
	out->directory_bytes = (uint32_t)start;
	out->name = path + start;
	out->name_bytes = (uint32_t)(end - start);
	if (out->name_bytes == 0)
		out->last = G4C_LAST_ROOT;
	else if (out->name_bytes == 1 && out->name[0] == '.')
		out->last = G4C_LAST_DOT;
	else if (out->name_bytes == 2 && out->name[0] == '.' && out->name[1] == '.')
		out->last = G4C_LAST_DOTDOT;
	else
		out->last = G4C_LAST_NAME;
	return out->name_bytes > G4C_NAME_MAX ? -ENAMETOOLONG : 0;
}

int64_t g4c_time_to_ns(const struct timespec *time)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)time->tv_sec, NS_PER_SECOND, &ns)) {
		/* The lowest second that has a representable part overflows in the product, not in the sum. */
		if (time->tv_sec == INT64_MIN / NS_PER_SECOND - 1 &&
		    time->tv_nsec >= NS_PER_SECOND + INT64_MIN % NS_PER_SECOND)
			return (INT64_MIN / NS_PER_SECOND) * NS_PER_SECOND - (NS_PER_SECOND - time->tv_nsec);
		return time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	}
	if (__builtin_add_overflow(ns, (int64_t)time->tv_nsec, &ns))
		return INT64_MAX;
	return ns;
}

struct timespec g4c_time_from_ns(int64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND)};

	if (time.tv_nsec < 0) {
		time.tv_sec--;
		time.tv_nsec += NS_PER_SECOND;
	}
	return time;
}

/* One of the two times: which bit says "set", which says "to now". */
static int time_to_mask(const struct timespec *time, uint32_t set, uint32_t now, uint32_t *mask, uint64_t *ns)
{
	if (time->tv_nsec == UTIME_OMIT)
		return 0;
	if (time->tv_nsec == UTIME_NOW) {
		*mask |= now;
		return 0;
	}
	if (time->tv_nsec < 0 || time->tv_nsec >= NS_PER_SECOND)
		return -EINVAL;
	*mask |= set;
	*ns = (uint64_t)g4c_time_to_ns(time);
	return 0;
}

int g4c_times_to_mask(const struct timespec times[2], uint32_t *mask, struct g4_attr *attr)
{
	int rc;

	*mask = 0;
	if (!times) {
		*mask = G4_SET_ATIME_NOW | G4_SET_MTIME_NOW;
		return 0;
	}
	rc = time_to_mask(&times[0], G4_SET_ATIME, G4_SET_ATIME_NOW, mask, &attr->atime_ns);
	if (rc)
		return rc;
	return time_to_mask(&times[1], G4_SET_MTIME, G4_SET_MTIME_NOW, mask, &attr->mtime_ns);
}

void g4c_stat_from_attr(const struct g4_attr *attr, struct gpu4fs_stat *out)
{
	*out = (struct gpu4fs_stat){
		.ino = attr->ino,
		.generation = attr->generation,
		.size = attr->size,
		.blocks = attr->blocks_512,
		.rdev = attr->rdev,
		.change_count = attr->change_count,
		.mode = attr->mode,
		.nlink = attr->nlink,
		.uid = attr->uid,
		.gid = attr->gid,
		.flags = attr->flags,
		.block_bytes = (uint32_t)G4_PAGE_BYTES,
		.atime = g4c_time_from_ns((int64_t)attr->atime_ns),
		.mtime = g4c_time_from_ns((int64_t)attr->mtime_ns),
		.ctime = g4c_time_from_ns((int64_t)attr->ctime_ns),
		.btime = g4c_time_from_ns((int64_t)attr->btime_ns),
	};
}

int g4c_copy_versioned(void *out, size_t bytes, const void *from, size_t minimum)
{
	const unsigned char *source = from;
	uint32_t given;
	size_t i;

	memset(out, 0, bytes);
	if (!from)
		return 0;
	memcpy(&given, from, sizeof(given));
	if (given < minimum)
		return -EINVAL;
	for (i = bytes; i < given; i++) {
		if (source[i])
			return -E2BIG;
	}
	memcpy(out, from, given < bytes ? given : bytes);
	return 0;
}
