/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounting. Memory is taken once, here: one mapping for everything the engine needs. The superblock is written outside
 * the journal, one copy after the other with a flush between, so that one of them is always whole.
 *
 * What a mount behind a clean unmount waits for, one after the other: both superblocks; the journal's header; the page at the log's head; the header written; the
 * root block, the first slab, its map and the descriptors together; the second superblock written through; the first one. Nothing
 * is committed before both say that it is mounted, so that a crash in between finds what the unmount left. Behind a crash the journal is replayed
 * before anything else is read, and its header written (journal/replay_host.c).
 */
#include "fs/mount_host.h"

#include "fs/cut_host.h"
#include "fs/levels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "base/move_host.h"
#include "data/dedup.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define ICACHE_MIN 4096u
#define ICACHE_MAX 32768u
#define LOOKUPS_PER_BUCKET 4u /* entries have one place each: room keeps names from pushing out one another */

static int fail(char *message, size_t bytes, int code, const char *what)
{
	snprintf(message, bytes, "%s: %s", what, g4_strerror(code));
	return code;
}

/* ------------------------------------------------------------------ superblock */

static int check_copy(const struct g4_superblock *sb, uint64_t address, uint64_t device_bytes)
{
	if (sb->header.magic != G4_BLOCK_MAGIC || sb->magic != G4_SUPERBLOCK_MAGIC)
		return -G4_E_SB_MAGIC;
	if (sb->version > G4_FORMAT_VERSION)
		return -G4_E_SB_VERSION;
	int rc = g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), g4_superblock_tag(sb));
	return rc < 0 ? rc : g4_superblock_validate(sb, device_bytes);
}

static int read_copy(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, struct g4_superblock *copy)
{
	int rc = g4_dev_read(wg, dev, address, copy, sizeof(*copy));

	return rc == 0 ? check_copy(copy, address, g4_dev_props(dev)->size_bytes) : rc;
}

/* Both, side by side, the second one where it is if the file system fills its device. */
static int read_both(struct g4_wg *wg, struct g4_dev *dev, uint64_t second, struct g4_superblock *copies,
		     int *second_rc)
{
	const uint64_t device_bytes = g4_dev_props(dev)->size_bytes;
	int rc = g4_dev_read_two(wg, dev, G4_SUPERBLOCK_ADDRESS, &copies[0], second, &copies[1], sizeof(copies[0]),
				 second_rc);

	if (*second_rc == 0)
		*second_rc = check_copy(&copies[1], second, device_bytes);
	return rc == 0 ? check_copy(&copies[0], G4_SUPERBLOCK_ADDRESS, device_bytes) : rc;
}

/* The second copy is for a first one that is gone or damaged, not for one that we do not understand. */
static bool is_lost(int rc)
{
	return rc < 0 && rc != -G4_E_SB_VERSION && rc != -G4_E_SB_FEATURE && rc != -G4_E_SB_TRUNCATED;
}

/* copies: room for both. The newer one counts: the other may be what a drive has kept from before. */
static int read_copies(struct g4_wg *wg, struct g4_dev *dev, struct g4_superblock *copies, bool *second)
{
	const uint64_t end = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	int second_rc;
	const int rc = read_both(wg, dev, end - G4_PAGE_BYTES, copies, &second_rc);

	if (rc < 0 && !is_lost(rc))
		return rc;
	if (rc == 0 && copies[0].size_bytes != end)
		second_rc = read_copy(wg, dev, copies[0].size_bytes - G4_PAGE_BYTES, &copies[1]);
	*second = second_rc == 0 && (rc < 0 || g4_superblock_is_newer(&copies[0], &copies[1]));
	return *second ? 0 : rc;
}

int g4_superblock_read(struct g4_wg *wg, struct g4_dev *dev, struct g4_superblock *out, bool *backup)
{
	struct g4_superblock *copies = NULL;

	*backup = false;
	if (g4_dev_props(dev)->size_bytes < 3 * G4_PAGE_BYTES)
		return -G4_E_SB_MAGIC;
	if (posix_memalign((void **)&copies, G4_PAGE_BYTES, 2 * sizeof(*copies)) != 0)
		return -G4_E_NOMEM;
	const int rc = read_copies(wg, dev, copies, backup);
	if (rc == 0)
		*out = copies[*backup];
	free(copies);
	return rc;
}

/*
 * The copy that was not read comes first: it may be damaged, so the other one stays whole until this one is. Its
 * generation is that of the newest transaction that is known to be home: callers set it where the log is empty.
 */
static int write_superblock_at(struct g4_wg *wg, struct g4_fs *fs, uint32_t first)
{
	const struct g4_address addresses[2] = {G4_SUPERBLOCK, g4_layout_backup(&fs->meta.layout)};
	struct g4_superblock *copy = NULL;
	int rc = 0;

	if (posix_memalign((void **)&copy, G4_PAGE_BYTES, sizeof(*copy)) != 0)
		return -G4_E_NOMEM;
	fs->super.written_ns = (uint64_t)g4_realtime_ns();
	g4_super_take_counts(fs);
	for (uint32_t i = 0; i < 2 && rc == 0; i++) {
		const struct g4_address address = addresses[first ^ i];
		*copy = fs->super;
		g4_block_seal(copy, G4_BLOCK_SUPERBLOCK, address, fs->super.header.generation, fs->meta.fs_tag);
		rc = g4_space_write(wg, &fs->space, address, copy, sizeof(*copy), G4_IO_FUA);
	}
	free(copy);
	return rc;
}

static int write_superblock(struct g4_wg *wg, struct g4_fs *fs)
{
	return write_superblock_at(wg, fs, fs->super_is_second ? 0 : 1);
}

/* ------------------------------------------------------------------ memory */

struct plan {
	uint32_t line_count, set_count, icache_count, bucket_count, txn_blocks;
	uint64_t log_pages, most_groups;
	uint64_t lines, frames, frame_numbers, sets, notes, icache, buckets, keys, lookup, journal, in_log, alloc,
		scrub, bounce, bounce_notes, dedup, tier, tier_frames, origins, kept;
	uint64_t dedup_bytes; /* that the table of contents may take */
	uint64_t tier_bytes;  /* of pages by device address */
	bool victims;	      /* that the page cache gives up: among them */
	uint32_t bounces;     /* bounce buffers */
	uint64_t kept_bytes;  /* of parts of stripes */
	uint64_t total;
};

static uint64_t lay_out(uint64_t *total, uint64_t bytes)
{
	uint64_t at = g4_align_up(*total, G4_PAGE_BYTES);
	*total = at + bytes;
	return at;
}

/*
 * Memory of the table of contents. On a processor what is not used takes none; where all of it is copied to a device, an image has to
 * have been told to deduplicate before the mount.
 */
static uint64_t dedup_bytes(const struct g4_superblock *sb, const struct g4_fs_options *options)
{
	const uint64_t needs = G4_FEATURE_INCOMPAT_SUMS | G4_FEATURE_INCOMPAT_LISTED;

	if ((options->flags & G4_FS_READ_ONLY) || options->no_replay)
		return 0;
	if (options->frames_fixed && (sb->features_incompat & needs) != needs)
		return 0;
	return options->dedup_bytes ? options->dedup_bytes : g4_max64(options->cache_bytes / 16, G4_MIB);
}

#define BOUNCE_BYTES (G4_BOUNCE_PAGES * G4_PAGE_BYTES)

/* Where hundreds of workgroups write: an eighth of the cache at most. */
static uint32_t bounce_buffers(const struct g4_fs_options *options)
{
	const uint64_t room = g4_align_down(options->cache_bytes / 8 / BOUNCE_BYTES, 32);

	return options->frames_fixed ? (uint32_t)g4_max64(G4_BOUNCE_BUFFERS, g4_min64(room, G4_BOUNCE_BUFFERS_MOST)) :
				       G4_BOUNCE_BUFFERS;
}

static void plan_memory(const struct g4_layout *layout, const struct g4_fs_options *options, bool bounces,
			struct plan *plan)
{
	plan->line_count = (uint32_t)g4_cache_lines_for(options->cache_bytes);
	plan->set_count = g4_cache_sets_for(plan->line_count);
	const uint64_t most = options->most_inodes ? g4_min64(options->most_inodes, G4_LOOKUP_INDEXES) : ICACHE_MAX;
	plan->icache_count = (uint32_t)g4_max64(ICACHE_MIN, g4_min64(plan->line_count, most));
	for (plan->bucket_count = 1; plan->bucket_count < plan->icache_count; plan->bucket_count *= 2)
		;
	plan->log_pages = g4_layout_log_pages(layout);
	plan->total = g4_align_up(sizeof(struct g4_fs), G4_PAGE_BYTES);
	plan->lines = lay_out(&plan->total, plan->line_count * sizeof(struct g4_line));
	plan->frames = lay_out(&plan->total, plan->line_count * G4_PAGE_BYTES);
	plan->frame_numbers = lay_out(&plan->total, plan->line_count * sizeof(uint32_t));
	plan->sets = lay_out(&plan->total, plan->set_count * sizeof(struct g4_cache_set));
	plan->notes = lay_out(&plan->total, plan->line_count * sizeof(struct g4_note));
	plan->icache = lay_out(&plan->total, plan->icache_count * sizeof(struct g4_inode_core));
	plan->buckets = lay_out(&plan->total, plan->bucket_count * sizeof(uint32_t));
	plan->keys =
		lay_out(&plan->total, (uint64_t)plan->bucket_count * G4_ICACHE_KEYS * sizeof(struct g4_icache_key));
	plan->lookup = lay_out(&plan->total, LOOKUPS_PER_BUCKET * plan->bucket_count * sizeof(struct g4_lookup_entry));
	plan->journal =
		lay_out(&plan->total, g4_journal_memory(plan->log_pages, plan->line_count, options->most_txn_blocks));
	plan->in_log = lay_out(&plan->total, plan->log_pages * sizeof(struct g4_in_log));
	plan->most_groups = options->may_grow ? g4_layout_room(layout) : layout->group_count;
	plan->alloc = lay_out(&plan->total, g4_alloc_memory(plan->most_groups));
	plan->dedup = lay_out(&plan->total, g4_ddt_memory(plan->dedup_bytes));
	plan->scrub = lay_out(&plan->total, (bounces ? G4_SCRUB_BUFFERS : 1) * G4_SCRUB_PAGES * G4_PAGE_BYTES);
	plan->tier_bytes = bounces ? options->tier_bytes : 0;
	plan->tier = lay_out(&plan->total, g4_tier_memory(plan->tier_bytes));
	plan->tier_frames = lay_out(&plan->total, options->tier_frames ? 0 : g4_tier_frames(plan->tier_bytes));
	/* pages of a larger cache would go out of a smaller tier before they are asked for again, and take neighbours with them */
	plan->victims = g4_tier_memory(plan->tier_bytes) > 0 &&
			(options->tier_frames || plan->tier_bytes >= plan->line_count * G4_PAGE_BYTES);
	plan->origins = lay_out(&plan->total, plan->victims ? plan->line_count * sizeof(struct g4_origin) : 0);
	/* also for what is looked for before it is stored, wherever that is (data/bounce_stage.c) */
	plan->bounces = bounces || plan->dedup_bytes > 0 ? bounce_buffers(options) : 0;
	plan->bounce = lay_out(&plan->total, (uint64_t)plan->bounces * BOUNCE_BYTES);
	plan->bounce_notes =
		lay_out(&plan->total, plan->dedup_bytes > 0 ? (uint64_t)plan->bounces * G4_BOUNCE_NOTE_BYTES : 0);
	plan->kept = lay_out(&plan->total, plan->kept_bytes);
}

static void free_memory(struct g4_fs *fs)
{
	g4_memory_unmap(fs, fs->memory_bytes);
}

static void init_icache(struct g4_fs *fs, uint8_t *memory, const struct plan *plan)
{
	fs->icache.inodes = (struct g4_inode_core *)(memory + plan->icache);
	fs->icache.count = plan->icache_count;
	fs->icache.buckets = (uint32_t *)(memory + plan->buckets);
	fs->icache.bucket_mask = plan->bucket_count - 1;
	fs->icache.keys = (struct g4_icache_key *)(memory + plan->keys);
	memset(fs->icache.buckets, 0xff, plan->bucket_count * sizeof(uint32_t));
	fs->lookup.entries = (struct g4_lookup_entry *)(memory + plan->lookup);
	fs->lookup.mask = LOOKUPS_PER_BUCKET * plan->bucket_count - 1;
	fs->root_index = G4_NO_INODE;
	fs->orphan_head = G4_NO_INODE;
	fs->dirty_first = fs->dirty_last = G4_NO_INODE;
}

static uint32_t scratch_for(const struct g4_fs *fs)
{
	const bool sums = !(fs->flags & G4_FS_READ_ONLY) || (fs->super.features_incompat & G4_FEATURE_INCOMPAT_SUMS);

	return G4_LEAST_SCRATCH_BYTES + (sums ? G4_SUMS_SCRATCH_BYTES : 0) +
	       (g4_space_copies(&fs->space) > 1 ? G4_COPIES_SCRATCH_BYTES : 0) +
	       (g4_tier_is_used(&fs->space.tier) ? G4_TIER_SCRATCH_BYTES : 0) +
	       (g4_space_versions(&fs->space) > g4_space_copies(&fs->space) ? G4_COLUMNS_SCRATCH_BYTES : 0);
}

/* Whether it may be a set with parity whose disks are memory. */
static bool keeps_parts(const struct g4_dev *dev)
{
	const struct g4_dev_props *props = g4_dev_props(dev);

	return props->disks > 0 && props->remakes > 0;
}

static struct g4_fs *build(struct g4_dev *dev, const struct g4_superblock *sb, const struct g4_fs_options *options,
			   struct plan *plan)
{
	struct g4_layout layout;
	uint64_t secret[4];
	uint8_t *memory;

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return NULL;
	g4_layout_of(sb, &layout);
	const bool bounces = !g4_dev_props(dev)->mapped;
	plan->dedup_bytes = dedup_bytes(sb, options);
	plan->kept_bytes = keeps_parts(dev) ? G4_KEPT_BYTES : 0;
	plan_memory(&layout, options, bounces, plan);
	memory = (uint8_t *)g4_memory_map(plan->total);
	if (!memory)
		return NULL;
	struct g4_fs *fs = (struct g4_fs *)memory;
	fs->memory_bytes = plan->total;
	plan->txn_blocks = options->most_txn_blocks;
	fs->super = *sb;
	fs->flags = options->flags | (options->no_replay ? G4_FS_READ_ONLY : 0);
	memcpy(fs->hash_key, sb->hash_key, sizeof(fs->hash_key));
	memcpy(fs->name_secret, secret, sizeof(fs->name_secret));
	g4_space_init(&fs->space, dev);
	g4_space_set_kept(&fs->space, memory + plan->kept, plan->kept_bytes);
	g4_tier_init(&fs->space.tier, memory + plan->tier,
		     options->tier_frames ? options->tier_frames : memory + plan->tier_frames, plan->tier_bytes);
	fs->space.tier.frames_apart = options->tier_frames != NULL;
	fs->space.tier.victims = plan->victims;
	g4_cache_init(&fs->cache, (struct g4_line *)(memory + plan->lines), memory + plan->frames,
		      options->frames_fixed ? NULL : (uint32_t *)(memory + plan->frame_numbers),
		      (struct g4_cache_set *)(memory + plan->sets), (struct g4_note *)(memory + plan->notes),
		      plan->line_count);
	if (plan->victims)
		g4_cache_set_tier(&fs->cache, &fs->space.tier, (struct g4_origin *)(memory + plan->origins));
	if (fs->cache.frame_numbers)
		g4_memory_small_pages(memory + plan->frames + (uint64_t)fs->cache.alone_first * G4_PAGE_BYTES,
				      (uint64_t)(plan->line_count - fs->cache.alone_first) * G4_PAGE_BYTES);
	fs->dirty_limit = plan->line_count / 3;
	fs->meta.cache = &fs->cache;
	fs->meta.space = &fs->space;
	fs->meta.layout = layout;
	fs->meta.fs_tag = g4_superblock_tag(sb);
	fs->first_generation = (uint32_t)g4_realtime_ns();
	init_icache(fs, memory, plan);
	g4_ddt_init(&fs->ddt, memory + plan->dedup, plan->dedup_bytes);
	fs->jobs.scrub.pages = memory + plan->scrub;
	fs->bounce.memory = plan->bounces ? memory + plan->bounce : NULL;
	fs->bounce.notes = plan->bounces && plan->dedup_bytes > 0 ? memory + plan->bounce_notes : NULL;
	fs->bounce.count = plan->bounces;
	fs->jobs.scrub.dir = fs->jobs.scrub.file = G4_NO_INODE;
	fs->scratch_bytes = scratch_for(fs);
	return fs;
}

/* ------------------------------------------------------------------ mount */

/* how: whether anything may be written, and whether what the journal holds counts. */
enum recovery { REPLAY, REPLAY_IN_MEMORY, NO_REPLAY };

static int replay(struct g4_wg *wg, struct g4_fs *fs, const struct plan *plan, enum recovery how)
{
	static const uint32_t flags[] = {G4_REPLAY_WRITE, 0, G4_REPLAY_UP_TO_GAP}; /* by enum recovery */
	struct g4_replay replayed;
	int rc = g4_journal_replay(wg, &fs->meta, &fs->super, flags[how], &replayed);

	if (rc == 0 && how == REPLAY_IN_MEMORY && replayed.in_log) { /* no more than the log has pages */
		fs->meta.in_log = (struct g4_in_log *)((uint8_t *)fs + plan->in_log);
		fs->meta.in_log_count = (uint32_t)replayed.blocks;
		memcpy(fs->meta.in_log, replayed.in_log, replayed.blocks * sizeof(struct g4_in_log));
	}
	free(replayed.in_log);
	if (rc < 0)
		return rc;
	if (!(fs->flags & G4_FS_READ_ONLY)) {
		rc = g4_journal_skip(wg, &fs->meta, &replayed);
		if (rc < 0)
			return rc;
	}
	g4_journal_init(&fs->journal, &fs->meta, (uint8_t *)fs + plan->journal, g4_layout_journal(&fs->meta.layout),
			plan->log_pages, replayed.head_page, replayed.next_sequence, plan->txn_blocks);
	return 0;
}

/*
 * A resize that did not come to its end (resize.c): the root block has the size if it was committed. Then what was built for
 * the old one is of no use: -G4_E_AGAIN.
 */
static int finish_resize(struct g4_wg *wg, struct g4_fs *fs, bool can_write)
{
	const uint64_t old = fs->super.size_bytes;
	uint32_t line;

	if (!(fs->super.features_incompat & G4_FEATURE_INCOMPAT_RESIZING))
		return 0;
	int rc = g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, &line);
	if (rc < 0)
		return rc;
	const uint64_t bytes = ((const struct g4_root *)g4_line_data(&fs->cache, line))->size_bytes;
	g4_cache_put(&fs->cache, line);
	const bool changed = bytes != 0 && bytes != old;
	if (!can_write)
		return changed ? -G4_E_DEV_READONLY : 0;
	fs->super.features_incompat &= ~G4_FEATURE_INCOMPAT_RESIZING;
	if (changed) {
		if (bytes > g4_space_bytes(&fs->space))
			return -G4_E_SB_TRUNCATED;
		rc = g4_superblock_resize(&fs->super, bytes);
		g4_layout_of(&fs->super, &fs->meta.layout);
	}
	fs->super.header.generation = fs->journal.durable;
	if (rc == 0) /* of a set the first one says where the second is (resize.c) */
		rc = changed && (fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS) ?
			     write_superblock_at(wg, fs, 0) :
			     write_superblock(wg, fs);
	return rc == 0 && changed ? -G4_E_AGAIN : rc;
}

static int find_root(struct g4_wg *wg, struct g4_fs *fs, uint64_t *orphan)
{
	uint32_t line;
	int rc = g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, &line);

	if (rc < 0)
		return rc;
	const struct g4_root *root = (const struct g4_root *)g4_line_data(&fs->cache, line);
	uint64_t ino = root->root_inode;
	*orphan = root->orphan_head;
	g4_cache_put(&fs->cache, line);
	rc = ino == G4_NODE_ROOT ? -G4_E_CORRUPT_INODE : g4_icache_get(wg, fs, ino, &fs->root_index);
	if (rc == 0 && !g4_is_dir(g4_icache_at(fs, fs->root_index)->disk.mode))
		rc = -G4_E_CORRUPT_INODE;
	return rc == -G4_E_STALE ? -G4_E_CORRUPT_INODE : rc;
}

static void tell_of_left(uint32_t count)
{
	if (count > 0)
		g4_log(G4_LOG_WARN,
		       "space of removed files (%" PRIu32
		       ") stays in use: the device does not give what leads to it; a mount that can read that frees it, or "
		       "fsck.gpu4fs",
		       count);
}

/* Removed, or a file that shrinks: of a directory or of contents in the inode a truncation would free what is in use. */
static bool may_be_orphan(const struct g4_inode *inode)
{
	if (!(inode->flags & G4_INODE_ORPHAN))
		return false;
	return inode->nlink == 0 || (g4_is_reg(inode->mode) && !(inode->flags & G4_INODE_INLINE));
}

/*
 * Deletes, or finishes cutting and moving, what is on the orphan list, one after the other, so that any number of them needs one
 * in-core inode. In memory the list is each of them behind those that could not go; one that leads back to itself ends at an inode that is gone,
 * or that is on the list in memory already.
 */
static int finish_orphans(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino)
{
	uint32_t last = G4_NO_INODE, left = 0; /* of those that could not go */
	int rc = 0;

	while (ino && rc == 0) {
		uint32_t i;

		rc = g4_icache_get(wg, fs, ino, &i);
		if (rc < 0)
			return rc == -G4_E_STALE ? -G4_E_CORRUPT_INODE : rc;
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		ino = inode->disk.orphan_next;
		if (!may_be_orphan(&inode->disk) || i == last || inode->orphan_prev != G4_NO_INODE ||
		    inode->orphan_next != G4_NO_INODE) {
			g4_icache_put(fs, i);
			return -G4_E_CORRUPT_INODE;
		}
		inode->orphan_prev = last;
		*(last == G4_NO_INODE ? &fs->orphan_head : &g4_icache_at(fs, last)->orphan_next) = i;
		g4_icache_ref(fs, i); /* the list's */
		if (inode->disk.nlink == 0) {
			rc = g4_inode_delete(wg, fs, i);
		} else {
			g4_write_lock(&inode->lock);
			if (inode->disk.flags & G4_INODE_GAP)
				rc = g4_file_close_gap(wg, fs, i);
			else
				rc = g4_file_cut(wg, fs, i);
			g4_write_unlock(&inode->lock);
		}
		if (rc == 0 && (inode->disk.flags & G4_INODE_ORPHAN) && !inode->dead) {
			last = i;
			left++;
		}
		g4_icache_put(fs, i);
	}
	tell_of_left(left);
	return rc;
}

/*
 * What the rest of a mount asks for and the layout tells: descriptors, the root block, the first slab, where mkfs has put the root directory, and
 * the map that says whether it is in use. Without this each would wait for the one before it.
 */
static void read_together(struct g4_wg *wg, struct g4_fs *fs)
{
	const struct g4_layout *layout = &fs->meta.layout;
	struct g4_meta_wanted wanted[G4_META_TOGETHER] = {
		{g4_layout_root(layout), G4_BLOCK_ROOT},
		{g4_layout_data(layout), G4_BLOCK_SLAB},
		{g4_layout_map_page(layout, 0), G4_BLOCK_ALLOC},
	};
	uint32_t count = 3;

	for (uint64_t first = 0; first < layout->group_count && count < G4_META_TOGETHER; first += G4_GROUPS_PER_PAGE)
		wanted[count++] = (struct g4_meta_wanted){g4_layout_groups_page(layout, first), G4_BLOCK_GROUPS};
	g4_meta_read_together(wg, &fs->meta, wanted, count);
}

static int mark_mounted(struct g4_wg *wg, struct g4_fs *fs)
{
	fs->super.state = (fs->super.state & G4_STATE_ERROR) | G4_STATE_MOUNTED;
	/* what was told to deduplicate before there were listed pages, or buffered owners */
	if (g4_policy_dedup(0, fs->super.policy) && (fs->super.features_incompat & G4_FEATURE_INCOMPAT_SHARED))
		fs->super.features_incompat |= G4_FEATURES_DEDUP;
	fs->super.mounted_ns = (uint64_t)g4_realtime_ns();
	fs->super.mount_count++;
	fs->super.header.generation = fs->journal.durable;
	g4_super_apply_features(fs);
	return write_superblock(wg, fs);
}

static const char finishing_deletions[] = "finishing deletions";

static int bring_up(struct g4_wg *wg, struct g4_fs *fs, const struct plan *plan, enum recovery how, const char **what)
{
	bool read_only = fs->flags & G4_FS_READ_ONLY;
	uint64_t orphan = 0;
	int rc;

	*what = "replaying the journal";
	rc = replay(wg, fs, plan, how);
	if (rc == 0)
		read_together(wg, fs);
	if (rc == 0 && how != NO_REPLAY)
		rc = finish_resize(wg, fs, how == REPLAY);
	if (rc == 0) {
		*what = "reading the allocation maps";
		rc = g4_alloc_init(wg, &fs->alloc, &fs->journal, (uint8_t *)fs + plan->alloc, plan->most_groups);
	}
	if (rc == 0) {
		g4_super_apply_features(fs);
		rc = g4_levels_apply(wg, fs, 0);
	}
	if (rc == 0) {
		*what = "reading the root directory";
		rc = find_root(wg, fs, &orphan);
	}
	if (rc == 0)
		rc = g4_jobs_load(wg, fs);
	if (rc == 0 && !read_only) {
		*what = "writing the superblock";
		rc = mark_mounted(wg, fs);
	}
	if (rc == 0 && !read_only) {
		*what = finishing_deletions;
		fs->loads_orphans = true;
		rc = finish_orphans(wg, fs, orphan);
		fs->loads_orphans = false;
		if (rc < 0 && g4_load32_acq(&fs->journal.aborted))
			rc = -(int)g4_load32_acq(&fs->journal.aborted); /* what stopped it */
	}
	return rc;
}

/* What is known of rows: the journal as it counts and the maps as they are with it. Nothing is written. */
static int judge(struct g4_wg *wg, struct g4_fs *fs, const struct plan *plan, struct g4_replay *replayed,
		 const char **what)
{
	int rc = g4_journal_replay(wg, &fs->meta, &fs->super, G4_REPLAY_JUDGE, replayed);

	*what = "replaying the journal";
	if (rc < 0)
		return rc;
	*what = "reading the allocation maps";
	fs->meta.in_log = replayed->in_log;
	fs->meta.in_log_count = replayed->in_log ? (uint32_t)replayed->blocks : 0;
	g4_journal_init(&fs->journal, &fs->meta, (uint8_t *)fs + plan->journal, g4_layout_journal(&fs->meta.layout),
			plan->log_pages, replayed->head_page, replayed->next_sequence, plan->txn_blocks);
	return g4_alloc_init(wg, &fs->alloc, &fs->journal, (uint8_t *)fs + plan->alloc, plan->most_groups);
}

/* Rows of which `asked` pages have to be known, and all others, by one look at the journal: the same counts for all of them. */
static int tell_of_cut(struct g4_wg *wg, struct g4_dev *dev, struct g4_fs *fs, const struct plan *plan, uint64_t asked,
		       const char **what)
{
	struct g4_replay replayed = {0};
	int rc = judge(wg, fs, plan, &replayed, what);

	while (rc == 0 && asked > 0) {
		*what = "completing what was being written";
		rc = g4_cut_tell(wg, &fs->space, &fs->alloc, &replayed, asked);
		if (rc == 0)
			rc = g4_cut_next(wg, dev, &asked);
	}
	free(replayed.in_log);
	free(replayed.data);
	return rc;
}

/*
 * Rows of the device that a crash has cut short are completed, before the journal is replayed. Where that can not be judged, or memory is short, the mount is refused with rows as
 * they are: what has rotted in them may be all that is wrong. Nothing can be told in the middle of a resize, for there are two layouts.
 */
static int complete_cut(struct g4_wg *wg, struct g4_dev *dev, const struct g4_superblock *sb,
			const struct g4_fs_options *options, const char **what)
{
	struct plan plan;
	uint64_t asked;
	int rc = g4_cut_next(wg, dev, &asked);

	*what = "completing what was being written";
	if (rc < 0 || asked == 0)
		return rc;
	if (sb->features_incompat & G4_FEATURE_INCOMPAT_RESIZING)
		return g4_cut_end(wg, dev);
	struct g4_fs *fs = build(dev, sb, options, &plan);
	if (!fs)
		return -G4_E_NOMEM;
	rc = tell_of_cut(wg, dev, fs, &plan, asked, what);
	free_memory(fs);
	return rc;
}

#define SETTLE_CACHE_BYTES (8 * G4_MIB)

int g4_fs_settle_rows(struct g4_dev *dev)
{
	const struct g4_fs_options options = {.flags = G4_FS_READ_ONLY, .cache_bytes = SETTLE_CACHE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_superblock sb;
	const char *what;
	bool second;

	if (!wg)
		return -G4_E_NOMEM;
	int rc = g4_superblock_read(wg, dev, &sb, &second);
	if (rc == 0)
		rc = complete_cut(wg, dev, &sb, &options, &what);
	if (rc < 0 && rc != -G4_E_NOMEM)
		rc = g4_cut_end(wg, dev);
	g4_wg_destroy(wg);
	return rc == -G4_E_NOTSUP ? 0 : rc;
}

int g4_fs_open_unused(const char *const *names, uint32_t count, bool degraded, struct g4_dev **dev, char *message,
		      size_t message_bytes)
{
	const struct g4_set_options options = {
		.open = {.flags = G4_DEV_EXCLUSIVE, .queues = 1}, .degraded = degraded, .mounts = true};
	int rc = g4_set_open(names, count, &options, dev, message, message_bytes);

	if (rc < 0)
		return rc;
	rc = g4_fs_settle_rows(*dev);
	if (rc < 0) {
		snprintf(message, message_bytes, "%s: %s", names[0], g4_strerror(rc));
		g4_dev_close(*dev);
		*dev = NULL;
	}
	return rc;
}

/* The superblock was read. flags: of the mount, which may be less than what was asked for. */
static int try_mount(struct g4_wg *wg, struct g4_dev *dev, const struct g4_superblock *sb, bool second, uint32_t flags,
		     const struct g4_fs_options *options, enum recovery how, struct g4_fs **out, const char **what)
{
	struct g4_fs_options used = *options;
	struct plan plan;

	used.flags = flags;
	*what = "taking memory";
	struct g4_fs *fs = build(dev, sb, &used, &plan);
	if (!fs)
		return -G4_E_NOMEM;
	fs->super_is_second = second;
	int rc = bring_up(wg, fs, &plan, how, what);
	if (rc < 0) {
		free_memory(fs);
		return rc;
	}
	g4_space_open(wg, &fs->space);
	*out = fs;
	return 0;
}

static int mount_once(struct g4_wg *wg, struct g4_dev *dev, const struct g4_fs_options *options, struct g4_fs **out,
		      char *message, size_t message_bytes)
{
	const bool can_write = !g4_dev_props(dev)->read_only;
	uint32_t flags = options->flags;
	struct g4_superblock sb;
	const char *what, *ignored;
	bool second;
	int rc = g4_superblock_read(wg, dev, &sb, &second);

	if (rc < 0)
		return fail(message, message_bytes, rc, "cannot mount");
	if (sb.disk_count != g4_max64(g4_dev_props(dev)->disks, 1))
		return fail(message, message_bytes, -G4_E_SB_DISKS, "cannot mount");
	if (!can_write && !(flags & G4_FS_READ_ONLY) && !options->no_replay)
		return fail(message, message_bytes, -G4_E_DEV_READONLY, "cannot mount for writing; use -o ro");
	if ((sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) &&
	    (sb.features_incompat & G4_FEATURES_REFLINK) != G4_FEATURES_REFLINK && !(flags & G4_FS_READ_ONLY) &&
	    !options->no_replay)
		return fail(message, message_bytes, -G4_E_ROFS,
			    "cannot mount for writing what shares maps, but not their pages of sums; use -o ro");
	if (sb.features_ro_compat & ~G4_FEATURES_RO_COMPAT)
		flags |= G4_FS_READ_ONLY;
	/* a read-only mount of a writable device replays, as every journaling file system does */
	const enum recovery how = options->no_replay ? NO_REPLAY : can_write ? REPLAY : REPLAY_IN_MEMORY;
	rc = how == REPLAY ? complete_cut(wg, dev, &sb, options, &what) : 0;
	if (rc < 0) {
		snprintf(message, message_bytes, "cannot mount: %s: %s", what, g4_strerror(rc));
		return rc;
	}
	rc = try_mount(wg, dev, &sb, second, flags, options, how, out, &what);
	if (rc == -G4_E_NOSPC && how == REPLAY &&
	    try_mount(wg, dev, &sb, second, flags | G4_FS_READ_ONLY, options, REPLAY_IN_MEMORY, out, &ignored) == 0) {
		g4_log(G4_LOG_WARN,
		       "mounted read-only: there was no room for %s; if the image is a sparse file, the file system that "
		       "it lies in is full",
		       what);
		return 0;
	}
	/* a file that was being cut, or moved, and can not be: nobody may make it longer */
	if (rc == -G4_E_IO && what == finishing_deletions && how == REPLAY &&
	    try_mount(wg, dev, &sb, second, flags | G4_FS_READ_ONLY, options, REPLAY_IN_MEMORY, out, &ignored) == 0) {
		g4_log(G4_LOG_WARN,
		       "mounted read-only: the device does not give what is needed for %s; run fsck.gpu4fs", what);
		return 0;
	}
	if (rc < 0 && rc != -G4_E_AGAIN)
		snprintf(message, message_bytes, "cannot mount: %s: %s", what, g4_strerror(rc));
	return rc;
}

int g4_fs_mount(struct g4_wg *wg, struct g4_dev *dev, const struct g4_fs_options *options, struct g4_fs **out,
		char *message, size_t message_bytes)
{
	int rc = mount_once(wg, dev, options, out, message, message_bytes);

	/* a resize was brought to its end: the superblock that was read is an old one */
	return rc == -G4_E_AGAIN ? mount_once(wg, dev, options, out, message, message_bytes) : rc;
}

void g4_fs_touch(struct g4_fs *fs)
{
	const uint64_t buckets = (uint64_t)fs->icache.bucket_mask + 1;

	g4_memory_touch(fs->lookup.entries, ((uint64_t)fs->lookup.mask + 1) * sizeof(struct g4_lookup_entry));
	g4_memory_touch(fs->icache.keys, buckets * G4_ICACHE_KEYS * sizeof(struct g4_icache_key));
}

/* Nobody uses the file system any more: removed files that were open or held go now. */
static int delete_orphans(struct g4_wg *wg, struct g4_fs *fs)
{
	uint32_t left = 0;
	int rc = 0;

	for (uint32_t i = fs->orphan_head, next; rc == 0 && i != G4_NO_INODE; i = next) {
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		next = inode->orphan_next;
		g4_icache_ref(fs, i);
		inode->opens = 0;
		inode->held = false;
		rc = inode->disk.nlink == 0 ? g4_inode_delete(wg, fs, i) : -G4_E_CORRUPT_INODE;
		left += rc == 0 && !inode->dead;
		g4_icache_put(fs, i);
	}
	tell_of_left(left);
	return rc;
}

/* Nobody makes anything any more: slabs that were being filled and are empty become free space. */
static int end_slabs(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_txn txn;
	int rc = 0;

	for (uint32_t s = 0; s < G4_ALLOC_SHARDS; s++) {
		for (uint32_t kind = 1; kind <= 2 && rc == 0; kind++) {
			if (fs->alloc.shards[s].slab[kind - 1] == 0)
				continue;
			rc = g4_begin(wg, fs, 2 * G4_ALLOC_CREDITS, &txn);
			if (rc == 0)
				rc = g4_end(fs, &txn, g4_slab_end(wg, &fs->alloc, &txn, s, kind));
		}
	}
	return rc;
}

int g4_fs_unmount(struct g4_wg *wg, struct g4_fs *fs, bool clean)
{
	int rc = 0;

	if (clean && !(fs->flags & G4_FS_READ_ONLY)) {
		if (!g4_load32_acq(&fs->journal.aborted)) {
			rc = delete_orphans(wg, fs);
			g4_dedup_finish(wg, fs);
		}
		if (rc == 0 && !g4_load32_acq(&fs->journal.aborted))
			rc = end_slabs(wg, fs);
		if (rc == 0 && !g4_load32_acq(&fs->journal.aborted))
			rc = g4_jobs_log(wg, fs);
		int synced = g4_sync_all(wg, fs, true);
		rc = rc < 0 ? rc : synced;
		if (rc == 0)
			g4_discard_freed(wg,
					 fs); /* a device that does not is no reason for an image that is not clean */
		if (rc == 0 && g4_load32_acq(&fs->journal.aborted))
			rc = -G4_E_SHUTDOWN;
		if (rc == 0) {
			fs->super.state = (fs->super.state & G4_STATE_ERROR) | G4_STATE_CLEAN;
			fs->super.header.generation = fs->journal.durable;
			rc = write_superblock(wg, fs);
		} else {
			fs->super.state |= G4_STATE_ERROR;
			write_superblock(wg, fs); /* best effort: the first error is what is reported */
		}
	}
	free_memory(fs);
	return rc;
}

void g4_fs_moved(struct g4_fs *fs, intptr_t by, struct g4_dev *dev)
{
	g4_space_moved(&fs->space, dev, by);
	g4_tier_moved(&fs->space.tier, by);
	g4_cache_moved(&fs->cache, by);
	G4_MOVE(fs->meta.cache, by);
	G4_MOVE(fs->meta.space, by);
	G4_MOVE(fs->meta.in_log, by);
	g4_journal_moved(&fs->journal, by);
	g4_alloc_moved(&fs->alloc, by);
	g4_ddt_moved(&fs->ddt, by);
	G4_MOVE(fs->icache.inodes, by);
	G4_MOVE(fs->icache.buckets, by);
	G4_MOVE(fs->icache.keys, by);
	G4_MOVE(fs->lookup.entries, by);
	G4_MOVE(fs->jobs.scrub.pages, by);
	if (fs->bounce.memory)
		G4_MOVE(fs->bounce.memory, by);
	if (fs->bounce.notes)
		G4_MOVE(fs->bounce.notes, by);
}
