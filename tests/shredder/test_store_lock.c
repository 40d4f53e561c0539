/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks where a disk is full, where the process is told to end, of those who waited while somebody changed what they had read, and of processes that others
 * do not see. The host's name and what it shows of processes are the test's (--wrap).
 * Of store/lock.c, store/config.c, store/keys.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/maintain.h"

void __wrap_store_host(char host[65]);
uint64_t __wrap_store_process_space(void);
FILE *__wrap_fopen64(const char *path, const char *mode);
struct store_time __wrap_store_now(void);
struct store_time __real_store_now(void);
FILE *__real_fopen64(const char *path, const char *mode);

static const char *host = "here";
static uint64_t process_space;
static bool hides_processes, hides_boot;
static int64_t later; /* seconds */
static char folder[64], repository[96];
static const uint8_t old_key[32] = {7}, new_key[32] = {8};
static struct store_secret old_secret = {.key = old_key, .key_bytes = sizeof(old_key)};
static struct store_secret new_secret = {.key = new_key, .key_bytes = sizeof(new_key)};

void __wrap_store_host(char name[65])
{
	snprintf(name, 65, "%s", host);
}

uint64_t __wrap_store_process_space(void)
{
	return process_space;
}

struct store_time __wrap_store_now(void)
{
	struct store_time now = __real_store_now();

	now.seconds += later;
	return now;
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	if ((hides_processes && strncmp(path, "/proc/", 6) == 0 && strstr(path, "/stat") != NULL) ||
	    (hides_boot && strstr(path, "boot_id") != NULL))
		return NULL;
	return __real_fopen64(path, mode);
}

static int begin(void **state)
{
	(void)state;
	host = "here";
	process_space = 0;
	hides_processes = hides_boot = false;
	later = 0;
	if (test_folder(folder, sizeof(folder), "lock") < 0)
		return -1;
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	return 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int give_secret(void *user, struct store_secret *secret)
{
	*secret = *(const struct store_secret *)user;
	return 0;
}

static void make(bool encrypted)
{
	struct store *s;

	assert_int_equal(
		store_create(&(struct store_place){.path = repository}, encrypted ? &old_secret : NULL, NULL, &s), 0);
	store_close(s);
}

static int try_open(struct store_secret *secret, struct store **s)
{
	return store_open(&(struct store_place){.path = repository}, secret != NULL ? give_secret : NULL, secret, s);
}

static struct store *open_with(struct store_secret *secret)
{
	struct store *s;

	assert_int_equal(try_open(secret, &s), 0);
	return s;
}

static size_t count_locks(struct store *s, struct store_listed *first)
{
	struct store_listed *names;
	size_t count;

	assert_int_equal(store_list_all(s->backend, STORE_LOCK, &names, &count), 0);
	if (count > 0 && first != NULL)
		*first = names[0];
	free(names);
	return count;
}

/* ------------------------------------------------------------------------------------------------- what a backend does */

static const struct store_backend_ops *real;
static struct store_backend_ops ops;

static int put_where_full(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
			  size_t bytes)
{
	return bytes > 0 ? store_fail(STORE_E_FULL, "no room") : real->put(b, kind, name, data, bytes);
}

/* The process is told to end just when the file is there. */
static int put_and_end(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		       size_t bytes)
{
	if (real->put(b, kind, name, data, bytes) == 0)
		store_locks_end();
	_exit(0);
}

static void set_put(struct store *s, int (*put)(struct store_backend *b, enum store_kind kind,
						const struct store_id *name, const void *data, size_t bytes))
{
	real = s->backend->ops;
	ops = *real;
	ops.put = put;
	s->backend->ops = &ops;
}

/* ---------------------------------------------------------------------------------------------------------- full disks */

struct holder {
	pid_t process;
	int to; /* closing it lets the process live on no longer */
};

/* A process that holds a lock, of a full disk or not. */
static struct holder hold_where(struct store_secret *secret, bool full)
{
	struct holder holder;
	int ready[2], stay[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(stay), 0);
	holder.process = fork();
	if (holder.process == 0) {
		struct store *s;

		close(stay[1]);
		if (try_open(secret, &s) != 0)
			_exit(1);
		if (full)
			set_put(s, put_where_full);
		if (store_lock(s, true) != 0 || write(ready[1], "r", 1) != 1)
			_exit(1);
		(void)!read(stay[0], &byte, 1);
		_exit(0); /* without giving it back */
	}
	assert_true(holder.process > 0);
	close(ready[1]);
	close(stay[0]);
	holder.to = stay[1];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return holder;
}

static struct holder hold(struct store_secret *secret)
{
	return hold_where(secret, true);
}

static void end_holder(const struct holder *holder)
{
	int status;

	assert_int_equal(kill(holder->process, SIGKILL), 0);
	assert_int_equal(waitpid(holder->process, &status, 0), holder->process);
	close(holder->to);
}

static void assert_cleared(struct store *s, uint64_t wanted_removed, uint64_t wanted_left)
{
	uint64_t removed, left;

	assert_int_equal(store_locks_clear(s, false, &removed, &left), 0);
	assert_int_equal(removed, wanted_removed);
	assert_int_equal(left, wanted_left);
}

/* While the process is there it locks, for everybody; when it is gone it does not, for its host. */
static void check_empty(struct store_secret *secret)
{
	struct store_listed file;
	struct holder holder;
	struct store *s;

	make(secret != NULL);
	holder = hold(secret);
	s = open_with(secret);
	assert_int_equal(count_locks(s, &file), 1);
	assert_int_equal(file.bytes, 0);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	host = "there";
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	end_holder(&holder);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	host = "here";
	assert_int_equal(store_lock(s, true), 0);
	assert_int_equal(count_locks(s, NULL), 1);
	store_unlock(s);
	holder = hold(secret);
	end_holder(&holder);
	assert_int_equal(count_locks(s, NULL), 1);
	assert_cleared(s, 1, 0);
	assert_int_equal(count_locks(s, NULL), 0);
	store_close(s);
}

static void a_dead_lock_without_a_byte_goes(void **state)
{
	(void)state;
	check_empty(NULL);
}

static void a_dead_lock_without_a_byte_goes_encrypted(void **state)
{
	(void)state;
	check_empty(&old_secret);
}

/* FORMAT.md: bytes 0 to 7 of the name are the host, 8 to 15 what this boot is called. */
static void names_of_others_count(void **state)
{
	struct store_listed file;
	struct holder holder;
	struct store_id name;
	struct store *s;

	(void)state;
	make(true);
	holder = hold(&old_secret);
	s = open_with(&old_secret);
	assert_int_equal(count_locks(s, &file), 1);
	assert_int_equal(s->backend->ops->remove(s->backend, STORE_LOCK, &file.name), 0);
	name = file.name;
	name.bytes[3] ^= 1;
	assert_int_equal(s->backend->ops->put(s->backend, STORE_LOCK, &name, "", 0), 0);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	assert_int_equal(s->backend->ops->remove(s->backend, STORE_LOCK, &name), 0);
	name = file.name;
	name.bytes[11] ^= 1; /* before the machine was started */
	assert_int_equal(s->backend->ops->put(s->backend, STORE_LOCK, &name, "", 0), 0);
	assert_int_equal(store_lock(s, false), 0);
	assert_int_equal(count_locks(s, NULL), 1);
	store_unlock(s);
	name = file.name;
	name.bytes[16] ^= 1; /* another process had its number */
	assert_int_equal(s->backend->ops->put(s->backend, STORE_LOCK, &name, "", 0), 0);
	assert_cleared(s, 1, 0);
	end_holder(&holder);
	store_close(s);
}

/* It has no contents that could be printed, and its name says enough. */
static void what_a_name_says_is_told(void **state)
{
	struct store_lock_info info;
	struct store_listed file;
	struct holder holder;
	struct store *s;

	(void)state;
	make(true);
	holder = hold(&old_secret);
	s = open_with(&old_secret);
	assert_int_equal(count_locks(s, &file), 1);
	assert_int_equal(store_lock_get(s, &file.name, &info), 0);
	assert_true(info.exclusive);
	assert_false(info.dead);
	assert_int_equal(info.process, (uint64_t)holder.process);
	assert_string_equal(info.host, "here");
	end_holder(&holder);
	assert_int_equal(store_lock_get(s, &file.name, &info), 0);
	assert_true(info.dead);
	store_close(s);
}

static struct store_id refused;

static int remove_but_one(struct store_backend *b, enum store_kind kind, const struct store_id *name)
{
	if (refused.bytes[0] == 0 && refused.bytes[1] == 0)
		refused = *name;
	return store_id_equal(name, &refused) ? store_fail(STORE_E_IO, "this one stays") : real->remove(b, kind, name);
}

static void one_that_can_not_be_removed_keeps_no_others(void **state)
{
	uint64_t removed, left;
	struct store_listed file;
	struct holder holder;
	struct store_id name;
	struct store *s;

	(void)state;
	make(false);
	holder = hold(NULL);
	end_holder(&holder);
	s = open_with(NULL);
	assert_int_equal(count_locks(s, &file), 1);
	name = file.name;
	name.bytes[30] ^= 1; /* another one of that process */
	assert_int_equal(s->backend->ops->put(s->backend, STORE_LOCK, &name, "", 0), 0);
	memset(&refused, 0, sizeof(refused));
	real = s->backend->ops;
	ops = *real;
	ops.remove = remove_but_one;
	s->backend->ops = &ops;
	assert_int_equal(store_locks_clear(s, false, &removed, &left), STORE_E_IO);
	assert_int_equal(removed, 1);
	assert_int_equal(left, 1);
	assert_int_equal(count_locks(s, NULL), 1);
	store_close(s);
}

/* ------------------------------------------------------------------------------------------- what others do not see */

/* Containers of the host's name have its boot id as well, and processes of their own. */
static void check_other_space(bool full)
{
	struct holder holder;
	struct store *s;

	make(true);
	process_space = 4026532000;
	holder = hold_where(&old_secret, full);
	process_space = 0;
	s = open_with(&old_secret);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	process_space = 4026532001;
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	end_holder(&holder);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	process_space = 4026532000;
	assert_int_equal(store_lock(s, false), 0);
	assert_int_equal(count_locks(s, NULL), 1);
	store_close(s);
}

static void locks_of_other_containers_count(void **state)
{
	(void)state;
	check_other_space(false);
}

static void empty_locks_of_other_containers_count(void **state)
{
	(void)state;
	check_other_space(true);
}

static void the_longest_name_of_a_host_has_room_for_that(void **state)
{
	(void)state;
	host = "a-host-of-sixty-four-letters-which-is-the-longest-that-there-is.";
	assert_int_equal(strlen(host), 64);
	check_other_space(false);
}

/* /proc may show each user his own processes alone (hidepid). */
static void check_hidden(bool full)
{
	struct holder holder;
	struct store *s;

	make(true);
	holder = hold_where(&old_secret, full);
	hides_processes = true;
	s = open_with(&old_secret);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	end_holder(&holder);
	assert_int_equal(store_lock(s, false), 0);
	assert_int_equal(count_locks(s, NULL), 1);
	store_close(s);
}

static void locks_of_hidden_processes_count(void **state)
{
	(void)state;
	check_hidden(false);
}

static void empty_locks_of_hidden_processes_count(void **state)
{
	(void)state;
	check_hidden(true);
}

/* Who has no /proc does not know when his machine was started. */
static void locks_without_a_boot_count(void **state)
{
	struct holder holder;
	struct store *s;

	(void)state;
	make(true);
	hides_boot = true;
	holder = hold_where(&old_secret, false);
	hides_boot = false;
	s = open_with(&old_secret);
	assert_int_equal(store_lock(s, false), STORE_E_LOCKED);
	assert_cleared(s, 0, 1);
	end_holder(&holder);
	later = 29L * 60;
	assert_cleared(s, 0, 1);
	later = 31L * 60;
	assert_cleared(s, 1, 0);
	holder = hold_where(&old_secret, false); /* of one that is there that is known, however old it is */
	later += 31L * 60;
	assert_cleared(s, 0, 1);
	hides_boot = true;
	assert_cleared(s, 1, 0);
	end_holder(&holder);
	store_close(s);
}

/* --------------------------------------------------------------------------------------------------- told to end */

/* Between a lock's file and everything that store_lock() does then. */
static void a_lock_is_known_with_its_file(void **state)
{
	struct store *s;
	int status;

	(void)state;
	make(true);
	const pid_t child = fork();
	if (child == 0) {
		if (try_open(&old_secret, &s) != 0)
			_exit(1);
		set_put(s, put_and_end);
		store_lock(s, true);
		_exit(1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	s = open_with(&old_secret);
	assert_int_equal(count_locks(s, NULL), 0);
	store_close(s);
}

/* -------------------------------------------------------------------------------------------------- who has waited */

static void no_problem(void *user, const char *sentence)
{
	(void)user;
	fail_msg("%s", sentence);
}

static void set_parity(struct store *s, uint32_t parity)
{
	struct store_parity_change change = {.problem = no_problem};

	assert_int_equal(store_lock(s, true), 0);
	assert_int_equal(store_parity_set(s, parity, &change), 0);
	store_unlock(s);
}

/* Opened before the parity changed, and locked behind that: what is written then has the new one. */
static void the_parity_is_that_of_now(void **state)
{
	(void)state;
	make(false);
	struct store *waits = open_with(NULL), *changes = open_with(NULL);

	set_parity(changes, 2);
	assert_int_equal(waits->parity, 0);
	assert_int_equal(store_lock(waits, false), 0);
	assert_int_equal(waits->parity, 2);
	store_close(waits);
	store_close(changes);
}

/* A change of parity gives the key another name: who changes the password then has closed the old one. */
static void the_key_is_where_it_is_now(void **state)
{
	struct store_id name;

	(void)state;
	make(true);
	struct store *waits = open_with(&old_secret), *changes = open_with(&old_secret);

	set_parity(changes, 1);
	store_close(changes);
	assert_int_equal(store_lock(waits, true), 0);
	assert_int_equal(store_key_replace(waits, &new_secret, &name), 0);
	store_close(waits);
	assert_int_equal(try_open(&old_secret, &waits), STORE_E_PASSWORD);
	store_close(open_with(&new_secret));
}

/* Of two who change one password, each behind the lock, the first has done so, and the other one has no key that he could change. */
static void a_key_is_changed_once(void **state)
{
	static const uint8_t third_key[32] = {9};
	struct store_secret third_secret = {.key = third_key, .key_bytes = sizeof(third_key)};
	struct store_id name;

	(void)state;
	make(true);
	struct store *waits = open_with(&old_secret), *changes = open_with(&old_secret);

	assert_int_equal(store_lock(changes, true), 0);
	assert_int_equal(store_key_replace(changes, &new_secret, &name), 0);
	store_close(changes);
	assert_int_equal(store_lock(waits, true), 0);
	assert_int_equal(store_key_replace(waits, &third_secret, &name), STORE_E_PASSWORD);
	store_close(waits);
	assert_int_equal(try_open(&third_secret, &waits), STORE_E_PASSWORD);
	store_close(open_with(&new_secret));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_dead_lock_without_a_byte_goes, begin, end),
		cmocka_unit_test_setup_teardown(a_dead_lock_without_a_byte_goes_encrypted, begin, end),
		cmocka_unit_test_setup_teardown(names_of_others_count, begin, end),
		cmocka_unit_test_setup_teardown(what_a_name_says_is_told, begin, end),
		cmocka_unit_test_setup_teardown(one_that_can_not_be_removed_keeps_no_others, begin, end),
		cmocka_unit_test_setup_teardown(locks_of_other_containers_count, begin, end),
		cmocka_unit_test_setup_teardown(empty_locks_of_other_containers_count, begin, end),
		cmocka_unit_test_setup_teardown(the_longest_name_of_a_host_has_room_for_that, begin, end),
		cmocka_unit_test_setup_teardown(locks_of_hidden_processes_count, begin, end),
		cmocka_unit_test_setup_teardown(empty_locks_of_hidden_processes_count, begin, end),
		cmocka_unit_test_setup_teardown(locks_without_a_boot_count, begin, end),
		cmocka_unit_test_setup_teardown(a_lock_is_known_with_its_file, begin, end),
		cmocka_unit_test_setup_teardown(the_parity_is_that_of_now, begin, end),
		cmocka_unit_test_setup_teardown(the_key_is_where_it_is_now, begin, end),
		cmocka_unit_test_setup_teardown(a_key_is_changed_once, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
