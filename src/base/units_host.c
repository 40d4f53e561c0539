/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write and read them: exact integer arithmetic, no locale. */
#include "base/units_host.h"

#include <inttypes.h>
#include <stdio.h>

static const char unit_letters[] = "KMGTPE";

/* Digits of a fraction that count: the product of the largest unit and such a fraction fits 128 bits with room. */
#define FRACTION_DIGITS 18

__extension__ typedef unsigned __int128 wide;

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The shift of a unit letter in either case; 0 for any other character. */
static uint32_t unit_shift(char c)
{
	for (uint32_t i = 0; unit_letters[i]; i++) {
		if (c == unit_letters[i] || c == unit_letters[i] - 'A' + 'a')
			return 10 * (i + 1);
	}
	return 0;
}

/* True when `s` is "", "B" or, after a unit, "iB". */
static bool is_suffix(const char *s, bool after_unit)
{
	if (after_unit && *s == 'i' && (s[1] == 'B' || s[1] == 'b'))
		s++;
	if (*s == 'B' || *s == 'b')
		s++;
	return *s == '\0';
}

int g4_parse_size(const char *text, uint64_t *bytes)
{
	const char *s = text;
	uint64_t whole = 0;
	uint64_t fraction = 0;
	uint64_t scale = 1; /* of the fraction: 10 to its digits */
	bool overflow = false;
	bool has_fraction = false;
	uint32_t shift;
	wide total;

	if (!is_digit(*s))
		return -G4_E_INVAL;
	for (; is_digit(*s); s++)
		overflow |= __builtin_mul_overflow(whole, 10, &whole) ||
			    __builtin_add_overflow(whole, (uint64_t)(*s - '0'), &whole);
	if (*s == '.') {
		has_fraction = true;
		if (!is_digit(*++s))
			return -G4_E_INVAL;
		for (uint32_t digits = 0; is_digit(*s); s++) {
			if (digits++ >= FRACTION_DIGITS)
				continue;
			fraction = fraction * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
	}
	shift = unit_shift(*s);
	if (shift)
		s++;
	else if (has_fraction)
		return -G4_E_INVAL;
	if (!is_suffix(s, shift != 0))
		return -G4_E_INVAL;
	total = ((wide)whole << shift) + ((wide)fraction << shift) / scale;
	if (overflow || total > UINT64_MAX)
		return -G4_E_OVERFLOW;
	*bytes = (uint64_t)total;
	return 0;
}

const char *g4_format_size(uint64_t bytes, char *buf, size_t n)
{
	uint32_t unit = 0; /* 0: bytes, i: unit_letters[i - 1] */
	uint64_t tenths;

	while (unit < sizeof(unit_letters) - 1 && bytes >> (10 * (unit + 1)))
		unit++;
	if (unit == 0) {
		snprintf(buf, n, "%" PRIu64 " B", bytes);
		return buf;
	}
	tenths = (uint64_t)((((wide)bytes * 10) + ((wide)1 << (10 * unit - 1))) >> (10 * unit));
	if (tenths == 10240 && unit < sizeof(unit_letters) - 1) {
		tenths = 10;
		unit++;
	}
	if (tenths % 10)
		snprintf(buf, n, "%" PRIu64 ".%" PRIu64 " %ciB", tenths / 10, tenths % 10, unit_letters[unit - 1]);
	else
		snprintf(buf, n, "%" PRIu64 " %ciB", tenths / 10, unit_letters[unit - 1]);
	return buf;
}
