/* SPDX-License-Identifier: Apache-2.0 */
/* State files of mounts: of several with one number and one device the one counts whose mount goes on. The library leaves the front end out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "fuse/state.c"

#define OTHERS 6u

struct other { /* a server in a process of its own, which holds the lock of its file until it is told to end */
	pid_t pid;
	int orders;
};

static struct g4_fuse_mount_entry entry_of(unsigned user)
{
	struct g4_fuse_mount_entry entry = {.major = 4095, .minor = 1000000, .user_id = user};

	snprintf(entry.source, sizeof(entry.source), "/nowhere/test_fuse_state-%ld", (long)getpid());
	return entry;
}

static void start(struct other *others, uint32_t n, const struct g4_fuse_mount_entry *entry, bool ends)
{
	struct other *other = &others[n];
	int ready[2], orders[2];
	char c = 0;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(orders), 0);
	other->pid = fork();
	assert_true(other->pid >= 0);
	if (other->pid == 0) {
		close(orders[1]);
		for (uint32_t k = 0; k < n; k++)
			close(others[k].orders);
		const int fd = g4_fuse_state_create(entry, "cpu");
		if (fd >= 0 && ends)
			(void)dprintf(fd, "result 0\n");
		c = fd >= 0;
		if (write(ready[1], &c, 1) != 1 || read(orders[0], &c, 1) != 0)
			_exit(1);
		if (fd >= 0)
			g4_fuse_state_finish(entry, fd, 0);
		_exit(0);
	}
	close(ready[1]);
	close(orders[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(c, 1);
	close(ready[0]);
	other->orders = orders[1];
}

static void end(const struct other *other)
{
	int status = 1;

	close(other->orders);
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	assert_int_equal(status, 0);
}

/* Whose file is opened; 0: none is. */
static long opened(const struct g4_fuse_mount_entry *entry)
{
	char text[STATE_TEXT_BYTES];
	const int fd = g4_fuse_state_open(entry);

	if (fd < 0)
		return 0;
	assert_int_equal(read_state(fd, text, sizeof(text)), 0);
	close(fd);
	return strtol(state_value(text, "pid"), NULL, 10);
}

static void one_that_is_over_does_not_stand_for_the_next(void **state)
{
	const struct g4_fuse_mount_entry entry = entry_of(geteuid());
	struct other others[OTHERS];
	char directory[STATE_PATH_BYTES / 2];

	(void)state;
	if (state_directory(entry.user_id, true, directory, sizeof(directory)) < 0)
		skip();
	/* the one that goes on is neither the first nor the last that a directory lists, in whichever order it does */
	for (uint32_t n = 0; n < OTHERS; n++)
		start(others, n, &entry, n != OTHERS / 2);
	assert_int_equal(opened(&entry), others[OTHERS / 2].pid);
	end(&others[OTHERS / 2]);
	assert_int_equal(opened(&entry), 0);
	for (uint32_t n = 0; n < OTHERS; n++)
		if (n != OTHERS / 2)
			end(&others[n]);
	assert_int_equal(opened(&entry), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_that_is_over_does_not_stand_for_the_next)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
