/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of devices that NVMe controllers are (device_host.h): requests.c does the requests; who waits does so here, with a
 * look at the controller now and then, so that no wait is for ever.
 */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <time.h>

#include "dev/nvme/device_host.h"

#define QUEUE_BITS_AT 57u /* of g4_io.cookie, above what requests.c has there */
#define LOOKS_PER_CHECK 64u
#define LOOKS 4000u /* before naps */
#define NAP_NS 50000

/* A workgroup has a queue, so that unrelated ones rarely meet. Requests stay in theirs. */
static struct g4_nvme_queue *queue_for(const struct g4_nvme *nvme, const struct g4_wg *wg)
{
	return &nvme->queues[wg ? g4_wg_index(wg) % nvme->queue_count : 0];
}

static struct g4_nvme_queue *queue_of(const struct g4_nvme *nvme, const struct g4_io *io)
{
	return &nvme->queues[io->cookie >> QUEUE_BITS_AT];
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
		io->cookie = (uint64_t)(queue - nvme->queues) << QUEUE_BITS_AT;
		g4_nvme_start(queue, io);
	}
}

static void poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_nvme *nvme = dev->host;

	(void)wg;
	if (!g4_nvme_step(queue_of(nvme, io), io, NULL))
		g4_nvme_check(nvme);
}

static void wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct g4_nvme *nvme = dev->host;
	struct g4_nvme_queue *queue = queue_of(nvme, io);
	struct g4_nvme_turn turn = {0};

	(void)wg;
	for (uint32_t looks = 1; !g4_nvme_step(queue, io, &turn); looks++) {
		if (looks % LOOKS_PER_CHECK == 0)
			g4_nvme_check(nvme);
		if (looks < LOOKS)
			g4_pause();
		else
			nanosleep(&nap, NULL); /* ending early does no harm */
	}
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

static const struct g4_dev_ops nvme_ops = {
	.submit = submit, .poll = poll, .wait = wait, .execute = execute, .close = close_device};

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
	dev->props = nvme->props;
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

struct g4_nvme_counts g4_nvme_device_counts(const struct g4_dev *dev)
{
	const struct g4_nvme *nvme = dev->host;
	struct g4_nvme_counts sum = {0};

	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		const struct g4_nvme_counts *counts = &nvme->queues[i].counts;
		sum.completed += g4_load64_rlx(&counts->completed);
		sum.retried += g4_load64_rlx(&counts->retried);
		sum.failed += g4_load64_rlx(&counts->failed);
		sum.strangers += g4_load64_rlx(&counts->strangers);
	}
	return sum;
}
