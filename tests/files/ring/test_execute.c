/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command from its slot to its result: what a client takes out of the ring is what the command came to, as a word or, marked, as
 * more, and it counts as done. (What clients may not do: engine/test_ring_untrusted.c; how results are marked: test_ring_result.c.)
 */
#include "ring/client_host.h"
#include "ring/execute.h"

#include "files/files.h" /* its fs and wg are parameters' names there */

#define ENTRIES 8u
#define DATA_BYTES (64 * G4_KIB)

static struct g4_session session;
static struct g4_session_handle handles[4];
static struct g4_session_stage *stage;
static uint32_t number;

static int begin(void **state)
{
	files_begin(state);
	memset(handles, 0, sizeof(handles));
	session = (struct g4_session){.ring = rig_memory(g4_ring_bytes(ENTRIES), 0),
				      .data = rig_memory(DATA_BYTES, 0),
				      .data_bytes = DATA_BYTES,
				      .entries = ENTRIES,
				      .flags = G4_SESSION_IN_PROCESS,
				      .handles = handles,
				      .handle_count = 4,
				      .bytes_limit = DATA_BYTES};
	memset(session.ring, 0, g4_ring_bytes(ENTRIES));
	stage = (struct g4_session_stage *)(void *)rig_memory(g4_align_up(sizeof(*stage), G4_PAGE_BYTES), 0);
	stage->text = rig_memory(g4_align_up(G4_RING_MAX_TEXT, G4_PAGE_BYTES), 0);
	stage->data = rig_memory(G4_SESSION_STAGE_BYTES, 0);
	number = 0;
	return 0;
}

static int end(void **state)
{
	g4_session_close(wg, fs, &session);
	free(stage->text);
	free(stage->data);
	free(stage);
	free(session.ring);
	free(session.data);
	return files_end(state);
}

/* What a client finds: true: more than a word. */
static bool run(struct g4_ring_command command, const char *name, struct g4_ring_result *taken)
{
	struct g4_ring_slot *slot = g4_ring_slot_of(session.ring, ENTRIES, ++number);
	struct g4_ring_result *result = g4_ring_result_of(session.ring, ENTRIES, number);

	memset(slot, 0, sizeof(*slot));
	slot->command = command;
	slot->command.text_at = G4_RING_TEXT_INLINE;
	slot->command.name_bytes = (uint16_t)strlen(name);
	memcpy(slot->text, name, strlen(name));
	g4_session_execute(wg, fs, &session, number, stage);
	assert_int_equal(session.done, number);
	assert_int_equal(result->word & G4_RING_NUMBER_MASK, number);
	if (result->word & G4_RING_WORD_FULL) {
		assert_true(g4_ring_result_take(result, taken));
		return true;
	}
	taken->word = result->word;
	return false;
}

static int status_of(const struct g4_ring_result *taken)
{
	return (int32_t)(taken->word >> 32);
}

static void what_fits_is_a_word(void **state)
{
	struct g4_ring_result taken;

	(void)state;
	assert_false(run((struct g4_ring_command){.op = G4_CMD_NOP}, "", &taken));
	assert_int_equal(status_of(&taken), 0);
	assert_false(run((struct g4_ring_command){.op = G4_CMD_LOOKUP, .node = G4_NODE_ROOT}, "none", &taken));
	assert_int_equal(status_of(&taken), -G4_E_NOENT);
	assert_false(run((struct g4_ring_command){.op = G4_COMMAND_COUNT}, "", &taken));
	assert_int_equal(status_of(&taken), -G4_E_NOSYS);
}

static void attributes_come_with_the_result(void **state)
{
	struct g4_ring_result taken;
	struct g4_attr attr;
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "f", &attr), 0);
	for (uint32_t round = 0; round < 2 * ENTRIES; round++) { /* looked up by all lanes, or by the leader */
		assert_true(run((struct g4_ring_command){.op = round % 2 ? G4_CMD_LOOKUP : G4_CMD_GETATTR,
							 .node = round % 2 ? G4_NODE_ROOT : ino,
							 .wants_attr = 1},
				round % 2 ? "f" : "", &taken));
		assert_true(taken.tops & G4_RING_HAS_ATTR);
		assert_memory_equal(&taken.attr, &attr, sizeof(attr));
	}
}

/* A handle is the client's number; data goes through its area. */
static void a_file_is_opened_written_and_closed(void **state)
{
	struct g4_ring_result taken;
	uint64_t ino, back = 0;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_true(run((struct g4_ring_command){.op = G4_CMD_OPEN, .node = ino, .flags = G4_OPEN_WRITE}, "", &taken));
	const uint64_t handle = taken.handle;
	assert_int_not_equal(handle, 0);
	memset(session.data + 512, 'x', 100);
	assert_false(run(
		(struct g4_ring_command){.op = G4_CMD_WRITE, .handle = handle, .data = 512, .length = 100, .offset = 3},
		"", &taken));
	assert_int_equal(status_of(&taken), 100);
	assert_false(run((struct g4_ring_command){.op = G4_CMD_RELEASE, .handle = handle}, "", &taken));
	assert_int_equal(status_of(&taken), 0);
	assert_false(run((struct g4_ring_command){.op = G4_CMD_RELEASE, .handle = handle}, "", &taken));
	assert_int_equal(status_of(&taken), -G4_E_BADF);
	assert_int_equal(op_read(&rig, ino, 0, 95, &back, sizeof(back), NULL), 0);
	assert_memory_equal(&back, "xxxxxxxx", sizeof(back));
	assert_int_equal(session.moving, 0);
}

#define ring_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(ring_test(what_fits_is_a_word), ring_test(attributes_come_with_the_result),
	  ring_test(a_file_is_opened_written_and_closed))
