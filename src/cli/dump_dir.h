/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs dump --dir: the tree of pages that a directory is. */
#ifndef G4_CLI_DUMP_DIR_H
#define G4_CLI_DUMP_DIR_H

#include "fsck/image.h"
#include "print/report.h"

/* Levels, fill and collisions, and each page; 0, or what was wrong with the first page that is damaged: the others are there. */
int g4_dump_dir_tree(struct g4_image *image, struct g4_report *report, uint64_t ino, const struct g4_inode *inode);
/* The same as a graph for Graphviz's dot. */
int g4_dump_dir_dot(struct g4_image *image, FILE *out, uint64_t ino, const struct g4_inode *inode);

#endif
