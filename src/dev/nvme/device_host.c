/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of devices that NVMe controllers are (device_host.h): requests.c does the requests; waiting is here, with a
 * look at the controller now and then, so that no wait is for ever.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dev/nvme/device_host.h"
#include "dev/nvme/pci_host.h"
#include "dev/nvme/recovery_host.h"
#include "dev/nvme/vfio_host.h"

#define QUEUE_BITS_AT 57u /* of g4_io.cookie, above what requests.c has there */
#define LOOKS_PER_CHECK 64u
#define LOOKS 4000u /* before naps */
#define LOOKS_AWAKE                                                                                                    \
	50u /* before sleeping until a controller that is a thread has done something: it may need the processor */
#define NAP_NS UINT64_C(50000)
#define LONGEST_NAP_NS UINT64_C(1000000)

/* A workgroup has a queue, so that unrelated ones rarely meet. Requests stay in theirs. */
static struct g4_nvme_queue *queue_for(const struct g4_nvme *nvme, const struct g4_wg *wg)
{
	return &nvme->queues[wg ? g4_wg_index(wg) % nvme->queue_count : 0];
}

static struct g4_nvme_queue *queue_of(const struct g4_nvme *nvme, const struct g4_io *io)
{
	return &nvme->queues[io->cookie >> QUEUE_BITS_AT];
}

static void poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_nvme *nvme = dev->host;

	(void)wg;
	if (g4_nvme_step(queue_of(nvme, io), io, NULL))
		return;
	g4_nvme_rung(nvme); /* more of it may have been started */
	g4_nvme_check(nvme);
}

/*
 * One step of a wait. A thread that sleeps misses a completion that somebody else has taken and not passed on yet, so naps have an end soon
 * and grow.
 */
static void rest(const struct g4_nvme *nvme, uint32_t looks, uint32_t seen, uint64_t *nap_ns)
{
	if (nvme->provider.doze && looks >= LOOKS_AWAKE) {
		nvme->provider.doze(nvme->provider.context, seen, *nap_ns);
		*nap_ns = g4_min64(2 * *nap_ns, LONGEST_NAP_NS);
	} else if (looks < LOOKS) {
		g4_pause();
	} else {
		const struct timespec nap = {.tv_nsec = NAP_NS};
		nanosleep(&nap, NULL); /* ending early does no harm */
	}
}

static uint32_t answers(const struct g4_nvme *nvme)
{
	return nvme->provider.answers ? g4_load32_acq(nvme->provider.answers) : 0;
}

static void wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_nvme *nvme = dev->host;
	struct g4_nvme_queue *queue = queue_of(nvme, io);
	struct g4_nvme_turn turn = {0};
	uint64_t nap_ns = NAP_NS;
	uint32_t seen = answers(nvme);

	(void)wg;
	for (uint32_t looks = 1; !g4_nvme_step(queue, io, &turn); looks++) {
		if (looks % LOOKS_PER_CHECK == 1 || looks >= LOOKS_AWAKE) {
			g4_nvme_rung(nvme); /* more of it may have been started */
			g4_nvme_check(nvme);
		}
		rest(nvme, looks, seen, &nap_ns);
		seen = answers(nvme);
	}
}

/* ---- memory that the controller does not have ---- */

static bool must_copy(const struct g4_nvme *nvme, const struct g4_io *io)
{
	const struct g4_nvme_provider *provider = &nvme->provider;

	if (!provider->reach || (io->op != G4_IO_READ && io->op != G4_IO_WRITE))
		return false;
	for (uint32_t i = 0; i < io->iov_count; i++)
		if (io->iov[i].bytes && !provider->reach(provider->context, io->iov[i].base, io->iov[i].bytes))
			return true;
	return false;
}

/* Between a buffer and what comes at `skip` bytes of a request's data. */
static void copy(const struct g4_io *io, uint64_t skip, uint8_t *buffer, uint64_t bytes)
{
	for (uint32_t i = 0; bytes > 0; i++) {
		const struct g4_iov *part = &io->iov[i];
		if (skip >= part->bytes) {
			skip -= part->bytes;
			continue;
		}
		const uint64_t n = g4_min64(bytes, part->bytes - skip);
		if (io->op == G4_IO_READ)
			memcpy((uint8_t *)part->base + skip, buffer, n);
		else
			memcpy(buffer, (const uint8_t *)part->base + skip, n);
		buffer += n;
		bytes -= n;
		skip = 0;
	}
}

/* From start to end. The holder of a buffer waits for the controller only. */
static void execute_copied(struct g4_dev *dev, uint32_t index, struct g4_io *io)
{
	struct g4_nvme *nvme = dev->host;
	const uint32_t which = index % G4_NVME_COPIES;
	uint8_t *buffer = nvme->copies + which * G4_NVME_COPY_BYTES;
	uint64_t left = 0, n;
	int result = 0;

	for (uint32_t i = 0; i < io->iov_count; i++)
		left += io->iov[i].bytes;
	pthread_mutex_lock(&nvme->copy_locks[which]);
	for (uint64_t done = 0; left > 0 && result == 0; done += n, left -= n) {
		n = g4_min64(left, G4_NVME_COPY_BYTES);
		struct g4_iov iov = {.base = buffer, .bytes = n};
		struct g4_io part = {.op = io->op,
				     .flags = io->flags,
				     .offset_bytes = io->offset_bytes + done,
				     .iov = &iov,
				     .iov_count = 1,
				     .cookie = (uint64_t)index << QUEUE_BITS_AT};
		if (io->op == G4_IO_WRITE)
			copy(io, done, buffer, n);
		g4_nvme_start(&nvme->queues[index], &part);
		g4_nvme_rung(nvme);
		wait(NULL, dev, &part);
		result = part.result;
		if (result == 0 && io->op == G4_IO_READ)
			copy(io, done, buffer, n);
	}
	pthread_mutex_unlock(&nvme->copy_locks[which]);
	g4_add64(&nvme->copied, 1);
	io->result = result;
	g4_store32_rel(&io->done, 1);
}

static void submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	const struct g4_nvme *nvme = dev->host;
	struct g4_nvme_queue *queue = queue_for(nvme, wg);
	struct g4_io *next;

	for (struct g4_io *io = first; io; io = next) {
		next = io->next;
		if (g4_load32_acq(&io->done))
			continue;
		const uint32_t index = (uint32_t)(queue - nvme->queues);
		if (must_copy(nvme, io)) {
			execute_copied(dev, index, io);
			continue;
		}
		io->cookie = (uint64_t)index << QUEUE_BITS_AT;
		g4_nvme_start(queue, io);
	}
	g4_nvme_rung(nvme);
}

static int execute(struct g4_dev *dev, struct g4_io *io)
{
	io->result = 0;
	io->next = NULL;
	g4_store32_rlx(&io->done, 0);
	submit(NULL, dev, io);
	wait(NULL, dev, io);
	return io->result;
}

static void close_device(struct g4_dev *dev)
{
	g4_nvme_close(dev->host);
	free(dev);
}

/* ---- drives: a process has a controller once, however often it opens it ---- */

/*
 * As with a file: once exclusively, and beside that by readers (a checker looks at what a repair of its own has written). VFIO gives
 * a controller to one process only.
 */
struct drive {
	char address[G4_PCI_NAME_BYTES];
	uint32_t nsid, users;
	bool exclusive;
	struct g4_nvme *nvme;
	struct drive *next;
};
struct drive_user {
	struct g4_dev dev; /* first */
	struct drive *drive;
	bool exclusive;
};

static pthread_mutex_t drives_lock = PTHREAD_MUTEX_INITIALIZER;
static struct drive *drives;

/* The lock is held. */
static void leave(struct drive *drive)
{
	struct drive **link = &drives;

	if (--drive->users > 0)
		return;
	while (*link != drive)
		link = &(*link)->next;
	*link = drive->next;
	g4_nvme_close(drive->nvme);
	free(drive);
}

static void close_drive(struct g4_dev *dev)
{
	struct drive_user *user = (struct drive_user *)dev;

	pthread_mutex_lock(&drives_lock);
	if (user->exclusive)
		user->drive->exclusive = false;
	leave(user->drive);
	pthread_mutex_unlock(&drives_lock);
	free(user);
}

static const struct g4_dev_ops nvme_ops = {
	.submit = submit, .poll = poll, .wait = wait, .execute = execute, .close = close_device};
static const struct g4_dev_ops drive_ops = {
	.submit = submit, .poll = poll, .wait = wait, .execute = execute, .close = close_drive};

/* The lock is held. One more user of a drive, which may be the first. */
static int join(const char *name, const char *address, uint32_t nsid, bool exclusive, struct drive **out,
		struct g4_dev_message message)
{
	const struct g4_nvme_options options = {.nsid = nsid};
	struct g4_nvme_provider provider;
	struct drive *drive = drives;

	while (drive && strcmp(drive->address, address) != 0)
		drive = drive->next;
	if (drive && drive->nsid != nsid)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: this program uses namespace %u of the drive already",
				   name, drive->nsid);
	if (drive && drive->exclusive && exclusive)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: this program uses it already", name);
	if (!drive) {
		drive = calloc(1, sizeof(*drive));
		if (!drive)
			return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
		int rc = g4_vfio_open(name, address, &provider, message);
		if (rc == 0)
			rc = g4_nvme_open(name, &provider, &options, &drive->nvme, message);
		if (rc < 0) {
			free(drive);
			return rc;
		}
		snprintf(drive->address, sizeof(drive->address), "%s", address);
		drive->nsid = nsid;
		drive->next = drives;
		drives = drive;
	}
	drive->users++;
	drive->exclusive |= exclusive;
	*out = drive;
	return 0;
}

int g4_nvme_drive_open(const char *name, const char *address, uint32_t nsid, uint32_t flags, struct g4_dev **out,
		       struct g4_dev_message message)
{
	struct drive_user *user = calloc(1, sizeof(*user));

	if (!user)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	user->exclusive = flags & G4_DEV_EXCLUSIVE;
	pthread_mutex_lock(&drives_lock);
	const int rc = join(name, address, nsid, user->exclusive, &user->drive, message);
	pthread_mutex_unlock(&drives_lock);
	if (rc < 0) {
		free(user);
		return rc;
	}
	user->dev.host = user->drive->nvme;
	user->dev.ops = &drive_ops;
	user->dev.props = user->drive->nvme->identity.props;
	user->dev.props.read_only = flags & G4_DEV_READ_ONLY;
	user->dev.props.discard = user->dev.props.discard && !user->dev.props.read_only;
	*out = &user->dev;
	return 0;
}

int g4_nvme_device_open(const char *name, const struct g4_nvme_provider *provider,
			const struct g4_nvme_options *options, struct g4_dev **out, struct g4_dev_message message)
{
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct g4_nvme *nvme;

	if (!dev) {
		provider->close(provider->context);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	const int rc = g4_nvme_open(name, provider, options, &nvme, message);
	if (rc < 0) {
		free(dev);
		return rc;
	}
	dev->host = nvme;
	dev->ops = &nvme_ops;
	dev->props = nvme->identity.props;
	*out = dev;
	return 0;
}

int g4_nvme_emu_device_open(const char *name, struct g4_dev *medium, const struct g4_emu_options *emu_options,
			    const struct g4_nvme_options *options, struct g4_dev **out, struct g4_emu **emu,
			    struct g4_dev_message message)
{
	struct g4_nvme_options own = options ? *options : (struct g4_nvme_options){0};
	struct g4_nvme_provider provider;
	struct g4_emu *made;

	own.read_only = own.read_only || medium->props.read_only;
	if (g4_emu_open(medium, emu_options, &made, &provider) < 0) {
		medium->ops->close(medium);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	const int rc = g4_nvme_device_open(name, &provider, &own, out, message);
	if (rc == 0 && emu)
		*emu = made;
	return rc;
}

struct g4_nvme *g4_nvme_of(const struct g4_dev *dev)
{
	return dev->ops == &nvme_ops || dev->ops == &drive_ops ? dev->host : NULL;
}

struct g4_nvme_counts g4_nvme_device_counts(const struct g4_dev *dev)
{
	const struct g4_nvme *nvme = dev->host;
	struct g4_nvme_counts sum = {.copied = g4_load64_rlx(&nvme->copied),
				     .aborted = g4_load64_rlx(&nvme->aborted),
				     .resets = g4_load32_rlx(&nvme->reset)};

	for (uint32_t i = 0; i < nvme->queue_count; i++)
		g4_nvme_counts_add(&sum, &nvme->queues[i].flight.counts);
	return sum;
}
