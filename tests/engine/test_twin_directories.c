/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image in which two directories have the same pages: the root of their trees, or what is below it. Threads change both at once, so that what a
 * directory's lock keeps apart is not kept apart. Nothing may hang, crash or leave something locked or begun, every answer is a code that says what is
 * wrong, and what is left can be unmounted and repaired. G4_TWIN_ROUNDS chooses.
 */
#include "damage.h"

#include <pthread.h>
#include <unistd.h>

#include "fs/command.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "fs/remove.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (24 * G4_MIB)
/* of 200 bytes: some sixty leaves, and with tiny pages as many as three levels have room for */
#ifdef G4_DIR_TINY
#define NAMES 300u
#else
#define NAMES 700u
#endif
#define NAME 256u
#define DEADLINE_S 600

enum ways {
	UNLINK_OTHERS,
	UNLINK_SAME,
	UNLINK_AND_MAKE,
	RENAME_AND_UNLINK,
	CLEAR_BOTH,
	CLEAR_AND_MAKE,
	UNITE_BOTH,
	WAYS
};

struct thread {
	pthread_t id;
	struct rig rig;
	uint64_t dir;
	uint32_t number;
	enum ways way;
	bool is_odd; /* something came back that no answer can be */
	int odd;
	uint64_t worked; /* operations that came about */
};

static struct rig rig;
static uint8_t *before; /* the image */
static uint64_t x, y;
static uint32_t started;

static const char *name_of(char name[NAME], const char *prefix, uint32_t number)
{
	const int bytes = snprintf(name, NAME, "%s%08u-", prefix, number);

	memset(name + bytes, 'n', 200 - (size_t)bytes);
	name[200] = 0;
	return name;
}

/* Who asks for a name of a damaged directory may hear these, and nothing else. */
static bool is_answer(int rc)
{
	switch (-rc) {
	case 0:
	case G4_E_NOENT:
	case G4_E_EXIST:
	case G4_E_NOTEMPTY:
	case G4_E_STALE:
	case G4_E_NOSPC:
	case G4_E_ROFS:
	case G4_E_SHUTDOWN:
	case G4_E_TYPE:
	case G4_E_CHECKSUM:
	case G4_E_MISDIRECTED:
	case G4_E_CORRUPT_INODE:
	case G4_E_CORRUPT_DIR:
	case G4_E_CORRUPT_ALLOC:
		return true;
	default:
		return false;
	}
}

static void note(struct thread *t, int rc)
{
	t->worked += rc == 0;
	if (is_answer(rc))
		return;
	t->is_odd = true;
	t->odd = rc;
}

static void unlink_all(struct thread *t, bool all)
{
	char name[NAME];

	for (uint32_t k = 0; k < NAMES; k++) {
		const uint32_t number = t->number ? NAMES - 1 - k : k;
		if (all || number % 2 == t->number)
			note(t, op_unlink(&t->rig, t->dir, name_of(name, "", number)));
	}
}

static void make_some(struct thread *t)
{
	char name[NAME];
	uint64_t ino;

	for (uint32_t k = 0; k < NAMES / 2; k++)
		note(t, op_mknod(&t->rig, t->dir, name_of(name, "new", k), G4_S_IFREG | 0600, &ino));
}

static void rename_all(struct thread *t)
{
	char name[NAME], to[NAME];

	for (uint32_t k = 0; k < NAMES; k++)
		note(t, op_rename(&t->rig, t->dir, name_of(name, "", k), t->dir, name_of(to, "to", k), 0));
}

static void clear_all(struct thread *t)
{
	uint64_t removed = 1;

	for (uint32_t turn = 0; turn < NAMES && removed > 0; turn++)
		note(t, op_clear(&t->rig, t->dir, 100, t->number * 0x40000000u, &removed));
}

/* Before the threads begin: names go and pages stay, as where workgroups clear a directory together. */
static void remove_keeping_pages(void)
{
	char name[NAME];

	for (uint32_t k = 0; k < NAMES; k++) {
		struct g4_cmd cmd = {.op = G4_CMD_UNLINK, .node = x, .name = name_of(name, "", k), .name_bytes = 200};
		assert_int_equal(g4_remove_keeping_pages(rig.wg, rig.fs, &cmd), 0);
	}
}

/* Leaves without names go in runs: between the look at an index page and its change more time goes by than where one goes. */
static void unite_all(struct thread *t)
{
	struct g4_fs *fs = t->rig.fs;
	uint32_t index;
	int rc = g4_icache_get(t->rig.wg, fs, t->dir, &index);

	note(t, rc);
	if (rc < 0)
		return;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t from = 0;
	for (uint32_t step = 0; step < 2 * NAMES && from < G4_DIR_POSITIONS && rc == 0; step++) {
		g4_icache_lock(fs, inode);
		rc = g4_unite_pages(t->rig.wg, fs, inode, &from, G4_DIR_POSITIONS);
		g4_write_unlock(&inode->lock);
		note(t, rc);
	}
	g4_icache_put(fs, index);
	make_some(t);
}

static void *work(void *argument)
{
	struct thread *t = argument;

	__atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) < 2)
		;
	switch (t->way) {
	case UNLINK_OTHERS:
	case UNLINK_SAME:
		unlink_all(t, t->way == UNLINK_SAME);
		break;
	case UNLINK_AND_MAKE:
		t->number ? make_some(t) : unlink_all(t, true);
		break;
	case RENAME_AND_UNLINK:
		t->number ? rename_all(t) : unlink_all(t, false);
		break;
	case CLEAR_AND_MAKE:
		t->number ? make_some(t) : clear_all(t);
		break;
	case UNITE_BOTH:
		unite_all(t);
		break;
	default:
		clear_all(t);
		break;
	}
	return NULL;
}

/* What a workgroup that has left an operation keeps of nothing. */
static void expect_nothing_is_held(void)
{
	const uint64_t inside = (rig.fs->journal.gate & ~(UINT64_C(3) << 62)) >> 32;

	assert_int_equal(inside, 0);
	assert_int_equal(rig_locked_leaves(&rig), 0);
	for (uint32_t k = 0; k < G4_INDEX_LOCKS; k++) {
		assert_true(g4_write_trylock(&rig.fs->dir_locks.indexes[k].lock));
		g4_write_unlock(&rig.fs->dir_locks.indexes[k].lock);
	}
}

static void one_round(uint32_t round, uint64_t *worked)
{
	struct thread threads[2];
	char *text = NULL;

	rig_copy(rig.image, before, rig.bytes);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	if (round % WAYS == UNITE_BOTH)
		remove_keeping_pages();
	started = 0;
	for (uint32_t k = 0; k < 2; k++) {
		threads[k] =
			(struct thread){.rig = rig, .dir = k ? y : x, .number = k, .way = (enum ways)(round % WAYS)};
		threads[k].rig.wg = g4_wg_create(k + 1);
		assert_int_equal(pthread_create(&threads[k].id, NULL, work, &threads[k]), 0);
	}
	for (uint32_t k = 0; k < 2; k++) {
		assert_int_equal(pthread_join(threads[k].id, NULL), 0);
		g4_wg_destroy(threads[k].rig.wg);
		if (threads[k].is_odd)
			fail_msg("round %u: thread %u was told %d", round, k, threads[k].odd);
		*worked += threads[k].worked;
	}
	expect_nothing_is_held();
	(void)g4_fs_unmount(rig.wg, rig.fs, true);
	g4_dev_close(rig.dev);
	g4_wg_destroy(rig.wg);
	struct rig_repair how = {0};
	const int rc = rig_repair(&rig, &how);
	if (rc < 0)
		fail_msg("round %u: repair: %d, %s\n%s", round, rc, how.words, how.text);
	free(how.text);
	if (rig_fsck(&rig, &text).problems > 0)
		fail_msg("round %u: %s", round, text);
	free(text);
}

/* x has names for files of three links each, by the inodes' account; y none, and a leaf. */
static void make_image(void)
{
	char name[NAME];
	uint64_t inos[NAMES], ino;

	rig_open(&rig, IMAGE_BYTES, 0);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "x", 0755, &x), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "y", 0755, &y), 0);
	assert_int_equal(op_mknod(&rig, y, "y", G4_S_IFREG | 0600, &ino), 0);
	for (uint32_t k = 0; k < NAMES; k++)
		assert_int_equal(op_mknod(&rig, x, name_of(name, "", k), G4_S_IFREG | 0600, &inos[k]), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	for (uint32_t k = 0; k < NAMES; k++) {
		damage_inode(&rig, inos[k])->nlink = 3;
		damage_seal(&rig, inos[k] & ~UINT64_C(4095));
	}
	before = rig_memory(rig.bytes, 0);
}

/* The second directory's inode is told of the first one's pages. */
static void tell(uint64_t root)
{
	struct g4_inode *of_x = damage_inode(&rig, x), *of_y = damage_inode(&rig, y);

	of_y->map[0] = root ? root : of_x->map[0];
	of_y->pages = of_x->pages;
	of_y->entries = of_x->entries;
	damage_seal(&rig, y & ~UINT64_C(4095));
	rig_copy(before, rig.image, rig.bytes);
}

static void run(uint64_t rounds)
{
	uint64_t worked = 0;

	rounds = rig_setting("G4_TWIN_ROUNDS", rounds);
	for (uint32_t round = 0; round < rounds; round++)
		one_round(round, &worked);
	assert_true(worked > rounds);
}

static void two_directories_with_one_root(void **state)
{
	(void)state;
	make_image();
	tell(0);
	run(rig_slow() ? 6 : 60);
}

/* Each has a root of its own: a page that both have above the same ones. */
static void two_directories_with_pages_in_common(void **state)
{
	(void)state;
	make_image();
	const uint64_t root = damage_inode(&rig, y)->map[0], above = g4_ptr_offset(root);
	const struct g4_dir_index *of_x =
		(const struct g4_dir_index *)(rig.image + g4_ptr_offset(damage_inode(&rig, x)->map[0]));
	struct g4_dir_index *of_y = (struct g4_dir_index *)(rig.image + above);
	assert_int_equal(of_x->header.type, G4_BLOCK_DIR_INDEX);
	of_y->header.type = G4_BLOCK_DIR_INDEX;
	memcpy((uint8_t *)of_y + sizeof(of_y->header), (const uint8_t *)of_x + sizeof(of_x->header),
	       sizeof(*of_x) - sizeof(of_x->header));
	damage_seal(&rig, above);
	tell(root);
	run(rig_slow() ? 6 : 60);
}

static int setup(void **state)
{
	(void)state;
	alarm(DEADLINE_S);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	free(before);
	before = NULL;
	rig_close(&rig);
	return 0;
}

int main(void)
{
#ifdef G4_TSAN
	return 77; /* the races are the image's, and everywhere: they are what is tested */
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_directories_with_one_root, setup, teardown),
		cmocka_unit_test_setup_teardown(two_directories_with_pages_in_common, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
