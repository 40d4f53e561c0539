/* SPDX-License-Identifier: Apache-2.0 */
/* A connection beside a mount of the same file system. */
#include "client/beneath.h"

#include <fcntl.h>
#include <unistd.h>

#include "client/client.h"
#include "ring/client_host.h"
#include "ring/serve_host.h"

void g4c_stay_beneath(gpu4fs *fs)
{
	fs->resolve_flags = G4_RESOLVE_BENEATH;
}

void g4c_deliver_by(gpu4fs *fs, bool (*by)(void *to, const void *from, size_t bytes))
{
	fs->deliver = by;
	g4_ring_client_deliver_by(g4_connection_ring(g4_engine_connection(fs->mount->engine)), by);
}

void g4c_set_umask(gpu4fs *fs, uint32_t umask)
{
	fs->cred.umask = umask & 0777u;
}

int g4c_hand_over(gpu4fs_file *file, int flags)
{
	int none = -1;

	return g4c_hand_over_as(file, flags, &none);
}

int g4c_hand_over_as(gpu4fs_file *file, int flags, int *instead_of)
{
	struct g4_connection *connection = g4_engine_connection(file->engine);
	int fd = connection ? g4_connection_hand_over(connection, file->handle, (uint32_t)flags, instead_of) :
			      -G4_E_NOTSUP;

	return fd < 0 ? -g4_errno(fd) : fd;
}

bool g4c_is_directory(const gpu4fs_file *file)
{
	return S_ISDIR(file->format);
}

uint64_t g4c_inode_of(const gpu4fs_file *file)
{
	return file->ino;
}

static int root_of(gpu4fs *fs)
{
	gpu4fs_file *root;
	int fd = gpu4fs_open(fs, NULL, "/", O_RDONLY | O_DIRECTORY, 0, &root);

	if (fd < 0)
		return fd;
	fd = g4c_hand_over(root, 0);
	gpu4fs_close(root);
	return fd;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool g4c_is_mounted_at(gpu4fs *fs, const char *directory, struct stat *found, bool *handed)
{
	struct gpu4fs_stat before, after;
	struct stat root;
	int fd = root_of(fs);

	*handed = fd >= 0;
	if (fd >= 0) {
		bool same = fstat(fd, &root) == 0 && stat(directory, found) == 0 && root.st_dev == found->st_dev &&
			    root.st_ino == found->st_ino;
		close(fd);
		return same;
	}
	/* others may be changing it */
	return gpu4fs_stat(fs, NULL, "/", &before) == 0 && stat(directory, found) == 0 &&
	       gpu4fs_stat(fs, NULL, "/", &after) == 0 && found->st_ino == before.ino &&
	       !is_later(before.ctime, found->st_ctim) && !is_later(found->st_ctim, after.ctime);
}

bool g4c_is_over(const gpu4fs *fs)
{
	return g4_ring_client_is_stopped(g4_connection_ring(g4_engine_connection(fs->mount->engine)));
}

uint32_t g4c_mount_changes(const gpu4fs *fs)
{
	return g4_ring_client_mount_changes(g4_connection_ring(g4_engine_connection(fs->mount->engine)));
}

void g4c_end(gpu4fs *fs)
{
	g4_connection_end(g4_engine_connection(fs->mount->engine));
}

int g4c_move_socket(gpu4fs *fs, int least)
{
	return g4_connection_move_socket(g4_engine_connection(fs->mount->engine), least);
}

int g4c_socket(const gpu4fs *fs)
{
	return g4_connection_socket(g4_engine_connection(fs->mount->engine));
}

void g4c_forsake(gpu4fs *fs, bool shared)
{
	g4_connection_forsake(g4_engine_connection(fs->mount->engine), shared);
}
