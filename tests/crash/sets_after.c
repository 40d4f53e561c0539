/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a set behind a crash. Of some states the set is mounted as a user would go on with it: something is written, what it lacks
 * comes back or gets another disk in its place, jobs go on to their ends, and something is written meanwhile. Then all disks have to have all
 * that the mount found first, and what was written since, with any others lost that may be: what a rebuild has made is all that there is.
 * At last more of it rots than can be made good: what is lost is an error, and nothing else.
 */
#include "fs/fs.h"
#include "fs/jobs.h"
#include "fs/mount_host.h"

#include "sets_worn.h"

#define MOST_STEPS 20000u
#define COMBINATIONS 3u /* of others that are lost then */
#define LATER_ID 999u	/* whose file is written */

struct life {
	struct session *s;
	struct lab *lab;
	struct g4_fs *fs; /* NULL: not mounted */
	struct actor actor;
	const struct tree *first; /* what the mount behind the crash found */
	struct tree now, then;
	uint64_t random;
	uint32_t active; /* the set's disks in the end */
	uint32_t fresh;	 /* disks that came back, or are new */
	char text[1400];
};

static bool fails(struct life *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fails(struct life *l, const char *format, ...)
{
	va_list arguments;
	const int n = snprintf(l->text, sizeof(l->text), "afterwards: ");

	va_start(arguments, format);
	vsnprintf(l->text + n, sizeof(l->text) - (size_t)n, format, arguments);
	va_end(arguments);
	return false;
}

static struct set_counts *counts(const struct life *l)
{
	return &l->lab->counts->by_set[l->s->w->set];
}

/* ------------------------------------------------------------------ mounting and looking */

static bool mount(struct life *l, uint32_t present)
{
	char message[1024];

	lab_present(l->lab, present);
	l->fs = lab_mount(l->lab, true, message, sizeof(message));
	if (!l->fs)
		return fails(l, "with disks %x (bits) it does not mount: %s", present, message);
	actor_start(&l->actor, l->fs, l->lab->wg[0]);
	return true;
}

static bool unmount(struct life *l, bool clean)
{
	const int rc = l->fs ? lab_unmount(l->lab, l->fs, clean) : 0;

	l->fs = NULL;
	return rc == 0 || !clean || fails(l, "it does not unmount: %s", g4_strerror(rc));
}

static bool see(struct life *l, struct tree *tree)
{
	const char *what;
	const int rc = look(&l->actor.rig, tree, &what);

	return rc == 0 || fails(l, "%s: %s", what, g4_strerror(rc));
}

static bool same_node(const struct tree *a, const struct node *x, const struct tree *b, const struct node *y)
{
	return same_but_contents(x, y) && x->size == y->size && x->page_count == y->page_count &&
	       (x->page_count == 0 ||
		memcmp(a->pages + x->first_page, b->pages + y->first_page, x->page_count * sizeof(uint64_t)) == 0);
}

/* `later`: `now` has a file more, which was made since. */
static bool is_as_before(struct life *l, const struct tree *before, const struct tree *now, bool later,
			 const char *when)
{
	uint32_t k = 0;

	if (now->count != before->count + later)
		return fails(l, "%s there are %u names instead of %u", when, now->count, before->count + later);
	for (uint32_t n = 0; n < now->count; n++) {
		if (later && strcmp(now->nodes[n].path, SECOND_LIFE) == 0)
			continue;
		if (!same_node(before, &before->nodes[k], now, &now->nodes[n]))
			return fails(l, "%s %s is another than the mount behind the crash had found", when,
				     now->nodes[n].path);
		k++;
	}
	return true;
}

/* ------------------------------------------------------------------ going on */

static bool write_some(struct life *l, uint64_t offset)
{
	const struct part parts[] = {
		{.verb = CREATE, .path = SECOND_LIFE, .id = LATER_ID},
		{.verb = WRITE, .path = SECOND_LIFE, .offset = offset, .bytes = 30000, .id = LATER_ID},
		{.verb = SYNCFS},
	};

	for (uint32_t k = offset > 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		const int rc = part_run(&l->actor, &parts[k]);
		if (rc < 0)
			return fails(l, "a file can not be written: %s", g4_strerror(rc));
	}
	return true;
}

static bool jobs_run(const struct life *l)
{
	bool runs = false;

	for (uint32_t i = 0; i < G4_JOBS; i++)
		runs |= l->fs->jobs.records[i].kind != G4_JOB_NONE && l->fs->jobs.records[i].state == G4_JOB_RUNNING;
	return runs;
}

static bool step(struct life *l)
{
	(void)g4_jobs_serve(l->lab->wg[0], l->fs, true);
	return jobs_run(l);
}

/* Of nobody else's: whoever was lost at the crash, or was put aside before. */
static uint32_t free_slot(const struct life *l, const struct set_members *m)
{
	const uint32_t free = lab_all_disks(l->lab) & ~(m->active | m->rebuilt | m->spares);

	return free ? (uint32_t)__builtin_ctz(free) : UINT32_MAX;
}

static void clear_disk(struct lab *lab, uint32_t disk)
{
	static const uint8_t zeros[G4_PAGE_BYTES];
	const uint64_t from = disk * lab->set.disk_bytes;

	for (uint64_t at = from; at < from + lab->set.disk_bytes; at += G4_PAGE_BYTES)
		if (memcmp(lab->memory.bytes + at, zeros, G4_PAGE_BYTES) != 0) {
			memory_save(&lab->memory, at, G4_PAGE_BYTES);
			memset(lab->memory.bytes + at, 0, G4_PAGE_BYTES);
		}
}

static int order(struct life *l, uint32_t disk, uint32_t what, char *message, size_t room)
{
	const char *name = l->lab->set.disks.names[disk];
	struct g4_cmd cmd = {.op = G4_CMD_DISK,
			     .mask = what,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .data = message,
			     .length = room};

	message[0] = 0;
	return g4_execute(l->lab->wg[0], l->fs, &cmd);
}

/* A disk that is missing comes back, if it is one of the set still and has missed something, or another one is in its place. */
static bool bring_one(struct life *l, const struct set_members *m)
{
	const uint32_t disk = free_slot(l, m);
	char message[512];
	int rc = -G4_E_NOENT;

	if (disk == UINT32_MAX)
		return fails(l, "disks are missing, and none is left");
	if (rig_random(&l->random) % 2 == 0)
		rc = order(l, disk, G4_DISK_REBUILD, message, sizeof(message));
	if (rc < 0) {
		clear_disk(l->lab, disk);
		rc = order(l, disk, G4_DISK_REPLACE, message, sizeof(message));
	}
	return rc == 0 || fails(l, "disk %u can not take the place of one that is missing: %s: %s", disk,
				g4_strerror(rc), message);
}

/* Jobs go on to their ends, and the set lacks nothing. */
static bool make_whole(struct life *l)
{
	struct set_members m;
	uint64_t written = 30000;

	for (uint32_t k = 0; k < MOST_STEPS; k++) {
		g4_jobs_look(l->fs);
		const bool runs = step(l);
		set_find_members(l->lab, &m);
		if (!runs && m.missing == 0 && m.rebuilt == 0)
			return true;
		if (runs && k % 4 == 1 && written < 200000) {
			if (!write_some(l, written))
				return false;
			written += 30000;
		}
		if (runs)
			continue;
		if (m.rebuilt != 0)
			return fails(l, "disk %x is being rebuilt, and no job does it", m.rebuilt);
		if (m.spares != 0 && rig_random(&l->random) % 2 == 0) {
			g4_jobs_look(l->fs);
			if (step(l)) {
				counts(l)->remade++;
				continue;
			}
		}
		if (!bring_one(l, &m))
			return false;
		counts(l)->remade++;
	}
	return fails(l, "what a set lacks is not made in %u steps", MOST_STEPS);
}

/* What has rotted of copies is made good, and nothing is found that is not. */
static bool scrub(struct life *l)
{
	char why[128];

	return sets_scrub(l->lab, l->fs, &l->actor, why, sizeof(why)) || fails(l, "%s", why);
}

static bool go_on(struct life *l)
{
	struct set_members before, after;

	set_find_members(l->lab, &before);
	if (!see(l, &l->now) || !is_as_before(l, l->first, &l->now, false, "mounted again") || !write_some(l, 0) ||
	    !make_whole(l) || (l->lab->rotten != 0 && !scrub(l)) || !see(l, &l->then) ||
	    !is_as_before(l, l->first, &l->then, true, "with all disks again"))
		return false;
	set_find_members(l->lab, &after);
	l->fresh = after.active & ~before.active;
	return true;
}

/* ------------------------------------------------------------------ and then others are lost */

static bool is_clean(struct life *l)
{
	struct outcome outcome = {0};

	run_fsck(l->lab, &outcome, true, ANY_SPACE);
	if (!outcome.bad)
		return true;
	fails(l, "%s", outcome.text);
	free(outcome.text);
	return false;
}

static bool ends_clean(struct life *l)
{
	struct set_members m;

	set_find_members(l->lab, &m);
	if (!unmount(l, true))
		return false;
	l->lab->set.used = l->active = m.active;
	return is_clean(l);
}

static bool look_without(struct life *l, uint32_t active, uint32_t lost)
{
	const uint32_t mark = memory_mark(&l->lab->memory);
	char when[64];

	snprintf(when, sizeof(when), "with disks %x (bits) lost of %x", lost, active);
	bool good = mount(l, active & ~lost) && see(l, &l->now) && is_as_before(l, &l->then, &l->now, false, when);

	if (l->fs)
		good = unmount(l, false) && good;
	memory_back(&l->lab->memory, mark);
	counts(l)->then_lost++;
	return good;
}

/* As many as may be, of those that were there first: what was made since has to do. */
static uint32_t choose_others(struct life *l, uint32_t active)
{
	const uint32_t all = lab_all_disks(l->lab);
	uint32_t lost = 0;

	for (uint32_t k = set_kinds[l->lab->kind].spare; k > 0;) {
		const uint32_t old = active & ~l->fresh & ~lost, disk = 1u << rig_random(&l->random) % MEMORY_DISKS;
		if (!(disk & all & (old ? old : active & ~lost)))
			continue;
		lost |= disk;
		k--;
	}
	return lost;
}

static bool loses_others(struct life *l)
{
	const uint32_t active = l->active;
	uint32_t done[COMBINATIONS] = {0};

	for (uint32_t n = 0; n < COMBINATIONS && set_kinds[l->lab->kind].spare > 0; n++) {
		const uint32_t lost = choose_others(l, active);
		bool known = false;
		for (uint32_t k = 0; k < n; k++)
			known |= done[k] == lost;
		done[n] = lost;
		if (!known && !look_without(l, active, lost))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ and at last it rots */

static bool wears_out(struct life *l)
{
	const int n = snprintf(l->text, sizeof(l->text), "afterwards, ");

	char *text = l->text + n;
	const size_t room = sizeof(l->text) - (size_t)n;

	if (rig_setting("G4_TEST_CHECKSUM", 1) == 0) /* nobody could tell */
		return true;
	if (set_kinds[l->lab->kind].spare > 0 &&
	    !sets_mend(l->lab, l->active, choose_others(l, l->active), &l->then, rig_random(&l->random), text, room))
		return false;
	return sets_wear_out(l->lab, l->active, &l->then, rig_random(&l->random), text, room);
}

/* ------------------------------------------------------------------ one state */

bool sets_lives_on(const struct session *s, uint32_t index)
{
	const struct lab *lab = s->lab;
	const struct set_kind *kind = &set_kinds[lab->kind];
	uint32_t every = lab->after;

	if ((lab->set.may_leave_out || lab->rotten != 0) && every > 8) /* disks come and go, and few states rot */
		every /= 8;
	return every > 0 && lab->kind != 0 && !s->outer && !lab->outcome[index].bad &&
	       (kind->spare > 0 || kind->idle > 0) &&
	       mix(s->seed ^ UINT64_C(0xaf7e), s->number * 256 + lab->memory.present) % every == 0;
}

void sets_live_on(struct session *s, uint32_t index)
{
	struct lab *lab = s->lab;
	const uint32_t present = lab->memory.present;
	struct life l = {.s = s,
			 .lab = lab,
			 .first = &lab->outcome[index].tree,
			 .random = mix(s->seed ^ UINT64_C(0x11fe), s->number * 256 + present)};

	counts(&l)->lived_on++;
	const bool good = mount(&l, present) && go_on(&l) && ends_clean(&l) && loses_others(&l) && wears_out(&l);
	if (l.fs)
		unmount(&l, false);
	lab_present(lab, present);
	if (!good) {
		const struct outcome outcome = {.tree = l.now};
		violation(s, &outcome, l.text);
	}
	tree_free(&l.now);
	tree_free(&l.then);
}
