/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client was told of names and inodes shows every change at once. Each command that can change something has a row: it is
 * done in a small tree of which all is known before, and afterwards the mirror tells of all of it what the engine does.
 */
#include "mirrored.h"

#include "fs/command.h"
#include "fs/fs.h"
#include "inode/trail.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define NAMES 12u
#define DATA_BYTES (3 * G4_PAGE_BYTES)

static struct rig rig, plain; /* the same file system; `plain` has no mirror */
static uint64_t dir, sub, file, other, link_ino, open_handle, other_handle;
static uint8_t data[DATA_BYTES];

/* ------------------------------------------------------------------ what is asked for */

static const struct {
	uint64_t *dir; /* NULL: the root */
	const char *name;
} names[NAMES] = {{NULL, "dir"},  {NULL, "new"}, {NULL, "other"}, {&dir, "file"}, {&dir, "sub"},  {&dir, "link"},
		  {&dir, "hard"}, {&dir, "new"}, {&dir, "empty"}, {&sub, "deep"}, {&sub, "file"}, {&sub, "new"}};
static uint64_t *const inodes[] = {NULL, &dir, &sub, &file, &other, &link_ino};
#define INODES (sizeof(inodes) / sizeof(inodes[0]))
#define QUESTIONS (NAMES + INODES)

static uint64_t number_of(const uint64_t *place)
{
	return place ? *place : G4_NODE_ROOT;
}

static struct g4_cmd question(uint32_t which, struct g4_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	if (which >= NAMES)
		return (struct g4_cmd){.op = G4_CMD_GETATTR, .node = number_of(inodes[which - NAMES]), .attr = attr};
	return (struct g4_cmd){.op = G4_CMD_LOOKUP,
			       .node = number_of(names[which].dir),
			       .name = names[which].name,
			       .name_bytes = (uint16_t)strlen(names[which].name),
			       .attr = attr};
}

static int ask(uint32_t which, struct g4_attr *attr, bool *kept)
{
	struct g4_cmd cmd = question(which, attr);

	return mirrored_ask(&rig, &cmd, kept);
}

/* Asks for everything until nothing is asked of the engine any more. */
static void learn(void)
{
	struct g4_attr attr;
	bool kept, all = false;

	for (uint32_t round = 0; round < 1000 && !all; round++) { /* the background may have something to write */
		all = true;
		for (uint32_t k = 0; k < QUESTIONS; k++) {
			const int rc = ask(k, &attr, &kept);
			assert_true(rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_STALE);
			all &= kept || rc == -G4_E_STALE;
		}
	}
	assert_true(all);
}

static uint32_t asked_again; /* answers that were old, and found to be */

/* What the mirror says is what the engine says. How many answers were kept. */
static uint32_t compare(const char *after)
{
	uint32_t still = 0;

	for (uint32_t k = 0; k < QUESTIONS; k++) {
		struct g4_attr told, attr;
		struct g4_cmd cmd = question(k, &attr);
		bool kept;
		const int rc = ask(k, &told, &kept);

		if (rc != g4_engine_execute(rig.engine, &cmd) || (rc == 0 && memcmp(&told, &attr, sizeof(attr)) != 0))
			fail_msg("after %s question %u has an old answer (%s)", after, k, kept ? "kept" : "not kept");
		still += kept;
		asked_again += !kept;
	}
	return still;
}

/* ------------------------------------------------------------------ commands */

static int set(uint32_t mask, struct g4_attr attr)
{
	return op_setattr(&plain, file, mask, &attr);
}

static int do_setattr(void)
{
	int rc = set(G4_SET_MODE, (struct g4_attr){.mode = 0640});

	compare("chmod");
	rc |= set(G4_SET_UID | G4_SET_GID, (struct g4_attr){.uid = 5, .gid = 6});
	compare("chown");
	rc |= set(G4_SET_SIZE, (struct g4_attr){.size = 100});
	compare("truncate");
	rc |= set(G4_SET_ATIME | G4_SET_MTIME, (struct g4_attr){.atime_ns = 5, .mtime_ns = 6});
	compare("utimens");
	return rc | set(G4_SET_FLAGS, (struct g4_attr){.flags = G4_INODE_NODUMP});
}

static int do_mknod(void)
{
	uint64_t ino;

	return op_mknod(&plain, dir, "new", G4_S_IFREG | 0600, &ino);
}

static int do_mkdir(void)
{
	uint64_t ino;

	return op_mkdir(&plain, dir, "new", 0700, &ino);
}

static int do_symlink(void)
{
	uint64_t ino;

	return op_symlink(&plain, sub, "new", "anywhere", &ino);
}

static int do_link(void)
{
	return op_link(&plain, file, sub, "new");
}

static int do_unlink(void)
{
	return op_unlink(&plain, dir, "hard") | op_unlink(&plain, dir, "file");
}

static int do_rmdir(void)
{
	return op_rmdir(&plain, dir, "empty");
}

static int do_rename(void)
{
	int rc = op_rename(&plain, dir, "file", dir, "new", 0);

	compare("a rename within a directory");
	rc |= op_rename(&plain, dir, "new", G4_NODE_ROOT, "other", 0);
	compare("a rename that replaces");
	rc |= op_rename(&plain, dir, "sub", dir, "link", G4_RENAME_EXCHANGE);
	compare("an exchange");
	return rc | op_rename(&plain, dir, "link", G4_NODE_ROOT, "new", 0); /* a directory to another one */
}

static int do_create(void)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_CREATE, .node = sub, .name = "new", .name_bytes = 3, .mode = 0644, .flags = G4_OPEN_WRITE};
	int rc = g4_engine_execute(rig.engine, &cmd);

	compare("a create");
	return rc | op_release(&plain, cmd.handle);
}

static int do_tmpfile(void)
{
	uint64_t ino, handle;
	int rc = op_tmpfile(&plain, dir, &ino, &handle);

	rc |= op_link(&plain, ino, dir, "new");
	compare("a file that gets its first name");
	return rc | op_release(&plain, handle);
}

static int do_open(void)
{
	uint64_t handle;
	int rc = op_open(&plain, file, G4_OPEN_WRITE | G4_OPEN_TRUNC, &handle);

	compare("open(O_TRUNC)");
	return rc | op_release(&plain, handle);
}

static int do_write(void)
{
	int rc = op_write(&plain, file, open_handle, DATA_BYTES, data, sizeof(data), NULL);

	compare("a write");
	rc |= op_fsync(&plain, file);
	compare("an fsync");
	rc |= op_write(&plain, file, open_handle, 1, data, 10, NULL);
	compare("a small write");
	return rc | op_sync(&plain);
}

static int do_fallocate(void)
{
	return op_fallocate(&plain, file, 0, 0, 64 * G4_PAGE_BYTES);
}

static int do_copy_range(void)
{
	uint64_t done;
	int rc = op_copy_as(&plain, open_handle, 0, other_handle, 0, G4_PAGE_BYTES, 0, &done);

	compare("a copy");
	return rc | op_copy_as(&plain, open_handle, 0, other_handle, 0, 2 * G4_PAGE_BYTES, G4_COPY_SHARE, &done);
}

static int do_restripe(void)
{
	struct g4_restriped restriped;
	struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE, .node = file, .data = &restriped, .length = sizeof(restriped)};
	const int rc = op_write(&plain, file, open_handle, 1, "something", 10, NULL); /* it is stored first */

	compare("a small write");
	return rc | g4_engine_execute(rig.engine, &cmd);
}

static int do_setxattr(void)
{
	return op_setxattr(&plain, file, "user.one", "value", 5, 0);
}

static int do_removexattr(void)
{
	return op_removexattr(&plain, other, "user.two");
}

static int do_clear(void)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = dir, .length = 100};

	return g4_engine_execute(rig.engine, &cmd);
}

static int do_batch(void)
{
	uint64_t memory[64] = {0};
	struct g4_batch_entry *entries = (struct g4_batch_entry *)memory;
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .node = dir, .mask = 2, .data = memory, .length = sizeof(memory)};
	char *paths = (char *)memory + g4_batch_head_bytes(2, 0);

	memcpy(paths, "newfile", 7);
	entries[0] = (struct g4_batch_entry){.op = G4_CMD_MKNOD,
					     .path_at = (uint32_t)(paths - (char *)memory),
					     .path_bytes = 3,
					     .mode = G4_S_IFREG | 0600};
	entries[1] = (struct g4_batch_entry){
		.op = G4_CMD_UNLINK, .path_at = (uint32_t)(paths + 3 - (char *)memory), .path_bytes = 4};
	int rc = g4_engine_execute(rig.engine, &cmd);
	return rc ? rc : entries[0].status | entries[1].status;
}

/* What only looks changes times of access. */
static int do_read(void)
{
	return op_read(&plain, file, open_handle, 0, data, sizeof(data), NULL);
}

static int do_readdir(void)
{
	uint64_t bytes;

	return op_readdir(&plain, dir, 0, data, sizeof(data), &bytes);
}

static int do_readlink(void)
{
	uint64_t bytes;

	return op_readlink(&plain, link_ino, (char *)data, sizeof(data), &bytes);
}

/* Nothing that a stat tells: answers stay good. */
static int do_nothing(void)
{
	return 0;
}

static const struct row {
	uint32_t op;
	int (*run)(void);
} rows[] = {
	{G4_CMD_SETATTR, do_setattr},
	{G4_CMD_MKNOD, do_mknod},
	{G4_CMD_MKDIR, do_mkdir},
	{G4_CMD_SYMLINK, do_symlink},
	{G4_CMD_LINK, do_link},
	{G4_CMD_UNLINK, do_unlink},
	{G4_CMD_RMDIR, do_rmdir},
	{G4_CMD_RENAME, do_rename},
	{G4_CMD_CREATE, do_create},
	{G4_CMD_TMPFILE, do_tmpfile},
	{G4_CMD_OPEN, do_open},
	{G4_CMD_WRITE, do_write},
	{G4_CMD_FALLOCATE, do_fallocate},
	{G4_CMD_COPY_RANGE, do_copy_range},
	{G4_CMD_RESTRIPE, do_restripe},
	{G4_CMD_SETXATTR, do_setxattr},
	{G4_CMD_REMOVEXATTR, do_removexattr},
	{G4_CMD_CLEAR, do_clear},
	{G4_CMD_BATCH, do_batch},
	{G4_CMD_READ, do_read},
	{G4_CMD_READDIR, do_readdir},
	{G4_CMD_READLINK, do_readlink},
	/* of the whole file system, its disks, and pages that are the same */
	{G4_CMD_TRIM, do_nothing},
	{G4_CMD_RESIZE, do_nothing},
	{G4_CMD_JOB_START, do_nothing},
	{G4_CMD_JOB_SET, do_nothing},
	{G4_CMD_DEDUP, do_nothing},
	{G4_CMD_DISK, do_nothing},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* ------------------------------------------------------------------ tests */

static void begin(void)
{
	uint64_t ino;

	rig_open(&rig, 64 * G4_MIB, 0);
	rig_mount(&rig);
	plain = rig;
	plain.mirror = NULL;
	if (!rig.mirror)
		mirrored_begin(&rig);
	assert_int_equal(op_mkdir(&plain, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&plain, dir, "sub", 0755, &sub), 0);
	assert_int_equal(op_mkdir(&plain, dir, "empty", 0755, &ino), 0);
	assert_int_equal(op_mknod(&plain, dir, "file", G4_S_IFREG | 0644, &file), 0);
	assert_int_equal(op_link(&plain, file, dir, "hard"), 0);
	assert_int_equal(op_mknod(&plain, sub, "deep", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_mknod(&plain, G4_NODE_ROOT, "other", G4_S_IFREG | 0644, &other), 0);
	assert_int_equal(op_symlink(&plain, dir, "link", "file", &link_ino), 0);
	assert_int_equal(op_setxattr(&plain, other, "user.two", "2", 1, 0), 0);
	assert_int_equal(op_open(&plain, file, G4_OPEN_READ | G4_OPEN_WRITE, &open_handle), 0);
	assert_int_equal(op_open(&plain, other, G4_OPEN_READ | G4_OPEN_WRITE, &other_handle), 0);
	rig_pattern(data, 1, sizeof(data));
	assert_int_equal(op_write(&plain, file, open_handle, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&plain), 0);
}

static void end(void)
{
	assert_int_equal(op_release(&plain, open_handle), 0);
	assert_int_equal(op_release(&plain, other_handle), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
}

static void every_change_is_seen_at_once(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < ROWS; k++) {
		char name[32];

		snprintf(name, sizeof(name), "command %u", rows[k].op);
		begin();
		learn();
		asked_again = 0;
		const int rc = rows[k].run();
		if (rc)
			fail_msg("%s: %d", name, rc);
		compare(name);
		assert_true(rows[k].run == do_nothing || asked_again > 0);
		end();
	}
}

static void every_command_that_changes_something_has_a_row(void **state)
{
	uint64_t seen = 0;

	(void)state;
	for (uint32_t k = 0; k < ROWS; k++)
		seen |= UINT64_C(1) << rows[k].op;
	assert_int_equal(G4_COMMANDS_THAT(G4_CHANGES | G4_MAY_CHANGE) & ~seen, 0);
}

/* What was told to one who may not is not told when he may, and the other way round. */
static void permissions_of_directories_above_count(void **state)
{
	const struct g4_cred someone = {.uid = 77, .gid = 77};
	struct g4_attr attr, mode = {.mode = 0700};
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE,
			     .node = G4_NODE_ROOT,
			     .name = "dir/sub/deep",
			     .name_bytes = 12,
			     .attr = &attr,
			     .cred = &someone};
	bool kept;

	(void)state;
	begin();
	for (uint32_t round = 0; round < 3; round++) {
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
		assert_true(kept);
		mode.mode = 0700;
		assert_int_equal(op_setattr(&plain, dir, G4_SET_MODE, &mode), 0);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), -G4_E_ACCES);
		assert_false(kept);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), -G4_E_ACCES);
		assert_true(kept);
		mode.mode = 0755;
		assert_int_equal(op_setattr(&plain, dir, G4_SET_MODE, &mode), 0);
	}
	end();
}

/* A link on the way, and a path with more parts than a trail has places. */
static void links_are_part_of_the_way_and_long_ways_are_not_kept(void **state)
{
	char path[64] = "way/d/d/d/d/d/d/d/d/d/d/d";
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE, .node = G4_NODE_ROOT, .name = path, .name_bytes = 8, .attr = &attr};
	uint64_t ino, top;
	bool kept;

	(void)state;
	begin();
	assert_int_equal(op_mkdir(&plain, dir, "d", 0755, &ino), 0);
	top = ino;
	for (uint32_t k = 0; k < 12; k++)
		assert_int_equal(op_mkdir(&plain, ino, "d", 0755, &ino), 0);
	memcpy(path, "way/d/d/", 8);
	cmd.name_bytes = 7;
	assert_int_equal(op_symlink(&plain, G4_NODE_ROOT, "way", "dir", &ino), 0);
	assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
	assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
	assert_true(kept);
	assert_int_equal(op_unlink(&plain, G4_NODE_ROOT, "way"), 0);
	assert_int_equal(mirrored_ask(&rig, &cmd, &kept), -G4_E_NOENT);
	assert_int_equal(op_symlink(&plain, G4_NODE_ROOT, "way", "dir/d", &ino), 0);
	assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
	assert_int_not_equal(attr.ino, top);
	cmd.name_bytes = (uint16_t)strlen(path);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
		assert_false(kept);
	}
	end();
}

/* In a directory with the sticky bit that all may write to, a link is followed by its owner, and if the directory's has made it. */
static void the_owner_of_a_link_counts(void **state)
{
	const struct g4_cred someone = {.uid = 77, .gid = 77};
	struct g4_attr attr, set;
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE,
			     .node = G4_NODE_ROOT,
			     .name = "tmp/way/deep",
			     .name_bytes = 12,
			     .attr = &attr,
			     .cred = &someone};
	uint64_t tmp, ino;
	bool kept;

	(void)state;
	begin();
	assert_int_equal(op_mkdir(&plain, G4_NODE_ROOT, "tmp", 0755, &tmp), 0);
	set = (struct g4_attr){.mode = 01777};
	assert_int_equal(op_setattr(&plain, tmp, G4_SET_MODE, &set), 0);
	assert_int_equal(op_symlink(&plain, tmp, "way", "../dir/sub", &ino), 0);
	for (uint32_t round = 0; round < 3; round++) {
		set = (struct g4_attr){.uid = 88};
		assert_int_equal(op_setattr(&plain, ino, G4_SET_UID, &set), 0);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), -G4_E_ACCES);
		assert_false(kept);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), -G4_E_ACCES);
		assert_true(kept);
		set = (struct g4_attr){.uid = someone.uid};
		assert_int_equal(op_setattr(&plain, ino, G4_SET_UID, &set), 0);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
		assert_false(kept);
		assert_int_equal(mirrored_ask(&rig, &cmd, &kept), 0);
		assert_true(kept);
	}
	end();
}

/* A file that is only looked at keeps its answers. */
static void what_changes_nothing_leaves_answers_alone(void **state)
{
	struct g4_statfs statfs;
	uint64_t handle, found;

	(void)state;
	begin();
	assert_int_equal(op_read(&plain, file, open_handle, 0, data, sizeof(data), NULL),
			 0);		      /* and its time of access */
	assert_int_equal(op_sync(&plain), 0); /* or the background would write that back at some time */
	learn();
	assert_int_equal(op_open(&plain, file, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_read(&plain, file, handle, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_seek(&plain, file, 0, G4_SEEK_DATA, &found), 0);
	assert_int_equal(op_statfs(&plain, &statfs), 0);
	assert_int_equal(op_release(&plain, handle), 0);
	assert_int_equal(compare("nothing"), QUESTIONS);
	end();
}

/*
 * A change of several inodes is seen at once: whoever has seen a part of it from the engine is told nothing else by what was kept. Another
 * thread makes the change, over and over again; this one waits for its first sign.
 */
#define ROUNDS 4000u

struct change {
	int (*make)(void);
	int (*take_back)(void);
	uint64_t *sign_dir; /* a name that goes with the change; NULL: the directory's times change */
	const char *sign;
	uint64_t *kept_dir; /* what was kept of this one is old then */
	const char *kept;
	_Atomic uint32_t asked, made; /* rounds */
};

static int rename_away(void)
{
	return op_rename(&plain, dir, "x", sub, "x", 0);
}

static int rename_back(void)
{
	return op_rename(&plain, sub, "x", dir, "x", 0);
}

static int rename_beside(void)
{
	return op_rename(&plain, dir, "x", dir, "y", 0);
}

static int rename_beside_back(void)
{
	return op_rename(&plain, dir, "y", dir, "x", 0);
}

static int unlink_second(void)
{
	return op_unlink(&plain, sub, "second");
}

static int link_second(void)
{
	return op_link(&plain, other, sub, "second");
}

static void *make_changes(void *context)
{
	struct change *change = context;
	intptr_t failed = 0;

	for (uint32_t k = 1; k <= ROUNDS; k++) {
		while (atomic_load(&change->asked) != k)
			sched_yield();
		failed += change->make() != 0;
		atomic_store(&change->made, k);
	}
	return (void *)failed;
}

static struct g4_cmd lookup_of(const uint64_t *where, const char *name, struct g4_attr *attr)
{
	return (struct g4_cmd){.op = G4_CMD_LOOKUP,
			       .node = number_of(where),
			       .name = name,
			       .name_bytes = (uint16_t)strlen(name),
			       .attr = attr};
}

static struct g4_cmd sign_of(const struct change *change, struct g4_attr *attr)
{
	if (change->sign)
		return lookup_of(change->sign_dir, change->sign, attr);
	return (struct g4_cmd){.op = G4_CMD_GETATTR, .node = number_of(change->sign_dir), .attr = attr};
}

/* How often what was kept contradicted what had been seen. */
static uint32_t contradictions_of(struct change *change)
{
	struct g4_attr before, after, unchanged, attr;
	uint32_t contradictions = 0;
	pthread_t thread;
	void *failed;
	bool kept;

	assert_int_equal(pthread_create(&thread, NULL, make_changes, change), 0);
	for (uint32_t k = 1; k <= ROUNDS; k++) {
		struct g4_cmd cmd;
		int rc = 0, rc_before = 0;

		for (uint32_t turn = 0; turn < 2; turn++) {
			cmd = lookup_of(change->kept_dir, change->kept, &before);
			rc_before = mirrored_ask(&rig, &cmd, &kept);
		}
		cmd = sign_of(change, &unchanged);
		assert_int_equal(g4_engine_execute(rig.engine, &cmd), 0);
		atomic_store(&change->asked, k);
		do {
			cmd = sign_of(change, &attr);
		} while (g4_engine_execute(rig.engine, &cmd) == 0 && attr.ctime_ns == unchanged.ctime_ns &&
			 atomic_load(&change->made) != k);
		cmd = lookup_of(change->kept_dir, change->kept, &after);
		rc = mirrored_ask(&rig, &cmd, &kept);
		contradictions += rc == rc_before && (rc < 0 || after.nlink == before.nlink);
		while (atomic_load(&change->made) != k)
			sched_yield();
		assert_int_equal(change->take_back(), 0);
	}
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	return contradictions;
}

static void changes_of_several_inodes_are_seen_as_one(void **state)
{
	struct change changes[] = {
		{.make = rename_away,
		 .take_back = rename_back,
		 .sign_dir = &dir,
		 .sign = "x",
		 .kept_dir = &sub,
		 .kept = "x"},
		{.make = rename_beside,
		 .take_back = rename_beside_back,
		 .sign_dir = &dir,
		 .sign = "x",
		 .kept_dir = &dir,
		 .kept = "y"},
		{.make = unlink_second, .take_back = link_second, .sign_dir = &sub, .kept_dir = NULL, .kept = "other"},
	};
	uint64_t ino;

	(void)state;
	begin();
	assert_int_equal(op_mknod(&plain, dir, "x", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(link_second(), 0);
	for (uint32_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
		const uint32_t contradictions = contradictions_of(&changes[k]);

		if (contradictions)
			fail_msg("change %u: %u contradictions", k, contradictions);
	}
	end();
}

/* Whoever sees anything of an operation on several inodes finds all their epochs grown: they grow when the locks are taken. */
static void epochs_grow_with_the_lock(void **state)
{
	static uint64_t epochs[G4_EPOCHS];
	uint64_t a_ino, b_ino;

	(void)state;
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	struct g4_fs *fs = rig.fs;
	const uint32_t a_index = rig_hold(&rig, "a", &a_ino), b_index = rig_hold(&rig, "b", &b_ino);
	struct g4_inode_core *a = g4_icache_at(fs, a_index), *b = g4_icache_at(fs, b_index);
	g4_icache_lock_two(fs, a, b); /* nobody wants epochs */
	g4_icache_unlock_two(a, b);
	fs->epochs = (uint64_t)(uintptr_t)epochs;
	const uint64_t both = a->epoch == b->epoch ? 2 : 1;
	g4_icache_lock_two(fs, a, b);
	assert_int_equal(epochs[a->epoch], both);
	assert_int_equal(epochs[b->epoch], both);
	g4_icache_unlock_two(a, b);
	g4_icache_lock(fs, a);
	assert_int_equal(epochs[a->epoch], both + 1);
	g4_write_unlock(&a->lock);
	g4_dir_lock(fs, a, G4_LOCKED_ALONE);
	assert_int_equal(epochs[a->epoch], both + 2);
	g4_dir_unlock(a, G4_LOCKED_ALONE);
	g4_dir_lock(fs, a, G4_LOCKED_SHARED);
	assert_int_equal(epochs[a->epoch], both + 2);
	g4_dir_unlock(a, G4_LOCKED_SHARED);
	g4_icache_put(fs, a_index);
	g4_icache_put(fs, b_index);
	fs->epochs = 0;
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_change_is_seen_at_once),
		cmocka_unit_test(every_command_that_changes_something_has_a_row),
		cmocka_unit_test(epochs_grow_with_the_lock),
		cmocka_unit_test(permissions_of_directories_above_count),
		cmocka_unit_test(links_are_part_of_the_way_and_long_ways_are_not_kept),
		cmocka_unit_test(the_owner_of_a_link_counts),
		cmocka_unit_test(changes_of_several_inodes_are_seen_as_one),
		cmocka_unit_test(what_changes_nothing_leaves_answers_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
