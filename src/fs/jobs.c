/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background jobs: their records, in memory and in the root block; their steps; commands. While mounted the records in memory
 * count. What the jobs that there are do twice does no harm, so what is logged may be older: a crash costs them work, and
 * nothing else.
 *
 * One workgroup at a time does a step (jobs.owner). It works on a copy of the record and puts cursor and counters back when it
 * has ended; state and limits are those of the commands, which wait for the step where they must.
 */
#include "fs/jobs.h"

#include "data/dedup.h"
#include "fs/leave.h"
#include "fs/rebalance.h"
#include "fs/rebuild.h"
#include "fs/resize.h"
#include "fs/scrub.h"
#include "inode/times.h"
#include "inode/txn.h"

#define ROOT_CREDITS 2u
#define REST_NS UINT64_C(100000000) /* who found no room is done by then */

G4_FN static int get_root(struct g4_wg *wg, struct g4_fs *fs, uint32_t *line, struct g4_root **root)
{
	int rc = g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, line);

	if (rc == 0)
		*root = (struct g4_root *)g4_line_data(&fs->cache, *line);
	return rc;
}

G4_FN static bool goes_on(const struct g4_job_record *job)
{
	return job->kind != G4_JOB_NONE && (job->state == G4_JOB_RUNNING || job->state == G4_JOB_PAUSED);
}

/* A record for a new job: an empty one, or the oldest that is over. */
G4_FN static uint32_t find_place(const struct g4_jobs *jobs)
{
	uint32_t found = G4_JOBS;

	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (!goes_on(&jobs->records[i]) &&
		    (found == G4_JOBS || jobs->records[i].number < jobs->records[found].number))
			found = i;
	return found;
}

G4_FN static void end_job(struct g4_fs *fs, struct g4_job_record *record, uint32_t state, int rc)
{
	record->state = state;
	record->code = rc < 0 ? (uint32_t)-rc : 0;
	record->ended_ns = g4_now(fs);
}

/* The set knows which disk is being rebuilt: a crash may have left no record of it, or one of a disk that is gone, or of another one. */
G4_FN static void look_for_rebuild(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record now;
	uint32_t there = G4_JOBS;

	memset(&now, 0, sizeof(now));
	const bool rebuilds = g4_rebuild_ask(wg, fs, &now) == 0;
	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (goes_on(&jobs->records[i]) && jobs->records[i].kind == G4_JOB_REBUILD)
			there = i;
	if (there < G4_JOBS && !rebuilds) {
		const bool done = g4_rebuild_is_done(wg, fs, &jobs->records[there]);
		end_job(fs, &jobs->records[there], done ? G4_JOB_DONE : G4_JOB_FAILED, done ? 0 : -G4_E_NO_TARGET);
	}
	if (there < G4_JOBS && rebuilds)
		(void)g4_rebuild_ask(wg, fs, &jobs->records[there]);
	if (there < G4_JOBS || !rebuilds)
		return;
	there = find_place(jobs);
	if (there == G4_JOBS)
		return;
	now.kind = G4_JOB_REBUILD;
	now.state = G4_JOB_RUNNING;
	now.started_ns = g4_now(fs);
	now.number = ++jobs->count;
	jobs->records[there] = now;
}

G4_FN int g4_jobs_load(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_root *root = NULL;
	uint32_t line;
	int rc = get_root(wg, fs, &line, &root);

	if (rc < 0)
		return rc;
	fs->damaged_pages = root->damaged_pages;
	for (uint32_t d = 0; d < G4_MAX_DISKS; d++)
		fs->space.damaged[d] = fs->super.disk_damaged[d];
	if (!(fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS))
		fs->space.damaged[0] = root->damaged_pages;
	jobs->count = root->job_count;
	jobs->findings_lost = root->findings_lost;
	for (uint32_t i = 0; i < G4_FINDINGS; i++)
		if (g4_finding_is_valid(&root->findings[i]))
			jobs->findings[i] = root->findings[i];
	for (uint32_t i = 0; i < G4_JOBS; i++) {
		if (!g4_job_is_valid(&root->jobs[i]))
			continue;
		jobs->records[i] = root->jobs[i];
		jobs->count = g4_max64(jobs->count, jobs->records[i].number);
		if (goes_on(&jobs->records[i]) && jobs->records[i].kind == G4_JOB_SCRUB)
			g4_scrub_watch(fs, jobs->records[i].skipped);
	}
	g4_cache_put(&fs->cache, line);
	jobs->logged_ns = g4_monotonic_ns();
	if (!(fs->flags & G4_FS_READ_ONLY))
		look_for_rebuild(wg, fs);
	return 0;
}

/* Jobs lock held. */
G4_FN static bool differs(const struct g4_fs *fs, const struct g4_root *root)
{
	const struct g4_jobs *jobs = &fs->jobs;

	return root->damaged_pages != g4_load64_rlx(&fs->damaged_pages) || root->job_count != jobs->count ||
	       root->findings_lost != jobs->findings_lost ||
	       !g4_bytes_equal(root->jobs, jobs->records, sizeof(jobs->records)) ||
	       !g4_bytes_equal(root->findings, jobs->findings, sizeof(jobs->findings));
}

G4_FN int g4_jobs_log(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_root *root = NULL;
	struct g4_txn txn;
	uint32_t line;
	int rc = g4_begin(wg, fs, ROOT_CREDITS, &txn);

	if (rc < 0)
		return rc;
	rc = get_root(wg, fs, &line, &root);
	if (rc == 0) {
		g4_lock(&jobs->lock);
		if (differs(fs, root)) {
			g4_txn_dirty(&txn, line);
			root->damaged_pages = g4_load64_rlx(&fs->damaged_pages);
			root->job_count = jobs->count;
			root->findings_lost = jobs->findings_lost;
			memcpy(root->jobs, jobs->records, sizeof(jobs->records));
			memcpy(root->findings, jobs->findings, sizeof(jobs->findings));
		}
		jobs->logged_ns = g4_monotonic_ns();
		g4_unlock(&jobs->lock);
		g4_cache_put(&fs->cache, line);
	}
	return g4_end(fs, &txn, rc);
}

/* ------------------------------------------------------------------ steps */

/* The first that runs. Jobs lock held. */
G4_FN static uint32_t find_running(const struct g4_jobs *jobs)
{
	uint32_t found = G4_JOBS;

	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (jobs->records[i].kind != G4_JOB_NONE && jobs->records[i].state == G4_JOB_RUNNING &&
		    (found == G4_JOBS || jobs->throttles[i].last_ns < jobs->throttles[found].last_ns))
			found = i;
	return found;
}

/* calm: users have nothing to do, or are to wait. */
G4_FN static int do_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record, bool calm)
{
	switch (record->kind) {
	case G4_JOB_SCRUB:
		return g4_scrub_step(wg, fs, record);
	case G4_JOB_REBUILD:
		return g4_rebuild_step(wg, fs, record, calm);
	case G4_JOB_REBALANCE:
		return g4_rebalance_step(wg, fs, record);
	case G4_JOB_REMOVE:
		return g4_leave_step(wg, fs, record);
	default:
		return -G4_E_NOSYS;
	}
}

/* What a step came to. Jobs lock held. True: the job is over. */
G4_FN static bool settle(struct g4_fs *fs, struct g4_job_record *record, const struct g4_job_record *after, int rc)
{
	const uint32_t state = record->state;
	const uint64_t rate = record->rate;

	*record = *after; /* what commands change: */
	record->state = state;
	record->rate = rate;
	if (rc == 0 || state == G4_JOB_CANCELLED)
		return false;
	end_job(fs, record, rc > 0 ? G4_JOB_DONE : G4_JOB_FAILED, rc);
	return true;
}

G4_FN static void give_back(struct g4_jobs *jobs)
{
	g4_store32_rel(&jobs->owner, 0);
	g4_wake(&jobs->owner);
}

G4_FN static bool relieve(struct g4_wg *wg, struct g4_fs *fs);

G4_FN uint64_t g4_jobs_serve(struct g4_wg *wg, struct g4_fs *fs, bool idle)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record record;
	const uint64_t begun = g4_monotonic_ns();

	if ((fs->flags & G4_FS_READ_ONLY) || g4_load32_acq(&fs->journal.aborted))
		return UINT64_MAX;
	if (g4_load32_rlx(&jobs->wanted) != 0 || !g4_cas32_acq(&jobs->owner, 0, 1))
		return G4_JOB_LOOK_NS;
	if (g4_dedup_serve(wg, fs)) { /* before what a job does: what is written meanwhile may be there already */
		give_back(jobs);
		return 0;
	}
	if (!g4_rebalance_take_back(wg, fs)) { /* of a job that is over, perhaps */
		give_back(jobs);
		return G4_JOB_LOOK_NS;
	}
	if (g4_load32_acq(&jobs->look) != 0 && relieve(wg, fs)) {
		give_back(jobs);
		(void)g4_jobs_log(wg, fs); /* the set knows of it without */
		return 0;
	}
	g4_lock(&jobs->lock);
	const uint32_t i = find_running(jobs);
	uint64_t wait = UINT64_MAX;
	bool calm = idle;
	if (i < G4_JOBS) {
		record = jobs->records[i];
		calm = idle || (record.flags & G4_JOB_EAGER);
		wait = g4_job_wait_ns(&jobs->throttles[i], begun, calm);
	}
	g4_unlock(&jobs->lock);
	if (wait != 0) {
		give_back(jobs);
		return wait;
	}
	const uint64_t before = record.bytes, was_done = record.done, was_at = record.cursor[0];
	int rc = do_step(wg, fs, &record, calm);
	const uint64_t now = g4_monotonic_ns();
	g4_lock(&jobs->lock);
	record.run_ns += now - (jobs->throttles[i].last_ns ? jobs->throttles[i].last_ns : begun);
	g4_job_paid(&jobs->throttles[i], begun, now, record.bytes - before, jobs->records[i].rate);
	const bool over = settle(fs, &jobs->records[i], &record, rc);
	const bool due = over || now - jobs->logged_ns > G4_JOB_LOG_NS;
	g4_unlock(&jobs->lock);
	if (over && record.kind == G4_JOB_SCRUB)
		g4_scrub_leave(fs);
	give_back(jobs);
	if (due)
		(void)g4_jobs_log(wg, fs); /* the journal tells its own errors */
	/* one that copies and has neither moved anything nor come further found somebody writing there */
	const bool moved = record.bytes != before || record.done != was_done ||
			   (record.kind == G4_JOB_REBALANCE && record.cursor[0] != was_at);
	return record.kind != G4_JOB_SCRUB && rc == 0 && !moved ? G4_JOB_LOOK_NS : 0;
}

/* ------------------------------------------------------------------ commands */

G4_FN static void changed(struct g4_jobs *jobs)
{
	g4_add32(&jobs->changed, 1);
	g4_wake(&jobs->changed);
}

/* Waits until nobody does a step, and keeps others from doing one. */
G4_FN static void take_over(struct g4_jobs *jobs)
{
	g4_add32(&jobs->wanted, 1);
	while (!g4_cas32_acq(&jobs->owner, 0, 1))
		g4_wait(&jobs->owner, 1);
	g4_sub32(&jobs->wanted, 1);
}

G4_FN bool g4_jobs_give_room(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_lent *lent = &fs->jobs.lent;
	const uint64_t last = g4_load64_acq(&lent->last_ns), now = g4_monotonic_ns();

	if (last == 0 || (g4_load64_acq(&lent->pages) == 0 && now > last + REST_NS))
		return false;
	take_over(&fs->jobs);
	g4_store64_rel(&lent->rest_ns, g4_monotonic_ns() + REST_NS);
	const bool back = g4_rebalance_take_back(wg, fs);
	give_back(&fs->jobs);
	return back;
}

G4_FN static int log_durably(struct g4_wg *wg, struct g4_fs *fs)
{
	int rc = g4_jobs_log(wg, fs);

	return rc < 0 ? rc : g4_commit(wg, fs, UINT64_MAX, false);
}

/* Whether two jobs would get into each other's way: of one kind they do the same work, and what one moves away the other moves there. */
G4_FN static bool are_rivals(uint32_t kind, uint32_t other)
{
	const bool moves = kind == G4_JOB_REBALANCE || kind == G4_JOB_REMOVE;

	return kind == other || (moves && (other == G4_JOB_REBALANCE || other == G4_JOB_REMOVE));
}

/* Takes a place for a job of this kind; jobs->owner is the caller's. */
G4_FN static int make_place(struct g4_jobs *jobs, uint32_t kind, uint32_t *place)
{
	int rc = 0;

	g4_lock(&jobs->lock);
	*place = find_place(jobs);
	for (uint32_t k = 0; k < G4_JOBS; k++)
		if (goes_on(&jobs->records[k]) && are_rivals(kind, jobs->records[k].kind))
			rc = -G4_E_BUSY;
	g4_unlock(&jobs->lock);
	return *place == G4_JOBS ? -G4_E_BUSY : rc;
}

/* A job begins as the record says. */
G4_FN static void put_record(struct g4_fs *fs, uint32_t place, uint32_t kind, struct g4_job_record *record,
			     struct g4_cmd *cmd)
{
	struct g4_jobs *jobs = &fs->jobs;

	record->kind = kind;
	record->state = G4_JOB_RUNNING;
	record->flags = cmd->flags;
	record->rate = cmd->rate;
	record->started_ns = g4_now(fs);
	g4_lock(&jobs->lock);
	record->number = ++jobs->count;
	jobs->records[place] = *record;
	memset(&jobs->throttles[place], 0, sizeof(jobs->throttles[place]));
	if (kind == G4_JOB_SCRUB) {
		memset(jobs->findings, 0, sizeof(jobs->findings));
		jobs->findings_lost = 0;
	}
	g4_unlock(&jobs->lock);
}

G4_FN int g4_job_start(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record wish;
	uint32_t place;
	int rc = 0;

	if (cmd->kind != G4_JOB_SCRUB || (cmd->flags & ~G4_JOB_FLAGS))
		return -G4_E_INVAL;
	memset(&wish, 0, sizeof(wish));
	if (cmd->node != 0 && cmd->node != G4_NODE_ROOT)
		rc = g4_scrub_limit(wg, fs, cmd->node, &wish);
	if (rc < 0)
		return rc;
	take_over(jobs);
	rc = make_place(jobs, G4_JOB_SCRUB, &place);
	if (rc == 0) {
		put_record(fs, place, G4_JOB_SCRUB, &wish, cmd);
		g4_scrub_watch(fs, 0);
		cmd->value = wish.number;
	}
	give_back(jobs);
	if (rc < 0)
		return rc;
	changed(jobs);
	return log_durably(wg, fs);
}

/* jobs->owner is the caller's. A rebuild that stands still does not find by itself that its disk has failed, and would keep out others. */
G4_FN static void end_orphan(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record now;

	for (uint32_t i = 0; i < G4_JOBS; i++) {
		if (jobs->records[i].kind != G4_JOB_REBUILD || jobs->records[i].state != G4_JOB_PAUSED ||
		    g4_rebuild_ask(wg, fs, &now) != -G4_E_NO_TARGET)
			continue;
		g4_lock(&jobs->lock);
		end_job(fs, &jobs->records[i], G4_JOB_FAILED, -G4_E_NO_TARGET);
		g4_unlock(&jobs->lock);
	}
}

G4_FN static uint32_t kind_of(uint32_t order)
{
	switch (order) {
	case G4_DISK_REBALANCE:
		return G4_JOB_REBALANCE;
	case G4_DISK_REMOVE:
		return G4_JOB_REMOVE;
	case G4_DISK_REBUILD:
	case G4_DISK_REPLACE:
		return G4_JOB_REBUILD;
	default:
		return G4_JOB_NONE;
	}
}

/* The set says durably that a disk is being rebuilt before there is a record of it. Of what is moved there is nothing but the record. */
G4_FN static int start_by_disk(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	const uint32_t kind = kind_of(cmd->mask);
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record record;
	uint32_t place;

	if (cmd->flags & ~G4_JOB_EAGER)
		return -G4_E_INVAL;
	memset(&record, 0, sizeof(record));
	take_over(jobs);
	end_orphan(wg, fs);
	int rc = make_place(jobs, kind, &place);
	if (rc == 0)
		rc = kind == G4_JOB_REBALANCE ? g4_rebalance_order(wg, fs, cmd, &record) :
		     kind == G4_JOB_REMOVE    ? g4_leave_order(wg, fs, cmd, &record) :
						g4_rebuild_order(wg, fs, cmd, &record);
	if (rc == 0)
		put_record(fs, place, kind, &record, cmd);
	give_back(jobs);
	if (rc < 0)
		return rc;
	changed(jobs);
	return log_durably(wg, fs);
}

/* jobs->owner is the caller's. True: a spare takes the place of a disk that has failed, as by REPLACE, and a job is there. */
G4_FN static bool relieve(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_job_record record;
	struct g4_cmd plain;
	uint32_t place;

	g4_store32_rlx(&fs->jobs.look, 0);
	memset(&record, 0, sizeof(record));
	memset(&plain, 0, sizeof(plain));
	end_orphan(wg, fs);
	if (make_place(&fs->jobs, G4_JOB_REBUILD, &place) < 0 || g4_rebuild_relieve(wg, fs, &record) < 0)
		return false;
	put_record(fs, place, G4_JOB_REBUILD, &record, &plain);
	return true;
}

G4_FN void g4_jobs_look(struct g4_fs *fs)
{
	if ((fs->flags & G4_FS_READ_ONLY) || !(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_DISKS))
		return;
	g4_store32_rel(&fs->jobs.look, 1);
	changed(&fs->jobs);
}

/* What it runs on has memory for the groups that there are, and no more. */
G4_FN static bool can_grow(const struct g4_fs *fs)
{
	return fs->alloc.most_groups > fs->meta.layout.group_count ||
	       fs->alloc.most_groups >= g4_layout_room(&fs->meta.layout);
}

/*
 * A disk, or chunks of another level. A disk that brought nothing that its tables can use is one of the set all the same: the
 * size is what it was. Who changes the size or the superblocks just now is waited for: the order is carried out, and is not to
 * be given again.
 */
G4_FN static int add_disk(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_job_record unused;
	uint64_t limit;

	take_over(jobs); /* one order at a time, with its growth, and no rebuild begins meanwhile */
	int rc = can_grow(fs) ? g4_rebuild_order(wg, fs, cmd, &unused) : -G4_E_NOTSUP;
	if (rc == 0) { /* what the set says of itself */
		g4_or64(&fs->super.features_incompat, G4_FEATURE_INCOMPAT_CHUNKS);
		while ((rc = g4_resize(wg, fs, g4_space_bytes(&fs->space), false, &limit)) == -G4_E_BUSY)
			g4_pause();
	}
	give_back(jobs);
	return rc;
}

G4_FN int g4_disk_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_job_record unused;

	/* a job that nobody serves would have wiped its disk already */
	if (cmd->mask != G4_DISK_NAME && ((fs->flags & G4_FS_READ_ONLY) || g4_load32_acq(&fs->journal.aborted)))
		return -G4_E_ROFS;
	if (kind_of(cmd->mask) != G4_JOB_NONE)
		return start_by_disk(wg, fs, cmd);
	if ((cmd->mask == G4_DISK_ADD || cmd->mask == G4_DISK_ASSIGN) && !cmd->flags)
		return add_disk(wg, fs, cmd);
	if (cmd->mask < G4_DISK_OFFLINE || cmd->mask > G4_DISK_REMOVE_SPARE || cmd->flags)
		return -G4_E_INVAL;
	const int rc = g4_rebuild_order(wg, fs, cmd, &unused);
	if (rc == 0 && cmd->mask == G4_DISK_ADD_SPARE)
		g4_jobs_look(fs);
	return rc;
}

/* Jobs lock held. */
G4_FN static int obey(struct g4_fs *fs, struct g4_job_record *job, struct g4_job_throttle *throttle,
		      const struct g4_cmd *cmd)
{
	if (!goes_on(job))
		return -G4_E_INVAL;
	switch (cmd->mask) {
	case G4_JOB_PAUSE:
		job->state = G4_JOB_PAUSED;
		return 0;
	case G4_JOB_RESUME:
		job->state = G4_JOB_RUNNING;
		memset(throttle, 0, sizeof(*throttle));
		return 0;
	case G4_JOB_CANCEL:
		job->state = G4_JOB_CANCELLED;
		job->ended_ns = g4_now(fs);
		return 0;
	case G4_JOB_LIMIT:
		job->rate = cmd->rate;
		throttle->due_ns = 0;
		return 0;
	default:
		return -G4_E_INVAL;
	}
}

G4_FN int g4_job_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_jobs *jobs = &fs->jobs;
	uint32_t kind = G4_JOB_NONE;
	int rc = -G4_E_NOENT;

	take_over(jobs);
	g4_lock(&jobs->lock);
	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (jobs->records[i].kind != G4_JOB_NONE && jobs->records[i].number == cmd->number) {
			kind = jobs->records[i].kind;
			rc = obey(fs, &jobs->records[i], &jobs->throttles[i], cmd);
		}
	g4_unlock(&jobs->lock);
	if (rc == 0 && cmd->mask == G4_JOB_CANCEL && kind == G4_JOB_SCRUB)
		g4_scrub_leave(fs);
	const bool obeyed = rc == 0;
	if (obeyed && kind == G4_JOB_REBUILD)
		rc = g4_rebuild_obey(wg, fs, cmd->mask);
	give_back(jobs);
	if (!obeyed)
		return rc;
	changed(jobs);
	const int logged = log_durably(wg, fs); /* the job is in its new state, whatever the set said */
	return rc < 0 ? rc : logged;
}

G4_FN static void tell_cache(const struct g4_cache *cache, struct g4_cache_use *use)
{
	struct g4_cache_counts counts;

	g4_cache_count_all(cache, &counts);
	use->bytes = (uint64_t)cache->line_count * G4_PAGE_BYTES;
	use->data_hits = counts.hits[G4_CACHE_DATA];
	use->data_misses = counts.misses[G4_CACHE_DATA];
	use->metadata_hits = counts.hits[G4_CACHE_METADATA];
	use->metadata_misses = counts.misses[G4_CACHE_METADATA];
	use->locked_hits = counts.events[G4_CACHE_LOCKED_HIT];
	use->waited_hits = counts.events[G4_CACHE_WAITED_HIT];
	use->cold_misses = counts.events[G4_CACHE_COLD_MISS];
	use->clean_misses = counts.events[G4_CACHE_CLEAN_MISS];
	use->borrowed_lines = counts.events[G4_CACHE_BORROWED];
	use->no_lines = counts.events[G4_CACHE_NO_LINE];
	use->peeked_hits = counts.peeked;
	use->waited_misses = counts.waited;
	use->data_without = counts.without[G4_CACHE_DATA];
	use->metadata_without = counts.without[G4_CACHE_METADATA];
}

G4_FN static void tell_tier(const struct g4_tier *tier, struct g4_cache_use *use)
{
	use->tier_bytes = (uint64_t)tier->set_count * G4_TIER_WAYS * G4_PAGE_BYTES;
	use->tier_hits = g4_load64_rlx(&tier->counts.hits);
	use->tier_misses = g4_load64_rlx(&tier->counts.misses);
	use->tier_ahead = g4_load64_rlx(&tier->counts.ahead);
	use->tier_ahead_reads = g4_load64_rlx(&tier->counts.ahead_reads);
	use->tier_dropped = g4_load64_rlx(&tier->counts.dropped);
	use->tier_down = g4_load64_rlx(&tier->counts.down);
	use->tier_down_again = g4_load64_rlx(&tier->counts.down_again);
	use->tier_down_old = g4_load64_rlx(&tier->counts.down_old);
	use->tier_up = g4_load64_rlx(&tier->counts.up);
}

G4_FN int g4_job_list(struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_health *health = (struct g4_health *)cmd->data;
	struct g4_jobs *jobs = &fs->jobs;

	if (cmd->length < sizeof(*health))
		return -G4_E_INVAL;
	memset(health, 0, sizeof(*health));
	g4_lock(&fs->events.lock);
	const struct g4_event *last = &fs->events.last;
	health->damaged_since_mount = fs->events.posted + fs->events.lost;
	health->last.inode = last->ino;
	health->last.page = last->page;
	health->last.address = last->address;
	health->last.code = last->code;
	health->last.pages = last->code ? 1 : 0;
	const uint64_t last_disks = last->disks;
	g4_unlock(&fs->events.lock);
	health->flags = g4_fs_state(fs);
	health->mended_since_mount = g4_load64_rlx(&fs->space.mended);
	health->last_disks = last_disks;
	health->disk_count = g4_space_disks(&fs->space);
	for (uint32_t d = 0; d < health->disk_count; d++)
		health->disk_damaged[d] = g4_load64_rlx(&fs->space.damaged[d]);
	for (uint32_t level = 0; level < G4_LEVELS; level++) { /* what is reserved will be used */
		const uint64_t lent = level == G4_LEVEL_OWN ? g4_load64_acq(&jobs->lent.pages) : 0;
		const uint64_t pages = g4_alloc_free_in(&fs->alloc, level) + lent;
		const uint64_t reserved =
			g4_load64_acq(level == G4_LEVEL_OWN ? &fs->alloc.reserved : &fs->alloc.pool_reserved[level]);
		health->level_free[level] = pages > reserved ? pages - reserved : 0;
	}
	g4_lock(&jobs->lock);
	health->damaged_pages = g4_load64_rlx(&fs->damaged_pages);
	health->findings_lost = jobs->findings_lost;
	memcpy(health->jobs, jobs->records, sizeof(health->jobs));
	memcpy(health->findings, jobs->findings, sizeof(health->findings));
	g4_unlock(&jobs->lock);
	tell_cache(&fs->cache, &health->cache);
	tell_tier(&fs->space.tier, &health->cache);
	cmd->value = sizeof(*health);
	return 0;
}
