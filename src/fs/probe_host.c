/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on a device already. Magic numbers are those of util-linux' libblkid (libblkid/src/superblocks) and of the
 * formats' own documentation.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "fs/mkfs_host.h"
#include "simt/simt_host.h"

#define HEAD_BYTES (256 * G4_KIB)
#define TAIL_BYTES (128 * G4_KIB)

struct magic {
	const char *name;
	uint32_t offset;
	uint32_t bytes;
	const char *magic;
};

static const struct magic head_magics[] = {
	{"gpu4fs", 4096 + 32, 8, "!GPU4FS1"},
	{"XFS", 0, 4, "XFSB"},
	{"btrfs", 65536 + 64, 8, "_BHRfS_M"},
	{"LUKS", 0, 6, "LUKS\xba\xbe"},
	{"LUKS", 16384, 6, "SKUL\xba\xbe"},
	{"a Linux RAID (MD) member", 0, 4, "\xfc\x4e\x2b\xa9"},
	{"a Linux RAID (MD) member", 4096, 4, "\xfc\x4e\x2b\xa9"},
	{"swap space", 4096 - 10, 10, "SWAPSPACE2"},
	{"swap space", 4096 - 10, 10, "SWAP-SPACE"},
	{"swap space", 16384 - 10, 10, "SWAPSPACE2"},
	{"swap space", 65536 - 10, 10, "SWAPSPACE2"},
	{"ISO 9660", 32768 + 1, 5, "CD001"},
	{"UDF", 32768 + 1, 5, "BEA01"},
	{"NTFS", 3, 8, "NTFS    "},
	{"exFAT", 3, 8, "EXFAT   "},
	{"FAT", 82, 5, "FAT32"},
	{"FAT", 54, 5, "FAT16"},
	{"FAT", 54, 5, "FAT12"},
	{"F2FS", 1024, 4, "\x10\x20\xf5\xf2"},
	{"EROFS", 1024, 4, "\xe2\xe1\xf5\xe0"},
	{"SquashFS", 0, 4, "hsqs"},
	{"ReiserFS", 65536 + 52, 8, "ReIsErFs"},
	{"ReiserFS", 65536 + 52, 9, "ReIsEr2Fs"},
	{"ReiserFS", 65536 + 52, 9, "ReIsEr3Fs"},
	{"bcachefs or bcache", 4096 + 24, 16, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"bcachefs", 4096 + 24, 16, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
	{"a GPT partition table", 512, 8, "EFI PART"},
	{"a GPT partition table", 4096, 8, "EFI PART"},
};

struct span { /* a part of the device in memory */
	const uint8_t *data;
	uint64_t start;
	uint64_t bytes;
};

static bool has(const struct span *span, uint64_t address, const void *magic, uint64_t bytes)
{
	if (address < span->start || address - span->start > span->bytes ||
	    bytes > span->bytes - (address - span->start))
		return false;
	return memcmp(span->data + (address - span->start), magic, bytes) == 0;
}

static uint32_t le32(const struct span *span, uint64_t address)
{
	uint32_t value;

	memcpy(&value, span->data + (address - span->start), sizeof(value));
	return value;
}

static const char *find_ext(const struct span *head)
{
	const uint64_t sb = 1024;
	const uint32_t has_journal = 0x4, newer_incompat = 0x40 | 0x80 | 0x200; /* extents, 64bit, flex_bg */

	if (!has(head, sb + 56, "\x53\xef", 2))
		return NULL;
	if ((le32(head, sb + 96) & newer_incompat) != 0)
		return "ext4";
	return (le32(head, sb + 92) & has_journal) != 0 ? "ext3" : "ext2";
}

static const char *find_lvm(const struct span *head)
{
	for (uint64_t sector = 0; sector < 4; sector++) {
		if (has(head, sector * 512, "LABELONE", 8) && has(head, sector * 512 + 24, "LVM2 001", 8))
			return "an LVM2 physical volume";
	}
	return NULL;
}

/* The uberblock array is the second half of the first 256 KiB label, in either byte order. */
static const char *find_zfs(const struct span *head)
{
	for (uint64_t at = 128 * G4_KIB; at < 256 * G4_KIB; at += 1024) {
		if (has(head, at, "\x0c\xb1\xba\0\0\0\0\0", 8) || has(head, at, "\0\0\0\0\0\xba\xb1\x0c", 8))
			return "ZFS";
	}
	return NULL;
}

/* A boot signature alone proves nothing; the four entries must look like entries, and one must be in use. */
static const char *find_mbr(const struct span *head)
{
	bool any = false;

	if (!has(head, 510, "\x55\xaa", 2))
		return NULL;
	for (uint32_t entry = 0; entry < 4; entry++) {
		const uint8_t *bytes = head->data + 446 + entry * 16;
		if (bytes[0] != 0 && bytes[0] != 0x80)
			return NULL;
		any = any || bytes[4] != 0;
	}
	return any ? "an MBR partition table" : NULL;
}

static const char *find_at_end(const struct span *tail, uint64_t size_bytes)
{
	const char *const md_magic = "\xfc\x4e\x2b\xa9";

	if (has(tail, g4_align_down(size_bytes, G4_PAGE_BYTES) - G4_PAGE_BYTES + 32, "!GPU4FS1", 8))
		return "gpu4fs";
	if (has(tail, g4_align_down(size_bytes, 65536) - 65536, md_magic, 4)) /* version 0.90 */
		return "a Linux RAID (MD) member";
	if (has(tail, g4_align_down(size_bytes / 512 - 16, 8) * 512, md_magic, 4)) /* version 1.0 */
		return "a Linux RAID (MD) member";
	return NULL;
}

static const char *find_at_start(const struct span *head)
{
	const char *name = find_ext(head);

	for (size_t i = 0; name == NULL && i < sizeof(head_magics) / sizeof(head_magics[0]); i++) {
		if (has(head, head_magics[i].offset, head_magics[i].magic, head_magics[i].bytes))
			name = head_magics[i].name;
	}
	if (name == NULL)
		name = find_lvm(head);
	if (name == NULL)
		name = find_zfs(head);
	return name == NULL && head->bytes >= 512 ? find_mbr(head) : name;
}

const char *g4_probe_foreign(struct g4_dev *dev)
{
	const uint64_t size = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	const char *name = NULL;
	uint8_t *buffer = aligned_alloc(G4_PAGE_BYTES, HEAD_BYTES);
	struct g4_wg *wg = g4_wg_create(0);

	if (buffer != NULL && wg != NULL && size >= TAIL_BYTES) {
		const struct span head = {.data = buffer, .start = 0, .bytes = g4_min64(size, HEAD_BYTES)};
		if (g4_dev_read(wg, dev, 0, buffer, head.bytes) >= 0)
			name = find_at_start(&head);
		const struct span tail = {.data = buffer, .start = size - TAIL_BYTES, .bytes = TAIL_BYTES};
		if (name == NULL && g4_dev_read(wg, dev, tail.start, buffer, tail.bytes) >= 0)
			name = find_at_end(&tail, size);
	}
	if (wg != NULL)
		g4_wg_destroy(wg);
	free(buffer);
	return name;
}
