/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write and read them. */
#ifndef G4_UNITS_HOST_H
#define G4_UNITS_HOST_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Parses a size: digits, an optional decimal fraction, an optional unit K, M, G, T, P or E (powers of 1024, either
 * case) and an optional "B" or "iB": "4096", "512M", "1.5TiB". A fraction needs a unit; what is left of it below one
 * byte is cut off. Thread-safe. 0, or -G4_E_INVAL for anything else in the text, -G4_E_OVERFLOW from 16 EiB on; *bytes
 * is set on success only.
 */
int g4_parse_size(const char *text, uint64_t *bytes);

/* Bytes that the longest result of g4_format_size() needs, its NUL included. */
#define G4_SIZE_TEXT_BYTES 16

/*
 * Writes `bytes` with the largest unit in which it is at least 1, rounded to one decimal, which is left out when it is
 * 0: "512 B", "4 KiB", "1.5 TiB". At most n - 1 characters and a NUL. Returns buf, for printf. Thread-safe.
 */
const char *g4_format_size(uint64_t bytes, char *buf, size_t n);

/* The word behind a count: "1 file", "2 files", "0 files". */
static inline const char *g4_counted(uint64_t count, const char *one, const char *several)
{
	return count == 1 ? one : several;
}

#ifdef __cplusplus
}
#endif

#endif
