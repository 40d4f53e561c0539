/* SPDX-License-Identifier: Apache-2.0 */
/* Making, mounting and unmounting; sessions and their credentials; state of the whole file system. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/mkfs_host.h"

#define MESSAGE_BYTES 512
#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)

/* The first versions of the public structures; later ones only grow. */
#define MKFS_OPTIONS_V1 sizeof(struct gpu4fs_mkfs_options)
#define OPTIONS_V1 offsetof(struct gpu4fs_options, engine)
#define CREDENTIALS_V1 sizeof(struct gpu4fs_credentials)

G4_STATIC_ASSERT(GPU4FS_FLAG_IMMUTABLE == G4_INODE_IMMUTABLE && GPU4FS_FLAG_APPEND == G4_INODE_APPEND &&
			 GPU4FS_FLAG_NODUMP == G4_INODE_NODUMP && GPU4FS_FLAG_NOATIME == G4_INODE_NOATIME,
		 "public inode flags");
G4_STATIC_ASSERT(GPU4FS_CHECKSUM_NONE == 1 + G4_CHECKSUM_NONE && GPU4FS_CHECKSUM_BLAKE3 == 1 + G4_CHECKSUM_BLAKE3 &&
			 GPU4FS_CHECKSUM_CRC32C == 1 + G4_CHECKSUM_CRC32C &&
			 GPU4FS_CHECKSUM_XXH3 == 1 + G4_CHECKSUM_XXH3,
		 "public checksums");
G4_STATIC_ASSERT(GPU4FS_GROUPS_MAX == G4_CRED_MAX_GROUPS, "public group limit");
G4_STATIC_ASSERT(G4C_NAME_MAX == G4_NAME_MAX && G4C_PATH_MAX == G4_PATH_MAX, "public name limits");
G4_STATIC_ASSERT(G4C_FILE_MAX_BYTES == G4_FILE_MAX_BYTES, "public size limit");

static __thread char last_message[MESSAGE_BYTES];

const char *gpu4fs_last_message(void)
{
	return last_message;
}

const char *gpu4fs_strerror(int result)
{
	static __thread char buffer[64];
	const char *text;

	if (result == 0)
		return "success";
	text = strerrordesc_np(-result);
	if (text)
		return text;
	snprintf(buffer, sizeof(buffer), "unknown error %d", result);
	return buffer;
}

const char *gpu4fs_version(void)
{
	return STRINGIFY(GPU4FS_VERSION_MAJOR) "." STRINGIFY(GPU4FS_VERSION_MINOR) "." STRINGIFY(GPU4FS_VERSION_PATCH);
}

/* ------------------------------------------------------------------ formatting */

int g4c_say(int error, const char *text)
{
	snprintf(last_message, sizeof(last_message), "%s", text);
	return error;
}

char *g4c_message(size_t *bytes)
{
	*bytes = sizeof(last_message);
	return last_message;
}

/* Opens a device and formats it. On success the device is the caller's. */
static int format_device(const char *const *names, uint32_t count, const struct gpu4fs_mkfs_options *given,
			 uint32_t lane_queues, struct g4_dev **out)
{
	struct gpu4fs_mkfs_options options;
	struct g4_dev_open_options open_options = {.flags = G4_DEV_EXCLUSIVE, .lane_queues = lane_queues};
	struct g4_mkfs_options mkfs_options;
	struct g4_superblock superblock;
	struct g4_dev *dev;
	const char *foreign;
	int rc;

	rc = g4c_copy_versioned(&options, sizeof(options), given, MKFS_OPTIONS_V1);
	if (rc)
		return g4c_say(rc, "the options of mkfs have an unknown size or field");
	if (!names || count == 0 || !names[0])
		return g4c_say(-EINVAL, "no device was named");
	if (count != 1)
		return g4c_say(-EOPNOTSUPP, "this version makes file systems of one device only");
	if (options.flags & ~(GPU4FS_MKFS_FORCE | GPU4FS_MKFS_DEDUP))
		return g4c_say(-EINVAL, "the options of mkfs have an unknown flag");
	if (options.checksum > G4_CHECKSUM_COUNT)
		return g4c_say(-EINVAL, "the options of mkfs name an unknown checksum");
	if ((options.flags & GPU4FS_MKFS_DEDUP) && options.checksum == GPU4FS_CHECKSUM_NONE)
		return g4c_say(-EINVAL,
			       "deduplication goes by checksums, and the options of mkfs say that there are none");
	if (options.dedup_quota != 0 && options.dedup_quota < G4_PAGE_BYTES)
		return g4c_say(-EINVAL, "a quota for listed pages is 4096 bytes at least");
	if (options.label && strlen(options.label) >= G4_LABEL_BYTES)
		return g4c_say(-EINVAL, "the label is longer than 63 bytes");

	if (options.create_bytes) {
		open_options.flags |= G4_DEV_CREATE;
		open_options.create_bytes = options.create_bytes;
	}
	rc = g4_dev_open(names[0], &open_options, &dev, last_message, sizeof(last_message));
	if (rc) {
		g4c_explain(rc, names[0], last_message, sizeof(last_message));
		return -g4_errno(rc);
	}
	foreign = options.flags & GPU4FS_MKFS_FORCE ? NULL : g4_probe_foreign(dev);
	if (foreign) {
		snprintf(last_message, sizeof(last_message), "%s holds %s; it is formatted only by force", names[0],
			 foreign);
		g4_dev_close(dev);
		return -EEXIST;
	}
	mkfs_options = (struct g4_mkfs_options){
		.label = options.label,
		.uuid = options.uuid,
		.checksum = options.checksum,
		.dedup = (options.flags & GPU4FS_MKFS_DEDUP) != 0,
		.journal_bytes = options.journal_bytes,
		.dedup_quota = options.dedup_quota,
		.root_uid = options.root_uid,
		.root_gid = options.root_gid,
		.root_mode = options.root_mode,
	};
	rc = g4_mkfs(dev, &mkfs_options, &superblock, last_message, sizeof(last_message));
	if (rc) {
		g4_dev_close(dev);
		g4c_explain(rc, names[0], last_message, sizeof(last_message));
		return -g4_errno(rc);
	}
	*out = dev;
	return 0;
}

int gpu4fs_mkfs(const char *const *names, uint32_t count, const struct gpu4fs_mkfs_options *options)
{
	struct g4_dev *dev = NULL;
	int rc;

	last_message[0] = 0;
	rc = format_device(names, count, options, 0, &dev);
	if (rc)
		return rc;
	g4_dev_close(dev);
	return 0;
}

/* ------------------------------------------------------------------ credentials */

/* The process's umask, without the moment in which umask(2) would change it for other threads. No malloc(): signal handlers may connect. */
static uint32_t process_umask(void)
{
	static const char name[] = "\nUmask:";
	const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char text[1024]; /* it is in the second line */

	if (fd < 0)
		return 022;
	const ssize_t bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = 0;
	const char *found = strstr(text, name);
	return found ? (uint32_t)strtoul(found + sizeof(name) - 1, NULL, 8) : 022;
}

static int process_credentials(struct g4_cred *cred)
{
	int count = getgroups(0, NULL);
	gid_t *groups;

	cred->uid = geteuid();
	cred->gid = getegid();
	cred->umask = process_umask();
	if (count <= 0)
		return 0;
	groups = malloc((size_t)count * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	count = getgroups(count, groups);
	for (int i = 0; i < count && i < (int)G4_CRED_MAX_GROUPS; i++)
		cred->groups[cred->group_count++] = groups[i];
	free(groups);
	return 0;
}

int g4c_credentials(const struct gpu4fs_credentials *given, struct g4_cred *cred, const char **cwd)
{
	struct gpu4fs_credentials copy;
	int rc;

	memset(cred, 0, sizeof(*cred));
	*cwd = NULL;
	if (!given)
		return process_credentials(cred);
	rc = g4c_copy_versioned(&copy, sizeof(copy), given, CREDENTIALS_V1);
	if (rc)
		return rc;
	if (copy.group_count > G4_CRED_MAX_GROUPS || (copy.group_count && !copy.groups) || (copy.umask & ~0777u))
		return -EINVAL;
	cred->uid = copy.uid;
	cred->gid = copy.gid;
	cred->umask = copy.umask;
	cred->group_count = copy.group_count;
	if (copy.group_count)
		memcpy(cred->groups, copy.groups, copy.group_count * sizeof(copy.groups[0]));
	*cwd = copy.cwd;
	return 0;
}

/* ------------------------------------------------------------------ sessions */

static void session_free(gpu4fs *fs)
{
	g4c_foresight_free(fs);
	g4c_pages_free(fs->pages);
	g4c_mirror_free(fs->mirror);
	pthread_cond_destroy(&fs->async_done);
	pthread_mutex_destroy(&fs->async_lock);
	free(fs);
}

/* Makes a session, its working directory not opened yet. */
static int session_new(struct g4c_mount *mount, const struct g4_cred *cred, bool primary, gpu4fs **out)
{
	pthread_condattr_t attributes;
	gpu4fs *fs = calloc(1, sizeof(*fs));
	int rc;

	if (!fs)
		return -ENOMEM;
	fs->mount = mount;
	fs->primary = primary;
	fs->cred = *cred;
	pthread_mutex_init(&fs->async_lock, NULL);
	rc = pthread_condattr_init(&attributes);
	if (!rc) {
		rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
		if (!rc)
			rc = pthread_cond_init(&fs->async_done, &attributes);
		pthread_condattr_destroy(&attributes);
	}
	if (rc) {
		pthread_mutex_destroy(&fs->async_lock);
		free(fs);
		return -ENOMEM;
	}
	if (g4_engine_epochs(mount->engine)) /* without memory for it, it asks */
		fs->mirror = g4c_mirror_new(g4_engine_epochs(mount->engine), G4C_MIRROR_ENTRIES);
	if (fs->mirror)
		fs->pages = g4c_pages_new(g4_engine_epochs(mount->engine));
	*out = fs;
	return 0;
}

static int session_open_cwd(gpu4fs *fs, const char *path)
{
	gpu4fs_file *cwd;
	int rc;

	if (!path)
		return 0;
	rc = gpu4fs_open(fs, NULL, path, O_RDONLY | O_DIRECTORY, 0, &cwd);
	if (rc)
		return rc;
	__atomic_sub_fetch(&fs->users, 1, __ATOMIC_RELAXED); /* it is the session's own, no reason to refuse closing */
	fs->cwd = cwd;
	return 0;
}

static int session_close_cwd(gpu4fs *fs)
{
	if (!fs->cwd)
		return 0;
	__atomic_add_fetch(&fs->users, 1, __ATOMIC_RELAXED);
	return gpu4fs_close(fs->cwd);
}

int gpu4fs_session(gpu4fs *fs, const struct gpu4fs_credentials *credentials, gpu4fs **out)
{
	struct g4c_mount *mount = fs->mount;
	struct g4_cred cred;
	const char *cwd;
	gpu4fs *session = NULL;
	int rc;

	rc = g4c_credentials(credentials, &cred, &cwd);
	if (rc)
		return rc;
	rc = session_new(mount, &cred, false, &session);
	if (rc)
		return rc;
	rc = session_open_cwd(session, cwd);
	if (rc) {
		session_free(session);
		return rc;
	}
	__atomic_add_fetch(&mount->sessions, 1, __ATOMIC_RELAXED);
	*out = session;
	return 0;
}

static bool session_busy(gpu4fs *fs)
{
	return __atomic_load_n(&fs->users, __ATOMIC_ACQUIRE) != 0 || g4c_async_busy(fs);
}

int gpu4fs_session_close(gpu4fs *session)
{
	struct g4c_mount *mount = session->mount;
	int rc;

	if (session->primary || session_busy(session))
		return -EBUSY;
	rc = session_close_cwd(session);
	session_free(session);
	__atomic_sub_fetch(&mount->sessions, 1, __ATOMIC_RELEASE);
	return rc;
}

/* ------------------------------------------------------------------ mount */

/* Everything that hangs on a mounted engine. On failure the engine is still the caller's. */
static int mount_new(struct g4_engine *engine, uint32_t threads, const struct g4_cred *cred, gpu4fs **out)
{
	struct g4c_mount *mount = calloc(1, sizeof(*mount));
	int rc = -ENOMEM;

	if (!mount)
		return -ENOMEM;
	mount->engine = engine;
	mount->pool_threads = threads;
	pthread_mutex_init(&mount->pool_lock, NULL);
	mount->locks = g4c_locks_new();
	if (!mount->locks)
		goto free_mount;
	rc = session_new(mount, cred, true, out);
	if (rc)
		goto free_locks;
	return 0;
free_locks:
	g4c_locks_free(mount->locks);
free_mount:
	pthread_mutex_destroy(&mount->pool_lock);
	free(mount);
	return rc;
}

static void mount_free(struct g4c_mount *mount)
{
	g4c_pool_free(mount);
	g4c_locks_free(mount->locks);
	pthread_mutex_destroy(&mount->pool_lock);
	free(mount);
}

int g4c_open_engine(struct g4_engine *engine, uint32_t threads, const struct g4_cred *cred, const char *cwd,
		    gpu4fs **out)
{
	gpu4fs *fs;
	int rc;

	rc = mount_new(engine, threads, cred, &fs);
	if (rc) {
		g4_engine_unmount(engine);
		return g4c_say(rc, "out of memory");
	}
	rc = session_open_cwd(fs, cwd);
	if (rc) {
		gpu4fs_unmount(fs);
		return g4c_say(rc, "the working directory cannot be opened");
	}
	*out = fs;
	return 0;
}

int gpu4fs_mount(const char *const *names, uint32_t count, const struct gpu4fs_options *options, gpu4fs **out)
{
	static const struct {
		uint32_t public_flag, engine_flag;
	} flags[] = {
		{GPU4FS_READ_ONLY, G4_MOUNT_READ_ONLY},	    {GPU4FS_NOATIME, G4_MOUNT_NOATIME},
		{GPU4FS_STRICTATIME, G4_MOUNT_STRICTATIME}, {GPU4FS_NO_REPLAY, G4_MOUNT_NO_REPLAY},
		{GPU4FS_DEGRADED, G4_MOUNT_DEGRADED},	    {GPU4FS_DEDUP_VERIFY, G4_MOUNT_DEDUP_VERIFY},
	};
	struct gpu4fs_options own;
	struct g4_mount_options engine_options;
	struct g4_engine *engine;
	struct g4_cred cred;
	const char *cwd;
	int rc;

	last_message[0] = 0;
	rc = g4c_copy_versioned(&own, sizeof(own), options, OPTIONS_V1);
	if (rc)
		return g4c_say(rc, "the mount options have an unknown size or field");
	if (!names || count == 0)
		return g4c_say(-EINVAL, "no device was named");
	rc = g4c_credentials(own.credentials, &cred, &cwd);
	if (rc)
		return g4c_say(rc, "the credentials are not valid");

	engine_options = (struct g4_mount_options){.commit_ms = own.commit_ms,
						   .cache_bytes = own.cache_bytes,
						   .tier_bytes = own.tier_bytes,
						   .sms = own.multiprocessors,
						   .gpu_queues = own.gpu_queues};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (own.flags & flags[i].public_flag)
			engine_options.flags |= flags[i].engine_flag;
		own.flags &= ~flags[i].public_flag;
	}
	if (own.flags)
		return g4c_say(-EINVAL, "the mount options have an unknown flag");
	if (own.engine && g4_engine_parse_kind(own.engine, &engine_options.kind) < 0)
		return g4c_say(-EINVAL, "the engine is none of cpu, cuda and auto");
	if ((engine_options.flags & G4_MOUNT_NO_REPLAY) && !(engine_options.flags & G4_MOUNT_READ_ONLY))
		return g4c_say(-EINVAL, "without replaying its journal a file system can be mounted only read-only");

	rc = g4c_check_options(&engine_options, last_message, sizeof(last_message));
	if (rc)
		return -g4_errno(rc);
	if (own.format) {
		struct g4_dev *dev = NULL;

		rc = format_device(names, count, own.format, own.gpu_queues, &dev);
		if (rc)
			return rc;
		rc = g4_engine_mount_device(dev, &engine_options, &engine, last_message, sizeof(last_message));
	} else {
		rc = g4_engine_mount(names, count, &engine_options, &engine, last_message, sizeof(last_message));
	}
	if (rc) {
		g4c_explain(rc, names[0], last_message, sizeof(last_message));
		return -g4_errno(rc);
	}

	return g4c_open_engine(engine, own.async_threads, &cred, cwd, out);
}

int gpu4fs_unmount(gpu4fs *fs)
{
	struct g4c_mount *mount = fs->mount;
	int rc, first;

	if (!fs->primary || session_busy(fs) || __atomic_load_n(&mount->sessions, __ATOMIC_ACQUIRE) != 0)
		return -EBUSY;
	first = session_close_cwd(fs);
	session_free(fs);
	rc = g4_engine_unmount(mount->engine);
	mount_free(mount);
	if (first)
		return first;
	return rc < 0 ? -g4_errno(rc) : 0;
}
