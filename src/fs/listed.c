/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a leaf's copy, by all lanes. For each of them the in-core inode, its lock's version and its attributes are misses one after the
 * other; those of different names are under way together here. Nobody waits for a lock, and nothing is referenced.
 *
 * A row is true. Nobody has had the inode alone between the two looks at the version of its lock, and it has the number that the leaf
 * had; no name of the leaf has changed from its copy to the look that comes behind (g4_dir_listed_holds()). A workgroup that takes
 * a name away has locked the inode before, and counts the change before it unlocks it. So at the moment of the first version the name
 * led to this inode, which had these attributes. Where a name of the leaf has changed, no row counts. What lanes do not find is the
 * leader's, by g4_name_attr(): inodes that are not in core, that somebody is changing, or that can not be right.
 */
#include "fs/listed.h"
#include "dir/leaf.h"
#include "fs/attr.h"
#include "fs/names.h"
#include "inode/icache.h"

G4_FN static const struct g4_dir_entry *entry_of(const struct g4_listed_job *job, uint32_t k)
{
	return job->listed->items[k].entry;
}

/* ------------------------------------------------------------------ attributes */

/* Per-lane. */
G4_FN static bool look(const struct g4_listed_job *job, uint32_t k, struct g4_attr *attr)
{
	const uint64_t ino = entry_of(job, k)->inode;
	const uint32_t index = g4_icache_index_of(job->fs, ino);
	struct g4_inode_core copy;
	uint32_t version;

	if (index == G4_NO_INODE)
		return false;
	struct g4_inode_core *inode = g4_icache_at(job->fs, index);
	if (!g4_icache_read_optimistic(inode, ino, &copy, &version))
		return false;
	/* one that can not be right is for the leader to complain of, as the directory itself, which it has locked */
	if (ino == job->dir || !g4_is_child(copy.disk.mode, copy.disk.parent, job->dir))
		return false;
	g4_fill_attr(&copy, attr);
	g4_fence_acq();
	if (!g4_read_unchanged(&inode->lock, version))
		return false;
	if (!copy.accessed) /* another inode's by now, perhaps: for the clock that is no matter */
		g4_store32_rlx(&inode->accessed, 1);
	return true;
}

/* ------------------------------------------------------------------ records */

G4_FN static uint64_t record_bytes(const struct g4_listed_job *job, uint32_t k)
{
	if (job->rows[k] == G4_LISTED_GONE)
		return 0;
	return g4_align_up(
		sizeof(struct g4_dirent) + (job->plus ? sizeof(struct g4_attr) : 0) + entry_of(job, k)->name_bytes, 8);
}

/* Per-lane; `from` may lie anywhere. */
G4_FN static void put(uint8_t *to, const void *from, uint32_t bytes)
{
#if defined(__CUDA_ARCH__) /* memcpy() goes byte by byte there */
	const bool aligned = (uintptr_t)to % 8 == 0;

	G4_ROLLED
	for (uint32_t at = 0; at < bytes; at += 8) {
		const uint64_t word = g4_load_bytes((const uint8_t *)from + at, (uint32_t)g4_min64(8, bytes - at));
		if (aligned) /* behind a name as well: records end at a multiple of 8 */
			*(uint64_t *)(to + at) = word;
		else
			memcpy(to + at, &word, g4_min64(8, bytes - at));
	}
#else
	memcpy(to, from, bytes);
#endif
}

/* Per-lane. */
G4_FN static void give(const struct g4_listed_job *job, uint32_t k, uint8_t *to)
{
	const struct g4_dir_entry *entry = entry_of(job, k);
	const struct g4_attr *attr = job->plus ? &job->attrs[k] : NULL;
	struct g4_dirent head;

	memset(&head, 0, sizeof(head));
	head.ino = attr ? attr->ino : entry->inode;
	head.cookie = job->listed->items[k].position + G4_COOKIE_FIRST;
	head.record_bytes = (uint32_t)record_bytes(job, k);
	head.name_bytes = entry->name_bytes;
	head.file_type = attr ? g4_dirent_type(attr->mode) : entry->file_type;
	head.has_attr = attr != NULL;
	put(to, &head, sizeof(head));
	to += sizeof(head);
	if (attr) {
		put(to, attr, sizeof(*attr));
		to += sizeof(*attr);
	}
	put(to, g4_leaf_name(entry), entry->name_bytes);
}
G4_STATIC_ASSERT(sizeof(struct g4_dirent) % 8 == 0 && sizeof(struct g4_attr) % 8 == 0, "records of words");
G4_STATIC_ASSERT(offsetof(struct g4_listed_job, rows) % 16 == 0 && sizeof(((struct g4_listed_job *)0)->rows) % 16 == 0,
		 "zeroed so");

/* ------------------------------------------------------------------ together */

/* Collective. How many of the names have room, the first ones. */
G4_FN static uint32_t fitting(struct g4_wg *wg, const struct g4_listed_job *job)
{
	const uint32_t width = g4_wg_width(wg), end = job->first + job->count;
	uint64_t before = 0;
	uint32_t fit = 0;
	bool all = true;

	for (uint32_t base = job->first; base < end && all; base += width) {
		const uint32_t k = base + g4_wg_lane(wg);
		const uint64_t bytes = k < end ? record_bytes(job, k) : 0;
		const uint64_t mine = before + g4_scan_exclusive(wg, bytes);

		fit += g4_count_bits(g4_ballot(wg, k < end && mine + bytes <= job->room));
		before += g4_reduce_sum(wg, bytes);
		all = before <= job->room;
	}
	return fit;
}

/* Collective. */
G4_FN static void look_all(struct g4_wg *wg, struct g4_listed_job *job)
{
	const uint32_t end = job->first + job->count;

	for (uint32_t k = job->first + g4_wg_lane(wg); k < end; k += g4_wg_width(wg))
		job->rows[k] = look(job, k, &job->attrs[k]) ? G4_LISTED_KNOWN : G4_LISTED_LEFT;
}

/* Collective. */
G4_FN static uint64_t give_all(struct g4_wg *wg, const struct g4_listed_job *job)
{
	const uint32_t width = g4_wg_width(wg), end = job->first + job->count;
	uint64_t before = 0;

	for (uint32_t base = job->first; base < end; base += width) {
		const uint32_t k = base + g4_wg_lane(wg);
		const uint64_t bytes = k < end ? record_bytes(job, k) : 0;
		const uint64_t mine = before + g4_scan_exclusive(wg, bytes);

		if (bytes > 0)
			give(job, k, job->to + mine);
		before += g4_reduce_sum(wg, bytes);
	}
	return before;
}

G4_REGION_BODY void g4_listed_region(struct g4_wg *wg, void *args)
{
	struct g4_listed_job *job = (struct g4_listed_job *)args;
	uint64_t bytes = 0;

	g4_converge(wg);
	if (job->to && !(job->plus && job->gives)) {
		const uint32_t fit = fitting(wg, job);
		g4_sync(wg);
		if (g4_wg_lane(wg) == 0)
			job->count = fit;
		g4_sync(wg);
	}
	if (job->gives)
		bytes = give_all(wg, job);
	else
		look_all(wg, job);
	if (g4_wg_lane(wg) == 0)
		job->bytes = bytes;
	g4_sync(wg);
}

/* ------------------------------------------------------------------ the leader's */

G4_FN void g4_listed_look(struct g4_wg *wg, struct g4_listed_job *job)
{
	job->gives = false;
	g4_region(wg, G4_REGION_LISTED, g4_listed_region, job);
	if (g4_dir_listed_holds(job->listed))
		return;
	for (uint32_t k = job->first; k < job->first + job->count; k++)
		job->rows[k] = G4_LISTED_LEFT;
}

G4_FN int g4_listed_attr(struct g4_wg *wg, struct g4_listed_job *job, struct g4_inode_core *inode, uint32_t k)
{
	if (job->rows[k] == G4_LISTED_KNOWN)
		return 0;
	const int rc = g4_name_attr(wg, job->fs, inode, job->listed, entry_of(job, k), &job->attrs[k]);
	if (rc == 0)
		job->rows[k] = G4_LISTED_KNOWN;
	else if (rc == -G4_E_NOENT)
		job->rows[k] = G4_LISTED_GONE;
	return rc;
}

G4_FN uint64_t g4_listed_give(struct g4_wg *wg, struct g4_listed_job *job)
{
	job->gives = true;
	g4_region(wg, G4_REGION_LISTED, g4_listed_region, job);
	return job->bytes;
}
