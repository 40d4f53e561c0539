/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a file system: writes only what a mount reads, so it takes the same time on any size. An interrupted mkfs
 * leaves no superblock: the first copy is written last.
 */
#include "fs/mkfs_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/uuid_host.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

struct maker {
	struct g4_wg *wg;
	struct g4_dev *dev;
	struct g4_layout layout;
	struct g4_superblock *sb;
	uint8_t *page;
	uint32_t fs_tag;
	struct g4_progress *progress;
};

static int put_page(struct maker *m, uint32_t type, struct g4_address address)
{
	g4_block_seal(m->page, type, address, 0, m->fs_tag);
	return g4_dev_write(m->wg, m->dev, g4_address_stored(address), m->page, G4_PAGE_BYTES, 0);
}

static void clear(struct maker *m)
{
	memset(m->page, 0, G4_PAGE_BYTES);
}

/* Pages of a group that are in use from the start: the fixed area, the first slab, the backup, what is no device. */
static bool page_used(const struct maker *m, uint64_t page)
{
	uint64_t address = page * G4_PAGE_BYTES;

	return address < m->layout.data_address + G4_PAGE_BYTES || address >= m->layout.backup_address;
}

static bool group_untouched(const struct maker *m, uint64_t group)
{
	uint64_t first = group * G4_GROUP_BYTES, end = first + G4_GROUP_BYTES;

	return first >= m->layout.data_address + G4_PAGE_BYTES && end <= m->layout.backup_address;
}

static int write_map(struct maker *m, uint64_t group, uint16_t *free_pages, uint16_t *slabs)
{
	struct g4_alloc_page *map = (struct g4_alloc_page *)m->page;
	uint64_t slab = m->layout.data_address / G4_PAGE_BYTES;

	clear(m);
	map->group = group;
	*free_pages = 0;
	*slabs = 0;
	for (uint64_t p = 0; p < G4_GROUP_PAGES; p++) {
		struct g4_region *region = &map->regions[p / G4_REGION_PAGES];
		uint64_t bit = UINT64_C(1) << (p % 64), word = p % G4_REGION_PAGES / 64;
		if (page_used(m, group * G4_GROUP_PAGES + p))
			region->used[word] |= bit;
		else
			(*free_pages)++;
		if (group * G4_GROUP_PAGES + p == slab) {
			region->slab[word] |= bit;
			(*slabs)++;
		}
	}
	return put_page(m, G4_BLOCK_ALLOC, g4_layout_map_page(&m->layout, group));
}

/* Maps of the few groups that have something in them, and all descriptors. */
static int write_groups(struct maker *m)
{
	for (uint64_t first = 0; first < m->layout.group_count; first += G4_GROUPS_PER_PAGE) {
		struct g4_groups_page *page = NULL;
		const struct g4_address address = g4_layout_groups_page(&m->layout, first);
		int rc = 0;

		if (posix_memalign((void **)&page, G4_PAGE_BYTES, sizeof(*page)) != 0)
			return -G4_E_NOMEM;
		memset(page, 0, sizeof(*page));
		page->first_group = first;
		for (uint64_t g = first; g < m->layout.group_count && g < first + G4_GROUPS_PER_PAGE && rc == 0; g++) {
			uint16_t free_pages = G4_GROUP_PAGES, slabs = 0;
			bool touched = !group_untouched(m, g);
			if (touched)
				rc = write_map(m, g, &free_pages, &slabs);
			page->groups[g - first].free_pages = free_pages;
			page->groups[g - first].slabs = slabs;
			page->groups[g - first].flags = touched ? G4_GROUP_INITIALISED : 0;
		}
		memcpy(m->page, page, sizeof(*page));
		free(page);
		if (rc == 0)
			rc = put_page(m, G4_BLOCK_GROUPS, address);
		if (rc < 0)
			return rc;
		if (m->progress)
			g4_progress_step(m->progress, first + G4_GROUPS_PER_PAGE, m->layout.group_count);
	}
	return 0;
}

static int write_root_inode(struct maker *m, const struct g4_mkfs_options *options)
{
	struct g4_slab_header *slab = (struct g4_slab_header *)m->page;
	struct g4_inode *inode = (struct g4_inode *)(m->page + G4_SLAB_SLOT_BYTES);
	uint64_t now = (uint64_t)g4_realtime_ns();

	clear(m);
	slab->kind = G4_SLAB_INODES;
	slab->used = 3;
	inode->mode = (g4_le16)(G4_S_IFDIR | (options->root_mode ? options->root_mode & 07777 : 0755));
	inode->uid = options->root_uid;
	inode->gid = options->root_gid;
	inode->nlink = 2;
	inode->generation = 1;
	inode->atime_ns = inode->mtime_ns = inode->ctime_ns = inode->btime_ns = now;
	inode->parent = g4_ino_of_slot(g4_layout_data(&m->layout), 1);
	return put_page(m, G4_BLOCK_SLAB, g4_layout_data(&m->layout));
}

static int write_root_block(struct maker *m)
{
	clear(m);
	((struct g4_root *)m->page)->root_inode = g4_ino_of_slot(g4_layout_data(&m->layout), 1);
	return put_page(m, G4_BLOCK_ROOT, g4_layout_root(&m->layout));
}

/* Starts the sequence at a random number, so that no record of an older file system here can continue it. */
static int write_journal(struct maker *m)
{
	struct g4_journal_header *header = (struct g4_journal_header *)m->page;
	uint32_t start = 0;

	if (getrandom(&start, sizeof(start), 0) != (ssize_t)sizeof(start))
		return -G4_E_IO;
	clear(m);
	header->tail_sequence = (uint64_t)start + 1;
	return put_page(m, G4_BLOCK_JOURNAL_HEADER, g4_layout_journal(&m->layout));
}

int g4_superblock_make(const struct g4_layout *layout, struct g4_superblock *sb)
{
	memset(sb, 0, sizeof(*sb));
	sb->magic = G4_SUPERBLOCK_MAGIC;
	sb->version = G4_FORMAT_VERSION;
	sb->state = G4_STATE_CLEAN;
	sb->features_incompat = G4_FEATURE_INCOMPAT_HTREE;
	sb->size_bytes = layout->size_bytes;
	sb->total_bytes = layout->size_bytes;
	sb->journal_address = layout->journal_address;
	sb->journal_bytes = layout->journal_bytes;
	sb->groups_address = layout->groups_address;
	sb->alloc_address = layout->alloc_address;
	sb->group_count = layout->group_count;
	sb->data_address = layout->data_address;
	sb->root_address = layout->root_address;
	sb->created_ns = sb->written_ns = (uint64_t)g4_realtime_ns();
	sb->inode_bytes = sizeof(struct g4_inode);
	sb->small_bytes = G4_SLAB_SLOT_BYTES;
	sb->disk_count = 1;
	if (getrandom(sb->hash_key, sizeof(sb->hash_key), 0) != (ssize_t)sizeof(sb->hash_key) ||
	    g4_uuid_random(sb->uuid) < 0 || g4_uuid_random(sb->disk_uuids[0]) < 0)
		return -G4_E_IO;
	return 0;
}

static int fill_superblock(struct maker *m, const struct g4_mkfs_options *options)
{
	struct g4_superblock *sb = m->sb;
	const uint32_t checksum = options->checksum ? options->checksum : g4_policy_of(G4_MKFS_CHECKSUM);
	const int rc = g4_superblock_make(&m->layout, sb);

	if (rc < 0)
		return rc;
	if (checksum != g4_policy_of(G4_CHECKSUM_NONE)) {
		sb->policy = checksum;
		sb->features_incompat |= G4_FEATURE_INCOMPAT_SUMS;
	}
	if (options->dedup) {
		sb->policy |= G4_POLICY_DEDUP_ON;
		sb->features_incompat |= G4_FEATURE_INCOMPAT_SUMS | G4_FEATURES_DEDUP;
	}
	sb->dedup_quota = options->dedup_quota;
	if (options->uuid) {
		uint32_t tag;

		memcpy(sb->uuid, options->uuid, G4_UUID_BYTES);
		/* what an older file system with this UUID has left must not be taken for the new one's */
		if (getrandom(&tag, sizeof(tag), 0) != (ssize_t)sizeof(tag))
			return -G4_E_IO;
		sb->metadata_tag = tag;
		sb->features_incompat |= G4_FEATURE_INCOMPAT_TAG;
	}
	if (options->label)
		strncpy((char *)sb->label, options->label, G4_LABEL_BYTES - 1);
	m->fs_tag = g4_superblock_tag(sb);
	return 0;
}

static int write_superblocks(struct maker *m)
{
	const struct g4_address addresses[2] = {g4_layout_backup(&m->layout), G4_SUPERBLOCK};

	for (int i = 0; i < 2; i++) {
		memcpy(m->page, m->sb, sizeof(*m->sb));
		int rc = put_page(m, G4_BLOCK_SUPERBLOCK, addresses[i]);
		if (rc == 0)
			rc = g4_dev_flush(m->wg, m->dev);
		if (rc < 0)
			return rc;
	}
	memcpy(m->sb, m->page, sizeof(*m->sb));
	return 0;
}

/* Old signatures go first: page 0 (partition tables, other file systems) and both superblocks. */
static int wipe(struct maker *m)
{
	uint64_t addresses[3] = {0, G4_SUPERBLOCK_ADDRESS, m->layout.backup_address};
	int rc = 0;

	clear(m);
	for (int i = 0; i < 3 && rc == 0; i++)
		rc = g4_dev_write(m->wg, m->dev, addresses[i], m->page, G4_PAGE_BYTES, 0);
	return rc == 0 ? g4_dev_flush(m->wg, m->dev) : rc;
}

static int make(struct maker *m, const struct g4_mkfs_options *options)
{
	int rc = fill_superblock(m, options);

	if (rc == 0)
		rc = wipe(m);
	if (rc == 0)
		rc = write_journal(m);
	if (rc == 0)
		rc = write_groups(m);
	if (rc == 0)
		rc = write_root_inode(m, options);
	if (rc == 0)
		rc = write_root_block(m);
	if (rc == 0)
		rc = g4_dev_flush(m->wg, m->dev);
	return rc == 0 ? write_superblocks(m) : rc;
}

int g4_mkfs(struct g4_dev *dev, const struct g4_mkfs_options *options, struct g4_superblock *out, char *message,
	    size_t message_bytes)
{
	struct maker m = {.dev = dev, .sb = out, .progress = options->progress};
	void *page = NULL;
	int rc = 0;

	if (g4_dev_props(dev)->read_only)
		rc = -G4_E_DEV_READONLY;
	else if (options->label && strlen(options->label) >= G4_LABEL_BYTES)
		rc = -G4_E_INVAL;
	if (rc == 0)
		rc = g4_layout_plan(g4_dev_props(dev)->size_bytes, options->journal_bytes, &m.layout);
	if (rc == 0 && (posix_memalign(&page, G4_PAGE_BYTES, G4_PAGE_BYTES) != 0 || !(m.wg = g4_wg_create(0))))
		rc = -G4_E_NOMEM;
	m.page = (uint8_t *)page;
	if (rc == 0)
		rc = make(&m, options);
	if (rc == -G4_E_INVAL && options->journal_bytes)
		snprintf(
			message, message_bytes,
			"cannot make a file system: the journal must be a multiple of 4 KiB, at least 2 MiB and at most a "
			"quarter of the device");
	else if (rc < 0)
		snprintf(message, message_bytes, "cannot make a file system: %s", g4_strerror(rc));
	if (m.wg)
		g4_wg_destroy(m.wg);
	free(page);
	return rc;
}
