/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVMe controller from the host's side: finding out what it is, its I/O queues, beginning anew with it, and its end. What is done
 * when it fails is in recovery_host.h. Host only.
 */
#ifndef G4_DEV_NVME_CONTROLLER_HOST_H
#define G4_DEV_NVME_CONTROLLER_HOST_H

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "dev/mapper.h"
#include "dev/nvme/namespace_host.h"
#include "dev/nvme/requests.h"

/* Gives a process a controller, which then has memory of the process at the same addresses. */
struct g4_nvme_provider {
	uint8_t *registers;
	uint64_t register_bytes;
	bool io_memory; /* they are a device's, and not memory: a GPU has to be told so */
	void *context;
	/*
	 * What a controller that is a thread wants, both NULL otherwise, thread-safe. Registers were written, and it may sleep. Be the
	 * controller for one look; false: there was nothing to do, or somebody else is.
	 */
	void (*rung)(void *context);
	bool (*work)(void *context);
	/*
	 * Interrupts, of so many vectors; vector 0 is that of admin commands. From the return on, each completion of a queue with the vector
	 * counts an eventfd(2) up by 1; -1: none any more. False: it can not be. The calls for a vector come one at a time. 0 vectors: NULL.
	 */
	uint32_t vectors;
	bool (*listen)(void *context, uint32_t vector, int event);
	/*
	 * For such a controller: nobody tells it of doorbells from now on, or they do again. NULL: it sees them by itself, as a device does.
	 */
	void (*stay_awake)(void *context, bool awake);
	/*
	 * Makes memory the controller's; it stays so until it goes away. False, with an errno: it can not be, and commands must not name
	 * it. Thread-safe, cheap the second time. NULL: all memory of the process is.
	 */
	bool (*reach)(void *context, const void *memory, uint64_t bytes);
	uint64_t shift; /* what is added to an address for the controller's; not of what obtain() gives */
	/*
	 * Where the controller reaches no other memory than this: so much of it, in whole pages, which the controller has from *address on; NULL,
	 * with an errno: there is none. The provider's, until it is closed. reach() is for all else then, and may well be never true.
	 * NULL: the driver's memory is as any other.
	 */
	void *(*obtain)(void *context, uint64_t bytes, uint64_t *address);
	uint64_t obtain_most_bytes;
	/* From the return on, the controller touches no memory. For one that does not even obey CC.EN. */
	void (*halt)(void *context);
	void (*close)(void *context);
	/*
	 * The system wants the controller back, for it is to be removed: from then on `asked` can be read from. It gets it when let_go()
	 * returns, whose caller has seen to it that no command is sent any more, and that nobody but this process's threads has the registers
	 * mapped; they read all ones then. NULL: nobody asks.
	 */
	void (*let_go)(void *context);
	int asked;
	int failed; /* an eventfd(2), which the system counts up when it hears of an error of the controller's; -1: it does not tell */
};

struct g4_nvme_options {
	uint32_t queues;     /* of I/O, at most G4_MAPPER_QUEUES_MOST; 0: one a processor, at most 8 */
	uint32_t slots;	     /* commands under way in each; 0: 128 */
	uint32_t nsid;	     /* 0: the first one */
	uint32_t partition;  /* of its GPT; 0: all of it. Of a device (device_host.h) */
	uint64_t timeout_ns; /* for each command of I/O; 0: 30 s */
	uint64_t admin_timeout_ns;
	uint64_t poll_ns; /* that a waiter polls before it sleeps; 0: as it was measured (waking_host.h) */
	uint32_t resets;  /* in an hour; after that it is given up. 0: 3; G4_NVME_NO_RESETS: at once */
	bool read_only;
	bool questions; /* nothing but g4_nvme_ask(): no namespace is opened, and there are no queues of I/O */
	/* so many queues more, if the controller has them, for an engine's lanes (lanes_host.h); none where obtain() gives the memory */
	uint32_t lanes;
};
#define G4_NVME_NO_RESETS UINT32_MAX
#define G4_NVME_QUEUES_MOST 64u
#define G4_NVME_COPIES 4u
#define G4_NVME_COPY_BYTES (256 * G4_KIB)

/* What the driver relies on; it must be so still after a reset. */
struct g4_nvme_identity {
	uint64_t piece_bytes; /* most data of a command */
	uint32_t namespaces;  /* the highest number */
	bool volatile_cache, discard, sgl;
	char serial[20];
	struct g4_nvme_atomics atomics;
	struct g4_nvme_discards discards;
	uint32_t notices;			 /* G4_NVME_HAS_... */
	uint64_t wants_bytes, wants_least_bytes; /* of the host's memory */
};
/* A namespace that was opened. */
struct g4_nvme_space {
	uint32_t nsid;
	struct g4_nvme_sizes sizes;
	struct g4_dev_props props;
	uint64_t grown_bytes; /* events_host.c: larger ones that were told */
	bool shrunk;
};

/* What was found to be wrong. It says nothing any more when something was done about the controller since. */
struct g4_nvme_finding {
	const char *why;
	uint32_t mended; /* of struct g4_nvme, before the look */
	uint32_t late,
		queue;	 /* 1 + the identifier of the command that is to be aborted; 0: the controller is to be reset */
	uint64_t now_ns; /* when that command was late */
	bool leaves;	 /* nothing is: the system wants the controller back */
	bool event;	 /* nor here: there is something to be heard of (events_host.h) */
};

/* Memory of g4_memory_map() that commands may name for whose end nobody waits. */
struct g4_nvme_left {
	void *memory;
	uint64_t bytes;
	struct g4_nvme_left *next;
};

enum g4_nvme_state { G4_NVME_WORKS, G4_NVME_RECOVERS, G4_NVME_DEAD };

struct g4_nvme {
	struct g4_nvme_provider provider;
	char *name;
	uint8_t *memory; /* of all queues, lists and what identify answers, and for copies */
	uint64_t memory_bytes;
	uint64_t shift; /* to the controller's address of it */
	uint64_t cap;
	uint64_t timeout_ns, admin_timeout_ns;
	pthread_mutex_t admin_lock; /* of what follows, and of everything that takes several admin commands */
	struct g4_nvme_pair admin;
	uint32_t admin_id;
	/* 1 + the identifier of a question whose answer may still come into the page of answers; 0: there is none */
	uint32_t unanswered;
	/* data in memory that the controller does not have goes through these; NULL: there is no such memory */
	uint8_t *copies;
	pthread_mutex_t copy_locks[G4_NVME_COPIES];
	struct g4_nvme_queue *queues;
	uint32_t queue_count;
	struct g4_nvme_waking *waking; /* of each of them (waking_host.h) */
	uint64_t poll_ns;
	struct g4_mapper mapper; /* which of them a workgroup uses */
	uint32_t slots;
	struct g4_nvme_space spaces[G4_NVME_SPACES_MOST]; /* those that were opened, with these caches; admin_lock */
	uint32_t space_count;
	struct g4_nvme_left *left_behind; /* until it is stopped; admin_lock */
	bool read_only;
	struct g4_nvme_cache caches[G4_NVME_SPACES_MOST]; /* of what goes through the host's queues */
	struct g4_nvme_queue *lanes; /* those behind these, which the host does not use; NULL: there are none */
	uint32_t lane_count;
	struct g4_nvme_identity identity;
	uint64_t copied; /* requests whose data was copied */

	/* recovery_host.c's */
	uint64_t next_check_ns;
	uint32_t state;		   /* enum g4_nvme_state */
	uint32_t mended;	   /* how often something was done about it, until that was over */
	uint32_t reset;		   /* the number of the last one that succeeded */
	bool lanes_taken;	   /* what follows is so; admin_lock */
	bool lanes_used;	   /* their queues, since they were made: they are not empty any more */
	pthread_cond_t lanes_left; /* signalled when it is not so any more */
	uint32_t lanes_space;	   /* their namespace */
	uint32_t lanes_reset;	   /* the reset after which their queues were made */
	uint64_t aborted;
	uint32_t resets_most, resets; /* `resets` since the hour began */
	uint64_t hour_ns;
	struct g4_nvme_finding finding; /* what is being done something about */
	pthread_mutex_t start_lock;	/* of what follows */
	pthread_t thread;
	bool thread_runs; /* or has run, and is to be joined */

	/* events_host.c's; admin_lock */
	uint32_t listens; /* a request for an event is with the controller; read by others, as is: */
	uint32_t heard;	  /* `event` is one that nothing was done about */
	uint32_t event;
	uint32_t warnings;    /* of the log of health that were told */
	uint32_t errors_told; /* bit n: the n-th kind of event of an error */
	uint32_t events;      /* since the hour began */
	uint64_t events_hour_ns;

	/* lent_host.c's; admin_lock */
	uint8_t *lent; /* a page that describes what is behind it; NULL: there is none */
	uint64_t lent_bytes;
	bool lends; /* the controller has it */

	/* leaving_host.c's */
	pthread_t attendant;
	int dismissed; /* a file that can be read from when it is to end */
	bool attended;
	uint32_t attendance; /* enum g4_nvme_attendance */
	uint32_t left;	     /* the system has it */
};

/*
 * Takes the provider over, also when it fails: resets the controller, asks it what it is, makes its queues. What it answers is
 * checked; whatever is wrong is told in a sentence.
 */
int g4_nvme_open(const char *name, const struct g4_nvme_provider *provider, const struct g4_nvme_options *options,
		 struct g4_nvme **out, struct g4_dev_message message);
/*
 * An admin command that asks: IDENTIFY, GET_LOG or GET_FEATURES. It answers with a page, which is copied to `to`. `what` it is goes into the
 * sentence, should it fail. -G4_E_NOTSUP: another one, which may change the drive.
 */
int g4_nvme_ask(struct g4_nvme *nvme, uint32_t opcode, uint32_t nsid, uint32_t dword10, void *to, const char *what,
		struct g4_dev_message message);
/*
 * A namespace of an open controller, which may be open already: *target is the whole of it, *props what it can. Thread-safe. It is not
 * closed again: what may have been lost of it is known for as long as the controller is open.
 */
int g4_nvme_open_space(struct g4_nvme *nvme, uint32_t nsid, struct g4_nvme_target *target, struct g4_dev_props *props,
		       struct g4_dev_message message);
/* Takes this, which is malloc(3)'s, and the memory over: they are given back when the controller was stopped. Thread-safe. */
void g4_nvme_leave_behind(struct g4_nvme *nvme, struct g4_nvme_left *left);
/* The doorbells of its queues for lanes, of which there are some, in whole pages. */
void *g4_nvme_lanes_registers(const struct g4_nvme *nvme, uint64_t *bytes);
/* Nothing is under way. Shuts the controller down. */
void g4_nvme_close(struct g4_nvme *nvme);

/* ---- for recovery_host.c, by the holder of admin_lock ---- */
uint32_t g4_nvme_csts(const struct g4_nvme *nvme);
/* From the return on, the controller does nothing. True: it could be enabled again. */
bool g4_nvme_stop(struct g4_nvme *nvme);
/* Has it write what its cache holds, and lose power without harm from then on. */
void g4_nvme_shut_down(struct g4_nvme *nvme);
/* Enables one that was stopped. It must be what it was; its I/O queues, `count` of them, are empty ones in the same memory. */
int g4_nvme_start_again(struct g4_nvme *nvme, uint32_t count, struct g4_dev_message message);
/* One more of these. */
int g4_nvme_make_queue(struct g4_nvme *nvme, uint32_t index, struct g4_dev_message message);
/* False: the controller does not even answer that. Otherwise the command ends, perhaps, as one that was aborted. */
bool g4_nvme_abort(struct g4_nvme *nvme, uint32_t index, uint32_t id);

/* ---- for events_host.c, by the holder of admin_lock ---- */
/* g4_nvme_ask(), of any question. */
int g4_nvme_ask_held(struct g4_nvme *nvme, uint32_t opcode, uint32_t nsid, uint32_t dword10, void *to, const char *what,
		     struct g4_dev_message message);
/* What an open namespace is now. */
int g4_nvme_see_space(struct g4_nvme *nvme, uint32_t space, struct g4_dev_props *props, struct g4_dev_message message);
/* Takes what has been answered to admin commands that nobody waits for. */
void g4_nvme_take_answers(struct g4_nvme *nvme);
/* Asks for an event; it has none to answer to. */
void g4_nvme_listen(struct g4_nvme *nvme);

/* The controller may sleep, and registers were written. */
G4_INLINE void g4_nvme_rung(const struct g4_nvme *nvme)
{
	if (nvme->provider.rung)
		nvme->provider.rung(nvme->provider.context);
}

#endif
