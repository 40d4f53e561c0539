/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in which each lane has its own name, range or page of one directory or file. The leader checks and locks once, for
 * all; then, in a region, every lane does by itself what needs neither a lock nor a wait: what lies in the caches. A lane that
 * meets anything else leaves its wish to the leader, which runs the ordinary call for it, after the lock is given back: the
 * results are those that ordinary calls could have had, and a writer waits for nobody's device.
 */
#include "device/caller.h"

enum each { LOOKUP, READ, MAP };

#define ALONE_BYTES 64u /* what a lane copies itself rather than with the others */

/* Of a lane whose wish is left; the attributes come when the name has served. */
union lane_scratch {
	char name[G4_NAME_MAX + 1];
	uint64_t words[(G4_NAME_MAX + 1) / 8]; /* the same */
	struct g4_attr attr;
};
G4_STATIC_ASSERT(G4_CALLER_LANES * sizeof(union lane_scratch) <= G4_COPY_SCRATCH_BYTES, "they fit in scratch memory");

G4_FN static union lane_scratch *scratch_of(const struct g4_caller *caller, uint32_t lane)
{
	return (union lane_scratch *)caller->scratch + lane;
}

G4_FN struct g4_attr *g4_caller_attr_of(const struct g4_caller *caller, uint32_t lane)
{
	return &scratch_of(caller, lane)->attr;
}

G4_REGION_BODY static void all_lanes(struct g4_wg *wg, void *args);

/* Leader: all lanes' part. */
G4_FN static void run(struct g4_caller *caller, enum each each, uint32_t index)
{
	caller->each = each;
	caller->index = index;
	g4_region(caller->wg, G4_REGION_CALLER, all_lanes, caller);
}

/* Collective: ends a lane's part. */
G4_FN static void tell(struct g4_wg *wg, struct g4_caller *caller, bool wanted, bool done)
{
	const uint64_t with = g4_ballot(wg, wanted && done), without = g4_ballot(wg, wanted && !done);

	if (g4_wg_lane(wg) == 0) {
		caller->done = with;
		caller->left = without;
	}
}

/* The in-core inode of an open file, referenced and read-locked, or G4_NO_INODE. */
G4_FN static uint32_t enter(struct g4_caller *caller, const struct g4_caller_file *file)
{
	struct g4_fs *fs = caller->callers->fs;
	uint32_t i;

	if (g4_caller_index(fs, file, &i) < 0)
		return G4_NO_INODE;
	g4_icache_ref(fs, i);
	g4_read_lock(&g4_icache_at(fs, i)->lock);
	return i;
}

G4_FN static void leave(struct g4_caller *caller, uint32_t i)
{
	struct g4_fs *fs = caller->callers->fs;

	g4_read_unlock(&g4_icache_at(fs, i)->lock);
	g4_icache_put(fs, i);
}

/* ------------------------------------------------------------------ names */

/* The lowest lane whose name leads to the same inode at the same place. Collective. */
G4_FN static uint32_t lowest_alike(struct g4_wg *wg, const struct g4_lookup_value *value)
{
	uint32_t lowest = g4_wg_lane(wg);

	for (uint32_t lane = 0; lane < g4_wg_width(wg); lane++) {
		const uint64_t ino = g4_broadcast(wg, value->inode, lane);
		const uint64_t index = g4_broadcast(wg, value->index, lane);
		if (lane < lowest && ino == value->inode && index == value->index)
			lowest = lane;
	}
	return lowest;
}

/* References and read-locks the inode behind a name of the locked directory. */
G4_FN static bool hold(struct g4_fs *fs, const struct g4_inode_core *dir, const struct g4_lookup_value *value)
{
	if (!g4_icache_ref_near(fs, value->inode, value->index))
		return false;
	struct g4_inode_core *inode = g4_icache_at(fs, value->index);
	if (g4_read_trylock(&inode->lock)) {
		if (!inode->dead && g4_check_child(fs, dir, value->index) == 0)
			return true;
		g4_read_unlock(&inode->lock);
	}
	g4_icache_put(fs, value->index);
	return false;
}

/*
 * Collective. The attributes of the inode behind this lane's name; false: they are not to be had without waiting. Lanes with
 * the same inode hold it by the lowest of them: a lock cannot count every lane of every warp.
 */
G4_FN static bool get_attr(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *dir,
			   const struct g4_lookup_value *value, const struct g4_lookup_seen *seen, bool wanted,
			   struct g4_attr *attr)
{
	const uint32_t lowest = lowest_alike(wg, value);
	const bool holds = wanted && lowest == g4_wg_lane(wg) && hold(fs, dir, value);
	const uint64_t holders = g4_ballot(wg, holds);
	/* with the inode locked nobody takes the name away */
	const bool held = wanted && (holders >> lowest & 1) && g4_lookup_holds(seen);

	if (held)
		g4_fill_attr(g4_icache_at(fs, value->index), attr);
	g4_sync(wg);
	if (holds) {
		g4_read_unlock(&g4_icache_at(fs, value->index)->lock);
		g4_icache_put(fs, value->index);
	}
	return held;
}

/*
 * A lane's name where the leader can read it, and with room around it: the engine reads aligned words (g4_load_bytes()). A word at
 * a time: each store is one to memory.
 */
G4_FN static void keep_name(uint64_t *words, const char *name, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)name;

	G4_ROLLED
	for (uint32_t at = 0; at < bytes; at += 8) {
		uint64_t word = 0;
		for (uint32_t i = 0; i < 8 && at + i < bytes; i++)
			word |= (uint64_t)from[at + i] << 8 * i;
		words[at / 8] = word;
	}
}

/* The directory is locked, so a name that the lookup cache has is there, and leads where it says until its entry changes. */
G4_FN static void lookup_region(struct g4_wg *wg, struct g4_caller *caller)
{
	struct g4_fs *fs = caller->callers->fs;
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(wg)];
	union lane_scratch *scratch = scratch_of(caller, g4_wg_lane(wg));
	const bool wanted = mine->bytes > 0;
	struct g4_lookup_value value = {0, G4_NO_INODE};
	struct g4_lookup_seen seen = {NULL, 0};
	bool done = false;

	if (wanted && mine->bytes <= G4_NAME_MAX)
		keep_name(scratch->words, mine->name, (uint32_t)mine->bytes);
	if (caller->index != G4_NO_INODE) {
		const struct g4_inode_core *dir = g4_icache_at(fs, caller->index);
		done = wanted && g4_name_cached(fs, dir, scratch->name, mine->bytes, &value, &seen);
		const bool wants_attr = done && mine->wants_attr;
		if (!wants_attr)
			value.index = G4_NO_INODE;
		if (g4_any(wg, wants_attr)) {
			const bool got = get_attr(wg, fs, dir, &value, &seen, wants_attr, &scratch->attr);
			done = wants_attr ? got : done;
		}
	}
	mine->ino = value.inode;
	mine->result = 0;
	tell(wg, caller, wanted, done);
}

G4_FN void g4_caller_lookup_each(struct g4_caller *caller, const struct g4_caller_file *dir)
{
	struct g4_fs *fs = caller->callers->fs;
	uint32_t i = enter(caller, dir);

	if (i != G4_NO_INODE && g4_may_search(caller->wg, fs, g4_icache_at(fs, i), &caller->callers->cred) < 0) {
		leave(caller, i);
		i = G4_NO_INODE;
	}
	run(caller, LOOKUP, i);
	if (i != G4_NO_INODE)
		leave(caller, i);
	for (uint64_t left = caller->left; left; left &= left - 1) {
		const uint32_t at = g4_lowest_bit(left);
		struct g4_caller_lane *lane = &caller->lane[at];
		lane->result = g4_caller_lookup(caller, dir, scratch_of(caller, at)->name, lane->bytes);
		lane->ino = caller->attr.ino;
		scratch_of(caller, at)->attr = caller->attr;
	}
}

/* ------------------------------------------------------------------ data */

/* Collective. */
G4_FN static void count_found(struct g4_wg *wg, struct g4_cache *cache, uint32_t line)
{
	const uint32_t found = g4_count_bits(g4_ballot(wg, line != G4_NO_LINE));

	if (g4_wg_lane(wg) == 0 && found > 0)
		g4_cache_count_peeked(cache, g4_wg_index(wg), found);
}

/* A range of one page that lies in the cache. */
struct piece {
	const uint8_t *from;
	uint64_t bytes;
	uint32_t line; /* referenced; G4_NO_LINE: none */
};

/* Where a lane's range lies in the cache; false: it is the leader's. Behind the end there is nothing to find. */
G4_FN static bool find_piece(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_caller_lane *mine,
			     struct piece *piece)
{
	const uint64_t inside = mine->offset & (G4_PAGE_BYTES - 1);

	if (mine->offset >= inode->size)
		return true;
	piece->bytes = g4_min64(mine->bytes, inode->size - mine->offset);
	if (piece->bytes > G4_PAGE_BYTES - inside)
		return false;
	piece->line = g4_cache_peek(&fs->cache, inode->data_key, mine->offset >> G4_PAGE_SHIFT);
	if (piece->line == G4_NO_LINE)
		return false;
	piece->from = (const uint8_t *)g4_line_data(&fs->cache, piece->line) + inside;
	return true;
}

/* Collective: small pieces side by side, the others one after the other by all lanes. */
G4_FN static void copy_pieces(struct g4_wg *wg, void *to, const struct piece *piece)
{
	const bool found = piece->line != G4_NO_LINE, alone = piece->bytes <= ALONE_BYTES;

	if (found && alone)
		memcpy(to, piece->from, piece->bytes);
	for (uint64_t left = g4_ballot(wg, found && !alone); left; left &= left - 1) {
		const uint32_t lane = g4_lowest_bit(left);
		const uint64_t target = g4_broadcast(wg, (uintptr_t)to, lane);
		const uint64_t source = g4_broadcast(wg, (uintptr_t)piece->from, lane);
		const uint64_t bytes = g4_broadcast(wg, piece->bytes, lane);
		g4_copy_in_region(wg, (void *)(uintptr_t)target, (const void *)(uintptr_t)source, bytes);
	}
	g4_sync(wg);
}

G4_FN static void read_region(struct g4_wg *wg, struct g4_caller *caller)
{
	struct g4_fs *fs = caller->callers->fs;
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(wg)];
	const bool wanted = mine->bytes > 0;
	struct piece piece = {NULL, 0, G4_NO_LINE};
	bool done = false;

	if (caller->index != G4_NO_INODE) {
		done = wanted && find_piece(fs, g4_icache_at(fs, caller->index), mine, &piece);
		copy_pieces(wg, mine->to, &piece);
		count_found(wg, &fs->cache, piece.line);
		if (piece.line != G4_NO_LINE)
			g4_cache_put_way(&fs->cache, piece.line);
	}
	mine->result = (int64_t)piece.bytes;
	tell(wg, caller, wanted, done);
}

G4_FN void g4_caller_read_each(struct g4_caller *caller, const struct g4_caller_file *file)
{
	struct g4_fs *fs = caller->callers->fs;
	uint32_t i = g4_caller_may_read(file) ? enter(caller, file) : G4_NO_INODE;

	if (i != G4_NO_INODE && (g4_icache_at(fs, i)->dead || !g4_is_reg(g4_icache_at(fs, i)->disk.mode))) {
		leave(caller, i);
		i = G4_NO_INODE;
	}
	run(caller, READ, i);
	if (i != G4_NO_INODE) {
		if (caller->done && !(g4_handle_flags(file->handle) & G4_OPEN_NOATIME))
			g4_touch_read(fs, i);
		leave(caller, i);
	}
	for (uint64_t left = caller->left; left; left &= left - 1) {
		struct g4_caller_lane *lane = &caller->lane[g4_lowest_bit(left)];
		lane->result = g4_caller_read(caller, file, lane->offset, lane->to, lane->bytes);
	}
}

/* ------------------------------------------------------------------ mapped pages */

/* Collective. Pins the line that a lane has found, or lets it go: all lanes' or none's. */
G4_FN static bool pin_all(struct g4_wg *wg, struct g4_cache *cache, uint32_t line)
{
	const uint32_t count = (uint32_t)g4_reduce_sum(wg, line != G4_NO_LINE);
	const bool pins = g4_wg_lane(wg) == 0 && count > 0 && g4_cache_pin(cache, count);
	const bool pinned = g4_broadcast(wg, pins, 0) != 0;

	if (line == G4_NO_LINE)
		return false;
	if (!pinned)
		g4_cache_put_way(cache, line);
	return pinned;
}

/* As in g4_caller_map(): no lock; the size tells what of the page is the file's. */
G4_FN static void map_region(struct g4_wg *wg, struct g4_caller *caller)
{
	struct g4_fs *fs = caller->callers->fs;
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(wg)];
	const uint64_t at = g4_align_down(mine->offset, G4_PAGE_BYTES);
	const bool wanted = mine->offset != UINT64_MAX;
	uint32_t line = G4_NO_LINE;
	uint64_t size = 0;
	bool done = false;

	if (caller->index != G4_NO_INODE) {
		struct g4_inode_core *inode = g4_icache_at(fs, caller->index);
		if (wanted)
			line = g4_cache_peek(&fs->cache, inode->data_key, at >> G4_PAGE_SHIFT);
		size = g4_load64_acq(&inode->size);
		if (line != G4_NO_LINE && at >= size) {
			g4_cache_put_way(&fs->cache, line);
			line = G4_NO_LINE;
		}
		done = pin_all(wg, &fs->cache, line);
		count_found(wg, &fs->cache, done ? line : G4_NO_LINE);
	}
	if (done) {
		mine->page.data = g4_line_data(&fs->cache, line);
		mine->page.line = line;
		mine->page.bytes = (uint32_t)g4_min64(size - at, G4_PAGE_BYTES);
	}
	mine->result = wanted ? 0 : -G4_E_NXIO;
	tell(wg, caller, wanted, done);
}

G4_FN void g4_caller_map_each(struct g4_caller *caller, const struct g4_caller_file *file)
{
	uint32_t i = G4_NO_INODE;

	if (!g4_caller_may_read(file) || g4_caller_index(caller->callers->fs, file, &i) < 0)
		i = G4_NO_INODE;
	run(caller, MAP, i);
	for (uint64_t left = caller->left; left; left &= left - 1) {
		struct g4_caller_lane *lane = &caller->lane[g4_lowest_bit(left)];
		lane->result = g4_caller_map(caller, file, lane->offset >> G4_PAGE_SHIFT, true);
		lane->page = caller->page;
	}
}

G4_FN bool g4_caller_unmap_lane(struct g4_callers *callers, uint32_t line)
{
	return g4_cache_put_way(&callers->fs->cache, line);
}

G4_FN void g4_caller_unpin(struct g4_callers *callers, uint32_t count)
{
	g4_cache_unpin_none(&callers->fs->cache, count);
}

/* ------------------------------------------------------------------ all lanes */

G4_REGION_BODY static void all_lanes(struct g4_wg *wg, void *args)
{
	struct g4_caller *caller = (struct g4_caller *)args;

	g4_converge(wg);
	switch (caller->each) {
	case LOOKUP:
		lookup_region(wg, caller);
		break;
	case READ:
		read_region(wg, caller);
		break;
	default:
		map_region(wg, caller);
		break;
	}
}

G4_FN void g4_caller_serve(struct g4_wg *wg)
{
	struct g4_wg_region region;

	while (g4_wg_next(wg, &region)) {
		if (region.kind == G4_REGION_CALLER)
			all_lanes(wg, region.args);
		else
			g4_fs_region(wg, &region);
		g4_region_end(wg);
	}
}
