/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing and verifying metadata blocks. */
#include "journal/block.h"
#include "format/owners.h"

#include "journal/newest.h"
#include "journal/sealed_wide.h"
#include "simt/scratch.h"

G4_FN static int validate(const struct g4_meta *meta, const void *page, uint32_t type)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;

	switch (type) {
	case G4_BLOCK_ALLOC:
		return g4_alloc_page_validate((const struct g4_alloc_page *)page,
					      (header->address - meta->layout.alloc_address) / G4_PAGE_BYTES);
	case G4_BLOCK_SHARES:
		return g4_shares_page_validate((const struct g4_shares_page *)page,
					       ((const struct g4_shares_page *)page)->group, &meta->layout);
	case G4_BLOCK_OWNERS:
		return g4_owners_page_validate((const struct g4_owners_page *)page,
					       ((const struct g4_owners_page *)page)->region);
	case G4_BLOCK_BUFFERED:
		return g4_buffered_page_validate((const struct g4_buffered_page *)page,
						 ((const struct g4_buffered_page *)page)->group);
	case G4_BLOCK_SLAB:
		return g4_slab_validate((const struct g4_slab_header *)page);
	case G4_BLOCK_DIR_LEAF:
		return g4_dir_leaf_validate((const struct g4_dir_leaf *)page, &meta->layout);
	case G4_BLOCK_XATTR:
	case G4_BLOCK_XATTR_VALUE:
		return ((const struct g4_xattr_page *)page)->bytes <= G4_XATTR_PAYLOAD ? 0 : -G4_E_CORRUPT_XATTR;
	default:
		return 0; /* the reader of the type checks against what it knows */
	}
}

/* A page that a directory pointer leads to may be a leaf or an index: accept what it says if it is one of the two. */
G4_FN static uint32_t real_type(const void *page, uint32_t type)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;

	if (type == G4_BLOCK_DIR_LEAF && header->magic == G4_BLOCK_MAGIC && header->type == G4_BLOCK_DIR_INDEX)
		return G4_BLOCK_DIR_INDEX;
	return type;
}

G4_FN static void clear_note(struct g4_meta *meta, uint32_t line)
{
	memset(&meta->cache->notes[line], 0, sizeof(meta->cache->notes[line]));
}

/* Where the page that belongs at `address` is to be read instead; NULL: there. */
G4_FN static const struct g4_in_log *in_log(const struct g4_meta *meta, struct g4_address address)
{
	uint32_t low = 0, high = meta->in_log_count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (g4_address_is_before(meta->in_log[middle].home, address))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < meta->in_log_count && g4_address_is(meta->in_log[low].home, address))
		return &meta->in_log[low];
	return NULL;
}

/* Whether what was read into the line is the page that belongs at `address`; what the line has of it. */
G4_FN static int take(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type, uint32_t line)
{
	struct g4_meta_line *line_about = g4_meta_line(meta->cache, line);
	void *page = g4_line_data(meta->cache, line);
	struct g4_sealed_about about;

	clear_note(meta, line);
	type = real_type(page, type);
	int rc = g4_verify_wide(wg, page, type, address, meta->fs_tag, &about, g4_meta_places(meta->cache, line));
	if (rc == 0)
		rc = validate(meta, page, type);
	line_about->type = (uint8_t)type;
	line_about->inode = about.inode;
	line_about->level = (uint8_t)about.level;
	line_about->quarter = (uint8_t)about.quarter;
	line_about->below = about.below;
	return rc;
}

/* A version of a page, into the line, and as it is on the device into `buffer`. */
G4_FN G4_COLD static int take_version(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type,
				      uint32_t line, uint32_t version, uint8_t *buffer)
{
	const int rc = g4_space_read_copy(wg, meta->space, version, address, buffer, G4_PAGE_BYTES);

	if (rc < 0)
		return rc;
	g4_copy(wg, g4_line_data(meta->cache, line), buffer, G4_PAGE_BYTES);
	return take(wg, meta, address, type, line);
}

/*
 * The copy that was read is damaged, with `rc`: another one takes its place, here and on the device. It is the newest, for a copy or a parity
 * that has missed a write gives an older one, which is as whole. Nobody writes there meanwhile: a
 * page that is going to be written is in the cache, and what leads to this one is locked. Only of slabs that is not certain, for an
 * inode's number may be of long ago: copies of those are mended by a scrub, and when they change. What parity made needs no lock: it goes to
 * its place only if parity still makes the same (space/set_parity_host.c).
 */
G4_FN G4_COLD static int take_other_copy(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address,
					 uint32_t type, uint32_t line, int rc)
{
	const uint32_t copies = g4_space_copies(meta->space), versions = g4_space_versions(meta->space),
		       mark = g4_scratch_mark(wg);
	uint8_t *buffer = g4_scratch_take_page(wg);
	struct g4_newest newest = g4_newest_none();
	bool more = true;

	for (uint32_t version = 0; version < versions && more; version++)
		if (take_version(wg, meta, address, type, line, version, buffer) == 0)
			more = g4_newest_take(&newest, version, version >= copies,
					      g4_block_generation(buffer, address, meta->fs_tag));
	if (newest.version != G4_NO_VERSION)
		rc = take_version(wg, meta, address, type, line, newest.version, buffer);
	if (rc == 0 && (type != G4_BLOCK_SLAB || newest.version >= copies))
		g4_space_mend(wg, meta->space, address, buffer, G4_PAGE_BYTES);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN G4_COLD int g4_block_read_image(struct g4_wg *wg, const struct g4_meta *meta, const struct g4_in_log *image,
				      void *page)
{
	const uint32_t copies = g4_space_copies(meta->space), mark = g4_scratch_mark(wg);
	uint8_t *buffer = g4_scratch_take_page(wg);
	int rc = -G4_E_IO;

	for (uint32_t copy = 0; copy < copies && rc < 0; copy++) {
		if (copy == image->copy ||
		    g4_space_read_copy(wg, meta->space, copy, image->log, page, G4_PAGE_BYTES) < 0)
			continue;
		g4_copy(wg, buffer, page, G4_PAGE_BYTES);
		/* an older image of another copy of the log would look as good */
		if (g4_block_generation(buffer, image->home, meta->fs_tag) == image->sequence)
			rc = 0;
	}
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN G4_COLD static int fill(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type,
			      uint32_t line)
{
	const struct g4_in_log *image = in_log(meta, address);
	void *page = g4_line_data(meta->cache, line);
	int rc = image ? g4_space_read_copy(wg, meta->space, image->copy, image->log, page, G4_PAGE_BYTES) :
			 g4_space_fetch_page(wg, meta->space, address, page,
					     type == G4_BLOCK_SLAB || type == G4_BLOCK_DIR_LEAF);

	if (rc == 0) {
		rc = take(wg, meta, address, type, line);
		/* it may have been the tier's: what is said of the device is of what the device has */
		if (rc < 0 && !image && g4_tier_is_used(&meta->space->tier)) {
			g4_space_distrust(meta->space, address, G4_PAGE_BYTES);
			if (g4_space_read(wg, meta->space, address, page, G4_PAGE_BYTES) == 0)
				rc = take(wg, meta, address, type, line);
		}
	}
	if (rc < 0 && !image && g4_space_versions(meta->space) > 1)
		rc = take_other_copy(wg, meta, address, type, line, rc);
	else if (rc < 0 && image && g4_block_read_image(wg, meta, image, page) == 0)
		rc = take(wg, meta, address, type, line);
	if (rc < 0)
		g4_cache_abort(meta->cache, line);
	else
		g4_cache_filled(meta->cache, line);
	return rc;
}

G4_FN static bool address_ok(const struct g4_meta *meta, struct g4_address address)
{
	const uint64_t at = g4_address_stored(address);

	return (at & (G4_PAGE_BYTES - 1)) == 0 && at >= G4_PAGE_BYTES && at <= g4_layout_end(&meta->layout);
}

/* Of a referenced line i. */
G4_FN static int check_type(struct g4_cache *cache, uint32_t i, uint32_t type, uint32_t *line)
{
	uint32_t have = g4_meta_line(cache, i)->type;

	if (have != type && !(type == G4_BLOCK_DIR_LEAF && have == G4_BLOCK_DIR_INDEX)) {
		g4_cache_put(cache, i);
		return -G4_E_TYPE;
	}
	*line = i;
	return 0;
}

G4_FN int g4_meta_get(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type, uint32_t *line)
{
	struct g4_cache *const cache = meta->cache;
	bool fresh;
	uint32_t i;

	if (!address_ok(meta, address))
		return -G4_E_MISDIRECTED;
	i = g4_cache_get(wg, cache, 0, g4_address_page(address), false, &fresh);
	if (i == G4_NO_LINE) {
		g4_cache_count_without(wg, cache, G4_CACHE_METADATA);
		return -G4_E_NOMEM;
	}
	g4_cache_count(wg, cache, G4_CACHE_METADATA, !fresh, fresh);
	if (fresh) {
		int rc = fill(wg, meta, address, type, i);
		if (rc < 0)
			return rc;
	}
	return check_type(cache, i, type, line);
}

G4_FN void g4_meta_read_together(struct g4_wg *wg, struct g4_meta *meta, const struct g4_meta_wanted *wanted,
				 uint32_t count)
{
	struct g4_space_io requests[G4_META_TOGETHER];
	struct g4_iov iovs[G4_META_TOGETHER];
	const struct g4_meta_wanted *of[G4_META_TOGETHER];
	uint32_t lines[G4_META_TOGETHER], fresh_count = 0;

	for (uint32_t k = 0; k < count; k++) {
		bool fresh = false;
		if (!address_ok(meta, wanted[k].address) || in_log(meta, wanted[k].address))
			continue;
		const uint32_t line =
			g4_cache_get(wg, meta->cache, 0, g4_address_page(wanted[k].address), false, &fresh);
		if (line == G4_NO_LINE)
			break;
		if (!fresh) {
			g4_cache_put(meta->cache, line);
			continue;
		}
		of[fresh_count] = &wanted[k];
		lines[fresh_count] = line;
		iovs[fresh_count].base = g4_line_data(meta->cache, line);
		iovs[fresh_count].bytes = G4_PAGE_BYTES;
		g4_space_io_init(&requests[fresh_count], G4_IO_READ, wanted[k].address, &iovs[fresh_count], 1);
		requests[fresh_count].io.flags = G4_IO_CLASS(G4_CLASS_METADATA);
		fresh_count++;
	}
	if (fresh_count == 0)
		return;
	(void)g4_space_transfer(wg, meta->space, requests, fresh_count); /* each says for itself */
	for (uint32_t k = 0; k < fresh_count; k++) {
		if (requests[k].io.result == 0 && take(wg, meta, of[k]->address, of[k]->type, lines[k]) == 0) {
			g4_cache_filled(meta->cache, lines[k]);
			g4_cache_put(meta->cache, lines[k]);
		} else {
			g4_cache_abort(meta->cache, lines[k]);
		}
	}
}

G4_FN bool g4_meta_want(struct g4_meta_ahead *ahead, struct g4_address address, uint32_t type)
{
	const uint64_t at = g4_address_stored(address);
	uint32_t k;

	for (k = 0; k < ahead->count; k++)
		if (g4_address_stored(ahead->wanted[k].address) == at)
			return true;
	if (ahead->count == G4_META_TOGETHER)
		return false;
	for (k = ahead->count++; k > 0 && g4_address_stored(ahead->wanted[k - 1].address) > at; k--)
		ahead->wanted[k] = ahead->wanted[k - 1];
	ahead->wanted[k] = (struct g4_meta_wanted){address, type};
	return true;
}

G4_FN void g4_meta_read_ahead(struct g4_wg *wg, struct g4_meta *meta, struct g4_meta_ahead *ahead)
{
	g4_meta_read_together(wg, meta, ahead->wanted, ahead->count);
	ahead->count = 0;
}

G4_FN int g4_meta_get_near(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type,
			   uint32_t near, uint32_t *line)
{
	struct g4_cache *const cache = meta->cache;

	if (!g4_cache_peek_near(cache, 0, g4_address_page(address), near))
		return g4_meta_get(wg, meta, address, type, line);
	g4_cache_count(wg, cache, G4_CACHE_METADATA, 1, 0);
	return check_type(cache, near, type, line);
}

G4_FN int g4_meta_get_indirect(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint64_t inode,
			       uint32_t level, uint32_t *line)
{
	int rc = g4_meta_get(wg, meta, address, G4_BLOCK_INDIRECT, line);

	if (rc < 0)
		return rc;
	const struct g4_meta_line *about = g4_meta_line(meta->cache, *line);
	if ((about->inode == inode || inode == 0) && about->level == level)
		return 0;
	g4_cache_put(meta->cache, *line);
	return -G4_E_CORRUPT_MAP;
}

G4_FN int g4_meta_get_sums(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint64_t inode,
			   uint32_t level, uint32_t quarter, uint32_t *line)
{
	int rc = g4_meta_get(wg, meta, address, G4_BLOCK_CHECKSUMS, line);

	if (rc < 0)
		return rc;
	const struct g4_meta_line *about = g4_meta_line(meta->cache, *line);
	if ((inode == 0 || about->inode == inode) && about->level == level && about->quarter == quarter)
		return 0;
	g4_cache_put(meta->cache, *line);
	return -G4_E_CORRUPT_SUMS;
}

G4_FN int g4_meta_new(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type, uint32_t *line)
{
	bool fresh;
	uint32_t i = g4_cache_get(wg, meta->cache, 0, g4_address_page(address), false, &fresh);

	if (i == G4_NO_LINE) {
		g4_cache_count_without(wg, meta->cache, G4_CACHE_METADATA);
		return -G4_E_NOMEM;
	}
	g4_zero(wg, g4_line_data(meta->cache, i), G4_PAGE_BYTES);
	clear_note(meta, i);
	struct g4_meta_line *about = g4_meta_line(meta->cache, i);
	about->type = (uint8_t)type;
	about->level = 0;
	about->inode = 0;
	about->freed = 0;
	about->quarter = 0;
	about->below = 0;
	if (type != G4_BLOCK_INDIRECT && type != G4_BLOCK_CHECKSUMS)
		g4_block_fill((struct g4_block_header *)g4_line_data(meta->cache, i), type, address, 0, meta->fs_tag);
	if (fresh)
		g4_cache_filled(meta->cache, i);
	*line = i;
	return 0;
}
