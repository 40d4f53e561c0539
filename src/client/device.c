/* SPDX-License-Identifier: Apache-2.0 */
/* What the device API needs of a session. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "client/device.h"

#include "client/client.h"
#include "gpu/cuda_host.h"

#define OPTIONS_V1 sizeof(struct gpu4fs_device_options)

int g4c_device_begin(gpu4fs *fs, const struct gpu4fs_device_options *options, struct g4c_device_session *out)
{
	struct gpu4fs_device_options own;
	int rc = g4c_copy_versioned(&own, sizeof(own), options, OPTIONS_V1);

	if (rc)
		return rc;
	if (own.warps > G4C_DEVICE_MOST_WARPS || own.reserved[0] || own.reserved[1])
		return -EINVAL;
	struct g4_cuda_engine *cuda = g4_engine_cuda(fs->mount->engine);
	if (!cuda)
		return -EOPNOTSUPP;
	out->fs = cuda->fs;
	out->scratch_bytes = cuda->scratch_bytes;
	out->cred = fs->cred;
	out->start = fs->cwd ? fs->cwd->ino : G4_NODE_ROOT;
	out->warps = own.warps;
	__atomic_add_fetch(&fs->users, 1, __ATOMIC_RELAXED);
	g4_cuda_visit(cuda, true);
	return 0;
}

void g4c_device_end(gpu4fs *fs)
{
	g4_cuda_visit(g4_engine_cuda(fs->mount->engine), false);
	__atomic_sub_fetch(&fs->users, 1, __ATOMIC_RELEASE);
}
