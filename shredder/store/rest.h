/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of restic's REST protocol need: words and lists. */
#ifndef SHREDDER_STORE_REST_H
#define SHREDDER_STORE_REST_H

#include "store/backend.h"

/* "data" for packs, else as the folders are called; "" for the configuration, which is no list. */
const char *store_rest_type(enum store_kind kind);
/* False: there is no such type. */
bool store_rest_kind(const char *type, size_t bytes, enum store_kind *kind);
/* [{"name": "...", "size": 1}, ...]; names that are none are left out. INVAL: it is no such list. */
int store_rest_parse(const uint8_t *text, size_t bytes, store_list_fn *each, void *user);
void store_rest_print(struct store_buf *out, const struct store_listed *names, size_t count);
/* A copy of an address without the password in it. */
char *store_rest_shown(const char *path);

#endif
