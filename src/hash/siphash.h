/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-1-3: the keyed hash of directory names. A secret key per file system keeps someone who chooses names from
 * choosing collisions (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; with one compression and
 * three finalisation rounds, as Rust's and Ruby's hash tables use it).
 */
#ifndef G4_SIPHASH_H
#define G4_SIPHASH_H

#include "base/base.h"

/*
 * The hash of `bytes` bytes at `data` under the 128-bit key: key[0] holds its bytes 0 to 7, little-endian, key[1] its
 * bytes 8 to 15. Per-lane. `data` needs no alignment and may be NULL where `bytes` is 0.
 */
G4_FN uint64_t g4_siphash13(const uint64_t key[2], const void *data, uint64_t bytes);

#endif
