/* SPDX-License-Identifier: Apache-2.0 */
/* Locks: a part of simt.h, which is what includes it. */
#ifndef G4_LOCK_H
#define G4_LOCK_H

#include "base/base.h"

/*
 * Fair, leader only. A workgroup holds them in the order its module's README gives.
 * Ticket locks, laid out in simt/ticket.h; zero is unlocked. Rules, numbered: simt/README.md.
 */
struct g4_lock {
	uint64_t word;
};
G4_FN void g4_lock(struct g4_lock *lock);
G4_FN bool g4_trylock(struct g4_lock *lock);
G4_FN void g4_unlock(struct g4_lock *lock);

/*
 * Readers/writer: arrival order, adjacent readers share. On a CPU writers that wait for one another enter as they are awake, for
 * a millisecond, and one at a time is in the order with the readers.
 */
struct g4_rwlock {
	uint64_t word;
	/* on a CPU: */
	uint32_t version; /* grows whenever a writer has finished */
	uint32_t gate;	  /* of writers */
};
G4_FN void g4_read_lock(struct g4_rwlock *lock);
/* The same for readers that come again and again, as makers of names do: where they have to wait they enter as writers do. */
G4_FN void g4_read_lock_at_gate(struct g4_rwlock *lock);
/*
 * Per-lane. Fails where a writer has the lock or waits for it. At most one lane of a workgroup at a time tries or holds one
 * and the same lock in this way.
 */
G4_FN bool g4_read_trylock(struct g4_rwlock *lock);
G4_FN void g4_read_unlock(struct g4_rwlock *lock);
G4_FN void g4_write_lock(struct g4_rwlock *lock);
G4_FN bool g4_write_trylock(struct g4_rwlock *lock);
G4_FN void g4_write_unlock(struct g4_rwlock *lock);
/*
 * Per-lane. Reading without the lock: notes the version, false where a writer is inside or somebody waits. Then the caller
 * takes copies of what the lock guards, with g4_peek(), follows no pointer in them, and believes them only if
 * g4_read_unchanged(), behind a g4_fence_acq(), says that no writer was there meanwhile. (Optimistic lock coupling, Leis et
 * al., DaMoN 2016.)
 */
#if !G4_CUDA /* there they are inline, in simt/ticket.h and simt/cuda/atomic.h */
G4_FN bool g4_read_begin(const struct g4_rwlock *lock, uint32_t *version);
G4_FN bool g4_read_unchanged(const struct g4_rwlock *lock, uint32_t version);
/* Per-lane. Copies 8 B words that others may be changing, each of them whole. 8 B aligned. */
G4_FN void g4_peek(void *to, const void *from, uint32_t words);
#endif
/* One of several releases behind a release fence: simt.h, "atomics". */
#if !G4_CUDA /* there they are inline, in simt/ticket.h */
#define g4_unlock_fenced(lock) g4_unlock(lock)
#define g4_read_unlock_fenced(lock) g4_read_unlock(lock)
#define g4_write_unlock_fenced(lock) g4_write_unlock(lock)
#endif
/* Per-lane. A version more of a lock that nobody has or can take meanwhile, with release order. */
G4_FN void g4_next_version(struct g4_rwlock *lock);

#endif
