/* SPDX-License-Identifier: Apache-2.0 */
/* Lines in the log about damage that was met, for the host of an engine. Host only; one thread. */
#ifndef G4_TELL_HOST_H
#define G4_TELL_HOST_H

#include "inode/mounted.h"

#ifdef __cplusplus
extern "C" {
#endif

/* At most ten lines a second; of the rest a count. Zeros and the device, to begin with. */
struct g4_teller {
	const struct g4_dev *dev; /* whose names the lines have */
	uint64_t since_ns, left_out, lost;
	uint32_t told;
};

/* Before events are told, and now and then while g4_teller_waits(). lost: of all, those that nobody took in time. */
void g4_teller_look(struct g4_teller *teller, uint64_t lost);
/* path: of its inode, NULL where that is not known. */
void g4_teller_tell(struct g4_teller *teller, const struct g4_event *event, const char *path);
/* Whether a line about what was left out is still to be written. */
bool g4_teller_waits(const struct g4_teller *teller);
/* The sentence about an event. The path comes last: it is what a line has no room for. */
void g4_event_text(const struct g4_event *event, const struct g4_dev *dev, const char *path, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
