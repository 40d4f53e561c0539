/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole stripes that lanes write by themselves, where all disks are memory (docs/design/redundancy.md, Mapped disks). Such rows are what
 * set_parity_host.c writes as a whole: marked in the log before, with nothing of them held back, or on its way. The lock of rows is not held while they are
 * written; so who empties the log, or looks at rows as they are on disks, waits for those that have a grant, and there is no new one while he has the lock.
 */
#define _GNU_SOURCE 1
#include "space/set_grant_host.h"

#include "space/set_drain_host.h"
#include "space/set_granted_host.h"

/* All of these places, though the log may have to be emptied in the middle. -G4_E_BUSY: they are more regions than it has room for. */
static int mark(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		bool in_use)
{
	for (uint32_t turn = 0; turn < 2; turn++) {
		const int rc = g4_set_log_mark(wg, set, chunk, from, to, in_use);
		if (rc < 0 || g4_set_log_is_marked(set, chunk, from, to, in_use))
			return rc;
	}
	return -G4_E_BUSY;
}

/* The lock is held. Whole stripes of a chunk, between two of its places. */
static int make_ready(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		      bool in_use)
{
	int rc = g4_rows_make(wg, set, chunk, from, to);

	if (rc == 0)
		rc = mark(wg, set, chunk, from, to, in_use);
	for (uint64_t at = from; at < to && rc == 0; at += chunk->stripe_bytes) {
		const struct g4_row row = {chunk, at / chunk->stripe_bytes, 0, chunk->stripe_bytes};
		rc = g4_rows_settle_for(wg, set, &row);
		if (rc == 0)
			g4_set_held_drop(set, &row);
	}
	return rc;
}

/* The lock is held. */
static int grant_locked(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, uint32_t number,
			bool in_use)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t stripe = g4_chunk_stripe_data(chunk), at = address - chunk->address;

	if (!chunk->parity || at % stripe != 0 || bytes % stripe != 0 || bytes > chunk->bytes - at)
		return -G4_E_INVAL;
	if (!set->has_super || set->dev.props.read_only || g4_load32_acq(&set->stuck) || set->parity->old_end > 1 ||
	    set->parity->cut)
		return -G4_E_BUSY;
	int rc = g4_set_parity_touch(set, address, bytes);
	if (rc == 0)
		rc = make_ready(wg, set, chunk, at / stripe * chunk->stripe_bytes,
				(at + bytes) / stripe * chunk->stripe_bytes, in_use);
	if (rc < 0)
		return rc;
	return g4_set_grants_note(set, number, address, bytes) ? 0 : -G4_E_BUSY;
}

int g4_set_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	struct g4_set *set = (struct g4_set *)dev->host;
	const bool in_use = (number & G4_DEV_GRANT_IN_USE) != 0;

	number &= ~G4_DEV_GRANT_IN_USE;
	if (!set->parity)
		return -G4_E_NOTSUP;
	if ((address | bytes) % G4_PAGE_BYTES != 0 || bytes == 0 || address > g4_set_bytes(set) ||
	    bytes > g4_set_bytes(set) - address || number >= G4_DEV_GRANTS)
		return -G4_E_INVAL;
	pthread_rwlock_wrlock(&set->parity->lock);
	const int rc = grant_locked(wg, set, address, bytes, number, in_use);
	pthread_rwlock_unlock(&set->parity->lock);
	return rc;
}

uint32_t *g4_set_words(const struct g4_dev *dev)
{
	const struct g4_set *set = (const struct g4_set *)dev->host;

	return set->parity ? g4_set_grants_words(set) : NULL;
}

void g4_set_use_words(struct g4_dev *dev, uint32_t *words)
{
	struct g4_set *set = (struct g4_set *)dev->host;

	if (!set->parity)
		return;
	pthread_rwlock_wrlock(&set->parity->lock);
	g4_set_grants_move(set, words);
	pthread_rwlock_unlock(&set->parity->lock);
}
