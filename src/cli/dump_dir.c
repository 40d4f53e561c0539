/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory's tree of pages, for users that ask why it is as large, or as slow, as it is: how full each page is, which hashes it
 * has, how many names have another one's hash. Pages are collected in one walk, and then printed.
 */
#include "cli/dump_dir.h"
#include "dir/dir.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_PARENT UINT32_MAX
#define LEAF_UNITS (G4_DIR_UNITS - G4_DIR_HEADER_UNITS)

struct page {
	uint64_t address;
	uint64_t low, high; /* its positions: low <= position < high */
	uint32_t parent;    /* which of the pages, or NO_PARENT */
	uint32_t level;	    /* 0: a leaf */
	uint32_t entries;
	uint32_t used, room; /* units of a leaf, entries of an index page */
	uint32_t colliding;  /* names whose hash another one has */
	uint32_t name_bytes;
	int status;
};

struct tree {
	struct page *pages;
	uint32_t count, room;
	uint32_t hashes[G4_DIR_UNITS]; /* of the leaf at hand */
	uint32_t hash_count;
	struct page *leaf;
	uint64_t last_hash; /* of the leaf before; UINT64_MAX: it has none */
	uint32_t last_leaf; /* which of the pages that is */
	bool last_alone;    /* no other name that was met has that hash */
};

/* ------------------------------------------------------------------ collecting */

static struct page *add(struct tree *tree)
{
	if (tree->count == tree->room) {
		const uint32_t room = tree->room ? 2 * tree->room : 64;
		struct page *pages = realloc(tree->pages, room * sizeof(*pages));
		if (pages == NULL)
			return NULL;
		tree->pages = pages;
		tree->room = room;
	}
	struct page *page = &tree->pages[tree->count++];
	memset(page, 0, sizeof(*page));
	return page;
}

static bool see_entry(void *context, const struct g4_entry_view *view)
{
	struct tree *tree = context;

	tree->leaf->entries++;
	tree->leaf->name_bytes += view->entry.name_bytes;
	if (tree->hash_count < G4_DIR_UNITS)
		tree->hashes[tree->hash_count++] = view->entry.hash;
	return false;
}

static int compare_hashes(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Leaves come in the order of positions, so that names of one hash are in neighbours. */
static void see_leaf(struct tree *tree, struct page *page, const struct g4_dir_walk *walk)
{
	tree->leaf = page;
	tree->hash_count = 0;
	page->room = LEAF_UNITS;
	for (uint32_t word = 0; word < 4; word++)
		page->used += (uint32_t)__builtin_popcountll(walk->leaf.used[word]);
	page->used -= G4_DIR_HEADER_UNITS;
	g4_leaf_each_entry(&walk->leaf, walk->address, see_entry, tree);
	qsort(tree->hashes, tree->hash_count, sizeof(tree->hashes[0]), compare_hashes);
	if (tree->hash_count > 0 && tree->hashes[0] == tree->last_hash && tree->last_alone)
		tree->pages[tree->last_leaf].colliding++;
	for (uint32_t k = 0; k < tree->hash_count; k++) {
		const bool like_last = tree->hashes[k] == (k > 0 ? tree->hashes[k - 1] : tree->last_hash);
		const bool like_next = k + 1 < tree->hash_count && tree->hashes[k] == tree->hashes[k + 1];
		page->colliding += like_last || like_next;
		tree->last_alone = !like_last;
	}
	if (tree->hash_count > 0) {
		tree->last_hash = tree->hashes[tree->hash_count - 1];
		tree->last_leaf = (uint32_t)(page - tree->pages);
	}
}

static int collect(struct g4_image *image, const struct g4_inode *inode, struct tree *tree)
{
	static struct g4_dir_walk walk; /* too large for a stack */
	uint32_t parents[G4_DIR_MAX_LEVEL + 1] = {0};
	int status = 0;

	tree->last_hash = UINT64_MAX;
	g4_dir_walk_start(&walk, image, inode);
	while (g4_dir_walk_next(&walk)) {
		const uint32_t depth = walk.depth;
		struct page *page = add(tree);
		if (page == NULL)
			return -G4_E_NOMEM;
		page->address = g4_address_stored(walk.address);
		page->low = walk.low;
		page->high = walk.high;
		page->parent = depth > 0 ? parents[depth - 1] : NO_PARENT;
		page->level = walk.level == UINT32_MAX ? 0 : walk.level;
		page->status = g4_dir_walk_enter(&walk);
		if (page->status < 0) {
			status = status < 0 ? status : page->status;
		} else if (walk.type == G4_BLOCK_DIR_LEAF) {
			see_leaf(tree, page, &walk);
		} else {
			const struct g4_dir_index *index = &walk.frames[walk.depth - 1].page;
			page->level = index->level;
			page->entries = page->used = index->count;
			page->room = G4_DIR_INDEX_ENTRIES;
			parents[walk.depth - 1] = tree->count - 1;
		}
	}
	return status;
}

/* ------------------------------------------------------------------ printing */

static double percent(uint64_t used, uint64_t room)
{
	return room == 0 ? 0 : 100.0 * (double)used / (double)room;
}

struct level {
	uint64_t pages, entries, used, room, colliding, name_bytes, damaged;
	double least, most; /* fill of a page */
};

static struct level sum_of(const struct tree *tree, uint32_t level)
{
	struct level sum = {.least = 100};

	for (uint32_t k = 0; k < tree->count; k++) {
		const struct page *page = &tree->pages[k];
		const double fill = percent(page->used, page->room);
		if (page->level != level)
			continue;
		sum.pages++;
		sum.damaged += page->status < 0;
		if (page->status < 0)
			continue;
		sum.entries += page->entries;
		sum.used += page->used;
		sum.room += page->room;
		sum.colliding += page->colliding;
		sum.name_bytes += page->name_bytes;
		sum.least = fill < sum.least ? fill : sum.least;
		sum.most = fill > sum.most ? fill : sum.most;
	}
	return sum;
}

static void print_levels(struct g4_report *report, const struct tree *tree)
{
	const uint32_t top = tree->count > 0 ? tree->pages[0].level : 0;

	g4_report_list(report, "levels");
	for (uint32_t level = top + 1; level-- > 0 && tree->count > 0;) {
		const struct level sum = sum_of(tree, level);
		g4_report_object(report, NULL);
		g4_report_count(report, "level", level);
		g4_report_count(report, "pages", sum.pages);
		g4_report_count(report, "entries", sum.entries);
		g4_report_real(report, "fill_percent", percent(sum.used, sum.room));
		g4_report_real(report, "least_percent", sum.room ? sum.least : 0);
		g4_report_real(report, "most_percent", sum.most);
		g4_report_count(report, "damaged", sum.damaged);
		g4_report_end(report);
	}
	g4_report_end(report);
}

static void print_page(struct g4_report *report, const struct page *page)
{
	g4_report_object(report, NULL);
	g4_report_hex(report, "address", page->address);
	g4_report_count(report, "level", page->level);
	g4_report_hex(report, "first_hash", page->low >> 16);
	if ((page->low & UINT16_MAX) != 0)
		g4_report_count(report, "first_collision", page->low & UINT16_MAX);
	g4_report_hex(report, "last_hash", (page->high - 1) >> 16);
	if (page->status < 0) {
		g4_report_text(report, "problem", g4_strerror(page->status));
	} else {
		g4_report_count(report, "entries", page->entries);
		g4_report_count(report, "used", page->used);
		g4_report_count(report, "room", page->room);
		g4_report_real(report, "fill_percent", percent(page->used, page->room));
		g4_report_count(report, "colliding", page->colliding);
	}
	g4_report_end(report);
}

int g4_dump_dir_tree(struct g4_image *image, struct g4_report *report, uint64_t ino, const struct g4_inode *inode)
{
	struct tree tree = {.count = 0};
	const int status = collect(image, inode, &tree);
	const struct level leaves = sum_of(&tree, 0);

	g4_report_hex(report, "inode", ino);
	g4_report_count(report, "entries", inode->entries);
	g4_report_count(report, "pages", tree.count);
	g4_report_count(report, "name_bytes", leaves.name_bytes);
	if (leaves.entries > 0)
		g4_report_real(report, "bytes_per_entry",
			       (double)tree.count * (double)G4_PAGE_BYTES / (double)leaves.entries);
	g4_report_count(report, "colliding", leaves.colliding);
	print_levels(report, &tree);
	g4_report_list(report, "tree");
	for (uint32_t k = 0; k < tree.count; k++)
		print_page(report, &tree.pages[k]);
	g4_report_end(report);
	free(tree.pages);
	return status;
}

int g4_dump_dir_dot(struct g4_image *image, FILE *out, uint64_t ino, const struct g4_inode *inode)
{
	struct tree tree = {.count = 0};
	const int status = collect(image, inode, &tree);

	fprintf(out, "digraph directory {\n\tlabel=\"inode 0x%" PRIx64 ", %u entries\"\n", ino, inode->entries);
	fputs("\trankdir=LR\n\tnode [shape=box, style=filled, fontname=monospace]\n", out);
	for (uint32_t k = 0; k < tree.count; k++) {
		const struct page *page = &tree.pages[k];
		const double fill = percent(page->used, page->room);
		if (page->status < 0)
			fprintf(out, "\tp%u [label=\"0x%" PRIx64 "\\n%s\", fillcolor=red]\n", k, page->address,
				g4_strerror(page->status));
		else /* the fuller, the deeper its colour */
			fprintf(out,
				"\tp%u [label=\"0x%" PRIx64
				"\\n%s %u\\n%u entries, %.0f %%%s\", fillcolor=\"%s %.2f 1\"]\n",
				k, page->address, page->level ? "index, level" : "leaf, level", page->level,
				page->entries, fill, page->colliding ? "\\nequal hashes" : "",
				page->level ? "0.6" : "0.33", fill / 100);
		if (page->parent != NO_PARENT)
			fprintf(out, "\tp%u -> p%u [label=\"%08" PRIx64 "\"]\n", page->parent, k, page->low >> 16);
	}
	fputs("}\n", out);
	free(tree.pages);
	return status;
}
