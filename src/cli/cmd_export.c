/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs export: a tree of a file system that is not mounted, or that gpu4fs serve has, to the host. One thread walks it, a level a
 * call; names are looked up beside open directories, so whatever is renamed meanwhile, nothing is written outside of the target.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/attach.h"

const char g4_help_export[] =
	"[-v] --image IMAGE|--socket PATH SOURCE TARGET\n\n"
	"Copies a directory of a file system that is not mounted, or that 'gpu4fs serve' has, with all\n"
	"that is in it, to a directory of the host: contents with their holes, owners, modes, times,\n"
	"extended attributes with access lists, symbolic and hard links, special files. SOURCE begins\n"
	"at the file system's root. TARGET is made; if it is there it gets what it lacks, and any other\n"
	"name that is there is an error, and stays.\n\n"
	"      --image IMAGE  the device with the file system, which is not mounted\n"
	"      --socket PATH  where 'gpu4fs serve' serves it\n"
	"  -v, --verbose      say how much was copied\n"
	"      --help         show this\n";

#define BUFFER_BYTES (1u << 20)
#define VALUE_BYTES (64u << 10)

struct export
{
	gpu4fs *fs;
	bool root; /* who may give files away */
	int top;   /* the target */
	struct g4_cli_links links;
	unsigned char *buffer, *value;
	uint64_t files, directories, bytes, failures;
};

struct level { /* an open directory of both */
	gpu4fs_file *from;
	int to;
	char *path; /* below the target; "": it */
};

static void failed(struct export *export, const struct level *level, const char *name, int64_t rc)
{
	export->failures++;
	g4_cli_error("export", "%s%s%s: %s", level->path, *level->path && *name ? "/" : "", name, strerror((int)-rc));
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
static int64_t copy_data(struct export *export, gpu4fs_file *from, int to, int64_t size)
{
	int64_t at = 0, rc = 0;

	while ((at = gpu4fs_lseek(from, at, SEEK_DATA)) >= 0) {
		const int64_t end = gpu4fs_lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return end;
		while (at < end) {
			const int64_t most = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;
			rc = gpu4fs_pread(from, export->buffer, (size_t)most, at);
			if (rc > 0)
				rc = write_all(to, export->buffer, rc, at);
			if (rc <= 0) /* 0: it has become shorter */
				return rc;
			at += rc;
			export->bytes += (uint64_t)rc;
		}
	}
	if (at != -ENXIO)
		return at;
	return result(ftruncate(to, size));
}

/* The attributes of ours, by handle or by name, given to the host's: open, or without a descriptor by its path. */
static int64_t copy_xattrs(struct export *export, gpu4fs_file *from, const struct level *level, const char *name,
			   int to, const char *path)
{
	int64_t bytes = from ? gpu4fs_flistxattr(from, (char *)export->buffer, BUFFER_BYTES) :
			       gpu4fs_llistxattr(export->fs, level->from, name, (char *)export->buffer, BUFFER_BYTES);
	int64_t rc = bytes < 0 ? bytes : 0;

	for (int64_t at = 0; at < bytes && rc == 0; at += (int64_t)strlen((char *)export->buffer + at) + 1) {
		const char *its = (char *)export->buffer + at;
		if (!export->root && strncmp(its, "user.", 5) != 0 && strncmp(its, "system.", 7) != 0)
			continue;
		const int64_t got =
			from ? gpu4fs_fgetxattr(from, its, export->value, VALUE_BYTES) :
			       gpu4fs_lgetxattr(export->fs, level->from, name, its, export->value, VALUE_BYTES);
		if (got < 0)
			rc = got;
		else if (to >= 0)
			rc = result(fsetxattr(to, its, export->value, (size_t)got, 0));
		else
			rc = result(lsetxattr(path, its, export->value, (size_t)got, 0));
	}
	return rc;
}

/* Owners first, for a change of them takes set-id bits and capabilities; times last. */
static int64_t copy_attributes(struct export *export, gpu4fs_file *from, const struct level *level, const char *name,
			       int to, const struct gpu4fs_stat *stat)
{
	const struct timespec times[2] = {stat->atime, stat->mtime};
	char path[64 + NAME_MAX + 1] = "";
	int64_t rc = to >= 0 ? result(fchown(to, stat->uid, stat->gid)) :
			       result(fchownat(level->to, name, stat->uid, stat->gid, AT_SYMLINK_NOFOLLOW));

	if (rc == -EPERM && !export->root)
		rc = 0;
	if (to < 0)
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", level->to, name);
	if (rc == 0)
		rc = copy_xattrs(export, from, level, name, to, path);
	if (rc == 0 && to >= 0)
		rc = result(fchmod(to, stat->mode & 07777));
	else if (rc == 0 && !S_ISLNK(stat->mode))
		rc = result(fchmodat(level->to, name, stat->mode & 07777, 0));
	if (rc == 0)
		rc = to >= 0 ? result(futimens(to, times)) :
			       result(utimensat(level->to, name, times, AT_SYMLINK_NOFOLLOW));
	return rc;
}

/* ------------------------------------------------------------------ one name */

static int64_t copy_file(struct export *export, const struct level *level, const char *name,
			 const struct gpu4fs_stat *stat)
{
	gpu4fs_file *from;
	int64_t rc = gpu4fs_open(export->fs, level->from, name, O_RDONLY | O_NOFOLLOW, 0, &from);

	if (rc < 0)
		return rc;
	const int to = openat(level->to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = result(to);
	if (rc == 0)
		rc = copy_data(export, from, to, (int64_t)stat->size);
	if (rc == 0)
		rc = copy_attributes(export, from, level, name, to, stat);
	if (to >= 0 && close(to) != 0 && rc == 0)
		rc = -errno;
	gpu4fs_close(from);
	return rc;
}

static int64_t copy_link(struct export *export, const struct level *level, const char *name)
{
	char target[PATH_MAX + 1];
	const int64_t bytes = gpu4fs_readlink(export->fs, level->from, name, target, PATH_MAX);

	if (bytes < 0)
		return bytes;
	target[bytes] = '\0';
	return result(symlinkat(target, level->to, name));
}

/* The first name of a file with several is there: others become links to it. A path that is too long for that is forgotten. */
static int note_first(struct export *export, const struct level *level, const char *name,
		      const struct gpu4fs_stat *stat)
{
	char path[PATH_MAX];

	if (stat->nlink < 2 ||
	    snprintf(path, sizeof(path), "%s%s%s", level->path, *level->path ? "/" : "", name) >= (int)sizeof(path))
		return 0;
	return g4_cli_links_note(&export->links, 0, stat->ino, path) ? 0 : -ENOMEM;
}

static int64_t make_name(struct export *export, const struct level *level, const char *name,
			 const struct gpu4fs_stat *stat)
{
	int64_t rc;

	if (S_ISREG(stat->mode))
		return copy_file(export, level, name, stat);
	if (S_ISLNK(stat->mode))
		rc = copy_link(export, level, name);
	else
		rc = result(mknodat(level->to, name, (stat->mode & S_IFMT) | 0600, stat->rdev));
	return rc < 0 ? rc : copy_attributes(export, NULL, level, name, -1, stat);
}

static void copy_name(struct export *export, const struct level *level, const char *name,
		      const struct gpu4fs_stat *stat)
{
	const char *first = stat->nlink > 1 ? g4_cli_links_find(&export->links, 0, stat->ino) : NULL;
	int64_t rc;

	if (first != NULL) {
		rc = result(linkat(export->top, first, level->to, name, 0));
	} else {
		rc = make_name(export, level, name, stat);
		if (rc == 0)
			rc = note_first(export, level, name, stat);
	}
	if (rc < 0)
		failed(export, level, name, rc);
	else
		export->files++;
}

/* ------------------------------------------------------------------ directories */

static void copy_directory(struct export *export, const struct level *above, const char *name,
			   const struct gpu4fs_stat *stat);

static int copy_names(struct export *export, const struct level *level)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *stream;
	int rc = gpu4fs_opendir_file(level->from, GPU4FS_DIR_STAT, &stream);

	if (rc < 0)
		return rc;
	while (!g4_cli_interrupted() && (rc = gpu4fs_readdir(stream, &entry)) > 0) {
		const struct gpu4fs_stat stat = *entry.stat;
		char name[NAME_MAX + 1];
		snprintf(name, sizeof(name), "%s", entry.name); /* the stream's goes on */
		if (*name == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			failed(export, level, "", -EUCLEAN); /* of a damaged image: it would lead elsewhere */
		else if (S_ISDIR(stat.mode))
			copy_directory(export, level, name, &stat);
		else
			copy_name(export, level, name, &stat);
	}
	gpu4fs_closedir(stream);
	return rc < 0 ? rc : 0;
}

static void copy_opened(struct export *export, const struct level *level, const struct gpu4fs_stat *stat)
{
	int64_t rc = copy_names(export, level);

	if (rc == 0 && !g4_cli_interrupted())
		rc = copy_attributes(export, level->from, level, "", level->to, stat);
	if (rc < 0)
		failed(export, level, "", rc);
	else
		export->directories++;
}

static void copy_directory(struct export *export, const struct level *above, const char *name,
			   const struct gpu4fs_stat *stat)
{
	struct level level = {.from = NULL, .to = -1};
	int rc = gpu4fs_open(export->fs, above->from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &level.from);

	if (rc == 0 && mkdirat(above->to, name, 0700) != 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0) {
		level.to = openat(above->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = result(level.to);
	}
	if (rc == 0 && asprintf(&level.path, "%s%s%s", above->path, *above->path ? "/" : "", name) < 0) {
		level.path = NULL;
		rc = -ENOMEM;
	}
	if (rc == 0)
		copy_opened(export, &level, stat);
	else
		failed(export, above, name, rc);
	if (level.from != NULL)
		gpu4fs_close(level.from);
	if (level.to >= 0)
		close(level.to);
	free(level.path);
}

/* ------------------------------------------------------------------ all of it */

static int export_tree(struct export *export, const char *source, const char *target)
{
	char nothing[] = "";
	struct level level = {.from = NULL, .to = -1, .path = nothing};
	struct gpu4fs_stat stat;
	const char *about = source;
	int rc = gpu4fs_open(export->fs, NULL, source, O_RDONLY | O_DIRECTORY, 0, &level.from);

	if (rc == 0)
		rc = gpu4fs_fstat(level.from, &stat);
	if (rc == 0) {
		about = target;
		if (mkdir(target, 0700) != 0 && errno != EEXIST)
			rc = -errno;
	}
	if (rc == 0) {
		level.to = export->top = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = result(level.to);
	}
	if (rc == 0)
		copy_opened(export, &level, &stat);
	else
		g4_cli_error("export", "%s: %s", about, strerror(-rc));
	if (level.to >= 0)
		close(level.to);
	if (level.from != NULL)
		gpu4fs_close(level.from);
	return rc;
}

static int run(const char *image, const char *socket, char **words, bool verbose)
{
	struct export export = {.root = geteuid() == 0, .buffer = malloc(BUFFER_BYTES), .value = malloc(VALUE_BYTES)};
	int rc = export.buffer != NULL && export.value != NULL ? 0 : -ENOMEM;

	if (rc < 0)
		g4_cli_error("export", "%s", strerror(-rc));
	export.fs = rc == 0 ? g4_cli_attach("export", image, socket) : NULL;
	if (export.fs != NULL) {
		g4_cli_links_begin(&export.links);
		g4_cli_allow_open_files();
		g4_cli_catch_interrupts();
		rc = export_tree(&export, words[0], words[1]);
		const int unmounted = gpu4fs_unmount(export.fs);
		if (unmounted < 0)
			g4_cli_error("export", "%s: %s", image != NULL ? image : socket, strerror(-unmounted));
		rc = rc < 0 ? rc : g4_cli_interrupted() ? -EINTR : unmounted;
		g4_cli_links_end(&export.links);
		if (verbose)
			printf("%llu directories, %llu other names, %llu bytes\n",
			       (unsigned long long)export.directories, (unsigned long long)export.files,
			       (unsigned long long)export.bytes);
	}
	const bool good = rc == 0 && export.fs != NULL && export.failures == 0;
	free(export.buffer);
	free(export.value);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_export(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"verbose", no_argument, NULL, 'v'},
						     {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	bool verbose = false;

	for (int answer; (answer = getopt_long(argc, argv, ":v", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'v')
			verbose = true;
		else
			return g4_cli_bad_option("export", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("export", "one of --image and --socket is needed");
	if (argc - optind != 2)
		return g4_cli_usage("export", "a directory of the file system and one of the host are needed");
	if (argv[optind][0] != '/')
		return g4_cli_usage("export", "'%s' does not begin at the file system's root", argv[optind]);
	return run(image, socket, argv + optind, verbose);
}
