/* SPDX-License-Identifier: Apache-2.0 */
#include "disks.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dev/agent_host.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define DEEP_BYTES (5 * G4_MIB)
#define REMOTE_SLOTS 16u
#define REMOTE_CHUNK_BYTES (32 * G4_KIB) /* a set's own table fits (space/direct.h) */
#define CACHE_BYTES (4 * G4_MIB)
#define CUDA_CACHE_BYTES (64 * G4_MIB)
#define CUDA_SMS 16u

/* ---- disks in memory ---- */

/* Disks that are free, for the next one of that size: pages that are new, in each mapping of it, take ten times what clearing takes. */
#define FREE_DISKS 12u
static struct free_disk {
	uint8_t *memory; /* NULL: none */
	uint64_t bytes;
	int fd;
} free_disks[FREE_DISKS];

static void clear(const struct free_disk *disk)
{
	for (off_t at = lseek(disk->fd, 0, SEEK_DATA), end; at >= 0; at = lseek(disk->fd, end, SEEK_DATA)) {
		end = lseek(disk->fd, at, SEEK_HOLE);
		assert_true(end > at);
		memset(disk->memory + at, 0, (size_t)(end - at));
	}
	assert_int_equal(errno, ENXIO);
}

static struct free_disk make_disk(uint64_t bytes)
{
	struct free_disk disk = {.bytes = bytes};

	for (uint32_t k = 0; k < FREE_DISKS; k++)
		if (free_disks[k].memory && free_disks[k].bytes == bytes) {
			disk = free_disks[k];
			free_disks[k].memory = NULL;
			clear(&disk);
			return disk;
		}
	disk.fd = memfd_create("gpu4fs-disk", MFD_CLOEXEC);
	assert_true(disk.fd >= 0);
	assert_return_code(ftruncate(disk.fd, (off_t)bytes), 0);
	disk.memory = (uint8_t *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, disk.fd, 0);
	assert_true(disk.memory != MAP_FAILED);
	return disk;
}

/* One whose size a test has changed is not used again. */
static void free_disk(const struct free_disk *disk)
{
	struct stat st;

	assert_return_code(fstat(disk->fd, &st), 0);
	for (uint32_t k = 0; k < FREE_DISKS && st.st_size == (off_t)disk->bytes; k++)
		if (!free_disks[k].memory) {
			free_disks[k] = *disk;
			return;
		}
	munmap(disk->memory, disk->bytes);
	close(disk->fd);
}

void disks_make(struct disks *d, uint32_t count, const uint64_t *bytes)
{
	memset(d, 0, sizeof(*d));
	d->count = count;
	for (uint32_t n = 0; n < count; n++) {
		d->bytes[n] = bytes ? bytes[n] : DISK_BYTES;
		const struct free_disk disk = make_disk(d->bytes[n]);
		d->fds[n] = disk.fd;
		d->memory[n] = disk.memory;
		snprintf(d->names[n], sizeof(d->names[n]), "dax:/proc/self/fd/%d", d->fds[n]);
	}
}

void disks_free(struct disks *d)
{
	for (uint32_t n = 0; n < d->count; n++)
		free_disk(&(struct free_disk){d->memory[n], d->bytes[n], d->fds[n]});
}

/* The disks of a set of bits, as one name. */
const char *disks_name_of(struct disks *d, uint32_t which)
{
	d->all[0] = 0;
	for (uint32_t n = 0; n < d->count; n++)
		if (which >> n & 1) {
			strcat(d->all, d->all[0] ? "," : "");
			strcat(d->all, d->names[n]);
		}
	return d->all;
}

struct g4_dev *disks_open_one(const char *name)
{
	struct g4_dev *dev;
	char message[256];

	if (g4_dev_open(name, &(struct g4_dev_open_options){.flags = 0}, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	return dev;
}

static int open_disks(struct disks *d, uint32_t which, const struct g4_set_options *options, struct g4_dev **dev)
{
	const char *name = disks_name_of(d, which);

	d->message[0] = 0;
	return g4_set_open(&name, 1, options, dev, d->message, sizeof(d->message));
}

int disks_try_open(struct disks *d, uint32_t which, bool degraded, uint32_t flags, struct g4_dev **dev)
{
	const struct g4_set_options options = {.open.flags = flags, .degraded = degraded};

	return open_disks(d, which, &options, dev);
}

int disks_open_to_mount(struct disks *d, uint32_t which, bool degraded, struct g4_dev **dev)
{
	const struct g4_set_options options = {.degraded = degraded, .mounts = true};

	return open_disks(d, which, &options, dev);
}

void disks_format_plan(struct disks *d, const struct g4_set_plan *plan, uint32_t checksum)
{
	const struct g4_mkfs_options options = {.journal_bytes = JOURNAL_BYTES, .checksum = g4_policy_of(checksum)};
	struct g4_dev *devs[MOST_DISKS], *set;
	const char *names[MOST_DISKS];
	struct g4_superblock sb;

	for (uint32_t n = 0; n < d->count; n++) {
		names[n] = d->names[n];
		devs[n] = disks_open_one(names[n]);
	}
	if (g4_set_make(devs, names, d->count, plan, &set, d->message, sizeof(d->message)) < 0 ||
	    g4_mkfs(set, &options, &sb, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
}

#define FRONT_BYTES (60 * 15 * G4_PAGE_BYTES)
void disks_format_rows(struct disks *d, uint32_t parity, uint32_t checksum)
{
	const struct g4_set_plan plan = {
		.raid = G4_RAID_PARITY, .parity = parity, .stripe_bytes = ROWS_STRIPE, .journal_bytes = JOURNAL_BYTES};
	uint8_t *data = rig_memory(FRONT_BYTES, 3);
	uint64_t ino, done;

	disks_format_plan(d, &plan, checksum);
	disks_mount(d, (1u << d->count) - 1);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "front", G4_S_IFREG | 0644, &ino), 0);
	/* with holes, so that it is in no page of 2 MiB, which would lie elsewhere */
	for (uint64_t at = 0; at < FRONT_BYTES; at += 15 * G4_PAGE_BYTES) {
		assert_int_equal(op_write(&d->rig, ino, 0, at / 15 * 16, data, 15 * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(done, 15 * G4_PAGE_BYTES);
	}
	disks_unmount(d);
	free(data);
}

void disks_format_copies(struct disks *d, enum g4_raid raid, uint32_t copies, uint32_t checksum)
{
	const struct g4_set_plan plan = {.raid = raid, .copies = copies};

	disks_format_plan(d, &plan, checksum);
}

void disks_format(struct disks *d, enum g4_raid raid, uint32_t checksum)
{
	disks_format_copies(d, raid, 0, checksum);
}

static bool is_engine(const char *name)
{
	const char *engine = getenv("G4_TEST_ENGINE");

	return engine && strcmp(engine, name) == 0;
}

static struct g4_mount_options mount_options(void)
{
	struct g4_mount_options options = {.commit_ms = 1000000, .cache_bytes = CACHE_BYTES};

	if (is_engine("cuda")) {
		options.kind = G4_ENGINE_CUDA;
		options.cache_bytes = CUDA_CACHE_BYTES;
		options.sms = CUDA_SMS;
	}
	return options;
}

uint64_t disks_every(uint64_t slow)
{
	const bool shared = is_engine("remote") && rig_setting("G4_TEST_LONG", 0) == 0;

	return g4_max64(rig_every(slow), shared ? slow : 1);
}

bool disks_takes_loss(uint32_t lost)
{
	static uint32_t turn;

	return lost == 0 || turn++ % rig_every(2) == 0;
}

struct g4_dev *disks_behind(struct g4_dev *set)
{
	const struct g4_agent_options queue = {.slots = REMOTE_SLOTS, .chunk_bytes = REMOTE_CHUNK_BYTES};
	struct g4_dev *remote;

	if (!is_engine("remote"))
		return set;
	assert_int_equal(g4_dev_remote_open(set, &queue, &remote), 0);
	return remote;
}

/* Mounts these disks; d->rig has the commands then. */
int disks_try_mount(struct disks *d, uint32_t which, bool degraded)
{
	const struct g4_mount_options options = mount_options();
	struct g4_dev *dev;
	int rc = disks_open_to_mount(d, which, degraded, &dev);

	memset(&d->rig, 0, sizeof(d->rig));
	if (rc == 0)
		rc = g4_engine_mount_device(disks_behind(dev), &options, &d->rig.engine, d->message,
					    sizeof(d->message));
	return rc;
}

void disks_mount(struct disks *d, uint32_t which)
{
	if (disks_try_mount(d, which, which != (1u << d->count) - 1) < 0)
		fail_msg("%s", d->message);
}

void disks_unmount(struct disks *d)
{
	assert_int_equal(rig_unmount(&d->rig), 0);
}

void disks_expect_clean(struct disks *d, uint32_t which)
{
	char *text;

	snprintf(d->rig.name, sizeof(d->rig.name), "%s", disks_name_of(d, which));
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
int disks_put(struct disks *d, uint32_t number, uint32_t version)
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
int disks_has(struct disks *d, uint32_t number, uint32_t version)
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

void disks_expect_files(struct disks *d, uint32_t count, uint32_t version)
{
	for (uint32_t n = 0; n < count; n++)
		if (disks_has(d, n, version) != 1)
			fail_msg("file %u is not what was written: %d", n, disks_has(d, n, version));
}

void disks_wrap_faulty(struct disks *d, struct faulty *f)
{
	for (uint32_t n = 0; n < d->count; n++)
		assert_int_equal(g4_dev_fault_open(disks_open_one(d->names[n]), &f->fault[n]), 0);
}

void disks_assemble_faulty(struct disks *d, struct faulty *f)
{
	const struct g4_set_options options = {.degraded = false};
	const char *names[MOST_DISKS];

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[n];
	if (g4_set_assemble(f->fault, names, d->count, &options, &f->set, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

void disks_open_faulty(struct disks *d, struct faulty *f)
{
	disks_wrap_faulty(d, f);
	disks_assemble_faulty(d, f);
}

void disks_mount_faulty(struct disks *d, struct faulty *f)
{
	const struct g4_mount_options options = mount_options();

	memset(&d->rig, 0, sizeof(d->rig));
	if (g4_engine_mount_device(disks_behind(f->set), &options, &d->rig.engine, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

/* One byte of each page of a disk is another, but for its superblocks: they say that it is one of the set. */
void disks_rot(struct disks *d, uint32_t bad)
{
	for (uint64_t page = G4_CHUNKS_ADDRESS / G4_PAGE_BYTES; page < d->bytes[bad] / G4_PAGE_BYTES - 1; page++)
		d->memory[bad][page * G4_PAGE_BYTES + 40 + page * 7 % 3000] ^= 0x10;
}

void disks_begin_fs(struct disks *d, struct g4_dev *set, uint32_t flags)
{
	const struct g4_fs_options options = {.cache_bytes = CACHE_BYTES, .flags = flags};

	memset(&d->rig, 0, sizeof(d->rig));
	assert_false(is_engine("cuda"));
	d->rig.wg = g4_wg_create(0);
	d->outer = disks_behind(set);
	if (g4_fs_mount(d->rig.wg, d->outer, &options, &d->rig.fs, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

void disks_mount_fs(struct disks *d, uint32_t which, struct g4_dev **dev)
{
	if (disks_open_to_mount(d, which, true, dev) < 0)
		fail_msg("%s", d->message);
	disks_begin_fs(d, *dev, 0);
}

void disks_unmount_fs(struct disks *d, struct g4_dev *dev, bool clean)
{
	(void)dev; /* its holder needs it no more */
	assert_int_equal(g4_fs_unmount(d->rig.wg, d->rig.fs, clean), 0);
	g4_wg_destroy(d->rig.wg);
	d->rig.fs = NULL;
	d->rig.wg = NULL;
	g4_dev_close(d->outer);
}

/* Every kind of page. */
void disks_populate(struct disks *d)
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
		assert_int_equal(disks_put(d, n, 1), 0);
	free(data);
}

uint64_t disks_fill(struct disks *d, uint64_t *ino)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t done = 0, at = 0;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "big", G4_S_IFREG | 0644, ino), 0);
	while (op_write(&d->rig, *ino, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB)
		at += G4_MIB;
	free(data);
	return at;
}

void disks_expect_filled(struct disks *d, uint64_t ino, uint64_t bytes)
{
	uint8_t *data = rig_memory(G4_MIB, 5), *found = rig_memory(G4_MIB, 6);
	uint64_t done = 0;

	for (uint64_t offset = 0; offset < bytes; offset += G4_MIB) {
		assert_int_equal(op_read(&d->rig, ino, 0, offset, found, G4_MIB, &done), 0);
		assert_int_equal(done, G4_MIB);
		assert_memory_equal(found, data, G4_MIB);
	}
	free(data);
	free(found);
}

void disks_expect_refused(uint32_t count, const struct g4_set_plan *plan, const char *words)
{
	struct g4_dev *devs[G4_MAX_DISKS], *set;
	const char *names[G4_MAX_DISKS];
	struct disks d;

	disks_make(&d, count, NULL);
	for (uint32_t n = 0; n < count; n++) {
		names[n] = d.names[n];
		devs[n] = disks_open_one(names[n]);
	}
	assert_int_equal(g4_set_make(devs, names, count, plan, &set, d.message, sizeof(d.message)), -G4_E_INVAL);
	assert_non_null(strstr(d.message, words));
	for (uint32_t n = 0; n < count; n++)
		g4_dev_close(devs[n]);
	disks_free(&d);
}

void disks_expect_all(struct disks *d)
{
	static char value[20000];
	uint8_t *data = rig_memory(DEEP_BYTES, 9), *found = rig_memory(12 * G4_PAGE_BYTES, 1);
	struct g4_attr dir, attr;
	uint64_t done = 0;
	char name[64];

	disks_expect_files(d, 10, 1);
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

struct g4_health disks_health;

const struct g4_job_record *disks_newest_job(struct disks *d)
{
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &disks_health, .length = sizeof(disks_health)};
	const struct g4_job_record *newest = &disks_health.jobs[0];

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &list), 0);
	for (uint32_t k = 1; k < G4_JOBS; k++)
		newest = disks_health.jobs[k].number > newest->number ? &disks_health.jobs[k] : newest;
	return newest;
}

/* To its end; the damage that it found. */
uint64_t disks_scrub(struct disks *d)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &start), 0);
	while (disks_newest_job(d)->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(d->rig.wg, d->rig.fs, true), 0);
	assert_int_equal(disks_newest_job(d)->state, G4_JOB_DONE);
	return disks_newest_job(d)->errors;
}

/* ---- the power fails ---- */

static void note(void *context, const struct g4_io *io)
{
	struct disks_watched *w = (struct disks_watched *)context;

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

	count = g4_min64(count, g4_dev_fault_recorded(fault)); /* a request that failed is the last, and is not there */
	for (uint64_t k = 0; k < count; k++)
		if (g4_dev_fault_recorded_op(fault, k)->op == G4_IO_FLUSH)
			flushed = k;
	for (uint64_t k = 0; k < count; k++) {
		const struct g4_fault_op *op = g4_dev_fault_recorded_op(fault, k);
		const bool durable = k < flushed || (op->flags & G4_IO_FUA);
		for (uint64_t at = 0; op->op == G4_IO_WRITE && at < op->bytes; at += 512)
			if (durable || rig_random(random) % 2)
				rig_copy(image + op->offset_bytes + at, op->data + at, 512);
	}
}

void disks_watch(struct disks *d, struct faulty *f, struct disks_order *order)
{
	for (uint32_t n = 0; n < d->count; n++) {
		order->watched[n] = (struct disks_watched){order, (uint8_t)n};
		g4_dev_fault_record(f->fault[n], true);
		g4_dev_fault_watch(f->fault[n], note, &order->watched[n]);
	}
}

void disks_crash(struct disks *crashed, uint8_t *const *start, struct faulty *f, const struct disks_order *order,
		 uint32_t at, uint64_t *random)
{
	uint64_t counts[MOST_DISKS] = {0};

	for (uint32_t k = 0; k < at; k++)
		counts[order->disk[k]]++;
	for (uint32_t n = 0; n < crashed->count; n++) {
		rig_copy(crashed->memory[n], start[n], crashed->bytes[n]);
		crash_disk(crashed->memory[n], f->fault[n], counts[n], random);
	}
}
