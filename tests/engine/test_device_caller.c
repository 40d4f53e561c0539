/* SPDX-License-Identifier: Apache-2.0 */
/* Device-API callers (device/caller.c): places, opening, data, listing, mapped pages. */
#include <pthread.h>

#include "caller_fixture.h"

#define THREADS 8u

/* ------------------------------------------------------------------ files and names */

static void a_caller_makes_reads_and_writes_files(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 2);
	struct g4_caller_file file, again;
	struct g4_attr attr;

	(void)state;
	assert_ptr_equal(caller, &places[2]);
	file = make_file(caller, "/file", 100000);
	expect_contents(caller, &file, data, 100000);
	assert_int_equal(g4_caller_read(caller, &file, 99990, buffer, 100), 10);
	assert_int_equal(g4_caller_read(caller, &file, 100000, buffer, 100), 0);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.size, 100000);
	assert_int_equal(caller->attr.mode, G4_S_IFREG | 0644); /* less the umask */
	assert_int_equal(g4_caller_fsync(caller, &file), 0);
	/* the same for everybody else */
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "file", &attr), 0);
	assert_int_equal(attr.ino, file.ino);
	assert_int_equal(open_at(caller, NULL, "file", &to_read, &again), 0);
	assert_int_equal(again.key, file.key);
	assert_int_equal(g4_caller_write(caller, &again, 0, data, 1), -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &again), 0);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(g4_caller_close(caller, &file), -G4_E_BADF);
	g4_caller_leave(caller);
}

static void what_cannot_be_opened_is_refused(void **state)
{
	static const struct g4_caller_open exclusive = {
		.flags = G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_EXCL, .mode = 0644, .create = true};
	static const struct g4_caller_open not_followed = {.flags = G4_OPEN_READ, .nofollow = true};
	static const struct g4_caller_open directory = {.flags = G4_OPEN_READ | G4_OPEN_DIRECTORY};
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	char long_path[G4_PATH_MAX + 1], long_name[G4_NAME_MAX + 2];
	struct g4_caller_file file, none = {0};
	uint64_t ino;

	(void)state;
	memset(long_path, 'x', sizeof(long_path));
	long_path[G4_PATH_MAX] = 0;
	memset(long_name, 'y', sizeof(long_name));
	long_name[G4_NAME_MAX + 1] = 0;
	file = make_file(caller, "/file", 10);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &ino), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "file", &ino), 0);
	assert_int_equal(open_at(caller, NULL, "", &to_read, &file), -G4_E_NOENT);
	assert_int_equal(open_at(caller, NULL, "", &to_create, &file), -G4_E_NOENT);
	assert_int_equal(open_at(caller, NULL, "/none", &to_read, &file), -G4_E_NOENT);
	assert_int_equal(open_at(caller, NULL, "/none/x", &to_create, &file), -G4_E_NOENT);
	assert_int_equal(open_at(caller, NULL, "/file/x", &to_create, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(caller, NULL, "/file/", &to_read, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(caller, NULL, "/file", &directory, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(caller, NULL, "/file", &exclusive, &file), -G4_E_EXIST);
	assert_int_equal(open_at(caller, NULL, "/dir", &to_write, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(caller, NULL, "/dir", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(caller, NULL, "/dir/", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(caller, NULL, "/dir/..", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(caller, NULL, "/dir/.", &exclusive, &file), -G4_E_EXIST);
	assert_int_equal(open_at(caller, NULL, "/", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(caller, NULL, "/none/x/", &to_create, &file), -G4_E_NOENT); /* as open(2) has it */
	assert_int_equal(open_at(caller, NULL, "/link", &not_followed, &file), -G4_E_LOOP);
	assert_int_equal(open_at(caller, NULL, "/link", &to_create, &file), -G4_E_LOOP);
	assert_int_equal(open_at(caller, NULL, long_path, &to_read, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(caller, NULL, long_name, &to_read, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(caller, NULL, long_name, &to_create, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(caller, NULL, "/link", &to_read, &file), 0);
	expect_contents(caller, &file, data, 10);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	/* no file at all */
	assert_int_equal(g4_caller_read(caller, &none, 0, buffer, 1), -G4_E_BADF);
	assert_int_equal(g4_caller_write(caller, &none, 0, buffer, 1), -G4_E_BADF);
	assert_int_equal(g4_caller_fstat(caller, &none), -G4_E_BADF);
	assert_int_equal(g4_caller_fsync(caller, &none), -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &none), -G4_E_BADF);
	assert_int_equal(g4_caller_lookup(caller, &none, "x", 1), -G4_E_BADF);
	assert_int_equal(g4_caller_readdir(caller, &none, 0, buffer, 4096), -G4_E_BADF);
	assert_int_equal(g4_caller_map(caller, &none, 0, true), -G4_E_BADF);
	/* nothing of what was refused stayed open */
	for (uint32_t i = 0; i < rig.fs->icache.count; i++)
		assert_int_equal(g4_icache_at(rig.fs, i)->opens, 0);
	g4_caller_leave(caller);
}

static void paths_start_where_the_session_says_or_at_a_directory(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct g4_caller_file dir, file, top;
	struct g4_attr root;
	uint64_t ino, inner;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "home", 0755, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "inner", 0755, &inner), 0);
	callers.start = ino;
	file = make_file(caller, "here", 20);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	file = make_file(caller, "inner/there", 30);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(open_at(caller, NULL, "inner", &to_read, &dir), 0);
	assert_int_equal(open_at(caller, &dir, "there", &to_read, &file), 0);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.size, 30);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(g4_caller_stat(caller, &dir, "../here", 7, false), 0);
	assert_int_equal(caller->attr.size, 20);
	assert_int_equal(g4_caller_stat(caller, NULL, "/home/here", 10, false), 0);
	assert_int_equal(g4_caller_stat(caller, NULL, "/here", 5, false), -G4_E_NOENT);
	assert_int_equal(g4_caller_lookup(caller, &dir, "there and more", 5), 0);
	assert_int_equal(caller->attr.size, 30);
	assert_int_equal(g4_caller_lookup(caller, &dir, "there and more", 6), -G4_E_NOENT);
	assert_int_equal(open_at(caller, NULL, "/", &to_read, &top), 0);
	assert_int_equal(op_getattr(&rig, G4_NODE_ROOT, &root), 0);
	assert_int_equal(top.ino, root.ino);
	assert_int_equal(g4_caller_close(caller, &top), 0);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

static void callers_share_and_copy_ranges_and_manage_space(void **state)
{
	static const struct g4_caller_open to_append = {.flags = G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_APPEND};
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const uint64_t page = G4_PAGE_BYTES, all = 10 * page + 100;
	struct g4_caller_file from, to, again, dir, none = {0};
	const uint32_t share = G4_COPY_SHARE, same = G4_COPY_SAME;

	(void)state;
	from = make_file(caller, "/from", all);
	to = make_file(caller, "/to", 0);
	assert_int_equal(g4_caller_fsync(caller, &from), 0);
	assert_int_equal(g4_caller_copy(caller, &from, 0, &to, 0, UINT64_MAX, share), all);
	expect_contents(caller, &to, data, all);
	assert_int_equal(rig_place(&rig, to.ino, 3), rig_place(&rig, from.ino, 3));
	assert_int_equal(g4_caller_copy(caller, &from, 11 * page, &to, 11 * page, page, share), 0);
	assert_int_equal(g4_caller_copy(caller, &from, 1, &to, 0, page, share), -G4_E_INVAL);
	/* what can not be shared is copied, where that is asked for; and what is the same becomes one */
	assert_int_equal(g4_caller_copy(caller, &from, 1, &to, 0, 20000, 0), 20000);
	assert_int_equal(g4_caller_read(caller, &to, 0, buffer, 20000), 20000);
	assert_memory_equal(buffer, data + 1, 20000);
	assert_int_equal(g4_caller_write(caller, &to, 0, data, 20000), 20000);
	assert_int_equal(g4_caller_fsync(caller, &to), 0);
	assert_int_not_equal(rig_place(&rig, to.ino, 3), rig_place(&rig, from.ino, 3));
	assert_int_equal(g4_caller_copy(caller, &from, 0, &to, 0, UINT64_MAX, same), all);
	assert_int_equal(rig_place(&rig, to.ino, 3), rig_place(&rig, from.ino, 3));
	/* of one file */
	assert_int_equal(g4_caller_copy(caller, &to, 0, &to, page, 2 * page, share), -G4_E_INVAL);
	assert_int_equal(g4_caller_copy(caller, &to, 0, &to, 16 * page, 2 * page, share), 2 * page);
	assert_int_equal(g4_caller_read(caller, &to, 16 * page, buffer, 2 * page), 2 * page);
	assert_memory_equal(buffer, data, 2 * page);
	/* space */
	assert_int_equal(g4_caller_fallocate(caller, &to, 0, 18 * page, 4 * page), 0);
	assert_int_equal(g4_caller_fallocate(caller, &to, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, page, page), 0);
	assert_int_equal(g4_caller_fallocate(caller, &to, G4_FALLOC_COLLAPSE_RANGE, page, page), 0);
	assert_int_equal(g4_caller_fstat(caller, &to), 0);
	assert_int_equal(caller->attr.size, 21 * page);
	assert_int_equal(g4_caller_read(caller, &to, page, buffer, page), page);
	assert_memory_equal(buffer, data + 2 * page, page);
	assert_int_equal(g4_caller_fallocate(caller, &to, G4_FALLOC_PUNCH_HOLE, 0, page), -G4_E_NOTSUP);
	assert_int_equal(g4_caller_fallocate(caller, &to, 0, 0, 0), -G4_E_INVAL);
	assert_int_equal(g4_caller_fallocate(caller, &none, 0, 0, page), -G4_E_BADF);
	/* what was not opened for it */
	assert_int_equal(open_at(caller, NULL, "/to", &to_read, &again), 0);
	assert_int_equal(g4_caller_fallocate(caller, &again, 0, 0, page), -G4_E_BADF);
	assert_int_equal(g4_caller_copy(caller, &from, 0, &again, 0, page, share), -G4_E_BADF);
	assert_int_equal(g4_caller_copy(caller, &none, 0, &to, 0, page, share), -G4_E_BADF);
	assert_int_equal(g4_caller_copy(caller, &from, 0, &none, 0, page, share), -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &again), 0);
	assert_int_equal(open_at(caller, NULL, "/to", &to_append, &again), 0);
	assert_int_equal(g4_caller_copy(caller, &from, 0, &again, 0, page, 0), -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &again), 0);
	assert_int_equal(open_at(caller, NULL, "/", &to_read, &dir), 0);
	assert_int_equal(g4_caller_copy(caller, &dir, 0, &to, 0, page, 0), -G4_E_ISDIR);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	assert_int_equal(g4_caller_close(caller, &from), 0);
	assert_int_equal(g4_caller_close(caller, &to), 0);
	g4_caller_leave(caller);
}

static void a_caller_may_do_what_its_session_may(void **state)
{
	static const struct g4_caller_open quietly = {.flags = G4_OPEN_READ | G4_OPEN_NOATIME, .noatime = true};
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct g4_caller_file file;
	struct g4_attr owner = {.uid = 1000, .gid = 1000};
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "locked", 0700, &ino), 0);
	assert_int_equal(op_mknod(&rig, ino, "x", G4_S_IFREG | 0666, &ino), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "private", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "public", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "mine", 0700, &ino), 0);
	assert_int_equal(op_setattr(&rig, ino, G4_SET_UID | G4_SET_GID, &owner), 0);
	callers.cred.uid = callers.cred.gid = 1000;
	assert_int_equal(open_at(caller, NULL, "/locked/x", &to_read, &file), -G4_E_ACCES);
	assert_int_equal(open_at(caller, NULL, "/private", &to_read, &file), -G4_E_ACCES);
	assert_int_equal(open_at(caller, NULL, "/public", &to_write, &file), -G4_E_ACCES);
	assert_int_equal(open_at(caller, NULL, "/new", &to_create, &file), -G4_E_ACCES);
	assert_int_equal(open_at(caller, NULL, "/public", &quietly, &file), -G4_E_PERM);
	assert_int_equal(open_at(caller, NULL, "/public", &to_read, &file), 0);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(open_at(caller, NULL, "/mine/new", &to_create, &file), 0);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.uid, 1000);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_leave(caller);
}

static void a_listing_gives_every_name_once(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct g4_caller_file dir, unreadable;
	static const struct g4_caller_open only_search = {.flags = G4_OPEN_DIRECTORY};
	const uint32_t names = 300;
	bool seen[300];
	char name[16];
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &ino), 0);
	for (uint32_t i = 0; i < names; i++) {
		snprintf(name, sizeof(name), "n%03u", i);
		assert_int_equal(op_mknod(&rig, ino, name, G4_S_IFREG | 0600, NULL), 0);
	}
	assert_int_equal(open_at(caller, NULL, "dir", &to_read, &dir), 0);
	for (uint64_t room = 40; room <= 40000; room *= 10) {
		uint64_t cookie = 0, count = 0;
		int64_t bytes;
		memset(seen, 0, sizeof(seen));
		while ((bytes = g4_caller_readdir(caller, &dir, cookie, buffer, room)) > 0) {
			for (int64_t at = 0; at < bytes; count++) {
				const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)(buffer + at);
				const char *text = (const char *)(entry + 1);
				assert_int_equal(entry->name_bytes, 4);
				uint32_t number = (uint32_t)(text[1] - '0') * 100 + (uint32_t)(text[2] - '0') * 10 +
						  (uint32_t)(text[3] - '0');
				assert_false(seen[number]);
				seen[number] = true;
				at += entry->record_bytes;
			}
			assert_true(caller->cookie > cookie);
			cookie = caller->cookie;
		}
		assert_int_equal(bytes, 0);
		assert_int_equal(caller->cookie, cookie);
		assert_int_equal(count, names);
	}
	assert_int_equal(g4_caller_readdir(caller, &dir, 0, buffer, 30), -G4_E_RANGE);
	assert_int_equal(open_at(caller, NULL, "dir", &only_search, &unreadable), 0);
	assert_int_equal(g4_caller_readdir(caller, &unreadable, 0, buffer, 4096), -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &unreadable), 0);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/* ------------------------------------------------------------------ mapped pages */

static void a_mapped_page_shows_the_file(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	static const uint8_t zeros[G4_PAGE_BYTES];
	struct g4_caller_file file, tiny, readable, dir;
	uint32_t line;

	(void)state;
	file = make_file(caller, "/file", 10 * G4_PAGE_BYTES + 100);
	for (uint32_t round = 0; round < 2; round++) { /* dirty in the cache, then clean */
		for (uint64_t page = 0; page < 11; page++) {
			uint32_t bytes = page < 10 ? G4_PAGE_BYTES : 100;
			assert_int_equal(g4_caller_map(caller, &file, page, true), 0);
			assert_int_equal(caller->page.bytes, bytes);
			assert_memory_equal(caller->page.data, data + page * G4_PAGE_BYTES, bytes);
			assert_memory_equal((const uint8_t *)caller->page.data + bytes, zeros, G4_PAGE_BYTES - bytes);
			g4_caller_unmap(&callers, caller->page.line, true);
		}
		assert_int_equal(g4_caller_map(caller, &file, 11, true), -G4_E_NXIO);
		assert_int_equal(g4_caller_map(caller, &file, UINT64_MAX >> G4_PAGE_SHIFT, true), -G4_E_NXIO);
		assert_int_equal(op_sync(&rig), 0);
	}
	/* a write through the cache shows */
	assert_int_equal(g4_caller_map(caller, &file, 3, false), 0);
	assert_int_equal(g4_caller_write(caller, &file, 3 * G4_PAGE_BYTES, "new", 3), 3);
	assert_memory_equal(caller->page.data, "new", 3);
	g4_caller_unmap(&callers, caller->page.line, false);
	/* a hole, a file in its inode, a file that is only written, a directory */
	assert_int_equal(op_truncate(&rig, file.ino, 40 * G4_PAGE_BYTES), 0);
	assert_int_equal(g4_caller_map(caller, &file, 30, true), 0);
	assert_memory_equal(caller->page.data, zeros, G4_PAGE_BYTES);
	g4_caller_unmap(&callers, caller->page.line, true);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(g4_caller_map(caller, &file, 0, true), -G4_E_BADF);
	tiny = make_file(caller, "/tiny", 60);
	assert_int_equal(g4_caller_fsync(caller, &tiny), 0);
	g4_cache_drop_range(&rig.fs->cache, tiny.key, 0, UINT64_MAX);
	assert_int_equal(g4_caller_map(caller, &tiny, 0, true), 0);
	assert_memory_equal(caller->page.data, data, 60);
	g4_caller_unmap(&callers, caller->page.line, true);
	assert_int_equal(g4_caller_close(caller, &tiny), 0);
	static const struct g4_caller_open only_write = {.flags = G4_OPEN_WRITE};
	assert_int_equal(open_at(caller, NULL, "/tiny", &only_write, &tiny), 0);
	assert_int_equal(g4_caller_map(caller, &tiny, 0, true), -G4_E_BADF);
	assert_int_equal(g4_caller_write(caller, &tiny, 0, data, 60), 60); /* its page is in the cache now */
	assert_null(g4_caller_peek(&callers, &tiny, 0, &line));
	assert_int_equal(open_at(caller, NULL, "/tiny", &to_read, &readable), 0);
	assert_non_null(g4_caller_peek(&callers, &readable, 0, &line));
	g4_caller_unpeek(&callers, line);
	assert_int_equal(g4_caller_close(caller, &readable), 0);
	assert_int_equal(g4_caller_close(caller, &tiny), 0);
	assert_int_equal(open_at(caller, NULL, "/", &to_read, &dir), 0);
	assert_int_equal(g4_caller_map(caller, &dir, 0, true), -G4_E_ISDIR);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/*
 * Pages of one set of the cache, more than it has ways, so that some lie in lines of the pool. While they are mapped the file
 * changes in every way that drops pages; what is read then is what the file holds, never what is still mapped.
 */
static void a_mapped_page_is_not_read_when_the_file_changed(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const uint64_t apart = rig.fs->cache.set_count;
	uint8_t *wanted = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	uint32_t lines[FILE_PAGES], count;
	struct g4_caller_file file;

	(void)state;
	assert_non_null(wanted);
	assert_true(FILE_PAGES / apart >= 2);
	file = make_file(caller, "/file", FILE_BYTES);
	memcpy(wanted, data, FILE_BYTES);
	for (uint32_t round = 0; round < 4; round++) {
		assert_int_equal(g4_caller_fsync(caller, &file), 0);
		for (count = 0; count < 60; count++) {
			uint64_t page = count % 3 * apart + count / 3;
			assert_int_equal(g4_caller_map(caller, &file, page, true), 0);
			lines[count] = caller->page.line;
		}
		if (round == 0) { /* aligned and large: past the cache */
			for (uint64_t i = 0; i < FILE_BYTES; i++)
				wanted[i] = (uint8_t)~wanted[i];
			assert_int_equal(g4_caller_write(caller, &file, 0, wanted, FILE_BYTES), FILE_BYTES);
		} else if (round == 1) {
			assert_int_equal(op_truncate(&rig, file.ino, 5000), 0);
			assert_int_equal(op_truncate(&rig, file.ino, FILE_BYTES), 0);
			memset(wanted + 5000, 0, FILE_BYTES - 5000);
		} else if (round == 2) {
			assert_int_equal(g4_caller_write(caller, &file, 0, data, FILE_BYTES), FILE_BYTES);
			memcpy(wanted, data, FILE_BYTES);
			assert_int_equal(op_fallocate(&rig, file.ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0,
						      200 * G4_PAGE_BYTES),
					 0);
			memset(wanted, 0, 200 * G4_PAGE_BYTES);
		} else { /* dirty pages that are cut off */
			assert_int_equal(g4_caller_write(caller, &file, 100, data, 5 * G4_PAGE_BYTES),
					 5 * G4_PAGE_BYTES);
			assert_int_equal(op_truncate(&rig, file.ino, 0), 0);
			assert_int_equal(op_truncate(&rig, file.ino, FILE_BYTES), 0);
			memset(wanted, 0, FILE_BYTES);
		}
		expect_contents(caller, &file, wanted, FILE_BYTES);
		for (uint64_t page = 0; page < FILE_PAGES; page++) {
			assert_int_equal(g4_caller_map(caller, &file, page, false), 0);
			assert_memory_equal(caller->page.data, wanted + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
			g4_caller_unmap(&callers, caller->page.line, false);
		}
		while (count > 0)
			g4_caller_unmap(&callers, lines[--count], true);
		expect_contents(caller, &file, wanted, FILE_BYTES);
	}
	/* and one that is deleted while it is mapped */
	assert_int_equal(g4_caller_map(caller, &file, 7, true), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_unmap(&callers, caller->page.line, true);
	free(wanted);
	g4_caller_leave(caller);
}

static void as_many_pages_may_be_mapped_as_leave_others_room(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const uint32_t limit = rig.fs->cache.pin_limit;
	struct g4_caller_file file = make_file(caller, "/file", FILE_BYTES), other;
	uint32_t *lines = (uint32_t *)calloc(limit, sizeof(*lines)), count;
	char name[16];

	(void)state;
	assert_non_null(lines);
	assert_true(limit > 0 && limit < FILE_PAGES);
	for (count = 0; count < limit; count++) {
		assert_int_equal(g4_caller_map(caller, &file, count, true), 0);
		lines[count] = caller->page.line;
	}
	assert_int_equal(g4_caller_map(caller, &file, 0, true), -G4_E_NOMEM);
	/* those that the caller keeps for a moment do not count */
	assert_int_equal(g4_caller_map(caller, &file, limit + 1, false), 0);
	g4_caller_unmap(&callers, caller->page.line, false);
	/* everything else goes on */
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "/other%u", i);
		other = make_file(caller, name, 20 * G4_PAGE_BYTES);
		assert_int_equal(g4_caller_close(caller, &other), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	expect_contents(caller, &file, data, FILE_BYTES);
	g4_caller_unmap(&callers, lines[--count], true);
	assert_int_equal(g4_caller_map(caller, &file, FILE_PAGES, true), -G4_E_NXIO);
	assert_int_equal(g4_caller_map(caller, &file, 5, true), 0);
	lines[count++] = caller->page.line;
	while (count > 0)
		g4_caller_unmap(&callers, lines[--count], true);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	free(lines);
	g4_caller_leave(caller);
}

/* ------------------------------------------------------------------ all lanes at cached pages */

struct peek_job {
	const struct g4_caller_file *file;
	uint64_t first; /* lane i looks at page first + i */
	uint64_t found, wrong;
};

static void peek(struct g4_wg *by, void *args)
{
	struct peek_job *job = (struct peek_job *)args;
	uint64_t page = job->first + g4_wg_lane(by);
	uint32_t line;
	const uint8_t *at = (const uint8_t *)g4_caller_peek(&callers, job->file, page, &line);
	bool wrong = at && memcmp(at, data + page * G4_PAGE_BYTES, G4_PAGE_BYTES) != 0;

	if (at)
		g4_caller_unpeek(&callers, line);
	uint64_t found = g4_reduce_sum(by, at != NULL), bad = g4_reduce_sum(by, wrong);
	if (g4_wg_lane(by) == 0) {
		job->found += found;
		job->wrong += bad;
	}
}

/* ------------------------------------------------------------------ many at once */

struct worker {
	pthread_t thread;
	uint32_t number;
	const struct g4_caller_file *shared;
	uint64_t wrong, found;
};

static uint32_t inside[PLACES];

/* One stay: a file of its own, and pages of a file that nobody changes, by all lanes and by the leader. */
static void stay(struct worker *w, uint64_t *random)
{
	struct g4_caller *caller = g4_caller_enter(&callers, w->number);
	struct peek_job *job = (struct peek_job *)g4_scratch_take(caller->wg, sizeof(*job)); /* leaving releases it */
	uint32_t place = (uint32_t)(caller - places);
	struct g4_caller_file file = {0};
	uint8_t bytes[300], back[300];
	char path[32];

	w->wrong += g4_xchg32(&inside[place], 1) != 0;
	snprintf(path, sizeof(path), "/w%u", w->number);
	rig_pattern(bytes, rig_random(random), sizeof(bytes));
	w->wrong += g4_caller_open(caller, NULL, path, strlen(path), &to_create) != 0;
	file = caller->file;
	w->wrong += g4_caller_write(caller, &file, 0, bytes, sizeof(bytes)) != (int64_t)sizeof(bytes);
	w->wrong += g4_caller_read(caller, &file, 0, back, sizeof(back)) != (int64_t)sizeof(back);
	w->wrong += memcmp(bytes, back, sizeof(back)) != 0;
	w->wrong += g4_caller_close(caller, &file) != 0;
	uint64_t page = rig_random(random) % (FILE_PAGES - 64);
	memset(job, 0, sizeof(*job));
	job->file = w->shared;
	job->first = page;
	g4_region(caller->wg, G4_REGION_USER, peek, job);
	w->wrong += job->wrong;
	w->found += job->found;
	int rc = g4_caller_map(caller, w->shared, page, true);
	w->wrong += rc != 0;
	if (rc == 0) {
		w->wrong += memcmp(caller->page.data, data + page * G4_PAGE_BYTES, G4_PAGE_BYTES) != 0;
		g4_caller_unmap(&callers, caller->page.line, true);
	}
	g4_store32_rel(&inside[place], 0);
	g4_caller_leave(caller);
}

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t random = w->number + 1;

	for (uint32_t round = 0; round < (rig_slow() ? 60 : 600); round++)
		stay(w, &random);
	return NULL;
}

static void more_callers_than_places_take_turns(void **state)
{
	struct worker workers[THREADS];
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct g4_caller_file shared = make_file(caller, "/shared", FILE_BYTES);
	uint64_t found = 0;

	(void)state;
	assert_int_equal(g4_caller_fsync(caller, &shared), 0);
	g4_caller_leave(caller);
	for (uint32_t k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.number = k, .shared = &shared};
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].wrong, 0);
		found += workers[k].found;
	}
	assert_true(found > 0);
	caller = g4_caller_enter(&callers, 0);
	assert_int_equal(g4_caller_close(caller, &shared), 0);
	g4_caller_leave(caller);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		caller_test(a_caller_makes_reads_and_writes_files),
		caller_test(what_cannot_be_opened_is_refused),
		caller_test(paths_start_where_the_session_says_or_at_a_directory),
		caller_test(callers_share_and_copy_ranges_and_manage_space),
		caller_test(a_caller_may_do_what_its_session_may),
		caller_test(a_listing_gives_every_name_once),
		caller_test(a_mapped_page_shows_the_file),
		caller_test(a_mapped_page_is_not_read_when_the_file_changed),
		caller_test(as_many_pages_may_be_mapped_as_leave_others_room),
		caller_test(more_callers_than_places_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
