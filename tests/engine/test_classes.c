/* SPDX-License-Identifier: Apache-2.0 */
/* What requests are for (dev/slots.h): the class of each that reaches the device, told by where it goes and who asks. */
#include "rig.h"

#include "dev/dev_host.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define FILE_BYTES (2 * G4_MIB)

static struct rig rig;
static const struct g4_fault queued = {.write_through = true};
static uint64_t ino, data_from, data_to; /* where the file's contents lie */
static struct g4_health health;
static struct {
	uint64_t reads[G4_CLASSES], writes[G4_CLASSES];
	uint64_t wrong;
} seen;

static uint64_t journal_from, journal_to;

static bool in_journal(uint64_t at)
{
	return at >= journal_from && at < journal_to;
}

/* Journal writes are in the journal and nowhere else. */
static void note(void *context, const struct g4_io *io)
{
	const uint32_t io_class = g4_io_class(io);

	(void)context;
	if (io->op == G4_IO_READ)
		seen.reads[io_class]++;
	if (io->op != G4_IO_WRITE)
		return;
	seen.writes[io_class]++;
	seen.wrong += in_journal(io->offset_bytes) != (io_class == G4_CLASS_JOURNAL);
	if (io->offset_bytes >= data_from && io->offset_bytes < data_to)
		seen.wrong += io_class != G4_CLASS_FOREGROUND;
}

static void watch(bool on)
{
	memset(&seen, 0, sizeof(seen));
	g4_dev_fault_watch(rig.fault, on ? note : NULL, NULL);
}

static void begin_again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &queued);
}

static int setup(void **state)
{
	uint8_t *data = rig_memory(FILE_BYTES, 1);
	struct g4_map_extent extent;
	uint32_t count;

	(void)state;
	data_from = data_to = journal_from = journal_to = 0;
	rig_begin(&rig, DEVICE_BYTES, 0, &queued);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", 0100644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_map(&rig, ino, 0, &extent, 1, &count), 0);
	data_from = extent.address;
	data_to = extent.address + FILE_BYTES;
	journal_from = rig.fs->super.journal_address;
	journal_to = journal_from + rig.fs->super.journal_bytes;
	free(data);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void a_commit_is_the_journals_and_a_checkpoint_is_metadata(void **state)
{
	uint8_t *data = rig_memory(FILE_BYTES, 2);
	uint64_t other;

	(void)state;
	watch(true);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", 0100644, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(seen.writes[G4_CLASS_JOURNAL] > 0);
	assert_true(seen.writes[G4_CLASS_FOREGROUND] > 0);
	assert_int_equal(seen.writes[G4_CLASS_BACKGROUND], 0);
	assert_int_equal(seen.wrong, 0);
	begin_again(); /* an unmount writes all of it home */
	assert_true(seen.writes[G4_CLASS_METADATA] > 0);
	assert_int_equal(seen.wrong, 0);
	free(data);
}

static void blocks_are_metadata_and_contents_are_not(void **state)
{
	uint8_t *to = rig_memory(FILE_BYTES, 3);
	struct g4_attr attr;

	(void)state;
	begin_again();
	watch(true);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "file", &attr), 0);
	assert_true(seen.reads[G4_CLASS_METADATA] > 0);
	assert_int_equal(seen.reads[G4_CLASS_FOREGROUND], 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, to, FILE_BYTES, NULL), 0);
	assert_true(seen.reads[G4_CLASS_FOREGROUND] > 0);
	assert_int_equal(seen.reads[G4_CLASS_BACKGROUND], 0);
	watch(false);
	free(to);
}

static void scrub(void)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};

	watch(true);
	assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
	while (rig_last_job(&rig, &health)->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
	assert_true(seen.reads[G4_CLASS_BACKGROUND] > 0);
	assert_int_equal(seen.reads[G4_CLASS_FOREGROUND], 0);
	watch(false);
}

static void a_scrub_is_background(void **state)
{
	(void)state;
	begin_again();
	scrub();
}

/* What does not match is read again, each page by itself: nobody waits for that either. */
static void what_a_scrub_reads_again_is_background(void **state)
{
	(void)state;
	begin_again();
	assert_int_equal(g4_dev_fault_flip(rig.fault, data_from, 1), 0);
	scrub();
	assert_int_equal(rig_last_job(&rig, &health)->errors, 1);
}

#define class_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		class_test(a_commit_is_the_journals_and_a_checkpoint_is_metadata),
		class_test(blocks_are_metadata_and_contents_are_not),
		class_test(a_scrub_is_background),
		class_test(what_a_scrub_reads_again_is_background),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
