/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files whose pages are compared, or moved, in one of two ways: through the library, where paths begin at the file system's root, or of a file
 * system that is mounted here, where they are the host's and its server is asked by ioctls. Other file systems that are mounted
 * below a directory are not its.
 *
 * All return 0 or more, or a negative errno.
 */
#ifndef G4_CLI_DEDUP_FILES_H
#define G4_CLI_DEDUP_FILES_H

#include <dirent.h>
#include <sys/stat.h>

#include "base/base.h"
#include "gpu4fs/gpu4fs.h"

struct g4_dedup_place {
	gpu4fs *fs;   /* NULL: mounted here */
	int root;     /* then a directory of it, or a file */
	dev_t device; /* and what stat(2) calls it */
	bool numbers; /* and its server tells this user sums of files by their numbers, which need not be opened */
};

#define G4_DEDUP_ANY_SIZE UINT64_MAX
struct g4_dedup_entry {
	uint64_t ino,
		size; /* of a file of a place with `numbers` G4_DEDUP_ANY_SIZE, and no `names`: it was not asked for them */
	uint32_t mode, names;
	const char *name; /* until the next one */
};

struct g4_dedup_dir {
	gpu4fs_dir *stream;
	DIR *here;
};

struct g4_dedup_handle {
	gpu4fs_file *file; /* NULL: it is `fd` */
	int fd;
	uint64_t ino;
	uint32_t generation;
	bool is_open;
};

/* The mounted file system that a path leads to, a file's or a directory's. -ENOTTY: it is no gpu4fs, or its server is too old. */
int g4_dedup_place_mounted(struct g4_dedup_place *place, const char *path);
void g4_dedup_place_close(struct g4_dedup_place *place);
/* What was written is where sums tell of it. -EPERM: of a mount, and it is not this user's to ask for. */
int g4_dedup_place_sync(const struct g4_dedup_place *place);

/* -EXDEV: it lies in another file system. */
int g4_dedup_stat(const struct g4_dedup_place *place, const char *path, struct g4_dedup_entry *out);
int g4_dedup_dir_open(const struct g4_dedup_place *place, const char *path, struct g4_dedup_dir *dir);
/* 1: an entry that is neither "." nor ".."; 0: there are no more. */
int g4_dedup_dir_next(const struct g4_dedup_place *place, struct g4_dedup_dir *dir, struct g4_dedup_entry *out);
void g4_dedup_dir_close(struct g4_dedup_dir *dir);

/* A regular file. With `change` its pages can be given to g4_dedup_same() as the target, which changes no contents; of a mount any open will do. */
int g4_dedup_open(const struct g4_dedup_place *place, const char *path, bool change, struct g4_dedup_handle *out);
void g4_dedup_close(struct g4_dedup_handle *handle);
/* gpu4fs_restripe() of a file that was opened with `change`, or to look. -EPERM: as above. */
int64_t g4_dedup_restripe(const struct g4_dedup_handle *handle, int64_t offset, uint32_t flags,
			  struct gpu4fs_restriped *out);
/* gpu4fs_page_sums() */
int64_t g4_dedup_sums(const struct g4_dedup_handle *handle, int64_t offset, struct gpu4fs_page_sum *out,
		      uint32_t count);
/* Of a mount: whether its server tells sums by numbers, from then on place->numbers. */
void g4_dedup_place_numbers(struct g4_dedup_place *place);
/* The same of many files by their numbers, for io->files of them. 0, or an errno for all; else the mount sets what is out of each that it asked. */
struct g4_ioc_sums_of;
int g4_dedup_sums_of(const struct g4_dedup_place *place, struct g4_ioc_sums_of *io);
/* Whether there is one to go by. */
static inline bool g4_dedup_has_sum(const struct gpu4fs_page_sum *page)
{
	return page->algorithm >= 1 && page->algorithm <= 3;
}
/* Contents, as gpu4fs_pread(). Where it is allowed they do not count as read (O_NOATIME). */
int64_t g4_dedup_read(const struct g4_dedup_handle *handle, uint64_t offset, void *to, uint64_t bytes);
/* gpu4fs_dedupe_range(), of files that are not of a mount. `from` NULL: zeros, and from_offset is not used. */
int64_t g4_dedup_same(const struct g4_dedup_handle *from, uint64_t from_offset, const struct g4_dedup_handle *to,
		      uint64_t to_offset, uint64_t bytes, bool compare);
/*
 * The same of a mount, for io->count rows. 0, or an errno for all; else the mount sets count and each tried row's bytes and status, which is
 * no errno. With G4_IOC_SAME_IDLE -EAGAIN, and no row tried, while others use it, -ENOTSUP where it can not know.
 */
struct g4_ioc_same;
int g4_dedup_same_rows(const struct g4_dedup_place *place, struct g4_ioc_same *io);

#endif
