/* SPDX-License-Identifier: Apache-2.0 */
/* Getting at a file system through the library. */
#include "cli/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

int g4_cli_open_directory(gpu4fs *fs, const char *path, int flags, gpu4fs_file **out)
{
	gpu4fs_file *at = NULL;
	char piece[PATH_MAX];
	int rc = 0;

	flags |= O_RDONLY | O_DIRECTORY;
	while (rc == 0 && strlen(path) >= PATH_MAX) {
		gpu4fs_file *next = NULL;
		size_t bytes = PATH_MAX - 1;
		while (bytes > 0 && path[bytes] != '/')
			bytes--;
		memcpy(piece, path, bytes);
		piece[bytes] = 0;
		rc = bytes > 0 ? gpu4fs_open(fs, at, piece, flags, 0, &next) : -ENAMETOOLONG;
		if (at)
			gpu4fs_close(at);
		at = next;
		path += bytes + 1;
	}
	if (rc == 0)
		rc = gpu4fs_open(fs, at, path, flags, 0, out);
	if (at)
		gpu4fs_close(at);
	return rc;
}

int g4_cli_open_above(gpu4fs *fs, const char *path, gpu4fs_file **at, const char **name)
{
	const char *slash = strrchr(path, '/');
	int rc = -ENOMEM;

	*at = NULL;
	*name = path;
	if (strlen(path) < PATH_MAX || slash == NULL)
		return 0;
	char *above = strndup(path, (size_t)(slash - path) + 1);
	if (above != NULL)
		rc = g4_cli_open_directory(fs, above, O_NOFOLLOW, at);
	free(above);
	*name = slash + 1;
	return rc;
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

static int interrupted; /* atomic: a signal handler sets it, threads look at it */
static int stopped;	/* atomic: by an error that all else would have, too */

static void interrupt(int number)
{
	(void)number;
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELAXED);
}

void g4_cli_catch_interrupts(void)
{
	signal(SIGINT, interrupt);
	signal(SIGTERM, interrupt);
}

bool g4_cli_interrupted(void)
{
	return __atomic_load_n(&interrupted, __ATOMIC_RELAXED) != 0 || __atomic_load_n(&stopped, __ATOMIC_RELAXED) != 0;
}

void g4_cli_failed(const char *command, const char *path, int64_t result)
{
	if (result == -EINTR && g4_cli_interrupted())
		return;
	if (result == -EROFS && __atomic_exchange_n(&stopped, 1, __ATOMIC_RELAXED) != 0)
		return;
	g4_cli_error(command, "%s: %s", path, g4_cli_why((int)-result));
}

bool g4_cli_ended_early(const char *command)
{
	if (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) != 0)
		g4_cli_error(command, "interrupted");
	return g4_cli_interrupted();
}

int g4_cli_detach(const char *command, gpu4fs *fs, const char *name)
{
	const int rc = gpu4fs_unmount(fs);

	if (rc == -EIO)
		g4_cli_error(
			command,
			"%s: ended in an error, and its last changes may be missing; 'gpu4fs fsck' says what is there",
			name);
	else if (rc < 0)
		g4_cli_error(command, "%s: %s", name, g4_cli_why(-rc));
	return rc;
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
	for (size_t k = 0; k < links->room; k++) {
		for (struct g4_cli_link *link = links->buckets[k], *next; link != NULL; link = next) {
			next = link->next;
			free(link);
		}
	}
	free(links->buckets);
	pthread_mutex_destroy(&links->lock);
}

static size_t bucket_of(size_t room, uint64_t device, uint64_t inode)
{
	const uint64_t mixed = (inode ^ device << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(mixed >> 24) & (room - 1);
}

/* Room for one more. */
static bool grow_links(struct g4_cli_links *links)
{
	if (links->count < links->room)
		return true;
	const size_t room = links->room ? 2 * links->room : 1024;
	struct g4_cli_link **buckets = calloc(room, sizeof(struct g4_cli_link *));
	if (buckets == NULL)
		return false;
	for (size_t k = 0; k < links->room; k++) {
		for (struct g4_cli_link *link = links->buckets[k], *next; link != NULL; link = next) {
			struct g4_cli_link **end = &buckets[bucket_of(room, link->device, link->inode)];
			next = link->next;
			while (*end != NULL) /* the newest of a file's stays first */
				end = &(*end)->next;
			link->next = NULL;
			*end = link;
		}
	}
	free(links->buckets);
	links->buckets = buckets;
	links->room = room;
	return true;
}

const char *g4_cli_links_find(const struct g4_cli_links *links, uint64_t device, uint64_t inode)
{
	const struct g4_cli_link *link = links->room > 0 ? links->buckets[bucket_of(links->room, device, inode)] : NULL;

	while (link != NULL && (link->device != device || link->inode != inode))
		link = link->next;
	return link != NULL ? link->path : NULL;
}

bool g4_cli_links_note(struct g4_cli_links *links, uint64_t device, uint64_t inode, const char *path)
{
	const size_t bytes = strlen(path) + 1;
	struct g4_cli_link *link = malloc(sizeof(*link) + bytes);

	if (link == NULL || !grow_links(links)) {
		free(link);
		return false;
	}
	struct g4_cli_link **bucket = &links->buckets[bucket_of(links->room, device, inode)];
	link->next = *bucket;
	link->device = device;
	link->inode = inode;
	memcpy(link->path, path, bytes);
	*bucket = link;
	links->count++;
	return true;
}
