/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server of a mount for its health. */
#include "cli/health.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuse/ioctl.h"

bool g4_cli_mount_health(const char *directory, struct g4_health *out)
{
	struct g4_ioc_job job = {.op = G4_CMD_JOB_LIST};
	const int fd = directory == NULL ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const bool told = fd >= 0 && ioctl(fd, G4_IOC_JOB, &job) == 0 && job.status == 0;

	if (fd >= 0)
		close(fd);
	if (told)
		*out = job.health;
	return told;
}
