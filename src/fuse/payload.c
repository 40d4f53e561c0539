/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's memory for payloads. Its first page is small, and what lies behind that is one huge page:
 *
 *   | 2 MiB of small pages, of which the last one is used | 2 MiB, huge |
 *                                                  data ->|
 *
 * A payload of a megabyte is two ranges for a device. What has 4 KiB or less, and that is what nearly all requests but large reads and writes have,
 * does not make the kernel clear 2 MiB: a worker that never serves those never has them.
 */
#include "fuse/payload.h"

#include "base/memory_host.h"

#define HUGE_BYTES (2 * G4_MIB)
G4_STATIC_ASSERT(G4_FUSE_DATA_BYTES <= G4_PAGE_BYTES + HUGE_BYTES, "a payload is one small page and a huge one");

uint8_t *g4_fuse_payload_take(void)
{
	uint8_t *memory = g4_memory_map(2 * HUGE_BYTES);

	if (!memory)
		return NULL;
	g4_memory_small_pages(memory, HUGE_BYTES);
	return memory + HUGE_BYTES - G4_PAGE_BYTES;
}

void g4_fuse_payload_give(uint8_t *data)
{
	if (data)
		g4_memory_unmap(data + G4_PAGE_BYTES - HUGE_BYTES, 2 * HUGE_BYTES);
}
