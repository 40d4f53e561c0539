/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a set of mapped disks that lacks some of them, by those who make them (src/space/direct.c, src/space/direct_remake.c): they find what the set finds, whichever
 * disks are missing, and ask nobody for it; what changes while it is read does not count; rot on another disk is mended in the old way; and disks come and
 * go while others read and write.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "rebuilding.h"

#include "dev/agent_host.h"
#include "space/set_parity_host.h"
#include "space/space.h"

#define STRIPE (16 * 1024u)
#define FILES 8u
#define LARGE_BYTES (3 * G4_MIB)

static const struct level {
	struct g4_set_plan plan;
	uint32_t disks, spare; /* so many may be lost */
} levels[] = {
	{{.raid = G4_RAID_1, .copies = 2}, 3, 1},
	{{.raid = G4_RAID_1, .copies = 3}, 4, 2},
	{{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 4, 1},
	{{.raid = G4_RAID_PARITY, .parity = 2, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 5, 2},
	{{.raid = G4_RAID_PARITY, .parity = 3, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 6, 3},
	{{.raid = G4_RAID_PARITY, .parity = 4, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 6, 4},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static struct g4_direct *direct_of(const struct disks *d)
{
	return &d->rig.fs->space.direct;
}

static uint32_t missing_of(const struct disks *d)
{
	return direct_of(d)->table.missing;
}

static bool bears(const struct level *level, uint32_t lost)
{
	return (uint32_t)__builtin_popcount(lost) <= level->spare;
}

static void make(struct disks *d, const struct level *level, uint32_t checksum)
{
	disks_make(d, level->disks, NULL);
	if (level->plan.parity) /* what comes then lies in rows */
		disks_format_rows(d, level->plan.parity, checksum);
	else
		disks_format_plan(d, &level->plan, checksum);
}

static uint64_t put_large(struct disks *d)
{
	uint8_t *data = rig_memory(LARGE_BYTES, 17);
	uint64_t ino, done = 0;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "large", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d->rig, ino, 0, 0, data, LARGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_BYTES);
	assert_int_equal(op_fsync(&d->rig, ino), 0);
	free(data);
	return ino;
}

/* As a whole, and in parts that begin and end anywhere. */
static void expect_large(struct disks *d)
{
	uint8_t *data = rig_memory(LARGE_BYTES, 17), *found = rig_memory(LARGE_BYTES, 2);
	struct g4_attr attr;
	uint64_t done = 0;

	assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, "large", &attr), 0);
	assert_int_equal(op_read(&d->rig, attr.ino, 0, 0, found, LARGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_BYTES);
	assert_memory_equal(found, data, LARGE_BYTES);
	for (uint64_t at = 0, bytes = 3 * G4_PAGE_BYTES; at + bytes <= LARGE_BYTES; at += bytes, bytes += 5000) {
		assert_int_equal(op_read(&d->rig, attr.ino, 0, at, found, bytes, &done), 0);
		assert_int_equal(done, bytes);
		assert_memory_equal(found, data + at, bytes);
	}
	free(data);
	free(found);
}

/* Without some disks, behind an agent, which *agent is. The gate is open for reads. */
static struct g4_dev *look_without(struct disks *d, uint32_t lost, bool writes, struct g4_agent **agent)
{
	struct g4_dev *set, *remote;

	if (disks_try_open(d, all_of(d) & ~lost, true, writes ? 0 : G4_DEV_READ_ONLY, &set) < 0)
		fail_msg("%s", d->message);
	assert_int_equal(g4_dev_remote_open(set, NULL, &remote), 0);
	*agent = g4_dev_remote_agent(remote);
	disks_begin_fs(d, remote, writes ? 0 : G4_FS_READ_ONLY);
	assert_true(g4_direct_is_open(direct_of(d)));
	assert_int_equal(missing_of(d), __builtin_popcount(lost));
	return remote;
}

static void any_disks_may_be_missing_and_nobody_is_asked(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_agent *agent;
		struct g4_dev *dev;
		struct disks d;

		make(&d, &levels[l], l % 2 ? G4_CHECKSUM_BLAKE3 : G4_CHECKSUM_NONE);
		disks_mount_fs(&d, all_of(&d), &dev);
		for (uint32_t n = 0; n < FILES; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		put_large(&d);
		disks_unmount_fs(&d, dev, true);
		const uint32_t every = (uint32_t)disks_every(5);
		for (uint32_t lost = 0; lost <= all_of(&d); lost += lost ? every : 1) {
			if (!bears(&levels[l], lost))
				continue;
			dev = look_without(&d, lost, false, &agent);
			const uint64_t before = g4_agent_counts(agent).requests;
			disks_expect_files(&d, FILES, 1);
			expect_large(&d);
			assert_int_equal(g4_agent_counts(agent).requests, before);
			disks_unmount_fs(&d, dev, true);
		}
		/* and one that may be written to */
		dev = look_without(&d, 1, true, &agent);
		const uint64_t before = g4_agent_counts(agent).requests;
		disks_expect_files(&d, FILES, 1);
		expect_large(&d);
		assert_int_equal(g4_agent_counts(agent).requests, before);
		assert_int_equal(disks_put(&d, 3, 2), 0);
		assert_true(g4_agent_counts(agent).requests > before);
		assert_int_equal(disks_has(&d, 3, 2), 1);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d) & ~1u);
		dev = look_without(&d, 1, false, &agent);
		assert_int_equal(disks_has(&d, 3, 2), 1);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

/* ---- requests ---- */

/* The last stripes of the last chunk, in which nothing is in use: so many bytes, or a stripe less. */
static uint64_t free_at_end(const struct disks *d, uint64_t *bytes)
{
	const struct g4_direct_table *table = &direct_of(d)->table;
	const struct g4_chunk *chunk = &table->chunks[table->chunk_count - 1];
	const uint64_t stripe = chunk->parity ? g4_chunk_stripe_data(chunk) : G4_PAGE_BYTES;

	*bytes = *bytes / stripe * stripe;
	return chunk->address + (chunk->bytes - *bytes) / stripe * stripe - 2 * stripe;
}

/* Parts of any length at any page, over borders of columns, stripes and words: none of it is left to the set. */
static void requests_are_cut_as_the_set_does(void **state)
{
	enum { TURNS = 60, PARTS = 4 };
	uint8_t *data = rig_memory(4 * G4_MIB, 3), *found = rig_memory(4 * G4_MIB, 4);

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint64_t bytes = 3 * G4_MIB, seed = 99 + l;
		struct g4_dev *dev;
		struct disks d;

		make(&d, &levels[l], G4_CHECKSUM_NONE);
		disks_mount_fs(&d, all_of(&d), &dev);
		const uint64_t at = free_at_end(&d, &bytes);
		assert_int_equal(g4_dev_write(d.rig.wg, dev, at, data, bytes, 0), 0);
		assert_int_equal(g4_dev_flush(d.rig.wg, dev), 0);
		disks_unmount_fs(&d, dev, true);
		const uint32_t every = (uint32_t)disks_every(5);
		for (uint32_t lost = 1; lost <= all_of(&d); lost += every) {
			if (!bears(&levels[l], lost))
				continue;
			assert_int_equal(disks_try_open(&d, all_of(&d) & ~lost, true, G4_DEV_READ_ONLY, &dev), 0);
			disks_begin_fs(&d, dev, G4_FS_READ_ONLY);
			for (uint32_t turn = 0; turn < TURNS; turn++) {
				struct g4_iov parts[PARTS];
				struct g4_io io;
				uint64_t all = 0;

				seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
				const uint64_t from = (seed >> 33) % (bytes / G4_PAGE_BYTES) * G4_PAGE_BYTES;
				for (uint32_t k = 0; k < PARTS; k++) { /* not whole pages but together */
					const uint64_t some = k == PARTS - 1 ? g4_align_up(all, G4_PAGE_BYTES) - all :
									       ((seed >> (7 * k)) % 60) * 512;
					parts[k] = (struct g4_iov){found + all, some};
					all += some;
				}
				if (all == 0 || all > bytes - from)
					continue;
				memset(&io, 0, sizeof(io));
				io.op = G4_IO_READ;
				io.offset_bytes = at + from;
				io.iov = parts;
				io.iov_count = PARTS;
				memset(found, 0, all);
				assert_true(g4_direct_do(d.rig.wg, direct_of(&d), d.outer, &io));
				assert_memory_equal(found, data + from, all);
			}
			memset(found, 0, bytes);
			assert_int_equal(g4_space_read(d.rig.wg, &d.rig.fs->space, g4_address_from(at), found, bytes),
					 0);
			assert_memory_equal(found, data, bytes);
			disks_unmount_fs(&d, dev, true);
		}
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* ---- rows that change while they are read ---- */

/* Mappings of the readers', as a GPU has them: beside those of the set. */
static struct {
	uint8_t *at[MOST_DISKS];
	uint64_t opened[MOST_DISKS], bytes[MOST_DISKS];
	uint32_t count;
} placed;

static int place(void *context, void *memory, uint64_t bytes)
{
	struct g4_direct_table *table = (struct g4_direct_table *)memory;

	(void)context;
	(void)bytes;
	for (uint32_t d = 0; d < table->disk_count; d++) {
		uint32_t n = 0;
		if (table->disks[d] == 0)
			continue;
		while (n < placed.count && placed.opened[n] != table->opened[d])
			n++;
		if (n == placed.count) {
			void *at = mremap((void *)(uintptr_t)table->disks[d], 0, table->disk_bytes[d], MREMAP_MAYMOVE);
			assert_true(at != MAP_FAILED && n < MOST_DISKS);
			placed.at[n] = (uint8_t *)at;
			placed.opened[n] = table->opened[d];
			placed.bytes[n] = table->disk_bytes[d];
			placed.count++;
		}
		table->disks[d] = (uintptr_t)placed.at[n];
	}
	return 0;
}

static void forget_placed(void)
{
	while (placed.count > 0) {
		placed.count--;
		munmap(placed.at[placed.count], placed.bytes[placed.count]);
	}
}

/* Who reads a page stops there until somebody else has done something. */
static struct trap {
	uint8_t *page;
	uint32_t reached; /* atomic: 1: somebody stands there, 2: and may go on */
} trap;

static void stand_still(int number, siginfo_t *info, void *context)
{
	const uint8_t *at = (const uint8_t *)info->si_addr;

	(void)context;
	if (!trap.page || at < trap.page || at >= trap.page + G4_PAGE_BYTES) { /* a fault of its own */
		signal(number, SIG_DFL);
		return;
	}
	g4_store32_rel(&trap.reached, g4_max64(g4_load32_acq(&trap.reached), 1));
	while (g4_load32_acq(&trap.reached) < 2)
		sched_yield();
	(void)mprotect(trap.page, G4_PAGE_BYTES, PROT_READ | PROT_WRITE);
}

static void set_trap(uint8_t *page)
{
	trap.page = page;
	g4_store32_rel(&trap.reached, 0);
	assert_int_equal(mprotect(page, G4_PAGE_BYTES, PROT_NONE), 0);
}

static struct meanwhile {
	struct g4_set *set;
	enum { NOTHING, HELD, IN_PLACE } what;
	uint64_t address; /* of a page of the row that is not read */
	const uint8_t *page;
	int rc;
} meanwhile;

/* When the reader stands in the trap. */
static void *change_row(void *argument)
{
	struct meanwhile *m = (struct meanwhile *)argument;
	struct g4_wg *wg = g4_wg_create(5);

	while (g4_load32_acq(&trap.reached) == 0)
		sched_yield();
	m->rc = m->what == NOTHING ? 0 : g4_dev_write(wg, &m->set->dev, m->address, m->page, G4_PAGE_BYTES, 0);
	if (m->rc == 0 && m->what == IN_PLACE) {
		m->rc = g4_dev_flush(wg, &m->set->dev);
		pthread_rwlock_wrlock(&m->set->parity->lock);
		if (m->rc == 0)
			m->rc = g4_set_log_empty(wg, m->set);
		pthread_rwlock_unlock(&m->set->parity->lock);
	}
	g4_store32_rel(&trap.reached, 2);
	g4_wg_destroy(wg);
	return NULL;
}

/* Where a column of the stripe of an address is, of those who read. */
static uint8_t *column_of(const struct disks *d, uint64_t address, uint32_t column)
{
	const struct g4_direct_table *table = &direct_of(d)->table;
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};
	const struct g4_chunk *chunk = g4_chunk_find(&map, address);
	const uint64_t stripe = (address - chunk->address) / g4_chunk_stripe_data(chunk),
		       place = g4_chunk_place(chunk, stripe, column);

	return (uint8_t *)(uintptr_t)table->disks[g4_place_disk(place)] + g4_place_address(place) +
	       stripe * chunk->stripe_bytes;
}

static uint32_t disk_of_column(const struct disks *d, uint64_t address, uint32_t column)
{
	const struct g4_direct_table *table = &direct_of(d)->table;
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};
	const struct g4_chunk *chunk = g4_chunk_find(&map, address);

	return g4_place_disk(g4_chunk_place(chunk, (address - chunk->address) / g4_chunk_stripe_data(chunk), column));
}

/*
 * The reader has the other columns of data, and not parity, when another page of the row is written: it is on its disk with its parity then, or held back. Nothing that is
 * made of both times counts.
 */
static void what_changes_meanwhile_does_not_count(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 3), *found = rig_memory(G4_MIB, 4), *other = rig_memory(G4_PAGE_BYTES, 5);
	const struct sigaction stand = {.sa_sigaction = stand_still, .sa_flags = SA_SIGINFO};
	struct sigaction before_segv, before_bus;

	(void)state;
	sigaction(SIGSEGV, &stand, &before_segv);
	sigaction(SIGBUS, &stand, &before_bus);
	for (uint32_t turn = 0; turn < 9; turn++) {
		const uint32_t parity = 1 + turn / 3;
		struct g4_dev *set, *remote;
		struct disks d;
		uint64_t bytes = 4 * STRIPE * 3;

		make(&d, &levels[1 + parity], G4_CHECKSUM_NONE);
		assert_int_equal(disks_try_open(&d, all_of(&d), false, 0, &set), 0);
		assert_int_equal(g4_dev_remote_open(set, NULL, &remote), 0);
		struct g4_agent *agent = g4_dev_remote_agent(remote);
		g4_agent_place(agent, place, NULL);
		disks_begin_fs(&d, remote, 0);
		const uint64_t at = free_at_end(&d, &bytes);
		const struct g4_address address = g4_address_from(at);
		assert_int_equal(g4_space_write(d.rig.wg, &d.rig.fs->space, address, data, bytes, 0), 0);
		begin(&d, G4_DISK_OFFLINE, disk_of_column(&d, at, 0));
		assert_int_equal(missing_of(&d), 1);
		/* the second page of column 1 changes; that of column 0 is read */
		const uint32_t columns = d.count - parity;
		meanwhile.set = (struct g4_set *)set->host;
		meanwhile.what = turn % 3 == 0 ? NOTHING : turn % 3 == 1 ? HELD : IN_PLACE;
		meanwhile.address = at + STRIPE + G4_PAGE_BYTES;
		meanwhile.page = other;
		set_trap(column_of(&d, at, columns) + G4_PAGE_BYTES);
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, change_row, &meanwhile), 0);
		const uint64_t before = g4_agent_counts(agent).requests;
		memset(found, 0, G4_PAGE_BYTES);
		assert_int_equal(g4_space_read(d.rig.wg, &d.rig.fs->space, g4_address_after(address, G4_PAGE_BYTES),
					       found, G4_PAGE_BYTES),
				 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(meanwhile.rc, 0);
		assert_memory_equal(found, data + G4_PAGE_BYTES, G4_PAGE_BYTES);
		assert_int_equal(g4_agent_counts(agent).requests - before, meanwhile.what == NOTHING ? 0 : 1);
		trap.page = NULL;
		if (meanwhile.what != NOTHING)
			memcpy(data + STRIPE + G4_PAGE_BYTES, other, G4_PAGE_BYTES);
		/* as a part of more than its stripe, too; while something is held the set is asked for all of it */
		for (uint32_t again = 0; again < 2; again++) {
			const uint64_t asked = g4_agent_counts(agent).requests;
			memset(found, 0, bytes);
			assert_int_equal(g4_space_read(d.rig.wg, &d.rig.fs->space, address, found, bytes), 0);
			assert_memory_equal(found, data, bytes);
			assert_int_equal(g4_agent_counts(agent).requests > asked, meanwhile.what == HELD);
		}
		data = (free(data), rig_memory(G4_MIB, 3));
		disks_unmount_fs(&d, remote, true);
		forget_placed();
		disks_free(&d);
	}
	sigaction(SIGSEGV, &before_segv, NULL);
	sigaction(SIGBUS, &before_bus, NULL);
	free(data);
	free(found);
	free(other);
}

/* ---- rot ---- */

/* What is made of a page that has rotted is wrong, and its sum says so: the set has another version, and the page is mended. */
static void rot_beside_a_missing_disk_is_mended(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (levels[l].spare < 2)
			continue;
		for (uint32_t lost = 0; lost < levels[l].disks; lost += (uint32_t)disks_every(4)) {
			const uint32_t bad = (lost + 1) % levels[l].disks;
			struct g4_agent *agent;
			struct g4_dev *dev;
			struct disks d;

			make(&d, &levels[l], G4_CHECKSUM_BLAKE3);
			disks_mount_fs(&d, all_of(&d), &dev);
			for (uint32_t n = 0; n < FILES; n++)
				assert_int_equal(disks_put(&d, n, 1), 0);
			put_large(&d);
			disks_unmount_fs(&d, dev, true);
			disks_rot(&d, bad);
			dev = look_without(&d, 1u << lost, true, &agent);
			const uint64_t before = g4_agent_counts(agent).requests;
			disks_expect_files(&d, FILES, 1);
			expect_large(&d);
			assert_true(g4_agent_counts(agent).requests > before);
			assert_true(g4_load64_rlx(&d.rig.fs->space.mended) > 0);
			disks_unmount_fs(&d, dev, true);
			dev = look_without(&d, 1u << lost, false, &agent);
			disks_expect_files(&d, FILES, 1);
			expect_large(&d);
			disks_unmount_fs(&d, dev, true);
			disks_free(&d);
		}
	}
}

/* ---- beside writers, while disks go and come ---- */

#define SMALL 96u /* files of a page, which lie between the parts of one that stays */
#define PART (5 * G4_PAGE_BYTES)

struct user { /* a way of its own to the same file system */
	pthread_t thread;
	struct rig rig;
	uint64_t ino;
	uint64_t *small;
	uint32_t rounds; /* atomic */
	uint32_t *stop;
};

/* All of the file at a time, which goes past the cache. NULL: it was always right. */
static void *read_on(void *argument)
{
	struct user *u = (struct user *)argument;
	uint8_t *data = rig_memory(SMALL * PART, 21), *found = rig_memory(SMALL * PART, 2);
	bool good = true;

	while (good && !g4_load32_acq(u->stop)) {
		uint64_t done = 0;
		memset(found, 0, SMALL * PART);
		good = op_read(&u->rig, u->ino, 0, 0, found, SMALL * PART, &done) == 0 && done == SMALL * PART &&
		       memcmp(found, data, SMALL * PART) == 0;
		g4_store32_rel(&u->rounds, u->rounds + 1);
	}
	free(data);
	free(found);
	return good ? NULL : u;
}

static void *write_on(void *argument)
{
	struct user *u = (struct user *)argument;
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	bool good = true;

	for (uint32_t k = 0; good && !g4_load32_acq(u->stop); k++) {
		uint64_t done = 0;
		rig_pattern(page, k, G4_PAGE_BYTES);
		good = op_write(&u->rig, u->small[k % SMALL], 0, 0, page, G4_PAGE_BYTES, &done) == 0 &&
		       (k % 3 != 0 || op_fsync(&u->rig, u->small[k % SMALL]) == 0);
		g4_store32_rel(&u->rounds, u->rounds + 1);
	}
	free(page);
	return good ? NULL : u;
}

static void await_rounds(const struct user *users, uint32_t count, uint32_t rounds)
{
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t before = g4_load32_acq(&users[k].rounds);
		while (g4_load32_acq(&users[k].rounds) < before + rounds && !g4_load32_acq(users[k].stop))
			sched_yield();
	}
}

static void disks_fail_while_others_read_and_write(void **state)
{
	uint8_t *data = rig_memory(SMALL * PART, 21), *page = rig_memory(G4_PAGE_BYTES, 1);

	(void)state;
	for (uint32_t l = 0; l < 4; l++) {
		struct user users[3];
		uint64_t small[SMALL], ino, done = 0;
		uint32_t stop = 0;
		struct g4_dev *dev;
		struct disks d;
		char name[16];

		make(&d, &levels[l], G4_CHECKSUM_NONE); /* nobody would know that something is wrong */
		disks_mount_fs(&d, all_of(&d), &dev);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "stays", G4_S_IFREG | 0644, &ino), 0);
		for (uint32_t n = 0; n < SMALL; n++) {
			snprintf(name, sizeof(name), "small%u", n);
			assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &small[n]), 0);
			assert_int_equal(op_write(&d.rig, ino, 0, n * PART, data + n * PART, PART, &done), 0);
			assert_int_equal(op_write(&d.rig, small[n], 0, 0, page, G4_PAGE_BYTES, &done), 0);
			assert_int_equal(op_fsync(&d.rig, ino), 0);
			assert_int_equal(op_fsync(&d.rig, small[n]), 0);
		}
		memset(users, 0, sizeof(users));
		for (uint32_t k = 0; k < 3; k++) {
			users[k].rig.fs = d.rig.fs;
			users[k].rig.wg = g4_wg_create(k + 1);
			users[k].ino = ino;
			users[k].small = small;
			users[k].stop = &stop;
			assert_int_equal(pthread_create(&users[k].thread, NULL, k < 2 ? read_on : write_on, &users[k]),
					 0);
		}
		for (uint32_t turn = 0; turn < 4; turn++) {
			const uint32_t disk = (turn + l) % d.count;
			begin(&d, G4_DISK_OFFLINE, disk);
			assert_int_equal(missing_of(&d), 1);
			await_rounds(users, 2, turn == 0 ? 40 / (uint32_t)disks_every(5) : 4);
			await_rounds(users + 2, 1, 8);
			while (order(&d, G4_DISK_REBUILD, d.names[disk]) < 0) /* requests to it as it was before */
				assert_non_null(strstr(d.message, "under way"));
			finish(&d);
			await_rounds(users, 3, 2);
		}
		g4_store32_rel(&stop, 1);
		for (uint32_t k = 0; k < 3; k++) {
			void *failed;
			assert_int_equal(pthread_join(users[k].thread, &failed), 0);
			assert_null(failed);
			g4_wg_destroy(users[k].rig.wg);
		}
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d));
		disks_free(&d);
	}
	free(data);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_disks_may_be_missing_and_nobody_is_asked),
		cmocka_unit_test(requests_are_cut_as_the_set_does),
		cmocka_unit_test(what_changes_meanwhile_does_not_count),
		cmocka_unit_test(rot_beside_a_missing_disk_is_mended),
		cmocka_unit_test(disks_fail_while_others_read_and_write),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
