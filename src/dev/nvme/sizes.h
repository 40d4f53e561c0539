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
	uint32_t write_start;	/* NPWA: or at one of this, if none of that is within reach */
	uint32_t write_optimal; /* NOWS: or, best of all, at one of this */
	uint32_t discard;	/* NPDG: so many blocks, or a multiple, are discarded */
	uint32_t discard_start; /* NPDA: from a multiple on */
	uint32_t range;		/* DMRSL, DMSL: no range of a discard is longer; at least a granule */
	uint32_t ranges;	/* DMRL: a command has no more of them */
	uint64_t discard_most;	/* DMSL: nor more blocks in all of them */
	/*
	 * NAWUPF, AWUPF, NABSPF, NABO: a write of at most so many blocks is written whole, if it is no longer than the second says or crosses
	 * no boundary, of which the first is at the fourth and the next ones always the third further. 0: all but the second are.
	 */
	uint32_t whole, whole_anywhere, whole_boundary, whole_offset;
};

/* The last multiple behind lba up to its `blocks`-th block, in blocks from it; 0: there is none, or nothing has to be one. */
G4_FN G4_INLINE uint64_t g4_nvme_back_to(uint32_t multiple, uint64_t lba, uint64_t blocks)
{
	const uint64_t beyond = multiple ? (lba + blocks) % multiple : blocks;

	return beyond < blocks ? blocks - beyond : 0;
}

/* Where a write of `blocks` that goes on in another command ends. */
G4_FN G4_INLINE uint64_t g4_nvme_preferred_end(const struct g4_nvme_sizes *sizes, uint64_t lba, uint64_t blocks)
{
	uint64_t end = g4_nvme_back_to(sizes->write_optimal, lba, blocks);

	if (end == 0)
		end = g4_nvme_back_to(sizes->write, lba, blocks);
	if (end == 0)
		end = g4_nvme_back_to(sizes->write_start, lba, blocks);
	return end ? end : blocks;
}

/* A write that would be whole but for a boundary ends there, so that both parts are. Boundaries are no closer than it is long. */
G4_FN G4_INLINE uint64_t g4_nvme_whole(const struct g4_nvme_sizes *sizes, uint64_t lba, uint64_t blocks)
{
	if (sizes->whole_boundary == 0 || blocks <= sizes->whole_anywhere || blocks > sizes->whole)
		return blocks;
	/* the offset is less than the distance, so that a boundary before block 0 stands for what is before the first one */
	return g4_min64(blocks, sizes->whole_boundary -
					(lba + sizes->whole_boundary - sizes->whole_offset) % sizes->whole_boundary);
}

/* How many of `left` blocks from `lba` on, at most `most`, one command reads or writes; at least 1, as are `left` and `most`. */
G4_FN G4_INLINE uint64_t g4_nvme_cut(const struct g4_nvme_sizes *sizes, uint64_t lba, uint64_t left, uint64_t most,
				     bool writes)
{
	uint64_t blocks = g4_min64(left, most);

	if (sizes->boundary)
		blocks = g4_min64(blocks, sizes->boundary - lba % sizes->boundary);
	if (!writes)
		return blocks;
	if (blocks < left)
		blocks = g4_nvme_preferred_end(sizes, lba, blocks);
	return g4_nvme_whole(sizes, lba, blocks);
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

/* How many of `blocks` from a granule's start on are one range, of at most `most` blocks: whole granules, 0 where there is none. */
G4_FN G4_INLINE uint64_t g4_nvme_range(const struct g4_nvme_sizes *sizes, uint64_t blocks, uint64_t most)
{
	blocks = g4_min64(blocks, sizes->range ? g4_min64(sizes->range, most) : most);
	return sizes->discard ? blocks - blocks % sizes->discard : blocks;
}

#endif
