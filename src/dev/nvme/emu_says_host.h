/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulated controller answers when it is asked what it is, lies included. Host only. */
#ifndef G4_DEV_NVME_EMU_SAYS_HOST_H
#define G4_DEV_NVME_EMU_SAYS_HOST_H

#include "dev/nvme/emu_host.h"

#define G4_EMU_NAMESPACES 2u
#define G4_EMU_ERRORS 4u /* that it remembers */

/* What it has done, of which its logs tell. By the one that is the controller. */
struct g4_emu_deeds {
	uint64_t reads, writes, errors;
	struct g4_nvme_error_entry last[G4_EMU_ERRORS]; /* error n: [n mod G4_EMU_ERRORS] */
};

#define G4_EMU_EVENT_TYPES 8u
#define G4_EMU_REQUESTS 4u /* for events */

/* Events. By the one that is the controller. */
struct g4_emu_events {
	uint32_t wanted;		      /* FEATURE_EVENTS */
	uint32_t waiting[G4_EMU_EVENT_TYPES]; /* of each type one that was not told yet, */
	bool waits[G4_EMU_EVENT_TYPES];
	uint32_t log
		[G4_EMU_EVENT_TYPES]; /* the log that has to be read before the next one of the type is told; 0: none */
	uint32_t warnings;
	bool changed; /* namespace 1, since the log of that was read */
};

struct g4_emu_self {
	const struct g4_emu_options *options;
	uint32_t block_shift;
	uint64_t blocks[G4_EMU_NAMESPACES]; /* of namespace n: [n - 1]; 0: there is none */
	bool volatile_cache, discard;
	struct g4_emu_events *events;
};

/* There is one, if the driver wants to know. */
void g4_emu_note_event(struct g4_emu_events *events, uint32_t event);
/* One that may be told now; true: it is told. */
bool g4_emu_take_event(struct g4_emu_events *events, uint32_t *event);
/* A command has ended with an error. */
void g4_emu_note_error(struct g4_emu_deeds *deeds, uint32_t queue, const struct g4_nvme_command *command,
		       uint32_t status);
/* GET_LOG: `bytes` of log `log`, into a page that is zeroed; a status. */
uint32_t g4_emu_log(const struct g4_emu_self *self, const struct g4_emu_deeds *deeds, uint32_t log, uint64_t bytes,
		    void *page);
/* IDENTIFY, into a page that is zeroed; a status. */
uint32_t g4_emu_identify(const struct g4_emu_self *self, uint32_t cns, uint32_t nsid, void *page);

#endif
