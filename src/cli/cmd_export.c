/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs export: a tree of a file system that is not mounted, or that gpu4fs serve has, to the host. One thread walks it, and others
 * fill files (descent.h). Others may rename and replace names of the target meanwhile, and still nothing is written outside of it:
 * names are looked up beside open directories, links are not followed, attributes go to what is open, never to a name, and a directory
 * that the walk comes back to has to be the one that it left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/descent.h"

const char g4_help_export[] =
	"[-v] [-j N] --image IMAGE|--socket PATH SOURCE TARGET\n\n"
	"Copies a directory of a file system that is not mounted, or that 'gpu4fs serve' has, with all\n"
	"that is in it, to a directory of the host: contents with their holes, owners, modes, times,\n"
	"extended attributes with access lists, symbolic and hard links, special files. SOURCE begins\n"
	"at the file system's root. TARGET is made; if it is there it gets what it lacks, and any other\n"
	"name that is there is an error, and stays.\n\n"
	"      --image IMAGE  the device with the file system, which is not mounted\n"
	"      --socket PATH  where 'gpu4fs serve' serves it\n"
	"  -j, --jobs=N       use N threads, not as many as there are processors\n"
	"  -v, --verbose      say how much was copied\n"
	"      --help         show this\n";

#define BUFFER_BYTES (1u << 20)
#define VALUE_BYTES (64u << 10)

struct buffers { /* of a thread */
	unsigned char *data, *value;
};

struct export
{
	gpu4fs *fs;
	bool root;		   /* who may give files away */
	int top;		   /* the target; the first level's, which stays open until the end */
	struct g4_cli_links links; /* the walking thread's: others have no files with several names */
	struct buffers buffers[G4_CLI_MOST_JOBS];
	struct g4_progress progress;
	uint64_t files, directories, bytes, failures; /* atomic */
};

static void count(uint64_t *counter, uint64_t more)
{
	__atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

static void failed(struct export *export, const struct g4_level *level, const char *name, int64_t rc)
{
	char path[PATH_MAX];

	(void)g4_level_path("", level, name, path, sizeof(path));
	count(&export->failures, 1);
	g4_cli_failed("export", *path != 0 ? path : ".", rc);
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

/* ------------------------------------------------------------------ contents and attributes */

static int64_t write_all(int to, const unsigned char *from, int64_t bytes, int64_t at)
{
	for (int64_t done = 0; done < bytes;) {
		const ssize_t put = pwrite(to, from + done, (size_t)(bytes - done), at + done);
		if (put < 0)
			return -errno;
		done += put;
	}
	return bytes;
}

/* All of the file that is stored; holes stay holes. */
static int64_t copy_data(struct export *export, const struct buffers *buffers, gpu4fs_file *from, int to, int64_t size)
{
	int64_t at = 0, rc = 0;

	while ((at = gpu4fs_lseek(from, at, SEEK_DATA)) >= 0) {
		const int64_t end = gpu4fs_lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return end;
		while (at < end) {
			if (g4_cli_interrupted())
				return -EINTR;
			const int64_t most = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;
			rc = gpu4fs_pread(from, buffers->data, (size_t)most, at);
			if (rc > 0)
				rc = write_all(to, buffers->data, rc, at);
			if (rc <= 0) /* 0: it has become shorter */
				return rc;
			at += rc;
			count(&export->bytes, (uint64_t)rc);
		}
	}
	if (at != -ENXIO)
		return at;
	return result(ftruncate(to, size));
}

/* A file of the host's: open, or held with O_PATH, where calls that need an open file take the path of the descriptor instead. */
struct copy {
	int fd;
	const char *path; /* NULL: open */
};

/* The attributes of ours, by handle or by name, given to the host's. */
static int64_t copy_xattrs(struct export *export, const struct buffers *buffers, gpu4fs_file *from,
			   const struct g4_level *level, const char *name, const struct copy *to)
{
	char *names = (char *)buffers->data;
	int64_t bytes = from ? gpu4fs_flistxattr(from, names, BUFFER_BYTES) :
			       gpu4fs_llistxattr(export->fs, level->from, name, names, BUFFER_BYTES);
	int64_t first = bytes < 0 ? bytes : 0, rc;

	for (int64_t at = 0; at < bytes; at += (int64_t)strlen(names + at) + 1) {
		const char *its = names + at;
		if (!export->root && strncmp(its, "user.", 5) != 0 && strncmp(its, "system.", 7) != 0)
			continue;
		const int64_t got =
			from ? gpu4fs_fgetxattr(from, its, buffers->value, VALUE_BYTES) :
			       gpu4fs_lgetxattr(export->fs, level->from, name, its, buffers->value, VALUE_BYTES);
		if (got < 0)
			rc = got;
		else if (to->path == NULL)
			rc = result(fsetxattr(to->fd, its, buffers->value, (size_t)got, 0));
		else
			rc = result(setxattr(to->path, its, buffers->value, (size_t)got, 0));
		first = first < 0 ? first : rc;
	}
	return first;
}

/*
 * Owners first, for a change of them takes set-id bits and capabilities; times last. Set-id bits are for the owner they came with. What
 * the host's file system does not take is said, and the file has the others.
 */
static int64_t copy_attributes(struct export *export, const struct buffers *buffers, gpu4fs_file *from,
			       const struct g4_level *level, const char *name, const struct copy *to,
			       const struct gpu4fs_stat *stat)
{
	const struct timespec times[2] = {stat->atime, stat->mtime};
	uint32_t mode = stat->mode & 07777;
	int64_t first = result(fchownat(to->fd, "", stat->uid, stat->gid, AT_EMPTY_PATH)), rc;

	if (first < 0)
		mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	if (first == -EPERM && !export->root)
		first = 0;
	rc = copy_xattrs(export, buffers, from, level, name, to);
	first = first < 0 ? first : rc;
	rc = S_ISLNK(stat->mode) ? 0 : result(to->path == NULL ? fchmod(to->fd, mode) : chmod(to->path, mode));
	first = first < 0 ? first : rc;
	rc = result(to->path == NULL ? futimens(to->fd, times) : utimensat(AT_FDCWD, to->path, times, 0));
	return first < 0 ? first : rc;
}

/* ------------------------------------------------------------------ one name */

static int64_t copy_file(struct export *export, const struct buffers *buffers, const struct g4_level *level,
			 const char *name, const struct gpu4fs_stat *stat)
{
	gpu4fs_file *from;
	int64_t rc = gpu4fs_open(export->fs, level->from, name, O_RDONLY | O_NOFOLLOW, 0, &from);

	if (rc < 0)
		return rc;
	const struct copy to = {.fd = openat(level->to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
	rc = result(to.fd);
	if (rc == 0)
		rc = copy_data(export, buffers, from, to.fd, (int64_t)stat->size);
	const int64_t attributes = rc < 0 ? 0 : copy_attributes(export, buffers, from, level, name, &to, stat);
	if (to.fd >= 0 && close(to.fd) != 0 && rc == 0)
		rc = -errno;
	/* a part would be in the way of the next export */
	if (rc < 0 && to.fd >= 0 && unlinkat(level->to_fd, name, 0) != 0)
		failed(export, level, name, -errno);
	gpu4fs_close(from);
	return rc < 0 ? rc : attributes;
}

static int64_t copy_link(struct export *export, const struct g4_level *level, const char *name)
{
	char target[PATH_MAX + 1];
	const int64_t bytes = gpu4fs_readlink(export->fs, level->from, name, target, PATH_MAX);

	if (bytes < 0)
		return bytes;
	target[bytes] = '\0';
	return result(symlinkat(target, level->to_fd, name));
}

/* The first name of a file with several is there: others become links to it. */
static int note_first(struct export *export, const struct g4_level *level, const char *name,
		      const struct gpu4fs_stat *stat)
{
	char *path = g4_level_whole_path("", level, name);
	const bool noted = path != NULL && g4_cli_links_note(&export->links, stat->generation, stat->ino, path);

	free(path);
	return noted ? 0 : -ENOMEM;
}

/*
 * Attributes of a link or special file that was just made. Others that may write the directory can have put something else there: only
 * what is like it, and has no other name anywhere, gets them.
 */
static int64_t copy_attributes_of_made(struct export *export, const struct buffers *buffers,
				       const struct g4_level *level, const char *name, const struct gpu4fs_stat *wanted)
{
	char path[64];
	struct stat found = {0};
	const struct copy to = {.fd = openat(level->to_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), .path = path};
	int64_t rc = result(to.fd < 0 ? to.fd : fstat(to.fd, &found));

	snprintf(path, sizeof(path), "/proc/self/fd/%d", to.fd);
	if (rc == 0 && ((found.st_mode & S_IFMT) != (wanted->mode & S_IFMT) || found.st_nlink != 1 ||
			((S_ISCHR(wanted->mode) || S_ISBLK(wanted->mode)) && found.st_rdev != wanted->rdev)))
		rc = -ESTALE;
	if (rc == 0)
		rc = copy_attributes(export, buffers, NULL, level, name, &to, wanted);
	if (to.fd >= 0)
		close(to.fd);
	return rc;
}

static int64_t make_name(struct export *export, const struct buffers *buffers, const struct g4_level *level,
			 const char *name, const struct gpu4fs_stat *stat)
{
	int64_t rc;

	if (S_ISREG(stat->mode))
		return copy_file(export, buffers, level, name, stat);
	if (S_ISLNK(stat->mode))
		rc = copy_link(export, level, name);
	else
		rc = result(mknodat(level->to_fd, name, (stat->mode & S_IFMT) | 0600, stat->rdev));
	return rc < 0 ? rc : copy_attributes_of_made(export, buffers, level, name, stat);
}

/*
 * The directory below the target that such a path is in, and the path's last name. Directories on the way that became links are not
 * followed. A path of any length is gone piece by piece.
 */
static int open_folder_of(const struct export *export, const char *path, const char **name)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, export->top, ".", &how, sizeof(how));
	char piece[PATH_MAX];

	for (const char *slash; fd >= 0 && (slash = strrchr(path, '/')) != NULL;) {
		size_t bytes = (size_t)(slash - path);
		if (bytes >= sizeof(piece)) /* names are shorter */
			for (bytes = sizeof(piece) - 1; path[bytes] != '/'; bytes--)
				;
		memcpy(piece, path, bytes);
		piece[bytes] = 0;
		const int next = (int)syscall(SYS_openat2, fd, piece, &how, sizeof(how)), error = errno;
		close(fd);
		errno = error;
		fd = next;
		path += bytes + 1;
	}
	*name = path;
	return fd < 0 ? -errno : fd;
}

/* Another name for what has one below the target. */
static int64_t link_to(const struct export *export, const char *first, const struct g4_level *level, const char *name)
{
	const char *last;
	const int fd = open_folder_of(export, first, &last);

	if (fd < 0)
		return fd;
	const int64_t rc = result(linkat(fd, last, level->to_fd, name, 0));
	close(fd);
	return rc;
}

static void take(struct g4_descent *descent, const struct g4_level *level, const char *name,
		 const struct gpu4fs_stat *stat, uint32_t worker)
{
	struct export *export = descent->context;
	const char *first = stat->nlink > 1 ? g4_cli_links_find(&export->links, stat->generation, stat->ino) : NULL;
	int64_t rc;

	if (first != NULL) {
		rc = link_to(export, first, level, name);
	} else {
		rc = make_name(export, &export->buffers[worker], level, name, stat);
		if (rc == 0 && stat->nlink > 1)
			rc = note_first(export, level, name, stat);
	}
	if (rc < 0)
		failed(export, level, name, rc);
	else
		count(&export->files, 1);
}

/* ------------------------------------------------------------------ directories */

static int know_target(struct g4_level *level)
{
	struct stat stat;

	if (level->to_fd < 0 || fstat(level->to_fd, &stat) != 0)
		return -errno;
	level->to_device = stat.st_dev;
	level->to_inode = stat.st_ino;
	return 0;
}

static int open_both(const struct g4_descent *descent, const struct g4_level *above, struct g4_level *level)
{
	int rc = gpu4fs_open(descent->fs, above->from, level->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			     &level->from);

	if (rc == 0)
		rc = gpu4fs_fstat(level->from, &level->stat);
	if (rc == 0 && mkdirat(above->to_fd, level->name, 0700) != 0 && errno != EEXIST)
		rc = -errno;
	if (rc < 0)
		return rc;
	level->to_fd = openat(above->to_fd, level->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return know_target(level);
}

static bool enter(struct g4_descent *descent, struct g4_level *level)
{
	const int rc = open_both(descent, level->above, level);

	if (rc < 0)
		failed(descent->context, level->above, level->name, rc);
	return rc == 0;
}

static void leave(struct g4_descent *descent, const struct g4_level *level, bool complete, uint32_t worker)
{
	struct export *export = descent->context;
	const struct copy to = {.fd = level->to_fd};

	if (!complete) /* it was interrupted, which is said at the end */
		return;
	const int64_t rc = copy_attributes(export, &export->buffers[worker], level->from, level, "", &to, &level->stat);
	if (rc < 0)
		failed(export, level, "", rc);
	else
		count(&export->directories, 1);
}

static void level_failed(struct g4_descent *descent, const struct g4_level *level, const char *name, int64_t rc)
{
	failed(descent->context, level, name, rc);
}

/* ------------------------------------------------------------------ all of it */

static void tell(struct g4_descent *descent)
{
	struct export *export = descent->context;

	g4_progress_tree(&export->progress,
			 __atomic_load_n(&export->files, __ATOMIC_RELAXED) +
				 __atomic_load_n(&export->directories, __ATOMIC_RELAXED),
			 __atomic_load_n(&export->bytes, __ATOMIC_RELAXED));
}

static int export_tree(struct export *export, const char *source, const char *target, long jobs)
{
	struct g4_descent descent = {.fs = export->fs,
				     .context = export,
				     .enter = enter,
				     .take = take,
				     .leave = leave,
				     .failed = level_failed,
				     .tell = tell,
				     .jobs = jobs};
	struct g4_level *level = g4_level_new(NULL, "");
	const char *about = source;
	int rc = level == NULL ? -ENOMEM :
				 gpu4fs_open(export->fs, NULL, source, O_RDONLY | O_DIRECTORY, 0, &level->from);

	if (rc == 0)
		rc = gpu4fs_fstat(level->from, &level->stat);
	if (rc == 0) {
		about = target;
		if (mkdir(target, 0700) != 0 && errno != EEXIST)
			rc = -errno;
	}
	if (rc == 0) {
		level->to_fd = export->top = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = know_target(level);
	}
	if (rc < 0) {
		g4_cli_error("export", "%s: %s", about, g4_cli_why(-rc));
		if (level != NULL && level->from != NULL)
			gpu4fs_close(level->from);
		if (level != NULL && level->to_fd >= 0)
			close(level->to_fd);
		free(level);
		return rc;
	}
	g4_progress_start(&export->progress, "export");
	rc = g4_descend(&descent, level);
	g4_progress_clear(&export->progress);
	if (rc < 0 && !g4_cli_interrupted())
		g4_cli_error("export", "%s", g4_cli_why(-rc));
	return rc;
}

static int run(const char *image, const char *socket, char **words, bool verbose, long jobs)
{
	struct export *export = calloc(1, sizeof(*export));
	int rc = export != NULL ? 0 : -ENOMEM;
	long ready = 0;

	for (; rc == 0 && ready < jobs; ready++) {
		export->buffers[ready] = (struct buffers){malloc(BUFFER_BYTES), malloc(VALUE_BYTES)};
		if (export->buffers[ready].data == NULL || export->buffers[ready].value == NULL)
			rc = -ENOMEM;
	}
	if (rc < 0)
		g4_cli_error("export", "%s", g4_cli_why(-rc));
	gpu4fs *fs = rc == 0 ? g4_cli_attach("export", image, socket) : NULL;
	if (fs != NULL) {
		export->fs = fs;
		export->root = geteuid() == 0;
		g4_cli_links_begin(&export->links);
		g4_cli_allow_open_files();
		g4_cli_catch_interrupts();
		rc = export_tree(export, words[0], words[1], jobs);
		const int unmounted = g4_cli_detach("export", fs, image != NULL ? image : socket);
		const bool early = g4_cli_ended_early("export");
		rc = rc < 0 ? rc : early ? -EINTR : unmounted;
		g4_cli_links_end(&export->links);
		if (verbose)
			printf("%llu %s, %llu other %s, %llu %s\n", (unsigned long long)export->directories,
			       g4_counted(export->directories, "directory", "directories"),
			       (unsigned long long)export->files, g4_counted(export->files, "name", "names"),
			       (unsigned long long)export->bytes, g4_counted(export->bytes, "byte", "bytes"));
	}
	const bool good = rc == 0 && fs != NULL && export->failures == 0;
	for (long k = 0; export != NULL && k < jobs; k++) {
		free(export->buffers[k].data);
		free(export->buffers[k].value);
	}
	free(export);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_export(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"jobs", required_argument, NULL, 'j'},
						     {"verbose", no_argument, NULL, 'v'},
						     {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	bool verbose = false;
	long jobs = g4_cli_jobs();

	for (int answer; (answer = getopt_long(argc, argv, ":j:v", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'v')
			verbose = true;
		else if (answer == 'j' && !g4_cli_parse_jobs(optarg, &jobs))
			return g4_cli_usage("export", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS,
					    optarg);
		else if (answer != 'j')
			return g4_cli_bad_option("export", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("export", "one of --image and --socket is needed");
	if (argc - optind != 2)
		return g4_cli_usage("export", "a directory of the file system and one of the host are needed");
	if (argv[optind][0] != '/')
		return g4_cli_usage("export", "'%s' does not begin at the file system's root", argv[optind]);
	return run(image, socket, argv + optind, verbose, jobs);
}
