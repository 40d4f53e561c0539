/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings as a hostile client sees them: these tests write slots by hand. What a well-behaved client gets is tested by
 * the API's tests, which run over a connection as well.
 */
#include <sys/mman.h>

#include "api_fixture.h"
#include "client/client_host.h"
#include "engine/port_host.h"
#include "engine/ring_host.h"

#define DEADLINE_NS (UINT64_C(60) * 1000 * 1000 * 1000)

struct stranger {
	struct g4_port_host *port;
	uint8_t *ring, *data;
	struct g4_ring_header *header;
	uint32_t next; /* number of the next command */
};

static struct g4_engine *engine;

static int setup(void **state)
{
	int rc = api_setup(state);

	engine = fs->mount->engine;
	return rc;
}

#define ring_test(f) cmocka_unit_test_setup_teardown(f, setup, api_teardown)

/* ------------------------------------------------------------------ a client by hand */

static void enter(struct stranger *s, const struct g4_port_options *options)
{
	ok(g4_port_open(engine, options, &s->port));
	s->ring = mmap(NULL, g4_port_ring_bytes(s->port), PROT_READ | PROT_WRITE, MAP_SHARED, g4_port_ring_fd(s->port),
		       0);
	s->data = mmap(NULL, g4_port_data_bytes(s->port), PROT_READ | PROT_WRITE, MAP_SHARED, g4_port_data_fd(s->port),
		       0);
	assert_ptr_not_equal(s->ring, MAP_FAILED);
	assert_ptr_not_equal(s->data, MAP_FAILED);
	s->header = (struct g4_ring_header *)s->ring;
	s->next = 1;
}

static void leave(struct stranger *s)
{
	uint64_t ring_bytes = g4_port_ring_bytes(s->port), data_bytes = g4_port_data_bytes(s->port);

	g4_port_shut(s->port);
	munmap(s->ring, ring_bytes);
	munmap(s->data, data_bytes);
}

static void post(struct stranger *s, const struct g4_ring_slot *slot)
{
	*g4_ring_slot_of(s->ring, s->header->entries, s->next) = *slot;
	g4_store32_rel(&s->header->tail, s->next);
	g4_ring_wake(s->header, -1);
	s->next++;
}

/* The result of command `number`; NULL when the server gave up. */
static const struct g4_ring_result *await(struct stranger *s, uint32_t number)
{
	struct g4_ring_result *result = g4_ring_result_of(s->ring, s->header->entries, number);
	uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while ((g4_load64_acq(&result->word) & G4_RING_NUMBER_MASK) != (number & G4_RING_NUMBER_MASK)) {
		if (g4_load32_acq(&s->header->state) != G4_RING_RUNS)
			return NULL;
		assert_true(g4_monotonic_ns() < until);
		g4_pause();
	}
	return result;
}

static int status_of(const struct g4_ring_result *result)
{
	int32_t small;

	assert_non_null(result);
	small = (int32_t)(result->word >> 32);
	return small < 0 ? small : 0;
}

static int run(struct stranger *s, const struct g4_ring_slot *slot)
{
	uint32_t number = s->next;

	post(s, slot);
	return status_of(await(s, number));
}

static struct g4_ring_slot slot_of(uint32_t op, const char *name)
{
	struct g4_ring_slot slot = {.command = {.op = op,
						.node = G4_NODE_ROOT,
						.umask = 022,
						.name_bytes = name ? (uint16_t)strlen(name) : 0,
						.text_at = G4_RING_TEXT_INLINE}};

	if (name)
		memcpy(slot.text, name, strlen(name));
	return slot;
}

static const struct g4_port_options somebody = {
	.cred = {.uid = 1000, .gid = 1000, .umask = 022}, .data_bytes = 4 * G4_MIB, .entries = 16, .handles = 4};

static struct g4_ring_slot open_slot(const char *name, uint32_t flags)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_CREATE, name);

	slot.command.flags = flags;
	slot.command.mode = S_IFREG | 0644;
	return slot;
}

/* Opens or makes a file; the handle that the client gets. */
static uint64_t open_by_hand(struct stranger *s, const char *name, uint32_t flags)
{
	struct g4_ring_slot slot = open_slot(name, flags);
	uint32_t number = s->next;

	post(s, &slot);
	const struct g4_ring_result *result = await(s, number);
	assert_int_equal(status_of(result), 0);
	assert_true(result->word & G4_RING_WORD_FULL);
	return result->handle;
}

static struct g4_ring_slot io_slot(uint32_t op, uint64_t handle, uint64_t data, uint64_t length)
{
	struct g4_ring_slot slot = slot_of(op, NULL);

	slot.command.node = 0;
	slot.command.handle = handle;
	slot.command.data = data;
	slot.command.length = length;
	return slot;
}

/* ------------------------------------------------------------------ tests */

static void make_public_root(void)
{
	ok(gpu4fs_chmod(fs, NULL, "/", 0777));
}

static void a_slot_by_hand_writes_and_reads(void **state)
{
	struct stranger s;

	(void)state;
	make_public_root();
	enter(&s, &somebody);
	uint64_t handle = open_by_hand(&s, "mine", G4_OPEN_READ | G4_OPEN_WRITE);
	memcpy(s.data, "hello", 5);
	struct g4_ring_slot write = io_slot(G4_CMD_WRITE, handle, 0, 5), read = io_slot(G4_CMD_READ, handle, 64, 100);
	ok(run(&s, &write));
	uint32_t number = s.next;
	ok(run(&s, &read));
	assert_int_equal(g4_ring_result_of(s.ring, 16, number)->word >> 32, 5);
	assert_memory_equal(s.data + 64, "hello", 5);
	assert_int_equal(api_lstat("/mine").uid, 1000);
	leave(&s);
}

static void a_made_up_handle_opens_nothing(void **state)
{
	struct stranger s, other;

	(void)state;
	make_public_root();
	api_write_text("/secret", "secret");
	gpu4fs_file *file = api_open("/secret", O_RDONLY, 0);
	enter(&s, &somebody);
	enter(&other, &somebody);
	uint64_t theirs = open_by_hand(&other, "theirs", G4_OPEN_READ | G4_OPEN_WRITE);
	struct g4_ring_slot read = io_slot(G4_CMD_READ, file->handle, 0, 6); /* the engine's own */
	assert_int_equal(run(&s, &read), -G4_E_BADF);
	read = io_slot(G4_CMD_READ, theirs, 0, 6); /* somebody else's */
	assert_int_equal(run(&s, &read), -G4_E_BADF);
	read = io_slot(G4_CMD_READ, 0, 0, 6); /* by number */
	read.command.node = file->ino;
	assert_int_equal(run(&s, &read), -G4_E_BADF);
	uint64_t mine = open_by_hand(&s, "mine", G4_OPEN_READ | G4_OPEN_WRITE);
	struct g4_ring_slot release = io_slot(G4_CMD_RELEASE, mine, 0, 0);
	ok(run(&s, &release));
	assert_int_equal(run(&s, &release), -G4_E_BADF); /* closed */
	uint64_t again = 0;
	for (int i = 0; i < 4; i++) /* until its place in the table is used again */
		again = open_by_hand(&s, "mine", G4_OPEN_READ);
	assert_int_equal((uint32_t)again, (uint32_t)mine);
	assert_int_not_equal(again, mine);
	read = io_slot(G4_CMD_READ, mine, 0, 6);
	assert_int_equal(run(&s, &read), -G4_E_BADF); /* the same place, another file */
	leave(&s);
	leave(&other);
	ok(gpu4fs_close(file));
}

static void a_client_is_who_the_engine_says(void **state)
{
	const struct g4_cred root = {.uid = 0};
	struct stranger s;

	(void)state;
	api_touch("/private", 0600);
	enter(&s, &somebody);
	struct g4_ring_slot open = open_slot("private", G4_OPEN_READ);
	assert_int_equal(run(&s, &open), -G4_E_ACCES);
	/* with credentials in front of the name */
	open.command.cred_bytes = offsetof(struct g4_cred, groups);
	memcpy(open.text, &root, offsetof(struct g4_cred, groups));
	memcpy(open.text + offsetof(struct g4_cred, groups), "private", 7);
	assert_int_equal(run(&s, &open), -G4_E_PERM);
	leave(&s);
	struct g4_port_options trusted = somebody;
	trusted.flags = G4_PORT_MAY_ACT;
	enter(&s, &trusted);
	ok(run(&s, &open));
	leave(&s);
	struct g4_ring_slot list = slot_of(G4_CMD_READDIR, NULL);
	list.command.length = 4096;
	ok(gpu4fs_chmod(fs, NULL, "/", 0711));
	enter(&s, &somebody);
	assert_int_equal(run(&s, &list), -G4_E_ACCES);
	leave(&s);
}

static void quotas_hold(void **state)
{
	struct stranger s;
	char name[8];

	(void)state;
	make_public_root();
	enter(&s, &somebody);
	uint64_t handle = 0;
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		handle = open_by_hand(&s, name, G4_OPEN_READ | G4_OPEN_WRITE);
	}
	struct g4_ring_slot open = open_slot("f4", G4_OPEN_READ);
	assert_int_equal(run(&s, &open), -G4_E_NFILE);
	struct g4_ring_slot release = io_slot(G4_CMD_RELEASE, handle, 0, 0);
	ok(run(&s, &release));
	handle = open_by_hand(&s, "f4", G4_OPEN_READ | G4_OPEN_WRITE);
	/* beyond the data area, also where the sum wraps */
	struct g4_ring_slot write = io_slot(G4_CMD_WRITE, handle, 4 * G4_MIB - 4, 8);
	assert_int_equal(run(&s, &write), -G4_E_INVAL);
	write = io_slot(G4_CMD_WRITE, handle, UINT64_MAX - 4, 8);
	assert_int_equal(run(&s, &write), -G4_E_INVAL);
	write = io_slot(G4_CMD_WRITE, handle, 8, UINT64_MAX - 4);
	assert_int_equal(run(&s, &write), -G4_E_INVAL);
	/* text that does not fit */
	struct g4_ring_slot look = slot_of(G4_CMD_LOOKUP, "x");
	look.command.name_bytes = 65535;
	assert_int_equal(run(&s, &look), -G4_E_INVAL);
	look.command.text_at = 4 * G4_MIB - 10;
	look.command.name_bytes = 255;
	assert_int_equal(run(&s, &look), -G4_E_INVAL);
	leave(&s);
	assert_int_equal(api_count_names("/"), 5);
}

static void what_a_client_left_open_is_closed(void **state)
{
	uint64_t inodes[16];
	struct stranger s;

	(void)state;
	make_public_root();
	enter(&s, &somebody);
	open_by_hand(&s, "one", G4_OPEN_READ);
	open_by_hand(&s, "two", G4_OPEN_READ);
	leave(&s); /* before, others may be at work while the engine is asked */
	assert_int_equal(g4_engine_open_inodes(engine, inodes, 16), 0);
}

static void a_tail_out_of_range_ends_that_session_alone(void **state)
{
	struct stranger s, other;

	(void)state;
	make_public_root();
	enter(&s, &somebody);
	enter(&other, &somebody);
	g4_store32_rel(&s.header->tail, 1000);
	g4_ring_wake(s.header, -1);
	s.next = 1000;
	assert_null(await(&s, 1000));
	struct g4_ring_slot nop = slot_of(G4_CMD_NOP, NULL);
	ok(run(&other, &nop));
	leave(&s);
	leave(&other);
}

/* Slots of nearly right commands, and of noise; the file system beside them must not notice. */
static void random_slot(uint64_t *seed, struct g4_ring_slot *slot)
{
	uint64_t words[sizeof(*slot) / 8];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = api_random(seed);
	memcpy(slot, words, sizeof(words));
	if (api_random(seed) % 8 == 0)
		return;
	slot->command.op = (uint32_t)(api_random(seed) % (G4_CMD_FORGET + 2));
	slot->command.name_bytes = api_random(seed) % 3;
	slot->command.name2_bytes = api_random(seed) % 3;
	slot->command.cred_bytes = 0;
	slot->command.attr_bytes = slot->command.op == G4_CMD_SETATTR ? 104 : 0;
	slot->command.text_at = api_random(seed) % 4 ? G4_RING_TEXT_INLINE : api_random(seed) % (5 * G4_MIB);
	slot->command.node = api_random(seed) % 2 ? G4_NODE_ROOT : api_random(seed) % 4096 << 15 | 1;
	slot->command.node2 = api_random(seed) % 2 ? G4_NODE_ROOT : 1 + api_random(seed) % 4;
	slot->command.handle = api_random(seed) % 2 ? 1 + api_random(seed) % 4 : 0;
	slot->command.length %= 8192;
	slot->command.offset %= G4_MIB;
	slot->command.arg %= G4_MIB;
	slot->command.data %= 5 * G4_MIB;
	for (int i = 0; i < 8; i++)
		slot->text[i] = (uint8_t)("abcdabcd"[slot->text[i] % 8]);
}

struct noise {
	uint64_t seed;
	uint32_t slots;
};

static void *make_noise(void *argument)
{
	const struct noise *noise = argument;
	uint64_t seed = noise->seed;
	struct stranger s;
	struct g4_ring_slot slot;

	enter(&s, &somebody);
	for (uint32_t i = 0; i < noise->slots; i++) {
		random_slot(&seed, &slot);
		post(&s, &slot);
		/* now and then the ring is full of slots that change while they are read */
		for (uint32_t back = 12; i % 12 == 11 && back > 0; back--)
			assert_non_null(await(&s, s.next - back));
		if (i % 12 == 5)
			random_slot(&seed, g4_ring_slot_of(s.ring, 16, s.next - 1));
		memset(s.data + api_random(&seed) % 65536, (int)i, 64);
	}
	leave(&s);
	return NULL;
}

static void garbage_in_a_ring_harms_nobody_else(void **state)
{
	struct noise noise[2] = {{.seed = 1, .slots = 6000}, {.seed = 2, .slots = 6000}};
	pthread_t threads[2];

	(void)state;
	make_public_root();
	ok(gpu4fs_mkdir(fs, NULL, "/kept", 0755));
	for (int i = 0; i < 2; i++)
		ok(pthread_create(&threads[i], NULL, make_noise, &noise[i]));
	for (int i = 0; i < 200; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/kept/%d", i);
		api_write_pattern(path, (uint64_t)i, 5000);
		api_check_pattern(path, (uint64_t)i, 5000);
	}
	for (int i = 0; i < 2; i++)
		ok(pthread_join(threads[i], NULL));
	assert_int_equal(api_count_names("/kept"), 200);
	for (int i = 0; i < 200; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/kept/%d", i);
		api_check_pattern(path, (uint64_t)i, 5000);
	}
	ok(gpu4fs_syncfs(fs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ring_test(a_slot_by_hand_writes_and_reads),	ring_test(a_made_up_handle_opens_nothing),
		ring_test(a_client_is_who_the_engine_says),	ring_test(quotas_hold),
		ring_test(what_a_client_left_open_is_closed),	ring_test(a_tail_out_of_range_ends_that_session_alone),
		ring_test(garbage_in_a_ring_harms_nobody_else),
	};

	unsetenv("G4_TEST_CONNECTED"); /* the other side of these tests is the engine itself */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
