/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what a worker of the FUSE front end receives and answers. */
#ifndef G4_FUSE_PAYLOAD_H
#define G4_FUSE_PAYLOAD_H

#include "base/base.h"

#define G4_FUSE_MAX_WRITE ((size_t)G4_MIB)
/* Room for a whole write, and for the largest other request (an extended attribute of 64 KiB with its name). */
#define G4_FUSE_DATA_BYTES (G4_FUSE_MAX_WRITE + G4_PAGE_BYTES)

/* G4_FUSE_DATA_BYTES of zeroed memory, page-aligned, taken from the system when it is touched; NULL: there is none. Thread-safe. */
uint8_t *g4_fuse_payload_take(void);
/* Gives it back. NULL is fine. */
void g4_fuse_payload_give(uint8_t *data);

#endif
