/* SPDX-License-Identifier: Apache-2.0 */
#include "site/heads.h"
#include "store/rest.h"

bool site_parse_address(const char *rest, bool create, struct site_address *address)
{
	const char *slash = strchr(rest, '/');

	memset(address, 0, sizeof(*address));
	if (rest[0] == 0) {
		address->whole = create;
		return create;
	}
	if (strcmp(rest, "config") == 0) {
		address->kind = STORE_CONFIG;
		return true;
	}
	if (slash == NULL || !store_rest_kind(rest, (size_t)(slash - rest), &address->kind))
		return false;
	address->list = slash[1] == 0;
	return address->list || store_unhex(slash + 1, &address->name);
}

/* "A-B" at *text, which goes behind it; A is not behind B. */
static bool take_range(const char **text, uint64_t *first, uint64_t *last)
{
	if (!store_rest_number(text, first) || **text != '-')
		return false;
	++*text;
	return store_rest_number(text, last) && *first <= *last;
}

bool site_parse_range(const char *text, uint64_t size, uint64_t *from, uint64_t *bytes)
{
	static const char unit[] = "bytes=";
	uint64_t first, last;

	if (text == NULL || strncmp(text, unit, strlen(unit)) != 0)
		return false;
	text += strlen(unit);
	if (!take_range(&text, &first, &last) || *text != 0)
		return false;
	*from = g4_min64(first, size);
	*bytes = g4_min64(last - first, UINT64_MAX - 1) + 1;
	*bytes = g4_min64(*bytes, size - *from);
	return true;
}

bool site_parse_rest(const char *text, uint64_t *from, uint64_t *total)
{
	static const char unit[] = "bytes ";
	uint64_t last;

	if (strncmp(text, unit, strlen(unit)) != 0)
		return false;
	text += strlen(unit);
	if (!take_range(&text, from, &last) || *text != '/')
		return false;
	text++;
	return store_rest_number(&text, total) && *text == 0 && *from > 0 && last < UINT64_MAX && *total == last + 1;
}
