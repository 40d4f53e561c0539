/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a device that keeps several copies. Of image.c alone. */
#ifndef G4_FSCK_COPIES_H
#define G4_FSCK_COPIES_H

#include "fsck/image.h"

/*
 * At most G4_CHUNK_BYTES of whole pages, each of the copy that counts (image.h). *damaged: a bit each for those that are metadata and
 * of which a copy is not like that, or can not be read. -G4_E_IO: of one of them no copy can be read.
 */
int g4_image_read_copies(struct g4_image *image, struct g4_address address, uint8_t *to, uint64_t bytes,
			 uint32_t *damaged);

#endif
