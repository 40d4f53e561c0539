/* SPDX-License-Identifier: Apache-2.0 */
/* A connection beside a mount of the same file system. */
#include "client/beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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
	return g4c_hand_over_in(file, flags, NULL);
}

int g4c_hand_over_in(gpu4fs_file *file, int flags, const struct g4_make_room *room)
{
	struct g4_connection *connection = g4_engine_connection(file->engine);
	int fd = connection ? g4_connection_hand_over(connection, file->handle, (uint32_t)flags, room) : -G4_E_NOTSUP;

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

bool g4c_identify(int at, const char *path, dev_t *device, uint64_t *ino)
{
	struct statx found;

	if (statx(at, path, AT_STATX_DONT_SYNC | (*path ? 0 : AT_EMPTY_PATH), STATX_INO, &found) != 0)
		return false;
	*device = makedev(found.stx_dev_major, found.stx_dev_minor);
	*ino = found.stx_ino;
	return true;
}

static bool is_root_of(const struct g4_mounted *mounted, const char *directory, dev_t *device)
{
	uint64_t ino;

	return mounted->is_there && g4c_identify(AT_FDCWD, directory, device, &ino) && *device == mounted->device &&
	       ino == mounted->ino;
}

bool g4c_is_mounted_at(const gpu4fs *fs, const char *directory, dev_t *device, bool *handed)
{
	const struct g4_mounted *mounted = g4_connection_mounted(g4_engine_connection(fs->mount->engine));

	*handed = mounted->hands_over;
	return is_root_of(mounted, directory, device);
}

int g4c_serves_mount_at(const char *socket, const char *directory, bool *serves)
{
	struct g4_mounted mounted;
	dev_t device;
	size_t bytes;
	char *message = g4c_message(&bytes);
	const int rc = g4_connect_to_look(socket, &mounted, message, bytes);

	*serves = rc == 0 && is_root_of(&mounted, directory, &device);
	return rc < 0 ? -g4_errno(rc) : 0;
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
