/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches as the public headers and the engine have them: entries with pointers to paths, and the data of a BATCH (fs/command.h), which
 * has entries, attributes and text one behind the other. For host and GPU.
 */
#ifndef G4_CLIENT_BATCH_FORM_H
#define G4_CLIENT_BATCH_FORM_H

#include "client/convert.h"

#define G4C_BATCH_MOST 512u /* entries of a command: others that wait for the workgroup wait for so many */

struct g4c_batch {
	struct gpu4fs_batch_entry *entries;
	uint32_t flags; /* GPU4FS_BATCH_* */
	uint8_t *data;	/* aligned as a word */
	uint64_t room;	/* bytes of data */
};

G4_HD G4_INLINE uint64_t g4c_batch_path_bytes(const struct g4c_batch *batch, const char *path)
{
	uint64_t n = 0;

	while (path && n < batch->room && path[n])
		n++;
	return n;
}

G4_HD G4_INLINE uint64_t g4c_batch_text_bytes(const struct g4c_batch *batch, const struct gpu4fs_batch_entry *entry)
{
	return g4c_batch_path_bytes(batch, entry->path) +
	       (entry->op == GPU4FS_BATCH_RENAME ? g4c_batch_path_bytes(batch, entry->path2) : 0);
}

/* What the engine calls an operation; false: there is none such. */
G4_HD G4_INLINE bool g4c_batch_translate(const struct gpu4fs_batch_entry *entry, struct g4_batch_entry *out)
{
	switch ((enum gpu4fs_batch_op)entry->op) {
	case GPU4FS_BATCH_STAT:
	case GPU4FS_BATCH_LSTAT:
		out->op = G4_CMD_LOOKUP;
		out->mode = entry->op == GPU4FS_BATCH_LSTAT ? G4_RESOLVE_NOFOLLOW : 0;
		return true;
	case GPU4FS_BATCH_CREATE:
		out->op = G4_CMD_MKNOD;
		out->mode = entry->mode;
		return true;
	case GPU4FS_BATCH_MKDIR:
	case GPU4FS_BATCH_MKDIR_ALL:
		out->op = entry->op == GPU4FS_BATCH_MKDIR ? (uint32_t)G4_CMD_MKDIR : G4_BATCH_MKDIR_ALL;
		out->mode = entry->mode & G4C_MKDIR_MODE;
		return true;
	case GPU4FS_BATCH_UNLINK:
		out->op = G4_CMD_UNLINK;
		return true;
	case GPU4FS_BATCH_RMDIR:
		out->op = G4_CMD_RMDIR;
		return true;
	case GPU4FS_BATCH_RENAME:
		out->op = G4_CMD_RENAME;
		out->mode = entry->mode;
		return true;
	}
	return false;
}

/* Whether one entry is more than a command takes. */
G4_HD G4_INLINE bool g4c_batch_is_too_long(const struct g4c_batch *batch, const struct gpu4fs_batch_entry *entry)
{
	return g4_batch_head_bytes(1, entry->stat ? G4_BATCH_ATTR : 0) + g4c_batch_text_bytes(batch, entry) >
	       batch->room;
}

/* Entries from `first` on that one command takes: how many, at least 1; *flags: for the command. */
G4_HD G4_INLINE uint32_t g4c_batch_fitting(const struct g4c_batch *batch, uint32_t first, uint32_t count,
					   uint32_t *flags)
{
	uint64_t text = 0;
	uint32_t n = 0;

	*flags = batch->flags & GPU4FS_BATCH_STOP ? G4_BATCH_STOP : 0;
	while (n < G4C_BATCH_MOST && first + n < count) {
		const uint32_t more = *flags | (batch->entries[first + n].stat ? G4_BATCH_ATTR : 0);

		text += g4c_batch_text_bytes(batch, &batch->entries[first + n]);
		if (n > 0 && g4_batch_head_bytes(n + 1, more) + text > batch->room)
			break;
		*flags = more;
		n++;
	}
	return n;
}

G4_HD G4_INLINE void g4c_batch_append(const struct g4c_batch *batch, uint64_t *at, const char *path, uint64_t bytes)
{
	for (uint64_t k = 0; k < bytes; k++)
		batch->data[*at + k] = (uint8_t)path[k];
	*at += bytes;
}

/* Fills the data; its length. */
G4_HD G4_INLINE uint64_t g4c_batch_pack(const struct g4c_batch *batch, uint32_t first, uint32_t count, uint32_t flags)
{
	struct g4_batch_entry *out = (struct g4_batch_entry *)(void *)batch->data;
	uint64_t at = g4_batch_head_bytes(count, flags);

	memset(batch->data, 0, at);
	for (uint32_t k = 0; k < count; k++) {
		const struct gpu4fs_batch_entry *entry = &batch->entries[first + k];

		if (!g4c_batch_translate(entry, &out[k]))
			out[k].op = UINT32_MAX;
		out[k].path_at = (uint32_t)at;
		out[k].path_bytes = (uint32_t)g4c_batch_path_bytes(batch, entry->path);
		out[k].path2_bytes = (uint32_t)(g4c_batch_text_bytes(batch, entry) - out[k].path_bytes);
		g4c_batch_append(batch, &at, entry->path, out[k].path_bytes);
		g4c_batch_append(batch, &at, entry->path2, out[k].path2_bytes);
	}
	return at;
}

/* An entry's results, but for the result itself: 0, or the engine's code. */
G4_HD G4_INLINE int g4c_batch_unpack(const struct g4c_batch *batch, uint32_t first, uint32_t count, uint32_t flags,
				     uint32_t k)
{
	const struct g4_batch_entry *in = (const struct g4_batch_entry *)(const void *)batch->data;
	const struct g4_attr *attrs = (const struct g4_attr *)(const void *)(in + count);
	struct gpu4fs_batch_entry *entry = &batch->entries[first + k];

	entry->component = in[k].component;
	entry->made = in[k].made;
	if (entry->stat && in[k].status == 0 && (flags & G4_BATCH_ATTR))
		g4c_stat_from_attr(&attrs[k], entry->stat);
	/* an operation that the engine does not know is one that we do not */
	return in[k].status == -G4_E_NOSYS ? -G4_E_INVAL : in[k].status < 0 ? in[k].status : 0;
}

/* Entries that were not tried: a negative errno. */
G4_HD G4_INLINE void g4c_batch_fail(const struct g4c_batch *batch, uint32_t first, uint32_t end, int rc)
{
	for (uint32_t k = first; k < end; k++) {
		batch->entries[k].result = rc;
		batch->entries[k].component = GPU4FS_BATCH_AT_NAME;
		batch->entries[k].made = 0;
	}
}

#endif
