/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a large read is several READs, pieces, that are all given before the first one is waited for, and behind a sequential reader's come those
 * that he will want next. So the engine copies what comes next while the program copies, or consumes, what it has.
 *
 * A read of up to 1 MiB is of one moment all the same, as by a command, and a longer one of one moment for each MiB. All pieces of a stream were begun while the
 * file's epoch had one value. A MiB is copied to the program only if the epoch has that value when the last of its pieces is there: then each
 * of them is what the file had at that look, which is within the call (docs/design/mirror.md, "Contents"). Else all pieces are
 * forgotten, and commands read what is missing. A file that is changed all the time costs twice a few times, and then a handle has no stream any
 * more.
 *
 * The pieces lie one after the other in the file; they are the ring's, which may forget those that nobody has asked for.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/client.h"

#define PIECES 8u
#define GROUP_BYTES UINT64_C(0x100000)
#define AHEAD_BYTES GROUP_BYTES
#define GROWN_BYTES UINT64_C(0x1000000) /* a file that was found to be longer is taken for longer still */
#define MOST_FAILURES 8u

struct g4c_stream {
	uint32_t busy;	   /* atomic: a thread has it, and all that follows */
	uint32_t failures; /* reads that commands had to do, since the last one that they had not */
	uint32_t first, count;
	uint64_t pieces[PIECES]; /* a ring */
	uint64_t ends[PIECES];	 /* where each of them does, in the file */
	uint64_t begin, end;	 /* where the first piece begins, and the last one ends */
	uint64_t value;		 /* of the epoch, before any of them was begun */
};

/* A piece ends where the next multiple of its size is. */
static uint64_t end_of_piece(uint64_t begin)
{
	return (begin / G4_RING_AHEAD_BYTES + 1) * G4_RING_AHEAD_BYTES;
}

static uint64_t end_of_first(const struct g4c_stream *s)
{
	return s->ends[s->first];
}

static void drop_first(gpu4fs_file *file, struct g4c_stream *s)
{
	g4_engine_end_read(file->engine, s->pieces[s->first], false);
	s->begin = end_of_first(s);
	s->first = (s->first + 1) % PIECES;
	s->count--;
}

static void drop_all(gpu4fs_file *file, struct g4c_stream *s)
{
	while (s->count > 0)
		drop_first(file, s);
}

/* Begins pieces up to `end`, as many as there is room for; one behind what the file had when that was asked last tells whether there is more. */
static void extend(gpu4fs_file *file, struct g4c_stream *s, uint64_t end)
{
	const uint64_t size = g4_load64_rlx(&file->size_hint);

	while (s->count < PIECES && s->end < end && (s->count == 0 || s->end <= size)) {
		const uint64_t until = g4_min64(end_of_piece(s->end), end);
		const uint32_t k = (s->first + s->count) % PIECES;
		/* the first one is waited for within the call, and says that the file was read; the others may come later than anybody knows */
		const struct g4_cmd cmd = {.op = G4_CMD_READ,
					   .flags = s->count == 0 ? 0 : G4_READ_AHEAD,
					   .handle = file->handle,
					   .offset = s->end,
					   .length = until - s->end};
		if (!g4_engine_begin_read(file->engine, &cmd, &s->pieces[k]))
			return;
		s->ends[k] = s->end = until;
		s->count++;
	}
}

/* Pieces that were waited for. */
struct group {
	uint32_t count;
	bool ends; /* the last one is shorter than what is asked of it: the file ends there, or has a page that cannot be read */
	const uint8_t *data[PIECES];
	uint32_t has[PIECES];
};

/*
 * Waits for the first pieces, up to `end`. False: there are not as many, or one of them was not read, or ends before `offset`, or they are not of one
 * moment within the call: commands tell what is there.
 */
static bool await(gpu4fs_file *file, struct g4c_stream *s, uint16_t epoch, uint64_t offset, uint64_t end,
		  struct group *group)
{
	const uint64_t size = g4_load64_rlx(&file->size_hint);
	uint64_t at = s->begin;

	*group = (struct group){0};
	if (s->end < end && s->end <= size)
		return false; /* others have the room */
	while (at < end && group->count < s->count && !group->ends) {
		const uint32_t k = group->count++, piece = (s->first + k) % PIECES;
		int status;

		group->data[k] = g4_engine_await_read(file->engine, s->pieces[piece], &status, &group->has[k]);
		if (!group->data[k] || status < 0)
			return false;
		group->ends = at + group->has[k] < g4_min64(s->ends[piece], end);
		if (at + group->has[k] > size)
			g4_store64_rlx(&file->size_hint, at + group->has[k] + GROWN_BYTES);
		at = s->ends[piece];
	}
	return (at >= end || group->ends) && (s->begin == offset || group->has[0] > offset - s->begin) &&
	       g4c_pages_epoch(file->fs->pages, epoch) == s->value && g4_engine_lives(file->engine);
}

/* Copies what of these bytes is in the pieces, which are dropped when they have been used. How many, or -EFAULT. */
static int64_t copy(gpu4fs_file *file, struct g4c_stream *s, const struct group *group, uint8_t *buffer, uint64_t bytes,
		    uint64_t offset)
{
	int64_t done = 0;

	for (uint32_t k = 0; k < group->count; k++) {
		const uint64_t inside = offset + (uint64_t)done - s->begin, end = end_of_first(s);
		const uint64_t there = group->has[k] > inside ? group->has[k] - inside : 0;
		const uint64_t part = g4_min64(there, bytes - (uint64_t)done);

		if (part > 0 && g4c_give(file, buffer + done, group->data[k] + inside, part) < 0)
			return -EFAULT;
		done += (int64_t)part;
		if (offset + bytes >= end)
			drop_first(file, s);
		else
			g4_engine_end_read(file->engine, s->pieces[s->first], true);
	}
	return done;
}

/* Reads one MiB or less. *ends: there is no more. False: nothing was read. */
static bool read_group(gpu4fs_file *file, struct g4c_stream *s, uint16_t epoch, uint8_t *buffer, uint64_t bytes,
		       uint64_t offset, uint64_t end, int64_t *done, bool *ends)
{
	struct group group;

	extend(file, s, end);
	if (!await(file, s, epoch, offset, offset + bytes, &group))
		return false;
	*done = copy(file, s, &group, buffer, bytes, offset);
	*ends = *done < 0 || group.ends;
	if (*ends)
		drop_all(file, s);
	return true;
}

/* Forgets what does not belong to a read from there on. */
static void begin_at(gpu4fs_file *file, struct g4c_stream *s, uint64_t offset, uint64_t value)
{
	if (s->value != value || offset < s->begin || offset >= s->end)
		drop_all(file, s);
	while (s->count > 0 && end_of_first(s) <= offset)
		drop_first(file, s);
	if (s->count == 0) {
		s->begin = s->end = offset;
		s->value = value;
	}
}

static bool read_taken(gpu4fs_file *file, struct g4c_stream *s, uint16_t epoch, uint8_t *buffer, uint64_t bytes,
		       uint64_t offset, uint64_t ahead, int64_t *done, bool *more)
{
	const uint64_t until = offset + bytes, size = g4_load64_rlx(&file->size_hint);
	const uint64_t end = g4_max64(until, g4_min64(until + ahead, size));
	bool ends = false;

	*done = 0;
	*more = false;
	begin_at(file, s, offset, g4c_pages_epoch(file->fs->pages, epoch));
	while (!ends && (uint64_t)*done < bytes) {
		const uint64_t at = offset + (uint64_t)*done, most = g4_min64(until - at, GROUP_BYTES);
		int64_t got;
		if (!read_group(file, s, epoch, buffer + *done, most, at, end, &got, &ends)) {
			s->failures += s->count > 0; /* where there was no room for a piece nothing was tried */
			drop_all(file, s);
			*more = true;
			return *done > 0;
		}
		if (got < 0 && *done == 0)
			*done = got;
		else if (got > 0)
			*done += got;
	}
	s->failures = 0;
	return true;
}

/* The handle's, made with its first use; NULL: no memory. */
static struct g4c_stream *stream_of(gpu4fs_file *file)
{
	struct g4c_stream *s = __atomic_load_n(&file->stream, __ATOMIC_ACQUIRE), *none = NULL;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s || __atomic_compare_exchange_n(&file->stream, &none, s, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return s;
	free(s);
	return none;
}

bool g4c_stream_read(gpu4fs_file *file, uint16_t epoch, void *buffer, size_t bytes, uint64_t offset, bool sequential,
		     int64_t *done, bool *more)
{
	struct g4c_stream *s = stream_of(file);

	if (!s || !g4_cas32(&s->busy, 0, 1))
		return false;
	const bool read = s->failures < MOST_FAILURES &&
			  read_taken(file, s, epoch, buffer, bytes, offset, sequential ? AHEAD_BYTES : 0, done, more);
	g4_store32_rel(&s->busy, 0);
	return read;
}

void g4c_stream_free(gpu4fs_file *file)
{
	if (!file->stream)
		return;
	drop_all(file, file->stream);
	free(file->stream);
}
