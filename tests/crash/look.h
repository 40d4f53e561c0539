/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user sees of a mounted file system: every name with all that stat, listxattr, readlink and read tell but the
 * time of access. Inodes are told apart by their owner (uid), which its maker chooses: it stays with the inode through
 * every rename and link, and no other inode ever has it.
 */
#ifndef CRASH_LOOK_H
#define CRASH_LOOK_H

#include "engine/rig.h"

#define PATH_MAX_BYTES 56u
#define UNSEEN "front" /* a name that is not looked at: what only takes room */

struct node {			   /* a name and what it leads to */
	char path[PATH_MAX_BYTES]; /* without a leading slash; the root is "" */
	uint32_t id, parent_id;
	uint32_t mode, nlink;
	uint64_t size;	     /* 0 where it means nothing */
	uint64_t attributes; /* a hash of names and values, of a link's target, of group and device */
	uint64_t stamp;	     /* a hash of the times of change, flags and generation; compared by tests/faults alone */
	uint32_t first_page; /* into tree.pages */
	uint32_t page_count;
	bool damaged; /* an error came in the place of some of this, and of names below a directory; of a tolerant look */
};

struct tree {
	struct node *nodes; /* by path */
	uint32_t count, room;
	uint64_t *pages; /* a hash each, 0 for zeros; bytes behind the end count as zeros */
	uint32_t page_total, page_room;
	bool tolerant; /* set by who looks: what is damaged is noted, and the look goes on */
};
#define LOST_PAGE UINT64_C(2) /* no page's hash: it could not be read */

/* Looks at everything. What was there before in `tree` is gone. 0, or a negative code and what failed in *what. */
int look(struct rig *rig, struct tree *tree, const char **what);
void tree_free(struct tree *tree);
void tree_copy(struct tree *to, const struct tree *from);
const struct node *tree_find(const struct tree *tree, const char *path);
/* Some name of an inode. */
const struct node *tree_find_id(const struct tree *tree, uint32_t id);
/* The hash of the k-th page that is looked at: 0 where the file has none. */
uint64_t node_page(const struct tree *tree, const struct node *node, uint32_t k);
/* Its number in the file. */
uint64_t page_index(uint32_t k);
/* Whether both are the same to everyone who does not read contents or size. */
bool same_but_contents(const struct node *a, const struct node *b);
void tree_print(const struct tree *tree, const char *title);

#endif
