/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lookup whose inode is not in core, while the device takes its time: it holds nothing that makers in the same leaf want, and what
 * they did meanwhile counts. The device's watcher is called in the middle of a read, so all is in one order and nobody sleeps.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define BESIDE 40u /* names between the two: their inodes fill slabs of their own */

static struct rig rig;

static struct meanwhile {
	uint64_t dir, ino;
	struct g4_wg *wg; /* of who makes a name */
	uint32_t reads, locked;
	bool make, made;
	int rc;
} m;

/* A directory with names, none of its inodes in core but its own: that of "loaded" is in another slab than the directory. */
static int setup(void **state)
{
	const struct g4_fault none = {0};
	struct g4_attr attr;
	char name[32];
	uint64_t ino;

	(void)state;
	memset(&m, 0, sizeof(m));
	rig_begin(&rig, DEVICE_BYTES, 0, &none);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &m.dir), 0);
	for (uint32_t k = 0; k < BESIDE; k++) {
		snprintf(name, sizeof(name), "beside %u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, 0100644, &ino), 0);
	}
	assert_int_equal(op_mknod(&rig, m.dir, "loaded", 0100644, &m.ino), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	m.wg = g4_wg_create(1);
	assert_non_null(m.wg);
	assert_int_equal(op_lookup(&rig, m.dir, "not there", &attr), -G4_E_NOENT); /* the leaf is in the cache */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	g4_wg_destroy(m.wg);
	return 0;
}

static int make(const char *name)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_MKNOD,
			     .node = m.dir,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .mode = 0100644,
			     .attr = &attr};

	return g4_execute(m.wg, rig.fs, &cmd);
}

static void *make_beside(void *unused)
{
	(void)unused;
	m.rc = make("made meanwhile");
	return NULL;
}

/* In the middle of a request. A maker that met a locked leaf would wait for ever, so there is none then. */
static void watch(void *unused, const struct g4_io *io)
{
	pthread_t maker;

	(void)unused;
	if (io->op != G4_IO_READ)
		return;
	m.reads++;
	m.locked += rig_locked_leaves(&rig);
	if (!m.make || m.made || m.locked)
		return;
	m.made = true;
	assert_int_equal(pthread_create(&maker, NULL, make_beside, NULL), 0);
	assert_int_equal(pthread_join(maker, NULL), 0);
}

static void look(void)
{
	struct g4_attr attr = {0};

	g4_dev_fault_watch(rig.fault, watch, NULL);
	assert_int_equal(op_lookup(&rig, m.dir, "loaded", &attr), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_equal(attr.ino, m.ino);
	assert_true(m.reads > 0);
	assert_int_equal(m.locked, 0);
}

static void an_inode_is_loaded_without_the_leaf(void **state)
{
	(void)state;
	look();
}

static void a_name_is_made_while_another_one_is_loaded(void **state)
{
	struct g4_attr attr = {0};

	(void)state;
	assert_int_equal(make("first"), 0); /* a slab for the maker, for its next name reads nothing */
	m.make = true;
	look();
	assert_true(m.made);
	assert_int_equal(m.rc, 0);
	assert_int_equal(op_lookup(&rig, m.dir, "made meanwhile", &attr), 0);
	assert_int_equal(op_lookup(&rig, m.dir, "loaded", &attr), 0);
	assert_int_equal(attr.ino, m.ino);
}

/* Who removes a name loads its inode, too; all that look for it meanwhile wait without the leaf. */
static void a_removal_loads_without_the_leaf(void **state)
{
	(void)state;
	g4_dev_fault_watch(rig.fault, watch, NULL);
	assert_int_equal(op_unlink(&rig, m.dir, "loaded"), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_true(m.reads > 0);
	assert_int_equal(m.locked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_inode_is_loaded_without_the_leaf, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_is_made_while_another_one_is_loaded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_removal_loads_without_the_leaf, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
