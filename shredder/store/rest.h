/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of restic's REST protocol need: words and lists. */
#ifndef SHREDDER_STORE_REST_H
#define SHREDDER_STORE_REST_H

#include "store/backend.h"

/* "data" for packs, else as the folders are called; "" for the configuration, which is no list. */
const char *store_rest_type(enum store_kind kind);
/* False: there is no such type. */
bool store_rest_kind(const char *type, size_t bytes, enum store_kind *kind);
enum store_rest_next { STORE_REST_BEGIN, STORE_REST_FIRST, STORE_REST_NEXT, STORE_REST_AFTER_COMMA, STORE_REST_END };
/*
 * [{"name": "...", "size": 1}, ...] as it arrives, in pieces of any size: what is no such list is told by the piece in which that shows,
 * and of the text no more than one entry is kept. One thread at a time.
 */
struct store_rest_list {
	uint64_t most;		  /* bytes of text; the caller sets it, and leaves the rest 0 */
	uint64_t bytes;		  /* of text so far */
	struct store_buf text;	  /* an entry whose end is not there yet */
	struct store_buf entries; /* struct store_listed; names that are none are left out */
	enum store_rest_next expected;
};
/* INVAL: it is no such list, or longer than `most`. */
int store_rest_list_add(struct store_rest_list *list, const void *text, size_t bytes);
/* After the last piece: the names, in the list's order. INVAL: the list is not at its end. */
int store_rest_list_end(const struct store_rest_list *list, store_list_fn *each, void *user);
/* It is as it was before the first piece. */
void store_rest_list_reset(struct store_rest_list *list);
void store_rest_list_free(struct store_rest_list *list);
void store_rest_print(struct store_buf *out, const struct store_listed *names, size_t count);
/* Digits at *text, which goes behind them; neither a sign nor anything before them. False: there are none, or it is a larger number. */
bool store_rest_number(const char **text, uint64_t *number);
/* A copy of an address without the password in it. */
char *store_rest_shown(const char *path);

#endif
