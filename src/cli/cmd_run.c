/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs run: a command whose calls on files below a directory go to the engine without the kernel (src/preload). Of an image it
 * mounts that for the time, and waits until the last process has ended that the command left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "client/beneath.h"
#include "fuse/fuse.h"
#include "preload/preload.h"

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define MESSAGE_BYTES 512

const char g4_help_run[] = "-m SOURCE=DIRECTORY... [-o OPTION,...] [--trace] COMMAND [ARGUMENT...]\n\n"
			   "Runs COMMAND with an interception library: what it and the programs that it starts do\n"
			   "with files below DIRECTORY goes to the engine without the kernel in between, where that\n"
			   "is possible, and else through the mount there. SOURCE is the socket of a mount with\n"
			   "-o socket= at DIRECTORY, or a device, which is mounted there until the last of these\n"
			   "programs has ended. Static and set-uid programs use the mount, and so do relative paths\n"
			   "that lead below DIRECTORY from elsewhere.\n\n"
			   "  -m, --map SOURCE=DIRECTORY  up to eight\n"
			   "  -o OPTION,...  mount options, where SOURCE is a device; refused with sockets alone\n"
			   "      --trace    at the end, print how often each function was answered by whom\n"
			   "      --help     show this\n";

struct map {
	char *source, *directory;
	char socket[sizeof(((struct g4p_mount *)NULL)->socket)];
	bool mounted; /* by us */
};

struct running {
	struct map maps[G4P_MOUNTS];
	uint32_t count;
	char options[2 * MESSAGE_BYTES]; /* of mounts, "": none */
	bool trace;
	char **command;
	char folder[64]; /* of the sockets; "": none yet */
	int trace_fd;
	struct g4p_trace *counts;
};

/* ------------------------------------------------------------------ the command line */

static int add_map(struct running *run, char *text)
{
	struct map *map = &run->maps[run->count];
	char *equals = strrchr(text, '=');

	if (run->count == G4P_MOUNTS)
		return g4_cli_usage("run", "more than %u directories", G4P_MOUNTS);
	if (!equals || equals == text || equals[1] == 0)
		return g4_cli_usage("run", "'%s' is not SOURCE=DIRECTORY", text);
	*equals = 0;
	map->source = text;
	map->directory = realpath(equals + 1, NULL);
	if (!map->directory || strchr(map->directory, '\n')) {
		g4_cli_error("run", "%s: %s", equals + 1, strerror(map->directory ? EINVAL : errno));
		return G4_EXIT_FAILURE;
	}
	run->count++;
	return 0;
}

static bool is_socket(const struct map *map)
{
	struct stat st;

	return stat(map->source, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Those of several -o follow each other, as mount(8) takes them. */
static int add_options(struct running *run, const char *text)
{
	const size_t used = strlen(run->options), room = sizeof(run->options) - used;
	struct g4_fuse_options options;
	char message[MESSAGE_BYTES] = "";

	g4_fuse_options_init(&options);
	if (g4_fuse_parse_options(text, &options, message, sizeof(message)) < 0)
		return g4_cli_usage("run", "%s", message);
	if ((size_t)snprintf(run->options + used, room, "%s%s", used > 0 ? "," : "", text) >= room)
		return g4_cli_usage("run", "the mount options are too long");
	return 0;
}

/* Options are for what is mounted; what a socket serves has its own. */
static int check_options(const struct running *run)
{
	for (uint32_t i = 0; i < run->count; i++)
		if (!is_socket(&run->maps[i]))
			return 0;
	return g4_cli_usage("run", "-o is for devices, and %s is the socket of a mount, which has its options",
			    run->maps[0].source);
}

static int parse(int argc, char **argv, struct running *run)
{
	static const struct option long_options[] = {
		{"map", required_argument, NULL, 'm'}, {"trace", no_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	int status = 0;

	for (int answer; status == 0 && (answer = getopt_long(argc, argv, "+:m:o:", long_options, NULL)) != -1;) {
		if (answer == 'm')
			status = add_map(run, optarg);
		else if (answer == 'o')
			status = add_options(run, optarg);
		else if (answer == 't')
			run->trace = true;
		else
			status = g4_cli_bad_option("run", answer, argv);
	}
	if (status == 0 && run->count == 0)
		status = g4_cli_usage("run", "a directory is needed: -m SOURCE=DIRECTORY");
	if (status == 0 && optind == argc)
		status = g4_cli_usage("run", "a command is needed");
	if (status == 0 && run->options[0])
		status = check_options(run);
	run->command = argv + optind;
	return status;
}

/* ------------------------------------------------------------------ mounts */

/* Runs this program with these arguments; its exit status. */
static int run_self(const char *const arguments[])
{
	pid_t child = fork();
	int status = G4_EXIT_FAILURE;

	if (child == 0) {
		execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
		_exit(EXIT_CANNOT_RUN);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : G4_EXIT_FAILURE;
}

static int make_folder(struct running *run)
{
	const char *base = getenv("TMPDIR");

	if (run->folder[0])
		return 0;
	snprintf(run->folder, sizeof(run->folder), "%s/gpu4fs-run.XXXXXX", base && strlen(base) < 32 ? base : "/tmp");
	if (mkdtemp(run->folder))
		return 0;
	g4_cli_error("run", "%s: %s", run->folder, strerror(errno));
	run->folder[0] = 0;
	return G4_EXIT_FAILURE;
}

/* The programs of this user only: the folder of the socket is theirs. */
static int mount_device(struct running *run, struct map *map)
{
	char options[sizeof(run->options) + sizeof(map->socket) + 16];
	int status = make_folder(run);

	if (status != 0)
		return status;
	snprintf(map->socket, sizeof(map->socket), "%s/%u", run->folder, (unsigned)(map - run->maps));
	snprintf(options, sizeof(options), "%s%ssocket=%s", run->options, run->options[0] ? "," : "", map->socket);
	status = run_self((const char *[]){"gpu4fs", "mount", "-o", options, "--", map->source, map->directory, NULL});
	map->mounted = status == 0;
	return status == 0 ? 0 : G4_EXIT_FAILURE;
}

/* A server's socket: what it serves is to be what is mounted there. */
static int check_socket(struct map *map)
{
	bool same;
	int rc;

	char *full = realpath(map->source, NULL); /* the command may run elsewhere */
	if (!full || strlen(full) >= sizeof(map->socket)) {
		g4_cli_error("run", "%s: %s", map->source, strerror(full ? ENAMETOOLONG : errno));
		free(full);
		return G4_EXIT_FAILURE;
	}
	strcpy(map->socket, full);
	free(full);
	rc = g4c_serves_mount_at(map->socket, map->directory, &same);
	if (rc == -EBUSY) /* no place at this time: the command's programs may find one */
		return 0;
	if (rc < 0) {
		g4_cli_error("run", "%s", gpu4fs_last_message());
		return G4_EXIT_FAILURE;
	}
	if (!same)
		g4_cli_error("run", "%s: what %s serves is not mounted there (mount -o socket=)", map->directory,
			     map->source);
	return same ? 0 : G4_EXIT_FAILURE;
}

static int prepare_maps(struct running *run)
{
	int status = 0;

	for (uint32_t i = 0; status == 0 && i < run->count; i++) {
		struct map *map = &run->maps[i];
		status = is_socket(map) ? check_socket(map) : mount_device(run, map);
	}
	return status;
}

static int end_maps(struct running *run)
{
	int status = 0;

	for (uint32_t i = 0; i < run->count; i++) {
		struct map *map = &run->maps[i];
		if (map->mounted && run_self((const char *[]){"gpu4fs", "umount", "--", map->directory, NULL}) != 0)
			status = G4_EXIT_FAILURE;
		free(map->directory);
	}
	if (run->folder[0])
		(void)rmdir(run->folder);
	return status;
}

/* ------------------------------------------------------------------ the environment */

/* Where the library is: beside this program, in a build or installed. */
static char *find_library(void)
{
	static const char *const places[] = {"../lib/libgpu4fs_preload.so", G4_PRELOAD_FROM_BIN};
	char program[PATH_MAX], *slash, *found = NULL;
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[bytes < 0 ? 0 : bytes] = 0;
	slash = strrchr(program, '/');
	for (size_t i = 0; slash && !found && i < sizeof(places) / sizeof(places[0]); i++) {
		char *name;
		if (asprintf(&name, "%.*s/%s", (int)(slash - program), program, places[i]) < 0)
			return NULL;
		found = realpath(name, NULL);
		free(name);
	}
	return found;
}

static int set_environment(struct running *run)
{
	const char *others = getenv("LD_PRELOAD");
	char *library = find_library(), *preload = NULL, *lines = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&lines, &bytes);

	if (!library || !out) {
		g4_cli_error("run", "libgpu4fs_preload.so is not where it was installed");
		return G4_EXIT_FAILURE;
	}
	for (uint32_t i = 0; i < run->count; i++)
		fprintf(out, "%s=%s\n", run->maps[i].socket, run->maps[i].directory);
	if (fclose(out) != 0 || asprintf(&preload, "%s%s%s", library, others ? ":" : "", others ? others : "") < 0 ||
	    setenv("LD_PRELOAD", preload, 1) != 0 || setenv(G4P_ENVIRONMENT, lines, 1) != 0) {
		g4_cli_error("run", "%s", strerror(ENOMEM));
		return G4_EXIT_FAILURE;
	}
	free(library);
	free(preload);
	free(lines);
	return 0;
}

static int start_trace(struct running *run)
{
	char name[sizeof(run->folder) + 8];
	int status = make_folder(run);

	if (status != 0)
		return status;
	snprintf(name, sizeof(name), "%s/trace", run->folder);
	run->trace_fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (run->trace_fd >= 0 && ftruncate(run->trace_fd, sizeof(*run->counts)) == 0)
		run->counts = mmap(NULL, sizeof(*run->counts), PROT_READ, MAP_SHARED, run->trace_fd, 0);
	if (!run->counts || run->counts == MAP_FAILED || setenv(G4P_TRACE_ENVIRONMENT, name, 1) != 0) {
		g4_cli_error("run", "%s: %s", name, strerror(errno));
		return G4_EXIT_FAILURE;
	}
	return 0;
}

static void remove_trace(const struct running *run)
{
	char name[sizeof(run->folder) + 8];

	snprintf(name, sizeof(name), "%s/trace", run->folder);
	(void)unlink(name);
}

static void print_trace(const struct running *run)
{
	static const char *const functions[] = {
#define FUNCTION_NAME(name) #name,
		G4P_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
	};
	static const char *const answers[] = {
#define ANSWER_WORDS(name, words) words,
		G4P_ANSWERS(ANSWER_WORDS)
#undef ANSWER_WORDS
	};

	fprintf(stderr, "%-16s", "function");
	for (uint32_t k = 0; k < G4P_ANSWER_COUNT; k++)
		fprintf(stderr, " %12s", answers[k]);
	fputc('\n', stderr);
	for (uint32_t i = 0; i < G4P_FUNCTION_COUNT; i++) {
		const uint64_t *row = run->counts->counts[i];
		uint64_t sum = 0;
		for (uint32_t k = 0; k < G4P_ANSWER_COUNT; k++)
			sum += row[k];
		if (sum == 0)
			continue;
		fprintf(stderr, "%-16s", functions[i]);
		for (uint32_t k = 0; k < G4P_ANSWER_COUNT; k++)
			fprintf(stderr, " %12llu", (unsigned long long)row[k]);
		fputc('\n', stderr);
	}
}

/* ------------------------------------------------------------------ running */

static int become(struct running *run)
{
	execvp(run->command[0], run->command);
	g4_cli_error("run", "%s: %s", run->command[0], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static pid_t command_pid;

static void pass_on(int number)
{
	if (command_pid > 0)
		kill(command_pid, number);
}

/* The command's status when it and all that it left behind has ended, which becomes ours to wait for. */
static int run_and_wait(struct running *run)
{
	struct sigaction ignored = {.sa_handler = SIG_IGN}, passed = {.sa_handler = pass_on}, before[2];
	int status = 0, own = G4_EXIT_FAILURE;
	pid_t ended;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
		g4_cli_error("run", "processes in the background will not be waited for: %s", strerror(errno));
	sigaction(SIGINT, &ignored, &before[0]); /* a terminal sends them to the command as well */
	sigaction(SIGQUIT, &ignored, &before[1]);
	command_pid = fork();
	if (command_pid == 0) {
		sigaction(SIGINT, &before[0], NULL);
		sigaction(SIGQUIT, &before[1], NULL);
		_exit(become(run));
	}
	if (command_pid < 0) {
		g4_cli_error("run", "%s", strerror(errno));
		return G4_EXIT_FAILURE;
	}
	sigaction(SIGTERM, &passed, NULL);
	sigaction(SIGHUP, &passed, NULL);
	while ((ended = waitpid(-1, &status, 0)) > 0 || errno == EINTR) {
		if (ended != command_pid)
			continue;
		own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		command_pid = 0;
	}
	return own;
}

int g4_cli_run(int argc, char **argv)
{
	struct running run = {.trace_fd = -1};
	int status = parse(argc, argv, &run), ended;
	bool waits = false;

	if (status == 0)
		status = prepare_maps(&run);
	if (status == 0 && run.trace)
		status = start_trace(&run);
	if (status == 0)
		status = set_environment(&run);
	for (uint32_t i = 0; i < run.count; i++)
		waits |= run.maps[i].mounted || run.trace;
	if (status == 0)
		status = waits ? run_and_wait(&run) : become(&run);
	signal(SIGPIPE, SIG_IGN); /* the reader of what is printed may be gone, and mounts have to end all the same */
	if (run.trace_fd >= 0)
		remove_trace(&run);
	ended = end_maps(&run);
	if (run.counts && run.counts != MAP_FAILED)
		print_trace(&run);
	return status ? status : ended;
}
