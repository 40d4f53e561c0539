/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting policies. A file system without sums, shared pages, or domains gets the feature first, durably, so that no older program meets what it does not know.
 * What is dirty is written back before: its space was reserved by the policy that it was written under.
 */
#include "fs/policy.h"

#include "data/dirty.h"
#include "data/writeback.h"
#include "format/owners.h"
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
static G4_CONST struct word dedups[] = {WORD("default"), WORD("off"), WORD("on"), WORD("domain")};
#define LEVEL_WORD(text) WORD(text),
static G4_CONST struct word raids[] = {WORD("default"), G4_LEVEL_WORDS(LEVEL_WORD)};
#define RAIDS (sizeof(raids) / sizeof(raids[0]))
G4_STATIC_ASSERT(RAIDS == G4_LEVELS, "in the order of their numbers");
#define CHECKSUMS (sizeof(checksums) / sizeof(checksums[0]))
#define DEDUPS (sizeof(dedups) / sizeof(dedups[0]))
G4_STATIC_ASSERT(CHECKSUMS == 1 + G4_CHECKSUM_COUNT, "in the order of their numbers");
G4_STATIC_ASSERT(G4_POLICY_DEDUP_OFF == 1 << 4 && G4_POLICY_DEDUP_ON == 2 << 4 && G4_POLICY_DEDUP_DOMAIN == 3 << 4,
		 "in the order of their numbers");
static G4_CONST struct word unknown = WORD("unknown");

struct field {
	uint32_t mask, shift, count;
	const struct word *words;
};

G4_FN static struct field field_of(enum g4_policy_field field)
{
	const struct field checksum = {G4_POLICY_CHECKSUM, 0, CHECKSUMS, checksums};
	const struct field dedup = {G4_POLICY_DEDUP, 4, DEDUPS, dedups};
	const struct field raid = {G4_POLICY_RAID, G4_POLICY_RAID_SHIFT, RAIDS, raids};

	return field == G4_POLICY_FIELD_DEDUP ? dedup : field == G4_POLICY_FIELD_RAID ? raid : checksum;
}

/* Its digits: how many. */
G4_FN static uint32_t number_text(uint64_t number, char *text)
{
	uint32_t digits = 1;

	number = g4_min64(number, G4_DOMAIN_MOST); /* of an image that says anything */

	for (uint64_t rest = number; rest >= 10; rest /= 10)
		digits++;
	for (uint32_t k = digits; k-- > 0; number /= 10)
		text[k] = (char)('0' + number % 10);
	return digits;
}
G4_STATIC_ASSERT(G4_DOMAIN_MOST < UINT64_C(1) << 32 && G4_POLICY_TEXT >= 10, "it has room for one");

G4_FN uint32_t g4_policy_text(const struct g4_inode_core *inode, enum g4_policy_field field, char *text)
{
	if (field == G4_POLICY_FIELD_DOMAIN)
		return number_text(g4_inode_domain(&inode->disk), text);
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

/* A number that no domain has had. In a transaction with a credit. */
G4_FN static int new_domain(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint64_t *domain)
{
	uint32_t line;
	int rc = g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, &line);

	if (rc < 0)
		return rc;
	struct g4_root *root = (struct g4_root *)g4_line_data(&fs->cache, line);
	uint64_t made = g4_load64_rlx(&root->domains);
	while (made < G4_DOMAIN_MOST) {
		g4_txn_dirty(txn, line);
		if (g4_cas64(&root->domains, made, made + 1))
			break;
		made = g4_load64_rlx(&root->domains); /* another directory has got one at the same time */
	}
	g4_cache_put(&fs->cache, line);
	*domain = made + 1;
	return made < G4_DOMAIN_MOST ? 0 : -G4_E_NOSPC;
}

/*
 * The field changes in an inode, and the domain with it: what is a directory's, or a file's, own from now on. An inode that
 * has one keeps it, or its
 * owner could use the numbers up.
 */
G4_FN static int change(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			enum g4_policy_field field, uint32_t value)
{
	const struct g4_inode before = inode->disk;
	uint64_t domain = value == G4_POLICY_DEDUP_DOMAIN ? g4_inode_domain(&before) : 0;
	int rc = value == G4_POLICY_DEDUP_DOMAIN && domain == 0 ? new_domain(wg, fs, txn, &domain) : 0;

	if (rc < 0)
		return rc;
	inode->disk.policy = (before.policy & ~field_of(field).mask) | value;
	if (field == G4_POLICY_FIELD_DEDUP && (domain != 0 || g4_inode_domain(&before) != 0))
		g4_inode_set_domain(&inode->disk, domain);
	inode->disk.ctime_ns = g4_now(fs);
	rc = g4_inode_log(wg, fs, txn, inode);
	if (rc < 0)
		inode->disk = before;
	return rc;
}

/* A level that the file system has not been given would be a file that can not be written. */
G4_FN static bool has_level(const struct g4_fs *fs, uint32_t value)
{
	const uint32_t pool = g4_policy_pool(fs, value);

	if (pool == G4_LEVEL_OWN)
		return true;
	for (uint64_t region = 0; region < g4_load64_acq(&fs->alloc.region_count); region++)
		if (g4_alloc_region_pool(&fs->alloc, region) == pool)
			return true;
	return false;
}

G4_FN int g4_policy_set(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, enum g4_policy_field field, uint32_t value)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t policy = (inode->disk.policy & ~field_of(field).mask) | value;
	struct g4_txn txn;

	if (field == G4_POLICY_FIELD_RAID && value != 0 &&
	    (!(fs->super.features_incompat & G4_FEATURE_INCOMPAT_CHUNKS) || !has_level(fs, value)))
		return -G4_E_NOTSUP;
	int rc = g4_writeback(wg, fs, index);

	if (rc == 0 && policy != 0)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SUMS);
	if (rc == 0 && (value == G4_POLICY_DEDUP_ON || value == G4_POLICY_DEDUP_DOMAIN))
		rc = g4_super_add_feature(wg, fs, G4_FEATURES_DEDUP);
	if (rc == 0 && value == G4_POLICY_DEDUP_DOMAIN)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_DOMAINS);
	if (rc == 0)
		rc = g4_begin(wg, fs, 5, &txn);
	if (rc < 0)
		return rc;
	return g4_end(fs, &txn, change(wg, fs, &txn, inode, field, value));
}
