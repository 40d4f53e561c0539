/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is used again, in programs that mount thousands of times: a page that the kernel gives costs ten times what it
 * takes to zero one, and was half of such a program's time. For programs linked with g4_recycle_memory() (G4Tests.cmake).
 *
 * Some pieces that are given back are kept, and handed out again as g4_memory_map() promises: zeroed. Only pages that were touched are
 * there, mincore(2) says which, and those are cleared. A piece's first page, through which all else is found, can not be touched while
 * it is kept. What free(3) gives back is kept as well, as far as glibc does that.
 *
 * A device that is a file and is mapped, "dax:", is mapped anew by each mount and each check, and every page of it faults anew, under a
 * sanitizer its shadow as well. Where the test has the same file mapped all the while, mappings that are given up are kept for the next
 * one that wants the same: a shared mapping has what the file has. They go with the last one in use. Their first page, where the superblock
 * is, can not be touched while they are kept; under a sanitizer none of every eighth one can: to close and to open each page that is there
 * was a seventh of a program's time, a fifth under AddressSanitizer, and what touches a mapping that was given up does so in thousands of
 * mounts. ThreadSanitizer takes the lock here for what orders the old holder's accesses and the next one's.
 *
 * A program in which allocations fail (recycled.h) is asked before each of these, whether the memory is new or kept.
 */
#include "recycled.h"
#include "base/memory_host.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECES 4u
#define MALLOC_KEEPS (32 * 1024 * 1024) /* bytes of an allocation; glibc takes no more */
#define MOST_PAGES 16384u		/* of a piece that is kept */
#define MOST_THERE 512u			/* more of its pages take longer to clear than new ones to get */
#define PAGE_BYTES UINT64_C(4096)
#define ONES UINT64_C(0x0101010101010101)
#define MAPPINGS 128u

void *__real_g4_memory_map(uint64_t bytes);
void __real_g4_memory_unmap(void *memory, uint64_t bytes);
void *__wrap_g4_memory_map(uint64_t bytes);
void __wrap_g4_memory_unmap(void *memory, uint64_t bytes);

static struct piece {
	uint8_t *memory; /* NULL: none */
	uint64_t bytes;
} kept[PIECES];
static uint32_t turn;		       /* whose place is taken where none is free */
static uint64_t there[MOST_PAGES / 8]; /* a byte a page, whose lowest bit counts */
static struct mapping {		       /* of a whole file, shared */
	void *memory;		       /* NULL: none */
	size_t bytes;
	dev_t dev;
	ino_t ino;
	int protection;
	bool used; /* else it is kept, and of its pages so many bytes can not be touched: */
	size_t guarded;
} mappings[MAPPINGS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes);

__attribute__((weak)) bool recycled_may_map(void)
{
	return true;
}

/* False: it was not worth it, and the piece is as it was. */
static bool clear(uint8_t *memory, uint64_t bytes)
{
	const uint64_t pages = bytes / PAGE_BYTES, words = (pages + 7) / 8;
	uint64_t count = 0;

	if (bytes % PAGE_BYTES != 0 || pages > sizeof(there))
		return false;
	there[words - 1] = 0;
	if (mincore(memory, bytes, (unsigned char *)there) != 0)
		return false;
	for (uint64_t word = 0; word < words; word++)
		count += (uint64_t)__builtin_popcountll(there[word] & ONES);
	if (count > MOST_THERE)
		return false;
	for (uint64_t word = 0; word < words; word++)
		for (uint64_t left = there[word] & ONES; left != 0; left &= left - 1)
			memset(memory + (8 * word + (uint64_t)__builtin_ctzll(left) / 8) * PAGE_BYTES, 0, PAGE_BYTES);
	return true;
}

void *__wrap_g4_memory_map(uint64_t bytes)
{
	uint8_t *memory = NULL;

	pthread_mutex_lock(&lock);
	for (uint32_t k = 0; k < PIECES && !memory; k++)
		if (kept[k].memory && kept[k].bytes == bytes) {
			memory = kept[k].memory;
			kept[k].memory = NULL;
		}
	pthread_mutex_unlock(&lock);
	if (!memory)
		return __real_g4_memory_map(bytes); /* asks in __wrap_mmap64() */
	if (!recycled_may_map()) {
		__real_g4_memory_unmap(memory, bytes);
		return NULL;
	}
	if (mprotect(memory, PAGE_BYTES, PROT_READ | PROT_WRITE) != 0)
		abort();
	return memory;
}

void __wrap_g4_memory_unmap(void *memory, uint64_t bytes)
{
	struct piece gone = {memory, bytes};
	uint32_t at = 0;

	pthread_mutex_lock(&lock);
	if (memory && clear(memory, bytes) && mprotect(memory, PAGE_BYTES, PROT_NONE) == 0) {
		while (at < PIECES && kept[at].memory)
			at++;
		if (at == PIECES)
			at = turn++ % PIECES;
		gone = kept[at];
		kept[at] = (struct piece){memory, bytes};
	}
	pthread_mutex_unlock(&lock);
	__real_g4_memory_unmap(gone.memory, gone.bytes);
}

/* How much of the next mapping that is kept can not be touched. */
static size_t guard_next(size_t bytes)
{
#if defined(G4_ASAN) || defined(G4_TSAN)
	static uint32_t turns;

	if (turns++ % RECYCLED_WHOLE_EVERY == 0)
		return bytes;
#endif
	return bytes < PAGE_BYTES ? bytes : PAGE_BYTES;
}

static bool guard(struct mapping *m)
{
	m->guarded = guard_next(m->bytes);
	return mprotect(m->memory, m->guarded, PROT_NONE) == 0;
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->memory && b->memory && a->dev == b->dev && a->ino == b->ino;
}

/* A kept one that is as this one is to be, which is used from here on. */
static void *take_kept(const struct mapping *wanted)
{
	for (struct mapping *m = mappings; m < mappings + MAPPINGS; m++)
		if (m->memory && !m->used && m->bytes == wanted->bytes && m->dev == wanted->dev &&
		    m->ino == wanted->ino && m->protection == wanted->protection &&
		    mprotect(m->memory, m->guarded, m->protection) == 0) {
			m->used = true;
			return m->memory;
		}
	return MAP_FAILED;
}

/* Without a free place it is a mapping like any other. */
static void enter(const struct mapping *mapping)
{
	for (struct mapping *m = mappings; m < mappings + MAPPINGS; m++)
		if (!m->memory) {
			*m = *mapping;
			return;
		}
}

/*
 * Of a description of the file of its own: one that is kept would keep the locks of the description that it is mapped by, and the
 * next one to open the device would find it in use.
 */
static void *map_apart(size_t bytes, int protection, int fd)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	const int apart = open(name, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (apart < 0)
		return __real_mmap64(NULL, bytes, protection, MAP_SHARED, fd, 0);
	void *memory = __real_mmap64(NULL, bytes, protection, MAP_SHARED, apart, 0);
	close(apart);
	return memory;
}

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	struct mapping wanted = {.bytes = bytes, .protection = protection, .used = true};
	struct stat st;

	if (!recycled_may_map())
		return MAP_FAILED;
	if (at || flags != MAP_SHARED || offset != 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return __real_mmap64(at, bytes, protection, flags, fd, offset);
	wanted.dev = st.st_dev;
	wanted.ino = st.st_ino;
	pthread_mutex_lock(&lock);
	wanted.memory = take_kept(&wanted);
	if (wanted.memory == MAP_FAILED) {
		wanted.memory = map_apart(bytes, protection, fd);
		if (wanted.memory != MAP_FAILED)
			enter(&wanted);
	}
	pthread_mutex_unlock(&lock);
	return wanted.memory;
}

int __wrap_munmap(void *memory, size_t bytes)
{
	struct mapping *gone = NULL;
	bool others = false;
	int rc = 0;

	pthread_mutex_lock(&lock);
	for (struct mapping *m = mappings; m < mappings + MAPPINGS && !gone; m++)
		if (m->memory == memory && m->used)
			gone = m;
	for (struct mapping *m = mappings; m < mappings + MAPPINGS && gone; m++)
		others = others || (m != gone && m->used && same_file(m, gone));
	if (!gone) {
		rc = __real_munmap(memory, bytes);
	} else if (others && bytes == gone->bytes && guard(gone)) {
		gone->used = false;
	} else {
		const struct mapping last = *gone;
		for (struct mapping *m = mappings; m < mappings + MAPPINGS && !others; m++)
			if (m != gone && same_file(m, &last)) {
				__real_munmap(m->memory, m->bytes);
				m->memory = NULL;
			}
		gone->memory = NULL;
		rc = __real_munmap(memory, bytes);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

__attribute__((constructor)) static void begin(void)
{
	mallopt(M_MMAP_THRESHOLD, MALLOC_KEEPS);
	mallopt(M_TRIM_THRESHOLD, 8 * MALLOC_KEEPS);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page is there as a whole, and is not worth clearing */
}
