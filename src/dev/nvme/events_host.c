/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events (events_host.h).
 *
 * An event is a type, what of it happened, and the log that says more. The controller keeps others of the type to itself until that log was
 * read: so it is read first, and then the next event is asked for. Nothing in an event is believed that can be looked at: whether a namespace
 * has changed, IDENTIFY says, and what is wrong with the drive, the log of its health.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/log_host.h"
#include "dev/nvme/events_host.h"

#define HOUR_NS UINT64_C(3600000000000)

const char *g4_nvme_warning(uint32_t warnings)
{
	static const char *const words[] = {"its spare blocks run out",
					    "its temperature is beyond a threshold",
					    "errors have made it less reliable",
					    "it has become read-only",
					    "the backup of its volatile memory has failed",
					    "its persistent memory has become unreliable"};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (warnings >> i & 1)
			return words[i];
	return "";
}

bool g4_nvme_has_event(struct g4_nvme *nvme)
{
	if (g4_load32_acq(&nvme->heard))
		return true;
	if (!g4_load32_rlx(&nvme->listens) || pthread_mutex_trylock(&nvme->admin_lock) != 0)
		return false;
	/* one that is left, or stopped, meanwhile, was so by a holder of the lock: its doorbells are somebody else's by now */
	if (g4_load32_acq(&nvme->state) == G4_NVME_WORKS)
		g4_nvme_take_answers(nvme);
	pthread_mutex_unlock(&nvme->admin_lock);
	return g4_load32_acq(&nvme->heard) != 0;
}

/* ---- what is done ---- */

/* Each warning once. */
static void hear_health(struct g4_nvme *nvme, const struct g4_nvme_health_log *log)
{
	const uint32_t fresh = log->warnings & G4_NVME_WARNINGS & ~nvme->warnings;

	nvme->warnings |= fresh;
	for (uint32_t bit = 1; bit <= fresh; bit <<= 1)
		if (fresh & bit)
			g4_log(G4_LOG_WARN, "%s: the drive warns that %s ('gpu4fs nvme log')", nvme->name,
			       g4_nvme_warning(bit));
}

/* All but reads of the namespace fail from then on, so that a file system in it is read-only with its next commit. */
static void shut_space(struct g4_nvme *nvme, uint32_t space, const char *what)
{
	g4_store32_rel(&nvme->caches[space].shut, 1);
	g4_log(G4_LOG_ERROR, "%s: namespace %u %s while it is used: nothing is written to it any more", nvme->name,
	       nvme->spaces[space].nsid, what);
}

static void hear_space(struct g4_nvme *nvme, uint32_t space)
{
	struct g4_nvme_space *known = &nvme->spaces[space];
	char text[256], what[128];
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	struct g4_dev_props props;
	const int rc = g4_nvme_see_space(nvme, space, &props, message);
	const bool same = rc == 0 && props.sector_bytes == known->props.sector_bytes;

	if (nvme->unanswered || known->shrunk)
		return;
	if (same && props.size_bytes > known->props.size_bytes && props.size_bytes != known->grown_bytes)
		g4_log(G4_LOG_INFO,
		       "%s: namespace %u has grown to %" PRIu64 " bytes, which count when it is opened again",
		       nvme->name, known->nsid, props.size_bytes);
	known->grown_bytes = same ? props.size_bytes : 0;
	if (same && props.size_bytes >= known->props.size_bytes)
		return;
	if (rc < 0) {
		g4_log(G4_LOG_WARN, "%s", text);
		snprintf(what, sizeof(what), "is gone, or can not be used any more");
	} else if (!same) {
		snprintf(what, sizeof(what), "has got another format");
	} else {
		snprintf(what, sizeof(what), "has shrunk from %" PRIu64 " to %" PRIu64 " bytes",
			 known->props.size_bytes, props.size_bytes);
	}
	known->shrunk = true;
	shut_space(nvme, space, what);
}

static void hear_notice(struct g4_nvme *nvme, uint32_t what)
{
	if (what == G4_NVME_NOTICE_FIRMWARE)
		g4_log(G4_LOG_WARN, "%s: the drive activates other firmware: commands may be late meanwhile",
		       nvme->name);
	for (uint32_t i = 0; i < nvme->space_count && what == G4_NVME_NOTICE_NAMESPACE; i++)
		hear_space(nvme, i);
}

/* Each kind once. Not NULL: a reset may mend it. */
static const char *hear_error(struct g4_nvme *nvme, uint32_t what)
{
	static const char *const words[] = {"the controller reports that a doorbell was rung that is of no queue",
					    "the controller reports that a doorbell was rung with a value that is none",
					    "the controller reports that its diagnosis of itself has failed",
					    "the controller reports an error inside that stays",
					    "the controller reports an error inside that is over",
					    "the controller reports that it could not load its firmware"};

	if (what >= sizeof(words) / sizeof(words[0]))
		return NULL;
	if (what == G4_NVME_ERROR_STAYS)
		return words[what];
	if (!(nvme->errors_told >> what & 1))
		g4_log(G4_LOG_WARN, "%s: %s", nvme->name, words[what]);
	nvme->errors_told |= 1u << what;
	return NULL;
}

/* ---- one after the other ---- */

static bool are_too_many(struct g4_nvme *nvme)
{
	const uint64_t now = g4_monotonic_ns();

	if (now - nvme->events_hour_ns >= HOUR_NS) {
		nvme->events_hour_ns = now;
		nvme->events = 0;
	}
	return ++nvme->events > G4_NVME_EVENTS_MOST;
}

static uint32_t bytes_of(uint32_t log)
{
	if (log == G4_NVME_LOG_SPACES)
		return G4_PAGE_BYTES;
	return log == G4_NVME_LOG_ERRORS ? (uint32_t)sizeof(struct g4_nvme_error_entry) :
					   (uint32_t)sizeof(struct g4_nvme_health_log);
}

bool g4_nvme_hear_event(struct g4_nvme *nvme, const char **why)
{
	const uint32_t type = nvme->event & 7, what = nvme->event >> 8 & 255, log = nvme->event >> 16 & 255;
	const struct g4_dev_message none = {0};
	union {
		struct g4_nvme_health_log health;
		uint8_t bytes[G4_PAGE_BYTES];
	} page;
	const char *reset = NULL;

	if (!nvme->heard) /* a reset was between */
		return true;
	g4_store32_rel(&nvme->heard, 0);
	const int rc = g4_nvme_ask_held(nvme, G4_NVME_GET_LOG, G4_NVME_ALL_NAMESPACES,
					G4_NVME_LOG_DWORD(log, bytes_of(log)), &page, "get the log of an event", none);
	if (type == G4_NVME_EVENT_ERROR)
		reset = hear_error(nvme, what);
	else if (type == G4_NVME_EVENT_HEALTH && rc == 0 && log == G4_NVME_LOG_HEALTH)
		hear_health(nvme, &page.health);
	else if (type == G4_NVME_EVENT_NOTICE)
		hear_notice(nvme, what);
	if (reset) {
		*why = reset;
		return false;
	}
	if (are_too_many(nvme))
		g4_log(G4_LOG_WARN, "%s: the controller has events without an end: no more are asked for", nvme->name);
	else if (nvme->unanswered)
		g4_log(G4_LOG_WARN, "%s: the controller does not say more of an event: no more are asked for",
		       nvme->name);
	else
		g4_nvme_listen(nvme);
	return true;
}
