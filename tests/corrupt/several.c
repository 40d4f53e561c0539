/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several structures damaged at once, with right checksums: pages that the maps forget, names and inodes that go, pointers
 * that lead to another's page, pages that change places. Whatever the repair makes of it, every file that was there
 * before has its contents and attributes afterwards, or the repair has named it as lost or doubtful, or it is among those that the
 * repair has counted as lost.
 *
 * usage: several [SECONDS [SEED [CASE]]]; without an argument so many cases of seed 1 as below, in at most as many seconds
 */
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "corrupt/judge.h"
#include "corrupt/world.h"
#include "crash/clock.h"
#include "engine/damage.h"
#include "fsck/tables.h"
#include "journal/block.h"

#define IMAGE_BYTES (72 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define DEADLINE_S 120
#define CASES 150u
#define SECONDS 15u
#define MOST_DAMAGES 6u

struct place {
	uint64_t page;
	uint32_t offset; /* of an inode or an entry */
	uint64_t ino;	 /* whose */
	uint64_t dir;	 /* entries: of the directory's first page */
};
struct places {
	struct place *items;
	uint32_t count, room;
};

static struct rig base, scratch;
static struct world_list oracle;
static struct places pages[G4_BLOCK_XATTR_VALUE + 1], inodes, entries, contents;
static uint32_t fs_tag;
static uint64_t seed; /* of the case at hand */
static char story[2048];

static uint64_t lot(uint64_t count)
{
	return rig_random(&seed) % count;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	const size_t at = strlen(story);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(story + at, sizeof(story) - at, format, arguments);
	va_end(arguments);
}

/* ------------------------------------------------------------------ the image */

static void add(struct places *places, struct place place)
{
	if (places->count == places->room) {
		places->room = places->room == 0 ? 1024 : 2 * places->room;
		places->items = realloc(places->items, places->room * sizeof(*places->items));
		if (places->items == NULL)
			abort();
	}
	places->items[places->count++] = place;
}

static void add_inodes(uint64_t page)
{
	const struct g4_slab_header *slab = (const struct g4_slab_header *)(const void *)(base.image + page);

	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		const uint32_t offset = slot * G4_SLAB_SLOT_BYTES;
		if ((slab->used >> slot & 1) != 0)
			add(&inodes, (struct place){.page = page, .offset = offset, .ino = g4_ino_at(page + offset)});
	}
}

static bool add_entry(void *context, const struct g4_entry_view *view)
{
	(void)context;
	add(&entries, (struct place){.page = g4_address_stored(view->leaf_address),
				     .offset = view->unit * G4_DIR_UNIT_BYTES,
				     .ino = view->entry.inode});
	return false;
}

static void add_page(uint64_t address)
{
	struct g4_indirect_header indirect;
	g4_le64 slots[G4_INDIRECT_SLOTS];
	struct g4_block_header header;
	struct g4_dir_leaf leaf;

	memcpy(&header, base.image + address, sizeof(header));
	memcpy(slots, base.image + address, sizeof(slots));
	if (header.magic == G4_BLOCK_MAGIC && header.type <= G4_BLOCK_XATTR_VALUE &&
	    g4_block_verify(base.image + address, header.type, g4_address_from(address), fs_tag) == 0)
		add(&pages[header.type], (struct place){.page = address});
	else if (g4_indirect_verify(slots, g4_address_from(address), fs_tag, &indirect) == 0)
		add(&pages[G4_BLOCK_INDIRECT], (struct place){.page = address});
	else
		add(&contents, (struct place){.page = address});
	if (header.magic != G4_BLOCK_MAGIC)
		return;
	if (header.type == G4_BLOCK_SLAB)
		add_inodes(address);
	if (header.type == G4_BLOCK_DIR_LEAF) {
		memcpy(&leaf, base.image + address, sizeof(leaf));
		g4_leaf_each_entry(&leaf, g4_address_from(address), add_entry, NULL);
	}
}

static void find_places(void)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = stderr;
	if (g4_image_open(&image, base.name, message, sizeof(message)) < 0 ||
	    g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_run(&fsck, &image, &journal) < 0 ||
	    fsck.problems != 0 || journal.records != 0)
		abort();
	fs_tag = image.fs_tag;
	for (uint64_t page = image.layout.root_address / G4_PAGE_BYTES;
	     page < image.layout.backup_address / G4_PAGE_BYTES; page++) {
		if (g4_fsck_bit(fsck.used, page))
			add_page(page * G4_PAGE_BYTES);
	}
	g4_fsck_free(&fsck);
	g4_image_close(&image);
}

static void must(int rc)
{
	if (rc < 0)
		abort();
}

static void make_base(void)
{
	struct rig copy;

	clock_restart();
	rig_open(&base, IMAGE_BYTES, JOURNAL_BYTES);
	must(world_mount(&base));
	world_populate(&base, WORLD_NORMAL);
	must(world_unmount(&base, true));
	must(world_mount(&base));
	world_change(&base);
	must(world_unmount(&base, false));
	must(world_mount(&base)); /* releases the orphans */
	must(world_unmount(&base, true));
	world_open(&copy, base.image, base.bytes);
	must(world_mount(&copy));
	world_list(&copy, &oracle);
	world_unmount(&copy, false);
	rig_close(&copy);
	if (oracle.errors != 0)
		abort();
	find_places();
}

/* ------------------------------------------------------------------ damage */

static const struct place *any_of(const struct places *places)
{
	return &places->items[lot(places->count)];
}

/* Damage can have hit the same page before: what is not there any more is left alone. */
static bool is_whole(uint64_t address)
{
	struct g4_block_header header;

	memcpy(&header, scratch.image + address, sizeof(header));
	return header.magic == G4_BLOCK_MAGIC && header.address == address &&
	       g4_block_verify(scratch.image + address, header.type, g4_address_from(address), fs_tag) == 0;
}

static struct g4_inode *any_inode(uint32_t type, const struct place **place)
{
	for (uint32_t tries = 0; tries < 4000; tries++) {
		*place = any_of(&inodes);
		struct g4_inode *inode = damage_inode(&scratch, (*place)->ino);
		if (is_whole((*place)->page) && (inode->mode & S_IFMT) == type)
			return inode;
	}
	return NULL;
}

static uint64_t any_page(void)
{
	static const uint32_t types[] = {G4_BLOCK_SLAB,	     G4_BLOCK_INDIRECT, G4_BLOCK_DIR_LEAF,
					 G4_BLOCK_DIR_INDEX, G4_BLOCK_XATTR,	G4_BLOCK_XATTR_VALUE};
	const uint64_t kind = lot(sizeof(types) / sizeof(types[0]) + 2);

	if (kind < sizeof(types) / sizeof(types[0]) && pages[types[kind]].count != 0)
		return any_of(&pages[types[kind]])->page;
	return any_of(&contents)->page;
}

static bool is_marked(uint64_t address)
{
	const uint64_t page = address / G4_PAGE_BYTES % G4_GROUP_PAGES;

	return (damage_map(&scratch, address)->regions[page / G4_REGION_PAGES].used[page % G4_REGION_PAGES / 64] >>
			page % 64 &
		1) != 0;
}

static void forget(uint64_t address)
{
	const bool counts = lot(2) == 0;

	if (!is_marked(address))
		return;
	tell(" forget 0x%" PRIx64 "%s;", address, counts ? ", counted" : "");
	damage_free_page(&scratch, address, counts);
}

static void forget_page(void)
{
	forget(any_page());
}

static void drop_name(const struct place *entry)
{
	struct g4_dir_leaf *leaf = (struct g4_dir_leaf *)(void *)(scratch.image + entry->page);
	struct g4_dir_entry head;

	memcpy(&head, scratch.image + entry->page + entry->offset, sizeof(head));
	if (!is_whole(entry->page) || head.inode != entry->ino)
		return;
	const uint32_t first = entry->offset / G4_DIR_UNIT_BYTES;
	for (uint32_t unit = first; unit < first + 1 + (head.name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;
	     unit++)
		leaf->used[unit / 64] &= ~(UINT64_C(1) << unit % 64);
	damage_seal(&scratch, entry->page);
}

static void forget_slab_and_names(void)
{
	const uint64_t slab = any_of(&pages[G4_BLOCK_SLAB])->page;

	tell(" drop the names of 0x%" PRIx64 ";", slab);
	for (uint32_t i = 0; i < entries.count; i++) {
		if (g4_align_down(g4_ptr_offset(entries.items[i].ino), G4_PAGE_BYTES) == slab)
			drop_name(&entries.items[i]);
	}
	forget(slab);
}

static void drop_any_name(void)
{
	const struct place *entry = any_of(&entries);

	tell(" drop the name of 0x%" PRIx64 ";", entry->ino);
	drop_name(entry);
}

static void point_elsewhere(void)
{
	const struct place *place;
	struct g4_inode *inode = any_inode(S_IFREG, &place);
	const uint64_t page = lot(4) == 0 ? 60 * G4_MIB + lot(64) * G4_PAGE_BYTES : any_page();
	const uint64_t slot = lot(4);

	if (inode == NULL || (inode->flags & G4_INODE_INLINE) != 0 || inode->map_height != 0)
		return;
	tell(" slot %u of 0x%" PRIx64 " leads to 0x%" PRIx64 ";", (unsigned)slot, place->ino, page);
	inode->map[slot] = g4_ptr_at(page, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&scratch, place->page);
}

static void point_elsewhere_deeply(void)
{
	const uint64_t address = any_of(&pages[G4_BLOCK_INDIRECT])->page, page = any_page();
	g4_le64 *slots = (g4_le64 *)(void *)(scratch.image + address);
	struct g4_indirect_header header;
	g4_le64 copy[G4_INDIRECT_SLOTS];
	const uint64_t slot = lot(64);

	memcpy(copy, slots, sizeof(copy));
	if (g4_indirect_verify(copy, g4_address_from(address), fs_tag, &header) != 0 || header.level != 1)
		return;
	tell(" slot %u of indirect page 0x%" PRIx64 " leads to 0x%" PRIx64 ";", (unsigned)slot, address, page);
	copy[slot] = lot(4) == 0 ? 0 : g4_ptr_at(page, G4_TAG_4K, G4_PTR_VALID);
	memcpy(slots, copy, sizeof(copy));
	g4_indirect_seal(slots, header.inode, header.level, g4_address_from(address), header.header.generation, fs_tag);
}

static void swap_pages(void)
{
	const uint32_t type = G4_BLOCK_SLAB + (uint32_t)lot(G4_BLOCK_XATTR_VALUE - G4_BLOCK_SLAB + 1);
	uint8_t copy[G4_PAGE_BYTES];

	if (pages[type].count < 2)
		return;
	const uint64_t a = any_of(&pages[type])->page, b = any_of(&pages[type])->page;
	tell(" swap 0x%" PRIx64 " and 0x%" PRIx64 ";", a, b);
	memcpy(copy, scratch.image + a, sizeof(copy));
	memcpy(scratch.image + a, scratch.image + b, sizeof(copy));
	memcpy(scratch.image + b, copy, sizeof(copy));
}

static void zero_page(void)
{
	const uint32_t type = G4_BLOCK_SLAB + (uint32_t)lot(G4_BLOCK_XATTR_VALUE - G4_BLOCK_SLAB + 1);

	if (pages[type].count == 0)
		return;
	const uint64_t address = any_of(&pages[type])->page;
	tell(" zero 0x%" PRIx64 ";", address);
	memset(scratch.image + address, 0, G4_PAGE_BYTES);
}

static void name_another(void)
{
	const struct place *entry = any_of(&entries), *inode = any_of(&inodes);
	struct g4_dir_entry *head = (struct g4_dir_entry *)(void *)(scratch.image + entry->page + entry->offset);

	if (!is_whole(entry->page) || head->inode != entry->ino)
		return;
	tell(" the name of 0x%" PRIx64 " leads to 0x%" PRIx64 ";", entry->ino, inode->ino);
	head->inode = inode->ino;
	damage_seal(&scratch, entry->page);
}

static void free_slot(void)
{
	const struct place *place = any_of(&inodes);
	struct g4_slab_header *slab = (struct g4_slab_header *)(void *)(scratch.image + place->page);

	if (!is_whole(place->page))
		return;
	tell(" free the slot of 0x%" PRIx64 ";", place->ino);
	slab->used &= (g4_le16) ~(1u << place->offset / G4_SLAB_SLOT_BYTES);
	memset(damage_inode(&scratch, place->ino), 0, sizeof(struct g4_inode));
	damage_seal(&scratch, place->page);
	for (uint32_t i = 0; i < entries.count && lot(2) == 0; i++) {
		if (entries.items[i].ino == place->ino)
			drop_name(&entries.items[i]);
	}
}

static void cut_index(void)
{
	if (pages[G4_BLOCK_DIR_INDEX].count == 0)
		return;
	const uint64_t address = any_of(&pages[G4_BLOCK_DIR_INDEX])->page;
	struct g4_dir_index *index = (struct g4_dir_index *)(void *)(scratch.image + address);
	if (!is_whole(address) || index->count < 2)
		return;
	tell(" the last child of index 0x%" PRIx64 " is gone;", address);
	index->count--;
	memset(&index->entries[index->count], 0, sizeof(index->entries[0]));
	damage_seal(&scratch, address);
}

static void empty_leaf(void)
{
	const uint64_t address = any_of(&pages[G4_BLOCK_DIR_LEAF])->page;
	struct g4_dir_leaf *leaf = (struct g4_dir_leaf *)(void *)(scratch.image + address);

	if (!is_whole(address))
		return;
	tell(" empty leaf 0x%" PRIx64 ";", address);
	memset(leaf->used, 0, sizeof(leaf->used));
	leaf->used[0] = (UINT64_C(1) << G4_DIR_HEADER_UNITS) - 1;
	damage_seal(&scratch, address);
}

static void lose_attributes(void)
{
	const struct place *place = NULL;
	struct g4_inode *inode = any_inode(lot(2) == 0 ? S_IFREG : S_IFDIR, &place);

	for (uint32_t tries = 0; tries < 2000 && inode != NULL && inode->xattr == 0; tries++)
		inode = any_inode(lot(2) == 0 ? S_IFREG : S_IFDIR, &place);
	if (inode == NULL || inode->xattr == 0)
		return;
	inode->xattr = lot(2) == 0 ? 0 : g4_ptr_at(any_page(), G4_TAG_4K, G4_PTR_VALID);
	tell(" the attributes of 0x%" PRIx64 " are 0x%" PRIx64 ";", place->ino, (uint64_t)inode->xattr);
	damage_seal(&scratch, place->page);
}

static void move_directory_root(void)
{
	const struct place *place;
	struct g4_inode *inode = any_inode(S_IFDIR, &place);

	if (inode == NULL)
		return;
	inode->map[0] = lot(3) == 0 ? 0 : g4_ptr_at(any_of(&pages[G4_BLOCK_DIR_LEAF])->page, G4_TAG_4K, G4_PTR_VALID);
	tell(" the first page of directory 0x%" PRIx64 " is 0x%" PRIx64 ";", place->ino, (uint64_t)inode->map[0]);
	damage_seal(&scratch, place->page);
}

static void miscount(void)
{
	const struct place *place;
	struct g4_inode *inode = any_inode(lot(2) == 0 ? S_IFREG : S_IFDIR, &place);

	if (inode == NULL)
		return;
	tell(" wrong counts of 0x%" PRIx64 ";", place->ino);
	inode->nlink += (uint32_t)lot(2);
	inode->pages += lot(2);
	if (S_ISDIR(inode->mode))
		inode->entries += (uint32_t)lot(2);
	damage_seal(&scratch, place->page);
}

static void name_another_root(void)
{
	const uint64_t address = pages[G4_BLOCK_ROOT].items[0].page;
	struct g4_root *root = (struct g4_root *)(void *)(scratch.image + address);
	const struct place *place;

	if (lot(2) == 0) {
		if (any_inode(S_IFDIR, &place) == NULL)
			return;
		root->root_inode = place->ino;
	} else {
		root->orphan_head = any_of(&inodes)->ino;
	}
	tell(" the root is 0x%" PRIx64 ", the first removed file 0x%" PRIx64 ";", (uint64_t)root->root_inode,
	     (uint64_t)root->orphan_head);
	damage_seal(&scratch, address);
}

static void damage_once(void)
{
	switch (lot(16)) {
	case 0:
	case 1:
		forget_slab_and_names();
		break;
	case 2:
		forget_page();
		break;
	case 3:
		drop_any_name();
		break;
	case 4:
	case 5:
		point_elsewhere();
		break;
	case 6:
		point_elsewhere_deeply();
		break;
	case 7:
		swap_pages();
		break;
	case 8:
		zero_page();
		break;
	case 9:
		name_another();
		break;
	case 10:
		free_slot();
		break;
	case 11:
		cut_index();
		break;
	case 12:
		empty_leaf();
		break;
	case 13:
		lose_attributes();
		break;
	case 14:
		if (lot(2) == 0)
			move_directory_root();
		else
			name_another_root();
		break;
	default:
		miscount();
	}
}

/* ------------------------------------------------------------------ judging */

static void compare(const struct world_list *list, const struct g4_fsck *report)
{
	uint64_t gone = 0, first = 0;

	if (list->errors != 0)
		judge_bad("%u errors while reading the repaired image", list->errors);
	for (uint32_t i = 0; i < oracle.count; i++) {
		const struct world_file *wanted = &oracle.files[i], *file = judge_find(list, wanted);
		if (judge_is_reported(report, 1, wanted->ino))
			continue;
		if (file == NULL) {
			first = gone++ == 0 ? i : first;
			continue;
		}
		if (!judge_is_same(file, wanted))
			judge_bad("'%s' (0x%" PRIx64
				  ") is not what it was and nobody said so (mode %o %o, size %" PRIu64 " %" PRIu64
				  ", contents %d, attributes %d)",
				  wanted->path, wanted->ino, file->mode, wanted->mode, file->size, wanted->size,
				  file->contents == wanted->contents, file->attributes == wanted->attributes);
	}
	if (gone > report->lost_files)
		judge_bad("%" PRIu64 " names lead nowhere, such as '%s' (0x%" PRIx64 "), and %" PRIu64
			  " were counted as lost",
			  gone, oracle.files[first].path, oracle.files[first].ino, report->lost_files);
}

static _Noreturn void judge_case(void)
{
	static struct g4_fsck first, second;
	struct world_list list;

	judge_repair(&scratch, &first, 0);
	char *said = judge_words;
	if (judge_check(&scratch) != 0)
		judge_bad("fsck finds problems after the repair");
	judge_repair(&scratch, &second, 0);
	if (second.found != 0 || second.change_count != 0)
		judge_bad("the second repair finds something");
	judge_words = said;
	if (rig_try_mount(&scratch, 0, NULL) < 0)
		judge_bad("the repaired image can not be mounted");
	world_list(&scratch, &list);
	compare(&list, &first);
	if (rig_unmount(&scratch) < 0)
		judge_bad("the repaired image can not be unmounted");
	if (judge_check(&scratch) != 0)
		judge_bad("the repaired image has problems after a mount");
	_exit(0);
}

/* True when the case is as promised. */
static bool run_case(uint64_t first_seed, uint64_t number)
{
	int status;

	seed = first_seed << 32 ^ number;
	story[0] = 0;
	world_open(&scratch, base.image, base.bytes);
	for (uint64_t i = 2 + lot(MOST_DAMAGES - 1); i > 0; i--)
		damage_once();
	fflush(stdout);
	const pid_t child = fork();
	if (child < 0)
		abort();
	if (child == 0) {
		alarm(DEADLINE_S);
		judge_case();
	}
	if (waitpid(child, &status, 0) != child)
		abort();
	rig_close(&scratch);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (WIFSIGNALED(status))
		fprintf(stderr, "ended by signal %d\n", WTERMSIG(status));
	fprintf(stderr, "seed %" PRIu64 ", case %" PRIu64 ":%s\n\n", first_seed, number, story);
	return false;
}

static uint64_t argument(int argc, char **argv, int index, uint64_t value)
{
	return argc > index ? strtoull(argv[index], NULL, 10) : value;
}

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

int main(int argc, char **argv)
{
	const uint64_t seconds = argument(argc, argv, 1, SECONDS), first_seed = argument(argc, argv, 2, 1);
	const uint64_t only = argument(argc, argv, 3, UINT64_MAX), cases = argc > 1 ? UINT64_MAX : CASES;
	uint64_t tried = 0, failed = 0;

	make_base();
	const uint64_t start = now_s();
	for (uint64_t number = only == UINT64_MAX ? 0 : only; number < cases; number++) {
		if (only == UINT64_MAX ? now_s() - start >= seconds : tried == 1)
			break;
		tried++;
		failed += !run_case(first_seed, number);
	}
	printf("%" PRIu64 " cases of seed %" PRIu64 ", %" PRIu64 " failed\n", tried, first_seed, failed);
	rig_close(&base);
	return failed == 0 ? 0 : 1;
}
