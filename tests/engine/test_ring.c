/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings as a hostile client sees them: these tests write slots by hand. What a well-behaved client gets is tested by
 * the API's tests, which run over a connection as well.
 */
#include "client/client.h"
#include "ring/client_host.h"
#include "untrusted.h"

static struct g4_engine *engine;

static int setup(void **state)
{
	int rc = api_setup(state);

	engine = fs->mount->engine;
	return rc;
}

#define ring_test(f) cmocka_unit_test_setup_teardown(f, setup, api_teardown)

/* ------------------------------------------------------------------ tests */

static void make_public_root(void)
{
	ok(gpu4fs_chmod(fs, NULL, "/", 0777));
}

static void a_slot_by_hand_writes_and_reads(void **state)
{
	struct untrusted s;

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	uint64_t handle = untrusted_open(&s, "mine", G4_OPEN_READ | G4_OPEN_WRITE);
	memcpy(s.data, "hello", 5);
	struct g4_ring_slot write = io_slot(G4_CMD_WRITE, handle, 0, 5), read = io_slot(G4_CMD_READ, handle, 64, 100);
	ok(untrusted_run(&s, &write));
	uint32_t number = s.next;
	ok(untrusted_run(&s, &read));
	assert_int_equal(g4_ring_result_of(s.ring, 16, number)->word >> 32, 5);
	assert_memory_equal(s.data + 64, "hello", 5);
	assert_int_equal(api_lstat("/mine").uid, 1000);
	untrusted_leave(&s);
}

static void a_made_up_handle_opens_nothing(void **state)
{
	struct untrusted s, other;

	(void)state;
	make_public_root();
	api_write_text("/secret", "secret");
	gpu4fs_file *file = api_open("/secret", O_RDONLY, 0);
	untrusted_enter(&s, &somebody);
	untrusted_enter(&other, &somebody);
	uint64_t theirs = untrusted_open(&other, "theirs", G4_OPEN_READ | G4_OPEN_WRITE);
	struct g4_ring_slot read = io_slot(G4_CMD_READ, file->handle, 0, 6); /* the engine's own */
	assert_int_equal(untrusted_run(&s, &read), -G4_E_BADF);
	read = io_slot(G4_CMD_READ, theirs, 0, 6); /* somebody else's */
	assert_int_equal(untrusted_run(&s, &read), -G4_E_BADF);
	read = io_slot(G4_CMD_READ, 0, 0, 6); /* by number */
	read.command.node = file->ino;
	assert_int_equal(untrusted_run(&s, &read), -G4_E_BADF);
	uint64_t mine = untrusted_open(&s, "mine", G4_OPEN_READ | G4_OPEN_WRITE);
	struct g4_ring_slot release = io_slot(G4_CMD_RELEASE, mine, 0, 0);
	ok(untrusted_run(&s, &release));
	assert_int_equal(untrusted_run(&s, &release), -G4_E_BADF); /* closed */
	uint64_t again = 0;
	for (int i = 0; i < 4; i++) /* until its place in the table is used again */
		again = untrusted_open(&s, "mine", G4_OPEN_READ);
	assert_int_equal((uint32_t)again, (uint32_t)mine);
	assert_int_not_equal(again, mine);
	read = io_slot(G4_CMD_READ, mine, 0, 6);
	assert_int_equal(untrusted_run(&s, &read), -G4_E_BADF); /* the same place, another file */
	untrusted_leave(&s);
	untrusted_leave(&other);
	ok(gpu4fs_close(file));
}

static void a_client_is_who_the_engine_says(void **state)
{
	const struct g4_cred root = {.uid = 0};
	struct untrusted s;

	(void)state;
	api_touch("/private", 0600);
	untrusted_enter(&s, &somebody);
	struct g4_ring_slot open = open_slot("private", G4_OPEN_READ);
	assert_int_equal(untrusted_run(&s, &open), -G4_E_ACCES);
	/* with credentials in front of the name */
	open.command.cred_bytes = offsetof(struct g4_cred, groups);
	memcpy(open.text, &root, offsetof(struct g4_cred, groups));
	memcpy(open.text + offsetof(struct g4_cred, groups), "private", 7);
	assert_int_equal(untrusted_run(&s, &open), -G4_E_PERM);
	untrusted_leave(&s);
	struct g4_session_options trusted = somebody;
	trusted.flags = G4_SESSION_MAY_ACT;
	untrusted_enter(&s, &trusted);
	ok(untrusted_run(&s, &open));
	untrusted_leave(&s);
	struct g4_ring_slot list = slot_of(G4_CMD_READDIR, NULL);
	list.command.length = 4096;
	ok(gpu4fs_chmod(fs, NULL, "/", 0711));
	untrusted_enter(&s, &somebody);
	assert_int_equal(untrusted_run(&s, &list), -G4_E_ACCES);
	untrusted_leave(&s);
}

/* A command about `name` where `path` leads from the root. */
static struct g4_ring_slot walk_slot(uint32_t op, const char *path, uint32_t flags, const char *name)
{
	struct g4_ring_slot slot = slot_of(op, NULL);

	slot.command.mode = op == G4_CMD_MKNOD ? G4_S_IFREG | 0644 : 0755;
	slot.command.walk_flags = (uint16_t)flags;
	slot.command.walk_bytes = (uint16_t)strlen(path);
	slot.command.name_bytes = (uint16_t)strlen(name);
	snprintf((char *)slot.text, sizeof(slot.text), "%s%s", path, name);
	return slot;
}

static int run_walk(struct untrusted *s, uint32_t op, const char *path, uint32_t flags, const char *name)
{
	struct g4_ring_slot slot = walk_slot(op, path, flags, name);

	slot.command.flags = op == G4_CMD_OPEN ? G4_OPEN_READ : 0;
	return untrusted_run(s, &slot);
}

static void a_command_walks_as_its_client_may(void **state)
{
	struct untrusted s;

	(void)state;
	make_public_root();
	ok(gpu4fs_mkdir(fs, NULL, "/closed", 0700));
	ok(gpu4fs_mkdir(fs, NULL, "/closed/inner", 0777));
	ok(gpu4fs_chmod(fs, NULL, "/closed/inner", 0777));
	ok(gpu4fs_symlink(fs, "/outside", NULL, "/absolute"));
	untrusted_enter(&s, &somebody);
	ok(run_walk(&s, G4_CMD_MKDIR, ".", 0, "d"));
	ok(run_walk(&s, G4_CMD_MKDIR, "d", 0, "e"));
	ok(run_walk(&s, G4_CMD_MKNOD, "d/e", G4_WALK_DIRECTORY, "f"));
	assert_int_equal(api_lstat("/d/e/f").uid, 1000);
	assert_int_equal(run_walk(&s, G4_CMD_MKNOD, "closed/inner", 0, "f"), -G4_E_ACCES);
	assert_int_equal(run_walk(&s, G4_CMD_UNLINK, "nothing", 0, "f"), -G4_E_NOENT);
	assert_int_equal(run_walk(&s, G4_CMD_UNLINK, "d/e/f", G4_WALK_DIRECTORY, "f"), -G4_E_NOTDIR);
	assert_true(run_walk(&s, G4_CMD_UNLINK, "d/e/f", 0, "f") < 0);
	assert_int_equal(run_walk(&s, G4_CMD_MKDIR, "absolute", G4_RESOLVE_BENEATH, "f"), -G4_E_LEAVES);
	assert_int_equal(run_walk(&s, G4_CMD_OPEN, "absolute", G4_RESOLVE_NOFOLLOW, ""), -G4_E_LOOP);
	ok(run_walk(&s, G4_CMD_OPEN, "d/e/f", 0, ""));
	/* a start that the client does not know */
	struct g4_ring_slot slot = walk_slot(G4_CMD_UNLINK, "e", 0, "f");
	slot.command.node = api_lstat("/d").ino;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_STALE);
	/* both names of a rename */
	slot = walk_slot(G4_CMD_RENAME, "d/e", G4_WALK_DIRECTORY | G4_WALK_BOTH, "fg");
	slot.command.node2 = slot.command.node;
	slot.command.name_bytes = slot.command.name2_bytes = 1;
	ok(untrusted_run(&s, &slot));
	assert_int_equal(api_lstat("/d/e/g").uid, 1000);
	untrusted_leave(&s);
}

static void other_commands_do_not_walk(void **state)
{
	struct untrusted s;

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	ok(run_walk(&s, G4_CMD_MKDIR, "", 0, "d"));
	for (uint32_t op = G4_CMD_LOOKUP; op < G4_COMMAND_COUNT; op++) {
		const bool walks = op == G4_CMD_MKNOD || op == G4_CMD_MKDIR || op == G4_CMD_SYMLINK ||
				   op == G4_CMD_UNLINK || op == G4_CMD_RMDIR || op == G4_CMD_RENAME ||
				   op == G4_CMD_CREATE || op == G4_CMD_OPEN;
		struct g4_ring_slot slot = walk_slot(op, "d", 0, "d");
		if (!walks && !g4_command_is(op, G4_FOR_OWNER | G4_NEEDS_HANDLE | G4_ATTR_IN))
			assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
	}
	/* text that does not fit */
	struct g4_ring_slot slot = walk_slot(G4_CMD_MKDIR, "d", 0, "e");
	slot.command.walk_bytes = G4_RING_TEXT_BYTES;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
	slot.command.text_at = 4 * G4_MIB - G4_RING_TEXT_BYTES;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
	slot.command.walk_bytes = UINT16_MAX;
	slot.command.text_at = 0;
	assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
	assert_int_equal(api_count_names("/d"), 0);
	untrusted_leave(&s);
}

/* A client of a later version learns that this one does not know what it asks for. */
static void what_means_nothing_yet_is_refused(void **state)
{
	struct untrusted s;

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	for (uint32_t bit = 0; bit < 16; bit++)
		if (!(G4_WALK_KNOWN >> bit & 1))
			assert_int_equal(run_walk(&s, G4_CMD_MKDIR, ".", 1u << bit, "d"), -G4_E_INVAL);
	for (uint32_t k = 0; k < sizeof(((struct g4_ring_command *)0)->reserved) / sizeof(uint32_t); k++) {
		struct g4_ring_slot slot = walk_slot(G4_CMD_MKDIR, ".", 0, "d");
		slot.command.reserved[k] = 1;
		assert_int_equal(untrusted_run(&s, &slot), -G4_E_INVAL);
	}
	ok(run_walk(&s, G4_CMD_MKDIR, ".", 0, "d"));
	untrusted_leave(&s);
}

static void quotas_hold(void **state)
{
	struct untrusted s;
	char name[8];

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	uint64_t handle = 0;
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		handle = untrusted_open(&s, name, G4_OPEN_READ | G4_OPEN_WRITE);
	}
	struct g4_ring_slot open = open_slot("f4", G4_OPEN_READ);
	assert_int_equal(untrusted_run(&s, &open), -G4_E_NFILE);
	struct g4_ring_slot release = io_slot(G4_CMD_RELEASE, handle, 0, 0);
	ok(untrusted_run(&s, &release));
	handle = untrusted_open(&s, "f4", G4_OPEN_READ | G4_OPEN_WRITE);
	/* beyond the data area, also where the sum wraps */
	struct g4_ring_slot write = io_slot(G4_CMD_WRITE, handle, 4 * G4_MIB - 4, 8);
	assert_int_equal(untrusted_run(&s, &write), -G4_E_INVAL);
	write = io_slot(G4_CMD_WRITE, handle, UINT64_MAX - 4, 8);
	assert_int_equal(untrusted_run(&s, &write), -G4_E_INVAL);
	write = io_slot(G4_CMD_WRITE, handle, 8, UINT64_MAX - 4);
	assert_int_equal(untrusted_run(&s, &write), -G4_E_INVAL);
	/* text that does not fit */
	struct g4_ring_slot look = slot_of(G4_CMD_LOOKUP, "x");
	look.command.name_bytes = 65535;
	assert_int_equal(untrusted_run(&s, &look), -G4_E_INVAL);
	look.command.text_at = 4 * G4_MIB - 10;
	look.command.name_bytes = 255;
	assert_int_equal(untrusted_run(&s, &look), -G4_E_INVAL);
	untrusted_leave(&s);
	assert_int_equal(api_count_names("/"), 5);
}

static void what_a_client_left_open_is_closed(void **state)
{
	uint64_t inodes[16];
	struct untrusted s;

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	untrusted_open(&s, "one", G4_OPEN_READ);
	untrusted_open(&s, "two", G4_OPEN_READ);
	untrusted_leave(&s); /* before, others may be at work while the engine is asked */
	assert_int_equal(g4_engine_open_inodes(engine, inodes, 16), 0);
}

static void a_tail_out_of_range_ends_that_session_alone(void **state)
{
	struct untrusted s, other;

	(void)state;
	make_public_root();
	untrusted_enter(&s, &somebody);
	untrusted_enter(&other, &somebody);
	g4_store32_rel(&s.header->tail, 1000);
	g4_ring_wake(s.header, -1);
	s.next = 1000;
	assert_null(untrusted_await(&s, 1000));
	struct g4_ring_slot nop = slot_of(G4_CMD_NOP, NULL);
	ok(untrusted_run(&other, &nop));
	untrusted_leave(&s);
	untrusted_leave(&other);
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
	slot->command.op = (uint32_t)(api_random(seed) % (G4_COMMAND_COUNT + 1));
	slot->command.name_bytes = api_random(seed) % 3;
	slot->command.name2_bytes = api_random(seed) % 3;
	slot->command.cred_bytes = 0;
	slot->command.walk_bytes = api_random(seed) % 4 ? 0 : api_random(seed) % 3;
	slot->command.attr_bytes = slot->command.op == G4_CMD_SETATTR ? sizeof(struct g4_attr) : 0;
	slot->command.text_at = api_random(seed) % 4 ? G4_RING_TEXT_INLINE : api_random(seed) % (5 * G4_MIB);
	slot->command.node = api_random(seed) % 2 ? G4_NODE_ROOT : api_random(seed) % 4096 << 15 | 1;
	slot->command.node2 = api_random(seed) % 2 ? G4_NODE_ROOT : 1 + api_random(seed) % 4;
	slot->command.handle = api_random(seed) % 2 ? 1 + api_random(seed) % 4 : 0;
	slot->command.length %= 8192;
	slot->command.offset %= G4_MIB;
	slot->command.offset2 %= G4_MIB;
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
	struct untrusted s;
	struct g4_ring_slot slot;

	untrusted_enter(&s, &somebody);
	for (uint32_t i = 0; i < noise->slots; i++) {
		random_slot(&seed, &slot);
		untrusted_post(&s, &slot);
		/* now and then the ring is full of slots that change while they are read */
		for (uint32_t back = 12; i % 12 == 11 && back > 0; back--)
			assert_non_null(untrusted_await(&s, s.next - back));
		if (i % 12 == 5)
			random_slot(&seed, g4_ring_slot_of(s.ring, 16, s.next - 1));
		memset(s.data + api_random(&seed) % 65536, (int)i, 64);
	}
	untrusted_leave(&s);
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
		ring_test(a_slot_by_hand_writes_and_reads),
		ring_test(a_made_up_handle_opens_nothing),
		ring_test(a_client_is_who_the_engine_says),
		ring_test(quotas_hold),
		ring_test(a_command_walks_as_its_client_may),
		ring_test(other_commands_do_not_walk),
		ring_test(what_means_nothing_yet_is_refused),
		ring_test(what_a_client_left_open_is_closed),
		ring_test(a_tail_out_of_range_ends_that_session_alone),
		ring_test(garbage_in_a_ring_harms_nobody_else),
	};

	unsetenv("G4_TEST_CONNECTED"); /* the other side of these tests is the engine itself */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
