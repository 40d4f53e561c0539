/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking without a lock: what was copied while the in-core inode became another inode's, or was filled from the device,
 * does not count. And what of a ring's lookups the lanes of a workgroup answer together.
 */
#include "fs/fs.h"
#include "fs/optimistic.h"
#include "rig.h"
#include "ring/client_host.h"
#include "ring/execute.h"
#include "simt/simt_host.h"

#include <pthread.h>

#define FILES 100u /* more than one slab holds */

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, 64 * G4_MIB, 0);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	rig.wg = wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_wg_destroy(wg);
	rig_close(&rig);
	return 0;
}

static void mount_with(const struct g4_fault *fault)
{
	fs = rig_mount_fs(&rig, wg, fault);
	rig.fs = fs;
}

/* ------------------------------------------------------------------ a reader in the middle of a load */

static bool is_unchanged(uint32_t inode, uint32_t version)
{
	g4_fence_acq();
	return g4_read_unchanged(&g4_icache_at(fs, inode)->lock, version);
}

/* Somebody who begins to look at the in-core inode that is being loaded whenever the device is asked for something. */
struct reader {
	uint32_t inode; /* G4_NO_INODE: has not met one */
	uint32_t version;
	bool quiet;
};

static void begin_to_look(void *context, const struct g4_io *io)
{
	struct reader *reader = (struct reader *)context;

	(void)io;
	for (uint32_t i = 0; i < fs->icache.count; i++) {
		if (g4_load32_acq(&g4_icache_at(fs, i)->state) != G4_ICACHE_LOADING)
			continue;
		reader->inode = i;
		reader->quiet = g4_read_begin(&g4_icache_at(fs, i)->lock, &reader->version);
	}
}

static void what_was_copied_during_a_load_does_not_count(void **state)
{
	static const struct g4_fault harmless = {.keep_unflushed = true};
	struct reader reader = {.inode = G4_NO_INODE};
	struct g4_inode_core copy;
	struct g4_attr attr;
	uint32_t version = 0;
	uint64_t ino = 0;
	char name[16];

	(void)state;
	mount_with(NULL);
	for (uint32_t k = 0; k < FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	}
	rig_unmount_fs(&rig, wg, fs, true);

	mount_with(&harmless);
	g4_dev_fault_watch(rig.fault, begin_to_look, &reader);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_not_equal(reader.inode, G4_NO_INODE);
	assert_int_equal(g4_icache_at(fs, reader.inode)->ino, ino);
	assert_false(reader.quiet && is_unchanged(reader.inode, reader.version));
	/* now it does */
	assert_true(g4_icache_read_optimistic(g4_icache_at(fs, reader.inode), ino, &copy, &version));
	assert_true(is_unchanged(reader.inode, version));
	assert_int_equal(copy.disk.mode, G4_S_IFREG | 0600);
	rig_unmount_fs(&rig, wg, fs, true);
}

static void a_copy_does_not_count_when_the_inode_was_changed_or_its_place_given_away(void **state)
{
	struct g4_inode_core copy, before;
	uint32_t version = 0, before_version = 0;
	struct g4_attr attr;
	uint64_t ino, other;
	char name[16];

	(void)state;
	mount_with(NULL);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	uint32_t i = g4_icache_index_of(fs, ino);
	assert_int_not_equal(i, G4_NO_INODE);
	assert_true(g4_icache_read_optimistic(g4_icache_at(fs, i), ino, &copy, &version));
	assert_true(is_unchanged(i, version));
	attr.mode = 0640;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &attr), 0);
	assert_false(is_unchanged(i, version));

	assert_int_equal(op_sync(&rig), 0);
	assert_true(g4_icache_read_optimistic(g4_icache_at(fs, i), ino, &before, &before_version));
	for (uint32_t k = 0; g4_load64_rlx(&g4_icache_at(fs, i)->ino) == ino && k < 4 * fs->icache.count; k++) {
		snprintf(name, sizeof(name), "n%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &other), 0);
	}
	assert_int_not_equal(g4_icache_at(fs, i)->ino, ino);
	assert_false(is_unchanged(i, before_version));
	assert_false(g4_icache_read_optimistic(g4_icache_at(fs, i), ino, &copy, &version));
	rig_unmount_fs(&rig, wg, fs, true);
}

/* ------------------------------------------------------------------ a reader while the place is given away */

#define MORE_THAN_CORES 4600u /* the least number of in-core inodes is 4096 */

/* Somebody who has looked at all in-core inodes, and looks again when one of them was taken and its inode has changed elsewhere. */
struct onlooker {
	struct rig other; /* another workgroup's */
	uint32_t *versions;
	uint32_t taken; /* that were looked at */
	uint64_t ino;	/* of it */
	int rc;
	bool deceived;
};

static void *change(void *argument)
{
	struct onlooker *onlooker = (struct onlooker *)argument;
	struct g4_attr attr = {.mode = 0640};

	onlooker->rc = op_setattr(&onlooker->other, onlooker->ino, G4_SET_MODE, &attr);
	return NULL;
}

static void look_again(void *context, const struct g4_io *io)
{
	struct onlooker *onlooker = (struct onlooker *)context;
	pthread_t thread; /* its locks are no concern of those that are held here */

	(void)io;
	for (uint32_t i = 0; i < fs->icache.count && onlooker->taken == 0; i++) {
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		if (!(g4_load32_acq(&inode->refs) & G4_ICACHE_TAKEN) || inode->state != G4_ICACHE_READY)
			continue;
		onlooker->taken++;
		onlooker->ino = inode->ino;
		assert_int_equal(pthread_create(&thread, NULL, change, onlooker), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(onlooker->rc, 0);
		onlooker->deceived = is_unchanged(i, onlooker->versions[i]);
	}
}

/* Its number is found no more, so others load and change it, and what they add to its epoch is in the trail of whoever has the copy. */
static void a_copy_does_not_count_from_when_its_place_was_taken(void **state)
{
	static const struct g4_fault harmless = {.keep_unflushed = true};
	struct onlooker onlooker = {.taken = 0};
	struct g4_attr attr;
	uint64_t *inos = (uint64_t *)calloc(MORE_THAN_CORES, sizeof(*inos)), ino;
	char name[16];

	(void)state;
	mount_with(NULL);
	for (uint32_t k = 0; k < MORE_THAN_CORES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &inos[k]), 0);
	}
	for (uint32_t k = MORE_THAN_CORES - FILES / 2; k < MORE_THAN_CORES; k += 20) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	rig_unmount_fs(&rig, wg, fs, true);

	mount_with(&harmless);
	/* all in-core inodes are somebody's, and the slabs that have slots left are not in the cache */
	assert_in_range(fs->icache.count, 1, MORE_THAN_CORES - FILES - 1);
	for (uint32_t k = 0; k < MORE_THAN_CORES - FILES; k++)
		assert_int_equal(op_getattr(&rig, inos[k], &attr), 0);
	onlooker.versions = (uint32_t *)calloc(fs->icache.count, sizeof(*onlooker.versions));
	for (uint32_t i = 0; i < fs->icache.count; i++)
		g4_read_begin(&g4_icache_at(fs, i)->lock, &onlooker.versions[i]);
	onlooker.other = rig;
	onlooker.other.wg = g4_wg_create(0);
	g4_dev_fault_watch(rig.fault, look_again, &onlooker);
	for (uint32_t k = 0; k < FILES && onlooker.taken == 0; k++) { /* until one needs a slab that is on the device */
		snprintf(name, sizeof(name), "n%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	}
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_equal(onlooker.taken, 1);
	assert_false(onlooker.deceived);
	g4_wg_destroy(onlooker.other.wg);
	free(onlooker.versions);
	free(inos);
	rig_unmount_fs(&rig, wg, fs, true);
}

/* ------------------------------------------------------------------ a lane alone */

/* What RESOLVE says of a path that has been asked for before, and whether a look without locks knows it. */
static bool is_known(const char *path, uint32_t flags, int status, uint64_t ino)
{
	static const struct g4_cred superuser = {0};
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE,
			     .flags = flags,
			     .node = G4_NODE_ROOT,
			     .name = path,
			     .name_bytes = (uint16_t)strlen(path),
			     .cred = &superuser,
			     .attr = &attr};

	for (uint32_t k = 0; k < 2; k++) {
		memset(&attr, 0, sizeof(attr));
		g4_execute(wg, fs, &cmd);
		assert_int_equal(cmd.status, status);
		assert_int_equal(attr.ino, status == 0 ? ino : attr.ino);
	}
	memset(&attr, 0, sizeof(attr));
	const bool known = g4_optimistic_alone(fs, &cmd);
	assert_true(!known || (status == 0 && attr.ino == ino));
	return known;
}

/* As the ways to directories end of which a command has the name alone. */
static void slashes_at_the_end_are_no_reason_to_take_locks(void **state)
{
	uint64_t dir, below, file, link;

	(void)state;
	mount_with(NULL);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0600, &file), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "dir", &link), 0);
	assert_true(is_known("dir/below", 0, 0, below));
	assert_true(is_known("dir/below/", 0, 0, below));
	assert_true(is_known("//dir//below///", 0, 0, below));
	assert_true(is_known("dir/", G4_RESOLVE_NOFOLLOW, 0, dir));
	assert_true(is_known("dir/file", 0, 0, file));
	assert_false(is_known("dir/file/", 0, -G4_E_NOTDIR, 0));
	assert_true(is_known("link", G4_RESOLVE_NOFOLLOW, 0, link));
	assert_false(is_known("link/", G4_RESOLVE_NOFOLLOW, 0, dir));
	assert_false(is_known("dir/none/", 0, -G4_E_NOENT, 0));
	assert_false(is_known("dir/./", 0, 0, dir));
	assert_false(is_known("/", 0, 0, g4_icache_at(fs, fs->root_index)->ino));
	rig_unmount_fs(&rig, wg, fs, true);
}

/* ------------------------------------------------------------------ a ring's lookups by all lanes */

#define ENTRIES 4u
#define DATA_BYTES (64 * G4_KIB)
#define UNTOUCHED 0xa5

/* An engine's side of a ring, without threads: commands are executed here and now. */
static struct desk {
	struct g4_session session;
	struct g4_session_stage *stage;
	uint32_t number;
} desk;

static void *allocate(uint64_t bytes)
{
	void *memory = aligned_alloc(64, g4_align_up(bytes, 64));

	assert_non_null(memory);
	memset(memory, 0, bytes);
	return memory;
}

static void open_desk(void)
{
	memset(&desk, 0, sizeof(desk));
	desk.session = (struct g4_session){.ring = allocate(g4_ring_bytes(ENTRIES)),
					   .data = allocate(DATA_BYTES),
					   .data_bytes = DATA_BYTES,
					   .entries = ENTRIES,
					   .bytes_limit = DATA_BYTES,
					   .token_key = {1, 2}};
	desk.stage = allocate(sizeof(*desk.stage));
	desk.stage->text = allocate(G4_RING_MAX_TEXT);
	desk.stage->data = allocate(G4_SESSION_STAGE_BYTES);
}

static void close_desk(void)
{
	free(desk.stage->text);
	free(desk.stage->data);
	free(desk.stage);
	free(desk.session.ring);
	free(desk.session.data);
}

static void be(uint32_t uid, uint32_t gid)
{
	desk.session.cred = (struct g4_cred){.uid = uid, .gid = gid};
}

static struct g4_ring_slot slot_of(uint32_t op, uint64_t node, const char *text)
{
	struct g4_ring_slot slot = {.command = {.op = op,
						.node = node,
						.token = g4_session_token(&desk.session, node, 0),
						.name_bytes = (uint16_t)strlen(text),
						.text_at = G4_RING_TEXT_INLINE,
						.wants_attr = 1}};

	assert_true(strlen(text) <= sizeof(slot.text));
	memcpy(slot.text, text, strlen(text));
	return slot;
}

/* One command; its status. The ordinary way writes down what it does; the lanes' way leaves that as it was. */
static int execute(const struct g4_ring_slot *slot, struct g4_ring_result *taken, bool *together)
{
	const uint32_t number = ++desk.number;
	struct g4_ring_result *result = g4_ring_result_of(desk.session.ring, ENTRIES, number);
	struct g4_cmd before;

	memset(&before, UNTOUCHED, sizeof(before));
	desk.stage->cmd = before;
	memset(taken, 0, sizeof(*taken));
	*g4_ring_slot_of(desk.session.ring, ENTRIES, number) = *slot;
	g4_session_execute(wg, fs, &desk.session, number, desk.stage);
	*together = memcmp(&desk.stage->cmd, &before, sizeof(before)) == 0;
	assert_int_equal(result->word & G4_RING_NUMBER_MASK, number);
	if (result->word & G4_RING_WORD_FULL) {
		assert_true(g4_ring_result_take(result, taken));
		return 0;
	}
	return (int32_t)(result->word >> 32);
}

/* Asks once; whether the lanes answered it together. What it found must be that inode, or it fails with that code. */
static bool is_together(const struct g4_ring_slot *slot, int status, uint64_t ino)
{
	struct g4_ring_result taken;
	struct g4_attr attr;
	bool together;

	assert_int_equal(execute(slot, &taken, &together), status);
	assert_int_equal(taken.tops != 0, status == 0 && slot->command.wants_attr);
	if (taken.tops == 0)
		return together;
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(taken.attr.token, g4_session_token(&desk.session, attr.ino, attr.generation));
	taken.attr.token = 0;
	assert_memory_equal(&taken.attr, &attr, sizeof(attr));
	return together;
}

/* Asks twice, so that all is cached the second time. */
static bool ask(const struct g4_ring_slot *slot, int status, uint64_t ino)
{
	is_together(slot, status, ino);
	return is_together(slot, status, ino);
}

static bool ask_path(const char *path, int status, uint64_t ino)
{
	const struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, G4_NODE_ROOT, path);

	return ask(&slot, status, ino);
}

static int setup_desk(void **state)
{
	setup(state);
	mount_with(NULL);
	open_desk();
	return 0;
}

static int teardown_desk(void **state)
{
	close_desk();
	rig_unmount_fs(&rig, wg, fs, true);
	return teardown(state);
}

#define desk_test(f) cmocka_unit_test_setup_teardown(f, setup_desk, teardown_desk)

static void mount_again(void)
{
	rig_unmount_fs(&rig, wg, fs, true);
	mount_with(NULL);
}

/* Lanes alone do it in the ordinary way. */
static void need_lanes(void)
{
	if (g4_wg_width(wg) == 1)
		skip();
}

#define DEEPEST 18u

static void lanes_walk_together_as_far_as_they_have_room(void **state)
{
	uint64_t ino = G4_NODE_ROOT, inodes[DEEPEST];
	char path[2 * DEEPEST + 1] = "", name[34];

	(void)state;
	need_lanes();
	for (uint32_t k = 0; k < DEEPEST; k++) {
		assert_int_equal(op_mkdir(&rig, ino, "d", 0755, &ino), 0);
		inodes[k] = ino;
	}
	for (uint32_t k = 0; k < DEEPEST; k++) {
		strcpy(path + 2 * k, "d");
		assert_int_equal(ask_path(path, 0, inodes[k]), k < G4_OPTIMISTIC_PARTS);
		strcpy(path + 2 * k + 1, "/");
		assert_int_equal(ask_path(path, 0, inodes[k]), k < G4_OPTIMISTIC_PARTS);
	}
	for (uint32_t bytes = 1; bytes < sizeof(name); bytes++) {
		memset(name, 'n', bytes);
		name[bytes] = 0;
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
		const struct g4_ring_slot slot = slot_of(G4_CMD_LOOKUP, G4_NODE_ROOT, name);
		assert_int_equal(ask(&slot, 0, ino), bytes <= G4_LOOKUP_NAME_BYTES);
		assert_int_equal(ask_path(name, 0, ino), bytes <= G4_LOOKUP_NAME_BYTES);
	}
}

static void lanes_leave_to_the_command_what_is_not_plain(void **state)
{
	uint64_t dir, file, link, ino;

	(void)state;
	need_lanes();
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0600, &file), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "dir", &link), 0);
	assert_true(ask_path("/dir/file", 0, file));
	assert_true(ask_path("//dir///file", 0, file));
	assert_false(ask_path("dir/./file", 0, file));
	assert_false(ask_path("dir/../dir/file", 0, file));
	assert_true(ask_path("dir/", 0, dir));
	assert_true(ask_path("/dir//", 0, dir));
	assert_false(ask_path("dir/file/", -G4_E_NOTDIR, 0));
	assert_false(ask_path("link/", 0, dir));
	assert_false(ask_path("/", 0, G4_NODE_ROOT));
	assert_false(ask_path("//", 0, G4_NODE_ROOT));
	assert_false(ask_path("", -G4_E_NOENT, 0));
	assert_false(ask_path("dir/none", -G4_E_NOENT, 0));
	assert_false(ask_path("dir/file/file", -G4_E_NOTDIR, 0));
	assert_false(ask_path("link/file", 0, file));
	assert_false(ask_path("link", 0, dir));
	struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, G4_NODE_ROOT, "link");
	slot.command.flags = G4_RESOLVE_NOFOLLOW;
	assert_true(ask(&slot, 0, link));
	slot = slot_of(G4_CMD_RESOLVE, G4_NODE_ROOT, "link/"); /* what it leads to all the same */
	slot.command.flags = G4_RESOLVE_NOFOLLOW;
	assert_false(ask(&slot, 0, dir));
	slot = slot_of(G4_CMD_RESOLVE, dir, "file");
	assert_true(ask(&slot, 0, file));
	slot = slot_of(G4_CMD_LOOKUP, dir, "file");
	assert_true(ask(&slot, 0, file));
	slot.command.wants_attr = 0;
	assert_true(ask(&slot, 0, file));
	slot.command.token ^= 1;
	assert_false(ask(&slot, -G4_E_STALE, 0));
	slot = slot_of(G4_CMD_LOOKUP, dir, "file");
	slot.command.text_at = 0;
	memcpy(desk.session.data, "file", 4);
	assert_false(ask(&slot, 0, file));

	slot = slot_of(G4_CMD_RESOLVE, G4_NODE_ROOT, "dir/file");
	mount_again(); /* now nothing is cached */
	assert_false(is_together(&slot, 0, file));
	assert_true(is_together(&slot, 0, file));
	assert_int_equal(op_unlink(&rig, dir, "file"), 0);
	assert_false(is_together(&slot, -G4_E_NOENT, 0));
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0600, &ino), 0);
	assert_true(ask(&slot, 0, ino));
}

static void set_rights(uint64_t ino, uint32_t mode)
{
	struct g4_attr attr = {.mode = mode, .uid = 1000, .gid = 2000};

	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE | G4_SET_UID | G4_SET_GID, &attr), 0);
}

static void lanes_ask_for_permission_as_the_command_does(void **state)
{
	uint64_t dir, file;

	(void)state;
	need_lanes();
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0600, &file), 0);
	for (uint32_t mode = 0; mode <= 0777; mode++) {
		set_rights(dir, mode);
		be(0, 0);
		assert_true(ask_path("dir/file", 0, file));
		be(1000, 2000);
		const bool owner = mode & 0100, group = mode & 0010, others = mode & 0001;
		assert_int_equal(ask_path("dir/file", owner ? 0 : -G4_E_ACCES, file), owner);
		be(1001, 2000);
		assert_int_equal(ask_path("dir/file", group ? 0 : -G4_E_ACCES, file), group);
		be(1001, 2001);
		assert_int_equal(ask_path("dir/file", others ? 0 : -G4_E_ACCES, file), others);
		assert_true(ask_path("dir", 0, dir));
	}
	be(0, 0);
	assert_int_equal(op_setxattr(&rig, dir, "user.colour", "red", 3, 0), 0);
	assert_true(ask_path("dir/file", 0, file));
	be(1000, 2000);
	assert_true(ask_path("dir/file", 0, file));
	be(1001, 2001); /* it might be an access list */
	assert_false(ask_path("dir/file", 0, file));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_copied_during_a_load_does_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(a_copy_does_not_count_from_when_its_place_was_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_copy_does_not_count_when_the_inode_was_changed_or_its_place_given_away, setup, teardown),
		cmocka_unit_test_setup_teardown(slashes_at_the_end_are_no_reason_to_take_locks, setup, teardown),
		desk_test(lanes_walk_together_as_far_as_they_have_room),
		desk_test(lanes_leave_to_the_command_what_is_not_plain),
		desk_test(lanes_ask_for_permission_as_the_command_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
