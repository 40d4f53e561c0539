/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgetting by a policy, and pruning. A crash anywhere in prune leaves a repository that is whole: new packs and a new index that
 * names them come first, then the old index goes, then the old packs (FORMAT.md, section 10).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/backend.h"
#include "store/blob.h"
#include "store/maintain.h"
#include "store/marks.h"
#include "store/packer.h"
#include "store/replace.h"

/* --------------------------------------------------------------------------------------------------------- policy */

enum period { HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY, PERIODS };

/* The same number for two moments of one period of local time, and no other. */
static int64_t period_of(const struct store_snapshot *snapshot, enum period period)
{
	const time_t at = (time_t)snapshot->time.seconds;
	struct tm t;
	char week[16];

	if (localtime_r(&at, &t) == NULL)
		return snapshot->time.seconds;
	const int64_t year = t.tm_year + 1900;
	switch (period) {
	case HOURLY:
		return ((year * 12 + t.tm_mon) * 31 + t.tm_mday) * 24 + t.tm_hour;
	case DAILY:
		return (year * 12 + t.tm_mon) * 31 + t.tm_mday;
	case WEEKLY:
		strftime(week, sizeof(week), "%G%V", &t);
		return atoll(week);
	case MONTHLY:
		return year * 12 + t.tm_mon;
	default:
		return year;
	}
}

static bool has_tags(const struct store_snapshot *snapshot, const char *list)
{
	for (;;) {
		const size_t bytes = strcspn(list, ",");
		bool found = false;

		for (size_t i = 0; i < snapshot->tags_count; i++)
			found = found ||
				(strlen(snapshot->tags[i]) == bytes && memcmp(snapshot->tags[i], list, bytes) == 0);
		if (!found)
			return false;
		if (list[bytes] == 0)
			return true;
		list += bytes + 1;
	}
}

/*
 * Counted from the newest snapshot, or from now where that is earlier: a snapshot of a clock that was ahead, or of somebody who wants the others gone,
 * makes nothing older than it is; nor does this machine's clock when it is ahead.
 */
static bool is_within(const struct store_snapshot *snapshot, const struct store_snapshot *newest, int64_t now,
		      int64_t seconds)
{
	const int64_t from = newest->time.seconds < now ? newest->time.seconds : now;

	return snapshot->time.seconds >= from || (uint64_t)from - (uint64_t)snapshot->time.seconds <= (uint64_t)seconds;
}

void store_policy_apply(const struct store_policy *policy, const struct store_snapshot *list, size_t count, int64_t now,
			bool *keep)
{
	uint32_t left[PERIODS] = {policy->hourly, policy->daily, policy->weekly, policy->monthly, policy->yearly};
	uint32_t last = policy->last;
	int64_t before[PERIODS];

	for (size_t i = count; i-- > 0;) {
		const struct store_snapshot *snapshot = &list[i];

		keep[i] = last > 0;
		last -= last > 0;
		if (policy->within_seconds > 0 && is_within(snapshot, &list[count - 1], now, policy->within_seconds))
			keep[i] = true;
		for (size_t tag = 0; tag < policy->tags_count; tag++)
			keep[i] = keep[i] || has_tags(snapshot, policy->tags[tag]);
		for (int p = 0; p < PERIODS; p++) {
			const int64_t period = period_of(snapshot, (enum period)p);

			const bool last_of_it = i + 1 == count || period != before[p];

			if (left[p] > 0 && last_of_it) {
				keep[i] = true;
				left[p]--;
			}
			if (policy->within[p] > 0 && last_of_it &&
			    is_within(snapshot, &list[count - 1], now, policy->within[p]))
				keep[i] = true;
			before[p] = period;
		}
	}
}

/* ---------------------------------------------------------------------------------------------------------- prune */

struct pack_use {
	uint32_t pack;
	uint64_t used_blobs;   /* these decide: a small blob's share of its group is 0 bytes */
	uint64_t used, unused; /* bytes */
};

static void no_problem(void *user, const char *sentence)
{
	char *first = (char *)user;

	if (first[0] == 0)
		snprintf(first, STORE_TEXT_BYTES, "%s", sentence);
}

/* The most unused share first. */
static int by_waste(const void *a, const void *b)
{
	const struct pack_use *left = (const struct pack_use *)a, *right = (const struct pack_use *)b;
	const double x = (double)left->unused / (double)(left->used + left->unused + 1);
	const double y = (double)right->unused / (double)(right->used + right->unused + 1);

	return x > y ? -1 : x < y;
}

static int move_blob(struct store *s, struct store_codec *codec, struct store_packer *packer, uint32_t number,
		     const struct store_entry *entry, struct store_buf *raw, struct store_buf *stored)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	const int rc = store_blob_open(s, codec, entry, stored, raw);

	return rc != 0 ? rc : store_packer_add(packer, type, number, &entry->id, stored, entry->raw);
}

static int add_group(struct store *s, struct store_codec *codec, struct store_packer *packer, struct store_group *group,
		     struct store_buf *stored)
{
	stored->size = 0;
	store_group_protect(s, codec, group->raw.data, group->raw.size, stored);
	const int rc = store_packer_add_group(packer, group, stored);
	store_group_clear(group);
	return rc;
}

/* A member of a group, into a new one. */
static int regroup(struct store *s, struct store_codec *codec, struct store_packer *packer, struct store_group *group,
		   uint32_t number, const struct store_entry *entry, struct store_buf *raw, struct store_buf *stored)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	const int rc = store_blob_get(s, codec, type, &entry->id, raw);

	if (rc != 0 || !store_group_add(group, type, number, &entry->id, raw->data, raw->size))
		return rc;
	return add_group(s, codec, packer, group, stored);
}

/* Moves the used blobs of the packs that go to new ones. They are opened on the way: what is damaged must not be all that is left. */
static int repack(struct store *s, const struct store_marks *marks, uint64_t blobs, const bool *keep,
		  const struct store_prune_options *options, const struct store_prune_result *result)
{
	struct store_packer *packer = store_packer_open(s);
	struct store_buf raw = {0}, stored = {0};
	struct store_group groups[3] = {0}; /* by type */
	struct store_codec codec;
	uint64_t done = 0;
	int rc = 0;

	store_codec_init(&codec, options->level);
	for (uint64_t i = 0; i < blobs && rc == 0; i++) {
		struct store_entry entry;

		if (!marks->used[i])
			continue;
		rc = store_index_at(s, (uint32_t)i, &entry);
		if (rc != 0)
			break;
		if (entry.pack == STORE_PACK_PENDING || keep[entry.pack])
			continue;
		rc = entry.grouped ?
			     regroup(s, &codec, packer, &groups[entry.type], (uint32_t)i, &entry, &raw, &stored) :
			     move_blob(s, &codec, packer, (uint32_t)i, &entry, &raw, &stored);
		done += entry.grouped ? entry.raw : entry.stored;
		if (options->progress != NULL)
			options->progress(options->user, g4_min64(done, result->repacked_bytes),
					  result->repacked_bytes);
	}
	for (int type = STORE_DATA; type <= STORE_TREE; type++) {
		if (rc == 0 && groups[type].count > 0)
			rc = add_group(s, &codec, packer, &groups[type], &stored);
		store_group_free(&groups[type]);
	}
	if (rc == 0)
		rc = store_packer_finish(packer);
	store_packer_close(packer);
	store_codec_free(&codec);
	store_buf_free(&raw);
	store_buf_free(&stored);
	return rc;
}

/* Packs that are in no index file: of backups that did not finish; nobody works now, the lock is exclusive. */
static void count_unknown(const struct store_listed *packs, size_t count, const struct store_id *known,
			  size_t known_count, struct store_prune_result *result)
{
	for (size_t i = 0; i < count; i++)
		if (known_count == 0 ||
		    bsearch(&packs[i].name, known, known_count, STORE_ID_BYTES, store_id_order) == NULL) {
			result->removed_packs++;
			result->removed_bytes += packs[i].bytes;
		}
}

/* A pack that the index names and that is not there, or otherwise: what it held would be given up for good. */
static int check_there(struct store *s, uint32_t known, const struct store_listed *packs, size_t count)
{
	char hex[STORE_HEX_BYTES];

	for (uint32_t i = 0; i < known; i++) {
		const struct store_pack pack = store_pack_at(s, i);
		const struct store_listed *found =
			count == 0 ? NULL :
				     (const struct store_listed *)bsearch(&pack.name, packs, count, sizeof(*packs),
									  store_id_order);

		if (found == NULL || found->bytes != pack.bytes)
			return store_fail(
				STORE_E_DAMAGED,
				"nothing is removed, because pack %.16s is missing or has another size; 'shredder "
				"check' tells more",
				store_hex(&pack.name, hex));
	}
	return 0;
}

struct choosing {
	const struct store_marks *marks;
	struct pack_use *use;
	struct store_prune_result *result;
};

static void count_blob(void *user, uint32_t number, const struct store_entry *entry, uint64_t stored)
{
	const struct choosing *c = (const struct choosing *)user;

	if (c->marks->used[number]) {
		c->use[entry->pack].used_blobs++;
		c->use[entry->pack].used += stored;
		c->result->used_blobs++;
		c->result->used_bytes += stored;
	} else {
		c->use[entry->pack].unused += stored;
		c->result->unused_blobs++;
		c->result->unused_bytes += stored;
	}
}

/* Which packs stay. */
static int choose(struct store *s, const struct store_marks *marks, uint32_t packs,
		  const struct store_prune_options *options, bool *keep, struct store_prune_result *result)
{
	struct pack_use *use = (struct pack_use *)store_alloc((packs + 1) * sizeof(*use));
	struct choosing choosing = {.marks = marks, .use = use, .result = result};
	double allowed;

	for (uint32_t i = 0; i < packs; i++)
		use[i].pack = i;
	const int rc = store_index_shares(s, count_blob, &choosing);
	/* a pack whose blobs all lie elsewhere too has neither */
	allowed = options->max_unused_bytes > 0 ? (double)options->max_unused_bytes :
						  options->max_unused * (double)result->used_bytes;
	result->left_unused_bytes = 0;
	for (uint32_t i = 0; i < packs; i++)
		if (use[i].used_blobs > 0)
			result->left_unused_bytes += use[i].unused;
	qsort(use, packs, sizeof(*use), by_waste);
	for (uint32_t i = 0; i < packs; i++) {
		const struct store_pack pack = store_pack_at(s, use[i].pack);

		keep[use[i].pack] = use[i].used_blobs > 0;
		if (use[i].used_blobs == 0) {
			result->removed_packs++;
			result->removed_bytes += pack.bytes;
		} else if (use[i].unused == 0 || (double)result->left_unused_bytes <= allowed) {
			continue;
		} else if (options->max_repack_bytes > 0 &&
			   result->repacked_bytes + use[i].used > options->max_repack_bytes) {
			if (result->waiting_least_bytes == 0 || use[i].used < result->waiting_least_bytes)
				result->waiting_least_bytes = use[i].used;
		} else {
			keep[use[i].pack] = false;
			result->left_unused_bytes -= use[i].unused;
			result->repacked_packs++;
			result->repacked_bytes += use[i].used;
			result->removed_bytes += use[i].unused;
		}
	}
	double left = (double)result->left_unused_bytes; /* less than when the first one that waits did not fit */
	for (uint32_t i = 0; i < packs && left > allowed; i++)
		if (keep[use[i].pack] && use[i].unused > 0) {
			result->waiting_packs++;
			left -= (double)use[i].unused;
		}
	free(use);
	return rc;
}

int store_prune(struct store *s, const struct store_prune_options *options, struct store_prune_result *result)
{
	struct store_listed *packs = NULL, *snapshots = NULL;
	char first[STORE_TEXT_BYTES] = "";
	struct store_marks marks;
	size_t count = 0, snapshots_count = 0;
	int rc = store_list_all(s->backend, STORE_SNAPSHOT, &snapshots, &snapshots_count);

	if (rc == 0 && !options->dry_run) /* nor may a snapshot come back without its data */
		rc = s->backend->ops->settle(s->backend, STORE_SNAPSHOT);
	memset(result, 0, sizeof(*result));
	if (rc == 0)
		rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = store_list_all(s->backend, STORE_PACK, &packs, &count);
	if (rc != 0) {
		free(snapshots);
		return rc;
	}
	const uint64_t blobs = store_index_count(s);
	const uint32_t known = store_pack_count(s);
	bool *keep = (bool *)store_alloc(known + 1);
	struct store_id *names = (struct store_id *)store_alloc((known + 1) * sizeof(*names));
	store_marks_begin(&marks, s, no_problem, first);
	store_marks_snapshots(&marks, snapshots, snapshots_count);
	if (marks.problems > 0)
		rc = store_fail(STORE_E_DAMAGED,
				"nothing is removed, because snapshots are not whole (%llu problems, the first: %s); "
				"'shredder check' tells more",
				(unsigned long long)marks.problems, first);
	if (rc == 0)
		rc = check_there(s, known, packs, count);
	if (rc == 0) {
		for (uint32_t i = 0; i < known; i++)
			names[i] = store_pack_at(s, i).name;
		if (known > 1)
			qsort(names, known, STORE_ID_BYTES, store_id_order);
		rc = choose(s, &marks, known, options, keep, result);
		count_unknown(packs, count, names, known, result);
	}
	if (rc == 0 && !options->dry_run && result->repacked_packs > 0)
		rc = repack(s, &marks, blobs, keep, options, result);
	if (rc == STORE_E_FULL)
		rc = store_fail(rc, "there is no room for what would be moved; 'shredder prune --max-unused unlimited' "
				    "removes what needs no move");
	if (rc == 0 && !options->dry_run && (result->removed_packs > 0 || result->repacked_packs > 0)) {
		rc = store_packs_replace(s, keep, known, packs, count);
		result->in_place = rc == STORE_E_FULL && result->removed_packs > 0 && result->repacked_packs == 0;
		if (result->in_place)
			rc = store_packs_replace_in_place(s, keep, known, packs, count);
	}
	if (rc == 0 && !options->dry_run)
		rc = s->backend->ops->clean(s->backend);
	store_marks_end(&marks);
	free(names);
	free(keep);
	free(packs);
	free(snapshots);
	return rc;
}
