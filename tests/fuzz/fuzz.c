/* SPDX-License-Identifier: Apache-2.0 */
/* The image that inputs are tried on, and what is promised about any image. */
#include "fuzz.h"

#include <unistd.h>

#include "crash/clock.h"
#include "hash/crc32c.h"

#define IMAGE_BYTES (24 * G4_MIB)

/* ------------------------------------------------------------------ the image */

void fuzz_open_image(struct fuzz_base *base, uint64_t bytes)
{
	clock_restart();
	rig_open(&base->rig, bytes, 0);
	if (world_mount(&base->rig) < 0)
		abort();
}

void fuzz_make_image(struct fuzz_base *base)
{
	fuzz_open_image(base, IMAGE_BYTES);
	world_populate(&base->rig, WORLD_SMALL);
	world_change(&base->rig);
	for (int i = 0; i < 4; i++) { /* a record each */
		char name[16];
		snprintf(name, sizeof(name), "later %d", i);
		if (op_mkdir(&base->rig, G4_NODE_ROOT, name, 0700, NULL) < 0 || op_sync(&base->rig) < 0)
			abort();
	}
	world_unmount(&base->rig, false);
}

void fuzz_finish_base(struct fuzz_base *base)
{
	memcpy(&base->fs_tag, base->rig.image + G4_SUPERBLOCK_ADDRESS + offsetof(struct g4_superblock, uuid),
	       sizeof(base->fs_tag));
	base->pages = malloc(base->rig.bytes / G4_PAGE_BYTES * sizeof(*base->pages));
	if (base->pages == NULL)
		abort();
	for (uint64_t at = 0; at < base->rig.bytes; at += G4_PAGE_BYTES) {
		const uint8_t *page = base->rig.image + at;
		if (page[0] != 0 || memcmp(page, page + 1, G4_PAGE_BYTES - 1) != 0)
			base->pages[base->page_count++] = at;
	}
	world_open(&base->work, base->rig.image, base->rig.bytes);
}

/* Back to the base. */
void fuzz_restore(struct fuzz_base *base)
{
	clock_restart();
	world_restore(&base->work, base->rig.image, base->pages, base->page_count);
}

uint32_t fuzz_image_sum(const struct fuzz_base *base)
{
	return g4_crc32c(0, base->work.image, base->work.bytes);
}

/* ------------------------------------------------------------------ promises */

void fuzz_use(struct fuzz_base *base)
{
	struct world_list list;

	if (world_mount(&base->work) < 0)
		return;
	world_visit(&base->work, &list);
	world_unmount(&base->work, true);
	world_list_free(&list);
}

uint64_t fuzz_interesting(uint64_t *seed)
{
	static const uint64_t values[] = {0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX};
	const uint64_t choice = rig_random(seed) % 16;

	if (choice < sizeof(values) / sizeof(values[0]))
		return values[choice];
	return rig_random(seed) >> rig_random(seed) % 64;
}

/* Problems without repair; -1 when there is no superblock to begin with. */
int64_t fuzz_check(struct fuzz_base *base, char **text)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	if (g4_image_open(&image, base->work.name, message, sizeof(message)) < 0)
		return -1;
	fsck.out = open_memstream(text, &bytes);
	fsck.printed_limit = 3;
	if (g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_run(&fsck, &image, &journal) < 0)
		abort();
	fclose(fsck.out);
	const int64_t problems = (int64_t)fsck.problems;
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return problems;
}

void fuzz_expect(bool promise, const char *which, const char *text)
{
	if (promise)
		return;
	fprintf(stderr, "broken: %s\n%.4000s\n", which, text == NULL ? "" : text);
	abort();
}

/* True when the repair came to an end; it may not for lack of room. */
static bool repair(struct fuzz_base *base, char **text)
{
	static struct g4_fsck fsck;
	const struct g4_fsck_repair_options options = {.dry_run = false};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512];
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(text, &bytes);
	fsck.printed_limit = 3;
	const int status =
		g4_fsck_repair_device(&fsck, &image, base->work.name, &options, &journal, message, sizeof(message));
	fclose(fsck.out);
	const bool done = status == 0 && fsck.problems == 0;
	fuzz_expect(status == 0, message, *text);
	fuzz_expect(done || fsck.no_room, "a repair comes to an end", *text);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return done;
}

void fuzz_repair(struct fuzz_base *base)
{
	char *text = NULL, *after = NULL;
	struct world_list list;
	int64_t problems = fuzz_check(base, &text);

	free(text);
	text = NULL;
	if (problems < 0)
		return;
	if (repair(base, &text)) {
		problems = fuzz_check(base, &after);
		fuzz_expect(problems == 0, "a repaired image is clean", after);
		free(after);
		after = NULL;
		fuzz_expect(world_mount(&base->work) == 0, "a repaired image can be mounted", text);
		world_list(&base->work, &list);
		fuzz_expect(list.errors == 0, "a repaired image can be read", text);
		world_list_free(&list);
		fuzz_expect(world_unmount(&base->work, true) == 0, "a repaired image can be unmounted", text);
		problems = fuzz_check(base, &after);
		fuzz_expect(problems == 0, "a repaired image is clean after a mount", after);
		free(after);
	}
	free(text);
}
