/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: FORMAT.md, section 2. */
#ifndef SHREDDER_STORE_KEYS_H
#define SHREDDER_STORE_KEYS_H

#include "store/store.h"

/* Smallest key file: a random key and not a word. */
#define STORE_SECRET_BYTES_MIN 32
#define STORE_SECRET_BYTES_MAX G4_MIB

/* Finds the key file that the secret opens and derives all keys. PASSWORD. */
int store_key_find(struct store *s, const struct store_secret *secret);

#endif
