/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BATCH: operations on many paths in one command: each entry's result, what is told of a missing component, order, hostile data,
 * MKDIR_ALL with its crash rule, and that it does what the commands one by one do.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/command.h"

#define ROOM 65536u

static struct rig rig;

struct batch { /* being put together, and then the results */
	uint64_t words[ROOM / 8];
	uint32_t count, flags;
	uint64_t text;
};
static struct batch b;

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

static struct g4_batch_entry *entries(struct batch *batch)
{
	return (struct g4_batch_entry *)(void *)batch->words;
}

static struct g4_attr *attr_of(struct batch *batch, uint32_t k)
{
	return (struct g4_attr *)(void *)(entries(batch) + batch->count) + k;
}

/* For so many entries. */
static void begin(struct batch *batch, uint32_t count, uint32_t flags)
{
	memset(batch, 0, sizeof(*batch));
	batch->count = count;
	batch->flags = flags;
	batch->text = g4_batch_head_bytes(count, flags);
}

static void put_bytes(struct batch *batch, uint32_t k, uint32_t op, uint32_t mode, const char *path, uint64_t bytes,
		      const char *path2)
{
	const uint64_t bytes2 = path2 ? strlen(path2) : 0;
	uint8_t *data = (uint8_t *)batch->words;

	assert_true(batch->text + bytes + bytes2 <= ROOM);
	entries(batch)[k] = (struct g4_batch_entry){.op = op,
						    .mode = mode,
						    .path_at = (uint32_t)batch->text,
						    .path_bytes = (uint32_t)bytes,
						    .path2_bytes = (uint32_t)bytes2,
						    .status = 12345,
						    .component = 12345,
						    .made = 12345};
	memcpy(data + batch->text, path, bytes);
	batch->text += bytes;
	if (path2)
		memcpy(data + batch->text, path2, bytes2);
	batch->text += bytes2;
}

static void put(struct batch *batch, uint32_t k, uint32_t op, uint32_t mode, const char *path)
{
	put_bytes(batch, k, op, mode, path, strlen(path), NULL);
}

static int run(struct batch *batch, uint64_t node)
{
	struct g4_cmd cmd = {.op = G4_CMD_BATCH,
			     .node = node,
			     .data = batch->words,
			     .length = batch->text,
			     .mask = batch->count,
			     .flags = batch->flags,
			     .cred = rig.cred};
	const int rc = g4_engine_execute(rig.engine, &cmd);

	if (rc == 0)
		assert_int_equal(cmd.value, g4_batch_head_bytes(batch->count, batch->flags));
	return rc;
}

static void result_is(uint32_t k, int status, uint32_t component)
{
	if (entries(&b)[k].status != status || entries(&b)[k].component != component)
		fail_msg("entry %u: status %d, component %d; not %d, %d", k, entries(&b)[k].status,
			 (int)entries(&b)[k].component, status, (int)component);
}

static void done(uint32_t k)
{
	result_is(k, 0, G4_BATCH_AT_NAME);
}

/* A batch of one. */
static int one(uint32_t op, uint32_t mode, const char *path, uint32_t *component)
{
	begin(&b, 1, G4_BATCH_ATTR);
	put(&b, 0, op, mode, path);
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	if (component)
		*component = entries(&b)->component;
	return entries(&b)->status;
}

/* ------------------------------------------------------------------ entries */

static void each_entry_has_its_own_result(void **state)
{
	char long_name[300];
	uint64_t dir;

	(void)state;
	memset(long_name, 'n', sizeof(long_name));
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	begin(&b, 14, 0);
	put(&b, 0, G4_CMD_MKNOD, G4_S_IFREG | 0644, "d/first");
	put(&b, 1, G4_CMD_MKNOD, G4_S_IFREG | 0644, "none/at/all/file");
	put(&b, 2, G4_CMD_MKNOD, G4_S_IFREG | 0644, "d/none/file");
	put(&b, 3, G4_CMD_MKDIR, 0700, "d/second/");
	put(&b, 4, G4_CMD_MKNOD, G4_S_IFREG | 0644, "d/first/below");
	put(&b, 5, G4_CMD_LOOKUP, 0, "/d/missing");
	put_bytes(&b, 6, G4_CMD_MKNOD, 0644, long_name, sizeof(long_name), NULL);
	put(&b, 7, G4_CMD_UNLINK, 0, "d/second");
	put_bytes(&b, 8, G4_CMD_MKDIR, 0755, "d/\0x", 4, NULL);
	put(&b, 9, G4_CMD_MKNOD, G4_S_IFBLK | 0644, "d/disk");
	put(&b, 10, 99, 0, "d/what");
	put(&b, 11, G4_CMD_RMDIR, 0, "d/second");
	put_bytes(&b, 12, G4_CMD_RENAME, 0, "d/first", 7, "d/renamed");
	put(&b, 13, G4_CMD_LOOKUP, 0, "d//renamed");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	done(0);
	result_is(1, -G4_E_NOENT, 0);
	result_is(2, -G4_E_NOENT, 1);
	done(3);
	result_is(4, -G4_E_NOTDIR, 1);
	result_is(5, -G4_E_NOENT, G4_BATCH_AT_NAME);
	result_is(6, -G4_E_NAMETOOLONG, G4_BATCH_AT_NAME);
	result_is(7, -G4_E_ISDIR, G4_BATCH_AT_NAME);
	result_is(8, -G4_E_INVAL, G4_BATCH_AT_NAME);
	result_is(9, -G4_E_PERM, G4_BATCH_AT_NAME);
	result_is(10, -G4_E_NOSYS, G4_BATCH_AT_NAME);
	done(11);
	done(12);
	done(13);
}

static void a_component_of_a_link_is_the_links(void **state)
{
	uint64_t dir;
	uint32_t component;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_symlink(&rig, dir, "good", "../d/./x", NULL), 0);
	assert_int_equal(op_symlink(&rig, dir, "bad", "/no/such/way", NULL), 0);
	assert_int_equal(op_mkdir(&rig, dir, "x", 0755, NULL), 0);
	assert_int_equal(one(G4_CMD_MKDIR, 0755, "d/good/y", &component), 0);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "d/good/z/w", &component), -G4_E_NOENT);
	assert_int_equal(component, 2);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "/d/bad/z/w", &component), -G4_E_NOENT);
	assert_int_equal(component, 1);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "d/bad", &component), -G4_E_NOENT);
	assert_int_equal(component, G4_BATCH_AT_NAME);
	assert_int_equal(one(G4_CMD_LOOKUP, G4_RESOLVE_NOFOLLOW, "d/bad", NULL), 0);
	assert_int_equal(attr_of(&b, 0)->mode & G4_S_IFMT, G4_S_IFLNK);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "d/good/", NULL), 0);
	assert_int_equal(attr_of(&b, 0)->mode & G4_S_IFMT, G4_S_IFDIR);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "/", NULL), 0);
	assert_int_equal(attr_of(&b, 0)->nlink, 3);
	assert_int_equal(one(G4_CMD_MKDIR, 0755, "/", NULL), -G4_E_EXIST);
	assert_int_equal(one(G4_CMD_RMDIR, 0, "d/..", NULL), -G4_E_NOTEMPTY);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "", NULL), -G4_E_NOENT);
}

static void names_that_are_there_twice(void **state)
{
	uint32_t made = 0;

	(void)state;
	begin(&b, 4, 0);
	for (uint32_t k = 0; k < 3; k++)
		put(&b, k, k == 1 ? G4_CMD_MKDIR : G4_CMD_MKNOD, 0644, "same");
	put(&b, 3, G4_CMD_MKNOD, 0644, "other");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	for (uint32_t k = 0; k < 3; k++) {
		assert_true(entries(&b)[k].status == 0 || entries(&b)[k].status == -G4_E_EXIST);
		made += entries(&b)[k].status == 0;
	}
	assert_int_equal(made, 1);
	done(3);
}

static void the_first_error_stops_it_if_it_shall(void **state)
{
	struct g4_attr attr;

	(void)state;
	begin(&b, 5, G4_BATCH_STOP | G4_BATCH_ATTR);
	put(&b, 0, G4_CMD_MKDIR, 0755, "a");
	put(&b, 1, G4_CMD_MKDIR, 0755, "a/b");
	put(&b, 2, G4_CMD_MKDIR, 0755, "a/b");
	put(&b, 3, G4_CMD_MKDIR, 0755, "c");
	put(&b, 4, G4_CMD_RMDIR, 0, "a/b");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	done(0);
	done(1);
	assert_int_equal(attr_of(&b, 1)->mode, G4_S_IFDIR | 0755);
	result_is(2, -G4_E_EXIST, G4_BATCH_AT_NAME);
	result_is(3, -G4_E_CANCELED, G4_BATCH_AT_NAME);
	result_is(4, -G4_E_CANCELED, G4_BATCH_AT_NAME);
	assert_int_equal(attr_of(&b, 2)->ino, 0);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "c", &attr), -G4_E_NOENT);
}

/* Entries with a directory in common take it from the one before: also when it goes, or another one gets its name. */
static void a_directory_that_changes_in_the_middle(void **state)
{
	uint64_t dir;
	struct g4_attr attr;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	begin(&b, 9, G4_BATCH_STOP);
	put(&b, 0, G4_CMD_MKNOD, 0644, "d/x");
	put(&b, 1, G4_CMD_UNLINK, 0, "d/x");
	put(&b, 2, G4_CMD_RMDIR, 0, "d");
	put(&b, 3, G4_CMD_MKDIR, 0755, "d");
	put(&b, 4, G4_CMD_MKNOD, 0644, "d/y");
	put(&b, 5, G4_CMD_LOOKUP, 0, "d/y");
	put_bytes(&b, 6, G4_CMD_RENAME, 0, "d/y", 3, "./z");
	put(&b, 7, G4_CMD_RMDIR, 0, "d/");
	put(&b, 8, G4_CMD_LOOKUP, 0, "d/y");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	for (uint32_t k = 0; k < 8; k++)
		done(k);
	result_is(8, -G4_E_NOENT, 0);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "z", &attr), 0);
	/* the root by its own name is not where others start */
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "sub", 0755, &dir), 0);
	begin(&b, 3, G4_BATCH_ATTR);
	put(&b, 0, G4_CMD_LOOKUP, 0, "/");
	put(&b, 1, G4_CMD_MKDIR, 0755, "in sub");
	put(&b, 2, G4_CMD_LOOKUP, 0, "//");
	assert_int_equal(run(&b, dir), 0);
	for (uint32_t k = 0; k < 3; k++)
		done(k);
	assert_int_equal(attr_of(&b, 0)->ino, attr_of(&b, 2)->ino);
	assert_int_equal(op_lookup(&rig, dir, "in sub", &attr), 0);
}

static void renames_and_their_paths(void **state)
{
	(void)state;
	begin(&b, 10, 0);
	put(&b, 0, G4_CMD_MKDIR, 0755, "d");
	put(&b, 1, G4_CMD_MKNOD, 0644, "f");
	put_bytes(&b, 2, G4_CMD_RENAME, 0, "f", 1, "d/none/g");
	put_bytes(&b, 3, G4_CMD_RENAME, 0, "none/f", 6, "g");
	put_bytes(&b, 4, G4_CMD_RENAME, 0, "f/", 2, "g");
	put_bytes(&b, 5, G4_CMD_RENAME, 0, "f", 1, "g/");
	put_bytes(&b, 6, G4_CMD_RENAME, 0, "d", 1, "f/.");
	put_bytes(&b, 7, G4_CMD_RENAME, 0x100, "d", 1, "e");
	put_bytes(&b, 8, G4_CMD_RENAME, G4_RENAME_NOREPLACE, "f", 1, "/");
	put_bytes(&b, 9, G4_CMD_RENAME, G4_RENAME_EXCHANGE, "f", 1, "d/");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(2, -G4_E_NOENT, 1);
	assert_int_equal(entries(&b)[2].made, 1);
	result_is(3, -G4_E_NOENT, 0);
	assert_int_equal(entries(&b)[3].made, 0);
	result_is(4, -G4_E_NOTDIR, G4_BATCH_AT_NAME);
	result_is(5, -G4_E_NOTDIR, G4_BATCH_AT_NAME);
	assert_int_equal(entries(&b)[6].status, -G4_E_NOTDIR);
	result_is(7, -G4_E_INVAL, G4_BATCH_AT_NAME);
	result_is(8, -G4_E_EXIST, G4_BATCH_AT_NAME);
	done(9);
}

static void permissions_are_each_entrys(void **state)
{
	const struct g4_cred user = {.uid = 1000, .gid = 1000, .umask = 022};
	struct g4_attr open_mode = {.mode = 0777}, closed = {.mode = 0700};
	uint64_t mine, theirs;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "mine", 0777, &mine), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "theirs", 0755, &theirs), 0);
	assert_int_equal(op_mkdir(&rig, theirs, "below", 0777, NULL), 0);
	assert_int_equal(op_setattr(&rig, mine, G4_SET_MODE, &open_mode), 0);
	assert_int_equal(op_setattr(&rig, theirs, G4_SET_MODE, &closed), 0);
	rig.cred = &user;
	begin(&b, 4, G4_BATCH_ATTR);
	put(&b, 0, G4_CMD_MKNOD, 0666, "mine/a");
	put(&b, 1, G4_CMD_MKNOD, 0666, "theirs/below/b");
	put(&b, 2, G4_CMD_MKNOD, 0666, "c");
	put(&b, 3, G4_BATCH_MKDIR_ALL, 0777, "theirs/x/y");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	done(0);
	assert_int_equal(attr_of(&b, 0)->mode, G4_S_IFREG | 0644);
	assert_int_equal(attr_of(&b, 0)->uid, 1000);
	result_is(1, -G4_E_ACCES, 1);
	result_is(2, -G4_E_ACCES, G4_BATCH_AT_NAME);
	result_is(3, -G4_E_ACCES, 1);
}

static void what_a_batch_may_not_say(void **state)
{
	const uint64_t head = g4_batch_head_bytes(2, 0);

	(void)state;
	begin(&b, 2, 0);
	put(&b, 0, G4_CMD_MKNOD, 0644, "a");
	put(&b, 1, G4_CMD_MKNOD, 0644, "b");
	b.count = 0;
	assert_int_equal(run(&b, G4_NODE_ROOT), -G4_E_INVAL);
	b.count = UINT32_MAX;
	assert_int_equal(run(&b, G4_NODE_ROOT), -G4_E_INVAL);
	b.count = 2;
	assert_int_equal(run(&b, 0), -G4_E_INVAL); /* a node that was not found is not the root */
	b.flags = 4;
	assert_int_equal(run(&b, G4_NODE_ROOT), -G4_E_INVAL);
	b.flags = 0;
	b.text = head - 1;
	assert_int_equal(run(&b, G4_NODE_ROOT), -G4_E_INVAL);
	b.text = head + 2;
	entries(&b)[0].path_at = (uint32_t)head - 1; /* into results */
	entries(&b)[1].path_bytes = 2;		     /* behind the end */
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(0, -G4_E_INVAL, G4_BATCH_AT_NAME);
	result_is(1, -G4_E_INVAL, G4_BATCH_AT_NAME);
	entries(&b)[0].path_at = UINT32_MAX;
	entries(&b)[0].path_bytes = UINT32_MAX;
	entries(&b)[1].path_bytes = 1;
	entries(&b)[1].path2_bytes = UINT32_MAX;
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(0, -G4_E_INVAL, G4_BATCH_AT_NAME);
	result_is(1, -G4_E_INVAL, G4_BATCH_AT_NAME);
}

/* Else a small command could walk one long path as often as it has entries. */
static void entries_have_text_of_their_own(void **state)
{
	(void)state;
	begin(&b, 3, 0);
	put(&b, 0, G4_CMD_MKNOD, 0644, "long enough");
	put(&b, 1, G4_CMD_LOOKUP, 0, "long enough");
	put(&b, 2, G4_CMD_LOOKUP, 0, "long enough");
	b.text -= strlen("long enough");
	entries(&b)[2].path_at = entries(&b)[1].path_at;
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(0, 0, G4_BATCH_AT_NAME);
	result_is(1, 0, G4_BATCH_AT_NAME);
	result_is(2, -G4_E_INVAL, G4_BATCH_AT_NAME);
}

/* Where the host keeps numbers of inodes it has to hear of each that goes, and does not from a batch. */
static void names_stay_where_the_host_has_to_hear_of_it(void **state)
{
	uint64_t ino;

	(void)state;
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_HOLD_UNLINKED, NULL), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "a", G4_S_IFREG | 0644, &ino), 0);
	begin(&b, 3, 0);
	put(&b, 0, G4_CMD_UNLINK, 0, "a");
	put_bytes(&b, 1, G4_CMD_RENAME, 0, "a", 1, "b");
	put(&b, 2, G4_CMD_LOOKUP, 0, "a");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(0, -G4_E_NOTSUP, G4_BATCH_AT_NAME);
	result_is(1, -G4_E_NOTSUP, G4_BATCH_AT_NAME);
	result_is(2, 0, G4_BATCH_AT_NAME);
}

static void a_file_system_that_may_not_change(void **state)
{
	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, NULL), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_READ_ONLY, NULL), 0);
	begin(&b, 4, 0);
	put(&b, 0, G4_CMD_LOOKUP, 0, "d");
	put(&b, 1, G4_CMD_MKDIR, 0755, "e");
	put(&b, 2, G4_BATCH_MKDIR_ALL, 0755, "e/f");
	put(&b, 3, G4_CMD_RMDIR, 0, "d");
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	done(0);
	for (uint32_t k = 1; k < 4; k++)
		result_is(k, -G4_E_ROFS, G4_BATCH_AT_NAME);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
}

/* Until the device is full: what fits is there, and the rest says why not. What is removed in the same batch makes room. */
static void a_full_device_half_way(void **state)
{
	char name[300];
	uint32_t made = 0, full = 0;
	struct g4_attr attr;

	(void)state;
	for (uint32_t round = 0; full == 0; round++) {
		assert_true(round < 1000);
		begin(&b, 160, 0);
		for (uint32_t k = 0; k < b.count; k++) {
			snprintf(name, sizeof(name), "%03u-%04u-%0240u", k, round, 0);
			put(&b, k, G4_BATCH_MKDIR_ALL, 0755, name);
			b.text--; /* and "/x" behind it: a page for each directory */
			memcpy((uint8_t *)b.words + b.text, "0/x", 3);
			b.text += 3;
			entries(&b)[k].path_bytes += 2;
		}
		assert_int_equal(run(&b, G4_NODE_ROOT), 0);
		for (uint32_t k = 0; k < b.count; k++) {
			assert_true(entries(&b)[k].status == 0 || entries(&b)[k].status == -G4_E_NOSPC);
			full += entries(&b)[k].status < 0;
			made += entries(&b)[k].made;
		}
	}
	assert_true(made > 1000);
	for (uint32_t k = 0; k < 8; k++) {
		begin(&b, 1, 0);
		snprintf(name, sizeof(name), "%03u-%04u-%0240u", k, 0, 0);
		put(&b, 0, G4_CMD_LOOKUP, 0, name);
		assert_int_equal(run(&b, G4_NODE_ROOT), 0);
		done(0);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		assert_int_equal(op_rmdir(&rig, attr.ino, "x"), 0);
		assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "room/again", NULL), 0);
}

/* ------------------------------------------------------------------ MKDIR_ALL */

#define DEEP 4000u

static void what_a_path_lacks_is_made(void **state)
{
	struct g4_attr attr;
	uint32_t component;

	(void)state;
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0500, "a/b//c/", &component), 0);
	assert_int_equal(entries(&b)->made, 3);
	assert_int_equal(attr_of(&b, 0)->mode & 07777, 0500);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "/a/b/c", &component), 0);
	assert_int_equal(entries(&b)->made, 0);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "a", &attr), 0);
	assert_int_equal(attr.mode & 07777, 0700); /* its owner may go on */
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "a/x/../y/./z", &component), 0);
	assert_int_equal(entries(&b)->made, 3);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "a/y/z", NULL), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0644, NULL), 0);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "file", &component), -G4_E_EXIST);
	assert_int_equal(component, G4_BATCH_AT_NAME);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "file/x", &component), -G4_E_NOTDIR);
	assert_int_equal(component, 0);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "a/file/x/../../../file/y", &component), -G4_E_NOTDIR);
	assert_int_equal(component, 6);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "", &component), -G4_E_NOENT);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "/", &component), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "a/y", NULL), 0);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "link/w", &component), 0);
	assert_int_equal(one(G4_CMD_LOOKUP, 0, "a/y/w", NULL), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "dangling", "no/where", NULL), 0);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, "dangling/w", &component), -G4_E_NOENT);
	assert_int_equal(component, 0);
	char name[300] = "a/new/";
	memset(name + 6, 'n', 256);
	assert_int_equal(one(G4_BATCH_MKDIR_ALL, 0755, name, &component), -G4_E_NAMETOOLONG);
	assert_int_equal(component, G4_BATCH_AT_NAME);
}

/* Names of 1 to 16 bytes, of which some lie across the borders of what a walk takes at a time. */
static uint32_t deep_path(char *path, uint32_t levels)
{
	uint32_t bytes = 0;

	for (uint32_t k = 0; k < levels; k++) {
		const uint32_t n = 1 + k * 7 % 16;
		for (uint32_t i = 0; i < n; i++)
			path[bytes++] = (char)('a' + (k + i) % 26);
		path[bytes++] = '/';
		if (k % 50 == 0) /* as good as one */
			path[bytes++] = '/';
	}
	return bytes;
}

static void a_path_of_thousands_of_directories(void **state)
{
	static char path[ROOM];
	const uint32_t levels = rig_slow() ? DEEP / 4 : DEEP, bytes = deep_path(path, levels);
	uint64_t removed = 0;

	(void)state;
	assert_true(bytes > 2 * G4_PATH_MAX);
	for (uint32_t turn = 0; turn < 2; turn++) {
		begin(&b, 2, 0);
		put_bytes(&b, 0, G4_BATCH_MKDIR_ALL, 0755, path, bytes, NULL);
		b.count = 1; /* room for two heads: there is no other use for it */
		assert_int_equal(run(&b, G4_NODE_ROOT), 0);
		done(0);
		assert_int_equal(entries(&b)->made, turn == 0 ? levels : 0);
	}
	begin(&b, 2, G4_BATCH_ATTR);
	put_bytes(&b, 0, G4_CMD_LOOKUP, 0, path, bytes, NULL);
	b.count = 1;
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	done(0);
	assert_int_equal(attr_of(&b, 0)->mode, G4_S_IFDIR | 0755);
	/* what is missing far below is told by its number */
	begin(&b, 1, 0);
	path[bytes - 1] = 'X';
	path[bytes] = '/';
	path[bytes + 1] = 'Y';
	put_bytes(&b, 0, G4_CMD_LOOKUP, 0, path, bytes + 2, NULL);
	assert_int_equal(run(&b, G4_NODE_ROOT), 0);
	result_is(0, -G4_E_NOENT, levels - 1);
	struct g4_cmd clear = {.op = G4_CMD_CLEAR, .node = G4_NODE_ROOT, .length = 100000};
	while (g4_engine_execute(rig.engine, &clear) == 0 && clear.value > 0)
		removed += clear.value;
	assert_int_equal(removed, levels);
}

struct maker {
	pthread_t thread;
	uint64_t made, failed;
	uint32_t index;
};
#define MAKERS 4u
#define SHARED_LEVELS 60u
#define ROUNDS 12u

static void *make_path(void *argument)
{
	struct maker *maker = argument;
	struct batch *own = calloc(1, sizeof(*own));
	char path[1000];

	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t bytes = (uint32_t)snprintf(path, sizeof(path), "round-%u", round);
		for (uint32_t k = 0; k < SHARED_LEVELS; k++)
			bytes += (uint32_t)snprintf(path + bytes, sizeof(path) - bytes, "/%u", k);
		begin(own, 2, 0);
		put_bytes(own, 0, G4_BATCH_MKDIR_ALL, 0755, path, bytes, NULL);
		snprintf(path, sizeof(path), "round-%u/of-%u", round, maker->index);
		put(own, 1, G4_BATCH_MKDIR_ALL, 0755, path);
		maker->failed += run(own, G4_NODE_ROOT) < 0 || entries(own)[0].status < 0 || entries(own)[1].status < 0;
		maker->made += entries(own)[0].made + entries(own)[1].made;
	}
	free(own);
	return NULL;
}

static void several_make_the_same_path(void **state)
{
	struct maker makers[MAKERS] = {0};
	uint64_t made = 0;

	(void)state;
	for (uint32_t k = 0; k < MAKERS; k++) {
		makers[k].index = k;
		assert_int_equal(pthread_create(&makers[k].thread, NULL, make_path, &makers[k]), 0);
	}
	for (uint32_t k = 0; k < MAKERS; k++) {
		assert_int_equal(pthread_join(makers[k].thread, NULL), 0);
		assert_int_equal(makers[k].failed, 0);
		made += makers[k].made;
	}
	assert_int_equal(made, ROUNDS * (1 + SHARED_LEVELS + MAKERS));
}

/* ------------------------------------------------------------------ crashes */

#define CRASH_LEVELS 900u /* a page each: more than a transaction of this journal takes */
#define CRASH_FILES 200u

static void put_crash_batch(void)
{
	static char path[8 * CRASH_LEVELS];
	char name[32];
	uint32_t bytes = 0;

	for (uint32_t k = 0; k < CRASH_LEVELS; k++)
		bytes += (uint32_t)snprintf(path + bytes, sizeof(path) - bytes, "l%u/", k);
	begin(&b, CRASH_FILES + 1, 0);
	put_bytes(&b, CRASH_FILES / 2, G4_BATCH_MKDIR_ALL, 0750, path, bytes, NULL);
	for (uint32_t k = 0; k < CRASH_FILES; k++) {
		snprintf(name, sizeof(name), "files/f%u", k);
		put(&b, k < CRASH_FILES / 2 ? k : k + 1, G4_CMD_MKNOD, G4_S_IFREG | 0640, name);
	}
}

/* Each file is there as it was made or not at all, and of the path a beginning; how much of both. */
static uint32_t count_what_is_there(struct rig *r)
{
	struct g4_attr attr, files;
	uint64_t dir = G4_NODE_ROOT;
	uint32_t count = 0;
	char name[32];

	assert_int_equal(op_lookup(r, G4_NODE_ROOT, "files", &files), 0);
	for (uint32_t k = 0; k < CRASH_FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		const int rc = op_lookup(r, files.ino, name, &attr);
		assert_true(rc == 0 || rc == -G4_E_NOENT);
		if (rc == 0) {
			assert_int_equal(attr.mode, G4_S_IFREG | 0640);
			assert_int_equal(attr.nlink, 1);
			count++;
		}
	}
	for (uint32_t k = 0; k < CRASH_LEVELS; k++, count++) {
		snprintf(name, sizeof(name), "l%u", k);
		const int rc = op_lookup(r, dir, name, &attr);
		if (rc == -G4_E_NOENT)
			break;
		assert_int_equal(rc, 0);
		assert_int_equal(attr.mode, G4_S_IFDIR | 0750);
		dir = attr.ino;
	}
	return count;
}

/* Whether all of it was made and is durable: a sync succeeds as well where power went before anything could be made. */
static bool run_crash_batch(struct rig *r)
{
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .node = G4_NODE_ROOT, .data = b.words};
	bool made;

	put_crash_batch();
	cmd.length = b.text;
	cmd.mask = b.count;
	made = g4_engine_execute(r->engine, &cmd) == 0;
	for (uint32_t k = 0; k < b.count; k++)
		made &= entries(&b)[k].status == 0;
	return op_sync(r) == 0 && made;
}

static void a_crash_leaves_whole_entries_and_a_beginning(void **state)
{
	uint64_t reads, flushes, parts = 0, seed = 7;
	const uint64_t every = rig_every(7);
	struct g4_statfs statfs;
	struct rig r;

	(void)state;
	rig_open(&r, 16 * G4_MIB, 2 * G4_MIB);
	rig_mount(&r);
	assert_int_equal(op_mkdir(&r, G4_NODE_ROOT, "files", 0755, NULL), 0);
	assert_int_equal(rig_unmount(&r), 0);
	uint8_t *base = malloc(r.bytes);
	assert_non_null(base);
	rig_copy(base, r.image, r.bytes);
	const struct g4_fault none = {0};
	uint64_t last = 0;
	for (uint64_t cut = 0; cut == 0 || cut <= last; cut += cut == 0 ? 1 : every) {
		const struct g4_fault fault = {.cut_after_writes = cut,
					       .seed = cut % 3 == 1 ? rig_random(&seed) | 1 : 0,
					       .keep_unflushed = cut % 3 == 2,
					       .cut_inside = cut % 2 == 1};
		rig_copy(r.image, base, r.bytes);
		bool synced = false;
		if (rig_try_mount(&r, 0, cut == 0 ? &none : &fault) == 0) { /* or it is cut while it is mounted */
			synced = run_crash_batch(&r);
			if (cut == 0)
				g4_dev_fault_counts(r.fault, &reads, &last, &flushes);
			g4_dev_fault_cut(r.fault);
			rig_abandon(&r);
		}
		assert_true(cut > 0 || (synced && last > 4));
		assert_int_equal(rig_try_mount(&r, 0, NULL), 0);
		const uint32_t count = count_what_is_there(&r);
		if (synced)
			assert_int_equal(count, CRASH_FILES + CRASH_LEVELS);
		parts += count > 0 && count < CRASH_FILES + CRASH_LEVELS;
		assert_int_equal(op_statfs(&r, &statfs), 0);
		assert_int_equal(rig_unmount(&r), 0);
		rig_expect_clean(&r, statfs.blocks_free, "after a crash in a batch");
	}
	assert_true(parts > 0 || every > 1);
	free(base);
	rig_close(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_entry_has_its_own_result),
		TEST(a_component_of_a_link_is_the_links),
		TEST(names_that_are_there_twice),
		TEST(the_first_error_stops_it_if_it_shall),
		TEST(a_directory_that_changes_in_the_middle),
		TEST(renames_and_their_paths),
		TEST(permissions_are_each_entrys),
		TEST(what_a_batch_may_not_say),
		TEST(entries_have_text_of_their_own),
		TEST(names_stay_where_the_host_has_to_hear_of_it),
		TEST(a_file_system_that_may_not_change),
		TEST(a_full_device_half_way),
		TEST(what_a_path_lacks_is_made),
		TEST(a_path_of_thousands_of_directories),
		TEST(several_make_the_same_path),
		cmocka_unit_test(a_crash_leaves_whole_entries_and_a_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
