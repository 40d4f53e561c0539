/* SPDX-License-Identifier: Apache-2.0 */
/* The operations: the kernel's requests, as libfuse tells them, and the engine's commands for them. */
#ifndef G4_FUSE_OPS_H
#define G4_FUSE_OPS_H

#include "fuse/fuse_types.h"

extern const struct fuse_lowlevel_ops g4_fuse_ops;

/* request.c: what they share */
struct g4_fuse_host *g4_fuse_host_of(fuse_req_t req);
void g4_fuse_credentials(fuse_req_t req, struct g4_cred *cred);
void g4_fuse_add_groups(fuse_req_t req, struct g4_cred *cred);
void g4_fuse_add_groups_for(fuse_req_t req, uint64_t ino, struct g4_cred *cred);
double g4_fuse_attr_timeout(const struct g4_fuse_host *host, const struct g4_attr *attr);
void g4_fuse_entry(const struct g4_fuse_host *host, const struct g4_attr *attr, struct fuse_entry_param *entry);

/* mirror.c: a LOOKUP or a GETATTR by number, answered from memory where it was asked before and still holds; cmd->status */
void g4_fuse_mirror_start(struct g4_fuse_host *host);
void g4_fuse_mirror_end(struct g4_fuse_host *host);
int g4_fuse_ask(struct g4_fuse_host *host, struct g4_cmd *cmd);

/* file_ops.c */
void g4_fuse_writer_opened(struct g4_fuse_host *host, uint64_t ino, int flags, int step);
bool g4_fuse_may_be_written(struct g4_fuse_host *host, uint64_t ino);
bool g4_fuse_is_full_for(struct g4_fuse_host *host, uint64_t handle);
void g4_fuse_release_handle(struct g4_fuse_host *host, uint64_t handle);
void g4_fuse_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void g4_fuse_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void g4_fuse_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void g4_fuse_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t offset,
		       struct fuse_file_info *fi);
void g4_fuse_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void g4_fuse_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void g4_fuse_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void g4_fuse_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi);
void g4_fuse_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void g4_fuse_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in, struct fuse_file_info *fi_in,
			     fuse_ino_t ino_out, off_t offset_out, struct fuse_file_info *fi_out, size_t length,
			     int flags);
int g4_fuse_seek_start(struct g4_fuse_host *host);
void g4_fuse_seek_stop(struct g4_fuse_host *host);

/* meta_ops.c */
void g4_fuse_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void g4_fuse_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

void g4_fuse_note_label(struct g4_fuse_host *host, const char *name);
void g4_fuse_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void g4_fuse_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void g4_fuse_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void g4_fuse_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void g4_fuse_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg, struct fuse_file_info *fi,
		   unsigned flags, const void *in_buf, size_t in_bytes, size_t out_bytes);

/* quiet.c: files of which the kernel knows everything that a long listing asks for */
void g4_fuse_quiet_request(struct g4_fuse_host *host, const struct fuse_in_header *in);
void g4_fuse_quiet_no_xattr(struct g4_fuse_host *host, uint64_t ino, const char *name);
void g4_fuse_quiet_end(struct g4_fuse_host *host, uint64_t ino);
bool g4_fuse_is_quiet(struct g4_fuse_host *host, uint64_t ino);

#endif
