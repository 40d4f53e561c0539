/* SPDX-License-Identifier: Apache-2.0 */
/* Which class of locks was ever taken while which others were held; a class that would close a circle ends the program. */
#include "simt/simt.h"

#if defined(G4_LOCK_ORDER)
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES 64
#define HELD_MAX 32 /* by one thread */
#define NAME_BYTES 48

static struct lock_class {
	char name[NAME_BYTES];
	uint64_t before; /* classes that were taken while this one was held, or while one of those was */
	const char *file[CLASSES];
	int line[CLASSES]; /* where that was first seen */
} classes[CLASSES];
static uint32_t class_count;
static pthread_mutex_t classes_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what is written above */

static _Thread_local struct held {
	const void *lock;
	uint32_t class_;
} held[HELD_MAX];
static _Thread_local uint32_t held_count;

/* "&fs->orphan_lock" is orphan_lock, "stripe(alloc, page)" stripe, "&log->lock" log, "&cache->sets[set].lock" sets. */
static void class_name(const char *text, bool shared, char name[NAME_BYTES])
{
	const char *member = strrchr(text, '>'), *dot = strrchr(text, '.');
	uint32_t n = 0;

	if (dot && (!member || dot > member))
		member = dot;
	if (shared) {
		snprintf(name, NAME_BYTES, "%s",
			 strstr(text, "flush_lock") ? "flush_lock" :
			 strstr(text, "leaf_lock")  ? "leaf_lock" :
			 strstr(text, "index_lock") ? "index_lock" :
						      "an inode");
		return;
	}
	if (member && strcmp(member + 1, "lock") != 0) {
		text = member + 1;
	} else if (member && strchr(text, '[')) {
		text = strstr(text, "->") + 2;
	}
	while (*text == '&')
		text++;
	while (text[n] && n < NAME_BYTES - 1 && text[n] != '(' && text[n] != '[' && text[n] != '-') {
		name[n] = text[n];
		n++;
	}
	name[n] = '\0';
}

static uint32_t class_of(const char *text, bool shared)
{
	char name[NAME_BYTES];
	uint32_t i = 0;

	class_name(text, shared, name);
	while (i < class_count && strcmp(classes[i].name, name) != 0)
		i++;
	if (i == class_count) {
		if (class_count == CLASSES)
			abort();
		memcpy(classes[class_count++].name, name, NAME_BYTES);
	}
	return i;
}

static void add_edge(uint32_t first, uint32_t second, const char *file, int line)
{
	const uint64_t also = classes[second].before | UINT64_C(1) << second;

	if ((classes[first].before & also) == also)
		return;
	classes[first].file[second] = file;
	classes[first].line[second] = line;
	for (uint32_t i = 0; i < class_count; i++)
		if (i == first || (classes[i].before >> first & 1) != 0)
			classes[i].before |= also;
}

static void hold(const void *lock, uint32_t class_)
{
	if (held_count == HELD_MAX)
		abort();
	held[held_count++] = (struct held){lock, class_};
}

void g4_order_take(const void *lock, const char *name, bool shared, const char *file, int line)
{
	pthread_mutex_lock(&classes_lock);
	const uint32_t class_ = class_of(name, shared);
	for (uint32_t i = 0; i < held_count; i++) {
		const uint32_t other = held[i].class_;
		if (other == class_)
			continue;
		if (classes[class_].before >> other & 1) {
			fprintf(stderr, "%s:%d: %s is taken while %s is held; the other way round: %s:%d\n", file, line,
				classes[class_].name, classes[other].name,
				classes[class_].file[other] ? classes[class_].file[other] : "by way of others",
				classes[class_].line[other]);
			abort();
		}
		add_edge(other, class_, file, line);
	}
	pthread_mutex_unlock(&classes_lock);
	hold(lock, class_);
}

bool g4_order_took(bool taken, const void *lock, const char *name, bool shared)
{
	if (taken) {
		pthread_mutex_lock(&classes_lock);
		const uint32_t class_ = class_of(name, shared);
		pthread_mutex_unlock(&classes_lock);
		hold(lock, class_);
	}
	return taken;
}

void g4_order_drop(const void *lock)
{
	for (uint32_t i = held_count; i-- > 0;) {
		if (held[i].lock != lock)
			continue;
		memmove(&held[i], &held[i + 1], (held_count - i - 1) * sizeof(held[0]));
		held_count--;
		return;
	}
	fprintf(stderr, "a lock is given back by a thread that does not hold it\n");
	abort();
}
#endif
