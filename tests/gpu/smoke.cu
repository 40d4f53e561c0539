/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU's half of the smoke test: one warp goes through the commands, then many warps work in directories of their
 * own, then one writes everything back. All of it through g4_execute(), as every other caller does.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/fs.h"
#include "gpu/smoke.h"
#include "simt/cuda/clock.h"

#define BUFFER_BYTES (1u << 20)
#define STACK_BYTES (16u * 1024)
#define BLOCK_WARPS 4u
#define TIMEOUT_S 120
#define NAME_ROOM 32u /* names are shorter */

struct scene {
	struct g4_fs *fs;
	struct g4_wg *wgs;
	uint8_t *buffers; /* BUFFER_BYTES a warp */
	uint32_t warps, files;
	struct smoke_report report;
};

static __device__ const struct g4_cred root = {0, 0, 022, 0, 0, {0}};

/* ------------------------------------------------------------------ one warp's tools, for its leader */

struct actor {
	struct scene *scene;
	struct g4_wg *wg;
	uint32_t warp;
	uint8_t *buffer;
	bool failed;
};

static __device__ void expect(struct actor *a, int64_t got, int64_t wanted, uint32_t line)
{
	struct smoke_report *report = &a->scene->report;

	if (got == wanted || a->failed)
		return;
	a->failed = true;
	if (!g4_cas32(&report->failed, 0, 1))
		return;
	report->line = line;
	report->warp = a->warp;
	report->got = got;
	report->wanted = wanted;
}
#define EXPECT(got, wanted) expect(a, (int64_t)(got), (int64_t)(wanted), __LINE__)

/* The engine reads aligned words around a name: a literal has no such room, and memcheck stops the kernel. */
static __device__ const char *keep(char room[NAME_ROOM], const char *name, uint16_t bytes)
{
	for (uint16_t i = 0; i < bytes; i++)
		room[i] = name[i];
	return name ? room : NULL;
}

static __device__ int run(struct actor *a, struct g4_cmd *cmd)
{
	__align__(8) char name[NAME_ROOM], name2[NAME_ROOM];
	const char *const theirs = cmd->name, *const theirs2 = cmd->name2;

	if (cmd->name_bytes > NAME_ROOM || cmd->name2_bytes > NAME_ROOM)
		return -G4_E_NAMETOOLONG; /* expected by nobody */
	cmd->cred = &root;
	cmd->name = keep(name, theirs, cmd->name_bytes);
	cmd->name2 = keep(name2, theirs2, cmd->name2_bytes);
	int rc = a->failed ? -G4_E_SHUTDOWN : g4_execute(a->wg, a->scene->fs, cmd);
	cmd->name = theirs;
	cmd->name2 = theirs2;
	return rc;
}

static __device__ struct g4_cmd named(uint32_t op, uint64_t node, const char *name, uint16_t bytes)
{
	struct g4_cmd cmd = {};

	cmd.op = op;
	cmd.node = node;
	cmd.name = name;
	cmd.name_bytes = bytes;
	return cmd;
}

static __device__ int make_directory(struct actor *a, uint64_t node, const char *name, uint16_t bytes, uint64_t *ino)
{
	struct g4_attr attr;
	struct g4_cmd cmd = named(G4_CMD_MKDIR, node, name, bytes);

	cmd.mode = 0755;
	cmd.attr = &attr;
	int rc = run(a, &cmd);
	*ino = attr.ino;
	return rc;
}

static __device__ int create(struct actor *a, uint64_t node, const char *name, uint16_t bytes, uint64_t *handle)
{
	struct g4_cmd cmd = named(G4_CMD_CREATE, node, name, bytes);

	cmd.mode = 0644;
	cmd.flags = G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_EXCL;
	int rc = run(a, &cmd);
	*handle = cmd.handle;
	return rc;
}

static __device__ int64_t transfer(struct actor *a, uint32_t op, uint64_t handle, uint64_t offset, uint64_t bytes)
{
	struct g4_cmd cmd = {};

	cmd.op = op;
	cmd.handle = handle;
	cmd.offset = offset;
	cmd.data = a->buffer;
	cmd.length = bytes;
	int rc = run(a, &cmd);
	return rc < 0 ? rc : (int64_t)cmd.value;
}

static __device__ int on_handle(struct actor *a, uint32_t op, uint64_t handle)
{
	struct g4_cmd cmd = {};

	cmd.op = op;
	cmd.handle = handle;
	return run(a, &cmd);
}

static __device__ int on_name(struct actor *a, uint32_t op, uint64_t node, const char *name, uint16_t bytes)
{
	struct g4_attr attr;
	struct g4_cmd cmd = named(op, node, name, bytes);

	cmd.attr = op == G4_CMD_LOOKUP ? &attr : NULL;
	return run(a, &cmd);
}

static __device__ int rename(struct actor *a, uint64_t node, const char *from, uint16_t from_bytes, uint64_t node2,
			     const char *to, uint16_t to_bytes)
{
	struct g4_cmd cmd = named(G4_CMD_RENAME, node, from, from_bytes);

	cmd.node2 = node2;
	cmd.name2 = to;
	cmd.name2_bytes = to_bytes;
	return run(a, &cmd);
}

static __device__ void fill(struct actor *a, uint64_t seed, uint64_t offset, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		a->buffer[i] = smoke_byte(seed, offset + i);
}

/* Bytes in the buffer that are not the file's. */
static __device__ uint64_t wrong(struct actor *a, uint64_t seed, uint64_t offset, uint64_t bytes)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < bytes; i++)
		count += a->buffer[i] != smoke_byte(seed, offset + i);
	return count;
}

/* Writes a file in pieces of the buffer's size, reads it back and closes it. */
static __device__ void write_and_read(struct actor *a, uint64_t handle, uint64_t seed, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes && !a->failed; at += BUFFER_BYTES) {
		uint64_t n = g4_min64(bytes - at, BUFFER_BYTES);
		fill(a, seed, at, n);
		EXPECT(transfer(a, G4_CMD_WRITE, handle, at, n), n);
	}
	for (uint64_t at = 0; at < bytes && !a->failed; at += BUFFER_BYTES) {
		uint64_t n = g4_min64(bytes - at, BUFFER_BYTES);
		g4_zero(a->wg, a->buffer, n);
		EXPECT(transfer(a, G4_CMD_READ, handle, at, BUFFER_BYTES), n);
		EXPECT(wrong(a, seed, at, n), 0);
	}
	EXPECT(on_handle(a, G4_CMD_RELEASE, handle), 0);
}

/* Names in a directory, "." and ".." included. */
static __device__ int64_t count_names(struct actor *a, uint64_t node)
{
	uint64_t cookie = 0;
	int64_t count = 0;

	for (;;) {
		struct g4_cmd cmd = {};
		cmd.op = G4_CMD_READDIR;
		cmd.node = node;
		cmd.cookie = cookie;
		cmd.data = a->buffer;
		cmd.length = 4096;
		int rc = run(a, &cmd);
		if (rc < 0)
			return rc;
		if (cmd.value == 0)
			return count;
		for (uint64_t at = 0; at < cmd.value; count++) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(a->buffer + at);
			cookie = entry->cookie;
			at += entry->record_bytes;
		}
	}
}

/* ------------------------------------------------------------------ the script of one warp */

static __device__ void check_names(struct actor *a, uint64_t dir)
{
	uint64_t handle = 0;

	EXPECT(create(a, dir, "file", 4, &handle), 0);
	write_and_read(a, handle, 1, 10000);
	EXPECT(create(a, dir, "file", 4, &handle), -G4_E_EXIST);
	EXPECT(count_names(a, dir), 3);
	EXPECT(rename(a, dir, "file", 4, dir, "renamed", 7), 0);
	EXPECT(on_name(a, G4_CMD_LOOKUP, dir, "file", 4), -G4_E_NOENT);
	EXPECT(on_name(a, G4_CMD_LOOKUP, dir, "renamed", 7), 0);
	EXPECT(rename(a, dir, "renamed", 7, G4_NODE_ROOT, "moved", 5), 0);
	EXPECT(count_names(a, dir), 2);
	EXPECT(on_name(a, G4_CMD_UNLINK, G4_NODE_ROOT, "moved", 5), 0);
	EXPECT(on_name(a, G4_CMD_UNLINK, G4_NODE_ROOT, "moved", 5), -G4_E_NOENT);
}

static __device__ void check_attributes(struct actor *a, uint64_t dir)
{
	static const char target[] = "somewhere/else";
	struct g4_attr attr = {};
	struct g4_cmd link = named(G4_CMD_SYMLINK, dir, "link", 4);

	link.name2 = target;
	link.name2_bytes = sizeof(target) - 1;
	link.attr = &attr;
	EXPECT(run(a, &link), 0);
	struct g4_cmd readlink = {};
	readlink.op = G4_CMD_READLINK;
	readlink.node = attr.ino;
	readlink.data = a->buffer;
	readlink.length = 100;
	EXPECT(run(a, &readlink), 0);
	EXPECT(readlink.value, sizeof(target) - 1);
	for (uint32_t i = 0; i < sizeof(target) - 1; i++)
		EXPECT(a->buffer[i], target[i]);

	struct g4_cmd xattr = named(G4_CMD_SETXATTR, dir, "user.colour", 11);
	fill(a, 2, 0, 5000); /* so long that it gets pages of its own */
	xattr.data = a->buffer;
	xattr.length = 5000;
	EXPECT(run(a, &xattr), 0);
	g4_zero(a->wg, a->buffer, 5000);
	xattr.op = G4_CMD_GETXATTR;
	xattr.length = 8000;
	EXPECT(run(a, &xattr), 0);
	EXPECT(xattr.value, 5000);
	EXPECT(wrong(a, 2, 0, 5000), 0);
	EXPECT(on_name(a, G4_CMD_RMDIR, G4_NODE_ROOT, "dir", 3), -G4_E_NOTEMPTY);
	EXPECT(on_name(a, G4_CMD_UNLINK, dir, "link", 4), 0);
	EXPECT(on_name(a, G4_CMD_RMDIR, G4_NODE_ROOT, "dir", 3), 0);
}

static __device__ void script(struct actor *a)
{
	uint64_t dir = 0, handle = 0;

	EXPECT(make_directory(a, G4_NODE_ROOT, "dir", 3, &dir), 0);
	check_names(a, dir);
	check_attributes(a, dir);

	EXPECT(create(a, G4_NODE_ROOT, "kept", 4, &handle), 0);
	write_and_read(a, handle, 3, SMOKE_KEPT_BYTES);
	struct g4_cmd fsync = {};
	struct g4_attr attr = {};
	struct g4_cmd lookup = named(G4_CMD_LOOKUP, G4_NODE_ROOT, "kept", 4);
	lookup.attr = &attr;
	EXPECT(run(a, &lookup), 0);
	EXPECT(attr.size, SMOKE_KEPT_BYTES);
	fsync.op = G4_CMD_FSYNC;
	fsync.node = attr.ino;
	EXPECT(run(a, &fsync), 0);
}

/* ------------------------------------------------------------------ many warps */

static __device__ void make_files(struct actor *a)
{
	char name[16], other[16];
	uint64_t dir = 0, handle = 0;
	uint32_t left = 0;

	EXPECT(make_directory(a, G4_NODE_ROOT, name, smoke_name(name, 'w', a->warp), &dir), 0);
	for (uint32_t f = 0; f < a->scene->files && !a->failed; f++) {
		EXPECT(create(a, dir, name, smoke_name(name, 'f', f), &handle), 0);
		write_and_read(a, handle, smoke_seed(a->warp, f), smoke_bytes(a->warp, f));
	}
	for (uint32_t f = 0; f < a->scene->files && !a->failed; f++) {
		uint16_t bytes = smoke_name(name, 'f', f);
		if (smoke_is_removed(f))
			EXPECT(on_name(a, G4_CMD_UNLINK, dir, name, bytes), 0);
		else if (smoke_is_renamed(f))
			EXPECT(rename(a, dir, name, bytes, dir, other, smoke_name(other, 'g', f)), 0);
		left += !smoke_is_removed(f);
	}
	EXPECT(count_names(a, dir), left + 2);
}

/* ------------------------------------------------------------------ kernels */

/* Every lane of a warp enters; the leader gets true and an actor. */
static __device__ bool enter(struct scene *scene, struct actor *a)
{
	uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / G4_WARP_LANES;

	a->scene = scene;
	a->wg = &scene->wgs[warp];
	a->warp = warp;
	a->buffer = scene->buffers + (uint64_t)warp * BUFFER_BYTES;
	a->failed = scene->report.failed != 0;
	if (warp >= scene->warps)
		return false;
	if (g4_wg_lane(a->wg) == 0)
		return true;
	g4_fs_serve(a->wg);
	return false;
}

static __global__ void script_kernel(struct scene *scene)
{
	struct actor a;

	if (!enter(scene, &a))
		return;
	script(&a);
	g4_wg_dismiss(a.wg);
}

static __global__ void many_kernel(struct scene *scene)
{
	struct actor a;

	if (!enter(scene, &a))
		return;
	make_files(&a);
	g4_wg_dismiss(a.wg);
}

static __global__ void sync_kernel(struct scene *scene, bool checkpoint)
{
	struct actor actor, *a = &actor;

	if (!enter(scene, a))
		return;
	if (!a->failed)
		EXPECT(g4_sync_all(a->wg, scene->fs, checkpoint), 0);
	EXPECT(scene->fs->journal.aborted, 0);
	scene->report.commits = scene->fs->journal.commits;
	scene->report.checkpoints = scene->fs->journal.checkpoints;
	g4_wg_dismiss(a->wg);
}

/* ------------------------------------------------------------------ host */

static bool cuda_ok(cudaError_t rc, const char *what)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "smoke: %s: %s\n", what, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define CUDA(call) cuda_ok(call, #call)

extern "C" void *smoke_gpu_alloc(uint64_t bytes)
{
	void *memory;

	if (!CUDA(cudaMalloc(&memory, bytes + G4_PAGE_BYTES)) || !CUDA(cudaMemset(memory, 0, bytes + G4_PAGE_BYTES)))
		return NULL;
	return (void *)g4_align_up((uintptr_t)memory, G4_PAGE_BYTES);
}

extern "C" bool smoke_gpu_put(void *device, const void *host, uint64_t bytes)
{
	return CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

extern "C" bool smoke_gpu_get(void *host, const void *device, uint64_t bytes)
{
	return CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

/* Waits for the kernels launched so far; one that hangs ends the test, for nothing can stop it. */
static bool wait_for(const char *what, cudaEvent_t begin, cudaEvent_t end, float *ms)
{
	if (!CUDA(cudaGetLastError()) || !CUDA(cudaEventRecord(end)))
		return false;
	for (int64_t slept_us = 0;; slept_us += 1000) {
		cudaError_t rc = cudaEventQuery(end);
		if (rc == cudaSuccess)
			return CUDA(cudaEventElapsedTime(ms, begin, end));
		if (rc != cudaErrorNotReady)
			return cuda_ok(rc, what);
		if (slept_us > TIMEOUT_S * INT64_C(1000000)) {
			fprintf(stderr, "smoke: %s did not end within %d s\n", what, TIMEOUT_S);
			_exit(1);
		}
		usleep(1000);
	}
}

static bool launch_all(struct scene *scene, uint32_t warps, bool checkpoint, struct smoke_report *report)
{
	cudaEvent_t begin, end;

	if (!CUDA(cudaEventCreate(&begin)) || !CUDA(cudaEventCreate(&end)) || !CUDA(cudaEventRecord(begin)))
		return false;
	script_kernel<<<1, G4_WARP_LANES>>>(scene);
	if (!wait_for("the script", begin, end, &report->script_ms) || !CUDA(cudaEventRecord(begin)))
		return false;
	many_kernel<<<(warps + BLOCK_WARPS - 1) / BLOCK_WARPS, BLOCK_WARPS * G4_WARP_LANES>>>(scene);
	if (!wait_for("many warps", begin, end, &report->many_ms) || !CUDA(cudaEventRecord(begin)))
		return false;
	sync_kernel<<<1, G4_WARP_LANES>>>(scene, checkpoint);
	return wait_for("the commit", begin, end, &report->sync_ms);
}

extern "C" bool smoke_gpu_run(void *fs, uint32_t warps, uint32_t files, bool checkpoint, struct smoke_report *report)
{
	struct scene scene = {};
	struct scene *on_gpu = (struct scene *)smoke_gpu_alloc(sizeof(scene));
	struct g4_wg *wgs = (struct g4_wg *)calloc(warps, sizeof(*wgs));
	uint8_t *scratch = (uint8_t *)smoke_gpu_alloc((uint64_t)warps * G4_WG_SCRATCH_BYTES);

	scene.fs = (struct g4_fs *)fs;
	scene.warps = warps;
	scene.files = files;
	scene.wgs = (struct g4_wg *)smoke_gpu_alloc(warps * sizeof(struct g4_wg));
	scene.buffers = (uint8_t *)smoke_gpu_alloc((uint64_t)warps * BUFFER_BYTES);
	if (!on_gpu || !wgs || !scratch || !scene.wgs || !scene.buffers)
		return false;
	for (uint32_t w = 0; w < warps; w++)
		g4_wg_init(&wgs[w], w, scratch + (uint64_t)w * G4_WG_SCRATCH_BYTES, G4_WG_SCRATCH_BYTES);
	bool good = smoke_gpu_put(scene.wgs, wgs, warps * sizeof(*wgs)) &&
		    smoke_gpu_put(on_gpu, &scene, sizeof(scene)) &&
		    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) && CUDA(g4_clock_sync(0));
	free(wgs);
	memset(report, 0, sizeof(*report));
	if (!good || !launch_all(on_gpu, warps, checkpoint, report) || !smoke_gpu_get(&scene, on_gpu, sizeof(scene)))
		return false;
	scene.report.script_ms = report->script_ms;
	scene.report.many_ms = report->many_ms;
	scene.report.sync_ms = report->sync_ms;
	*report = scene.report;
	return true;
}
