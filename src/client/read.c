/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading by a handle: from what the session has read before (pages.h), or by a command. Small reads bring whole pages into what is
 * kept, and those of a sequential reader bring what lies ahead of him. Large ones, and small ones of who reads a large file from one end to the other, are
 * streams (stream.c). Those of handles whose every read the engine is to know of are commands.
 *
 * The first read of a handle keeps nothing unless its file's epoch is known: that would be a command more for files that are read once.
 */
#include <errno.h>

#include "client/client.h"

#define MIN_WINDOW 4u /* pages that a sequential reader is given at first */
#define LONG_BYTES                                                                                                     \
	(UINT64_C(16) << 20) /* what is longer is not kept as a whole, so a sequential reader need not leave it there */

enum { NEVER_READ, READ_ONCE, EPOCH_KNOWN }; /* gpu4fs_file.epoch: from EPOCH_KNOWN on, that and the epoch */

static int64_t read_by_command(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_READ, .handle = file->handle, .offset = offset, .length = bytes, .data = buffer};
	int rc = g4c_run(file->engine, &cmd);

	return rc ? rc : (int64_t)cmd.value;
}

/* Which one is the file's. False: it is not known, and it is not worth a command yet, or not to be had. worth: it is. */
static bool epoch_of(gpu4fs_file *file, bool worth, uint16_t *epoch)
{
	const uint32_t known = g4_load32_rlx(&file->epoch);
	struct g4_trail trail;
	struct g4_attr attr;

	if (known >= EPOCH_KNOWN) {
		*epoch = (uint16_t)(known - EPOCH_KNOWN);
		return true;
	}
	g4_store32_rlx(&file->epoch, READ_ONCE);
	if (!(worth || known == READ_ONCE ? g4c_stat_handle_noting(file, &attr, &trail) == 0 :
					    g4c_was_told_of_handle(file, &attr, &trail)) ||
	    trail.count != 1)
		return false;
	*epoch = trail.epochs[0];
	g4_store64_rlx(&file->size_hint, attr.size);
	g4_store32_rlx(&file->epoch, EPOCH_KNOWN + *epoch);
	return true;
}

/* Whether the file ended there while its epoch had that value: a read is also short in front of a page that cannot be read. */
static bool ends_at(gpu4fs_file *file, uint64_t end, uint16_t epoch, uint64_t value)
{
	struct g4_trail trail;
	struct g4_attr attr;

	return g4c_stat_handle_noting(file, &attr, &trail) == 0 && trail.count == 1 && trail.epochs[0] == epoch &&
	       trail.sum == g4_trail_sum(0, value) && attr.size == end;
}

/* What a read of `asked` pages brings. old: of a file that changes, nothing that nobody asked for. */
static uint32_t window_of(gpu4fs_file *file, uint64_t offset, uint32_t asked, bool old)
{
	uint32_t window = g4_load32_rlx(&file->window);

	if (old || g4_load64_rlx(&file->next_read) != offset)
		window = 0;
	else
		window = window < MIN_WINDOW / 2 ? MIN_WINDOW : (uint32_t)g4_min64(2 * window, G4C_PAGES_AT_ONCE);
	g4_store32_rlx(&file->window, window);
	return window > asked ? window : asked;
}

/* Reads pages to be kept, and gives what was asked for out of them. False: nothing was read, a command is to do it. */
static bool read_pages(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset, bool old, int64_t *done)
{
	struct g4c_pages *pages = file->fs->pages;
	const uint64_t first = offset >> G4_PAGE_SHIFT, inside = offset & (G4_PAGE_BYTES - 1);
	const uint32_t asked = (uint32_t)((inside + bytes + G4_PAGE_BYTES - 1) >> G4_PAGE_SHIFT);
	struct g4c_page_run run = {.ino = file->ino, .generation = file->generation, .first = first};
	uint16_t epoch;

	if (asked > G4C_PAGES_AT_ONCE || !epoch_of(file, false, &epoch))
		return false;
	run.count = window_of(file, offset, asked, old);
	const uint64_t value = g4c_pages_epoch(pages, epoch);
	uint8_t *memory = g4c_pages_room(pages, &run, asked, &run.count);
	if (!memory)
		return false;
	const int64_t got = read_by_command(file, memory, (size_t)run.count << G4_PAGE_SHIFT, first << G4_PAGE_SHIFT);
	const uint64_t has = got > 0 ? (uint64_t)got : 0;
	const bool whole = has == (uint64_t)run.count << G4_PAGE_SHIFT;
	const bool keeps = got >= 0 && g4c_pages_epoch(pages, epoch) == value;
	const bool ends = keeps && !whole && ends_at(file, (first << G4_PAGE_SHIFT) + has, epoch, value);
	const uint64_t behind = has > inside ? has - inside : 0;
	/* short or an error: a command for these bytes alone would have found the same */
	*done = got < 0 ? got : g4c_give(file, buffer, memory + inside, g4_min64(behind, bytes));
	g4c_pages_filled(pages, &run, keeps ? has : 0, ends, epoch, value);
	return true;
}

/* Reads what is large, or what a sequential reader of a large file wants. False: nothing was read. */
static bool read_stream(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset, bool sequential, int64_t *done)
{
	uint16_t epoch;
	bool more;

	if (!epoch_of(file, true, &epoch) ||
	    !g4c_stream_read(file, epoch, buffer, bytes, offset, sequential, done, &more))
		return false;
	if (more) {
		const int64_t rest = read_by_command(file, (uint8_t *)buffer + *done, bytes - (size_t)*done,
						     offset + (uint64_t)*done);
		*done += rest > 0 ? rest : 0;
	}
	return true;
}

/* Reads what is small. */
static int64_t read_small(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset, bool sequential)
{
	int64_t done;
	bool old;

	if (g4c_pages_find(file->fs->pages, file->ino, file->generation, offset, bytes, file->fs->deliver, buffer,
			   &done, &old) &&
	    g4_engine_lives(file->engine))
		return done;
	if (sequential && !old && g4_load32_rlx(&file->window) == G4C_PAGES_AT_ONCE &&
	    g4_load64_rlx(&file->size_hint) > LONG_BYTES && read_stream(file, buffer, bytes, offset, true, &done))
		return done;
	return read_pages(file, buffer, bytes, offset, old, &done) ? done :
								     read_by_command(file, buffer, bytes, offset);
}

int64_t g4c_read(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset)
{
	const bool sequential = g4_load64_rlx(&file->next_read) == offset;
	int64_t done;

	bytes = g4_min64(bytes, G4C_IO_MAX_BYTES);
	if (!file->fs->pages || bytes == 0 || offset > G4C_FILE_MAX_BYTES - bytes ||
	    (file->flags & (G4_OPEN_DIRECT | G4_OPEN_NOATIME)))
		return read_by_command(file, buffer, bytes, offset);
	if (bytes <= G4C_PAGES_AT_ONCE * G4_PAGE_BYTES)
		done = read_small(file, buffer, bytes, offset, sequential);
	else if (!read_stream(file, buffer, bytes, offset, sequential, &done))
		done = read_by_command(file, buffer, bytes, offset);
	g4_store64_rlx(&file->next_read, offset + bytes);
	return done;
}
