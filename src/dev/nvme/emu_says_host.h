/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulated controller answers when it is asked what it is, lies included. Host only. */
#ifndef G4_DEV_NVME_EMU_SAYS_HOST_H
#define G4_DEV_NVME_EMU_SAYS_HOST_H

#include "dev/nvme/emu_host.h"

#define G4_EMU_NAMESPACES 2u

struct g4_emu_self {
	const struct g4_emu_options *options;
	uint32_t block_shift;
	uint64_t blocks[G4_EMU_NAMESPACES]; /* of namespace n: [n - 1]; 0: there is none */
	bool volatile_cache, discard;
};

/* IDENTIFY, into a page that is zeroed; a status. */
uint32_t g4_emu_identify(const struct g4_emu_self *self, uint32_t cns, uint32_t nsid, void *page);

#endif
