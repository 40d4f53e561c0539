/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/device.h"
#include "store/store.h"

int store_device_open(const char *path, uint64_t bytes, bool read_only)
{
	struct stat st;

	/* asked before it is opened: opening another kind of device may do something */
	if (stat(path, &st) == 0 && !S_ISBLK(st.st_mode))
		return store_fail(STORE_E_INVAL, "%s is no block device", path);
	const int fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return store_fail(STORE_E_IO, "%s is in use: it is mounted, or part of another device", path);
	if (fd < 0)
		return store_fail(STORE_E_IO, "%s: %s", path, strerror(errno));
	const off_t room = lseek(fd, 0, SEEK_END);
	if (room >= 0 && (uint64_t)room >= bytes)
		return fd;
	close(fd);
	return store_fail(STORE_E_INVAL, "%s has %lld bytes, and %llu are to be written: nothing was changed", path,
			  (long long)room, (unsigned long long)bytes);
}

bool store_device_zeros(const uint8_t *data, size_t bytes)
{
	return data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;
}
