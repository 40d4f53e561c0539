/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are edits of an image, and their mutator. */
#include "fuzz.h"

#include "format/sums.h"
#include "hash/crc32c.h"
#include "journal/block.h"

#define MOST_EDITS 32u

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed);

void fuzz_add_place(struct fuzz_base *base, uint64_t address)
{
	if (base->place_count % 256 == 0)
		base->places = realloc(base->places, (base->place_count + 256) * sizeof(*base->places));
	if (base->places == NULL)
		abort();
	base->places[base->place_count++] = address;
}

/* A header as versions before wrote it, so that any address and generation gets by. */
void fuzz_token(const struct fuzz_base *base, uint64_t address)
{
	uint8_t *page = base->work.image + address;
	struct g4_block_header header;
	struct g4_indirect_header indirect;
	g4_le64 *slots = (g4_le64 *)(void *)page;
	struct g4_sums_page *sums = (struct g4_sums_page *)(void *)page;
	struct g4_sums_header sums_header;

	memcpy(&header, page, sizeof(header));
	g4_sums_extract(sums, &sums_header);
	if (header.magic != G4_BLOCK_MAGIC && sums_header.header.magic == G4_BLOCK_MAGIC) {
		sums_header.header.check = 0;
		sums_header.header.crc32c = 0;
		g4_sums_embed(sums, &sums_header);
		sums_header.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
		g4_sums_embed(sums, &sums_header);
		return;
	}
	g4_indirect_extract(slots, &indirect);
	if (header.magic != G4_BLOCK_MAGIC && indirect.header.magic == G4_BLOCK_MAGIC) {
		indirect.header.check = 0;
		indirect.header.crc32c = 0;
		g4_indirect_embed(slots, &indirect);
		indirect.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
		g4_indirect_embed(slots, &indirect);
		return;
	}
	header.check = 0;
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
		fuzz_token(base, address);
}

void fuzz_apply(struct fuzz_base *base, const uint8_t *data, size_t size)
{
	fuzz_restore(base);
	for (size_t at = 0; at + sizeof(struct fuzz_edit) <= size; at += sizeof(struct fuzz_edit)) {
		struct fuzz_edit edit;
		memcpy(&edit, data + at, sizeof(edit));
		apply_edit(base, &edit);
	}
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
		edit.value = fuzz_interesting(&seed);
	} else {
		LLVMFuzzerMutate((uint8_t *)&edit, sizeof(edit), sizeof(edit));
	}
	memcpy(data + index * sizeof(edit), &edit, sizeof(edit));
	return (count + add) * sizeof(edit);
}
