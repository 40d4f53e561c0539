/* SPDX-License-Identifier: Apache-2.0 */
/* Another size of an open device. */
#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dev/dev_host.h"
#include "dev/dev_ops_host.h"

int g4_dev_set_size(struct g4_dev *dev, uint64_t bytes)
{
	struct g4_file *file = (struct g4_file *)dev->host;
	uint64_t found = bytes;

	if (dev->kind != G4_DEV_KIND_FILE)
		return bytes <= dev->props.size_bytes ? 0 : -G4_E_NOTSUP;
	if (file->block_device) {
		if (ioctl(file->fd, BLKGETSIZE64, &found) != 0)
			return g4_dev_code(errno);
	} else if (ftruncate(file->fd, (off_t)bytes) != 0) {
		return g4_dev_code(errno);
	}
	file->size_bytes = found;
	g4_store64_rel(&dev->props.size_bytes, found);
	return bytes <= found ? 0 : -G4_E_DEV_SMALL;
}
