/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of a backup tell: failures, notes about files, progress. */
#include <stdio.h>
#include <stdlib.h>

#include "store/backup_parts.h"

static const char *above(const void **at)
{
	const struct backup_folder *folder = (const struct backup_folder *)*at;

	*at = folder != NULL ? folder->parent : NULL;
	return folder != NULL ? folder->name : NULL;
}

char *backup_path(const struct backup_folder *folder, const char *name)
{
	return store_path_up(folder, name, above);
}

void backup_fail(struct backup *op, int rc)
{
	pthread_mutex_lock(&op->notes);
	if (op->rc == 0) {
		op->rc = rc;
		snprintf(op->text, sizeof(op->text), "%s", store_message());
	}
	pthread_mutex_unlock(&op->notes);
	atomic_store(&op->failed, true);
	pthread_mutex_lock(&op->tree); /* the walker may wait */
	pthread_cond_signal(&op->written);
	pthread_mutex_unlock(&op->tree);
	if (op->keeping.pool != NULL)
		store_pool_stop(op->keeping.pool);
}

void backup_note(struct backup *op, enum store_note kind, const struct backup_folder *folder, const char *name,
		 const char *sentence)
{
	char *path = backup_path(folder, name);

	if (kind == STORE_NOTE_UNREAD)
		atomic_fetch_add(&op->unread, 1);
	if (kind == STORE_NOTE_CHANGED)
		atomic_fetch_add(&op->changed, 1);
	pthread_mutex_lock(&op->notes);
	op->options->note(op->options->user, kind, path, sentence);
	pthread_mutex_unlock(&op->notes);
	free(path);
}

void backup_progress(struct backup *op)
{
	struct store_backup_stats *stats = op->stats;

	if (op->options->progress == NULL || pthread_mutex_trylock(&op->notes) != 0)
		return;
	if (!store_progress_due(&op->progress_ns)) {
		pthread_mutex_unlock(&op->notes);
		return;
	}
	stats->files = atomic_load(&op->files);
	stats->bytes = atomic_load(&op->bytes);
	stats->read_bytes = atomic_load(&op->read_bytes);
	stats->new_bytes = atomic_load(&op->keeping.new_bytes);
	stats->done_bytes = atomic_load(&op->done_bytes);
	stats->expected_bytes = atomic_load(&op->expected_bytes);
	op->options->progress(op->options->user, stats);
	pthread_mutex_unlock(&op->notes);
}
