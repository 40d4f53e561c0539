/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server of a mount for its health, its jobs and its devices. */
#include "cli/health.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "fuse/fuse.h"
#include "fuse/ioctl.h"
#include "space/set_host.h"

/* 0 or a negative errno; the command's own result is in the job. */
static int ask(const char *directory, struct g4_ioc_job *job)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int rc = fd >= 0 && ioctl(fd, G4_IOC_JOB, job) == 0 ? 0 : -errno;

	if (fd >= 0)
		close(fd);
	return rc;
}

bool g4_cli_no_mount(const char *command, const char *path)
{
	struct stat found;
	const int error = stat(path, &found) == 0 ? 0 : errno;
	const bool dead = g4_fuse_has_ended(error), directory = error == 0 && S_ISDIR(found.st_mode);

	if (dead)
		g4_cli_error(command, "%s: %s", path, g4_cli_why(error));
	else if (directory)
		g4_cli_error(command, "%s: no gpu4fs file system is mounted there", path);
	return dead || directory;
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

const struct g4_job_record *g4_cli_last_job(const struct g4_health *health, uint32_t kind)
{
	const struct g4_job_record *last = NULL;

	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (health->jobs[i].kind == kind && (last == NULL || health->jobs[i].number > last->number))
			last = &health->jobs[i];
	return last;
}

bool g4_cli_job_is_over(const struct g4_job_record *job)
{
	return job->state != G4_JOB_RUNNING && job->state != G4_JOB_PAUSED;
}

const char *g4_cli_job_state(const struct g4_job_record *job)
{
	static const char *const names[G4_JOB_STATES] = {"", "running", "paused", "done", "cancelled", "failed"};

	return job->state < G4_JOB_STATES ? names[job->state] : "unknown";
}

/* ------------------------------------------------------------------ its devices */

#define MOST_NAMES (2 * (G4_MAX_DISKS + G4_MAX_SPARES))

static void add_name(char **names, uint32_t *count, const char *name)
{
	for (uint32_t n = 0; n < *count; n++)
		if (strcmp(names[n], name) == 0)
			return;
	if (*count < MOST_NAMES && (names[*count] = strdup(name)) != NULL)
		++*count;
}

/* From that number on, until there is none. */
static void add_told(char **names, uint32_t *count, int fd, uint32_t first)
{
	struct g4_ioc_job job = {.op = G4_CMD_DISK, .mask = G4_DISK_NAME, .node2 = first};

	for (; job.node2 < first + G4_MAX_DISKS; job.node2++) {
		job.path[0] = 0;
		if (ioctl(fd, G4_IOC_JOB, &job) != 0 || job.status != 0)
			return;
		if (job.path[0] != 0)
			add_name(names, count, job.path);
	}
}

/* Those that its server uses, and the spares that it has. */
static void add_used(char **names, uint32_t *count, const char *directory)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	add_told(names, count, fd, 0);
	if (*count > 0)
		add_told(names, count, fd, G4_MAX_DISKS);
	close(fd);
}

bool g4_cli_mount_uses(const char *directory, const char *name)
{
	char *names[MOST_NAMES];
	uint32_t count = 0;

	add_used(names, &count, directory);
	bool uses = count == 0;
	for (uint32_t n = 0; n < count; n++) {
		uses = uses || strcmp(names[n], name) == 0;
		free(names[n]);
	}
	return uses;
}

const char *g4_cli_mount_disks(const char *directory, const char *source, bool all)
{
	char *names[MOST_NAMES], **told = NULL, *joined = NULL;
	uint32_t count = 0, told_count = 0;

	add_used(names, &count, directory);
	if (count > 0 && all && g4_set_names(source, &told, &told_count) == 0)
		for (uint32_t n = 0; n < told_count; n++)
			add_name(names, &count, told[n]);
	free(told);
	if (count > 0)
		joined = g4_set_join((const char *const *)names, count);
	for (uint32_t n = 0; n < count; n++)
		free(names[n]);
	return joined != NULL ? g4_cli_keep(joined) : source;
}
