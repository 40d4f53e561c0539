/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write cache of the fault device. Every write of a sector since the last flush is kept, not only the newest: after a
 * power cut a sector may hold any of its versions, because a drive may have written one back at any time.
 *
 * A durable (FUA) write goes through the log as well when the log is not empty: at its place in the order it covers what
 * was written before it, and what is written after it covers it.
 */
#define _GNU_SOURCE 1
#include <stdlib.h>

#include "dev/fault_log_host.h"

#define SLOTS_MIN 1024u

static uint64_t mix(uint64_t x) /* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators) */
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* ---- the index of newest content ---- */

static struct g4_fault_slot *find_slot(struct g4_fault_slot *slots, uint64_t slot_count, uint64_t key)
{
	uint64_t at = mix(key) & (slot_count - 1);
	while (slots[at].key != 0 && slots[at].key != key)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

/* Makes room for `more` further sectors. */
static int reserve_slots(struct g4_fault_log *log, uint64_t more)
{
	uint64_t wanted = g4_max64(log->slot_count, SLOTS_MIN);
	while (wanted / 2 < log->slots_used + more)
		wanted *= 2;
	if (wanted == log->slot_count)
		return 0;
	struct g4_fault_slot *slots = calloc(wanted, sizeof(*slots));
	if (!slots)
		return -G4_E_NOMEM;
	for (uint64_t i = 0; i < log->slot_count; i++) {
		if (log->slots[i].key)
			*find_slot(slots, wanted, log->slots[i].key) = log->slots[i];
	}
	free(log->slots);
	log->slots = slots;
	log->slot_count = wanted;
	return 0;
}

static void index_entry(struct g4_fault_log *log, uint64_t number)
{
	const struct g4_fault_entry *entry = &log->entries[number];
	uint64_t first = entry->offset / log->sector_bytes;
	for (uint64_t i = 0; i < entry->bytes / log->sector_bytes; i++) {
		struct g4_fault_slot *slot = find_slot(log->slots, log->slot_count, first + i + 1);
		log->slots_used += slot->key == 0;
		slot->key = first + i + 1;
		slot->entry = number;
	}
}

struct g4_fault_entry *g4_fault_log_newest(struct g4_fault_log *log, uint64_t offset)
{
	if (log->count == 0)
		return NULL;
	const struct g4_fault_slot *slot = find_slot(log->slots, log->slot_count, offset / log->sector_bytes + 1);
	return slot->key ? &log->entries[slot->entry] : NULL;
}

/* ---- appending and reading ---- */

static uint8_t *gather(const struct g4_iov *iov, uint64_t bytes)
{
	void *data = NULL;
	if (posix_memalign(&data, G4_PAGE_BYTES, bytes) != 0)
		return NULL;
	for (uint64_t done = 0; done < bytes; iov++) {
		if (iov->bytes)
			memcpy((uint8_t *)data + done, iov->base, iov->bytes);
		done += iov->bytes;
	}
	return data;
}

static int reserve_entry(struct g4_fault_log *log)
{
	if (log->count < log->capacity)
		return 0;
	uint64_t capacity = log->capacity ? log->capacity * 2 : 64;
	struct g4_fault_entry *entries = reallocarray(log->entries, capacity, sizeof(*entries));
	if (!entries)
		return -G4_E_NOMEM;
	log->entries = entries;
	log->capacity = capacity;
	return 0;
}

int g4_fault_log_append(struct g4_fault_log *log, uint64_t offset, uint64_t bytes, const struct g4_iov *iov,
			bool durable)
{
	uint8_t *data = NULL;
	if (bytes == 0)
		return 0;
	if (reserve_entry(log) != 0 || reserve_slots(log, bytes / log->sector_bytes) != 0)
		return -G4_E_NOMEM;
	if (iov) {
		data = gather(iov, bytes);
		if (!data)
			return -G4_E_NOMEM;
	}
	log->entries[log->count] =
		(struct g4_fault_entry){.offset = offset, .bytes = bytes, .data = data, .durable = durable};
	index_entry(log, log->count);
	log->count++;
	return 0;
}

void g4_fault_log_overlay(const struct g4_fault_log *log, uint64_t offset, const struct g4_iov *iov, uint32_t iov_count)
{
	if (log->count == 0)
		return;
	for (uint32_t i = 0; i < iov_count; i++) {
		for (uint64_t at = 0; at < iov[i].bytes; at += log->sector_bytes, offset += log->sector_bytes) {
			const struct g4_fault_slot *slot =
				find_slot(log->slots, log->slot_count, offset / log->sector_bytes + 1);
			if (!slot->key)
				continue;
			const struct g4_fault_entry *entry = &log->entries[slot->entry];
			uint8_t *to = (uint8_t *)iov[i].base + at;
			if (entry->data)
				memcpy(to, entry->data + (offset - entry->offset), log->sector_bytes);
			else
				memset(to, 0, log->sector_bytes);
		}
	}
}

/* ---- the wrapped device ---- */

static void transfer_mapped(const struct g4_dev *inner, uint32_t op, uint64_t offset, const struct g4_iov *iov,
			    uint32_t iov_count)
{
	for (uint32_t i = 0; i < iov_count; i++) {
		uint8_t *at = inner->map + offset;
		if (iov[i].bytes && op == G4_IO_READ)
			memcpy(iov[i].base, at, iov[i].bytes);
		else if (iov[i].bytes)
			memcpy(at, iov[i].base, iov[i].bytes);
		offset += iov[i].bytes;
	}
}

int g4_fault_inner_transfer(struct g4_dev *inner, uint32_t op, uint64_t offset, struct g4_iov *iov, uint32_t iov_count)
{
	struct g4_io io = {.op = op, .offset_bytes = offset, .iov = iov, .iov_count = iov_count};
	if (inner->ops->execute)
		return inner->ops->execute(NULL, inner, &io);
	if (!inner->props.mapped)
		return -G4_E_NOTSUP;
	transfer_mapped(inner, op, offset, iov, iov_count);
	return 0;
}

int g4_fault_inner_flush(struct g4_dev *inner)
{
	struct g4_io io = {.op = G4_IO_FLUSH};
	if (inner->ops->execute)
		return inner->ops->execute(NULL, inner, &io);
	if (!inner->props.mapped)
		return -G4_E_NOTSUP;
	return inner->persist == G4_DEV_PERSIST_NEVER ? 0 : inner->ops->flush(inner);
}

/* ---- surviving ---- */

/* Whether sector `sector` of `sectors` of entry `number` is among the survivors that `seed` chooses. */
static bool chosen(uint64_t seed, uint64_t number, uint64_t sector, uint64_t sectors)
{
	uint64_t dice = mix(seed ^ mix(number + 1));
	switch (dice & 3) {
	case 0:
		return false;
	case 1:
		return true;
	case 2:
		return sector < (dice >> 2) % (sectors + 1);
	default:
		return mix(dice ^ sector) & 1;
	}
}

static bool survives(const struct g4_fault_log *log, uint64_t number, uint64_t at, enum g4_fault_survival survival,
		     uint64_t seed)
{
	const struct g4_fault_entry *entry = &log->entries[number];
	if (entry->durable || survival == G4_FAULT_KEEP)
		return true;
	return survival == G4_FAULT_SUBSET &&
	       chosen(seed, number, at / log->sector_bytes, entry->bytes / log->sector_bytes);
}

static int write_run(struct g4_dev *inner, const struct g4_fault_entry *entry, uint64_t start, uint64_t end)
{
	static _Alignas(4096) uint8_t zeros[64 * 1024];
	int code = 0;
	while (start < end && code == 0) {
		struct g4_iov iov = {.base = entry->data ? entry->data + start : zeros,
				     .bytes = entry->data ? end - start : g4_min64(end - start, sizeof(zeros))};
		code = g4_fault_inner_transfer(inner, G4_IO_WRITE, entry->offset + start, &iov, 1);
		start += iov.bytes;
	}
	return code;
}

/* Writes the surviving sectors of one entry, neighbours in one request. */
static int apply_entry(const struct g4_fault_log *log, uint64_t number, enum g4_fault_survival survival, uint64_t seed,
		       struct g4_dev *inner)
{
	const struct g4_fault_entry *entry = &log->entries[number];
	int code = 0;
	for (uint64_t at = 0; at < entry->bytes && code == 0;) {
		uint64_t start = at;
		while (at < entry->bytes && survives(log, number, at, survival, seed))
			at += log->sector_bytes;
		code = write_run(inner, entry, start, at);
		while (at < entry->bytes && !survives(log, number, at, survival, seed))
			at += log->sector_bytes;
	}
	return code;
}

int g4_fault_log_apply(struct g4_fault_log *log, enum g4_fault_survival survival, uint64_t seed, struct g4_dev *inner)
{
	int code = 0;
	for (uint64_t i = 0; i < log->count && code == 0; i++)
		code = apply_entry(log, i, survival, seed, inner);
	if (code == 0)
		g4_fault_log_clear(log);
	return code;
}

void g4_fault_log_clear(struct g4_fault_log *log)
{
	for (uint64_t i = 0; i < log->count; i++)
		free(log->entries[i].data);
	free(log->entries);
	free(log->slots);
	*log = (struct g4_fault_log){.sector_bytes = log->sector_bytes};
}
