/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs cp: copies inside a file system that is not mounted, or that gpu4fs serve has: pages are shared where they can be. */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/attach.h"
#include "cli/cp_keep.h"

const char g4_help_cp[] =
	"[-adpr] [--preserve[=LIST]] [--reflink[=WHEN]] --image IMAGE|--socket PATH\n"
	"                 SOURCE... TARGET\n\n"
	"Copies files inside a file system: of one that is not mounted, or that 'gpu4fs serve' has.\n"
	"Paths begin at its root. A copy shares its pages with the source until one of them\n"
	"changes, so it takes time and space for its map only. Permissions are kept, less the umask,\n"
	"and symbolic links are copied themselves.\n\n"
	"On a mounted file system cp(1) shares as well, since it uses copy_file_range(2); its\n"
	"--reflink=always fails there, for Linux does not pass FICLONE on to FUSE servers.\n\n"
	"      --image IMAGE     the device with the file system, which is not mounted\n"
	"      --socket PATH     where 'gpu4fs serve' serves it\n"
	"  -r, -R, --recursive   directories, too, with all that is in them\n"
	"  -a, --archive         -r --preserve=all\n"
	"  -p                    --preserve\n"
	"  -d                    --preserve=links\n"
	"      --preserve[=LIST] keep of these, with commas between: mode (with access lists),\n"
	"                        ownership, timestamps, links (files with several names stay one\n"
	"                        file), xattr, all; without LIST mode,ownership,timestamps\n"
	"      --no-preserve=LIST\n"
	"                        do not keep them\n"
	"      --reflink[=WHEN]  auto: what can not be shared is copied; always, which is meant without\n"
	"                        WHEN: it is an error; never: everything is copied\n"
	"      --help            show this\n";

enum when { AUTO, ALWAYS, NEVER };

struct copy {
	gpu4fs *fs;
	enum when when;
	bool recursive;
	uint32_t kept; /* G4_CP_* */
	struct g4_cli_links links;
	struct g4_cli_links made; /* of several arguments: files that are copies, by their own numbers */
	bool several;
	uint64_t top; /* the directory that an argument is copied to: what is copied into itself ends there */
	unsigned char *buffer;
};
#define BUFFER_BYTES (1u << 20)

static bool failed(const char *path, int64_t result)
{
	g4_cli_error("cp", "%s: %s", path, strerror((int)-result));
	return false;
}

static bool keep(const struct copy *copy, const struct g4_cp_name *from, const struct gpu4fs_stat *stat,
		 const struct g4_cp_name *to, bool is_new, const char *path)
{
	const int64_t rc = g4_cp_keep(copy->fs, copy->kept, from, stat, to, is_new);

	if (rc < 0)
		g4_cli_error("cp", "%s: not all attributes were kept: %s", path, strerror((int)-rc));
	return rc == 0;
}

/* ------------------------------------------------------------------ contents */

/* Without sharing; holes stay holes. */
static int64_t copy_data(const struct copy *copy, gpu4fs_file *from, gpu4fs_file *to, int64_t size)
{
	int64_t at = 0, rc = 0;

	while (rc >= 0 && (at = gpu4fs_lseek(from, at, SEEK_DATA)) >= 0) {
		const int64_t end = gpu4fs_lseek(from, at, SEEK_HOLE);
		for (rc = end; rc >= 0 && at<end; at += rc> 0 ? rc : 0) {
			const int64_t bytes = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;
			rc = gpu4fs_pread(from, copy->buffer, (size_t)bytes, at);
			if (rc == 0) /* it has become shorter */
				return 0;
			if (rc > 0)
				rc = gpu4fs_pwrite(to, copy->buffer, (size_t)rc, at);
		}
	}
	if (rc >= 0 && at < 0 && at != -ENXIO)
		rc = at;
	return rc < 0 ? rc : gpu4fs_ftruncate(to, size);
}

static int64_t copy_contents(const struct copy *copy, gpu4fs_file *from, gpu4fs_file *to, int64_t size)
{
	int64_t done = 0, rc = size;

	if (copy->when == NEVER)
		return copy_data(copy, from, to, size);
	while (rc > 0 && done < size) {
		int64_t in = done, out = done;
		if (copy->when == ALWAYS)
			rc = gpu4fs_share_range(from, in, to, out, UINT64_MAX);
		else
			rc = gpu4fs_copy_file_range(from, &in, to, &out, (size_t)(size - done));
		done += rc > 0 ? rc : 0;
	}
	return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ one name */

/* A name to copy, or to make: in a directory, or from the root. `path` is for messages. */
struct place {
	gpu4fs_file *at;
	const char *name;
	char path[PATH_MAX];
};

static void place_in(struct place *place, gpu4fs_file *at, const char *above, const char *name)
{
	place->at = at;
	place->name = name;
	if (snprintf(place->path, sizeof(place->path), "%s/%s", above, name) >= (int)sizeof(place->path))
		snprintf(place->path, sizeof(place->path), ".../%s", name);
}

/* What was opened is what was looked at: its copy gets no other file's owner and set-id bits. */
static int open_source(const struct copy *copy, const struct place *source, int flags, const struct gpu4fs_stat *stat,
		       gpu4fs_file **from)
{
	struct gpu4fs_stat opened;
	int rc = gpu4fs_open(copy->fs, source->at, source->name, flags | O_RDONLY | O_NOFOLLOW, 0, from);

	if (rc < 0)
		return rc;
	rc = gpu4fs_fstat(*from, &opened);
	if (rc == 0 && (opened.ino != stat->ino || opened.mode != stat->mode || opened.uid != stat->uid))
		rc = -ESTALE;
	if (rc < 0)
		gpu4fs_close(*from);
	return rc;
}

static bool copy_file(const struct copy *copy, const struct place *source, const struct place *target,
		      const struct gpu4fs_stat *stat, bool is_new)
{
	const uint32_t mode = g4_cp_first_mode(copy->kept, stat->mode);
	gpu4fs_file *from, *to;
	int64_t rc = open_source(copy, source, 0, stat, &from);

	if (rc < 0)
		return failed(source->path, rc);
	rc = gpu4fs_open(copy->fs, target->at, target->name, O_WRONLY | O_CREAT | O_TRUNC, mode, &to);
	if (rc < 0) {
		gpu4fs_close(from);
		return failed(target->path, rc);
	}
	rc = copy_contents(copy, from, to, (int64_t)stat->size);
	const bool kept = rc < 0 || keep(copy, &(struct g4_cp_name){.file = from}, stat,
					 &(struct g4_cp_name){.file = to}, is_new, target->path);
	const int closed = gpu4fs_close(to);
	gpu4fs_close(from);
	rc = rc < 0 ? rc : closed;
	return rc < 0 ? failed(target->path, rc) : kept;
}

static int64_t copy_link(const struct copy *copy, const struct place *source, const struct place *target)
{
	char text[PATH_MAX + 1];
	const int64_t rc = gpu4fs_readlink(copy->fs, source->at, source->name, text, PATH_MAX);

	if (rc < 0)
		return rc;
	text[rc] = 0;
	return gpu4fs_symlink(copy->fs, text, target->at, target->name);
}

static bool copy_node(const struct copy *copy, const struct place *source, const struct place *target,
		      const struct gpu4fs_stat *stat)
{
	const uint32_t mode = (stat->mode & S_IFMT) | g4_cp_first_mode(copy->kept, stat->mode);
	const int64_t rc = S_ISLNK(stat->mode) ? copy_link(copy, source, target) :
						 gpu4fs_mknod(copy->fs, target->at, target->name, mode, stat->rdev);

	if (rc < 0)
		return failed(target->path, rc);
	return keep(copy, &(struct g4_cp_name){.at = source->at, .name = source->name}, stat,
		    &(struct g4_cp_name){.at = target->at, .name = target->name}, true, target->path);
}

static bool copy_name(struct copy *copy, const struct place *source, const struct place *target);

static bool copy_entries(struct copy *copy, const struct place *source, gpu4fs_file *from, const struct place *target,
			 gpu4fs_file *to)
{
	struct place *places = malloc(2 * sizeof(*places));
	struct gpu4fs_dirent entry;
	gpu4fs_dir *stream = NULL;
	bool good = true;
	int rc = places == NULL ? -ENOMEM : gpu4fs_opendir_file(from, 0, &stream);

	while (rc == 0 && (rc = gpu4fs_readdir(stream, &entry)) > 0) {
		char *name = strdup(entry.name); /* the stream's goes on */
		rc = name == NULL ? -ENOMEM : 0;
		if (name != NULL && entry.ino != copy->top) {
			place_in(&places[0], from, source->path, name);
			place_in(&places[1], to, target->path, name);
			good = copy_name(copy, &places[0], &places[1]) && good;
		} else if (name != NULL) {
			g4_cli_error("cp", "%s/%s: a directory is not copied into itself", source->path, name);
			good = false;
		}
		free(name);
	}
	if (stream != NULL)
		gpu4fs_closedir(stream);
	free(places);
	return rc < 0 ? failed(source->path, rc) : good;
}

/*
 * It is ours to write into until all is there. A link in its place is not followed: the directory that it leads to, which is anybody's,
 * would get the source's owner and mode.
 */
static bool copy_directory(struct copy *copy, const struct place *source, const struct place *target,
			   const struct gpu4fs_stat *stat)
{
	gpu4fs_file *from = NULL, *to = NULL;
	struct gpu4fs_stat made;
	int rc;

	if (!copy->recursive) {
		g4_cli_error("cp", "%s: is a directory, and -r was not given", source->path);
		return false;
	}
	rc = open_source(copy, source, O_DIRECTORY, stat, &from);
	if (rc < 0)
		return failed(source->path, rc);
	rc = gpu4fs_mkdir(copy->fs, target->at, target->name, g4_cp_first_mode(copy->kept, stat->mode) | 0700);
	const bool is_new = rc == 0;
	if (rc == 0 || rc == -EEXIST)
		rc = gpu4fs_open(copy->fs, target->at, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &to);
	if (rc == 0)
		rc = gpu4fs_fstat(to, &made);
	bool good = rc == 0 ? true : failed(target->path, rc);
	if (good) {
		copy->top = copy->top == 0 ? made.ino : copy->top;
		good = copy_entries(copy, source, from, target, to);
	}
	if (to != NULL && (copy->kept & (G4_CP_MODE | G4_CP_OWNERSHIP | G4_CP_TIMESTAMPS | G4_CP_XATTR))) {
		good = keep(copy, &(struct g4_cp_name){.file = from}, stat, &(struct g4_cp_name){.file = to}, is_new,
			    target->path) &&
		       good;
	}
	if (good && is_new && !(copy->kept & (G4_CP_MODE | G4_CP_OWNERSHIP)) && (stat->mode & 0700) != 0700) {
		rc = gpu4fs_fchmod(to, made.mode & ~(0700u & ~stat->mode) & 07777);
		good = rc == 0 ? true : failed(target->path, rc);
	}
	if (to != NULL)
		gpu4fs_close(to);
	gpu4fs_close(from);
	return good;
}

/*
 * What is in the way of another kind of file, or is one of several names, makes room when links are kept. So does a link, which what is
 * copied would be written through: other names of the file would become names of that link, and lead elsewhere.
 */
static bool make_room(const struct copy *copy, const struct place *target, const struct gpu4fs_stat *stat,
		      struct gpu4fs_stat *there, bool *is_there)
{
	if (!*is_there || !(copy->kept & G4_CP_LINKS) || S_ISDIR(there->mode) || S_ISDIR(stat->mode) ||
	    (S_ISREG(stat->mode) && S_ISREG(there->mode) && there->nlink < 2))
		return true;
	const int rc = gpu4fs_unlink(copy->fs, target->at, target->name);
	*is_there = false;
	return rc == 0 || rc == -ENOENT ? true : failed(target->path, rc);
}

/* 1: another name of the source was copied, and this is a name of its copy now. */
static int link_to_copy(const struct copy *copy, const struct place *target, const struct gpu4fs_stat *stat)
{
	const char *first = g4_cli_links_find(&copy->links, 0, stat->ino);
	struct gpu4fs_stat made, there;

	if (first == NULL || gpu4fs_lstat(copy->fs, NULL, first, &made) < 0) /* somebody has taken it away */
		return 0;
	int rc = gpu4fs_lstat(copy->fs, target->at, target->name, &there);
	if (rc == 0 && there.ino == made.ino)
		return 1;
	if (rc == 0)
		rc = gpu4fs_unlink(copy->fs, target->at, target->name);
	if (rc == 0 || rc == -ENOENT)
		rc = gpu4fs_link(copy->fs, NULL, first, target->at, target->name, 0);
	return rc < 0 ? rc : 1;
}

/* The target is the source, or one of them is a link that leads to the other: making room for the copy would take away what is copied. */
static bool is_same_file(const struct copy *copy, const struct place *source, const struct place *target,
			 const struct gpu4fs_stat *stat)
{
	struct gpu4fs_stat there, leads_to;

	if (gpu4fs_stat(copy->fs, target->at, target->name, &there) == 0 && there.ino == stat->ino)
		return true;
	if (gpu4fs_lstat(copy->fs, target->at, target->name, &there) < 0)
		return false;
	return there.ino == stat->ino ||
	       (S_ISLNK(stat->mode) && !S_ISLNK(there.mode) &&
		gpu4fs_stat(copy->fs, source->at, source->name, &leads_to) == 0 && leads_to.ino == there.ino);
}

/* What another argument's copy is: it would be lost, and other names of its source would become names of this one. */
static bool was_made(const struct copy *copy, const struct place *target)
{
	struct gpu4fs_stat there;

	return copy->several && gpu4fs_lstat(copy->fs, target->at, target->name, &there) == 0 &&
	       g4_cli_links_find(&copy->made, 0, there.ino) != NULL;
}

static bool note_made(struct copy *copy, const struct place *target)
{
	struct gpu4fs_stat made;

	return !copy->several || gpu4fs_lstat(copy->fs, target->at, target->name, &made) < 0 ||
	       g4_cli_links_note(&copy->made, 0, made.ino, "");
}

static bool copy_name(struct copy *copy, const struct place *source, const struct place *target)
{
	struct gpu4fs_stat stat, there;
	int rc = gpu4fs_lstat(copy->fs, source->at, source->name, &stat);

	if (rc < 0)
		return failed(source->path, rc);
	if (is_same_file(copy, source, target, &stat)) {
		g4_cli_error("cp", "%s and %s are the same file", source->path, target->path);
		return false;
	}
	if (S_ISDIR(stat.mode))
		return copy_directory(copy, source, target, &stat);
	if (was_made(copy, target)) {
		g4_cli_error("cp", "%s: not written over by %s, for it is a copy that was just made", target->path,
			     source->path);
		return false;
	}
	const bool one_of_several = (copy->kept & G4_CP_LINKS) && stat.nlink > 1;
	rc = one_of_several ? link_to_copy(copy, target, &stat) : 0;
	if (rc != 0)
		return rc > 0 ? true : failed(target->path, rc);
	bool is_there = gpu4fs_lstat(copy->fs, target->at, target->name, &there) == 0;
	if (!make_room(copy, target, &stat, &there, &is_there))
		return false;
	const bool good = S_ISREG(stat.mode) ? copy_file(copy, source, target, &stat, !is_there) :
					       copy_node(copy, source, target, &stat);
	if (good && !note_made(copy, target))
		return failed(target->path, -ENOMEM);
	/* a path that is too long to be linked to is a file of its own */
	if (good && one_of_several && strncmp(target->path, "...", 3) != 0 &&
	    !g4_cli_links_note(&copy->links, 0, stat.ino, target->path))
		return failed(target->path, -ENOMEM);
	return good;
}

/* ------------------------------------------------------------------ the command line */

static bool is_directory(gpu4fs *fs, const char *path)
{
	struct gpu4fs_stat stat;

	return gpu4fs_stat(fs, NULL, path, &stat) == 0 && S_ISDIR(stat.mode);
}

/* What comes into a directory has the source's last name there. */
static bool copy_argument(struct copy *copy, const char *source, const char *target, bool into)
{
	struct place *places = calloc(2, sizeof(*places));
	char *name = strdup(source), *path = NULL;
	bool good = false;

	if (places != NULL && name != NULL) {
		for (size_t end = strlen(name); end > 1 && name[end - 1] == '/'; end--)
			name[end - 1] = 0;
		const char *slash = strrchr(name, '/'), *last = slash != NULL ? slash + 1 : name;
		if (asprintf(&path, into && *last != 0 ? "%s/%s" : "%s", target, last) < 0)
			path = NULL;
		snprintf(places[0].path, sizeof(places[0].path), "%s", source);
		snprintf(places[1].path, sizeof(places[1].path), "%s", path ? path : "");
		places[0].name = name;
		places[1].name = path;
	}
	copy->top = 0;
	if (path != NULL)
		good = copy_name(copy, &places[0], &places[1]);
	else
		failed(source, -ENOMEM);
	free(path);
	free(name);
	free(places);
	return good;
}

static int copy_all(struct copy *copy, char **sources, int count, const char *target)
{
	const bool into = is_directory(copy->fs, target);
	bool good = true;

	if (count > 1 && !into) {
		g4_cli_error("cp", "%s: is no directory", target);
		return G4_EXIT_FAILURE;
	}
	copy->several = count > 1;
	g4_cli_links_begin(&copy->links);
	g4_cli_links_begin(&copy->made);
	copy->buffer = malloc(BUFFER_BYTES);
	if (copy->buffer == NULL)
		good = failed(target, -ENOMEM);
	for (int i = 0; i < count && copy->buffer != NULL; i++)
		good = copy_argument(copy, sources[i], target, into) && good;
	free(copy->buffer);
	g4_cli_links_end(&copy->made);
	g4_cli_links_end(&copy->links);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

static bool parse_when(const char *word, enum when *when)
{
	static const char *const words[] = {"auto", "always", "never"};

	for (uint32_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		if (strcmp(word, words[k]) == 0) {
			*when = (enum when)k;
			return true;
		}
	}
	return false;
}

int g4_cli_cp(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"image", required_argument, NULL, 'i'},    {"socket", required_argument, NULL, 's'},
		{"recursive", no_argument, NULL, 'r'},	    {"archive", no_argument, NULL, 'a'},
		{"preserve", optional_argument, NULL, 'k'}, {"no-preserve", required_argument, NULL, 'n'},
		{"reflink", optional_argument, NULL, 'l'},  {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	struct copy copy = {.when = AUTO};
	uint32_t kept;

	for (int answer; (answer = getopt_long(argc, argv, ":adprR", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'r' || answer == 'R')
			copy.recursive = true;
		else if (answer == 'a' || answer == 'd' || answer == 'p' || answer == 'k' || answer == 'n') {
			const char *list = answer == 'a' ? "all" : answer == 'd' ? "links" : optarg;
			if (answer == 'p' || list == NULL)
				list = "mode,ownership,timestamps";
			if (!g4_cp_parse_kept(list, &kept))
				return g4_cli_usage("cp", "%s",
						    "what is kept is mode, ownership, timestamps, links, xattr, all");
			copy.kept = answer == 'n' ? copy.kept & ~kept : copy.kept | kept;
			copy.recursive |= answer == 'a';
		} else if (answer == 'l' && !parse_when(optarg ? optarg : "always", &copy.when))
			return g4_cli_usage("cp", "--reflink is auto, always or never, not '%s'", optarg);
		else if (answer != 'l')
			return g4_cli_bad_option("cp", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("cp", "one of --image and --socket is needed: on a mounted file system use cp(1)");
	if (argc - optind < 2)
		return g4_cli_usage("cp", "a source and a target are needed");
	copy.fs = g4_cli_attach("cp", image, socket);
	if (copy.fs == NULL)
		return G4_EXIT_FAILURE;
	int status = copy_all(&copy, argv + optind, argc - optind - 1, argv[argc - 1]);
	const int rc = gpu4fs_unmount(copy.fs);
	if (rc < 0 && status == G4_EXIT_OK) {
		failed(image != NULL ? image : socket, rc);
		status = G4_EXIT_FAILURE;
	}
	return status;
}
