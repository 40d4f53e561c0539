/* SPDX-License-Identifier: Apache-2.0 */
/* Saying what is wrong: one line a problem, with the path where there is one. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "format/sums.h"
#include "fsck/fsck.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "fsck/team.h"

#define PATH_ROOM 8192
#define PATH_DEPTH 512

struct text {
	uint8_t bytes[PATH_ROOM];
	size_t count;
};

static void add(struct text *text, const void *bytes, size_t count)
{
	if (count > sizeof(text->bytes) - text->count)
		count = sizeof(text->bytes) - text->count;
	memcpy(text->bytes + text->count, bytes, count);
	text->count += count;
}

const char *g4_fsck_problem_name(enum g4_fsck_problem kind)
{
	static const char *const names[] = {
#define PROBLEM_NAME(name, text) text,
		G4_FSCK_PROBLEMS(PROBLEM_NAME)
#undef PROBLEM_NAME
	};

	return names[kind];
}

size_t g4_fsck_entry_name(struct g4_fsck *fsck, struct g4_address leaf_address, uint32_t unit,
			  uint8_t name[G4_NAME_MAX])
{
	const struct g4_dir_leaf *leaf;
	const void *page;

	if (g4_image_page(fsck->image, leaf_address, &page) < 0)
		return 0;
	leaf = page;
	const uint8_t *at = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
	struct g4_dir_entry entry;
	memcpy(&entry, at, sizeof(entry));
	/* The leaf was validated when the entry was found. */
	memcpy(name, at + sizeof(entry), entry.name_bytes);
	return entry.name_bytes;
}

/* The path of a directory, "/" at its end; the middle of a very deep one is left out. */
static void add_directory(const struct g4_fsck *fsck, struct text *text, uint32_t dir)
{
	uint32_t chain[PATH_DEPTH];
	uint32_t depth = 0;

	while (depth < PATH_DEPTH && fsck->dirs[dir].parent != G4_NO_DIR) {
		chain[depth++] = dir;
		dir = fsck->dirs[dir].parent;
	}
	if (fsck->dirs[dir].parent != G4_NO_DIR) {
		add(text, ".../", 4);
	} else if (dir == 0) {
		add(text, "/", 1);
	} else {
		char lost[48];
		add(text, lost, (size_t)snprintf(lost, sizeof(lost), "(inode 0x%" PRIx64 ")/", fsck->dirs[dir].ino));
	}
	while (depth > 0) {
		const uint8_t *name = fsck->names + fsck->dirs[chain[--depth]].name_at;
		add(text, name + 1, name[0]);
		add(text, "/", 1);
	}
}

static void make_path(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct text *text)
{
	uint8_t name[G4_NAME_MAX];

	add_directory(fsck, text, where->dir);
	if (!g4_address_is_none(where->leaf_address))
		add(text, name, g4_fsck_entry_name(fsck, where->leaf_address, where->unit, name));
	else if (text->count > 1)
		text->count--; /* a directory itself: without the slash */
}

/* How each begins, in text or JSON. */
static void begin_problem(struct g4_fsck *fsck, enum g4_fsck_problem kind, const struct g4_fsck_where *where)
{
	struct text path = {.count = 0};

	if (where != NULL && where->dir != G4_NO_DIR)
		make_path(fsck, where, &path);
	g4_progress_clear(&fsck->progress);
	if (fsck->report != NULL) {
		g4_report_object(fsck->report, NULL);
		g4_report_text(fsck->report, "kind", g4_fsck_problem_name(kind));
		if (path.count != 0)
			g4_report_name(fsck->report, "path", path.bytes, path.count);
		if (where != NULL && where->ino != 0)
			g4_report_hex(fsck->report, "inode", where->ino);
		return;
	}
	if (path.count != 0) {
		g4_print_name(fsck->out, path.bytes, path.count);
		fputs(": ", fsck->out);
	}
}

void g4_fsck_problem(struct g4_fsck *fsck, enum g4_fsck_problem kind, const struct g4_fsck_where *where,
		     const char *format, ...)
{
	char sentence[512];
	va_list arguments;

	if (fsck->team != NULL) {
		g4_fsck_stop_team(fsck);
		return;
	}
	fsck->problems++;
	if (fsck->by_kind[kind]++ >= fsck->printed_limit)
		return;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	begin_problem(fsck, kind, where);
	if (fsck->report != NULL) {
		g4_report_text(fsck->report, "text", sentence);
		g4_report_end(fsck->report);
		return;
	}
	fprintf(fsck->out, "%s\n", sentence);
}

/* The bits of a sum that its algorithm has, the lowest byte first, as b3sum(1) and others print them. */
static const char *print_sum(const struct g4_sum_entry *entry, uint32_t algorithm, char text[65])
{
	const uint32_t bytes = algorithm == G4_CHECKSUM_BLAKE3 ? 32 : algorithm == G4_CHECKSUM_XXH3 ? 16 : 4;

	for (uint32_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", entry->bytes[i] & (i == 31 ? 0x07u : 0xffu));
	return text;
}

void g4_fsck_tell_parity(struct g4_fsck *fsck, uint64_t address)
{
	fsck->parity_damaged++;
	if (fsck->by_kind[G4_FSCK_PARITY]++ >= fsck->printed_limit)
		return;
	begin_problem(fsck, G4_FSCK_PARITY, NULL);
	if (fsck->report != NULL) {
		g4_report_hex(fsck->report, "address", address);
		g4_report_text(fsck->report, "text", "data and parity do not fit together");
		g4_report_end(fsck->report);
		return;
	}
	fprintf(fsck->out, "data and parity from 0x%" PRIx64 " on do not fit together\n", address);
}

void g4_fsck_tell_damage(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_fsck_damage *damage)
{
	const uint32_t algorithm = g4_sum_entry_algorithm(&damage->expected);
	const uint64_t offset = damage->file_page * G4_PAGE_BYTES;
	char expected[65], found[65];

	if (fsck->by_kind[G4_FSCK_DATA]++ >= fsck->printed_limit)
		return;
	begin_problem(fsck, G4_FSCK_DATA, where);
	if (fsck->report != NULL) {
		g4_report_count(fsck->report, "offset", offset);
		g4_report_count(fsck->report, "bytes", G4_PAGE_BYTES);
		g4_report_hex(fsck->report, "address", g4_address_stored(damage->address));
		if (damage->code == -G4_E_DATA) {
			g4_report_text(fsck->report, "algorithm", g4_checksum_name(algorithm));
			g4_report_text(fsck->report, "expected", print_sum(&damage->expected, algorithm, expected));
			g4_report_text(fsck->report, "found", print_sum(&damage->found, algorithm, found));
		}
		g4_report_bool(fsck->report, "another_copy_is_whole", damage->other_whole);
		g4_report_text(fsck->report, "text", g4_strerror(damage->code));
		g4_report_end(fsck->report);
		return;
	}
	if (where->dir == G4_NO_DIR)
		fprintf(fsck->out, "inode 0x%" PRIx64 ": ", damage->ino);
	fprintf(fsck->out, "bytes %" PRIu64 " to %" PRIu64 ", at 0x%" PRIx64 ": %s", offset, offset + G4_PAGE_BYTES - 1,
		g4_address_stored(damage->address), g4_strerror(damage->code));
	if (damage->code == -G4_E_DATA)
		fprintf(fsck->out, ": %s expected %.32s, found %.32s", g4_checksum_name(algorithm),
			print_sum(&damage->expected, algorithm, expected), print_sum(&damage->found, algorithm, found));
	fputs(damage->other_whole ? "; another copy is whole, and a scrub writes it over this one\n" : "\n", fsck->out);
}

const char *g4_fsck_outcome_name(enum g4_fsck_outcome outcome)
{
	static const char *const names[] = {"repaired", "doubtful", "lost"};

	return names[outcome];
}

/* The list of changes comes at the end of a JSON report; people read them where they happen. */
static void print_change(struct g4_fsck *fsck, const struct g4_fsck_change *change)
{
	if (fsck->report != NULL ||
	    (change->outcome == G4_FSCK_REPAIRED && fsck->by_outcome[G4_FSCK_REPAIRED] > fsck->printed_limit))
		return;
	g4_progress_clear(&fsck->progress);
	fprintf(fsck->out, "  %s: ", g4_fsck_outcome_name(change->outcome));
	if (change->path != NULL) {
		g4_print_name(fsck->out, change->path, change->path_bytes);
		fputs(": ", fsck->out);
	}
	fputs(change->text, fsck->out);
	if (change->bytes != 0)
		fprintf(fsck->out, ", bytes %" PRIu64 " to %" PRIu64, change->offset,
			change->offset + change->bytes - 1);
	fputc('\n', fsck->out);
}

void g4_fsck_change(struct g4_fsck *fsck, enum g4_fsck_outcome outcome, const struct g4_fsck_where *where,
		    uint64_t offset, uint64_t bytes, const char *format, ...)
{
	struct g4_fsck_change change = {.outcome = outcome, .offset = offset, .bytes = bytes};
	struct text path = {.count = 0};
	char sentence[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	if (!g4_fsck_reserve(fsck, (void **)&fsck->changes, fsck->change_count, &fsck->change_room,
			     sizeof(*fsck->changes)))
		return;
	change.text = strdup(sentence);
	if (where != NULL && where->dir != G4_NO_DIR) {
		make_path(fsck, where, &path);
		change.path = malloc(path.count + 1);
		change.path_bytes = path.count;
	}
	if (change.text == NULL || (path.count != 0 && change.path == NULL)) {
		free(change.text);
		free(change.path);
		fsck->fatal = -G4_E_NOMEM;
		return;
	}
	if (change.path != NULL)
		memcpy(change.path, path.bytes, path.count);
	change.ino = where == NULL ? 0 : where->ino;
	if (change.ino != 0 && outcome != G4_FSCK_REPAIRED)
		g4_fsck_add(fsck, &fsck->touched, change.ino);
	fsck->by_outcome[outcome]++;
	print_change(fsck, &change);
	fsck->changes[fsck->change_count++] = change;
}

void g4_fsck_print_left_out(struct g4_fsck *fsck)
{
	for (uint32_t kind = 0; fsck->report == NULL && kind < G4_FSCK_PROBLEM_KINDS; kind++) {
		if (fsck->by_kind[kind] > fsck->printed_limit)
			fprintf(fsck->out, "... and %" PRIu64 " more problems of the kind '%s'; --verbose prints all\n",
				fsck->by_kind[kind] - fsck->printed_limit, g4_fsck_problem_name(kind));
	}
}
