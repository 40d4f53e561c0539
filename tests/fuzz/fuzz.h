/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share: an image that is made when the program starts, the same in every run, and restored before
 * each input; no thread but the caller's touches it. So an input does the same each time (README.md).
 *
 * Where an input is a list of edits, of 16 bytes, it is small, and most of the image stays as the engine made it. Half of
 * the edits that the mutator makes put the page's checksum right, for otherwise nothing behind the first check would ever
 * be reached.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "corrupt/world.h"
#include "replay.h"

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

/* ---- fuzz.c ---- */
/* A mounted fresh image in base->rig. */
void fuzz_open_image(struct fuzz_base *base, uint64_t bytes);
/* Makes the image: populated, changed, abandoned. What is left to do is in its journal. */
void fuzz_make_image(struct fuzz_base *base);
/* When the image, and the places if there are any, are known. */
void fuzz_finish_base(struct fuzz_base *base);
/* Makes base->work what base->rig is; time and random numbers begin again. */
void fuzz_restore(struct fuzz_base *base);
/* A checksum of base->work, all of it. */
uint32_t fuzz_image_sum(const struct fuzz_base *base);
/* Uses and checks the image in base->work, and repairs it: aborts when a promise is broken. */
void fuzz_use(struct fuzz_base *base);
void fuzz_repair(struct fuzz_base *base);
/* What fsck says of base->work: problems, -1 when there is no superblock to begin with. Its words go to *text (free it). */
int64_t fuzz_check(struct fuzz_base *base, char **text);
/* Aborts when the promise is broken; which one, and text if it is not NULL, are printed. */
void fuzz_expect(bool promise, const char *which, const char *text);
/* One of the values that fields like, or any. */
uint64_t fuzz_interesting(uint64_t *seed);

/* ---- edits.c ---- */
/* Restores and applies the edits. */
void fuzz_apply(struct fuzz_base *base, const uint8_t *data, size_t size);
void fuzz_add_place(struct fuzz_base *base, uint64_t address);
/* Puts the checksum of a page of base->work right. */
void fuzz_token(const struct fuzz_base *base, uint64_t address);

#endif
