/* SPDX-License-Identifier: Apache-2.0 */
/* Sets that get disks and lose some, also while others fail, for tests. */
#ifndef REMOVING_H
#define REMOVING_H

#include "disks.h"

#include "fs/resize_host.h"

static inline uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static inline struct g4_dev *open_all(struct disks *d)
{
	struct g4_dev *set;

	if (disks_try_open(d, all_of(d), false, 0, &set) < 0)
		fail_msg("%s", d->message);
	return set;
}

/* The disk behind the last becomes one of the set; the size of the file system, if that grows. */
static inline uint64_t add_next(struct disks *d, bool grows)
{
	struct g4_dev *set = open_all(d);
	uint64_t bytes = 0;
	int rc = g4_set_add_to(set, NULL, d->names[d->count], d->message, sizeof(d->message));

	if (rc == 0 && grows)
		rc = g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message));
	if (rc < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
	d->count++;
	return bytes;
}

/* What the first disks have, as many as the set has; to be freed. And it is there again. */
static inline void keep_disks(const struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++) {
		before[n] = (uint8_t *)malloc(d->bytes[n]);
		assert_non_null(before[n]);
		rig_copy(before[n], d->memory[n], d->bytes[n]);
	}
}

static inline void restore_disks(struct disks *d, uint8_t *const *before)
{
	for (uint32_t n = 0; n < d->count; n++)
		rig_copy(d->memory[n], before[n], d->bytes[n]);
}

/* The disk that each write of `disk`'s removal goes to, in their order. */
static inline uint32_t rehearse_removal(struct disks *d, uint32_t disk, uint8_t *disks)
{
	static struct disks_order order;
	uint64_t seen[MOST_DISKS] = {0}, bytes;
	uint32_t writes = 0;
	struct faulty f;

	disks_open_faulty(d, &f);
	memset(&order, 0, sizeof(order));
	disks_watch(d, &f, &order);
	g4_dev_fault_share(f.fault[disk]);
	if (g4_remove_disk(f.set, d->names[disk], NULL, &bytes, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	for (uint32_t k = 0; k < order.count; k++) {
		const uint8_t to = order.disk[k];
		if (g4_dev_fault_recorded_op(f.fault[to], seen[to]++)->op == G4_IO_WRITE)
			disks[writes++] = to;
	}
	g4_dev_close(f.set);
	g4_dev_close(f.fault[disk]);
	return writes;
}

/* All disks but the one that goes fail after the first `at` of these writes. True: it was removed. */
static inline bool remove_while_failing(struct disks *d, uint32_t disk, const uint8_t *disks, uint32_t at)
{
	struct g4_fault settings[MOST_DISKS];
	struct faulty f;
	uint64_t bytes;

	memset(settings, 0, sizeof(settings));
	for (uint32_t k = 0; k < at; k++)
		settings[disks[k]].cut_after_writes++;
	settings[disk].cut_after_writes = 0;
	disks_open_faulty(d, &f);
	for (uint32_t k = 0; k < d->count; k++) {
		settings[k].write_through = true;
		g4_dev_fault_set(f.fault[k], &settings[k]);
	}
	const int rc = g4_remove_disk(f.set, d->names[disk], NULL, &bytes, d->message, sizeof(d->message));
	g4_dev_close(f.set);
	return rc == 0;
}

/* With as many of these as can be; those that failed may be stale. */
static inline bool mount_most(struct disks *d, uint32_t among)
{
	for (int missing = 0; missing < 3; missing++)
		for (uint32_t which = among; which != 0; which = (which - 1) & among)
			if (__builtin_popcount(which) == __builtin_popcount(among) - missing &&
			    disks_try_mount(d, which, missing > 0) == 0)
				return true;
	return false;
}

#endif
