/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model keeps pages that were written, sorted by index; all else reads as zeros. A full device is no failure of the
 * engine: an operation that it refuses for want of space must have done nothing (to a range: nothing or zeros).
 */
#include "model.h"

#include "fs/fs.h"

#define MAX_FILE_BYTES (UINT64_C(1536) * 1024)
#define BUFFER_BYTES (UINT64_C(1) << 20)
#define MAX_XATTRS 12u
#define MAX_HANDLES 6u
#define NAMES 28u
#define FAR (UINT64_C(1) << 44) /* where sparse files have a second part */

struct page {
	uint64_t index;
	uint8_t *bytes;
};

struct attribute {
	char name[40];
	uint8_t *value;
	uint64_t bytes;
};

struct node {
	uint64_t ino;
	uint32_t mode, uid, gid, nlink;
	bool shared; /* a directory that others use, too */
	uint64_t size;
	struct page *pages;
	uint32_t page_count, page_room;
	char *target;
	struct attribute xattrs[MAX_XATTRS];
	uint32_t xattr_count;
	struct entry *entries; /* of a directory */
	uint32_t entry_count, entry_room;
	struct node *parent;
	uint32_t opens;
	struct g4_attr seen; /* at the last comparison */
	bool was_seen;
};

struct entry {
	char name[256];
	struct node *node;
};

struct handle {
	uint64_t handle;
	struct node *node;
};

struct model {
	struct rig *rig;
	uint64_t seed, random;
	char tag;
	struct node *roots[2];
	uint32_t root_count;
	struct node **nodes; /* all that have a name or a handle */
	uint32_t node_count, node_room;
	struct handle handles[MAX_HANDLES];
	uint32_t handle_count;
	uint64_t steps, done, full;
	const char *doing;
	bool careful;		 /* compares after each operation: finds the one that went wrong */
	uint8_t *buffer, *other; /* page-aligned */
};

static uint64_t pick(struct model *m, uint64_t below)
{
	return rig_random(&m->random) % below;
}

#define bad(m, ...)                                                                                                    \
	do {                                                                                                           \
		print_message("seed %lu, step %lu, %s: ", (unsigned long)(m)->seed, (unsigned long)(m)->steps,         \
			      (m)->doing);                                                                             \
		fail_msg(__VA_ARGS__);                                                                                 \
		abort();                                                                                               \
	} while (0)

/* True when the engine did it. Want of space is no failure; any other answer than `wanted` is. */
static bool agree(struct model *m, int rc, int wanted)
{
	if (rc == wanted) {
		m->done += rc == 0;
		return rc == 0;
	}
	if (wanted == 0 && rc == -G4_E_NOSPC) {
		m->full++;
		return false;
	}
	bad(m, "the engine says %d (%s), the model %d (%s)", rc, rc ? g4_strerror(rc) : "ok", wanted,
	    wanted ? g4_strerror(wanted) : "ok");
}

static void *grow(void *array, uint32_t count, uint32_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 8;
	array = realloc(array, *room * bytes);
	assert_non_null(array);
	return array;
}

/* ------------------------------------------------------------------ nodes */

static struct node *node_new(struct model *m, uint64_t ino, uint32_t mode)
{
	struct node *node = (struct node *)calloc(1, sizeof(*node));

	assert_non_null(node);
	node->ino = ino;
	node->mode = mode;
	node->nlink = g4_is_dir(mode) ? 2 : 1;
	m->nodes = (struct node **)grow(m->nodes, m->node_count, &m->node_room, sizeof(struct node *));
	m->nodes[m->node_count++] = node;
	return node;
}

static void drop_pages(struct node *node, uint64_t first, uint64_t end)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < node->page_count; k++) {
		if (node->pages[k].index >= first && node->pages[k].index < end)
			free(node->pages[k].bytes);
		else
			node->pages[kept++] = node->pages[k];
	}
	node->page_count = kept;
}

static void node_free(struct node *node)
{
	drop_pages(node, 0, UINT64_MAX);
	for (uint32_t k = 0; k < node->xattr_count; k++)
		free(node->xattrs[k].value);
	free(node->pages);
	free(node->target);
	free(node->entries);
	free(node);
}

/* A node that lost a name or a handle. */
static void node_maybe_gone(struct model *m, struct node *node)
{
	if (node->nlink > 0 || node->opens > 0)
		return;
	for (uint32_t k = 0; k < m->node_count; k++)
		if (m->nodes[k] == node)
			m->nodes[k] = m->nodes[--m->node_count];
	node_free(node);
}

static struct entry *find(struct node *dir, const char *name)
{
	for (uint32_t k = 0; k < dir->entry_count; k++)
		if (strcmp(dir->entries[k].name, name) == 0)
			return &dir->entries[k];
	return NULL;
}

static void add_entry(struct node *dir, const char *name, struct node *node)
{
	dir->entries = (struct entry *)grow(dir->entries, dir->entry_count, &dir->entry_room, sizeof(struct entry));
	snprintf(dir->entries[dir->entry_count].name, sizeof(dir->entries[0].name), "%s", name);
	dir->entries[dir->entry_count++].node = node;
	if (g4_is_dir(node->mode)) {
		node->parent = dir;
		dir->nlink++;
	}
}

static void remove_entry(struct node *dir, const char *name)
{
	struct entry *entry = find(dir, name);

	dir->nlink -= g4_is_dir(entry->node->mode);
	*entry = dir->entries[--dir->entry_count];
}

static void lose_name(struct model *m, struct node *node)
{
	node->nlink = g4_is_dir(node->mode) ? 0 : node->nlink - 1;
	node_maybe_gone(m, node);
}

static bool is_under(const struct node *node, const struct node *above)
{
	while (node && node != above)
		node = node->parent;
	return node != NULL;
}

/* ------------------------------------------------------------------ contents */

/* The page, made when `make`; *at gets its place. */
static uint8_t *get_page(struct node *node, uint64_t index, bool make)
{
	uint32_t low = 0, high = node->page_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (node->pages[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < node->page_count && node->pages[low].index == index)
		return node->pages[low].bytes;
	if (!make)
		return NULL;
	node->pages = (struct page *)grow(node->pages, node->page_count, &node->page_room, sizeof(struct page));
	memmove(&node->pages[low + 1], &node->pages[low], (node->page_count - low) * sizeof(struct page));
	node->pages[low].index = index;
	node->pages[low].bytes = (uint8_t *)calloc(1, G4_PAGE_BYTES);
	assert_non_null(node->pages[low].bytes);
	node->page_count++;
	return node->pages[low].bytes;
}

/* from NULL: zeros. */
static void put_bytes(struct node *node, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
	for (uint64_t done = 0, n; done < bytes; done += n) {
		uint64_t at = offset + done, inside = at % G4_PAGE_BYTES;
		n = g4_min64(bytes - done, G4_PAGE_BYTES - inside);
		uint8_t *page = get_page(node, at / G4_PAGE_BYTES, from != NULL);
		if (from)
			memcpy(page + inside, from + done, n);
		else if (page)
			memset(page + inside, 0, n);
	}
}

static void get_bytes(struct node *node, uint64_t offset, uint8_t *to, uint64_t bytes)
{
	for (uint64_t done = 0, n; done < bytes; done += n) {
		uint64_t at = offset + done, inside = at % G4_PAGE_BYTES;
		n = g4_min64(bytes - done, G4_PAGE_BYTES - inside);
		const uint8_t *page = get_page(node, at / G4_PAGE_BYTES, false);
		if (page)
			memcpy(to + done, page + inside, n);
		else
			memset(to + done, 0, n);
	}
}

static void set_size(struct node *node, uint64_t size)
{
	if (size < node->size) {
		uint64_t keep = size % G4_PAGE_BYTES;
		drop_pages(node, g4_pages_for(size), UINT64_MAX);
		uint8_t *page = keep ? get_page(node, size / G4_PAGE_BYTES, false) : NULL;
		if (page)
			memset(page + keep, 0, G4_PAGE_BYTES - keep);
	}
	node->size = size;
}

/* Reads from the engine and compares. */
static void check_range(struct model *m, struct node *node, uint64_t handle, uint64_t offset, uint64_t bytes)
{
	uint64_t wanted = offset >= node->size ? 0 : g4_min64(bytes, node->size - offset), done;
	/* memory that is aligned or not, as the length happens to be */
	uint8_t *to = m->buffer + (bytes & 1 ? 8 : 0);
	int rc = op_read(m->rig, node->ino, handle, offset, to, bytes, &done);

	if (rc < 0 || done != wanted)
		bad(m, "reading %lu at %lu gives %ld (%s), %lu wanted", (unsigned long)bytes, (unsigned long)offset,
		    (long)done, rc ? g4_strerror(rc) : "ok", (unsigned long)wanted);
	get_bytes(node, offset, m->other, wanted);
	for (uint64_t k = 0; k < wanted; k++)
		if (to[k] != m->other[k])
			bad(m, "ino %lx, size %lu: byte %lu is %02x, %02x wanted (read of %lu at %lu)",
			    (unsigned long)node->ino, (unsigned long)node->size, (unsigned long)(offset + k), to[k],
			    m->other[k], (unsigned long)bytes, (unsigned long)offset);
}

/* ------------------------------------------------------------------ choosing */

static struct node *pick_node(struct model *m, bool (*good)(const struct node *))
{
	for (uint32_t tries = 0; tries < 20; tries++) {
		struct node *node = m->nodes[pick(m, m->node_count)];
		if (good(node))
			return node;
	}
	return NULL;
}

static bool is_dir(const struct node *node)
{
	return g4_is_dir(node->mode) && node->nlink > 0;
}

static bool is_file(const struct node *node)
{
	return g4_is_reg(node->mode);
}

static bool is_named(const struct node *node)
{
	return node->nlink > 0;
}

static bool takes_xattrs(const struct node *node)
{
	return (g4_is_reg(node->mode) || g4_is_dir(node->mode)) && !node->shared;
}

static struct node *pick_dir(struct model *m)
{
	struct node *dir = pick(m, 3) == 0 ? m->roots[pick(m, m->root_count)] : pick_node(m, is_dir);

	return dir ? dir : m->roots[0];
}

/* Few names, so that operations meet; some long ones, so that directories grow. */
static void pick_name(struct model *m, char name[256])
{
	uint64_t n = pick(m, NAMES);
	int length = snprintf(name, 256, "%c%lu", m->tag, (unsigned long)n);

	if (n % 4 == 3) {
		memset(name + length, 'x', 180);
		name[length + 180] = 0;
	}
}

static uint64_t pick_offset(struct model *m, const struct node *node)
{
	switch (pick(m, 8)) {
	case 0:
		return node->size;
	case 1:
		return pick(m, 200);
	case 2:
		return pick(m, MAX_FILE_BYTES / 262144) * 262144;
	case 3:
		return pick(m, 40) == 0 ? FAR + pick(m, 100000) : pick(m, 64) * G4_PAGE_BYTES;
	default:
		return pick(m, MAX_FILE_BYTES / 2);
	}
}

/* ------------------------------------------------------------------ operations on names */

static struct node *born(struct model *m, struct node *dir, const char *name, uint64_t ino, uint32_t mode)
{
	struct node *node = node_new(m, ino, mode);

	add_entry(dir, name, node);
	return node;
}

static void do_mknod(struct model *m)
{
	struct node *dir = pick_dir(m);
	uint32_t mode = (pick(m, 10) == 0 ? G4_S_IFIFO : G4_S_IFREG) | (uint32_t)pick(m, 01000);
	char name[256];
	uint64_t ino;

	m->doing = "mknod";
	pick_name(m, name);
	if (agree(m, op_mknod(m->rig, dir->ino, name, mode, &ino), find(dir, name) ? -G4_E_EXIST : 0))
		born(m, dir, name, ino, mode);
}

static void do_mkdir(struct model *m)
{
	struct node *dir = pick_dir(m);
	char name[256];
	uint64_t ino;

	m->doing = "mkdir";
	pick_name(m, name);
	if (agree(m, op_mkdir(m->rig, dir->ino, name, 0755, &ino), find(dir, name) ? -G4_E_EXIST : 0))
		born(m, dir, name, ino, G4_S_IFDIR | 0755);
}

static void do_symlink(struct model *m)
{
	uint64_t bytes = pick(m, 3) == 0 ? 1 + pick(m, 4000) : 1 + pick(m, 100), ino;
	char name[256], *target = (char *)malloc(bytes + 1);
	struct node *dir = pick_dir(m);

	m->doing = "symlink";
	assert_non_null(target);
	pick_name(m, name);
	memset(target, 'a' + (int)pick(m, 26), bytes);
	target[bytes] = 0;
	if (agree(m, op_symlink(m->rig, dir->ino, name, target, &ino), find(dir, name) ? -G4_E_EXIST : 0)) {
		struct node *node = born(m, dir, name, ino, G4_S_IFLNK | 0777);
		node->target = target;
		node->size = bytes;
	} else {
		free(target);
	}
}

static void do_link(struct model *m)
{
	struct node *dir = pick_dir(m), *node = pick_node(m, is_named);
	char name[256];

	m->doing = "link";
	pick_name(m, name);
	if (!node || node->shared)
		return;
	int wanted = node == dir ? -G4_E_PERM : find(dir, name) ? -G4_E_EXIST : g4_is_dir(node->mode) ? -G4_E_PERM : 0;
	if (agree(m, op_link(m->rig, node->ino, dir->ino, name), wanted)) {
		add_entry(dir, name, node);
		node->nlink++;
	}
}

static void do_remove(struct model *m)
{
	struct node *dir = pick_dir(m);
	bool rmdir = pick(m, 3) == 0;
	char name[256];

	m->doing = rmdir ? "rmdir" : "unlink";
	pick_name(m, name);
	struct entry *entry = find(dir, name);
	struct node *node = entry ? entry->node : NULL;
	int wanted = !node			     ? -G4_E_NOENT :
		     !rmdir && g4_is_dir(node->mode) ? -G4_E_ISDIR :
		     rmdir && !g4_is_dir(node->mode) ? -G4_E_NOTDIR :
		     rmdir && node->entry_count > 0  ? -G4_E_NOTEMPTY :
						       0;
	int rc = rmdir ? op_rmdir(m->rig, dir->ino, name) : op_unlink(m->rig, dir->ino, name);
	if (agree(m, rc, wanted)) {
		remove_entry(dir, name);
		lose_name(m, node);
	}
}

static int judge_rename(struct node *d1, struct entry *e1, struct node *d2, struct entry *e2, uint32_t flags)
{
	bool exchange = flags & G4_RENAME_EXCHANGE;

	if (!e1 || (!e2 && exchange))
		return -G4_E_NOENT;
	if (e2 && (flags & G4_RENAME_NOREPLACE))
		return -G4_E_EXIST;
	struct node *x = e1->node, *y = e2 ? e2->node : NULL;
	if (d1 != d2 && g4_is_dir(x->mode) && is_under(d2, x))
		return -G4_E_INVAL;
	if (d1 != d2 && y && g4_is_dir(y->mode) && is_under(d1, y))
		return exchange ? -G4_E_INVAL : -G4_E_NOTEMPTY;
	if (x == y || !y || exchange)
		return 0;
	if (g4_is_dir(x->mode) && !g4_is_dir(y->mode))
		return -G4_E_NOTDIR;
	if (!g4_is_dir(x->mode) && g4_is_dir(y->mode))
		return -G4_E_ISDIR;
	return g4_is_dir(y->mode) && y->entry_count > 0 ? -G4_E_NOTEMPTY : 0;
}

static void apply_rename(struct model *m, struct node *d1, const char *name1, struct node *d2, const char *name2,
			 uint32_t flags)
{
	struct entry *e2 = find(d2, name2);
	struct node *x = find(d1, name1)->node, *y = e2 ? e2->node : NULL;

	if (x == y)
		return;
	remove_entry(d1, name1);
	if (y)
		remove_entry(d2, name2);
	add_entry(d2, name2, x);
	if (y && (flags & G4_RENAME_EXCHANGE))
		add_entry(d1, name1, y);
	else if (y)
		lose_name(m, y);
}

static void do_rename(struct model *m)
{
	static const uint32_t kinds[] = {0, 0, 0, G4_RENAME_NOREPLACE, G4_RENAME_EXCHANGE};
	struct node *d1 = pick_dir(m), *d2 = pick(m, 2) ? d1 : pick_dir(m);
	uint32_t flags = kinds[pick(m, 5)];
	char name1[256], name2[256];

	m->doing = "rename";
	pick_name(m, name1);
	pick_name(m, name2);
	int wanted = judge_rename(d1, find(d1, name1), d2, find(d2, name2), flags);
	if (agree(m, op_rename(m->rig, d1->ino, name1, d2->ino, name2, flags), wanted))
		apply_rename(m, d1, name1, d2, name2, flags);
}

/* ------------------------------------------------------------------ operations on trees */

#define CHAIN_NAMES 14u /* more than the engine makes one by one */
#define CHAIN_MODE 0555u

/* Directories that the engine says it has made: the first of what the path lacks. */
static void grow_chain(struct model *m, struct node *dir, char names[][256], uint32_t count, uint32_t made)
{
	for (uint32_t k = 0; k < count && made > 0; k++) {
		struct entry *entry = find(dir, names[k]);
		struct g4_attr attr;
		if (entry) {
			dir = entry->node;
			continue;
		}
		const int rc = op_lookup(m->rig, dir->ino, names[k], &attr);
		if (rc < 0)
			bad(m, "%s was made and is not there: %s", names[k], g4_strerror(rc));
		dir = born(m, dir, names[k], attr.ino, G4_S_IFDIR | (k + 1 == count ? CHAIN_MODE : CHAIN_MODE | 0300));
		made--;
	}
	if (made > 0)
		bad(m, "%u directories too many were made", made);
}

/* What the path lacks; a full device may have a beginning of it. */
static void do_mkdir_all(struct model *m)
{
	const uint32_t count = 1 + (uint32_t)(pick(m, 4) == 0 ? pick(m, CHAIN_NAMES) : pick(m, 4));
	struct node *dir = pick_dir(m), *at = dir;
	char names[CHAIN_NAMES][256], path[CHAIN_NAMES * 256];
	uint32_t there = 0, made = 0;
	size_t bytes = 0;
	uint64_t ino = 0;
	int wanted = 0;

	m->doing = "mkdir_all";
	for (uint32_t k = 0; k < count; k++) {
		pick_name(m, names[k]);
		bytes += (size_t)snprintf(path + bytes, sizeof(path) - bytes, "%s%s", k ? "/" : "", names[k]);
	}
	for (; there < count && wanted == 0; there++) {
		const struct entry *entry = find(at, names[there]);
		if (!entry)
			break;
		if (g4_is_link(entry->node->mode)) /* leads nowhere, or back into this tree */
			return;
		at = entry->node;
		if (!g4_is_dir(at->mode))
			wanted = there + 1 < count ? -G4_E_NOTDIR : -G4_E_EXIST;
	}
	const int rc = op_mkdir_all(m->rig, dir->ino, path, CHAIN_MODE, &made, &ino);
	if (agree(m, rc, wanted) && made != count - there)
		bad(m, "%u directories were made, %u wanted", made, count - there);
	if (rc < 0 && wanted < 0 && made > 0)
		bad(m, "%u directories were made of what cannot be", made);
	grow_chain(m, dir, names, count, made);
	for (uint32_t k = 0; k < count && rc == 0; k++)
		dir = find(dir, names[k])->node;
	if (rc == 0 && dir->ino != ino)
		bad(m, "the path leads to ino %lx, not %lx", (unsigned long)dir->ino, (unsigned long)ino);
}

static uint64_t names_below(const struct node *dir)
{
	uint64_t count = dir->entry_count;

	for (uint32_t k = 0; k < dir->entry_count; k++)
		if (g4_is_dir(dir->entries[k].node->mode))
			count += names_below(dir->entries[k].node);
	return count;
}

/* Takes from the model what the engine does not have any more: how many names. A directory that is gone has to have been empty. */
static uint64_t adopt_removals(struct model *m, struct node *dir)
{
	uint64_t gone = 0;

	for (uint32_t k = dir->entry_count; k-- > 0;) {
		struct node *node = dir->entries[k].node;
		const bool directory = g4_is_dir(node->mode);
		struct g4_attr attr;
		const int rc = op_lookup(m->rig, dir->ino, dir->entries[k].name, &attr);
		if (rc < 0 && rc != -G4_E_NOENT)
			bad(m, "lookup of %s: %s", dir->entries[k].name, g4_strerror(rc));
		if (rc == 0 && directory)
			gone += adopt_removals(m, node);
		if (rc == 0)
			continue;
		gone += 1 + (directory ? names_below(node) : 0);
		while (directory && node->entry_count > 0) { /* they went before it: from the leaves up */
			struct node *below = node;
			while (g4_is_dir(below->entries[0].node->mode) && below->entries[0].node->entry_count > 0)
				below = below->entries[0].node;
			struct node *last = below->entries[0].node;
			remove_entry(below, below->entries[0].name);
			lose_name(m, last);
		}
		remove_entry(dir, dir->entries[k].name);
		lose_name(m, node);
	}
	return gone;
}

static void do_clear(struct model *m)
{
	struct node *dir = pick_node(m, is_dir);
	const uint64_t most = pick(m, 4) == 0 ? 1000 : 1 + pick(m, 6), from = pick(m, UINT64_C(1) << 32);

	m->doing = "clear";
	if (!dir || dir->shared || (!dir->parent && pick(m, 8) > 0))
		return;
	const uint64_t wanted = g4_min64(most, names_below(dir));
	uint64_t all = 0, removed = 1;
	int rc = 0;
	while (all < wanted && rc == 0 && removed > 0) { /* a full device may stop it on the way */
		rc = op_clear(m->rig, dir->ino, wanted - all, from, &removed);
		all += removed;
	}
	if (all < wanted && rc == 0)
		bad(m, "%lu names went, and then none, %lu wanted", (unsigned long)all, (unsigned long)wanted);
	(void)agree(m, rc, 0);
	const uint64_t gone = adopt_removals(m, dir);
	if (gone != all)
		bad(m, "%lu names are gone, %lu were told", (unsigned long)gone, (unsigned long)all);
	if (names_below(dir) == 0 && agree(m, op_clear(m->rig, dir->ino, 10, from, &removed), 0) && removed > 0)
		bad(m, "%lu names went of an empty directory", (unsigned long)removed);
}

/* ------------------------------------------------------------------ operations on files */

static void write_at(struct model *m, struct node *node, uint64_t handle, uint64_t offset, uint64_t bytes)
{
	const uint8_t *from = m->buffer + (bytes & 1 ? 16 : 0);
	uint64_t done;

	rig_pattern(m->buffer, m->random, bytes + 16);
	if (!agree(m, op_write(m->rig, node->ino, handle, offset, from, bytes, &done), 0))
		return;
	if (done == 0 || done > bytes)
		bad(m, "wrote %lu of %lu", (unsigned long)done, (unsigned long)bytes);
	m->full += done < bytes;
	put_bytes(node, offset, from, done);
	node->size = g4_max64(node->size, offset + done);
}

static uint64_t pick_length(struct model *m)
{
	switch (pick(m, 6)) {
	case 0:
		return (1 + pick(m, 4)) * 262144;
	case 1:
		return 1 + pick(m, 100);
	case 2:
		return (1 + pick(m, 16)) * G4_PAGE_BYTES;
	default:
		return 1 + pick(m, 30000);
	}
}

static void do_write(struct model *m)
{
	struct node *node = pick_node(m, is_file);

	m->doing = "write";
	if (node && node->nlink > 0)
		write_at(m, node, 0, pick_offset(m, node), g4_min64(pick_length(m), BUFFER_BYTES - 16));
}

static void do_read(struct model *m)
{
	struct node *node = pick_node(m, is_file);

	m->doing = "read";
	if (node && node->nlink > 0)
		check_range(m, node, 0, pick_offset(m, node), g4_min64(pick_length(m), BUFFER_BYTES - 16));
}

static void do_truncate(struct model *m)
{
	struct node *node = pick_node(m, is_file);

	m->doing = "truncate";
	if (!node || node->nlink == 0)
		return;
	uint64_t size = pick(m, 4) == 0 ? 0 : pick(m, 3) == 0 ? pick(m, MAX_FILE_BYTES) : pick(m, node->size % FAR + 1);
	if (agree(m, op_truncate(m->rig, node->ino, size), 0))
		set_size(node, size);
}

/* What a refused operation left of a range: each byte is the old one or zero. The model takes what is there. */
static void adopt_zeros(struct model *m, struct node *node, uint64_t offset, uint64_t bytes)
{
	uint64_t n = offset >= node->size ? 0 : g4_min64(bytes, node->size - offset), done;

	assert_int_equal(op_read(m->rig, node->ino, 0, offset, m->buffer, n, &done), 0);
	get_bytes(node, offset, m->other, n);
	for (uint64_t k = 0; k < n; k++)
		if (m->buffer[k] != m->other[k] && m->buffer[k] != 0)
			bad(m, "byte %lu is neither old nor zero", (unsigned long)(offset + k));
	for (uint64_t k = 0; k < n; k++)
		if (m->buffer[k] != m->other[k])
			put_bytes(node, offset + k, NULL, 1);
}

static void do_fallocate(struct model *m)
{
	static const uint32_t modes[] = {0,
					 G4_FALLOC_KEEP_SIZE,
					 G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					 G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					 G4_FALLOC_ZERO_RANGE,
					 G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE};
	struct node *node = pick_node(m, is_file);
	uint32_t mode = modes[pick(m, 6)];

	m->doing = "fallocate";
	if (!node || node->nlink == 0)
		return;
	uint64_t offset = pick_offset(m, node), bytes = g4_min64(pick_length(m), BUFFER_BYTES - 16);
	bool zeroes = mode & (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE);
	if (!agree(m, op_fallocate(m->rig, node->ino, mode, offset, bytes), 0)) {
		if (zeroes)
			adopt_zeros(m, node, offset, bytes);
		return;
	}
	if (zeroes)
		put_bytes(node, offset, NULL, bytes);
	if (!(mode & G4_FALLOC_KEEP_SIZE))
		node->size = g4_max64(node->size, offset + bytes);
}

/* What lies before the next data is zero; a hole that is told reads as zeros up to the next data. */
static void do_seek(struct model *m)
{
	struct node *node = pick_node(m, is_file);
	uint64_t found;

	m->doing = "seek";
	if (!node || node->nlink == 0)
		return;
	uint64_t offset = pick_offset(m, node);
	int rc = op_seek(m->rig, node->ino, offset, G4_SEEK_DATA, &found);
	if (rc == -G4_E_NOSPC) /* seeking writes back first */
		return;
	if (rc != 0 && rc != -G4_E_NXIO)
		bad(m, "SEEK_DATA: %s", g4_strerror(rc));
	uint64_t end = rc == 0 ? found : node->size;
	for (uint32_t k = 0; k < node->page_count; k++) {
		uint64_t at = node->pages[k].index * G4_PAGE_BYTES;
		for (uint64_t b = g4_max64(at, offset); b < g4_min64(at + G4_PAGE_BYTES, end); b++)
			if (node->pages[k].bytes[b - at])
				bad(m, "SEEK_DATA from %lu skips data at %lu", (unsigned long)offset, (unsigned long)b);
	}
	rc = op_seek(m->rig, node->ino, offset, G4_SEEK_HOLE, &found);
	if (rc != (offset < node->size ? 0 : -G4_E_NXIO) || (rc == 0 && (found < offset || found > node->size)))
		bad(m, "SEEK_HOLE from %lu gives %lu (%d)", (unsigned long)offset, (unsigned long)found, rc);
}

static void do_open(struct model *m)
{
	struct node *node = pick_node(m, is_file);

	m->doing = "open";
	if (!node || node->nlink == 0 || m->handle_count == MAX_HANDLES)
		return;
	uint64_t handle;
	if (agree(m, op_open(m->rig, node->ino, G4_OPEN_READ | G4_OPEN_WRITE, &handle), 0)) {
		m->handles[m->handle_count++] = (struct handle){handle, node};
		node->opens++;
	}
}

static void do_tmpfile(struct model *m)
{
	struct node *dir = pick_dir(m);
	uint64_t handle, ino;

	m->doing = "tmpfile";
	if (m->handle_count == MAX_HANDLES || !agree(m, op_tmpfile(m->rig, dir->ino, &ino, &handle), 0))
		return;
	struct node *node = node_new(m, ino, G4_S_IFREG | 0600);
	node->nlink = 0;
	node->opens = 1;
	m->handles[m->handle_count++] = (struct handle){handle, node};
}

static void close_handle(struct model *m, uint32_t k)
{
	struct node *node = m->handles[k].node;

	m->doing = "release";
	agree(m, op_release(m->rig, m->handles[k].handle), 0);
	m->handles[k] = m->handles[--m->handle_count];
	node->opens--;
	node_maybe_gone(m, node);
}

/* Files without a name are worked on, too. */
static void do_handle(struct model *m)
{
	if (m->handle_count == 0)
		return;
	uint32_t k = (uint32_t)pick(m, m->handle_count);
	struct handle *h = &m->handles[k];
	m->doing = "work on a handle";
	switch (pick(m, 5)) {
	case 0:
		close_handle(m, k);
		break;
	case 1:
		check_range(m, h->node, h->handle, pick_offset(m, h->node), 1 + pick(m, 50000));
		break;
	case 2: {
		uint64_t size = pick(m, h->node->size % FAR + 1);
		if (agree(m, op_truncate(m->rig, h->node->ino, size), 0))
			set_size(h->node, size);
		break;
	}
	default:
		write_at(m, h->node, h->handle, pick_offset(m, h->node), 1 + pick(m, 100000));
		break;
	}
}

/* ------------------------------------------------------------------ attributes */

static uint32_t find_xattr(const struct node *node, const char *name)
{
	uint32_t k = 0;

	while (k < node->xattr_count && strcmp(node->xattrs[k].name, name) != 0)
		k++;
	return k;
}

static void do_setxattr(struct model *m)
{
	static const uint32_t kinds[] = {0, 0, 0, G4_XATTR_CREATE, G4_XATTR_REPLACE};
	struct node *node = pick_node(m, takes_xattrs);
	uint64_t bytes = pick(m, 12) == 0 ? pick(m, 65537) : pick(m, 4) == 0 ? pick(m, 5000) : pick(m, 300);
	uint32_t flags = kinds[pick(m, 5)];
	char name[40];

	m->doing = "setxattr";
	if (!node)
		return;
	snprintf(name, sizeof(name), "user.%c%lu", m->tag, (unsigned long)pick(m, MAX_XATTRS));
	uint32_t k = find_xattr(node, name);
	bool exists = k < node->xattr_count;
	int wanted = exists && flags == G4_XATTR_CREATE	  ? -G4_E_EXIST :
		     !exists && flags == G4_XATTR_REPLACE ? -G4_E_NODATA :
							    0;
	rig_pattern(m->buffer, m->random, bytes);
	if (!agree(m, op_setxattr(m->rig, node->ino, name, m->buffer, bytes, flags), wanted))
		return;
	if (!exists) {
		memcpy(node->xattrs[k].name, name, sizeof(name));
		node->xattrs[node->xattr_count++].value = NULL;
	}
	free(node->xattrs[k].value);
	node->xattrs[k].value = (uint8_t *)malloc(bytes + 1);
	assert_non_null(node->xattrs[k].value);
	memcpy(node->xattrs[k].value, m->buffer, bytes);
	node->xattrs[k].bytes = bytes;
}

static void do_removexattr(struct model *m)
{
	struct node *node = pick_node(m, takes_xattrs);
	char name[40];

	m->doing = "removexattr";
	if (!node)
		return;
	snprintf(name, sizeof(name), "user.%c%lu", m->tag, (unsigned long)pick(m, MAX_XATTRS));
	uint32_t k = find_xattr(node, name);
	if (agree(m, op_removexattr(m->rig, node->ino, name), k < node->xattr_count ? 0 : -G4_E_NODATA)) {
		free(node->xattrs[k].value);
		node->xattrs[k] = node->xattrs[--node->xattr_count];
	}
}

static void do_setattr(struct model *m)
{
	struct node *node = pick_node(m, is_named);
	struct g4_attr attr = {0};
	uint32_t mask = (uint32_t)pick(m, 8); /* mode, uid, gid */

	m->doing = "setattr";
	if (!node || node->shared || mask == 0 || g4_is_link(node->mode))
		return;
	attr.mode = (uint32_t)pick(m, 01000);
	attr.uid = (uint32_t)pick(m, 1000);
	attr.gid = (uint32_t)pick(m, 1000);
	if (!agree(m, op_setattr(m->rig, node->ino, mask, &attr), 0))
		return;
	if (mask & G4_SET_MODE)
		node->mode = (node->mode & G4_S_IFMT) | attr.mode;
	if (mask & G4_SET_UID)
		node->uid = attr.uid;
	if (mask & G4_SET_GID)
		node->gid = attr.gid;
}

static void compare_attr(struct model *m, struct node *node, bool exact_times);

static void do_fsync(struct model *m)
{
	struct node *node = pick_node(m, is_named);
	bool all = pick(m, 3) == 0;

	m->doing = all ? "sync" : "fsync";
	if (node)
		agree(m, all ? op_sync(m->rig) : op_fsync(m->rig, node->ino), 0);
}

void model_step(struct model *m)
{
	static const struct {
		void (*run)(struct model *);
		uint32_t weight;
	} kinds[] = {
		{do_mknod, 10},	     {do_mkdir, 4},   {do_symlink, 3}, {do_link, 4},	  {do_remove, 12},
		{do_rename, 9},	     {do_write, 16},  {do_read, 10},   {do_truncate, 6},  {do_fallocate, 6},
		{do_seek, 2},	     {do_open, 3},    {do_tmpfile, 1}, {do_handle, 6},	  {do_setxattr, 6},
		{do_removexattr, 3}, {do_setattr, 4}, {do_fsync, 2},   {do_mkdir_all, 2}, {do_clear, 2},
	};
	uint64_t total = 0, k = 0;

	m->steps++;
	for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		total += kinds[k].weight;
	uint64_t choice = pick(m, total);
	for (k = 0; choice >= kinds[k].weight; k++)
		choice -= kinds[k].weight;
	kinds[k].run(m);
	if (m->careful)
		for (uint32_t n = 0; n < m->node_count; n++)
			compare_attr(m, m->nodes[n], false);
}

/* ------------------------------------------------------------------ comparing */

static void compare_attr(struct model *m, struct node *node, bool exact_times)
{
	struct g4_attr attr;
	int rc = op_getattr(m->rig, node->ino, &attr);

	if (rc < 0)
		bad(m, "ino %lx: getattr: %s", (unsigned long)node->ino, g4_strerror(rc));
	if (attr.mode != node->mode || (!node->shared && (attr.uid != node->uid || attr.gid != node->gid)))
		bad(m, "ino %lx: mode %o uid %u gid %u, %o %u %u wanted", (unsigned long)node->ino, attr.mode, attr.uid,
		    attr.gid, node->mode, node->uid, node->gid);
	if (!node->shared && attr.nlink != node->nlink)
		bad(m, "ino %lx: %u links, %u wanted", (unsigned long)node->ino, attr.nlink, node->nlink);
	if (!g4_is_dir(node->mode) && attr.size != node->size)
		bad(m, "ino %lx: size %lu, %lu wanted", (unsigned long)node->ino, (unsigned long)attr.size,
		    (unsigned long)node->size);
	if (exact_times && node->was_seen && !node->shared &&
	    (attr.mtime_ns != node->seen.mtime_ns || attr.ctime_ns != node->seen.ctime_ns ||
	     attr.btime_ns != node->seen.btime_ns))
		bad(m, "ino %lx: its times changed", (unsigned long)node->ino);
	node->seen = attr;
	node->was_seen = true;
}

static void compare_contents(struct model *m, struct node *node)
{
	const uint64_t chunk = 65536;

	for (uint64_t at = 0; at < g4_min64(node->size, FAR / 2) && at < 2 * MAX_FILE_BYTES; at += chunk)
		check_range(m, node, 0, at, chunk);
	for (uint32_t k = 0; k < node->page_count; k++)
		if (node->pages[k].index * G4_PAGE_BYTES >= 2 * MAX_FILE_BYTES)
			check_range(m, node, 0, node->pages[k].index * G4_PAGE_BYTES, 2 * G4_PAGE_BYTES);
	check_range(m, node, 0, node->size > 5000 ? node->size - 5000 : 0, 10000);
}

static void compare_xattrs(struct model *m, struct node *node)
{
	uint64_t bytes, names = 0;

	int rc = op_listxattr(m->rig, node->ino, m->buffer, BUFFER_BYTES, &bytes);
	if (rc < 0)
		bad(m, "listxattr: %s", g4_strerror(rc));
	for (uint64_t at = 0; at < bytes; at += strlen((char *)m->buffer + at) + 1, names++)
		if (find_xattr(node, (char *)m->buffer + at) == node->xattr_count)
			bad(m, "ino %lx has %s", (unsigned long)node->ino, (char *)m->buffer + at);
	if (names != node->xattr_count)
		bad(m, "ino %lx has %lu attributes, %u wanted", (unsigned long)node->ino, (unsigned long)names,
		    node->xattr_count);
	for (uint32_t k = 0; k < node->xattr_count; k++) {
		const struct attribute *a = &node->xattrs[k];
		rc = op_getxattr(m->rig, node->ino, a->name, m->buffer, BUFFER_BYTES, &bytes);
		if (rc < 0 || bytes != a->bytes || memcmp(m->buffer, a->value, bytes) != 0)
			bad(m, "ino %lx: %s differs (%s)", (unsigned long)node->ino, a->name,
			    rc ? g4_strerror(rc) : "");
	}
}

static void compare_listing(struct model *m, struct node *dir)
{
	uint64_t cookie = 0, bytes = 1, room = 1024 + pick(m, 20000);
	uint32_t names = 0;

	while (bytes > 0) {
		int rc = op_readdir(m->rig, dir->ino, cookie, m->buffer, room, &bytes);
		if (rc < 0)
			bad(m, "readdir: %s", g4_strerror(rc));
		for (uint64_t at = 0; at < bytes;) {
			struct g4_dirent head;
			char name[256];
			memcpy(&head, m->buffer + at, sizeof(head));
			memcpy(name, m->buffer + at + sizeof(head), head.name_bytes);
			name[head.name_bytes] = 0;
			at += head.record_bytes;
			cookie = head.cookie;
			if (name[0] == '.' || name[0] != m->tag)
				continue;
			struct entry *entry = find(dir, name);
			if (!entry || entry->node->ino != head.ino)
				bad(m, "%s in ino %lx is %s", name, (unsigned long)dir->ino,
				    entry ? "another inode" : "too much");
			names++;
		}
	}
	if (names != dir->entry_count)
		bad(m, "ino %lx has %u names, %u wanted", (unsigned long)dir->ino, names, dir->entry_count);
	for (uint32_t k = 0; k < dir->entry_count; k++) {
		struct g4_attr attr;
		int rc = op_lookup(m->rig, dir->ino, dir->entries[k].name, &attr);
		if (rc < 0 || attr.ino != dir->entries[k].node->ino)
			bad(m, "lookup of %s: %s", dir->entries[k].name, rc ? g4_strerror(rc) : "another inode");
	}
}

void model_compare(struct model *m, bool exact_times)
{
	if (!m->careful)
		m->doing = "comparing";
	for (uint32_t k = 0; k < m->node_count; k++) {
		struct node *node = m->nodes[k];
		compare_attr(m, node, exact_times);
		if (node->nlink == 0)
			continue;
		if (g4_is_dir(node->mode))
			compare_listing(m, node);
		if (g4_is_reg(node->mode))
			compare_contents(m, node);
		if (takes_xattrs(node))
			compare_xattrs(m, node);
		if (g4_is_link(node->mode)) {
			uint64_t bytes;
			int rc = op_readlink(m->rig, node->ino, (char *)m->buffer, 4096, &bytes);
			if (rc < 0 || bytes != node->size || memcmp(m->buffer, node->target, bytes) != 0)
				bad(m, "the link's target differs (%s)", rc ? g4_strerror(rc) : "");
		}
	}
}

void model_close_handles(struct model *m)
{
	while (m->handle_count > 0)
		close_handle(m, 0);
}

/* ------------------------------------------------------------------ life */

struct model *model_new(struct rig *rig, uint64_t seed, char tag, uint64_t own, uint64_t shared)
{
	struct model *m = (struct model *)calloc(1, sizeof(*m));

	assert_non_null(m);
	m->rig = rig;
	m->seed = m->random = seed;
	m->tag = tag;
	m->careful = rig_setting("G4_MODEL_CAREFUL", 0);
	m->buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, BUFFER_BYTES + G4_PAGE_BYTES);
	m->other = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, BUFFER_BYTES + G4_PAGE_BYTES);
	assert_non_null(m->buffer);
	assert_non_null(m->other);
	m->roots[m->root_count++] = node_new(m, own, G4_S_IFDIR | 0755);
	if (shared) {
		m->roots[m->root_count] = node_new(m, shared, G4_S_IFDIR | 0755);
		m->roots[m->root_count++]->shared = true;
	}
	return m;
}

void model_free(struct model *m)
{
	for (uint32_t k = 0; k < m->node_count; k++)
		node_free(m->nodes[k]);
	free(m->nodes);
	free(m->buffer);
	free(m->other);
	free(m);
}

uint64_t model_done(const struct model *m)
{
	return m->done;
}

uint64_t model_full(const struct model *m)
{
	return m->full;
}
