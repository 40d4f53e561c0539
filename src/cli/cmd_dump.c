/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs dump: any structure on the disk, as text or JSON. */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/dump_ddt.h"
#include "cli/dump_dir.h"
#include "cli/show.h"
#include "client/explain.h"
#include "format/indirect.h"
#include "format/sums.h"
#include "fuse/fuse.h"
#include "journal/block.h"

const char g4_help_dump[] = "[--json] [--raw] DEVICE [STRUCTURE [WHICH]]\n"
			    "       gpu4fs dump [--json | --dot] [--raw] --dir INODE DEVICE\n"
			    "       gpu4fs dump [--json | --dot] [--raw] --ddt DEVICE\n\n"
			    "Prints a structure of the file system on DEVICE, which is only read. What the journal\n"
			    "holds is shown in place of what it will replace.\n\n"
			    "  superblock [backup]   the first or the second superblock; without STRUCTURE both\n"
			    "  journal               its header and the transactions in it\n"
			    "  root                  the root block\n"
			    "  groups                all group descriptors\n"
			    "  group N               a group's descriptor and allocation map\n"
			    "  listed                pages that others find by their contents, how many\n"
			    "  inode INODE           an inode\n"
			    "  dir INODE             a directory's entries\n"
			    "  map INODE             where a file's contents lie\n"
			    "  xattr INODE           a file's extended attributes\n"
			    "  block ADDRESS         whatever lies at an address\n\n"
			    "INODE is a number as other structures give it, 1 for the root directory, or a path\n"
			    "that starts with /. Numbers may be decimal or, with 0x, hexadecimal.\n\n"
			    "      --dir INODE  the pages of a directory: levels, how full they are, equal hashes\n"
			    "      --ddt        the pages that count owners and list contents for deduplication\n"
			    "      --dot        print the pages as a graph, for Graphviz\n"
			    "      --raw        the device as it is, without the journal\n"
			    "      --json       print one JSON object\n"
			    "      --help       show this\n";

struct dump {
	struct g4_image *image;
	struct g4_report report;
	const char *which; /* NULL: not given */
	bool dot;
};

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return end != text && *end == 0 && errno == 0 && text[0] != '-';
}

/* ------------------------------------------------------------------ fixed structures */

static int show_one_superblock(struct dump *dump, const char *key, const struct g4_superblock *sb, int status)
{
	g4_report_object(&dump->report, key);
	g4_report_text(&dump->report, "condition", status == 0 ? "good" : g4_strerror(status));
	g4_show_header(&dump->report, &sb->header);
	g4_show_superblock(&dump->report, sb);
	g4_report_end(&dump->report);
	return 0;
}

static int dump_superblock(struct dump *dump)
{
	const struct g4_image *image = dump->image;

	if (dump->which != NULL && strcmp(dump->which, "backup") != 0)
		return -G4_E_INVAL;
	if (dump->which != NULL)
		return show_one_superblock(dump, "second_superblock", &image->backup, image->backup_status);
	return show_one_superblock(dump, "first_superblock", &image->primary, image->primary_status);
}

static int dump_superblocks(struct dump *dump)
{
	show_one_superblock(dump, "first_superblock", &dump->image->primary, dump->image->primary_status);
	return show_one_superblock(dump, "second_superblock", &dump->image->backup, dump->image->backup_status);
}

static void show_record(void *context, const struct g4_journal_record *record)
{
	struct g4_report *report = context;

	g4_report_object(report, NULL);
	g4_report_count(report, "sequence", record->sequence);
	g4_report_count(report, "log_page", record->log_page);
	g4_report_count(report, "pages", record->pages);
	g4_report_time(report, "time_ns", record->time_ns);
	g4_report_count(report, "data_pages", record->data_pages);
	g4_report_list(report, "blocks");
	for (uint32_t i = 0; i < record->blocks; i++)
		g4_report_hex(report, NULL, record->tags[i]);
	g4_report_end(report);
	g4_report_list(report, "revokes");
	for (uint32_t i = 0; i < record->revokes; i++)
		g4_report_hex(report, NULL, record->tags[record->blocks + i]);
	g4_report_end(report);
	g4_report_end(report);
}

static int dump_journal(struct dump *dump)
{
	struct g4_report *report = &dump->report;
	struct g4_journal_state state;
	int status = g4_image_scan_journal(dump->image, NULL, NULL, &state);

	if (status < 0)
		return status;
	g4_report_text(report, "condition", state.status == 0 ? "good" : g4_strerror(state.status));
	g4_report_hex(report, "address", dump->image->layout.journal_address);
	g4_report_count(report, "log_pages", g4_layout_log_pages(&dump->image->layout));
	g4_report_count(report, "tail_sequence", state.header.tail_sequence);
	g4_report_count(report, "tail_page", state.header.tail_page);
	g4_report_count(report, "used_pages", state.pages);
	g4_report_list(report, "transactions");
	status = g4_image_scan_journal(dump->image, show_record, report, &state);
	g4_report_end(report);
	return status;
}

static int dump_root(struct dump *dump)
{
	uint8_t page[G4_PAGE_BYTES];
	const int status = g4_image_block(dump->image, g4_layout_root(&dump->image->layout), G4_BLOCK_ROOT, page);

	if (status < 0)
		return status;
	g4_show_header(&dump->report, (const struct g4_block_header *)page);
	g4_show_block(&dump->report, dump->image, page);
	return 0;
}

static int read_descriptors(struct dump *dump, uint64_t group, struct g4_groups_page *page)
{
	const struct g4_layout *layout = &dump->image->layout;

	return g4_image_block(dump->image, g4_layout_groups_page(layout, group), G4_BLOCK_GROUPS, page);
}

static int dump_groups(struct dump *dump)
{
	const uint64_t count = dump->image->layout.group_count;
	struct g4_groups_page page;
	int status = 0;

	g4_report_list(&dump->report, "groups");
	for (uint64_t group = 0; group < count && status == 0; group++) {
		if (group % G4_GROUPS_PER_PAGE == 0)
			status = read_descriptors(dump, group, &page);
		if (status < 0)
			break;
		g4_report_object(&dump->report, NULL);
		g4_show_descriptor(&dump->report, group, &page.groups[group % G4_GROUPS_PER_PAGE]);
		g4_report_end(&dump->report);
	}
	g4_report_end(&dump->report);
	return status;
}

static int dump_group(struct dump *dump)
{
	struct g4_groups_page groups;
	struct g4_alloc_page alloc;
	uint64_t group;

	if (!parse_number(dump->which, &group) || group >= dump->image->layout.group_count)
		return -G4_E_INVAL;
	int status = read_descriptors(dump, group, &groups);
	if (status < 0)
		return status;
	const struct g4_group_descriptor *descriptor = &groups.groups[group % G4_GROUPS_PER_PAGE];
	g4_show_descriptor(&dump->report, group, descriptor);
	if ((descriptor->flags & G4_GROUP_INITIALISED) == 0)
		return 0;
	status = g4_image_block(dump->image, g4_layout_map_page(&dump->image->layout, group), G4_BLOCK_ALLOC, &alloc);
	if (status < 0)
		return status;
	g4_report_object(&dump->report, "allocation_map");
	g4_show_alloc_page(&dump->report, &alloc);
	g4_report_end(&dump->report);
	return 0;
}

static int dump_listed(struct dump *dump)
{
	return g4_dump_listed(dump->image, &dump->report);
}

static int dump_ddt(struct dump *dump)
{
	return dump->dot ? g4_dump_ddt_dot(dump->image, stdout) : g4_dump_ddt_tree(dump->image, &dump->report);
}

/* ------------------------------------------------------------------ inodes and what they own */

static int find_inode(struct dump *dump, uint64_t *ino, struct g4_inode *inode)
{
	struct g4_root root;
	int status = 0;

	if (dump->which[0] == '/')
		status = g4_image_resolve(dump->image, dump->which, ino);
	else if (!parse_number(dump->which, ino))
		return -G4_E_INVAL;
	if (status == 0 && *ino == 1) {
		status = g4_image_root(dump->image, &root);
		*ino = root.root_inode;
	}
	return status < 0 ? status : g4_image_inode(dump->image, *ino, inode);
}

static int dump_inode(struct dump *dump)
{
	struct g4_inode inode;
	uint64_t ino;
	const int status = find_inode(dump, &ino, &inode);

	/* A damaged one is shown as far as it goes: that is when one looks. */
	if (status == 0 || status == -G4_E_CORRUPT_INODE)
		g4_show_inode(&dump->report, ino, &inode);
	return status;
}

static bool show_entry_visit(void *context, const struct g4_entry_view *view)
{
	g4_show_entry(context, view);
	return false;
}

static int dump_directory(struct dump *dump)
{
	struct g4_inode inode;
	uint64_t ino;
	bool found;
	int status = find_inode(dump, &ino, &inode);

	if (status < 0)
		return status;
	if (!S_ISDIR(inode.mode))
		return -G4_E_NOTDIR;
	g4_report_hex(&dump->report, "inode", ino);
	g4_report_hex(&dump->report, "parent", inode.parent);
	g4_report_list(&dump->report, "entries");
	status = g4_image_each_entry(dump->image, ino, show_entry_visit, &dump->report, &found);
	g4_report_end(&dump->report);
	return status;
}

static int dump_pages(struct dump *dump)
{
	struct g4_inode inode;
	uint64_t ino;
	const int status = find_inode(dump, &ino, &inode);

	if (status < 0)
		return status;
	if (!S_ISDIR(inode.mode))
		return -G4_E_NOTDIR;
	if (dump->dot)
		return g4_dump_dir_dot(dump->image, stdout, ino, &inode);
	return g4_dump_dir_tree(dump->image, &dump->report, ino, &inode);
}

struct extent { /* neighbours in the file and on the device, of one kind */
	uint64_t file_page, pages;
	g4_ptr ptr; /* of the first page */
};

static bool continues(const struct extent *extent, const struct g4_map_item *item)
{
	const struct g4_address end = g4_address_after_pages(g4_ptr_address(extent->ptr), extent->pages);

	return item->kind == G4_MAP_DATA && extent->pages != 0 &&
	       item->file_page == extent->file_page + extent->pages && g4_address_is(g4_ptr_address(item->ptr), end) &&
	       (item->ptr & G4_PTR_VALID) == (extent->ptr & G4_PTR_VALID);
}

static void flush_extent(struct g4_report *report, struct extent *extent)
{
	if (extent->pages == 0)
		return;
	g4_report_object(report, NULL);
	g4_report_count(report, "file_page", extent->file_page);
	g4_report_count(report, "pages", extent->pages);
	g4_report_hex(report, "address", g4_address_stored(g4_ptr_address(extent->ptr)));
	g4_report_bool(report, "written", (extent->ptr & G4_PTR_VALID) != 0);
	g4_report_end(report);
	extent->pages = 0;
}

/* Where the pages of sums of an indirect page are. */
static void show_places(struct g4_report *report, const struct g4_sums_places *places, struct g4_address indirect)
{
	g4_report_list(report, "sums");
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const struct g4_address address = g4_sums_place(places, indirect, quarter);
		if (g4_address_is_none(address))
			continue;
		g4_report_object(report, NULL);
		g4_report_count(report, "quarter", quarter);
		g4_report_hex(report, "address", g4_address_stored(address));
		g4_report_end(report);
	}
	g4_report_end(report);
}

/* An indirect page, or a pointer that can not be. */
static void show_node(struct g4_report *report, struct g4_map_walk *walk, const struct g4_map_item *item)
{
	int status = -G4_E_CORRUPT_MAP;

	g4_report_object(report, NULL);
	g4_report_count(report, "file_page", item->file_page);
	g4_report_count(report, "level", item->height);
	g4_show_pointer(report, "pointer", item->ptr);
	const struct g4_address indirect = g4_ptr_address(item->ptr);
	if (item->kind == G4_MAP_INDIRECT)
		status = g4_map_walk_enter(walk);
	if (status == 0) {
		const struct g4_map_frame *frame = &walk->frames[walk->depth];
		if (walk->shares) /* else it is the file's own */
			g4_report_hex(report, "made_for", frame->maker);
		if (frame->below != 0)
			g4_report_count(report, "pages_from_here", frame->below);
		show_places(report, &frame->sums, indirect);
	}
	if (status < 0)
		g4_report_text(report, "problem", g4_strerror(status));
	g4_report_end(report);
}

static void show_map(struct g4_report *report, struct g4_map_walk *walk)
{
	struct extent extent = {.pages = 0};

	for (;;) {
		const struct g4_map_item *item = g4_map_walk_next(walk);
		const uint64_t pages = g4_tag_pages(g4_ptr_tag(item->ptr));
		if (item->kind == G4_MAP_DATA && continues(&extent, item)) {
			extent.pages += pages;
			continue;
		}
		flush_extent(report, &extent);
		if (item->kind == G4_MAP_END)
			return;
		if (item->kind == G4_MAP_DATA)
			extent = (struct extent){.file_page = item->file_page, .pages = pages, .ptr = item->ptr};
		else
			show_node(report, walk, item);
	}
}

static int dump_map(struct dump *dump)
{
	static struct g4_map_walk walk; /* too large for a stack */
	struct g4_inode inode;
	uint64_t ino;
	const int status = find_inode(dump, &ino, &inode);

	if (status < 0)
		return status;
	g4_report_hex(&dump->report, "inode", ino);
	g4_report_size(&dump->report, "size_bytes", inode.size);
	g4_report_bool(&dump->report, "inline", (inode.flags & G4_INODE_INLINE) != 0);
	g4_report_count(&dump->report, "map_height", inode.map_height);
	g4_report_list(&dump->report, "extents");
	g4_map_walk_start(&walk, dump->image, ino, &inode);
	if (walk.shares)
		walk.most = g4_max64(walk.most, inode.pages);
	show_map(&dump->report, &walk);
	g4_report_end(&dump->report);
	return 0;
}

static int dump_xattr(struct dump *dump)
{
	struct g4_xattr_page page;
	struct g4_inode inode;
	uint64_t ino, pages = 0;
	int status = find_inode(dump, &ino, &inode);

	if (status < 0)
		return status;
	g4_report_hex(&dump->report, "inode", ino);
	g4_report_list(&dump->report, "pages");
	for (g4_ptr ptr = inode.xattr; ptr != 0 && status == 0; ptr = page.next) {
		status = g4_image_block(dump->image, g4_ptr_address(ptr), G4_BLOCK_XATTR, &page);
		if (status == 0)
			status = g4_xattr_page_validate(&page, &dump->image->layout);
		if (status == 0 && ++pages > dump->image->layout.size_bytes / G4_PAGE_BYTES)
			status = -G4_E_CORRUPT_XATTR;
		if (status < 0)
			break;
		g4_report_object(&dump->report, NULL);
		g4_report_hex(&dump->report, "address", g4_address_stored(g4_ptr_address(ptr)));
		g4_show_xattr_page(&dump->report, &page);
		g4_report_end(&dump->report);
	}
	g4_report_end(&dump->report);
	return status;
}

/* ------------------------------------------------------------------ any block */

/* An indirect page has no header to be seen until its spare bits are put together. */
static bool show_indirect(struct dump *dump, struct g4_address address, const void *page)
{
	g4_le64 slots[G4_INDIRECT_SLOTS];
	struct g4_indirect_header header;

	memcpy(slots, page, sizeof(slots));
	g4_indirect_extract(slots, &header);
	if (header.header.magic != G4_BLOCK_MAGIC || header.header.type != G4_BLOCK_INDIRECT)
		return false;
	g4_report_text(&dump->report, "condition",
		       g4_indirect_verify(slots, address, dump->image->fs_tag, &header) == 0 ? "good" : "damaged");
	g4_show_header(&dump->report, &header.header);
	g4_report_hex(&dump->report, "inode", header.inode);
	g4_report_count(&dump->report, "level", header.level);
	if (g4_indirect_below(&header) != 0)
		g4_report_count(&dump->report, "pages_from_here", g4_indirect_below(&header));
	show_places(&dump->report, &header.sums, address);
	g4_report_list(&dump->report, "slots");
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++) {
		if (slots[slot] == 0)
			continue;
		g4_report_object(&dump->report, NULL);
		g4_report_count(&dump->report, "slot", slot);
		g4_show_pointer(&dump->report, "pointer", slots[slot]);
		g4_report_end(&dump->report);
	}
	g4_report_end(&dump->report);
	return true;
}

/* Nor has a page of sums. */
static bool show_sums_page(struct dump *dump, struct g4_address address, const void *page)
{
	struct g4_sums_header header;
	struct g4_sums_page sums;

	memcpy(&sums, page, sizeof(sums));
	g4_sums_extract(&sums, &header);
	if (header.header.magic != G4_BLOCK_MAGIC || header.header.type != G4_BLOCK_CHECKSUMS)
		return false;
	g4_report_text(&dump->report, "condition",
		       g4_sums_verify(&sums, address, dump->image->fs_tag, &header) == 0 ? "good" : "damaged");
	g4_show_header(&dump->report, &header.header);
	g4_report_hex(&dump->report, "inode", header.inode);
	g4_report_count(&dump->report, "level", header.level);
	g4_report_count(&dump->report, "quarter", header.quarter);
	g4_sums_strip(&sums);
	g4_show_sums(&dump->report, sums.entries, G4_SUMS_SLOTS);
	return true;
}

static void show_bytes(struct dump *dump, const uint8_t *page)
{
	char line[2 * 32 + 1];

	g4_report_text(&dump->report, "type", "data");
	g4_report_list(&dump->report, "contents");
	for (uint32_t at = 0; at < G4_PAGE_BYTES; at += 32) {
		for (uint32_t i = 0; i < 32; i++)
			snprintf(line + 2 * i, 3, "%02x", page[at + i]);
		g4_report_object(&dump->report, NULL);
		g4_report_hex(&dump->report, "offset", at);
		g4_report_text(&dump->report, "bytes", line);
		g4_report_end(&dump->report);
	}
	g4_report_end(&dump->report);
}

static int dump_block(struct dump *dump)
{
	uint8_t page[G4_PAGE_BYTES];
	struct g4_block_header header;
	uint64_t number;
	const void *found;

	if (!parse_number(dump->which, &number) || number >= dump->image->device_bytes)
		return -G4_E_INVAL;
	const struct g4_address address = g4_address_page_start(g4_address_from(number));
	const int status = g4_image_page(dump->image, address, &found);
	if (status < 0)
		return status;
	memcpy(page, found, sizeof(page));
	memcpy(&header, page, sizeof(header));
	if (header.magic == G4_BLOCK_MAGIC) {
		const int condition = g4_block_verify(page, header.type, address, dump->image->fs_tag);
		g4_report_text(&dump->report, "condition", condition == 0 ? "good" : g4_strerror(condition));
		g4_show_header(&dump->report, &header);
		if (condition == 0)
			g4_show_block(&dump->report, dump->image, page);
	} else if (!show_indirect(dump, address, page) && !show_sums_page(dump, address, page)) {
		show_bytes(dump, page);
	}
	return 0;
}

/* ------------------------------------------------------------------ the command */

static const struct structure {
	const char *name, *alias;
	int (*dump)(struct dump *dump);
	bool needs_which;
} structures[] = {
	{"superblock", "sb", dump_superblock, false},
	{"journal", "log", dump_journal, false},
	{"root", "root", dump_root, false},
	{"groups", "groups", dump_groups, false},
	{"group", "alloc", dump_group, true},
	{"listed", "listed", dump_listed, false},
	{"inode", "inode", dump_inode, true},
	{"dir", "directory", dump_directory, true},
	{"map", "map", dump_map, true},
	{"xattr", "xattr", dump_xattr, true},
	{"block", "page", dump_block, true},
};

static const struct structure pages = {"the directory", "", dump_pages, true};
static const struct structure ddt = {"what deduplication has", "", dump_ddt, false};

static const struct structure *find_structure(const char *name)
{
	for (size_t i = 0; i < sizeof(structures) / sizeof(structures[0]); i++) {
		if (strcmp(structures[i].name, name) == 0 || strcmp(structures[i].alias, name) == 0)
			return &structures[i];
	}
	return NULL;
}

struct wanted {
	const struct structure *structure;
	const char *which;
	bool json, raw, dot;
};

static int run(struct g4_image *image, const struct wanted *wanted)
{
	const struct structure *structure = wanted->structure;
	const char *which = wanted->which;
	struct dump dump = {.image = image, .which = which, .dot = wanted->dot};
	struct g4_journal_state journal;
	int status = wanted->raw ? 0 : g4_image_load_overlay(image, &journal);

	if (!wanted->dot)
		g4_report_start(&dump.report, stdout, wanted->json);
	if (status == 0)
		status = structure == NULL ? dump_superblocks(&dump) : structure->dump(&dump);
	if (!wanted->dot)
		g4_report_finish(&dump.report);
	if (status < 0)
		g4_cli_error("dump", "%s: %s%s%s: %s", image->name, structure == NULL ? "superblocks" : structure->name,
			     which == NULL ? "" : " ", which == NULL ? "" : which, g4_strerror(status));
	return status < 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}

/* What is asked for, of the words behind the options: the device, and with --dir or --ddt nothing else. */
static int parse_words(int words, char **word, struct wanted *wanted)
{
	if (wanted->which != NULL && wanted->structure != NULL)
		return g4_cli_usage("dump", "one of --dir and --ddt will do");
	if ((wanted->which != NULL || wanted->structure != NULL) && words != 1)
		return g4_cli_usage("dump", "with --dir and --ddt a device is what can be given");
	if (words < 1)
		return g4_cli_usage("dump", "no device was given");
	if (words > 3)
		return g4_cli_usage("dump", "behind the device only a structure and which of them can be given");
	if (wanted->dot && ((wanted->which == NULL && wanted->structure == NULL) || wanted->json))
		return g4_cli_usage("dump", "--dot goes with --dir or --ddt, and not with --json");
	if (wanted->which != NULL)
		wanted->structure = &pages;
	if (words == 1)
		return G4_EXIT_OK;
	wanted->structure = find_structure(word[1]);
	if (wanted->structure == NULL)
		return g4_cli_usage("dump", "there is no structure '%s'", word[1]);
	if (wanted->structure->needs_which && words < 3)
		return g4_cli_usage("dump", "which %s?", wanted->structure->name);
	wanted->which = words > 2 ? word[2] : NULL;
	return G4_EXIT_OK;
}

int g4_cli_dump(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, 'j'},      {"raw", no_argument, NULL, 'r'},
		{"dir", required_argument, NULL, 'd'}, {"ddt", no_argument, NULL, 't'},
		{"dot", no_argument, NULL, 'g'},       {NULL, 0, NULL, 0}};
	struct wanted wanted = {.which = NULL};
	struct g4_image image;
	char message[512];

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer == 'j')
			wanted.json = true;
		else if (answer == 'r')
			wanted.raw = true;
		else if (answer == 'g')
			wanted.dot = true;
		else if (answer == 't')
			wanted.structure = &ddt;
		else if (answer == 'd')
			wanted.which = optarg;
		else
			return g4_cli_bad_option("dump", answer, argv);
	}
	const int status = parse_words(argc - optind, argv + optind, &wanted);
	if (status != G4_EXIT_OK)
		return status;
	g4_fuse_wait_for_last_mount(argv[optind]); /* umount(8) does not */
	const int opened = g4_image_open(&image, argv[optind], message, sizeof(message));
	if (opened < 0) {
		g4_cli_error("dump", "%s%s", message, g4c_advice(opened));
		return G4_EXIT_FAILURE;
	}
	const int result = run(&image, &wanted);
	g4_image_close(&image);
	return result;
}
