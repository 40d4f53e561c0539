/* SPDX-License-Identifier: Apache-2.0 */
#include "client/explain.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/units_host.h"
#include "dev/dev_host.h"
#include "format/format.h"
#include "fs/mkfs_host.h"
#include "fs/probe_host.h"

#define MESSAGE_BYTES 512

/* `what`: "a cache", say. */
static int check_memory(const char *what, uint64_t bytes, char *message, size_t message_bytes)
{
	const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	char wanted[G4_SIZE_TEXT_BYTES], there[G4_SIZE_TEXT_BYTES];

	if (pages <= 0 || page_bytes <= 0 || bytes <= (uint64_t)pages * (uint64_t)page_bytes)
		return 0;
	snprintf(message, message_bytes, "%s of %s is more than this machine's memory, %s", what,
		 g4_format_size(bytes, wanted, sizeof(wanted)),
		 g4_format_size((uint64_t)pages * (uint64_t)page_bytes, there, sizeof(there)));
	return -G4_E_NOMEM;
}

int g4c_check_options(const struct g4_mount_options *options, char *message, size_t message_bytes)
{
	const uint64_t cache = options->kind == G4_ENGINE_CUDA ? 0 : options->cache_bytes;
	/* that is the host's whatever the engine is */
	const uint64_t tier = options->tier_bytes == G4_NO_TIER ? 0 : options->tier_bytes;

	if (options->gpu_queues > 0 && options->kind == G4_ENGINE_CPU) {
		snprintf(message, message_bytes,
			 "gpu_queues= gives queues of a drive to an engine on a GPU: it needs engine=cuda or auto");
		return -G4_E_INVAL;
	}
	int rc = check_memory("a cache", cache, message, message_bytes);
	if (rc == 0)
		rc = check_memory("a second tier", tier, message, message_bytes);
	return rc < 0 ? rc : check_memory("cache and second tier: a sum", cache + tier, message, message_bytes);
}

/* What a device holds that is not gpu4fs, or NULL. */
static const char *foreign_contents(const char *name)
{
	const struct g4_dev_open_options options = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	char unused[MESSAGE_BYTES];
	struct g4_dev *dev;

	if (g4_dev_open(name, &options, &dev, unused, sizeof(unused)) < 0)
		return NULL;
	const char *foreign = g4_probe_foreign(dev); /* static storage */
	g4_dev_close(dev);
	return foreign != NULL && strcmp(foreign, "gpu4fs") != 0 ? foreign : NULL;
}

const char *g4c_advice(int code)
{
	/* a device that is too short is not damaged, and the sentence of JOURNAL_GAP has it */
	return g4_errno(code) == EUCLEAN && code != -G4_E_SB_TRUNCATED && code != -G4_E_JOURNAL_GAP ?
		       "; 'gpu4fs fsck' says what can be repaired" :
		       "";
}

void g4c_explain(int code, const char *name, char *message, size_t message_bytes)
{
	char text[MESSAGE_BYTES];

	if (code == -G4_E_DEV_BUSY && g4_probe_in_use(name, text, sizeof(text))) {
		snprintf(message, message_bytes, "%s is %s", name, text);
		return;
	}
	if (code == -G4_E_DEV_SMALL) {
		snprintf(message, message_bytes, "%s: %s: a file system needs at least %s", name, g4_strerror(code),
			 g4_format_size(G4_MIN_DEVICE_BYTES, text, sizeof(text)));
		return;
	}
	const char *foreign = code == -G4_E_SB_MAGIC ? foreign_contents(name) : NULL;
	if (foreign != NULL) {
		snprintf(message, message_bytes, "%s holds %s, not gpu4fs", name, foreign);
	} else if (message[0] == 0 || strncmp(message, "cannot ", 7) == 0) { /* the engine knows no names */
		snprintf(text, sizeof(text), "%s", message[0] != 0 ? message : g4_strerror(code));
		snprintf(message, message_bytes, "%s: %s%s", name, text, g4c_advice(code));
	}
}
