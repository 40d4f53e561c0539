/* SPDX-License-Identifier: Apache-2.0 */
/* Time stamps: the clock of the file system, and stamps without a transaction. */
#include "inode/times.h"
#include "inode/epoch.h"
#include "inode/queue.h"

#define STAMP_AHEAD_NS INT64_C(50000000) /* more than that, and somebody has set the clock back */

G4_FN uint64_t g4_now(const struct g4_fs *fs)
{
	if (!(fs->flags & G4_FS_TICK_TIMES))
		return (uint64_t)g4_realtime_ns();

	int64_t now = g4_realtime_of_tick_ns(), seen = (int64_t)g4_load64_rlx(&fs->seen_stamp);
	return (uint64_t)(seen > now && seen <= now + STAMP_AHEAD_NS ? seen : now);
}

G4_FN uint32_t g4_today(const struct g4_fs *fs)
{
	const int64_t now = (int64_t)g4_now(fs) + (int64_t)fs->days_ahead * (int64_t)G4_DAY_NS;

	return now < 0 ? 0 : (uint32_t)((uint64_t)now / G4_DAY_NS);
}

G4_FN void g4_saw_stamp(struct g4_fs *fs, uint64_t time_ns)
{
	int64_t most = g4_realtime_of_tick_ns() + STAMP_AHEAD_NS;
	uint64_t seen = g4_load64_rlx(&fs->seen_stamp);

	while (((int64_t)seen < (int64_t)time_ns || (int64_t)seen > most) && !g4_cas64(&fs->seen_stamp, seen, time_ns))
		seen = g4_load64_rlx(&fs->seen_stamp);
}

G4_FN void g4_touch(struct g4_fs *fs, uint32_t index, bool modified, bool changed)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t now = g4_now(fs);

	if (modified)
		inode->disk.mtime_ns = now;
	if (changed)
		inode->disk.ctime_ns = now;
	inode->disk.change_count++;
	g4_store32_rel(&inode->times_dirty, 1);
	g4_queue_dirty(fs, index);
}

/* relatime: only when the stamp is not newer than the last change, or a day old. Read-locked: last one wins. */
G4_FN void g4_touch_read(struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int64_t atime = (int64_t)g4_load64_rlx(&inode->disk.atime_ns), now;

	if ((fs->flags & (G4_FS_NOATIME | G4_FS_READ_ONLY)) || (inode->disk.flags & G4_INODE_NOATIME))
		return;
	if (!(fs->flags & G4_FS_STRICTATIME) && atime > (int64_t)g4_load64_rlx(&inode->disk.mtime_ns) &&
	    atime > (int64_t)g4_load64_rlx(&inode->disk.ctime_ns) &&
	    (int64_t)g4_now(fs) - atime < INT64_C(86400000000000))
		return;
	/* a queued inode stays in memory: readers of very many files must not fill the table */
	if (!g4_load32_rlx(&inode->queued) && g4_dirty_pressure(fs, false))
		return;
	now = (int64_t)g4_now(fs);
	const bool shown = g4_shared_change_begin(fs, inode);
	g4_store64_rlx(&inode->disk.atime_ns, (uint64_t)now);
	g4_fence_rel();
	g4_shared_change_end_fenced(fs, inode, shown);
	g4_store32_rel(&inode->times_dirty, 1);
	g4_queue_dirty(fs, index);
}
