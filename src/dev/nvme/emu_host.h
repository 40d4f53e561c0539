/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated controller: a thread that does what an NVMe controller does with the registers and queues of a driver, in the same
 * memory, over any device of gpu4fs as its medium. Where there is no drive, it is what the driver is tested with. Lost power, torn
 * and lost writes are those of a medium that is a fault device (dev_host.h). Host only.
 */
#ifndef G4_DEV_NVME_EMU_HOST_H
#define G4_DEV_NVME_EMU_HOST_H

#include "dev/nvme/controller_host.h"

/* What a controller may say that is not so, each a bit. */
enum g4_emu_lie {
	G4_EMU_NO_NAMESPACE = 1,      /* it has 0 blocks */
	G4_EMU_TOO_MANY_BLOCKS = 2,   /* 2^63 */
	G4_EMU_ODD_BLOCKS = 4,	      /* of 2^7 bytes */
	G4_EMU_METADATA = 8,	      /* 8 bytes a block */
	G4_EMU_NO_SUCH_FORMAT = 16,   /* number 9 of 2; of 20, number 41 */
	G4_EMU_LARGE_COMMANDS = 32,   /* of 128 bytes */
	G4_EMU_SHORT_QUEUES = 64,     /* of 1 entry, of which a queue has 2 at least */
	G4_EMU_NEVER_READY = 128,     /* CSTS.RDY stays 0 */
	G4_EMU_FAILS_AT_ONCE = 256,   /* CSTS.CFS when it is enabled */
	G4_EMU_NOT_THERE = 512,	      /* all registers read all ones */
	G4_EMU_MUTE = 1024,	      /* no answer to admin commands */
	G4_EMU_REFUSES_QUEUES = 2048, /* creating I/O queues fails */
	G4_EMU_REWRITES = 4096,	      /* what IDENTIFY answered changes all the time */
	G4_EMU_HALF = 8192,	      /* it has half of its blocks */
	G4_EMU_MANY_FORMATS =
		16384, /* no lie: it has 20 formats, of which the first 16 are of 2^7 bytes, and one of the others */
	G4_EMU_STRAY_FORMAT = 32768,	 /* bits 6 and 5 of its format are set, though there are 2 formats */
	G4_EMU_TOO_MANY_FORMATS = 65536, /* 200 */
	G4_EMU_ODD_SIZES = 131072,   /* atomic units and boundaries, preferred sizes: each contradicts another one */
	G4_EMU_SLOW_FORMAT = 262144, /* no lie: the format of 512 bytes is the slowest */
	G4_EMU_ODD_LOGS = 524288,    /* all bits of its logs are 1 */
	G4_EMU_OLD = 1048576,	     /* no lie: version 1.0, which does not know what came later */
	G4_EMU_NO_EVENTS = 2097152   /* it refuses requests for events */
};

/* What becomes of ABORT. */
enum g4_emu_aborts {
	G4_EMU_ABORTS,	      /* a command that would never be answered is */
	G4_EMU_ABORTS_NOT,    /* it says that it did not */
	G4_EMU_ABORTS_IN_VAIN /* it says that it did */
};

/* Counters: n > 0: the n-th I/O command from now, once. */
struct g4_emu_faults {
	uint64_t fail_at, fail_count; /* that one and those behind it: `status` */
	uint32_t status;	      /* of them, with G4_NVME_DNR or without */
	uint64_t mute_at;	      /* not answered, unless it is aborted */
	uint64_t wrong_id_at;	      /* answered with an identifier that nothing has */
	uint64_t phantom_at;	      /* answered twice */
	uint64_t fatal_at;	      /* CSTS.CFS instead, and nothing after that */
	uint64_t vanish_at;	      /* gone: registers read all ones, and nothing after that */
	uint64_t reset_at;   /* as if somebody else had reset it: CC.EN and CSTS.RDY 0, and nothing after that */
	uint64_t latency_ns; /* from the doorbell to the completion, at least */
	uint64_t shuffle;    /* seed, not 0: commands are executed in any order */
	bool repeat;	     /* a counter that has run out begins anew */
	bool holds_admin;    /* admin commands are taken, and executed when this is so no more */
	void (*at_reset)(void *context); /* called by its thread; a medium that is a fault device may lose power then */
	void *context;
	uint32_t aborts; /* enum g4_emu_aborts */
	uint32_t lies;	 /* from the next reset on */
	/* Each is an event where it is another one than before: warnings of its health; blocks of namespace 1, 0: as at the start */
	uint32_t warnings;
	uint64_t blocks;
	uint32_t
		event; /* and this one, as in a completion; 0: none. A driver that has not asked gets it when it asks */
	bool floods;   /* that one again and again */
};

/* Of memory that it was given; for whoever has closed it, or knows that it is not at work. */
struct g4_emu_lent {
	uint64_t bytes;	       /* that it has */
	uint32_t given, taken; /* how often it was, and was asked back */
	uint32_t kept;	       /* how often it was shut down and had it still */
	bool bad;	       /* a description was none, or the contents were changed */
};

struct g4_emu_options {
	uint32_t block_bytes; /* 0: as the medium's sectors */
	uint32_t lies;
	uint32_t mdts;	   /* most data of a command: 4 KiB << this; 0: no limit */
	uint32_t entries;  /* most of a queue, as CAP has it; 0: 1024 */
	uint32_t sgls;	   /* as IDENTIFY has it; 0: it takes no SGLs */
	uint32_t boundary; /* blocks, as IDENTIFY has it; a command that crosses a multiple fails */
	/* Blocks, of which IDENTIFY has one less; 0: it says nothing of the five. */
	uint32_t
		write_granularity; /* a write that neither begins nor ends at a multiple fails, if a command can be so long */
	uint32_t write_alignment, write_optimal; /* the same, whether it can or not */
	uint32_t discard_granularity,
		discard_alignment; /* a range that is no multiple, or does not begin at one, fails */
	/* Of a DSM: ranges, blocks in one of them, blocks in all; with more it fails. 0: there is no limit, and none is told. */
	uint32_t discard_ranges, discard_range;
	uint64_t discard_blocks;
	/*
	 * Blocks, of which IDENTIFY has one less, and the offset. A write of at most `whole` blocks, and of more than
	 * `whole_anywhere`, that crosses a boundary fails. whole is 0: it says nothing of the four.
	 */
	uint32_t whole, whole_anywhere, whole_boundary, whole_offset;
	/* KiB of the host's memory that it wants, and at least; 0: none. It writes there, and looks whether that stays so. */
	uint32_t memory_kib, memory_least_kib;
	struct g4_emu_lent *lent; /* what became of it, NULL: nobody wants to know; outlives the controller */
	uint64_t shift;		  /* its addresses are so much higher than the process's; a multiple of pages */
	bool drive; /* nobody wakes it, and nobody who waits is the controller: it sees registers by itself, as a drive does */
	struct g4_dev *second; /* the medium of namespace 2, with sectors as the first one's; NULL: there is none */
};

struct g4_emu;
/* The media are the controller's if this succeeds. */
int g4_emu_open(struct g4_dev *medium, const struct g4_emu_options *options, struct g4_emu **out,
		struct g4_nvme_provider *provider);
/* Requests for events that it has, thread-safe. */
uint32_t g4_emu_awaited(struct g4_emu *emu);
/* Copies the settings; counting starts anew. Thread-safe. */
void g4_emu_set(struct g4_emu *emu, const struct g4_emu_faults *faults);

#endif
