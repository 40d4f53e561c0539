/* SPDX-License-Identifier: Apache-2.0 */
/* On-disk structures as named values, for info and dump. */
#ifndef G4_CLI_SHOW_H
#define G4_CLI_SHOW_H

#include "fsck/image.h"
#include "print/report.h"

const char *g4_state_text(const struct g4_superblock *sb);
void g4_show_header(struct g4_report *report, const struct g4_block_header *header);
void g4_show_superblock(struct g4_report *report, const struct g4_superblock *sb);
void g4_show_inode(struct g4_report *report, uint64_t ino, const struct g4_inode *inode);
void g4_show_pointer(struct g4_report *report, const char *key, g4_ptr ptr);
/* An entry of a page of sums, a block of them or an inode; and all that are not empty. */
void g4_show_sum(struct g4_report *report, const char *key, const struct g4_sum_entry *sum);
void g4_show_sums(struct g4_report *report, const struct g4_sum_entry *sums, uint32_t count);
void g4_show_descriptor(struct g4_report *report, uint64_t group, const struct g4_group_descriptor *descriptor);
void g4_show_alloc_page(struct g4_report *report, const struct g4_alloc_page *page);
void g4_show_entry(struct g4_report *report, const struct g4_entry_view *view);
void g4_show_index(struct g4_report *report, const struct g4_dir_index *index);
void g4_show_xattr_page(struct g4_report *report, const struct g4_xattr_page *page);
/* Any page that carries a header, by its type. */
void g4_show_block(struct g4_report *report, struct g4_image *image, const void *page);

#endif
