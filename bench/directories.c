/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmarks of the directories document (chapter 6) on any file system: behind system calls, in the directory TARGET, or gpu4fs
 * through its library in this process, on the device TARGET. What the document varies as workgroups are threads here. Prints a line
 * for each value: figure, series, x, value, with tabs between.
 *
 *	base	us    attributes of an open directory, by threads: the time of one, where all ask (the document's 15)
 *	chain	ms    making directories, one in the other, by their number (17): mkdir_all is one call of the library; mkdirat is mkdirat()
 *		      and openat() a level; create_directories is what std::filesystem::create_directories() does: of missing names from
 *		      the last on it asks for the first that is there, then makes each by its whole path. That ends where a path does
 *	deep	ms    256 look-ups of the last of them, by their number (18, 19): by path, or by openat() a level
 *	wide	ms    512 look-ups in a directory, by its subdirectories (20, 21)
 *	make	ms    making subdirectories in one directory, by their number (22)
 *	own	ms    the same, each thread in a directory of its own (what section 6.2 wishes for)
 *	makers	M/s   files made in one directory, by threads
 *	list	M/s   names of that directory, with attributes or without, by threads: each lists a part of it, but there is one behind system calls
 *	start	ms    from mounting to the first answer, by mounts: attributes of a file (16); the kernel's caches are dropped before
 *
 * Threads are 1, 2, 4 and 8, which begin together. --tree=N makes a tree of so many empty files, 1 000 a directory, and nothing else.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "gpu4fs/gpu4fs.h"

#define MOST_THREADS 8u
#define DEEP_LOOKUPS 256u /* as the document has them */
#define WIDE_LOOKUPS 512u
#define BASE_CALLS 100000u
#define MOUNTS 5u
#define LISTINGS 10u /* after one that brings in what has room in the caches */
#define TREE_DIRECTORY 1000u

static const char usage[] =
	"usage: directories_bench [OPTION]... TARGET\n\n"
	"TARGET is a directory in which nothing is, or a device, which libgpu4fs mounts.\n\n"
	"  --engine=NAME         of a device [cpu]\n"
	"  --format              it is formatted first; mem:SIZE always is\n"
	"  --mount=TYPE,DEVICE   what is mounted on the directory, so that it can be unmounted and mounted again;\n"
	"                        with the type 'command' DEVICE is a command that does it\n"
	"  --levels=N            levels of the deepest chain [4000]\n"
	"  --names=N             names in the widest directory [8000]\n"
	"  --tree=N              makes a tree of N files, and ends\n";

static struct {
	const char *target, *engine, *mount;
	bool is_device, format;
	uint32_t levels, names, tree;
} set = {.engine = "cpu", .levels = 4000, .names = 8000};

static gpu4fs *fs; /* NULL: system calls */
static int root;   /* the target then */

struct directory {
	gpu4fs_file *file; /* of the library; NULL: the root of the file system */
	int fd;
};

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "directories_bench: %s: %s\n", what, strerror((int)-rc));
	exit(1);
}

static int result(int rc)
{
	return rc < 0 ? -errno : rc;
}

static void *memory(size_t bytes)
{
	void *to = calloc(1, bytes);

	must(to ? 0 : -ENOMEM, "memory");
	return to;
}

static double now_ms(void)
{
	return seconds_of(CLOCK_MONOTONIC) * 1e3;
}

static void report(const char *figure, const char *series, uint32_t x, double value)
{
	printf("%s\t%s\t%u\t%.6g\n", figure, series, x, value);
	fflush(stdout);
}

/* ------------------------------------------------------------------ one call, either way */

static void make_directory(const struct directory *at, const char *name)
{
	must(fs ? gpu4fs_mkdir(fs, at->file, name, 0755) : result(mkdirat(at->fd, name, 0755)), name);
}

static void make_file(const struct directory *at, const char *name)
{
	must(fs ? gpu4fs_mknod(fs, at->file, name, S_IFREG | 0644, 0) :
		  result(mknodat(at->fd, name, S_IFREG | 0644, 0)),
	     name);
}

static void look_up(const struct directory *at, const char *name)
{
	struct gpu4fs_stat ours;
	struct stat theirs;

	must(fs ? gpu4fs_stat(fs, at->file, name, &ours) : result(fstatat(at->fd, name, &theirs, 0)), name);
}

static void ask_for_attributes(const struct directory *at)
{
	struct gpu4fs_stat ours;
	struct stat theirs;

	must(fs ? gpu4fs_fstat(at->file, &ours) : result(fstat(at->fd, &theirs)), "attributes");
}

static struct directory open_directory(const char *path)
{
	struct directory to = {.fd = -1};

	if (fs)
		must(gpu4fs_open(fs, NULL, path, O_RDONLY | O_DIRECTORY, 0, &to.file), path);
	else
		must(to.fd = result(openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), path);
	return to;
}

static struct directory make_and_open(const char *path)
{
	const struct directory top = {.fd = root};

	make_directory(&top, path);
	return open_directory(path);
}

static void close_directory(const struct directory *at)
{
	must(fs ? gpu4fs_close(at->file) : result(close(at->fd)), "close");
}

/* What was made before is on the device, and nobody writes it while something else is measured. */
static void settle(void)
{
	must(fs ? gpu4fs_syncfs(fs) : result(syncfs(root)), "sync");
}

/* ------------------------------------------------------------------ threads */

struct worker {
	pthread_t thread;
	uint32_t index, count;
	struct directory at;
	const char *path; /* deep: to the last directory */
	uint32_t levels;
	bool by_level;
	uint32_t first, last; /* names */
	char (*names)[16];
	bool attributes; /* list: with them, */
	uint32_t passes; /* so often */
	uint64_t listed;
	void (*work)(struct worker *worker);
	double begin, end; /* of that */
};

static pthread_barrier_t line; /* where all wait before they begin */

static void *run_worker(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&line);
	worker->begin = now_ms();
	worker->work(worker);
	worker->end = now_ms();
	return NULL;
}

/* Does `work` by so many threads, each as workers[] says; the milliseconds from the first one's beginning to the last one's end. */
static double together(struct worker *workers, uint32_t count, void (*work)(struct worker *worker))
{
	settle();
	must(-pthread_barrier_init(&line, NULL, count), "a barrier");
	for (uint32_t k = 0; k < count; k++) {
		workers[k].index = k;
		workers[k].count = count;
		workers[k].work = work;
		must(-pthread_create(&workers[k].thread, NULL, run_worker, &workers[k]), "a thread");
	}
	for (uint32_t k = 0; k < count; k++)
		pthread_join(workers[k].thread, NULL);
	double begin = workers[0].begin, end = workers[0].end;
	for (uint32_t k = 1; k < count; k++) {
		begin = workers[k].begin < begin ? workers[k].begin : begin;
		end = workers[k].end > end ? workers[k].end : end;
	}
	pthread_barrier_destroy(&line);
	return end - begin;
}

static const char *threads_text(uint32_t count)
{
	static char text[32];

	snprintf(text, sizeof(text), "%u thread%s", count, count == 1 ? "" : "s");
	return text;
}

/* The part of `count` that is this worker's. */
static uint32_t share(const struct worker *worker, uint32_t count, uint32_t *last)
{
	*last = (uint32_t)((uint64_t)count * (worker->index + 1) / worker->count);
	return (uint32_t)((uint64_t)count * worker->index / worker->count);
}

/* ------------------------------------------------------------------ base latency */

static void work_base(struct worker *worker)
{
	for (uint32_t k = 0; k < BASE_CALLS; k++)
		ask_for_attributes(&worker->at);
}

static void bench_base(void)
{
	struct directory at = make_and_open("base");

	for (uint32_t count = 1; count <= MOST_THREADS; count *= 2) {
		struct worker workers[MOST_THREADS] = {{0}};
		for (uint32_t k = 0; k < count; k++)
			workers[k].at = at;
		report("base", "", count, together(workers, count, work_base) * 1e3 / BASE_CALLS);
	}
	close_directory(&at);
}

/* ------------------------------------------------------------------ chains */

/* "TOP/d/d…", so many levels with the top. */
static char *chain_path(const char *top, uint32_t levels)
{
	const size_t bytes = strlen(top);
	char *path = memory(bytes + 2ul * levels + 1);

	strcpy(path, top);
	for (uint32_t k = 1; k < levels; k++)
		memcpy(path + bytes + 2ul * (k - 1), "/d", 3);
	return path;
}

static bool is_a_path(const char *path)
{
	return strlen(path) < 4096; /* PATH_MAX with its 0 */
}

/* Down a chain, a level at a time, which is made or not; the last one, open. */
static int descend(const char *top, uint32_t levels, bool make)
{
	int fd = root;

	for (uint32_t k = 0; k < levels; k++) {
		const char *name = k == 0 ? top : "d";
		if (make)
			must(result(mkdirat(fd, name, 0755)), "mkdirat");
		const int below = result(openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		must(below, "openat");
		if (fd != root)
			close(fd);
		fd = below;
	}
	return fd;
}

/* As libstdc++ does: the missing names are found from the last on, then made from the first on. The path is written to and restored. */
static void create_directories(char *path)
{
	struct stat theirs;
	char *end = path + strlen(path);
	const char *const whole = end;

	while (fstatat(root, path, &theirs, 0) < 0) {
		must(errno == ENOENT ? 0 : -errno, "stat");
		end = strrchr(path, '/');
		if (end == NULL) {
			end = path;
			break;
		}
		*end = 0;
	}
	do {
		if (end != path && end != whole)
			*end = '/';
		must(result(mkdirat(root, path, 0755)), "mkdirat");
		end = path + strlen(path);
	} while (end != whole);
}

static void bench_chain_of(uint32_t levels)
{
	char top[32];
	double begin;

	snprintf(top, sizeof(top), "chain%u", levels);
	char *path = chain_path(top, levels);
	settle();
	begin = now_ms();
	if (fs)
		must(gpu4fs_mkdir_all(fs, NULL, path, 0755, NULL), "mkdir_all");
	else
		close(descend(top, levels, true));
	report("chain", fs ? "mkdir_all" : "mkdirat", levels, now_ms() - begin);
	free(path);
	if (fs)
		return;
	snprintf(top, sizeof(top), "paths%u", levels);
	path = chain_path(top, levels);
	if (is_a_path(path)) {
		settle();
		begin = now_ms();
		create_directories(path);
		report("chain", "create_directories", levels, now_ms() - begin);
	}
	free(path);
}

static void work_deep(struct worker *worker)
{
	uint32_t last, k = share(worker, DEEP_LOOKUPS, &last);
	const struct directory top = {.fd = root};

	for (; k < last; k++) {
		struct gpu4fs_stat stat;
		struct gpu4fs_batch_entry entry = {.op = GPU4FS_BATCH_STAT, .path = worker->path, .stat = &stat};
		if (worker->by_level) {
			close(descend(worker->path, worker->levels, false));
		} else if (fs) {
			must(gpu4fs_batch(fs, NULL, &entry, 1, 0), "a path");
			must(entry.result, "a path");
		} else {
			look_up(&top, worker->path);
		}
	}
}

static void deep_by(uint32_t levels, const char *path, bool by_level, const char *how)
{
	char series[64];

	for (uint32_t count = 1; count <= MOST_THREADS; count *= 2) {
		struct worker workers[MOST_THREADS] = {{0}};
		for (uint32_t k = 0; k < count; k++) {
			workers[k].path = path;
			workers[k].levels = levels;
			workers[k].by_level = by_level;
		}
		const double ms = together(workers, count, work_deep);
		snprintf(series, sizeof(series), "%s, %s", how, threads_text(count));
		report("deep", series, levels, ms);
	}
}

static void bench_deep_of(uint32_t levels)
{
	char top[32];

	snprintf(top, sizeof(top), "chain%u", levels);
	char *path = chain_path(top, levels);
	if (fs || is_a_path(path))
		deep_by(levels, path, false, "by path");
	if (!fs)
		deep_by(levels, top, true, "by openat");
	free(path);
}

static void bench_chains(void)
{
	for (uint32_t k = 0; k <= 8; k++) {
		const uint32_t levels = k == 0 ? 1 : set.levels * k / 8;
		bench_chain_of(levels);
		bench_deep_of(levels);
	}
}

/* ------------------------------------------------------------------ wide directories */

static void work_make(struct worker *worker)
{
	for (uint32_t k = worker->first; k < worker->last; k++)
		make_directory(&worker->at, worker->names[k]);
}

static void work_makers(struct worker *worker)
{
	for (uint32_t k = worker->first; k < worker->last; k++)
		make_file(&worker->at, worker->names[k]);
}

static void work_wide(struct worker *worker)
{
	uint32_t last, k = share(worker, WIDE_LOOKUPS, &last);

	for (; k < last; k++) /* a step that has no factor with their number in common, mostly */
		look_up(&worker->at, worker->names[(uint64_t)k * 7919 % worker->last]);
}

static void list_by_calls(struct worker *worker)
{
	const int fd = result(openat(worker->at.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct stat about;

	must(stream ? 0 : -errno, "a stream");
	for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (entry->d_name[0] == '.')
			continue;
		if (worker->attributes)
			must(result(fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW)), entry->d_name);
		worker->listed++;
	}
	closedir(stream);
}

/* Cookies grow with positions, which are spread evenly over 48 bits. */
static uint64_t cookie_of(uint32_t part, uint32_t parts)
{
	return part == 0 ? 0 : part == parts ? UINT64_MAX : 2 + (UINT64_C(1) << 48) / parts * part;
}

static void work_list(struct worker *worker)
{
	const uint64_t end = cookie_of(worker->index + 1, worker->count);
	struct gpu4fs_dirent entry;
	gpu4fs_dir *stream;
	int rc = 0;

	if (!fs) {
		for (uint32_t pass = 0; pass < worker->passes; pass++)
			list_by_calls(worker);
		return;
	}
	must(gpu4fs_opendir_file(worker->at.file, worker->attributes ? GPU4FS_DIR_STAT : 0, &stream), "a stream");
	for (uint32_t pass = 0; pass < worker->passes; pass++) {
		gpu4fs_seekdir(stream, cookie_of(worker->index, worker->count));
		while ((rc = gpu4fs_readdir(stream, &entry)) > 0 && entry.cookie <= end)
			worker->listed++;
		must(rc, "a listing");
	}
	must(gpu4fs_closedir(stream), "a stream");
}

/* The milliseconds. */
static double list(const struct directory *at, uint32_t names, uint32_t threads, bool attributes, uint32_t passes)
{
	struct worker workers[MOST_THREADS] = {{0}};
	uint64_t listed = 0;

	for (uint32_t k = 0; k < threads; k++)
		workers[k] = (struct worker){.at = *at, .attributes = attributes, .passes = passes};
	const double ms = together(workers, threads, work_list);
	for (uint32_t k = 0; k < threads; k++)
		listed += workers[k].listed;
	must(listed == (uint64_t)names * passes ? 0 : -EIO, "names that were listed");
	return ms;
}

static void bench_list(const char *path, uint32_t names)
{
	struct directory at = open_directory(path);

	list(&at, names, 1, true, 1);
	for (uint32_t threads = 1; threads <= (fs ? MOST_THREADS : 1); threads *= 2) {
		report("list", "names", threads, names * LISTINGS / (list(&at, names, threads, false, LISTINGS) * 1e3));
		report("list", "attributes", threads,
		       names * LISTINGS / (list(&at, names, threads, true, LISTINGS) * 1e3));
	}
	close_directory(&at);
}

/* So many names by so many threads, in a directory that is new; own: in one for each. The milliseconds. */
static double make_names(const char *path, char (*names)[16], uint32_t count, uint32_t threads, bool own,
			 void (*work)(struct worker *worker))
{
	struct worker workers[MOST_THREADS] = {{0}};
	struct directory at = make_and_open(path);
	char below[80];

	for (uint32_t k = 0; k < threads; k++) {
		workers[k] = (struct worker){.index = k, .count = threads, .names = names, .at = at};
		workers[k].first = share(&workers[k], count, &workers[k].last);
		snprintf(below, sizeof(below), "%s/%u", path, k);
		if (own)
			workers[k].at = make_and_open(below);
	}
	const double ms = together(workers, threads, work);
	for (uint32_t k = 0; own && k < threads; k++)
		close_directory(&workers[k].at);
	close_directory(&at);
	return ms;
}

static void bench_wide_of(char (*names)[16], uint32_t count)
{
	char path[64];

	for (uint32_t threads = 1; threads <= MOST_THREADS; threads *= 2) {
		snprintf(path, sizeof(path), "make%u.%u", count, threads);
		report("make", threads_text(threads), count, make_names(path, names, count, threads, false, work_make));
		snprintf(path, sizeof(path), "own%u.%u", count, threads);
		report("own", threads_text(threads), count, make_names(path, names, count, threads, true, work_make));
	}
	snprintf(path, sizeof(path), "make%u.1", count);
	struct directory at = open_directory(path);
	for (uint32_t threads = 1; threads <= MOST_THREADS; threads *= 2) {
		struct worker workers[MOST_THREADS] = {{0}};
		for (uint32_t k = 0; k < threads; k++)
			workers[k] = (struct worker){.names = names, .at = at, .last = count};
		report("wide", threads_text(threads), count, together(workers, threads, work_wide));
	}
	close_directory(&at);
}

static void bench_wide(void)
{
	char(*names)[16] = memory(set.names * sizeof(*names));
	char path[32];

	for (uint32_t k = 0; k < set.names; k++)
		snprintf(names[k], sizeof(names[k]), "name%u", k);
	for (uint32_t k = 0; k <= 4; k++)
		bench_wide_of(names, k == 0 ? 1 : set.names * k / 4);
	for (uint32_t threads = 1; threads <= MOST_THREADS; threads *= 2) {
		snprintf(path, sizeof(path), "makers%u", threads);
		report("makers", "", threads,
		       set.names / (make_names(path, names, set.names, threads, false, work_makers) * 1e3));
	}
	free(names);
	bench_list("makers1", set.names);
}

/* ------------------------------------------------------------------ trees, mounts */

static void make_tree(void)
{
	char path[32], name[16];
	struct directory at = {.fd = -1}, top = make_and_open("tree");

	for (uint32_t k = 0; k < set.tree; k++) {
		if (k % TREE_DIRECTORY == 0) {
			if (k > 0)
				close_directory(&at);
			snprintf(path, sizeof(path), "tree/%u", k / TREE_DIRECTORY);
			at = make_and_open(path);
		}
		snprintf(name, sizeof(name), "file%u", k);
		make_file(&at, name);
	}
	if (set.tree > 0)
		close_directory(&at);
	close_directory(&top);
	settle();
}

static void mount_library(bool format)
{
	const struct gpu4fs_mkfs_options how = {.size = sizeof(how), .flags = GPU4FS_MKFS_FORCE};
	const struct gpu4fs_options options = {
		.size = sizeof(options), .engine = set.engine, .format = format ? &how : NULL};

	if (gpu4fs_mount(&set.target, 1, &options, &fs) < 0) {
		fprintf(stderr, "directories_bench: %s\n", gpu4fs_last_message());
		exit(1);
	}
}

static void drop_caches(void)
{
	const int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	must(result(fd), "/proc/sys/vm/drop_caches");
	must(result((int)write(fd, "3\n", 2)), "/proc/sys/vm/drop_caches");
	close(fd);
}

static void mount_again(void)
{
	char type[16];
	const char *device = strchr(set.mount, ',') + 1;

	snprintf(type, sizeof(type), "%.*s", (int)(device - 1 - set.mount), set.mount);
	if (strcmp(type, "command") == 0)
		must(system(device) == 0 ? 0 : -EIO, device); /* NOLINT(cert-env33-c): the caller's */
	else
		must(result(mount(device, set.target, type, 0, strcmp(type, "btrfs") == 0 ? "nodiscard" : NULL)),
		     device);
}

static void bench_start(void)
{
	const bool in_memory = strncmp(set.target, "mem:", 4) == 0;
	const struct directory top = {.fd = root};

	if (in_memory || (!fs && !set.mount))
		return;
	make_file(&top, "first");
	for (uint32_t k = 1; k <= MOUNTS; k++) {
		if (fs) {
			must(gpu4fs_unmount(fs), "unmount");
		} else {
			close(root);
			must(result(umount2(set.target, 0)), "unmount");
		}
		sync();
		drop_caches();
		const double begin = now_ms();
		if (fs) {
			mount_library(false);
		} else {
			mount_again();
			must(root = result(open(set.target, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), set.target);
		}
		look_up(&(struct directory){.fd = root}, "first");
		report("start", "", k, now_ms() - begin);
	}
}

static uint32_t number(const char *text)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != 0 || value == 0 || value > 100000000) {
		fputs(usage, stderr);
		exit(2);
	}
	return (uint32_t)value;
}

static void read_options(int argc, char **argv)
{
	static const struct option long_options[] = {{"engine", required_argument, NULL, 'e'},
						     {"format", no_argument, NULL, 'f'},
						     {"mount", required_argument, NULL, 'm'},
						     {"levels", required_argument, NULL, 'l'},
						     {"names", required_argument, NULL, 'n'},
						     {"tree", required_argument, NULL, 't'},
						     {NULL, 0, NULL, 0}};
	bool good = true;

	for (int answer; (answer = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		if (answer == 'e')
			set.engine = optarg;
		else if (answer == 'f')
			set.format = true;
		else if (answer == 'm')
			set.mount = optarg;
		else if (answer == 'l')
			set.levels = number(optarg);
		else if (answer == 'n')
			set.names = number(optarg);
		else if (answer == 't')
			set.tree = number(optarg);
		else
			good = false;
	}
	if (!good || argc - optind != 1 || set.levels < 16 || set.levels > 32000 || set.names < 8 ||
	    (set.mount && !strchr(set.mount, ','))) {
		fputs(usage, stderr);
		exit(2);
	}
	set.target = argv[optind];
}

int main(int argc, char **argv)
{
	struct stat about;

	read_options(argc, argv);
	set.is_device = stat(set.target, &about) < 0 || !S_ISDIR(about.st_mode);
	if (set.is_device)
		mount_library(set.format || strncmp(set.target, "mem:", 4) == 0);
	else
		must(root = result(open(set.target, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), set.target);
	if (set.tree > 0) {
		make_tree();
	} else {
		bench_base();
		bench_chains();
		bench_wide();
		bench_start();
	}
	if (fs)
		must(gpu4fs_unmount(fs), "unmount");
	return 0;
}
