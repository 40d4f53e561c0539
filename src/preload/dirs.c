/* SPDX-License-Identifier: Apache-2.0 */
/* Directory streams: streams.c has what they are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/streams.h"

static struct g4p_stream *ours(DIR *dir)
{
	struct g4p_stream *stream = (struct g4p_stream *)dir;

	__asm__("" : "+r"(stream)); /* dir is declared as never NULL, but closedir(NULL) is EINVAL */
	return stream && stream->magic == G4P_STREAM_MAGIC ? stream : NULL;
}

/* A stream on a descriptor, which it owns then. NULL with errno: nothing has happened. Calm. */
static struct g4p_stream *new_stream(int fd, struct g4p_file *file, int *error)
{
	struct g4p_stream *stream = calloc(1, sizeof(*stream));
	int rc = stream ? gpu4fs_opendir_file(file->handle, GPU4FS_DIR_DOTS, &stream->dir) : -ENOMEM;

	if (rc < 0) {
		*error = -rc;
		free(stream);
		return NULL;
	}
	stream->magic = G4P_STREAM_MAGIC;
	stream->file = file;
	stream->fd = fd;
	g4p_stream_add(stream);
	return stream;
}

DIR *fdopendir(int fd)
{
	struct g4p_file *file = g4p_get(fd);
	struct g4p_calm calm;
	struct g4p_stream *stream;
	int error = 0;

	if (!file) {
		g4p_count(G4P_fdopendir, G4P_OUTSIDE_ANSWER);
		return G4P_NEXT(fdopendir)(fd);
	}
	bool calmed = g4p_calm(&calm);
	stream = new_stream(fd, file, &error);
	if (!stream)
		g4p_put(file);
	if (calmed)
		g4p_restless(&calm);
	g4p_count(G4P_fdopendir, G4P_ENGINE_ANSWER);
	if (!stream)
		errno = error;
	return (DIR *)stream;
}

DIR *opendir(const char *path)
{
	struct g4p_call c;
	struct g4p_stream *stream = NULL;
	gpu4fs_file *handle;
	int64_t fd = g4p_enter(&c, G4P_opendir, AT_FDCWD, path);
	int error = 0;

	if (fd == G4P_KERNEL)
		return G4P_NEXT(opendir)(path);
	if (fd < 0)
		return NULL;
	fd = G4P_KERNEL;
	if (c.mount->opens) {
		fd = gpu4fs_open(c.fs, c.at, c.path, O_RDONLY | O_DIRECTORY, 0, &handle);
		if (fd == 0)
			fd = g4p_install(c.mount, c.fs, handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC, -1);
	}
	fd = g4p_leave(&c, fd);
	if (fd == G4P_KERNEL)
		return G4P_NEXT(opendir)(path);
	if (fd < 0)
		return NULL;
	stream = (struct g4p_stream *)fdopendir((int)fd);
	error = errno;
	if (!stream)
		close((int)fd);
	errno = error;
	return (DIR *)stream;
}

int scandirat(int at, const char *restrict path, struct dirent ***restrict list, int (*filter)(const struct dirent *),
	      int (*compare)(const struct dirent **, const struct dirent **))
{
	return g4p_settle_start(at, path, G4P_scandirat) ? G4P_NEXT(scandirat)(at, path, list, filter, compare) : -1;
}

ssize_t getdents64(int fd, void *buffer, size_t bytes)
{
	return g4p_settle(fd, G4P_getdents64) ? G4P_NEXT(getdents64)(fd, buffer, bytes) : -1;
}

ssize_t getdirentries(int fd, char *restrict buffer, size_t bytes, off_t *restrict position)
{
	return g4p_settle(fd, G4P_getdents64) ? G4P_NEXT(getdirentries)(fd, buffer, bytes, position) : -1;
}

int closedir(DIR *dir)
{
	struct g4p_stream *stream = ours(dir);
	struct g4p_calm calm;
	int rc;

	if (!stream)
		return G4P_NEXT(closedir)(dir);
	bool calmed = g4p_calm(&calm);
	g4p_stream_remove(stream);
	if (stream->dir)
		gpu4fs_closedir(stream->dir);
	if (stream->file)
		g4p_put(stream->file);
	if (calmed)
		g4p_restless(&calm);
	rc = stream->real ? G4P_NEXT(closedir)(stream->real) : close(stream->fd);
	stream->magic = 0;
	free(stream);
	return rc;
}

/* The next entry: 1, 0 at the end, or a negative errno. */
static int next_entry(struct g4p_stream *stream)
{
	struct gpu4fs_dirent found;
	struct g4p_calm calm;
	bool calmed = g4p_calm(&calm);
	int rc = gpu4fs_readdir(stream->dir, &found);

	if (rc == 1) {
		stream->position = (long)found.cookie;
		stream->entry.d_ino = found.ino;
		stream->entry.d_off = (off_t)found.cookie;
		stream->entry.d_reclen =
			(unsigned short)((offsetof(struct dirent, d_name) + found.name_bytes + 1 + 7) & ~(size_t)7);
		stream->entry.d_type = (unsigned char)found.type;
		memcpy(stream->entry.d_name, found.name, found.name_bytes + 1);
	}
	if (calmed)
		g4p_restless(&calm);
	g4p_count(G4P_readdir, G4P_ENGINE_ANSWER);
	return rc;
}

struct dirent *readdir(DIR *dir)
{
	struct g4p_stream *stream = ours(dir);

	if (!stream || stream->real)
		return G4P_NEXT(readdir)(stream ? stream->real : dir);
	int rc = next_entry(stream);
	if (rc < 0)
		errno = -rc;
	return rc == 1 ? &stream->entry : NULL;
}

int readdir_r(DIR *restrict dir, struct dirent *restrict entry, struct dirent **restrict result)
{
	struct g4p_stream *stream = ours(dir);

	if (!stream || stream->real) {
		static void *next; /* by name: the declaration calls it deprecated */
		return ((int (*)(DIR *, struct dirent *, struct dirent **))g4p_next(&next, "readdir_r"))(
			stream ? stream->real : dir, entry, result);
	}
	int rc = next_entry(stream);
	if (rc == 1)
		memcpy(entry, &stream->entry, stream->entry.d_reclen);
	*result = rc == 1 ? entry : NULL;
	return rc < 0 ? -rc : 0;
}

long telldir(DIR *dir)
{
	struct g4p_stream *stream = ours(dir);

	return stream && !stream->real ? stream->position : G4P_NEXT(telldir)(stream ? stream->real : dir);
}

void seekdir(DIR *dir, long position)
{
	struct g4p_stream *stream = ours(dir);

	if (!stream || stream->real) {
		G4P_NEXT(seekdir)(stream ? stream->real : dir, position);
		return;
	}
	stream->position = position;
	gpu4fs_seekdir(stream->dir, (uint64_t)position);
}

void rewinddir(DIR *dir)
{
	struct g4p_stream *stream = ours(dir);

	if (!stream || stream->real)
		G4P_NEXT(rewinddir)(stream ? stream->real : dir);
	else
		seekdir(dir, 0);
}

int dirfd(DIR *dir)
{
	struct g4p_stream *stream = ours(dir);

	return stream ? stream->fd : G4P_NEXT(dirfd)(dir);
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("readdir64", "readdir") SAME("readdir64_r", "readdir_r") SAME("scandirat64", "scandirat")
		SAME("getdirentries64", "getdirentries"));
