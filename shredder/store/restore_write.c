/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/restore_write.h"

/* Files from which on writing past the page cache pays, bytes of a run, and of a block: no page of any processor is larger. */
#define DIRECT_BYTES (64 * G4_MIB)
#define RUN_BYTES (4 * G4_MIB)
#define BLOCK_BYTES (64 * G4_KIB)

int store_write_at(int fd, const uint8_t *data, uint64_t bytes, uint64_t offset)
{
	while (bytes > 0) {
		const ssize_t done = pwrite(fd, data, bytes, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		data += done;
		offset += (uint64_t)done;
		bytes -= (uint64_t)done;
	}
	return 0;
}

bool store_read_at(int fd, struct store_buf *to, uint64_t bytes, uint64_t offset)
{
	uint8_t *room = store_buf_reserve(to, bytes);
	uint64_t have = 0;

	while (have < bytes) {
		const ssize_t done = pread(fd, room + have, bytes - have, (off_t)(offset + have));

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		have += (uint64_t)done;
	}
	return true;
}

int store_open_direct(int folder_fd, const char *name, int fd, uint64_t bytes)
{
	struct stat st, other;

	if (bytes < DIRECT_BYTES)
		return -1;
	const int direct = openat(folder_fd, name, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	/* not another file that somebody has put there */
	if (direct >= 0 && fstat(fd, &st) == 0 && fstat(direct, &other) == 0 && st.st_ino == other.st_ino &&
	    st.st_dev == other.st_dev)
		return direct;
	if (direct >= 0)
		close(direct);
	return -1;
}

void store_make_blocks(const struct store_target *target, uint64_t begin, uint64_t end)
{
	if (target->direct_fd >= 0 && end > begin)
		(void)!fallocate(target->direct_fd, 0, (off_t)begin, (off_t)(end - begin));
}

/* Whole blocks from aligned memory. A file system that cannot do it gets them as others. */
static int write_blocks(const struct store_target *target, const uint8_t *data, uint64_t bytes, uint64_t offset)
{
	if (store_write_at(target->direct_fd, data, bytes, offset) == 0)
		return 0;
	return errno == EINVAL || errno == EOPNOTSUPP ? store_write_at(target->fd, data, bytes, offset) : -1;
}

/* What the run has; without `all` only whole blocks, and the rest begins the next one. */
static int write_run(const struct store_target *target, struct store_run *run, bool all)
{
	const uint64_t begin = run->offset, end = begin + run->bytes;
	const uint64_t first = g4_min64(g4_align_up(begin, BLOCK_BYTES), end);
	const uint64_t last = g4_max64(end / BLOCK_BYTES * BLOCK_BYTES, first);
	const uint8_t *data = run->memory + begin % BLOCK_BYTES;
	const uint64_t left = all ? 0 : end - last;

	if (run->bytes == 0)
		return 0;
	if (store_write_at(target->fd, data, first - begin, begin) != 0 ||
	    (last > first && write_blocks(target, data + (first - begin), last - first, first) != 0) ||
	    store_write_at(target->fd, data + (last - begin), end - last - left, last) != 0)
		return -1;
	memmove(run->memory + last % BLOCK_BYTES, data + (last - begin), left);
	run->offset = last;
	run->bytes = left;
	return 0;
}

int store_run_add(const struct store_target *target, struct store_run *run, const uint8_t *data, uint64_t bytes,
		  uint64_t offset)
{
	if (run->memory == NULL)
		run->memory = (uint8_t *)store_alloc_aligned(BLOCK_BYTES, RUN_BYTES + BLOCK_BYTES);
	if (run->bytes > 0 && run->offset + run->bytes != offset && write_run(target, run, true) != 0)
		return -1;
	if (run->bytes == 0)
		run->offset = offset;
	while (bytes > 0) {
		const uint64_t part = g4_min64(bytes, RUN_BYTES - run->bytes);

		memcpy(run->memory + run->offset % BLOCK_BYTES + run->bytes, data, part);
		run->bytes += part;
		data += part;
		bytes -= part;
		if (run->bytes == RUN_BYTES && write_run(target, run, false) != 0)
			return -1;
	}
	return 0;
}

int store_run_end(const struct store_target *target, struct store_run *run)
{
	return write_run(target, run, true);
}
