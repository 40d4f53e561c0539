/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the stages of the write pipeline: a file that is held, a batch, and data for it. */
#ifndef STAGES_H
#define STAGES_H

#include "files/files.h"

extern struct held held;
extern struct g4_inode_core *inode; /* of it */
extern struct g4_batch *batch;	    /* an empty one, in memory that all workgroups reach */
extern uint8_t *data, *found;	    /* 2 MiB each, with contents and with zeros */
extern uint64_t free_before, reserved_before;
int stages_begin(void **state);
int stages_end(void **state);
#define stage_test(f) cmocka_unit_test_setup_teardown(f, stages_begin, stages_end)

/* One page each, from the beginning of `data` on. */
void stages_write(const uint64_t *pages, uint32_t count);
/* As a large aligned write does it: what that takes is reserved, and the batch is of `data`. */
void stages_gather_memory(uint64_t page, uint32_t count);
/* `bytes` from the file's beginning on are those of `data`. */
void stages_expect(uint64_t bytes);

#endif
