/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates, sizes and records become cuts. Offsets are those of the stream unless they are called `at`. */
#include "chunk/resolve.h"

/* Answers of the functions that look for a place. */
#define NOT_YET UINT64_MAX
#define IMPOSSIBLE (UINT64_MAX - 1)

void shredder_resolver_init(struct shredder_resolver *resolver, const struct shredder_rule *rule)
{
	memset(resolver, 0, sizeof(*resolver));
	resolver->rule = rule;
}

/* a + b, or the largest offset when that is more. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t end_of(const struct shredder_view *view)
{
	return view->position + view->bytes;
}

/* The `bytes` bytes before `end`, at most SHREDDER_WINDOW_BYTES, in `buffer` or where they lie. */
static const uint8_t *bytes_before(const struct shredder_view *view, uint64_t end, uint32_t bytes, uint8_t *buffer)
{
	const uint64_t at = end - view->position;

	if (at >= bytes)
		return view->data + at - bytes;
	memcpy(buffer, view->before + SHREDDER_WINDOW_BYTES - (bytes - at), bytes - at);
	if (at > 0)
		memcpy(buffer + bytes - at, view->data, at);
	return buffer;
}

static uint64_t fingerprint_before(const struct shredder_rule *rule, const struct shredder_view *view, uint64_t end)
{
	uint8_t buffer[SHREDDER_WINDOW_BYTES];

	return shredder_fingerprint(rule, bytes_before(view, end, SHREDDER_WINDOW_BYTES, buffer));
}

/* The first candidate of the bitmap at `at` or behind it and below `limit`; `limit` when there is none. */
static uint64_t next_mark(const uint64_t *marks, uint64_t at, uint64_t limit)
{
	if (at >= limit)
		return limit;

	uint64_t word = marks[at / 64] & (UINT64_MAX << (at % 64));
	for (at /= 64; word == 0; word = marks[at])
		if (++at * 64 >= limit)
			return limit;
	return g4_min64(at * 64 + g4_lowest_bit(word), limit);
}

/* Where the open chunk ends by a marker, at `limit` at the latest, or NOT_YET. */
static uint64_t find_marker(const struct shredder_resolver *r, const struct shredder_view *view, uint64_t limit)
{
	const struct shredder_params *p = &r->rule->params;
	const uint64_t first = g4_max64(add(r->start, p->min_bytes), g4_max64(r->scanned, view->position) + 1);

	if (first > limit)
		return NOT_YET;
	for (uint64_t at = first - 1 - view->position;; at++) {
		at = next_mark(view->marks, at, limit - view->position);
		const uint64_t end = view->position + at + 1;

		if (end > limit)
			return NOT_YET;
		if (p->algorithm == SHREDDER_RABIN || end - r->start >= p->normal_bytes ||
		    (fingerprint_before(r->rule, view, end) & r->rule->strict) == 0)
			return end;
	}
}

/* Decides where the open chunk is to be cut: `raw` and `cut`, if that is in this buffer. */
static void choose(struct shredder_resolver *r, const struct shredder_view *view)
{
	const uint64_t longest = add(r->start, r->rule->params.max_bytes);
	const uint64_t end = end_of(view);

	r->raw = find_marker(r, view, g4_min64(end, longest));
	r->asked = false;
	if (r->raw != NOT_YET) {
		r->cut = SHREDDER_CUT_MARKER;
	} else if (longest <= end) {
		r->raw = longest;
		r->cut = SHREDDER_CUT_MAX;
	} else if (view->last && r->start < end) {
		r->raw = end;
		r->cut = SHREDDER_CUT_END;
	}
	r->scanned = r->cut != 0 ? r->raw : end;
}

/* The first end of a delimiter from r->scanned on, at `limit` at the latest, or NOT_YET. */
static uint64_t find_delimiter(const struct shredder_resolver *r, const struct shredder_view *view, uint64_t limit)
{
	const struct shredder_params *p = &r->rule->params;
	const uint32_t length = p->delimiter_bytes;
	uint8_t buffer[SHREDDER_WINDOW_BYTES];

	for (uint64_t end = r->scanned; end <= limit; end++) {
		if (end > view->position) { /* go to where the last byte of a delimiter is */
			const uint8_t *from = view->data + (end - 1 - view->position);
			const uint8_t *hit = (const uint8_t *)memchr(from, p->delimiter[length - 1], limit - end + 1);

			if (hit == NULL)
				return NOT_YET;
			end += (uint64_t)(hit - from);
		}
		if (memcmp(bytes_before(view, end, length, buffer), p->delimiter, length) == 0)
			return end;
	}
	return NOT_YET;
}

/* The same by the caller's scanner; IMPOSSIBLE when it says what cannot be. */
static uint64_t ask_scanner(struct shredder_resolver *r, const struct shredder_view *view, uint64_t limit)
{
	const struct shredder_params *p = &r->rule->params;
	const uint64_t bytes = limit - r->scanned;
	uint8_t buffer[SHREDDER_WINDOW_BYTES];
	const uint8_t *before = NULL;

	if (bytes == 0)
		return NOT_YET;
	if (!r->asked)
		before = bytes_before(view, r->scanned, SHREDDER_WINDOW_BYTES, buffer);
	const int64_t answer =
		p->record(p->record_user, before, view->data + (r->scanned - view->position), bytes, !r->asked);
	r->asked = true;
	if (answer == SHREDDER_MORE)
		return NOT_YET;
	return answer < 0 || (uint64_t)answer > bytes ? IMPOSSIBLE : r->scanned + (uint64_t)answer;
}

/* Where the open chunk ends after `raw` moved to a record border; NOT_YET or IMPOSSIBLE. */
static uint64_t move_to_border(struct shredder_resolver *r, const struct shredder_view *view)
{
	const struct shredder_params *p = &r->rule->params;
	const uint64_t farthest = add(r->raw, p->record_bytes);
	const uint64_t limit = g4_min64(farthest, end_of(view));

	if (r->cut == SHREDDER_CUT_END || (p->delimiter_bytes == 0 && p->record == NULL))
		return r->raw;

	const uint64_t border = p->record != NULL ? ask_scanner(r, view, limit) : find_delimiter(r, view, limit);
	if (border != NOT_YET)
		return border;
	r->scanned = p->record != NULL ? limit : limit + 1;
	return limit == farthest || view->last ? limit : NOT_YET;
}

int64_t shredder_resolve(struct shredder_resolver *r, const struct shredder_view *view, struct shredder_end *ends,
			 uint64_t room, bool *more)
{
	uint64_t count = 0;

	for (;; count++) {
		*more = count == room;
		if (*more)
			return (int64_t)count;
		if (r->cut == 0)
			choose(r, view);
		if (r->cut == 0)
			return (int64_t)count;

		const uint64_t end = move_to_border(r, view);
		if (end == IMPOSSIBLE)
			return SHREDDER_E_SCANNER;
		if (end == NOT_YET)
			return (int64_t)count;
		memset(&ends[count], 0, sizeof(*ends));
		ends[count].end = end;
		ends[count].fingerprint = fingerprint_before(r->rule, view, end);
		ends[count].cut = r->cut;
		r->start = r->scanned = end;
		r->cut = 0;
	}
}
