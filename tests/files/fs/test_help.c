/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper does pieces of a batch as its owner would: each entry has its own result, in its own place; and nothing where there is
 * nothing to do. (Pieces of transfers: files/data/test_help.c; of chains: engine/test_nested.c.)
 */
#include "files/files.h"

#include <pthread.h>

#include "fs/batch.h"

#define ENTRIES 200u
#define HELPERS 2u

static struct g4_wg *helper;
static uint64_t words[4096];
static struct g4_cmd cmd;

static int begin(void **state)
{
	const int rc = files_begin(state);

	helper = g4_wg_create(1);
	fs->split.helpers = HELPERS;
	return rc != 0 || helper == NULL;
}

static int end(void **state)
{
	fs->split.helpers = 0;
	g4_wg_destroy(helper);
	rig.cred = NULL;
	return files_end(state);
}

static struct g4_batch_entry *entry_at(uint32_t k)
{
	return (struct g4_batch_entry *)(void *)words + k;
}

static const struct g4_attr *attr_at(uint32_t k)
{
	return (const struct g4_attr *)(const void *)entry_at(cmd.mask) + k;
}

/* A batch about names "<letter><number>" of the root; every tenth is about one in a directory that is not there. */
static void put_batch(uint32_t op, uint32_t flags, char letter)
{
	uint64_t at = g4_batch_head_bytes(ENTRIES, flags);
	char path[32];

	memset(words, 0, sizeof(words));
	for (uint32_t k = 0; k < ENTRIES; k++) {
		const int n = snprintf(path, sizeof(path), "%s%c%u", k % 10 == 9 ? "none/" : "", letter, k);
		*entry_at(k) = (struct g4_batch_entry){.op = op,
						       .mode = op == G4_CMD_MKNOD ? G4_S_IFREG | 0640 : 0,
						       .path_at = (uint32_t)at,
						       .path_bytes = (uint32_t)n,
						       .status = 12345};
		assert_true(at + (uint64_t)n <= sizeof(words));
		memcpy((uint8_t *)words + at, path, (size_t)n);
		at += (uint64_t)n;
	}
	cmd = (struct g4_cmd){.op = G4_CMD_BATCH,
			      .node = G4_NODE_ROOT,
			      .data = words,
			      .length = at,
			      .mask = ENTRIES,
			      .flags = flags,
			      .cred = rig.cred};
}

static void expect_results(int status)
{
	for (uint32_t k = 0; k < ENTRIES; k++) {
		assert_int_equal(entry_at(k)->status, k % 10 == 9 ? -G4_E_NOENT : status);
		assert_int_equal(entry_at(k)->component, k % 10 == 9 ? 0 : G4_BATCH_AT_NAME);
	}
}

static void nothing_to_do_is_told(void **state)
{
	(void)state;
	assert_false(g4_split_help(helper, fs));
}

static void pieces_are_done_by_whoever_comes(void **state)
{
	static struct g4_names names;
	const struct g4_split_work work = {.kind = G4_SPLIT_NAMES, .bytes = ENTRIES, .names = &names};
	const struct g4_cred user = {.uid = 7, .gid = 8};
	struct g4_split_job *job;
	uint32_t pieces = 0;
	uint64_t done;

	(void)state;
	put_batch(G4_CMD_MKNOD, G4_BATCH_ATTR, 'h');
	names.cmd = cmd;
	job = g4_split_open(wg, fs, &work);
	assert_non_null(job);
	while (g4_split_help(helper, fs))
		pieces++;
	assert_int_equal(pieces, ENTRIES / G4_SPLIT_PIECE_NAMES);
	assert_int_equal(g4_split_close(fs, job, &done), 0);
	expect_results(0);
	for (uint32_t k = 0; k < ENTRIES; k++)
		assert_true((attr_at(k)->ino != 0) == (k % 10 != 9));
	/* as whom the owner asks */
	rig.cred = &user;
	put_batch(G4_CMD_MKNOD, 0, 'i');
	names.cmd = cmd;
	names.cred = user;
	names.cmd.cred = &names.cred;
	job = g4_split_open(wg, fs, &work);
	assert_non_null(job);
	while (g4_split_help(helper, fs))
		;
	assert_int_equal(g4_split_close(fs, job, &done), 0);
	expect_results(-G4_E_ACCES);
}

static uint32_t stop;
static uint64_t helped, rounds;

static void *help(void *argument)
{
	(void)argument;
	while (!g4_load32_acq(&stop)) {
		if (g4_split_help(helper, fs))
			g4_add64(&helped, 1);
		else
			g4_pause();
		g4_add64(&rounds, 1);
	}
	return NULL;
}

/* How many pieces were helped with. The last one is counted behind the end of its batch: by then a round that began later has ended, too. */
static uint64_t pieces_helped(void)
{
	const uint64_t now = g4_load64_acq(&rounds);

	while (g4_load64_acq(&rounds) < now + 2)
		g4_pause();
	return g4_load64_acq(&helped);
}

/* Until a helper had a piece: that one comes is not for this thread to decide. */
static void a_batch_is_shared(void **state)
{
	pthread_t thread;

	(void)state;
	g4_store32_rel(&stop, 0);
	g4_store64_rlx(&helped, 0);
	g4_store64_rlx(&rounds, 0);
	assert_int_equal(pthread_create(&thread, NULL, help, NULL), 0);
	do {
		put_batch(G4_CMD_MKNOD, G4_BATCH_ATTR, 'f');
		assert_int_equal(g4_execute(wg, fs, &cmd), 0);
		expect_results(0);
		put_batch(G4_CMD_LOOKUP, G4_BATCH_ATTR, 'f');
		assert_int_equal(g4_execute(wg, fs, &cmd), 0);
		expect_results(0);
		for (uint32_t k = 0; k < ENTRIES; k++)
			assert_true((attr_at(k)->mode == (G4_S_IFREG | 0640)) == (k % 10 != 9));
		put_batch(G4_CMD_UNLINK, 0, 'f');
		assert_int_equal(g4_execute(wg, fs, &cmd), 0);
		expect_results(0);
	} while (g4_load64_rlx(&helped) == 0);
	/* in order, until the first error */
	for (uint64_t before = pieces_helped(), round = 0; round < 20; round++) {
		put_batch(G4_CMD_MKNOD, G4_BATCH_STOP, 'f');
		assert_int_equal(g4_execute(wg, fs, &cmd), 0);
		for (uint32_t k = 0; k < ENTRIES; k++)
			assert_int_equal(entry_at(k)->status, k < 9		   ? round == 0 ? 0 :
										     k == 0	? -G4_E_EXIST :
												  -G4_E_CANCELED :
							      k == 9 && round == 0 ? -G4_E_NOENT :
										     -G4_E_CANCELED);
		assert_int_equal(pieces_helped(), before);
	}
	/* text that several entries name: which of them is refused depends on their order */
	put_batch(G4_CMD_LOOKUP, 0, 'f');
	for (uint32_t k = 0; k < ENTRIES; k++) {
		entry_at(k)->path_at = entry_at(0)->path_at;
		entry_at(k)->path_bytes = 11;
	}
	const uint64_t before = pieces_helped();
	assert_int_equal(g4_execute(wg, fs, &cmd), 0);
	assert_int_equal(entry_at(ENTRIES - 1)->status, -G4_E_INVAL);
	assert_int_equal(pieces_helped(), before);
	g4_store32_rel(&stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fs->split.used, 0);
}

#define help_test(f) cmocka_unit_test_setup_teardown(f, begin, end)
RUN_TESTS(help_test(nothing_to_do_is_told), help_test(pieces_are_done_by_whoever_comes), help_test(a_batch_is_shared))
