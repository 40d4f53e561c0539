/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe controllers in sysfs (pci_host.h). A device is given to another driver by naming that one in driver_override, taking it from
 * the one it has and letting the kernel look again. Nothing is kept anywhere else: a program gives it back without knowing which one
 * took it, or whether that one is still alive.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "dev/nvme/pci_host.h"

#define DEVICES "/sys/bus/pci/devices"
#define BUSY_TRIES 500u /* a process that has ended keeps its group until the controller is reset */
#define BUSY_PAUSE_NS 10000000
#define BRIDGE_CLASSES 0x06u /* of class_code >> 16 */

/* "/NUMBER", which is not 0. False: it is something else. */
static bool take_number(const char **text, uint32_t *number)
{
	char *end;

	if (**text != '/' || !isdigit((unsigned char)(*text)[1]))
		return false;
	const unsigned long value = strtoul(*text + 1, &end, 10);
	*text = end;
	*number = (uint32_t)value;
	return value > 0 && value < UINT32_MAX;
}

bool g4_pci_parse(const char *text, char name[G4_PCI_NAME_BYTES], uint32_t *nsid, uint32_t *partition)
{
	unsigned int domain = 0, bus, slot, function;
	int used = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) != 4) {
		domain = 0;
		used = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) != 3)
			return false;
	}
	if (slot > 31 || function > 7)
		return false;
	snprintf(name, G4_PCI_NAME_BYTES, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff, slot, function);
	text += used;
	if (nsid)
		*nsid = 1;
	if (partition)
		*partition = 0;
	if (*text != '\0' && (!nsid || !take_number(&text, nsid)))
		return false;
	return *text == '\0' || (partition && take_number(&text, partition) && *text == '\0');
}

static bool read_number(const char *name, const char *attribute, uint32_t *value)
{
	char path[PATH_MAX];
	unsigned int number;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", name, attribute);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	const bool read = fscanf(file, "%x", &number) == 1;
	fclose(file);
	*value = read ? number : 0;
	return read;
}

static bool attribute_is(const char *name, const char *attribute, const char *text)
{
	char path[PATH_MAX], found[64] = "";

	snprintf(path, sizeof(path), DEVICES "/%s/%s", name, attribute);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	const bool same = fgets(found, sizeof(found), file) && strncmp(found, text, strlen(text)) == 0;
	fclose(file);
	return same;
}

/* The last part of where a link leads to. */
static bool read_link(const char *name, const char *attribute, char *text, size_t bytes)
{
	char path[PATH_MAX], target[PATH_MAX];

	snprintf(path, sizeof(path), DEVICES "/%s/%s", name, attribute);
	const ssize_t length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	const char *slash = strrchr(target, '/');
	snprintf(text, bytes, "%.*s", (int)bytes - 1, slash ? slash + 1 : target);
	return true;
}

static bool look_at(const char *name, struct g4_pci *pci)
{
	char group[32];

	memset(pci, 0, sizeof(*pci));
	snprintf(pci->name, sizeof(pci->name), "%.*s", (int)sizeof(pci->name) - 1, name);
	if (!read_number(name, "class", &pci->class_code))
		return false;
	read_number(name, "vendor", &pci->vendor);
	read_number(name, "device", &pci->device);
	read_link(name, "driver", pci->driver, sizeof(pci->driver));
	pci->group = read_link(name, "iommu_group", group, sizeof(group)) ? (uint32_t)strtoul(group, NULL, 10) :
									    G4_PCI_NO_GROUP;
	pci->unsafe = attribute_is(name, "iommu_group/name", "vfio-noiommu");
	return true;
}

int g4_pci_find(const char *name, const char *address, struct g4_pci *pci, struct g4_dev_message message)
{
	if (!look_at(address, pci))
		return g4_dev_fail(message, -G4_E_NOENT, "%s: there is no such PCI device ('gpu4fs nvme list')", name);
	if (pci->class_code != G4_PCI_NVME_CLASS)
		return g4_dev_fail(message, -G4_E_DEV_NAME, "%s: is no NVMe controller (its class is %06x)", name,
				   pci->class_code);
	return 0;
}

uint32_t g4_pci_list(struct g4_pci *to, uint32_t room)
{
	struct dirent **entries;
	const int count = scandir(DEVICES, &entries, NULL, alphasort);
	uint32_t found = 0;

	for (int i = 0; i < count; i++) {
		struct g4_pci pci;
		if (look_at(entries[i]->d_name, &pci) && pci.class_code == G4_PCI_NVME_CLASS) {
			if (found < room)
				to[found] = pci;
			found++;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return found;
}

void g4_pci_others(const struct g4_pci *pci, char *text, size_t bytes)
{
	char path[PATH_MAX];
	size_t used = 0;

	text[0] = '\0';
	snprintf(path, sizeof(path), DEVICES "/%s/iommu_group/devices", pci->name);
	DIR *dir = opendir(path);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir)) && used < bytes;) {
		struct g4_pci other;
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, pci->name) == 0 ||
		    !look_at(entry->d_name, &other) || other.class_code >> 16 == BRIDGE_CLASSES ||
		    other.driver[0] == '\0' || strcmp(other.driver, "vfio-pci") == 0)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, "%s%s (%s)", used ? " " : "", other.name,
					 other.driver);
	}
	closedir(dir);
}

bool g4_pci_block(const struct g4_pci *pci, uint32_t index, char *name, size_t bytes)
{
	char path[PATH_MAX];
	struct dirent **controllers, **namespaces;
	bool found = false;

	snprintf(path, sizeof(path), DEVICES "/%s/nvme", pci->name);
	const int count = scandir(path, &controllers, NULL, alphasort);
	for (int c = 0; c < count; c++) {
		char below[PATH_MAX + 300];
		snprintf(below, sizeof(below), "%s/%s", path, controllers[c]->d_name);
		const int disks = controllers[c]->d_name[0] == '.' ? -1 : scandir(below, &namespaces, NULL, alphasort);
		for (int n = 0; n < disks; n++) {
			char node[300];
			snprintf(node, sizeof(node), "/sys/block/%s", namespaces[n]->d_name);
			if (!found && strncmp(namespaces[n]->d_name, "nvme", 4) == 0 && access(node, F_OK) == 0 &&
			    index-- == 0) {
				unsigned int subsystem, path_number,
					head; /* a path of a multipath disk, which is nvmeSnH */
				if (sscanf(namespaces[n]->d_name, "nvme%uc%un%u", &subsystem, &path_number, &head) == 3)
					snprintf(name, bytes, "nvme%un%u", subsystem, head);
				else
					snprintf(name, bytes, "%.*s", (int)bytes - 1, namespaces[n]->d_name);
				found = true;
			}
			free(namespaces[n]);
		}
		if (disks >= 0)
			free(namespaces);
		free(controllers[c]);
	}
	if (count >= 0)
		free(controllers);
	return found;
}

/* 0 or an errno. */
static int write_text(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	int code = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		code = errno;
	close(fd);
	return code;
}

static int refused(const struct g4_pci *pci, const char *what, int error, struct g4_dev_message message)
{
	errno = error;
	return g4_dev_fail(message, error == EACCES || error == EPERM ? -G4_E_ACCES : -G4_E_DEV_OPEN, "%s: %s: %m",
			   pci->name, what);
}

int g4_pci_open_group(const struct g4_pci *pci, char path[G4_PCI_GROUP_BYTES])
{
	const struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};
	int fd = -1;

	snprintf(path, G4_PCI_GROUP_BYTES, "/dev/vfio/%s%u", pci->unsafe ? "noiommu-" : "", pci->group);
	for (uint32_t tries = 0; fd < 0 && tries < BUSY_TRIES; tries++) {
		if (tries > 0)
			nanosleep(&pause, NULL); /* ending early does no harm */
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 && errno != EBUSY)
			break;
	}
	return fd;
}

/* Whether a program has it: the kernel would have this one wait for that one to end, without a word. */
static bool in_use(const struct g4_pci *pci)
{
	char path[G4_PCI_GROUP_BYTES];
	const int fd = g4_pci_open_group(pci, path);

	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

int g4_pci_give(const struct g4_pci *pci, const char *driver, struct g4_dev_message message)
{
	char path[PATH_MAX];
	struct g4_pci now;
	int error;

	if (driver && strcmp(pci->driver, driver) == 0)
		return 0;
	if (driver && strcmp(driver, "vfio-pci") == 0 && access("/sys/bus/pci/drivers/vfio-pci", F_OK) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the kernel has no vfio-pci: modprobe vfio-pci",
				   pci->name);
	if (strcmp(pci->driver, "vfio-pci") == 0 && in_use(pci))
		return g4_dev_fail(message, -G4_E_DEV_BUSY,
				   "%s: is in use by another program, which has to let go of it first", pci->name);
	snprintf(path, sizeof(path), DEVICES "/%s/driver_override", pci->name);
	if ((error = write_text(path, driver ? driver : "\n")) != 0)
		return refused(pci, "its driver can not be chosen", error, message);
	snprintf(path, sizeof(path), DEVICES "/%s/driver/unbind", pci->name);
	if (pci->driver[0] != '\0' && (error = write_text(path, pci->name)) != 0) {
		snprintf(path, sizeof(path), DEVICES "/%s/driver_override", pci->name);
		write_text(path, "\n"); /* it is not to go there one day because of this */
		return refused(pci, "its driver does not let go of it", error, message);
	}
	error = write_text("/sys/bus/pci/drivers_probe", pci->name);
	if (!look_at(pci->name, &now) || now.driver[0] == '\0' || (driver && strcmp(now.driver, driver) != 0)) {
		errno = error;
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: %s does not take it%s%s", pci->name,
				   driver ? driver : "no driver of the kernel", error ? ": " : "",
				   error ? strerror(error) : "");
	}
	return 0;
}
