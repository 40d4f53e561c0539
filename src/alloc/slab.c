/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of 256 B in slab pages. Every shard fills its own slab; when that is full it takes one that lately got a free
 * slot, then any the slab map knows, then a new page. A slab without used slots goes back to the page allocator unless
 * a shard is filling it. A page's stripe lock guards its header; lock order: shard, then stripe.
 */
#include "alloc/alloc.h"
#include "alloc/count.h"

#define SLAB_FULL 0xffffu
/* Small blocks are two slots each, the first an even one: slot 1 stands beside the header and is never free. */
#define SMALL_SLOTS 0x5554u
#define SLAB_LOOKS 8u /* groups that one search for a slab looks at */

/* Mixed: the shards begin at regions of their own, so that their slabs have neighbouring numbers in these. */
G4_FN static struct g4_lock *stripe(struct g4_alloc *alloc, struct g4_address page)
{
	const uint64_t mixed = g4_address_page(page) * UINT64_C(0x9e3779b97f4a7c15);

	return &alloc->slab_locks[(mixed >> 32) % G4_SLAB_LOCKS];
}

G4_FN static struct g4_slab_header *header_of(struct g4_alloc *alloc, uint32_t line)
{
	return (struct g4_slab_header *)g4_line_data(alloc->meta->cache, line);
}

/* `used` of a slab without anything in it. */
G4_FN static uint32_t empty_slab(uint32_t kind)
{
	return kind == G4_SLAB_SMALL ? 0x0003u : 0x0001u;
}

/* The bits in `used` of what begins at a slot. */
G4_FN static uint32_t slot_bits(uint32_t kind, uint32_t slot)
{
	return (kind == G4_SLAB_SMALL ? 3u : 1u) << slot;
}

/* Of a slab that is not full. */
G4_FN static uint32_t free_slot(uint32_t kind, uint32_t used)
{
	return g4_lowest_bit(~(uint64_t)used & (kind == G4_SLAB_SMALL ? SMALL_SLOTS : SLAB_FULL - 1));
}

G4_FN static void add_hint(struct g4_alloc *alloc, struct g4_address page)
{
	const uint32_t h = (uint32_t)(g4_address_page(page) % G4_SLAB_HINTS);

	g4_store64_rel(&alloc->slab_hints[h], g4_address_stored(page));
	if (!(g4_load64_rlx(&alloc->slab_hinted) >> h & 1))
		g4_or64(&alloc->slab_hinted, UINT64_C(1) << h);
}

/*
 * The next hint, or none; *left: where to look, bit by bit. One look tells that there are none. A hint that comes while its bit is cleared
 * may be lost, which is no harm: the slab map knows the slab.
 */
G4_FN static struct g4_address take_hint(struct g4_alloc *alloc, uint64_t *left)
{
	struct g4_address page = G4_NO_ADDRESS;

	while (*left && g4_address_is_none(page)) {
		const uint32_t h = g4_lowest_bit(*left);

		*left &= *left - 1;
		g4_and64(&alloc->slab_hinted, ~(UINT64_C(1) << h));
		page = g4_address_from(g4_xchg64(&alloc->slab_hints[h], 0));
	}
	return page;
}

/* 1 when a page's bit in the slab map is set: a slab with a free slot. Its stripe lock is held. */
G4_FN static int is_slab(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	uint64_t page = g4_address_page(address), group = page / G4_GROUP_PAGES;
	uint32_t line;

	int rc = g4_alloc_get_map(wg, alloc, group, &line);
	if (rc < 0)
		return rc;
	const struct g4_alloc_page *map = (const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	uint64_t word = g4_load64_rlx(
		&map->regions[page / G4_REGION_PAGES % G4_GROUP_REGIONS].slab[page % G4_REGION_PAGES / 64]);
	g4_cache_put(alloc->meta->cache, line);
	return word >> (page % 64) & 1;
}

/* The address of some slab page with a free slot in a group, or none. */
G4_FN static struct g4_address find_slab(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t nth)
{
	struct g4_address found = G4_NO_ADDRESS;
	uint32_t line;

	int rc = g4_alloc_get_map(wg, alloc, group, &line);
	if (rc < 0)
		return found;
	struct g4_alloc_page *map = (struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	for (uint32_t w = 0; w < G4_GROUP_REGIONS * 8 && g4_address_is_none(found); w++) {
		uint64_t bits = g4_load64_rlx(&map->regions[w / 8].slab[w % 8]);
		for (uint32_t b = 0; bits && g4_address_is_none(found); b++, bits >>= 1)
			if ((bits & 1) && nth-- == 0)
				found = g4_page_address(group * G4_GROUP_PAGES + (uint64_t)w * 64 + b);
	}
	g4_cache_put(alloc->meta->cache, line);
	return found;
}

/*
 * Takes a slot of the slab at `page`; none in *address when it is full or no slab of this kind (any more). ours: the shard
 * fills it, so that it cannot have been freed. Any other page may have been since somebody noted it, and what it was
 * then, with a valid checksum, may still be on the device: only the slab map knows. *near: the line that may be its, then the
 * one that is.
 */
G4_FN static int take_slot(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
			   struct g4_address page, bool ours, struct g4_address *address, uint32_t *near)
{
	struct g4_txn_page held;
	int rc;

	*address = G4_NO_ADDRESS;
	g4_lock(stripe(alloc, page));
	rc = ours ? 1 : is_slab(wg, alloc, page);
	if (rc <= 0) { /* where the map can not be read, nobody knows: there are others */
		g4_unlock(stripe(alloc, page));
		return g4_alloc_is_unreadable(rc) ? 0 : rc;
	}
	rc = g4_txn_get(wg, txn, page, G4_BLOCK_SLAB, *near, &held);
	if (rc < 0) {
		g4_unlock(stripe(alloc, page));
		return rc == -G4_E_IO || rc == -G4_E_NOMEM ? rc : 0;
	}
	*near = held.line;
	struct g4_slab_header *slab = (struct g4_slab_header *)g4_txn_data_of(txn, held.line);
	const struct g4_meta_line *about = (const struct g4_meta_line *)(const void *)txn->lines[held.line].kept;
	const bool freed = about->freed; /* on its way with what the page says */
	const bool has_room = slab->kind == kind && slab->used != SLAB_FULL && slab->used != 0 && !freed;
	const uint32_t slot = has_room ? free_slot(kind, slab->used) : 0;
	const bool is_last = has_room && (slab->used | slot_bits(kind, slot)) == SLAB_FULL;
	if (has_room && !(is_last && g4_alloc_is_unreadable(g4_alloc_look(wg, alloc, page)))) {
		g4_txn_dirty_page(txn, &held);
		slab->used = (g4_le16)(slab->used | slot_bits(kind, slot));
		*address = g4_address_after(page, slot * G4_SLAB_SLOT_BYTES);
		if (slab->used == SLAB_FULL)
			rc = g4_alloc_mark_slab(wg, alloc, txn, page, false);
	}
	g4_unlock(stripe(alloc, page));
	g4_txn_put(txn, &held);
	return rc;
}

G4_FN static void set_past(struct g4_alloc *alloc, struct g4_address address, bool past)
{
	const uint64_t page = g4_address_page(address), bit = UINT64_C(1) << page % 64;

	if (past)
		g4_or64(&alloc->past_slabs[page / 64], bit);
	else if (g4_load64_rlx(&alloc->past_slabs[page / 64]) & bit)
		g4_and64(&alloc->past_slabs[page / 64], ~bit);
}

G4_FN bool g4_slab_is_past(const struct g4_alloc *alloc, struct g4_address address)
{
	const uint64_t page = g4_address_page(address);

	return (g4_load64_acq(&alloc->past_slabs[page / 64]) >> page % 64 & 1) != 0;
}

/* A new slab, its first slot taken before others can find the slab, and empty or fill it, in the slab map. */
G4_FN G4_COLD static int new_slab(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
				  uint64_t *reserved, struct g4_address *page, struct g4_address *address,
				  uint32_t *near)
{
	const bool has_one = reserved && *reserved > 0;
	const uint32_t slot = free_slot(kind, empty_slab(kind));
	uint32_t line;
	int rc = has_one ? g4_alloc_reserved_metadata(wg, alloc, txn, page) : g4_alloc_metadata(wg, alloc, txn, page);

	if (rc < 0)
		return rc;
	if (has_one)
		--*reserved;
	set_past(alloc, *page, true); /* until it is one */
	rc = g4_meta_new(wg, alloc->meta, *page, G4_BLOCK_SLAB, &line);
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	g4_lock(stripe(alloc, *page));
	header_of(alloc, line)->kind = kind;
	header_of(alloc, line)->used = (g4_le16)(empty_slab(kind) | slot_bits(kind, slot));
	set_past(alloc, *page, false);
	g4_unlock(stripe(alloc, *page));
	*near = line;
	g4_cache_put(alloc->meta->cache, line);
	rc = g4_alloc_mark_slab(wg, alloc, txn, *page, true);
	if (rc == 0)
		*address = g4_address_after(*page, slot * G4_SLAB_SLOT_BYTES);
	return rc;
}

G4_FN int g4_slab_new(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
		      struct g4_address page, uint32_t *line)
{
	set_past(alloc, page, true);
	const int rc = g4_meta_new(wg, alloc->meta, page, G4_BLOCK_SLAB, line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, *line);
	header_of(alloc, *line)->kind = kind;
	g4_cache_put(alloc->meta->cache, *line);
	return 0;
}

G4_FN int g4_slab_fill(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address page,
		       uint32_t line, uint32_t count)
{
	const uint32_t used = (2u << count) - 1;

	g4_lock(stripe(alloc, page));
	header_of(alloc, line)->used = (g4_le16)used;
	set_past(alloc, page, false);
	const int rc = used == SLAB_FULL ? 0 : g4_alloc_mark_slab(wg, alloc, txn, page, true);
	g4_unlock(stripe(alloc, page));
	return rc;
}

/* A slot from a slab that somebody freed a slot of, or that the map knows; full: also one that another shard fills. */
G4_FN G4_COLD static int take_known(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
				    bool full, struct g4_address *page, struct g4_address *address, uint32_t *near)
{
	const uint32_t spare = full ? 0 : g4_load32_rlx(&alloc->slab_users);
	uint64_t hinted = g4_load64_rlx(&alloc->slab_hinted);
	int rc;

	*address = G4_NO_ADDRESS;
	while (!g4_address_is_none(*page = take_hint(alloc, &hinted))) {
		rc = take_slot(wg, alloc, txn, kind, *page, false, address, near);
		if (rc < 0 || !g4_address_is_none(*address))
			return rc;
	}
	/* some groups at a time, from where the last look ended: devices have thousands */
	const uint64_t groups = g4_load64_acq(&alloc->group_count), looks = g4_min64(groups, SLAB_LOOKS);
	const uint64_t first = g4_add32_rlx(&alloc->slab_cursor, (uint32_t)looks);
	for (uint64_t step = 0; step < looks; step++) {
		const uint64_t group = (first + step) % groups;
		const uint32_t known = g4_load32_rlx(&alloc->group_slabs[group]);
		/* the few that shards are filling are always known: look further only where there are more */
		if (known <= spare)
			continue;
		for (uint32_t nth = 0; nth < 4; nth++) {
			*page = find_slab(wg, alloc, group, (g4_wg_index(wg) * 4 + nth) % known);
			if (g4_address_is_none(*page))
				break;
			rc = take_slot(wg, alloc, txn, kind, *page, false, address, near);
			if (rc < 0 || !g4_address_is_none(*address))
				return rc;
		}
	}
	return 0;
}

/* The shard's slab is full, or it has none: finds it one, and takes a slot of that. */
G4_FN G4_COLD static int take_elsewhere(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
					struct g4_alloc_shard *shard, uint64_t *reserved, struct g4_address *address,
					uint32_t *near)
{
	struct g4_address page;

	if (shard->slab[kind - 1] == 0)
		g4_add32(&alloc->slab_users, 1);
	int rc = take_known(wg, alloc, txn, kind, false, &page, address, near);
	if (rc == 0 && g4_address_is_none(*address)) {
		rc = new_slab(wg, alloc, txn, kind, reserved, &page, address, near);
		if (rc == -G4_E_NOSPC) { /* hundreds of shards leave room in theirs */
			int found = take_known(wg, alloc, txn, kind, true, &page, address, near);
			rc = found < 0 || !g4_address_is_none(*address) ? found : rc;
		}
	}
	if (rc < 0)
		g4_sub32(&alloc->slab_users, 1);
	g4_store64_rel(&shard->slab[kind - 1], rc == 0 ? g4_address_stored(page) : 0);
	g4_fence_rel();
	return rc;
}

/*
 * Locks the shard that the workgroup takes a slot in: its own, or, as long as that has no slab, the one that somebody took a slot in
 * last and that nobody has now. A GPU has a thousand workgroups, and commands that come one after the other are done by one after the other: each
 * would begin a slab of its own, in a group that nobody has looked at yet.
 */
G4_FN static struct g4_alloc_shard *lock_shard(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t kind)
{
	const uint32_t own = g4_wg_index(wg) % G4_ALLOC_SHARDS;
	struct g4_alloc_shard *shard = &alloc->shards[own];

	if (g4_wg_width(wg) > 1 && g4_load64_rlx(&shard->slab[kind - 1]) == 0) {
		shard = &alloc->shards[g4_load32_rlx(&alloc->slab_shard[kind - 1])];
		if (g4_load64_rlx(&shard->slab[kind - 1]) != 0 && g4_trylock(&shard->lock))
			return shard;
		shard = &alloc->shards[own];
		g4_store32_rlx(&alloc->slab_shard[kind - 1], own);
	}
	g4_lock(&shard->lock);
	return shard;
}

G4_FN int g4_slab_alloc(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind, uint64_t *reserved,
			struct g4_address *address, uint32_t *near)
{
	struct g4_alloc_shard *shard = lock_shard(wg, alloc, kind);
	int rc = 0;

	*address = G4_NO_ADDRESS;
	*near = g4_load32_rlx(&shard->near);
	const uint64_t fills = g4_load64_rlx(&shard->slab[kind - 1]);
	if (fills)
		rc = take_slot(wg, alloc, txn, kind, g4_address_from(fills), true, address, near);
	if (rc == 0 && g4_address_is_none(*address))
		rc = take_elsewhere(wg, alloc, txn, kind, shard, reserved, address, near);
	g4_store32_rlx(&shard->near, *near);
	/* what the lock guards is written by take_elsewhere() alone, before its fence, but for the hint; the slab has its stripe */
	g4_unlock_fenced(&shard->lock);
	if (rc == 0 && g4_address_is_none(*address))
		rc = -G4_E_CORRUPT_ALLOC;
	return rc;
}

#define SHARDS_AT_ONCE 16u
G4_STATIC_ASSERT(G4_ALLOC_SHARDS % SHARDS_AT_ONCE == 0, "no rest");

/*
 * Whether a shard fills a slab of this kind. The stripe lock is held; what a shard is about to take, it finds empty or freed. A thousand looks: on a GPU
 * those overlap that no decision stands between.
 */
G4_FN static bool being_filled(const struct g4_alloc *alloc, uint32_t kind, struct g4_address page)
{
	bool found = false;

	for (uint32_t s = 0; s < G4_ALLOC_SHARDS && !found; s += SHARDS_AT_ONCE) {
		uint64_t fills[SHARDS_AT_ONCE];

		for (uint32_t k = 0; k < SHARDS_AT_ONCE; k++)
			fills[k] = g4_load64_rlx(&alloc->shards[s + k].slab[kind - 1]);
		for (uint32_t k = 0; k < SHARDS_AT_ONCE; k++)
			found |= fills[k] == g4_address_stored(page);
	}
	return found;
}

/* An empty slab becomes a free page, if what that changes can be read. Its stripe lock is held. */
G4_FN static int drop_slab(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address page,
			   struct g4_slab_header *slab)
{
	int rc = g4_alloc_look(wg, alloc, page);

	if (g4_alloc_is_unreadable(rc))
		return 0;
	slab->used = 0; /* nobody may take a slot of it any more */
	set_past(alloc, page, true);
	rc = g4_alloc_mark_slab(wg, alloc, txn, page, false);
	return rc == 0 ? g4_alloc_free_metadata(wg, alloc, txn, page) : rc;
}

G4_FN int g4_slab_free(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
		       uint32_t near)
{
	const struct g4_address page = g4_address_page_start(address);
	uint32_t slot = g4_slab_slot_of(address);
	struct g4_txn_page held;
	int rc;

	g4_lock(stripe(alloc, page));
	rc = g4_txn_get(wg, txn, page, G4_BLOCK_SLAB, near, &held);
	if (rc < 0) {
		g4_unlock(stripe(alloc, page));
		return rc;
	}
	struct g4_slab_header *slab = (struct g4_slab_header *)g4_txn_data_of(txn, held.line);
	const uint32_t bits = slot_bits(slab->kind, slot), slots = slab->kind == G4_SLAB_SMALL ? 2 : 1;
	const bool was_full = slab->used == SLAB_FULL;
	if (slot == 0 || (slab->used & bits) != bits || slot % slots != 0)
		rc = -G4_E_CORRUPT_ALLOC;
	else if (was_full) /* the map is to know it: before anything has changed */
		rc = g4_alloc_look(wg, alloc, page);
	if (rc == 0) {
		g4_txn_dirty_page(txn, &held);
		slab->used = (g4_le16)(slab->used & ~bits);
		/* nobody shall take what was there for what comes next, between the slot's allocation and its first write */
		g4_zero16((uint8_t *)slab + slot * G4_SLAB_SLOT_BYTES, slots * G4_SLAB_SLOT_BYTES);
		if (was_full)
			rc = g4_alloc_mark_slab(wg, alloc, txn, page, true);
		if (rc == 0 && slab->used == empty_slab(slab->kind) && !being_filled(alloc, slab->kind, page))
			rc = drop_slab(wg, alloc, txn, page, slab);
		else if (rc == 0)
			add_hint(alloc, page);
	}
	g4_unlock(stripe(alloc, page));
	g4_txn_put(txn, &held);
	return rc;
}

G4_FN int g4_slab_look(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	const struct g4_address page = g4_address_page_start(address);
	uint32_t line;
	const int rc = g4_meta_get(wg, alloc->meta, page, G4_BLOCK_SLAB, &line);

	if (rc < 0)
		return rc;
	g4_lock(stripe(alloc, page));
	const bool full = header_of(alloc, line)->used == SLAB_FULL;
	g4_unlock(stripe(alloc, page));
	g4_cache_put(alloc->meta->cache, line);
	return full ? g4_alloc_look(wg, alloc, page) : 0;
}

G4_FN bool g4_slab_copy(struct g4_alloc *alloc, uint32_t line, uint32_t kind, struct g4_address address, void *to,
			uint32_t bytes)
{
	const struct g4_address page = g4_address_page_start(address);
	const struct g4_slab_header *slab = header_of(alloc, line);
	const uint32_t slot = g4_slab_slot_of(address);

	g4_lock(stripe(alloc, page));
	/* the page may have become something else since the caller looked */
	bool there = !g4_slab_is_past(alloc, page) && slab->kind == kind && (slab->used & (1u << slot));
	/* a new inode's may be written meanwhile, where the number is an old one's: the caller finds that out afterwards */
	if (there) {
		g4_peek(to, (const uint8_t *)slab + slot * G4_SLAB_SLOT_BYTES, bytes / 8);
		/*
		 * Contents that look like a slab are freed and made another page without this lock; it is past before the first of its new
		 * bytes is written, and none can become a slab again while the lock is held.
		 */
		g4_fence_acq();
		there = !g4_slab_is_past(alloc, page);
	}
	g4_unlock(stripe(alloc, page));
	return there;
}

G4_FN bool g4_slab_has_sums(struct g4_alloc *alloc, uint32_t line, struct g4_address address)
{
	const struct g4_address page = g4_address_page_start(address);
	const uint32_t offset = (uint32_t)(g4_address_stored(address) - g4_address_stored(page));

	g4_lock(stripe(alloc, page));
	const bool has = g4_sums_block_is_used(header_of(alloc, line), offset);
	g4_unlock(stripe(alloc, page));
	return has;
}

G4_FN int g4_slab_end(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t s, uint32_t kind)
{
	struct g4_alloc_shard *shard = &alloc->shards[s];
	struct g4_address page;
	uint32_t line;
	int rc;

	g4_lock(&shard->lock);
	page = g4_address_from(shard->slab[kind - 1]);
	g4_store64_rel(&shard->slab[kind - 1], 0);
	g4_lock(stripe(alloc, page));
	rc = g4_meta_get(wg, alloc->meta, page, G4_BLOCK_SLAB, &line);
	if (rc == 0) {
		if (header_of(alloc, line)->used == empty_slab(kind)) {
			g4_txn_dirty(txn, line);
			rc = drop_slab(wg, alloc, txn, page, header_of(alloc, line));
		}
		g4_cache_put(alloc->meta->cache, line);
	}
	g4_unlock(stripe(alloc, page));
	g4_unlock(&shard->lock);
	return rc;
}
