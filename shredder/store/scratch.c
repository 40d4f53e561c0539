/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/scratch.h"
#include "store/store.h"

int store_scratch_file(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];

	if (folder == NULL || folder[0] != '/')
		folder = "/var/tmp";
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || snprintf(path, sizeof(path), "%s/shredder-XXXXXX", folder) >= (int)sizeof(path))
		return fd;
	fd = mkostemp(path, O_CLOEXEC); /* a file system without such files */
	if (fd >= 0)
		unlink(path);
	return fd;
}

bool store_scratch_write(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
	const uint8_t *from = (const uint8_t *)data;
	uint64_t done = 0;

	while (done < bytes) {
		const ssize_t now = pwrite(fd, from + done, bytes - done, (off_t)(offset + done));

		if (now < 0 && errno == EINTR)
			continue;
		if (now <= 0)
			return false;
		done += (uint64_t)now;
	}
	return true;
}

int store_scratch_read(int fd, void *to, uint64_t bytes, uint64_t offset, const char *what)
{
	uint64_t done = 0;

	while (done < bytes) {
		const ssize_t now = pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));

		if (now < 0 && errno == EINTR)
			continue;
		if (now <= 0)
			return store_fail(STORE_E_IO, "the temporary file of %s cannot be read: %s", what,
					  now < 0 ? strerror(errno) : "it is too short");
		done += (uint64_t)now;
	}
	return 0;
}
