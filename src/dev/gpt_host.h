/* SPDX-License-Identifier: Apache-2.0 */
/* GUID partition tables (UEFI Specification 2.10, chapter 5), read only: where a partition of a device lies. Host only. */
#ifndef G4_DEV_GPT_HOST_H
#define G4_DEV_GPT_HOST_H

#include "dev/dev_ops_host.h"

struct g4_partition {
	uint64_t offset_bytes, bytes;
};

/*
 * Partition `number`, from 1 on, of an open device. The table is believed only if it is whole: a protective MBR, signature and sizes, both
 * checksums, every partition within the usable blocks, none over another. The backup at the device's end stands in for a primary one that
 * is damaged, with a warning. 0, or a code and a sentence, which begins with `name`. Leader, without requests under way.
 */
int g4_gpt_find(const char *name, struct g4_dev *dev, uint32_t number, struct g4_partition *out,
		struct g4_dev_message message);

#endif
