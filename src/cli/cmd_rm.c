/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs rm: removes inside a file system that is not mounted, or that gpu4fs serve has: trees by commands that remove many names. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress_host.h"
#include "cli/attach.h"

const char g4_help_rm[] = "[-rfv] [-j N] --image IMAGE|--socket PATH NAME...\n\n"
			  "Removes files, and with -r directories with all that is in them, from a file system that\n"
			  "is not mounted, or that 'gpu4fs serve' has. Paths begin at its root. Whoever interrupts it\n"
			  "finds a smaller tree. On a mounted file system use rm(1), or the socket of the mount\n"
			  "(option socket=).\n\n"
			  "      --image IMAGE     the device with the file system, which is not mounted\n"
			  "      --socket PATH     where 'gpu4fs serve' serves it\n"
			  "  -r, -R, --recursive   directories, too, with all that is in them\n"
			  "  -f, --force           what is not there is no error\n"
			  "  -j, --jobs=N          use N threads, not as many as there are processors\n"
			  "  -v, --verbose         say how many names went\n"
			  "      --help            show this\n";

/* That a command removes, by all workgroups of a GPU: so long an interruption may have to wait. */
#define NAMES_AT_ONCE 16384
#define ROUNDS 1000   /* somebody puts names into a directory as fast as they go */
#define IDLE_ROUNDS 2 /* ... and none goes: of a damaged directory names may be listed that are not found */

struct removal {
	gpu4fs *fs;
	const char *path;
	bool recursive, force;
	long jobs;
	uint64_t removed; /* atomic */
	struct g4_progress progress;
};

struct helper {
	pthread_t id;
	struct removal *removal;
	uint32_t from;
	int error;
};

static bool failed(const char *path, int error)
{
	g4_cli_failed("rm", path, error);
	return false;
}

static void tell(struct removal *removal)
{
	const uint64_t removed = __atomic_load_n(&removal->removed, __ATOMIC_RELAXED);
	char text[80];

	if (!g4_progress_wanted(&removal->progress))
		return;
	snprintf(text, sizeof(text), "%llu %s", (unsigned long long)removed, g4_counted(removed, "name", "names"));
	g4_progress_text(&removal->progress, text);
}

static void *help(void *context)
{
	struct helper *helper = context;
	struct removal *removal = helper->removal;
	int64_t names = 1;

	while (names > 0 && !g4_cli_interrupted()) {
		names = gpu4fs_clear(removal->fs, NULL, removal->path, NAMES_AT_ONCE, helper->from);
		if (names > 0)
			__atomic_fetch_add(&removal->removed, (uint64_t)names, __ATOMIC_RELAXED);
		tell(removal);
	}
	helper->error = names < 0 ? (int)names : 0;
	return NULL;
}

/* What is below the directory. */
static int clear(struct removal *removal)
{
	struct helper helpers[G4_CLI_MOST_JOBS];
	long started = 1;
	int error = 0;

	for (long k = 0; k < removal->jobs; k++)
		helpers[k] = (struct helper){.removal = removal,
					     .from = (uint32_t)((uint64_t)k * UINT32_MAX / (uint64_t)removal->jobs)};
	while (started < removal->jobs && pthread_create(&helpers[started].id, NULL, help, &helpers[started]) == 0)
		started++;
	help(&helpers[0]);
	for (long k = 1; k < started; k++)
		pthread_join(helpers[k].id, NULL);
	for (long k = 0; k < started; k++) /* what one of them met may have stopped all: then that is what is wrong */
		if (helpers[k].error != 0 && (error == 0 || error == -EROFS))
			error = helpers[k].error;
	return error == 0 && g4_cli_interrupted() ? -EINTR : error;
}

/* The root, and what would be gone from under its own path. */
static bool may_go(const char *path)
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/'; start--)
		;
	const size_t bytes = end - start;
	return bytes > 0 && strspn(path + start, ".") < bytes ? true : bytes > 2;
}

static bool remove_argument(struct removal *removal)
{
	const char *path = removal->path;
	struct gpu4fs_stat stat;

	if (!may_go(path)) {
		g4_cli_error("rm", "'%s' is not removed: name a directory by the name that it has", path);
		return false;
	}
	int rc = gpu4fs_lstat(removal->fs, NULL, path, &stat);
	if (rc == -ENOENT && removal->force)
		return true;
	if (rc < 0)
		return failed(path, rc);
	if (!S_ISDIR(stat.mode)) {
		rc = gpu4fs_unlink(removal->fs, NULL, path);
	} else if (!removal->recursive) {
		g4_cli_error("rm", "%s: is a directory, and -r was not given", path);
		return false;
	} else {
		rc = -ENOTEMPTY;
		for (uint32_t round = 0, idle = 0; rc == -ENOTEMPTY && round < ROUNDS && idle < IDLE_ROUNDS; round++) {
			const uint64_t before = removal->removed;
			rc = clear(removal);
			idle = removal->removed == before ? idle + 1 : 0;
			if (rc == 0)
				rc = gpu4fs_rmdir(removal->fs, NULL, path);
		}
	}
	if (rc == 0)
		removal->removed++;
	return rc == 0 || failed(path, rc);
}

int g4_cli_rm(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"recursive", no_argument, NULL, 'r'},
						     {"force", no_argument, NULL, 'f'},
						     {"jobs", required_argument, NULL, 'j'},
						     {"verbose", no_argument, NULL, 'v'},
						     {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	struct removal removal = {.jobs = g4_cli_jobs()};
	bool verbose = false, good = true;

	for (int answer; (answer = getopt_long(argc, argv, ":rRfj:v", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'r' || answer == 'R')
			removal.recursive = true;
		else if (answer == 'f')
			removal.force = true;
		else if (answer == 'v')
			verbose = true;
		else if (answer == 'j' && !g4_cli_parse_jobs(optarg, &removal.jobs))
			return g4_cli_usage("rm", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS, optarg);
		else if (answer != 'j')
			return g4_cli_bad_option("rm", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("rm", "one of --image and --socket is needed: on a mounted file system use rm(1)");
	if (optind == argc)
		return g4_cli_usage("rm", "a name is needed");
	removal.fs = g4_cli_attach("rm", image, socket);
	if (removal.fs == NULL)
		return G4_EXIT_FAILURE;
	g4_cli_catch_interrupts();
	g4_progress_start(&removal.progress, "rm");
	for (int i = optind; i < argc && !g4_cli_interrupted(); i++) {
		/* a slash behind a symbolic link would lead through it */
		for (size_t end = strlen(argv[i]); end > 1 && argv[i][end - 1] == '/'; end--)
			argv[i][end - 1] = '\0';
		removal.path = argv[i];
		good = remove_argument(&removal) && good;
		tell(&removal);
	}
	g4_progress_clear(&removal.progress);
	good = g4_cli_detach("rm", removal.fs, image != NULL ? image : socket) == 0 && good;
	good = !g4_cli_ended_early("rm") && good;
	if (verbose)
		printf("%llu %s removed\n", (unsigned long long)removal.removed,
		       g4_counted(removal.removed, "name", "names"));
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
