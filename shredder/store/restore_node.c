/* SPDX-License-Identifier: Apache-2.0 */
/* What a restored file or directory is besides its contents, and what is told about one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "store/restore_parts.h"

static const char *above(const void **at)
{
	const struct restore_folder *folder = (const struct restore_folder *)*at;

	*at = folder != NULL ? folder->parent : NULL;
	return folder != NULL ? folder->name : NULL;
}

void restore_note(struct restore *op, const struct restore_folder *folder, const char *name, const char *sentence)
{
	char *path = store_path_up(folder, name, above);

	atomic_fetch_add(&op->errors, 1);
	pthread_mutex_lock(&op->notes);
	op->options->note(op->options->user, path[0] != 0 ? path : "/", sentence);
	pthread_mutex_unlock(&op->notes);
	free(path);
}

void restore_note_errno(struct restore *op, const struct restore_folder *folder, const char *name, const char *what)
{
	char sentence[256];

	snprintf(sentence, sizeof(sentence), "%s: %s", what, strerror(errno));
	restore_note(op, folder, name, sentence);
}

static bool is_ordinary(const char *name)
{
	return strncmp(name, "user.", 5) == 0 || strncmp(name, "system.posix_acl", 16) == 0;
}

/* Those of an old file, and access lists that the target's directory handed down, go when the snapshot does not have them. */
static void drop_attributes(int fd, const struct store_node *node)
{
	char names[4096];
	const ssize_t bytes = flistxattr(fd, names, sizeof(names));

	for (const char *name = names; bytes > 0 && name < names + bytes; name += strlen(name) + 1)
		if (is_ordinary(name) && !store_attribute_there(node, name))
			fremovexattr(fd, name);
}

static bool attributes_set(const struct restore *op, int fd, const struct store_node *node)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;
	char names[4096], text[STORE_NAME_MAX + 1];
	struct store_buf room = {0}, there = {0};
	const ssize_t bytes = flistxattr(fd, names, sizeof(names));
	bool set = bytes >= 0 || errno == EOPNOTSUPP;

	for (const char *name = names; bytes > 0 && name < names + bytes; name += strlen(name) + 1)
		set = set && (!is_ordinary(name) || store_attribute_there(node, name));
	while (set && in.at != in.end && store_attribute_next(&in, &key, &key_bytes, &value, &value_bytes)) {
		memcpy(text, key, key_bytes);
		text[key_bytes] = 0;
		value = store_owner_acl_here(op->owners, text, value, value_bytes, &room);
		there.size = 0;
		void *have = store_buf_reserve(&there, value_bytes + 1);
		set = (!op->as_root && !is_ordinary(text)) ||
		      (fgetxattr(fd, text, have, value_bytes + 1) == (ssize_t)value_bytes &&
		       memcmp(have, value, value_bytes) == 0);
	}
	store_buf_free(&room);
	store_buf_free(&there);
	return set;
}

static bool stat_is_set(const struct restore *op, const struct stat *st, const struct store_node *node)
{
	return (S_ISLNK(st->st_mode) || (st->st_mode & 07777) == node->mode) &&
	       st->st_mtim.tv_sec == node->mtime.seconds && (uint32_t)st->st_mtim.tv_nsec == node->mtime.ns &&
	       (!op->as_root || (st->st_uid == store_owner_here(op->owners, STORE_USER, node->uid) &&
				 st->st_gid == store_owner_here(op->owners, STORE_GROUP, node->gid)));
}

bool restore_is_set(const struct restore *op, int fd, const struct store_node *node)
{
	struct stat st;

	return fstat(fd, &st) == 0 && stat_is_set(op, &st, node) && attributes_set(op, fd, node);
}

static bool leads_there(const struct restore_folder *folder, const char *name, const struct store_node *node)
{
	char target[STORE_TARGET_MAX + 1];
	const ssize_t bytes = readlinkat(folder->fd, name, target, sizeof(target));

	return bytes == (ssize_t)node->target_bytes && memcmp(target, node->target, node->target_bytes) == 0;
}

bool restore_other_is_set(const struct restore *op, const struct restore_folder *folder, const char *name,
			  const struct store_node *node)
{
	static const mode_t types[] = {[STORE_NODE_LINK] = S_IFLNK,
				       [STORE_NODE_CHAR] = S_IFCHR,
				       [STORE_NODE_BLOCK] = S_IFBLK,
				       [STORE_NODE_FIFO] = S_IFIFO,
				       [STORE_NODE_SOCKET] = S_IFSOCK};
	char path[64 + STORE_NAME_MAX];
	struct stat st;

	if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || (st.st_mode & S_IFMT) != types[node->type] ||
	    st.st_nlink != 1 || node->links > 1 || node->attributes_bytes > 0 || !stat_is_set(op, &st, node))
		return false;
	if (node->type == STORE_NODE_LINK && !leads_there(folder, name, node))
		return false;
	if ((node->type == STORE_NODE_CHAR || node->type == STORE_NODE_BLOCK) &&
	    st.st_rdev != makedev(node->major, node->minor))
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder->fd, name);
	return llistxattr(path, NULL, 0) <= 0;
}

/* Attributes by descriptor, or by path for what cannot be opened. */
static void set_attributes(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
			   const char *path, const struct store_node *node)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;
	char text[STORE_NAME_MAX + 1];
	struct store_buf room = {0};

	while (in.at != in.end && store_attribute_next(&in, &key, &key_bytes, &value, &value_bytes)) {
		memcpy(text, key, key_bytes);
		text[key_bytes] = 0;
		value = store_owner_acl_here(op->owners, text, value, value_bytes, &room);
		if ((fd >= 0 ? fsetxattr(fd, text, value, value_bytes, 0) :
			       lsetxattr(path, text, value, value_bytes, 0)) == 0)
			continue;
		/* what only root or a security module may set is no fault of an ordinary user's restore */
		if (!op->as_root && !is_ordinary(text))
			continue;
		char sentence[STORE_NAME_MAX + 64];
		snprintf(sentence, sizeof(sentence), "attribute %s: %s", text, strerror(errno));
		restore_note(op, folder, name, sentence);
	}
	store_buf_free(&room);
}

static void times_of(const struct store_node *node, struct timespec times[2])
{
	times[0] = (struct timespec){.tv_nsec = UTIME_NOW};
	if (node->flags & STORE_ATIME)
		times[0] = (struct timespec){node->atime.seconds, node->atime.ns};
	times[1] = (struct timespec){node->mtime.seconds, node->mtime.ns};
}

void restore_set_atime(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
		       const struct store_node *node)
{
	struct timespec times[2];

	times_of(node, times);
	times[1] = (struct timespec){.tv_nsec = UTIME_OMIT};
	if ((node->flags & STORE_ATIME) && futimens(fd, times) != 0)
		restore_note_errno(op, folder, name, "times");
}

/* Owner first, since changing it clears mode bits; the access list before the mode, which is a part of it; times last. */
void restore_set_open(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
		      const struct store_node *node, bool fresh)
{
	struct timespec times[2];

	/* its time of change stays as well, by which a backup knows that it need not read it */
	if (!fresh && restore_is_set(op, fd, node)) {
		restore_set_atime(op, folder, name, fd, node);
		return;
	}
	if (op->as_root && fchown(fd, store_owner_here(op->owners, STORE_USER, node->uid),
				  store_owner_here(op->owners, STORE_GROUP, node->gid)) != 0)
		restore_note_errno(op, folder, name, "owner");
	drop_attributes(fd, node);
	set_attributes(op, folder, name, fd, NULL, node);
	if (fchmod(fd, node->mode) != 0)
		restore_note_errno(op, folder, name, "mode");
	times_of(node, times);
	if (futimens(fd, times) != 0)
		restore_note_errno(op, folder, name, "times");
}

void restore_set_closed(struct restore *op, const struct restore_folder *folder, const char *name,
			const struct store_node *node)
{
	char path[64 + STORE_NAME_MAX];
	struct timespec times[2];

	if (op->as_root && fchownat(folder->fd, name, store_owner_here(op->owners, STORE_USER, node->uid),
				    store_owner_here(op->owners, STORE_GROUP, node->gid), AT_SYMLINK_NOFOLLOW) != 0)
		restore_note_errno(op, folder, name, "owner");
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder->fd, name);
	set_attributes(op, folder, name, -1, path, node);
	/* what was made here a moment ago is no link, unless somebody else put one there: root may not restore into such a place */
	if (node->type != STORE_NODE_LINK && fchmodat(folder->fd, name, node->mode, 0) != 0)
		restore_note_errno(op, folder, name, "mode");
	times_of(node, times);
	if (utimensat(folder->fd, name, times, AT_SYMLINK_NOFOLLOW) != 0)
		restore_note_errno(op, folder, name, "times");
}
