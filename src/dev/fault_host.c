/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault device: wraps another and does to it what power cuts, bad drives and slow drives do. For tests.
 *
 * Writes are collected in a log (fault_log_host.h) and reach the wrapped device at a flush, or, as far as they survive, at
 * the power cut. Reads see the newest data until then. Requests are executed inside submit under one lock, so their order
 * is the order of submission; a delay is spent in wait, so delayed requests overlap. In a record io->queue is 1 + the
 * request's number until it is complete, else 0.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log_host.h"
#include "dev/fault_log_host.h"

struct record {
	bool on;
	struct g4_fault_op **ops; /* each one allocation, with its data: their addresses stay */
	uint64_t count;
	uint64_t capacity;
};

struct fault {
	pthread_mutex_t lock;
	struct g4_dev *inner;
	uint32_t owners;
	bool powered;
	struct g4_fault set; /* counters in it run down */
	struct g4_fault_log log;
	struct record record;
	g4_fault_watcher watcher, done_watcher;
	void *watcher_context;
	uint64_t reads;
	uint64_t writes;
	uint64_t flushes;
};

/* ---- recording ---- */

static void record_clear(struct record *record)
{
	for (uint64_t i = 0; i < record->count; i++)
		free(record->ops[i]);
	free(record->ops);
	*record = (struct record){.on = record->on};
}

static uint64_t vector_bytes(const struct g4_iov *iov, uint32_t iov_count)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < iov_count; i++)
		bytes += iov[i].bytes;
	return bytes;
}

static struct g4_fault_op *record_make(const struct g4_io *io, uint64_t bytes)
{
	bool data = io->op == G4_IO_WRITE;
	struct g4_fault_op *op = malloc(sizeof(*op) + (data ? bytes : 0));
	if (!op)
		return NULL;
	uint8_t *to = (uint8_t *)(op + 1);
	*op = (struct g4_fault_op){.op = io->op,
				   .flags = io->flags,
				   .offset_bytes = io->op == G4_IO_FLUSH ? 0 : io->offset_bytes,
				   .bytes = bytes,
				   .data = data ? to : NULL,
				   .done_at = UINT64_MAX};
	for (uint32_t i = 0; data && i < io->iov_count; i++) {
		if (io->iov[i].bytes)
			memcpy(to, io->iov[i].base, io->iov[i].bytes);
		to += io->iov[i].bytes;
	}
	return op;
}

static int record_add(struct record *record, const struct g4_io *io, uint64_t bytes)
{
	if (!record->on)
		return 0;
	if (record->count == record->capacity) {
		uint64_t capacity = record->capacity ? record->capacity * 2 : 64;
		struct g4_fault_op **ops = reallocarray(record->ops, capacity, sizeof(struct g4_fault_op *));
		if (!ops)
			return -G4_E_NOMEM;
		record->ops = ops;
		record->capacity = capacity;
	}
	struct g4_fault_op *op = record_make(io, bytes);
	if (!op)
		return -G4_E_NOMEM;
	record->ops[record->count++] = op;
	return 0;
}

/* Under the lock: from now on the submitter sees that it is complete. */
static void record_done(struct fault *fault, const struct g4_io *io)
{
	struct record *record = &fault->record;

	if (io->queue > 0 && io->queue <= record->count)
		record->ops[io->queue - 1]->done_at = record->count;
	if (fault->done_watcher)
		fault->done_watcher(fault->watcher_context, io);
}

/* ---- executing, under the lock ---- */

/* True when a counter of "the n-th from now" has run out. */
static bool count_down(uint64_t *counter)
{
	return *counter > 0 && --*counter == 0;
}

static int cut(struct fault *fault)
{
	enum g4_fault_survival survival = G4_FAULT_KEEP;
	if (!fault->powered)
		return 0;
	if (!fault->set.keep_unflushed)
		survival = fault->set.seed ? G4_FAULT_SUBSET : G4_FAULT_DROP;
	fault->powered = false;
	return g4_fault_log_apply(&fault->log, survival, fault->set.seed, fault->inner);
}

static bool is_bad(const struct fault *fault, const struct g4_io *io)
{
	const uint64_t from = fault->set.bad_at, to = from + fault->set.bad_bytes;

	return io->offset_bytes < to && from < io->offset_bytes + vector_bytes(io->iov, io->iov_count);
}

static int execute_read(struct fault *fault, const struct g4_io *io)
{
	fault->reads++;
	if (count_down(&fault->set.fail_read_at) || is_bad(fault, io))
		return -G4_E_IO;
	int code = g4_fault_inner_transfer(fault->inner, G4_IO_READ, io->offset_bytes, io->iov, io->iov_count);
	if (code == 0)
		g4_fault_log_overlay(&fault->log, io->offset_bytes, io->iov, io->iov_count);
	return code;
}

static int execute_write(struct fault *fault, const struct g4_io *io)
{
	uint64_t bytes = vector_bytes(io->iov, io->iov_count);
	bool fails = count_down(&fault->set.fail_write_at);
	bool cuts = count_down(&fault->set.cut_after_writes);
	bool inside = cuts && fault->set.cut_inside;
	int code = 0;
	fault->writes++;
	if (!fails && fault->set.write_through && !cuts)
		code = g4_fault_inner_transfer(fault->inner, G4_IO_WRITE, io->offset_bytes, io->iov, io->iov_count);
	else if (!fails)
		code = g4_fault_log_append(&fault->log, io->offset_bytes, bytes, io->iov,
					   ((io->flags & G4_IO_FUA) || fault->set.write_through) && !inside);
	if (!fails && code == 0 && !inside)
		code = record_add(&fault->record, io, bytes);
	if (cuts) {
		int cut_code = cut(fault);
		code = code == 0 ? cut_code : code;
	}
	return fails || inside ? -G4_E_IO : code;
}

static int execute_flush(struct fault *fault, const struct g4_io *io)
{
	fault->flushes++;
	if (count_down(&fault->set.fail_flush_at))
		return -G4_E_IO;
	int code = g4_fault_log_apply(&fault->log, G4_FAULT_KEEP, 0, fault->inner);
	if (code == 0)
		code = g4_fault_inner_flush(fault->inner);
	return code == 0 ? record_add(&fault->record, io, 0) : code;
}

/* The harshest discard that is allowed: the contents are gone at once, but come back if a cut undoes it. */
static int execute_discard(struct fault *fault, const struct g4_io *io)
{
	int code =
		g4_fault_log_append(&fault->log, io->offset_bytes, io->discard_bytes, NULL, fault->set.write_through);
	return code == 0 ? record_add(&fault->record, io, io->discard_bytes) : code;
}

static int execute(struct fault *fault, const struct g4_io *io)
{
	if (!fault->powered)
		return -G4_E_IO;
	if (fault->watcher)
		fault->watcher(fault->watcher_context, io);
	switch (io->op) {
	case G4_IO_READ:
		return execute_read(fault, io);
	case G4_IO_WRITE:
		return execute_write(fault, io);
	case G4_IO_FLUSH:
		return execute_flush(fault, io);
	default:
		return execute_discard(fault, io);
	}
}

/* ---- requests ---- */

static void submit_one(struct fault *fault, struct g4_io *io)
{
	pthread_mutex_lock(&fault->lock);
	uint64_t delay = fault->set.delay_ns, before = fault->record.count;
	io->result = execute(fault, io);
	io->queue = fault->record.count > before ? (uint32_t)fault->record.count : 0;
	if (!delay)
		record_done(fault, io);
	pthread_mutex_unlock(&fault->lock);
	io->cookie = delay ? g4_monotonic_ns() + delay : 0; /* when it completes */
	if (!delay)
		g4_store32_rel(&io->done, 1);
}

static void fault_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	(void)wg;
	for (struct g4_io *io = first; io; io = io->next) {
		if (!g4_load32_acq(&io->done))
			submit_one(dev->host, io);
	}
}

static void complete(struct g4_dev *dev, struct g4_io *io)
{
	struct fault *fault = dev->host;
	pthread_mutex_lock(&fault->lock);
	record_done(fault, io);
	pthread_mutex_unlock(&fault->lock);
	g4_store32_rel(&io->done, 1);
}

static void fault_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	if (g4_monotonic_ns() >= io->cookie)
		complete(dev, io);
}

static void fault_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	struct timespec due = {.tv_sec = (time_t)(io->cookie / 1000000000), .tv_nsec = (long)(io->cookie % 1000000000)};
	while (!g4_load32_acq(&io->done) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		continue;
	if (!g4_load32_acq(&io->done))
		complete(dev, io);
}

/* Another fault device around this one needs no workgroup. */
static int execute_alone(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	submit_one(dev->host, io);
	fault_wait(NULL, dev, io);
	return io->result;
}

/* ---- settings and queries ---- */

static struct fault *lock(const struct g4_dev *dev)
{
	struct fault *fault = dev->host;
	pthread_mutex_lock(&fault->lock);
	return fault;
}

static void unlock(struct fault *fault)
{
	pthread_mutex_unlock(&fault->lock);
}

void g4_dev_fault_set(struct g4_dev *dev, const struct g4_fault *settings)
{
	struct fault *fault = lock(dev);
	fault->set = *settings;
	dev->props.volatile_cache = !settings->write_through;
	unlock(fault);
}

int g4_dev_fault_cut(struct g4_dev *dev)
{
	struct fault *fault = lock(dev);
	int code = cut(fault);
	unlock(fault);
	return code;
}

void g4_dev_fault_power_on(struct g4_dev *dev)
{
	struct fault *fault = lock(dev);
	fault->powered = true;
	unlock(fault);
}

void g4_dev_fault_counts(const struct g4_dev *dev, uint64_t *reads, uint64_t *writes, uint64_t *flushes)
{
	struct fault *fault = lock(dev);
	*reads = fault->reads;
	*writes = fault->writes;
	*flushes = fault->flushes;
	unlock(fault);
}

/* One byte of the sector at `offset`, in the wrapped device. */
static int flip_inner(struct g4_dev *inner, uint64_t offset, uint8_t mask)
{
	void *sector = NULL;
	uint64_t bytes = inner->props.sector_bytes;
	uint64_t start = g4_align_down(offset, bytes);
	if (posix_memalign(&sector, G4_PAGE_BYTES, G4_PAGE_BYTES) != 0)
		return -G4_E_NOMEM;
	struct g4_iov iov = {.base = sector, .bytes = bytes};
	int code = g4_fault_inner_transfer(inner, G4_IO_READ, start, &iov, 1);
	if (code == 0) {
		((uint8_t *)sector)[offset - start] ^= mask;
		code = g4_fault_inner_transfer(inner, G4_IO_WRITE, start, &iov, 1);
	}
	free(sector);
	return code;
}

int g4_dev_fault_flip(struct g4_dev *dev, uint64_t offset, uint8_t mask)
{
	if (offset >= dev->props.size_bytes)
		return -G4_E_DEV_RANGE;
	struct fault *fault = lock(dev);
	struct g4_fault_entry *entry = g4_fault_log_newest(&fault->log, offset);
	int code = 0;
	if (entry && entry->data) {
		entry->data[offset - entry->offset] ^= mask;
	} else {
		/* Discarded sectors have no memory to flip: let them reach the medium first. */
		code = entry ? g4_fault_log_apply(&fault->log, G4_FAULT_KEEP, 0, fault->inner) : 0;
		code = code == 0 ? flip_inner(fault->inner, offset, mask) : code;
	}
	unlock(fault);
	return code;
}

void g4_dev_fault_record(struct g4_dev *dev, bool on)
{
	struct fault *fault = lock(dev);
	fault->record.on = on;
	if (on)
		record_clear(&fault->record);
	unlock(fault);
}

void g4_dev_fault_watch(struct g4_dev *dev, g4_fault_watcher watcher, void *context)
{
	struct fault *fault = lock(dev);
	fault->watcher = watcher;
	fault->watcher_context = context;
	unlock(fault);
}

void g4_dev_fault_watch_done(struct g4_dev *dev, g4_fault_watcher watcher)
{
	struct fault *fault = lock(dev);
	fault->done_watcher = watcher;
	unlock(fault);
}

uint64_t g4_dev_fault_recorded(const struct g4_dev *dev)
{
	struct fault *fault = lock(dev);
	uint64_t count = fault->record.count;
	unlock(fault);
	return count;
}

const struct g4_fault_op *g4_dev_fault_recorded_op(const struct g4_dev *dev, uint64_t index)
{
	struct fault *fault = lock(dev);
	const struct g4_fault_op *op = index < fault->record.count ? fault->record.ops[index] : NULL;
	unlock(fault);
	return op;
}

/* ---- opening and closing ---- */

struct g4_dev *g4_dev_fault_unwrap(struct g4_dev *dev)
{
	struct fault *fault = dev->host;
	struct g4_dev *inner = fault->inner;
	int code = g4_fault_log_apply(&fault->log, G4_FAULT_KEEP, 0, inner);
	if (code != 0)
		g4_log(G4_LOG_ERROR, "fault device: unflushed writes are lost: %s", g4_strerror(code));
	g4_fault_log_clear(&fault->log);
	record_clear(&fault->record);
	pthread_mutex_destroy(&fault->lock);
	free(fault);
	free(dev);
	return inner;
}

static void close_fault(struct g4_dev *dev)
{
	struct fault *fault = lock(dev);
	bool last = --fault->owners == 0;
	unlock(fault);
	if (last)
		g4_dev_close(g4_dev_fault_unwrap(dev));
}

static const struct g4_dev_ops fault_ops = {
	.submit = fault_submit, .poll = fault_poll, .wait = fault_wait, .execute = execute_alone, .close = close_fault};

int g4_dev_fault_open(struct g4_dev *inner, struct g4_dev **out)
{
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct fault *fault = calloc(1, sizeof(*fault));
	if (!dev || !fault || pthread_mutex_init(&fault->lock, NULL) != 0) {
		free(fault);
		free(dev);
		return -G4_E_NOMEM;
	}
	fault->inner = inner;
	fault->owners = 1;
	fault->powered = true;
	fault->log.sector_bytes = inner->props.sector_bytes;
	dev->ops = &fault_ops;
	dev->host = fault;
	dev->props = inner->props;
	dev->props.mapped = false;
	dev->props.volatile_cache = true;
	dev->props.discard = !inner->props.read_only;
	*out = dev;
	return 0;
}

void g4_dev_fault_share(struct g4_dev *dev)
{
	struct fault *fault = lock(dev);
	fault->owners++;
	unlock(fault);
}
