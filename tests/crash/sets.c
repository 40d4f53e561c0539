/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1

#include <sys/mman.h>

#include "fs/fs.h"
#include "fs/mount_host.h"
#include "fs/resize_host.h"
#include "lab.h"
#include "space/chunk.h"

#define SET_DISK_BYTES (10 * G4_MIB)
#define LEVELS_DISK_BYTES (26 * G4_MIB)
#define STRIPE_BYTES (16 * G4_KIB)
#define ROWS_DISK_BYTES (34 * G4_MIB) /* rows are moved in regions of 8 MiB of each disk */
#define PARITY_PLAN(n)                                                                                                 \
	{                                                                                                              \
		.raid = G4_RAID_PARITY, .parity = (n), .stripe_bytes = STRIPE_BYTES, .journal_bytes = JOURNAL_BYTES    \
	}

const struct set_kind set_kinds[SET_KINDS] = {
	{.name = "", .disks = 1},
	{.name = "raid0", .plan = {.raid = G4_RAID_0, .stripe_bytes = STRIPE_BYTES}, .disks = 2},
	{.name = "raid1", .plan = {.raid = G4_RAID_1, .copies = 2}, .disks = 2, .spare = 1},
	{.name = "raid1x3", .plan = {.raid = G4_RAID_1, .copies = 3}, .disks = 3, .spare = 2},
	{.name = "raid10", .plan = {.raid = G4_RAID_1, .copies = 2}, .disks = 4, .spare = 1},
	{.name = "raid5", .plan = PARITY_PLAN(1), .disks = 4, .spare = 1},
	{.name = "raid6", .plan = PARITY_PLAN(2), .disks = 6, .spare = 2},
	{.name = "raid6s", .plan = PARITY_PLAN(2), .disks = 4, .spare = 2},
	{.name = "raid7", .plan = PARITY_PLAN(3), .disks = 5, .spare = 3},
	{.name = "levels",
	 .plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 50},
	 .disks = 3,
	 .spare = 1,
	 .levels = true},
	{.name = "nonen", .plan = {.raid = G4_RAID_NONE}, .disks = 2, .idle = 1},
	{.name = "raid0n", .plan = {.raid = G4_RAID_0, .stripe_bytes = STRIPE_BYTES}, .disks = 2, .idle = 1},
	{.name = "raid1n", .plan = {.raid = G4_RAID_1, .copies = 2}, .disks = 2, .spare = 1, .idle = 1},
	{.name = "raid1x3n", .plan = {.raid = G4_RAID_1, .copies = 3}, .disks = 3, .spare = 2, .idle = 1},
	{.name = "raid5n", .plan = PARITY_PLAN(1), .disks = 3, .spare = 1, .idle = 1, .disk_bytes = ROWS_DISK_BYTES},
	{.name = "raid6n", .plan = PARITY_PLAN(2), .disks = 4, .spare = 2, .idle = 1, .disk_bytes = ROWS_DISK_BYTES},
};

static void must(int rc, const char *message)
{
	if (rc == 0)
		return;
	printf("preparing a set: %s: %s\n", message, g4_strerror(rc));
	exit(2);
}

/* Orders about a disk that is none of the set at first. */
static bool needs_idle(const struct operation *operation)
{
	for (uint32_t k = 0; k < OPERATION_PARTS; k++)
		if (operation->parts[k].verb == ORDER && operation->parts[k].offset == IDLE_DISK)
			return true;
	return false;
}

bool set_can(const struct set_kind *kind, const struct operation *operation, enum tree_kind tree)
{
	if (needs_idle(operation) != (kind->idle > 0))
		return false;
	if (operation_is_of_stripes(operation))
		return kind->plan.parity > 0 && tree == SMALL;
	if (!operation_is_of_disks(operation))
		return operation_is_for(operation, tree);
	if (strcmp(operation->name, "disk-add") == 0 || strcmp(operation->name, "disk-rebalance") == 0 ||
	    strcmp(operation->name, "disk-exchange") == 0)
		return true;
	if (strcmp(operation->name, "disk-restripe") == 0)
		return kind->levels;
	if (strcmp(operation->name, "disk-remove") == 0)
		return kind->plan.raid == G4_RAID_1 && kind->disks > kind->plan.copies && !kind->levels;
	return kind->spare > 0;
}

static uint32_t all_disks(const struct set_lab *s)
{
	return (1u << s->disks.count) - 1;
}

/* The disk that an order is about fails its next write. */
static struct set_lab *watching;
static struct g4_fault watched_settings;

static void fail_disk(uint32_t disk)
{
	struct g4_fault settings = watched_settings;

	settings.fail_write_at = 1;
	g4_dev_fault_set(watching->faults[disk], &settings);
}

/* ------------------------------------------------------------------ making one */

/* One disk behind the other; the test's own mappings of them are elsewhere. */
static void map_span(struct set_lab *s)
{
	const uint64_t bytes = s->disks.count * s->disk_bytes;

	s->span = (uint8_t *)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->span == MAP_FAILED)
		abort();
	for (uint32_t n = 0; n < s->disks.count; n++)
		if (mmap(s->span + n * s->disk_bytes, s->disk_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 s->disks.fds[n], 0) == MAP_FAILED)
			abort();
}

static void assign_levels(struct set_lab *s)
{
	struct disks *d = &s->disks;
	struct g4_dev *set;
	uint64_t bytes;

	must(disks_try_open(d, all_disks(s), false, 0, &set), d->message);
	must(g4_set_assign_to(set, G4_LEVEL_PARITY, 0, d->message, sizeof(d->message)), d->message);
	must(g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message)), d->message);
	g4_dev_close(set);
}

/*
 * A file of pages that are reserved, in runs that no page of 2 MiB has, takes what is left of the front, which has copies: what comes
 * behind it lies in rows. It has no contents, and nobody looks at it (look.c).
 */
static void fill_front(struct rig *rig)
{
	uint64_t ino;

	must(op_mknod(rig, G4_NODE_ROOT, UNSEEN, G4_S_IFREG | 0644, &ino), UNSEEN);
	for (uint64_t k = 0; k < 60; k++)
		must(op_fallocate(rig, ino, 0, k * 16 * G4_PAGE_BYTES, 15 * G4_PAGE_BYTES), UNSEEN);
}

static void fill_tree(struct lab *lab, const struct set_kind *kind, enum tree_kind tree)
{
	const struct g4_fs_options options = lab_fs_options();
	struct disks *d = &lab->set.disks;
	struct actor actor = {0};
	struct g4_dev *set;
	struct g4_fs *fs;

	must(disks_try_open(d, all_disks(&lab->set), false, 0, &set), d->message);
	must(g4_fs_mount(lab->wg[0], set, &options, &fs, d->message, sizeof(d->message)), d->message);
	actor_start(&actor, fs, lab->wg[0]);
	if (kind->levels)
		must(op_setxattr(&actor.rig, G4_NODE_ROOT, "gpu4fs.raid", "5", 1, 0), "gpu4fs.raid");
	if (kind->plan.parity || kind->idle) /* of what is moved something has to be there */
		fill_front(&actor.rig);
	tree_populate(&actor, tree);
	must(g4_fs_unmount(lab->wg[0], fs, true), "unmount");
	g4_dev_close(set);
}

void set_make(struct lab *lab, const struct set_kind *kind, enum tree_kind tree)
{
	struct set_lab *s = &lab->set;
	uint64_t bytes[MOST_DISKS];

	clock_restart_as(4711); /* a disk that takes another's place must have a UUID of its own */
	s->disk_bytes = kind->levels ? LEVELS_DISK_BYTES : kind->disk_bytes ? kind->disk_bytes : SET_DISK_BYTES;
	for (uint32_t n = 0; n < set_disks(kind); n++) {
		bytes[n] = s->disk_bytes;
		s->watches[n] = (struct set_watch){lab, n};
	}
	disks_make(&s->disks, set_disks(kind), bytes);
	s->disks.count = kind->disks;
	part_name_disks(s->disks.names, kind->disks, fail_disk);
	disks_format_plan(&s->disks, &kind->plan, (uint32_t)rig_setting("G4_TEST_CHECKSUM", G4_CHECKSUM_BLAKE3));
	if (kind->levels)
		assign_levels(s);
	fill_tree(lab, kind, tree);
	s->disks.count = set_disks(kind);
	map_span(s);
}

static void forget_requests(struct set_lab *s)
{
	for (uint32_t k = 0; k < s->count; k++)
		free((void *)(uintptr_t)s->requests[k].data);
	free(s->requests);
	s->requests = NULL;
	s->count = s->room = 0;
}

void set_free(struct lab *lab)
{
	struct set_lab *s = &lab->set;

	if (!s->span)
		return;
	munmap(s->span, s->disks.count * s->disk_bytes);
	s->span = NULL;
	forget_requests(s);
	disks_free(&s->disks);
}

/* ------------------------------------------------------------------ its pages */

static void leave_out(struct lab *lab, const struct g4_chunk_map *map, uint64_t from, uint64_t end)
{
	struct g4_piece piece;

	for (uint64_t at = from; at < end; at += piece.bytes) {
		g4_chunk_translate(map, at, end - at, &piece);
		for (uint32_t c = 0; c < piece.copies; c++)
			memory_leave_out(&lab->memory, piece.disks[c] * lab->set.disk_bytes + piece.offsets[c],
					 piece.bytes);
	}
}

void set_leave_out(struct lab *lab)
{
	static struct g4_chunk chunks[G4_CHUNKS_MAX];
	struct g4_chunk_map map = {.chunks = chunks};
	struct set_lab *s = &lab->set;
	const struct set_kind *kind = &set_kinds[lab->kind];
	uint64_t first[MEMORY_DISKS];
	struct g4_superblock sb;
	struct g4_layout layout;
	struct g4_dev *set;
	bool backup;

	must(disks_try_open(&s->disks, (1u << kind->disks) - 1, false, G4_DEV_READ_ONLY, &set), s->disks.message);
	must(g4_superblock_read(lab->wg[0], set, &sb, &backup), "superblock");
	g4_layout_of(&sb, &layout);
	while (g4_set_chunk(set, map.count, &chunks[map.count]))
		map.count++;
	g4_dev_close(set);
	if (kind->idle == 0) { /* else other things may come to lie there */
		leave_out(lab, &map, 0, layout.groups_address);
		leave_out(lab, &map, layout.backup_address, g4_chunk_end(chunks, map.count));
	}
	for (uint32_t n = 0; n < s->disks.count; n++)
		first[n] = s->disk_bytes;
	for (uint32_t c = 0; c < map.count; c++)
		for (uint32_t p = 0; p < (uint32_t)chunks[c].columns * chunks[c].copies; p++) {
			uint64_t *at = &first[g4_place_disk(chunks[c].places[p])];
			*at = g4_min64(*at, g4_place_address(chunks[c].places[p]));
		}
	for (uint32_t n = 0; n < s->disks.count; n++) {
		memory_leave_out(&lab->memory, n * s->disk_bytes, n < kind->disks ? first[n] : first[0]);
		memory_leave_out(&lab->memory, (n + 1) * s->disk_bytes - G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

/* ------------------------------------------------------------------ what is asked of it */

void set_note(struct set_lab *s, const struct g4_io *io, uint32_t disk, uint64_t offset, uint64_t bytes)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		s->requests = (struct request *)realloc(s->requests, s->room * sizeof(struct request));
		if (!s->requests)
			abort();
	}
	struct request *request = &s->requests[s->count++];
	uint8_t *data = (uint8_t *)malloc(bytes + 1);
	if (!data || io->op == G4_IO_DISCARD)
		abort(); /* the engine makes none; one that does needs states without and with it */
	*request = (struct request){.flush = io->op == G4_IO_FLUSH,
				    .fua = io->flags & G4_IO_FUA,
				    .done_at = UINT32_MAX,
				    .io = io,
				    .disk = disk,
				    .offset = offset,
				    .bytes = bytes,
				    .data = data};
	for (uint32_t k = 0; k < io->iov_count && bytes > 0; k++) {
		memcpy(data, io->iov[k].base, io->iov[k].bytes);
		data += io->iov[k].bytes;
	}
}

static void watch(void *context, const struct g4_io *io)
{
	const struct set_watch *w = (const struct set_watch *)context;
	struct set_lab *s = &w->lab->set;
	const bool write = io->op == G4_IO_WRITE;
	const uint64_t offset = w->disk * s->disk_bytes + (io->op == G4_IO_FLUSH ? 0 : io->offset_bytes);
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < io->iov_count && io->op != G4_IO_FLUSH; k++)
		bytes += io->iov[k].bytes;
	pthread_mutex_lock(&s->lock);
	set_catch_up(s);
	if (io->op == G4_IO_READ || write)
		recall_request(w->lab->recall, write, offset, bytes);
	if (write)
		memory_save(&w->lab->memory, offset, bytes);
	if (s->recording && io->op != G4_IO_READ)
		set_note(s, io, w->disk, offset, bytes);
	pthread_mutex_unlock(&s->lock);
}

static void watch_done(void *context, const struct g4_io *io)
{
	struct set_lab *s = &((const struct set_watch *)context)->lab->set;

	pthread_mutex_lock(&s->lock);
	for (uint32_t k = s->recording ? s->count : 0; k > 0; k--)
		if (s->requests[k - 1].io == io) {
			s->requests[k - 1].done_at = s->count;
			s->requests[k - 1].io = NULL;
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

void set_record(struct lab *lab, bool on)
{
	if (on)
		forget_requests(&lab->set);
	lab->set.recording = on;
}

uint32_t set_recorded(struct lab *lab)
{
	pthread_mutex_lock(&lab->set.lock);
	set_catch_up(&lab->set);
	const uint32_t count = lab->set.count;
	pthread_mutex_unlock(&lab->set.lock);
	return count;
}

/* ------------------------------------------------------------------ opening its disks */

/* What is opened by the name of a disk while this set is mounted, by the set or by an order to it, has a fault device around it. */
int __real_g4_dev_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		       size_t message_bytes);
int __wrap_g4_dev_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		       size_t message_bytes);

int __wrap_g4_dev_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		       size_t message_bytes)
{
	int rc = __real_g4_dev_open(name, options, out, message, message_bytes);

	for (uint32_t n = 0; rc == 0 && watching && n < watching->disks.count; n++) {
		struct g4_dev *inner = *out;
		if (strcmp(name, watching->disks.names[n]) != 0)
			continue;
		if (g4_dev_fault_open(inner, out) < 0)
			abort();
		set_lanes_map(watching, n, *out, inner);
		g4_dev_fault_set(*out, &watched_settings);
		g4_dev_fault_watch(*out, watch, &watching->watches[n]);
		g4_dev_fault_watch_done(*out, watch_done);
		watching->faults[n] = *out;
		break;
	}
	return rc;
}

static int open_used(struct set_lab *s, struct g4_dev **set, char *message, size_t room)
{
	const struct g4_set_options options = {.degraded = s->used != all_disks(s), .mounts = true};
	const char *name = disks_name_of(&s->disks, s->used);

	return g4_set_open(&name, 1, &options, set, message, room);
}

static void leave_out_one(struct set_lab *s, const char *name)
{
	for (uint32_t n = 0; n < s->disks.count; n++)
		if (strcmp(name, s->disks.names[n]) == 0)
			s->used &= ~(1u << n);
}

/* As who has read that they are none of the set, or have missed something. False: there are none of these, or nothing else. */
static bool leave_out_others(struct set_lab *s)
{
	static struct g4_set_status status;
	const char *names[MEMORY_DISKS];
	const uint32_t before = s->used;
	uint32_t count = 0;
	char message[1024];

	for (uint32_t n = 0; n < s->disks.count; n++)
		if (before >> n & 1)
			names[count++] = s->disks.names[n];
	if (g4_set_examine(names, count, &status, message, sizeof(message)) < 0)
		return false;
	for (uint32_t k = 0; k < status.other_count; k++)
		leave_out_one(s, status.others[k].name);
	for (uint32_t k = 0; k < status.count; k++)
		if (status.disks[k].state == G4_DISK_STALE || status.disks[k].state == G4_DISK_APART)
			leave_out_one(s, status.disks[k].name);
	return s->used != 0 && s->used != before;
}

struct g4_dev *set_mount_device(struct lab *lab, const struct g4_fault *settings, char *message, size_t room)
{
	struct set_lab *s = &lab->set;
	struct g4_dev *set;

	watching = s;
	watched_settings = *settings;
	memset(s->faults, 0, sizeof(s->faults));
	s->used = lab->memory.present;
	int rc = open_used(s, &set, message, room);
	if (rc < 0 && s->may_leave_out && leave_out_others(s))
		rc = open_used(s, &set, message, room);
	if (rc == 0)
		return set;
	watching = NULL;
	return NULL;
}

void set_unmount_device(struct lab *lab)
{
	(void)set_recorded(lab); /* while there are words */
	if (!lab->set.is_agents)
		g4_dev_close(lab->set.device);
	lab->set.device = NULL;
	lab->set.is_agents = false;
	watching = NULL;
}

bool set_is_short(const struct lab *lab)
{
	return lab->set.span && (lab->memory.present & ~lab->set.used & ~lab->set.absent) != 0;
}

const char *set_name(struct lab *lab)
{
	return disks_name_of(&lab->set.disks, lab->set.used);
}

uint64_t set_view(const struct lab *lab)
{
	const struct set_lab *s = &lab->set;
	struct g4_disk_info info;
	struct g4_chunk chunk;
	uint64_t sum = 0;

	for (uint32_t n = 0; s->device && g4_set_chunk(s->device, n, &chunk); n++)
		sum = hash_bytes(&chunk, sizeof(chunk), sum + 1);
	for (uint32_t n = 0; s->device && g4_set_disk(s->device, n, &info); n++)
		sum = hash_bytes(info.uuid, sizeof(info.uuid), sum + info.state + info.position);
	return sum;
}

static uint32_t find_slot(const struct set_lab *s, const char *name)
{
	uint32_t n = 0;

	while (name && n < s->disks.count && strcmp(name, s->disks.names[n]) != 0)
		n++;
	return name && n < s->disks.count ? 1u << n : 0;
}

void set_find_members(const struct lab *lab, struct set_members *m)
{
	const struct set_lab *s = &lab->set;
	struct g4_disk_info info;

	*m = (struct set_members){0};
	for (uint32_t n = 0; g4_set_disk(s->device, n, &info); n++) {
		if (info.state == G4_DISK_ACTIVE)
			m->active |= find_slot(s, info.name);
		else if (info.state == G4_DISK_REBUILDING)
			m->rebuilt |= find_slot(s, info.name);
		else
			m->missing++;
	}
	for (uint32_t n = 0; g4_set_spare(s->device, n, &info); n++)
		m->spares |= find_slot(s, info.name);
}
