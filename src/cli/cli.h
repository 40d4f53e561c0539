/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of the gpu4fs program share. Host only; the program is single-threaded until a mount starts. */
#ifndef G4_CLI_H
#define G4_CLI_H

#include "base/error.h"
#include "base/progress_host.h"
#include "base/units_host.h"
#include "print/message.h"

/*
 * A subcommand. run() gets argv[0] as the name it was called by. Names: X(NAME) declares g4_cli_NAME and its help text
 * g4_help_NAME; the text's first line is the synopsis without the program's name, the rest is printed as it is.
 */
#define G4_CLI_COMMANDS(X)                                                                                             \
	X(mkfs, "make a gpu4fs file system")                                                                           \
	X(mount, "mount a gpu4fs file system")                                                                         \
	X(umount, "unmount a gpu4fs file system")                                                                      \
	X(serve, "serve a file system to programs over a socket")                                                      \
	X(run, "run a program whose file calls go to the engine")                                                      \
	X(fsck, "check and repair a file system")                                                                      \
	X(info, "show a file system's superblock")                                                                     \
	X(df, "show how much space is used")                                                                           \
	X(attr, "show and change the flags of files")                                                                  \
	X(cp, "copy files inside a file system, by reference")                                                         \
	X(rm, "remove files and trees inside a file system")                                                           \
	X(du, "show how much space trees take")                                                                        \
	X(find, "list what is in trees, by name, type, size and time")                                                 \
	X(import, "copy a tree of the host into a file system")                                                        \
	X(export, "copy a tree of a file system to the host")                                                          \
	X(dedup, "share what files have stored more than once")                                                        \
	X(restripe, "move files to disks as their policy says")                                                        \
	X(scrub, "find what is damaged, while it is in use")                                                           \
	X(status, "show the disks of a file system and how they are")                                                  \
	X(disk, "bring disks of a file system up to date, or replace one")                                             \
	X(resize, "give a file system another size")                                                                   \
	X(tune, "change the label, the UUID or the sums of files")                                                     \
	X(nvme, "take NVMe drives from the kernel and give them back, look at them, test them")                        \
	X(map, "show where files lie on the device")                                                                   \
	X(dump, "print any structure on the disk")                                                                     \
	X(trace, "record accesses to pages, and replay them through caches")                                           \
	X(bench, "measure how fast a file system is")

/* One name for the disks of a file system (space/set_host.h); it stays until the program ends. */
const char *g4_cli_disks(char **names, int count);
/* Memory that stays as long; the caller's until then. Returns it. */
const char *g4_cli_keep(char *memory);

#define G4_CLI_DECLARE(name, summary)                                                                                  \
	int g4_cli_##name(int argc, char **argv);                                                                      \
	extern const char g4_help_##name[];
G4_CLI_COMMANDS(G4_CLI_DECLARE)
#undef G4_CLI_DECLARE

#endif
