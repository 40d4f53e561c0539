/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client does before it is asked: lookups behind a listing (client/foresight.c), and READs behind a sequential reader's (client/stream.c). The
 * engine here is the fixture's, and counts the commands that its client gives.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "api_fixture.h"
#include "client/client.h"
#include "ring/client_parts_host.h"
#include "ring/serve_host.h"
#include "ring/session_host.h"
#include "simt/simt.h"

#define NAMES 40u /* more than are under way at a time */
#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000)

static struct g4_server *server;
static char path[64];
static const struct g4_session_engine *behind;
static struct g4_session_engine counting;
static uint32_t lookups, commands; /* that were executed */
static uint32_t reads_behind,
	reads_behind_that_show; /* READs behind the file's first piece; that set the time of access */
static gpu4fs *client;

/* Counts first: what has its result has been counted. */
static int run(void *context, struct g4_session *session, uint32_t number, struct g4_session_stage *stage)
{
	const struct g4_ring_command *c = &g4_ring_slot_of(session->ring, session->entries, number)->command;

	if (c->op == G4_CMD_READ && c->offset > 0) {
		g4_add32(&reads_behind_that_show, !(c->flags & G4_READ_AHEAD));
		g4_add32(&reads_behind, 1);
	}
	g4_add32(&lookups, c->op == G4_CMD_RESOLVE);
	g4_add32(&commands, 1);
	return behind->run(context, session, number, stage);
}

static uint32_t count_of(const uint32_t *counter)
{
	return g4_load32_acq(counter);
}

static int setup(void **state)
{
	char message[256];

	if (api_setup(state))
		return -1;
	behind = g4_engine_sessions(api_in_process()->mount->engine);
	counting = *behind;
	counting.run = run;
	snprintf(path, sizeof(path), "foresight.%d.socket", (int)getpid());
	ok(g4_server_start(&counting, &(struct g4_server_options){.path = path}, &server, message, sizeof(message)));
	ok(gpu4fs_connect(path, NULL, &client));
	g4_store32_rel(&lookups, 0);
	g4_store32_rel(&commands, 0);
	g4_store32_rel(&reads_behind, 0);
	g4_store32_rel(&reads_behind_that_show, 0);
	return 0;
}

static int teardown(void **state)
{
	ok(gpu4fs_unmount(client));
	if (server)
		g4_server_stop(server);
	return api_teardown(state);
}

#define foresight_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void await(const uint32_t *counter, uint32_t wanted)
{
	const uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while (g4_load32_acq(counter) < wanted) {
		assert_true(g4_monotonic_ns() < until);
		sched_yield();
	}
}

/* ------------------------------------------------------------------ listings */

static char names[NAMES][16]; /* as the last listing has told them */

static void make_names(uint32_t count)
{
	char name[32];

	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "/d/name-%u", k);
		api_touch(name, 0640);
	}
	ok(gpu4fs_syncfs(fs)); /* nothing is left to be written in the background, which is a change as well */
}

/* By the client; how many there are. */
static uint32_t list(const char *directory)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	uint32_t count = 0;

	ok(gpu4fs_opendir(client, NULL, directory, 0, &dir));
	while (gpu4fs_readdir(dir, &entry) == 1)
		snprintf(names[count++], sizeof(names[0]), "%s", entry.name);
	ok(gpu4fs_closedir(dir));
	return count;
}

static int look(const char *in, const char *name, uint32_t *mode)
{
	struct gpu4fs_stat stat = {0};
	char whole[64];

	snprintf(whole, sizeof(whole), "%s/%s", in, name);
	const int rc = gpu4fs_lstat(client, NULL, whole, &stat);
	*mode = stat.mode & 07777;
	return rc;
}

static void check_mode(const char *name, uint32_t wanted)
{
	uint32_t mode;

	ok(look("/d", name, &mode));
	assert_int_equal(mode, wanted);
}

/* The first name that is asked for has the others looked up; who asks for those gives no command. */
static void names_that_were_listed_are_looked_up_before_they_are_asked_for(void **state)
{
	(void)state;
	make_names(10);
	assert_int_equal(list("/d"), 10);
	g4_store32_rel(&lookups, 0);
	check_mode(names[3], 0640);
	await(&lookups, 10); /* those in front of it, too */
	for (uint32_t k = 0; k < 10; k++)
		check_mode(names[9 - k], 0640);
	assert_int_equal(count_of(&lookups), 10);
}

static void in_the_listings_order_each_is_looked_up_once(void **state)
{
	(void)state;
	make_names(NAMES);
	assert_int_equal(list("/d"), NAMES);
	g4_store32_rel(&lookups, 0);
	for (uint32_t k = 0; k < NAMES; k++)
		check_mode(names[k], 0640);
	await(&lookups, NAMES);
	assert_int_equal(count_of(&lookups), NAMES);
	for (uint32_t k = 0; k < NAMES; k++) { /* and kept */
		struct gpu4fs_stat stat;
		char whole[64];
		snprintf(whole, sizeof(whole), "/d/%s", names[k]);
		ok(gpu4fs_stat(client, NULL, whole,
			       &stat)); /* what is no link is so, whether links are followed or not */
	}
	assert_int_equal(count_of(&lookups), NAMES);
}

/* By a directory's descriptor, as tree walks do. */
static void paths_may_begin_at_a_directory(void **state)
{
	struct gpu4fs_stat stat;
	gpu4fs_file *directory;
	gpu4fs_dir *dir;
	struct gpu4fs_dirent entry;

	(void)state;
	make_names(10);
	ok(gpu4fs_open(client, NULL, "/d", O_RDONLY | O_DIRECTORY, 0, &directory));
	ok(gpu4fs_opendir_file(directory, 0, &dir));
	g4_store32_rel(&lookups, 0);
	for (uint32_t k = 0; k < 10; k++) {
		assert_int_equal(gpu4fs_readdir(dir, &entry), 1);
		ok(gpu4fs_lstat(client, directory, entry.name, &stat));
		await(&lookups, 10);
	}
	assert_int_equal(gpu4fs_readdir(dir, &entry), 0);
	assert_int_equal(count_of(&lookups), 10);
	ok(gpu4fs_closedir(dir));
	ok(gpu4fs_close(directory));
}

/* Lookups that were made before a change are no answers behind it. */
static void what_has_changed_since_is_asked_for_again(void **state)
{
	uint32_t mode;
	char whole[64];

	(void)state;
	make_names(10);
	assert_int_equal(list("/d"), 10);
	g4_store32_rel(&lookups, 0);
	check_mode(names[0], 0640);
	await(&lookups, 10);
	snprintf(whole, sizeof(whole), "/d/%s", names[1]);
	ok(gpu4fs_chmod(fs, NULL, whole, 0600));
	check_mode(names[1], 0600);
	check_mode(names[2], 0640);
	snprintf(whole, sizeof(whole), "/d/%s", names[3]);
	ok(gpu4fs_unlink(fs, NULL, whole));
	fails(look("/d", names[3], &mode), ENOENT);
	api_touch(whole, 0604);
	check_mode(names[3], 0604);
	ok(gpu4fs_rename(fs, NULL, "/d", NULL, "/e", 0));
	fails(look("/d", names[4], &mode), ENOENT);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	fails(look("/d", names[5], &mode), ENOENT);
	ok(look("/e", names[6], &mode));
}

/* In a directory that changes all the time each name is asked for by a command, in the end, and no other is. */
static void a_directory_that_changes_is_not_foreseen_for_ever(void **state)
{
	uint32_t asked = 0;

	(void)state;
	make_names(NAMES);
	assert_int_equal(list("/d"), NAMES);
	check_mode(names[0], 0640);
	for (uint32_t k = 1; k < NAMES; k++) {
		api_touch("/d/other", 0600);
		ok(gpu4fs_unlink(fs, NULL, "/d/other"));
		check_mode(names[k], 0640);
		if (k == NAMES / 2)
			asked = count_of(&lookups);
	}
	assert_true(asked <= NAMES + 16);
	assert_int_equal(count_of(&lookups) - asked, NAMES - 1 - NAMES / 2);
}

/* Who walks through a tree looks into a directory between two names of another, and comes back. */
static void a_walk_comes_back_to_names_that_are_known(void **state)
{
	static char outer[NAMES][16];
	uint32_t mode;

	(void)state;
	make_names(NAMES - 1);
	ok(gpu4fs_mkdir(fs, NULL, "/d/inside", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/d/inside/deeper", 0755));
	for (uint32_t k = 0; k < 10; k++) {
		char name[64];
		snprintf(name, sizeof(name), "/d/inside/%u", k);
		api_touch(name, 0604);
		snprintf(name, sizeof(name), "/d/inside/deeper/%u", k);
		api_touch(name, 0606);
	}
	(void)list("/d"); /* which sets the times of access; what follows changes nothing */
	(void)list("/d/inside");
	(void)list("/d/inside/deeper");
	ok(gpu4fs_syncfs(fs));
	assert_int_equal(list("/d"), NAMES);
	memcpy(outer, names, sizeof(outer));
	g4_store32_rel(&lookups, 0);
	for (uint32_t k = 0; k < NAMES; k++) {
		ok(look("/d", outer[k], &mode));
		assert_int_equal(mode, strcmp(outer[k], "inside") == 0 ? 0755 : 0640);
		if (k % 16 != 3)
			continue;
		const uint32_t inside = list("/d/inside");
		for (uint32_t n = 0; n < inside; n++) {
			char name[16];
			memcpy(name, names[n], sizeof(name));
			ok(look("/d/inside", name, &mode));
			assert_int_equal(mode, strcmp(name, "deeper") == 0 ? 0755 : 0604);
			if (n != 5)
				continue;
			const uint32_t deeper = list("/d/inside/deeper");
			for (uint32_t m = 0; m < deeper; m++) {
				ok(look("/d/inside/deeper", names[m], &mode));
				assert_int_equal(mode, 0606);
			}
			assert_int_equal(list("/d/inside"), inside);
		}
	}
	await(&lookups, NAMES + 11 + 10);
	assert_int_equal(count_of(&lookups), NAMES + 11 + 10); /* of each name one */
}

/* Of more directories than are kept the last ones are known; of the others each name is asked for. */
static void of_many_directories_all_answers_are_right(void **state)
{
	char path_of[64], name[16];
	uint32_t mode;

	(void)state;
	for (uint32_t d = 0; d < 20; d++) {
		snprintf(path_of, sizeof(path_of), "/%u", d);
		ok(gpu4fs_mkdir(fs, NULL, path_of, 0755));
		for (uint32_t k = 0; k < 5; k++) {
			snprintf(path_of, sizeof(path_of), "/%u/name-%u", d, k);
			api_touch(path_of, 0600 + d);
		}
	}
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t d = 0; d < 20; d++) {
			snprintf(path_of, sizeof(path_of), "/%u", d);
			assert_int_equal(list(path_of), 5);
			ok(look(path_of, names[d % 5], &mode));
			assert_int_equal(mode, 0600 + d);
		}
		for (uint32_t d = 0; d < 20; d++) {
			snprintf(path_of, sizeof(path_of), "/%u", d);
			for (uint32_t k = 0; k < 5; k++) {
				snprintf(name, sizeof(name), "name-%u", k);
				ok(look(path_of, name, &mode));
				assert_int_equal(mode, 0600 + d);
			}
		}
	}
}

/* What nobody asks for any more keeps its place until the engine has done it. */
static void wait_for_lookups(struct g4_ring_client *ring)
{
	for (bool done = false; !done; sched_yield()) {
		pthread_mutex_lock(&ring->submit_lock);
		done = true;
		for (uint32_t i = 0; i < ring->lookups.count && done; i++)
			done = ring->lookup_places[i].state != G4_AHEAD_UNDER_WAY ||
			       g4_ahead_is_done(ring, &ring->lookup_places[i]);
		pthread_mutex_unlock(&ring->submit_lock);
	}
}

/* Other sessions of the connection have the places of one that has ended. */
static void a_session_that_ends_has_nothing_under_way(void **state)
{
	struct g4_ring_client *ring = g4_connection_ring(g4_engine_connection(client->mount->engine));
	gpu4fs *first = client, *second;
	char name[16];
	uint32_t mode;

	(void)state;
	make_names(NAMES);
	ok(gpu4fs_session(client, NULL, &second));
	client = second;
	assert_int_equal(list("/d"), NAMES);
	check_mode(names[0], 0640);
	client = first;
	ok(gpu4fs_session_close(second));
	wait_for_lookups(ring);
	assert_int_equal(list("/d"), NAMES);
	memcpy(name, names[0], sizeof(name));
	const uint32_t before = ring->tail;
	ok(look("/d", name, &mode));
	assert_true(ring->tail - before >= G4_LOOKUPS_AHEAD);
}

#define LOOKERS 3u

/* Changes of each name: it is there behind an even number, with that as its time. */
static uint64_t begun[NAMES], done[NAMES];
static uint32_t at_work, mistakes;

static bool look_right(const char *name, uint32_t k, bool follow)
{
	struct gpu4fs_stat stat = {0};
	const uint64_t before = g4_load64_acq(&done[k]);
	const int rc = follow ? gpu4fs_stat(client, NULL, name, &stat) : gpu4fs_lstat(client, NULL, name, &stat);
	const uint64_t after = g4_load64_acq(&begun[k]);
	const uint64_t time = (uint64_t)stat.mtime.tv_sec;

	if (rc == -ENOENT)
		return before % 2 || after > before;
	return rc == 0 && (before % 2 == 0 || after > before) && time >= before && time <= after;
}

/* The same by a descriptor of one that is never removed. */
static bool open_right(const char *name, uint32_t k)
{
	struct gpu4fs_stat stat = {0};
	gpu4fs_file *file;

	if (gpu4fs_open(client, NULL, name, O_RDONLY, 0, &file) != 0)
		return false;
	const uint64_t before = g4_load64_acq(&done[k]);
	const bool told = gpu4fs_fstat(file, &stat) == 0;
	const uint64_t after = g4_load64_acq(&begun[k]), time = (uint64_t)stat.mtime.tv_sec;
	return gpu4fs_close(file) == 0 && told && time >= before && time <= after;
}

static void *look_all_the_time(void *argument)
{
	char whole[64];

	(void)argument;
	for (uint32_t round = 0; round < 60; round++) {
		struct gpu4fs_dirent entry;
		gpu4fs_dir *dir;
		if (gpu4fs_opendir(client, NULL, "/d", 0, &dir) == 0) {
			while (gpu4fs_readdir(dir, &entry) == 1)
				;
			(void)gpu4fs_closedir(dir);
		}
		for (uint32_t k = 0; k < NAMES; k++) {
			snprintf(whole, sizeof(whole), "/d/name-%u", k);
			g4_add32(&mistakes, !look_right(whole, k, round % 2));
			if (k % 2 == 0 && round % 3 == 0)
				g4_add32(&mistakes, !open_right(whole, k));
			if (k % 4 == 0) /* what was begun is there by then, and something changes */
				sched_yield();
		}
	}
	g4_add32(&at_work, UINT32_MAX);
	return NULL;
}

static void change(uint32_t k)
{
	const uint64_t next = done[k] + 1;
	const struct timespec times[2] = {{.tv_sec = (time_t)next}, {.tv_sec = (time_t)next}},
			      later[2] = {{.tv_sec = (time_t)next + 1}, {.tv_sec = (time_t)next + 1}};
	char whole[64];

	snprintf(whole, sizeof(whole), "/d/name-%u", k);
	if (next % 2 == 0) { /* it comes back as another file */
		api_touch("/other", 0600);
		ok(gpu4fs_utimens(fs, NULL, "/other", times, 0));
		g4_store64_rel(&begun[k], next);
		ok(gpu4fs_rename(fs, NULL, "/other", NULL, whole, 0));
		g4_store64_rel(&done[k], next);
	} else if (k % 2) {
		g4_store64_rel(&begun[k], next);
		ok(gpu4fs_unlink(fs, NULL, whole));
		g4_store64_rel(&done[k], next);
	} else {
		g4_store64_rel(&begun[k], next + 1);
		ok(gpu4fs_utimens(fs, NULL, whole, later, 0));
		g4_store64_rel(&done[k], next + 1);
	}
}

/* Threads list and ask while names change: no answer is older than its call. */
static void no_answer_is_older_than_its_call(void **state)
{
	pthread_t threads[LOOKERS];

	(void)state;
	make_names(NAMES);
	for (uint32_t k = 0; k < NAMES; k++) {
		begun[k] = done[k] = 1;
		change(k);
	}
	at_work = LOOKERS;
	mistakes = 0;
	for (uint32_t t = 0; t < LOOKERS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, look_all_the_time, NULL), 0);
	for (uint32_t k = 0; g4_load32_acq(&at_work) > 0; k++) {
		change(k * 7 % NAMES);
		sched_yield();
	}
	for (uint32_t t = 0; t < LOOKERS; t++)
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	assert_int_equal(mistakes, 0);
}

/* Another server may have the files by then: what was looked up ahead is as old as what was kept. */
static void nothing_is_foreseen_of_a_server_that_is_gone(void **state)
{
	uint32_t mode;

	(void)state;
	make_names(10);
	assert_int_equal(list("/d"), 10);
	g4_store32_rel(&lookups, 0);
	check_mode(names[0], 0640);
	await(&lookups, 10);
	g4_server_stop(server);
	server = NULL;
	fails(look("/d", names[0], &mode), EIO);
	fails(look("/d", names[1], &mode), EIO);
}

/* A link is not what it leads to. */
static void links_are_asked_for_by_themselves(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	make_names(2);
	ok(gpu4fs_symlink(fs, "name-0", NULL, "/d/link"));
	ok(gpu4fs_symlink(fs, "nowhere", NULL, "/d/broken"));
	assert_int_equal(list("/d"), 4);
	for (uint32_t round = 0; round < 2; round++) {
		ok(gpu4fs_lstat(client, NULL, "/d/link", &stat));
		assert_true(S_ISLNK(stat.mode));
		ok(gpu4fs_stat(client, NULL, "/d/link", &stat));
		assert_true(S_ISREG(stat.mode));
		ok(gpu4fs_lstat(client, NULL, "/d/broken", &stat));
		fails(gpu4fs_stat(client, NULL, "/d/broken", &stat), ENOENT);
		fails(gpu4fs_lstat(client, NULL, "/d/none", &stat), ENOENT);
		fails(gpu4fs_stat(client, NULL, "/d/none", &stat), ENOENT);
	}
}

/* What the path told is told of the descriptor, until it changes. */
static void a_file_that_was_looked_at_is_known_when_it_is_open(void **state)
{
	struct gpu4fs_stat stat;
	gpu4fs_file *file;

	(void)state;
	make_names(1);
	ok(gpu4fs_lstat(client, NULL, "/d/name-0", &stat));
	ok(gpu4fs_open(client, NULL, "/d/name-0", O_RDONLY, 0, &file));
	await(&commands, 2);
	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(count_of(&commands), 2); /* the lookup and the open */
	assert_int_equal(stat.mode & 07777, 0640);
	ok(gpu4fs_chmod(fs, NULL, "/d/name-0", 0600));
	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(stat.mode & 07777, 0600);
	ok(gpu4fs_close(file));
	ok(gpu4fs_rename(fs, NULL, "/d/name-0", NULL, "/d/other", 0)); /* the path's answer is of another file then */
	api_touch("/d/name-0", 0604);
	ok(gpu4fs_open(client, NULL, "/d/name-0", O_RDONLY, 0, &file));
	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(stat.mode & 07777, 0604);
	ok(gpu4fs_close(file));
}

/* The end of a listing is known; who asks behind it learns of names that were made since. */
static void the_end_of_a_listing_takes_no_command(void **state)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;

	(void)state;
	make_names(3);
	ok(gpu4fs_opendir(client, NULL, "/d", 0, &dir));
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(gpu4fs_readdir(dir, &entry), 1);
	assert_int_equal(gpu4fs_readdir(dir, &entry), 0);
	await(&commands, 2);
	assert_int_equal(count_of(&commands), 2); /* the open and one READDIR */
	assert_int_equal(gpu4fs_readdir(dir, &entry), 0);
	await(&commands, 3);
	gpu4fs_seekdir(dir, 0);
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(gpu4fs_readdir(dir, &entry), 1);
	assert_int_equal(gpu4fs_readdir(dir, &entry), 0);
	ok(gpu4fs_closedir(dir));
	ok(gpu4fs_opendir(client, NULL, "/", 0, &dir)); /* of more than one READDIR */
	ok(gpu4fs_closedir(dir));
}

/* ------------------------------------------------------------------ reads */

/* READs behind those that are waited for run when they will, also when the program has set the file's times, or has closed it. */
static void what_nobody_has_read_leaves_the_time_of_access(void **state)
{
	static uint8_t data[1 << 20];
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	struct g4_cmd read = {.op = G4_CMD_READ, .data = data, .length = 4096};
	gpu4fs *mounted = api_in_process();
	struct gpu4fs_stat stat;
	gpu4fs_file *file, *again;

	(void)state;
	api_write_pattern("/f", 3, 4 << 20);
	ok(gpu4fs_open(client, NULL, "/f", O_RDONLY, 0, &file));
	gives(gpu4fs_read(file, data, sizeof(data)), sizeof(data));
	ok(gpu4fs_close(file));
	await(&reads_behind, 7); /* three pieces more of this MiB, four of the next */
	assert_int_equal(count_of(&reads_behind_that_show), 0);

	ok(gpu4fs_open(mounted, NULL, "/f", O_RDONLY, 0, &again));
	ok(gpu4fs_utimens(mounted, NULL, "/f", times, 0));
	read.handle = again->handle;
	read.flags = G4_READ_AHEAD;
	ok(g4_engine_execute(mounted->mount->engine, &read));
	ok(gpu4fs_fstat(again, &stat));
	assert_int_equal(stat.atime.tv_sec, 1000);
	read.flags = 0;
	ok(g4_engine_execute(mounted->mount->engine, &read));
	ok(gpu4fs_fstat(again, &stat));
	assert_true(stat.atime.tv_sec > 2000);
	ok(gpu4fs_close(again));
}

/* Whoever may read a file leaves a time of access: a client's first READ by a handle is one, whatever it calls itself. */
static void who_reads_first_has_read(void **state)
{
	static uint8_t data[4096];
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	struct g4_cmd read = {.op = G4_CMD_READ, .flags = G4_READ_AHEAD, .data = data, .length = sizeof(data)};
	gpu4fs_file *file;

	(void)state;
	api_write_pattern("/f", 3, 4 * sizeof(data));
	ok(gpu4fs_utimens(fs, NULL, "/f", times, 0));
	ok(gpu4fs_open(client, NULL, "/f", O_RDONLY, 0, &file));
	read.handle = file->handle;
	ok(g4_engine_execute(client->mount->engine, &read));
	assert_true(api_lstat("/f").atime.tv_sec > 2000);
	ok(gpu4fs_utimens(fs, NULL, "/f", times, 0));
	ok(g4_engine_execute(client->mount->engine, &read));
	assert_int_equal(api_lstat("/f").atime.tv_sec, 1000);
	ok(gpu4fs_close(file));
}

/* O_NOATIME is for a file's owner, also for a client that does not ask whose it is. */
static void only_owners_open_without_a_time_of_access(void **state)
{
	gpu4fs *mounted = api_in_process();
	struct g4_cred cred = {.uid = 1001, .gid = 1001};
	gpu4fs_file *file = api_open_as(mounted, "/f", O_CREAT | O_RDWR, 0644);
	struct g4_cmd open = {.op = G4_CMD_OPEN,
			      .flags = G4_OPEN_READ | G4_OPEN_NOATIME,
			      .node = file->ino,
			      .generation = file->generation,
			      .cred = &cred};

	(void)state;
	ok(gpu4fs_fchown(file, 1000, 1000));
	assert_int_equal(g4_engine_execute(mounted->mount->engine, &open), -G4_E_PERM);
	cred.uid = 1000;
	ok(g4_engine_execute(mounted->mount->engine, &open));
	struct g4_cmd close = {.op = G4_CMD_RELEASE, .handle = open.handle};
	ok(g4_engine_execute(mounted->mount->engine, &close));
	ok(gpu4fs_close(file));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		foresight_test(names_that_were_listed_are_looked_up_before_they_are_asked_for),
		foresight_test(in_the_listings_order_each_is_looked_up_once),
		foresight_test(paths_may_begin_at_a_directory),
		foresight_test(what_has_changed_since_is_asked_for_again),
		foresight_test(a_directory_that_changes_is_not_foreseen_for_ever),
		foresight_test(no_answer_is_older_than_its_call),
		foresight_test(nothing_is_foreseen_of_a_server_that_is_gone),
		foresight_test(a_walk_comes_back_to_names_that_are_known),
		foresight_test(of_many_directories_all_answers_are_right),
		foresight_test(a_session_that_ends_has_nothing_under_way),
		foresight_test(links_are_asked_for_by_themselves),
		foresight_test(a_file_that_was_looked_at_is_known_when_it_is_open),
		foresight_test(the_end_of_a_listing_takes_no_command),
		foresight_test(what_nobody_has_read_leaves_the_time_of_access),
		foresight_test(who_reads_first_has_read),
		foresight_test(only_owners_open_without_a_time_of_access),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
