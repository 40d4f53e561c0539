/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: what can be one, who may look one up, and that the walk of a lane alone gives the answers of the walk with locks, which is
 * the definition. (Lanes together: test_optimistic.c. Everything that commands do to names: test_model.c, test_api_dirs.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define DEVICE_BYTES (64 * G4_MIB)

static struct rig rig;
static struct g4_wg *wg;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, DEVICE_BYTES, 0, NULL);
	wg = rig.wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig.cred = NULL;
	rig_end(&rig);
	return 0;
}

static void a_slash_or_a_zero_anywhere_makes_no_name(void **state)
{
	/* words are read whole, so the name has room around it */
	static uint64_t words[(G4_NAME_MAX + 1) / 8 + 2];
	char *name = (char *)&words[1];

	(void)state;
	memset(words, 'x', sizeof(words));
	assert_int_equal(g4_check_name(name, 0), -G4_E_NOENT);
	assert_int_equal(g4_check_name(name, G4_NAME_MAX + 1), -G4_E_NAMETOOLONG);
	for (uint32_t bytes = 1; bytes <= G4_NAME_MAX; bytes++) {
		assert_int_equal(g4_check_name(name, bytes), 0);
		for (uint32_t at = 0; at < bytes + 2 && at < G4_NAME_MAX; at++) {
			const char bad[] = {'/', 0};
			for (uint32_t k = 0; k < sizeof(bad); k++) {
				name[at] = bad[k];
				assert_int_equal(g4_check_name(name, bytes), at < bytes ? -G4_E_INVAL : 0);
			}
			name[at] = 'x';
		}
	}
	/* bytes that differ from a slash or from zero by one bit, or have the top one */
	for (uint32_t byte = 1; byte < 256; byte++) {
		name[3] = (char)byte;
		assert_int_equal(g4_check_name(name, 8), byte == '/' ? -G4_E_INVAL : 0);
	}
}

/* What POSIX says of a directory, written down once more. */
static int expected(uint32_t mode, const struct g4_cred *cred, uint32_t uid, uint32_t gid, uint32_t want)
{
	uint32_t bits = mode & 7;
	bool in_group = cred->gid == gid;

	if (cred->uid == 0 || (cred->flags & G4_CRED_TRUSTED))
		return 0;
	for (uint32_t k = 0; k < cred->group_count; k++)
		in_group |= cred->groups[k] == gid;
	if (cred->uid == uid)
		bits = mode >> 6 & 7;
	else if (in_group)
		bits = mode >> 3 & 7;
	return (want & ~bits) == 0 ? 0 : -G4_E_ACCES;
}

static void the_mode_says_who_may_search_and_change(void **state)
{
	const uint32_t wants[] = {G4_ACCESS_EXEC, G4_ACCESS_EXEC | G4_ACCESS_WRITE};
	const struct g4_cred creds[] = {
		{.uid = 0, .gid = 0},
		{.uid = 1000, .gid = 7},
		{.uid = 1001, .gid = 2000},
		{.uid = 1001, .gid = 7, .group_count = 2, .groups = {8, 2000}},
		{.uid = 1001, .gid = 7, .group_count = 1, .groups = {8}},
		{.uid = 1001, .gid = 7, .flags = G4_CRED_TRUSTED},
	};
	struct g4_inode_core dir;

	(void)state;
	memset(&dir, 0, sizeof(dir));
	dir.disk.uid = 1000;
	dir.disk.gid = 2000;
	for (uint32_t c = 0; c < sizeof(creds) / sizeof(creds[0]); c++) {
		const struct g4_cred *cred = &creds[c];
		const bool root = g4_is_root(cred);
		for (uint32_t k = 0; k < 2; k++) {
			for (uint32_t mode = 0; mode <= 0777; mode++) {
				dir.disk.nlink = 2;
				dir.disk.mode = (uint16_t)(G4_S_IFDIR | mode);
				dir.disk.xattr = 0;
				const int rc = expected(mode, cred, 1000, 2000, wants[k]);
				assert_int_equal(g4_dir_permits(&dir, cred, root, wants[k]), rc);
				assert_int_equal(g4_check_dir(wg, rig.fs, &dir, cred, wants[k]), rc);
				/* with attributes, a list may say more or less to all but the owner */
				dir.disk.xattr = 1;
				const bool asks = !root && cred->uid != 1000;
				assert_int_equal(g4_dir_permits(&dir, cred, root, wants[k]), asks ? 1 : rc);
			}
		}
		dir.disk.xattr = 0;
		dir.disk.mode = G4_S_IFDIR | 0777;
		dir.disk.flags = G4_INODE_IMMUTABLE;
		assert_int_equal(g4_dir_permits(&dir, cred, root, G4_ACCESS_EXEC), 0);
		assert_int_equal(g4_dir_permits(&dir, cred, root, G4_ACCESS_EXEC | G4_ACCESS_WRITE), -G4_E_PERM);
		dir.disk.flags = 0;
		dir.disk.nlink = 0;
		assert_int_equal(g4_dir_permits(&dir, cred, root, G4_ACCESS_EXEC), -G4_E_NOENT);
		dir.disk.nlink = 2;
		dir.dead = true;
		assert_int_equal(g4_dir_permits(&dir, cred, root, G4_ACCESS_EXEC), -G4_E_NOENT);
		dir.dead = false;
		dir.disk.mode = G4_S_IFREG | 0777;
		assert_int_equal(g4_dir_permits(&dir, cred, root, G4_ACCESS_EXEC), -G4_E_NOTDIR);
	}
}

struct answer {
	int rc;
	struct g4_attr attr;
};

/* The walk with locks itself, past the one without. */
static struct answer by_definition(struct g4_cmd *cmd)
{
	struct answer answer;

	memset(&answer, 0, sizeof(answer));
	cmd->attr = &answer.attr;
	answer.rc = cmd->op == G4_CMD_LOOKUP ? g4_do_lookup(wg, rig.fs, cmd) : g4_do_resolve(wg, rig.fs, cmd);
	return answer;
}

/* How often the lane alone gave an answer to a command. */
static uint32_t compare(struct g4_cmd *cmd, bool must_answer)
{
	const struct answer first = by_definition(cmd); /* what it led to is cached now */
	struct g4_attr attr;

	memset(&attr, 0, sizeof(attr));
	cmd->attr = &attr;
	if (!g4_optimistic_alone(rig.fs, cmd)) {
		assert_false(must_answer);
		return 0;
	}
	assert_int_equal(first.rc, 0); /* it never answers what the definition refuses */
	assert_memory_equal(&attr, &first.attr, sizeof(attr));
	return 1;
}

static void a_lane_alone_gives_the_answers_of_the_walk_with_locks(void **state)
{
	const char *paths[] = {"/a/b/file", "a/b/file",	   "/a//b///file", "/a/b",    "/a/b/none",
			       "/none/b",   "/a/b/file/x", "/a/link/file", "/a/b/..", "/a/./b",
			       "/",	    "/a/b/file/",  "/a/b/"};
	const bool plain[] = {true, true, true, true, false, false, false, false, false, false, false, false, false};
	const struct g4_cred creds[] = {
		{.uid = 0}, {.uid = 1000, .gid = 7}, {.uid = 1001, .gid = 2000}, {.uid = 1002, .gid = 8}};
	uint64_t a, b, file, link, random = rig_setting("G4_SEED", 1);
	uint32_t answers = 0, refusals = 0;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "a", 0755, &a), 0);
	assert_int_equal(op_mkdir(&rig, a, "b", 0755, &b), 0);
	assert_int_equal(op_mknod(&rig, b, "file", G4_S_IFREG | 0600, &file), 0);
	assert_int_equal(op_symlink(&rig, a, "link", "b", &link), 0);
	for (uint32_t round = 0; round < (rig_slow() ? 200u : 2000u); round++) {
		struct g4_attr attr = {.mode = (uint32_t)rig_random(&random) & 0777, .uid = 1000, .gid = 2000};
		const uint64_t dir = rig_random(&random) & 1 ? a : b;
		assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE | G4_SET_UID | G4_SET_GID, &attr), 0);
		for (uint32_t c = 0; c < sizeof(creds) / sizeof(creds[0]); c++) {
			for (uint32_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++) {
				struct g4_cmd cmd = {.op = G4_CMD_RESOLVE, .node = G4_NODE_ROOT, .cred = &creds[c]};
				cmd.name = paths[p];
				cmd.name_bytes = (uint16_t)strlen(paths[p]);
				/* where the definition lets it through, a plain path is cached by then */
				const bool passes = by_definition(&cmd).rc == 0;
				answers += compare(&cmd, plain[p] && passes);
				refusals += !passes;
			}
			struct g4_cmd cmd = {.op = G4_CMD_LOOKUP, .node = b, .name = "file", .name_bytes = 4};
			cmd.cred = &creds[c];
			answers += compare(&cmd, by_definition(&cmd).rc == 0);
		}
	}
	assert_true(answers > 1000);
	assert_true(refusals > 1000);
}

/* The third part of a step: a directory has one parent. */
static void a_directory_is_the_child_of_its_parent_alone(void **state)
{
	uint64_t a, b, inside;
	uint32_t ia, ib, index;

	(void)state;
	assert_true(g4_is_child(G4_S_IFREG | 0600, 0, 5));
	assert_true(g4_is_child(G4_S_IFDIR | 0600, 5, 5));
	assert_false(g4_is_child(G4_S_IFDIR | 0600, 6, 5));
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "a", 0755, &a), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "b", 0755, &b), 0);
	assert_int_equal(op_mkdir(&rig, a, "inside", 0755, &inside), 0);
	assert_int_equal(g4_icache_get(wg, rig.fs, a, &ia), 0);
	assert_int_equal(g4_icache_get(wg, rig.fs, b, &ib), 0);
	assert_int_equal(g4_icache_get(wg, rig.fs, inside, &index), 0);
	assert_int_equal(g4_check_child(rig.fs, g4_icache_at(rig.fs, ia), index), 0);
	assert_int_equal(g4_check_child(rig.fs, g4_icache_at(rig.fs, ib), index), -G4_E_CORRUPT_DIR);
	assert_int_equal(g4_check_child(rig.fs, g4_icache_at(rig.fs, ia), ia), -G4_E_CORRUPT_DIR);
	g4_icache_put(rig.fs, ia);
	g4_icache_put(rig.fs, ib);
	g4_icache_put(rig.fs, index);
}

/*
 * Names of which the lookup cache has a print: alike but for one byte in the middle, for upper case or for their end, they are files of
 * their own, and a name that moves or goes is forgotten.
 */
static void long_names_that_are_nearly_alike_are_not_taken_for_each_other(void **state)
{
	static const uint32_t lengths[] = {33, 40, 64, 254, G4_NAME_MAX};
	struct g4_attr attr;
	uint64_t dir, inos[3], other;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		char names[4][G4_NAME_MAX + 1];
		for (uint32_t n = 0; n < 4; n++) {
			memset(names[n], 'a', lengths[k]);
			names[n][lengths[k]] = 0;
		}
		names[1][lengths[k] / 2] = 'A';
		names[2][lengths[k] - 1] = 0;
		names[3][lengths[k] / 2 + 1] = 'b';
		for (uint32_t n = 0; n < 3; n++)
			assert_int_equal(op_mknod(&rig, dir, names[n], G4_S_IFREG | 0600, &inos[n]), 0);
		for (uint32_t n = 0; n < 6; n++) { /* from the leaf or what making has left, and then from the cache */
			assert_int_equal(op_lookup(&rig, dir, names[n % 3], &attr), 0);
			assert_int_equal(attr.ino, inos[n % 3]);
		}
		assert_int_equal(op_lookup(&rig, dir, names[3], &attr), -G4_E_NOENT);
		assert_int_equal(op_rename(&rig, dir, names[0], dir, names[3], 0), 0);
		assert_int_equal(op_lookup(&rig, dir, names[0], &attr), -G4_E_NOENT);
		assert_int_equal(op_lookup(&rig, dir, names[3], &attr), 0);
		assert_int_equal(attr.ino, inos[0]);
		assert_int_equal(op_rename(&rig, dir, names[1], dir, names[3], G4_RENAME_EXCHANGE), 0);
		assert_int_equal(op_lookup(&rig, dir, names[1], &attr), 0);
		assert_int_equal(attr.ino, inos[0]);
		assert_int_equal(op_unlink(&rig, dir, names[1]), 0);
		assert_int_equal(op_lookup(&rig, dir, names[1], &attr), -G4_E_NOENT);
		assert_int_equal(op_mknod(&rig, dir, names[1], G4_S_IFREG | 0600, &other), 0);
		assert_int_equal(op_lookup(&rig, dir, names[1], &attr), 0);
		assert_int_equal(attr.ino, other);
		for (uint32_t n = 1; n < 4; n++)
			assert_int_equal(op_unlink(&rig, dir, names[n]), 0);
	}
}

/* Prints of long names are by keys that nobody knows, and that no other mount has. */
static void each_mount_has_keys_of_its_own_for_long_names(void **state)
{
	uint64_t first[4];

	(void)state;
	memcpy(first, rig.fs->name_secret, sizeof(first));
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	for (uint32_t k = 0; k < 4; k++) {
		assert_int_not_equal(first[k], rig.fs->name_secret[k]);
		assert_int_not_equal(rig.fs->name_secret[k], rig.fs->hash_key[k % 2]);
		for (uint32_t other = 0; other < k; other++)
			assert_int_not_equal(rig.fs->name_secret[k], rig.fs->name_secret[other]);
	}
}

#define names_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(a_slash_or_a_zero_anywhere_makes_no_name),
		names_test(the_mode_says_who_may_search_and_change),
		names_test(a_lane_alone_gives_the_answers_of_the_walk_with_locks),
		names_test(a_directory_is_the_child_of_its_parent_alone),
		names_test(long_names_that_are_nearly_alike_are_not_taken_for_each_other),
		names_test(each_mount_has_keys_of_its_own_for_long_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
