/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of the backup share: which repository, which password, which snapshots; output; exit statuses. */
#ifndef SHREDDER_CLI_REPO_H
#define SHREDDER_CLI_REPO_H

#include "cli/cli.h"
#include "store/exclude.h"
#include "store/tree.h"

/* Exit statuses as restic's. */
enum cli_exit { CLI_EXIT_UNREAD = 3, CLI_EXIT_NO_STORE = 10, CLI_EXIT_LOCKED = 11, CLI_EXIT_PASSWORD = 12 };

#define CLI_LIST_MAX 256
/* zstd's, unless said otherwise. */
#define CLI_LEVEL 3
/* Of every snapshot that was made without something that the repository had lost. */
#define CLI_TAG_REPAIRED "repaired"

struct cli_repo {
	const char *command;
	const char *path, *password_file, *password_command, *key_file;
	const char *identity, *site_key;
	const char *upload_limit, *download_limit, *retry_lock; /* as they were given */
	const char *password_variable; /* its name in the environment; NULL: a new password is asked for */
	const char *prompt, *ways;     /* how its password is told where there is no terminal */
	bool plain, json, quiet;
	bool reads;	  /* only, so that it has --no-lock */
	bool no_lock;	  /* nothing is written, not even a lock */
	uint64_t wait_ns; /* for a lock, once it is open */
	const char *host; /* snapshots */
	const char *tags[CLI_LIST_MAX], *paths[CLI_LIST_MAX];
	size_t tags_count, paths_count; /* above CLI_LIST_MAX: not all are there, and it does not open */
	char *password;			/* held until the end */
	struct store_buf key;
	bool mends; /* tells itself what is damaged */
};

#define CLI_REPO_HELP                                                                                                  \
	"  -r, --repo PLACE       the repository: a directory, or rest:https://HOST:PORT/NAME [SHREDDER_REPOSITORY]\n" \
	"      --identity FILE    what this client is known by at a site [SHREDDER_IDENTITY]\n"                        \
	"      --site-key KEY     the site's key, as 'shredder serve' prints it [SHREDDER_SITE_KEY]\n"                 \
	"  -p, --password-file FILE  its password, the first line [SHREDDER_PASSWORD_FILE, SHREDDER_PASSWORD]\n"       \
	"      --password-command COMMAND  what prints it [SHREDDER_PASSWORD_COMMAND]\n"                               \
	"  -k, --key-file FILE    a file of 32 random bytes or more instead of a password [SHREDDER_KEY_FILE]\n"       \
	"      --no-encryption    the repository is not encrypted\n"                                                   \
	"      --limit-upload SIZE, --limit-download SIZE\n"                                                           \
	"                         bytes a second to and from a remote repository, 16K at least [no limit]\n"           \
	"      --retry-lock TIME  wait so long for others who have it locked, as 30s, 5m or 1h30m [not at all]\n"      \
	"  -j, --json             JSON instead of text\n"                                                              \
	"  -q, --quiet            no summary and no progress\n"
#define CLI_FROM_HELP                                                                                                     \
	"      --from-repo PLACE      the source [SHREDDER_FROM_REPOSITORY]\n"                                            \
	"      --from-password-file FILE, --from-password-command COMMAND, --from-key-file FILE, --from-no-encryption,\n" \
	"      --from-identity FILE, --from-site-key KEY\n"                                                               \
	"                         what opens it [SHREDDER_FROM_PASSWORD_FILE, SHREDDER_FROM_PASSWORD, ...]\n"
#define CLI_FILTER_HELP                                                                                                \
	"  -H, --host NAME        of snapshots of this host only\n"                                                    \
	"      --tag TAG,...      that have all of these tags; may come several times: any of the lists\n"             \
	"      --path PATH        that were made of this path\n"

enum {
	CLI_OPT_REPO_FIRST = 512,
	CLI_OPT_PASSWORD_COMMAND,
	CLI_OPT_NO_ENCRYPTION,
	CLI_OPT_IDENTITY,
	CLI_OPT_SITE_KEY,
	CLI_OPT_LIMIT_UPLOAD,
	CLI_OPT_LIMIT_DOWNLOAD,
	CLI_OPT_RETRY_LOCK,
	CLI_OPT_NO_LOCK,
	CLI_OPT_TAG,
	CLI_OPT_PATH,
	CLI_OPT_FROM_REPO,
	CLI_OPT_FROM_PASSWORD_FILE,
	CLI_OPT_FROM_PASSWORD_COMMAND,
	CLI_OPT_FROM_KEY_FILE,
	CLI_OPT_FROM_IDENTITY,
	CLI_OPT_FROM_SITE_KEY,
	CLI_OPT_FROM_NO_ENCRYPTION,
	CLI_OPT_REPO_FREE
};
#define CLI_REPO_SHORT ":r:p:k:jq"
#define CLI_FILTER_SHORT "H:"
#define CLI_REPO_LONG                                                                                                  \
	{"repo", required_argument, NULL, 'r'}, {"password-file", required_argument, NULL, 'p'},                       \
		{"password-command", required_argument, NULL, CLI_OPT_PASSWORD_COMMAND},                               \
		{"key-file", required_argument, NULL, 'k'}, {"identity", required_argument, NULL, CLI_OPT_IDENTITY},   \
		{"site-key", required_argument, NULL, CLI_OPT_SITE_KEY},                                               \
		{"no-encryption", no_argument, NULL, CLI_OPT_NO_ENCRYPTION}, {"quiet", no_argument, NULL, 'q'},        \
		{"limit-upload", required_argument, NULL, CLI_OPT_LIMIT_UPLOAD},                                       \
		{"limit-download", required_argument, NULL, CLI_OPT_LIMIT_DOWNLOAD},                                   \
		{"retry-lock", required_argument, NULL, CLI_OPT_RETRY_LOCK},                                           \
	{                                                                                                              \
		"json", no_argument, NULL, 'j'                                                                         \
	}
/* Of commands that only read. */
#define CLI_NO_LOCK_HELP                                                                                               \
	"      --no-lock          read a repository that cannot be written: nobody may prune it meanwhile\n"
#define CLI_NO_LOCK_LONG                                                                                               \
	{                                                                                                              \
		"no-lock", no_argument, NULL, CLI_OPT_NO_LOCK                                                          \
	}
#define CLI_FILTER_LONG                                                                                                \
	{"host", required_argument, NULL, 'H'}, {"tag", required_argument, NULL, CLI_OPT_TAG},                         \
	{                                                                                                              \
		"path", required_argument, NULL, CLI_OPT_PATH                                                          \
	}

#define CLI_FROM_LONG                                                                                                  \
	{"from-repo", required_argument, NULL, CLI_OPT_FROM_REPO},                                                     \
		{"from-password-file", required_argument, NULL, CLI_OPT_FROM_PASSWORD_FILE},                           \
		{"from-password-command", required_argument, NULL, CLI_OPT_FROM_PASSWORD_COMMAND},                     \
		{"from-key-file", required_argument, NULL, CLI_OPT_FROM_KEY_FILE},                                     \
		{"from-identity", required_argument, NULL, CLI_OPT_FROM_IDENTITY},                                     \
		{"from-site-key", required_argument, NULL, CLI_OPT_FROM_SITE_KEY},                                     \
	{                                                                                                              \
		"from-no-encryption", no_argument, NULL, CLI_OPT_FROM_NO_ENCRYPTION                                    \
	}

/* From the environment. */
void cli_repo_init(struct cli_repo *repo, const char *command);
void cli_repo_init_from(struct cli_repo *repo, const char *command);
/* Takes an option of the above: false, it is none of these. */
bool cli_repo_take(struct cli_repo *repo, int option, const char *value);
bool cli_repo_take_from(struct cli_repo *repo, int option, const char *value);
/* G4_EXIT_OK, or a status after a message. */
int cli_repo_place(const struct cli_repo *repo, struct store_place *place);
/* Opens it; G4_EXIT_OK, or a status after a message. */
int cli_repo_open(struct cli_repo *repo, struct store **out);
/* The secret that was named, or asked for on the terminal, twice when it is a new one. Holds until cli_repo_close(). */
int cli_repo_secret(struct cli_repo *repo, bool fresh, struct store_secret *secret);
void cli_repo_close(struct cli_repo *repo, struct store *s);
/* store_lock(), for which it waits as long as it was told; a shared one is not wanted with no_lock. */
int cli_repo_lock(const struct cli_repo *repo, struct store *s, bool exclusive);
/* In a child that becomes another program: signals end it, as they would without cli_repo_lock(). */
void cli_let_signals(void);
struct store_filter cli_repo_filter(const struct cli_repo *repo);
/* Prints store_message() and gives the status for the code. */
int cli_repo_failed(const struct cli_repo *repo, int code);

/* Texts, each once; zeros are none. */
struct cli_texts {
	char **texts;
	size_t count;
};
bool cli_texts_have(char *const *texts, size_t count, const char *text);
void cli_texts_add(struct cli_texts *list, const char *text);
/* "a,b" */
void cli_texts_split(struct cli_texts *list, const char *text);
void cli_texts_free(struct cli_texts *list);

bool cli_same_texts(char *const *a, size_t a_count, char *const *b, size_t b_count);
bool cli_parse_level(const char *text, int *level);

/* "latest" or "ID", or "ID:/path"; *subpath points into a copy that lives as long as the program. */
int cli_snapshot_find(const struct cli_repo *repo, struct store *s, const char *text, struct store_snapshot *snapshot,
		      const char **subpath);

/*
 * The snapshots that are named, each once, or with no names all that match; the caller frees them, after an error, too: *list is NULL or theirs.
 */
int cli_snapshots_choose(const struct cli_repo *repo, struct store *s, char **names, int count,
			 struct store_snapshot **list, size_t *found);
/* A site where this client may append only would keep each old snapshot beside a new one: removing what is not there is refused as well. */
int cli_may_remove(struct store *s);
/* Lines of a file, or with "-" of standard input, without their ends, '\n' or 0. G4_EXIT_OK or a status after a message. */
int cli_read_lines(const char *command, const char *name, char end, void (*each)(void *user, char *line), void *user);
/* folded: letters of either case are alike in them. */
int cli_read_patterns(const char *command, const char *name, struct store_excludes *excludes, bool folded);
/* "2026-01-31 12:00:00", also with a T, without seconds or time of day: local time, or with a Z behind it UTC. */
bool cli_parse_time(const char *text, struct store_time *time);
/* JSON objects. */
void cli_print_json_snapshot(const struct store_snapshot *snapshot);
void cli_print_json_node(const char *path, const struct store_node *node);
void cli_print_json_key(const struct store_key_info *key);

/* Nothing where it should be quiet. */
void cli_progress_start(const struct cli_repo *repo, struct g4_progress *progress, const char *label);
/* Names may be hostile: on a terminal, control characters become "?". */
void cli_print_name(FILE *to, const char *name);
void cli_warn(const char *command, const char *path, const char *sentence);
/* Of a snapshot with CLI_TAG_REPAIRED: a file of which bytes are lost looks like one with holes that changed while it was read. */
void cli_warn_repaired(const char *command, const struct store_snapshot *snapshot);
/* "2026-01-31 12:00:00", local time. */
const char *cli_format_time(const struct store_time *time, char text[32]);
/* "2026-01-31T12:00:00.000000000Z" with its quotes. */
void cli_print_json_time(const struct store_time *time);
void cli_print_json_text(const char *text);
/* ["a", "b"] */
void cli_print_json_texts(char *const *texts, size_t count);
/* "drwxr-xr-x" */
const char *cli_format_mode(const struct store_node *node, char text[11]);

#endif
