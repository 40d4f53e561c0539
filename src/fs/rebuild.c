/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilding a disk while users work: see rebuild.h. A step is the set's and outside of any transaction; a crash costs what was done since
 * the set noted its position last, and no record of the job is needed to go on from there (jobs.c).
 */
#include "fs/rebuild.h"
#include "alloc/count.h"

#include "data/split.h"
#include "task/job.h"

#define ARGUMENT_DISK 0

G4_FN static int ask(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_space_order(wg, &fs->space, order);
}

G4_FN static void show(struct g4_job_record *record, const struct g4_dev_order *order)
{
	record->done = order->done / G4_PAGE_BYTES;
	record->units = order->all / G4_PAGE_BYTES;
}

G4_FN int g4_rebuild_ask(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	const int rc = ask(wg, fs, G4_ORDER_ASK, &order);
	if (rc == 0) {
		show(record, &order);
		record->arguments[ARGUMENT_DISK] = order.disk;
	}
	return rc;
}

G4_FN bool g4_rebuild_is_done(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record)
{
	struct g4_dev_order order;
	char name[2] = {0, 0};

	memset(&order, 0, sizeof(order));
	order.disk = (uint32_t)g4_min64(record->arguments[ARGUMENT_DISK], UINT32_MAX);
	order.text = name;
	order.text_bytes = sizeof(name);
	return ask(wg, fs, G4_ORDER_NAME, &order) == 0 && name[0] != 0;
}

#define LEAVES 16u		   /* so many times something is left out in one step */
#define PARTS 32u		   /* so many are made in one step, */
#define STEP_PARTS 8u		   /* or as many bytes as so many can have; */
#define AHEAD 8u		   /* so many are taken at a time (G4_SET_WATCHES) */
#define STEP_BYTES G4_MIB	   /* more than that is not copied in one (space/set_rebuild_host.c) */
#define LANES_BYTES (128 * G4_MIB) /* nor than that made in a part by lanes, */
#define SECOND_SHARE 16u	   /* nor, where so much a second is asked for, more than that share of it */

/* Of the disk, in one part: a MiB for each workgroup that may help, since these wait for one another at its end. */
G4_FN static uint64_t most_of(const struct g4_fs *fs, const struct g4_job_record *record)
{
	uint64_t most = STEP_BYTES;

	if (g4_direct_makes(&fs->space.direct))
		most = g4_min64(STEP_BYTES * g4_max64(g4_load32_rlx(&fs->split.helpers), 1), LANES_BYTES);
	if (fs->space.direct.lost_most)
		most = g4_min64(most, fs->space.direct.lost_most);
	return record->rate ? g4_max64(g4_min64(most, record->rate / SECOND_SHARE), STEP_BYTES) : most;
}

/* ---- what comes next ---- */

/* Of what the set has told (G4_ORDER_NEXT) what was not looked at yet. It holds for all of it until somebody writes there, which the set notices. */
struct range {
	uint64_t first, page, end; /* of the device's addresses; what was told begins with `first` */
	uint64_t columns;	   /* so many of them stand for a byte of the disk */
	uint64_t unit_pages;	   /* that are left out together, from `first` on */
	uint64_t most;		   /* of the disk, in one part */
};

G4_FN static void tell(const struct g4_dev_order *order, uint64_t most, struct range *range)
{
	range->first = order->done / G4_PAGE_BYTES;
	range->page = (order->done + order->all) / G4_PAGE_BYTES;
	range->end = (order->done + order->bytes) / G4_PAGE_BYTES;
	range->columns = g4_max64(order->disk & G4_NEXT_COLUMNS, 1);
	range->unit_pages =
		g4_max64((order->disk >> G4_NEXT_UNIT_SHIFT) * range->columns * (G4_MIB / G4_PAGE_BYTES), 1);
	range->most = most;
}

/*
 * So much is in use from a page on, or 0, with what lies between and takes longer to be left out than to be made. A hole below two units has perhaps no whole one in its
 * place. An eighth of a step is made in less time than another step's questions take, while no more is made in vain than is in use.
 */
#define HOLE_PAGES (G4_MIB / G4_PAGE_BYTES)
G4_FN static uint64_t count_used(struct g4_wg *wg, struct g4_fs *fs, const struct range *range)
{
	const uint64_t most = g4_min64(range->end - range->page, range->most * range->columns / G4_PAGE_BYTES);
	const uint64_t least = g4_max64(2 * range->unit_pages, HOLE_PAGES);
	uint64_t all = 0, used = 0, hole = 0, hole_most = least;

	if (range->most <= STEP_BYTES)
		return g4_alloc_count(wg, &fs->alloc, range->page, most, true);
	do {
		all += hole;
		const uint64_t more = g4_alloc_count(wg, &fs->alloc, range->page + all, most - all, true);
		all += more;
		used += more;
		hole_most = g4_max64(least, g4_min64(most / 8, used));
		hole = g4_alloc_count(wg, &fs->alloc, range->page + all, g4_min64(most - all, hole_most), false);
	} while (hole > 0 && hole < hole_most && all + hole < most);
	return all;
}

/*
 * What nobody has claimed is left out, until something in use comes: then order->bytes is how much of that there is in a row, at most what `most` of the disk stand
 * for, or 0 where it is not known. The look comes after the set has begun to notice who writes there (space/set_rebuild_host.c). 1: there may be more to leave out.
 */
G4_FN static int leave_out(struct g4_wg *wg, struct g4_fs *fs, uint64_t most, struct g4_dev_order *order,
			   struct range *range)
{
	memset(range, 0, sizeof(*range));
	range->columns = 1;
	for (uint32_t turn = 0; turn < LEAVES; turn++) {
		int rc = ask(wg, fs, G4_ORDER_NEXT, order);
		if (rc < 0 || order->bytes == 0)
			return rc;
		tell(order, most, range);
		order->bytes = order->all > 0 ?
				       0 :
				       g4_alloc_count(wg, &fs->alloc, range->page, range->end - range->page, false) *
					       G4_PAGE_BYTES;
		if (order->bytes > 0)
			rc = ask(wg, fs, G4_ORDER_SKIP, order);
		if (rc < 0)
			return rc;
		if (order->bytes == 0) {
			order->bytes = count_used(wg, fs, range) * G4_PAGE_BYTES;
			return 0;
		}
	}
	order->bytes = 0;
	return 1;
}

/*
 * So many pages are in use from range->page on, behind *free ones that can be left out. 0: nothing more is to be taken. What was taken before may end within a bit of
 * the map, whose rest is made in any case.
 */
G4_FN static uint64_t look_ahead(struct g4_wg *wg, struct g4_fs *fs, const struct range *range, uint64_t *free)
{
	struct range behind = *range;
	const uint64_t pages = range->end - range->page;

	*free = 0;
	if (pages == 0)
		return 0;
	if ((range->page - range->first) % range->unit_pages == 0)
		*free = g4_alloc_count(wg, &fs->alloc, range->page, pages, false);
	if (*free == pages)
		return 0;
	*free = *free < g4_max64(range->unit_pages, HOLE_PAGES) ? 0 : *free - *free % range->unit_pages;
	behind.page += *free;
	return g4_max64(count_used(wg, fs, &behind), 1);
}

/* ---- parts that lanes make ---- */

struct part {
	struct g4_direct_lost lost; /* bytes 0: nothing is taken */
	struct g4_split_job *job;   /* NULL: nobody helps */
	bool begun;
};

/*
 * What comes next behind `free` pages, of which `used` pages are in use, is this workgroup's, and helpers begin with it. part->lost.bytes 0: somebody is writing there,
 * perhaps.
 */
G4_FN static int take(struct g4_wg *wg, struct g4_fs *fs, uint64_t free, uint64_t used, struct range *range,
		      struct part *part)
{
	struct g4_dev_order order;

	memset(part, 0, sizeof(*part));
	memset(&order, 0, sizeof(order));
	order.done = free * G4_PAGE_BYTES;
	order.bytes = used * G4_PAGE_BYTES;
	order.all = range->most * range->columns;
	const int rc = ask(wg, fs, G4_ORDER_TAKE, &order);
	if (rc < 0 || order.bytes == 0)
		return rc;
	part->lost.chunk = order.disk;
	part->lost.place = (uint32_t)(order.all & ((UINT64_C(1) << G4_TAKEN_NUMBER_SHIFT) - 1));
	part->lost.number = order.all >> G4_TAKEN_NUMBER_SHIFT;
	part->lost.within = order.done;
	part->lost.bytes = order.bytes;
	range->page += free + order.bytes * range->columns / G4_PAGE_BYTES;
	part->begun = g4_direct_begin_lost(wg, &fs->space.direct, &part->lost);
	if (part->begun) {
		const struct g4_split_work work = {
			.kind = G4_SPLIT_LOST, .bytes = part->lost.bytes, .lost = &part->lost};
		part->job = g4_split_open(wg, fs, &work);
	}
	return 0;
}

/* Nobody writes any of it when this returns. Whether all of it was made; not `wanted`: the rest of it is not, as far as nobody has begun. */
G4_FN static bool complete(struct g4_wg *wg, struct g4_fs *fs, struct part *part, bool wanted)
{
	const struct g4_direct_lost *lost = &part->lost;
	struct g4_direct *direct = &fs->space.direct;
	struct g4_split_piece piece;
	bool made = part->begun && wanted;
	uint64_t done;

	if (!part->job) {
		for (uint64_t at = 0; at < lost->bytes && made; at += lost->part_bytes)
			made = g4_direct_make(wg, direct, lost, at, g4_min64(lost->bytes - at, lost->part_bytes));
		return made;
	}
	while (g4_split_take(part->job, &piece)) {
		made = made && g4_direct_make(wg, direct, lost, piece.offset, piece.bytes);
		g4_split_done(part->job, &piece, made ? 0 : -G4_E_BUSY, 0);
	}
	return g4_split_close(fs, part->job, &done) == 0 && made;
}

/* Where users write, fewer bytes are less often made in vain. */
G4_FN static void change_most(struct g4_direct *direct, uint64_t most, bool counts)
{
	if (!counts)
		direct->lost_most = g4_max64(most / 2, STEP_BYTES);
	else if (direct->lost_most)
		direct->lost_most = 2 * direct->lost_most < LANES_BYTES ? 2 * direct->lost_most : 0;
}

/* In scratch memory: parts that are taken, in their order. */
struct queue {
	struct part parts[AHEAD];
	uint32_t first, count; /* of `parts`, which are used in turns */
	uint32_t more;	       /* so many are taken still in this step */
	uint64_t bytes, most;  /* that are taken in it, and may be */
};

G4_FN static struct part *part_of(struct queue *queue, uint32_t n)
{
	return &queue->parts[(queue->first + n) % AHEAD];
}

G4_FN static void remove_first(struct queue *queue)
{
	queue->first = (queue->first + 1) % AHEAD;
	queue->count--;
}

/* The oldest part is made, and what may be behind it is taken as far as helpers have enough to do for as long as the set is asked. An error is met again by what follows. */
G4_FN static void take_ahead(struct g4_wg *wg, struct g4_fs *fs, struct range *range, struct queue *queue)
{
	uint64_t behind = 0, free;

	for (uint32_t n = 1; n < queue->count; n++)
		behind += part_of(queue, n)->lost.bytes;
	while (queue->more > 0 && queue->bytes < queue->most && queue->count < AHEAD && behind < range->most) {
		struct part *part = part_of(queue, queue->count);
		const uint64_t used = look_ahead(wg, fs, range, &free);
		if (used == 0 || take(wg, fs, free, used, range, part) < 0 || part->lost.bytes == 0) {
			queue->more = 0;
			return;
		}
		behind += part->lost.bytes;
		queue->bytes += part->lost.bytes;
		queue->more--;
		queue->count++;
	}
}

/*
 * Makes the oldest part, and says so, with those behind it that are complete by then. order->bytes: so many count. False: that is not all of them, and nothing is taken
 * any more, nor written.
 */
G4_FN static bool make_some(struct g4_wg *wg, struct g4_fs *fs, uint64_t most, struct queue *queue,
			    struct g4_dev_order *order, int *rc)
{
	uint64_t bytes = 0;
	bool good = true;

	order->all = 0;
	do {
		struct part *part = part_of(queue, 0);
		good = complete(wg, fs, part, true);
		bytes += good ? part->lost.bytes : 0;
		order->all = good ? part->lost.number : order->all;
		remove_first(queue);
	} while (good && queue->count > 0 && part_of(queue, 0)->job && g4_split_is_done(part_of(queue, 0)->job));
	order->bytes = bytes;
	*rc = ask(wg, fs, G4_ORDER_MADE, order);
	if (*rc != 0)
		order->bytes = 0;
	if (!good && *rc == 0 && bytes > 0) { /* and the rest is forgotten */
		const uint64_t counted = order->bytes;
		order->bytes = order->all = 0;
		*rc = ask(wg, fs, G4_ORDER_MADE, order);
		order->bytes = counted;
	}
	good = good && *rc == 0 && order->bytes == bytes;
	change_most(&fs->space.direct, most, good);
	for (; !good && queue->count > 0; remove_first(queue))
		(void)complete(wg, fs, part_of(queue, 0), false);
	return good;
}

/* While one part is made the next ones are looked for and taken, so that helpers go on with them when it is complete, and while the set is told so. */
G4_FN static int make_parts(struct g4_wg *wg, struct g4_fs *fs, struct range *range, struct queue *queue,
			    struct g4_dev_order *order)
{
	uint64_t counted = 0;
	bool good = true;
	int rc = 0;

	while (good && queue->count > 0) {
		take_ahead(wg, fs, range, queue);
		good = make_some(wg, fs, range->most, queue, order, &rc);
		counted += order->bytes;
	}
	order->bytes = counted;
	return rc;
}

/* What comes next by lanes, if they reach all disks. order->bytes: so many are made; 0: the set has to do it. */
G4_FN static int make_next(struct g4_wg *wg, struct g4_fs *fs, bool alone, uint64_t used, struct range *range,
			   struct g4_dev_order *order)
{
	struct g4_direct *direct = &fs->space.direct;
	const uint32_t mark = g4_scratch_mark(wg);
	struct queue *queue = (struct queue *)g4_scratch_take(wg, sizeof(*queue));

	order->bytes = 0;
	queue->first = queue->count = 0;
	queue->more = alone || direct->lost_most || range->most <= STEP_BYTES ? 0 : PARTS - 1;
	queue->most = STEP_PARTS * range->most;
	int rc = take(wg, fs, 0, used / G4_PAGE_BYTES, range, &queue->parts[0]);
	queue->bytes = queue->parts[0].lost.bytes;
	if (rc == 0 && queue->bytes > 0) {
		queue->count = 1;
		rc = make_parts(wg, fs, range, queue, order);
	} else if (rc == 0) { /* somebody is writing there, perhaps */
		change_most(direct, range->most, false);
	}
	g4_scratch_release(wg, mark);
	return rc;
}

/* So much is in use from there on, 0: that is not known. alone: one part, as it were for somebody whose turn it is as well. */
G4_FN static int do_next(struct g4_wg *wg, struct g4_fs *fs, bool alone, struct range *range,
			 struct g4_dev_order *order)
{
	const uint64_t used = order->bytes;
	int rc = 0;

	order->bytes = 0;
	if (g4_direct_makes(&fs->space.direct))
		rc = make_next(wg, fs, alone, used, range, order);
	if (rc != 0 || order->bytes > 0)
		return rc;
	order->bytes = g4_min64(used, STEP_BYTES);
	return ask(wg, fs, G4_ORDER_STEP, order);
}

G4_FN int g4_rebuild_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record, bool calm)
{
	struct g4_dev_order order;
	struct range range;

	memset(&order, 0, sizeof(order));
	int rc = leave_out(wg, fs, most_of(fs, record), &order, &range);
	if (rc == 0)
		rc = do_next(wg, fs, record->rate || !calm, &range, &order);
	else if (rc > 0)
		rc = 0;
	else
		order.bytes = 0;
	record->bytes += order.bytes;
	if (rc == 0)
		show(record, &order);
	else if (rc > 0)
		record->done = record->units;
	return rc;
}

G4_FN int g4_rebuild_obey(struct g4_wg *wg, struct g4_fs *fs, uint32_t order)
{
	struct g4_dev_order note;

	memset(&note, 0, sizeof(note));
	if (order != G4_JOB_PAUSE && order != G4_JOB_CANCEL)
		return 0;
	const int rc = ask(wg, fs, order == G4_JOB_PAUSE ? G4_ORDER_NOTE : G4_ORDER_STOP, &note);
	return rc == -G4_E_NO_TARGET || rc == -G4_E_TARGET ? 0 : rc; /* it failed, which the next step tells */
}

G4_FN static uint32_t order_of(const struct g4_cmd *cmd)
{
	switch (cmd->mask) {
	case G4_DISK_REBUILD:
		return G4_ORDER_REBUILD;
	case G4_DISK_REPLACE:
		return G4_ORDER_REPLACE;
	case G4_DISK_OFFLINE:
		return G4_ORDER_OFFLINE;
	case G4_DISK_ADD:
		return G4_ORDER_ADD;
	case G4_DISK_ASSIGN:
		return G4_ORDER_ASSIGN;
	case G4_DISK_ADD_SPARE:
		return G4_ORDER_ADD_SPARE;
	case G4_DISK_REMOVE_SPARE:
		return G4_ORDER_REMOVE_SPARE;
	default:
		return G4_ORDER_NAME;
	}
}

/* is_new: nothing of it was met damaged yet. */
G4_FN static void begun(struct g4_fs *fs, const struct g4_dev_order *order, bool is_new, struct g4_job_record *record)
{
	show(record, order);
	record->arguments[ARGUMENT_DISK] = order->disk;
	if (is_new)
		g4_store64_rlx(&fs->space.damaged[order->disk], 0);
}

G4_FN int g4_rebuild_relieve(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	const int rc = ask(wg, fs, G4_ORDER_RELIEVE, &order);
	if (rc == 0)
		begun(fs, &order, true, record);
	return rc;
}

G4_FN int g4_rebuild_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record)
{
	const uint32_t mark = g4_scratch_mark(wg);
	char *name = (char *)g4_scratch_take_page(wg);
	struct g4_dev_order order;
	uint32_t length = 0;

	if (cmd->name_bytes >= G4_PAGE_BYTES || cmd->length == 0) {
		g4_scratch_release(wg, mark);
		return -G4_E_INVAL;
	}
	memset(&order, 0, sizeof(order));
	if (cmd->name_bytes > 0)
		memcpy(name, cmd->name, cmd->name_bytes);
	name[cmd->name_bytes] = 0;
	order.name = name;
	order.disk = (uint32_t)g4_min64(cmd->number, UINT32_MAX);
	order.text = (char *)cmd->data;
	order.text_bytes = cmd->length;
	order.text[0] = 0;
	const int rc = ask(wg, fs, order_of(cmd), &order);
	while (length < cmd->length && order.text[length])
		length++;
	cmd->value = length;
	if (rc == 0)
		begun(fs, &order, cmd->mask == G4_DISK_REPLACE, record);
	g4_scratch_release(wg, mark);
	return rc;
}
