/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe controllers as the kernel's sysfs shows them: finding one, and giving it to VFIO or back to the kernel. Host only. */
#ifndef G4_DEV_NVME_PCI_HOST_H
#define G4_DEV_NVME_PCI_HOST_H

#include "dev/dev_ops_host.h"

#define G4_PCI_NAME_BYTES 16u
#define G4_PCI_DRIVER_BYTES 64u
#define G4_PCI_NVME_CLASS 0x010802u
#define G4_PCI_NO_GROUP UINT32_MAX

struct g4_pci {
	char name[G4_PCI_NAME_BYTES];	  /* 0000:03:00.0 */
	char driver[G4_PCI_DRIVER_BYTES]; /* "": none */
	uint32_t class_code, vendor, device;
	uint32_t group; /* of the IOMMU; G4_PCI_NO_GROUP: the kernel uses none for it */
	bool unsafe;	/* VFIO has it without an IOMMU, in a group that it has made up */
};

/*
 * "0000:03:00.0", or "03:00.0" in domain 0, with "/NAMESPACE" behind where nsid is not NULL (1 if there is none), and "/PARTITION" behind
 * that where partition is not NULL (0 if there is none). False: that is no such name.
 */
bool g4_pci_parse(const char *text, char name[G4_PCI_NAME_BYTES], uint32_t *nsid, uint32_t *partition);
/* What is there at an address, which must be an NVMe controller. 0, or a code and a sentence, which begins with `name`. */
int g4_pci_find(const char *name, const char *address, struct g4_pci *pci, struct g4_dev_message message);
/* All NVMe controllers, in the order of names; at most `room`. Returns how many there are. */
uint32_t g4_pci_list(struct g4_pci *to, uint32_t room);
/* The other devices of its group that a driver of the kernel has, as text with blanks between; "": there are none. */
void g4_pci_others(const struct g4_pci *pci, char *text, size_t bytes);
/* Block devices that the kernel has of it, the index-th: "nvme0n1". False: there is none. */
bool g4_pci_block(const struct g4_pci *pci, uint32_t index, char *name, size_t bytes);
/*
 * VFIO's file of its group, whose name is put into `path`, or -1 with errno: EBUSY if another program has it, which is waited for for
 * a moment, as the kernel closes files of a process that was killed a little later.
 */
#define G4_PCI_GROUP_BYTES 64u
int g4_pci_open_group(const struct g4_pci *pci, char path[G4_PCI_GROUP_BYTES]);
/*
 * Another driver: "vfio-pci", or NULL for what the kernel would take by itself. Returns when that one has it. -G4_E_DEV_BUSY: a program
 * has it, or another device of its group, through VFIO.
 */
int g4_pci_give(const struct g4_pci *pci, const char *driver, struct g4_dev_message message);

#endif
