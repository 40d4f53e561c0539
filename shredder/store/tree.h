/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and snapshots: FORMAT.md, sections 6 and 7. What is parsed here is safe to use as a name. */
#ifndef SHREDDER_STORE_TREE_H
#define SHREDDER_STORE_TREE_H

#include "store/blob.h"
#include "store/owners.h"

/* X(NAME, number, word) */
#define STORE_NODE_TYPES(X)                                                                                            \
	X(FILE, 1, "file")                                                                                             \
	X(DIR, 2, "dir")                                                                                               \
	X(LINK, 3, "symlink")                                                                                          \
	X(CHAR, 4, "chardev")                                                                                          \
	X(BLOCK, 5, "blockdev")                                                                                        \
	X(FIFO, 6, "fifo")                                                                                             \
	X(SOCKET, 7, "socket")
enum store_node_type {
#define STORE_NODE_ENUM(name, number, word) STORE_NODE_##name = (number),
	STORE_NODE_TYPES(STORE_NODE_ENUM)
#undef STORE_NODE_ENUM
};
const char *store_node_word(uint8_t type);

enum store_node_flags { STORE_LINKED = 1, STORE_ATTRIBUTES = 2, STORE_UNSETTLED = 4, STORE_ATIME = 8 };

#define STORE_NAME_MAX 255
#define STORE_TARGET_MAX 4095
#define STORE_VALUE_MAX 65536

/* Parts of a file or pieces of a directory, as they are in the entry behind their number. */
struct store_content {
	const uint8_t *data;
	size_t bytes;
	uint64_t count;
};
struct store_part {
	uint64_t bytes;
	bool hole;
	struct store_id id;
};
static inline struct store_in store_content_in(const struct store_content *content)
{
	return store_in_of(content->data, content->bytes);
}
bool store_part_next(struct store_in *in, struct store_part *part);
void store_part_add(struct store_buf *content, uint64_t *count, const struct store_part *part);

/* An entry; what it points to is the caller's. */
struct store_node {
	const uint8_t *name;
	size_t name_bytes;
	uint8_t type, flags;
	uint32_t mode, uid, gid;
	struct store_time mtime, ctime, atime; /* atime: with STORE_ATIME */
	uint64_t inode, device, links;
	const uint8_t *attributes; /* as they are in the entry behind their number */
	size_t attributes_bytes;
	uint64_t attributes_count;
	uint64_t size;
	struct store_content content;
	const uint8_t *target;
	size_t target_bytes;
	uint32_t major, minor;
	const uint8_t *raw; /* read ones only: the entry's bytes */
	size_t raw_bytes;
};
void store_node_write(struct store_buf *out, const struct store_node *node);
/* False when it is none: then in->bad is set. */
bool store_node_read(struct store_in *in, struct store_node *node);
bool store_attribute_there(const struct store_node *node, const char *name);
/* The attributes one by one. */
bool store_attribute_next(struct store_in *in, const uint8_t **name, size_t *name_bytes, const uint8_t **value,
			  size_t *value_bytes);

/* True when a piece that has `bytes` bytes ends behind the entry of that name. */
bool store_piece_ends(size_t bytes, const uint8_t *name, size_t name_bytes);

/* Reads the entries of a directory in order. */
struct store_dir {
	struct store *s;
	struct store_codec *codec;
	struct store_buf content, piece;
	struct store_in parts, in;
	uint8_t last[STORE_NAME_MAX];
	size_t last_bytes;
};
/* Copies the content. */
void store_dir_open(struct store_dir *dir, struct store *s, struct store_codec *codec,
		    const struct store_content *content);
/* 1 and an entry that holds until the next call; 0 at the end; or an error. */
int store_dir_next(struct store_dir *dir, struct store_node *node);
void store_dir_close(struct store_dir *dir);
/* memcmp order, a shorter name first. */
int store_name_compare(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes);

/* ---- snapshots */
struct store_snapshot {
	struct store_id name; /* not stored in itself */
	struct store_time time;
	char *host, *user;
	uint32_t uid, gid;
	char **paths, **tags;
	size_t paths_count, tags_count;
	bool has_parent;
	struct store_id parent;
	struct store_buf root;
	uint64_t root_count;
	uint64_t files, directories, others, bytes, unread;
	char *program;
	struct store_owners owners; /* none before STORE_VERSION_OWNERS */
};
static inline struct store_content store_snapshot_root(const struct store_snapshot *snapshot)
{
	return (struct store_content){snapshot->root.data, snapshot->root.size, snapshot->root_count};
}
/* INVAL: longer than a snapshot can have them, it could not be read again. */
int store_snapshot_texts(const char *host, char *const *paths, size_t paths_count, char *const *tags,
			 size_t tags_count);
int store_snapshot_put(struct store *s, struct store_snapshot *snapshot);
/* Puts it, whose name is that of the one that it was, and removes that one: a crash leaves both. Where nothing may be removed it fails in between. */
int store_snapshot_replace(struct store *s, struct store_snapshot *snapshot);
int store_snapshot_get(struct store *s, const struct store_id *name, struct store_snapshot *snapshot);
/* version: the repository's. */
int store_snapshot_parse(uint32_t version, const struct store_buf *body, struct store_snapshot *snapshot);
void store_snapshot_free(struct store_snapshot *snapshot);

/* Which snapshots; zero: all. */
struct store_filter {
	const char *host;
	const char *const *tags; /* each is a list with commas, all of which must be there; one list is enough */
	size_t tags_count;
	const char *const *paths; /* all must be there */
	size_t paths_count;
};
/* All that match, the oldest first. The caller frees them, and the list. */
int store_snapshots(struct store *s, const struct store_filter *filter, struct store_snapshot **list, size_t *count);
void store_snapshots_free(struct store_snapshot *list, size_t count);
/* By "latest" or the beginning of a name; NONE. */
int store_snapshot_find(struct store *s, const char *text, const struct store_filter *filter,
			struct store_snapshot *snapshot);

/* The entry at a path ("/a/b") below a directory's content; "/" is a directory of that content. `hold` keeps its bytes. NONE. */
int store_path_find(struct store *s, struct store_codec *codec, const struct store_content *root, const char *path,
		    struct store_node *node, struct store_buf *hold);

#endif
