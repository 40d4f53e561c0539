/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches every file of a tree for a string, in one kernel launch: warps list directories, open files and read them
 * (gpu4fs/gpu4fs_device.h). The host mounts, launches, and prints. Then it searches the same tree itself, through gpu4fs.h,
 * and compares.
 *
 * Usage: g4d_grep [-n FILES] [-b BYTES]                    makes a tree of text in the GPU's memory and searches that
 *        g4d_grep -i IMAGE [-p PATH] STRING                searches PATH (default: /) of a file system
 *
 * Work is a queue of paths in the GPU's memory. A warp takes the next ticket and waits until its place is filled, or until
 * nothing is left: `open` counts what was put there and not yet done, so that 0 is the end.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "gpu4fs/gpu4fs_device.h"

#define ALL_LANES 0xffffffffu
#define USAGE                                                                                                          \
	"usage: g4d_grep [-n FILES] [-b BYTES] | g4d_grep -i IMAGE [-p PATH] STRING\n"                                 \
	"Searches a tree of FILES (10000) with BYTES (32768) each, which it makes, or PATH of IMAGE, on the GPU.\n"
#define BLOCK_WARPS 4u
#define PLACES (1u << 18) /* files and directories of a tree at most */
#define PATH_BYTES 252u
#define PIECE_BYTES (64u * 1024)
#define MOST_PATTERN 256u
#define LIST_BYTES 4096u

struct item {
	char path[PATH_BYTES];
	uint32_t kind; /* 0: not filled yet; DT_DIR or DT_REG */
};

struct search {
	g4d_fs *fs;
	item *queue;
	uint8_t *buffers; /* MOST_PATTERN + PIECE_BYTES + LIST_BYTES a warp */
	char pattern[MOST_PATTERN];
	uint32_t pattern_bytes;
	uint32_t filled, tickets, open;
	unsigned long long files, directories, bytes, matches, matching_files;
	int error; /* the first one */
	char error_path[PATH_BYTES];
};

/* ------------------------------------------------------------------ the kernel */

static __device__ uint32_t lane_of()
{
	return threadIdx.x % 32;
}

/* Collective. */
static __device__ void note(search *s, int rc, const char *path)
{
	if (lane_of() == 0 && atomicCAS(&s->error, 0, rc) == 0)
		for (uint32_t i = 0; i < PATH_BYTES && (s->error_path[i] = path[i]) != 0; i++)
			;
	__syncwarp();
}

/* Collective. Puts "FOLDER/NAME" into the queue. */
static __device__ void add(search *s, const char *folder, const char *name, uint32_t name_bytes, uint32_t kind)
{
	uint32_t place = 0, folder_bytes = 0;

	if (lane_of() == 0) {
		atomicAdd(&s->open, 1u);
		place = atomicAdd(&s->filled, 1u);
	}
	place = __shfl_sync(ALL_LANES, place, 0);
	while (folder[folder_bytes])
		folder_bytes++;
	if (folder_bytes == 1)
		folder_bytes = 0; /* "/" */
	if (place >= PLACES || folder_bytes + 1 + name_bytes >= PATH_BYTES) {
		note(s, place >= PLACES ? -ENOSPC : -ENAMETOOLONG, folder);
		if (place < PLACES)
			kind = DT_UNKNOWN + 255; /* a place that nobody has anything to do at */
		name_bytes = 0;
	}
	if (place < PLACES) {
		item *to = &s->queue[place];
		for (uint32_t i = lane_of(); i < folder_bytes; i += 32)
			to->path[i] = folder[i];
		for (uint32_t i = lane_of(); i < name_bytes; i += 32)
			to->path[folder_bytes + 1 + i] = name[i];
		if (lane_of() == 0) {
			to->path[folder_bytes] = '/';
			to->path[folder_bytes + 1 + name_bytes] = 0;
		}
		__threadfence();
		__syncwarp();
		if (lane_of() == 0)
			atomicExch(&to->kind, kind);
	} else if (lane_of() == 0) {
		atomicSub(&s->open, 1u);
	}
	__syncwarp();
}

static __device__ void search_directory(search *s, g4d_warp *warp, const char *path, uint8_t *list)
{
	uint64_t cookie = 0;
	g4d_file dir;
	int64_t bytes = g4d_open(warp, NULL, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir);

	if (bytes < 0) {
		note(s, (int)bytes, path);
		return;
	}
	while ((bytes = g4d_readdir(warp, &dir, &cookie, list, LIST_BYTES)) > 0) {
		for (int64_t at = 0; at < bytes;) {
			const struct g4d_dirent *entry = (const struct g4d_dirent *)(list + at);

			if (entry->type == DT_DIR || entry->type == DT_REG)
				add(s, path, g4d_name(entry), entry->name_bytes, entry->type);
			at += entry->record_bytes;
		}
	}
	if (bytes < 0)
		note(s, (int)bytes, path);
	if (lane_of() == 0)
		atomicAdd(&s->directories, 1ull);
	g4d_close(warp, &dir);
}

/* Each lane looks at every 32nd position. Matches that begin before `begins` and end before `bytes`. */
static __device__ uint32_t count_matches(const search *s, const uint8_t *text, uint32_t begins, uint32_t bytes)
{
	uint32_t count = 0;

	for (uint32_t at = lane_of(); at < begins && at + s->pattern_bytes <= bytes; at += 32) {
		uint32_t i = 0;
		while (i < s->pattern_bytes && text[at + i] == (uint8_t)s->pattern[i])
			i++;
		count += i == s->pattern_bytes;
	}
	return __reduce_add_sync(ALL_LANES, count);
}

static __device__ void search_file(search *s, g4d_warp *warp, const char *path, uint8_t *text)
{
	const uint32_t kept_bytes = s->pattern_bytes - 1; /* of the piece before, in front of the next one */
	uint64_t offset = 0, matches = 0;
	uint32_t kept = 0;
	g4d_file file;
	int64_t bytes = g4d_open(warp, NULL, path, O_RDONLY | O_NOFOLLOW, 0, &file);

	if (bytes < 0) {
		note(s, (int)bytes, path);
		return;
	}
	/* pieces begin at aligned memory: what is kept ends in front of it */
	uint8_t *piece = text + MOST_PATTERN;
	while ((bytes = g4d_read(warp, &file, piece, PIECE_BYTES, offset)) > 0) {
		uint32_t have = kept + (uint32_t)bytes;
		matches += count_matches(s, piece - kept, have, have);
		offset += (uint64_t)bytes;
		kept = have < kept_bytes ? have : kept_bytes;
		uint8_t carry[MOST_PATTERN / 32];
		for (uint32_t k = 0, i = lane_of(); i < kept; i += 32)
			carry[k++] = piece[bytes - kept + i];
		__syncwarp();
		for (uint32_t k = 0, i = lane_of(); i < kept; i += 32)
			piece[(int64_t)i - kept] = carry[k++];
		__syncwarp();
	}
	if (bytes < 0)
		note(s, (int)bytes, path);
	if (lane_of() == 0) {
		atomicAdd(&s->files, 1ull);
		atomicAdd(&s->bytes, (unsigned long long)offset);
		atomicAdd(&s->matches, (unsigned long long)matches);
		atomicAdd(&s->matching_files, matches > 0 ? 1ull : 0ull);
	}
	g4d_close(warp, &file);
}

/* The kind of the item at a ticket's place; 0: there is nothing more to do. Collective. */
static __device__ uint32_t await(search *s, uint32_t ticket)
{
	uint32_t kind = 0;

	if (lane_of() == 0 && ticket < PLACES) {
		volatile uint32_t *place = &s->queue[ticket].kind, *open = &s->open;
		while ((kind = *place) == 0 && *open != 0)
			__nanosleep(1000);
		if (kind == 0) /* it may have been filled between the two looks */
			kind = *place;
		__threadfence();
	}
	return __shfl_sync(ALL_LANES, kind, 0);
}

static __global__ void grep(search *s)
{
	uint32_t number = blockIdx.x * BLOCK_WARPS + threadIdx.x / 32, kind, ticket;
	uint8_t *text = s->buffers + (uint64_t)number * (MOST_PATTERN + PIECE_BYTES + LIST_BYTES);
	g4d_warp *warp = g4d_enter(s->fs);

	for (;;) {
		ticket = lane_of() == 0 ? atomicAdd(&s->tickets, 1u) : 0;
		ticket = __shfl_sync(ALL_LANES, ticket, 0);
		kind = await(s, ticket);
		if (kind == 0)
			break;
		const char *path = s->queue[ticket].path;
		if (kind == DT_DIR)
			search_directory(s, warp, path, text + MOST_PATTERN + PIECE_BYTES);
		else if (kind == DT_REG)
			search_file(s, warp, path, text);
		if (lane_of() == 0) {
			__threadfence();
			atomicSub(&s->open, 1u);
		}
		__syncwarp();
	}
	g4d_leave(warp);
}

/* ------------------------------------------------------------------ the host */

static void cuda(cudaError_t rc, const char *call)
{
	if (rc == cudaSuccess)
		return;
	fprintf(stderr, "g4d_grep: %s: %s\n", call, cudaGetErrorString(rc));
	exit(1);
}
#define CUDA(call) cuda(call, #call)

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "g4d_grep: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

struct answer {
	unsigned long long files, directories, bytes, matches, matching_files;
};

/* Runs the kernel; seconds. */
static double search_on_gpu(gpu4fs *fs, const char *path, const char *pattern, answer *out)
{
	gpu4fs_device *device;
	search s = {}, *on_gpu;
	item first = {};
	cudaStream_t stream;
	cudaEvent_t begin, end;
	int sms, blocks;
	float ms;

	must(gpu4fs_device_open(fs, NULL, &device), "letting kernels in");
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, grep, BLOCK_WARPS * 32, 0));
	blocks *= sms;
	s.fs = gpu4fs_device_fs(device);
	s.pattern_bytes = (uint32_t)strlen(pattern);
	memcpy(s.pattern, pattern, s.pattern_bytes);
	s.filled = s.open = 1;
	snprintf(first.path, sizeof(first.path), "%s", path);
	first.kind = DT_DIR;
	CUDA(cudaMallocAsync((void **)&s.queue, PLACES * sizeof(item), stream));
	CUDA(cudaMemsetAsync(s.queue, 0, PLACES * sizeof(item), stream));
	CUDA(cudaMemcpyAsync(s.queue, &first, sizeof(first), cudaMemcpyHostToDevice, stream));
	CUDA(cudaMallocAsync((void **)&s.buffers,
			     (uint64_t)blocks * BLOCK_WARPS * (MOST_PATTERN + PIECE_BYTES + LIST_BYTES), stream));
	CUDA(cudaMallocAsync((void **)&on_gpu, sizeof(s), stream));
	CUDA(cudaMemcpyAsync(on_gpu, &s, sizeof(s), cudaMemcpyHostToDevice, stream));
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaEventRecord(begin, stream));
	grep<<<blocks, BLOCK_WARPS * 32, 0, stream>>>(on_gpu);
	CUDA(cudaGetLastError());
	CUDA(cudaEventRecord(end, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	CUDA(cudaMemcpyAsync(&s, on_gpu, sizeof(s), cudaMemcpyDeviceToHost, stream));
	CUDA(cudaFreeAsync(s.queue, stream));
	CUDA(cudaFreeAsync(s.buffers, stream));
	CUDA(cudaFreeAsync(on_gpu, stream));
	CUDA(cudaStreamSynchronize(stream));
	if (s.error != 0)
		fprintf(stderr, "g4d_grep: %.*s: %s\n", (int)PATH_BYTES, s.error_path, gpu4fs_strerror(s.error));
	must(s.error, "the search");
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
	CUDA(cudaStreamDestroy(stream));
	must(gpu4fs_device_close(device), "ending it");
	*out = {s.files, s.directories, s.bytes, s.matches, s.matching_files};
	return ms / 1000;
}

/* The same by the host, a file at a time. */
static void search_on_host(gpu4fs *fs, const std::string &path, const std::string &pattern, answer *out)
{
	std::vector<std::string> folders, files;
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	int rc;

	must(gpu4fs_opendir(fs, NULL, path.c_str(), 0, &dir), path.c_str());
	while ((rc = gpu4fs_readdir(dir, &entry)) == 1) {
		std::string name = (path == "/" ? "" : path) + "/" + entry.name;
		if (entry.type == DT_DIR)
			folders.push_back(name);
		else if (entry.type == DT_REG)
			files.push_back(name);
	}
	must(rc, path.c_str());
	must(gpu4fs_closedir(dir), path.c_str());
	out->directories++;
	for (const std::string &name : files) {
		struct gpu4fs_stat stat;
		unsigned long long matches = 0;
		gpu4fs_file *file;

		must(gpu4fs_open(fs, NULL, name.c_str(), O_RDONLY, 0, &file), name.c_str());
		must(gpu4fs_fstat(file, &stat), name.c_str());
		std::string text(stat.size, 0);
		must(gpu4fs_pread(file, &text[0], text.size(), 0), name.c_str());
		must(gpu4fs_close(file), name.c_str());
		for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + 1))
			matches++;
		out->files++;
		out->bytes += text.size();
		out->matches += matches;
		out->matching_files += matches > 0;
	}
	for (const std::string &name : folders)
		search_on_host(fs, name, pattern, out);
}

/* A tree of words; in some of them, and across borders of what warps read at a time, the string. */
static void make_tree(gpu4fs *fs, uint32_t files, uint32_t bytes, const std::string &pattern)
{
	uint64_t random = 1;

	for (uint32_t i = 0; i < files; i++) {
		std::string folder = "/d" + std::to_string(i / 1000), text;
		gpu4fs_file *file;

		if (i % 1000 == 0)
			must(gpu4fs_mkdir(fs, NULL, folder.c_str(), 0755), folder.c_str());
		folder += "/e" + std::to_string(i / 100 % 10);
		if (i % 100 == 0)
			must(gpu4fs_mkdir(fs, NULL, folder.c_str(), 0755), folder.c_str());
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint64_t size = (random >> 33) % (2 * (uint64_t)bytes + 1);
		while (text.size() < size) {
			random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			text += (random >> 40) % 4000 == 0 ? pattern : "word" + std::to_string((random >> 33) % 1000);
			text += ' ';
		}
		if (text.size() > PIECE_BYTES + 100 && i % 2)
			text.replace(PIECE_BYTES - pattern.size() / 2, pattern.size(), pattern);
		folder += "/f" + std::to_string(i);
		must(gpu4fs_open(fs, NULL, folder.c_str(), O_WRONLY | O_CREAT, 0644, &file), folder.c_str());
		must(gpu4fs_pwrite(file, text.data(), text.size(), 0), folder.c_str());
		must(gpu4fs_close(file), folder.c_str());
	}
}

int main(int argc, char **argv)
{
	struct gpu4fs_mkfs_options format = {};
	struct gpu4fs_options options = {};
	const char *image = NULL, *path = "/", *pattern = "needle in a haystack", *name = "mem:8G";
	uint32_t files = 10000, bytes = 32 * 1024;
	answer gpu = {}, host = {};
	gpu4fs *fs;

	for (int option; (option = getopt(argc, argv, "n:b:i:p:h")) != -1;) {
		if (option == 'n')
			files = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'b')
			bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'i')
			image = optarg;
		else if (option == 'p')
			path = optarg;
		else {
			fputs(USAGE, option == 'h' ? stdout : stderr);
			return option == 'h' ? 0 : 2;
		}
	}
	if (optind < argc)
		pattern = argv[optind];
	if (strlen(pattern) == 0 || strlen(pattern) > MOST_PATTERN || strlen(path) >= PATH_BYTES) {
		fputs(USAGE, stderr);
		return 2;
	}
	format.size = sizeof(format);
	options.size = sizeof(options);
	options.engine = "cuda";
	options.cache_bytes = 2ull << 30;
	options.flags = image ? GPU4FS_READ_ONLY : 0;
	options.format = image ? NULL : &format;
	if (image)
		name = image;
	if (gpu4fs_mount(&name, 1, &options, &fs) != 0) {
		fprintf(stderr, "g4d_grep: %s\n", gpu4fs_last_message());
		return 1;
	}
	if (!image)
		make_tree(fs, files, bytes, pattern);
	for (int round = 1; round <= 2; round++) { /* the second time from the cache */
		double seconds = search_on_gpu(fs, path, pattern, &gpu);
		printf("round %d: %llu files, %llu directories, %.3f GB in %.3f s: %.0f files/s, %.2f GB/s; "
		       "%llu matches in %llu files\n",
		       round, gpu.files, gpu.directories, (double)gpu.bytes / 1e9, seconds, (double)gpu.files / seconds,
		       (double)gpu.bytes / 1e9 / seconds, gpu.matches, gpu.matching_files);
	}
	search_on_host(fs, path, pattern, &host);
	bool same = gpu.files == host.files && gpu.directories == host.directories && gpu.bytes == host.bytes &&
		    gpu.matches == host.matches && gpu.matching_files == host.matching_files;
	printf("the host finds %llu matches in %llu of %llu files: %s\n", host.matches, host.matching_files, host.files,
	       same ? "the same" : "NOT THE SAME");
	must(gpu4fs_unmount(fs), "unmounting");
	return same ? 0 : 1;
}
