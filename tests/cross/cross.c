/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of two engines: with one of everything (tests/corrupt/world.h) they are made by the one and changed by the
 * other, then the other way round; after each step the checker judges them, and the next engine finds what the last one
 * saw: names, contents, attributes, links, owners, times. So it is after an unmount and after a power cut, which leaves
 * a journal to replay and files that are open without a name.
 *
 * G4_TEST_ENGINE names the other engine: "cuda". Without it both are the CPU engine, which must find its own images, too.
 */
#include "corrupt/world.h"

#include "fs/fs.h"

#define DEVICE_BYTES (128 * G4_MIB)
#define CACHE_BYTES (64 * G4_MIB)

enum way {
	IN_PLACE,      /* "dax:" on tmpfs: mapped, also into a GPU */
	BEHIND_A_QUEUE /* a fault device over it, which only the host can use: the CUDA engine asks its agent */
};

struct view { /* what an engine sees */
	struct world_list list;
	struct g4_attr *attributes;
	struct g4_attr root;
};

static uint32_t other_engine(void)
{
	const char *name = getenv("G4_TEST_ENGINE");
	uint32_t kind = G4_ENGINE_CPU;

	assert_int_equal(name ? g4_engine_parse_kind(name, &kind) : 0, 0);
	return kind;
}

static void mount(struct rig *rig, uint32_t kind, enum way way)
{
	const struct g4_mount_options options = {
		.flags = G4_MOUNT_NOATIME, .commit_ms = 1000000, .cache_bytes = CACHE_BYTES, .kind = kind};
	const struct g4_dev_open_options open = {0};
	struct g4_dev *dev;
	char message[256];

	if (g4_dev_open(rig->name, &open, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	rig->fault = NULL;
	if (way == BEHIND_A_QUEUE) {
		assert_int_equal(g4_dev_fault_open(dev, &rig->fault), 0);
		dev = rig->fault;
	}
	if (g4_engine_mount_device(dev, &options, &rig->engine, message, sizeof(message)) < 0)
		fail_msg("%s", message);
}

/* ------------------------------------------------------------------ comparing */

static void see(struct rig *rig, struct view *view)
{
	assert_int_equal(op_sync(rig), 0);
	world_list(rig, &view->list);
	assert_int_equal(view->list.errors, 0);
	assert_true(view->list.count > 1000);
	view->attributes = (struct g4_attr *)calloc(view->list.count, sizeof(struct g4_attr));
	assert_non_null(view->attributes);
	for (uint32_t k = 0; k < view->list.count; k++)
		assert_int_equal(op_getattr(rig, view->list.files[k].ino, &view->attributes[k]), 0);
	assert_int_equal(op_getattr(rig, G4_NODE_ROOT, &view->root), 0);
}

static void forget(struct view *view)
{
	world_list_free(&view->list);
	free(view->attributes);
	view->attributes = NULL;
}

static bool same_attributes(const struct g4_attr *a, const struct g4_attr *b)
{
	return a->size == b->size && a->blocks_512 == b->blocks_512 && a->atime_ns == b->atime_ns &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns && a->btime_ns == b->btime_ns &&
	       a->rdev == b->rdev && a->generation == b->generation && a->change_count == b->change_count &&
	       a->mode == b->mode && a->nlink == b->nlink && a->uid == b->uid && a->gid == b->gid &&
	       a->flags == b->flags;
}

/* What the engine that is mounted now sees is what another one saw. */
static void expect_same(struct rig *rig, const struct view *before, const char *when)
{
	struct view now;

	see(rig, &now);
	if (now.list.count != before->list.count)
		fail_msg("%s: %u names, there were %u", when, now.list.count, before->list.count);
	if (!same_attributes(&now.root, &before->root))
		fail_msg("%s: the root is another", when);
	for (uint32_t k = 0; k < now.list.count; k++) {
		const struct world_file *a = &now.list.files[k], *b = &before->list.files[k];
		if (strcmp(a->path, b->path) != 0 || a->ino != b->ino)
			fail_msg("%s: there is %s, there was %s", when, a->path, b->path);
		if (a->contents != b->contents)
			fail_msg("%s: %s has other contents", when, a->path);
		if (a->attributes != b->attributes)
			fail_msg("%s: %s has other extended attributes", when, a->path);
		if (!same_attributes(&now.attributes[k], &before->attributes[k]))
			fail_msg("%s: stat tells something else of %s", when, a->path);
	}
	forget(&now);
}

/* ------------------------------------------------------------------ steps */

/* held: files are open without a name, whose space is free afterwards. */
static void end(struct rig *rig, bool held, const char *when)
{
	struct g4_statfs space;

	assert_int_equal(op_sync(rig), 0);
	assert_int_equal(op_statfs(rig, &space), 0);
	assert_int_equal(rig_unmount(rig), 0);
	rig_expect_clean(rig, held ? RIG_ANY_FREE : space.blocks_free, when);
}

/* The power goes: the checker finds no problem, and the files that were open without a name. */
static void cut(struct rig *rig, uint64_t orphans)
{
	char *text = NULL;

	assert_int_equal(g4_dev_fault_cut(rig->fault), 0);
	rig_abandon(rig);
	struct rig_verdict verdict = rig_fsck(rig, &text);
	if (verdict.problems > 0 || verdict.orphans != orphans)
		fail_msg("after a power cut: %lu problems, %lu orphans\n%s", (unsigned long)verdict.problems,
			 (unsigned long)verdict.orphans, text);
	free(text);
}

static void exchange(uint32_t first, uint32_t second, enum way way)
{
	struct world_list visited;
	struct view view;
	struct rig rig;

	rig_open(&rig, DEVICE_BYTES, 0);
	mount(&rig, first, way);
	world_populate(&rig, WORLD_MANY);
	see(&rig, &view);
	end(&rig, false, "what the first engine made");

	mount(&rig, second, way);
	expect_same(&rig, &view, "the second engine on the first one's image");
	forget(&view);
	world_change(&rig);
	see(&rig, &view);
	if (way == BEHIND_A_QUEUE)
		cut(&rig, 3);
	else
		end(&rig, true, "what the second engine changed");

	mount(&rig, first, way);
	expect_same(&rig, &view, "the first engine on what the second changed");
	forget(&view);
	world_visit(&rig, &visited); /* removes, renames, cuts off */
	world_list_free(&visited);
	see(&rig, &view);
	if (way == BEHIND_A_QUEUE)
		cut(&rig, 0);
	else
		end(&rig, false, "what the first engine changed");

	mount(&rig, second, way);
	expect_same(&rig, &view, "the second engine at the end");
	forget(&view);
	end(&rig, false, "at the end");
	rig_close(&rig);
}

/* Without another engine both ways are the same; to ThreadSanitizer they are, too: both engines make, and change. */
static bool goes_both_ways(void)
{
	return other_engine() != G4_ENGINE_CPU && rig_every(1) == 1;
}

static void made_by_the_other_changed_by_the_cpu_engine(void **state)
{
	(void)state;
	exchange(other_engine(), G4_ENGINE_CPU, IN_PLACE);
}

static void made_by_the_cpu_engine_changed_by_the_other(void **state)
{
	(void)state;
	if (!goes_both_ways())
		skip();
	exchange(G4_ENGINE_CPU, other_engine(), IN_PLACE);
}

static void power_goes_under_the_other_engine(void **state)
{
	(void)state;
	exchange(G4_ENGINE_CPU, other_engine(), BEHIND_A_QUEUE);
}

static void power_goes_under_the_cpu_engine(void **state)
{
	(void)state;
	if (!goes_both_ways())
		skip();
	exchange(other_engine(), G4_ENGINE_CPU, BEHIND_A_QUEUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_by_the_cpu_engine_changed_by_the_other),
		cmocka_unit_test(made_by_the_other_changed_by_the_cpu_engine),
		cmocka_unit_test(power_goes_under_the_other_engine),
		cmocka_unit_test(power_goes_under_the_cpu_engine),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
