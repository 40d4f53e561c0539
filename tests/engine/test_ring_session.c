/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments that clients cannot wait for: a server without memory or descriptors, sessions that do not end, a thread that
 * is preempted between two loads. src/ring/session_host.c and serve_host.c are compiled anew, with calls of ours in the
 * place of some of theirs.
 */
#include <semaphore.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "client/client.h"
#include "fs/node.h"
#include "ring/serve_host.h"
#include "ring/session_host.h"
#include "simt/simt.h"

#include "api_fixture.h" /* its fs is a parameter's name there */
#undef fail		 /* and cmocka's fail is a function's */

#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000)

static struct {
	uint32_t no_stage;		  /* stages cannot be allocated */
	uint32_t no_workgroup;		  /* commands find no memory */
	uint32_t turned_away;		  /* how many did */
	uint32_t no_descriptor;		  /* connections cannot be accepted */
	uint32_t accepts;		  /* how many were tried */
	uint32_t sessions_stay;		  /* the end of a session takes until `leave` is posted */
	const uint32_t *moment;		  /* before this word is loaded, others claim and the client goes on */
	struct g4_session *moved_session; /* of that session */
} hooks;
static sem_t leave;

static void *hooked_aligned_alloc(size_t alignment, size_t bytes)
{
	return g4_load32_acq(&hooks.no_stage) ? NULL : aligned_alloc(alignment, bytes);
}

/* In the place of the engine's own. */
static int hooked_run(void *engine, struct g4_session *session, uint32_t number, struct g4_session_stage *stage)
{
	const struct g4_session_engine *real = g4_engine_sessions(engine);

	if (!g4_load32_acq(&hooks.no_workgroup))
		return real->run(real->context, session, number, stage);
	g4_add32(&hooks.turned_away, 1);
	return -G4_E_NOMEM;
}

static uint32_t hooked_load32(const uint32_t *word)
{
	if (word == hooks.moment) {
		hooks.moment = NULL;
		hooks.moved_session->claimed += hooks.moved_session->entries;
		((struct g4_ring_header *)(void *)hooks.moved_session->ring)->tail += hooks.moved_session->entries;
	}
	return g4_load32_acq(word);
}

static int hooked_accept(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	g4_add32(&hooks.accepts, 1);
	if (!g4_load32_acq(&hooks.no_descriptor))
		return accept4(fd, address, bytes, flags);
	errno = EMFILE;
	return -1;
}

#define aligned_alloc hooked_aligned_alloc
#define g4_load32_acq hooked_load32
#include "ring/session_host.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_load32_acq

static void hooked_shut(struct g4_session_host *session)
{
	if (g4_load32_acq(&hooks.sessions_stay))
		while (sem_wait(&leave) != 0)
			;
	g4_session_shut(session);
}

#define accept4 hooked_accept
#define g4_session_shut hooked_shut
#include "ring/serve_host.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_session_shut

/* The mounted engine, with that. */
static struct g4_session_engine hooked_engine(void)
{
	struct g4_session_engine engine = *g4_engine_sessions(fs->mount->engine);

	engine.run = hooked_run;
	return engine;
}

static struct g4_server *server;
static char path[64];

static void await_word(const uint32_t *word, uint32_t least)
{
	uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while (g4_load32_acq(word) < least) {
		assert_true(g4_monotonic_ns() < until);
		g4_pause();
	}
}

static void await_clients(uint32_t wanted)
{
	uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while (g4_server_clients(server) != wanted) {
		assert_true(g4_monotonic_ns() < until);
		g4_pause();
	}
}

static void start_server(uint32_t clients)
{
	char message[256];

	snprintf(path, sizeof(path), "hooked.%d.socket", (int)getpid());
	ok(g4_server_start(g4_engine_sessions(fs->mount->engine),
			   &(struct g4_server_options){.path = path, .max_clients = clients}, &server, message,
			   sizeof(message)));
}

/* ------------------------------------------------------------------ tests */

static void a_preempted_thread_does_not_blame_the_client(void **state)
{
	struct g4_ring_header header = {.tail = 16};
	struct g4_session session = {.ring = (uint8_t *)&header, .entries = 16};
	uint32_t number;

	(void)state;
	hooks.moved_session = &session;
	hooks.moment = &header.tail;
	assert_int_equal(g4_session_claim(&session, &number), 1);
	assert_int_equal(number, 17);
	header.tail = 1000;
	assert_int_equal(g4_session_claim(&session, &number), -1);
}

static void a_session_without_memory_is_not_opened(void **state)
{
	const struct g4_session_options options = {.data_bytes = 4 * G4_MIB, .entries = 16};
	const struct g4_session_engine engine = hooked_engine();
	struct g4_session_host *session;

	(void)state;
	hooks.no_stage = 1;
	assert_int_equal(g4_session_open(&engine, &options, &session), -G4_E_NOMEM);
	hooks.no_stage = 0;
	ok(g4_session_open(&engine, &options, &session));
	g4_session_shut(session);
}

static void a_session_without_memory_ends_all_the_same(void **state)
{
	const struct g4_session_options options = {.data_bytes = 4 * G4_MIB, .entries = 16};
	const struct g4_session_engine engine = hooked_engine();
	struct g4_session_host *session;

	(void)state;
	alarm(DEADLINE_NS / 1000000000);
	g4_store32_rel(&hooks.no_workgroup, 1);
	ok(g4_session_open(&engine, &options, &session));
	struct g4_ring_header *header = g4_session_ring(session);
	g4_store32_rel(&header->tail, 1);
	g4_ring_wake(header, -1);
	await_word(&hooks.turned_away, 1);
	g4_session_shut(session);
	g4_store32_rel(&hooks.no_workgroup, 0);
	alarm(0);
}

static void a_session_has_its_place_until_it_has_ended(void **state)
{
	gpu4fs *one, *two, *three;

	(void)state;
	ok(sem_init(&leave, 0, 0));
	start_server(2);
	ok(gpu4fs_connect(path, NULL, &one));
	if (geteuid() == 0)
		ok(gpu4fs_connect(path, NULL, &two));
	g4_store32_rel(&hooks.sessions_stay, 1);
	ok(gpu4fs_unmount(one));
	for (int i = 0; i < 20; i++) {
		fails(gpu4fs_connect(path, NULL, &three), EBUSY);
		assert_non_null(strstr(gpu4fs_last_message(), "no place"));
	}
	g4_store32_rel(&hooks.sessions_stay, 0);
	ok(sem_post(&leave));
	await_clients(geteuid() == 0 ? 1 : 0);
	ok(gpu4fs_connect(path, NULL, &three));
	ok(gpu4fs_unmount(three));
	if (geteuid() == 0)
		ok(gpu4fs_unmount(two));
	g4_server_stop(server);
	ok(sem_destroy(&leave));
}

/* Somebody who is not root takes what there is; how many times it could, and the error in the end. */
static void take_places(int result)
{
	int answer[2] = {0, 0};
	gpu4fs *connection;

	if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user forgets it */
	while (answer[0] < 8 && (answer[1] = gpu4fs_connect(path, NULL, &connection)) == 0)
		answer[0]++;
	_exit(write(result, answer, sizeof(answer)) == sizeof(answer) && pause() == 0);
}

static void one_user_does_not_take_all_places(void **state)
{
	int result[2], answer[2], status;
	gpu4fs *connection;

	(void)state;
	start_server(4);
	ok(pipe(result));
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		take_places(result[1]);
	gives(read(result[0], answer, sizeof(answer)), sizeof(answer));
	assert_int_equal(answer[0], 2);
	assert_int_equal(answer[1], -EBUSY);
	if (geteuid() == 0) {
		ok(gpu4fs_connect(path, NULL, &connection));
		ok(gpu4fs_unmount(connection));
	}
	ok(kill(child, SIGKILL));
	gives(waitpid(child, &status, 0), child);
	await_clients(0);
	ok(gpu4fs_connect(path, NULL, &connection));
	ok(gpu4fs_unmount(connection));
	close(result[0]);
	close(result[1]);
	g4_server_stop(server);
}

/* The connection lies in the listener's queue; the server looks for a descriptor now and then, and does not spin. */
static void a_server_without_descriptors_rests(void **state)
{
	const struct g4_hello hello = {.magic = G4_HELLO_MAGIC, .version = G4_HELLO_VERSION, .data_bytes = G4_GIB};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct g4_welcome welcome;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)state;
	start_server(4);
	g4_store32_rel(&hooks.no_descriptor, 1);
	g4_store32_rel(&hooks.accepts, 0);
	strcpy(address.sun_path, path);
	ok(connect(fd, (struct sockaddr *)&address, sizeof(address)));
	await_word(&hooks.accepts, 2);
	g4_store32_rel(&hooks.no_descriptor, 0);
	assert_true(g4_load32_acq(&hooks.accepts) < 100);
	gives(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	gives(recv(fd, &welcome, sizeof(welcome), 0), sizeof(welcome));
	assert_int_equal(welcome.status, 0);
	assert_int_equal(welcome.data_bytes, 128 * G4_MIB); /* the most that a client gets */
	close(fd);
	await_clients(0);
	g4_server_stop(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_preempted_thread_does_not_blame_the_client),
		cmocka_unit_test_setup_teardown(a_session_without_memory_is_not_opened, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(a_session_without_memory_ends_all_the_same, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(a_session_has_its_place_until_it_has_ended, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(one_user_does_not_take_all_places, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(a_server_without_descriptors_rests, api_setup, api_teardown),
	};

	unsetenv("G4_TEST_CONNECTED");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
