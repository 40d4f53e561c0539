/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scrub looks at: a page of metadata, pages of a file. What is damaged becomes a finding. Leader; what leads to a page is locked
 * meanwhile, so that it is what it is taken for. Thread-safe between steps of their own.
 */
#ifndef G4_SCRUB_LOOK_H
#define G4_SCRUB_LOOK_H

#include "data/map.h"
#include "inode/icache.h"

struct g4_scrub_step { /* of one workgroup: a step of the job, or a piece of a span (scrub_span.c) */
	struct g4_wg *wg;
	struct g4_fs *fs;
	struct g4_scrub *scrub;
	struct g4_job_record *record; /* counters of it, which are this workgroup's alone */
	uint32_t pages;		      /* looked at */
	uint64_t dir;		      /* that named what is looked at */
	uint8_t *buffer;	      /* a page */
	uint8_t *
		to; /* where pages of files are read to, G4_SCRUB_PAGES; NULL: the device is memory, and they are looked at there */
	int rc; /* why the job can not go on */
};

G4_FN void g4_finding_add(struct g4_fs *fs, struct g4_job_record *record, const struct g4_finding *finding);
G4_FN void g4_scrub_find_metadata(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, int code);
/* That so many pages were looked at. */
G4_FN void g4_scrub_count(struct g4_scrub_step *step, uint32_t pages);
/* A page to which something locked leads. Its contents are in step->buffer if it says 0. */
G4_FN int g4_scrub_look(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, uint32_t type);
/* The same for one of which the last is remembered in *seen; the workgroup that asks for it is the one that looks. */
G4_FN void g4_scrub_look_once(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, uint32_t type,
			      uint64_t *seen);
/* Whether contents are looked at where they lie: the device is memory, and of several copies one is none. */
G4_FN G4_INLINE bool g4_scrub_is_in_place(const struct g4_fs *fs)
{
	return g4_space_is_mapped(&fs->space) && g4_space_copies(&fs->space) == 1;
}
/* Where it is noted that a page was looked at: for those to which several lead. */
G4_FN G4_INLINE uint64_t *g4_scrub_seen(struct g4_scrub_step *step, struct g4_address address)
{
	return &step->scrub->seen[g4_address_page(address) % G4_SCRUB_SEEN];
}

/* Pages in a row of a file, at most G4_SCRUB_PAGES, into step->to. Bits of those that are damaged, or can not be read. */
G4_FN uint64_t g4_scrub_read(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
			     struct g4_address address, uint32_t pages);
/* The indirect pages and pages of sums of a page of a file. */
G4_FN void g4_scrub_look_at_nodes(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page);

#endif
