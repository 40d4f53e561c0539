/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs out or goes away: space at any point of any operation, memory at any point of a mount, the device at any
 * request, the process at any moment. What every operation does is tests/crash/script.c's business; a device that fails
 * once is tests/engine/test_crash.c's. Each test prints how many cases it went through.
 *
 * With G4_TEST_DRIVE=NAME the device is that drive, which is overwritten, behind its driver; the image in memory is its twin
 * (engine/twin.h). G4_FAULTS_EVERY=N: one of N cases, for machines that take long for one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dev/dev_ops_host.h"
#include "engine/recycled.h"
#include "engine/twin.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "look.h"
#include "script.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (8 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define LARGE_BYTES (4 * G4_MIB) /* of the file with large pointers, where the device has one */
#define FILLER "filler"
#define ENOUGH_PAGES 400u /* no operation needs more, with sums, either */

/* Beside the explorer's: what needs a page of metadata that the explorer's files have already. */
static const struct operation more_operations[] = {
	{"acl-first", NULL, NULL, {{.verb = SET, .path = "d/x", .path2 = "system.posix_acl_access"}}},
	{"acl-more", NULL, NULL, {{.verb = SET, .path = "full", .path2 = "system.posix_acl_access"}}},
	{"set-first", NULL, NULL, {{.verb = SET, .path = "d/y", .path2 = "user.new", .bytes = 5, .id = 301}}},
	{"set-longer", NULL, NULL, {{.verb = SET, .path = "b", .path2 = "user.big", .bytes = 60000, .id = 302}}},
	{"inherit",
	 NULL,
	 NULL,
	 {{.verb = SET, .path = "e", .path2 = "system.posix_acl_default"},
	  {.verb = CREATE, .path = "e/f", .id = 303},
	  {.verb = MKDIR, .path = "e/m", .id = 304},
	  {.verb = CHMOD, .path = "e/f", .bytes = 0604}}},
	{"chown-acl",
	 NULL,
	 NULL,
	 {{.verb = SET, .path = "d/y", .path2 = "system.posix_acl_access"},
	  {.verb = CHOWN, .path = "d/y", .bytes = 78},
	  {.verb = REMOVE, .path = "d/y", .path2 = "system.posix_acl_access"}}},
	{"whiteout-full", NULL, NULL, {{.verb = WHITEOUT, .path = "full", .path2 = "e/full", .id = 306}}},
	{"zero-holes", NULL, NULL, {{.verb = ZERO, .path = "holes", .offset = 5000, .bytes = 250000}}},
};
#define MORE_OPERATIONS (sizeof(more_operations) / sizeof(more_operations[0]))

/* On a file that large pointers map: each has to be divided, which takes a page. */
static const struct operation large_operations[] = {
	{"cut-large", NULL, NULL, {{.verb = TRUNCATE, .path = "large", .bytes = 5 * G4_MIB / 2 + 5000}}},
	{"cut-large-even", NULL, NULL, {{.verb = TRUNCATE, .path = "large", .bytes = 5 * G4_MIB / 2}}},
	{"cut-large-dirty",
	 NULL,
	 NULL,
	 {{.verb = WRITE, .path = "large", .offset = 5 * G4_MIB / 2 + 8192, .bytes = 9000, .id = 305},
	  {.verb = TRUNCATE, .path = "large", .bytes = 5 * G4_MIB / 2 + 10000}}},
	{"punch-large", NULL, NULL, {{.verb = PUNCH, .path = "large", .offset = 5 * G4_MIB / 2, .bytes = 40000}}},
	{"punch-two-large", NULL, NULL, {{.verb = PUNCH, .path = "large", .offset = 5000, .bytes = 3 * G4_MIB}}},
	{"zero-large", NULL, NULL, {{.verb = ZERO, .path = "large", .offset = 100000, .bytes = 40000}}},
};
#define LARGE_OPERATIONS (sizeof(large_operations) / sizeof(large_operations[0]))

/* ------------------------------------------------------------------ a full device */

struct world {
	struct rig rig;
	struct g4_wg *wg;
	struct actor actor;
	uint8_t *base; /* the image before each case: full but for what the engine keeps for itself */
	uint64_t filler_bytes;
};

static const char *drive(void)
{
	return getenv("G4_TEST_DRIVE");
}

/* Of how many cases one is tried. */
static uint64_t every(void)
{
	return g4_max64(rig_setting("G4_FAULTS_EVERY", 1), 1);
}

/* The same where a sanitizer or lanes make them slow, of which one of `slow` is enough. */
static uint64_t one_of(uint64_t slow)
{
	return every() * rig_every(slow);
}

static void world_mount(struct world *w)
{
	actor_start(&w->actor, rig_mount_fs(&w->rig, w->wg, NULL), w->wg);
}

static void world_unmount(struct world *w)
{
	rig_unmount_fs(&w->rig, w->wg, w->actor.rig.fs, true);
}

/* The largest file of preallocated space that fits; what is kept for metadata is taken by its attributes. */
static void fill(struct world *w)
{
	static const uint8_t value[G4_XATTR_VALUE_MAX];
	uint64_t node, step = 1024 * G4_PAGE_BYTES;
	char name[32];
	int rc = 0;

	assert_int_equal(op_mknod(&w->actor.rig, G4_NODE_ROOT, FILLER, G4_S_IFREG | 0600, &node), 0);
	while (step >= G4_PAGE_BYTES) {
		rc = op_fallocate(&w->actor.rig, node, 0, w->filler_bytes, step);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		if (rc == 0)
			w->filler_bytes += step;
		else
			step /= 2;
		assert_int_equal(op_sync(&w->actor.rig), 0);
	}
	for (uint64_t bytes = 32768; bytes > G4_PAGE_BYTES / 2; bytes /= 2) {
		for (uint32_t k = 0;; k++) {
			snprintf(name, sizeof(name), "user.%u.%u", (unsigned)bytes, k);
			rc = op_setxattr(&w->actor.rig, node, name, value, bytes, 0);
			if (rc < 0)
				break;
		}
		assert_int_equal(rc, -G4_E_NOSPC);
		assert_int_equal(op_sync(&w->actor.rig), 0);
	}
}

static uint64_t find_node(struct world *w, const char *name)
{
	struct g4_attr attr;

	assert_int_equal(op_lookup(&w->actor.rig, G4_NODE_ROOT, name, &attr), 0);
	return attr.ino;
}

/* A file whose page of attributes has no room; and one that two pointers of 2 MiB map. */
static void add_files(struct world *w, bool large)
{
	struct part part = {.verb = CREATE, .path = "full", .id = 20};

	assert_int_equal(part_run(&w->actor, &part), 0);
	part.verb = SET;
	part.bytes = 980;
	for (uint32_t k = 0; k < 4; k++) {
		snprintf(part.path2, sizeof(part.path2), "user.%u", k);
		assert_int_equal(part_run(&w->actor, &part), 0);
	}
	if (!large)
		return;
	part = (struct part){.verb = CREATE, .path = "large", .id = 21};
	assert_int_equal(part_run(&w->actor, &part), 0);
	uint8_t *data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, LARGE_BYTES);
	assert_non_null(data);
	rig_pattern(data, 21, LARGE_BYTES);
	uint64_t node = find_node(w, "large");
	assert_int_equal(op_write(&w->actor.rig, node, 0, 0, data, LARGE_BYTES, NULL), 0);
	free(data);
	assert_int_equal(op_sync(&w->actor.rig), 0);
	uint32_t i;
	assert_int_equal(g4_icache_get(w->wg, w->actor.rig.fs, node, &i), 0);
	assert_true((g4_icache_at(w->actor.rig.fs, i)->disk.map[1] & G4_PTR_INDIRECT) == 0);
	g4_icache_put(w->actor.rig.fs, i);
}

static void world_open(struct world *w, enum tree_kind kind, bool large)
{
	memset(w, 0, sizeof(*w));
	rig_open(&w->rig, DEVICE_BYTES + (large ? 2 * LARGE_BYTES : 0), JOURNAL_BYTES);
	w->rig.cache_bytes = 4 * G4_MIB;
	if (drive())
		w->rig.twin = twin_open(drive(), w->rig.image, w->rig.bytes);
	w->actor.rig = w->rig;
	w->wg = g4_wg_create(0);
	w->base = (uint8_t *)malloc(w->rig.bytes);
	assert_non_null(w->wg);
	assert_non_null(w->base);
	world_mount(w);
	tree_populate(&w->actor, kind);
	add_files(w, large);
	fill(w);
	world_unmount(w);
	rig_copy(w->base, w->rig.image, w->rig.bytes);
}

static void world_close(struct world *w)
{
	if (w->rig.twin)
		g4_dev_close(w->rig.twin);
	g4_wg_destroy(w->wg);
	free(w->base);
	rig_close(&w->rig);
}

static uint64_t free_pages(struct world *w)
{
	struct g4_statfs space;

	assert_int_equal(op_statfs(&w->actor.rig, &space), 0);
	return space.blocks_free;
}

static void see(struct world *w, struct tree *tree)
{
	const char *what;

	if (look(&w->actor.rig, tree, &what) < 0)
		fail_msg("%s cannot be read", what);
}

/* Names, inodes, contents, sizes and times, but for the last three of one inode (`but`), and all of the filler. */
static void expect_same(const struct tree *a, const struct tree *b, const char *but, const char *when)
{
	if (a->count != b->count)
		fail_msg("%s: %u names became %u", when, a->count, b->count);
	for (uint32_t k = 0; k < a->count; k++) {
		const struct node *x = &a->nodes[k], *y = &b->nodes[k];
		if (strcmp(x->path, FILLER) == 0)
			continue;
		if (!same_but_contents(x, y))
			fail_msg("%s: %s became something else", when, x->path);
		const struct node *written = but ? tree_find(a, but) : NULL;
		if (written && written->id == x->id)
			continue;
		if (x->stamp != y->stamp)
			fail_msg("%s: times, flags or generation of %s changed", when, x->path);
		if (x->size != y->size ||
		    memcmp(a->pages + x->first_page, b->pages + y->first_page, x->page_count * sizeof(*a->pages)) != 0)
			fail_msg("%s: the contents of %s changed", when, x->path);
	}
}

/* Whether a part that stops half-way may have changed its file's contents. */
static bool may_be_short(const struct part *part)
{
	return part->verb == WRITE || part->verb == COPY;
}

/* Whether a part that stops half-way is done up to there: of a path that is made there is a beginning. */
static bool may_be_begun(const struct part *part)
{
	return part->verb == MKDIR_ALL;
}

/* Runs an operation's parts from `first` on; returns the part that failed, OPERATION_PARTS when none. */
static uint32_t run_parts(struct world *w, const struct operation *operation, uint32_t first, struct tree *before,
			  int *code)
{
	for (uint32_t p = first; p < OPERATION_PARTS && (operation->parts[p].path[0] || operation->parts[p].verb);
	     p++) {
		if (before)
			see(w, before);
		*code = part_run(&w->actor, &operation->parts[p]);
		if (*code < 0)
			return p;
	}
	return OPERATION_PARTS;
}

static bool keeps_files_open(const struct operation *operation)
{
	for (uint32_t p = 0; p < OPERATION_PARTS; p++)
		if (operation->parts[p].verb == OPEN || operation->parts[p].verb == TMPFILE)
			return true;
	return false;
}

/*
 * One operation with `pages` free pages more than none; true when it was done. One that was refused has changed nothing, or is begun,
 * for those who look at once and after the next mount.
 */
static bool with_pages(struct world *w, const struct operation *operation, uint64_t pages)
{
	struct tree before = {0}, after = {0};
	char when[96];
	int code = 0;

	snprintf(when, sizeof(when), "%s with %lu free pages", operation->name, (unsigned long)pages);
	rig_copy(w->rig.image, w->base, w->rig.bytes);
	world_mount(w);
	if (pages)
		assert_int_equal(
			op_truncate(&w->actor.rig, find_node(w, FILLER), w->filler_bytes - pages * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&w->actor.rig), 0);
	uint32_t part = run_parts(w, operation, 0, &before, &code);
	if (part < OPERATION_PARTS && code != -G4_E_NOSPC)
		fail_msg("%s: %s", when, g4_strerror(code));
	/* what was said to be done can be written back */
	if ((code = op_sync(&w->actor.rig)) < 0)
		fail_msg("%s: afterwards sync says %s", when, g4_strerror(code));
	see(w, &after);
	if (part < OPERATION_PARTS && !may_be_begun(&operation->parts[part]))
		expect_same(&before, &after, may_be_short(&operation->parts[part]) ? operation->parts[part].path : NULL,
			    when);
	uint64_t left = free_pages(w);
	bool open = keeps_files_open(operation);
	world_unmount(w);
	rig_expect_clean(&w->rig, open ? RIG_ANY_FREE : left, when);
	if (!open) {
		struct tree later = {0};
		world_mount(w);
		see(w, &later);
		expect_same(&after, &later, NULL, when);
		world_unmount(w);
		tree_free(&later);
	}
	/* a delete needs no space, and makes room for what did not fit */
	if (part < OPERATION_PARTS && !open) {
		world_mount(w);
		if ((code = op_unlink(&w->actor.rig, G4_NODE_ROOT, FILLER)) < 0)
			fail_msg("%s: the full device does not even delete: %s", when, g4_strerror(code));
		assert_int_equal(op_sync(&w->actor.rig), 0);
		if (run_parts(w, operation, part, NULL, &code) < OPERATION_PARTS)
			fail_msg("%s: with room again it says %s", when, g4_strerror(code));
		world_unmount(w);
		rig_expect_clean(&w->rig, RIG_ANY_FREE, when);
	}
	tree_free(&before);
	tree_free(&after);
	return part == OPERATION_PARTS;
}

/* In a directory w1, w2, ...: only that tree has them. */
static bool in_wide(const char *path)
{
	return path[0] == 'w' && path[1] >= '1' && path[1] <= '9' && path[2] == '/';
}

static bool possible_in(const struct operation *operation, enum tree_kind kind)
{
	const bool wide = in_wide(operation->parts[0].path) || in_wide(operation->parts[0].path2);

	return operation_is_for(operation, kind) && wide == (kind == WIDE);
}

/* Whether it is possible in such a tree and one of every so many that are, the first among them. */
static bool is_one_of(const struct operation *operation, enum tree_kind kind, uint64_t every, uint32_t *possible)
{
	return possible_in(operation, kind) && (*possible)++ % every == 0;
}

struct count {
	uint64_t refused, done, never_refused;
};

/* One operation with more and more free pages, until it was done a few times: each further page may end in another way. */
static void with_more_and_more(struct world *w, const struct operation *operation, struct count *count)
{
	uint64_t before = count->refused;
	const uint64_t least =
		operation_is_for(operation, HALVES) ? G4_REGION_PAGES - 4 : 0; /* of its contents alone */

	for (uint64_t pages = least, successes = 0; successes < 4; pages += one_of(3)) {
		if (pages >= least + ENOUGH_PAGES && successes == 0)
			fail_msg("%s finds no space with %lu free pages", operation->name, (unsigned long)pages);
		bool success = with_pages(w, operation, pages);
		successes += success;
		count->refused += !success;
		count->done += success;
	}
	count->never_refused += count->refused == before;
}

static void expect_some_refused(const struct count *count)
{
	print_message("%lu cases: %lu refused, %lu done; %lu operations need no space\n",
		      (unsigned long)(count->refused + count->done), (unsigned long)count->refused,
		      (unsigned long)count->done, (unsigned long)count->never_refused);
	assert_true(count->refused > 0);
}

static void full_device(enum tree_kind kind)
{
	struct count count = {0};
	struct world w;

	world_open(&w, kind, false);
	for (uint32_t k = 0, possible = 0; k < operation_count; k++)
		if (is_one_of(&operations[k], kind, every(), &possible))
			with_more_and_more(&w, &operations[k], &count);
	for (uint32_t k = 0, possible = 0; k < MORE_OPERATIONS; k++)
		if (is_one_of(&more_operations[k], kind, every(), &possible))
			with_more_and_more(&w, &more_operations[k], &count);
	expect_some_refused(&count);
	world_close(&w);
}

static void every_operation_on_every_nearly_full_device(void **state)
{
	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	full_device(SMALL);
}

static void operations_on_wide_directories_on_every_nearly_full_device(void **state)
{
	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	full_device(WIDE);
}

static void regions_that_are_shared_or_joined_on_every_nearly_full_device(void **state)
{
	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	full_device(LARGE);
	full_device(PARTS);
	full_device(HALVES);
}

static void large_pointers_without_a_page_to_divide_them(void **state)
{
	struct count count = {0};
	struct world w;

	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	world_open(&w, SMALL, true);
	for (uint32_t k = 0; k < LARGE_OPERATIONS; k += (uint32_t)every())
		with_more_and_more(&w, &large_operations[k], &count);
	expect_some_refused(&count);
	world_close(&w);
}

/* ------------------------------------------------------------------ memory */

/* The linker leads every allocation of the program here (--wrap). */
static uint64_t allocations, fail_at; /* 0: none fails */

static bool refuse(void)
{
	uint64_t n = g4_add64(&allocations, 1) + 1;

	if (n != g4_load64_acq(&fail_at))
		return false;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return refuse() ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return refuse() ? NULL : __real_calloc(count, bytes);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return refuse() ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	return refuse() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
}

bool recycled_may_map(void)
{
	return !refuse();
}

static char image_name[64];

static int try_mount(struct g4_engine **engine, char *message, size_t room)
{
	const char *names[] = {image_name};
	const struct g4_mount_options options = {.cache_bytes = 4 * G4_MIB};

	return g4_engine_mount(names, 1, &options, engine, message, room);
}

static void a_mount_without_memory_says_so_and_harms_nothing(void **state)
{
	uint64_t refused = 0, n = 1;
	struct world w;
	bool reached = true;

	(void)state;
	if (drive()) /* the image is mounted by its name */
		skip();
	world_open(&w, SMALL, false);
	snprintf(image_name, sizeof(image_name), "%s/proc/self/fd/%d", rig_setting("G4_TEST_NVME", 0) ? "emu:" : "",
		 w.rig.fd);
	for (; reached; n++) {
		struct g4_engine *engine = NULL;
		char message[256] = "";

		rig_copy(w.rig.image, w.base, w.rig.bytes);
		g4_store64_rel(&allocations, 0);
		g4_store64_rel(&fail_at, n);
		int rc = try_mount(&engine, message, sizeof(message));
		g4_store64_rel(&fail_at, 0);
		reached = g4_load64_acq(&allocations) >= n;
		if (rc == 0) { /* it could do without */
			assert_int_equal(g4_engine_unmount(engine), 0);
		} else {
			assert_int_equal(rc, -G4_E_NOMEM);
			assert_true(strlen(message) > 0);
			refused++;
			if ((rc = try_mount(&engine, message, sizeof(message))) < 0)
				fail_msg("after allocation %lu failed: %s", (unsigned long)n, message);
			assert_int_equal(g4_engine_unmount(engine), 0);
		}
		rig_expect_clean(&w.rig, RIG_ANY_FREE, "after a mount without memory");
	}
	print_message("%lu allocations of a mount, %lu of them make it fail\n", (unsigned long)(n - 2),
		      (unsigned long)refused);
	assert_true(refused > 0);
	world_close(&w);
}

/* ------------------------------------------------------------------ the device */

static bool changes_contents_of_one(const struct operation *operation)
{
	for (uint32_t p = 1; p < OPERATION_PARTS && operation->parts[p].path[0]; p++)
		if (operation->parts[p].verb <= EXCHANGE || /* a name */
		    operation->parts[p].verb == SET ||	    /* the file's policy */
		    strcmp(operation->parts[p].path, operation->parts[0].path) != 0)
			return false;
	return may_be_short(&operation->parts[0]);
}

/* From one request on it answers nothing any more; nobody may hang or crash, and what was synced before is there. */
static bool vanishes_after(struct world *w, const struct operation *operation, uint64_t writes)
{
	const struct g4_fault fault = {.cut_after_writes = writes};
	struct tree before = {0}, after = {0};
	uint64_t counts[3];
	int code = 0;

	rig_copy(w->rig.image, w->base, w->rig.bytes);
	actor_start(&w->actor, rig_mount_fs(&w->rig, w->wg, &(struct g4_fault){0}), w->wg);
	assert_int_equal(op_truncate(&w->actor.rig, find_node(w, FILLER), 0), 0);
	assert_int_equal(op_sync(&w->actor.rig), 0);
	see(w, &before);
	g4_dev_fault_set(w->rig.fault, &fault);
	(void)run_parts(w, operation, 0, NULL, &code);
	int synced = op_sync(&w->actor.rig);
	g4_dev_fault_counts(w->rig.fault, &counts[0], &counts[1], &counts[2]);
	bool gone = synced < 0;
	if (gone) { /* every further call answers, too */
		struct g4_attr attr;
		(void)op_getattr(&w->actor.rig, G4_NODE_ROOT, &attr);
		assert_true(op_mknod(&w->actor.rig, G4_NODE_ROOT, "later", G4_S_IFREG | 0600, NULL) < 0 ||
			    op_sync(&w->actor.rig) < 0);
		assert_true(g4_fs_unmount(w->wg, w->actor.rig.fs, true) < 0);
	} else {
		gone = g4_fs_unmount(w->wg, w->actor.rig.fs, true) < 0;
	}
	g4_dev_close(w->rig.dev);
	w->rig.fault = NULL;
	world_mount(w);
	see(w, &after);
	if (changes_contents_of_one(operation)) /* and nothing else */
		expect_same(&before, &after, operation->parts[0].path, operation->name);
	world_unmount(w);
	rig_expect_clean(&w->rig, RIG_ANY_FREE, operation->name);
	tree_free(&before);
	tree_free(&after);
	return gone;
}

static void a_device_that_vanishes_hangs_nobody(void **state)
{
	static const enum tree_kind kinds[] = {SMALL, LARGE, PARTS, HALVES};

	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	for (uint32_t t = 0; t < 4; t++) {
		uint64_t cases = 0;
		struct world w;
		world_open(&w, kinds[t], false);
		for (uint32_t k = 0, possible = 0; k < operation_count; k++) {
			if (!is_one_of(&operations[k], kinds[t], one_of(t == 0 ? 5 : 3), &possible))
				continue;
			for (uint64_t writes = 1; writes < 64 && vanishes_after(&w, &operations[k], writes); writes++)
				cases++;
		}
		print_message("%lu cases\n", (unsigned long)cases);
		assert_true(cases > 0);
		world_close(&w);
	}
}

/* The operation's last part, and all before it done: what the image is then in w->base, what is seen there in *before. */
static const struct part *prepare(struct world *w, const struct operation *operation, const uint8_t *base,
				  struct tree *before)
{
	uint32_t last = 0;

	while (last + 1 < OPERATION_PARTS && (operation->parts[last + 1].path[0] || operation->parts[last + 1].verb))
		last++;
	rig_copy(w->rig.image, base, w->rig.bytes);
	world_mount(w);
	assert_int_equal(op_truncate(&w->actor.rig, find_node(w, FILLER), 0), 0);
	for (uint32_t p = 0; p < last; p++)
		assert_int_equal(part_run(&w->actor, &operation->parts[p]), 0);
	world_unmount(w);
	rig_copy(w->base, w->rig.image, w->rig.bytes);
	world_mount(w);
	see(w, before);
	world_unmount(w);
	return &operation->parts[last];
}

enum failing { READS, WRITES, FLUSHES };

/*
 * One call on a device whose n-th request of a kind fails, with nothing in the cache. If the call fails, nothing is changed: at
 * once, unless the file system has stopped because it is half done, and always after the next mount.
 */
static bool fails_once(struct world *w, const struct part *part, const struct tree *before, enum failing what,
		       uint64_t n, const char *when, uint64_t *stopped)
{
	struct tree live = {0}, later = {0};
	struct g4_fault fault = {0};
	uint64_t at_first[3], counts[3];

	rig_copy(w->rig.image, w->base, w->rig.bytes);
	actor_start(&w->actor, rig_mount_fs(&w->rig, w->wg, &fault), w->wg);
	g4_dev_fault_counts(w->rig.fault, &at_first[READS], &at_first[WRITES], &at_first[FLUSHES]);
	fault.fail_read_at = what == READS ? n : 0;
	fault.fail_write_at = what == WRITES ? n : 0;
	fault.fail_flush_at = what == FLUSHES ? n : 0;
	g4_dev_fault_set(w->rig.fault, &fault);
	int code = part_run(&w->actor, part);
	g4_dev_fault_counts(w->rig.fault, &counts[READS], &counts[WRITES], &counts[FLUSHES]);
	g4_dev_fault_set(w->rig.fault, &(struct g4_fault){0});
	bool reached = counts[what] - at_first[what] >= n;
	bool stop = g4_load32_acq(&w->actor.rig.fs->journal.aborted) != 0;
	if (code < 0 && !reached)
		fail_msg("%s: %s", when, g4_strerror(code));
	if (!stop) {
		see(w, &live);
		if (code < 0)
			expect_same(before, &live, may_be_short(part) ? part->path : NULL, when);
		assert_int_equal(op_sync(&w->actor.rig), 0);
	}
	*stopped += stop;
	assert_true((g4_fs_unmount(w->wg, w->actor.rig.fs, true) < 0) == stop);
	g4_dev_close(w->rig.dev);
	w->rig.dev = w->rig.fault = NULL;
	world_mount(w);
	see(w, &later);
	/* a collapse of several transactions is brought to its end by the mount */
	const bool finished = stop && part->verb == COLLAPSE;
	if (code < 0 || !stop)
		expect_same(stop ? before : &live, &later, may_be_short(part) || finished ? part->path : NULL, when);
	world_unmount(w);
	rig_expect_clean(&w->rig, RIG_ANY_FREE, when);
	tree_free(&live);
	tree_free(&later);
	return reached;
}

static void fail_each_request(struct world *w, const struct operation *operation, const uint8_t *base, uint64_t *cases,
			      uint64_t *stopped)
{
	static const char *const names[] = {"read", "write", "flush"};
	struct tree before = {0};

	if (keeps_files_open(operation))
		return;
	const struct part *part = prepare(w, operation, base, &before);
	for (uint32_t what = READS; what <= FLUSHES; what++) {
		bool reached = true;
		for (uint64_t n = 1; n < 60 && reached; n += one_of(3)) {
			char when[96];
			snprintf(when, sizeof(when), "%s with %s %lu failing", operation->name, names[what],
				 (unsigned long)n);
			reached = fails_once(w, part, &before, (enum failing)what, n, when, stopped);
			*cases += reached;
		}
	}
	tree_free(&before);
}

static void a_call_that_fails_with_the_device_changes_nothing(void **state)
{
	static const enum tree_kind kinds[] = {SMALL, WIDE, LARGE, PARTS, HALVES};
	uint64_t cases = 0, stopped = 0;

	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	for (uint32_t t = 0; t < 5; t++) {
		struct world w;
		world_open(&w, kinds[t], t == 0);
		uint8_t *base = (uint8_t *)malloc(w.rig.bytes);
		assert_non_null(base);
		rig_copy(base, w.base, w.rig.bytes);
		for (uint32_t k = 0, possible = 0; k < operation_count; k++)
			if (is_one_of(&operations[k], kinds[t], one_of(t < 2 ? 4 : 3), &possible))
				fail_each_request(&w, &operations[k], base, &cases, &stopped);
		for (uint32_t k = 0; k < MORE_OPERATIONS; k += (uint32_t)one_of(2))
			if (possible_in(&more_operations[k], kinds[t]))
				fail_each_request(&w, &more_operations[k], base, &cases, &stopped);
		for (uint32_t k = 0; k < LARGE_OPERATIONS && t == 0; k += (uint32_t)every())
			fail_each_request(&w, &large_operations[k], base, &cases, &stopped);
		free(base);
		world_close(&w);
	}
	print_message("%lu cases, in %lu of them the file system stopped\n", (unsigned long)cases,
		      (unsigned long)stopped);
	assert_true(cases > 0);
}

/* ------------------------------------------------------------------ the transaction */

/* What the operation makes of the image; with `blocks` no transaction has more. Times are left out. */
static void with_blocks(struct world *w, const struct operation *operation, uint32_t blocks, struct tree *after)
{
	rig_copy(w->rig.image, w->base, w->rig.bytes);
	world_mount(w);
	assert_int_equal(op_truncate(&w->actor.rig, find_node(w, FILLER), 0), 0);
	assert_int_equal(op_sync(&w->actor.rig), 0);
	if (blocks)
		w->actor.rig.fs->journal.max_blocks = blocks;
	for (uint32_t p = 0; p < OPERATION_PARTS && (operation->parts[p].path[0] || operation->parts[p].verb); p++) {
		int code = part_run(&w->actor, &operation->parts[p]);
		if (code < 0)
			fail_msg("%s with %u blocks: %s", operation->name, blocks, g4_strerror(code));
	}
	see(w, after);
	for (uint32_t k = 0; k < after->count; k++)
		after->nodes[k].stamp = 0;
	world_unmount(w);
	rig_expect_clean(&w->rig, RIG_ANY_FREE, operation->name);
}

static void compare_blocks(struct world *w, const struct operation *operation)
{
	struct tree ordinary = {0}, small = {0};

	with_blocks(w, operation, 0, &ordinary);
	with_blocks(w, operation, G4_TXN_LEAST_BLOCKS, &small);
	expect_same(&ordinary, &small, NULL, operation->name);
	tree_free(&ordinary);
	tree_free(&small);
}

static void transactions_that_are_full_at_once_change_no_result(void **state)
{
	struct world w;

	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	world_open(&w, SMALL, true);
	for (uint32_t k = 0; k < operation_count; k += (uint32_t)one_of(4))
		if (possible_in(&operations[k], SMALL))
			compare_blocks(&w, &operations[k]);
	for (uint32_t k = 0; k < MORE_OPERATIONS; k += (uint32_t)one_of(2))
		compare_blocks(&w, &more_operations[k]);
	for (uint32_t k = 0; k < LARGE_OPERATIONS; k += (uint32_t)every())
		compare_blocks(&w, &large_operations[k]);
	world_close(&w);
	for (enum tree_kind kind = LARGE; kind <= HALVES; kind++) {
		world_open(&w, kind, false);
		for (uint32_t k = 0; k < operation_count; k++)
			if (possible_in(&operations[k], kind))
				compare_blocks(&w, &operations[k]);
		world_close(&w);
	}
}

/* ------------------------------------------------------------------ the process */

#define CHILD_FILES 4u

/* Appends numbers to files and syncs; tells the parent through `synced` how far each file is durable. */
static void child(const char *image, uint32_t *synced, uint64_t seed)
{
	const char *names[] = {image};
	const struct g4_mount_options options = {.cache_bytes = 4 * G4_MIB, .commit_ms = 2};
	struct rig r = {0};
	char message[256];
	uint64_t nodes[CHILD_FILES];
	uint32_t count[CHILD_FILES] = {0};

	if (g4_engine_mount(names, 1, &options, &r.engine, message, sizeof(message)) < 0) {
		print_message("%s\n", message);
		fflush(NULL);
		_exit(3);
	}
	for (uint32_t f = 0; f < CHILD_FILES; f++) {
		char name[16];
		struct g4_attr attr;
		snprintf(name, sizeof(name), "file-%u", f);
		(void)op_mknod(&r, G4_NODE_ROOT, name, G4_S_IFREG | 0600, NULL);
		if (op_lookup(&r, G4_NODE_ROOT, name, &attr) < 0)
			_exit(4);
		nodes[f] = attr.ino;
		count[f] = (uint32_t)(attr.size / sizeof(uint32_t));
	}
	for (;;) {
		uint32_t f = (uint32_t)rig_random(&seed) % CHILD_FILES, value = count[f];
		if (op_write(&r, nodes[f], 0, count[f] * sizeof(value), &value, sizeof(value), NULL) < 0)
			_exit(5);
		count[f]++;
		if (rig_random(&seed) % 8 == 0) {
			if (op_fsync(&r, nodes[f]) < 0)
				_exit(6);
			g4_store32_rel(&synced[f], count[f]);
		}
		if (rig_random(&seed) % 64 == 0) {
			(void)op_mknod(&r, G4_NODE_ROOT, "temporary", G4_S_IFREG | 0600, NULL);
			(void)op_rename(&r, G4_NODE_ROOT, "temporary", G4_NODE_ROOT, "other", 0);
		}
	}
}

static void expect_files(struct rig *rig, const uint32_t *synced)
{
	for (uint32_t f = 0; f < CHILD_FILES; f++) {
		struct g4_attr attr = {0};
		char name[16];
		snprintf(name, sizeof(name), "file-%u", f);
		if (op_lookup(rig, G4_NODE_ROOT, name, &attr) < 0) {
			assert_int_equal(synced[f], 0);
			continue;
		}
		uint32_t count = (uint32_t)(attr.size / sizeof(uint32_t));
		assert_true(count >= synced[f]);
		uint32_t *values = (uint32_t *)malloc(attr.size + 1);
		uint64_t done;
		assert_non_null(values);
		assert_int_equal(op_read(rig, attr.ino, 0, 0, values, attr.size, &done), 0);
		for (uint32_t k = 0; k < synced[f]; k++)
			assert_int_equal(values[k], k);
		free(values);
	}
}

static uint64_t synced_in_all(const uint32_t *synced)
{
	uint64_t sum = 0;

	for (uint32_t f = 0; f < CHILD_FILES; f++)
		sum += g4_load32_acq(&synced[f]);
	return sum;
}

/*
 * A process that was killed is waited for before the kernel has taken down its io_uring, which holds the file and its locks, and whose last
 * write may still come. A mount waits for that by the lock; the rig has none.
 */
static void wait_for_the_file(const char *name)
{
	const int fd = open(name, O_RDWR | O_CLOEXEC); /* a description of its own, as a mount's is */

	assert_true(fd >= 0);
	assert_int_equal(g4_claim_flock(fd, false), 0);
	close(fd);
}

static void a_killed_process_loses_nothing_that_was_synced(void **state)
{
	uint64_t kills = rig_setting("G4_KILLS", rig_slow() ? 6 : 30), random = rig_setting("G4_KILL_SEED", 1),
		 durable = 0;
	uint32_t *synced = (uint32_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rig rig;

	(void)state;
	if (drive()) /* the image is mounted by its name */
		skip();
	assert_true(synced != MAP_FAILED);
	rig_open(&rig, 64 * G4_MIB, 0);
	snprintf(image_name, sizeof(image_name), "/proc/self/fd/%d", rig.fd);
	for (uint64_t k = 0; k < kills; k++) {
		/* Every third one dies at any time, also while it mounts; the others not before they have got on. */
		const bool early = k % 3 == 2;
		const struct timespec moment = {.tv_nsec = (long)(rig_random(&random) % (early ? 40000000 : 2000000))};
		uint64_t goal = early ? 0 : synced_in_all(synced) + 1 + rig_random(&random) % 200;
		int status;
		fflush(NULL);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child(image_name, synced, random);
		pid_t ended;
		do {
			nanosleep(&moment, NULL);
			ended = waitpid(pid, &status, WNOHANG);
			assert_true(ended >= 0);
		} while (ended == 0 && synced_in_all(synced) < goal);
		if (ended == 0) {
			assert_int_equal(kill(pid, SIGKILL), 0);
			assert_int_equal(waitpid(pid, &status, 0), pid);
		}
		if (!WIFSIGNALED(status))
			fail_msg("the process ended with %d", WEXITSTATUS(status));
		wait_for_the_file(image_name);
		rig_mount(&rig);
		expect_files(&rig, synced);
		for (uint32_t f = 0; f < CHILD_FILES; f++)
			durable += synced[f];
		assert_int_equal(rig_unmount(&rig), 0);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a kill");
	}
	print_message("%lu kills\n", (unsigned long)kills);
	assert_true(durable > 0);
	rig_close(&rig);
	munmap(synced, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_on_every_nearly_full_device),
		cmocka_unit_test(operations_on_wide_directories_on_every_nearly_full_device),
		cmocka_unit_test(regions_that_are_shared_or_joined_on_every_nearly_full_device),
		cmocka_unit_test(large_pointers_without_a_page_to_divide_them),
		cmocka_unit_test(a_mount_without_memory_says_so_and_harms_nothing),
		cmocka_unit_test(a_call_that_fails_with_the_device_changes_nothing),
		cmocka_unit_test(transactions_that_are_full_at_once_change_no_result),
		cmocka_unit_test(a_device_that_vanishes_hangs_nobody),
		cmocka_unit_test(a_killed_process_loses_nothing_that_was_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
