/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a backup: each collects its entries in the order of names, writes what is complete from its beginning on as pieces, and
 * becomes an entry of its parent when all are there.
 */
#include <stdlib.h>
#include <unistd.h>

#include "store/backup_parts.h"

struct backup_slot *backup_add_slot(struct backup *op, struct backup_folder *folder, const char *name)
{
	const size_t bytes = strlen(name) + 1;
	struct backup_slot *slot = (struct backup_slot *)store_alloc(sizeof(*slot) + bytes);

	slot->folder = folder;
	memcpy(slot->name, name, bytes);
	pthread_mutex_lock(&op->tree);
	while (folder->waiting >= op->waiting_max && !atomic_load(&op->failed))
		pthread_cond_wait(&op->written, &op->tree);
	if (folder->first == NULL)
		folder->first = slot;
	else
		folder->last->next = slot;
	folder->last = slot;
	folder->waiting++;
	pthread_mutex_unlock(&op->tree);
	return slot;
}

struct backup_folder *backup_new_folder(struct backup *op)
{
	struct backup_folder *folder = (struct backup_folder *)store_alloc(sizeof(*folder));

	folder->fd = -1;
	pthread_mutex_lock(&op->tree);
	folder->next = op->folders;
	folder->link = &op->folders;
	if (folder->next != NULL)
		folder->next->link = &folder->next;
	op->folders = folder;
	pthread_mutex_unlock(&op->tree);
	return folder;
}

static void free_folder(struct backup *op, struct backup_folder *folder)
{
	pthread_mutex_lock(&op->tree);
	*folder->link = folder->next;
	if (folder->next != NULL)
		folder->next->link = folder->link;
	pthread_mutex_unlock(&op->tree);
	if (folder->fd >= 0)
		close(folder->fd);
	while (folder->first != NULL) {
		struct backup_slot *next = folder->first->next;

		free(folder->first->entry);
		free(folder->first);
		folder->first = next;
	}
	free(folder->name);
	store_buf_free(&folder->attributes);
	store_pieces_free(&folder->pieces);
	free(folder);
}

void backup_free_folders(struct backup *op)
{
	while (op->folders != NULL)
		free_folder(op, op->folders);
}

/* The first slot leaves the folder, with the tree's mutex held. */
static void drop_first(struct backup *op, struct backup_folder *folder)
{
	struct backup_slot *slot = folder->first;

	folder->first = slot->next;
	if (folder->waiting-- == op->waiting_max)
		pthread_cond_signal(&op->written);
	free(slot->entry);
	free(slot);
}

/* The writer of the folder, with the tree's mutex held, which it gives back for the work: moves entries into pieces. */
static int write_entries(struct backup_worker *w, struct backup_folder *folder)
{
	struct backup *op = w->op;
	int rc = 0;

	while (rc == 0 && folder->first != NULL && folder->first->complete) {
		const struct backup_slot *slot = folder->first;
		bool ends = false;

		if (slot->entry != NULL)
			store_buf_add(&folder->pieces.piece, slot->entry, slot->bytes);
		if (slot->entry != NULL || slot->added)
			ends = store_piece_ends(folder->pieces.piece.size, (const uint8_t *)slot->name,
						strlen(slot->name));
		drop_first(op, folder);
		if (ends) {
			pthread_mutex_unlock(&op->tree);
			rc = store_cutter_piece(&w->cutter, &folder->pieces);
			pthread_mutex_lock(&op->tree);
		}
	}
	return rc;
}

/* Its own entry, from what it holds. */
static void folder_entry(struct backup *op, const struct backup_folder *folder, struct store_buf *entry)
{
	struct store_node node;

	backup_describe(op, &node, &folder->st, folder->name, &folder->attributes, folder->attributes_count);
	node.type = STORE_NODE_DIR;
	node.content = (struct store_content){folder->pieces.content.data, folder->pieces.content.size,
					      folder->pieces.content_count};
	entry->size = 0;
	store_node_write(entry, &node);
}

/* Writes what is complete of a folder, unless somebody does, with the tree's mutex held. True: all of it is written. */
static bool advance(struct backup_worker *w, struct backup_folder *folder, int *rc)
{
	if (folder->writing)
		return false;
	folder->writing = true;
	*rc = write_entries(w, folder);
	folder->writing = false;
	return folder->scanned && folder->first == NULL && *rc == 0;
}

/* All entries of a folder are written. Its slot in its parent, whose entry is then in `own`, or NULL: it was the root. */
static struct backup_slot *end_folder(struct backup_worker *w, struct backup_folder *folder, struct store_buf *own,
				      int *rc)
{
	struct backup_slot *slot = folder->slot;
	struct backup *op = w->op;

	*rc = store_cutter_piece(&w->cutter, &folder->pieces);
	if (*rc == 0 && folder->parent == NULL) {
		pthread_mutex_lock(&op->tree);
		op->root_bytes = folder->pieces.content;
		memset(&folder->pieces.content, 0, sizeof(folder->pieces.content));
		op->root =
			(struct store_content){op->root_bytes.data, op->root_bytes.size, folder->pieces.content_count};
		op->root_complete = true;
		pthread_mutex_unlock(&op->tree);
	}
	if (*rc == 0 && folder->parent != NULL)
		folder_entry(op, folder, own);
	free_folder(op, folder);
	return *rc == 0 ? slot : NULL;
}

/* With the tree's mutex held. What is first goes to its piece at once. */
static void complete(struct backup_slot *slot, const struct store_buf *entry)
{
	struct backup_folder *folder = slot->folder;

	if (entry != NULL && folder->first == slot && !folder->writing) {
		store_buf_add(&folder->pieces.piece, entry->data, entry->size);
		slot->added = true;
	} else if (entry != NULL) {
		slot->entry = (uint8_t *)store_alloc(entry->size);
		slot->bytes = (uint32_t)entry->size;
		memcpy(slot->entry, entry->data, entry->size);
	}
	slot->complete = true;
}

/* A folder of which something is complete, and those above it. */
static void go_up(struct backup_worker *w, struct backup_folder *folder, bool whole, int rc)
{
	struct backup *op = w->op;
	struct store_buf own = {0};

	while (whole && rc == 0) {
		struct backup_slot *slot = end_folder(w, folder, &own, &rc);

		if (slot == NULL)
			break;
		folder = slot->folder;
		pthread_mutex_lock(&op->tree);
		complete(slot, &own);
		whole = advance(w, folder, &rc);
		pthread_mutex_unlock(&op->tree);
	}
	store_buf_free(&own);
	if (rc != 0)
		backup_fail(op, rc);
}

void backup_complete(struct backup_worker *w, struct backup_slot *slot, const struct store_buf *entry)
{
	struct backup_folder *folder = slot->folder;
	struct backup *op = w->op;
	int rc = 0;

	pthread_mutex_lock(&op->tree);
	complete(slot, entry);
	const bool whole = advance(w, folder, &rc);
	pthread_mutex_unlock(&op->tree);
	go_up(w, folder, whole, rc);
}

void backup_scanned(struct backup_worker *w, struct backup_folder *folder)
{
	int rc = 0;

	pthread_mutex_lock(&w->op->tree);
	folder->scanned = true;
	const bool whole = advance(w, folder, &rc);
	pthread_mutex_unlock(&w->op->tree);
	go_up(w, folder, whole, rc);
}
