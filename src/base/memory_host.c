/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous mappings, aligned for huge pages by cutting off both ends of one that is too large. A table knows the pieces; one that
 * finds no place in it is memory like any other.
 */
#include "base/memory_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread_host.h"

#define HUGE_BYTES (2 * G4_MIB)
#define PAGE_BYTES UINT64_C(4096)

#define PIECES 1024u

struct piece {
	uint8_t *memory; /* NULL: no piece */
	uint64_t bytes;
};

static pthread_rwlock_t pieces_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct piece pieces[PIECES];
static uint32_t piece_end; /* behind it are none */
static struct g4_memory_watcher *watchers;

static void enter(uint8_t *memory, uint64_t bytes)
{
	uint32_t at = 0;

	pthread_rwlock_wrlock(&pieces_lock);
	while (at < PIECES && pieces[at].memory)
		at++;
	if (at < PIECES)
		pieces[at] = (struct piece){.memory = memory, .bytes = bytes};
	if (at == piece_end && at < PIECES)
		piece_end++;
	pthread_rwlock_unlock(&pieces_lock);
}

static void leave(const uint8_t *memory)
{
	uint32_t at = 0;

	pthread_rwlock_wrlock(&pieces_lock);
	while (at < piece_end && pieces[at].memory != memory)
		at++;
	if (at < piece_end) {
		for (const struct g4_memory_watcher *w = watchers; w; w = w->next)
			w->goes(w->context, pieces[at].memory, pieces[at].bytes);
		pieces[at].memory = NULL;
		while (piece_end > 0 && !pieces[piece_end - 1].memory)
			piece_end--;
	}
	pthread_rwlock_unlock(&pieces_lock);
}

bool g4_memory_find(const void *at, void **memory, uint64_t *bytes)
{
	const uint8_t *byte = (const uint8_t *)at;
	bool found = false;

	pthread_rwlock_rdlock(&pieces_lock);
	for (uint32_t i = 0; i < piece_end && !found; i++) {
		const struct piece *piece = &pieces[i];
		found = piece->memory && byte >= piece->memory && byte < piece->memory + piece->bytes;
		if (found) {
			*memory = piece->memory;
			*bytes = piece->bytes;
		}
	}
	pthread_rwlock_unlock(&pieces_lock);
	return found;
}

void g4_memory_watch(struct g4_memory_watcher *watcher)
{
	pthread_rwlock_wrlock(&pieces_lock);
	watcher->next = watchers;
	watchers = watcher;
	pthread_rwlock_unlock(&pieces_lock);
}

void g4_memory_unwatch(struct g4_memory_watcher *watcher)
{
	struct g4_memory_watcher **link = &watchers;

	pthread_rwlock_wrlock(&pieces_lock);
	while (*link && *link != watcher)
		link = &(*link)->next;
	if (*link)
		*link = watcher->next;
	pthread_rwlock_unlock(&pieces_lock);
}

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

	uint8_t *memory = map(size < HUGE_BYTES ? size : size + HUGE_BYTES);
	if (!memory)
		return NULL;
	if (size < HUGE_BYTES) {
		enter(memory, size);
		return memory;
	}
	uint8_t *aligned = (uint8_t *)g4_align_up((uintptr_t)memory, HUGE_BYTES);
	uint64_t before = (uint64_t)(aligned - memory);
	if (before > 0)
		munmap(memory, before);
	munmap(aligned + size, HUGE_BYTES - before);
	madvise(aligned, size, MADV_HUGEPAGE); /* a kernel without huge pages refuses, and nothing is wrong */
	enter(aligned, size);
	return aligned;
}

void g4_memory_small_pages(void *memory, uint64_t bytes)
{
	uintptr_t from = g4_align_up((uintptr_t)memory, HUGE_BYTES),
		  to = g4_align_down((uintptr_t)memory + bytes, HUGE_BYTES);

	if (from < to)
		madvise((void *)from, to - from, MADV_NOHUGEPAGE);
}

void g4_memory_touch(void *memory, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE /* Linux 5.14 */
	madvise(memory, bytes, MADV_POPULATE_WRITE);
#else
	(void)memory;
	(void)bytes;
#endif
}

#define POPULATORS 8u
#define POPULATOR_BYTES (64 * G4_MIB) /* for less a thread is not worth its start */

struct stretch {
	uint8_t *from;
	uint64_t bytes;
};

static void *populate(void *context)
{
	const struct stretch *stretch = (const struct stretch *)context;

#ifdef MADV_POPULATE_READ /* Linux 5.14; of a shared mapping pages can be written to then, and several come with one fault */
	madvise(stretch->from, stretch->bytes, MADV_POPULATE_READ);
#endif
	return (void *)stretch;
}

void g4_memory_populate(void *memory, uint64_t bytes)
{
	const uint64_t processors = (uint64_t)g4_max64((uint64_t)sysconf(_SC_NPROCESSORS_ONLN), 1);
	const uint64_t most = g4_min64(processors, g4_min64(POPULATORS, bytes / POPULATOR_BYTES));
	const uint64_t share = g4_align_up(bytes / g4_max64(most, 1), HUGE_BYTES);
	struct stretch stretches[POPULATORS];
	pthread_t threads[POPULATORS];
	uint32_t started = 0;
	uint64_t at = 0;

	/* the last stretch, and those that have no thread, are the caller's */
	while (started + 1 < most && bytes - at > share) {
		stretches[started] = (struct stretch){(uint8_t *)memory + at, share};
		if (g4_thread_start(&threads[started], populate, &stretches[started]) != 0)
			break;
		at += share;
		started++;
	}
	struct stretch rest = {(uint8_t *)memory + at, bytes - at};
	populate(&rest);
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

bool g4_memory_has_huge_pages(void)
{
	return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0;
}

void g4_memory_unmap(void *memory, uint64_t bytes)
{
	if (!memory)
		return;
	leave((const uint8_t *)memory);
	munmap(memory, whole_pages(bytes));
}

int g4_memory_share(const char *name, uint64_t bytes, bool keeps, int *fd, void **memory)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (keeps ? F_SEAL_FUTURE_WRITE : 0);
	void *map = MAP_FAILED;

	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -G4_E_NOMEM;
	if (ftruncate(*fd, (off_t)bytes) == 0)
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED || fcntl(*fd, F_ADD_SEALS, seals) != 0) {
		if (map != MAP_FAILED)
			munmap(map, bytes);
		close(*fd);
		*fd = -1;
		return -G4_E_NOMEM;
	}
	*memory = map;
	return 0;
}
