/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of which the kernel knows everything that a long listing asks for.
 *
 * READDIRPLUS spares a LOOKUP for each name, but for a file that the kernel knows it makes it forget the access control list,
 * also "there is none", and `ls -l` asks for that again, one request a file. So a listing gives the name alone of a file whose
 * attributes and whose lack of a list the kernel has since the last change. It then uses what it has, as it does without a
 * listing: this can not make anything stale that was not, and being wrong here costs one LOOKUP or GETATTR.
 *
 * The table holds inode numbers, each in the one place that a hash gives it; a later one replaces it. Workers use it at once,
 * without a lock: the places are independent, and each is one word.
 */
#include <linux/xattr.h>

#include "fuse/ops.h"

static _Atomic(uint64_t) *place_of(struct g4_fuse_host *host, uint64_t ino)
{
	return &host->quiet[(ino * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - G4_FUSE_QUIET_BITS)];
}

/* The kernel was told that there is no attribute of this name. */
void g4_fuse_quiet_no_xattr(struct g4_fuse_host *host, uint64_t ino, const char *name)
{
	if (!strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS))
		atomic_store_explicit(place_of(host, ino), ino, memory_order_relaxed);
}

void g4_fuse_quiet_end(struct g4_fuse_host *host, uint64_t ino)
{
	_Atomic(uint64_t) *place = place_of(host, ino);

	if (atomic_load_explicit(place, memory_order_relaxed) == ino)
		atomic_store_explicit(place, 0, memory_order_relaxed);
}

bool g4_fuse_is_quiet(struct g4_fuse_host *host, uint64_t ino)
{
	return atomic_load_explicit(place_of(host, ino), memory_order_relaxed) == ino;
}

/* A request has come: unless it only looks, the kernel will ask for the attributes of its inode again. */
void g4_fuse_quiet_request(struct g4_fuse_host *host, const struct fuse_in_header *in)
{
	switch (in->opcode) {
	case FUSE_INIT: /* before there is a table */
	case FUSE_LOOKUP:
	case FUSE_GETATTR:
	case FUSE_GETXATTR:
	case FUSE_LISTXATTR:
	case FUSE_OPEN:
	case FUSE_READ:
	case FUSE_RELEASE:
	case FUSE_OPENDIR:
	case FUSE_READDIR:
	case FUSE_READDIRPLUS:
	case FUSE_RELEASEDIR:
	case FUSE_READLINK:
	case FUSE_STATFS:
		return;
	default:
		g4_fuse_quiet_end(host, in->nodeid);
	}
}
