/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and making sets. What is opened is judged by the superblocks alone, before anything is written:
 *
 * - The disk with the highest set generation speaks for the set; of those the one whose superblock is newest. One that misses
 * something by its own word was being rebuilt: it speaks only where all do. - A disk that it says has missed writes is stale,
 * and refused, unless it is the one that is being rebuilt: that is used as far as it has got. Each new generation says so of
 * all disks that were not there. A stale disk that says so of all that are not was written without them: the set was used in
 * two halves, and nobody can say which of them counts. If it says so of some, those were brought up to date while it was away.
 * Disks are compared by UUID: one that took the place of another was with nobody before. A disk that is not stale, and says so
 * of the one that speaks, was written without it, too: that one alone has its generation since a crash. - Disks that nobody
 * named are missing. Without one whose chunks others have as well a set can be read; it is written only when that was asked
 * for, and then the others say first that it misses something (set_label_host.c). - Spares are judged by the one that speaks, and put
 * aside: they never speak. - A name that can not be opened or read may be a disk, or a spare, whose loss is to cost nothing: it
 * is done without where all disks are there.
 *
 * Making: page 0 and the superblocks of all disks are wiped and that is made durable; the chunks are written before the first
 * superblock. So an interrupted mkfs leaves disks that are no set, or one that lacks some of its disks.
 */
#define _GNU_SOURCE 1

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log_host.h"
#include "base/units_host.h"
#include "base/uuid_host.h"
#include "format/layout.h"
#include "simt/simt_host.h"
#include "space/sealed.h"
#include "space/set_judge_host.h"
#include "space/set_parity_host.h"
#include "space/set_rows_host.h"
#include "space/set_spare_host.h"

struct candidate {
	_Alignas(G4_PAGE_BYTES) struct g4_superblock sb;
	struct g4_dev *dev;
	const char *name;
	struct g4_set_label_flaws flaws;
};

struct opening {
	struct g4_wg *wg;
	const struct g4_set_options *options;
	struct candidate *found;
	uint32_t count;
	uint32_t lead;				  /* the one that speaks for the set */
	struct g4_set_idle spares[G4_MAX_SPARES]; /* that were among them; their names are not copied */
	uint32_t spare_count;
	uint32_t at[G4_MAX_DISKS]; /* which of `found` is disk n; G4_MAX_DISKS: none */
	int absent; /* 0, or the code of the first name that could not be opened or read, and its sentence */
	char absent_text[512];
	struct g4_dev_message message;
};

/* ---- judging ---- */

static const char *uuid_text(const struct g4_superblock *sb, uint32_t disk, char text[G4_UUID_TEXT_BYTES])
{
	return g4_uuid_format(sb->disk_uuids[disk], text);
}

static int read_labels(struct opening *o)
{
	for (uint32_t n = 0; n < o->count; n++) {
		struct candidate *one = &o->found[n];
		const int rc = g4_set_read_label(o->wg, one->dev, &one->sb, &one->flaws);
		if (rc == -G4_E_SB_VERSION || rc == -G4_E_SB_FEATURE)
			return g4_dev_fail(o->message, rc, "%s: %s", one->name, g4_strerror(rc));
		if (rc == -G4_E_SB_MAGIC)
			return g4_dev_fail(
				o->message, rc,
				"%s: holds no gpu4fs file system; leave it out, and let it take the place of a "
				"missing disk with 'gpu4fs disk replace', or be one more with 'gpu4fs disk add'",
				one->name);
		if (rc < 0)
			return g4_dev_fail(o->message, rc, "%s: is no disk of a set: %s", one->name, g4_strerror(rc));
		if (!(one->sb.features_incompat & G4_FEATURE_INCOMPAT_DISKS))
			return g4_dev_fail(o->message, -G4_E_SB_DISKS,
					   "%s: has a file system of its own, which needs no other disk", one->name);
		if (!g4_set_is_label(&one->sb))
			return g4_dev_fail(o->message, -G4_E_SB_GEOMETRY, "%s: %s", one->name,
					   g4_strerror(-G4_E_SB_GEOMETRY));
		if (one->sb.size_bytes > g4_dev_props(one->dev)->size_bytes)
			return g4_dev_fail(o->message, -G4_E_SB_TRUNCATED,
					   "%s: is smaller than before: it has %" PRIu64
					   " bytes and should have %" PRIu64,
					   one->name, g4_dev_props(one->dev)->size_bytes, (uint64_t)one->sb.size_bytes);
	}
	return 0;
}

static int put_aside(struct opening *o, const struct candidate *one)
{
	if (o->spare_count == G4_MAX_SPARES)
		return g4_dev_fail(o->message, -G4_E_SB_DISKS, "%s: a file system has at most %u spares", one->name,
				   G4_MAX_SPARES);
	o->spares[o->spare_count++] = (struct g4_set_idle){one->dev, (char *)(uintptr_t)one->name};
	return 0;
}

/* Spares go behind the disks, and are put aside: what follows knows disks alone. *spares: how many there were. */
static int part_spares(struct opening *o, uint32_t *spares)
{
	const uint32_t all = o->count;
	int rc = 0;

	for (uint32_t n = 0; n < o->count && rc == 0;) {
		const struct candidate one = o->found[n];
		if (!g4_set_is_spare_label(&one.sb)) {
			n++;
			continue;
		}
		rc = put_aside(o, &one);
		if (rc < 0)
			break;
		memmove(&o->found[n], &o->found[n + 1], (all - n - 1) * sizeof(one));
		o->found[all - 1] = one;
		o->count--;
	}
	*spares = all - o->count;
	o->lead = 0;
	if (rc == 0 && o->count == 0)
		rc = g4_dev_fail(o->message, -G4_E_SB_DISKS,
				 "%s: is a spare, which holds nothing; name the disks of its file system",
				 o->found[0].name);
	return rc;
}

/* All of one set, none twice; and which one speaks for it. */
static int place_disks(struct opening *o)
{
	const struct g4_superblock *lead;
	uint32_t spares;
	const int rc = part_spares(o, &spares);

	if (rc < 0)
		return rc;
	for (uint32_t d = 0; d < G4_MAX_DISKS; d++)
		o->at[d] = G4_MAX_DISKS;
	for (uint32_t n = 0; n < o->count; n++) {
		const struct g4_superblock *sb = &o->found[n].sb;
		lead = &o->found[o->lead].sb;
		if (g4_set_speaks_before(sb, lead))
			o->lead = n;
	}
	lead = &o->found[o->lead].sb;
	for (uint32_t n = 0; n < o->count; n++)
		g4_set_follow(lead, &o->found[n].sb);
	for (uint32_t n = 0; n < o->count; n++) {
		const struct g4_superblock *sb = &o->found[n].sb;
		const uint32_t disk = sb->disk_index;
		if (g4_set_is_unadded(lead, sb))
			return g4_dev_fail(
				o->message, -G4_E_SB_DISKS,
				"%s: was being added to this file system, or removed, when that was interrupted, and is no disk "
				"of it; leave it out, or add it again",
				o->found[n].name);
		/* its own word for itself: a disk that was replaced has another one */
		if (!g4_set_is_member(lead, sb))
			return g4_dev_fail(o->message, -G4_E_SB_DISKS,
					   "%s and %s are disks of different file systems, or one was replaced",
					   o->found[n == 0 ? o->lead : 0].name, o->found[n].name);
		if (o->at[disk] != G4_MAX_DISKS)
			return g4_dev_fail(o->message, -G4_E_SB_DISKS,
					   "%s and %s are the same disk, number %u of the set",
					   o->found[o->at[disk]].name, o->found[n].name, disk);
		o->at[disk] = n;
	}
	for (uint32_t n = o->count; n < o->count + spares; n++)
		if (!g4_set_is_spare_of(lead, &o->found[n].sb))
			return g4_dev_fail(
				o->message, -G4_E_SB_DISKS,
				"%s: is a spare of another file system, or of this one before all its disks were replaced; leave "
				"it out, or make it a spare of this one with 'gpu4fs disk add --spare --force'",
				o->found[n].name);
	return 0;
}

/* No disk is mixed in that has missed something. */
static int check_histories(const struct opening *o)
{
	const struct candidate *lead = &o->found[o->lead];
	char uuid[G4_UUID_TEXT_BYTES];

	for (uint32_t n = 0; n < o->count; n++) {
		const struct candidate *one = &o->found[n];
		const uint32_t disk = one->sb.disk_index;
		if (g4_set_is_split(&lead->sb, &one->sb))
			return g4_set_tell_apart(o->message, lead->name, one->name);
		if (lead->sb.disk_since[disk] != 0 && !g4_set_is_target(&lead->sb, disk))
			return g4_dev_fail(
				o->message, -G4_E_SB_DISKS,
				"%s: disk %u, %s, missed writes while it was away and is stale; bring it up to date "
				"with 'gpu4fs disk rebuild', or leave it out",
				one->name, disk, uuid_text(&lead->sb, disk, uuid));
	}
	return 0;
}

/* "disk 1 (UUID), disk 3 (UUID)" */
static void list_missing(const struct opening *o, char *text, size_t bytes)
{
	const struct g4_superblock *sb = &o->found[o->lead].sb;
	char uuid[G4_UUID_TEXT_BYTES];
	size_t used = 0;

	text[0] = 0;
	for (uint32_t d = 0; d < sb->disk_count; d++) {
		if (o->at[d] != G4_MAX_DISKS)
			continue;
		const int some = snprintf(text + used, bytes - used, "%sdisk %u, %s", used ? "; " : "", d,
					  uuid_text(sb, d, uuid));
		if (some < 0 || (size_t)some >= bytes - used)
			break;
		used += (size_t)some;
	}
}

/* The list comes last: it may be longer than a message. */
#define NAME_ALL "name all of them, as DISK DISK... or DISK,DISK,..."
static int check_missing(const struct opening *o, struct g4_set *set)
{
	const struct g4_superblock *sb = &o->found[o->lead].sb;
	char missing[1024];

	if (o->count == sb->disk_count && g4_set_is_whole(set, G4_MAX_DISKS))
		return 0;
	list_missing(o, missing, sizeof(missing));
	if (!g4_set_is_whole(set, G4_MAX_DISKS))
		return g4_dev_fail(
			o->message, -G4_E_SB_DISKS,
			"%s: %u of the %u disks of its file system %s missing, and no other has some of it; " NAME_ALL
			": %s",
			o->found[0].name, sb->disk_count - o->count, (uint32_t)sb->disk_count,
			g4_counted(sb->disk_count - o->count, "is", "are"), missing);
	if (!o->options->degraded && !(o->options->open.flags & G4_DEV_READ_ONLY))
		return g4_dev_fail(o->message, -G4_E_SB_DISKS,
				   "%s: %u of the %u disks of its file system %s missing; " NAME_ALL
				   ", or go on without (mount -o degraded, elsewhere --degraded): %s",
				   o->found[0].name, sb->disk_count - o->count, (uint32_t)sb->disk_count,
				   g4_counted(sb->disk_count - o->count, "is", "are"), missing);
	for (uint32_t d = 0; d < sb->disk_count; d++)
		if (o->at[d] == G4_MAX_DISKS && (sb->disk_since[d] == 0 || g4_set_is_target(sb, d)))
			set->unrecorded = 1;
	return 0;
}

/* ---- building ---- */

static struct g4_set *make_set(uint32_t count)
{
	struct g4_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->count = count;
	for (uint32_t d = 0; d < G4_MAX_DISKS; d++)
		set->disks[d].written =
			1; /* whoever had it before may have been killed before he flushed what is found now */
	set->super = calloc(1, sizeof(*set->super));
	set->chunks = calloc(G4_CHUNKS_MAX, sizeof(*set->chunks));
	if (posix_memalign((void **)&set->page, G4_PAGE_BYTES, G4_PAGE_BYTES) != 0)
		set->page = NULL;
	set->target = G4_MAX_DISKS;
	const bool has_window = g4_set_window_begin(&set->window) == 0;
	const bool has_orders = pthread_mutex_init(&set->orders, NULL) == 0;
	if (!set->super || !set->chunks || !set->page || !has_window || !has_orders ||
	    pthread_mutex_init(&set->lock, NULL) != 0) {
		if (has_orders)
			pthread_mutex_destroy(&set->orders);
		if (has_window)
			g4_set_window_end(&set->window);
		free(set->super);
		free(set->chunks);
		free(set->page);
		free(set);
		return NULL;
	}
	return set;
}

/* What a chunk has, in copies or by parity, is worth as much in all. */
static bool has_copies(const struct g4_chunk *chunk, uint32_t copies)
{
	if (g4_chunk_is_gone(chunk))
		return true;
	return chunk->parity ? chunk->copies == 1 && chunk->parity + 1u == copies : chunk->copies == copies;
}

/* The chunks as one disk has them. */
static int read_chunks(const struct opening *o, struct g4_set *set, struct g4_dev *disk)
{
	const struct g4_superblock *sb = &o->found[o->lead].sb;
	const struct g4_chunks_page *page = (const struct g4_chunks_page *)(const void *)set->page;

	for (uint32_t first = 0; first < sb->chunk_count; first += G4_CHUNKS_PER_PAGE) {
		const uint64_t address = sb->chunk_list_head + first / G4_CHUNKS_PER_PAGE * G4_PAGE_BYTES;
		const uint32_t count = (uint32_t)g4_min64(sb->chunk_count - first, G4_CHUNKS_PER_PAGE);
		int rc = g4_dev_read(o->wg, disk, address, set->page, G4_PAGE_BYTES);
		if (rc == 0)
			rc = g4_block_verify(page, G4_BLOCK_CHUNKS, g4_address_from(address), g4_superblock_tag(sb));
		if (rc == 0 && (page->first != first || page->count != count))
			rc = -G4_E_SB_GEOMETRY;
		for (uint32_t n = 0; rc == 0 && n < count; n++)
			rc = has_copies(&page->chunks[n], sb->copies) ? 0 : -G4_E_SB_GEOMETRY;
		if (rc < 0)
			return rc;
		memcpy(&set->chunks[first], page->chunks, count * sizeof(struct g4_chunk));
	}
	const int rc = g4_chunk_validate(set->chunks, sb->chunk_count, sb->disk_bytes, sb->disk_count);
	if (rc < 0)
		return rc;
	if (!(sb->features_incompat & G4_FEATURE_INCOMPAT_MOVED) && g4_chunk_were_moved(set->chunks, sb->chunk_count))
		return -G4_E_SB_GEOMETRY;
	const uint64_t end = g4_chunk_end(set->chunks, sb->chunk_count);
	/* a file system may have more disks than it has grown over */
	const bool fits =
		sb->features_incompat & G4_FEATURE_INCOMPAT_CHUNKS ? sb->total_bytes <= end : sb->total_bytes == end;
	return fits ? 0 : -G4_E_SB_GEOMETRY;
}

static int fill_set(const struct opening *o, struct g4_set *set)
{
	uint32_t good = 0;
	int rc = -G4_E_SB_GEOMETRY;

	*set->super = o->found[o->lead].sb;
	set->open = o->options->open;
	for (uint32_t d = 0; d < set->count; d++) {
		const uint32_t n = o->at[d];
		const bool rebuilds = g4_set_is_target(set->super, d);
		if (set->super->disk_since[d] == 0) /* rebuilt by a version that does not know it */
			set->super->disk_by_hand &= ~(UINT64_C(1) << d);
		set->disks[d].state = n == G4_MAX_DISKS ? G4_DISK_MISSING :
				      rebuilds		? G4_DISK_REBUILDING :
							  G4_DISK_ACTIVE;
		if (n != G4_MAX_DISKS && rebuilds) {
			set->target = d;
			/* no stripe is longer, and all begin there: nobody has to believe what it says beyond that */
			set->position = g4_align_down(set->super->rebuild_position, G4_CHUNK_UNIT);
			set->noted_bytes = set->position;
		}
		if (n == G4_MAX_DISKS)
			continue;
		set->uneven = set->uneven || o->found[n].flaws.uneven ||
			      o->found[n].sb.set_generation != set->super->set_generation;
		set->disks[d].dev = o->found[n].dev;
		set->disks[d].torn = o->found[n].flaws.torn;
		set->disks[d].name = strdup(o->found[n].name);
		if (!set->disks[d].name)
			return -G4_E_NOMEM;
	}
	for (uint32_t k = 0; k < o->spare_count; k++) {
		const int one = g4_set_put_spare(set, o->spares[k].dev, o->spares[k].name, o->message);
		if (one < 0)
			return one;
	}
	for (uint32_t n = 0; n < o->count; n++) {
		const int one = read_chunks(o, set, o->found[n].dev);
		set->chunks_damaged = set->chunks_damaged || one < 0;
		good = one == 0 ? n : good;
		rc = rc < 0 ? one : rc;
	}
	if (rc == 0 && set->chunks_damaged)
		rc = read_chunks(o, set, o->found[good].dev);
	if (rc < 0)
		return g4_dev_fail(o->message, rc,
				   "%s: what lies where on the disks of its file system can not be read: %s",
				   o->found[0].name, g4_strerror(rc));
	set->has_super = true;
	g4_set_begin(set);
	rc = check_missing(o, set);
	if (rc < 0)
		return rc;
	/* a write goes where the newest table says: none may be done while a disk that is left alone would speak for the one before */
	if (set->uneven && !set->dev.props.read_only)
		set->unrecorded = 1;
	rc = g4_set_parity_begin(set);
	if (rc == 0 && set->parity)
		rc = g4_set_parity_recover(o->wg, set, o->options->mounts);
	if (rc < 0)
		return g4_dev_fail(o->message, rc,
				   "%s: what was being written when it was interrupted can not be completed: %s",
				   o->found[0].name, g4_strerror(rc));
	return 0;
}

/* The disks stay the caller's unless it succeeds. */
static int assemble(struct opening *o, struct g4_dev **out)
{
	int rc = read_labels(o);

	if (rc == 0)
		rc = place_disks(o);
	if (rc == 0)
		rc = check_histories(o);
	if (rc == 0 && o->absent < 0 && o->count < o->found[o->lead].sb.disk_count)
		rc = o->absent;
	if (rc < 0)
		return rc;
	struct g4_set *set = make_set(o->found[o->lead].sb.disk_count);
	if (!set)
		return g4_dev_fail(o->message, -G4_E_NOMEM, "%s: out of memory", o->found[0].name);
	rc = fill_set(o, set);
	if (rc < 0)
		g4_set_free(set, false);
	else
		*out = &set->dev;
	return rc;
}

/* ---- opening ---- */

static int check_names(const char *const *names, uint32_t count, struct g4_dev_message message)
{
	if (count > G4_MAX_DISKS + G4_MAX_SPARES)
		return g4_dev_fail(message, -G4_E_SB_DISKS, "a file system has at most %u disks", G4_MAX_DISKS);
	for (uint32_t n = 0; n < count; n++)
		for (uint32_t other = 0; other < n; other++)
			if (g4_set_is_same_file(names[other], names[n]))
				return g4_dev_fail(message, -G4_E_SB_DISKS,
						   strcmp(names[other], names[n]) == 0 ? "%s is named twice" :
											 "%s and %s are the same disk",
						   names[other], names[n]);
	return 0;
}

/* Of one device: whether it is a disk of a set. What is damaged, foreign or too new is for its user to say. */
static bool is_disk_of_set(struct g4_wg *wg, struct g4_dev *dev, struct g4_superblock *label)
{
	return g4_set_read_label(wg, dev, label, NULL) == 0 && (label->features_incompat & G4_FEATURE_INCOMPAT_DISKS);
}

static void close_found(const struct opening *o)
{
	for (uint32_t n = 0; n < o->count; n++)
		g4_dev_close(o->found[n].dev);
	for (uint32_t k = 0; k < o->spare_count; k++)
		g4_dev_close(o->spares[k].dev);
}

/* One of several names. One that can not be opened, or read at all, is absent. */
static void open_of_several(struct opening *o, const char *name)
{
	struct candidate *one = &o->found[o->count];
	char text[sizeof(o->absent_text)] = "";
	int rc = g4_dev_open(name, &o->options->open, &one->dev, text, sizeof(text));

	one->name = name;
	if (rc == 0 && g4_set_read_label(o->wg, one->dev, &one->sb, NULL) == -G4_E_IO) {
		rc = -G4_E_IO;
		snprintf(text, sizeof(text), "%s: %s", name, g4_strerror(rc));
		g4_dev_close(one->dev);
	}
	o->count += rc == 0;
	if (rc == 0 || o->absent < 0)
		return;
	o->absent = rc;
	snprintf(o->absent_text, sizeof(o->absent_text), "%s", text);
}

static int open_several(struct opening *o, char *const *names, uint32_t count, struct g4_dev **out)
{
	for (uint32_t n = 0; n < count; n++)
		open_of_several(o, names[n]);
	int rc = o->count > 0 ? assemble(o, out) : o->absent;

	if (rc == 0 && o->absent < 0)
		g4_log(G4_LOG_WARN, "%s; all disks of the file system are there, which does without it",
		       o->absent_text);
	if (rc < 0 && o->absent < 0)
		rc = g4_dev_fail(o->message, o->absent, "%s", o->absent_text);
	return rc;
}

static int open_all(struct opening *o, char *const *names, uint32_t count, struct g4_dev **out)
{
	int rc;

	o->found[0].name = names[0];
	if (count > 1) {
		rc = open_several(o, names, count, out);
	} else {
		rc = g4_dev_open(names[0], &o->options->open, &o->found[0].dev, o->message.text, o->message.bytes);
		o->count = rc == 0;
		if (rc == 0 && !is_disk_of_set(o->wg, o->found[0].dev, &o->found[0].sb))
			*out = o->found[0].dev;
		else if (rc == 0)
			rc = assemble(o, out);
	}
	if (rc < 0)
		close_found(o);
	return rc;
}

static struct candidate *make_candidates(uint32_t count)
{
	struct candidate *found = NULL;

	if (posix_memalign((void **)&found, G4_PAGE_BYTES, count * sizeof(*found)) != 0)
		return NULL;
	memset(found, 0, count * sizeof(*found));
	return found;
}

static int run(char *const *names, uint32_t count, const struct g4_set_options *options, struct g4_dev **out,
	       struct g4_dev_message message)
{
	struct opening o = {.options = options, .message = message};
	int rc = check_names((const char *const *)names, count, message);

	if (rc < 0)
		return rc;
	o.wg = g4_wg_create(0);
	o.found = make_candidates(count);
	rc = o.wg && o.found ? open_all(&o, names, count, out) :
			       g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", names[0]);
	if (o.wg)
		g4_wg_destroy(o.wg);
	free(o.found);
	return rc;
}

int g4_set_open(const char *const *names, uint32_t count, const struct g4_set_options *options, struct g4_dev **out,
		char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};
	char **split = NULL, *joined = NULL;
	uint32_t disks = 0;

	*out = NULL;
	const char *name = count == 1 ? names[0] : (joined = g4_set_join(names, count));
	int rc = name ? g4_set_names(name, &split, &disks) : -G4_E_NOMEM;
	rc = rc < 0 ? g4_dev_fail(sentence, rc, "%s: out of memory", names[0]) :
		      run(split, disks, options, out, sentence);
	free(split);
	free(joined);
	return rc;
}

int g4_set_open_one(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		    size_t message_bytes)
{
	const struct g4_set_options set = {.open = *options};

	return g4_set_open(&name, 1, &set, out, message, message_bytes);
}

int g4_set_assemble(struct g4_dev *const *disks, const char *const *names, uint32_t count,
		    const struct g4_set_options *options, struct g4_dev **out, char *message, size_t message_bytes)
{
	struct opening o = {.options = options, .count = count, .message = {.text = message, .bytes = message_bytes}};
	int rc = -G4_E_NOMEM;

	o.wg = g4_wg_create(0);
	o.found = make_candidates(count);
	for (uint32_t n = 0; o.found && n < count; n++) {
		o.found[n].dev = disks[n];
		o.found[n].name = names[n];
	}
	if (o.wg && o.found)
		rc = assemble(&o, out);
	if (o.wg)
		g4_wg_destroy(o.wg);
	free(o.found);
	return rc;
}

/* ---- rebuilding ---- */

/* Takes the first one that is stale out of what was found; others that are, go. NULL: there is none. */
static struct g4_dev *take_stale(struct opening *o, uint32_t *disk)
{
	const struct g4_superblock lead = o->found[o->lead].sb;
	struct g4_dev *target = NULL;
	uint32_t kept = 0;

	for (uint32_t n = 0; n < o->count; n++) {
		const struct g4_superblock *sb = &o->found[n].sb;
		const bool stale = lead.disk_since[sb->disk_index] != 0 && !g4_set_is_split(&lead, sb) &&
				   !g4_set_is_target(&lead, sb->disk_index);
		if (!stale) {
			if (kept != n)
				o->found[kept] = o->found[n];
			kept++;
		} else if (target) {
			g4_dev_close(o->found[n].dev);
		} else {
			target = o->found[n].dev;
			*disk = sb->disk_index;
		}
	}
	o->count = kept;
	o->lead = target ? 0 : o->lead;
	return target;
}

/* Which disk the target is to be: the stale one, or with a new one the first that is missing. */
static int find_place(const struct opening *o, const struct g4_set *set, bool is_new, uint32_t *disk)
{
	for (*disk = is_new ? 0 : *disk; is_new && *disk < set->count && set->disks[*disk].dev; ++*disk)
		;
	if (*disk == set->count)
		return g4_dev_fail(o->message, -G4_E_INVAL, "%s: no disk of its file system is missing",
				   o->found[0].name);
	return 0;
}

/* Whether one of those found is being rebuilt. */
static bool has_target(const struct opening *o)
{
	for (uint32_t n = 0; n < o->count; n++)
		if (g4_set_is_target(&o->found[o->lead].sb, o->found[n].sb.disk_index))
			return true;
	return false;
}

/* Of those found all but the target, as a set; *target is the stale one of them if there was none. */
static int assemble_rest(struct opening *o, struct g4_dev **target, uint32_t *disk, struct g4_dev **dev)
{
	int rc = read_labels(o);

	if (rc == 0)
		rc = place_disks(o);
	if (rc == 0 && !*target) {
		*target = take_stale(o, disk);
		if (!*target)
			rc = check_histories(o);
		if (rc == 0 && !*target && !has_target(o))
			rc = g4_dev_fail(o->message, -G4_E_INVAL, "%s: no disk of its file system is stale",
					 o->found[0].name);
	}
	return rc == 0 ? assemble(o, dev) : rc;
}

/* What was opened is of *out then, or closed. */
static int begin_rebuild(struct opening *o, struct g4_dev *target, const char *name, int (*settle)(struct g4_dev *set),
			 struct g4_dev **out, uint32_t *disk)
{
	const bool is_new = target != NULL;
	struct g4_dev *dev = NULL;
	int rc = assemble_rest(o, &target, disk, &dev);

	if (rc < 0) {
		close_found(o);
		g4_dev_close(target);
		return rc;
	}
	struct g4_set *set = (struct g4_set *)dev->host;
	rc = settle ? settle(dev) : 0;
	if (rc < 0) {
		g4_dev_fail(o->message, rc, "%s: %s", o->found[0].name, g4_strerror(rc));
		g4_dev_close(target);
	} else if (set->target != G4_MAX_DISKS && is_new) {
		rc = g4_dev_fail(o->message, -G4_E_BUSY, "disk %u is being rebuilt; finish that first", set->target);
		g4_dev_close(target);
	} else if (set->target != G4_MAX_DISKS) { /* one at a time */
		g4_dev_close(target);
		*disk = set->target;
	} else {
		rc = find_place(o, set, is_new, disk);
		if (rc == 0)
			rc = g4_set_rebuild_begin(o->wg, set, *disk, target, name, is_new, o->message);
		else
			g4_dev_close(target);
	}
	if (rc == 0)
		*out = dev;
	else
		g4_dev_close(dev);
	return rc;
}

int g4_set_rebuild_open(const char *const *names, uint32_t count, bool stale, int (*settle)(struct g4_dev *set),
			struct g4_dev **out, uint32_t *disk, char *message, size_t message_bytes)
{
	const struct g4_set_options options = {
		.open.flags = G4_DEV_EXCLUSIVE, .degraded = true, .mounts = settle != NULL};
	struct opening o = {.options = &options, .message = {.text = message, .bytes = message_bytes}};
	const char *last = names[count - 1];
	struct g4_dev *target = NULL;
	int rc = check_names(names, count, o.message);

	o.wg = g4_wg_create(0);
	o.found = make_candidates(count);
	if (rc == 0 && (!o.wg || !o.found))
		rc = g4_dev_fail(o.message, -G4_E_NOMEM, "%s: out of memory", names[0]);
	for (uint32_t n = 0; n < count - !stale && rc == 0; n++) {
		o.found[n].name = names[n];
		rc = g4_dev_open(names[n], &options.open, &o.found[n].dev, message, message_bytes);
		o.count += rc == 0;
	}
	if (rc == 0 && !stale)
		rc = g4_dev_open(last, &options.open, &target, message, message_bytes);
	if (rc == 0)
		rc = begin_rebuild(&o, target, last, settle, out, disk);
	else
		close_found(&o);
	if (o.wg)
		g4_wg_destroy(o.wg);
	free(o.found);
	return rc;
}

int g4_set_rebuild_all(struct g4_dev *dev, struct g4_progress *progress, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};
	struct g4_set *set = (struct g4_set *)dev->host;
	const uint32_t disk = g4_load32_acq(&set->target);
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t bytes, done, all;
	int rc = wg ? 0 : -G4_E_NOMEM;

	while (rc == 0) {
		bytes = 0;
		rc = g4_set_rebuild_step(wg, set, &bytes);
		g4_set_rebuild_progress(set, &done, &all);
		if (progress)
			g4_progress_step(progress, done, all);
	}
	if (wg)
		g4_wg_destroy(wg);
	return rc < 0 ? g4_dev_fail(sentence, rc, "disk %u could not be written: %s", disk, g4_strerror(rc)) : 0;
}

/* ---- making ---- */

/* How long the log is, and how much is in copies: the journal and what stands before the data, and a 64th more. */
static void plan_parity(struct g4_set *set, const struct g4_set_plan *plan, struct g4_chunk_wish *wish,
			const uint64_t *disk_bytes)
{
	uint64_t total = 0;
	struct g4_layout layout;

	for (uint32_t d = 0; d < set->count; d++)
		total += g4_chunk_usable(disk_bytes[d]);
	wish->front_bytes = g4_align_up(total / 64 + 1, G4_CHUNK_UNIT);
	if (g4_layout_plan(g4_align_down(total, G4_PAGE_BYTES), plan->journal_bytes, &layout) == 0)
		wish->front_bytes += g4_align_up(layout.data_address, G4_CHUNK_UNIT);
}

/* Chunks with parity need a log before all places: of a set that may get some later, too. */
static void plan_log(struct g4_set *set, struct g4_chunk_wish *wish, const uint64_t *disk_bytes)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t d = 0; d < set->count; d++)
		least = g4_min64(least, disk_bytes[d]);
	wish->log_bytes =
		g4_min64(g4_max64(g4_align_down(least / 256, G4_CHUNK_UNIT), G4_CHUNK_UNIT), G4_PARITY_LOG_MOST);
	set->super->parity_log_bytes = (uint32_t)wish->log_bytes;
	set->super->features_incompat |= G4_FEATURE_INCOMPAT_PARITY;
}

/* Of memory short ones: who writes whole stripes does so past the set (direct.h), and seeks cost nothing. */
static uint64_t usual_stripe(const struct g4_set *set, enum g4_raid raid)
{
	bool memory = raid == G4_RAID_PARITY;

	for (uint32_t d = 0; d < set->count && memory; d++)
		memory = set->disks[d].dev->map && set->disks[d].dev->persist == G4_DEV_PERSIST_NEVER;
	return memory ? G4_STRIPE_IN_MEMORY : G4_STRIPE_DEFAULT;
}

static int plan_chunks(struct g4_set *set, const struct g4_set_plan *plan, struct g4_dev_message message)
{
	struct g4_chunk_wish wish = {.raid = plan->raid,
				     .copies = 1,
				     .stripe_bytes =
					     plan->stripe_bytes ? plan->stripe_bytes : usual_stripe(set, plan->raid)};
	uint64_t bytes[G4_MAX_DISKS];

	if (plan->raid == G4_RAID_1)
		wish.copies = plan->copies ? plan->copies : 2;
	else if (plan->raid == G4_RAID_PARITY)
		wish.copies = plan->parity + 1;
	const uint32_t copies = wish.copies;

	wish.leave_percent = plan->leave_percent;

	if (copies > G4_COPIES_MAX)
		return g4_dev_fail(message, -G4_E_INVAL, "there are at most %u copies of everything", G4_COPIES_MAX);
	if (plan->raid == G4_RAID_PARITY && (plan->parity < 1 || plan->parity > G4_CHUNK_PARITY_MOST))
		return g4_dev_fail(message, -G4_E_INVAL, "there are 1 to %u parities", G4_CHUNK_PARITY_MOST);
	if (plan->raid == G4_RAID_PARITY && g4_set_parity_fits(set, plan->parity, message) < 0)
		return -G4_E_INVAL;
	if (copies > set->count)
		return g4_dev_fail(message, -G4_E_INVAL, "%u copies of everything need as many devices", copies);
	const uint64_t stripe = wish.stripe_bytes;

	if (stripe < G4_STRIPE_MIN || stripe > G4_STRIPE_MAX || (stripe & (stripe - 1)) != 0)
		return g4_dev_fail(message, -G4_E_INVAL,
				   "a stripe has a power of 2 of bytes, at least 16 KiB and at most 1 MiB");
	for (uint32_t d = 0; d < set->count; d++) {
		bytes[d] = set->super->disk_bytes[d];
		if (bytes[d] < G4_MIN_DEVICE_BYTES)
			return g4_dev_fail(message, -G4_E_DEV_SMALL,
					   "%s: is too small: a disk of a set has at least 8 MiB", set->disks[d].name);
	}
	if (plan->leave_percent >= 100)
		return g4_dev_fail(message, -G4_E_INVAL, "something of the disks has to be assigned");
	if (plan->raid == G4_RAID_PARITY ||
	    (plan->leave_percent && copies > 1 && copies <= G4_CHUNK_PARITY_MOST + 1 && set->count > copies))
		plan_log(set, &wish, bytes);
	if (plan->raid == G4_RAID_PARITY)
		plan_parity(set, plan, &wish, bytes);
	const uint32_t count = g4_chunk_plan(&wish, bytes, set->count, set->chunks);
	if (count == 0)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: there is no room for a set on these disks",
				   set->disks[0].name);
	set->super->chunk_count = count;
	set->super->copies = copies;
	set->super->chunk_list_head = G4_CHUNKS_ADDRESS;
	set->super->total_bytes = set->chunks[count - 1].address + set->chunks[count - 1].bytes;
	return 0;
}

/* What was there is gone, durably, before anything of the set is. */
static int wipe(struct g4_wg *wg, struct g4_set *set, struct g4_dev_message message)
{
	for (uint32_t d = 0; d < set->count; d++) {
		const int rc = g4_set_wipe(wg, set, d);
		if (rc < 0)
			return g4_dev_fail(message, rc, "%s: %s", set->disks[d].name, g4_strerror(rc));
	}
	return 0;
}

static int fill_new(struct g4_set *set, struct g4_dev *const *disks, const char *const *names)
{
	set->super->disk_count = set->count;
	set->super->set_generation = 1;
	for (uint32_t d = 0; d < set->count; d++) {
		set->disks[d].dev = disks[d];
		set->disks[d].name = strdup(names[d]);
		set->super->disk_bytes[d] = g4_align_down(g4_dev_props(disks[d])->size_bytes, G4_PAGE_BYTES);
		if (!set->disks[d].name)
			return -G4_E_NOMEM;
		if (g4_uuid_random(set->super->disk_uuids[d]) < 0)
			return -G4_E_IO;
	}
	return 0;
}

int g4_set_make(struct g4_dev *const *disks, const char *const *names, uint32_t count, const struct g4_set_plan *plan,
		struct g4_dev **out, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};

	*out = NULL;
	if (count < 2 || count > G4_MAX_DISKS)
		return g4_dev_fail(sentence, -G4_E_SB_DISKS, "a set has 2 to %u disks", G4_MAX_DISKS);
	struct g4_set *set = make_set(count);
	struct g4_wg *wg = g4_wg_create(0);
	int rc = set && wg ? fill_new(set, disks, names) : -G4_E_NOMEM;
	if (rc < 0)
		g4_dev_fail(sentence, rc, "%s: %s", names[0], g4_strerror(rc));
	else
		rc = plan_chunks(set, plan, sentence);
	if (rc == 0)
		rc = wipe(wg, set, sentence);
	if (rc == 0)
		rc = g4_set_parity_begin(set);
	if (rc == 0 && set->parity)
		g4_rows_clear(wg, set);
	if (rc == 0) {
		g4_set_begin(set);
		*out = &set->dev;
	} else if (set) {
		g4_set_free(set, false);
	}
	if (wg)
		g4_wg_destroy(wg);
	return rc;
}
