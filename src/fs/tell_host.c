/* SPDX-License-Identifier: Apache-2.0 */
/* Lines in the log about damage that was met. */
#include "fs/tell_host.h"

#include <stdio.h>
#include <string.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "space/set_host.h"

#define TOLD_A_SECOND 10u
#define SECOND_NS UINT64_C(1000000000)

static void hex(char *to, const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

/* The devices that have the page: by name, and by number where a disk of a set is missing. */
static void name_devices(uint64_t disks, const struct g4_dev *dev, char *text, size_t bytes)
{
	struct g4_disk_info info;
	size_t at = 0;

	snprintf(text, bytes, "%s", g4_dev_name(dev));
	for (uint32_t d = 0; g4_set_disk(dev, d, &info) && at < bytes; d++) {
		const char *comma = at > 0 ? ", " : "";
		if (!(disks >> d & 1))
			continue;
		if (info.name)
			at += (size_t)snprintf(text + at, bytes - at, "%s%s", comma, info.name);
		else
			at += (size_t)snprintf(text + at, bytes - at, "%sdisk %u", comma, (unsigned)d);
	}
}

static void event_text(const struct g4_event *event, const struct g4_dev *dev, char *text, size_t bytes)
{
	char expected[2 * sizeof(event->expected) + 1], found[2 * sizeof(event->found) + 1], device[384];

	name_devices(event->disks, dev, device, sizeof(device));
	if (event->code == G4_E_PARITY) {
		snprintf(text, bytes, "damaged rows from 0x%llx on: %s", (unsigned long long)event->address,
			 g4_strerror(-(int)event->code));
		return;
	}
	if (event->page == G4_FINDING_METADATA) {
		snprintf(text, bytes, "damaged metadata on %s, at 0x%llx, of inode 0x%llx: %s", device,
			 (unsigned long long)event->address, (unsigned long long)event->ino,
			 g4_strerror(-(int)event->code));
		return;
	}
	if (event->code != G4_E_DATA) {
		snprintf(text, bytes, "data that can not be read: inode 0x%llx, offset %llu, on %s, at 0x%llx: %s",
			 (unsigned long long)event->ino, (unsigned long long)(event->page * G4_PAGE_BYTES), device,
			 (unsigned long long)event->address, g4_strerror(-(int)event->code));
		return;
	}
	hex(expected, event->expected, sizeof(event->expected));
	hex(found, event->found, sizeof(event->found));
	snprintf(text, bytes,
		 "damaged data: inode 0x%llx, offset %llu, on %s, at 0x%llx: %s expected %s..., found %s...",
		 (unsigned long long)event->ino, (unsigned long long)(event->page * G4_PAGE_BYTES), device,
		 (unsigned long long)event->address, g4_checksum_name(event->algorithm), expected, found);
}

/* A path is bytes that users choose: what is none of a line is not written. */
static void add_path(const char *path, char *text, size_t bytes)
{
	const char *before = "; the path is '", *behind = "'";
	size_t at = strlen(text);

	if (at + strlen(before) + 2 > bytes)
		return;
	at += (size_t)snprintf(text + at, bytes - at, "%s", before);
	for (; *path && at + 2 < bytes; path++)
		text[at++] = (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path;
	snprintf(text + at, bytes - at, "%s", behind);
}

void g4_event_text(const struct g4_event *event, const struct g4_dev *dev, const char *path, char *text, size_t bytes)
{
	event_text(event, dev, text, bytes);
	if (path)
		add_path(path, text, bytes);
}

void g4_teller_look(struct g4_teller *teller, uint64_t lost)
{
	const uint64_t now = g4_monotonic_ns();

	if (now - teller->since_ns <= SECOND_NS)
		return;
	const uint64_t more = teller->left_out + (lost - teller->lost);
	if (more > 0)
		g4_log(G4_LOG_ERROR, "%llu more damaged pages were met on %s", (unsigned long long)more,
		       g4_dev_name(teller->dev));
	teller->since_ns = now;
	teller->left_out = 0;
	teller->lost = lost;
	teller->told = 0;
}

void g4_teller_tell(struct g4_teller *teller, const struct g4_event *event, const char *path)
{
	char text[G4_LOG_LINE_BYTES];

	if (teller->told++ >= TOLD_A_SECOND) {
		teller->left_out++;
		return;
	}
	g4_event_text(event, teller->dev, path, text, sizeof(text));
	g4_log(G4_LOG_ERROR, "%s", text);
}

bool g4_teller_waits(const struct g4_teller *teller)
{
	return teller->left_out > 0;
}
