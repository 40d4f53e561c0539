/* SPDX-License-Identifier: Apache-2.0 */
/* On-disk structures as named values. What is shown may be damaged: counts are bounded before they are used. */
#include "cli/show.h"
#include "format/owners.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "format/sums.h"

/* ------------------------------------------------------------------ superblock */

const char *g4_state_text(const struct g4_superblock *sb)
{
	if ((sb->state & G4_STATE_ERROR) != 0)
		return "stopped after an error";
	if ((sb->state & G4_STATE_MOUNTED) != 0)
		return "mounted, or not unmounted";
	return (sb->state & G4_STATE_CLEAN) != 0 ? "clean" : "unknown";
}

/* names: of the bits from 0 on. */
static void show_features(struct g4_report *report, const char *key, uint64_t bits, const char *const *names,
			  uint32_t count)
{
	g4_report_list(report, key);
	for (uint32_t bit = 0; bit < 64; bit++) {
		if ((bits >> bit & 1) == 0)
			continue;
		if (bit < count && names[bit] != NULL)
			g4_report_text(report, NULL, names[bit]);
		else
			g4_report_format(report, NULL, "unknown_%u", bit);
	}
	g4_report_end(report);
}

void g4_show_superblock(struct g4_report *report, const struct g4_superblock *sb)
{
	static const char *const incompat[] = {"htree",	 "resizing", "tag",	    "sums",    "shared",
					       "disks",	 "parity",   "listed",	    "rebuild", "domains",
					       "chunks", "buffered", "spare",	    "moved",   "shared_maps",
					       "whole",	 "rows",     "equal_hashes"};
	G4_STATIC_ASSERT(G4_FEATURES_INCOMPAT >> sizeof(incompat) / sizeof(incompat[0]) == 0,
			 "each feature that is known has a name");
	g4_report_name(report, "label", sb->label, strnlen((const char *)sb->label, G4_LABEL_BYTES));
	g4_report_uuid(report, "uuid", sb->uuid);
	g4_report_count(report, "format_version", sb->version);
	g4_report_text(report, "state", g4_state_text(sb));
	g4_report_size(report, "size_bytes", sb->size_bytes);
	g4_report_time(report, "created_ns", sb->created_ns);
	g4_report_time(report, "mounted_ns", sb->mounted_ns);
	g4_report_time(report, "written_ns", sb->written_ns);
	g4_report_count(report, "mount_count", sb->mount_count);
	g4_report_text(report, "data_checksums", g4_checksum_name(g4_policy_checksum(0, sb->policy)));
	g4_report_text(report, "deduplication", g4_policy_dedup(0, sb->policy) ? "on" : "off");
	if (sb->dedup_quota != 0)
		g4_report_size(report, "deduplication_quota_bytes", sb->dedup_quota);
	g4_report_count(report, "inode_bytes", sb->inode_bytes);
	g4_report_count(report, "small_block_bytes", sb->small_bytes);
	g4_report_count(report, "disk_index", sb->disk_index);
	g4_report_count(report, "disk_count", sb->disk_count);
	g4_report_hex(report, "journal_address", sb->journal_address);
	g4_report_size(report, "journal_bytes", sb->journal_bytes);
	g4_report_hex(report, "groups_address", sb->groups_address);
	g4_report_hex(report, "alloc_address", sb->alloc_address);
	g4_report_count(report, "group_count", sb->group_count);
	g4_report_hex(report, "root_address", sb->root_address);
	g4_report_hex(report, "data_address", sb->data_address);
	show_features(report, "features_compat", sb->features_compat, NULL, 0);
	show_features(report, "features_ro_compat", sb->features_ro_compat, NULL, 0);
	show_features(report, "features_incompat", sb->features_incompat, incompat,
		      sizeof(incompat) / sizeof(incompat[0]));
}

void g4_show_header(struct g4_report *report, const struct g4_block_header *header)
{
	g4_report_text(report, "type", g4_block_type_name(header->type));
	g4_report_hex(report, "address", header->address);
	g4_report_count(report, "generation", header->generation);
	g4_report_hex(report, "check", header->check);
	g4_report_hex(report, "crc32c", header->crc32c);
	g4_report_hex(report, "fs_tag", header->fs_tag);
}

/* ------------------------------------------------------------------ inodes and pointers */

void g4_show_pointer(struct g4_report *report, const char *key, g4_ptr ptr)
{
	static const char *const sizes[] = {"256B", "4K", "2M", "1G"};

	if (ptr == 0) {
		g4_report_text(report, key, "-");
		return;
	}
	g4_report_format(report, key, "0x%" PRIx64 ":%s%s%s%s%s%s", g4_address_stored(g4_ptr_address(ptr)),
			 sizes[g4_ptr_tag(ptr)], (ptr & G4_PTR_INDIRECT) != 0 ? ",indirect" : "",
			 (ptr & G4_PTR_VALID) != 0 ? "" : ",unwritten", (ptr & G4_PTR_PHYSICAL) != 0 ? "" : ",logical",
			 (ptr & G4_PTR_CHECKSUM) != 0 ? ",checksum" : "", (ptr & G4_PTR_SPARE) != 0 ? ",spare" : "");
}

static const char *type_text(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symbolic link";
	case S_IFCHR:
		return "character device";
	case S_IFBLK:
		return "block device";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "unknown";
	}
}

static void show_flags(struct g4_report *report, uint32_t flags)
{
	static const char *const names[] = {"inline", "immutable",   "append", "nodump",    "noatime",
					    "orphan", "sums_inline", "gap",    "shares_map"};

	g4_report_list(report, "flags");
	for (uint32_t bit = 0; bit < 32; bit++) {
		if ((flags >> bit & 1) == 0)
			continue;
		if (bit < sizeof(names) / sizeof(names[0]))
			g4_report_text(report, NULL, names[bit]);
		else
			g4_report_format(report, NULL, "unknown_%u", bit);
	}
	g4_report_end(report);
}

void g4_show_sum(struct g4_report *report, const char *key, const struct g4_sum_entry *sum)
{
	const uint32_t algorithm = g4_sum_entry_algorithm(sum);
	char text[2 * sizeof(sum->bytes) + 1] = "";
	uint32_t bytes = algorithm == G4_CHECKSUM_CRC32C ? 4 : algorithm == G4_CHECKSUM_XXH3 ? 16 : 32;

	if (algorithm == G4_CHECKSUM_NONE || algorithm == G4_CHECKSUM_LOST) {
		g4_report_text(report, key, algorithm == G4_CHECKSUM_LOST ? "lost" : "-");
		return;
	}
	if (algorithm == G4_CHECKSUM_LARGE) {
		g4_report_format(report, key, "pages of sums from 0x%" PRIx64 " on",
				 g4_address_stored(g4_sum_entry_place(sum)));
		return;
	}
	for (uint32_t i = 0; i < bytes;
	     i++) /* the header's bits and those that say what it is are not part of BLAKE3's */
		snprintf(text + 2 * i, 3, "%02x",
			 sum->bytes[i] & (i == 31 && algorithm == G4_CHECKSUM_BLAKE3 ? 7 : 255));
	g4_report_format(report, key, "%s:%s", g4_checksum_name(algorithm), text);
}

void g4_show_sums(struct g4_report *report, const struct g4_sum_entry *sums, uint32_t count)
{
	g4_report_list(report, "sums");
	for (uint32_t i = 0; i < count; i++) {
		if (g4_sum_entry_algorithm(&sums[i]) == G4_CHECKSUM_NONE)
			continue;
		g4_report_object(report, NULL);
		g4_report_count(report, "slot", i);
		g4_show_sum(report, "sum", &sums[i]);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void show_contents(struct g4_report *report, const struct g4_inode *inode)
{
	if ((inode->flags & G4_INODE_INLINE) != 0) {
		g4_report_name(report, "inline_data", inode->inline_data, g4_min64(inode->size, G4_INLINE_BYTES));
		return;
	}
	g4_report_count(report, "map_height", inode->map_height);
	g4_report_list(report, "map");
	uint32_t count = g4_inode_slots(inode);
	while (count > 0 && inode->map[count - 1] == 0)
		count--;
	for (uint32_t slot = 0; slot < count; slot++)
		g4_show_pointer(report, NULL, inode->map[slot]);
	g4_report_end(report);
	if ((inode->flags & G4_INODE_SUMS_INLINE) != 0)
		g4_show_sums(report, inode->few.sums, G4_FEW_PAGES);
	if (inode->checksums != 0)
		g4_report_hex(report, "sums_block", inode->checksums);
}

static const char *policy_text(uint32_t policy)
{
	return (policy & G4_POLICY_CHECKSUM) == 0 ? "default" : g4_checksum_name(g4_policy_checksum(policy, 0));
}

void g4_show_inode(struct g4_report *report, uint64_t ino, const struct g4_inode *inode)
{
	g4_report_hex(report, "inode", ino);
	g4_report_text(report, "type", type_text(inode->mode));
	g4_report_octal(report, "mode", inode->mode & 07777u);
	g4_report_count(report, "uid", inode->uid);
	g4_report_count(report, "gid", inode->gid);
	g4_report_size(report, "size_bytes", inode->size);
	g4_report_count(report, "pages", inode->pages);
	g4_report_count(report, "nlink", inode->nlink);
	g4_report_count(report, "generation", inode->generation);
	show_flags(report, inode->flags);
	g4_report_time(report, "atime_ns", inode->atime_ns);
	g4_report_time(report, "mtime_ns", inode->mtime_ns);
	g4_report_time(report, "ctime_ns", inode->ctime_ns);
	g4_report_time(report, "btime_ns", inode->btime_ns);
	g4_report_count(report, "change_count", inode->change_count);
	if (S_ISCHR(inode->mode) || S_ISBLK(inode->mode))
		g4_report_format(report, "rdev", "%u:%u", major(inode->rdev), minor(inode->rdev));
	if (S_ISDIR(inode->mode)) {
		g4_report_hex(report, "parent", inode->parent);
		g4_report_count(report, "entries", inode->entries);
	}
	g4_report_text(report, "checksum", policy_text(inode->policy));
	g4_report_text(report, "dedup",
		       (inode->policy & G4_POLICY_DEDUP) == 0 ? "default" :
		       g4_inode_domain(inode) != 0	      ? "domain" :
		       g4_policy_dedup(inode->policy, 0)      ? "on" :
								"off");
	if (g4_inode_domain(inode) != 0)
		g4_report_count(report, "domain", g4_inode_domain(inode));
	g4_show_pointer(report, "xattr", inode->xattr);
	if (inode->orphan_next != 0)
		g4_report_hex(report, "orphan_next", inode->orphan_next);
	show_contents(report, inode);
}

/* ------------------------------------------------------------------ space */

void g4_show_descriptor(struct g4_report *report, uint64_t group, const struct g4_group_descriptor *descriptor)
{
	g4_report_count(report, "group", group);
	g4_report_count(report, "free_pages", descriptor->free_pages);
	g4_report_count(report, "slabs", descriptor->slabs);
	g4_report_bool(report, "initialised", (descriptor->flags & G4_GROUP_INITIALISED) != 0);
}

static uint32_t count_bits(const g4_le64 *words)
{
	uint32_t count = 0;

	for (uint32_t word = 0; word < G4_REGION_PAGES / 64; word++)
		count += (uint32_t)__builtin_popcountll(words[word]);
	return count;
}

void g4_show_alloc_page(struct g4_report *report, const struct g4_alloc_page *page)
{
	g4_report_count(report, "group", page->group);
	g4_report_hex(report, "shares", page->shares);
	g4_report_list(report, "regions");
	for (uint32_t i = 0; i < G4_GROUP_REGIONS; i++) {
		const struct g4_region *region = &page->regions[i];
		char used[2 * sizeof(region->used) + 1];
		for (uint32_t word = 0; word < G4_REGION_PAGES / 64; word++)
			snprintf(used + 16 * word, 17, "%016" PRIx64, region->used[word]);
		g4_report_object(report, NULL);
		g4_report_hex(report, "address", page->group * G4_GROUP_BYTES + i * G4_REGION_BYTES);
		g4_report_count(report, "used", count_bits(region->used));
		g4_report_count(report, "slabs", count_bits(region->slab));
		g4_report_text(report, "map", used);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static uint32_t count_listed(const g4_le64 *words, uint32_t count)
{
	uint32_t bits = 0;

	for (uint32_t word = 0; word < count; word++)
		bits += (uint32_t)__builtin_popcountll(words[word]);
	return bits;
}

static void show_shares(struct g4_report *report, const struct g4_shares_page *page)
{
	g4_report_count(report, "group", page->group);
	g4_report_hex(report, "buffered", page->buffered);
	g4_report_list(report, "regions");
	for (uint32_t i = 0; i < G4_GROUP_REGIONS; i++) {
		const uint32_t listed = count_listed(page->listed[i], G4_REGION_PAGES / 64);
		if (page->owners[i] == 0 && page->whole[i] == 0 && listed == 0)
			continue;
		g4_report_object(report, NULL);
		g4_report_hex(report, "address", (page->group * G4_GROUP_REGIONS + i) * G4_REGION_BYTES);
		g4_report_hex(report, "owners", page->owners[i]);
		g4_report_count(report, "whole", page->whole[i]);
		g4_report_count(report, "listed", listed);
		g4_report_list(report, "listings");
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++) {
			g4_report_object(report, NULL);
			g4_report_hex(report, "address", page->listings[i][quarter]);
			g4_report_count(report, "listed", count_listed(&page->listed[i][2 * quarter], 2));
			g4_report_end(report);
		}
		g4_report_end(report);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void show_buffered(struct g4_report *report, const struct g4_buffered_page *page)
{
	g4_report_count(report, "group", page->group);
	g4_report_count(report, "count", page->count);
	g4_report_list(report, "pages");
	for (uint32_t k = 0; k < page->count && k < G4_BUFFERED_MOST; k++) {
		g4_report_object(report, NULL);
		g4_report_hex(report, "address",
			      page->group * G4_GROUP_PAGES * G4_PAGE_BYTES + page->pages[k] * G4_PAGE_BYTES);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void show_owners(struct g4_report *report, const struct g4_owners_page *page)
{
	g4_report_hex(report, "region", page->region * G4_REGION_BYTES);
	g4_report_count(report, "shared", page->shared);
	g4_report_list(report, "pages");
	for (uint32_t i = 0; i < G4_REGION_PAGES; i++) {
		if (page->more[i] == 0)
			continue;
		g4_report_object(report, NULL);
		g4_report_hex(report, "address", page->region * G4_REGION_BYTES + i * G4_PAGE_BYTES);
		g4_report_count(report, "owners", UINT64_C(1) + page->more[i]);
		g4_report_end(report);
	}
	g4_report_end(report);
}

/* Which of them are listed the page of shares says. */
static void show_listing(struct g4_report *report, const struct g4_listing_page *page)
{
	static const uint8_t none[G4_LISTING_SUM_BYTES];
	char text[2 * G4_LISTING_SUM_BYTES + 1];

	g4_report_hex(report, "region", page->region * G4_REGION_BYTES);
	g4_report_count(report, "quarter", page->quarter);
	g4_report_count(report, "day", page->day);
	g4_report_list(report, "sums");
	for (uint32_t i = 0; i < G4_LISTING_PAGES; i++) {
		if (memcmp(page->sums[i], none, sizeof(none)) == 0)
			continue;
		for (uint32_t k = 0; k < G4_LISTING_SUM_BYTES; k++)
			snprintf(text + 2 * k, 3, "%02x", page->sums[i][k]);
		g4_report_object(report, NULL);
		g4_report_hex(report, "address",
			      page->region * G4_REGION_BYTES +
				      ((uint64_t)page->quarter * G4_LISTING_PAGES + i) * G4_PAGE_BYTES);
		g4_report_text(report, "sum", text);
		g4_report_count(report, "day", g4_listing_day(page, i)); /* the latest that it may have been listed */
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void show_groups_page(struct g4_report *report, const struct g4_groups_page *page, uint64_t group_count)
{
	g4_report_list(report, "groups");
	for (uint64_t i = 0; i < G4_GROUPS_PER_PAGE && page->first_group + i < group_count; i++) {
		g4_report_object(report, NULL);
		g4_show_descriptor(report, page->first_group + i, &page->groups[i]);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void show_slab(struct g4_report *report, const uint8_t *page)
{
	struct g4_slab_header slab;

	memcpy(&slab, page, sizeof(slab));
	g4_report_text(report, "kind",
		       slab.kind == G4_SLAB_INODES ? "inodes" :
		       slab.kind == G4_SLAB_SMALL  ? "small" :
						     "unknown");
	g4_report_list(report, "slots");
	/* a block of sums takes two of them */
	for (uint32_t slot = slab.kind == G4_SLAB_SMALL ? 2 : 1; slot < G4_SLAB_SLOTS;
	     slot += slab.kind == G4_SLAB_SMALL ? 2 : 1) {
		struct g4_sums_block block;
		struct g4_inode inode;
		if ((slab.used >> slot & 1) == 0)
			continue;
		memcpy(&inode, page + slot * G4_SLAB_SLOT_BYTES, sizeof(inode));
		g4_report_object(report, NULL);
		g4_report_count(report, "slot", slot);
		if (slab.kind == G4_SLAB_INODES) {
			g4_report_hex(report, "inode", g4_ino_of_slot(g4_address_from(slab.header.address), slot));
			g4_report_text(report, "type", type_text(inode.mode));
			g4_report_size(report, "size_bytes", inode.size);
			g4_report_count(report, "nlink", inode.nlink);
		} else if (slab.kind == G4_SLAB_SMALL) {
			memcpy(&block, page + slot * G4_SLAB_SLOT_BYTES, sizeof(block));
			g4_show_sums(report, block.entries, G4_MAP_SLOTS);
		}
		g4_report_end(report);
	}
	g4_report_end(report);
}

/* ------------------------------------------------------------------ directories and attributes */

static const char *entry_type_text(uint32_t type)
{
	return type_text(type << 12);
}

void g4_show_entry(struct g4_report *report, const struct g4_entry_view *view)
{
	g4_report_object(report, NULL);
	g4_report_hex(report, "inode", view->entry.inode);
	g4_report_text(report, "type", entry_type_text(view->entry.file_type));
	g4_report_hex(report, "hash", view->entry.hash);
	g4_report_count(report, "collision", view->entry.collision);
	g4_report_name(report, "name", view->name, view->entry.name_bytes);
	g4_report_end(report);
}

static bool show_entry_visit(void *context, const struct g4_entry_view *view)
{
	g4_show_entry(context, view);
	return false;
}

void g4_show_index(struct g4_report *report, const struct g4_dir_index *index)
{
	g4_report_count(report, "level", index->level);
	g4_report_list(report, "children");
	for (uint32_t i = 0; i < g4_min64(index->count, G4_DIR_INDEX_ENTRIES); i++) {
		g4_report_object(report, NULL);
		g4_report_hex(report, "hash", index->entries[i].hash);
		if (index->entries[i].collision != 0)
			g4_report_count(report, "collision", index->entries[i].collision);
		g4_report_hex(report, "address", index->entries[i].page);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static const char *space_text(uint32_t space)
{
	static const char *const names[] = {
		"", "user.", "trusted.", "security.", "system.posix_acl_access", "system.posix_acl_default"};

	return space < sizeof(names) / sizeof(names[0]) ? names[space] : "?";
}

static void show_record(struct g4_report *report, const struct g4_xattr_record *record, const uint8_t *payload)
{
	char name[G4_NAME_MAX + 64];
	const size_t space_bytes = (size_t)snprintf(name, sizeof(name), "%s", space_text(record->space));

	memcpy(name + space_bytes, payload, record->name_bytes);
	g4_report_object(report, NULL);
	g4_report_name(report, "name", name, space_bytes + record->name_bytes);
	g4_report_count(report, "value_bytes", record->value_bytes);
	if ((record->flags & G4_XATTR_EXTERNAL) != 0) {
		g4_ptr value;
		memcpy(&value, payload + record->name_bytes, sizeof(value));
		g4_show_pointer(report, "value_at", value);
	} else {
		g4_report_name(report, "value", payload + record->name_bytes, record->value_bytes);
	}
	g4_report_end(report);
}

void g4_show_xattr_page(struct g4_report *report, const struct g4_xattr_page *page)
{
	g4_report_hex(report, "inode", page->inode);
	g4_show_pointer(report, "next", page->next);
	g4_report_count(report, "bytes", page->bytes);
	if (page->header.type != G4_BLOCK_XATTR)
		return;
	g4_report_list(report, "attributes");
	for (uint32_t at = 0; at < page->bytes;) { /* the page was validated */
		struct g4_xattr_record record;
		memcpy(&record, page->payload + at, sizeof(record));
		show_record(report, &record, page->payload + at + sizeof(record));
		at += record.record_bytes;
	}
	g4_report_end(report);
}

/* ------------------------------------------------------------------ journal pages and any block */

static void show_journal_descriptor(struct g4_report *report, const struct g4_journal_descriptor *page)
{
	g4_report_count(report, "sequence", page->sequence);
	g4_report_count(report, "blocks", page->block_count);
	g4_report_count(report, "revokes", page->revoke_count);
	g4_report_count(report, "data_pages", page->data_count);
	g4_report_count(report, "page_index", page->page_index);
	g4_report_count(report, "page_count", page->page_count);
}

static void show_journal_commit(struct g4_report *report, const struct g4_journal_commit *page)
{
	g4_report_count(report, "sequence", page->sequence);
	g4_report_count(report, "record_pages", page->record_pages);
	g4_report_hex(report, "record_crc32c", page->record_crc32c);
	g4_report_time(report, "time_ns", page->time_ns);
}

static void show_root(struct g4_report *report, const struct g4_root *root)
{
	g4_report_hex(report, "root_inode", root->root_inode);
	g4_report_hex(report, "orphan_head", root->orphan_head);
	g4_report_hex(report, "ddt_root", root->ddt_root);
	g4_report_hex(report, "ddt_directory", root->ddt_directory);
}

static void show_leaf(struct g4_report *report, const struct g4_image *image, const struct g4_dir_leaf *leaf)
{
	if (g4_dir_leaf_validate(leaf, &image->layout) < 0) {
		g4_report_text(report, "problem", "the leaf is damaged");
		return;
	}
	g4_report_list(report, "entries");
	g4_leaf_each_entry(leaf, g4_address_from(leaf->header.address), show_entry_visit, report);
	g4_report_end(report);
}

void g4_show_block(struct g4_report *report, struct g4_image *image, const void *page)
{
	const struct g4_block_header *header = page;
	const struct g4_journal_header *journal = page;

	switch (header->type) {
	case G4_BLOCK_SUPERBLOCK:
		g4_show_superblock(report, page);
		break;
	case G4_BLOCK_JOURNAL_HEADER:
		g4_report_count(report, "tail_sequence", journal->tail_sequence);
		g4_report_count(report, "tail_page", journal->tail_page);
		break;
	case G4_BLOCK_JOURNAL_DESCRIPTOR:
		show_journal_descriptor(report, page);
		break;
	case G4_BLOCK_JOURNAL_COMMIT:
		show_journal_commit(report, page);
		break;
	case G4_BLOCK_ROOT:
		show_root(report, page);
		break;
	case G4_BLOCK_GROUPS:
		show_groups_page(report, page, image->layout.group_count);
		break;
	case G4_BLOCK_ALLOC:
		g4_show_alloc_page(report, page);
		break;
	case G4_BLOCK_SHARES:
		show_shares(report, page);
		break;
	case G4_BLOCK_OWNERS:
		show_owners(report, page);
		break;
	case G4_BLOCK_BUFFERED:
		show_buffered(report, page);
		break;
	case G4_BLOCK_LISTING:
		show_listing(report, page);
		break;
	case G4_BLOCK_SLAB:
		show_slab(report, page);
		break;
	case G4_BLOCK_DIR_LEAF:
		show_leaf(report, image, page);
		break;
	case G4_BLOCK_DIR_INDEX:
		g4_show_index(report, page);
		break;
	case G4_BLOCK_XATTR:
	case G4_BLOCK_XATTR_VALUE:
		if (g4_xattr_page_validate(page, &image->layout) == 0)
			g4_show_xattr_page(report, page);
		else
			g4_report_text(report, "problem", "the attribute page is damaged");
		break;
	default:
		break;
	}
}
