/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a device that keeps several copies. A copy that has missed a write is whole and older, so of those that are whole the
 * newest counts; after a crash copies may differ in what nothing leads to, and in what the journal writes again.
 */
#include "fsck/copies.h"

#include "journal/block.h"

#define NONE INT64_C(-2) /* no copy could be read */
#define NO_METADATA INT64_C(-1)
#define PAGES_MOST (G4_CHUNK_BYTES / G4_PAGE_BYTES)

/* The generation of a page that is metadata in its place, or NO_METADATA. */
static int64_t age_of(const struct g4_image *image, const uint8_t *page, struct g4_address address)
{
	uint8_t *taken_apart = image->buffer + G4_CHUNK_BYTES;
	uint64_t generation;

	memcpy(taken_apart, page, G4_PAGE_BYTES);
	if (!g4_block_is_whole(taken_apart, address, image->fs_tag, &generation))
		return NO_METADATA;
	return (int64_t)(generation & INT64_MAX);
}

struct choice {
	int64_t age; /* of what was chosen */
	bool differs, missing;
	bool open;     /* asked for as it can be made of others */
	uint32_t fits; /* so many versions are what was chosen */
};

/* One page of one copy, which could be read. */
static void offer(const struct g4_image *image, struct choice *choice, uint8_t *chosen, const uint8_t *page,
		  struct g4_address address, bool first)
{
	if (first) {
		memcpy(chosen, page, G4_PAGE_BYTES);
		choice->age = NO_METADATA; /* not looked at yet */
		return;
	}
	if (memcmp(chosen, page, G4_PAGE_BYTES) == 0)
		return;
	const int64_t before = age_of(image, chosen, address), age = age_of(image, page, address);
	choice->differs = true;
	if (age > before)
		memcpy(chosen, page, G4_PAGE_BYTES);
}

static void take_newer(struct g4_image *image, struct choice *choice, uint8_t *chosen, const uint8_t *page,
		       struct g4_address address)
{
	const int64_t age = age_of(image, page, address);

	if (age <= choice->age)
		return;
	memcpy(chosen, page, G4_PAGE_BYTES);
	choice->age = age;
	choice->differs = true;
	choice->fits = 0;
}

/*
 * Pages that are no metadata in their place, but that are if they are made from others of their rows with parity: the newest of those versions, for a
 * parity that has missed a write makes an older one. Those that are data are none either way, and as many versions as there are parities say that
 * their rows fit: then no other one is asked for.
 */
static void take_remakes(struct g4_image *image, struct g4_address address, uint8_t *to, uint64_t bytes,
			 struct choice *choices)
{
	const uint32_t copies = g4_space_copies(&image->space), versions = g4_space_versions(&image->space);
	const uint64_t pages = bytes / G4_PAGE_BYTES;
	uint64_t open = 0;

	for (uint64_t p = 0; p < pages && versions > copies; p++) {
		choices[p].open = choices[p].age != NONE &&
				  age_of(image, to + p * G4_PAGE_BYTES, g4_address_after_pages(address, p)) < 0;
		if (choices[p].open)
			choices[p].age = NO_METADATA;
		open += choices[p].open;
	}
	for (uint32_t version = copies; version < versions && open > 0; version++) {
		const int whole = g4_space_read_copy(image->wg, &image->space, version, address, image->buffer, bytes);
		for (uint64_t p = 0; p < pages; p++) {
			const uint64_t at = p * G4_PAGE_BYTES;
			const struct g4_address page = g4_address_after(address, at);
			/* which there are depends on the column, and what can be read on the row */
			if (!choices[p].open ||
			    (whole < 0 && g4_space_read_copy(image->wg, &image->space, version, page,
							     image->buffer + at, G4_PAGE_BYTES) < 0))
				continue;
			if (memcmp(to + at, image->buffer + at, G4_PAGE_BYTES) == 0) {
				choices[p].fits++;
				choices[p].open = choices[p].fits + 1 < copies;
			} else {
				take_newer(image, &choices[p], to + at, image->buffer + at, page);
			}
			open -= !choices[p].open;
		}
	}
}

int g4_image_read_copies(struct g4_image *image, struct g4_address address, uint8_t *to, uint64_t bytes,
			 uint32_t *damaged)
{
	const uint64_t pages = bytes / G4_PAGE_BYTES;
	struct choice choices[PAGES_MOST];

	*damaged = 0;
	if (image->buffer == NULL)
		return g4_dev_read(image->wg, image->dev, g4_address_stored(address), to, bytes);
	for (uint64_t p = 0; p < pages; p++)
		choices[p] = (struct choice){.age = NONE};
	for (uint32_t copy = 0; copy < g4_space_copies(&image->space); copy++) {
		const int whole = g4_space_read_copy(image->wg, &image->space, copy, address, image->buffer, bytes);
		if (whole == -G4_E_NOENT)
			continue; /* its disk is missing */
		for (uint64_t p = 0; p < pages; p++) {
			const uint64_t at = p * G4_PAGE_BYTES;
			const struct g4_address page = g4_address_after_pages(address, p);
			/* one bad sector does not take its neighbours away */
			const int one = whole == 0 ? 0 :
						     g4_space_read_copy(image->wg, &image->space, copy, page,
									image->buffer + at, G4_PAGE_BYTES);
			if (one == 0)
				offer(image, &choices[p], to + at, image->buffer + at, page, choices[p].age == NONE);
			else
				choices[p].missing = true;
		}
	}
	take_remakes(image, address, to, bytes, choices);
	for (uint64_t p = 0; p < pages; p++) {
		if (choices[p].age == NONE)
			return -G4_E_IO;
		if ((choices[p].differs || choices[p].missing) &&
		    age_of(image, to + p * G4_PAGE_BYTES, g4_address_after_pages(address, p)) >= 0)
			*damaged |= UINT32_C(1) << p;
	}
	return 0;
}
