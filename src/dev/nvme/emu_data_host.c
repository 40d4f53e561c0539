/* SPDX-License-Identifier: Apache-2.0 */
/* An emulated controller and the memory that commands describe (emu_data_host.h). */
#include "dev/nvme/emu_data_host.h"

struct found {
	const struct g4_emu_options *options;
	uint32_t sector_bytes;
	struct g4_iov *iov;
	uint32_t count;
};

static bool add_buffer(struct found *found, uint64_t at, uint64_t bytes)
{
	struct g4_iov *last = found->count > 0 ? &found->iov[found->count - 1] : NULL;
	uint8_t *memory = g4_emu_memory_at(found->options, at);

	if (last && (uint8_t *)last->base + last->bytes == memory) {
		last->bytes += bytes;
		return true;
	}
	if (found->count == G4_EMU_BUFFERS)
		return false;
	found->iov[found->count++] = (struct g4_iov){.base = memory, .bytes = bytes};
	return true;
}

/* The buffers that a command's PRPs describe; a status. */
static uint32_t find_pages(struct found *found, const struct g4_nvme_command *command, uint64_t bytes)
{
	if (command->flags & 0xc0)
		return G4_NVME_BAD_FIELD; /* an SGL */

	const uint64_t first = g4_min64(bytes, G4_PAGE_BYTES - command->prp1 % G4_PAGE_BYTES);
	const uint64_t *list = g4_emu_memory_at(found->options, command->prp2);
	uint64_t left = bytes - first;

	if (command->prp1 == 0)
		return G4_NVME_TRANSFER_ERROR;
	/* the medium wants whole sectors in each buffer; the specification lets a controller want 4 bytes */
	if (command->prp1 % found->sector_bytes != 0)
		return G4_NVME_BAD_PRP;
	add_buffer(found, command->prp1, first);
	if (left > 0 && command->prp2 == 0)
		return G4_NVME_TRANSFER_ERROR;
	if (left > 0 && left <= G4_PAGE_BYTES) {
		if (command->prp2 % G4_PAGE_BYTES != 0 || !add_buffer(found, command->prp2, left))
			return G4_NVME_BAD_PRP;
		return G4_NVME_OK;
	}
	if (left > 0 && command->prp2 % 8 != 0)
		return G4_NVME_BAD_PRP;
	while (left > 0) {
		/* the last entry of a page of the list leads to its next page */
		if ((uintptr_t)list % G4_PAGE_BYTES == G4_PAGE_BYTES - 8 && left > G4_PAGE_BYTES)
			list = g4_emu_memory_at(found->options, *list);
		const uint64_t at = *list++, n = g4_min64(left, G4_PAGE_BYTES);
		if (at == 0 || at % G4_PAGE_BYTES != 0 || !add_buffer(found, at, n))
			return G4_NVME_BAD_PRP;
		left -= n;
	}
	return G4_NVME_OK;
}

/* The same of those of an SGL: data in the command, or one segment of data. */
static uint32_t find_segments(struct found *found, const struct g4_nvme_command *command, uint64_t bytes)
{
	struct g4_nvme_sgl first;
	const struct g4_nvme_sgl *descriptors = &first;
	uint32_t n = 1;

	memcpy(&first, &command->prp1, sizeof(first));
	if (first.type == G4_NVME_SGL_LAST_SEGMENT) {
		if (first.address == 0 || first.bytes == 0 || first.bytes % sizeof(first) != 0)
			return G4_NVME_BAD_SGL;
		descriptors = g4_emu_memory_at(found->options, first.address);
		n = first.bytes / (uint32_t)sizeof(first);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (descriptors[i].type != G4_NVME_SGL_DATA)
			return G4_NVME_BAD_SGL_TYPE;
		if (descriptors[i].bytes > bytes)
			return G4_NVME_BAD_SGL_LENGTH;
		if (descriptors[i].address == 0 || descriptors[i].address % found->sector_bytes != 0 ||
		    !add_buffer(found, descriptors[i].address, descriptors[i].bytes))
			return G4_NVME_BAD_SGL;
		bytes -= descriptors[i].bytes;
	}
	return bytes == 0 ? G4_NVME_OK : G4_NVME_BAD_SGL_LENGTH;
}

uint32_t g4_emu_find_data(const struct g4_emu_options *options, uint32_t sector_bytes,
			  const struct g4_nvme_command *command, uint64_t bytes, struct g4_iov *iov, uint32_t *count)
{
	struct found found = {.options = options, .sector_bytes = sector_bytes, .iov = iov};
	const uint32_t status = (command->flags & 0xc0) == G4_NVME_SGL && options->sgls ?
					find_segments(&found, command, bytes) :
					find_pages(&found, command, bytes);

	*count = found.count;
	return status;
}

/* ---- sizes ---- */

static bool begins_or_ends(uint32_t multiple, uint64_t lba, uint64_t blocks)
{
	return multiple == 0 || lba % multiple == 0 || (lba + blocks) % multiple == 0;
}

static bool is_beyond(const struct g4_emu_options *options)
{
	return options->mdts && options->write_granularity > (G4_PAGE_BYTES << options->mdts) / 512;
}

bool g4_emu_likes(const struct g4_emu_options *options, uint64_t lba, uint64_t blocks)
{
	const uint64_t boundary = options->whole_boundary;
	const bool crosses = boundary && (lba + boundary - options->whole_offset) / boundary !=
						 (lba + blocks - 1 + boundary - options->whole_offset) / boundary;

	return (is_beyond(options) || begins_or_ends(options->write_granularity, lba, blocks)) &&
	       begins_or_ends(options->write_alignment, lba, blocks) &&
	       begins_or_ends(options->write_optimal, lba, blocks) &&
	       !(crosses && blocks <= options->whole && blocks > options->whole_anywhere);
}

bool g4_emu_takes_ranges(const struct g4_emu_options *options, const struct g4_nvme_range *ranges, uint32_t count)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (options->discard_range && ranges[i].blocks > options->discard_range)
			return false;
		blocks += ranges[i].blocks;
	}
	return (options->discard_ranges == 0 || count <= options->discard_ranges) &&
	       (options->discard_blocks == 0 || blocks <= options->discard_blocks);
}

/* ---- the host's memory ---- */

static void note_bad(const struct g4_emu_options *options)
{
	if (options->lent)
		options->lent->bad = true;
}

uint32_t g4_emu_borrow(const struct g4_emu_options *options, struct g4_emu_loan *loan,
		       const struct g4_nvme_command *command)
{
	const uint64_t list = command->dword13 | (uint64_t)command->dword14 << 32;
	const struct g4_nvme_memory_piece *piece = g4_emu_memory_at(options, list);

	if (options->memory_kib == 0)
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	if (!(command->dword11 & G4_NVME_MEMORY_ON)) {
		if (options->lent && loan->memory)
			options->lent->taken++;
		loan->memory = NULL;
	} else if (loan->memory || list == 0 || list % 16 != 0 || command->dword15 != 1 ||
		   piece->address % G4_PAGE_BYTES != 0 || piece->pages != command->dword12 ||
		   piece->pages * 4u < options->memory_least_kib || piece->pages * 4u > options->memory_kib) {
		note_bad(options);
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	} else {
		*loan = (struct g4_emu_loan){g4_emu_memory_at(options, piece->address), piece->pages, 0};
		if (options->lent)
			options->lent->given++;
	}
	if (options->lent)
		options->lent->bytes = loan->memory ? loan->pages * G4_PAGE_BYTES : 0;
	return G4_NVME_OK;
}

void g4_emu_use_loan(const struct g4_emu_options *options, struct g4_emu_loan *loan)
{
	if (!loan->memory)
		return;
	uint64_t *word = (uint64_t *)(void *)(loan->memory + loan->turn % loan->pages * G4_PAGE_BYTES);

	if (loan->turn >= loan->pages && *word != loan->turn - loan->pages + 1)
		note_bad(options);
	*word = ++loan->turn;
}

void g4_emu_end_loan(const struct g4_emu_options *options, struct g4_emu_loan *loan, bool shut_down)
{
	if (options->lent && loan->memory && shut_down)
		options->lent->kept++;
	if (shut_down)
		return;
	if (options->lent)
		options->lent->bytes = 0;
	loan->memory = NULL;
}
