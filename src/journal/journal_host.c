/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the journal and setting it up over memory that the mount took. */
#include "base/move_host.h"
#include "journal/journal.h"

static uint32_t blocks_for(uint64_t log_pages, uint32_t line_count, uint32_t most_blocks)
{
	uint64_t most = log_pages / 2 - 40;

	if (most_blocks > G4_TXN_MAX_BLOCKS) /* descriptors are counted in the log, too: a quarter leaves them room */
		most = g4_min64(most, g4_max64(G4_TXN_MAX_BLOCKS, log_pages / 4));
	most = g4_min64(most, most_blocks ? g4_min64(most_blocks, G4_TXN_MOST_BLOCKS) : G4_TXN_MAX_BLOCKS);
	/* the smallest log has room for twice the least */
	return (uint32_t)g4_max64(g4_min64(most, line_count / 8), G4_TXN_LEAST_BLOCKS);
}

/* Descriptor pages of a record with so many images. */
static uint64_t descriptors_for(uint64_t blocks)
{
	return (blocks + G4_TXN_MAX_REVOKES + 2 * G4_TXN_MAX_DATA) / G4_JOURNAL_TAGS + 1;
}

uint64_t g4_journal_memory(uint64_t log_pages, uint32_t line_count, uint32_t most_blocks)
{
	uint64_t blocks = blocks_for(log_pages, line_count, most_blocks) + G4_TXN_SLACK;
	uint64_t bytes = (descriptors_for(blocks) + blocks + 1) * G4_PAGE_BYTES + blocks * G4_PAGE_BYTES;

	bytes += 2 * (blocks * sizeof(uint32_t) + G4_TXN_MAX_REVOKES * sizeof(uint64_t) +
		      G4_TXN_MAX_FREES * sizeof(struct g4_extent));
	bytes += 2 * blocks * (2 * sizeof(uint32_t) + sizeof(uint64_t)) + blocks * sizeof(uint32_t);
	return g4_align_up(bytes + 4096, G4_PAGE_BYTES);
}

void g4_journal_init(struct g4_journal *j, struct g4_meta *meta, void *memory, struct g4_address area,
		     uint64_t log_pages, uint64_t head_page, uint64_t next, uint32_t most_blocks)
{
	uint8_t *at = (uint8_t *)memory;
	uint64_t blocks;

	memset(j, 0, sizeof(*j));
	j->meta = meta;
	j->cache = meta->cache;
	j->lines = meta->cache->lines;
	j->frames = g4_cache_frames(meta->cache);
	j->line_count = meta->cache->line_count;
	j->area = area;
	j->log_pages = log_pages;
	j->max_blocks = blocks_for(log_pages, meta->cache->line_count, most_blocks);
	j->running = next;
	j->durable = next - 1;
	j->head_page = head_page;
	blocks = j->max_blocks + G4_TXN_SLACK;
	j->record = at;
	at += (descriptors_for(blocks) + blocks + 1) * G4_PAGE_BYTES;
	j->home_copies = at;
	at += blocks * G4_PAGE_BYTES;
	for (int i = 0; i < 2; i++) {
		j->logs[i].frees = (struct g4_extent *)at;
		at += G4_TXN_MAX_FREES * sizeof(struct g4_extent);
		j->logs[i].revokes = (uint64_t *)at;
		at += G4_TXN_MAX_REVOKES * sizeof(uint64_t);
	}
	j->home_addresses = (struct g4_address *)at;
	at += 2 * blocks * sizeof(uint64_t);
	j->home_lines = (uint32_t *)at;
	at += 2 * blocks * sizeof(uint32_t);
	j->home_order = (uint32_t *)at;
	at += 2 * blocks * sizeof(uint32_t);
	for (int i = 0; i < 2; i++) {
		j->logs[i].lines = (uint32_t *)at;
		at += blocks * sizeof(uint32_t);
	}
	j->record_crcs = (uint32_t *)at;
}

void g4_journal_moved(struct g4_journal *j, intptr_t by)
{
	G4_MOVE(j->meta, by);
	G4_MOVE(j->cache, by);
	G4_MOVE(j->lines, by);
	G4_MOVE(j->frames.frames, by);
	if (j->frames.numbers)
		G4_MOVE(j->frames.numbers, by);
	for (int i = 0; i < 2; i++) {
		G4_MOVE(j->logs[i].lines, by);
		G4_MOVE(j->logs[i].revokes, by);
		G4_MOVE(j->logs[i].frees, by);
	}
	G4_MOVE(j->home_lines, by);
	G4_MOVE(j->record, by);
	G4_MOVE(j->home_copies, by);
	G4_MOVE(j->home_addresses, by);
	G4_MOVE(j->home_order, by);
	G4_MOVE(j->record_crcs, by);
}
