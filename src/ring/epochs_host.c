/* SPDX-License-Identifier: Apache-2.0 */
/* A memfd that has its size for good, and that nobody can write who has not mapped it already. */
#include "ring/epochs_host.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_host.h"

int g4_epochs_make(struct g4_shared_epochs *epochs)
{
	void *memory = NULL;
	const int rc = g4_memory_share("gpu4fs-epochs", G4_EPOCHS_BYTES, true, &epochs->fd, &memory);

	epochs->memory = memory;
	return rc;
}

void g4_epochs_free(struct g4_shared_epochs *epochs)
{
	if (!epochs->memory)
		return;
	munmap(epochs->memory, G4_EPOCHS_BYTES);
	close(epochs->fd);
	epochs->memory = NULL;
	epochs->fd = -1;
}

const uint64_t *g4_epochs_map(int fd)
{
	struct stat stat;
	void *map;

	if (fstat(fd, &stat) != 0 || stat.st_size < (off_t)G4_EPOCHS_BYTES)
		return NULL;
	map = mmap(NULL, G4_EPOCHS_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

void g4_epochs_unmap(const uint64_t *epochs)
{
	if (epochs)
		munmap((void *)(uintptr_t)epochs, G4_EPOCHS_BYTES);
}
