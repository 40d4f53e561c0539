/* SPDX-License-Identifier: Apache-2.0 */
/*
 *      allocation map of a group -> page of shares, with owners of whole regions
 *                                                  -> page of buffered owners, which are not counted yet
 *                                                  -> page of counts, a region of 512 pages
 *                                                  -> pages of sums, a quarter of a region
 *
 * Pages are collected in one walk, and then printed.
 */
#include "cli/dump_ddt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/owners.h"

#define CLASSES 33u /* of owners: 2^k or more, and less than 2^(k+1) */

enum kind { SHARES, BUFFERED, COUNTS, SUMS, KINDS };

struct page {
	enum kind kind;
	int status;
	uint64_t group, address;
	uint32_t region, quarter; /* of the group; of the region */
	uint32_t pages;		  /* of data that it is about: with several owners, listed */
	/* of a page of counts: all that its pages have; of a page of buffered ones: those; of a page of shares: those of regions */
	uint64_t owners;
};

struct ddt {
	struct page *pages;
	uint64_t count, room;
	uint64_t number[KINDS]; /* of each kind that are not damaged */
	uint64_t listed, shared, owners, damaged;
	uint64_t classes[CLASSES];
};

/* ------------------------------------------------------------------ collecting */

static struct page *add(struct ddt *ddt, enum kind kind, uint64_t group, uint64_t address, int status)
{
	if (ddt->count == ddt->room) {
		const uint64_t room = ddt->room ? 2 * ddt->room : 64;
		struct page *pages = realloc(ddt->pages, room * sizeof(*pages));
		if (pages == NULL)
			return NULL;
		ddt->pages = pages;
		ddt->room = room;
	}
	struct page *page = &ddt->pages[ddt->count++];
	*page = (struct page){.kind = kind, .status = status, .group = group, .address = address};
	ddt->number[kind] += status == 0;
	ddt->damaged += status < 0;
	return page;
}

static int read_block(struct g4_image *image, uint64_t number, enum g4_block_type type, void *block)
{
	const struct g4_address address = g4_address_from(number);

	if (!g4_address_starts_page(address) || !g4_layout_holds(&image->layout, address))
		return -G4_E_CORRUPT_ALLOC;
	return g4_image_block(image, address, type, block);
}

/* What a page of counts says. */
static void see_counts(struct page *page, const struct g4_owners_page *counts)
{
	for (uint32_t k = 0; k < G4_REGION_PAGES; k++) {
		page->pages += counts->more[k] != 0;
		page->owners += counts->more[k] != 0 ? counts->more[k] + UINT64_C(1) : 0;
	}
}

/* Of a region's pages, with owners that are counted for it as a whole, and those that are buffered. */
static void see_owners(struct ddt *ddt, uint32_t region, uint32_t whole, const struct g4_owners_page *counts,
		       const struct g4_buffered_page *buffered)
{
	uint64_t owners[G4_REGION_PAGES];

	for (uint32_t k = 0; k < G4_REGION_PAGES; k++)
		owners[k] = UINT64_C(1) + whole + counts->more[k];
	for (uint32_t k = 0; k < buffered->count; k++)
		if (buffered->pages[k] / G4_REGION_PAGES == region)
			owners[buffered->pages[k] % G4_REGION_PAGES]++;
	for (uint32_t k = 0; k < G4_REGION_PAGES; k++) {
		if (owners[k] == 1)
			continue;
		ddt->shared++;
		ddt->owners += owners[k];
		ddt->classes[63 - __builtin_clzll(owners[k])]++;
	}
}

/* The page of buffered owners of a group, if there is one; without any otherwise. */
static int see_buffered(struct ddt *ddt, struct g4_image *image, uint64_t group, const struct g4_shares_page *shares,
			struct g4_buffered_page *buffered)
{
	memset(buffered, 0, sizeof(*buffered));
	if (shares->buffered == 0 || !(image->sb.features_incompat & G4_FEATURE_INCOMPAT_BUFFERED))
		return 0;
	int status = read_block(image, shares->buffered, G4_BLOCK_BUFFERED, buffered);
	if (status == 0)
		status = g4_buffered_page_validate(buffered, group);
	struct page *page = add(ddt, BUFFERED, group, shares->buffered, status);
	if (page == NULL)
		return -G4_E_NOMEM;
	page->owners = status == 0 ? buffered->count : 0;
	if (status < 0)
		memset(buffered, 0, sizeof(*buffered));
	return 0;
}

static int see_region(struct ddt *ddt, struct g4_image *image, uint64_t group, uint32_t region,
		      const struct g4_shares_page *shares, const struct g4_buffered_page *buffered)
{
	const uint64_t number = group * G4_GROUP_REGIONS + region;
	struct g4_owners_page counts = {.region = number};
	struct g4_listing_page sums;

	if (shares->owners[region] != 0) {
		int status = read_block(image, shares->owners[region], G4_BLOCK_OWNERS, &counts);
		if (status == 0)
			status = g4_owners_page_validate(&counts, number);
		struct page *page = add(ddt, COUNTS, group, shares->owners[region], status);
		if (page == NULL)
			return -G4_E_NOMEM;
		page->region = region;
		if (status == 0)
			see_counts(page, &counts);
		else
			memset(&counts, 0, sizeof(counts));
	}
	const bool may = (image->sb.features_incompat & G4_FEATURE_INCOMPAT_WHOLE) != 0;
	see_owners(ddt, region, may ? shares->whole[region] : 0, &counts, buffered);
	for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++) {
		const uint64_t address = shares->listings[region][quarter];
		if (address == 0)
			continue;
		int status = read_block(image, address, G4_BLOCK_LISTING, &sums);
		if (status == 0)
			status = g4_listing_page_validate(&sums, number, quarter);
		struct page *page = add(ddt, SUMS, group, address, status);
		if (page == NULL)
			return -G4_E_NOMEM;
		page->region = region;
		page->quarter = quarter;
		for (uint32_t word = 2 * quarter; word < 2 * quarter + 2; word++)
			page->pages += (uint32_t)__builtin_popcountll(shares->listed[region][word]);
	}
	return 0;
}

static int see_group(struct ddt *ddt, struct g4_image *image, uint64_t group)
{
	struct g4_alloc_page map;
	struct g4_shares_page shares;
	struct g4_buffered_page buffered;
	int status = g4_image_block(image, g4_layout_map_page(&image->layout, group), G4_BLOCK_ALLOC, &map);

	if (status == 0 && map.shares == 0)
		return 0;
	const uint64_t address = status == 0 ? map.shares : 0;
	if (status == 0)
		status = read_block(image, address, G4_BLOCK_SHARES, &shares);
	if (status == 0)
		status = g4_shares_page_validate(&shares, group, &image->layout);
	struct page *page = add(ddt, SHARES, group, address, status);
	if (page == NULL)
		return -G4_E_NOMEM;
	if (status < 0)
		return 0;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		for (uint32_t word = 0; word < G4_REGION_PAGES / 64; word++)
			page->pages += (uint32_t)__builtin_popcountll(shares.listed[region][word]);
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		page->owners += image->sb.features_incompat & G4_FEATURE_INCOMPAT_WHOLE ? shares.whole[region] : 0;
	ddt->listed += page->pages;
	if (see_buffered(ddt, image, group, &shares, &buffered) < 0)
		return -G4_E_NOMEM;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		if (see_region(ddt, image, group, region, &shares, &buffered) < 0)
			return -G4_E_NOMEM;
	return 0;
}

/* 0, or why not all of it was seen. */
static int collect(struct ddt *ddt, struct g4_image *image)
{
	const struct g4_layout *layout = &image->layout;
	struct g4_groups_page groups;
	int status = 0;

	for (uint64_t group = 0; group < layout->group_count && status == 0; group++) {
		if (group % G4_GROUPS_PER_PAGE == 0)
			status = g4_image_block(image, g4_layout_groups_page(layout, group), G4_BLOCK_GROUPS, &groups);
		if (status == 0 && (groups.groups[group % G4_GROUPS_PER_PAGE].flags & G4_GROUP_INITIALISED) != 0)
			status = see_group(ddt, image, group);
	}
	return status;
}

static int first_problem(const struct ddt *ddt)
{
	for (uint64_t k = 0; k < ddt->count; k++)
		if (ddt->pages[k].status < 0)
			return ddt->pages[k].status;
	return 0;
}

/* ------------------------------------------------------------------ printing */

static void print_listed(struct g4_report *report, const struct ddt *ddt)
{
	uint64_t damaged = 0;

	for (uint64_t k = 0; k < ddt->count; k++)
		damaged += ddt->pages[k].kind == SHARES && ddt->pages[k].status < 0;
	g4_report_count(report, "listed", ddt->listed);
	g4_report_size(report, "listed_bytes", ddt->listed * G4_PAGE_BYTES);
	g4_report_size(report, "sums_bytes", ddt->number[SUMS] * G4_PAGE_BYTES);
	g4_report_count(report, "damaged_groups", damaged);
}

int g4_dump_listed(struct g4_image *image, struct g4_report *report)
{
	struct ddt ddt = {.count = 0};
	const int status = collect(&ddt, image);

	print_listed(report, &ddt);
	free(ddt.pages);
	return status;
}

static const char *name_of(enum kind kind)
{
	static const char *const names[KINDS] = {"shares", "buffered", "counts", "sums"};

	return names[kind];
}

static void print_page(struct g4_report *report, const struct page *page)
{
	g4_report_object(report, NULL);
	g4_report_text(report, "kind", name_of(page->kind));
	g4_report_hex(report, "address", page->address);
	g4_report_count(report, "group", page->group);
	if (page->kind == COUNTS || page->kind == SUMS)
		g4_report_count(report, "region", page->region);
	if (page->kind == SUMS)
		g4_report_count(report, "quarter", page->quarter);
	if (page->status < 0)
		g4_report_text(report, "problem", g4_strerror(page->status));
	else if (page->kind != BUFFERED)
		g4_report_count(report, page->kind == COUNTS ? "shared" : "listed", page->pages);
	if (page->kind != SUMS && page->status == 0)
		g4_report_count(report, page->kind == SHARES ? "whole" : "owners", page->owners);
	g4_report_end(report);
}

int g4_dump_ddt_tree(struct g4_image *image, struct g4_report *report)
{
	struct ddt ddt = {.count = 0};
	const int status = collect(&ddt, image);

	print_listed(report, &ddt);
	g4_report_count(report, "shared", ddt.shared);
	g4_report_size(report, "shared_bytes", ddt.shared * G4_PAGE_BYTES);
	g4_report_count(report, "owners_of_shared", ddt.owners);
	g4_report_size(report, "shares_bytes", ddt.number[SHARES] * G4_PAGE_BYTES);
	g4_report_size(report, "counts_bytes", (ddt.number[COUNTS] + ddt.number[BUFFERED]) * G4_PAGE_BYTES);
	g4_report_size(report, "table_bytes",
		       (ddt.number[SHARES] + ddt.number[BUFFERED] + ddt.number[COUNTS] + ddt.number[SUMS]) *
			       G4_PAGE_BYTES);
	g4_report_count(report, "damaged", ddt.damaged);
	g4_report_list(report, "owners");
	for (uint32_t k = 0; k < CLASSES; k++) {
		if (ddt.classes[k] == 0)
			continue;
		g4_report_object(report, NULL);
		g4_report_count(report, "at_least", UINT64_C(1) << k);
		g4_report_count(report, "at_most", (UINT64_C(2) << k) - 1);
		g4_report_count(report, "pages", ddt.classes[k]);
		g4_report_end(report);
	}
	g4_report_end(report);
	g4_report_list(report, "tree");
	for (uint64_t k = 0; k < ddt.count; k++)
		print_page(report, &ddt.pages[k]);
	g4_report_end(report);
	const int problem = first_problem(&ddt);
	free(ddt.pages);
	return status < 0 ? status : problem;
}

static void draw_page(FILE *out, const struct page *page, uint64_t number, uint64_t parent)
{
	static const char *const hues[KINDS] = {"0.6", "0.75", "0.08", "0.33"};
	const double fill = page->kind == SHARES ?
				    0.2 :
			    page->kind == BUFFERED ?
				    (double)page->owners / G4_BUFFERED_MOST :
				    (double)page->pages / (page->kind == COUNTS ? G4_REGION_PAGES : G4_LISTING_PAGES);

	fprintf(out, "\tp%" PRIu64 " [label=\"%s 0x%" PRIx64 "\\n", number, name_of(page->kind), page->address);
	if (page->kind == SHARES || page->kind == BUFFERED)
		fprintf(out, "group %" PRIu64, page->group);
	else
		fprintf(out, "region %u", page->region);
	if (page->kind == SUMS)
		fprintf(out, ", quarter %u", page->quarter);
	if (page->status < 0)
		fprintf(out, "\\n%s\", fillcolor=red]\n", g4_strerror(page->status));
	else if (page->kind == BUFFERED)
		fprintf(out, "\\n%" PRIu64 " owners\", fillcolor=\"%s %.2f 1\"]\n", page->owners, hues[page->kind],
			fill);
	else if (page->kind == COUNTS) /* the fuller, the deeper its colour */
		fprintf(out, "\\n%u shared, %" PRIu64 " owners\", fillcolor=\"%s %.2f 1\"]\n", page->pages,
			page->owners, hues[page->kind], fill);
	else
		fprintf(out, "\\n%u listed\", fillcolor=\"%s %.2f 1\"]\n", page->pages, hues[page->kind], fill);
	if (page->kind == SHARES)
		fprintf(out, "\tmaps -> p%" PRIu64 "\n", number);
	else
		fprintf(out, "\tp%" PRIu64 " -> p%" PRIu64 "\n", parent, number);
}

int g4_dump_ddt_dot(struct g4_image *image, FILE *out)
{
	struct ddt ddt = {.count = 0};
	const int status = collect(&ddt, image);
	uint64_t parent = 0;

	fprintf(out,
		"digraph ddt {\n\tlabel=\"%" PRIu64 " pages listed, %" PRIu64 " with several owners, %" PRIu64
		" owners\"\n",
		ddt.listed, ddt.shared, ddt.owners);
	fputs("\trankdir=LR\n\tnode [shape=box, style=filled, fontname=monospace]\n\tmaps [label=\"allocation maps\"]\n",
	      out);
	for (uint64_t k = 0; k < ddt.count; k++) {
		parent = ddt.pages[k].kind == SHARES ? k : parent;
		draw_page(out, &ddt.pages[k], k, parent);
	}
	fputs("}\n", out);
	const int problem = first_problem(&ddt);
	free(ddt.pages);
	return status < 0 ? status : problem;
}
