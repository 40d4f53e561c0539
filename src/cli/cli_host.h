/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of the gpu4fs program share. Host only; the program is single-threaded until a mount starts. */
#ifndef G4_CLI_HOST_H
#define G4_CLI_HOST_H

#include <stdio.h>

#include "base/error.h"
#include "base/progress_host.h"

/* Exit status of everything but fsck, which has fsck(8)'s. */
enum g4_exit { G4_EXIT_OK = 0, G4_EXIT_FAILURE = 1, G4_EXIT_USAGE = 2 };

/*
 * A subcommand. run() gets argv[0] as the name it was called by. Names: X(NAME) declares g4_cli_NAME and its help text
 * g4_help_NAME; the text's first line is the synopsis without the program's name, the rest is printed as it is.
 */
#define G4_CLI_COMMANDS(X)                                                                                             \
	X(mkfs, "make a gpu4fs file system")                                                                           \
	X(mount, "mount a gpu4fs file system")                                                                         \
	X(umount, "unmount a gpu4fs file system")                                                                      \
	X(serve, "serve a file system to programs over a socket")                                                      \
	X(fsck, "check and repair a file system")                                                                      \
	X(info, "show a file system's superblock")                                                                     \
	X(df, "show how much space is used")                                                                           \
	X(attr, "show and change the flags of files")                                                                  \
	X(dump, "print any structure on the disk")                                                                     \
	X(bench, "measure how fast a file system is")

#define G4_CLI_DECLARE(name, summary)                                                                                  \
	int g4_cli_##name(int argc, char **argv);                                                                      \
	extern const char g4_help_##name[];
G4_CLI_COMMANDS(G4_CLI_DECLARE)
#undef G4_CLI_DECLARE

/* Prints "gpu4fs NAME: " and the sentence to standard error. */
__attribute__((format(printf, 2, 3))) void g4_cli_error(const char *command, const char *format, ...);
/* The same and where help is; returns the usage status. */
__attribute__((format(printf, 2, 3))) int g4_cli_usage(const char *command, const char *format, ...);
/* The help of a subcommand on standard output. */
void g4_cli_print_help(const char *name, const char *help);

/* What getopt_long() said about a bad option, as one sentence; returns the usage status. */
int g4_cli_bad_option(const char *command, int answer, char **argv);

#endif
