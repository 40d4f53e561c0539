/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking without a lock: what was copied while the core of an inode became another inode's, or was filled from the device,
 * does not count.
 */
#include "fs/fs.h"
#include "rig.h"
#include "simt/simt_host.h"

#define FILES 100u /* more than one slab holds */

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, 64 * G4_MIB, 0);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	rig.wg = wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_wg_destroy(wg);
	rig_close(&rig);
	return 0;
}

static void mount_with(const struct g4_fault *fault)
{
	fs = rig_mount_fs(&rig, wg, fault);
	rig.fs = fs;
}

/* ------------------------------------------------------------------ a reader in the middle of a load */

static bool is_unchanged(uint32_t core, uint32_t version)
{
	g4_fence_acq();
	return g4_read_unchanged(&g4_core_of(fs, core)->lock, version);
}

/* Somebody who begins to look at the core that is being loaded whenever the device is asked for something. */
struct reader {
	uint32_t core; /* G4_NO_CORE: has not met one */
	uint32_t version;
	bool quiet;
};

static void begin_to_look(void *context, const struct g4_io *io)
{
	struct reader *reader = (struct reader *)context;

	(void)io;
	for (uint32_t i = 0; i < fs->cores.count; i++) {
		if (g4_load32_acq(&g4_core_of(fs, i)->state) != G4_CORE_LOADING)
			continue;
		reader->core = i;
		reader->quiet = g4_read_begin(&g4_core_of(fs, i)->lock, &reader->version);
	}
}

static void what_was_copied_during_a_load_does_not_count(void **state)
{
	static const struct g4_fault harmless = {.keep_unflushed = true};
	struct reader reader = {.core = G4_NO_CORE};
	struct g4_core copy;
	struct g4_attr attr;
	uint64_t ino = 0;
	char name[16];

	(void)state;
	mount_with(NULL);
	for (uint32_t k = 0; k < FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	}
	rig_unmount_fs(&rig, wg, fs, true);

	mount_with(&harmless);
	g4_dev_fault_watch(rig.fault, begin_to_look, &reader);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_not_equal(reader.core, G4_NO_CORE);
	assert_int_equal(g4_core_of(fs, reader.core)->ino, ino);
	assert_false(reader.quiet && is_unchanged(reader.core, reader.version));
	/* now it does */
	assert_true(g4_core_glance(fs, reader.core, ino, &copy));
	assert_true(is_unchanged(reader.core, copy.lock.version));
	assert_int_equal(copy.disk.mode, G4_S_IFREG | 0600);
	rig_unmount_fs(&rig, wg, fs, true);
}

static void a_copy_does_not_count_when_the_inode_was_changed_or_its_core_given_away(void **state)
{
	struct g4_core copy, before;
	struct g4_attr attr;
	uint64_t ino, other;
	char name[16];

	(void)state;
	mount_with(NULL);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	uint32_t i = g4_core_place(fs, ino);
	assert_int_not_equal(i, G4_NO_CORE);
	assert_true(g4_core_glance(fs, i, ino, &copy));
	assert_true(is_unchanged(i, copy.lock.version));
	attr.mode = 0640;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &attr), 0);
	assert_false(is_unchanged(i, copy.lock.version));

	assert_int_equal(op_sync(&rig), 0);
	assert_true(g4_core_glance(fs, i, ino, &before));
	for (uint32_t k = 0; g4_load64_rlx(&g4_core_of(fs, i)->ino) == ino && k < 4 * fs->cores.count; k++) {
		snprintf(name, sizeof(name), "n%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &other), 0);
	}
	assert_int_not_equal(g4_core_of(fs, i)->ino, ino);
	assert_false(is_unchanged(i, before.lock.version));
	assert_false(g4_core_glance(fs, i, ino, &copy));
	rig_unmount_fs(&rig, wg, fs, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_copied_during_a_load_does_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(a_copy_does_not_count_when_the_inode_was_changed_or_its_core_given_away,
						setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
