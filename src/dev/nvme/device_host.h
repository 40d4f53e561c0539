/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe controllers as devices. Host only. */
#ifndef G4_DEV_NVME_DEVICE_HOST_H
#define G4_DEV_NVME_DEVICE_HOST_H

#include "dev/nvme/emu_host.h"

/* Takes the provider over, also when it fails. Nothing is under way at g4_dev_close(). */
int g4_nvme_device_open(const char *name, const struct g4_nvme_provider *provider,
			const struct g4_nvme_options *options, struct g4_dev **out, struct g4_dev_message message);
/* A drive's namespace through VFIO, at its PCI address; `flags` are those of g4_dev_open(). */
int g4_nvme_drive_open(const char *name, const char *address, uint32_t nsid, uint32_t flags, struct g4_dev **out,
		       struct g4_dev_message message);
/* An emulated controller over a medium, which it takes over, also when it fails. *emu may be wanted for its faults, or NULL. */
int g4_nvme_emu_device_open(const char *name, struct g4_dev *medium, const struct g4_emu_options *emu_options,
			    const struct g4_nvme_options *options, struct g4_dev **out, struct g4_emu **emu,
			    struct g4_dev_message message);
/* The controller of a device, NULL where it is another kind. */
struct g4_nvme *g4_nvme_of(const struct g4_dev *dev);
/* What an open device of this kind has counted, all queues together. */
struct g4_nvme_counts g4_nvme_device_counts(const struct g4_dev *dev);

#endif
