/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/dedup_share.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock_host.h"
#include "cli/attach.h"
#include "fuse/ioctl.h"

#define HANDLES 64u /* open at a time, of sources and of targets */

struct handles { /* of files, by their number; a place is for several */
	struct g4_dedup_handle open[HANDLES];
	uint64_t number[HANDLES];
};

struct g4_dedup_handles {
	struct handles from, to;
};

bool g4_dedup_tell(const char *path, int64_t result)
{
	g4_cli_error("dedup", "%s: %s", path, g4_cli_why((int)-result));
	return false;
}

bool g4_dedup_has_gone(int64_t result)
{
	return result == -ENOENT || result == -ESTALE || result == -ELOOP || result == -ENOTDIR;
}

/* ------------------------------------------------------------------ files */

struct g4_dedup_handles *g4_dedup_handles_new(void)
{
	return calloc(1, sizeof(struct g4_dedup_handles));
}

static void close_all(struct handles *side)
{
	for (uint32_t k = 0; k < HANDLES; k++)
		if (side->open[k].is_open)
			g4_dedup_close(&side->open[k]);
}

void g4_dedup_handles_free(struct g4_dedup_handles *handles)
{
	if (handles == NULL)
		return;
	close_all(&handles->from);
	close_all(&handles->to);
	free(handles);
}

int64_t g4_dedup_handles_get(struct g4_dedup *dedup, struct g4_dedup_handles *handles, uint32_t number, bool change,
			     struct g4_dedup_handle **out)
{
	struct handles *side = change ? &handles->to : &handles->from;
	struct g4_dedup_file *file = &dedup->file_list[number];
	struct g4_dedup_handle *handle = &side->open[number % HANDLES];

	if (!handle->is_open || side->number[number % HANDLES] != number) {
		if (handle->is_open)
			g4_dedup_close(handle);
		side->number[number % HANDLES] = number;
		const int64_t rc = g4_dedup_open(&dedup->place, file->path, change, handle);
		if (rc < 0) {
			if (!file->told && !g4_dedup_has_gone(rc))
				g4_dedup_tell(file->path, rc);
			file->told = true;
			return rc;
		}
	}
	*out = handle;
	return 0;
}

/* ------------------------------------------------------------------ turns */

#define STEP_PAGES 64u /* of a row, where others are to wait for no more: as a scrub's step */

static void rest(uint64_t ns)
{
	const struct timespec some = {.tv_nsec = (long)g4_min64(ns, UINT64_C(100000000))};

	nanosleep(&some, NULL);
}

/* Waits for the next step's time, but not for long after a signal. *ask: it may be begun if nobody else uses the mount. */
static int wait_for_turn(const struct g4_dedup *dedup, bool *ask)
{
	for (;;) {
		const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC),
			       wait = g4_job_wait_ns(&dedup->throttle, now, !dedup->idle);
		if (g4_cli_interrupted())
			return -EINTR;
		*ask = wait != 0 && now >= dedup->throttle.due_ns;
		if (wait == 0 || *ask)
			return 0;
		rest(wait);
	}
}

static void paid(struct g4_dedup *dedup, uint64_t begun, uint64_t pages)
{
	g4_job_paid(&dedup->throttle, begun, g4_clock_ns(CLOCK_MONOTONIC), pages * G4_DEDUP_PAGE_BYTES, dedup->rate);
}

/* What is shared at a time: with a rate an eighth of a second's, as a scrub's spans are. */
static uint32_t most_pages(const struct g4_dedup *dedup)
{
	uint64_t most = dedup->idle ? STEP_PAGES : G4_IOC_SAME_BYTES / G4_DEDUP_PAGE_BYTES;

	if (dedup->rate != 0)
		most = g4_min64(most, g4_max64(dedup->rate / 8 / G4_DEDUP_PAGE_BYTES, 1));
	return (uint32_t)most;
}

bool g4_dedup_ends_all(int64_t rc)
{
	return rc == -ENOSPC || rc == -EROFS || rc == -EBUSY || rc == -ENOTCONN || rc == -EPIPE || rc == -ENOMEM ||
	       rc == -EMFILE || rc == -ENFILE || rc == -EINTR;
}

/* ------------------------------------------------------------------ rows */

/* So many pages of the row's first ones were shared, or with 0 the first one was not, for that reason. Takes them off the row. Whether it ends all. */
static bool count_row(struct g4_dedup *dedup, struct g4_dedup_row *row, int64_t rc)
{
	const bool zeros = row->from_file == G4_DEDUP_ZEROS, changed = rc == 0 || g4_dedup_has_gone(rc);
	struct g4_dedup_file *file = &dedup->file_list[row->to_file];
	uint32_t pages = 1;

	if (rc > 0) {
		pages = (uint32_t)(((uint64_t)rc + G4_DEDUP_PAGE_BYTES - 1) / G4_DEDUP_PAGE_BYTES);
		*(zeros ? &dedup->holes : &dedup->shared) += pages;
	} else if (!g4_dedup_ends_all(rc)) {
		pages = rc != 0 && changed ? row->pages : 1; /* of a file that has gone there is nothing to come */
		*(changed ? &dedup->different : &dedup->failed) += pages;
		if (!changed && !file->told) {
			g4_dedup_tell(file->path, rc);
			file->told = true;
		}
	}
	pages = (uint32_t)g4_min64(pages, row->pages);
	row->from_page += pages;
	row->to_page += pages;
	row->pages -= pages;
	return g4_dedup_ends_all(rc);
}

struct g4_dedup_queue { /* rows of a mount, with pages to do */
	uint32_t count;
	struct g4_dedup_row rows[G4_IOC_SAME_ROWS];
	struct g4_ioc_same io;
};

static uint32_t fill(const struct g4_dedup *dedup, struct g4_dedup_queue *queue)
{
	const uint32_t most = most_pages(dedup);
	uint32_t count = 0;

	for (uint32_t pages = 0; count < queue->count && pages < most; count++) {
		const struct g4_dedup_row *row = &queue->rows[count];
		const bool zeros = row->from_file == G4_DEDUP_ZEROS;
		const struct g4_dedup_file *to = &dedup->file_list[row->to_file],
					   *from = zeros ? to : &dedup->file_list[row->from_file];
		const uint32_t some = (uint32_t)g4_min64(row->pages, most - pages);
		queue->io.rows[count] = (struct g4_ioc_same_row){
			.from = from->ino,
			.to = to->ino,
			.from_generation = from->generation,
			.to_generation = to->generation,
			.from_offset = (zeros ? row->to_page : row->from_page) * G4_DEDUP_PAGE_BYTES,
			.to_offset = row->to_page * G4_DEDUP_PAGE_BYTES,
			.bytes = (uint32_t)(some * G4_DEDUP_PAGE_BYTES),
			.flags = G4_COPY_SAME | (zeros ? G4_COPY_ZEROS : 0) | (dedup->compare ? G4_COPY_COMPARE : 0),
		};
		pages += some;
	}
	return count;
}

/* What the mount says of the rows that it tried. Those that have pages left stay in the queue. */
static int take(struct g4_dedup *dedup, struct g4_dedup_queue *queue)
{
	uint32_t kept = 0;
	int rc = 0;

	for (uint32_t k = 0; k < queue->count; k++) {
		struct g4_dedup_row row = queue->rows[k];
		if (k < queue->io.count) { /* also behind one that ends all: the mount went on */
			const struct g4_ioc_same_row *done = &queue->io.rows[k];
			const int64_t result = done->status < 0 ? -g4_errno(done->status) : (int64_t)done->bytes;
			if (count_row(dedup, &row, result) && rc == 0)
				rc = (int)result;
		}
		if (row.pages > 0)
			queue->rows[kept++] = row;
	}
	queue->count = kept;
	return rc;
}

/* Rows of the queue, as many as go in one step. */
static int step(struct g4_dedup *dedup, struct g4_dedup_queue *queue)
{
	const uint64_t before = dedup->shared + dedup->holes;
	bool ask;
	int rc = wait_for_turn(dedup, &ask);

	if (rc < 0)
		return rc;
	const uint64_t begun = g4_clock_ns(CLOCK_MONOTONIC);
	queue->io.count = fill(dedup, queue);
	queue->io.flags = ask ? G4_IOC_SAME_IDLE : 0;
	rc = g4_dedup_same_rows(&dedup->place, &queue->io);
	if (rc == -EAGAIN && ask) {
		rest(G4_JOB_LOOK_NS);
		return 0;
	}
	if (rc == 0)
		rc = take(dedup, queue);
	paid(dedup, begun, dedup->shared + dedup->holes - before);
	return rc;
}

int g4_dedup_flush(struct g4_dedup *dedup)
{
	int rc = 0;

	while (dedup->queue != NULL && dedup->queue->count > 0 && rc == 0)
		rc = step(dedup, dedup->queue);
	return rc;
}

int g4_dedup_yield(struct g4_dedup *dedup)
{
	struct g4_ioc_same io = {.flags = G4_IOC_SAME_IDLE};
	bool ask = true;
	int rc = 0;

	if (!dedup->idle || g4_clock_ns(CLOCK_MONOTONIC) - dedup->granted_ns < G4_JOB_LOOK_NS)
		return 0;
	while (rc == 0 && ask) {
		rc = wait_for_turn(dedup, &ask);
		if (rc == 0 && ask) {
			io.count = 0;
			rc = g4_dedup_same_rows(&dedup->place, &io);
			ask = rc == -EAGAIN;
			if (ask) {
				rest(G4_JOB_LOOK_NS);
				rc = 0;
			}
		}
	}
	dedup->granted_ns = g4_clock_ns(CLOCK_MONOTONIC);
	paid(dedup, dedup->granted_ns, 0);
	return rc;
}

static int share_here(struct g4_dedup *dedup, const struct g4_dedup_row *row)
{
	struct g4_dedup_queue *queue = dedup->queue;
	int rc = 0;

	if (queue == NULL)
		queue = dedup->queue = calloc(1, sizeof(*queue));
	if (queue == NULL)
		return -ENOMEM;
	while (queue->count == G4_IOC_SAME_ROWS && rc == 0)
		rc = step(dedup, queue);
	if (rc == 0)
		queue->rows[queue->count++] = *row;
	return rc;
}

int g4_dedup_share(struct g4_dedup *dedup, struct g4_dedup_handles *handles, const struct g4_dedup_row *row)
{
	const bool zeros = row->from_file == G4_DEDUP_ZEROS;
	struct g4_dedup_row left = *row;
	struct g4_dedup_handle *from = NULL, *to;
	bool ask;

	if (row->pages == 0)
		return 0;
	if (dedup->place.fs == NULL)
		return share_here(dedup, row);
	int64_t rc = g4_dedup_handles_get(dedup, handles, row->to_file, true, &to);
	if (rc == 0 && !zeros)
		rc = g4_dedup_handles_get(dedup, handles, row->from_file, false, &from);
	if (rc < 0) {
		*(g4_dedup_has_gone(rc) ? &dedup->different : &dedup->failed) += row->pages;
		return g4_dedup_ends_all(rc) ? (int)rc : 0;
	}
	while (left.pages > 0) {
		const uint64_t before = dedup->shared + dedup->holes,
			       some = g4_min64(left.pages, most_pages(dedup)) * G4_DEDUP_PAGE_BYTES;
		rc = wait_for_turn(dedup, &ask);
		if (rc < 0)
			return (int)rc;
		const uint64_t begun = g4_clock_ns(CLOCK_MONOTONIC);
		rc = g4_dedup_same(from, left.from_page * G4_DEDUP_PAGE_BYTES, to, left.to_page * G4_DEDUP_PAGE_BYTES,
				   some, dedup->compare);
		if (count_row(dedup, &left, rc))
			return (int)rc;
		paid(dedup, begun, dedup->shared + dedup->holes - before);
	}
	return 0;
}
