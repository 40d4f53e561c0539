/* SPDX-License-Identifier: Apache-2.0 */
/* shredder backup: a snapshot of directories and files, or of standard input. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "cli/repo.h"
#include "store/backup.h"

const char cli_help_backup[] =
	"[OPTION]... PATH...\n\n"
	"Saves each PATH with all that is below it. What did not change since the last snapshot of the same host and paths,\n"
	"by size, times and inode, is not read. A PATH that is a block device, or a link to one, is saved as a file with what is\n"
	"on it. Exit status 3: something could not be read; the rest is saved.\n\n" CLI_REPO_HELP
	"  -e, --exclude PATTERN  leave out what matches, as in .gitignore; \"/...\" from the root\n"
	"      --iexclude PATTERN  the same, letters of either case alike\n"
	"      --exclude-file FILE, --iexclude-file FILE  patterns, one a line\n"
	"      --exclude-if-present NAME  leave out what is in directories that hold NAME; may come several times\n"
	"      --exclude-caches   leave out what is in directories with a CACHEDIR.TAG\n"
	"      --exclude-larger-than SIZE  leave out larger files\n"
	"      --files-from FILE  paths, one a line; - is standard input\n"
	"      --files-from0 FILE  the same with zero bytes behind them, as from find -print0\n"
	"      --stdin NAME       save standard input as file NAME\n"
	"      --stdin-from-command  PATH... is a command: save what it prints; no snapshot if it fails\n"
	"  -x, --one-file-system  do not go into other file systems\n"
	"      --tag TAG,...      of the snapshot; may come several times\n"
	"  -H, --host NAME        instead of this machine's name\n"
	"      --parent ID        compare with this snapshot\n"
	"  -f, --force            read everything\n"
	"      --ignore-ctime     do not read what has another change time only\n"
	"      --ignore-inode     nor another inode, as after a restore or on network file systems\n"
	"      --with-atime       with times of last access, which make a new entry of each file that was read\n"
	"      --skip-if-unchanged  make no snapshot of what is all the same in the last one\n"
	"      --time TIME        of the snapshot, \"2026-01-31 12:00:00\" [now]\n"
	"  -l, --level N          of zstd [3]\n"
	"  -t, --threads N        that read, compress and encrypt [one a processor]\n"
	"      --engine NAME      what cuts and hashes: auto, cpu, cuda, portable, avx2 or avx512 [auto]\n"
	"      --gpus N|LIST      the first N GPUs, or those with the numbers I,J,... or I, [all]\n"
	"  -n, --dry-run          store nothing\n"
	"  -v, --verbose          tell which files are read\n"
	"      --help             show this\n";

enum {
	OPT_EXCLUDE_FILE = CLI_OPT_REPO_FREE,
	OPT_EXCLUDE_IF_PRESENT,
	OPT_IEXCLUDE_FILE,
	OPT_FILES_FROM0,
	OPT_IGNORE_CTIME,
	OPT_IGNORE_INODE,
	OPT_IEXCLUDE,
	OPT_EXCLUDE_CACHES,
	OPT_EXCLUDE_LARGER,
	OPT_FILES_FROM,
	OPT_STDIN,
	OPT_STDIN_COMMAND,
	OPT_SKIP,
	OPT_ATIME,
	OPT_TIME,
	OPT_PARENT,
	OPT_ENGINE,
	OPT_GPUS
};

#define RESUME_PATH_BYTES 4000
/* Smaller files are read again. */
#define RESUME_BYTES (256 * G4_MIB)

struct backup {
	struct cli_repo repo;
	struct store_backup_options options;
	struct store_excludes excludes;
	struct cli_settings settings; /* engine and GPUs of them */
	const char *parent, *present[CLI_LIST_MAX];
	bool force;
	char host[65];
	struct cli_texts tags;
	char **paths;
	size_t paths_count;
	struct store_time time;
	bool runs; /* paths are a command */
	pid_t command;
	struct g4_progress progress;
};

static void add_path(struct backup *b, const char *path)
{
	b->paths = (char **)store_realloc(b->paths, (b->paths_count + 1) * sizeof(*b->paths));
	b->paths[b->paths_count++] = store_strdup(path);
}

static void take_line(void *user, char *line)
{
	if (line[0] != 0)
		add_path((struct backup *)user, line);
}

/* One of the CPU's is tried, since not every processor has each. */
static int take_engine(struct backup *b, const char *name)
{
	const struct shredder_options options = {.size = sizeof(options), .engine = name, .threads = 1};
	shredder *tried;
	int rc;

	b->options.engine = name;
	if (strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0)
		return G4_EXIT_OK;
	rc = shredder_open(&options, &tried);
	if (rc != 0)
		return cli_open_failed("backup", name, rc);
	shredder_close(tried);
	return G4_EXIT_OK;
}

/* Which GPUs do not work, where some were asked for or are there. */
static void tell_gpus(const struct backup *b, const struct shredder_service_state *gpus)
{
	const bool asked =
		b->options.gpus_count > 0 || (b->options.engine != NULL && strcmp(b->options.engine, "auto") != 0);

	if (gpus->trouble[0] != 0 && (asked || gpus->gpus > 0))
		g4_cli_error("backup", gpus->works == 0 ? "using the CPU: %s" : "using fewer GPUs: %s", gpus->trouble);
}

static int take(struct backup *b, int option, char **argv)
{
	uint64_t number;

	switch (option) {
	case 'e':
		store_exclude_add_typed(&b->excludes, optarg, false);
		return G4_EXIT_OK;
	case OPT_IEXCLUDE:
		store_exclude_add_typed(&b->excludes, optarg, true);
		return G4_EXIT_OK;
	case OPT_EXCLUDE_CACHES:
		b->options.exclude_caches = true;
		return G4_EXIT_OK;
	case OPT_EXCLUDE_LARGER:
		return g4_parse_size(optarg, &b->options.largest_bytes) == 0 && b->options.largest_bytes > 0 ?
			       G4_EXIT_OK :
			       g4_cli_usage("backup", "'%s' is no size", optarg);
	case OPT_EXCLUDE_FILE:
		return cli_read_patterns("backup", optarg, &b->excludes, false);
	case OPT_IEXCLUDE_FILE:
		return cli_read_patterns("backup", optarg, &b->excludes, true);
	case OPT_FILES_FROM:
		return cli_read_lines("backup", optarg, '\n', take_line, b);
	case OPT_FILES_FROM0:
		return cli_read_lines("backup", optarg, 0, take_line, b);
	case OPT_IGNORE_INODE:
		b->options.ignore_inode = true;
		b->options.ignore_ctime = true; /* another inode has another one */
		return G4_EXIT_OK;
	case OPT_IGNORE_CTIME:
		b->options.ignore_ctime = true;
		return G4_EXIT_OK;
	case OPT_EXCLUDE_IF_PRESENT:
		if (b->options.exclude_if_present_count == CLI_LIST_MAX)
			return g4_cli_usage("backup", "more than %d times --exclude-if-present", CLI_LIST_MAX);
		b->present[b->options.exclude_if_present_count++] = optarg;
		return G4_EXIT_OK;
	case OPT_STDIN:
		if (optarg[0] == 0 || strchr(optarg, '/') != NULL || strcmp(optarg, ".") == 0 ||
		    strcmp(optarg, "..") == 0 || strlen(optarg) > STORE_NAME_MAX)
			return g4_cli_usage("backup", "'%s' is no name of a file", optarg);
		b->options.stdin_name = optarg;
		return G4_EXIT_OK;
	case OPT_STDIN_COMMAND:
		b->runs = true;
		return G4_EXIT_OK;
	case OPT_SKIP:
		b->options.skip_unchanged = true;
		return G4_EXIT_OK;
	case OPT_ATIME:
		b->options.with_atime = true;
		return G4_EXIT_OK;
	case OPT_TIME:
		b->options.time = &b->time;
		return cli_parse_time(optarg, &b->time) ?
			       G4_EXIT_OK :
			       g4_cli_usage("backup", "'%s' is no time like 2026-01-31 12:00:00", optarg);
	case OPT_PARENT:
		b->parent = optarg;
		return G4_EXIT_OK;
	case OPT_ENGINE:
		return take_engine(b, optarg);
	case OPT_GPUS:
		return cli_settings_take(&b->settings, "backup", CLI_OPT_GPUS, optarg) == 1 ? G4_EXIT_OK :
											      G4_EXIT_USAGE;
	case 'x':
		b->options.one_file_system = true;
		return G4_EXIT_OK;
	case 'f':
		b->force = true;
		return G4_EXIT_OK;
	case 'n':
		b->options.dry_run = true;
		return G4_EXIT_OK;
	case 'v':
		b->options.tell_files = true;
		return G4_EXIT_OK;
	case 'l':
		return cli_parse_level(optarg, &b->options.level) ?
			       G4_EXIT_OK :
			       g4_cli_usage("backup", "'%s' is no level: -100 to 22", optarg);
	case 't':
		if (!cli_parse_number(optarg, CLI_THREADS_MAX, &number) || number == 0)
			return g4_cli_usage("backup", "'%s' is no number of threads", optarg);
		b->options.threads = (uint32_t)number;
		return G4_EXIT_OK;
	default:
		return g4_cli_bad_option("backup", option, argv);
	}
}

static void tell(void *user, enum store_note note, const char *path, const char *sentence)
{
	struct backup *b = (struct backup *)user;

	g4_progress_clear(&b->progress);
	if (note != STORE_NOTE_FILE) {
		cli_warn("backup", path, sentence);
	} else if (!b->repo.json) {
		cli_print_name(stdout, path);
		putchar('\n');
	}
}

static void show_progress(void *user, const struct store_backup_stats *stats)
{
	struct backup *b = (struct backup *)user;

	char bytes[G4_SIZE_TEXT_BYTES], text[96];

	if (stats->expected_bytes > 0) {
		g4_progress_step(&b->progress, g4_min64(stats->done_bytes, stats->expected_bytes),
				 stats->expected_bytes);
		return;
	}
	snprintf(text, sizeof(text), "%llu %s, %s", (unsigned long long)stats->files,
		 g4_counted(stats->files, "file", "files"), g4_format_size(stats->done_bytes, bytes, sizeof(bytes)));
	g4_progress_text(&b->progress, text);
}

static void print_summary(const struct backup *b, const struct store_snapshot *snapshot,
			  const struct store_backup_stats *stats, double seconds)
{
	char hex[STORE_HEX_BYTES], bytes[G4_SIZE_TEXT_BYTES], fresh[G4_SIZE_TEXT_BYTES], stored[G4_SIZE_TEXT_BYTES];

	store_hex(&snapshot->name, hex);
	if (b->repo.json) {
		printf("{\"snapshot\": ");
		if (b->options.dry_run || stats->skipped)
			fputs("null", stdout);
		else
			printf("\"%s\"", hex);
		printf(", \"parent\": ");
		if (snapshot->has_parent)
			printf("\"%s\"", store_hex(&snapshot->parent, hex));
		else
			fputs("null", stdout);
		printf(", \"files\": %llu, \"directories\": %llu, \"others\": %llu, \"bytes\": %llu, \"unchanged_files\": %llu, "
		       "\"read_bytes\": %llu, \"resumed_bytes\": %llu, \"new_blobs\": %llu, \"new_bytes\": %llu, \"stored_bytes\": %llu, "
		       "\"written_bytes\": %llu, \"unread\": %llu, \"changed\": %llu, \"gpu_bytes\": %llu, \"seconds\": %.3f}\n",
		       (unsigned long long)stats->files, (unsigned long long)stats->directories,
		       (unsigned long long)stats->others, (unsigned long long)stats->bytes,
		       (unsigned long long)stats->unchanged_files, (unsigned long long)stats->read_bytes,
		       (unsigned long long)stats->resumed_bytes, (unsigned long long)stats->new_blobs,
		       (unsigned long long)stats->new_bytes, (unsigned long long)stats->stored_bytes,
		       (unsigned long long)stats->written_bytes, (unsigned long long)stats->unread,
		       (unsigned long long)stats->changed, (unsigned long long)stats->gpus.bytes, seconds);
		return;
	}
	if (b->repo.quiet)
		return;
	printf("%llu %s, %llu %s, %llu others, %s; %llu %s read\n", (unsigned long long)stats->files,
	       g4_counted(stats->files, "file", "files"), (unsigned long long)stats->directories,
	       g4_counted(stats->directories, "directory", "directories"), (unsigned long long)stats->others,
	       g4_format_size(stats->bytes, bytes, sizeof(bytes)),
	       (unsigned long long)(stats->files - stats->unchanged_files),
	       g4_counted(stats->files - stats->unchanged_files, "file", "files"));
	printf("new: %s, stored as %s, in %.1f s\n", g4_format_size(stats->new_bytes, fresh, sizeof(fresh)),
	       g4_format_size(stats->stored_bytes, stored, sizeof(stored)), seconds);
	if (stats->resumed_bytes > 0)
		printf("%s had been read by a backup that was cut off\n",
		       g4_format_size(stats->resumed_bytes, fresh, sizeof(fresh)));
	if (stats->unread > 0)
		printf("NOT SAVED: %llu %s could not be read\n", (unsigned long long)stats->unread,
		       g4_counted(stats->unread, "file or directory", "files or directories"));
	if (stats->skipped)
		puts("nothing has changed: no snapshot");
	else if (!b->options.dry_run)
		printf("snapshot %.16s\n", hex);
}

/* The newest snapshot of this host and exactly these paths, or the one that was named. 1: there is one. */
static int find_parent(struct backup *b, struct store *s, struct store_snapshot *parent)
{
	struct store_filter filter = {.host = b->options.host};
	char *absolute[CLI_LIST_MAX];
	size_t count, n = 0;
	struct store_snapshot *list;
	int found = 0;

	if (b->force || b->options.stdin_name != NULL)
		return 0;
	if (b->parent != NULL) {
		const struct store_filter any = {0};
		const int rc = store_snapshot_find(s, b->parent, &any, parent);

		return rc == 0 ? 1 : rc;
	}
	for (; n < b->paths_count && n < CLI_LIST_MAX; n++)
		if ((absolute[n] = store_absolute(b->paths[n])) == NULL)
			break;
	filter.paths = (const char *const *)absolute;
	filter.paths_count = n;
	int rc = store_snapshots(s, &filter, &list, &count);
	for (size_t i = count; rc == 0 && i-- > 0 && found == 0;)
		if (list[i].paths_count == b->paths_count) {
			*parent = list[i];
			memset(&list[i], 0, sizeof(list[i]));
			found = 1;
		}
	store_snapshots_free(list, count);
	for (size_t i = 0; i < n; i++)
		free(absolute[i]);
	return rc == 0 ? found : rc;
}

/* Where notes about large files go; "" when nobody says where this user's state belongs. */
static void find_resume_folder(char folder[RESUME_PATH_BYTES])
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int bytes = -1;

	if (state != NULL && state[0] == '/')
		bytes = snprintf(folder, RESUME_PATH_BYTES, "%s/shredder", state);
	else if (home != NULL && home[0] == '/')
		bytes = snprintf(folder, RESUME_PATH_BYTES, "%s/.local/state/shredder", home);
	if (bytes < 0 || bytes >= RESUME_PATH_BYTES)
		folder[0] = 0;
}

/* ---- a command whose output is saved */

/* It becomes standard input; a command that cannot be run is one that fails. */
static int start_command(struct backup *b)
{
	int ends[2];

	b->paths = (char **)store_realloc(b->paths, (b->paths_count + 1) * sizeof(*b->paths));
	b->paths[b->paths_count] = NULL;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return store_fail(STORE_E_IO, "cannot run %s: %s", b->paths[0], strerror(errno));
	b->command = fork();
	if (b->command == 0) {
		const int nothing = open("/dev/null", O_RDONLY);

		cli_let_signals();
		if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0)
			execvp(b->paths[0], b->paths);
		g4_cli_error("backup", "cannot run %s: %s", b->paths[0], strerror(errno));
		_exit(127);
	}
	const bool ready = b->command > 0 && dup2(ends[0], STDIN_FILENO) >= 0;
	const int error = errno;
	close(ends[0]);
	close(ends[1]);
	return ready ? 0 : store_fail(STORE_E_IO, "cannot run %s: %s", b->paths[0], strerror(error));
}

/* Its output has ended: what it printed is whole when it says so. */
static int command_ended(void *user)
{
	struct backup *b = (struct backup *)user;
	const pid_t command = b->command;
	int status = 0;

	if (command <= 0)
		return 0;
	b->command = 0;
	while (waitpid(command, &status, 0) < 0)
		if (errno != EINTR)
			return store_fail(STORE_E_IO, "cannot wait for %s: %s", b->paths[0], strerror(errno));
	if (WIFSIGNALED(status))
		return store_fail(STORE_E_IO, "%s was ended by signal %d: there is no snapshot", b->paths[0],
				  WTERMSIG(status));
	return WEXITSTATUS(status) == 0 ? 0 :
					  store_fail(STORE_E_IO, "%s failed with status %d: there is no snapshot",
						     b->paths[0], WEXITSTATUS(status));
}

/* After a failure nobody reads what it prints any more. It may end well by the first signal; the second one it cannot refuse. */
static void drop_command(struct backup *b)
{
	const struct timespec moment = {.tv_nsec = 50000000};

	if (b->command <= 0)
		return;
	close(STDIN_FILENO);
	kill(b->command, SIGTERM);
	for (int i = 0; i < 40; i++) {
		if (waitpid(b->command, NULL, WNOHANG) != 0) {
			b->command = 0;
			return;
		}
		nanosleep(&moment, NULL);
	}
	kill(b->command, SIGKILL);
	waitpid(b->command, NULL, 0);
	b->command = 0;
}

static int run(struct backup *b, struct store *s)
{
	const uint64_t began = g4_clock_ns(CLOCK_MONOTONIC);
	struct store_snapshot snapshot = {0}, parent = {0};
	struct store_backup_stats stats = {0};
	char resume[RESUME_PATH_BYTES];
	int rc = cli_repo_lock(&b->repo, s, false);

	if (!b->options.dry_run) {
		find_resume_folder(resume);
		b->options.resume_folder = resume[0] != 0 ? resume : NULL;
		b->options.resume_bytes = RESUME_BYTES;
	}

	if (rc == 0)
		rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = find_parent(b, s, &parent);
	if (rc == 1)
		b->options.parent = &parent;
	if (rc >= 0 && b->runs)
		rc = start_command(b);
	if (rc >= 0) {
		cli_progress_start(&b->repo, &b->progress, "saving");
		if (!g4_progress_wanted(&b->progress))
			b->options.progress = NULL;
		rc = store_backup(s, &b->options, &snapshot, &stats);
	}
	drop_command(b);
	g4_progress_clear(&b->progress);
	tell_gpus(b, &stats.gpus);
	int status = G4_EXIT_OK;
	if (rc != 0)
		status = cli_repo_failed(&b->repo, rc);
	else
		print_summary(b, &snapshot, &stats, (double)(g4_clock_ns(CLOCK_MONOTONIC) - began) / 1e9);
	if (rc == 0 && stats.unread > 0)
		status = CLI_EXIT_UNREAD;
	store_snapshot_free(&snapshot);
	store_snapshot_free(&parent);
	return g4_cli_finish_output("backup", status);
}

/* A backup of nothing is a mistake, and an empty snapshot would push others out of a policy. */
static bool something_there(const struct backup *b)
{
	struct stat st;

	for (size_t i = 0; i < b->paths_count; i++)
		if (lstat(b->paths[i], &st) == 0)
			return true;
	return b->options.stdin_name != NULL;
}

int cli_backup(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_REPO_LONG,
		{"exclude", required_argument, NULL, 'e'},
		{"exclude-file", required_argument, NULL, OPT_EXCLUDE_FILE},
		{"iexclude-file", required_argument, NULL, OPT_IEXCLUDE_FILE},
		{"exclude-if-present", required_argument, NULL, OPT_EXCLUDE_IF_PRESENT},
		{"iexclude", required_argument, NULL, OPT_IEXCLUDE},
		{"exclude-caches", no_argument, NULL, OPT_EXCLUDE_CACHES},
		{"exclude-larger-than", required_argument, NULL, OPT_EXCLUDE_LARGER},
		{"files-from", required_argument, NULL, OPT_FILES_FROM},
		{"files-from0", required_argument, NULL, OPT_FILES_FROM0},
		{"stdin", required_argument, NULL, OPT_STDIN},
		{"stdin-from-command", no_argument, NULL, OPT_STDIN_COMMAND},
		{"skip-if-unchanged", no_argument, NULL, OPT_SKIP},
		{"with-atime", no_argument, NULL, OPT_ATIME},
		{"time", required_argument, NULL, OPT_TIME},
		{"one-file-system", no_argument, NULL, 'x'},
		{"tag", required_argument, NULL, CLI_OPT_TAG},
		{"host", required_argument, NULL, 'H'},
		{"parent", required_argument, NULL, OPT_PARENT},
		{"force", no_argument, NULL, 'f'},
		{"ignore-ctime", no_argument, NULL, OPT_IGNORE_CTIME},
		{"ignore-inode", no_argument, NULL, OPT_IGNORE_INODE},
		{"level", required_argument, NULL, 'l'},
		{"threads", required_argument, NULL, 't'},
		{"engine", required_argument, NULL, OPT_ENGINE},
		{"gpus", required_argument, NULL, OPT_GPUS},
		{"dry-run", no_argument, NULL, 'n'},
		{"verbose", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0}};
	struct backup b = {.options = {.level = CLI_LEVEL}};
	struct store *s;
	int option, status = G4_EXIT_OK;

	cli_repo_init(&b.repo, "backup");
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT "e:xH:fl:t:nv", long_options, NULL)) != -1)
		if (!cli_repo_take(&b.repo, option, optarg))
			status = take(&b, option, argv);
	if (status == G4_EXIT_OK && b.runs && b.paths_count > 0)
		status = g4_cli_usage("backup", "--stdin-from-command takes a command, and no --files-from");
	for (int i = optind; status == G4_EXIT_OK && i < argc; i++)
		add_path(&b, argv[i]);
	if (status == G4_EXIT_OK && b.runs && (b.options.stdin_name == NULL || b.paths_count == 0)) {
		status = g4_cli_usage("backup", "--stdin-from-command takes --stdin NAME, and a command");
	} else if (status == G4_EXIT_OK && !b.runs && (b.paths_count == 0) == (b.options.stdin_name == NULL)) {
		status = g4_cli_usage("backup", b.paths_count == 0 ? "it takes paths, or --stdin NAME" :
								     "it takes paths or --stdin, not both");
	} else if (status == G4_EXIT_OK && !something_there(&b)) {
		g4_cli_error("backup", "nothing of what should be saved is there");
		status = G4_EXIT_FAILURE;
	}
	store_host(b.host);
	b.options.gpus = b.settings.options.gpus;
	b.options.gpus_count = b.settings.options.gpus_count;
	b.options.host = b.repo.host != NULL ? b.repo.host : b.host;
	for (size_t i = 0; i < b.repo.tags_count && i < CLI_LIST_MAX; i++)
		cli_texts_split(&b.tags, b.repo.tags[i]);
	b.options.tags = b.tags.texts;
	b.options.tags_count = b.tags.count;
	b.options.paths = (const char *const *)b.paths;
	b.options.paths_count = b.paths_count;
	b.options.excludes = &b.excludes;
	b.options.exclude_if_present = b.present;
	b.options.was_read = command_ended;
	b.options.note = tell;
	b.options.progress = show_progress;
	b.options.user = &b;
	if (status == G4_EXIT_OK && (status = cli_repo_open(&b.repo, &s)) == G4_EXIT_OK) {
		status = run(&b, s);
		cli_repo_close(&b.repo, s);
	}
	store_excludes_free(&b.excludes);
	cli_texts_free(&b.tags);
	for (size_t i = 0; i < b.paths_count; i++)
		free(b.paths[i]);
	free(b.paths);
	return status;
}
