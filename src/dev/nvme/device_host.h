/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe controllers as devices. Host only. */
#ifndef G4_DEV_NVME_DEVICE_HOST_H
#define G4_DEV_NVME_DEVICE_HOST_H

#include "dev/nvme/emu_host.h"

/* Takes the provider over, also when it fails. Nothing is under way at g4_dev_close(). */
int g4_nvme_device_open(const char *name, const struct g4_nvme_provider *provider,
			const struct g4_nvme_options *options, struct g4_dev **out, struct g4_dev_message message);
/* A namespace, from 1 on, and a partition of its GPT; 0: all of it. */
struct g4_nvme_where {
	uint32_t nsid, partition;
};
/*
 * A drive's namespace or partition, at its PCI address, with g4_dev_open()'s flags and queues for lanes. All that this process opens at an
 * address share one controller, and the queues that the first one asked for. It is reached through VFIO, or by `provider`, which is taken over, also on failure and where the controller is
 * open already (tests).
 */
int g4_nvme_drive_open(const char *name, const char *address, const struct g4_nvme_where *where,
		       const struct g4_dev_open_options *options, const struct g4_nvme_provider *provider,
		       struct g4_dev **out, struct g4_dev_message message);
/* An emulated controller over a medium, which it takes over, also when it fails. *emu may be wanted for its faults, or NULL. */
int g4_nvme_emu_device_open(const char *name, struct g4_dev *medium, const struct g4_emu_options *emu_options,
			    const struct g4_nvme_options *options, struct g4_dev **out, struct g4_emu **emu,
			    struct g4_dev_message message);
/* The controller of a device, NULL where it is another kind. */
struct g4_nvme *g4_nvme_of(const struct g4_dev *dev);
/* What it is of that; it is such a device. */
const struct g4_nvme_target *g4_nvme_target_of(const struct g4_dev *dev);
/* The PCI address of a drive's device; NULL: it is none. */
const char *g4_nvme_address_of(const struct g4_dev *dev);
/* What the controller of an open device of this kind has counted, all queues together. */
struct g4_nvme_counts g4_nvme_device_counts(const struct g4_dev *dev);

#endif
