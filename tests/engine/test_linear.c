/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that share names and a file: every answer must fit one order of all operations, in which an operation that ended before
 * another began comes first (linear.h). In short rounds: the threads start together, then the search runs.
 *
 * Names are four places in two directories. What lies there is told apart by inode number, which no later inode gets
 * in the same round: the mount holds removed ones until they are forgotten. G4_LINEAR_SEED and G4_LINEAR_ROUNDS choose.
 *
 * Once the directories have one leaf each, and once so many other names that the places lie in leaves of their own. And once another
 * thread makes and removes other names all the while, so that leaves are split and united, and index pages come and go, below the
 * operations. A listing of several leaves is not of one moment, so there is none then.
 */
#include "linear.h"
#include "rig.h"

#include <pthread.h>

#include "fs/command.h"
#include "fs/fs.h"

#define ENOUGH 100u /* rounds in which operations overlap */

struct thread {
	pthread_t id;
	uint64_t random, known; /* an inode that it saw last */
	struct linear_step steps[LINEAR_STEPS];
	struct rig rig;
};

static struct rig rig;
static uint64_t directories[2], file;
static uint64_t now; /* a common clock: begins and ends are its ticks */
static struct thread threads[LINEAR_WORKERS];
static uint32_t round_number;	/* threads run when it grows; the last is LAST_ROUND */
static uint32_t ready, running; /* threads: in the round that begins, in the one that is */
static bool threads_met;
static bool at_work; /* threads run, or wait for a round */
static bool many_leaves;
static struct {
	pthread_t id;
	struct rig rig;
	uint32_t over;
	uint64_t grown, shrunk; /* times that a directory had several pages, and one again */
} changes;
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

static void choose(struct thread *thread, struct linear_step *step)
{
	uint64_t random = rig_random(&thread->random);

	*step = (struct linear_step){.verb = (enum linear_verb)(random % LINEAR_VERBS),
				     .place = (uint32_t)(random >> 8) % LINEAR_PLACES,
				     .to = (uint32_t)(random >> 16) % LINEAR_PLACES,
				     .byte = (uint8_t)(random >> 24)};
}

static uint64_t list(struct rig *r, struct linear_step *step)
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

static uint64_t read_byte(struct rig *r, struct linear_step *step)
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

static void write_byte(struct rig *r, struct linear_step *step)
{
	uint8_t page[G4_PAGE_BYTES];

	memset(page, step->byte, sizeof(page));
	step->code = op_write(r, file, 0, 0, page, sizeof(page), NULL);
}

static void perform(struct thread *thread, struct linear_step *step)
{
	struct rig *r = &thread->rig;
	uint64_t dir = directory_of(step->place), dir2 = directory_of(step->to);
	const char *name = name_of(step->place), *name2 = name_of(step->to);
	struct g4_attr attr = {0};

	switch (step->verb) {
	case LINEAR_MAKE:
		step->code = op_mknod(r, dir, name, G4_S_IFREG | 0600, &step->ino);
		break;
	case LINEAR_MAKE_DIR:
		step->code = op_mkdir(r, dir, name, 0700, &step->ino);
		break;
	case LINEAR_UNLINK:
		step->code = op_unlink(r, dir, name);
		break;
	case LINEAR_RMDIR:
		step->code = op_rmdir(r, dir, name);
		break;
	case LINEAR_RENAME:
	case LINEAR_NOREPLACE:
	case LINEAR_EXCHANGE:
		step->code = op_rename(r, dir, name, dir2, name2,
				       step->verb == LINEAR_RENAME    ? 0 :
				       step->verb == LINEAR_NOREPLACE ? G4_RENAME_NOREPLACE :
									G4_RENAME_EXCHANGE);
		break;
	case LINEAR_LINK:
		step->ino = thread->known;
		step->code = op_link(r, step->ino, dir, name);
		break;
	case LINEAR_LOOKUP:
		step->code = op_lookup(r, dir, name, &attr);
		step->ino = attr.ino;
		step->value = attr.nlink;
		break;
	case LINEAR_STAT:
		step->ino = thread->known;
		step->code = op_getattr(r, step->ino, &attr);
		step->value = attr.nlink;
		break;
	case LINEAR_LIST:
		step->value = list(r, step);
		break;
	case LINEAR_WRITE:
		write_byte(r, step);
		break;
	case LINEAR_READ:
		step->value = read_byte(r, step);
		break;
	case LINEAR_MAKE_ALL: {
		uint32_t made = 0;
		step->code = op_mkdir_all(r, dir, name, 0700, &made, &step->ino);
		step->value = made;
		break;
	}
	default:
		step->code = op_truncate(r, file, 0);
		break;
	}
	if (step->code == 0 && (step->verb == LINEAR_MAKE || step->verb == LINEAR_LOOKUP))
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
		while (g4_load32_acq(&ready) < LINEAR_WORKERS) /* awake, so that all begin at once */
			g4_pause();
		for (uint32_t s = 0; s < LINEAR_STEPS; s++) {
			struct linear_step *step = &thread->steps[s];
			choose(thread, step);
			if (step->verb == LINEAR_LIST && many_leaves)
				step->verb = LINEAR_LOOKUP;
			if ((step->verb == LINEAR_LINK || step->verb == LINEAR_STAT) && thread->known == 0)
				step->verb = LINEAR_LOOKUP;
			step->begun = g4_add64(&now, 1);
			perform(thread, step);
			step->ended = g4_add64(&now, 1);
		}
		if (g4_sub32(&running, 1) == 1)
			g4_wake(&running);
	}
}

/* ------------------------------------------------------------------ tests */

static void start_threads(uint64_t seed)
{
	round_number = 0;
	for (uint32_t t = 0; t < LINEAR_WORKERS; t++) {
		threads[t] = (struct thread){.random = seed * 1000 + t, .rig = rig};
		assert_int_equal(pthread_create(&threads[t].id, NULL, thread_main, &threads[t]), 0);
	}
}

static void stop_threads(void)
{
	g4_store32_rel(&round_number, LAST_ROUND);
	g4_wake(&round_number);
	for (uint32_t t = 0; t < LINEAR_WORKERS; t++)
		assert_int_equal(pthread_join(threads[t].id, NULL), 0);
}

/* What is there when nobody works, seen through the same calls. */
static void look(struct linear_state *state)
{
	struct linear_step step = {0};

	*state = (struct linear_state){.byte = read_byte(&rig, &step)};
	for (uint32_t p = 0; p < LINEAR_PLACES; p++) {
		struct g4_attr attr;
		int rc = op_lookup(&rig, directory_of(p), name_of(p), &attr);

		assert_true(rc == 0 || rc == -G4_E_NOENT);
		if (rc == 0)
			linear_put(state, p, attr.ino, g4_is_dir(attr.mode));
	}
}

/* Lets go of what the round removed. */
static void forget(const struct linear_state *start, const struct linear_state *found)
{
	uint64_t seen[LINEAR_PLACES + LINEAR_WORKERS * LINEAR_STEPS];
	uint32_t count = 0;

	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		seen[count++] = start->at[p];
	for (uint32_t s = 0; s < LINEAR_WORKERS * LINEAR_STEPS; s++) {
		const struct linear_step *step = &threads[s / LINEAR_STEPS].steps[s % LINEAR_STEPS];
		seen[count++] = step->code == 0 && (step->verb == LINEAR_MAKE || step->verb == LINEAR_MAKE_DIR ||
						    (step->verb == LINEAR_MAKE_ALL && step->value > 0)) ?
					step->ino :
					0;
		threads[s / LINEAR_STEPS].known = 0;
	}
	for (uint32_t k = 0; k < count; k++) {
		struct g4_cmd cmd = {.op = G4_CMD_FORGET, .node = seen[k]};
		if (seen[k] && linear_links(found, seen[k]) == 0)
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

/* Names of one file: nothing that is held after their removal. */
static void change_leaves(uint64_t dir, bool add)
{
	struct g4_attr attr;
	char name[201];

	memset(name, 'y', sizeof(name));
	for (uint32_t k = 0; k < 60; k++) {
		snprintf(name + 192, 9, "%08u", k);
		assert_int_equal(add ? op_link(&changes.rig, file, dir, name) : op_unlink(&changes.rig, dir, name), 0);
	}
	assert_int_equal(op_getattr(&changes.rig, dir, &attr), 0);
	changes.grown += add && attr.size > G4_PAGE_BYTES;
	changes.shrunk += !add && attr.size == G4_PAGE_BYTES;
}

static void *keep_changing_leaves(void *argument)
{
	(void)argument;
	do {
		for (uint32_t d = 0; d < 2; d++)
			change_leaves(directories[d], true);
		for (uint32_t d = 0; d < 2; d++)
			change_leaves(directories[d], false);
	} while (!g4_load32_acq(&changes.over));
	return NULL;
}

static void run_rounds(uint64_t rounds, bool change)
{
	uint64_t seed = rig_setting("G4_LINEAR_SEED", 1);
	struct linear_state found;
	struct linear_round steps;
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
	for (uint32_t d = 0; d < 2 && many_leaves && !change; d++)
		fill(directories[d]);
	memset(&changes, 0, sizeof(changes));
	changes.rig = rig;
	if (change)
		assert_int_equal(pthread_create(&changes.id, NULL, keep_changing_leaves, NULL), 0);
	start_threads(seed);
	look(&found);
	/* on a busy machine the threads may hardly meet: then more rounds */
	for (uint64_t round = 0; round < rounds || (several < ENOUGH && round < 50 * rounds); round++) {
		struct linear_state start = found;

		g4_store32_rel(&ready, 0);
		g4_store32_rel(&running, LINEAR_WORKERS);
		g4_add32(&round_number, 1);
		g4_wake(&round_number);
		for (uint32_t left = LINEAR_WORKERS; left > 0; left = g4_load32_acq(&running))
			g4_wait(&running, left);
		for (uint32_t t = 0; t < LINEAR_WORKERS; t++)
			steps.steps[t] = threads[t].steps;
		if (!linear_check(&steps, &start)) {
			linear_print(stdout, &steps, &start);
			fail_msg("no order of these operations gives these answers");
		}
		several += linear_overlaps(&steps);
		look(&found);
		if (!linear_may_end_in(&steps, &found)) {
			linear_print(stdout, &steps, &start);
			fail_msg("no order of these operations ends in what is there");
		}
		forget(&start, &found);
	}
	stop_threads();
	if (change) {
		g4_store32_rel(&changes.over, 1);
		assert_int_equal(pthread_join(changes.id, NULL), 0);
		print_message("directories grew %lu times and shrank %lu times\n", (unsigned long)changes.grown,
			      (unsigned long)changes.shrunk);
		assert_true(changes.grown > 0 && changes.shrunk > 0);
	}
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
	run_rounds(rig_setting("G4_LINEAR_ROUNDS", rig_slow() ? 400 : 4000), false);
}

static void also_where_names_lie_in_different_leaves(void **state)
{
	(void)state;
	many_leaves = true;
	run_rounds(rig_setting("G4_LINEAR_ROUNDS", rig_slow() ? 200 : 2000), false);
}

static void also_while_leaves_are_split_and_united(void **state)
{
	(void)state;
	many_leaves = true;
	run_rounds(rig_setting("G4_LINEAR_ROUNDS", rig_slow() ? 100 : 400), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_see_one_order_of_all_operations),
		cmocka_unit_test(also_where_names_lie_in_different_leaves),
		cmocka_unit_test(also_while_leaves_are_split_and_united),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return failed || threads_met ? failed : 77; /* skipped: nothing was tested */
}
