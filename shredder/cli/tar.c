/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tar.h"

#define BLOCK_BYTES 512
#define LINK_ROWS 65536

/* One block of POSIX.1-1988, ustar. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
		version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "a header is one block");

/* The first name of a file with several. */
struct linked {
	uint64_t device, inode;
	char *path;
	struct linked *next;
};

struct cli_tar {
	struct linked *rows[LINK_ROWS];
	struct store_buf records;
};

struct cli_tar *cli_tar_new(void)
{
	return (struct cli_tar *)store_alloc(sizeof(struct cli_tar));
}

void cli_tar_free(struct cli_tar *tar)
{
	for (size_t row = 0; row < LINK_ROWS; row++)
		while (tar->rows[row] != NULL) {
			struct linked *next = tar->rows[row]->next;

			free(tar->rows[row]->path);
			free(tar->rows[row]);
			tar->rows[row] = next;
		}
	store_buf_free(&tar->records);
	free(tar);
}

/* The path of the file's first name, or NULL: this one is it. */
static const char *first_name(struct cli_tar *tar, const char *path, const struct store_node *node)
{
	struct linked **row = &tar->rows[(node->inode * 31 + node->device) % LINK_ROWS];
	struct linked *at = *row;

	while (at != NULL && (at->device != node->device || at->inode != node->inode))
		at = at->next;
	if (at != NULL)
		return at->path;
	at = (struct linked *)store_alloc(sizeof(*at));
	at->device = node->device;
	at->inode = node->inode;
	at->path = store_strdup(path);
	at->next = *row;
	*row = at;
	return NULL;
}

void cli_tar_pad(uint64_t bytes)
{
	static const char zeros[BLOCK_BYTES];

	fwrite(zeros, 1, (BLOCK_BYTES - bytes % BLOCK_BYTES) % BLOCK_BYTES, stdout);
}

void cli_tar_end(void)
{
	static const char zeros[2 * BLOCK_BYTES];

	fwrite(zeros, 1, sizeof(zeros), stdout);
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts its own digits. */
static void add_record(struct store_buf *records, const char *key, const void *value, size_t bytes)
{
	const size_t rest = strlen(key) + bytes + 3;
	size_t length = rest;
	char text[24];

	while (length != rest + (size_t)snprintf(text, sizeof(text), "%zu", length))
		length = rest + strlen(text);
	store_buf_add(records, text, strlen(text));
	store_buf_add(records, " ", 1);
	store_buf_add(records, key, strlen(key));
	store_buf_add(records, "=", 1);
	if (bytes > 0)
		store_buf_add(records, value, bytes);
	store_buf_add(records, "\n", 1);
}

static void add_number(struct store_buf *records, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	add_record(records, key, text, strlen(text));
}

/* Seconds with nine digits behind the point: -1.25 is second -2 and 750 000 000 ns. */
static void add_time(struct store_buf *records, const char *key, const struct store_time *time)
{
	const bool below = time->seconds < 0 && time->ns > 0;
	const int64_t seconds = below ? time->seconds + 1 : time->seconds;
	char text[48];

	snprintf(text, sizeof(text), "%s%lld.%09u", below && seconds == 0 ? "-" : "", (long long)seconds,
		 below ? 1000000000 - time->ns : time->ns);
	add_record(records, key, text, strlen(text));
}

/* Of linux/posix_acl_xattr.h: entries of 8 bytes behind a version. */
#define ACL_VERSION 2
#define ACL_USER_OBJ 0x01
#define ACL_USER 0x02
#define ACL_GROUP_OBJ 0x04
#define ACL_GROUP 0x08
#define ACL_MASK 0x10
#define ACL_OTHER 0x20

/* An entry of an access control list in the long text form of acl(5), with its id as a number; false: there is no such entry. */
static bool add_acl_entry(struct store_buf *text, unsigned tag, unsigned permissions, uint32_t id)
{
	const bool named = tag == ACL_USER || tag == ACL_GROUP;
	const char *kind = tag == ACL_USER_OBJ || tag == ACL_USER   ? "user" :
			   tag == ACL_GROUP_OBJ || tag == ACL_GROUP ? "group" :
			   tag == ACL_MASK			    ? "mask" :
			   tag == ACL_OTHER			    ? "other" :
								      NULL;
	char number[12] = "", entry[40];

	if (kind == NULL || permissions > 7 || (named && id == UINT32_MAX))
		return false;
	if (named)
		snprintf(number, sizeof(number), "%u", id);
	const int bytes =
		snprintf(entry, sizeof(entry), "%s%s:%s:%c%c%c", text->size > 0 ? "," : "", kind, number,
			 permissions & 4 ? 'r' : '-', permissions & 2 ? 'w' : '-', permissions & 1 ? 'x' : '-');
	store_buf_add(text, entry, (size_t)bytes);
	return true;
}

/* What tar --acls reads: it makes a list of the mode where there is no such record, over what the attribute says. One that no kernel takes has none. */
static void add_acl(struct store_buf *records, const char *key, const uint8_t *value, size_t bytes)
{
	struct store_in in = store_in_of(value, bytes);
	struct store_buf text = {0};
	bool right = bytes % 8 == 4 && store_in_u32(&in) == ACL_VERSION;
	unsigned last = 0, seen = 0;

	while (right && in.at != in.end) {
		const uint32_t entry = store_in_u32(&in), id = store_in_u32(&in);
		const unsigned tag = entry & 0xffff;

		/* in the order of their tags, of which only those with an id stand there more than once */
		right = (tag > last || (tag == last && (tag == ACL_USER || tag == ACL_GROUP))) &&
			add_acl_entry(&text, tag, entry >> 16, id);
		last = tag;
		seen |= tag;
	}
	const unsigned needed =
		ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER | ((seen & (ACL_USER | ACL_GROUP)) != 0 ? ACL_MASK : 0);
	if (right && (seen & needed) == needed)
		add_record(records, key, text.data, text.size);
	store_buf_free(&text);
}

static bool is_name(const uint8_t *name, size_t bytes, const char *text)
{
	return bytes == strlen(text) && memcmp(name, text, bytes) == 0;
}

static void add_attributes(struct store_buf *records, const struct store_node *node)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	char key[sizeof("SCHILY.xattr.") + 3 * STORE_NAME_MAX];
	const uint8_t *name, *value;
	size_t name_bytes, value_bytes;

	while (in.at != in.end && store_attribute_next(&in, &name, &name_bytes, &value, &value_bytes)) {
		int bytes = snprintf(key, sizeof(key), "SCHILY.xattr.");

		for (size_t i = 0; i < name_bytes; i++) /* as GNU tar: a key ends at its first "=" */
			bytes += snprintf(key + bytes, sizeof(key) - (size_t)bytes,
					  name[i] == '=' || name[i] == '%' ? "%%%02X" : "%c", name[i]);
		add_record(records, key, value, value_bytes);
		if (is_name(name, name_bytes, "system.posix_acl_access"))
			add_acl(records, "SCHILY.acl.access", value, value_bytes);
		else if (is_name(name, name_bytes, "system.posix_acl_default"))
			add_acl(records, "SCHILY.acl.default", value, value_bytes);
	}
}

/* Octal digits; what has no room is 0, and a record says it. */
static bool set_number(char *field, size_t bytes, uint64_t value)
{
	const bool fits = value >> 3 * (bytes - 1) == 0;

	snprintf(field, bytes, "%0*llo", (int)bytes - 1, (unsigned long long)(fits ? value : 0));
	return fits;
}

static void put_header(struct header *h, char type)
{
	unsigned sum = 0;

	h->type = type;
	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	memset(h->checksum, ' ', sizeof(h->checksum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += ((const uint8_t *)h)[i];
	snprintf(h->checksum, 7, "%06o", sum);
	fwrite(h, 1, sizeof(*h), stdout);
}

static void put_records(const struct store_buf *records)
{
	struct header h;

	if (records->size == 0)
		return;
	memset(&h, 0, sizeof(h));
	memcpy(h.name, "PaxHeader", 10);
	set_number(h.mode, sizeof(h.mode), 0644);
	set_number(h.uid, sizeof(h.uid), 0);
	set_number(h.gid, sizeof(h.gid), 0);
	set_number(h.size, sizeof(h.size), records->size);
	set_number(h.mtime, sizeof(h.mtime), 0);
	put_header(&h, 'x');
	fwrite(records->data, 1, records->size, stdout);
	cli_tar_pad(records->size);
}

static void set_text(struct store_buf *records, const char *key, char *field, size_t room, const char *text,
		     size_t bytes)
{
	memcpy(field, text, bytes < room ? bytes : room);
	if (bytes > room)
		add_record(records, key, text, bytes);
}

bool cli_tar_header(struct cli_tar *tar, const char *path, const struct store_node *node)
{
	static const char types[] = "?052346"; /* by type: file, directory, link, character and block device, FIFO */
	struct store_buf *records = &tar->records;
	const char *first = (node->flags & STORE_LINKED) != 0 ? first_name(tar, path, node) : NULL;
	const bool contents = node->type == STORE_NODE_FILE && first == NULL;
	struct header h;

	memset(&h, 0, sizeof(h));
	records->size = 0;
	set_text(records, "path", h.name, sizeof(h.name), path, strlen(path));
	if (first != NULL)
		set_text(records, "linkpath", h.link, sizeof(h.link), first, strlen(first));
	else if (node->type == STORE_NODE_LINK)
		set_text(records, "linkpath", h.link, sizeof(h.link), (const char *)node->target, node->target_bytes);
	set_number(h.mode, sizeof(h.mode), node->mode);
	if (!set_number(h.uid, sizeof(h.uid), node->uid))
		add_number(records, "uid", node->uid);
	if (!set_number(h.gid, sizeof(h.gid), node->gid))
		add_number(records, "gid", node->gid);
	if (!set_number(h.size, sizeof(h.size), contents ? node->size : 0))
		add_number(records, "size", node->size);
	if (!set_number(h.mtime, sizeof(h.mtime), (uint64_t)node->mtime.seconds) || node->mtime.ns != 0)
		add_time(records, "mtime", &node->mtime);
	if (node->flags & STORE_ATIME)
		add_time(records, "atime", &node->atime);
	set_number(h.major, sizeof(h.major), node->major);
	set_number(h.minor, sizeof(h.minor), node->minor);
	add_attributes(records, node);
	put_records(records);
	put_header(&h, first != NULL ? '1' : types[node->type]);
	return contents;
}
