/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing what was found to be the same: one way for pages that were found by their sums and for those that were found by chunks. */
#ifndef G4_CLI_DEDUP_SHARE_H
#define G4_CLI_DEDUP_SHARE_H

#include "cli/dedup.h"

struct g4_dedup_file {
	uint64_t ino;
	uint32_t generation; /* of what was opened last: with its number what rows of a mount name */
	char *path;
	bool told; /* that it can not be opened */
};

#define G4_DEDUP_ZEROS UINT32_MAX /* no file's index: there are fewer */

/* Pages in a row of one file that are to become those of another, or, from G4_DEDUP_ZEROS, holes. Files by their index in file_list. */
struct g4_dedup_row {
	uint32_t from_file, from_page;
	uint32_t to_file, to_page;
	uint32_t pages; /* one command shares at most 16 MiB */
};

/* Files that stay open between rows, a bounded number. NULL: no memory. */
struct g4_dedup_handles;
struct g4_dedup_handles *g4_dedup_handles_new(void);
void g4_dedup_handles_free(struct g4_dedup_handles *handles);
/* The source of rows, or with `change` the target, open until another one takes its place. 0, or a negative errno that was told. */
int64_t g4_dedup_handles_get(struct g4_dedup *dedup, struct g4_dedup_handles *handles, uint32_t number, bool change,
			     struct g4_dedup_handle **out);

/*
 * Shares what is the same of a row, counts it in `shared` or `holes`, the rest in `different` and `failed`, and keeps to the rate. 0, or an errno that
 * the next row would have, too. Of a mount rows may wait in the queue, for the next ones or for g4_dedup_flush(), and are counted then.
 */
int g4_dedup_share(struct g4_dedup *dedup, struct g4_dedup_handles *handles, const struct g4_dedup_row *row);
int g4_dedup_flush(struct g4_dedup *dedup);
/* Before a piece of work that shares nothing: with `idle` waits until nobody else uses the mount, or the next step is due. 0, or an errno. */
int g4_dedup_yield(struct g4_dedup *dedup);

/* Tells of an error of a path, negative as it is; false. */
bool g4_dedup_tell(const char *path, int64_t result);
/* A file, or a directory, that others have removed or replaced since its name was read. */
bool g4_dedup_has_gone(int64_t result);
/* Errors that the next page would have, too. */
bool g4_dedup_ends_all(int64_t result);

#endif
