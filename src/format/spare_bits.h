/* SPDX-License-Identifier: Apache-2.0 */
/* Single bytes of a header that stands in spare bits of an indirect page. Per-lane. */
#ifndef G4_SPARE_BITS_H
#define G4_SPARE_BITS_H

#include "format/format.h"

/* Byte n of 64, which stands in eight slots. */
G4_FN uint8_t g4_indirect_header_byte(const g4_le64 *slots, uint32_t n);
G4_FN void g4_indirect_set_header_byte(g4_le64 *slots, uint32_t n, uint8_t value);

#endif
