/* SPDX-License-Identifier: Apache-2.0 */
/* The journal is read without being replayed: an image looks as it will after the next mount. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include <sys/stat.h>

static uint64_t crash_behind_a_new_file(void)
{
	uint64_t ino;

	checked_mount();
	assert_int_equal(op_mknod(&checked->rig, G4_NODE_ROOT, "new", S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_sync(&checked->rig), 0);
	checked_unmount(false);
	return ino;
}

static void what_is_committed_is_seen(void **state)
{
	const uint64_t wanted = crash_behind_a_new_file();
	struct g4_image bare;
	char message[256];
	uint64_t ino;

	(void)state;
	check();
	assert_int_equal(checked->fsck.problems, 0);
	assert_true(checked->journal.records > 0 && checked->journal.blocks > 0);
	assert_int_equal(g4_image_resolve(&checked->image, "/new", &ino), 0);
	assert_int_equal(ino, wanted);
	assert_int_equal(g4_image_open(&bare, checked->rig.name, message, sizeof(message)), 0);
	assert_int_equal(g4_image_resolve(&bare, "/new", &ino), -G4_E_NOENT); /* it is in the log alone */
	g4_image_close(&bare);
}

static void visit(void *context, const struct g4_journal_record *record)
{
	uint64_t *sequences = (uint64_t *)context;

	assert_true(record->sequence > sequences[0]);
	sequences[0] = record->sequence;
	sequences[1]++;
}

static void a_record_that_is_damaged_ends_the_log(void **state)
{
	struct g4_journal_state journal;
	uint64_t seen[2] = {0}, fewer[2] = {0}, ino;

	(void)state;
	crash_behind_a_new_file();
	check();
	assert_int_equal(g4_image_scan_journal(&checked->image, visit, seen, &journal), 0);
	assert_int_equal(seen[1], journal.records);
	const struct g4_address last = g4_image_log_address(
		&checked->image, (journal.next_page + checked->image.sb.journal_bytes / G4_PAGE_BYTES - 2) %
					 (checked->image.sb.journal_bytes / G4_PAGE_BYTES - 1));
	check_end();
	checked->rig.image[g4_address_stored(last) + 100] ^= 1; /* the newest record's last page */
	check();
	assert_int_equal(g4_image_scan_journal(&checked->image, visit, fewer, &journal), 0);
	assert_int_equal(fewer[1], seen[1] - 1);
	assert_true(seen[1] > 1 || g4_image_resolve(&checked->image, "/new", &ino) == -G4_E_NOENT);
}

RUN_TESTS(fsck_test(what_is_committed_is_seen), fsck_test(a_record_that_is_damaged_ends_the_log))
