/* SPDX-License-Identifier: Apache-2.0 */
/* Files without a name, for what is too much for memory: nothing is left of them after a crash. */
#ifndef SHREDDER_STORE_SCRATCH_H
#define SHREDDER_STORE_SCRATCH_H

#include "base/base.h"

/* In TMPDIR, else /var/tmp, which is on a disk where /tmp is memory. -1: there can be none. */
int store_scratch_file(void);
/* All of it at that place; false after an error, in errno. */
bool store_scratch_write(int fd, const void *data, uint64_t bytes, uint64_t offset);
/* Exactly so much; else IO and a sentence that calls the file `what`. */
int store_scratch_read(int fd, void *to, uint64_t bytes, uint64_t offset, const char *what);

#endif
