/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far words that many lanes change lie apart, in the structures of queues (slots.h, mapper.h, nvme/pair.h). Chosen when gpu4fs is
 * built (G4_QUEUE_PAD, CMakeLists.txt); docs/design/nvme.md "Padding" has what it is worth.
 */
#ifndef G4_DEV_PADDING_H
#define G4_DEV_PADDING_H

#ifndef G4_QUEUE_PAD
#define G4_QUEUE_PAD 128 /* bytes: 128, 32, or 0, which packs them */
#endif

/* Behind `used` bytes of a structure's part that is to have its own G4_QUEUE_PAD bytes, or a multiple of that. */
#if G4_QUEUE_PAD > 0
#define G4_QUEUE_PADDING(name, used) uint8_t name[G4_QUEUE_PAD - (used) % G4_QUEUE_PAD];
#else
#define G4_QUEUE_PADDING(name, used)
#endif

#endif
