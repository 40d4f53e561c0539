/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated controller (emu_host.h). One thread at a time does everything: it sees registers change, takes commands from the
 * submission queues, executes them on its medium and completes them. That is the controller's own, or, once it sleeps, one of those
 * that wait for it: two switches of threads for each command would be most of a test's time. It believes nothing that a driver writes into registers and commands
 * more than a drive would: what is out of range is refused with the status that the specification has for it.
 *
 * All memory that it shares with a driver is touched through atomics where the other side may touch it at the same time: registers,
 * doorbells, completions. Commands are the controller's from the doorbell on, buffers until the completion.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory_host.h"
#include "base/thread_host.h"
#include "dev/nvme/emu_data_host.h"
#include "dev/nvme/emu_says_host.h"
#include "simt/simt_host.h"

#define REGISTER_BYTES UINT64_C(8192)
#define QUEUES (G4_NVME_QUEUES_MOST + 1)
#define QUEUE_ENTRIES 1024u
#define HELD_MOST 4096u
#define MUTED_MOST 64u
#define LOOKS 50u	/* behind the last command; then it sleeps, and has to be told */
#define NAP_NS 1000000u /* for a driver that rings and does not tell; twice as long each time, up to: */
#define NAP_MOST_NS 128000000u
#define LOOKS_AWAKE 1000u /* the same while nobody tells: the next command of somebody at work comes within them */
#define NAP_AWAKE_NS 20000u
#define NAMESPACES G4_EMU_NAMESPACES

struct submission {
	const struct g4_nvme_command *entries;
	uint32_t size, head, completions;
	bool on;
};
struct completion {
	struct g4_nvme_completion *entries;
	uint32_t size, tail, phase;
	uint32_t vector;
	bool on, interrupts;
};
struct held { /* a command that was taken and is not complete */
	struct g4_nvme_command command;
	uint32_t queue;
	uint64_t due_ns;
};

struct g4_emu {
	uint8_t *registers;
	struct g4_dev *media[NAMESPACES]; /* namespace n is [n - 1]; NULL: there is none */
	struct g4_wg *wg;
	pthread_t thread;
	bool runs;
	uint32_t stopping;
	uint32_t turn;		 /* lock: 1 while somebody is the controller */
	uint32_t asleep;	 /* 1: its thread looks at registers no more until it is told */
	uint32_t awake;		 /* 1: it looks for longer and takes short naps, as nobody tells it of doorbells */
	uint32_t untold;	 /* 1: it has been awake, and may be rung for without being told */
	uint32_t events[QUEUES]; /* of interrupt vectors: 1 + an eventfd; 0: masked */
	uint8_t *told;		 /* what IDENTIFY has answered, where it is to change; else NULL */
	uint32_t block_shift;
	uint64_t blocks[NAMESPACES];
	struct g4_emu_options options;
	pthread_mutex_t lock;		  /* of the faults */
	struct g4_emu_faults faults, set; /* what is left of them, and as they were set */
	bool enabled, dead;
	uint64_t random;
	struct submission sq[QUEUES];
	struct completion cq[QUEUES];
	struct held held[HELD_MOST];
	uint32_t held_count;
	struct held muted[MUTED_MOST]; /* the last ones that were not answered */
	uint32_t muted_count;
	struct g4_iov iov[G4_EMU_BUFFERS];
	struct g4_emu_deeds deeds;
	struct g4_emu_events news;
	struct g4_emu_loan loan;
	struct held requests[G4_EMU_REQUESTS]; /* for events */
	uint32_t request_count;		       /* read by others */
	uint64_t blocks_at_start;
};

static uint64_t next_random(struct g4_emu *emu)
{
	emu->random ^= emu->random << 13;
	emu->random ^= emu->random >> 7;
	return emu->random ^= emu->random << 17;
}

/* ---- registers ---- */

static uint32_t get32(const struct g4_emu *emu, uint64_t at)
{
	return g4_load32_acq_sys((const uint32_t *)(emu->registers + at));
}

static void put32(struct g4_emu *emu, uint64_t at, uint32_t value)
{
	g4_store32_rel_sys((uint32_t *)(emu->registers + at), value);
}

static uint64_t get64(const struct g4_emu *emu, uint64_t at)
{
	return get32(emu, at) | (uint64_t)get32(emu, at + 4) << 32;
}

static void *memory_at(const struct g4_emu *emu, uint64_t address)
{
	return g4_emu_memory_at(&emu->options, address);
}

static uint32_t get_doorbell(const struct g4_emu *emu, uint32_t queue, uint32_t of_completions)
{
	return get32(emu, G4_NVME_DOORBELLS + (2 * queue + of_completions) * 4);
}

static uint32_t entries_most(const struct g4_emu *emu)
{
	return emu->options.entries ? emu->options.entries : QUEUE_ENTRIES;
}

static void set_capabilities(struct g4_emu *emu)
{
	const uint32_t entries = emu->options.lies & G4_EMU_SHORT_QUEUES ? 1 : entries_most(emu);

	if (emu->options.lies & G4_EMU_NOT_THERE) {
		memset(emu->registers, 0xff, REGISTER_BYTES);
		return;
	}
	/* CQR; the longest time that can be said, for this thread may have to wait for a processor */
	put32(emu, G4_NVME_CAP, (entries - 1) | 1u << 16 | (emu->options.lies & G4_EMU_NEVER_READY ? 1u : 255u) << 24);
	put32(emu, G4_NVME_CAP + 4, 1u << 5); /* NVM */
	put32(emu, G4_NVME_VS, G4_NVME_VERSION(emu->options.lies & G4_EMU_OLD ? 1 : 2, 0));
}

static void vanish(struct g4_emu *emu)
{
	for (uint64_t at = 0; at < G4_NVME_DOORBELLS; at += 4)
		put32(emu, at, UINT32_MAX);
	emu->dead = true;
}

/* ---- sleeping and waking ---- */

static void futex_wait(const uint32_t *word, uint32_t seen, uint64_t ns)
{
	const struct timespec longest = {.tv_nsec = (long)ns};

	if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &longest, NULL, 0) < 0 && errno != EAGAIN &&
	    errno != EINTR && errno != ETIMEDOUT)
		nanosleep(&longest, NULL); /* such a kernel has no faster way */
}

static void futex_wake(const uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); /* if not: sleeps have an end */
}

/* Both sides exchange: the controller's comes later and what was rung is seen behind it, or this one finds it asleep. */
static void rung(void *context)
{
	struct g4_emu *emu = context;

	if (g4_xchg32(&emu->asleep, 0) == 1)
		futex_wake(&emu->asleep);
}

static void stay_awake(void *context, bool awake)
{
	struct g4_emu *emu = context;

	g4_store32_rlx(&emu->untold, 1);
	g4_store32_rel(&emu->awake, awake);
	rung(emu);
}

static bool count_interrupts(void *context, uint32_t vector, int event)
{
	struct g4_emu *emu = context;

	g4_xchg32(&emu->events[vector], (uint32_t)(event + 1));
	return true;
}

/* Whoever has unmasked it before sees it here, whoever does behind this sees the completion: both change the word. */
static void interrupt(struct g4_emu *emu, const struct completion *cq)
{
	const uint32_t event = cq->interrupts ? g4_add32(&emu->events[cq->vector], 0) : 0;
	const uint64_t one = 1;

	while (event && write((int)event - 1, &one, sizeof(one)) < 0 && errno == EINTR)
		; /* one that is full can be read from already */
}

/* ---- completing ---- */

static bool has_room(const struct g4_emu *emu, const struct completion *cq, uint32_t number)
{
	return (cq->tail + 1) % cq->size != get_doorbell(emu, number, 1) % cq->size;
}

static void complete(struct g4_emu *emu, const struct held *held, uint32_t id, uint32_t status, uint32_t result)
{
	struct submission *sq = &emu->sq[held->queue];
	struct completion *cq = &emu->cq[sq->completions];
	struct g4_nvme_completion *entry = &cq->entries[cq->tail];
	const uint64_t end = sq->head | (uint64_t)held->queue << 16 | (uint64_t)id << 32 | (uint64_t)cq->phase << 48 |
			     (uint64_t)status << 49;

	g4_store32_rlx_sys(&entry->result, result);
	g4_store64_rel_sys(&entry->end, end);
	if (++cq->tail == cq->size) {
		cq->tail = 0;
		cq->phase ^= 1;
	}
	interrupt(emu, cq);
}

/* ---- data ---- */

static uint32_t status_of(int code, uint32_t otherwise)
{
	switch (code) {
	case 0:
		return G4_NVME_OK;
	case -G4_E_NOSPC:
		return G4_NVME_CAPACITY | G4_NVME_DNR;
	case -G4_E_DEV_READONLY:
		return G4_NVME_READ_ONLY | G4_NVME_DNR;
	case -G4_E_DEV_RANGE:
		return G4_NVME_LBA_RANGE | G4_NVME_DNR;
	default:
		return otherwise | G4_NVME_DNR;
	}
}

static int on_medium(struct g4_emu *emu, uint32_t nsid, struct g4_io *io)
{
	g4_dev_submit(emu->wg, emu->media[nsid - 1], io);
	return g4_dev_wait(emu->wg, emu->media[nsid - 1], io);
}

static bool has_namespace(const struct g4_emu *emu, uint32_t nsid)
{
	return nsid >= 1 && nsid <= NAMESPACES && emu->media[nsid - 1];
}

static uint32_t transfer(struct g4_emu *emu, const struct g4_nvme_command *command)
{
	const uint64_t lba = command->dword10 | (uint64_t)command->dword11 << 32;
	const uint64_t blocks = (command->dword12 & 0xffff) + 1;
	const bool reads = command->opcode == G4_NVME_READ;
	uint32_t count;

	if (lba > emu->blocks[command->nsid - 1] || blocks > emu->blocks[command->nsid - 1] - lba)
		return G4_NVME_LBA_RANGE | G4_NVME_DNR;
	if (emu->options.mdts && blocks << emu->block_shift > G4_PAGE_BYTES << emu->options.mdts)
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	if (emu->options.boundary && lba / emu->options.boundary != (lba + blocks - 1) / emu->options.boundary)
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	if (!reads && !g4_emu_likes(&emu->options, lba, blocks))
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	const uint32_t status = g4_emu_find_data(&emu->options, emu->media[command->nsid - 1]->props.sector_bytes,
						 command, blocks << emu->block_shift, emu->iov, &count);
	if (status != G4_NVME_OK)
		return status | G4_NVME_DNR;
	struct g4_io io = {.op = reads ? G4_IO_READ : G4_IO_WRITE,
			   .flags = !reads && (command->dword12 & G4_NVME_RW_FUA) ? G4_IO_FUA : 0,
			   .offset_bytes = lba << emu->block_shift,
			   .iov = emu->iov,
			   .iov_count = count};
	return status_of(on_medium(emu, command->nsid, &io), reads ? G4_NVME_READ_FAULT : G4_NVME_WRITE_FAULT);
}

static uint32_t deallocate(struct g4_emu *emu, const struct g4_nvme_command *command)
{
	const struct g4_nvme_range *ranges = memory_at(emu, command->prp1);
	const uint32_t count = (command->dword10 & 0xff) + 1;

	if (command->prp1 == 0 || command->prp1 % G4_PAGE_BYTES + count * sizeof(*ranges) > G4_PAGE_BYTES)
		return G4_NVME_BAD_PRP | G4_NVME_DNR;
	if (!g4_emu_takes_ranges(&emu->options, ranges, count))
		return G4_NVME_TOO_LARGE | G4_NVME_DNR;
	for (uint32_t i = 0; i < count && (command->dword11 & G4_NVME_DSM_DEALLOCATE); i++) {
		if (ranges[i].lba > emu->blocks[command->nsid - 1] ||
		    ranges[i].blocks > emu->blocks[command->nsid - 1] - ranges[i].lba)
			return G4_NVME_LBA_RANGE | G4_NVME_DNR;
		if ((emu->options.discard_granularity && ranges[i].blocks % emu->options.discard_granularity != 0) ||
		    (emu->options.discard_alignment && ranges[i].lba % emu->options.discard_alignment != 0))
			return G4_NVME_BAD_FIELD | G4_NVME_DNR;
		struct g4_io io = {.op = G4_IO_DISCARD,
				   .offset_bytes = ranges[i].lba << emu->block_shift,
				   .discard_bytes = (uint64_t)ranges[i].blocks << emu->block_shift};
		const int code = on_medium(emu, command->nsid, &io);
		if (code < 0)
			return status_of(code, G4_NVME_INTERNAL_ERROR);
	}
	return G4_NVME_OK;
}

static uint32_t execute_io(struct g4_emu *emu, const struct g4_nvme_command *command)
{
	struct g4_io flush = {.op = G4_IO_FLUSH};

	if (!has_namespace(emu, command->nsid))
		return G4_NVME_BAD_NAMESPACE | G4_NVME_DNR;
	switch (command->opcode) {
	case G4_NVME_FLUSH:
		return status_of(on_medium(emu, command->nsid, &flush), G4_NVME_INTERNAL_ERROR);
	case G4_NVME_READ:
	case G4_NVME_WRITE:
		return transfer(emu, command);
	case G4_NVME_DSM:
		if (emu->media[command->nsid - 1]->props.discard)
			return deallocate(emu, command);
		return G4_NVME_BAD_OPCODE | G4_NVME_DNR;
	default:
		return G4_NVME_BAD_OPCODE | G4_NVME_DNR;
	}
}

/* ---- admin commands ---- */

/* IDENTIFY, GET_LOG: a page. */
static uint32_t say(struct g4_emu *emu, const struct g4_nvme_command *command)
{
	const struct g4_dev_props *props = &emu->media[0]->props;
	const struct g4_emu_self self = {.options = &emu->options,
					 .block_shift = emu->block_shift,
					 .blocks = {emu->blocks[0], emu->media[1] ? emu->blocks[1] : 0},
					 .volatile_cache = props->volatile_cache,
					 .discard = props->discard,
					 .events = &emu->news};
	uint8_t *to = memory_at(emu, command->prp1);

	if (command->prp1 == 0 || command->prp1 % G4_PAGE_BYTES != 0)
		return G4_NVME_BAD_PRP | G4_NVME_DNR;
	memset(to, 0, G4_PAGE_BYTES);
	if (command->opcode == G4_NVME_GET_LOG)
		return g4_emu_log(&self, &emu->deeds, command->dword10 & 0xff,
				  ((command->dword10 >> 16) + UINT64_C(1)) * sizeof(uint32_t), to);
	emu->told = emu->options.lies & G4_EMU_REWRITES ? to : NULL;
	return g4_emu_identify(&self, command->dword10, command->nsid, to);
}

/* Another word of the answer becomes one that would be refused, or what it was. */
static void rewrite(struct g4_emu *emu)
{
	const uint64_t place = next_random(emu) % (G4_PAGE_BYTES / sizeof(uint64_t));
	uint64_t *word = (uint64_t *)emu->told + place;

	g4_store64_rlx_sys(word, ~g4_load64_rlx_sys(word));
}

static uint32_t create_queue(struct g4_emu *emu, const struct g4_nvme_command *command)
{
	const uint32_t number = command->dword10 & 0xffff, size = (command->dword10 >> 16) + 1;
	const uint32_t completions = command->dword11 >> 16;
	const bool submits = command->opcode == G4_NVME_CREATE_SQ;

	if (number == 0 || number >= QUEUES || (submits ? emu->sq[number].on : emu->cq[number].on) ||
	    (emu->options.lies & G4_EMU_REFUSES_QUEUES))
		return G4_NVME_BAD_QUEUE | G4_NVME_DNR;
	if (size < 2 || size > entries_most(emu))
		return G4_NVME_BAD_QUEUE_SIZE | G4_NVME_DNR;
	if (command->prp1 == 0 || command->prp1 % G4_PAGE_BYTES || !(command->dword11 & G4_NVME_QUEUE_CONTIGUOUS))
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	put32(emu, G4_NVME_DOORBELLS + (2 * number + !submits) * 4, 0);
	if (!submits && completions >= QUEUES) /* the vector */
		return G4_NVME_BAD_VECTOR | G4_NVME_DNR;
	if (!submits) {
		emu->cq[number] = (struct completion){.entries = memory_at(emu, command->prp1),
						      .size = size,
						      .phase = 1,
						      .vector = completions,
						      .interrupts = command->dword11 & G4_NVME_QUEUE_INTERRUPTS,
						      .on = true};
		return G4_NVME_OK;
	}
	if (completions == 0 || completions >= QUEUES || !emu->cq[completions].on)
		return G4_NVME_STATUS(1, 0x00) | G4_NVME_DNR;
	emu->sq[number] = (struct submission){
		.entries = memory_at(emu, command->prp1), .size = size, .completions = completions, .on = true};
	return G4_NVME_OK;
}

/* Of those that are never answered, at most one. */
static void abort_command(struct g4_emu *emu, const struct g4_nvme_command *command, uint32_t *result)
{
	const uint32_t queue = command->dword10 & 0xffff, id = command->dword10 >> 16;
	uint32_t i = 0;

	pthread_mutex_lock(&emu->lock);
	const uint32_t aborts = emu->faults.aborts;
	pthread_mutex_unlock(&emu->lock);
	while (i < emu->muted_count && (emu->muted[i].queue != queue || emu->muted[i].command.id != id))
		i++;
	*result = aborts == G4_EMU_ABORTS_NOT || (aborts == G4_EMU_ABORTS && i == emu->muted_count);
	if (aborts != G4_EMU_ABORTS || i == emu->muted_count ||
	    !has_room(emu, &emu->cq[emu->sq[queue].completions], emu->sq[queue].completions))
		return;
	const struct held held = emu->muted[i];
	emu->muted[i] = emu->muted[--emu->muted_count];
	complete(emu, &held, id, G4_NVME_ABORTED, 0);
}

static uint32_t execute_admin(struct g4_emu *emu, const struct g4_nvme_command *command, uint32_t *result)
{
	switch (command->opcode) {
	case G4_NVME_IDENTIFY:
	case G4_NVME_GET_LOG:
		return say(emu, command);
	case G4_NVME_CREATE_CQ:
	case G4_NVME_CREATE_SQ:
		return create_queue(emu, command);
	case G4_NVME_ABORT:
		abort_command(emu, command, result);
		return G4_NVME_OK;
	case G4_NVME_SET_FEATURES:
	case G4_NVME_GET_FEATURES:
		if (command->dword10 == G4_NVME_FEATURE_EVENTS && command->opcode == G4_NVME_SET_FEATURES) {
			emu->news.wanted = command->dword11;
			return G4_NVME_OK;
		}
		if (command->dword10 == G4_NVME_FEATURE_MEMORY && command->opcode == G4_NVME_SET_FEATURES)
			return g4_emu_borrow(&emu->options, &emu->loan, command);
		if ((command->dword10 & 0xff) != G4_NVME_FEATURE_QUEUES)
			return G4_NVME_BAD_FIELD | G4_NVME_DNR;
		*result = (QUEUES - 2) << 16 | (QUEUES - 2);
		return G4_NVME_OK;
	default:
		return G4_NVME_BAD_OPCODE | G4_NVME_DNR;
	}
}

/* ---- faults ---- */

/* True when a counter of "the n-th from now" has run out; it is `again` then. */
static bool count_down(uint64_t *counter, uint64_t again)
{
	if (*counter == 0 || --*counter > 0)
		return false;
	*counter = again;
	return true;
}

struct fate {
	bool mute, wrong_id, phantom, fatal, vanish, reset;
	uint32_t status;
};

static struct fate decide(struct g4_emu *emu)
{
	struct g4_emu_faults *f = &emu->faults;
	const struct g4_emu_faults none = {0};
	struct fate fate = {0};

	pthread_mutex_lock(&emu->lock);
	const struct g4_emu_faults *again = f->repeat ? &emu->set : &none;
	if (count_down(&f->fail_at, 0))
		fate.status = f->status;
	if (fate.status && f->fail_count > 1) {
		f->fail_count--;
		f->fail_at = 1;
	}
	fate.mute = count_down(&f->mute_at, again->mute_at);
	fate.wrong_id = count_down(&f->wrong_id_at, again->wrong_id_at);
	fate.phantom = count_down(&f->phantom_at, again->phantom_at);
	fate.fatal = count_down(&f->fatal_at, again->fatal_at);
	fate.vanish = count_down(&f->vanish_at, again->vanish_at);
	fate.reset = count_down(&f->reset_at, again->reset_at);
	pthread_mutex_unlock(&emu->lock);
	return fate;
}

/* ---- commands ---- */

/* What ends more than a command. */
static void suffer(struct g4_emu *emu, const struct fate *fate, const struct held *held)
{
	if (fate->vanish) {
		vanish(emu);
	} else if (fate->reset) {
		put32(emu, G4_NVME_CC, 0); /* which is looked at next */
		emu->dead = true;
	} else if (fate->fatal) {
		put32(emu, G4_NVME_CSTS, get32(emu, G4_NVME_CSTS) | G4_NVME_CSTS_CFS);
		emu->dead = true;
	} else if (fate->mute && emu->muted_count < MUTED_MOST) {
		emu->muted[emu->muted_count++] = *held;
	}
}

/* Not answered before there is an event. */
static uint32_t keep_request(struct g4_emu *emu, const struct held *held)
{
	if (emu->request_count == G4_EMU_REQUESTS || (emu->options.lies & G4_EMU_NO_EVENTS))
		return G4_NVME_TOO_MANY_REQUESTS | G4_NVME_DNR;
	emu->requests[emu->request_count] = *held;
	g4_store32_rel(&emu->request_count, emu->request_count + 1);
	return G4_NVME_OK;
}

/* What has changed since the settings before is an event. */
static void note_events(struct g4_emu *emu)
{
	struct g4_emu_events *events = &emu->news;

	pthread_mutex_lock(&emu->lock);
	const uint64_t blocks = emu->faults.blocks ? emu->faults.blocks : emu->blocks_at_start;
	const uint32_t event = emu->faults.event, warnings = emu->faults.warnings;
	if (!emu->faults.floods)
		emu->faults.event = 0;
	pthread_mutex_unlock(&emu->lock);
	if (warnings & ~events->warnings) {
		events->warnings = warnings;
		g4_emu_note_event(events, G4_NVME_EVENT(G4_NVME_EVENT_HEALTH, 2, G4_NVME_LOG_HEALTH));
	}
	events->warnings = warnings;
	if (blocks != emu->blocks[0]) {
		emu->blocks[0] = blocks;
		events->changed = true;
		g4_emu_note_event(events,
				  G4_NVME_EVENT(G4_NVME_EVENT_NOTICE, G4_NVME_NOTICE_NAMESPACE, G4_NVME_LOG_SPACES));
	}
	if (event)
		g4_emu_note_event(events, event);
}

/* True: one was. */
static bool tell_event(struct g4_emu *emu)
{
	uint32_t event;

	note_events(emu);
	if (emu->request_count == 0 || !has_room(emu, &emu->cq[0], 0) || !g4_emu_take_event(&emu->news, &event))
		return false;
	const struct held held = emu->requests[emu->request_count - 1];
	g4_store32_rel(&emu->request_count, emu->request_count - 1);
	complete(emu, &held, held.command.id, G4_NVME_OK, event);
	return true;
}

/* False: there is no room for its completion. */
static bool execute(struct g4_emu *emu, const struct held *held)
{
	const uint32_t number = emu->sq[held->queue].completions;
	const struct completion *cq = &emu->cq[number];
	uint32_t result = 0;

	if (!has_room(emu, cq, number))
		return false;
	if (held->queue == 0 && held->command.opcode == G4_NVME_AWAIT_EVENT) {
		const uint32_t status = keep_request(emu, held);
		if (status != G4_NVME_OK)
			complete(emu, held, held->command.id, status, 0);
		return true;
	}
	if (held->queue == 0) {
		const uint32_t status = execute_admin(emu, &held->command, &result);
		if (status != G4_NVME_OK)
			g4_emu_note_error(&emu->deeds, 0, &held->command, status);
		if (!(emu->options.lies & G4_EMU_MUTE))
			complete(emu, held, held->command.id, status, result);
		return true;
	}
	g4_emu_use_loan(&emu->options, &emu->loan);
	const struct fate fate = decide(emu);
	suffer(emu, &fate, held);
	if (emu->dead || fate.mute)
		return true;
	const uint32_t status = fate.status ? fate.status : execute_io(emu, &held->command);
	emu->deeds.reads += held->command.opcode == G4_NVME_READ;
	emu->deeds.writes += held->command.opcode == G4_NVME_WRITE;
	if (status != G4_NVME_OK)
		g4_emu_note_error(&emu->deeds, held->queue, &held->command, status);
	complete(emu, held, fate.wrong_id ? 0xfffe : held->command.id, status, 0);
	if (fate.phantom && has_room(emu, cq, number))
		complete(emu, held, held->command.id, status, 0);
	return true;
}

/* Takes what the doorbell of a queue offers. Returns how many. */
static uint32_t take(struct g4_emu *emu, uint32_t number, uint64_t now)
{
	struct submission *sq = &emu->sq[number];
	const uint32_t tail = get_doorbell(emu, number, 0);
	uint32_t count = 0;

	/* beyond the end is no place: the specification calls it an asynchronous error */
	if (tail == sq->head || tail >= sq->size)
		return 0;
	pthread_mutex_lock(&emu->lock);
	const uint64_t due = now + (number ? emu->faults.latency_ns : 0);
	pthread_mutex_unlock(&emu->lock);
	for (; sq->head != tail && emu->held_count < HELD_MOST; count++) {
		emu->held[emu->held_count++] =
			(struct held){.command = sq->entries[sq->head], .queue = number, .due_ns = due};
		sq->head = (sq->head + 1) % sq->size;
	}
	return count;
}

static void shuffle(struct g4_emu *emu)
{
	for (uint32_t i = emu->held_count; i > 1; i--) {
		const uint32_t j = (uint32_t)(next_random(emu) % i);
		const struct held other = emu->held[j];
		emu->held[j] = emu->held[i - 1];
		emu->held[i - 1] = other;
	}
}

/* Executes what is due. Returns how many. */
static uint32_t work(struct g4_emu *emu, uint64_t now)
{
	uint32_t left = 0, count = emu->held_count;

	pthread_mutex_lock(&emu->lock);
	const uint64_t seed = emu->faults.shuffle;
	const bool holds_admin = emu->faults.holds_admin;
	pthread_mutex_unlock(&emu->lock);
	if (seed) {
		emu->random = emu->random ? emu->random : seed;
		shuffle(emu);
	}
	for (uint32_t i = 0; i < count && !emu->dead; i++) {
		const struct held *held = &emu->held[i];
		if (held->due_ns > now || (holds_admin && held->queue == 0) || !execute(emu, held))
			emu->held[left++] = *held;
	}
	emu->held_count = left;
	return count - left;
}

/* ---- life ---- */

static void reset(struct g4_emu *emu)
{
	pthread_mutex_lock(&emu->lock);
	const struct g4_emu_faults faults = emu->faults;
	emu->options.lies |= emu->faults.lies;
	pthread_mutex_unlock(&emu->lock);
	if (faults.at_reset)
		faults.at_reset(faults.context);
	emu->enabled = false;
	emu->held_count = emu->muted_count = 0;
	emu->told = NULL;
	g4_store32_rel(&emu->request_count, 0);
	memset(&emu->news, 0, sizeof(emu->news));
	g4_emu_end_loan(&emu->options, &emu->loan, false);
	memset(emu->sq, 0, sizeof(emu->sq));
	memset(emu->cq, 0, sizeof(emu->cq));
	for (uint64_t at = G4_NVME_DOORBELLS; at < REGISTER_BYTES; at += 4)
		put32(emu, at, 0);
	put32(emu, G4_NVME_CSTS, 0);
}

static void enable(struct g4_emu *emu)
{
	const uint32_t aqa = get32(emu, G4_NVME_AQA);

	emu->enabled = true;
	if (emu->options.lies & G4_EMU_NEVER_READY)
		return;
	emu->sq[0] = (struct submission){
		.entries = memory_at(emu, get64(emu, G4_NVME_ASQ)), .size = (aqa & 0xfff) + 1, .on = true};
	emu->cq[0] = (struct completion){.entries = memory_at(emu, get64(emu, G4_NVME_ACQ)),
					 .size = (aqa >> 16 & 0xfff) + 1,
					 .phase = 1,
					 .on = true};
	const bool bad = get64(emu, G4_NVME_ASQ) == 0 || get64(emu, G4_NVME_ACQ) == 0 ||
			 (emu->options.lies & G4_EMU_FAILS_AT_ONCE);
	emu->dead = bad;
	put32(emu, G4_NVME_CSTS, bad ? G4_NVME_CSTS_CFS : G4_NVME_CSTS_RDY);
}

/* What the host has asked for in CC. */
static void see_control(struct g4_emu *emu)
{
	const uint32_t cc = get32(emu, G4_NVME_CC), csts = get32(emu, G4_NVME_CSTS);

	if (csts == G4_NVME_GONE)
		return;
	if (!(cc & G4_NVME_CC_EN) && emu->enabled) {
		emu->dead = false;
		reset(emu);
	} else if ((cc & G4_NVME_CC_EN) && !emu->enabled) {
		enable(emu);
	} else if ((cc & G4_NVME_CC_SHN_MASK) && emu->held_count == 0 && !(csts & G4_NVME_CSTS_SHST_MASK)) {
		struct g4_io flush = {.op = G4_IO_FLUSH};
		g4_emu_end_loan(&emu->options, &emu->loan, true);
		for (uint32_t nsid = 1; has_namespace(emu, nsid); nsid++)
			(void)on_medium(emu, nsid, &flush); /* nobody is told; a host that wants to know has flushed */
		put32(emu, G4_NVME_CSTS, csts | G4_NVME_CSTS_SHST_DONE);
	}
}

/* Looks at all registers once. False: there was nothing to do. */
static bool look(struct g4_emu *emu, uint64_t now)
{
	uint32_t count = 0;

	see_control(emu);
	for (uint32_t i = 0; i < QUEUES && !emu->dead; i++)
		if (emu->sq[i].on)
			count += take(emu, i, now);
	if (!emu->dead && emu->held_count > 0)
		count += work(emu, now);
	if (emu->told)
		rewrite(emu);
	if (!emu->dead && emu->sq[0].on)
		count += tell_event(emu);
	return count > 0 || emu->held_count > 0 || emu->told;
}

/* The same, by the thread that comes first. */
static bool try_look(struct g4_emu *emu)
{
	if (g4_xchg32(&emu->turn, 1) != 0)
		return false;
	const bool done = look(emu, g4_monotonic_ns());
	g4_store32_rel(&emu->turn, 0);
	return done;
}

static bool be_controller(void *context)
{
	return try_look(context);
}

static void *run(void *context)
{
	struct g4_emu *emu = context;
	uint32_t idle = 0;
	uint64_t nap_ns = NAP_NS;

	while (!g4_load32_acq(&emu->stopping)) {
		if (try_look(emu)) {
			idle = 0;
			nap_ns = NAP_NS;
			continue;
		}
		const bool awake = g4_load32_rlx(&emu->awake);
		if (++idle < (awake ? LOOKS_AWAKE : LOOKS))
			continue;
		g4_xchg32(&emu->asleep, 1);
		if (!try_look(emu) && !g4_load32_acq(&emu->stopping))
			futex_wait(&emu->asleep, 1, awake ? NAP_AWAKE_NS : nap_ns);
		if (g4_xchg32(&emu->asleep, 0) == 0 || g4_load32_rlx(&emu->untold))
			nap_ns = NAP_NS;
		else
			nap_ns = g4_min64(2 * nap_ns, NAP_MOST_NS);
	}
	return NULL;
}

static void halt(void *context)
{
	struct g4_emu *emu = context;

	if (!emu->runs)
		return;
	g4_store32_rel(&emu->stopping, 1);
	rung(emu);
	pthread_join(emu->thread, NULL);
	while (g4_xchg32(&emu->turn, 1) != 0) /* and nobody else has it from now on */
		g4_pause();
	emu->runs = false;
}

static void close_emu(void *context)
{
	struct g4_emu *emu = context;

	halt(emu);
	g4_wg_destroy(emu->wg);
	g4_memory_unmap(emu->registers, REGISTER_BYTES);
	pthread_mutex_destroy(&emu->lock);
	for (uint32_t i = 0; i < NAMESPACES; i++)
		if (emu->media[i])
			emu->media[i]->ops->close(emu->media[i]);
	free(emu);
}

int g4_emu_open(struct g4_dev *medium, const struct g4_emu_options *options, struct g4_emu **out,
		struct g4_nvme_provider *provider)
{
	struct g4_emu *emu = calloc(1, sizeof(*emu));
	const uint32_t sector = medium->props.sector_bytes;

	if (!emu)
		return -G4_E_NOMEM;
	if (options)
		emu->options = *options;
	pthread_mutex_init(&emu->lock, NULL);
	emu->block_shift = g4_max64(sector, emu->options.block_bytes) > 512 ? 12 : 9;
	emu->random = 1;
	emu->awake = emu->untold = emu->options.drive;
	emu->blocks_at_start = emu->blocks[0] = medium->props.size_bytes >> emu->block_shift;
	emu->blocks[1] = emu->options.second ? emu->options.second->props.size_bytes >> emu->block_shift : 0;
	emu->wg = g4_wg_create(0);
	emu->registers = g4_memory_map(REGISTER_BYTES);
	if (emu->wg && emu->registers) {
		set_capabilities(emu);
		emu->media[0] = medium;
		emu->media[1] = emu->options.second;
		emu->runs = g4_thread_start(&emu->thread, run, emu) == 0;
	}
	if (!emu->runs) {
		emu->media[0] = emu->media[1] = NULL;
		close_emu(emu);
		return -G4_E_NOMEM;
	}
	*out = emu;
	*provider = (struct g4_nvme_provider){.registers = emu->registers,
					      .register_bytes = REGISTER_BYTES,
					      .context = emu,
					      .rung = rung,
					      .work = be_controller,
					      .vectors = QUEUES,
					      .listen = count_interrupts,
					      .stay_awake = stay_awake,
					      .halt = halt,
					      .close = close_emu,
					      .asked = -1,
					      .failed = -1};
	if (emu->options.drive) {
		provider->rung = NULL;
		provider->work = NULL;
		provider->stay_awake = NULL;
	}
	return 0;
}

void g4_emu_set(struct g4_emu *emu, const struct g4_emu_faults *faults)
{
	pthread_mutex_lock(&emu->lock);
	emu->faults = emu->set = *faults;
	pthread_mutex_unlock(&emu->lock);
	rung(emu);
}

uint32_t g4_emu_awaited(struct g4_emu *emu)
{
	return g4_load32_acq(&emu->request_count);
}
