/* SPDX-License-Identifier: Apache-2.0 */
/* Saying what is wrong and what was done about it. */
#ifndef G4_FSCK_REPORT_H
#define G4_FSCK_REPORT_H

#include "fsck/fsck_types.h"

__attribute__((format(printf, 4, 5))) void g4_fsck_problem(struct g4_fsck *fsck, enum g4_fsck_problem kind,
							   const struct g4_fsck_where *where, const char *format, ...);
/* Contents that are not what their sum says: told as a problem is, and not counted as one. */
void g4_fsck_tell_damage(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_fsck_damage *damage);
/* The same of a row with parity, at an address, of which something is not as it was written. */
void g4_fsck_tell_parity(struct g4_fsck *fsck, uint64_t address);
/* Says and remembers what the repair did to a file's contents from byte `offset` on; bytes 0: not to contents. */
__attribute__((format(printf, 6, 7))) void g4_fsck_change(struct g4_fsck *fsck, enum g4_fsck_outcome outcome,
							  const struct g4_fsck_where *where, uint64_t offset,
							  uint64_t bytes, const char *format, ...);
/* Copies the name of the entry at `unit` of a leaf; its length, 0 when it can not be read. */
size_t g4_fsck_entry_name(struct g4_fsck *fsck, struct g4_address leaf_address, uint32_t unit,
			  uint8_t name[G4_NAME_MAX]);

#endif
