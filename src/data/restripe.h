/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that lie elsewhere than their file's policy says come to lie there. The in-core inode is write-locked. Leader. */
#ifndef G4_DATA_RESTRIPE_H
#define G4_DATA_RESTRIPE_H

#include "inode/mounted.h"

struct g4_restripe {
	bool looks;	/* nothing is moved, but counted as if */
	uint64_t page;	/* the next one to look at; UINT64_MAX: there are none */
	uint64_t moved; /* pages */
	/* that are elsewhere, and stay: with several owners; that can not be read, or are not what they were */
	uint64_t shared, damaged;
};

/*
 * One step: pages from `page` on, up to the next 2 MiB of the file or a little further; adds to the counts, also with an error. Contents, sizes and
 * times stay what they are. -G4_E_NOSPC: what is left finds no space where the policy says; or an error of writing.
 */
G4_FN int g4_restripe_step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_restripe *restripe);

/* ---- allocate.c ---- */
/*
 * Pages in a row that are allocated, not written, the file's alone and elsewhere: the first *done of them get space where the policy
 * says.
 */
G4_FN int g4_restripe_unwritten(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages,
				uint64_t *done);

#endif
