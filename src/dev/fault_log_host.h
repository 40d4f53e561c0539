/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write cache of the fault device: completed requests that no flush has made durable, in order, and which of them
 * holds the newest content of a sector. Host only, private to src/dev. Not thread-safe: the fault device locks.
 */
#ifndef G4_DEV_FAULT_LOG_HOST_H
#define G4_DEV_FAULT_LOG_HOST_H

#include "dev/dev_ops_host.h"

struct g4_fault_entry {
	uint64_t offset;
	uint64_t bytes;
	uint8_t *data; /* sector aligned; NULL: zeros */
	bool durable;  /* survives every cut */
};

struct g4_fault_slot { /* open addressing; sector + 1 as the key, 0 is free */
	uint64_t key;
	uint64_t entry;
};

struct g4_fault_log {
	uint32_t sector_bytes;
	struct g4_fault_entry *entries;
	uint64_t count;
	uint64_t capacity;
	struct g4_fault_slot *slots; /* power of two, at most half full */
	uint64_t slot_count;
	uint64_t slots_used;
};

/* What becomes of entries that are not durable. */
enum g4_fault_survival { G4_FAULT_KEEP, G4_FAULT_DROP, G4_FAULT_SUBSET };

/* Appends a request of `bytes` bytes; iov NULL stands for zeros. Copies the data. 0 or -G4_E_NOMEM (log unchanged). */
int g4_fault_log_append(struct g4_fault_log *log, uint64_t offset, uint64_t bytes, const struct g4_iov *iov,
			bool durable);
/* Replaces in a vector that was read from below at `offset` what the log holds newer. */
void g4_fault_log_overlay(const struct g4_fault_log *log, uint64_t offset, const struct g4_iov *iov,
			  uint32_t iov_count);
/* The entry with the newest content of the sector that holds byte `offset`, or NULL. */
struct g4_fault_entry *g4_fault_log_newest(struct g4_fault_log *log, uint64_t offset);
/*
 * Writes to `inner`, in order, what survives, and empties the log if that worked. SUBSET decides for each entry, by a
 * function of the seed and the entry's number alone: dropped, kept, a first part kept, or every sector by itself.
 */
int g4_fault_log_apply(struct g4_fault_log *log, enum g4_fault_survival survival, uint64_t seed, struct g4_dev *inner);
void g4_fault_log_clear(struct g4_fault_log *log);

/* Requests on the wrapped device, whatever its kind. */
int g4_fault_inner_transfer(struct g4_dev *inner, uint32_t op, uint64_t offset, struct g4_iov *iov, uint32_t iov_count);
int g4_fault_inner_flush(struct g4_dev *inner);

#endif
