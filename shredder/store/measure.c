/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a backup will read or take over, where no earlier snapshot tells: files are looked at, not opened. It is for a progress bar, so
 * what cannot be read is passed over without a word, and --exclude-if-present is not looked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/backup.h"

static uint64_t device_bytes(const char *path)
{
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	const off_t bytes = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

	if (fd >= 0)
		close(fd);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Of what was named: a link to a block device is one. */
static bool is_device(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static uint64_t measure(FTS *tree, const struct store_backup_options *options, const atomic_bool *stop)
{
	uint64_t bytes = 0;
	FTSENT *entry;

	/* at least one: glibc's fts_close() frees nothing of a walk that has not begun */
	while ((entry = fts_read(tree)) != NULL && !atomic_load(stop)) {
		const bool directory = entry->fts_info == FTS_D;

		if (entry->fts_info == FTS_DP)
			continue;
		if (entry->fts_level == FTS_ROOTLEVEL) {
			if (!directory && is_device(entry->fts_path))
				bytes += device_bytes(entry->fts_path);
		} else if (options->excludes != NULL && options->excludes->count > 0 &&
			   store_excluded(options->excludes, entry->fts_path, directory)) {
			fts_set(tree, entry, FTS_SKIP);
			continue;
		}
		if (entry->fts_info == FTS_F && S_ISREG(entry->fts_statp->st_mode) &&
		    (options->largest_bytes == 0 || (uint64_t)entry->fts_statp->st_size <= options->largest_bytes))
			bytes += (uint64_t)entry->fts_statp->st_size;
	}
	return bytes;
}

uint64_t store_measure(char *const *paths, size_t count, const struct store_backup_options *options,
		       const atomic_bool *stop)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		char *one[] = {paths[i], NULL};
		FTS *tree = fts_open(one, FTS_PHYSICAL | FTS_NOCHDIR | (options->one_file_system ? FTS_XDEV : 0), NULL);

		if (tree != NULL) {
			bytes += measure(tree, options, stop);
			fts_close(tree);
		}
	}
	return bytes;
}
