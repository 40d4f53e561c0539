/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners by name: who has which number is the test's (--wrap), one way on the machine that is saved and another way where it is restored. The parts that
 * set owners need root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "folder.h"
#include "store/backup.h"
#include "store/index.h"
#include "store/restore.h"

struct known {
	const char *name;
	uint32_t id;
};

/* bob has no name on the first machine, carl and the group staff none on the second, where ann's number is eve's. */
static const struct known users[2][3] = {{{"ann", 70001}, {"carl", 70003}, {NULL, 0}},
					 {{"ann", 80001}, {"eve", 70001}, {NULL, 0}}};
static const struct known groups[2][3] = {{{"staff", 70011}, {"crew", 70012}, {NULL, 0}},
					  {{"crew", 80012}, {NULL, 0}, {NULL, 0}}};
static int machine;
static char folder[64];

struct passwd *__wrap_getpwuid(uid_t id);
struct passwd *__wrap_getpwnam(const char *name);
struct group *__wrap_getgrgid(gid_t id);
struct group *__wrap_getgrnam(const char *name);

static const struct known *find(const struct known *list, const char *name, uint32_t id)
{
	for (; list->name != NULL; list++)
		if (name != NULL ? strcmp(list->name, name) == 0 : list->id == id)
			return list;
	return NULL;
}

static struct passwd *user_of(const struct known *known)
{
	static struct passwd user;

	user = (struct passwd){.pw_name = known != NULL ? (char *)known->name : NULL,
			       .pw_uid = known != NULL ? known->id : 0};
	return known != NULL ? &user : NULL;
}

static struct group *group_of(const struct known *known)
{
	static struct group group;

	group = (struct group){.gr_name = known != NULL ? (char *)known->name : NULL,
			       .gr_gid = known != NULL ? known->id : 0};
	return known != NULL ? &group : NULL;
}

struct passwd *__wrap_getpwuid(uid_t id)
{
	return user_of(find(users[machine], NULL, id));
}

struct passwd *__wrap_getpwnam(const char *name)
{
	return user_of(find(users[machine], name, 0));
}

struct group *__wrap_getgrgid(gid_t id)
{
	return group_of(find(groups[machine], NULL, id));
}

struct group *__wrap_getgrnam(const char *name)
{
	return group_of(find(groups[machine], name, 0));
}

static void owners_have_one_form(void **state)
{
	static const struct {
		uint8_t bytes[12];
		size_t count;
		bool right;
	} cases[] = {
		{{0}, 1, true},
		{{1, 0, 5, 1, 'a'}, 5, true},
		{{2, 0, 5, 1, 'a', 1, 5, 1, 'a'}, 9, true},
		{{2, 1, 5, 1, 'a', 0, 5, 1, 'a'}, 9, false}, /* groups before users */
		{{2, 0, 5, 1, 'a', 0, 5, 1, 'b'}, 9, false}, /* twice the same */
		{{1, 2, 5, 1, 'a'}, 5, false},
		{{1, 0, 5, 0}, 4, false}, /* no name */
		{{1, 0, 5, 1, 0}, 5, false},
		{{1, 0, 5, 2, 'a'}, 5, false},
		{{2, 0, 5, 1, 'a'}, 5, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct store_in in = store_in_of(cases[i].bytes, cases[i].count);
		struct store_owners owners = {0};
		struct store_buf again = {0};

		store_owners_read(&in, &owners);
		if (store_in_done(&in) != cases[i].right)
			fail_msg("case %zu", i);
		store_owners_write(&again, &owners);
		if (cases[i].right)
			assert_true(again.size == cases[i].count &&
				    memcmp(again.data, cases[i].bytes, again.size) == 0);
		store_buf_free(&owners.list);
		store_buf_free(&again);
	}
}

static void those_that_are_met_are_named_once(void **state)
{
	struct store_owner_set *set = store_owner_set_new();
	struct store_owners owners = {0};

	(void)state;
	machine = 0;
	for (uint32_t i = 0; i < 3000; i++) { /* more than are remembered, in any order */
		store_owner_note(set, STORE_GROUP, 70012 - i % 2);
		store_owner_note(set, STORE_USER, i * 7919 % 3000);
		store_owner_note(set, STORE_USER, i % 2 == 0 ? 70003 : 70001);
	}
	store_owners_of(set, &owners);
	assert_int_equal(owners.count, 4);
	machine = 1;
	struct store_owner_map *map = store_owner_map_new(&owners);
	assert_int_equal(store_owner_here(map, STORE_USER, 70001), 80001);
	assert_int_equal(store_owner_here(map, STORE_USER, 70003), 70003);
	assert_int_equal(store_owner_here(map, STORE_USER, 70012), 70012); /* a group's number */
	assert_int_equal(store_owner_here(map, STORE_GROUP, 70012), 80012);
	assert_int_equal(store_owner_here(map, STORE_GROUP, 70011), 70011);
	assert_int_equal(store_owner_here(NULL, STORE_GROUP, 70012), 70012);
	store_owner_map_free(map);
	store_owner_set_free(set);
	store_buf_free(&owners.list);
}

/* ------------------------------------------------------------------------------------------------- a whole backup */

static void no_note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	(void)path;
	(void)sentence;
}

static void fail_note(void *user, const char *path, const char *sentence)
{
	(void)user;
	fail_msg("%s: %s", path, sentence);
}

/* user::rw-, user:ID:r--, group::r--, group:ID:r--, mask::r--, other::--- */
static const struct {
	uint32_t version;
	struct {
		uint16_t tag, permissions;
		uint32_t id;
	} entries[6];
} list = {2,
	  {{1, 6, UINT32_MAX},
	   {2, 4, 70001},
	   {4, 4, UINT32_MAX},
	   {8, 4, 70012},
	   {16, 4, UINT32_MAX},
	   {32, 0, UINT32_MAX}}};

static void make_file(const char *name, uid_t user, gid_t group, bool with_list)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tree/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(name, file);
	fclose(file);
	assert_int_equal(chown(path, user, group), 0);
	if (with_list)
		assert_int_equal(setxattr(path, "system.posix_acl_access", &list, sizeof(list), 0), 0);
}

static void back_up(struct store *s, const struct store_snapshot *parent, struct store_snapshot *snapshot)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {.paths = paths,
						     .paths_count = 1,
						     .host = "here",
						     .parent = parent,
						     .level = 1,
						     .threads = 2,
						     .note = no_note};
	struct store_backup_stats stats;

	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(store_backup(s, &options, snapshot, &stats), 0);
}

static void restore(struct store *s, const struct store_snapshot *snapshot, const char *target, bool names)
{
	char source[96], path[96];
	struct store_restore_stats stats;

	snprintf(source, sizeof(source), "%s/tree", folder);
	snprintf(path, sizeof(path), "%s/%s", folder, target);
	const struct store_restore_options options = {
		.target = path, .subpath = source, .threads = 2, .owner_names = names, .note = fail_note};
	assert_int_equal(store_restore(s, snapshot, &options, &stats), 0);
}

static void assert_owner(const char *target, const char *name, uid_t user, gid_t group)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, user);
	assert_int_equal(st.st_gid, group);
}

static void assert_list(const char *target, uint32_t user, uint32_t group)
{
	uint8_t found[sizeof(list)];
	char path[128];

	snprintf(path, sizeof(path), "%s/%s/listed", folder, target);
	assert_int_equal(getxattr(path, "system.posix_acl_access", found, sizeof(found)), sizeof(found));
	assert_memory_equal(found + 4 + 8 + 4, &user, 4);
	assert_memory_equal(found + 4 + 3 * 8 + 4, &group, 4);
}

static void files_go_to_who_has_the_name(void **state)
{
	char path[96];
	const struct store_place place = {.path = path};
	struct store_snapshot first, second;
	struct store *s;

	(void)state;
	if (geteuid() != 0)
		skip();
	machine = 0;
	make_file("ann", 70001, 70011, false);
	make_file("bob", 70002, 70012, false);
	make_file("carl", 70003, 0, false);
	make_file("listed", 0, 0, true);
	snprintf(path, sizeof(path), "%s/repository", folder);
	assert_int_equal(store_create(&place, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	back_up(s, NULL, &first);
	back_up(s, &first, &second); /* of files that it does not read, too */
	assert_int_equal(first.owners.count, 4);
	assert_int_equal(second.owners.count, 4);
	machine = 1;
	restore(s, &second, "numbers", false);
	assert_owner("numbers", "ann", 70001, 70011);
	assert_owner("numbers", "bob", 70002, 70012);
	assert_list("numbers", 70001, 70012);
	restore(s, &second, "names", true);
	assert_owner("names", "ann", 80001, 70011);
	assert_owner("names", "bob", 70002, 80012);
	assert_owner("names", "carl", 70003, 0);
	assert_list("names", 80001, 80012);
	store_snapshot_free(&first);
	store_snapshot_free(&second);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_have_one_form),
		cmocka_unit_test(those_that_are_met_are_named_once),
		cmocka_unit_test(files_go_to_who_has_the_name),
	};
	char command[128];

	if (test_folder(folder, sizeof(folder), "owners") < 0)
		return 1;
	snprintf(command, sizeof(command), "%s/tree", folder);
	if (mkdir(command, 0755) != 0)
		return 1;
	const int failed = cmocka_run_group_tests_name("store_owners", tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) == 0 ? failed : 1;
}
