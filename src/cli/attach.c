/* SPDX-License-Identifier: Apache-2.0 */
/* Getting at a file system through the library. */
#include "cli/attach.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static gpu4fs *attach(const char *command, const char *image, const char *socket, uint32_t flags)
{
	const struct gpu4fs_options options = {.size = sizeof(options), .flags = flags};
	gpu4fs *fs = NULL;
	const int rc = image != NULL ? gpu4fs_mount(&image, 1, &options, &fs) : gpu4fs_connect(socket, NULL, &fs);

	if (rc < 0)
		g4_cli_error(command, "%s", gpu4fs_last_message());
	return rc < 0 ? NULL : fs;
}

gpu4fs *g4_cli_attach(const char *command, const char *image, const char *socket)
{
	return attach(command, image, socket, 0);
}

gpu4fs *g4_cli_attach_to_look(const char *command, const char *image, const char *socket)
{
	return attach(command, image, socket, GPU4FS_READ_ONLY);
}

bool g4_cli_parse_jobs(const char *word, long *jobs)
{
	char *end;

	errno = 0;
	*jobs = strtol(word, &end, 10);
	return errno == 0 && end != word && *end == 0 && *jobs >= 1 && *jobs <= G4_CLI_MOST_JOBS;
}

long g4_cli_jobs(void)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return processors < 1 ? 1 : processors > 8 ? 8 : processors;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

void g4_cli_catch_interrupts(void)
{
	signal(SIGINT, interrupt);
	signal(SIGTERM, interrupt);
}

bool g4_cli_interrupted(void)
{
	return interrupted != 0;
}

void g4_cli_allow_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* or else what is too deep says EMFILE */
	}
}

/* ------------------------------------------------------------------ hard links */

void g4_cli_links_begin(struct g4_cli_links *links)
{
	memset(links, 0, sizeof(*links));
	pthread_mutex_init(&links->lock, NULL);
}

void g4_cli_links_end(struct g4_cli_links *links)
{
	for (size_t k = 0; k < sizeof(links->buckets) / sizeof(links->buckets[0]); k++) {
		for (struct g4_cli_link *link = links->buckets[k], *next; link != NULL; link = next) {
			next = link->next;
			free(link);
		}
	}
	pthread_mutex_destroy(&links->lock);
}

static size_t bucket_of(const struct g4_cli_links *links, uint64_t device, uint64_t inode)
{
	const uint64_t mixed = (inode ^ device << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(mixed >> 52) % (sizeof(links->buckets) / sizeof(links->buckets[0]));
}

const char *g4_cli_links_find(const struct g4_cli_links *links, uint64_t device, uint64_t inode)
{
	const struct g4_cli_link *link = links->buckets[bucket_of(links, device, inode)];

	while (link != NULL && (link->device != device || link->inode != inode))
		link = link->next;
	return link != NULL ? link->path : NULL;
}

bool g4_cli_links_note(struct g4_cli_links *links, uint64_t device, uint64_t inode, const char *path)
{
	struct g4_cli_link **bucket = &links->buckets[bucket_of(links, device, inode)];
	struct g4_cli_link *link = malloc(sizeof(*link) + strlen(path) + 1);

	if (link == NULL)
		return false;
	link->next = *bucket;
	link->device = device;
	link->inode = inode;
	strcpy(link->path, path);
	*bucket = link;
	return true;
}
