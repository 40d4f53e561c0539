/* SPDX-License-Identifier: Apache-2.0 */
/* The table of contents in memory. A crash forgets it; what it led to is counted in the transactions that use it. */
#include "dedup/table.h"

#define HAND_STEPS 32u /* entries that are looked at for one that may go */

/* Where entries with a hash are. */
struct home {
	struct g4_ddt_shard *shard;
	uint32_t first; /* number of the shard's first entry, and of its first head */
	uint32_t *head;
};

G4_FN static void read_hash(uint64_t to[4], const void *hash)
{
	memcpy(to, hash, G4_DDT_HASH_BYTES);
}

G4_FN static struct home home_of(struct g4_ddt *ddt, const uint64_t hash[4])
{
	const uint32_t shard = (uint32_t)(hash[0] % G4_DDT_SHARDS);
	const uint32_t first = shard * ddt->shard_entries;
	const uint32_t head = (uint32_t)((hash[0] >> 32) * ddt->shard_entries >> 32);
	const struct home home = {&ddt->shards[shard], first, &ddt->heads[first + head]};

	return home;
}

/* The chain by address that a page is in, and its lock. */
G4_FN static uint32_t place_of(const struct g4_ddt *ddt, uint64_t address)
{
	const uint64_t mixed = (address >> G4_PAGE_SHIFT) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)((mixed >> 32) * ddt->places >> 32);
}

G4_FN static struct g4_lock *lock_of_place(struct g4_ddt *ddt, uint32_t place)
{
	return &ddt->places_locks[place % G4_DDT_PLACES];
}

/* The entry with a hash, and 1; 0: there is none. The shard is locked. */
G4_FN static uint32_t find(const struct g4_ddt *ddt, const struct home *home, const uint64_t hash[4])
{
	uint32_t at = *home->head;

	while (at) {
		const struct g4_ddt_entry *entry = &ddt->entries[at - 1];
		if (entry->hash[0] == hash[0] && entry->hash[1] == hash[1] && entry->hash[2] == hash[2] &&
		    entry->hash[3] == hash[3])
			return at;
		at = entry->next;
	}
	return 0;
}

G4_FN static uint32_t *region_of(struct g4_ddt *ddt, uint64_t address)
{
	return &ddt->regions[(address >> G4_PAGE_SHIFT) / G4_REGION_PAGES];
}

/* The shard is locked. The entry is out of both chains then, and not in use. */
G4_FN static void take_out(struct g4_ddt *ddt, uint32_t at)
{
	struct g4_ddt_entry *entry = &ddt->entries[at - 1];
	const struct home home = home_of(ddt, entry->hash);
	const uint32_t place = place_of(ddt, entry->address);
	uint32_t before = 0, *link;

	for (uint32_t k = *home.head; k != at; k = ddt->entries[k - 1].next)
		before = k;
	if (before)
		ddt->entries[before - 1].next = entry->next;
	else
		*home.head = entry->next;
	g4_lock(lock_of_place(ddt, place));
	for (link = &ddt->by_address[place]; *link != at; link = &ddt->entries[*link - 1].next_address)
		;
	*link = entry->next_address;
	g4_unlock(lock_of_place(ddt, place));
	g4_sub32(region_of(ddt, entry->address), 1);
	entry->address = 0;
	entry->next = home.shard->unused;
	home.shard->unused = at;
	home.shard->count--;
}

/* Makes room in a full shard, which is locked: of the next entries the first goes that nobody has found, or the last. */
G4_FN static void evict(struct g4_ddt *ddt, const struct home *home)
{
	struct g4_ddt_shard *shard = home->shard;
	uint32_t at = 0;

	for (uint32_t step = 0; step < HAND_STEPS; step++) {
		at = home->first + shard->hand;
		shard->hand = (shard->hand + 1) % ddt->shard_entries;
		if (!ddt->entries[at].asked)
			break;
		ddt->entries[at].asked = 0;
	}
	take_out(ddt, at + 1);
	shard->evicted++;
}

G4_FN struct g4_address g4_ddt_find(struct g4_ddt *ddt, const void *hash)
{
	struct g4_address address = G4_NO_ADDRESS;
	uint64_t wanted[4];

	if (!g4_ddt_is_there(ddt))
		return address;
	read_hash(wanted, hash);
	const struct home home = home_of(ddt, wanted);
	g4_lock(&home.shard->entries_lock);
	const uint32_t at = find(ddt, &home, wanted);
	if (at) {
		address = g4_address_from(ddt->entries[at - 1].address);
		ddt->entries[at - 1].asked = 1;
		home.shard->found++;
	}
	g4_unlock(&home.shard->entries_lock);
	return address;
}

G4_FN void g4_ddt_insert(struct g4_ddt *ddt, const void *hash, struct g4_address address)
{
	uint64_t wanted[4];

	if (!g4_ddt_is_there(ddt) || g4_address_page(address) / G4_REGION_PAGES >= ddt->region_count)
		return;
	read_hash(wanted, hash);
	const struct home home = home_of(ddt, wanted);
	g4_lock(&home.shard->entries_lock);
	if (!find(ddt, &home, wanted)) {
		struct g4_ddt_shard *shard = home.shard;
		if (shard->count == ddt->shard_entries)
			evict(ddt, &home);
		const uint32_t at = shard->unused ? shard->unused : home.first + ++shard->fresh;
		struct g4_ddt_entry *entry = &ddt->entries[at - 1];
		if (at == shard->unused)
			shard->unused = entry->next;
		memcpy(entry->hash, wanted, sizeof(entry->hash));
		entry->address = g4_address_stored(address);
		g4_add32(region_of(ddt, entry->address), 1);
		entry->next = *home.head;
		*home.head = at;
		entry->asked = 0;
		shard->count++;
		shard->inserted++;
		const uint32_t place = place_of(ddt, entry->address);
		g4_lock(lock_of_place(ddt, place));
		entry->next_address = ddt->by_address[place];
		ddt->by_address[place] = at;
		g4_unlock(lock_of_place(ddt, place));
	}
	g4_unlock(&home.shard->entries_lock);
}

G4_FN int g4_ddt_share(struct g4_wg *wg, struct g4_ddt *ddt, struct g4_alloc *alloc, struct g4_txn *txn,
		       const void *hash, struct g4_address address)
{
	uint64_t wanted[4];
	int rc = -G4_E_AGAIN;

	if (!g4_ddt_is_there(ddt))
		return rc;
	read_hash(wanted, hash);
	const struct home home = home_of(ddt, wanted);
	g4_lock(&home.shard->entries_lock);
	const uint32_t at = find(ddt, &home, wanted);
	if (at && ddt->entries[at - 1].address == g4_address_stored(address)) {
		rc = g4_share_acquire(wg, alloc, txn, address, 1);
		/* no page for counts, or none that can be read, too many owners, or freed in this transaction by somebody who has not come here yet */
		if (rc == -G4_E_NOSPC || rc == -G4_E_MLINK || rc == -G4_E_CORRUPT_MAP || rc == -G4_E_IO ||
		    rc == -G4_E_CHECKSUM || rc == -G4_E_MISDIRECTED || rc == -G4_E_TYPE || rc == -G4_E_CORRUPT_ALLOC) {
			take_out(ddt, at);
			rc = -G4_E_AGAIN;
		}
	}
	home.shard->stale += rc == -G4_E_AGAIN;
	g4_unlock(&home.shard->entries_lock);
	return rc;
}

G4_FN bool g4_ddt_any(const struct g4_ddt *ddt, struct g4_address address, uint64_t pages)
{
	const uint64_t first = g4_address_page(address), last = (first + pages - 1) / G4_REGION_PAGES;

	if (!g4_ddt_is_there(ddt))
		return false;
	for (uint64_t region = first / G4_REGION_PAGES; region <= last && region < ddt->region_count; region++)
		if (g4_load32_acq(&ddt->regions[region]) > 0)
			return true;
	return false;
}

/* The entry of a page, and 1; 0: there is none. It may be gone, or another's, once the chain is unlocked. */
G4_FN static uint32_t find_address(struct g4_ddt *ddt, uint64_t address)
{
	const uint32_t place = place_of(ddt, address);

	g4_lock(lock_of_place(ddt, place));
	uint32_t at = ddt->by_address[place];
	while (at && ddt->entries[at - 1].address != address)
		at = ddt->entries[at - 1].next_address;
	g4_unlock(lock_of_place(ddt, place));
	return at;
}

G4_FN static void take_out_if(struct g4_ddt *ddt, uint32_t at, uint64_t address)
{
	struct g4_ddt_shard *shard = &ddt->shards[(at - 1) / ddt->shard_entries];

	g4_lock(&shard->entries_lock);
	if (ddt->entries[at - 1].address == address)
		take_out(ddt, at);
	g4_unlock(&shard->entries_lock);
}

G4_FN void g4_ddt_drop(struct g4_ddt *ddt, struct g4_address page)
{
	const uint32_t at = g4_ddt_any(ddt, page, 1) ? find_address(ddt, g4_address_stored(page)) : 0;

	if (at)
		take_out_if(ddt, at, g4_address_stored(page));
}

G4_FN void g4_ddt_forget(struct g4_wg *wg, struct g4_ddt *ddt, struct g4_alloc *alloc, struct g4_address address,
			 uint64_t pages)
{
	for (uint64_t done = 0; done < pages; done++) {
		const struct g4_address page = g4_address_after_pages(address, done);

		if (!g4_ddt_any(ddt, page, 1)) { /* on to the next region */
			done += G4_REGION_PAGES - 1 - g4_address_page(page) % G4_REGION_PAGES;
			continue;
		}
		const uint32_t at = find_address(ddt, g4_address_stored(page));
		if (!at)
			continue;
		if (g4_share_is_used(wg, alloc, page) > 0) /* nothing is lost with an entry whose map can not be read */
			continue;
		take_out_if(ddt, at, g4_address_stored(page));
	}
}
