/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output for people and for scripts from the same calls: objects of named values and lists. As JSON it is one object;
 * as text a value a line, a list of plain values on one line, and each object of a list on a line of its own.
 *
 * Keys are JSON's, in snake_case; text shows them with spaces and without their units. Names of files may be any
 * bytes: in JSON, what is not UTF-8 becomes U+DC80 + (byte - 0x80), as in Python's "surrogateescape".
 */
#ifndef G4_PRINT_REPORT_H
#define G4_PRINT_REPORT_H

#include <stdio.h>

#include "base/base.h"
#include "print/message.h"

#define G4_REPORT_DEPTH 12

struct g4_report {
	FILE *out;
	bool json;
	uint32_t depth;
	uint32_t line_depth; /* text: depth of the list item that is being written on one line, 0: none */
	bool is_list[G4_REPORT_DEPTH];
	bool has_lines[G4_REPORT_DEPTH]; /* text: objects were in it, each on its line */
	int padding;			 /* text: blanks between the label just printed and its value */
	uint64_t count[G4_REPORT_DEPTH];
};

/* Opens the outermost object; g4_report_finish closes whatever is open. */
void g4_report_start(struct g4_report *report, FILE *out, bool json);
void g4_report_finish(struct g4_report *report);

/* key is NULL inside a list, and nowhere else. */
void g4_report_object(struct g4_report *report, const char *key);
void g4_report_list(struct g4_report *report, const char *key);
void g4_report_end(struct g4_report *report);

void g4_report_text(struct g4_report *report, const char *key, const char *text);
void g4_report_name(struct g4_report *report, const char *key, const void *bytes, size_t count);
__attribute__((format(printf, 3, 4))) void g4_report_format(struct g4_report *report, const char *key,
							    const char *format, ...);
void g4_report_bool(struct g4_report *report, const char *key, bool value);
void g4_report_count(struct g4_report *report, const char *key, uint64_t value);
void g4_report_real(struct g4_report *report, const char *key, double value);	  /* six digits */
void g4_report_hex(struct g4_report *report, const char *key, uint64_t value);	  /* JSON: a number */
void g4_report_octal(struct g4_report *report, const char *key, uint64_t value);  /* JSON: a number */
void g4_report_size(struct g4_report *report, const char *key, uint64_t bytes);	  /* text: with a unit */
void g4_report_time(struct g4_report *report, const char *key, uint64_t time_ns); /* JSON: nanoseconds */
void g4_report_uuid(struct g4_report *report, const char *key, const uint8_t *uuid);

#endif
