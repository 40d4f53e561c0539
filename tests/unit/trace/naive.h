/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement policies in the fewest words, on short arrays: what src/trace is tested against. */
#ifndef TEST_TRACE_NAIVE_H
#define TEST_TRACE_NAIVE_H

#include "trace/replay.h"

/* Hits of one fully associative cache of `ways` pages, at most 64, on accesses to pages below 256. */
uint64_t naive_hits(enum g4_policy policy, const uint32_t *pages, uint32_t count, uint32_t ways);

/* S3-FIFO where a page stays that was used `often` more, and at most `most` uses count. */
uint64_t naive_s3fifo(const uint32_t *pages, uint32_t count, uint32_t ways, uint32_t often, uint32_t most);
/* The same of DRRIP, of up to 64 sets, at least two. */
uint64_t naive_drrip(const uint32_t *pages, const uint32_t *set_of, uint32_t count, uint32_t ways);

#endif
