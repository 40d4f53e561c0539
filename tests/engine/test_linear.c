/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that share names and a file: every answer must fit one order of all operations, in which an operation that ended before
 * another began comes first (linearizability; Wing and Gong's search, with the states that were tried remembered). In
 * short rounds: the threads start together, then the search runs, from every state in which the last round may have ended.
 *
 * Names are four places in two directories. What lies there is told apart by inode number, which no later inode gets
 * in the same round: the mount holds removed ones until they are forgotten. G4_LINEAR_SEED and G4_LINEAR_ROUNDS choose.
 *
 * Once the directories have one leaf each, and once so many other names that the places lie in leaves of their own. A listing of several
 * leaves is not of one moment, so there is none then.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/command.h"
#include "fs/fs.h"

#define THREADS 3u
#define STEPS 5u
#define PLACES 4u
#define OBJECTS (1 + THREADS * STEPS)
#define OLD_OBJECTS PLACES /* left from the round before */
#define ENOUGH 100u	   /* rounds in which operations overlap */
#define STATES 64u	   /* in which a round may end */

enum verb {
	MAKE,
	MAKE_DIR,
	UNLINK,
	RMDIR,
	RENAME,
	NOREPLACE,
	EXCHANGE,
	LINK,
	LOOKUP,
	STAT,
	LIST,
	WRITE,
	READ,
	CUT,
	VERBS
};
static const char *const verb_names[] = {"mknod", "mkdir",  "unlink", "rmdir", "rename", "noreplace", "exchange",
					 "link",  "lookup", "stat",   "list",  "write",	 "read",      "truncate"};

struct step {
	enum verb verb;
	uint32_t place, to; /* to: also the directory that is listed */
	uint8_t byte;	    /* WRITE */
	/* what came of it */
	int code;
	uint64_t ino;	/* MAKE, LOOKUP: found; LINK, STAT: what was to be linked, or looked at by its number */
	uint64_t value; /* LOOKUP, STAT: links; LIST: names found, a bit a place; READ: byte, 256 for an empty file */
	uint64_t begun, ended;
};

/* What the file system may be like at one moment. */
struct state {
	uint64_t at[PLACES]; /* inode number, 0: no such name */
	uint64_t directory;  /* bit p: what lies at place p is one */
	uint64_t byte;	     /* of the file, 256: it is empty */
};

struct thread {
	pthread_t id;
	uint64_t random, known; /* an inode that it saw last */
	struct step steps[STEPS];
	struct rig rig;
};

static struct rig rig;
static uint64_t directories[2], file;
static uint64_t now; /* a common clock: begins and ends are its ticks */
static struct thread threads[THREADS];
static uint32_t round_number;	/* threads run when it grows; the last is LAST_ROUND */
static uint32_t ready, running; /* threads: in the round that begins, in the one that is */
static bool threads_met;
static bool at_work; /* threads run, or wait for a round */
static bool many_leaves;
#define LAST_ROUND UINT32_MAX

static uint64_t directory_of(uint32_t place)
{
	return directories[place / 2];
}

static const char *name_of(uint32_t place)
{
	return place % 2 ? "b" : "a";
}

/* ------------------------------------------------------------------ doing */

static void choose(struct thread *thread, struct step *step)
{
	uint64_t random = rig_random(&thread->random);

	*step = (struct step){.verb = (enum verb)(random % VERBS),
			      .place = (uint32_t)(random >> 8) % PLACES,
			      .to = (uint32_t)(random >> 16) % PLACES,
			      .byte = (uint8_t)(random >> 24)};
}

static uint64_t list(struct rig *r, struct step *step)
{
	static const char *const names[] = {"a", "b"};
	uint8_t records[1024];
	uint64_t bytes = 0, found = 0;

	step->code = op_readdir(r, directories[step->to / 2], 0, records, sizeof(records), &bytes);
	for (uint64_t at = 0; step->code == 0 && at < bytes;) {
		const struct g4_dirent *entry = (const struct g4_dirent *)(records + at);
		for (uint32_t n = 0; n < 2; n++)
			if (entry->name_bytes == 1 && *(const char *)(entry + 1) == names[n][0])
				found |= 1u << n;
		at += entry->record_bytes;
	}
	return found;
}

static uint64_t read_byte(struct rig *r, struct step *step)
{
	uint8_t page[G4_PAGE_BYTES];
	uint64_t done;

	step->code = op_read(r, file, 0, 0, page, sizeof(page), &done);
	if (step->code == 0 && done != 0 && done != sizeof(page))
		return 1000 + done; /* no state is like that */
	for (uint64_t k = 1; k < done; k++)
		if (page[k] != page[0])
			return 2000;
	return done ? page[0] : 256;
}

static void write_byte(struct rig *r, struct step *step)
{
	uint8_t page[G4_PAGE_BYTES];

	memset(page, step->byte, sizeof(page));
	step->code = op_write(r, file, 0, 0, page, sizeof(page), NULL);
}

static void perform(struct thread *thread, struct step *step)
{
	struct rig *r = &thread->rig;
	uint64_t dir = directory_of(step->place), dir2 = directory_of(step->to);
	const char *name = name_of(step->place), *name2 = name_of(step->to);
	struct g4_attr attr = {0};

	switch (step->verb) {
	case MAKE:
		step->code = op_mknod(r, dir, name, G4_S_IFREG | 0600, &step->ino);
		break;
	case MAKE_DIR:
		step->code = op_mkdir(r, dir, name, 0700, &step->ino);
		break;
	case UNLINK:
		step->code = op_unlink(r, dir, name);
		break;
	case RMDIR:
		step->code = op_rmdir(r, dir, name);
		break;
	case RENAME:
	case NOREPLACE:
	case EXCHANGE:
		step->code = op_rename(r, dir, name, dir2, name2,
				       step->verb == RENAME    ? 0 :
				       step->verb == NOREPLACE ? G4_RENAME_NOREPLACE :
								 G4_RENAME_EXCHANGE);
		break;
	case LINK:
		step->ino = thread->known;
		step->code = op_link(r, step->ino, dir, name);
		break;
	case LOOKUP:
		step->code = op_lookup(r, dir, name, &attr);
		step->ino = attr.ino;
		step->value = attr.nlink;
		break;
	case STAT:
		step->ino = thread->known;
		step->code = op_getattr(r, step->ino, &attr);
		step->value = attr.nlink;
		break;
	case LIST:
		step->value = list(r, step);
		break;
	case WRITE:
		write_byte(r, step);
		break;
	case READ:
		step->value = read_byte(r, step);
		break;
	default:
		step->code = op_truncate(r, file, 0);
		break;
	}
	if (step->code == 0 && (step->verb == MAKE || step->verb == LOOKUP))
		thread->known = step->ino;
}

static void *thread_main(void *argument)
{
	struct thread *thread = (struct thread *)argument;
	uint32_t seen = 0;

	for (;;) {
		while (g4_load32_acq(&round_number) == seen)
			g4_wait(&round_number, seen);
		seen = g4_load32_acq(&round_number);
		if (seen == LAST_ROUND)
			return NULL;
		g4_add32(&ready, 1);
		while (g4_load32_acq(&ready) < THREADS) /* awake, so that all begin at once */
			g4_pause();
		for (uint32_t s = 0; s < STEPS; s++) {
			struct step *step = &thread->steps[s];
			choose(thread, step);
			if (step->verb == LIST && many_leaves)
				step->verb = LOOKUP;
			if ((step->verb == LINK || step->verb == STAT) && thread->known == 0)
				step->verb = LOOKUP;
			step->begun = g4_add64(&now, 1);
			perform(thread, step);
			step->ended = g4_add64(&now, 1);
		}
		if (g4_sub32(&running, 1) == 1)
			g4_wake(&running);
	}
}

/* ------------------------------------------------------------------ what the answer should be */

static bool is_directory(const struct state *state, uint32_t place)
{
	return state->directory >> place & 1;
}

static void put(struct state *state, uint32_t place, uint64_t ino, bool directory)
{
	state->at[place] = ino;
	state->directory = (state->directory & ~(UINT64_C(1) << place)) | (uint64_t)directory << place;
}

static uint64_t links(const struct state *state, uint64_t ino)
{
	uint64_t count = 0;

	for (uint32_t p = 0; p < PLACES; p++)
		count += state->at[p] == ino;
	return count;
}

/* The links that a stat tells. */
static uint64_t names_of(const struct state *state, uint64_t ino)
{
	for (uint32_t p = 0; p < PLACES; p++)
		if (state->at[p] == ino && is_directory(state, p))
			return 2;
	return links(state, ino);
}

static int expect_rename(struct state *state, const struct step *step)
{
	uint64_t from = state->at[step->place], to = state->at[step->to];
	bool from_directory = is_directory(state, step->place), to_directory = is_directory(state, step->to);

	if (!from)
		return -G4_E_NOENT;
	if (step->verb == NOREPLACE && to)
		return -G4_E_EXIST;
	if (step->verb == EXCHANGE) {
		if (!to)
			return -G4_E_NOENT;
		put(state, step->place, to, to_directory);
		put(state, step->to, from, from_directory);
		return 0;
	}
	if (from == to)
		return 0;
	if (to && from_directory != to_directory)
		return to_directory ? -G4_E_ISDIR : -G4_E_NOTDIR;
	put(state, step->to, from, from_directory);
	put(state, step->place, 0, false);
	return 0;
}

static int expect_link(struct state *state, const struct step *step)
{
	if (state->at[step->place])
		return -G4_E_EXIST;
	for (uint32_t p = 0; p < PLACES; p++)
		if (state->at[p] == step->ino && is_directory(state, p))
			return -G4_E_PERM;
	if (links(state, step->ino) == 0)
		return -G4_E_NOENT;
	put(state, step->place, step->ino, false);
	return 0;
}

/* Applies the step; false: from this state it cannot have ended as it did. */
static bool fits(struct state *state, const struct step *step)
{
	uint64_t at = state->at[step->place];
	bool directory = is_directory(state, step->place);
	int code = 0;

	switch (step->verb) {
	case MAKE:
	case MAKE_DIR:
		code = at ? -G4_E_EXIST : 0;
		if (!at)
			put(state, step->place, step->ino, step->verb == MAKE_DIR);
		break;
	case UNLINK:
	case RMDIR:
		code = !at ? -G4_E_NOENT : 0;
		if (at && directory != (step->verb == RMDIR))
			code = directory ? -G4_E_ISDIR : -G4_E_NOTDIR;
		if (code == 0)
			put(state, step->place, 0, false);
		break;
	case RENAME:
	case NOREPLACE:
	case EXCHANGE:
		code = expect_rename(state, step);
		break;
	case LINK:
		code = expect_link(state, step);
		/* what was removed may have been a directory: two things are wrong, either answer will do */
		if (code == -G4_E_NOENT && step->code == -G4_E_PERM)
			code = step->code;
		break;
	case LOOKUP:
		code = at ? 0 : -G4_E_NOENT;
		if (at && (step->ino != at || step->value != (directory ? 2 : links(state, at))))
			return false;
		break;
	case STAT: /* it is held without names, too */
		if (step->value != names_of(state, step->ino))
			return false;
		break;
	case LIST:
		if (step->value !=
		    ((state->at[step->to / 2 * 2] ? 1u : 0u) | (state->at[step->to / 2 * 2 + 1] ? 2u : 0u)))
			return false;
		break;
	case WRITE:
		state->byte = step->byte;
		break;
	case READ:
		if (step->value != state->byte)
			return false;
		break;
	default:
		state->byte = 256;
		break;
	}
	return code == step->code;
}

/* ------------------------------------------------------------------ the search */

struct position {
	uint8_t done[THREADS];
	struct state state;
};
#define TRIED 65536u
#define FREE 255u
static struct position
	tried[TRIED]; /* open addressing, by hash; done[0] == FREE: free, as all are between two rounds */
static uint32_t tried_at[TRIED], tried_count; /* which are not */
static struct state ends[STATES];
static uint32_t end_count;

static bool try_once(const struct position *position)
{
	uint64_t hash = 0;
	const uint64_t words[] = {position->state.at[0],
				  position->state.at[1],
				  position->state.at[2],
				  position->state.at[3],
				  position->state.byte,
				  position->state.directory,
				  position->done[0] * 65536u + position->done[1] * 256u + position->done[2]};

	for (uint32_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		hash = (hash ^ words[w]) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
	for (uint32_t at = (uint32_t)(hash % TRIED);; at = (at + 1) % TRIED) {
		if (tried[at].done[0] == FREE) {
			tried_at[tried_count++] = at;
			assert_true(tried_count < TRIED);
			tried[at] = *position;
			return true;
		}
		if (memcmp(tried[at].done, position->done, THREADS) == 0 &&
		    memcmp(&tried[at].state, &position->state, sizeof(struct state)) == 0)
			return false;
	}
}

static void add_end(const struct state *state)
{
	for (uint32_t e = 0; e < end_count; e++)
		if (memcmp(&ends[e], state, sizeof(*state)) == 0)
			return;
	assert_true(end_count < STATES);
	ends[end_count++] = *state;
}

/* Follows every order that the clock allows. Recursion is as deep as there are steps. */
static void search(const struct position *position)
{
	uint64_t first_end = UINT64_MAX;
	bool complete = true;

	if (!try_once(position))
		return;
	for (uint32_t t = 0; t < THREADS; t++)
		if (position->done[t] < STEPS) {
			first_end = g4_min64(first_end, threads[t].steps[position->done[t]].ended);
			complete = false;
		}
	if (complete) {
		add_end(&position->state);
		return;
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		const struct step *step = &threads[t].steps[position->done[t]];
		struct position next = *position;

		if (position->done[t] < STEPS && step->begun < first_end && fits(&next.state, step)) {
			next.done[t]++;
			search(&next);
		}
	}
}

static void print_round(const struct state *starts, uint32_t count)
{
	for (uint32_t s = 0; s < count; s++)
		print_message("may have begun with %lx %lx %lx %lx, directories %lx, byte %lu\n",
			      (unsigned long)starts[s].at[0], (unsigned long)starts[s].at[1],
			      (unsigned long)starts[s].at[2], (unsigned long)starts[s].at[3],
			      (unsigned long)starts[s].directory, (unsigned long)starts[s].byte);
	for (uint32_t t = 0; t < THREADS; t++)
		for (uint32_t k = 0; k < STEPS; k++) {
			const struct step *step = &threads[t].steps[k];
			print_message("thread %u [%lu, %lu] %s %u %u byte %u: %d, inode %lx, value %lu\n", t,
				      (unsigned long)step->begun, (unsigned long)step->ended, verb_names[step->verb],
				      step->place, step->to, step->byte, step->code, (unsigned long)step->ino,
				      (unsigned long)step->value);
		}
}

/* Whether two operations were under way at once. */
static bool overlaps(void)
{
	for (uint32_t t = 0; t < THREADS * STEPS; t++)
		for (uint32_t u = 0; u < THREADS * STEPS; u++) {
			const struct step *a = &threads[t / STEPS].steps[t % STEPS];
			const struct step *b = &threads[u / STEPS].steps[u % STEPS];
			if (t / STEPS != u / STEPS && a->begun < b->begun && b->begun < a->ended)
				return true;
		}
	return false;
}

/* The round that just ended, begun in one of `starts`; leaves in `ends` where it may have ended. */
static void check_round(const struct state *starts, uint32_t count)
{
	end_count = 0;
	for (uint32_t s = 0; s < count; s++) {
		struct position position = {.state = starts[s]};
		search(&position);
	}
	while (tried_count > 0)
		tried[tried_at[--tried_count]].done[0] = FREE;
	if (end_count == 0) {
		print_round(starts, count);
		fail_msg("no order of these operations gives these answers");
	}
}

/* ------------------------------------------------------------------ tests */

static void start_threads(uint64_t seed)
{
	round_number = 0;
	for (uint32_t t = 0; t < THREADS; t++) {
		threads[t] = (struct thread){.random = seed * 1000 + t, .rig = rig};
		assert_int_equal(pthread_create(&threads[t].id, NULL, thread_main, &threads[t]), 0);
	}
}

static void stop_threads(void)
{
	g4_store32_rel(&round_number, LAST_ROUND);
	g4_wake(&round_number);
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(threads[t].id, NULL), 0);
}

/* What is there when nobody works, seen through the same calls. */
static void look(struct state *state)
{
	struct step step = {0};

	*state = (struct state){.byte = read_byte(&rig, &step)};
	for (uint32_t p = 0; p < PLACES; p++) {
		struct g4_attr attr;
		int rc = op_lookup(&rig, directory_of(p), name_of(p), &attr);

		assert_true(rc == 0 || rc == -G4_E_NOENT);
		if (rc == 0)
			put(state, p, attr.ino, g4_is_dir(attr.mode));
	}
}

/* Lets go of what the round removed. */
static void forget(const struct state *start, const struct state *found)
{
	uint64_t seen[PLACES + THREADS * STEPS];
	uint32_t count = 0;

	for (uint32_t p = 0; p < PLACES; p++)
		seen[count++] = start->at[p];
	for (uint32_t s = 0; s < THREADS * STEPS; s++) {
		const struct step *step = &threads[s / STEPS].steps[s % STEPS];
		seen[count++] = step->code == 0 && (step->verb == MAKE || step->verb == MAKE_DIR) ? step->ino : 0;
		threads[s / STEPS].known = 0;
	}
	for (uint32_t k = 0; k < count; k++) {
		struct g4_cmd cmd = {.op = G4_CMD_FORGET, .node = seen[k]};
		if (seen[k] && links(found, seen[k]) == 0)
			assert_int_equal(g4_engine_execute(rig.engine, &cmd), 0);
	}
}

/* Other names, of which a leaf has few. */
static void fill(uint64_t dir)
{
	struct g4_attr attr;
	char name[201];
	uint64_t ino;

	memset(name, 'x', sizeof(name));
	for (uint32_t k = 0; k < 400; k++) {
		snprintf(name + 192, 9, "%08u", k);
		assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0600, &ino), 0);
	}
	assert_int_equal(op_getattr(&rig, dir, &attr), 0);
	assert_true(attr.size > 8 * G4_PAGE_BYTES);
}

static void run_rounds(uint64_t rounds)
{
	uint64_t seed = rig_setting("G4_LINEAR_SEED", 1);
	struct state found;
	uint64_t several = 0;

	if (at_work)
		fail_msg("the threads of a test that failed are still there");
	at_work = true;
	print_message("seed %lu\n", (unsigned long)seed);
	rig_open(&rig, 64 * G4_MIB, 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_HOLD_UNLINKED | G4_MOUNT_TICK_TIMES, NULL), 0);
	directories[0] = G4_NODE_ROOT;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "directory", 0700, &directories[1]), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0600, &file), 0);
	for (uint32_t d = 0; d < 2 && many_leaves; d++)
		fill(directories[d]);
	for (uint32_t at = 0; at < TRIED; at++)
		tried[at].done[0] = FREE;
	start_threads(seed);
	look(&found);
	/* on a busy machine the threads may hardly meet: then more rounds */
	for (uint64_t round = 0; round < rounds || (several < ENOUGH && round < 50 * rounds); round++) {
		struct state start = found;

		g4_store32_rel(&ready, 0);
		g4_store32_rel(&running, THREADS);
		g4_add32(&round_number, 1);
		g4_wake(&round_number);
		for (uint32_t left = THREADS; left > 0; left = g4_load32_acq(&running))
			g4_wait(&running, left);
		check_round(&start, 1);
		several += overlaps();
		look(&found);
		bool allowed = false;
		for (uint32_t e = 0; e < end_count; e++)
			allowed |= memcmp(&ends[e], &found, sizeof(found)) == 0;
		if (!allowed) {
			print_round(&start, 1);
			fail_msg("no order of these operations ends in what is there");
		}
		forget(&start, &found);
	}
	stop_threads();
	print_message("%lu rounds or more, operations overlapped in %lu\n", (unsigned long)rounds,
		      (unsigned long)several);
	at_work = false;
	threads_met |= several > 0;
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
}

static void threads_see_one_order_of_all_operations(void **state)
{
	(void)state;
	many_leaves = false;
	run_rounds(rig_setting("G4_LINEAR_ROUNDS", rig_slow() ? 400 : 4000));
}

static void also_where_names_lie_in_different_leaves(void **state)
{
	(void)state;
	many_leaves = true;
	run_rounds(rig_setting("G4_LINEAR_ROUNDS", rig_slow() ? 200 : 2000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_see_one_order_of_all_operations),
		cmocka_unit_test(also_where_names_lie_in_different_leaves),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return failed || threads_met ? failed : 77; /* skipped: nothing was tested */
}
