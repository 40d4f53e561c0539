/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up without a lock. Most lookups meet directories that nobody is changing, and then all that the locks do
 * is to count readers in and out: four atomic operations a name, which is half of what a stat costs on a CPU and more on a
 * GPU. Here what is needed is copied, and afterwards is asked whether anybody has written meanwhile. Nobody waits, and
 * nothing is kept.
 *
 * All that a walk has seen is asked at its end, directories' locks for holders that have changed them alone, and the entries of
 * names for makers that have
 * taken a name beside others: if none has changed since it was copied, then at that moment every name led
 * where the walk went, and the attributes were these. Until then nothing that was copied is believed. It may be torn, or
 * another inode's: the walk then ends at the wrong place, or finds nothing, and that is all.
 *
 * It is one walk for a lane alone (optimistic.c) and for a workgroup together (ring/optimistic.h): then each lane splits off and
 * hashes one name of the path, and the lanes fetch together what lies in memory, so that an in-core inode, or the entries where a name
 * may stand, are one trip. On a GPU a function's variables lie in memory, unless they fit the registers, and each fence or
 * acquire empties the cache that they are in. So all of this is inline, and what is constant while the file system is mounted
 * is fetched once.
 *
 * Whatever is not plain is left to the commands: names that are not cached, symbolic links on the way, "." and "..",
 * access lists, errors of any kind. LOOKUP and RESOLVE (lookup.c) mean the same.
 */
#ifndef G4_OPTIMISTIC_H
#define G4_OPTIMISTIC_H

#include "dir/leaf.h"
#include "fs/attr.h"
#include "fs/cred.h"
#include "fs/execute.h"
#include "fs/names.h"
#include "hash/siphash.h"
#include "inode/epoch.h"
#include "inode/icache.h"

#define G4_OPTIMISTIC_PARTS 16u /* of a path that a workgroup walks */

/* A name of the path. */
struct g4_optimistic_part {
	uint32_t at, bytes; /* where it is in the path */
	uint32_t hash;
	uint32_t padding;
	uint64_t words[G4_LOOKUP_NAME_WORDS]; /* its bytes, and zeros */
};

/* Of a lane alone: its own, in registers. Of a workgroup: memory that the lanes share. */
struct g4_optimistic_memory {
	/* constant while the file system is mounted: g4_optimistic_furnish() */
	struct g4_inode_core *icache;
	uint32_t icache_count;
	uint32_t root_index;
	uint64_t root_key; /* its data_key */
	struct g4_lookup lookup;
	uint64_t hash_key[2];
	const uint64_t *epochs;	       /* NULL: nobody wants trails, or nobody did when the room was furnished */
	const uint64_t *epochs_stored; /* g4_epochs_stored() */
	/* what is looked at */
	struct g4_inode_core inode; /* the attributes */
	struct g4_lookup_entry entries[G4_LOOKUP_WAYS];
	struct g4_optimistic_part parts[G4_OPTIMISTIC_PARTS];
};

G4_FN G4_INLINE void g4_optimistic_furnish(struct g4_optimistic_memory *memory, const struct g4_fs *fs)
{
	memory->icache = fs->icache.inodes;
	memory->icache_count = fs->icache.count;
	memory->root_index = fs->root_index;
	memory->root_key = fs->root_index == G4_NO_INODE ? 0 : fs->icache.inodes[fs->root_index].data_key;
	memory->lookup = fs->lookup;
	memory->hash_key[0] = fs->hash_key[0];
	memory->hash_key[1] = fs->hash_key[1];
	memory->epochs = g4_epochs(fs);
	memory->epochs_stored = g4_epochs_stored(fs);
}

/* What was read, and must still be so in the end. */
struct g4_optimistic_note {
	const struct g4_rwlock *lock;
	uint32_t version;
	struct g4_lookup_seen name; /* how the walk goes on there; entry NULL: nothing is left to ask */
	uint16_t epoch;		    /* together: of the inode */
};

#define G4_OPTIMISTIC_SEEN 4u /* of what a lane alone remembers; a longer walk asks on its way, too */

struct g4_optimistic_lookup {
	bool together; /* a workgroup, and not a lane alone; known when this is compiled */
	struct g4_wg *wg;
	struct g4_optimistic_memory *memory;
	const struct g4_fs *fs;
	const struct g4_cmd *cmd;
	bool root;		/* g4_is_root(): may look names up anywhere */
	struct g4_trail *trail; /* NULL: nobody asks */
	uint32_t end;		/* of the path's names: behind it are slashes alone, which ask for a directory */

	uint32_t index;	     /* where it is, and what must be there: */
	uint64_t ino;	     /* 0: whatever is */
	uint64_t parent;     /* if it is a directory; 0: any */
	uint32_t generation; /* 0: any */
	uint64_t key;	     /* together: a directory's data_key, which nobody has checked; 0: not known */

	uint32_t seen;
	struct g4_optimistic_note mine;			     /* together: that with this lane's number, or the first */
	struct g4_optimistic_note notes[G4_OPTIMISTIC_SEEN]; /* alone; behind the last one seen: the same again */
};

/* ------------------------------------------------------------------ what a walk has seen */

/* Together: the notes' epochs, one a lane. They are read before it is asked whether what was seen has changed. */
G4_FN G4_INLINE void g4_optimistic_add_epochs(const struct g4_optimistic_lookup *walk)
{
	const struct g4_optimistic_memory *memory = walk->memory;
	uint64_t value;
	const bool read = g4_epoch_read(memory->epochs, memory->epochs_stored, walk->mine.epoch % G4_EPOCHS, &value);

	if (!g4_all(walk->wg, read) && g4_wg_lane(walk->wg) == 0)
		walk->trail->count = G4_TRAIL_LOST;
	for (uint32_t k = 0; k < walk->seen; k++) {
		const uint64_t epoch = g4_broadcast(walk->wg, walk->mine.epoch, k);
		const uint64_t its_value = g4_broadcast(walk->wg, value, k);

		if (g4_wg_lane(walk->wg) == 0)
			g4_trail_add(walk->trail, (uint16_t)epoch, its_value);
	}
}

/* Alone: before it is asked whether the copy has changed. */
G4_FN G4_INLINE void g4_optimistic_add_epoch(const struct g4_optimistic_lookup *walk, uint16_t epoch)
{
	const struct g4_optimistic_memory *memory = walk->memory;
	uint64_t value;

	if (g4_epoch_read(memory->epochs, memory->epochs_stored, epoch % G4_EPOCHS, &value))
		g4_trail_add(walk->trail, epoch, value);
	else
		walk->trail->count = G4_TRAIL_LOST;
}

G4_FN G4_INLINE bool g4_optimistic_unchanged(const struct g4_optimistic_lookup *walk)
{
	bool same = true;

	if (walk->together) {
		if (walk->trail)
			g4_optimistic_add_epochs(walk);
		same = g4_read_unchanged(walk->mine.lock, walk->mine.version);
		same &= walk->mine.name.entry == NULL || g4_lookup_holds(&walk->mine.name);
		return g4_all(walk->wg, same);
	}
	g4_fence_acq();
	for (uint32_t k = 0; k < G4_OPTIMISTIC_SEEN; k++) {
		same &= g4_read_unchanged(walk->notes[k].lock, walk->notes[k].version);
		same &= walk->notes[k].name.entry == NULL || g4_lookup_holds(&walk->notes[k].name);
	}
	return same;
}

/* The inode that is noted is the one whose copy is in the room. No index that is not known when this is compiled: registers have none. */
G4_FN G4_INLINE bool g4_optimistic_note(struct g4_optimistic_lookup *walk, const struct g4_rwlock *lock,
					uint32_t version, struct g4_lookup_seen name)
{
	const uint16_t epoch = walk->memory->inode.epoch;
	const struct g4_optimistic_note noted = {lock, version, name, epoch};

	if (walk->seen == (walk->together ? g4_wg_width(walk->wg) : G4_OPTIMISTIC_SEEN)) {
		if (!g4_optimistic_unchanged(walk))
			return false;
		walk->seen = 0;
	}
	if (walk->together) {
		if (walk->seen == 0 || walk->seen == g4_wg_lane(walk->wg))
			walk->mine = noted;
	} else {
		for (uint32_t k = 0; k < G4_OPTIMISTIC_SEEN; k++)
			if (k >= walk->seen)
				walk->notes[k] = noted;
		if (walk->trail)
			g4_optimistic_add_epoch(walk, epoch);
	}
	walk->seen++;
	return true;
}

/* Alone: how the walk goes on from what was noted last. */
G4_FN G4_INLINE void g4_optimistic_note_name(struct g4_optimistic_lookup *walk, struct g4_lookup_seen name)
{
	for (uint32_t k = 0; k < G4_OPTIMISTIC_SEEN; k++)
		if (k + 1 >= walk->seen)
			walk->notes[k].name = name;
}

/* ------------------------------------------------------------------ names */

/* Where the path's last name ends; 0: it has slashes alone. */
G4_FN G4_INLINE uint32_t g4_optimistic_end(const struct g4_cmd *cmd)
{
	uint32_t end = cmd->name_bytes;

	while (cmd->op == G4_CMD_RESOLVE && end > 0 && cmd->name[end - 1] == '/')
		end--;
	return end;
}

/* Alone: the name that begins at *at or behind slashes there; *at is then its end. False: it cannot be in the lookup cache. */
G4_FN G4_INLINE bool g4_optimistic_next(const struct g4_optimistic_lookup *walk, uint32_t *at, uint32_t *bytes)
{
	const struct g4_cmd *cmd = walk->cmd;
	const bool path = cmd->op == G4_CMD_RESOLVE; /* else it is one name */
	const uint32_t end = walk->end;

	while (path && *at < end && cmd->name[*at] == '/')
		++*at;
	*bytes = path ? 0 : end;
	while (path && *at + *bytes < end && cmd->name[*at + *bytes] != '/')
		++*bytes;
	const char *name = cmd->name + *at;
	*at += *bytes;
	return *bytes <= G4_LOOKUP_NAME_BYTES && !(name[0] == '.' && (*bytes == 1 || (*bytes == 2 && name[1] == '.')));
}

/* Together: the words of a part's name, and its hash, as g4_dir_hash() makes it. */
G4_FN G4_INLINE void g4_optimistic_hash(const struct g4_optimistic_lookup *walk, struct g4_optimistic_part *part)
{
	const struct g4_lookup_name name = {0, 0, walk->cmd->name + part->at, part->bytes, {0, 0}};
	struct g4_sip sip = g4_sip_begin(walk->memory->hash_key);
	uint64_t last = (uint64_t)name.bytes << 56;

	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++) {
		const uint64_t word = g4_lookup_word(&name, w);

		part->words[w] = word;
		if (8 * (w + 1) <= name.bytes)
			g4_sip_add(&sip, word);
		else if (8 * w < name.bytes)
			last |= word;
	}
	g4_sip_add(&sip, last);
	part->hash = (uint32_t)g4_sip_end(&sip);
}

/* Together: [at, end) of the path is its next part. False: it cannot be in the lookup cache, or there are too many. */
G4_FN G4_INLINE bool g4_optimistic_add_part(const struct g4_optimistic_lookup *walk, uint32_t *count, uint32_t at,
					    uint32_t end)
{
	struct g4_optimistic_part *part = &walk->memory->parts[*count % G4_OPTIMISTIC_PARTS];

	if (*count == G4_OPTIMISTIC_PARTS || end - at > G4_LOOKUP_NAME_BYTES)
		return false;
	if (*count % g4_wg_width(walk->wg) == g4_wg_lane(walk->wg)) {
		part->at = at;
		part->bytes = end - at;
	}
	++*count;
	return true;
}

/* Together: finds the parts of the path, as many bytes at a time as there are lanes. */
G4_FN G4_INLINE bool g4_optimistic_find_parts(const struct g4_optimistic_lookup *walk, uint32_t *count)
{
	const struct g4_cmd *cmd = walk->cmd;
	const uint32_t width = g4_wg_width(walk->wg), end = walk->end;
	uint32_t start = 0;
	bool inside = false; /* of a name, which began at `start` */

	*count = 0;
	if (cmd->op == G4_CMD_LOOKUP)
		return g4_optimistic_add_part(walk, count, 0, end);
	for (uint32_t base = 0; base < end; base += width) {
		const uint32_t i = base + g4_wg_lane(walk->wg);
		const uint64_t names = g4_ballot(walk->wg, i < end && cmd->name[i] != '/');
		uint64_t edges = (names ^ (names << 1 | inside)) & (~UINT64_C(0) >> (64 - width));

		for (; edges; edges &= edges - 1) {
			const uint32_t edge = base + g4_lowest_bit(edges);

			if (inside && !g4_optimistic_add_part(walk, count, start, edge))
				return false;
			inside = !inside;
			start = edge;
		}
	}
	return !inside || g4_optimistic_add_part(walk, count, start, end);
}

/* Together: splits the path into the memory's parts, and hashes them side by side. False: one is not plain. */
G4_FN G4_INLINE bool g4_optimistic_split(const struct g4_optimistic_lookup *walk, uint32_t *count)
{
	struct g4_optimistic_part *parts = walk->memory->parts;
	bool dots = false;

	g4_sync(walk->wg); /* lanes still look at the last path */
	if (!g4_optimistic_find_parts(walk, count))
		return false;
	for (uint32_t k = g4_wg_lane(walk->wg); k < *count; k += g4_wg_width(walk->wg)) {
		g4_optimistic_hash(walk, &parts[k]);
		dots |= parts[k].words[0] == '.' || parts[k].words[0] == ('.' | '.' << 8);
	}
	g4_sync(walk->wg);
	return !g4_any(walk->wg, dots);
}

/* ------------------------------------------------------------------ steps */

G4_FN G4_INLINE bool g4_optimistic_start(struct g4_optimistic_lookup *walk)
{
	const struct g4_cmd *cmd = walk->cmd;
	const bool absolute = cmd->op == G4_CMD_RESOLVE && (cmd->name[0] == '/' || cmd->node == 0);
	const uint64_t node = absolute ? G4_NODE_ROOT : cmd->node;

	walk->ino = node == G4_NODE_ROOT ? 0 : node;
	walk->key = node == G4_NODE_ROOT ? walk->memory->root_key : 0;
	walk->parent = 0;
	walk->generation = absolute ? 0 : cmd->generation;
	walk->seen = 0;
	walk->mine.lock = NULL;
	walk->mine.version = 0;
	walk->mine.epoch = 0;
	walk->mine.name.entry = NULL;
	walk->mine.name.sequence = 0;
	if (node == G4_NODE_ROOT)
		walk->index = walk->memory->root_index;
	else if (!walk->together)
		walk->index = g4_icache_index_of(walk->fs, node);
	else /* what the lanes see of the table may differ */
		walk->index = (uint32_t)g4_broadcast(
			walk->wg, g4_wg_lane(walk->wg) == 0 ? g4_icache_index_of(walk->fs, node) : 0, 0);
	return walk->index != G4_NO_INODE;
}

/* Copies the in-core inode where the walk has come to the memory. */
G4_FN G4_INLINE bool g4_optimistic_look(struct g4_optimistic_lookup *walk)
{
	const struct g4_lookup_seen asked = {NULL, 0};
	const struct g4_inode_core *inode = &walk->memory->icache[walk->index];
	uint64_t *memory = (uint64_t *)&walk->memory->inode;
	uint64_t begun = 0;
	uint32_t version;

	if (!walk->together)
		return g4_icache_read_optimistic(inode, walk->ino, &walk->memory->inode, &version) &&
		       g4_optimistic_note(walk, &inode->lock, version, asked);
	if (g4_wg_lane(walk->wg) == 0)
		begun = g4_read_begin_or(&inode->lock, NULL);
	begun = g4_broadcast(walk->wg, begun, 0);
	g4_sync(walk->wg);
	for (uint32_t i = g4_wg_lane(walk->wg); i < G4_INODE_CORE_ATTRIBUTE_BYTES / 8; i += g4_wg_width(walk->wg))
		g4_peek_acq(&memory[i], (const uint64_t *)inode + i);
	g4_sync(walk->wg);
	return begun && g4_optimistic_note(walk, &inode->lock, (uint32_t)(begun >> 1), asked) &&
	       g4_icache_copy_is(&walk->memory->inode, walk->ino);
}

/* Whether the inode whose copy is in the memory is the one that the walk came for. */
G4_FN G4_INLINE bool g4_optimistic_is_there(const struct g4_optimistic_lookup *walk)
{
	const struct g4_inode_core *copy = &walk->memory->inode;

	if (walk->generation && copy->disk.generation != walk->generation)
		return false;
	/* a directory with another parent is for the command to complain of */
	return walk->parent == 0 || g4_is_child(copy->disk.mode, copy->disk.parent, walk->parent);
}

/* Whether names may be looked up in it, and its mode is enough to know. */
G4_FN G4_INLINE bool g4_optimistic_may_search(const struct g4_optimistic_lookup *walk)
{
	return g4_dir_permits(&walk->memory->inode, walk->cmd->cred, walk->root, G4_ACCESS_EXEC) == 0;
}

/* Where the walk goes on from a directory whose copy is in the memory. */
G4_FN G4_INLINE bool g4_optimistic_go(struct g4_optimistic_lookup *walk, const struct g4_lookup_value *value)
{
	walk->parent = walk->memory->inode.ino;
	walk->index = value->index;
	walk->ino = value->inode;
	walk->key = 0;
	walk->generation = 0;
	return value->index < walk->memory->icache_count;
}

/* Alone: to what the name leads. */
G4_FN G4_INLINE bool g4_optimistic_down(struct g4_optimistic_lookup *walk, struct g4_lookup_name *name)
{
	struct g4_optimistic_memory *memory = walk->memory;
	struct g4_lookup_value value;
	struct g4_lookup_seen seen;

	if (!g4_optimistic_look(walk) || !g4_optimistic_is_there(walk) || !g4_optimistic_may_search(walk))
		return false;
	name->directory = memory->inode.data_key;
	if (!g4_lookup_look(&memory->lookup, name, &value, &seen))
		return false;
	g4_optimistic_note_name(walk, seen);
	return g4_optimistic_go(walk, &value);
}

/* Words of a directory's in-core inode that are looked at. */
#define G4_OPTIMISTIC_DIR_WORDS 10u
G4_FN G4_INLINE uint32_t g4_optimistic_dir_word(uint32_t i)
{
#define WORD(member, i) (UINT64_C(0) + offsetof(struct g4_inode_core, member) / 8) << 8 * (i)
	const uint64_t low = WORD(ino, 0) | WORD(data_key, 1) | WORD(refs, 2) | WORD(state, 3) | WORD(dead, 4) |
			     WORD(disk.mode, 5) | WORD(disk.gid, 6) | WORD(disk.nlink, 7);
	const uint64_t high = WORD(disk.parent, 0) | WORD(disk.xattr, 1);
#undef WORD

	G4_STATIC_ASSERT(offsetof(struct g4_inode_core, epoch) / 8 == offsetof(struct g4_inode_core, dead) / 8,
			 "neighbours");
	G4_STATIC_ASSERT(offsetof(struct g4_inode, uid) / 8 == offsetof(struct g4_inode, gid) / 8 &&
				 offsetof(struct g4_inode, nlink) / 8 == offsetof(struct g4_inode, generation) / 8,
			 "neighbours");
	return (uint32_t)((i < 8 ? low : high) >> 8 * (i % 8)) & 0xff;
}

/*
 * Together: to what the name leads. A trip for the directory's key, unless it is known; nobody believes that yet. One for the
 * version of its lock and the sequences of the two entries where the name may stand, one for all that these are of. Then it
 * turns out whether it was the right key.
 */
G4_FN G4_INLINE bool g4_optimistic_down_together(struct g4_optimistic_lookup *walk,
						 const struct g4_optimistic_part *part)
{
	const uint32_t lane = g4_wg_lane(walk->wg), width = g4_wg_width(walk->wg);
	const uint32_t entry_words = sizeof(struct g4_lookup_entry) / 8, both = G4_LOOKUP_WAYS * entry_words;
	struct g4_optimistic_memory *memory = walk->memory;
	const struct g4_inode_core *inode = &memory->icache[walk->index];
	const uint64_t *word = (const uint64_t *)memory->entries;
	struct g4_lookup_value value;
	struct g4_lookup_seen seen;
	bool same[2] = {true, true};
	uint64_t asked = 0;

	G4_STATIC_ASSERT(G4_LOOKUP_WAYS == 2, "two neighbours");
	if (walk->key == 0) {
		if (lane == 0) /* perhaps another inode's by now, which its maker sets without anybody knowing of it */
			g4_peek(&asked, &inode->data_key, 1);
		walk->key = g4_broadcast(walk->wg, asked, 0);
	}
	const struct g4_lookup_name name = {walk->key, part->hash, NULL, part->bytes, {0, 0}};
	const struct g4_lookup_entry *first = g4_lookup_slot(&memory->lookup, &name, 0);
	const struct g4_lookup_entry *second = g4_lookup_slot(&memory->lookup, &name, 1);
	const struct g4_lookup_entry *entry = first < second ? first : second;
	if (lane <= G4_LOOKUP_WAYS)
		asked = g4_read_begin_or(lane == 0 ? &inode->lock : NULL, &entry[lane - (lane > 0)].sequence);
	const uint64_t begun = g4_broadcast(walk->wg, asked, 0);
	g4_sync(walk->wg); /* what the lanes read now is not older; and lanes still look at the memory */
	for (uint32_t i = lane; i < both + G4_OPTIMISTIC_DIR_WORDS; i += width) {
		const uint32_t w = i < both ? i : g4_optimistic_dir_word(i - both);
		const uint64_t *from = i < both ? (const uint64_t *)entry : (const uint64_t *)inode;

		g4_peek_acq((i < both ? (uint64_t *)memory->entries : (uint64_t *)&memory->inode) + w, from + w);
	}
	g4_sync(walk->wg);
	for (uint32_t i = lane; i < both; i += width) {
		const bool fits = g4_lookup_word_fits(word[i], i % entry_words, &name, part->words);

		same[0] &= fits || i >= entry_words;
		same[1] &= fits || i < entry_words;
	}
	const bool in_first = g4_all(walk->wg, same[0]), in_second = g4_all(walk->wg, same[1]);
	const uint32_t way = !in_first;
	seen.entry = &entry[way];
	seen.sequence = g4_broadcast(walk->wg, asked, way + 1);
	value.inode = memory->entries[way].inode;
	value.index = (uint32_t)(memory->entries[way].shape >> G4_LOOKUP_INDEX_SHIFT);
	return begun && (in_first || in_second) && !(seen.sequence & 1) &&
	       g4_optimistic_note(walk, &inode->lock, (uint32_t)(begun >> 1), seen) &&
	       memory->inode.data_key == walk->key && g4_icache_copy_is(&memory->inode, walk->ino) &&
	       g4_optimistic_is_there(walk) && g4_optimistic_may_search(walk) && g4_optimistic_go(walk, &value);
}

/* The walk's answer. */
G4_FN G4_INLINE bool g4_optimistic_arrive(struct g4_optimistic_lookup *walk)
{
	const struct g4_cmd *cmd = walk->cmd;
	const bool leads = !walk->together || g4_wg_lane(walk->wg) == 0;
	const bool follow = cmd->op == G4_CMD_RESOLVE && !(cmd->flags & G4_RESOLVE_NOFOLLOW);
	const bool slash =
		walk->end < cmd->name_bytes; /* what it leads to is a directory, or the command says what is wrong */
	const struct g4_inode_core *copy = &walk->memory->inode;
	struct g4_inode_core *inode = &walk->memory->icache[walk->index];
	/* no maker changes these attributes between the two looks at this */
	uint64_t changes = 0, then = 0;

	if (walk->trail && leads)
		g4_peek_acq(&changes, &inode->shared_changes);
	if (!g4_optimistic_look(walk) || !g4_optimistic_is_there(walk) || (follow && g4_is_link(copy->disk.mode)) ||
	    (slash && !g4_is_dir(copy->disk.mode)))
		return false;
	const bool untouched = !copy->accessed;
	if (cmd->attr && leads) {
		struct g4_attr attr; /* all is read before some is written, which might be the same memory */
		g4_fill_attr(copy, &attr);
		*cmd->attr = attr;
	}
	if (!g4_optimistic_unchanged(walk))
		return false;
	if (walk->trail && leads) {
		g4_peek_acq(&then, &inode->shared_changes);
		if (g4_shared_change_is_under_way(changes) || then != changes)
			walk->trail->count = G4_TRAIL_LOST;
	}
	if (untouched && leads) /* another inode's by now, perhaps: for the clock that is no matter */
		g4_store32_rlx(&inode->accessed, 1);
	return true;
}

/* ------------------------------------------------------------------ LOOKUP and RESOLVE */

/*
 * Collective if `together`, else per-lane, with wg NULL. What the command would answer, if the caches have it and nobody is
 * changing it: true. Fills cmd->attr; if it fails, that is undefined. `root`: g4_is_root(cmd->cred).
 */
G4_FN G4_INLINE bool g4_optimistic_lookup(bool together, struct g4_wg *wg, struct g4_optimistic_memory *memory,
					  const struct g4_fs *fs, const struct g4_cmd *cmd, bool root)
{
	struct g4_lookup_name name;
	struct g4_optimistic_lookup walk;
	uint32_t count = 0, at = 0;

	walk.together = together;
	walk.wg = wg;
	walk.memory = memory;
	walk.fs = fs;
	walk.cmd = cmd;
	walk.root = root;
	walk.trail = memory->epochs ? g4_trail_of(cmd) : NULL;
	if (walk.trail && (!together || g4_wg_lane(wg) == 0))
		g4_trail_begin(walk.trail);
	if (cmd->name_bytes == 0 || cmd->name_bytes >= G4_PATH_MAX)
		return false;
	walk.end = g4_optimistic_end(cmd);
	if (walk.end == 0 || !g4_optimistic_start(&walk))
		return false;
	if (together) {
		if (!g4_optimistic_split(&walk, &count))
			return false;
		G4_ROLLED
		for (uint32_t k = 0; k < count; k++) {
			if (!g4_optimistic_down_together(&walk, &memory->parts[k]))
				return false;
		}
	} else {
		do {
			if (!g4_optimistic_next(&walk, &at, &name.bytes))
				return false;
			name.text = cmd->name + at - name.bytes;
			name.hash = g4_dir_hash(memory->hash_key, name.text, name.bytes);
			if (!g4_optimistic_down(&walk, &name))
				return false;
		} while (at < walk.end);
	}
	return g4_optimistic_arrive(&walk);
}

#endif
