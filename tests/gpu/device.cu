/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device API (gpu4fs/gpu4fs_device.h) on a GPU: kernels and the host work on one mounted file system, and each checks what
 * the other left there. Built as a user's program is, of the public headers and one library.
 *
 * Usage: device [NAME]...   (default: all tests; names as in the table at the end)
 * Prints a line a test and "N passed, M failed, 0 skipped"; with OUT in the environment also writes $OUT/device.json.
 * Exit status: 0 all good, 1 not. A test that hangs is ended by SIGALRM.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "gpu4fs/gpu4fs_device.h"

#define ALL_LANES 0xffffffffu
#define TEST_SECONDS 240
#define BUFFER_BYTES (128u * 1024)
#define MANY_WARPS 512u
#define TABLE_BYTES (64u << 20)
#define TABLE_SEED 77u
#define NAMES 1000u
#define PINS 8192u /* more than may be mapped with the cache that main() asks for */

/* ------------------------------------------------------------------ what both sides know */

static __host__ __device__ uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Byte `at` of the file with this seed. Eight bytes from a multiple of eight on are word_of(). */
static __host__ __device__ uint64_t word_of(uint64_t seed, uint64_t index)
{
	return mix(seed << 40 ^ index);
}
static __host__ __device__ uint8_t byte_of(uint64_t seed, uint64_t at)
{
	return (uint8_t)(word_of(seed, at / 8) >> at % 8 * 8);
}

static __host__ __device__ uint64_t hash_name(const char *name, uint32_t bytes)
{
	uint64_t hash = bytes;

	for (uint32_t i = 0; i < bytes; i++)
		hash = mix(hash ^ (uint8_t)name[i]);
	return hash;
}

/* "PREFIX" and a number in decimal, with terminator. */
static __host__ __device__ void numbered(char *to, const char *prefix, uint32_t number)
{
	char digits[10];
	int count = 0;

	while (*prefix)
		*to++ = *prefix++;
	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	while (count > 0)
		*to++ = digits[--count];
	*to = 0;
}

static __host__ __device__ uint64_t size_of_file(uint32_t warp, uint32_t file)
{
	static const uint32_t sizes[] = {0, 1, 100, 128, 129, 4095, 4096, 4097, 20000, 70001};

	return sizes[(warp + file) % 10];
}

struct report {
	unsigned long long passed, failed;
	unsigned line;
	long long got, wanted;
};

struct scene { /* what kernels get */
	g4d_fs *fs;
	report *rep;
	uint8_t *buffers; /* BUFFER_BYTES a warp */
	g4d_file *files;  /* kept from kernel to kernel */
	g4d_page *pages;
	uint64_t *words;
};

/* ------------------------------------------------------------------ kernels: tools */

static __device__ uint32_t lane_of()
{
	return threadIdx.x % 32;
}
static __device__ uint32_t warp_of()
{
	return (blockIdx.x * blockDim.x + threadIdx.x) / 32;
}

/* Collective: what each lane got. */
static __device__ void expect(report *rep, long long got, long long wanted, unsigned line)
{
	unsigned wrong = __ballot_sync(ALL_LANES, got != wanted);
	long long shown = __shfl_sync(ALL_LANES, got, wrong ? __ffs((int)wrong) - 1 : 0);
	long long expected = __shfl_sync(ALL_LANES, wanted, wrong ? __ffs((int)wrong) - 1 : 0);
	unsigned lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	if (lane == 0) {
		if (!wrong) {
			atomicAdd(&rep->passed, 1ull);
		} else if (atomicAdd(&rep->failed, 1ull) == 0) {
			rep->line = line;
			rep->got = shown;
			rep->wanted = expected;
		}
	}
	__syncwarp();
}
#define EXPECT(got, wanted) expect(s.rep, (long long)(got), (long long)(wanted), __LINE__)

static __device__ void fill(uint8_t *buffer, uint64_t seed, uint64_t at, uint64_t bytes)
{
	for (uint64_t i = lane_of(); i < bytes; i += 32)
		buffer[i] = byte_of(seed, at + i);
	__syncwarp();
}

/* Bytes of the buffer that are not the file's; the same in all lanes. */
static __device__ uint32_t wrong_bytes(const uint8_t *buffer, uint64_t seed, uint64_t at, uint64_t bytes)
{
	uint32_t wrong = 0;

	for (uint64_t i = lane_of(); i < bytes; i += 32)
		wrong += buffer[i] != byte_of(seed, at + i);
	return __reduce_add_sync(ALL_LANES, wrong);
}
static __device__ uint32_t bytes_not(const uint8_t *buffer, uint8_t value, uint64_t bytes)
{
	uint32_t wrong = 0;

	for (uint64_t i = lane_of(); i < bytes; i += 32)
		wrong += buffer[i] != value;
	return __reduce_add_sync(ALL_LANES, wrong);
}

/* Writes a file of its own, reads it back in two ways, and closes it. */
static __device__ void write_and_read(const scene &s, g4d_warp *w, const char *name, uint64_t seed, uint64_t bytes,
				      uint8_t *buffer)
{
	g4d_file file;

	EXPECT(g4d_open(w, NULL, name, O_RDWR | O_CREAT | O_EXCL, 0644, &file), 0);
	fill(buffer, seed, 0, bytes);
	EXPECT(g4d_write(w, &file, buffer, bytes, 0), bytes);
	for (uint64_t i = lane_of(); i < bytes; i += 32)
		buffer[i] = 0;
	EXPECT(g4d_read(w, &file, buffer, BUFFER_BYTES, 0), bytes);
	EXPECT(wrong_bytes(buffer, seed, 0, bytes), 0);
	EXPECT(g4d_read(w, &file, buffer, BUFFER_BYTES, bytes), 0);
	EXPECT(g4d_close(w, &file), 0);
}

/* ------------------------------------------------------------------ kernels: files and names */

static __global__ void names_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	struct gpu4fs_stat stat, again;
	g4d_file file, dir, zero = {};

	EXPECT(w != NULL, true);
	write_and_read(s, w, "/gpu-small", 1, 100, s.buffers);
	write_and_read(s, w, "/gpu-middle", 2, 10001, s.buffers);
	write_and_read(s, w, "/names/gpu-large", 3, BUFFER_BYTES - 5, s.buffers);
	EXPECT(g4d_open(w, NULL, "/gpu-small", O_RDWR | O_CREAT | O_EXCL, 0644, &file), -EEXIST);
	EXPECT(g4d_open(w, NULL, "/gpu-none", O_RDONLY, 0, &file), -ENOENT);
	EXPECT(g4d_open(w, NULL, "", O_RDONLY, 0, &file), -ENOENT);
	EXPECT(g4d_open(w, NULL, "", O_RDWR | O_CREAT, 0, &file), -ENOENT);
	EXPECT(g4d_open(w, NULL, "/gpu-small/x", O_RDONLY, 0, &file), -ENOTDIR);
	EXPECT(g4d_open(w, NULL, "/gpu-small", O_RDONLY | O_DIRECTORY, 0, &file), -ENOTDIR);
	EXPECT(g4d_open(w, NULL, "/names", O_RDWR, 0, &file), -EISDIR);
	EXPECT(g4d_open(w, NULL, "/names", O_RDONLY | O_CREAT, 0644, &file), -EISDIR);
	EXPECT(g4d_open(w, NULL, "/names/x/", O_RDONLY | O_CREAT, 0644, &file), -EISDIR);
	EXPECT(g4d_open(w, NULL, "/names/.", O_RDONLY | O_CREAT | O_EXCL, 0644, &file), -EEXIST);
	EXPECT(g4d_open(w, NULL, "/", O_WRONLY | O_RDWR, 0, &file), -EINVAL);
	EXPECT(g4d_open(w, NULL, "/", O_RDWR | O_TMPFILE, 0600, &file), -EINVAL);
	EXPECT(g4d_open(w, NULL, "/link", O_RDONLY | O_NOFOLLOW, 0, &file), -ELOOP);
	EXPECT(g4d_open(w, NULL, "/link", O_RDWR | O_CREAT, 0644, &file), -ELOOP);

	EXPECT(g4d_open(w, NULL, "/link", O_RDONLY, 0, &file), 0); /* to names/from-host */
	EXPECT(g4d_fstat(w, &file, &stat), 0);
	EXPECT(stat.size, 50000);
	EXPECT(g4d_stat(w, NULL, "/names/from-host", &again), 0);
	EXPECT(again.ino, stat.ino);
	EXPECT(again.mode, S_IFREG | 0640);
	EXPECT(g4d_read(w, &file, s.buffers, 777, 49990), 10);
	EXPECT(wrong_bytes(s.buffers, 9, 49990, 10), 0);
	EXPECT(g4d_read(w, &file, s.buffers, 30001, 4095), 30001);
	EXPECT(wrong_bytes(s.buffers, 9, 4095, 30001), 0);
	EXPECT(g4d_write(w, &file, s.buffers, 1, 0), -EBADF);
	EXPECT(g4d_fsync(w, &file), 0);
	EXPECT(g4d_close(w, &file), 0);

	EXPECT(g4d_open(w, NULL, "names", O_RDONLY | O_DIRECTORY, 0, &dir), 0);
	EXPECT(g4d_lookup(w, &dir, "from-hostX", 9, &stat), 0);
	EXPECT(stat.ino, again.ino);
	EXPECT(g4d_lookup(w, &dir, "from-hostX", 10, &stat), -ENOENT);
	EXPECT(g4d_lookup(w, &dir, "a/b", 3, &stat), -EINVAL);
	EXPECT(g4d_stat(w, &dir, "from-host", &stat), 0);
	EXPECT(stat.ino, again.ino);
	EXPECT(g4d_stat(w, &dir, "../link", &stat), 0);
	EXPECT(stat.ino, again.ino);
	EXPECT(g4d_open(w, &dir, "at", O_WRONLY | O_CREAT, 0600, &file), 0);
	EXPECT(g4d_write(w, &file, s.buffers, 10, 0), 10);
	EXPECT(g4d_read(w, &file, s.buffers, 10, 0), -EBADF);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_open(w, &dir, "at", O_WRONLY | O_APPEND, 0, &file), 0);
	EXPECT(g4d_write(w, &file, s.buffers, 7, 0), 7);
	EXPECT(g4d_fstat(w, &file, &stat), 0);
	EXPECT(stat.size, 17);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_open(w, &dir, "at", O_WRONLY | O_TRUNC, 0, &file), 0);
	EXPECT(g4d_fstat(w, &file, &stat), 0);
	EXPECT(stat.size, 0);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_read(w, &dir, s.buffers, 10, 0), -EISDIR);
	EXPECT(g4d_close(w, &dir), 0);

	EXPECT(g4d_read(w, &zero, s.buffers, 10, 0), -EBADF);
	EXPECT(g4d_write(w, &zero, s.buffers, 10, 0), -EBADF);
	EXPECT(g4d_fstat(w, &zero, &stat), -EBADF);
	EXPECT(g4d_fsync(w, &zero), -EBADF);
	EXPECT(g4d_lookup(w, &zero, "a", 1, &stat), -EBADF);
	EXPECT(g4d_close(w, &zero), -EBADF);
	g4d_leave(w);
}

/* Makes, moves and removes; what is left is for the host to look at. */
static __global__ void change_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	struct gpu4fs_stat stat;
	g4d_file dir, file;

	EXPECT(g4d_mkdir(w, NULL, "/changed", 0777), 0);
	EXPECT(g4d_mkdir(w, NULL, "/changed", 0777), -EEXIST);
	EXPECT(g4d_open(w, NULL, "/changed", O_RDONLY | O_DIRECTORY, 0, &dir), 0);
	write_and_read(s, w, "/changed/one", 6, 5000, s.buffers);
	EXPECT(g4d_link(w, &dir, "one", NULL, "/changed/two", 0), 0);
	EXPECT(g4d_link(w, &dir, "one", &dir, "two", 0), -EEXIST);
	EXPECT(g4d_link(w, &dir, "one", &dir, "three", ~0), -EINVAL);
	EXPECT(g4d_symlink(w, "two", &dir, "link"), 0);
	EXPECT(g4d_stat(w, &dir, "link", &stat), 0);
	EXPECT(stat.nlink, 2);
	EXPECT(g4d_unlink(w, &dir, "one"), 0);
	EXPECT(g4d_unlink(w, &dir, "one"), -ENOENT);
	EXPECT(g4d_unlink(w, NULL, "/changed"), -EISDIR);
	EXPECT(g4d_mkdir(w, &dir, "sub", 0700), 0);
	EXPECT(g4d_rename(w, &dir, "two", &dir, "sub/moved", 0), 0);
	EXPECT(g4d_rename(w, &dir, "two", &dir, "sub/moved", 0), -ENOENT);
	EXPECT(g4d_rename(w, &dir, "link", &dir, "sub", GPU4FS_RENAME_NOREPLACE), -EEXIST);
	EXPECT(g4d_rmdir(w, &dir, "sub"), -ENOTEMPTY);
	EXPECT(g4d_mkdir(w, &dir, "empty/", 0700), 0);
	EXPECT(g4d_rmdir(w, &dir, "empty"), 0);
	EXPECT(g4d_open(w, &dir, "sub/moved", O_RDWR, 0, &file), 0);
	EXPECT(g4d_truncate(w, &file, 3000), 0);
	EXPECT(g4d_fstat(w, &file, &stat), 0);
	EXPECT(stat.size, 3000);
	/* pages that two files have, space, and a copy of what can not be shared */
	write_and_read(s, w, "/changed/sub/source", 6, 20000, s.buffers);
	g4d_file source;
	EXPECT(g4d_open(w, &dir, "sub/source", O_RDONLY, 0, &source), 0);
	EXPECT(g4d_share_range(w, &source, 0, &file, 0, UINT64_MAX), 20000);
	EXPECT(g4d_dedupe_range(w, &source, 0, &file, 0, UINT64_MAX, 0), 20000);
	EXPECT(g4d_dedupe_range(w, &source, 0, &file, 0, UINT64_MAX, 8), -EINVAL);
	EXPECT(g4d_share_range(w, &source, 1, &file, 0, 4096), -EINVAL);
	EXPECT(g4d_share_range(w, &file, 0, &source, 0, 4096), -EBADF);
	EXPECT(g4d_read(w, &file, s.buffers, 20001, 0), 20000);
	EXPECT(wrong_bytes(s.buffers, 6, 0, 20000), 0);
	EXPECT(g4d_fallocate(w, &file, GPU4FS_FALLOC_COLLAPSE_RANGE, 4096, 8192), 0);
	EXPECT(g4d_copy_range(w, &source, 12288, &file, 4096, 5000), 5000);
	EXPECT(g4d_read(w, &file, s.buffers, 5001, 4096), 5001);
	EXPECT(wrong_bytes(s.buffers, 6, 12288, 5000), 0);
	EXPECT(g4d_fallocate(w, &source, 0, 0, 4096), -EBADF);
	EXPECT(g4d_close(w, &source), 0);
	EXPECT(g4d_unlink(w, &dir, "sub/source"), 0);
	EXPECT(g4d_truncate(w, &file, 3000), 0);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_truncate(w, &file, 0), -EBADF);
	EXPECT(g4d_close(w, &dir), 0);
	g4d_leave(w);
}

#define BATCH_NAMES 300u /* some commands */

/* Batches whose entries, paths and attributes lie in the buffer; every third name is in a directory that is not there. */
static __global__ void batch_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	gpu4fs_batch_entry *entries = (gpu4fs_batch_entry *)s.buffers;
	struct gpu4fs_stat *stats = (struct gpu4fs_stat *)(entries + BATCH_NAMES);
	char(*paths)[48] = (char(*)[48])(stats + BATCH_NAMES);
	const uint32_t lane = lane_of(), bad = BATCH_NAMES / 3;
	g4d_file dir, zero = {};

	static_assert(BATCH_NAMES * (sizeof(*entries) + sizeof(*stats) + sizeof(*paths)) <=
			      MANY_WARPS * (uint64_t)BUFFER_BYTES,
		      "the buffers are enough");
	EXPECT(g4d_batch(w, NULL, entries, 0, 0), 0);
	EXPECT(g4d_batch(w, NULL, entries, 0, 2), -EINVAL);
	EXPECT(g4d_mkdir(w, NULL, "/batch", 0755), 0);
	EXPECT(g4d_open(w, NULL, "/batch", O_RDONLY | O_DIRECTORY, 0, &dir), 0);
	for (uint32_t op :
	     {(uint32_t)GPU4FS_BATCH_CREATE, (uint32_t)GPU4FS_BATCH_STAT, (uint32_t)GPU4FS_BATCH_UNLINK}) {
		for (uint32_t k = lane; k < BATCH_NAMES; k += 32) {
			numbered(paths[k], k % 3 == 2 ? "none/f" : "f", k);
			entries[k] = {};
			entries[k].op = op;
			entries[k].mode = 0640;
			entries[k].path = paths[k];
			entries[k].stat = op == GPU4FS_BATCH_UNLINK ? NULL : &stats[k];
		}
		EXPECT(g4d_batch(w, &dir, entries, BATCH_NAMES, 0), BATCH_NAMES - bad);
		for (uint32_t k = 0; k < BATCH_NAMES; k++) {
			EXPECT(entries[k].result, k % 3 == 2 ? -ENOENT : 0);
			EXPECT(entries[k].component, k % 3 == 2 ? 0 : GPU4FS_BATCH_AT_NAME);
			if (k % 3 != 2 && op != GPU4FS_BATCH_UNLINK)
				EXPECT(stats[k].mode, S_IFREG | 0640);
		}
	}
	/* in order, up to the first that fails; and one for the host to look at */
	if (lane == 0) {
		for (uint32_t k = 0; k < 3; k++) {
			entries[k] = {};
			entries[k].op = GPU4FS_BATCH_MKDIR_ALL;
			entries[k].path = k == 1 ? "" : "a/b/c";
		}
	}
	EXPECT(g4d_batch(w, &dir, entries, 3, GPU4FS_BATCH_STOP), 1);
	EXPECT(entries[0].made, 3);
	EXPECT(entries[1].result, -ENOENT);
	EXPECT(entries[2].result, -ECANCELED);
	EXPECT(g4d_batch(w, &zero, entries, 1, 0), -EBADF);
	EXPECT(g4d_close(w, &dir), 0);
	g4d_leave(w);
}

static __global__ void list_kernel(scene s, const char *path, uint32_t room)
{
	g4d_warp *w = g4d_enter(s.fs);
	uint64_t cookie = 0, sum = 0, count = 0, types = 0, zero_cookie = 0;
	g4d_file dir, zero = {};
	int64_t bytes;

	EXPECT(g4d_open(w, NULL, path, O_RDONLY | O_DIRECTORY, 0, &dir), 0);
	EXPECT(g4d_readdir(w, &dir, &cookie, s.buffers, 16), -ERANGE);
	EXPECT(g4d_readdir(w, &zero, &zero_cookie, s.buffers, room), -EBADF);
	EXPECT(cookie, 0);
	while ((bytes = g4d_readdir(w, &dir, &cookie, s.buffers, room)) > 0) {
		for (int64_t at = 0; at < bytes; count++) {
			const struct g4d_dirent *entry = (const struct g4d_dirent *)(s.buffers + at);
			sum += hash_name(g4d_name(entry), entry->name_bytes);
			types += entry->type == DT_DIR;
			at += entry->record_bytes;
		}
		__syncwarp();
	}
	EXPECT(bytes, 0);
	EXPECT(g4d_readdir(w, &dir, &cookie, s.buffers, room), 0);
	EXPECT(g4d_close(w, &dir), 0);
	if (lane_of() == 0) {
		s.words[0] = sum;
		s.words[1] = count;
		s.words[2] = types;
	}
	g4d_leave(w);
}

/* ------------------------------------------------------------------ kernels: many warps */

static __global__ void many_kernel(scene s, uint32_t files)
{
	uint32_t warp = warp_of();
	uint8_t *buffer = s.buffers + (uint64_t)warp * BUFFER_BYTES;
	g4d_warp *w = g4d_enter(s.fs);
	char name[32] = "/many/w", *end = name + 7;
	g4d_file shared;

	numbered(end, "", warp);
	while (*end)
		end++;
	for (uint32_t f = 0; f < files; f++) {
		numbered(end, ".", f);
		write_and_read(s, w, name, warp * 100 + f, size_of_file(warp, f), buffer);
	}
	/* and a piece of a file that all write */
	EXPECT(g4d_open(w, NULL, "/many/shared", O_RDWR | O_CREAT, 0644, &shared), 0);
	fill(buffer, 5, warp * 5000ull, 5000);
	EXPECT(g4d_write(w, &shared, buffer, 5000, warp * 5000ull), 5000);
	EXPECT(g4d_read(w, &shared, buffer, 5000, warp * 5000ull), 5000);
	EXPECT(wrong_bytes(buffer, 5, warp * 5000ull, 5000), 0);
	EXPECT(g4d_close(w, &shared), 0);
	g4d_leave(w);
}

static __global__ void enter_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	struct gpu4fs_stat stat;

	EXPECT(g4d_stat(w, NULL, "/", &stat), 0);
	g4d_leave(w);
}

static __global__ void odd_kernel(scene s)
{
	if (g4d_enter(s.fs) == NULL)
		atomicAdd(&s.rep->passed, 1ull);
	else
		atomicAdd(&s.rep->failed, 1ull);
}

/* ------------------------------------------------------------------ kernels: who acts */

static __global__ void user_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	struct gpu4fs_stat stat;
	g4d_file file;

	EXPECT(g4d_open(w, NULL, "/private", O_RDONLY, 0, &file), -EACCES);
	EXPECT(g4d_open(w, NULL, "/locked/x", O_RDONLY, 0, &file), -EACCES);
	EXPECT(g4d_stat(w, NULL, "/locked/x", &stat), -EACCES);
	EXPECT(g4d_open(w, NULL, "/gpu-forbidden", O_RDWR | O_CREAT, 0666, &file), -EACCES);
	EXPECT(g4d_open(w, NULL, "/gpu-small", O_RDONLY | O_NOATIME, 0, &file), -EPERM);
	/* relative paths start in the session's directory, which is open to it */
	EXPECT(g4d_open(w, NULL, "mine", O_RDWR | O_CREAT, 0666, &file), 0);
	EXPECT(g4d_fstat(w, &file, &stat), 0);
	EXPECT(stat.uid, 1000);
	EXPECT(stat.gid, 1001);
	EXPECT(stat.mode, S_IFREG | 0640); /* less the umask, 026 */
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_stat(w, NULL, "/home/mine", &stat), 0);
	g4d_leave(w);
}

/* ------------------------------------------------------------------ kernels: mapped pages */

static __global__ void map_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	g4d_page page, other;
	g4d_file file, dir;

	EXPECT(g4d_open(w, NULL, "/mapped", O_RDWR, 0, &file), 0);
	for (uint64_t at = 0; at < 50000; at += 3000) {
		uint64_t first = at / G4D_PAGE_BYTES * G4D_PAGE_BYTES;
		uint32_t bytes = 50000 - first < G4D_PAGE_BYTES ? (uint32_t)(50000 - first) : G4D_PAGE_BYTES;
		EXPECT(g4d_map(w, &file, at, &page), 0);
		EXPECT((uintptr_t)page.data % G4D_PAGE_BYTES, 0);
		EXPECT(page.bytes, bytes);
		EXPECT(wrong_bytes((const uint8_t *)page.data, 11, first, bytes), 0);
		EXPECT(bytes_not((const uint8_t *)page.data + bytes, 0, G4D_PAGE_BYTES - bytes), 0);
		g4d_unmap(w, &page);
	}
	EXPECT(g4d_map(w, &file, 50000, &page), 0); /* the last page has room for it */
	g4d_unmap(w, &page);
	EXPECT(g4d_map(w, &file, 13 * 4096, &page), -ENXIO);
	EXPECT(g4d_map(w, &file, UINT64_MAX, &page), -ENXIO);
	/* twice the same page: one line, two references */
	EXPECT(g4d_map(w, &file, 4096, &page), 0);
	EXPECT(g4d_map(w, &file, 8191, &other), 0);
	EXPECT(page.data == other.data, true);
	g4d_unmap(w, &page);
	/* what is written to a mapped page through the cache can be seen in it */
	fill(s.buffers, 12, 4096, 100);
	EXPECT(g4d_write(w, &file, s.buffers, 100, 4096), 100);
	EXPECT(wrong_bytes((const uint8_t *)other.data, 12, 4096, 100), 0);
	g4d_unmap(w, &other);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_map(w, &file, 0, &page), -EBADF);

	EXPECT(g4d_open(w, NULL, "/mapped", O_WRONLY, 0, &file), 0);
	EXPECT(g4d_map(w, &file, 0, &page), -EBADF);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_open(w, NULL, "/", O_RDONLY, 0, &dir), 0);
	EXPECT(g4d_map(w, &dir, 0, &page), -EISDIR);
	EXPECT(g4d_close(w, &dir), 0);
	/* a hole, and a file that lies in its inode */
	EXPECT(g4d_open(w, NULL, "/hole", O_RDONLY, 0, &file), 0);
	EXPECT(g4d_map(w, &file, 1 << 20, &page), 0);
	EXPECT(bytes_not((const uint8_t *)page.data, 0, G4D_PAGE_BYTES), 0);
	g4d_unmap(w, &page);
	EXPECT(g4d_close(w, &file), 0);
	EXPECT(g4d_open(w, NULL, "/tiny", O_RDONLY, 0, &file), 0);
	EXPECT(g4d_map(w, &file, 0, &page), 0);
	EXPECT(page.bytes, 60);
	EXPECT(wrong_bytes((const uint8_t *)page.data, 13, 0, 60), 0);
	g4d_unmap(w, &page);
	EXPECT(g4d_close(w, &file), 0);
	g4d_leave(w);
}

/* Maps pages of a file and leaves them mapped; the host then changes the file. */
static __global__ void hold_kernel(scene s, uint32_t count)
{
	g4d_warp *w = g4d_enter(s.fs);
	g4d_file file;
	g4d_page page;

	EXPECT(g4d_open(w, NULL, "/held", O_RDWR, 0, &file), 0);
	for (uint32_t i = 0; i < count; i++) {
		EXPECT(g4d_map(w, &file, (uint64_t)i * G4D_PAGE_BYTES, &page), 0);
		if (lane_of() == 0)
			s.pages[i] = page;
	}
	if (lane_of() == 0)
		s.files[0] = file;
	g4d_leave(w);
}

/* What the file holds by now, whatever the pages that are still mapped show. */
static __global__ void held_kernel(scene s, uint64_t seed, uint64_t bytes, uint64_t zeros)
{
	g4d_warp *w = g4d_enter(s.fs);
	const g4d_file file = s.files[0];

	for (uint64_t at = 0; at < bytes + zeros; at += BUFFER_BYTES) {
		uint64_t n = bytes + zeros - at < BUFFER_BYTES ? bytes + zeros - at : BUFFER_BYTES;
		uint64_t filled = at >= bytes ? 0 : bytes - at < n ? bytes - at : n;
		EXPECT(g4d_read(w, &file, s.buffers, n, at), n);
		EXPECT(wrong_bytes(s.buffers, seed, at, filled), 0);
		EXPECT(bytes_not(s.buffers + filled, 0, n - filled), 0);
	}
	g4d_leave(w);
}

static __global__ void let_go_kernel(scene s, uint32_t count)
{
	g4d_warp *w = g4d_enter(s.fs);

	for (uint32_t i = 0; i < count; i++)
		g4d_unmap(w, &s.pages[i]);
	EXPECT(g4d_close(w, &s.files[0]), 0);
	g4d_leave(w);
}

/* Maps as many pages as may be, then does what needs lines of the cache. */
static __global__ void limit_kernel(scene s, uint32_t expected)
{
	g4d_warp *w = g4d_enter(s.fs);
	uint32_t count = 0, wrong = 0;
	g4d_page page;
	g4d_file file;
	int rc = 0;

	EXPECT(g4d_open(w, NULL, "/table", O_RDONLY, 0, &file), 0);
	while (count < PINS && (rc = g4d_map(w, &file, (uint64_t)count * G4D_PAGE_BYTES, &page)) == 0) {
		if (lane_of() == 0)
			s.pages[count] = page;
		count++;
	}
	EXPECT(rc, -ENOMEM);
	EXPECT(count, expected);
	EXPECT(g4d_read(w, &file, s.buffers, 10000, 32 << 20), 10000);
	EXPECT(wrong_bytes(s.buffers, TABLE_SEED, 32 << 20, 10000), 0);
	write_and_read(s, w, "/at-the-limit", 4, 50000, s.buffers);
	{
		g4d_array<uint64_t> table(w, file);
		for (uint32_t i = 0; i < 64; i++) {
			uint64_t index = mix(i * 32 + lane_of()) % table.size();
			wrong += table[index] != word_of(TABLE_SEED, index);
			wrong += table[i * 1000] != word_of(TABLE_SEED, i * 1000);
		}
		EXPECT(table.error(), 0);
	}
	EXPECT(wrong, 0);
	__syncwarp();
	for (uint32_t i = 0; i < count; i++)
		g4d_unmap(w, &s.pages[i]);
	EXPECT(g4d_map(w, &file, 0, &page), 0);
	g4d_unmap(w, &page);
	EXPECT(g4d_close(w, &file), 0);
	g4d_leave(w);
}

/* ------------------------------------------------------------------ kernels: arrays */

struct pair {
	uint64_t a, b;
};

static __global__ void open_kernel(scene s, const char *path)
{
	g4d_warp *w = g4d_enter(s.fs);
	g4d_file file;

	EXPECT(g4d_open(w, NULL, path, O_RDONLY, 0, &file), 0);
	if (lane_of() == 0)
		s.files[0] = file;
	g4d_leave(w);
}

static __global__ void close_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);

	EXPECT(g4d_close(w, &s.files[0]), 0);
	g4d_leave(w);
}

/* Every warp: each its way through the file that one warp opened. */
static __global__ void array_kernel(scene s)
{
	uint32_t warp = warp_of(), wrong = 0;
	g4d_warp *w = g4d_enter(s.fs);
	const g4d_file file = s.files[0];

	{
		g4d_array<uint64_t> table(w, file);
		EXPECT(table.size(), TABLE_BYTES / 8);
		for (uint32_t i = 0; i < 64; i++) { /* random */
			uint64_t index = mix(warp * 100000ull + i * 32 + lane_of()) % table.size();
			wrong += table[index] != word_of(TABLE_SEED, index);
		}
		for (uint32_t i = 0; i < 64; i++) { /* in a row */
			uint64_t index = (warp * 2048ull + i * 32 + lane_of()) % table.size();
			wrong += table[index] != word_of(TABLE_SEED, index);
		}
		for (uint32_t i = 0; i < 32; i++) { /* all lanes the same */
			uint64_t index = mix(warp * 100ull + i) % table.size();
			wrong += table[index] != word_of(TABLE_SEED, index);
		}
		EXPECT(table.error(), 0);
		/* some lanes ask for what is not there */
		uint64_t index = lane_of() < 30 ? lane_of() * 1000ull : table.size() + lane_of();
		uint64_t value = table[index];
		wrong += value != (lane_of() < 30 ? word_of(TABLE_SEED, index) : 0);
		EXPECT(table.error(), -ERANGE);
		table.release();
		table.release();
		wrong += table[warp] != word_of(TABLE_SEED, warp);
	}
	{
		g4d_array<uint8_t> table(w, file);
		uint64_t index = mix(warp ^ lane_of()) % table.size();
		wrong += table[index] != byte_of(TABLE_SEED, index);
	}
	{
		g4d_array<pair> table(w, file);
		uint64_t index = mix(warp * 32 + lane_of()) % table.size();
		struct pair value = table[index];
		wrong += value.a != word_of(TABLE_SEED, 2 * index) || value.b != word_of(TABLE_SEED, 2 * index + 1);
	}
	g4d_leave(w);
	EXPECT(wrong, 0);
}

static __global__ void array_error_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);
	g4d_file tiny, zero = {};

	EXPECT(g4d_open(w, NULL, "/tiny", O_RDONLY, 0, &tiny), 0);
	{
		g4d_array<pair> pairs(w, tiny);
		EXPECT(pairs.size(), 3); /* 60 bytes */
		EXPECT(pairs[0].a, word_of(13, 0));
		g4d_array<uint32_t> none(w, zero);
		EXPECT(none.size(), 0);
		EXPECT(none.error(), -EBADF);
		EXPECT(none[0], 0);
	}
	EXPECT(g4d_close(w, &tiny), 0);
	EXPECT(g4d_open(w, NULL, "/tiny", O_WRONLY, 0, &tiny), 0);
	{
		g4d_array<pair> pairs(w, tiny);
		EXPECT(pairs.size(), 0);
		EXPECT(pairs.error(), -EBADF);
	}
	EXPECT(g4d_close(w, &tiny), 0);
	g4d_leave(w);
}

/* ------------------------------------------------------------------ kernels: each lane its own */

#define EACH_NAMES 200u

/* Name number `number` of /each in a buffer of 300 bytes; what comes behind the files is not there, or odd. Returns its length. */
static __host__ __device__ uint32_t each_name(char *to, uint32_t number)
{
	uint32_t bytes = 0;

	if (number == EACH_NAMES)
		return 0;
	if (number > EACH_NAMES + 3) {
		numbered(to, "none", number);
	} else if (number > EACH_NAMES) { /* "..", a slash, too long */
		bytes = number == EACH_NAMES + 1 ? 2 : number == EACH_NAMES + 2 ? 3 : 256;
		for (uint32_t i = 0; i < bytes; i++)
			to[i] = number == EACH_NAMES + 2 && i == 1 ? '/' : '.';
		return bytes;
	} else {
		numbered(to, number % 7 ? "f" : "a name of more than thirty-two bytes ", number);
	}
	while (to[bytes])
		bytes++;
	return bytes;
}

/* This lane's result is that of the call for one. */
static __device__ void look_up_each(const scene &s, g4d_warp *w, const g4d_file *dir, uint32_t number)
{
	struct gpu4fs_stat stat = {}, plain;
	uint64_t ino = 0;
	char name[300];
	uint32_t bytes = each_name(name, number);
	int rc = g4d_lookup_each(w, dir, name, bytes, &stat), same = 0;

	EXPECT(g4d_lookup_each(w, dir, name, bytes, NULL), rc);
	EXPECT(g4d_ino_each(w, dir, name, bytes, &ino), rc);
	EXPECT(ino, stat.ino);
	for (int lane = 0; lane < 32; lane++) {
		uint32_t theirs = each_name(name, __shfl_sync(ALL_LANES, number, lane));
		int wanted = g4d_lookup(w, dir, name, theirs, &plain);
		if ((int)lane_of() == lane && (theirs == 0 ? rc == 0 : rc == wanted))
			same = rc != 0 || theirs == 0 ||
			       (stat.ino == plain.ino && stat.size == plain.size && stat.mode == plain.mode &&
				stat.nlink == plain.nlink && stat.mtime.tv_nsec == plain.mtime.tv_nsec);
	}
	EXPECT(same, 1);
}

static __global__ void lookup_each_kernel(scene s, uint32_t rounds)
{
	g4d_warp *w = g4d_enter(s.fs);
	uint32_t warp = warp_of();
	struct gpu4fs_stat stat;
	g4d_file dir, file, zero = {};

	EXPECT(g4d_open(w, NULL, "/each", O_RDONLY | O_DIRECTORY, 0, &dir), 0);
	for (uint32_t i = 0; i < rounds; i++)
		look_up_each(s, w, &dir, (uint32_t)(mix(warp << 16 | i << 8 | lane_of()) % (EACH_NAMES + 10)));
	look_up_each(s, w, &dir, 5); /* all the same */
	EXPECT(g4d_close(w, &dir), 0);
	EXPECT(g4d_lookup_each(w, &zero, "f1", 2, &stat), -EBADF);
	EXPECT(g4d_open(w, NULL, "/each/f1", O_RDONLY, 0, &file), 0);
	EXPECT(g4d_lookup_each(w, &file, "f1", 2, &stat), -ENOTDIR);
	EXPECT(g4d_close(w, &file), 0);
	g4d_leave(w);
}

/* Of a table of 64 MiB: bytes that are no multiple of anything at places that are none either. */
static __global__ void read_each_kernel(scene s, uint32_t rounds)
{
	g4d_warp *w = g4d_enter(s.fs);
	const g4d_file file = s.files[0], zero = {};
	uint8_t *buffer = s.buffers + (uint64_t)warp_of() * BUFFER_BYTES + lane_of() * 4096u;
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t random = mix((uint64_t)warp_of() << 32 | i << 8 | lane_of());
		uint64_t at = random % (TABLE_BYTES + 5000), bytes = (random >> 32) % 4097;
		if (i % 4 == 0) { /* whole pages */
			at = at / 4096 * 4096;
			bytes = 4096;
		} else if (i % 4 == 1) { /* records */
			at = at / 16 * 16;
			bytes = 16;
		}
		uint64_t there = at >= TABLE_BYTES ? 0 : TABLE_BYTES - at < bytes ? TABLE_BYTES - at : bytes;
		EXPECT(g4d_read_each(w, &file, buffer, bytes, at), there);
		for (uint64_t k = 0; k < there; k++)
			wrong += buffer[k] != byte_of(TABLE_SEED, at + k);
	}
	EXPECT(wrong, 0);
	EXPECT(g4d_read_each(w, &file, buffer, lane_of() % 2 ? 0 : 10, lane_of()), lane_of() % 2 ? 0 : 10);
	EXPECT(g4d_read_each(w, &zero, buffer, 10, 0), -EBADF);
	g4d_leave(w);
}

static __global__ void map_each_kernel(scene s, uint32_t rounds)
{
	g4d_warp *w = g4d_enter(s.fs);
	const g4d_file file = s.files[0], zero = {};
	g4d_page page = {};

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t at = mix((uint64_t)warp_of() << 32 | i << 8 | lane_of()) % TABLE_BYTES;
		EXPECT(g4d_map_each(w, &file, at, &page), 0);
		EXPECT(page.bytes, G4D_PAGE_BYTES);
		for (int lane = 0; lane < 32; lane++) {
			const uint8_t *data = (const uint8_t *)__shfl_sync(ALL_LANES, (uint64_t)page.data, lane);
			uint64_t first = __shfl_sync(ALL_LANES, at, lane) / G4D_PAGE_BYTES * G4D_PAGE_BYTES;
			EXPECT(wrong_bytes(data, TABLE_SEED, first, G4D_PAGE_BYTES), 0);
		}
		g4d_unmap_each(w, &page);
	}
	page = {};
	EXPECT(g4d_map_each(w, &file, lane_of() % 2 ? UINT64_MAX : TABLE_BYTES, &page), -ENXIO);
	EXPECT(g4d_map_each(w, &zero, 0, &page), -EBADF);
	EXPECT(g4d_map_each(w, &file, lane_of() % 2 ? UINT64_MAX : 4096, &page), lane_of() % 2 ? -ENXIO : 0);
	g4d_leave(w);
	g4d_unmap_each(w, &page);
}

/* ------------------------------------------------------------------ kernels: beside the host */

struct mailbox { /* page-locked host memory */
	volatile uint32_t from_gpu, from_host;
};

static __device__ uint64_t now_ns()
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* Takes turns with the host: a file each, which the other reads. */
static __global__ void turns_kernel(scene s, mailbox *box, uint32_t rounds)
{
	g4d_warp *w = g4d_enter(s.fs);
	uint64_t until = now_ns() + 60 * 1000000000ull;
	char name[32];
	g4d_file file;
	bool late = false;

	for (uint32_t i = 0; i < rounds && !late; i++) {
		numbered(name, "/turns/gpu", i);
		write_and_read(s, w, name, 1000 + i, 3000, s.buffers);
		if (lane_of() == 0) {
			__threadfence_system();
			box->from_gpu = i + 1;
			while (box->from_host != i + 1 && now_ns() < until)
				__nanosleep(1000);
			late = box->from_host != i + 1;
			__threadfence_system();
		}
		late = __shfl_sync(ALL_LANES, late, 0);
		EXPECT(late, false);
		if (late)
			break;
		numbered(name, "/turns/host", i);
		EXPECT(g4d_open(w, NULL, name, O_RDONLY, 0, &file), 0);
		EXPECT(g4d_read(w, &file, s.buffers, 5000, 0), 3000);
		EXPECT(wrong_bytes(s.buffers, 2000 + i, 0, 3000), 0);
		EXPECT(g4d_close(w, &file), 0);
	}
	g4d_leave(w);
}

static __global__ void leave_file_kernel(scene s)
{
	g4d_warp *w = g4d_enter(s.fs);

	write_and_read(s, w, "/left-by-kernel", 21, 60000, s.buffers);
	g4d_leave(w);
}

/* ------------------------------------------------------------------ host: tools */

static unsigned long long total_passed, total_failed;
static const char *current;
static gpu4fs *fs;
static gpu4fs_device *device;
static scene s;
static cudaStream_t stream;

static void host_expect(long long got, long long wanted, int line)
{
	if (got == wanted) {
		total_passed++;
		return;
	}
	total_failed++;
	fprintf(stderr, "device: %s: line %d: got %lld, expected %lld\n", current, line, got, wanted);
}
#define HOST_EXPECT(got, wanted) host_expect((long long)(got), (long long)(wanted), __LINE__)

static void must(cudaError_t rc, int line)
{
	if (rc == cudaSuccess)
		return;
	fprintf(stderr, "device: %s: line %d: %s\n", current, line, cudaGetErrorString(rc));
	exit(1);
}
#define CUDA(call) must(call, __LINE__)

/* Waits for the kernel and adds what it reported. */
static void finish(void)
{
	report got;

	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpyAsync(&got, s.rep, sizeof(got), cudaMemcpyDeviceToHost, stream));
	CUDA(cudaMemsetAsync(s.rep, 0, sizeof(got), stream));
	CUDA(cudaStreamSynchronize(stream));
	total_passed += got.passed;
	total_failed += got.failed;
	if (got.failed)
		fprintf(stderr,
			"device: %s: %llu expectations of kernels failed, the first in line %u: got %lld, expected %lld\n",
			current, got.failed, got.line, got.got, got.wanted);
}

/* A string in device memory, for ever. */
static const char *on_gpu(const char *text)
{
	char *memory;

	CUDA(cudaMallocAsync((void **)&memory, strlen(text) + 1, stream));
	CUDA(cudaMemcpyAsync(memory, text, strlen(text) + 1, cudaMemcpyHostToDevice, stream));
	CUDA(cudaStreamSynchronize(stream));
	return memory;
}

static std::vector<uint8_t> pattern(uint64_t seed, uint64_t at, uint64_t bytes)
{
	std::vector<uint8_t> data(bytes);

	for (uint64_t i = 0; i < bytes; i++)
		data[i] = byte_of(seed, at + i);
	return data;
}

static void write_file(const char *name, uint64_t seed, uint64_t at, uint64_t bytes, uint32_t mode)
{
	std::vector<uint8_t> data = pattern(seed, at, bytes);
	gpu4fs_file *file;

	HOST_EXPECT(gpu4fs_open(fs, NULL, name, O_WRONLY | O_CREAT, mode, &file), 0);
	HOST_EXPECT(gpu4fs_pwrite(file, data.data(), bytes, (int64_t)at), (int64_t)bytes);
	HOST_EXPECT(gpu4fs_close(file), 0);
}

/* Whether a file is what it should be, whole. */
static bool is_file(gpu4fs *in, const char *name, uint64_t seed, uint64_t bytes)
{
	std::vector<uint8_t> wanted = pattern(seed, 0, bytes), data(bytes + 1);
	gpu4fs_file *file;

	if (gpu4fs_open(in, NULL, name, O_RDONLY, 0, &file) != 0)
		return false;
	bool same = gpu4fs_pread(file, data.data(), bytes + 1, 0) == (int64_t)bytes &&
		    memcmp(data.data(), wanted.data(), bytes) == 0;
	return gpu4fs_close(file) == 0 && same;
}

/* ------------------------------------------------------------------ tests */

static void test_names(void)
{
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/names", 0755), 0);
	write_file("/names/from-host", 9, 0, 50000, 0640);
	HOST_EXPECT(gpu4fs_symlink(fs, "names/from-host", NULL, "/link"), 0);
	names_kernel<<<1, 32, 0, stream>>>(s);
	finish();
	HOST_EXPECT(is_file(fs, "/gpu-small", 1, 100), true);
	HOST_EXPECT(is_file(fs, "/gpu-middle", 2, 10001), true);
	HOST_EXPECT(is_file(fs, "/names/gpu-large", 3, BUFFER_BYTES - 5), true);
}

static void test_change(void)
{
	struct gpu4fs_stat stat;

	change_kernel<<<1, 32, 0, stream>>>(s);
	finish();
	HOST_EXPECT(is_file(fs, "/changed/sub/moved", 6, 3000), true);
	HOST_EXPECT(gpu4fs_lstat(fs, NULL, "/changed/link", &stat), 0);
	HOST_EXPECT(stat.mode & S_IFMT, S_IFLNK);
	HOST_EXPECT(gpu4fs_stat(fs, NULL, "/changed/link", &stat), -ENOENT);
	HOST_EXPECT(gpu4fs_stat(fs, NULL, "/changed/two", &stat), -ENOENT);
	HOST_EXPECT(gpu4fs_stat(fs, NULL, "/changed/empty", &stat), -ENOENT);
}

static void test_batch(void)
{
	struct gpu4fs_stat stat;

	batch_kernel<<<1, 32, 0, stream>>>(s);
	finish();
	HOST_EXPECT(gpu4fs_stat(fs, NULL, "/batch/a/b/c", &stat), 0);
	HOST_EXPECT(stat.mode & S_IFMT, S_IFDIR);
	HOST_EXPECT(gpu4fs_stat(fs, NULL, "/batch/f0", &stat), -ENOENT);
}

static void test_readdir(void)
{
	uint64_t sum = 0, words[3], count = 0;
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	char name[32];

	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/list", 0755), 0);
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/empty", 0755), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		numbered(name, "/list/name", i);
		HOST_EXPECT(i % 10 ? gpu4fs_mknod(fs, NULL, name, S_IFREG | 0644, 0) :
				     gpu4fs_mkdir(fs, NULL, name, 0755),
			    0);
	}
	HOST_EXPECT(gpu4fs_opendir(fs, NULL, "/list", 0, &dir), 0);
	while (gpu4fs_readdir(dir, &entry) == 1) {
		sum += hash_name(entry.name, entry.name_bytes);
		count++;
	}
	HOST_EXPECT(gpu4fs_closedir(dir), 0);
	HOST_EXPECT(count, NAMES);
	for (uint32_t room : {64u, 300u, 4096u, BUFFER_BYTES}) {
		list_kernel<<<1, 32, 0, stream>>>(s, on_gpu("/list"), room);
		finish();
		CUDA(cudaMemcpyAsync(words, s.words, sizeof(words), cudaMemcpyDeviceToHost, stream));
		CUDA(cudaStreamSynchronize(stream));
		HOST_EXPECT(words[0] == sum, true);
		HOST_EXPECT(words[1], NAMES);
		HOST_EXPECT(words[2], NAMES / 10);
	}
}

static void check_many(const char *folder, uint32_t warps, uint32_t files)
{
	uint64_t wrong = 0;
	char name[64], *end;

	for (uint32_t warp = 0; warp < warps; warp++) {
		numbered(name, folder, warp);
		end = name + strlen(name);
		for (uint32_t f = 0; f < files; f++) {
			numbered(end, ".", f);
			wrong += !is_file(fs, name, warp * 100 + f, size_of_file(warp, f));
		}
	}
	HOST_EXPECT(wrong, 0);
}

static void test_many(void)
{
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/many", 0777), 0);
	many_kernel<<<MANY_WARPS / 4, 128, 0, stream>>>(s, 10);
	finish();
	check_many("/many/w", MANY_WARPS, 10);
	HOST_EXPECT(is_file(fs, "/many/shared", 5, MANY_WARPS * 5000ull), true);
}

static void test_enter(void)
{
	struct gpu4fs_device_options options = {};
	gpu4fs_device *small;
	scene other = s;

	options.size = sizeof(options);
	options.warps = 20000;
	HOST_EXPECT(gpu4fs_device_open(fs, &options, &small), -EINVAL);
	options.warps = 3;
	HOST_EXPECT(gpu4fs_device_open(fs, &options, &small), 0);
	HOST_EXPECT(gpu4fs_unmount(fs), -EBUSY);
	other.fs = gpu4fs_device_fs(small);
	enter_kernel<<<400, 32, 0, stream>>>(other);
	finish();
	HOST_EXPECT(gpu4fs_device_close(small), 0);
	enter_kernel<<<20, dim3(16, 2, 1), 0, stream>>>(s);
	finish();
	enter_kernel<<<dim3(4, 5, 2), dim3(8, 4, 4), 0, stream>>>(s);
	finish();
	enter_kernel<<<300, 512, 0, stream>>>(s);
	finish();
	odd_kernel<<<1, 33, 0, stream>>>(s);
	finish();
}

static void test_user(void)
{
	const uint32_t groups[] = {1001};
	struct gpu4fs_credentials user = {};
	gpu4fs_device *theirs;
	gpu4fs *session;
	scene other = s;

	user.size = sizeof(user);
	user.uid = 1000;
	user.gid = 1001;
	user.umask = 026;
	user.groups = groups;
	user.group_count = 1;
	user.cwd = "/home";

	write_file("/gpu-small", 1, 0, 100, 0644);
	write_file("/private", 1, 0, 100, 0600);
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/locked", 0700), 0);
	write_file("/locked/x", 1, 0, 100, 0666);
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/home", 0700), 0);
	HOST_EXPECT(gpu4fs_chown(fs, NULL, "/home", 1000, 1001, 0), 0);
	HOST_EXPECT(gpu4fs_session(fs, &user, &session), 0);
	HOST_EXPECT(gpu4fs_device_open(session, NULL, &theirs), 0);
	HOST_EXPECT(gpu4fs_session_close(session), -EBUSY);
	other.fs = gpu4fs_device_fs(theirs);
	user_kernel<<<1, 32, 0, stream>>>(other);
	finish();
	HOST_EXPECT(gpu4fs_device_close(theirs), 0);
	HOST_EXPECT(gpu4fs_session_close(session), 0);
}

static void test_map(void)
{
	gpu4fs_file *file;

	write_file("/mapped", 11, 0, 50000, 0644);
	write_file("/tiny", 13, 0, 60, 0644);
	HOST_EXPECT(gpu4fs_open(fs, NULL, "/hole", O_RDWR | O_CREAT, 0644, &file), 0);
	HOST_EXPECT(gpu4fs_ftruncate(file, 4 << 20), 0);
	HOST_EXPECT(gpu4fs_close(file), 0);
	map_kernel<<<1, 32, 0, stream>>>(s);
	finish();
}

/* Pages stay mapped while the host writes over them, cuts the file and removes it; reads are right all the time. */
static void test_held(void)
{
	const uint32_t pages = 512;
	const uint64_t bytes = pages * G4D_PAGE_BYTES;
	gpu4fs_file *file;

	write_file("/held", 31, 0, bytes, 0644);
	HOST_EXPECT(gpu4fs_syncfs(fs), 0);
	hold_kernel<<<1, 32, 0, stream>>>(s, pages);
	finish();
	held_kernel<<<1, 32, 0, stream>>>(s, 31, bytes, 0);
	finish();
	write_file("/held", 32, 0, bytes, 0644); /* large and aligned: past the cache */
	held_kernel<<<1, 32, 0, stream>>>(s, 32, bytes, 0);
	finish();
	HOST_EXPECT(is_file(fs, "/held", 32, bytes), true);
	HOST_EXPECT(gpu4fs_open(fs, NULL, "/held", O_RDWR, 0, &file), 0);
	HOST_EXPECT(gpu4fs_ftruncate(file, 5000), 0);
	HOST_EXPECT(gpu4fs_ftruncate(file, (int64_t)bytes), 0);
	held_kernel<<<1, 32, 0, stream>>>(s, 32, 5000, bytes - 5000);
	finish();
	HOST_EXPECT(gpu4fs_fallocate(file, GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE, 0, 8192), 0);
	held_kernel<<<1, 32, 0, stream>>>(s, 0, 0, bytes);
	finish();
	HOST_EXPECT(gpu4fs_close(file), 0);
	HOST_EXPECT(gpu4fs_unlink(fs, NULL, "/held"), 0);
	let_go_kernel<<<1, 32, 0, stream>>>(s, pages);
	finish();
	HOST_EXPECT(gpu4fs_syncfs(fs), 0);
}

static void make_table(void)
{
	struct gpu4fs_stat stat;

	if (gpu4fs_stat(fs, NULL, "/table", &stat) == 0)
		return;
	for (uint64_t at = 0; at < TABLE_BYTES; at += 4 << 20)
		write_file("/table", TABLE_SEED, at, 4 << 20, 0644);
}

static void test_limit(void)
{
	make_table();
	/* the cache of main(): 65536 lines, 8192 of them in the pool */
	limit_kernel<<<1, 32, 0, stream>>>(s, 4096);
	finish();
}

static void test_array(void)
{
	make_table();
	write_file("/tiny", 13, 0, 60, 0644);
	array_error_kernel<<<1, 32, 0, stream>>>(s);
	finish();
	open_kernel<<<1, 32, 0, stream>>>(s, on_gpu("/table"));
	finish();
	for (uint32_t blocks : {1u, 16u, 128u, 600u}) {
		array_kernel<<<blocks, 128, 0, stream>>>(s);
		finish();
	}
	close_kernel<<<1, 32, 0, stream>>>(s);
	finish();
}

/* Names that stay, while the host makes, moves and removes others; ranges and pages of a table. */
static void test_each(void)
{
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> bad{0};
	char name[400] = "/each/";

	make_table();
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/each", 0755), 0);
	for (uint32_t i = 0; i < EACH_NAMES; i++) {
		name[6 + each_name(name + 6, i)] = 0;
		write_file(name, 40 + i, 0, 1 + i, 0644);
	}
	lookup_each_kernel<<<1, 32, 0, stream>>>(s, 50);
	finish();
	std::thread host([&] {
		gpu4fs_file *file;
		while (!stop) {
			bad += gpu4fs_open(fs, NULL, "/each/coming", O_RDWR | O_CREAT, 0644, &file) != 0;
			bad += gpu4fs_close(file) != 0;
			bad += gpu4fs_rename(fs, NULL, "/each/coming", NULL, "/each/going", 0) != 0;
			bad += gpu4fs_unlink(fs, NULL, "/each/going") != 0;
		}
	});
	lookup_each_kernel<<<32, 128, 0, stream>>>(s, 20);
	finish();
	stop = true;
	host.join();
	HOST_EXPECT(bad, 0);
	open_kernel<<<1, 32, 0, stream>>>(s, on_gpu("/table"));
	finish();
	for (uint32_t blocks : {1u, 32u, 128u}) {
		read_each_kernel<<<blocks, 128, 0, stream>>>(s, 40);
		finish();
	}
	for (uint32_t blocks : {1u, 16u}) { /* 64 warps with 32 pages each: half of what may be mapped */
		map_each_kernel<<<blocks, 128, 0, stream>>>(s, 10);
		finish();
	}
	close_kernel<<<1, 32, 0, stream>>>(s);
	finish();
}

static void test_turns(void)
{
	const uint32_t rounds = 50;
	struct gpu4fs_stat stat;
	mailbox *box, *box_on_gpu;
	char name[32];
	uint32_t done = 0;

	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/turns", 0777), 0);
	CUDA(cudaHostAlloc((void **)&box, sizeof(*box), cudaHostAllocMapped));
	box->from_gpu = 0;
	box->from_host = 0;
	CUDA(cudaHostGetDevicePointer((void **)&box_on_gpu, box, 0));
	turns_kernel<<<1, 32, 0, stream>>>(s, box_on_gpu, rounds);
	CUDA(cudaGetLastError());
	for (; done < rounds; done++) {
		while (box->from_gpu != done + 1 && cudaStreamQuery(stream) == cudaErrorNotReady)
			;
		if (box->from_gpu != done + 1)
			break;
		std::atomic_thread_fence(std::memory_order_seq_cst);
		numbered(name, "/turns/gpu", done);
		HOST_EXPECT(gpu4fs_stat(fs, NULL, name, &stat), 0);
		HOST_EXPECT(is_file(fs, name, 1000 + done, 3000), true);
		numbered(name, "/turns/host", done);
		write_file(name, 2000 + done, 0, 3000, 0644);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		box->from_host = done + 1;
	}
	HOST_EXPECT(done, rounds);
	finish();
	CUDA(cudaFreeHost(box));
}

/* The host makes, reads and removes names while many warps do. */
static void test_beside(void)
{
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> done{0}, bad{0};
	std::vector<std::thread> threads;

	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/beside", 0777), 0);
	for (uint32_t t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			char name[32];
			for (uint32_t i = 0; !stop; i++) {
				numbered(name, "/beside/h", t * 100000 + i % 50);
				gpu4fs_file *file;
				bad += gpu4fs_open(fs, NULL, name, O_RDWR | O_CREAT, 0644, &file) != 0;
				bad += gpu4fs_pwrite(file, name, 20, 0) != 20;
				bad += gpu4fs_close(file) != 0;
				bad += gpu4fs_unlink(fs, NULL, name) != 0;
				done++;
			}
		});
	for (uint32_t round = 0; round < 4; round++) {
		open_kernel<<<1, 32, 0, stream>>>(s, on_gpu("/table"));
		finish();
		array_kernel<<<128, 128, 0, stream>>>(s);
		finish();
		close_kernel<<<1, 32, 0, stream>>>(s);
		finish();
	}
	while (done < 100) /* the host gets on, too */
		std::this_thread::yield();
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	HOST_EXPECT(bad, 0);
}

static void test_not_cuda(void)
{
	struct gpu4fs_mkfs_options format = {};
	struct gpu4fs_options options = {};
	const char *name = "mem:64M";
	gpu4fs_device *none;
	gpu4fs *cpu;

	format.size = sizeof(format);
	options.size = sizeof(options);
	options.format = &format;
	options.engine = "cpu";

	HOST_EXPECT(gpu4fs_mount(&name, 1, &options, &cpu), 0);
	HOST_EXPECT(gpu4fs_device_open(cpu, NULL, &none), -EOPNOTSUPP);
	HOST_EXPECT(gpu4fs_unmount(cpu), 0);
}

/* ------------------------------------------------------------------ mounting */

static bool mount(const char *name, uint64_t create_bytes, const char *engine, uint32_t multiprocessors, gpu4fs **out)
{
	struct gpu4fs_credentials root = {};
	struct gpu4fs_mkfs_options format = {};
	struct gpu4fs_options options = {};

	root.size = sizeof(root);
	root.umask = 022;
	format.size = sizeof(format);
	format.flags = GPU4FS_MKFS_FORCE;
	format.create_bytes = create_bytes;
	options.size = sizeof(options);
	options.credentials = &root;
	options.cache_bytes = 256 << 20;
	options.format = create_bytes ? &format : NULL;
	options.engine = engine;
	options.multiprocessors = multiprocessors;
	int rc = gpu4fs_mount(&name, 1, &options, out);
	if (rc != 0)
		fprintf(stderr, "device: %s\n", gpu4fs_last_message());
	return rc == 0;
}

template <class T> static void allocate(T **out, uint64_t bytes)
{
	CUDA(cudaMallocAsync((void **)out, bytes, stream));
	CUDA(cudaMemsetAsync(*out, 0, bytes, stream));
}

static bool begin(const char *name, uint64_t create_bytes, uint32_t multiprocessors)
{
	if (!mount(name, create_bytes, "cuda", multiprocessors, &fs))
		return false;
	HOST_EXPECT(gpu4fs_device_open(fs, NULL, &device), 0);
	if (!stream) {
		CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		allocate(&s.rep, sizeof(*s.rep));
		allocate(&s.buffers, (uint64_t)MANY_WARPS * BUFFER_BYTES);
		allocate(&s.files, 16 * sizeof(*s.files));
		allocate(&s.pages, PINS * sizeof(*s.pages));
		allocate(&s.words, 16 * sizeof(*s.words));
		CUDA(cudaStreamSynchronize(stream));
	}
	s.fs = gpu4fs_device_fs(device);
	return true;
}

static void end(void)
{
	HOST_EXPECT(gpu4fs_device_close(device), 0);
	HOST_EXPECT(gpu4fs_unmount(fs), 0);
}

/* What a kernel left, without a call of the host's after it, is in the image; and the engine took all of the GPU. */
static void test_unmount(void)
{
	std::string path = "/dev/shm/gpu4fs-device-test." + std::to_string(getpid()), name = "dax:" + path;
	gpu4fs *cpu;

	end();
	for (int round = 0; round < 3; round++) {
		bool mounted = begin(name.c_str(), 32 << 20, 0);
		HOST_EXPECT(mounted, true);
		if (mounted) {
			leave_file_kernel<<<1, 32, 0, stream>>>(s);
			finish();
			end();
			HOST_EXPECT(mount(name.c_str(), 0, "cpu", 0, &cpu), true);
			HOST_EXPECT(is_file(cpu, "/left-by-kernel", 21, 60000), true);
			HOST_EXPECT(gpu4fs_unmount(cpu), 0);
		}
		unlink(path.c_str());
	}
	if (!begin("mem:2G", 2ull << 30, 0))
		exit(1);
	HOST_EXPECT(gpu4fs_mkdir(fs, NULL, "/many", 0777), 0);
	many_kernel<<<MANY_WARPS / 4, 128, 0, stream>>>(s, 3);
	finish();
	check_many("/many/w", MANY_WARPS, 3);
}

static const struct test {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"names", test_names},	 {"change", test_change},     {"batch", test_batch}, {"readdir", test_readdir},
	{"enter", test_enter},	 {"user", test_user},	      {"map", test_map},     {"held", test_held},
	{"limit", test_limit},	 {"array", test_array},	      {"many", test_many},   {"turns", test_turns},
	{"beside", test_beside}, {"not-cuda", test_not_cuda}, {"each", test_each},   {"unmount", test_unmount},
};

int main(int argc, char **argv)
{
	const char *out = getenv("OUT");
	std::string json;

	current = "mounting";
	alarm(TEST_SECONDS);
	if (!begin("mem:2G", 2ull << 30, 32))
		return 1;
	for (const struct test &test : tests) {
		bool wanted = argc == 1;
		for (int i = 1; i < argc; i++)
			wanted = wanted || strcmp(argv[i], test.name) == 0;
		if (!wanted)
			continue;
		unsigned long long passed = total_passed, failed = total_failed;
		current = test.name;
		printf("%-10s ", test.name);
		fflush(stdout);
		alarm(TEST_SECONDS);
		test.run();
		passed = total_passed - passed;
		failed = total_failed - failed;
		printf("%llu expectations met, %llu not\n", passed, failed);
		fflush(stdout);
		json += std::string(json.empty() ? "" : ",") + "\n  {\"test\": \"" + test.name +
			"\", \"passed\": " + std::to_string(passed) + ", \"failed\": " + std::to_string(failed) + "}";
	}
	current = "unmounting";
	end();
	printf("%llu passed, %llu failed, 0 skipped\n", total_passed, total_failed);
	if (out) {
		FILE *file = fopen((std::string(out) + "/device.json").c_str(), "w");
		if (!file || fprintf(file, "[%s\n]\n", json.c_str()) < 0 || fclose(file) != 0) {
			fprintf(stderr, "device: the report could not be written to %s\n", out);
			return 1;
		}
	}
	return total_failed == 0 ? 0 : 1;
}
