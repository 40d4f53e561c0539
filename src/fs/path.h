/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path cut before its last component: "a/b//c/" is directory "a/b//", last "c", slash. Operations that make or remove a
 * name are commands about a name in a directory; what stands in front of it is walked (RESOLVE).
 */
#ifndef G4_FS_PATH_H
#define G4_FS_PATH_H

#include "format/format.h"
#include "fs/command.h"

enum g4_last { G4_LAST_NAME, G4_LAST_DOT, G4_LAST_DOTDOT, G4_LAST_ROOT };
struct g4_path_split {
	const char *directory; /* may be empty: the start of the walk itself */
	const char *name;
	uint32_t directory_bytes;
	uint32_t name_bytes;
	enum g4_last last;
	bool absolute;
	bool slash; /* the path ends in '/': it must name a directory */
};
/* 0, -G4_E_NOENT for an empty path, -G4_E_NAMETOOLONG for a path or last name too long. */
G4_FN int g4_path_cut(const char *path, uint64_t bytes, struct g4_path_split *out);
/* The same of a path of any length. */
G4_FN int g4_path_cut_long(const char *path, uint32_t bytes, struct g4_path_split *out);
/* Whether the path's directory is written like this one. */
G4_FN bool g4_path_is_in(const struct g4_path_split *path, const char *directory, uint32_t bytes);
/* Whether a command that makes, removes or renames what a path names can be about its last component: 0 or a negative code. */
G4_FN int g4_path_check_last(enum g4_last last, uint32_t op);

#endif
