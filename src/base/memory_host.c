/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous mappings, aligned for huge pages by cutting off both ends of one that is too large. */
#include "base/memory_host.h"

#include <sys/mman.h>

#define HUGE_BYTES (2 * G4_MIB)
#define PAGE_BYTES UINT64_C(4096)

static uint64_t whole_pages(uint64_t bytes)
{
	return g4_align_up(bytes, bytes >= HUGE_BYTES ? HUGE_BYTES : PAGE_BYTES);
}

static uint8_t *map(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : (uint8_t *)memory;
}

void *g4_memory_map(uint64_t bytes)
{
	uint64_t size = whole_pages(bytes);

	if (size < HUGE_BYTES)
		return map(size);
	uint8_t *memory = map(size + HUGE_BYTES);
	if (!memory)
		return NULL;
	uint8_t *aligned = (uint8_t *)g4_align_up((uintptr_t)memory, HUGE_BYTES);
	uint64_t before = (uint64_t)(aligned - memory);
	if (before > 0)
		munmap(memory, before);
	munmap(aligned + size, HUGE_BYTES - before);
	madvise(aligned, size, MADV_HUGEPAGE); /* a kernel without huge pages refuses, and nothing is wrong */
	return aligned;
}

void g4_memory_small_pages(void *memory, uint64_t bytes)
{
	uintptr_t from = g4_align_up((uintptr_t)memory, HUGE_BYTES),
		  to = g4_align_down((uintptr_t)memory + bytes, HUGE_BYTES);

	if (from < to)
		madvise((void *)from, to - from, MADV_NOHUGEPAGE);
}

void g4_memory_unmap(void *memory, uint64_t bytes)
{
	if (memory)
		munmap(memory, whole_pages(bytes));
}
