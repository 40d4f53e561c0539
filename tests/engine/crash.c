/* SPDX-License-Identifier: Apache-2.0 */
#include "crash.h"

#include "hash/siphash.h"

#define BIG_BYTES (700u * 1024)
#define RUN_PAGES 16u /* read at a time */

/* ------------------------------------------------------------------ operations */

uint8_t *crash_pattern;

static uint64_t node_at(struct rig *rig, const char *path)
{
	uint64_t node = G4_NODE_ROOT;
	char part[64];

	while (*path) {
		struct g4_attr attr;
		size_t n = strcspn(path, "/");
		memcpy(part, path, n);
		part[n] = 0;
		path += n + (path[n] == '/');
		if (op_lookup(rig, node, part, &attr) < 0)
			return 0;
		node = attr.ino;
	}
	return node;
}

/* All of it or an error. */
static int write_all(struct rig *rig, uint64_t node, uint64_t offset, uint64_t bytes)
{
	uint64_t done;
	int rc = op_write(rig, node, 0, offset, crash_pattern, bytes, &done);

	return rc == 0 && done < bytes ? -G4_E_IO : rc;
}

static int write_to(struct rig *rig, const char *path, uint64_t offset, uint64_t bytes, uint64_t seed)
{
	rig_pattern(crash_pattern, seed, bytes);
	return write_all(rig, node_at(rig, path), offset, bytes);
}

static int make_file(struct rig *rig, const char *name, uint64_t dir, uint64_t bytes)
{
	uint64_t ino;
	int rc = op_mknod(rig, dir, name, G4_S_IFREG | 0644, &ino);

	rig_pattern(crash_pattern, bytes, bytes);
	return rc == 0 ? write_all(rig, ino, 0, bytes) : rc;
}

void crash_populate(struct rig *rig)
{
	uint64_t dir, sub, ino;

	assert_int_equal(make_file(rig, "a", G4_NODE_ROOT, 50), 0);
	assert_int_equal(make_file(rig, "b", G4_NODE_ROOT, 12000), 0);
	assert_int_equal(make_file(rig, "big", G4_NODE_ROOT, BIG_BYTES), 0);
	assert_int_equal(op_mkdir(rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(make_file(rig, "x", dir, 6000), 0);
	assert_int_equal(make_file(rig, "y", dir, 10), 0);
	assert_int_equal(op_mkdir(rig, dir, "s", 0755, &sub), 0);
	assert_int_equal(op_mkdir(rig, G4_NODE_ROOT, "e", 0755, NULL), 0);
	assert_int_equal(op_symlink(rig, G4_NODE_ROOT, "l", "d/x", NULL), 0);
	assert_int_equal(op_link(rig, node_at(rig, "b"), G4_NODE_ROOT, "h"), 0);
	rig_pattern(crash_pattern, 7, 20000);
	assert_int_equal(op_setxattr(rig, node_at(rig, "b"), "user.big", crash_pattern, 20000, 0), 0);
	assert_int_equal(op_setxattr(rig, node_at(rig, "a"), "user.small", crash_pattern, 100, 0), 0);
	/* a file in pieces, so that its map has pages */
	assert_int_equal(op_mknod(rig, G4_NODE_ROOT, "holes", G4_S_IFREG | 0644, &ino), 0);
	for (uint64_t k = 0; k < 40; k++)
		assert_int_equal(op_write(rig, ino, 0, k * 3 * G4_PAGE_BYTES, crash_pattern, G4_PAGE_BYTES, NULL), 0);
}

static int op_create(struct rig *r)
{
	return op_mknod(r, G4_NODE_ROOT, "n", G4_S_IFREG | 0600, NULL);
}
static int op_create_write(struct rig *r)
{
	return make_file(r, "n", G4_NODE_ROOT, 9000);
}
static int op_make_dir(struct rig *r)
{
	return op_mkdir(r, node_at(r, "d"), "m", 0700, NULL);
}
static int op_short_link(struct rig *r)
{
	return op_symlink(r, G4_NODE_ROOT, "k", "elsewhere", NULL);
}
static int op_long_link(struct rig *r)
{
	char target[1001];
	memset(target, 'q', 1000);
	target[1000] = 0;
	return op_symlink(r, G4_NODE_ROOT, "k", target, NULL);
}
static int op_hard_link(struct rig *r)
{
	return op_link(r, node_at(r, "a"), node_at(r, "d"), "a2");
}
static int op_unlink_tiny(struct rig *r)
{
	return op_unlink(r, G4_NODE_ROOT, "a");
}
static int op_unlink_linked(struct rig *r)
{
	return op_unlink(r, G4_NODE_ROOT, "b");
}
static int op_unlink_big(struct rig *r)
{
	return op_unlink(r, G4_NODE_ROOT, "big");
}
static int op_unlink_holes(struct rig *r)
{
	return op_unlink(r, G4_NODE_ROOT, "holes");
}
static int op_remove_dir(struct rig *r)
{
	return op_rmdir(r, G4_NODE_ROOT, "e");
}
static int op_rename_plain(struct rig *r)
{
	return op_rename(r, G4_NODE_ROOT, "a", G4_NODE_ROOT, "r", 0);
}
static int op_rename_over(struct rig *r)
{
	return op_rename(r, G4_NODE_ROOT, "a", G4_NODE_ROOT, "big", 0);
}
static int op_rename_across(struct rig *r)
{
	return op_rename(r, node_at(r, "d"), "x", node_at(r, "e"), "z", 0);
}
static int op_rename_dir(struct rig *r)
{
	return op_rename(r, G4_NODE_ROOT, "d", G4_NODE_ROOT, "e", 0);
}
static int op_move_dir(struct rig *r)
{
	return op_rename(r, node_at(r, "d"), "s", node_at(r, "e"), "s", 0);
}
static int op_exchange(struct rig *r)
{
	return op_rename(r, node_at(r, "d"), "y", G4_NODE_ROOT, "e", G4_RENAME_EXCHANGE);
}
static int op_write_tiny(struct rig *r)
{
	return write_to(r, "a", 10, 20, 1);
}
static int op_grow_tiny(struct rig *r)
{
	return write_to(r, "a", 40, 5000, 2);
}
static int op_overwrite(struct rig *r)
{
	return write_to(r, "b", 3000, 6000, 3);
}
static int op_append(struct rig *r)
{
	return write_to(r, "b", 12000, 10000, 4);
}
static int op_write_big(struct rig *r)
{
	return write_to(r, "big", 0, 524288, 5);
}
static int op_write_far(struct rig *r)
{
	return write_to(r, "holes", UINT64_C(1) << 40, 5000, 6);
}
static int op_cut_big(struct rig *r)
{
	return op_truncate(r, node_at(r, "big"), 5000);
}
static int op_cut_all(struct rig *r)
{
	return op_truncate(r, node_at(r, "b"), 0);
}
static int op_cut_holes(struct rig *r)
{
	return op_truncate(r, node_at(r, "holes"), 100000);
}
static int op_extend(struct rig *r)
{
	return op_truncate(r, node_at(r, "a"), 10000);
}
static int op_allocate(struct rig *r)
{
	return op_fallocate(r, node_at(r, "b"), 0, 8000, 100000);
}
static int op_punch(struct rig *r)
{
	return op_fallocate(r, node_at(r, "big"), G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 5000, 300000);
}
static int op_set_small(struct rig *r)
{
	return op_setxattr(r, node_at(r, "a"), "user.new", "value", 5, 0);
}
static int op_set_large(struct rig *r)
{
	rig_pattern(crash_pattern, 8, 30000);
	return op_setxattr(r, node_at(r, "b"), "user.big", crash_pattern, 30000, 0);
}
static int op_remove_attribute(struct rig *r)
{
	return op_removexattr(r, node_at(r, "b"), "user.big");
}
static int op_chmod(struct rig *r)
{
	struct g4_attr attr = {.mode = 0400};
	return op_setattr(r, node_at(r, "a"), G4_SET_MODE, &attr);
}
static int op_unlink_open(struct rig *r)
{
	uint64_t handle;
	int rc = op_open(r, node_at(r, "big"), G4_OPEN_READ | G4_OPEN_WRITE, &handle);
	return rc == 0 ? op_unlink(r, G4_NODE_ROOT, "big") : rc; /* stays open until the power is gone */
}
static int op_cut_unnamed(struct rig *r)
{
	uint64_t handle, node = node_at(r, "big");
	int rc = op_open(r, node, G4_OPEN_READ | G4_OPEN_WRITE, &handle);
	if (rc == 0)
		rc = op_unlink(r, G4_NODE_ROOT, "big");
	return rc == 0 ? op_truncate(r, node, 10000) : rc;
}
static int op_no_name(struct rig *r)
{
	uint64_t ino, handle;
	int rc = op_tmpfile(r, G4_NODE_ROOT, &ino, &handle);
	rig_pattern(crash_pattern, 9, 9000);
	return rc == 0 ? op_write(r, ino, handle, 0, crash_pattern, 9000, NULL) : rc;
}

#define OP(f, sync)                                                                                                    \
	{                                                                                                              \
#f, f, sync                                                                                            \
	}
const struct operation crash_operations[] = {
	OP(op_create, "n"),	   OP(op_create_write, "n"),	OP(op_make_dir, "d/m"),	   OP(op_short_link, NULL),
	OP(op_long_link, NULL),	   OP(op_hard_link, "a"),	OP(op_unlink_tiny, NULL),  OP(op_unlink_linked, "h"),
	OP(op_unlink_big, NULL),   OP(op_unlink_holes, NULL),	OP(op_remove_dir, NULL),   OP(op_rename_plain, "r"),
	OP(op_rename_over, "big"), OP(op_rename_across, "e/z"), OP(op_rename_dir, "e"),	   OP(op_move_dir, "e/s"),
	OP(op_exchange, NULL),	   OP(op_write_tiny, "a"),	OP(op_grow_tiny, "a"),	   OP(op_overwrite, "b"),
	OP(op_append, "h"),	   OP(op_write_big, "big"),	OP(op_write_far, "holes"), OP(op_cut_big, "big"),
	OP(op_cut_all, "b"),	   OP(op_cut_holes, "holes"),	OP(op_extend, "a"),	   OP(op_allocate, "b"),
	OP(op_punch, "big"),	   OP(op_set_small, "a"),	OP(op_set_large, "b"),	   OP(op_remove_attribute, "b"),
	OP(op_chmod, "a"),	   OP(op_unlink_open, NULL),	OP(op_cut_unnamed, NULL),  OP(op_no_name, NULL),
};

/* ------------------------------------------------------------------ states */

static uint64_t sum_of(const uint8_t *data, uint64_t bytes)
{
	static const uint64_t key[2] = {1, 2};

	if (bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0))
		return 0; /* zeros, however they came about */
	return g4_siphash13(key, data, bytes) | 1;
}

/* Pages that are looked at: the first MiB and what op_write_far writes. */
static uint64_t page_offset(uint32_t k)
{
	return k < 256 ? k * G4_PAGE_BYTES : (UINT64_C(1) << 40) + (k - 256) * G4_PAGE_BYTES;
}

static void see_contents(struct rig *rig, struct seen_node *node)
{
	uint8_t *pages = crash_pattern + G4_MIB;
	uint64_t done;
	uint32_t run;

	node->page_count = node->size > G4_MIB ? 258 : (uint32_t)g4_pages_for(node->size);
	node->pages = (uint64_t *)calloc(node->page_count + 1, sizeof(uint64_t));
	assert_non_null(node->pages);
	for (uint32_t k = 0; k < node->page_count; k += run) { /* as many at a time as are in a row */
		for (run = 1; run < RUN_PAGES && k + run < node->page_count &&
			      page_offset(k + run) == page_offset(k) + run * G4_PAGE_BYTES;)
			run++;
		const uint64_t bytes = run * G4_PAGE_BYTES;
		memset(pages, 0, bytes);
		for (uint64_t at = 0; at < bytes; at = done ? at + done : bytes)
			assert_int_equal(op_read(rig, node->ino, 0, page_offset(k) + at, pages + at, bytes - at, &done),
					 0);
		for (uint32_t i = 0; i < run; i++)
			node->pages[k + i] = sum_of(pages + i * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

static void see_xattrs(struct rig *rig, struct seen_node *node)
{
	uint8_t *names = crash_pattern + G4_MIB, *value = names + 4096;
	uint64_t bytes, length;

	assert_int_equal(op_listxattr(rig, node->ino, names, 4096, &bytes), 0);
	for (uint64_t at = 0; at < bytes; at += strlen((char *)names + at) + 1) {
		assert_int_equal(op_getxattr(rig, node->ino, (char *)names + at, value, 65536, &length), 0);
		node->xattrs += sum_of(names + at, strlen((char *)names + at)) * 31 + sum_of(value, length) + length;
	}
}

static void see_directory(struct rig *rig, struct state *state, uint64_t dir, const char *prefix)
{
	uint8_t list[8192];
	uint64_t bytes;

	assert_int_equal(op_readdir(rig, dir, 0, list, sizeof(list), &bytes), 0);
	for (uint64_t at = 0; at < bytes;) {
		struct g4_dirent head;
		struct g4_attr attr;
		char name[64];
		memcpy(&head, list + at, sizeof(head));
		memcpy(name, list + at + sizeof(head), head.name_bytes);
		name[head.name_bytes] = 0;
		at += head.record_bytes;
		if (name[0] == '.')
			continue;
		assert_true(state->count < MAX_NODES);
		struct seen_node *node = &state->nodes[state->count++];
		memset(node, 0, sizeof(*node));
		snprintf(node->path, sizeof(node->path), "%s%.20s", prefix, name);
		assert_int_equal(op_getattr(rig, head.ino, &attr), 0);
		node->ino = attr.ino;
		node->mode = attr.mode;
		node->nlink = attr.nlink;
		node->size = g4_is_dir(attr.mode) ? 0 : attr.size;
		if (g4_is_reg(attr.mode))
			see_contents(rig, node);
		if (g4_is_reg(attr.mode) || g4_is_dir(attr.mode))
			see_xattrs(rig, node);
		if (g4_is_dir(attr.mode)) {
			char below[48];
			snprintf(below, sizeof(below), "%.20s/", node->path);
			see_directory(rig, state, attr.ino, below);
		}
	}
}

void crash_forget(struct state *state)
{
	for (uint32_t k = 0; k < state->count; k++)
		free(state->nodes[k].pages);
	state->count = 0;
}

void crash_see(struct rig *rig, struct state *state)
{
	state->count = 0;
	see_directory(rig, state, G4_NODE_ROOT, "");
}

static const struct seen_node *find(const struct state *state, const char *path)
{
	for (uint32_t k = 0; k < state->count; k++)
		if (strcmp(state->nodes[k].path, path) == 0)
			return &state->nodes[k];
	return NULL;
}

static const struct seen_node *find_ino(const struct state *state, uint64_t ino)
{
	for (uint32_t k = 0; k < state->count; k++)
		if (state->nodes[k].ino == ino)
			return &state->nodes[k];
	return NULL;
}

static bool same_names(const struct state *a, const struct state *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t k = 0; k < a->count; k++) {
		const struct seen_node *x = &a->nodes[k], *y = find(b, x->path);
		if (!y || x->ino != y->ino || (x->mode & G4_S_IFMT) != (y->mode & G4_S_IFMT) || x->nlink != y->nlink)
			return false;
	}
	return true;
}

static void show(const struct state *state, const char *what)
{
	print_message("%s:", what);
	for (uint32_t k = 0; k < state->count; k++)
		print_message(" %s(%lx,%u)", state->nodes[k].path, (unsigned long)state->nodes[k].ino,
			      state->nodes[k].nlink);
	print_message("\n");
}

/* ------------------------------------------------------------------ workloads */

static int sync_step(struct rig *rig, const struct workload *w, uint32_t k)
{
	if (w->everything || !w->steps[k]->sync)
		return op_sync(rig);
	return op_fsync(rig, node_at(rig, w->steps[k]->sync));
}

/* Runs until something fails. states: looks after each step. */
static void tell(const struct progress *progress)
{
	if (progress->changed)
		progress->changed(progress);
}

void crash_run(struct rig *rig, struct workload *w, struct progress *progress, bool look)
{
	for (uint32_t k = 0; k < w->count; k++) {
		progress->reached = k + 1;
		tell(progress);
		int rc = w->steps[k]->run(rig);
		if (look) {
			crash_see(rig, &w->states[w->state_count++]);
			w->results[k] = rc; /* the first step may have taken away what the second is about */
		}
		if (rc != w->results[k])
			return;
		if (!(w->syncs & (1u << k)))
			continue;
		rc = sync_step(rig, w, k);
		if (rc < 0 && !look)
			return;
		if (rc == 0 && (w->everything || !w->steps[k]->sync)) {
			progress->names = k + 1;
			progress->path = NULL;
		} else if (rc == 0) {
			progress->path = w->steps[k]->sync;
			progress->file = k + 1;
		}
		tell(progress);
	}
}

void crash_describe(const struct workload *w, const struct g4_fault *fault)
{
	print_message("workload:");
	for (uint32_t k = 0; k < w->count; k++)
		print_message(" %s%s", w->steps[k]->name,
			      w->syncs & (1u << k) ? (w->everything ? " sync" : " fsync") : "");
	if (fault->fail_read_at || fault->fail_write_at || fault->fail_flush_at) {
		print_message("; failing read %lu, write %lu, flush %lu\n", (unsigned long)fault->fail_read_at,
			      (unsigned long)fault->fail_write_at, (unsigned long)fault->fail_flush_at);
		return;
	}
	print_message("; cut %s write %lu of %lu, %s, seed %lu\n", fault->cut_inside ? "inside" : "after",
		      (unsigned long)fault->cut_after_writes, (unsigned long)w->writes,
		      fault->keep_unflushed ? "keeping" : "dropping", (unsigned long)fault->seed);
}

/* Whether some state from `from` on has this file with this page (or size, for page UINT32_MAX). */
static bool was_so(const struct workload *w, uint32_t from, uint32_t to, const struct seen_node *now, uint32_t page)
{
	for (uint32_t s = from; s <= to; s++) {
		const struct seen_node *then = find_ino(&w->states[s], now->ino);
		if (!then)
			continue;
		if (page == UINT32_MAX ? then->size == now->size :
					 (page < then->page_count ? then->pages[page] : 0) == now->pages[page])
			return true;
	}
	return false;
}

static void check_file(const struct workload *w, const struct g4_fault *fault, uint32_t from, uint32_t to,
		       const struct seen_node *now)
{
	bool attributes = false, grew = false;

	for (uint32_t s = from; s <= to; s++) {
		const struct seen_node *then = find_ino(&w->states[s], now->ino);
		attributes |= then && then->xattrs == now->xattrs && then->mode == now->mode;
		/* a file that grows may be found at any page in between */
		for (uint32_t t = s + 1; then && t <= to; t++) {
			const struct seen_node *later = find_ino(&w->states[t], now->ino);
			grew |= later && now->size > then->size && now->size < later->size &&
				now->size % G4_PAGE_BYTES == 0;
		}
		/* it may have been made, and found before anything was written to it */
		grew |= then && s > 0 && !find_ino(&w->states[s - 1], now->ino) && now->size < then->size;
	}
	if (!attributes)
		bad(w, fault, "%s: mode or attributes were never so", now->path);
	if (!g4_is_reg(now->mode))
		return;
	if (!grew && !was_so(w, from, to, now, UINT32_MAX))
		bad(w, fault, "%s: size %lu was never so", now->path, (unsigned long)now->size);
	for (uint32_t k = 0; k < now->page_count; k++)
		/* a page cut short, or zero because something behind it came first, is not new data but no mix either */
		if (now->pages[k] != 0 && !was_so(w, from, to, now, k))
			bad(w, fault, "%s: page %u was never so", now->path, k);
}

bool crash_takes(uint32_t operation, uint32_t kind)
{
	return rig_every(1) == 1 || operation % 3 == kind;
}

void crash_check(struct rig *rig, const struct workload *w, const struct g4_fault *fault,
		 const struct progress *progress)
{
	struct state now;
	bool names = false;

	crash_see(rig, &now);
	for (uint32_t s = progress->names; s <= progress->reached; s++)
		names |= same_names(&now, &w->states[s]);
	if (!names) {
		show(&now, "found");
		for (uint32_t s = progress->names; s <= progress->reached; s++)
			show(&w->states[s], "possible");
		bad(w, fault, "these names never were there together");
	}
	for (uint32_t k = 0; k < now.count; k++)
		check_file(w, fault, progress->names, progress->reached, &now.nodes[k]);
	if (progress->path) { /* the file that was synced is at least as new as then, its name too */
		const struct seen_node *then = find(&w->states[progress->file], progress->path);
		const struct seen_node *found = then ? find_ino(&now, then->ino) : NULL;
		bool stays = then != NULL;
		for (uint32_t s = progress->file; s <= progress->reached; s++)
			stays &= then && find_ino(&w->states[s], then->ino) != NULL;
		if (stays && !found)
			bad(w, fault, "%s was synced and is gone", progress->path);
		if (found)
			check_file(w, fault, progress->file, progress->reached, found);
	}
	crash_forget(&now);
}

const uint32_t crash_operation_count = (uint32_t)(sizeof(crash_operations) / sizeof(crash_operations[0]));
