/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a file system's name, and what it does by default, while nobody uses it. Host only. */
#ifndef G4_TUNE_HOST_H
#define G4_TUNE_HOST_H

#include "fs/mount_host.h"

/*
 * Gives a file system another label, UUID or fields of the policy of files that have none of their own, durably,
 * or another quota for its listed pages (g4_superblock.dedup_quota); NULL, 0: as it is.
 * The caller has the device for itself.
 */
int g4_tune(struct g4_dev *dev, const char *label, const uint8_t *uuid, uint32_t policy, const uint64_t *dedup_quota);
/* A quota as users write it: "none", or a size of a page at least. False: it is none. */
bool g4_tune_quota(const char *text, uint64_t *bytes);

#endif
