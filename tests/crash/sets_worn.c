/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of files rot, one in a row of those with parity, all copies but one: all is read as it was, and a scrub makes them good, so that as many
 * disks as may be can be lost behind it.
 *
 * More rots than can be made good. Of contents: some pages of files, in all their copies, or with as many parities of their rows as there are;
 * or some disks are lost, and of what is left so much rots. Those pages are errors then, and nothing else is: all other pages, names and
 * attributes are as they were, and what is written over a lost page is there. Of metadata: a page that is no file's, in all copies. What
 * depends on it may be an error; what is told is right, no name is told that was not there, and none is left out of a directory that is read
 * without an error.
 */
#include "sets_worn.h"

#include "fs/fs.h"
#include "fs/jobs.h"
#include "fs/mount_host.h"

#define MOST_PAGES 8192u
#define MOST_CHUNKS 512u
#define MOST_LOST 64u
#define VICTIMS 3u
#define TRIES 40u
#define MOST_STEPS 20000u

struct page_of { /* of a file, as far as it is looked at */
	uint32_t node, k;
	uint64_t address;
};

struct wear {
	struct lab *lab;
	const struct tree *is;
	uint32_t active, lost; /* disks, where they lie in memory */
	uint64_t random;
	struct g4_fs *fs;
	struct actor actor;
	struct page_of *pages;
	uint32_t page_count;
	struct g4_chunk chunks[MOST_CHUNKS];
	uint32_t chunk_count;
	uint32_t slots[G4_MAX_DISKS]; /* of a disk's number */
	uint64_t gone[MOST_LOST];     /* addresses of pages that can not be made; or of rows of which one has rotted */
	uint32_t gone_count;
	const char *what; /* happens */
	struct tree found;
	char *text;
	size_t room;
};

static bool fails(struct wear *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fails(struct wear *w, const char *format, ...)
{
	va_list arguments;
	const int n = snprintf(w->text, w->room, "%s%s: ", w->what, w->lost ? ", and disks lost" : "");

	va_start(arguments, format);
	vsnprintf(w->text + n, w->room - (size_t)n, format, arguments);
	va_end(arguments);
	return false;
}

static bool mount(struct wear *w, uint32_t disks)
{
	char message[1024];

	lab_present(w->lab, disks);
	w->fs = lab_mount(w->lab, true, message, sizeof(message));
	if (!w->fs)
		return fails(w, "it does not mount: %s", message);
	actor_start(&w->actor, w->fs, w->lab->wg[0]);
	return true;
}

static void unmount(struct wear *w, bool clean)
{
	if (w->fs)
		(void)lab_unmount(w->lab, w->fs, clean);
	w->fs = NULL;
}

/* ------------------------------------------------------------------ where everything is */

/* The part of a file from the page on that is in memory of the map: so many pages. */
static void note_pages(struct wear *w, uint32_t node, const struct g4_map_extent *extent)
{
	const struct node *file = &w->is->nodes[node];

	if (extent->flags & (G4_MAP_UNWRITTEN | G4_MAP_INLINE))
		return;
	for (uint32_t k = 0; k < file->page_count && w->page_count < MOST_PAGES; k++) {
		const uint64_t at = page_index(k) * G4_PAGE_BYTES;
		if (at >= extent->offset && at < extent->offset + extent->length)
			w->pages[w->page_count++] = (struct page_of){
				.node = node, .k = k, .address = extent->address + at - extent->offset};
	}
}

static bool find_pages(struct wear *w)
{
	struct g4_map_extent extents[32];
	uint64_t ino;

	for (uint32_t n = 0; n < w->is->count; n++) {
		const struct node *node = &w->is->nodes[n];
		uint32_t count = 1;
		if (!g4_is_reg(node->mode) || node->page_count == 0)
			continue;
		int rc = part_resolve(&w->actor, node->path, &ino);
		for (uint64_t at = 0; rc == 0 && count > 0;) {
			rc = op_map(&w->actor.rig, ino, at, extents, 32, &count);
			for (uint32_t k = 0; rc == 0 && k < count; k++) {
				note_pages(w, n, &extents[k]);
				at = extents[k].offset + extents[k].length;
			}
		}
		if (rc < 0)
			return fails(w, "%s can not be mapped: %s", node->path, g4_strerror(rc));
	}
	return true;
}

static bool find_places(struct wear *w)
{
	const struct set_lab *s = &w->lab->set;
	struct g4_disk_info info;

	while (w->chunk_count < MOST_CHUNKS && g4_set_chunk(s->device, w->chunk_count, &w->chunks[w->chunk_count]))
		w->chunk_count++;
	for (uint32_t d = 0; g4_set_disk(s->device, d, &info); d++)
		for (uint32_t n = 0; n < s->disks.count; n++)
			if (info.name && strcmp(info.name, s->disks.names[n]) == 0)
				w->slots[d] = n;
	return find_pages(w);
}

static const struct g4_chunk *chunk_of(const struct wear *w, uint64_t address)
{
	for (uint32_t n = 0; n < w->chunk_count; n++)
		if (address - w->chunks[n].address < w->chunks[n].bytes && !g4_chunk_is_gone(&w->chunks[n]))
			return &w->chunks[n];
	return NULL;
}

static const struct page_of *page_at(const struct wear *w, uint64_t address)
{
	for (uint32_t k = 0; k < w->page_count; k++)
		if (w->pages[k].address == address)
			return &w->pages[k];
	return NULL;
}

/* ------------------------------------------------------------------ wearing it out */

static bool is_lost(const struct wear *w, uint64_t place)
{
	return w->lost >> w->slots[g4_place_disk(place)] & 1;
}

/* A byte of the page there is another. */
static void rot(struct wear *w, uint64_t place, uint64_t within)
{
	const uint64_t at = w->slots[g4_place_disk(place)] * w->lab->set.disk_bytes + g4_place_address(place) + within +
			    rig_random(&w->random) % G4_PAGE_BYTES;

	memory_save(&w->lab->memory, at, 1);
	w->lab->memory.bytes[at] ^= (uint8_t)(1u << rig_random(&w->random) % 8);
}

static void note_gone(struct wear *w, uint64_t address)
{
	for (uint32_t k = 0; k < w->gone_count; k++)
		if (w->gone[k] == address)
			return;
	if (w->gone_count < MOST_LOST)
		w->gone[w->gone_count++] = address;
}

static bool wear_copies(struct wear *w, const struct g4_chunk *chunk, uint64_t address)
{
	const struct g4_chunk_map map = {.chunks = w->chunks, .count = w->chunk_count};
	struct g4_piece piece;

	g4_chunk_translate(&map, address, G4_PAGE_BYTES, &piece);
	for (uint32_t c = 0; c < piece.copies; c++) {
		const uint64_t place = piece.offsets[c] | piece.disks[c];
		if (!is_lost(w, place))
			rot(w, place, 0);
	}
	note_gone(w, address);
	return chunk->copies > 0;
}

/* Of the row of the page: that one, and of the others so many that parity can not make it. False: among these is a page that is no file's. */
static bool wear_row(struct wear *w, const struct g4_chunk *chunk, uint64_t address)
{
	const uint64_t in_chunk = address - chunk->address, index = in_chunk / chunk->stripe_bytes,
		       within = in_chunk % chunk->stripe_bytes;
	const uint32_t data = g4_chunk_data_columns(chunk), own = (uint32_t)(index % data);
	const uint64_t stripe = index / data;
	uint32_t bad = 1u << own, count = 1;

	for (uint32_t c = 0; c < chunk->columns; c++)
		if (c != own && is_lost(w, g4_chunk_place(chunk, stripe, c))) {
			bad |= 1u << c;
			count++;
		}
	for (uint32_t c = chunk->columns; c-- > 0 && count <= chunk->parity;)
		if (!(bad >> c & 1)) {
			bad |= 1u << c;
			count++;
		}
	for (uint32_t c = 0; c < data; c++)
		if ((bad >> c & 1) && !page_at(w, chunk->address + (stripe * data + c) * chunk->stripe_bytes + within))
			return false;
	for (uint32_t c = 0; c < chunk->columns; c++) {
		const uint64_t place = g4_chunk_place(chunk, stripe, c);
		if ((bad >> c & 1) && !is_lost(w, place))
			rot(w, place, stripe * chunk->stripe_bytes + within);
		if ((bad >> c & 1) && c < data)
			note_gone(w, chunk->address + (stripe * data + c) * chunk->stripe_bytes + within);
	}
	return true;
}

static bool wear_page(struct wear *w, uint64_t address)
{
	const struct g4_chunk *chunk = chunk_of(w, address);

	return chunk && (chunk->parity ? wear_row(w, chunk, address) : wear_copies(w, chunk, address));
}

/* Up to so many as may be lost, and then some pages. */
static void wear_contents(struct wear *w)
{
	uint32_t victims = 0;

	for (uint32_t k = rig_random(&w->random) % (set_kinds[w->lab->kind].spare + 1u); k > 0; k--)
		w->lost |= w->active & 1u << rig_random(&w->random) % MEMORY_DISKS;
	for (uint32_t n = 0; n < TRIES && victims < VICTIMS && w->page_count > 0; n++)
		victims += wear_page(w, w->pages[rig_random(&w->random) % w->page_count].address);
}

/* ------------------------------------------------------------------ judging */

static bool is_gone(const struct wear *w, uint32_t node, uint32_t k)
{
	for (uint32_t p = 0; p < w->page_count; p++)
		if (w->pages[p].node == node && w->pages[p].k == k)
			for (uint32_t g = 0; g < w->gone_count; g++)
				if (w->gone[g] == w->pages[p].address)
					return true;
	return false;
}

static bool see(struct wear *w)
{
	const char *what;

	w->found.tolerant = true;
	const int rc = look(&w->actor.rig, &w->found, &what);
	return rc == 0 || fails(w, "%s: %s", what, g4_strerror(rc));
}

/* What is lost is an error, and only that. `mended`: these pages of a file were written again. */
static bool judge_contents(struct wear *w)
{
	if (w->found.count != w->is->count)
		return fails(w, "there are %u names instead of %u", w->found.count, w->is->count);
	for (uint32_t n = 0; n < w->is->count; n++) {
		const struct node *was = &w->is->nodes[n], *now = &w->found.nodes[n];
		if (now->damaged || !same_but_contents(was, now) || was->size != now->size)
			return fails(w, "%s is %s, of which only contents rotted", was->path,
				     now->damaged ? "an error" : "another");
		for (uint32_t k = 0; k < was->page_count; k++) {
			const uint64_t before = node_page(w->is, was, k), found = node_page(&w->found, now, k);
			const bool gone = is_gone(w, n, k);
			if (gone ? found != LOST_PAGE : found != before)
				return fails(w, "page %lu of %s, which is %s, is %s", (unsigned long)page_index(k),
					     was->path, gone ? "lost" : "not lost",
					     found == LOST_PAGE ? "an error" :
					     found == before	? "there" :
								  "another");
			w->lab->counts->by_set[w->lab->kind].pages_lost += gone;
		}
	}
	return true;
}

/* A page that is lost is written as a whole: it is there, and what was lost beside it still is. */
static bool write_over(struct wear *w)
{
	const struct page_of *page = w->gone_count > 0 ? page_at(w, w->gone[0]) : NULL;
	const struct node *file = page ? &w->is->nodes[page->node] : NULL;
	const uint64_t at = page ? page_index(page->k) * G4_PAGE_BYTES : 0;
	struct part part = {.verb = WRITE, .offset = at, .bytes = G4_PAGE_BYTES, .id = 998};

	if (!page || at + G4_PAGE_BYTES > file->size || strlen(file->path) >= sizeof(part.path))
		return true;
	memcpy(part.path, file->path, strlen(file->path) + 1);
	int rc = part_run(&w->actor, &part);
	if (rc == 0)
		rc = op_sync(&w->actor.rig);
	if (rc < 0)
		return fails(w, "page %lu of %s can not be written again: %s", (unsigned long)page_index(page->k),
			     file->path, g4_strerror(rc));
	if (!see(w))
		return false;
	const struct node *now = tree_find(&w->found, file->path);
	const uint64_t found = now ? node_page(&w->found, now, page->k) : LOST_PAGE;
	return (found != LOST_PAGE && found != 0) || fails(w, "page %lu of %s was written again, and is an error still",
							   (unsigned long)page_index(page->k), file->path);
}

/* ------------------------------------------------------------------ what can be made good */

bool sets_scrub(struct lab *lab, struct g4_fs *fs, struct actor *actor, char *text, size_t room)
{
	const struct g4_jobs *jobs = &fs->jobs;
	int rc = op_job_start(&actor->rig, G4_JOB_SCRUB, 0, 0);
	bool runs = rc == 0;

	for (uint32_t k = 0; runs && k < MOST_STEPS; k++) {
		(void)g4_jobs_serve(lab->wg[0], fs, true);
		runs = false;
		for (uint32_t i = 0; i < G4_JOBS; i++)
			runs |= jobs->records[i].kind != G4_JOB_NONE && jobs->records[i].state == G4_JOB_RUNNING;
	}
	const struct g4_job_record *job = &jobs->records[0];
	for (uint32_t i = 1; i < G4_JOBS; i++)
		if (jobs->records[i].number > job->number)
			job = &jobs->records[i];
	if (rc < 0 || runs)
		snprintf(text, room, rc < 0 ? "a scrub does not begin" : "a scrub does not end");
	else if (job->state != G4_JOB_DONE || job->errors > 0)
		snprintf(text, room, "a scrub ends in state %u with %lu errors", (uint32_t)job->state,
			 (unsigned long)job->errors);
	else
		return true;
	return false;
}

/* The row of a page, by the address that its first column has; of copies the page. */
static uint64_t row_of(const struct g4_chunk *chunk, uint64_t address)
{
	const uint64_t in_chunk = address - chunk->address;

	if (!chunk->parity)
		return address;
	return address - in_chunk % g4_chunk_stripe_data(chunk) + in_chunk % chunk->stripe_bytes;
}

/*
 * Whether all pages of a row are known. One that is allocated and was never written is told to no scrub, which can not say then what has rotted
 * beside it (docs/roadmap.md).
 */
static bool is_known_row(const struct wear *w, const struct g4_chunk *chunk, uint64_t first)
{
	for (uint32_t c = 0; c < g4_chunk_data_columns(chunk); c++)
		if (!page_at(w, first + (uint64_t)c * chunk->stripe_bytes))
			return false;
	return true;
}

/* All copies but one; or one column of the row. */
static void wear_some(struct wear *w)
{
	const struct g4_chunk_map map = {.chunks = w->chunks, .count = w->chunk_count};
	struct g4_piece piece;

	for (uint32_t n = 0; n < TRIES && w->page_count > 0; n++) {
		const uint64_t address = w->pages[rig_random(&w->random) % w->page_count].address;
		const struct g4_chunk *chunk = chunk_of(w, address);
		const uint32_t before = w->gone_count;
		if (!chunk || (chunk->parity && !is_known_row(w, chunk, row_of(chunk, address))))
			continue;
		note_gone(w, row_of(chunk, address));
		if (w->gone_count == before) /* that one has lost what it may */
			continue;
		if (chunk->parity) {
			const uint64_t in_chunk = address - chunk->address;
			const uint64_t stripe = in_chunk / g4_chunk_stripe_data(chunk);
			const uint32_t column = rig_random(&w->random) % chunk->columns;
			rot(w, g4_chunk_place(chunk, stripe, column),
			    stripe * chunk->stripe_bytes + in_chunk % chunk->stripe_bytes);
			continue;
		}
		g4_chunk_translate(&map, address, G4_PAGE_BYTES, &piece);
		const uint32_t whole = rig_random(&w->random) % piece.copies;
		for (uint32_t c = 0; c < piece.copies; c++)
			if (c != whole)
				rot(w, piece.offsets[c] | piece.disks[c], 0);
	}
}

static bool is_all_there(struct wear *w, const char *when)
{
	const char *what;

	w->what = when;
	w->gone_count = 0;
	w->found.tolerant = false;
	const int rc = look(&w->actor.rig, &w->found, &what);
	return rc < 0 ? fails(w, "%s: %s", what, g4_strerror(rc)) : judge_contents(w);
}

static bool mends(struct wear *w, uint32_t later)
{
	struct outcome outcome = {0};
	char why[128];

	if (!mount(w, w->active) || !is_all_there(w, "with some rotten"))
		return false;
	if (!sets_scrub(w->lab, w->fs, &w->actor, why, sizeof(why)))
		return fails(w, "%s", why);
	if (!is_all_there(w, "with some rotten, scrubbed"))
		return false;
	unmount(w, true);
	w->lab->set.used = w->active;
	run_fsck(w->lab, &outcome, true, ANY_SPACE);
	if (outcome.bad) {
		fails(w, "%s", outcome.text);
		free(outcome.text);
		return false;
	}
	w->lost = later;
	return mount(w, w->active & ~later) && is_all_there(w, "with some rotten, scrubbed");
}

/* ------------------------------------------------------------------ metadata */

/* A page in use, by its address, that is no file's and no part of the journal or of what lies before the groups. */
static bool wear_metadata(struct wear *w)
{
	const struct g4_layout *layout = &w->fs->meta.layout;
	const uint64_t first = layout->groups_address / G4_PAGE_BYTES, end = layout->backup_address / G4_PAGE_BYTES;
	const struct g4_chunk_map map = {.chunks = w->chunks, .count = w->chunk_count};
	struct g4_piece piece;

	for (uint32_t n = 0; n < 50 * TRIES; n++) {
		const uint64_t address = (first + rig_random(&w->random) % (end - first)) * G4_PAGE_BYTES;
		const struct g4_chunk *chunk = chunk_of(w, address);
		if (!chunk || chunk->parity || page_at(w, address) ||
		    g4_alloc_in_use(w->lab->wg[0], &w->fs->alloc, g4_page_address(address / G4_PAGE_BYTES)) != 1)
			continue;
		g4_chunk_translate(&map, address, G4_PAGE_BYTES, &piece);
		const uint8_t *bytes =
			w->lab->memory.bytes + w->slots[piece.disks[0]] * w->lab->set.disk_bytes + piece.offsets[0];
		bool empty = true;
		for (uint32_t k = 0; k < G4_PAGE_BYTES && empty; k++)
			empty = bytes[k] == 0;
		if (!empty)
			return wear_copies(w, chunk, address);
	}
	return false;
}

/* Whether a directory above it, or it itself, could not be read. */
static bool is_behind_damage(const struct wear *w, const char *path)
{
	char above[PATH_MAX_BYTES];
	const struct node *node = tree_find(&w->found, path);

	if (node)
		return node->damaged;
	for (snprintf(above, sizeof(above), "%s", path);;) {
		char *slash = strrchr(above, '/');
		*(slash ? slash : above) = 0;
		node = tree_find(&w->found, above);
		if (node && node->damaged)
			return true;
		if (!slash)
			return false;
	}
}

static bool judge_metadata(struct wear *w)
{
	for (uint32_t n = 0; n < w->found.count; n++) {
		const struct node *now = &w->found.nodes[n], *was = tree_find(w->is, now->path);
		if (!was)
			return fails(w, "there is a name that there was not: %s", now->path);
		if (now->damaged)
			continue;
		if (!same_but_contents(was, now) || was->size != now->size)
			return fails(w, "%s is another, and no error", now->path);
		for (uint32_t k = 0; k < was->page_count; k++) {
			const uint64_t before = node_page(w->is, was, k), found = node_page(&w->found, now, k);
			if (found != before && found != LOST_PAGE)
				return fails(w, "page %lu of %s is another, and no error", (unsigned long)page_index(k),
					     now->path);
			w->lab->counts->by_set[w->lab->kind].pages_lost += found == LOST_PAGE;
		}
	}
	for (uint32_t n = 0; n < w->is->count; n++)
		if (!tree_find(&w->found, w->is->nodes[n].path) && !is_behind_damage(w, w->is->nodes[n].path))
			return fails(w, "%s is not there any more, and no error said so", w->is->nodes[n].path);
	return true;
}

/* ------------------------------------------------------------------ both */

static bool try_contents(struct wear *w)
{
	wear_contents(w);
	if (w->gone_count == 0)
		return true;
	bool good = mount(w, w->active & ~w->lost) && see(w) && judge_contents(w) && write_over(w);
	unmount(w, false);
	return good;
}

/* A mount may be refused, with a sentence. */
static bool try_metadata(struct wear *w)
{
	char message[1024];

	lab_present(w->lab, w->active);
	w->fs = lab_mount(w->lab, true, message, sizeof(message));
	if (!w->fs)
		return message[0] || fails(w, "a mount is refused without a word");
	actor_start(&w->actor, w->fs, w->lab->wg[0]);
	const bool good = see(w) && judge_metadata(w);
	unmount(w, false);
	return good;
}

static struct wear *new_wear(struct lab *lab, uint32_t active, const struct tree *is, uint64_t random, char *text,
			     size_t room)
{
	struct wear *w = (struct wear *)calloc(1, sizeof(*w));
	struct page_of *pages = (struct page_of *)malloc(MOST_PAGES * sizeof(*pages));

	if (!w || !pages)
		abort();
	w->lab = lab;
	w->is = is;
	w->active = active;
	w->random = random;
	w->pages = pages;
	w->text = text;
	w->room = room;
	return w;
}

static void free_wear(struct wear *w)
{
	tree_free(&w->found);
	free(w->pages);
	free(w);
}

bool sets_mend(struct lab *lab, uint32_t active, uint32_t later, const struct tree *is, uint64_t random, char *text,
	       size_t room)
{
	const uint32_t mark = memory_mark(&lab->memory);
	struct wear *w = new_wear(lab, active, is, random, text, room);

	w->what = "with some rotten";
	bool good = mount(w, active) && find_places(w);
	unmount(w, false);
	if (good) {
		lab->counts->by_set[lab->kind].mended++;
		wear_some(w);
		good = mends(w, later);
		unmount(w, false);
	}
	memory_back(&lab->memory, mark);
	free_wear(w);
	return good;
}

bool sets_wear_out(struct lab *lab, uint32_t active, const struct tree *is, uint64_t random, char *text, size_t room)
{
	const uint32_t mark = memory_mark(&lab->memory);
	struct wear *w = new_wear(lab, active, is, random, text, room);
	const bool metadata = rig_random(&w->random) % 4 == 0;
	bool good, found = false;

	w->what = "with more rotten than can be made good";
	good = mount(w, active) && find_places(w);
	if (good && metadata)
		found = wear_metadata(w);
	unmount(w, false);
	if (good && (found || !metadata)) {
		lab->counts->by_set[lab->kind].worn++;
		good = metadata ? try_metadata(w) : try_contents(w);
	}
	memory_back(&lab->memory, mark);
	free_wear(w);
	return good;
}
