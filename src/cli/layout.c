/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where on the disks of a file system of several, by the table of its chunks. */
#include "cli/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units_host.h"

#define CELLS 64u /* of a picture: each is as much of the disk */

struct placed { /* a place of a chunk */
	uint64_t from, bytes;
	const struct g4_chunk *chunk;
};

static int by_address(const void *a, const void *b)
{
	const struct placed *x = (const struct placed *)a, *y = (const struct placed *)b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* The places on a disk in their order, to be freed; NULL: no memory. */
static struct placed *places_on(const struct g4_set_status *status, uint32_t disk, uint32_t *count)
{
	struct placed *placed = calloc(G4_CHUNKS_MAX * (size_t)G4_CHUNK_PLACES, sizeof(*placed));

	*count = 0;
	for (uint32_t n = 0; placed != NULL && n < status->chunk_count; n++) {
		const struct g4_chunk *chunk = &status->chunks[n];
		for (uint32_t p = 0; p < (uint32_t)chunk->columns * chunk->copies; p++)
			if (g4_place_disk(chunk->places[p]) == disk)
				placed[(*count)++] =
					(struct placed){g4_place_address(chunk->places[p]), chunk->place_bytes, chunk};
	}
	if (placed != NULL)
		qsort(placed, *count, sizeof(*placed), by_address);
	return placed;
}

/* What is at an address of a disk: of a level, nobody's, or what the set itself has there. */
static char cell_at(const struct g4_set_status *status, const struct placed *placed, uint32_t count, uint64_t address)
{
	for (uint32_t n = 0; n < count; n++)
		if (address - placed[n].from < placed[n].bytes)
			return g4_level_name(g4_chunk_shape(placed[n].chunk))[0];
	return address < G4_CHUNK_UNIT + status->log_bytes ? '-' : '.';
}

static void draw(struct g4_report *report, const struct g4_set_status *status, uint32_t disk,
		 const struct placed *placed, uint32_t count)
{
	const uint64_t bytes = status->disks[disk].bytes;
	char cells[CELLS + 1] = "";

	for (uint32_t c = 0; c < CELLS; c++) /* in the middle of each */
		cells[c] = cell_at(status, placed, count, bytes / CELLS * c + bytes / CELLS / 2);
	g4_report_text(report, "layout", cells);
}

static void list_places(struct g4_report *report, const struct placed *placed, uint32_t count)
{
	g4_report_list(report, "places");
	for (uint32_t n = 0; n < count; n++) {
		const struct g4_chunk *chunk = placed[n].chunk;
		g4_report_object(report, NULL);
		g4_report_count(report, "disk_address", placed[n].from);
		g4_report_size(report, "size_bytes", placed[n].bytes);
		g4_report_count(report, "address", chunk->address);
		g4_report_text(report, "level", g4_level_name(g4_chunk_shape(chunk)));
		g4_report_bool(report, "assigned", chunk->level != G4_LEVEL_OWN);
		g4_report_end(report);
	}
	g4_report_end(report);
}

void g4_cli_show_layout(struct g4_report *report, const struct g4_set_status *status)
{
	g4_report_list(report, "layout");
	for (uint32_t d = 0; d < status->count; d++) {
		uint32_t count;
		struct placed *placed = places_on(status, d, &count);
		if (placed == NULL)
			break;
		g4_report_object(report, NULL);
		g4_report_count(report, "disk", d);
		if (report->json)
			list_places(report, placed, count);
		else
			draw(report, status, d, placed, count);
		g4_report_end(report);
		free(placed);
	}
	g4_report_end(report);
}

/* ------------------------------------------------------------------ in words */

/* The level, as users of other file systems write it, with how many disks a row has; where rows differ the widest. */
static void word_for_level(const struct g4_set_status *status, char *text, size_t bytes)
{
	const char *name = g4_level_name(status->own_level);
	uint32_t columns = 0, parity;

	for (uint32_t n = 0; n < status->chunk_count; n++) {
		const struct g4_chunk *chunk = &status->chunks[n];
		if (chunk->level == G4_LEVEL_OWN && !g4_chunk_is_gone(chunk) && chunk->columns > columns)
			columns = chunk->columns;
	}
	switch (g4_level_raid(status->own_level, &parity)) {
	case G4_RAID_1:
		snprintf(text, bytes, "raid1, %u copies, ", status->copies);
		break;
	case G4_RAID_PARITY:
		snprintf(text, bytes, "%s%s %u+%u, ", parity <= 2 ? "raid" : "", name, columns - parity, parity);
		break;
	case G4_RAID_0:
		snprintf(text, bytes, "raid0, ");
		break;
	default:
		snprintf(text, bytes, "none, ");
	}
}

void g4_cli_show_redundancy(struct g4_report *report, const struct g4_set_status *status)
{
	const uint32_t survives = status->copies > 0 ? status->copies - 1 : 0;
	char level[48] = "", lost_text[48] = "", number[16] = "no";
	uint32_t lost = 0;

	if (status->count == 0) {
		g4_report_text(report, "redundancy", "none, one disk");
	} else {
		if (status->chunk_count > 0)
			word_for_level(status, level, sizeof(level));
		for (uint32_t d = 0; d < status->count; d++)
			lost += status->disks[d].state != G4_DISK_ACTIVE;
		if (survives > 0)
			snprintf(number, sizeof(number), "%u", survives);
		if (lost > 0 && lost <= survives)
			snprintf(lost_text, sizeof(lost_text), ", %u of which %s lost now", lost,
				 g4_counted(lost, "is", "are"));
		else if (lost > 0)
			snprintf(lost_text, sizeof(lost_text), ", %u %s lost now", lost, g4_counted(lost, "is", "are"));
		g4_report_format(report, "redundancy", "%ssurvives %s %s%s", level, number,
				 survives > 1 ? "disks" : "disk", lost_text);
	}
	if (report->json)
		g4_report_count(report, "survives_disks", survives);
}
