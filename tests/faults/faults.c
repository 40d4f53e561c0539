/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs out or goes away: space at any point of any operation, memory at any point of a mount, the device at any
 * request, the process at any moment. What every operation does is tests/crash/script.c's business; a device that fails
 * once is tests/engine/test_crash.c's. Each test prints how many cases it went through.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/mount_host.h"
#include "look.h"
#include "script.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (8 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define FILLER "filler"
#define ENOUGH_PAGES 200u /* no operation needs more */

/* ------------------------------------------------------------------ a full device */

struct world {
	struct rig rig;
	struct g4_wg *wg;
	struct actor actor;
	uint8_t *base; /* the image before each case: full but for what the engine keeps for itself */
	uint64_t filler_bytes;
};

static void world_mount(struct world *w)
{
	actor_start(&w->actor, rig_mount_fs(&w->rig, w->wg, NULL), w->wg);
}

static void world_unmount(struct world *w)
{
	rig_unmount_fs(&w->rig, w->wg, w->actor.rig.fs, true);
}

/* The largest file of preallocated space that fits. */
static void fill(struct world *w)
{
	uint64_t node, step = 1024 * G4_PAGE_BYTES;

	assert_int_equal(op_mknod(&w->actor.rig, G4_NODE_ROOT, FILLER, G4_S_IFREG | 0600, &node), 0);
	while (step >= G4_PAGE_BYTES) {
		int rc = op_fallocate(&w->actor.rig, node, 0, w->filler_bytes, step);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		if (rc == 0)
			w->filler_bytes += step;
		else
			step /= 2;
		assert_int_equal(op_sync(&w->actor.rig), 0);
	}
}

static void world_open(struct world *w, enum tree_kind kind)
{
	memset(w, 0, sizeof(*w));
	rig_open(&w->rig, DEVICE_BYTES, JOURNAL_BYTES);
	w->rig.cache_bytes = 4 * G4_MIB;
	w->actor.rig = w->rig;
	w->wg = g4_wg_create(0);
	w->base = (uint8_t *)malloc(DEVICE_BYTES);
	assert_non_null(w->wg);
	assert_non_null(w->base);
	world_mount(w);
	tree_populate(&w->actor, kind);
	fill(w);
	world_unmount(w);
	memcpy(w->base, w->rig.image, DEVICE_BYTES);
}

static void world_close(struct world *w)
{
	g4_wg_destroy(w->wg);
	free(w->base);
	rig_close(&w->rig);
}

static uint64_t filler_node(struct world *w)
{
	struct g4_attr attr;

	assert_int_equal(op_lookup(&w->actor.rig, G4_NODE_ROOT, FILLER, &attr), 0);
	return attr.ino;
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

/* Names and inodes; contents and sizes, too, but for those of one inode and of the filler. */
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

/* One operation with `pages` free pages more than none; true when it was done. */
static bool with_pages(struct world *w, const struct operation *operation, uint64_t pages)
{
	struct tree before = {0}, after = {0};
	char when[96];
	int code = 0;

	snprintf(when, sizeof(when), "%s with %lu free pages", operation->name, (unsigned long)pages);
	memcpy(w->rig.image, w->base, DEVICE_BYTES);
	world_mount(w);
	if (pages)
		assert_int_equal(op_truncate(&w->actor.rig, filler_node(w), w->filler_bytes - pages * G4_PAGE_BYTES),
				 0);
	assert_int_equal(op_sync(&w->actor.rig), 0);
	uint32_t part = run_parts(w, operation, 0, &before, &code);
	if (part < OPERATION_PARTS && code != -G4_E_NOSPC)
		fail_msg("%s: %s", when, g4_strerror(code));
	/* what was said to be done can be written back */
	if ((code = op_sync(&w->actor.rig)) < 0)
		fail_msg("%s: afterwards sync says %s", when, g4_strerror(code));
	see(w, &after);
	if (part < OPERATION_PARTS)
		expect_same(&before, &after, may_be_short(&operation->parts[part]) ? operation->parts[part].path : NULL,
			    when);
	uint64_t left = free_pages(w);
	bool open = keeps_files_open(operation);
	world_unmount(w);
	rig_expect_clean(&w->rig, open ? RIG_ANY_FREE : left, when);
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

static bool possible_in(const struct operation *operation, enum tree_kind kind)
{
	bool wide = strncmp(operation->parts[0].path, "w1/", 3) == 0 ||
		    strncmp(operation->parts[0].path, "w2/", 3) == 0 ||
		    strncmp(operation->parts[0].path2, "w1/", 3) == 0;

	return wide == (kind == WIDE);
}

static void full_device(enum tree_kind kind)
{
	uint64_t refused = 0, done = 0, never_refused = 0;
	struct world w;

	world_open(&w, kind);
	for (uint32_t k = 0; k < operation_count; k++) {
		uint64_t before = refused, pages = 0;
		if (!possible_in(&operations[k], kind))
			continue;
		/* a few more than it needs: each further page may end in another way */
		for (uint32_t successes = 0; successes < 4 && pages < ENOUGH_PAGES; pages += rig_slow() ? 3 : 1) {
			bool success = with_pages(&w, &operations[k], pages);
			successes += success;
			refused += !success;
			done += success;
		}
		if (pages >= ENOUGH_PAGES)
			fail_msg("%s finds no space with %u free pages", operations[k].name, ENOUGH_PAGES);
		never_refused += refused == before;
	}
	print_message("%lu cases: %lu refused, %lu done; %lu operations need no space\n",
		      (unsigned long)(refused + done), (unsigned long)refused, (unsigned long)done,
		      (unsigned long)never_refused);
	assert_true(refused > 0);
	world_close(&w);
}

static void every_operation_on_every_nearly_full_device(void **state)
{
	(void)state;
	full_device(SMALL);
}

static void operations_on_wide_directories_on_every_nearly_full_device(void **state)
{
	(void)state;
	full_device(WIDE);
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

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return refuse() ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, fd, offset);
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
	world_open(&w, SMALL);
	snprintf(image_name, sizeof(image_name), "/proc/self/fd/%d", w.rig.fd);
	for (; reached; n++) {
		struct g4_engine *engine = NULL;
		char message[256] = "";

		memcpy(w.rig.image, w.base, DEVICE_BYTES);
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

/* From one request on it answers nothing any more; nobody may hang or crash, and what was synced before is there. */
static bool vanishes_after(struct world *w, const struct operation *operation, uint64_t writes)
{
	const struct g4_fault fault = {.cut_after_writes = writes};
	struct tree before = {0}, after = {0};
	uint64_t counts[3];
	int code = 0;

	memcpy(w->rig.image, w->base, DEVICE_BYTES);
	actor_start(&w->actor, rig_mount_fs(&w->rig, w->wg, &(struct g4_fault){0}), w->wg);
	assert_int_equal(op_truncate(&w->actor.rig, filler_node(w), 0), 0);
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
	if (may_be_short(&operation->parts[0])) /* nothing but one file may have changed */
		expect_same(&before, &after, operation->parts[0].path, operation->name);
	world_unmount(w);
	rig_expect_clean(&w->rig, RIG_ANY_FREE, operation->name);
	tree_free(&before);
	tree_free(&after);
	return gone;
}

static void a_device_that_vanishes_hangs_nobody(void **state)
{
	uint64_t cases = 0;
	struct world w;

	(void)state;
	world_open(&w, SMALL);
	for (uint32_t k = 0; k < operation_count; k += rig_slow() ? 5 : 1) {
		if (!possible_in(&operations[k], SMALL))
			continue;
		for (uint64_t writes = 1; writes < 64 && vanishes_after(&w, &operations[k], writes); writes++)
			cases++;
	}
	print_message("%lu cases\n", (unsigned long)cases);
	assert_true(cases > 0);
	world_close(&w);
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

static void a_killed_process_loses_nothing_that_was_synced(void **state)
{
	uint64_t kills = rig_setting("G4_KILLS", rig_slow() ? 6 : 30), random = rig_setting("G4_KILL_SEED", 1),
		 durable = 0;
	uint32_t *synced = (uint32_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rig rig;

	(void)state;
	assert_true(synced != MAP_FAILED);
	rig_open(&rig, 64 * G4_MIB, 0);
	snprintf(image_name, sizeof(image_name), "/proc/self/fd/%d", rig.fd);
	for (uint64_t k = 0; k < kills; k++) {
		const struct timespec life = {.tv_nsec = (long)(rig_random(&random) % 40000000)};
		int status;
		fflush(NULL);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child(image_name, synced, random);
		nanosleep(&life, NULL); /* any moment will do */
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSIGNALED(status))
			fail_msg("the process ended with %d", WEXITSTATUS(status));
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
		cmocka_unit_test(a_mount_without_memory_says_so_and_harms_nothing),
		cmocka_unit_test(a_device_that_vanishes_hangs_nobody),
		cmocka_unit_test(a_killed_process_loses_nothing_that_was_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
