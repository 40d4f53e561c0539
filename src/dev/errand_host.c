/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of errands (errand_host.h). */
#define _GNU_SOURCE 1
#include "dev/errand_host.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread_host.h"
#include "simt/simt_host.h"

struct g4_errands {
	struct g4_dev *dev;
	struct g4_wg *wg;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t wake;
	struct g4_errand *first, **last;
	g4_errand_found *found;
	void *context;
	bool ends;
};

bool g4_errand_is(const struct g4_remote_request *request)
{
	return g4_remote_asks(request->op) || request->op == G4_IO_CHECK;
}

/* ---- doing one ---- */

static int check(struct g4_wg *wg, struct g4_dev *dev, const struct g4_remote_request *request)
{
	struct g4_io io = {.op = G4_IO_CHECK, .offset_bytes = request->offset_bytes, .discard_bytes = request->bytes};

	g4_dev_submit(wg, dev, &io);
	return g4_dev_wait(wg, dev, &io);
}

/* The name is copied before it is looked at: its sender can still change it. */
static void order(struct g4_wg *wg, struct g4_dev *dev, struct g4_remote_order *message, uint64_t bytes)
{
	const uint64_t room = bytes - sizeof(*message);
	char name[G4_REMOTE_ORDER_BYTES] = "", text[G4_REMOTE_ORDER_BYTES] = "";
	struct g4_dev_order whole = {.op = message->op,
				     .disk = message->disk,
				     .name = name,
				     .text = text,
				     .text_bytes = g4_max64(room, 1),
				     .bytes = message->bytes,
				     .done = message->done,
				     .all = message->all};

	memcpy(name, message + 1, room);
	name[room > 0 ? room - 1 : 0] = 0;
	message->result = g4_dev_order(wg, dev, &whole);
	message->disk = whole.disk;
	message->bytes = whole.bytes;
	message->done = whole.done;
	message->all = whole.all;
	memcpy(message + 1, text, room);
}

int g4_errand_do(struct g4_wg *wg, struct g4_dev *dev, const struct g4_errand *errand)
{
	const uint64_t bytes = errand->request.bytes;

	if (errand->request.op == G4_IO_CHECK)
		return check(wg, dev, &errand->request);
	if (!errand->message || (uintptr_t)errand->message % sizeof(uint64_t) != 0)
		return -G4_E_INVAL;
	if (errand->request.op == G4_REMOTE_LAYOUT)
		return g4_dev_layout(wg, dev, errand->message, bytes);
	if (bytes < sizeof(*errand->message) || bytes > G4_REMOTE_ORDER_BYTES)
		return -G4_E_INVAL;
	if (errand->request.op == G4_REMOTE_ORDER) {
		order(wg, dev, errand->message, bytes);
		return 0;
	}
	const uint64_t address = errand->message->address;
	if (errand->request.op == G4_REMOTE_GRANT)
		return g4_dev_grant(wg, dev, address, errand->message->bytes, errand->message->disk);
	if (address % G4_PAGE_BYTES != 0 || address >= g4_dev_props(dev)->size_bytes)
		return -G4_E_DEV_RANGE;
	errand->message->disks = g4_dev_disks_at(wg, dev, address);
	return 0;
}

/* ---- the thread ---- */

static struct g4_errand *take(struct g4_errands *errands)
{
	pthread_mutex_lock(&errands->lock);
	while (!errands->first && !errands->ends)
		pthread_cond_wait(&errands->wake, &errands->lock);
	struct g4_errand *errand = errands->first;
	if (errand)
		errands->first = errand->next;
	if (!errands->first)
		errands->last = &errands->first;
	pthread_mutex_unlock(&errands->lock);
	return errand;
}

static int place(struct g4_errands *errands, const struct g4_errand *errand)
{
	pthread_mutex_lock(&errands->lock);
	g4_errand_found *found = errands->found;
	void *context = errands->context;
	pthread_mutex_unlock(&errands->lock);
	return found ? found(context, errand->message, errand->request.bytes) : 0;
}

static void *run(void *argument)
{
	struct g4_errands *errands = argument;
	struct g4_errand *errand;

	while ((errand = take(errands))) {
		errand->result = g4_errand_do(errands->wg, errands->dev, errand);
		if (errand->request.op == G4_REMOTE_LAYOUT && errand->result == 0)
			errand->result = place(errands, errand);
		g4_store32_rel(&errand->done, 1);
	}
	return NULL;
}

struct g4_errands *g4_errands_open(struct g4_dev *dev)
{
	struct g4_errands *errands = calloc(1, sizeof(*errands));

	if (!errands)
		return NULL;
	errands->dev = dev;
	errands->last = &errands->first;
	pthread_mutex_init(&errands->lock, NULL);
	pthread_cond_init(&errands->wake, NULL);
	errands->wg = g4_wg_create(1);
	errands->runs = errands->wg && g4_thread_start(&errands->thread, run, errands) == 0;
	if (errands->runs)
		return errands;
	g4_errands_close(errands);
	return NULL;
}

void g4_errands_post(struct g4_errands *errands, struct g4_errand *errand)
{
	errand->next = NULL;
	g4_store32_rlx(&errand->done, 0);
	pthread_mutex_lock(&errands->lock);
	*errands->last = errand;
	errands->last = &errand->next;
	pthread_cond_signal(&errands->wake);
	pthread_mutex_unlock(&errands->lock);
}

void g4_errands_place(struct g4_errands *errands, g4_errand_found *found, void *context)
{
	pthread_mutex_lock(&errands->lock);
	errands->found = found;
	errands->context = context;
	pthread_mutex_unlock(&errands->lock);
}

void g4_errands_close(struct g4_errands *errands)
{
	if (!errands)
		return;
	pthread_mutex_lock(&errands->lock);
	errands->ends = true;
	pthread_cond_signal(&errands->wake);
	pthread_mutex_unlock(&errands->lock);
	if (errands->runs)
		pthread_join(errands->thread, NULL);
	g4_wg_destroy(errands->wg);
	pthread_cond_destroy(&errands->wake);
	pthread_mutex_destroy(&errands->lock);
	free(errands);
}
