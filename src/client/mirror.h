/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirror: what a session was told of paths and handles, in its own memory, and whether it still holds (docs/design/mirror.md).
 * All functions are thread-safe; finding takes no lock and writes nothing.
 */
#ifndef G4C_MIRROR_H
#define G4C_MIRROR_H

#include "fs/command.h"
#include "inode/trail.h"

struct g4c_mirror;

enum g4c_asks { /* and, in the bits above, flags of the question: G4_RESOLVE_*, access(2)'s mode */
		G4C_ASKS_PATH = 1,
		G4C_ASKS_NODE = 2,
		G4C_ASKS_HANDLE = 3, /* start: the handle */
		G4C_ASKS_ACCESS = 4
};
#define G4C_ASKS_FLAGS_SHIFT 4

/* All that an answer is found by. */
struct g4c_question {
	uint64_t start; /* inode number */
	uint32_t generation;
	uint16_t asks;
	uint16_t path_bytes;
	const char *path; /* the caller's */
};

#define G4C_MIRROR_ENTRIES 4096u /* of one program's session */

/*
 * `epochs`: G4_EPOCHS of them, the caller's until the mirror is freed. entries: a power of two, of 512 bytes each, which take memory when
 * they are first written. NULL: no memory.
 */
struct g4c_mirror *g4c_mirror_new(const uint64_t *epochs, uint32_t entries);
void g4c_mirror_free(struct g4c_mirror *mirror);
/*
 * The answer to a question, if it is known and still holds. *status is what was put; attr and trail may be NULL, attr is the one that
 * was put.
 */
bool g4c_mirror_find(struct g4c_mirror *mirror, const struct g4c_question *question, int *status, struct g4_attr *attr,
		     struct g4_trail *trail);
/*
 * Keeps an answer, if what it depends on has not changed since it was given. attr: NULL: it has none. Questions with long paths, and trails
 * that say nothing, are not kept. True: it has not changed, so the answer is one of now, whenever it was given.
 */
bool g4c_mirror_put(struct g4c_mirror *mirror, const struct g4c_question *question, int status,
		    const struct g4_attr *attr, const struct g4_trail *trail);
/* The same of what a walk of a client has answered, 0 or a negative errno, where that is an answer that lasts: another is not kept, and false. */
bool g4c_mirror_keep(struct g4c_mirror *mirror, const struct g4c_question *question, int rc, const struct g4_attr *attr,
		     const struct g4_trail *trail);

#endif
