/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the client of a ring waits: for an engine that wakes nobody, as the one on a GPU, and not at all. The engine here is
 * that of the fixture, whose threads serve the ring; `completes` is what clients read of it.
 */
#include <pthread.h>
#include <sched.h>

#include "client/client.h"
#include "ring/client_parts_host.h"
#include "untrusted.h"

#define THREADS 8u
#define ROUNDS 200u
#define TRANSFER_BYTES (256 * G4_KIB)

static struct g4_session_host *session;
static struct g4_ring_client *client;

static void enter(uint32_t entries, uint32_t threads)
{
	const struct g4_session_options options = {.cred = {.umask = 022},
						   .flags = G4_SESSION_MAY_ACT | G4_SESSION_IN_PROCESS,
						   .entries = entries,
						   .data_bytes = 8 * G4_MIB,
						   .handles = 8,
						   .threads = threads};

	ok(g4_session_open(g4_engine_sessions(fs->mount->engine), &options, &session));
	((struct g4_ring_header *)g4_session_ring(session))->completes = 0;
	client = g4_ring_client_new(g4_session_ring(session), g4_session_data(session), -1, -1, &options.cred);
	assert_non_null(client);
}

static void leave(void)
{
	g4_ring_client_free(client);
	g4_session_shut(session);
}

static struct g4_cmd command(uint32_t op, const char *name)
{
	return (struct g4_cmd){
		.op = op, .node = G4_NODE_ROOT, .name = name, .name_bytes = (uint16_t)(name ? strlen(name) : 0)};
}

static int open_file(const char *name, uint64_t *handle)
{
	struct g4_cmd open = command(G4_CMD_CREATE, name);

	open.mode = 0600;
	open.flags = G4_OPEN_READ | G4_OPEN_WRITE;
	int rc = g4_ring_client_execute(client, &open);
	*handle = open.handle;
	return rc;
}

static int look_up(const char *name)
{
	struct g4_attr attr;
	struct g4_cmd look = command(G4_CMD_LOOKUP, name);

	look.attr = &attr;
	return g4_ring_client_execute(client, &look);
}

static int transfer(uint32_t op, uint64_t handle, void *data, uint64_t bytes)
{
	struct g4_cmd move = {.op = op, .handle = handle, .data = data, .length = bytes};
	int rc = g4_ring_client_execute(client, &move);

	return rc < 0 || move.value == bytes ? rc : -G4_E_IO;
}

/* Small commands, which are looked for, and long ones, which are slept for. The number of failures. */
static void *work(void *argument)
{
	const uintptr_t index = (uintptr_t)argument;
	uint8_t *data = malloc(TRANSFER_BYTES), *back = malloc(TRANSFER_BYTES);
	uintptr_t failures = !data || !back;
	uint64_t handle = 0;
	char name[16];

	snprintf(name, sizeof(name), "w%u", (unsigned)index);
	failures += open_file(name, &handle) < 0;
	for (uint32_t i = 0; failures == 0 && i < ROUNDS; i++) {
		failures += look_up(name) < 0;
		if (i % 16 != 0)
			continue;
		struct g4_cmd sync = {.op = G4_CMD_FSYNC, .handle = handle};
		memset(data, (int)(index + i), TRANSFER_BYTES);
		failures += transfer(G4_CMD_WRITE, handle, data, TRANSFER_BYTES) < 0;
		failures += g4_ring_client_execute(client, &sync) < 0;
		failures += transfer(G4_CMD_READ, handle, back, TRANSFER_BYTES) < 0;
		failures += memcmp(data, back, TRANSFER_BYTES) != 0;
	}
	free(data);
	free(back);
	return (void *)failures;
}

static void together(uint32_t entries)
{
	pthread_t threads[THREADS];
	void *failures;

	enter(entries, 2);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failures);
		assert_ptr_equal(failures, NULL);
	}
	leave();
}

static void results_come_to_those_whom_nobody_wakes(void **state)
{
	(void)state;
	together(16);
}

/* Each slot is a caller's that waits for its result, and there are more callers. */
static void who_finds_the_ring_full_waits(void **state)
{
	(void)state;
	together(THREADS / 2);
}

/* ------------------------------------------------------------------ an engine of several threads */

static const struct g4_session_engine *behind;
static uint32_t begun, others; /* the long command runs; commands that ran meanwhile */
#define LONG_FLAGS 1u	       /* of a NOP: it ends when another command has run */

static int run_slowly(void *context, struct g4_session *s, uint32_t number, struct g4_session_stage *stage)
{
	const struct g4_ring_slot *slot = g4_ring_slot_of(s->ring, s->entries, number);
	const bool is_long = slot->command.op == G4_CMD_NOP && slot->command.flags == LONG_FLAGS;

	g4_add32(is_long ? &begun : &others, 1);
	while (is_long && g4_load32_acq(&others) == 0)
		g4_pause();
	return behind->run(context, s, number, stage);
}

static void *run_long(void *argument)
{
	struct g4_cmd nop = {.op = G4_CMD_NOP, .flags = LONG_FLAGS};

	(void)argument;
	return (void *)(intptr_t)g4_ring_client_execute(client, &nop);
}

/* Begins a command that does not end before another one has run, with an engine that is awake or asleep. */
static pthread_t begin_long(struct g4_session_engine *engine)
{
	const struct g4_session_options options = {.entries = 16, .data_bytes = 8 * G4_MIB, .threads = 2};
	pthread_t thread;

	behind = g4_engine_sessions(fs->mount->engine);
	*engine = *behind;
	engine->run = run_slowly;
	begun = others = 0;
	ok(g4_session_open(engine, &options, &session));
	client = g4_ring_client_new(g4_session_ring(session), g4_session_data(session), -1, -1, &options.cred);
	assert_non_null(client);
	assert_int_equal(pthread_create(&thread, NULL, run_long, NULL), 0);
	while (g4_load32_acq(&begun) == 0)
		g4_pause();
	return thread;
}

static void end_long(pthread_t thread)
{
	void *result;

	pthread_join(thread, &result);
	assert_ptr_equal(result, NULL);
	leave();
}

static void a_long_command_delays_no_other(void **state)
{
	struct g4_session_engine engine;

	(void)state;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		pthread_t thread = begin_long(&engine);
		if (i % 2) /* the other thread of the engine has gone to sleep */
			while (g4_load32_acq(&((struct g4_ring_header *)g4_session_ring(session))->engine_waits) !=
			       G4_RING_FUTEX_SOME)
				g4_pause();
		struct g4_cmd nop = {.op = G4_CMD_NOP};
		if (i % 4 < 2)
			ok(g4_ring_client_execute(client, &nop));
		else
			g4_ring_client_post(client, &nop);
		end_long(thread);
	}
}

/* A single thread serves, in order: what is posted has run when the next command does. */
static void what_is_posted_runs(void **state)
{
	uint64_t handles[8], more;

	(void)state;
	enter(4, 1);
	for (uint32_t i = 0; i < 8; i++)
		ok(open_file("posted", &handles[i]));
	assert_int_equal(open_file("posted", &more), -G4_E_NFILE);
	for (uint32_t i = 0; i < ROUNDS; i++) { /* longer than the ring by far */
		struct g4_cmd release = {.op = G4_CMD_RELEASE, .handle = handles[i % 8]};
		g4_ring_client_post(client, &release);
		ok(open_file("posted", &handles[i % 8]));
	}
	for (uint32_t i = 0; i < ROUNDS; i++) { /* slots that only posted commands hold */
		struct g4_cmd forget = {.op = G4_CMD_FORGET, .node = G4_NODE_ROOT};
		g4_ring_client_post(client, &forget);
	}
	ok(look_up("posted"));
	leave();
}

static void what_does_not_fit_a_slot_is_posted_too(void **state)
{
	char name[201];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	api_touch(name, 0600);
	enter(4, 1);
	struct g4_cmd unlink = command(G4_CMD_UNLINK, name);
	g4_ring_client_post(client, &unlink);
	assert_int_equal(look_up(name), -G4_E_NOENT);
	leave();
}

static void nobody_waits_for_an_engine_that_is_gone(void **state)
{
	struct g4_cmd forget = {.op = G4_CMD_FORGET, .node = G4_NODE_ROOT};

	(void)state;
	enter(4, 1);
	ok(look_up("."));
	((struct g4_ring_header *)g4_session_ring(session))->state = G4_RING_DEAD;
	g4_ring_client_stop(client);
	for (uint32_t i = 0; i < 16; i++)
		g4_ring_client_post(client, &forget);
	assert_int_equal(look_up("posted"), -G4_E_IO);
	leave();
}

/* ------------------------------------------------------------------ READs ahead */

#define AHEAD 4u

static bool begin_read(uint64_t handle, uint64_t offset, uint32_t bytes, uint64_t *read)
{
	const struct g4_cmd cmd = {.op = G4_CMD_READ, .handle = handle, .offset = offset, .length = bytes};

	return g4_ring_client_begin_read(client, &cmd, read);
}

/* A file whose pieces differ, and READs of all of them under way. */
static void begin_reads(uint64_t *handle, uint64_t reads[AHEAD])
{
	static uint8_t data[G4_RING_AHEAD_BYTES];

	ok(open_file("ahead", handle));
	for (uint32_t k = 0; k < AHEAD; k++) {
		struct g4_cmd write = {.op = G4_CMD_WRITE,
				       .handle = *handle,
				       .offset = (uint64_t)k * sizeof(data),
				       .length = sizeof(data),
				       .data = data};
		api_pattern(data, 5, write.offset, sizeof(data));
		ok(g4_ring_client_execute(client, &write));
	}
	for (uint32_t k = 0; k < AHEAD; k++)
		assert_true(begin_read(*handle, (uint64_t)k * G4_RING_AHEAD_BYTES, G4_RING_AHEAD_BYTES, &reads[k]));
}

static void check_read(uint64_t read, uint32_t k)
{
	static uint8_t wanted[G4_RING_AHEAD_BYTES];
	uint32_t bytes;
	int status;
	const uint8_t *data = g4_ring_client_await_read(client, read, &status, &bytes);

	assert_non_null(data);
	assert_int_equal(status, 0);
	assert_int_equal(bytes, G4_RING_AHEAD_BYTES);
	api_pattern(wanted, 5, (uint64_t)k * G4_RING_AHEAD_BYTES, sizeof(wanted));
	assert_memory_equal(data, wanted, sizeof(wanted));
}

/* Their slots are used by others before anybody asks for what they read. */
static void what_was_read_ahead_waits_for_who_asks(void **state)
{
	uint64_t handle, reads[AHEAD];

	(void)state;
	enter(4, 1);
	begin_reads(&handle, reads);
	for (uint32_t i = 0; i < ROUNDS; i++)
		ok(look_up("ahead"));
	for (uint32_t k = AHEAD; k-- > 0;) {
		check_read(reads[k], k);
		g4_ring_client_end_read(client, reads[k], k % 2);
	}
	for (uint32_t k = 0; k < AHEAD; k++) { /* those that were kept can be asked for again */
		uint32_t bytes;
		int status;
		if (k % 2)
			check_read(reads[k], k);
		else
			assert_null(g4_ring_client_await_read(client, reads[k], &status, &bytes));
		g4_ring_client_end_read(client, reads[k], false);
	}
	leave();
}

/* There is room for a few: first that of READs that nobody asked for and nobody will, then that of those that nobody has asked for. */
static void what_was_read_ahead_is_forgotten_for_others(void **state)
{
	uint64_t handle, reads[AHEAD], more[32], one;
	uint32_t count = 0, bytes;
	int status;

	(void)state;
	enter(4, 1);
	begin_reads(&handle, reads);
	while (count < 32 && begin_read(handle, 0, 1, &more[count]))
		count++;
	assert_in_range(count, 1, 31);
	g4_ring_client_end_read(client, more[0], false);
	for (uint32_t k = 0; !begin_read(handle, 0, 1, &one); k++) {
		assert_in_range(k, 0, 8); /* one thread has run it by then, for what came before it has been read */
		ok(look_up("ahead"));
	}
	assert_null(g4_ring_client_await_read(client, more[0], &status, &bytes));
	check_read(reads[0], 0); /* who has it keeps it */
	ok(look_up("ahead"));
	for (uint32_t k = 0; k < 128; k++)
		(void)begin_read(handle, 0, 1, &one);
	assert_null(g4_ring_client_await_read(client, reads[1], &status, &bytes));
	check_read(reads[0], 0);
	leave();
}

static void what_was_not_read_ahead_is_said(void **state)
{
	uint64_t handle, reads[AHEAD], one;
	uint32_t bytes;
	int status;

	(void)state;
	enter(4, 1);
	begin_reads(&handle, reads);
	assert_true(begin_read(handle + 1, 0, 1, &one));
	assert_non_null(g4_ring_client_await_read(client, one, &status, &bytes));
	assert_int_equal(status, -G4_E_BADF);
	assert_int_equal(bytes, 0);
	check_read(reads[3], 3); /* the one thread has done all by then */
	((struct g4_ring_header *)g4_session_ring(session))->state = G4_RING_DEAD;
	g4_ring_client_stop(client);
	assert_false(begin_read(handle, 0, 1, &one));
	check_read(reads[2], 2);
	leave();
}

/* Lookups ahead have places of their own, tell what a lookup tells, and are told once. */
static void what_was_looked_up_ahead_is_told_once(void **state)
{
	uint64_t handle, found, none, one;
	struct g4_attr attr = {0};
	struct g4_trail trail;
	struct g4_cmd cmd = {.attr = &attr};
	const struct g4_cmd asks = command(G4_CMD_LOOKUP, "here"), asks_none = command(G4_CMD_LOOKUP, "none");
	char name[G4_RING_TEXT_BYTES + 2];

	(void)state;
	enter(4, 1);
	ok(open_file("here", &handle));
	assert_true(g4_ring_client_begin_lookup(client, &asks, &found));
	assert_true(g4_ring_client_begin_lookup(client, &asks_none, &none));
	for (uint32_t i = 0; i < ROUNDS; i++)
		ok(look_up("here"));
	assert_true(g4_ring_client_await_lookup(client, none, &cmd, &trail));
	assert_int_equal(cmd.status, -G4_E_NOENT);
	assert_true(g4_ring_client_await_lookup(client, found, &cmd, &trail));
	assert_int_equal(cmd.status, 0);
	assert_true(attr.ino != 0 && (attr.mode & 07777) == 0600);
	assert_false(g4_ring_client_await_lookup(client, found, &cmd, &trail));
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	const struct g4_cmd asks_long = command(G4_CMD_LOOKUP, name);
	assert_false(g4_ring_client_begin_lookup(client, &asks_long, &one));
	for (uint32_t k = 0; k < G4_LOOKUPS_AHEAD; k++)
		assert_true(g4_ring_client_begin_lookup(client, &asks, &one));
	g4_ring_client_end_lookup(client, one);
	for (uint32_t k = 0; !g4_ring_client_begin_lookup(client, &asks, &found); k++) {
		assert_in_range(k, 0, 8);
		ok(look_up("here")); /* one thread has run what came before by then */
	}
	assert_false(g4_ring_client_await_lookup(client, one, &cmd, &trail));
	assert_true(g4_ring_client_await_lookup(client, found, &cmd, &trail));
	leave();
}

/* What does not fit into a slot beside its user is not looked up ahead, and keeps no buffer that others need for theirs. */
static void what_has_many_groups_is_not_looked_up_ahead(void **state)
{
	struct g4_cred user = {.uid = 1000, .gid = 1000, .group_count = 30};
	struct g4_cmd asks = command(G4_CMD_LOOKUP, "here");
	struct g4_attr attr;
	uint64_t one;

	(void)state;
	enter(4, 1);
	asks.cred = &user;
	asks.attr = &attr;
	for (uint32_t k = 0; k < 2 * G4_RING_TEXT_COUNT; k++) {
		assert_false(g4_ring_client_begin_lookup(client, &asks, &one));
		assert_int_equal(g4_ring_client_execute(client, &asks), -G4_E_NOENT);
	}
	leave();
}

/* ------------------------------------------------------------------ an engine of which one thread looks, and does not come */

static uint32_t rung;
static struct g4_ring_header *looked_at;
static void *looked_at_data;

/* A doorbell, for a wake-up that the test sees. */
static void hear(void *context)
{
	(void)context;
	g4_add32(&rung, 1);
}

/* A ring of nobody's, with a thread that looks, says the header, and another one that sleeps. */
static void enter_looked_at(void)
{
	const struct g4_cred own = {.umask = 022};

	looked_at = aligned_alloc(4096, g4_ring_bytes(16));
	looked_at_data = calloc(1, G4_RING_MIN_DATA_BYTES);
	assert_non_null(looked_at);
	assert_non_null(looked_at_data);
	memset(looked_at, 0, g4_ring_bytes(16));
	*looked_at = (struct g4_ring_header){.magic = G4_RING_MAGIC,
					     .version = G4_RING_VERSION,
					     .entries = 16,
					     .data_bytes = G4_RING_MIN_DATA_BYTES,
					     .handles = 8,
					     .state = G4_RING_RUNS,
					     .engine_waits = G4_RING_DOORBELL,
					     .engine_looks = 1};
	rung = 0;
	client = g4_ring_client_new(looked_at, looked_at_data, -1, -1, &own);
	assert_non_null(client);
	g4_ring_client_ring_by(client, hear, NULL);
}

static void leave_looked_at(void)
{
	g4_ring_client_free(client);
	free(looked_at);
	free(looked_at_data);
}

static void who_looks_takes_one_command(void **state)
{
	struct g4_cmd forget = {.op = G4_CMD_FORGET, .node = G4_NODE_ROOT};

	(void)state;
	enter_looked_at();
	g4_ring_client_post(client, &forget);
	assert_int_equal(rung, 0);
	g4_ring_client_post(client, &forget); /* the first one may be long */
	assert_int_equal(rung, 1);
	looked_at->engine_looks = 2;
	g4_store32_rel(&looked_at->engine_claimed, 1);
	g4_ring_client_post(client, &forget);
	assert_int_equal(rung, 1);
	leave_looked_at();
}

static void *run_nop(void *argument)
{
	struct g4_cmd nop = {.op = G4_CMD_NOP};

	(void)argument;
	return (void *)(intptr_t)g4_ring_client_execute(client, &nop);
}

static void who_looks_and_does_not_come_is_not_waited_for(void **state)
{
	const uint64_t until = g4_monotonic_ns() + UINT64_C(10000000000);
	pthread_t thread;
	void *result;

	(void)state;
	enter_looked_at();
	assert_int_equal(pthread_create(&thread, NULL, run_nop, NULL), 0);
	while (g4_load32_acq(&rung) == 0 && g4_monotonic_ns() < until)
		sched_yield();
	g4_store64_rel(&g4_ring_result_of(looked_at, 16, 1)->word, 1);
	pthread_join(thread, &result);
	assert_ptr_equal(result, NULL);
	assert_int_equal(rung, 1);
	leave_looked_at();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(results_come_to_those_whom_nobody_wakes),
		api_test(who_finds_the_ring_full_waits),
		api_test(a_long_command_delays_no_other),
		api_test(what_is_posted_runs),
		api_test(what_does_not_fit_a_slot_is_posted_too),
		api_test(nobody_waits_for_an_engine_that_is_gone),
		api_test(what_was_read_ahead_waits_for_who_asks),
		api_test(what_was_read_ahead_is_forgotten_for_others),
		api_test(what_was_not_read_ahead_is_said),
		api_test(what_was_looked_up_ahead_is_told_once),
		api_test(what_has_many_groups_is_not_looked_up_ahead),
		cmocka_unit_test(who_looks_takes_one_command),
		cmocka_unit_test(who_looks_and_does_not_come_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
