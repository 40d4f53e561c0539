/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private mappings that are copies (mmap() in io.c). For the kernel they are anonymous memory, which gives zeros where a mapping of a
 * file gives what the file holds: when the program gives pages back (MADV_DONTNEED), and behind the end when it lets a mapping grow. So
 * it is known here which memory they are. Given back they keep what they hold; growing there is no memory for.
 *
 * The list is guarded by the table's lock (files.c), a leaf. It is held while the kernel takes a copy away, for another thread may get the
 * place at once. A program that unmaps one by a system call of its own leaves an entry: what it has there later keeps its contents, too,
 * when given back.
 */
#include "preload/copies.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include "preload/preload.h"

#define COPIES 1024u
#define SYSTEM_PAGE 4096u

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static struct {
	uintptr_t begin, end;
} copies[COPIES];
static uint32_t copy_count;

static bool any_copies(void)
{
	return __atomic_load_n(&copy_count, __ATOMIC_RELAXED) > 0 && !g4p_is_calm();
}

static void set_count(uint32_t count)
{
	__atomic_store_n(&copy_count, count, __ATOMIC_RELAXED);
}

static uintptr_t end_of(uintptr_t begin, size_t bytes)
{
	return begin + (bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
}

/* The range is no copy any more. Where a piece of one is left on both sides and there is no place for another entry, the second is given up. Locked. */
static void forget(uintptr_t begin, uintptr_t end)
{
	uint32_t count = copy_count;

	for (uint32_t i = count; i-- > 0;) {
		const uintptr_t from = copies[i].begin, to = copies[i].end;
		if (to <= begin || from >= end)
			continue;
		if (from < begin && to > end && count < COPIES) {
			copies[count].begin = end;
			copies[count++].end = to;
		}
		if (from < begin)
			copies[i].end = begin;
		else if (to > end)
			copies[i].begin = end;
		else
			copies[i] = copies[--count];
	}
	set_count(count);
}

/* Where there is no place left, it is not known. Locked. */
static void note(void *memory, size_t bytes)
{
	if (copy_count == COPIES)
		return;
	copies[copy_count].begin = (uintptr_t)memory;
	copies[copy_count].end = end_of((uintptr_t)memory, bytes);
	set_count(copy_count + 1);
}

bool g4p_copy_made(void *memory, size_t bytes)
{
	g4p_files_lock(true);
	const bool room = copy_count < COPIES;
	note(memory, bytes);
	g4p_files_lock(false);
	return room;
}

/* Whether a call that takes the range away is about a copy. Then the table is locked, so that no other thread has what comes there before it is forgotten. */
static bool begin_change(struct g4p_calm *calm, uintptr_t begin, uintptr_t end)
{
	bool found = false;

	if (!any_copies() || begin % SYSTEM_PAGE != 0 || !g4p_calm(calm))
		return false;
	g4p_files_lock(true);
	for (uint32_t i = 0; i < copy_count && !found; i++)
		found = copies[i].begin < end && begin < copies[i].end;
	if (!found) {
		g4p_files_lock(false);
		g4p_restless(calm);
	}
	return found;
}

static void end_change(struct g4p_calm *calm, bool failed)
{
	if (failed)
		calm->error = errno;
	g4p_files_lock(false);
	g4p_restless(calm);
}

/* The first piece of the range that is one copy, or between copies. Its end; *copied: which it is. */
static uintptr_t piece(uintptr_t begin, uintptr_t end, bool *copied)
{
	struct g4p_calm calm;

	*copied = false;
	if (!any_copies() || !g4p_calm(&calm))
		return end;
	g4p_files_lock(true);
	for (uint32_t i = 0; i < copy_count; i++) {
		if (copies[i].begin <= begin && begin < copies[i].end) {
			*copied = true;
			end = copies[i].end < end ? copies[i].end : end;
			break;
		}
		if (copies[i].begin > begin && copies[i].begin < end)
			end = copies[i].begin;
	}
	g4p_files_lock(false);
	g4p_restless(&calm);
	return end;
}

/* A call that fails has left what was there. */
int munmap(void *memory, size_t bytes)
{
	const uintptr_t begin = (uintptr_t)memory, end = end_of(begin, bytes);
	int (*const next)(void *, size_t) = G4P_NEXT(munmap); /* looked for without the lock */
	struct g4p_calm calm;

	if (!begin_change(&calm, begin, end))
		return next(memory, bytes);
	const int rc = next(memory, bytes);
	if (rc == 0)
		forget(begin, end);
	end_change(&calm, rc != 0);
	return rc;
}

void *g4p_map_over(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	const uintptr_t begin = (uintptr_t)where, end = end_of(begin, bytes);
	void *(*const next)(void *, size_t, int, int, int, off_t) = G4P_NEXT(mmap);
	struct g4p_calm calm;

	if (!begin_change(&calm, begin, end))
		return next(where, bytes, protection, flags, fd, offset);
	void *const memory = next(where, bytes, protection, flags, fd, offset);
	if (memory != MAP_FAILED)
		forget(begin, end);
	end_change(&calm, memory == MAP_FAILED);
	return memory;
}

/* What the kernel refuses for a file's memory, or older ones do. */
static bool refused_for_files(int advice)
{
	return advice == MADV_FREE || advice == MADV_GUARD_INSTALL;
}

/* What gives pages back. As the kernel, it goes on behind what is not mapped. */
int madvise(void *memory, size_t bytes, int advice)
{
	uintptr_t at = (uintptr_t)memory;
	const uintptr_t end = end_of(at, bytes);
	int rc = 0;

	const bool refused = refused_for_files(advice);
	if ((!refused && advice != MADV_DONTNEED && advice != MADV_DONTNEED_LOCKED) || !any_copies() ||
	    at % SYSTEM_PAGE != 0 || end <= at)
		return G4P_NEXT(madvise)(memory, bytes, advice);
	while (at < end) {
		bool copied;
		const uintptr_t to = piece(at, end, &copied);
		if (copied && refused) {
			errno = EINVAL;
			return -1;
		}
		if (!copied && G4P_NEXT(madvise)((void *)at, to - at, advice) != 0) {
			rc = -1;
			if (errno != ENOMEM)
				break;
		}
		at = to;
	}
	if (rc != 0 && at >= end)
		errno = ENOMEM;
	return rc;
}

/* The kernel moves pages of anonymous memory and leaves zeros (MREMAP_DONTUNMAP), where a file's mapping would have the file. Locked. */
static int refuse(bool copied, size_t bytes, size_t wanted, int flags)
{
	if (copied && end_of(0, wanted) > end_of(0, bytes))
		return ENOMEM;
	return copied && flags & MREMAP_DONTUNMAP ? EINVAL : 0;
}

static bool is_copy(uintptr_t at)
{
	for (uint32_t i = 0; i < copy_count; i++)
		if (copies[i].begin <= at && at < copies[i].end)
			return true;
	return false;
}

void *mremap(void *memory, size_t bytes, size_t wanted, int flags, ...)
{
	void *(*const next)(void *, size_t, size_t, int, ...) = G4P_NEXT(mremap);
	const uintptr_t begin = (uintptr_t)memory, end = end_of(begin, bytes);
	struct g4p_calm calm;
	va_list list;

	va_start(list, flags);
	void *const place = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(list, void *) : NULL;
	va_end(list);
	if (!begin_change(&calm, begin, bytes ? end : begin + 1) &&
	    (!(flags & MREMAP_FIXED) || !begin_change(&calm, (uintptr_t)place, end_of((uintptr_t)place, wanted))))
		return next(memory, bytes, wanted, flags, place);
	const bool copied = is_copy(begin);
	const int refused = refuse(copied, bytes, wanted, flags);
	void *const moved = refused ? MAP_FAILED : next(memory, bytes, wanted, flags, place);
	if (moved != MAP_FAILED) {
		forget(begin, end);
		forget((uintptr_t)moved, end_of((uintptr_t)moved, wanted));
		if (copied)
			note(moved, wanted); /* one more than before where it was the middle of a copy */
	}
	errno = refused ? refused : errno;
	end_change(&calm, moved == MAP_FAILED);
	return moved;
}
