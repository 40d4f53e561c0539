/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cp_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALUE_BYTES (64u << 10) /* of the largest attribute */

static const char access_list[] = "system.posix_acl_access", default_list[] = "system.posix_acl_default";

bool g4_cp_parse_kept(const char *list, uint32_t *kept)
{
	static const struct {
		const char *word;
		uint32_t bits;
	} words[] = {{"mode", G4_CP_MODE},   {"ownership", G4_CP_OWNERSHIP}, {"timestamps", G4_CP_TIMESTAMPS},
		     {"links", G4_CP_LINKS}, {"xattr", G4_CP_XATTR},	     {"all", G4_CP_ALL}};

	*kept = 0;
	for (;;) {
		const size_t bytes = strcspn(list, ",");
		uint32_t k = 0;
		while (k < sizeof(words) / sizeof(words[0]) &&
		       (strlen(words[k].word) != bytes || strncmp(words[k].word, list, bytes) != 0))
			k++;
		if (k == sizeof(words) / sizeof(words[0]))
			return false;
		*kept |= words[k].bits;
		if (list[bytes] == 0)
			return true;
		list += bytes + 1;
	}
}

/* ------------------------------------------------------------------ attributes */

static int64_t list_of(gpu4fs *fs, const struct g4_cp_name *of, char *names, size_t bytes)
{
	return of->file != NULL ? gpu4fs_flistxattr(of->file, names, bytes) :
				  gpu4fs_llistxattr(fs, of->at, of->name, names, bytes);
}

static int64_t value_of(gpu4fs *fs, const struct g4_cp_name *of, const char *name, void *value)
{
	return of->file != NULL ? gpu4fs_fgetxattr(of->file, name, value, VALUE_BYTES) :
				  gpu4fs_lgetxattr(fs, of->at, of->name, name, value, VALUE_BYTES);
}

static int64_t set_value(gpu4fs *fs, const struct g4_cp_name *of, const char *name, const void *value, int64_t bytes)
{
	return of->file != NULL ? gpu4fs_fsetxattr(of->file, name, value, (size_t)bytes, 0) :
				  gpu4fs_lsetxattr(fs, of->at, of->name, name, value, (size_t)bytes, 0);
}

static int64_t remove_value(gpu4fs *fs, const struct g4_cp_name *of, const char *name)
{
	const int rc = of->file != NULL ? gpu4fs_fremovexattr(of->file, name) :
					  gpu4fs_lremovexattr(fs, of->at, of->name, name);

	return rc == -ENODATA ? 0 : rc;
}

static bool is_kept(uint32_t kept, const char *name, bool root)
{
	if (strncmp(name, "system.posix_acl_", 17) == 0)
		return kept & G4_CP_MODE;
	return (kept & G4_CP_XATTR) && (root || strncmp(name, "user.", 5) == 0);
}

/* One that goes between the list and the value is gone. */
static int64_t copy_value(gpu4fs *fs, const struct g4_cp_name *from, const struct g4_cp_name *to, const char *name,
			  void *value)
{
	const int64_t got = value_of(fs, from, name, value);

	if (got < 0)
		return got == -ENODATA ? 0 : got;
	return set_value(fs, to, name, value, got);
}

/* The source's lists, or where it has none no others: a copy inherits some from its directory. */
static int64_t copy_lists(gpu4fs *fs, const struct g4_cp_name *from, const struct g4_cp_name *to, uint32_t mode,
			  void *value)
{
	const char *const lists[] = {access_list, default_list};
	const uint32_t count = S_ISLNK(mode) ? 0 : S_ISDIR(mode) ? 2 : 1;
	int64_t rc = 0;

	for (uint32_t k = 0; k < count && rc == 0; k++) {
		const int64_t got = value_of(fs, from, lists[k], value);
		if (got == -ENODATA)
			rc = remove_value(fs, to, lists[k]);
		else
			rc = got < 0 ? got : set_value(fs, to, lists[k], value, got);
	}
	return rc;
}

static int64_t copy_xattrs(gpu4fs *fs, uint32_t kept, const struct g4_cp_name *from, const struct g4_cp_name *to,
			   uint32_t mode, bool root)
{
	int64_t bytes = kept & G4_CP_XATTR ? list_of(fs, from, NULL, 0) : 0;
	int64_t rc = bytes < 0 ? bytes : 0;
	void *value = malloc(VALUE_BYTES);
	char *names = malloc(bytes > 0 ? (size_t)bytes : 1);

	if (value == NULL || names == NULL)
		rc = -ENOMEM;
	if (rc == 0 && bytes > 0) {
		bytes = list_of(fs, from, names, (size_t)bytes);
		rc = bytes < 0 ? bytes : 0;
	}
	for (int64_t at = 0; rc == 0 && at < bytes; at += (int64_t)strlen(names + at) + 1)
		if (is_kept(kept & ~G4_CP_MODE, names + at, root))
			rc = copy_value(fs, from, to, names + at, value);
	if (rc == 0 && (kept & G4_CP_MODE))
		rc = copy_lists(fs, from, to, mode, value);
	free(names);
	free(value);
	return rc;
}

/* ------------------------------------------------------------------ all */

static int64_t set_mode(gpu4fs *fs, const struct g4_cp_name *to, uint32_t mode)
{
	return to->file != NULL ? gpu4fs_fchmod(to->file, mode) : gpu4fs_chmod(fs, to->at, to->name, mode);
}

static pthread_once_t umask_once = PTHREAD_ONCE_INIT;
static mode_t process_umask;

/* Reading it changes it for a moment: several threads would take each other's. */
static void read_umask(void)
{
	process_umask = umask(077);
	umask(process_umask);
}

static uint32_t umask_now(void)
{
	pthread_once(&umask_once, read_umask);
	return process_umask;
}

int64_t g4_cp_keep(gpu4fs *fs, uint32_t kept, const struct g4_cp_name *from, const struct gpu4fs_stat *stat,
		   const struct g4_cp_name *to, bool is_new)
{
	const struct timespec times[2] = {stat->atime, stat->mtime};
	const bool root = geteuid() == 0;
	uint32_t mode = stat->mode & 07777;
	int64_t rc = 0;

	if (kept & G4_CP_OWNERSHIP) {
		rc = to->file != NULL ? gpu4fs_fchown(to->file, stat->uid, stat->gid) :
					gpu4fs_chown(fs, to->at, to->name, stat->uid, stat->gid, AT_SYMLINK_NOFOLLOW);
		if (rc == -EPERM && !root) {
			mode &= ~(uint32_t)(S_ISUID | S_ISGID);
			rc = 0;
		}
	}
	if (rc == 0 && (kept & (G4_CP_MODE | G4_CP_XATTR)))
		rc = copy_xattrs(fs, kept, from, to, stat->mode, root);
	if (rc == 0 && !S_ISLNK(stat->mode)) {
		if (kept & G4_CP_MODE)
			rc = set_mode(fs, to, mode);
		else if ((kept & G4_CP_OWNERSHIP) && is_new)
			rc = set_mode(fs, to, mode & ~umask_now() & 01777);
	}
	if (rc == 0 && (kept & G4_CP_TIMESTAMPS))
		rc = to->file != NULL ? gpu4fs_futimens(to->file, times) :
					gpu4fs_utimens(fs, to->at, to->name, times, AT_SYMLINK_NOFOLLOW);
	return rc;
}
