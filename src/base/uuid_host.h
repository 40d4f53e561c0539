/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs of file systems and disks: random ones (RFC 9562, version 4), and their text form. */
#ifndef G4_UUID_HOST_H
#define G4_UUID_HOST_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text form and its NUL: "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx". */
#define G4_UUID_TEXT_BYTES 37

/* Makes a random UUID from the kernel's generator. Thread-safe. 0, or -G4_E_IO when the kernel gives no random bytes. */
int g4_uuid_random(uint8_t uuid[16]);

/* Writes the lower-case text form. Returns text, for printf. Thread-safe. */
const char *g4_uuid_format(const uint8_t uuid[16], char text[G4_UUID_TEXT_BYTES]);

/* Reads a text form in either case. 0, or -G4_E_INVAL when it is none; `uuid` is set on success only. Thread-safe. */
int g4_uuid_parse(const char *text, uint8_t uuid[16]);

#ifdef __cplusplus
}
#endif

#endif
