/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VFIO (vfio_host.h): a container is an IOMMU's address space, a group what it can tell apart, a device gives its registers to mmap(2).
 *
 * Memory gets the address that the process has it at, or, where the IOMMU has too few bits for those, one at a distance that is the same
 * for all memory. It does in chunks of 2 MiB and when a command names it for the first time: that pins it, and the whole of a cache need
 * not be. Only what g4_memory_map() has given is mapped, for it tells before it goes away
 * (memory_host.h); of all other memory nobody could say when its pages become somebody else's, and device_host.c copies.
 *
 * A controller that is halted reaches no memory: it may not be a bus master any more, it is reset, and nothing is mapped.
 *
 * Without an IOMMU (VFIO's unsafe mode) a controller reaches all memory of the machine, by physical addresses. It is told of one huge page
 * only (huge_host.h), which has its queues and the buffers that all data is copied through: the cache's pages could be moved. Of a process
 * that is killed the kernel ends files from the highest number down, so that the controller's is above those of the page: first it is no bus
 * master any more, and then the page is somebody else's. Nothing but a reset ends what an earlier user's death has left under way, which
 * VFIO does when it is opened: one that can not be reset is refused.
 *
 * The kernel removes it only when nothing of it is open or mapped (let_go()). What reads its registers later, as a thread may that was
 * about to, finds memory full of ones in their place, which is what a controller that is gone looks like.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "dev/nvme/huge_host.h"
#include "dev/nvme/pci_host.h"
#include "dev/nvme/vfio_host.h"

#define CHUNK_BYTES (2 * G4_MIB)
#define CHUNKS 65536u /* places of the table below; VFIO allows 65535 mappings */
#define VECTORS_MOST (G4_NVME_QUEUES_MOST + 1)
#define PCI_COMMAND 4u
#define PCI_COMMAND_MEMORY 2u
#define PCI_COMMAND_MASTER 4u

struct g4_vfio {
	int container, group, device;
	int asked;  /* the kernel makes it readable when the controller is to be removed */
	int failed; /* ... when its link, or its side of that, reports an error that nothing has corrected */
	uint8_t *registers;
	uint64_t register_bytes;
	uint64_t config_offset;
	bool can_reset, halted, told;
	uint64_t shift;	  /* from an address to the IOMMU's */
	bool unsafe;	  /* no IOMMU: nothing is mapped */
	uint32_t vectors; /* of interrupts, for all of which the kernel has a place; 0: there are none */
	struct g4_huge huge;
	struct g4_memory_watcher watcher;
	pthread_mutex_t lock; /* of changes to the table */
	/*
	 * Mapped chunks by their number, open addressing; 0: none was ever here, 1: one was. A chunk of a smaller piece of memory counts
	 * as mapped when its own pages are, which share it with nobody.
	 */
	uint64_t chunks[CHUNKS];
	uint32_t chunk_count; /* places that are not 0 */
};
#define GONE 1u

/* ---- which memory is mapped ---- */

static uint32_t place_of(uint64_t page)
{
	return (uint32_t)((page * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % CHUNKS;
}

/* Keys are first pages of mappings, which are never 0 or 1. */
static bool has_key(const struct g4_vfio *vfio, uint64_t key)
{
	for (uint32_t n = 0, at = place_of(key); n < CHUNKS; n++, at = (at + 1) % CHUNKS) {
		const uint64_t seen = g4_load64_acq(&vfio->chunks[at]);
		if (seen == key)
			return true;
		if (seen == 0)
			return false;
	}
	return false;
}

/* The lock is held. False: the table is full. */
static bool add_key(struct g4_vfio *vfio, uint64_t key)
{
	if (vfio->chunk_count > CHUNKS / 2)
		return false;
	for (uint32_t at = place_of(key);; at = (at + 1) % CHUNKS) {
		if (vfio->chunks[at] > GONE)
			continue;
		vfio->chunk_count += vfio->chunks[at] == 0;
		g4_store64_rel(&vfio->chunks[at], key);
		return true;
	}
}

static bool take_key(struct g4_vfio *vfio, uint64_t key)
{
	for (uint32_t at = place_of(key); vfio->chunks[at] != 0; at = (at + 1) % CHUNKS)
		if (vfio->chunks[at] == key) {
			g4_store64_rel(&vfio->chunks[at], GONE);
			return true;
		}
	return false;
}

static int map_range(const struct g4_vfio *vfio, uint64_t from, uint64_t to)
{
	struct vfio_iommu_type1_dma_map map = {.argsz = sizeof(map),
					       .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
					       .vaddr = from,
					       .iova = from + vfio->shift,
					       .size = to - from};

	return ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map) == 0 ? 0 : errno;
}

/* Of the IOMMU's addresses. */
static void unmap_there(const struct g4_vfio *vfio, uint64_t from, uint64_t bytes)
{
	struct vfio_iommu_type1_dma_unmap unmap = {.argsz = sizeof(unmap), .iova = from, .size = bytes};

	if (ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &unmap) != 0)
		g4_log(G4_LOG_WARN, "VFIO does not unmap memory: %s", strerror(errno));
}

static void unmap_range(const struct g4_vfio *vfio, uint64_t from, uint64_t to)
{
	unmap_there(vfio, from + vfio->shift, to - from);
}

/* What holds an address and is mapped as a whole: a chunk of a piece of memory. False: it is in none. */
static bool extent_of(uint64_t at, uint64_t *from, uint64_t *to)
{
	uint64_t bytes;
	void *piece;

	if (!g4_memory_find((const void *)(uintptr_t)at, &piece, &bytes))
		return false;
	*from = g4_max64(g4_align_down(at, CHUNK_BYTES), (uintptr_t)piece);
	*to = g4_min64(g4_align_down(at, CHUNK_BYTES) + CHUNK_BYTES, (uintptr_t)piece + bytes);
	return true;
}

/* 0 or an errno; EFAULT: no such memory. *to: the end of what is mapped now. */
static int map_at(struct g4_vfio *vfio, uint64_t at, uint64_t *to)
{
	uint64_t from;
	int error = 0;

	if (!extent_of(at, &from, to))
		return EFAULT;
	if (has_key(vfio, from))
		return 0;
	pthread_mutex_lock(&vfio->lock);
	if (vfio->halted)
		error = ENODEV;
	else if (!has_key(vfio, from)) {
		error = map_range(vfio, from, *to);
		if (error == 0 && !add_key(vfio, from)) {
			unmap_range(vfio, from, *to);
			error = ENOSPC;
		}
	}
	pthread_mutex_unlock(&vfio->lock);
	return error;
}

static bool reach(void *context, const void *memory, uint64_t bytes)
{
	struct g4_vfio *vfio = context;
	const uint64_t end = (uintptr_t)memory + bytes;

	for (uint64_t at = (uintptr_t)memory, next; at < end; at = next) {
		const int error = map_at(vfio, at, &next);
		if (error == 0)
			continue;
		if (error != EFAULT && error != ENODEV && !vfio->told) {
			vfio->told = true;
			g4_log(G4_LOG_WARN, "memory can not be mapped for a controller, data is copied: %s",
			       strerror(error));
		}
		errno = error;
		return false;
	}
	return true;
}

static void forget(void *context, void *memory, uint64_t bytes)
{
	struct g4_vfio *vfio = context;
	const uint64_t end = (uintptr_t)memory + bytes;

	pthread_mutex_lock(&vfio->lock);
	for (uint64_t from = (uintptr_t)memory; from < end; from = g4_align_down(from, CHUNK_BYTES) + CHUNK_BYTES)
		if (take_key(vfio, from) && !vfio->halted)
			unmap_range(vfio, from, g4_min64(g4_align_down(from, CHUNK_BYTES) + CHUNK_BYTES, end));
	pthread_mutex_unlock(&vfio->lock);
}

/* ---- without an IOMMU ---- */

static bool reach_nothing(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	(void)bytes;
	return false;
}

static void *obtain(void *context, uint64_t bytes, uint64_t *address)
{
	struct g4_vfio *vfio = context;

	if (bytes > G4_HUGE_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	*address = vfio->huge.address;
	return vfio->huge.memory;
}

/* ---- life ---- */

/* Whether it may write to memory; its registers are there. */
static void set_master(const struct g4_vfio *vfio, bool on)
{
	uint16_t command;
	const off_t at = (off_t)(vfio->config_offset + PCI_COMMAND);

	if (vfio->config_offset == 0) /* not known yet */
		return;
	if (pread(vfio->device, &command, sizeof(command), at) != sizeof(command))
		return;
	command |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	if (!on)
		command &= (uint16_t)~PCI_COMMAND_MASTER;
	if (pwrite(vfio->device, &command, sizeof(command), at) != sizeof(command))
		g4_log(G4_LOG_WARN, "VFIO: the controller's configuration can not be written");
}

static void unmap_all(struct g4_vfio *vfio)
{
	struct vfio_iommu_type1_dma_unmap all = {.argsz = sizeof(all), .flags = VFIO_DMA_UNMAP_FLAG_ALL};

	pthread_mutex_lock(&vfio->lock);
	vfio->halted = true;
	if (vfio->device >= 0 && !vfio->unsafe &&
	    ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &all) != 0) /* before Linux 5.12 */
		unmap_there(vfio, 0, UINT64_MAX & ~(G4_PAGE_BYTES - 1));
	pthread_mutex_unlock(&vfio->lock);
}

static void halt(void *context)
{
	struct g4_vfio *vfio = context;

	set_master(vfio, false);
	if (vfio->can_reset && ioctl(vfio->device, VFIO_DEVICE_RESET) != 0)
		g4_log(G4_LOG_WARN, "VFIO: the controller can not be reset: %s", strerror(errno));
	unmap_all(vfio);
}

static void close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_files(struct g4_vfio *vfio)
{
	close_file(&vfio->device);
	close_file(&vfio->group);
	close_file(&vfio->container);
}

/* Other memory takes the place of the registers in one step. */
static bool cover_registers(const struct g4_vfio *vfio)
{
	void *ones = mmap(NULL, vfio->register_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ones == MAP_FAILED)
		return false;
	memset(ones, 0xff, vfio->register_bytes);
	if (mremap(ones, vfio->register_bytes, vfio->register_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, vfio->registers) !=
	    MAP_FAILED)
		return true;
	munmap(ones, vfio->register_bytes);
	return false;
}

static void let_go(void *context)
{
	struct g4_vfio *vfio = context;

	set_master(vfio, false);
	unmap_all(vfio);
	if (cover_registers(vfio))
		close_files(vfio);
	else
		g4_log(G4_LOG_WARN, "VFIO: the system waits for a controller until it is closed: %m");
}

static void close_vfio(void *context)
{
	struct g4_vfio *vfio = context;

	g4_memory_unwatch(&vfio->watcher);
	if (vfio->device >= 0) {
		set_master(vfio, false);
		unmap_all(vfio);
	}
	if (vfio->registers)
		munmap(vfio->registers, vfio->register_bytes);
	close_files(vfio);
	close_file(&vfio->asked);
	close_file(&vfio->failed);
	g4_huge_unmap(&vfio->huge);
	pthread_mutex_destroy(&vfio->lock);
	free(vfio);
}

/* ---- opening ---- */

static int iommu_type(const struct g4_vfio *vfio)
{
	return vfio->unsafe ? VFIO_NOIOMMU_IOMMU : VFIO_TYPE1v2_IOMMU;
}

static int open_container(struct g4_vfio *vfio, const char *name, struct g4_dev_message message)
{
	vfio->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	if (vfio->container < 0 && (errno == ENOENT || errno == ENODEV))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the kernel has no VFIO: modprobe vfio-pci", name);
	if (vfio->container < 0)
		return g4_dev_fail(message, -G4_E_ACCES, "%s: /dev/vfio/vfio can not be opened: %m", name);
	if (vfio->unsafe && ioctl(vfio->container, VFIO_CHECK_EXTENSION, VFIO_NOIOMMU_IOMMU) <= 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: was bound without an IOMMU, and vfio's enable_unsafe_noiommu_mode is off",
				   name);
	if (ioctl(vfio->container, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
	    ioctl(vfio->container, VFIO_CHECK_EXTENSION, iommu_type(vfio)) <= 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: the kernel's VFIO has no IOMMU of type 1 (modprobe vfio_iommu_type1)", name);
	return 0;
}

static int open_group(struct g4_vfio *vfio, const char *name, const struct g4_pci *pci, struct g4_dev_message message)
{
	struct vfio_group_status status = {.argsz = sizeof(status)};
	char path[G4_PCI_GROUP_BYTES], others[512];

	vfio->group = g4_pci_open_group(pci, path);
	if (vfio->group < 0 && errno == EBUSY)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use by another program", name);
	if (vfio->group < 0 && (errno == EACCES || errno == EPERM))
		return g4_dev_fail(message, -G4_E_ACCES,
				   "%s: no permission: the user that opens it needs to own %s, or be root", name, path);
	if (vfio->group < 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: %s can not be opened: %m", name, path);
	if (ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status) != 0 || !(status.flags & VFIO_GROUP_FLAGS_VIABLE)) {
		g4_pci_others(pci, others, sizeof(others));
		return g4_dev_fail(message, -G4_E_DEV_BUSY,
				   "%s: the IOMMU can not tell it from devices that the kernel uses: %s; they would "
				   "have to be given to vfio-pci as well",
				   name, others[0] ? others : "unknown ones");
	}
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) != 0 ||
	    ioctl(vfio->container, VFIO_SET_IOMMU, iommu_type(vfio)) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the IOMMU can not be had: %m", name);
	return 0;
}

static int map_registers(struct g4_vfio *vfio, const char *name, struct g4_dev_message message)
{
	struct vfio_region_info bar = {.argsz = sizeof(bar), .index = VFIO_PCI_BAR0_REGION_INDEX};
	struct vfio_region_info config = {.argsz = sizeof(config), .index = VFIO_PCI_CONFIG_REGION_INDEX};

	if (ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, &bar) != 0 ||
	    ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, &config) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: VFIO does not tell where its registers are: %m", name);
	if (bar.size < G4_NVME_DOORBELLS + G4_PAGE_BYTES || !(bar.flags & VFIO_REGION_INFO_FLAG_MMAP))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: its registers (%" PRIu64 " bytes) can not be mapped",
				   name, (uint64_t)bar.size);
	vfio->config_offset = config.offset;
	set_master(vfio, true);
	void *registers = mmap(NULL, bar.size, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->device, (off_t)bar.offset);
	if (registers == MAP_FAILED)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: its registers can not be mapped: %m", name);
	vfio->registers = registers;
	vfio->register_bytes = bar.size;
	return 0;
}

/* Without an IOMMU: what is said at the top of when a process is killed. */
static int get_unsafe_device(struct g4_vfio *vfio, const char *name, const char *address, struct g4_dev_message message)
{
	int rc = g4_huge_map(name, &vfio->huge, message);

	if (rc < 0)
		return rc;
	vfio->device = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, address);
	if (vfio->device >= 0 && vfio->device < vfio->huge.last_file) {
		const int above = fcntl(vfio->device, F_DUPFD_CLOEXEC, vfio->huge.last_file + 1), error = errno;
		close_file(&vfio->device);
		vfio->device = above;
		errno = error;
	}
	return 0;
}

/* Interrupts from `first` on, of a kind, count up these eventfds; -1: that one is masked. False, with an errno: they can not. */
static bool set_events(const struct g4_vfio *vfio, uint32_t kind, uint32_t first, const int32_t *files, uint32_t count)
{
	uint8_t bytes[sizeof(struct vfio_irq_set) + VECTORS_MOST * sizeof(*files)] __attribute__((aligned(8)));
	struct vfio_irq_set *const set = (struct vfio_irq_set *)(void *)bytes;

	*set = (struct vfio_irq_set){.argsz = (uint32_t)(sizeof(*set) + count * sizeof(*files)),
				     .flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
				     .index = kind,
				     .start = first,
				     .count = count};
	memcpy(set->data, files, count * sizeof(*files));
	return ioctl(vfio->device, VFIO_DEVICE_SET_IRQS, set) == 0;
}

/* A file that the kernel makes readable when there is such an interrupt; -1, with an errno: there is none. */
static int hear(const struct g4_vfio *vfio, uint32_t interrupt)
{
	int32_t file = eventfd(0, EFD_CLOEXEC);

	if (file >= 0 && !set_events(vfio, interrupt, 0, &file, 1)) {
		const int error = errno;
		close_file(&file);
		errno = error;
	}
	return file;
}

/* The kernel says when it wants it back. Where it can not, as before Linux 4.0, it waits for its user to end. */
static void hear_system(struct g4_vfio *vfio, const char *name)
{
	vfio->asked = hear(vfio, VFIO_PCI_REQ_IRQ_INDEX);
	if (vfio->asked < 0)
		g4_log(G4_LOG_WARN, "%s: the system can not ask for it back: %m", name);
	vfio->failed = hear(vfio, VFIO_PCI_ERR_IRQ_INDEX);
	if (vfio->failed < 0)
		g4_log(G4_LOG_INFO, "%s: the system can not tell of errors of its link: %m", name);
}

/* Before Linux 6.5 there can be no more vectors later than the first time, which is without files: none of them costs anything. */
static void allocate_vectors(struct g4_vfio *vfio, const char *name)
{
	struct vfio_irq_info info = {.argsz = sizeof(info), .index = VFIO_PCI_MSIX_IRQ_INDEX};
	int32_t none[VECTORS_MOST];

	memset(none, 0xff, sizeof(none));
	if (ioctl(vfio->device, VFIO_DEVICE_GET_IRQ_INFO, &info) != 0 || !(info.flags & VFIO_IRQ_INFO_EVENTFD))
		info.count = 0;
	const uint32_t count = (uint32_t)g4_min64(info.count, VECTORS_MOST);
	if (count > 1 && set_events(vfio, VFIO_PCI_MSIX_IRQ_INDEX, 0, none, count))
		vfio->vectors = count;
	else
		g4_log(G4_LOG_INFO, "%s: no interrupts can be had; waiting for it takes more processor time", name);
}

static bool hear_vector(void *context, uint32_t vector, int event)
{
	struct g4_vfio *vfio = context;
	const int32_t file = event;

	pthread_mutex_lock(&vfio->lock);
	const bool heard = !vfio->halted && set_events(vfio, VFIO_PCI_MSIX_IRQ_INDEX, vector, &file, 1);
	pthread_mutex_unlock(&vfio->lock);
	return heard;
}

static int check_limit(const char *name, const uint8_t *memory, int error, struct g4_dev_message message)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	errno = error;
	if (error == ENOMEM)
		return g4_dev_fail(message, -G4_E_NOMEM,
				   "%s: the limit for locked memory is too small (ulimit -l: %" PRIu64
				   " KiB): a controller's memory has to stay in place",
				   name, (uint64_t)limit.rlim_cur / 1024);
	return g4_dev_fail(
		message, -G4_E_DEV_OPEN,
		"%s: the IOMMU does not take memory at %p: %m (it may have too few bits of addresses, and the "
		"kernel, before 5.4, does not tell)",
		name, (const void *)memory);
}

uint64_t g4_vfio_shift(const struct vfio_iova_range *ranges, uint32_t count, uint64_t at)
{
	const struct vfio_iova_range *largest = ranges;

	for (uint32_t i = 0; i < count; i++) {
		if (at >= ranges[i].start && at <= ranges[i].end)
			return 0;
		if (ranges[i].end - ranges[i].start > largest->end - largest->start)
			largest = &ranges[i];
	}
	if (count == 0)
		return 0;
	/* memory that comes later mostly has lower addresses */
	const uint64_t there = largest->start + (largest->end - largest->start) / 4 * 3;
	return g4_align_down(there, CHUNK_BYTES) - g4_align_down(at, CHUNK_BYTES);
}

/* Where memory is for the IOMMU that is at `at` for the process: the distance. Before Linux 5.4 VFIO does not tell. */
static uint64_t find_shift(const struct g4_vfio *vfio, uint64_t at)
{
	struct vfio_iova_range ranges[128];
	uint8_t bytes[sizeof(ranges) + 256] __attribute__((aligned(8))) = {0};
	struct vfio_iommu_type1_info *const info = (struct vfio_iommu_type1_info *)(void *)bytes;
	struct vfio_iommu_type1_info_cap_iova_range found;

	info->argsz = sizeof(bytes);
	if (ioctl(vfio->container, VFIO_IOMMU_GET_INFO, info) != 0 || !(info->flags & VFIO_IOMMU_INFO_CAPS))
		return 0;
	for (uint64_t part = info->cap_offset; part != 0 && part + sizeof(found) <= sizeof(bytes);
	     part = found.header.next) {
		memcpy(&found, &bytes[part], sizeof(found));
		if (found.header.id != VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE)
			continue;
		const uint64_t room = (sizeof(bytes) - part - sizeof(found)) / sizeof(ranges[0]);
		const uint32_t count = (uint32_t)g4_min64(found.nr_iovas, g4_min64(room, 128));
		memcpy(ranges, &bytes[part + sizeof(found)], count * sizeof(ranges[0]));
		return g4_vfio_shift(ranges, count, at);
	}
	return 0;
}

/* Whether memory can be mapped at all, with the sentence that reach() has no room for. */
static int try_memory(struct g4_vfio *vfio, const char *name, struct g4_dev_message message)
{
	uint8_t *memory = g4_memory_map(CHUNK_BYTES);

	if (!memory)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	uint64_t end;
	vfio->shift = find_shift(vfio, (uintptr_t)memory);
	const int error = map_at(vfio, (uintptr_t)memory, &end);
	g4_memory_unmap(memory, CHUNK_BYTES);
	return error ? check_limit(name, memory, error, message) : 0;
}

static int begin(struct g4_vfio *vfio, const char *name, const char *address, struct g4_dev_message message)
{
	struct vfio_device_info info = {.argsz = sizeof(info)};
	struct g4_pci pci;
	int rc = g4_pci_find(name, address, &pci, message);

	if (rc < 0)
		return rc;
	if (pci.group == G4_PCI_NO_GROUP)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: the kernel has no IOMMU for it (intel_iommu=on or amd_iommu=on on its command "
				   "line, and VT-d or AMD-Vi in the firmware; or vfio's enable_unsafe_noiommu_mode)",
				   name);
	if (strcmp(pci.driver, "vfio-pci") != 0)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: %s%s has it; 'gpu4fs nvme bind %s' gives it to VFIO",
				   name, pci.driver[0] ? "the kernel's driver " : "no driver", pci.driver, address);
	vfio->unsafe = pci.unsafe;
	if ((rc = open_container(vfio, name, message)) < 0 || (rc = open_group(vfio, name, &pci, message)) < 0)
		return rc;
	if (!vfio->unsafe)
		vfio->device = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, address);
	else if ((rc = get_unsafe_device(vfio, name, address, message)) < 0)
		return rc;
	if (vfio->device < 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: VFIO does not give it: %m", name);
	if (ioctl(vfio->device, VFIO_DEVICE_GET_INFO, &info) != 0 || !(info.flags & VFIO_DEVICE_FLAGS_PCI))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: VFIO says that it is no PCI device", name);
	vfio->can_reset = info.flags & VFIO_DEVICE_FLAGS_RESET;
	if (vfio->unsafe && !vfio->can_reset)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: can not be reset, and is not used without an IOMMU",
				   name);
	if ((rc = map_registers(vfio, name, message)) < 0)
		return rc;
	if (!vfio->unsafe && (rc = try_memory(vfio, name, message)) < 0)
		return rc;
	if (vfio->unsafe)
		g4_log(G4_LOG_WARN,
		       "%s: there is no IOMMU: if the drive, or this program, is wrong about an address, it writes to any "
		       "memory of this machine",
		       name);
	hear_system(vfio, name);
	allocate_vectors(vfio, name);
	return 0;
}

int g4_vfio_open(const char *name, const char *address, struct g4_nvme_provider *provider,
		 struct g4_dev_message message)
{
	struct g4_vfio *vfio = calloc(1, sizeof(*vfio));

	if (!vfio)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	vfio->container = vfio->group = vfio->device = vfio->asked = vfio->failed = vfio->huge.file = -1;
	pthread_mutex_init(&vfio->lock, NULL);
	vfio->watcher = (struct g4_memory_watcher){.goes = forget, .context = vfio};
	g4_memory_watch(&vfio->watcher);
	const int rc = begin(vfio, name, address, message);
	if (rc < 0) {
		close_vfio(vfio);
		return rc;
	}
	*provider = (struct g4_nvme_provider){.registers = vfio->registers,
					      .register_bytes = vfio->register_bytes,
					      .io_memory = true,
					      .context = vfio,
					      .reach = vfio->unsafe ? reach_nothing : reach,
					      .shift = vfio->shift,
					      .obtain = vfio->unsafe ? obtain : NULL,
					      .obtain_most_bytes = G4_HUGE_BYTES,
					      .vectors = vfio->vectors,
					      .listen = hear_vector,
					      .halt = halt,
					      .close = close_vfio,
					      .let_go = vfio->asked >= 0 ? let_go : NULL,
					      .asked = vfio->asked,
					      .failed = vfio->failed};
	return 0;
}
