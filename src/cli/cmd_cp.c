/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs cp: copies inside a file system that is not mounted, or that gpu4fs serve has: pages are shared where they can be. Trees are
 * walked by one thread and copied by several (descent.h). A name that has to make room for another file keeps what it has until the
 * copy is there: that is made beside it and renamed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cp_keep.h"
#include "cli/descent.h"

const char g4_help_cp[] =
	"[-adprv] [-j N] [--preserve[=LIST]] [--reflink[=WHEN]] --image IMAGE|--socket PATH\n"
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
	"                        file), xattr, all; and, not in all, policy (what 'gpu4fs attr' has\n"
	"                        set of how contents are kept, in place of what the new directory\n"
	"                        says) and flags (immutable, append, nodump, noatime); without LIST\n"
	"                        mode,ownership,timestamps\n"
	"      --no-preserve=LIST\n"
	"                        do not keep them\n"
	"      --reflink[=WHEN]  auto: what can not be shared is copied; always, which is meant without\n"
	"                        WHEN: it is an error; never: everything is copied\n"
	"  -j, --jobs=N          use N threads, not as many as there are processors\n"
	"  -v, --verbose         say how much was copied\n"
	"      --help            show this\n";

enum when { AUTO, ALWAYS, NEVER };

struct copy {
	gpu4fs *fs;
	enum when when;
	bool recursive;
	uint32_t kept; /* G4_CP_* */
	struct g4_cli_links
		links; /* files with several names, by generation and number of the source: a path of the copy */
	struct g4_cp_later later; /* flags that come last */
	struct g4_cli_links made; /* of several arguments: files that are copies, by their own */
	bool several;
	uint64_t top; /* the directory that an argument is copied to: what is copied into itself ends there */
	const char *source, *target; /* the argument's paths */
	long jobs;
	unsigned char *buffers[G4_CLI_MOST_JOBS];
	struct g4_progress progress;
	uint64_t beside;		       /* names that were made beside others; atomic */
	uint64_t files, directories, failures; /* atomic */
};
#define BUFFER_BYTES (1u << 20)

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static bool failed(const char *path, int64_t result)
{
	g4_cli_failed("cp", path, result);
	return false;
}

static bool kept(const char *path, int64_t rc)
{
	if (rc < 0)
		g4_cli_error("cp", "%s: not all attributes were kept: %s", path, g4_cli_why((int)-rc));
	return rc == 0;
}

/* Of a file or directory, before it is filled; `above`: the directory that the source is in, or NULL. */
static bool keep_policy(const struct copy *copy, gpu4fs_file *from, gpu4fs_file *above, gpu4fs_file *to, bool is_new,
			const char *path)
{
	return !(copy->kept & G4_CP_POLICY) || kept(path, g4_cp_keep_policy(from, above, to, is_new));
}

/* When nothing else of it changes. */
static bool keep_flags(struct copy *copy, gpu4fs_file *to, uint32_t flags, bool at_once, const char *path, bool *taken)
{
	return !(copy->kept & G4_CP_FLAGS) ||
	       kept(path, g4_cp_keep_flags(copy->fs, &copy->later, to, flags, at_once, path, taken));
}

static bool keep(const struct copy *copy, const struct g4_cp_name *from, const struct gpu4fs_stat *stat,
		 const struct g4_cp_name *to, bool is_new, const char *path)
{
	return kept(path, g4_cp_keep(copy->fs, copy->kept, from, stat, to, is_new));
}

/* ------------------------------------------------------------------ contents */

/* Without sharing; holes stay holes. */
static int64_t copy_data(unsigned char *buffer, gpu4fs_file *from, gpu4fs_file *to, int64_t size)
{
	int64_t at = 0, rc = 0;

	while (rc >= 0 && (at = gpu4fs_lseek(from, at, SEEK_DATA)) >= 0) {
		const int64_t end = gpu4fs_lseek(from, at, SEEK_HOLE);
		for (rc = end; rc >= 0 && at<end; at += rc> 0 ? rc : 0) {
			const int64_t bytes = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;
			rc = g4_cli_interrupted() ? -EINTR : gpu4fs_pread(from, buffer, (size_t)bytes, at);
			if (rc == 0) /* it has become shorter */
				return 0;
			if (rc > 0)
				rc = gpu4fs_pwrite(to, buffer, (size_t)rc, at);
		}
	}
	if (rc >= 0 && at < 0 && at != -ENXIO)
		rc = at;
	return rc < 0 ? rc : gpu4fs_ftruncate(to, size);
}

static int64_t copy_contents(const struct copy *copy, uint32_t worker, gpu4fs_file *from, gpu4fs_file *to, int64_t size)
{
	int64_t done = 0, rc = size;

	if (copy->when == NEVER)
		return copy_data(copy->buffers[worker], from, to, size);
	while (rc > 0 && done < size) {
		int64_t in = done, out = done;
		if (g4_cli_interrupted())
			rc = -EINTR;
		else if (copy->when == ALWAYS)
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

static void place_in(struct place *place, gpu4fs_file *at, const char *base, const struct g4_level *level,
		     const char *name)
{
	place->at = at;
	place->name = name;
	(void)g4_level_path(base, level, name, place->path, sizeof(place->path));
}

/* Another name beside it, that nobody has: `name` is for that of the new place. */
static int place_beside(struct copy *copy, const struct place *place, struct place *beside, char name[PATH_MAX])
{
	const char *slash = strrchr(place->name, '/');
	const int above = slash != NULL ? (int)(slash - place->name) + 1 : 0;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	beside->at = place->at;
	beside->name = name;
	memcpy(beside->path, place->path, sizeof(beside->path));
	if (snprintf(name, PATH_MAX, "%.*s.gpu4fs-cp.%ld.%llu", above, place->name,
		     (long)getpid() * 1000000000 + now.tv_nsec,
		     (unsigned long long)__atomic_add_fetch(&copy->beside, 1, __ATOMIC_RELAXED)) >= PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

/* What was made beside the target comes in its place, if that is right, or goes again. */
static bool put_in_place(const struct copy *copy, const struct place *beside, const struct place *target, bool good)
{
	int rc = 0;

	if (good)
		rc = gpu4fs_rename(copy->fs, beside->at, beside->name, target->at, target->name, 0);
	if (rc < 0)
		(void)failed(target->path, rc);
	/* also behind a rename: two names of one file both stay */
	const int gone = gpu4fs_unlink(copy->fs, beside->at, beside->name);
	if (gone < 0 && gone != -ENOENT)
		(void)failed(target->path, gone);
	return good && rc == 0;
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
	if (rc == 0 && (opened.ino != stat->ino || opened.generation != stat->generation || opened.mode != stat->mode ||
			opened.uid != stat->uid))
		rc = -ESTALE;
	if (rc < 0)
		gpu4fs_close(*from);
	return rc;
}

/* Opens what is copied to. *made: it is a name that was not there before. */
static int open_target(const struct copy *copy, const struct place *target, bool is_new, int how, uint32_t mode,
		       gpu4fs_file **to, bool *made)
{
	const int flags = O_WRONLY | O_CREAT | how | (is_new ? O_EXCL : 0);
	const int rc = gpu4fs_open(copy->fs, target->at, target->name, flags, mode, to);

	*made = rc == 0 && (flags & O_EXCL);
	if (rc != -EEXIST || how == O_EXCL || !is_new)
		return rc;
	return gpu4fs_open(copy->fs, target->at, target->name, flags & ~O_EXCL, mode, to); /* since a moment ago */
}

/*
 * `how`: O_TRUNC into what may be there, O_EXCL into a name that is not. A file that was made and does not get its contents goes again: it would be
 * half a copy with a whole one's name.
 */
static bool copy_file(struct copy *copy, uint32_t worker, const struct place *source, const struct place *target,
		      const struct gpu4fs_stat *stat, bool is_new, int how)
{
	const uint32_t mode = g4_cp_first_mode(copy->kept, stat->mode);
	const bool has_its_names = how != O_EXCL && (stat->nlink < 2 || !(copy->kept & G4_CP_LINKS));
	gpu4fs_file *from, *to;
	bool made;
	int64_t rc = open_source(copy, source, 0, stat, &from);

	if (rc < 0)
		return failed(source->path, rc);
	rc = open_target(copy, target, is_new, how, mode, &to, &made);
	if (rc < 0) {
		gpu4fs_close(from);
		return failed(target->path, rc);
	}
	bool good = keep_policy(copy, from, source->at, to, is_new, target->path), taken = false;
	rc = copy_contents(copy, worker, from, to, (int64_t)stat->size);
	if (rc == 0)
		good = keep(copy, &(struct g4_cp_name){.file = from}, stat, &(struct g4_cp_name){.file = to}, is_new,
			    target->path) &&
		       keep_flags(copy, to, stat->flags, has_its_names, target->path, &taken) && good;
	const int closed = taken ? 0 : gpu4fs_close(to);
	gpu4fs_close(from);
	if (rc < 0 && made)
		(void)gpu4fs_unlink(copy->fs, target->at, target->name); /* what is said is why */
	rc = rc < 0 ? rc : closed;
	return rc < 0 ? failed(target->path, rc) : good;
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

/*
 * What is in the way of another kind of file, or is one of several names, makes room when links are kept. So does a link, which what is
 * copied would be written through: other names of the file would become names of that link, and lead elsewhere.
 */
static bool makes_room(const struct copy *copy, const struct gpu4fs_stat *there, const struct gpu4fs_stat *stat)
{
	return (copy->kept & G4_CP_LINKS) && !S_ISDIR(there->mode) &&
	       !(S_ISREG(stat->mode) && S_ISREG(there->mode) && there->nlink < 2);
}

enum linked { NOT_LINKED, LINKED, NOT_GOOD };

/* The target becomes another name of the copy `first`; of what is not good it was said why. */
static enum linked link_to(struct copy *copy, const struct place *first, const struct gpu4fs_stat *made,
			   const struct place *target)
{
	struct gpu4fs_stat there;
	struct place beside;
	char name[PATH_MAX];
	int rc = gpu4fs_lstat(copy->fs, target->at, target->name, &there);

	if (rc == 0 && there.ino == made->ino)
		return LINKED;
	const bool is_there = rc == 0;
	if (is_there)
		rc = place_beside(copy, target, &beside, name);
	const struct place *to = is_there ? &beside : target;
	if (rc == 0 || rc == -ENOENT)
		rc = gpu4fs_link(copy->fs, first->at, first->name, to->at, to->name, 0);
	if (rc < 0) {
		(void)failed(target->path, rc);
		return NOT_GOOD;
	}
	return !is_there || put_in_place(copy, &beside, target, true) ? LINKED : NOT_GOOD;
}

/* Whether another name of the source was copied, and this is a name of its copy now. Has the lock. */
static enum linked link_to_copy(struct copy *copy, const struct place *target, const struct gpu4fs_stat *stat)
{
	const char *path = g4_cli_links_find(&copy->links, stat->generation, stat->ino);
	enum linked linked = NOT_LINKED;
	struct gpu4fs_stat made;
	struct place first;

	if (path == NULL || g4_cli_open_above(copy->fs, path, &first.at, &first.name) < 0)
		return NOT_LINKED; /* also: somebody has taken it away */
	if (gpu4fs_lstat(copy->fs, first.at, first.name, &made) == 0)
		linked = link_to(copy, &first, &made, target);
	if (first.at != NULL)
		gpu4fs_close(first.at);
	return linked;
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
	       g4_cli_links_find(&copy->made, there.generation, there.ino) != NULL;
}

static bool note_made(struct copy *copy, const struct place *target)
{
	struct gpu4fs_stat made;

	if (!copy->several || gpu4fs_lstat(copy->fs, target->at, target->name, &made) < 0)
		return true;
	pthread_mutex_lock(&copy->made.lock);
	const bool noted = g4_cli_links_note(&copy->made, made.generation, made.ino, "");
	pthread_mutex_unlock(&copy->made.lock);
	return noted;
}

static bool copy_one(struct copy *copy, uint32_t worker, const struct place *source, const struct place *target,
		     const struct gpu4fs_stat *stat)
{
	struct gpu4fs_stat there;
	struct place beside;
	char name[PATH_MAX];
	const bool is_there = gpu4fs_lstat(copy->fs, target->at, target->name, &there) == 0;
	const bool replaces = is_there && makes_room(copy, &there, stat);
	const struct place *to = replaces ? &beside : target;
	const int rc = replaces ? place_beside(copy, target, &beside, name) : 0;

	if (rc < 0)
		return failed(target->path, rc);
	bool good = S_ISREG(stat->mode) ? copy_file(copy, worker, source, to, stat, !is_there || replaces,
						    replaces ? O_EXCL : O_TRUNC) :
					  copy_node(copy, source, to, stat);
	if (replaces)
		good = put_in_place(copy, &beside, target, good);
	if (good && !note_made(copy, target))
		return failed(target->path, -ENOMEM);
	return good;
}

/* The path of the copy, however long it is, for other names. */
static bool note_copy(struct copy *copy, const struct g4_level *level, const struct place *target,
		      const struct gpu4fs_stat *stat)
{
	char *path = level != NULL ? g4_level_whole_path(copy->target, level, target->name) : strdup(target->name);
	const bool noted = path != NULL && g4_cli_links_note(&copy->links, stat->generation, stat->ino, path);

	free(path);
	return noted;
}

/* Other names of the source are copied before or after it. */
static bool copy_one_of_several(struct copy *copy, uint32_t worker, const struct g4_level *level,
				const struct place *source, const struct place *target, const struct gpu4fs_stat *stat)
{
	pthread_mutex_lock(&copy->links.lock);
	const enum linked linked = link_to_copy(copy, target, stat);
	bool good = linked == LINKED;
	if (linked == NOT_LINKED) {
		good = copy_one(copy, worker, source, target, stat);
		if (good && !note_copy(copy, level, target, stat))
			good = failed(target->path, -ENOMEM);
	}
	pthread_mutex_unlock(&copy->links.lock);
	return good;
}

/* A name that is no directory; in the directories of `level`, or, with NULL, of an argument. */
static bool copy_name(struct copy *copy, uint32_t worker, const struct g4_level *level, const struct place *source,
		      const struct place *target, const struct gpu4fs_stat *stat)
{
	if (is_same_file(copy, source, target, stat)) {
		g4_cli_error("cp", "%s and %s are the same file", source->path, target->path);
		return false;
	}
	if (was_made(copy, target)) {
		g4_cli_error("cp", "%s: not written over by %s, for it is a copy that was just made", target->path,
			     source->path);
		return false;
	}
	if ((copy->kept & G4_CP_LINKS) && stat->nlink > 1)
		return copy_one_of_several(copy, worker, level, source, target, stat);
	return copy_one(copy, worker, source, target, stat);
}

/* ------------------------------------------------------------------ trees */

static void take(struct g4_descent *descent, const struct g4_level *level, const char *name,
		 const struct gpu4fs_stat *listed, uint32_t worker)
{
	struct copy *copy = descent->context;
	struct place source, target;
	struct gpu4fs_stat stat;
	bool good;

	(void)listed;
	place_in(&source, level->from, copy->source, level, name);
	place_in(&target, level->to, copy->target, level, name);
	int rc = gpu4fs_lstat(copy->fs, level->from, name, &stat);
	if (rc == 0 && S_ISDIR(stat.mode))
		rc = -ESTALE;
	good = rc < 0 ? failed(source.path, rc) : copy_name(copy, worker, level, &source, &target, &stat);
	count(good ? &copy->files : &copy->failures);
}

/*
 * The target is ours to write into until all is there. A link in its place is not followed: the directory that it leads to, which is
 * anybody's, would get the source's owner and mode.
 */
static bool open_both(struct copy *copy, const struct place *source, const struct place *target,
		      const struct gpu4fs_stat *stat, struct g4_level *level)
{
	struct gpu4fs_stat made = {0};
	int rc = open_source(copy, source, O_DIRECTORY, stat, &level->from);

	if (rc < 0)
		return failed(source->path, rc);
	level->stat = *stat;
	rc = gpu4fs_mkdir(copy->fs, target->at, target->name, g4_cp_first_mode(copy->kept, stat->mode) | 0700);
	level->is_new = rc == 0;
	if (rc == 0 || rc == -EEXIST)
		rc = gpu4fs_open(copy->fs, target->at, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				 &level->to);
	if (rc == 0)
		rc = gpu4fs_fstat(level->to, &made);
	if (rc < 0)
		return failed(target->path, rc);
	level->to_inode = made.ino;
	level->to_device = made.generation;
	/* names that come into it get its policy */
	if (!keep_policy(copy, level->from, source->at, level->to, level->is_new, target->path))
		count(&copy->failures);
	return true;
}

static bool enter(struct g4_descent *descent, struct g4_level *level)
{
	struct copy *copy = descent->context;
	struct place source, target;
	struct gpu4fs_stat stat;
	int rc = gpu4fs_lstat(copy->fs, level->above->from, level->name, &stat);

	place_in(&source, level->above->from, copy->source, level->above, level->name);
	place_in(&target, level->above->to, copy->target, level->above, level->name);
	if (rc == 0 && !S_ISDIR(stat.mode))
		rc = -ESTALE;
	const bool good = rc < 0 ? failed(source.path, rc) : open_both(copy, &source, &target, &stat, level);
	if (!good)
		count(&copy->failures);
	return good;
}

static void leave(struct g4_descent *descent, const struct g4_level *level, bool complete, uint32_t worker)
{
	struct copy *copy = descent->context;
	const uint32_t of_owner = 0700u & ~level->stat.mode;
	struct gpu4fs_stat made;
	struct place target;
	bool good = complete, taken = false;

	(void)worker;
	if (good) {
		place_in(&target, NULL, copy->target, level, "");
		if (copy->kept & (G4_CP_MODE | G4_CP_OWNERSHIP | G4_CP_TIMESTAMPS | G4_CP_XATTR))
			good = keep(copy, &(struct g4_cp_name){.file = level->from}, &level->stat,
				    &(struct g4_cp_name){.file = level->to}, level->is_new, target.path);
		if (good && level->is_new && !(copy->kept & (G4_CP_MODE | G4_CP_OWNERSHIP)) && of_owner != 0) {
			int rc = gpu4fs_fstat(level->to, &made);
			if (rc == 0)
				rc = gpu4fs_fchmod(level->to, made.mode & ~of_owner & 07777);
			good = rc == 0 ? true : failed(target.path, rc);
		}
		good = good && keep_flags(copy, level->to, level->stat.flags, false, target.path, &taken);
	}
	count(good ? &copy->directories : &copy->failures);
}

static void level_failed(struct g4_descent *descent, const struct g4_level *level, const char *name, int64_t rc)
{
	struct copy *copy = descent->context;
	struct place source;

	place_in(&source, NULL, copy->source, level, name);
	count(&copy->failures);
	(void)failed(source.path, rc);
}

static bool skips(struct g4_descent *descent, const struct g4_level *level, const char *name, uint64_t ino)
{
	struct copy *copy = descent->context;
	struct place source;

	if (ino != copy->top)
		return false;
	place_in(&source, NULL, copy->source, level, name);
	g4_cli_error("cp", "%s: a directory is not copied into itself", source.path);
	count(&copy->failures);
	return true;
}

static void tell(struct g4_descent *descent)
{
	struct copy *copy = descent->context;
	char text[80];

	if (!g4_progress_wanted(&copy->progress))
		return;
	snprintf(text, sizeof(text), "%llu names",
		 (unsigned long long)(__atomic_load_n(&copy->files, __ATOMIC_RELAXED) +
				      __atomic_load_n(&copy->directories, __ATOMIC_RELAXED)));
	g4_progress_text(&copy->progress, text);
}

static bool copy_tree(struct copy *copy, const struct place *source, const struct place *target,
		      const struct gpu4fs_stat *stat)
{
	struct g4_descent descent = {.fs = copy->fs,
				     .context = copy,
				     .enter = enter,
				     .take = take,
				     .leave = leave,
				     .failed = level_failed,
				     .skips = skips,
				     .tell = tell,
				     .jobs = copy->jobs};
	struct g4_level *level = g4_level_new(NULL, "");

	if (level == NULL)
		return failed(source->path, -ENOMEM);
	copy->source = source->path;
	copy->target = target->path;
	if (!open_both(copy, source, target, stat, level)) {
		if (level->from != NULL)
			gpu4fs_close(level->from);
		if (level->to != NULL)
			gpu4fs_close(level->to);
		free(level);
		return false;
	}
	copy->top = level->to_inode;
	g4_progress_start(&copy->progress, "cp");
	const int rc = g4_descend(&descent, level);
	g4_progress_clear(&copy->progress);
	return rc == 0 ? copy->failures == 0 : failed(source->path, rc);
}

/* One that the caller named. */
static bool copy_named(struct copy *copy, const struct place *source, const struct place *target)
{
	struct gpu4fs_stat stat;
	const int rc = gpu4fs_lstat(copy->fs, source->at, source->name, &stat);

	if (rc < 0)
		return failed(source->path, rc);
	if (!S_ISDIR(stat.mode)) {
		const bool good = copy_name(copy, 0, NULL, source, target, &stat);
		copy->files += good;
		return good;
	}
	if (is_same_file(copy, source, target, &stat)) {
		g4_cli_error("cp", "%s and %s are the same file", source->path, target->path);
		return false;
	}
	if (!copy->recursive) {
		g4_cli_error("cp", "%s: is a directory, and -r was not given", source->path);
		return false;
	}
	return copy_tree(copy, source, target, &stat);
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
	if (path != NULL)
		good = copy_named(copy, &places[0], &places[1]);
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
	g4_cp_later_begin(&copy->later);
	for (long k = 0; k < copy->jobs && good; k++) {
		copy->buffers[k] = malloc(BUFFER_BYTES);
		good = copy->buffers[k] != NULL ? true : failed(target, -ENOMEM);
	}
	const bool ready = good;
	for (int i = 0; i < count && ready && !g4_cli_interrupted(); i++)
		good = copy_argument(copy, sources[i], target, into) && good;
	good = !g4_cli_ended_early("cp") && good;
	good = g4_cp_later_end(&copy->later, !g4_cli_interrupted()) && good;
	for (long k = 0; k < copy->jobs; k++)
		free(copy->buffers[k]);
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
		{"reflink", optional_argument, NULL, 'l'},  {"jobs", required_argument, NULL, 'j'},
		{"verbose", no_argument, NULL, 'v'},	    {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	struct copy copy = {.when = AUTO, .jobs = g4_cli_jobs()};
	bool verbose = false;
	uint32_t kept;

	for (int answer; (answer = getopt_long(argc, argv, ":adj:prRv", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'r' || answer == 'R')
			copy.recursive = true;
		else if (answer == 'v')
			verbose = true;
		else if (answer == 'j' && !g4_cli_parse_jobs(optarg, &copy.jobs))
			return g4_cli_usage("cp", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS, optarg);
		else if (answer == 'a' || answer == 'd' || answer == 'p' || answer == 'k' || answer == 'n') {
			const char *list = answer == 'a' ? "all" : answer == 'd' ? "links" : optarg;
			if (answer == 'p' || list == NULL)
				list = "mode,ownership,timestamps";
			if (!g4_cp_parse_kept(list, &kept))
				return g4_cli_usage(
					"cp", "%s",
					"what is kept is mode, ownership, timestamps, links, xattr, all, policy, flags");
			copy.kept = answer == 'n' ? copy.kept & ~kept : copy.kept | kept;
			copy.recursive |= answer == 'a';
		} else if (answer == 'l' && !parse_when(optarg ? optarg : "always", &copy.when))
			return g4_cli_usage("cp", "--reflink is auto, always or never, not '%s'", optarg);
		else if (answer != 'l' && answer != 'j')
			return g4_cli_bad_option("cp", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("cp", "one of --image and --socket is needed: on a mounted file system use cp(1)");
	if (argc - optind < 2)
		return g4_cli_usage("cp", "a source and a target are needed");
	copy.fs = g4_cli_attach("cp", image, socket);
	if (copy.fs == NULL)
		return G4_EXIT_FAILURE;
	g4_cli_catch_interrupts();
	int status = copy_all(&copy, argv + optind, argc - optind - 1, argv[argc - 1]);
	if (g4_cli_detach("cp", copy.fs, image != NULL ? image : socket) < 0)
		status = G4_EXIT_FAILURE;
	if (verbose)
		printf("%llu %s, %llu other %s\n", (unsigned long long)copy.directories,
		       g4_counted(copy.directories, "directory", "directories"), (unsigned long long)copy.files,
		       g4_counted(copy.files, "name", "names"));
	return status;
}
