/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through trees by the C library, which calls functions inside itself: they see the mount. Where they change the working directory
 * on their way, that is not noticed, so relative paths are the kernel's until they end.
 */
#include <fts.h>
#include <ftw.h>
#include <stddef.h>

#include "preload/preload.h"

#define WALKS 16u

static FTS *walks[WALKS]; /* that change the working directory; atomic */

int nftw(const char *path, __nftw_func_t function, int descriptors, int flags)
{
	const bool wanders = flags & FTW_CHDIR;

	g4p_settle_shown(path);
	if (wanders)
		g4p_wander(true);
	const int rc = G4P_NEXT(nftw)(path, function, descriptors, flags);
	if (wanders)
		g4p_wander(false);
	return rc;
}

/* A walk for which there is no place counts for ever. */
FTS *fts_open(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **))
{
	for (char *const *path = paths; *path; path++)
		g4p_settle_shown(*path);
	FTS *const walk = G4P_NEXT(fts_open)(paths, options, compare);

	if (!walk || (walk->fts_options & FTS_NOCHDIR))
		return walk;
	g4p_wander(true);
	for (uint32_t i = 0; i < WALKS; i++) {
		FTS *none = NULL;
		if (__atomic_compare_exchange_n(&walks[i], &none, walk, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
	}
	return walk;
}

int fts_close(FTS *walk)
{
	bool wandered = false;

	for (uint32_t i = 0; walk && i < WALKS && !wandered; i++) {
		FTS *found = walk;
		wandered =
			__atomic_compare_exchange_n(&walks[i], &found, NULL, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	const int rc = G4P_NEXT(fts_close)(walk);
	if (wandered)
		g4p_wander(false);
	return rc;
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("nftw64", "nftw") SAME("fts64_open", "fts_open") SAME("fts64_close", "fts_close"));
