/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at metadata on the device, past the cache. A page's home may be old or half written while a newer image of it is in the
 * cache or on its way: a reader that finds it wrong looks again with the commit lock held. Then nothing is on its way, and a line says
 * whether its home is still to be written; one that is can not be dropped from the cache.
 */
#include "journal/journal.h"
#include "journal/newest.h"
#include "journal/sealed_wide.h"
#include "simt/scratch.h"

/* Whether this is the page that belongs at `address`. It may be changed. */
G4_FN static int check(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type, void *page)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;
	struct g4_sealed_about about;
	struct g4_sums_places places;

	if (type == G4_BLOCK_DIR_LEAF && header->type == G4_BLOCK_DIR_INDEX)
		type = G4_BLOCK_DIR_INDEX;
	return g4_verify_wide(wg, page, type, address, j->meta->fs_tag, &about, &places);
}

/* Whether a page of counts, or of listed pages, may be written to where it lies: not without its lock, which is not held here (alloc/share.c). */
G4_FN static bool stays(uint32_t type)
{
	return type != G4_BLOCK_SHARES && type != G4_BLOCK_OWNERS && type != G4_BLOCK_LISTING &&
	       type != G4_BLOCK_BUFFERED;
}

/* A version of a page, checked in `page`, and as it is on the device in `buffer`. */
G4_FN static int read_version(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type,
			      uint32_t version, void *page, uint8_t *buffer)
{
	const int rc = g4_space_read_copy_as(wg, j->meta->space, version, address, buffer, G4_PAGE_BYTES,
					     G4_IO_CLASS(G4_CLASS_BACKGROUND));

	if (rc < 0)
		return rc;
	g4_copy(wg, page, buffer, G4_PAGE_BYTES);
	return check(wg, j, address, type, page);
}

/* Of those that have no error. G4_NO_VERSION: all have one. */
G4_FN static uint32_t newest_version(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type,
				     void *page, uint8_t *buffer)
{
	const uint32_t copies = g4_space_copies(j->meta->space), versions = g4_space_versions(j->meta->space);
	struct g4_newest newest = g4_newest_none();
	bool more = true;

	for (uint32_t version = 0; version < versions && more; version++)
		if (read_version(wg, j, address, type, version, page, buffer) == 0)
			more = g4_newest_take(&newest, version, version >= copies,
					      g4_block_generation(buffer, address, j->meta->fs_tag));
	return newest.version;
}

/*
 * All copies; the error of the first that has one, and in `page` one that has none, if there is any. mend: such a one takes the place
 * of the others, and then there was no error.
 */
G4_FN static int look(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type, void *page,
		      bool mend)
{
	struct g4_space *space = j->meta->space;
	const uint32_t copies = g4_space_copies(space), versions = g4_space_versions(space);
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *buffer = copies > 1 ? g4_scratch_take_page(wg) : NULL, *good = NULL;
	int first = 0, rc = -G4_E_IO;

	for (uint32_t copy = 0; copy < copies || (copy < versions && !good); copy++) {
		uint8_t *to = good ? buffer : (uint8_t *)page;
		rc = g4_space_read_copy_as(wg, space, copy, address, to, G4_PAGE_BYTES,
					   G4_IO_CLASS(G4_CLASS_BACKGROUND));
		if (rc == -G4_E_NOENT)
			continue; /* its disk is missing */
		if (rc == 0)
			rc = check(wg, j, address, type, to);
		good = rc == 0 && !good ? to : good;
		first = first == 0 ? rc : first;
		mend = mend && (rc == 0 || stays(type));
	}
	if (first < 0 && good && mend) {
		const uint32_t newest = newest_version(wg, j, address, type, page, buffer);
		/* the check has taken it apart */
		if (newest != G4_NO_VERSION && read_version(wg, j, address, type, newest, page, buffer) == 0) {
			g4_space_mend(wg, space, address, buffer, G4_PAGE_BYTES);
			first = 0;
		}
	}
	if (copies > 1)
		g4_scratch_release(wg, mark);
	return good || first < 0 ? first : -G4_E_IO;
}

/* A checkpoint may be writing what is read here: a reader that finds it wrong looks again. */
G4_FN static int look_unlocked(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type,
			       void *page)
{
	return look(wg, j, address, type, page, false);
}

/* Whether the page is going to be written home. That it is not can be believed with the commit lock held only. */
G4_FN static bool is_on_its_way(struct g4_journal *j, struct g4_address address)
{
	const uint32_t line = g4_cache_find(j->meta->cache, 0, g4_address_page(address));

	if (line == G4_NO_LINE)
		return false;
	const struct g4_meta_line *about = g4_meta_line(j->meta->cache, line);
	const bool on_its_way = g4_load64_rlx(&about->txn) != 0 || g4_load64_rlx(&about->home) != 0;
	g4_cache_put(j->meta->cache, line);
	return on_its_way;
}

G4_FN int g4_journal_look(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type, void *page)
{
	int rc = look_unlocked(wg, j, address, type, page);

	if (rc == 0)
		return 0;
	if (is_on_its_way(j, address)) /* no need to queue for the lock, and after a large write there are thousands */
		return 1;
	g4_lock(&j->commit_lock);
	rc = is_on_its_way(j, address) ? 1 : look(wg, j, address, type, page, true);
	g4_unlock(&j->commit_lock);
	return rc;
}
