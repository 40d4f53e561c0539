/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: docs/shredder.md as code, one byte after the other. Every other kernel is tested against it. */
#include "chunk/kernels.h"

struct rabin {
	const struct shredder_rule *rule;
	uint64_t *marks;
	uint64_t r; /* the fingerprint of the last position */
};

/* One position: `byte` enters the window, `old` leaves it. */
static inline void step(struct rabin *rabin, uint64_t i, uint8_t byte, uint8_t old)
{
	const struct shredder_rule *rule = rabin->rule;
	const uint64_t low = (UINT64_C(1) << (rule->degree - 8)) - 1;

	rabin->r = ((rabin->r & low) << 8) ^ byte ^ rule->push[rabin->r >> (rule->degree - 8)] ^ rule->pop[old];
	if ((rabin->r & rule->mask) == rule->marker)
		rabin->marks[i / 64] |= UINT64_C(1) << (i % 64);
}

void shredder_find_rabin_portable(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data,
				  uint64_t bytes, uint64_t *marks)
{
	struct rabin rabin = {rule, marks, 0};
	uint64_t i = 0;

	memset(marks, 0, shredder_mark_words(bytes) * sizeof(*marks));
	for (uint32_t k = 0; k < SHREDDER_HISTORY_BYTES; k++)
		rabin.r = shredder_rabin_push(rule, rabin.r, before[k]);
	for (; i < bytes && i < SHREDDER_WINDOW_BYTES; i++)
		step(&rabin, i, data[i], i == 0 ? 0 : before[i - 1]);
	for (; i < bytes; i++)
		step(&rabin, i, data[i], data[i - SHREDDER_WINDOW_BYTES]);
}

void shredder_find_gear_portable(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data,
				 uint64_t bytes, uint64_t *marks)
{
	uint32_t hash = 0;

	memset(marks, 0, shredder_mark_words(bytes) * sizeof(*marks));
	for (uint32_t i = SHREDDER_WINDOW_BYTES - SHREDDER_GEAR_WINDOW_BYTES; i < SHREDDER_HISTORY_BYTES; i++)
		hash = 2 * hash + shredder_gear_table[before[i]];
	for (uint64_t i = 0; i < bytes; i++) {
		hash = 2 * hash + shredder_gear_table[data[i]];
		if ((hash & rule->loose) == 0)
			marks[i / 64] |= UINT64_C(1) << (i % 64);
	}
}

bool shredder_portable_usable(void)
{
	return true;
}
