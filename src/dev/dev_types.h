/* SPDX-License-Identifier: Apache-2.0 */
/* What is inside an open device. Only src/dev looks in here; everyone else uses dev.h. */
#ifndef G4_DEV_TYPES_H
#define G4_DEV_TYPES_H

#include "dev/dev.h"

enum g4_dev_kind {
	G4_DEV_KIND_MEM,   /* anonymous memory */
	G4_DEV_KIND_DAX,   /* a file mapped shared */
	G4_DEV_KIND_FILE,  /* a regular file or block device, through io_uring or system calls */
	G4_DEV_KIND_FAULT, /* a wrapper that injects faults (tests) */
	G4_DEV_KIND_REMOTE /* another device, behind an I/O agent on the host */
};

/* How stores to a mapped device become durable. */
enum g4_dev_persist {
	G4_DEV_PERSIST_NEVER,	 /* memory: nothing survives a power cut, so there is nothing to do */
	G4_DEV_PERSIST_MSYNC,	 /* page cache: the host writes pages back */
	G4_DEV_PERSIST_CACHELINE /* persistent memory (MAP_SYNC): written back cache lines are durable */
};

struct g4_dev {
	struct g4_dev_props props;
	uint32_t kind;		  /* enum g4_dev_kind */
	uint32_t persist;	  /* enum g4_dev_persist, of a mapped device */
	uint8_t *map;		  /* first byte of a mapped device, else NULL */
	void *host;		  /* the kind's own state; host only */
	struct g4_remote *remote; /* the engine's side of an agent, in the engine's memory; else NULL */
};

#endif
