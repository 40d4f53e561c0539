/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams: a buffer of packed records (struct g4_dirent) filled by READDIR, handed out one by one. A buffer with room for one more record has the
 * last ones, so the end is known without a command; a stream that is read on behind it asks the engine, so names made meanwhile appear.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/stat.h>

#include "client/client.h"

#define BUFFER_BYTES (32 * 1024)
#define RECORD_MOST_BYTES (sizeof(struct g4_dirent) + sizeof(struct g4_attr) + G4C_NAME_MAX + 1)

struct gpu4fs_dir {
	gpu4fs_file *file;
	bool owns_file;
	uint32_t flags;
	uint64_t cookie;       /* of the last entry delivered */
	uint64_t filled, next; /* bytes in buffer; start of the next record */
	bool ends;	       /* behind those in buffer there were no more */
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
	dir->ends = false;
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

/* A record of the buffer, and where its name begins; -EIO if it does not fit there. */
static int record_at(const gpu4fs_dir *dir, uint64_t at, struct g4_dirent *head, const char **name)
{
	const char *record = (const char *)dir->buffer + at;
	const uint64_t left = dir->filled - at;

	if (left < sizeof(*head))
		return -EIO;
	memcpy(head, record, sizeof(*head));
	const uint64_t used = sizeof(*head) + (head->has_attr ? sizeof(struct g4_attr) : 0);
	if (head->record_bytes > left || head->record_bytes % 8 || head->name_bytes > G4C_NAME_MAX ||
	    used + head->name_bytes > head->record_bytes)
		return -EIO;
	*name = record + used;
	return 0;
}

static bool is_dot(const char *name, uint32_t bytes)
{
	return name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.'));
}

/* Who lists them may want to know more of them. */
static void tell_names(const gpu4fs_dir *dir)
{
	struct g4c_foresight *foresight = dir->filled > 0 && !(dir->flags & GPU4FS_DIR_STAT) ?
						  g4c_foresight_begin(dir->file, dir->cookie != 0) :
						  NULL;
	struct g4_dirent head;
	const char *name;

	if (!foresight)
		return;
	for (uint64_t at = 0; at < dir->filled && record_at(dir, at, &head, &name) == 0; at += head.record_bytes)
		if (!is_dot(name, head.name_bytes))
			g4c_foresight_add(foresight, name, head.name_bytes);
	g4c_foresight_end(foresight);
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
	dir->ends = dir->filled + RECORD_MOST_BYTES <= sizeof(dir->buffer);
	tell_names(dir);
	return 0;
}

/* Takes the next record out of the buffer; -EIO if it does not fit there. */
static int take(gpu4fs_dir *dir, struct gpu4fs_dirent *out)
{
	const char *record = (const char *)dir->buffer + dir->next, *name;
	struct g4_dirent head;
	struct g4_attr attr;
	const int rc = record_at(dir, dir->next, &head, &name);

	if (rc)
		return rc;
	memcpy(dir->name, name, head.name_bytes);
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

int gpu4fs_readdir(gpu4fs_dir *dir, struct gpu4fs_dirent *out)
{
	struct gpu4fs_dirent entry;
	int rc;

	do {
		if (dir->next >= dir->filled) {
			if (dir->ends && dir->filled > 0) {
				gpu4fs_seekdir(dir, dir->cookie); /* who goes on asks again */
				return 0;
			}
			rc = fill(dir);
			if (rc || dir->filled == 0)
				return rc;
		}
		rc = take(dir, &entry);
		if (rc) {
			dir->next = dir->filled;
			return rc;
		}
	} while (is_dot(entry.name, entry.name_bytes) && !(dir->flags & GPU4FS_DIR_DOTS));
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
	dir->ends = false;
}
