/* SPDX-License-Identifier: Apache-2.0 */
/* A memfd that has its size for good, and that nobody can write who has not mapped it already. */
#include "ring/epochs_host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

int g4_epochs_make(struct g4_shared_epochs *epochs)
{
	void *map;

	epochs->memory = NULL;
	epochs->fd = memfd_create("gpu4fs-epochs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (epochs->fd < 0)
		return -G4_E_NOMEM;
	map = ftruncate(epochs->fd, (off_t)G4_EPOCHS_BYTES) == 0 ?
		      mmap(NULL, G4_EPOCHS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, epochs->fd, 0) :
		      MAP_FAILED;
	if (map == MAP_FAILED ||
	    fcntl(epochs->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
		if (map != MAP_FAILED)
			munmap(map, G4_EPOCHS_BYTES);
		close(epochs->fd);
		epochs->fd = -1;
		return -G4_E_NOMEM;
	}
	epochs->memory = map;
	return 0;
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
