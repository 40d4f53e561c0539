/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "cli/repo.h"
#include "store/backend.h"
#include "store/crypto.h"
#include "store/mend.h"

#define PASSWORD_MAX 4096
#define KEY_FILE_MAX (1024 * 1024)
/* Between two looks for a lock: the first pause, which doubles, and the longest. */
#define LOCK_PAUSE_NS UINT64_C(100000000)
#define LOCK_PAUSE_MAX_NS UINT64_C(10000000000)
/* A signal that comes earlier behind another one is the same. */
#define SECOND_SIGNAL_NS UINT64_C(1000000000)
#define WAIT_SECONDS_MAX (UINT64_C(366) * 86400)

static const char *from_environment(const char *prefix, const char *name)
{
	char variable[64];

	snprintf(variable, sizeof(variable), "%s%s", prefix, name);
	const char *value = getenv(variable);
	return value != NULL && value[0] != 0 ? value : NULL;
}

static void init(struct cli_repo *repo, const char *command, const char *prefix)
{
	memset(repo, 0, sizeof(*repo));
	repo->command = command;
	repo->path = from_environment(prefix, "REPOSITORY");
	repo->password_file = from_environment(prefix, "PASSWORD_FILE");
	repo->password_command = from_environment(prefix, "PASSWORD_COMMAND");
	repo->key_file = from_environment(prefix, "KEY_FILE");
	repo->identity = from_environment(prefix, "IDENTITY");
	repo->site_key = from_environment(prefix, "SITE_KEY");
}

void cli_repo_init(struct cli_repo *repo, const char *command)
{
	init(repo, command, "SHREDDER_");
	repo->password_variable = "SHREDDER_PASSWORD";
	repo->prompt = "password: ";
	repo->ways = "--password-file, --password-command or --key-file, or set SHREDDER_PASSWORD";
}

void cli_repo_init_from(struct cli_repo *repo, const char *command)
{
	init(repo, command, "SHREDDER_FROM_");
	repo->password_variable = "SHREDDER_FROM_PASSWORD";
	repo->prompt = "password of the source: ";
	repo->ways = "--from-password-file, --from-password-command or --from-key-file, or set SHREDDER_FROM_PASSWORD";
}

/* One that there is no room for is counted: cli_repo_open() says so. */
static void add_to_list(const char **list, size_t *count, const char *value)
{
	if (*count < CLI_LIST_MAX)
		list[*count] = value;
	(*count)++;
}

bool cli_repo_take(struct cli_repo *repo, int option, const char *value)
{
	switch (option) {
	case 'r':
		repo->path = value;
		return true;
	case 'p':
		repo->password_file = value;
		return true;
	case 'k':
		repo->key_file = value;
		return true;
	case 'j':
		repo->json = true;
		return true;
	case 'q':
		repo->quiet = true;
		return true;
	case CLI_OPT_PASSWORD_COMMAND:
		repo->password_command = value;
		return true;
	case CLI_OPT_NO_ENCRYPTION:
		repo->plain = true;
		return true;
	case CLI_OPT_IDENTITY:
		repo->identity = value;
		return true;
	case CLI_OPT_LIMIT_UPLOAD:
		repo->upload_limit = value;
		return true;
	case CLI_OPT_LIMIT_DOWNLOAD:
		repo->download_limit = value;
		return true;
	case CLI_OPT_RETRY_LOCK:
		repo->retry_lock = value;
		return true;
	case CLI_OPT_NO_LOCK:
		repo->no_lock = true;
		return true;
	case CLI_OPT_SITE_KEY:
		repo->site_key = value;
		return true;
	case 'H':
		repo->host = value;
		return true;
	case CLI_OPT_TAG:
		add_to_list(repo->tags, &repo->tags_count, value);
		return true;
	case CLI_OPT_PATH:
		add_to_list(repo->paths, &repo->paths_count, value);
		return true;
	default:
		return false;
	}
}

bool cli_repo_take_from(struct cli_repo *repo, int option, const char *value)
{
	switch (option) {
	case CLI_OPT_FROM_REPO:
		return cli_repo_take(repo, 'r', value);
	case CLI_OPT_FROM_PASSWORD_FILE:
		return cli_repo_take(repo, 'p', value);
	case CLI_OPT_FROM_PASSWORD_COMMAND:
		return cli_repo_take(repo, CLI_OPT_PASSWORD_COMMAND, value);
	case CLI_OPT_FROM_KEY_FILE:
		return cli_repo_take(repo, 'k', value);
	case CLI_OPT_FROM_IDENTITY:
		return cli_repo_take(repo, CLI_OPT_IDENTITY, value);
	case CLI_OPT_FROM_SITE_KEY:
		return cli_repo_take(repo, CLI_OPT_SITE_KEY, value);
	case CLI_OPT_FROM_NO_ENCRYPTION:
		return cli_repo_take(repo, CLI_OPT_NO_ENCRYPTION, value);
	default:
		return false;
	}
}

bool cli_texts_have(char *const *texts, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(texts[i], text) == 0)
			return true;
	return false;
}

void cli_texts_add(struct cli_texts *list, const char *text)
{
	if (cli_texts_have(list->texts, list->count, text))
		return;
	list->texts = (char **)store_realloc(list->texts, (list->count + 1) * sizeof(*list->texts));
	list->texts[list->count++] = store_strdup(text);
}

void cli_texts_split(struct cli_texts *list, const char *text)
{
	char *copy = store_strdup(text), *save = NULL;

	for (const char *one = strtok_r(copy, ",", &save); one != NULL; one = strtok_r(NULL, ",", &save))
		cli_texts_add(list, one);
	free(copy);
}

void cli_texts_free(struct cli_texts *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->texts[i]);
	free(list->texts);
}

bool cli_same_texts(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

bool cli_parse_level(const char *text, int *level)
{
	char *end;
	const long value = strtol(text, &end, 10);

	*level = (int)value;
	return *end == 0 && end != text && value >= -100 && value <= 22;
}

struct store_filter cli_repo_filter(const struct cli_repo *repo)
{
	return (struct store_filter){.host = repo->host,
				     .tags = repo->tags,
				     .tags_count = repo->tags_count,
				     .paths = repo->paths,
				     .paths_count = repo->paths_count};
}

int cli_repo_failed(const struct cli_repo *repo, int code)
{
	g4_cli_error(repo->command, "%s", store_message());
	switch (code) {
	case STORE_E_NO_STORE:
		return CLI_EXIT_NO_STORE;
	case STORE_E_LOCKED:
		return CLI_EXIT_LOCKED;
	case STORE_E_PASSWORD:
		return CLI_EXIT_PASSWORD;
	default:
		return G4_EXIT_FAILURE;
	}
}

/* ------------------------------------------------------------------------------------------------------ passwords */

static int read_file(const char *path, size_t max, struct store_buf *out)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;

	out->size = 0;
	if (fd < 0)
		return store_fail(STORE_E_PASSWORD, "cannot read %s: %s", path, strerror(errno));
	do {
		uint8_t *to = store_buf_reserve(out, 4096);

		got = read(fd, to, 4096);
		if (got < 0 && errno == EINTR)
			continue;
		out->size += got > 0 ? (size_t)got : 0;
	} while (got > 0 && out->size <= max);
	const int error = errno;
	close(fd);
	if (got < 0)
		return store_fail(STORE_E_PASSWORD, "cannot read %s: %s", path, strerror(error));
	if (out->size > max)
		return store_fail(STORE_E_PASSWORD, "%s is too large to be what it should be", path);
	return 0;
}

static char *first_line(const struct store_buf *text)
{
	char *line = (char *)store_alloc(text->size + 1);

	memcpy(line, text->data, text->size);
	line[strcspn(line, "\r\n")] = 0;
	return line;
}

static int ask_command(const char *command, char **password)
{
	char text[PASSWORD_MAX];
	FILE *pipe = popen(command, "re");

	if (pipe == NULL)
		return store_fail(STORE_E_PASSWORD, "cannot run '%s': %s", command, strerror(errno));
	const size_t bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = 0;
	if (pclose(pipe) != 0)
		return store_fail(STORE_E_PASSWORD, "the password command failed: %s", command);
	text[strcspn(text, "\r\n")] = 0;
	*password = store_strdup(text);
	store_wipe(text, sizeof(text));
	return 0;
}

/* A terminal that shows nothing while a password is typed: whoever ends the process makes it show again. */
static struct {
	atomic_bool silent;
	int fd;
	struct termios old;
} prompt_terminal;

static void show_terminal(void)
{
	if (atomic_exchange(&prompt_terminal.silent, false))
		tcsetattr(prompt_terminal.fd, TCSAFLUSH, &prompt_terminal.old);
}

/* Its action is the default one again (SA_RESETHAND), when this returns. */
static void end_prompt(int number)
{
	show_terminal();
	raise(number);
}

/* The line that is typed, and false at the end of file. Signals that the watcher (below) takes are its matter. */
static bool read_silently(FILE *terminal, char text[PASSWORD_MAX])
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction before[sizeof(numbers) / sizeof(numbers[0])], action = {.sa_handler = end_prompt};
	struct termios silent = prompt_terminal.old;

	sigemptyset(&action.sa_mask);
	action.sa_flags = (int)SA_RESETHAND;
	silent.c_lflag &= ~(tcflag_t)ECHO;
	prompt_terminal.fd = fileno(terminal);
	atomic_store(&prompt_terminal.silent, true);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
	tcsetattr(prompt_terminal.fd, TCSAFLUSH, &silent);
	const bool got = fgets(text, PASSWORD_MAX, terminal) != NULL;
	show_terminal();
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &before[i], NULL);
	return got;
}

static int ask_terminal(const char *prompt, const char *ways, char **password)
{
	char text[PASSWORD_MAX];
	FILE *terminal = fopen("/dev/tty", "r+e");

	if (terminal == NULL || tcgetattr(fileno(terminal), &prompt_terminal.old) != 0) {
		if (terminal != NULL)
			fclose(terminal);
		return store_fail(STORE_E_PASSWORD, "there is no terminal to ask for the password; say %s", ways);
	}
	fputs(prompt, terminal);
	fflush(terminal);
	const bool got = read_silently(terminal, text);
	fputs("\n", terminal);
	fclose(terminal);
	if (!got)
		return store_fail(STORE_E_PASSWORD, "no password was given");
	text[strcspn(text, "\r\n")] = 0;
	*password = store_strdup(text);
	store_wipe(text, sizeof(text));
	return 0;
}

static int ask_twice(const char *ways, char **password)
{
	char *again = NULL;
	int rc = ask_terminal("new password: ", ways, password);

	if (rc == 0)
		rc = ask_terminal("once more: ", ways, &again);
	if (rc == 0 && strcmp(*password, again) != 0)
		rc = store_fail(STORE_E_PASSWORD, "these were two different passwords");
	free(again);
	return rc;
}

static int secret_of(struct cli_repo *repo, bool fresh, struct store_secret *secret)
{
	const char *direct = repo->password_variable == NULL ? NULL : from_environment("", repo->password_variable);
	struct store_buf text = {0};
	int rc = 0;

	memset(secret, 0, sizeof(*secret));
	if (repo->key_file != NULL) {
		rc = read_file(repo->key_file, KEY_FILE_MAX, &repo->key);
		secret->key = repo->key.data;
		secret->key_bytes = repo->key.size;
		if (rc == 0 && repo->key.size < 32)
			rc = store_fail(STORE_E_PASSWORD, "%s is no key file: it has fewer than 32 bytes",
					repo->key_file);
		return rc;
	}
	if (repo->password_file != NULL) {
		rc = read_file(repo->password_file, PASSWORD_MAX, &text);
		if (rc == 0)
			repo->password = first_line(&text);
		store_buf_free(&text);
	} else if (repo->password_command != NULL) {
		rc = ask_command(repo->password_command, &repo->password);
	} else if (direct != NULL) {
		repo->password = store_strdup(direct);
	} else {
		rc = fresh ? ask_twice(repo->ways, &repo->password) :
			     ask_terminal(repo->prompt, repo->ways, &repo->password);
	}
	if (rc == 0 && repo->password[0] == 0)
		rc = store_fail(STORE_E_PASSWORD, "an empty password is none; without encryption, say --no-encryption");
	secret->password = repo->password;
	return rc;
}

int cli_repo_secret(struct cli_repo *repo, bool fresh, struct store_secret *secret)
{
	const int rc = secret_of(repo, fresh, secret);

	if (rc == 0)
		return G4_EXIT_OK;
	cli_repo_close(repo, NULL);
	return cli_repo_failed(repo, rc);
}

static int ask(void *user, struct store_secret *secret)
{
	return secret_of((struct cli_repo *)user, false, secret);
}

static int parse_limit(const struct cli_repo *repo, const char *text, uint64_t *limit)
{
	*limit = 0;
	if (text == NULL || (g4_parse_size(text, limit) == 0 && *limit >= STORE_LIMIT_MIN))
		return G4_EXIT_OK;
	return g4_cli_usage(repo->command, "'%s' is no limit: a size, 16K at least", text);
}

/* "90s", "5m", "1h30m". */
static bool parse_wait(const char *text, uint64_t *ns)
{
	static const char units[] = "smhd";
	static const uint64_t worth[] = {1, 60, 3600, 86400};
	uint64_t seconds = 0;

	do {
		char *end = NULL;
		const unsigned long number = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;
		const char *unit = number > 100000 || *end == 0 ? NULL : strchr(units, *end);

		if (unit == NULL)
			return false;
		seconds += number * worth[unit - units];
		text = end + 1;
	} while (*text != 0 && seconds <= WAIT_SECONDS_MAX);
	*ns = seconds * UINT64_C(1000000000);
	return seconds <= WAIT_SECONDS_MAX;
}

int cli_repo_place(const struct cli_repo *repo, struct store_place *place)
{
	int status;

	*place = (struct store_place){.path = repo->path, .identity = repo->identity, .site_key = repo->site_key};
	status = parse_limit(repo, repo->upload_limit, &place->upload_limit);
	return status != G4_EXIT_OK ? status : parse_limit(repo, repo->download_limit, &place->download_limit);
}

int cli_repo_open(struct cli_repo *repo, struct store **out)
{
	if (repo->path == NULL)
		return g4_cli_usage(repo->command, "which repository? Say --repo or set SHREDDER_REPOSITORY");
	if (repo->tags_count > CLI_LIST_MAX || repo->paths_count > CLI_LIST_MAX)
		return g4_cli_usage(repo->command, "more than %d times --tag or --path", CLI_LIST_MAX);
	if (repo->retry_lock != NULL && !parse_wait(repo->retry_lock, &repo->wait_ns))
		return g4_cli_usage(repo->command, "'%s' is no time as in 30s, 5m or 1h30m", repo->retry_lock);
	struct store_place place;
	const int status = cli_repo_place(repo, &place);
	if (status != G4_EXIT_OK)
		return status;
	const int rc = store_open(&place, repo->plain ? NULL : ask, repo, out);
	if (rc == 0)
		return G4_EXIT_OK;
	cli_repo_close(repo, NULL);
	return cli_repo_failed(repo, rc);
}

static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN;
}

/* What ends a process that works. One that it ignores (nohup) does not, though who waits for it would get it. */
static sigset_t ending_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!is_ignored(numbers[i]))
			sigaddset(&set, numbers[i]);
	return set;
}

static pthread_t watcher;

/* It is the thread's that has written where nobody reads. The watcher ends the process; until then that write has failed. */
static void pass_on(int number)
{
	pthread_kill(watcher, number);
}

/* As if nobody had waited for the signal. */
static void end_by(int number)
{
	sigset_t set;

	show_terminal();
	if (number == SIGPIPE)
		signal(SIGPIPE, SIG_DFL);
	sigemptyset(&set); /* no other one: SIGPIPE would be passed on to the watcher, again and again */
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	_exit(128 + number); /* what is a container's first process is not ended by that */
}

/* Giving locks back to a site may take minutes; whoever says once more that the process should end has waited enough, and the lock stays. */
static void *wait_for_second(void *user)
{
	const sigset_t set = ending_signals();
	const uint64_t first = g4_clock_ns(CLOCK_MONOTONIC);
	int number;

	(void)user;
	for (;;) /* terminals, timeout(1) and the like send one twice, at once */
		if (sigwait(&set, &number) == 0 && g4_clock_ns(CLOCK_MONOTONIC) - first >= SECOND_SIGNAL_NS)
			end_by(number);
	return NULL;
}

static void *wait_for_end(void *user)
{
	sigset_t set = ending_signals();
	pthread_t impatient;
	int number;

	(void)user;
	sigaddset(&set, SIGPIPE); /* blocked here, so that it waits for sigwait() */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	while (sigwait(&set, &number) != 0)
		;
	if (pthread_create(&impatient, NULL, wait_for_second, NULL) == 0)
		pthread_detach(impatient);
	store_locks_end();
	end_by(number);
	return NULL;
}

/* Once: a thread that gives back what is locked when a signal ends the process. Threads that come later leave signals to it. */
static void watch_signals(void)
{
	static bool watched;
	const sigset_t set = ending_signals();
	struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};

	if (watched)
		return;
	watched = true;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&watcher, NULL, wait_for_end, NULL) != 0) {
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		return;
	}
	pthread_detach(watcher);
	sigemptyset(&action.sa_mask);
	if (!is_ignored(SIGPIPE))
		sigaction(SIGPIPE, &action, NULL);
}

void cli_let_signals(void)
{
	const sigset_t set = ending_signals();

	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int cli_repo_lock(const struct cli_repo *repo, struct store *s, bool exclusive)
{
	const uint64_t until = g4_clock_ns(CLOCK_MONOTONIC) + repo->wait_ns;
	uint64_t pause = LOCK_PAUSE_NS;
	bool told = false;

	if (repo->no_lock && !exclusive)
		return 0;
	watch_signals();
	for (;;) {
		const int rc = store_lock(s, exclusive);
		const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);

		if (rc == STORE_E_IO && !exclusive && repo->reads) {
			char text[STORE_TEXT_BYTES];

			snprintf(text, sizeof(text), "%s", store_message());
			return store_fail(rc, "%s; what cannot be written is read with --no-lock", text);
		}
		if (rc != STORE_E_LOCKED || now >= until)
			return rc;
		if (!told && !repo->quiet)
			cli_warn(repo->command, "waiting", store_message());
		told = true;
		pause = g4_min64(pause, until - now);
		const struct timespec time = {(time_t)(pause / 1000000000), (long)(pause % 1000000000)};
		nanosleep(&time, NULL);
		pause = g4_min64(2 * pause, LOCK_PAUSE_MAX_NS);
	}
}

void cli_repo_close(struct cli_repo *repo, struct store *s)
{
	if (s != NULL && store_mends_any(s) && !repo->mends)
		cli_warn(repo->command, repo->path,
			 "files are damaged and were mended while they were read; 'shredder check --repair' mends them "
			 "where they lie");
	store_close(s);
	if (repo->password != NULL)
		store_wipe(repo->password, strlen(repo->password));
	free(repo->password);
	repo->password = NULL;
	if (repo->key.size > 0)
		store_wipe(repo->key.data, repo->key.size);
	store_buf_free(&repo->key);
}

/* --------------------------------------------------------------------------------------------------------- output */

int cli_snapshot_find(const struct cli_repo *repo, struct store *s, const char *text, struct store_snapshot *snapshot,
		      const char **subpath)
{
	const struct store_filter filter = cli_repo_filter(repo);
	const char *colon = strchr(text, ':');
	char *name = store_strdup(text);

	*subpath = colon != NULL ? colon + 1 : "/";
	if (colon != NULL)
		name[colon - text] = 0;
	const int rc = store_snapshot_find(s, name, &filter, snapshot);
	free(name);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(repo, rc);
}

static bool named_before(const struct store_snapshot *list, size_t place)
{
	for (size_t i = 0; i < place; i++)
		if (store_id_equal(&list[i].name, &list[place].name))
			return true;
	return false;
}

int cli_snapshots_choose(const struct cli_repo *repo, struct store *s, char **names, int count,
			 struct store_snapshot **list, size_t *found)
{
	const struct store_filter filter = cli_repo_filter(repo);
	int rc = 0;

	*found = 0;
	if (count == 0)
		return store_snapshots(s, &filter, list, found);
	*list = (struct store_snapshot *)store_alloc((size_t)count * sizeof(**list));
	for (int i = 0; i < count && rc == 0; i++) {
		rc = store_snapshot_find(s, names[i], &filter, &(*list)[*found]);
		if (rc == 0 && named_before(*list, *found))
			store_snapshot_free(&(*list)[*found]);
		else
			*found += rc == 0;
	}
	return rc;
}

int cli_may_remove(struct store *s)
{
	struct store_id nothing;

	store_random(&nothing, sizeof(nothing));
	return s->backend->ops->remove(s->backend, STORE_SNAPSHOT, &nothing);
}

int cli_read_lines(const char *command, const char *name, char end, void (*each)(void *user, char *line), void *user)
{
	FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t bytes;

	if (file == NULL) {
		g4_cli_error(command, "%s: %s", name, strerror(errno));
		return G4_EXIT_FAILURE;
	}
	while ((bytes = getdelim(&line, &room, end, file)) > 0) {
		if (line[bytes - 1] == end)
			line[bytes - 1] = 0;
		each(user, line);
	}
	const bool failed = ferror(file) != 0;
	free(line);
	if (file != stdin)
		fclose(file);
	if (failed)
		g4_cli_error(command, "%s cannot be read", name);
	return failed ? G4_EXIT_FAILURE : G4_EXIT_OK;
}

static void take_pattern(void *user, char *line)
{
	store_exclude_add((struct store_excludes *)user, line);
}

static void take_folded(void *user, char *line)
{
	store_exclude_add_folded((struct store_excludes *)user, line);
}

int cli_read_patterns(const char *command, const char *name, struct store_excludes *excludes, bool folded)
{
	return cli_read_lines(command, name, '\n', folded ? take_folded : take_pattern, excludes);
}

bool cli_parse_time(const char *text, struct store_time *time)
{
	static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct tm t = {.tm_isdst = -1};
		const char *rest = strptime(text, forms[i], &t);

		if (rest == NULL || (rest[0] != 0 && strcmp(rest, "Z") != 0))
			continue;
		const struct tm given = t;
		*time = (struct store_time){.seconds = rest[0] != 0 ? timegm(&t) : mktime(&t)};
		/* the 31st of February would become another day */
		return t.tm_mday == given.tm_mday && t.tm_mon == given.tm_mon;
	}
	return false;
}

void cli_progress_start(const struct cli_repo *repo, struct g4_progress *progress, const char *label)
{
	if (!repo->quiet)
		g4_progress_start(progress, label);
}

void cli_print_name(FILE *to, const char *name)
{
	if (!isatty(fileno(to))) {
		fputs(name, to);
		return;
	}
	for (const uint8_t *at = (const uint8_t *)name; *at != 0; at++)
		fputc(*at < 32 || *at == 127 ? '?' : *at, to);
}

void cli_warn(const char *command, const char *path, const char *sentence)
{
	fflush(stdout);
	fprintf(stderr, "%s %s: ", g4_program, command);
	cli_print_name(stderr, path);
	fprintf(stderr, ": %s\n", sentence);
}

void cli_warn_repaired(const char *command, const struct store_snapshot *snapshot)
{
	char hex[STORE_HEX_BYTES], what[32];

	snprintf(what, sizeof(what), "snapshot %.16s", store_hex(&snapshot->name, hex));
	for (size_t i = 0; i < snapshot->tags_count; i++)
		if (strcmp(snapshot->tags[i], CLI_TAG_REPAIRED) == 0) {
			cli_warn(command, what,
				 "the tag '" CLI_TAG_REPAIRED "' says that some of it was lost: names may be missing, "
				 "and files may have zeros for bytes");
			return;
		}
}

const char *cli_format_time(const struct store_time *time, char text[32])
{
	const time_t at = (time_t)time->seconds;
	struct tm t;

	if (localtime_r(&at, &t) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &t) == 0)
		snprintf(text, 32, "%lld", (long long)time->seconds);
	return text;
}

void cli_print_json_time(const struct store_time *time)
{
	const time_t at = (time_t)time->seconds;
	char text[32];
	struct tm t;

	if (gmtime_r(&at, &t) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &t) != 0)
		printf("\"%s.%09uZ\"", text, time->ns);
	else
		fputs("null", stdout);
}

void cli_print_json_text(const char *text)
{
	g4_print_json_string(stdout, text, strlen(text));
}

void cli_print_json_texts(char *const *texts, size_t count)
{
	putchar('[');
	for (size_t i = 0; i < count; i++) {
		fputs(i == 0 ? "" : ", ", stdout);
		cli_print_json_text(texts[i]);
	}
	putchar(']');
}

void cli_print_json_snapshot(const struct store_snapshot *snapshot)
{
	char hex[STORE_HEX_BYTES];

	store_hex(&snapshot->name, hex);
	printf("{\"id\": \"%s\", \"time\": ", hex);
	cli_print_json_time(&snapshot->time);
	fputs(", \"host\": ", stdout);
	cli_print_json_text(snapshot->host);
	fputs(", \"user\": ", stdout);
	cli_print_json_text(snapshot->user);
	fputs(", \"paths\": ", stdout);
	cli_print_json_texts(snapshot->paths, snapshot->paths_count);
	fputs(", \"tags\": ", stdout);
	cli_print_json_texts(snapshot->tags, snapshot->tags_count);
	printf(", \"parent\": ");
	if (snapshot->has_parent)
		printf("\"%s\"", store_hex(&snapshot->parent, hex));
	else
		fputs("null", stdout);
	printf(", \"files\": %llu, \"directories\": %llu, \"others\": %llu, \"bytes\": %llu, \"unread\": %llu, "
	       "\"program\": ",
	       (unsigned long long)snapshot->files, (unsigned long long)snapshot->directories,
	       (unsigned long long)snapshot->others, (unsigned long long)snapshot->bytes,
	       (unsigned long long)snapshot->unread);
	cli_print_json_text(snapshot->program);
	putchar('}');
}

void cli_print_json_node(const char *path, const struct store_node *node)
{
	printf("{\"path\": ");
	cli_print_json_text(path);
	printf(", \"type\": \"%s\", \"mode\": \"%04o\", \"uid\": %u, \"gid\": %u, \"mtime\": ",
	       store_node_word(node->type), node->mode, node->uid, node->gid);
	cli_print_json_time(&node->mtime);
	if (node->flags & STORE_ATIME) {
		fputs(", \"atime\": ", stdout);
		cli_print_json_time(&node->atime);
	}
	if (node->type == STORE_NODE_FILE)
		printf(", \"size\": %llu", (unsigned long long)node->size);
	if (node->flags & STORE_LINKED)
		printf(", \"inode\": %llu, \"links\": %llu", (unsigned long long)node->inode,
		       (unsigned long long)node->links);
	if (node->type == STORE_NODE_CHAR || node->type == STORE_NODE_BLOCK)
		printf(", \"major\": %u, \"minor\": %u", node->major, node->minor);
	if (node->type == STORE_NODE_LINK) {
		fputs(", \"target\": ", stdout);
		g4_print_json_string(stdout, node->target, node->target_bytes);
	}
	putchar('}');
}

void cli_print_json_key(const struct store_key_info *key)
{
	const struct store_time created = {.seconds = key->created};
	char hex[STORE_HEX_BYTES];

	printf("{\"id\": \"%s\", \"kind\": \"%s\", \"created\": ", store_hex(&key->name, hex),
	       key->kdf == 1 ? "password" : "key file");
	cli_print_json_time(&created);
	fputs(", \"label\": ", stdout);
	cli_print_json_text(key->label);
	printf(", \"current\": %s}", key->current ? "true" : "false");
}

const char *cli_format_mode(const struct store_node *node, char text[11])
{
	static const char letters[] = "?-dlcbps";

	text[0] = letters[node->type < 8 ? node->type : 0];
	for (int i = 0; i < 9; i++)
		text[1 + i] = (node->mode >> (8 - i) & 1) != 0 ? "rwx"[i % 3] : '-';
	if (node->mode & S_ISUID)
		text[3] = node->mode & 0100 ? 's' : 'S';
	if (node->mode & S_ISGID)
		text[6] = node->mode & 0010 ? 's' : 'S';
	if (node->mode & S_ISVTX)
		text[9] = node->mode & 0001 ? 't' : 'T';
	text[10] = 0;
	return text;
}
