/* SPDX-License-Identifier: Apache-2.0 */
/* A provider: a controller of a real drive, which the kernel gives to a process through VFIO and an IOMMU. Host only. */
#ifndef G4_DEV_NVME_VFIO_HOST_H
#define G4_DEV_NVME_VFIO_HOST_H

#include "dev/nvme/controller_host.h"

/*
 * The controller at a PCI address ("0000:03:00.0"), which vfio-pci has to have. It is this process's alone until the provider is
 * closed. `name` is what sentences begin with.
 */
int g4_vfio_open(const char *name, const char *address, struct g4_nvme_provider *provider,
		 struct g4_dev_message message);

#endif
