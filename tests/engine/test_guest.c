/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests: what warps of other kernels do on a GPU, here by threads with workgroups of their own. On `lanes` a guest has several
 * lanes, which look at caches side by side.
 */
#include "rig.h"

#include <pthread.h>

#include "engine/guest.h"
#include "engine/region.h"
#include "simt/simt_host.h"

#define PLACES 3u
#define THREADS 8u
#define FILE_PAGES 300u
#define FILE_BYTES (FILE_PAGES * G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg; /* of the rig's own operations */
static struct g4_wg *wgs[PLACES];
static struct g4_guest places[PLACES];
static struct g4_guests guests;
static uint8_t *data, *buffer;

/* ------------------------------------------------------------------ all lanes at cached pages */

#define REGION_PEEK (G4_REGION_USER + 100)
struct peek_job {
	const struct g4_guest_file *file;
	uint64_t first; /* lane i looks at page first + i */
	uint64_t found, wrong;
};

static void peek(struct g4_wg *by, struct peek_job *job)
{
	uint64_t page = job->first + g4_wg_lane(by);
	uint32_t line;
	const uint8_t *at = (const uint8_t *)g4_guest_peek(&guests, job->file, page, &line);
	bool wrong = at && memcmp(at, data + page * G4_PAGE_BYTES, G4_PAGE_BYTES) != 0;

	if (at)
		g4_guest_unpeek(&guests, line);
	uint64_t found = g4_reduce_sum(by, at != NULL), bad = g4_reduce_sum(by, wrong);
	if (g4_wg_lane(by) == 0) {
		job->found += found;
		job->wrong += bad;
	}
}

#define REGION_UNMAP (G4_REGION_USER + 101)

/* What all lanes of a kernel do in g4d_unmap_each(), but for what is left to the leader: left[] by lane. */
static bool left[64];

static void unmap_lanes(struct g4_wg *by, struct g4_guest *guest)
{
	const uint32_t lane = g4_wg_lane(by);

	left[lane] = guest->lane[lane].result == 0 && !g4_guest_unmap_lane(&guests, guest->lane[lane].page.line);
	const uint64_t count = g4_reduce_sum(by, guest->lane[lane].result == 0);
	if (lane == 0)
		g4_guest_unpin(&guests, (uint32_t)count);
}

/* The engine's regions, and those above. */
void g4_region_user(struct g4_wg *by, uint32_t kind, void *args)
{
	if (g4_engine_region(by, kind, args))
		return;
	if (kind == REGION_UNMAP)
		unmap_lanes(by, (struct g4_guest *)args);
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
	memset(&guests, 0, sizeof(guests));
	memset(places, 0, sizeof(places));
	guests.fs = rig.fs;
	guests.guest = places;
	guests.count = PLACES;
	guests.start = G4_NODE_ROOT;
	guests.cred.umask = 022;
	for (uint32_t i = 0; i < PLACES; i++) {
		wgs[i] = g4_wg_create(1 + i);
		assert_non_null(wgs[i]);
		places[i].guests = &guests;
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

static int open_at(struct g4_guest *guest, const struct g4_guest_file *at, const char *path,
		   const struct g4_guest_open *how, struct g4_guest_file *file)
{
	int rc = g4_guest_open(guest, at, path, strlen(path), how);

	*file = rc == 0 ? guest->file : (struct g4_guest_file){0};
	return rc;
}

static const struct g4_guest_open to_read = {.flags = G4_OPEN_READ};
static const struct g4_guest_open to_write = {.flags = G4_OPEN_READ | G4_OPEN_WRITE};
static const struct g4_guest_open to_create = {.flags = G4_OPEN_READ | G4_OPEN_WRITE, .mode = 0666, .create = true};

/* A file with the pattern in `data`; open. */
static struct g4_guest_file make_file(struct g4_guest *guest, const char *path, uint64_t bytes)
{
	struct g4_guest_file file;

	assert_int_equal(open_at(guest, NULL, path, &to_create, &file), 0);
	assert_int_equal(g4_guest_write(guest, &file, 0, data, bytes), bytes);
	return file;
}

static void expect_contents(struct g4_guest *guest, const struct g4_guest_file *file, const uint8_t *wanted,
			    uint64_t bytes)
{
	assert_int_equal(g4_guest_read(guest, file, 0, buffer, FILE_BYTES), bytes);
	assert_memory_equal(buffer, wanted, bytes);
}

/* ------------------------------------------------------------------ files and names */

static void a_guest_makes_reads_and_writes_files(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 2);
	struct g4_guest_file file, again;
	struct g4_attr attr;

	(void)state;
	assert_ptr_equal(guest, &places[2]);
	file = make_file(guest, "/file", 100000);
	expect_contents(guest, &file, data, 100000);
	assert_int_equal(g4_guest_read(guest, &file, 99990, buffer, 100), 10);
	assert_int_equal(g4_guest_read(guest, &file, 100000, buffer, 100), 0);
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_int_equal(guest->attr.size, 100000);
	assert_int_equal(guest->attr.mode, G4_S_IFREG | 0644); /* less the umask */
	assert_int_equal(g4_guest_fsync(guest, &file), 0);
	/* the same for everybody else */
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "file", &attr), 0);
	assert_int_equal(attr.ino, file.ino);
	assert_int_equal(open_at(guest, NULL, "file", &to_read, &again), 0);
	assert_int_equal(again.key, file.key);
	assert_int_equal(g4_guest_write(guest, &again, 0, data, 1), -G4_E_BADF);
	assert_int_equal(g4_guest_close(guest, &again), 0);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(g4_guest_close(guest, &file), -G4_E_BADF);
	g4_guest_leave(guest);
}

static void what_cannot_be_opened_is_refused(void **state)
{
	static const struct g4_guest_open exclusive = {
		.flags = G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_EXCL, .mode = 0644, .create = true};
	static const struct g4_guest_open not_followed = {.flags = G4_OPEN_READ, .nofollow = true};
	static const struct g4_guest_open directory = {.flags = G4_OPEN_READ | G4_OPEN_DIRECTORY};
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	char long_path[G4_PATH_MAX + 1], long_name[G4_NAME_MAX + 2];
	struct g4_guest_file file, none = {0};
	uint64_t ino;

	(void)state;
	memset(long_path, 'x', sizeof(long_path));
	long_path[G4_PATH_MAX] = 0;
	memset(long_name, 'y', sizeof(long_name));
	long_name[G4_NAME_MAX + 1] = 0;
	file = make_file(guest, "/file", 10);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &ino), 0);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "file", &ino), 0);
	assert_int_equal(open_at(guest, NULL, "", &to_read, &file), -G4_E_NOENT);
	assert_int_equal(open_at(guest, NULL, "", &to_create, &file), -G4_E_NOENT);
	assert_int_equal(open_at(guest, NULL, "/none", &to_read, &file), -G4_E_NOENT);
	assert_int_equal(open_at(guest, NULL, "/none/x", &to_create, &file), -G4_E_NOENT);
	assert_int_equal(open_at(guest, NULL, "/file/x", &to_create, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(guest, NULL, "/file/", &to_read, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(guest, NULL, "/file", &directory, &file), -G4_E_NOTDIR);
	assert_int_equal(open_at(guest, NULL, "/file", &exclusive, &file), -G4_E_EXIST);
	assert_int_equal(open_at(guest, NULL, "/dir", &to_write, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(guest, NULL, "/dir", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(guest, NULL, "/dir/", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(guest, NULL, "/dir/..", &to_create, &file), -G4_E_ISDIR);
	assert_int_equal(open_at(guest, NULL, "/dir/.", &exclusive, &file), -G4_E_EXIST);
	assert_int_equal(open_at(guest, NULL, "/link", &not_followed, &file), -G4_E_LOOP);
	assert_int_equal(open_at(guest, NULL, "/link", &to_create, &file), -G4_E_LOOP);
	assert_int_equal(open_at(guest, NULL, long_path, &to_read, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(guest, NULL, long_name, &to_read, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(guest, NULL, long_name, &to_create, &file), -G4_E_NAMETOOLONG);
	assert_int_equal(open_at(guest, NULL, "/link", &to_read, &file), 0);
	expect_contents(guest, &file, data, 10);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	/* no file at all */
	assert_int_equal(g4_guest_read(guest, &none, 0, buffer, 1), -G4_E_BADF);
	assert_int_equal(g4_guest_write(guest, &none, 0, buffer, 1), -G4_E_BADF);
	assert_int_equal(g4_guest_fstat(guest, &none), -G4_E_BADF);
	assert_int_equal(g4_guest_fsync(guest, &none), -G4_E_BADF);
	assert_int_equal(g4_guest_close(guest, &none), -G4_E_BADF);
	assert_int_equal(g4_guest_lookup(guest, &none, "x", 1), -G4_E_BADF);
	assert_int_equal(g4_guest_readdir(guest, &none, 0, buffer, 4096), -G4_E_BADF);
	assert_int_equal(g4_guest_map(guest, &none, 0, true), -G4_E_BADF);
	/* nothing of what was refused stayed open */
	for (uint32_t i = 0; i < rig.fs->cores.count; i++)
		assert_int_equal(g4_core_of(rig.fs, i)->opens, 0);
	g4_guest_leave(guest);
}

static void paths_start_where_the_session_says_or_at_a_directory(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	struct g4_guest_file dir, file, top;
	struct g4_attr root;
	uint64_t ino, inner;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "home", 0755, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "inner", 0755, &inner), 0);
	guests.start = ino;
	file = make_file(guest, "here", 20);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	file = make_file(guest, "inner/there", 30);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(open_at(guest, NULL, "inner", &to_read, &dir), 0);
	assert_int_equal(open_at(guest, &dir, "there", &to_read, &file), 0);
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_int_equal(guest->attr.size, 30);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(g4_guest_stat(guest, &dir, "../here", 7, false), 0);
	assert_int_equal(guest->attr.size, 20);
	assert_int_equal(g4_guest_stat(guest, NULL, "/home/here", 10, false), 0);
	assert_int_equal(g4_guest_stat(guest, NULL, "/here", 5, false), -G4_E_NOENT);
	assert_int_equal(g4_guest_lookup(guest, &dir, "there and more", 5), 0);
	assert_int_equal(guest->attr.size, 30);
	assert_int_equal(g4_guest_lookup(guest, &dir, "there and more", 6), -G4_E_NOENT);
	assert_int_equal(open_at(guest, NULL, "/", &to_read, &top), 0);
	assert_int_equal(op_getattr(&rig, G4_NODE_ROOT, &root), 0);
	assert_int_equal(top.ino, root.ino);
	assert_int_equal(g4_guest_close(guest, &top), 0);
	assert_int_equal(g4_guest_close(guest, &dir), 0);
	g4_guest_leave(guest);
}

static void a_guest_may_do_what_its_session_may(void **state)
{
	static const struct g4_guest_open quietly = {.flags = G4_OPEN_READ | G4_OPEN_NOATIME, .noatime = true};
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	struct g4_guest_file file;
	struct g4_attr owner = {.uid = 1000, .gid = 1000};
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "locked", 0700, &ino), 0);
	assert_int_equal(op_mknod(&rig, ino, "x", G4_S_IFREG | 0666, &ino), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "private", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "public", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "mine", 0700, &ino), 0);
	assert_int_equal(op_setattr(&rig, ino, G4_SET_UID | G4_SET_GID, &owner), 0);
	guests.cred.uid = guests.cred.gid = 1000;
	assert_int_equal(open_at(guest, NULL, "/locked/x", &to_read, &file), -G4_E_ACCES);
	assert_int_equal(open_at(guest, NULL, "/private", &to_read, &file), -G4_E_ACCES);
	assert_int_equal(open_at(guest, NULL, "/public", &to_write, &file), -G4_E_ACCES);
	assert_int_equal(open_at(guest, NULL, "/new", &to_create, &file), -G4_E_ACCES);
	assert_int_equal(open_at(guest, NULL, "/public", &quietly, &file), -G4_E_PERM);
	assert_int_equal(open_at(guest, NULL, "/public", &to_read, &file), 0);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(open_at(guest, NULL, "/mine/new", &to_create, &file), 0);
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_int_equal(guest->attr.uid, 1000);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	g4_guest_leave(guest);
}

static void a_listing_gives_every_name_once(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	struct g4_guest_file dir, unreadable;
	static const struct g4_guest_open only_search = {.flags = G4_OPEN_DIRECTORY};
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
	assert_int_equal(open_at(guest, NULL, "dir", &to_read, &dir), 0);
	for (uint64_t room = 40; room <= 40000; room *= 10) {
		uint64_t cookie = 0, count = 0;
		int64_t bytes;
		memset(seen, 0, sizeof(seen));
		while ((bytes = g4_guest_readdir(guest, &dir, cookie, buffer, room)) > 0) {
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
			assert_true(guest->cookie > cookie);
			cookie = guest->cookie;
		}
		assert_int_equal(bytes, 0);
		assert_int_equal(guest->cookie, cookie);
		assert_int_equal(count, names);
	}
	assert_int_equal(g4_guest_readdir(guest, &dir, 0, buffer, 30), -G4_E_RANGE);
	assert_int_equal(open_at(guest, NULL, "dir", &only_search, &unreadable), 0);
	assert_int_equal(g4_guest_readdir(guest, &unreadable, 0, buffer, 4096), -G4_E_BADF);
	assert_int_equal(g4_guest_close(guest, &unreadable), 0);
	assert_int_equal(g4_guest_close(guest, &dir), 0);
	g4_guest_leave(guest);
}

static struct g4_guest_path at_path(const struct g4_guest_file *at, const char *text)
{
	return (struct g4_guest_path){at, text, strlen(text)};
}

static int make_dir(struct g4_guest *guest, const char *text)
{
	const struct g4_guest_path path = at_path(NULL, text);
	return g4_guest_mkdir(guest, &path, 01777);
}

static int remove_dir(struct g4_guest *guest, const char *text)
{
	const struct g4_guest_path path = at_path(NULL, text);
	return g4_guest_rmdir(guest, &path);
}

static int remove_name(struct g4_guest *guest, const char *text)
{
	const struct g4_guest_path path = at_path(NULL, text);
	return g4_guest_unlink(guest, &path);
}

static int make_link(struct g4_guest *guest, const char *target, const char *text)
{
	const struct g4_guest_path path = at_path(NULL, text);
	return g4_guest_symlink(guest, target, strlen(target), &path);
}

static int move(struct g4_guest *guest, const char *from, const char *to, uint32_t flags)
{
	const struct g4_guest_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_guest_rename(guest, &old, &path, flags);
}

static int give_name(struct g4_guest *guest, const char *from, const char *to, bool follow)
{
	const struct g4_guest_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_guest_link(guest, &old, &path, follow);
}

/* The inode that a path leads to, a link itself; 0: none. */
static uint64_t node_of(struct g4_guest *guest, const char *path)
{
	return g4_guest_stat(guest, NULL, path, strlen(path), true) == 0 ? guest->attr.ino : 0;
}

static void a_guest_makes_moves_and_removes_names(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	char long_name[G4_NAME_MAX + 2], long_path[G4_PATH_MAX + 1];
	struct g4_guest_file file, dir;

	(void)state;
	memset(long_name, 'n', sizeof(long_name));
	long_name[G4_NAME_MAX + 1] = 0;
	memset(long_path, 'p', sizeof(long_path));
	long_path[G4_PATH_MAX] = 0;
	assert_int_equal(make_dir(guest, "/a"), 0);
	assert_int_equal(g4_guest_stat(guest, NULL, "/a", 2, false), 0);
	assert_int_equal(guest->attr.mode, G4_S_IFDIR | 01755); /* less the umask */
	assert_int_equal(make_dir(guest, "a/b///"), 0);
	assert_int_equal(make_dir(guest, "/a/b"), -G4_E_EXIST);
	assert_int_equal(make_dir(guest, "/"), -G4_E_EXIST);
	assert_int_equal(make_dir(guest, "/a/."), -G4_E_EXIST);
	assert_int_equal(make_dir(guest, "/a/.."), -G4_E_EXIST);
	assert_int_equal(make_dir(guest, ""), -G4_E_NOENT);
	assert_int_equal(make_dir(guest, "/none/x"), -G4_E_NOENT);
	assert_int_equal(make_dir(guest, long_name), -G4_E_NAMETOOLONG);
	assert_int_equal(make_dir(guest, long_path), -G4_E_NAMETOOLONG);
	file = make_file(guest, "/a/file", 100);
	assert_int_equal(make_dir(guest, "/a/file/x"), -G4_E_NOTDIR);

	assert_int_equal(make_link(guest, "file", "/a/link"), 0);
	assert_int_equal(make_link(guest, "file", "/a/link"), -G4_E_EXIST);
	assert_int_equal(make_link(guest, "file", "/a/new/"), -G4_E_NOENT);
	assert_int_equal(make_link(guest, "", "/a/new"), -G4_E_NOENT);
	assert_int_equal(make_link(guest, long_path, "/a/new"), -G4_E_NAMETOOLONG);
	assert_int_equal(g4_guest_stat(guest, NULL, "/a/link", 7, false), 0);
	assert_int_equal(guest->attr.ino, file.ino);
	assert_int_equal(give_name(guest, "/a/link", "/followed", true), 0);
	assert_int_equal(node_of(guest, "/followed"), file.ino);
	assert_int_equal(give_name(guest, "/a/link", "/itself", false), 0);
	assert_int_equal(node_of(guest, "/itself"), node_of(guest, "/a/link"));
	assert_int_equal(give_name(guest, "/a/file", "/followed", false), -G4_E_EXIST);
	assert_int_equal(give_name(guest, "/a/file", "/followed/", false), -G4_E_EXIST);
	assert_int_equal(give_name(guest, "/a/none", "/x", false), -G4_E_NOENT);
	assert_int_equal(give_name(guest, "/a", "/x", false), -G4_E_PERM);

	assert_int_equal(move(guest, "/followed", "/a/b/moved", 0), 0);
	assert_int_equal(node_of(guest, "/followed"), 0);
	assert_int_equal(node_of(guest, "/a/b/moved"), file.ino);
	assert_int_equal(move(guest, "/a/b/moved", "/itself", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(guest, "/a/b/moved", "/itself", G4_RENAME_EXCHANGE), 0);
	assert_int_equal(node_of(guest, "/itself"), file.ino);
	assert_int_equal(move(guest, "/itself", "/x", 3), -G4_E_INVAL);
	assert_int_equal(move(guest, "/itself", "/x", 8), -G4_E_INVAL);
	assert_int_equal(move(guest, "/a", "/a/b/c", 0), -G4_E_INVAL);
	assert_int_equal(move(guest, "/itself/", "/x", 0), -G4_E_NOTDIR);
	assert_int_equal(move(guest, "/itself", "/x/", 0), -G4_E_NOTDIR);
	assert_int_equal(move(guest, "/a/", "/itself/", G4_RENAME_EXCHANGE), -G4_E_NOTDIR);
	assert_int_equal(move(guest, "/none", "/x", 0), -G4_E_NOENT);
	assert_int_equal(move(guest, "/a/.", "/x", 0), -G4_E_BUSY);
	assert_int_equal(move(guest, "/a/b", "/", 0), -G4_E_BUSY);
	assert_int_equal(move(guest, "/a/b", "/a/..", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(guest, "/a/b/", "/b/", 0), 0);
	assert_int_equal(open_at(guest, NULL, "/a", &to_read, &dir), 0);
	const struct g4_guest_path relative = at_path(&dir, "../b"), back = at_path(&dir, "b");
	assert_int_equal(g4_guest_rename(guest, &relative, &back, 0), 0);
	assert_int_equal(g4_guest_close(guest, &dir), 0);

	assert_int_equal(remove_name(guest, "/a"), -G4_E_ISDIR);
	assert_int_equal(remove_name(guest, "/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(guest, "/a/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(guest, "/itself/"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(guest, "/none"), -G4_E_NOENT);
	assert_int_equal(remove_name(guest, "/itself"), 0);
	assert_int_equal(remove_name(guest, "/itself"), -G4_E_NOENT);
	assert_int_equal(remove_dir(guest, "/a"), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(guest, "/"), -G4_E_BUSY);
	assert_int_equal(remove_dir(guest, "/a/."), -G4_E_INVAL);
	assert_int_equal(remove_dir(guest, "/a/.."), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(guest, "/a/file"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(guest, "/a/b/moved"), 0);
	assert_int_equal(remove_dir(guest, "/a/b/"), 0);

	assert_int_equal(g4_guest_truncate(guest, &file, 10), 0);
	expect_contents(guest, &file, data, 10);
	assert_int_equal(g4_guest_truncate(guest, &file, 30000), 0);
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_int_equal(guest->attr.size, 30000);
	assert_int_equal(g4_guest_truncate(guest, &file, UINT64_MAX), -G4_E_FBIG);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(g4_guest_truncate(guest, &file, 0), -G4_E_BADF);
	assert_int_equal(open_at(guest, NULL, "/a/file", &to_read, &file), 0);
	assert_int_equal(g4_guest_truncate(guest, &file, 0), -G4_E_INVAL);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	guests.cred.uid = guests.cred.gid = 1000;
	assert_int_equal(make_dir(guest, "/mine"), -G4_E_ACCES);
	assert_int_equal(remove_name(guest, "/a/file"), -G4_E_ACCES);
	assert_int_equal(move(guest, "/a/file", "/x", 0), -G4_E_ACCES);
	g4_guest_leave(guest);
}

/* ------------------------------------------------------------------ mapped pages */

static void a_mapped_page_shows_the_file(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	static const uint8_t zeros[G4_PAGE_BYTES];
	struct g4_guest_file file, tiny, readable, dir;
	uint32_t line;

	(void)state;
	file = make_file(guest, "/file", 10 * G4_PAGE_BYTES + 100);
	for (uint32_t round = 0; round < 2; round++) { /* dirty in the cache, then clean */
		for (uint64_t page = 0; page < 11; page++) {
			uint32_t bytes = page < 10 ? G4_PAGE_BYTES : 100;
			assert_int_equal(g4_guest_map(guest, &file, page, true), 0);
			assert_int_equal(guest->page.bytes, bytes);
			assert_memory_equal(guest->page.data, data + page * G4_PAGE_BYTES, bytes);
			assert_memory_equal((const uint8_t *)guest->page.data + bytes, zeros, G4_PAGE_BYTES - bytes);
			g4_guest_unmap(&guests, guest->page.line, true);
		}
		assert_int_equal(g4_guest_map(guest, &file, 11, true), -G4_E_NXIO);
		assert_int_equal(g4_guest_map(guest, &file, UINT64_MAX >> G4_PAGE_SHIFT, true), -G4_E_NXIO);
		assert_int_equal(op_sync(&rig), 0);
	}
	/* a write through the cache shows */
	assert_int_equal(g4_guest_map(guest, &file, 3, false), 0);
	assert_int_equal(g4_guest_write(guest, &file, 3 * G4_PAGE_BYTES, "new", 3), 3);
	assert_memory_equal(guest->page.data, "new", 3);
	g4_guest_unmap(&guests, guest->page.line, false);
	/* a hole, a file in its inode, a file that is only written, a directory */
	assert_int_equal(op_truncate(&rig, file.ino, 40 * G4_PAGE_BYTES), 0);
	assert_int_equal(g4_guest_map(guest, &file, 30, true), 0);
	assert_memory_equal(guest->page.data, zeros, G4_PAGE_BYTES);
	g4_guest_unmap(&guests, guest->page.line, true);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(g4_guest_map(guest, &file, 0, true), -G4_E_BADF);
	tiny = make_file(guest, "/tiny", 60);
	assert_int_equal(g4_guest_fsync(guest, &tiny), 0);
	g4_cache_drop_range(&rig.fs->cache, tiny.key, 0, UINT64_MAX);
	assert_int_equal(g4_guest_map(guest, &tiny, 0, true), 0);
	assert_memory_equal(guest->page.data, data, 60);
	g4_guest_unmap(&guests, guest->page.line, true);
	assert_int_equal(g4_guest_close(guest, &tiny), 0);
	static const struct g4_guest_open only_write = {.flags = G4_OPEN_WRITE};
	assert_int_equal(open_at(guest, NULL, "/tiny", &only_write, &tiny), 0);
	assert_int_equal(g4_guest_map(guest, &tiny, 0, true), -G4_E_BADF);
	assert_int_equal(g4_guest_write(guest, &tiny, 0, data, 60), 60); /* its page is in the cache now */
	assert_null(g4_guest_peek(&guests, &tiny, 0, &line));
	assert_int_equal(open_at(guest, NULL, "/tiny", &to_read, &readable), 0);
	assert_non_null(g4_guest_peek(&guests, &readable, 0, &line));
	g4_guest_unpeek(&guests, line);
	assert_int_equal(g4_guest_close(guest, &readable), 0);
	assert_int_equal(g4_guest_close(guest, &tiny), 0);
	assert_int_equal(open_at(guest, NULL, "/", &to_read, &dir), 0);
	assert_int_equal(g4_guest_map(guest, &dir, 0, true), -G4_E_ISDIR);
	assert_int_equal(g4_guest_close(guest, &dir), 0);
	g4_guest_leave(guest);
}

/*
 * Pages of one set of the cache, more than it has ways, so that some lie in lines of the pool. While they are mapped the file
 * changes in every way that drops pages; what is read then is what the file holds, never what is still mapped.
 */
static void a_mapped_page_is_not_read_when_the_file_changed(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	const uint64_t apart = rig.fs->cache.set_count;
	uint8_t *wanted = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	uint32_t lines[FILE_PAGES], count;
	struct g4_guest_file file;

	(void)state;
	assert_non_null(wanted);
	assert_true(FILE_PAGES / apart >= 2);
	file = make_file(guest, "/file", FILE_BYTES);
	memcpy(wanted, data, FILE_BYTES);
	for (uint32_t round = 0; round < 4; round++) {
		assert_int_equal(g4_guest_fsync(guest, &file), 0);
		for (count = 0; count < 60; count++) {
			uint64_t page = count % 3 * apart + count / 3;
			assert_int_equal(g4_guest_map(guest, &file, page, true), 0);
			lines[count] = guest->page.line;
		}
		if (round == 0) { /* aligned and large: past the cache */
			for (uint64_t i = 0; i < FILE_BYTES; i++)
				wanted[i] = (uint8_t)~wanted[i];
			assert_int_equal(g4_guest_write(guest, &file, 0, wanted, FILE_BYTES), FILE_BYTES);
		} else if (round == 1) {
			assert_int_equal(op_truncate(&rig, file.ino, 5000), 0);
			assert_int_equal(op_truncate(&rig, file.ino, FILE_BYTES), 0);
			memset(wanted + 5000, 0, FILE_BYTES - 5000);
		} else if (round == 2) {
			assert_int_equal(g4_guest_write(guest, &file, 0, data, FILE_BYTES), FILE_BYTES);
			memcpy(wanted, data, FILE_BYTES);
			assert_int_equal(op_fallocate(&rig, file.ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0,
						      200 * G4_PAGE_BYTES),
					 0);
			memset(wanted, 0, 200 * G4_PAGE_BYTES);
		} else { /* dirty pages that are cut off */
			assert_int_equal(g4_guest_write(guest, &file, 100, data, 5 * G4_PAGE_BYTES), 5 * G4_PAGE_BYTES);
			assert_int_equal(op_truncate(&rig, file.ino, 0), 0);
			assert_int_equal(op_truncate(&rig, file.ino, FILE_BYTES), 0);
			memset(wanted, 0, FILE_BYTES);
		}
		expect_contents(guest, &file, wanted, FILE_BYTES);
		for (uint64_t page = 0; page < FILE_PAGES; page++) {
			assert_int_equal(g4_guest_map(guest, &file, page, false), 0);
			assert_memory_equal(guest->page.data, wanted + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
			g4_guest_unmap(&guests, guest->page.line, false);
		}
		while (count > 0)
			g4_guest_unmap(&guests, lines[--count], true);
		expect_contents(guest, &file, wanted, FILE_BYTES);
	}
	/* and one that is deleted while it is mapped */
	assert_int_equal(g4_guest_map(guest, &file, 7, true), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	g4_guest_unmap(&guests, guest->page.line, true);
	free(wanted);
	g4_guest_leave(guest);
}

static void as_many_pages_may_be_mapped_as_leave_others_room(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	const uint32_t limit = rig.fs->cache.pin_limit;
	struct g4_guest_file file = make_file(guest, "/file", FILE_BYTES), other;
	uint32_t *lines = (uint32_t *)calloc(limit, sizeof(*lines)), count;
	char name[16];

	(void)state;
	assert_non_null(lines);
	assert_true(limit > 0 && limit < FILE_PAGES);
	for (count = 0; count < limit; count++) {
		assert_int_equal(g4_guest_map(guest, &file, count, true), 0);
		lines[count] = guest->page.line;
	}
	assert_int_equal(g4_guest_map(guest, &file, 0, true), -G4_E_NOMEM);
	/* those that the guest keeps for a moment do not count */
	assert_int_equal(g4_guest_map(guest, &file, limit + 1, false), 0);
	g4_guest_unmap(&guests, guest->page.line, false);
	/* everything else goes on */
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "/other%u", i);
		other = make_file(guest, name, 20 * G4_PAGE_BYTES);
		assert_int_equal(g4_guest_close(guest, &other), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	expect_contents(guest, &file, data, FILE_BYTES);
	g4_guest_unmap(&guests, lines[--count], true);
	assert_int_equal(g4_guest_map(guest, &file, FILE_PAGES, true), -G4_E_NXIO);
	assert_int_equal(g4_guest_map(guest, &file, 5, true), 0);
	lines[count++] = guest->page.line;
	while (count > 0)
		g4_guest_unmap(&guests, lines[--count], true);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	free(lines);
	g4_guest_leave(guest);
}

/* ------------------------------------------------------------------ each lane its own */

#define ANY_LANE(guest, k) for (uint32_t k = 0; k < g4_wg_width((guest)->wg); k++)

static uint64_t all_lanes(const struct g4_guest *guest)
{
	return UINT64_MAX >> (64 - g4_wg_width(guest->wg));
}

static void want_name(struct g4_guest *guest, uint32_t lane, const char *name, bool attr)
{
	guest->lane[lane].name = name;
	guest->lane[lane].bytes = strlen(name);
	guest->lane[lane].wants_attr = attr;
}

static void want_range(struct g4_guest *guest, uint32_t lane, uint64_t offset, uint64_t bytes, void *to)
{
	guest->lane[lane].to = to;
	guest->lane[lane].bytes = bytes;
	guest->lane[lane].offset = offset;
}

/* What a lane got is what the plain call gives. */
static void expect_plain_lookup(struct g4_guest *guest, const struct g4_guest_file *dir, uint32_t lane)
{
	const struct g4_guest_lane got = guest->lane[lane];
	const struct g4_attr attr = *g4_guest_attr_of(guest, lane);

	if (got.bytes == 0) {
		assert_int_equal(got.result, 0);
		return;
	}
	assert_int_equal(got.result, g4_guest_lookup(guest, dir, got.name, got.bytes));
	if (got.result < 0)
		return;
	assert_int_equal(got.ino, guest->attr.ino);
	if (got.wants_attr)
		assert_memory_equal(&attr, &guest->attr, sizeof(attr));
}

static void names_of_all_lanes_lead_where_plain_lookups_lead(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	char long_name[101] = "", too_long[G4_NAME_MAX + 2] = "";
	const char *names[] = {"one",  "two",	  "three", "again",  "sub",
			       "link", long_name, "none",  "four",   "",
			       ".",    "..",	  "a/b",   too_long, "sub",
			       "one",  "twofo",	  "tw",	   "two",    "exactly 32 bytes of name, not 33",
			       "z"};
	const uint32_t count = sizeof(names) / sizeof(names[0]);
	struct g4_guest_file dir, file, none = {0};
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
		file = make_file(guest, path, 1 + i * 100);
		assert_int_equal(g4_guest_close(guest, &file), 0);
	}
	struct g4_attr one;
	assert_int_equal(op_lookup(&rig, ino, "one", &one), 0);
	assert_int_equal(op_link(&rig, one.ino, ino, "again"), 0);
	assert_int_equal(open_at(guest, NULL, "/dir", &to_read, &dir), 0);
	for (uint32_t round = 0; round < 4 * count; round++) {
		ANY_LANE(guest, k)
		want_name(guest, k, names[(round + k * (1 + round / count)) % count], round % 3 != 0);
		g4_guest_lookup_each(guest, &dir);
		ANY_LANE(guest, k)
		expect_plain_lookup(guest, &dir, k);
	}
	/* a name that everybody knows needs no leader, nor does one inode in every lane */
	ANY_LANE(guest, k)
	want_name(guest, k, k % 2 ? "one" : "again", true);
	g4_guest_lookup_each(guest, &dir);
	assert_int_equal(guest->done, all_lanes(guest));
	assert_int_equal(guest->left, 0);
	ANY_LANE(guest, k)
	expect_plain_lookup(guest, &dir, k);
	/* it goes: nobody finds it */
	assert_int_equal(op_unlink(&rig, ino, "one"), 0);
	assert_int_equal(op_rename(&rig, ino, "two", ino, "again", 0), 0);
	for (uint32_t attr = 0; attr < 2; attr++) {
		ANY_LANE(guest, k)
		want_name(guest, k, k % 2 ? "one" : "again", attr);
		g4_guest_lookup_each(guest, &dir);
		ANY_LANE(guest, k)
		expect_plain_lookup(guest, &dir, k);
	}
	/* not a directory, not open, not allowed */
	assert_int_equal(open_at(guest, NULL, "/dir/three", &to_read, &file), 0);
	ANY_LANE(guest, k)
	want_name(guest, k, "three", true);
	g4_guest_lookup_each(guest, &file);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_NOTDIR);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	g4_guest_lookup_each(guest, &none);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_BADF);
	struct g4_attr locked = {.mode = 0700};
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &locked), 0);
	guests.cred.uid = guests.cred.gid = 1000;
	g4_guest_lookup_each(guest, &dir);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_ACCES);
	assert_int_equal(g4_guest_close(guest, &dir), 0);
	g4_guest_leave(guest);
}

/* Ranges like those of programs: records, pages, pieces over page ends, behind the end; from all lanes. */
static void ranges_of_all_lanes_are_what_plain_reads_give(void **state)
{
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
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
	struct g4_guest_file file, quiet, dir;
	static const struct g4_guest_open only_write = {.flags = G4_OPEN_WRITE};
	static const struct g4_guest_open quietly = {.flags = G4_OPEN_READ | G4_OPEN_NOATIME, .noatime = true};

	(void)state;
	file = make_file(guest, "/file", size);
	for (uint32_t round = 0; round < 6 * count; round++) {
		if (round % 10 == 0) { /* nothing of it is in the cache */
			assert_int_equal(g4_guest_fsync(guest, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		memset(buffer, 0xcc, (size_t)room * (g4_wg_width(guest->wg) + 1));
		ANY_LANE(guest, k)
		{
			const uint64_t *range = ranges[(round * 5 + k) % count];
			want_range(guest, k, range[0], range[1], buffer + (uint64_t)k * room + round % 17);
		}
		g4_guest_read_each(guest, &file);
		ANY_LANE(guest, k)
		{
			const struct g4_guest_lane *lane = &guest->lane[k];
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
	ANY_LANE(guest, k)
	want_range(guest, k, k * G4_PAGE_BYTES, G4_PAGE_BYTES, buffer + k * G4_PAGE_BYTES);
	assert_int_equal(g4_guest_write(guest, &file, 3, "new", 3), 3);
	memcpy(data + 3, "new", 3);
	g4_guest_read_each(guest, &file); /* brings in what the last round dropped */
	assert_int_equal(g4_guest_write(guest, &file, 0, data, 1), 1);
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	const uint64_t before = guest->attr.atime_ns;
	assert_int_equal(open_at(guest, NULL, "/file", &quietly, &quiet), 0);
	g4_guest_read_each(guest, &quiet);
	assert_int_equal(guest->done, all_lanes(guest));
	assert_memory_equal(buffer, data, G4_PAGE_BYTES * g4_wg_width(guest->wg));
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_int_equal(guest->attr.atime_ns, before);
	g4_guest_read_each(guest, &file);
	assert_int_equal(guest->done, all_lanes(guest));
	assert_int_equal(g4_guest_fstat(guest, &file), 0);
	assert_true(guest->attr.atime_ns > before);
	assert_int_equal(g4_guest_close(guest, &quiet), 0);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	/* closed, not for reading, a directory */
	g4_guest_read_each(guest, &file);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_BADF);
	assert_int_equal(open_at(guest, NULL, "/file", &only_write, &file), 0);
	g4_guest_read_each(guest, &file);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_BADF);
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(open_at(guest, NULL, "/", &to_read, &dir), 0);
	g4_guest_read_each(guest, &dir);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_ISDIR);
	assert_int_equal(g4_guest_close(guest, &dir), 0);
	g4_guest_leave(guest);
}

/* As g4d_unmap_each(). How many of them were the leader's. */
static uint32_t unmap_each(struct g4_guest *guest)
{
	uint32_t count = 0;

	g4_region(guest->wg, REGION_UNMAP, guest);
	ANY_LANE(guest, k)
	if (left[k]) {
		g4_guest_unmap(&guests, guest->lane[k].page.line, false);
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
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	const uint32_t limit = rig.fs->cache.pin_limit, width = g4_wg_width(guest->wg);
	uint32_t lines[FILE_PAGES], held[G4_CACHE_WAYS], good = 0;
	struct g4_guest_file file = make_file(guest, "/file", 20 * G4_PAGE_BYTES + 100);

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		if (round % 8 == 0) {
			assert_int_equal(g4_guest_fsync(guest, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		ANY_LANE(guest, k)
		guest->lane[k].offset = round % 5 == 4 && k % 2 ? UINT64_MAX : (round + k * 7) % 23 * 4000;
		g4_guest_map_each(guest, &file);
		uint32_t mapped = 0;
		ANY_LANE(guest, k)
		{
			const struct g4_guest_lane *lane = &guest->lane[k];
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
		assert_int_equal(unmap_each(guest), 0);
		assert_int_equal(rig.fs->cache.pins, 0);
	}
	/* with room for one more, one lane gets its page */
	for (uint32_t i = 0; i + 1 < limit; i++) {
		assert_int_equal(g4_guest_map(guest, &file, i % 20, true), 0);
		lines[i] = guest->page.line;
	}
	ANY_LANE(guest, k)
	guest->lane[k].offset = k * G4_PAGE_BYTES;
	g4_guest_map_each(guest, &file);
	ANY_LANE(guest, k)
	{
		assert_true(guest->lane[k].result == 0 || guest->lane[k].result == -G4_E_NOMEM);
		good += guest->lane[k].result == 0;
	}
	assert_int_equal(good, 1);
	assert_int_equal(rig.fs->cache.pins, limit);
	unmap_each(guest);
	for (uint32_t i = 0; i + 1 < limit; i++)
		g4_guest_unmap(&guests, lines[i], true);
	/* a line of the pool is the leader's to find and to give back */
	assert_int_equal(g4_guest_fsync(guest, &file), 0);
	assert_int_equal(g4_guest_map(guest, &file, 0, false), 0);
	g4_guest_unmap(&guests, guest->page.line, false);
	g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
	crowd(guest->page.line, held);
	g4_guest_map_each(guest, &file);
	assert_int_equal(guest->lane[0].result, 0);
	assert_true(guest->lane[0].page.line >= rig.fs->cache.overflow_first);
	assert_memory_equal(guest->lane[0].page.data, data, G4_PAGE_BYTES);
	assert_int_equal(rig.fs->cache.pins, width);
	assert_int_equal(unmap_each(guest), 1);
	for (uint32_t k = 0; k < G4_CACHE_WAYS; k++)
		g4_cache_put(&rig.fs->cache, held[k]);
	/* closed */
	assert_int_equal(g4_guest_close(guest, &file), 0);
	g4_guest_map_each(guest, &file);
	ANY_LANE(guest, k)
	assert_int_equal(guest->lane[k].result, -G4_E_BADF);
	assert_int_equal(unmap_each(guest), 0);
	g4_guest_leave(guest);
}

/* ------------------------------------------------------------------ while others change it */

#define CUT_PAGES 8u

/* A directory and a file that one thread changes, and what others may see of them. */
static struct {
	uint32_t stop;
	struct g4_guest_file dir, file;
	uint64_t stays, moves, sub;
} busy;

struct looker {
	pthread_t thread;
	uint64_t wrong, alone;
	uint32_t number;
};

static const char *const busy_names[] = {"stays", "again", "here", "there", "comes and goes", "owned", "sub", "none"};

/* Whether that is what a lookup can give at some moment. */
static bool is_right(const struct g4_guest_lane *lane, const struct g4_attr *attr)
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

static void look(struct looker *l, struct g4_guest *guest, uint64_t *random)
{
	ANY_LANE(guest, k)
	want_name(guest, k, busy_names[rig_random(random) % 8], rig_random(random) % 2);
	g4_guest_lookup_each(guest, &busy.dir);
	ANY_LANE(guest, k)
	l->wrong += !is_right(&guest->lane[k], g4_guest_attr_of(guest, k));
	l->alone += guest->left == 0;
}

/* Pages are written whole, with one value: read under the lock, they are all of it. */
static void read_busy(struct looker *l, struct g4_guest *guest, uint64_t *random, uint8_t *to)
{
	ANY_LANE(guest, k)
	want_range(guest, k, rig_random(random) % CUT_PAGES * G4_PAGE_BYTES,
		   rig_random(random) % 2 ? G4_PAGE_BYTES : 48, to + k * G4_PAGE_BYTES);
	g4_guest_read_each(guest, &busy.file);
	ANY_LANE(guest, k)
	{
		const struct g4_guest_lane *lane = &guest->lane[k];
		const uint8_t *got = (const uint8_t *)lane->to;
		l->wrong += lane->result != 0 && lane->result != (int64_t)lane->bytes;
		for (int64_t i = 1; i < lane->result; i++)
			l->wrong += got[i] != got[0];
	}
	l->alone += guest->left == 0;
}

static void map_busy(struct looker *l, struct g4_guest *guest, uint64_t *random)
{
	ANY_LANE(guest, k)
	guest->lane[k].offset = rig_random(random) % CUT_PAGES * G4_PAGE_BYTES;
	g4_guest_map_each(guest, &busy.file);
	ANY_LANE(guest, k)
	{
		const struct g4_guest_lane *lane = &guest->lane[k];
		l->wrong += lane->result != 0 && lane->result != -G4_E_NXIO;
		l->wrong += lane->result == 0 && lane->page.bytes != G4_PAGE_BYTES;
	}
	ANY_LANE(guest, k)
	if (guest->lane[k].result == 0)
		g4_guest_unmap(&guests, guest->lane[k].page.line, true);
}

static void *look_around(void *argument)
{
	struct looker *l = (struct looker *)argument;
	uint8_t *to = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 64 * G4_PAGE_BYTES);
	uint64_t random = l->number + 1;

	if (!to)
		l->wrong++;
	while (to && !g4_load32_acq(&busy.stop)) {
		struct g4_guest *guest = g4_guest_enter(&guests, l->number);
		look(l, guest, &random);
		read_busy(l, guest, &random, to);
		map_busy(l, guest, &random);
		g4_guest_leave(guest);
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
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	struct looker lookers[PLACES];
	struct g4_guest_file file;
	uint64_t dir, owned, alone = 0;

	(void)state;
	memset(&busy, 0, sizeof(busy));
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "busy", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, busy_names[6], 0755, &busy.sub), 0);
	file = make_file(guest, "/busy/stays", 77);
	busy.stays = file.ino;
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(op_link(&rig, busy.stays, dir, busy_names[1]), 0);
	file = make_file(guest, "/busy/here", 55);
	busy.moves = file.ino;
	assert_int_equal(g4_guest_close(guest, &file), 0);
	assert_int_equal(op_mknod(&rig, dir, busy_names[5], G4_S_IFREG | 0600, &owned), 0);
	busy.file = make_file(guest, "/file", 0);
	assert_int_equal(open_at(guest, NULL, "/busy", &to_read, &busy.dir), 0);
	g4_guest_leave(guest);
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
	guest = g4_guest_enter(&guests, 0);
	assert_int_equal(g4_guest_close(guest, &busy.dir), 0);
	assert_int_equal(g4_guest_close(guest, &busy.file), 0);
	g4_guest_leave(guest);
}

/* ------------------------------------------------------------------ many at once */

struct worker {
	pthread_t thread;
	uint32_t number;
	const struct g4_guest_file *shared;
	uint64_t wrong, found;
};

static uint32_t inside[PLACES];

/* One stay: a file of its own, and pages of a file that nobody changes, by all lanes and by the leader. */
static void stay(struct worker *w, uint64_t *random)
{
	struct g4_guest *guest = g4_guest_enter(&guests, w->number);
	struct peek_job *job = (struct peek_job *)g4_wg_scratch(guest->wg);
	uint32_t place = (uint32_t)(guest - places);
	struct g4_guest_file file = {0};
	uint8_t bytes[300], back[300];
	char path[32];

	w->wrong += g4_xchg32(&inside[place], 1) != 0;
	snprintf(path, sizeof(path), "/w%u", w->number);
	rig_pattern(bytes, rig_random(random), sizeof(bytes));
	w->wrong += g4_guest_open(guest, NULL, path, strlen(path), &to_create) != 0;
	file = guest->file;
	w->wrong += g4_guest_write(guest, &file, 0, bytes, sizeof(bytes)) != (int64_t)sizeof(bytes);
	w->wrong += g4_guest_read(guest, &file, 0, back, sizeof(back)) != (int64_t)sizeof(back);
	w->wrong += memcmp(bytes, back, sizeof(back)) != 0;
	w->wrong += g4_guest_close(guest, &file) != 0;
	uint64_t page = rig_random(random) % (FILE_PAGES - 64);
	memset(job, 0, sizeof(*job));
	job->file = w->shared;
	job->first = page;
	g4_region(guest->wg, REGION_PEEK, job);
	w->wrong += job->wrong;
	w->found += job->found;
	int rc = g4_guest_map(guest, w->shared, page, true);
	w->wrong += rc != 0;
	if (rc == 0) {
		w->wrong += memcmp(guest->page.data, data + page * G4_PAGE_BYTES, G4_PAGE_BYTES) != 0;
		g4_guest_unmap(&guests, guest->page.line, true);
	}
	g4_store32_rel(&inside[place], 0);
	g4_guest_leave(guest);
}

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t random = w->number + 1;

	for (uint32_t round = 0; round < (rig_slow() ? 60 : 600); round++)
		stay(w, &random);
	return NULL;
}

static void more_guests_than_places_take_turns(void **state)
{
	struct worker workers[THREADS];
	struct g4_guest *guest = g4_guest_enter(&guests, 0);
	struct g4_guest_file shared = make_file(guest, "/shared", FILE_BYTES);
	uint64_t found = 0;

	(void)state;
	assert_int_equal(g4_guest_fsync(guest, &shared), 0);
	g4_guest_leave(guest);
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
	guest = g4_guest_enter(&guests, 0);
	assert_int_equal(g4_guest_close(guest, &shared), 0);
	g4_guest_leave(guest);
}

int main(void)
{
#define guest_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		guest_test(a_guest_makes_reads_and_writes_files),
		guest_test(what_cannot_be_opened_is_refused),
		guest_test(paths_start_where_the_session_says_or_at_a_directory),
		guest_test(a_guest_may_do_what_its_session_may),
		guest_test(a_listing_gives_every_name_once),
		guest_test(a_guest_makes_moves_and_removes_names),
		guest_test(a_mapped_page_shows_the_file),
		guest_test(a_mapped_page_is_not_read_when_the_file_changed),
		guest_test(as_many_pages_may_be_mapped_as_leave_others_room),
		guest_test(names_of_all_lanes_lead_where_plain_lookups_lead),
		guest_test(ranges_of_all_lanes_are_what_plain_reads_give),
		guest_test(pages_of_all_lanes_are_mapped_and_counted),
		guest_test(all_lanes_see_what_others_change_in_whole),
		guest_test(more_guests_than_places_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
