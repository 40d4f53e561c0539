/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page cache: set-associative, as in chapter 4.2 of the NVMe document, with 4 KiB lines.
 *
 * A line is named by a tag (owner, index): metadata has owner 0 and index address / 4096; file data has the inode's
 * data key and the page's index in the file. One 32-bit word holds valid, busy, accessed, waiters and the reference
 * count. A hit takes no lock: it counts itself in, then checks that the line is still what it wanted. Replacement takes
 * the set's fair lock and asks the policy (victim.h).
 *
 * The cache never writes. A line that is made dirty is referenced until it is clean again, so a line without
 * references is clean and may be replaced. What the document lacks: when every way of a set is referenced, the set
 * borrows a line from a common overflow pool and gives it back with the last reference, so that pinned metadata can
 * not block a set. See README.md for the lock rules.
 */
#ifndef G4_CACHE_H
#define G4_CACHE_H

#include "space/space.h"

/* The policy of replacement is the build's (victim.h, CMakeLists.txt). */
#define G4_CACHE_CLOCK 0
#define G4_CACHE_S3FIFO 1
#define G4_CACHE_CLOCKPRO 2
#ifndef G4_CACHE_POLICY
#define G4_CACHE_POLICY G4_CACHE_S3FIFO
#endif
#define G4_CACHE_ASKS_TWICE (G4_CACHE_POLICY != G4_CACHE_CLOCK) /* to come in is no access */
#define G4_CACHE_WAYS 8u
#define G4_NO_LINE UINT32_MAX

#define G4_LINE_VALID (1u << 31)
#define G4_LINE_BUSY (1u << 30)
#define G4_LINE_ACCESSED (1u << 29)
#define G4_LINE_WAITERS (1u << 28)
#if G4_CACHE_ASKS_TWICE
#define G4_LINE_NEW (1u << 27) /* nobody asked for it yet: it came beside another page */
#define G4_LINE_REFS (G4_LINE_NEW - 1)
#define G4_LINE_FILLED 0u
#else
#define G4_LINE_NEW 0u
#define G4_LINE_REFS (G4_LINE_WAITERS - 1)
#define G4_LINE_FILLED G4_LINE_ACCESSED
#endif

struct g4_line {
	uint64_t owner;
	uint64_t index; /* behind it: g4_load_pair_rlx() */
	uint32_t state;
	uint32_t chain; /* overflow lines: next in the set's chain or in the free pool */
	uint32_t set;	/* overflow lines: the set that borrowed it */
	uint32_t queue; /* G4_CACHE_MAIN, or 0; the set's lock; victim.h */
	/*
	 * What the owner of the page keeps with it: struct g4_meta_line (journal/block.h) with metadata, struct g4_data_line (data/dirty.h)
	 * with a file's page. All zero when a page comes in; otherwise the cache does not look at it.
	 */
	uint64_t kept[4];
};
G4_STATIC_ASSERT(sizeof(struct g4_line) == 64, "cache line");
G4_STATIC_ASSERT(offsetof(struct g4_line, kept) == 32, "aligned for what is kept");

/* What the readers of a page like to know about it, beside its line: all zero when a metadata page comes into the line. */
struct g4_note {
	uint64_t word[4];
};

/*
 * Where the contents of a file's page were read from, for the second tier (space/tier.h): they are what the device has there for as
 * long as the version stays the same, and nobody has changed them in memory. Guarded as the contents are; of a line that is being filled,
 * by who fills it.
 */
struct g4_origin {
	uint64_t page;	  /* of the device */
	uint64_t version; /* G4_TIER_NO_VERSION: of nowhere */
};

#define G4_CACHE_GHOSTS 7u /* names of pages that a set remembers */
struct g4_cache_set {
	struct g4_lock lock;
	uint32_t hand;
	uint32_t overflow; /* first overflow line of this set */
#if G4_CACHE_POLICY == G4_CACHE_S3FIFO
	uint32_t order;
	uint16_t ghost_count, ghosts[G4_CACHE_GHOSTS]; /* the first left first */
#elif G4_CACHE_POLICY == G4_CACHE_CLOCKPRO
	uint16_t names[G4_CACHE_WAYS + 1]; /* of pages that have left */
	uint16_t gone;			   /* names that are in use, a bit each */
	uint8_t ring[2 * G4_CACHE_WAYS + 1], count;
	uint8_t hands[3]; /* places of it */
	uint8_t hot;	  /* ways, a bit each */
	uint8_t metadata; /* the same */
	uint8_t target;	  /* cold pages that there shall be */
#endif
};
#define G4_CACHE_MAIN 1u

/*
 * What became of pages that somebody wanted, in the classes of the document's 4.2.3, since the mount. Pages that were found or not
 * are counted by who wants them, in a place of each workgroup's own (g4_wg_place() modulo G4_CACHE_TALLIES): without an atomic on a
 * CPU, where the engine's workgroups have different places. The rest is counted where a set's lock is held or somebody waits.
 * Who finds pages for lanes with g4_cache_peek() counts them: atomically, for a place may be several warps'.
 */
#define G4_CACHE_TALLIES 256u
enum g4_cache_kind { G4_CACHE_DATA, G4_CACHE_METADATA, G4_CACHE_KINDS };
struct g4_cache_tally {
	uint64_t hits[G4_CACHE_KINDS];
	uint64_t misses[G4_CACHE_KINDS];
	uint64_t without[G4_CACHE_KINDS]; /* no line was to be had: data past the cache, metadata not at all */
	uint64_t waited;		  /* pages of files for which a line came free after some tries only */
	uint64_t peeked;		  /* pages of files that lanes found by themselves */
};
G4_STATIC_ASSERT(sizeof(struct g4_cache_tally) == 64, "a line of a processor's cache");

#define G4_CACHE_EVENT_TALLIES 16u
enum g4_cache_event {
	G4_CACHE_LOCKED_HIT, /* it was found under the set's lock: borrowed from the pool, or somebody else just brought it in */
	G4_CACHE_WAITED_HIT, /* somebody else was filling it */
	G4_CACHE_COLD_MISS,  /* it came into a line that had no page */
	G4_CACHE_CLEAN_MISS, /* it replaced another one */
	G4_CACHE_BORROWED,   /* all lines of its set were in use: it came into one of the pool */
	G4_CACHE_NO_LINE,    /* and the pool was empty: of each try; what became of the page is in the tallies */
	G4_CACHE_EVENTS
};
struct g4_cache_events {
	uint64_t counts[8]; /* by enum g4_cache_event */
};
G4_STATIC_ASSERT(G4_CACHE_EVENTS <= 8, "a line of a processor's cache");

struct g4_cache_counts {
	uint64_t hits[G4_CACHE_KINDS], misses[G4_CACHE_KINDS], without[G4_CACHE_KINDS];
	uint64_t waited, peeked; /* hits[G4_CACHE_DATA] has the latter, too */
	uint64_t events[G4_CACHE_EVENTS];
};

struct g4_cache {
	struct g4_line *lines;
	uint8_t *frames;	 /* the pages, see g4_line_data() */
	uint32_t *frame_numbers; /* which page a line has, counted from 1; 0: none yet. NULL: as g4_line_data() says */
	uint32_t alone_first;	 /* pages from here on are for lines that come in alone */
	uint32_t numbered[2];	 /* lines that have a page in front of that, and behind; pool_lock */
	uint32_t coming; /* grows when pages come near to which the kernel has given no memory yet: g4_cache_touch() */
	struct g4_cache_set *sets;
	struct g4_note *notes;	   /* one a line; dir/leaf.h */
	struct g4_origin *origins; /* one a line; NULL: nothing goes down */
	struct g4_tier *tier;	   /* where to */
	uint64_t
		per_set; /* UINT64_MAX / set_count: set_of() multiplies, for a division is hundreds of instructions of a GPU */
	uint32_t set_count;
	uint32_t line_count;	 /* all, overflow included */
	uint32_t overflow_first; /* lines from here on are the pool */
	struct g4_lock pool_lock;
	uint32_t pool; /* first free overflow line */
	uint32_t pins; /* references that outlive an operation */
	uint32_t pin_limit;
	struct g4_cache_tally tallies[G4_CACHE_TALLIES];
	struct g4_cache_events events[G4_CACHE_EVENT_TALLIES];
};

/* ---- host (cache_host.c) ---- */
/*
 * Touches some of the pages that lines are given next, so that who brings in a page need not wait for the kernel to clear 2 MiB of it. *touched:
 * up to where that was done, 0 at first. False: there is nothing to do until `coming` grows. One caller at a time, beside everybody.
 */
#define G4_CACHE_TOUCH_PAGES 512u
bool g4_cache_touch(struct g4_cache *cache, uint32_t *touched);
/* Lines of a cache for `bytes` bytes of pages: at least 512. */
uint64_t g4_cache_lines_for(uint64_t bytes);
/* Sets of a cache of that many lines; the lines that no set has are the overflow pool. */
uint32_t g4_cache_sets_for(uint32_t line_count);
/*
 * Sets up a cache over zeroed memory given by the caller: line_count lines, frames and notes, and their sets. With `frame_numbers`,
 * one a line, pages are laid out in the order of their first use, so that memory is touched as it is needed: those that come in
 * alone from alone_first on, the others before it, and in the other part what has no room left. Without, every line has its page
 * from the start.
 */
void g4_cache_init(struct g4_cache *cache, struct g4_line *lines, uint8_t *frames, uint32_t *frame_numbers,
		   struct g4_cache_set *sets, struct g4_note *notes, uint32_t line_count);
/* What is replaced goes down to `tier` from now on; one origin a line. Before there are pages. */
void g4_cache_set_tier(struct g4_cache *cache, struct g4_tier *tier, struct g4_origin *origins);
/* Its memory is used `by` bytes further on from now on. */
void g4_cache_moved(struct g4_cache *cache, intptr_t by);

/*
 * The page of a line that somebody made; it stays there. Pages that come into the cache one after the other shall lie in a
 * row, so that one transfer finds few parts: those of a file are, mostly, in the same way of neighbouring sets.
 */
struct g4_cache_frames { /* what it follows from, which does not change */
	uint8_t *frames;
	const uint32_t *numbers;
	uint32_t set_count;
};
G4_FN G4_INLINE struct g4_cache_frames g4_cache_frames(const struct g4_cache *cache)
{
	const struct g4_cache_frames of = {cache->frames, cache->frame_numbers, cache->set_count};

	return of;
}
G4_FN G4_INLINE void *g4_frame_data(struct g4_cache_frames of, uint32_t line)
{
	uint64_t frame = line;

	if (of.numbers)
		frame = of.numbers[line] - 1;
	else if (line < of.set_count * G4_CACHE_WAYS)
		frame = (uint64_t)(line % G4_CACHE_WAYS) * of.set_count + line / G4_CACHE_WAYS;
	return of.frames + frame * G4_PAGE_BYTES;
}
G4_FN G4_INLINE void *g4_line_data(const struct g4_cache *cache, uint32_t line)
{
	return g4_frame_data(g4_cache_frames(cache), line);
}

G4_FN G4_INLINE bool g4_line_is(const struct g4_line *line, uint64_t owner, uint64_t index)
{
	uint64_t tag[2];

	g4_load_pair_rlx(tag, &line->owner);
	return tag[0] == owner && tag[1] == index;
}

/* Somebody asked for the page. */
G4_FN G4_INLINE void g4_line_touch(struct g4_line *line, uint32_t state)
{
	if (state & G4_LINE_ACCESSED)
		return;
	if (state & G4_LINE_NEW)
		g4_and32(&line->state, ~G4_LINE_NEW);
	else
		g4_or32(&line->state, G4_LINE_ACCESSED);
}

/* Appends a page to the `count` parts of a transfer: a part of its own, or the end of the last one. */
G4_FN G4_INLINE void g4_iov_add_page(uint8_t *page, struct g4_iov *iov, uint32_t *count)
{
	if (*count > 0 && (uint8_t *)iov[*count - 1].base + iov[*count - 1].bytes == page) {
		iov[*count - 1].bytes += G4_PAGE_BYTES;
		return;
	}
	iov[*count].base = page;
	iov[*count].bytes = G4_PAGE_BYTES;
	++*count;
}

/* The same of a line's page. */
G4_FN G4_INLINE void g4_iov_add_line(const struct g4_cache *cache, uint32_t line, struct g4_iov *iov, uint32_t *count)
{
	g4_iov_add_page((uint8_t *)g4_line_data(cache, line), iov, count);
}

/* Leader, thread-safe. References the line when it is cached and valid; G4_NO_LINE otherwise. Waits for a fill. */
G4_FN uint32_t g4_cache_find(struct g4_cache *cache, uint64_t owner, uint64_t index);
/*
 * Leader, thread-safe. References the line, making it when it is not cached. *fresh says that the caller got a busy
 * line with undefined contents and must end with g4_cache_filled() or g4_cache_abort(). G4_NO_LINE: all lines that
 * could serve are referenced. alone: pages that come in beside it are no neighbours of it; used where the line gets its page. A page of
 * a file that goes for it goes down to the second tier.
 */
G4_FN uint32_t g4_cache_get(struct g4_wg *wg, struct g4_cache *cache, uint64_t owner, uint64_t index, bool alone,
			    bool *fresh);
G4_FN void g4_cache_filled(struct g4_cache *cache, uint32_t line);
/* The same of a page that nobody has asked for yet: the first who does finds what he would have brought in. */
G4_FN void g4_cache_filled_ahead(struct g4_cache *cache, uint32_t line);
G4_FN void g4_cache_abort(struct g4_cache *cache, uint32_t line); /* drops the reference, too */
G4_FN void g4_cache_ref(struct g4_cache *cache, uint32_t line);
G4_FN void g4_cache_put(struct g4_cache *cache, uint32_t line);
/* The same for a line that will not be wanted again: it was not accessed, for all that the policy knows. */
G4_FN void g4_cache_put_cold(struct g4_cache *cache, uint32_t line);
/*
 * Leader. A line that the caller has got fresh is going to be read from a page of the device: before that is asked for. It has to be
 * the device's contents, unchanged, that come in.
 */
G4_FN G4_INLINE void g4_cache_comes_from(struct g4_cache *cache, uint32_t line, uint64_t page)
{
	if (!cache->origins)
		return;
	cache->origins[line].page = page;
	cache->origins[line].version = g4_tier_version(cache->tier, page);
}
/* Leader. The contents of a line, referenced, are going to be changed, or are not as they came: by who may change them. */
G4_FN G4_INLINE void g4_cache_forget_origin(struct g4_cache *cache, uint32_t line)
{
	if (cache->origins)
		cache->origins[line].version = G4_TIER_NO_VERSION;
}
/*
 * Forgets a line: it is found no more. A line of metadata only when it is unreferenced. A file's page that somebody still
 * references (a pin, or a search that met it by mistake) loses its name and keeps its contents until the last reference
 * goes. It is not dirty, and the caller's lock keeps others from bringing it in again meanwhile.
 */
G4_FN void g4_cache_drop(struct g4_cache *cache, uint64_t owner, uint64_t index);
/* The same for all lines of an owner with first <= index < end, whatever that costs. */
G4_FN void g4_cache_drop_range(struct g4_cache *cache, uint64_t owner, uint64_t first, uint64_t end);

/*
 * Per-lane, thread-safe, neither waits nor locks. References the line when it is cached, valid and not borrowed from the
 * pool; G4_NO_LINE otherwise. The caller puts it back in the same operation or pins it.
 */
G4_FN uint32_t g4_cache_peek(struct g4_cache *cache, uint64_t owner, uint64_t index);
/*
 * The same, and the page; NULL: none. g4_line_data() behind it would be dearer on a GPU, where nothing that was loaded before a reference was taken
 * is in the first level of its cache any more.
 */
G4_FN const void *g4_cache_peek_page(struct g4_cache *cache, uint64_t owner, uint64_t index, uint32_t *line);
/* The same of one line, whatever number that is. False: it is another page's, or not one that a set has. */
G4_FN G4_INLINE bool g4_cache_peek_near(struct g4_cache *cache, uint64_t owner, uint64_t index, uint32_t near)
{
	struct g4_line *lines =
		cache->lines; /* with the other: two loads that overlap, and none behind the reference */

	if (near >= cache->overflow_first)
		return false;
	struct g4_line *line = &lines[near];
	uint32_t state = g4_add32_acq(&line->state, 1);
	if (g4_line_is(line, owner, index) && (state & (G4_LINE_VALID | G4_LINE_BUSY)) == G4_LINE_VALID) {
		g4_line_touch(line, state);
		return true;
	}
	g4_sub32_rel(&line->state, 1);
	return false;
}
/* g4_cache_put() behind g4_fence_rel(), as one of several releases (simt.h). */
G4_FN G4_INLINE void g4_cache_put_fenced(struct g4_cache *cache, uint32_t line)
{
	if (line < cache->overflow_first)
		g4_sub32_fenced(&cache->lines[line].state, 1);
	else
		g4_cache_put(cache, line);
}
/* Per-lane as well: puts a line back, unless it is borrowed from the pool, whose locks are the leader's. */
G4_FN bool g4_cache_put_way(struct g4_cache *cache, uint32_t line);
/*
 * Per-lane, thread-safe. A reference that outlives the operation which took it is counted as a pin: `count` more of them, or
 * none. False: as many lines as may be are pinned; half of the overflow pool is left for those that an operation needs.
 */
G4_FN bool g4_cache_pin(struct g4_cache *cache, uint32_t count);
/* Counts pins out whose lines are back or never came. */
G4_FN void g4_cache_unpin_none(struct g4_cache *cache, uint32_t count);
/* Leader. Counts a pin out and puts its line back. */
G4_FN void g4_cache_unpin(struct g4_cache *cache, uint32_t line);

/* Adds to a number that others only read: on a GPU without waiting for its value, and correctly where they add as well. */
G4_FN G4_INLINE void g4_cache_count_up(uint64_t *count, uint64_t by)
{
#if G4_CUDA
	g4_add64_rlx(count, by);
#else
	g4_store64_rlx(count, g4_load64_rlx(count) + by);
#endif
}
/* Leader. Counts pages that were wanted and found, or had to come from a device: holes and new pages do not. */
G4_FN G4_INLINE void g4_cache_count(const struct g4_wg *wg, struct g4_cache *cache, enum g4_cache_kind kind,
				    uint64_t hits, uint64_t misses)
{
	struct g4_cache_tally *tally = &cache->tallies[g4_wg_place(wg) % G4_CACHE_TALLIES];

	if (hits > 0)
		g4_cache_count_up(&tally->hits[kind], hits);
	if (misses > 0)
		g4_cache_count_up(&tally->misses[kind], misses);
}
/* Leader. A wanted page got no line. */
G4_FN G4_INLINE void g4_cache_count_without(const struct g4_wg *wg, struct g4_cache *cache, enum g4_cache_kind kind)
{
	g4_cache_count_up(&cache->tallies[g4_wg_place(wg) % G4_CACHE_TALLIES].without[kind], 1);
}
/* Leader. A page of a file got one when others had given theirs back: mostly, had been written back. */
G4_FN G4_INLINE void g4_cache_count_waited(const struct g4_wg *wg, struct g4_cache *cache)
{
	g4_cache_count_up(&cache->tallies[g4_wg_place(wg) % G4_CACHE_TALLIES].waited, 1);
}
/* Per-lane, thread-safe. Lanes have found so many pages. place: any number, better not the same one everywhere. */
G4_FN G4_INLINE void g4_cache_count_peeked(struct g4_cache *cache, uint32_t place, uint32_t pages)
{
	g4_add64_rlx(&cache->tallies[place % G4_CACHE_TALLIES].peeked, pages);
}
/* Thread-safe: what has been counted so far. */
G4_FN void g4_cache_count_all(const struct g4_cache *cache, struct g4_cache_counts *counts);

/*
 * Leader. Pages from `first` on, at most `count`, of which no line is there, neither valid nor being filled; lines that
 * come meanwhile may be missed, unless the caller's locks keep them away. All lanes look.
 */
G4_FN uint64_t g4_cache_absent(struct g4_wg *wg, const struct g4_cache *cache, uint64_t owner, uint64_t first,
			       uint64_t count);
struct g4_cache_probe { /* what they share for it */
	const struct g4_cache *cache;
	uint64_t owner, first, count;
	uint64_t absent; /* the answer */
};
/* The region that it opens. Collective. */
G4_FN void g4_cache_probe_region(struct g4_wg *wg, void *args);

#endif
