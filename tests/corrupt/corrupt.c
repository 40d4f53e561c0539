/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every structure of the disk, damaged in every field. The fields come from format.h (fields.py), the places from two
 * images: one whose journal is home and whose orphan list is not empty, one with a journal that waits to be replayed.
 *
 * A case is one change of one place: zeros, ones, random bytes, a flipped bit or another structure's value in a field, or a page that is zero, full
 * of ones, random, exchanged with another of its kind, an older version of itself, or half of one. "Sealed" cases get
 * their checksum put right, as after an error in memory or by somebody's hand. For each:
 *
 *   use      the image is mounted, walked, read, changed and unmounted; it ends, with errors or right answers
 *   find     fsck finds the damage, unless the field is one that says nothing about others (list below)
 *   repair   fsck --repair makes it an image that fsck calls clean and that can be mounted, in which every file that the
 *            repair did not report has its contents and attributes, at its path or in lost+found
 *   again    a second repair changes no byte
 *   cut      a repair that stops in the middle of a write is finished by the next one, with the same promise
 *
 * Each step runs in a process of its own, with an alarm: a crash or a hang is a failure of one case. Settings:
 * CORRUPT_ROUNDS (how often each combination is tried), CORRUPT_SEED, CORRUPT_CASE (one case, by its number),
 * CORRUPT_SHARE (n: one case of n, drawn by lot), CORRUPT_SLICES and CORRUPT_SLICE (n, and which: every n-th case, so that
 * processes beside each other do all of them), CORRUPT_LEFT (without those that a build with
 * a sanitizer takes), CORRUPT_MANY (a directory with two levels of index pages), CORRUPT_EQUAL (one whose names have one hash),
 * CORRUPT_DIRECTORIES (their pages only).
 *
 * With G4_DIR_TINY the engine makes directories of pages with few entries, so that of one with some hundreds of names index pages have levels.
 *
 * The images are the same in every run, and so is each case by its number; only the engine's own threads, in "use" and when
 * a repaired image is mounted, are not.
 */
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corrupt/judge.h"
#include "corrupt/world.h"
#include "crash/clock.h"
#include "dir/leaf.h"
#include "engine/equal_names.h"
#include "fsck/journal.h"
#include "fsck/tables.h"
#include "hash/crc32c.h"
#include "hash/siphash.h"
#include "journal/block.h"

#define IMAGE_BYTES (24 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define DEADLINE_S 600
#define SLOW_SHARE 4 /* builds with sanitizers run one case of so many */

/* ------------------------------------------------------------------ fields */

struct field {
	const char *structure, *member;
	uint32_t offset, bytes, element_bytes;
};
static const struct field fields[] = {
#define FIELD(structure, member, element)                                                                              \
	{#structure, #member, offsetof(struct structure, member), sizeof(((struct structure *)NULL)->member), element},
#include "corrupt_fields.inc"
#undef FIELD
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* What may have any value, as far as fsck can know, once the checksum is right. */
static const char *const says_nothing[] = {
	"g4_block_header.check", /* 0: as versions before wrote it */
	"g4_block_header.generation",
	/* superblock: differs between the copies, or is only a label */
	"g4_superblock.state",
	"g4_superblock.label",
	"g4_superblock.mounted_ns",
	"g4_superblock.written_ns",
	"g4_superblock.mount_count",
	/* counts of what was in the past */
	"g4_root.damaged_pages",
	"g4_root.job_count",
	"g4_root.findings_lost",
	"g4_root.domains",
	/* attributes that users set, and times */
	"g4_inode.mode",
	"g4_inode.flags",
	"g4_inode.uid",
	"g4_inode.gid",
	"g4_inode.size",
	"g4_inode.generation",
	"g4_inode.atime_ns",
	"g4_inode.mtime_ns",
	"g4_inode.ctime_ns",
	"g4_inode.btime_ns",
	"g4_inode.rdev",
	"g4_inode.policy", /* where pages have sums: one of those that there are */
	"g4_inode.parent",
	"g4_inode.orphan_next",
	"g4_inode.change_count",
	/* contents */
	"g4_inode.inline_data",
	"g4_inode.map",
	"g4_dir_leaf.units",
	"g4_xattr_page.payload",
	"g4_xattr_record.space",
	"g4_xattr_record.name_bytes",
	"g4_xattr_record.record_bytes",
	"g4_xattr_record.value_bytes",
	/* a unit that is free, and unused descriptors */
	"g4_dir_leaf.used",
	"g4_dir_entry.collision",
	"g4_group_descriptor.free_pages",
	"g4_group_descriptor.slabs",
	"g4_group_descriptor.flags",
	"g4_group_descriptor.reserved",
	"g4_dir_index_entry.hash",
	"g4_dir_index_entry.collision",
	"g4_dir_index_entry.page",
	/* what is not listed costs space, and the sum of what is not listed says nothing */
	"g4_shares_page.listed",
	"g4_listing_page.sums",
	"g4_listing_page.day", /* any age is valid */
	"g4_listing_page.since",
	/* behind those that are counted */
	"g4_buffered_page.pages",
	/* for what version 1 does not have */
	"g4_root.ddt_root",
	"g4_root.ddt_directory",
	"g4_indirect_header.sums",
	/* the journal: a tail beyond its records is that of an empty log, a record that is not whole one that a crash tore */
	"g4_journal_header.tail_sequence",
	"g4_journal_header.tail_page",
	"g4_journal_commit.time_ns",
};

static bool is_reserved(const char *member)
{
	return strncmp(member, "reserved", 8) == 0 || strcmp(member, "tail") == 0;
}

static bool may_be_missed(const struct field *field)
{
	char name[128];

	snprintf(name, sizeof(name), "%s.%s", field->structure, field->member);
	if (is_reserved(field->member))
		return true;
	for (size_t i = 0; i < sizeof(says_nothing) / sizeof(says_nothing[0]); i++) {
		if (strcmp(name, says_nothing[i]) == 0)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ places */

struct site {
	const char *structure;
	uint64_t page; /* address */
	uint32_t offset;
	uint32_t type;
	bool spread; /* an indirect page's header */
	bool newest; /* of the journal's newest record: damage looks as if a crash had torn it */
};

struct base {
	const char *name;
	struct rig rig;
	uint8_t *older; /* the same image some changes ago */
	struct world_list oracle;
	struct site *sites;
	uint32_t site_count, site_room;
	uint64_t *pages; /* that are not zero */
	uint64_t page_count;
	uint32_t fs_tag;
	bool journal_only;
};

static struct base settled = {.name = "settled"}, dirty = {.name = "dirty", .journal_only = true};
static struct rig scratch; /* each case's copy */

static void add_site(struct base *base, const char *structure, uint64_t page, uint32_t offset, uint32_t type)
{
	if (base->site_count == base->site_room) {
		base->site_room = base->site_room == 0 ? 1024 : 2 * base->site_room;
		base->sites = realloc(base->sites, base->site_room * sizeof(*base->sites));
		if (base->sites == NULL)
			abort();
	}
	base->sites[base->site_count++] = (struct site){.structure = structure,
							.page = page,
							.offset = offset,
							.type = type,
							.spread = type == G4_BLOCK_INDIRECT};
}

static void add_inner_sites(struct base *base, uint64_t page, uint32_t type)
{
	const uint8_t *at = base->rig.image + page;

	if (type == G4_BLOCK_SLAB) {
		const struct g4_slab_header *slab = (const struct g4_slab_header *)(const void *)at;
		/* one of small blocks has sums there, of which most are of nothing */
		for (uint32_t slot = 1; slab->kind == G4_SLAB_INODES && slot < G4_SLAB_SLOTS; slot++) {
			const struct g4_inode *inode =
				(const struct g4_inode *)(const void *)(at + slot * G4_SLAB_SLOT_BYTES);
			if ((slab->used >> slot & 1) == 0)
				continue;
			add_site(base, "g4_inode", page, slot * G4_SLAB_SLOT_BYTES, type);
			if (S_ISREG(inode->mode) && (inode->flags & G4_INODE_INLINE) == 0 && inode->map[0] != 0)
				add_site(base, "mapped file", page, slot * G4_SLAB_SLOT_BYTES, type);
			if (S_ISDIR(inode->mode) && inode->map[0] == 0)
				add_site(base, "empty directory", page, slot * G4_SLAB_SLOT_BYTES, type);
		}
	} else if (type == G4_BLOCK_DIR_LEAF) {
		const struct g4_dir_leaf *leaf = (const struct g4_dir_leaf *)(const void *)at;
		for (uint32_t unit = G4_DIR_HEADER_UNITS; unit < G4_DIR_UNITS;) {
			if ((leaf->used[unit / 64] >> unit % 64 & 1) == 0) {
				unit++;
				continue;
			}
			add_site(base, "g4_dir_entry", page, unit * G4_DIR_UNIT_BYTES, type);
			unit += 1 +
				(at[unit * G4_DIR_UNIT_BYTES + offsetof(struct g4_dir_entry, name_bytes)] + 15u) / 16;
		}
	} else if (type == G4_BLOCK_DIR_INDEX) {
		const struct g4_dir_index *index = (const struct g4_dir_index *)(const void *)at;
		for (uint32_t i = 0; i < index->count; i++)
			add_site(base, "g4_dir_index_entry", page, 64 + i * 16, type);
	} else if (type == G4_BLOCK_XATTR) {
		const struct g4_xattr_page *xattr = (const struct g4_xattr_page *)(const void *)at;
		for (uint32_t byte = 0; byte < xattr->bytes;) {
			struct g4_xattr_record record;
			memcpy(&record, xattr->payload + byte, sizeof(record));
			add_site(base, "g4_xattr_record", page, 64 + byte, type);
			byte += record.record_bytes;
		}
	} else if (type == G4_BLOCK_GROUPS) {
		for (uint32_t group = 0; group < 2; group++)
			add_site(base, "g4_group_descriptor", page, 64 + 8 * group, type);
	} else if (type == G4_BLOCK_ALLOC) {
		for (uint32_t region = 0; region < 8; region++)
			add_site(base, "g4_region", page, 128 + 128 * region, type);
	}
}

static const char *structure_of(uint32_t type)
{
	static const char *const names[] = {
		[G4_BLOCK_SUPERBLOCK] = "g4_superblock",
		[G4_BLOCK_JOURNAL_HEADER] = "g4_journal_header",
		[G4_BLOCK_JOURNAL_DESCRIPTOR] = "g4_journal_descriptor",
		[G4_BLOCK_JOURNAL_COMMIT] = "g4_journal_commit",
		[G4_BLOCK_ROOT] = "g4_root",
		[G4_BLOCK_GROUPS] = "g4_groups_page",
		[G4_BLOCK_ALLOC] = "g4_alloc_page",
		[G4_BLOCK_SLAB] = "g4_slab_header",
		[G4_BLOCK_INDIRECT] = "g4_indirect_header",
		[G4_BLOCK_DIR_LEAF] = "g4_dir_leaf",
		[G4_BLOCK_DIR_INDEX] = "g4_dir_index",
		[G4_BLOCK_XATTR] = "g4_xattr_page",
		[G4_BLOCK_XATTR_VALUE] = "g4_xattr_page",
		[G4_BLOCK_SHARES] = "g4_shares_page",
		[G4_BLOCK_OWNERS] = "g4_owners_page",
		[G4_BLOCK_LISTING] = "g4_listing_page",
		[G4_BLOCK_BUFFERED] = "g4_buffered_page",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

/* The type of the page at an address, by its own word; 0: not a page of metadata. */
static uint32_t type_of_page(const struct base *base, uint64_t address)
{
	const struct g4_block_header *header =
		(const struct g4_block_header *)(const void *)(base->rig.image + address);
	struct g4_indirect_header indirect;
	g4_le64 slots[G4_INDIRECT_SLOTS];

	if (header->magic == G4_BLOCK_MAGIC)
		return g4_block_verify(header, header->type, g4_address_from(address), base->fs_tag) == 0 ?
			       header->type :
			       0;
	memcpy(slots, base->rig.image + address, sizeof(slots));
	return g4_indirect_verify(slots, g4_address_from(address), base->fs_tag, &indirect) == 0 ? G4_BLOCK_INDIRECT :
												   0;
}

static void add_page(struct base *base, uint64_t address)
{
	const uint32_t type = type_of_page(base, address);

	if (type == 0 || structure_of(type) == NULL)
		return;
	add_site(base, "page", address, 0, type);
	if (type != G4_BLOCK_INDIRECT)
		add_site(base, "g4_block_header", address, 0, type);
	add_site(base, structure_of(type), address, 0, type);
	add_inner_sites(base, address, type);
}

static void add_record(void *context, const struct g4_journal_record *record)
{
	struct base *base = context;
	struct g4_layout layout;

	g4_layout_of((const struct g4_superblock *)(const void *)(base->rig.image + G4_SUPERBLOCK_ADDRESS), &layout);
	const uint64_t log = layout.journal_bytes / G4_PAGE_BYTES - 1;
	for (uint32_t i = 0; i < base->site_count; i++)
		base->sites[i].newest = false;
	const uint32_t before = base->site_count;
	for (uint64_t i = 0; i < record->pages; i++) {
		const uint64_t address = layout.journal_address + (1 + (record->log_page + i) % log) * G4_PAGE_BYTES;
		if (i < record->descriptors || i + 1 == record->pages)
			add_page(base, address);
		else
			add_site(base, "page", address, 0, G4_BLOCK_NONE);
	}
	for (uint32_t i = before; i < base->site_count; i++)
		base->sites[i].newest = true;
}

static void find_sites(struct base *base)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];
	char *text = NULL;
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&text, &bytes);
	fsck.printed_limit = 10;
	if (g4_image_open(&image, base->rig.name, message, sizeof(message)) < 0 ||
	    g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_run(&fsck, &image, &journal) < 0)
		abort();
	fclose(fsck.out);
	if (fsck.problems != 0) {
		fprintf(stderr, "the %s image has problems before anything is damaged:\n%s", base->name, text);
		exit(1);
	}
	free(text);
	base->fs_tag = image.fs_tag;
	add_page(base, image.layout.journal_address);
	if (base->journal_only) {
		g4_image_scan_journal(&image, add_record, base, &journal);
		if (journal.records < 3) {
			fprintf(stderr, "the dirty image has %u records only\n", (unsigned)journal.records);
			exit(1);
		}
	} else {
		add_page(base, G4_SUPERBLOCK_ADDRESS);
		for (uint64_t page = image.layout.groups_address / G4_PAGE_BYTES; page < IMAGE_BYTES / G4_PAGE_BYTES;
		     page++) {
			if (g4_fsck_bit(fsck.used, page))
				add_page(base, page * G4_PAGE_BYTES);
		}
	}
	g4_fsck_free(&fsck);
	g4_image_close(&image);
}

/* ------------------------------------------------------------------ the images */

/* Holes of the image stay holes of its copies. */
static void find_pages(struct base *base)
{
	base->pages = malloc(IMAGE_BYTES / G4_PAGE_BYTES * sizeof(*base->pages));
	if (base->pages == NULL)
		abort();
	for (uint64_t at = 0; at < IMAGE_BYTES; at += G4_PAGE_BYTES) {
		const uint8_t *page = base->rig.image + at;
		if (page[0] != 0 || memcmp(page, page + 1, G4_PAGE_BYTES - 1) != 0)
			base->pages[base->page_count++] = at;
	}
}

static uint8_t *copy_of(const struct rig *rig)
{
	uint8_t *copy =
		mmap(NULL, rig->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED)
		abort();
	for (uint64_t at = 0; at < rig->bytes; at += G4_PAGE_BYTES) {
		if (rig->image[at] != 0 || memcmp(rig->image + at, rig->image + at + 1, G4_PAGE_BYTES - 1) != 0)
			memcpy(copy + at, rig->image + at, G4_PAGE_BYTES);
	}
	return copy;
}

static void bring_home(struct rig *rig)
{
	struct g4_image image;
	struct g4_dev *dev;
	char message[256];

	if (g4_dev_open(rig->name, NULL, &dev, message, sizeof(message)) < 0 ||
	    g4_image_open(&image, rig->name, message, sizeof(message)) < 0 || g4_fsck_replay(&image, NULL, dev) < 0)
		abort();
	g4_image_close(&image);
	g4_dev_close(dev);
}

static void mount_or_die(struct rig *rig)
{
	if (world_mount(rig) < 0)
		abort();
}

/* Listed from a copy, for a mount releases orphans and replays. */
static void make_oracle(struct base *base)
{
	struct rig copy;

	world_open(&copy, base->rig.image, base->rig.bytes);
	mount_or_die(&copy);
	world_list(&copy, &base->oracle);
	if (base->oracle.errors != 0)
		abort();
	world_unmount(&copy, false);
	rig_close(&copy);
}

static void make_bases(void)
{
	clock_restart();
	setenv("G4_TEST_DEDUP", "1", 1);
	rig_open(&settled.rig, IMAGE_BYTES, JOURNAL_BYTES);
	unsetenv("G4_TEST_DEDUP");
	mount_or_die(&settled.rig);
	world_populate(&settled.rig, rig_setting("CORRUPT_MANY", 0) != 0  ? WORLD_MANY :
				     rig_setting("CORRUPT_EQUAL", 0) != 0 ? WORLD_EQUAL :
									    WORLD_NORMAL);
	world_unmount(&settled.rig, true);
	settled.older = copy_of(&settled.rig);
	mount_or_die(&settled.rig);
	world_change(&settled.rig);
	world_unmount(&settled.rig, false);
	bring_home(&settled.rig);
	make_oracle(&settled);
	find_pages(&settled);
	find_sites(&settled);

	world_open(&dirty.rig, settled.rig.image, IMAGE_BYTES);
	mount_or_die(&dirty.rig);
	dirty.older = settled.older;
	for (int i = 0; i < 4; i++) {
		struct g4_attr attr;
		char name[32];
		snprintf(name, sizeof(name), "transaction %d", i);
		op_mknod(&dirty.rig, G4_NODE_ROOT, name, S_IFREG | 0600, &attr.ino);
		op_write(&dirty.rig, attr.ino, 0, 0, name, sizeof(name), NULL);
		op_sync(&dirty.rig);
	}
	world_unmount(&dirty.rig, false);
	make_oracle(&dirty);
	find_pages(&dirty);
	find_sites(&dirty);
}

/* ------------------------------------------------------------------ damage */

enum mutation { ZERO, ONES, RANDOM, FLIP, SIBLING, SWAP, OLDER, TORN, MUTATIONS };
static const char *const mutation_names[] = {"zero", "ones", "random", "flip", "sibling's", "swap", "older", "torn"};

struct damage {
	struct base *base;
	const struct field *field; /* NULL: the page */
	struct site site;
	enum mutation mutation;
	bool sealed;
	uint64_t seed;
};

static void mutate(uint8_t *at, uint32_t bytes, enum mutation mutation, uint64_t *seed)
{
	if (mutation == ZERO || mutation == ONES)
		memset(at, mutation == ZERO ? 0 : 0xff, bytes);
	else if (mutation == RANDOM)
		rig_pattern(at, rig_random(seed), bytes);
	else
		at[rig_random(seed) % bytes] ^= (uint8_t)(1u << rig_random(seed) % 8);
}

/* What follows from the other fields of a header; the CRC is 0. */
static void seal_header(const struct damage *damage, struct g4_block_header *header)
{
	struct g4_block_header filled;

	g4_block_fill(&filled, header->type, g4_address_from(header->address), header->generation, header->fs_tag);
	if (strcmp(damage->field->member, "check") != 0)
		header->check = filled.check;
	header->crc32c = 0;
}

static void seal_page(const struct damage *damage, uint8_t *page)
{
	struct g4_block_header header;

	memcpy(&header, page, sizeof(header));
	seal_header(damage, &header);
	memcpy(page, &header, sizeof(header));
	header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
	memcpy(page, &header, sizeof(header));
}

/* A field of the header that lies in the spare bits; when it is where sums are, which most images have not, mostly a pointer. */
static void damage_indirect(const struct damage *damage, uint8_t *page, uint64_t *seed)
{
	const struct field *field = damage->field;
	struct g4_indirect_header header;
	g4_le64 *slots = (g4_le64 *)(void *)page;

	g4_indirect_extract(slots, &header);
	g4_indirect_strip(slots);
	if (damage->mutation == SIBLING)
		slots[rig_random(seed) % 64] = slots[rig_random(seed) % 8];
	else if (strcmp(field->member, "sums") == 0 && rig_random(seed) % 4 != 0)
		mutate((uint8_t *)&slots[rig_random(seed) % G4_INDIRECT_SLOTS], 8, damage->mutation, seed);
	else
		mutate((uint8_t *)&header + field->offset, field->bytes, damage->mutation, seed);
	g4_indirect_strip(slots);
	if (damage->sealed)
		seal_header(damage, &header.header);
	g4_indirect_embed(slots, &header);
	if (!damage->sealed)
		return;
	header.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
	g4_indirect_strip(slots);
	g4_indirect_embed(slots, &header);
}

/* The same field, of which another structure of the kind has something in it. */
static const uint8_t *sibling_of(const struct damage *damage, uint64_t *seed)
{
	const struct base *base = damage->base;
	const struct field *field = damage->field;
	const uint32_t start = (uint32_t)(rig_random(seed) % base->site_count);
	const uint8_t *found = base->rig.image + damage->site.page + damage->site.offset + field->offset;

	for (uint32_t i = 0; i < base->site_count; i++) {
		const struct site *site = &base->sites[(start + i) % base->site_count];
		const uint8_t *at = base->rig.image + site->page + site->offset + field->offset;
		if (strcmp(site->structure, damage->site.structure) != 0 || (at[0] == 0 && at[1] == 0) ||
		    (site->page == damage->site.page && site->offset == damage->site.offset))
			continue;
		found = at;
		break;
	}
	return found;
}

static void damage_field(const struct damage *damage, uint8_t *page, uint64_t *seed)
{
	const struct field *field = damage->field;
	const uint32_t elements = field->bytes / field->element_bytes;
	uint32_t element = (uint32_t)(rig_random(seed) % elements);

	if (damage->site.spread) {
		damage_indirect(damage, page, seed);
		return;
	}
	if (rig_random(seed) % 2 == 0)
		element %= 4; /* the first ones are the most used */
	uint8_t *at = page + damage->site.offset + field->offset + (element % elements) * field->element_bytes;
	if (damage->mutation == SIBLING)
		memcpy(at, sibling_of(damage, seed), field->element_bytes);
	else
		mutate(at, field->element_bytes, damage->mutation, seed);
	if (damage->sealed)
		seal_page(damage, page);
}

static const struct site *another_of_its_kind(const struct damage *damage, uint64_t *seed)
{
	const struct base *base = damage->base;
	const uint32_t start = (uint32_t)(rig_random(seed) % base->site_count);

	for (uint32_t i = 0; i < base->site_count; i++) {
		const struct site *site = &base->sites[(start + i) % base->site_count];
		if (strcmp(site->structure, "page") == 0 && site->type == damage->site.type &&
		    site->page != damage->site.page)
			return site;
	}
	return &damage->site;
}

static void damage_page(const struct damage *damage, uint8_t *image, uint64_t *seed)
{
	uint8_t *page = image + damage->site.page, copy[G4_PAGE_BYTES];
	const struct site *other;

	switch (damage->mutation) {
	case SWAP:
		other = another_of_its_kind(damage, seed);
		memcpy(copy, page, sizeof(copy));
		memcpy(page, image + other->page, sizeof(copy));
		memcpy(image + other->page, copy, sizeof(copy));
		break;
	case OLDER:
		memcpy(page, damage->base->older + damage->site.page, G4_PAGE_BYTES);
		break;
	case TORN:
		memcpy(page, damage->base->older + damage->site.page, G4_PAGE_BYTES / 8 * (1 + rig_random(seed) % 7));
		break;
	default:
		mutate(page, G4_PAGE_BYTES, damage->mutation, seed);
	}
}

/* A fresh copy with the damage; false when nothing changed. */
static bool prepare(const struct damage *damage)
{
	const uint8_t *from = damage->base->rig.image;
	uint64_t seed = damage->seed;

	world_restore(&scratch, from, damage->base->pages, damage->base->page_count);
	if (damage->field != NULL)
		damage_field(damage, scratch.image + damage->site.page, &seed);
	else
		damage_page(damage, scratch.image, &seed);
	return memcmp(scratch.image + damage->site.page, from + damage->site.page, G4_PAGE_BYTES) != 0;
}

/* ------------------------------------------------------------------ judging */

/* Exit status of a step. */
enum verdict { GOOD = 0, MISSED = 10, REFUSED = 11, BAD = JUDGE_BAD };

/* True when the damaged page is what describes this inode. */
static bool is_described_by(const struct damage *damage, uint64_t ino)
{
	const uint8_t *page = damage->base->rig.image + damage->site.page;
	struct g4_indirect_header indirect;

	if (damage->site.type == G4_BLOCK_SLAB)
		return g4_align_down(g4_ptr_offset(ino), G4_PAGE_BYTES) == damage->site.page;
	if (damage->site.type == G4_BLOCK_XATTR || damage->site.type == G4_BLOCK_XATTR_VALUE)
		return ((const struct g4_xattr_page *)(const void *)page)->inode == ino;
	if (damage->site.type != G4_BLOCK_INDIRECT)
		return false;
	g4_indirect_extract((const g4_le64 *)(const void *)page, &indirect);
	return indirect.inode == ino;
}

static const struct world_file *oracle_by_ino(const struct base *base, uint64_t ino)
{
	for (uint32_t i = 0; i < base->oracle.count; i++) {
		if (base->oracle.files[i].ino == ino)
			return &base->oracle.files[i];
	}
	return NULL;
}

/* What the waiting transactions changed may be there or not when the journal is damaged. */
static bool is_in_journal(const struct damage *damage, const struct world_file *file)
{
	const struct world_file *before = oracle_by_ino(&settled, file->ino);

	return damage->base->journal_only && (before == NULL || !judge_is_same(before, file));
}

static void compare_repaired(const struct damage *damage, const struct world_list *list, const struct g4_fsck *reports,
			     uint32_t report_count, bool found)
{
	const bool believable = damage->sealed || damage->mutation == OLDER;

	if (list->errors != 0)
		judge_bad("%u errors while reading the repaired image", list->errors);
	for (uint32_t i = 0; i < damage->base->oracle.count; i++) {
		const struct world_file *wanted = &damage->base->oracle.files[i];
		const struct world_file *file = judge_find(list, wanted);
		if (judge_is_reported(reports, report_count, wanted->ino) || is_in_journal(damage, wanted))
			continue;
		/* What its own record says, with a right checksum, is what the file is. */
		if (believable && is_described_by(damage, wanted->ino))
			continue;
		if (file == NULL)
			judge_bad("'%s' is gone and nobody said so (found: %d)", wanted->path, found);
		if (!judge_is_same(file, wanted))
			judge_bad("'%s' is not what it was and nobody said so (mode %o %o, size %" PRIu64 " %" PRIu64
				  ", contents %d, "
				  "attributes %d)",
				  wanted->path, file->mode, wanted->mode, file->size, wanted->size,
				  file->contents == wanted->contents, file->attributes == wanted->attributes);
		if (strcmp(file->path, wanted->path) != 0 && strncmp(file->path, "lost+found", 10) != 0 &&
		    !believable && wanted->directory != UINT32_MAX &&
		    !judge_is_reported(reports, report_count, damage->base->oracle.files[wanted->directory].ino))
			judge_bad("'%s' is at '%s' now and nobody said so", wanted->path, file->path);
	}
}

/* ------------------------------------------------------------------ steps */

static void step_use(const struct damage *damage)
{
	struct world_list list;

	if (!world_use(&scratch, &list))
		_exit(REFUSED);
	for (uint32_t i = 0; !damage->sealed && damage->mutation != OLDER && i < list.count; i++) {
		const struct world_file *file = &list.files[i];
		const struct world_file *wanted = oracle_by_ino(damage->base, file->ino);
		if (!S_ISREG(file->mode) || file->contents == 0 || wanted == NULL || is_in_journal(damage, wanted))
			continue;
		if (file->contents != wanted->contents)
			judge_bad("the engine read wrong contents of '%s' without an error", file->path);
	}
	_exit(GOOD);
}

static uint64_t hash_image(void)
{
	uint64_t hash = 0;

	/* Reading a hole would fill it. */
	for (off_t at = 0; (at = lseek(scratch.fd, at, SEEK_DATA)) >= 0;) {
		const off_t end = lseek(scratch.fd, at, SEEK_HOLE);
		for (; at < end; at += (off_t)G4_PAGE_BYTES) {
			const uint64_t key[2] = {hash, (uint64_t)at};
			const uint8_t *page = scratch.image + at;
			if (page[0] != 0 || memcmp(page, page + 1, G4_PAGE_BYTES - 1) != 0)
				hash = g4_siphash13(key, page, G4_PAGE_BYTES);
		}
	}
	return hash;
}

static void expect_repaired(const struct damage *damage, const struct g4_fsck *reports, uint32_t count, bool found)
{
	struct world_list list;
	char *said = judge_words;
	const int64_t problems = judge_check(&scratch);

	if (problems != 0)
		judge_bad("fsck finds %" PRId64 " problems after the repair", problems);
	judge_words = said;
	if (rig_try_mount(&scratch, 0, NULL) < 0)
		judge_bad("the repaired image can not be mounted");
	world_list(&scratch, &list);
	compare_repaired(damage, &list, reports, count, found);
	if (rig_unmount(&scratch) < 0)
		judge_bad("the repaired image can not be unmounted");
	if (judge_check(&scratch) != 0)
		judge_bad("the repaired image has problems after a mount");
}

static void step_repair(const struct damage *damage)
{
	static struct g4_fsck first, second;
	const int64_t problems = judge_check(&scratch);

	if (problems < 0)
		_exit(REFUSED);
	judge_repair(&scratch, &first, 0);
	const uint64_t before = hash_image();
	char *said = judge_words;
	judge_repair(&scratch, &second, 0);
	if (second.found != 0)
		judge_bad("the second repair finds %" PRIu64 " problems", second.found);
	if (hash_image() != before)
		judge_bad("the second repair changes something");
	judge_words = said;
	expect_repaired(damage, &first, 1, problems != 0);
	_exit(problems != 0 ? GOOD : MISSED);
}

/* A repair that is cut, perhaps another one, and one that is not. */
static void step_cut(const struct damage *damage)
{
	static struct g4_fsck reports[3];
	uint64_t seed = damage->seed ^ 0xc07;

	for (int i = 0; i < 2; i++) {
		if (judge_repair(&scratch, &reports[i], 1 + rig_random(&seed) % 24) == 0)
			break;
	}
	judge_repair(&scratch, &reports[2], 0);
	expect_repaired(damage, reports, 3, true);
	_exit(GOOD);
}

/* ------------------------------------------------------------------ cases */

static struct {
	uint64_t cases, unchanged, found, missed, refused, mounted, cut, failed;
} total;
static uint64_t missed_by_field[FIELD_COUNT], tried_by_field[FIELD_COUNT];

static void print_case(FILE *out, uint64_t number, const struct damage *damage)
{
	fprintf(out, "case %" PRIu64 ": %s image, %s%s%s of the %s at 0x%" PRIx64 " + %u: %s%s", number,
		damage->base->name, damage->field == NULL ? "page" : damage->field->structure,
		damage->field == NULL ? "" : ".", damage->field == NULL ? "" : damage->field->member,
		damage->site.type == 0 ? "journal's copy" : g4_block_type_name(damage->site.type), damage->site.page,
		damage->site.offset, mutation_names[damage->mutation], damage->sealed ? ", sealed" : "");
}

/* Runs a step in a process of its own; its verdict. */
static int in_child(void (*step)(const struct damage *), const char *name, uint64_t number, const struct damage *damage)
{
	int status;

	prepare(damage);
	fflush(stdout);
	const pid_t child = fork();
	if (child < 0)
		abort();
	if (child == 0) {
		alarm(DEADLINE_S);
		if (freopen("/dev/null", "w", stdout) == NULL)
			_exit(BAD);
		step(damage);
		_exit(BAD);
	}
	if (waitpid(child, &status, 0) != child)
		abort();
	if (WIFEXITED(status) && WEXITSTATUS(status) != BAD)
		return WEXITSTATUS(status);
	total.failed++;
	print_case(stderr, number, damage);
	if (WIFSIGNALED(status))
		fprintf(stderr, ": '%s' ended by signal %d (%s)\n", name, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		fprintf(stderr, ": '%s' failed\n", name);
	return BAD;
}

/* The end of the log is where the newest record, or the last two when they were exchanged, can not be read. */
static bool looks_torn(const struct damage *damage)
{
	return damage->site.newest || (damage->base->journal_only && damage->mutation == SWAP);
}

static void run_case(uint64_t number, struct damage *damage)
{
	const uint64_t only = rig_setting("CORRUPT_CASE", UINT64_MAX);

	const uint64_t share = rig_setting("CORRUPT_SHARE", rig_slow() ? SLOW_SHARE : 1);
	const uint64_t left = rig_setting("CORRUPT_LEFT", 0); /* all but what a build with a sanitizer takes */
	const uint64_t slices = rig_setting("CORRUPT_SLICES", 1), slice = rig_setting("CORRUPT_SLICE", 0);
	const bool fits = rig_setting("CORRUPT_DIRECTORIES", 0) == 0 || damage->site.type == G4_BLOCK_DIR_LEAF ||
			  damage->site.type == G4_BLOCK_DIR_INDEX;
	uint64_t lot = number;

	const uint64_t drawn = rig_random(&lot);
	const bool taken = drawn % share == 0 && !(left && drawn % SLOW_SHARE == 0) && number % slices == slice;
	if (only != UINT64_MAX ? only != number : !taken || !fits)
		return;
	total.cases++;
	if (!prepare(damage)) {
		total.unchanged++;
		return;
	}
	/* Half of an older page may be all that changed since. */
	if (damage->mutation == TORN &&
	    memcmp(scratch.image + damage->site.page, damage->base->older + damage->site.page, G4_PAGE_BYTES) == 0)
		damage->mutation = OLDER;
	total.mounted += in_child(step_use, "use", number, damage) == GOOD;
	const int verdict = in_child(step_repair, "repair", number, damage);
	const bool listed = damage->field >= fields && damage->field < fields + FIELD_COUNT;
	const size_t field = listed ? (size_t)(damage->field - fields) : 0;
	tried_by_field[field] += listed;
	if (verdict == GOOD)
		total.found++;
	if (verdict == REFUSED)
		total.refused++;
	if (verdict == MISSED) {
		const bool allowed = damage->field == NULL ? damage->mutation == OLDER :
							     damage->sealed && may_be_missed(damage->field);
		total.missed++;
		missed_by_field[field] += listed;
		if (!allowed && !looks_torn(damage)) {
			total.failed++;
			print_case(stderr, number, damage);
			fprintf(stderr, ": fsck did not find it\n");
		}
	}
	if (verdict == GOOD && number % 3 == 0) {
		total.cut++;
		in_child(step_cut, "cut", number, damage);
	}
}

/* The n-th site of a structure in the base, counted round; NULL: it has none. */
static const struct site *pick(const struct base *base, const char *structure, uint32_t type, uint64_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < base->site_count; i++)
		count += strcmp(base->sites[i].structure, structure) == 0 && (type == 0 || base->sites[i].type == type);
	if (count == 0)
		return NULL;
	n %= count;
	for (uint32_t i = 0; i < base->site_count; i++) {
		if (strcmp(base->sites[i].structure, structure) == 0 && (type == 0 || base->sites[i].type == type) &&
		    n-- == 0)
			return &base->sites[i];
	}
	return NULL;
}

/* Damage that the random cases seldom make: one member of inodes of one sort. */
static void run_chosen(struct base *base, const char *sort, const char *member, enum mutation mutation, uint64_t count,
		       uint64_t *seed, uint64_t *number)
{
	const struct field *field = fields;

	while (strcmp(field->structure, "g4_inode") != 0 || strcmp(field->member, member) != 0)
		field++;
	struct field first = *field;
	first.bytes = first.element_bytes; /* of a map, the first pointer only */
	for (uint64_t i = 0; i < count; i++) {
		const struct site *site = pick(base, sort, 0, rig_random(seed));
		struct damage damage = {.base = base,
					.field = &first,
					.site = *site,
					.mutation = mutation,
					.sealed = true,
					.seed = rig_random(seed)};
		run_case((*number)++, &damage);
	}
}

static void run_base(struct base *base, uint64_t rounds, uint64_t *seed, uint64_t *number)
{
	for (uint64_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < FIELD_COUNT; i++) {
			for (int kind = 0; kind < 10; kind++) {
				const struct site *site = pick(base, fields[i].structure, 0, rig_random(seed));
				struct damage damage = {.base = base,
							.field = &fields[i],
							.site = site == NULL ? (struct site){.page = 0} : *site,
							.mutation = (enum mutation)(kind % 5),
							.sealed = kind >= 5,
							.seed = rig_random(seed)};
				if (site != NULL)
					run_case((*number)++, &damage);
			}
		}
		for (uint32_t type = 0; type <= G4_BLOCK_BUFFERED; type++) {
			for (int mutation = 0; mutation < MUTATIONS; mutation++) {
				if (mutation == SIBLING)
					continue;
				const struct site *site = pick(base, "page", type, rig_random(seed));
				struct damage damage = {.base = base,
							.site = site == NULL ? (struct site){.page = 0} : *site,
							.mutation = (enum mutation)mutation,
							.seed = rig_random(seed)};
				if (site != NULL)
					run_case((*number)++, &damage);
			}
		}
	}
}

/* With tiny pages: that there is an index page below another one. */
static void expect_levels(const struct base *base)
{
	uint32_t pages = 0;

	for (uint32_t i = 0; i < base->site_count; i++)
		pages += strcmp(base->sites[i].structure, "page") == 0 && base->sites[i].type == G4_BLOCK_DIR_INDEX;
	printf("%u index pages of directories\n", pages);
	if (G4_DIR_INDEX_FILL < G4_DIR_INDEX_ENTRIES && pages < 5)
		abort();
}

int main(void)
{
	const uint64_t rounds = rig_setting("CORRUPT_ROUNDS", 1);
	uint64_t seed = rig_setting("CORRUPT_SEED", 1), number = 0;

	make_bases();
	expect_levels(&settled);
	world_open(&scratch, settled.rig.image, IMAGE_BYTES);
	run_base(&settled, rounds, &seed, &number);
	run_chosen(&settled, "mapped file", "map", SIBLING, 16 * rounds, &seed, &number); /* two files claim a page */
	run_chosen(&settled, "empty directory", "entries", ONES, 2 * rounds, &seed, &number);
	run_chosen(&settled, "empty directory", "entries", RANDOM, 2 * rounds, &seed, &number);
	run_base(&dirty, rounds, &seed, &number);
	for (size_t i = 0; i < FIELD_COUNT && getenv("CORRUPT_VERBOSE") != NULL; i++) {
		if (missed_by_field[i] != 0)
			printf("not found: %s.%s, %" PRIu64 " of %" PRIu64 "\n", fields[i].structure, fields[i].member,
			       missed_by_field[i], tried_by_field[i]);
	}
	printf("%" PRIu64 " cases: %" PRIu64 " changed nothing, %" PRIu64 " found and repaired, %" PRIu64
	       " of fields that say nothing, %" PRIu64 " refused, %" PRIu64 " could be mounted as they were, %" PRIu64
	       " repairs cut; %" PRIu64 " failed\n",
	       total.cases, total.unchanged, total.found, total.missed, total.refused, total.mounted, total.cut,
	       total.failed);
	rig_close(&scratch);
	rig_close(&settled.rig);
	rig_close(&dirty.rig);
	return total.failed == 0 ? 0 : 1;
}
