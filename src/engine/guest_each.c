/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in which each lane has its own name, range or page of one directory or file. The leader checks and locks once, for
 * all; then, in a region, every lane does by itself what needs neither a lock nor a wait: what lies in the caches. A lane that
 * meets anything else leaves its wish to the leader, who runs the ordinary call for it, after the lock is given back: the
 * results are those that ordinary calls could have had, and a writer waits for nobody's device.
 */
#include "engine/guest.h"

enum each { LOOKUP, READ, MAP };

#define ALONE_BYTES 64u /* what a lane copies itself rather than with the others */

/* Of a lane whose wish is left; the attributes come when the name has served. */
union room {
	char name[G4_NAME_MAX + 1];
	uint64_t words[(G4_NAME_MAX + 1) / 8]; /* the same */
	struct g4_attr attr;
};
G4_STATIC_ASSERT(G4_GUEST_LANES * sizeof(union room) <= G4_COPY_SCRATCH_BYTES, "rooms fit the scratch memory");

G4_FN static union room *room_of(const struct g4_guest *guest, uint32_t lane)
{
	return (union room *)(void *)g4_copy_scratch(guest->wg) + lane;
}

G4_FN struct g4_attr *g4_guest_attr_of(const struct g4_guest *guest, uint32_t lane)
{
	return &room_of(guest, lane)->attr;
}

/* Leader: all lanes' part. */
G4_FN static void run(struct g4_guest *guest, enum each each, uint32_t core)
{
	guest->each = each;
	guest->core = core;
	g4_region(guest->wg, G4_REGION_GUEST, guest);
}

/* Collective: ends a lane's part. */
G4_FN static void tell(struct g4_wg *wg, struct g4_guest *guest, bool wanted, bool done)
{
	const uint64_t with = g4_ballot(wg, wanted && done), without = g4_ballot(wg, wanted && !done);

	if (g4_wg_lane(wg) == 0) {
		guest->done = with;
		guest->left = without;
	}
}

/* The core of an open file, referenced and read-locked, or G4_NO_CORE. */
G4_FN static uint32_t enter(struct g4_guest *guest, const struct g4_guest_file *file)
{
	struct g4_fs *fs = guest->guests->fs;
	uint32_t i;

	if (g4_guest_core(fs, file, &i) < 0)
		return G4_NO_CORE;
	g4_core_ref(fs, i);
	g4_read_lock(&g4_core_of(fs, i)->lock);
	return i;
}

G4_FN static void leave(struct g4_guest *guest, uint32_t i)
{
	struct g4_fs *fs = guest->guests->fs;

	g4_read_unlock(&g4_core_of(fs, i)->lock);
	g4_core_put(fs, i);
}

/* ------------------------------------------------------------------ names */

/* The lowest lane whose name leads to the same inode at the same place. Collective. */
G4_FN static uint32_t lowest_alike(struct g4_wg *wg, const struct g4_lookup_value *value)
{
	uint32_t lowest = g4_wg_lane(wg);

	for (uint32_t lane = 0; lane < g4_wg_width(wg); lane++) {
		const uint64_t inode = g4_broadcast(wg, value->inode, lane);
		const uint64_t core = g4_broadcast(wg, value->core, lane);
		if (lane < lowest && inode == value->inode && core == value->core)
			lowest = lane;
	}
	return lowest;
}

/* References and read-locks the inode behind a name of the locked directory. */
G4_FN static bool hold(struct g4_fs *fs, const struct g4_core *dir, const struct g4_lookup_value *value)
{
	if (!g4_core_ref_near(fs, value->inode, value->core))
		return false;
	struct g4_core *core = g4_core_of(fs, value->core);
	if (g4_read_trylock(&core->lock)) {
		if (g4_check_child(fs, dir, value->core) == 0)
			return true;
		g4_read_unlock(&core->lock);
	}
	g4_core_put(fs, value->core);
	return false;
}

/*
 * Collective. The attributes of the inode behind this lane's name; false: they are not to be had without waiting. Lanes with
 * the same inode hold it by the lowest of them: a lock cannot count every lane of every warp.
 */
G4_FN static bool get_attr(struct g4_wg *wg, struct g4_fs *fs, const struct g4_core *dir,
			   const struct g4_lookup_value *value, bool wanted, struct g4_attr *attr)
{
	const uint32_t lowest = lowest_alike(wg, value);
	const bool holds = wanted && lowest == g4_wg_lane(wg) && hold(fs, dir, value);
	const uint64_t holders = g4_ballot(wg, holds);
	const bool held = wanted && (holders >> lowest & 1);

	if (held)
		g4_fill_attr(g4_core_of(fs, value->core), attr);
	g4_sync(wg);
	if (holds) {
		g4_read_unlock(&g4_core_of(fs, value->core)->lock);
		g4_core_put(fs, value->core);
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

/* The directory is locked, so a name that the lookup cache has is there, and leads where it says. */
G4_FN static void lookup_region(struct g4_wg *wg, struct g4_guest *guest)
{
	struct g4_fs *fs = guest->guests->fs;
	struct g4_guest_lane *mine = &guest->lane[g4_wg_lane(wg)];
	union room *room = room_of(guest, g4_wg_lane(wg));
	const bool wanted = mine->bytes > 0;
	struct g4_lookup_value value = {0, G4_NO_CORE};
	bool done = false;

	if (wanted && mine->bytes <= G4_NAME_MAX)
		keep_name(room->words, mine->name, (uint32_t)mine->bytes);
	if (guest->core != G4_NO_CORE) {
		const struct g4_core *dir = g4_core_of(fs, guest->core);
		done = wanted && g4_name_cached(fs, dir, room->name, mine->bytes, &value);
		const bool wants_attr = done && mine->wants_attr;
		if (!wants_attr)
			value.core = G4_NO_CORE;
		if (g4_any(wg, wants_attr)) {
			const bool got = get_attr(wg, fs, dir, &value, wants_attr, &room->attr);
			done = wants_attr ? got : done;
		}
	}
	mine->ino = value.inode;
	mine->result = 0;
	tell(wg, guest, wanted, done);
}

G4_FN void g4_guest_lookup_each(struct g4_guest *guest, const struct g4_guest_file *dir)
{
	struct g4_fs *fs = guest->guests->fs;
	uint32_t i = enter(guest, dir);

	if (i != G4_NO_CORE && g4_may_search(guest->wg, fs, g4_core_of(fs, i), &guest->guests->cred) < 0) {
		leave(guest, i);
		i = G4_NO_CORE;
	}
	run(guest, LOOKUP, i);
	if (i != G4_NO_CORE)
		leave(guest, i);
	for (uint64_t left = guest->left; left; left &= left - 1) {
		const uint32_t at = g4_lowest_bit(left);
		struct g4_guest_lane *lane = &guest->lane[at];
		lane->result = g4_guest_lookup(guest, dir, room_of(guest, at)->name, lane->bytes);
		lane->ino = guest->attr.ino;
		room_of(guest, at)->attr = guest->attr;
	}
}

/* ------------------------------------------------------------------ data */

/* A range of one page that lies in the cache. */
struct piece {
	const uint8_t *from;
	uint64_t bytes;
	uint32_t line; /* referenced; G4_NO_LINE: none */
};

/* Where a lane's range lies in the cache; false: it is the leader's. Behind the end there is nothing to find. */
G4_FN static bool find_piece(struct g4_fs *fs, const struct g4_core *core, const struct g4_guest_lane *mine,
			     struct piece *piece)
{
	const uint64_t inside = mine->offset & (G4_PAGE_BYTES - 1);

	if (mine->offset >= core->size)
		return true;
	piece->bytes = g4_min64(mine->bytes, core->size - mine->offset);
	if (piece->bytes > G4_PAGE_BYTES - inside)
		return false;
	piece->line = g4_cache_peek(&fs->cache, core->data_key, mine->offset >> G4_PAGE_SHIFT);
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

G4_FN static void read_region(struct g4_wg *wg, struct g4_guest *guest)
{
	struct g4_fs *fs = guest->guests->fs;
	struct g4_guest_lane *mine = &guest->lane[g4_wg_lane(wg)];
	const bool wanted = mine->bytes > 0;
	struct piece piece = {NULL, 0, G4_NO_LINE};
	bool done = false;

	if (guest->core != G4_NO_CORE) {
		done = wanted && find_piece(fs, g4_core_of(fs, guest->core), mine, &piece);
		copy_pieces(wg, mine->to, &piece);
		if (piece.line != G4_NO_LINE)
			g4_cache_put_way(&fs->cache, piece.line);
	}
	mine->result = (int64_t)piece.bytes;
	tell(wg, guest, wanted, done);
}

G4_FN void g4_guest_read_each(struct g4_guest *guest, const struct g4_guest_file *file)
{
	struct g4_fs *fs = guest->guests->fs;
	uint32_t i = g4_guest_may_read(file) ? enter(guest, file) : G4_NO_CORE;

	if (i != G4_NO_CORE && (g4_core_of(fs, i)->dead || !g4_is_reg(g4_core_of(fs, i)->disk.mode))) {
		leave(guest, i);
		i = G4_NO_CORE;
	}
	run(guest, READ, i);
	if (i != G4_NO_CORE) {
		if (guest->done && !(g4_handle_flags(file->handle) & G4_OPEN_NOATIME))
			g4_touch_read(fs, i);
		leave(guest, i);
	}
	for (uint64_t left = guest->left; left; left &= left - 1) {
		struct g4_guest_lane *lane = &guest->lane[g4_lowest_bit(left)];
		lane->result = g4_guest_read(guest, file, lane->offset, lane->to, lane->bytes);
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

/* As in g4_guest_map(): no lock; the size tells what of the page is the file's. */
G4_FN static void map_region(struct g4_wg *wg, struct g4_guest *guest)
{
	struct g4_fs *fs = guest->guests->fs;
	struct g4_guest_lane *mine = &guest->lane[g4_wg_lane(wg)];
	const uint64_t at = g4_align_down(mine->offset, G4_PAGE_BYTES);
	const bool wanted = mine->offset != UINT64_MAX;
	uint32_t line = G4_NO_LINE;
	uint64_t size = 0;
	bool done = false;

	if (guest->core != G4_NO_CORE) {
		struct g4_core *core = g4_core_of(fs, guest->core);
		if (wanted)
			line = g4_cache_peek(&fs->cache, core->data_key, at >> G4_PAGE_SHIFT);
		size = g4_load64_acq(&core->size);
		if (line != G4_NO_LINE && at >= size) {
			g4_cache_put_way(&fs->cache, line);
			line = G4_NO_LINE;
		}
		done = pin_all(wg, &fs->cache, line);
	}
	if (done) {
		mine->page.data = g4_line_data(&fs->cache, line);
		mine->page.line = line;
		mine->page.bytes = (uint32_t)g4_min64(size - at, G4_PAGE_BYTES);
	}
	mine->result = wanted ? 0 : -G4_E_NXIO;
	tell(wg, guest, wanted, done);
}

G4_FN void g4_guest_map_each(struct g4_guest *guest, const struct g4_guest_file *file)
{
	uint32_t i = G4_NO_CORE;

	if (!g4_guest_may_read(file) || g4_guest_core(guest->guests->fs, file, &i) < 0)
		i = G4_NO_CORE;
	run(guest, MAP, i);
	for (uint64_t left = guest->left; left; left &= left - 1) {
		struct g4_guest_lane *lane = &guest->lane[g4_lowest_bit(left)];
		lane->result = g4_guest_map(guest, file, lane->offset >> G4_PAGE_SHIFT, true);
		lane->page = guest->page;
	}
}

G4_FN bool g4_guest_unmap_lane(struct g4_guests *guests, uint32_t line)
{
	return g4_cache_put_way(&guests->fs->cache, line);
}

G4_FN void g4_guest_unpin(struct g4_guests *guests, uint32_t count)
{
	g4_cache_unpin_none(&guests->fs->cache, count);
}

/* ------------------------------------------------------------------ all lanes */

G4_FN void g4_guest_region(struct g4_wg *wg, struct g4_guest *guest)
{
	switch (guest->each) {
	case LOOKUP:
		lookup_region(wg, guest);
		break;
	case READ:
		read_region(wg, guest);
		break;
	default:
		map_region(wg, guest);
		break;
	}
}
