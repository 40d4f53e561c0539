/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams: a buffer of packed records (struct g4_dirent) filled by READDIR, handed out one by one. A stream
 * that is read to its end keeps asking the engine, so names made meanwhile appear, as in readdir(3).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/stat.h>

#include "client/client.h"

#define BUFFER_BYTES (32 * 1024)

struct gpu4fs_dir {
	gpu4fs_file *file;
	bool owns_file;
	uint32_t flags;
	uint64_t cookie;       /* of the last entry delivered */
	uint64_t filled, next; /* bytes in buffer; start of the next record */
	struct gpu4fs_stat stat;
	char name[G4C_NAME_MAX + 1];
	uint64_t buffer[BUFFER_BYTES / 8];
};

int gpu4fs_opendir_file(gpu4fs_file *file, uint32_t flags, gpu4fs_dir **out)
{
	gpu4fs_dir *dir;

	if (flags & ~(GPU4FS_DIR_STAT | GPU4FS_DIR_DOTS))
		return -EINVAL;
	if (!S_ISDIR(file->format))
		return -ENOTDIR;
	if (!(file->flags & G4_OPEN_READ))
		return -EBADF;
	dir = malloc(sizeof(*dir));
	if (!dir)
		return -ENOMEM;
	dir->file = file;
	dir->owns_file = false;
	dir->flags = flags;
	dir->cookie = 0;
	dir->filled = 0;
	dir->next = 0;
	__atomic_add_fetch(&file->fs->users, 1, __ATOMIC_RELAXED);
	*out = dir;
	return 0;
}

int gpu4fs_opendir(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t flags, gpu4fs_dir **out)
{
	gpu4fs_file *file;
	int rc;

	rc = gpu4fs_open(fs, at, path, O_RDONLY | O_DIRECTORY, 0, &file);
	if (rc)
		return rc;
	rc = gpu4fs_opendir_file(file, flags, out);
	if (rc) {
		gpu4fs_close(file);
		return rc;
	}
	(*out)->owns_file = true;
	return 0;
}

int gpu4fs_closedir(gpu4fs_dir *dir)
{
	gpu4fs *fs = dir->file->fs;
	int rc = dir->owns_file ? gpu4fs_close(dir->file) : 0;

	free(dir);
	__atomic_sub_fetch(&fs->users, 1, __ATOMIC_RELEASE);
	return rc;
}

/* Asks the engine for the records behind the cookie. */
static int fill(gpu4fs_dir *dir)
{
	struct g4_cmd cmd = {.op = G4_CMD_READDIR,
			     .cookie = dir->cookie,
			     .length = sizeof(dir->buffer),
			     .data = dir->buffer,
			     .flags = dir->flags & GPU4FS_DIR_STAT ? G4_READDIR_PLUS : 0,
			     .cred = &dir->file->fs->cred};
	int rc;

	g4c_set_node(&cmd, g4c_node_of_file(dir->file));
	rc = g4c_run(dir->file->engine, &cmd);
	dir->next = 0;
	dir->filled = 0;
	if (rc)
		return rc;
	if (cmd.value > sizeof(dir->buffer))
		return -EIO;
	dir->filled = cmd.value;
	return 0;
}

/* Takes the next record out of the buffer; -EIO if it does not fit there. */
static int take(gpu4fs_dir *dir, struct gpu4fs_dirent *out)
{
	const char *record = (const char *)dir->buffer + dir->next;
	uint64_t left = dir->filled - dir->next, used;
	struct g4_dirent head;
	struct g4_attr attr;

	if (left < sizeof(head))
		return -EIO;
	memcpy(&head, record, sizeof(head));
	used = sizeof(head) + (head.has_attr ? sizeof(attr) : 0);
	if (head.record_bytes > left || head.record_bytes % 8 || head.name_bytes > G4C_NAME_MAX ||
	    used + head.name_bytes > head.record_bytes)
		return -EIO;
	memcpy(dir->name, record + used, head.name_bytes);
	dir->name[head.name_bytes] = 0;
	dir->cookie = head.cookie;
	dir->next += head.record_bytes;
	*out = (struct gpu4fs_dirent){
		.ino = head.ino,
		.cookie = head.cookie,
		.name = dir->name,
		.name_bytes = head.name_bytes,
		.type = head.file_type,
	};
	if (head.has_attr && (dir->flags & GPU4FS_DIR_STAT)) {
		memcpy(&attr, record + sizeof(head), sizeof(attr));
		g4c_stat_from_attr(&attr, &dir->stat);
		out->stat = &dir->stat;
	}
	return 0;
}

static bool is_dot(const struct gpu4fs_dirent *entry)
{
	return entry->name[0] == '.' && (entry->name_bytes == 1 || (entry->name_bytes == 2 && entry->name[1] == '.'));
}

int gpu4fs_readdir(gpu4fs_dir *dir, struct gpu4fs_dirent *out)
{
	struct gpu4fs_dirent entry;
	int rc;

	do {
		if (dir->next >= dir->filled) {
			rc = fill(dir);
			if (rc || dir->filled == 0)
				return rc;
		}
		rc = take(dir, &entry);
		if (rc) {
			dir->next = dir->filled;
			return rc;
		}
	} while (is_dot(&entry) && !(dir->flags & GPU4FS_DIR_DOTS));
	*out = entry;
	return 1;
}

uint64_t gpu4fs_telldir(gpu4fs_dir *dir)
{
	return dir->cookie;
}

void gpu4fs_seekdir(gpu4fs_dir *dir, uint64_t cookie)
{
	dir->cookie = cookie;
	dir->next = 0;
	dir->filled = 0;
}
