/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about extended attributes: full names, and permissions to read and change them. */
#include "fs/acl.h"
#include "fs/commands.h"
#include "fs/node.h"
#include "fs/perm.h"
#include "fs/policy.h"
#include "fs/xattr.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

struct prefix {
	char text[28];
	uint32_t bytes;
	uint32_t space;
	bool whole; /* the prefix is the whole name */
};
/* on no disk: SPACE_POLICY and a field of the inode's policy. They are there always, and not listed: cp -a leaves them out */
#define SPACE_POLICY 256u
static G4_CONST struct prefix prefixes[] = {
	{"user.", 5, G4_XATTR_USER, false},
	{"trusted.", 8, G4_XATTR_TRUSTED, false},
	{"security.", 9, G4_XATTR_SECURITY, false},
	{"system.posix_acl_access", 23, G4_XATTR_ACL_ACCESS, true},
	{"system.posix_acl_default", 24, G4_XATTR_ACL_DEFAULT, true},
	{"gpu4fs.checksum", 15, SPACE_POLICY + G4_POLICY_FIELD_CHECKSUM, true},
	{"gpu4fs.dedup", 12, SPACE_POLICY + G4_POLICY_FIELD_DEDUP, true},
	{"gpu4fs.raid", 11, SPACE_POLICY + G4_POLICY_FIELD_RAID, true},
	{"gpu4fs.domain", 13, SPACE_POLICY + G4_POLICY_FIELD_DOMAIN, true},
};
#define PREFIXES (sizeof(prefixes) / sizeof(prefixes[0]))

struct full_name {
	uint32_t space;
	const char *name;
	uint32_t bytes;
};

G4_FN static bool is_policy(const struct full_name *name)
{
	return name->space >= SPACE_POLICY;
}

G4_FN static enum g4_policy_field field_of(const struct full_name *name)
{
	return (enum g4_policy_field)(name->space - SPACE_POLICY);
}

G4_FN static int parse_name(const struct g4_cmd *cmd, struct full_name *out)
{
	if (cmd->name_bytes == 0 || cmd->name_bytes > G4_NAME_MAX)
		return cmd->name_bytes ? -G4_E_RANGE : -G4_E_INVAL;
	for (uint32_t i = 0; i < PREFIXES; i++) {
		const struct prefix *p = &prefixes[i];
		bool fits = p->whole ? cmd->name_bytes == p->bytes : cmd->name_bytes > p->bytes;
		if (fits && g4_bytes_equal(cmd->name, p->text, p->bytes)) {
			out->space = p->space;
			out->name = cmd->name + p->bytes;
			out->bytes = cmd->name_bytes - p->bytes;
			return 0;
		}
	}
	return -G4_E_NOTSUP;
}

/* Permissions to read and change attributes (xattr(7)). */
G4_FN static int may(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct full_name *name,
		     const struct g4_cred *cred, bool change)
{
	uint32_t type = inode->disk.mode & G4_S_IFMT;

	if (change && (inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND)))
		return -G4_E_PERM;
	switch (name->space) {
	case G4_XATTR_USER:
		if (type != G4_S_IFREG && type != G4_S_IFDIR)
			return change ? -G4_E_PERM : -G4_E_NODATA;
		if (change && type == G4_S_IFDIR && (inode->disk.mode & G4_S_ISVTX) && !g4_is_owner(inode, cred))
			return -G4_E_PERM;
		return g4_permission(wg, fs, inode, cred, change ? G4_ACCESS_WRITE : G4_ACCESS_READ);
	case G4_XATTR_TRUSTED:
		return g4_is_root(cred) ? 0 : change ? -G4_E_PERM : -G4_E_NODATA;
	case G4_XATTR_SECURITY:
		return !change || g4_is_root(cred) ? 0 : -G4_E_PERM;
	case SPACE_POLICY + G4_POLICY_FIELD_CHECKSUM:
	case SPACE_POLICY + G4_POLICY_FIELD_DEDUP:
	case SPACE_POLICY + G4_POLICY_FIELD_RAID:
		if (type != G4_S_IFREG && type != G4_S_IFDIR)
			return -G4_E_NOTSUP;
		return !change || g4_is_owner(inode, cred) ? 0 : -G4_E_PERM;
	case SPACE_POLICY + G4_POLICY_FIELD_DOMAIN:
		if (type != G4_S_IFREG && type != G4_S_IFDIR)
			return -G4_E_NOTSUP;
		return change ? -G4_E_PERM : 0;
	default:
		if (type == G4_S_IFLNK)
			return -G4_E_NOTSUP;
		if (name->space == G4_XATTR_ACL_DEFAULT && type != G4_S_IFDIR)
			return change ? -G4_E_ACCES : -G4_E_NODATA;
		return !change || g4_is_owner(inode, cred) ? 0 : -G4_E_PERM;
	}
}

/*
 * An access ACL also sets the mode; one that says no more than the mode is not kept. The mode comes last: the list may find no
 * room, and its mask in the mode without it would be rights for the group.
 */
G4_FN static int set_acl(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 const struct full_name *name, const struct g4_cmd *cmd)
{
	uint32_t bits;
	bool equivalent;
	int rc = g4_acl_check(cmd->data, cmd->length, &bits, &equivalent);

	if (rc < 0)
		return rc;
	if (name->space == G4_XATTR_ACL_DEFAULT)
		return g4_xattr_set(wg, fs, txn, inode, name->space, "", 0, cmd->data, cmd->length, 0);
	if (equivalent) {
		rc = g4_xattr_remove(wg, fs, txn, inode, name->space, "", 0);
		rc = rc == -G4_E_NODATA ? 0 : rc;
	} else {
		rc = g4_xattr_set(wg, fs, txn, inode, name->space, "", 0, cmd->data, cmd->length, 0);
	}
	if (rc < 0)
		return rc;
	uint32_t mode = (inode->disk.mode & ~0777u) | bits;
	if ((cmd->flags & G4_XATTR_KILL_SGID) || (!g4_is_root(cmd->cred) && !g4_in_group(cmd->cred, inode->disk.gid)))
		mode &= ~G4_S_ISGID;
	inode->disk.mode = (g4_le16)mode;
	return 0;
}

/* Removing it is setting it to what the file system does by default. */
G4_FN static int change_policy(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t index,
			       enum g4_policy_field field, bool set)
{
	uint32_t value = 0;
	int rc = set ? g4_policy_parse(field, (const char *)cmd->data, cmd->length, &value) : 0;

	if (rc == 0 && set && (cmd->flags & G4_XATTR_CREATE))
		rc = -G4_E_EXIST;
	return rc == 0 ? g4_policy_set(wg, fs, index, field, value) : rc;
}

G4_FN static int get_policy(const struct g4_inode_core *inode, enum g4_policy_field field, struct g4_cmd *cmd)
{
	char text[G4_POLICY_TEXT];

	cmd->value = g4_policy_text(inode, field, text);
	if (cmd->length > 0 && cmd->value > cmd->length)
		return -G4_E_RANGE;
	if (cmd->length > 0)
		memcpy(cmd->data, text, cmd->value);
	return 0;
}

G4_FN static int change(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, bool set)
{
	struct full_name name;
	struct g4_txn txn;
	uint32_t index;
	int rc = parse_name(cmd, &name);

	if (rc == 0 && set && cmd->length > G4_XATTR_VALUE_MAX)
		rc = -G4_E_XATTR_BIG;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_icache_lock(fs, inode);
	rc = inode->dead ? -G4_E_STALE : may(wg, fs, inode, &name, cmd->cred, true);
	const bool policy = rc == 0 && is_policy(&name);
	if (policy)
		rc = change_policy(wg, fs, cmd, index, field_of(&name), set);
	else if (rc == 0)
		rc = g4_begin(wg, fs, G4_XATTR_CREDITS, &txn);
	if (rc == 0 && !policy) {
		const struct g4_inode before = inode->disk;
		bool acl = name.space == G4_XATTR_ACL_ACCESS || name.space == G4_XATTR_ACL_DEFAULT;
		if (!set)
			rc = g4_xattr_remove(wg, fs, &txn, inode, name.space, name.name, name.bytes);
		else if (acl)
			rc = set_acl(wg, fs, &txn, inode, &name, cmd);
		else
			rc = g4_xattr_set(wg, fs, &txn, inode, name.space, name.name, name.bytes, cmd->data,
					  cmd->length, cmd->flags);
		if (rc == -G4_E_NODATA && acl)
			rc = 0;
		if (rc == 0)
			inode->disk.ctime_ns = g4_now(fs);
		rc = g4_end(fs, &txn, g4_inode_settle(wg, fs, &txn, inode, &before, rc));
	}
	g4_write_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

G4_FN int g4_do_setxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	return change(wg, fs, cmd, true);
}

G4_FN int g4_do_removexattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	return change(wg, fs, cmd, false);
}

G4_FN int g4_do_getxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct full_name name;
	uint32_t index;
	int rc = parse_name(cmd, &name);

	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	rc = inode->dead ? -G4_E_STALE : may(wg, fs, inode, &name, cmd->cred, false);
	if (rc == 0 && is_policy(&name))
		rc = get_policy(inode, field_of(&name), cmd);
	else if (rc == 0)
		rc = g4_xattr_get(wg, fs, inode, name.space, name.name, name.bytes, cmd->data, cmd->length,
				  &cmd->value);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

/* Appends one full name to the list; *used counts even where it does not fit. */
G4_FN static void list_name(const struct g4_xattr_record *record, uint8_t *to, uint64_t room, uint64_t *used)
{
	const struct prefix *p = &prefixes[0];

	for (uint32_t i = 0; i < PREFIXES; i++)
		if (prefixes[i].space == record->space)
			p = &prefixes[i];
	uint64_t bytes = p->bytes + record->name_bytes + 1u;
	if (*used + bytes <= room) {
		memcpy(to + *used, p->text, p->bytes);
		memcpy(to + *used + p->bytes, record + 1, record->name_bytes);
		to[*used + bytes - 1] = 0;
	}
	*used += bytes;
}

G4_FN int g4_do_listxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;
	int rc = g4_icache_get_node(wg, fs, cmd, &index);

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	g4_ptr ptr = inode->dead ? 0 : inode->disk.xattr;
	cmd->value = 0;
	for (uint32_t n = 0; ptr && rc == 0 && n < G4_XATTR_MAX_PAGES; n++) {
		uint32_t line;
		rc = g4_xattr_page(wg, fs, inode, ptr, &line);
		if (rc < 0)
			break;
		const struct g4_xattr_page *page = (const struct g4_xattr_page *)g4_line_data(&fs->cache, line);
		const struct g4_xattr_record *record;
		for (uint32_t at = 0; at < page->bytes; at += record->record_bytes) {
			record = (const struct g4_xattr_record *)(const void *)(page->payload + at);
			if (record->space != G4_XATTR_TRUSTED || g4_is_root(cmd->cred))
				list_name(record, (uint8_t *)cmd->data, cmd->length, &cmd->value);
		}
		ptr = page->next;
		g4_cache_put(&fs->cache, line);
	}
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	if (rc == 0 && cmd->length > 0 && cmd->value > cmd->length)
		rc = -G4_E_RANGE;
	return g4_check(fs, rc);
}
