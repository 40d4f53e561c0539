/* SPDX-License-Identifier: Apache-2.0 */
/* Several disks on a command line. */
#include <stdlib.h>

#include "cli/cli.h"
#include "space/set_host.h"

static char *kept; /* one at a time: a command has one file system */

static void let_go(void)
{
	free(kept);
}

const char *g4_cli_keep(char *memory)
{
	if (!kept && memory)
		atexit(let_go);
	free(kept);
	kept = memory;
	return memory;
}

const char *g4_cli_disks(char **names, int count)
{
	if (count == 1)
		return names[0];
	char *joined = g4_set_join((const char *const *)names, (uint32_t)count);
	return joined ? g4_cli_keep(joined) : names[0];
}
