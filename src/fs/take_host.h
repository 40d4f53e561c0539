/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe drives that are taken from the kernel's driver, for a while or until they are given back. Host only. */
#ifndef G4_TAKE_HOST_H
#define G4_TAKE_HOST_H

#include "dev/nvme/pci_host.h"
#include "space/set_host.h"

enum g4_take {
	G4_TAKE_EMPTY, /* only a drive without partitions, and without what is known to be a file system's */
	G4_TAKE_ANY    /* whatever is on it */
};
/* Gives a drive of which nothing is in use to VFIO. 0, or a code and a sentence, and the kernel has it still. */
int g4_take_drive(const struct g4_pci *pci, enum g4_take which, struct g4_dev_message message);

/* Those that a program has taken itself. Zeroed at first. */
struct g4_taken {
	char names[G4_MAX_DISKS + G4_MAX_SPARES][G4_PCI_NAME_BYTES];
	uint32_t count;
};
/*
 * Takes the drives of the disks that `name` stands for, those of them that are nvme:ADDRESS and that the kernel's driver has, whatever is
 * on them. On failure none is taken.
 */
int g4_take_drives(const char *name, struct g4_taken *taken, struct g4_dev_message message);
/* The kernel has them again, which they are closed for: what it refuses is told in the log. */
void g4_give_back(struct g4_taken *taken);

#endif
