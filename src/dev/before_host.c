/* SPDX-License-Identifier: Apache-2.0 */
/* What a device holds (before_host.h). */
#include <stdio.h>

#include "base/memory_host.h"
#include "dev/before_host.h"

static bool is_zero(const uint64_t *words)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < G4_PAGE_BYTES / sizeof(*words); i++)
		all |= words[i];
	return all == 0;
}

int g4_dev_look_before(struct g4_wg *wg, struct g4_dev *dev, uint32_t places, uint32_t *zeros)
{
	const uint64_t pages = g4_dev_props(dev)->size_bytes / G4_PAGE_BYTES;
	uint64_t *page = g4_memory_map(G4_PAGE_BYTES);
	int rc = page ? 0 : -G4_E_NOMEM;

	*zeros = 0;
	for (uint64_t i = 0; i < places && rc == 0; i++) {
		const uint64_t at = places > 1 ? (pages - 1) / (places - 1) * i : 0;
		page[0] = 1;
		rc = g4_dev_read(wg, dev, at * G4_PAGE_BYTES, page, G4_PAGE_BYTES);
		*zeros += rc == 0 && is_zero(page);
	}
	g4_memory_unmap(page, G4_PAGE_BYTES);
	return rc;
}

char *g4_dev_say_before(uint32_t zeros, uint32_t places, char text[G4_BEFORE_TEXT_BYTES])
{
	const char *like = zeros == places ? "as if trimmed" : zeros == 0 ? "as if filled" : "in part as if trimmed";

	snprintf(text, G4_BEFORE_TEXT_BYTES, "zeros at %u of %u places, %s", zeros, places, like);
	return text;
}
