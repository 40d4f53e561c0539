/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make, remove, rename and link names in one directory, while it grows and while it shrinks. Each has names of its own, of
 * which it knows what must come of every operation, and all fight for some more. A thread lists and looks up meanwhile: what stays
 * is there, once. In the end names, counts and free space are exact, and the image is sound. G4_MAKERS_SEED and G4_MAKERS_STEPS choose.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/command.h"
#include "fs/fs.h"

#define THREADS 3u
#define OWN 120u    /* names of a thread */
#define FOUGHT 12u  /* names that all threads use */
#define STAYING 40u /* names that nobody touches */
#define NAME 256u
#ifndef NAME_PREFIX
#define NAME_PREFIX ""
#define STEPS 200000u
#define SLOW_STEPS 8000u
#endif

struct thread {
	pthread_t id;
	uint32_t number;
	uint64_t random, steps;
	uint64_t own[OWN]; /* what the name leads to; 0: nothing */
	bool directory[OWN];
	uint64_t done[8]; /* operations on own names that came about, by verb */
	struct rig rig;
};

static struct rig rig;
static uint64_t dir, stays[STAYING];
static struct thread threads[THREADS];
static uint32_t working;

/* Some names are long, so that a leaf has few of them and is split and united often. */
static const char *own_name(const struct thread *t, uint32_t k, char name[NAME])
{
	int bytes = snprintf(name, NAME, NAME_PREFIX "own.%u.%u.", t->number, k);

	if (k % 3) {
		memset(name + bytes, 'x', 60 + k);
		name[(uint32_t)bytes + 60 + k] = 0;
	}
	return name;
}

static const char *fought_name(uint32_t k, char name[NAME])
{
	snprintf(name, NAME, NAME_PREFIX "fought.%u", k);
	return name;
}

static const char *staying_name(uint32_t k, char name[NAME])
{
	snprintf(name, NAME, NAME_PREFIX "stays.%u", k);
	return name;
}

/* ------------------------------------------------------------------ names of a thread */

static void make_own(struct thread *t, uint32_t k, bool directory)
{
	char name[NAME];
	uint64_t ino = 0;
	int rc = directory ? op_mkdir(&t->rig, dir, own_name(t, k, name), 0700, &ino) :
			     op_mknod(&t->rig, dir, own_name(t, k, name), G4_S_IFREG | 0600, &ino);

	assert_int_equal(rc, t->own[k] ? -G4_E_EXIST : 0);
	if (rc < 0)
		return;
	t->own[k] = ino;
	t->directory[k] = directory;
	t->done[directory]++;
}

static void remove_own(struct thread *t, uint32_t k)
{
	char name[NAME];
	int rc = t->directory[k] ? op_rmdir(&t->rig, dir, own_name(t, k, name)) :
				   op_unlink(&t->rig, dir, own_name(t, k, name));

	assert_int_equal(rc, t->own[k] ? 0 : -G4_E_NOENT);
	t->done[2 + t->directory[k]] += t->own[k] != 0;
	t->own[k] = 0;
	t->directory[k] = false;
}

static void rename_own(struct thread *t, uint32_t k, uint32_t to)
{
	char name[NAME], name2[NAME];
	int rc = op_rename(&t->rig, dir, own_name(t, k, name), dir, own_name(t, to, name2), 0), expected = 0;

	if (!t->own[k])
		expected = -G4_E_NOENT;
	else if (t->own[to] && k != to && t->own[k] != t->own[to] && t->directory[k] != t->directory[to])
		expected = t->directory[to] ? -G4_E_ISDIR : -G4_E_NOTDIR;
	assert_int_equal(rc, expected);
	if (rc < 0 || t->own[k] == t->own[to])
		return;
	t->own[to] = t->own[k];
	t->directory[to] = t->directory[k];
	t->own[k] = 0;
	t->directory[k] = false;
	t->done[4]++;
}

static void link_own(struct thread *t, uint32_t k, uint32_t to)
{
	char name[NAME];

	if (!t->own[k] || t->directory[k])
		return;
	assert_int_equal(op_link(&t->rig, t->own[k], dir, own_name(t, to, name)), t->own[to] ? -G4_E_EXIST : 0);
	if (t->own[to])
		return;
	t->own[to] = t->own[k];
	t->done[5]++;
}

static void look_own(struct thread *t, uint32_t k)
{
	struct g4_attr attr = {0};
	char name[NAME];
	uint64_t links = 0;

	assert_int_equal(op_lookup(&t->rig, dir, own_name(t, k, name), &attr), t->own[k] ? 0 : -G4_E_NOENT);
	if (!t->own[k])
		return;
	for (uint32_t i = 0; i < OWN; i++)
		links += t->own[i] == t->own[k];
	assert_int_equal(attr.ino, t->own[k]);
	assert_int_equal(attr.nlink, t->directory[k] ? 2 : links);
}

/* ------------------------------------------------------------------ names of all threads */

static void fight(struct thread *t, uint32_t k, uint32_t to, uint32_t verb)
{
	char name[NAME], name2[NAME];
	struct g4_attr attr;
	uint64_t ino;
	int rc;

	fought_name(k, name);
	fought_name(to, name2);
	switch (verb % 8) {
	case 0:
	case 1:
		rc = op_mknod(&t->rig, dir, name, G4_S_IFREG | 0600, &ino);
		assert_true(rc == 0 || rc == -G4_E_EXIST);
		break;
	case 2:
		rc = op_mkdir(&t->rig, dir, name, 0700, &ino);
		assert_true(rc == 0 || rc == -G4_E_EXIST);
		break;
	case 3:
		rc = op_unlink(&t->rig, dir, name);
		assert_true(rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_ISDIR);
		break;
	case 4:
		rc = op_rmdir(&t->rig, dir, name);
		assert_true(rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_NOTDIR);
		break;
	case 5:
	case 6:
		rc = op_rename(&t->rig, dir, name, dir, name2, verb % 16 < 8 ? 0 : G4_RENAME_NOREPLACE);
		assert_true(rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_ISDIR || rc == -G4_E_NOTDIR ||
			    rc == -G4_E_EXIST);
		break;
	default:
		rc = op_lookup(&t->rig, dir, name, &attr);
		assert_true(rc == 0 || rc == -G4_E_NOENT);
		assert_true(rc < 0 || attr.nlink > 0);
		break;
	}
}

/* More is made while the directory grows, more removed while it shrinks. */
static void *thread_main(void *argument)
{
	struct thread *t = argument;

	for (uint64_t s = 0; s < t->steps; s++) {
		const uint64_t random = rig_random(&t->random);
		const uint32_t k = (uint32_t)(random >> 8) % OWN, to = (uint32_t)(random >> 24) % OWN;
		const uint32_t dice = (uint32_t)(random >> 40) % 16;
		const bool grows = s * 4 / t->steps % 2 == 0;

		if (dice < 6)
			grows ? make_own(t, k, dice == 0) : remove_own(t, k);
		else if (dice == 6)
			grows ? remove_own(t, k) : make_own(t, k, random >> 50 & 1);
		else if (dice < 9)
			rename_own(t, k, to);
		else if (dice == 9)
			link_own(t, k, to);
		else if (dice == 10)
			look_own(t, k);
		else
			fight(t, k % FOUGHT, to % FOUGHT, (uint32_t)(random >> 44));
	}
	g4_sub32(&working, 1);
	return NULL;
}

/* ------------------------------------------------------------------ listing */

/* Names that are listed; those that stay must be, once each. */
static uint64_t list(struct rig *r, uint32_t flags)
{
	static uint8_t records[8192];
	uint32_t seen[STAYING] = {0};
	uint64_t names = 0, cookie = 0, bytes = 0;

	do {
		struct g4_cmd cmd = {.op = G4_CMD_READDIR,
				     .node = dir,
				     .cookie = cookie,
				     .data = records,
				     .length = sizeof(records),
				     .flags = flags};
		assert_int_equal(g4_engine_execute(r->engine, &cmd), 0);
		bytes = cmd.value;
		for (uint64_t at = 0; at < bytes;) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(records + at);
			const char *name = (const char *)(entry + 1) + (entry->has_attr ? sizeof(struct g4_attr) : 0);
			unsigned number;
			char copy[NAME];

			memcpy(copy, name, entry->name_bytes);
			copy[entry->name_bytes] = 0;
			if (sscanf(copy, NAME_PREFIX "stays.%u", &number) == 1) {
				assert_int_equal(entry->ino, stays[number]);
				seen[number]++;
			}
			if (entry->has_attr)
				assert_int_equal(((const struct g4_attr *)(entry + 1))->ino, entry->ino);
			names += copy[0] != '.';
			cookie = entry->cookie;
			at += entry->record_bytes;
		}
	} while (bytes > 0);
	for (uint32_t k = 0; k < STAYING; k++)
		assert_int_equal(seen[k], 1);
	return names;
}

static void look_meanwhile(void)
{
	struct g4_attr attr;
	char name[NAME];

	for (uint32_t turn = 0; g4_load32_acq(&working) > 0; turn++) {
		list(&rig, turn % 2 ? G4_READDIR_PLUS : 0);
		for (uint32_t k = 0; k < STAYING; k++) {
			assert_int_equal(op_lookup(&rig, dir, staying_name(k, name), &attr), 0);
			assert_int_equal(attr.ino, stays[k]);
			assert_int_equal(attr.nlink, 1);
		}
		assert_int_equal(op_getattr(&rig, dir, &attr), 0);
		assert_true(attr.nlink >= 2 && attr.nlink <= 2 + THREADS * OWN + FOUGHT);
	}
}

/* ------------------------------------------------------------------ the test */

/* What all threads say is there; `remove`: and it goes. */
static void settle(bool remove, uint64_t *names, uint64_t *directories)
{
	struct g4_attr attr;
	char name[NAME];

	*names = STAYING;
	*directories = 0;
	for (uint32_t t = 0; t < THREADS; t++)
		for (uint32_t k = 0; k < OWN; k++) {
			*names += threads[t].own[k] != 0;
			*directories += threads[t].own[k] && threads[t].directory[k];
			threads[t].rig = rig;
			look_own(&threads[t], k);
			if (remove)
				remove_own(&threads[t], k);
		}
	for (uint32_t k = 0; k < FOUGHT; k++) {
		int rc = op_lookup(&rig, dir, fought_name(k, name), &attr);
		assert_true(rc == 0 || rc == -G4_E_NOENT);
		*names += rc == 0;
		*directories += rc == 0 && g4_is_dir(attr.mode);
		if (remove && rc == 0)
			assert_int_equal(g4_is_dir(attr.mode) ? op_rmdir(&rig, dir, name) : op_unlink(&rig, dir, name),
					 0);
	}
}

static void remount(const char *when)
{
	const uint64_t free_pages = rig_free_pages(&rig);

	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, free_pages, when); /* counts entries and links, too */
	rig_mount(&rig);
}

static void names_counts_and_space_are_exact_in_the_end(void **state)
{
	const uint64_t seed = rig_setting("G4_MAKERS_SEED", 1);
	const uint64_t steps = rig_setting("G4_MAKERS_STEPS", rig_slow() ? SLOW_STEPS : STEPS);
	uint64_t names, directories, done[8] = {0};
	struct g4_attr attr;
	char name[NAME];

	(void)state;
	rig_open(&rig, 64 * G4_MIB, 0);
	rig_mount(&rig);
	const uint64_t free_pages = rig_free_pages(&rig);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < STAYING; k++)
		assert_int_equal(op_mknod(&rig, dir, staying_name(k, name), G4_S_IFREG | 0600, &stays[k]), 0);
	working = THREADS;
	for (uint32_t t = 0; t < THREADS; t++) {
		threads[t] = (struct thread){.number = t, .random = seed * 1000 + t, .steps = steps, .rig = rig};
		assert_int_equal(pthread_create(&threads[t].id, NULL, thread_main, &threads[t]), 0);
	}
	look_meanwhile();
	for (uint32_t t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t].id, NULL), 0);
		for (uint32_t v = 0; v < 8; v++)
			done[v] += threads[t].done[v];
	}
	for (uint32_t v = 0; v < 6; v++)
		assert_true(done[v] > 0);
	settle(false, &names, &directories);
	assert_int_equal(list(&rig, 0), names);
	assert_int_equal(op_getattr(&rig, dir, &attr), 0);
	assert_int_equal(attr.nlink, 2 + directories);
	remount("with what the threads left");
	settle(true, &names, &directories);
	for (uint32_t k = 0; k < STAYING; k++)
		assert_int_equal(op_unlink(&rig, dir, staying_name(k, name)), 0);
	assert_int_equal(op_getattr(&rig, dir, &attr), 0);
	assert_int_equal(attr.nlink, 2);
	assert_int_equal(attr.size, G4_PAGE_BYTES); /* it shrank to a page */
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d"), 0);
	remount("with nothing left");
	assert_in_range(rig_free_pages(&rig), free_pages - RIG_MOST_SLABS, free_pages + RIG_MOST_SLABS);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_counts_and_space_are_exact_in_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
