/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulated controller makes of the memory and the sizes that a command names. Host only. */
#ifndef G4_DEV_NVME_EMU_DATA_HOST_H
#define G4_DEV_NVME_EMU_DATA_HOST_H

#include "dev/nvme/emu_host.h"

#define G4_EMU_BUFFERS ((uint32_t)G4_IO_MAX_IOV)

/* What it has at an address. */
static inline void *g4_emu_memory_at(const struct g4_emu_options *options, uint64_t address)
{
	return (void *)(uintptr_t)(address - options->shift);
}

/*
 * The memory of a command's `bytes`, described by PRPs, or an SGL where it takes these: into iov, at most G4_EMU_BUFFERS of them, whole sectors
 * each; a status.
 */
uint32_t g4_emu_find_data(const struct g4_emu_options *options, uint32_t sector_bytes,
			  const struct g4_nvme_command *command, uint64_t bytes, struct g4_iov *iov, uint32_t *count);
/* The host's memory that it has. By the one that is the controller. */
struct g4_emu_loan {
	uint8_t *memory; /* NULL: none */
	uint64_t pages, turn;
};
/* SET FEATURES of it; a status. */
uint32_t g4_emu_borrow(const struct g4_emu_options *options, struct g4_emu_loan *loan,
		       const struct g4_nvme_command *command);
/* Uses it: another page each time, and what was written there the last time has to be there. */
void g4_emu_use_loan(const struct g4_emu_options *options, struct g4_emu_loan *loan);
/* It is shut down, or reset. */
void g4_emu_end_loan(const struct g4_emu_options *options, struct g4_emu_loan *loan, bool shut_down);
/* A write of the sizes that it says it wants. */
bool g4_emu_likes(const struct g4_emu_options *options, uint64_t lba, uint64_t blocks);
/* A DSM with no more than it says it takes. */
bool g4_emu_takes_ranges(const struct g4_emu_options *options, const struct g4_nvme_range *ranges, uint32_t count);

#endif
