/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's parts: parsing of what an untrusted client may have written, protection, names, patterns, retention, and a repository whose
 * writer is hostile: no name leaves the target of a restore.
 * Of store/bytes.c, store/tree.c, store/crypto.c, store/exclude.c, store/group.c, store/pack.c, store/packer.c,
 * store/names.c, store/measure.c, store/resume.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "chunk/rule.h"
#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/exclude.h"
#include "store/maintain.h"
#include "store/names.h"
#include "store/packer.h"
#include "store/restore.h"
#include "store/resume.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* -------------------------------------------------------------------------------------------------------- parsing */

static void numbers_come_back(void **state)
{
	struct store_buf buf = {0};

	(void)state;
	for (int bits = 0; bits <= 64; bits++)
		for (int64_t around = -2; around <= 2; around++)
			store_buf_varint(&buf, (bits == 64 ? 0 : UINT64_C(1) << bits) + (uint64_t)around);
	store_buf_svarint(&buf, INT64_MIN);
	store_buf_svarint(&buf, INT64_MAX);
	struct store_in in = store_in_of(buf.data, buf.size);
	for (int bits = 0; bits <= 64; bits++)
		for (int64_t around = -2; around <= 2; around++)
			assert_int_equal(store_in_varint(&in),
					 (bits == 64 ? 0 : UINT64_C(1) << bits) + (uint64_t)around);
	assert_int_equal(store_in_svarint(&in), INT64_MIN);
	assert_int_equal(store_in_svarint(&in), INT64_MAX);
	assert_true(store_in_done(&in));
	store_buf_free(&buf);
}

static bool varint_refused(const char *bytes, size_t count)
{
	struct store_in in = store_in_of(bytes, count);

	store_in_varint(&in);
	return in.bad;
}

static void numbers_have_one_form(void **state)
{
	(void)state;
	assert_true(varint_refused("", 0));
	assert_true(varint_refused("\x80", 1));
	assert_true(varint_refused("\x80\x00", 2));				     /* 0, longer than it has to be */
	assert_true(varint_refused("\x81\x80\x00", 3));				     /* 1, likewise */
	assert_true(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10)); /* beyond 64 bits */
	assert_true(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
	assert_false(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10));
}

static void strings_stay_inside(void **state)
{
	const uint8_t bytes[] = {4, 'a', 'b', 'c'};
	struct store_in in = store_in_of(bytes, sizeof(bytes));
	size_t count;

	(void)state;
	assert_null(store_in_string(&in, 0, 100, &count));
	assert_true(in.bad);
	assert_int_equal(count, 0);
	assert_int_equal(store_in_u8(&in), 0);
	assert_int_equal(store_in_count(&in, 1), 0);
}

static struct store_node sample(const char *name)
{
	static const uint8_t content[] = {20 << 1 | 1, 5 << 1, 1, 2, 3};
	static uint8_t parts[2 + STORE_ID_BYTES];
	struct store_node node;

	memset(&node, 0, sizeof(node));
	memcpy(parts, content, 2); /* a hole of 20 bytes and a chunk of 5 */
	node.name = (const uint8_t *)name;
	node.name_bytes = strlen(name);
	node.type = STORE_NODE_FILE;
	node.mode = 0640;
	node.uid = 1000;
	node.gid = UINT32_MAX;
	node.mtime = (struct store_time){-5, 999999999};
	node.ctime = (struct store_time){7, 0};
	node.inode = UINT64_MAX;
	node.flags = STORE_LINKED | STORE_ATTRIBUTES;
	node.links = 2;
	node.attributes = (const uint8_t *)"\x06user.a\x02xy";
	node.attributes_bytes = 10;
	node.attributes_count = 1;
	node.size = 25;
	node.content = (struct store_content){parts, sizeof(parts), 2};
	return node;
}

static void entries_come_back(void **state)
{
	const struct store_node node = sample("name");
	struct store_buf buf = {0};
	struct store_node back;

	(void)state;
	store_node_write(&buf, &node);
	struct store_in in = store_in_of(buf.data, buf.size);
	assert_true(store_node_read(&in, &back));
	assert_true(store_in_done(&in));
	assert_int_equal(back.raw_bytes, buf.size);
	assert_int_equal(back.mtime.seconds, -5);
	assert_int_equal(back.size, 25);
	assert_int_equal(back.content.count, 2);
	assert_int_equal(back.attributes_count, 1);
	/* every shorter one is none */
	for (size_t bytes = 0; bytes < buf.size; bytes++) {
		in = store_in_of(buf.data, bytes);
		assert_false(store_node_read(&in, &back));
	}
	store_buf_free(&buf);
}

static bool name_refused(const char *name, size_t bytes)
{
	struct store_node node = sample("x"), back;
	struct store_buf buf = {0};

	node.name = (const uint8_t *)name;
	node.name_bytes = bytes;
	store_node_write(&buf, &node);
	struct store_in in = store_in_of(buf.data, buf.size);
	const bool refused = !store_node_read(&in, &back);
	store_buf_free(&buf);
	return refused;
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
	char longest[256];

	(void)state;
	memset(longest, 'n', sizeof(longest));
	assert_true(name_refused("", 0));
	assert_true(name_refused(".", 1));
	assert_true(name_refused("..", 2));
	assert_true(name_refused("/", 1));
	assert_true(name_refused("/etc", 4));
	assert_true(name_refused("../x", 4));
	assert_true(name_refused("a/b", 3));
	assert_true(name_refused("a\0b", 3));
	assert_true(name_refused(longest, 256));
	assert_false(name_refused(longest, 255));
	assert_false(name_refused("...", 3));
	assert_false(name_refused(" ", 1));
}

static void contents_must_add_up(void **state)
{
	struct store_node node = sample("name"), back;
	struct store_buf buf = {0};

	(void)state;
	node.size = 26;
	store_node_write(&buf, &node);
	struct store_in in = store_in_of(buf.data, buf.size);
	assert_false(store_node_read(&in, &back));
	buf.size = 0;
	node.size = 25;
	node.type = STORE_NODE_DIR; /* a directory has no holes */
	store_node_write(&buf, &node);
	in = store_in_of(buf.data, buf.size);
	assert_false(store_node_read(&in, &back));
	store_buf_free(&buf);
}

/* Whatever comes, nothing is read outside (the sanitizers look), and what is taken is written the same again. */
static void any_bytes_are_survived(void **state)
{
	const struct store_node node = sample("name");
	struct store_buf buf = {0}, again = {0};
	struct store_snapshot snapshot;
	struct store_node back;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		buf.size = 0;
		store_node_write(&buf, &node);
		for (uint64_t edits = next_random() % 4; edits > 0; edits--)
			buf.data[next_random() % buf.size] = (uint8_t)next_random();
		struct store_in in = store_in_of(buf.data, buf.size);
		if (store_node_read(&in, &back)) {
			again.size = 0;
			store_node_write(&again, &back);
			assert_int_equal(again.size, back.raw_bytes);
			assert_memory_equal(again.data, back.raw, again.size);
		}
		if (store_snapshot_parse(STORE_VERSION, &buf, &snapshot) == 0)
			store_snapshot_free(&snapshot);
	}
	store_buf_free(&buf);
	store_buf_free(&again);
}

/* --------------------------------------------------------------------------------------------------------- crypto */

static void what_is_protected_is_opened_and_nothing_else(void **state)
{
	uint8_t key[32] = {1}, other[32] = {2}, data[100], protected_data[100 + STORE_PROTECTION_BYTES],
		out[100 + STORE_PROTECTION_BYTES];

	(void)state;
	assert_int_equal(store_crypto_init(), 0);
	store_random(data, sizeof(data));
	for (int encrypted = 0; encrypted <= 1; encrypted++) {
		const uint8_t *with = encrypted ? key : NULL;
		const size_t bytes = sizeof(data) + store_protection_bytes(encrypted);

		store_protect(with, "about", 5, data, sizeof(data), protected_data);
		assert_true(store_unprotect(with, "about", 5, protected_data, bytes, out));
		assert_memory_equal(out, data, sizeof(data));
		assert_false(store_unprotect(with, "other", 5, protected_data, bytes, out));
		assert_false(store_unprotect(with, "about", 5, protected_data, bytes - 1, out));
		assert_false(store_unprotect(with, "about", 5, protected_data, 3, out));
		if (encrypted)
			assert_false(store_unprotect(other, "about", 5, protected_data, bytes, out));
		for (size_t i = 0; i < bytes; i++) {
			protected_data[i] ^= 1;
			assert_false(store_unprotect(with, "about", 5, protected_data, bytes, out));
			protected_data[i] ^= 1;
		}
	}
}

static void passwords_become_keys_within_limits(void **state)
{
	const uint8_t salt[16] = {0};
	uint8_t a[32], b[32];

	(void)state;
	assert_int_equal(store_password_key("word", salt, 1, 8192, a), 0);
	assert_int_equal(store_password_key("word", salt, 1, 8192, b), 0);
	assert_memory_equal(a, b, 32);
	assert_int_equal(store_password_key("Word", salt, 1, 8192, b), 0);
	assert_memory_not_equal(a, b, 32);
	assert_int_equal(store_password_key("word", salt, 65, 8192, a), STORE_E_INVAL);
	assert_int_equal(store_password_key("word", salt, 1, 1024 * 1024 + 1, a), STORE_E_INVAL);
	assert_int_equal(store_password_key("word", salt, 0, 8192, a), STORE_E_INVAL);
}

static void blobs_are_bound_to_their_names(void **state)
{
	struct store s = {.encrypted = true, .master = {7}};
	struct store_buf stored = {0}, out = {0};
	struct store_id id, other;
	struct store_codec codec;
	uint8_t data[5000], digest[32];

	(void)state;
	store_derive(&s);
	store_codec_init(&codec, 3);
	memset(data, 'a', sizeof(data));
	store_digest(data, sizeof(data), digest);
	store_name_blob(&s, STORE_DATA, digest, &id);
	store_name_blob(&s, STORE_TREE, digest, &other);
	assert_false(store_id_equal(&id, &other));
	assert_memory_not_equal(&id, digest, 32);
	store_blob_protect(&s, &codec, STORE_DATA, &id, data, sizeof(data), &stored);
	assert_true(stored.size < 200);
	assert_int_equal(
		store_blob_unprotect(&s, &codec, STORE_DATA, &id, stored.data, stored.size, sizeof(data), &out), 0);
	assert_memory_equal(out.data, data, sizeof(data));
	assert_int_equal(store_blob_unprotect(&s, &codec, STORE_TREE, &id, stored.data, stored.size, sizeof(data),
					      &out),
			 STORE_E_DAMAGED);
	assert_int_equal(store_blob_unprotect(&s, &codec, STORE_DATA, &other, stored.data, stored.size, sizeof(data),
					      &out),
			 STORE_E_DAMAGED);
	assert_int_equal(store_blob_unprotect(&s, &codec, STORE_DATA, &id, stored.data, stored.size, sizeof(data) - 1,
					      &out),
			 STORE_E_DAMAGED);
	/* a blob under a name that its content does not have: only who has the key can make one */
	stored.size = 0;
	store_blob_protect(&s, &codec, STORE_DATA, &other, data, sizeof(data), &stored);
	assert_int_equal(store_blob_unprotect(&s, &codec, STORE_DATA, &other, stored.data, stored.size, sizeof(data),
					      &out),
			 STORE_E_DAMAGED);
	store_codec_free(&codec);
	store_buf_free(&stored);
	store_buf_free(&out);
}

/* ------------------------------------------------------------------------------------------------------- patterns */

static void patterns_match_as_in_gitignore(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} cases[] = {
		{"*.o", "/a/b/c.o", true},
		{"*.o", "/a/b/c.o/d", false},
		{"/a/b", "/a/b", true},
		{"/a/b", "/x/a/b", false},
		{"a/b", "/x/a/b", true},
		{"/a/*", "/a/b/c", false},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/a", false},
		{"/a/**/d", "/a/d", true},
		{"/a/**/d", "/a/b/c/d", true},
		{"/a/**/d", "/a/b/c/e", false},
		{"**/x/**/y", "/q/x/1/2/y", true},
		{"**/x/**/y", "/q/x/1/x", false},
		{"[ab]?", "/z/bq", true},
		{"[ab]?", "/z/cq", false},
		{"a*b*c", "/aXXbYYc", true},
		{"*", "/anything", true},
		{".*", "/.hidden", true},
		{"x/**/x/**/z", "/x/x/x/z", true},
		{"/a/**/b/**/c", "/a/b/b/c", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct store_excludes one = {0};

		store_exclude_add(&one, cases[i].pattern);
		if (store_excluded(&one, cases[i].path, false) != cases[i].matches)
			fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].path);
		store_excludes_free(&one);
	}
}

static void the_last_pattern_decides(void **state)
{
	struct store_excludes excludes = {0};

	(void)state;
	store_exclude_add(&excludes, "# none");
	store_exclude_add(&excludes, "");
	store_exclude_add(&excludes, "*.log");
	store_exclude_add(&excludes, "!keep.log");
	store_exclude_add(&excludes, "build/");
	store_exclude_add(&excludes, "\\#odd");
	assert_int_equal(excludes.count, 4);
	assert_true(store_excluded(&excludes, "/a/x.log", false));
	assert_false(store_excluded(&excludes, "/a/keep.log", false));
	assert_true(store_excluded(&excludes, "/a/build", true));
	assert_false(store_excluded(&excludes, "/a/build", false));
	assert_true(store_excluded(&excludes, "/#odd", false));
	store_excludes_free(&excludes);
}

/* ------------------------------------------------------------------------------------------------------ retention */

static struct store_snapshot at_time(const char *text)
{
	struct store_snapshot snapshot = {.uid = 0};
	struct tm t = {.tm_isdst = -1};

	assert_non_null(strptime(text, "%Y-%m-%d %H:%M", &t));
	snapshot.time.seconds = mktime(&t);
	return snapshot;
}

static void a_policy_keeps_the_last_of_each_period(void **state)
{
	static const char *const times[] = {"2023-12-31 12:00", "2024-01-01 12:00", "2024-02-28 10:00",
					    "2024-02-28 10:30", "2024-02-28 11:00", "2024-02-29 09:00",
					    "2024-03-01 08:00"};
	enum { COUNT = sizeof(times) / sizeof(*times) };
	static const struct {
		struct store_policy policy;
		const char *kept;
	} cases[] = {
		{{.last = 2}, "-----kk"},
		{{.hourly = 3}, "----kkk"},
		{{.daily = 3}, "----kkk"},
		{{.daily = 4}, "-k--kkk"},
		{{.monthly = 3}, "-k---kk"},
		{{.yearly = 5}, "k-----k"},
		{{.weekly = 2}, "-k----k"},
		{{.last = 1, .yearly = 2}, "k-----k"},
		{{.within_seconds = 86400 + 3600}, "-----kk"},
		{{.within = {[0] = 47 * 3600}}, "---kkkk"},
		{{.within = {[1] = 86400 + 3600}}, "-----kk"},
		{{.within = {[3] = 60 * 86400}}, "-k---kk"},
		{{.within = {[4] = 1}}, "------k"},
		{{.last = 2, .within = {[4] = INT64_C(10) * 365 * 86400}}, "k----kk"},
		{{.last = 100}, "kkkkkkk"},
	};
	struct store_snapshot list[COUNT];
	bool keep[COUNT];

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	for (int i = 0; i < COUNT; i++)
		list[i] = at_time(times[i]);
	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		char kept[COUNT + 1] = {0};

		store_policy_apply(&cases[c].policy, list, COUNT, INT64_MAX, keep);
		for (int i = 0; i < COUNT; i++)
			kept[i] = keep[i] ? 'k' : '-';
		if (strcmp(kept, cases[c].kept) != 0)
			fail_msg("policy %zu keeps %s, not %s", c, kept, cases[c].kept);
	}
}

/* ----------------------------------------------------------------------------------------------------- repository */

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	return test_folder(folder, sizeof(folder), "store");
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int no_secret(void *user, struct store_secret *secret)
{
	*secret = *(const struct store_secret *)user;
	return 0;
}

static void every_repository_cuts_elsewhere(void **state)
{
	const uint8_t key[32] = {1};
	struct store_secret secret = {.key = key, .key_bytes = sizeof(key)};
	struct shredder_params first = {0};
	struct store *s, *again;
	char path[96];

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint8_t window[SHREDDER_WINDOW_BYTES];
		struct shredder_rule rule;

		snprintf(path, sizeof(path), "%s/r%d", folder, i);
		assert_int_equal(store_create(&(struct store_place){.path = path}, &secret, NULL, &s), 0);
		assert_true(shredder_polynomial_is_irreducible(s->params.polynomial));
		assert_int_equal(shredder_gf2_degree(s->params.polynomial), 63);
		assert_true(s->params.polynomial != first.polynomial);
		assert_int_equal(store_open(&(struct store_place){.path = path}, no_secret, &secret, &again), 0);
		assert_memory_equal(&again->params, &s->params, sizeof(s->params));
		shredder_rule_init(&rule, &s->params);
		for (int byte = 0; byte < 256; byte++) { /* runs of one byte are not cut up */
			memset(window, byte, sizeof(window));
			assert_true((shredder_fingerprint(&rule, window) & ((1 << 18) - 1)) != s->params.marker);
		}
		first = s->params;
		store_close(again);
		store_close(s);
	}
}

static int told;

static void count_told(void *user, const char *path, const char *sentence)
{
	(void)user;
	(void)path;
	(void)sentence;
	told++;
}

/* Stores a directory's entries as they are, and a snapshot of it. */
static void put_hostile(struct store *s, const struct store_buf *entries, struct store_snapshot *snapshot)
{
	struct store_packer *packer = store_packer_open(s);
	struct store_part part = {.bytes = entries->size};
	struct store_buf stored = {0};
	struct store_codec codec;
	uint8_t digest[32];
	uint32_t number;
	char *nothing[1] = {NULL};

	store_codec_init(&codec, 3);
	store_digest(entries->data, entries->size, digest);
	store_name_blob(s, STORE_TREE, digest, &part.id);
	assert_int_equal(store_index_claim(s, &part.id, STORE_TREE, &number), 1);
	store_blob_protect(s, &codec, STORE_TREE, &part.id, entries->data, entries->size, &stored);
	assert_int_equal(store_packer_add(packer, STORE_TREE, number, &part.id, &stored, entries->size), 0);
	assert_int_equal(store_packer_finish(packer), 0);
	store_packer_close(packer);
	memset(snapshot, 0, sizeof(*snapshot));
	snapshot->host = store_strdup("host");
	snapshot->user = store_strdup("user");
	snapshot->program = store_strdup("test");
	snapshot->paths = nothing;
	snapshot->tags = nothing;
	store_part_add(&snapshot->root, &snapshot->root_count, &part);
	assert_int_equal(store_snapshot_put(s, snapshot), 0);
	snapshot->paths = NULL;
	snapshot->tags = NULL;
	store_codec_free(&codec);
	store_buf_free(&stored);
}

static void add_entry(struct store_buf *entries, const char *name, uint8_t type, const char *target)
{
	struct store_node node;

	memset(&node, 0, sizeof(node));
	node.name = (const uint8_t *)name;
	node.name_bytes = strlen(name);
	node.type = type;
	node.mode = 0644;
	node.target = (const uint8_t *)target;
	node.target_bytes = target == NULL ? 0 : strlen(target);
	store_node_write(entries, &node);
}

static size_t names_in(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 2;
}

static void no_name_leaves_the_target(void **state)
{
	static const char *const names[] = {"../escaped", "..", "/tmp/escaped", "a/../../escaped"};
	char repository[96], target[96], outside[96], path[128];
	struct store *s;

	(void)state;
	snprintf(repository, sizeof(repository), "%s/hostile", folder);
	snprintf(outside, sizeof(outside), "%s/place", folder);
	snprintf(target, sizeof(target), "%s/place/target", folder);
	assert_int_equal(mkdir(outside, 0700), 0);
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &s), 0);
	store_index_new(s);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct store_restore_options options = {.target = target, .note = count_told, .threads = 1};
		struct store_restore_stats stats;
		struct store_snapshot snapshot;
		struct store_buf entries = {0};

		add_entry(&entries, names[i], STORE_NODE_FILE, NULL);
		put_hostile(s, &entries, &snapshot);
		told = 0;
		assert_int_equal(store_restore(s, &snapshot, &options, &stats), 0);
		assert_int_equal(stats.errors, 1);
		assert_int_equal(told, 1);
		assert_int_equal(stats.files, 0);
		assert_int_equal(names_in(outside), 1);
		assert_int_equal(names_in(target), 0);
		store_buf_free(&entries);
		store_snapshot_free(&snapshot);
	}
	/* a link, and a directory of the same name that would go through it: entries are in strict order */
	struct store_restore_options options = {.target = target, .note = count_told, .threads = 1};
	struct store_restore_stats stats;
	struct store_snapshot snapshot;
	struct store_buf entries = {0};
	add_entry(&entries, "way", STORE_NODE_LINK, outside);
	add_entry(&entries, "way", STORE_NODE_DIR, NULL);
	put_hostile(s, &entries, &snapshot);
	assert_int_equal(store_restore(s, &snapshot, &options, &stats), 0);
	assert_int_equal(stats.errors, 1);
	store_snapshot_free(&snapshot);
	/* a link that is in the target already, where the snapshot has a directory: it is replaced, not followed */
	entries.size = 0;
	add_entry(&entries, "way", STORE_NODE_DIR, NULL);
	put_hostile(s, &entries, &snapshot);
	assert_int_equal(store_restore(s, &snapshot, &options, &stats), 0);
	assert_int_equal(stats.errors, 0);
	struct stat st;
	snprintf(path, sizeof(path), "%s/way", target);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(names_in(outside), 1);
	store_snapshot_free(&snapshot);
	store_buf_free(&entries);
	store_close(s);
}

/* -------------------------------------------------------------------------------------------------------- groups */

/* Two blobs of a group that somebody with the keys has made wrongly: the second one's id, or how long it is, is a lie. */
static void a_group_is_not_believed(void **state)
{
	static const char first[] = "the first blob", second[] = "the second blob", other[] = "what it is not";
	const struct store_form form = {.version = 2};
	char path[96];

	(void)state;
	for (int lie = 0; lie < 3; lie++) {
		struct store_group group = {0};
		struct store_buf stored = {0}, out = {0};
		struct store_codec codec;
		struct store_id ids[2];
		uint32_t numbers[2];
		uint8_t digest[32];
		struct store *s;

		snprintf(path, sizeof(path), "%s/group%d", folder, lie);
		assert_int_equal(store_create_as(&(struct store_place){.path = path}, NULL, NULL, &form, &s), 0);
		store_index_new(s);
		store_codec_init(&codec, 3);
		store_digest(first, sizeof(first), digest);
		store_name_blob(s, STORE_DATA, digest, &ids[0]);
		store_digest(lie == 1 ? other : second, lie == 1 ? sizeof(other) : sizeof(second), digest);
		store_name_blob(s, STORE_DATA, digest, &ids[1]);
		for (int i = 0; i < 2; i++)
			assert_int_equal(store_index_claim(s, &ids[i], STORE_DATA, &numbers[i]), 1);
		assert_false(store_group_add(&group, STORE_DATA, numbers[0], &ids[0], first, sizeof(first)));
		assert_false(store_group_add(&group, STORE_DATA, numbers[1], &ids[1], second, sizeof(second)));
		assert_int_equal(store_blob_get(s, &codec, STORE_DATA, &ids[0], &out), STORE_E_NO_BLOB);
		if (lie == 2)
			group.members[1].raw++;
		struct store_packer *packer = store_packer_open(s);
		store_group_protect(s, &codec, group.raw.data, group.raw.size, &stored);
		assert_int_equal(store_packer_add_group(packer, &group, &stored), 0);
		assert_int_equal(store_packer_finish(packer), 0);
		store_packer_close(packer);
		assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
		assert_int_equal(store_blob_get(s, &codec, STORE_DATA, &ids[0], &out), 0);
		assert_memory_equal(out.data, first, sizeof(first));
		assert_int_equal(store_blob_get(s, &codec, STORE_DATA, &ids[1], &out), lie == 0 ? 0 : STORE_E_DAMAGED);
		if (lie == 0)
			assert_memory_equal(out.data, second, sizeof(second));
		store_group_free(&group);
		store_codec_free(&codec);
		store_buf_free(&stored);
		store_buf_free(&out);
		store_close(s);
	}
}

static bool header_is_whole(const struct store_buf *body, uint32_t version, uint32_t *blobs)
{
	struct store_in in = store_in_of(body->data, body->size);
	struct store_header_entry entry;
	struct store_header header;

	*blobs = 0;
	store_header_open(&header, &in, version);
	while (store_header_next(&header, &entry))
		++*blobs;
	return store_in_done(&in);
}

static void impossible_groups_are_no_headers(void **state)
{
	const struct store_id id = {{7}};
	struct store_buf body = {0};
	uint32_t blobs;

	(void)state;
	for (int what = 0; what < 6; what++) {
		body.size = 0;
		store_buf_varint(&body, what == 1 ? 2 : 3);		/* more in the group than there are */
		store_header_add_group(&body, 1000, what == 2 ? 0 : 3); /* an empty one */
		store_header_add_member(&body, STORE_DATA, &id, 1);
		store_header_add_member(&body, what == 3 ? 3 : STORE_TREE, &id, 5); /* a group in a group */
		store_header_add_member(&body, STORE_DATA, &id, what == 4 ? STORE_GROUP_MAX - 5 : 100); /* too much */
		body.size -= what == 5;
		assert_int_equal(header_is_whole(&body, 2, &blobs), what == 0);
		assert_false(header_is_whole(&body, 1, &blobs));
	}
	store_buf_free(&body);
}

/* ---------------------------------------------------------------------------------- beside a backup that goes on */

static const struct store_backend_ops *real_ops;
static char shared_repository[96];
static bool backup_pending;

static void ignore_note(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)note;
	(void)path;
	(void)sentence;
}

static void back_up_beside(void)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = ignore_note};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store *s;

	snprintf(path, sizeof(path), "%s/changing", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%llu", (unsigned long long)next_random());
	fclose(file);
	assert_int_equal(store_open(&(struct store_place){.path = shared_repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	store_snapshot_free(&snapshot);
	store_close(s);
}

/* Somebody else's backup ends right after the index was listed. */
static int list_and_back_up(struct store_backend *b, enum store_kind kind, store_list_fn *each, void *user)
{
	const int rc = real_ops->list(b, kind, each, user);

	if (kind == STORE_INDEX && backup_pending) {
		backup_pending = false;
		back_up_beside();
	}
	return rc;
}

static void print_problem(void *user, const char *sentence)
{
	(void)user;
	print_error("%s\n", sentence);
}

static void check_beside_a_backup_finds_nothing(void **state)
{
	const struct store_check_options options = {.problem = print_problem, .threads = 1};
	static struct store_backend_ops hooked;
	struct store_check_result result;
	struct store *s;

	(void)state;
	snprintf(shared_repository, sizeof(shared_repository), "%s/shared", folder);
	assert_int_equal(store_create(&(struct store_place){.path = shared_repository}, NULL, NULL, &s), 0);
	back_up_beside();
	real_ops = s->backend->ops;
	hooked = *real_ops;
	hooked.list = list_and_back_up;
	s->backend->ops = &hooked;
	backup_pending = true;
	assert_int_equal(store_check(s, &options, &result), 0);
	assert_false(backup_pending);
	assert_int_equal(result.problems, 0);
	store_close(s);
}

/* ------------------------------------------------------------------------------------------- what is to be expected */

struct told_progress {
	uint64_t done, expected;
	bool backwards;
};

static void note_progress(void *user, const struct store_backup_stats *stats)
{
	struct told_progress *told_so_far = (struct told_progress *)user;

	told_so_far->backwards |= stats->done_bytes < told_so_far->done;
	told_so_far->done = stats->done_bytes;
	told_so_far->expected = stats->expected_bytes;
}

static void write_bytes(const char *path, size_t bytes, off_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (size_t i = 0; i < bytes; i++)
		fputc((int)(next_random() & 255), file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(truncate(path, size), 0);
}

/* A backup without a parent is measured: as many bytes as it then saves, each told once. */
static void a_first_backup_is_measured(void **state)
{
	char path[96], name[128], repository[128];
	const char *paths[] = {path};
	struct store_excludes excludes = {0};
	struct told_progress progress = {0};
	struct store_backup_options options = {.paths = paths,
					       .paths_count = 1,
					       .host = "here",
					       .level = 1,
					       .threads = 2,
					       .excludes = &excludes,
					       .note = ignore_note,
					       .progress = note_progress,
					       .user = &progress};
	char *const measured[] = {path};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store *s;
	atomic_bool stop = false;

	(void)state;
	snprintf(path, sizeof(path), "%s/measured", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(name, sizeof(name), "%s/file", path);
	write_bytes(name, 300000, 300000);
	snprintf(name, sizeof(name), "%s/sparse", path);
	write_bytes(name, 5000, 70000000);
	snprintf(name, sizeof(name), "%s/left-out", path);
	write_bytes(name, 1000, 1000);
	snprintf(name, sizeof(name), "%s/folder", path);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/folder/inside", path);
	write_bytes(name, 77, 77);
	snprintf(repository, sizeof(repository), "%s/measured", path); /* it does not hold itself */
	store_exclude_add(&excludes, "left-out");
	store_exclude_add(&excludes, "measured/measured");
	assert_int_equal(store_measure(measured, 1, &options, &stop), 300000 + 70000000 + 77);
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	assert_int_equal(stats.bytes, 300000 + 70000000 + 77);
	assert_int_equal(stats.done_bytes, stats.bytes);
	assert_false(progress.backwards);
	store_snapshot_free(&snapshot);
	store_close(s);
	store_excludes_free(&excludes);
	stop = true;
	assert_int_equal(store_measure(measured, 1, &options, &stop), 0);
}

/* ------------------------------------------------------------------------------------- a backup that was cut off */

static int fail_snapshots(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
			  size_t bytes)
{
	return kind == STORE_SNAPSHOT ? store_fail(STORE_E_IO, "cut off") : real_ops->put(b, kind, name, data, bytes);
}

struct cut_off {
	char repository[96], notes[96], file[4096];
	struct stat st;
};

static struct store *open_cut_off(const struct cut_off *c)
{
	struct store *s;

	assert_int_equal(store_open(&(struct store_place){.path = c->repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	return s;
}

/* A backup of the file; `cut`: its data arrives, its snapshot does not. */
static void back_up_file(const struct cut_off *c, bool cut, struct store_snapshot *snapshot,
			 struct store_backup_stats *stats)
{
	const char *paths[] = {c->file};
	const struct store_backup_options options = {.paths = paths,
						     .paths_count = 1,
						     .host = "here",
						     .level = 1,
						     .threads = 1,
						     .note = ignore_note,
						     .resume_folder = c->notes,
						     .resume_bytes = 100000};
	struct store *s = open_cut_off(c);
	struct store_backend_ops hooked;

	real_ops = s->backend->ops;
	hooked = *real_ops;
	hooked.put = cut ? fail_snapshots : real_ops->put;
	s->backend->ops = &hooked;
	assert_int_equal(store_backup(s, &options, snapshot, stats), cut ? STORE_E_IO : 0);
	s->backend->ops = real_ops;
	store_close(s);
}

/* The file is one that did not change for a while: a new one would not be trusted. */
static void make_cut_off(struct cut_off *c, const char *name)
{
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store *s;

	assert_non_null(realpath("/bin/bash", c->file));
	assert_int_equal(stat(c->file, &c->st), 0);
	assert_true(c->st.st_size > 1000000);
	snprintf(c->repository, sizeof(c->repository), "%s/%s", folder, name);
	snprintf(c->notes, sizeof(c->notes), "%s/%s-state/notes", folder, name);
	assert_int_equal(store_create(&(struct store_place){.path = c->repository}, NULL, NULL, &s), 0);
	store_close(s);
	back_up_file(c, true, &snapshot, &stats);
	assert_int_equal(stats.read_bytes, c->st.st_size);
	assert_int_equal(stats.resumed_bytes, 0);
	assert_int_equal(names_in(c->notes), 1);
	store_snapshot_free(&snapshot);
}

static void assert_restored(const struct cut_off *c, const struct store_snapshot *snapshot, const char *name)
{
	struct store_restore_options options = {.note = count_told, .threads = 1, .subpath = c->file};
	struct store_restore_stats stats;
	char target[96], command[8192];
	struct store *s = open_cut_off(c);

	snprintf(target, sizeof(target), "%s/%s-target", folder, name);
	options.target = target;
	assert_int_equal(store_restore(s, snapshot, &options, &stats), 0);
	assert_int_equal(stats.errors, 0);
	assert_int_equal(stats.files, 1);
	snprintf(command, sizeof(command), "cmp %s %s/*", c->file, target);
	assert_int_equal(system(command), 0);
	store_close(s);
}

/* How much is known of the file. If that is more than its first `keep` parts, only those are noted now. */
static uint64_t known_of(const struct cut_off *c, const struct stat *st, uint64_t keep)
{
	struct store *s = open_cut_off(c);
	struct store_buf content = {0}, nothing = {0};
	uint64_t count = 0, bytes = 0, none = 0, none_bytes = 0;
	struct store_resume r;
	struct store_part part;

	store_resume_begin(&r, s, c->notes, st, &content, &count, &bytes);
	store_resume_end(&r);
	if (keep < count) {
		struct store_in in = store_in_of(content.data, content.size);

		bytes = 0;
		for (uint64_t i = 0; i < keep; i++) {
			assert_true(store_part_next(&in, &part));
			bytes += part.bytes;
		}
		content.size = (size_t)(in.at - content.data);
		store_resume_clear(s, c->notes);
		store_resume_begin(&r, s, c->notes, st, &nothing, &none, &none_bytes);
		assert_int_equal(none, 0);
		store_resume_note(&r, s, &content, true);
		store_resume_end(&r);
	}
	store_buf_free(&content);
	store_buf_free(&nothing);
	store_close(s);
	return bytes;
}

static void a_large_file_goes_on_where_it_was_cut_off(void **state)
{
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct cut_off c;

	(void)state;
	make_cut_off(&c, "cut");
	back_up_file(&c, false, &snapshot, &stats);
	assert_int_equal(stats.read_bytes, 0);
	assert_int_equal(stats.resumed_bytes, c.st.st_size);
	assert_int_equal(stats.bytes, c.st.st_size);
	assert_int_equal(stats.done_bytes, c.st.st_size);
	assert_int_equal(names_in(c.notes), 0);
	assert_restored(&c, &snapshot, "cut");
	store_snapshot_free(&snapshot);
	/* in the middle: the chunks are those of the whole file, so nothing is new */
	make_cut_off(&c, "middle");
	const uint64_t known = known_of(&c, &c.st, 2);
	assert_in_range(known, 1, c.st.st_size - 1);
	back_up_file(&c, false, &snapshot, &stats);
	assert_int_equal(stats.resumed_bytes, known);
	assert_int_equal(stats.read_bytes, c.st.st_size - (off_t)known);
	assert_in_range(stats.new_bytes, 0, 10000); /* directories */
	assert_restored(&c, &snapshot, "middle");
	store_snapshot_free(&snapshot);
}

/* A byte of each note becomes another, or its last one is lost. */
static void damage_notes(const struct cut_off *c, bool torn)
{
	DIR *dir = opendir(c->notes);
	const struct dirent *entry;
	char path[256];
	struct stat st;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%.100s", c->notes, entry->d_name);
		assert_int_equal(stat(path, &st), 0);
		if (!S_ISREG(st.st_mode) || st.st_size == 0)
			continue;
		if (torn) {
			assert_int_equal(truncate(path, st.st_size - 1), 0);
			continue;
		}
		FILE *file = fopen(path, "r+");
		assert_non_null(file);
		assert_int_equal(fseek(file, 30, SEEK_SET), 0);
		const int byte = fgetc(file);
		assert_int_equal(fseek(file, 30, SEEK_SET), 0);
		fputc(byte ^ 1, file);
		assert_int_equal(fclose(file), 0);
	}
	closedir(dir);
}

/* Of another file, of one that changed, damaged, torn, and of chunks that never arrived: then the file is read. */
static void notes_that_do_not_fit_count_for_nothing(void **state)
{
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	char command[256];
	struct cut_off c;
	struct stat st;

	(void)state;
	make_cut_off(&c, "unfit");
	for (int i = 0; i < 5; i++) {
		st = c.st;
		st.st_ino += i == 0;
		st.st_size += i == 1;
		st.st_mtim.tv_nsec ^= i == 2;
		st.st_ctim.tv_nsec ^= i == 3;
		assert_int_equal(known_of(&c, &st, UINT64_MAX), i == 4 ? c.st.st_size : 0);
	}
	for (int torn = 0; torn < 2; torn++) {
		damage_notes(&c, torn != 0);
		assert_int_equal(known_of(&c, &c.st, UINT64_MAX), 0);
		back_up_file(&c, true, &snapshot, &stats);
		assert_int_equal(stats.read_bytes, c.st.st_size);
		assert_int_equal(stats.resumed_bytes, 0);
		assert_int_equal(known_of(&c, &c.st, UINT64_MAX), c.st.st_size);
		store_snapshot_free(&snapshot);
	}
	snprintf(command, sizeof(command), "rm -rf %s/index/* %s/packs/*", c.repository, c.repository);
	assert_int_equal(system(command), 0);
	back_up_file(&c, false, &snapshot, &stats);
	assert_int_equal(stats.resumed_bytes, 0);
	assert_restored(&c, &snapshot, "unfit");
	store_snapshot_free(&snapshot);
}

/* ------------------------------------------------------------------------------------ beside somebody who cleans */

struct putter {
	struct store_backend *backend;
	_Atomic bool done;
	int rc;
};

static void *put_locks(void *user)
{
	struct putter *putter = (struct putter *)user;

	for (unsigned int i = 0; i < 300 && putter->rc == 0; i++) {
		struct store_id name = {.bytes = {(uint8_t)i, (uint8_t)(i >> 8)}};

		putter->rc = putter->backend->ops->put(putter->backend, STORE_LOCK, &name, "lock", 4);
	}
	putter->done = true;
	return NULL;
}

/* A prune may have the repository for itself: others that come still write their locks before they see that. */
static void cleaning_leaves_what_is_being_written(void **state)
{
	char path[96], left[128];
	struct store_listed *names;
	struct store *s;
	pthread_t thread;
	size_t count;

	(void)state;
	snprintf(path, sizeof(path), "%s/cleaned", folder);
	assert_int_equal(store_create(&(struct store_place){.path = path}, NULL, NULL, &s), 0);
	struct putter putter = {.backend = store_backend_local(path)};
	assert_int_equal(putter.backend->ops->open(putter.backend), 0);
	assert_int_equal(pthread_create(&thread, NULL, put_locks, &putter), 0);
	int rc = 0;
	while (!putter.done && rc == 0)
		rc = s->backend->ops->clean(s->backend);
	pthread_join(thread, NULL);
	if (rc != 0 || putter.rc != 0)
		print_error("%s\n", store_message());
	assert_int_equal(rc, 0);
	assert_int_equal(putter.rc, 0);
	assert_int_equal(store_list_all(s->backend, STORE_LOCK, &names, &count), 0);
	assert_int_equal(count, 300);
	free(names);
	/* what a killed one has left goes */
	snprintf(left, sizeof(left), "%s/tmp/left", path);
	FILE *file = fopen(left, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(s->backend->ops->clean(s->backend), 0);
	assert_int_equal(access(left, F_OK), -1);
	putter.backend->ops->close(putter.backend);
	store_close(s);
}

/* ------------------------------------------------------------------------------------------- a source that changes */

static const char *growing; /* is appended to when the first piece of a pack is written; NULL: no more */
static unsigned int told_changes;

static int add_and_change(struct store_backend *b, struct store_incoming *in, const void *data, size_t bytes)
{
	const char *path = __atomic_exchange_n(&growing, NULL, __ATOMIC_SEQ_CST);

	if (path != NULL) {
		FILE *file = fopen(path, "a");

		if (file != NULL) {
			fputs("more", file);
			fclose(file);
		}
	}
	return real_ops->add(b, in, data, bytes);
}

static void count_changes(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)sentence;
	if (note == STORE_NOTE_CHANGED && strstr(path, "growing") != NULL)
		told_changes++;
}

/* A file that changes while it is read is told, kept as it was read, and read again by the next backup, whatever its times say then. */
static void a_file_that_changes_meanwhile_is_told(void **state)
{
	enum { BYTES = 40000000 }; /* more than is under way between reading and writing */
	static struct store_backend_ops hooked;
	char tree[96], name[128], repository[96];
	const char *paths[] = {tree};
	struct store_backup_options backup = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = count_changes};
	struct store_backup_stats stats;
	struct store_snapshot first, second;
	struct store *s;

	(void)state;
	snprintf(repository, sizeof(repository), "%s/meanwhile", folder);
	snprintf(tree, sizeof(tree), "%s/meanwhile.tree", folder);
	assert_int_equal(mkdir(tree, 0700), 0);
	snprintf(name, sizeof(name), "%s/growing", tree);
	write_bytes(name, BYTES, BYTES);
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	real_ops = s->backend->ops;
	hooked = *real_ops;
	hooked.add = add_and_change;
	s->backend->ops = &hooked;
	growing = name;
	assert_int_equal(store_backup(s, &backup, &first, &stats), 0);
	assert_null(growing);
	assert_int_equal(told_changes, 1);
	assert_int_equal(stats.changed, 1);
	assert_int_equal(stats.unread, 0);
	assert_int_equal(stats.files, 1);
	backup.parent = &first;
	assert_int_equal(store_backup(s, &backup, &second, &stats), 0);
	assert_int_equal(told_changes, 1);
	assert_int_equal(stats.unchanged_files, 0);
	assert_int_equal(stats.read_bytes, BYTES + 4);
	store_snapshot_free(&first);
	store_snapshot_free(&second);
	s->backend->ops = real_ops;
	store_close(s);
}

static struct store *hooked_store;

static int remove_parent(void *user)
{
	const struct store_backup_options *options = (const struct store_backup_options *)user;

	return hooked_store->backend->ops->remove(hooked_store->backend, STORE_SNAPSHOT, &options->parent->name);
}

/* Who removes snapshots takes the lock as a backup does, shared: what is all the same in a snapshot that is gone is saved. */
static void a_parent_that_goes_meanwhile_is_no_reason_to_skip(void **state)
{
	char tree[96], name[128], repository[96];
	const char *paths[] = {tree};
	struct store_backup_options backup = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = count_changes};
	struct store_backup_stats stats;
	struct store_snapshot first, second;
	uint64_t bytes;

	(void)state;
	snprintf(repository, sizeof(repository), "%s/gone", folder);
	snprintf(tree, sizeof(tree), "%s/gone.tree", folder);
	assert_int_equal(mkdir(tree, 0700), 0);
	snprintf(name, sizeof(name), "%s/file", tree);
	write_bytes(name, 1000, 1000);
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &hooked_store), 0);
	struct store_backend *b = hooked_store->backend;
	assert_int_equal(store_index_load(hooked_store, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(hooked_store, &backup, &first, &stats), 0);
	backup.parent = &first;
	backup.skip_unchanged = true;
	backup.user = &backup;
	assert_int_equal(store_backup(hooked_store, &backup, &second, &stats), 0);
	assert_true(stats.skipped);
	store_snapshot_free(&second);
	backup.was_read = remove_parent;
	assert_int_equal(store_backup(hooked_store, &backup, &second, &stats), 0);
	assert_false(stats.skipped);
	assert_int_equal(b->ops->size(b, STORE_SNAPSHOT, &second.name, &bytes), 0);
	store_snapshot_free(&first);
	store_snapshot_free(&second);
	store_close(hooked_store);
}

/* ------------------------------------------------------------------------------------------- many names */

static int by_string(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whatever memory there is, they come sorted, and each once. */
static void names_come_in_order(void **state)
{
	enum { NAMES = 3000 };
	static const size_t memories[] = {0, 1, 300, 20000};
	static char *names[NAMES];

	(void)state;
	for (int i = 0; i < NAMES; i++) {
		names[i] = (char *)malloc(STORE_NAME_MAX + 1);
		memset(names[i], 'x', STORE_NAME_MAX);
		const int bytes =
			snprintf(names[i], STORE_NAME_MAX + 1, "%x%s", i * 7919 % NAMES, i % 5 == 0 ? "\xff\x01" : "");
		if (i % 11 == 0)
			names[i][bytes] = 'x';
		names[i][i % 11 == 0 ? STORE_NAME_MAX : bytes] = 0;
	}
	for (size_t m = 0; m < sizeof(memories) / sizeof(*memories); m++) {
		struct store_names *n = store_names_open(memories[m]);
		char **sorted = (char **)malloc(sizeof(names));
		const char *name;
		int rc;

		for (int i = 0; i < NAMES; i++) {
			store_names_add(n, names[i]);
			if (i % 100 == 0)
				store_names_add(n, names[i / 2]);
		}
		memcpy(sorted, names, sizeof(names));
		qsort(sorted, NAMES, sizeof(*sorted), by_string);
		for (int i = 0; i < NAMES; i++) {
			assert_int_equal(store_names_next(n, &name), 1);
			assert_string_equal(name, sorted[i]);
		}
		rc = store_names_next(n, &name);
		assert_int_equal(rc, 0);
		free(sorted);
		store_names_close(n);
	}
	struct store_names *none = store_names_open(0);
	const char *name;
	assert_int_equal(store_names_next(none, &name), 0);
	store_names_close(none);
	for (int i = 0; i < NAMES; i++)
		free(names[i]);
}

/* What does not depend on when it was looked at. */
static int note_entry(void *user, const char *path, const struct store_node *node)
{
	struct store_buf *seen = (struct store_buf *)user;

	store_buf_add(seen, path, strlen(path) + 1);
	store_buf_u64(seen, node->size);
	if (node->type == STORE_NODE_FILE)
		store_buf_add(seen, node->content.data, node->content.bytes);
	return 0;
}

/* A directory is the same when its names do not fit into memory, and when entries may not wait for others. */
static void a_directory_with_little_memory_is_the_same(void **state)
{
	static const struct {
		size_t names_bytes;
		uint32_t waiting_max;
		bool dry_run;
	} tries[] = {{0, 0, false}, {500, 0, false}, {0, 1, false}, {500, 3, false}, {500, 3, true}};
	char tree[96], name[160], repository[96];
	const char *paths[] = {tree};
	struct store_buf first = {0};
	struct store_codec codec;
	struct store *s;

	(void)state;
	store_codec_init(&codec, 0);
	snprintf(repository, sizeof(repository), "%s/names", folder);
	snprintf(tree, sizeof(tree), "%s/names.tree", folder);
	assert_int_equal(mkdir(tree, 0700), 0);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "%s/%d%s", tree, i * 7919 % 401, i % 3 == 0 ? " with a longer name" : "");
		if (i % 50 == 7) {
			assert_int_equal(mkdir(name, 0700), 0);
			snprintf(name + strlen(name), 20, "/in it");
		}
		write_bytes(name, (size_t)(i == 200 ? 3000000 : i), i == 200 ? 3000000 : i);
	}
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		const struct store_backup_options backup = {.paths = paths,
							    .paths_count = 1,
							    .host = "here",
							    .level = 1,
							    .threads = 2,
							    .note = ignore_note,
							    .dry_run = tries[i].dry_run,
							    .names_bytes = tries[i].names_bytes,
							    .waiting_max = tries[i].waiting_max};
		struct store_backup_stats stats;
		struct store_snapshot snapshot;

		assert_int_equal(store_backup(s, &backup, &snapshot, &stats), 0);
		assert_int_equal(stats.files, 400);
		if (!tries[i].dry_run) {
			const struct store_content root = store_snapshot_root(&snapshot);
			struct store_buf seen = {0};

			assert_int_equal(store_visit(s, &codec, &root, "", note_entry, &seen), 0);
			assert_true(first.size == 0 ||
				    (first.size == seen.size && memcmp(first.data, seen.data, seen.size) == 0));
			store_buf_free(&first);
			first = seen;
		}
		store_snapshot_free(&snapshot);
	}
	assert_true(first.size > 0);
	store_buf_free(&first);
	store_codec_free(&codec);
	store_close(s);
}

/* ------------------------------------------------------------------------------------------- a disk that cannot read */

static struct store_id bad_pack;
static uint64_t bad_begin, bad_end; /* of its bytes none can be read; until it is written again */
static bool bad_replaced;

static int get_around(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		      void *to, size_t bytes)
{
	if (kind == STORE_PACK && store_id_equal(name, &bad_pack) && offset < bad_end && offset + bytes > bad_begin)
		return store_fail(STORE_E_IO, "cannot read from %llu on", (unsigned long long)offset);
	return real_ops->get(b, kind, name, offset, to, bytes);
}

static int replace_bad(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		       size_t bytes)
{
	if (kind == STORE_PACK && store_id_equal(name, &bad_pack)) {
		bad_begin = bad_end = 0;
		bad_replaced = true;
	}
	return real_ops->replace(b, kind, name, data, bytes);
}

static void count_problem(void *user, const char *sentence)
{
	(void)sentence;
	++*(unsigned int *)user;
}

static void ignore_sentence(void *user, const char *sentence)
{
	(void)user;
	(void)sentence;
}

static size_t index_files(struct store *s)
{
	struct store_listed *names;
	size_t count;

	assert_int_equal(store_list_all(s->backend, STORE_INDEX, &names, &count), 0);
	free(names);
	return count;
}

/* What cannot be read stays, since that may pass, until somebody names it. */
static void give_up(struct store *s, const struct store_listed *packs, size_t count)
{
	struct store_salvage_options options = {.threads = 1, .level = 1, .told = ignore_sentence};
	struct store_salvage_result result;
	size_t tried = 0;

	for (size_t i = 0; i < count; i++) {
		if (packs[i].bytes < 1000000)
			continue;
		tried++;
		bad_pack = packs[i].name;
		bad_begin = 3 * 4096; /* a sector, for which there is parity */
		bad_end = bad_begin + 4096;
		assert_int_equal(store_salvage(s, &options, &result), 0);
		assert_int_equal(result.mendable_packs, 1);
		assert_int_equal(result.damaged_packs + result.unread_packs, 0);
		bad_begin = 0;
		bad_end = packs[i].bytes;
		assert_int_equal(store_salvage(s, &options, &result), 0);
		assert_int_equal(result.unread_packs, 1);
		assert_int_equal(result.damaged_packs + result.mendable_packs + result.lost_blobs, 0);
		options.packs = &bad_pack;
		options.packs_count = 1;
		assert_int_equal(store_salvage(s, &options, &result), 0);
		assert_int_equal(result.damaged_packs, 1);
		assert_true(result.lost_blobs > 0);
		bad_end = 0;
		break;
	}
	assert_int_equal(tried, 1);
}

/* With parity a sector that cannot be read is mended as a damaged one is; more than parity makes good is told, and the rest goes on. */
static void what_cannot_be_read_is_mended(void **state)
{
	const struct store_form form = {.version = STORE_VERSION, .parity = 1};
	static struct store_backend_ops hooked;
	char tree[96], name[128], repository[96];
	const char *paths[] = {tree};
	const struct store_backup_options backup = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = ignore_note};
	unsigned int problems = 0, mended = 0;
	struct store_check_options check = {
		.problem = count_problem, .user = &problems, .threads = 1, .repair = true, .read_data = true};
	struct store_check_result result;
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store_listed *packs;
	struct store *s;
	size_t count;

	(void)state;
	snprintf(repository, sizeof(repository), "%s/sectors", folder);
	snprintf(tree, sizeof(tree), "%s/sectors.tree", folder);
	assert_int_equal(mkdir(tree, 0700), 0);
	snprintf(name, sizeof(name), "%s/file", tree);
	write_bytes(name, 5000000, 5000000);
	assert_int_equal(store_create_as(&(struct store_place){.path = repository}, NULL, NULL, &form, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &backup, &snapshot, &stats), 0);
	store_snapshot_free(&snapshot);
	real_ops = s->backend->ops;
	hooked = *real_ops;
	hooked.get = get_around;
	hooked.replace = replace_bad;
	s->backend->ops = &hooked;
	assert_int_equal(store_list_all(s->backend, STORE_PACK, &packs, &count), 0);
	for (size_t i = 0; i < count; i++) {
		/* the beginning, the inside, the end */
		const uint64_t sectors[] = {0, 3 * 4096, (packs[i].bytes - 1) / 4096 * 4096};

		for (size_t k = 0; k < 3 && packs[i].bytes > 1000000; k++) {
			bad_pack = packs[i].name;
			bad_begin = sectors[k];
			bad_end = bad_begin + 4096;
			bad_replaced = false;
			assert_int_equal(store_check(s, &check, &result), 0);
			assert_int_equal(result.problems, 0);
			assert_int_equal(result.mended, 1);
			assert_true(bad_replaced);
			mended++;
		}
	}
	assert_true(mended > 0);
	for (size_t i = 0; i < count; i++) { /* all of a pack */
		bad_pack = packs[i].name;
		bad_begin = 0;
		bad_end = packs[i].bytes;
		problems = 0;
		assert_int_equal(store_check(s, &check, &result), 0);
		assert_int_equal(result.mended, 0);
		assert_true(problems > 0);
	}
	/* reading may work again: the old index still names those packs */
	bad_end = 0;
	assert_true(index_files(s) > 0);
	check.repair = false;
	assert_int_equal(store_check(s, &check, &result), 0);
	assert_int_equal(result.problems, 0);
	give_up(s, packs, count);
	assert_int_equal(store_check(s, &check, &result), 0);
	assert_true(result.problems > 0 && result.bad_packs == 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &backup, &snapshot, &stats), 0);
	store_snapshot_free(&snapshot);
	assert_int_equal(store_check(s, &check, &result), 0);
	assert_int_equal(result.problems, 0);
	free(packs);
	s->backend->ops = real_ops;
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_come_back),
		cmocka_unit_test(numbers_have_one_form),
		cmocka_unit_test(strings_stay_inside),
		cmocka_unit_test(entries_come_back),
		cmocka_unit_test(names_that_lead_elsewhere_are_refused),
		cmocka_unit_test(contents_must_add_up),
		cmocka_unit_test(any_bytes_are_survived),
		cmocka_unit_test(what_is_protected_is_opened_and_nothing_else),
		cmocka_unit_test(passwords_become_keys_within_limits),
		cmocka_unit_test(blobs_are_bound_to_their_names),
		cmocka_unit_test(patterns_match_as_in_gitignore),
		cmocka_unit_test(the_last_pattern_decides),
		cmocka_unit_test(a_policy_keeps_the_last_of_each_period),
		cmocka_unit_test(every_repository_cuts_elsewhere),
		cmocka_unit_test(no_name_leaves_the_target),
		cmocka_unit_test(a_group_is_not_believed),
		cmocka_unit_test(impossible_groups_are_no_headers),
		cmocka_unit_test(check_beside_a_backup_finds_nothing),
		cmocka_unit_test(a_first_backup_is_measured),
		cmocka_unit_test(a_large_file_goes_on_where_it_was_cut_off),
		cmocka_unit_test(notes_that_do_not_fit_count_for_nothing),
		cmocka_unit_test(cleaning_leaves_what_is_being_written),
		cmocka_unit_test(what_cannot_be_read_is_mended),
		cmocka_unit_test(a_file_that_changes_meanwhile_is_told),
		cmocka_unit_test(a_parent_that_goes_meanwhile_is_no_reason_to_skip),
		cmocka_unit_test(names_come_in_order),
		cmocka_unit_test(a_directory_with_little_memory_is_the_same),
	};

	return cmocka_run_group_tests_name("store", tests, make_folder, remove_folder);
}
