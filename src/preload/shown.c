/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that are the kernel's with any path, for they call functions inside it. A path may name a descriptor
 * (/proc/self/fd/N), which must be the kernel's then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "preload/preload.h"

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	g4p_settle_shown(path);
	return G4P_NEXT(fopen)(path, mode);
}

FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
	if (path)
		g4p_settle_shown(path);
	return G4P_NEXT(freopen)(path, mode, stream);
}

char *realpath(const char *restrict path, char *restrict resolved)
{
	g4p_settle_shown(path);
	return G4P_NEXT(realpath)(path, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	g4p_settle_shown(path);
	return G4P_NEXT(__realpath_chk)(path, resolved, room);
}

char *canonicalize_file_name(const char *path)
{
	g4p_settle_shown(path);
	return G4P_NEXT(canonicalize_file_name)(path);
}

int statfs(const char *path, struct statfs *found)
{
	g4p_settle_shown(path);
	return G4P_NEXT(statfs)(path, found);
}

int statvfs(const char *restrict path, struct statvfs *restrict found)
{
	g4p_settle_shown(path);
	return G4P_NEXT(statvfs)(path, found);
}

/* On x86-64 the structures are the same. */
#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("fopen64", "fopen") SAME("freopen64", "freopen") SAME("statfs64", "statfs") SAME("statvfs64", "statvfs"));
