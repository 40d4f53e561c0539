/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks and waiting. Nothing here depends on how fast a thread runs: a test knows that a thread queues because the lock
 * has given it a ticket, and that it sleeps because the lock counts it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simt/ticket.h"

#define THREADS 6
#define ROUNDS 2000
/* More than the 16 bits of a ticket count. */
#define MANY_ROUNDS 140000

static void start(pthread_t *thread, void *(*function)(void *), void *arg)
{
	assert_int_equal(pthread_create(thread, NULL, function, arg), 0);
}

static void join(pthread_t thread)
{
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Waits until `tickets` are out that have not been served: the holder's, if it is a writer, and those in the queue. */
static void await_queue(uint64_t *word, uint32_t tickets)
{
	uint64_t now;

	do {
		g4_pause();
		now = g4_load64_acq(word);
	} while (((g4_ticket_next(now) - g4_ticket_serving(now)) & 0xffff) != tickets);
}

static void await_sleepers(uint64_t *word, uint32_t sleepers)
{
	while (g4_ticket_sleepers(g4_load64_acq(word)) != sleepers)
		g4_pause();
}

/* ---- g4_lock ---- */

struct counter {
	struct g4_lock lock;
	uint64_t value;
};

static void *count_up(void *arg)
{
	struct counter *counter = (struct counter *)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		g4_lock(&counter->lock);
		counter->value++;
		g4_unlock(&counter->lock);
	}
	return NULL;
}

static void *count_up_by_trying(void *arg)
{
	struct counter *counter = (struct counter *)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (!g4_trylock(&counter->lock))
			g4_pause();
		counter->value++;
		g4_unlock(&counter->lock);
	}
	return NULL;
}

static void assert_excludes(uint64_t first_word)
{
	struct counter counter = {{first_word}, 0};
	pthread_t threads[THREADS];

	for (uint32_t i = 0; i < THREADS; i++)
		start(&threads[i], i % 3 ? count_up : count_up_by_trying, &counter);
	for (uint32_t i = 0; i < THREADS; i++)
		join(threads[i]);
	assert_int_equal(counter.value, THREADS * ROUNDS);
	assert_true(g4_trylock(&counter.lock));
}

static void a_lock_excludes(void **state)
{
	(void)state;
	assert_excludes(0);
}

static void tickets_wrap_while_threads_contend(void **state)
{
	(void)state;
	assert_excludes(G4_TICKET_NEXT * 0xfff0 + 0xfff0);
}

static void trylock_takes_only_a_free_lock(void **state)
{
	struct g4_lock lock = {0};

	(void)state;
	assert_true(g4_trylock(&lock));
	assert_false(g4_trylock(&lock));
	g4_unlock(&lock);
	g4_lock(&lock);
	assert_false(g4_trylock(&lock));
	g4_unlock(&lock);
	assert_true(g4_trylock(&lock));
}

static void tickets_wrap(void **state)
{
	struct g4_rwlock lock = {0};
	uint32_t tickets = 0; /* readers alone take none */

	(void)state;
	for (uint32_t i = 0; i < MANY_ROUNDS; i++) {
		if (i % 3) {
			g4_write_lock(&lock);
			g4_write_unlock(&lock);
			tickets++;
		} else {
			g4_read_lock(&lock);
			g4_read_unlock(&lock);
		}
		assert_int_equal(g4_ticket_readers(lock.word), 0);
		assert_int_equal(g4_ticket_next(lock.word), g4_ticket_serving(lock.word));
	}
	assert_true(tickets > 0xffff);
	assert_int_equal(g4_ticket_serving(lock.word), tickets & 0xffff);
}

struct queuer {
	void *lock;	   /* struct g4_lock for enter_alone(), struct g4_rwlock for the others */
	uint32_t *entered; /* how many have, written inside the lock */
	uint32_t order;
};

static void *enter_alone(void *arg)
{
	struct queuer *queuer = (struct queuer *)arg;

	g4_lock(queuer->lock);
	queuer->order = g4_add32(queuer->entered, 1);
	g4_unlock(queuer->lock);
	return NULL;
}

static void *enter_as_writer(void *arg)
{
	struct queuer *queuer = (struct queuer *)arg;

	g4_write_lock(queuer->lock);
	queuer->order = g4_add32(queuer->entered, 1);
	g4_write_unlock(queuer->lock);
	return NULL;
}

static void *enter_as_reader(void *arg)
{
	struct queuer *queuer = (struct queuer *)arg;

	g4_read_lock(queuer->lock);
	queuer->order = g4_add32(queuer->entered, 1);
	g4_read_unlock(queuer->lock);
	return NULL;
}

static void waiters_enter_in_order_of_arrival(void **state)
{
	/* More threads than bits of a futex's bitset: two of them share a bit. */
	enum { QUEUE = 40 };
	struct g4_lock lock = {0};
	struct queuer queuers[QUEUE];
	pthread_t threads[QUEUE];
	uint32_t entered = 0;

	(void)state;
	g4_lock(&lock);
	for (uint32_t i = 0; i < QUEUE; i++) {
		queuers[i] = (struct queuer){&lock, &entered, 0};
		start(&threads[i], enter_alone, &queuers[i]);
		await_queue(&lock.word, i + 2);
	}
	await_sleepers(&lock.word, QUEUE);
	assert_int_equal(g4_load32_acq(&entered), 0);
	g4_unlock(&lock);
	for (uint32_t i = 0; i < QUEUE; i++) {
		join(threads[i]);
		assert_int_equal(queuers[i].order, i);
	}
	assert_int_equal(g4_ticket_sleepers(lock.word), 0);
}

/* A lock in memory that its last taker frees. */
struct shared {
	struct g4_lock lock;
	uint32_t references;
};

static void *drop_reference(void *arg)
{
	struct shared *shared = (struct shared *)arg;
	bool last;

	g4_lock(&shared->lock);
	last = --shared->references == 0;
	g4_unlock(&shared->lock);
	if (last)
		free(shared);
	return NULL;
}

static void unlock_leaves_the_lock_to_its_next_owner(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		struct shared *shared = (struct shared *)calloc(1, sizeof(*shared));
		pthread_t threads[3];

		assert_non_null(shared);
		shared->references = 3;
		for (uint32_t i = 0; i < 3; i++)
			start(&threads[i], drop_reference, shared);
		for (uint32_t i = 0; i < 3; i++)
			join(threads[i]);
	}
}

/* ---- g4_rwlock ---- */

static void readers_share(void **state)
{
	struct g4_rwlock lock = {0};
	uint32_t entered = 0;
	struct queuer queuer = {&lock, &entered, 0};
	pthread_t thread;

	(void)state;
	g4_read_lock(&lock);
	start(&thread, enter_as_reader, &queuer);
	join(thread);
	assert_int_equal(entered, 1);
	assert_int_equal(g4_ticket_readers(lock.word), 1);
	g4_read_unlock(&lock);
	assert_int_equal(g4_ticket_readers(lock.word), 0);
}

static void write_trylock_takes_only_a_free_lock(void **state)
{
	struct g4_rwlock lock = {0};

	(void)state;
	g4_read_lock(&lock);
	assert_false(g4_write_trylock(&lock));
	g4_read_unlock(&lock);
	assert_true(g4_write_trylock(&lock));
	assert_false(g4_write_trylock(&lock));
	g4_write_unlock(&lock);
}

static void read_trylock_fails_where_a_writer_is_or_waits(void **state)
{
	struct g4_rwlock lock = {0};
	uint32_t entered = 0;
	struct queuer writer = {&lock, &entered, 0};
	pthread_t thread;

	(void)state;
	assert_true(g4_read_trylock(&lock));
	assert_true(g4_read_trylock(&lock));
	assert_int_equal(g4_ticket_readers(lock.word), 2);
	g4_read_unlock(&lock);
	start(&thread, enter_as_writer, &writer);
	await_queue(&lock.word, 1);
	assert_false(g4_read_trylock(&lock));
	assert_int_equal(g4_load32_acq(&entered), 0);
	g4_read_unlock(&lock);
	join(thread);
	assert_int_equal(entered, 1);
	g4_write_lock(&lock);
	assert_false(g4_read_trylock(&lock));
	g4_write_unlock(&lock);
	assert_true(g4_read_trylock(&lock));
	g4_read_unlock(&lock);
	assert_true(g4_write_trylock(&lock));
}

static void a_reader_does_not_overtake_a_waiting_writer(void **state)
{
	struct g4_rwlock lock = {0};
	uint32_t entered = 0;
	struct queuer queuers[3];
	pthread_t threads[3];

	(void)state;
	g4_read_lock(&lock);
	for (uint32_t i = 0; i < 3; i++) {
		queuers[i] = (struct queuer){&lock, &entered, 0};
		start(&threads[i], i > 0 ? enter_as_reader : enter_as_writer, &queuers[i]);
		await_queue(&lock.word, i + 1);
	}
	await_sleepers(&lock.word, 3);
	assert_int_equal(g4_load32_acq(&entered), 0);
	g4_read_unlock(&lock);
	for (uint32_t i = 0; i < 3; i++)
		join(threads[i]);
	assert_int_equal(queuers[0].order, 0);
}

/* Until so many writers wait in front of the tickets (cpu/lock.c). */
static void await_writers(struct g4_rwlock *lock, uint32_t writers)
{
	while (g4_load32_acq(&lock->gate) / 8 != writers)
		g4_pause();
}

/* Also of 40 writers that sleep each is woken. */
static void a_reader_waits_for_one_writer_and_not_for_those_behind(void **state)
{
	enum { WRITERS = 40 };
	struct g4_rwlock lock = {0};
	uint32_t entered = 0;
	struct queuer writers[WRITERS], reader = {&lock, &entered, 0};
	pthread_t threads[WRITERS], reading;

	(void)state;
	for (uint32_t round = 0; round < 20; round++) {
		entered = 0;
		g4_write_lock(&lock);
		for (uint32_t i = 0; i < WRITERS; i++) {
			writers[i] = (struct queuer){&lock, &entered, 0};
			start(&threads[i], enter_as_writer, &writers[i]);
		}
		await_writers(&lock, WRITERS);
		assert_false(g4_write_trylock(&lock));
		start(&reading, enter_as_reader, &reader);
		await_queue(&lock.word, 2);
		assert_int_equal(g4_load32_acq(&entered), 0);
		g4_write_unlock(&lock);
		join(reading);
		for (uint32_t i = 0; i < WRITERS; i++)
			join(threads[i]);
		assert_int_equal(reader.order, 0);
		assert_int_equal(entered, WRITERS + 1);
		assert_int_equal(g4_load32_acq(&lock.gate), 0);
	}
}

struct meeting {
	struct g4_rwlock lock;
	uint32_t inside;
};

static void *enter_and_wait_for_all(void *arg)
{
	struct meeting *meeting = (struct meeting *)arg;

	g4_read_lock(&meeting->lock);
	g4_add32(&meeting->inside, 1);
	while (g4_load32_acq(&meeting->inside) != THREADS)
		g4_pause();
	g4_read_unlock(&meeting->lock);
	return NULL;
}

static void adjacent_readers_enter_together_behind_a_writer(void **state)
{
	struct meeting meeting = {{0}, 0};
	pthread_t threads[THREADS];

	(void)state;
	g4_write_lock(&meeting.lock);
	for (uint32_t i = 0; i < THREADS; i++)
		start(&threads[i], enter_and_wait_for_all, &meeting);
	await_sleepers(&meeting.lock.word, THREADS);
	assert_int_equal(g4_load32_acq(&meeting.inside), 0);
	g4_write_unlock(&meeting.lock);
	for (uint32_t i = 0; i < THREADS; i++)
		join(threads[i]);
	assert_int_equal(g4_ticket_readers(meeting.lock.word), 0);
}

static void *enter_at_gate_and_wait_for_all(void *arg)
{
	struct meeting *meeting = (struct meeting *)arg;

	g4_read_lock_at_gate(&meeting->lock);
	g4_add32(&meeting->inside, 1);
	while (g4_load32_acq(&meeting->inside) != THREADS)
		g4_pause();
	g4_read_unlock(&meeting->lock);
	return NULL;
}

/* They have no tickets while the writer is inside, and are readers behind it: all of them at once. */
static void readers_at_the_gate_make_no_queue_and_share(void **state)
{
	struct meeting meeting = {{0}, 0};
	pthread_t threads[THREADS];

	(void)state;
	g4_write_lock(&meeting.lock);
	for (uint32_t i = 0; i < THREADS; i++)
		start(&threads[i], enter_at_gate_and_wait_for_all, &meeting);
	await_writers(&meeting.lock, THREADS);
	assert_int_equal(g4_ticket_next(meeting.lock.word) - g4_ticket_serving(meeting.lock.word), 1);
	assert_int_equal(g4_load32_acq(&meeting.inside), 0);
	g4_write_unlock(&meeting.lock);
	for (uint32_t i = 0; i < THREADS; i++)
		join(threads[i]);
	assert_int_equal(g4_ticket_readers(meeting.lock.word), 0);
	assert_int_equal(meeting.lock.gate, 0);
	assert_true(g4_write_trylock(&meeting.lock));
}

struct pair {
	struct g4_rwlock lock;
	uint64_t a;
	uint64_t b;
	uint32_t torn;
};

static void *write_pair(void *arg)
{
	struct pair *pair = (struct pair *)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		g4_write_lock(&pair->lock);
		pair->a++;
		pair->b++;
		g4_write_unlock(&pair->lock);
	}
	return NULL;
}

static void *read_pair(void *arg)
{
	struct pair *pair = (struct pair *)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (i % 2 == 0 || !g4_read_trylock(&pair->lock))
			g4_read_lock(&pair->lock);
		if (pair->a != pair->b)
			g4_store32_rlx(&pair->torn, 1);
		g4_read_unlock(&pair->lock);
	}
	return NULL;
}

static void readers_see_no_half_written_state(void **state)
{
	struct pair pair = {{.word = G4_TICKET_NEXT * 0xff00 + 0xff00}, 0, 0, 0};
	pthread_t threads[THREADS];

	(void)state;
	for (uint32_t i = 0; i < THREADS; i++)
		start(&threads[i], i % 3 ? read_pair : write_pair, &pair);
	for (uint32_t i = 0; i < THREADS; i++)
		join(threads[i]);
	assert_int_equal(pair.torn, 0);
	assert_int_equal(pair.a, THREADS / 3 * ROUNDS);
	assert_int_equal(pair.b, pair.a);
	assert_int_equal(g4_ticket_sleepers(pair.lock.word), 0);
	assert_true(g4_write_trylock(&pair.lock));
}

/* Everything that a lock can do, by threads that sleep in between; the last writer frees it. */
struct crowd {
	struct g4_rwlock lock;
	uint64_t pair[2];
	uint32_t members;
	uint32_t torn;
};

struct member {
	struct crowd *crowd;
	uint32_t random;
	uint32_t torn; /* what it saw when it left */
};

static uint32_t draw(struct member *member, uint32_t most)
{
	member->random = member->random * 1103515245u + 12345u;
	return (member->random >> 16) % most;
}

/* Most of the time nothing; sometimes another thread has its turn, or the lock is kept for longer than anybody spins. */
static void dawdle(struct member *member)
{
	uint32_t what = draw(member, 64);

	if (what == 0)
		usleep(draw(member, 200));
	else if (what < 4)
		sched_yield();
}

static void change_pair(struct member *member)
{
	struct crowd *crowd = member->crowd;

	crowd->pair[0]++;
	dawdle(member);
	crowd->pair[1]++;
	g4_write_unlock(&crowd->lock);
}

static void look_at_pair(struct crowd *crowd)
{
	uint64_t pair[2];
	uint32_t version;

	if (!g4_read_begin(&crowd->lock, &version))
		return;
	g4_peek(pair, crowd->pair, 2);
	g4_fence_acq();
	if (g4_read_unchanged(&crowd->lock, version) && pair[0] != pair[1])
		g4_store32_rlx(&crowd->torn, 1);
}

/* The same word by word, as the lanes of a workgroup do it. */
static void look_at_pair_by_words(struct crowd *crowd)
{
	const uint64_t begun = g4_read_begin_or(&crowd->lock, NULL);
	uint64_t pair[2];

	if (begun == 0)
		return;
	g4_peek_acq(&pair[0], &crowd->pair[0]);
	g4_peek_acq(&pair[1], &crowd->pair[1]);
	if (g4_read_unchanged(&crowd->lock, (uint32_t)(begun >> 1)) && pair[0] != pair[1])
		g4_store32_rlx(&crowd->torn, 1);
}

static void *be_in_crowd(void *arg)
{
	struct member *member = (struct member *)arg;
	struct crowd *crowd = member->crowd;

	for (uint32_t i = 0; i < 200; i++) {
		switch (draw(member, 7)) {
		case 0:
			if (g4_write_trylock(&crowd->lock))
				change_pair(member);
			break;
		case 1:
		case 4:
			if (draw(member, 2))
				g4_read_lock(&crowd->lock);
			else
				g4_read_lock_at_gate(&crowd->lock);
			if (crowd->pair[0] != crowd->pair[1])
				g4_store32_rlx(&crowd->torn, 1);
			dawdle(member);
			g4_read_unlock(&crowd->lock);
			break;
		case 2:
			look_at_pair(crowd);
			break;
		case 3:
			look_at_pair_by_words(crowd);
			break;
		default:
			g4_write_lock(&crowd->lock);
			change_pair(member);
		}
		dawdle(member);
	}
	g4_write_lock(&crowd->lock);
	const bool last = --crowd->members == 0;
	member->torn = g4_load32_rlx(&crowd->torn);
	g4_write_unlock(&crowd->lock);
	if (last)
		free(crowd);
	return NULL;
}

static void a_crowd_of_sleepy_threads_gets_through(void **state)
{
	enum { MEMBERS = 12 };
	struct member members[MEMBERS];
	pthread_t threads[MEMBERS];

	(void)state;
	for (uint32_t round = 0; round < 10; round++) {
		struct crowd *crowd = (struct crowd *)calloc(1, sizeof(*crowd));
		assert_non_null(crowd);
		crowd->members = MEMBERS;
		for (uint32_t i = 0; i < MEMBERS; i++) {
			members[i] = (struct member){crowd, round * 977 + i * 131 + 7, 0};
			start(&threads[i], be_in_crowd, &members[i]);
		}
		for (uint32_t i = 0; i < MEMBERS; i++)
			join(threads[i]);
		for (uint32_t i = 0; i < MEMBERS; i++)
			assert_int_equal(members[i].torn, 0);
	}
}

/* ---- looking without a lock ---- */

/* Free locks, with versions and tickets also where they wrap. */
static const struct g4_rwlock looked_at[] = {
	{0},
	{.version = UINT32_MAX},
	{.word = G4_TICKET_NEXT * 0xffff + 0xffff, .version = 0x7fffffff},
};
#define LOOKED_AT (sizeof(looked_at) / sizeof(looked_at[0]))

static void a_look_counts_until_somebody_writes(void **state)
{
	uint32_t version, again;

	(void)state;
	for (uint32_t i = 0; i < LOOKED_AT; i++) {
		struct g4_rwlock lock = looked_at[i];

		assert_true(g4_read_begin(&lock, &version));
		assert_true(g4_read_unchanged(&lock, version));
		g4_read_lock(&lock);
		assert_true(g4_read_unchanged(&lock, version)); /* who reads changes nothing */
		g4_read_unlock(&lock);
		assert_true(g4_read_unchanged(&lock, version));
		g4_write_lock(&lock);
		assert_false(g4_read_unchanged(&lock, version));
		assert_false(g4_read_begin(&lock, &again));
		g4_write_unlock(&lock);
		assert_false(g4_read_unchanged(&lock, version));
		assert_true(g4_read_begin(&lock, &again));
		assert_int_not_equal(again, version);
		assert_true(g4_read_unchanged(&lock, again));
	}
}

static void a_next_version_ends_a_look_and_leaves_the_lock_free(void **state)
{
	uint32_t version, again;

	(void)state;
	for (uint32_t i = 0; i < LOOKED_AT; i++) {
		struct g4_rwlock lock = looked_at[i];

		assert_true(g4_read_begin(&lock, &version));
		g4_next_version(&lock);
		assert_false(g4_read_unchanged(&lock, version));
		assert_true(g4_read_begin(&lock, &again));
		assert_int_not_equal(again, version);
		g4_next_version(&lock);
		g4_next_version(&lock);
		assert_false(g4_read_unchanged(&lock, again));
		assert_false(g4_read_unchanged(&lock, version));
		assert_true(g4_read_trylock(&lock));
		assert_false(g4_write_trylock(&lock));
		g4_read_unlock(&lock);
		assert_true(g4_write_trylock(&lock));
		g4_write_unlock(&lock);
		g4_write_lock(&lock);
		g4_write_unlock(&lock);
	}
}

static void a_look_begins_at_a_lock_or_at_a_word(void **state)
{
	static const uint64_t values[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX, UINT64_C(0x123456789abcdef0)};
	struct g4_rwlock lock = {.version = UINT32_MAX - 2};
	struct queuer writer = {&lock, &(uint32_t){0}, 0};
	uint32_t version;
	uint64_t copy;
	pthread_t thread;

	(void)state;
	for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(g4_read_begin_or(NULL, &values[i]), values[i]);
		g4_peek_acq(&copy, &values[i]);
		assert_int_equal(copy, values[i]);
	}
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(g4_read_begin(&lock, &version));
		assert_int_equal(g4_read_begin_or(&lock, NULL), (uint64_t)version << 1 | 1);
		assert_int_equal(g4_read_begin_or(&lock, &values[0]), (uint64_t)version << 1 | 1);
		g4_next_version(&lock);
	}
	g4_write_lock(&lock);
	assert_int_equal(g4_read_begin_or(&lock, NULL), 0);
	g4_write_unlock(&lock);
	g4_read_lock(&lock);
	assert_int_not_equal(g4_read_begin_or(&lock, NULL), 0);
	start(&thread, enter_as_writer, &writer);
	await_queue(&lock.word, 1);
	assert_int_equal(g4_read_begin_or(&lock, NULL), 0); /* one that waits is about, too */
	g4_read_unlock(&lock);
	join(thread);
	assert_int_not_equal(g4_read_begin_or(&lock, NULL), 0);
}

struct letter {
	uint64_t text, sent, read;
};

static void *send_letters(void *arg)
{
	struct letter *letter = (struct letter *)arg;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		while (g4_load64_acq(&letter->read) != i - 1)
			g4_pause();
		g4_store64_rlx(&letter->text, i * 3);
		g4_store64_rel(&letter->sent, i);
	}
	return NULL;
}

static void what_is_read_behind_a_peek_is_read_later(void **state)
{
	struct letter letter = {0, 0, 0};
	uint64_t sent;
	pthread_t thread;

	(void)state;
	start(&thread, send_letters, &letter);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		do {
			g4_peek_acq(&sent, &letter.sent);
		} while (sent != i);
		assert_int_equal(g4_load64_rlx(&letter.text), i * 3);
		g4_store64_rel(&letter.read, i);
	}
	join(thread);
}

/* ---- waiting ---- */

static void wait_returns_when_the_word_has_changed_already(void **state)
{
	uint32_t word = 1;

	(void)state;
	g4_wait(&word, 0);
}

static void wake_without_waiters_is_allowed(void **state)
{
	uint32_t word = 0;

	(void)state;
	g4_wake(&word);
}

static void wait_for(uint32_t *word, uint32_t value)
{
	uint32_t seen;

	while ((seen = g4_load32_acq(word)) != value)
		g4_wait(word, seen);
}

/* Answers each even number with the odd one after it. A lost wake-up leaves both asleep for ever. */
static void *answer(void *arg)
{
	uint32_t *word = (uint32_t *)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		wait_for(word, 2 * i + 1);
		g4_store32_rel(word, 2 * i + 2);
		g4_wake(word);
	}
	return NULL;
}

static void no_wake_up_is_lost(void **state)
{
	uint32_t word = 0;
	pthread_t thread;

	(void)state;
	start(&thread, answer, &word);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		g4_store32_rel(&word, 2 * i + 1);
		g4_wake(&word);
		wait_for(&word, 2 * i + 2);
	}
	join(thread);
}

struct gate {
	uint32_t open;
	uint32_t passed;
};

static void *pass(void *arg)
{
	struct gate *gate = (struct gate *)arg;

	wait_for(&gate->open, 1);
	g4_add32(&gate->passed, 1);
	return NULL;
}

static void wake_wakes_every_waiter(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 20; round++) {
		struct gate gate = {0, 0};
		pthread_t threads[THREADS];

		for (uint32_t i = 0; i < THREADS; i++)
			start(&threads[i], pass, &gate);
		g4_store32_rel(&gate.open, 1);
		g4_wake(&gate.open);
		for (uint32_t i = 0; i < THREADS; i++)
			join(threads[i]);
		assert_int_equal(gate.passed, THREADS);
	}
}

#ifdef G4_LOCK_ORDER
static struct g4_lock upper_lock, middle_lock, lower_lock;

static void take_in_a_circle(bool by_way_of_another)
{
	g4_lock(&upper_lock);
	g4_lock(&middle_lock);
	g4_unlock(&middle_lock);
	g4_unlock(&upper_lock);
	g4_lock(&middle_lock);
	g4_lock(&lower_lock);
	g4_unlock(&lower_lock);
	if (!by_way_of_another)
		g4_lock(&upper_lock);
	g4_unlock(&middle_lock);
	g4_lock(&lower_lock);
	g4_lock(&upper_lock);
}

/* In a process of its own: how it ends. */
static bool is_aborted(bool by_way_of_another)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		take_in_a_circle(by_way_of_another);
		_exit(0);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void locks_in_two_orders_end_the_program(void **state)
{
	(void)state;
	assert_true(is_aborted(false));
	assert_true(is_aborted(true));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_excludes),
		cmocka_unit_test(trylock_takes_only_a_free_lock),
		cmocka_unit_test(tickets_wrap),
		cmocka_unit_test(tickets_wrap_while_threads_contend),
		cmocka_unit_test(waiters_enter_in_order_of_arrival),
		cmocka_unit_test(unlock_leaves_the_lock_to_its_next_owner),
		cmocka_unit_test(readers_share),
		cmocka_unit_test(write_trylock_takes_only_a_free_lock),
		cmocka_unit_test(read_trylock_fails_where_a_writer_is_or_waits),
		cmocka_unit_test(a_reader_does_not_overtake_a_waiting_writer),
		cmocka_unit_test(a_reader_waits_for_one_writer_and_not_for_those_behind),
		cmocka_unit_test(adjacent_readers_enter_together_behind_a_writer),
		cmocka_unit_test(readers_at_the_gate_make_no_queue_and_share),
		cmocka_unit_test(readers_see_no_half_written_state),
		cmocka_unit_test(a_crowd_of_sleepy_threads_gets_through),
		cmocka_unit_test(a_look_counts_until_somebody_writes),
		cmocka_unit_test(a_next_version_ends_a_look_and_leaves_the_lock_free),
		cmocka_unit_test(a_look_begins_at_a_lock_or_at_a_word),
		cmocka_unit_test(what_is_read_behind_a_peek_is_read_later),
		cmocka_unit_test(wait_returns_when_the_word_has_changed_already),
		cmocka_unit_test(wake_without_waiters_is_allowed),
		cmocka_unit_test(no_wake_up_is_lost),
		cmocka_unit_test(wake_wakes_every_waiter),
#ifdef G4_LOCK_ORDER
		cmocka_unit_test(locks_in_two_orders_end_the_program),
#endif
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
