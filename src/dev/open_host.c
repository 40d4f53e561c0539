/* SPDX-License-Identifier: Apache-2.0 */
/* Device names, opening by kind, and what is done with any open device. */
#define _GNU_SOURCE 1

#include <stdio.h>
#include <stdlib.h>

#include "base/units_host.h"
#include "dev/dev_ops_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/pci_host.h"

#define LANE_QUEUES 8u /* of an emulated controller, for lanes, unless it is to be as a drive is */

/* The text after `prefix`, or NULL when the name does not start with it. */
static const char *after(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);
	return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static int open_mem(const char *name, const char *size, const struct g4_dev_open_options *options, struct g4_dev **out,
		    struct g4_dev_message message)
{
	uint64_t bytes = 0;
	int code = g4_parse_size(size, &bytes);
	if (code == -G4_E_INVAL)
		return g4_dev_fail(message, -G4_E_DEV_NAME, "%s: mem: takes a size such as 512M or 4G", name);
	if (code != 0 || bytes > INT64_MAX / 2)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: there is no room for this much memory", name);
	if (bytes & (G4_PAGE_BYTES - 1))
		return g4_dev_fail(message, -G4_E_DEV_NAME, "%s: the size is not a multiple of 4096 bytes", name);
	if (bytes == 0)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: is too small (0 bytes)", name);
	return g4_mem_open(name, bytes, options, out, message);
}

#define DRIVE "drive:"
#define PARTITION "part="

struct emulated {
	const char *inner; /* the device's name behind "drive:" and "part=NUMBER:"; NULL: the number is none */
	bool drive;
	uint32_t partition;
};

static struct emulated parse_emulated(const char *rest)
{
	const char *behind = after(rest, DRIVE);
	struct emulated parsed = {.inner = behind ? behind : rest, .drive = behind != NULL};
	const char *number = after(parsed.inner, PARTITION);
	char *end;

	if (!number || !strchr(number, ':'))
		return parsed;
	const unsigned long value = strtoul(number, &end, 10);
	parsed.partition = (uint32_t)value;
	parsed.inner =
		*number >= '0' && *number <= '9' && *end == ':' && value > 0 && value < UINT32_MAX ? end + 1 : NULL;
	return parsed;
}

/* A controller that a thread of this process plays, over another device. */
static int open_emulated(const char *name, const char *rest, const struct g4_dev_open_options *options,
			 struct g4_dev **out, struct g4_dev_message message)
{
	const struct emulated parsed = parse_emulated(rest);
	const char *const inner = parsed.inner;
	const struct g4_emu_options emulated = {.drive = parsed.drive};
	struct g4_nvme_options own_options = {.lanes = options->lane_queues || parsed.drive ? options->lane_queues :
											      LANE_QUEUES,
					      .partition = parsed.partition};
	struct g4_dev_open_options own = *options;
	struct g4_dev *medium;

	if (!inner || *inner == '\0' || after(inner, "emu:"))
		return g4_dev_fail(
			message, -G4_E_DEV_NAME,
			"%s: emu: takes the name of another device, behind drive: if it is to be as a drive is, and "
			"part=NUMBER: if it is a partition",
			name);
	own.flags |= G4_DEV_SYNCHRONOUS;
	char sentence[512] = "";
	const int code = g4_dev_open(inner, &own, &medium, sentence, sizeof(sentence));
	if (code != 0) /* it begins with the inner name */
		return g4_dev_fail(message, code, "%.*s%s", (int)(inner - name), name, sentence);
	return g4_nvme_emu_device_open(name, medium, &emulated, &own_options, out, NULL, message);
}

/* "FILE:" and the name of another device: where the trace's file ends; NULL when there is none. */
static const char *traced_device(const char *rest)
{
	const char *colon = strchr(rest, ':');

	return colon && colon > rest && colon[1] ? colon + 1 : NULL;
}

/* Who only reads it leaves no trace: that is how a device is looked at that somebody else uses, and traces. */
static int open_traced(const char *name, const char *rest, const struct g4_dev_open_options *options,
		       struct g4_dev **out, struct g4_dev_message message)
{
	const char *inner_name = traced_device(rest);
	char sentence[512] = "";
	struct g4_dev *inner;

	if (!inner_name || after(inner_name, "trace:"))
		return g4_dev_fail(message, -G4_E_DEV_NAME,
				   "%s: trace: takes a file and another device: trace:FILE:DEVICE", name);
	const int code = g4_dev_open(inner_name, options, &inner, sentence, sizeof(sentence));
	if (code != 0) /* it begins with the inner name */
		return g4_dev_fail(message, code, "%.*s%s", (int)(inner_name - name), name, sentence);
	if (options->flags & G4_DEV_READ_ONLY) {
		*out = inner;
		return 0;
	}
	char *path = strndup(rest, (size_t)(inner_name - rest) - 1);
	const int rc = path ? g4_traced_open(name, inner, path, out, message) : -G4_E_NOMEM;
	free(path);
	return rc;
}

/* A drive's controller, without the kernel's driver. */
static int open_nvme(const char *name, const char *address, const struct g4_dev_open_options *options,
		     struct g4_dev **out, struct g4_dev_message message)
{
	char pci[G4_PCI_NAME_BYTES];
	struct g4_nvme_where where;

	if (!g4_pci_parse(address, pci, &where.nsid, &where.partition))
		return g4_dev_fail(message, -G4_E_DEV_NAME,
				   "%s: nvme: takes a PCI address, a namespace's number if it is not 1, and a "
				   "partition's behind that: nvme:0000:03:00.0/2, nvme:0000:03:00.0/1/3",
				   name);
	return g4_nvme_drive_open(name, pci, &where, options, NULL, out, message);
}

/* The name of the device that a tracing one wraps, or the name itself. */
static const char *without_trace(const char *name)
{
	const char *rest = after(name, "trace:"), *inner = rest ? traced_device(rest) : NULL;

	return inner ? inner : name;
}

bool g4_dev_has_path(const char *name)
{
	name = without_trace(name);
	return !after(name, "mem:") && !after(name, "nvme:");
}

const char *g4_dev_path(const char *name)
{
	static const char *const kinds[] = {"emu:", "dax:"};

	name = without_trace(name);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *rest = after(name, kinds[i]);
		const char *inner = rest && i == 0 ? parse_emulated(rest).inner : NULL;
		name = inner ? inner : rest ? rest : name;
	}
	return name;
}

static int open_kind(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out,
		     struct g4_dev_message sentence)
{
	const char *rest;

	if ((rest = after(name, "mem:")))
		return open_mem(name, rest, options, out, sentence);
	if ((rest = after(name, "dax:"))) {
		if (*rest == '\0')
			return g4_dev_fail(sentence, -G4_E_DEV_NAME, "%s: dax: takes the path of a file", name);
		return g4_dax_open(name, rest, options, out, sentence);
	}
	if ((rest = after(name, "emu:")))
		return open_emulated(name, rest, options, out, sentence);
	if ((rest = after(name, "trace:")))
		return open_traced(name, rest, options, out, sentence);
	if ((rest = after(name, "nvme:")))
		return open_nvme(name, rest, options, out, sentence);
	if (*name == '\0')
		return g4_dev_fail(sentence, -G4_E_DEV_NAME, "the device name is empty");
	return g4_queued_open(name, options, out, sentence);
}

int g4_dev_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		size_t message_bytes)
{
	static const struct g4_dev_open_options defaults;
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};

	*out = NULL;
	int rc = open_kind(name, options ? options : &defaults, out, sentence);
	if (rc == 0)
		snprintf((*out)->name, sizeof((*out)->name), "%s", name);
	return rc;
}

const char *g4_dev_name(const struct g4_dev *dev)
{
	return dev->name[0] ? dev->name : "the device";
}

int g4_dev_set_size(struct g4_dev *dev, uint64_t bytes)
{
	if (!dev->ops->set_size)
		return bytes <= dev->props.size_bytes ? 0 : -G4_E_NOTSUP;
	return dev->ops->set_size(dev, bytes);
}

void g4_dev_close(struct g4_dev *dev)
{
	if (dev)
		dev->ops->close(dev);
}
