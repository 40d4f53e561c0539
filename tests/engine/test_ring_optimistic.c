/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups, which a ring's engine may answer in a way of its own (ring/optimistic.h): as without a ring, for everybody, also while
 * names change.
 */
#include <fcntl.h>
#include <sched.h>

#include "client/client.h"
#include "rig.h"
#include "ring/client_host.h"
#include "ring/execute.h"
#include "untrusted.h"

static struct g4_engine *engine;

static int setup(void **state)
{
	int rc = api_setup(state);

	engine = fs->mount->engine;
	return rc;
}

/* ------------------------------------------------------------------ lookups: the same as without a ring */

static const char image[] = "ring.lookups.img";

static int setup_image(void **state)
{
	(void)state;
	api_image(image, 64 * G4_MIB);
	fs = api_mount(image, true);
	engine = fs->mount->engine;
	return 0;
}

static int teardown_image(void **state)
{
	int rc = api_teardown(state);

	unlink(image);
	return rc;
}

/* No name is cached behind this. */
static void mount_again(void)
{
	ok(api_unmount(fs));
	fs = api_mount(image, false);
	engine = fs->mount->engine;
}

#define image_test(f) cmocka_unit_test_setup_teardown(f, setup_image, teardown_image)

/* A client, and who it is. */
struct asker {
	struct untrusted s;
	struct g4_cred cred;
};

static void asker_enter(struct asker *a, uint32_t uid, uint32_t gid, uint32_t group)
{
	struct g4_session_options options = somebody;

	options.cred =
		(struct g4_cred){.uid = uid, .gid = gid, .umask = 022, .group_count = group != 0, .groups = {group}};
	a->cred = options.cred;
	untrusted_enter(&a->s, &options);
}

/* By the modification time it is known whether an answer is about the right inode. Half of them are before 1970. */
static uint64_t mark_of(uint32_t id)
{
	const int64_t ns = (int64_t)id * 1000000007;

	return (uint64_t)(id % 2 ? ns : -ns);
}

static void mark(const char *path, uint32_t id)
{
	const int64_t ns = (int64_t)mark_of(id), second = 1000000000;
	const int64_t seconds = ns / second - (ns % second < 0);
	const struct timespec time = {.tv_sec = seconds, .tv_nsec = ns - seconds * second};
	const struct timespec times[2] = {time, time};

	ok(gpu4fs_utimens(fs, NULL, path, times, AT_SYMLINK_NOFOLLOW));
}

struct question {
	uint32_t op;
	uint32_t flags;
	const char *text;
	const struct g4_attr *from; /* directory that it begins in; NULL: the root */
	int status;
	uint32_t id; /* of what is found */
};

static struct g4_ring_slot slot_asking(struct untrusted *s, const struct question *q)
{
	const size_t bytes = strlen(q->text);
	struct g4_ring_slot slot = slot_of(q->op, NULL);

	memset(slot.text, 'x', sizeof(slot.text)); /* what is behind the text is no part of it */
	slot.command.flags = q->flags;
	slot.command.name_bytes = (uint16_t)bytes;
	if (bytes > G4_RING_TEXT_BYTES)
		slot.command.text_at = 4096;
	memcpy(bytes > G4_RING_TEXT_BYTES ? s->data + 4096 : slot.text, q->text, bytes);
	if (q->from) {
		slot.command.node = q->from->ino;
		slot.command.generation = (uint32_t)q->from->generation;
		slot.command.token = q->from->token;
	}
	return slot;
}

/* One command; its status, and what else there was, if there was. Others are let at the processor meanwhile. */
static int ask(struct untrusted *s, const struct g4_ring_slot *slot, struct g4_ring_result *taken)
{
	const uint32_t number = s->next;
	const struct g4_ring_result *result = g4_ring_result_of(s->ring, s->header->entries, number);

	untrusted_post(s, slot);
	while ((g4_load64_acq(&result->word) & G4_RING_NUMBER_MASK) != number)
		sched_yield();
	return untrusted_take(s, number, taken);
}

static int ask_without_ring(const struct asker *a, const struct question *q, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.op = q->op,
			     .flags = q->flags,
			     .node = q->from ? q->from->ino : G4_NODE_ROOT,
			     .generation = q->from ? (uint32_t)q->from->generation : 0,
			     .name = q->text,
			     .name_bytes = (uint16_t)strlen(q->text),
			     .attr = attr,
			     .cred = &a->cred};

	return g4_engine_execute(engine, &cmd);
}

static struct g4_attr attributes_by_number(uint64_t ino)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};

	ok(g4_engine_execute(engine, &cmd));
	return attr;
}

static void agree(const struct question *q, bool yes, const char *about)
{
	if (yes)
		return;
	print_error("%s: %s %.300s, flags %u\n", about, q->op == G4_CMD_LOOKUP ? "lookup" : "resolve", q->text,
		    q->flags);
	fail();
}

/* The answer through the ring is the right one, and the one that there is without a ring. */
static struct g4_attr check(struct asker *a, const struct question *q)
{
	struct g4_ring_slot slot = slot_asking(&a->s, q);
	struct g4_ring_result taken;
	struct g4_attr attr = {0};

	const int bare = ask(&a->s, &slot, &taken);
	agree(q, taken.tops == 0, "attributes that nobody wanted");
	slot.command.wants_attr = 1;
	const int full = ask(&a->s, &slot, &taken);
	struct g4_attr got = taken.attr;
	if (full != q->status)
		print_error("%s, not %s\n", g4_strerror(full), g4_strerror(q->status));
	agree(q, full == q->status, "status");
	agree(q, bare == full, "status without attributes");
	agree(q, ask_without_ring(a, q, &attr) == full, "status without a ring");
	agree(q, !(taken.tops & G4_RING_HAS_ATTR) == (full != 0), "attributes");
	if (full != 0)
		return got;
	agree(q, got.mtime_ns == mark_of(q->id) && got.atime_ns == got.mtime_ns, "which inode");
	agree(q, got.token != 0, "seal");
	got.token = 0;
	agree(q, memcmp(&got, &attr, sizeof(attr)) == 0, "attributes without a ring");
	attr = attributes_by_number(got.ino);
	agree(q, memcmp(&got, &attr, sizeof(attr)) == 0, "attributes by number");
	return taken.attr;
}

static struct g4_attr check_path(struct asker *a, const char *path, uint32_t flags, int status, uint32_t id)
{
	const struct question q = {.op = G4_CMD_RESOLVE, .flags = flags, .text = path, .status = status, .id = id};

	return check(a, &q);
}

static void check_from(struct asker *a, const struct g4_attr *from, const char *name, int status, uint32_t id)
{
	struct question q = {.op = G4_CMD_LOOKUP, .text = name, .from = from, .status = status, .id = id};

	check(a, &q);
	q.op = G4_CMD_RESOLVE;
	check(a, &q);
}

/* ---- paths ---- */

#define DEEPEST 18u /* a workgroup walks 16 names at most */
#define DEEP_DIR 100u
#define DEEP_FILE 200u
#define SHORT_FILE 300u
#define SHORT_DIR 350u
#define LONGEST_SHORT 34u /* and some that no cache has room for */
static const uint32_t long_bytes[] = {128, 129, 255};
#define NAMES (LONGEST_SHORT + sizeof(long_bytes) / sizeof(long_bytes[0]))

static uint32_t name_bytes(uint32_t i)
{
	return i < LONGEST_SHORT ? i + 1 : long_bytes[i - LONGEST_SHORT];
}

/* So many directories, and a file in the last one unless it is NULL. None is called as a file, f. */
static void deep_path(char *path, uint32_t directories, const char *file)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < directories; i++)
		at += (uint32_t)sprintf(path + at, "%s%c", i ? "/" : "", "abcdeghijklmnopqrs"[i]);
	if (file)
		sprintf(path + at, "%s%s", at ? "/" : "", file);
}

static void long_name(char *path, char letter, uint32_t bytes, const char *then)
{
	memset(path, letter, bytes);
	strcpy(path + bytes, then);
}

static void make_tree(void)
{
	char path[512];

	for (uint32_t k = 1; k <= DEEPEST; k++) {
		deep_path(path, k - 1, "f");
		api_write_pattern(path, k, 10 * k);
		deep_path(path, k, NULL);
		ok(gpu4fs_mkdir(fs, NULL, path, 0755));
	}
	for (uint32_t i = 0; i < NAMES; i++) {
		long_name(path, 'x', name_bytes(i), "");
		ok(gpu4fs_mkdir(fs, NULL, path, 0751));
		long_name(path, 'x', name_bytes(i), "/x");
		api_touch(path, 0604);
	}
	ok(gpu4fs_symlink(fs, "a/b", NULL, "to_dir"));
	ok(gpu4fs_symlink(fs, "/a/f", NULL, "to_file"));
	ok(gpu4fs_symlink(fs, "../../f", NULL, "a/b/up"));
	ok(gpu4fs_symlink(fs, "nowhere", NULL, "dangling"));
	ok(gpu4fs_symlink(fs, "loop", NULL, "loop"));
	/* from below to above: making a name changes the directory's time */
	for (uint32_t k = DEEPEST; k > 0; k--) {
		deep_path(path, k - 1, "f");
		mark(path, DEEP_FILE + k);
		deep_path(path, k, NULL);
		mark(path, DEEP_DIR + k);
	}
	for (uint32_t i = 0; i < NAMES; i++) {
		long_name(path, 'x', name_bytes(i), "/x");
		mark(path, SHORT_FILE + i);
		long_name(path, 'x', name_bytes(i), "");
		mark(path, SHORT_DIR + i);
	}
	mark("to_dir", 1);
	mark("to_file", 2);
	mark("a/b/up", 3);
	mark("dangling", 4);
	mark("loop", 5);
	mark("/", 6);
	ok(gpu4fs_syncfs(fs)); /* a small file moves into its inode then: blocks and change counts are others */
}

#define NOFOLLOW G4_RESOLVE_NOFOLLOW
static const struct {
	const char *path;
	uint32_t flags;
	int status;
	uint32_t id;
} paths[] = {
	{"/", 0, 0, 6},
	{"///", 0, 0, 6},
	{".", 0, 0, 6},
	{"..", 0, 0, 6},
	{"/a", 0, 0, DEEP_DIR + 1},
	{"a/", 0, 0, DEEP_DIR + 1},
	{"//a", 0, 0, DEEP_DIR + 1},
	{"a//b///f", 0, 0, DEEP_FILE + 3},
	{"/a/b//", 0, 0, DEEP_DIR + 2},
	{"a/./b/f", 0, 0, DEEP_FILE + 3},
	{"./a/b/f", 0, 0, DEEP_FILE + 3},
	{"a/b/.", 0, 0, DEEP_DIR + 2},
	{"a/b/..", 0, 0, DEEP_DIR + 1},
	{"a/b/../f", 0, 0, DEEP_FILE + 2},
	{"../f", 0, 0, DEEP_FILE + 1},
	{"f", NOFOLLOW, 0, DEEP_FILE + 1},
	{"f/", 0, -G4_E_NOTDIR, 0},
	{"f/f", 0, -G4_E_NOTDIR, 0},
	{"a/f/.", 0, -G4_E_NOTDIR, 0},
	{"...", 0, -G4_E_NOENT, 0},
	{".a", 0, -G4_E_NOENT, 0},
	{"a.", 0, -G4_E_NOENT, 0},
	{"", 0, -G4_E_NOENT, 0},
	{"none", 0, -G4_E_NOENT, 0},
	{"none/f", 0, -G4_E_NOENT, 0},
	{"a/none", 0, -G4_E_NOENT, 0},
	{"a/none/f", NOFOLLOW, -G4_E_NOENT, 0},
	{"a/b/none/", 0, -G4_E_NOENT, 0},
	{"to_dir", 0, 0, DEEP_DIR + 2},
	{"to_dir", NOFOLLOW, 0, 1},
	{"to_dir/", 0, 0, DEEP_DIR + 2},
	{"to_dir/", NOFOLLOW, 0, DEEP_DIR + 2},
	{"to_dir/f", 0, 0, DEEP_FILE + 3},
	{"to_dir/f", NOFOLLOW, 0, DEEP_FILE + 3},
	{"to_dir/..", 0, 0, DEEP_DIR + 1},
	{"to_dir/none", 0, -G4_E_NOENT, 0},
	{"to_file", 0, 0, DEEP_FILE + 2},
	{"to_file", NOFOLLOW, 0, 2},
	{"to_file/", 0, -G4_E_NOTDIR, 0},
	{"to_file/f", 0, -G4_E_NOTDIR, 0},
	{"a/b/up", 0, 0, DEEP_FILE + 1},
	{"a/b/up", NOFOLLOW, 0, 3},
	{"to_dir/up", 0, 0, DEEP_FILE + 1},
	{"to_dir/up", NOFOLLOW, 0, 3},
	{"dangling", 0, -G4_E_NOENT, 0},
	{"dangling", NOFOLLOW, 0, 4},
	{"dangling/f", NOFOLLOW, -G4_E_NOENT, 0},
	{"loop", 0, -G4_E_LOOP, 0},
	{"loop", NOFOLLOW, 0, 5},
	{"loop/f", 0, -G4_E_LOOP, 0},
};

static void ask_paths(struct asker *a)
{
	char path[512];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		check_path(a, paths[i].path, paths[i].flags, paths[i].status, paths[i].id);
	for (uint32_t k = 1; k <= DEEPEST; k++) {
		deep_path(path, k - 1, "f");
		check_path(a, path, 0, 0, DEEP_FILE + k);
		deep_path(path, k - 1, "none");
		check_path(a, path, 0, -G4_E_NOENT, 0);
		deep_path(path, k, NULL);
		check_path(a, path, NOFOLLOW, 0, DEEP_DIR + k);
	}
	for (uint32_t i = 0; i < NAMES; i++) {
		for (uint32_t at = 0; at < 8; at++) { /* wherever in a word it begins */
			memset(path, '/', at);
			long_name(path + at, 'x', name_bytes(i), "/x");
			check_path(a, path, 0, 0, SHORT_FILE + i);
			long_name(path + at, 'x', name_bytes(i), "");
			check_path(a, path, 0, 0, SHORT_DIR + i);
		}
		long_name(path, 'x', name_bytes(i), "");
		check_path(a, path, 0, 0, SHORT_DIR + i);
		check_from(a, NULL, path, 0, SHORT_DIR + i);
		path[name_bytes(i) - 1] = 'z';
		check_from(a, NULL, path, -G4_E_NOENT, 0);
	}
	long_name(path, 'x', 256, "");
	check_from(a, NULL, path, -G4_E_NAMETOOLONG, 0);
}

/* From a directory on, which the client names by what it was told. */
static void ask_names(struct asker *a)
{
	const struct g4_attr dir = check_path(a, "a/b", 0, 0, DEEP_DIR + 2);
	const struct g4_attr file = check_path(a, "a/f", 0, 0, DEEP_FILE + 2);
	const struct question up = {.op = G4_CMD_RESOLVE, .text = "/a/f", .from = &dir, .id = DEEP_FILE + 2};
	const struct question link = {.op = G4_CMD_LOOKUP, .text = "up", .from = &dir, .id = 3};
	struct question forged = {.op = G4_CMD_LOOKUP, .text = "f"};
	struct g4_ring_result taken;
	struct g4_attr other = dir;

	check_from(a, &dir, "f", 0, DEEP_FILE + 3);
	check_from(a, &dir, "c", 0, DEEP_DIR + 3);
	check_from(a, &dir, "none", -G4_E_NOENT, 0);
	check_from(a, &dir, "..", 0, DEEP_DIR + 1);
	check_from(a, &dir, ".", 0, DEEP_DIR + 2);
	check_from(a, &file, "f", -G4_E_NOTDIR, 0);
	check(a, &up);
	check(a, &link);
	other.token ^= 1;
	forged.from = &other;
	for (uint32_t attr = 0; attr < 2; attr++) {
		struct g4_ring_slot slot = slot_asking(&a->s, &forged);
		slot.command.wants_attr = attr;
		assert_int_equal(ask(&a->s, &slot, &taken), -G4_E_STALE);
	}
}

static void paths_up_to_the_longest_are_found(void **state)
{
	static char path[8192];
	struct asker a;

	(void)state;
	make_tree();
	asker_enter(&a, 0, 0, 0);
	for (uint32_t bytes = 120; bytes <= 4096; bytes += bytes < 140 ? 1 : bytes < 4080 ? 197 : 1) {
		/* a/////...f, and a/./././f */
		memset(path, '/', bytes);
		path[0] = 'a';
		path[bytes - 1] = 'f';
		path[bytes] = 0;
		check_path(&a, path, 0, bytes < 4096 ? 0 : -G4_E_NAMETOOLONG, DEEP_FILE + 2);
		for (uint32_t i = 2; i + 2 < bytes; i += 2)
			path[i] = '.';
		check_path(&a, path, 0, bytes < 4096 ? 0 : -G4_E_NAMETOOLONG, DEEP_FILE + 2);
	}
	untrusted_leave(&a.s);
}

static void a_lookup_gives_what_it_gives_without_a_ring(void **state)
{
	struct asker root, other;

	(void)state;
	make_tree();
	for (uint32_t round = 0; round < 2; round++) {
		mount_again();
		asker_enter(round ? &other : &root, round ? 1000 : 0, round ? 1000 : 0, 0);
		for (uint32_t again = 0; again < 3; again++) { /* what is cached grows */
			ask_paths(round ? &other : &root);
			ask_names(round ? &other : &root);
		}
		untrusted_leave(round ? &other.s : &root.s);
	}
}

/* ---- permissions ---- */

struct acl {
	uint32_t version;
	struct {
		uint16_t tag, permissions;
		uint32_t id;
	} entries[5];
};

enum who { ROOT, OWNER, IN_GROUP, MEMBER, LISTED, NOBODY, WHOS };
static const struct {
	const char *dir;
	uint32_t mode;
	uint32_t mine; /* bits of who may look names up in it */
} doors[] = {
	{"open", 0711, 1 << ROOT | 1 << OWNER | 1 << IN_GROUP | 1 << MEMBER | 1 << LISTED | 1 << NOBODY},
	{"readable", 0744, 1 << ROOT | 1 << OWNER},
	{"owner", 0700, 1 << ROOT | 1 << OWNER},
	{"group", 0710, 1 << ROOT | 1 << OWNER | 1 << IN_GROUP | 1 << MEMBER},
	{"only group", 0010, 1 << ROOT | 1 << IN_GROUP | 1 << MEMBER},
	{"not group", 0701, 1 << ROOT | 1 << OWNER | 1 << LISTED | 1 << NOBODY},
	{"not owner", 0011, 1 << ROOT | 1 << IN_GROUP | 1 << MEMBER | 1 << LISTED | 1 << NOBODY},
	{"listed", 0700, 1 << ROOT | 1 << OWNER | 1 << LISTED},
	{"not listed", 0711, 1 << ROOT | 1 << OWNER | 1 << IN_GROUP | 1 << MEMBER | 1 << NOBODY},
	{"plain", 0700, 1 << ROOT | 1 << OWNER}, /* has attributes, and no list */
};
#define DOORS (sizeof(doors) / sizeof(doors[0]))

static void list(const char *dir, uint16_t owner, uint16_t listed, uint16_t others)
{
	const uint32_t any = UINT32_MAX;
	const struct acl acl = {
		2,
		{{0x01, owner, any}, {0x02, listed, 3000}, {0x04, others, any}, {0x10, 7, any}, {0x20, others, any}}};

	ok(gpu4fs_setxattr(fs, NULL, dir, "system.posix_acl_access", &acl, sizeof(acl), 0));
}

static void make_doors(void)
{
	char path[64];

	for (uint32_t i = 0; i < DOORS; i++) {
		ok(gpu4fs_mkdir(fs, NULL, doors[i].dir, 0700));
		snprintf(path, sizeof(path), "%s/room", doors[i].dir);
		ok(gpu4fs_mkdir(fs, NULL, path, 0755));
		snprintf(path, sizeof(path), "%s/room/f", doors[i].dir);
		api_touch(path, 0);
		mark(path, 2 * i);
		snprintf(path, sizeof(path), "%s/f", doors[i].dir);
		api_touch(path, 0);
		mark(path, 2 * i + 1);
		ok(gpu4fs_chown(fs, NULL, doors[i].dir, 1000, 2000, 0));
		ok(gpu4fs_chmod(fs, NULL, doors[i].dir, doors[i].mode));
		mark(doors[i].dir, 50 + i);
	}
	list("listed", 7, 1, 0);
	list("not listed", 7, 0, 1);
	ok(gpu4fs_setxattr(fs, NULL, "plain", "user.colour", "red", 3, 0));
}

static void ask_at_doors(struct asker *a, enum who who)
{
	char path[64];

	for (uint32_t i = 0; i < DOORS; i++) {
		const int status = doors[i].mine >> who & 1 ? 0 : -G4_E_ACCES;
		const struct g4_attr dir = check_path(a, doors[i].dir, 0, 0, 50 + i);

		snprintf(path, sizeof(path), "/%s/room/f", doors[i].dir);
		check_path(a, path, 0, status, 2 * i);
		snprintf(path, sizeof(path), "%s/f", doors[i].dir);
		check_path(a, path, NOFOLLOW, status, 2 * i + 1);
		snprintf(path, sizeof(path), "%s/none", doors[i].dir);
		check_path(a, path, 0, status ? status : -G4_E_NOENT, 0);
		check_from(a, &dir, "f", status, 2 * i + 1);
		check_from(a, &dir, "none", status ? status : -G4_E_NOENT, 0);
	}
}

static void a_lookup_passes_where_its_client_may(void **state)
{
	struct asker who[WHOS];

	(void)state;
	make_doors();
	for (uint32_t round = 0; round < WHOS; round++) {
		mount_again(); /* each is the first once */
		asker_enter(&who[ROOT], 0, 0, 0);
		asker_enter(&who[OWNER], 1000, 1, 0);
		asker_enter(&who[IN_GROUP], 4000, 4000, 2000);
		asker_enter(&who[MEMBER], 4001, 2000, 0);
		asker_enter(&who[LISTED], 3000, 3000, 0);
		asker_enter(&who[NOBODY], 5000, 5000, 5001);
		for (uint32_t k = 0; k < 2 * WHOS; k++)
			ask_at_doors(&who[(round + k) % WHOS], (round + k) % WHOS);
		for (uint32_t k = 0; k < WHOS; k++)
			untrusted_leave(&who[k].s);
	}
}

/* ------------------------------------------------------------------ lookups while names change */

/* What one thread changes, and others look at. */
enum scene { EXCHANGED, MOVED, REPLACED, REUSED, GUARDED, REPAINTED, SCENES };

#define LOOKS 5000u
#define LOOKS_SLOWLY 300u
#define CHANGES_A_LOOK 50u /* at most */

static struct stage {
	enum scene scene;
	uint32_t begun, done; /* changes */
	uint32_t looks;
	uint32_t lookers; /* who are not content yet */
	uint64_t painted;
} play;

/* All attributes of a file that say which one it is, so that halves of two are noticed. */
static void tag(const char *path, uint32_t tag)
{
	const struct timespec time = {.tv_sec = tag}, times[2] = {time, time};

	ok(gpu4fs_truncate(fs, NULL, path, tag));
	ok(gpu4fs_chown(fs, NULL, path, tag, tag, 0));
	ok(gpu4fs_utimens(fs, NULL, path, times, 0));
}

static bool has_tag(const struct g4_attr *attr, uint32_t tag)
{
	const uint64_t time = tag * UINT64_C(1000000000);

	return attr->size == tag && attr->uid == tag && attr->gid == tag && attr->atime_ns == time &&
	       attr->mtime_ns == time && attr->nlink == 1;
}

static void make_tagged(const char *path, uint32_t number)
{
	api_touch(path, 0644);
	tag(path, number);
}

static void move(const char *from, const char *to, uint32_t flags)
{
	ok(gpu4fs_rename(fs, NULL, from, NULL, to, flags));
}

/* All that a SETATTR changes is changed at once. */
static void paint(uint32_t k)
{
	struct g4_attr attr = {.mode = k % 2 ? 0600 : 0644, .uid = 10 + k % 2, .gid = 20 + k % 2};
	struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .node = play.painted, .attr = &attr};

	attr.atime_ns = attr.mtime_ns = k % 2 ? (uint64_t)-1 : 1;
	cmd.mask = G4_SET_MODE | G4_SET_UID | G4_SET_GID | G4_SET_ATIME | G4_SET_MTIME;
	ok(g4_engine_execute(engine, &cmd));
}

static bool is_painted(const struct g4_attr *attr, uint32_t k)
{
	return (attr->mode & 0777) == (k % 2 ? 0600 : 0644) && attr->uid == 10 + k % 2 && attr->gid == 20 + k % 2 &&
	       attr->mtime_ns == (k % 2 ? (uint64_t)-1 : 1) && attr->atime_ns == attr->mtime_ns;
}

static void set_the_stage(void)
{
	static const char *const dirs[] = {"t",	     "t/x",	"t/x/in",   "t/y",   "t/y/in",
					   "t/here", "t/there", "t/here/n", "t/door"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ok(gpu4fs_mkdir(fs, NULL, dirs[i], 0755));
	make_tagged("t/x/in/f", 1);
	make_tagged("t/y/in/f", 2);
	make_tagged("t/here/n/f", 3);
	make_tagged("t/now", 1000);
	make_tagged("t/a", 4);
	make_tagged("secret", 6);
	api_touch("t/painted", 0644);
	play.painted = api_lstat("t/painted").ino;
	paint(0);
}

/* To the state after k changes. */
static void change(enum scene scene, uint32_t k)
{
	switch (scene) {
	case EXCHANGED:
		move("t/x", "t/y", GPU4FS_RENAME_EXCHANGE);
		break;
	case MOVED:
		move(k % 2 ? "t/here/n" : "t/there/n", k % 2 ? "t/there/n" : "t/here/n", 0);
		break;
	case REPLACED:
		make_tagged("t/next", 1000 + k);
		move("t/next", "t/now", 0);
		break;
	case REUSED: /* the number of the one is soon the other's */
		ok(gpu4fs_unlink(fs, NULL, k % 2 ? "t/a" : "t/b"));
		make_tagged("t/new", k % 2 ? 5 : 4);
		move("t/new", k % 2 ? "t/b" : "t/a", 0);
		break;
	case GUARDED: /* nothing is in there while the door is open */
		ok(gpu4fs_chmod(fs, NULL, "t/door", 0700));
		move("secret", "t/door/secret", 0);
		move("t/door/secret", "secret", 0);
		ok(gpu4fs_chmod(fs, NULL, "t/door", 0755));
		break;
	default:
		paint(k);
	}
}

static void *change_names(void *argument)
{
	(void)argument;
	for (uint32_t k = 1; g4_load32_acq(&play.lookers) > 0; k++) {
		g4_store32_rel(&play.begun, k);
		change(play.scene, k);
		g4_store32_rel(&play.done, k);
		while (k / CHANGES_A_LOOK > g4_load32_acq(&play.looks) && g4_load32_acq(&play.lookers) > 0)
			sched_yield();
	}
	return NULL;
}

/* In each scene one of two names, and what it shows after k changes. */
static const char *const shown[SCENES][2] = {
	{"x/in/f", "y/in/f"}, {"here/n/f", "there/n/f"},      {"now", "now"},
	{"a", "b"},	      {"door/secret", "door/secret"}, {"painted", "painted"},
};

static bool is_true(enum scene scene, uint32_t which, uint32_t k, int status, const struct g4_attr *attr)
{
	switch (scene) {
	case EXCHANGED:
		return status == 0 && has_tag(attr, 1 + (k + which) % 2);
	case MOVED:
		return k % 2 == which ? status == 0 && has_tag(attr, 3) : status == -G4_E_NOENT;
	case REPLACED:
		return status == 0 && has_tag(attr, 1000 + k);
	case REUSED:
		return k % 2 == which ? status == 0 && has_tag(attr, 4 + which) : status == -G4_E_NOENT;
	case GUARDED:
		return status == -G4_E_NOENT;
	default:
		return status == 0 && is_painted(attr, k);
	}
}

/* What is true between two states of a scene, beside these. */
static bool is_between(enum scene scene, int status)
{
	return (scene == REUSED && status == -G4_E_NOENT) || (scene == GUARDED && status == -G4_E_ACCES);
}

struct looker {
	uint64_t seed;
	uint32_t looks, wrong;
	char what[256]; /* the first that was wrong */
};

static void look(struct looker *looker, struct untrusted *s, const struct g4_attr *top)
{
	const uint64_t random = api_random(&looker->seed);
	const uint32_t which = random & 1;
	struct question q = {.op = G4_CMD_RESOLVE, .text = shown[play.scene][which], .from = top};
	struct g4_ring_result taken;
	bool right = false;

	if ((random & 2) && !strchr(q.text, '/'))
		q.op = G4_CMD_LOOKUP;
	struct g4_ring_slot slot = slot_asking(s, &q);
	slot.command.wants_attr = 1;
	const uint32_t from = g4_load32_acq(&play.done);
	const int status = ask(s, &slot, &taken);
	const uint32_t to = g4_load32_acq(&play.begun);
	for (uint32_t k = from; k <= to && !right; k++)
		right = is_true(play.scene, which, k, status, &taken.attr);
	if (to > from)
		right |= is_between(play.scene, status);
	if (!right && looker->wrong++ == 0)
		snprintf(looker->what, sizeof(looker->what), "%s between %u and %u: %s, size %llu, uid %u, mtime %lld",
			 q.text, from, to, g4_strerror(status), (unsigned long long)taken.attr.size, taken.attr.uid,
			 (long long)taken.attr.mtime_ns);
}

static void *look_at_names(void *argument)
{
	struct looker *looker = argument;
	struct g4_ring_slot slot = slot_of(G4_CMD_RESOLVE, "/t");
	struct untrusted s;

	slot.command.wants_attr = 1;
	untrusted_enter(&s, &somebody);
	const struct g4_attr top = untrusted_ask(&s, &slot).attr;
	while (g4_load32_acq(&play.done) == 0)
		sched_yield();
	for (uint32_t i = 0; i < looker->looks; i++) {
		look(looker, &s, &top);
		g4_add32(&play.looks, 1);
	}
	g4_sub32(&play.lookers, 1);
	untrusted_leave(&s);
	return NULL;
}

/* Each scene is played until enough was seen of it. */
static void a_lookup_tells_what_was_true_at_some_moment(void **state)
{
	enum { LOOKERS = 2 };
	struct looker lookers[LOOKERS] = {{.seed = 1}, {.seed = 2}};
	pthread_t threads[LOOKERS], changer;

	(void)state;
	set_the_stage();
	for (uint32_t scene = 0; scene < SCENES; scene++) {
		play.scene = (enum scene)scene;
		play.begun = play.done = play.looks = 0;
		play.lookers = LOOKERS;
		for (int i = 0; i < LOOKERS; i++) {
			lookers[i].looks = rig_slow() ? LOOKS_SLOWLY : LOOKS;
			ok(pthread_create(&threads[i], NULL, look_at_names, &lookers[i]));
		}
		ok(pthread_create(&changer, NULL, change_names, NULL));
		for (int i = 0; i < LOOKERS; i++)
			ok(pthread_join(threads[i], NULL));
		ok(pthread_join(changer, NULL));
		for (int i = 0; i < LOOKERS; i++) {
			if (lookers[i].wrong)
				print_error("%u of %u answers were never true: %s\n", lookers[i].wrong,
					    lookers[i].looks, lookers[i].what);
			assert_int_equal(lookers[i].wrong, 0);
		}
	}
}

/* ------------------------------------------------------------------ trails */

static struct g4_trail trail_by_ring(struct asker *a, const char *path, uint32_t flags, int wanted)
{
	const struct question q = {.op = G4_CMD_RESOLVE, .flags = flags | G4_LOOK_TRAIL, .text = path};
	struct g4_ring_slot slot = slot_asking(&a->s, &q);
	const struct g4_trail none = {0};
	const struct g4_attr no_attr = {0};
	struct g4_ring_result taken;

	slot.command.wants_attr = 1;
	agree(&q, ask(&a->s, &slot, &taken) == wanted, "status");
	agree(&q, !(taken.tops & G4_RING_HAS_ATTR) == (wanted != 0), "attributes");
	agree(&q, !(taken.tops & G4_RING_HAS_TRAIL) == (taken.trail.count == 0), "trail");
	if (wanted != 0 && (taken.tops & G4_RING_HAS_TRAIL)) /* nothing of what was on the way */
		assert_memory_equal(&taken.attr, &no_attr, sizeof(no_attr));
	return taken.tops & G4_RING_HAS_TRAIL ? taken.trail : none;
}

static struct g4_trail trail_without_ring(const struct asker *a, const char *path, int wanted)
{
	struct g4_trail trail = {0};
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE,
			     .flags = G4_LOOK_TRAIL,
			     .node = G4_NODE_ROOT,
			     .name = path,
			     .name_bytes = (uint16_t)strlen(path),
			     .data = &trail,
			     .attr = &attr,
			     .cred = &a->cred};

	assert_int_equal(g4_engine_execute(engine, &cmd), wanted);
	return trail;
}

/* Names that no cache knows, and the same names again; a workgroup of lanes looks for those together. */
static void a_trail_is_the_same_however_the_answer_was_found(void **state)
{
	const uint32_t most = G4_TRAIL_PLACES + 1;
	char path[64] = "";
	struct asker a;

	(void)state;
	for (uint32_t names = 1; names <= most; names++) {
		strcat(path, "/d");
		ok(gpu4fs_mkdir(fs, NULL, path, 0755));
	}
	ok(gpu4fs_symlink(fs, "nowhere", NULL, "dangling"));
	asker_enter(&a, 1000, 1000, 0);
	assert_int_equal(trail_by_ring(&a, "/d", 0, 0).count, 0); /* nobody has asked for epochs */
	untrusted_leave(&a.s);
	mount_again();
	asker_enter(&a, 1000, 1000, 0);
	const struct g4_session_engine *sessions = g4_engine_sessions(engine);
	assert_true(sessions->epochs(sessions->context) >= 0);
	for (uint32_t names = 1; names <= most; names++) {
		const uint32_t places = names + 1;
		path[2 * names] = 0;
		const struct g4_trail first = trail_by_ring(&a, path, 0, 0), again = trail_by_ring(&a, path, 0, 0);
		const struct g4_trail bare = trail_without_ring(&a, path, 0);
		path[2 * names] = '/';
		assert_int_equal(first.count, places <= G4_TRAIL_PLACES ? places : 0);
		assert_memory_equal(&first, &again, sizeof(first));
		if (first.count)
			assert_memory_equal(&first, &bare, sizeof(first));
		else
			assert_false(g4_trail_is_good(&bare));
	}
	const struct g4_trail missing = trail_by_ring(&a, "/d/missing", 0, -G4_E_NOENT);
	assert_int_equal(missing.count, 2);
	const struct g4_trail bare = trail_without_ring(&a, "/d/missing", -G4_E_NOENT);
	assert_memory_equal(&missing, &bare, sizeof(bare));
	assert_int_equal(trail_by_ring(&a, "/d/d/../d", 0, 0).count, 5);
	const struct g4_trail dangling = trail_by_ring(&a, "/dangling", 0, -G4_E_NOENT);
	assert_true(g4_trail_is_good(&dangling));
	untrusted_leave(&a.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		image_test(a_lookup_gives_what_it_gives_without_a_ring),
		image_test(paths_up_to_the_longest_are_found),
		image_test(a_lookup_passes_where_its_client_may),
		image_test(a_trail_is_the_same_however_the_answer_was_found),
		cmocka_unit_test_setup_teardown(a_lookup_tells_what_was_true_at_some_moment, setup, api_teardown),
	};

	unsetenv("G4_TEST_CONNECTED"); /* the other side of these tests is the engine itself */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
