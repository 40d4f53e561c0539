/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctls of a mounted gpu4fs beyond Linux's own. FUSE carries what their numbers say, in and out, and no more. Host only.
 */
#ifndef G4_FUSE_IOCTL_H
#define G4_FUSE_IOCTL_H

#include <linux/ioctl.h>

#include "fs/command.h"

/* On a file that is open for reading: its extents from `offset` on; count 0 behind the last. */
#define G4_IOC_MAP_EXTENTS 127u
struct g4_ioc_map {
	uint64_t offset;
	uint32_t count; /* out */
	uint32_t reserved0;
	uint64_t reserved[2];
	struct g4_map_extent extents[G4_IOC_MAP_EXTENTS];
};
G4_STATIC_ASSERT(sizeof(struct g4_ioc_map) == 4096, "what an ioctl carries is below 16 KiB");
#define G4_IOC_MAP _IOWR(0xb4, 1, struct g4_ioc_map)

/* On a file that is open for reading: its stored pages from `offset` on, and their sums; count 0 behind the last. */
#define G4_IOC_SUMS_PAGES 255u
struct g4_ioc_sums {
	uint64_t offset;
	uint32_t count; /* out */
	uint32_t reserved;
	struct g4_page_sum sums[G4_IOC_SUMS_PAGES];
};
G4_STATIC_ASSERT(sizeof(struct g4_ioc_sums) < 16384, "what an ioctl carries is below 16 KiB");
#define G4_IOC_SUMS _IOWR(0xb4, 4, struct g4_ioc_sums)

/*
 * On any file or directory, however it is open, for root and the user who mounted: the same of many files that the user may read, named by
 * their numbers, so that those of a tree of small ones take one way to the server. It ends early where there is no room for more sums.
 */
#define G4_IOC_SUMS_OF_FILES 128u
#define G4_IOC_SUMS_OF_PAGES 192u
struct g4_ioc_sums_file {
	uint64_t ino;
	uint64_t offset;     /* out: behind the last page that is told */
	uint64_t size;	     /* out */
	uint32_t generation; /* out */
	uint32_t count;	     /* out: of `sums`, behind those of the file before */
	int32_t status;	     /* out: 0 or a negative code */
	uint32_t more;	     /* out: not 0: there may be others behind them */
};
struct g4_ioc_sums_of {
	uint32_t files; /* out: that were asked, the first ones */
	uint32_t reserved;
	struct g4_ioc_sums_file file[G4_IOC_SUMS_OF_FILES];
	struct g4_page_sum sums[G4_IOC_SUMS_OF_PAGES];
};
G4_STATIC_ASSERT(sizeof(struct g4_ioc_sums_of) < 16384, "what an ioctl carries is below 16 KiB");
#define G4_IOC_SUMS_OF _IOWR(0xb4, 8, struct g4_ioc_sums_of)

/*
 * On any file or directory, however it is open, for root and the user who mounted: COPY_RANGE with G4_COPY_SAME for each row, one after the
 * other, so that many short ones take one way to the server. Files are named by their numbers, since the kernel does not tell the server
 * which file another descriptor stands for. As nothing but what is the same already is shared, a number that has been given to another
 * file does no harm; generations tell it, too. The server ends early behind G4_IOC_SAME_BYTES, and with G4_IOC_SAME_IDLE where another
 * command is under way.
 */
#define G4_IOC_SAME_ROWS 288u
#define G4_IOC_SAME_BYTES (UINT64_C(16) << 20)
#define G4_IOC_SAME_IDLE 1u
struct g4_ioc_same_row {
	uint64_t from, to; /* inodes */
	uint32_t from_generation, to_generation;
	uint64_t from_offset, to_offset;
	uint32_t bytes; /* out: so many are the same and shared */
	uint32_t flags; /* G4_COPY_SAME, G4_COPY_COMPARE, G4_COPY_ZEROS */
	int32_t status; /* out: 0 or a negative code */
	uint32_t reserved;
};
struct g4_ioc_same {
	uint32_t count; /* out: rows that were tried, the first ones */
	uint32_t flags; /* G4_IOC_SAME_IDLE */
	int32_t status; /* out: -G4_E_AGAIN: another command is under way; -G4_E_NOTSUP: this engine can not tell */
	uint32_t reserved;
	struct g4_ioc_same_row rows[G4_IOC_SAME_ROWS];
};
G4_STATIC_ASSERT(sizeof(struct g4_ioc_same) < 16384, "what an ioctl carries is below 16 KiB");
#define G4_IOC_SAME _IOWR(0xb4, 7, struct g4_ioc_same)

/* On a file, however it is open, for root and the user who mounted: RESTRIPE. */
struct g4_ioc_restripe {
	uint64_t offset;
	int32_t status;		  /* out: 0 or a negative code */
	uint32_t flags;		  /* G4_RESTRIPE_LOOK */
	struct g4_restriped told; /* out */
};
#define G4_IOC_RESTRIPE _IOWR(0xb4, 6, struct g4_ioc_restripe)

/* On a directory, for root and the user who mounted: another size, in whole pages; 0: all that the device has. */
struct g4_ioc_resize {
	uint64_t bytes;
	uint64_t limit; /* out: the largest possible size, where that is why it was refused */
	int32_t status; /* out: 0 or a negative code */
	uint32_t reserved;
};
#define G4_IOC_RESIZE _IOWR(0xb4, 2, struct g4_ioc_resize)

/*
 * On a directory, for root and the user who mounted: one of the commands SYNCFS, JOB_START, JOB_SET, JOB_LIST, PATH,
 * DEDUP and DISK.
 */
struct g4_ioc_job {
	uint32_t op;
	uint32_t flags, mask; /* of the command */
	int32_t status;	      /* out: 0 or a negative code */
	uint64_t node, node2; /* kind and number lie at node2 as in the command */
	uint64_t rate;	      /* DEDUP: its cookie */
	uint64_t value;	      /* out */
	union {
		struct g4_health health; /* JOB_LIST */
		char path[4096];	 /* PATH: value bytes; DISK: in a name, out value bytes, both ended by 0 */
		struct g4_dedup_counts dedup;
	};
};
#define G4_IOC_JOB _IOWR(0xb4, 3, struct g4_ioc_job)

/* The command that it stands for, with its result beside it. False: it is none of those. */
static inline bool g4_ioc_job_command(struct g4_ioc_job *job, struct g4_cmd *cmd)
{
	*cmd = (struct g4_cmd){.op = job->op, .flags = job->flags, .mask = job->mask, .node = job->node};
	cmd->node2 = job->node2;
	if (job->op == G4_CMD_SYNCFS)
		return true;
	if (job->op == G4_CMD_JOB_START || job->op == G4_CMD_JOB_SET) {
		cmd->rate = job->rate;
		return true;
	}
	if (job->op == G4_CMD_DEDUP) {
		cmd->cookie = job->rate; /* they lie at one place in the command, too */
		cmd->data = &job->dedup;
		cmd->length = sizeof(job->dedup);
		return true;
	}
	const bool in_path = job->op == G4_CMD_PATH || job->op == G4_CMD_DISK;
	cmd->data = in_path ? (void *)job->path : (void *)&job->health;
	cmd->length = in_path ? sizeof(job->path) : sizeof(job->health);
	if (job->op == G4_CMD_DISK) {
		cmd->rate = job->rate;
		cmd->name = job->path;
		cmd->name_bytes = (uint16_t)strnlen(job->path, sizeof(job->path) - 1);
	}
	return job->op == G4_CMD_JOB_LIST || in_path;
}

#endif
