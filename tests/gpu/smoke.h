/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two halves of the GPU smoke test: smoke_host.c has the CPU engine, smoke.cu the same engine for the GPU. */
#ifndef SMOKE_H
#define SMOKE_H

#include "base/base.h"

#define SMOKE_KEPT_BYTES (3 * G4_MIB + 1234) /* the file that the script leaves in the root directory: "kept" */

/* The byte at `at` of the file number `seed`. */
G4_HD G4_INLINE uint8_t smoke_byte(uint64_t seed, uint64_t at)
{
	uint64_t x = (seed * 131 + at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint8_t)((x ^ x >> 29) >> (at % 8 * 8));
}

/* File `file` of warp `warp` lies in directory "wWARP": its seed, size, and what becomes of it. */
G4_HD G4_INLINE uint64_t smoke_seed(uint32_t warp, uint32_t file)
{
	return (uint64_t)warp << 20 | file;
}
G4_HD G4_INLINE uint32_t smoke_bytes(uint32_t warp, uint32_t file)
{
	return (warp * 7 + file * 131) % 6000;
}
G4_HD G4_INLINE bool smoke_is_removed(uint32_t file)
{
	return file % 8 == 7;
}
G4_HD G4_INLINE bool smoke_is_renamed(uint32_t file)
{
	return file % 4 == 1;
}
/* Its name in the end: "fFILE" or "gFILE". `to` has room for 16 bytes; returns the length. */
G4_HD G4_INLINE uint16_t smoke_name(char *to, char prefix, uint32_t number)
{
	char digits[10];
	uint16_t count = 0, bytes = 0;

	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	to[bytes++] = prefix;
	while (count > 0)
		to[bytes++] = digits[--count];
	return bytes;
}

struct smoke_report { /* the first thing that was not as expected */
	uint32_t failed;
	uint32_t line; /* of smoke.cu */
	uint32_t warp;
	uint32_t reserved;
	int64_t got, wanted;
	uint64_t commits, checkpoints;
	float script_ms, many_ms, sync_ms;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory, 4 KiB aligned; NULL and a line on standard error when there is none. It is freed with the process. */
void *smoke_gpu_alloc(uint64_t bytes);
bool smoke_gpu_put(void *device, const void *host, uint64_t bytes);
bool smoke_gpu_get(void *host, const void *device, uint64_t bytes);
/* Runs everything on the mounted file system at `fs`, in device memory. False when CUDA failed, as it says. */
bool smoke_gpu_run(void *fs, uint32_t warps, uint32_t files, bool checkpoint, struct smoke_report *report);

#ifdef __cplusplus
}
#endif

#endif
