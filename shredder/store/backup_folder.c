/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a backup: each collects its entries in the order of names, writes what is complete from its beginning on as pieces, and
 * becomes an entry of its parent when all are there.
 */
#include <stdlib.h>
#include <unistd.h>

#include "store/backup_parts.h"

static int by_slot_name(const void *a, const void *b)
{
	return strcmp(((const struct backup_slot *)a)->name, ((const struct backup_slot *)b)->name);
}

void backup_sort_slots(struct backup_folder *folder)
{
	if (folder->count > 1)
		qsort(folder->slots, folder->count, sizeof(*folder->slots), by_slot_name);
}

void backup_add_slot(struct backup_folder *folder, const char *name)
{
	if (folder->count == folder->room) {
		folder->room = folder->room == 0 ? 16 : 2 * folder->room;
		folder->slots =
			(struct backup_slot *)store_realloc(folder->slots, folder->room * sizeof(*folder->slots));
	}
	folder->slots[folder->count++] = (struct backup_slot){.name = store_strdup(name)};
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
	for (size_t i = 0; i < folder->count; i++) {
		free(folder->slots[i].name);
		free(folder->slots[i].entry);
	}
	free(folder->slots);
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

/* The writer of the folder, with the tree's mutex held, which it gives back for the work: moves entries into pieces. */
static int write_entries(struct backup_worker *w, struct backup_folder *folder)
{
	struct backup *op = w->op;
	int rc = 0;

	while (rc == 0 && folder->written < folder->count && folder->slots[folder->written].complete) {
		struct backup_slot *slot = &folder->slots[folder->written++];

		if (slot->entry == NULL)
			continue;
		store_buf_add(&folder->pieces.piece, slot->entry, slot->bytes);
		free(slot->entry);
		slot->entry = NULL;
		if (store_piece_ends(folder->pieces.piece.size, (const uint8_t *)slot->name, strlen(slot->name))) {
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

void backup_complete(struct backup_worker *w, struct backup_folder *folder, size_t place, const struct store_buf *entry)
{
	struct backup *op = w->op;
	struct store_buf own = {0};
	int rc = 0;

	while (folder != NULL && rc == 0) {
		pthread_mutex_lock(&op->tree);
		if (place == SIZE_MAX) {
			folder->scanned = true;
		} else {
			struct backup_slot *slot = &folder->slots[place];

			if (entry != NULL) {
				slot->entry = (uint8_t *)store_alloc(entry->size);
				slot->bytes = (uint32_t)entry->size;
				memcpy(slot->entry, entry->data, entry->size);
			}
			slot->complete = true;
		}
		if (folder->writing) {
			pthread_mutex_unlock(&op->tree);
			break;
		}
		folder->writing = true;
		rc = write_entries(w, folder);
		folder->writing = false;
		const bool whole = folder->scanned && folder->written == folder->count;
		pthread_mutex_unlock(&op->tree);
		if (!whole || rc != 0)
			break;
		rc = store_cutter_piece(&w->cutter, &folder->pieces);
		if (folder->parent == NULL) {
			pthread_mutex_lock(&op->tree);
			op->root_bytes = folder->pieces.content;
			memset(&folder->pieces.content, 0, sizeof(folder->pieces.content));
			op->root = (struct store_content){op->root_bytes.data, op->root_bytes.size,
							  folder->pieces.content_count};
			op->root_complete = true;
			pthread_mutex_unlock(&op->tree);
			free_folder(op, folder);
			break;
		}
		folder_entry(op, folder, &own);
		entry = &own;
		place = folder->place;
		struct backup_folder *parent = folder->parent;
		free_folder(op, folder);
		folder = parent;
	}
	store_buf_free(&own);
	if (rc != 0)
		backup_fail(op, rc);
}
