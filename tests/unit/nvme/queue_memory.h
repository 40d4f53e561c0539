/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a queue pair whose controller is the test: it takes commands and answers them, one call at a time. */
#ifndef G4_TEST_QUEUE_MEMORY_H
#define G4_TEST_QUEUE_MEMORY_H

#include "dev/nvme/requests.h"
#include "unit/dev_util.h"

#define ENTRIES 8u

static struct queue_memory {
	struct g4_nvme_command commands[ENTRIES] __attribute__((aligned(4096)));
	struct g4_nvme_completion completions[ENTRIES] __attribute__((aligned(4096)));
	uint32_t tail_bell, head_bell;
	/* the controller's */
	uint32_t head, answered; /* commands taken, completions written */
} queue_memory;

static inline void begin_queue_memory(struct g4_nvme_pair *pair)
{
	memset(&queue_memory, 0, sizeof(queue_memory));
	g4_nvme_pair_init(pair, queue_memory.commands, queue_memory.completions, &queue_memory.tail_bell,
			  &queue_memory.head_bell, ENTRIES);
}

/* Empty queues there, as after a reset. */
static inline void empty_queue_memory(void)
{
	memset(queue_memory.completions, 0, sizeof(queue_memory.completions));
	queue_memory.head = queue_memory.answered = queue_memory.tail_bell = queue_memory.head_bell = 0;
}

/* The next command that the doorbell tells of; NULL: there is none. */
static inline const struct g4_nvme_command *next_command(void)
{
	if (queue_memory.head % ENTRIES == queue_memory.tail_bell)
		return NULL;
	return &queue_memory.commands[queue_memory.head++ % ENTRIES];
}

static inline void answer(uint32_t id, uint32_t status)
{
	const uint32_t place = queue_memory.answered % ENTRIES;
	const uint64_t phase = queue_memory.answered / ENTRIES % 2 == 0;

	queue_memory.completions[place].result = (g4_le32)(1000 + queue_memory.answered++);
	g4_store64_rel_sys(&queue_memory.completions[place].end,
			   (uint64_t)id << 32 | phase << 48 | (uint64_t)status << 49);
}

#endif
