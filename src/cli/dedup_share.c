/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/dedup_share.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock_host.h"
#include "cli/attach.h"

#define HANDLES 64u /* open at a time, of sources and of targets */

struct handles { /* of files, by their number; a place is for several */
	struct g4_dedup_handle open[HANDLES];
	uint64_t number[HANDLES];
};

struct g4_dedup_handles {
	struct handles from, to;
};

bool g4_dedup_tell(struct g4_dedup *dedup, const char *path, int64_t result)
{
	g4_progress_clear(&dedup->progress);
	g4_cli_error("dedup", "%s: %s", path, strerror((int)-result));
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
				g4_dedup_tell(dedup, file->path, rc);
			file->told = true;
			return rc;
		}
	}
	*out = handle;
	return 0;
}

/* ------------------------------------------------------------------ rows */

/* Waits until so many pages may have been shared, but not for long after a signal. */
static void pay(struct g4_dedup *dedup, uint64_t pages)
{
	uint64_t now;

	if (dedup->rate == 0)
		return;
	dedup->paid += pages * G4_DEDUP_PAGE_BYTES;
	const uint64_t due = dedup->begun_ns + (uint64_t)((double)dedup->paid / (double)dedup->rate * 1e9);
	while (!g4_cli_interrupted() && (now = g4_clock_ns(CLOCK_MONOTONIC)) < due) {
		const struct timespec rest = {.tv_nsec = (long)g4_min64(due - now, UINT64_C(100000000))};
		nanosleep(&rest, NULL);
	}
}

bool g4_dedup_ends_all(int64_t rc)
{
	return rc == -ENOSPC || rc == -EROFS || rc == -EBUSY || rc == -ENOTCONN || rc == -EPIPE || rc == -ENOMEM ||
	       rc == -EMFILE || rc == -ENFILE || rc == -EINTR;
}

int g4_dedup_share(struct g4_dedup *dedup, struct g4_dedup_handles *handles, const struct g4_dedup_row *row)
{
	const bool zeros = row->from_file == G4_DEDUP_ZEROS;
	struct g4_dedup_handle *from, *to;
	int64_t rc = g4_dedup_handles_get(dedup, handles, row->to_file, true, &to);

	if (rc == 0 && zeros)
		from = NULL;
	else if (rc == 0)
		rc = g4_dedup_handles_get(dedup, handles, row->from_file, false, &from);
	if (rc < 0) {
		*(g4_dedup_has_gone(rc) ? &dedup->different : &dedup->failed) += row->pages;
		return g4_dedup_ends_all(rc) ? (int)rc : 0;
	}
	for (uint32_t done = 0; done < row->pages;) {
		const uint64_t left = (row->pages - done) * G4_DEDUP_PAGE_BYTES;
		if (g4_cli_interrupted())
			return -EINTR;
		rc = g4_dedup_same(from, (row->from_page + (uint64_t)done) * G4_DEDUP_PAGE_BYTES, to,
				   (row->to_page + (uint64_t)done) * G4_DEDUP_PAGE_BYTES, left, dedup->compare);
		if (rc > 0) {
			const uint32_t some =
				(uint32_t)(((uint64_t)rc + G4_DEDUP_PAGE_BYTES - 1) / G4_DEDUP_PAGE_BYTES);
			*(zeros ? &dedup->holes : &dedup->shared) += some;
			done += some;
			pay(dedup, some);
			continue;
		}
		if (g4_dedup_ends_all(rc))
			return (int)rc;
		const bool changed = rc == 0 || g4_dedup_has_gone(rc);
		*(changed ? &dedup->different : &dedup->failed) += 1;
		if (!changed && !dedup->file_list[row->to_file].told) {
			g4_dedup_tell(dedup, dedup->file_list[row->to_file].path, rc);
			dedup->file_list[row->to_file].told = true;
		}
		done++;
	}
	return 0;
}
