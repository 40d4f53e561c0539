/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the kernel. Nothing that is served can change, so the kernel may keep what it has seen; only the root's entries come and go.
 * Devices are shown and cannot be opened (nodev), and no program gets another user's rights (nosuid).
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "cli/mounted.h"
#include "cli/mounted_parts.h"

#define FOREVER_S 86400.0
#define ROOT_S 1.0
/* Of a file's parts every so manieth is remembered with its offset. */
#define MARK_EVERY 64

struct mounted {
	struct mounted_cache cache;
	struct mounted_tree tree;
	struct opened *files; /* under the tree's mutex: a session may end before the kernel has closed what is open */
	void (*ready)(void *user);
	void *user;
};

/* A file that is open. */
struct opened {
	struct opened *next, **link; /* in mounted.files */
	struct store_buf content;
	struct mark {
		uint64_t offset;
		struct store_in in;
	} * marks;
	size_t count;
	uint64_t size;
};

static struct mounted *mounted_of(fuse_req_t request)
{
	return (struct mounted *)fuse_req_userdata(request);
}

static mode_t type_bits(uint8_t type)
{
	static const mode_t bits[] = {0, S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK};

	return type < sizeof(bits) / sizeof(*bits) ? bits[type] : 0;
}

static void fill_stat(const struct store_node *node, uint64_t shown, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = shown;
	st->st_mode = type_bits(node->type) | node->mode;
	st->st_nlink = (node->flags & STORE_LINKED) ? (nlink_t)node->links : node->type == STORE_NODE_DIR ? 2 : 1;
	st->st_uid = node->uid;
	st->st_gid = node->gid;
	st->st_size = (off_t)(node->type == STORE_NODE_LINK ? node->target_bytes : node->size);
	st->st_blksize = 65536;
	if (node->type == STORE_NODE_FILE) {
		struct store_in in = store_content_in(&node->content);
		struct store_part part;
		uint64_t bytes = 0;

		while (in.at != in.end && store_part_next(&in, &part))
			bytes += part.hole ? 0 : part.bytes;
		st->st_blocks = (blkcnt_t)((bytes + 511) / 512);
	}
	if (node->type == STORE_NODE_CHAR || node->type == STORE_NODE_BLOCK)
		st->st_rdev = makedev(node->major, node->minor);
	st->st_mtim = (struct timespec){node->mtime.seconds, node->mtime.ns};
	st->st_ctim =
		node->type == STORE_NODE_DIR ? st->st_mtim : (struct timespec){node->ctime.seconds, node->ctime.ns};
	st->st_atim =
		(node->flags & STORE_ATIME) ? (struct timespec){node->atime.seconds, node->atime.ns} : st->st_mtim;
}

/* Tells on standard error why something cannot be read; the kernel gets EIO. */
static int failed(void)
{
	cli_warn("mount", "cannot be read", store_message());
	return EIO;
}

static void op_init(void *user, struct fuse_conn_info *connection)
{
	struct mounted *m = (struct mounted *)user;

	(void)connection;
	m->ready(m->user);
}

static void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	struct fuse_entry_param entry = {.ino = 0};
	struct mounted_node *node;
	int error = 0;

	pthread_mutex_lock(&t->mutex);
	struct mounted_node *directory = mounted_node_at(t, parent);
	if (directory == NULL)
		error = ESTALE;
	else if (directory->node.type != STORE_NODE_DIR)
		error = ENOTDIR;
	const int rc = error != 0 ? 0 : mounted_lookup(t, directory, name, &node);
	if (rc == 1) {
		entry.ino = node->number;
		fill_stat(&node->node, node->shown, &entry.attr);
		entry.entry_timeout = directory->root ? ROOT_S : FOREVER_S;
		entry.attr_timeout = entry.entry_timeout;
	} else if (rc < 0) {
		error = failed();
	} else if (error == 0) {
		error = ENOENT;
	}
	pthread_mutex_unlock(&t->mutex);
	if (error != 0)
		fuse_reply_err(request, error);
	else
		fuse_reply_entry(request, &entry);
}

static void op_forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups)
{
	struct mounted_tree *t = &mounted_of(request)->tree;

	pthread_mutex_lock(&t->mutex);
	mounted_forget(t, ino, lookups);
	pthread_mutex_unlock(&t->mutex);
	fuse_reply_none(request);
}

static void op_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *all)
{
	struct mounted_tree *t = &mounted_of(request)->tree;

	pthread_mutex_lock(&t->mutex);
	for (size_t i = 0; i < count; i++)
		mounted_forget(t, all[i].ino, all[i].nlookup);
	pthread_mutex_unlock(&t->mutex);
	fuse_reply_none(request);
}

static void op_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	struct stat st;

	(void)file;
	pthread_mutex_lock(&t->mutex);
	const struct mounted_node *node = mounted_node_at(t, ino);
	if (node != NULL)
		fill_stat(&node->node, node->shown, &st);
	pthread_mutex_unlock(&t->mutex);
	if (node == NULL)
		fuse_reply_err(request, ESTALE);
	else
		fuse_reply_attr(request, &st, FOREVER_S);
}

static void op_readlink(fuse_req_t request, fuse_ino_t ino)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	char target[STORE_TARGET_MAX + 1] = "";

	pthread_mutex_lock(&t->mutex);
	const struct mounted_node *node = mounted_node_at(t, ino);
	if (node != NULL && node->node.type == STORE_NODE_LINK)
		memcpy(target, node->node.target, node->node.target_bytes);
	pthread_mutex_unlock(&t->mutex);
	if (target[0] == 0)
		fuse_reply_err(request, EINVAL);
	else
		fuse_reply_readlink(request, target);
}

/* ---------------------------------------------------------------------------------------------------- directories */

static void op_opendir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	struct mounted_listing *listing = NULL;
	int error = ESTALE;

	pthread_mutex_lock(&t->mutex);
	struct mounted_node *node = mounted_node_at(t, ino);
	if (node != NULL && (listing = mounted_list(t, node)) == NULL)
		error = failed();
	if (node != NULL && !node->root) {
		file->keep_cache = 1;
		file->cache_readdir = 1;
	}
	pthread_mutex_unlock(&t->mutex);
	if (listing == NULL) {
		fuse_reply_err(request, error);
		return;
	}
	file->fh = (uint64_t)(uintptr_t)listing;
	fuse_reply_open(request, file);
}

static void op_readdir(fuse_req_t request, fuse_ino_t ino, size_t bytes, off_t offset, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	const struct mounted_listing *listing = (const struct mounted_listing *)(uintptr_t)file->fh;
	char *buffer = (char *)store_alloc(bytes);
	size_t used = 0;

	pthread_mutex_lock(&t->mutex);
	const struct mounted_node *directory = mounted_node_at(t, ino);
	for (size_t place = (size_t)offset; directory != NULL && place < listing->count + 2; place++) {
		char name[STORE_NAME_MAX + 1];
		struct stat st = {.st_mode = S_IFDIR, .st_ino = directory->number};

		snprintf(name, sizeof(name), "%s", place == 0 ? "." : "..");
		if (place >= 2) {
			const struct store_node node = mounted_entry(listing, place - 2);

			memcpy(name, node.name, node.name_bytes);
			name[node.name_bytes] = 0;
			st.st_mode = type_bits(node.type);
			st.st_ino = mounted_shown(t, directory, &node);
		}
		const size_t more =
			fuse_add_direntry(request, buffer + used, bytes - used, name, &st, (off_t)place + 1);
		if (more > bytes - used)
			break;
		used += more;
	}
	pthread_mutex_unlock(&t->mutex);
	fuse_reply_buf(request, buffer, used);
	free(buffer);
}

static void op_releasedir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;

	(void)ino;
	pthread_mutex_lock(&t->mutex);
	mounted_listing_put((struct mounted_listing *)(uintptr_t)file->fh);
	pthread_mutex_unlock(&t->mutex);
	fuse_reply_err(request, 0);
}

/* ---------------------------------------------------------------------------------------------------------- files */

static struct opened *open_node(const struct store_node *node)
{
	struct opened *o = (struct opened *)store_alloc(sizeof(*o));
	struct store_part part;
	uint64_t offset = 0;

	store_buf_add(&o->content, node->content.data, node->content.bytes);
	o->size = node->size;
	o->marks = (struct mark *)store_alloc((node->content.count / MARK_EVERY + 1) * sizeof(*o->marks));
	struct store_in in = store_in_of(o->content.data, o->content.size);
	for (uint64_t i = 0; i < node->content.count; i++) {
		if (i % MARK_EVERY == 0)
			o->marks[o->count++] = (struct mark){offset, in};
		store_part_next(&in, &part);
		offset += part.bytes;
	}
	return o;
}

/* The tree's mutex is held, or nobody else is there. */
static void keep_opened(struct mounted *m, struct opened *o)
{
	o->link = &m->files;
	o->next = m->files;
	if (o->next != NULL)
		o->next->link = &o->next;
	m->files = o;
}

static void free_opened(struct opened *o)
{
	*o->link = o->next;
	if (o->next != NULL)
		o->next->link = o->link;
	store_buf_free(&o->content);
	free(o->marks);
	free(o);
}

static void op_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	struct opened *o = NULL;

	if ((file->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(request, EROFS);
		return;
	}
	pthread_mutex_lock(&t->mutex);
	const struct mounted_node *node = mounted_node_at(t, ino);
	if (node != NULL && node->node.type == STORE_NODE_FILE)
		o = open_node(&node->node);
	if (o != NULL)
		keep_opened(mounted_of(request), o);
	pthread_mutex_unlock(&t->mutex);
	if (o == NULL) {
		fuse_reply_err(request, ESTALE);
		return;
	}
	file->fh = (uint64_t)(uintptr_t)o;
	file->keep_cache = 1;
	fuse_reply_open(request, file);
}

static void op_release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct mounted_tree *t = &mounted_of(request)->tree;

	(void)ino;
	pthread_mutex_lock(&t->mutex);
	free_opened((struct opened *)(uintptr_t)file->fh);
	pthread_mutex_unlock(&t->mutex);
	fuse_reply_err(request, 0);
}

/* The part that `at` lies in, and where it begins; in: what follows. */
static struct store_part part_at(const struct opened *o, uint64_t at, uint64_t *begin, struct store_in *in)
{
	size_t low = 0, high = o->count;
	struct store_part part;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		*(o->marks[middle].offset <= at ? &low : &high) = middle;
	}
	*begin = o->marks[low].offset;
	*in = o->marks[low].in;
	store_part_next(in, &part);
	while (*begin + part.bytes <= at) {
		*begin += part.bytes;
		store_part_next(in, &part);
	}
	return part;
}

static void op_read(fuse_req_t request, fuse_ino_t ino, size_t bytes, off_t offset, struct fuse_file_info *file)
{
	struct mounted *m = mounted_of(request);
	const struct opened *o = (const struct opened *)(uintptr_t)file->fh;
	const uint64_t end = g4_min64(o->size, (uint64_t)offset + bytes);
	uint64_t at = (uint64_t)offset, begin;
	struct store_part part;
	struct store_in in;

	(void)ino;
	if (at >= end) {
		fuse_reply_buf(request, NULL, 0);
		return;
	}
	char *buffer = (char *)store_alloc(end - at); /* zeros, as holes are */
	part = part_at(o, at, &begin, &in);
	while (at < end) {
		const uint64_t stop = g4_min64(end, begin + part.bytes);

		if (!part.hole) {
			const struct mounted_blob *blob = mounted_cache_get(&m->cache, &part);

			if (blob == NULL) {
				fuse_reply_err(request, failed());
				free(buffer);
				return;
			}
			memcpy(buffer + (at - (uint64_t)offset), blob->bytes.data + (at - begin), stop - at);
			mounted_cache_put(&m->cache, blob);
		}
		at = stop;
		begin += part.bytes;
		if (at < end)
			store_part_next(&in, &part);
	}
	fuse_reply_buf(request, buffer, end - (uint64_t)offset);
	free(buffer);
}

/* SEEK_DATA and SEEK_HOLE: neighbours of one kind are one. */
static void op_lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *file)
{
	const struct opened *o = (const struct opened *)(uintptr_t)file->fh;
	uint64_t begin;
	struct store_part part;
	struct store_in in;

	(void)ino;
	if (whence != SEEK_DATA && whence != SEEK_HOLE) {
		fuse_reply_err(request, EINVAL);
		return;
	}
	if (offset < 0 || (uint64_t)offset >= o->size) {
		fuse_reply_err(request, ENXIO);
		return;
	}
	part = part_at(o, (uint64_t)offset, &begin, &in);
	while (part.hole != (whence == SEEK_HOLE)) {
		begin += part.bytes;
		if (begin == o->size) {
			if (whence == SEEK_HOLE)
				fuse_reply_lseek(request, (off_t)begin);
			else
				fuse_reply_err(request, ENXIO);
			return;
		}
		store_part_next(&in, &part);
	}
	fuse_reply_lseek(request, (off_t)(begin > (uint64_t)offset ? begin : (uint64_t)offset));
}

static void op_statfs(fuse_req_t request, fuse_ino_t ino)
{
	const struct statvfs st = {.f_bsize = 65536, .f_frsize = 65536, .f_namemax = STORE_NAME_MAX};

	(void)ino;
	fuse_reply_statfs(request, &st);
}

/* ----------------------------------------------------------------------------------------------------- attributes */

static void reply_bytes(fuse_req_t request, const struct store_buf *found, size_t room, int error)
{
	if (error != 0)
		fuse_reply_err(request, error);
	else if (room == 0)
		fuse_reply_xattr(request, found->size);
	else if (found->size > room)
		fuse_reply_err(request, ERANGE);
	else
		fuse_reply_buf(request, (const char *)found->data, found->size);
}

/* name == NULL: the names of all. */
static void reply_attributes(fuse_req_t request, fuse_ino_t ino, const char *name, size_t room)
{
	struct mounted_tree *t = &mounted_of(request)->tree;
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;
	struct store_buf found = {0};
	int error = name != NULL ? ENODATA : 0;

	pthread_mutex_lock(&t->mutex);
	const struct mounted_node *node = mounted_node_at(t, ino);
	struct store_in in = store_in_of(NULL, 0);
	if (node == NULL)
		error = ESTALE;
	else if (node->node.flags & STORE_ATTRIBUTES)
		in = store_in_of(node->node.attributes, node->node.attributes_bytes);
	while (in.at != in.end && store_attribute_next(&in, &key, &key_bytes, &value, &value_bytes)) {
		if (name == NULL) {
			store_buf_add(&found, key, key_bytes);
			store_buf_u8(&found, 0);
		} else if (strlen(name) == key_bytes && memcmp(name, key, key_bytes) == 0) {
			store_buf_add(&found, value, value_bytes);
			error = 0;
		}
	}
	pthread_mutex_unlock(&t->mutex);
	reply_bytes(request, &found, room, error);
	store_buf_free(&found);
}

static void op_getxattr(fuse_req_t request, fuse_ino_t ino, const char *name, size_t room)
{
	reply_attributes(request, ino, name, room);
}

static void op_listxattr(fuse_req_t request, fuse_ino_t ino, size_t room)
{
	reply_attributes(request, ino, NULL, room);
}

/* ------------------------------------------------------------------------------------------------------ everything */

static int serve(struct mounted *m, const char *place, bool allow_other)
{
	static const struct fuse_lowlevel_ops ops = {.init = op_init,
						     .lookup = op_lookup,
						     .forget = op_forget,
						     .forget_multi = op_forget_multi,
						     .getattr = op_getattr,
						     .readlink = op_readlink,
						     .opendir = op_opendir,
						     .readdir = op_readdir,
						     .releasedir = op_releasedir,
						     .open = op_open,
						     .read = op_read,
						     .lseek = op_lseek,
						     .release = op_release,
						     .statfs = op_statfs,
						     .getxattr = op_getxattr,
						     .listxattr = op_listxattr};
	char *words[] = {(char *)"shredder", (char *)"-o",
			 (char *)(allow_other ?
					  "ro,nodev,nosuid,default_permissions,fsname=shredder,subtype=shredder,"
					  "allow_other" :
					  "ro,nodev,nosuid,default_permissions,fsname=shredder,subtype=shredder")};
	struct fuse_args args = FUSE_ARGS_INIT(3, words);
	struct fuse_session *session = fuse_session_new(&args, &ops, sizeof(ops), m);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int rc = 0;

	if (session == NULL || config == NULL)
		rc = store_fail(STORE_E_IO, "libfuse cannot be started");
	if (rc == 0 && fuse_set_signal_handlers(session) != 0)
		rc = store_fail(STORE_E_IO, "libfuse cannot be started");
	if (rc == 0 && fuse_session_mount(session, place) != 0) {
		rc = store_fail(STORE_E_IO, "cannot mount at %s", place);
		fuse_remove_signal_handlers(session);
	} else if (rc == 0) {
		if (fuse_session_loop_mt(session, config) < 0)
			rc = store_fail(STORE_E_IO, "serving %s failed: %s", place, strerror(errno));
		fuse_session_unmount(session);
		fuse_remove_signal_handlers(session);
	}
	if (config != NULL)
		fuse_loop_cfg_destroy(config);
	if (session != NULL)
		fuse_session_destroy(session);
	fuse_opt_free_args(&args);
	return rc;
}

int cli_mounted_serve(struct store *s, const struct store_filter *filter, const char *place, bool allow_other,
		      void (*ready)(void *user), void *user)
{
	struct mounted *m = (struct mounted *)store_alloc(sizeof(*m));
	int rc;

	m->ready = ready;
	m->user = user;
	mounted_cache_init(&m->cache, s);
	rc = mounted_tree_init(&m->tree, s, filter, &m->cache);
	if (rc == 0)
		rc = serve(m, place, allow_other);
	while (m->files != NULL)
		free_opened(m->files);
	mounted_tree_free(&m->tree);
	mounted_cache_free(&m->cache);
	free(m);
	return rc;
}
