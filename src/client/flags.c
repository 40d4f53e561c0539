/* SPDX-License-Identifier: Apache-2.0 */
/* The client's pure functions: flags, paths, times and versioned structures. Nothing here touches an engine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>

#include "client/client.h"

int g4c_split_path(const char *path, struct g4_path_split *out)
{
	const int rc = g4_path_cut(path, path ? strnlen(path, G4C_PATH_MAX) : 0, out);

	return rc < 0 ? -g4_errno(rc) : 0;
}

int64_t g4c_time_to_ns(const struct timespec *time)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)time->tv_sec, G4C_NS_PER_SECOND, &ns)) {
		/* The lowest second that has a representable part overflows in the product, not in the sum. */
		if (time->tv_sec == INT64_MIN / G4C_NS_PER_SECOND - 1 &&
		    time->tv_nsec >= G4C_NS_PER_SECOND + INT64_MIN % G4C_NS_PER_SECOND)
			return (INT64_MIN / G4C_NS_PER_SECOND) * G4C_NS_PER_SECOND -
			       (G4C_NS_PER_SECOND - time->tv_nsec);
		return time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	}
	if (__builtin_add_overflow(ns, (int64_t)time->tv_nsec, &ns))
		return INT64_MAX;
	return ns;
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
	if (time->tv_nsec < 0 || time->tv_nsec >= G4C_NS_PER_SECOND)
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
