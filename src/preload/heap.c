/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own memory: the linker puts these functions in the place of malloc(3) and its relatives wherever this library calls them
 * (--wrap). Programs may call open, close and the like in signal handlers, also in one that has come in the middle of their malloc(): its
 * lock is held then, or its lists are half changed. This heap is entered by calm threads only, whose handlers wait.
 *
 * Pieces are powers of two with a head of 16 bytes; what is freed waits for the next of its size. Nothing goes back to the kernel, apart
 * from what is larger than the largest size. What the C library itself has allocated may be freed by these functions, too.
 */
#include "preload/heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/calm.h"

#define MARK                                                                                                           \
	UINT64_C(0x7a3f19c5e2d08b64) /* with the address: no head of the C library's, whose second half is a size */
#define SMALLEST 6u		     /* of two to the power of it */
#define LARGEST 20u
#define MAPPED_BYTES ((size_t)256 << 10)

struct head {
	uint64_t mark;
	uint64_t room; /* what lies behind it; | 1: the distance from the piece's own head, which is before it */
};

struct piece {
	struct head head;
	struct piece *next; /* where it is free */
};

static struct piece *unused[LARGEST + 1];
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

void g4p_heap_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&heap_lock);
	else
		pthread_mutex_unlock(&heap_lock);
}

static void *map(size_t bytes)
{
	const long at = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

	return at == -1 ? NULL : (void *)at;
}

static void cut(unsigned int power)
{
	const size_t bytes = (size_t)1 << power, all = bytes > MAPPED_BYTES ? bytes : MAPPED_BYTES;
	char *memory = map(all);

	for (size_t at = 0; memory && at < all; at += bytes) {
		struct piece *piece = (struct piece *)(void *)(memory + at);
		piece->next = unused[power];
		unused[power] = piece;
	}
}

static struct piece *find(size_t bytes)
{
	unsigned int power = SMALLEST;
	struct piece *piece;

	while (power <= LARGEST && (size_t)1 << power < bytes)
		power++;
	if (power > LARGEST) {
		bytes = (bytes + 4095) & ~(size_t)4095;
		piece = map(bytes);
	} else {
		bytes = (size_t)1 << power;
		pthread_mutex_lock(&heap_lock);
		if (!unused[power])
			cut(power);
		piece = unused[power];
		if (piece)
			unused[power] = piece->next;
		pthread_mutex_unlock(&heap_lock);
	}
	if (piece)
		piece->head = (struct head){.mark = MARK ^ (uintptr_t)(&piece->head + 1),
					    .room = bytes - sizeof(struct head)};
	return piece;
}

static void let_go(struct piece *piece)
{
	const size_t bytes = piece->head.room + sizeof(struct head);

	piece->head.mark = 0;
	if (bytes > (size_t)1 << LARGEST) {
		syscall(SYS_munmap, piece, bytes);
		return;
	}
	const unsigned int power = (unsigned int)__builtin_ctzl(bytes);
	pthread_mutex_lock(&heap_lock);
	piece->next = unused[power];
	unused[power] = piece;
	pthread_mutex_unlock(&heap_lock);
}

/* NULL: the C library's own. */
static struct head *head_of(void *memory)
{
	struct head *head = (struct head *)memory - 1;

	return head->mark == (MARK ^ (uintptr_t)memory) ? head : NULL;
}

static struct piece *piece_of(struct head *head)
{
	if (head->room & 1) {
		const size_t distance = head->room & ~(uint64_t)1;
		head->mark = 0;
		head = (struct head *)(void *)((char *)head - distance);
	}
	return (struct piece *)head;
}

static void *allocate(size_t alignment, size_t bytes)
{
	const size_t extra = sizeof(struct head) + (alignment > sizeof(struct head) ? alignment : 0);
	struct g4p_calm calm;
	struct head *head = NULL;

	if (bytes <= PTRDIFF_MAX - extra - 4096) {
		const bool calmed = g4p_calm(&calm);
		struct piece *piece = find(bytes + extra);
		head = piece ? &piece->head : NULL;
		if (calmed)
			g4p_restless(&calm);
	}
	if (!head) {
		errno = ENOMEM;
		return NULL;
	}
	char *const memory = (char *)(head + 1);
	const size_t distance = alignment > sizeof(struct head) ? -(uintptr_t)memory & (alignment - 1) : 0;
	if (distance > 0)
		*(struct head *)(void *)(memory + distance - sizeof(struct head)) =
			(struct head){.mark = MARK ^ (uintptr_t)(memory + distance), .room = distance | 1};
	return memory + distance;
}

void *__wrap_malloc(size_t bytes)
{
	return allocate(0, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return allocate(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	const int error = errno;
	void *const got = allocate(alignment, bytes);

	errno = error;
	if (!got)
		return ENOMEM;
	*memory = got;
	return 0;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	size_t all;
	void *memory = NULL;

	if (__builtin_mul_overflow(count, bytes, &all))
		errno = ENOMEM;
	else
		memory = allocate(0, all);
	/* what is larger than the largest size is the kernel's zeros, of which nobody should make pages before they are wanted */
	return memory && all + sizeof(struct head) <= (size_t)1 << LARGEST ? memset(memory, 0, all) : memory;
}

void __wrap_free(void *memory)
{
	struct g4p_calm calm;
	struct head *head = memory ? head_of(memory) : NULL;

	if (!head) {
		__real_free(memory);
		return;
	}
	const bool calmed = g4p_calm(&calm);
	const int error = errno;
	let_go(piece_of(head));
	errno = error;
	if (calmed)
		g4p_restless(&calm);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
	struct head *head = memory ? head_of(memory) : NULL;

	if (memory && !head)
		return __real_realloc(memory, bytes);
	if (head && !(head->room & 1) && bytes <= head->room)
		return memory;
	void *larger = allocate(0, bytes);
	if (larger && head) {
		struct head *own = head;
		size_t room = head->room;
		if (room & 1) {
			own = (struct head *)(void *)((char *)head - (room & ~(size_t)1));
			room = own->room - (room & ~(size_t)1);
		}
		memcpy(larger, memory, room < bytes ? room : bytes);
		__wrap_free(memory);
	}
	return larger;
}

char *__wrap_strndup(const char *text, size_t most)
{
	const size_t bytes = strnlen(text, most);
	char *copy = allocate(0, bytes + 1);

	if (copy) {
		memcpy(copy, text, bytes);
		copy[bytes] = 0;
	}
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, strlen(text));
}
