/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of regular files: what commands do to them. The in-core inode is write-locked unless it says otherwise. Leader. */
#ifndef G4_FILE_H
#define G4_FILE_H

#include "inode/mounted.h"

struct g4_stage_ahead;

#define G4_DIRECT_PAGES 64u /* transfers from this size on bypass the cache when they are aligned */

/*
 * Read-locked. bypass: the caller keeps what it reads. Aligned pages that are not cached are read straight into its memory:
 * large pieces, and any in a place that does not continue the read before. Sequential small ones come from the cache, with
 * what follows.
 */
G4_FN int g4_file_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, void *to, uint64_t bytes,
		       bool bypass, uint64_t *done);
/* `wish`: enum g4_dedup_wish. `ahead`: what g4_file_write_ahead() has made of the same, and g4_stage_drop() is to see then. */
G4_FN int g4_file_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			uint64_t bytes, uint32_t wish, struct g4_stage_ahead *ahead, uint64_t *done);
/*
 * Not locked. While somebody else has a regular file, the beginning of a large write to it that is to be deduplicated is copied, hashed and looked
 * for; `ahead` is empty where that is not so.
 */
G4_FN void g4_file_write_ahead(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			       uint64_t bytes, uint32_t wish, struct g4_stage_ahead *ahead);
/* Sets the size. */
G4_FN int g4_file_truncate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size);
/* Recovery: frees what lies behind the size of an inode on the orphan list. */
G4_FN int g4_file_cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Frees the contents of an inode that goes, a symbolic link's too; in several transactions where there is much. */
G4_FN int g4_file_free(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Whether g4_file_allocate() knows what is asked. */
G4_FN int g4_file_check_range(uint32_t mode, uint64_t offset, uint64_t bytes);
/* Whether the range fits the file, where mode is G4_FALLOC_INSERT_RANGE or COLLAPSE_RANGE. */
G4_FN int g4_file_check_shift(const struct g4_inode_core *inode, uint32_t mode, uint64_t offset, uint64_t bytes);
/* What g4_file_allocate() does in these two modes, but for times. */
G4_FN int g4_file_shift(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			uint64_t bytes);
/* Recovery: of an inode on the orphan list with G4_INODE_GAP, which is gone then. */
G4_FN int g4_file_close_gap(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* fallocate(2): mode is of G4_FALLOC_*, and both checks allow it. */
G4_FN int g4_file_allocate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			   uint64_t bytes);
/* lseek(2) for G4_SEEK_DATA and G4_SEEK_HOLE. */
G4_FN int g4_file_seek(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint32_t whence,
		       uint64_t *found);

#endif
