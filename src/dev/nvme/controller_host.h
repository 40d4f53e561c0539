/* SPDX-License-Identifier: Apache-2.0 */
/* An NVMe controller from the host's side: finding out what it is, its I/O queues, and its end. Host only. */
#ifndef G4_DEV_NVME_CONTROLLER_HOST_H
#define G4_DEV_NVME_CONTROLLER_HOST_H

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "dev/nvme/requests.h"

/* Gives a process a controller, which then has memory of the process at the same addresses. */
struct g4_nvme_provider {
	uint8_t *registers;
	uint64_t register_bytes;
	void *context;
	/*
	 * What a controller that is a thread wants, both NULL otherwise, thread-safe. Registers were written, and it may sleep. Let it work,
	 * or sleep until *answers is no longer `seen`, or the time is over; may end early.
	 */
	void (*rung)(void *context);
	void (*doze)(void *context, uint32_t seen, uint64_t ns);
	const uint32_t *answers; /* counts completions */
	/*
	 * For such a controller: nobody tells it of doorbells from now on, or they do again. NULL: it is a device, whose registers are I/O
	 * memory.
	 */
	void (*stay_awake)(void *context, bool awake);
	/*
	 * Makes memory the controller's; it stays so until it goes away. False, with an errno: it can not be, and commands must not name
	 * it. Thread-safe, cheap the second time. NULL: all memory of the process is.
	 */
	bool (*reach)(void *context, const void *memory, uint64_t bytes);
	/* From the return on, the controller touches no memory. For one that does not even obey CC.EN. */
	void (*halt)(void *context);
	void (*close)(void *context);
};

struct g4_nvme_options {
	uint32_t queues;     /* of I/O; 0: one a processor, at most 8 */
	uint32_t slots;	     /* commands under way in each; 0: 128 */
	uint32_t nsid;	     /* 0: the first one */
	uint64_t timeout_ns; /* for each command of I/O; 0: 30 s */
	uint64_t admin_timeout_ns;
	bool read_only;
	bool lanes; /* one queue more, if the controller has it, for an engine's lanes (lanes_host.h) */
};
#define G4_NVME_QUEUES_MOST 64u
#define G4_NVME_COPIES 4u
#define G4_NVME_COPY_BYTES (256 * G4_KIB)

struct g4_nvme {
	struct g4_nvme_provider provider;
	char *name;
	uint8_t *memory; /* of all queues, lists and what identify answers, and for copies */
	uint64_t memory_bytes;
	uint64_t cap;
	uint64_t timeout_ns, admin_timeout_ns;
	struct g4_nvme_pair admin;
	uint32_t admin_id;
	/* data in memory that the controller does not have goes through these; NULL: there is no such memory */
	uint8_t *copies;
	pthread_mutex_t copy_locks[G4_NVME_COPIES];
	struct g4_nvme_queue *queues;
	uint32_t queue_count;
	struct g4_nvme_queue *lanes; /* one behind these, which the host does not use; NULL: there is none */
	uint64_t next_check_ns;
	uint64_t copied; /* requests whose data was copied */
	uint32_t dying;
	struct g4_dev_props props;
	uint16_t atomic_blocks; /* AWUPF, less 1 */
};

/*
 * Takes the provider over, also when it fails: resets the controller, asks it what it is, makes its queues. What it answers is
 * checked; whatever is wrong is told in a sentence.
 */
int g4_nvme_open(const char *name, const struct g4_nvme_provider *provider, const struct g4_nvme_options *options,
		 struct g4_nvme **out, struct g4_dev_message message);
/*
 * An admin command that answers with a page, which is copied to `to`. `what` it is goes into the sentence, should it fail. One at a time.
 */
int g4_nvme_ask(struct g4_nvme *nvme, uint32_t opcode, uint32_t nsid, uint32_t dword10, void *to, const char *what,
		struct g4_dev_message message);
/* Nothing is under way. Shuts the controller down. */
void g4_nvme_close(struct g4_nvme *nvme);
/*
 * Thread-safe, cheap: called now and then by a thread that waits. Once the controller is gone, has failed or owes an answer for
 * too long, it is stopped, and all requests fail.
 */
void g4_nvme_check(struct g4_nvme *nvme);
/* The same for one that owes an answer for too long to somebody who cannot stop it. */
void g4_nvme_give_up(struct g4_nvme *nvme);

/* The controller may sleep, and registers were written. */
G4_INLINE void g4_nvme_rung(const struct g4_nvme *nvme)
{
	if (nvme->provider.rung)
		nvme->provider.rung(nvme->provider.context);
}

#endif
