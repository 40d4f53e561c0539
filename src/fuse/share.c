/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount whose engine serves programs over a socket as well (mount -o socket=): what the two have to tell each other.
 *
 * The kernel is not the only writer then. So it trusts nothing that it knows (time-outs of 0), reads and writes through
 * (FOPEN_DIRECT_IO), and collects no writes: options.c and file_ops.c. What remains is whose an inode without a name is. The engine
 * keeps each one for the kernel's FORGET, which never comes for one that the kernel has not met. This file counts what the kernel
 * knows, as the kernel does (one for each entry in a reply, FORGET gives a number of them back), and when a client's command takes
 * the last name of an inode, it either forgets that in the kernel's place or tells the kernel that the name is gone.
 *
 * An interrupted reply counts although the kernel did not take it: the inode then stays until the unmount.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log_host.h"
#include "format/format.h"
#include "fuse/ops.h"
#include "fuse/share.h"
#include "ring/serve_host.h"
#include "ring/session_host.h"

#define SHARDS 64u
#define FIRST_SLOTS 64u
#define FUSE_HANDLE_TYPE 0x81 /* of a file handle of a FUSE file system: FILEID_INO64_GEN */
#define FUSE_HANDLE_WORDS 3u

struct known { /* ino 0: nobody's slot */
	uint64_t ino, count;
};

struct shard { /* open addressing, at most half full; what has a count of 0 goes when the table grows */
	pthread_mutex_t lock;
	struct known *slots;
	uint32_t used, mask;
};

struct g4_fuse_share {
	struct g4_fuse_host *host;
	const struct g4_session_engine *engine; /* the real one */
	struct g4_session_engine shown;		/* to clients */
	struct g4_server *server;
	struct shard shards[SHARDS];
	dev_t device;		   /* of our mount */
	struct g4_mounted mounted; /* of the server's thread; not there: not asked yet */
};

/* ------------------------------------------------------------------ what the kernel knows */

static uint64_t hash_of(uint64_t ino)
{
	return ino * UINT64_C(0x9e3779b97f4a7c15) >> 24;
}

static struct known *slot_of(struct shard *shard, uint64_t ino)
{
	for (uint32_t i = (uint32_t)(hash_of(ino) / SHARDS);; i++) {
		struct known *slot = &shard->slots[i & shard->mask];
		if (slot->ino == ino || slot->ino == 0)
			return slot;
	}
}

/* Makes room for one more. False: no memory; what is there stays. */
static bool grow(struct shard *shard)
{
	struct shard old = *shard;
	uint32_t live = 1;

	if (shard->slots && (shard->used + 1) * 2 <= shard->mask)
		return true;
	for (uint32_t i = 0; old.slots && i <= old.mask; i++)
		live += old.slots[i].count > 0;
	uint32_t slots = FIRST_SLOTS;
	while (slots < live * 4)
		slots *= 2;
	shard->slots = calloc(slots, sizeof(*shard->slots));
	if (!shard->slots) {
		*shard = old;
		return false;
	}
	shard->mask = slots - 1;
	shard->used = live - 1;
	for (uint32_t i = 0; old.slots && i <= old.mask; i++)
		if (old.slots[i].count > 0)
			*slot_of(shard, old.slots[i].ino) = old.slots[i];
	free(old.slots);
	return true;
}

void g4_fuse_share_known(struct g4_fuse_host *host, uint64_t ino, int64_t change)
{
	struct g4_fuse_share *share = host->share;

	if (!share)
		return;
	struct shard *shard = &share->shards[hash_of(ino) % SHARDS];
	pthread_mutex_lock(&shard->lock);
	if (grow(shard)) { /* without memory it is as if the kernel did not know it: its FORGET comes early, and ESTALE for the caller */
		struct known *slot = slot_of(shard, ino);
		shard->used += slot->ino == 0;
		slot->ino = ino;
		slot->count = change < 0 && slot->count < (uint64_t)-change ? 0 : slot->count + (uint64_t)change;
	}
	pthread_mutex_unlock(&shard->lock);
}

static bool is_known(struct g4_fuse_share *share, uint64_t ino)
{
	struct shard *shard = &share->shards[hash_of(ino) % SHARDS];

	pthread_mutex_lock(&shard->lock);
	bool known = shard->slots && slot_of(shard, ino)->count > 0;
	pthread_mutex_unlock(&shard->lock);
	return known;
}

/* ------------------------------------------------------------------ commands of clients */

struct gone { /* a name, as the kernel may know it */
	uint64_t parent;
	char name[G4_NAME_MAX + 1];
	size_t bytes;
};

static void note_gone(struct gone *gone, uint64_t parent, const char *name, size_t bytes)
{
	gone->parent = parent;
	gone->bytes = bytes <= G4_NAME_MAX ? bytes : 0;
	memcpy(gone->name, name, gone->bytes);
	gone->name[gone->bytes] = 0;
}

/* No lock of the engine is held here, and no worker waits for this thread: the kernel may wait for them. */
static void tell_kernel(struct g4_fuse_share *share, const struct gone *gone, uint64_t ino)
{
	struct g4_fuse_host *host = share->host;
	struct g4_fuse_thread self = {.host = host, .fd = fuse_session_fd(host->session), .processor = -1};
	const uint64_t parent = gone->parent == host->root_ino ? FUSE_ROOT_ID : gone->parent;

	if (gone->bytes == 0)
		return;
	g4_fuse_self = &self; /* both fail where the kernel does not know the name, which is as well */
	if (ino)
		(void)fuse_lowlevel_notify_delete(host->session, parent, ino, gone->name, gone->bytes);
	else
		(void)fuse_lowlevel_notify_inval_entry(host->session, parent, gone->name, gone->bytes);
	g4_fuse_self = NULL;
}

/* An inode has lost its last name, and the engine holds it. */
static void lost_name(struct g4_fuse_share *share, const struct gone *gone, uint64_t ino)
{
	struct g4_cmd forget = {.op = G4_CMD_FORGET, .node = ino};

	if (is_known(share, ino))
		tell_kernel(share, gone, ino);
	else
		g4_engine_post(share->host->engine, &forget);
}

static int run_shared(void *context, struct g4_session *session, uint32_t number, struct g4_session_stage *stage)
{
	struct g4_fuse_share *share = context;
	int rc = share->engine->run(share->engine->context, session, number, stage);
	const uint32_t op = stage->slot.command.op;
	const struct g4_cmd *cmd = &stage->cmd;
	struct gone gone;

	if (rc < 0 || (op != G4_CMD_UNLINK && op != G4_CMD_RMDIR && op != G4_CMD_RENAME) || cmd->op != op)
		return rc;
	if (op == G4_CMD_RENAME) { /* the kernel would keep the inode for the name that it had */
		note_gone(&gone, cmd->node, cmd->name, cmd->name_bytes);
		tell_kernel(share, &gone, 0);
		note_gone(&gone, cmd->node2, cmd->name2, cmd->name2_bytes);
	} else {
		note_gone(&gone, cmd->node, cmd->name, cmd->name_bytes);
	}
	if (cmd->value)
		lost_name(share, &gone, cmd->value);
	return rc;
}

static int close_shared(void *context, struct g4_session *session)
{
	struct g4_fuse_share *share = context;

	return share->engine->close(share->engine->context, session);
}

static int unuse_shared(void *context, struct g4_session *session, uint64_t number)
{
	struct g4_fuse_share *share = context;

	return share->engine->unuse_handle(share->engine->context, session, number);
}

static int epochs_shared(void *context)
{
	struct g4_fuse_share *share = context;

	return share->engine->epochs(share->engine->context);
}

/* ------------------------------------------------------------------ descriptors of the kernel */

/* The device of a directory; 0: it cannot be told. No request is made: of a mount's root the kernel has it from the start. */
static dev_t device_of(int at, const char *path)
{
	struct statx found;

	return statx(at, path, AT_STATX_DONT_SYNC | (*path ? 0 : AT_EMPTY_PATH), 0, &found) == 0 ?
		       makedev(found.stx_dev_major, found.stx_dev_minor) :
		       0;
}

/* How open(2) would have opened what the handle allows; a negative code if it is of no use. */
static int access_of(struct g4_fuse_host *host, uint64_t handle, const struct g4_attr *attr)
{
	struct g4_cmd read = {.op = G4_CMD_READ, .handle = handle}, write = {.op = G4_CMD_WRITE, .handle = handle};

	bool reads = g4_engine_execute(host->engine, &read) != -G4_E_BADF;
	bool writes = g4_engine_execute(host->engine, &write) != -G4_E_BADF;
	if (S_ISDIR(attr->mode)) /* names may be walked through that may not be listed */
		return reads ? O_RDONLY | O_DIRECTORY : -G4_E_BADF;
	return reads && writes ? O_RDWR : writes ? O_WRONLY : reads ? O_RDONLY : -G4_E_BADF;
}

/*
 * Opened by number, as an NFS server does, so that it does not matter what names the file has or had, or whether its mode still lets
 * the client in: that was looked at when the client opened it. Needs CAP_DAC_READ_SEARCH.
 */
static int open_by_number(struct g4_fuse_host *host, const struct g4_attr *attr, int flags)
{
	struct {
		struct file_handle head;
		uint32_t words[FUSE_HANDLE_WORDS];
	} handle = {.head = {.handle_bytes = sizeof(handle.words), .handle_type = FUSE_HANDLE_TYPE}};
	const bool root = attr->ino == host->root_ino;
	int mount = open(host->share_path, (root ? flags : O_RDONLY | O_DIRECTORY) | O_CLOEXEC);
	int fd;

	if (mount < 0)
		return errno == EMFILE || errno == ENFILE ? -G4_E_NFILE : -G4_E_NOTSUP;
	if (device_of(mount, "") != host->share->device) { /* mounted over ours since; its numbers are other files' */
		close(mount);
		return -G4_E_STALE;
	}
	if (root)
		return mount;
	handle.words[0] = (uint32_t)(attr->ino >> 32);
	handle.words[1] = (uint32_t)attr->ino;
	handle.words[2] = (uint32_t)attr->generation;
	fd = open_by_handle_at(mount, &handle.head, flags | O_CLOEXEC);
	const int error = errno;
	close(mount);
	if (fd >= 0)
		return fd;
	return error == EPERM ? -G4_E_NOTSUP : error == ESTALE ? -G4_E_STALE : error == EMFILE ? -G4_E_NFILE : -G4_E_IO;
}

static int hand_over(void *context, uint64_t handle, uint32_t flags)
{
	struct g4_fuse_host *host = ((struct g4_fuse_share *)context)->host;
	struct g4_attr attr = {0};
	struct g4_cmd ask = {.op = G4_CMD_GETATTR, .handle = handle, .attr = &attr};
	int rc = g4_engine_execute(host->engine, &ask);

	if (rc == 0)
		rc = access_of(host, handle, &attr);
	return rc < 0 ? rc : open_by_number(host, &attr, rc | (int)flags | (S_ISREG(attr.mode) ? 0 : O_NONBLOCK));
}

/*
 * What does not change is asked once, by requests of the mount: the kernel does not know the number of a root of which it has had no attributes, and
 * takes no O_PATH descriptor for what may be opened by number. While something else is mounted over it, there is none.
 */
static void mounted(void *context, struct g4_mounted *out)
{
	struct g4_fuse_share *share = context;
	const struct g4_attr nobody = {0};
	struct statx found;

	if (!share->mounted.is_there && statx(AT_FDCWD, share->host->share_path, 0, STATX_INO, &found) == 0 &&
	    makedev(found.stx_dev_major, found.stx_dev_minor) == share->device)
		share->mounted = (struct g4_mounted){.is_there = true,
						     .hands_over = open_by_number(share->host, &nobody, O_RDONLY) !=
								   -G4_E_NOTSUP,
						     .device = share->device,
						     .ino = found.stx_ino};
	*out = share->mounted;
}

/* ------------------------------------------------------------------ start and end */

static void free_share(struct g4_fuse_share *share)
{
	for (uint32_t i = 0; i < SHARDS; i++) {
		pthread_mutex_destroy(&share->shards[i].lock);
		free(share->shards[i].slots);
	}
	free(share);
}

int g4_fuse_share_prepare(struct g4_fuse_host *host, char *message, size_t message_bytes)
{
	const struct g4_session_engine *engine = g4_engine_sessions(host->engine);
	struct g4_fuse_share *share;

	if (!engine->run || !engine->unuse_handle || !engine->epochs) {
		snprintf(message, message_bytes, "a mount with socket= needs the engine cpu");
		return -G4_E_NOTSUP;
	}
	share = calloc(1, sizeof(*share));
	if (!share) {
		snprintf(message, message_bytes, "cannot serve: %s", g4_strerror(-G4_E_NOMEM));
		return -G4_E_NOMEM;
	}
	share->host = host;
	share->engine = engine;
	share->shown = (struct g4_session_engine){.context = share,
						  .run = run_shared,
						  .close = close_shared,
						  .unuse_handle = unuse_shared,
						  .epochs = epochs_shared};
	for (uint32_t i = 0; i < SHARDS; i++)
		pthread_mutex_init(&share->shards[i].lock, NULL);
	host->share = share;
	return 0;
}

int g4_fuse_share_start(struct g4_fuse_host *host, const char *mountpoint, char *message, size_t message_bytes)
{
	const struct g4_server_options options = {.path = host->options.socket,
						  .mode = host->options.allow_other ? 0666 : 0600,
						  .hand_over = hand_over,
						  .mounted = mounted,
						  .context = host->share};

	host->share_path = mountpoint;
	host->share->device = device_of(AT_FDCWD, mountpoint);
	return g4_server_start(&host->share->shown, &options, &host->share->server, message, message_bytes);
}

void g4_fuse_share_stop(struct g4_fuse_host *host)
{
	if (host->share && host->share->server)
		g4_server_stop(host->share->server);
	if (host->share)
		host->share->server = NULL;
}

void g4_fuse_share_free(struct g4_fuse_host *host)
{
	if (host->share)
		free_share(host->share);
	host->share = NULL;
}
