/* SPDX-License-Identifier: Apache-2.0 */
/* A small ring between workgroups that meet damage, on whatever engine, and the thread that writes lines about it. */
#include "inode/events.h"

G4_FN void g4_event_post(struct g4_wg *wg, struct g4_fs *fs, const struct g4_event *event)
{
	struct g4_events *events = &fs->events;
	struct g4_event whole = *event;

	g4_add64(&fs->damaged_pages, 1);
	whole.disks = g4_space_blame(wg, &fs->space, g4_address_from(event->address));
	g4_lock(&events->lock);
	/* the counters are looked at without the lock, too (gpu/told.h) */
	if (events->posted - events->taken < G4_EVENTS) {
		events->ring[events->posted % G4_EVENTS] = whole;
		g4_store64_rlx(&events->posted, events->posted + 1);
	} else {
		g4_store64_rlx(&events->lost, events->lost + 1);
	}
	events->last = whole;
	g4_unlock(&events->lock);
	g4_add32(&fs->jobs.changed, 1);
	g4_wake(&fs->jobs.changed);
}

G4_FN bool g4_event_take(struct g4_fs *fs, struct g4_event *event)
{
	struct g4_events *events = &fs->events;

	g4_lock(&events->lock);
	const bool any = events->taken < events->posted;
	if (any) {
		*event = events->ring[events->taken % G4_EVENTS];
		g4_store64_rlx(&events->taken, events->taken + 1);
	}
	g4_unlock(&events->lock);
	return any;
}
