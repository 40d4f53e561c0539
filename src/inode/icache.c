/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of in-core inodes: of fixed size, hashed by number, replaced by a clock. An in-core inode without references holds
 * nothing that is not in its slab, so it can be dropped at any time.
 */
#include "inode/icache.h"
#include "inode/epoch.h"

G4_FN static uint32_t bucket_of(const struct g4_icache *icache, uint64_t ino)
{
	return (uint32_t)((ino >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 40) & icache->bucket_mask;
}

G4_FN static struct g4_lock *bucket_lock(struct g4_icache *icache, uint32_t bucket)
{
	return &icache->locks[bucket % G4_ICACHE_LOCKS];
}

/*
 * References are counted without the bucket's lock: a reader that finds a number in a chain counts itself in and then
 * looks whether the in-core inode is still what it wanted. TAKEN in the count keeps it from one that is being given to another
 * inode: it is set in the same step that finds the count 0, and cleared when the in-core inode stands in its new chain.
 */

/* Bucket lock held. */
G4_FN static void remove_from_chain(struct g4_icache *icache, uint32_t index)
{
	uint32_t *at = &icache->buckets[bucket_of(icache, icache->inodes[index].ino)];

	while (*at != G4_NO_INODE && *at != index)
		at = &icache->inodes[*at].next;
	if (*at == index)
		g4_store32_rel(at, icache->inodes[index].next);
}

G4_FN void g4_icache_unhash(struct g4_icache *icache, uint32_t index)
{
	const uint32_t bucket = bucket_of(icache, icache->inodes[index].ino);

	g4_lock(bucket_lock(icache, bucket));
	remove_from_chain(icache, index);
	g4_unlock(bucket_lock(icache, bucket));
}

/*
 * Numbers of 62 bits and generations of 32 do not fit one word, so keys are numbers of their own, from 1 on (0 is metadata).
 * An inode that comes back into core gets the key that it had, as long as that is remembered: its pages may still be in
 * the cache. If it is forgotten, those are never found again, and the clock takes them. Remembered are inodes that leave the
 * table, and no longer than until they come back: so what is in core, and what is removed, has no entry, and making an inode writes
 * none.
 */
G4_FN uint64_t g4_icache_new_keys(struct g4_icache *icache, uint32_t count)
{
	return g4_add64_rlx(&icache->last_key, count) + 1;
}

G4_FN uint64_t g4_icache_new_key(struct g4_icache *icache)
{
	return g4_icache_new_keys(icache, 1);
}

/* Bucket lock held. The key itself chooses the place, so that nothing is read: one write for each that leaves. */
G4_FN static void remember_key(struct g4_icache *icache, uint32_t bucket, uint64_t ino, uint32_t generation,
			       uint64_t key)
{
	struct g4_icache_key *at = &icache->keys[bucket * G4_ICACHE_KEYS + key % G4_ICACHE_KEYS];

	at->ino = ino;
	at->generation = generation;
	at->key = key;
}

G4_FN void g4_icache_remember_key(struct g4_icache *icache, uint64_t ino, uint32_t generation, uint64_t key)
{
	const uint32_t bucket = bucket_of(icache, ino);

	g4_lock(bucket_lock(icache, bucket));
	remember_key(icache, bucket, ino, generation, key);
	g4_unlock(bucket_lock(icache, bucket));
}

G4_FN uint64_t g4_icache_recall_key(struct g4_icache *icache, uint64_t ino, uint32_t generation)
{
	const uint32_t bucket = bucket_of(icache, ino);
	struct g4_icache_key *keys = &icache->keys[bucket * G4_ICACHE_KEYS];
	uint64_t key = 0;

	g4_lock(bucket_lock(icache, bucket));
	for (uint32_t place = 0; place < G4_ICACHE_KEYS && key == 0; place++) {
		if (keys[place].ino == ino && keys[place].generation == generation && keys[place].key != 0) {
			key = keys[place].key;
			keys[place].key = 0;
		}
	}
	g4_unlock(bucket_lock(icache, bucket));
	return key != 0 ? key : g4_icache_new_key(icache);
}

/*
 * Takes an in-core inode without references, and locks it, before its number is found no more: from then on others may load the inode into
 * another one and change it there, and no copy of this one may count. Nobody else can lock it. The reference of the last who had it may
 * have been seen to go before its lock (g4_icache_put_fenced()): then that comes at once.
 */
G4_FN static bool take_unused(struct g4_inode_core *inode)
{
	if (!g4_cas32_acq(&inode->refs, 0, G4_ICACHE_TAKEN | 1))
		return false;
	while (!g4_write_trylock(&inode->lock))
		g4_pause();
	return true;
}

/* Makes an unused in-core inode ours; false when it is in use or was a moment ago. */
G4_FN static bool take_this(struct g4_icache *icache, uint32_t index)
{
	struct g4_inode_core *inode = &icache->inodes[index];

	/* all are asked for before one is looked at */
	const uint32_t refs = g4_load32_rlx(&inode->refs), state = g4_load32_rlx(&inode->state),
		       accessed = g4_load32_rlx(&inode->accessed);

	if (refs != 0)
		return false;
	if (state != G4_ICACHE_FREE && accessed) {
		g4_store32_rlx(&inode->accessed, 0);
		return false;
	}
	if (!take_unused(inode))
		return false;
	/* now, whatever it was: somebody may have had it meanwhile */
	if (g4_load32_acq(&inode->state) == G4_ICACHE_FREE)
		return true;
	const uint32_t bucket = bucket_of(icache, inode->ino);

	g4_lock(bucket_lock(icache, bucket));
	remove_from_chain(icache, index);
	if (g4_load32_rlx(&inode->state) == G4_ICACHE_READY && !inode->dead)
		remember_key(icache, bucket, inode->ino, inode->disk.generation, inode->data_key);
	g4_unlock(bucket_lock(icache, bucket));
	return true;
}

G4_FN uint32_t g4_icache_take(struct g4_icache *icache)
{
	const uint32_t count = icache->count;

	/* all searches share the clock's hand */
	for (uint32_t step = 0; step < 3 * count; step++) {
		uint32_t i = g4_add32_rlx(&icache->hand, 1) % count;

		if (take_this(icache, i))
			return i;
	}
	return G4_NO_INODE;
}

G4_FN void g4_icache_untake(struct g4_icache *icache, uint32_t index)
{
	struct g4_inode_core *inode = &icache->inodes[index];

	g4_store32_rel(&inode->state, G4_ICACHE_FREE);
	g4_write_unlock(&inode->lock);
	g4_sub32(&inode->refs, G4_ICACHE_TAKEN | 1);
}

/*
 * Of an in-core inode that is taken: the step that clears G4_ICACHE_TAKEN publishes all of this to lookups of the number, the lock
 * to optimistic readers.
 */
G4_FN void g4_icache_reset(const struct g4_fs *fs, struct g4_inode_core *inode, uint64_t ino)
{
	struct g4_lock dirty_lock = inode->dirty_lock;

	/* refs stays as it is: the clock looks at it; the locks' tickets go on */
	g4_fence_rel(); /* an optimistic reader of the in-core inode sees that it is locked before it sees anything of this */
	g4_store32_rlx(&inode->state, G4_ICACHE_FREE);
	g4_store32_rlx(&inode->accessed, 0);
	g4_zero16(&inode->disk, (uint32_t)(sizeof(*inode) - offsetof(struct g4_inode_core, disk)));
	inode->dirty_lock = dirty_lock;
	inode->size = inode->logged = 0;
	inode->dirty_count = 0;
	inode->dead = false;
	inode->epoch = g4_epoch_of(fs, ino);
	g4_store32_rlx(&inode->next, G4_NO_INODE); /* readers may still come by */
	g4_store64_rlx(&inode->ino, ino);
	inode->dirty_head = inode->dirty_tail = G4_NO_LINE;
	inode->orphan_prev = inode->orphan_next = G4_NO_INODE;
	inode->dirty_prev = inode->dirty_next = G4_NO_INODE;
}

/* Bucket lock held, which the caller gives back: one fence for both. first: of the chain until now. */
G4_FN static void insert_inode(struct g4_inode_core *inode, uint32_t *at, uint32_t first, uint32_t index)
{
	g4_store32_rlx(&inode->next, first);
	g4_store32_rlx(at, index);
	g4_fence_rel();
	g4_sub32_fenced(&inode->refs, G4_ICACHE_TAKEN);
}

G4_FN void g4_icache_enter(struct g4_icache *icache, uint32_t index)
{
	/* what is known before the lock: behind it a GPU would go for it again */
	struct g4_inode_core *const inodes = icache->inodes, *const inode = &inodes[index];
	const uint64_t ino = inode->ino;
	const uint32_t bucket = bucket_of(icache, ino);
	uint32_t *const at = &icache->buckets[bucket];
	struct g4_lock *const lock = bucket_lock(icache, bucket);

	g4_lock(lock);
	const uint32_t first = *at;
	for (uint32_t i = first; i != G4_NO_INODE; i = inodes[i].next)
		if (inodes[i].ino == ino && g4_load32_rlx(&inodes[i].state) == G4_ICACHE_LOADING)
			inodes[i].overtaken = true;
	g4_store32_rlx(&inode->state, G4_ICACHE_READY);
	insert_inode(inode, at, first, index);
	g4_unlock_fenced(lock);
}

G4_FN static int load_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode)
{
	const struct g4_address address = g4_ptr_address(inode->ino), page = g4_address_page_start(address);
	uint32_t line;
	/* a slab that was freed may still lie there, valid to the last byte */
	int rc = g4_alloc_in_use(wg, &fs->alloc, page);

	if (rc == -G4_E_IO && fs->loads_orphans)
		rc = 1;
	if (rc <= 0)
		return rc < 0 ? rc : -G4_E_STALE;
	if (g4_slab_is_past(&fs->alloc, page))
		return -G4_E_STALE;
	rc = g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line);
	if (rc == -G4_E_TYPE || rc == -G4_E_CHECKSUM || rc == -G4_E_MISDIRECTED)
		return -G4_E_STALE; /* the page is no slab: the number is old or made up */
	if (rc < 0)
		return rc;
	if (!g4_slab_copy(&fs->alloc, line, G4_SLAB_INODES, address, &inode->disk, sizeof(inode->disk)))
		rc = -G4_E_STALE;
	else /* mode 0: given to an inode that is not written yet, and that stands in the table already or is about to */
		rc = inode->disk.mode == 0 ? -G4_E_STALE : g4_inode_validate(&inode->disk, &fs->meta.layout);
	/* what is written may go into the inode, where the flag is impossible */
	if (rc == 0 && (inode->disk.flags & G4_INODE_SHARES_MAP) &&
	    !(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SHARED_MAPS))
		rc = -G4_E_CORRUPT_INODE;
	g4_cache_put(&fs->cache, line);
	inode->near = line;
	inode->size = inode->disk.size;
	inode->data_key = g4_icache_recall_key(&fs->icache, inode->ino, inode->disk.generation);
	/* what changed it before it left the table may not be durable yet */
	inode->logged = g4_load64_acq(&fs->journal.running);
	return rc;
}

/* Looks a number up and references its in-core inode. Bucket lock held, so that what is in the chain stays. */
G4_FN static uint32_t find_inode(struct g4_icache *icache, uint32_t bucket, uint64_t ino)
{
	uint32_t i = icache->buckets[bucket];

	for (; i != G4_NO_INODE; i = icache->inodes[i].next) {
		if (icache->inodes[i].ino != ino)
			continue;
		if (!(g4_add32(&icache->inodes[i].refs, 1) & G4_ICACHE_TAKEN))
			break;
		g4_sub32(&icache->inodes[i].refs, 1); /* on its way out of the chain */
	}
	return i;
}

G4_FN G4_INLINE void drop_ref(struct g4_inode_core *inode)
{
	g4_sub32_rel(&inode->refs, 1);
}

#define CHAIN_STEPS 16u /* chains that change underfoot may lead anywhere, but not for ever */

/*
 * References an in-core inode that may be the inode's; false: it is another's, or not to be told without the lock. A
 * workgroup that gives it to an
 * inode takes it before, and sets the state with release order when the inode has come into it.
 */
G4_FN G4_INLINE bool ref_if(struct g4_inode_core *inode, uint64_t ino)
{
	const uint32_t refs = g4_add32_acq(&inode->refs, 1);
	/* all are asked for before one is looked at */
	const uint64_t has = g4_load64_rlx(&inode->ino);
	const uint32_t accessed = g4_load32_rlx(&inode->accessed), state = g4_load32_fenced(&inode->state);

	g4_fence_acq();
	if ((refs & G4_ICACHE_TAKEN) || has != ino || state != G4_ICACHE_READY) {
		drop_ref(inode);
		return false;
	}
	if (!accessed)
		g4_store32_rlx(&inode->accessed, 1);
	return true;
}

/* find_inode() without the lock. G4_NO_INODE: not there, or not to be told. */
G4_FN static uint32_t find_unlocked(struct g4_icache *icache, uint32_t bucket, uint64_t ino)
{
	struct g4_inode_core *const inodes = icache->inodes;
	const uint32_t count = icache->count;
	uint32_t i = g4_load32_rlx(&icache->buckets[bucket]);

	for (uint32_t step = 0; step < CHAIN_STEPS && i < count; step++) {
		struct g4_inode_core *inode = &inodes[i];

		if (g4_load64_rlx(&inode->ino) == ino)
			return ref_if(inode, ino) ? i : G4_NO_INODE;
		i = g4_load32_rlx(&inode->next);
	}
	return G4_NO_INODE;
}

G4_FN bool g4_icache_find(struct g4_fs *fs, uint64_t ino, uint32_t *index)
{
	struct g4_icache *icache = &fs->icache;
	const uint32_t i = find_unlocked(icache, bucket_of(icache, ino), ino);

	*index = i;
	return i != G4_NO_INODE;
}

/* All lines of the in-core inode are on their way at once. */
G4_FN bool g4_icache_ref_near(struct g4_fs *fs, uint64_t ino, uint32_t near)
{
	if (near >= fs->icache.count)
		return false;
	struct g4_inode_core *inode = g4_icache_at(fs, near);
	for (uint32_t at = 64; at < G4_INODE_CORE_ATTRIBUTE_BYTES; at += 64)
		g4_prefetch((const uint8_t *)inode + at);
	return g4_load64_rlx(&inode->ino) == ino && ref_if(inode, ino);
}

/*
 * Whether what another workgroup loads came. If not, nothing is known: it began before we asked, and meanwhile an inode that does not enter
 * the table when it is made (inode/chain.h) may have been given the number.
 */
G4_FN static bool wait_loaded(struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t state;

	while ((state = g4_load32_acq(&inode->state)) == G4_ICACHE_LOADING)
		g4_wait(&inode->state, state);
	if (state == G4_ICACHE_READY) {
		if (!g4_load32_rlx(&inode->accessed))
			g4_store32_rlx(&inode->accessed, 1);
		return true;
	}
	g4_icache_put(fs, index);
	return false;
}

G4_FN static void set_state(struct g4_inode_core *inode, uint32_t state)
{
	g4_store32_rel(&inode->state, state);
	g4_wake(&inode->state);
}

/* Loads the inode into what was taken and stands in its chain, and is discarded again with an error. */
G4_FN static int load_entered(struct g4_wg *wg, struct g4_fs *fs, uint32_t bucket, uint32_t index)
{
	struct g4_icache *icache = &fs->icache;
	struct g4_inode_core *inode = &icache->inodes[index];
	int rc = load_inode(wg, fs, inode);

	/*
	 * The number was an old one's, and a new inode has it by now: it is in the chain since before it was written, so whatever came
	 * from the slab, also half of it, is none of ours.
	 */
	g4_lock(bucket_lock(icache, bucket));
	if (inode->overtaken)
		rc = -G4_E_STALE;
	if (rc < 0) /* who waits for it asks again, and does not meet it */
		remove_from_chain(icache, index);
	g4_unlock(bucket_lock(icache, bucket));
	if (rc < 0) {
		set_state(inode, G4_ICACHE_FAILED);
		/* its number stays, so that a late unhash of the clock finds nothing; the clock reuses it without references */
		g4_icache_put(fs, index);
		return rc;
	}
	/* an optimistic reader meanwhile may have seen the old half of it, and the new state */
	g4_next_version(&inode->lock);
	set_state(inode, G4_ICACHE_READY);
	return 0;
}

/* Of an inode that was not found without the lock: it is there after all, or it is loaded. */
G4_FN G4_COLD static int get_locked(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t bucket, uint32_t *index)
{
	struct g4_icache *icache = &fs->icache;
	uint32_t i, fresh = G4_NO_INODE;

	if (!g4_ino_plausible(ino, &fs->meta.layout))
		return -G4_E_STALE;
	for (;;) {
		g4_lock(bucket_lock(icache, bucket));
		i = find_inode(icache, bucket, ino);
		if (i == G4_NO_INODE && fresh != G4_NO_INODE) {
			g4_icache_reset(fs, &icache->inodes[fresh], ino);
			g4_write_unlock(&icache->inodes[fresh].lock);
			g4_store32_rel(&icache->inodes[fresh].state, G4_ICACHE_LOADING);
			insert_inode(&icache->inodes[fresh], &icache->buckets[bucket], icache->buckets[bucket], fresh);
			g4_unlock_fenced(bucket_lock(icache, bucket));
			*index = fresh;
			return load_entered(wg, fs, bucket, fresh);
		}
		g4_unlock(bucket_lock(icache, bucket));
		if (i != G4_NO_INODE && wait_loaded(fs, i))
			break;
		if (fresh == G4_NO_INODE)
			fresh = g4_icache_take(icache);
		if (fresh == G4_NO_INODE)
			return -G4_E_NFILE;
	}
	if (fresh != G4_NO_INODE)
		g4_icache_untake(icache, fresh);
	*index = i;
	return 0;
}

G4_FN int g4_icache_get_near(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t near, uint32_t *index)
{
	const struct g4_icache *icache = &fs->icache;

	if (g4_icache_ref_near(fs, ino, near)) {
		*index = near;
		return 0;
	}
	if (ino == G4_NODE_ROOT)
		ino = g4_icache_at(fs, fs->root_index)->ino;
	return g4_icache_find(fs, ino, index) ? 0 : get_locked(wg, fs, ino, bucket_of(icache, ino), index);
}

G4_FN int g4_icache_get(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t *index)
{
	return g4_icache_get_near(wg, fs, ino, G4_NO_INODE, index);
}

G4_FN uint32_t g4_icache_index_of(const struct g4_fs *fs, uint64_t ino)
{
	const struct g4_icache *icache = &fs->icache;

	if (ino == G4_NODE_ROOT)
		return fs->root_index;
	uint32_t i = g4_load32_rlx(&icache->buckets[bucket_of(icache, ino)]);
	for (uint32_t step = 0; step < CHAIN_STEPS && i < icache->count; step++) {
		if (g4_load64_rlx(&icache->inodes[i].ino) == ino)
			return i;
		i = g4_load32_rlx(&icache->inodes[i].next);
	}
	return G4_NO_INODE;
}

G4_FN void g4_icache_ref(struct g4_fs *fs, uint32_t index)
{
	g4_add32(&g4_icache_at(fs, index)->refs, 1);
}

G4_FN void g4_icache_lock(struct g4_fs *fs, struct g4_inode_core *inode)
{
	g4_write_lock(&inode->lock);
	g4_epoch_advance(fs, inode);
}

G4_FN void g4_icache_lock_two(struct g4_fs *fs, struct g4_inode_core *a, struct g4_inode_core *b)
{
	const bool two = b != NULL && a != b, first = !two || a->ino < b->ino;

	g4_icache_lock(fs, first ? a : b);
	if (two)
		g4_icache_lock(fs, first ? b : a);
}

G4_FN void g4_icache_unlock_two(struct g4_inode_core *a, struct g4_inode_core *b)
{
	g4_write_unlock(&a->lock);
	if (b != NULL && a != b)
		g4_write_unlock(&b->lock);
}
