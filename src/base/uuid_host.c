/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs. Bytes are in the order of the text, as RFC 9562 stores them. */
#include "base/uuid_host.h"

#include <errno.h>
#include <sys/random.h>

static const char hex_digits[] = "0123456789abcdef";

/* True before which byte the text has a dash: groups of 4, 2, 2, 2 and 6 bytes. */
static bool dash_before(uint32_t byte)
{
	return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

int g4_uuid_random(uint8_t uuid[16])
{
	ssize_t n;

	/* Up to 256 bytes come in one piece or, before any came, not at all. */
	do
		n = getrandom(uuid, 16, 0);
	while (n < 0 && errno == EINTR);
	if (n != 16)
		return -G4_E_IO;
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4 */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80); /* variant of RFC 9562 */
	return 0;
}

const char *g4_uuid_format(const uint8_t uuid[16], char text[G4_UUID_TEXT_BYTES])
{
	char *s = text;

	for (uint32_t i = 0; i < 16; i++) {
		if (dash_before(i))
			*s++ = '-';
		*s++ = hex_digits[uuid[i] >> 4];
		*s++ = hex_digits[uuid[i] & 15];
	}
	*s = '\0';
	return text;
}

/* The value of a hexadecimal digit, or -1. */
static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int g4_uuid_parse(const char *text, uint8_t uuid[16])
{
	uint8_t parsed[16];

	for (uint32_t i = 0; i < 16; i++) {
		int high;
		int low;

		if (dash_before(i) && *text++ != '-')
			return -G4_E_INVAL;
		high = hex_value(text[0]);
		if (high < 0)
			return -G4_E_INVAL;
		low = hex_value(text[1]);
		if (low < 0)
			return -G4_E_INVAL;
		parsed[i] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	if (*text)
		return -G4_E_INVAL;
	memcpy(uuid, parsed, sizeof(parsed));
	return 0;
}
