/* SPDX-License-Identifier: Apache-2.0 */
/* Each structure's validation: a good one passes, each field out of range is caught, random bytes never hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka needs the three above */
#include <cmocka.h>

#include "format/layout.h"

#define DIRECTORY 0040755
#define REGULAR 0100644
#define SYMLINK 0120777
#define CHARACTER 0020600
#define FIFO 0010600

static struct g4_layout layout;

static int plan_layout(void **state)
{
	(void)state;
	return g4_layout_plan(4 * G4_GIB, 0, &layout);
}

static uint64_t some_ino(void)
{
	return g4_ino_at(layout.data_address + 4096 + 256);
}

static g4_ptr some_page(void)
{
	return g4_ptr_at(layout.data_address + 8192, G4_TAG_4K, G4_PTR_VALID);
}

static g4_ptr some_2m(void)
{
	return g4_ptr_at(g4_align_up(layout.data_address, G4_REGION_BYTES), G4_TAG_2M, G4_PTR_VALID);
}

static struct g4_inode good_inode(uint16_t mode)
{
	struct g4_inode inode = {.mode = mode, .nlink = 1};

	if (mode == DIRECTORY) {
		inode.size = 4096;
		inode.nlink = 2;
		inode.parent = some_ino();
		inode.map[0] = some_page();
	} else if (mode == REGULAR) {
		inode.size = 100000;
		inode.map[3] = some_page();
		inode.map[4] = some_page() & ~G4_PTR_VALID;
	} else if (mode == SYMLINK) {
		inode.flags = G4_INODE_INLINE;
		inode.size = 5;
		memcpy(inode.inline_data, "there", 5);
	}
	return inode;
}

static void inode_numbers(void **state)
{
	(void)state;
	assert_true(g4_ino_plausible(some_ino(), &layout));
	assert_true(g4_ino_plausible(g4_ino_at(layout.data_address + 256), &layout));
	assert_false(g4_ino_plausible(0, &layout));
	assert_false(g4_ino_plausible(1, &layout));
	assert_false(g4_ino_plausible(some_ino() | G4_PTR_INDIRECT, &layout));
	assert_false(g4_ino_plausible(some_ino() & ~G4_PTR_VALID, &layout));
	assert_false(g4_ino_plausible(some_ino() + 128, &layout));
	assert_false(g4_ino_plausible(g4_ino_at(layout.data_address), &layout)); /* slot 0 */
	assert_false(g4_ino_plausible(g4_ino_at(layout.root_address + 256), &layout));
	assert_false(g4_ino_plausible(g4_ino_at(layout.backup_address + 256), &layout));
	assert_false(g4_ino_plausible(g4_ino_at(UINT64_MAX), &layout));
}

static void pointers(void **state)
{
	(void)state;
	assert_int_equal(g4_ptr_validate(some_page(), &layout), 0);
	assert_int_equal(g4_ptr_validate(some_page() & ~G4_PTR_VALID, &layout), 0);
	assert_int_equal(g4_ptr_validate(some_page() | G4_PTR_INDIRECT, &layout), 0);
	assert_int_equal(g4_ptr_validate(some_2m(), &layout), 0);
	assert_int_equal(g4_ptr_validate(g4_ptr_at(G4_GIB, G4_TAG_1G, G4_PTR_VALID), &layout), 0);

	const g4_ptr bad[] = {
		some_page() & ~G4_PTR_PHYSICAL,
		some_page() | G4_PTR_SPARE,
		some_page() | G4_PTR_CHECKSUM,
		some_page() + 128,
		(some_page() | G4_PTR_INDIRECT) & ~G4_PTR_VALID,
		some_2m() | G4_PTR_INDIRECT,
		some_2m() + 4096,
		g4_ptr_at(0, G4_TAG_2M, G4_PTR_VALID),
		g4_ptr_at(layout.data_address, G4_TAG_SMALL, G4_PTR_VALID),
		g4_ptr_at(layout.root_address, G4_TAG_4K, G4_PTR_VALID),
		g4_ptr_at(layout.backup_address, G4_TAG_4K, G4_PTR_VALID),
		g4_ptr_at(layout.size_bytes, G4_TAG_4K, G4_PTR_VALID),
		g4_ptr_at(g4_align_down(layout.backup_address, G4_REGION_BYTES), G4_TAG_2M, G4_PTR_VALID),
		g4_ptr_at(3 * G4_GIB, G4_TAG_1G, G4_PTR_VALID), /* would take the second superblock in */
		UINT64_MAX,
		G4_PTR_PHYSICAL,
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(g4_ptr_validate(bad[i], &layout), -G4_E_CORRUPT_MAP);
}

static void good_inodes_pass(void **state)
{
	const uint16_t modes[] = {DIRECTORY, REGULAR, SYMLINK, CHARACTER, FIFO};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		const struct g4_inode inode = good_inode(modes[i]);
		assert_int_equal(g4_inode_validate(&inode, &layout), 0);
	}

	struct g4_inode inode = good_inode(REGULAR);
	inode.map_height = 1;
	inode.map[3] = some_2m();
	inode.map[4] = some_page() | G4_PTR_INDIRECT;
	inode.map[5] = some_2m() & ~G4_PTR_VALID;
	assert_int_equal(g4_inode_validate(&inode, &layout), 0);
	inode.map_height = 2;
	inode.map[3] = inode.map[5] = g4_ptr_at(G4_GIB, G4_TAG_1G, G4_PTR_VALID);
	assert_int_equal(g4_inode_validate(&inode, &layout), 0);
	inode.size = G4_FILE_MAX_BYTES;
	inode.map_height = G4_MAP_MAX_HEIGHT;
	inode.map[3] = inode.map[5] = 0;
	assert_int_equal(g4_inode_validate(&inode, &layout), 0);
}

/* X(mode of a good inode, field, value out of range) */
#define INODE_DAMAGE(X)                                                                                                \
	X(REGULAR, mode, 0)                                                                                            \
	X(REGULAR, mode, 0170644)                                                                                      \
	X(REGULAR, mode, CHARACTER)                                                                                    \
	X(REGULAR, map_height, G4_MAP_MAX_HEIGHT + 1)                                                                  \
	X(REGULAR, map_height, 1)                                                                                      \
	X(REGULAR, reserved0, 1)                                                                                       \
	X(REGULAR, flags, G4_INODE_KNOWN + 1)                                                                          \
	X(REGULAR, flags, G4_INODE_INLINE)                                                                             \
	X(REGULAR, flags, G4_INODE_SHARES_MAP | G4_INODE_SUMS_INLINE)                                                  \
	X(REGULAR, size, G4_FILE_MAX_BYTES + 1)                                                                        \
	X(REGULAR, pages, UINT64_MAX)                                                                                  \
	X(REGULAR, nlink, G4_LINK_MAX + 1)                                                                             \
	X(REGULAR, entries, 1)                                                                                         \
	X(REGULAR, xattr, some_ino())                                                                                  \
	X(REGULAR, xattr, some_page() & ~G4_PTR_VALID)                                                                 \
	X(REGULAR, xattr, some_2m())                                                                                   \
	X(REGULAR, checksums, some_page())                                                                             \
	X(REGULAR, orphan_next, 1)                                                                                     \
	X(REGULAR, map[0], 1)                                                                                          \
	X(REGULAR, map[0], some_2m())                                                                                  \
	X(REGULAR, map[0], some_page() | G4_PTR_INDIRECT)                                                              \
	X(REGULAR, map[15], UINT64_MAX)                                                                                \
	X(DIRECTORY, size, 100)                                                                                        \
	X(DIRECTORY, nlink, 1)                                                                                         \
	X(DIRECTORY, parent, 0)                                                                                        \
	X(DIRECTORY, flags, G4_INODE_INLINE)                                                                           \
	X(DIRECTORY, flags, G4_INODE_SHARES_MAP)                                                                       \
	X(DIRECTORY, map[0], some_page() & ~G4_PTR_VALID)                                                              \
	X(SYMLINK, size, 129)                                                                                          \
	X(SYMLINK, map_height, 1)                                                                                      \
	X(CHARACTER, size, 1)                                                                                          \
	X(CHARACTER, map_height, 1)                                                                                    \
	X(CHARACTER, map[7], some_page())                                                                              \
	X(CHARACTER, flags, G4_INODE_INLINE)                                                                           \
	X(FIFO, size, 4096)

static void every_damaged_inode_field_is_caught(void **state)
{
	(void)state;
#define CHECK_DAMAGE(mode_of, field, value)                                                                            \
	{                                                                                                              \
		struct g4_inode inode = good_inode(mode_of);                                                           \
		inode.field = (value);                                                                                 \
		assert_int_equal(g4_inode_validate(&inode, &layout), -G4_E_CORRUPT_INODE);                             \
	}
	INODE_DAMAGE(CHECK_DAMAGE)
#undef CHECK_DAMAGE
	struct g4_inode inode = good_inode(SYMLINK);
	inode.flags = 0;
	memset(inode.map, 0, sizeof(inode.map));
	inode.size = G4_PATH_MAX;
	assert_int_equal(g4_inode_validate(&inode, &layout), -G4_E_CORRUPT_INODE);

	/* A page of one size where the slot's height asks for another. */
	inode = good_inode(REGULAR);
	memset(inode.map, 0, sizeof(inode.map));
	inode.map_height = 2;
	inode.map[0] = some_2m();
	assert_int_equal(g4_inode_validate(&inode, &layout), -G4_E_CORRUPT_INODE);
	inode.map_height = 3;
	inode.map[0] = g4_ptr_at(G4_GIB, G4_TAG_1G, G4_PTR_VALID);
	assert_int_equal(g4_inode_validate(&inode, &layout), -G4_E_CORRUPT_INODE);
}

static void slabs(void **state)
{
	struct g4_slab_header slab = {.kind = G4_SLAB_INODES, .used = 0x8001};

	(void)state;
	assert_int_equal(g4_slab_validate(&slab), 0);
	slab.used = 0x8000;
	assert_int_equal(g4_slab_validate(&slab), -G4_E_CORRUPT_ALLOC);
	slab.used = 1;
	slab.kind = 0;
	assert_int_equal(g4_slab_validate(&slab), -G4_E_CORRUPT_ALLOC);
	slab.kind = 3;
	assert_int_equal(g4_slab_validate(&slab), -G4_E_CORRUPT_ALLOC);
}

static void allocation_maps(void **state)
{
	static struct g4_alloc_page page;

	(void)state;
	page.group = 5;
	page.regions[30].used[7] = UINT64_C(1) << 63;
	page.regions[30].slab[7] = UINT64_C(1) << 63;
	assert_int_equal(g4_alloc_page_validate(&page, 5), 0);
	assert_int_equal(g4_alloc_page_validate(&page, 6), -G4_E_CORRUPT_ALLOC);
	page.regions[30].slab[7] |= 1; /* a slab on a free page */
	assert_int_equal(g4_alloc_page_validate(&page, 5), -G4_E_CORRUPT_ALLOC);
}

static void group_descriptors(void **state)
{
	static struct g4_groups_page page;

	(void)state;
	page.first_group = 504;
	page.groups[0] = (struct g4_group_descriptor){.free_pages = G4_GROUP_PAGES};
	page.groups[1] = (struct g4_group_descriptor){.free_pages = 10, .slabs = 7, .flags = G4_GROUP_INITIALISED};
	assert_int_equal(g4_groups_page_validate(&page, 504, 506), 0);
	assert_int_equal(g4_groups_page_validate(&page, 0, 506), -G4_E_CORRUPT_ALLOC);
	assert_int_equal(g4_groups_page_validate(&page, 504, 504), -G4_E_CORRUPT_ALLOC);

#define CHECK_GROUP(field, value)                                                                                      \
	{                                                                                                              \
		const struct g4_group_descriptor saved = page.groups[1];                                               \
		page.groups[1].field = (value);                                                                        \
		assert_int_equal(g4_groups_page_validate(&page, 504, 506), -G4_E_CORRUPT_ALLOC);                       \
		page.groups[1] = saved;                                                                                \
	}
	CHECK_GROUP(free_pages, G4_GROUP_PAGES + 1)
	CHECK_GROUP(slabs, G4_GROUP_PAGES)
	CHECK_GROUP(flags, 2)
	CHECK_GROUP(flags, 0)
	CHECK_GROUP(reserved, 1)
#undef CHECK_GROUP
}

static uint32_t put_entry(struct g4_dir_leaf *leaf, uint32_t unit, const char *name, uint8_t type)
{
	struct g4_dir_entry entry = {.inode = some_ino(), .name_bytes = (uint8_t)strlen(name), .file_type = type};
	const uint32_t units = 1 + (entry.name_bytes + 15u) / 16;
	uint8_t *at = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];

	memcpy(at, &entry, sizeof(entry));
	memcpy(at + sizeof(entry), name, entry.name_bytes);
	for (uint32_t i = unit; i < unit + units; i++)
		leaf->used[i / 64] |= UINT64_C(1) << i % 64;
	return unit + units;
}

static void directory_leaves(void **state)
{
	struct g4_dir_leaf leaf;
	char long_name[256];

	(void)state;
	memset(long_name, 'n', 255);
	long_name[255] = 0;
	memset(&leaf, 0, sizeof(leaf));
	assert_int_equal(g4_dir_leaf_validate(&leaf, &layout), -G4_E_CORRUPT_DIR); /* the header's units are free */
	leaf.used[0] = 0xf;
	assert_int_equal(g4_dir_leaf_validate(&leaf, &layout), 0);
	put_entry(&leaf, put_entry(&leaf, 4, "a", 8), "sixteen bytes ok", 4);
	put_entry(&leaf, 256 - 17, long_name, 12);
	assert_int_equal(g4_dir_leaf_validate(&leaf, &layout), 0);

#define CHECK_ENTRY(what)                                                                                              \
	{                                                                                                              \
		struct g4_dir_leaf saved = leaf;                                                                       \
		struct g4_dir_entry *entry = (struct g4_dir_entry *)leaf.units;                                        \
		what;                                                                                                  \
		(void)entry;                                                                                           \
		assert_int_equal(g4_dir_leaf_validate(&leaf, &layout), -G4_E_CORRUPT_DIR);                             \
		leaf = saved;                                                                                          \
	}
	CHECK_ENTRY(entry->inode = 1)
	CHECK_ENTRY(entry->inode = 0)
	CHECK_ENTRY(entry->file_type = 3)
	CHECK_ENTRY(entry->file_type = 0)
	CHECK_ENTRY(entry->name_bytes = 0)
	CHECK_ENTRY(entry->name_bytes = 255) /* runs into free units */
	CHECK_ENTRY(leaf.units[16] = '/')
	CHECK_ENTRY(leaf.units[16] = 0)
	CHECK_ENTRY(leaf.units[16] = '.')
	CHECK_ENTRY(leaf.used[0] &= ~UINT64_C(1))
	CHECK_ENTRY(leaf.used[0] &= ~(UINT64_C(1) << 5)) /* the first entry's second unit */
	CHECK_ENTRY(put_entry(&leaf, 4, "..", 4))
#undef CHECK_ENTRY
	/* An entry that would end beyond the page. */
	memset(&leaf, 0, sizeof(leaf));
	leaf.used[0] = 0xf;
	leaf.used[3] = UINT64_C(1) << 63;
	const struct g4_dir_entry entry = {.inode = some_ino(), .name_bytes = 1, .file_type = 8};
	memcpy(&leaf.units[251 * 16], &entry, sizeof(entry));
	assert_int_equal(g4_dir_leaf_validate(&leaf, &layout), -G4_E_CORRUPT_DIR);
}

static void directory_indices(void **state)
{
	static struct g4_dir_index index;

	(void)state;
	index.count = 2;
	index.level = 1;
	index.entries[0].page = 1;
	index.entries[1] = (struct g4_dir_index_entry){.hash = 77, .page = 2};
	assert_int_equal(g4_dir_index_validate(&index, 3), 0);
	assert_int_equal(g4_dir_index_validate(&index, 2), -G4_E_CORRUPT_DIR);

#define CHECK_INDEX(field, value)                                                                                      \
	{                                                                                                              \
		const struct g4_dir_index saved = index;                                                               \
		index.field = (value);                                                                                 \
		assert_int_equal(g4_dir_index_validate(&index, 3), -G4_E_CORRUPT_DIR);                                 \
		index = saved;                                                                                         \
	}
	CHECK_INDEX(count, 0)
	CHECK_INDEX(count, G4_DIR_INDEX_ENTRIES + 1)
	CHECK_INDEX(count, UINT32_MAX)
	CHECK_INDEX(level, 0)
	CHECK_INDEX(level, G4_DIR_MAX_LEVEL + 1)
	CHECK_INDEX(entries[1].page, 0)
	CHECK_INDEX(entries[1].page, UINT64_MAX)
	CHECK_INDEX(entries[1].collision, 65536)
	CHECK_INDEX(entries[0].hash, 77)
#undef CHECK_INDEX
}

/* Appends a record with `value_bytes` bytes of room behind the name; returns where it starts. */
static struct g4_xattr_record *put_record(struct g4_xattr_page *page, uint8_t space, const char *name, uint32_t room)
{
	struct g4_xattr_record *record = (struct g4_xattr_record *)(page->payload + page->bytes);

	memset(record, 0, sizeof(*record));
	record->space = space;
	record->name_bytes = (uint8_t)strlen(name);
	record->value_bytes = room;
	record->record_bytes = (uint16_t)g4_align_up(sizeof(*record) + record->name_bytes + room, 8);
	memcpy(record + 1, name, record->name_bytes);
	page->bytes += record->record_bytes;
	return record;
}

static void attribute_pages(void **state)
{
	static struct g4_xattr_page page;

	(void)state;
	page.header.type = G4_BLOCK_XATTR;
	page.inode = some_ino();
	assert_int_equal(g4_xattr_page_validate(&page, &layout), 0);
	struct g4_xattr_record *first = put_record(&page, G4_XATTR_USER, "colour", 3);
	put_record(&page, G4_XATTR_ACL_ACCESS, "", 28);
	struct g4_xattr_record *external = put_record(&page, G4_XATTR_TRUSTED, "big", 8);
	external->flags = G4_XATTR_EXTERNAL;
	external->value_bytes = G4_XATTR_VALUE_MAX;
	const g4_ptr value = some_page();
	memcpy((uint8_t *)(external + 1) + 3, &value, sizeof(value));
	page.next = some_page();
	assert_int_equal(g4_xattr_page_validate(&page, &layout), 0);

#define CHECK_XATTR(what)                                                                                              \
	{                                                                                                              \
		const struct g4_xattr_page saved = page;                                                               \
		what;                                                                                                  \
		assert_int_equal(g4_xattr_page_validate(&page, &layout), -G4_E_CORRUPT_XATTR);                         \
		page = saved;                                                                                          \
	}
	CHECK_XATTR(page.bytes = G4_XATTR_PAYLOAD + 1)
	CHECK_XATTR(page.bytes -= 8)
	CHECK_XATTR(page.bytes += 8)
	CHECK_XATTR(page.inode = 0)
	CHECK_XATTR(page.next = some_2m())
	CHECK_XATTR(first->record_bytes = 0)
	CHECK_XATTR(first->record_bytes = 8)
	CHECK_XATTR(first->record_bytes += 1)
	CHECK_XATTR(first->record_bytes = 0xfff8)
	CHECK_XATTR(first->space = 0)
	CHECK_XATTR(first->space = 6)
	CHECK_XATTR(first->space = G4_XATTR_ACL_ACCESS) /* an ACL has no name */
	CHECK_XATTR(first->flags = 2)
	CHECK_XATTR(first->name_bytes = 0)
	CHECK_XATTR(first->name_bytes = 200)
	CHECK_XATTR(first->value_bytes = 20)
	CHECK_XATTR(first->value_bytes = UINT32_MAX)
	CHECK_XATTR(memset(first + 1, 0, 1))
	CHECK_XATTR(external->value_bytes = G4_XATTR_VALUE_MAX + 1)
	CHECK_XATTR(memset((uint8_t *)(external + 1) + 3, 0xff, sizeof(value)))
#undef CHECK_XATTR

	/* A value page's payload is bytes, not records. */
	memset(page.payload, 0xff, sizeof(page.payload));
	page.bytes = G4_XATTR_PAYLOAD;
	assert_int_equal(g4_xattr_page_validate(&page, &layout), -G4_E_CORRUPT_XATTR);
	page.header.type = G4_BLOCK_XATTR_VALUE;
	assert_int_equal(g4_xattr_page_validate(&page, &layout), 0);
}

/* Random pages, mostly with a plausible start so that the loops are reached. The buffer is exact: a sanitizer sees. */
static void random_bytes_never_crash(void **state)
{
	(void)state;
	srandom(20);
	uint8_t *bytes = malloc(4096);
	assert_non_null(bytes);
	for (uint32_t round = 0; round < 20000; round++) {
		const uint32_t density = (uint32_t)random() % 4;
		for (uint32_t i = 0; i < 4096; i++)
			bytes[i] = (uint8_t)(random() & (density == 0 ? 0xff : density == 1 ? random() : 0x11));
		struct g4_dir_leaf *leaf = (struct g4_dir_leaf *)bytes;
		leaf->used[0] |= 0xf;
		g4_dir_leaf_validate(leaf, &layout);
		g4_dir_index_validate((struct g4_dir_index *)bytes, 1u << 20);
		g4_alloc_page_validate((struct g4_alloc_page *)bytes, 1);
		struct g4_groups_page *groups = (struct g4_groups_page *)bytes;
		g4_groups_page_validate(groups, groups->first_group, UINT64_MAX);
		g4_slab_validate((struct g4_slab_header *)bytes);
		g4_superblock_validate((struct g4_superblock *)bytes, UINT64_MAX);
		g4_inode_validate((struct g4_inode *)bytes, &layout);
		struct g4_xattr_page *xattr = (struct g4_xattr_page *)bytes;
		xattr->inode = some_ino();
		xattr->next = 0;
		xattr->bytes %= G4_XATTR_PAYLOAD + 1;
		g4_xattr_page_validate(xattr, &layout);
		struct g4_superblock *sb = (struct g4_superblock *)bytes;
		sb->magic = G4_SUPERBLOCK_MAGIC;
		sb->version = 1;
		sb->features_incompat = 0;
		g4_superblock_validate(sb, UINT64_MAX);
		struct g4_indirect_header header;
		g4_indirect_extract((g4_le64 *)bytes, &header);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inode_numbers),
		cmocka_unit_test(pointers),
		cmocka_unit_test(good_inodes_pass),
		cmocka_unit_test(every_damaged_inode_field_is_caught),
		cmocka_unit_test(slabs),
		cmocka_unit_test(allocation_maps),
		cmocka_unit_test(group_descriptors),
		cmocka_unit_test(directory_leaves),
		cmocka_unit_test(directory_indices),
		cmocka_unit_test(attribute_pages),
		cmocka_unit_test(random_bytes_never_crash),
	};
	return cmocka_run_group_tests(tests, plan_layout, NULL);
}
