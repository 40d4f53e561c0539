/* SPDX-License-Identifier: Apache-2.0 */
/* An NVMe controller from the host's side: finding out what it is, its I/O queues, and its end. Host only. */
#ifndef G4_DEV_NVME_CONTROLLER_HOST_H
#define G4_DEV_NVME_CONTROLLER_HOST_H

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "dev/nvme/requests.h"

/*
 * Who gives a process a controller. All memory of the process that commands name is the controller's at the same addresses; that
 * the queues lie in is mapped by the controller code.
 */
struct g4_nvme_provider {
	uint8_t *registers;
	uint64_t register_bytes;
	void *context;
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
};
#define G4_NVME_QUEUES_MOST 64u

struct g4_nvme {
	struct g4_nvme_provider provider;
	char *name;
	uint8_t *memory; /* of all queues, lists and what identify answers */
	uint64_t memory_bytes;
	uint64_t cap;
	uint64_t timeout_ns, admin_timeout_ns;
	struct g4_nvme_pair admin;
	uint32_t admin_id;
	struct g4_nvme_queue *queues;
	uint32_t queue_count;
	uint64_t next_check_ns;
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
/* Nothing is under way. Shuts the controller down. */
void g4_nvme_close(struct g4_nvme *nvme);
/*
 * Thread-safe, cheap: for who waits, now and then. Once the controller is gone, has failed or owes an answer for too long, it is
 * stopped, and all requests fail.
 */
void g4_nvme_check(struct g4_nvme *nvme);

#endif
