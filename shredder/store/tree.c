/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "hash/siphash.h"
#include "store/backend.h"
#include "store/tree.h"

#define PIECE_MIN (32 * G4_KIB)
#define PIECE_MAX G4_MIB
#define PIECE_MASK 1023u
#define NS_PER_SECOND 1000000000u
#define HOST_MAX 255

const char *store_node_word(uint8_t type)
{
	switch (type) {
#define NODE_CASE(name, number, word)                                                                                  \
	case STORE_NODE_##name:                                                                                        \
		return word;
		STORE_NODE_TYPES(NODE_CASE)
#undef NODE_CASE
	default:
		return "unknown";
	}
}

/* ------------------------------------------------------------------------------------------------------- content */

bool store_part_next(struct store_in *in, struct store_part *part)
{
	const uint64_t head = store_in_varint(in);

	part->bytes = head >> 1;
	part->hole = (head & 1) != 0;
	memset(&part->id, 0, sizeof(part->id));
	if (!part->hole) {
		const uint8_t *id = store_in_bytes(in, STORE_ID_BYTES);

		if (id != NULL)
			memcpy(&part->id, id, STORE_ID_BYTES);
	}
	if (part->bytes == 0 || (!part->hole && part->bytes > STORE_BLOB_MAX))
		in->bad = true;
	return !in->bad;
}

void store_part_add(struct store_buf *content, uint64_t *count, const struct store_part *part)
{
	store_buf_varint(content, part->bytes << 1 | part->hole);
	if (!part->hole)
		store_buf_add(content, &part->id, STORE_ID_BYTES);
	++*count;
}

/* Goes past a content; its parts must add up to `size`, and for directories there are no holes. */
static struct store_content read_content(struct store_in *in, bool directory, uint64_t size)
{
	struct store_content content = {.count = store_in_count(in, 1)}; /* a hole below 64 bytes is one byte */
	struct store_part part;
	uint64_t sum = 0;

	content.data = in->at;
	for (uint64_t i = 0; i < content.count && store_part_next(in, &part); i++) {
		if ((directory && part.hole) || part.bytes > (uint64_t)INT64_MAX - sum)
			in->bad = true;
		sum += part.bytes;
	}
	if (!directory && sum != size)
		in->bad = true;
	content.bytes = in->bad ? 0 : (size_t)(in->at - content.data);
	return content;
}

/* ------------------------------------------------------------------------------------------------------- entries */

static void write_time(struct store_buf *out, const struct store_time *time)
{
	store_buf_svarint(out, time->seconds);
	store_buf_varint(out, time->ns);
}

static struct store_time read_time(struct store_in *in)
{
	struct store_time time;

	time.seconds = store_in_svarint(in);
	time.ns = (uint32_t)store_in_limited(in, NS_PER_SECOND - 1);
	return time;
}

static void write_content(struct store_buf *out, const struct store_content *content)
{
	store_buf_varint(out, content->count);
	store_buf_add(out, content->data, content->bytes);
}

void store_node_write(struct store_buf *out, const struct store_node *node)
{
	store_buf_string(out, node->name, node->name_bytes);
	store_buf_u8(out, node->type);
	store_buf_u8(out, node->flags);
	store_buf_varint(out, node->mode);
	store_buf_varint(out, node->uid);
	store_buf_varint(out, node->gid);
	write_time(out, &node->mtime);
	write_time(out, &node->ctime);
	store_buf_varint(out, node->inode);
	if (node->flags & STORE_ATIME)
		write_time(out, &node->atime);
	if (node->flags & STORE_LINKED) {
		store_buf_varint(out, node->device);
		store_buf_varint(out, node->links);
	}
	if (node->flags & STORE_ATTRIBUTES) {
		store_buf_varint(out, node->attributes_count);
		store_buf_add(out, node->attributes, node->attributes_bytes);
	}
	switch (node->type) {
	case STORE_NODE_FILE:
		store_buf_varint(out, node->size);
		write_content(out, &node->content);
		break;
	case STORE_NODE_DIR:
		write_content(out, &node->content);
		break;
	case STORE_NODE_LINK:
		store_buf_string(out, node->target, node->target_bytes);
		break;
	case STORE_NODE_CHAR:
	case STORE_NODE_BLOCK:
		store_buf_varint(out, node->major);
		store_buf_varint(out, node->minor);
		break;
	default:
		break;
	}
}

bool store_attribute_next(struct store_in *in, const uint8_t **name, size_t *name_bytes, const uint8_t **value,
			  size_t *value_bytes)
{
	*name = store_in_string(in, 1, STORE_NAME_MAX, name_bytes);
	*value = store_in_string(in, 0, STORE_VALUE_MAX, value_bytes);
	if (!in->bad && memchr(*name, 0, *name_bytes) != NULL)
		in->bad = true;
	return !in->bad;
}

bool store_attribute_there(const struct store_node *node, const char *name)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;

	while (in.at != in.end && store_attribute_next(&in, &key, &key_bytes, &value, &value_bytes))
		if (strlen(name) == key_bytes && memcmp(name, key, key_bytes) == 0)
			return true;
	return false;
}

static void read_attributes(struct store_in *in, struct store_node *node)
{
	const uint8_t *name, *value;
	size_t name_bytes, value_bytes;

	node->attributes_count = store_in_count(in, 3);
	node->attributes = in->at;
	if (node->attributes_count == 0)
		in->bad = true;
	for (uint64_t i = 0; i < node->attributes_count; i++)
		if (!store_attribute_next(in, &name, &name_bytes, &value, &value_bytes))
			return;
	node->attributes_bytes = (size_t)(in->at - node->attributes);
}

/* A component of a path and nothing else: what is restored cannot leave its directory. */
static bool name_is_safe(const uint8_t *name, size_t bytes)
{
	if (memchr(name, '/', bytes) != NULL || memchr(name, 0, bytes) != NULL)
		return false;
	return !(bytes == 1 && name[0] == '.') && !(bytes == 2 && name[0] == '.' && name[1] == '.');
}

bool store_node_read(struct store_in *in, struct store_node *node)
{
	const uint8_t *begin = in->at;

	memset(node, 0, sizeof(*node));
	node->name = store_in_string(in, 1, STORE_NAME_MAX, &node->name_bytes);
	node->type = store_in_u8(in);
	node->flags = store_in_u8(in);
	node->mode = (uint32_t)store_in_limited(in, 07777);
	node->uid = (uint32_t)store_in_limited(in, UINT32_MAX);
	node->gid = (uint32_t)store_in_limited(in, UINT32_MAX);
	node->mtime = read_time(in);
	node->ctime = read_time(in);
	node->inode = store_in_varint(in);
	if (in->bad || !name_is_safe(node->name, node->name_bytes) || node->flags > 15)
		in->bad = true;
	if (node->flags & STORE_ATIME)
		node->atime = read_time(in);
	if (node->flags & STORE_LINKED) {
		node->device = store_in_varint(in);
		node->links = store_in_varint(in);
	}
	if (node->flags & STORE_ATTRIBUTES)
		read_attributes(in, node);
	switch (node->type) {
	case STORE_NODE_FILE:
		node->size = store_in_limited(in, INT64_MAX);
		node->content = read_content(in, false, node->size);
		break;
	case STORE_NODE_DIR:
		node->content = read_content(in, true, 0);
		break;
	case STORE_NODE_LINK:
		node->target = store_in_string(in, 1, STORE_TARGET_MAX, &node->target_bytes);
		if (!in->bad && memchr(node->target, 0, node->target_bytes) != NULL)
			in->bad = true;
		break;
	case STORE_NODE_CHAR:
	case STORE_NODE_BLOCK:
		node->major = (uint32_t)store_in_limited(in, UINT32_MAX);
		node->minor = (uint32_t)store_in_limited(in, UINT32_MAX);
		break;
	case STORE_NODE_FIFO:
	case STORE_NODE_SOCKET:
		break;
	default:
		in->bad = true;
	}
	node->raw = begin;
	node->raw_bytes = in->bad ? 0 : (size_t)(in->at - begin);
	return !in->bad;
}

bool store_piece_ends(size_t bytes, const uint8_t *name, size_t name_bytes)
{
	static const uint64_t key[2] = {0, 0};

	return bytes >= PIECE_MAX || (bytes >= PIECE_MIN && (g4_siphash13(key, name, name_bytes) & PIECE_MASK) == 0);
}

/* --------------------------------------------------------------------------------------------------- directories */

int store_name_compare(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
	const int order = memcmp(a, b, g4_min64(a_bytes, b_bytes));

	return order != 0 ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

void store_dir_open(struct store_dir *dir, struct store *s, struct store_codec *codec,
		    const struct store_content *content)
{
	memset(dir, 0, sizeof(*dir));
	dir->s = s;
	dir->codec = codec;
	store_buf_add(&dir->content, content->data, content->bytes);
	dir->parts = store_in_of(dir->content.data, dir->content.size);
}

int store_dir_next(struct store_dir *dir, struct store_node *node)
{
	struct store_part part;
	char hex[STORE_HEX_BYTES];
	int rc;

	while (dir->in.at == dir->in.end) {
		if (dir->parts.at == dir->parts.end)
			return 0;
		if (!store_part_next(&dir->parts, &part) || part.hole)
			return store_fail(STORE_E_DAMAGED, "a directory's list of pieces is damaged");
		rc = store_blob_get(dir->s, dir->codec, STORE_TREE, &part.id, &dir->piece);
		if (rc != 0)
			return rc;
		dir->in = store_in_of(dir->piece.data, dir->piece.size);
	}
	if (!store_node_read(&dir->in, node) ||
	    (dir->last_bytes > 0 &&
	     store_name_compare(dir->last, dir->last_bytes, node->name, node->name_bytes) >= 0)) {
		uint8_t digest[32];
		struct store_id id;

		store_digest(dir->piece.data, dir->piece.size, digest);
		store_name_blob(dir->s, STORE_TREE, digest, &id);
		return store_fail(STORE_E_DAMAGED, "directory blob %.16s is refused: it has impossible entries",
				  store_hex(&id, hex));
	}
	memcpy(dir->last, node->name, node->name_bytes);
	dir->last_bytes = node->name_bytes;
	return 1;
}

void store_dir_close(struct store_dir *dir)
{
	store_buf_free(&dir->content);
	store_buf_free(&dir->piece);
}

/* ----------------------------------------------------------------------------------------------------- snapshots */

static void add_text(struct store_buf *body, const char *text)
{
	store_buf_string(body, text, strlen(text));
}

static void add_texts(struct store_buf *body, char *const *texts, size_t count)
{
	store_buf_varint(body, count);
	for (size_t i = 0; i < count; i++)
		add_text(body, texts[i]);
}

static bool texts_fit(char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(texts[i]) > STORE_TARGET_MAX)
			return false;
	return true;
}

int store_snapshot_texts(const char *host, char *const *paths, size_t paths_count, char *const *tags, size_t tags_count)
{
	if (strlen(host) > HOST_MAX)
		return store_fail(STORE_E_INVAL, "a host's name has %d bytes at most", HOST_MAX);
	if (!texts_fit(paths, paths_count))
		return store_fail(STORE_E_INVAL, "a path has %d bytes at most", STORE_TARGET_MAX);
	if (!texts_fit(tags, tags_count))
		return store_fail(STORE_E_INVAL, "a tag has %d bytes at most", STORE_TARGET_MAX);
	return 0;
}

int store_snapshot_put(struct store *s, struct store_snapshot *snapshot)
{
	struct store_buf body = {0};
	const struct store_content root = store_snapshot_root(snapshot);
	int rc = store_snapshot_texts(snapshot->host, snapshot->paths, snapshot->paths_count, snapshot->tags,
				      snapshot->tags_count);

	if (rc != 0)
		return rc;
	write_time(&body, &snapshot->time);
	add_text(&body, snapshot->host);
	add_text(&body, snapshot->user);
	store_buf_varint(&body, snapshot->uid);
	store_buf_varint(&body, snapshot->gid);
	add_texts(&body, snapshot->paths, snapshot->paths_count);
	add_texts(&body, snapshot->tags, snapshot->tags_count);
	store_buf_u8(&body, snapshot->has_parent);
	if (snapshot->has_parent)
		store_buf_add(&body, &snapshot->parent, STORE_ID_BYTES);
	write_content(&body, &root);
	store_buf_varint(&body, snapshot->files);
	store_buf_varint(&body, snapshot->directories);
	store_buf_varint(&body, snapshot->others);
	store_buf_varint(&body, snapshot->bytes);
	store_buf_varint(&body, snapshot->unread);
	add_text(&body, snapshot->program);
	if (s->version >= STORE_VERSION_OWNERS)
		store_owners_write(&body, &snapshot->owners);
	rc = store_file_put(s, STORE_SNAPSHOT, &body, &snapshot->name);
	store_buf_free(&body);
	return rc;
}

static char *read_text(struct store_in *in, size_t max)
{
	size_t bytes;
	const uint8_t *from = store_in_string(in, 0, max, &bytes);
	char *text = (char *)store_alloc(bytes + 1);

	if (from != NULL)
		memcpy(text, from, bytes);
	if (strlen(text) != bytes)
		in->bad = true;
	return text;
}

static char **read_texts(struct store_in *in, size_t *count)
{
	const uint64_t n = store_in_count(in, 1);
	char **texts = (char **)store_alloc(n * sizeof(*texts));

	*count = n;
	for (uint64_t i = 0; i < n; i++)
		texts[i] = read_text(in, STORE_TARGET_MAX);
	return texts;
}

int store_snapshot_parse(uint32_t version, const struct store_buf *body, struct store_snapshot *snapshot)
{
	struct store_in in = store_in_of(body->data, body->size);

	memset(snapshot, 0, sizeof(*snapshot));
	snapshot->time = read_time(&in);
	snapshot->host = read_text(&in, HOST_MAX);
	snapshot->user = read_text(&in, 255);
	snapshot->uid = (uint32_t)store_in_limited(&in, UINT32_MAX);
	snapshot->gid = (uint32_t)store_in_limited(&in, UINT32_MAX);
	snapshot->paths = read_texts(&in, &snapshot->paths_count);
	snapshot->tags = read_texts(&in, &snapshot->tags_count);
	const uint8_t has_parent = store_in_u8(&in);
	snapshot->has_parent = has_parent == 1;
	const uint8_t *parent = has_parent == 1 ? store_in_bytes(&in, STORE_ID_BYTES) : NULL;
	if (parent != NULL)
		memcpy(&snapshot->parent, parent, STORE_ID_BYTES);
	const struct store_content root = read_content(&in, true, 0);
	store_buf_add(&snapshot->root, root.data, root.bytes);
	snapshot->root_count = root.count;
	snapshot->files = store_in_varint(&in);
	snapshot->directories = store_in_varint(&in);
	snapshot->others = store_in_varint(&in);
	snapshot->bytes = store_in_varint(&in);
	snapshot->unread = store_in_varint(&in);
	snapshot->program = read_text(&in, 255);
	if (version >= STORE_VERSION_OWNERS)
		store_owners_read(&in, &snapshot->owners);
	if (store_in_done(&in) && has_parent <= 1)
		return 0;
	store_snapshot_free(snapshot);
	return store_fail(STORE_E_DAMAGED, "it is none");
}

int store_snapshot_replace(struct store *s, struct store_snapshot *snapshot)
{
	const struct store_id old = snapshot->name;
	const int rc = store_snapshot_put(s, snapshot);

	if (rc != 0 || store_id_equal(&snapshot->name, &old))
		return rc;
	return s->backend->ops->remove(s->backend, STORE_SNAPSHOT, &old);
}

int store_snapshot_get(struct store *s, const struct store_id *name, struct store_snapshot *snapshot)
{
	struct store_buf body = {0};
	char hex[STORE_HEX_BYTES];
	int rc = store_file_get(s, STORE_SNAPSHOT, name, &body);

	memset(snapshot, 0, sizeof(*snapshot));
	if (rc == 0 && (rc = store_snapshot_parse(s->version, &body, snapshot)) != 0)
		rc = store_fail(rc, "snapshot %.16s is damaged: %s", store_hex(name, hex), store_message());
	snapshot->name = *name;
	store_buf_free(&body);
	return rc;
}

static void free_texts(char **texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(texts[i]);
	free(texts);
}

void store_snapshot_free(struct store_snapshot *snapshot)
{
	free(snapshot->host);
	free(snapshot->user);
	free(snapshot->program);
	free_texts(snapshot->paths, snapshot->paths_count);
	free_texts(snapshot->tags, snapshot->tags_count);
	store_buf_free(&snapshot->root);
	store_buf_free(&snapshot->owners.list);
	memset(snapshot, 0, sizeof(*snapshot));
}

void store_snapshots_free(struct store_snapshot *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_snapshot_free(&list[i]);
	free(list);
}

static bool has_text(char *const *texts, size_t count, const char *text, size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(texts[i]) == bytes && memcmp(texts[i], text, bytes) == 0)
			return true;
	return false;
}

/* All words of "a,b,c". */
static bool has_all(const struct store_snapshot *snapshot, const char *list)
{
	for (;;) {
		const size_t bytes = strcspn(list, ",");

		if (!has_text(snapshot->tags, snapshot->tags_count, list, bytes))
			return false;
		if (list[bytes] == 0)
			return true;
		list += bytes + 1;
	}
}

static bool matches(const struct store_snapshot *snapshot, const struct store_filter *filter)
{
	bool tagged = filter->tags_count == 0;

	if (filter->host != NULL && strcmp(filter->host, snapshot->host) != 0)
		return false;
	for (size_t i = 0; i < filter->paths_count; i++)
		if (!has_text(snapshot->paths, snapshot->paths_count, filter->paths[i], strlen(filter->paths[i])))
			return false;
	for (size_t i = 0; i < filter->tags_count; i++)
		tagged = tagged || has_all(snapshot, filter->tags[i]);
	return tagged;
}

static int by_time(const void *a, const void *b)
{
	const struct store_snapshot *left = (const struct store_snapshot *)a;
	const struct store_snapshot *right = (const struct store_snapshot *)b;

	if (left->time.seconds != right->time.seconds)
		return left->time.seconds < right->time.seconds ? -1 : 1;
	if (left->time.ns != right->time.ns)
		return left->time.ns < right->time.ns ? -1 : 1;
	return memcmp(&left->name, &right->name, STORE_ID_BYTES);
}

int store_snapshots(struct store *s, const struct store_filter *filter, struct store_snapshot **list, size_t *count)
{
	struct store_listed *names;
	size_t found;
	int rc = store_list_all(s->backend, STORE_SNAPSHOT, &names, &found);

	*count = 0;
	*list = (struct store_snapshot *)store_alloc(found * sizeof(**list));
	for (size_t i = 0; i < found && rc == 0; i++) {
		struct store_snapshot *snapshot = &(*list)[*count];

		rc = store_snapshot_get(s, &names[i].name, snapshot);
		if (rc == STORE_E_ABSENT) { /* forgotten meanwhile */
			rc = 0;
			continue;
		}
		if (rc == 0 && matches(snapshot, filter))
			++*count;
		else if (rc == 0)
			store_snapshot_free(snapshot);
	}
	free(names);
	if (*count > 1)
		qsort(*list, *count, sizeof(**list), by_time);
	if (rc != 0) {
		store_snapshots_free(*list, *count);
		*list = NULL;
		*count = 0;
	}
	return rc;
}

int store_snapshot_find(struct store *s, const char *text, const struct store_filter *filter,
			struct store_snapshot *snapshot)
{
	struct store_snapshot *list;
	struct store_id name;
	size_t count;
	int rc;

	if (strcmp(text, "latest") != 0) {
		rc = text[0] == 0 ? store_fail(STORE_E_NONE, "there is no snapshot without a name") :
				    store_find_name(s->backend, STORE_SNAPSHOT, text, &name);
		return rc != 0 ? rc : store_snapshot_get(s, &name, snapshot);
	}
	rc = store_snapshots(s, filter, &list, &count);
	if (rc == 0 && count == 0)
		rc = store_fail(STORE_E_NONE, "there is no snapshot that matches");
	if (rc == 0) {
		*snapshot = list[count - 1];
		count--;
	}
	store_snapshots_free(list, count);
	return rc;
}

/* --------------------------------------------------------------------------------------------------------- paths */

static int find_child(struct store *s, struct store_codec *codec, const struct store_content *content, const char *name,
		      size_t bytes, struct store_buf *hold, struct store_node *node)
{
	struct store_dir dir;
	int rc;

	store_dir_open(&dir, s, codec, content);
	while ((rc = store_dir_next(&dir, node)) == 1)
		if (node->name_bytes == bytes && memcmp(node->name, name, bytes) == 0)
			break;
	if (rc == 1) { /* the entry moves to memory that stays */
		struct store_buf copy = {0};
		struct store_in in;

		store_buf_add(&copy, node->raw, node->raw_bytes);
		store_buf_free(hold);
		*hold = copy;
		in = store_in_of(hold->data, hold->size);
		store_node_read(&in, node);
	}
	store_dir_close(&dir);
	return rc;
}

int store_path_find(struct store *s, struct store_codec *codec, const struct store_content *root, const char *path,
		    struct store_node *node, struct store_buf *hold)
{
	static const uint8_t slash[] = "/";
	const char *at = path;

	memset(node, 0, sizeof(*node));
	node->name = slash;
	node->name_bytes = 1;
	node->type = STORE_NODE_DIR;
	node->mode = 0755;
	node->content = *root;
	for (;;) {
		at += strspn(at, "/");
		const size_t bytes = strcspn(at, "/");
		const struct store_content content = node->content;

		if (bytes == 0)
			return 0;
		const int rc = node->type != STORE_NODE_DIR ? 0 : find_child(s, codec, &content, at, bytes, hold, node);
		if (rc < 0)
			return rc;
		if (rc == 0)
			return store_fail(STORE_E_NONE, "the snapshot has no '%s'", path);
		at += bytes;
	}
}
