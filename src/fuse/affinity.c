/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that follow their caller.
 *
 * A small request takes the engine about a microsecond; handing it to a worker on another processor and waking the caller
 * there again takes ten to thirty, most of all in a virtual machine. The kernel leaves a woken thread on the processor
 * where it ran last if that is idle, and so keeps a caller and its worker apart for ever. Therefore a worker that served
 * several small requests in a row for one thread restricts itself to that thread's processor, where the hand-over is a
 * context switch. It looks again every few milliseconds, because callers move.
 *
 * A large read or write, or another caller, ends it: then there is work to do in parallel, and the scheduler knows best.
 * So does a caller that was woken elsewhere: as long as another processor is idle, the kernel prefers that one for it, and
 * we would chase it in vain. The gain is therefore one of busy machines.
 * Each worker decides from the requests it saw itself; nothing is shared. Whatever fails leaves the worker free.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "fuse/server.h"

#define STREAK_REQUESTS 4
#define LOOK_PERIOD_NS (UINT64_C(4) * 1000 * 1000)
#define REST_NS (UINT64_C(1000) * 1000 * 1000)
#define LARGE_BYTES (64 * G4_KIB)
#define STAT_FIELD_STATE 3
#define STAT_FIELD_PROCESSOR 39

/* The processor on which a thread runs or ran last; -1: unknown. */
static int processor_of(uint32_t thread_id)
{
	char path[64], text[1024], *at;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", thread_id, thread_id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return -1;
	text[bytes] = '\0';
	at = strrchr(text, ')'); /* the program's name may hold anything */
	for (int field = STAT_FIELD_STATE - 1; at && field < STAT_FIELD_PROCESSOR; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at + 1) : -1;
}

static bool is_large(const struct fuse_in_header *in)
{
	const struct fuse_read_in *read_in = (const struct fuse_read_in *)(in + 1);

	return in->len > LARGE_BYTES || (in->opcode == FUSE_READ && read_in->size > LARGE_BYTES);
}

static void set_free(struct g4_fuse_thread *self)
{
	if (self->processor >= 0)
		(void)sched_setaffinity(0, sizeof(self->host->processors), &self->host->processors);
	self->processor = -1;
	self->streak = 0;
}

static void go_to(struct g4_fuse_thread *self, int processor)
{
	cpu_set_t set;

	if (processor == self->processor)
		return;
	if (processor < 0 || processor >= CPU_SETSIZE || !CPU_ISSET(processor, &self->host->processors))
		return;
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set) == 0)
		self->processor = processor;
}

/* Before workers start. */
void g4_fuse_affinity_init(struct g4_fuse_host *host)
{
	if (sched_getaffinity(0, sizeof(host->processors), &host->processors) < 0)
		CPU_ZERO(&host->processors);
}

/* The calling worker has read this request. */
void g4_fuse_affinity(struct g4_fuse_thread *self, const struct fuse_in_header *in)
{
	uint64_t now;
	int processor;

	if (is_large(in) || (in->pid != 0 && in->pid != self->caller)) {
		set_free(self);
		self->caller = in->pid;
		return;
	}
	if (in->pid == 0 || self->streak++ < STREAK_REQUESTS) /* 0: the kernel itself, which does not wait */
		return;
	now = g4_clock_ns(CLOCK_MONOTONIC_COARSE);
	if (now < self->look_ns)
		return;
	processor = processor_of(in->pid);
	self->look_ns = now + LOOK_PERIOD_NS;
	if (self->processor < 0 || self->processor == processor) {
		go_to(self, processor);
		return;
	}
	set_free(self);
	self->look_ns = now + REST_NS;
}
