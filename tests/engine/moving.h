/* SPDX-License-Identifier: Apache-2.0 */
/* Users of a set of which places are moved meanwhile, and what they have written, for tests. */
#ifndef MOVING_H
#define MOVING_H

#include "disks.h"

#include <pthread.h>
#include <sched.h>

#include "simt/simt_host.h"

#ifndef FILES /* a test may have others */
#define FILES 4u
#define FILE_BYTES (256 * 1024u)
#endif

struct model { /* what files have */
	uint64_t inos[FILES], sizes[FILES];
	uint8_t *bytes[FILES];
	uint8_t *found;
	uint64_t random;
};

static inline void begin_model(struct model *m, struct disks *d)
{
	char name[32];

	memset(m, 0, sizeof(*m));
	m->random = 4711;
	m->found = rig_memory(FILE_BYTES, 1);
	for (uint32_t n = 0; n < FILES; n++) {
		m->bytes[n] = (uint8_t *)calloc(1, FILE_BYTES);
		snprintf(name, sizeof(name), "m%u", n);
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &m->inos[n]), 0);
	}
}

static inline void end_model(struct model *m)
{
	for (uint32_t n = 0; n < FILES; n++)
		free(m->bytes[n]);
	free(m->found);
}

static inline void expect_file(struct model *m, struct disks *d, uint32_t n)
{
	uint64_t done = 0;

	assert_int_equal(op_read(&d->rig, m->inos[n], 0, 0, m->found, FILE_BYTES, &done), 0);
	assert_int_equal(done, m->sizes[n]);
	assert_memory_equal(m->found, m->bytes[n], done);
}

static inline void expect_model(struct model *m, struct disks *d)
{
	for (uint32_t n = 0; n < FILES; n++)
		expect_file(m, d, n);
}

/* Any of what users do. */
static inline void use(struct model *m, struct disks *d)
{
	const uint32_t n = (uint32_t)(rig_random(&m->random) % FILES);
	const uint64_t at = rig_random(&m->random) % (FILE_BYTES - 1),
		       most = rig_random(&m->random) % 4 ? 9000 : FILE_BYTES,
		       bytes = 1 + rig_random(&m->random) % g4_min64(most, FILE_BYTES - at);
	uint64_t done = 0;

	switch (rig_random(&m->random) % 8) {
	case 0:
		expect_file(m, d, n);
		break;
	case 1:
		assert_int_equal(op_truncate(&d->rig, m->inos[n], at), 0);
		if (at < m->sizes[n])
			memset(m->bytes[n] + at, 0, FILE_BYTES - at);
		m->sizes[n] = at;
		break;
	case 2:
		assert_int_equal(op_fsync(&d->rig, m->inos[n]), 0);
		break;
	default:
		rig_pattern(m->bytes[n] + at, rig_random(&m->random), bytes);
		assert_int_equal(op_write(&d->rig, m->inos[n], 0, at, m->bytes[n] + at, bytes, &done), 0);
		assert_int_equal(done, bytes);
		m->sizes[n] = g4_max64(m->sizes[n], at + bytes);
		break;
	}
}

/* ---- several threads ---- */

#define THREADS 3u
struct user {
	pthread_t thread;
	struct disks *d;
	uint64_t ino;
	uint32_t number;
	uint32_t *stop;
	uint32_t version; /* atomic: what it has begun to write; it writes all of that */
};

static inline void *work(void *argument)
{
	struct user *u = (struct user *)argument;
	uint8_t *data = rig_memory(FILE_BYTES, 1);
	struct rig rig = u->d->rig;
	uint64_t done;

	while (!g4_load32_acq(u->stop)) {
		rig_pattern(data, 100 * u->number + g4_add32(&u->version, 1) + 1, FILE_BYTES);
		for (uint64_t at = 0; at < FILE_BYTES; at += 4 * G4_PAGE_BYTES)
			assert_int_equal(op_write(&rig, u->ino, 0, at, data + at, 4 * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_fsync(&rig, u->ino), 0);
	}
	free(data);
	return NULL;
}

/* They write until `stop` is 1; each has begun when it returns. */
static inline void begin_users(struct user *users, struct disks *d, uint32_t *stop)
{
	char name[32];

	for (uint32_t n = 0; n < THREADS; n++) {
		users[n] = (struct user){.d = d, .number = n, .stop = stop};
		snprintf(name, sizeof(name), "u%u", n);
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &users[n].ino), 0);
	}
	for (uint32_t n = 0; n < THREADS; n++)
		assert_int_equal(pthread_create(&users[n].thread, NULL, work, &users[n]), 0);
	for (uint32_t n = 0; n < THREADS; n++)
		while (g4_load32_acq(&users[n].version) == 0)
			sched_yield();
}

static inline void end_users(struct user *users)
{
	g4_store32_rel(users[0].stop, 1);
	for (uint32_t n = 0; n < THREADS; n++)
		pthread_join(users[n].thread, NULL);
}

/* What they wrote last is there, in whatever is mounted as `d`. */
static inline void expect_users(const struct user *users, struct disks *d)
{
	uint8_t *data = rig_memory(FILE_BYTES, 1), *found = rig_memory(FILE_BYTES, 2);

	for (uint32_t n = 0; n < THREADS; n++) {
		uint64_t done = 0;
		rig_pattern(data, 100 * n + users[n].version, FILE_BYTES);
		assert_int_equal(op_read(&d->rig, users[n].ino, 0, 0, found, FILE_BYTES, &done), 0);
		assert_int_equal(done, FILE_BYTES);
		assert_memory_equal(found, data, FILE_BYTES);
	}
	free(data);
	free(found);
}

/* What was synced when so many requests had been made. */
#define MOST_SYNCED 64u
struct synced {
	uint32_t count;
	uint32_t at[MOST_SYNCED];
};

#endif
