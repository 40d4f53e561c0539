/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a mounted file system. Of long files the first pages are read, and those where sparse files go on. */
#include "look.h"

#include <errno.h>

#include "fs/fs.h"
#include "memory.h"

#define NEAR_PAGES 160u
#define FAR_PAGES 2u
#define FAR_INDEX (UINT64_C(1) << 28)
#define READ_BYTES (64 * G4_KIB)

uint64_t page_index(uint32_t k)
{
	return k < NEAR_PAGES ? k : FAR_INDEX + (k - NEAR_PAGES);
}

static uint32_t pages_looked_at(uint64_t size)
{
	uint64_t pages = g4_pages_for(size);

	if (pages <= NEAR_PAGES)
		return (uint32_t)pages;
	return NEAR_PAGES + (pages > FAR_INDEX ? (uint32_t)g4_min64(pages - FAR_INDEX, FAR_PAGES) : 0);
}

static void *grow(void *array, uint32_t wanted, uint32_t *room, size_t bytes)
{
	if (wanted <= *room)
		return array;
	while (*room < wanted)
		*room = *room ? *room * 2 : 32;
	array = realloc(array, *room * bytes);
	if (!array)
		abort();
	return array;
}

static bool all_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, G4_PAGE_BYTES - 1) == 0;
}

static _Thread_local uint8_t *buffer; /* page-aligned */

/* By its number alone nobody tells an inode whose page has rotted from one that is gone: ESTALE. */
static bool may_go_on(const struct tree *tree, int rc)
{
	const int code = rc < 0 ? g4_errno(rc) : 0;

	return tree->tolerant && (code == EIO || code == EUCLEAN || code == ESTALE);
}

/* Pages from the k-th on, as many as lie in a row in the file, at most one read. */
static int see_run(struct rig *rig, uint64_t ino, struct tree *tree, const struct node *node, uint32_t k,
		   uint32_t *seen)
{
	bool lost[READ_BYTES / G4_PAGE_BYTES] = {false};
	uint32_t run = 1;
	uint64_t got = 0, more = 1;
	int rc = 0;

	while (k + run < node->page_count && page_index(k + run) == page_index(k) + run &&
	       run < READ_BYTES / G4_PAGE_BYTES)
		run++;
	/* in front of a page that can not be read it ends early, and what is asked for from there on is an error */
	for (; rc == 0 && more > 0 && got < run * G4_PAGE_BYTES; got += more) {
		more = 0;
		rc = op_read(rig, ino, 0, page_index(k) * G4_PAGE_BYTES + got, buffer + got, run * G4_PAGE_BYTES - got,
			     &more);
		if (!may_go_on(tree, rc))
			continue;
		lost[got / G4_PAGE_BYTES] = true;
		more = G4_PAGE_BYTES - got % G4_PAGE_BYTES;
		rc = 0;
	}
	if (rc < 0)
		return rc;
	if (got < run * G4_PAGE_BYTES)
		memset(buffer + got, 0, run * G4_PAGE_BYTES - got);
	for (uint32_t i = 0; i < run; i++) {
		const uint8_t *page = buffer + (uint64_t)i * G4_PAGE_BYTES;
		tree->pages[node->first_page + k + i] = lost[i]	       ? LOST_PAGE :
							all_zero(page) ? 0 :
									 hash_bytes(page, G4_PAGE_BYTES, 1) | 1;
	}
	*seen = run;
	return 0;
}

static int see_contents(struct rig *rig, uint64_t ino, struct tree *tree, struct node *node)
{
	node->page_count = pages_looked_at(node->size);
	node->first_page = tree->page_total;
	tree->page_total += node->page_count;
	tree->pages = (uint64_t *)grow(tree->pages, tree->page_total, &tree->page_room, sizeof(uint64_t));
	for (uint32_t k = 0, seen; k < node->page_count; k += seen) {
		int rc = see_run(rig, ino, tree, node, k, &seen);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int see_xattrs(struct rig *rig, uint64_t ino, struct node *node)
{
	char names[1024];
	uint64_t bytes, length;
	int rc = op_listxattr(rig, ino, names, sizeof(names), &bytes);

	for (uint64_t at = 0; rc == 0 && at < bytes; at += strlen(names + at) + 1) {
		rc = op_getxattr(rig, ino, names + at, buffer, READ_BYTES, &length);
		node->attributes += hash_bytes(names + at, strlen(names + at), 2) ^ hash_bytes(buffer, length, 3);
	}
	/* not listed, and there always */
	if (rc == 0)
		rc = op_getxattr(rig, ino, "gpu4fs.dedup", buffer, READ_BYTES, &length);
	if (rc == 0)
		node->attributes += hash_bytes(buffer, length, 5);
	return rc;
}

static int see_target(struct rig *rig, uint64_t ino, struct node *node)
{
	uint64_t bytes;
	int rc = op_readlink(rig, ino, (char *)buffer, G4_PATH_MAX, &bytes);

	node->attributes += hash_bytes(buffer, bytes, 4);
	return rc;
}

static int see_node(struct rig *rig, struct tree *tree, uint64_t ino, uint32_t parent_id, const char *path,
		    struct node *node)
{
	struct g4_attr attr;
	int rc = op_getattr(rig, ino, &attr);

	memset(node, 0, sizeof(*node));
	snprintf(node->path, sizeof(node->path), "%s", path);
	if (rc < 0)
		return rc;
	node->id = attr.uid;
	node->parent_id = parent_id;
	node->mode = attr.mode;
	node->nlink = attr.nlink;
	node->attributes = attr.gid + (attr.rdev << 20);
	const uint64_t stamp[] = {attr.mtime_ns, attr.ctime_ns, attr.btime_ns, attr.generation, attr.flags};
	node->stamp = hash_bytes(stamp, sizeof(stamp), 5);
	if (g4_is_reg(attr.mode)) {
		node->size = attr.size;
		rc = see_contents(rig, ino, tree, node);
	}
	if (rc == 0 && g4_is_link(attr.mode))
		return see_target(rig, ino, node);
	return rc == 0 && (g4_is_reg(attr.mode) || g4_is_dir(attr.mode)) ? see_xattrs(rig, ino, node) : rc;
}

static int see_directory(struct rig *rig, struct tree *tree, uint64_t dir, uint32_t dir_id, const char *path);

static int see_entry(struct rig *rig, struct tree *tree, uint32_t dir_id, const char *path,
		     const struct g4_dirent *head, const char *name)
{
	char full[PATH_MAX_BYTES];
	struct node node;

	if (snprintf(full, sizeof(full), "%s%s%.*s", path, *path ? "/" : "", (int)head->name_bytes, name) >=
	    (int)sizeof(full))
		return -G4_E_NAMETOOLONG;
	int rc = see_node(rig, tree, head->ino, dir_id, full, &node);
	node.damaged = may_go_on(tree, rc);
	if (rc < 0 && !node.damaged)
		return rc;
	tree->nodes = (struct node *)grow(tree->nodes, tree->count + 1, &tree->room, sizeof(struct node));
	const uint32_t at = tree->count++;
	tree->nodes[at] = node;
	rc = g4_is_dir(node.mode) ? see_directory(rig, tree, head->ino, node.id, full) : 0;
	if (may_go_on(tree, rc)) {
		tree->nodes[at].damaged = true;
		rc = 0;
	}
	return rc;
}

static int see_directory(struct rig *rig, struct tree *tree, uint64_t dir, uint32_t dir_id, const char *path)
{
	uint64_t bytes, cookie = 0;
	uint8_t list[4096];

	for (;;) {
		int rc = op_readdir(rig, dir, cookie, list, sizeof(list), &bytes);
		if (rc < 0 || bytes == 0)
			return rc;
		for (uint64_t at = 0; at < bytes;) {
			struct g4_dirent head;
			memcpy(&head, list + at, sizeof(head));
			const char *name = (const char *)list + at + sizeof(head);
			bool dots =
				name[0] == '.' && (head.name_bytes == 1 || (head.name_bytes == 2 && name[1] == '.'));
			const bool unseen = dots || (head.name_bytes == strlen(UNSEEN) &&
						     memcmp(name, UNSEEN, head.name_bytes) == 0);
			rc = unseen ? 0 : see_entry(rig, tree, dir_id, path, &head, name);
			if (rc < 0)
				return rc;
			cookie = head.cookie;
			at += head.record_bytes;
		}
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

int look(struct rig *rig, struct tree *tree, const char **what)
{
	struct node root;

	if (!buffer)
		buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, READ_BYTES);
	if (!buffer)
		abort();
	tree->count = tree->page_total = 0;
	int rc = see_node(rig, tree, G4_NODE_ROOT, 0, "", &root);
	*what = "the root directory";
	root.damaged = may_go_on(tree, rc);
	if (rc < 0 && !root.damaged)
		return rc;
	tree->nodes = (struct node *)grow(tree->nodes, 1, &tree->room, sizeof(struct node));
	tree->nodes[tree->count++] = root;
	rc = see_directory(rig, tree, G4_NODE_ROOT, root.id, "");
	if (may_go_on(tree, rc)) {
		tree->nodes[0].damaged = true;
		rc = 0;
	}
	*what = rc < 0 ? "some name or what it leads to" : NULL;
	qsort(tree->nodes, tree->count, sizeof(struct node), by_path);
	return rc;
}

/* ------------------------------------------------------------------ trees */

void tree_free(struct tree *tree)
{
	free(tree->nodes);
	free(tree->pages);
	memset(tree, 0, sizeof(*tree));
}

void tree_copy(struct tree *to, const struct tree *from)
{
	to->nodes = (struct node *)grow(to->nodes, from->count, &to->room, sizeof(struct node));
	to->pages = (uint64_t *)grow(to->pages, from->page_total, &to->page_room, sizeof(uint64_t));
	memcpy(to->nodes, from->nodes, from->count * sizeof(struct node));
	if (from->page_total)
		memcpy(to->pages, from->pages, from->page_total * sizeof(uint64_t));
	to->count = from->count;
	to->page_total = from->page_total;
}

const struct node *tree_find(const struct tree *tree, const char *path)
{
	uint32_t low = 0, high = tree->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int order = strcmp(tree->nodes[middle].path, path);
		if (order == 0)
			return &tree->nodes[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct node *tree_find_id(const struct tree *tree, uint32_t id)
{
	for (uint32_t k = 0; k < tree->count; k++)
		if (tree->nodes[k].id == id)
			return &tree->nodes[k];
	return NULL;
}

uint64_t node_page(const struct tree *tree, const struct node *node, uint32_t k)
{
	return k < node->page_count ? tree->pages[node->first_page + k] : 0;
}

bool same_but_contents(const struct node *a, const struct node *b)
{
	return a->id == b->id && a->mode == b->mode && a->nlink == b->nlink && a->attributes == b->attributes &&
	       strcmp(a->path, b->path) == 0;
}

void tree_print(const struct tree *tree, const char *title)
{
	printf("    %s:\n", title);
	for (uint32_t k = 0; k < tree->count; k++) {
		const struct node *node = &tree->nodes[k];
		printf("      %-18s id %u mode %06o links %u size %lu attributes %08lx pages",
		       *node->path ? node->path : "/", node->id, node->mode, node->nlink, (unsigned long)node->size,
		       (unsigned long)(node->attributes & 0xffffffff));
		for (uint32_t p = 0; p < node->page_count && p < 12; p++)
			printf(" %lx", (unsigned long)(node_page(tree, node, p) & 0xfff));
		printf("%s\n", node->page_count > 12 ? " ..." : "");
	}
}
