/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages (huge_host.h): one of the kernel's pool, which is neither swapped nor compacted. It belongs to a file without a name, so
 * that a process that is killed does not give it back with its memory, but with its files, among which is the device (vfio_host.c). An
 * io_uring that does nothing else has it as a registered buffer: the kernel pins these.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/nvme/huge_host.h"

#define PRESENT (UINT64_C(1) << 63)
#define FRAME_MASK ((UINT64_C(1) << 55) - 1)

/* The kernel tells frames to who may administer it only; others see 0. */
int g4_huge_find(const void *memory, uint64_t *address)
{
	uint64_t entries[G4_HUGE_BYTES / G4_PAGE_BYTES];
	const off_t at = (off_t)((uintptr_t)memory / G4_PAGE_BYTES * sizeof(entries[0]));
	const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	const ssize_t got = pread(fd, entries, sizeof(entries), at);
	if (got != (ssize_t)sizeof(entries))
		error = got < 0 ? errno : EIO;
	close(fd);
	const uint64_t first = entries[0] & FRAME_MASK;
	for (uint64_t i = 0; i < G4_HUGE_BYTES / G4_PAGE_BYTES && error == 0; i++)
		if (!(entries[i] & PRESENT) || first == 0 || (entries[i] & FRAME_MASK) != first + i)
			error = first == 0 ? EPERM : EIO;
	*address = first * G4_PAGE_BYTES;
	return error;
}

/* Where it then is, it stays. */
static void pin(const char *name, struct g4_huge *huge)
{
	const struct iovec all = {.iov_base = huge->memory, .iov_len = G4_HUGE_BYTES};
	int rc = io_uring_queue_init(1, &huge->pin, 0);

	if (rc == 0) {
		rc = io_uring_register_buffers(&huge->pin, &all, 1);
		huge->pinned = rc == 0;
		if (rc < 0)
			io_uring_queue_exit(&huge->pin);
	}
	if (huge->pinned)
		huge->last_file = (int)g4_max64((uint64_t)huge->file, (uint64_t)huge->pin.ring_fd);
	else
		g4_log(G4_LOG_WARN,
		       "%s: the kernel does not pin its memory (%s): memory must not be taken offline, nor pages be moved",
		       name, strerror(-rc));
}

int g4_huge_map(const char *name, struct g4_huge *huge, struct g4_dev_message message)
{
	*huge = (struct g4_huge){.file = memfd_create("gpu4fs-nvme", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB)};
	if (huge->file < 0 || ftruncate(huge->file, G4_HUGE_BYTES) < 0)
		goto none;
	void *memory = mmap(NULL, G4_HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, huge->file, 0);
	if (memory == MAP_FAILED)
		goto none;
	huge->memory = memory;
	if (madvise(memory, G4_HUGE_BYTES, MADV_DONTFORK) < 0) /* a device and a child are not to share it */
		goto none;
	huge->last_file = huge->file;
	pin(name, huge);
	const int error = g4_huge_find(memory, &huge->address);
	if (error == 0)
		return 0;
	g4_huge_unmap(huge);
	errno = error;
	return g4_dev_fail(message, error == EPERM || error == EACCES ? -G4_E_ACCES : -G4_E_DEV_OPEN,
			   "%s: the kernel does not tell where memory is: %m (/proc/self/pagemap, which is for root)",
			   name);
none:
	g4_dev_fail(message, -G4_E_NOMEM,
		    "%s: no huge page of 2 MiB can be had: %m (echo 8 >/proc/sys/vm/nr_hugepages makes some)", name);
	g4_huge_unmap(huge);
	return -G4_E_NOMEM;
}

void g4_huge_unmap(struct g4_huge *huge)
{
	if (huge->pinned) {
		io_uring_unregister_buffers(&huge->pin); /* now; with its end alone the kernel does it later */
		io_uring_queue_exit(&huge->pin);
	}
	if (huge->memory)
		munmap(huge->memory, G4_HUGE_BYTES);
	if (huge->file >= 0)
		close(huge->file);
	*huge = (struct g4_huge){.file = -1};
}
