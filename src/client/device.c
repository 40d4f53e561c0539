/* SPDX-License-Identifier: Apache-2.0 */
/* What the device API needs of a session. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "client/device.h"

#include "client/client.h"
#include "engine/engine_ops_host.h"

#define OPTIONS_V1 sizeof(struct gpu4fs_device_options)

#if defined(G4_HAVE_CUDA)
static struct g4_fs *fs_on_gpu(gpu4fs *fs)
{
	return g4_cuda_fs(fs->mount->engine);
}

static void visit(gpu4fs *fs, bool begin)
{
	g4_cuda_visit(fs->mount->engine, begin);
}
#else
static struct g4_fs *fs_on_gpu(gpu4fs *fs)
{
	(void)fs;
	return NULL;
}

static void visit(gpu4fs *fs, bool begin)
{
	(void)fs;
	(void)begin;
}
#endif

int g4c_device_begin(gpu4fs *fs, const struct gpu4fs_device_options *given, struct g4c_device_session *out)
{
	struct gpu4fs_device_options options;
	int rc = g4c_copy_versioned(&options, sizeof(options), given, OPTIONS_V1);

	if (rc)
		return rc;
	if (options.warps > G4C_DEVICE_MOST_WARPS || options.reserved[0] || options.reserved[1])
		return -EINVAL;
	out->fs = fs_on_gpu(fs);
	if (!out->fs)
		return -EOPNOTSUPP;
	out->cred = fs->cred;
	out->start = fs->cwd ? fs->cwd->ino : G4_NODE_ROOT;
	out->warps = options.warps;
	__atomic_add_fetch(&fs->users, 1, __ATOMIC_RELAXED);
	visit(fs, true);
	return 0;
}

void g4c_device_end(gpu4fs *fs)
{
	visit(fs, false);
	__atomic_sub_fetch(&fs->users, 1, __ATOMIC_RELEASE);
}
