/* SPDX-License-Identifier: Apache-2.0 */
/* Names of on-disk things, for messages and dumps. */
#include "format/format.h"

const char *g4_block_type_name(uint32_t type)
{
	switch (type) {
	case G4_BLOCK_NONE:
		return "none";
#define BLOCK_CASE(name, number, text)                                                                                 \
	case G4_BLOCK_##name:                                                                                          \
		return text;
		G4_BLOCK_TYPES(BLOCK_CASE)
#undef BLOCK_CASE
	default:
		return "unknown";
	}
}

const char *g4_checksum_name(uint32_t algorithm)
{
	switch (algorithm) {
#define CHECKSUM_CASE(name, number, text)                                                                              \
	case G4_CHECKSUM_##name:                                                                                       \
		return text;
		G4_CHECKSUMS(CHECKSUM_CASE)
#undef CHECKSUM_CASE
	default:
		return "unknown";
	}
}
