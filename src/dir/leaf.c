/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a leaf: finding, placing, removing, splitting (directories document, chapter 4.1). */
#include "dir/leaf.h"
#include "dir/dir.h"

#include "journal/journal.h"

/* Bit 0 of a note is no entry's, being the page's header: it says that the note is made. */
#define NOTE_MADE UINT64_C(1)

/* ------------------------------------------------------------------ bits */

G4_FN static void set_bits(uint64_t words[G4_LEAF_WORDS], uint32_t first, uint32_t count)
{
	/* an entry has at most 17 units, which lie in two words; one of a leaf that two directories share may run over the page */
	const uint32_t last = (uint32_t)g4_min64(first + count, G4_DIR_UNITS) - 1, w = first / 64;

	count = last - first + 1;
	if (last / 64 == w) {
		words[w] |= ((UINT64_C(2) << (count - 1)) - 1) << first % 64;
	} else {
		words[w] |= ~UINT64_C(0) << first % 64;
		words[w + 1] |= (UINT64_C(2) << last % 64) - 1;
	}
}

G4_FN static void clear_bits(uint64_t words[G4_LEAF_WORDS], uint32_t first, uint32_t count)
{
	uint64_t gone[G4_LEAF_WORDS] = {0, 0, 0, 0};

	set_bits(gone, first, count);
	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		words[w] &= ~gone[w];
}

/* The first set bit at or behind `bit`; G4_DIR_UNITS: none. */
G4_FN static uint32_t next_bit(const uint64_t words[G4_LEAF_WORDS], uint32_t bit)
{
	while (bit < G4_DIR_UNITS) {
		uint64_t rest = words[bit / 64] >> bit % 64;
		if (rest)
			return bit + g4_lowest_bit(rest);
		bit = (bit / 64 + 1) * 64;
	}
	return G4_DIR_UNITS;
}

/* The first of `count` clear bits in a row; G4_DIR_UNITS: none. Doubles the length of the runs that are left over. */
G4_FN static uint32_t find_run(const uint64_t used[G4_LEAF_WORDS], uint32_t count)
{
	uint64_t runs[G4_LEAF_WORDS];

	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		runs[w] = ~used[w];
	for (uint32_t length = 1; length < count;) {
		const uint32_t step = length < count - length ? length : count - length;
		for (uint32_t w = 0; w < G4_LEAF_WORDS; w++) {
			uint64_t above = w + 1 < G4_LEAF_WORDS ? runs[w + 1] : 0;
			runs[w] &= runs[w] >> step | above << (64 - step);
		}
		length += step;
	}
	return next_bit(runs, 0);
}

/* ------------------------------------------------------------------ notes */

/* Of a leaf that nobody else looks at: the lock that is held publishes the note with the page. */
G4_FN static void keep_note(const struct g4_leaf *leaf)
{
	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		g4_store64_rlx(&leaf->note->word[w], leaf->starts[w] | (w == 0 ? NOTE_MADE : 0));
}

/*
 * From entry to entry, as the page says it. The unit behind an entry is another's beginning or free. Readers of a directory may
 * come here side by side: they make the same note, and a reader that sees its first word sees the others.
 */
G4_FN G4_COLD static void make_note(struct g4_leaf *leaf)
{
	uint64_t used[G4_LEAF_WORDS];

	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++) {
		used[w] = leaf->page->used[w];
		leaf->starts[w] = 0;
	}
	for (uint32_t unit = next_bit(used, G4_DIR_HEADER_UNITS); unit < G4_DIR_UNITS;) {
		set_bits(leaf->starts, unit, 1);
		unit = next_bit(used, unit + g4_leaf_units_for(g4_leaf_entry(leaf, unit)->name_bytes));
	}
	for (uint32_t w = 1; w < G4_LEAF_WORDS; w++)
		g4_store64_rlx(&leaf->note->word[w], leaf->starts[w]);
	g4_store64_rel(&leaf->note->word[0], leaf->starts[0] | NOTE_MADE);
}

/* first: the note's first word. */
G4_FN static void use_note(struct g4_leaf *leaf, uint64_t first)
{
	if (!(first & NOTE_MADE)) {
		make_note(leaf);
		return;
	}
	leaf->starts[0] = first & ~NOTE_MADE;
	for (uint32_t w = 1; w < G4_LEAF_WORDS; w++)
		leaf->starts[w] = g4_load64_rlx(&leaf->note->word[w]);
}

G4_FN void g4_leaf_open(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line)
{
	leaf->page = (struct g4_dir_leaf *)g4_line_data(cache, line);
	leaf->note = &cache->notes[line];
	use_note(leaf, g4_load64_acq(&leaf->note->word[0]));
}

G4_FN void g4_leaf_open_alone(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line)
{
	leaf->page = (struct g4_dir_leaf *)g4_line_data(cache, line);
	leaf->note = &cache->notes[line];
	use_note(leaf, g4_load64_rlx(&leaf->note->word[0]));
}

G4_FN void g4_leaf_init(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line)
{
	leaf->page = (struct g4_dir_leaf *)g4_line_data(cache, line);
	leaf->note = &cache->notes[line];
	leaf->page->used[0] = (UINT64_C(1) << G4_DIR_HEADER_UNITS) - 1;
	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		leaf->starts[w] = 0;
	keep_note(leaf);
}

/* ------------------------------------------------------------------ searching */

G4_FN uint32_t g4_leaf_next(const struct g4_leaf *leaf, uint32_t unit)
{
	return next_bit(leaf->starts, unit);
}

G4_FN static uint32_t hash_at(const struct g4_dir_leaf *page, uint32_t unit)
{
	return ((const struct g4_dir_entry *)(const void *)((const uint8_t *)page + unit * G4_DIR_UNIT_BYTES))->hash;
}

#if G4_CUDA || defined(G4_LANES)
/* Hashes that are on their way at once. A thread has registers for so many. */
#define AT_ONCE_ALONE 32u

/*
 * The hashes of all units, whether an entry begins there or not, and then the starts of those that are equal: 32 loads take little
 * longer than one, and a way from bit to bit would make each wait.
 */
G4_FN static uint32_t search(const struct g4_leaf *leaf, uint32_t hash, uint32_t unit)
{
	G4_STATIC_ASSERT(G4_DIR_UNITS % AT_ONCE_ALONE == 0 && 64 % AT_ONCE_ALONE == 0, "groups lie in a word each");
	uint32_t starts = ~UINT32_C(0) << unit % AT_ONCE_ALONE;

	G4_ROLLED
	for (uint32_t first = unit - unit % AT_ONCE_ALONE; first < G4_DIR_UNITS; first += AT_ONCE_ALONE) {
		uint32_t hashes[AT_ONCE_ALONE], equal = 0;

		starts &= (uint32_t)(leaf->starts[first / 64] >> first % 64);
		if (starts) {
			G4_UNROLLED
			for (uint32_t k = 0; k < AT_ONCE_ALONE; k++)
				hashes[k] = hash_at(leaf->page, first + k);
			G4_UNROLLED
			for (uint32_t k = 0; k < AT_ONCE_ALONE; k++)
				equal |= (uint32_t)(hashes[k] == hash) << k;
			if (equal & starts)
				return first + g4_lowest_bit(equal & starts);
		}
		starts = ~UINT32_C(0);
	}
	return G4_DIR_UNITS;
}
#else
/* The first entry with this hash at or behind `unit`; G4_DIR_UNITS: none. */
G4_FN static uint32_t search(const struct g4_leaf *leaf, uint32_t hash, uint32_t unit)
{
	const struct g4_dir_leaf *page = leaf->page;
	uint64_t bits = leaf->starts[unit / 64] & ~UINT64_C(0) << unit % 64;

	for (uint32_t w = unit / 64;; bits = leaf->starts[w]) {
		for (; bits; bits &= bits - 1) {
			unit = 64 * w + g4_lowest_bit(bits);
			if (hash_at(page, unit) == hash)
				return unit;
		}
		if (++w == G4_LEAF_WORDS)
			return G4_DIR_UNITS;
	}
}
#endif

G4_FN uint32_t g4_leaf_find(const struct g4_leaf *leaf, uint32_t hash, const char *name, uint32_t bytes, bool *collides)
{
	*collides = false;
	for (uint32_t unit = 0; unit < G4_DIR_UNITS; unit++) {
		unit = search(leaf, hash, unit);
		if (unit == G4_DIR_UNITS)
			break;
		const struct g4_dir_entry *entry = g4_leaf_entry(leaf, unit);
		if (entry->name_bytes == bytes && g4_bytes_equal(g4_leaf_name(entry), name, bytes))
			return unit;
		*collides = true;
	}
	return 0;
}

G4_FN bool g4_leaf_has(const struct g4_leaf *leaf, uint32_t unit, uint32_t hash, const char *name, uint32_t bytes)
{
	const struct g4_dir_entry *entry = g4_leaf_entry(leaf, unit);

	return (leaf->starts[unit / 64] >> unit % 64 & 1) && entry->hash == hash && entry->name_bytes == bytes &&
	       g4_bytes_equal(g4_leaf_name(entry), name, bytes);
}

/* ------------------------------------------------------------------ changing */

G4_FN G4_COLD uint32_t g4_leaf_number(const struct g4_leaf *leaf, uint32_t hash, uint32_t first)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t candidate = first;

	for (bool taken = true; taken && candidate < G4_COLLISIONS; candidate += taken) {
		taken = false;
		G4_LEAF_FOR_EACH(leaf, unit, entry)
		taken |= entry->hash == hash && entry->collision == candidate;
	}
	return candidate;
}

/* words of a name that are loaded before the first is stored: on a GPU their ways to memory overlap */
#define AT_ONCE 4u

/*
 * Without the note, which the caller keeps. units: that the entry had when the caller made room for it, from `unit` on and where it comes from.
 * It has no more here, whatever its header says by now: of a leaf that an image has in two directories it is another owner's.
 */
G4_FN static void put_entry(struct g4_leaf *leaf, uint32_t unit, uint32_t units, const struct g4_dir_entry *header,
			    const char *name)
{
	const struct g4_dir_entry told = *header;
	const uint32_t bytes = (uint32_t)g4_min64(told.name_bytes, (units - 1) * G4_DIR_UNIT_BYTES);
	const uint32_t count = (units - 1) * G4_DIR_UNIT_BYTES / 8;
	struct g4_dir_entry *entry = g4_leaf_entry(leaf, unit);
	uint64_t *words = (uint64_t *)(void *)(entry + 1);

	*entry = told;
	entry->name_bytes = (uint8_t)bytes;
	G4_ROLLED
	for (uint32_t first = 0; first < count; first += AT_ONCE) {
		uint64_t batch[AT_ONCE];

		for (uint32_t k = 0; k < AT_ONCE; k++) {
			const uint32_t at = 8 * (first + k);
			batch[k] = at < bytes ? g4_load_bytes(name + at, (uint32_t)g4_min64(8, bytes - at)) : 0;
		}
		for (uint32_t k = 0; k < AT_ONCE && first + k < count; k++)
			words[first + k] = batch[k];
	}
	set_bits(leaf->page->used, unit, g4_leaf_units_for(bytes)); /* it may have become shorter as well */
	set_bits(leaf->starts, unit, 1);
}

/* Moves all entries to the front so that free units lie together. */
G4_FN G4_COLD static void compact(struct g4_wg *wg, struct g4_leaf *leaf)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_leaf spare = *leaf;
	struct g4_dir_entry *entry = NULL;
	uint32_t to = G4_DIR_HEADER_UNITS;

	spare.page = (struct g4_dir_leaf *)g4_scratch_take(wg, sizeof(*spare.page));
	g4_copy(wg, spare.page, leaf->page, sizeof(*leaf->page));
	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		leaf->page->used[w] = leaf->starts[w] = 0;
	leaf->page->used[0] = (UINT64_C(1) << G4_DIR_HEADER_UNITS) - 1;
	G4_LEAF_FOR_EACH(&spare, unit, entry)
	{
		const uint32_t units = g4_leaf_units_for(entry->name_bytes);
		if (to + units > G4_DIR_UNITS || unit + units > G4_DIR_UNITS)
			break;
		put_entry(leaf, to, units, entry, g4_leaf_name(entry));
		to += units;
	}
	g4_scratch_release(wg, mark);
}

G4_FN bool g4_leaf_insert(struct g4_wg *wg, struct g4_leaf *leaf, const struct g4_dir_entry *header, const char *name)
{
	const uint32_t units = g4_leaf_units_for(header->name_bytes);
	uint32_t unit = find_run(leaf->page->used, units);
	if (unit == G4_DIR_UNITS) {
		compact(wg, leaf);
		unit = find_run(leaf->page->used, units);
	}
	if (unit < G4_DIR_UNITS)
		put_entry(leaf, unit, units, header, name);
	keep_note(leaf);
	return unit < G4_DIR_UNITS;
}

G4_FN void g4_leaf_remove(struct g4_leaf *leaf, uint32_t unit)
{
	clear_bits(leaf->page->used, unit, g4_leaf_units_for(g4_leaf_entry(leaf, unit)->name_bytes));
	clear_bits(leaf->starts, unit, 1);
	keep_note(leaf);
}

/* Entries that the pivot may be of: their hashes, and units in the lowest byte. */
struct candidates {
	uint64_t items[G4_DIR_LEAF_ENTRIES];
	uint32_t count;
};

G4_FN static uint32_t hash_of(uint64_t item)
{
	return (uint32_t)(item >> 8);
}

/* Keeps those below `bound`, or the others. */
G4_FN static void keep(struct candidates *left, uint64_t bound, bool below)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < left->count; k++)
		if ((hash_of(left->items[k]) < bound) == below)
			left->items[kept++] = left->items[k];
	left->count = kept;
}

/* The largest hash below which lie at most `half` units: half of what is left after each step, mostly. */
G4_FN static uint32_t middle_hash(struct candidates *left, uint64_t low, uint64_t high, uint32_t half)
{
	while (high - low > 1 && left->count > 1) {
		const uint64_t middle = (low + high) / 2;
		uint32_t units = 0;

		for (uint32_t k = 0; k < left->count; k++)
			units += hash_of(left->items[k]) < middle ? (uint32_t)(left->items[k] & 0xff) : 0;
		keep(left, middle, units > half);
		if (units > half) {
			high = middle;
		} else {
			half -= units;
			low = middle;
		}
	}
	return hash_of(left->items[0]);
}

/* The lowest hash above another; 0: there is none. */
G4_FN G4_COLD static uint32_t next_hash(const struct g4_leaf *leaf, uint32_t hash)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t next = 0;

	G4_LEAF_FOR_EACH(leaf, unit, entry)
	if (entry->hash > hash && (next == 0 || entry->hash < next))
		next = entry->hash;
	return next;
}

G4_FN uint32_t g4_leaf_pivot(struct g4_wg *wg, const struct g4_leaf *leaf)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct candidates *all = (struct candidates *)g4_scratch_take(wg, sizeof(*all));
	struct g4_dir_entry *entry = NULL;
	uint32_t least = UINT32_MAX, most = 0, units = 0;

	all->count = 0;
	G4_LEAF_FOR_EACH(leaf, unit, entry)
	{
		const uint32_t own = g4_leaf_units_for(entry->name_bytes), hash = entry->hash;
		if (all->count == G4_DIR_LEAF_ENTRIES)
			break;
		all->items[all->count++] = (uint64_t)hash << 8 | own;
		units += own;
		least = hash < least ? hash : least;
		most = hash > most ? hash : most;
	}
	const uint32_t middle = all->count ? middle_hash(all, least, (uint64_t)most + 1, units / 2) : 0;
	g4_scratch_release(wg, mark);
	/* more than half of it has the lowest hash: cut behind that hash, if anything is there */
	return middle > least ? middle : next_hash(leaf, least);
}

/* Units of the names of a leaf, by where their hashes are. */
struct shares {
	uint32_t below, same, above, before_middle;
	uint32_t next;	 /* the lowest hash above; 0: none */
	uint32_t number; /* above all of the names of that hash */
};

/* Adds them up. */
G4_FN static void share_out(const struct g4_leaf *leaf, uint32_t hash, uint32_t middle, struct shares *s)
{
	struct g4_dir_entry *entry = NULL;

	G4_LEAF_FOR_EACH(leaf, unit, entry)
	{
		const uint32_t units = g4_leaf_units_for(entry->name_bytes);
		s->before_middle += entry->hash < middle ? units : 0;
		if (entry->hash < hash) {
			s->below += units;
		} else if (entry->hash == hash) {
			s->same += units;
			s->number = entry->collision >= s->number ? entry->collision + 1u : s->number;
		} else {
			s->above += units;
			s->next = s->next == 0 || entry->hash < s->next ? entry->hash : s->next;
		}
	}
}

/*
 * One half of the middle has no room only if nearly all of the leaf has one hash. Of what is below and above the name's hash at least one
 * part is small, or that one hash is its own: then what is above that is less than the name, and goes with it.
 */
G4_FN G4_COLD uint64_t g4_leaf_cut(struct g4_wg *wg, const struct g4_leaf *leaf, uint32_t hash, uint32_t units,
				   bool *equal)
{
	const uint32_t middle = g4_leaf_pivot(wg, leaf);
	struct shares s = {0, 0, 0, 0, 0, 0};

	share_out(leaf, hash, middle, &s);
	const uint32_t all = s.below + s.same + s.above;
	*equal = false;
	if (middle != 0 && (hash < middle ? s.before_middle : all - s.before_middle) + units <= G4_LEAF_FILL)
		return g4_dir_position(middle, 0);
	if (s.below > 0 && s.same + s.above + units <= G4_LEAF_FILL)
		return g4_dir_position(hash, 0);
	if (s.above > 0 && s.below + s.same + units <= G4_LEAF_FILL)
		return g4_dir_position(s.next, 0);
	if (middle != 0 && all > G4_LEAF_FILL) /* made by others, with more: once more, then */
		return g4_dir_position(middle, 0);
	*equal = true;
	return s.number < G4_COLLISIONS ? g4_dir_position(hash, (uint16_t)s.number) : 0;
}

G4_FN void g4_leaf_split(struct g4_leaf *leaf, struct g4_leaf *right, uint64_t cut)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t to = G4_DIR_HEADER_UNITS;

	G4_LEAF_FOR_EACH(leaf, unit, entry)
	{
		if (g4_dir_position(entry->hash, entry->collision) < cut)
			continue;
		const uint32_t units = g4_leaf_units_for(entry->name_bytes);
		if (to + units > G4_DIR_UNITS || unit + units > G4_DIR_UNITS)
			break;
		put_entry(right, to, units, entry, g4_leaf_name(entry));
		to += units;
		clear_bits(leaf->page->used, unit, units);
		clear_bits(leaf->starts, unit, 1);
	}
	keep_note(leaf);
	keep_note(right);
}

G4_FN bool g4_leaf_unite(struct g4_wg *wg, struct g4_leaf *leaf, const struct g4_leaf *right)
{
	struct g4_dir_entry *entry = NULL;
	bool fits = true;

	G4_LEAF_FOR_EACH(right, unit, entry)
	{
		const uint32_t units = g4_leaf_units_for(entry->name_bytes);
		uint32_t to = find_run(leaf->page->used, units);
		if (to == G4_DIR_UNITS) {
			compact(wg, leaf);
			to = find_run(leaf->page->used, units);
		}
		fits = fits && to < G4_DIR_UNITS && unit + units <= G4_DIR_UNITS;
		if (!fits)
			break;
		put_entry(leaf, to, units, entry, g4_leaf_name(entry));
	}
	keep_note(leaf);
	return fits;
}

/* ------------------------------------------------------------------ listing */

/*
 * In scratch memory. An entry is known by a key: its position, and in the lowest byte the unit where it is. So no two are equal, whatever an
 * image says, and it is words that are sorted.
 */
struct listing {
	uint64_t keys[G4_DIR_LEAF_ENTRIES];
	struct g4_dir_listed *listed;
	uint64_t from;
};
#define KEY_UNIT_BITS 8u
G4_STATIC_ASSERT(G4_DIR_UNITS <= 1u << KEY_UNIT_BITS, "a key has a unit");

/* Per-lane. Keys of entries in units from `first` on, as far as there is room; NULL: they are counted. */
G4_FN static uint32_t collect(const struct listing *job, uint32_t first, uint32_t end, uint64_t *keys, uint32_t room)
{
	const struct g4_dir_listed *listed = job->listed;
	uint32_t count = 0;

	for (uint32_t unit = next_bit(listed->starts, first); unit < end && count < room;
	     unit = next_bit(listed->starts, unit + 1)) {
		const uint8_t *at = (const uint8_t *)listed->page + unit * G4_DIR_UNIT_BYTES;
		const struct g4_dir_entry *entry = (const struct g4_dir_entry *)(const void *)at;
		const uint64_t position = g4_dir_position(entry->hash, entry->collision);
		if (position < job->from)
			continue;
		if (keys)
			keys[count] = position << KEY_UNIT_BITS | unit;
		count++;
	}
	return count;
}

/* Per-lane. */
G4_FN static void put_item(struct g4_dir_listed *listed, uint32_t k, uint64_t key)
{
	const uint32_t unit = (uint32_t)key & ((1u << KEY_UNIT_BITS) - 1);
	const uint8_t *at = (const uint8_t *)listed->page + unit * G4_DIR_UNIT_BYTES;

	listed->items[k].position = key >> KEY_UNIT_BITS;
	listed->items[k].entry = (const struct g4_dir_entry *)(const void *)at;
}

/* Keys of a lane that are ranked at once: of a warp all that a leaf has. */
#define RANKED 4u

/* Per-lane. A key's place is how many are lower: no lane waits for another one. */
G4_FN static void rank(const struct listing *job, uint32_t lane, uint32_t width)
{
	const uint32_t count = job->listed->count;

	for (uint32_t first = lane; first < count; first += RANKED * width) {
		uint64_t own[RANKED];
		uint32_t lower[RANKED];

		G4_UNROLLED
		for (uint32_t i = 0; i < RANKED; i++) {
			own[i] = first + i * width < count ? job->keys[first + i * width] : 0;
			lower[i] = 0;
		}
		for (uint32_t k = 0; k < count; k++) {
			const uint64_t key = job->keys[k];
			G4_UNROLLED
			for (uint32_t i = 0; i < RANKED; i++)
				lower[i] += key < own[i];
		}
		G4_UNROLLED
		for (uint32_t i = 0; i < RANKED; i++)
			if (first + i * width < count)
				put_item(job->listed, lower[i], own[i]);
	}
}

/* A lane alone moves fewer than it would compare. */
G4_FN static void insert_each(struct listing *job)
{
	struct g4_dir_listed *listed = job->listed;
	uint64_t *const keys = job->keys;

	for (uint32_t i = 1; i < listed->count; i++) {
		const uint64_t key = keys[i];
		uint32_t k = i;
		for (; k > 0 && keys[k - 1] > key; k--)
			keys[k] = keys[k - 1];
		keys[k] = key;
	}
	for (uint32_t k = 0; k < listed->count; k++)
		put_item(listed, k, keys[k]);
}

/* Each lane has the entries of as many units as the others. */
G4_REGION_BODY void g4_leaf_keys_region(struct g4_wg *wg, void *args)
{
	struct listing *job = (struct listing *)args;
	const uint32_t width = g4_wg_width(wg), lane = g4_wg_lane(wg);
	const uint32_t each = (G4_DIR_UNITS + width - 1) / width;
	const uint32_t first = (uint32_t)g4_min64(lane * each, G4_DIR_UNITS);
	const uint32_t end = (uint32_t)g4_min64(first + each, G4_DIR_UNITS);

	g4_converge(wg);
	if (width == 1) {
		job->listed->count = collect(job, first, end, job->keys, G4_DIR_LEAF_ENTRIES);
		insert_each(job);
		return;
	}
	const uint32_t mine = collect(job, first, end, NULL, G4_DIR_LEAF_ENTRIES);
	const uint32_t before = (uint32_t)g4_min64(g4_scan_exclusive(wg, mine), G4_DIR_LEAF_ENTRIES);
	const uint32_t all = (uint32_t)g4_min64(g4_reduce_sum(wg, mine), G4_DIR_LEAF_ENTRIES);
	collect(job, first, end, &job->keys[before], G4_DIR_LEAF_ENTRIES - before);
	if (lane == 0)
		job->listed->count = all;
	g4_sync(wg);
	rank(job, lane, width);
	g4_sync(wg);
}

G4_FN void g4_leaf_copy(struct g4_wg *wg, const struct g4_leaf *leaf, struct g4_dir_listed *listed)
{
	g4_copy(wg, listed->page, leaf->page, G4_PAGE_BYTES);
	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		listed->starts[w] = leaf->starts[w];
}

G4_FN void g4_leaf_list(struct g4_wg *wg, uint64_t from, struct g4_dir_listed *listed)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct listing *job = (struct listing *)g4_scratch_take(wg, sizeof(*job));

	job->listed = listed;
	job->from = from;
	g4_region(wg, G4_REGION_LEAF_KEYS, g4_leaf_keys_region, job);
	g4_scratch_release(wg, mark);
}
