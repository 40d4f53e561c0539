/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line programs print: messages, help, strings in JSON. Standard error is for people, one line each. */
#ifndef G4_PRINT_MESSAGE_H
#define G4_PRINT_MESSAGE_H

#include <stdio.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status of everything but fsck, which has fsck(8)'s. */
enum g4_exit { G4_EXIT_OK = 0, G4_EXIT_FAILURE = 1, G4_EXIT_USAGE = 2 };

/* The program's name, "gpu4fs" unless main() says otherwise. `command` below is a subcommand, or NULL. */
extern const char *g4_program;

/* Writes a name for a terminal: what is not printable UTF-8 as \xHH. */
void g4_print_name(FILE *out, const void *name, size_t count);
/* Prints "PROGRAM COMMAND: " and the sentence to standard error, which stays one line whatever names are in it: as g4_print_name(). */
__attribute__((format(printf, 2, 3))) void g4_cli_error(const char *command, const char *format, ...);
/* The same and where help is; returns G4_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int g4_cli_usage(const char *command, const char *format, ...);
/* What getopt_long() said about a bad option, as one sentence; returns G4_EXIT_USAGE. */
int g4_cli_bad_option(const char *command, int answer, char **argv);
/* What is wrong, of an errno of the library or of a mount, in words that say what can be done about it where strerror(3)'s do not. */
const char *g4_cli_why(int error);
/* The help of a subcommand on standard output; its first line is the synopsis behind the subcommand. */
void g4_cli_print_help(const char *command, const char *help);
/* Flushes standard output. Returns `status`, or after a message a failure when something could not be written. */
int g4_cli_finish_output(const char *command, int status);

/* Length of the UTF-8 sequence at bytes, 0 when it is none: no overlong forms, no surrogates (RFC 3629). */
size_t g4_utf8_length(const uint8_t *bytes, size_t room);
/*
 * A string as JSON, with its quotes. Names of files may be any bytes: what is not UTF-8 becomes U+DC80 + (byte - 0x80), as
 * in Python's "surrogateescape".
 */
void g4_print_json_string(FILE *to, const void *text, size_t count);

#ifdef __cplusplus
}
#endif

#endif
