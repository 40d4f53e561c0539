/* SPDX-License-Identifier: Apache-2.0 */
/* Taking drives from the kernel (take_host.h). */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/probe_host.h"
#include "fs/take_host.h"

#define NODE_BYTES 300u
#define NVME "nvme:"

static bool has_partitions(const char *disk)
{
	char path[NODE_BYTES], below[2 * NODE_BYTES];
	bool found = false;

	snprintf(path, sizeof(path), "/sys/block/%s", disk);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
		snprintf(below, sizeof(below), "%s/%s/partition", path, entry->d_name);
		found = access(below, F_OK) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The kernel's disks of a drive. Nobody can mount one, or a part of it, while it is claimed. */
struct disks {
	struct g4_dev **claimed;
	uint32_t count;
};

/* False: no memory. `dev` is NULL where a disk can not be opened, and so be used by nobody else that could be told. */
static bool add_disk(struct disks *disks, struct g4_dev *dev)
{
	struct g4_dev **more = realloc(disks->claimed, (disks->count + 1) * sizeof(struct g4_dev *));

	if (!more) {
		g4_dev_close(dev);
		return false;
	}
	disks->claimed = more;
	disks->claimed[disks->count++] = dev;
	return true;
}

static void release(struct disks *disks)
{
	for (uint32_t i = 0; i < disks->count; i++)
		g4_dev_close(disks->claimed[i]);
	free(disks->claimed);
}

/* Claims a disk, where it may be taken. */
static int claim_disk(const struct g4_pci *pci, const char *disk, enum g4_take which, struct disks *disks,
		      struct g4_dev_message message)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY | G4_DEV_EXCLUSIVE, .queues = 1};
	char node[NODE_BYTES], use[512], why[512];
	struct g4_dev *dev = NULL;

	snprintf(node, sizeof(node), "/dev/%s", disk);
	if (access(node, F_OK) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: there is no %s to see whether it is in use", pci->name,
				   node);
	if (g4_probe_in_use(node, use, sizeof(use)))
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: %s is %s", pci->name, node, use);
	const int rc = g4_dev_open(node, &open, &dev, why, sizeof(why));
	if (rc == -G4_E_DEV_BUSY)
		return g4_dev_fail(message, rc, "%s: %s", pci->name, why);
	if (rc < 0)
		dev = NULL;
	if (!add_disk(disks, dev))
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", pci->name);
	if (which == G4_TAKE_ANY)
		return 0;
	const char *what = has_partitions(disk) ? "partitions" : dev ? g4_probe_foreign(dev) : "what can not be read";
	return what ? g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: %s holds %s; --force takes it nevertheless", pci->name,
				  node, what) :
		      0;
}

int g4_take_drive(const struct g4_pci *pci, enum g4_take which, struct g4_dev_message message)
{
	struct disks disks = {0};
	char disk[256];
	int rc = 0;

	for (uint32_t n = 0; rc == 0 && g4_pci_block(pci, n, disk, sizeof(disk)); n++)
		rc = claim_disk(pci, disk, which, &disks, message);
	if (rc < 0) {
		release(&disks);
		return rc;
	}
	rc = g4_pci_give(pci, "vfio-pci", message);
	release(&disks); /* of the kernel's disks, which are gone now */
	struct g4_pci now;
	if (rc < 0 && g4_pci_find(pci->name, pci->name, &now, (struct g4_dev_message){0}) == 0 && now.driver[0] == '\0')
		g4_pci_give(&now, NULL, (struct g4_dev_message){0}); /* VFIO does not take it: nobody has it */
	return rc;
}

/* Where there is no IOMMU, and VFIO's unsafe mode is off, it takes none. */
static bool vfio_takes(const struct g4_pci *pci)
{
	char text[2] = "";
	FILE *file = pci->group == G4_PCI_NO_GROUP ?
			     fopen("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "re") :
			     NULL;

	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return pci->group != G4_PCI_NO_GROUP || text[0] == 'Y';
}

/* One that the kernel's driver has, and that can be used without it; another one is for who opens it to complain of. */
static int take_one(const char *name, struct g4_taken *taken, struct g4_dev_message message)
{
	char address[G4_PCI_NAME_BYTES];
	struct g4_pci pci;
	uint32_t nsid, partition;

	if (strncmp(name, NVME, strlen(NVME)) != 0 || !g4_pci_parse(name + strlen(NVME), address, &nsid, &partition) ||
	    g4_pci_find(name, address, &pci, (struct g4_dev_message){0}) < 0 || strcmp(pci.driver, "nvme") != 0 ||
	    !vfio_takes(&pci))
		return 0;
	const int rc = g4_take_drive(&pci, G4_TAKE_ANY, message);
	if (rc == 0)
		memcpy(taken->names[taken->count++], pci.name, sizeof(pci.name));
	return rc;
}

int g4_take_drives(const char *name, struct g4_taken *taken, struct g4_dev_message message)
{
	char **names = NULL;
	uint32_t count = 0;
	int rc = 0;

	if (g4_set_names(name, &names, &count) < 0)
		return 0; /* nor can it be opened */
	for (uint32_t i = 0; i < count && rc == 0 && taken->count < G4_MAX_DISKS + G4_MAX_SPARES; i++)
		rc = take_one(names[i], taken, message);
	free(names);
	if (rc < 0)
		g4_give_back(taken);
	return rc;
}

void g4_give_back(struct g4_taken *taken)
{
	char text[512];
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};

	for (uint32_t i = 0; i < taken->count; i++) {
		const char *name = taken->names[i];
		struct g4_pci now; /* it may have been removed, or somebody else has given it back */
		if (g4_pci_find(name, name, &now, message) == 0 && strcmp(now.driver, "vfio-pci") == 0 &&
		    g4_pci_give(&now, NULL, message) < 0)
			g4_log(G4_LOG_WARN, "%s; 'gpu4fs nvme unbind %s' gives it back", text, name);
	}
	taken->count = 0;
}
