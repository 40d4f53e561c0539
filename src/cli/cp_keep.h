/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu4fs cp --preserve gives a copy of its source's attributes, inside one file system. */
#ifndef G4_CLI_CP_KEEP_H
#define G4_CLI_CP_KEEP_H

#include "cli/cli.h"
#include "gpu4fs/gpu4fs.h"

/* cp(1)'s words; mode: with access lists */
#define G4_CP_MODE (1u << 0)
#define G4_CP_OWNERSHIP (1u << 1)
#define G4_CP_TIMESTAMPS (1u << 2)
#define G4_CP_LINKS (1u << 3)
#define G4_CP_XATTR (1u << 4)
#define G4_CP_ALL (G4_CP_MODE | G4_CP_OWNERSHIP | G4_CP_TIMESTAMPS | G4_CP_LINKS | G4_CP_XATTR)

/* A list of such words with commas, or "all". False: one of them is none. */
bool g4_cp_parse_kept(const char *list, uint32_t *kept);

/* A file: open, or where `file` is NULL a name in a directory that is open, or from the root; links are not followed. */
struct g4_cp_name {
	gpu4fs_file *file;
	gpu4fs_file *at;
	const char *name;
};

/*
 * Gives a copy what is kept of the source, whose attributes `stat` are from before it was read: owners, attributes, mode, times, in this
 * order. A user other than root who may not give a file away keeps it, without set-id bits, and no attributes but user.*. With ownership
 * and without mode an `is_new` copy gets the mode that it would have been made with. 0 or a negative errno.
 */
int64_t g4_cp_keep(gpu4fs *fs, uint32_t kept, const struct g4_cp_name *from, const struct gpu4fs_stat *stat,
		   const struct g4_cp_name *to, bool is_new);
/*
 * The permissions to make a copy with: nobody else gets at it before it has its owner. Set-id bits are for the source's owner, and are
 * given where modes are kept.
 */
static inline uint32_t g4_cp_first_mode(uint32_t kept, uint32_t mode)
{
	return mode & (kept & G4_CP_OWNERSHIP ? 0700u : 01777u);
}

#endif
