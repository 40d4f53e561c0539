/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of devices that NVMe controllers are (device_host.h): requests.c does the requests, waiting_host.c waits.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>

#include "dev/gpt_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/leaving_host.h"
#include "dev/nvme/pci_host.h"
#include "dev/nvme/recovery_host.h"
#include "dev/nvme/vfio_host.h"
#include "dev/nvme/waiting_host.h"
#include "dev/nvme/waking_host.h"

#define QUEUE_BITS_AT 57u /* of g4_io.cookie, above what requests.c has there */

/* A namespace, or a part of one. dev.host is the controller, which others may have open, too. */
struct nvme_device {
	struct g4_dev dev; /* first */
	struct g4_nvme_target target;
	struct drive *drive; /* of a real one; NULL: the controller is this device's alone */
	bool exclusive;
	struct nvme_device *next; /* of the drive's */
};

static const struct g4_nvme_target *target_of(const struct g4_dev *dev)
{
	return &((const struct nvme_device *)dev)->target;
}

/* A workgroup has a queue, so that unrelated ones rarely meet, until it has waited in it for long. Requests stay in theirs. */
static struct g4_nvme_queue *queue_for(const struct g4_nvme *nvme, const struct g4_wg *wg)
{
	return &nvme->queues[wg ? g4_mapper_queue(&nvme->mapper, g4_wg_index(wg)) : 0];
}

static uint32_t queue_of(const struct g4_io *io)
{
	return (uint32_t)(io->cookie >> QUEUE_BITS_AT);
}

static void poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_nvme *nvme = dev->host;

	const uint32_t index = queue_of(io);
	const bool done = g4_nvme_step(&nvme->queues[index], target_of(dev), io, NULL);

	(void)wg;
	g4_nvme_pass_on(nvme, index);
	g4_nvme_rung(nvme); /* more of it may have been started, or another one's sent again */
	if (!done)
		g4_nvme_check(nvme);
}

static void wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	g4_nvme_wait(dev->host, wg, queue_of(io), target_of(dev), io);
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
		g4_nvme_start(&nvme->queues[index], target_of(dev), &part);
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
		g4_nvme_start(queue, target_of(dev), io);
	}
	g4_nvme_rung(nvme);
}

static int execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	io->result = 0;
	io->next = NULL;
	g4_store32_rlx(&io->done, 0);
	submit(NULL, dev, io);
	wait(NULL, dev, io);
	return io->result;
}

/* ---- drives: a process has a controller once, however often it opens it ---- */

/*
 * VFIO gives a controller to one process only, and that one has it once. Its devices are namespaces and partitions of it. As with
 * files: bytes are open once exclusively, and beside that by readers (a checker looks at what a repair of its own has written).
 */
struct drive {
	char address[G4_PCI_NAME_BYTES];
	struct nvme_device *users;
	struct g4_nvme *nvme;
	struct drive *next;
};

static pthread_mutex_t drives_lock = PTHREAD_MUTEX_INITIALIZER;
static struct drive *drives;

/* The lock is held. The last one has left. */
static void forget(struct drive *drive)
{
	struct drive **link = &drives;

	while (*link != drive)
		link = &(*link)->next;
	*link = drive->next;
	if (drive->nvme)
		g4_nvme_end(drive->nvme);
	free(drive);
}

static void leave(struct nvme_device *user)
{
	struct nvme_device **link = &user->drive->users;

	pthread_mutex_lock(&drives_lock);
	while (*link != user)
		link = &(*link)->next;
	*link = user->next;
	if (!user->drive->users)
		forget(user->drive);
	pthread_mutex_unlock(&drives_lock);
}

static void close_device(struct g4_dev *dev)
{
	struct nvme_device *device = (struct nvme_device *)dev;

	if (device->drive)
		leave(device);
	else
		g4_nvme_end(dev->host);
	free(device);
}

static const struct g4_dev_ops nvme_ops = {
	.submit = submit, .poll = poll, .wait = wait, .execute = execute, .close = close_device};

/* A device that is a namespace of an open controller, and what is to become of it else: read-only. */
static int describe(struct nvme_device *device, struct g4_nvme *nvme, uint32_t nsid, bool read_only,
		    struct g4_dev_message message)
{
	const int rc = g4_nvme_open_space(nvme, nsid, &device->target, &device->dev.props, message);

	device->dev.host = nvme;
	device->dev.ops = &nvme_ops;
	device->dev.props.read_only = device->dev.props.read_only || read_only;
	device->dev.props.discard = device->dev.props.discard && !device->dev.props.read_only;
	return rc;
}

/* It becomes one of its partitions. */
static int narrow(struct nvme_device *device, const char *name, uint32_t partition, struct g4_dev_message message)
{
	struct g4_partition found;
	const int rc = g4_gpt_find(name, &device->dev, partition, &found, message);

	if (rc < 0)
		return rc;
	device->target.first_block += found.offset_bytes >> device->target.block_shift;
	device->dev.props.size_bytes = found.bytes;
	return 0;
}

static bool overlap(const struct nvme_device *a, const struct nvme_device *b)
{
	const uint64_t a_end = a->target.first_block + (a->dev.props.size_bytes >> a->target.block_shift);
	const uint64_t b_end = b->target.first_block + (b->dev.props.size_bytes >> b->target.block_shift);

	return a->target.nsid == b->target.nsid && a->target.first_block < b_end && b->target.first_block < a_end;
}

/* The lock is held. */
static int find_drive(const char *name, const char *address, uint32_t nsid, uint32_t lanes,
		      const struct g4_nvme_provider *provider, struct drive **out, struct g4_dev_message message)
{
	const struct g4_nvme_options options = {.nsid = nsid, .lanes = lanes};
	struct drive *drive = drives;

	while (drive && (strcmp(drive->address, address) != 0 || g4_nvme_has_left(drive->nvme)))
		drive = drive->next;
	if (drive) {
		if (provider)
			provider->close(provider->context);
		*out = drive;
		return 0;
	}
	drive = calloc(1, sizeof(*drive));
	if (!drive) {
		if (provider)
			provider->close(provider->context);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	struct g4_nvme_provider own;
	int rc = 0;
	if (provider)
		own = *provider;
	else
		rc = g4_vfio_open(name, address, &own, message);
	if (rc == 0)
		rc = g4_nvme_open(name, &own, &options, &drive->nvme, message);
	if (rc < 0) {
		free(drive);
		return rc;
	}
	g4_nvme_attend(drive->nvme);
	snprintf(drive->address, sizeof(drive->address), "%s", address);
	drive->next = drives;
	drives = drive;
	*out = drive;
	return 0;
}

/* The lock is held. */
static int join(const char *name, const char *address, const struct g4_nvme_where *where,
		const struct g4_dev_open_options *options, const struct g4_nvme_provider *provider,
		struct nvme_device *user, struct g4_dev_message message)
{
	struct drive *drive = NULL;
	int rc = find_drive(name, address, where->nsid, options->lane_queues, provider, &drive, message);

	if (rc < 0)
		return rc;
	rc = describe(user, drive->nvme, where->nsid, options->flags & G4_DEV_READ_ONLY, message);
	if (rc == 0 && where->partition)
		rc = narrow(user, name, where->partition, message);
	for (const struct nvme_device *other = drive->users; rc == 0 && user->exclusive && other; other = other->next)
		if (other->exclusive && overlap(user, other))
			rc = g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: this program uses %s already", name,
					 where->partition ? "a part of it" : "it");
	if (rc < 0) {
		if (!drive->users)
			forget(drive);
		return rc;
	}
	user->drive = drive;
	user->next = drive->users;
	drive->users = user;
	return 0;
}

int g4_nvme_drive_open(const char *name, const char *address, const struct g4_nvme_where *where,
		       const struct g4_dev_open_options *options, const struct g4_nvme_provider *provider,
		       struct g4_dev **out, struct g4_dev_message message)
{
	struct nvme_device *user = calloc(1, sizeof(*user));

	if (!user) {
		if (provider)
			provider->close(provider->context);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	user->exclusive = options->flags & G4_DEV_EXCLUSIVE;
	pthread_mutex_lock(&drives_lock);
	const int rc = join(name, address, where, options, provider, user, message);
	pthread_mutex_unlock(&drives_lock);
	if (rc < 0)
		free(user);
	else
		*out = &user->dev;
	return rc;
}

int g4_nvme_device_open(const char *name, const struct g4_nvme_provider *provider,
			const struct g4_nvme_options *options, struct g4_dev **out, struct g4_dev_message message)
{
	struct nvme_device *device = calloc(1, sizeof(*device));
	struct g4_nvme *nvme;

	if (!device) {
		provider->close(provider->context);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	int rc = g4_nvme_open(name, provider, options, &nvme, message);
	if (rc < 0) {
		free(device);
		return rc;
	}
	g4_nvme_attend(nvme);
	rc = describe(device, nvme, options->nsid ? options->nsid : 1, false, message);
	if (rc == 0 && options->partition)
		rc = narrow(device, name, options->partition, message);
	if (rc < 0) {
		close_device(&device->dev);
		return rc;
	}
	*out = &device->dev;
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
		if (emu_options && emu_options->second)
			emu_options->second->ops->close(emu_options->second);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	const int rc = g4_nvme_device_open(name, &provider, &own, out, message);
	if (rc == 0 && emu)
		*emu = made;
	return rc;
}

struct g4_nvme *g4_nvme_of(const struct g4_dev *dev)
{
	return dev->ops == &nvme_ops ? dev->host : NULL;
}

const struct g4_nvme_target *g4_nvme_target_of(const struct g4_dev *dev)
{
	return target_of(dev);
}

const char *g4_nvme_address_of(const struct g4_dev *dev)
{
	const struct drive *drive = dev->ops == &nvme_ops ? ((const struct nvme_device *)dev)->drive : NULL;

	return drive ? drive->address : NULL;
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
