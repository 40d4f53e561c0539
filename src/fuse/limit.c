/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much the kernel may hold in its write-back cache. It takes a write without asking whether there is room, and what does not
 * fit is lost when it writes back. So its limit for this mount follows what is free: half of that, and never less than
 * LEAST_BYTES. The half leaves time: a writer fills the device by a part of the limit before we look again.
 *
 * Only root may set the limit. For others it is the kernel's, 1 % of the memory that may be dirty.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "fuse/server.h"

#define MOST_PERCENT 50u /* of the memory that may be dirty; FUSE mounts get 1 */
#define LEAST_BYTES (4 * G4_MIB)
#define LOOKS 8u /* while the device fills up by one limit */

int g4_fuse_tune(const struct g4_fuse_host *host, const char *name, uint64_t value)
{
	char path[sizeof(host->bdi) + 16], text[24];
	int fd, bytes, result = 0;

	snprintf(path, sizeof(path), "%s/%s", host->bdi, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	bytes = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
	if (write(fd, text, (size_t)bytes) != bytes)
		result = -errno;
	close(fd);
	return result;
}

static unsigned read_percent(const struct g4_fuse_host *host)
{
	char path[sizeof(host->bdi) + 16];
	unsigned percent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/max_ratio", host->bdi);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%u", &percent) != 1)
		percent = 0;
	fclose(file);
	return percent;
}

/* Fails where we are not root: the limit is then lower, not wrong. */
static void set_limit(struct g4_fuse_host *host, uint64_t bytes)
{
	int result = g4_fuse_tune(host, "max_bytes", bytes);

	if (result == -ENOENT) /* before Linux 6.2: whole percents */
		(void)g4_fuse_tune(host, "max_ratio", bytes > G4_GIB ? MOST_PERCENT : 1);
	else if (result == -EINVAL || read_percent(host) >= MOST_PERCENT) /* more than there is */
		(void)g4_fuse_tune(host, "max_ratio", MOST_PERCENT);
}

static void look(struct g4_fuse_host *host)
{
	struct g4_statfs statfs;
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .data = &statfs, .length = sizeof(statfs)};
	uint64_t limit, last = host->dirty_limit;

	if (g4_engine_execute(host->engine, &cmd) < 0)
		return;
	limit = g4_max64(statfs.blocks_available * statfs.block_bytes / 2, LEAST_BYTES);
	atomic_store(&host->until_look, (int64_t)(limit / LOOKS));
	if (limit < last + last / 8 && limit > last - last / 8)
		return;
	host->dirty_limit = limit;
	set_limit(host, limit);
}

void g4_fuse_limit_start(struct g4_fuse_host *host)
{
	(void)g4_fuse_tune(host, "strict_limit", 1); /* of this mount, however little is dirty elsewhere */
	look(host);
	atomic_store(&host->limiting, true);
}

void g4_fuse_space_taken(struct g4_fuse_host *host, uint64_t bytes)
{
	bool yes = true;

	if (atomic_fetch_sub(&host->until_look, (int64_t)bytes) > (int64_t)bytes)
		return;
	if (!atomic_compare_exchange_strong(&host->limiting, &yes, false))
		return; /* another worker looks, or the mount is not ready */
	look(host);
	atomic_store(&host->limiting, true);
}
