/* SPDX-License-Identifier: Apache-2.0 */
/* Another size of the file system. Leader. */
#ifndef G4_RESIZE_H
#define G4_RESIZE_H

#include "inode/mounted.h"

/*
 * Gives the file system another size, a multiple of 4 KiB that the device has. alone: nobody else uses it; without that it
 * only grows. -G4_E_NOSPC: *limit is the largest size that its tables have room for, or the smallest that what is in use
 * allows. After another error the image has one of the two sizes, and the next mount says which.
 */
G4_FN int g4_resize(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes, bool alone, uint64_t *limit);

#endif
