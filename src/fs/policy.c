/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting policies. A file system without sums, or shared pages, gets the feature first, durably, so that no older program meets what it does not know.
 * What is dirty is written back before: its space was reserved by the policy that it was written under.
 */
#include "fs/policy.h"

#include "data/writeback.h"
#include "fs/super.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

struct word {
	char text[G4_POLICY_TEXT];
	uint32_t bytes;
};
#define WORD(text)                                                                                                     \
	{                                                                                                              \
		text, sizeof(text) - 1                                                                                 \
	}
#define CHECKSUM_WORD(name, number, text) WORD(text),
/* by their fields' values */
static G4_CONST struct word checksums[] = {WORD("default"), G4_CHECKSUMS(CHECKSUM_WORD)};
static G4_CONST struct word dedups[] = {WORD("default"), WORD("off"), WORD("on")};
#define CHECKSUMS (sizeof(checksums) / sizeof(checksums[0]))
#define DEDUPS (sizeof(dedups) / sizeof(dedups[0]))
G4_STATIC_ASSERT(CHECKSUMS == 1 + G4_CHECKSUM_COUNT, "in the order of their numbers");
G4_STATIC_ASSERT(G4_POLICY_DEDUP_OFF == 1 << 4 && G4_POLICY_DEDUP_ON == 2 << 4, "in the order of their numbers");
static G4_CONST struct word unknown = WORD("unknown");

struct field {
	uint32_t mask, shift, count;
	const struct word *words;
};

G4_FN static struct field field_of(enum g4_policy_field field)
{
	const struct field checksum = {G4_POLICY_CHECKSUM, 0, CHECKSUMS, checksums};
	const struct field dedup = {G4_POLICY_DEDUP, 4, DEDUPS, dedups};

	return field == G4_POLICY_FIELD_DEDUP ? dedup : checksum;
}

G4_FN uint32_t g4_policy_text(const struct g4_inode_core *inode, enum g4_policy_field field, char *text)
{
	const struct field f = field_of(field);
	const uint32_t value = (inode->disk.policy & f.mask) >> f.shift;
	const struct word *word = value < f.count ? &f.words[value] : &unknown;

	memcpy(text, word->text, word->bytes);
	return word->bytes;
}

G4_FN int g4_policy_parse(enum g4_policy_field field, const char *text, uint64_t bytes, uint32_t *value)
{
	const struct field f = field_of(field);

	for (uint32_t k = 0; k < f.count; k++) {
		if (bytes == f.words[k].bytes && g4_bytes_equal(text, f.words[k].text, bytes)) {
			*value = k << f.shift;
			return 0;
		}
	}
	return -G4_E_INVAL;
}

G4_FN int g4_policy_set(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, enum g4_policy_field field, uint32_t value)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t before = inode->disk.policy, policy = (before & ~field_of(field).mask) | value;
	const uint64_t ctime_ns = inode->disk.ctime_ns;
	struct g4_txn txn;
	int rc = g4_writeback(wg, fs, index);

	if (rc == 0 && policy != 0)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SUMS);
	if (rc == 0 && value == G4_POLICY_DEDUP_ON)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED | G4_FEATURE_INCOMPAT_LISTED);
	if (rc == 0)
		rc = g4_begin(wg, fs, 4, &txn);
	if (rc < 0)
		return rc;
	inode->disk.policy = policy;
	inode->disk.ctime_ns = g4_now(fs);
	rc = g4_inode_log(wg, fs, &txn, inode);
	if (rc < 0) {
		inode->disk.policy = before;
		inode->disk.ctime_ns = ctime_ns;
	}
	return g4_end(fs, &txn, rc);
}
