/* SPDX-License-Identifier: Apache-2.0 */
/* Directories read, extended attributes, and the ioctls of chattr(1), xfs_io(8), fstrim(8) and the gpu4fs program. */
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <linux/xattr.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/ioctl.h"
#include "fuse/ops.h"
#include "fuse/share.h"

/* A reply and the engine's records it is made from share the worker's buffer. */
#define DIR_REPLY_BYTES ((size_t)(256 * G4_KIB))
#define NAME_BYTES_MAX 255

static void reply_result(fuse_req_t req, int result)
{
	fuse_reply_err(req, result < 0 ? g4_errno(result) : 0);
}

/* Appends one record to a reply; 0 when it does not fit. */
static size_t add_entry(fuse_req_t req, char *reply, size_t room, const struct g4_dirent *record, bool plus)
{
	const char *from = (const char *)(record + 1);
	struct fuse_entry_param entry;
	char name[NAME_BYTES_MAX + 1];
	size_t bytes;

	if (record->has_attr)
		from += sizeof(struct g4_attr);
	memcpy(name, from, record->name_bytes);
	name[record->name_bytes] = '\0';
	memset(&entry, 0, sizeof(entry));
	if (record->has_attr && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	    !g4_fuse_is_quiet(g4_fuse_host_of(req), record->ino)) {
		struct g4_attr attr;

		memcpy(&attr, record + 1, sizeof(attr));
		g4_fuse_entry(g4_fuse_host_of(req), &attr, &entry);
	} else {
		/* Node number 0: the kernel takes the name alone. */
		entry.attr.st_ino = record->ino;
		entry.attr.st_mode = DTTOIF((mode_t)record->file_type);
	}
	if (plus)
		bytes = fuse_add_direntry_plus(req, reply, room, name, &entry, (off_t)record->cookie);
	else
		bytes = fuse_add_direntry(req, reply, room, name, &entry.attr, (off_t)record->cookie);
	if (bytes > room && entry.ino > FUSE_ROOT_ID) /* the kernel does not get it */
		g4_fuse_share_known(g4_fuse_host_of(req), entry.ino, -1);
	return bytes <= room ? bytes : 0;
}

static void read_directory(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, bool plus)
{
	char *reply = (char *)g4_fuse_self->data;
	uint8_t *records = g4_fuse_self->data + DIR_REPLY_BYTES;
	struct g4_cmd cmd = {
		.op = G4_CMD_READDIR,
		.node = ino,
		.cookie = (uint64_t)offset,
		.data = records,
		.flags = plus ? G4_READDIR_PLUS : 0,
	};
	size_t used = 0, at = 0;
	int result;

	size = g4_min64(size, DIR_REPLY_BYTES);
	/* The kernel's record with attributes is a little longer than the engine's: ask for what will fit. */
	cmd.length = g4_align_down(plus ? size - size / 8 : size, 8);
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	while (at + sizeof(struct g4_dirent) <= cmd.value) {
		const struct g4_dirent *record = (const struct g4_dirent *)(records + at);
		size_t need = sizeof(*record) + (record->has_attr ? sizeof(struct g4_attr) : 0) + record->name_bytes;
		size_t added;

		if (record->name_bytes > NAME_BYTES_MAX || record->record_bytes < need ||
		    record->record_bytes > cmd.value - at) {
			fuse_reply_err(req, EIO);
			return;
		}
		added = add_entry(req, reply + used, size - used, record, plus);
		if (added == 0)
			break;
		used += added;
		at += record->record_bytes;
	}
	fuse_reply_buf(req, reply, used);
}

void g4_fuse_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	read_directory(req, ino, size, offset, false);
}

void g4_fuse_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	read_directory(req, ino, size, offset, true);
}

static struct g4_cmd xattr_command(uint32_t op, uint64_t ino, const char *name, const struct g4_cred *cred)
{
	struct g4_cmd cmd = {.op = op, .node = ino, .cred = cred};

	if (name) {
		cmd.name = name;
		cmd.name_bytes = (uint16_t)g4_min64(strlen(name), UINT16_MAX);
	}
	return cmd;
}

/*
 * Without SELinux in this kernel and in this file system, its labels are "not supported" rather than "not there": `ls -l` then asks
 * for one file's and not for each. A kernel with SELinux reads labels itself and would take that for an error.
 */
static int no_label(struct g4_fuse_host *host)
{
	return host->selinux || atomic_load_explicit(&host->labels, memory_order_relaxed) ? -G4_E_NODATA : -G4_E_NOTSUP;
}

static bool is_label(const char *name)
{
	return !strcmp(name, XATTR_NAME_SELINUX);
}

/* A file has or gets an attribute of this name. */
void g4_fuse_note_label(struct g4_fuse_host *host, const char *name)
{
	if (is_label(name))
		atomic_store(&host->labels, true);
}

void g4_fuse_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct g4_cred cred = {0};
	struct g4_cmd cmd = xattr_command(G4_CMD_SETXATTR, ino, name, &cred);

	g4_fuse_credentials(req, &cred);
	cmd.data = (void *)(uintptr_t)value; /* the engine only reads it */
	cmd.length = size;
	cmd.flags = (uint32_t)flags & (G4_XATTR_CREATE | G4_XATTR_REPLACE);
	g4_fuse_note_label(g4_fuse_host_of(req), name);
	reply_result(req, g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd));
}

void g4_fuse_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct g4_cred cred = {0};
	struct g4_cmd cmd = xattr_command(G4_CMD_GETXATTR, ino, name, &cred);
	int result;

	g4_fuse_credentials(req, &cred);
	cmd.data = g4_fuse_self->data;
	cmd.length = g4_min64(size, G4_FUSE_DATA_BYTES);
	result = g4_engine_execute(host->engine, &cmd);
	if (result == -G4_E_NODATA) {
		g4_fuse_quiet_no_xattr(host, ino, name);
		if (is_label(name))
			result = no_label(host);
	} else {
		g4_fuse_note_label(host, name);
	}
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else if (size == 0)
		fuse_reply_xattr(req, cmd.value);
	else
		fuse_reply_buf(req, (const char *)g4_fuse_self->data, cmd.value);
}

/* Names in "trusted." are shown to root alone, as the kernel's own file systems do. */
void g4_fuse_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct g4_cred cred = {0};
	struct g4_cmd cmd = xattr_command(G4_CMD_LISTXATTR, ino, NULL, &cred);
	char *list = (char *)g4_fuse_self->data;
	size_t bytes;
	int result;

	g4_fuse_credentials(req, &cred);
	cmd.data = list;
	cmd.length = G4_FUSE_DATA_BYTES;
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	bytes = cred.uid == 0 ? cmd.value : g4_fuse_hide_trusted(list, cmd.value);
	if (size == 0)
		fuse_reply_xattr(req, bytes);
	else if (bytes > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, list, bytes);
}

void g4_fuse_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct g4_cred cred = {0};
	struct g4_cmd cmd = xattr_command(G4_CMD_REMOVEXATTR, ino, name, &cred);

	g4_fuse_credentials(req, &cred);
	reply_result(req, g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd));
}

/* What tells two files of the same number apart, as in `gpu4fs attr get`. */
static void reply_generation(fuse_req_t req, uint64_t ino)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};
	int result = g4_fuse_ask(g4_fuse_host_of(req), &cmd);
	const uint32_t generation = result < 0 ? 0 : (uint32_t)attr.generation;

	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_ioctl(req, 0, &generation, sizeof(generation));
}

static int get_flags(fuse_req_t req, uint64_t ino, uint32_t *inode_flags)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};
	int result = g4_fuse_ask(g4_fuse_host_of(req), &cmd);

	*inode_flags = result < 0 ? 0 : attr.flags;
	return result;
}

static int set_flags(fuse_req_t req, uint64_t ino, uint32_t inode_flags)
{
	struct g4_cred cred = {0};
	struct g4_attr attr = {.flags = inode_flags};
	struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .node = ino, .mask = G4_SET_FLAGS, .attr = &attr, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result >= 0) /* the kernel thinks that an ioctl changes no attributes */
		(void)fuse_lowlevel_notify_inval_inode(g4_fuse_host_of(req)->session, ino, -1, 0);
	return result;
}

/* The range and what came of it are one structure: `len` is what was discarded afterwards. */
static void trim(fuse_req_t req, const void *in_buf)
{
	struct fstrim_range range;
	struct g4_cmd cmd = {.op = G4_CMD_TRIM};
	const struct fuse_ctx *context = fuse_req_ctx(req);

	/* the kernel asks nothing of the caller: other file systems want CAP_SYS_ADMIN */
	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(&range, in_buf, sizeof(range));
	cmd.offset = range.start;
	cmd.length = range.len;
	cmd.least = range.minlen;
	/* what was removed just now is free once that is durable */
	struct g4_cmd sync = {.op = G4_CMD_SYNCFS};
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &sync);
	if (result >= 0)
		result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	range.len = cmd.value;
	fuse_reply_ioctl(req, 0, &range, sizeof(range));
}

static void resize(fuse_req_t req, const void *in_buf)
{
	struct g4_ioc_resize resize;
	const struct fuse_ctx *context = fuse_req_ctx(req);

	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(&resize, in_buf, sizeof(resize));
	resize.status = g4_engine_resize(g4_fuse_host_of(req)->engine, resize.bytes, &resize.limit);
	fuse_reply_ioctl(req, 0, &resize, sizeof(resize));
}

static void do_job(fuse_req_t req, const void *in_buf)
{
	struct g4_ioc_job *job = (struct g4_ioc_job *)g4_fuse_self->data;
	const struct fuse_ctx *context = fuse_req_ctx(req);
	struct g4_cmd cmd;

	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(job, in_buf, sizeof(*job));
	if (!g4_ioc_job_command(job, &cmd)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	job->status = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	job->value = cmd.value;
	fuse_reply_ioctl(req, 0, job, sizeof(*job));
}

/* A process that has the file open for reading may ask where it lies; the kernel has opened it. */
static void map(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi, const void *in_buf)
{
	struct g4_ioc_map *out = (struct g4_ioc_map *)g4_fuse_self->data;
	struct g4_ioc_map in;
	struct g4_cmd cmd = {.op = G4_CMD_MAP, .node = ino, .handle = g4_fuse_handle(fi)};

	memcpy(&in, in_buf, sizeof(in));
	memset(out, 0, sizeof(*out));
	out->offset = cmd.offset = in.offset;
	cmd.data = out->extents;
	cmd.length = sizeof(out->extents);
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	out->count = (uint32_t)(cmd.value / sizeof(out->extents[0]));
	fuse_reply_ioctl(req, 0, out, sizeof(*out));
}

/* The same of its pages and their sums. */
static void sums(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi, const void *in_buf)
{
	struct g4_ioc_sums *out = (struct g4_ioc_sums *)g4_fuse_self->data;
	struct g4_ioc_sums in;
	struct g4_cmd cmd = {.op = G4_CMD_SUMS, .node = ino, .handle = g4_fuse_handle(fi)};

	if (fi->fh & G4_FUSE_WRITE_ONLY) { /* the engine's handle may read, for the kernel's cache */
		fuse_reply_err(req, EBADF);
		return;
	}
	memcpy(&in, in_buf, sizeof(in));
	memset(out, 0, sizeof(*out));
	out->offset = cmd.offset = in.offset;
	cmd.data = out->sums;
	cmd.length = sizeof(out->sums);
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	out->count = (uint32_t)(cmd.value / sizeof(out->sums[0]));
	fuse_reply_ioctl(req, 0, out, sizeof(*out));
}

static int open_by_number(fuse_req_t req, uint64_t ino, uint32_t generation, uint32_t flags, uint64_t *handle)
{
	struct g4_cred cred = {0};
	struct g4_cmd cmd = {.op = G4_CMD_OPEN, .node = ino, .flags = flags, .cred = &cred};

	cmd.generation = generation;
	g4_fuse_credentials(req, &cred);
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	*handle = result < 0 ? 0 : cmd.handle;
	return result;
}

/* Sums of a file into `to`, as many as there is room for. */
static void sums_of_file(fuse_req_t req, struct g4_ioc_sums_file *file, struct g4_page_sum *to, uint64_t room)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct g4_attr attr = {0};
	struct g4_cmd about = {.op = G4_CMD_GETATTR, .node = file->ino, .attr = &attr};
	struct g4_cmd cmd = {.op = G4_CMD_SUMS, .node = file->ino, .offset = file->offset, .data = to};

	cmd.length = room * sizeof(*to);
	file->count = file->more = 0;
	file->status = g4_fuse_ask(host, &about);
	file->size = attr.size;
	file->generation = (uint32_t)attr.generation;
	if (file->status >= 0 && !S_ISREG(attr.mode))
		file->status = -G4_E_STALE; /* another one has this number now */
	if (file->status >= 0)
		file->status = open_by_number(req, file->ino, file->generation, G4_OPEN_READ, &cmd.handle);
	if (file->status >= 0)
		file->status = g4_engine_execute(host->engine, &cmd);
	if (cmd.handle)
		g4_fuse_release_handle(host, cmd.handle);
	if (file->status < 0)
		return;
	file->count = (uint32_t)(cmd.value / sizeof(*to));
	file->more = file->count == room;
	if (file->count > 0)
		file->offset = to[file->count - 1].offset + G4_PAGE_BYTES;
}

static void sums_of(fuse_req_t req, const void *in_buf)
{
	struct g4_ioc_sums_of *io = (struct g4_ioc_sums_of *)g4_fuse_self->data;
	const struct fuse_ctx *context = fuse_req_ctx(req);
	uint32_t told = 0, k = 0;

	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(io, in_buf, sizeof(*io));
	if (io->files > G4_IOC_SUMS_OF_FILES) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	memset(io->sums, 0, sizeof(io->sums));
	for (; k < io->files && told < G4_IOC_SUMS_OF_PAGES; k++) {
		sums_of_file(req, &io->file[k], &io->sums[told], G4_IOC_SUMS_OF_PAGES - told);
		told += io->file[k].count;
	}
	io->files = k;
	fuse_reply_ioctl(req, 0, io, sizeof(*io));
}

/* What the kernel has of both files in its cache stays right: neither contents nor sizes nor times change. */
static void same_row(fuse_req_t req, struct g4_ioc_same_row *row)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct g4_cmd cmd = {.op = G4_CMD_COPY_RANGE,
			     .offset = row->from_offset,
			     .offset2 = row->to_offset,
			     .length = row->bytes,
			     .flags = row->flags};

	row->status = -G4_E_INVAL;
	if ((row->flags & ~(uint32_t)(G4_COPY_COMPARE | G4_COPY_ZEROS)) == G4_COPY_SAME)
		row->status = open_by_number(req, row->from, row->from_generation, G4_OPEN_READ, &cmd.handle);
	if (row->status >= 0)
		row->status = open_by_number(req, row->to, row->to_generation, G4_OPEN_WRITE, &cmd.handle2);
	if (row->status >= 0)
		row->status = g4_engine_execute(host->engine, &cmd);
	row->bytes = row->status < 0 ? 0 : (uint32_t)cmd.value;
	if (cmd.handle2)
		g4_fuse_release_handle(host, cmd.handle2);
	if (cmd.handle)
		g4_fuse_release_handle(host, cmd.handle);
}

/* Whether another row can be begun: 0, or a code. */
static int same_more(fuse_req_t req, uint32_t flags)
{
	const int idle = flags & G4_IOC_SAME_IDLE ? g4_engine_is_idle(g4_fuse_host_of(req)->engine) : 1;

	return idle < 0 ? idle : idle ? 0 : -G4_E_AGAIN;
}

static void same(fuse_req_t req, const void *in_buf)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);
	struct g4_ioc_same io;
	uint64_t bytes = 0;
	uint32_t k = 0;

	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(&io, in_buf, sizeof(io));
	if (io.count > G4_IOC_SAME_ROWS || (io.flags & ~G4_IOC_SAME_IDLE)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	io.status = same_more(req, io.flags);
	while (k < io.count && bytes < G4_IOC_SAME_BYTES && io.status == 0) {
		bytes += io.rows[k].bytes;
		same_row(req, &io.rows[k++]);
		io.status = same_more(req, io.flags);
	}
	io.count = k;
	fuse_reply_ioctl(req, 0, &io, sizeof(io));
}

static void restripe(fuse_req_t req, fuse_ino_t ino, const void *in_buf)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);
	struct g4_ioc_restripe io;
	struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE, .node = ino, .data = &io.told, .length = sizeof(io.told)};

	if (context->uid != 0 && context->uid != geteuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	memcpy(&io, in_buf, sizeof(io));
	memset(&io.told, 0, sizeof(io.told));
	cmd.offset = io.offset;
	cmd.flags = io.flags;
	io.status = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	fuse_reply_ioctl(req, 0, &io, sizeof(io));
}

#define BOTH_WAYS(type) (in_bytes >= sizeof(type) && out_bytes >= sizeof(type))

/* The ioctls that are gpu4fs's own. False: it is none of them. */
static bool own_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, const struct fuse_file_info *fi, bool directory,
		      const void *in_buf, size_t in_bytes, size_t out_bytes)
{
	if (cmd == G4_IOC_RESIZE && BOTH_WAYS(struct g4_ioc_resize))
		resize(req, in_buf);
	else if (cmd == G4_IOC_JOB && BOTH_WAYS(struct g4_ioc_job))
		do_job(req, in_buf);
	else if (cmd == G4_IOC_SAME && BOTH_WAYS(struct g4_ioc_same))
		same(req, in_buf);
	else if (cmd == G4_IOC_SUMS_OF && BOTH_WAYS(struct g4_ioc_sums_of))
		sums_of(req, in_buf);
	else if (directory && (cmd == G4_IOC_MAP || cmd == G4_IOC_SUMS || cmd == G4_IOC_RESTRIPE))
		fuse_reply_err(req, EISDIR);
	else if (cmd == G4_IOC_MAP && BOTH_WAYS(struct g4_ioc_map))
		map(req, ino, fi, in_buf);
	else if (cmd == G4_IOC_SUMS && BOTH_WAYS(struct g4_ioc_sums))
		sums(req, ino, fi, in_buf);
	else if (cmd == G4_IOC_RESTRIPE && BOTH_WAYS(struct g4_ioc_restripe))
		restripe(req, ino, in_buf);
	else
		return false;
	return true;
}

/* The kernel has checked the right to change flags before it asks. */
void g4_fuse_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg, struct fuse_file_info *fi,
		   unsigned flags, const void *in_buf, size_t in_bytes, size_t out_bytes)
{
	struct fsxattr extended = {0};
	uint32_t inode_flags, fs_flags;
	int result = 0;

	(void)arg;
	if (own_ioctl(req, ino, cmd, fi, (flags & FUSE_IOCTL_DIR) != 0, in_buf, in_bytes, out_bytes))
		return;
	if (cmd == FS_IOC_GETVERSION && out_bytes >= sizeof(uint32_t)) {
		reply_generation(req, ino);
		return;
	}
	if (cmd == FITRIM && BOTH_WAYS(struct fstrim_range)) {
		trim(req, in_buf);
		return;
	}
	if ((cmd == FS_IOC_GETFLAGS && out_bytes >= sizeof(fs_flags)) ||
	    (cmd == FS_IOC_FSGETXATTR && out_bytes >= sizeof(extended))) {
		result = get_flags(req, ino, &inode_flags);
		fs_flags = g4_fuse_fs_flags(inode_flags);
		extended.fsx_xflags = g4_fuse_xflags(inode_flags);
		if (result >= 0) {
			if (cmd == FS_IOC_GETFLAGS)
				fuse_reply_ioctl(req, 0, &fs_flags, sizeof(fs_flags));
			else
				fuse_reply_ioctl(req, 0, &extended, sizeof(extended));
			return;
		}
	} else if (cmd == FS_IOC_SETFLAGS && in_bytes >= sizeof(fs_flags)) {
		memcpy(&fs_flags, in_buf, sizeof(fs_flags));
		if (!g4_fuse_from_fs_flags(fs_flags, &inode_flags))
			result = -G4_E_NOTSUP;
	} else if (cmd == FS_IOC_FSSETXATTR && in_bytes >= sizeof(extended)) {
		memcpy(&extended, in_buf, sizeof(extended));
		if (extended.fsx_projid != 0 || extended.fsx_extsize != 0 || extended.fsx_cowextsize != 0 ||
		    !g4_fuse_from_xflags(extended.fsx_xflags, &inode_flags))
			result = -G4_E_NOTSUP;
	} else {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (result >= 0)
		result = set_flags(req, ino, inode_flags);
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		fuse_reply_ioctl(req, 0, NULL, 0);
}
