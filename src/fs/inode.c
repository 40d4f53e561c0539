/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-core inodes: a fixed table, hashed by number, replaced by a clock. A core without references holds nothing that is
 * not in its slab, so it can be dropped at any time. The orphan list (inodes without a name that must not outlive the
 * mount) is linked on disk through the inodes and in memory both ways; crash at any line: the list and the inode's link
 * count change in one transaction.
 */
#include "fs/fs.h"

G4_FN static uint32_t bucket_of(const struct g4_cores *cores, uint64_t ino)
{
	return (uint32_t)((ino >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 40) & cores->bucket_mask;
}

G4_FN static struct g4_lock *bucket_lock(struct g4_cores *cores, uint32_t bucket)
{
	return &cores->locks[bucket % G4_CORE_LOCKS];
}

/*
 * References are counted without the bucket's lock: a reader that finds a number in a chain counts itself in and then
 * looks whether the core is still what it wanted. TAKEN in the count keeps it from one that is being given to another
 * inode: it is set in the same step that finds the count 0, and cleared when the core stands in its new chain.
 */

/* Bucket lock held. */
G4_FN static void unhash(struct g4_cores *cores, uint32_t i)
{
	uint32_t *at = &cores->buckets[bucket_of(cores, cores->core[i].ino)];

	while (*at != G4_NO_CORE && *at != i)
		at = &cores->core[*at].next;
	if (*at == i)
		g4_store32_rel(at, cores->core[i].next);
}

/* Makes an unused core ours; false when it is in use or was a moment ago. */
G4_FN static bool take_this(struct g4_cores *cores, uint32_t i)
{
	struct g4_core *core = &cores->core[i];

	if (g4_load32_rlx(&core->refs) != 0)
		return false;
	if (g4_load32_rlx(&core->state) == G4_CORE_FREE)
		return g4_cas32_acq(&core->refs, 0, G4_CORE_TAKEN | 1);
	if (g4_load32_rlx(&core->accessed)) {
		g4_store32_rel(&core->accessed, 0);
		return false;
	}
	if (!g4_cas32_acq(&core->refs, 0, G4_CORE_TAKEN | 1))
		return false;
	if (g4_load32_acq(&core->state) == G4_CORE_FREE)
		return true; /* given back meanwhile */
	struct g4_lock *lock = bucket_lock(cores, bucket_of(cores, core->ino));
	g4_lock(lock);
	unhash(cores, i);
	g4_unlock(lock);
	return true;
}

/* Takes an unused core out of the table, G4_CORE_TAKEN. All who look share the clock's hand. */
G4_FN static uint32_t take_core(struct g4_cores *cores)
{
	for (uint32_t step = 0; step < 3 * cores->count; step++) {
		uint32_t i = g4_add32_rlx(&cores->hand, 1) % cores->count;

		if (take_this(cores, i))
			return i;
	}
	return G4_NO_CORE;
}

/* Gives a taken core back that was not used. */
G4_FN static void untake_core(struct g4_cores *cores, uint32_t i)
{
	g4_store32_rel(&cores->core[i].state, G4_CORE_FREE);
	g4_next_version(&cores->core[i].lock); /* its inode may have changed in another core meanwhile */
	g4_sub32(&cores->core[i].refs, G4_CORE_TAKEN | 1);
}

/*
 * Of a core that is taken: the step that clears G4_CORE_TAKEN publishes all of this to those who look the number up, the second
 * version to those who glance.
 */
G4_FN static void reset_core(struct g4_core *core, uint64_t ino)
{
	struct g4_lock dirty_lock = core->dirty_lock;

	/* refs stays as it is: the clock looks at it; the locks' tickets go on */
	g4_next_version(&core->lock); /* after the step that took it */
	g4_fence_rel(); /* who glances at the core sees that it is another version before it sees anything of this */
	g4_store32_rlx(&core->state, G4_CORE_FREE);
	g4_store32_rlx(&core->accessed, 0);
	g4_zero16(&core->disk, (uint32_t)(sizeof(*core) - offsetof(struct g4_core, disk)));
	core->dirty_lock = dirty_lock;
	core->size = core->logged = 0;
	core->dirty_count = 0;
	core->dead = false;
	g4_store32_rlx(&core->next, G4_NO_CORE); /* readers may still come by */
	g4_store64_rlx(&core->ino, ino);
	core->dirty_head = core->dirty_tail = G4_NO_LINE;
	core->orphan_prev = core->orphan_next = G4_NO_CORE;
	core->dirty_prev = core->dirty_next = G4_NO_CORE;
	g4_next_version(&core->lock); /* and who glanced meanwhile, sees that this is over */
}

G4_FN static void insert_core(struct g4_cores *cores, uint32_t bucket, uint32_t i)
{
	g4_store32_rlx(&cores->core[i].next, cores->buckets[bucket]);
	g4_store32_rlx(&cores->buckets[bucket], i);
	g4_sub32_rel(&cores->core[i].refs, G4_CORE_TAKEN);
}

/*
 * Numbers of 62 bits and generations of 32 do not fit one word, so keys are numbers of their own, from 1 on (0 is metadata).
 * An inode that comes back into core gets the key that it had, as long as that is remembered: its pages may still be in
 * the cache. If it is forgotten, those are never found again, and the clock takes them.
 */
G4_FN uint64_t g4_core_key(struct g4_cores *cores, uint64_t ino, uint32_t generation, bool fresh)
{
	const uint32_t bucket = bucket_of(cores, ino);
	struct g4_core_key *keys = &cores->keys[bucket * G4_CORE_KEYS];
	uint64_t key = 0;
	uint32_t place = 0;

	g4_lock(bucket_lock(cores, bucket));
	while (place < G4_CORE_KEYS - 1 && (keys[place].ino != ino || keys[place].generation != generation))
		place++;
	if (!fresh && keys[place].ino == ino && keys[place].generation == generation)
		key = keys[place].key;
	if (key == 0)
		key = g4_add64(&cores->last_key, 1) + 1;
	for (; place > 0; place--)
		keys[place] = keys[place - 1];
	keys[0].ino = ino;
	keys[0].generation = generation;
	keys[0].key = key;
	g4_unlock(bucket_lock(cores, bucket));
	return key;
}

G4_FN static int load_core(struct g4_wg *wg, struct g4_fs *fs, struct g4_core *core)
{
	uint64_t address = g4_ptr_address(core->ino), page = g4_align_down(address, G4_PAGE_BYTES);
	uint32_t slot = (uint32_t)((address - page) / G4_SLAB_SLOT_BYTES), line;
	/* a slab that was freed may still lie there, valid to the last byte */
	int rc = g4_alloc_in_use(wg, &fs->alloc, page);

	if (rc <= 0)
		return rc < 0 ? rc : -G4_E_STALE;
	if (g4_slab_is_past(&fs->alloc, page))
		return -G4_E_STALE;
	rc = g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line);
	if (rc == -G4_E_TYPE || rc == -G4_E_CHECKSUM || rc == -G4_E_MISDIRECTED)
		return -G4_E_STALE; /* the page is no slab: the number is old or made up */
	if (rc < 0)
		return rc;
	const uint8_t *data = (const uint8_t *)g4_line_data(&fs->cache, line);
	const struct g4_slab_header *slab = (const struct g4_slab_header *)data;
	if (slab->kind != G4_SLAB_INODES || !(slab->used & (1u << slot))) {
		rc = -G4_E_STALE;
	} else {
		g4_copy16(&core->disk, data + address - page, sizeof(core->disk));
		/* mode 0: given to an inode that is not written yet, and that stands in the table already or is about to */
		rc = core->disk.mode == 0 ? -G4_E_STALE : g4_inode_validate(&core->disk, &fs->meta.layout);
	}
	g4_cache_put(&fs->cache, line);
	core->near = line;
	core->size = core->disk.size;
	core->data_key = g4_core_key(&fs->cores, core->ino, core->disk.generation, false);
	/* what changed it before it left the table may not be durable yet */
	core->logged = g4_load64_acq(&fs->journal.running);
	return rc;
}

/* Looks a number up and references its core. Bucket lock held, so that what is in the chain stays. */
G4_FN static uint32_t find_core(struct g4_cores *cores, uint32_t bucket, uint64_t ino)
{
	uint32_t i = cores->buckets[bucket];

	for (; i != G4_NO_CORE; i = cores->core[i].next) {
		if (cores->core[i].ino != ino)
			continue;
		if (!(g4_add32(&cores->core[i].refs, 1) & G4_CORE_TAKEN))
			break;
		g4_sub32(&cores->core[i].refs, 1); /* on its way out of the chain */
	}
	return i;
}

G4_FN G4_INLINE void drop_ref(struct g4_core *core)
{
	g4_sub32_rel(&core->refs, 1);
}

#define CHAIN_STEPS 16u /* chains that change underfoot may lead anywhere, but not for ever */

/*
 * References a core that may be the inode's; false: it is another's, or not to be told without the lock. Who gives it to an
 * inode takes it before, and sets the state with release order when the inode has come into it.
 */
G4_FN G4_INLINE bool ref_if(struct g4_core *core, uint64_t ino)
{
	if (!(g4_add32_acq(&core->refs, 1) & G4_CORE_TAKEN) && g4_load64_rlx(&core->ino) == ino &&
	    g4_load32_acq(&core->state) == G4_CORE_READY)
		return true;
	drop_ref(core);
	return false;
}

/* find_core() without the lock. G4_NO_CORE: not there, or not to be told. */
G4_FN static uint32_t find_unlocked(struct g4_cores *cores, uint32_t bucket, uint64_t ino)
{
	uint32_t i = g4_load32_rlx(&cores->buckets[bucket]);

	for (uint32_t step = 0; step < CHAIN_STEPS && i < cores->count; step++) {
		struct g4_core *core = &cores->core[i];

		if (g4_load64_rlx(&core->ino) == ino)
			return ref_if(core, ino) ? i : G4_NO_CORE;
		i = g4_load32_rlx(&core->next);
	}
	return G4_NO_CORE;
}

/* All lines of the core are on their way at once. */
G4_FN bool g4_core_ref_near(struct g4_fs *fs, uint64_t ino, uint32_t near)
{
	if (near >= fs->cores.count)
		return false;
	struct g4_core *core = g4_core_of(fs, near);
	for (uint32_t at = 64; at < G4_CORE_ATTRIBUTE_BYTES; at += 64)
		g4_prefetch((const uint8_t *)core + at);
	if (g4_load64_rlx(&core->ino) != ino || !ref_if(core, ino))
		return false;
	if (!g4_load32_rlx(&core->accessed))
		g4_store32_rel(&core->accessed, 1);
	return true;
}

G4_FN static int wait_loaded(struct g4_fs *fs, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	uint32_t state;

	while ((state = g4_load32_acq(&core->state)) == G4_CORE_LOADING)
		g4_wait(&core->state, state);
	if (state == G4_CORE_READY) {
		if (!g4_load32_rlx(&core->accessed))
			g4_store32_rel(&core->accessed, 1);
		return 0;
	}
	g4_core_put(fs, i);
	return -G4_E_STALE;
}

G4_FN static void set_state(struct g4_core *core, uint32_t state)
{
	g4_store32_rel(&core->state, state);
	g4_wake(&core->state);
}

/* Of an inode that was not found without the lock: it is there after all, or it is loaded. */
G4_FN G4_COLD static int get_locked(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t bucket, uint32_t *out)
{
	struct g4_cores *cores = &fs->cores;
	uint32_t i, fresh;

	if (!g4_ino_plausible(ino, &fs->meta.layout))
		return -G4_E_STALE;
	g4_lock(bucket_lock(cores, bucket));
	i = find_core(cores, bucket, ino);
	g4_unlock(bucket_lock(cores, bucket));
	if (i == G4_NO_CORE) {
		fresh = take_core(cores);
		if (fresh == G4_NO_CORE)
			return -G4_E_NFILE;
		g4_lock(bucket_lock(cores, bucket));
		i = find_core(cores, bucket, ino);
		if (i == G4_NO_CORE) {
			reset_core(&cores->core[fresh], ino);
			g4_store32_rel(&cores->core[fresh].state, G4_CORE_LOADING);
			insert_core(cores, bucket, fresh);
			g4_unlock(bucket_lock(cores, bucket));
			int rc = load_core(wg, fs, &cores->core[fresh]);
			if (rc < 0) {
				set_state(&cores->core[fresh], G4_CORE_FAILED);
				g4_core_discard(fs, fresh);
				return rc;
			}
			/* who glanced meanwhile may have seen the old half of it, and the new state */
			g4_next_version(&cores->core[fresh].lock);
			set_state(&cores->core[fresh], G4_CORE_READY);
			*out = fresh;
			return 0;
		}
		g4_unlock(bucket_lock(cores, bucket));
		untake_core(cores, fresh);
	}
	*out = i;
	return wait_loaded(fs, i);
}

G4_FN int g4_core_get_near(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t near, uint32_t *out)
{
	struct g4_cores *cores = &fs->cores;

	if (g4_core_ref_near(fs, ino, near)) {
		*out = near;
		return 0;
	}
	if (ino == G4_NODE_ROOT)
		ino = g4_core_of(fs, fs->root_core)->ino;
	const uint32_t bucket = bucket_of(cores, ino), i = find_unlocked(cores, bucket, ino);
	if (i == G4_NO_CORE)
		return get_locked(wg, fs, ino, bucket, out);
	if (!g4_load32_rlx(&cores->core[i].accessed))
		g4_store32_rel(&cores->core[i].accessed, 1);
	*out = i;
	return 0;
}

G4_FN int g4_core_get(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t *out)
{
	return g4_core_get_near(wg, fs, ino, G4_NO_CORE, out);
}

G4_FN uint32_t g4_core_place(const struct g4_fs *fs, uint64_t ino)
{
	const struct g4_cores *cores = &fs->cores;

	if (ino == G4_NODE_ROOT)
		return fs->root_core;
	uint32_t i = g4_load32_rlx(&cores->buckets[bucket_of(cores, ino)]);
	for (uint32_t step = 0; step < CHAIN_STEPS && i < cores->count; step++) {
		if (g4_load64_rlx(&cores->core[i].ino) == ino)
			return i;
		i = g4_load32_rlx(&cores->core[i].next);
	}
	return G4_NO_CORE;
}

G4_FN static int get_generation(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t generation, uint32_t *out)
{
	int rc = g4_core_get(wg, fs, ino, out);

	if (rc == 0 && generation != 0 && g4_core_of(fs, *out)->disk.generation != generation) {
		g4_core_put(fs, *out);
		return -G4_E_STALE;
	}
	return rc;
}

G4_FN int g4_core_of_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *out)
{
	return get_generation(wg, fs, cmd->node, (uint32_t)cmd->arg, out);
}

G4_FN int g4_core_of_node2(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *out)
{
	return get_generation(wg, fs, cmd->node2, (uint32_t)(cmd->arg >> 32), out);
}

G4_FN void g4_core_ref(struct g4_fs *fs, uint32_t i)
{
	g4_add32(&g4_core_of(fs, i)->refs, 1);
}

G4_FN void g4_core_discard(struct g4_fs *fs, uint32_t i)
{
	struct g4_cores *cores = &fs->cores;
	uint32_t bucket = bucket_of(cores, cores->core[i].ino);

	g4_lock(bucket_lock(cores, bucket));
	unhash(cores, i);
	g4_unlock(bucket_lock(cores, bucket));
	/* its number stays, so that a late unhash of the clock finds nothing; the clock reuses it without references */
	g4_core_put(fs, i);
}

/* ------------------------------------------------------------------ inodes on disk */

G4_FN int g4_inode_new(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t mode, uint32_t *out)
{
	struct g4_cores *cores = &fs->cores;
	uint64_t address, now = g4_now(fs);
	uint32_t i = take_core(cores), near;
	int rc;

	if (i == G4_NO_CORE)
		return -G4_E_NFILE;
	rc = g4_slab_alloc(wg, &fs->alloc, txn, G4_SLAB_INODES, &address, &near);
	if (rc < 0) {
		untake_core(cores, i);
		return rc;
	}
	struct g4_core *core = &cores->core[i];
	reset_core(core, g4_ino_make(address));
	core->near = near;
	core->disk.mode = (uint16_t)mode;
	core->disk.generation = g4_add32_rlx(&fs->next_generation, 1);
	core->disk.atime_ns = core->disk.mtime_ns = core->disk.ctime_ns = core->disk.btime_ns = now;
	core->data_key = g4_core_key(cores, core->ino, core->disk.generation, true);
	g4_write_lock(&core->lock);
	uint32_t bucket = bucket_of(cores, core->ino);
	g4_lock(bucket_lock(cores, bucket));
	g4_store32_rlx(&core->state, G4_CORE_READY);
	g4_store32_rlx(&core->accessed, 1);
	insert_core(cores, bucket, i);
	g4_unlock(bucket_lock(cores, bucket));
	*out = i;
	return 0;
}

G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_core *core)
{
	uint64_t address = g4_ptr_address(core->ino), page = g4_align_down(address, G4_PAGE_BYTES);
	uint32_t line;
	int rc = g4_meta_get_near(wg, &fs->meta, page, G4_BLOCK_SLAB, core->near, &line);
	bool orphan = core->disk.flags & G4_INODE_ORPHAN;

	if (rc < 0)
		return rc;
	core->near = line;
	g4_txn_dirty(txn, line);
	core->disk.change_count++;
	if (orphan)
		g4_lock(&fs->orphan_lock); /* a neighbour on the list may be changing our orphan_next */
	g4_copy16((uint8_t *)g4_line_data(&fs->cache, line) + (address - page), &core->disk, sizeof(core->disk));
	if (orphan)
		g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	if (g4_load32_rlx(&core->times_dirty))
		g4_store32_rel(&core->times_dirty, 0);
	core->logged = txn->sequence;
	return 0;
}

G4_FN static void put_back(struct g4_core *core, const struct g4_inode *before)
{
	const uint32_t users = G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME;

	core->disk.mode = before->mode;
	core->disk.uid = before->uid;
	core->disk.gid = before->gid;
	core->disk.flags = (core->disk.flags & ~users) | (before->flags & users);
	core->disk.atime_ns = before->atime_ns;
	core->disk.mtime_ns = before->mtime_ns;
	core->disk.ctime_ns = before->ctime_ns;
}

G4_FN int g4_inode_settle(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_core *core,
			  const struct g4_inode *before, int rc)
{
	if (rc < 0)
		put_back(core, before);
	if (rc < 0 && !txn->changed)
		return rc;
	int logged = g4_inode_log(wg, fs, txn, core);
	if (logged < 0)
		put_back(core, before);
	return rc < 0 ? rc : logged;
}

G4_FN int g4_inode_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	uint32_t bucket = bucket_of(&fs->cores, core->ino);
	int rc;

	core->dead = true;
	/*
	 * The dead core stays in the table until its slot is free, so that nobody loads the inode once more meanwhile.
	 * A new inode in the slot stands before it in the bucket.
	 */
	rc = g4_slab_free(wg, &fs->alloc, txn, g4_ptr_address(core->ino));
	g4_lock(bucket_lock(&fs->cores, bucket));
	unhash(&fs->cores, i);
	g4_unlock(bucket_lock(&fs->cores, bucket));
	core->logged = txn->sequence;
	return rc;
}

/* ------------------------------------------------------------------ orphans */

G4_FN static int get_root_block(struct g4_wg *wg, struct g4_fs *fs, uint32_t *line)
{
	return g4_meta_get(wg, &fs->meta, fs->meta.layout.root_address, G4_BLOCK_ROOT, line);
}

/* Writes one inode's orphan_next, in core and slab. orphan_lock held. */
G4_FN static int set_next(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_core *core, uint64_t next)
{
	uint64_t address = g4_ptr_address(core->ino), page = g4_align_down(address, G4_PAGE_BYTES);
	uint32_t line;
	int rc = g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	core->disk.orphan_next = next;
	((struct g4_inode *)(void *)((uint8_t *)g4_line_data(&fs->cache, line) + (address - page)))->orphan_next = next;
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN int g4_orphan_add(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	uint32_t line;
	int rc;

	if (core->disk.flags & G4_INODE_ORPHAN)
		return 0;
	rc = get_root_block(wg, fs, &line);
	if (rc < 0)
		return rc;
	g4_lock(&fs->orphan_lock);
	struct g4_root *root = (struct g4_root *)g4_line_data(&fs->cache, line);
	g4_txn_dirty(txn, line);
	core->disk.flags |= G4_INODE_ORPHAN;
	core->disk.orphan_next = root->orphan_head;
	root->orphan_head = core->ino;
	core->orphan_prev = G4_NO_CORE;
	core->orphan_next = fs->orphan_head;
	if (fs->orphan_head != G4_NO_CORE)
		g4_core_of(fs, fs->orphan_head)->orphan_prev = i;
	fs->orphan_head = i;
	g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	g4_core_ref(fs, i); /* the list's reference */
	return g4_inode_log(wg, fs, txn, core);
}

G4_FN int g4_orphan_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	uint32_t line;
	int rc;

	if (!(core->disk.flags & G4_INODE_ORPHAN))
		return 0;
	rc = get_root_block(wg, fs, &line);
	if (rc < 0)
		return rc;
	g4_lock(&fs->orphan_lock);
	if (core->orphan_prev == G4_NO_CORE) {
		g4_txn_dirty(txn, line);
		((struct g4_root *)g4_line_data(&fs->cache, line))->orphan_head = core->disk.orphan_next;
		fs->orphan_head = core->orphan_next;
	} else {
		rc = set_next(wg, fs, txn, g4_core_of(fs, core->orphan_prev), core->disk.orphan_next);
		if (rc == 0)
			g4_core_of(fs, core->orphan_prev)->orphan_next = core->orphan_next;
	}
	if (rc == 0 && core->orphan_next != G4_NO_CORE)
		g4_core_of(fs, core->orphan_next)->orphan_prev = core->orphan_prev;
	if (rc == 0) {
		core->disk.flags &= ~G4_INODE_ORPHAN;
		core->disk.orphan_next = 0;
	}
	g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	if (rc < 0)
		return rc;
	g4_core_put(fs, i);
	return g4_inode_log(wg, fs, txn, core);
}

G4_FN static int free_directory_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_core *core)
{
	int more = 1;

	while (more > 0) {
		struct g4_dir dir = {&fs->alloc, fs->hash_key, core->disk.map[0], core->disk.pages};
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		more = g4_dir_free_page(wg, &dir, &txn);
		core->disk.map[0] = dir.root;
		core->disk.pages = dir.pages;
		rc = g4_inode_log(wg, fs, &txn, core);
		rc = g4_end(fs, &txn, rc < 0 ? rc : more < 0 ? more : 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

G4_FN static int free_file_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_core *core)
{
	uint64_t next = 0;

	if ((core->disk.flags & G4_INODE_INLINE) || !(g4_is_reg(core->disk.mode) || g4_is_link(core->disk.mode)))
		return 0;
	while (next < g4_map_capacity_pages(core->disk.map_height)) {
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		rc = g4_map_clear(wg, fs, &txn, core, next, UINT64_MAX, &next);
		core->disk.size = 0;
		int logged = g4_inode_log(wg, fs, &txn, core);
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		if (rc < 0)
			return rc;
	}
	return 0;
}

G4_FN int g4_inode_delete(struct g4_wg *wg, struct g4_fs *fs, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	struct g4_txn txn;
	int rc = 0;

	g4_write_lock(&core->lock);
	if (core->dead || core->disk.nlink != 0 || core->opens != 0 || core->held) {
		g4_write_unlock(&core->lock);
		return 0;
	}
	if (g4_is_reg(core->disk.mode)) {
		g4_drop_dirty(fs, i, 0, UINT64_MAX);
		g4_cache_drop_range(&fs->cache, core->data_key, 0, g4_pages_for(core->size));
		g4_set_size(core, 0);
	}
	/* several transactions only where there is much to free; the inode is on the orphan list meanwhile */
	if (g4_is_dir(core->disk.mode))
		rc = free_directory_pages(wg, fs, core);
	else if (core->disk.pages > 0)
		rc = free_file_pages(wg, fs, core);
	while (rc == 0 && core->disk.xattr) {
		rc = g4_begin(wg, fs, G4_XATTR_CREDITS, &txn);
		if (rc == 0) {
			rc = g4_xattr_clear(wg, fs, &txn, core);
			int logged = g4_inode_log(wg, fs, &txn, core);
			rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		}
	}
	if (rc == 0)
		rc = g4_begin(wg, fs, 24, &txn);
	if (rc == 0) {
		rc = g4_orphan_remove(wg, fs, &txn, i);
		if (rc == 0)
			rc = g4_inode_free(wg, fs, &txn, i);
		g4_end(fs, &txn, rc);
	}
	g4_write_unlock(&core->lock);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ attributes */

#define STAMP_AHEAD_NS INT64_C(50000000) /* more than that, and somebody has set the clock back */

G4_FN uint64_t g4_now(const struct g4_fs *fs)
{
	if (!(fs->flags & G4_FS_HOLD_UNLINKED))
		return (uint64_t)g4_realtime_ns();

	int64_t now = g4_realtime_of_tick_ns(), seen = (int64_t)g4_load64_rlx(&fs->seen_stamp);
	return (uint64_t)(seen > now && seen <= now + STAMP_AHEAD_NS ? seen : now);
}

G4_FN void g4_saw_stamp(struct g4_fs *fs, uint64_t time_ns)
{
	int64_t most = g4_realtime_of_tick_ns() + STAMP_AHEAD_NS;
	uint64_t seen = g4_load64_rlx(&fs->seen_stamp);

	while (((int64_t)seen < (int64_t)time_ns || (int64_t)seen > most) && !g4_cas64(&fs->seen_stamp, seen, time_ns))
		seen = g4_load64_rlx(&fs->seen_stamp);
}

G4_FN void g4_touch(struct g4_fs *fs, uint32_t i, bool modified, bool changed)
{
	struct g4_core *core = g4_core_of(fs, i);
	uint64_t now = g4_now(fs);

	if (modified)
		core->disk.mtime_ns = now;
	if (changed)
		core->disk.ctime_ns = now;
	core->disk.change_count++;
	g4_store32_rel(&core->times_dirty, 1);
	g4_queue_dirty(fs, i);
}

/* relatime: only when the stamp is not newer than the last change, or a day old. Read-locked: last one wins. */
G4_FN void g4_touch_read(struct g4_fs *fs, uint32_t i)
{
	struct g4_core *core = g4_core_of(fs, i);
	int64_t atime = (int64_t)g4_load64_rlx(&core->disk.atime_ns), now;

	if ((fs->flags & (G4_FS_NOATIME | G4_FS_READ_ONLY)) || (core->disk.flags & G4_INODE_NOATIME))
		return;
	if (!(fs->flags & G4_FS_STRICTATIME) && atime > (int64_t)core->disk.mtime_ns &&
	    atime > (int64_t)core->disk.ctime_ns && (int64_t)g4_now(fs) - atime < INT64_C(86400000000000))
		return;
	/* a queued inode stays in core: readers of very many files must not fill the table */
	if (!g4_load32_rlx(&core->queued) && g4_dirty_pressure(fs, false))
		return;
	now = (int64_t)g4_now(fs);
	g4_store64_rel(&core->disk.atime_ns, (uint64_t)now);
	g4_store32_rel(&core->times_dirty, 1);
	g4_queue_dirty(fs, i);
}
