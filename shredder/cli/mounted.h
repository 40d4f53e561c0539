/* SPDX-License-Identifier: Apache-2.0 */
/* A repository as a file system that can only be read: what shredder mount serves. */
#ifndef SHREDDER_CLI_MOUNTED_H
#define SHREDDER_CLI_MOUNTED_H

#include "cli/repo.h"

/*
 * Serves it at `place` until it is unmounted or a signal comes; loads the index. `ready` is called once it can be used. 0 or an
 * error after a sentence.
 */
int cli_mounted_serve(struct store *s, const struct store_filter *filter, const char *place, bool allow_other,
		      void (*ready)(void *user), void *user);

#endif
