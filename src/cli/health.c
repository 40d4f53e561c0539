/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server of a mount. */
#include "cli/health.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuse/ioctl.h"

/* 0 or a negative errno; the command's own result is in the job. */
static int ask(const char *directory, struct g4_ioc_job *job)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int rc = fd >= 0 && ioctl(fd, G4_IOC_JOB, job) == 0 ? 0 : -errno;

	if (fd >= 0)
		close(fd);
	return rc;
}

bool g4_cli_mount_health(const char *directory, struct g4_health *out)
{
	struct g4_ioc_job job = {.op = G4_CMD_JOB_LIST};
	const bool told = directory != NULL && ask(directory, &job) == 0 && job.status == 0;

	if (told)
		*out = job.health;
	return told;
}

int g4_cli_mount_dedup(const char *directory, uint32_t order, uint64_t group, struct g4_dedup_counts *out, int *status)
{
	struct g4_ioc_job job = {.op = G4_CMD_DEDUP, .mask = order, .rate = group};
	const int rc = ask(directory, &job);

	*status = job.status;
	*out = job.dedup;
	return rc;
}
