/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cp_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALUE_BYTES (64u << 10) /* of the largest attribute */

static const char access_list[] = "system.posix_acl_access", default_list[] = "system.posix_acl_default";

bool g4_cp_parse_kept(const char *list, uint32_t *kept)
{
	static const struct {
		const char *word;
		uint32_t bits;
	} words[] = {{"mode", G4_CP_MODE},     {"ownership", G4_CP_OWNERSHIP}, {"timestamps", G4_CP_TIMESTAMPS},
		     {"links", G4_CP_LINKS},   {"xattr", G4_CP_XATTR},	       {"all", G4_CP_ALL},
		     {"policy", G4_CP_POLICY}, {"flags", G4_CP_FLAGS}};

	*kept = 0;
	for (;;) {
		const size_t bytes = strcspn(list, ",");
		uint32_t k = 0;
		while (k < sizeof(words) / sizeof(words[0]) &&
		       (strlen(words[k].word) != bytes || strncmp(words[k].word, list, bytes) != 0))
			k++;
		if (k == sizeof(words) / sizeof(words[0]))
			return false;
		*kept |= words[k].bits;
		if (list[bytes] == 0)
			return true;
		list += bytes + 1;
	}
}

/* ------------------------------------------------------------------ attributes */

static int64_t list_of(gpu4fs *fs, const struct g4_cp_name *of, char *names, size_t bytes)
{
	return of->file != NULL ? gpu4fs_flistxattr(of->file, names, bytes) :
				  gpu4fs_llistxattr(fs, of->at, of->name, names, bytes);
}

static int64_t value_of(gpu4fs *fs, const struct g4_cp_name *of, const char *name, void *value)
{
	return of->file != NULL ? gpu4fs_fgetxattr(of->file, name, value, VALUE_BYTES) :
				  gpu4fs_lgetxattr(fs, of->at, of->name, name, value, VALUE_BYTES);
}

static int64_t set_value(gpu4fs *fs, const struct g4_cp_name *of, const char *name, const void *value, int64_t bytes)
{
	return of->file != NULL ? gpu4fs_fsetxattr(of->file, name, value, (size_t)bytes, 0) :
				  gpu4fs_lsetxattr(fs, of->at, of->name, name, value, (size_t)bytes, 0);
}

static int64_t remove_value(gpu4fs *fs, const struct g4_cp_name *of, const char *name)
{
	const int rc = of->file != NULL ? gpu4fs_fremovexattr(of->file, name) :
					  gpu4fs_lremovexattr(fs, of->at, of->name, name);

	return rc == -ENODATA ? 0 : rc;
}

static bool is_kept(uint32_t kept, const char *name, bool root)
{
	if (strncmp(name, "system.posix_acl_", 17) == 0)
		return kept & G4_CP_MODE;
	return (kept & G4_CP_XATTR) && (root || strncmp(name, "user.", 5) == 0);
}

/* One that goes between the list and the value is gone. */
static int64_t copy_value(gpu4fs *fs, const struct g4_cp_name *from, const struct g4_cp_name *to, const char *name,
			  void *value)
{
	const int64_t got = value_of(fs, from, name, value);

	if (got < 0)
		return got == -ENODATA ? 0 : got;
	return set_value(fs, to, name, value, got);
}

/* The source's lists, or where it has none no others: a copy inherits some from its directory. */
static int64_t copy_lists(gpu4fs *fs, const struct g4_cp_name *from, const struct g4_cp_name *to, uint32_t mode,
			  void *value)
{
	const char *const lists[] = {access_list, default_list};
	const uint32_t count = S_ISLNK(mode) ? 0 : S_ISDIR(mode) ? 2 : 1;
	int64_t rc = 0;

	for (uint32_t k = 0; k < count && rc == 0; k++) {
		const int64_t got = value_of(fs, from, lists[k], value);
		if (got == -ENODATA)
			rc = remove_value(fs, to, lists[k]);
		else
			rc = got < 0 ? got : set_value(fs, to, lists[k], value, got);
	}
	return rc;
}

static int64_t copy_xattrs(gpu4fs *fs, uint32_t kept, const struct g4_cp_name *from, const struct g4_cp_name *to,
			   uint32_t mode, bool root)
{
	int64_t bytes = kept & G4_CP_XATTR ? list_of(fs, from, NULL, 0) : 0;
	int64_t rc = bytes < 0 ? bytes : 0;
	void *value = malloc(VALUE_BYTES);
	char *names = malloc(bytes > 0 ? (size_t)bytes : 1);

	if (value == NULL || names == NULL)
		rc = -ENOMEM;
	if (rc == 0 && bytes > 0) {
		bytes = list_of(fs, from, names, (size_t)bytes);
		rc = bytes < 0 ? bytes : 0;
	}
	for (int64_t at = 0; rc == 0 && at < bytes; at += (int64_t)strlen(names + at) + 1)
		if (is_kept(kept & ~G4_CP_MODE, names + at, root))
			rc = copy_value(fs, from, to, names + at, value);
	if (rc == 0 && (kept & G4_CP_MODE))
		rc = copy_lists(fs, from, to, mode, value);
	free(names);
	free(value);
	return rc;
}

/* ------------------------------------------------------------------ policies */

static const char domain_name[] = "gpu4fs.domain", dedup_name[] = "gpu4fs.dedup", domain_word[] = "domain";

struct word {
	char text[32]; /* more than any of them */
};

static int64_t word_of(gpu4fs_file *file, const char *name, struct word *word)
{
	const int64_t bytes = gpu4fs_fgetxattr(file, name, word->text, sizeof(word->text) - 1);

	word->text[bytes > 0 ? bytes : 0] = 0;
	return bytes < 0 ? bytes : 0;
}

static int64_t set_word(gpu4fs_file *file, const char *name, const char *text)
{
	return gpu4fs_fsetxattr(file, name, text, strlen(text), 0);
}

static bool is_word(const struct word *word, const char *text)
{
	return strcmp(word->text, text) == 0;
}

/* Whether a file is of another domain than the directory that it is in, so that its copy may not be of that one's. 1, 0, or a negative errno. */
static int64_t is_apart(gpu4fs_file *from, gpu4fs_file *above)
{
	struct word its, directorys;
	int64_t rc;

	if (above == NULL)
		return 0;
	rc = word_of(from, domain_name, &its);
	if (rc == 0)
		rc = word_of(above, domain_name, &directorys);
	return rc < 0 ? rc : !is_word(&its, directorys.text);
}

static int64_t keep_dedup(gpu4fs_file *from, gpu4fs_file *above, gpu4fs_file *to, bool is_new)
{
	struct word wanted, there;
	int64_t rc = word_of(from, dedup_name, &wanted);

	if (rc == 0)
		rc = word_of(to, dedup_name, &there);
	if (rc < 0)
		return rc;
	if (is_word(&there, domain_word)) { /* what is in a directory that is a domain stays in it */
		rc = is_new && is_word(&wanted, domain_word) ? is_apart(from, above) : 0;
		if (rc <= 0)
			return rc;
		rc = set_word(to, dedup_name, "on"); /* of no domain, so that a new one begins */
		return rc < 0 ? rc : set_word(to, dedup_name, domain_word);
	}
	return is_word(&there, wanted.text) ? 0 : set_word(to, dedup_name, wanted.text);
}

int64_t g4_cp_keep_policy(gpu4fs_file *from, gpu4fs_file *above, gpu4fs_file *to, bool is_new)
{
	static const char *const names[] = {"gpu4fs.checksum", "gpu4fs.raid"};
	int64_t rc = keep_dedup(from, above, to, is_new);

	for (uint32_t k = 0; k < sizeof(names) / sizeof(names[0]) && rc == 0; k++) {
		struct word wanted, there;
		rc = word_of(from, names[k], &wanted);
		if (rc == 0)
			rc = word_of(to, names[k], &there);
		if (rc == 0 && !is_word(&there, wanted.text))
			rc = set_word(to, names[k], wanted.text);
	}
	return rc;
}

/* ------------------------------------------------------------------ flags */

struct g4_cp_flagged {
	struct g4_cp_flagged *next;
	gpu4fs_file *file; /* open: whatever has its name by then */
	uint32_t flags;
	char path[];
};

void g4_cp_later_begin(struct g4_cp_later *later)
{
	pthread_mutex_init(&later->lock, NULL);
	later->first = NULL;
}

int64_t g4_cp_keep_flags(gpu4fs *fs, struct g4_cp_later *later, gpu4fs_file *to, uint32_t flags, bool at_once,
			 const char *path, bool *taken)
{
	const uint32_t last = at_once ? 0 : flags & G4_CP_LAST_FLAGS;
	struct gpu4fs_stat stat;
	struct g4_cp_flagged *flagged;
	int64_t rc = gpu4fs_fstat(to, &stat);

	if (rc == 0 && stat.flags != (flags & ~last))
		rc = gpu4fs_fchflags(to, flags & ~last);
	if (rc < 0 || last == 0)
		return rc;
	flagged = malloc(sizeof(*flagged) + strlen(path) + 1);
	if (flagged == NULL)
		return -ENOMEM;
	flagged->flags = flags;
	memcpy(flagged->path, path, strlen(path) + 1);
	flagged->file = to;
	if (S_ISDIR(stat.mode)) /* the walk closes it */
		rc = gpu4fs_open(fs, to, ".", O_RDONLY | O_DIRECTORY, 0, &flagged->file);
	if (rc < 0) {
		free(flagged);
		return rc;
	}
	*taken = !S_ISDIR(stat.mode);
	pthread_mutex_lock(&later->lock);
	flagged->next = later->first;
	later->first = flagged;
	pthread_mutex_unlock(&later->lock);
	return 0;
}

bool g4_cp_later_end(struct g4_cp_later *later, bool good)
{
	bool set = true;

	while (later->first != NULL) {
		struct g4_cp_flagged *flagged = later->first;
		const int kept = good ? gpu4fs_fchflags(flagged->file, flagged->flags) : 0;
		const int closed = gpu4fs_close(flagged->file), rc = kept < 0 ? kept : closed;
		if (rc < 0)
			g4_cli_error("cp", "%s: not all attributes were kept: %s", flagged->path, g4_cli_why(-rc));
		set = set && rc == 0;
		later->first = flagged->next;
		free(flagged);
	}
	pthread_mutex_destroy(&later->lock);
	return set;
}

/* ------------------------------------------------------------------ all */

static int64_t set_mode(gpu4fs *fs, const struct g4_cp_name *to, uint32_t mode)
{
	return to->file != NULL ? gpu4fs_fchmod(to->file, mode) : gpu4fs_chmod(fs, to->at, to->name, mode);
}

static pthread_once_t umask_once = PTHREAD_ONCE_INIT;
static mode_t process_umask;

/* Reading it changes it for a moment: several threads would take each other's. */
static void read_umask(void)
{
	process_umask = umask(077);
	umask(process_umask);
}

static uint32_t umask_now(void)
{
	pthread_once(&umask_once, read_umask);
	return process_umask;
}

int64_t g4_cp_keep(gpu4fs *fs, uint32_t kept, const struct g4_cp_name *from, const struct gpu4fs_stat *stat,
		   const struct g4_cp_name *to, bool is_new)
{
	const struct timespec times[2] = {stat->atime, stat->mtime};
	const bool root = geteuid() == 0;
	uint32_t mode = stat->mode & 07777;
	int64_t rc = 0;

	if (kept & G4_CP_OWNERSHIP) {
		rc = to->file != NULL ? gpu4fs_fchown(to->file, stat->uid, stat->gid) :
					gpu4fs_chown(fs, to->at, to->name, stat->uid, stat->gid, AT_SYMLINK_NOFOLLOW);
		if (rc == -EPERM && !root) {
			mode &= ~(uint32_t)(S_ISUID | S_ISGID);
			rc = 0;
		}
	}
	if (rc == 0 && (kept & (G4_CP_MODE | G4_CP_XATTR)))
		rc = copy_xattrs(fs, kept, from, to, stat->mode, root);
	if (rc == 0 && !S_ISLNK(stat->mode)) {
		if (kept & G4_CP_MODE)
			rc = set_mode(fs, to, mode);
		else if ((kept & G4_CP_OWNERSHIP) && is_new)
			rc = set_mode(fs, to, mode & ~umask_now() & 01777);
	}
	if (rc == 0 && (kept & G4_CP_TIMESTAMPS))
		rc = to->file != NULL ? gpu4fs_futimens(to->file, times) :
					gpu4fs_utimens(fs, to->at, to->name, times, AT_SYMLINK_NOFOLLOW);
	return rc;
}
