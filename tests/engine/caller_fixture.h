/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device-API callers for tests: what warps of other kernels do on a GPU, here by threads with workgroups of their own. On `lanes` a
 * caller has several lanes, which look at caches side by side.
 */
#ifndef CALLER_FIXTURE_H
#define CALLER_FIXTURE_H

#include "device/caller.h"
#include "rig.h"

#define PLACES 3u
#define FILE_PAGES 300u
#define FILE_BYTES (FILE_PAGES * G4_PAGE_BYTES)

extern struct rig rig;
extern struct g4_wg *wg; /* of the rig's own operations */
extern struct g4_caller places[PLACES];
extern struct g4_callers callers;
extern uint8_t *data, *buffer; /* FILE_BYTES: a pattern; room */

extern const struct g4_caller_open to_read, to_write, to_create;

int caller_setup(void **state);
int caller_teardown(void **state);
#define caller_test(f) cmocka_unit_test_setup_teardown(f, caller_setup, caller_teardown)

int open_at(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
	    const struct g4_caller_open *how, struct g4_caller_file *file);
/* A file with the pattern in `data`; open. */
struct g4_caller_file make_file(struct g4_caller *caller, const char *path, uint64_t bytes);
void expect_contents(struct g4_caller *caller, const struct g4_caller_file *file, const uint8_t *wanted,
		     uint64_t bytes);

#endif
