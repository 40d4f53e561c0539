/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go of a controller (leaving_host.h).
 *
 * The order is what makes it safe: what is to be saved, with a controller that works; then the recovery's thread pauses the queues,
 * shuts the controller down and has all requests fail; only then the provider gives it away, when nobody rings a doorbell any more. A
 * controller that is dead already is given away at once. Lanes of an engine, which ring doorbells until they hear of the end, keep it until
 * they have left (g4_nvme_leave_lanes()): it is a controller that is shut down meanwhile, and they find out as of any that is dead.
 *
 * An error of which the system tells is a finding like any other (recovery_host.h), and the controller is reset. One that fails while
 * nobody has requests is found by a look each second.
 *
 * Who closes a controller may hold locks that saving needs, and does not wait for that: the thread that saves closes it then.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/thread_host.h"
#include "dev/nvme/leaving_host.h"
#include "dev/nvme/recovery_host.h"

#define NAP_NS 1000000
#define LOOK_MS 1000 /* at a controller that nobody may be waiting for */

static pthread_mutex_t save_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*save_hook)(void *context);
static void *save_context;

void g4_nvme_before_leaving(void (*save)(void *context), void *context)
{
	pthread_mutex_lock(&save_lock);
	save_hook = save;
	save_context = context;
	pthread_mutex_unlock(&save_lock);
}

static void save(void)
{
	pthread_mutex_lock(&save_lock);
	if (save_hook)
		save_hook(save_context);
	pthread_mutex_unlock(&save_lock);
}

/* Until nothing can be sent to it: something else may be done about it at the moment. */
static void leave(struct g4_nvme *nvme)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	while (g4_load32_acq(&nvme->state) != G4_NVME_DEAD) {
		const struct g4_nvme_finding finding = {.why = "it is to be removed, and the system has it back",
							.mended = g4_load32_acq(&nvme->mended),
							.leaves = true};
		g4_nvme_mend(nvme, &finding);
		nanosleep(&nap, NULL); /* ending early does no harm */
	}
}

/* What is done about it at the moment may be its end: its requests fail a little before that is known. */
static bool works(const struct g4_nvme *nvme)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint32_t state;

	while ((state = g4_load32_acq(&nvme->state)) == G4_NVME_RECOVERS)
		nanosleep(&nap, NULL); /* ending early does no harm */
	return state != G4_NVME_DEAD;
}

/* Something else may be done about it at the moment, and not be enough. */
static void mend_failure(struct g4_nvme *nvme)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint64_t count;

	if (read(nvme->provider.failed, &count, sizeof(count)) < 0)
		return;
	while (g4_load32_acq(&nvme->state) != G4_NVME_DEAD && g4_load32_acq(&nvme->attendance) == G4_NVME_LISTENS) {
		const struct g4_nvme_finding finding = {.why = "the system reports an error of it, or of its link",
							.mended = g4_load32_acq(&nvme->mended)};
		if (g4_nvme_mend(nvme, &finding))
			return;
		nanosleep(&nap, NULL);
	}
}

/* Until the system wants it, true, or nobody listens any longer. Not all failures are told of: a look now and then finds others. */
static bool hear_wish(struct g4_nvme *nvme)
{
	struct pollfd files[3] = {{.fd = nvme->provider.asked, .events = POLLIN},
				  {.fd = nvme->dismissed, .events = POLLIN},
				  {.fd = nvme->provider.failed, .events = POLLIN}};
	int found;

	while ((found = poll(files, 3, LOOK_MS)) >= 0 || errno == EINTR) {
		if (found == 0)
			g4_nvme_check(nvme);
		if (found <= 0)
			continue;
		if (files[0].revents || files[1].revents)
			return files[0].revents & POLLIN;
		mend_failure(nvme);
	}
	g4_log(G4_LOG_WARN, "%s: what the system says of it is not known any more: %m", nvme->name);
	return false;
}

static void *attend(void *context)
{
	struct g4_nvme *nvme = context;

	if (!hear_wish(nvme))
		return NULL;
	if (!g4_cas32(&nvme->attendance, G4_NVME_LISTENS, G4_NVME_SAVES))
		return NULL; /* it is closed at the moment */
	g4_log(G4_LOG_WARN, "%s: the system asks for it: it is to be removed", nvme->name);
	if (works(nvme))
		save();
	if (!g4_cas32(&nvme->attendance, G4_NVME_SAVES, G4_NVME_LEAVES)) {
		pthread_detach(pthread_self());
		close(nvme->dismissed);
		g4_nvme_close(nvme);
		return NULL;
	}
	leave(nvme);
	g4_nvme_await_lanes(nvme); /* a GPU's mapping of the registers stays what it was */
	nvme->provider.let_go(nvme->provider.context);
	g4_store32_rel(&nvme->left, 1);
	return NULL;
}

void g4_nvme_attend(struct g4_nvme *nvme)
{
	if (!nvme->provider.let_go && nvme->provider.failed < 0)
		return;
	nvme->attendance = G4_NVME_LISTENS;
	nvme->dismissed = eventfd(0, EFD_CLOEXEC);
	nvme->attended = nvme->dismissed >= 0 && g4_thread_start(&nvme->attendant, attend, nvme) == 0;
	if (nvme->attended)
		return;
	g4_log(G4_LOG_WARN, "%s: if it is to be removed, the system waits until it is closed: no thread can be had",
	       nvme->name);
	if (nvme->dismissed >= 0)
		close(nvme->dismissed);
}

void g4_nvme_end(struct g4_nvme *nvme)
{
	const uint64_t one = 1;

	if (!nvme->attended) {
		g4_nvme_close(nvme);
		return;
	}
	if (!g4_cas32(&nvme->attendance, G4_NVME_LISTENS, G4_NVME_DISMISSED) &&
	    g4_cas32(&nvme->attendance, G4_NVME_SAVES, G4_NVME_DISMISSED))
		return;
	while (write(nvme->dismissed, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(nvme->attendant, NULL);
	close(nvme->dismissed);
	g4_nvme_close(nvme);
}

bool g4_nvme_has_left(const struct g4_nvme *nvme)
{
	return g4_load32_acq(&nvme->left) != 0;
}
