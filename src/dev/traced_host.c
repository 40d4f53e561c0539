/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracing device: any queued device, whose reads and writes are written to a file as a trace (trace/trace.h), in the order in
 * which they are submitted. Everything else is the inner device's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log_host.h"
#include "dev/dev_ops_host.h"
#include "trace/trace.h"

struct traced {
	struct g4_dev *inner;
	pthread_mutex_t lock; /* of the writer */
	struct g4_trace_writer writer;
	char path[4096];
};

static struct g4_dev *inner_of(struct g4_dev *dev)
{
	return ((struct traced *)dev->host)->inner;
}

static void traced_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	struct traced *traced = dev->host;

	pthread_mutex_lock(&traced->lock);
	for (const struct g4_io *io = first; io; io = io->next) {
		struct g4_trace_access access;
		uint64_t bytes = 0;
		if (io->done || (io->op != G4_IO_READ && io->op != G4_IO_WRITE))
			continue;
		for (uint32_t i = 0; i < io->iov_count; i++)
			bytes += io->iov[i].bytes;
		if (g4_trace_access_of(0, io->offset_bytes, bytes, io->op == G4_IO_WRITE, &access))
			g4_trace_write(&traced->writer, &access);
	}
	pthread_mutex_unlock(&traced->lock);
	traced->inner->ops->submit(wg, traced->inner, first);
}

static void traced_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	inner_of(dev)->ops->poll(wg, inner_of(dev), io);
}

static void traced_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	inner_of(dev)->ops->wait(wg, inner_of(dev), io);
}

static int traced_set_size(struct g4_dev *dev, uint64_t bytes)
{
	struct g4_dev *inner = inner_of(dev);

	if (!inner->ops->set_size)
		return bytes <= inner->props.size_bytes ? 0 : -G4_E_NOTSUP;
	const int rc = inner->ops->set_size(inner, bytes);
	dev->props.size_bytes = inner->props.size_bytes;
	return rc;
}

static void traced_close(struct g4_dev *dev)
{
	struct traced *traced = dev->host;
	const bool bad = ferror(traced->writer.out) != 0;

	if (fclose(traced->writer.out) != 0 || bad)
		g4_log(G4_LOG_ERROR, "%s: the trace is not complete: it could not be written", traced->path);
	traced->inner->ops->close(traced->inner);
	pthread_mutex_destroy(&traced->lock);
	free(traced);
	free(dev);
}

static const struct g4_dev_ops traced_ops = {
	.submit = traced_submit,
	.poll = traced_poll,
	.wait = traced_wait,
	.set_size = traced_set_size,
	.close = traced_close,
};

/* Opens the file and goes on at its end. */
static int begin(const char *name, const char *path, struct g4_trace_writer *writer, struct g4_dev_message message)
{
	char sentence[G4_TRACE_MESSAGE_BYTES];
	FILE *file = fopen(path, "a+e");

	if (!file)
		return g4_dev_fail(message, g4_dev_code(errno), "%s: the trace %s cannot be written: %s", name, path,
				   strerror(errno));
	const int rc = g4_trace_write_on(writer, file, sentence);
	if (rc < 0) {
		fclose(file);
		return g4_dev_fail(message, rc, "%s: %s: %s", name, path, sentence);
	}
	return 0;
}

int g4_traced_open(const char *name, struct g4_dev *inner, const char *path, struct g4_dev **out,
		   struct g4_dev_message message)
{
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct traced *traced = calloc(1, sizeof(*traced));
	int rc;

	if (inner->props.mapped || !inner->ops->submit)
		rc = g4_dev_fail(message, -G4_E_NOTSUP, "%s: what is memory has no requests that could be traced",
				 name);
	else if (!dev || !traced ||
		 snprintf(traced->path, sizeof(traced->path), "%s", path) >= (int)sizeof(traced->path))
		rc = g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	else
		rc = begin(name, path, &traced->writer, message);
	if (rc < 0) {
		free(traced);
		free(dev);
		inner->ops->close(inner);
		return rc;
	}
	pthread_mutex_init(&traced->lock, NULL);
	traced->inner = inner;
	dev->props = inner->props;
	dev->ops = &traced_ops;
	dev->host = traced;
	*out = dev;
	return 0;
}
