/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/descent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_OPEN 64u /* levels, with the first, that the walk keeps open */
#define MOST_LEFT 32u /* levels that it has left, open until their names are done */
#define QUEUE 256u    /* names that wait for a helper */

struct job {
	struct g4_level *level;
	char *name;
	struct gpu4fs_stat stat;
};

struct walk {
	struct g4_descent *descent;
	struct g4_cli_links met; /* directories of the source, by generation and inode number */
	pthread_mutex_t lock;	 /* of all below, and of counts of levels */
	pthread_cond_t work;	 /* there is some, or there will be none */
	pthread_cond_t done;	 /* a name is */
	struct job queue[QUEUE];
	uint32_t first, waiting;
	uint32_t left; /* levels where only names are at work */
	bool over;
};

struct helper {
	pthread_t id;
	struct walk *walk;
	uint32_t worker;
};

/* ------------------------------------------------------------------ levels */

struct g4_level *g4_level_new(struct g4_level *above, const char *name)
{
	const size_t bytes = strlen(name) + 1;
	struct g4_level *level = calloc(1, sizeof(*level) + bytes);

	if (level == NULL)
		return NULL;
	memcpy(level->name, name, bytes);
	level->above = above;
	level->depth = above != NULL ? above->depth + 1 : 0;
	level->to_fd = -1;
	level->at_work = 1;
	level->users = 1;
	return level;
}

#define MORE "..." /* stands for what does not fit */

bool g4_level_path(const char *base, const struct g4_level *level, const char *name, char *to, size_t room)
{
	size_t start = room - 1;
	const char *part = name;
	bool fits = true;

	to[start] = 0;
	for (;;) { /* from its end on */
		const size_t bytes = strlen(part);
		const bool slash = bytes > 0 && to[start] != 0;
		fits = bytes + slash + strlen(MORE "/") <= start;
		if (!fits)
			break;
		if (slash)
			to[--start] = '/';
		start -= bytes;
		memcpy(to + start, part, bytes);
		if (level == NULL)
			break;
		part = level->above != NULL ? level->name : base;
		level = level->above;
	}
	if (!fits) {
		start -= strlen(MORE "/");
		memcpy(to + start, MORE "/", strlen(MORE "/"));
	}
	memmove(to, to + start, room - start);
	return fits;
}

char *g4_level_whole_path(const char *base, const struct g4_level *level, const char *name)
{
	size_t room = strlen(base) + strlen(name) + 2 + sizeof(MORE "/");

	for (const struct g4_level *at = level; at != NULL; at = at->above)
		room += strlen(at->name) + 1;
	char *path = malloc(room);
	if (path != NULL)
		(void)g4_level_path(base, level, name, path, room);
	return path;
}

static void close_level(struct g4_level *level)
{
	if (level->from != NULL)
		gpu4fs_close(level->from);
	if (level->to != NULL)
		gpu4fs_close(level->to);
	if (level->to_fd >= 0)
		close(level->to_fd);
	level->from = level->to = NULL;
	level->to_fd = -1;
}

/* Has the lock. */
static void free_unused(struct g4_level *level)
{
	while (level != NULL && --level->users == 0) {
		struct g4_level *above = level->above;
		free(level->names);
		free(level);
		level = above;
	}
}

/* Nothing is at work in it any more. Has the lock, and gives it back meanwhile. */
static void finish_level(struct walk *walk, struct g4_level *level, uint32_t worker)
{
	pthread_mutex_unlock(&walk->lock);
	if (!level->lost)
		walk->descent->leave(walk->descent, level, !g4_cli_interrupted(), worker);
	close_level(level);
	pthread_mutex_lock(&walk->lock);
	free_unused(level);
}

/* A name of the level is done. */
static void finish_name(struct walk *walk, struct g4_level *level, uint32_t worker)
{
	pthread_mutex_lock(&walk->lock);
	if (--level->at_work == 0) { /* the walk has left it */
		finish_level(walk, level, worker);
		walk->left--;
	}
	pthread_cond_signal(&walk->done);
	pthread_mutex_unlock(&walk->lock);
}

/* ------------------------------------------------------------------ names */

static void do_job(struct walk *walk, struct job *job, uint32_t worker)
{
	if (!g4_cli_interrupted())
		walk->descent->take(walk->descent, job->level, job->name, &job->stat, worker);
	free(job->name);
	finish_name(walk, job->level, worker);
}

/* Has the lock, gives it back. */
static void do_next(struct walk *walk, uint32_t worker)
{
	struct job job = walk->queue[walk->first];

	walk->first = (walk->first + 1) % QUEUE;
	walk->waiting--;
	pthread_mutex_unlock(&walk->lock);
	do_job(walk, &job, worker);
}

static void *help(void *context)
{
	const struct helper *helper = context;
	struct walk *walk = helper->walk;

	pthread_mutex_lock(&walk->lock);
	while (walk->waiting > 0 || !walk->over) {
		if (walk->waiting == 0) {
			pthread_cond_wait(&walk->work, &walk->lock);
			continue;
		}
		do_next(walk, helper->worker);
		pthread_mutex_lock(&walk->lock);
	}
	pthread_mutex_unlock(&walk->lock);
	return NULL;
}

/* Gives a name to a helper, or does it. Names of one file are done in order, by the walking thread. */
static int pass_on(struct walk *walk, struct g4_level *level, const char *name, const struct gpu4fs_stat *stat)
{
	struct job job = {.level = level, .name = strdup(name), .stat = *stat};

	if (job.name == NULL)
		return -ENOMEM;
	pthread_mutex_lock(&walk->lock);
	level->at_work++;
	const bool here = walk->descent->jobs == 1 || stat->nlink > 1 || walk->waiting == QUEUE;
	if (!here) {
		walk->queue[(walk->first + walk->waiting++) % QUEUE] = job;
		pthread_cond_signal(&walk->work);
	}
	pthread_mutex_unlock(&walk->lock);
	if (here)
		do_job(walk, &job, 0);
	if (walk->descent->tell != NULL)
		walk->descent->tell(walk->descent);
	return 0;
}

static int note_directory(struct g4_level *level, const char *name)
{
	const size_t bytes = strlen(name) + 1;

	if (level->names_bytes + bytes > level->names_room) {
		const size_t room = 2 * level->names_room + bytes;
		char *names = realloc(level->names, room);
		if (names == NULL)
			return -ENOMEM;
		level->names = names;
		level->names_room = room;
	}
	memcpy(level->names + level->names_bytes, name, bytes);
	level->names_bytes += bytes;
	return 0;
}

static int take_entry(struct walk *walk, struct g4_level *level, const struct gpu4fs_dirent *entry)
{
	struct g4_descent *descent = walk->descent;

	if (*entry->name == 0 || strchr(entry->name, '/') || strcmp(entry->name, ".") == 0 ||
	    strcmp(entry->name, "..") == 0) {
		descent->failed(descent, level, "", -EUCLEAN); /* of a damaged image: it would lead elsewhere */
		return 0;
	}
	if (!S_ISDIR(entry->stat->mode))
		return pass_on(walk, level, entry->name, entry->stat);
	if (descent->skips != NULL && descent->skips(descent, level, entry->name, entry->ino))
		return 0;
	return note_directory(level, entry->name);
}

static void list(struct walk *walk, struct g4_level *level)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *stream;
	int rc = gpu4fs_opendir_file(level->from, GPU4FS_DIR_STAT, &stream);

	if (rc == 0) {
		while (rc == 0 && !g4_cli_interrupted() && (rc = gpu4fs_readdir(stream, &entry)) > 0)
			rc = take_entry(walk, level, &entry);
		gpu4fs_closedir(stream);
	}
	if (rc < 0)
		walk->descent->failed(walk->descent, level, "", rc);
}

/* ------------------------------------------------------------------ down and up */

/* Until one more name is done, by this thread or another. Has the lock. */
static void await_name(struct walk *walk)
{
	if (walk->waiting > 0) {
		do_next(walk, 0);
		pthread_mutex_lock(&walk->lock);
	} else {
		pthread_cond_wait(&walk->done, &walk->lock);
	}
}

/* The walk has come back from all below the level. Its names may be at work, of which only so many levels are open. */
static void leave_level(struct walk *walk, struct g4_level *level)
{
	pthread_mutex_lock(&walk->lock);
	if (--level->at_work == 0)
		finish_level(walk, level, 0);
	else
		walk->left++;
	while (walk->left > MOST_LEFT)
		await_name(walk);
	pthread_mutex_unlock(&walk->lock);
}

/* The level above that is one too many to be open; its own names have to be done first. */
static void close_far(struct walk *walk, struct g4_level *level)
{
	struct g4_level *far = level;

	if (level->depth < MOST_OPEN)
		return;
	for (uint32_t k = 1; k < MOST_OPEN; k++)
		far = far->above;
	if (far->from == NULL)
		return;
	pthread_mutex_lock(&walk->lock);
	while (far->at_work > 1)
		await_name(walk);
	pthread_mutex_unlock(&walk->lock);
	close_level(far);
}

/* Into the directory that has this name; NULL: it was said why not. */
static struct g4_level *go_down(struct walk *walk, struct g4_level *above, const char *name)
{
	struct g4_descent *descent = walk->descent;
	struct g4_level *level = g4_level_new(above, name);
	const bool entered = level != NULL && descent->enter(descent, level);
	int rc = level == NULL ? -ENOMEM : 0;

	if (entered && g4_cli_links_find(&walk->met, level->stat.generation, level->stat.ino) != NULL)
		rc = -ELOOP; /* a damaged image, or it was moved meanwhile */
	else if (entered && !g4_cli_links_note(&walk->met, level->stat.generation, level->stat.ino, ""))
		rc = -ENOMEM;
	if (rc < 0)
		descent->failed(descent, above, name, rc);
	if (rc < 0 || !entered) {
		if (level != NULL)
			close_level(level);
		free(level);
		return NULL;
	}
	pthread_mutex_lock(&walk->lock);
	above->users++;
	pthread_mutex_unlock(&walk->lock);
	close_far(walk, level);
	return level;
}

/* Opens the level above by "..". Only what is the same directory as before will do. */
static int open_above(const struct walk *walk, const struct g4_level *level, struct g4_level *above)
{
	struct gpu4fs_stat found = {0};
	struct stat of_host = {0};
	int rc = gpu4fs_open(walk->descent->fs, level->from, "..", O_RDONLY | O_DIRECTORY, 0, &above->from);

	if (rc == 0)
		rc = gpu4fs_fstat(above->from, &found);
	if (rc == 0 && (found.ino != above->stat.ino || found.generation != above->stat.generation))
		rc = -ESTALE;
	if (rc == 0 && level->to != NULL) {
		rc = gpu4fs_open(walk->descent->fs, level->to, "..", O_RDONLY | O_DIRECTORY, 0, &above->to);
		if (rc == 0)
			rc = gpu4fs_fstat(above->to, &found);
		if (rc == 0 && (found.ino != above->to_inode || found.generation != above->to_device))
			rc = -ESTALE;
	} else if (rc == 0 && level->to_fd >= 0) {
		above->to_fd = openat(level->to_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = above->to_fd < 0 || fstat(above->to_fd, &of_host) != 0 ? -errno : 0;
		if (rc == 0 && (of_host.st_dev != above->to_device || of_host.st_ino != above->to_inode))
			rc = -ESTALE;
	}
	if (rc < 0)
		close_level(above);
	return rc;
}

/* To the level above, or where that can not be opened any more to the nearest that is; NULL: it was the first. */
static struct g4_level *go_up(struct walk *walk, struct g4_level *level)
{
	struct g4_level *open = level->above;
	int rc = open != NULL && open->from == NULL ? open_above(walk, level, open) : 0;

	if (rc < 0)
		walk->descent->failed(walk->descent, open, "", rc);
	for (; open != NULL && open->from == NULL; open = open->above)
		open->lost = true;
	while (level != open) {
		struct g4_level *next = level->above;
		leave_level(walk, level);
		level = next;
	}
	return open;
}

static void walk_below(struct walk *walk, struct g4_level *level)
{
	list(walk, level);
	while (level != NULL) {
		struct g4_level *below = NULL;
		while (below == NULL && level->names_done < level->names_bytes && !g4_cli_interrupted()) {
			const char *name = level->names + level->names_done;
			level->names_done += strlen(name) + 1;
			below = go_down(walk, level, name);
		}
		if (below != NULL)
			list(walk, below);
		level = below != NULL ? below : go_up(walk, level);
	}
}

int g4_descend(struct g4_descent *descent, struct g4_level *first)
{
	struct helper helpers[G4_CLI_MOST_JOBS];
	struct walk *walk = calloc(1, sizeof(*walk));
	long started = 1;

	if (walk == NULL) {
		close_level(first);
		free(first);
		return -ENOMEM;
	}
	walk->descent = descent;
	g4_cli_links_begin(&walk->met);
	pthread_mutex_init(&walk->lock, NULL);
	pthread_cond_init(&walk->work, NULL);
	pthread_cond_init(&walk->done, NULL);
	int rc = g4_cli_links_note(&walk->met, first->stat.generation, first->stat.ino, "") ? 0 : -ENOMEM;
	for (; started < descent->jobs; started++) {
		helpers[started] = (struct helper){.walk = walk, .worker = (uint32_t)started};
		if (pthread_create(&helpers[started].id, NULL, help, &helpers[started]) != 0)
			break; /* the others do it */
	}
	walk_below(walk, first);
	pthread_mutex_lock(&walk->lock);
	walk->over = true;
	pthread_cond_broadcast(&walk->work);
	while (walk->waiting > 0) {
		do_next(walk, 0);
		pthread_mutex_lock(&walk->lock);
	}
	pthread_mutex_unlock(&walk->lock);
	for (long k = 1; k < started; k++)
		pthread_join(helpers[k].id, NULL);
	pthread_cond_destroy(&walk->done);
	pthread_cond_destroy(&walk->work);
	pthread_mutex_destroy(&walk->lock);
	g4_cli_links_end(&walk->met);
	free(walk);
	return rc;
}
