/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes that a namespace likes, in blocks, and what commands make of them: engine code. Whatever a drive says here changes only
 * where requests are cut, and which parts of a discard are left out. Of each, 0 is "it does not matter".
 */
#ifndef G4_DEV_NVME_SIZES_H
#define G4_DEV_NVME_SIZES_H

#include "base/base.h"

struct g4_nvme_sizes {
	uint32_t boundary;	/* NOIOB: no command crosses a multiple */
	uint32_t write;		/* NPWG: a write that goes on in another command ends at a multiple */
	uint32_t discard;	/* NPDG: so many blocks, or a multiple, are discarded */
	uint32_t discard_start; /* NPDA: from a multiple on */
};

/* How many of `left` blocks from `lba` on, at most `most`, one command reads or writes; at least 1, as are `left` and `most`. */
G4_FN G4_INLINE uint64_t g4_nvme_cut(const struct g4_nvme_sizes *sizes, uint64_t lba, uint64_t left, uint64_t most,
				     bool writes)
{
	uint64_t blocks = g4_min64(left, most);

	if (sizes->boundary)
		blocks = g4_min64(blocks, sizes->boundary - lba % sizes->boundary);
	if (writes && blocks < left && sizes->write) {
		const uint64_t beyond = (lba + blocks) % sizes->write;
		if (beyond < blocks) /* else no multiple is within reach */
			blocks -= beyond;
	}
	return blocks;
}

/* What of a range is discarded: whole granules, which may be none. What is left out keeps its contents, as a discard may. */
G4_FN G4_INLINE void g4_nvme_granules(const struct g4_nvme_sizes *sizes, uint64_t *lba, uint64_t *blocks)
{
	const uint64_t end = *lba + *blocks;

	if (sizes->discard_start)
		*lba = g4_min64(end, (*lba + sizes->discard_start - 1) / sizes->discard_start * sizes->discard_start);
	*blocks = end - *lba;
	if (sizes->discard)
		*blocks -= *blocks % sizes->discard;
}

#endif
