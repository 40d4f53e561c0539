/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of PCI Express (acs_host.h). Lists of capabilities may be anything: each has an end. */
#include "dev/nvme/acs_host.h"

#define STATUS 0x06u
#define STATUS_LIST 0x10u /* there are capabilities */
#define FIRST 0x34u
#define ORDINARY_BYTES 0x100u /* that everybody sees */
#define HEADER_BYTES 0x40u
#define EXPRESS 0x10u /* capability */
#define ROOT_PORT 4u  /* its kinds */
#define DOWNSTREAM_PORT 6u
#define ACS 0x0du     /* extended capability */
#define CONTROL_AT 6u /* in it */
#define VALIDATES 1u  /* from whom something comes */
#define REQUESTS 4u   /* of devices to each other go up */
#define COMPLETIONS 8u
#define FORWARDS 16u /* what was sent up */
#define STEPS_MOST 96u

static uint32_t word16(const uint8_t *config, uint32_t at)
{
	return config[at] | (uint32_t)config[at + 1] << 8;
}

static uint32_t word32(const uint8_t *config, uint32_t at)
{
	return word16(config, at) | word16(config, at + 2) << 16;
}

/* Where a capability is; 0: there is none. */
static uint32_t find(const uint8_t *config, uint64_t bytes, uint32_t id)
{
	uint32_t at = bytes >= HEADER_BYTES && (word16(config, STATUS) & STATUS_LIST) ? config[FIRST] & 0xfcu : 0;

	for (uint32_t i = 0; i < STEPS_MOST && at >= HEADER_BYTES && at + 4 <= bytes; i++) {
		if (config[at] == id)
			return at;
		at = config[at + 1] & 0xfcu;
	}
	return 0;
}

/* The same behind the ordinary ones, which are all there. */
static uint32_t find_extended(const uint8_t *config, uint32_t id)
{
	uint32_t at = ORDINARY_BYTES;

	for (uint32_t i = 0; i < STEPS_MOST && at >= ORDINARY_BYTES && at + 8 <= G4_ACS_CONFIG_BYTES; i++) {
		const uint32_t header = word32(config, at);
		if (header == 0 || header == UINT32_MAX)
			return 0;
		if ((header & 0xffff) == id)
			return at;
		at = header >> 20 & 0xffcu;
	}
	return 0;
}

enum g4_acs g4_acs_of(const uint8_t config[G4_ACS_CONFIG_BYTES], uint64_t bytes)
{
	const uint32_t express = find(config, g4_min64(bytes, ORDINARY_BYTES), EXPRESS);
	const uint32_t all = VALIDATES | REQUESTS | COMPLETIONS | FORWARDS;

	if (express == 0) /* of 64 bytes it may be behind them */
		return bytes < ORDINARY_BYTES ? G4_ACS_UNKNOWN : G4_ACS_NO_PORT;
	const uint32_t kind = word16(config, express + 2) >> 4 & 15;
	if (kind != ROOT_PORT && kind != DOWNSTREAM_PORT)
		return G4_ACS_NO_PORT;
	if (bytes < G4_ACS_CONFIG_BYTES)
		return G4_ACS_UNKNOWN;
	const uint32_t acs = find_extended(config, ACS);
	const uint32_t control = acs ? word16(config, acs + CONTROL_AT) : 0;
	if ((control & all) == all)
		return G4_ACS_ISOLATES;
	return control & (REQUESTS | COMPLETIONS) ? G4_ACS_REDIRECTS : G4_ACS_NONE;
}
