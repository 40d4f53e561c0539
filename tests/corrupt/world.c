/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/map.h"
#include "format/sums.h"
#include "fs/mount_host.h"
#include "hash/crc32c.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define BIG_NAMES 420
#define FEW_NAMES 150
#define LARGE_BYTES (5 * G4_MIB + 777) /* has an aligned stretch of 2 MiB */
#define MANY_NAMES 4200
#define EQUAL_NAMES 120
#define MOST_FILES 20000u
#define MOST_PAGES 4096u /* read of one file */
#define MOST_DEPTH 40u

static uint8_t buffer[256 * G4_PAGE_BYTES];

/* ------------------------------------------------------------------ making it */

static void must(int code, const char *what)
{
	if (code < 0) {
		fprintf(stderr, "world: %s: %s\n", what, g4_strerror(code));
		abort();
	}
}

static uint64_t new_file(struct rig *rig, uint64_t dir, const char *name)
{
	uint64_t ino = 0;

	must(op_mknod(rig, dir, name, S_IFREG | 0644, &ino), name);
	return ino;
}

static uint64_t new_directory(struct rig *rig, uint64_t dir, const char *name)
{
	uint64_t ino = 0;

	must(op_mkdir(rig, dir, name, 0755, &ino), name);
	return ino;
}

static void fill(struct rig *rig, uint64_t ino, uint64_t offset, uint64_t bytes)
{
	while (bytes > 0) {
		const uint64_t part = g4_min64(bytes, sizeof(buffer));
		rig_pattern(buffer, ino ^ offset << 20, part);
		must(op_write(rig, ino, 0, offset, buffer, part, NULL), "write");
		offset += part;
		bytes -= part;
	}
}

static void make_files(struct rig *rig)
{
	uint64_t ino;

	new_file(rig, G4_NODE_ROOT, "empty");
	fill(rig, new_file(rig, G4_NODE_ROOT, "inline"), 0, 100);
	fill(rig, new_file(rig, G4_NODE_ROOT, "small"), 0, 5000);
	ino = new_file(rig, G4_NODE_ROOT, "every other page");
	for (uint64_t page = 0; page < 60; page += 2)
		fill(rig, ino, page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	fill(rig, new_file(rig, G4_NODE_ROOT, "large"), 0, LARGE_BYTES);
	ino = new_file(rig, G4_NODE_ROOT, "sparse");
	fill(rig, ino, 3 * G4_PAGE_BYTES, 2 * G4_PAGE_BYTES);
	fill(rig, ino, 33 * G4_MIB, 3 * G4_PAGE_BYTES);
	ino = new_file(rig, G4_NODE_ROOT, "unwritten");
	must(op_fallocate(rig, ino, G4_FALLOC_KEEP_SIZE, 0, 64 * G4_PAGE_BYTES), "fallocate");
	fill(rig, ino, 8 * G4_PAGE_BYTES, 4 * G4_PAGE_BYTES);
	ino = new_file(rig, G4_NODE_ROOT, "hard link");
	fill(rig, ino, 0, 3000);
	must(op_link(rig, ino, G4_NODE_ROOT, "another name of it"), "link");
	must(op_mknod(rig, G4_NODE_ROOT, "pipe", S_IFIFO | 0600, NULL), "pipe");
	must(op_mknod(rig, G4_NODE_ROOT, "socket", S_IFSOCK | 0600, NULL), "socket");
	must(op_mknod(rig, G4_NODE_ROOT, "null", S_IFCHR | 0666, NULL), "device");
}

static void copy(struct rig *rig, uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes)
{
	uint64_t in, out, done = 0, all = 0;

	must(op_open(rig, from, G4_OPEN_READ, &in), "open");
	must(op_open(rig, to, G4_OPEN_WRITE, &out), "open");
	do {
		must(op_copy(rig, in, from_offset + all, out, to_offset + all, bytes - all, &done), "copy");
		all += done;
	} while (done > 0 && all < bytes);
	must(op_release(rig, in), "release");
	must(op_release(rig, out), "release");
}

/* Files made of few pages: copies, copies of copies, changed ones, one that shares with itself. */
static void make_shared(struct rig *rig)
{
	const uint64_t a = new_file(rig, G4_NODE_ROOT, "original"), b = new_file(rig, G4_NODE_ROOT, "copy"),
		       c = new_file(rig, G4_NODE_ROOT, "copy of the copy"),
		       d = new_file(rig, G4_NODE_ROOT, "of one page"),
		       e = new_file(rig, G4_NODE_ROOT, "copy of the large one"),
		       f = new_file(rig, G4_NODE_ROOT, "copy with its large pages");
	struct g4_attr large;

	fill(rig, a, 0, 40 * G4_PAGE_BYTES);
	copy(rig, a, 0, b, 0, 40 * G4_PAGE_BYTES);
	fill(rig, b, 5 * G4_PAGE_BYTES, 3 * G4_PAGE_BYTES);
	copy(rig, b, 0, c, 10 * G4_PAGE_BYTES, 40 * G4_PAGE_BYTES);
	must(op_truncate(rig, b, 30 * G4_PAGE_BYTES), "truncate");
	for (uint64_t page = 0; page < 25; page++)
		copy(rig, a, 39 * G4_PAGE_BYTES, d, page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	must(op_lookup(rig, G4_NODE_ROOT, "large", &large), "large");
	copy(rig, large.ino, 0, e, 0, LARGE_BYTES - LARGE_BYTES % G4_PAGE_BYTES);
	copy(rig, e, 0, f, 0, LARGE_BYTES - LARGE_BYTES % G4_PAGE_BYTES);
}

static void make_links(struct rig *rig)
{
	char target[1001];

	memset(target, 't', sizeof(target));
	target[1000] = 0;
	must(op_symlink(rig, G4_NODE_ROOT, "long link", target, NULL), "long link");
	must(op_symlink(rig, G4_NODE_ROOT, "short link", "small", NULL), "short link");
}

static void make_attributes(struct rig *rig)
{
	/* version 2; user::rwx user:1000:r-- group::r-x mask::r-x other::--- */
	static const uint8_t acl[44] = {2, 0,	 0,   0,   1,	0,   7,	 0, 255, 255, 255, 255, 2,   0,	 4,
					0, 0xe8, 3,   0,   0,	4,   0,	 5, 0,	 255, 255, 255, 255, 16, 0,
					5, 0,	 255, 255, 255, 255, 32, 0, 0,	 0,   255, 255, 255, 255};
	const uint64_t ino = new_file(rig, G4_NODE_ROOT, "attributes");
	const uint64_t dir = new_directory(rig, G4_NODE_ROOT, "with acl");
	char name[64];

	fill(rig, ino, 0, 10000);
	for (uint64_t i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "user.number %u", (unsigned)i);
		rig_pattern(buffer, i, 900);
		must(op_setxattr(rig, ino, name, buffer, 900, 0), name);
	}
	rig_pattern(buffer, 77, 20000);
	must(op_setxattr(rig, ino, "user.large", buffer, 20000, 0), "large attribute");
	must(op_setxattr(rig, ino, "trusted.hidden", "x", 1, 0), "trusted attribute");
	must(op_setxattr(rig, ino, "system.posix_acl_access", acl, sizeof(acl), 0), "acl");
	must(op_setxattr(rig, dir, "system.posix_acl_default", acl, sizeof(acl), 0), "default acl");
	fill(rig, new_file(rig, dir, "inherits"), 0, 10);
}

static void make_equal(struct rig *rig)
{
	const uint64_t dir = new_directory(rig, G4_NODE_ROOT, "equal");
	char name[256];

	for (uint64_t i = 0; i < EQUAL_NAMES; i++) {
		snprintf(name, sizeof(name), "=m%0198u", (unsigned)i);
		if (i % 40 == 0)
			new_directory(rig, dir, name);
		else
			fill(rig, new_file(rig, dir, name), 0, 30);
	}
}

static void make_directories(struct rig *rig, enum world_size size)
{
	uint64_t dir = new_directory(rig, G4_NODE_ROOT, "deep");
	char name[256];

	for (uint64_t depth = 0; depth < 12; depth++) {
		snprintf(name, sizeof(name), "level %u", (unsigned)depth);
		fill(rig, new_file(rig, dir, "file"), 0, 200 + depth * 1000);
		dir = new_directory(rig, dir, name);
	}
	dir = new_directory(rig, G4_NODE_ROOT, "big");
	for (uint64_t i = 0; i < (size == WORLD_SMALL ? FEW_NAMES : BIG_NAMES); i++) {
		snprintf(name, sizeof(name), "a file with the number %u", (unsigned)i);
		if (i % 40 == 0)
			new_directory(rig, dir, name);
		else
			fill(rig, new_file(rig, dir, name), 0, i % 10 == 0 ? 300 : 30);
	}
	new_directory(rig, G4_NODE_ROOT, "empty directory");
	if (size == WORLD_EQUAL)
		make_equal(rig);
	if (size != WORLD_MANY)
		return;
	dir = new_directory(rig, G4_NODE_ROOT, "many");
	const uint64_t ino = new_file(rig, dir, "file");
	memset(name, 'n', sizeof(name) - 1);
	name[255] = 0;
	for (uint64_t i = 0; i < MANY_NAMES; i++) {
		char number[16];
		snprintf(number, sizeof(number), "%08u", (unsigned)i);
		memcpy(name, number, 8);
		must(op_link(rig, ino, dir, name), "link");
	}
}

/* Removed while open: it is on the orphan list until somebody mounts. */
static void make_orphans(struct rig *rig)
{
	uint64_t ino, handle;

	for (uint64_t i = 0; i < 3; i++) {
		must(op_tmpfile(rig, G4_NODE_ROOT, &ino, &handle), "tmpfile");
		must(op_write(rig, 0, handle, 0, buffer, 3 * G4_PAGE_BYTES, NULL), "write");
	}
}

void world_populate(struct rig *rig, enum world_size size)
{
	make_files(rig);
	make_shared(rig);
	make_links(rig);
	make_attributes(rig);
	make_directories(rig, size);
	must(op_sync(rig), "sync");
}

/* Where the large page that a file begins with lies, and its pages of sums; 0: it has none. */
static void find_large(struct rig *rig, const char *name, uint64_t *at, uint64_t *row)
{
	struct g4_sum_entry entry;
	struct g4_attr attr;
	struct g4_run run;
	uint32_t index;

	must(op_lookup(rig, G4_NODE_ROOT, name, &attr), name);
	rig_run_at(rig, attr.ino, 0, &run);
	*at = run.level == 1 ? g4_address_stored(run.address) : 0;
	must(g4_icache_get(rig->wg, rig->fs, attr.ino, &index), name);
	const int has_row = g4_map_row(rig->wg, rig->fs, g4_icache_at(rig->fs, index), 0, &entry);
	must(has_row, name);
	*row = has_row ? g4_address_stored(g4_sum_entry_place(&entry)) : 0;
	g4_icache_put(rig->fs, index);
}

/* Owners are counted for a whole region, and, where there are sums, for four pages of them. */
static void expect_shared(struct rig *rig)
{
	uint64_t at, row, copy_at, copy_row;

	find_large(rig, "copy of the large one", &at, &row);
	find_large(rig, "copy with its large pages", &copy_at, &copy_row);
	const char *algorithm = getenv("G4_TEST_CHECKSUM");
	const bool sums = algorithm == NULL || strcmp(algorithm, "0") != 0;
	if (at == 0 || at != copy_at || row != copy_row || (row != 0) != sums ||
	    !(rig->fs->super.features_incompat & G4_FEATURE_INCOMPAT_WHOLE)) {
		fprintf(stderr, "world: no large page is shared as a whole, or its pages of sums are not\n");
		abort();
	}
}

void world_change(struct rig *rig)
{
	static const char *const rewritten[] = {"inline", "small",     "every other page",
						"large",  "unwritten", "attributes"};
	struct g4_attr attr;
	char name[64];

	for (uint64_t i = 0; i < sizeof(rewritten) / sizeof(rewritten[0]); i++) {
		must(op_lookup(rig, G4_NODE_ROOT, rewritten[i], &attr), rewritten[i]);
		fill(rig, attr.ino, i == 0 ? 0 : G4_PAGE_BYTES, i == 0 ? 90 : 2000);
	}
	must(op_setxattr(rig, attr.ino, "user.number 3", "shorter", 7, 0), "attribute");
	must(op_lookup(rig, G4_NODE_ROOT, "sparse", &attr), "sparse");
	fill(rig, attr.ino, 33 * G4_MIB + G4_PAGE_BYTES, G4_PAGE_BYTES);
	must(op_lookup(rig, G4_NODE_ROOT, "big", &attr), "big");
	for (uint64_t i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "a file with the number %u", (unsigned)(i * 7 + 1));
		if (op_unlink(rig, attr.ino, name) < 0)
			continue;
		snprintf(name, sizeof(name), "new %u", (unsigned)i);
		fill(rig, new_file(rig, attr.ino, name), 0, 20 * i);
	}
	make_orphans(rig);
	must(op_sync(rig), "sync");
	if (rig->fs != NULL) /* without an engine, which could say otherwise */
		expect_shared(rig);
}

/* ------------------------------------------------------------------ looking at it */

static struct world_file *add_file(struct world_list *list)
{
	if (list->count == list->room) {
		list->room = list->room == 0 ? 1024 : 2 * list->room;
		list->files = realloc(list->files, list->room * sizeof(*list->files));
		if (list->files == NULL)
			abort();
	}
	struct world_file *file = &list->files[list->count++];
	memset(file, 0, sizeof(*file));
	return file;
}

static uint64_t hash_bytes(uint64_t a, uint64_t b, const void *bytes, uint64_t count)
{
	uint64_t state = a ^ b << 32 ^ (uint64_t)g4_crc32c(0, bytes, count) * UINT64_C(0x9e3779b97f4a7c15);

	return rig_random(&state);
}

static bool is_zero(const uint8_t *bytes, uint64_t count)
{
	return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* What a read of contents failed with. */
static void count_error(struct world_list *list, int rc)
{
	if (rc == -G4_E_DATA || rc == -G4_E_CORRUPT_SUMS)
		list->unread++;
	else
		list->errors++;
}

/* Holes, zeros and space that was never written are all the same. */
static uint64_t hash_contents(struct rig *rig, struct world_list *list, const struct world_file *file)
{
	uint64_t sum = file->size, offset = 0, done;

	for (uint32_t pages = 0; offset < file->size && pages < MOST_PAGES;) {
		const int found = op_seek(rig, file->ino, offset, G4_SEEK_DATA, &offset);
		if (found == -G4_E_NXIO)
			break;
		if (found < 0) {
			list->errors++;
			return 0;
		}
		offset = g4_align_down(offset, G4_PAGE_BYTES);
		const uint64_t wanted = g4_min64(sizeof(buffer), file->size - offset);
		const int rc = op_read(rig, file->ino, 0, offset, buffer, wanted, &done);
		if (rc < 0 || done == 0) {
			count_error(list, rc);
			return 0;
		}
		for (uint64_t at = 0; at < done; at += G4_PAGE_BYTES, pages++) {
			const uint64_t part = g4_min64(G4_PAGE_BYTES, done - at);
			if (!is_zero(buffer + at, part))
				sum += hash_bytes(offset + at, part, buffer + at, part);
		}
		offset += g4_align_up(done, G4_PAGE_BYTES);
	}
	return sum;
}

static uint64_t hash_attributes(struct rig *rig, struct world_list *list, uint64_t ino)
{
	static char names[65536];
	static uint8_t value[65536];
	uint64_t bytes, got, sum = 0;

	if (op_listxattr(rig, ino, names, sizeof(names), &bytes) < 0) {
		list->errors++;
		return 0;
	}
	for (uint64_t at = 0; at < bytes; at += strlen(names + at) + 1) {
		if (op_getxattr(rig, ino, names + at, value, sizeof(value), &got) < 0) {
			list->errors++;
			return 0;
		}
		sum += hash_bytes(strlen(names + at), hash_bytes(1, 2, names + at, strlen(names + at)), value, got);
	}
	return sum + bytes;
}

static bool was_seen(const struct world_list *list, uint64_t ino, struct world_file *file)
{
	for (uint32_t i = 0; i + 1 < list->count; i++) {
		if (list->files[i].ino != ino)
			continue;
		file->contents = list->files[i].contents;
		file->attributes = list->files[i].attributes;
		return true;
	}
	return false;
}

static void look_at(struct rig *rig, struct world_list *list, uint64_t dir, uint32_t directory, const char *name)
{
	struct g4_attr attr;
	uint64_t bytes;

	if (op_lookup(rig, dir, name, &attr) < 0) {
		list->errors++;
		return;
	}
	struct world_file *file = add_file(list);
	char path[2 * WORLD_PATH];
	snprintf(path, sizeof(path), "%s%s%s", directory == UINT32_MAX ? "" : list->files[directory].path,
		 directory == UINT32_MAX ? "" : "/", name);
	memcpy(file->path, path, WORLD_PATH - 1); /* a longer one is compared by its beginning */
	file->ino = attr.ino;
	file->mode = attr.mode;
	file->size = attr.size;
	file->rdev = attr.rdev;
	file->directory = directory;
	/* Only hard links come twice. */
	if (attr.nlink > 1 && !S_ISDIR(attr.mode) && was_seen(list, attr.ino, file))
		return;
	file->attributes = hash_attributes(rig, list, attr.ino);
	if (S_ISREG(attr.mode))
		file->contents = hash_contents(rig, list, file);
	if (S_ISLNK(attr.mode)) {
		const int rc = op_readlink(rig, attr.ino, (char *)buffer, sizeof(buffer), &bytes);
		if (rc < 0)
			count_error(list, rc);
		else
			file->contents = hash_bytes(3, 4, buffer, bytes);
	}
}

static void list_directory(struct rig *rig, struct world_list *list, uint64_t dir, uint32_t directory)
{
	static uint8_t records[32768];
	struct names {
		char name[256];
	} *names = NULL;
	uint64_t cookie = 0, bytes = 1;
	uint32_t count = 0, room = 0;

	while (bytes > 0 && count < MOST_FILES) {
		if (op_readdir(rig, dir, cookie, records, sizeof(records), &bytes) < 0) {
			list->errors++;
			break;
		}
		for (uint64_t at = 0; at < bytes;) {
			struct g4_dirent head;
			memcpy(&head, records + at, sizeof(head));
			if (count == room) {
				room = room == 0 ? 64 : 2 * room;
				names = realloc(names, room * sizeof(*names));
				if (names == NULL)
					abort();
			}
			memcpy(names[count].name, records + at + sizeof(head), head.name_bytes);
			names[count].name[head.name_bytes] = 0;
			count += strcmp(names[count].name, ".") != 0 && strcmp(names[count].name, "..") != 0;
			at += head.record_bytes;
			cookie = head.cookie;
		}
	}
	for (uint32_t i = 0; i < count && list->count < MOST_FILES; i++)
		look_at(rig, list, dir, directory, names[i].name);
	free(names);
}

static uint32_t depth_of(const struct world_list *list, uint32_t index)
{
	uint32_t depth = 0;

	for (; index != UINT32_MAX && depth <= MOST_DEPTH; depth++)
		index = list->files[index].directory;
	return depth;
}

void world_list(struct rig *rig, struct world_list *list)
{
	memset(list, 0, sizeof(*list));
	list_directory(rig, list, G4_NODE_ROOT, UINT32_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		if (S_ISDIR(list->files[i].mode) && depth_of(list, i) < MOST_DEPTH)
			list_directory(rig, list, list->files[i].ino, i);
	}
}

void world_list_free(struct world_list *list)
{
	free(list->files);
	memset(list, 0, sizeof(*list));
}

/* ------------------------------------------------------------------ using it */

/* What comes of these on a damaged image is an error or not; they must come to an end. */
static void disturb(struct rig *rig, const struct world_list *list)
{
	uint64_t ino, done;
	uint32_t written = 0;

	if (op_mknod(rig, G4_NODE_ROOT, "written later", S_IFREG | 0600, &ino) == 0) {
		op_write(rig, ino, 0, 0, buffer, 40000, &done);
		op_fsync(rig, ino);
	}
	for (uint32_t i = 0; i < list->count; i++) {
		const struct world_file *file = &list->files[i];
		const uint64_t dir = file->directory == UINT32_MAX ? G4_NODE_ROOT : list->files[file->directory].ino;
		const char *slash = strrchr(file->path, '/'), *name = slash == NULL ? file->path : slash + 1;
		if (S_ISREG(file->mode) && i % 5 == 0 && written++ < 20) {
			op_write(rig, file->ino, 0, file->size / 2, buffer, 6000, &done);
			op_truncate(rig, file->ino, file->size / 3);
			op_setxattr(rig, file->ino, "user.later", "value", 5, 0);
		} else if (i % 7 == 0) {
			if (S_ISDIR(file->mode))
				op_rmdir(rig, dir, name);
			else
				op_unlink(rig, dir, name);
		} else if (i % 11 == 0) {
			op_rename(rig, dir, name, G4_NODE_ROOT, "moved", 0);
		} else if (S_ISDIR(file->mode)) {
			op_mkdir(rig, file->ino, "made later", 0700, NULL);
		}
	}
	op_sync(rig);
}

void world_visit(struct rig *rig, struct world_list *list)
{
	world_list(rig, list);
	disturb(rig, list);
}

bool world_use(struct rig *rig, struct world_list *list)
{
	memset(list, 0, sizeof(*list));
	if (rig_try_mount(rig, 0, NULL) < 0)
		return false;
	world_visit(rig, list);
	rig_unmount(rig);
	return true;
}

int world_mount(struct rig *rig)
{
	rig->wg = g4_wg_create(0);
	if (rig->wg == NULL)
		abort();
	const int rc = rig_try_mount_fs(rig, rig->wg, NULL, &rig->fs);
	if (rc < 0)
		g4_wg_destroy(rig->wg);
	return rc;
}

int world_unmount(struct rig *rig, bool clean)
{
	const int rc = g4_fs_unmount(rig->wg, rig->fs, clean);

	g4_dev_close(rig->dev);
	g4_wg_destroy(rig->wg);
	rig->dev = NULL;
	rig->fs = NULL;
	rig->wg = NULL;
	return rc;
}

void world_open(struct rig *rig, const uint8_t *image, uint64_t bytes)
{
	memset(rig, 0, sizeof(*rig));
	rig->bytes = bytes;
	rig->cache_bytes = 4 * G4_MIB;
	rig->fd = memfd_create("gpu4fs-world", MFD_CLOEXEC);
	if (rig->fd < 0 || ftruncate(rig->fd, (off_t)bytes) < 0)
		abort();
	rig->image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rig->fd, 0);
	if (rig->image == MAP_FAILED)
		abort();
	/* Not "dax:", as a rig has it: a check that reads holes through a mapping fills them, page by page. */
	snprintf(rig->name, sizeof(rig->name), "/proc/self/fd/%d", rig->fd);
	for (uint64_t at = 0; at < bytes; at += G4_PAGE_BYTES) {
		if (!is_zero(image + at, G4_PAGE_BYTES))
			memcpy(rig->image + at, image + at, G4_PAGE_BYTES);
	}
}

void world_restore(struct rig *rig, const uint8_t *image, const uint64_t *pages, uint64_t count)
{
	uint64_t next = 0;

	for (off_t at = 0; (at = lseek(rig->fd, at, SEEK_DATA)) >= 0;) {
		const off_t end = lseek(rig->fd, at, SEEK_HOLE);
		while (at < end) {
			const off_t from = at;
			while (next < count && pages[next] < (uint64_t)at)
				next++;
			const bool kept = next < count && pages[next] < (uint64_t)end;
			at = kept ? (off_t)pages[next] : end;
			if (from < at &&
			    fallocate(rig->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, at - from) != 0)
				abort();
			if (kept)
				at += (off_t)G4_PAGE_BYTES;
		}
	}
	for (uint64_t i = 0; i < count; i++)
		memcpy(rig->image + pages[i], image + pages[i], G4_PAGE_BYTES);
}
