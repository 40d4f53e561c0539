/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of the shredder program share. */
#ifndef SHREDDER_CLI_H
#define SHREDDER_CLI_H

#include <getopt.h>

#include "base/progress_host.h"
#include "base/units_host.h"
#include "print/message.h"
#include <shredder/shredder.h>

/* X(function, NAME, summary): function gets argv[0] = NAME; its help text's first line is the synopsis behind NAME. */
#define CLI_COMMANDS(X)                                                                                                \
	X(init, "init", "make a repository for backups")                                                               \
	X(backup, "backup", "save directories and files")                                                              \
	X(restore, "restore", "write a snapshot back")                                                                 \
	X(dump, "dump", "write a file of a snapshot to standard output")                                               \
	X(ls, "ls", "list what is in a snapshot")                                                                      \
	X(snapshots, "snapshots", "list the snapshots")                                                                \
	X(mount, "mount", "show the snapshots as directories")                                                         \
	X(find, "find", "tell which snapshots have a file")                                                            \
	X(diff, "diff", "compare two snapshots")                                                                       \
	X(check, "check", "check that all can be restored")                                                            \
	X(forget, "forget", "remove snapshots, by a policy")                                                           \
	X(copy, "copy", "copy snapshots from another repository")                                                      \
	X(prune, "prune", "remove data that no snapshot needs")                                                        \
	X(parity, "parity", "change how much damage files survive")                                                    \
	X(tag, "tag", "change the tags of snapshots")                                                                  \
	X(rewrite, "rewrite", "make snapshots without some of what they have")                                         \
	X(repair, "repair", "give up damaged packs, or make snapshots without what is lost")                           \
	X(recover, "recover", "make a snapshot of what none has any more")                                             \
	X(cat, "cat", "print a file of the repository, or what is in it")                                              \
	X(list, "list", "list the files of the repository")                                                            \
	X(stats, "stats", "tell how large it all is")                                                                  \
	X(key, "key", "list, add, change and remove what opens it")                                                    \
	X(serve, "serve", "keep repositories for other machines")                                                      \
	X(identity, "identity", "make or show what this machine is known by")                                          \
	X(unlock, "unlock", "remove locks whose owner is gone")                                                        \
	X(chunk, "chunk", "cut a file or a stream into chunks")                                                        \
	X(dedup_ratio, "dedup-ratio", "tell how much of files is the same")                                            \
	X(bench, "bench", "measure the engines on this machine")

#define CLI_DECLARE(function, name, summary)                                                                           \
	int cli_##function(int argc, char **argv);                                                                     \
	extern const char cli_help_##function[];
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

/* What decides the cuts and how they are computed, from the command line. */
struct cli_settings {
	struct shredder_params params;
	struct shredder_options options;
	uint32_t gpus[SHREDDER_GPUS_MAX];
	char told[512]; /* what the user knows of engines and GPUs that do not work */
};
/* The options' help, one line each. */
#define CLI_SETTINGS_HELP                                                                                              \
	"  -a, --algorithm NAME   rabin or gear [rabin]\n"                                                             \
	"  -b, --bits N           a marker every 2^N bytes on average [13]\n"                                          \
	"      --min SIZE         smallest chunk, or none [2^N / 4]\n"                                                 \
	"      --max SIZE         largest chunk, or none [2^N * 8]\n"                                                  \
	"      --polynomial HEX   rabin: irreducible, bit i for x^i, degree 16 to 63\n"                                \
	"      --marker HEX       rabin: what the low bits of the fingerprint must be\n"                               \
	"      --normal SIZE      gear: length from which on the looser mask counts [2^N]\n"                           \
	"      --normalization N  gear: bits that the masks are stricter and looser, or none [2]\n"                    \
	"  -d, --delimiter TEXT   cut at ends of records only: behind TEXT (\\n, \\r, \\t, \\0, \\xHH)\n"              \
	"      --record SIZE      how far a cut may move for that [1M]\n"                                              \
	"  -e, --engine NAME      auto, cpu, cuda, portable, avx2 or avx512 [auto]\n"                                  \
	"      --gpus N|LIST      the first N GPUs, or those with the numbers I,J,... or I, [all]\n"                   \
	"  -t, --threads N        threads that compute [one a processor]\n"                                            \
	"      --buffers N        buffers of the ring [threads + 3; 4 a GPU + 1]\n"                                    \
	"      --buffer-size SIZE bytes of one [4M; with GPUs 16M]\n"                                                  \
	"      --no-direct        read files through the page cache\n"

/* Rows for getopt_long(); their values begin behind every character. */
enum {
	CLI_OPT_MIN = 256,
	CLI_OPT_MAX,
	CLI_OPT_POLYNOMIAL,
	CLI_OPT_MARKER,
	CLI_OPT_NORMAL,
	CLI_OPT_NORMALIZATION,
	CLI_OPT_RECORD,
	CLI_OPT_BUFFERS,
	CLI_OPT_BUFFER_SIZE,
	CLI_OPT_GPUS,
	CLI_OPT_NO_DIRECT,
	CLI_OPT_FREE
};
/* Threads that a chunker can have. */
#define CLI_THREADS_MAX 256
#define CLI_SETTINGS_SHORT "a:b:d:e:t:"
#define CLI_SETTINGS_LONG                                                                                              \
	{"algorithm", required_argument, NULL, 'a'}, {"bits", required_argument, NULL, 'b'},                           \
		{"min", required_argument, NULL, CLI_OPT_MIN}, {"max", required_argument, NULL, CLI_OPT_MAX},          \
		{"polynomial", required_argument, NULL, CLI_OPT_POLYNOMIAL},                                           \
		{"marker", required_argument, NULL, CLI_OPT_MARKER},                                                   \
		{"normal", required_argument, NULL, CLI_OPT_NORMAL},                                                   \
		{"normalization", required_argument, NULL, CLI_OPT_NORMALIZATION},                                     \
		{"delimiter", required_argument, NULL, 'd'}, {"record", required_argument, NULL, CLI_OPT_RECORD},      \
		{"engine", required_argument, NULL, 'e'}, {"threads", required_argument, NULL, 't'},                   \
		{"buffers", required_argument, NULL, CLI_OPT_BUFFERS},                                                 \
		{"buffer-size", required_argument, NULL, CLI_OPT_BUFFER_SIZE},                                         \
		{"gpus", required_argument, NULL, CLI_OPT_GPUS},                                                       \
	{                                                                                                              \
		"no-direct", no_argument, NULL, CLI_OPT_NO_DIRECT                                                      \
	}

void cli_settings_init(struct cli_settings *settings);
/* Takes one option: 1 taken, 0 not one of these, or -1 after a message. */
int cli_settings_take(struct cli_settings *settings, const char *command, int option, const char *value);
/* Says why a chunker cannot be opened; returns the status. */
int cli_open_failed(const char *command, const char *engine, int rc);
/* Opens a chunker; G4_EXIT_OK, or a status after a message. Says on standard error when the engine is another one. */
int cli_settings_open(struct cli_settings *settings, const char *command, shredder **out);
/* Says on standard error which GPU failed since, if one did. */
void cli_settings_tell(struct cli_settings *settings, const char *command, const shredder *s);
/* What each GPU did, to standard error. */
void cli_print_gpus(const shredder *s);
/* A decimal number of at most `max`; false: it is none. */
bool cli_parse_number(const char *text, uint64_t max, uint64_t *number);
/* The parameters as a JSON object, complete. */
void cli_print_params(FILE *to, const struct shredder_params *params);

const char *cli_cut_name(uint32_t cut);

#endif
