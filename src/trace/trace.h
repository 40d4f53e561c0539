/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of accesses to pages, and the two formats of their files. Host only; nothing here is thread-safe.
 *
 * Text: one access a line, "r FILE OFFSET BYTES" or "w FILE OFFSET BYTES", decimal, offset and length in bytes; FILE is any
 * number that stands for one file, or for one device. What follows a '#' is a comment; empty lines are skipped.
 *
 * Binary: 8 bytes "G4TRACE1", then for each access numbers of 7 bits a byte, the lowest first, bit 7 set in all bytes but
 * the last (LEB128):
 *
 *   (pages - 1) * 4 + other file * 2 + write
 *   the file, if it is another one than before (before the first access: 0)
 *   the page less the one behind the last access, as 2n for n >= 0 and -2n - 1 for n < 0 (before the first access: 0)
 */
#ifndef G4_TRACE_H
#define G4_TRACE_H

#include <stdio.h>

#include "base/base.h"

#define G4_TRACE_MAGIC "G4TRACE1"
#define G4_TRACE_PAGE_BYTES 4096u
#define G4_TRACE_MESSAGE_BYTES 160

struct g4_trace_access {
	uint64_t file;
	uint64_t page; /* of the file: offset / 4096 */
	uint32_t pages;
	bool write;
};

struct g4_trace { /* zeroed: one without accesses */
	struct g4_trace_access *accesses;
	uint64_t count, room;
	uint64_t page_count; /* pages of all accesses; at most G4_TRACE_MAX_PAGES */
};
#define G4_TRACE_MAX_PAGES (UINT64_C(0xfffffffe))

/* Where an access ends at the latest: the whole pages of those below 2^63 - 1, so that all of them can be written in both formats. */
#define G4_TRACE_MAX_BYTES (UINT64_C(0x7ffffffffffff000))

/* Bytes [offset, offset + bytes), of at most G4_TRACE_MAX_BYTES, as an access to whole pages; false: none, or too many. */
bool g4_trace_access_of(uint64_t file, uint64_t offset, uint64_t bytes, bool write, struct g4_trace_access *out);
/* Appends. 0, -G4_E_NOMEM, or -G4_E_FBIG: more pages than G4_TRACE_MAX_PAGES. */
int g4_trace_append(struct g4_trace *trace, const struct g4_trace_access *access);
void g4_trace_free(struct g4_trace *trace);
/* Reads a file of either format. 0, or a negative code and a sentence without the file's name in `message`. */
int g4_trace_read(FILE *in, struct g4_trace *trace, char message[G4_TRACE_MESSAGE_BYTES]);

struct g4_trace_writer {
	FILE *out; /* the caller's, who also looks whether writing failed (ferror(3)) */
	bool text;
	uint64_t file, page; /* behind the last access */
	uint32_t held;	     /* bytes that are in the stream's memory, at most */
};
void g4_trace_write_begin(struct g4_trace_writer *writer, FILE *out, bool text);
/*
 * Goes on at the end of the binary trace in `file`, which is open for reading and appending; an empty file becomes one, and an access
 * in which the file ends goes. Returns as g4_trace_read() does: what is no such trace stays as it is.
 */
int g4_trace_write_on(struct g4_trace_writer *writer, FILE *file, char message[G4_TRACE_MESSAGE_BYTES]);
/* The file has whole accesses at any time, also of a process that is killed then; fclose(3) writes the last ones. */
void g4_trace_write(struct g4_trace_writer *writer, const struct g4_trace_access *access);

#endif
