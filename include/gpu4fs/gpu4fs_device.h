/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device API: kernels of a program open, read, write and map files of a file system that the program has mounted with
 * the CUDA engine. No host code runs for a file, and no copy goes through the host.
 *
 *	const struct gpu4fs_options options = {.size = sizeof(options), .engine = "cuda"};
 *	gpu4fs_mount(&name, 1, &options, &fs);
 *	gpu4fs_device_open(fs, NULL, &device);
 *	kernel<<<blocks, 128, 0, stream>>>(gpu4fs_device_fs(device));
 *	cudaStreamSynchronize(stream);
 *	gpu4fs_device_close(device);
 *	gpu4fs_unmount(fs);
 *
 *	__global__ void kernel(g4d_fs *fs)
 *	{
 *		g4d_warp *warp = g4d_enter(fs);
 *		g4d_file file;
 *		if (g4d_open(warp, NULL, "/table", O_RDONLY, 0, &file) == 0) {
 *			g4d_array<float> table(warp, file);
 *			float x = table[random_index()];	// each lane its own
 *			...
 *			table.release();
 *			g4d_close(warp, &file);
 *		}
 *		g4d_leave(warp);
 *	}
 *
 * The warp that calls executes the operation itself, on the mounted file system in the GPU's memory: what the calling
 * thread is to gpu4fs.h. The two headers mean the same by the same words; this one includes the other for struct
 * gpu4fs_stat and the flags of open(2). docs/gpu/ has two whole programs.
 *
 * Collective calls
 *	Every g4d_ function is collective: all 32 lanes of a warp call it together (converged, at the same place in the
 *	program) and with the same arguments, except where a comment says that an argument is each lane's own. Blocks have a
 *	multiple of 32 threads, and all lanes of a warp stay until g4d_leave(): a lane that is not interested calls all the
 *	same. Inside `if (threadIdx.x == 0)` none may be called. All lanes get the same result. An out parameter is written by
 *	every lane, so that it may be a local variable; if all pass the same address, they write the same there.
 *
 *	A call orders memory in the warp: what any lane wrote before it, the operation sees; what the operation wrote, all
 *	lanes see after it.
 *
 * Memory
 *	Buffers of g4d_read(), g4d_write() and g4d_readdir() are device memory (cudaMalloc, __device__) or page-locked host
 *	memory that the GPU reaches: not local variables, which each lane has for itself, and not __shared__. Paths and names
 *	may lie anywhere that lane 0 can read. Nothing is kept after a call but the pages that are mapped.
 *
 * Results
 *	As in gpu4fs.h: 0 or a count, or a negative errno value. An out parameter is written only on success. Any function
 *	may return -EIO, -EUCLEAN, -ENOMEM, and any that changes something -EROFS or -ENOSPC.
 *
 * Who acts
 *	The session that gpu4fs_device_open() got: its credentials are checked, its working directory is where relative
 *	paths start, its umask applies. Kernels of one handle are one user. Code that runs in a kernel is not confined, though:
 *	it lies in one address space with the engine, as the program does with libgpu4fs.
 *
 * Durability
 *	What a call wrote is visible to everybody at once and durable after g4d_fsync(), gpu4fs_syncfs(), gpu4fs_unmount()
 *	or, by itself, after the mount's commit_ms and the time for which kernels leave the engine no room.
 *
 * Launching
 *	* The engine's own kernel serves the host's calls and leaves the GPU when there were none for 50 ms. While it is there
 *	  it takes the multiprocessors that gpu4fs_options.multiprocessors allows it; all, unless told: then a kernel that is
 *	  launched beside it waits until it leaves. The other way round, host calls wait while the program's kernels fill the
 *	  GPU. Neither kernel ever needs the other in order to go on, so no order of launches is a deadlock; but a kernel that
 *	  waits for its host, which waits in a call of gpu4fs.h, needs room for both.
 *	* A kernel that calls these functions takes the engine's registers (80 a thread as built) if its own code takes fewer:
 *	  about 25 warps fit a multiprocessor, and a block has 768 threads at most. It takes up to G4D_STACK_BYTES of stack a
 *	  thread; the mount sets the limit (cudaLimitStackSize) to 16 KiB, and a kernel that needs more than the rest of it
 *	  sets a higher one before it is launched.
 *	* Launch into a stream made with cudaStreamNonBlocking, wait with cudaStreamSynchronize(), and allocate with
 *	  cudaMallocAsync(): cudaDeviceSynchronize(), cudaMalloc() and cudaFree() may wait for the engine's kernel, up to those
 *	  50 ms. Mount before anything else uses CUDA, or set CUDA_MODULE_LOADING=EAGER: a kernel that is loaded at its first
 *	  launch waits likewise.
 *	* With more than a handful of streams set CUDA_DEVICE_MAX_CONNECTIONS=32: streams that share one of the eight connections
 *	  that there are by default wait for each other's kernels.
 *	* A kernel that faults takes the engine with it: they share a CUDA context. All calls then fail with -EIO.
 *
 * Building
 *	The engine's device code is linked into the program, once:
 *		nvcc -std=c++20 -rdc=true -arch=sm_90 program.cu $(pkg-config --cflags --libs gpu4fs-device)
 *	or, with CMake, find_package(gpu4fs COMPONENTS device) and gpu4fs::device, and CUDA_SEPARABLE_COMPILATION. Not with
 *	libgpu4fs.so beside it: that has an engine of its own. The functions for the host may be called from C as well.
 */
#ifndef GPU4FS_DEVICE_H
#define GPU4FS_DEVICE_H

#include <errno.h>
#include <stddef.h>

#include "gpu4fs/gpu4fs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The file system as kernels see it: an address in the GPU's memory, nothing else to the host. */
typedef struct g4d_fs g4d_fs;

/* ------------------------------------------------------------------------------------------------ host */

/* What a program has to let its kernels in. */
typedef struct gpu4fs_device gpu4fs_device;

struct gpu4fs_device_options {
	uint32_t size; /* sizeof(struct gpu4fs_device_options) */
	/*
	 * Warps that are between g4d_enter() and g4d_leave() at a time, 1 to 16384; each takes 64 KiB of the GPU's memory. More
	 * than that wait in g4d_enter() for others to leave. 0: as many as the GPU can hold at a time, about 200 MiB on 132
	 * multiprocessors; then nobody ever waits.
	 */
	uint32_t warps;
	uint64_t reserved[2];
};

/*
 * Lets kernels use a mounted file system, as the session `fs`, which stays open as long. options: NULL for the defaults.
 * out: give it back with gpu4fs_device_close(). Several handles of one file system work side by side.
 * Errors: -EOPNOTSUPP the file system is not mounted with the CUDA engine in this process; -ENOMEM no room on the GPU;
 * -EINVAL options. -EIO: a call of CUDA failed, for example since a kernel faulted.
 */
GPU4FS_API int gpu4fs_device_open(gpu4fs *fs, const struct gpu4fs_device_options *options, gpu4fs_device **out);
/* What to pass to kernels on device 0. Valid until gpu4fs_device_close(). */
GPU4FS_API g4d_fs *gpu4fs_device_fs(const gpu4fs_device *device);
/*
 * Ends it when no kernel uses it any more. Files that kernels left open stay so until gpu4fs_unmount(), and pages that they
 * left mapped stay in the cache: nobody else can close them. -EIO as above; frees the handle regardless.
 */
GPU4FS_API int gpu4fs_device_close(gpu4fs_device *device);

#ifdef __cplusplus
}
#endif

/* ------------------------------------------------------------------------------------------------ kernels */

#define G4D_PAGE_BYTES 4096u
#define G4D_STACK_BYTES 10240u

/*
 * An open file or directory. Plain data: it may be copied, kept in device memory and used by any warp of any kernel of the
 * same gpu4fs_device, also several at a time. To open one file in a thousand warps, let one warp open it and the others read
 * the structure. Zeroed, it is no file: -EBADF.
 */
typedef struct g4d_file {
	uint64_t opaque[3];
} g4d_file;

/* One record of g4d_readdir(), 8-byte aligned; the next begins record_bytes further on. */
struct g4d_dirent {
	uint64_t ino;
	uint64_t cookie; /* g4d_readdir() from there goes on behind this entry */
	uint32_t record_bytes;
	uint16_t name_bytes;
	uint8_t type; /* DT_REG, DT_DIR, ... */
	uint8_t reserved;
};

/* A page of a file in the GPU's memory. */
typedef struct g4d_page {
	const void
		*data;	/* the page's G4D_PAGE_BYTES bytes, page-aligned; read-only; zeros behind the end of the file */
	uint32_t bytes; /* how many of them are the file's */
	uint32_t opaque;
} g4d_page;

#ifdef __CUDACC__

/* A warp that may call the functions below. */
typedef struct g4d_warp g4d_warp;

/*
 * Makes the calling warp one that may use the file system. A warp enters once, does what it does, and leaves: that costs an
 * atomic operation or two. NULL: the block's threads are no multiple of 32.
 * With fewer places (gpu4fs_device_options.warps) than warps, a warp that is inside must not wait for one that is not, as
 * __syncthreads() does between a warp that entered and one that has yet to.
 */
__device__ g4d_warp *g4d_enter(g4d_fs *fs);
/* No call with `warp` after this one, except g4d_unmap() and g4d_unmap_each(). NULL is allowed. */
__device__ void g4d_leave(g4d_warp *warp);

/*
 * Opens a file or directory: gpu4fs_open(). at: a directory where a path without a leading slash starts; NULL: the session's
 * working directory. flags: as there, without O_TMPFILE (-EINVAL). out: give it back with g4d_close().
 * One thing differs: with O_CREAT a symbolic link at the end of the path is not followed but refused (-ELOOP).
 */
__device__ int g4d_open(g4d_warp *warp, const g4d_file *at, const char *path, int flags, uint32_t mode, g4d_file *out);
/* Gives it back, all its copies with it. Mapped pages stay mapped. */
__device__ int g4d_close(g4d_warp *warp, const g4d_file *file);

/*
 * Reads or writes at an offset: gpu4fs_pread(), gpu4fs_pwrite(). Calls on one file from many warps run side by side; writers
 * of one file take turns. A page is read before or after a write to it, never half.
 */
__device__ int64_t g4d_read(g4d_warp *warp, const g4d_file *file, void *buffer, size_t bytes, uint64_t offset);
__device__ int64_t g4d_write(g4d_warp *warp, const g4d_file *file, const void *buffer, size_t bytes, uint64_t offset);
/* Returns when the file's data and attributes are durable. */
__device__ int g4d_fsync(g4d_warp *warp, const g4d_file *file);

/* Attributes by path, following symbolic links; of an open file; and of a name in an open directory, not following one: the
 * name has name_bytes bytes and needs no terminator. -ENOENT: there is none. */
__device__ int g4d_stat(g4d_warp *warp, const g4d_file *at, const char *path, struct gpu4fs_stat *out);
__device__ int g4d_fstat(g4d_warp *warp, const g4d_file *file, struct gpu4fs_stat *out);
__device__ int g4d_lookup(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes,
			  struct gpu4fs_stat *out);

/*
 * Names and lengths: as the functions of gpu4fs.h that are called so, with their errors; at, from_at, to_at as in
 * g4d_open(). g4d_truncate() is gpu4fs_ftruncate(). To make a file is g4d_open() with O_CREAT.
 */
__device__ int g4d_mkdir(g4d_warp *warp, const g4d_file *at, const char *path, uint32_t mode);
__device__ int g4d_rmdir(g4d_warp *warp, const g4d_file *at, const char *path);
__device__ int g4d_unlink(g4d_warp *warp, const g4d_file *at, const char *path);
__device__ int g4d_rename(g4d_warp *warp, const g4d_file *from_at, const char *from, const g4d_file *to_at,
			  const char *to, uint32_t flags);
__device__ int g4d_link(g4d_warp *warp, const g4d_file *from_at, const char *from, const g4d_file *to_at,
			const char *to, int flags);
__device__ int g4d_symlink(g4d_warp *warp, const char *target, const g4d_file *at, const char *path);
__device__ int g4d_truncate(g4d_warp *warp, const g4d_file *file, uint64_t size);
/* Space of a file: gpu4fs_fallocate(). */
__device__ int g4d_fallocate(g4d_warp *warp, const g4d_file *file, uint32_t mode, uint64_t offset, uint64_t bytes);

/*
 * Copies inside the file system: gpu4fs_copy_file_range() at offsets, gpu4fs_share_range() by reference alone, and gpu4fs_dedupe_range()
 * of what is the same already; with their results, errors and flags. They go on until all is done or nothing more can be, which one
 * warp does.
 */
__device__ int64_t g4d_copy_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				  uint64_t to_offset, uint64_t bytes);
__device__ int64_t g4d_share_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				   uint64_t to_offset, uint64_t bytes);
__device__ int64_t g4d_dedupe_range(g4d_warp *warp, const g4d_file *from, uint64_t from_offset, const g4d_file *to,
				    uint64_t to_offset, uint64_t bytes, uint32_t flags);

/*
 * Operations on many names: gpu4fs_batch(), with its results. entries, with what they point to (paths and attributes), is device memory
 * or page-locked host memory. A path, or the two of a rename, has up to 16 000 bytes: -ENAMETOOLONG. While the engine's own kernel
 * is on the GPU and has nothing else to do, it does a part of the entries. -EBADF: `at` is no file.
 */
__device__ int64_t g4d_batch(g4d_warp *warp, const g4d_file *at, struct gpu4fs_batch_entry *entries, uint32_t count,
			     uint32_t flags);

/*
 * Lists an open directory: fills the buffer with records and returns their bytes, 0 at the end. *cookie is each lane's own
 * and the same in all: 0 at first, moved on by the call. "." and ".." are left out. A name that exists all the time is
 * listed exactly once, whatever else happens to the directory. -ERANGE: the buffer is too small for the next name (288 bytes
 * are enough for any). -EBADF: it was not opened for reading; -ENOTDIR.
 */
__device__ int64_t g4d_readdir(g4d_warp *warp, const g4d_file *dir, uint64_t *cookie, void *buffer, size_t bytes);
/* The name of a record; name_bytes bytes, no terminator. Per-lane. */
static inline __device__ const char *g4d_name(const struct g4d_dirent *entry)
{
	return (const char *)(entry + 1);
}

/*
 * Maps the page of a file that holds the byte at `offset`: it is brought into the page cache in the GPU's memory, if it is
 * not there, and stays until g4d_unmap(). The file has to be open for reading. Access times do not change.
 *
 * What the page shows is the file's contents when it was mapped. A caller that writes to that page later, or cuts or deletes the
 * file, may do so: the page then shows their bytes, all, some or none of them; to see them for sure, map it again. It never
 * shows another file's data.
 *
 * At most one line of the cache in sixteen can be mapped at a time (4096 pages of a cache of 256 MiB, which is the default):
 * -ENOMEM beyond that. -ENXIO: offset is at or behind the end of the file.
 */
__device__ int g4d_map(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out);
/* Lets the page go. Any warp of the same gpu4fs_device may do that. */
__device__ void g4d_unmap(g4d_warp *warp, const g4d_page *page);

/*
 * The same for 32 at a time. These are collective as all calls are, and dir or file is the same in all lanes; but every other
 * argument and the result are each lane's own, and a lane gets what the call for one would have given it. What lies in the
 * caches the lanes fetch side by side, the rest is done one lane after the other: for small things, many times as fast as
 * 32 calls. The calls of one warp's lanes happen in any order, and others may change the directory or file between them.
 *
 * Memory as above, but a name may lie anywhere that its own lane can read, a local variable included. Buffers of two lanes do
 * not overlap.
 */
/* g4d_lookup(). name_bytes 0: the lane wants nothing; 0. out may be NULL: whether the name is there. */
__device__ int g4d_lookup_each(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes,
			       struct gpu4fs_stat *out);
/* The inode's number alone, as the directory has it: a name in the cache costs 64 bytes of memory traffic. Otherwise as above. */
__device__ int g4d_ino_each(g4d_warp *warp, const g4d_file *dir, const char *name, size_t name_bytes, uint64_t *out);
/* g4d_read(). bytes 0: nothing; 0. Side by side: up to a page each, not across a page's end. */
__device__ int64_t g4d_read_each(g4d_warp *warp, const g4d_file *file, void *buffer, size_t bytes, uint64_t offset);
/* g4d_map(). offset UINT64_MAX: no page; -ENXIO. A lane that gets none has NULL in out->data. */
__device__ int g4d_map_each(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out);
/* g4d_unmap(), also of pages that g4d_map() gave. data NULL: the lane has none. */
__device__ void g4d_unmap_each(g4d_warp *warp, const g4d_page *page);

/* What g4d_array is made of; subject to change. The last three are per-lane, and what peek gives goes back at once. */
__device__ int g4d_map_briefly(g4d_warp *warp, const g4d_file *file, uint64_t offset, g4d_page *out);
__device__ void g4d_unmap_brief(g4d_warp *warp, const g4d_page *page);
__device__ bool g4d_may_read(const g4d_file *file);
__device__ const void *g4d_peek(g4d_warp *warp, const g4d_file *file, uint64_t offset, uint32_t *opaque);
__device__ void g4d_unpeek(g4d_warp *warp, uint32_t opaque);

/*
 * A file as an array of T, read-only: elements lie one behind the other from its first byte on, in the GPU's byte order. T is
 * trivially copyable and its size a power of two, so that no element lies in two pages.
 *
 * Made by all lanes of a warp; each lane has a copy of it in its registers, and all copies go through the same calls. It
 * remembers one page, mapped, until it needs another one, release() is called, or it goes out of scope.
 */
template <class T> class g4d_array
{
	static_assert(sizeof(T) <= G4D_PAGE_BYTES && (sizeof(T) & (sizeof(T) - 1)) == 0, "an element lies in one page");
	static_assert(__is_trivially_copyable(T), "an element is its bytes");

      public:
	/* Collective. The file stays open as long as the array is used. A file that cannot be read: size 0 and an error. */
	__device__ g4d_array(g4d_warp *warp, const g4d_file &file) : warp_(warp), file_(file)
	{
		struct gpu4fs_stat stat;

		error_ = g4d_may_read(&file) ? g4d_fstat(warp, &file, &stat) : -EBADF;
		size_ = error_ == 0 ? stat.size / sizeof(T) : 0;
	}
	__device__ ~g4d_array()
	{
		release();
	}
	g4d_array(const g4d_array &) = delete;
	g4d_array &operator=(const g4d_array &) = delete;

	/* Elements in the file when the array was made; a rest that is no whole element is left out. */
	__device__ uint64_t size() const
	{
		return size_;
	}

	/*
	 * Collective; the index is each lane's own, and each lane gets its own element. Lanes that want the same page share its
	 * mapping; lanes that want pages in the cache fetch them side by side; the rest is brought in one page after the other.
	 * An element that cannot be had (an index beyond size() is -ERANGE) is T() and leaves an error.
	 */
	__device__ T operator[](uint64_t index)
	{
		const uint64_t at = index * sizeof(T), page = at / G4D_PAGE_BYTES;
		const uint32_t inside = (uint32_t)(at % G4D_PAGE_BYTES);
		bool wanted = index < size_;
		T value = T();

		if (!wanted)
			note(-ERANGE);
		if (wanted && has_page_ && page == page_) {
			value = element(page_data_, inside);
			wanted = false;
		}
		unsigned lanes = __ballot_sync(all_lanes, wanted);
		if (lanes == 0)
			return value;
		/* one page for all of them: the next access will want it again, more likely than not */
		uint64_t next = __shfl_sync(all_lanes, page, __ffs((int)lanes) - 1);
		bool together = __all_sync(all_lanes, !wanted || page == next);
		if (!together && wanted) {
			uint32_t opaque;
			const void *data = g4d_peek(warp_, &file_, at, &opaque);

			if (data) {
				value = element(data, inside);
				g4d_unpeek(warp_, opaque);
				wanted = false;
			}
		}
		while ((lanes = __ballot_sync(all_lanes, wanted)) != 0) {
			next = __shfl_sync(all_lanes, page, __ffs((int)lanes) - 1);
			int rc = turn_to(next);
			if (wanted && page == next) {
				if (rc == 0)
					value = element(page_data_, inside);
				else
					note(rc);
				wanted = false;
			}
		}
		if (brief_)
			release();
		return value;
	}

	/* Collective. Lets the remembered page go. */
	__device__ void release()
	{
		if (!has_page_)
			return; /* in all lanes or in none */
		if (brief_)
			g4d_unmap_brief(warp_, &mapped_);
		else
			g4d_unmap(warp_, &mapped_);
		has_page_ = brief_ = false;
	}

	/* Collective. The first error of the lowest lane that met one since the array was made, 0 without. */
	__device__ int error() const
	{
		const unsigned lanes = __ballot_sync(all_lanes, error_ != 0);

		return __shfl_sync(all_lanes, error_, lanes ? __ffs((int)lanes) - 1 : 0);
	}

      private:
	static constexpr unsigned all_lanes = 0xffffffffu;

	static __device__ T element(const void *page, uint32_t inside)
	{
		return *(const T *)((const char *)page + inside);
	}
	__device__ void note(int rc)
	{
		if (error_ == 0)
			error_ = rc;
	}
	/* Remembers another page; for this access only, where no more may be mapped. */
	__device__ int turn_to(uint64_t page)
	{
		release();
		int rc = g4d_map(warp_, &file_, page * G4D_PAGE_BYTES, &mapped_);
		if (rc == -ENOMEM) {
			rc = g4d_map_briefly(warp_, &file_, page * G4D_PAGE_BYTES, &mapped_);
			brief_ = rc == 0;
		}
		has_page_ = rc == 0;
		page_ = page;
		page_data_ = mapped_.data;
		return rc;
	}

	g4d_warp *warp_;
	g4d_file file_;
	uint64_t size_;
	uint64_t page_ = 0;
	const void *page_data_ = nullptr;
	g4d_page mapped_ = {};
	int error_;
	bool has_page_ = false, brief_ = false;
};

#endif

#endif
