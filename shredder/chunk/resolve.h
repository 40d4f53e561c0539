/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From candidates to cuts: the second half of the rule, docs/shredder.md "Cuts". It is serial by nature, as each cut
 * depends on the one before, but cheap: it looks at the bitmap of candidates only, 64 positions a word, and skips what the
 * minimum forbids. A stream is resolved buffer by buffer; what a resolver remembers between two is a few words.
 */
#ifndef SHREDDER_RESOLVE_H
#define SHREDDER_RESOLVE_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the resolution of a stream stands. Used by one thread at a time. */
struct shredder_resolver {
	const struct shredder_rule *rule;
	uint64_t start;	  /* of the open chunk, in the stream */
	uint64_t scanned; /* no cut of the open chunk can lie in front of it; in a record: no border in front of it */
	uint64_t raw;	  /* where the open chunk is to be cut before it moves to a record border */
	uint32_t cut;	  /* why it is cut there, or 0: not known yet */
	bool asked;	  /* the record scanner has seen the first bytes behind `raw` */
};

/* A buffer of the stream with its candidates. */
struct shredder_view {
	const uint8_t *data;
	uint64_t bytes;
	uint64_t position;     /* of data[0] in the stream */
	const uint8_t *before; /* the SHREDDER_WINDOW_BYTES bytes before data[0] */
	const uint64_t *marks; /* as shredder_find_fn gives them */
	bool last;	       /* the stream ends with this buffer */
};

void shredder_resolver_init(struct shredder_resolver *resolver, const struct shredder_rule *rule);

/*
 * Appends the ends of chunks in `view` to ends[0], ends[1], ... and gives how many, at most `room`. *more: there was no
 * room for all; the next call with the same view goes on. Otherwise the next call takes the buffer that follows. Digests
 * are left out. SHREDDER_E_SCANNER when the caller's record scanner gave an impossible answer.
 */
int64_t shredder_resolve(struct shredder_resolver *resolver, const struct shredder_view *view,
			 struct shredder_end *ends, uint64_t room, bool *more);

#ifdef __cplusplus
}
#endif

#endif
