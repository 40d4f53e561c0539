/* SPDX-License-Identifier: Apache-2.0 */
#include "corrupt/judge.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

char *judge_words;
static size_t word_count;

_Noreturn void judge_bad(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n%.3000s\n", judge_words == NULL ? "" : judge_words);
	_exit(JUDGE_BAD);
}

int64_t judge_check(struct rig *rig)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&judge_words, &word_count);
	fsck.printed_limit = 20;
	if (g4_image_open(&image, rig->name, message, sizeof(message)) < 0)
		return -1;
	if (g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_run(&fsck, &image, &journal) < 0)
		judge_bad("the check did not end well");
	const int64_t problems = (int64_t)fsck.problems;
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return problems;
}

int judge_repair(struct rig *rig, struct g4_fsck *fsck, uint64_t stop_at_write)
{
	const struct g4_fsck_repair_options options = {.dry_run = false};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512];

	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* a check reads all of the image into memory */
	memset(fsck, 0, sizeof(*fsck));
	fsck->out = open_memstream(&judge_words, &word_count);
	fsck->printed_limit = 20;
	fsck->stop_at_write = stop_at_write;
	const int status = g4_fsck_repair_device(fsck, &image, rig->name, &options, &journal, message, sizeof(message));
	fclose(fsck->out);
	g4_fsck_release(fsck);
	if (status < 0 && stop_at_write == 0)
		judge_bad("the repair failed: %s", message);
	if (status == 0 && fsck->problems != 0)
		judge_bad("the repair did not come to an end");
	if (status == 0 && fsck->found != 0 && fsck->change_count == 0)
		judge_bad("the repair found problems and does not say what it did");
	if (image.dev != NULL)
		g4_image_close(&image);
	return status;
}

bool judge_is_reported(const struct g4_fsck *reports, uint32_t count, uint64_t ino)
{
	for (uint32_t report = 0; report < count; report++) {
		for (uint64_t i = 0; i < reports[report].change_count; i++) {
			const struct g4_fsck_change *change = &reports[report].changes[i];
			if (change->ino == ino && change->outcome != G4_FSCK_REPAIRED)
				return true;
		}
	}
	return false;
}

bool judge_is_same(const struct world_file *a, const struct world_file *b)
{
	/* Neither a directory's size nor permissions are contents. */
	return (a->mode & S_IFMT) == (b->mode & S_IFMT) && a->contents == b->contents &&
	       a->attributes == b->attributes && (S_ISDIR(a->mode) || a->size == b->size);
}

const struct world_file *judge_find(const struct world_list *list, const struct world_file *wanted)
{
	const struct world_file *found = NULL;

	for (uint32_t i = 0; i < list->count; i++) {
		if (list->files[i].ino != wanted->ino)
			continue;
		if (strcmp(list->files[i].path, wanted->path) == 0)
			return &list->files[i];
		if (found == NULL || strncmp(list->files[i].path, "lost+found", 10) == 0)
			found = &list->files[i];
	}
	return found;
}
