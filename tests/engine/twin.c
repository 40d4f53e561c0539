/* SPDX-License-Identifier: Apache-2.0 */
/* A drive as the twin of memory. */
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev_host.h"
#include "dev/dev_ops_host.h"
#include "simt/simt_host.h"

struct twin {
	struct g4_dev *drive;
	struct g4_wg *wg;
	uint8_t *image, *written; /* what the drive should have and what it was given */
	uint64_t bytes;
};

static void end(const char *what, uint64_t offset)
{
	printf("VIOLATION: the drive %s at %lx\n", what, (unsigned long)offset);
	fflush(stdout);
	_Exit(1);
}

static int on_drive(struct twin *t, struct g4_io *io)
{
	g4_dev_submit(t->wg, t->drive, io);
	return g4_dev_wait(t->wg, t->drive, io);
}

/* Behind a request: vectors are what memory has now (writes), or must have had (reads). */
static void follow(struct twin *t, const struct g4_io *io)
{
	uint64_t at = io->offset_bytes;

	for (uint32_t k = 0; k < io->iov_count; k++) {
		const struct g4_iov *iov = &io->iov[k];
		if (io->op == G4_IO_WRITE) {
			memcpy(t->image + at, iov->base, iov->bytes);
			memcpy(t->written + at, iov->base, iov->bytes);
		} else if (iov->bytes > 0 && memcmp(t->image + at, iov->base, iov->bytes) != 0) {
			end("reads otherwise than it was written", at);
		}
		at += iov->bytes;
	}
}

static int execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct twin *t = (struct twin *)dev->host;
	struct g4_io own = {.op = io->op,
			    .flags = io->flags,
			    .offset_bytes = io->offset_bytes,
			    .iov = io->iov,
			    .iov_count = io->iov_count};

	(void)wg;
	if (io->op == G4_IO_DISCARD)
		return -G4_E_NOTSUP;
	int code = on_drive(t, &own);
	if (code == 0 && io->op != G4_IO_FLUSH)
		follow(t, io);
	return code;
}

static void close_twin(struct g4_dev *dev)
{
	struct twin *t = (struct twin *)dev->host;

	g4_dev_close(t->drive);
	g4_wg_destroy(t->wg);
	free(t->written);
	free(t);
	free(dev);
}

static const struct g4_dev_ops ops = {.execute = execute, .close = close_twin};

static int write_pages(struct twin *t, uint64_t from, uint64_t to)
{
	struct g4_iov iov = {.base = t->image + from, .bytes = to - from};
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = from, .iov = &iov, .iov_count = 1};

	memcpy(t->written + from, t->image + from, to - from);
	return on_drive(t, &io);
}

void twin_match(struct g4_dev *twin)
{
	struct twin *t = (struct twin *)twin->host;

	for (uint64_t at = 0; at < t->bytes;) {
		const uint64_t from = at;
		while (at < t->bytes && memcmp(t->image + at, t->written + at, G4_PAGE_BYTES) != 0)
			at += G4_PAGE_BYTES;
		if (at > from && write_pages(t, from, at) < 0)
			end("fails to be written", from);
		if (at == from)
			at += G4_PAGE_BYTES;
	}
}

struct g4_dev *twin_open(const char *drive, uint8_t *image, uint64_t bytes)
{
	const struct g4_dev_open_options options = {.flags = G4_DEV_EXCLUSIVE};
	struct g4_dev *dev = (struct g4_dev *)calloc(1, sizeof(*dev));
	struct twin *t = (struct twin *)calloc(1, sizeof(*t));
	char message[256];

	if (!dev || !t)
		abort();
	*t = (struct twin){.wg = g4_wg_create(0), .image = image, .written = (uint8_t *)malloc(bytes), .bytes = bytes};
	if (!t->wg || !t->written)
		abort();
	if (g4_dev_open(drive, &options, &t->drive, message, sizeof(message)) < 0) {
		printf("%s\n", message);
		exit(2);
	}
	if (g4_dev_props(t->drive)->size_bytes < bytes || write_pages(t, 0, bytes) < 0) {
		printf("%s has no %lu MiB that can be written\n", drive, (unsigned long)(bytes / G4_MIB));
		exit(2);
	}
	dev->ops = &ops;
	dev->host = t;
	dev->props = *g4_dev_props(t->drive);
	dev->props.size_bytes = bytes;
	dev->props.discard = false;
	return dev;
}

/* ---- lent ---- */

static int execute_lent(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	return execute(wg, (struct g4_dev *)dev->host, io);
}

/* A request is done when it was handed over. */
static void submit_lent(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	for (struct g4_io *io = first; io; io = io->next) {
		if (g4_load32_acq(&io->done))
			continue;
		io->result = execute_lent(wg, dev, io);
		g4_store32_rel(&io->done, 1);
	}
}

static void is_done(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	(void)dev;
	(void)io;
}

static void close_lent(struct g4_dev *dev)
{
	free(dev);
}

static const struct g4_dev_ops lent_ops = {
	.submit = submit_lent, .poll = is_done, .wait = is_done, .execute = execute_lent, .close = close_lent};

struct g4_dev *twin_lend(struct g4_dev *twin)
{
	struct g4_dev *dev = (struct g4_dev *)calloc(1, sizeof(*dev));

	if (!dev)
		abort();
	twin_match(twin);
	dev->ops = &lent_ops;
	dev->host = twin;
	dev->props = twin->props;
	return dev;
}
