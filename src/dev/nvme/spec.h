/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an NVMe controller and its host share: registers, commands, completions and what identify answers, as far as gpu4fs
 * uses them. Source: NVM Express Base Specification 1.4 and 2.0, NVM Command Set Specification 1.0; the names are theirs.
 */
#ifndef G4_DEV_NVME_SPEC_H
#define G4_DEV_NVME_SPEC_H

#include "base/base.h"

/* ---- registers: offsets in the controller's first BAR ---- */
#define G4_NVME_CAP 0x00u /* 64 bit: what the controller can do */
#define G4_NVME_VS 0x08u  /* version: major << 16 | minor << 8 */
#define G4_NVME_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor) << 8)
#define G4_NVME_CC 0x14u   /* what the host wants */
#define G4_NVME_CSTS 0x1cu /* how the controller is */
#define G4_NVME_AQA 0x24u  /* entries of the admin queues, each less 1: completion << 16 | submission */
#define G4_NVME_ASQ 0x28u  /* 64 bit: where they are */
#define G4_NVME_ACQ 0x30u
#define G4_NVME_DOORBELLS 0x1000u /* tail of submission queue 0, head of completion queue 0, tail of 1, ... */
#define G4_NVME_GONE UINT32_MAX	  /* what registers of a device that has left the bus read */

#define G4_NVME_CAP_MQES(cap) ((uint32_t)(cap)&0xffffu)		/* most entries of a queue, less 1 */
#define G4_NVME_CAP_TO(cap) ((uint32_t)((cap) >> 24) & 0xffu)	/* 500 ms each: until CSTS.RDY follows CC.EN */
#define G4_NVME_CAP_DSTRD(cap) ((uint32_t)((cap) >> 32) & 0xfu) /* doorbells are 4 << this apart */
#define G4_NVME_CAP_NVM(cap) (((cap) >> 37) & 1u)		/* has the NVM command set */
#define G4_NVME_CAP_SETS(cap) (((cap) >> 43) & 1u) /* command sets are chosen: it answers what 2.0 has of them */
#define G4_NVME_CAP_MPSMIN(cap) ((uint32_t)((cap) >> 48) & 0xfu) /* smallest page: 4 KiB << this */

#define G4_NVME_CC_EN 1u
#define G4_NVME_CC_SHN_NORMAL (1u << 14)
#define G4_NVME_CC_SHN_MASK (3u << 14)
#define G4_NVME_CC_ENTRIES (6u << 16 | 4u << 20) /* 64 B commands, 16 B completions */

#define G4_NVME_CSTS_RDY 1u
#define G4_NVME_CSTS_CFS 2u
#define G4_NVME_CSTS_SHST_MASK (3u << 2)
#define G4_NVME_CSTS_SHST_DONE (2u << 2)

/* ---- commands ---- */
enum g4_nvme_admin_op {
	G4_NVME_CREATE_SQ = 0x01,
	G4_NVME_GET_LOG = 0x02,
	G4_NVME_CREATE_CQ = 0x05,
	G4_NVME_IDENTIFY = 0x06,
	G4_NVME_ABORT =
		0x08, /* dword 10: submission queue, identifier << 16; bit 0 of the result: it was not aborted */
	G4_NVME_SET_FEATURES = 0x09,
	G4_NVME_GET_FEATURES = 0x0a,
	G4_NVME_AWAIT_EVENT = 0x0c, /* asynchronous event request: its completion is the event */
	G4_NVME_FORMAT = 0x80	    /* never sent */
};
enum g4_nvme_op { G4_NVME_FLUSH = 0x00, G4_NVME_WRITE = 0x01, G4_NVME_READ = 0x02, G4_NVME_DSM = 0x09 };

struct g4_nvme_command {
	uint8_t opcode;
	uint8_t flags; /* bits 7-6: 0, data is described by PRPs; 1, by an SGL, whose first descriptor is in the place of both PRPs */
	g4_le16 id;
	g4_le32 nsid;
	g4_le32 dword2, dword3;
	g4_le64 metadata;
	g4_le64 prp1; /* a page of the data, the first may begin inside it */
	g4_le64 prp2; /* the second and last one, or a list of the others */
	g4_le32 dword10, dword11, dword12, dword13, dword14, dword15;
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_command) == 64, "CC.IOSQES is 6");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_command, prp1) == 24, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_command, dword10) == 40, "where the specification has it");

#define G4_NVME_RW_FUA (1u << 30)	 /* dword 12 of READ and WRITE; bits 15-0: blocks less 1 */
#define G4_NVME_DSM_DEALLOCATE (1u << 2) /* dword 11 of DSM; dword 10: ranges less 1 */
#define G4_NVME_QUEUE_CONTIGUOUS 1u	 /* dword 11 of CREATE_SQ, CREATE_CQ */
#define G4_NVME_QUEUE_INTERRUPTS 2u	 /* the same of CREATE_CQ; bits 31-16: the vector */
#define G4_NVME_FEATURE_CACHE 0x06u	 /* volatile write cache: bit 0 on */
#define G4_NVME_FEATURE_QUEUES 0x07u	 /* completion << 16 | submission, each less 1 */
#define G4_NVME_FEATURE_EVENTS 0x0bu	 /* bits 7-0: warnings of the log of health; others as `events` of IDENTIFY */
/* Host memory buffer. Dword 11: bit 0 on; 12: pages in all; 13, 14: where the pieces are listed; 15: how many */
#define G4_NVME_FEATURE_MEMORY 0x0du
#define G4_NVME_MEMORY_ON 1u
#define G4_NVME_CNS_NAMESPACE 0u
#define G4_NVME_CNS_CONTROLLER 1u
#define G4_NVME_CNS_COMMANDS 6u /* limits of a command set's commands, of the NVM command set: dword 11 is 0 */
#define G4_NVME_CNS_ACTIVE 2u	/* numbers of active namespaces above nsid, 32 bit each, in order; 0 behind the last */
/* dword 10 of GET_LOG: which log; its 4 byte words less 1 << 16 */
#define G4_NVME_LOG_ERRORS 1u
#define G4_NVME_LOG_HEALTH 2u
#define G4_NVME_LOG_FIRMWARE 3u
#define G4_NVME_LOG_SPACES 4u /* namespaces that have changed: numbers, 32 bit each */
#define G4_NVME_LOG_DWORD(log, bytes) ((uint32_t)((bytes) / sizeof(uint32_t) - 1) << 16 | (log))
#define G4_NVME_ALL_NAMESPACES 0xffffffffu
#define G4_NVME_MAX_BLOCKS 65536u /* of one READ or WRITE */

#define G4_NVME_SGL 0x40u
struct g4_nvme_sgl { /* a descriptor: of data, or of the last segment, which is an array of descriptors of data */
	g4_le64 address;
	g4_le32 bytes;
	uint8_t reserved[3];
	uint8_t type;
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_sgl) == 16, "256 of them are a page");
#define G4_NVME_SGL_DATA 0x00u
#define G4_NVME_SGL_LAST_SEGMENT 0x30u

struct g4_nvme_memory_piece { /* of the host, lent to the controller */
	g4_le64 address;      /* of a page */
	g4_le32 pages;
	g4_le32 reserved;
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_memory_piece) == 16, "the descriptor of the specification");

struct g4_nvme_range { /* of DSM */
	g4_le32 attributes;
	g4_le32 blocks;
	g4_le64 lba;
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_range) == 16, "256 of them are a page");

/* ---- completions ---- */
struct g4_nvme_completion {
	g4_le32 result;
	g4_le32 reserved;
	/* SQ head, SQ identifier << 16, command identifier << 32, phase << 48, status << 49 */
	g4_le64 end;
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_completion) == 16, "CC.IOCQES is 4");

G4_HD G4_INLINE uint32_t g4_nvme_completion_id(uint64_t end)
{
	return (uint32_t)(end >> 32) & 0xffffu;
}
G4_HD G4_INLINE uint32_t g4_nvme_completion_phase(uint64_t end)
{
	return (uint32_t)(end >> 48) & 1u;
}
/* Status: code in bits 7-0, its type in 10-8, DNR in 14; 0: success. */
G4_HD G4_INLINE uint32_t g4_nvme_completion_status(uint64_t end)
{
	return (uint32_t)(end >> 49);
}
#define G4_NVME_STATUS(type, code) ((uint32_t)(type) << 8 | (code))
#define G4_NVME_STATUS_MASK 0x7ffu
#define G4_NVME_DNR (1u << 14) /* do not retry: the same command would fail again */
#define G4_NVME_OK 0u
#define G4_NVME_BAD_OPCODE G4_NVME_STATUS(0, 0x01)
#define G4_NVME_BAD_FIELD G4_NVME_STATUS(0, 0x02)
#define G4_NVME_TRANSFER_ERROR G4_NVME_STATUS(0, 0x04)
#define G4_NVME_INTERNAL_ERROR G4_NVME_STATUS(0, 0x06)
#define G4_NVME_ABORTED G4_NVME_STATUS(0, 0x07) /* because ABORT asked for it */
#define G4_NVME_BAD_NAMESPACE G4_NVME_STATUS(0, 0x0b)
#define G4_NVME_BAD_SGL G4_NVME_STATUS(0, 0x0d)
#define G4_NVME_BAD_SGL_LENGTH G4_NVME_STATUS(0, 0x0f)
#define G4_NVME_BAD_SGL_TYPE G4_NVME_STATUS(0, 0x11)
#define G4_NVME_BAD_PRP G4_NVME_STATUS(0, 0x13)
#define G4_NVME_LBA_RANGE G4_NVME_STATUS(0, 0x80)
#define G4_NVME_CAPACITY G4_NVME_STATUS(0, 0x81)
#define G4_NVME_READ_ONLY G4_NVME_STATUS(1, 0x82)
#define G4_NVME_TOO_LARGE G4_NVME_STATUS(1, 0x83) /* more than a limit of its command allows */
#define G4_NVME_BAD_QUEUE G4_NVME_STATUS(1, 0x01)
#define G4_NVME_BAD_QUEUE_SIZE G4_NVME_STATUS(1, 0x02)
#define G4_NVME_BAD_VECTOR G4_NVME_STATUS(1, 0x08)
#define G4_NVME_WRITE_FAULT G4_NVME_STATUS(2, 0x80)
#define G4_NVME_READ_FAULT G4_NVME_STATUS(2, 0x81)

/* ---- what identify answers ---- */
struct g4_nvme_controller_data {
	g4_le16 vendor, subsystem_vendor;
	char serial[20], model[40], firmware[8];
	uint8_t skipped0[5];
	uint8_t mdts; /* most data of a command: smallest page << this; 0: no limit */
	g4_le16 controller;
	uint8_t skipped1[12];
	g4_le32 events; /* OAES, G4_NVME_HAS_...: notices that there are */
	uint8_t skipped7[163];
	uint8_t event_requests; /* AERL: how many there may be at a time, less 1 */
	uint8_t firmware_slots; /* FRMW, bits 3-1: how many there are */
	uint8_t log_attributes;
	uint8_t error_entries; /* ELPE: of the log of errors, less 1 */
	uint8_t skipped6[9];
	g4_le32 memory, memory_least; /* HMPRE, HMMIN: of the host, 4 KiB each, that it wants; 0: none */
	uint8_t skipped8[52];
	g4_le32 memory_piece_least; /* HMMINDS: 4 KiB each, that a piece of it has to have; 0: it does not matter */
	uint8_t skipped9[176];
	uint8_t sqes, cqes; /* needed entry sizes in bits 3-0, powers of two */
	g4_le16 maxcmd;
	g4_le32 namespaces;
	g4_le16 oncs; /* bit 2: DSM */
	uint8_t skipped2[3];
	uint8_t vwc;   /* bit 0: there is a volatile write cache */
	g4_le16 awun;  /* blocks less 1 that are written whole; */
	g4_le16 awupf; /* also when the power fails */
	uint8_t skipped3[2];
	g4_le16 acwu; /* the same of a fused COMPARE and WRITE */
	uint8_t skipped5[2];
	g4_le32 sgls; /* bits 1-0: 0: no SGLs, 1: any, 2: aligned to 4 bytes */
	uint8_t skipped4[3556];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_controller_data) == 4096, "a page");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, sgls) == 536, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, events) == 92, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, event_requests) == 259, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, mdts) == 77, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, error_entries) == 262, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, memory) == 272, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, memory_piece_least) == 332, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, sqes) == 512, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, oncs) == 520, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, vwc) == 525, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_controller_data, acwu) == 532, "where the specification has it");

#define G4_NVME_ONCS_DSM 4u

struct g4_nvme_format {
	g4_le16 metadata_bytes;
	uint8_t lba_shift;
	uint8_t performance; /* bits 1-0: 0 best, 3 degraded */
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_format) == 4, "an LBA format");

#define G4_NVME_FORMATS_MOST 64u
struct g4_nvme_namespace_data {
	g4_le64 blocks, capacity, used;
	uint8_t features; /* G4_NVME_FEATURES_... */
	uint8_t formats;  /* less 1 */
	uint8_t format;	  /* which of them it has: g4_nvme_format_index() */
	uint8_t skipped0[7];
	g4_le16 atomic_normal, atomic_power_fail, atomic_compare; /* NAWUN, NAWUPF, NACWU: blocks less 1 */
	g4_le16 atomic_boundary_normal; /* NABSN: blocks less 1 between boundaries of the first one; 0: there are none */
	g4_le16 atomic_offset;		/* NABO: where the first boundary is, blocks */
	g4_le16 atomic_boundary_power_fail; /* NABSPF: as NABSN, of the second one */
	g4_le16 boundary; /* NOIOB: blocks; commands that cross a multiple of it are slower. 0: none is */
	uint8_t skipped2[16];
	g4_le16 write_granularity, write_alignment;	/* NPWG, NPWA: blocks less 1 */
	g4_le16 discard_granularity, discard_alignment; /* NPDG, NPDA */
	g4_le16 optimal_write;				/* NOWS: blocks less 1 */
	uint8_t skipped3[54];
	struct g4_nvme_format format_list[G4_NVME_FORMATS_MOST];
	uint8_t skipped1[3712];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_namespace_data) == 4096, "a page");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, atomic_normal) == 34, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, atomic_offset) == 42, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, boundary) == 46, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, write_granularity) == 64, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, discard_granularity) == 68, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, optimal_write) == 72, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_namespace_data, format_list) == 128, "where the specification has it");
#define G4_NVME_FEATURES_ATOMIC 2u /* NSABP: the namespace has atomic units of its own */
#define G4_NVME_FEATURES_SIZES 16u /* OPTPERF: NPWG, NPWA, NPDG, NPDA and NOWS are there */

/* Of the NVM command set; 0: there is no limit, or none is told. */
struct g4_nvme_commands_data {
	uint8_t skipped0[3];  /* VSL, WZSL, WUSL: of commands that are never sent */
	uint8_t ranges;	      /* DMRL: of a DSM */
	g4_le32 range_blocks; /* DMRSL: in one of them */
	g4_le64 blocks;	      /* DMSL: in all of them */
	uint8_t skipped1[4080];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_commands_data) == 4096, "a page");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_commands_data, range_blocks) == 4, "where the specification has it");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_commands_data, blocks) == 8, "where the specification has it");

/* FLBAS: the index in bits 3-0, and its upper bits in 6-5, which mean nothing where there are no more than 16 formats. */
G4_INLINE uint32_t g4_nvme_format_index(const struct g4_nvme_namespace_data *data)
{
	return (data->format & 15u) | (data->formats > 15 ? (data->format & 0x60u) >> 1 : 0);
}

/* ---- asynchronous events: dword 0 of a completion: type, what << 8, the log that says more << 16 ---- */
enum g4_nvme_event_type { G4_NVME_EVENT_ERROR, G4_NVME_EVENT_HEALTH, G4_NVME_EVENT_NOTICE };
#define G4_NVME_EVENT(type, what, log) ((uint32_t)(type) | (uint32_t)(what) << 8 | (uint32_t)(log) << 16)
enum g4_nvme_event_error { G4_NVME_ERROR_NO_QUEUE = 0, G4_NVME_ERROR_STAYS = 3 };
enum g4_nvme_event_notice { G4_NVME_NOTICE_NAMESPACE, G4_NVME_NOTICE_FIRMWARE };
#define G4_NVME_HAS_NAMESPACE_NOTICES (1u << 8)
#define G4_NVME_HAS_FIRMWARE_NOTICES (1u << 9)
#define G4_NVME_WARNINGS 0x1fu /* that a drive has whatever it is */
#define G4_NVME_TOO_MANY_REQUESTS G4_NVME_STATUS(1, 0x05)

/* ---- log pages ---- */
struct g4_nvme_error_entry { /* of the log of errors, the newest first */
	g4_le64 count;	     /* how many there have been with it; 0: the entry is empty */
	g4_le16 queue, id;   /* of the command; ffff: it was none */
	g4_le16 status;	     /* bit 0: phase; behind it as in a completion */
	g4_le16 location;    /* byte of the command in bits 7-0, bit in 10-8, which was wrong; ffff: none was */
	g4_le64 lba;	     /* the first one that failed */
	g4_le32 nsid;
	uint8_t vendor, transport;
	uint8_t skipped0[2];
	g4_le64 specific;
	uint8_t skipped1[24];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_error_entry) == 64, "64 of them are a page");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_error_entry, nsid) == 24, "where the specification has it");
#define G4_NVME_ERROR_ENTRIES_MOST 256u /* ELPE */

struct g4_nvme_firmware_log {
	uint8_t active; /* bits 2-0: the slot that runs; 6-4: that which will after a reset, 0: the same */
	uint8_t skipped0[7];
	char revisions[7][8]; /* of slots 1 to 7; zeros: nothing is in it */
	uint8_t skipped1[448];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_firmware_log) == 512, "the page of the specification");

struct g4_nvme_health_log {
	uint8_t warnings;		  /* bits 0-4: spare, temperature, reliability, read-only, backup of memory */
	uint8_t temperature[2];		  /* kelvin */
	uint8_t spare, spare_least, used; /* percent */
	uint8_t skipped0[26];
	g4_le64 units_read[2], units_written[2]; /* of 1000 times 512 bytes; 128 bit, as all that follow */
	g4_le64 reads[2], writes[2], busy_minutes[2], power_cycles[2], power_hours[2], unsafe_shutdowns[2];
	g4_le64 media_errors[2], errors[2];
	uint8_t skipped1[320];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_health_log) == 512, "the page of the specification");
G4_STATIC_ASSERT(offsetof(struct g4_nvme_health_log, media_errors) == 160, "where the specification has it");

#endif
