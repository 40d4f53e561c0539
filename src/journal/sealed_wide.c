/* SPDX-License-Identifier: Apache-2.0 */
/* Each lane has some bytes of the header, and the slots or entries that they stand in. */
#include "journal/sealed_wide.h"

#include "format/indirect.h"
#include "format/spare_bits.h"
#include "format/sums.h"
#include "simt/scratch.h"

G4_STATIC_ASSERT(sizeof(struct g4_indirect_header) == G4_SEALED_HEADER_BYTES &&
			 sizeof(struct g4_sums_header) == G4_SEALED_HEADER_BYTES,
		 "headers in spare bits");
#define CRC_BYTE ((uint32_t)offsetof(struct g4_block_header, crc32c))
#define PLACES_BYTE ((uint32_t)offsetof(struct g4_indirect_header, sums))

G4_FN static bool is_in_spare_bits(uint32_t type)
{
	return type == G4_BLOCK_INDIRECT || type == G4_BLOCK_CHECKSUMS;
}

/* Per-lane. */
G4_FN static uint8_t byte_of(const struct g4_sealed_job *job, uint32_t n)
{
	return job->type == G4_BLOCK_INDIRECT ? g4_indirect_header_byte((const g4_le64 *)job->page, n) :
						g4_sums_header_byte((const struct g4_sums_page *)job->page, n);
}

G4_FN static void set_byte(const struct g4_sealed_job *job, uint32_t n, uint8_t value)
{
	if (job->type == G4_BLOCK_INDIRECT)
		g4_indirect_set_header_byte((g4_le64 *)job->page, n, value);
	else
		g4_sums_set_header_byte((struct g4_sums_page *)job->page, n, value);
}

G4_FN static bool is_crc(uint32_t n)
{
	return n - CRC_BYTE < sizeof(uint32_t);
}

/* Where the pages of sums of an indirect page are stands there already. */
G4_FN static bool is_kept(const struct g4_sealed_job *job, uint32_t n)
{
	return job->type == G4_BLOCK_INDIRECT && n - PLACES_BYTE < sizeof(struct g4_sums_places);
}

G4_REGION_BODY void g4_sealed_region(struct g4_wg *wg, void *args)
{
	struct g4_sealed_job *job = (struct g4_sealed_job *)args;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);
	uint32_t crc = 0;

	g4_converge(wg);
	for (uint32_t n = lane; n < G4_SEALED_HEADER_BYTES; n += width) {
		if (job->seals && !is_kept(job, n))
			set_byte(job, n, is_crc(n) ? 0 : job->header[n]);
		if (!job->seals) {
			job->header[n] = byte_of(job, n);
			if (is_crc(n))
				set_byte(job, n, 0);
		}
	}
	g4_sync(wg);
	g4_crc32c_region(wg, &job->crc);
	for (uint32_t part = 0; part < width; part++)
		crc ^= job->crc.part[part];
	for (uint32_t n = lane; n < G4_SEALED_HEADER_BYTES; n += width)
		if (!job->seals)
			set_byte(job, n, 0);
		else if (is_crc(n))
			set_byte(job, n, (uint8_t)(crc >> 8 * (n - CRC_BYTE)));
	if (lane == 0)
		job->found = crc;
	g4_sync(wg);
}

/* In scratch memory. */
G4_FN static struct g4_sealed_job *job_for(struct g4_wg *wg, void *page, uint32_t type, bool seals)
{
	struct g4_sealed_job *job = (struct g4_sealed_job *)g4_scratch_take(wg, sizeof(*job));

	job->page = page;
	job->type = type;
	job->seals = seals;
	job->crc.data = (const uint8_t *)page;
	return job;
}

/* ------------------------------------------------------------------ sealing */

/* One lane. */
G4_FN static void seal(void *page, const struct g4_sealed_about *about, struct g4_address address, uint64_t generation,
		       uint32_t fs_tag)
{
	if (about->type == G4_BLOCK_INDIRECT) {
		g4_indirect_embed_below((g4_le64 *)page, about->below);
		g4_indirect_seal(page, about->inode, about->level, address, generation, fs_tag);
	} else {
		g4_sums_seal((struct g4_sums_page *)page, about->inode, about->level, about->quarter, address,
			     generation, fs_tag);
	}
}

G4_FN uint32_t g4_seal_wide(struct g4_wg *wg, void *page, const struct g4_sealed_about *about,
			    struct g4_address address, uint64_t generation, uint32_t fs_tag)
{
	struct g4_block_header *header = (struct g4_block_header *)page;

	if (!is_in_spare_bits(about->type)) {
		g4_block_fill(header, about->type, address, generation, fs_tag);
		header->crc32c = g4_crc32c_wide(wg, page);
		return g4_crc32c_set_field(header->crc32c, header->crc32c);
	}
	if (!g4_crc32c_is_wide(wg)) {
		seal(page, about, address, generation, fs_tag);
		return g4_crc32c_wide(wg, page);
	}
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_sealed_job *job = job_for(wg, page, about->type, true);
	struct g4_sums_header
		sums; /* an indirect page's is the same up to the level, and has what is below behind that */
	memset(&sums, 0, sizeof(sums));
	g4_block_fill(&sums.header, about->type, address, generation, fs_tag);
	sums.inode = about->inode;
	sums.level = about->type == G4_BLOCK_INDIRECT ? about->level | about->below << 8 : about->level;
	sums.quarter = about->type == G4_BLOCK_CHECKSUMS ? about->quarter : 0;
	memcpy(job->header, &sums, sizeof(sums));
	g4_region(wg, G4_REGION_SEALED, g4_sealed_region, job);
	g4_scratch_release(wg, mark);
	return g4_crc32c_wide(wg, page);
}

/* ------------------------------------------------------------------ verifying */

G4_FN static int verify(struct g4_wg *wg, void *page, uint32_t type, struct g4_address address, uint32_t fs_tag,
			void *header)
{
	if (!g4_crc32c_is_wide(wg))
		return type == G4_BLOCK_INDIRECT ?
			       g4_indirect_verify(page, address, fs_tag, (struct g4_indirect_header *)header) :
			       g4_sums_verify((struct g4_sums_page *)page, address, fs_tag,
					      (struct g4_sums_header *)header);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_sealed_job *job = job_for(wg, page, type, false);
	g4_region(wg, G4_REGION_SEALED, g4_sealed_region, job);
	memcpy(header, job->header, G4_SEALED_HEADER_BYTES);
	const uint32_t found = job->found;
	g4_scratch_release(wg, mark);
	const struct g4_block_header *block = (const struct g4_block_header *)header;
	return found != block->crc32c ? -G4_E_CHECKSUM : g4_block_check(block, type, address, fs_tag);
}

G4_FN static int verify_block(struct g4_wg *wg, const void *page, uint32_t type, struct g4_address address,
			      uint32_t fs_tag)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;

	if (!g4_crc32c_is_wide(wg))
		return g4_block_verify(page, type, address, fs_tag);
	/* the checksum is of the page without it: a sum of what is the same is nothing */
	const uint32_t crc = g4_crc32c_set_field(g4_crc32c_wide(wg, page), header->crc32c);
	if (header->magic != G4_BLOCK_MAGIC || crc != header->crc32c)
		return -G4_E_CHECKSUM;
	return g4_block_check(header, type, address, fs_tag);
}

G4_FN int g4_verify_wide(struct g4_wg *wg, void *page, uint32_t type, struct g4_address address, uint32_t fs_tag,
			 struct g4_sealed_about *about, struct g4_sums_places *places)
{
	union {
		struct g4_indirect_header indirect;
		struct g4_sums_header sums;
	} header;

	about->type = type;
	about->level = about->quarter = 0;
	about->inode = 0;
	about->below = 0;
	if (!is_in_spare_bits(type))
		return verify_block(wg, page, type, address, fs_tag);
	const int rc = verify(wg, page, type, address, fs_tag, &header);
	about->inode = header.sums.inode;
	if (type == G4_BLOCK_CHECKSUMS) {
		about->level = header.sums.level;
		about->quarter = header.sums.quarter;
	} else {
		about->level = header.indirect.level;
		about->below = g4_indirect_below(&header.indirect);
		*places = header.indirect.sums;
	}
	return rc;
}
