/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include "hash/crc32c.h"
#include "journal/block.h"

#define IMAGE_BYTES (24 * G4_MIB)
#define MOST_EDITS 32u

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed);

/* ------------------------------------------------------------------ the image */

void fuzz_add_place(struct fuzz_base *base, uint64_t address)
{
	if (base->place_count % 256 == 0)
		base->places = realloc(base->places, (base->place_count + 256) * sizeof(*base->places));
	if (base->places == NULL)
		abort();
	base->places[base->place_count++] = address;
}

void fuzz_make_image(struct fuzz_base *base)
{
	rig_open(&base->rig, IMAGE_BYTES, 0);
	if (rig_try_mount(&base->rig, 0, NULL) < 0)
		abort();
	world_populate(&base->rig, WORLD_SMALL);
	world_change(&base->rig);
	for (int i = 0; i < 4; i++) { /* a record each */
		char name[16];
		snprintf(name, sizeof(name), "later %d", i);
		if (op_mkdir(&base->rig, G4_NODE_ROOT, name, 0700, NULL) < 0 || op_sync(&base->rig) < 0)
			abort();
	}
	rig_abandon(&base->rig);
}

void fuzz_finish_base(struct fuzz_base *base)
{
	memcpy(&base->fs_tag, base->rig.image + G4_SUPERBLOCK_ADDRESS + offsetof(struct g4_superblock, uuid),
	       sizeof(base->fs_tag));
	base->pages = malloc(IMAGE_BYTES / G4_PAGE_BYTES * sizeof(*base->pages));
	if (base->pages == NULL || base->place_count == 0)
		abort();
	for (uint64_t at = 0; at < IMAGE_BYTES; at += G4_PAGE_BYTES) {
		const uint8_t *page = base->rig.image + at;
		if (page[0] != 0 || memcmp(page, page + 1, G4_PAGE_BYTES - 1) != 0)
			base->pages[base->page_count++] = at;
	}
	world_open(&base->work, base->rig.image, IMAGE_BYTES);
}

/* Back to the base: what an input has written where the base has nothing becomes a hole again. */
static void restore(struct fuzz_base *base)
{
	uint64_t next = 0;

	for (off_t at = 0; (at = lseek(base->work.fd, at, SEEK_DATA)) >= 0;) {
		const off_t end = lseek(base->work.fd, at, SEEK_HOLE);
		for (; at < end; at += (off_t)G4_PAGE_BYTES) {
			while (next < base->page_count && base->pages[next] < (uint64_t)at)
				next++;
			if ((next == base->page_count || base->pages[next] != (uint64_t)at) &&
			    fallocate(base->work.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
				      (off_t)G4_PAGE_BYTES) != 0)
				abort();
		}
	}
	for (uint64_t i = 0; i < base->page_count; i++)
		memcpy(base->work.image + base->pages[i], base->rig.image + base->pages[i], G4_PAGE_BYTES);
}

/* ------------------------------------------------------------------ edits */

void fuzz_seal(const struct fuzz_base *base, uint64_t address)
{
	uint8_t *page = base->work.image + address;
	struct g4_block_header header;
	struct g4_indirect_header indirect;
	g4_le64 *slots = (g4_le64 *)(void *)page;

	memcpy(&header, page, sizeof(header));
	g4_indirect_extract(slots, &indirect);
	if (header.magic != G4_BLOCK_MAGIC && indirect.header.magic == G4_BLOCK_MAGIC) {
		indirect.header.crc32c = 0;
		g4_indirect_embed(slots, &indirect);
		indirect.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
		g4_indirect_embed(slots, &indirect);
		return;
	}
	header.crc32c = 0;
	memcpy(page, &header, sizeof(header));
	header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
	memcpy(page, &header, sizeof(header));
}

static void apply_edit(struct fuzz_base *base, const struct fuzz_edit *edit)
{
	const uint64_t address = base->places[edit->place % base->place_count];
	const uint64_t other = base->places[edit->other % base->place_count];
	uint8_t *page = base->work.image + address;
	const uint32_t at = edit->at % G4_PAGE_BYTES & ~7u;
	uint64_t word;

	memcpy(&word, page + at, sizeof(word));
	switch ((enum fuzz_how)(edit->how % FUZZ_HOWS)) {
	case FUZZ_SET_8:
		page[edit->at % G4_PAGE_BYTES] = (uint8_t)edit->value;
		break;
	case FUZZ_SET_32:
		memcpy(page + (edit->at % G4_PAGE_BYTES & ~3u), &edit->value, 4);
		break;
	case FUZZ_SET_64:
		memcpy(page + at, &edit->value, 8);
		break;
	case FUZZ_XOR:
		word ^= edit->value;
		memcpy(page + at, &word, 8);
		break;
	case FUZZ_ADD:
		word += (uint64_t)(int64_t)(int8_t)edit->value * (edit->value >> 8 & 1 ? G4_PAGE_BYTES : 1);
		memcpy(page + at, &word, 8);
		break;
	case FUZZ_COPY_PAGE:
		memmove(page, base->work.image + other, G4_PAGE_BYTES);
		break;
	case FUZZ_COPY_WORD:
		memcpy(&word, base->work.image + other + (edit->value % G4_PAGE_BYTES & ~7u), 8);
		memcpy(page + at, &word, 8);
		break;
	case FUZZ_HOWS:
		break;
	}
	if (edit->seal % 2 != 0)
		fuzz_seal(base, address);
}

void fuzz_apply(struct fuzz_base *base, const uint8_t *data, size_t size)
{
	restore(base);
	for (size_t at = 0; at + sizeof(struct fuzz_edit) <= size; at += sizeof(struct fuzz_edit)) {
		struct fuzz_edit edit;
		memcpy(&edit, data + at, sizeof(edit));
		apply_edit(base, &edit);
	}
}

/* Values that fields like. */
static uint64_t interesting(uint64_t *seed)
{
	static const uint64_t values[] = {0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX};
	const uint64_t choice = rig_random(seed) % 16;

	if (choice < sizeof(values) / sizeof(values[0]))
		return values[choice];
	return rig_random(seed) >> rig_random(seed) % 64;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed_value)
{
	uint64_t seed = seed_value;
	size_t count = size / sizeof(struct fuzz_edit);
	const size_t most = g4_min64(room / sizeof(struct fuzz_edit), MOST_EDITS);
	struct fuzz_edit edit = {.place = 0};

	if (most == 0)
		return LLVMFuzzerMutate(data, size, room);
	if (count > 1 && rig_random(&seed) % 8 == 0)
		return (count - 1) * sizeof(edit); /* the last one goes */
	const bool add = count == 0 || (count < most && rig_random(&seed) % 3 == 0);
	const size_t index = add ? count : rig_random(&seed) % count;
	if (!add)
		memcpy(&edit, data + index * sizeof(edit), sizeof(edit));
	if (add || rig_random(&seed) % 2 == 0) {
		edit.place = (uint16_t)rig_random(&seed);
		edit.other = (uint16_t)rig_random(&seed);
		edit.how = (uint8_t)(rig_random(&seed) % FUZZ_HOWS);
		edit.seal = (uint8_t)(rig_random(&seed) % 2);
		edit.at = (uint16_t)(rig_random(&seed) % (rig_random(&seed) % 2 == 0 ? 512 : G4_PAGE_BYTES));
		edit.value = interesting(&seed);
	} else {
		LLVMFuzzerMutate((uint8_t *)&edit, sizeof(edit), sizeof(edit));
	}
	memcpy(data + index * sizeof(edit), &edit, sizeof(edit));
	return (count + add) * sizeof(edit);
}

/* ------------------------------------------------------------------ promises */

void fuzz_use(struct fuzz_base *base)
{
	struct world_list list;

	world_use(&base->work, &list);
	world_list_free(&list);
}

/* Problems without repair; -1 when there is no superblock to begin with. */
static int64_t check(struct fuzz_base *base, char **text)
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

static void expect(bool promise, const char *which, const char *text)
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
	expect(status == 0, message, *text);
	expect(done || fsck.no_room, "a repair comes to an end", *text);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return done;
}

void fuzz_repair(struct fuzz_base *base)
{
	char *text = NULL, *after = NULL;
	struct world_list list;
	int64_t problems = check(base, &text);

	free(text);
	text = NULL;
	if (problems < 0)
		return;
	if (repair(base, &text)) {
		problems = check(base, &after);
		expect(problems == 0, "a repaired image is clean", after);
		free(after);
		after = NULL;
		expect(rig_try_mount(&base->work, 0, NULL) == 0, "a repaired image can be mounted", text);
		world_list(&base->work, &list);
		expect(list.errors == 0, "a repaired image can be read", text);
		world_list_free(&list);
		expect(rig_unmount(&base->work) == 0, "a repaired image can be unmounted", text);
		problems = check(base, &after);
		expect(problems == 0, "a repaired image is clean after a mount", after);
		free(after);
	}
	free(text);
}
