/* SPDX-License-Identifier: Apache-2.0 */
/* Where a controller is (place_host.h). */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/nvme/acs_host.h"
#include "dev/nvme/place_host.h"

#define NVIDIA 0x10deu
#define DISPLAY_CLASSES 0x03u /* of a class code >> 16 */
#define BRIDGE_CLASSES 0x06u
#define MEMORY_FLAG 0x200u /* of a line of `resource`: IORESOURCE_MEM */
#define BARS 6u
#define LOCKED_WANTED_BYTES (64 * G4_MIB) /* queues of eight processors, the four buffers and a small cache */
#define LANES_WANTED_BYTES                                                                                             \
	(72 * G4_MIB)		  /* and eight queues of lanes: a chunk a slot, 64 MiB in all, is mapped at once */
#define PIECE_BYTES (2 * G4_MIB)  /* that the driver has mapped at once (vfio_host.c) */
#define PIECES_WANTED 1024u	  /* a cache of 2 GiB */
#define BAR_WANTED_BYTES (G4_GIB) /* less than that does not hold the queues and chunks of a cache of use */

struct seen {
	const char *root;
	char way[PATH_MAX]; /* of the controller, from its root complex on */
	struct g4_place *place;
};

static FILE *open_attribute(const char *root, const char *address, const char *attribute)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, address, attribute);
	return fopen(path, "re");
}

static uint64_t read_hex(const char *root, const char *address, const char *attribute)
{
	unsigned long long value = 0;
	FILE *file = open_attribute(root, address, attribute);

	if (!file)
		return 0;
	if (fscanf(file, "%llx", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

/* "pci0000:00/0000:00:01.0/0000:01:00.0". False: there is no such device. */
static bool find_way(const char *root, const char *address, char way[PATH_MAX])
{
	char path[PATH_MAX], target[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, address);
	if (!realpath(path, target))
		return false;
	const char *from = strstr(target, "/sys/devices/");
	snprintf(way, PATH_MAX, "%s", from ? from + strlen("/sys/devices/") : "");
	return true;
}

/* How many of the first parts of two ways are the same; the last one of these into `common`. */
static uint32_t same_parts(const char *one, const char *other, char common[G4_PCI_NAME_BYTES])
{
	uint32_t count = 0;

	common[0] = '\0';
	for (;;) {
		const size_t length = strcspn(one, "/");
		if (length == 0 || strncmp(one, other, length) != 0 || (other[length] != '/' && other[length] != '\0'))
			return count;
		snprintf(common, G4_PCI_NAME_BYTES, "%.*s", (int)g4_min64(length, G4_PCI_NAME_BYTES - 1), one);
		count++;
		if (one[length] == '\0' || other[length] == '\0')
			return count;
		one += length + 1;
		other += length + 1;
	}
}

/* ---- ports ---- */

static enum g4_acs acs_of(const char *root, const char *address)
{
	static const char attribute[] = "config";
	uint8_t config[G4_ACS_CONFIG_BYTES] = {0};
	FILE *file = open_attribute(root, address, attribute);

	if (!file)
		return G4_ACS_UNKNOWN;
	const size_t bytes = fread(config, 1, sizeof(config), file);
	fclose(file);
	return g4_acs_of(config, bytes);
}

/* The next part of a way into `part`; what is behind it, NULL where it is the last one. */
static const char *next_part(const char *way, char part[G4_PCI_NAME_BYTES])
{
	const size_t length = strcspn(way, "/");

	snprintf(part, G4_PCI_NAME_BYTES, "%.*s", (int)g4_min64(length, G4_PCI_NAME_BYTES - 1), way);
	return way[length] == '/' ? way + length + 1 : NULL;
}

/* Of a way's ports, behind its first `skip` parts. */
static void see_redirects(const char *root, const char *way, uint32_t skip, struct g4_place_gpu *gpu)
{
	char part[G4_PCI_NAME_BYTES];

	for (uint32_t i = 0; (way = next_part(way, part)); i++) {
		const enum g4_acs acs = i < skip ? G4_ACS_NO_PORT : acs_of(root, part);
		const size_t length = strlen(gpu->redirects);
		gpu->ports_seen = gpu->ports_seen && acs != G4_ACS_UNKNOWN;
		if (acs == G4_ACS_REDIRECTS || acs == G4_ACS_ISOLATES)
			snprintf(gpu->redirects + length, sizeof(gpu->redirects) - length, "%s%s", length ? ";" : "",
				 part);
	}
}

static void see_open_port(const struct seen *seen)
{
	const char *way = seen->way;
	char part[G4_PCI_NAME_BYTES];

	while ((way = next_part(way, part)))
		if (seen->place->open_port[0] == '\0' && strncmp(part, "pci", 3) != 0) {
			const enum g4_acs acs = acs_of(seen->root, part);
			if (acs == G4_ACS_NONE || acs == G4_ACS_REDIRECTS)
				memcpy(seen->place->open_port, part, sizeof(part));
		}
}

/* ---- GPUs ---- */

static void see_bars(const char *root, struct g4_place_gpu *gpu)
{
	unsigned long long start, end, flags;
	FILE *file = open_attribute(root, gpu->name, "resource");
	char attribute[32];

	for (uint32_t i = 0; file && i < BARS && fscanf(file, "%llx %llx %llx", &start, &end, &flags) == 3; i++)
		if ((flags & MEMORY_FLAG) && end > start && end - start + 1 > gpu->bar_bytes) {
			gpu->bar_bytes = end - start + 1;
			gpu->bar = i;
		}
	if (file)
		fclose(file);
	snprintf(attribute, sizeof(attribute), "resource%u_resize", gpu->bar);
	gpu->bar_most_bytes = gpu->bar_bytes;
	const uint64_t sizes = read_hex(root, gpu->name, attribute); /* bit n: 2^n MiB */
	for (uint32_t n = 0; n < 40; n++)
		if ((sizes >> n & 1) && G4_MIB << n > gpu->bar_most_bytes) {
			gpu->bar_most_bytes = G4_MIB << n;
			gpu->bar_most = n;
		}
}

static void see_gpu(const struct seen *seen, const char *address)
{
	struct g4_place *place = seen->place;
	struct g4_place_gpu *gpu = &place->gpus[place->gpu_count];
	char way[PATH_MAX];

	if (place->gpu_count == G4_PLACE_GPUS_MOST || read_hex(seen->root, address, "class") >> 16 != DISPLAY_CLASSES ||
	    read_hex(seen->root, address, "vendor") != NVIDIA || !find_way(seen->root, address, way))
		return;
	snprintf(gpu->name, sizeof(gpu->name), "%.*s", (int)sizeof(gpu->name) - 1, address);
	const uint32_t same = same_parts(seen->way, way, gpu->common);
	gpu->way = same == 0 ? G4_PLACE_APART : same == 1 ? G4_PLACE_ROOT : G4_PLACE_SWITCH;
	gpu->ports_seen = gpu->way == G4_PLACE_SWITCH;
	if (gpu->way == G4_PLACE_SWITCH) {
		see_redirects(seen->root, seen->way, same, gpu);
		see_redirects(seen->root, way, same, gpu);
	}
	see_bars(seen->root, gpu);
	place->gpu_count++;
}

/* ---- the IOMMU ---- */

static void see_stranger(const struct seen *seen, const char *address)
{
	struct g4_place *place = seen->place;
	char path[PATH_MAX], driver[PATH_MAX];

	if (strcmp(address, place->name) == 0 || read_hex(seen->root, address, "class") >> 16 == BRIDGE_CLASSES)
		return;
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/driver", seen->root, address);
	const ssize_t length = readlink(path, driver, sizeof(driver) - 1);
	if (length < 0) /* nobody uses it */
		return;
	driver[length] = '\0';
	const char *slash = strrchr(driver, '/');
	if (strcmp(slash ? slash + 1 : driver, "vfio-pci") == 0)
		return;
	if (place->strangers++ == 0)
		snprintf(place->stranger, sizeof(place->stranger), "%.*s", (int)sizeof(place->stranger) - 1, address);
}

/* A group of VFIO's unsafe mode, which has no IOMMU. */
static bool is_made_up(const char *root, const char *address)
{
	FILE *file = open_attribute(root, address, "iommu_group/name");
	char name[64] = "";

	if (!file)
		return false;
	const bool made_up = fgets(name, sizeof(name), file) && strncmp(name, "vfio-noiommu", 12) == 0;
	fclose(file);
	return made_up;
}

/* In the order of names. Returns how many; -1: there is no such folder. */
static int each(const struct seen *seen, const char *folder, void (*see)(const struct seen *, const char *))
{
	char path[PATH_MAX];
	struct dirent **entries;
	int found = 0;

	snprintf(path, sizeof(path), "%s%s", seen->root, folder);
	const int count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.') {
			found++;
			if (see)
				see(seen, entries[i]->d_name);
		}
		free(entries[i]);
	}
	if (count < 0)
		return -1;
	free(entries);
	return found;
}

/* ---- pinning ---- */

/* A line of a file below the root; "": there is none. */
static void read_line(const char *root, const char *path, char line[256])
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s%s", root, path);
	FILE *file = fopen(name, "re");
	line[0] = '\0';
	if (!file)
		return;
	if (!fgets(line, 256, file))
		line[0] = '\0';
	fclose(file);
}

static void see_pinning(const struct seen *seen)
{
	struct g4_place *place = seen->place;
	char line[256];

	read_line(seen->root, "/sys/module/vfio_iommu_type1/parameters/disable_hugepages", line);
	place->vfio_splits = line[0] == 'Y' || line[0] == '1';
	read_line(seen->root, "/sys/kernel/mm/transparent_hugepage/enabled", line);
	place->small_pages = place->vfio_splits || strstr(line, "[never]");
	read_line(seen->root, "/sys/module/vfio_iommu_type1/parameters/dma_entry_limit", line);
	place->pieces = strtoull(line, NULL, 10);
}

uint64_t g4_place_locked_bytes(void)
{
	struct rlimit limit;

	if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

bool g4_place_look(const char *root, const char *address, uint64_t locked_bytes, struct g4_place *place)
{
	struct seen seen = {.root = root, .place = place};
	char folder[PATH_MAX];

	memset(place, 0, sizeof(*place));
	snprintf(place->name, sizeof(place->name), "%.*s", (int)sizeof(place->name) - 1, address);
	place->locked_bytes = locked_bytes;
	place->locked_wanted_bytes = LOCKED_WANTED_BYTES;
	if (!find_way(root, address, seen.way))
		return false;
	place->iommu = each(&seen, "/sys/class/iommu", NULL) > 0;
	snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s/iommu_group/devices", address);
	place->grouped = each(&seen, folder, see_stranger) >= 0 && !is_made_up(root, address);
	see_open_port(&seen);
	see_pinning(&seen);
	each(&seen, "/sys/bus/pci/devices", see_gpu);
	return true;
}

/* ---- remedies ---- */

static bool say_iommu(const struct g4_place *place, char text[G4_PLACE_REMEDY_BYTES])
{
	if (!place->iommu && !place->grouped)
		snprintf(
			text, G4_PLACE_REMEDY_BYTES,
			"the kernel uses no IOMMU: turn VT-d or AMD-Vi on in the firmware, and put intel_iommu=on on the "
			"kernel's command line (AMD's is on by itself)");
	else if (!place->grouped)
		snprintf(text, G4_PLACE_REMEDY_BYTES,
			 "the kernel has an IOMMU and does not use it for %s: another slot may be behind it, or "
			 "iommu=pt and intel_iommu=on on the kernel's command line may help",
			 place->name);
	else
		return false;
	return true;
}

static bool say_strangers(const struct g4_place *place, char text[G4_PLACE_REMEDY_BYTES])
{
	if (place->strangers == 0)
		return false;
	snprintf(
		text, G4_PLACE_REMEDY_BYTES,
		"the IOMMU can not tell it from %s%s, which the kernel uses: give these to vfio-pci too, or put the drive "
		"into another slot%s%s%s",
		place->stranger, place->strangers > 1 ? " and others" : "", place->open_port[0] ? "; port " : "",
		place->open_port,
		place->open_port[0] ? " on its way does not keep apart what is below it (ACS is missing or off: the "
				      "firmware may have a switch)" :
				      "");
	return true;
}

static bool say_locked(const struct g4_place *place, char text[G4_PLACE_REMEDY_BYTES])
{
	if (place->locked_bytes >= place->locked_wanted_bytes)
		return false;
	snprintf(text, G4_PLACE_REMEDY_BYTES,
		 "you may lock %" PRIu64 " KiB of memory, and queues and cache want %" PRIu64
		 " MiB and more: ulimit -l, or LimitMEMLOCK= of a systemd unit",
		 place->locked_bytes / G4_KIB, place->locked_wanted_bytes / G4_MIB);
	return true;
}

static bool say_pinning(const struct g4_place *place, char text[G4_PLACE_REMEDY_BYTES])
{
	if (!place->small_pages)
		return false;
	snprintf(text, G4_PLACE_REMEDY_BYTES,
		 "memory is pinned by pages of 4 KiB, and not of 2 MiB, which takes the IOMMU longer to look up: %s",
		 place->vfio_splits ? "load vfio_iommu_type1 without disable_hugepages=1" :
				      "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
	return true;
}

static bool say_pieces(const struct g4_place *place, char text[G4_PLACE_REMEDY_BYTES])
{
	if (place->pieces == 0 || place->pieces >= PIECES_WANTED)
		return false;
	snprintf(text, G4_PLACE_REMEDY_BYTES,
		 "VFIO maps %" PRIu64 " pieces of memory for a program, %" PRIu64
		 " MiB in all, and what is beyond them is copied: load vfio_iommu_type1 with dma_entry_limit=65535",
		 place->pieces, place->pieces * (PIECE_BYTES / G4_MIB));
	return true;
}

/* Of a switch alone: without one they are a root complex's ports, and all goes there. */
static bool say_redirects(const struct g4_place_gpu *gpu, char text[G4_PLACE_REMEDY_BYTES])
{
	if (gpu->redirects[0] == '\0')
		return false;
	snprintf(
		text, G4_PLACE_REMEDY_BYTES,
		"what it and GPU %s exchange passes the root complex, though they have a switch (ACS of its ports): "
		"pci=disable_acs_redir=%s on the kernel's command line keeps it below; they are one IOMMU group then, so "
		"only where both are trusted",
		gpu->name, gpu->redirects);
	return true;
}

static bool say_bar(const struct g4_place_gpu *gpu, char text[G4_PLACE_REMEDY_BYTES])
{
	if (gpu->bar_bytes == 0 || (gpu->bar_most_bytes == gpu->bar_bytes && gpu->bar_bytes >= BAR_WANTED_BYTES))
		return false;
	if (gpu->bar_most_bytes > gpu->bar_bytes)
		snprintf(
			text, G4_PLACE_REMEDY_BYTES,
			"of the memory of GPU %s PCI reaches %" PRIu64 " MiB, and could reach %" PRIu64
			": turn on Resizable BAR (and decoding above 4G) in the firmware, or, while no driver has the GPU, "
			"write %u to its resource%u_resize",
			gpu->name, gpu->bar_bytes / G4_MIB, gpu->bar_most_bytes / G4_MIB, gpu->bar_most, gpu->bar);
	else
		snprintf(text, G4_PLACE_REMEDY_BYTES,
			 "of the memory of GPU %s PCI reaches %" PRIu64
			 " MiB, which can not be changed while it runs: if the "
			 "firmware has Resizable BAR, turn it on; if not, data has to pass the host's memory",
			 gpu->name, gpu->bar_bytes / G4_MIB);
	return true;
}

static bool say_way(const struct g4_place_gpu *gpu, char text[G4_PLACE_REMEDY_BYTES])
{
	if (gpu->way != G4_PLACE_APART)
		return false;
	snprintf(
		text, G4_PLACE_REMEDY_BYTES,
		"it is not below the root complex of GPU %s: what they exchange passes the link between processors; a slot of "
		"the GPU's processor, or of its switch, is nearer",
		gpu->name);
	return true;
}

bool g4_place_remedy(const struct g4_place *place, uint32_t index, char text[G4_PLACE_REMEDY_BYTES])
{
	bool (*const of_drive[])(const struct g4_place *, char *) = {say_iommu, say_strangers, say_locked, say_pinning,
								     say_pieces};

	for (uint32_t i = 0; i < sizeof(of_drive) / sizeof(of_drive[0]); i++)
		if (of_drive[i](place, text) && index-- == 0)
			return true;
	for (uint32_t i = 0; i < place->gpu_count; i++) {
		if (say_bar(&place->gpus[i], text) && index-- == 0)
			return true;
		if (say_way(&place->gpus[i], text) && index-- == 0)
			return true;
		if (say_redirects(&place->gpus[i], text) && index-- == 0)
			return true;
	}
	return false;
}

/* Only one GPU is left, if there is such a one. */
static void keep_gpu(struct g4_place *place, const char *gpu)
{
	for (uint32_t i = 0; i < place->gpu_count; i++) {
		if (strcasecmp(place->gpus[i].name, gpu) != 0)
			continue;
		place->gpus[0] = place->gpus[i];
		place->gpu_count = 1;
	}
}

uint32_t g4_place_say(const char *root, const char *name, const char *address, const char *gpu, uint64_t locked_bytes)
{
	char text[G4_PLACE_REMEDY_BYTES];
	struct g4_place place;
	uint32_t count = 0;

	if (!g4_place_look(root, address, locked_bytes, &place))
		return 0;
	place.locked_wanted_bytes += LANES_WANTED_BYTES;
	keep_gpu(&place, gpu);
	for (; g4_place_remedy(&place, count, text); count++)
		g4_log(G4_LOG_WARN, "%s: %s", name, text);
	return count;
}
