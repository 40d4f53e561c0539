/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that others may find by their contents: what is listed, against the pointers and sums that are met. */
#ifndef G4_FSCK_LISTED_H
#define G4_FSCK_LISTED_H

#include "format/owners.h"
#include "fsck/fsck_types.h"

/* Takes over what a group's page of shares lists, and claims the pages of sums. */
void g4_fsck_load_listed(struct g4_fsck *fsck, uint64_t group, const struct g4_shares_page *page);
/* A pointer to written contents was met. */
void g4_fsck_meet_listed(struct g4_fsck *fsck, struct g4_address address, uint64_t pages);
/* Slots of a file in a row, and the entries beside them. False: what is listed of their pages is something else. */
bool g4_fsck_check_listed(struct g4_fsck *fsck, const struct g4_fsck_where *where, const g4_le64 *slots,
			  const struct g4_sum_entry *entries, uint32_t count);
/* The same of pages in a row on the device. */
bool g4_fsck_check_listed_row(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
			      const struct g4_sum_entry *entries, uint32_t count);
/* What is listed and was not met. */
void g4_fsck_compare_listed(struct g4_fsck *fsck);
/* Repair: what is left of a group's goes into its new page of shares. True: there is any. */
bool g4_fsck_write_listed(const struct g4_fsck *fsck, uint64_t group, struct g4_shares_page *page);
/* ---- contents that were read (data.c). Any thread ---- */
/* The contents of a page are what a sum says; they are not, or could not be read. */
void g4_fsck_vouch_listed(struct g4_fsck *fsck, struct g4_address address);
void g4_fsck_doubt_listed(struct g4_fsck *fsck, struct g4_address address);
/*
 * When all have been read: pages that nobody has vouched for, or that somebody has doubted, go from the list, in patches. How many;
 * the pages that were changed are in *changed (malloc'ed), *changed_count of them.
 */
uint64_t g4_fsck_drop_doubtful(struct g4_fsck *fsck, struct g4_address **changed, uint64_t *changed_count);
/* Of a round. */
void g4_fsck_free_listed(struct g4_fsck *fsck);

#endif
