/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advisory locks between the handles of one mounted file system: byte ranges (fcntl) and whole files (flock).
 *
 * Locks hang on files, found by inode number and generation in a hash table. One mutex guards everything: locks are no
 * hot path, and a single order makes finding deadlocks easy. A file's entry exists while somebody holds or waits for a
 * lock on it.
 *
 * A deadlock is a circle of owners each waiting for the next. Every waiter notes whom it waits for; before an owner
 * starts to wait (and whenever it must go on waiting) the chain from the owner in its way is followed. As in Linux this
 * is done for numbered owners only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/file.h>

#include "client/client.h"

#define BUCKETS 256u
#define END_OF_FILE UINT64_MAX

enum kind { KIND_RANGE, KIND_FLOCK };

struct owner {
	uint64_t number;     /* 0: the handle is the owner */
	gpu4fs_file *handle; /* NULL when number is set */
};

struct range {
	struct range *next;
	enum kind kind;
	int type;	      /* F_RDLCK or F_WRLCK */
	uint64_t first, last; /* bytes, inclusive */
	struct owner owner;
	gpu4fs_file *via; /* the handle it was last set through */
};

struct lock_file {
	struct lock_file *next;
	uint64_t ino, generation;
	struct range *ranges; /* of one owner and kind: never overlapping */
	uint32_t waiters;
	pthread_cond_t changed;
};

struct waiter {
	struct waiter *next;
	struct owner owner, blocked_by;
};

struct g4c_locks {
	pthread_mutex_t lock;
	struct waiter *waiters;
	struct lock_file *buckets[BUCKETS];
};

struct g4c_locks *g4c_locks_new(void)
{
	struct g4c_locks *locks = calloc(1, sizeof(*locks));

	if (locks)
		pthread_mutex_init(&locks->lock, NULL);
	return locks;
}

void g4c_locks_free(struct g4c_locks *locks)
{
	pthread_mutex_destroy(&locks->lock);
	free(locks);
}

/* ------------------------------------------------------------------ files with locks */

static struct lock_file **bucket_of(struct g4c_locks *locks, const gpu4fs_file *file)
{
	uint64_t hash = (file->ino ^ file->generation) * UINT64_C(0x9e3779b97f4a7c15);

	return &locks->buckets[hash >> 56];
}

static struct lock_file *find_file(struct g4c_locks *locks, const gpu4fs_file *file)
{
	struct lock_file *entry = *bucket_of(locks, file);

	while (entry && (entry->ino != file->ino || entry->generation != file->generation))
		entry = entry->next;
	return entry;
}

static struct lock_file *find_or_make_file(struct g4c_locks *locks, const gpu4fs_file *file)
{
	struct lock_file *entry = find_file(locks, file);
	struct lock_file **bucket = bucket_of(locks, file);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->ino = file->ino;
	entry->generation = file->generation;
	pthread_cond_init(&entry->changed, NULL);
	entry->next = *bucket;
	*bucket = entry;
	return entry;
}

/* Frees the entry when nobody needs it. */
static void drop_file(struct g4c_locks *locks, struct lock_file *entry, const gpu4fs_file *file)
{
	struct lock_file **at = bucket_of(locks, file);

	if (entry->ranges || entry->waiters)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	pthread_cond_destroy(&entry->changed);
	free(entry);
}

/* ------------------------------------------------------------------ ranges */

static bool same_owner(const struct owner *a, const struct owner *b)
{
	return a->number == b->number && a->handle == b->handle;
}

/* The first lock that keeps `wanted` from being set. */
static struct range *find_conflict(struct lock_file *entry, const struct range *wanted)
{
	for (struct range *held = entry->ranges; held; held = held->next) {
		if (held->kind == wanted->kind && !same_owner(&held->owner, &wanted->owner) &&
		    held->first <= wanted->last && wanted->first <= held->last &&
		    (held->type == F_WRLCK || wanted->type == F_WRLCK))
			return held;
	}
	return NULL;
}

/*
 * Takes [set->first, set->last] out of what its owner holds. A lock that sticks out at both ends becomes two; *spare is
 * the node for the second and NULL afterwards if it was used.
 */
static void cut_out(struct lock_file *entry, const struct range *set, struct range **spare)
{
	struct range **at = &entry->ranges;

	while (*at) {
		struct range *held = *at;

		if (held->kind != set->kind || !same_owner(&held->owner, &set->owner) || held->last < set->first ||
		    held->first > set->last) {
			at = &held->next;
		} else if (held->first < set->first && held->last > set->last) {
			struct range *upper = *spare;

			*spare = NULL;
			*upper = *held;
			upper->first = set->last + 1;
			held->last = set->first - 1;
			held->next = upper;
			return; /* no other lock of this owner can overlap */
		} else if (held->first < set->first) {
			held->last = set->first - 1;
			at = &held->next;
		} else if (held->last > set->last) {
			held->first = set->last + 1;
			at = &held->next;
		} else {
			*at = held->next;
			free(held);
		}
	}
}

/* Makes one lock of those of the same owner and type that touch `added`. */
static void merge(struct lock_file *entry, struct range *added)
{
	struct range **at = &entry->ranges;

	while (*at) {
		struct range *held = *at;

		if (held == added || held->kind != added->kind || held->type != added->type ||
		    !same_owner(&held->owner, &added->owner) ||
		    !((held->last != END_OF_FILE && held->last + 1 == added->first) ||
		      (added->last != END_OF_FILE && added->last + 1 == held->first))) {
			at = &held->next;
			continue;
		}
		added->first = g4_min64(added->first, held->first);
		added->last = g4_max64(added->last, held->last);
		*at = held->next;
		free(held);
	}
}

/* ------------------------------------------------------------------ waiting */

static bool would_deadlock(const struct g4c_locks *locks, const struct owner *owner, const struct owner *blocked_by)
{
	const struct owner *at = blocked_by;
	uint32_t steps = 0;

	if (owner->number == 0)
		return false;
	while (at->number != 0 && steps++ < 64) {
		const struct waiter *waiter = locks->waiters;

		while (waiter && !same_owner(&waiter->owner, at))
			waiter = waiter->next;
		if (!waiter)
			return false;
		at = &waiter->blocked_by;
		if (same_owner(at, owner))
			return true;
	}
	return false;
}

/* Waits until nothing is in the way of `wanted`. Called and returns with the lock held. */
static int wait_for(struct g4c_locks *locks, struct lock_file *entry, const struct range *wanted, bool wait)
{
	struct waiter self = {.owner = wanted->owner};
	struct waiter **at;
	struct range *conflict = find_conflict(entry, wanted);
	int rc = 0;

	if (!conflict)
		return 0;
	if (!wait)
		return -EAGAIN;
	entry->waiters++;
	while (conflict) {
		if (would_deadlock(locks, &self.owner, &conflict->owner)) {
			rc = -EDEADLK;
			break;
		}
		self.blocked_by = conflict->owner;
		self.next = locks->waiters;
		locks->waiters = &self;
		pthread_cond_wait(&entry->changed, &locks->lock);
		for (at = &locks->waiters; *at != &self; at = &(*at)->next)
			;
		*at = self.next;
		conflict = find_conflict(entry, wanted);
	}
	entry->waiters--;
	return rc;
}

/* ------------------------------------------------------------------ setting */

static int set_range(gpu4fs_file *file, struct range *wanted, bool wait)
{
	struct g4c_locks *locks = file->fs->mount->locks;
	struct range *added = malloc(sizeof(*added)), *spare = malloc(sizeof(*spare));
	struct lock_file *entry = NULL;
	int rc = -ENOMEM;

	pthread_mutex_lock(&locks->lock);
	if (added && spare)
		entry = find_or_make_file(locks, file);
	if (!entry)
		goto unlock;
	rc = wanted->type == F_UNLCK ? 0 : wait_for(locks, entry, wanted, wait);
	if (rc == 0) {
		cut_out(entry, wanted, &spare);
		if (wanted->type != F_UNLCK) {
			*added = *wanted;
			added->next = entry->ranges;
			entry->ranges = added;
			merge(entry, added);
			added = NULL;
			__atomic_store_n(&file->has_locks, 1, __ATOMIC_RELEASE);
		}
		pthread_cond_broadcast(&entry->changed);
	}
	drop_file(locks, entry, file);
unlock:
	pthread_mutex_unlock(&locks->lock);
	free(added);
	free(spare);
	return rc;
}

static int check_lock(const gpu4fs_file *file, const struct gpu4fs_lock *lock, struct range *out)
{
	if (lock->size != sizeof(*lock) || lock->start < 0 || lock->length < 0)
		return -EINVAL;
	if (lock->type != F_RDLCK && lock->type != F_WRLCK && lock->type != F_UNLCK)
		return -EINVAL;
	*out = (struct range){
		.kind = KIND_RANGE,
		.type = lock->type,
		.first = (uint64_t)lock->start,
		.last = lock->length ? (uint64_t)lock->start + (uint64_t)lock->length - 1 : END_OF_FILE,
		.owner = {.number = lock->owner},
		.via = (gpu4fs_file *)(uintptr_t)file,
	};
	if (lock->owner == 0)
		out->owner.handle = out->via;
	return 0;
}

int gpu4fs_lock_set(gpu4fs_file *file, const struct gpu4fs_lock *lock, int wait)
{
	struct range wanted;
	int rc = check_lock(file, lock, &wanted);

	if (rc)
		return rc;
	if ((wanted.type == F_RDLCK && !(file->flags & G4_OPEN_READ)) ||
	    (wanted.type == F_WRLCK && !(file->flags & G4_OPEN_WRITE)))
		return -EBADF;
	return set_range(file, &wanted, wait);
}

int gpu4fs_lock_get(gpu4fs_file *file, struct gpu4fs_lock *lock)
{
	struct g4c_locks *locks = file->fs->mount->locks;
	struct lock_file *entry;
	struct range wanted, *conflict;
	int rc = check_lock(file, lock, &wanted);

	if (rc)
		return rc;
	if (wanted.type == F_UNLCK)
		return -EINVAL;
	pthread_mutex_lock(&locks->lock);
	entry = find_file(locks, file);
	conflict = entry ? find_conflict(entry, &wanted) : NULL;
	if (conflict) {
		lock->type = (int16_t)conflict->type;
		lock->start = (int64_t)conflict->first;
		lock->length = conflict->last == END_OF_FILE ? 0 : (int64_t)(conflict->last - conflict->first + 1);
		lock->owner = conflict->owner.number;
	} else {
		lock->type = F_UNLCK;
	}
	pthread_mutex_unlock(&locks->lock);
	return 0;
}

int gpu4fs_flock(gpu4fs_file *file, int operation)
{
	struct range wanted = {.kind = KIND_FLOCK, .last = END_OF_FILE, .owner = {.handle = file}, .via = file};
	struct range unlock = wanted;
	int rc;

	unlock.type = F_UNLCK;
	switch (operation & ~LOCK_NB) {
	case LOCK_SH:
		wanted.type = F_RDLCK;
		break;
	case LOCK_EX:
		wanted.type = F_WRLCK;
		break;
	case LOCK_UN:
		return set_range(file, &unlock, false);
	default:
		return -EINVAL;
	}
	rc = set_range(file, &wanted, false);
	if (rc != -EAGAIN || (operation & LOCK_NB))
		return rc;
	/* Two holders of a shared lock that both want it alone would wait for each other: give it up first. */
	rc = set_range(file, &unlock, false);
	return rc ? rc : set_range(file, &wanted, true);
}

/* ------------------------------------------------------------------ dropping */

/* Drops the locks on the file that were taken through `via`, or with via == NULL those of a numbered owner. */
static void drop_ranges(gpu4fs_file *file, const gpu4fs_file *via, uint64_t number)
{
	struct g4c_locks *locks = file->fs->mount->locks;
	struct lock_file *entry;
	struct range **at;

	pthread_mutex_lock(&locks->lock);
	entry = find_file(locks, file);
	if (entry) {
		at = &entry->ranges;
		while (*at) {
			struct range *held = *at;

			if (via ? held->via == via : held->owner.number == number) {
				*at = held->next;
				free(held);
			} else {
				at = &held->next;
			}
		}
		pthread_cond_broadcast(&entry->changed);
		drop_file(locks, entry, file);
	}
	pthread_mutex_unlock(&locks->lock);
}

void g4c_locks_close(gpu4fs_file *file)
{
	drop_ranges(file, file, 0);
}

int gpu4fs_lock_release(gpu4fs_file *file, uint64_t owner)
{
	if (owner == 0)
		return -EINVAL;
	drop_ranges(file, NULL, owner);
	return 0;
}
