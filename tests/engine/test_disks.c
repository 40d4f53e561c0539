/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems of several disks: nothing that was synced is lost with any one disk of two copies, at whatever write it fails, nor
 * with the power at whatever write; no disk that missed something is ever mixed in.
 */
#include "rig.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define DISK_BYTES (16 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define MOST_DISKS 16u
#define FILE_PAGES 6u

struct disks {
	uint32_t count;
	int fds[MOST_DISKS];
	char names[MOST_DISKS][64];
	uint8_t *memory[MOST_DISKS];
	uint64_t bytes[MOST_DISKS];
	char all[MOST_DISKS * 64];
	char message[1024]; /* why it could not be done */
	struct rig rig;
};

/* ---- disks in memory ---- */

static void make_disks(struct disks *d, uint32_t count, const uint64_t *bytes)
{
	memset(d, 0, sizeof(*d));
	d->count = count;
	for (uint32_t n = 0; n < count; n++) {
		d->bytes[n] = bytes ? bytes[n] : DISK_BYTES;
		d->fds[n] = memfd_create("gpu4fs-disk", MFD_CLOEXEC);
		assert_true(d->fds[n] >= 0);
		assert_return_code(ftruncate(d->fds[n], (off_t)d->bytes[n]), 0);
		d->memory[n] = (uint8_t *)mmap(NULL, d->bytes[n], PROT_READ | PROT_WRITE, MAP_SHARED, d->fds[n], 0);
		assert_true(d->memory[n] != MAP_FAILED);
		snprintf(d->names[n], sizeof(d->names[n]), "dax:/proc/self/fd/%d", d->fds[n]);
	}
}

static void free_disks(struct disks *d)
{
	for (uint32_t n = 0; n < d->count; n++) {
		munmap(d->memory[n], d->bytes[n]);
		close(d->fds[n]);
	}
}

/* The disks of a set of bits, as one name. */
static const char *name_of(struct disks *d, uint32_t which)
{
	d->all[0] = 0;
	for (uint32_t n = 0; n < d->count; n++)
		if (which >> n & 1) {
			strcat(d->all, d->all[0] ? "," : "");
			strcat(d->all, d->names[n]);
		}
	return d->all;
}

static struct g4_dev *open_one(const char *name)
{
	struct g4_dev *dev;
	char message[256];

	if (g4_dev_open(name, &(struct g4_dev_open_options){.flags = 0}, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	return dev;
}

static int try_open(struct disks *d, uint32_t which, bool degraded, uint32_t flags, struct g4_dev **dev)
{
	const struct g4_set_options options = {.open.flags = flags, .degraded = degraded};
	const char *name = name_of(d, which);

	d->message[0] = 0;
	return g4_set_open(&name, 1, &options, dev, d->message, sizeof(d->message));
}

static void format(struct disks *d, enum g4_raid raid, uint32_t checksum)
{
	const struct g4_set_plan plan = {.raid = raid};
	const struct g4_mkfs_options options = {.journal_bytes = JOURNAL_BYTES, .checksum = g4_policy_of(checksum)};
	struct g4_dev *devs[MOST_DISKS], *set;
	const char *names[MOST_DISKS];
	struct g4_superblock sb;

	for (uint32_t n = 0; n < d->count; n++) {
		names[n] = d->names[n];
		devs[n] = open_one(names[n]);
	}
	if (g4_set_make(devs, names, d->count, &plan, &set, d->message, sizeof(d->message)) < 0 ||
	    g4_mkfs(set, &options, &sb, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
}

/* Mounts these disks; d->rig has the commands then. */
static int try_mount(struct disks *d, uint32_t which, bool degraded)
{
	const struct g4_mount_options options = {.commit_ms = 1000000, .cache_bytes = 4 * G4_MIB};
	struct g4_dev *dev;
	int rc = try_open(d, which, degraded, 0, &dev);

	memset(&d->rig, 0, sizeof(d->rig));
	if (rc == 0)
		rc = g4_engine_mount_device(dev, &options, &d->rig.engine, d->message, sizeof(d->message));
	return rc;
}

static void mount_disks(struct disks *d, uint32_t which)
{
	if (try_mount(d, which, which != (1u << d->count) - 1) < 0)
		fail_msg("%s", d->message);
}

static void unmount_disks(struct disks *d)
{
	assert_int_equal(rig_unmount(&d->rig), 0);
}

static void expect_clean(struct disks *d, uint32_t which)
{
	char *text;

	snprintf(d->rig.name, sizeof(d->rig.name), "%s", name_of(d, which));
	const struct rig_verdict verdict = rig_fsck(&d->rig, &text);
	if (verdict.problems)
		fail_msg("%s", text);
	free(text);
}

/* ---- what is written and found again ---- */

static void fill(uint8_t *to, uint32_t number, uint32_t version)
{
	rig_pattern(to, 1000 * number + version, FILE_PAGES * G4_PAGE_BYTES);
}

/* A file of this content, durable. 0 or a code. */
static int put(struct disks *d, uint32_t number, uint32_t version)
{
	uint8_t *data = (uint8_t *)malloc(FILE_PAGES * G4_PAGE_BYTES);
	struct g4_attr attr;
	uint64_t ino, done = 0;
	char name[32];

	snprintf(name, sizeof(name), "f%u", number);
	fill(data, number, version);
	int rc = op_lookup(&d->rig, G4_NODE_ROOT, name, &attr);
	ino = attr.ino;
	if (rc == -G4_E_NOENT)
		rc = op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino);
	if (rc == 0)
		rc = op_write(&d->rig, ino, 0, 0, data, FILE_PAGES * G4_PAGE_BYTES, &done);
	if (rc == 0)
		rc = op_fsync(&d->rig, ino);
	free(data);
	return rc;
}

/* Whether the file has this content; a code where it can not be read. */
static int has(struct disks *d, uint32_t number, uint32_t version)
{
	uint8_t *data = (uint8_t *)malloc(2 * FILE_PAGES * G4_PAGE_BYTES), *found = data + FILE_PAGES * G4_PAGE_BYTES;
	struct g4_attr attr;
	uint64_t done = 0;
	char name[32];

	snprintf(name, sizeof(name), "f%u", number);
	fill(data, number, version);
	int rc = op_lookup(&d->rig, G4_NODE_ROOT, name, &attr);
	if (rc == 0)
		rc = op_read(&d->rig, attr.ino, 0, 0, found, FILE_PAGES * G4_PAGE_BYTES, &done);
	if (rc == 0)
		rc = done == FILE_PAGES * G4_PAGE_BYTES && memcmp(data, found, done) == 0;
	free(data);
	return rc;
}

static void expect_files(struct disks *d, uint32_t count, uint32_t version)
{
	for (uint32_t n = 0; n < count; n++)
		if (has(d, n, version) != 1)
			fail_msg("file %u is not what was written: %d", n, has(d, n, version));
}

/* ---- tests ---- */

static void every_level_keeps_what_is_written(void **state)
{
	static const struct {
		enum g4_raid raid;
		uint32_t count;
		uint64_t bytes[MOST_DISKS];
	} cases[] = {
		{G4_RAID_NONE, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_NONE, 3, {9 * G4_MIB, 40 * G4_MIB, 17 * G4_MIB + 8192}},
		{G4_RAID_0, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_0, 3, {9 * G4_MIB, 40 * G4_MIB, 17 * G4_MIB + 8192}},
		{G4_RAID_0,
		 13,
		 {8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 9 * G4_MIB, 8 * G4_MIB,
		  8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 12 * G4_MIB}},
		{G4_RAID_1, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_1, 2, {16 * G4_MIB, 24 * G4_MIB}},
		{G4_RAID_1, 3, {16 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_1, 5, {8 * G4_MIB, 40 * G4_MIB, 12 * G4_MIB, 9 * G4_MIB, 31 * G4_MIB}},
	};
	(void)state;
	for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const uint32_t all = (1u << cases[c].count) - 1;
		struct disks d;
		make_disks(&d, cases[c].count, cases[c].bytes);
		format(&d, cases[c].raid, G4_CHECKSUM_NONE);
		mount_disks(&d, all);
		/* as much as fits, so that all disks are used to their ends */
		uint8_t *data = rig_memory(G4_MIB, 5), *found = rig_memory(G4_MIB, 6);
		uint64_t ino, done = 0, at = 0;
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "big", G4_S_IFREG | 0644, &ino), 0);
		while (op_write(&d.rig, ino, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB)
			at += G4_MIB;
		assert_true(at >= 8 * G4_MIB);
		unmount_disks(&d);
		expect_clean(&d, all);
		mount_disks(&d, all);
		for (uint64_t offset = 0; offset < at; offset += G4_MIB) {
			assert_int_equal(op_read(&d.rig, ino, 0, offset, found, G4_MIB, &done), 0);
			assert_int_equal(done, G4_MIB);
			assert_memory_equal(found, data, G4_MIB);
		}
		unmount_disks(&d);
		free(data);
		free(found);
		free_disks(&d);
	}
}

static void any_disk_of_two_copies_can_be_missing(void **state)
{
	(void)state;
	for (uint32_t count = 2; count <= 3; count++)
		for (uint32_t lost = 0; lost < count; lost++) {
			const uint32_t all = (1u << count) - 1, left = all & ~(1u << lost);
			struct disks d;
			make_disks(&d, count, NULL);
			format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			mount_disks(&d, all);
			for (uint32_t n = 0; n < 20; n++)
				assert_int_equal(put(&d, n, 1), 0);
			unmount_disks(&d);
			/* not unasked */
			assert_int_equal(try_mount(&d, left, false), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "-o degraded"));
			mount_disks(&d, left);
			expect_files(&d, 20, 1);
			assert_int_equal(put(&d, 3, 2), 0);
			unmount_disks(&d);
			expect_clean(&d, left);
			/* the one that missed it is never mixed in, with however much insistence */
			assert_int_equal(try_mount(&d, all, true), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "stale"));
			mount_disks(&d, left);
			assert_int_equal(has(&d, 3, 2), 1);
			unmount_disks(&d);
			free_disks(&d);
		}
}

static void two_halves_are_not_put_together(void **state)
{
	struct disks d;
	uint8_t *before[2];

	(void)state;
	make_disks(&d, 2, NULL);
	format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 2; n++) {
		mount_disks(&d, 1u << n);
		assert_int_equal(put(&d, n, 1), 0);
		unmount_disks(&d);
	}
	for (uint32_t n = 0; n < 2; n++) {
		before[n] = (uint8_t *)malloc(DISK_BYTES);
		memcpy(before[n], d.memory[n], DISK_BYTES);
	}
	assert_int_equal(try_mount(&d, 3, false), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "without the other"));
	assert_int_equal(try_mount(&d, 3, true), -G4_E_SB_DISKS);
	for (uint32_t n = 0; n < 2; n++) {
		assert_memory_equal(before[n], d.memory[n], DISK_BYTES);
		free(before[n]);
	}
	free_disks(&d);
}

static void a_mount_that_writes_nothing_makes_no_disk_stale(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make_disks(&d, 2, NULL);
	format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	assert_int_equal(try_open(&d, 1, true, 0, &dev), 0);
	assert_true(g4_set_is_degraded(dev));
	g4_dev_close(dev);
	/* reading needs no leave */
	assert_int_equal(try_open(&d, 2, false, G4_DEV_READ_ONLY, &dev), 0);
	g4_dev_close(dev);
	mount_disks(&d, 3);
	unmount_disks(&d);
	free_disks(&d);
}

static void wrong_disks_are_told(void **state)
{
	struct g4_dev *dev;
	struct disks d, other;

	(void)state;
	make_disks(&d, 3, NULL);
	make_disks(&other, 2, NULL);
	format(&d, G4_RAID_0, G4_CHECKSUM_NONE);
	format(&other, G4_RAID_1, G4_CHECKSUM_NONE);
	assert_int_equal(try_open(&d, 5, true, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "disk 1"));
	const char *mixed[2] = {d.names[0], other.names[0]}, *twice[2] = {d.names[0], d.names[0]};
	const struct g4_set_options options = {.degraded = true};
	assert_int_equal(g4_set_open(mixed, 2, &options, &dev, d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "different file systems"));
	assert_int_equal(g4_set_open(twice, 2, &options, &dev, d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "twice"));
	/* a copy of a disk is that disk */
	memcpy(d.memory[2], d.memory[0], DISK_BYTES);
	assert_int_equal(try_open(&d, 7, true, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "the same disk"));
	assert_return_code(ftruncate(other.fds[1], DISK_BYTES / 2), 0);
	assert_int_equal(try_open(&other, 3, true, 0, &dev), -G4_E_SB_TRUNCATED);
	assert_non_null(strstr(other.message, "smaller than before"));
	assert_return_code(ftruncate(other.fds[1], DISK_BYTES), 0);
	free_disks(&d);
	free_disks(&other);
}

/* ---- a disk that fails ---- */

struct faulty {
	struct g4_dev *fault[2];
	struct g4_dev *set;
};

/* The two disks, each behind a fault device; the set owns them. */
static void open_faulty(struct disks *d, struct faulty *f)
{
	const struct g4_set_options options = {.degraded = false};
	const char *names[2] = {d->names[0], d->names[1]};

	for (uint32_t n = 0; n < 2; n++)
		assert_int_equal(g4_dev_fault_open(open_one(names[n]), &f->fault[n]), 0);
	if (g4_set_assemble(f->fault, names, 2, &options, &f->set, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

static void mount_faulty(struct disks *d, struct faulty *f)
{
	const struct g4_mount_options options = {.commit_ms = 1000000, .cache_bytes = 4 * G4_MIB};

	memset(&d->rig, 0, sizeof(d->rig));
	if (g4_engine_mount_device(f->set, &options, &d->rig.engine, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

static void a_disk_may_fail_at_any_write(void **state)
{
	const uint64_t step = rig_every(7);

	(void)state;
	for (uint32_t lost = 0; lost < 2; lost++) {
		bool failed = true;
		for (uint64_t at = 1; failed; at += step) {
			const struct g4_fault fault = {.cut_after_writes = at, .cut_inside = true, .seed = at};
			struct g4_disk_info info;
			struct faulty f;
			struct disks d;
			make_disks(&d, 2, NULL);
			format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			open_faulty(&d, &f);
			mount_faulty(&d, &f);
			g4_dev_fault_set(f.fault[lost], &fault);
			for (uint32_t n = 0; n < 8; n++)
				assert_int_equal(put(&d, n % 5, n), 0); /* users notice nothing */
			assert_true(g4_set_disk(f.set, lost, &info));
			failed = info.state == G4_DISK_DROPPED;
			unmount_disks(&d);
			if (failed) {
				assert_int_equal(try_mount(&d, 3, true), -G4_E_SB_DISKS);
				assert_non_null(strstr(d.message, "stale"));
			}
			mount_disks(&d, 2u >> lost);
			for (uint32_t n = 3; n < 8; n++)
				assert_int_equal(has(&d, n % 5, n), 1);
			unmount_disks(&d);
			expect_clean(&d, 2u >> lost);
			free_disks(&d);
		}
	}
}

static void what_one_disk_can_not_read_comes_from_the_other(void **state)
{
	(void)state;
	for (uint64_t at = 1; at < 12; at++)
		for (uint32_t bad = 0; bad < 2; bad++) {
			const struct g4_fault fault = {.fail_read_at = at};
			struct g4_disk_info info;
			struct faulty f;
			struct disks d;
			make_disks(&d, 2, NULL);
			format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			mount_disks(&d, 3);
			for (uint32_t n = 0; n < 10; n++)
				assert_int_equal(put(&d, n, 1), 0);
			unmount_disks(&d);
			open_faulty(&d, &f);
			g4_dev_fault_set(f.fault[bad], &fault);
			mount_faulty(&d, &f);
			expect_files(&d, 10, 1);
			assert_true(g4_set_disk(f.set, bad, &info));
			assert_int_equal(info.state, G4_DISK_ACTIVE);
			unmount_disks(&d);
			free_disks(&d);
		}
}

/* ---- the power fails ---- */

/* What was submitted to both disks, in one order: an entry is the disk's number. */
#define MOST_REQUESTS 65536u
struct order {
	uint8_t disk[MOST_REQUESTS];
	uint32_t count;
};
struct watched {
	struct order *order;
	uint8_t disk;
};

static void note(void *context, const struct g4_io *io)
{
	struct watched *w = (struct watched *)context;

	if (io->op == G4_IO_READ)
		return;
	const uint32_t at = __atomic_fetch_add(&w->order->count, 1, __ATOMIC_RELAXED);
	assert_true(at < MOST_REQUESTS);
	w->order->disk[at] = w->disk;
}

/* What a disk has when the power fails after its first `count` requests: all that was flushed, and some of the rest. */
static void crash_disk(uint8_t *image, struct g4_dev *fault, uint64_t count, uint64_t *random)
{
	uint64_t flushed = 0;

	for (uint64_t k = 0; k < count; k++)
		if (g4_dev_fault_recorded_op(fault, k)->op == G4_IO_FLUSH)
			flushed = k;
	for (uint64_t k = 0; k < count; k++) {
		const struct g4_fault_op *op = g4_dev_fault_recorded_op(fault, k);
		const bool durable = k < flushed || (op->flags & G4_IO_FUA);
		for (uint64_t at = 0; op->op == G4_IO_WRITE && at < op->bytes; at += 512)
			if (durable || rig_random(random) % 2)
				memcpy(image + op->offset_bytes + at, op->data + at, 512);
	}
}

#define CRASH_PUTS 24u
/* Whether put n was acknowledged before request `at`, and the next one of the same file had not begun. */
static bool must_have(const uint32_t *durable, uint32_t n, uint32_t at)
{
	return durable[n] <= at && (n + 7 >= CRASH_PUTS || durable[n + 6] >= at);
}

static void nothing_synced_is_lost_when_the_power_fails(void **state)
{
	struct order *order = (struct order *)calloc(1, sizeof(*order));
	uint64_t random = 77, cases = 0;
	uint8_t *start[2];
	uint32_t durable[CRASH_PUTS]; /* requests until the put was acknowledged */
	struct faulty f;
	struct disks d, crashed;

	(void)state;
	make_disks(&d, 2, NULL);
	format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 2; n++) {
		start[n] = (uint8_t *)malloc(DISK_BYTES);
		memcpy(start[n], d.memory[n], DISK_BYTES);
	}
	open_faulty(&d, &f);
	struct watched watched[2] = {{order, 0}, {order, 1}};
	for (uint32_t n = 0; n < 2; n++) {
		g4_dev_fault_record(f.fault[n], true);
		g4_dev_fault_watch(f.fault[n], note, &watched[n]);
	}
	mount_faulty(&d, &f);
	for (uint32_t n = 0; n < CRASH_PUTS; n++) {
		assert_int_equal(put(&d, n % 7, n), 0);
		durable[n] = __atomic_load_n(&order->count, __ATOMIC_RELAXED);
	}
	const uint32_t total = order->count;
	make_disks(&crashed, 2, NULL);
	for (uint32_t at = 0; at <= total; at += (uint32_t)rig_every(11)) {
		uint64_t counts[2] = {0, 0};
		for (uint32_t k = 0; k < at; k++)
			counts[order->disk[k]]++;
		/* with both disks, and with either of them lost in the crash as well */
		for (uint32_t which = 1; which <= 3; which++, cases++) {
			for (uint32_t n = 0; n < 2; n++) {
				memcpy(crashed.memory[n], start[n], DISK_BYTES);
				crash_disk(crashed.memory[n], f.fault[n], counts[n], &random);
			}
			mount_disks(&crashed, which);
			for (uint32_t n = 0; n < CRASH_PUTS; n++) {
				if (must_have(durable, n, at) && has(&crashed, n % 7, n) != 1)
					fail_msg("put %u is lost with disks %u at request %u of %u", n, which, at,
						 total);
			}
			/* what both have is the same, or is free: reads of either copy agree from now on */
			assert_int_equal(put(&crashed, 8, 1), 0);
			unmount_disks(&crashed);
			expect_clean(&crashed, which);
			if (which != 3)
				continue;
			for (uint32_t n = 0; n < 2; n++) {
				uint8_t *kept = (uint8_t *)malloc(DISK_BYTES);
				memcpy(kept, crashed.memory[n], DISK_BYTES);
				mount_disks(&crashed, 1u << n);
				for (uint32_t p = 0; p < CRASH_PUTS; p++)
					if (must_have(durable, p, at))
						assert_int_equal(has(&crashed, p % 7, p), 1);
				unmount_disks(&crashed);
				memcpy(crashed.memory[n], kept, DISK_BYTES);
				free(kept);
			}
		}
	}
	print_message("%llu states\n", (unsigned long long)cases);
	unmount_disks(&d);
	for (uint32_t n = 0; n < 2; n++)
		free(start[n]);
	free_disks(&crashed);
	free_disks(&d);
	free(order);
}

/* ---- bit rot ---- */

#define DEEP_BYTES (5 * G4_MIB)

/* One byte of each page of a disk is another, but for its superblocks: they say that it is one of the set. */
static void rot(struct disks *d, uint32_t bad)
{
	for (uint64_t page = G4_CHUNKS_ADDRESS / G4_PAGE_BYTES; page < d->bytes[bad] / G4_PAGE_BYTES - 1; page++)
		d->memory[bad][page * G4_PAGE_BYTES + 40 + page * 7 % 3000] ^= 0x10;
}

static void mount_fs(struct disks *d, uint32_t which, struct g4_dev **dev)
{
	const struct g4_fs_options options = {.cache_bytes = 4 * G4_MIB};

	if (try_open(d, which, true, 0, dev) < 0)
		fail_msg("%s", d->message);
	memset(&d->rig, 0, sizeof(d->rig));
	d->rig.wg = g4_wg_create(0);
	if (g4_fs_mount(d->rig.wg, *dev, &options, &d->rig.fs, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

static void unmount_fs(struct disks *d, struct g4_dev *dev, bool clean)
{
	assert_int_equal(g4_fs_unmount(d->rig.wg, d->rig.fs, clean), 0);
	g4_wg_destroy(d->rig.wg);
	d->rig.fs = NULL;
	d->rig.wg = NULL;
	g4_dev_close(dev);
}

/* Every kind of page. */
static void populate(struct disks *d)
{
	static char value[20000];
	uint8_t *data = rig_memory(DEEP_BYTES, 9);
	uint64_t dir, ino, in, out, done = 0;
	char name[64];

	assert_int_equal(op_mkdir(&d->rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	for (uint32_t n = 0; n < 300; n++) {
		snprintf(name, sizeof(name), "one of many names, number %u", n);
		assert_int_equal(op_mknod(&d->rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
	}
	memset(value, 'v', sizeof(value));
	assert_int_equal(op_setxattr(&d->rig, ino, "user.large", value, sizeof(value), 0), 0);
	assert_int_equal(op_mknod(&d->rig, dir, "deep", G4_S_IFREG | 0644, &ino), 0);
	/* with holes, so that no page of 2 MiB maps it */
	for (uint64_t at = 0; at < DEEP_BYTES; at += 16 * G4_PAGE_BYTES)
		assert_int_equal(op_write(&d->rig, ino, 0, at, data + at, 12 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_mknod(&d->rig, dir, "copy", G4_S_IFREG | 0644, &dir), 0);
	assert_int_equal(op_open(&d->rig, ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&d->rig, dir, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy(&d->rig, in, 0, out, 0, 8 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, 8 * G4_PAGE_BYTES);
	assert_int_equal(op_release(&d->rig, in), 0);
	assert_int_equal(op_release(&d->rig, out), 0);
	for (uint32_t n = 0; n < 10; n++)
		assert_int_equal(put(d, n, 1), 0);
	free(data);
}

static void expect_all(struct disks *d)
{
	static char value[20000];
	uint8_t *data = rig_memory(DEEP_BYTES, 9), *found = rig_memory(12 * G4_PAGE_BYTES, 1);
	struct g4_attr dir, attr;
	uint64_t done = 0;
	char name[64];

	expect_files(d, 10, 1);
	assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, "dir", &dir), 0);
	for (uint32_t n = 0; n < 300; n++) {
		snprintf(name, sizeof(name), "one of many names, number %u", n);
		assert_int_equal(op_lookup(&d->rig, dir.ino, name, &attr), 0);
	}
	assert_int_equal(op_getxattr(&d->rig, attr.ino, "user.large", value, sizeof(value), &done), 0);
	assert_int_equal(done, sizeof(value));
	assert_int_equal(op_lookup(&d->rig, dir.ino, "deep", &attr), 0);
	for (uint64_t at = 0; at < DEEP_BYTES; at += 16 * G4_PAGE_BYTES) {
		assert_int_equal(op_read(&d->rig, attr.ino, 0, at, found, 12 * G4_PAGE_BYTES, &done), 0);
		assert_memory_equal(found, data + at, 12 * G4_PAGE_BYTES);
	}
	assert_int_equal(op_lookup(&d->rig, dir.ino, "copy", &attr), 0);
	assert_int_equal(op_read(&d->rig, attr.ino, 0, 0, found, 8 * G4_PAGE_BYTES, &done), 0);
	assert_memory_equal(found, data, 8 * G4_PAGE_BYTES);
	free(data);
	free(found);
}

static struct g4_health health;

/* What the newest job has come to. */
static const struct g4_job_record *newest_job(struct disks *d)
{
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health)};
	const struct g4_job_record *newest = &health.jobs[0];

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &list), 0);
	for (uint32_t k = 1; k < G4_JOBS; k++)
		newest = health.jobs[k].number > newest->number ? &health.jobs[k] : newest;
	return newest;
}

/* To its end; the damage that it found. */
static uint64_t scrub(struct disks *d)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &start), 0);
	while (newest_job(d)->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(d->rig.wg, d->rig.fs, true), 0);
	assert_int_equal(newest_job(d)->state, G4_JOB_DONE);
	return newest_job(d)->errors;
}

static void a_scrub_mends_a_disk_that_is_rotten_throughout(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_disk_info info;
		struct g4_dev *dev;
		struct disks d;
		make_disks(&d, 2, sizes);
		format(&d, G4_RAID_1, G4_CHECKSUM_CRC32C);
		mount_fs(&d, 3, &dev);
		populate(&d);
		unmount_fs(&d, dev, true);
		rot(&d, bad);
		mount_fs(&d, 3, &dev);
		expect_all(&d); /* users notice nothing */
		assert_int_equal(scrub(&d), 0);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_true(info.mended > 1000);
		assert_true(g4_set_disk(dev, 1 - bad, &info));
		assert_int_equal(info.mended, 0);
		assert_true(health.mended_since_mount > 1000); /* as the last look at the job said */
		unmount_fs(&d, dev, true);
		/* the one that was rotten has everything by itself */
		expect_clean(&d, 1u << bad);
		mount_fs(&d, 1u << bad, &dev);
		expect_all(&d);
		assert_int_equal(scrub(&d), 0);
		assert_int_equal(health.mended_since_mount, 0);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_true(info.mended > 1000); /* it is remembered */
		unmount_fs(&d, dev, true);
		free_disks(&d);
	}
}

static void what_is_read_is_mended(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_disk_info info;
		uint64_t mended;
		struct g4_dev *dev;
		struct disks d;
		make_disks(&d, 2, sizes);
		format(&d, G4_RAID_1, G4_CHECKSUM_BLAKE3);
		mount_fs(&d, 3, &dev);
		populate(&d);
		unmount_fs(&d, dev, true);
		rot(&d, bad);
		mount_fs(&d, 3, &dev);
		expect_all(&d);
		assert_true(g4_set_disk(dev, bad, &info));
		mended = info.mended;
		assert_true(mended > 100);
		unmount_fs(&d, dev, true);
		mount_fs(&d, 3, &dev);
		expect_all(&d);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_int_equal(info.mended, mended); /* for good */
		unmount_fs(&d, dev, true);
		free_disks(&d);
	}
}

static void a_disk_is_rebuilt_or_replaced(void **state)
{
	(void)state;
	for (uint32_t count = 2; count <= 3; count++)
		for (uint32_t lost = 0; lost < count; lost++) {
			const uint32_t all = (1u << count) - 1;
			const char *names[MOST_DISKS];
			uint32_t disk = MOST_DISKS, n = 0;
			uint8_t *old = (uint8_t *)malloc(DISK_BYTES);
			struct g4_dev *dev;
			struct disks d;
			make_disks(&d, count, NULL);
			format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			mount_disks(&d, all);
			for (uint32_t f = 0; f < 20; f++)
				assert_int_equal(put(&d, f, 1), 0);
			unmount_disks(&d);
			mount_disks(&d, all & ~(1u << lost));
			for (uint32_t f = 0; f < 20; f++)
				assert_int_equal(put(&d, f, 2), 0);
			unmount_disks(&d);
			/* the stale one */
			for (n = 0; n < count; n++)
				names[n] = d.names[n];
			if (g4_set_rebuild(names, count, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(disk, lost);
			/* and it stands for any other then */
			mount_disks(&d, all & ~(1u << (lost + 1) % count));
			expect_files(&d, 20, 2);
			unmount_disks(&d);
			expect_clean(&d, all & ~(1u << (lost + 1) % count));
			assert_int_equal(g4_set_rebuild(names, count, true, NULL, &disk, d.message, sizeof(d.message)),
					 0);
			assert_int_equal(disk, (lost + 1) % count);
			assert_int_equal(g4_set_rebuild(names, count, true, NULL, &disk, d.message, sizeof(d.message)),
					 -G4_E_INVAL);
			mount_disks(&d, all);
			expect_files(&d, 20, 2);
			assert_int_equal(put(&d, 1, 3), 0);
			unmount_disks(&d);
			/* a new one in its place: the old one does not come back */
			memcpy(old, d.memory[lost], DISK_BYTES);
			memset(d.memory[lost], 0xa5, DISK_BYTES);
			n = 0;
			for (uint32_t k = 0; k < count; k++)
				if (k != lost)
					names[n++] = d.names[k];
			names[n] = d.names[lost];
			if (g4_set_rebuild(names, count, false, NULL, &disk, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(disk, lost);
			mount_disks(&d, all & ~(1u << (lost + 1) % count));
			assert_int_equal(has(&d, 1, 3), 1);
			assert_int_equal(has(&d, 2, 2), 1);
			unmount_disks(&d);
			memcpy(d.memory[lost], old, DISK_BYTES);
			assert_int_equal(try_open(&d, all, true, 0, &dev), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "replaced"));
			free(old);
			free_disks(&d);
		}
}

static void a_journal_of_which_one_copy_is_rotten_is_replayed(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_dev *dev;
		struct disks d;
		make_disks(&d, 2, sizes);
		format(&d, G4_RAID_1, G4_CHECKSUM_XXH3);
		mount_fs(&d, 3, &dev);
		populate(&d);
		assert_int_equal(op_sync(&d.rig), 0);
		unmount_fs(&d, dev, false);
		rot(&d, bad);
		mount_fs(&d, 3, &dev);
		expect_all(&d);
		unmount_fs(&d, dev, true);
		expect_clean(&d, 2u >> bad);
		free_disks(&d);
	}
}

/* ---- names ---- */

static void names_may_have_commas(void **state)
{
	const char *const names[] = {"a,b", "c\\", "d"};
	char **split, *joined = g4_set_join(names, 3);
	uint32_t count;

	(void)state;
	assert_int_equal(g4_set_names(joined, &split, &count), 0);
	assert_int_equal(count, 3);
	assert_string_equal(split[0], "a,b");
	assert_string_equal(split[2], "d");
	free(split);
	free(joined);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_level_keeps_what_is_written),
		cmocka_unit_test(any_disk_of_two_copies_can_be_missing),
		cmocka_unit_test(two_halves_are_not_put_together),
		cmocka_unit_test(a_mount_that_writes_nothing_makes_no_disk_stale),
		cmocka_unit_test(wrong_disks_are_told),
		cmocka_unit_test(a_disk_may_fail_at_any_write),
		cmocka_unit_test(what_one_disk_can_not_read_comes_from_the_other),
		cmocka_unit_test(nothing_synced_is_lost_when_the_power_fails),
		cmocka_unit_test(a_scrub_mends_a_disk_that_is_rotten_throughout),
		cmocka_unit_test(what_is_read_is_mended),
		cmocka_unit_test(a_journal_of_which_one_copy_is_rotten_is_replayed),
		cmocka_unit_test(a_disk_is_rebuilt_or_replaced),
		cmocka_unit_test(names_may_have_commas),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
