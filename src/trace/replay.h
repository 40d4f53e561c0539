/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaying a trace: which of its accesses a cache of a given size, associativity and replacement policy would have had. A
 * cache of `ways` pages a set is many caches of that size, one a set, each with the policy of its own, as the engine's is.
 * Pages come in when they are read or written (there is no bypass), one by one: nothing is read ahead.
 */
#ifndef G4_TRACE_REPLAY_H
#define G4_TRACE_REPLAY_H

#include "trace/trace.h"

/*
 * X(NAME, name, function, what it is). Sources: S3-FIFO, Yang et al., SOSP 2023; SIEVE, Zhang et al., NSDI 2024; ARC, Megiddo
 * and Modha, FAST 2003; CLOCK-Pro, Jiang et al., USENIX ATC 2005; MIN, Belady, IBM Systems Journal 5(2), 1966;
 * RRIP, Jaleel et al., ISCA 2010.
 */
#define G4_POLICIES(X)                                                                                                 \
	X(FIFO, "fifo", fifo, "the page that came in first goes")                                                      \
	X(CLOCK, "clock", clock, "the engine's: FIFO that spares a page once after each access, its first included")   \
	X(SECOND, "second-chance", second, "the same, the first access excluded")                                      \
	X(LRU, "lru", lru, "the page goes that was not used for the longest time")                                     \
	X(SIEVE, "sieve", sieve, "second chance with a hand that leaves spared pages where they are")                  \
	X(S3FIFO, "s3-fifo", s3fifo, "new pages pass a small FIFO before a large one")                                 \
	X(S3FIFO1, "s3-fifo-1", s3fifo1, "the same; the large one has what was used once more, not twice")             \
	X(ARC, "arc", arc, "recency and frequency, balanced by what was missed")                                       \
	X(CLOCKPRO, "clock-pro", clockpro, "hot and cold pages by their reuse distance")                               \
	X(SRRIP, "srrip", srrip,                                                                                       \
	  "2 bits: hits warm a page up, new ones are lukewarm, when all are warm all cool down")                       \
	X(DRRIP, "drrip", drrip, "the same, or new pages come in cold, whichever misses less in some sets")            \
	X(MIN, "min", min, "Belady's bound: the page goes that is used again last")

enum g4_policy {
#define G4_POLICY_NUMBER(NAME, name, function, words) G4_POLICY_##NAME,
	G4_POLICIES(G4_POLICY_NUMBER)
#undef G4_POLICY_NUMBER
		G4_POLICY_COUNT
};
const char *g4_policy_name(enum g4_policy policy);

/* A trace page by page. Pages have numbers from 0 on, in the order of their first use. */
struct g4_pages {
	uint64_t count;	   /* accesses to one page each */
	uint32_t distinct; /* different pages */
	uint32_t *page;	   /* of each access */
	uint32_t *next;	   /* the index of the next access to the same page; UINT32_MAX: none */
	uint8_t *write;	   /* of each access */
	uint64_t *spread;  /* of each page: what its set is taken from, as the engine's cache does it */
	uint64_t writes;
};
/* 0 or -G4_E_NOMEM. */
int g4_pages_of(const struct g4_trace *trace, struct g4_pages *pages);
void g4_pages_free(struct g4_pages *pages);

struct g4_replay {
	uint64_t hits;	    /* of reads and writes */
	uint64_t read_hits; /* of reads */
	uint32_t capacity;  /* pages, which fill whole sets */
	uint32_t sets;
};
/* ways 0: fully associative. A cache of less than one set is one set of `capacity`. 0 or -G4_E_NOMEM. */
int g4_replay(const struct g4_pages *pages, enum g4_policy policy, uint32_t capacity, uint32_t ways,
	      struct g4_replay *out);

#endif
