/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu4fs cp --preserve gives a copy of its source's attributes, inside one file system. */
#ifndef G4_CLI_CP_KEEP_H
#define G4_CLI_CP_KEEP_H

#include <pthread.h>

#include "cli/cli.h"
#include "gpu4fs/gpu4fs.h"

/* cp(1)'s words; mode: with access lists */
#define G4_CP_MODE (1u << 0)
#define G4_CP_OWNERSHIP (1u << 1)
#define G4_CP_TIMESTAMPS (1u << 2)
#define G4_CP_LINKS (1u << 3)
#define G4_CP_XATTR (1u << 4)
/* Not among "all", as with cp(1) elsewhere: how contents are kept, which is the new directory's to say; and flags, by which files can not be removed. */
#define G4_CP_POLICY (1u << 5)
#define G4_CP_FLAGS (1u << 6)
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
 * Before contents come into a copy of a file or directory: what `gpu4fs attr` has set of the source. A domain of deduplication that the copy has by its
 * directory stays; it gets another one where the source, in the directory `above` (NULL: not known), is not of the domain of that. 0 or a negative errno.
 */
int64_t g4_cp_keep_policy(gpu4fs_file *from, gpu4fs_file *above, gpu4fs_file *to, bool is_new);

/* Flags that forbid what copying is not done with: they come last. */
#define G4_CP_LAST_FLAGS (GPU4FS_FLAG_IMMUTABLE | GPU4FS_FLAG_APPEND)
struct g4_cp_flagged;
struct g4_cp_later {
	pthread_mutex_t lock;
	struct g4_cp_flagged *first;
};
void g4_cp_later_begin(struct g4_cp_later *later);
/*
 * The copy gets the source's flags, those of LAST_FLAGS with g4_cp_later_end(), which then closes a file (*taken); until then it is open, and there is no
 * room for many of them. `at_once`: all of them now, where neither names come into it nor it gets other ones. `path` is for messages. By any thread. 0 or
 * a negative errno.
 */
int64_t g4_cp_keep_flags(gpu4fs *fs, struct g4_cp_later *later, gpu4fs_file *to, uint32_t flags, bool at_once,
			 const char *path, bool *taken);
/* Sets them, where all was copied. False: one of them not, and it was said why. */
bool g4_cp_later_end(struct g4_cp_later *later, bool good);
/*
 * The permissions to make a copy with: nobody else gets at it before it has its owner. Set-id bits are for the source's owner, and are
 * given where modes are kept.
 */
static inline uint32_t g4_cp_first_mode(uint32_t kept, uint32_t mode)
{
	return mode & (kept & G4_CP_OWNERSHIP ? 0700u : 01777u);
}

#endif
