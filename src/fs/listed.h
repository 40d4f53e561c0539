/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a leaf's copy, by all lanes: their attributes, and their records (docs/design/directories.md, *Listings with attributes, by
 * lanes*). The directory is read-locked from before it was copied on.
 */
#ifndef G4_LISTED_H
#define G4_LISTED_H

#include "dir/dir.h"
#include "fs/command.h"
#include "inode/mounted.h"

enum g4_listed_row {
	G4_LISTED_LEFT = 0, /* nobody knows yet */
	G4_LISTED_KNOWN,    /* attributes of a moment in which the name led there */
	G4_LISTED_GONE,	    /* the name is gone since it was copied */
};

/* In scratch memory, as the copy is. */
struct g4_listed_job {
	struct g4_attr attrs[G4_DIR_LEAF_ENTRIES];
	uint8_t rows[G4_DIR_LEAF_ENTRIES + 2]; /* enum g4_listed_row */
	struct g4_fs *fs;
	const struct g4_dir_listed *listed;
	uint64_t dir; /* its number */
	bool plus;
	uint32_t first, count; /* the names that this is about */
	/* records */
	uint8_t *to; /* as readdir.c lays them out; NULL: there are none */
	uint64_t room, bytes;
	bool gives; /* they are made; else attributes are looked for */
};

/* The region of both. Collective. */
G4_FN void g4_listed_region(struct g4_wg *wg, void *args);
/*
 * Leader. Attributes of job->count names from job->first on, as far as they can be had without locks and memory of slabs; with `to` the count
 * becomes how many have room there.
 */
G4_FN void g4_listed_look(struct g4_wg *wg, struct g4_listed_job *job);
/*
 * Leader. Attributes of name k, one of those. -G4_E_NOENT: it is gone since; any other error is the inode's. `inode`: the directory.
 */
G4_FN int g4_listed_attr(struct g4_wg *wg, struct g4_listed_job *job, struct g4_inode_core *inode, uint32_t k);
/*
 * Leader. Records of job->count names from job->first on that are not gone; their bytes. Without attributes the count becomes how many had
 * room, with them it is what g4_listed_look() came to.
 */
G4_FN uint64_t g4_listed_give(struct g4_wg *wg, struct g4_listed_job *job);

#endif
