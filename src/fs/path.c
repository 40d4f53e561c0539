/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting paths. */
#include "fs/path.h"

#include "base/error.h"

G4_FN static enum g4_last last_of(const char *name, uint32_t bytes)
{
	if (bytes == 0)
		return G4_LAST_ROOT;
	if (name[0] != '.' || bytes > 2)
		return G4_LAST_NAME;
	if (bytes == 1)
		return G4_LAST_DOT;
	return name[1] == '.' ? G4_LAST_DOTDOT : G4_LAST_NAME;
}

G4_FN int g4_path_cut(const char *path, uint64_t bytes, struct g4_path_split *out)
{
	return bytes >= G4_PATH_MAX ? -G4_E_NAMETOOLONG : g4_path_cut_long(path, (uint32_t)bytes, out);
}

G4_FN int g4_path_cut_long(const char *path, uint32_t bytes, struct g4_path_split *out)
{
	uint32_t end = bytes;

	if (bytes == 0)
		return -G4_E_NOENT;
	while (end > 0 && path[end - 1] == '/')
		end--;
	uint32_t start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	out->directory = path;
	out->directory_bytes = start;
	out->name = path + start;
	out->name_bytes = end - start;
	out->last = last_of(out->name, out->name_bytes);
	out->absolute = path[0] == '/';
	out->slash = end < bytes;
	return out->name_bytes > G4_NAME_MAX ? -G4_E_NAMETOOLONG : 0;
}

G4_FN bool g4_path_is_in(const struct g4_path_split *path, const char *directory, uint32_t bytes)
{
	return path->directory_bytes == bytes && g4_bytes_equal(path->directory, directory, bytes);
}

G4_FN int g4_path_check_last(enum g4_last last, uint32_t op)
{
	if (last == G4_LAST_NAME)
		return 0;
	switch (op) {
	case G4_CMD_UNLINK:
		return -G4_E_ISDIR;
	case G4_CMD_RENAME:
		return -G4_E_BUSY;
	case G4_CMD_RMDIR:
		return last == G4_LAST_DOT ? -G4_E_INVAL : last == G4_LAST_DOTDOT ? -G4_E_NOTEMPTY : -G4_E_BUSY;
	default: /* a name is made */
		return -G4_E_EXIST;
	}
}
