/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an NVMe controller is in the machine, as sysfs shows it: the IOMMU, its way to NVIDIA's GPUs and what ports on it do (ACS), how much
 * of their memory PCI reaches, in which pieces memory is pinned; and what could be done about what stands in the way. Nothing is changed. Host only.
 */
#ifndef G4_DEV_NVME_PLACE_HOST_H
#define G4_DEV_NVME_PLACE_HOST_H

#include "dev/nvme/pci_host.h"

#define G4_PLACE_GPUS_MOST 16u

enum g4_place_way {
	G4_PLACE_SWITCH, /* below a bridge that both have: data between them need not pass the processor */
	G4_PLACE_ROOT,	 /* below one root complex */
	G4_PLACE_APART	 /* below two: data passes the link between processors, or is refused */
};
struct g4_place_gpu {
	char name[G4_PCI_NAME_BYTES];
	char common[G4_PCI_NAME_BYTES]; /* that bridge or root complex; "": there is none */
	enum g4_place_way way;
	uint64_t bar_bytes,
		bar_most_bytes; /* its largest BAR, and what it could be; the same where it can not be changed */
	/*
	 * Of the ports of their common bridge, where they have one: those that send what the two exchange up to the root complex, "A;B", as the
	 * kernel wants them named; whether all of them could be looked at.
	 */
	char redirects[5 * G4_PCI_NAME_BYTES];
	bool ports_seen;
	uint32_t bar, bar_most; /* its number; bar_most_bytes are 2^bar_most MiB, where they are more */
};
struct g4_place {
	char name[G4_PCI_NAME_BYTES];
	bool iommu, grouped; /* the kernel has one; it uses it for this controller */
	uint32_t strangers;  /* other devices of the group, but bridges and what VFIO has */
	char stranger[G4_PCI_NAME_BYTES];
	char open_port
		[G4_PCI_NAME_BYTES]; /* the first one on its way that does not keep what is below it apart; "": none that is known */
	bool small_pages; /* the kernel gives no huge pages, or VFIO makes no use of them: memory is pinned by pages of 4 KiB */
	bool vfio_splits; /* it is VFIO */
	uint64_t pieces;  /* of 2 MiB, that VFIO maps for a program; 0: not known */
	uint64_t locked_bytes,
		locked_wanted_bytes; /* that the process may lock, UINT64_MAX: no limit; and should be able to */
	struct g4_place_gpu gpus[G4_PLACE_GPUS_MOST];
	uint32_t gpu_count;
};

/* `root` is in front of /sys: "", or a folder of tests. False: there is no such device. What sysfs does not say is as if all were well. */
bool g4_place_look(const char *root, const char *address, uint64_t locked_bytes, struct g4_place *place);
/* What the calling process may lock. */
uint64_t g4_place_locked_bytes(void);
/* The index-th remedy, a sentence. False: there is none. */
#define G4_PLACE_REMEDY_BYTES 512u
bool g4_place_remedy(const struct g4_place *place, uint32_t index, char text[G4_PLACE_REMEDY_BYTES]);
/*
 * Before lanes of a GPU take queues of a controller: all remedies become lines of the log, those of this GPU alone. `gpu`: its address in any case
 * of letters; "": all GPUs. `name` is what lines begin with. How many there were.
 */
uint32_t g4_place_say(const char *root, const char *name, const char *address, const char *gpu, uint64_t locked_bytes);

#endif
