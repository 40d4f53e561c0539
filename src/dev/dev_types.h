/* SPDX-License-Identifier: Apache-2.0 */
/* What is inside an open device. Only src/dev and the sets of src/space look in here; everyone else uses dev.h. */
#ifndef G4_DEV_TYPES_H
#define G4_DEV_TYPES_H

#include "dev/dev.h"

#define G4_DEV_NAME_BYTES 128u

/* How stores to a mapped device become durable. */
enum g4_dev_persist {
	G4_DEV_PERSIST_NEVER,	 /* memory: nothing survives a power cut, so there is nothing to do */
	G4_DEV_PERSIST_MSYNC,	 /* page cache: the host writes pages back */
	G4_DEV_PERSIST_CACHELINE /* persistent memory (MAP_SYNC): written back cache lines are durable */
};

struct g4_dev {
	struct g4_dev_props props;
	uint32_t persist;	      /* enum g4_dev_persist, of a mapped device */
	bool anonymous;		      /* a mapped device with nothing behind its memory */
	uint64_t opened;	      /* of a mapped device: its number among those of this process */
	uint8_t *map;		      /* first byte of a mapped device, else NULL */
	const struct g4_dev_ops *ops; /* what its kind does; host only */
	void *host;		      /* the kind's own state; host only */
	char name[G4_DEV_NAME_BYTES]; /* as it was opened, perhaps cut; "": by itself */
	struct g4_remote *remote;     /* the engine's side of an agent, in the engine's memory; else NULL */
};

#endif
