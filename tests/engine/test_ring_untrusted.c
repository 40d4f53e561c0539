/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may not do, though it knows all but the key of its session: numbers of inodes, their generations, the format
 * of the disk.
 */
#include <fcntl.h>

#include "client/client.h"
#include "format/format.h"
#include "fs/fs.h"
#include "hash/crc32c.h"
#include "untrusted.h"

static struct g4_engine *engine;
static struct untrusted s; /* uid 1000 */

static int setup(void **state)
{
	int rc = api_setup(state);

	engine = fs->mount->engine;
	ok(gpu4fs_chmod(fs, NULL, "/", 0777));
	untrusted_enter(&s, &somebody);
	return rc;
}

static int teardown(void **state)
{
	untrusted_leave(&s);
	return api_teardown(state);
}

#define untrusted_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* An inode as a client names it. */
struct name {
	uint64_t ino, generation, token;
};

static struct name name_of(const struct g4_attr *attr)
{
	return (struct name){attr->ino, attr->generation, attr->token};
}

static void set_node(struct g4_ring_slot *slot, struct name name)
{
	slot->command.node = name.ino;
	slot->command.generation = (uint32_t)name.generation;
	slot->command.token = name.token;
}

static void set_node2(struct g4_ring_slot *slot, struct name name)
{
	slot->command.node2 = name.ino;
	slot->command.generation2 = (uint32_t)name.generation;
	slot->command.token2 = name.token;
}

static struct g4_attr look_up(struct untrusted *client, const char *path)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, path);

	slot.command.wants_attr = 1;
	return untrusted_ask(client, &slot).attr;
}

static int run_on(uint32_t op, struct name name)
{
	struct g4_ring_slot slot = slot_of(op, op == G4_CMD_OPEN ? NULL : "x");

	set_node(&slot, name);
	slot.command.flags = G4_OPEN_READ;
	return untrusted_run(&s, &slot);
}

static struct name make_by_hand(const char *name)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_MKNOD, name);

	slot.command.mode = S_IFREG | 0644;
	slot.command.wants_attr = 1;
	const struct g4_attr attr = untrusted_ask(&s, &slot).attr;
	return name_of(&attr);
}

static struct name private_file(void)
{
	ok(gpu4fs_mkdir(fs, NULL, "/closed", 0700));
	api_write_text("/closed/file", "private");
	const struct gpu4fs_stat stat = api_lstat("/closed/file");
	return (struct name){.ino = stat.ino, .generation = stat.generation};
}

static const struct g4_session_options root_far_away = {
	.flags = G4_SESSION_MAY_ACT, .data_bytes = 4 * G4_MIB, .entries = 16, .handles = 4};

/* ------------------------------------------------------------------ naming inodes */

static void an_inode_is_named_with_its_token(void **state)
{
	struct name other = private_file(), mine = make_by_hand("mine");
	struct untrusted root;

	(void)state;
	ok(run_on(G4_CMD_OPEN, mine));
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){mine.ino, mine.generation, 0}), -G4_E_STALE);
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){mine.ino, mine.generation + 1, mine.token}), -G4_E_STALE);
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){mine.ino, 0, mine.token}), -G4_E_STALE);
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){mine.ino, mine.generation, mine.token ^ 1}), -G4_E_STALE);
	/* a file that all may read, behind a door that is closed */
	assert_int_equal(run_on(G4_CMD_OPEN, other), -G4_E_STALE);
	other.token = mine.token;
	assert_int_equal(run_on(G4_CMD_OPEN, other), -G4_E_STALE);
	untrusted_enter(&root, &root_far_away);
	const struct g4_attr attr = look_up(&root, "closed/file");
	assert_int_equal(attr.ino, other.ino);
	assert_int_equal(run_on(G4_CMD_OPEN, name_of(&attr)), -G4_E_STALE); /* another client's token */
	untrusted_leave(&root);
}

static void no_command_takes_a_number_alone(void **state)
{
	static const uint32_t ops[] = {
		G4_CMD_LOOKUP, G4_CMD_RESOLVE, G4_CMD_GETATTR,	G4_CMD_SETATTR,	 G4_CMD_READLINK,  G4_CMD_MKNOD,
		G4_CMD_MKDIR,  G4_CMD_SYMLINK, G4_CMD_UNLINK,	G4_CMD_RMDIR,	 G4_CMD_CREATE,	   G4_CMD_TMPFILE,
		G4_CMD_OPEN,   G4_CMD_READDIR, G4_CMD_SETXATTR, G4_CMD_GETXATTR, G4_CMD_LISTXATTR, G4_CMD_REMOVEXATTR,
		G4_CMD_ACCESS, G4_CMD_CLEAR,   G4_CMD_BATCH,	G4_CMD_TALLY,
	};
	struct g4_ring_slot slot;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/public", 0777));
	const struct gpu4fs_stat stat = api_lstat("/public");
	const struct name number = {.ino = stat.ino, .generation = stat.generation};
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		slot = slot_of(ops[i], "x");
		set_node(&slot, number);
		if (ops[i] == G4_CMD_SETATTR) {
			slot.command.name_bytes = 0;
			slot.command.attr_bytes = sizeof(struct g4_attr);
		}
		assert_int_equal(untrusted_run(&s, &slot), -G4_E_STALE);
	}
	/* two of them */
	const struct name mine = make_by_hand("mine");
	const struct g4_attr public = look_up(&s, "public");
	slot = slot_of(G4_CMD_LINK, "new");
	slot.command.name2_bytes = slot.command.name_bytes;
	slot.command.name_bytes = 0;
	set_node(&slot, mine);
	set_node2(&slot, number);
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_STALE);
	set_node2(&slot, name_of(&public));
	slot.command.token = 0;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_STALE);
	slot = slot_of(G4_CMD_RENAME, "minemine");
	slot.command.name_bytes = slot.command.name2_bytes = 4;
	set_node2(&slot, number);
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_STALE);
	assert_int_equal(api_count_names("/public"), 0);
}

static void a_token_does_not_outlive_its_inode(void **state)
{
	struct name old, new;
	uint32_t rounds = 0;

	(void)state;
	do { /* until the number is another file's */
		assert_true(++rounds < 1000);
		old = make_by_hand("old");
		ok(gpu4fs_unlink(fs, NULL, "/old"));
		new = make_by_hand("new");
		if (new.ino != old.ino)
			ok(gpu4fs_unlink(fs, NULL, "/new"));
	} while (new.ino != old.ino);
	assert_int_not_equal(new.generation, old.generation);
	assert_int_equal(run_on(G4_CMD_OPEN, old), -G4_E_STALE);
	old.generation = new.generation;
	assert_int_equal(run_on(G4_CMD_OPEN, old), -G4_E_STALE);
	ok(run_on(G4_CMD_OPEN, new));
}

#define IMAGE "untrusted clients.img"
#define MARK_BYTES 32

/* Data that looks like a slab at `address`, all its slots files of the client's. */
static void forge(uint8_t *page, uint64_t address)
{
	struct g4_slab_header *slab = (struct g4_slab_header *)(void *)page;
	struct gpu4fs_statfs statfs;

	ok(gpu4fs_statfs(fs, &statfs));
	memset(page, 0, G4_PAGE_BYTES);
	slab->header.magic = G4_BLOCK_MAGIC;
	slab->header.type = G4_BLOCK_SLAB;
	slab->header.address = address;
	slab->header.generation = 1;
	memcpy(&slab->header.fs_tag, statfs.uuid, sizeof(slab->header.fs_tag));
	slab->kind = G4_SLAB_INODES;
	slab->used = 0xffff;
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		struct g4_inode *inode = (struct g4_inode *)(void *)(page + (uint64_t)slot * G4_SLAB_SLOT_BYTES);
		inode->mode = S_IFREG | 0666;
		inode->uid = inode->gid = 1000;
		inode->nlink = 1;
		inode->generation = 7;
		inode->size = 4096;
		inode->map_height = 0;
		inode->pages = 1;
		inode->map[0] = g4_ptr_at(address, G4_TAG_4K, G4_PTR_VALID);
	}
	slab->header.crc32c = 0;
	slab->header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
}

/* Where in the image a page lies that begins with the mark. */
static uint64_t find_page(int image, const char *mark)
{
	uint8_t page[G4_PAGE_BYTES];

	for (uint64_t at = 0; pread(image, page, sizeof(page), (off_t)at) == (ssize_t)sizeof(page); at += sizeof(page))
		if (memcmp(page, mark, MARK_BYTES) == 0)
			return at;
	fail_msg("the file's data is not in the image");
	return 0;
}

/* As a client would that fills many pages and guesses where one of them will lie: here it lies right. */
static uint64_t place_forgery(void)
{
	const char mark[MARK_BYTES] = "data of a client, not an inode";
	uint8_t page[G4_PAGE_BYTES];
	const uint64_t handle = untrusted_open(&s, "mine", G4_OPEN_READ | G4_OPEN_WRITE);
	const struct g4_ring_slot write = io_slot(G4_CMD_WRITE, handle, 0, G4_PAGE_BYTES);
	const struct g4_ring_slot sync = io_slot(G4_CMD_FSYNC, handle, 0, 0);
	const int image = open(IMAGE, O_RDWR);

	assert_true(image >= 0);
	memcpy(s.data, mark, sizeof(mark));
	ok(untrusted_run(&s, &write));
	ok(untrusted_run(&s, &sync));
	const uint64_t address = find_page(image, mark);
	forge(page, address);
	gives(pwrite(image, page, sizeof(page), (off_t)address), sizeof(page));
	ok(close(image));
	return g4_ino_at(address + G4_SLAB_SLOT_BYTES);
}

static void data_that_looks_like_an_inode_is_none(void **state)
{
	const struct g4_cred own = {.uid = 1000, .gid = 1000};

	(void)state;
	untrusted_leave(&s);
	ok(api_unmount(fs));
	api_image(IMAGE, 64 * G4_MIB);
	fs = api_mount(IMAGE, true);
	engine = fs->mount->engine;
	ok(gpu4fs_chmod(fs, NULL, "/", 0777));
	untrusted_enter(&s, &somebody);
	const uint64_t ino = place_forgery();
	struct g4_cmd open = {.op = G4_CMD_OPEN, .node = ino, .flags = G4_OPEN_READ, .cred = &own};
	assert_int_equal(g4_engine_execute(engine, &open),
			 -G4_E_STALE); /* it was free since the mount, and no slab since */
	untrusted_leave(&s);
	ok(api_unmount(fs));
	fs = api_mount(IMAGE, false);
	engine = fs->mount->engine;
	untrusted_enter(&s, &somebody);
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){.ino = ino, .generation = 7}), -G4_E_STALE);
	assert_int_equal(run_on(G4_CMD_OPEN, (struct name){.ino = ino}), -G4_E_STALE);
	/* of a page that was in use when the mount began the engine itself takes it for one: what stands between the two is the token */
	ok(g4_engine_execute(engine, &open));
	struct g4_cmd release = {.op = G4_CMD_RELEASE, .handle = open.handle};
	ok(g4_engine_execute(engine, &release));
	unlink(IMAGE);
}

/* ------------------------------------------------------------------ what is asked for at a session */

static void nodes_have_a_known_type(void **state)
{
	static const struct {
		uint32_t mode;
		int status;
	} wrong[] = {
		{0030644, -G4_E_INVAL},	      {0050644, -G4_E_INVAL},	    {0070644, -G4_E_INVAL},
		{0110644, -G4_E_INVAL},	      {0170644, -G4_E_INVAL},	    {S_IFLNK | 0777, -G4_E_INVAL},
		{S_IFDIR | 0755, -G4_E_PERM}, {S_IFCHR | 0600, -G4_E_PERM}, {S_IFBLK | 0600, -G4_E_PERM},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct g4_ring_slot slot = slot_of(G4_CMD_MKNOD, "node");
		slot.command.mode = wrong[i].mode;
		assert_int_equal(untrusted_run(&s, &slot), wrong[i].status);
	}
	assert_int_equal(api_count_names("/"), 0);
	struct g4_ring_slot slot = slot_of(G4_CMD_MKNOD, "pipe");
	slot.command.mode = S_IFIFO | 0600;
	ok(untrusted_run(&s, &slot));
	assert_true(S_ISFIFO(api_lstat("/pipe").mode));
}

static struct g4_ring_slot set_slot(uint32_t mask)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_SETATTR, NULL);
	const struct g4_attr attr = {.ctime_ns = 1000};

	slot.command.mask = mask;
	slot.command.attr_bytes = sizeof(attr);
	memcpy(slot.text, &attr, sizeof(attr));
	return slot;
}

static void attributes_of_others_stay(void **state)
{
	const struct g4_cred kernel = {.uid = 1000, .gid = 1000, .flags = G4_CRED_TRUSTED};
	struct g4_ring_slot set = set_slot(G4_SET_KILL_SUIDGID);
	struct g4_attr ignored;

	(void)state;
	api_touch("/setuid", 0755);
	ok(gpu4fs_chmod(fs, NULL, "/setuid", 04766));
	const struct g4_attr attr = look_up(&s, "setuid");
	set_node(&set, name_of(&attr));
	assert_int_equal(untrusted_run(&s, &set), -G4_E_PERM);
	set.command.handle = untrusted_open(&s, "setuid", G4_OPEN_READ);
	assert_int_equal(untrusted_run(&s, &set), -G4_E_PERM);
	assert_int_equal(api_lstat("/setuid").mode & 07777, 04766);
	set.command.handle = untrusted_open(&s, "setuid", G4_OPEN_WRITE); /* who may write may do this by writing */
	ok(untrusted_run(&s, &set));
	assert_int_equal(api_lstat("/setuid").mode & 07777, 0766);
	/* the kernel, which knows whose write it is */
	ok(gpu4fs_chmod(fs, NULL, "/setuid", 04766));
	struct g4_cmd kill = {
		.op = G4_CMD_SETATTR, .node = attr.ino, .mask = G4_SET_KILL_SUIDGID, .attr = &ignored, .cred = &kernel};
	ok(g4_engine_execute(engine, &kill));
	assert_int_equal(api_lstat("/setuid").mode & 07777, 0766);
}

static void times_of_change_and_unknown_bits_are_not_set(void **state)
{
	const struct name mine = make_by_hand("mine");
	struct g4_ring_slot set = set_slot(G4_SET_CTIME);

	(void)state;
	set_node(&set, mine);
	assert_int_equal(untrusted_run(&s, &set), -G4_E_PERM);
	assert_int_not_equal(api_lstat("/mine").ctime.tv_sec, 0);
	for (uint32_t bit = 11; bit < 32; bit++) {
		set.command.mask = 1u << bit;
		assert_int_equal(untrusted_run(&s, &set), -G4_E_INVAL);
		set_node(&set, (struct name){.ino = G4_NODE_ROOT}); /* nor where nothing else is allowed */
		assert_int_equal(untrusted_run(&s, &set), -G4_E_INVAL);
		set_node(&set, mine);
	}
}

/* What a batch has led to can be named, and nothing that the client wrote where attributes go. */
static void tokens_of_a_batch(void **state)
{
	const struct name closed = private_file();
	struct g4_batch_entry *entries = (struct g4_batch_entry *)(void *)s.data;
	struct g4_attr *attrs = (struct g4_attr *)(void *)(entries + 3);
	struct g4_ring_slot slot = slot_of(G4_CMD_BATCH, NULL);
	const uint32_t head = (uint32_t)g4_batch_head_bytes(3, G4_BATCH_ATTR);

	(void)state;
	memcpy(s.data + head, "mine", 4);
	memcpy(s.data + head + 4, "/closed/file", 12);
	entries[0] =
		(struct g4_batch_entry){.op = G4_CMD_MKNOD, .mode = S_IFREG | 0644, .path_at = head, .path_bytes = 4};
	entries[1] = (struct g4_batch_entry){.op = G4_CMD_UNLINK, .path_at = head + 5, .path_bytes = 2};
	entries[2] = (struct g4_batch_entry){.op = G4_CMD_LOOKUP, .path_at = head + 4, .path_bytes = 12};
	for (uint32_t k = 0; k < 3; k++)
		attrs[k] = (struct g4_attr){.ino = closed.ino, .generation = closed.generation, .token = 1};
	slot.command.mask = 3;
	slot.command.flags = G4_BATCH_ATTR;
	slot.command.length = head + 24; /* entries overlap: together they may have so much */
	ok(untrusted_run(&s, &slot));
	assert_int_equal(entries[0].status, 0);
	ok(run_on(G4_CMD_OPEN, name_of(&attrs[0])));
	assert_int_equal(entries[1].status, -G4_E_NOENT);
	assert_int_equal(entries[2].status, -G4_E_ACCES);
	assert_int_equal(entries[2].component, G4_BATCH_AT_NAME);
	for (uint32_t k = 1; k < 3; k++)
		assert_int_equal(attrs[k].ino | attrs[k].generation | attrs[k].token, 0);
	/* one that succeeds without attributes brings none either */
	entries[1].path_at = head;
	entries[1].path_bytes = 4;
	attrs[1] = (struct g4_attr){.ino = closed.ino, .generation = closed.generation};
	ok(untrusted_run(&s, &slot));
	assert_int_equal(entries[1].status, 0);
	assert_int_equal(attrs[1].ino | attrs[1].generation | attrs[1].token, 0);
	/* devices are nothing that a batch makes, whichever client asks */
	entries[0].mode = S_IFCHR | 0666;
	ok(untrusted_run(&s, &slot));
	assert_int_equal(entries[0].status, -G4_E_PERM);
	slot.command.length = G4_SESSION_STAGE_BYTES + 8;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_XATTR_BIG);
	slot.command.length = 16;
	slot.command.data = 4 * G4_MIB - 8;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
}

/* A tally brings tokens of directories, and looks into none that its caller may not read. */
static void tokens_of_a_tally(void **state)
{
	const struct g4_tally *tally = (const struct g4_tally *)(const void *)s.data;
	const struct g4_tally_item *items = (const struct g4_tally_item *)(const void *)(tally + 1);
	struct g4_ring_slot slot = slot_of(G4_CMD_TALLY, NULL);

	(void)state;
	private_file();
	ok(gpu4fs_mkdir(fs, NULL, "/open", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/open/below", 0755));
	slot.command.length = 4096;
	ok(untrusted_run(&s, &slot));
	assert_int_equal(tally->items, 2);
	assert_int_equal(tally->directories, 2);
	assert_true(tally->cookie == UINT64_MAX);
	uint32_t readable = 0;
	const struct g4_tally_item both[2] = {items[0], items[1]};
	for (uint32_t k = 0; k < 2; k++) {
		set_node(&slot, (struct name){both[k].ino, both[k].generation, both[k].token});
		const int rc = untrusted_run(&s, &slot);
		assert_true(rc == 0 || rc == -G4_E_ACCES);
		readable += rc == 0;
		if (rc == 0)
			assert_int_equal(tally->names, 1);
	}
	assert_int_equal(readable, 1);
	slot.command.length = sizeof(*tally);
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
}

static void a_listing_with_attributes_needs_search_permission(void **state)
{
	struct g4_ring_slot list = slot_of(G4_CMD_READDIR, NULL);
	uint32_t with_attributes = 0;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/dir", 0755));
	api_touch("/dir/file", 0600);
	const struct g4_attr attr = look_up(&s, "dir");
	set_node(&list, name_of(&attr));
	list.command.flags = G4_READDIR_PLUS;
	list.command.length = 4096;
	ok(untrusted_run(&s, &list));
	uint64_t bytes = g4_ring_result_of(s.ring, 16, s.next - 1)->word >> 32;
	for (uint64_t at = 0; at < bytes;) {
		const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)(s.data + at);
		const struct g4_attr *its = (const struct g4_attr *)(const void *)(entry + 1);
		assert_true(entry->record_bytes > 0);
		if (entry->has_attr) {
			assert_int_equal(its->token, 0);
			with_attributes++;
		}
		at += entry->record_bytes;
	}
	assert_int_equal(with_attributes, 1);
	ok(gpu4fs_chmod(fs, NULL, "/dir", 0744));
	assert_int_equal(untrusted_run(&s, &list), -G4_E_ACCES);
	list.command.flags = 0;
	ok(untrusted_run(&s, &list));
	ok(gpu4fs_chmod(fs, NULL, "/dir", 0711));
	assert_int_equal(untrusted_run(&s, &list), -G4_E_ACCES);
}

/* ------------------------------------------------------------------ what Linux forbids by fs.protected_* */

static void own(const char *path, uint32_t uid, uint32_t mode)
{
	ok(gpu4fs_chown(fs, NULL, path, uid, uid, AT_SYMLINK_NOFOLLOW));
	if (!S_ISLNK(api_lstat(path).mode))
		ok(gpu4fs_chmod(fs, NULL, path, mode));
}

/* A file in the root directory gets the name "new". */
static int link_to_new(const char *path)
{
	const struct g4_attr attr = look_up(&s, path);
	struct g4_ring_slot slot = slot_of(G4_CMD_LINK, "new");

	slot.command.name2_bytes = slot.command.name_bytes;
	slot.command.name_bytes = 0;
	set_node(&slot, name_of(&attr));
	set_node2(&slot, (struct name){.ino = G4_NODE_ROOT});
	int rc = untrusted_run(&s, &slot);
	if (rc == 0)
		ok(gpu4fs_unlink(fs, NULL, "/new"));
	return rc;
}

static void others_files_get_no_name_from_who_may_not_change_them(void **state)
{
	static const struct {
		uint32_t mode;
		int status;
	} cases[] = {
		{0600, -G4_E_PERM},  {0644, -G4_E_PERM},  {0622, -G4_E_PERM}, {0666, 0},
		{04666, -G4_E_PERM}, {02676, -G4_E_PERM}, {02666, 0},
	};

	(void)state;
	api_touch("/roots", 0600);
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		own("/roots", 0, cases[k].mode);
		assert_int_equal(link_to_new("roots"), cases[k].status);
		own("/roots", 1000, cases[k].mode); /* one's own, whatever it is */
		assert_int_equal(link_to_new("roots"), 0);
	}
	ok(gpu4fs_mknod(fs, NULL, "/pipe", S_IFIFO | 0600, 0));
	own("/pipe", 0, 0666);
	assert_int_equal(link_to_new("pipe"), -G4_E_PERM);
	own("/pipe", 1000, 0600);
	assert_int_equal(link_to_new("pipe"), 0);
}

static int resolve_as_another(const char *path)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, path);

	return untrusted_run(&s, &slot);
}

static void links_of_others_in_sticky_directories_are_not_followed(void **state)
{
	static const struct {
		uint32_t dir_mode, dir_uid, link_uid;
		int status;
	} cases[] = {
		{01777, 0, 77, -G4_E_ACCES}, {01777, 0, 1000, 0}, {01777, 0, 0, 0},
		{01777, 77, 77, 0},	     {0777, 0, 77, 0},	  {01775, 0, 77, 0},
	};

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/shared", 0777));
	api_touch("/target", 0644);
	ok(gpu4fs_mkdir(fs, NULL, "/dir", 0755));
	ok(gpu4fs_symlink(fs, "/target", NULL, "/shared/link"));
	ok(gpu4fs_symlink(fs, "/dir", NULL, "/shared/way"));
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		own("/shared", cases[k].dir_uid, cases[k].dir_mode);
		own("/shared/link", cases[k].link_uid, 0);
		own("/shared/way", cases[k].link_uid, 0);
		assert_int_equal(resolve_as_another("shared/link"), cases[k].status);
		assert_int_equal(resolve_as_another("shared/way/."), cases[k].status);
		struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, "shared/link");
		slot.command.flags = G4_RESOLVE_NOFOLLOW;
		assert_int_equal(untrusted_run(&s, &slot), 0);
	}
	/* it is root whom this protects */
	own("/shared", 0, 01777);
	own("/shared/link", 77, 0);
	struct gpu4fs_stat stat;
	fails(gpu4fs_stat(fs, NULL, "/shared/link", &stat), EACCES);
}

/* Opens what is in /shared as one does who means to make it. */
static int create_in(const struct g4_attr *dir, const char *name, uint32_t flags)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_CREATE, name);

	set_node(&slot, name_of(dir));
	slot.command.flags = G4_OPEN_WRITE | flags;
	slot.command.mode = S_IFREG | 0644;
	uint32_t number = s.next;
	struct g4_ring_result result;
	untrusted_post(&s, &slot);
	int rc = untrusted_take(&s, number, &result);
	if (rc == 0) {
		struct g4_ring_slot close = io_slot(G4_CMD_RELEASE, result.handle, 0, 0);
		assert_int_equal(untrusted_run(&s, &close), 0);
	}
	return rc;
}

static void what_others_left_in_sticky_directories_is_not_taken_for_new(void **state)
{
	static const struct {
		uint32_t dir_mode, dir_uid, uid;
		int file, pipe; /* a pipe that may be opened is the kernel's */
	} cases[] = {
		{01777, 0, 77, -G4_E_ACCES, -G4_E_ACCES},
		{01775, 0, 77, -G4_E_ACCES, -G4_E_NXIO},
		{01755, 0, 77, 0, -G4_E_NXIO},
		{0777, 0, 77, 0, -G4_E_NXIO},
		{01777, 0, 1000, 0, -G4_E_NXIO},
		{01777, 0, 0, 0, -G4_E_NXIO},
		{01777, 77, 77, 0, -G4_E_NXIO},
	};
	struct g4_attr dir;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/shared", 0777));
	dir = look_up(&s, "shared");
	api_touch("/shared/file", 0666);
	ok(gpu4fs_mknod(fs, NULL, "/shared/pipe", S_IFIFO | 0666, 0));
	ok(gpu4fs_symlink(fs, "file", NULL, "/shared/link"));
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		own("/shared", cases[k].dir_uid, cases[k].dir_mode);
		own("/shared/file", cases[k].uid, 0666);
		own("/shared/pipe", cases[k].uid, 0666);
		assert_int_equal(create_in(&dir, "file", 0), cases[k].file);
		assert_int_equal(create_in(&dir, "file", G4_OPEN_EXCL), -G4_E_EXIST);
		assert_int_equal(create_in(&dir, "pipe", 0), cases[k].pipe);
	}
	own("/shared", 0, 01777);
	own("/shared/link", 77, 0);
	assert_int_equal(create_in(&dir, "link", 0), -G4_E_ACCES);
	own("/shared/link", 1000, 0);
	assert_int_equal(create_in(&dir, "link", 0), -G4_E_LOOP); /* the client follows it */
	/* root, too */
	gpu4fs_file *file;
	own("/shared/file", 77, 0666);
	fails(gpu4fs_open(fs, NULL, "/shared/file", O_WRONLY | O_CREAT, 0644, &file), EACCES);
	ok(gpu4fs_open(fs, NULL, "/shared/file", O_WRONLY, 0, &file));
	ok(gpu4fs_close(file));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		untrusted_test(an_inode_is_named_with_its_token),
		untrusted_test(no_command_takes_a_number_alone),
		untrusted_test(a_token_does_not_outlive_its_inode),
		untrusted_test(data_that_looks_like_an_inode_is_none),
		untrusted_test(nodes_have_a_known_type),
		untrusted_test(attributes_of_others_stay),
		untrusted_test(times_of_change_and_unknown_bits_are_not_set),
		untrusted_test(tokens_of_a_batch),
		untrusted_test(tokens_of_a_tally),
		untrusted_test(a_listing_with_attributes_needs_search_permission),
		untrusted_test(others_files_get_no_name_from_who_may_not_change_them),
		untrusted_test(links_of_others_in_sticky_directories_are_not_followed),
		untrusted_test(what_others_left_in_sticky_directories_is_not_taken_for_new),
	};

	unsetenv("G4_TEST_CONNECTED"); /* the other side of these tests is the engine itself */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
