/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX access control lists in the form that the kernel and libacl exchange (acl(5), posix_acl_xattr.h): a version and
 * entries of tag, permissions and id, sorted by tag and id.
 */
#include "fs/acl.h"

#include "fs/xattr.h"

#define ACL_VERSION 2u
enum {
	ACL_USER_OBJ = 0x01,
	ACL_USER = 0x02,
	ACL_GROUP_OBJ = 0x04,
	ACL_GROUP = 0x08,
	ACL_MASK = 0x10,
	ACL_OTHER = 0x20
};

struct acl_entry {
	g4_le16 tag;
	g4_le16 perm;
	g4_le32 id;
};
struct acl_header {
	g4_le32 version;
};

G4_FN static uint32_t entry_count(uint64_t bytes)
{
	return (uint32_t)((bytes - sizeof(struct acl_header)) / sizeof(struct acl_entry));
}

/* Entries are 4 B aligned at best: copied out and in. */
G4_FN static struct acl_entry load_entry(const void *value, uint32_t index)
{
	struct acl_entry entry;
	memcpy(&entry, (const uint8_t *)value + sizeof(struct acl_header) + index * sizeof(entry), sizeof(entry));
	return entry;
}

G4_FN static void store_perm(void *value, uint32_t index, uint32_t perm)
{
	struct acl_entry entry = load_entry(value, index);
	entry.perm = (g4_le16)perm;
	memcpy((uint8_t *)value + sizeof(struct acl_header) + index * sizeof(entry), &entry, sizeof(entry));
}

G4_FN static int check_shape(const void *value, uint64_t bytes)
{
	g4_le32 version;

	if (bytes < sizeof(struct acl_header) || bytes > G4_ACL_MAX_BYTES ||
	    (bytes - sizeof(struct acl_header)) % sizeof(struct acl_entry))
		return -G4_E_INVAL;
	memcpy(&version, value, sizeof(version));
	return version == ACL_VERSION ? 0 : -G4_E_NOTSUP;
}

G4_FN int g4_acl_check(const void *value, uint64_t bytes, uint32_t *mode_bits, bool *equivalent)
{
	uint32_t seen = 0, last_tag = 0, user = 0, group = 0, mask = 0, other = 0;
	uint32_t last_id = 0;

	int rc = check_shape(value, bytes);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < entry_count(bytes); i++) {
		struct acl_entry entry = load_entry(value, i);
		bool named = entry.tag == ACL_USER || entry.tag == ACL_GROUP;

		if (entry.perm > 7 || entry.tag < last_tag ||
		    (entry.tag == last_tag && (!named || entry.id <= last_id)))
			return -G4_E_INVAL;
		switch (entry.tag) {
		case ACL_USER_OBJ:
			user = entry.perm;
			break;
		case ACL_GROUP_OBJ:
			group = entry.perm;
			break;
		case ACL_MASK:
			mask = entry.perm;
			break;
		case ACL_OTHER:
			other = entry.perm;
			break;
		case ACL_USER:
		case ACL_GROUP:
			break;
		default:
			return -G4_E_INVAL;
		}
		seen |= entry.tag;
		last_tag = entry.tag;
		last_id = entry.id;
	}
	uint32_t needed = ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER;
	if ((seen & needed) != needed || ((seen & (ACL_USER | ACL_GROUP)) && !(seen & ACL_MASK)))
		return -G4_E_INVAL;
	*mode_bits = user << 6 | ((seen & ACL_MASK) ? mask : group) << 3 | other;
	*equivalent = (seen & ~needed) == 0;
	return 0;
}

G4_FN static bool has_mask(const void *value, uint64_t bytes)
{
	for (uint32_t i = 0; i < entry_count(bytes); i++)
		if (load_entry(value, i).tag == ACL_MASK)
			return true;
	return false;
}

G4_FN void g4_acl_chmod(void *value, uint64_t bytes, uint32_t mode)
{
	bool masked = has_mask(value, bytes);

	for (uint32_t i = 0; i < entry_count(bytes); i++) {
		switch (load_entry(value, i).tag) {
		case ACL_USER_OBJ:
			store_perm(value, i, mode >> 6 & 7);
			break;
		case ACL_GROUP_OBJ:
			if (!masked)
				store_perm(value, i, mode >> 3 & 7);
			break;
		case ACL_MASK:
			store_perm(value, i, mode >> 3 & 7);
			break;
		case ACL_OTHER:
			store_perm(value, i, mode & 7);
			break;
		default:
			break;
		}
	}
}

G4_FN int g4_acl_allows(const void *value, uint64_t bytes, const struct g4_inode_core *inode,
			const struct g4_cred *cred, uint32_t want)
{
	uint32_t mask = 7;
	bool in_some_group = false;

	if (check_shape(value, bytes) < 0)
		return -G4_E_CORRUPT_XATTR;
	for (uint32_t i = 0; i < entry_count(bytes); i++)
		if (load_entry(value, i).tag == ACL_MASK)
			mask = load_entry(value, i).perm;
	for (uint32_t i = 0; i < entry_count(bytes); i++) {
		struct acl_entry entry = load_entry(value, i);
		bool group = (entry.tag == ACL_GROUP_OBJ && g4_in_group(cred, inode->disk.gid)) ||
			     (entry.tag == ACL_GROUP && g4_in_group(cred, entry.id));

		if (entry.tag == ACL_USER && entry.id == cred->uid)
			return (entry.perm & mask & want) == want ? 0 : -G4_E_ACCES;
		if (group) {
			in_some_group = true;
			if ((entry.perm & mask & want) == want)
				return 0;
		}
		if (entry.tag == ACL_OTHER && !in_some_group)
			return (entry.perm & want) == want ? 0 : -G4_E_ACCES;
	}
	return -G4_E_ACCES;
}

/* The new inode's ACL is the default ACL cut down to what the creator asked for; the umask does not count then. */
G4_FN static void restrict_acl(void *value, uint64_t bytes, uint32_t *mode)
{
	uint32_t result = *mode & ~0777u;
	bool masked = has_mask(value, bytes);

	for (uint32_t i = 0; i < entry_count(bytes); i++) {
		struct acl_entry entry = load_entry(value, i);
		uint32_t perm = entry.perm;
		switch (entry.tag) {
		case ACL_USER_OBJ:
			perm &= *mode >> 6 & 7;
			result |= perm << 6;
			break;
		case ACL_GROUP_OBJ:
			if (masked)
				continue;
			perm &= *mode >> 3 & 7;
			result |= perm << 3;
			break;
		case ACL_MASK:
			perm &= *mode >> 3 & 7;
			result |= perm << 3;
			break;
		case ACL_OTHER:
			perm &= *mode & 7;
			result |= perm;
			break;
		default:
			continue;
		}
		store_perm(value, i, perm);
	}
	*mode = result;
}

G4_FN int g4_acl_inherit(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t mode,
			 uint32_t umask, struct g4_acl_result *out)
{
	uint64_t bytes = 0;
	uint32_t bits;
	bool equivalent;
	int rc = -G4_E_NODATA;

	out->access_bytes = out->default_bytes = 0;
	out->mode = mode;
	if (g4_is_link(mode))
		return 0;
	if (parent->disk.xattr)
		rc = g4_xattr_get(wg, fs, parent, G4_XATTR_ACL_DEFAULT, "", 0, out->default_, sizeof(out->default_),
				  &bytes);
	if (rc == -G4_E_NODATA) {
		out->mode = mode & ~(umask & 0777u);
		return 0;
	}
	if (rc == 0)
		rc = g4_acl_check(out->default_, bytes, &bits, &equivalent);
	if (rc < 0)
		return rc;
	memcpy(out->access, out->default_, bytes);
	restrict_acl(out->access, bytes, &out->mode);
	out->access_bytes = equivalent ? 0 : (uint32_t)bytes;
	out->default_bytes = g4_is_dir(mode) ? (uint32_t)bytes : 0;
	return 0;
}
