/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files: open, create, read, write, release, fsync, fallocate, seek, copy.
 *
 * With the kernel's write-back cache the engine learns of a write only when the kernel writes the page back, at the
 * latest on close() of the last writable description or on fsync(). The kernel flushes by itself before it asks for
 * anything that depends on the contents, with one exception: lseek() for data or holes. See "seek" below.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_host.h"
#include "fuse/ops.h"
#include "fuse/server.h"

static atomic_uint *writer_count(struct g4_fuse_host *host, uint64_t ino)
{
	return &host->writers[(ino * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - G4_FUSE_WRITERS_BITS)];
}

/* step is 1 at open and -1 (as unsigned: wraps) at release of a description opened with these flags. */
void g4_fuse_writer_opened(struct g4_fuse_host *host, uint64_t ino, int flags, int step)
{
	if ((flags & O_ACCMODE) != O_RDONLY)
		atomic_fetch_add(writer_count(host, ino), (unsigned)step);
}

bool g4_fuse_may_be_written(struct g4_fuse_host *host, uint64_t ino)
{
	return atomic_load(writer_count(host, ino)) != 0;
}

void g4_fuse_release_handle(struct g4_fuse_host *host, uint64_t handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = handle};

	/* Nobody is left to hear of an error; the next fsync or the unmount reports a lost write. */
	g4_engine_post(host->engine, &cmd);
}

/*
 * Drops set-id bits as a write by somebody without CAP_FSETID does. The kernel sets a flag in the request for it, in every
 * direct write of an ordinary user, and keeps the mode it knows; it is told to ask again where the mode has changed.
 */
static int kill_suidgid(fuse_req_t req, uint64_t ino)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct g4_attr attr;
	struct g4_cred cred;
	struct g4_cmd get = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};
	struct g4_cmd set = {
		.op = G4_CMD_SETATTR, .node = ino, .mask = G4_SET_KILL_SUIDGID, .attr = &attr, .cred = &cred};
	int result = host->killpriv ? g4_fuse_ask(host, &get) : 0;

	if (!host->killpriv || result < 0 || !(attr.mode & (S_ISUID | S_ISGID)))
		return result;
	g4_fuse_credentials(req, &cred);
	g4_fuse_add_groups_for(req, ino, &cred);
	result = g4_engine_execute(host->engine, &set);
	if (result >= 0)
		(void)fuse_lowlevel_notify_inval_inode(host->session, ino, -1, 0);
	return result;
}

/*
 * Where a request that changes contents has no such flag, the engine drops the bits, for everyone but root, and what the
 * kernel thinks the mode is must go when it has (changed_by()), since a program is executed with that.
 */
static void changer_credentials(fuse_req_t req, uint64_t ino, struct g4_cred *cred)
{
	g4_fuse_credentials(req, cred);
	cred->flags = 0; /* nothing but this is asked of them here */
	g4_fuse_add_groups_for(req, ino, cred);
}

static void changed_by(fuse_req_t req, uint64_t ino, const struct g4_cred *cred)
{
	if (cred->uid != 0)
		(void)fuse_lowlevel_notify_inval_inode(g4_fuse_host_of(req)->session, ino, -1, 0);
}

/* The arguments of the request at hand, as the kernel sent them: libfuse passes on only some of their flags. */
static const void *raw_arguments(void)
{
	return g4_fuse_self->head + sizeof(struct fuse_in_header);
}

static int open_node(fuse_req_t req, fuse_ino_t ino, bool writeback, struct fuse_file_info *fi)
{
	struct g4_cred cred;
	struct g4_attr attr;
	struct g4_cmd cmd = {
		.op = G4_CMD_OPEN,
		.node = ino,
		.flags = g4_fuse_open_flags(fi->flags, writeback),
		.attr = &attr,
		.cred = &cred,
	};
	int result;

	g4_fuse_credentials(req, &cred);
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	fi->fh = g4_fuse_file(cmd.handle, fi->flags, writeback);
	return result;
}

/* Of a file that somebody else may change as well the kernel keeps nothing, but for mappings. */
static void how_it_caches(const struct g4_fuse_host *host, struct fuse_file_info *fi)
{
	fi->keep_cache = !host->share;
	fi->direct_io |= host->share != NULL;
}

/*
 * keep_cache: nobody else writes. direct_io stays off also for O_DIRECT, which the kernel does by itself then, with shared
 * mappings intact. The one exception is a file with the append-only attribute: the write-back cache rewrites whole pages,
 * which such a file must refuse, so its writes go straight through and the engine appends them.
 */
void g4_fuse_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	const struct fuse_open_in *raw = raw_arguments();
	int result = open_node(req, ino, host->writeback, fi);

	if (result == -G4_E_PERM && host->writeback && (fi->flags & O_APPEND)) {
		result = open_node(req, ino, false, fi);
		fi->direct_io = result >= 0;
	}
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	if ((fi->flags & O_TRUNC) && (raw->open_flags & FUSE_OPEN_KILL_SUIDGID)) {
		result = kill_suidgid(req, ino);
		if (result < 0) {
			g4_fuse_release_handle(host, g4_fuse_handle(fi));
			fuse_reply_err(req, g4_errno(result));
			return;
		}
	}
	how_it_caches(host, fi);
	fi->noflush = !host->writeback;
	g4_fuse_writer_opened(host, ino, fi->flags, 1);
	if (fuse_reply_open(req, fi) == -ENOENT) {
		/* The open was interrupted: the kernel will not release what it does not know. */
		g4_fuse_writer_opened(host, ino, fi->flags, -1);
		g4_fuse_release_handle(host, g4_fuse_handle(fi));
	}
}

void g4_fuse_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	const struct fuse_create_in *raw = raw_arguments();
	struct fuse_entry_param entry;
	struct g4_attr attr = {0};
	struct g4_cred cred;
	struct g4_cmd cmd = {
		.op = G4_CMD_CREATE,
		.node = parent,
		.name = name,
		.name_bytes = (uint16_t)g4_min64(strlen(name), UINT16_MAX),
		.flags = g4_fuse_open_flags(fi->flags, host->writeback),
		.mode = mode & 07777,
		.attr = &attr,
		.cred = &cred,
	};
	int result;

	g4_fuse_credentials(req, &cred);
	result = g4_engine_execute(host->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	/* somebody else made it since the kernel looked: what open() does with O_TRUNC is due */
	if (cmd.value == 0 && (fi->flags & O_TRUNC) && (raw->open_flags & FUSE_OPEN_KILL_SUIDGID)) {
		struct g4_cmd get = {.op = G4_CMD_GETATTR, .handle = cmd.handle, .attr = &attr};

		result = kill_suidgid(req, attr.ino);
		if (result >= 0)
			result = g4_engine_execute(host->engine, &get);
		if (result < 0) {
			g4_fuse_release_handle(host, cmd.handle);
			fuse_reply_err(req, g4_errno(result));
			return;
		}
	}
	g4_fuse_entry(host, &attr, &entry);
	fi->fh = g4_fuse_file(cmd.handle, fi->flags, host->writeback);
	how_it_caches(host, fi);
	fi->noflush = !host->writeback;
	g4_fuse_writer_opened(host, attr.ino, fi->flags, 1);
	if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
		g4_fuse_writer_opened(host, attr.ino, fi->flags, -1);
		g4_fuse_release_handle(host, cmd.handle);
	}
}

/*
 * The kernel takes what a short answer lacks for zeros: so what stops before the end of the file says why, and the kernel asks for the
 * pages one by one.
 */
void g4_fuse_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_READ,
		.node = ino,
		.handle = g4_fuse_handle(fi),
		.offset = (uint64_t)offset,
		.length = g4_min64(size, G4_FUSE_MAX_WRITE),
		.data = g4_fuse_self->data,
	};
	int result;

	do {
		result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
		if (result < 0 || cmd.value == 0)
			break;
		cmd.offset += cmd.value;
		cmd.data = (uint8_t *)cmd.data + cmd.value;
		cmd.length -= cmd.value;
	} while (cmd.length > 0 && cmd.offset % G4_PAGE_BYTES == 0); /* inside a page only the file ends */
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_buf(req, (const char *)g4_fuse_self->data,
			       (uint64_t)((uint8_t *)cmd.data - g4_fuse_self->data));
}

/*
 * For the thread that makes the kernel write pages back or drop them, which no worker may wait for ("Seek" below): what to do
 * before a seek is answered, or, without a request, a write whose pages are to go.
 */
struct g4_fuse_seek_job {
	struct g4_fuse_seek_job *next;
	fuse_req_t req; /* or NULL */
	int fd;
	uint64_t ino;
	struct g4_cmd cmd;
};
static bool post_job(struct g4_fuse_host *host, const struct g4_fuse_seek_job *work);

/*
 * A write out of the kernel's cache failed. The kernel would go on taking data for the file, and lose it, until somebody
 * closes it. Before each write(2) it asks for the attributes when it has none: so that is made to happen, and
 * op_getattr() gives the writer the error. What is lost leaves the kernel's cache, or readers would see it until the
 * next mount.
 */
static void write_lost(struct g4_fuse_host *host, uint64_t ino, const struct g4_cmd *write, int error)
{
	const bool first = error == -G4_E_NOSPC ? !atomic_exchange(&host->no_room, true) :
						  atomic_exchange(&host->lost, error) == 0;
	if (first)
		g4_log(G4_LOG_ERROR, "data that programs wrote is lost: %s", g4_strerror(error));
	(void)post_job(host, &(struct g4_fuse_seek_job){.fd = g4_fuse_self->fd, .ino = ino, .cmd = *write});
	if (error != -G4_E_NOSPC)
		return;
	atomic_store(&host->full, (unsigned)g4_pages_for(write->length));
	(void)fuse_lowlevel_notify_inval_inode(host->session, ino, -1, 0); /* fails only where nothing is cached */
}

/* Whether a write through this handle would find no space; the kernel asks for attributes with one before it writes. */
bool g4_fuse_is_full_for(struct g4_fuse_host *host, uint64_t handle)
{
	struct g4_statfs statfs;
	struct g4_cmd space = {.op = G4_CMD_STATFS, .data = &statfs, .length = sizeof(statfs)};
	struct g4_cmd nothing = {.op = G4_CMD_WRITE, .handle = handle};

	if (g4_engine_execute(host->engine, &space) < 0)
		return false;
	if (statfs.blocks_available > atomic_load(&host->full)) {
		atomic_store(&host->full, 0);
		return false;
	}
	return g4_engine_execute(host->engine, &nothing) != -G4_E_BADF; /* said to a handle that is not for writing */
}

/* The payload is in the worker's aligned buffer (wire.c); bufv only says how long it is. */
void g4_fuse_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t offset,
		       struct fuse_file_info *fi)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	const struct fuse_write_in *raw = raw_arguments();
	struct g4_cmd cmd = {
		.op = G4_CMD_WRITE,
		.node = ino,
		.handle = g4_fuse_handle(fi),
		.offset = (uint64_t)offset,
		.length = fuse_buf_size(bufv),
		.data = g4_fuse_self->data,
		.flags = raw->write_flags & FUSE_WRITE_CACHE ? G4_WRITE_TAKEN : 0,
	};
	int result = 0;

	if (raw->write_flags & FUSE_WRITE_KILL_SUIDGID)
		result = kill_suidgid(req, ino);
	if (result >= 0)
		result = g4_engine_execute(host->engine, &cmd);
	if (raw->write_flags & FUSE_WRITE_CACHE) {
		/* nobody looks at how much of it was written: all, or there is an error */
		while (result >= 0 && cmd.value < cmd.length) {
			cmd.offset += cmd.value;
			cmd.data = (uint8_t *)cmd.data + cmd.value;
			cmd.length -= cmd.value;
			result = g4_engine_execute(host->engine, &cmd);
		}
		cmd.value = fuse_buf_size(bufv);
		if (result < 0)
			write_lost(host, ino, &cmd, result);
	}
	g4_fuse_space_taken(host, fuse_buf_size(bufv));
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_write(req, cmd.value);
}

void g4_fuse_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);

	g4_fuse_release_handle(host, g4_fuse_handle(fi));
	g4_fuse_writer_opened(host, ino, fi->flags, -1);
	fuse_reply_err(req, 0);
}

static void fsync_command(fuse_req_t req, uint64_t ino, uint64_t handle, int datasync)
{
	struct g4_cmd cmd = {.op = G4_CMD_FSYNC, .node = ino, .handle = handle, .flags = datasync ? G4_FSYNC_DATA : 0};
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);

	fuse_reply_err(req, result < 0 ? g4_errno(result) : 0);
}

void g4_fuse_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	fsync_command(req, ino, g4_fuse_handle(fi), datasync);
}

void g4_fuse_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)fi;
	fsync_command(req, ino, 0, datasync);
}

void g4_fuse_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {
		.op = G4_CMD_FALLOCATE,
		.node = ino,
		.handle = g4_fuse_handle(fi),
		.offset = (uint64_t)offset,
		.length = (uint64_t)length,
		.flags = (uint32_t)mode,
		.cred = &cred,
	};
	int result;

	changer_credentials(req, ino, &cred);
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	changed_by(req, ino, &cred);
	g4_fuse_space_taken(g4_fuse_host_of(req), cmd.length);
	fuse_reply_err(req, result < 0 ? g4_errno(result) : 0);
}

void g4_fuse_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in, struct fuse_file_info *fi_in,
			     fuse_ino_t ino_out, off_t offset_out, struct fuse_file_info *fi_out, size_t length,
			     int flags)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {
		.op = G4_CMD_COPY_RANGE,
		.handle = g4_fuse_handle(fi_in),
		.handle2 = g4_fuse_handle(fi_out),
		.offset = (uint64_t)offset_in,
		.length = length,
		.offset2 = (uint64_t)offset_out,
		.cred = &cred,
	};
	int result;

	(void)ino_in;
	if (flags != 0) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	changer_credentials(req, ino_out, &cred);
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	changed_by(req, ino_out, &cred);
	g4_fuse_space_taken(g4_fuse_host_of(req), cmd.length);
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_write(req, cmd.value);
}

/*
 * Seek. The kernel sends SEEK_DATA and SEEK_HOLE without writing its dirty pages back first, so the engine could call a
 * range a hole whose data still waits in the page cache, and a sparse copy would lose it. When nobody has the file open
 * for writing there are no such pages and the worker answers. Otherwise one extra thread makes the kernel write them
 * back first. It must not be a worker: it waits for WRITE requests that the workers serve.
 */
static bool post_job(struct g4_fuse_host *host, const struct g4_fuse_seek_job *work)
{
	struct g4_fuse_seek_job *job = malloc(sizeof(*job));

	if (!job)
		return false;
	*job = *work;
	pthread_mutex_lock(&host->seek_lock);
	*host->seek_last = job;
	host->seek_last = &job->next;
	pthread_cond_signal(&host->seek_ready);
	pthread_mutex_unlock(&host->seek_lock);
	return true;
}

static void answer_seek(struct g4_fuse_host *host, fuse_req_t req, struct g4_cmd *cmd)
{
	int result = g4_engine_execute(host->engine, cmd);

	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_lseek(req, (off_t)cmd->value);
}

void g4_fuse_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct g4_cmd cmd = {
		.op = G4_CMD_SEEK,
		.node = ino,
		.handle = g4_fuse_handle(fi),
		.offset = (uint64_t)offset,
		.flags = whence == SEEK_DATA ? G4_SEEK_DATA : G4_SEEK_HOLE,
	};

	if (whence != SEEK_DATA && whence != SEEK_HOLE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (!host->writeback || !g4_fuse_may_be_written(host, ino)) {
		answer_seek(host, req, &cmd);
		return;
	}
	if (!post_job(host, &(struct g4_fuse_seek_job){.req = req, .fd = g4_fuse_self->fd, .ino = ino, .cmd = cmd}))
		fuse_reply_err(req, ENOMEM);
}

static struct g4_fuse_seek_job *next_seek_job(struct g4_fuse_host *host)
{
	struct g4_fuse_seek_job *job;

	pthread_mutex_lock(&host->seek_lock);
	while (!host->seek_first && !host->seek_stop)
		pthread_cond_wait(&host->seek_ready, &host->seek_lock);
	job = host->seek_first;
	if (job) {
		host->seek_first = job->next;
		if (!host->seek_first)
			host->seek_last = &host->seek_first;
	}
	pthread_mutex_unlock(&host->seek_lock);
	return job;
}

static void *seek_main(void *argument)
{
	struct g4_fuse_host *host = argument;
	struct g4_fuse_thread self = {.host = host, .fd = fuse_session_fd(host->session)};
	struct g4_fuse_seek_job *job;

	g4_fuse_self = &self;
	while ((job = next_seek_job(host)) != NULL) {
		self.fd = job->fd;
		/* Fails only when the inode has left the kernel's cache, and its pages with it. */
		(void)fuse_lowlevel_notify_inval_inode(host->session, job->ino, job->req ? 0 : (off_t)job->cmd.offset,
						       job->req ? 0 : (off_t)job->cmd.length);
		if (job->req)
			answer_seek(host, job->req, &job->cmd);
		free(job);
	}
	g4_fuse_self = NULL;
	return NULL;
}

/* 0 or -errno. */
int g4_fuse_seek_start(struct g4_fuse_host *host)
{
	int error;

	pthread_mutex_init(&host->seek_lock, NULL);
	pthread_cond_init(&host->seek_ready, NULL);
	host->seek_last = &host->seek_first;
	error = pthread_create(&host->seek_thread, NULL, seek_main, host);
	if (error) {
		pthread_cond_destroy(&host->seek_ready);
		pthread_mutex_destroy(&host->seek_lock);
	}
	return -error;
}

void g4_fuse_seek_stop(struct g4_fuse_host *host)
{
	pthread_mutex_lock(&host->seek_lock);
	host->seek_stop = true;
	pthread_cond_signal(&host->seek_ready);
	pthread_mutex_unlock(&host->seek_lock);
	pthread_join(host->seek_thread, NULL);
	pthread_cond_destroy(&host->seek_ready);
	pthread_mutex_destroy(&host->seek_lock);
}
