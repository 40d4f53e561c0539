/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a port of PCI Express does with what devices send to each other through it (ACS, access control services): of its configuration, as
 * sysfs shows it, which only root sees the whole of. Source: PCI Express Base Specification 5.0, 7.7.8. Host only.
 */
#ifndef G4_DEV_NVME_ACS_HOST_H
#define G4_DEV_NVME_ACS_HOST_H

#include "base/base.h"

enum g4_acs {
	G4_ACS_NO_PORT,	  /* it leads to no device: an endpoint, or a switch's upper side */
	G4_ACS_UNKNOWN,	  /* its configuration can not be read as far as that */
	G4_ACS_NONE,	  /* what comes from below may go down again, and the IOMMU does not see it */
	G4_ACS_REDIRECTS, /* some of that is sent up to the root complex */
	G4_ACS_ISOLATES /* all of it is, and from whom it comes is looked at: what the kernel asks of a port to have groups below it */
};

#define G4_ACS_CONFIG_BYTES 4096u
/* `bytes` are those that are there. Nonsense is G4_ACS_NO_PORT or G4_ACS_NONE. */
enum g4_acs g4_acs_of(const uint8_t config[G4_ACS_CONFIG_BYTES], uint64_t bytes);

#endif
