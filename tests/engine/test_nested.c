/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a long path that are made together: each is as MKDIR would have made it, whoever makes the pieces; what MKDIR has to
 * decide is left to it; few free pages, and no room in the cache; a crash (test_batch.c).
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "fs/nested.h"
#include "simt/simt_host.h"

#define HELPERS 3u
#define MANY 400u /* in one transaction of the rig's journal, of more than a few pieces */

static struct rig rig;
static char path[64 * 1024];
static uint32_t path_bytes;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, 64 * G4_MIB, 8 * G4_MIB);
	rig.cache_bytes = 64 * G4_MIB;
	rig.wg = g4_wg_create(0);
	assert_non_null(rig.wg);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(rig.fs->journal.max_blocks > 2 * MANY + 100);
	return 0;
}

/* ------------------------------------------------------------------ helpers */

static pthread_t threads[HELPERS];
static uint32_t thread_count; /* that run until stop */
static uint32_t stop;
static uint64_t helped;

static void *help(void *argument)
{
	struct g4_wg *own = (struct g4_wg *)argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_split_help(own, rig.fs))
			g4_add64(&helped, 1);
		else
			g4_pause();
	}
	g4_wg_destroy(own);
	return NULL;
}

static void start_threads(void *(*run)(void *))
{
	g4_store32_rel(&stop, 0);
	for (uint32_t k = 0; k < HELPERS; k++) {
		assert_int_equal(pthread_create(&threads[k], NULL, run, g4_wg_create(100 + k)), 0);
		thread_count++;
	}
}

static void stop_threads(void)
{
	g4_store32_rel(&stop, 1);
	for (; thread_count > 0; thread_count--)
		assert_int_equal(pthread_join(threads[thread_count - 1], NULL), 0);
}

static void start_helpers(void)
{
	g4_store64_rlx(&helped, 0);
	rig.fs->split.helpers = HELPERS;
	start_threads(help);
}

static void stop_helpers(void)
{
	stop_threads();
	rig.fs->split.helpers = 0;
	assert_int_equal(rig.fs->split.used, 0);
}

static int teardown(void **state)
{
	(void)state;
	stop_threads(); /* of a test that failed */
	rig.cred = NULL;
	rig_end(&rig);
	return 0;
}

/* ------------------------------------------------------------------ paths */

/* So many names, of 1 to 255 bytes, and one more, which is not for the chain. */
static void put_path(uint32_t levels)
{
	path_bytes = 0;
	for (uint32_t k = 0; k <= levels; k++) {
		const uint32_t n = k % 100 == 99 ? 255 : 1 + k % 17;
		for (uint32_t i = 0; i < n; i++)
			path[path_bytes++] = (char)('a' + (k + i) % 26);
		for (uint32_t i = 0; i < 1 + (k % 31 == 0); i++)
			path[path_bytes++] = '/';
	}
}

/* What is made of the path below a directory, from its beginning. */
static int make_below(uint64_t dir, uint32_t mode, struct g4_place *here, uint32_t *at)
{
	here->ino = dir;
	here->generation = 0;
	*at = 0;
	return g4_make_nested(rig.wg, rig.fs, rig.cred, mode, here, path, path_bytes, at);
}

/* Goes down the path by LOOKUP, so many names, which are all that is there. */
static void expect_chain(uint64_t dir, uint32_t count, const struct g4_attr *like, const struct g4_place *end)
{
	uint32_t at = 0, generation = 0;
	struct g4_attr attr;

	for (uint32_t k = 0; k <= count; k++) {
		char name[256];
		uint32_t n = 0;

		while (path[at] == '/')
			at++;
		while (path[at] != '/')
			name[n++] = path[at++];
		name[n] = 0;
		assert_int_equal(op_lookup(&rig, dir, name, &attr), k < count ? 0 : -G4_E_NOENT);
		if (k == count)
			break;
		assert_int_equal(attr.mode, like->mode);
		assert_int_equal(attr.uid, like->uid);
		assert_int_equal(attr.gid, like->gid);
		assert_int_equal(attr.nlink, k + 1 < count ? 3 : 2);
		assert_int_equal(attr.size, k + 1 < count ? like->size : 0);
		assert_int_equal(attr.blocks_512, k + 1 < count ? like->blocks_512 : 0);
		assert_true(attr.generation > generation);
		generation = (uint32_t)attr.generation;
		assert_int_equal(op_lookup(&rig, attr.ino, "..", NULL), 0);
		dir = attr.ino;
	}
	assert_int_equal(dir, end->ino);
	assert_int_equal(generation, end->generation);
}

/* What MKDIR makes in a directory, with one directory in it. */
static struct g4_attr made_by_mkdir(uint64_t dir, uint32_t mode)
{
	struct g4_attr attr;
	uint64_t ino;

	assert_int_equal(op_mkdir(&rig, dir, "like", mode, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "x", mode, NULL), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(op_rmdir(&rig, ino, "x"), 0);
	assert_int_equal(op_rmdir(&rig, dir, "like"), 0);
	return attr;
}

static void clear(void)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = G4_NODE_ROOT, .length = 100000};

	do {
		assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	} while (cmd.value > 0);
}

/* ------------------------------------------------------------------ tests */

static void each_is_as_mkdir_makes_it(void **state)
{
	static const uint32_t counts[] = {8, 14, 15, 16, 30, 31, MANY};
	struct g4_place end;
	struct g4_attr attr;
	uint64_t dir;
	uint32_t at;

	(void)state;
	for (uint32_t turn = 0; turn < 2; turn++) {
		if (turn == 1)
			start_helpers();
		for (uint32_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
			const struct g4_attr like = made_by_mkdir(G4_NODE_ROOT, 0711);
			put_path(counts[k]);
			assert_int_equal(make_below(dir, 0711, &end, &at), counts[k]);
			assert_true(path[at] == '/');
			expect_chain(dir, counts[k], &like, &end);
			assert_int_equal(op_getattr(&rig, dir, &attr), 0);
			assert_int_equal(attr.nlink, 3);
			assert_int_equal(op_mkdir(&rig, end.ino, "below", 0755, NULL), 0);
			assert_int_equal(op_sync(&rig), 0);
			clear();
		}
	}
	/* until a helper had a piece: that one comes is not for this thread to decide */
	for (put_path(MANY); g4_load64_rlx(&helped) == 0; clear()) {
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
		assert_int_equal(make_below(dir, 0755, &end, &at), MANY);
	}
	stop_helpers();
}

static void a_long_path_takes_several_transactions(void **state)
{
	struct g4_place here;
	uint32_t at = 0, made = 0;
	uint64_t dir;
	int rc;

	(void)state;
	put_path(3000);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	here.ino = dir;
	here.generation = 0;
	while ((rc = g4_make_nested(rig.wg, rig.fs, NULL, 0755, &here, path, path_bytes, &at)) > 0)
		made += (uint32_t)rc;
	assert_int_equal(rc, 0);
	assert_true(made > 2990 && made <= 3000); /* the last few are MKDIR's */
	const struct g4_attr like = made_by_mkdir(G4_NODE_ROOT, 0755);
	expect_chain(dir, made, &like, &here);
}

static void what_is_left_to_mkdir(void **state)
{
	static const uint8_t acl[] = {2, 0, 0,	 0,   1,   0,	7,  0, 255, 255, 255, 255, 4,	0,
				      5, 0, 255, 255, 255, 255, 32, 0, 5,   0,	 255, 255, 255, 255};
	const struct g4_cred user = {.uid = 7, .gid = 8, .umask = 022}, closed = {.uid = 7, .gid = 8, .umask = 0200};
	struct g4_place end;
	uint64_t dir;
	uint32_t at;

	(void)state;
	/* few names; a name that may not be, or is no name, ends them */
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0777, &dir), 0);
	put_path(7);
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	path_bytes = (uint32_t)snprintf(path, sizeof(path), "1/2/3/4/5/6/7/8/../9/%0256d/x", 0);
	assert_int_equal(make_below(dir, 0755, &end, &at), 8);
	assert_int_equal(at, 15);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "e", 0777, &dir), 0);
	path_bytes = (uint32_t)snprintf(path, sizeof(path), "1/2/3/4/5/6/7/8/9/%0256d/x/y", 0);
	assert_int_equal(make_below(dir, 0755, &end, &at), 9);
	/* something is there already */
	put_path(20);
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	/* nobody may, or may not go on below */
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "f", 0755, &dir), 0);
	rig.cred = &user;
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	rig.cred = NULL;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "g", 02777, &dir), 0);
	rig.cred = &closed;
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	/* a group that is inherited, and a mask */
	rig.cred = &user;
	assert_int_equal(make_below(dir, 0777, &end, &at), 20);
	/* a directory that lost its names keeps a page */
	const uint64_t was_used = dir;
	rig.cred = NULL;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "k", 02777, &dir), 0);
	rig.cred = &user;
	const struct g4_attr like = made_by_mkdir(dir, 0777);
	assert_int_equal(like.mode & 07777, 02755);
	expect_chain(was_used, 20, &like, &end);
	assert_int_equal(make_below(dir, 0777, &end, &at), 0);
	/* lists that are inherited */
	rig.cred = NULL;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "h", 0755, &dir), 0);
	assert_int_equal(op_setxattr(&rig, dir, "system.posix_acl_default", acl, sizeof(acl), 0), 0);
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	/* a directory that is gone */
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "i", 0755, &dir), 0);
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "i"), 0);
	assert_int_equal(make_below(dir, 0755, &end, &at), -G4_E_STALE);
}

/* Every free page, one by one. */
static uint64_t taken[65536];
static uint32_t take_all_pages(void)
{
	uint32_t count = 0;
	uint64_t got;

	for (struct g4_address page; count < 65536; taken[count++] = g4_address_page(page))
		if (g4_alloc_claim(rig.wg, &rig.fs->alloc, G4_ALLOC_METADATA, G4_NO_ADDRESS, 1, false, &page, &got) < 0)
			break;
	assert_true(count > 1000 && count < 65536);
	return count;
}

static void give_back(uint32_t k)
{
	g4_alloc_release(&rig.fs->alloc, g4_page_address(taken[k]), 1);
}

/* Free pages are few, or lie one here and one there: a chain of as many as there are pages for in a few runs, or MKDIR. */
static void few_pages_in_a_row(void **state)
{
	struct g4_place end;
	uint64_t dir;
	uint32_t at;

	(void)state;
	const struct g4_attr like = made_by_mkdir(G4_NODE_ROOT, 0755);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint32_t count = take_all_pages();
	put_path(200);
	assert_int_equal(make_below(dir, 0755, &end, &at), 0);
	for (uint32_t k = 0; k < 8; k++)
		give_back(k);
	assert_int_equal(make_below(dir, 0755, &end, &at), 0); /* one too few */
	for (uint32_t k = 8; k < count; k++)
		if (k % 16 >= 10)
			give_back(k);
	const int made = make_below(dir, 0755, &end, &at);
	assert_true(made >= 80 && made <= 110); /* 16 runs of 6 pages, the first of 8 */
	for (uint32_t k = 8; k < count; k++)
		if (k % 16 < 10)
			give_back(k);
	expect_chain(dir, (uint32_t)made, &like, &end);
}

/* Half of the cache's sets have all lines in use: what was made by then is free again. */
static void no_lines_for_the_pages(void **state)
{
	struct g4_cache *cache = &rig.fs->cache;
	const uint32_t pool = cache->pool;
	struct g4_statfs before, after;
	struct g4_place end;
	uint64_t dir;
	uint32_t at;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	put_path(MANY);
	for (uint32_t turn = 0; turn < 2; turn++) {
		if (turn == 1)
			start_helpers();
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &before), 0);
		for (uint32_t set = 1; set < cache->set_count; set += 2)
			for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
				g4_cache_ref(cache, set * G4_CACHE_WAYS + way);
		cache->pool = G4_NO_LINE;
		assert_int_equal(make_below(dir, 0755, &end, &at), 0);
		cache->pool = pool;
		for (uint32_t set = 1; set < cache->set_count; set += 2)
			for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
				g4_cache_put(cache, set * G4_CACHE_WAYS + way);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &after), 0);
		assert_int_equal(after.blocks_free, before.blocks_free);
	}
	stop_helpers();
	assert_int_equal(make_below(dir, 0755, &end, &at), MANY);
	const struct g4_attr like = made_by_mkdir(G4_NODE_ROOT, 0755);
	expect_chain(dir, MANY, &like, &end);
}

/*
 * Numbers of inodes that are gone lead to nothing while their slabs become a chain's, and not to its directories afterwards; and a name leads
 * to its directory although others are looking for what had its number before.
 */
static uint64_t old_numbers[MANY], wrong;
static uint32_t old_generations[MANY];

static void *ask(void *argument)
{
	struct g4_wg *own = (struct g4_wg *)argument;

	while (!g4_load32_acq(&stop)) {
		for (uint32_t k = 0; k < MANY; k++) {
			struct g4_attr attr;
			struct g4_cmd cmd = {.op = G4_CMD_GETATTR,
					     .node = old_numbers[k],
					     .generation = old_generations[k],
					     .attr = &attr};
			g4_add64(&wrong, g4_execute(own, rig.fs, &cmd) != -G4_E_STALE);
		}
	}
	g4_wg_destroy(own);
	return NULL;
}

static void old_numbers_lead_to_nothing(void **state)
{
	struct g4_place end;
	uint64_t dir;
	uint32_t at;

	(void)state;
	const struct g4_attr like = made_by_mkdir(G4_NODE_ROOT, 0755);
	for (uint32_t k = 0; k < MANY; k++) {
		struct g4_attr attr;
		old_numbers[k] = rig_make(&rig, k);
		assert_int_equal(op_getattr(&rig, old_numbers[k], &attr), 0);
		old_generations[k] = (uint32_t)attr.generation;
	}
	assert_int_equal(op_sync(&rig), 0);
	clear();
	assert_int_equal(op_sync(&rig), 0);
	start_threads(ask);
	put_path(MANY);
	for (uint32_t round = 0; round < 3; round++) {
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
		assert_int_equal(make_below(dir, 0755, &end, &at), MANY);
		expect_chain(dir, MANY, &like, &end);
		if (round < 2) {
			clear();
			assert_int_equal(op_sync(&rig), 0);
		}
	}
	stop_threads();
	assert_int_equal(wrong, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_is_as_mkdir_makes_it), TEST(a_long_path_takes_several_transactions),
		TEST(what_is_left_to_mkdir),	 TEST(few_pages_in_a_row),
		TEST(no_lines_for_the_pages),	 TEST(old_numbers_lead_to_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
