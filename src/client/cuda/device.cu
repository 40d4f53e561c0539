/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device API (gpu4fs/gpu4fs_device.h): its functions for kernels around device/caller.h, and the host functions that make
 * a handle. Linked into programs that use it, once, with the engine's device code; no part of libgpu4fs.so.
 *
 * A function for kernels has all 32 lanes. Lane 0 runs the caller's function, the others execute its regions, until lane 0
 * dismisses them. The result reaches them by a shuffle, and what is larger through the caller's memory: lane 0 wrote it before
 * a warp barrier, and nothing writes it before the next call, which begins with one.
 */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "client/batch_form.h"
#include "client/convert.h"
#include "client/device.h"
#include "device/caller.h"

#ifndef G4_CUDA_REGISTERS
#error "the build says how many registers a thread of the engine has"
#endif

#define FIRST_INDEX 4096u /* of the workgroups, behind the engine's own */

struct g4d_fs {
	struct g4_callers callers;
};

struct g4d_warp {
	struct g4_caller caller;
};

G4_STATIC_ASSERT(sizeof(g4d_file) == sizeof(struct g4_caller_file), "the public form of an open file");
G4_STATIC_ASSERT(sizeof(struct g4d_dirent) == sizeof(struct g4_dirent) &&
			 offsetof(struct g4d_dirent, cookie) == offsetof(struct g4_dirent, cookie) &&
			 offsetof(struct g4d_dirent, record_bytes) == offsetof(struct g4_dirent, record_bytes) &&
			 offsetof(struct g4d_dirent, name_bytes) == offsetof(struct g4_dirent, name_bytes) &&
			 offsetof(struct g4d_dirent, type) == offsetof(struct g4_dirent, file_type),
		 "the public form of a directory entry");
G4_STATIC_ASSERT(G4D_PAGE_BYTES == G4_PAGE_BYTES, "public page size");

/* ------------------------------------------------------------------ what all calls do */

static __device__ int64_t to_errno(int64_t rc)
{
	if (rc >= 0)
		return rc;
	switch (rc) {
#define TO_ERRNO(name, number, unix_errno, sentence)                                                                   \
	case -(number):                                                                                                \
		return -(unix_errno);
		G4_ERRORS(TO_ERRNO)
#undef TO_ERRNO
	default:
		return -EIO;
	}
}

/* Runs `call` on lane 0 with the other lanes' help. Every lane gets its result, as the public functions return it. */
template <class Call> static __device__ int64_t together(g4d_warp *warp, Call call)
{
	struct g4_wg *wg = warp->caller.wg;
	int64_t rc = 0;

	__syncwarp(); /* what the lanes did before */
	if (g4_wg_lane(wg) == 0) {
		rc = to_errno(call(&warp->caller));
		g4_wg_dismiss(wg);
	} else {
		g4_caller_serve(wg);
	}
	__syncwarp(); /* what lane 0 wrote */
	return __shfl_sync(G4_WARP_ALL, rc, 0);
}

static __device__ const struct g4_caller_file *inner(const g4d_file *file)
{
	return (const struct g4_caller_file *)file;
}

/* A path's length, at most one more than may be. */
static __device__ uint64_t length_of(const char *path)
{
	uint64_t n = 0;

	while (n < G4_PATH_MAX && path[n])
		n++;
	return n;
}

/*
 * Lane 0, since the other lanes' text may be where it cannot read: a copy of the caller's bytes, at most G4_PATH_MAX. The engine
 * reads aligned words, and what else lies in these need not be the caller's (memcheck stops a kernel for that). which: 0 or 1, of
 * the strings of a call.
 */
static __device__ const char *keep(struct g4_caller *caller, uint32_t which, const char *text, uint64_t bytes)
{
	char *copy = (char *)caller->scratch + which * G4_PATH_MAX;

	G4_STATIC_ASSERT(2 * G4_PATH_MAX <= G4_COPY_SCRATCH_BYTES, "two paths fit the caller's scratch memory");
	for (uint64_t i = 0; i < bytes; i++)
		copy[i] = text[i];
	return copy;
}

/* ------------------------------------------------------------------ kernels */

static __device__ uint32_t thread_of_block(void)
{
	return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

__device__ g4d_warp *g4d_enter(g4d_fs *fs)
{
	uint64_t threads = (uint64_t)blockDim.x * blockDim.y * blockDim.z, caller = 0;
	uint64_t block = ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	uint64_t number = block * (threads / G4_WARP_LANES) + thread_of_block() / G4_WARP_LANES;

	if (threads % G4_WARP_LANES != 0)
		return NULL;
	__syncwarp();
	if (thread_of_block() % G4_WARP_LANES == 0)
		caller = (uint64_t)g4_caller_enter(&fs->callers, (uint32_t)number);
	return (g4d_warp *)__shfl_sync(G4_WARP_ALL, caller, 0);
}

__device__ void g4d_leave(g4d_warp *warp)
{
	if (!warp)
		return;
	__syncwarp();
	if (g4_wg_lane(warp->caller.wg) == 0)
		g4_caller_leave(&warp->caller);
	__syncwarp();
}

__device__ int g4d_open(g4d_warp *warp, const g4d_file *at, const char *path, int flags, uint32_t mode, g4d_file *out)
{
	struct g4c_open_flags parsed;
	int rc = g4c_open_flags(flags, &parsed);

	if (rc == 0 && parsed.tmpfile)
		rc = -EINVAL;
	if (rc < 0)
		return rc;
	rc = (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_open how = {parsed.engine, mode, parsed.create, parsed.nofollow, parsed.noatime};
		const uint64_t length = length_of(path);
		return g4_caller_open(caller, at ? inner(at) : NULL, keep(caller, 0, path, length), length, &how);
	});
	if (rc == 0)
		memcpy(out, &warp->caller.file, sizeof(*out));
	return rc;
}

__device__ int g4d_close(g4d_warp *warp, const g4d_file *file)
{
	return (int)together(warp, [&](struct g4_caller *caller) { return g4_caller_close(caller, inner(file)); });
}

__device__ int64_t g4d_read(g4d_warp *warp, const g4d_file *file, void *buffer, size_t bytes, uint64_t offset)
{
	return together(warp, [&](struct g4_caller *caller) {
		return g4_caller_read(caller, inner(file), offset, buffer, bytes);
	});
}

__device__ int64_t g4d_write(g4d_warp *warp, const g4d_file *file, const void *buffer, size_t bytes, uint64_t offset)
{
	return together(warp, [&](struct g4_caller *caller) {
		return g4_caller_write(caller, inner(file), offset, buffer, bytes);
	});
}

__device__ int g4d_fsync(g4d_warp *warp, const g4d_file *file)
{
	return (int)together(warp, [&](struct g4_caller *caller) { return g4_caller_fsync(caller, inner(file)); });
}

/* All lanes: the attributes that a call left. */
static __device__ int give_stat(g4d_warp *warp, int64_t rc, struct gpu4fs_stat *out)
{
	if (rc == 0)
		g4c_stat_from_attr(&warp->caller.attr, out);
	return (int)rc;
}

__device__ int g4d_stat(g4d_warp *warp, const g4d_file *at, const char *path, struct gpu4fs_stat *out)
{
	int64_t rc = together(warp, [&](struct g4_caller *caller) {
		const uint64_t length = length_of(path);
		return g4_caller_stat(caller, at ? inner(at) : NULL, keep(caller, 0, path, length), length, false);
	});
	return give_stat(warp, rc, out);
}

__device__ int g4d_fstat(g4d_warp *warp, const g4d_file *file, struct gpu4fs_stat *out)
{
	int64_t rc = together(warp, [&](struct g4_caller *caller) { return g4_caller_fstat(caller, inner(file)); });
	return give_stat(warp, rc, out);
}

__device__ int g4d_lookup(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes,
			  struct gpu4fs_stat *out)
{
	int64_t rc = together(warp, [&](struct g4_caller *caller) {
		/* a name that is too long is not read, but refused */
		const char *kept = name_bytes <= G4_NAME_MAX ? keep(caller, 0, name, name_bytes) : name;
		return g4_caller_lookup(caller, inner(dir), kept, name_bytes);
	});
	return give_stat(warp, rc, out);
}

__device__ int64_t g4d_readdir(g4d_warp *warp, const g4d_file *dir, uint64_t *cookie, void *buffer, size_t bytes)
{
	int64_t rc = together(warp, [&](struct g4_caller *caller) {
		return g4_caller_readdir(caller, inner(dir), *cookie, buffer, bytes);
	});
	if (rc >= 0)
		*cookie = warp->caller.cookie;
	return rc;
}

/* ------------------------------------------------------------------ changing names */

static __device__ struct g4_caller_path path_of(struct g4_caller *caller, uint32_t which, const g4d_file *at,
						const char *path)
{
	const uint64_t bytes = length_of(path);
	const struct g4_caller_path kept = {at ? inner(at) : NULL, keep(caller, which, path, bytes), bytes};
	return kept;
}

__device__ int g4d_mkdir(g4d_warp *warp, const g4d_file *at, const char *path, uint32_t mode)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path place = path_of(caller, 0, at, path);
		return g4_caller_mkdir(caller, &place, mode);
	});
}

__device__ int g4d_rmdir(g4d_warp *warp, const g4d_file *at, const char *path)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path place = path_of(caller, 0, at, path);
		return g4_caller_rmdir(caller, &place);
	});
}

__device__ int g4d_unlink(g4d_warp *warp, const g4d_file *at, const char *path)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path place = path_of(caller, 0, at, path);
		return g4_caller_unlink(caller, &place);
	});
}

__device__ int g4d_rename(g4d_warp *warp, const g4d_file *from_at, const char *from, const g4d_file *to_at,
			  const char *to, uint32_t flags)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path old = path_of(caller, 0, from_at, from),
					    place = path_of(caller, 1, to_at, to);
		return g4_caller_rename(caller, &old, &place, flags);
	});
}

__device__ int g4d_link(g4d_warp *warp, const g4d_file *from_at, const char *from, const g4d_file *to_at,
			const char *to, int flags)
{
	if (flags & ~AT_SYMLINK_FOLLOW)
		return -EINVAL;
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path old = path_of(caller, 0, from_at, from),
					    place = path_of(caller, 1, to_at, to);
		return g4_caller_link(caller, &old, &place, flags != 0);
	});
}

__device__ int g4d_symlink(g4d_warp *warp, const char *target, const g4d_file *at, const char *path)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		const struct g4_caller_path place = path_of(caller, 0, at, path);
		const uint64_t bytes = length_of(target);
		return g4_caller_symlink(caller, keep(caller, 1, target, bytes), bytes, &place);
	});
}

__device__ int g4d_truncate(g4d_warp *warp, const g4d_file *file, uint64_t size)
{
	return (int)together(warp,
			     [&](struct g4_caller *caller) { return g4_caller_truncate(caller, inner(file), size); });
}

__device__ int g4d_fallocate(g4d_warp *warp, const g4d_file *file, uint32_t mode, uint64_t offset, uint64_t bytes)
{
	return (int)together(warp, [&](struct g4_caller *caller) {
		return g4_caller_fallocate(caller, inner(file), mode, offset, bytes);
	});
}

static __device__ int64_t copy(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
			       uint64_t to_offset, uint64_t bytes, uint32_t flags)
{
	return together(warp, [&](struct g4_caller *caller) {
		return g4_caller_copy(caller, inner(from), from_offset, inner(to), to_offset, bytes, flags);
	});
}

__device__ int64_t g4d_copy_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				  uint64_t to_offset, uint64_t bytes)
{
	return copy(warp, from, from_offset, to, to_offset, bytes, 0);
}

__device__ int64_t g4d_share_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				   uint64_t to_offset, uint64_t bytes)
{
	return copy(warp, from, from_offset, to, to_offset, bytes, G4_COPY_SHARE);
}

__device__ int64_t g4d_dedupe_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				    uint64_t to_offset, uint64_t bytes, uint32_t flags)
{
	if (flags & ~(GPU4FS_DEDUPE_COMPARE | GPU4FS_DEDUPE_ZEROS))
		return -EINVAL;
	return copy(warp, from, from_offset, to, to_offset, bytes,
		    G4_COPY_SAME | (flags & GPU4FS_DEDUPE_COMPARE ? G4_COPY_COMPARE : 0) |
			    (flags & GPU4FS_DEDUPE_ZEROS ? G4_COPY_ZEROS : 0));
}

/* Lane 0. One command: how many of its entries were done, or a negative code of them all. */
static __device__ int64_t run_batch(struct g4_caller *caller, const g4d_file *at, const struct g4c_batch *batch,
				    uint32_t first, uint32_t count, uint32_t flags)
{
	int64_t done = 0;

	if (g4c_batch_is_too_long(batch, &batch->entries[first])) {
		g4c_batch_fail(batch, first, first + 1, -ENAMETOOLONG);
		return 0;
	}
	const uint64_t bytes = g4c_batch_pack(batch, first, count, flags);
	const int64_t rc = g4_caller_batch(caller, at ? inner(at) : NULL, batch->data, bytes, count, flags);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < count; k++) {
		const int code = g4c_batch_unpack(batch, first, count, flags, k);
		batch->entries[first + k].result = (int32_t)to_errno(code);
		done += code == 0;
	}
	return done;
}

__device__ int64_t g4d_batch(g4d_warp *warp, const g4d_file *at, struct gpu4fs_batch_entry *entries, uint32_t count,
			     uint32_t flags)
{
	if (flags & ~GPU4FS_BATCH_STOP)
		return -EINVAL;
	return together(warp, [&](struct g4_caller *caller) {
		const struct g4c_batch batch = {entries, flags, (uint8_t *)caller->scratch, G4_COPY_SCRATCH_BYTES};
		int64_t done = 0;
		uint32_t command_flags, n;

		for (uint32_t first = 0; first < count; first += n) {
			n = g4c_batch_fitting(&batch, first, count, &command_flags);
			const int64_t rc = run_batch(caller, at, &batch, first, n, command_flags);
			if (rc < 0) {
				g4c_batch_fail(&batch, first, count, (int)to_errno(rc));
				return done > 0 ? done : rc;
			}
			done += rc;
			if ((flags & GPU4FS_BATCH_STOP) && rc < n) {
				g4c_batch_fail(&batch, first + n, count, -ECANCELED);
				break;
			}
		}
		return done;
	});
}

/* ------------------------------------------------------------------ each lane its own */

/* This lane's part of the next call: written here before the warp barrier that calls begin with, and read after it. */
static __device__ struct g4_caller_lane *mine_of(g4d_warp *warp)
{
	return &warp->caller.lane[g4_wg_lane(warp->caller.wg)];
}

static __device__ struct g4_caller_lane *look_up_each(g4d_warp *warp, const g4d_file *dir, const char *name,
						      size_t name_bytes, bool wants_attr)
{
	struct g4_caller_lane *mine = mine_of(warp);

	mine->name = name;
	mine->bytes = name_bytes;
	mine->wants_attr = wants_attr;
	together(warp, [&](struct g4_caller *caller) {
		g4_caller_lookup_each(caller, inner(dir));
		return 0;
	});
	return mine;
}

__device__ int g4d_lookup_each(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes,
			       struct gpu4fs_stat *out)
{
	const struct g4_caller_lane *mine = look_up_each(warp, dir, name, name_bytes, out != NULL);

	if (mine->result == 0 && name_bytes > 0 && out)
		g4c_stat_from_attr(g4_caller_attr_of(&warp->caller, g4_wg_lane(warp->caller.wg)), out);
	return (int)to_errno(mine->result);
}

__device__ int g4d_ino_each(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes, uint64_t *out)
{
	const struct g4_caller_lane *mine = look_up_each(warp, dir, name, name_bytes, false);

	if (mine->result == 0 && name_bytes > 0)
		*out = mine->ino;
	return (int)to_errno(mine->result);
}

__device__ int64_t g4d_read_each(g4d_warp *warp, const g4d_file *file, void *buffer, size_t bytes, uint64_t offset)
{
	struct g4_caller_lane *mine = mine_of(warp);

	mine->to = buffer;
	mine->bytes = bytes;
	mine->offset = offset;
	together(warp, [&](struct g4_caller *caller) {
		g4_caller_read_each(caller, inner(file));
		return 0;
	});
	return to_errno(mine->result);
}

__device__ int g4d_map_each(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out)
{
	struct g4_caller_lane *mine = mine_of(warp);

	mine->offset = offset;
	together(warp, [&](struct g4_caller *caller) {
		g4_caller_map_each(caller, inner(file));
		return 0;
	});
	out->data = NULL; /* of a lane that gets none, for g4d_unmap_each() */
	if (mine->result == 0) {
		out->data = mine->page.data;
		out->bytes = mine->page.bytes;
		out->opaque = mine->page.line;
	}
	return (int)to_errno(mine->result);
}

/* Every lane has read what it wanted of any lane's page before one is let go. */
__device__ void g4d_unmap_each(g4d_warp *warp, const g4d_page *page)
{
	struct g4_callers *callers = warp->caller.callers;
	const uint32_t lane = g4_wg_lane(warp->caller.wg), line = page->opaque;
	const bool mapped = page->data != NULL;

	__syncwarp();
	const bool left = mapped && !g4_caller_unmap_lane(callers, line);
	const uint32_t count = (uint32_t)__popc(__ballot_sync(G4_WARP_ALL, mapped));
	for (uint32_t lanes = __ballot_sync(G4_WARP_ALL, left); lanes; lanes &= lanes - 1) {
		const uint32_t theirs = __shfl_sync(G4_WARP_ALL, line, __ffs((int)lanes) - 1);
		if (lane == 0)
			g4_caller_unmap(callers, theirs, false);
		__syncwarp();
	}
	if (lane == 0 && count > 0)
		g4_caller_unpin(callers, count);
	__syncwarp();
}

/* ------------------------------------------------------------------ mapped pages */

static __device__ int map(g4d_warp *warp, const g4d_file *file, uint64_t offset, bool pin, g4d_page *out)
{
	int64_t rc = together(warp, [&](struct g4_caller *caller) {
		return g4_caller_map(caller, inner(file), offset >> G4_PAGE_SHIFT, pin);
	});
	if (rc == 0) {
		out->data = warp->caller.page.data;
		out->bytes = warp->caller.page.bytes;
		out->opaque = warp->caller.page.line;
	}
	return (int)rc;
}

/* The lanes have read what they wanted before lane 0 lets the page go. */
static __device__ void unmap(g4d_warp *warp, const g4d_page *page, bool pinned)
{
	__syncwarp();
	if (g4_wg_lane(warp->caller.wg) == 0)
		g4_caller_unmap(warp->caller.callers, page->opaque, pinned);
	__syncwarp();
}

__device__ int g4d_map(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out)
{
	return map(warp, file, offset, true, out);
}

__device__ void g4d_unmap(g4d_warp *warp, const g4d_page *page)
{
	unmap(warp, page, true);
}

__device__ int g4d_map_briefly(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out)
{
	return map(warp, file, offset, false, out);
}

__device__ void g4d_unmap_brief(g4d_warp *warp, const g4d_page *page)
{
	unmap(warp, page, false);
}

__device__ bool g4d_may_read(const g4d_file *file)
{
	return g4_caller_may_read(inner(file));
}

__device__ const void *g4d_peek(g4d_warp *warp, const g4d_file *file, uint64_t offset, uint32_t *opaque)
{
	return g4_caller_peek(warp->caller.callers, inner(file), offset >> G4_PAGE_SHIFT, opaque);
}

__device__ void g4d_unpeek(g4d_warp *warp, uint32_t opaque)
{
	g4_caller_unpeek(warp->caller.callers, opaque);
}

/* ------------------------------------------------------------------ host */

struct gpu4fs_device {
	gpu4fs *fs;
	cudaStream_t stream; /* the default stream would wait for the engine's kernel */
	/* in device memory */
	g4d_fs *callers;
	struct g4_caller *caller;
	struct g4_wg *wgs;
	uint8_t *scratch;
};

static bool good(cudaError_t rc)
{
	if (rc != cudaSuccess)
		(void)cudaGetLastError(); /* told by the return value; the next call starts anew */
	return rc == cudaSuccess;
}

/* As many as can be resident: a warp in g4d_enter() must never wait for one that cannot start. */
static bool default_warps(uint32_t *warps)
{
	int sms, registers, threads;

	if (!good(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)) ||
	    !good(cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerMultiprocessor, 0)) ||
	    !good(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0)))
		return false;
	uint64_t a_sm =
		g4_min64((uint64_t)registers / (G4_CUDA_REGISTERS * G4_WARP_LANES), (uint64_t)threads / G4_WARP_LANES);
	*warps = (uint32_t)g4_min64((uint64_t)sms * a_sm, G4C_DEVICE_MOST_WARPS);
	return *warps > 0;
}

static bool put(gpu4fs_device *device, void *to, const void *from, uint64_t bytes)
{
	return good(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->stream)) &&
	       good(cudaStreamSynchronize(device->stream));
}

template <class T> static bool allocate(gpu4fs_device *device, T **out, uint64_t bytes)
{
	return good(cudaMallocAsync((void **)out, bytes, device->stream));
}

/* The places and what callers of the device API have in common, made here and copied there. */
static int fill(gpu4fs_device *device, const struct g4c_device_session *session, uint32_t warps)
{
	struct g4_caller *caller = (struct g4_caller *)calloc(warps, sizeof(*caller));
	struct g4_wg *wgs = (struct g4_wg *)calloc(warps, sizeof(*wgs));
	struct g4d_fs common;
	int rc = -ENOMEM;

	if (caller && wgs) {
		for (uint32_t i = 0; i < warps; i++) {
			caller[i].callers = &device->callers->callers;
			caller[i].wg = device->wgs + i;
			g4_wg_init(&wgs[i], FIRST_INDEX + i, device->scratch + (uint64_t)i * session->scratch_bytes,
				   session->scratch_bytes);
		}
		memset(&common, 0, sizeof(common));
		common.callers.fs = session->fs;
		common.callers.caller = device->caller;
		common.callers.count = warps;
		common.callers.start = session->start;
		common.callers.cred = session->cred;
		rc = put(device, device->caller, caller, warps * sizeof(*caller)) &&
				     put(device, device->wgs, wgs, warps * sizeof(*wgs)) &&
				     put(device, device->callers, &common, sizeof(common)) ?
			     0 :
			     -EIO;
	}
	free(caller);
	free(wgs);
	return rc;
}

static int make(gpu4fs_device *device, const struct g4c_device_session *session)
{
	uint32_t warps = session->warps;

	if ((warps == 0 && !default_warps(&warps)) ||
	    !good(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking)))
		return -EIO;
	if (!allocate(device, &device->callers, sizeof(*device->callers)) ||
	    !allocate(device, &device->caller, warps * sizeof(*device->caller)) ||
	    !allocate(device, &device->wgs, warps * sizeof(*device->wgs)) ||
	    !allocate(device, &device->scratch, (uint64_t)warps * session->scratch_bytes))
		return -ENOMEM;
	return fill(device, session, warps);
}

/* The first error of CUDA's, as the caller is to have it. */
static int destroy(gpu4fs_device *device)
{
	bool freed = true;

	if (device->stream) {
		void *const memory[] = {device->callers, device->caller, device->wgs, device->scratch};

		for (void *piece : memory)
			if (piece)
				freed = good(cudaFreeAsync(piece, device->stream)) && freed;
		freed = good(cudaStreamSynchronize(device->stream)) && freed;
		freed = good(cudaStreamDestroy(device->stream)) && freed;
	}
	free(device);
	return freed ? 0 : -EIO;
}

/* Runs with the engine's GPU as the thread's current one. */
template <class Call> static int on_gpu(Call call)
{
	int before;

	if (!good(cudaGetDevice(&before)) || !good(cudaSetDevice(0)))
		return -EIO;
	int rc = call();
	return good(cudaSetDevice(before)) || rc < 0 ? rc : -EIO;
}

extern "C" int gpu4fs_device_open(gpu4fs *fs, const struct gpu4fs_device_options *options, gpu4fs_device **out)
{
	struct g4c_device_session session;
	int rc = g4c_device_begin(fs, options, &session);

	if (rc < 0)
		return rc;
	gpu4fs_device *device = (gpu4fs_device *)calloc(1, sizeof(*device));
	if (!device) {
		g4c_device_end(fs);
		return -ENOMEM;
	}
	device->fs = fs;
	rc = on_gpu([&] { return make(device, &session); });
	if (rc < 0) {
		(void)on_gpu([&] { return destroy(device); }); /* the first error is the one to tell */
		g4c_device_end(fs);
		return rc;
	}
	*out = device;
	return 0;
}

extern "C" g4d_fs *gpu4fs_device_fs(const gpu4fs_device *device)
{
	return device->callers;
}

extern "C" int gpu4fs_device_close(gpu4fs_device *device)
{
	gpu4fs *fs = device->fs;
	int rc = on_gpu([&] { return destroy(device); });

	g4c_device_end(fs);
	return rc;
}
