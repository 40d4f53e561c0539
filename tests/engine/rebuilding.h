/* SPDX-License-Identifier: Apache-2.0 */
/* Orders to disks of a mounted file system, and the jobs that rebuild one and rebalance all, for tests. */
#ifndef REBUILDING_H
#define REBUILDING_H

#include "disks.h"

#include "fs/mount_host.h"
#include "simt/simt_host.h"

/* flags: G4_JOB_EAGER, or 0 */
static inline int order_as(struct disks *d, uint32_t what, const char *name, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_DISK,
			     .mask = what,
			     .flags = flags,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .data = d->message,
			     .length = sizeof(d->message)};

	return d->rig.engine ? g4_engine_execute(d->rig.engine, &cmd) : g4_execute(d->rig.wg, d->rig.fs, &cmd);
}

static inline int order(struct disks *d, uint32_t what, const char *name)
{
	return order_as(d, what, name, 0);
}

static inline void begin(struct disks *d, uint32_t what, uint32_t disk)
{
	if (order(d, what, d->names[disk]) < 0)
		fail_msg("%s", d->message);
}

static inline struct g4_job_record newest_of(struct disks *d, uint32_t kind)
{
	static struct g4_health health;
	struct g4_job_record newest = {.kind = G4_JOB_NONE};
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health)};

	assert_int_equal(
		d->rig.engine ? g4_engine_execute(d->rig.engine, &list) : g4_execute(d->rig.wg, d->rig.fs, &list), 0);
	for (uint32_t k = 0; k < G4_JOBS; k++)
		if (health.jobs[k].kind == kind && health.jobs[k].number > newest.number)
			newest = health.jobs[k];
	return newest;
}

static inline struct g4_job_record job_of(struct disks *d)
{
	return newest_of(d, G4_JOB_REBUILD);
}

static inline void tell(struct disks *d, uint32_t what)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .number = job_of(d).number, .mask = what};

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &set), 0);
}

static inline void step(struct disks *d)
{
	(void)g4_jobs_serve(d->rig.wg, d->rig.fs, true);
}

static inline void finish(struct disks *d)
{
	while (job_of(d).state == G4_JOB_RUNNING)
		step(d);
	assert_int_equal(job_of(d).state, G4_JOB_DONE);
}

static inline uint32_t state_of(struct g4_dev *dev, uint32_t disk)
{
	struct g4_disk_info info;

	assert_true(g4_set_disk(dev, disk, &info));
	return info.state;
}

/* With each disk behind a fault device. requests: their requests from the mount on, or NULL. */
static inline void mount_faulty(struct disks *d, struct faulty *f, struct disks_order *requests)
{
	disks_open_faulty(d, f);
	if (requests)
		disks_watch(d, f, requests);
	disks_begin_fs(d, f->set, 0);
}

#endif
