/* SPDX-License-Identifier: Apache-2.0 */
/* Listing: every name once, from any cookie on, however small the room is, and over changes. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT
#define NAMES 300u

static uint8_t seen[NAMES];

/* Counts the names that a listing of pieces of `room` bytes gives. */
static uint32_t list(uint64_t dir, uint64_t room, bool remove)
{
	_Alignas(8) uint8_t records[4096];
	uint64_t cookie = G4_COOKIE_NAMES, bytes;
	uint32_t count = 0;

	memset(seen, 0, sizeof(seen));
	for (;;) {
		assert_int_equal(op_readdir(&rig, dir, cookie, records, room, &bytes), 0);
		if (bytes == 0)
			return count;
		for (uint64_t at = 0; at < bytes;) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)&records[at];
			char name[16] = "";
			assert_true(entry->name_bytes < sizeof(name));
			memcpy(name, entry + 1, entry->name_bytes);
			seen[strtoul(name + 1, NULL, 10)]++;
			count++;
			cookie = entry->cookie;
			at += entry->record_bytes;
			if (remove)
				assert_int_equal(op_unlink(&rig, dir, name), 0);
		}
	}
}

static void every_name_is_listed_once(void **state)
{
	static const uint64_t rooms[] = {40, 100, 4096};
	uint64_t dir, ino;
	char name[16];

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(op_mknod(&rig, dir, name, 0100644, &ino), 0);
	}
	for (uint32_t r = 0; r < 3; r++) {
		assert_int_equal(list(dir, rooms[r], false), NAMES);
		for (uint32_t i = 0; i < NAMES; i++)
			assert_int_equal(seen[i], 1);
	}
	assert_int_equal(list(dir, 1000, true), NAMES);
	assert_int_equal(list(dir, 1000, false), 0);
}

static void what_does_not_fit_is_told(void **state)
{
	uint8_t record[8];
	uint64_t dir, ino, bytes;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, dir, "f", 0100644, &ino), 0);
	assert_int_equal(op_readdir(&rig, dir, 0, record, sizeof(record), &bytes), -G4_E_RANGE);
	assert_int_equal(op_readdir(&rig, ino, 0, record, sizeof(record), &bytes), -G4_E_NOTDIR);
}

RUN_TESTS(fs_test(every_name_is_listed_once), fs_test(what_does_not_fit_is_told))
