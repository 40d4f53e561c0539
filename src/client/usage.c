/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tree takes: a walk of it by the engine's TALLY, a command or a few for each directory. Several threads may share it: each takes
 * a directory from the stack, has the engine sum it up, and adds what came back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/client.h"

#define TALLY_BYTES (32u * 1024)

#define MOST_THREADS 64u

struct usage {
	gpu4fs *fs;
	int (*progress)(void *context, const struct gpu4fs_usage *so_far);
	void *context;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t changed;
	uint32_t busy; /* threads with a directory, in which they may find more */
	int rc;	       /* the first that was wrong; then nobody goes on */
	struct gpu4fs_usage sum;
	struct g4c_node *stack; /* directories to look into */
	uint64_t depth, stack_room;
	uint64_t *seen; /* inodes that were told of one by one; open addressing, 0: empty */
	uint64_t seen_count, seen_room;
};

/* ------------------------------------------------------------------ what was met */

static uint64_t slot_of(const struct usage *usage, uint64_t ino)
{
	uint64_t at = (ino * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (usage->seen_room - 1);

	while (usage->seen[at] != 0 && usage->seen[at] != ino)
		at = (at + 1) & (usage->seen_room - 1);
	return at;
}

static int grow_seen(struct usage *usage)
{
	struct usage larger = *usage;

	larger.seen_room = usage->seen_room ? 2 * usage->seen_room : 1024;
	larger.seen = calloc(larger.seen_room, sizeof(*larger.seen));
	if (!larger.seen)
		return -ENOMEM;
	for (uint64_t k = 0; k < usage->seen_room; k++)
		if (usage->seen[k] != 0)
			larger.seen[slot_of(&larger, usage->seen[k])] = usage->seen[k];
	free(usage->seen);
	*usage = larger;
	return 0;
}

/* 1: it was met before. Directories too: an image may say that one is below itself. */
static int meet(struct usage *usage, uint64_t ino)
{
	if (2 * (usage->seen_count + 1) > usage->seen_room) {
		int rc = grow_seen(usage);
		if (rc)
			return rc;
	}
	const uint64_t at = slot_of(usage, ino);
	if (usage->seen[at] == ino)
		return 1;
	usage->seen[at] = ino;
	usage->seen_count++;
	return 0;
}

static int push(struct usage *usage, struct g4c_node node)
{
	if (usage->depth == usage->stack_room) {
		const uint64_t room = usage->stack_room ? 2 * usage->stack_room : 64;
		struct g4c_node *stack = realloc(usage->stack, room * sizeof(*stack));
		if (!stack)
			return -ENOMEM;
		usage->stack = stack;
		usage->stack_room = room;
	}
	usage->stack[usage->depth++] = node;
	return 0;
}

/* ------------------------------------------------------------------ summing up */

static void count_one(struct gpu4fs_usage *sum, uint32_t mode, uint64_t size, uint64_t blocks)
{
	sum->directories += S_ISDIR(mode);
	sum->files += S_ISREG(mode);
	sum->links += S_ISLNK(mode);
	sum->others += !S_ISDIR(mode) && !S_ISREG(mode) && !S_ISLNK(mode);
	sum->bytes += S_ISREG(mode) || S_ISLNK(mode) ? size : 0;
	sum->blocks += blocks;
}

static int take_item(struct usage *usage, const struct g4_tally_item *item)
{
	const struct g4c_node node = {item->ino, (uint32_t)item->generation, item->token};
	const int met = meet(usage, item->ino);

	if (met)
		return met < 0 ? met : 0;
	if (S_ISDIR(item->mode))
		return push(usage, node);
	count_one(&usage->sum, item->mode, item->size, item->blocks_512);
	return 0;
}

static int take(struct usage *usage, const struct g4_tally *tally)
{
	const struct g4_tally_item *items = (const struct g4_tally_item *)(const void *)(tally + 1);
	uint64_t several = 0;
	int rc = 0;

	for (uint32_t k = 0; k < tally->items && rc == 0; k++) {
		several += !S_ISDIR(items[k].mode);
		rc = take_item(usage, &items[k]);
	}
	usage->sum.directories += tally->directories;
	usage->sum.files += tally->files;
	usage->sum.links += tally->links;
	usage->sum.others += tally->names - several - tally->directories - tally->files - tally->links;
	usage->sum.bytes += tally->bytes;
	usage->sum.blocks += tally->blocks_512;
	return rc;
}

/*
 * One command, without the lock, and what it told, with it. *cookie: where to begin, and then where to go on; UINT64_MAX: at the next
 * directory.
 */
static int look_into(struct usage *usage, struct g4c_node node, uint64_t *cookie, uint8_t *data)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_TALLY, .cookie = *cookie, .length = TALLY_BYTES, .data = data, .cred = &usage->fs->cred};
	const struct g4_tally *tally = (const struct g4_tally *)(const void *)data;

	g4c_set_node(&cmd, node);
	pthread_mutex_unlock(&usage->lock);
	int rc = g4c_run(usage->fs->mount->engine, &cmd);
	pthread_mutex_lock(&usage->lock);
	*cookie = rc ? UINT64_MAX : tally->cookie;
	if (rc == 0)
		return take(usage, tally);
	if (rc == -EACCES || rc == -EUCLEAN) { /* the rest can be counted */
		usage->sum.unread++;
		return 0;
	}
	return rc == -ESTALE || rc == -ENOENT ? 0 : rc; /* removed meanwhile */
}

/* With the lock: directories, until there is none and nobody may find one. */
static void walk(struct usage *usage, uint8_t *data)
{
	while (usage->rc == 0 && (usage->depth > 0 || usage->busy > 0)) {
		if (usage->depth == 0) {
			pthread_cond_wait(&usage->changed, &usage->lock);
			continue;
		}
		const struct g4c_node node = usage->stack[--usage->depth];
		uint64_t cookie = 0;
		usage->busy++;
		while (usage->rc == 0 && cookie != UINT64_MAX) {
			const int rc = look_into(usage, node, &cookie, data);
			if (usage->rc == 0)
				usage->rc = rc;
			if (usage->rc == 0 && usage->progress && usage->progress(usage->context, &usage->sum))
				usage->rc = -ECANCELED;
			pthread_cond_broadcast(&usage->changed); /* there may be directories */
		}
		usage->busy--;
	}
	pthread_cond_broadcast(&usage->changed);
}

static void *help(void *context)
{
	struct usage *usage = context;
	uint8_t *data = malloc(TALLY_BYTES);

	if (!data) /* the others do it */
		return NULL;
	pthread_mutex_lock(&usage->lock);
	walk(usage, data);
	pthread_mutex_unlock(&usage->lock);
	free(data);
	return NULL;
}

static void walk_together(struct usage *usage, uint32_t threads, uint8_t *data)
{
	pthread_t helpers[MOST_THREADS];
	uint32_t started = 0;

	while (started + 1 < threads && pthread_create(&helpers[started], NULL, help, usage) == 0)
		started++;
	pthread_mutex_lock(&usage->lock);
	walk(usage, data);
	pthread_mutex_unlock(&usage->lock);
	for (uint32_t k = 0; k < started; k++)
		pthread_join(helpers[k], NULL);
}

int gpu4fs_usage_by(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t threads, struct gpu4fs_usage *out,
		    int (*progress)(void *context, const struct gpu4fs_usage *so_far), void *context)
{
	struct usage usage = {.fs = fs,
			      .progress = progress,
			      .context = context,
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .changed = PTHREAD_COND_INITIALIZER};
	uint8_t *data = malloc(TALLY_BYTES);
	struct g4_attr attr;
	int rc = threads == 0 || threads > MOST_THREADS ? -EINVAL :
		 data					? g4c_resolve(fs, at, path, false, &attr) :
							  -ENOMEM;

	if (rc == 0) {
		count_one(&usage.sum, attr.mode, attr.size, attr.blocks_512);
		if (S_ISDIR(attr.mode)) {
			rc = meet(&usage, attr.ino);
			if (rc == 0)
				rc = push(&usage, g4c_node_of(&attr));
		}
	}
	if (rc == 0) {
		walk_together(&usage, threads, data);
		rc = usage.rc;
	}
	if (rc == 0)
		*out = usage.sum;
	free(usage.stack);
	free(usage.seen);
	free(data);
	return rc;
}

int gpu4fs_usage(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_usage *out,
		 int (*progress)(void *context, const struct gpu4fs_usage *so_far), void *context)
{
	return gpu4fs_usage_by(fs, at, path, 1, out, progress, context);
}
