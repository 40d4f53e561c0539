/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share. An input is a list of edits of 16 bytes, applied to an image that is made when the
 * program starts: so an input is small, and most of the image stays as the engine made it. Half of the edits that the
 * mutator makes put the page's checksum right, for otherwise nothing behind the first check would ever be reached.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "corrupt/world.h"

struct fuzz_edit {
	uint16_t place; /* index of a page, modulo their number */
	uint16_t at;	/* byte in it */
	uint8_t how;	/* enum fuzz_how, modulo */
	uint8_t seal;	/* odd: the checksum is put right */
	uint16_t other; /* a second page */
	uint64_t value;
};
enum fuzz_how { FUZZ_SET_8, FUZZ_SET_32, FUZZ_SET_64, FUZZ_XOR, FUZZ_ADD, FUZZ_COPY_PAGE, FUZZ_COPY_WORD, FUZZ_HOWS };

struct fuzz_base {
	struct rig rig;	 /* as it was made */
	struct rig work; /* what an input is applied to */
	uint64_t *places;
	uint32_t place_count;
	uint64_t *pages; /* that are not zero */
	uint64_t page_count;
	uint32_t fs_tag;
};

/* Copies the base and applies the edits; after(base) may put right what spans several pages. */
void fuzz_apply(struct fuzz_base *base, const uint8_t *data, size_t size);
void fuzz_add_place(struct fuzz_base *base, uint64_t address);
/* Makes the image: populated, changed, abandoned. What is left to do is in its journal. */
void fuzz_make_image(struct fuzz_base *base);
/* When the places are known. */
void fuzz_finish_base(struct fuzz_base *base);
/* Uses and checks the image in base->work, and repairs it: aborts when a promise is broken. */
void fuzz_use(struct fuzz_base *base);
void fuzz_repair(struct fuzz_base *base);
void fuzz_seal(const struct fuzz_base *base, uint64_t address);

#endif
