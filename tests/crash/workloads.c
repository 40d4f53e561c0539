/* SPDX-License-Identifier: Apache-2.0 */
/* From names to workloads. */
#include <stdio.h>

#include "fs/fs.h"
#include "lab.h"

/* ------------------------------------------------------------------ random mixes */

static uint64_t below(uint64_t *random, uint64_t n)
{
	return rig_random(random) % n;
}

/* A file of the party: in its own directory, in one below that, or in the one that all share. */
static void pick_file(uint64_t *random, char tag, char path[PATH_MAX_PART])
{
	uint64_t n = below(random, 4);

	switch (below(random, 4)) {
	case 0:
		snprintf(path, PATH_MAX_PART, "sh/%c%lu", tag, (unsigned long)n);
		break;
	case 1:
		snprintf(path, PATH_MAX_PART, "t%c/d/f%lu", tag, (unsigned long)n);
		break;
	default:
		snprintf(path, PATH_MAX_PART, "t%c/f%lu", tag, (unsigned long)n);
		break;
	}
}

static void pick_range(uint64_t *random, struct part *part)
{
	part->offset = below(random, 3) ? below(random, 30000) : 0;
	part->bytes = 1 + below(random, below(random, 3) ? 9000 : 60);
	if (below(random, 12) == 0) { /* large and aligned: past the cache */
		part->offset = 0;
		part->bytes = 64 * G4_PAGE_BYTES;
	}
}

static void random_part(uint64_t *random, char tag, struct part *part)
{
	static const enum verb verbs[] = {
		CREATE, CREATE, CREATE,	  CREATE,   MKDIR, SYMLINK, LINK,      UNLINK,	 UNLINK, RMDIR,
		RENAME, RENAME, RENAME,	  WRITE,    WRITE, WRITE,   WRITE,     WRITE,	 WRITE,	 WRITE,
		WRITE,	WRITE,	TRUNCATE, TRUNCATE, PUNCH, ZERO,    INSERT,    COLLAPSE, SET,	 SET,
		REMOVE, CHMOD,	EXCHANGE, ALLOCATE, FSYNC, FSYNC,   FDATASYNC, SYNCFS,
	};

	part->verb = verbs[below(random, sizeof(verbs) / sizeof(verbs[0]))];
	pick_file(random, tag, part->path);
	switch (part->verb) {
	case MKDIR:
	case RMDIR:
		snprintf(part->path, sizeof(part->path), "t%c/d", tag);
		break;
	case SYMLINK:
		part->bytes = below(random, 2) ? 20 : 1000;
		break;
	case LINK:
	case RENAME:
	case EXCHANGE:
		pick_file(random, tag, part->path2);
		break;
	case SET:
		part->bytes = below(random, 2) ? 10 : 6000;
		snprintf(part->path2, sizeof(part->path2), "user.%c", (char)('a' + below(random, 3)));
		break;
	case REMOVE:
		snprintf(part->path2, sizeof(part->path2), "user.%c", (char)('a' + below(random, 3)));
		break;
	case CHMOD:
		part->bytes = 0600 + below(random, 64);
		break;
	case TRUNCATE:
		part->bytes = below(random, 30000);
		break;
	case INSERT:
	case COLLAPSE:
		part->offset = below(random, 8) * G4_PAGE_BYTES;
		part->bytes = (1 + below(random, 3)) * G4_PAGE_BYTES;
		break;
	default:
		pick_range(random, part);
		break;
	}
}

static void make_mix(struct workload *w, uint32_t threads, uint32_t parts, uint64_t seed)
{
	w->party_count = threads;
	for (uint32_t p = 0; p < threads; p++) {
		struct party *party = &w->parties[p];
		uint64_t random = seed * MAX_PARTIES + p;
		party->tag = (char)('1' + p);
		party->count = parts;
		for (uint32_t k = 0; k < parts; k++) {
			struct part *part = &party->parts[k];
			random_part(&random, party->tag, part);
			if (k == 0) {
				*part = (struct part){.verb = MKDIR};
				snprintf(part->path, sizeof(part->path), "t%c", party->tag);
			}
			part->id = 1000 * (p + 1) + k;
		}
	}
}

/* ------------------------------------------------------------------ one or two operations */

static bool add_operation(struct party *party, const char *name, const char *sync)
{
	const struct operation *operation = operation_find(name);

	if (strcmp(name, "-") == 0)
		return strcmp(sync, "-") == 0;
	if (!operation)
		return false;
	for (uint32_t k = 0; k < OPERATION_PARTS && (k == 0 || operation->parts[k].path[0] || operation->parts[k].verb);
	     k++)
		party->parts[party->count++] = operation->parts[k];
	if (strcmp(sync, "-") == 0)
		return true;
	if (strcmp(sync, "other") == 0) { /* makes all transactions durable and nobody's contents */
		struct part change = {.verb = CHMOD, .path = "sh", .bytes = 0710 + party->count};
		party->parts[party->count++] = change;
		party->parts[party->count++] = (struct part){.verb = FSYNC, .path = "sh"};
		return true;
	}
	struct part *part = &party->parts[party->count++];
	const char *path = strcmp(sync, "fsyncdir") == 0 ? operation->parent_path : operation->sync_path;
	part->verb = strcmp(sync, "syncfs") == 0 ? SYNCFS : strcmp(sync, "fdatasync") == 0 ? FDATASYNC : FSYNC;
	if (part->verb != SYNCFS && !path)
		return false;
	snprintf(part->path, sizeof(part->path), "%s", part->verb == SYNCFS ? "" : path);
	return part->verb == SYNCFS || part->verb == FDATASYNC || strncmp(sync, "fsync", 5) == 0;
}

/* ------------------------------------------------------------------ names */

static uint32_t find_word(const char *word, const char *const *words, uint32_t count)
{
	uint32_t k = 0;

	while (k < count && strcmp(word, words[k]) != 0)
		k++;
	return k;
}

static bool parse_mix(struct workload *w, char **field)
{
	const uint32_t threads = (uint32_t)strtoul(field[3], NULL, 10), parts = (uint32_t)strtoul(field[4], NULL, 10);

	if (threads == 0 || threads > MAX_PARTIES || parts == 0 || parts > MAX_PARTS)
		return false;
	make_mix(w, threads, parts, strtoull(field[5], NULL, 10));
	return true;
}

/* And one party more: what the operation orders, without its files. It has no names. */
static bool add_orders(struct workload *w, const char *name)
{
	const struct operation *operation = operation_find(name);
	struct party *party = &w->parties[w->party_count];

	if (!operation || w->party_count == MAX_PARTIES)
		return false;
	party->tag = '0';
	for (uint32_t k = 0; k < OPERATION_PARTS; k++) {
		const struct part *part = &operation->parts[k];
		if (part->verb == FAIL) /* whoever writes next would decide when that is */
			return false;
		if (part->verb == ORDER || part->verb == SCRUB || part->verb == SERVE)
			party->parts[party->count++] = *part;
	}
	w->party_count++;
	return party->count > 0;
}

static bool parse_fields(struct workload *w, char **field, uint32_t count)
{
	char *set = strchr(field[1], '+');

	for (w->set = 0; set && w->set < SET_KINDS && strcmp(set + 1, set_kinds[w->set].name) != 0;)
		w->set++;
	if (set)
		*set = 0;
	w->class_ = (enum device_class)find_word(field[0], class_names, DEVICE_CLASSES);
	w->tree = (enum tree_kind)find_word(field[1], tree_names, TREE_KINDS);
	w->unmount = strcmp(field[count - 1], "unmount") == 0;
	w->mount = strcmp(field[2], "mount") == 0;
	w->party_count = 1;
	if (w->class_ == DEVICE_CLASSES || w->tree == TREE_KINDS || w->set == SET_KINDS ||
	    (!w->unmount && strcmp(field[count - 1], "crash") != 0))
		return false;
	if (w->mount) /* what makes DUE and FULL is done between the mount and the operation */
		return count == 4 || (count == 6 && w->tree != DUE && w->tree != FULL &&
				      add_operation(&w->parties[0], field[3], field[4]));
	if (count != 7)
		return false;
	if (strcmp(field[2], "mix") == 0)
		return parse_mix(w, field);
	if (strncmp(field[2], "mix-", 4) == 0)
		return parse_mix(w, field) && add_orders(w, field[2] + 4);
	return add_operation(&w->parties[0], field[2], field[3]) && add_operation(&w->parties[0], field[4], field[5]);
}

bool workload_parse(const char *name, struct workload *w)
{
	char text[sizeof(w->name)], *field[8], *rest = text;
	uint32_t count = 0;

	memset(w, 0, sizeof(*w));
	if (snprintf(w->name, sizeof(w->name), "%s", name) >= (int)sizeof(w->name))
		return false;
	snprintf(text, sizeof(text), "%s", name);
	w->seed = hash_bytes(name, strlen(name), HASH_SEED);
	while (count < 8 && (field[count] = strsep(&rest, "/")) != NULL)
		count++;
	return count >= 4 && count < 8 && parse_fields(w, field, count);
}

void workload_free(struct workload *w)
{
	for (uint32_t p = 0; p < MAX_PARTIES; p++)
		for (uint32_t k = 0; k <= MAX_PARTS; k++)
			tree_free(&w->parties[p].states[k]);
}
