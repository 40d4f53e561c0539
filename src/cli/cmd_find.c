/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs find: names below directories of a file system that is not mounted, or that gpu4fs serve has, by pattern, type, size and time.
 * Threads take directories from a stack that they share, and open them by their paths; attributes come with the listing, so that a name
 * costs no call. What is below a long path is walked by one thread, from directory to directory (descent.h): a path is as long as the
 * tree is deep, and walking it for each directory would be the square of that.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* FNM_CASEFOLD */
#endif
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/progress_host.h"
#include "base/units_host.h"
#include "cli/descent.h"
#include "print/report.h"

const char g4_help_find[] =
	"[OPTIONS] --image IMAGE|--socket PATH NAME...\n\n"
	"Lists each NAME and all that is below it, in any order, in a file system that is not\n"
	"mounted, or that 'gpu4fs serve' has. Names begin at its root; symbolic links are not\n"
	"followed. With several conditions all have to be true. On a mounted file system use find(1).\n\n"
	"      --image IMAGE         the device with the file system, which is not mounted\n"
	"      --socket PATH         where 'gpu4fs serve' serves it\n"
	"  -n, --name PATTERN        the last name is like PATTERN, with *, ? and [...]\n"
	"  -i, --iname PATTERN       ... large and small letters are the same\n"
	"  -t, --type LETTERS        one of f (file), d (directory), l (symbolic link), p, s, b, c\n"
	"      --size [+-]SIZE       a file of SIZE bytes (K, M, G, T), or more (+), or less (-)\n"
	"      --changed-within AGE  contents are as old as that or newer: 90s, 5m, 2h, 3d, 1w\n"
	"      --changed-before AGE  ... or older\n"
	"      --max-depth N         no more than N names below NAME; 0: NAME alone\n"
	"  -j, --jobs N              use N threads, not as many as there are processors\n"
	"  -z, --null                end names with a zero byte, not with a line end\n"
	"      --json                print one JSON object, with attributes\n"
	"      --help                show this\n";

#define LONG_PATH 1024u /* bytes; below it nobody opens a directory by its path */

struct conditions {
	const char *name;
	int name_flags;
	const char *types;
	char size_sign; /* 0: no condition on the size, '=': just that */
	uint64_t size;
	int64_t oldest, newest; /* seconds since 1970 */
	uint64_t depth;
};

struct directory { /* to be looked into */
	struct directory *next;
	uint64_t depth;
	char path[];
};

struct search {
	struct conditions conditions;
	gpu4fs *fs;
	bool json, null;
	struct g4_report report;
	pthread_mutex_t lock; /* of all below, and of the output */
	pthread_cond_t changed;
	struct directory *stack;
	long busy; /* threads that may put directories there */
	uint64_t failures;
	uint64_t seen; /* names; atomic */
	struct g4_progress progress;
	bool over; /* nobody reads what is printed, or there is no memory; atomic */
};

/* ------------------------------------------------------------------ what is wanted */

static char type_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 'f';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFBLK:
		return 'b';
	default:
		return 'c';
	}
}

static bool size_fits(const struct conditions *conditions, const struct gpu4fs_stat *stat)
{
	if (conditions->size_sign == 0)
		return true;
	if (!S_ISREG(stat->mode))
		return false;
	return conditions->size_sign == '+' ? stat->size > conditions->size :
	       conditions->size_sign == '-' ? stat->size < conditions->size :
					      stat->size == conditions->size;
}

static bool fits(const struct conditions *conditions, const char *name, const struct gpu4fs_stat *stat)
{
	return (conditions->types == NULL || strchr(conditions->types, type_of(stat->mode)) != NULL) &&
	       size_fits(conditions, stat) && stat->mtime.tv_sec >= conditions->oldest &&
	       stat->mtime.tv_sec <= conditions->newest &&
	       (conditions->name == NULL || fnmatch(conditions->name, name, conditions->name_flags) == 0);
}

/* ------------------------------------------------------------------ what is said */

static const char *type_text(uint32_t mode)
{
	switch (type_of(mode)) {
	case 'f':
		return "file";
	case 'd':
		return "directory";
	case 'l':
		return "link";
	case 'p':
		return "fifo";
	case 's':
		return "socket";
	case 'b':
		return "block device";
	default:
		return "character device";
	}
}

static void say(struct search *search, const char *path, const struct gpu4fs_stat *stat)
{
	struct g4_report *report = &search->report;

	pthread_mutex_lock(&search->lock);
	if (search->json) {
		g4_report_object(report, NULL);
		g4_report_name(report, "name", path, strlen(path));
		g4_report_text(report, "type", type_text(stat->mode));
		g4_report_octal(report, "mode", stat->mode & 07777u);
		g4_report_count(report, "uid", stat->uid);
		g4_report_count(report, "gid", stat->gid);
		g4_report_count(report, "links", stat->nlink);
		g4_report_count(report, "inode", stat->ino);
		g4_report_size(report, "size_bytes", stat->size);
		g4_report_size(report, "space_bytes", stat->blocks * 512);
		g4_report_time(report, "modified_ns",
			       (uint64_t)stat->mtime.tv_sec * 1000000000u + (uint64_t)stat->mtime.tv_nsec);
		g4_report_end(report);
	} else {
		fputs(path, stdout);
		putchar(search->null ? 0 : '\n');
	}
	if (ferror(stdout))
		__atomic_store_n(&search->over, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&search->lock);
}

static void fail(struct search *search, const char *path, int rc)
{
	pthread_mutex_lock(&search->lock);
	g4_cli_failed("find", path, rc);
	search->failures++;
	if (rc == -ENOMEM)
		__atomic_store_n(&search->over, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&search->lock);
}

/* ------------------------------------------------------------------ walking */

static bool is_over(struct search *search)
{
	return g4_cli_interrupted() || __atomic_load_n(&search->over, __ATOMIC_RELAXED);
}

/* path, or path/name. */
static void push(struct search *search, const char *path, const char *name, uint64_t depth)
{
	const size_t bytes = strlen(path), more = name ? strlen(name) + 1 : 0;
	struct directory *directory = malloc(sizeof(*directory) + bytes + more + 1);

	if (directory == NULL) {
		fail(search, path, -ENOMEM);
		return;
	}
	memcpy(directory->path, path, bytes + 1);
	if (name)
		snprintf(directory->path + bytes, more + 1, "%s%s", bytes > 0 && path[bytes - 1] == '/' ? "" : "/",
			 name);
	directory->depth = depth;
	pthread_mutex_lock(&search->lock);
	directory->next = search->stack;
	search->stack = directory;
	pthread_cond_signal(&search->changed);
	pthread_mutex_unlock(&search->lock);
}

/* The next directory; NULL: there is none, and nobody who may find one. */
static struct directory *pop(struct search *search)
{
	struct directory *directory;

	pthread_mutex_lock(&search->lock);
	search->busy--;
	while (search->stack == NULL && search->busy > 0 && !is_over(search))
		pthread_cond_wait(&search->changed, &search->lock);
	directory = is_over(search) ? NULL : search->stack;
	if (directory) {
		search->stack = directory->next;
		search->busy++;
	} else {
		pthread_cond_broadcast(&search->changed);
	}
	pthread_mutex_unlock(&search->lock);
	return directory;
}

/* A name was looked at. */
static void note_seen(struct search *search)
{
	const uint64_t seen = __atomic_add_fetch(&search->seen, 1, __ATOMIC_RELAXED);
	char text[80];

	if (!g4_progress_wanted(&search->progress))
		return;
	snprintf(text, sizeof(text), "%llu %s", (unsigned long long)seen, g4_counted(seen, "name", "names"));
	g4_progress_text(&search->progress, text);
}

static void take_entry(struct search *search, const struct directory *directory, const struct gpu4fs_dirent *entry)
{
	const uint64_t depth = directory->depth + 1;

	note_seen(search);
	if (fits(&search->conditions, entry->name, entry->stat)) {
		const size_t bytes = strlen(directory->path);
		char *path = malloc(bytes + entry->name_bytes + 2);
		if (path == NULL) {
			fail(search, directory->path, -ENOMEM);
			return;
		}
		sprintf(path, "%s%s%s", directory->path, bytes > 0 && directory->path[bytes - 1] == '/' ? "" : "/",
			entry->name);
		say(search, path, entry->stat);
		free(path);
	}
	if (S_ISDIR(entry->stat->mode) && depth < search->conditions.depth)
		push(search, directory->path, entry->name, depth);
}

/* Removed since its name was listed, or something else by now. */
static bool is_gone(int64_t rc)
{
	return rc == -ENOENT || rc == -ESTALE || rc == -ENOTDIR || rc == -ELOOP;
}

/* ------------------------------------------------------------------ below a long path */

struct deep {
	struct search *search;
	const struct directory *top;
};

/* The whole path of a name of a level. Free it. NULL: no memory. */
static char *deep_path(const struct deep *deep, const struct g4_level *level, const char *name)
{
	char *path = NULL;

	for (size_t room = 4 * LONG_PATH;; room *= 2) {
		free(path);
		path = malloc(room);
		if (path == NULL || g4_level_path(deep->top->path, level, name, path, room))
			return path;
	}
}

static void say_deep(const struct deep *deep, const struct g4_level *level, const char *name,
		     const struct gpu4fs_stat *stat)
{
	note_seen(deep->search);
	if (is_over(deep->search) || !fits(&deep->search->conditions, name, stat))
		return;
	char *path = deep_path(deep, level, name);
	if (path == NULL)
		fail(deep->search, deep->top->path, -ENOMEM);
	else
		say(deep->search, path, stat);
	free(path);
}

static void deep_failed(struct g4_descent *descent, const struct g4_level *level, const char *name, int64_t rc)
{
	const struct deep *deep = descent->context;
	char *path = deep_path(deep, level, name);

	fail(deep->search, path != NULL ? path : deep->top->path, path != NULL ? (int)rc : -ENOMEM);
	free(path);
}

static void deep_take(struct g4_descent *descent, const struct g4_level *level, const char *name,
		      const struct gpu4fs_stat *stat, uint32_t worker)
{
	(void)worker;
	say_deep(descent->context, level, name, stat);
}

static bool deep_enter(struct g4_descent *descent, struct g4_level *level)
{
	const struct deep *deep = descent->context;
	const bool last = deep->top->depth + level->depth >= deep->search->conditions.depth;
	int rc = 0;

	if (is_over(deep->search))
		return false;
	if (!last)
		rc = gpu4fs_open(descent->fs, level->above->from, level->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				 &level->from);
	const int opened = rc;
	rc = level->from != NULL ? gpu4fs_fstat(level->from, &level->stat) :
				   gpu4fs_lstat(descent->fs, level->above->from, level->name, &level->stat);
	if (rc == 0)
		say_deep(deep, level->above, level->name, &level->stat);
	rc = rc < 0 ? rc : opened;
	if (rc < 0 && !is_gone(rc))
		deep_failed(descent, level->above, level->name, rc);
	return rc == 0 && !last;
}

static void deep_leave(struct g4_descent *descent, const struct g4_level *level, bool complete, uint32_t worker)
{
	(void)descent, (void)level, (void)complete, (void)worker;
}

/* `file` is the directory, which is closed. */
static int walk_below(struct search *search, const struct directory *directory, gpu4fs_file *file)
{
	struct deep deep = {search, directory};
	struct g4_descent descent = {.fs = search->fs,
				     .context = &deep,
				     .enter = deep_enter,
				     .take = deep_take,
				     .leave = deep_leave,
				     .failed = deep_failed,
				     .jobs = 1};
	struct g4_level *first = g4_level_new(NULL, "");
	int rc = first != NULL ? gpu4fs_fstat(file, &first->stat) : -ENOMEM;

	if (rc < 0) {
		free(first);
		gpu4fs_close(file);
		return rc;
	}
	first->from = file;
	return g4_descend(&descent, first);
}

static int list(struct search *search, const struct directory *directory, gpu4fs_file *file)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir = NULL;
	int rc = gpu4fs_opendir_file(file, GPU4FS_DIR_STAT, &dir);

	if (rc == 0) {
		while (!is_over(search) && (rc = gpu4fs_readdir(dir, &entry)) == 1)
			take_entry(search, directory, &entry);
		rc = rc > 0 ? 0 : rc;
		gpu4fs_closedir(dir);
	}
	gpu4fs_close(file);
	return rc;
}

static void look_into(struct search *search, const struct directory *directory)
{
	gpu4fs_file *file = NULL;
	int rc = g4_cli_open_directory(search->fs, directory->path, O_NOFOLLOW, &file);

	if (rc == 0)
		rc = (strlen(directory->path) > LONG_PATH ? walk_below : list)(search, directory, file);
	if (rc < 0 && (directory->depth == 0 || !is_gone(rc)))
		fail(search, directory->path, rc);
}

static void *work(void *context)
{
	struct search *search = context;

	for (struct directory *directory; (directory = pop(search)) != NULL; free(directory))
		look_into(search, directory);
	return NULL;
}

static void look_below(struct search *search, const char *name)
{
	const char *last = strrchr(name, '/');
	struct gpu4fs_stat stat;
	const int rc = gpu4fs_lstat(search->fs, NULL, name, &stat);

	if (rc < 0) {
		fail(search, name, rc);
		return;
	}
	if (fits(&search->conditions, last && last[1] ? last + 1 : name, &stat))
		say(search, name, &stat);
	if (S_ISDIR(stat.mode) && search->conditions.depth > 0)
		push(search, name, NULL, 0);
}

static void find(struct search *search, char **names, int count, long jobs)
{
	pthread_t threads[G4_CLI_MOST_JOBS];
	long started = 0;

	for (int k = 0; k < count && !is_over(search); k++)
		look_below(search, names[k]);
	search->busy = jobs;
	while (started + 1 < jobs && pthread_create(&threads[started], NULL, work, search) == 0)
		started++;
	pthread_mutex_lock(&search->lock);
	search->busy -= jobs - 1 - started; /* those that could not be started */
	pthread_mutex_unlock(&search->lock);
	work(search);
	for (long k = 0; k < started; k++)
		pthread_join(threads[k], NULL);
	for (struct directory *next; search->stack != NULL; search->stack = next) {
		next = search->stack->next;
		free(search->stack);
	}
}

/* ------------------------------------------------------------------ options */

static bool parse_size(const char *word, struct conditions *conditions)
{
	conditions->size_sign = *word == '+' || *word == '-' ? *word++ : '=';
	return g4_parse_size(word, &conditions->size) == 0;
}

/* How many seconds ago. */
static bool parse_age(const char *word, int64_t *seconds)
{
	static const struct {
		char letter;
		int64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
	char *end;

	errno = 0;
	const long long number = strtoll(word, &end, 10);
	if (errno != 0 || end == word || *word < '0' || *word > '9' || strlen(end) != 1 || number > INT32_MAX)
		return false;
	for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
		if (units[k].letter == *end) {
			*seconds = number * units[k].seconds;
			return true;
		}
	}
	return false;
}

static bool parse_depth(const char *word, uint64_t *depth)
{
	char *end;

	errno = 0;
	*depth = strtoull(word, &end, 10);
	return errno == 0 && *word >= '0' && *word <= '9' && *end == 0;
}

/* Where names go to a terminal, or to a program that shows them on one, they are what is seen of it. */
static bool output_is_a_file(void)
{
	struct stat stat;

	return fstat(STDOUT_FILENO, &stat) == 0 && !S_ISFIFO(stat.st_mode) && !S_ISSOCK(stat.st_mode) &&
	       !isatty(STDOUT_FILENO);
}

static int run(struct search *search, const char *image, const char *socket, char **names, int count, long jobs)
{
	search->fs = g4_cli_attach("find", image, socket);
	if (search->fs == NULL)
		return G4_EXIT_FAILURE;
	pthread_mutex_init(&search->lock, NULL);
	pthread_cond_init(&search->changed, NULL);
	g4_cli_catch_interrupts();
	if (search->json) {
		g4_report_start(&search->report, stdout, true);
		g4_report_list(&search->report, "names");
	}
	if (output_is_a_file())
		g4_progress_start(&search->progress, "find");
	find(search, names, count, jobs);
	g4_progress_clear(&search->progress);
	if (search->json) {
		g4_report_end(&search->report);
		g4_report_bool(&search->report, "complete", search->failures == 0 && !is_over(search));
		g4_report_finish(&search->report);
	}
	const bool written = fflush(stdout) == 0 && !ferror(stdout); /* main() says what is wrong */
	const int rc = g4_cli_detach("find", search->fs, image != NULL ? image : socket);
	const bool early = g4_cli_ended_early("find");
	pthread_cond_destroy(&search->changed);
	pthread_mutex_destroy(&search->lock);
	return written && rc == 0 && search->failures == 0 && !early ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_find(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'I'},
						     {"socket", required_argument, NULL, 'S'},
						     {"name", required_argument, NULL, 'n'},
						     {"iname", required_argument, NULL, 'i'},
						     {"type", required_argument, NULL, 't'},
						     {"size", required_argument, NULL, 's'},
						     {"changed-within", required_argument, NULL, 'w'},
						     {"changed-before", required_argument, NULL, 'b'},
						     {"max-depth", required_argument, NULL, 'd'},
						     {"jobs", required_argument, NULL, 'j'},
						     {"null", no_argument, NULL, 'z'},
						     {"json", no_argument, NULL, 'J'},
						     {NULL, 0, NULL, 0}};
	struct search search = {.conditions = {.oldest = INT64_MIN, .newest = INT64_MAX, .depth = UINT64_MAX}};
	struct conditions *conditions = &search.conditions;
	const char *image = NULL, *socket = NULL;
	long jobs = g4_cli_jobs();
	int64_t age;

	for (int answer; (answer = getopt_long(argc, argv, ":n:i:t:j:z", long_options, NULL)) != -1;) {
		switch (answer) {
		case 'I':
			image = optarg;
			break;
		case 'S':
			socket = optarg;
			break;
		case 'n':
		case 'i':
			conditions->name = optarg;
			conditions->name_flags = answer == 'i' ? FNM_CASEFOLD : 0;
			break;
		case 't':
			conditions->types = optarg;
			if (strspn(optarg, ",") == strlen(optarg) || strspn(optarg, "fdlpsbc,") != strlen(optarg))
				return g4_cli_usage("find", "--type is of the letters f, d, l, p, s, b and c, not '%s'",
						    optarg);
			break;
		case 's':
			if (!parse_size(optarg, conditions))
				return g4_cli_usage("find", "--size is a number of bytes, as +10M, not '%s'", optarg);
			break;
		case 'w':
		case 'b':
			if (!parse_age(optarg, &age))
				return g4_cli_usage("find", "an age is a number and one of s, m, h, d and w, not '%s'",
						    optarg);
			*(answer == 'w' ? &conditions->oldest : &conditions->newest) = (int64_t)time(NULL) - age;
			break;
		case 'd':
			if (!parse_depth(optarg, &conditions->depth))
				return g4_cli_usage("find", "--max-depth is a number from 0 on, not '%s'", optarg);
			break;
		case 'j':
			if (!g4_cli_parse_jobs(optarg, &jobs))
				return g4_cli_usage("find", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS,
						    optarg);
			break;
		case 'z':
			search.null = true;
			break;
		case 'J':
			search.json = true;
			break;
		default:
			return g4_cli_bad_option("find", answer, argv);
		}
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("find",
				    "one of --image and --socket is needed: on a mounted file system use find(1)");
	if (optind == argc)
		return g4_cli_usage("find", "a name is needed");
	return run(&search, image, socket, argv + optind, argc - optind, jobs);
}
