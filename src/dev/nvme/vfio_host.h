/* SPDX-License-Identifier: Apache-2.0 */
/* A provider: a controller of a real drive, which the kernel gives to a process through VFIO and an IOMMU. Host only. */
#ifndef G4_DEV_NVME_VFIO_HOST_H
#define G4_DEV_NVME_VFIO_HOST_H

#include <linux/vfio.h>

#include "dev/nvme/controller_host.h"

/*
 * The controller at a PCI address ("0000:03:00.0"), which vfio-pci has to have. It is this process's alone until the provider is
 * closed. `name` is what sentences begin with.
 */
int g4_vfio_open(const char *name, const char *address, struct g4_nvme_provider *provider,
		 struct g4_dev_message message);

/*
 * What is added to the process's addresses so that an IOMMU has them: 0 where it has memory at `at` as it is. `ranges` are the addresses
 * that it has, both ends included, as VFIO tells them; none: that is not known.
 */
uint64_t g4_vfio_shift(const struct vfio_iova_range *ranges, uint32_t count, uint64_t at);

#endif
