/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of device-API callers in which each lane has a name, a range or a page of its own (device/caller_each.c). */
#include <pthread.h>

#include "caller_fixture.h"

#define THREADS 8u

/* What all lanes of a kernel do in g4d_unmap_each(), but for what is left to the leader: left[] by lane. */
static bool left[64];

static void unmap_lanes(struct g4_wg *by, void *args)
{
	const struct g4_caller *caller = (const struct g4_caller *)args;
	const uint32_t lane = g4_wg_lane(by);

	left[lane] = caller->lane[lane].result == 0 && !g4_caller_unmap_lane(&callers, caller->lane[lane].page.line);
	const uint64_t count = g4_reduce_sum(by, caller->lane[lane].result == 0);
	if (lane == 0)
		g4_caller_unpin(&callers, (uint32_t)count);
}

/* ------------------------------------------------------------------ each lane its own */

#define ANY_LANE(caller, k) for (uint32_t k = 0; k < g4_wg_width((caller)->wg); k++)

static uint64_t all_lanes(const struct g4_caller *caller)
{
	return UINT64_MAX >> (64 - g4_wg_width(caller->wg));
}

static void want_name(struct g4_caller *caller, uint32_t lane, const char *name, bool attr)
{
	caller->lane[lane].name = name;
	caller->lane[lane].bytes = strlen(name);
	caller->lane[lane].wants_attr = attr;
}

static void want_range(struct g4_caller *caller, uint32_t lane, uint64_t offset, uint64_t bytes, void *to)
{
	caller->lane[lane].to = to;
	caller->lane[lane].bytes = bytes;
	caller->lane[lane].offset = offset;
}

/* What a lane got is what the plain call gives. */
static void expect_plain_lookup(struct g4_caller *caller, const struct g4_caller_file *dir, uint32_t lane)
{
	const struct g4_caller_lane got = caller->lane[lane];
	const struct g4_attr attr = *g4_caller_attr_of(caller, lane);

	if (got.bytes == 0) {
		assert_int_equal(got.result, 0);
		return;
	}
	assert_int_equal(got.result, g4_caller_lookup(caller, dir, got.name, got.bytes));
	if (got.result < 0)
		return;
	assert_int_equal(got.ino, caller->attr.ino);
	if (got.wants_attr)
		assert_memory_equal(&attr, &caller->attr, sizeof(attr));
}

static void names_of_all_lanes_lead_where_plain_lookups_lead(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	char long_name[101] = "", too_long[G4_NAME_MAX + 2] = "";
	const char *names[] = {"one",  "two",	  "three", "again",  "sub",
			       "link", long_name, "none",  "four",   "",
			       ".",    "..",	  "a/b",   too_long, "sub",
			       "one",  "twofo",	  "tw",	   "two",    "exactly 32 bytes of name, not 33",
			       "z"};
	const uint32_t count = sizeof(names) / sizeof(names[0]);
	struct g4_caller_file dir, file, none = {0};
	uint64_t ino, sub;

	(void)state;
	memset(long_name, 'l', sizeof(long_name) - 1);
	memset(too_long, 'x', sizeof(too_long) - 1);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "sub", 0700, &sub), 0);
	assert_int_equal(op_symlink(&rig, ino, "link", "one", NULL), 0);
	for (uint32_t i = 0; i < count; i++) {
		char path[G4_NAME_MAX + 20];
		if (strchr(names[i], '/') || names[i][0] == '.' || !names[i][0] || strlen(names[i]) > G4_NAME_MAX ||
		    strcmp(names[i], "sub") == 0 || strcmp(names[i], "link") == 0 || strcmp(names[i], "none") == 0 ||
		    strcmp(names[i], "again") == 0)
			continue;
		snprintf(path, sizeof(path), "/dir/%s", names[i]);
		file = make_file(caller, path, 1 + i * 100);
		assert_int_equal(g4_caller_close(caller, &file), 0);
	}
	struct g4_attr one;
	assert_int_equal(op_lookup(&rig, ino, "one", &one), 0);
	assert_int_equal(op_link(&rig, one.ino, ino, "again"), 0);
	assert_int_equal(open_at(caller, NULL, "/dir", &to_read, &dir), 0);
	for (uint32_t round = 0; round < 4 * count; round++) {
		ANY_LANE(caller, k)
		want_name(caller, k, names[(round + k * (1 + round / count)) % count], round % 3 != 0);
		g4_caller_lookup_each(caller, &dir);
		ANY_LANE(caller, k)
		expect_plain_lookup(caller, &dir, k);
	}
	/* a name that everybody knows needs no leader, nor does one inode in every lane */
	ANY_LANE(caller, k)
	want_name(caller, k, k % 2 ? "one" : "again", true);
	g4_caller_lookup_each(caller, &dir);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_int_equal(caller->left, 0);
	ANY_LANE(caller, k)
	expect_plain_lookup(caller, &dir, k);
	/* it goes: nobody finds it */
	assert_int_equal(op_unlink(&rig, ino, "one"), 0);
	assert_int_equal(op_rename(&rig, ino, "two", ino, "again", 0), 0);
	for (uint32_t attr = 0; attr < 2; attr++) {
		ANY_LANE(caller, k)
		want_name(caller, k, k % 2 ? "one" : "again", attr);
		g4_caller_lookup_each(caller, &dir);
		ANY_LANE(caller, k)
		expect_plain_lookup(caller, &dir, k);
	}
	/* not a directory, not open, not allowed */
	assert_int_equal(open_at(caller, NULL, "/dir/three", &to_read, &file), 0);
	ANY_LANE(caller, k)
	want_name(caller, k, "three", true);
	g4_caller_lookup_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_NOTDIR);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_lookup_each(caller, &none);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	struct g4_attr locked = {.mode = 0700};
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &locked), 0);
	callers.cred.uid = callers.cred.gid = 1000;
	g4_caller_lookup_each(caller, &dir);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_ACCES);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/* Ranges like those of programs: records, pages, pieces over page ends, behind the end; from all lanes. */
static struct g4_cache_counts counts(void)
{
	struct g4_cache_counts now;

	g4_cache_count_all(&rig.fs->cache, &now);
	return now;
}

static void ranges_of_all_lanes_are_what_plain_reads_give(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	static const uint64_t size = 20 * G4_PAGE_BYTES + 100;
	static const uint64_t ranges[][2] = {{0, 16},
					     {4096, 4096},
					     {5, 64},
					     {5, 65},
					     {8000, 500},
					     {20 * 4096, 4096},
					     {20 * 4096 + 50, 10},
					     {20 * 4096 + 90, 100},
					     {20 * 4096 + 100, 1},
					     {UINT64_MAX, 4096},
					     {UINT64_MAX - 100, 4096},
					     {123, 0},
					     {8192, 1},
					     {3, 4093},
					     {4095, 2},
					     {40960, 20000},
					     {12288, 4096}};
	const uint32_t count = sizeof(ranges) / sizeof(ranges[0]), room = 32768;
	struct g4_caller_file file, quiet, dir;
	static const struct g4_caller_open only_write = {.flags = G4_OPEN_WRITE};
	static const struct g4_caller_open quietly = {.flags = G4_OPEN_READ | G4_OPEN_NOATIME, .noatime = true};

	(void)state;
	file = make_file(caller, "/file", size);
	for (uint32_t round = 0; round < 6 * count; round++) {
		if (round % 10 == 0) { /* nothing of it is in the cache */
			assert_int_equal(g4_caller_fsync(caller, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		memset(buffer, 0xcc, (size_t)room * (g4_wg_width(caller->wg) + 1));
		ANY_LANE(caller, k)
		{
			const uint64_t *range = ranges[(round * 5 + k) % count];
			want_range(caller, k, range[0], range[1], buffer + (uint64_t)k * room + round % 17);
		}
		g4_caller_read_each(caller, &file);
		ANY_LANE(caller, k)
		{
			const struct g4_caller_lane *lane = &caller->lane[k];
			const uint8_t *got = (const uint8_t *)lane->to;
			const uint64_t bytes = lane->offset < size ? g4_min64(lane->bytes, size - lane->offset) : 0;
			assert_int_equal(lane->result, bytes);
			if (bytes)
				assert_memory_equal(got, data + lane->offset, bytes);
			for (uint64_t i = bytes; i < room - 17; i++)
				assert_int_equal(got[i], 0xcc);
		}
	}
	/* what is cached needs no leader; a write shows; the access time moves, but by a quiet handle */
	ANY_LANE(caller, k)
	want_range(caller, k, k * G4_PAGE_BYTES, G4_PAGE_BYTES, buffer + k * G4_PAGE_BYTES);
	assert_int_equal(g4_caller_write(caller, &file, 3, "new", 3), 3);
	memcpy(data + 3, "new", 3);
	g4_caller_read_each(caller, &file); /* brings in what the last round dropped */
	assert_int_equal(g4_caller_write(caller, &file, 0, data, 1), 1);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	const uint64_t before = caller->attr.atime_ns;
	assert_int_equal(open_at(caller, NULL, "/file", &quietly, &quiet), 0);
	const struct g4_cache_counts counted = counts();
	g4_caller_read_each(caller, &quiet);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_int_equal(counts().peeked - counted.peeked, g4_wg_width(caller->wg));
	assert_int_equal(counts().hits[G4_CACHE_DATA] - counted.hits[G4_CACHE_DATA], g4_wg_width(caller->wg));
	assert_memory_equal(buffer, data, G4_PAGE_BYTES * g4_wg_width(caller->wg));
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.atime_ns, before);
	g4_caller_read_each(caller, &file);
	assert_int_equal(caller->done, all_lanes(caller));
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_true(caller->attr.atime_ns > before);
	assert_int_equal(g4_caller_close(caller, &quiet), 0);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	/* closed, not for reading, a directory */
	g4_caller_read_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(open_at(caller, NULL, "/file", &only_write, &file), 0);
	g4_caller_read_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(open_at(caller, NULL, "/", &to_read, &dir), 0);
	g4_caller_read_each(caller, &dir);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_ISDIR);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

/* As g4d_unmap_each(). How many of them were the leader's. */
static uint32_t unmap_each(struct g4_caller *caller)
{
	uint32_t count = 0;

	g4_region(caller->wg, G4_REGION_USER, unmap_lanes, caller);
	ANY_LANE(caller, k)
	if (left[k]) {
		g4_caller_unmap(&callers, caller->lane[k].page.line, false);
		count++;
	}
	return count;
}

/* Fills the ways of a line's set with lines that somebody uses; `held` gets them. */
static void crowd(uint32_t line, uint32_t held[G4_CACHE_WAYS])
{
	struct g4_cache *cache = &rig.fs->cache;
	const uint64_t owner = UINT64_C(1) << 60;
	uint64_t index = 0;
	bool fresh;

	for (;; index++) { /* neighbouring pages are of neighbouring sets */
		held[0] = g4_cache_get(NULL, cache, owner, index, false, &fresh);
		g4_cache_filled(cache, held[0]);
		if (held[0] / G4_CACHE_WAYS == line / G4_CACHE_WAYS)
			break;
		g4_cache_put(cache, held[0]);
	}
	for (uint32_t k = 1; k < G4_CACHE_WAYS; k++) {
		held[k] = g4_cache_get(NULL, cache, owner, index + (uint64_t)k * cache->set_count, false, &fresh);
		g4_cache_filled(cache, held[k]);
	}
}

static void pages_of_all_lanes_are_mapped_and_counted(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const uint32_t limit = rig.fs->cache.pin_limit, width = g4_wg_width(caller->wg);
	uint32_t lines[FILE_PAGES], held[G4_CACHE_WAYS], good = 0, line;
	uint64_t found_by_lanes = 0, found_in_all = 0;
	struct g4_caller_file file = make_file(caller, "/file", 20 * G4_PAGE_BYTES + 100);

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		if (round % 8 == 0) {
			assert_int_equal(g4_caller_fsync(caller, &file), 0);
			g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
		}
		ANY_LANE(caller, k)
		caller->lane[k].offset = round % 5 == 4 && k % 2 ? UINT64_MAX : (round + k * 7) % 23 * 4000;
		const uint64_t before = counts().peeked;
		g4_caller_map_each(caller, &file);
		uint32_t mapped = 0;
		found_by_lanes += counts().peeked - before;
		ANY_LANE(caller, k)
		{
			const struct g4_caller_lane *lane = &caller->lane[k];
			const uint64_t at = g4_align_down(lane->offset, G4_PAGE_BYTES);
			if (lane->offset > 21 * G4_PAGE_BYTES) {
				assert_int_equal(lane->result, -G4_E_NXIO);
				continue;
			}
			assert_int_equal(lane->result, 0);
			assert_int_equal(lane->page.bytes, at < 20 * G4_PAGE_BYTES ? G4_PAGE_BYTES : 100);
			assert_memory_equal(lane->page.data, data + at, lane->page.bytes);
			mapped++;
		}
		assert_int_equal(rig.fs->cache.pins, mapped);
		found_in_all += mapped;
		assert_int_equal(unmap_each(caller), 0);
		assert_int_equal(rig.fs->cache.pins, 0);
	}
	assert_true(found_by_lanes > 0 && found_by_lanes < found_in_all);
	/* one at a time, without a leader */
	const uint64_t before = counts().peeked;
	assert_int_equal(g4_caller_map(caller, &file, 1, false), 0);
	g4_caller_unmap(&callers, caller->page.line, false);
	assert_non_null(g4_caller_peek(&callers, &file, 1, &line));
	g4_caller_unpeek(&callers, line);
	assert_null(g4_caller_peek(&callers, &file, 1000, &line));
	assert_int_equal(counts().peeked - before, 1);
	/* with room for one more, one lane gets its page */
	for (uint32_t i = 0; i + 1 < limit; i++) {
		assert_int_equal(g4_caller_map(caller, &file, i % 20, true), 0);
		lines[i] = caller->page.line;
	}
	ANY_LANE(caller, k)
	caller->lane[k].offset = k * G4_PAGE_BYTES;
	g4_caller_map_each(caller, &file);
	ANY_LANE(caller, k)
	{
		assert_true(caller->lane[k].result == 0 || caller->lane[k].result == -G4_E_NOMEM);
		good += caller->lane[k].result == 0;
	}
	assert_int_equal(good, 1);
	assert_int_equal(rig.fs->cache.pins, limit);
	unmap_each(caller);
	for (uint32_t i = 0; i + 1 < limit; i++)
		g4_caller_unmap(&callers, lines[i], true);
	/* a line of the pool is the leader's to find and to give back */
	assert_int_equal(g4_caller_fsync(caller, &file), 0);
	assert_int_equal(g4_caller_map(caller, &file, 0, false), 0);
	g4_caller_unmap(&callers, caller->page.line, false);
	g4_cache_drop_range(&rig.fs->cache, file.key, 0, 100);
	crowd(caller->page.line, held);
	g4_caller_map_each(caller, &file);
	assert_int_equal(caller->lane[0].result, 0);
	assert_true(caller->lane[0].page.line >= rig.fs->cache.overflow_first);
	assert_memory_equal(caller->lane[0].page.data, data, G4_PAGE_BYTES);
	assert_int_equal(rig.fs->cache.pins, width);
	assert_int_equal(unmap_each(caller), 1);
	for (uint32_t k = 0; k < G4_CACHE_WAYS; k++)
		g4_cache_put(&rig.fs->cache, held[k]);
	/* closed */
	assert_int_equal(g4_caller_close(caller, &file), 0);
	g4_caller_map_each(caller, &file);
	ANY_LANE(caller, k)
	assert_int_equal(caller->lane[k].result, -G4_E_BADF);
	assert_int_equal(unmap_each(caller), 0);
	g4_caller_leave(caller);
}

/* ------------------------------------------------------------------ while others change it */

#define CUT_PAGES 8u

/* A directory and a file that one thread changes, and what others may see of them. */
static struct {
	uint32_t stop;
	struct g4_caller_file dir, file;
	uint64_t stays, moves, sub;
} busy;

struct looker {
	pthread_t thread;
	uint64_t wrong, alone;
	uint32_t number;
};

static const char *const busy_names[] = {"stays", "again", "here", "there", "comes and goes", "owned", "sub", "none"};

/* Whether that is what a lookup can give at some moment. */
static bool is_right(const struct g4_caller_lane *lane, const struct g4_attr *attr)
{
	const bool there = lane->result == 0;

	if (!there && lane->result != -G4_E_NOENT)
		return false;
	if (there && lane->wants_attr && attr->ino != lane->ino)
		return false;
	if (lane->name == busy_names[0] || lane->name == busy_names[1])
		return there && lane->ino == busy.stays && (!lane->wants_attr || attr->size == 77);
	if (lane->name == busy_names[2] || lane->name == busy_names[3])
		return !there || (lane->ino == busy.moves && (!lane->wants_attr || attr->size == 55));
	if (lane->name == busy_names[4]) /* the number may belong to any inode by the time its attributes are read */
		return !there || lane->ino != 0;
	if (lane->name == busy_names[5])
		return there && (!lane->wants_attr || attr->uid == attr->gid);
	if (lane->name == busy_names[6])
		return there && lane->ino == busy.sub && (!lane->wants_attr || g4_is_dir(attr->mode));
	return !there;
}

static void look(struct looker *l, struct g4_caller *caller, uint64_t *random)
{
	ANY_LANE(caller, k)
	want_name(caller, k, busy_names[rig_random(random) % 8], rig_random(random) % 2);
	g4_caller_lookup_each(caller, &busy.dir);
	ANY_LANE(caller, k)
	l->wrong += !is_right(&caller->lane[k], g4_caller_attr_of(caller, k));
	l->alone += caller->left == 0;
}

/* Pages are written whole, with one value: read under the lock, they are all of it. */
static void read_busy(struct looker *l, struct g4_caller *caller, uint64_t *random, uint8_t *to)
{
	ANY_LANE(caller, k)
	want_range(caller, k, rig_random(random) % CUT_PAGES * G4_PAGE_BYTES,
		   rig_random(random) % 2 ? G4_PAGE_BYTES : 48, to + k * G4_PAGE_BYTES);
	g4_caller_read_each(caller, &busy.file);
	ANY_LANE(caller, k)
	{
		const struct g4_caller_lane *lane = &caller->lane[k];
		const uint8_t *got = (const uint8_t *)lane->to;
		l->wrong += lane->result != 0 && lane->result != (int64_t)lane->bytes;
		for (int64_t i = 1; i < lane->result; i++)
			l->wrong += got[i] != got[0];
	}
	l->alone += caller->left == 0;
}

static void map_busy(struct looker *l, struct g4_caller *caller, uint64_t *random)
{
	ANY_LANE(caller, k)
	caller->lane[k].offset = rig_random(random) % CUT_PAGES * G4_PAGE_BYTES;
	g4_caller_map_each(caller, &busy.file);
	ANY_LANE(caller, k)
	{
		const struct g4_caller_lane *lane = &caller->lane[k];
		l->wrong += lane->result != 0 && lane->result != -G4_E_NXIO;
		l->wrong += lane->result == 0 && lane->page.bytes != G4_PAGE_BYTES;
	}
	ANY_LANE(caller, k)
	if (caller->lane[k].result == 0)
		g4_caller_unmap(&callers, caller->lane[k].page.line, true);
}

static void *look_around(void *argument)
{
	struct looker *l = (struct looker *)argument;
	uint8_t *to = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 64 * G4_PAGE_BYTES);
	uint64_t random = l->number + 1;

	if (!to)
		l->wrong++;
	while (to && !g4_load32_acq(&busy.stop)) {
		struct g4_caller *caller = g4_caller_enter(&callers, l->number);
		look(l, caller, &random);
		read_busy(l, caller, &random, to);
		map_busy(l, caller, &random);
		g4_caller_leave(caller);
	}
	free(to);
	return NULL;
}

/* One change of each kind. */
static void change(uint32_t round, uint64_t owned)
{
	struct g4_attr owner = {.uid = round, .gid = round};
	uint8_t page[G4_PAGE_BYTES];

	assert_int_equal(op_rename(&rig, busy.dir.ino, busy_names[2 + round % 2], busy.dir.ino,
				   busy_names[3 - round % 2], 0),
			 0);
	if (round % 2)
		assert_int_equal(op_unlink(&rig, busy.dir.ino, busy_names[4]), 0);
	else
		assert_int_equal(op_mknod(&rig, busy.dir.ino, busy_names[4], G4_S_IFREG | 0600, NULL), 0);
	assert_int_equal(op_setattr(&rig, owned, G4_SET_UID | G4_SET_GID, &owner), 0);
	memset(page, (int)(round & 0xff), sizeof(page));
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(op_write(&rig, busy.file.ino, 0, (round + k) % CUT_PAGES * G4_PAGE_BYTES, page,
					  sizeof(page), NULL),
				 0);
	if (round % 4 == 0)
		assert_int_equal(op_truncate(&rig, busy.file.ino, 0), 0);
	if (round % 4 == 1)
		assert_int_equal(op_truncate(&rig, busy.file.ino, CUT_PAGES * G4_PAGE_BYTES), 0);
	if (round % 32 == 2)
		assert_int_equal(op_fsync(&rig, busy.file.ino), 0);
}

static void all_lanes_see_what_others_change_in_whole(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	struct looker lookers[PLACES];
	struct g4_caller_file file;
	uint64_t dir, owned, alone = 0;

	(void)state;
	memset(&busy, 0, sizeof(busy));
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "busy", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, busy_names[6], 0755, &busy.sub), 0);
	file = make_file(caller, "/busy/stays", 77);
	busy.stays = file.ino;
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(op_link(&rig, busy.stays, dir, busy_names[1]), 0);
	file = make_file(caller, "/busy/here", 55);
	busy.moves = file.ino;
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(op_mknod(&rig, dir, busy_names[5], G4_S_IFREG | 0600, &owned), 0);
	busy.file = make_file(caller, "/file", 0);
	assert_int_equal(open_at(caller, NULL, "/busy", &to_read, &busy.dir), 0);
	g4_caller_leave(caller);
	for (uint32_t k = 0; k < PLACES; k++) {
		lookers[k] = (struct looker){.number = k};
		assert_int_equal(pthread_create(&lookers[k].thread, NULL, look_around, &lookers[k]), 0);
	}
	for (uint32_t round = 0; round < (rig_slow() ? 400 : 4000); round++)
		change(round, owned);
	g4_store32_rel(&busy.stop, 1);
	for (uint32_t k = 0; k < PLACES; k++) {
		pthread_join(lookers[k].thread, NULL);
		assert_int_equal(lookers[k].wrong, 0);
		alone += lookers[k].alone;
	}
	assert_true(alone > 0);
	caller = g4_caller_enter(&callers, 0);
	assert_int_equal(g4_caller_close(caller, &busy.dir), 0);
	assert_int_equal(g4_caller_close(caller, &busy.file), 0);
	g4_caller_leave(caller);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		caller_test(names_of_all_lanes_lead_where_plain_lookups_lead),
		caller_test(ranges_of_all_lanes_are_what_plain_reads_give),
		caller_test(pages_of_all_lanes_are_mapped_and_counted),
		caller_test(all_lanes_see_what_others_change_in_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
