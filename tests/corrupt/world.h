/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file system with one of everything, what is in it, and ways to use it that a damaged image must survive.
 * For the corruption tests and the fuzzers.
 */
#ifndef WORLD_H
#define WORLD_H

#include "engine/rig.h"
#include "fsck/fsck.h"

#define WORLD_PATH 512

struct world_file {
	char path[WORLD_PATH]; /* without the leading slash */
	uint64_t ino, size, rdev;
	uint64_t contents;   /* hash of what is not zero, or of a link's target */
	uint64_t attributes; /* hash of the extended attributes */
	uint32_t mode;
	uint32_t directory; /* index of the directory that it is in, UINT32_MAX: the root */
};

struct world_list {
	struct world_file *files;
	uint32_t count, room;
	uint32_t errors; /* operations that failed, but for the next */
	uint32_t unread; /* files whose contents do not match their sums, or whose sums say nothing: these count as 0 */
};

/*
 * SMALL has fewer names; MANY a directory so large that its index has two levels; EQUAL one whose names have one hash, in a program that
 * gives them one (engine/equal_names.h).
 */
enum world_size { WORLD_SMALL, WORLD_NORMAL, WORLD_MANY, WORLD_EQUAL };
/* Fills a fresh rig, which is mounted. */
void world_populate(struct rig *rig, enum world_size size);
/*
 * Changes some of everything, so that there are older versions of most pages. It leaves orphans: files that are open
 * and have no name. Abandon the rig, and they stay on the list.
 */
void world_change(struct rig *rig);
/* What can be reached, by the engine. Ends also on images that lead in circles. */
void world_list(struct rig *rig, struct world_list *list);
void world_list_free(struct world_list *list);
/* Lists everything, reads everything into *list, changes something. It is mounted. */
void world_visit(struct rig *rig, struct world_list *list);
/* Mounts, visits and unmounts, with an engine. True if it could be mounted. */
bool world_use(struct rig *rig, struct world_list *list);
/*
 * Mounts without an engine, that is without its threads: the same commands leave the same bytes. 0 or a negative code.
 * clean: as an unmount; else nothing more is written.
 */
int world_mount(struct rig *rig);
int world_unmount(struct rig *rig, bool clean);
/* Opens the rig over the bytes of another image. */
void world_open(struct rig *rig, const uint8_t *image, uint64_t bytes);
/* Makes it the image again, of which `pages` (addresses, ascending) are not zero. What else was written becomes a hole. */
void world_restore(struct rig *rig, const uint8_t *image, const uint64_t *pages, uint64_t count);

#endif
