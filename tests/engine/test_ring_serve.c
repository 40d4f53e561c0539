/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions over a socket, and clients that die, are silent, or talk nonsense. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "api_fixture.h"
#include "client/beneath.h"
#include "client/client.h"
#include "inode/trail.h"
#include "ring/serve_host.h"
#include "simt/simt.h"

#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000)

static struct g4_server *server;
static char path[64];

static int setup(void **state)
{
	char message[256];

	if (api_setup(state))
		return -1;
	snprintf(path, sizeof(path), "serve.%d.socket", (int)getpid());
	return g4_server_start(g4_engine_sessions(fs->mount->engine), &(struct g4_server_options){.path = path},
			       &server, message, sizeof(message));
}

static int teardown(void **state)
{
	g4_server_stop(server);
	return api_teardown(state);
}

#define serve_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static gpu4fs *connect_here(void)
{
	gpu4fs *connection = NULL;
	int rc = gpu4fs_connect(path, NULL, &connection);

	if (rc)
		print_error("%s\n", gpu4fs_last_message());
	ok(rc);
	return connection;
}

static void await_clients(uint32_t wanted)
{
	uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while (g4_server_clients(server) != wanted) {
		assert_true(g4_monotonic_ns() < until);
		g4_pause();
	}
}

/* Only when no client is left: nobody else may be at work while the engine is asked. */
static uint32_t open_files(void)
{
	uint64_t inodes[64];

	return g4_engine_open_inodes(fs->mount->engine, inodes, 64);
}

/* ------------------------------------------------------------------ tests */

static void connections_see_one_file_system(void **state)
{
	gpu4fs *one = connect_here(), *two = connect_here();
	gpu4fs_file *file;
	struct gpu4fs_stat stat;
	char text[8] = "";

	(void)state;
	ok(gpu4fs_open(one, NULL, "/shared", O_RDWR | O_CREAT, 0644, &file));
	gives(gpu4fs_write(file, "text", 4), 4);
	ok(gpu4fs_close(file));
	ok(gpu4fs_open(two, NULL, "/shared", O_RDONLY, 0, &file));
	gives(gpu4fs_read(file, text, sizeof(text)), 4);
	assert_string_equal(text, "text");
	ok(gpu4fs_close(file));
	ok(gpu4fs_stat(fs, NULL, "/shared", &stat));
	assert_int_equal(stat.size, 4);
	ok(gpu4fs_unmount(one));
	ok(gpu4fs_unmount(two));
	await_clients(0);
}

static void a_path_without_a_server_says_so(void **state)
{
	gpu4fs *connection;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void)state;
	fails(gpu4fs_connect("nobody.socket", NULL, &connection), ENOENT);
	snprintf(address.sun_path, sizeof(address.sun_path), "left.%d.socket", (int)getpid());
	ok(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	close(fd);
	fails(gpu4fs_connect(address.sun_path, NULL, &connection), ENODEV);
	assert_non_null(strstr(gpu4fs_last_message(), "no server"));
	unlink(address.sun_path);
}

/* A child connects, opens files, and works until it is killed. */
static void work_until_killed(int ready)
{
	gpu4fs *connection;
	gpu4fs_file *file;
	static char data[300000];

	if (gpu4fs_connect(path, NULL, &connection) || gpu4fs_mkdir(connection, NULL, "/child", 0755) ||
	    gpu4fs_open(connection, NULL, "/child/open", O_RDWR | O_CREAT, 0644, &file))
		_exit(1);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (int64_t at = 0;; at += 100000)
		if (gpu4fs_pwrite(file, data, sizeof(data), at % 1000000) < 0 || gpu4fs_fsync(file))
			_exit(1);
}

static void a_killed_client_leaves_nothing_behind(void **state)
{
	int ready[2], status;
	char byte;

	(void)state;
	ok(pipe(ready));
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		work_until_killed(ready[1]);
	close(ready[1]);
	gives(read(ready[0], &byte, 1), 1);
	await_clients(1);
	ok(kill(child, SIGKILL));
	gives(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	close(ready[0]);
	await_clients(0);
	assert_int_equal(open_files(), 0);
	ok(gpu4fs_unlink(fs, NULL, "/child/open"));
	ok(gpu4fs_rmdir(fs, NULL, "/child"));
}

#define BATCH_NAMES 400u

/* The same, with batches of names: made by one, moved and removed by the next. */
static void batches_until_killed(int ready)
{
	static struct gpu4fs_batch_entry entries[BATCH_NAMES];
	static char names[BATCH_NAMES][2][32];
	gpu4fs *connection;

	if (gpu4fs_connect(path, NULL, &connection) || gpu4fs_mkdir(connection, NULL, "/child", 0755))
		_exit(1);
	for (uint32_t k = 0; k < BATCH_NAMES; k++) {
		snprintf(names[k][0], sizeof(names[k][0]), "/child/%u/here", k);
		snprintf(names[k][1], sizeof(names[k][1]), "/child/%u/there", k);
	}
	for (uint32_t round = 0;; round++) {
		for (uint32_t k = 0; k < BATCH_NAMES; k++)
			entries[k] = (struct gpu4fs_batch_entry){
				.op = round % 3 == 0 ? GPU4FS_BATCH_MKDIR_ALL :
				      round % 3 == 1 ? GPU4FS_BATCH_RENAME :
						       GPU4FS_BATCH_RMDIR,
				.mode = round % 3 == 0 ? 0755 : 0,
				.path = names[k][round % 3 == 2],
				.path2 = names[k][1],
			};
		if (gpu4fs_batch(connection, NULL, entries, BATCH_NAMES, 0) != BATCH_NAMES ||
		    (round == 3 && write(ready, "x", 1) != 1))
			_exit(1);
	}
}

/* Each entry of the batch that it was in is done or not; what is there goes on as if it had ended well. */
static void a_client_that_is_killed_in_a_batch(void **state)
{
	int ready[2], status;
	uint64_t cleared = 0;
	int64_t names;
	char byte, name[32];

	(void)state;
	ok(pipe(ready));
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		batches_until_killed(ready[1]);
	close(ready[1]);
	gives(read(ready[0], &byte, 1), 1);
	ok(kill(child, SIGKILL));
	gives(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	close(ready[0]);
	await_clients(0);
	assert_int_equal(open_files(), 0);
	for (uint32_t k = 0; k < BATCH_NAMES; k++) {
		snprintf(name, sizeof(name), "/child/%u", k);
		assert_true(api_exists(name));
		assert_in_range(api_count_names(name), 0, 1);
	}
	while ((names = gpu4fs_clear(fs, NULL, "/child", 1000, 0)) > 0)
		cleared += (uint64_t)names;
	ok(names);
	assert_in_range(cleared, BATCH_NAMES, 2 * BATCH_NAMES);
	ok(gpu4fs_rmdir(fs, NULL, "/child"));
}

static int raw_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	ok(connect(fd, (struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static void nonsense_on_the_socket_ends_that_connection_alone(void **state)
{
	gpu4fs *good = connect_here();
	uint64_t seed = 5;
	struct gpu4fs_stat stat;

	(void)state;
	for (int round = 0; round < 50; round++) {
		unsigned char noise[128];
		int fd = raw_socket();
		struct g4_hello hello = {.magic = G4_HELLO_MAGIC, .version = G4_HELLO_VERSION};
		struct g4_welcome welcome;
		ssize_t bytes = (ssize_t)(api_random(&seed) % sizeof(noise));

		api_pattern(noise, seed, 0, sizeof(noise));
		if (round % 5 == 4) { /* nonsense after a good beginning */
			gives(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
			gives(recv(fd, &welcome, sizeof(welcome), 0), sizeof(welcome));
			bytes = 7;
		} else if (round % 5 == 3) { /* nearly right */
			hello.version = 77;
			memcpy(noise, &hello, sizeof(hello));
			bytes = sizeof(hello);
		}
		if (send(fd, noise, (size_t)bytes, MSG_NOSIGNAL) == bytes && bytes > 0) {
			while (recv(fd, noise, sizeof(noise), 0) > 0)
				; /* an answer that says no, then the end */
		}
		close(fd);
	}
	ok(gpu4fs_stat(good, NULL, "/", &stat));
	ok(gpu4fs_unmount(good));
	await_clients(0);
}

/* What a client gets that does or does not know of epochs: descriptors, and what it may do with the third one. */
static uint32_t greet_raw(int fd, uint32_t umask, int fds[4])
{
	const struct g4_hello hello = {.magic = G4_HELLO_MAGIC, .version = G4_HELLO_VERSION, .umask = umask};
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct g4_welcome welcome;
	struct iovec part = {.iov_base = &welcome, .iov_len = sizeof(welcome)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};

	gives(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	gives(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), sizeof(welcome));
	ok(welcome.status);
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	assert_non_null(head);
	const uint32_t count = (uint32_t)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	assert_int_equal(welcome.features, count == 3 ? G4_WELCOME_EPOCHS : 0);
	memcpy(fds, CMSG_DATA(head), count * sizeof(int));
	return count;
}

static void epochs_are_for_who_asks_and_for_reading(void **state)
{
	int fds[4];
	int fd = raw_socket();

	(void)state;
	assert_int_equal(greet_raw(fd, 022, fds), 2); /* as clients did that know of no epochs */
	close(fds[0]);
	close(fds[1]);
	close(fd);
	fd = raw_socket();
	assert_int_equal(greet_raw(fd, 022 | G4_HELLO_EPOCHS, fds), 3);
	const uint64_t *epochs = mmap(NULL, G4_EPOCHS_BYTES, PROT_READ, MAP_SHARED, fds[2], 0);
	assert_ptr_not_equal(epochs, MAP_FAILED);
	assert_int_equal(mprotect((void *)(uintptr_t)epochs, G4_EPOCHS_BYTES, PROT_READ | PROT_WRITE), -1);
	assert_ptr_equal(mmap(NULL, G4_EPOCHS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0), MAP_FAILED);
	assert_int_equal(write(fds[2], "x", 1), -1);
	assert_int_equal(ftruncate(fds[2], 0), -1);
	ok(munmap((void *)(uintptr_t)epochs, G4_EPOCHS_BYTES));
	for (int k = 0; k < 3; k++)
		close(fds[k]);
	close(fd);
	await_clients(0);
}

/* What one client was told shows what others do, and nothing once its server has ended. */
static void what_is_kept_ends_with_the_server(void **state)
{
	gpu4fs *one = connect_here(), *two = connect_here();
	struct gpu4fs_stat stat;
	char message[256];

	(void)state;
	ok(gpu4fs_mkdir(one, NULL, "/kept", 0755));
	for (uint32_t round = 0; round < 100; round++) {
		const uint32_t mode = round % 2 ? 0700 : 0755;
		ok(gpu4fs_chmod(two, NULL, "/kept", mode));
		ok(gpu4fs_stat(one, NULL, "/kept", &stat));
		assert_int_equal(stat.mode & 07777, mode);
		fails(gpu4fs_stat(one, NULL, "/kept/new", &stat), ENOENT);
		ok(gpu4fs_mkdir(two, NULL, "/kept/new", 0755));
		ok(gpu4fs_access(one, NULL, "/kept/new", R_OK | X_OK));
		ok(gpu4fs_rmdir(two, NULL, "/kept/new"));
		fails(gpu4fs_access(one, NULL, "/kept/new", R_OK), ENOENT);
	}
	ok(gpu4fs_rmdir(two, NULL, "/kept"));
	ok(gpu4fs_stat(one, NULL, "/", &stat));
	g4_server_stop(server);
	fails(gpu4fs_stat(one, NULL, "/", &stat), EIO);
	ok(gpu4fs_unmount(one));
	ok(gpu4fs_unmount(two));
	ok(g4_server_start(g4_engine_sessions(fs->mount->engine), &(struct g4_server_options){.path = path}, &server,
			   message, sizeof(message)));
}

static void silent_clients_do_not_stand_in_the_way(void **state)
{
	int fds[8];

	(void)state;
	for (int i = 0; i < 8; i++)
		fds[i] = raw_socket();
	gpu4fs *good = connect_here();
	ok(gpu4fs_syncfs(good));
	ok(gpu4fs_unmount(good));
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	await_clients(0);
}

static void calls_on_a_server_that_ended_fail(void **state)
{
	char message[256];
	struct gpu4fs_stat stat;
	gpu4fs_file *file;
	gpu4fs *connection = connect_here();

	(void)state;
	ok(gpu4fs_open(connection, NULL, "/open", O_RDWR | O_CREAT, 0644, &file));
	g4_server_stop(server);
	fails(gpu4fs_stat(connection, NULL, "/open", &stat), EIO);
	fails(gpu4fs_write(file, "x", 1), EIO);
	fails(gpu4fs_close(file), EIO);
	ok(gpu4fs_unmount(connection));
	ok(g4_server_start(g4_engine_sessions(fs->mount->engine), &(struct g4_server_options){.path = path}, &server,
			   message, sizeof(message)));
	connection = connect_here();
	ok(gpu4fs_stat(connection, NULL, "/open", &stat));
	ok(gpu4fs_unmount(connection));
}

/* Paths of one connection, each with an answer of its own. */
static void a_path_that_leaves_is_said_to_leave(void **state)
{
	gpu4fs *connection = connect_here(), *other = connect_here();
	struct gpu4fs_stat stat;
	gpu4fs_file *file;

	(void)state;
	g4c_stay_beneath(connection);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_symlink(fs, "/d", NULL, "/absolute"));
	ok(gpu4fs_symlink(fs, "d/../d", NULL, "/inside"));
	ok(gpu4fs_symlink(fs, "../../above", NULL, "/d/outside"));
	ok(gpu4fs_symlink(fs, "/d/made", NULL, "/makes"));
	ok(gpu4fs_stat(connection, NULL, "/d/../d", &stat));
	ok(gpu4fs_stat(connection, NULL, "/inside", &stat));
	ok(gpu4fs_lstat(connection, NULL, "/absolute", &stat));
	fails(gpu4fs_stat(connection, NULL, "/absolute", &stat), EXDEV);
	fails(gpu4fs_stat(connection, NULL, "/absolute/x", &stat), EXDEV);
	fails(gpu4fs_stat(connection, NULL, "/..", &stat), EXDEV);
	fails(gpu4fs_stat(connection, NULL, "/d/../..", &stat), EXDEV);
	fails(gpu4fs_stat(connection, NULL, "/d/outside", &stat), EXDEV);
	fails(gpu4fs_mkdir(connection, NULL, "/absolute/new", 0755), EXDEV);
	fails(gpu4fs_rename(connection, NULL, "/inside", NULL, "/absolute/new", 0), EXDEV);
	fails(gpu4fs_rename(connection, NULL, "/d", NULL, "/moved", 0), EXDEV);
	fails(gpu4fs_rename(connection, NULL, "/inside", NULL, "/d", GPU4FS_RENAME_EXCHANGE), EXDEV);
	fails(gpu4fs_rename(connection, NULL, "/inside", NULL, "/moved", 8), EINVAL);
	ok(gpu4fs_rename(connection, NULL, "/inside", NULL, "/moved", 0));
	ok(gpu4fs_rename(connection, NULL, "/moved", NULL, "/inside", 0));
	fails(gpu4fs_open(connection, NULL, "/makes", O_RDWR | O_CREAT, 0644, &file), EXDEV);
	ok(gpu4fs_stat(other, NULL, "/absolute", &stat));
	ok(gpu4fs_stat(other, NULL, "/..", &stat));
	fails(gpu4fs_stat(other, NULL, "/d/made", &stat), ENOENT);
	ok(gpu4fs_unmount(connection));
	ok(gpu4fs_unmount(other));
}

/* ------------------------------------------------------------------ descriptors of the kernel */

static uint64_t asked_handle;
static uint32_t asked_flags;

/* In place of a mount: any file of the kernel's. */
static int give_null(void *context, uint64_t handle, uint32_t flags)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .handle = handle, .attr = &attr};

	asked_handle = handle;
	asked_flags = flags;
	if (g4_engine_execute(fs->mount->engine, &cmd) < 0 || attr.size == 0)
		return -G4_E_STALE;
	return open(context, O_RDONLY | O_CLOEXEC);
}

static void restart_with_descriptors(void)
{
	char message[256];

	g4_server_stop(server);
	ok(g4_server_start(g4_engine_sessions(fs->mount->engine),
			   &(struct g4_server_options){
				   .path = path, .hand_over = give_null, .context = (void *)(uintptr_t) "/dev/null"},
			   &server, message, sizeof(message)));
}

static void a_server_with_a_mount_gives_descriptors(void **state)
{
	struct stat st;
	gpu4fs_file *file, *empty, *quiet;

	(void)state;
	restart_with_descriptors();
	gpu4fs *connection = connect_here();
	ok(gpu4fs_open(connection, NULL, "/f", O_RDWR | O_CREAT, 0644, &file));
	ok(gpu4fs_open(connection, NULL, "/empty", O_RDWR | O_CREAT, 0644, &empty));
	gives(gpu4fs_write(file, "text", 4), 4);
	int fd = g4c_hand_over(file, O_APPEND | O_RDWR | O_CREAT);
	assert_true(fd >= 0);
	assert_int_equal(asked_flags, O_APPEND); /* no others of the client's word */
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode));
	close(fd);
	fails(g4c_hand_over(empty, 0), ESTALE);
	gives(gpu4fs_write(file, "more", 4), 4); /* the handle goes on */
	/* O_NOATIME was looked at when the file was opened, so it is of what was opened so */
	fd = g4c_hand_over(file, O_NOATIME);
	assert_true(fd >= 0);
	assert_int_equal(asked_flags, 0);
	close(fd);
	ok(gpu4fs_open(connection, NULL, "/f", O_RDWR | O_NOATIME, 0, &quiet));
	fd = g4c_hand_over(quiet, O_NOATIME);
	assert_true(fd >= 0);
	assert_int_equal(asked_flags, O_NOATIME);
	close(fd);
	ok(gpu4fs_close(quiet));
	ok(gpu4fs_close(empty));
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(connection));
	await_clients(0);
	assert_int_equal(open_files(), 0);
}

static void handles_of_others_are_not_handed_over(void **state)
{
	struct g4_hand_over_ask ask = {.magic = G4_HELLO_MAGIC, .handle = UINT64_C(1) << 32};
	gpu4fs_file *file;

	(void)state;
	restart_with_descriptors();
	gpu4fs *one = connect_here(), *two = connect_here();
	ok(gpu4fs_open(one, NULL, "/f", O_RDWR | O_CREAT, 0644, &file));
	gives(gpu4fs_write(file, "text", 4), 4);
	const uint64_t handle = file->handle;
	gpu4fs_file forged = *file;
	forged.engine = two->mount->engine;
	asked_handle = 0;
	fails(g4c_hand_over(&forged, 0), EBADF);
	forged.handle = ask.handle | 77;
	fails(g4c_hand_over(&forged, 0), EBADF);
	assert_int_equal(asked_handle, 0);
	ok(gpu4fs_close(file));
	forged.handle = handle;
	forged.engine = one->mount->engine;
	fails(g4c_hand_over(&forged, 0), EBADF);
	ok(gpu4fs_unmount(one));
	ok(gpu4fs_unmount(two));
}

static void a_server_without_a_mount_has_no_descriptors(void **state)
{
	gpu4fs *connection = connect_here();
	gpu4fs_file *file;

	(void)state;
	ok(gpu4fs_open(connection, NULL, "/f", O_RDWR | O_CREAT, 0644, &file));
	fails(g4c_hand_over(file, 0), EOPNOTSUPP);
	fails(g4c_hand_over(file, 0), EOPNOTSUPP);
	gives(gpu4fs_write(file, "text", 4), 4);
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(connection));
}

static void tell_a_mount(void *context, struct g4_mounted *mounted)
{
	*mounted = *(const struct g4_mounted *)context;
}

static void are_the_same(const struct g4_mounted *a, const struct g4_mounted *b)
{
	assert_true(a->is_there == b->is_there && a->hands_over == b->hands_over && a->device == b->device &&
		    a->ino == b->ino);
}

/* A server says of which mount it is a part, also to who wants no session, and of none where it is a part of none. */
static void a_server_says_of_which_mount_it_is_a_part(void **state)
{
	struct g4_mounted told = {.is_there = true, .device = 7, .ino = 8}, mounted;
	char message[256];

	(void)state;
	ok(g4_connect_to_look(path, &mounted, message, sizeof(message)));
	assert_false(mounted.is_there);
	await_clients(0);
	for (uint32_t round = 0; round < 2; round++) {
		g4_server_stop(server);
		told.hands_over = round == 1;
		ok(g4_server_start(g4_engine_sessions(fs->mount->engine),
				   &(struct g4_server_options){.path = path, .mounted = tell_a_mount, .context = &told},
				   &server, message, sizeof(message)));
		ok(g4_connect_to_look(path, &mounted, message, sizeof(message)));
		are_the_same(&mounted, &told);
		await_clients(0);
		gpu4fs *connection = connect_here();
		are_the_same(g4_connection_mounted(g4_engine_connection(connection->mount->engine)), &told);
		ok(gpu4fs_unmount(connection));
	}
	assert_int_equal(g4_connect_to_look("nobody.socket", &mounted, message, sizeof(message)), -G4_E_NOENT);
	assert_non_null(strstr(message, "nobody.socket"));
}

static void a_socket_can_lie_elsewhere(void **state)
{
	gpu4fs *connection = connect_here();
	struct gpu4fs_stat stat;

	(void)state;
	int old = g4c_move_socket(connection, 100);
	assert_true(old >= 0 && g4c_socket(connection) >= 100);
	close(old);
	ok(gpu4fs_stat(connection, NULL, "/", &stat));
	ok(gpu4fs_unmount(connection));
}

static void two_servers_do_not_share_a_socket(void **state)
{
	struct g4_server *second;
	char message[256];

	(void)state;
	assert_int_equal(g4_server_start(g4_engine_sessions(fs->mount->engine),
					 &(struct g4_server_options){.path = path}, &second, message, sizeof(message)),
			 -G4_E_BUSY);
	gpu4fs *connection = connect_here();
	ok(gpu4fs_unmount(connection));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		serve_test(connections_see_one_file_system),
		serve_test(a_path_without_a_server_says_so),
		serve_test(a_killed_client_leaves_nothing_behind),
		serve_test(a_client_that_is_killed_in_a_batch),
		serve_test(nonsense_on_the_socket_ends_that_connection_alone),
		serve_test(silent_clients_do_not_stand_in_the_way),
		serve_test(epochs_are_for_who_asks_and_for_reading),
		serve_test(what_is_kept_ends_with_the_server),
		serve_test(calls_on_a_server_that_ended_fail),
		serve_test(two_servers_do_not_share_a_socket),
		serve_test(a_path_that_leaves_is_said_to_leave),
		serve_test(a_server_with_a_mount_gives_descriptors),
		serve_test(handles_of_others_are_not_handed_over),
		serve_test(a_server_without_a_mount_has_no_descriptors),
		serve_test(a_server_says_of_which_mount_it_is_a_part),
		serve_test(a_socket_can_lie_elsewhere),
	};

	unsetenv("G4_TEST_CONNECTED");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
