/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of CLEAR (clear.c). */
#ifndef G4_CLEAR_H
#define G4_CLEAR_H

#include "fs/command.h"
#include "inode/mounted.h"

#define G4_CLEAR_MOST 65536u /* names that a command removes, whatever it was given: others wait for the workgroup */
#define G4_CLEAR_WAY 64u     /* directories above the one at hand that are remembered */
#define G4_CLEAR_TRIES                                                                                                 \
	1000000u /* beside four for each name that may go: a chain of so many directories is gone through */
/* Directories with so many names are shared by workgroups that have nothing else to do; */
#define G4_CLEAR_SHARED 64u
#define G4_CLEAR_SHARED_DIRS 16u   /* if they are directories: with so many; */
#define G4_CLEAR_TURNS 16u	   /* of those with many names so many workgroups at most share one, */
#define G4_CLEAR_TURN_NAMES 64u	   /* each with so many names; */
#define G4_CLEAR_WIDE 4096u	   /* one with more is left to the owner by who has a part of another one, */
#define G4_CLEAR_PIECE_NAMES 32u   /* parts have as many names as that, as far as one can tell, or, */
#define G4_CLEAR_PIECES 512u	   /* of a directory with fewer, so that there are as many parts as this, fewer; */
#define G4_CLEAR_PIECES_MOST 8192u /* no job has more */
/*
 * Of names by who has a part, then the rest is the owner's: calls of others come to a helper meanwhile, and wait for it. As many as each of
 * the workgroups gets of the names that may go, but
 */
#define G4_CLEAR_PIECE_TRIES 256u /* no more, */
#define G4_CLEAR_PIECE_LEAST 32u  /* and no fewer. */
/*
 * By who has a part, transactions that unite pages of directories below it: those that are not wide need few, but an image may say that a
 * directory is not
 */
#define G4_CLEAR_UNIONS 128u
/* By who has a part, inodes that have lost their names and are not deleted yet: in core, so that hundreds may have some of the least table. */
#define G4_CLEAR_UNUSED 4u
#define G4_CLEAR_TELLING 16u /* names of a leaf that say how near to each other names are */

/* A directory that workgroups clear together, in memory that all of them reach. */
struct g4_clear_part {
	struct g4_cmd cmd;
	struct g4_cred cred;
	uint64_t ino;
	uint64_t first, span; /* positions: range k has those from first + k * span on, before the next one's */
	uint32_t ranges;
	uint32_t turns;	      /* so many pieces in a row have one range */
	uint64_t most;	      /* names that may go */
	uint64_t tries;	      /* of names */
	uint64_t piece_tries; /* by who has a piece */
	/* atomic */
	uint64_t taken;	  /* names that may go and somebody tries; those that did not go are given back */
	uint64_t removed; /* that have gone */
	uint64_t tried;
	uint32_t generation;
};

/*
 * About how far apart names of a directory are in which those from `start` on were cleared as far as `first`, where there is a name. Of
 * the leaf there: its names from that on, and where it ends.
 */
G4_FN uint64_t g4_clear_span(uint64_t names, uint64_t start, uint64_t first, uint64_t leaf_end, uint32_t leaf_names);
/* Leader, outside of any operation: clears a piece. 0, or what stopped it. */
G4_FN int g4_clear_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_clear_part *part, uint32_t piece);

#endif
