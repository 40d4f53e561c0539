/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes: a chain of pages of packed records; values above 1 KiB have a chain of pages of their own. A
 * change rewrites one record inside one transaction, so a crash leaves the old value or the new one.
 */
#include "fs/xattr.h"
#include "alloc/count.h"

#include "data/extent.h"
#include "inode/inode.h"
#include "inode/txn.h"

#define VALUE_CREDITS                                                                                                  \
	28u /* blocks that removing one record changes at most: its value's 17 pages, its own, their space */

struct place { /* where a record is */
	uint32_t line;
	uint32_t offset;
	struct g4_address previous; /* the page before in the chain, none: it is the first */
};

G4_FN static struct g4_xattr_page *page_of(struct g4_fs *fs, uint32_t line)
{
	return (struct g4_xattr_page *)g4_line_data(&fs->cache, line);
}

G4_FN static struct g4_xattr_record *record_at(struct g4_xattr_page *page, uint32_t offset)
{
	return (struct g4_xattr_record *)(void *)(page->payload + offset);
}

G4_FN static uint32_t record_bytes(uint32_t name_bytes, uint64_t value_bytes)
{
	uint64_t value = value_bytes > G4_XATTR_INLINE_MAX ? sizeof(g4_ptr) : value_bytes;
	return (uint32_t)g4_align_up(sizeof(struct g4_xattr_record) + name_bytes + value, 8);
}

G4_FN static int get_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			  uint32_t type, uint32_t *line)
{
	int rc = g4_ptr_validate(ptr, &fs->meta.layout);

	if (rc == 0)
		rc = g4_meta_get(wg, &fs->meta, g4_ptr_address(ptr), type, line);
	if (rc < 0)
		return rc;
	if (page_of(fs, *line)->inode != inode->ino)
		rc = -G4_E_CORRUPT_XATTR;
	else if (type == G4_BLOCK_XATTR)
		rc = g4_xattr_page_validate(page_of(fs, *line), &fs->meta.layout);
	if (rc < 0)
		g4_cache_put(&fs->cache, *line);
	return rc;
}

G4_FN static int new_page(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t type, g4_ptr *ptr, uint32_t *line)
{
	struct g4_address address;
	int rc = g4_node_acquire(wg, fs, txn, inode, &address);

	if (rc == 0)
		rc = g4_meta_new(wg, &fs->meta, address, type, line);
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, *line);
	page_of(fs, *line)->inode = inode->ino;
	*ptr = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID);
	return 0;
}

/* ------------------------------------------------------------------ value chains */

G4_FN static int free_chain(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    g4_ptr ptr, uint32_t type)
{
	for (uint32_t n = 0; ptr && n < G4_XATTR_MAX_PAGES; n++) {
		struct g4_address address = g4_ptr_address(ptr);
		uint32_t line;
		int rc = get_page(wg, fs, inode, ptr, type, &line);
		if (rc < 0)
			return rc;
		ptr = page_of(fs, line)->next;
		g4_cache_put(&fs->cache, line);
		rc = g4_node_release(wg, fs, txn, inode, address);
		if (rc < 0)
			return rc;
	}
	return ptr ? -G4_E_CORRUPT_XATTR : 0;
}

G4_FN static int write_chain(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const uint8_t *value, uint64_t bytes, g4_ptr *head)
{
	uint64_t pages = (bytes + G4_XATTR_PAYLOAD - 1) / G4_XATTR_PAYLOAD;
	g4_ptr next = 0;

	for (uint64_t p = pages; p-- > 0;) { /* last page first, so that each knows its successor */
		uint64_t from = p * G4_XATTR_PAYLOAD, n = g4_min64(bytes - from, G4_XATTR_PAYLOAD);
		uint32_t line;
		g4_ptr ptr;
		int rc = new_page(wg, fs, txn, inode, G4_BLOCK_XATTR_VALUE, &ptr, &line);
		if (rc < 0) {
			free_chain(wg, fs, txn, inode, next, G4_BLOCK_XATTR_VALUE);
			return rc;
		}
		page_of(fs, line)->next = next;
		page_of(fs, line)->bytes = (uint32_t)n;
		g4_copy(wg, page_of(fs, line)->payload, value + from, n);
		g4_cache_put(&fs->cache, line);
		next = ptr;
	}
	*head = next;
	return 0;
}

G4_FN static int read_chain(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			    uint8_t *to, uint64_t bytes)
{
	while (bytes > 0) {
		uint32_t line;
		int rc = ptr ? get_page(wg, fs, inode, ptr, G4_BLOCK_XATTR_VALUE, &line) : -G4_E_CORRUPT_XATTR;
		if (rc < 0)
			return rc;
		uint64_t n = page_of(fs, line)->bytes;
		if (n == 0 || n > bytes) {
			g4_cache_put(&fs->cache, line);
			return -G4_E_CORRUPT_XATTR;
		}
		g4_copy(wg, to, page_of(fs, line)->payload, n);
		ptr = page_of(fs, line)->next;
		g4_cache_put(&fs->cache, line);
		to += n;
		bytes -= n;
	}
	return 0;
}

/* ------------------------------------------------------------------ records */

G4_FN static const char *name_of(const struct g4_xattr_record *record)
{
	return (const char *)(record + 1);
}

G4_FN static g4_ptr external_of(const struct g4_xattr_record *record)
{
	g4_ptr ptr;
	memcpy(&ptr, name_of(record) + record->name_bytes, sizeof(ptr));
	return ptr;
}

/* References the page that holds the record. -G4_E_NODATA: there is none. */
G4_FN static int find(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t space,
		      const char *name, uint32_t name_bytes, struct place *place)
{
	g4_ptr ptr = inode->disk.xattr;

	place->previous = G4_NO_ADDRESS;
	for (uint32_t n = 0; ptr && n < G4_XATTR_MAX_PAGES; n++) {
		int rc = get_page(wg, fs, inode, ptr, G4_BLOCK_XATTR, &place->line);
		if (rc < 0)
			return rc;
		struct g4_xattr_page *page = page_of(fs, place->line);
		for (uint32_t at = 0; at < page->bytes; at += record_at(page, at)->record_bytes) {
			const struct g4_xattr_record *record = record_at(page, at);
			if (record->space == space && record->name_bytes == name_bytes &&
			    g4_bytes_equal(name_of(record), name, name_bytes)) {
				place->offset = at;
				return 0;
			}
		}
		place->previous = g4_ptr_address(ptr);
		ptr = page->next;
		g4_cache_put(&fs->cache, place->line);
	}
	return -G4_E_NODATA;
}

G4_FN int g4_xattr_get(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t space,
		       const char *name, uint32_t name_bytes, void *to, uint64_t room, uint64_t *bytes)
{
	struct place place;
	int rc = find(wg, fs, inode, space, name, name_bytes, &place);

	if (rc < 0)
		return rc;
	const struct g4_xattr_record *record = record_at(page_of(fs, place.line), place.offset);
	*bytes = record->value_bytes;
	if (room > 0 && room < *bytes)
		rc = -G4_E_RANGE;
	else if (room > 0 && (record->flags & G4_XATTR_EXTERNAL))
		rc = read_chain(wg, fs, inode, external_of(record), (uint8_t *)to, *bytes);
	else if (room > 0)
		memcpy(to, name_of(record) + name_bytes, *bytes);
	g4_cache_put(&fs->cache, place.line);
	return rc;
}

/* Before anything changes: reads what cutting the record out will, and freeing its page where it is the last one. */
G4_FN static int look_at_record(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
				const struct place *at)
{
	struct g4_xattr_page *page = page_of(fs, at->line);
	const struct g4_xattr_record *record = record_at(page, at->offset);
	g4_ptr ptr = record->flags & G4_XATTR_EXTERNAL ? external_of(record) : 0;
	int rc = page->bytes > record->record_bytes ?
			 0 :
			 g4_alloc_look(wg, &fs->alloc, g4_page_address(fs->cache.lines[at->line].index));

	for (uint32_t n = 0; ptr && n < G4_XATTR_MAX_PAGES && rc == 0; n++) {
		uint32_t line;
		rc = get_page(wg, fs, inode, ptr, G4_BLOCK_XATTR_VALUE, &line);
		if (rc == 0) {
			rc = g4_alloc_look(wg, &fs->alloc, g4_ptr_address(ptr));
			ptr = page_of(fs, line)->next;
			g4_cache_put(&fs->cache, line);
		}
	}
	return rc;
}

/* Cuts a record out; its value chain is freed. An empty page leaves the chain, unless it is to be filled again. */
G4_FN static int cut_record(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    const struct place *place, bool keep_page)
{
	struct g4_xattr_page *page = page_of(fs, place->line);
	struct g4_xattr_record *record = record_at(page, place->offset);
	uint32_t bytes = record->record_bytes, behind = page->bytes - place->offset - bytes, line;
	int rc = look_at_record(wg, fs, inode, place);

	if (rc == 0 && (record->flags & G4_XATTR_EXTERNAL))
		rc = free_chain(wg, fs, txn, inode, external_of(record), G4_BLOCK_XATTR_VALUE);
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, place->line);
	g4_bytes_move(page->payload + place->offset, page->payload + place->offset + bytes, behind);
	page->bytes -= bytes;
	memset(page->payload + page->bytes, 0, bytes);
	if (page->bytes > 0 || keep_page)
		return 0;
	if (!g4_address_is_none(place->previous)) {
		rc = get_page(wg, fs, inode, g4_ptr_make(place->previous, G4_TAG_4K, G4_PTR_VALID), G4_BLOCK_XATTR,
			      &line);
		if (rc < 0)
			return rc;
		g4_txn_dirty(txn, line);
		page_of(fs, line)->next = page->next;
		g4_cache_put(&fs->cache, line);
	} else {
		inode->disk.xattr = page->next;
	}
	return g4_node_release(wg, fs, txn, inode, g4_page_address(fs->cache.lines[place->line].index));
}

/* References a page with room for `bytes`, adding one at the chain's front when none has. */
G4_FN static int page_with_room(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				uint32_t bytes, uint32_t *line)
{
	g4_ptr ptr = inode->disk.xattr, fresh;
	uint32_t n = 0;

	for (; ptr; n++) {
		int rc = get_page(wg, fs, inode, ptr, G4_BLOCK_XATTR, line);
		if (rc < 0)
			return rc;
		if (page_of(fs, *line)->bytes + bytes <= G4_XATTR_PAYLOAD) {
			g4_txn_dirty(txn, *line);
			return 0;
		}
		ptr = page_of(fs, *line)->next;
		g4_cache_put(&fs->cache, *line);
		if (n >= G4_XATTR_MAX_PAGES - 1)
			return -G4_E_XATTR_SPACE;
	}
	int rc = new_page(wg, fs, txn, inode, G4_BLOCK_XATTR, &fresh, line);
	if (rc < 0)
		return rc;
	page_of(fs, *line)->next = inode->disk.xattr;
	inode->disk.xattr = fresh;
	return 0;
}

/* Puts a record behind the others of a page that has room and is dirty. */
G4_FN static void append_record(struct g4_xattr_page *page, uint32_t space, const char *name, uint32_t name_bytes,
				const void *value, uint64_t bytes, g4_ptr chain)
{
	uint32_t size = record_bytes(name_bytes, bytes);
	uint8_t *at = page->payload + page->bytes;
	struct g4_xattr_record header;

	memset(&header, 0, sizeof(header));
	header.record_bytes = (g4_le16)size;
	header.space = (uint8_t)space;
	header.flags = chain ? G4_XATTR_EXTERNAL : 0;
	header.name_bytes = (uint8_t)name_bytes;
	header.value_bytes = (uint32_t)bytes;
	memset(at, 0, size);
	memcpy(at, &header, sizeof(header));
	memcpy(at + sizeof(header), name, name_bytes);
	if (chain)
		memcpy(at + sizeof(header) + name_bytes, &chain, sizeof(chain));
	else
		memcpy(at + sizeof(header) + name_bytes, value, bytes);
	page->bytes += size;
}

/*
 * The page for the record that takes the place of `old` (NULL: of none), referenced. The old record goes once there is
 * room for the new one, so that want of space leaves it alone.
 */
G4_FN static int make_place(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    struct place *old, uint32_t size, uint32_t *line)
{
	if (!old)
		return page_with_room(wg, fs, txn, inode, size, line);
	const struct g4_xattr_page *page = page_of(fs, old->line);
	if (page->bytes - record_at(page_of(fs, old->line), old->offset)->record_bytes + size <= G4_XATTR_PAYLOAD) {
		*line = old->line;
		g4_cache_ref(&fs->cache, *line);
		return cut_record(wg, fs, txn, inode, old, true);
	}
	g4_ptr first = inode->disk.xattr;
	int rc = page_with_room(wg, fs, txn, inode, size, line);
	if (rc < 0)
		return rc;
	if (inode->disk.xattr != first &&
	    g4_address_is_none(old->previous)) /* a new page came in front of the old record's */
		old->previous = g4_ptr_address(inode->disk.xattr);
	return cut_record(wg, fs, txn, inode, old, false);
}

G4_FN int g4_xattr_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t space, const char *name, uint32_t name_bytes, const void *value, uint64_t bytes,
		       uint32_t flags)
{
	uint32_t line;
	struct place place;
	g4_ptr chain = 0;
	int found = find(wg, fs, inode, space, name, name_bytes, &place), rc = 0;

	if (found < 0 && found != -G4_E_NODATA)
		return found;
	if (found == 0 && (flags & G4_XATTR_CREATE))
		rc = -G4_E_EXIST;
	if (found < 0 && (flags & G4_XATTR_REPLACE))
		rc = -G4_E_NODATA;
	if (rc == 0 && found == 0)
		rc = look_at_record(wg, fs, inode, &place);
	if (rc == 0 && bytes > G4_XATTR_INLINE_MAX)
		rc = write_chain(wg, fs, txn, inode, (const uint8_t *)value, bytes, &chain);
	if (rc == 0) {
		rc = make_place(wg, fs, txn, inode, found == 0 ? &place : NULL, record_bytes(name_bytes, bytes), &line);
		if (rc < 0 && chain)
			free_chain(wg, fs, txn, inode, chain, G4_BLOCK_XATTR_VALUE);
	}
	if (rc == 0) {
		append_record(page_of(fs, line), space, name, name_bytes, value, bytes, chain);
		g4_cache_put(&fs->cache, line);
	}
	if (found == 0)
		g4_cache_put(&fs->cache, place.line);
	return rc;
}

G4_FN int g4_xattr_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t space, const char *name, uint32_t name_bytes)
{
	struct place place;
	int rc = find(wg, fs, inode, space, name, name_bytes, &place);

	if (rc < 0)
		return rc;
	rc = cut_record(wg, fs, txn, inode, &place, false);
	g4_cache_put(&fs->cache, place.line);
	return rc;
}

#define CAPABILITY "capability" /* in the space of security. */
#define CAPABILITY_BYTES (sizeof(CAPABILITY) - 1)

G4_FN int g4_drop_capability(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode)
{
	struct place place;
	struct g4_txn txn;
	int rc = find(wg, fs, inode, G4_XATTR_SECURITY, CAPABILITY, CAPABILITY_BYTES, &place);

	if (rc == -G4_E_NODATA)
		return 0;
	if (rc < 0)
		return rc;
	g4_cache_put(&fs->cache, place.line);
	rc = g4_begin(wg, fs, G4_XATTR_CREDITS, &txn);
	if (rc < 0)
		return rc;
	const struct g4_inode before = inode->disk;
	rc = g4_xattr_remove(wg, fs, &txn, inode, G4_XATTR_SECURITY, CAPABILITY, CAPABILITY_BYTES);
	return g4_end(fs, &txn, g4_inode_settle(wg, fs, &txn, inode, &before, rc));
}

G4_FN int g4_xattr_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	const uint32_t before = txn->changed;
	int rc = 0;

	/* a record at a time, so that each step leaves a valid chain: many large values do not fit one transaction */
	while (rc == 0 && inode->disk.xattr && (txn->credits >= VALUE_CREDITS || g4_txn_extend(txn, VALUE_CREDITS))) {
		const uint32_t so_far = txn->changed;
		struct place place = {0, 0, {0}};
		rc = get_page(wg, fs, inode, inode->disk.xattr, G4_BLOCK_XATTR, &place.line);
		if (rc == -G4_E_IO && so_far != before)
			return 0; /* the next one is told, which has changed nothing */
		if (rc < 0)
			break;
		if (page_of(fs, place.line)->bytes == 0)
			rc = -G4_E_CORRUPT_XATTR; /* an empty page leaves the chain */
		else
			rc = cut_record(wg, fs, txn, inode, &place, false);
		g4_cache_put(&fs->cache, place.line);
		if (rc == -G4_E_IO && so_far != before && txn->changed == so_far)
			return 0; /* the same */
	}
	return rc;
}

G4_FN int g4_xattr_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			uint32_t *line)
{
	return get_page(wg, fs, inode, ptr, G4_BLOCK_XATTR, line);
}
