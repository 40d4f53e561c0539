/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped devices: memory that is addressed directly. "mem:" is anonymous memory and forgets everything when closed;
 * "dax:" is a file mapped shared, on a DAX file system (persistent memory, CXL), on tmpfs, or on any other.
 *
 * Durability of dax: stores through g4_dev_map() are durable after a FLUSH, which is msync() of the whole mapping (the
 * kernel knows the dirty pages). A FUA write covers its own range only: cache-line write-back where MAP_SYNC promises
 * that this is enough, msync() otherwise. On tmpfs, which forgets with the power, both do nothing.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "dev/dev_ops_host.h"

#define MAPPED_SECTOR_BYTES 512u
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
#define CACHE_LINE_BYTES 64u

struct mapped {
	struct g4_file file; /* fd -1: anonymous */
};

/* ---- cache lines ---- */

#if defined(__x86_64__)
#define CPUID7_EBX_CLFLUSHOPT (1u << 23)
#define CPUID7_EBX_CLWB (1u << 24)

__attribute__((target("clwb"))) static void write_back_clwb(uint8_t *line, const uint8_t *end)
{
	for (; line < end; line += CACHE_LINE_BYTES)
		_mm_clwb(line);
}

__attribute__((target("clflushopt"))) static void write_back_clflushopt(uint8_t *line, const uint8_t *end)
{
	for (; line < end; line += CACHE_LINE_BYTES)
		_mm_clflushopt(line);
}

/* Intel SDM vol. 1, 12.3 "Cacheability control": write the lines back, then order that before what follows (SFENCE). */
static bool write_back_lines(uint8_t *map, uint64_t offset, uint64_t bytes)
{
	unsigned eax, ebx = 0, ecx, edx;
	uint8_t *line = map + g4_align_down(offset, CACHE_LINE_BYTES);
	const uint8_t *end = map + offset + bytes;
	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & (CPUID7_EBX_CLWB | CPUID7_EBX_CLFLUSHOPT)))
		return false;
	if (ebx & CPUID7_EBX_CLWB)
		write_back_clwb(line, end);
	else
		write_back_clflushopt(line, end);
	_mm_sfence();
	return true;
}
#else
static bool write_back_lines(uint8_t *map, uint64_t offset, uint64_t bytes)
{
	(void)map;
	(void)offset;
	(void)bytes;
	return false;
}
#endif

/* ---- durability ---- */

static int sync_range(const struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = g4_align_down(offset, page);
	if (bytes == 0)
		return 0;
	return msync(dev->map + start, offset + bytes - start, MS_SYNC) == 0 ? 0 : g4_dev_code(errno);
}

static int flush(struct g4_dev *dev)
{
	return sync_range(dev, 0, dev->props.size_bytes);
}

static int persist(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	if (dev->persist == G4_DEV_PERSIST_CACHELINE && write_back_lines(dev->map, offset, bytes))
		return 0;
	return sync_range(dev, offset, bytes);
}

/* Gives whole pages inside the range back; what is left at the ends keeps its contents, as a discard may. */
static int discard(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	const struct mapped *mapped = dev->host;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = g4_align_up(offset, page);
	uint64_t end = g4_align_down(offset + bytes, page);
	if (start >= end)
		return 0;
	if (!dev->anonymous)
		return g4_file_discard(&mapped->file, start, end - start);
	return madvise(dev->map + start, end - start, MADV_DONTNEED) == 0 ? 0 : g4_dev_code(errno);
}

/* ---- opening and closing ---- */

static void close_mapped(struct g4_dev *dev)
{
	struct mapped *mapped = dev->host;
	if (dev->map)
		munmap(dev->map, dev->props.size_bytes);
	g4_file_close(&mapped->file);
	free(mapped);
	free(dev);
}

static const struct g4_dev_ops mapped_ops = {
	.flush = flush, .persist = persist, .discard = discard, .close = close_mapped};

static uint64_t opened; /* atomic */

static struct g4_dev *make_device(uint32_t flags)
{
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct mapped *mapped = calloc(1, sizeof(*mapped));
	if (!dev || !mapped) {
		free(mapped);
		free(dev);
		return NULL;
	}
	mapped->file.fd = -1;
	dev->opened = g4_add64(&opened, 1) + 1;
	dev->host = mapped;
	dev->ops = &mapped_ops;
	dev->props.sector_bytes = MAPPED_SECTOR_BYTES;
	dev->props.mapped = true;
	dev->props.read_only = flags & G4_DEV_READ_ONLY;
	return dev;
}

/* Memory that starts at a huge page; the kernel commits pages as they are written. */
static uint8_t *map_anonymous(uint64_t bytes)
{
	uint64_t reserve = bytes + HUGE_PAGE_BYTES;
	uint8_t *area = mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	uint8_t *start = (uint8_t *)g4_align_up((uintptr_t)area, HUGE_PAGE_BYTES);
	uint8_t *end = start + bytes;
	if (start > area)
		munmap(area, (size_t)(start - area));
	if (area + reserve > end)
		munmap(end, (size_t)(area + reserve - end));
	/* Advice: a kernel without huge pages refuses it and the device works as well. */
	(void)madvise(start, bytes, MADV_HUGEPAGE);
	return start;
}

int g4_mem_open(const char *name, uint64_t size_bytes, const struct g4_dev_open_options *options, struct g4_dev **out,
		struct g4_dev_message message)
{
	struct g4_dev *dev = make_device(options->flags);
	if (!dev)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	dev->map = map_anonymous(size_bytes);
	if (!dev->map) {
		close_mapped(dev);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: there is no room for this much memory", name);
	}
	dev->anonymous = true;
	dev->persist = G4_DEV_PERSIST_NEVER;
	dev->props.size_bytes = size_bytes;
	dev->props.discard = !dev->props.read_only;
	*out = dev;
	return 0;
}

static bool forgets_with_power(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

static int map_file(struct g4_dev *dev, const struct g4_file *file)
{
	uint64_t bytes = g4_align_down(file->size_bytes, G4_PAGE_BYTES);
	int protection = dev->props.read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	dev->persist = G4_DEV_PERSIST_CACHELINE;
	void *map = mmap(NULL, bytes, protection, MAP_SHARED_VALIDATE | MAP_SYNC, file->fd, 0);
	if (map == MAP_FAILED) {
		dev->persist = forgets_with_power(file->fd) ? G4_DEV_PERSIST_NEVER : G4_DEV_PERSIST_MSYNC;
		map = mmap(NULL, bytes, protection, MAP_SHARED, file->fd, 0);
	}
	if (map == MAP_FAILED)
		return g4_dev_code(errno);
	dev->map = map;
	dev->props.size_bytes = bytes;
	dev->props.volatile_cache = dev->persist != G4_DEV_PERSIST_NEVER;
	dev->props.discard = !dev->props.read_only && g4_file_can_discard(file);
	dev->props.zeroes = !file->block_device;
	return 0;
}

int g4_dax_open(const char *name, const char *path, const struct g4_dev_open_options *options, struct g4_dev **out,
		struct g4_dev_message message)
{
	struct g4_dev *dev = make_device(options->flags);
	if (!dev)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	struct mapped *mapped = dev->host;
	int code = g4_file_open(name, path, options, &mapped->file, message);
	if (code == 0 && mapped->file.block_device)
		code = g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: dax: takes a file; give a block device by its path",
				   name);
	else if (code == 0 && (code = map_file(dev, &mapped->file)) != 0)
		g4_dev_fail(message, code, "%s: cannot be mapped: %m", name);
	if (code != 0) {
		close_mapped(dev);
		return code;
	}
	*out = dev;
	return 0;
}
