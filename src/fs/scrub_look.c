/* SPDX-License-Identifier: Apache-2.0 */
/* What a scrub looks at, and what it has found. Nothing is believed for its looks: what leads to a page is locked. */
#include "fs/scrub_look.h"

#include "data/fetch.h"
#include "inode/events.h"
#include "journal/journal.h"

/* ------------------------------------------------------------------ findings */

/* Of the same kind, of contents. */
G4_FN static bool is_alike(const struct g4_finding *a, const struct g4_finding *b)
{
	return a->code == b->code && a->inode == b->inode && a->page != G4_FINDING_METADATA &&
	       b->page != G4_FINDING_METADATA;
}

/* Whether it is among those that are there. Jobs lock held. */
G4_FN static bool is_known(const struct g4_jobs *jobs, const struct g4_finding *finding)
{
	for (uint32_t i = 0; i < G4_FINDINGS; i++) {
		const struct g4_finding *old = &jobs->findings[i];
		if (finding->page == G4_FINDING_METADATA ?
			    old->page == finding->page && old->address == finding->address &&
				    old->code == finding->code && old->inode == finding->inode :
			    is_alike(old, finding) && finding->page - old->page < old->pages)
			return true;
	}
	return false;
}

/* Makes one of two runs, of which the second begins where the first ends. Jobs lock held. */
G4_FN static bool join(struct g4_finding *first, struct g4_finding *second)
{
	if (!is_alike(first, second) || first->page + first->pages != second->page)
		return false;
	first->pages += second->pages;
	memset(second, 0, sizeof(*second));
	return true;
}

/* Runs of pages may be found in any order: what comes between two of them joins them. */
G4_FN void g4_finding_add(struct g4_fs *fs, struct g4_job_record *record, const struct g4_finding *finding)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_finding whole = *finding;
	uint32_t place = G4_FINDINGS;

	g4_lock(&jobs->lock);
	if (is_known(jobs, finding)) {
		g4_unlock(&jobs->lock);
		return;
	}
	record->errors++;
	for (uint32_t i = 0; i < G4_FINDINGS; i++) {
		struct g4_finding *old = &jobs->findings[i];
		if (join(old, &whole))
			whole = *old;
		else if (!join(&whole, old))
			continue;
		memset(old, 0, sizeof(*old));
		place = i < place ? i : place;
		i = UINT32_MAX; /* there may be one on the other side */
	}
	for (uint32_t i = 0; i < G4_FINDINGS && place == G4_FINDINGS; i++)
		place = jobs->findings[i].code == 0 ? i : place;
	if (place < G4_FINDINGS)
		jobs->findings[place] = whole;
	else
		jobs->findings_lost += finding->pages;
	g4_unlock(&jobs->lock);
}

G4_FN void g4_scrub_find_metadata(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, int code)
{
	const struct g4_finding finding = {ino, step->dir,	G4_FINDING_METADATA, g4_address_stored(address),
					   1,	(uint32_t)-code};
	const struct g4_event event = {ino, G4_FINDING_METADATA, g4_address_stored(address), 0, (uint32_t)-code, 0, {0},
				       {0}};
	const uint64_t before = step->record->errors;

	g4_finding_add(step->fs, step->record, &finding);
	if (step->record->errors != before)
		g4_event_post(step->wg, step->fs, &event);
}

/* ------------------------------------------------------------------ metadata */

G4_FN void g4_scrub_count(struct g4_scrub_step *step, uint32_t pages)
{
	step->pages += pages;
	step->record->done += pages;
	step->record->bytes += pages * G4_PAGE_BYTES;
}

G4_FN int g4_scrub_look(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, uint32_t type)
{
	if (step->scrub->again) /* it was looked at */
		return 0;
	int rc = g4_ptr_validate(g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID), &step->fs->meta.layout);
	if (rc == 0 || type == G4_BLOCK_SUPERBLOCK || type == G4_BLOCK_ROOT || type == G4_BLOCK_JOURNAL_HEADER ||
	    type == G4_BLOCK_GROUPS || type == G4_BLOCK_ALLOC)
		rc = g4_journal_look(step->wg, &step->fs->journal, address, type, step->buffer);
	g4_scrub_count(step, 1);
	if (rc < 0)
		g4_scrub_find_metadata(step, ino, address, rc);
	return rc;
}

G4_FN void g4_scrub_look_once(struct g4_scrub_step *step, uint64_t ino, struct g4_address address, uint32_t type,
			      uint64_t *seen)
{
	if (g4_xchg64(seen, g4_address_stored(address)) != g4_address_stored(address))
		g4_scrub_look(step, ino, address, type);
}

G4_FN void g4_scrub_look_at_nodes(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page)
{
	struct g4_map_nodes nodes;
	int rc = g4_map_nodes(step->wg, step->fs, inode, page, &nodes);

	for (uint32_t k = 0; k < nodes.count; k++)
		g4_scrub_look_once(step, inode->ino, nodes.nodes[k], G4_BLOCK_INDIRECT,
				   g4_scrub_seen(step, nodes.nodes[k]));
	for (uint32_t k = 0; k < nodes.sums_count; k++)
		g4_scrub_look_once(step, inode->ino, nodes.sums[k], G4_BLOCK_CHECKSUMS,
				   g4_scrub_seen(step, nodes.sums[k]));
	if (rc < 0 && rc != -G4_E_CORRUPT_SUMS && nodes.count > 0)
		g4_scrub_find_metadata(step, inode->ino, nodes.nodes[nodes.count - 1], rc);
}

G4_FN uint64_t g4_scrub_read(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
			     struct g4_address address, uint32_t pages)
{
	uint64_t bad, unverified;
	int rc = g4_fetch_survey(step->wg, step->fs, inode, page, address, step->to, pages, &bad, &unverified);

	g4_scrub_count(step, pages);
	for (uint32_t k = 0; rc < 0 && k < pages; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		uint64_t one = bad >> k & 1, without;
		int code = rc;
		if (unverified >> k & 1)
			code = -G4_E_CORRUPT_SUMS;
		else if (rc == -G4_E_CORRUPT_SUMS) /* another page's */
			code = -G4_E_DATA;
		else if (one && rc != -G4_E_DATA) /* which of them can not be read */
			code = g4_fetch_survey(step->wg, step->fs, inode, page + k, at,
					       step->to ? step->to + k * G4_PAGE_BYTES : NULL, 1, &one, &without);
		if (code == 0)
			bad &= ~(UINT64_C(1) << k);
		const struct g4_finding finding = {inode->ino, step->dir,      page + k, g4_address_stored(at),
						   1,	       (uint32_t)-code};
		if (one && code < 0)
			g4_finding_add(step->fs, step->record, &finding);
		/* what is damaged was counted where it was compared */
		const struct g4_event event = {inode->ino, page + k, g4_address_stored(at), 0, (uint32_t)-code, 0,
					       {0},	   {0}};
		if (one && code < 0 && !g4_fetch_is_damage(code))
			g4_event_post(step->wg, step->fs, &event);
	}
	return bad;
}
