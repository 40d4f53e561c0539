/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names come and go, and one of the pages that this asks for can not be read, once or each time: the change is refused, or done, and nobody else's writes
 * end. All pages that a change reads take their turn.
 */
#include "rig.h"

#include "fs/fs.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (16 * G4_MIB)
#define NAMES 120u /* of 190 bytes: some leaves, and an index page */
#define PLACES_MOST 512u

static struct rig rig;
static uint8_t *data, *image;
static uint64_t first, second, file, other;
static uint64_t places[PLACES_MOST];
static uint32_t place_count;

/* Two of them at a time. */
static const char *name_of(uint32_t k)
{
	static char names[2][200];
	static uint32_t turn;
	char *const name = names[turn++ % 2];

	snprintf(name, sizeof(names[0]), "%0190u", k);
	return name;
}

static void mount_fs(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, &(struct g4_fault){0});
}

static void unmount_clean(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

/* Of the first directory every third name is a directory, and every third has contents. */
static int setup(void **state)
{
	uint64_t made;

	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_NONE, 0, IMAGE_BYTES, 4 * G4_MIB);
	rig.wg = g4_wg_create(0);
	data = rig_memory(G4_PAGE_BYTES, 3);
	image = rig_memory(IMAGE_BYTES, 0);
	mount_fs();
	other = rig_make_file(&rig, "other", 0, data, G4_PAGE_BYTES);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "first", 0755, &first), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "second", 0755, &second), 0);
	for (uint32_t k = 0; k < NAMES; k++) {
		if (k % 3 == 0)
			assert_int_equal(op_mkdir(&rig, first, name_of(k), 0755, &made), 0);
		else
			assert_int_equal(op_mknod(&rig, first, name_of(k), G4_S_IFREG | 0600, &made), 0);
		if (k % 3 == 1)
			assert_int_equal(op_write(&rig, made, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_mknod(&rig, second, name_of(k), G4_S_IFREG | 0600, &made), 0);
	}
	assert_int_equal(op_mkdir(&rig, second, "inner", 0755, &made), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0600, &file), 0);
	assert_int_equal(op_sync(&rig), 0);
	unmount_clean();
	memcpy(image, rig.image, IMAGE_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	free(image);
	return 0;
}

enum deed {
	CREATE,
	CREATE_MANY,
	MKDIR,
	LINK,
	SYMLINK,
	UNLINK,
	UNLINK_MANY,
	RMDIR,
	RENAME,
	RENAME_ACROSS,
	RENAME_OVER,
	RENAME_DIRECTORY,
	EXCHANGE,
	CLEAR,
	DEEDS
};

static int do_deed(enum deed deed)
{
	uint64_t made;
	int rc = 0;

	switch (deed) {
	case CREATE:
		return op_mknod(&rig, first, "new", G4_S_IFREG | 0600, &made);
	case CREATE_MANY:
		for (uint32_t k = 0; k < 40 && rc == 0; k++)
			rc = op_mknod(&rig, first, name_of(1000 + k), G4_S_IFREG | 0600, &made);
		return rc;
	case MKDIR:
		return op_mkdir(&rig, first, name_of(2000), 0755, &made);
	case LINK:
		return op_link(&rig, file, first, name_of(2000));
	case SYMLINK:
		return op_symlink(&rig, first, name_of(2000), name_of(1), &made);
	case UNLINK:
		return op_unlink(&rig, first, name_of(1));
	case UNLINK_MANY:
		for (uint32_t k = 0; k < NAMES && rc == 0; k++)
			rc = op_unlink(&rig, second, name_of(k));
		return rc;
	case RMDIR:
		return op_rmdir(&rig, first, name_of(3));
	case RENAME:
		return op_rename(&rig, first, name_of(1), first, name_of(2001), 0);
	case RENAME_ACROSS:
		for (uint32_t k = 0; k < 8 && rc == 0; k++)
			rc = op_rename(&rig, first, name_of(3 * k + 1), second, name_of(2000 + k), 0);
		return rc;
	case RENAME_OVER:
		return op_rename(&rig, second, name_of(1), first, name_of(4), 0);
	case RENAME_DIRECTORY:
		return op_rename(&rig, second, "inner", first, name_of(3), 0);
	case EXCHANGE:
		return op_rename(&rig, second, name_of(5), first, name_of(6), G4_RENAME_EXCHANGE);
	default:
		return op_clear(&rig, first, 10 * NAMES, 0, &made);
	}
}

static void note_read(void *context, const struct g4_io *io)
{
	(void)context;
	if (io->op == G4_IO_READ && place_count < PLACES_MOST)
		places[place_count++] = io->offset_bytes;
}

/* With nothing of it in the cache. */
static void begin_again(void)
{
	memcpy(rig.image, image, IMAGE_BYTES);
	mount_fs();
}

static void find_places(enum deed deed)
{
	begin_again();
	place_count = 0;
	g4_dev_fault_watch(rig.fault, note_read, NULL);
	assert_int_equal(do_deed(deed), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_in_range(place_count, 1, PLACES_MOST - 1);
	unmount_clean();
}

static int one_change(enum deed deed, const struct g4_fault *fault)
{
	begin_again();
	g4_dev_fault_set(rig.fault, fault);
	const int rc = do_deed(deed);
	if (rc != 0 && rc != -G4_E_IO)
		fail_msg("deed %u: %s", deed, g4_strerror(rc));
	if (rig.fs->journal.aborted)
		fail_msg("deed %u, page at %#lx: the journal has stopped", deed, (unsigned long)fault->bad_at);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	assert_int_equal(op_write(&rig, other, 0, 0, data, 100, NULL), 0);
	assert_int_equal(op_fsync(&rig, other), 0);
	const int again = rc < 0 ? do_deed(deed) : 0; /* some of many names may have come or gone */
	assert_true(again == 0 || again == -G4_E_EXIST || again == -G4_E_NOENT);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a change that could not be done at first");
	return rc;
}

static void a_page_that_can_not_be_read_ends_that_change_alone(void **state)
{
	(void)state;
	for (enum deed deed = CREATE; deed < DEEDS; deed++) {
		uint32_t refused = 0;

		find_places(deed);
		const uint32_t count = place_count;
		for (uint32_t k = 0; k < count; k++) {
			refused += one_change(deed, &(struct g4_fault){.bad_at = places[k], .bad_bytes = 1}) < 0;
			refused += one_change(deed, &(struct g4_fault){.fail_read_at = k + 1}) < 0;
		}
		assert_in_range(refused, 2, 2 * count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_page_that_can_not_be_read_ends_that_change_alone, setup, teardown),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("names_unreadable", tests, NULL, NULL);
}
