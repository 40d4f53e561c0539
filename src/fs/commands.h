/* SPDX-License-Identifier: Apache-2.0 */
/* One function a command, or a few alike, called by g4_execute(). Leader. 0 or a negative code. */
#ifndef G4_COMMANDS_H
#define G4_COMMANDS_H

#include "fs/command.h"
#include "inode/mounted.h"

/* ---- lookup.c, readdir.c ---- */
G4_FN int g4_do_lookup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_readlink(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_readdir(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- create.c: MKNOD, MKDIR, SYMLINK, CREATE; TMPFILE ---- */
G4_FN int g4_do_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_tmpfile(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- link.c; remove.c: UNLINK, RMDIR; rename.c ---- */
G4_FN int g4_do_link(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- clear.c ---- */
G4_FN int g4_do_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- tally.c ---- */
G4_FN int g4_do_tally(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- batch.c ---- */
G4_FN int g4_do_batch(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- dedup.c ---- */
G4_FN int g4_do_dedup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- restripe.c ---- */
G4_FN int g4_do_restripe(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- path_of.c ---- */
G4_FN int g4_do_path(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- open.c ---- */
G4_FN int g4_do_open(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_forget(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- execute.c ---- */
G4_FN int g4_do_setattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/* ---- xattr_commands.c ---- */
G4_FN int g4_do_setxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_getxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_listxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_removexattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

#endif
