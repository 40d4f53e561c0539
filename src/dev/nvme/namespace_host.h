/* SPDX-License-Identifier: Apache-2.0 */
/* What IDENTIFY says of a namespace's sizes, and what of it the driver goes by. Host only. */
#ifndef G4_DEV_NVME_NAMESPACE_HOST_H
#define G4_DEV_NVME_NAMESPACE_HOST_H

#include "dev/nvme/sizes.h"
#include "dev/nvme/spec.h"

/*
 * What the driver does not go by, each a sentence: what contradicts itself, and what does not suit the file system. No drive is refused
 * because of it, for sizes only change where commands are cut.
 */
#define G4_NVME_UNHEEDED(X)                                                                                            \
	X(ATOMIC_UNITS,                                                                                                \
	  "atomic units: one for power failures is longer than its normal one, or a namespace's shorter "              \
	  "than its controller's.")                                                                                    \
	X(ATOMIC_BOUNDARIES, "atomic boundaries: they are closer than an atomic unit is long, or begin too late.")     \
	X(WRITE_ALIGNMENT, "preferred write alignment: the preferred write granularity is no multiple of it.")         \
	X(OPTIMAL_WRITE, "optimal write size: it is no multiple of the preferred write granularity.")                  \
	X(DISCARD,                                                                                                     \
	  "preferred discard sizes: they are longer than what is discarded at once, 2 MiB, or than a command may "     \
	  "discard.")

enum g4_nvme_unheeded {
#define X(name, sentence) G4_NVME_UNHEEDED_##name,
	G4_NVME_UNHEEDED(X)
#undef X
		G4_NVME_UNHEEDED_COUNT
};
extern const char *const g4_nvme_unheeded[G4_NVME_UNHEEDED_COUNT];

/* AWUN and AWUPF of a controller. */
struct g4_nvme_atomics {
	uint16_t normal, power_fail;
};

/* DMRL, DMRSL and DMSL of a controller: of a command that discards; 0: no limit. */
struct g4_nvme_discards {
	uint32_t ranges, range_blocks;
	uint64_t blocks;
};
struct g4_nvme_discards g4_nvme_discards_of(const struct g4_nvme_commands_data *data);
/* Sizes get those limits. Granules that no range can hold are not gone by. */
void g4_nvme_limit_discards(struct g4_nvme_discards limits, struct g4_nvme_sizes *sizes, uint32_t *unheeded);
/* For blocks of 2^lba_shift bytes. *unheeded: bit i for enum g4_nvme_unheeded. */
struct g4_nvme_sizes g4_nvme_sizes_of(struct g4_nvme_atomics controller, const struct g4_nvme_namespace_data *data,
				      uint32_t lba_shift, uint32_t *unheeded);
/*
 * Of the formats that the driver takes, one that the drive calls faster than that which the namespace has; UINT32_MAX: there is none.
 */
uint32_t g4_nvme_faster_format(const struct g4_nvme_namespace_data *data);

#endif
