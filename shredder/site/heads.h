/* SPDX-License-Identifier: Apache-2.0 */
/* What the head of a request says: texts of a client who may be hostile. */
#ifndef SHREDDER_SITE_HEADS_H
#define SHREDDER_SITE_HEADS_H

#include "store/backend.h"

/* What follows the repository in an address. */
struct site_address {
	bool whole; /* nothing, with ?create=true: the repository itself */
	bool list;  /* "data/" */
	enum store_kind kind;
	struct store_id name; /* "data/NAME"; zeros of "config" */
};
/* False: there is no such thing. */
bool site_parse_address(const char *rest, bool create, struct site_address *address);
/* "bytes=A-B" of a file of `size` bytes: *bytes of them from *from on, none behind its end. False: it is none, or NULL, and all is meant. */
bool site_parse_range(const char *text, uint64_t size, uint64_t *from, uint64_t *bytes);
/* "bytes A-B/C" of a body of *total bytes that goes on at *from to its end. False: it is none. */
bool site_parse_rest(const char *text, uint64_t *from, uint64_t *total);

#endif
