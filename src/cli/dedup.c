/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record a page: a key made of its sum, its address, and where it is in which file. All records of a range of keys are in memory at a
 * time; where there are more than fit, the range is halved, down to a part of the addresses of one key, and the rest is for another pass
 * over the sums. Sorted, pages with the same contents lie in a row. Of those the address with the most pages in its pass stays, and the
 * others' pages become jobs, in the order of files. Pages of zeros are all jobs: they become holes.
 *
 * Nothing is kept between runs: one that was ended at any point is begun anew, and finds what it did shared.
 */
#include "cli/dedup.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock_host.h"
#include "base/units_host.h"
#include "cli/attach.h"
#include "cli/dedup_chunks.h"
#include "cli/dedup_share.h"
#include "fuse/ioctl.h"
#include "hash/sums.h"

#define TINY_BYTES 128u /* a file of so many has no pages */
#define SUMS_AT_ONCE 512u
#define JOB_PAGES 4096u /* that one call shares at most */
#define NO_PAGE UINT32_MAX

struct g4_dedup_record {
	uint64_t key; /* of a job: the page that stays, file << 32 | page */
	uint64_t address;
	uint32_t file, page;
};

static void show(struct g4_dedup *dedup, const char *what, uint64_t done, uint64_t total)
{
	char size[24], text[128];

	if (!g4_progress_wanted(&dedup->progress))
		return;
	g4_format_size(dedup->shared * G4_DEDUP_PAGE_BYTES, size, sizeof(size));
	snprintf(text, sizeof(text), "pass %llu: %s %llu of %llu, %s shared", (unsigned long long)dedup->passes + 1,
		 what, (unsigned long long)done, (unsigned long long)total, size);
	g4_progress_text(&dedup->progress, text);
}

/* ------------------------------------------------------------------ files */

static int add_file(struct g4_dedup *dedup, const char *path, uint64_t ino)
{
	if (dedup->files == dedup->file_room) {
		const uint64_t room = dedup->file_room ? 2 * dedup->file_room : 1024;
		struct g4_dedup_file *more = realloc(dedup->file_list, room * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		dedup->file_list = more;
		dedup->file_room = room;
	}
	if (dedup->files == UINT32_MAX)
		return -ENOMEM;
	struct g4_dedup_file *file = &dedup->file_list[dedup->files];
	*file = (struct g4_dedup_file){.ino = ino};
	file->path = strdup(path);
	if (file->path == NULL)
		return -ENOMEM;
	dedup->files++;
	return 0;
}

static bool add_found(struct g4_dedup *dedup, const char *path, const struct g4_dedup_entry *found);

static bool add_directory(struct g4_dedup *dedup, const char *path)
{
	struct g4_dedup_entry entry;
	struct g4_dedup_dir dir;
	bool good = true;
	int rc = g4_dedup_dir_open(&dedup->place, path, &dir);

	if (rc < 0)
		return g4_dedup_has_gone(rc) || g4_dedup_tell(path, rc);
	while (!g4_cli_interrupted() && (rc = g4_dedup_dir_next(&dedup->place, &dir, &entry)) > 0) {
		char *below;
		if (asprintf(&below, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry.name) < 0) {
			rc = -ENOMEM;
			break;
		}
		good = add_found(dedup, below, &entry) && good;
		free(below);
	}
	g4_dedup_dir_close(&dir);
	return rc < 0 && !g4_dedup_has_gone(rc) ? g4_dedup_tell(path, rc) : good;
}

static bool add_found(struct g4_dedup *dedup, const char *path, const struct g4_dedup_entry *found)
{
	int rc = 0;

	if (S_ISDIR(found->mode))
		return add_directory(dedup, path);
	if (S_ISREG(found->mode) && found->size > TINY_BYTES)
		rc = add_file(dedup, path, found->ino);
	return rc < 0 ? g4_dedup_tell(path, rc) : true;
}

bool g4_dedup_add(struct g4_dedup *dedup, const char *path)
{
	struct g4_dedup_entry entry;
	const int rc = g4_dedup_stat(&dedup->place, path, &entry);

	if (rc < 0)
		return g4_dedup_tell(path, rc);
	return add_found(dedup, path, &entry);
}

static int by_inode(const void *a, const void *b)
{
	const struct g4_dedup_file *first = a, *second = b;

	return first->ino < second->ino ? -1 : first->ino > second->ino;
}

/* A file with several names, or that was added twice, counts once. */
static void each_once(struct g4_dedup *dedup)
{
	uint64_t kept = 0;

	if (dedup->files > 0)
		qsort(dedup->file_list, dedup->files, sizeof(*dedup->file_list), by_inode);
	for (uint64_t i = 0; i < dedup->files; i++) {
		if (kept > 0 && dedup->file_list[kept - 1].ino == dedup->file_list[i].ino)
			free(dedup->file_list[i].path);
		else
			dedup->file_list[kept++] = dedup->file_list[i];
	}
	dedup->files = kept;
}

/* ------------------------------------------------------------------ sharing */

static int by_place(const void *a, const void *b)
{
	const struct g4_dedup_record *first = a, *second = b;

	if (first->file != second->file)
		return first->file < second->file ? -1 : 1;
	return first->page < second->page ? -1 : first->page > second->page;
}

static int share_all(struct g4_dedup *dedup, struct g4_dedup_record *jobs, uint64_t count)
{
	struct g4_dedup_handles *handles = g4_dedup_handles_new();
	int rc = handles == NULL ? -ENOMEM : 0;

	if (count > 0)
		qsort(jobs, count, sizeof(*jobs), by_place);
	for (uint64_t i = 0; i < count && rc == 0;) {
		uint32_t n = 1;
		while (i + n < count && n < JOB_PAGES && jobs[i + n].file == jobs[i].file &&
		       jobs[i + n].page == jobs[i].page + n && jobs[i + n].key == jobs[i].key + n)
			n++;
		const struct g4_dedup_row row = {(uint32_t)(jobs[i].key >> 32), (uint32_t)jobs[i].key, jobs[i].file,
						 jobs[i].page, n};
		rc = g4_dedup_share(dedup, handles, &row);
		i += n;
		show(dedup, "duplicate", i, count);
	}
	if (rc == 0)
		rc = g4_dedup_flush(dedup);
	g4_dedup_handles_free(handles);
	return rc;
}

/* ------------------------------------------------------------------ what is the same */

static int by_contents(const void *a, const void *b)
{
	const struct g4_dedup_record *first = a, *second = b;

	if (first->key != second->key)
		return first->key < second->key ? -1 : 1;
	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	return by_place(a, b);
}

static uint64_t mix(uint64_t word, uint32_t algorithm)
{
	word = (word ^ algorithm) * UINT64_C(0x9e3779b97f4a7c15);
	return word ^ word >> 32;
}

/* The keys of a page of zeros: its sum's first word with each algorithm (hash/sums.h). */
static void make_zero_keys(struct g4_dedup *dedup)
{
	static const uint8_t zeros[G4_DEDUP_PAGE_BYTES];
	uint8_t digest[G4_BLAKE3_BYTES];
	uint64_t word, words[2];

	g4_blake3(zeros, sizeof(zeros), digest);
	memcpy(&word, digest, sizeof(word));
	g4_xxh3_128(zeros, sizeof(zeros), words);
	dedup->zero_keys[0] = mix(word, 1);
	dedup->zero_keys[1] = mix(g4_crc32c(0, zeros, sizeof(zeros)), 2);
	dedup->zero_keys[2] = mix(words[0], 3);
}

static bool is_zeros(const struct g4_dedup *dedup, uint64_t key)
{
	return key == dedup->zero_keys[0] || key == dedup->zero_keys[1] || key == dedup->zero_keys[2];
}

static void count_owners(struct g4_dedup *dedup, uint64_t owners)
{
	uint32_t class = 0;

	while (class + 1 < G4_DEDUP_CLASSES && owners >> (class + 1) != 0)
		class ++;
	dedup->owners[class]++;
	dedup->stored++;
}

/* Keys, and addresses of each: what a pass has records of. */
struct place {
	uint64_t key, address;
};

struct pass {
	struct place low, high;
	bool keeps; /* `stays` is the page that stays of stays.key, whose first addresses were in a pass before */
	struct g4_dedup_record stays;
	uint64_t owners; /* low is high, and its pages are more than fit: so many of them were dealt with already */
};

/*
 * Pages of one key, sorted: counts them, and makes jobs of those at other addresses than the one that stays; of zeros none does. `all`: there are no more
 * of the last address in this pass. Returns how many jobs there are.
 */
static uint64_t plan(struct g4_dedup *dedup, struct pass *pass, const struct g4_dedup_record *group, uint64_t count,
		     bool all, struct g4_dedup_record *jobs)
{
	const bool zeros = is_zeros(dedup, group->key), known = pass->keeps && pass->stays.key == group->key;
	struct g4_dedup_record stays = known ? pass->stays : *group;
	uint64_t most = 0, made = 0, addresses = 0;

	for (uint64_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && group[i + n].address == group[i].address; n++)
			;
		addresses += pass->owners == 0;
		pass->owners += n;
		if (all) {
			count_owners(dedup, pass->owners);
			pass->owners = 0;
		}
		if (!known && (n > most || (n == most && by_place(&group[i], &stays) < 0))) {
			most = n;
			stays = group[i];
		}
	}
	for (uint64_t i = 0; i < count; i++) {
		const struct g4_dedup_record record = group[i];
		if (zeros || record.address != stays.address) {
			jobs[made] = record;
			jobs[made++].key = zeros ? (uint64_t)G4_DEDUP_ZEROS << 32 | record.page :
						   (uint64_t)stays.file << 32 | stays.page;
		}
	}
	dedup->pages += count;
	dedup->zeros += zeros ? count : 0;
	dedup->duplicates += addresses - (known || zeros ? 0 : 1);
	pass->keeps = true;
	pass->stays = stays;
	return made;
}

/* All records, which are used up. */
static int plan_all(struct g4_dedup *dedup, struct pass *pass, bool all)
{
	struct g4_dedup_record *records = dedup->records;
	uint64_t jobs = 0;

	if (dedup->record_count > 0)
		qsort(records, dedup->record_count, sizeof(*records), by_contents);
	for (uint64_t i = 0, n; i < dedup->record_count; i += n) {
		for (n = 1; i + n < dedup->record_count && records[i + n].key == records[i].key; n++)
			;
		jobs += plan(dedup, pass, &records[i], n, all, &records[jobs]);
	}
	dedup->record_count = 0;
	return dedup->share ? share_all(dedup, records, jobs) : 0;
}

/* ------------------------------------------------------------------ passes */

static bool is_behind(struct place place, struct place other)
{
	return place.key != other.key ? place.key > other.key : place.address > other.address;
}

/* Room for another record: fewer keys, or of one key fewer addresses, or if that is one, what is there is dealt with at once. */
static int make_room(struct g4_dedup *dedup, struct pass *pass)
{
	while (dedup->record_count == dedup->record_room) {
		uint64_t kept = 0;
		if (pass->low.key < pass->high.key)
			pass->high = (struct place){pass->low.key + (pass->high.key - pass->low.key) / 2, UINT64_MAX};
		else if (pass->low.address < pass->high.address)
			pass->high.address = pass->low.address + (pass->high.address - pass->low.address) / 2;
		else
			return plan_all(dedup, pass, false);
		for (uint64_t i = 0; i < dedup->record_count; i++)
			if (!is_behind((struct place){dedup->records[i].key, dedup->records[i].address}, pass->high))
				dedup->records[kept++] = dedup->records[i];
		dedup->record_count = kept;
	}
	return 0;
}

/* What has the same key may be the same; a page without a sum is like no other. */
static uint64_t key_of(const struct gpu4fs_page_sum *page)
{
	uint64_t word = page->address;

	if (g4_dedup_has_sum(page))
		memcpy(&word, page->sum, sizeof(word));
	return mix(word, g4_dedup_has_sum(page) ? page->algorithm : 0);
}

static int take_page(struct g4_dedup *dedup, struct pass *pass, uint32_t number, const struct gpu4fs_page_sum *page)
{
	const struct place place = {key_of(page), page->address};
	int rc = 0;

	if (is_behind(pass->low, place) || is_behind(place, pass->high))
		return 0;
	if (dedup->record_count == dedup->record_room)
		rc = make_room(dedup, pass);
	if (rc < 0 || is_behind(place, pass->high))
		return rc;
	dedup->records[dedup->record_count++] = (struct g4_dedup_record){
		place.key, place.address, number, (uint32_t)(page->offset / G4_DEDUP_PAGE_BYTES)};
	return 0;
}

/* The file can not be looked at: it is told once. 0, or what ends the pass. */
static int leave_out(struct g4_dedup *dedup, const struct g4_dedup_file *file, bool first, int rc)
{
	if (first && !g4_dedup_ends_all(rc) && !g4_dedup_has_gone(rc)) {
		dedup->left_out++;
		g4_dedup_tell(file->path, rc);
	}
	return g4_dedup_ends_all(rc) ? rc : 0;
}

/* Pages of a file that it has from somewhere on. */
static int take_some(struct g4_dedup *dedup, struct pass *pass, uint32_t number, bool first,
		     const struct gpu4fs_page_sum *sums, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (sums[i].offset / G4_DEDUP_PAGE_BYTES >= NO_PAGE)
			return -EFBIG;
		dedup->without_sums += first && !g4_dedup_has_sum(&sums[i]);
		const int rc = take_page(dedup, pass, number, &sums[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* All pages of an open file. */
static int take_pages(struct g4_dedup *dedup, struct pass *pass, uint32_t number, const struct g4_dedup_handle *handle,
		      bool first, struct gpu4fs_page_sum *sums)
{
	int64_t offset = 0, count;

	while ((count = g4_dedup_sums(handle, offset, sums, SUMS_AT_ONCE)) > 0) {
		const int waited = g4_cli_interrupted() ? -EINTR : g4_dedup_yield(dedup);
		if (waited < 0)
			return waited;
		const int rc = take_some(dedup, pass, number, first, sums, (uint64_t)count);
		if (rc < 0)
			return rc;
		offset = (int64_t)(sums[count - 1].offset + G4_DEDUP_PAGE_BYTES);
	}
	return (int)count;
}

static bool is_first(const struct pass *pass)
{
	return pass->low.key == 0 && pass->low.address == 0;
}

/* 0, or what ends the pass. */
static int take_file(struct g4_dedup *dedup, struct pass *pass, uint32_t number, struct gpu4fs_page_sum *sums)
{
	struct g4_dedup_file *file = &dedup->file_list[number];
	const bool first = is_first(pass);
	struct g4_dedup_handle handle;
	int rc = g4_dedup_open(&dedup->place, file->path, false, &handle);

	if (rc == 0) {
		if (dedup->place.fs == NULL) { /* another file may have this name by now */
			file->ino = handle.ino;
			file->generation = handle.generation;
		}
		rc = take_pages(dedup, pass, number, &handle, first, sums);
		g4_dedup_close(&handle);
	}
	return rc < 0 ? leave_out(dedup, file, first, rc) : 0;
}

/* What a mount has told of some files, from a number on. How many of them are done, or what ends the pass. */
static int64_t take_told(struct g4_dedup *dedup, struct pass *pass, uint64_t number, const struct g4_ioc_sums_of *io)
{
	const struct gpu4fs_page_sum *sums = (const struct gpu4fs_page_sum *)(const void *)io->sums;
	const bool first = is_first(pass);
	uint32_t left = G4_IOC_SUMS_OF_PAGES;
	int rc = 0;

	for (uint32_t k = 0; k < io->files; k++) {
		const struct g4_ioc_sums_file *told = &io->file[k];
		struct g4_dedup_file *file = &dedup->file_list[number + k];

		if (told->count > left) /* a server may say anything */
			return -EPROTO;
		left -= told->count;
		file->generation = told->generation;
		dedup->tiny += first && told->status >= 0 && told->size <= TINY_BYTES;
		rc = told->status < 0 ? -g4_errno(told->status) :
					take_some(dedup, pass, (uint32_t)(number + k), first, sums, told->count);
		if (rc < 0)
			rc = leave_out(dedup, file, first, rc);
		if (rc < 0)
			return rc;
		if (told->more) /* it is the last one */
			return k;
		sums += told->count;
	}
	return io->files;
}

/* Files by their numbers, many at a time. */
static int take_numbers(struct g4_dedup *dedup, struct pass *pass)
{
	struct g4_ioc_sums_of *io = calloc(1, sizeof(*io));
	uint64_t offset = 0; /* in the next file */
	int rc = io == NULL ? -ENOMEM : 0;

	for (uint64_t i = 0; i < dedup->files && rc == 0;) {
		rc = g4_cli_interrupted() ? -EINTR : g4_dedup_yield(dedup);
		if (rc < 0)
			break;
		io->files = (uint32_t)g4_min64(dedup->files - i, G4_IOC_SUMS_OF_FILES);
		for (uint32_t k = 0; k < io->files; k++)
			io->file[k] = (struct g4_ioc_sums_file){.ino = dedup->file_list[i + k].ino,
								.offset = k == 0 ? offset : 0};
		const uint32_t asked = io->files;
		const uint64_t before = offset;
		rc = g4_dedup_sums_of(&dedup->place, io);
		if (rc == 0 && (io->files == 0 || io->files > asked))
			rc = -EPROTO;
		const int64_t done = rc < 0 ? rc : take_told(dedup, pass, i, io);
		rc = done < 0 ? (int)done : 0;
		if (rc < 0)
			break;
		i += (uint64_t)done;
		offset = (uint32_t)done < io->files ? io->file[done].offset : 0;
		if (done == 0 && offset <= before) /* nor would this end */
			rc = -EPROTO;
		show(dedup, "file", i, dedup->files);
	}
	free(io);
	return rc;
}

static int take_all(struct g4_dedup *dedup, struct gpu4fs_page_sum *sums)
{
	struct pass pass = {.high = {UINT64_MAX, UINT64_MAX}};
	int rc = 0;

	for (;;) {
		if (dedup->place.numbers)
			rc = take_numbers(dedup, &pass);
		for (uint64_t i = 0; i < dedup->files && rc == 0 && !dedup->place.numbers; i++) {
			rc = g4_cli_interrupted() ? -EINTR : take_file(dedup, &pass, (uint32_t)i, sums);
			show(dedup, "file", i + 1, dedup->files);
		}
		dedup->passes++;
		if (rc == 0)
			rc = plan_all(dedup, &pass, true);
		if (rc < 0 || (pass.high.key == UINT64_MAX && pass.high.address == UINT64_MAX))
			return rc;
		pass.low = pass.high;
		pass.low.key += ++pass.low.address == 0;
		pass.high = (struct place){UINT64_MAX, UINT64_MAX};
	}
}

/* What was written so far has sums to go by. A user that may not ask a server for that sees what was written by itself. */
static int sync_before(struct g4_dedup *dedup)
{
	const int rc = g4_dedup_place_sync(&dedup->place);

	return rc == -EROFS || (rc == -EPERM && !dedup->share) ? 0 : rc;
}

int g4_dedup_go(struct g4_dedup *dedup)
{
	struct gpu4fs_page_sum *sums = malloc(SUMS_AT_ONCE * sizeof(*sums));

	each_once(dedup);
	make_zero_keys(dedup);
	dedup->throttle.last_ns = g4_clock_ns(CLOCK_MONOTONIC);
	dedup->record_room = dedup->memory_bytes / (2 * sizeof(*dedup->records)); /* qsort() may take as much again */
	dedup->records = malloc(dedup->record_room * sizeof(*dedup->records));
	int rc = sums == NULL || dedup->records == NULL ? -ENOMEM : sync_before(dedup);
	if (rc == 0)
		rc = take_all(dedup, sums);
	free(sums);
	free(dedup->records);
	dedup->records = NULL;
	if (rc == 0 && dedup->by_chunks)
		rc = g4_dedup_chunks(dedup);
	if (rc == 0)
		rc = g4_dedup_flush(dedup);
	if (dedup->shared + dedup->holes > 0) { /* what is free tells of it from then on */
		const int synced = g4_dedup_place_sync(&dedup->place);
		rc = rc < 0 ? rc : synced;
	}
	return rc;
}

void g4_dedup_free(struct g4_dedup *dedup)
{
	for (uint64_t i = 0; i < dedup->files; i++)
		free(dedup->file_list[i].path);
	free(dedup->file_list);
	free(dedup->queue);
	free(dedup->records);
}
