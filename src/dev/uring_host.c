/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queued devices: regular files and block devices through io_uring.
 *
 * A device has a few rings; a workgroup uses the one its index selects, so unrelated workgroups rarely meet on a lock.
 * A ring holds at most RING_DEPTH requests; what exceeds that waits in a list threaded through io->cookie and follows as
 * requests complete. While a request is on the ring, io->cookie counts the bytes transferred so far: a short transfer is
 * continued from there until the request is complete.
 *
 * Nobody reaps on behalf of a device: the threads that wait do it. Of those waiting on a ring one is the *reaper*: it
 * sleeps in the kernel without the lock, then completes requests for everyone. The others are parked, each on its own
 * condition variable. Invariants, under ring->lock:
 *     - only the reaper, or a thread that holds the lock while there is none, consumes completions. So a reaper asleep in
 *       the kernel always finds the completions it sleeps for;
 *     - a parked waiter is woken by the thread that completes its request;
 *     - a waiter that leaves while others are parked and nobody reaps wakes one, which becomes the reaper.
 * A request's memory may be gone as soon as its `done` is set: that store is the last touch.
 *
 * A device that one thread has for itself gets a ring of its own (g4_queued_own()). There the kernel may leave completions
 * until that thread asks for them, instead of interrupting its sleep for each; buffers may be registered, so that requests
 * find their pages already pinned; and requests may be held back to be submitted together.
 *
 * Where io_uring is not available, requests are executed by system calls inside submit.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/dev_ops_host.h"

#define RING_DEPTH 256u
#define RINGS_MAX 64u
#define RINGS_DEFAULT_MAX 8u
#define ENTRY_MAX_BYTES (UINT64_C(1) << 30) /* one non-vectored request: the kernel's length field is 32 bits wide */
#define RETRY_NS 1000000

/* What is relied on: no lost completions, vectors read at submission, plain reads and writes; Linux 5.7. */
#define FEATURES_NEEDED (IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_FAST_POLL)

struct waiter {
	struct waiter *next;
	struct g4_io *io;
	pthread_cond_t wake;
	bool woken;
};

struct ring {
	_Alignas(64) pthread_mutex_t lock;
	struct io_uring uring;
	bool reaping;
	bool deferred;	       /* completions are left in the kernel until somebody enters it */
	bool held;	       /* requests are prepared but not submitted */
	bool timed;	       /* waiting may have a time limit that takes no place in the ring; Linux 5.11 */
	uint32_t inflight;     /* prepared and not complete; at most RING_DEPTH */
	struct g4_io *backlog; /* not prepared yet, oldest first */
	struct g4_io *backlog_end;
	struct waiter *parked;
};

struct queued {
	struct g4_file file; /* first: transfer_host.c looks here */
	uint32_t ring_count; /* 0: no io_uring, requests are synchronous */
	struct ring *rings;
	struct ring *own;			     /* of the only thread there is; the others are unused then */
	struct g4_iov registered[G4_QUEUED_BUFFERS]; /* with it; 0 bytes: none */
};

static struct ring *ring_of(const struct queued *queued, uint32_t index)
{
	return queued->own ? queued->own : &queued->rings[index];
}

/* ---- completing ---- */

static void finish(struct g4_io *io, int result)
{
	io->result = result;
	g4_store32_rel(&io->done, 1);
}

/* Takes the waiter at `link` off the list and lets it go on. */
static void wake(struct waiter **link)
{
	struct waiter *waiter = *link;
	*link = waiter->next;
	waiter->woken = true;
	pthread_cond_signal(&waiter->wake);
}

static void wake_finished(struct ring *ring)
{
	struct waiter **link = &ring->parked;
	while (*link) {
		if (g4_load32_acq(&(*link)->io->done))
			wake(link);
		else
			link = &(*link)->next;
	}
}

/* ---- preparing, under ring->lock ---- */

/* The registered buffer that memory lies in; -1: none. */
static int registered_buffer(const struct queued *queued, const void *base, uint64_t bytes)
{
	for (int i = 0; queued->own && i < (int)G4_QUEUED_BUFFERS; i++) {
		uint64_t at = (uintptr_t)base - (uintptr_t)queued->registered[i].base;
		if (at < queued->registered[i].bytes && bytes <= queued->registered[i].bytes - at)
			return i;
	}
	return -1;
}

static void prepare_transfer(const struct queued *queued, struct io_uring_sqe *sqe, const struct g4_io *io)
{
	struct g4_iov_part part = {0};
	(void)g4_iov_next(io->iov, io->iov_count, io->cookie, &part); /* true: complete requests are not prepared */
	uint64_t offset = io->offset_bytes + io->cookie;
	const struct g4_iov *entry = &io->iov[part.index];
	if (part.count == 1) {
		void *base = (char *)entry->base + part.within_bytes;
		unsigned bytes = (unsigned)g4_min64(entry->bytes - part.within_bytes, ENTRY_MAX_BYTES);
		int buffer = registered_buffer(queued, base, bytes);
		if (buffer >= 0 && io->op == G4_IO_READ)
			io_uring_prep_read_fixed(sqe, queued->file.fd, base, bytes, offset, buffer);
		else if (buffer >= 0)
			io_uring_prep_write_fixed(sqe, queued->file.fd, base, bytes, offset, buffer);
		else if (io->op == G4_IO_READ)
			io_uring_prep_read(sqe, queued->file.fd, base, bytes, offset);
		else
			io_uring_prep_write(sqe, queued->file.fd, base, bytes, offset);
	} else {
		const struct iovec *vector = (const struct iovec *)entry;
		if (io->op == G4_IO_READ)
			io_uring_prep_readv(sqe, queued->file.fd, vector, part.count, offset);
		else
			io_uring_prep_writev(sqe, queued->file.fd, vector, part.count, offset);
	}
	if (io->op == G4_IO_WRITE && (io->flags & G4_IO_FUA))
		sqe->rw_flags = RWF_DSYNC;
}

/* The submission ring has a free entry: it has RING_DEPTH of them and `io` is counted in inflight. */
static void prepare(const struct queued *queued, struct ring *ring, struct g4_io *io)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	switch (io->op) {
	case G4_IO_FLUSH:
		io_uring_prep_fsync(sqe, queued->file.fd, IORING_FSYNC_DATASYNC);
		break;
	case G4_IO_DISCARD:
		io_uring_prep_fallocate(sqe, queued->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)io->offset_bytes, (off_t)io->discard_bytes);
		break;
	default:
		prepare_transfer(queued, sqe, io);
	}
	io_uring_sqe_set_data(sqe, io);
}

static void backlog_append(struct ring *ring, struct g4_io *io)
{
	io->cookie = 0;
	if (ring->backlog)
		ring->backlog_end->cookie = (uintptr_t)io;
	else
		ring->backlog = io;
	ring->backlog_end = io;
}

/*
 * Prepares what fits and gives it to the kernel. What the kernel does not take now (it is short of memory) stays in the
 * submission ring; reap() tries again.
 */
static void push(const struct queued *queued, struct ring *ring)
{
	while (ring->backlog && ring->inflight < RING_DEPTH) {
		struct g4_io *io = ring->backlog;
		ring->backlog = io == ring->backlog_end ? NULL : (struct g4_io *)(uintptr_t)io->cookie;
		io->cookie = 0;
		ring->inflight++;
		prepare(queued, ring, io);
	}
	while (!ring->held && io_uring_sq_ready(&ring->uring) > 0 && io_uring_submit(&ring->uring) > 0)
		continue;
}

/* ---- reaping, under ring->lock ---- */

/* The kernel gave up on a request through no fault of the request: signals, memory, the exit of its submitter. */
static bool transient(int result)
{
	return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

/* Takes the result of a system call in. Returns true when the request goes back to the kernel for the rest. */
static bool advance(const struct g4_dev *dev, struct g4_io *io, int result, int *code)
{
	struct g4_iov_part part;
	*code = 0;
	if (transient(result))
		return true;
	if (result < 0) {
		*code = g4_dev_code(-result);
		return false;
	}
	if (io->op != G4_IO_READ && io->op != G4_IO_WRITE)
		return false;
	/* O_DIRECT continues at whole sectors only. No progress: the file has become shorter. */
	uint64_t sectors = g4_align_down((uint64_t)result, dev->props.sector_bytes);
	if (sectors == 0) {
		*code = -G4_E_IO;
		return false;
	}
	io->cookie += sectors;
	return g4_iov_next(io->iov, io->iov_count, io->cookie, &part);
}

/* Completes what the kernel has finished and refills the ring. */
static void collect(const struct g4_dev *dev, struct ring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head;
	unsigned count = 0;
	if (ring->deferred)
		(void)io_uring_peek_cqe(&ring->uring, &cqe); /* enters the kernel if there is something to fetch */
	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		struct g4_io *io = io_uring_cqe_get_data(cqe);
		int code;
		if (advance(dev, io, cqe->res, &code)) {
			prepare(dev->host, ring, io);
		} else {
			ring->inflight--;
			finish(io, code);
		}
		count++;
	}
	io_uring_cq_advance(&ring->uring, count);
	push(dev->host, ring);
	wake_finished(ring);
}

static void retry_later(void)
{
	const struct timespec delay = {.tv_sec = 0, .tv_nsec = RETRY_NS};
	nanosleep(&delay, NULL);
}

/*
 * Waits for `most` completions, or as many as there will be, as the reaper; drops the lock meanwhile. `longest`: the time
 * after which it gives up, NULL: never.
 */
static void reap(const struct g4_dev *dev, struct ring *ring, uint32_t most, struct __kernel_timespec *longest)
{
	struct io_uring_cqe *cqe;
	ring->reaping = true;
	push(dev->host, ring);
	uint32_t in_kernel = ring->inflight - io_uring_sq_ready(&ring->uring);
	pthread_mutex_unlock(&ring->lock);
	int result = -EAGAIN;
	if (in_kernel > 0)
		result = io_uring_wait_cqes(&ring->uring, &cqe, most < in_kernel ? most : in_kernel, longest, NULL);
	if (result != 0 && result != -EINTR && result != -ETIME)
		retry_later();
	pthread_mutex_lock(&ring->lock);
	collect(dev, ring);
	ring->reaping = false;
}

static void park(struct ring *ring, struct waiter *waiter)
{
	waiter->woken = false;
	waiter->next = ring->parked;
	ring->parked = waiter;
	while (!waiter->woken)
		pthread_cond_wait(&waiter->wake, &ring->lock);
}

/* ---- requests ---- */

/* Requests that never enter a ring: empty ones, and discards of block devices, which io_uring of older kernels lacks. */
static bool execute_at_once(const struct queued *queued, struct g4_io *io)
{
	struct g4_iov_part part;
	if (io->op == G4_IO_DISCARD && (queued->file.block_device || io->discard_bytes == 0)) {
		finish(io, g4_file_discard(&queued->file, io->offset_bytes, io->discard_bytes));
		return true;
	}
	if ((io->op == G4_IO_READ || io->op == G4_IO_WRITE) && !g4_iov_next(io->iov, io->iov_count, 0, &part)) {
		finish(io, 0);
		return true;
	}
	return false;
}

static void submit_synchronously(struct g4_dev *dev, struct g4_io *first)
{
	for (struct g4_io *io = first; io; io = io->next) {
		if (!g4_load32_acq(&io->done))
			finish(io, g4_file_execute(NULL, dev, io));
	}
}

static void queued_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	struct queued *queued = dev->host;
	if (queued->ring_count == 0) {
		submit_synchronously(dev, first);
		return;
	}
	uint32_t index = g4_wg_index(wg) % queued->ring_count;
	struct ring *ring = ring_of(queued, index);
	for (struct g4_io *io = first; io; io = io->next) {
		if (!g4_load32_acq(&io->done))
			(void)execute_at_once(queued, io);
	}
	pthread_mutex_lock(&ring->lock);
	for (struct g4_io *io = first; io; io = io->next) {
		if (g4_load32_acq(&io->done))
			continue;
		io->queue = index;
		backlog_append(ring, io);
	}
	push(queued, ring);
	pthread_mutex_unlock(&ring->lock);
}

static void queued_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	struct queued *queued = dev->host;
	struct ring *ring = ring_of(queued, io->queue);
	struct waiter waiter = {.io = io, .wake = PTHREAD_COND_INITIALIZER};
	pthread_mutex_lock(&ring->lock);
	while (!g4_load32_acq(&io->done)) {
		if (ring->reaping)
			park(ring, &waiter);
		else
			reap(dev, ring, 1, NULL);
	}
	if (!ring->reaping && ring->parked)
		wake(&ring->parked);
	pthread_mutex_unlock(&ring->lock);
	pthread_cond_destroy(&waiter.wake);
}

static void queued_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	struct queued *queued = dev->host;
	struct ring *ring = ring_of(queued, io->queue);
	pthread_mutex_lock(&ring->lock);
	if (!ring->reaping)
		collect(dev, ring);
	pthread_mutex_unlock(&ring->lock);
}

void g4_queued_doze(struct g4_dev *dev, uint32_t most, uint64_t ns)
{
	struct queued *queued = dev->host;
	struct ring *ring = queued->ring_count ? ring_of(queued, 0) : NULL;
	struct __kernel_timespec longest = {.tv_nsec = (long long)ns};
	const struct timespec time = {.tv_nsec = (long)ns};
	bool waits = false;
	if (ring) {
		pthread_mutex_lock(&ring->lock);
		waits = ring->timed && !ring->reaping && ring->inflight > 0;
		if (waits)
			reap(dev, ring, most, &longest);
		if (waits && ring->parked)
			wake(&ring->parked);
		pthread_mutex_unlock(&ring->lock);
	}
	if (!waits)
		nanosleep(&time, NULL);
}

/* ---- opening and closing ---- */

static int ring_open(struct ring *ring, unsigned flags)
{
	struct io_uring_params params = {.flags = IORING_SETUP_CLAMP | flags};
	int code = io_uring_queue_init_params(RING_DEPTH, &ring->uring, &params);
	if (code < 0)
		return code;
	if ((params.features & FEATURES_NEEDED) != FEATURES_NEEDED || params.sq_entries < RING_DEPTH) {
		io_uring_queue_exit(&ring->uring);
		return -ENOSYS;
	}
	ring->timed = params.features & IORING_FEAT_EXT_ARG;
	code = -pthread_mutex_init(&ring->lock, NULL);
	if (code < 0)
		io_uring_queue_exit(&ring->uring);
	return code;
}

static uint32_t rings_wanted(const struct g4_dev_open_options *options)
{
	if (options->queues)
		return (uint32_t)g4_min64(options->queues, RINGS_MAX);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	return cores < 1 ? 1 : (uint32_t)g4_min64((uint64_t)cores, RINGS_DEFAULT_MAX);
}

/* As many rings as the system gives; with none, requests are synchronous. */
static void rings_open(const char *name, struct queued *queued, const struct g4_dev_open_options *options)
{
	static uint32_t said;
	if (options->flags & G4_DEV_SYNCHRONOUS)
		return;
	uint32_t wanted = rings_wanted(options);
	int code = -ENOMEM;
	queued->rings = aligned_alloc(_Alignof(struct ring), wanted * sizeof(struct ring));
	if (queued->rings) {
		memset(queued->rings, 0, wanted * sizeof(struct ring));
		code = 0;
	}
	while (code == 0 && queued->ring_count < wanted) {
		code = ring_open(&queued->rings[queued->ring_count], 0);
		queued->ring_count += code == 0;
	}
	if (queued->ring_count > 0 || g4_xchg32(&said, 1) != 0)
		return;
	errno = -code;
	g4_log(G4_LOG_WARN, "%s: io_uring is not available (%m); requests are executed one at a time", name);
}

static void ring_close(struct ring *ring)
{
	io_uring_queue_exit(&ring->uring);
	pthread_mutex_destroy(&ring->lock);
}

static void close_queued(struct g4_dev *dev)
{
	struct queued *queued = dev->host;
	for (uint32_t i = 0; i < queued->ring_count; i++)
		ring_close(&queued->rings[i]);
	free(queued->rings);
	g4_file_close(&queued->file);
	free(queued);
	free(dev);
}

static const struct g4_dev_ops queued_ops = {.submit = queued_submit,
					     .poll = queued_poll,
					     .wait = queued_wait,
					     .execute = g4_file_execute,
					     .set_size = g4_file_set_size,
					     .close = close_queued};

bool g4_queued_is(const struct g4_dev *dev)
{
	return dev->ops == &queued_ops;
}

static void fill_props(struct g4_dev *dev, const struct queued *queued, uint32_t flags)
{
	uint32_t sector = g4_file_go_direct(&queued->file);
	dev->ops = &queued_ops;
	dev->props.sector_bytes = sector ? sector : 512;
	dev->props.size_bytes = g4_align_down(queued->file.size_bytes, dev->props.sector_bytes);
	dev->props.read_only = flags & G4_DEV_READ_ONLY;
	dev->props.volatile_cache = true;
	dev->props.discard = !dev->props.read_only && g4_file_can_discard(&queued->file);
	dev->props.zeroes = !queued->file.block_device; /* holes; a drive need not */
}

int g4_queued_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out,
		   struct g4_dev_message message)
{
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct queued *queued = calloc(1, sizeof(*queued));
	int code = -G4_E_NOMEM;
	if (!dev || !queued) {
		g4_dev_fail(message, code, "%s: out of memory", name);
		goto free_memory;
	}
	code = g4_file_open(name, name, options, &queued->file, message);
	if (code != 0)
		goto free_memory;
	dev->host = queued;
	fill_props(dev, queued, options->flags);
	rings_open(name, queued, options);
	*out = dev;
	return 0;
free_memory:
	free(queued);
	free(dev);
	return code;
}

/* ---- a device of one thread ---- */

bool g4_queued_own(struct g4_dev *dev)
{
	const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
	struct queued *queued = dev->host;
	struct ring *ring = queued->ring_count ? aligned_alloc(_Alignof(struct ring), sizeof(*ring)) : NULL;
	if (!ring)
		return false;
	memset(ring, 0, sizeof(*ring));
	ring->deferred = ring_open(ring, flags) == 0; /* Linux 6.1 */
	if (!ring->deferred && ring_open(ring, 0) < 0) {
		free(ring);
		return false;
	}
	(void)io_uring_register_buffers_sparse(&ring->uring, G4_QUEUED_BUFFERS); /* Linux 5.19 */
	queued->own = ring;
	return true;
}

void g4_queued_disown(struct g4_dev *dev)
{
	struct queued *queued = dev->host;
	if (!queued->own)
		return;
	ring_close(queued->own);
	free(queued->own);
	queued->own = NULL;
	memset(queued->registered, 0, sizeof(queued->registered));
}

void g4_queued_register(struct g4_dev *dev, uint32_t index, void *base, uint64_t bytes)
{
	struct queued *queued = dev->host;
	const struct iovec buffer = {.iov_base = bytes ? base : NULL, .iov_len = bytes};
	const __u64 tag = 0;
	if (!queued->own)
		return;
	queued->registered[index].bytes = 0;
	if (io_uring_register_buffers_update_tag(&queued->own->uring, index, &buffer, &tag, 1) == 1)
		queued->registered[index] = (struct g4_iov){.base = base, .bytes = bytes};
}

void g4_queued_hold(struct g4_dev *dev, bool hold)
{
	struct queued *queued = dev->host;
	struct ring *ring = queued->own;
	if (!ring)
		return;
	pthread_mutex_lock(&ring->lock);
	ring->held = hold;
	push(queued, ring);
	pthread_mutex_unlock(&ring->lock);
}
