/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata and extended attributes of what a backup meets, as its entry has them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "store/backup_parts.h"

static struct store_time time_of(const struct timespec *time)
{
	return (struct store_time){time->tv_sec, (uint32_t)time->tv_nsec};
}

/* Numbers devices in the order in which they come: the kernel's numbers change with every boot. */
uint64_t backup_device_number(struct backup *op, dev_t device)
{
	size_t i = 0;

	pthread_mutex_lock(&op->tree);
	while (i < op->devices_count && op->devices[i] != device)
		i++;
	if (i == op->devices_count) {
		op->devices = (dev_t *)store_realloc(op->devices, (i + 1) * sizeof(*op->devices));
		op->devices[op->devices_count++] = device;
	}
	pthread_mutex_unlock(&op->tree);
	return i;
}

/* ----------------------------------------------------------------------------------------------------- attributes */

int backup_read_attributes(int fd, const char *path, struct store_buf *out, uint64_t *count)
{
	char small[1024], *names = small;
	ssize_t bytes = fd >= 0 ? flistxattr(fd, small, sizeof(small)) : llistxattr(path, small, sizeof(small));

	out->size = 0;
	*count = 0;
	if (bytes < 0 && errno == ERANGE) {
		names = (char *)store_alloc(STORE_VALUE_MAX);
		bytes = fd >= 0 ? flistxattr(fd, names, STORE_VALUE_MAX) : llistxattr(path, names, STORE_VALUE_MAX);
	}
	if (bytes < 0) {
		if (names != small)
			free(names);
		return errno == ENOTSUP || errno == EACCES || errno == EPERM ? 0 : -1;
	}
	uint8_t *value = bytes > 0 ? (uint8_t *)store_alloc(STORE_VALUE_MAX) : NULL;
	for (const char *name = names; name < names + bytes; name += strlen(name) + 1) {
		const ssize_t size = fd >= 0 ? fgetxattr(fd, name, value, STORE_VALUE_MAX) :
					       lgetxattr(path, name, value, STORE_VALUE_MAX);

		if (size < 0) /* removed meanwhile, or not for us */
			continue;
		store_buf_string(out, name, strlen(name));
		store_buf_string(out, value, (size_t)size);
		++*count;
	}
	free(value);
	if (names != small)
		free(names);
	return 0;
}

void backup_note_owners(struct backup *op, const struct store_node *node)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	const uint8_t *name, *value;
	size_t name_bytes, value_bytes;

	store_owner_note(op->owners, STORE_USER, node->uid);
	store_owner_note(op->owners, STORE_GROUP, node->gid);
	while (in.at != in.end && store_attribute_next(&in, &name, &name_bytes, &value, &value_bytes))
		store_owner_note_acl(op->owners, name, name_bytes, value, value_bytes);
}

void backup_set_atime(const struct backup *op, struct store_node *node, const struct stat *st)
{
	node->flags &= (uint8_t)~STORE_ATIME;
	if (!op->options->with_atime)
		return;
	node->flags |= STORE_ATIME;
	node->atime = time_of(&st->st_atim);
}

void backup_describe(struct backup *op, struct store_node *node, const struct stat *st, const char *name,
		     const struct store_buf *attributes, uint64_t attributes_count)
{
	memset(node, 0, sizeof(*node));
	node->name = (const uint8_t *)name;
	node->name_bytes = strlen(name);
	node->mode = st->st_mode & 07777;
	node->uid = st->st_uid;
	node->gid = st->st_gid;
	node->mtime = time_of(&st->st_mtim);
	backup_set_atime(op, node, st);
	node->size = 0;
	if (!S_ISDIR(st->st_mode)) {
		node->ctime = time_of(&st->st_ctim);
		node->inode = st->st_ino;
		if (st->st_nlink > 1) {
			node->flags |= STORE_LINKED;
			node->device = backup_device_number(op, st->st_dev);
			node->links = st->st_nlink;
		}
	}
	if (attributes_count > 0) {
		node->flags |= STORE_ATTRIBUTES;
		node->attributes = attributes->data;
		node->attributes_bytes = attributes->size;
		node->attributes_count = attributes_count;
	}
	backup_note_owners(op, node);
}
