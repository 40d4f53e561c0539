/* SPDX-License-Identifier: Apache-2.0 */
/* What all operations share: the credentials of the request, and what the kernel is told of an inode. */
#include <sys/stat.h>

#include "format/format.h"
#include "fuse/ops.h"
#include "fuse/share.h"

struct g4_fuse_host *g4_fuse_host_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

void g4_fuse_credentials(fuse_req_t req, struct g4_cred *cred)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	cred->uid = ctx->uid;
	cred->gid = ctx->gid;
	cred->umask = (uint32_t)ctx->umask;
	cred->flags = G4_CRED_TRUSTED;
	cred->group_count = 0;
}

/* The engine's rules for set-gid look at all groups of the caller; reading them is slow, nothing else needs it. */
void g4_fuse_add_groups(fuse_req_t req, struct g4_cred *cred)
{
	int count = fuse_req_getgroups(req, G4_CRED_MAX_GROUPS, cred->groups);

	if (count > 0)
		cred->group_count = (uint32_t)(count < G4_CRED_MAX_GROUPS ? count : G4_CRED_MAX_GROUPS);
}

/* Only where they decide whether a change of the file takes its set-gid bit away. */
void g4_fuse_add_groups_for(fuse_req_t req, uint64_t ino, struct g4_cred *cred)
{
	struct g4_attr attr;
	struct g4_cmd get = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};

	if (cred->uid != 0 && g4_fuse_ask(g4_fuse_host_of(req), &get) >= 0 &&
	    (attr.mode & (S_ISGID | S_IXGRP)) == S_ISGID)
		g4_fuse_add_groups(req, cred);
}

/*
 * Before it takes a write into its cache the kernel asks for attributes that it has not or no more: of an immutable file,
 * always, so that op_getattr() can refuse.
 */
double g4_fuse_attr_timeout(const struct g4_fuse_host *host, const struct g4_attr *attr)
{
	return attr->flags & G4_INODE_IMMUTABLE ? 0 : host->options.attr_timeout_s;
}

void g4_fuse_entry(const struct g4_fuse_host *host, const struct g4_attr *attr, struct fuse_entry_param *entry)
{
	entry->ino = attr->ino == host->root_ino ? FUSE_ROOT_ID : attr->ino;
	if (attr->ino != host->root_ino)
		g4_fuse_share_known((struct g4_fuse_host *)(uintptr_t)host, attr->ino, 1);
	entry->generation = attr->generation;
	g4_fuse_stat(attr, &entry->attr);
	entry->attr_timeout = g4_fuse_attr_timeout(host, attr);
	entry->entry_timeout = host->options.entry_timeout_s;
}
