/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (Castagnoli): the checksum of metadata blocks and journal records. Polynomial 0x1EDC6F41, reflected, initial
 * value and final exclusive-or 0xFFFFFFFF (RFC 3720, section 12.1 and appendix B.4).
 */
#ifndef G4_CRC32C_H
#define G4_CRC32C_H

#include "simt/simt.h"

/*
 * The CRC-32C of what `crc` is the CRC-32C of, followed by `bytes` bytes at `data`; `crc` is 0 to begin with. So
 * g4_crc32c(g4_crc32c(0, a, n), b, m) is the checksum of a and b in sequence. Per-lane. `data` needs no alignment and
 * may be NULL where `bytes` is 0. Chooses the fastest variant the processor has.
 */
G4_FN uint32_t g4_crc32c(uint32_t crc, const void *data, uint64_t bytes);

/* The variants. All give the same result; the portable one is the reference and the one that GPUs run. */
G4_FN uint32_t g4_crc32c_portable(uint32_t crc, const void *data, uint64_t bytes);

#if !G4_CUDA && defined(__x86_64__)
#define G4_CRC32C_HAVE_SSE42 1
/* True where the processor has SSE4.2 and PCLMULQDQ, which g4_crc32c_sse42() needs. */
bool g4_crc32c_sse42_usable(void);
uint32_t g4_crc32c_sse42(uint32_t crc, const void *data, uint64_t bytes);
#else
#define G4_CRC32C_HAVE_SSE42 0
#endif

/*
 * ---- by all lanes ----
 * The checksum of two pieces in sequence from the checksums of both; the second is 4 KiB long. Per-lane.
 */
G4_FN uint32_t g4_crc32c_append_page(uint32_t first, uint32_t page);
/* The same where the second piece is `pages` times 4 KiB long. */
G4_FN uint32_t g4_crc32c_append_pages(uint32_t first, uint32_t second, uint32_t pages);

/*
 * The checksum of a 4 KiB page in which the little-endian word at byte G4_CRC32C_FIELD, zero before, becomes `value`; `crc` is
 * that of the page with the zero. Per-lane: so a page that holds its own checksum is gone through once and not twice.
 */
#define G4_CRC32C_FIELD 8u
G4_FN uint32_t g4_crc32c_set_field(uint32_t crc, uint32_t value);

/* Leader. The CRC-32C of a 4 KiB page in shared memory, 16 B aligned; each lane takes a part. */
G4_FN uint32_t g4_crc32c_wide(struct g4_wg *wg, const void *page);
/* Whether it is worth a region: one lane has a processor's instruction; more than 32 would have less than a unit each. */
G4_FN bool g4_crc32c_is_wide(const struct g4_wg *wg);
struct g4_crc32c_job { /* what they share for it */
	const uint8_t *data;
	uint32_t part[64]; /* by lane */
};
/* The region that it opens. Collective. */
G4_FN void g4_crc32c_region(struct g4_wg *wg, void *args);

/*
 * The checksums of `n` buffers of `pages` times 4 KiB each, 16 B aligned, each followed by 20 bytes of zeros and `last`. Collective,
 * inside a region: every lane passes the same arguments, and what they point to is memory that the lanes share. The checksums
 * are there for every lane when it returns.
 */
G4_FN void g4_crc32c_group(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, uint64_t last,
			   uint64_t (*out)[4]);

#endif
