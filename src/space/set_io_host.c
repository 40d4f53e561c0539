/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a set. A request is cut into pieces that lie together on a disk (pieces), each piece becomes a request to each
 * disk that has a copy of it (children), and the request is done when its children are. The memory of the children is one
 * allocation, which io->cookie leads to until the collector of the request has found them done.
 *
 * A read goes to the copy whose disk has the fewest bytes under way, of equal ones to that which its address says, and to the
 * others where that fails. A write goes to all copies; a disk
 * that fails a write or a flush is dropped before the request is done, so that it never counts as having what it missed. A disk
 * that is full (a sparse file on a full file system) has not failed: that is an error as on one disk.
 *
 * A flush goes to the disks that were written since the newest flush of them that has succeeded began. A write counts when it is
 * complete: one that is under way while a flush begins may not be part of it, and counts for the next one.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/log_host.h"
#include "simt/simt_host.h"
#include "space/set_drain_host.h"
#include "space/set_epoch_host.h"
#include "space/set_flush_host.h"
#include "space/set_grant_host.h"
#include "space/set_leave_room_host.h"

struct child {
	struct g4_io io;
	uint64_t address; /* of the piece */
	uint64_t bytes;	  /* that keep the disk busy */
	uint64_t written; /* of a flush: what it makes durable */
	uint32_t disk;
	uint32_t piece; /* its number */
};

struct work {
	int result; /* of what was done at once */
	bool looks; /* at chunks of this epoch (set_epoch_host.c), where it counts until it is done; a writer in the window as well */
	uint64_t epoch;
	uint32_t count;
	uint32_t parts; /* of `iovs` that are taken */
	struct child *children;
	struct g4_iov *iovs;
};

/* Where the request has got to in its memory. */
struct cursor {
	const struct g4_io *io;
	uint32_t index;
	uint64_t within;
};

static struct g4_set *set_of(struct g4_dev *dev)
{
	return (struct g4_set *)dev->host;
}

static bool is_active(const struct g4_set *set, uint32_t disk)
{
	return g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;
}

static uint64_t bytes_of(const struct g4_io *io)
{
	return io->op == G4_IO_DISCARD ? io->discard_bytes : g4_io_bytes(io);
}

/* ---- cutting ---- */

/* Whether a chunk with parity does it by itself, at once (set_parity_host.c). Reads of a disk that is there are children. */
static bool is_by_rows(const struct g4_set *set, const struct g4_chunk_map *map, const struct g4_io *io,
		       const struct g4_piece *piece, uint64_t address)
{
	const uint32_t wanted = io->flags & G4_IO_COPY_MASK;

	if (!piece->parity || io->op == G4_IO_FLUSH)
		return false;
	return io->op != G4_IO_READ || wanted > G4_IO_COPY(0) ||
	       !g4_set_has(set, piece->disks[0], piece->offsets[0], piece->bytes) ||
	       g4_set_parity_holds(set, map, address, piece->bytes);
}

/* Of a chunk without places: as of a disk of which that was discarded, but for writes. */
static int do_nothing(const struct g4_io *io, const struct g4_iov *iovs, uint32_t parts)
{
	if ((io->flags & G4_IO_COPY_MASK) > G4_IO_COPY(0))
		return -G4_E_NOENT;
	for (uint32_t k = 0; k < parts && io->op == G4_IO_READ; k++)
		memset(iovs[k].base, 0, iovs[k].bytes);
	return io->op == G4_IO_WRITE ? -G4_E_IO : 0;
}

static int read_copies(struct g4_wg *wg, struct g4_set *set, const struct g4_io *parent, const struct g4_piece *piece,
		       struct g4_iov *iovs, uint32_t parts, uint32_t except);

/*
 * What a request knows as rows, some of which can not be read; by the chunks as they are now where there are none any more: nobody writes there while they become
 * something else (set_scatter_host.c), and a piece of rows is none of several MiB.
 */
static int read_rows(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io, uint64_t address, uint64_t bytes,
		     struct g4_iov *iovs, uint32_t parts)
{
	int rc = g4_set_parity_read(wg, set, address, bytes, iovs, parts, G4_ANY_PARITY);
	struct g4_piece piece;
	uint64_t epoch;

	if (rc != -G4_E_AGAIN)
		return rc;
	g4_chunk_translate(g4_set_view_enter(set, &epoch), address, bytes, &piece);
	rc = piece.copies > 0 ? read_copies(wg, set, io, &piece, iovs, parts, G4_MAX_DISKS) :
				do_nothing(io, iovs, parts);
	g4_set_view_leave(set, epoch);
	return rc;
}

static int do_rows(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io, const struct g4_piece *piece,
		   uint64_t address, struct g4_iov *iovs, uint32_t parts)
{
	const uint32_t wanted = io->flags & G4_IO_COPY_MASK, copies = set->dev.props.copies;

	if (io->op == G4_IO_DISCARD)
		return 0;
	if (!wanted || (wanted == G4_IO_COPY(0) && io->op == G4_IO_READ))
		return io->op == G4_IO_READ ?
			       read_rows(wg, set, io, address, piece->bytes, iovs, parts) :
			       g4_set_parity_write(wg, set, address, piece->bytes, iovs, parts, io->flags);
	if (wanted == G4_IO_COPY(0))
		return g4_set_parity_mend(wg, set, address, piece->bytes, iovs, parts);
	if (io->op == G4_IO_WRITE || wanted < G4_IO_COPY(copies))
		return -G4_E_NOENT; /* there is one copy */
	const int rc =
		g4_set_parity_read(wg, set, address, piece->bytes, iovs, parts, (wanted - G4_IO_COPY(copies)) >> 8);
	return rc == -G4_E_AGAIN ? -G4_E_NOENT : rc;
}

/* How far from `address` on nothing is a superblock; a page where one is. */
static uint64_t up_to_super(const struct g4_set *set, uint64_t address, uint64_t bytes)
{
	const uint64_t ends[] = {G4_SUPERBLOCK_ADDRESS, g4_set_second_super(set), g4_set_bytes(set) - G4_PAGE_BYTES};

	const uint64_t before = g4_chunk_until(ends, 3, address, bytes);

	return before ? before : g4_min64(bytes, G4_PAGE_BYTES);
}

/* The next `bytes` of the request's memory, as parts at `to`. How many. */
static uint32_t take(struct cursor *at, uint64_t bytes, struct g4_iov *to)
{
	uint32_t count = 0;

	while (bytes > 0) {
		const struct g4_iov *from = &at->io->iov[at->index];
		const uint64_t some = g4_min64(bytes, from->bytes - at->within);
		if (some > 0)
			to[count++] = (struct g4_iov){(uint8_t *)from->base + at->within, some};
		bytes -= some;
		at->within += some;
		if (at->within == from->bytes) {
			at->index++;
			at->within = 0;
		}
	}
	return count;
}

static struct child *add_child(struct work *work, const struct g4_io *parent, uint32_t disk, uint64_t offset,
			       uint64_t address, uint32_t piece)
{
	struct child *child = &work->children[work->count++];

	memset(child, 0, sizeof(*child));
	child->io.op = parent->op;
	child->io.flags = parent->flags & (G4_IO_FUA | G4_IO_CLASS_MASK);
	child->io.offset_bytes = offset;
	child->disk = disk;
	child->address = address;
	child->piece = piece;
	return child;
}

static bool can_discard(const struct g4_set *set, uint32_t disk)
{
	return is_active(set, disk) && g4_dev_props(set->disks[disk].dev)->discard;
}

/*
 * Whether a disk is to be asked. If so it stays open until the child is done: the thread that closes one that was dropped
 * looks at `users` afterwards
 * (set_rebuild_host.c), and a thread that counts later finds it dropped.
 */
static bool use(struct g4_set *set, const struct g4_io *io, uint32_t disk, uint64_t offset, uint64_t bytes)
{
	struct g4_set_member *member = &set->disks[disk];

	g4_add32(&member->users, 1);
	if (g4_load32_acq(&set->leaving) == disk + 1) { /* nothing lies there: only a flush asks */
		g4_sub32(&member->users, 1);
		return false;
	}
	if (io->op == G4_IO_DISCARD ? can_discard(set, disk) : /* one that came later may not be able to */
		    io->op == G4_IO_FLUSH || (io->op == G4_IO_WRITE && !(io->flags & G4_IO_COPY_MASK)) ?
				      g4_set_is_written(set, disk) :
				      g4_set_has(set, disk, offset, bytes))
		return true;
	g4_sub32(&member->users, 1);
	return false;
}

static void leave_disk(struct g4_set *set, uint32_t disk)
{
	g4_sub32(&set->disks[disk].users, 1);
}

static bool use_to_flush(struct g4_set *set, const struct g4_io *io, uint32_t disk, uint64_t *written)
{
	if (!use(set, io, disk, 0, 0))
		return false;
	if (g4_dev_props(set->disks[disk].dev)->volatile_cache && g4_set_needs_flush(set, disk, written))
		return true;
	leave_disk(set, disk);
	return false;
}

/* The copy that is read first: several threads keep several disks busy, and one thread alone goes round by MiB. */
static uint32_t least_busy(const struct g4_set *set, const struct g4_piece *piece, uint64_t address)
{
	const uint32_t turn = g4_chunk_turn(address, piece->copies);
	uint64_t least = UINT64_MAX;
	uint32_t chosen = turn;

	for (uint32_t k = 0; k < piece->copies; k++) {
		const uint32_t c = (turn + k) % piece->copies;
		const uint64_t busy = g4_load64_acq(&set->disks[piece->disks[c]].busy);
		if (busy >= least || !g4_set_has(set, piece->disks[c], piece->offsets[c], piece->bytes))
			continue;
		least = busy;
		chosen = c;
	}
	return chosen;
}

/* The children of a piece. */
static int add_piece(struct g4_set *set, struct work *work, const struct g4_io *io, const struct g4_piece *piece,
		     uint64_t address, uint32_t number, struct g4_iov *iovs, uint32_t parts)
{
	const uint32_t wanted = io->flags & G4_IO_COPY_MASK;
	const uint32_t first = wanted					 ? (wanted - G4_IO_COPY(0)) >> 8 :
			       io->op == G4_IO_READ && piece->copies > 1 ? least_busy(set, piece, address) :
									   0;
	const uint32_t most = wanted || io->op == G4_IO_READ ? 1 : piece->copies;
	uint32_t there = 0;

	if (wanted && first >= piece->copies)
		return -G4_E_INVAL;
	/* the one that was chosen is not asked again: dropped meanwhile, it fails, and another one is read */
	for (uint32_t k = 0; k < (wanted ? 1 : piece->copies) && there < most; k++) {
		const uint32_t c = (first + k) % piece->copies;
		if (!use(set, io, piece->disks[c], piece->offsets[c], piece->bytes))
			continue;
		struct child *child = add_child(work, io, piece->disks[c], piece->offsets[c], address, number);
		child->io.iov = iovs;
		child->io.iov_count = parts;
		child->io.discard_bytes = io->op == G4_IO_DISCARD ? piece->bytes : 0;
		child->bytes = io->op == G4_IO_DISCARD ? 0 : piece->bytes;
		g4_add64(&set->disks[child->disk].busy, child->bytes);
		there++;
	}
	return there ? 0 : wanted ? -G4_E_NOENT : -G4_E_IO;
}

/* A superblock is read or written at once. */
static int do_super(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io, uint64_t address,
		    const struct g4_iov *iovs, uint32_t parts)
{
	uint8_t *page = NULL;
	int rc = 0;

	if (io->op == G4_IO_DISCARD)
		return 0;
	if (posix_memalign((void **)&page, G4_PAGE_BYTES, G4_PAGE_BYTES) != 0)
		return -G4_E_NOMEM;
	uint64_t at = 0;
	if (io->op == G4_IO_READ)
		rc = g4_set_read_super(wg, set, address, page);
	for (uint32_t k = 0; k < parts; at += iovs[k].bytes, k++) {
		if (io->op == G4_IO_READ)
			memcpy(iovs[k].base, page + at, iovs[k].bytes);
		else
			memcpy(page + at, iovs[k].base, iovs[k].bytes);
	}
	if (io->op == G4_IO_WRITE && at == G4_PAGE_BYTES)
		rc = g4_set_write_super(wg, set, address, page);
	free(page);
	return at == G4_PAGE_BYTES ? rc : -G4_E_DEV_ALIGN;
}

/* The next piece. Writes to a chunk with parity stay together: rows that get all of their pages are cheaper. */
static void translate(const struct g4_chunk_map *map, const struct g4_io *io, uint64_t address, uint64_t bytes,
		      struct g4_piece *piece)
{
	g4_chunk_translate(map, address, bytes, piece);
	if (piece->parity && io->op == G4_IO_WRITE && !(io->flags & G4_IO_COPY_MASK)) {
		const struct g4_chunk *chunk = g4_chunk_find(map, address);
		piece->bytes = g4_min64(bytes, chunk->address + chunk->bytes - address);
	}
}

static void count_pieces(const struct g4_set *set, const struct g4_chunk_map *map, const struct g4_io *io,
			 uint32_t *pieces, uint32_t *children)
{
	uint64_t address = io->offset_bytes, bytes = bytes_of(io);

	*pieces = *children = 0;
	while (bytes > 0) {
		uint64_t some = up_to_super(set, address, bytes);
		if (!g4_set_is_super(set, address)) {
			struct g4_piece piece;
			translate(map, io, address, some, &piece);
			some = piece.bytes;
			*children += piece.copies;
		}
		++*pieces;
		address += some;
		bytes -= some;
	}
}

static void cut(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io, struct work *work, uint32_t pieces)
{
	const struct g4_chunk_map *map = g4_set_view_of(set, work->epoch);
	const bool moves = io->op == G4_IO_READ || io->op == G4_IO_WRITE;
	uint64_t address = io->offset_bytes, bytes = bytes_of(io);
	struct cursor at = {.io = io};

	for (uint32_t number = 0; bytes > 0 && work->result == 0; number++) {
		const bool super = g4_set_is_super(set, address);
		struct g4_piece piece = {.bytes = up_to_super(set, address, bytes)};
		struct g4_iov *iovs = &work->iovs[work->parts];
		uint32_t parts = 0;
		if (!super)
			translate(map, io, address, piece.bytes, &piece);
		if (moves && pieces == 1) {
			iovs = io->iov;
			parts = io->iov_count;
		} else if (moves) {
			parts = take(&at, piece.bytes, iovs);
			work->parts += parts;
		}
		const bool by_rows = !super && is_by_rows(set, map, io, &piece, address);
		work->result = super	     ? do_super(wg, set, io, address, iovs, parts) :
			       !piece.copies ? do_nothing(io, iovs, parts) :
			       by_rows	     ? do_rows(wg, set, io, &piece, address, iovs, parts) :
					       add_piece(set, work, io, &piece, address, number, iovs, parts);
		if (work->result < 0 && !super && !by_rows && piece.parity && is_by_rows(set, map, io, &piece, address))
			work->result = do_rows(wg, set, io, &piece, address, iovs, parts); /* dropped meanwhile */
		address += piece.bytes;
		bytes -= piece.bytes;
	}
}

static struct work *make_work(uint32_t children, uint32_t iovs)
{
	struct work *work = malloc(sizeof(*work) + children * sizeof(struct child) + iovs * sizeof(struct g4_iov));

	if (work) {
		*work = (struct work){.children = (struct child *)(work + 1)};
		work->iovs = (struct g4_iov *)(work->children + children);
	}
	return work;
}

/* What a request was counted for is over. */
static void leave_counts(struct g4_set *set, const struct g4_io *io, uint64_t epoch)
{
	g4_set_view_leave(set, epoch);
	if (io->op == G4_IO_WRITE)
		g4_set_window_leave(&set->window, io->offset_bytes, bytes_of(io));
}

/* A record of the journal is flushed when it is there, and so is what is held. */
static bool tells_of_flush(const struct g4_set *set, const struct g4_io *io)
{
	return set->parity && io->op == G4_IO_WRITE && !(io->flags & G4_IO_FUA) &&
	       (io->flags & G4_IO_CLASS_MASK) == G4_IO_CLASS(G4_CLASS_JOURNAL) && g4_set_held_any(set);
}

/* The window first: a writer that waits there would find other chunks afterwards. */
static struct work *plan_pieces(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io)
{
	const int missing =
		io->op != G4_IO_READ && g4_load32_acq(&set->unrecorded) ? g4_set_record_missing(wg, set) : 0;
	uint32_t pieces, children;
	uint64_t epoch;

	if (tells_of_flush(set, io))
		g4_set_drain_expect(wg, set);
	if (io->op == G4_IO_WRITE)
		g4_set_window_enter(&set->window, io->offset_bytes, bytes_of(io));
	count_pieces(set, g4_set_view_enter(set, &epoch), io, &pieces, &children);
	struct work *work = make_work(children, pieces > 1 ? io->iov_count + pieces : 0);
	if (!work) {
		leave_counts(set, io, epoch);
		return NULL;
	}
	work->result = missing;
	work->looks = true;
	work->epoch = epoch;
	if (work->result == 0)
		cut(wg, set, io, work, pieces);
	return work;
}

static struct work *plan(struct g4_wg *wg, struct g4_set *set, const struct g4_io *io)
{
	struct work *work;

	if (io->op == G4_IO_FLUSH && set->parity && g4_set_held_any(set)) {
		work = make_work(0, 0);
		if (work)
			work->result = g4_set_parity_flush(wg, set);
		return work;
	}
	if (io->op == G4_IO_FLUSH) {
		uint64_t epoch; /* while it looks no number is forgotten by which it would find a disk */
		(void)g4_set_view_enter(set, &epoch);
		g4_set_settle_numbers(set, epoch);
		const uint32_t disks = g4_load32_acq(&set->count);
		work = make_work(disks, 0);
		for (uint32_t d = 0; work && d < disks; d++) { /* one that is added meanwhile has nothing yet */
			uint64_t written;
			if (use_to_flush(set, io, d, &written))
				add_child(work, io, d, 0, 0, d)->written = written;
		}
		g4_set_view_leave(set, epoch);
		return work;
	}
	if (io->op == G4_IO_CHECK) {
		work = make_work(0, 0);
		if (work)
			work->result = g4_set_parity_check(wg, set, io->offset_bytes, io->discard_bytes);
		return work;
	}
	return plan_pieces(wg, set, io);
}

/* ---- submitting ---- */

static struct work *work_of(const struct g4_io *io)
{
	return (struct work *)(uintptr_t)io->cookie;
}

static void complete(struct g4_io *io, int result)
{
	io->cookie = 0;
	io->result = result;
	g4_store32_rel(&io->done, 1);
}

/* Children of several requests, by disk: with their numbers as requests know them, for one may be removed meanwhile. */
struct lists {
	struct g4_io *heads[G4_MAX_DISKS], *tails[G4_MAX_DISKS];
	uint32_t disks;
};

static void list_children(struct lists *lists, struct work *work, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		struct child *child = &work->children[k];
		if (lists->heads[child->disk])
			lists->tails[child->disk]->next = &child->io;
		else
			lists->heads[child->disk] = &child->io;
		lists->tails[child->disk] = &child->io;
		lists->disks = child->disk < lists->disks ? lists->disks : child->disk + 1;
	}
}

static void submit_lists(struct g4_wg *wg, struct g4_set *set, const struct lists *lists)
{
	for (uint32_t d = 0; d < lists->disks; d++)
		if (lists->heads[d])
			g4_dev_submit(wg, set->disks[d].dev, lists->heads[d]);
}

static void set_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	struct g4_set *set = set_of(dev);
	struct lists lists = {.disks = 0};

	for (struct g4_io *io = first, *next; io; io = next) {
		next = io->next; /* before it is done, for then it is its owner's */
		if (g4_load32_acq(&io->done))
			continue;
		struct work *work = plan(wg, set, io);
		io->cookie = (uint64_t)(uintptr_t)work;
		if (work)
			list_children(&lists, work, work->count);
		else
			complete(io, -G4_E_NOMEM);
	}
	submit_lists(wg, set, &lists);
}

/* ---- collecting ---- */

/* Of the copies that a piece has but for that of one disk, the first that can be read. */
static int read_copies(struct g4_wg *wg, struct g4_set *set, const struct g4_io *parent, const struct g4_piece *piece,
		       struct g4_iov *iovs, uint32_t parts, uint32_t except)
{
	int rc = -G4_E_IO;

	for (uint32_t c = 0; c < piece->copies && rc < 0; c++) {
		if (piece->disks[c] == except || !use(set, parent, piece->disks[c], piece->offsets[c], piece->bytes))
			continue;
		struct g4_io io = {
			.op = G4_IO_READ, .offset_bytes = piece->offsets[c], .iov = iovs, .iov_count = parts};
		g4_dev_submit(wg, set->disks[piece->disks[c]].dev, &io);
		rc = g4_dev_wait(wg, set->disks[piece->disks[c]].dev, &io);
		leave_disk(set, piece->disks[c]);
	}
	return rc;
}

/* A read of a piece has failed: another copy has it, too. */
static int read_elsewhere(struct g4_wg *wg, struct g4_set *set, const struct g4_io *parent, uint64_t epoch,
			  const struct child *child)
{
	struct g4_piece piece;
	uint64_t bytes = 0;

	if (parent->flags & G4_IO_COPY_MASK)
		return child->io.result;
	for (uint32_t i = 0; i < child->io.iov_count; i++)
		bytes += child->io.iov[i].bytes;
	g4_chunk_translate(g4_set_view_of(set, epoch), child->address, bytes, &piece);
	if (piece.parity)
		return read_rows(wg, set, parent, child->address, bytes, child->io.iov, child->io.iov_count);
	if (read_copies(wg, set, parent, &piece, child->io.iov, child->io.iov_count, child->disk) < 0)
		return child->io.result;
	g4_log(G4_LOG_WARN, "%s: %llu bytes from %llu on can not be read, another disk has them",
	       set->disks[child->disk].name, (unsigned long long)bytes, (unsigned long long)child->io.offset_bytes);
	return 0;
}

/* Writes and flushes: what failed with an error of the disk drops it, if the others have all. */
static int settle(struct g4_wg *wg, struct g4_set *set, const struct g4_io *parent, const struct work *work)
{
	const bool drops = parent->op != G4_IO_DISCARD && !(parent->flags & G4_IO_COPY_MASK);
	int rc = 0;

	for (uint32_t k = 0; k < work->count && rc == 0; k++) {
		const struct child *child = &work->children[k];
		if (child->io.result == 0)
			continue;
		rc = child->io.result;
		if ((rc == -G4_E_IO || rc == -G4_E_DEV_READONLY) && drops) /* disks that fail become read-only */
			rc = g4_set_drop(wg, set, child->disk);
	}
	return rc;
}

/* What has become of the children, for the next flush and for who chooses a copy; before the request's owner hears that it is done. */
static void note_children(struct g4_set *set, const struct g4_io *parent, const struct work *work)
{
	const bool writes = parent->op == G4_IO_WRITE || parent->op == G4_IO_DISCARD;

	for (uint32_t k = 0; k < work->count; k++) {
		const struct child *child = &work->children[k];
		if (writes && !(parent->flags & G4_IO_FUA))
			g4_set_note_written(set, child->disk);
		if (parent->op == G4_IO_FLUSH && child->io.result == 0)
			g4_set_note_flushed(set, child->disk, child->written);
		g4_sub64(&set->disks[child->disk].busy, child->bytes);
	}
}

/* The children are done. */
static void finish(struct g4_wg *wg, struct g4_set *set, struct g4_io *io)
{
	struct work *work = work_of(io);
	int rc = work->result;

	note_children(set, io, work);
	if (io->op == G4_IO_READ) {
		for (uint32_t k = 0; k < work->count; k++) {
			const struct child *child = &work->children[k];
			const int one = child->io.result < 0 ? read_elsewhere(wg, set, io, work->epoch, child) : 0;
			if (child->io.result == 0 && set->parity)
				g4_set_log_patch(set, child->disk, child->io.offset_bytes, child->io.iov,
						 child->io.iov_count);
			rc = rc == 0 ? one : rc;
		}
	} else {
		const int settled = settle(wg, set, io, work);
		rc = rc == 0 ? settled : rc;
		/* also by another request, which has left a disk out that this one did not write to any more */
		if (rc == 0 && io->op != G4_IO_DISCARD && io->op != G4_IO_CHECK && g4_load32_acq(&set->unrecorded))
			rc = g4_set_record_missing(wg, set);
	}
	if (rc == 0 && io->op == G4_IO_WRITE && (io->flags & G4_IO_COPY_MASK))
		for (uint32_t k = 0; k < work->count; k++)
			g4_set_count_mended(set, work->children[k].disk,
					    bytes_of(&work->children[k].io) / G4_PAGE_BYTES);
	for (uint32_t k = 0; k < work->count; k++)
		leave_disk(set, work->children[k].disk);
	if (work->looks)
		leave_counts(set, io, work->epoch);
	free(work);
	complete(io, rc);
}

static void set_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_set *set = set_of(dev);
	const struct work *work = work_of(io);

	for (uint32_t k = 0; k < work->count; k++)
		if (!g4_dev_poll(wg, set->disks[work->children[k].disk].dev, &work->children[k].io))
			return;
	finish(wg, set, io);
}

static void set_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_set *set = set_of(dev);
	const struct work *work = work_of(io);

	for (uint32_t k = 0; k < work->count; k++)
		g4_dev_wait(wg, set->disks[work->children[k].disk].dev, &work->children[k].io);
	finish(wg, set, io);
}

/* One request from start to end: the last of its children is, too, while the others are under way, unless there is more to do meanwhile. */
static int set_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_set *set = set_of(dev);
	struct work *work = wg ? plan(wg, set, io) : NULL;
	struct lists lists = {.disks = 0};

	if (!work)
		return wg ? -G4_E_NOMEM : -G4_E_NOTSUP;
	const bool more = tells_of_flush(set, io);
	const uint32_t count = more || work->count == 0 ? work->count : work->count - 1;
	io->cookie = (uint64_t)(uintptr_t)work;
	list_children(&lists, work, count);
	submit_lists(wg, set, &lists);
	if (more)
		g4_set_drain_log(wg, set);
	for (uint32_t k = work->count; k-- > 0;) {
		struct child *child = &work->children[k];
		struct g4_dev *disk = set->disks[child->disk].dev;
		child->io.result = k < count ? g4_dev_wait(wg, disk, &child->io) : g4_dev_execute(wg, disk, &child->io);
	}
	finish(wg, set, io);
	return io->result;
}

/* ---- opening and closing ---- */

void g4_set_free(struct g4_set *set, bool disks)
{
	for (uint32_t d = 0; d < set->count; d++) {
		if (disks)
			g4_dev_close(set->disks[d].dev);
		free(set->disks[d].name);
	}
	for (uint32_t k = 0; k < set->spare_count; k++) {
		if (disks)
			g4_dev_close(set->spares[k].dev);
		free(set->spares[k].name);
	}
	for (uint32_t n = 0; n < set->old_name_count; n++)
		free(set->old_names[n]);
	free(set->old_names);
	g4_set_parity_end(set);
	g4_set_leave_look_end(set);
	g4_set_window_end(&set->window);
	pthread_mutex_destroy(&set->lock);
	pthread_mutex_destroy(&set->orders);
	free(set->chunks);
	free(set->other_chunks);
	free(set->super);
	free(set->page);
	free(set);
}

/*
 * The log is left empty, and how far a rebuild has got is noted, so that the next open has nothing to do; where that fails, it
 * has.
 */
static void leave(struct g4_set *set)
{
	const struct g4_set_parity *p = set->parity;
	/* a map that is only not on all disks is no reason to write to a set that nobody has written to */
	const bool has_map = p && p->made_changed && !set->dev.props.read_only && !g4_load32_acq(&set->unrecorded);
	const bool has_log = p && set->has_super && (p->head > 1 || has_map || g4_set_held_any(set));
	const bool rebuilds = set->target != G4_MAX_DISKS && !set->dev.props.read_only;
	struct g4_wg *wg = has_log || rebuilds ? g4_wg_create(0) : NULL;

	if (!wg)
		return;
	if (has_log)
		(void)g4_rows_settle(wg, set);
	if (has_log && !g4_load32_acq(&set->stuck) && g4_set_held_any(set))
		(void)g4_set_parity_flush(wg, set);
	if (has_log)
		(void)g4_set_log_empty(wg, set);
	if (rebuilds)
		(void)g4_set_rebuild_note(wg, set);
	g4_wg_destroy(wg);
}

static void set_close(struct g4_dev *dev)
{
	leave(set_of(dev));
	g4_set_free(set_of(dev), true);
}

static uint64_t set_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset)
{
	struct g4_set *set = set_of(dev);
	struct g4_piece piece;
	uint64_t disks = 0, epoch;

	(void)wg;
	if (g4_set_is_super(set, offset))
		return (UINT64_MAX >> (G4_MAX_DISKS - g4_load32_acq(&set->count)));
	g4_chunk_translate(g4_set_view_enter(set, &epoch), offset, G4_PAGE_BYTES, &piece);
	g4_set_view_leave(set, epoch);
	for (uint32_t c = 0; c < piece.copies; c++)
		disks |= UINT64_C(1) << piece.disks[c];
	return disks;
}

static int set_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	return g4_set_order(wg, set_of(dev), order);
}

static const struct g4_dev_ops set_ops = {.submit = set_submit,
					  .poll = set_poll,
					  .wait = set_wait,
					  .execute = set_execute,
					  .disks_at = set_disks_at,
					  .order = set_order,
					  .layout = g4_set_layout,
					  .grant = g4_set_grant,
					  .words = g4_set_words,
					  .use_words = g4_set_use_words,
					  .close = set_close};

bool g4_set_is(const struct g4_dev *dev)
{
	return dev->ops == &set_ops;
}

/*
 * READ's versions beyond copies (set_parity_host.c), of rows of as many columns as there may be: disks come while others have these properties.
 */
static uint32_t remakes_with(uint32_t parity)
{
	return parity ? g4_row_choices(G4_ROW_COLUMNS - 1, parity - 1) : 0;
}

void g4_set_begin(struct g4_set *set)
{
	struct g4_dev_props *props = &set->dev.props;

	*props = (struct g4_dev_props){.size_bytes = g4_chunk_end(set->chunks, set->super->chunk_count),
				       .sector_bytes = 512,
				       .discard = true,
				       .disks = set->count,
				       .copies = set->super->copies};
	for (uint32_t n = 0; n < set->super->chunk_count; n++)
		props->remakes = (uint32_t)g4_max64(props->remakes, remakes_with(set->chunks[n].parity));
	if (set->super->parity_log_bytes) /* of chunks that may come, too */
		props->remakes = (uint32_t)g4_max64(props->remakes, remakes_with(props->copies - UINT32_C(1)));
	for (uint32_t d = 0; d < set->count; d++) {
		if (!set->disks[d].dev)
			continue;
		const struct g4_dev_props *own = g4_dev_props(set->disks[d].dev);
		props->sector_bytes = own->sector_bytes > props->sector_bytes ? own->sector_bytes : props->sector_bytes;
		props->read_only = props->read_only || own->read_only;
		props->volatile_cache = props->volatile_cache || own->volatile_cache;
		/* what is free in a row is part of its parity */
		props->discard = props->discard && own->discard && !props->remakes;
	}
	props->volatile_cache = props->volatile_cache || props->remakes; /* set_held_host.c */
	set->fs_bytes = set->super->total_bytes;
	set->map = (struct g4_chunk_map){.chunks = set->chunks, .count = set->super->chunk_count};
	set->views[g4_load64_acq(&set->epoch) % 2].map = set->map;
	set->dev.ops = &set_ops;
	set->dev.host = set;
}
