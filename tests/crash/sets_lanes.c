/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of disks that are memory, past which requests go (space/direct.h). Nobody is told of what lanes store there, so they have mappings of their own, in which all is
 * protected: whoever stores to a page comes here first, and what he has stored is noted as a request when the next page is touched, a disk is asked for anything, or
 * requests are counted.
 *
 * A process is killed, then, and what it has stored is there, in the order of the stores. But whole stripes that are granted are written by many at a time: until their
 * grant has ended each of their pages may be there, or not. There is one user, who has one grant at a time.
 */
#define _GNU_SOURCE 1

#include <signal.h>
#include <sys/mman.h>

#include "dev/dev_ops_host.h"
#include "fs/fs.h"
#include "inode/mounted.h"
#include "lab.h"

#define NO_PAGE UINT64_MAX

static struct lanes {
	struct lab *lab; /* NULL: nothing is recorded so */
	uint8_t *maps[MEMORY_DISKS];
	uint64_t touched;      /* a page that is not protected: where it is in the explorer's memory */
	bool in_stripes;       /* it is of stripes that are granted */
	const uint32_t *grant; /* its word; NULL: there is none */
	uint32_t loose;	       /* requests of its stripes */
	const struct g4_kept *kept;
	const struct g4_dev_ops *own_ops;
	struct g4_dev_ops ops;
	struct sigaction before;
} lanes;

static void note_touched(struct set_lab *s)
{
	const uint32_t disk = (uint32_t)(lanes.touched / s->disk_bytes);
	struct g4_iov iov = {s->span + lanes.touched, G4_PAGE_BYTES};
	const struct g4_io io = {.op = G4_IO_WRITE, .iov = &iov, .iov_count = 1};

	if (mprotect(lanes.maps[disk] + lanes.touched % s->disk_bytes, G4_PAGE_BYTES, PROT_READ) != 0)
		abort();
	if (s->recording) {
		set_note(s, &io, disk, lanes.touched, G4_PAGE_BYTES);
		s->requests[s->count - 1].io = NULL;
		s->requests[s->count - 1].done_at = lanes.in_stripes ? UINT32_MAX : s->count;
		lanes.loose += lanes.in_stripes;
	}
	lanes.touched = NO_PAGE;
}

void set_catch_up(struct set_lab *s)
{
	if (!lanes.lab || s != &lanes.lab->set)
		return;
	if (lanes.touched != NO_PAGE)
		note_touched(s);
	if (!lanes.grant || g4_load32_acq_sys(lanes.grant) == 0)
		return;
	lanes.grant = NULL;
	for (uint32_t k = s->count; lanes.loose > 0; k--)
		if (s->requests[k - 1].done_at == UINT32_MAX) {
			s->requests[k - 1].done_at = s->count;
			lanes.loose--;
		}
}

/* Somebody stores to a page. */
static void touch(struct lab *lab, uint32_t disk, uint64_t within)
{
	struct set_lab *s = &lab->set;

	pthread_mutex_lock(&s->lock);
	set_catch_up(s);
	lanes.touched = disk * s->disk_bytes + within;
	lanes.in_stripes = lanes.grant != NULL;
	memory_save(&lab->memory, lanes.touched, G4_PAGE_BYTES);
	lab->counts->beside_kept += lanes.kept && g4_kept_any(lanes.kept);
	if (mprotect(lanes.maps[disk] + within, G4_PAGE_BYTES, PROT_READ | PROT_WRITE) != 0)
		abort();
	pthread_mutex_unlock(&s->lock);
}

static void fault(int number, siginfo_t *info, void *context)
{
	const uint8_t *at = (const uint8_t *)info->si_addr;

	(void)context;
	for (uint32_t n = 0; lanes.lab && n < lanes.lab->set.disks.count; n++)
		if (at >= lanes.maps[n] && at < lanes.maps[n] + lanes.lab->set.disk_bytes) {
			touch(lanes.lab, n, g4_align_down((uint64_t)(at - lanes.maps[n]), G4_PAGE_BYTES));
			return;
		}
	(void)signal(number, SIG_DFL); /* it comes again */
}

/* How many stripes are granted of which a part is kept. */
static uint64_t kept_among(uint64_t address, uint64_t bytes)
{
	uint64_t stripes = 0;

	for (uint32_t b = 0; b < G4_KEPT_BUCKETS; b++)
		for (uint32_t way = 0; way < G4_KEPT_WAYS; way++) {
			const struct g4_kept_slot *slot = &lanes.kept->buckets[b].slots[way];
			stripes += slot->pages && slot->stripe >= address && slot->stripe < address + bytes;
		}
	return stripes;
}

static int watched_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	const int rc = lanes.own_ops->grant(wg, dev, address, bytes, number);
	struct set_lab *s = &lanes.lab->set;

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&s->lock);
	set_catch_up(s);
	lanes.grant = &lanes.own_ops->words(dev)[number & ~G4_DEV_GRANT_IN_USE];
	lanes.lab->counts->made_whole += kept_among(address, bytes);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void set_lanes_begin(struct lab *lab)
{
	const struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	const uint64_t bytes = lab->set.disk_bytes;

	lanes = (struct lanes){.lab = lab, .touched = NO_PAGE};
	for (uint32_t n = 0; n < lab->set.disks.count;
	     n++) { /* at a place of its own: others are used again (recycled.c) */
		lanes.maps[n] = (uint8_t *)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (lanes.maps[n] == MAP_FAILED || mmap(lanes.maps[n], bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
							lab->set.disks.fds[n], 0) == MAP_FAILED)
			abort();
	}
	if (sigaction(SIGSEGV, &action, &lanes.before) != 0)
		abort();
}

void set_lanes_map(struct set_lab *s, uint32_t disk, struct g4_dev *dev, const struct g4_dev *inner)
{
	if (!lanes.lab || s != &lanes.lab->set)
		return;
	dev->map = lanes.maps[disk];
	dev->persist = G4_DEV_PERSIST_NEVER;
	dev->opened = inner->opened;
}

bool set_lanes_mounted(struct lab *lab, const struct g4_fs *fs)
{
	struct g4_dev *set = lab->set.device;

	lanes.own_ops = set->ops;
	lanes.ops = *set->ops;
	lanes.ops.grant = watched_grant;
	set->ops = &lanes.ops;
	lanes.kept = &fs->space.direct.kept;
	return g4_direct_is_open(&fs->space.direct);
}

void set_lanes_end(struct lab *lab)
{
	for (uint32_t n = 0; n < lab->set.disks.count; n++)
		munmap(lanes.maps[n], lab->set.disk_bytes);
	(void)sigaction(SIGSEGV, &lanes.before, NULL);
	lanes.lab = NULL;
}
