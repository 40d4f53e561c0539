/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a hostile client of a ring. It writes what it likes into the memory that it shares with the engine, also
 * between the engine's looks at it (ring_hooks.h). Everything happens on one thread, so that an input does the same each
 * time; commands that run side by side are commands that begin while another one is just about to be executed.
 *
 * An input is a list of steps of 64 bytes. Most are commands, put together from names, inodes and handles that exist, so
 * that they get far, and then spoiled where the step says so. After each command what the engine wrote is compared with
 * what it may write; at the end the engine has no file open, another client's files are as that client left them, and
 * the image is clean.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "fs/fs.h"
#include "fuzz.h"
#include "ring/client_host.h"
#include "ring/execute.h"
#include "ring/session_host.h"
#include "ring_hooks.h"
#include "simt/simt_host.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
				 size_t room, unsigned int seed);

#define IMAGE_BYTES (16 * G4_MIB)
#define ENTRIES 8u
#define DATA_BYTES (128 * G4_KIB)
#define MOVING_BYTES (96 * G4_KIB)
#define HANDLES 4u
#define DEPTHS 3u	   /* commands side by side */
#define MOST_COMMANDS 512u /* of an input: a tail that jumps repeats old slots */
#define MOST_STEPS 64u
#define KEPT_PAGES 5u
#define NODES 24u
#define SOME_HANDLES 8u

struct step {
	uint8_t kind; /* enum kind, modulo */
	uint8_t op;
	uint8_t node, node2, handle, handle2; /* indices of known ones, modulo */
	uint8_t name, name2;
	uint32_t flags, mask;
	uint16_t mode;
	uint8_t cred; /* bit 0: another umask; bits 1, 2: credentials in the text */
	uint8_t text; /* bits 0 to 2: where it lies; bit 3: attributes wanted; bit 4: TEXT_BARE */
	uint32_t data;
	uint64_t offset, length, arg;
	uint16_t patch_at;
	uint8_t patch_bytes; /* modulo 9: 0 for none */
	uint8_t hook;	     /* HOOK_*: what the client does while the engine works */
	uint32_t walk;	     /* 0: none; low half: a name, from 1; high half: flags */
	uint64_t patch;	     /* written over the finished slot, or the value of other kinds */
};
G4_STATIC_ASSERT(sizeof(struct step) == 64, "steps have no holes");

enum kind {
	COMMAND,
	QUEUE, /* a command that runs beside the next one, or after it */
	SET_RING,
	SET_DATA,
	SET_TAIL,
	NEIGHBOUR, /* the other client's turn */
	LEAVE,	   /* comes again as somebody else */
	CRASH,	   /* at the end, instead of an unmount */
	KINDS
};

#define TEXT_BARE 16u /* inodes are named without generation and token */

#define HOOK_SPOIL 1u  /* what was just fetched changes */
#define HOOK_NESTED 2u /* the next command begins */
#define HOOK_DATA 4u   /* the data that a command is about changes */
#define HOOK_TAIL 8u   /* tail changes */

struct client {
	struct g4_session session;
	uint8_t *ring, *data; /* as they should be */
	struct step step_of[ENTRIES];
	uint32_t executed;
	uint32_t uid;
};

struct running { /* a command that is being executed */
	struct client *client;
	uint32_t number;
	struct g4_ring_slot slot; /* as the engine fetched it */
};

struct desk { /* where one is executed */
	struct g4_wg *wg;
	struct g4_session_stage *stage;
};

static struct fuzz_base base;
static struct world_list oracle;
static struct client hostile, neighbour;
static struct desk desks[DEPTHS];
static struct running *now;
static uint32_t depth, commands;
static bool root_was_here; /* who may change everything */
static uint32_t versions[KEPT_PAGES];

/* Inodes that a client may have heard of: the image's, and then those that it got attributes of. */
static struct node {
	uint64_t ino, generation, token;
} nodes[NODES];
static uint64_t handles[SOME_HANDLES];
static uint32_t node_count, handle_count, sessions;

static const char *const paths[] = {
	"",
	"public",
	"public/mine",
	"public/inline",
	"public/folder",
	"public/link",
	"public/loop",
	"public/pipe",
	"theirs",
	"theirs/kept",
	"theirs/secret",
	"theirs/folder",
	"root only",
};
#define KNOWN_NODES (sizeof(paths) / sizeof(paths[0]))
#define NODE_KEPT 9u
static const char *const names[] = {
	"mine",
	"inline",
	"folder",
	"link",
	"loop",
	"pipe",
	"kept",
	"secret",
	"new",
	"new too",
	"a",
	"b",
	"public",
	"theirs",
	"",
	".",
	"..",
	"/",
	"public/mine",
	"public/link",
	"public/loop/x",
	"theirs/secret",
	"../theirs/kept",
	"a/b",
	"name 7",
	"name 31",
	"user.mine",
	"user.new",
	"user.large",
	"trusted.x",
	"security.capability",
	"system.posix_acl_access",
	"system.posix_acl_default",
	"user.",
	"nothing.x",
};
#define NAMES (sizeof(names) / sizeof(names[0]))
#define LONG_NAMES 4u /* of these many bytes, behind the others */
static const uint16_t long_names[LONG_NAMES] = {255, 256, 1000, 4097};

static const struct g4_cred hostile_cred = {.uid = 1000, .gid = 1000, .umask = 022, .group_count = 1, .groups = {5}};
static const struct g4_cred neighbour_cred = {.uid = 2000, .gid = 2000, .umask = 022};

/*
 * Words that a client must not see: what other commands left in the engine's memory, and what is in files that it may not
 * read. Never in one piece here, for libFuzzer learns from comparisons.
 */
#define SECRET_KEY UINT64_C(0x5a3c96e1b7d2f048)
#define STAGE_SECRET UINT64_C(0xc0ffee0102030405)
#define FILE_SECRET UINT64_C(0xfeedf11e0a0b0c0d)

static void fill_secret(void *to, uint64_t bytes, uint64_t which)
{
	const uint64_t word = which ^ SECRET_KEY;

	for (uint64_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word))
		memcpy((uint8_t *)to + at, &word, sizeof(word));
}

static bool has_secret(const void *from, uint64_t bytes, uint64_t which)
{
	for (uint64_t at = 0; at + sizeof(uint64_t) <= bytes; at++) {
		uint64_t word;
		memcpy(&word, (const uint8_t *)from + at, sizeof(word));
		if ((word ^ SECRET_KEY) == which)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ the image */

static uint64_t new_file(const struct g4_cred *cred, uint64_t dir, const char *name, uint32_t mode, const void *bytes,
			 uint64_t count)
{
	uint64_t ino;

	base.rig.cred = cred;
	const int rc = S_ISDIR(mode) ? op_mkdir(&base.rig, dir, name, mode & 07777u, &ino) :
				       op_mknod(&base.rig, dir, name, mode, &ino);
	fuzz_expect(rc == 0, name, NULL);
	base.rig.cred = NULL;
	if (count > 0)
		fuzz_expect(op_write(&base.rig, ino, 0, 0, bytes, count, NULL) == 0, name, NULL);
	return ino;
}

static void kept_page(uint32_t page, uint8_t *to)
{
	rig_pattern(to, (uint64_t)page << 32 | versions[page], G4_PAGE_BYTES);
}

static void make_theirs(void)
{
	static uint8_t bytes[256 * G4_KIB];
	struct g4_attr attr = {.mode = 0755, .uid = 2000, .gid = 2000};
	uint64_t dir, gone;

	fuzz_expect(op_mkdir(&base.rig, G4_NODE_ROOT, "theirs", 0777, &dir) == 0, "theirs", NULL);
	for (uint32_t page = 0; page < KEPT_PAGES; page++)
		kept_page(page, bytes + page * G4_PAGE_BYTES);
	new_file(&neighbour_cred, dir, "kept", S_IFREG | 0644, bytes, KEPT_PAGES * G4_PAGE_BYTES);
	fill_secret(bytes, sizeof(bytes), FILE_SECRET);
	const uint64_t secret = new_file(&neighbour_cred, dir, "secret", S_IFREG | 0600, bytes, 10000);
	new_file(&neighbour_cred, dir, "small secret", S_IFREG | 0600, bytes, 80);
	new_file(&neighbour_cred, dir, "folder", S_IFDIR | 0700, NULL, 0);
	fuzz_expect(op_setxattr(&base.rig, secret, "user.mine", bytes, 400, 0) == 0, "attribute", NULL);
	fuzz_expect(op_setxattr(&base.rig, secret, "trusted.x", bytes, 40, 0) == 0, "attribute", NULL);
	fuzz_expect(op_setattr(&base.rig, dir, G4_SET_MODE | G4_SET_UID | G4_SET_GID, &attr) == 0, "owner", NULL);
	new_file(NULL, G4_NODE_ROOT, "root only", S_IFREG | 0600, bytes, 5000);
	/* free space that was a secret once */
	gone = new_file(NULL, G4_NODE_ROOT, "gone", S_IFREG | 0600, bytes, sizeof(bytes));
	fuzz_expect(op_sync(&base.rig) == 0 && op_unlink(&base.rig, G4_NODE_ROOT, "gone") == 0 && gone != 0, "gone",
		    NULL);
}

static void make_public(void)
{
	static uint8_t bytes[60000];
	uint64_t dir, folder, ino;
	char name[160];

	rig_pattern(bytes, 1, sizeof(bytes));
	fuzz_expect(op_mkdir(&base.rig, G4_NODE_ROOT, "public", 0777, &dir) == 0, "public", NULL);
	ino = new_file(&hostile_cred, dir, "mine", S_IFREG | 0644, bytes, sizeof(bytes));
	fuzz_expect(op_write(&base.rig, ino, 0, G4_MIB, bytes, 5000, NULL) == 0, "mine", NULL);
	fuzz_expect(op_setxattr(&base.rig, ino, "user.mine", bytes, 40, 0) == 0, "attribute", NULL);
	fuzz_expect(op_setxattr(&base.rig, ino, "user.large", bytes, 9000, 0) == 0, "attribute", NULL);
	new_file(&hostile_cred, dir, "inline", S_IFREG | 0600, bytes, 60);
	new_file(&hostile_cred, dir, "pipe", S_IFIFO | 0600, NULL, 0);
	folder = new_file(&hostile_cred, dir, "folder", S_IFDIR | 0755, NULL, 0);
	base.rig.cred = &hostile_cred;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		fuzz_expect(op_mkdir(&base.rig, folder, name, 0700, NULL) == 0, name, NULL);
	}
	for (unsigned i = 0; i < 120; i++) { /* enough for an index */
		snprintf(name, sizeof(name), "%0150u", i);
		fuzz_expect(op_link(&base.rig, ino, folder, name) == 0, name, NULL);
	}
	fuzz_expect(op_symlink(&base.rig, dir, "link", "mine", NULL) == 0, "link", NULL);
	fuzz_expect(op_symlink(&base.rig, dir, "loop", "../public/loop", NULL) == 0, "loop", NULL);
	base.rig.cred = NULL;
}

/* Listed from the copy, for a mount writes. */
static void learn(void)
{
	if (world_mount(&base.work) < 0)
		abort();
	world_list(&base.work, &oracle);
	fuzz_expect(oracle.errors == 0, "the image can be read before", NULL);
	for (uint32_t i = 0; i < KNOWN_NODES; i++) {
		struct g4_attr attr;
		uint64_t ino = G4_NODE_ROOT;
		for (uint32_t k = 0; k < oracle.count; k++)
			if (strcmp(oracle.files[k].path, paths[i]) == 0)
				ino = oracle.files[k].ino;
		fuzz_expect(op_getattr(&base.work, ino, &attr) == 0, paths[i], NULL);
		nodes[i] = (struct node){.ino = ino, .generation = attr.generation};
	}
	world_unmount(&base.work, false);
}

/* ------------------------------------------------------------------ clients */

/* Between pages that nobody may touch. */
static uint8_t *guarded(uint64_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes + 2 * G4_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + G4_PAGE_BYTES, bytes, PROT_READ | PROT_WRITE) != 0)
		abort();
	return memory + G4_PAGE_BYTES;
}

static void *allocate(uint64_t bytes)
{
	void *memory = aligned_alloc(64, g4_align_up(bytes, 64));

	if (memory == NULL)
		abort();
	return memory;
}

static void make_client(struct client *c)
{
	c->session.ring = guarded(g4_ring_bytes(ENTRIES));
	c->session.data = guarded(DATA_BYTES);
	c->session.handles = allocate(HANDLES * sizeof(*c->session.handles));
	c->ring = allocate(g4_ring_bytes(ENTRIES));
	c->data = allocate(DATA_BYTES);
}

static void enter(struct client *c, const struct g4_cred *cred, uint32_t flags)
{
	struct g4_session_handle *own = c->session.handles;

	c->session = (struct g4_session){.ring = c->session.ring,
					 .data = c->session.data,
					 .data_bytes = DATA_BYTES,
					 .entries = ENTRIES,
					 .flags = flags,
					 .handles = own,
					 .handle_count = HANDLES,
					 .bytes_limit = MOVING_BYTES,
					 .token_key = {++sessions},
					 .cred = *cred};
	memset(own, 0, HANDLES * sizeof(*own));
	memset(c->session.ring, 0, g4_ring_bytes(ENTRIES));
	memset(c->session.data, 0, DATA_BYTES);
	memset(c->ring, 0, g4_ring_bytes(ENTRIES));
	memset(c->data, 0, DATA_BYTES);
	c->executed = 0;
	c->uid = cred->uid;
}

/* No command is left of its own, and no file open. */
static void leave(struct client *c)
{
	g4_session_close(desks[0].wg, base.work.fs, &c->session);
	for (uint32_t i = 0; i < HANDLES; i++)
		fuzz_expect((uint32_t)c->session.handles[i].state == 0, "a client that left has no handle", NULL);
	fuzz_expect(c->session.moving == 0, "nothing moves when no command runs", NULL);
	fuzz_expect(c->session.done == c->executed, "every command is counted once", NULL);
}

/* What a client does to its own memory. */
static void poke(struct client *c, bool in_ring, uint64_t at, const void *bytes, uint64_t count)
{
	const uint64_t room = in_ring ? g4_ring_bytes(ENTRIES) : DATA_BYTES;

	at %= room;
	count = g4_min64(count, room - at);
	memcpy((in_ring ? c->session.ring : c->session.data) + at, bytes, count);
	memcpy((in_ring ? c->ring : c->data) + at, bytes, count);
}

static void set_tail(struct client *c, uint32_t tail)
{
	poke(c, true, offsetof(struct g4_ring_header, tail), &tail, sizeof(tail));
}

static uint64_t place_in(const struct client *c, const void *of)
{
	return (uint64_t)((const uint8_t *)of - c->session.ring);
}

static void fill_slot(struct client *c, uint32_t number, const struct g4_ring_slot *slot)
{
	poke(c, true, place_in(c, g4_ring_slot_of(c->session.ring, ENTRIES, number)), slot, sizeof(*slot));
}

/* ------------------------------------------------------------------ executing, and what may come of it */

static void expect_same(const uint8_t *is, const uint8_t *was, uint64_t bytes)
{
	fuzz_expect(memcmp(is, was, bytes) == 0, "the engine writes where it was told to and nowhere else", NULL);
}

static void check_data(struct running *run, int status, uint64_t value)
{
	const struct g4_ring_command *command = &run->slot.command;
	struct client *c = run->client;
	uint64_t at = 0, room = 0, told = 0;

	if (g4_command_is(command->op, G4_DATA_OUT) && command->data <= DATA_BYTES) {
		at = command->data;
		room = g4_min64(command->length, DATA_BYTES - at);
		if (status == 0 && command->length > 0)
			fuzz_expect(value <= room, "no more is told than was asked for", NULL);
		if (status < 0 && command->op != G4_CMD_READ)
			room = 0;
		told = status < 0 ? room : g4_min64(value, room);
		if (command->op != G4_CMD_READ)
			room = told;
	}
	expect_same(c->session.data, c->data, at);
	expect_same(c->session.data + at + room, c->data + at + room, DATA_BYTES - at - room);
	memcpy(c->data + at, c->session.data + at, room);
	fuzz_expect(!has_secret(c->session.data + at, told, STAGE_SECRET), "no command's data is another's", NULL);
	fuzz_expect(root_was_here || c->uid == neighbour_cred.uid ||
			    !has_secret(c->session.data + at, told, FILE_SECRET),
		    "nobody reads what is not permitted", NULL);
}

static uint64_t taken_handle; /* of the last result that had more than a word */

static void check_result(struct running *run)
{
	struct client *c = run->client;
	struct g4_ring_result *result = g4_ring_result_of(c->session.ring, ENTRIES, run->number);
	const uint64_t place = place_in(c, result), word = result->word;
	const int32_t small = (int32_t)(word >> 32);
	const bool full = (word & G4_RING_WORD_FULL) != 0;
	struct g4_ring_result taken = {0};

	fuzz_expect((word & G4_RING_NUMBER_MASK) == (run->number & G4_RING_NUMBER_MASK), "each command has a result",
		    NULL);
	expect_same(c->session.ring, c->ring, place);
	const uint64_t behind = full && (g4_load64_rlx(&result->tops) & G4_RING_HAS_TRAIL) ?
					place + sizeof(*result) :
					place + offsetof(struct g4_ring_result, trail);
	expect_same(c->session.ring + behind, c->ring + behind, g4_ring_bytes(ENTRIES) - behind);
	fuzz_expect(!full || g4_ring_result_take(result, &taken), "all words of a result are there", NULL);
	memcpy(c->ring + place, result, sizeof(*result));
	check_data(run, small < 0 ? small : 0, full ? taken.value : small < 0 ? 0 : (uint64_t)small);
	if (!full)
		return;
	fuzz_expect(!has_secret(&taken, sizeof(taken), STAGE_SECRET), "no result is another's", NULL);
	taken_handle = taken.handle;
	if (!g4_command_is(run->slot.command.op, G4_MAKES_HANDLE)) {
		fuzz_expect(taken.handle == run->slot.command.handle || taken.handle == 0,
			    "a client sees no handle of the engine", NULL);
	} else if (c == &hostile) {
		fuzz_expect((uint32_t)taken.handle - 1 < HANDLES, "a client has no more handles than allowed", NULL);
		handles[handle_count++ % SOME_HANDLES] = taken.handle;
	}
	if (c == &hostile && run->slot.command.wants_attr)
		nodes[KNOWN_NODES + node_count++ % (NODES - KNOWN_NODES)] =
			(struct node){taken.attr.ino, taken.attr.generation, taken.attr.token};
}

static void spoil_stage(struct g4_session_stage *stage)
{
	uint8_t *text = stage->text, *data = stage->data;

	fill_secret(stage, sizeof(*stage), STAGE_SECRET);
	stage->text = text;
	stage->data = data;
	fill_secret(text, G4_RING_MAX_TEXT, STAGE_SECRET);
	fill_secret(data, G4_SESSION_STAGE_BYTES, STAGE_SECRET);
}

static void execute(struct client *c, uint32_t number)
{
	struct running run = {.client = c, .number = number}, *before = now;
	const struct desk *desk = &desks[depth];

	run.slot = *g4_ring_slot_of(c->session.ring, ENTRIES, number);
	spoil_stage(desk->stage);
	now = &run;
	depth++;
	commands += c == &hostile;
	c->executed++;
	g4_session_execute(desk->wg, base.work.fs, &c->session, number, desk->stage);
	depth--;
	now = before;
	check_result(&run);
}

/* Runs the next command; false when there is none, or the client broke the protocol. */
static bool serve_one(struct client *c)
{
	uint32_t number;

	if (c->session.broken || (c == &hostile && commands >= MOST_COMMANDS))
		return false;
	const int got = g4_session_claim(&c->session, &number);
	c->session.broken |= got < 0;
	if (got <= 0)
		return false;
	execute(c, number);
	return true;
}

static const struct step *step_of(const struct running *run)
{
	return &run->client->step_of[run->number % ENTRIES];
}

static uint32_t hooks_of(const struct running *run)
{
	return run != NULL && run->client == &hostile ? step_of(run)->hook : 0;
}

static void invert(struct client *c, bool in_ring, uint64_t at, uint64_t count)
{
	uint8_t bytes[G4_PAGE_BYTES];
	const uint8_t *from = in_ring ? c->session.ring : c->session.data;

	count = g4_min64(count, sizeof(bytes));
	for (uint64_t k = 0; k < count; k++)
		bytes[k] = (uint8_t)~from[at + k];
	poke(c, in_ring, at, bytes, count);
}

void hooked_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	g4_copy(wg, to, from, bytes);
	if ((hooks_of(now) & HOOK_SPOIL) == 0)
		return;
	const uint64_t ring_at = (uint64_t)((const uint8_t *)from - now->client->session.ring);
	const uint64_t data_at = (uint64_t)((const uint8_t *)from - now->client->session.data);
	if (ring_at < g4_ring_bytes(ENTRIES))
		invert(now->client, true, ring_at, bytes);
	else if (data_at < DATA_BYTES)
		invert(now->client, false, data_at, bytes);
}

/* A READ that is over but has to close its file yet has written, and its result is not looked at yet. */
static void accept_read(const struct running *run)
{
	const uint64_t at = run->slot.command.data;
	struct client *c = run->client;

	if (run->slot.command.op == G4_CMD_READ && at <= DATA_BYTES)
		memcpy(c->data + at, c->session.data + at, g4_min64(run->slot.command.length, DATA_BYTES - at));
}

int hooked_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	const uint32_t hooks = hooks_of(now);

	if (now != NULL)
		fuzz_expect(now->client->session.moving <= MOVING_BYTES, "no more bytes move than allowed", NULL);
	if (hooks & HOOK_DATA && now->slot.command.data < DATA_BYTES)
		invert(now->client, false, now->slot.command.data,
		       g4_min64(now->slot.command.length, DATA_BYTES - now->slot.command.data));
	if (hooks & HOOK_TAIL)
		set_tail(now->client,
			 ((struct g4_ring_header *)now->client->session.ring)->tail + (uint32_t)step_of(now)->patch);
	if (hooks & HOOK_NESTED && depth < DEPTHS) {
		accept_read(now);
		serve_one(now->client);
	}
	return g4_execute(wg, fs, cmd);
}

/* ------------------------------------------------------------------ steps */

static uint16_t append(uint8_t *text, uint32_t *bytes, const void *from, uint32_t count)
{
	memcpy(text + *bytes, from, count);
	*bytes += count;
	return (uint16_t)count;
}

static uint16_t append_name(uint8_t *text, uint32_t *bytes, uint32_t which)
{
	uint8_t many[4097];

	which %= NAMES + LONG_NAMES;
	if (which < NAMES)
		return append(text, bytes, names[which], (uint32_t)strlen(names[which]));
	memset(many, 'n', sizeof(many));
	return append(text, bytes, many, long_names[which - NAMES]);
}

static uint16_t append_cred(uint8_t *text, uint32_t *bytes, uint32_t which)
{
	struct g4_cred cred = neighbour_cred;

	if (which == 0)
		return 0;
	if (which == 2)
		cred = (struct g4_cred){.flags = G4_CRED_TRUSTED, .group_count = G4_CRED_MAX_GROUPS};
	if (which == 3)
		cred.group_count = UINT32_MAX;
	return append(text, bytes, &cred, which == 2 ? sizeof(cred) : offsetof(struct g4_cred, groups));
}

static uint16_t append_attr(uint8_t *text, uint32_t *bytes, const struct step *step)
{
	const struct g4_attr attr = {.size = step->offset,
				     .atime_ns = step->length,
				     .mtime_ns = step->arg,
				     .ctime_ns = step->patch,
				     .mode = step->mode,
				     .uid = step->data,
				     .gid = step->node2,
				     .flags = step->flags};

	return append(text, bytes, &attr, sizeof(attr));
}

/* Where the text lies: in the slot, in the data area, across its end, beyond. */
static void place_text(struct client *c, const struct step *step, struct g4_ring_slot *slot, const uint8_t *text,
		       uint32_t bytes)
{
	uint64_t at = 64 * G4_KIB;

	switch (step->text & 7) {
	case 4:
		at = step->data % DATA_BYTES;
		break;
	case 5:
		at = DATA_BYTES - bytes;
		break;
	case 6:
		at = DATA_BYTES - bytes + 1;
		break;
	case 7:
		at = G4_RING_TEXT_INLINE;
		break;
	default:
		if (bytes <= G4_RING_TEXT_BYTES)
			at = G4_RING_TEXT_INLINE;
		break;
	}
	slot->command.text_at = at;
	if (at == G4_RING_TEXT_INLINE)
		memcpy(slot->text, text, g4_min64(bytes, G4_RING_TEXT_BYTES));
	else
		poke(c, false, at, text, bytes);
}

/* Where a command brings a value that the engine understands, it lies ready in the data area, more or less. */
static void place_acl(struct client *c, const struct step *step)
{
	/* user::rwx user:1000:r-- group::r-x mask::r-x other::r-- */
	uint8_t acl[] = {2, 0,	  0,   0,   1,	 0,   7,  0, 255, 255, 255, 255, 2,   0,  4,
			 0, 0xe8, 3,   0,   0,	 4,   0,  5, 0,	  255, 255, 255, 255, 16, 0,
			 5, 0,	  255, 255, 255, 255, 32, 0, 4,	  0,   255, 255, 255, 255};

	acl[14] ^= step->mode & 7;
	acl[30] ^= step->mode >> 3 & 7;
	acl[step->mask % sizeof(acl)] ^= (uint8_t)(step->mask >> 8);
	poke(c, false, step->data, acl, sizeof(acl));
}

/* So is a batch: of operations in turn, on names in turn. `arg` spoils a byte of it. */
static void place_batch(struct client *c, const struct step *step, struct g4_ring_command *command)
{
	static const uint32_t ops[] = {G4_CMD_LOOKUP, G4_CMD_MKNOD, G4_BATCH_MKDIR_ALL, G4_CMD_UNLINK,
				       G4_CMD_MKDIR,  G4_CMD_RMDIR, G4_CMD_RENAME};
	uint64_t room[G4_PAGE_BYTES / sizeof(uint64_t)] = {0};
	struct g4_batch_entry *entries = (struct g4_batch_entry *)(void *)room;
	uint8_t *bytes = (uint8_t *)room;

	command->mask = 1 + step->mask % 8;
	uint64_t at = g4_batch_head_bytes(command->mask, step->flags);
	for (uint32_t k = 0; k < command->mask; k++) {
		const char *path = names[(step->name + k) % NAMES], *path2 = names[(step->name2 + k) % NAMES];
		struct g4_batch_entry *entry = &entries[k];
		entry->op = ops[(step->mask / 8 + k) % (sizeof(ops) / sizeof(ops[0]))];
		entry->mode = entry->op == G4_CMD_LOOKUP || entry->op == G4_CMD_RENAME ? step->mask >> 16 : step->mode;
		entry->path_at = (uint32_t)at;
		entry->path_bytes = (uint32_t)strlen(path);
		entry->path2_bytes = entry->op == G4_CMD_RENAME ? (uint32_t)strlen(path2) : 0;
		memcpy(bytes + at, path, entry->path_bytes);
		memcpy(bytes + at + entry->path_bytes, path2, entry->path2_bytes);
		at += entry->path_bytes + entry->path2_bytes;
	}
	bytes[step->arg % at] ^= (uint8_t)(step->arg >> 32);
	if (command->length == 0)
		command->length = at;
	poke(c, false, step->data, bytes, at);
}

/* What the client has, or a made-up one. */
static uint64_t pick_handle(const struct step *step, uint32_t which)
{
	which %= SOME_HANDLES + 1;
	return which < SOME_HANDLES ? handles[which] : step->patch;
}

/* The image's inodes are known as if the client had looked them up in this session. */
static struct node pick_node(const struct client *c, const struct step *step, uint32_t which)
{
	which %= NODES + 1;
	struct node node = which < NODES ? nodes[which] : (struct node){.ino = step->patch};
	if (which < KNOWN_NODES)
		node.token = g4_session_token(&c->session, node.ino, node.generation);
	return node;
}

static void name_nodes(const struct client *c, const struct step *step, struct g4_ring_command *command)
{
	const struct node node = pick_node(c, step, step->node), other = pick_node(c, step, step->node2);

	command->node = node.ino;
	command->node2 = other.ino;
	if (g4_command_is(command->op, G4_TWO_HANDLES))
		command->handle2 = pick_handle(step, step->handle2);
	if ((step->text & TEXT_BARE) != 0)
		return;
	command->token = node.token;
	if (g4_command_is(command->op, G4_TWO_NODES))
		command->token2 = other.token;
	if (g4_command_is(command->op, G4_TWO_HANDLES) || command->op == G4_CMD_TRIM)
		return; /* they have something else in the place of the generations */
	command->generation = (uint32_t)node.generation;
	command->generation2 = (uint32_t)other.generation;
}

static void make_slot(struct client *c, const struct step *step, struct g4_ring_slot *slot)
{
	static const uint32_t ops = G4_COMMAND_COUNT + 1;
	uint8_t text[3 * 4097 + sizeof(struct g4_cred) + sizeof(struct g4_attr)];
	struct g4_ring_command *command = &slot->command;
	uint32_t bytes = 0;

	*slot = (struct g4_ring_slot){.command = {.op = step->op % ops,
						  .flags = step->flags,
						  .mode = step->mode,
						  .mask = step->mask,
						  .handle = pick_handle(step, step->handle),
						  .offset = step->offset,
						  .length = step->length,
						  .offset2 = step->arg,
						  .data = step->data,
						  .umask = step->cred & 1 ? 0777u : c->session.cred.umask,
						  .wants_attr = step->text >> 3 & 1}};
	name_nodes(c, step, command);
	command->cred_bytes = append_cred(text, &bytes, step->cred >> 1 & 3);
	command->walk_flags = (uint16_t)(step->walk >> 16);
	command->walk_bytes = step->walk & 0xffff ? append_name(text, &bytes, (step->walk & 0xffff) - 1) : 0;
	command->name_bytes = append_name(text, &bytes, step->name);
	command->name2_bytes = append_name(text, &bytes, step->name2);
	if (g4_command_is(command->op, G4_ATTR_IN))
		command->attr_bytes = append_attr(text, &bytes, step);
	place_text(c, step, slot, text, bytes);
	if (command->op == G4_CMD_SETXATTR && strstr(names[step->name % NAMES], "acl") != NULL)
		place_acl(c, step);
	if (command->op == G4_CMD_BATCH)
		place_batch(c, step, command);
	const uint32_t patch_at = step->patch_at % sizeof(*slot);
	memcpy((uint8_t *)slot + patch_at, &step->patch, g4_min64(step->patch_bytes % 9, sizeof(*slot) - patch_at));
}

static uint32_t tail_of(const struct client *c)
{
	return ((const struct g4_ring_header *)c->session.ring)->tail;
}

static void post(struct client *c, const struct step *step)
{
	const uint32_t number = tail_of(c) + 1;
	struct g4_ring_slot slot;

	make_slot(c, step, &slot);
	fill_slot(c, number, &slot);
	c->step_of[number % ENTRIES] = *step;
	set_tail(c, number);
}

static void serve_all(struct client *c)
{
	while (serve_one(c))
		;
}

/* A well-behaved client: its status, and what the command returned. */
static int ask(struct client *c, struct g4_ring_slot *slot, uint64_t *value)
{
	const uint32_t number = tail_of(c) + 1;

	slot->command.umask = c->session.cred.umask;
	slot->command.text_at = G4_RING_TEXT_INLINE;
	fill_slot(c, number, slot);
	set_tail(c, number);
	serve_all(c);
	const uint64_t word = g4_ring_result_of(c->session.ring, ENTRIES, number)->word;
	const int32_t small = (int32_t)(word >> 32);
	*value = (word & G4_RING_WORD_FULL) != 0 ? taken_handle : small < 0 ? 0 : (uint64_t)small;
	return small < 0 ? small : 0;
}

static uint64_t kept_handle;

static void open_kept(void)
{
	const struct node *node = &nodes[NODE_KEPT];
	struct g4_ring_slot slot = {
		.command = {.op = G4_CMD_OPEN,
			    .node = node->ino,
			    .generation = (uint32_t)node->generation,
			    .token = g4_session_token(&neighbour.session, node->ino, node->generation),
			    .flags = G4_OPEN_READ | G4_OPEN_WRITE}};

	fuzz_expect(ask(&neighbour, &slot, &kept_handle) == 0, "the neighbour opens its file", NULL);
}

static void check_kept(uint32_t page)
{
	struct g4_ring_slot slot = {.command = {.op = G4_CMD_READ,
						.handle = kept_handle,
						.offset = page * G4_PAGE_BYTES,
						.length = G4_PAGE_BYTES}};
	uint8_t wanted[G4_PAGE_BYTES];
	uint64_t value;

	kept_page(page, wanted);
	fuzz_expect(ask(&neighbour, &slot, &value) == 0 && value == G4_PAGE_BYTES &&
			    memcmp(neighbour.session.data, wanted, G4_PAGE_BYTES) == 0,
		    "the neighbour's file is as it left it", NULL);
}

static void write_kept(uint32_t page)
{
	struct g4_ring_slot slot = {.command = {.op = G4_CMD_WRITE,
						.handle = kept_handle,
						.offset = page * G4_PAGE_BYTES,
						.length = G4_PAGE_BYTES}};
	uint8_t bytes[G4_PAGE_BYTES];
	uint64_t value;

	versions[page]++;
	kept_page(page, bytes);
	poke(&neighbour, false, 0, bytes, sizeof(bytes));
	const int rc = ask(&neighbour, &slot, &value);
	if (rc == -G4_E_NOSPC) { /* what is written goes to new space, and somebody took it all */
		versions[page]--;
		return;
	}
	fuzz_expect(rc == 0 && value == G4_PAGE_BYTES, "the neighbour writes its file", NULL);
}

static void sharing_turn(const struct step *step)
{
	struct g4_ring_slot sync = {.command = {.op = G4_CMD_SYNCFS}};
	uint64_t value;

	if (root_was_here)
		return;
	if (step->op % 4 == 0)
		write_kept((uint32_t)(step->offset % KEPT_PAGES));
	else if (step->op % 4 == 1)
		fuzz_expect(ask(&neighbour, &sync, &value) == 0, "the neighbour writes everything", NULL);
	else
		check_kept((uint32_t)(step->offset % KEPT_PAGES));
}

static void come_again(const struct step *step)
{
	const struct g4_cred root = {.uid = 0, .umask = 022};
	const bool as_root = (step->patch & 1) != 0;

	leave(&hostile);
	enter(&hostile, as_root ? &root : &hostile_cred, as_root ? G4_SESSION_MAY_ACT : 0);
	root_was_here |= as_root;
	memset(handles, 0, sizeof(handles));
}

/* True when this input ends in a crash. */
static bool take_step(const struct step *step)
{
	switch ((enum kind)(step->kind % KINDS)) {
	case COMMAND:
		post(&hostile, step);
		serve_all(&hostile);
		break;
	case QUEUE:
		post(&hostile, step);
		break;
	case SET_RING:
		poke(&hostile, true, step->data, &step->patch, sizeof(step->patch));
		break;
	case SET_DATA:
		for (uint32_t k = 0; k < 1 + step->mode % 512u; k++)
			poke(&hostile, false, step->data + 8 * k, &step->patch, sizeof(step->patch));
		break;
	case SET_TAIL:
		set_tail(&hostile, tail_of(&hostile) + (uint32_t)step->patch);
		serve_all(&hostile);
		break;
	case NEIGHBOUR:
		sharing_turn(step);
		break;
	case LEAVE:
		come_again(step);
		break;
	case CRASH:
		return true;
	case KINDS:
		break;
	}
	if (hostile.session.broken) /* the connection ends */
		come_again(&(struct step){.patch = 0});
	return false;
}

/* ------------------------------------------------------------------ inputs */

static void begin(void)
{
	fuzz_restore(&base);
	memset(versions, 0, sizeof(versions));
	memset(handles, 0, sizeof(handles));
	memset(nodes + KNOWN_NODES, 0, (NODES - KNOWN_NODES) * sizeof(nodes[0]));
	node_count = handle_count = commands = sessions = 0;
	root_was_here = false;
	fuzz_expect(world_mount(&base.work) == 0, "the image can be mounted", NULL);
	enter(&hostile, &hostile_cred, 0);
	enter(&neighbour, &neighbour_cred, 0);
	open_kept();
}

/* In the directory that everybody may write, or that itself, on which everybody may set attributes. */
static bool is_public(const struct world_file *file)
{
	return strcmp(file->path, "public") == 0 || strncmp(file->path, "public/", 7) == 0;
}

static void compare_others(void)
{
	struct world_list list;
	uint32_t others = 0, found = 0;

	world_list(&base.work, &list);
	fuzz_expect(list.errors == 0, "everything can be read", NULL);
	for (uint32_t i = 0; i < list.count; i++)
		others += !is_public(&list.files[i]);
	for (uint32_t i = 0; i < oracle.count; i++) {
		const struct world_file *was = &oracle.files[i], *is = NULL;
		if (is_public(was))
			continue;
		for (uint32_t k = 0; k < list.count && is == NULL; k++)
			if (strcmp(list.files[k].path, was->path) == 0)
				is = &list.files[k];
		fuzz_expect(is != NULL, "nobody else's file goes away", was->path);
		fuzz_expect(is->ino == was->ino && is->mode == was->mode && is->size == was->size &&
				    is->attributes == was->attributes &&
				    (is->contents == was->contents || was->ino == nodes[NODE_KEPT].ino),
			    "nobody else's file changes", was->path);
		found++;
	}
	fuzz_expect(others == found, "nothing is made where it is not permitted", NULL);
	world_list_free(&list);
}

static void end(bool crash)
{
	struct g4_fs *fs = base.work.fs;
	char *text = NULL;

	for (uint32_t page = 0; page < KEPT_PAGES && !root_was_here; page++)
		check_kept(page);
	leave(&hostile);
	leave(&neighbour);
	for (uint32_t i = 0; i < fs->icache.count; i++)
		fuzz_expect(g4_icache_at(fs, i)->opens == 0, "no file is open when all clients have left", NULL);
	if (!root_was_here)
		compare_others();
	fuzz_expect(world_unmount(&base.work, !crash) == 0, "everything can be written", NULL);
	fuzz_expect(fuzz_check(&base, &text) == 0, "the image is clean", text);
	free(text);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_open_image(&base, IMAGE_BYTES);
	make_theirs();
	make_public();
	fuzz_expect(world_unmount(&base.rig, true) == 0, "the image can be made", NULL);
	fuzz_finish_base(&base);
	learn();
	make_client(&hostile);
	make_client(&neighbour);
	for (uint32_t i = 0; i < DEPTHS; i++) {
		desks[i].wg = g4_wg_create(1 + i);
		desks[i].stage = allocate(sizeof(*desks[i].stage));
		desks[i].stage->text = allocate(G4_RING_MAX_TEXT);
		desks[i].stage->data = allocate(G4_SESSION_STAGE_BYTES);
		if (desks[i].wg == NULL)
			abort();
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool crash = false;

	begin();
	for (size_t at = 0; at + sizeof(struct step) <= size && at < MOST_STEPS * sizeof(struct step);
	     at += sizeof(struct step)) {
		struct step step;
		memcpy(&step, data + at, sizeof(step));
		crash |= take_step(&step);
	}
	end(crash);
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return fuzz_image_sum(&base);
}

/* ------------------------------------------------------------------ mutating */

static uint64_t some_number(uint64_t *seed)
{
	static const uint64_t values[] = {
		0, 1, 7, 60, 100, 4095, 4096, 5000, 8192, 65536, MOVING_BYTES, DATA_BYTES - 8, DATA_BYTES, G4_MIB};
	const uint64_t choice = rig_random(seed) % 24;

	return choice < sizeof(values) / sizeof(values[0]) ? values[choice] : fuzz_interesting(seed);
}

static uint32_t some_flags(uint64_t *seed)
{
	switch (rig_random(seed) % 4) {
	case 0:
		return G4_OPEN_READ | G4_OPEN_WRITE;
	case 1:
		return (G4_OPEN_READ | G4_OPEN_WRITE) ^ 1u << rig_random(seed) % 12;
	case 2:
		return (uint32_t)(rig_random(seed) % 8);
	default:
		return (uint32_t)fuzz_interesting(seed);
	}
}

static uint16_t some_mode(uint64_t *seed)
{
	static const uint16_t modes[] = {S_IFREG | 0644, S_IFREG | 0600, 0755,		 0777,		 0644, 0,
					 S_IFIFO | 0600, S_IFDIR | 0700, S_IFCHR | 0600, S_IFREG | 06777};
	const uint64_t choice = rig_random(seed) % 12;

	return choice < sizeof(modes) / sizeof(modes[0]) ? modes[choice] : (uint16_t)rig_random(seed);
}

static void change_field(uint64_t *seed, struct step *step, uint64_t field)
{
	static const uint8_t kinds[] = {COMMAND,   COMMAND,  COMMAND,  COMMAND,	 COMMAND, COMMAND,
					COMMAND,   COMMAND,  COMMAND,  QUEUE,	 QUEUE,	  QUEUE,
					NEIGHBOUR, SET_RING, SET_DATA, SET_TAIL, LEAVE,	  CRASH};
	const uint8_t any = (uint8_t)rig_random(seed);

	switch (field % 17) {
	case 0:
		step->kind = kinds[any % sizeof(kinds)];
		break;
	case 1:
		step->op = any % G4_COMMAND_COUNT;
		break;
	case 2:
		step->node = any;
		break;
	case 3:
		step->node2 = any;
		break;
	case 4:
		step->handle = any % 3 ? any % 4 : any;
		break;
	case 5:
		step->handle2 = any % 3 ? any % 4 : any;
		break;
	case 6:
		step->name = any;
		break;
	case 7:
		step->name2 = any;
		break;
	case 8:
		step->flags = some_flags(seed);
		break;
	case 9:
		step->mask = (uint32_t)(any % 3 ? 1u << any % 11 : rig_random(seed) % 2048);
		break;
	case 10:
		step->mode = some_mode(seed);
		break;
	case 11:
		step->cred = any % 3 ? 0 : any;
		step->text = any % 2 ? 8 : (uint8_t)rig_random(seed);
		break;
	case 12:
		step->data = (uint32_t)some_number(seed);
		break;
	case 13:
		step->offset = some_number(seed);
		break;
	case 14:
		step->length = some_number(seed);
		break;
	case 15:
		step->hook = any % 2 ? 0 : any / 2 % 16;
		break;
	default:
		step->arg = some_number(seed);
		step->patch = fuzz_interesting(seed);
		step->patch_at = (uint16_t)(rig_random(seed) % 128);
		step->patch_bytes = any % 4 ? 0 : any % 9;
		break;
	}
}

static void new_step(uint64_t *seed, struct step *step)
{
	memset(step, 0, sizeof(*step));
	for (uint64_t field = 0; field < 17; field++)
		change_field(seed, step, field);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed_value)
{
	uint64_t seed = seed_value;
	struct step steps[MOST_STEPS];
	size_t count = g4_min64(size / sizeof(steps[0]), MOST_STEPS);
	const size_t most = g4_min64(room / sizeof(steps[0]), MOST_STEPS);

	if (most == 0)
		return size;
	memcpy(steps, data, count * sizeof(steps[0]));
	const size_t at = count == 0 ? 0 : rig_random(&seed) % count;
	const uint64_t choice = rig_random(&seed) % 16;
	if (count > 1 && choice == 0) {
		memmove(&steps[at], &steps[at + 1], (--count - at) * sizeof(steps[0]));
	} else if (count == 0 || (count < most && choice < 6)) {
		memmove(&steps[at + 1], &steps[at], (count++ - at) * sizeof(steps[0]));
		if (choice > 1 || count == 1)
			new_step(&seed, &steps[at]);
	} else if (choice == 6) {
		LLVMFuzzerMutate((uint8_t *)&steps[at], sizeof(steps[0]), sizeof(steps[0]));
	} else {
		for (uint64_t times = 1 + rig_random(&seed) % 3; times > 0; times--)
			change_field(&seed, &steps[at], rig_random(&seed));
	}
	memcpy(data, steps, count * sizeof(steps[0]));
	return count * sizeof(steps[0]);
}

/* The beginning of one input and the end of another. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
				 size_t room, unsigned int seed_value)
{
	uint64_t seed = seed_value;
	const size_t step = sizeof(struct step);
	const size_t head = rig_random(&seed) % (a_size / step + 1) * step;
	const size_t skip = rig_random(&seed) % (b_size / step + 1) * step;
	const size_t tail = (b_size - skip) / step * step;

	if (head + tail > room)
		return 0;
	memcpy(out, a, head);
	memcpy(out + head, b + skip, tail);
	return head + tail;
}
