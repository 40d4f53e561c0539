/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting policies. A file system without sums gets the feature first, durably, so that no older program meets what it does not know.
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
static G4_CONST struct word words[] = {WORD("default"), G4_CHECKSUMS(CHECKSUM_WORD)}; /* by the field's value */
#define WORDS (sizeof(words) / sizeof(words[0]))
G4_STATIC_ASSERT(WORDS == 1 + G4_CHECKSUM_COUNT, "in the order of their numbers");
static G4_CONST struct word unknown = WORD("unknown");

G4_FN uint32_t g4_policy_checksum_text(const struct g4_inode_core *inode, char *text)
{
	const uint32_t checksum = inode->disk.policy & G4_POLICY_CHECKSUM;
	const struct word *word = checksum < WORDS ? &words[checksum] : &unknown;

	memcpy(text, word->text, word->bytes);
	return word->bytes;
}

G4_FN int g4_policy_checksum_parse(const char *text, uint64_t bytes, uint32_t *checksum)
{
	for (*checksum = 0; *checksum < WORDS; ++*checksum)
		if (bytes == words[*checksum].bytes && g4_bytes_equal(text, words[*checksum].text, bytes))
			return 0;
	return -G4_E_INVAL;
}

G4_FN int g4_policy_set_checksum(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t checksum)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t before = inode->disk.policy, policy = (before & ~G4_POLICY_CHECKSUM) | checksum;
	const uint64_t ctime_ns = inode->disk.ctime_ns;
	struct g4_txn txn;
	int rc = g4_writeback(wg, fs, index);

	if (rc == 0 && policy != 0)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SUMS);
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
