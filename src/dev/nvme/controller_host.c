/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller's life: reset, identify, queues, shutdown (controller_host.h).
 *
 * Everything a controller says is checked before it is used; every wait for it has an end.
 */
#define _GNU_SOURCE 1
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "dev/nvme/controller_host.h"
#include "dev/nvme/lent_host.h"
#include "dev/nvme/patience_host.h"
#include "dev/nvme/waking_host.h"

#define ADMIN_ENTRIES 32u
#define SLOTS_DEFAULT 128u
#define QUEUES_DEFAULT_MOST 8u
#define TIMEOUT_NS UINT64_C(30000000000)
#define READY_UNIT_NS UINT64_C(500000000)
#define RESETS_MOST 3u
#define LOOKS 2000u /* before naps */
#define NAP_NS 50000
#define EVENT_ID 0x8000u /* beyond all of others */

G4_STATIC_ASSERT(G4_NVME_PIECE_MOST_BYTES <= (uint64_t)G4_NVME_MAX_BLOCKS * 512, "a command has no more blocks");

/* ---- registers ---- */

static uint32_t read32(const struct g4_nvme *nvme, uint32_t at)
{
	return g4_load32_acq_sys((const uint32_t *)(nvme->provider.registers + at));
}

static void write32(const struct g4_nvme *nvme, uint32_t at, uint32_t value)
{
	g4_store32_rel_sys((uint32_t *)(nvme->provider.registers + at), value);
	g4_nvme_rung(nvme);
}

/* 64 bit registers may be accessed by halves (and those of some controllers must be). */
static uint64_t read64(const struct g4_nvme *nvme, uint32_t at)
{
	return read32(nvme, at) | (uint64_t)read32(nvme, at + 4) << 32;
}

static void write64(const struct g4_nvme *nvme, uint32_t at, uint64_t value)
{
	write32(nvme, at, (uint32_t)value);
	write32(nvme, at + 4, (uint32_t)(value >> 32));
}

static uint32_t *doorbell(const struct g4_nvme *nvme, uint32_t queue, uint32_t of_completions)
{
	const uint32_t apart = 4u << G4_NVME_CAP_DSTRD(nvme->cap);

	return (uint32_t *)(nvme->provider.registers + G4_NVME_DOORBELLS + (2 * queue + of_completions) * apart);
}

/* One step of a wait: a pause at first, then naps. */
static void rest(uint32_t *looks)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (++*looks < LOOKS)
		g4_pause();
	else
		nanosleep(&nap, NULL); /* ending early does no harm */
}

/* Until CSTS & mask is `wanted`. False: it was not in time, or never will be. */
static bool await_status(const struct g4_nvme *nvme, uint32_t mask, uint32_t wanted, uint64_t ns)
{
	struct g4_patience patience = g4_patience(ns, g4_monotonic_ns());
	uint32_t looks = 0;

	for (;;) {
		const uint32_t csts = read32(nvme, G4_NVME_CSTS);

		if (csts == G4_NVME_GONE)
			return false;
		if ((csts & mask) == wanted)
			return true;
		if (wanted != 0 && (csts & G4_NVME_CSTS_CFS))
			return false;
		if (!g4_patience_lasts(&patience, g4_monotonic_ns()))
			return false;
		rest(&looks);
	}
}

static uint64_t ready_ns(const struct g4_nvme *nvme)
{
	return g4_max64(G4_NVME_CAP_TO(nvme->cap), 1) * READY_UNIT_NS;
}

static bool disable(const struct g4_nvme *nvme)
{
	write32(nvme, G4_NVME_CC, read32(nvme, G4_NVME_CC) & ~G4_NVME_CC_EN);
	return await_status(nvme, G4_NVME_CSTS_RDY, 0, ready_ns(nvme));
}

/* ---- admin commands: one at a time ---- */

/* A completion of an admin command. One for an event is none of those that somebody waits for; one that nobody has asked for is nothing. */
static void take(struct g4_nvme *nvme, uint64_t end, uint32_t result)
{
	const uint32_t id = g4_nvme_completion_id(end);

	g4_nvme_pair_consumed(&nvme->admin);
	if (id + 1 == nvme->unanswered)
		nvme->unanswered = 0;
	if (id != EVENT_ID || !nvme->listens)
		return;
	g4_store32_rlx(&nvme->listens, 0);
	if (g4_nvme_completion_status(end) != G4_NVME_OK)
		return; /* it takes no such request, and gets none any more */
	nvme->event = result;
	g4_store32_rel(&nvme->heard, 1);
}

void g4_nvme_take_answers(struct g4_nvme *nvme)
{
	uint32_t result;
	uint64_t end;

	for (uint32_t i = 0; i < ADMIN_ENTRIES && g4_nvme_pair_next(&nvme->admin, &end, &result); i++)
		take(nvme, end, result);
}

/* The status of the command with this identifier, and what it answers; -1: no answer in time, or ever: it has failed, or is disabled. */
static int32_t await_answer(struct g4_nvme *nvme, uint32_t id, uint32_t *result)
{
	struct g4_patience patience = g4_patience(nvme->admin_timeout_ns, g4_monotonic_ns());
	uint32_t looks = 0, said;
	uint64_t end;

	for (;;) {
		const uint32_t csts = read32(nvme, G4_NVME_CSTS);

		if (csts == G4_NVME_GONE || (csts & G4_NVME_CSTS_CFS) || !(csts & G4_NVME_CSTS_RDY))
			return -1;
		if (g4_nvme_pair_next(&nvme->admin, &end, &said)) {
			take(nvme, end, said);
			if (g4_nvme_completion_id(end) == id) {
				*result = said;
				return (int32_t)g4_nvme_completion_status(end);
			}
		} else {
			rest(&looks);
		}
		if (!g4_patience_lasts(&patience, g4_monotonic_ns()))
			return -1;
	}
}

static uint32_t next_id(struct g4_nvme *nvme)
{
	do
		nvme->admin_id = (nvme->admin_id + 1) & 0x7fff;
	while (nvme->admin_id + 1 == nvme->unanswered);
	return nvme->admin_id;
}

static int32_t admin(struct g4_nvme *nvme, struct g4_nvme_command *command, uint32_t *result)
{
	const uint32_t id = next_id(nvme);

	command->id = (g4_le16)id;
	g4_nvme_pair_submit(&nvme->admin, command, NULL, 0, NULL);
	g4_nvme_rung(nvme);
	return await_answer(nvme, id, result);
}

/* Memory of the host that it wants; also again, for a reset ends its use of that. It works without, too. */
static void lend(struct g4_nvme *nvme)
{
	struct g4_nvme_command command __attribute__((aligned(16)));
	uint32_t result;

	if (!g4_nvme_find_lent(nvme))
		return;
	g4_nvme_describe_lent(nvme, true, &command);
	const int32_t status = admin(nvme, &command, &result);
	nvme->lends = status <= 0; /* without an answer it may have it */
	if (status > 0)
		g4_log(G4_LOG_INFO, "%s: the controller refuses the host's memory that it wants (status %03x)",
		       nvme->name, (unsigned)status & G4_NVME_STATUS_MASK);
}

static void take_back(struct g4_nvme *nvme)
{
	struct g4_nvme_command command __attribute__((aligned(16)));
	uint32_t result;

	if (!nvme->lends)
		return;
	nvme->lends = false;
	g4_nvme_describe_lent(nvme, false, &command);
	if (admin(nvme, &command, &result) != 0)
		g4_log(G4_LOG_WARN, "%s: the controller does not give the host's memory back before it is stopped",
		       nvme->name);
}

void g4_nvme_listen(struct g4_nvme *nvme)
{
	struct g4_nvme_command command
		__attribute__((aligned(16))) = {.opcode = G4_NVME_AWAIT_EVENT, .id = (g4_le16)EVENT_ID};

	g4_store32_rlx(&nvme->listens, 1);
	g4_nvme_pair_submit(&nvme->admin, &command, NULL, 0, NULL);
	g4_nvme_rung(nvme);
}

static int judge(const struct g4_nvme *nvme, int32_t status, const char *what, struct g4_dev_message message)
{
	if (status < 0)
		return g4_dev_fail(message, -G4_E_IO, "%s: the controller does not answer (%s)", nvme->name, what);
	if (status != 0)
		return g4_dev_fail(message, -G4_E_IO, "%s: the controller refuses: %s (status %03x)", nvme->name, what,
				   (unsigned)status & G4_NVME_STATUS_MASK);
	return 0;
}

static int must(struct g4_nvme *nvme, struct g4_nvme_command *command, uint32_t *result, const char *what,
		struct g4_dev_message message)
{
	return judge(nvme, admin(nvme, command, result), what, message);
}

void *g4_nvme_lanes_registers(const struct g4_nvme *nvme, uint64_t *bytes)
{
	const uint32_t first = nvme->queue_count + 1; /* 0 is admin's */
	const uintptr_t from = g4_align_down((uintptr_t)doorbell(nvme, first, 0), G4_PAGE_BYTES);

	*bytes = g4_align_up((uintptr_t)doorbell(nvme, first + nvme->lane_count, 0), G4_PAGE_BYTES) - from;
	return (void *)from;
}

/* ---- memory: the admin queues, a page for answers, then for each I/O queue its two and its lists ---- */

#define ADMIN_BYTES (3 * G4_PAGE_BYTES)

static uint64_t queue_bytes(uint32_t slots)
{
	return g4_align_up(2 * slots * sizeof(struct g4_nvme_command), G4_PAGE_BYTES) +
	       g4_align_up(2 * slots * sizeof(struct g4_nvme_completion), G4_PAGE_BYTES) + slots * G4_NVME_LIST_BYTES;
}

/* Of memory that is the driver's own. */
static uint64_t address_of(const struct g4_nvme *nvme, const void *memory)
{
	return (uintptr_t)memory + nvme->shift;
}

static uint8_t *answer(const struct g4_nvme *nvme)
{
	return nvme->memory + 2 * G4_PAGE_BYTES;
}

/* ---- opening ---- */

/* One with short queues has fewer commands under way: slots stay a power of two. */
static int check_registers(struct g4_nvme *nvme, struct g4_dev_message message)
{
	nvme->cap = read64(nvme, G4_NVME_CAP);
	if (nvme->cap == UINT64_MAX)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the controller is gone: its registers read all ones",
				   nvme->name);
	if (!G4_NVME_CAP_NVM(nvme->cap))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: has no NVM command set", nvme->name);
	if (G4_NVME_CAP_MPSMIN(nvme->cap) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: has no pages of 4096 bytes", nvme->name);
	while (nvme->slots > 1 && 2 * nvme->slots > G4_NVME_CAP_MQES(nvme->cap) + 1)
		nvme->slots /= 2;
	if (G4_NVME_CAP_MQES(nvme->cap) == 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the controller says that its queues have one entry",
				   nvme->name);
	return 0;
}

/* The controller is disabled. */
static int enable(struct g4_nvme *nvme, struct g4_dev_message message)
{
	memset(nvme->memory, 0, 2 * G4_PAGE_BYTES);
	g4_nvme_pair_init(&nvme->admin, nvme->memory, nvme->memory + G4_PAGE_BYTES, doorbell(nvme, 0, 0),
			  doorbell(nvme, 0, 1), ADMIN_ENTRIES);
	nvme->unanswered = 0; /* nor is it answered any more */
	g4_store32_rlx(&nvme->listens, 0);
	g4_store32_rel(&nvme->heard, 0);
	write32(nvme, G4_NVME_AQA, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
	write64(nvme, G4_NVME_ASQ, address_of(nvme, nvme->memory));
	write64(nvme, G4_NVME_ACQ, address_of(nvme, nvme->memory + G4_PAGE_BYTES));
	write32(nvme, G4_NVME_CC, G4_NVME_CC_ENTRIES | G4_NVME_CC_EN);
	if (await_status(nvme, G4_NVME_CSTS_RDY, G4_NVME_CSTS_RDY, ready_ns(nvme)))
		return 0;
	if (g4_nvme_csts(nvme) == G4_NVME_GONE)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the controller is gone: its registers read all ones",
				   nvme->name);
	return g4_dev_fail(message, -G4_E_IO, "%s: the controller does not become ready (status %08x)", nvme->name,
			   g4_nvme_csts(nvme));
}

/*
 * What is checked is a copy: the controller may write to the memory that it was given at any time. The page is its own until it has answered, or is
 * reset: another question waits for that, for the answer to the one before might come into its own. So there is never more than one without an answer.
 */
int g4_nvme_ask_held(struct g4_nvme *nvme, uint32_t opcode, uint32_t nsid, uint32_t dword10, void *to, const char *what,
		     struct g4_dev_message message)
{
	const uint32_t words = G4_PAGE_BYTES / sizeof(uint64_t);
	uint64_t *const from = (uint64_t *)answer(nvme);
	struct g4_nvme_command command __attribute__((aligned(16))) = {
		.opcode = (uint8_t)opcode, .nsid = nsid, .prp1 = address_of(nvme, from), .dword10 = dword10};
	uint32_t result;

	if (nvme->unanswered && await_answer(nvme, nvme->unanswered - 1, &result) < 0)
		return g4_dev_fail(
			message, -G4_E_IO,
			"%s: %s: the controller has not answered a question before, and is asked no other one",
			nvme->name, what);
	for (uint32_t i = 0; i < words; i++)
		g4_store64_rlx_sys(&from[i], 0);
	const int32_t status = admin(nvme, &command, &result);
	if (status < 0)
		nvme->unanswered = nvme->admin_id + 1;
	const int rc = judge(nvme, status, what, message);
	for (uint32_t i = 0; rc == 0 && i < words; i++) {
		const uint64_t word = g4_load64_rlx_sys(&from[i]);
		memcpy((uint8_t *)to + i * sizeof(word), &word, sizeof(word));
	}
	return rc;
}

int g4_nvme_ask(struct g4_nvme *nvme, uint32_t opcode, uint32_t nsid, uint32_t dword10, void *to, const char *what,
		struct g4_dev_message message)
{
	if (opcode != G4_NVME_IDENTIFY && opcode != G4_NVME_GET_LOG && opcode != G4_NVME_GET_FEATURES)
		return g4_dev_fail(
			message, -G4_E_NOTSUP,
			"%s: %s: gpu4fs only asks a controller; what changes a drive, or formats it, is nvme-cli's: "
			"'gpu4fs nvme unbind', then 'nvme format'",
			nvme->name, what);
	pthread_mutex_lock(&nvme->admin_lock);
	const int rc = g4_nvme_ask_held(nvme, opcode, nsid, dword10, to, what, message);
	pthread_mutex_unlock(&nvme->admin_lock);
	return rc;
}

/* One that refuses the question has no limits. One before 2.0 that has no command sets to choose is not asked: it would count an error. */
static struct g4_nvme_discards see_limits(struct g4_nvme *nvme)
{
	struct g4_nvme_commands_data page __attribute__((aligned(8)));
	const struct g4_dev_message none = {0};

	if ((!G4_NVME_CAP_SETS(nvme->cap) && read32(nvme, G4_NVME_VS) < G4_NVME_VERSION(2, 0)) ||
	    g4_nvme_ask_held(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_COMMANDS, &page, "identify limits of commands",
			     none) < 0)
		return (struct g4_nvme_discards){0};
	return g4_nvme_discards_of(&page);
}

static int see_controller(struct g4_nvme *nvme, struct g4_nvme_identity *identity, struct g4_dev_message message)
{
	struct g4_nvme_controller_data page __attribute__((aligned(8))) = {0};
	const struct g4_nvme_controller_data *const data = &page;
	const int rc = g4_nvme_ask_held(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_CONTROLLER, &page, "identify controller",
					message);

	if (rc < 0)
		return rc;
	if ((data->sqes & 15) > 6 || (data->cqes & 15) > 4)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: wants commands of another size (2^%u, 2^%u)",
				   nvme->name, data->sqes & 15u, data->cqes & 15u);
	identity->piece_bytes = G4_NVME_PIECE_MOST_BYTES;
	if (data->mdts != 0 && data->mdts < 32)
		identity->piece_bytes = g4_min64(identity->piece_bytes, G4_PAGE_BYTES << data->mdts);
	identity->wants_bytes = data->memory * G4_PAGE_BYTES;
	identity->wants_least_bytes = g4_max64(data->memory_least, data->memory_piece_least) * G4_PAGE_BYTES;
	memcpy(identity->serial, data->serial, sizeof(identity->serial));
	identity->atomics = (struct g4_nvme_atomics){data->awun, data->awupf};
	identity->namespaces = data->namespaces;
	identity->volatile_cache = data->vwc & 1;
	identity->discard = data->oncs & G4_NVME_ONCS_DSM;
	identity->notices = data->events & (G4_NVME_HAS_NAMESPACE_NOTICES | G4_NVME_HAS_FIRMWARE_NOTICES);
	/* 2 wants 4 bytes of alignment, which sectors have; 3 is none of the specification's */
	identity->sgl = (data->sgls & 3) == 1 || (data->sgls & 3) == 2;
	if (identity->discard)
		identity->discards = see_limits(nvme);
	return 0;
}

/* Each time that a namespace is opened. */
static struct g4_nvme_sizes see_sizes(const struct g4_nvme *nvme, const struct g4_nvme_identity *identity,
				      const struct g4_nvme_namespace_data *data, uint32_t nsid, uint32_t lba_shift)
{
	uint32_t unheeded;
	struct g4_nvme_sizes sizes = g4_nvme_sizes_of(identity->atomics, data, lba_shift, &unheeded);

	g4_nvme_limit_discards(identity->discards, &sizes, &unheeded);

	for (uint32_t i = 0; i < G4_NVME_UNHEEDED_COUNT; i++)
		if (unheeded >> i & 1)
			g4_log(G4_LOG_INFO, "%s: not gone by, of namespace %u: %s", nvme->name, nsid,
			       g4_nvme_unheeded[i]);
	if (g4_nvme_faster_format(data) != UINT32_MAX)
		g4_log(G4_LOG_INFO, "%s: namespace %u could have a faster format ('gpu4fs nvme id')", nvme->name, nsid);
	return sizes;
}

/* Of a namespace, by its number. */
static int see_namespace(struct g4_nvme *nvme, const struct g4_nvme_identity *identity, uint32_t nsid,
			 struct g4_dev_props *props, struct g4_nvme_sizes *sizes, struct g4_dev_message message)
{
	struct g4_nvme_namespace_data page __attribute__((aligned(8)));
	const struct g4_nvme_namespace_data *const data = &page;
	if (nsid > identity->namespaces)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: there is no namespace %u, the highest is %u",
				   nvme->name, nsid, identity->namespaces);
	const int rc = g4_nvme_ask_held(nvme, G4_NVME_IDENTIFY, nsid, G4_NVME_CNS_NAMESPACE, &page,
					"identify namespace", message);

	if (rc < 0)
		return rc;
	const uint32_t index = g4_nvme_format_index(data); /* below G4_NVME_FORMATS_MOST, whatever it says */
	const struct g4_nvme_format format = data->format_list[index];
	if (data->blocks == 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: namespace %u is not there or not active", nvme->name,
				   nsid);
	if (data->formats >= G4_NVME_FORMATS_MOST)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: the controller says that namespace %u could have %u formats: %u is the most",
				   nvme->name, nsid, data->formats + 1u, G4_NVME_FORMATS_MOST);
	if (index > data->formats)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: the controller says that namespace %u has format %u of %u", nvme->name, nsid,
				   index, data->formats + 1u);
	if (format.lba_shift != 9 && format.lba_shift != 12)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: blocks of 2^%u bytes: 512 or 4096 are needed",
				   nvme->name, format.lba_shift);
	if (format.metadata_bytes != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: its format has %u bytes of metadata a block: a format "
				   "without is needed",
				   nvme->name, format.metadata_bytes);
	if (data->blocks > (uint64_t)INT64_MAX >> format.lba_shift)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: the controller says that it has %" PRIu64 " blocks",
				   nvme->name, data->blocks);
	*props = (struct g4_dev_props){.size_bytes = data->blocks << format.lba_shift,
				       .sector_bytes = 1u << format.lba_shift,
				       .read_only = nvme->read_only,
				       .volatile_cache = identity->volatile_cache,
				       .discard = identity->discard && !nvme->read_only};
	*sizes = see_sizes(nvme, identity, data, nsid, format.lba_shift);
	if (props->size_bytes < G4_PAGE_BYTES)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: is too small (%" PRIu64 " bytes)", nvme->name,
				   props->size_bytes);
	return 0;
}

/* How many I/O queues there may be. */
static int ask_for_queues(struct g4_nvme *nvme, uint32_t *count, struct g4_dev_message message)
{
	struct g4_nvme_command command __attribute__((aligned(16))) = {.opcode = G4_NVME_SET_FEATURES,
								       .dword10 = G4_NVME_FEATURE_QUEUES,
								       .dword11 = (*count - 1) << 16 | (*count - 1)};
	uint32_t result = 0;
	const int rc = must(nvme, &command, &result, "set the number of queues", message);

	*count = (uint32_t)g4_min64(*count, g4_min64(result & 0xffff, result >> 16) + 1);
	return rc;
}

/* Which events there are to be is not important enough to fail for: errors are events in any case. */
static int ask_for_events(struct g4_nvme *nvme, struct g4_dev_message message)
{
	struct g4_nvme_command command
		__attribute__((aligned(16))) = {.opcode = G4_NVME_SET_FEATURES,
						.dword10 = G4_NVME_FEATURE_EVENTS,
						.dword11 = G4_NVME_WARNINGS | nvme->identity.notices};
	uint32_t result;
	const int32_t status = admin(nvme, &command, &result);

	if (status < 0)
		return judge(nvme, status, "say which events are wanted", message);
	g4_nvme_listen(nvme);
	return 0;
}

static uint8_t *commands_of(const struct g4_nvme *nvme, uint32_t index)
{
	return nvme->memory + ADMIN_BYTES + index * queue_bytes(nvme->slots);
}

static uint8_t *completions_of(const struct g4_nvme *nvme, uint32_t index)
{
	return commands_of(nvme, index) + g4_align_up(2 * nvme->slots * sizeof(struct g4_nvme_command), G4_PAGE_BYTES);
}

int g4_nvme_make_queue(struct g4_nvme *nvme, uint32_t index, struct g4_dev_message message)
{
	const uint32_t entries = 2 * nvme->slots, number = index + 1;
	const uint64_t completion_bytes = entries * sizeof(struct g4_nvme_completion);
	struct g4_nvme_command create
		__attribute__((aligned(16))) = {.opcode = G4_NVME_CREATE_CQ,
						.prp1 = address_of(nvme, completions_of(nvme, index)),
						.dword10 = (entries - 1) << 16 | number,
						.dword11 = G4_NVME_QUEUE_CONTIGUOUS};
	uint32_t result;
	int rc;

	if (number < nvme->provider.vectors) /* each has its own; masked, until somebody listens */
		create.dword11 |= number << 16 | G4_NVME_QUEUE_INTERRUPTS;
	memset(completions_of(nvme, index), 0, completion_bytes);
	rc = must(nvme, &create, &result, "create a completion queue", message);
	if (rc < 0)
		return rc;
	create.opcode = G4_NVME_CREATE_SQ;
	create.prp1 = address_of(nvme, commands_of(nvme, index));
	create.dword11 = G4_NVME_QUEUE_CONTIGUOUS | number << 16; /* its completion queue */
	return must(nvme, &create, &result, "create a submission queue", message);
}

static struct g4_nvme_target target_of(const struct g4_nvme *nvme, uint32_t space)
{
	return (struct g4_nvme_target){.nsid = nvme->spaces[space].nsid,
				       .block_shift = nvme->spaces[space].props.sector_bytes == 512 ? 9 : 12,
				       .space = space,
				       .sizes = nvme->spaces[space].sizes};
}

/* The driver's side of a queue that has just been made for the first time. */
static void begin_queue(struct g4_nvme *nvme, uint32_t index)
{
	const uint32_t entries = 2 * nvme->slots, number = index + 1;
	struct g4_nvme_queue *queue = &nvme->queues[index];

	g4_nvme_pair_init(&queue->flight.pair, commands_of(nvme, index), completions_of(nvme, index),
			  doorbell(nvme, number, 0), doorbell(nvme, number, 1), entries);
	g4_slots_init(&queue->pool, nvme->slots);
	queue->flight.count = nvme->slots;
	queue->flight.cache = nvme->caches;
	queue->flight.spaces = G4_NVME_SPACES_MOST;
	queue->lists =
		completions_of(nvme, index) + g4_align_up(entries * sizeof(struct g4_nvme_completion), G4_PAGE_BYTES);
	queue->first = target_of(nvme, 0);
	queue->piece_bytes = nvme->identity.piece_bytes;
	queue->has_sgl = nvme->identity.sgl;
	queue->shift = nvme->shift;
}

static uint64_t own_bytes(const struct g4_nvme *nvme, uint32_t count)
{
	return g4_align_up(ADMIN_BYTES + count * queue_bytes(nvme->slots), G4_PAGE_BYTES);
}

static uint64_t all_bytes(const struct g4_nvme *nvme, uint32_t count)
{
	return own_bytes(nvme, count) + (nvme->provider.reach ? G4_NVME_COPIES * G4_NVME_COPY_BYTES : 0);
}

void g4_nvme_leave_behind(struct g4_nvme *nvme, struct g4_nvme_left *left)
{
	pthread_mutex_lock(&nvme->admin_lock);
	left->next = nvme->left_behind;
	nvme->left_behind = left;
	pthread_mutex_unlock(&nvme->admin_lock);
}

/* The controller is stopped. */
static void give_back(struct g4_nvme *nvme)
{
	struct g4_nvme_left *left;

	while ((left = nvme->left_behind)) {
		nvme->left_behind = left->next;
		g4_memory_unmap(left->memory, left->bytes);
		free(left);
	}
}

static void *obtain_memory(struct g4_nvme *nvme)
{
	uint64_t address;
	void *memory = nvme->provider.obtain(nvme->provider.context, nvme->memory_bytes, &address);

	nvme->shift = memory ? address - (uintptr_t)memory : 0;
	return memory;
}

static int map_memory(struct g4_nvme *nvme, uint32_t count, struct g4_dev_message message)
{
	const struct g4_nvme_provider *provider = &nvme->provider;

	nvme->memory_bytes = all_bytes(nvme, count);
	nvme->shift = provider->shift;
	nvme->memory = provider->obtain ? obtain_memory(nvme) : g4_memory_map(nvme->memory_bytes);
	nvme->queues = aligned_alloc(128, count * g4_align_up(sizeof(*nvme->queues), 128));
	if (!nvme->memory || !nvme->queues)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", nvme->name);
	memset(nvme->queues, 0, count * sizeof(*nvme->queues));
	if (provider->reach && !provider->obtain &&
	    !provider->reach(provider->context, nvme->memory, nvme->memory_bytes))
		return g4_dev_fail(message, -G4_E_NOMEM,
				   "%s: its %" PRIu64 " KiB of queues can not be mapped for the controller: %m",
				   nvme->name, nvme->memory_bytes / 1024);
	if (provider->reach)
		nvme->copies = nvme->memory + own_bytes(nvme, count);
	return 0;
}

/* The lock is held, or nobody else has the controller yet. */
static int find_space(struct g4_nvme *nvme, uint32_t nsid, uint32_t *space, struct g4_dev_message message)
{
	struct g4_nvme_space *next = &nvme->spaces[nvme->space_count];

	for (*space = 0; *space < nvme->space_count; ++*space)
		if (nvme->spaces[*space].nsid == nsid)
			return 0;
	if (nvme->space_count == G4_NVME_SPACES_MOST)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: more than %u namespaces of a controller were used",
				   nvme->name, G4_NVME_SPACES_MOST);
	const int rc = see_namespace(nvme, &nvme->identity, nsid, &next->props, &next->sizes, message);
	if (rc < 0)
		return rc;
	next->nsid = nsid;
	nvme->caches[*space].is_volatile = next->props.volatile_cache;
	nvme->space_count++;
	return 0;
}

int g4_nvme_open_space(struct g4_nvme *nvme, uint32_t nsid, struct g4_nvme_target *target, struct g4_dev_props *props,
		       struct g4_dev_message message)
{
	uint32_t space;

	pthread_mutex_lock(&nvme->admin_lock);
	const int rc = find_space(nvme, nsid, &space, message);
	if (rc == 0) {
		*target = target_of(nvme, space);
		*props = nvme->spaces[space].props;
	}
	pthread_mutex_unlock(&nvme->admin_lock);
	return rc;
}

static int begin(struct g4_nvme *nvme, const struct g4_nvme_options *options, struct g4_dev_message message)
{
	const uint32_t lanes = nvme->provider.obtain ? 0 : options->lanes;
	uint32_t count = options->queues, space;
	int rc = check_registers(nvme, message);

	if (rc < 0)
		return rc;
	if (count == 0)
		count = (uint32_t)g4_min64((uint64_t)g4_max64((uint64_t)sysconf(_SC_NPROCESSORS_ONLN), 1),
					   QUEUES_DEFAULT_MOST);
	count = (uint32_t)g4_min64(g4_min64(count, G4_MAPPER_QUEUES_MOST) + lanes, G4_NVME_QUEUES_MOST);
	while (nvme->provider.obtain && count > 1 && all_bytes(nvme, count) > nvme->provider.obtain_most_bytes)
		count--;
	const uint64_t doorbells = G4_NVME_DOORBELLS + 2 * (count + 1) * (4ull << G4_NVME_CAP_DSTRD(nvme->cap));
	if (doorbells > nvme->provider.register_bytes)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: its registers end before its doorbells", nvme->name);
	if ((rc = map_memory(nvme, count, message)) < 0)
		return rc;
	if (!disable(nvme))
		return g4_dev_fail(message, -G4_E_IO, "%s: the controller does not stop within %" PRIu64 " ms",
				   nvme->name, ready_ns(nvme) / 1000000);
	if ((rc = enable(nvme, message)) < 0 || (rc = see_controller(nvme, &nvme->identity, message)) < 0 ||
	    options->questions)
		return rc;
	lend(nvme);
	if ((rc = find_space(nvme, options->nsid ? options->nsid : 1, &space, message)) < 0 ||
	    (rc = ask_for_queues(nvme, &count, message)) < 0)
		return rc;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = g4_nvme_make_queue(nvme, i, message);
		if (rc == 0)
			begin_queue(nvme, i);
		nvme->queue_count += rc == 0;
	}
	if (rc == 0 && lanes && count > 1) {
		nvme->lane_count = (uint32_t)g4_min64(lanes, count - 1);
		nvme->queue_count -= nvme->lane_count;
		nvme->lanes = &nvme->queues[nvme->queue_count];
	}
	if (rc < 0)
		return rc;
	g4_mapper_init(&nvme->mapper, nvme->queue_count);
	if (!g4_nvme_waking_open(nvme))
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", nvme->name);
	return ask_for_events(nvme, message);
}

/* ---- again ---- */

uint32_t g4_nvme_csts(const struct g4_nvme *nvme)
{
	return read32(nvme, G4_NVME_CSTS);
}

bool g4_nvme_stop(struct g4_nvme *nvme)
{
	const bool there = g4_nvme_csts(nvme) != G4_NVME_GONE;

	if (there && disable(nvme))
		return true;
	nvme->provider.halt(nvme->provider.context);
	return false;
}

int g4_nvme_see_space(struct g4_nvme *nvme, uint32_t space, struct g4_dev_props *props, struct g4_dev_message message)
{
	struct g4_nvme_sizes sizes; /* they do not have to be what they were */

	return see_namespace(nvme, &nvme->identity, nvme->spaces[space].nsid, props, &sizes, message);
}

static bool is_same(const struct g4_nvme_identity *a, const struct g4_nvme_identity *b)
{
	return a->volatile_cache == b->volatile_cache && a->discard == b->discard && a->sgl == b->sgl &&
	       a->piece_bytes == b->piece_bytes && memcmp(a->serial, b->serial, sizeof(a->serial)) == 0;
}

/* What it was, with all namespaces that were opened. */
static int identify_again(struct g4_nvme *nvme, struct g4_dev_message message)
{
	struct g4_nvme_identity now = {0};
	struct g4_dev_props props;
	struct g4_nvme_sizes sizes; /* they do not have to be what they were */
	int rc = see_controller(nvme, &now, message);
	bool same = rc == 0 && is_same(&now, &nvme->identity);

	for (uint32_t i = 0; i < nvme->space_count && rc == 0; i++) {
		rc = see_namespace(nvme, &now, nvme->spaces[i].nsid, &props, &sizes, message);
		same = same && rc == 0 && props.size_bytes == nvme->spaces[i].props.size_bytes &&
		       props.sector_bytes == nvme->spaces[i].props.sector_bytes;
	}
	if (rc == 0 && !same)
		rc = g4_dev_fail(message, -G4_E_IO, "%s: is not what it was before its reset", nvme->name);
	return rc;
}

int g4_nvme_start_again(struct g4_nvme *nvme, uint32_t count, struct g4_dev_message message)
{
	const uint32_t all = nvme->queue_count + nvme->lane_count;
	uint32_t granted = all;

	give_back(nvme);
	int rc = enable(nvme, message);
	if (rc < 0 || (rc = identify_again(nvme, message)) < 0)
		return rc;
	lend(nvme);
	if ((rc = ask_for_queues(nvme, &granted, message)) < 0)
		return rc;
	if (granted < all)
		return g4_dev_fail(message, -G4_E_IO, "%s: has fewer queues than before its reset", nvme->name);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = g4_nvme_make_queue(nvme, i, message);
	return rc < 0 ? rc : ask_for_events(nvme, message);
}

bool g4_nvme_abort(struct g4_nvme *nvme, uint32_t index, uint32_t id)
{
	struct g4_nvme_command command
		__attribute__((aligned(16))) = {.opcode = G4_NVME_ABORT, .dword10 = id << 16 | (index + 1)};
	uint32_t result;

	return admin(nvme, &command, &result) >= 0;
}

/* ---- opening and closing ---- */

static void destroy(struct g4_nvme *nvme)
{
	nvme->provider.close(nvme->provider.context);
	give_back(nvme);
	g4_nvme_free_lent(nvme);
	g4_nvme_waking_close(nvme);
	if (!nvme->provider.obtain)
		g4_memory_unmap(nvme->memory, nvme->memory_bytes);
	for (uint32_t i = 0; i < G4_NVME_COPIES; i++)
		pthread_mutex_destroy(&nvme->copy_locks[i]);
	pthread_cond_destroy(&nvme->lanes_left);
	pthread_mutex_destroy(&nvme->admin_lock);
	pthread_mutex_destroy(&nvme->start_lock);
	free(nvme->queues);
	free(nvme->name);
	free(nvme);
}

int g4_nvme_open(const char *name, const struct g4_nvme_provider *provider, const struct g4_nvme_options *options,
		 struct g4_nvme **out, struct g4_dev_message message)
{
	struct g4_nvme *nvme = aligned_alloc(128, g4_align_up(sizeof(*nvme), 128));
	char *copy = strdup(name);

	if (!nvme || !copy) {
		free(nvme);
		free(copy);
		provider->close(provider->context);
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	}
	memset(nvme, 0, sizeof(*nvme));
	nvme->provider = *provider;
	for (uint32_t i = 0; i < G4_NVME_COPIES; i++)
		pthread_mutex_init(&nvme->copy_locks[i], NULL);
	pthread_mutex_init(&nvme->admin_lock, NULL);
	pthread_cond_init(&nvme->lanes_left, NULL);
	pthread_mutex_init(&nvme->start_lock, NULL);
	nvme->name = copy;
	nvme->read_only = options->read_only;
	nvme->slots = options->slots ? options->slots : SLOTS_DEFAULT;
	nvme->resets_most = options->resets == G4_NVME_NO_RESETS ? 0 : options->resets ? options->resets : RESETS_MOST;
	nvme->poll_ns = options->poll_ns;
	nvme->timeout_ns = options->timeout_ns ? options->timeout_ns : TIMEOUT_NS;
	nvme->admin_timeout_ns = options->admin_timeout_ns ? options->admin_timeout_ns : TIMEOUT_NS;
	const int rc = begin(nvme, options, message);
	if (rc < 0) {
		if (nvme->memory)
			g4_nvme_stop(nvme);
		destroy(nvme);
		return rc;
	}
	*out = nvme;
	return 0;
}

void g4_nvme_shut_down(struct g4_nvme *nvme)
{
	take_back(nvme);
	write32(nvme, G4_NVME_CC, (read32(nvme, G4_NVME_CC) & ~G4_NVME_CC_SHN_MASK) | G4_NVME_CC_SHN_NORMAL);
	if (!await_status(nvme, G4_NVME_CSTS_SHST_MASK, G4_NVME_CSTS_SHST_DONE, nvme->admin_timeout_ns))
		g4_log(G4_LOG_WARN, "%s: the controller did not shut down", nvme->name);
}

void g4_nvme_close(struct g4_nvme *nvme)
{
	if (nvme->thread_runs)
		pthread_join(nvme->thread, NULL);
	if (g4_load32_acq(&nvme->state) != G4_NVME_DEAD) {
		g4_nvme_shut_down(nvme);
		g4_nvme_stop(nvme);
	}
	destroy(nvme);
}
