/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches elements of a large file in random order, as an embedding table is used: every lane of every warp its own element
 * (g4d_array of gpu4fs/gpu4fs_device.h). The host writes the file and checks the sums, and some elements by reading them.
 *
 * Usage: g4d_gather [-m MIB] [-c CACHE_MIB] [-w WARPS] [-r ROUNDS]
 *        (default: a file of 4096 MiB, a cache of 6144, 2048 warps, 200 rounds)
 *
 * Element i is mix(i), so that everybody knows what to expect.
 */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "gpu4fs/gpu4fs_device.h"

#define BLOCK_WARPS 4u
#define PIECE_BYTES (4u << 20)
#define ALL_LANES 0xffffffffu
#define USAGE                                                                                                          \
	"usage: g4d_gather [-m MIB] [-c CACHE_MIB] [-w WARPS] [-r ROUNDS]\n"                                           \
	"Fetches elements of a file of MIB (4096) in random order on the GPU, with a cache of CACHE_MIB (6144).\n"

static __host__ __device__ uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

enum order { RANDOM, IN_A_ROW };

/* What lane `lane` of warp `warp` fetches in a round. */
static __host__ __device__ uint64_t index_of(enum order order, uint64_t warp, uint64_t round, uint64_t rounds,
					     uint64_t lane, uint64_t elements)
{
	if (order == IN_A_ROW)
		return ((warp * rounds + round) * 32 + lane) % elements;
	return mix((warp << 40 | round << 8 | lane) + 12345) % elements;
}

struct job {
	g4d_fs *fs;
	g4d_file file;
	uint32_t warps, rounds;
	enum order order;
	unsigned long long sum, wrong;
	int error;
};

static __global__ void open_file(job *j)
{
	g4d_warp *warp = g4d_enter(j->fs);
	g4d_file file;
	int rc = g4d_open(warp, NULL, "/table", O_RDONLY, 0, &file);

	if (threadIdx.x == 0) {
		j->file = file;
		j->error = rc;
	}
	g4d_leave(warp);
}

static __global__ void close_file(job *j)
{
	g4d_warp *warp = g4d_enter(j->fs);
	int rc = g4d_close(warp, &j->file);

	if (threadIdx.x == 0 && rc < 0)
		j->error = rc;
	g4d_leave(warp);
}

static __global__ void gather(job *j)
{
	uint32_t number = blockIdx.x * BLOCK_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned long long sum = 0, wrong = 0;

	if (number >= j->warps)
		return; /* a whole warp */
	g4d_warp *warp = g4d_enter(j->fs);
	{
		const g4d_file file = j->file;
		g4d_array<uint64_t> table(warp, file);
		for (uint32_t round = 0; round < j->rounds; round++) {
			uint64_t index = index_of(j->order, number, round, j->rounds, lane, table.size());
			uint64_t value = table[index];
			sum += value;
			wrong += value != mix(index);
		}
		int rc = table.error();
		if (lane == 0 && rc != 0)
			atomicCAS(&j->error, 0, rc);
	}
	g4d_leave(warp);
	for (int step = 16; step > 0; step /= 2) {
		sum += __shfl_xor_sync(ALL_LANES, sum, step);
		wrong += __shfl_xor_sync(ALL_LANES, wrong, step);
	}
	if (lane == 0) {
		atomicAdd(&j->sum, sum);
		atomicAdd(&j->wrong, wrong);
	}
}

/* ------------------------------------------------------------------ the host */

static void cuda(cudaError_t rc, const char *call)
{
	if (rc == cudaSuccess)
		return;
	fprintf(stderr, "g4d_gather: %s: %s\n", call, cudaGetErrorString(rc));
	exit(1);
}
#define CUDA(call) cuda(call, #call)

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "g4d_gather: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

static void write_table(gpu4fs *fs, uint64_t elements)
{
	std::vector<uint64_t> piece(PIECE_BYTES / 8);
	gpu4fs_file *file;

	must(gpu4fs_open(fs, NULL, "/table", O_WRONLY | O_CREAT, 0644, &file), "making the file");
	for (uint64_t at = 0; at < elements; at += piece.size()) {
		for (size_t i = 0; i < piece.size(); i++)
			piece[i] = mix(at + i);
		must(gpu4fs_pwrite(file, piece.data(), PIECE_BYTES, (int64_t)(at * 8)), "writing");
	}
	must(gpu4fs_close(file), "closing");
}

/* The sum that the kernel must have; a thousand of its elements are read from the file. */
static unsigned long long expected_sum(gpu4fs *fs, const job *j, uint64_t elements, bool *good)
{
	uint64_t every = (uint64_t)j->warps * j->rounds * 32 / 1000 + 1, count = 0, value;
	unsigned long long sum = 0;
	gpu4fs_file *file;

	must(gpu4fs_open(fs, NULL, "/table", O_RDONLY, 0, &file), "opening");
	for (uint32_t warp = 0; warp < j->warps; warp++)
		for (uint32_t round = 0; round < j->rounds; round++)
			for (uint32_t lane = 0; lane < 32; lane++) {
				uint64_t index = index_of(j->order, warp, round, j->rounds, lane, elements);
				sum += mix(index);
				if (count++ % every != 0)
					continue;
				must(gpu4fs_pread(file, &value, 8, (int64_t)(index * 8)), "reading");
				*good = *good && value == mix(index);
			}
	must(gpu4fs_close(file), "closing");
	return sum;
}

static bool run(gpu4fs *fs, job *j, uint64_t elements, const char *what)
{
	cudaStream_t stream;
	cudaEvent_t begin, end;
	bool good = true;
	job *on_gpu;
	float ms;

	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaMallocAsync((void **)&on_gpu, sizeof(*j), stream));
	CUDA(cudaMemcpyAsync(on_gpu, j, sizeof(*j), cudaMemcpyHostToDevice, stream));
	open_file<<<1, 32, 0, stream>>>(on_gpu);
	CUDA(cudaGetLastError());
	CUDA(cudaEventRecord(begin, stream));
	gather<<<(j->warps + BLOCK_WARPS - 1) / BLOCK_WARPS, BLOCK_WARPS * 32, 0, stream>>>(on_gpu);
	CUDA(cudaGetLastError());
	CUDA(cudaEventRecord(end, stream));
	close_file<<<1, 32, 0, stream>>>(on_gpu);
	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	CUDA(cudaMemcpyAsync(j, on_gpu, sizeof(*j), cudaMemcpyDeviceToHost, stream));
	CUDA(cudaFreeAsync(on_gpu, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
	CUDA(cudaStreamDestroy(stream));
	must(j->error, what);
	double count = (double)j->warps * j->rounds * 32;
	unsigned long long sum = expected_sum(fs, j, elements, &good);
	good = good && sum == j->sum && j->wrong == 0;
	printf("%-40s %.3f G elements/s (%.3f GB/s), %.0f elements in %.1f ms: %s\n", what, count / 1e6 / ms,
	       count * 8 / 1e6 / ms, count, ms, good ? "as the host says" : "WRONG");
	j->sum = j->wrong = 0;
	return good;
}

int main(int argc, char **argv)
{
	uint64_t mib = 4096, cache_mib = 6144;
	struct gpu4fs_mkfs_options format = {};
	struct gpu4fs_options options = {};
	gpu4fs_device *device;
	char name[64];
	const char *names = name;
	job j = {};
	gpu4fs *fs;

	j.warps = 2048;
	j.rounds = 200;
	for (int option; (option = getopt(argc, argv, "m:c:w:r:h")) != -1;) {
		uint64_t number = option == '?' || option == 'h' ? 0 : strtoull(optarg, NULL, 10);
		if (option == 'h') {
			fputs(USAGE, stdout);
			return 0;
		}
		if (number == 0 || number > UINT32_MAX) {
			fputs(USAGE, stderr);
			return 2;
		}
		if (option == 'm')
			mib = (number + 3) / 4 * 4;
		else if (option == 'c')
			cache_mib = number;
		else if (option == 'w')
			j.warps = (uint32_t)number;
		else
			j.rounds = (uint32_t)number;
	}
	const uint64_t elements = mib << 17;
	snprintf(name, sizeof(name), "mem:%lluM", (unsigned long long)(mib + mib / 8 + 256));
	format.size = sizeof(format);
	options.size = sizeof(options);
	options.engine = "cuda";
	options.cache_bytes = cache_mib << 20;
	options.format = &format;
	if (gpu4fs_mount(&names, 1, &options, &fs) != 0) {
		fprintf(stderr, "g4d_gather: %s\n", gpu4fs_last_message());
		return 1;
	}
	write_table(fs, elements);
	must(gpu4fs_device_open(fs, NULL, &device), "letting kernels in");
	j.fs = gpu4fs_device_fs(device);
	bool good = run(fs, &j, elements, "random, pages not in the cache");
	good = run(fs, &j, elements, "random, the same again") && good;
	j.order = IN_A_ROW;
	good = run(fs, &j, elements, "in a row") && good;
	good = run(fs, &j, elements, "in a row, again") && good;
	must(gpu4fs_device_close(device), "ending it");
	must(gpu4fs_unmount(fs), "unmounting");
	return good ? 0 : 1;
}
