/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device-API callers: what warps of other kernels do on a GPU, here by threads with workgroups of their own. On `lanes` a caller has several
 * lanes, which look at caches side by side.
 */
#include "rig.h"

#include <pthread.h>

#include "engine/caller.h"
#include "engine/region.h"
#include "simt/simt_host.h"

#define PLACES 3u
#define THREADS 8u
#define FILE_PAGES 300u
#define FILE_BYTES (FILE_PAGES * G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg; /* of the rig's own operations */
static struct g4_wg *wgs[PLACES];
static struct g4_caller places[PLACES];
static struct g4_callers callers;
static uint8_t *data, *buffer;

/* ------------------------------------------------------------------ all lanes at cached pages */

#define REGION_PEEK (G4_REGION_USER + 100)
struct peek_job {
	const struct g4_caller_file *file;
	uint64_t first; /* lane i looks at page first + i */
	uint64_t found, wrong;
};

static void peek(struct g4_wg *by, struct peek_job *job)
{
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

#define REGION_UNMAP (G4_REGION_USER + 101)

/* What all lanes of a kernel do in g4d_unmap_each(), but for what is left to the leader: left[] by lane. */
static bool left[64];

static void unmap_lanes(struct g4_wg *by, struct g4_caller *caller)
{
	const uint32_t lane = g4_wg_lane(by);

	left[lane] = caller->lane[lane].result == 0 && !g4_caller_unmap_lane(&callers, caller->lane[lane].page.line);
	const uint64_t count = g4_reduce_sum(by, caller->lane[lane].result == 0);
	if (lane == 0)
		g4_caller_unpin(&callers, (uint32_t)count);
}

/* The engine's regions, and those above. */
void g4_region_user(struct g4_wg *by, uint32_t kind, void *args)
{
	if (g4_engine_region(by, kind, args))
		return;
	if (kind == REGION_UNMAP)
		unmap_lanes(by, (struct g4_caller *)args);
	else if (kind == REGION_PEEK)
		peek(by, (struct peek_job *)args);
	else
		fail_msg("region %u", kind);
}

/* ------------------------------------------------------------------ tools */

static int setup(void **state)
{
	(void)state;
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	assert_non_null(data);
	assert_non_null(buffer);
	rig_pattern(data, 7, FILE_BYTES);
	rig_open(&rig, 64 * G4_MIB, 0);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
	memset(&callers, 0, sizeof(callers));
	memset(places, 0, sizeof(places));
	callers.fs = rig.fs;
	callers.caller = places;
	callers.count = PLACES;
	callers.start = G4_NODE_ROOT;
	callers.cred.umask = 022;
	for (uint32_t i = 0; i < PLACES; i++) {
		wgs[i] = g4_wg_create(1 + i);
		assert_non_null(wgs[i]);
		places[i].callers = &callers;
		places[i].wg = wgs[i];
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PLACES; i++) {
		assert_int_equal(places[i].busy, 0);
		g4_wg_destroy(wgs[i]);
	}
	assert_int_equal(rig.fs->cache.pins, 0);
	rig_unmount_fs(&rig, wg, rig.fs, true);
	g4_wg_destroy(wg);
	rig.fs = NULL;
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
	free(data);
	free(buffer);
	return 0;
}

static int open_at(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
		   const struct g4_caller_open *how, struct g4_caller_file *file)
{
	int rc = g4_caller_open(caller, at, path, strlen(path), how);

	*file = rc == 0 ? caller->file : (struct g4_caller_file){0};
	return rc;
}

static const struct g4_caller_open to_read = {.flags = G4_OPEN_READ};
static const struct g4_caller_open to_write = {.flags = G4_OPEN_READ | G4_OPEN_WRITE};
static const struct g4_caller_open to_create = {.flags = G4_OPEN_READ | G4_OPEN_WRITE, .mode = 0666, .create = true};

/* A file with the pattern in `data`; open. */
static struct g4_caller_file make_file(struct g4_caller *caller, const char *path, uint64_t bytes)
{
	struct g4_caller_file file;

	assert_int_equal(open_at(caller, NULL, path, &to_create, &file), 0);
	assert_int_equal(g4_caller_write(caller, &file, 0, data, bytes), bytes);
	return file;
}

static void expect_contents(struct g4_caller *caller, const struct g4_caller_file *file, const uint8_t *wanted,
			    uint64_t bytes)
{
	assert_int_equal(g4_caller_read(caller, file, 0, buffer, FILE_BYTES), bytes);
	assert_memory_equal(buffer, wanted, bytes);
}

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

static struct g4_caller_path at_path(const struct g4_caller_file *at, const char *text)
{
	return (struct g4_caller_path){at, text, strlen(text)};
}

static int make_dir(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_mkdir(caller, &path, 01777);
}

static int remove_dir(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_rmdir(caller, &path);
}

static int remove_name(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_unlink(caller, &path);
}

static int make_link(struct g4_caller *caller, const char *target, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_symlink(caller, target, strlen(target), &path);
}

static int move(struct g4_caller *caller, const char *from, const char *to, uint32_t flags)
{
	const struct g4_caller_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_caller_rename(caller, &old, &path, flags);
}

static int give_name(struct g4_caller *caller, const char *from, const char *to, bool follow)
{
	const struct g4_caller_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_caller_link(caller, &old, &path, follow);
}

/* The inode that a path leads to, a link itself; 0: none. */
static uint64_t node_of(struct g4_caller *caller, const char *path)
{
	return g4_caller_stat(caller, NULL, path, strlen(path), true) == 0 ? caller->attr.ino : 0;
}

static void a_caller_makes_moves_and_removes_names(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	char long_name[G4_NAME_MAX + 2], long_path[G4_PATH_MAX + 1];
	struct g4_caller_file file, dir;

	(void)state;
	memset(long_name, 'n', sizeof(long_name));
	long_name[G4_NAME_MAX + 1] = 0;
	memset(long_path, 'p', sizeof(long_path));
	long_path[G4_PATH_MAX] = 0;
	assert_int_equal(make_dir(caller, "/a"), 0);
	assert_int_equal(g4_caller_stat(caller, NULL, "/a", 2, false), 0);
	assert_int_equal(caller->attr.mode, G4_S_IFDIR | 01755); /* less the umask */
	assert_int_equal(make_dir(caller, "a/b///"), 0);
	assert_int_equal(make_dir(caller, "/a/b"), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/"), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/a/."), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/a/.."), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, ""), -G4_E_NOENT);
	assert_int_equal(make_dir(caller, "/none/x"), -G4_E_NOENT);
	assert_int_equal(make_dir(caller, long_name), -G4_E_NAMETOOLONG);
	assert_int_equal(make_dir(caller, long_path), -G4_E_NAMETOOLONG);
	file = make_file(caller, "/a/file", 100);
	assert_int_equal(make_dir(caller, "/a/file/x"), -G4_E_NOTDIR);

	assert_int_equal(make_link(caller, "file", "/a/link"), 0);
	assert_int_equal(make_link(caller, "file", "/a/link"), -G4_E_EXIST);
	assert_int_equal(make_link(caller, "file", "/a/new/"), -G4_E_NOENT);
	assert_int_equal(make_link(caller, "", "/a/new"), -G4_E_NOENT);
	assert_int_equal(make_link(caller, long_path, "/a/new"), -G4_E_NAMETOOLONG);
	assert_int_equal(g4_caller_stat(caller, NULL, "/a/link", 7, false), 0);
	assert_int_equal(caller->attr.ino, file.ino);
	assert_int_equal(give_name(caller, "/a/link", "/followed", true), 0);
	assert_int_equal(node_of(caller, "/followed"), file.ino);
	assert_int_equal(give_name(caller, "/a/link", "/itself", false), 0);
	assert_int_equal(node_of(caller, "/itself"), node_of(caller, "/a/link"));
	assert_int_equal(give_name(caller, "/a/file", "/followed", false), -G4_E_EXIST);
	assert_int_equal(give_name(caller, "/a/file", "/followed/", false), -G4_E_EXIST);
	assert_int_equal(give_name(caller, "/a/none", "/x", false), -G4_E_NOENT);
	assert_int_equal(give_name(caller, "/a", "/x", false), -G4_E_PERM);

	assert_int_equal(move(caller, "/followed", "/a/b/moved", 0), 0);
	assert_int_equal(node_of(caller, "/followed"), 0);
	assert_int_equal(node_of(caller, "/a/b/moved"), file.ino);
	assert_int_equal(move(caller, "/a/b/moved", "/itself", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(caller, "/a/b/moved", "/itself", G4_RENAME_EXCHANGE), 0);
	assert_int_equal(node_of(caller, "/itself"), file.ino);
	assert_int_equal(move(caller, "/itself", "/x", 3), -G4_E_INVAL);
	assert_int_equal(move(caller, "/itself", "/x", 8), -G4_E_INVAL);
	assert_int_equal(move(caller, "/a", "/a/b/c", 0), -G4_E_INVAL);
	assert_int_equal(move(caller, "/itself/", "/x", 0), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/itself", "/x/", 0), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/a/", "/itself/", G4_RENAME_EXCHANGE), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/none", "/x", 0), -G4_E_NOENT);
	assert_int_equal(move(caller, "/a/.", "/x", 0), -G4_E_BUSY);
	assert_int_equal(move(caller, "/a/b", "/", 0), -G4_E_BUSY);
	assert_int_equal(move(caller, "/a/b", "/a/..", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(caller, "/a/b/", "/b/", 0), 0);
	assert_int_equal(open_at(caller, NULL, "/a", &to_read, &dir), 0);
	const struct g4_caller_path relative = at_path(&dir, "../b"), back = at_path(&dir, "b");
	assert_int_equal(g4_caller_rename(caller, &relative, &back, 0), 0);
	assert_int_equal(g4_caller_close(caller, &dir), 0);

	assert_int_equal(remove_name(caller, "/a"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/a/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/itself/"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(caller, "/none"), -G4_E_NOENT);
	assert_int_equal(remove_name(caller, "/itself"), 0);
	assert_int_equal(remove_name(caller, "/itself"), -G4_E_NOENT);
	assert_int_equal(remove_dir(caller, "/a"), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(caller, "/"), -G4_E_BUSY);
	assert_int_equal(remove_dir(caller, "/a/."), -G4_E_INVAL);
	assert_int_equal(remove_dir(caller, "/a/.."), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(caller, "/a/file"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(caller, "/a/b/moved"), 0);
	assert_int_equal(remove_dir(caller, "/a/b/"), 0);

	assert_int_equal(g4_caller_truncate(caller, &file, 10), 0);
	expect_contents(caller, &file, data, 10);
	assert_int_equal(g4_caller_truncate(caller, &file, 30000), 0);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.size, 30000);
	assert_int_equal(g4_caller_truncate(caller, &file, UINT64_MAX), -G4_E_FBIG);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(g4_caller_truncate(caller, &file, 0), -G4_E_BADF);
	assert_int_equal(open_at(caller, NULL, "/a/file", &to_read, &file), 0);
	assert_int_equal(g4_caller_truncate(caller, &file, 0), -G4_E_INVAL);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	callers.cred.uid = callers.cred.gid = 1000;
	assert_int_equal(make_dir(caller, "/mine"), -G4_E_ACCES);
	assert_int_equal(remove_name(caller, "/a/file"), -G4_E_ACCES);
	assert_int_equal(move(caller, "/a/file", "/x", 0), -G4_E_ACCES);
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

/* ------------------------------------------------------------------ each lane its own */

#define ANY_LANE(caller, k) for (uint32_t k = 0; k < g4_wg_width((caller)->wg); k++)

static uint64_t all_lanes(const struct g4_caller *caller)
{
	return UINT64_MAX >> (64 - g4_wg_width(caller->wg));
}

static void want_name(struct g4_caller *caller, uint32_t lane, const char *name, bool attr)
{
	caller->lane[lane].name = name;
	caller->lane[lane].bytes = strlen(name);
	caller->lane[lane].wants_attr = attr;
}

static void want_range(struct g4_caller *caller, uint32_t lane, uint64_t offset, uint64_t bytes, void *to)
{
	caller->lane[lane].to = to;
	caller->lane[lane].bytes = bytes;
	caller->lane[lane].offset = offset;
}

/* What a lane got is what the plain call gives. */
static void expect_plain_lookup(struct g4_caller *caller, const struct g4_caller_file *dir, uint32_t lane)
{
	const struct g4_caller_lane got = caller->lane[lane];
	const struct g4_attr attr = *g4_caller_attr_of(caller, lane);

	if (got.bytes == 0) {
		assert_int_equal(got.result, 0);
		return;
	}
	assert_int_equal(got.result, g4_caller_lookup(caller, dir, got.name, got.bytes));
	if (got.result < 0)
		return;
	assert_int_equal(got.ino, caller->attr.ino);
	if (got.wants_attr)
		assert_memory_equal(&attr, &caller->attr, sizeof(attr));
}

static void names_of_all_lanes_lead_where_plain_lookups_lead(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	char long_name[101] = "", too_long[G4_NAME_MAX + 2] = "";
	const char *names[] = {"one",  "two",	  "three", "again",  "sub",
			       "link", long_name, "none",  "four",   "",
			       ".",    "..",	  "a/b",   too_long, "sub",
			       "one",  "twofo",	  "tw",	   "two",    "exactly 32 bytes of name, not 33",
			       "z"};
	const uint32_t count = sizeof(names) / sizeof(names[0]);
	struct g4_caller_file dir, file, none = {0};
	uint64_t ino, sub;

	(void)state;
	memset(long_name, 'l', sizeof(long_name) - 1);
	memset(too_long, 'x', sizeof(too_long) - 1);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "sub", 0700, &sub), 0);
	assert_int_equal(op_symlink(&rig, ino, "link", "one", NULL), 0);
	for (uint32_t i = 0; i < count; i++) {
		char path[G4_NAME_MAX + 20];
		if (strchr(names[i], '/') || names[i][0] == '.' || !names[i][0] || strlen(names[i]) > G4_NAME_MAX ||
		    strcmp(names[i], "sub") == 0 || strcmp(names[i], "link") == 0 || strcmp(names[i], "none") == 0 ||
		    strcmp(names[i], "again") == 0)
			continue;
		snprintf(path, sizeof(path), "/dir/%s", names[i]);
		file = make_file(caller, path, 1 + i * 100);
		assert_int_equal(g4_caller_close(caller, &file), 0);
	}
	struct g4_attr one;
	assert_int_equal(op_lookup(&rig, ino, "one", &one), 0);
	assert_int_equal(op_link(&rig, one.ino, ino, "again"), 0);
	assert_int_equal(open_at(caller, NULL, "/dir", &to_read, &dir), 0);
	for (uint32_t round = 0; round < 4 * count; round++) {
		ANY_LANE(caller, k)
		want_name(caller, k, names[(round + k * (1 + round / count)) % count], round % 3 != 0);
		g4_caller_lookup_each(caller, &dir);
		ANY_LANE(caller, k)
		expect_plain_lookup(caller, &dir, k);
	}
	/* a name that everybody knows needs no leader, nor does one inode in every lane */
	ANY_LANE(caller, k)
	want_name(caller, k, k % 2 ? "one" : "again", true);
	g4_caller_lookup_each(caller, &dir);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_int_equal(caller->left, 0);
	ANY_LANE(caller, k)
	expect_plain_lookup(caller, &dir, k);
	/* it goes: nobody finds it */
	assert_int_equal(op_unlink(&rig, ino, "one"), 0);
	assert_int_equal(op_rename(&rig, ino, "two", ino, "again", 0), 0);
	for (uint32_t attr = 0; attr < 2; attr++) {
		ANY_LANE(caller, k)
		want_name(caller, k, k % 2 ? "one" : "again", attr);
		g4_caller_lookup_each(caller, &dir);
		ANY_LANE(caller, k)
		expect_plain_lookup(caller, &dir, k);
	}
	/* not a directory, not open, not allowed */
	assert_int_equal(open_at(caller, NULL, "/dir/three", &to_read, &file), 0);
	ANY_LANE(caller, k)
	want_name(caller, k, "three", true);
	g4_caller_lookup_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_NOTDIR);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_lookup_each(caller, &none);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	struct g4_attr locked = {.mode = 0700};
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &locked), 0);
	callers.cred.uid = callers.cred.gid = 1000;
	g4_caller_lookup_each(caller, &dir);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_ACCES);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/* Ranges like those of programs: records, pages, pieces over page ends, behind the end; from all lanes. */
static void ranges_of_all_lanes_are_what_plain_reads_give(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	static const uint64_t size = 20 * G4_PAGE_BYTES + 100;
	static const uint64_t ranges[][2] = {{0, 16},
					     {4096, 4096},
					     {5, 64},
					     {5, 65},
					     {8000, 500},
					     {20 * 4096, 4096},
					     {20 * 4096 + 50, 10},
					     {20 * 4096 + 90, 100},
					     {20 * 4096 + 100, 1},
					     {UINT64_MAX, 4096},
					     {UINT64_MAX - 100, 4096},
					     {123, 0},
					     {8192, 1},
					     {3, 4093},
					     {4095, 2},
					     {40960, 20000},
					     {12288, 4096}};
	const uint32_t count = sizeof(ranges) / sizeof(ranges[0]), room = 32768;
	struct g4_caller_file file, quiet, dir;
	static const struct g4_caller_open only_write = {.flags = G4_OPEN_WRITE};
	static const struct g4_caller_open quietly = {.flags = G4_OPEN_READ | G4_OPEN_NOATIME, .noatime = true};

	(void)state;
	file = make_file(caller, "/file", size);
	for (uint32_t round = 0; round < 6 * count; round++) {
		if (round % 10 == 0) { /* nothing of it is in the cache */
			assert_int_equal(g4_caller_fsync(caller, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		memset(buffer, 0xcc, (size_t)room * (g4_wg_width(caller->wg) + 1));
		ANY_LANE(caller, k)
		{
			const uint64_t *range = ranges[(round * 5 + k) % count];
			want_range(caller, k, range[0], range[1], buffer + (uint64_t)k * room + round % 17);
		}
		g4_caller_read_each(caller, &file);
		ANY_LANE(caller, k)
		{
			const struct g4_caller_lane *lane = &caller->lane[k];
			const uint8_t *got = (const uint8_t *)lane->to;
			const uint64_t bytes = lane->offset < size ? g4_min64(lane->bytes, size - lane->offset) : 0;
			assert_int_equal(lane->result, bytes);
			if (bytes)
				assert_memory_equal(got, data + lane->offset, bytes);
			for (uint64_t i = bytes; i < room - 17; i++)
				assert_int_equal(got[i], 0xcc);
		}
	}
	/* what is cached needs no leader; a write shows; the access time moves, but by a quiet handle */
	ANY_LANE(caller, k)
	want_range(caller, k, k * G4_PAGE_BYTES, G4_PAGE_BYTES, buffer + k * G4_PAGE_BYTES);
	assert_int_equal(g4_caller_write(caller, &file, 3, "new", 3), 3);
	memcpy(data + 3, "new", 3);
	g4_caller_read_each(caller, &file); /* brings in what the last round dropped */
	assert_int_equal(g4_caller_write(caller, &file, 0, data, 1), 1);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	const uint64_t before = caller->attr.atime_ns;
	assert_int_equal(open_at(caller, NULL, "/file", &quietly, &quiet), 0);
	g4_caller_read_each(caller, &quiet);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_memory_equal(buffer, data, G4_PAGE_BYTES * g4_wg_width(caller->wg));
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.atime_ns, before);
	g4_caller_read_each(caller, &file);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_true(caller->attr.atime_ns > before);
	assert_int_equal(g4_caller_close(caller, &quiet), 0);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	/* closed, not for reading, a directory */
	g4_caller_read_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(open_at(caller, NULL, "/file", &only_write, &file), 0);
	g4_caller_read_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(open_at(caller, NULL, "/", &to_read, &dir), 0);
	g4_caller_read_each(caller, &dir);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_ISDIR);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/* As g4d_unmap_each(). How many of them were the leader's. */
static uint32_t unmap_each(struct g4_caller *caller)
{
	uint32_t count = 0;

	g4_region(caller->wg, REGION_UNMAP, caller);
	ANY_LANE(caller, k)
	if (left[k]) {
		g4_caller_unmap(&callers, caller->lane[k].page.line, false);
		count++;
	}
	return count;
}

/* Fills the ways of a line's set with lines that somebody uses; `held` gets them. */
static void crowd(uint32_t line, uint32_t held[G4_CACHE_WAYS])
{
	struct g4_cache *cache = &rig.fs->cache;
	const uint64_t owner = UINT64_C(1) << 60;
	uint64_t index = 0;
	bool fresh;

	for (;; index++) { /* neighbouring pages are of neighbouring sets */
		held[0] = g4_cache_get(cache, owner, index, false, &fresh);
		g4_cache_filled(cache, held[0]);
		if (held[0] / G4_CACHE_WAYS == line / G4_CACHE_WAYS)
			break;
		g4_cache_put(cache, held[0]);
	}
	for (uint32_t k = 1; k < G4_CACHE_WAYS; k++) {
		held[k] = g4_cache_get(cache, owner, index + (uint64_t)k * cache->set_count, false, &fresh);
		g4_cache_filled(cache, held[k]);
	}
}

static void pages_of_all_lanes_are_mapped_and_counted(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const uint32_t limit = rig.fs->cache.pin_limit, width = g4_wg_width(caller->wg);
	uint32_t lines[FILE_PAGES], held[G4_CACHE_WAYS], good = 0;
	struct g4_caller_file file = make_file(caller, "/file", 20 * G4_PAGE_BYTES + 100);

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		if (round % 8 == 0) {
			assert_int_equal(g4_caller_fsync(caller, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		ANY_LANE(caller, k)
		caller->lane[k].offset = round % 5 == 4 && k % 2 ? UINT64_MAX : (round + k * 7) % 23 * 4000;
		g4_caller_map_each(caller, &file);
		uint32_t mapped = 0;
		ANY_LANE(caller, k)
		{
			const struct g4_caller_lane *lane = &caller->lane[k];
			const uint64_t at = g4_align_down(lane->offset, G4_PAGE_BYTES);
			if (lane->offset > 21 * G4_PAGE_BYTES) {
				assert_int_equal(lane->result, -G4_E_NXIO);
				continue;
			}
			assert_int_equal(lane->result, 0);
			assert_int_equal(lane->page.bytes, at < 20 * G4_PAGE_BYTES ? G4_PAGE_BYTES : 100);
			assert_memory_equal(lane->page.data, data + at, lane->page.bytes);
			mapped++;
		}
		assert_int_equal(rig.fs->cache.pins, mapped);
		assert_int_equal(unmap_each(caller), 0);
		assert_int_equal(rig.fs->cache.pins, 0);
	}
	/* with room for one more, one lane gets its page */
	for (uint32_t i = 0; i + 1 < limit; i++) {
		assert_int_equal(g4_caller_map(caller, &file, i % 20, true), 0);
		lines[i] = caller->page.line;
	}
	ANY_LANE(caller, k)
	caller->lane[k].offset = k * G4_PAGE_BYTES;
	g4_caller_map_each(caller, &file);
	ANY_LANE(caller, k)
	{
		assert_true(caller->lane[k].result == 0 || caller->lane[k].result == -G4_E_NOMEM);
		good += caller->lane[k].result == 0;
	}
	assert_int_equal(good, 1);
	assert_int_equal(rig.fs->cache.pins, limit);
	unmap_each(caller);
	for (uint32_t i = 0; i + 1 < limit; i++)
		g4_caller_unmap(&callers, lines[i], true);
	/* a line of the pool is the leader's to find and to give back */
	assert_int_equal(g4_caller_fsync(caller, &file), 0);
	assert_int_equal(g4_caller_map(caller, &file, 0, false), 0);
	g4_caller_unmap(&callers, caller->page.line, false);
	g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
	crowd(caller->page.line, held);
	g4_caller_map_each(caller, &file);
	assert_int_equal(caller->lane[0].result, 0);
	assert_true(caller->lane[0].page.line >= rig.fs->cache.overflow_first);
	assert_memory_equal(caller->lane[0].page.data, data, G4_PAGE_BYTES);
	assert_int_equal(rig.fs->cache.pins, width);
	assert_int_equal(unmap_each(caller), 1);
	for (uint32_t k = 0; k < G4_CACHE_WAYS; k++)
		g4_cache_put(&rig.fs->cache, held[k]);
	/* closed */
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_map_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(unmap_each(caller), 0);
	g4_caller_leave(caller);
}

/* ------------------------------------------------------------------ while others change it */

#define CUT_PAGES 8u

/* A directory and a file that one thread changes, and what others may see of them. */
static struct {
	uint32_t stop;
	struct g4_caller_file dir, file;
	uint64_t stays, moves, sub;
} busy;

struct looker {
	pthread_t thread;
	uint64_t wrong, alone;
	uint32_t number;
};

static const char *const busy_names[] = {"stays", "again", "here", "there", "comes and goes", "owned", "sub", "none"};

/* Whether that is what a lookup can give at some moment. */
static bool is_right(const struct g4_caller_lane *lane, const struct g4_attr *attr)
{
	const bool there = lane->result == 0;

	if (!there && lane->result != -G4_E_NOENT)
		return false;
	if (there && lane->wants_attr && attr->ino != lane->ino)
		return false;
	if (lane->name == busy_names[0] || lane->name == busy_names[1])
		return there && lane->ino == busy.stays && (!lane->wants_attr || attr->size == 77);
	if (lane->name == busy_names[2] || lane->name == busy_names[3])
		return !there || (lane->ino == busy.moves && (!lane->wants_attr || attr->size == 55));
	if (lane->name == busy_names[4]) /* the number may belong to any inode by the time its attributes are read */
		return !there || lane->ino != 0;
	if (lane->name == busy_names[5])
		return there && (!lane->wants_attr || attr->uid == attr->gid);
	if (lane->name == busy_names[6])
		return there && lane->ino == busy.sub && (!lane->wants_attr || g4_is_dir(attr->mode));
	return !there;
}

static void look(struct looker *l, struct g4_caller *caller, uint64_t *random)
{
	ANY_LANE(caller, k)
	want_name(caller, k, busy_names[rig_random(random) % 8], rig_random(random) % 2);
	g4_caller_lookup_each(caller, &busy.dir);
	ANY_LANE(caller, k)
	l->wrong += !is_right(&caller->lane[k], g4_caller_attr_of(caller, k));
	l->alone += caller->left == 0;
}

/* Pages are written whole, with one value: read under the lock, they are all of it. */
static void read_busy(struct looker *l, struct g4_caller *caller, uint64_t *random, uint8_t *to)
{
	ANY_LANE(caller, k)
	want_range(caller, k, rig_random(random) % CUT_PAGES * G4_PAGE_BYTES,
		   rig_random(random) % 2 ? G4_PAGE_BYTES : 48, to + k * G4_PAGE_BYTES);
	g4_caller_read_each(caller, &busy.file);
	ANY_LANE(caller, k)
	{
		const struct g4_caller_lane *lane = &caller->lane[k];
		const uint8_t *got = (const uint8_t *)lane->to;
		l->wrong += lane->result != 0 && lane->result != (int64_t)lane->bytes;
		for (int64_t i = 1; i < lane->result; i++)
			l->wrong += got[i] != got[0];
	}
	l->alone += caller->left == 0;
}

static void map_busy(struct looker *l, struct g4_caller *caller, uint64_t *random)
{
	ANY_LANE(caller, k)
	caller->lane[k].offset = rig_random(random) % CUT_PAGES * G4_PAGE_BYTES;
	g4_caller_map_each(caller, &busy.file);
	ANY_LANE(caller, k)
	{
		const struct g4_caller_lane *lane = &caller->lane[k];
		l->wrong += lane->result != 0 && lane->result != -G4_E_NXIO;
		l->wrong += lane->result == 0 && lane->page.bytes != G4_PAGE_BYTES;
	}
	ANY_LANE(caller, k)
	if (caller->lane[k].result == 0)
		g4_caller_unmap(&callers, caller->lane[k].page.line, true);
}

static void *look_around(void *argument)
{
	struct looker *l = (struct looker *)argument;
	uint8_t *to = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 64 * G4_PAGE_BYTES);
	uint64_t random = l->number + 1;

	if (!to)
		l->wrong++;
	while (to && !g4_load32_acq(&busy.stop)) {
		struct g4_caller *caller = g4_caller_enter(&callers, l->number);
		look(l, caller, &random);
		read_busy(l, caller, &random, to);
		map_busy(l, caller, &random);
		g4_caller_leave(caller);
	}
	free(to);
	return NULL;
}

/* One change of each kind. */
static void change(uint32_t round, uint64_t owned)
{
	struct g4_attr owner = {.uid = round, .gid = round};
	uint8_t page[G4_PAGE_BYTES];

	assert_int_equal(op_rename(&rig, busy.dir.ino, busy_names[2 + round % 2], busy.dir.ino,
				   busy_names[3 - round % 2], 0),
			 0);
	if (round % 2)
		assert_int_equal(op_unlink(&rig, busy.dir.ino, busy_names[4]), 0);
	else
		assert_int_equal(op_mknod(&rig, busy.dir.ino, busy_names[4], G4_S_IFREG | 0600, NULL), 0);
	assert_int_equal(op_setattr(&rig, owned, G4_SET_UID | G4_SET_GID, &owner), 0);
	memset(page, (int)(round & 0xff), sizeof(page));
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(op_write(&rig, busy.file.ino, 0, (round + k) % CUT_PAGES * G4_PAGE_BYTES, page,
					  sizeof(page), NULL),
				 0);
	if (round % 4 == 0)
		assert_int_equal(op_truncate(&rig, busy.file.ino, 0), 0);
	if (round % 4 == 1)
		assert_int_equal(op_truncate(&rig, busy.file.ino, CUT_PAGES * G4_PAGE_BYTES), 0);
	if (round % 32 == 2)
		assert_int_equal(op_fsync(&rig, busy.file.ino), 0);
}

static void all_lanes_see_what_others_change_in_whole(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct looker lookers[PLACES];
	struct g4_caller_file file;
	uint64_t dir, owned, alone = 0;

	(void)state;
	memset(&busy, 0, sizeof(busy));
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "busy", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, busy_names[6], 0755, &busy.sub), 0);
	file = make_file(caller, "/busy/stays", 77);
	busy.stays = file.ino;
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(op_link(&rig, busy.stays, dir, busy_names[1]), 0);
	file = make_file(caller, "/busy/here", 55);
	busy.moves = file.ino;
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(op_mknod(&rig, dir, busy_names[5], G4_S_IFREG | 0600, &owned), 0);
	busy.file = make_file(caller, "/file", 0);
	assert_int_equal(open_at(caller, NULL, "/busy", &to_read, &busy.dir), 0);
	g4_caller_leave(caller);
	for (uint32_t k = 0; k < PLACES; k++) {
		lookers[k] = (struct looker){.number = k};
		assert_int_equal(pthread_create(&lookers[k].thread, NULL, look_around, &lookers[k]), 0);
	}
	for (uint32_t round = 0; round < (rig_slow() ? 400 : 4000); round++)
		change(round, owned);
	g4_store32_rel(&busy.stop, 1);
	for (uint32_t k = 0; k < PLACES; k++) {
		pthread_join(lookers[k].thread, NULL);
		assert_int_equal(lookers[k].wrong, 0);
		alone += lookers[k].alone;
	}
	assert_true(alone > 0);
	caller = g4_caller_enter(&callers, 0);
	assert_int_equal(g4_caller_close(caller, &busy.dir), 0);
	assert_int_equal(g4_caller_close(caller, &busy.file), 0);
	g4_caller_leave(caller);
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
	struct peek_job *job = (struct peek_job *)g4_wg_scratch(caller->wg);
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
	g4_region(caller->wg, REGION_PEEK, job);
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
#define caller_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		caller_test(a_caller_makes_reads_and_writes_files),
		caller_test(what_cannot_be_opened_is_refused),
		caller_test(paths_start_where_the_session_says_or_at_a_directory),
		caller_test(a_caller_may_do_what_its_session_may),
		caller_test(a_listing_gives_every_name_once),
		caller_test(a_caller_makes_moves_and_removes_names),
		caller_test(a_mapped_page_shows_the_file),
		caller_test(a_mapped_page_is_not_read_when_the_file_changed),
		caller_test(as_many_pages_may_be_mapped_as_leave_others_room),
		caller_test(names_of_all_lanes_lead_where_plain_lookups_lead),
		caller_test(ranges_of_all_lanes_are_what_plain_reads_give),
		caller_test(pages_of_all_lanes_are_mapped_and_counted),
		caller_test(all_lanes_see_what_others_change_in_whole),
		caller_test(more_callers_than_places_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
