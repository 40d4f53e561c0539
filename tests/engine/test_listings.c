/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings with attributes while names come, go and change: a name that stays is listed exactly once by each caller that lists its part
 * of the directory, and what is told of a name was true of it. Who makes a name says so in the owner of its inode, so that attributes
 * of another inode, which has the number by now, are seen; owner and time change together, so that half of a change is.
 * G4_LISTINGS_ROUNDS chooses how long.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/command.h"

#define STAYING 200u
#define CHANGING 64u
#define MAKERS 2u
#define LISTERS 3u
#define MADE_BY 1000u /* the owner of changing name k is MADE_BY + k */

static struct rig rig;
static uint64_t dir, kept[STAYING];
static uint32_t over;

struct party {
	pthread_t id;
	struct rig rig;
	uint32_t number, rounds;
	uint64_t listed; /* names, also those that change */
	int code;	 /* the first that should not be */
	const char *wrong;
};

static uint32_t rounds(void)
{
	const char *text = getenv("G4_LISTINGS_ROUNDS");

	return text ? (uint32_t)atoi(text) : 40;
}

static int setup(void **state)
{
	(void)state;
	rig_begin_engine(&rig, 64 * G4_MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig.cred = NULL;
	rig_end_engine(&rig);
	return 0;
}

static void changing_name(char name[16], uint32_t k)
{
	snprintf(name, 16, "c%u", k);
}

static int own(struct rig *r, uint64_t ino, uint32_t who)
{
	struct g4_attr attr = {.uid = who, .mtime_ns = who};

	return op_setattr(r, ino, G4_SET_UID | G4_SET_MTIME, &attr);
}

static void make_directory(void)
{
	char name[16];

	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < STAYING; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		if (k % 8 == 0)
			assert_int_equal(op_mkdir(&rig, dir, name, 0755, &kept[k]), 0);
		else
			assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, &kept[k]), 0);
		assert_int_equal(own(&rig, kept[k], 0), 0);
	}
}

/* Makes and removes names; a name's inode has the number of another one's from before. */
static void *change_names(void *context)
{
	struct party *party = context;
	uint64_t random = 77 + party->number;
	char name[16];

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED) && party->code == 0) {
		const uint32_t k = (uint32_t)rig_random(&random) % (CHANGING / MAKERS) * MAKERS + party->number;
		const struct g4_cred owner = {.uid = MADE_BY + k, .gid = MADE_BY + k, .flags = G4_CRED_TRUSTED};
		changing_name(name, k);
		party->rig.cred = &owner;
		int rc = op_mknod(&party->rig, dir, name, G4_S_IFREG | 0600, NULL);
		if (rc == -G4_E_EXIST)
			rc = op_unlink(&party->rig, dir, name);
		party->code = rc;
		party->rounds++;
	}
	return NULL;
}

/* Of names that stay. */
static void *change_owners(void *context)
{
	struct party *party = context;
	uint64_t random = 5;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED) && party->code == 0)
		party->code =
			own(&party->rig, kept[rig_random(&random) % STAYING], (uint32_t)rig_random(&random) % 1000);
	return NULL;
}

static const char *check_record(const struct g4_dirent *record, uint8_t *seen)
{
	const char *text = (const char *)(record + 1);
	struct g4_attr attr;
	char name[16] = "";

	if (!record->has_attr)
		return "a name without attributes";
	memcpy(&attr, text, sizeof(attr));
	if (record->name_bytes >= sizeof(name))
		return "a long name";
	memcpy(name, text + sizeof(attr), record->name_bytes);
	const uint32_t k = (uint32_t)atoi(name + 1);
	if (record->ino != attr.ino || (name[0] == 's' && attr.uid != attr.mtime_ns))
		return "half of a change";
	if (name[0] == 'c')
		return attr.uid == MADE_BY + k && attr.mode == (G4_S_IFREG | 0600) ? NULL : "another one's attributes";
	if (name[0] != 's' || k >= STAYING || attr.ino != kept[k])
		return "another one's number";
	if (attr.mode != (k % 8 == 0 ? G4_S_IFDIR | 0755 : G4_S_IFREG | 0644))
		return "another one's mode";
	seen[k]++;
	return NULL;
}

/* From one cookie to another, with little room, as one of several callers. */
static void list_part(struct party *party, uint64_t cookie, uint64_t end, uint64_t room, uint8_t *seen)
{
	static _Thread_local uint64_t records[1024];

	for (uint64_t bytes = 1; bytes > 0 && party->code == 0 && !party->wrong;) {
		struct g4_cmd cmd = {.op = G4_CMD_READDIR,
				     .node = dir,
				     .cookie = cookie,
				     .data = records,
				     .length = room,
				     .flags = G4_READDIR_PLUS};
		party->code = g4_engine_execute(party->rig.engine, &cmd);
		bytes = cmd.value;
		for (uint64_t at = 0; party->code == 0 && at < bytes && !party->wrong;) {
			const struct g4_dirent *record =
				(const struct g4_dirent *)(const void *)((const uint8_t *)records + at);
			if (record->cookie > end)
				return;
			party->wrong = record->cookie <= cookie ? "names out of order" : check_record(record, seen);
			cookie = record->cookie;
			at += record->record_bytes;
			party->listed++;
		}
	}
}

static void *list_all(void *context)
{
	static const uint64_t rooms[] = {400, 8192, 1500};
	struct party *party = context;
	const uint64_t parts = 1 + party->number, positions = UINT64_C(1) << 48;

	for (uint32_t round = 0; round < party->rounds && party->code == 0 && !party->wrong; round++) {
		uint8_t seen[STAYING] = {0};
		for (uint64_t part = 0; part < parts; part++)
			list_part(party, G4_COOKIE_NAMES + positions / parts * part,
				  part + 1 == parts ? UINT64_MAX : G4_COOKIE_NAMES + positions / parts * (part + 1),
				  rooms[(party->number + round) % 3], seen);
		for (uint32_t k = 0; k < STAYING && party->code == 0 && !party->wrong; k++)
			if (seen[k] != 1)
				party->wrong = seen[k] ? "a name was listed twice" : "a name was not listed";
	}
	return NULL;
}

static void names_that_stay_are_listed_once(void **state)
{
	struct party listers[LISTERS], makers[MAKERS], owner = {.rig = rig};

	(void)state;
	make_directory();
	over = 0;
	for (uint32_t k = 0; k < MAKERS; k++) {
		makers[k] = (struct party){.rig = rig, .number = k};
		assert_int_equal(pthread_create(&makers[k].id, NULL, change_names, &makers[k]), 0);
	}
	assert_int_equal(pthread_create(&owner.id, NULL, change_owners, &owner), 0);
	for (uint32_t k = 0; k < LISTERS; k++) {
		listers[k] = (struct party){.rig = rig, .number = k, .rounds = rounds()};
		assert_int_equal(pthread_create(&listers[k].id, NULL, list_all, &listers[k]), 0);
	}
	for (uint32_t k = 0; k < LISTERS; k++)
		assert_int_equal(pthread_join(listers[k].id, NULL), 0);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(owner.id, NULL), 0);
	assert_int_equal(owner.code, 0);
	for (uint32_t k = 0; k < MAKERS; k++) {
		assert_int_equal(pthread_join(makers[k].id, NULL), 0);
		assert_int_equal(makers[k].code, 0);
	}
	for (uint32_t k = 0; k < LISTERS; k++) {
		if (listers[k].wrong)
			fail_msg("%s", listers[k].wrong);
		assert_int_equal(listers[k].code, 0);
		assert_in_range(listers[k].listed, (uint64_t)STAYING * listers[k].rounds, UINT64_MAX);
	}
}

/* What a listing tells of a name is what GETATTR says: of inodes in core, and of those that a new mount has not seen. */
static void attributes_are_those_of_the_names(void **state)
{
	static uint8_t records[65536], bytes[9000];
	struct g4_attr told, asked;
	uint64_t given;

	(void)state;
	make_directory();
	assert_int_equal(op_write(&rig, kept[1], 0, 0, bytes, sizeof(bytes), NULL), 0);
	assert_int_equal(op_link(&rig, kept[1], G4_NODE_ROOT, "beside"), 0);
	assert_int_equal(op_symlink(&rig, dir, "s200", "somewhere", NULL), 0);
	for (uint32_t turn = 0; turn < 3; turn++) {
		uint32_t names = 0;
		assert_int_equal(op_sync(&rig), 0); /* or write-back changes some in between */
		if (turn == 1) {
			assert_int_equal(rig_unmount(&rig), 0);
			rig_mount(&rig);
		}
		struct g4_cmd cmd = {.op = G4_CMD_READDIR,
				     .node = dir,
				     .cookie = G4_COOKIE_NAMES,
				     .data = records,
				     .length = sizeof(records),
				     .flags = G4_READDIR_PLUS};
		assert_int_equal(g4_engine_execute(rig.engine, &cmd), 0);
		given = cmd.value;
		for (uint64_t at = 0; at < given; names++) {
			const struct g4_dirent *record = (const struct g4_dirent *)(const void *)&records[at];
			assert_true(record->has_attr);
			memcpy(&told, record + 1, sizeof(told));
			assert_int_equal(op_getattr(&rig, record->ino, &asked), 0);
			assert_memory_equal(&told, &asked, sizeof(told));
			assert_int_equal(record->file_type, told.mode >> 12);
			at += record->record_bytes;
		}
		assert_int_equal(names, STAYING + 1);
		cmd.cookie = UINT64_MAX; /* from the end on there is nothing */
		assert_int_equal(g4_engine_execute(rig.engine, &cmd), 0);
		assert_int_equal(cmd.value, 0);
	}
}

#define listing_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		listing_test(attributes_are_those_of_the_names),
		listing_test(names_that_stay_are_listed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
