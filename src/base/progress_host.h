/* SPDX-License-Identifier: Apache-2.0 */
/* Progress bars of the command line programs. */
#ifndef G4_PROGRESS_HOST_H
#define G4_PROGRESS_HOST_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A bar on standard error for what lasts longer than a second, when that is a terminal. Zero is a good start. Several threads may say how far it
 * is, and clear it, between its start and its end.
 */
struct g4_progress {
	const char *label; /* NULL: never show */
	uint64_t started_ns;
	uint64_t shown_ns; /* atomic */
};
void g4_progress_start(struct g4_progress *progress, const char *label);
/* Whether anything will be shown. */
static inline bool g4_progress_wanted(const struct g4_progress *progress)
{
	return progress->label != NULL;
}
/* Cheap enough for every step of a loop. From the third second on it says how much longer it will take. */
void g4_progress_step(struct g4_progress *progress, uint64_t done, uint64_t total);
/* The same while nobody knows the total: a few words. */
void g4_progress_text(struct g4_progress *progress, const char *text);
/* So much has been read or written of trees so far. */
void g4_progress_tree(struct g4_progress *progress, uint64_t names, uint64_t bytes);
/* Clears the line; call it before printing anything else on standard output, and at the end. */
void g4_progress_clear(struct g4_progress *progress);
/* The same of whatever bar is there, for who prints on standard error and knows of none: messages and the log do so by themselves. */
void g4_progress_make_way(void);

#ifdef __cplusplus
}
#endif

#endif
