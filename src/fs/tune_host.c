/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label, UUID, the default policy and the quota for listed pages stand in the superblocks. One copy is written after the other, the second first unless it was the one
 * that could be read: a crash leaves the old name or the new one in the first that is whole. Pages keep the tag that they
 * have, which was the beginning of the first UUID: the superblock says it from then on.
 */
#include "fs/tune_host.h"

#include <stdlib.h>

#include "base/units_host.h"
#include "base/uuid_host.h"
#include "simt/simt_host.h"

bool g4_tune_quota(const char *text, uint64_t *bytes)
{
	*bytes = 0;
	return strcmp(text, "none") == 0 || (g4_parse_size(text, bytes) == 0 && *bytes >= G4_PAGE_BYTES);
}

static int write_copy(struct g4_wg *wg, struct g4_dev *dev, struct g4_superblock *sb, uint64_t address)
{
	g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), sb->header.generation, g4_superblock_tag(sb));
	return g4_dev_write(wg, dev, address, sb, sizeof(*sb), G4_IO_FUA);
}

int g4_tune(struct g4_dev *dev, const char *label, const uint8_t *uuid, uint32_t policy, const uint64_t *dedup_quota)
{
	struct g4_superblock *sb = (struct g4_superblock *)aligned_alloc(G4_PAGE_BYTES, sizeof(*sb));
	struct g4_wg *wg = g4_wg_create(0);
	bool second = false;
	int rc = sb && wg ? g4_superblock_read(wg, dev, sb, &second) : -G4_E_NOMEM;

	if (rc == 0) {
		const uint64_t backup = sb->size_bytes - G4_PAGE_BYTES;
		const uint32_t tag = g4_superblock_tag(sb);
		if (label) {
			memset(sb->label, 0, sizeof(sb->label));
			memcpy(sb->label, label, strnlen(label, G4_LABEL_BYTES - 1));
		}
		if (uuid) {
			memcpy(sb->uuid, uuid, G4_UUID_BYTES);
			sb->metadata_tag = tag;
			sb->features_incompat |= G4_FEATURE_INCOMPAT_TAG;
		}
		if (policy) {
			/* what is dirty was written back by the unmount, or never will be: nothing is reserved by the old one */
			for (uint32_t field = G4_POLICY_CHECKSUM; field <= G4_POLICY_DEDUP; field <<= 4)
				if (policy & field)
					sb->policy = (sb->policy & ~field) | (policy & field);
			if (sb->policy != g4_policy_of(G4_CHECKSUM_NONE))
				sb->features_incompat |= G4_FEATURE_INCOMPAT_SUMS;
			if (policy & G4_POLICY_DEDUP_ON)
				sb->features_incompat |= G4_FEATURES_DEDUP;
		}
		if (dedup_quota)
			sb->dedup_quota = *dedup_quota;
		rc = write_copy(wg, dev, sb, second ? G4_SUPERBLOCK_ADDRESS : backup);
		if (rc == 0)
			rc = write_copy(wg, dev, sb, second ? backup : G4_SUPERBLOCK_ADDRESS);
	}
	if (wg)
		g4_wg_destroy(wg);
	free(sb);
	return rc;
}
