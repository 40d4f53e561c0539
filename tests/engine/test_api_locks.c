/* SPDX-License-Identifier: Apache-2.0 */
/* Advisory locks between handles: byte ranges and whole files. */
#include "api_fixture.h"

#include <sys/file.h>

static gpu4fs_file *a, *b;

static int setup(void **state)
{
	api_setup(state);
	a = api_open("/f", O_RDWR | O_CREAT, 0644);
	b = api_open("/f", O_RDWR, 0);
	return 0;
}

static int teardown(void **state)
{
	if (a)
		ok(gpu4fs_close(a));
	if (b)
		ok(gpu4fs_close(b));
	return api_teardown(state);
}

static int lock(gpu4fs_file *file, int type, int64_t start, int64_t length, uint64_t owner)
{
	const struct gpu4fs_lock wanted = {
		.size = sizeof(wanted), .type = (int16_t)type, .start = start, .length = length, .owner = owner};

	return gpu4fs_lock_set(file, &wanted, 0);
}

/* The type of the lock in the way of an exclusive one, and its range. */
static int blocker(gpu4fs_file *file, int64_t start, int64_t length, struct gpu4fs_lock *found)
{
	*found = (struct gpu4fs_lock){.size = sizeof(*found), .type = F_WRLCK, .start = start, .length = length};
	ok(gpu4fs_lock_get(file, found));
	return found->type;
}

static void exclusive_ranges_keep_others_out(void **state)
{
	struct gpu4fs_lock found;

	(void)state;
	ok(lock(a, F_WRLCK, 100, 50, 0));
	fails(lock(b, F_WRLCK, 149, 1, 0), EAGAIN);
	fails(lock(b, F_RDLCK, 0, 0, 0), EAGAIN);
	ok(lock(b, F_WRLCK, 150, 10, 0));
	ok(lock(b, F_WRLCK, 0, 100, 0));
	assert_int_equal(blocker(b, 0, 0, &found), F_WRLCK);
	assert_int_equal(found.start, 100);
	assert_int_equal(found.length, 50);
	ok(lock(a, F_UNLCK, 0, 0, 0));
	assert_int_equal(blocker(b, 0, 0, &found), F_UNLCK);
	ok(lock(b, F_WRLCK, 0, 0, 0));
}

static void shared_ranges_keep_writers_out(void **state)
{
	(void)state;
	ok(lock(a, F_RDLCK, 0, 10, 0));
	ok(lock(b, F_RDLCK, 5, 10, 0));
	fails(lock(a, F_WRLCK, 0, 10, 0), EAGAIN);
	ok(lock(a, F_WRLCK, 0, 5, 0));
	fails(lock(b, F_RDLCK, 0, 1, 0), EAGAIN);
}

static void unlocking_the_middle_splits_and_relocking_merges(void **state)
{
	struct gpu4fs_lock found;

	(void)state;
	ok(lock(a, F_WRLCK, 0, 100, 0));
	ok(lock(a, F_UNLCK, 40, 20, 0));
	ok(lock(b, F_WRLCK, 40, 20, 0));
	fails(lock(b, F_WRLCK, 39, 1, 0), EAGAIN);
	fails(lock(b, F_WRLCK, 60, 1, 0), EAGAIN);
	ok(lock(b, F_UNLCK, 0, 0, 0));
	ok(lock(a, F_WRLCK, 40, 20, 0));
	blocker(b, 50, 1, &found);
	assert_int_equal(found.start, 0);
	assert_int_equal(found.length, 100);
	ok(lock(a, F_RDLCK, 10, 10, 0)); /* a part changes type */
	ok(lock(b, F_RDLCK, 10, 10, 0));
	fails(lock(b, F_RDLCK, 9, 1, 0), EAGAIN);
}

static void ranges_to_the_end_have_none(void **state)
{
	struct gpu4fs_lock found;

	(void)state;
	ok(lock(a, F_WRLCK, 1000, 0, 0));
	fails(lock(b, F_WRLCK, INT64_MAX, 0, 0), EAGAIN);
	ok(lock(b, F_WRLCK, 0, 1000, 0));
	blocker(b, INT64_C(1) << 60, 1, &found);
	assert_int_equal(found.start, 1000);
	assert_int_equal(found.length, 0);
}

static void a_numbered_owner_is_one_whatever_the_handle(void **state)
{
	struct gpu4fs_lock found;

	(void)state;
	ok(lock(a, F_WRLCK, 0, 10, 7));
	ok(lock(b, F_WRLCK, 5, 10, 7));
	fails(lock(b, F_WRLCK, 0, 1, 8), EAGAIN);
	fails(lock(a, F_WRLCK, 0, 1, 0), EAGAIN);
	assert_int_equal(blocker(a, 0, 1, &found), F_WRLCK);
	assert_int_equal(found.owner, 7);
	ok(gpu4fs_lock_release(b, 7));
	ok(lock(b, F_WRLCK, 0, 20, 8));
	fails(gpu4fs_lock_release(b, 0), EINVAL);
}

static void closing_a_handle_drops_its_locks(void **state)
{
	(void)state;
	ok(lock(a, F_WRLCK, 0, 10, 0));
	ok(lock(a, F_WRLCK, 20, 10, 9));
	ok(gpu4fs_flock(a, LOCK_EX));
	ok(gpu4fs_close(a));
	a = NULL;
	ok(lock(b, F_WRLCK, 0, 0, 0));
	ok(gpu4fs_flock(b, LOCK_EX | LOCK_NB));
}

static void locks_need_the_matching_handle(void **state)
{
	gpu4fs_file *reader = api_open("/f", O_RDONLY, 0), *writer = api_open("/f", O_WRONLY, 0);
	struct gpu4fs_lock bad = {.size = 4, .type = F_RDLCK};

	(void)state;
	fails(lock(reader, F_WRLCK, 0, 1, 0), EBADF);
	fails(lock(writer, F_RDLCK, 0, 1, 0), EBADF);
	ok(lock(reader, F_RDLCK, 0, 1, 0));
	fails(lock(a, 77, 0, 1, 0), EINVAL);
	fails(lock(a, F_RDLCK, -1, 1, 0), EINVAL);
	fails(lock(a, F_RDLCK, 0, -1, 0), EINVAL);
	fails(gpu4fs_lock_set(a, &bad, 0), EINVAL);
	ok(gpu4fs_close(reader));
	ok(gpu4fs_close(writer));
}

static void whole_file_locks_are_shared_or_exclusive(void **state)
{
	(void)state;
	ok(gpu4fs_flock(a, LOCK_SH));
	ok(gpu4fs_flock(b, LOCK_SH | LOCK_NB));
	fails(gpu4fs_flock(b, LOCK_EX | LOCK_NB), EAGAIN);
	ok(gpu4fs_flock(a, LOCK_UN));
	ok(gpu4fs_flock(b, LOCK_EX | LOCK_NB));
	fails(gpu4fs_flock(a, LOCK_SH | LOCK_NB), EAGAIN);
	ok(lock(a, F_WRLCK, 0, 0, 0)); /* the other kind of lock */
	fails(gpu4fs_flock(a, 64), EINVAL);
}

static void *wait_for_lock(void *argument)
{
	const struct gpu4fs_lock wanted = {.size = sizeof(wanted), .type = F_WRLCK, .start = 5, .length = 1};

	*(int *)argument = gpu4fs_lock_set(b, &wanted, 1);
	return NULL;
}

static void a_waiter_gets_the_lock_when_it_is_given_up(void **state)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	pthread_t thread;
	int result = 1;

	(void)state;
	ok(lock(a, F_WRLCK, 0, 10, 0));
	assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &result), 0);
	nanosleep(&moment, NULL);
	ok(lock(a, F_UNLCK, 0, 5, 0)); /* not the part that is waited for */
	nanosleep(&moment, NULL);
	ok(lock(a, F_UNLCK, 5, 5, 0));
	pthread_join(thread, NULL);
	ok(result);
	fails(lock(a, F_WRLCK, 5, 1, 0), EAGAIN);
}

static void *wait_as_owner_two(void *argument)
{
	const struct gpu4fs_lock wanted = {
		.size = sizeof(wanted), .type = F_WRLCK, .start = 0, .length = 1, .owner = 2};

	*(int *)argument = gpu4fs_lock_set(b, &wanted, 1);
	return NULL;
}

static void a_circle_of_waiters_is_refused(void **state)
{
	const struct gpu4fs_lock wanted = {
		.size = sizeof(wanted), .type = F_WRLCK, .start = 10, .length = 1, .owner = 1};
	const struct timespec moment = {.tv_nsec = 50000000};
	pthread_t thread;
	int result = 1, rc;

	(void)state;
	ok(lock(a, F_WRLCK, 0, 1, 1));
	ok(lock(b, F_WRLCK, 10, 1, 2));
	assert_int_equal(pthread_create(&thread, NULL, wait_as_owner_two, &result), 0);
	nanosleep(&moment, NULL);
	/* The second to wait is told. */
	rc = gpu4fs_lock_set(a, &wanted, 1);
	if (rc == 0) {
		pthread_join(thread, NULL);
		fails(result, EDEADLK);
		return;
	}
	fails(rc, EDEADLK);
	ok(gpu4fs_lock_release(a, 1));
	pthread_join(thread, NULL);
	ok(result);
}

enum { ADDERS = 4, ADDITIONS = 200 };

static void *add_under_lock(void *argument)
{
	gpu4fs_file *file;
	uint64_t value;

	(void)argument;
	if (gpu4fs_open(fs, NULL, "/f", O_RDWR, 0, &file))
		return (void *)1;
	for (int i = 0; i < ADDITIONS; i++) {
		struct gpu4fs_lock held = {.size = sizeof(held), .type = F_WRLCK, .start = 0, .length = 8};

		if (gpu4fs_lock_set(file, &held, 1))
			return (void *)1;
		gpu4fs_pread(file, &value, 8, 0);
		value++;
		gpu4fs_pwrite(file, &value, 8, 0);
		held.type = F_UNLCK;
		gpu4fs_lock_set(file, &held, 0);
	}
	return gpu4fs_close(file) ? (void *)1 : NULL;
}

static void a_lock_protects_a_counter(void **state)
{
	pthread_t threads[ADDERS];
	uint64_t value = 0;

	(void)state;
	gives(gpu4fs_pwrite(a, &value, 8, 0), 8);
	for (int i = 0; i < ADDERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_under_lock, NULL), 0);
	for (int i = 0; i < ADDERS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	gives(gpu4fs_pread(a, &value, 8, 0), 8);
	assert_int_equal(value, ADDERS * ADDITIONS);
}

#define lock_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lock_test(exclusive_ranges_keep_others_out),
		lock_test(shared_ranges_keep_writers_out),
		lock_test(unlocking_the_middle_splits_and_relocking_merges),
		lock_test(ranges_to_the_end_have_none),
		lock_test(a_numbered_owner_is_one_whatever_the_handle),
		lock_test(closing_a_handle_drops_its_locks),
		lock_test(locks_need_the_matching_handle),
		lock_test(whole_file_locks_are_shared_or_exclusive),
		lock_test(a_waiter_gets_the_lock_when_it_is_given_up),
		lock_test(a_circle_of_waiters_is_refused),
		lock_test(a_lock_protects_a_counter),
	};

	return cmocka_run_group_tests_name("api locks", tests, NULL, NULL);
}
