/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulated controller says of itself (emu_says_host.h). */
#include "dev/nvme/emu_says_host.h"

static void pad(char *to, size_t bytes, const char *text)
{
	memset(to, ' ', bytes);
	memcpy(to, text, g4_min64(strlen(text), bytes));
}

static void identify_sizes(const struct g4_emu_options *options, struct g4_nvme_namespace_data *data)
{
	const uint32_t write = options->write_granularity, discard = options->discard_granularity,
		       start = options->discard_alignment, optimal = options->write_optimal,
		       align = options->write_alignment;

	data->boundary = (g4_le16)options->boundary;
	if (write || discard || start || optimal || align)
		data->features = G4_NVME_FEATURES_SIZES;
	data->write_granularity = (g4_le16)(write ? write - 1 : 0);
	data->write_alignment = (g4_le16)(align ? align - 1 : 0);
	data->optimal_write = (g4_le16)(optimal ? optimal - 1 : 0);
	data->discard_granularity = (g4_le16)(discard ? discard - 1 : 0);
	data->discard_alignment = (g4_le16)(start ? start - 1 : 0);
	if (options->whole) {
		data->features |= G4_NVME_FEATURES_ATOMIC;
		data->atomic_normal = data->atomic_power_fail = (g4_le16)(options->whole - 1);
		data->atomic_boundary_power_fail = (g4_le16)(options->whole_boundary ? options->whole_boundary - 1 : 0);
		data->atomic_offset = (g4_le16)options->whole_offset;
	}
	if (options->lies & G4_EMU_ODD_SIZES) {
		data->features = G4_NVME_FEATURES_SIZES | G4_NVME_FEATURES_ATOMIC;
		data->atomic_normal = 3;
		data->atomic_power_fail = 7;
		data->atomic_boundary_power_fail = 5;
		data->atomic_offset = 6;
		data->write_granularity = 7;
		data->write_alignment = 5;
		data->optimal_write = 9;
		data->discard_granularity = UINT16_MAX;
	}
}

static void identify_formats(const struct g4_emu_self *self, struct g4_nvme_namespace_data *data)
{
	const uint32_t lies = self->options->lies;
	const uint32_t first = lies & G4_EMU_MANY_FORMATS ? 16 : 0; /* the other ones before are of 2^7 bytes */
	const uint32_t index = lies & G4_EMU_NO_SUCH_FORMAT ? (first ? 41 : 9) : first + (self->block_shift == 12);

	data->formats = (uint8_t)(lies & G4_EMU_TOO_MANY_FORMATS ? 199 : first ? 19 : 1);
	data->format = (uint8_t)((index & 15) | (index >> 4) << 5 | (lies & G4_EMU_STRAY_FORMAT ? 0x60 : 0));
	for (uint32_t i = 0; i < first; i++)
		data->format_list[i].lba_shift = 7;
	data->format_list[first].lba_shift = lies & G4_EMU_ODD_BLOCKS ? 7 : 9;
	data->format_list[first + 1].lba_shift = lies & G4_EMU_ODD_BLOCKS ? 7 : 12;
	data->format_list[first].performance = lies & G4_EMU_SLOW_FORMAT ? 3 : 0;
	for (uint32_t i = 0; i < G4_NVME_FORMATS_MOST && (lies & G4_EMU_METADATA); i++)
		data->format_list[i].metadata_bytes = 8;
}

static void identify_controller(const struct g4_emu_self *self, struct g4_nvme_controller_data *data)
{
	const struct g4_emu_options *const options = self->options;
	const uint32_t lies = options->lies;

	pad(data->serial, sizeof(data->serial), "0");
	pad(data->model, sizeof(data->model), "gpu4fs emulated controller");
	pad(data->firmware, sizeof(data->firmware), "1");
	data->mdts = (uint8_t)options->mdts;
	data->events = G4_NVME_HAS_NAMESPACE_NOTICES | G4_NVME_HAS_FIRMWARE_NOTICES;
	data->event_requests = G4_EMU_REQUESTS - 1;
	data->memory = options->memory_kib / 4;
	data->memory_least = options->memory_least_kib / 4;
	data->firmware_slots = 3 << 1;
	data->error_entries = G4_EMU_ERRORS - 1;
	data->sqes = 0x60 | (lies & G4_EMU_LARGE_COMMANDS ? 7 : 6);
	data->cqes = 0x44;
	data->namespaces = (g4_le32)(self->blocks[1] ? 2 : 1);
	data->oncs = self->discard ? G4_NVME_ONCS_DSM : 0;
	data->sgls = options->sgls;
	if (options->whole_anywhere)
		data->awun = data->awupf = (g4_le16)(options->whole_anywhere - 1);
	data->vwc = self->volatile_cache;
}

static void identify_namespace(const struct g4_emu_self *self, uint64_t blocks, struct g4_nvme_namespace_data *data)
{
	const struct g4_emu_options *const options = self->options;
	const uint32_t lies = options->lies;

	data->blocks = lies & G4_EMU_NO_NAMESPACE    ? 0 :
		       lies & G4_EMU_TOO_MANY_BLOCKS ? UINT64_C(1) << 63 :
		       lies & G4_EMU_HALF	     ? blocks / 2 :
						       blocks;
	data->capacity = data->used = data->blocks;
	identify_sizes(options, data);
	identify_formats(self, data);
}

static void identify_commands(const struct g4_emu_options *options, struct g4_nvme_commands_data *data)
{
	data->ranges = (uint8_t)options->discard_ranges;
	data->range_blocks = options->discard_range;
	data->blocks = options->discard_blocks;
}

static bool is_there(const struct g4_emu_self *self, uint32_t nsid)
{
	return nsid >= 1 && nsid <= G4_EMU_NAMESPACES && self->blocks[nsid - 1] > 0;
}

uint32_t g4_emu_identify(const struct g4_emu_self *self, uint32_t cns, uint32_t nsid, void *page)
{
	g4_le32 *list = page;

	switch (cns) {
	case G4_NVME_CNS_CONTROLLER:
		identify_controller(self, page);
		return G4_NVME_OK;
	case G4_NVME_CNS_ACTIVE:
		for (uint32_t next = nsid; ++next != 0 && is_there(self, next);)
			*list++ = (g4_le32)next;
		return G4_NVME_OK;
	case G4_NVME_CNS_COMMANDS:
		if (self->options->lies & G4_EMU_OLD)
			return G4_NVME_BAD_FIELD | G4_NVME_DNR;
		identify_commands(self->options, page);
		return G4_NVME_OK;
	case G4_NVME_CNS_NAMESPACE:
		if (!is_there(self, nsid))
			return G4_NVME_BAD_NAMESPACE | G4_NVME_DNR;
		identify_namespace(self, self->blocks[nsid - 1], page);
		return G4_NVME_OK;
	default:
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	}
}

/* ---- logs ---- */

void g4_emu_note_error(struct g4_emu_deeds *deeds, uint32_t queue, const struct g4_nvme_command *command,
		       uint32_t status)
{
	const uint64_t number = ++deeds->errors;

	deeds->last[number % G4_EMU_ERRORS] =
		(struct g4_nvme_error_entry){.count = number,
					     .queue = (g4_le16)queue,
					     .id = command->id,
					     .status = (g4_le16)(status << 1),
					     .location = UINT16_MAX,
					     .lba = command->dword10 | (uint64_t)command->dword11 << 32,
					     .nsid = command->nsid};
}

static void log_errors(const struct g4_emu_deeds *deeds, struct g4_nvme_error_entry *entries)
{
	for (uint32_t i = 0; i < G4_EMU_ERRORS && i < deeds->errors; i++)
		entries[i] = deeds->last[(deeds->errors - i) % G4_EMU_ERRORS];
}

static void log_health(const struct g4_emu_self *self, const struct g4_emu_deeds *deeds,
		       struct g4_nvme_health_log *health)
{
	health->warnings = (uint8_t)self->events->warnings;
	health->temperature[0] = 300 & 255;
	health->temperature[1] = 300 >> 8;
	health->spare = 100;
	health->spare_least = 10;
	health->reads[0] = deeds->reads;
	health->writes[0] = deeds->writes;
	health->errors[0] = deeds->errors;
}

static void log_spaces(struct g4_emu_events *events, g4_le32 *list)
{
	if (events->changed)
		list[0] = 1;
	events->changed = false;
}

/* Those of its type that wait may be told from now on. */
static void has_read(struct g4_emu_events *events, uint32_t log)
{
	for (uint32_t type = 0; type < G4_EMU_EVENT_TYPES; type++)
		if (events->log[type] == log)
			events->log[type] = 0;
}

static bool is_wanted(const struct g4_emu_events *events, uint32_t event)
{
	const uint32_t type = event & 7, what = event >> 8 & 255;

	if (type == G4_NVME_EVENT_HEALTH)
		return events->warnings & events->wanted & 255;
	return type != G4_NVME_EVENT_NOTICE || (events->wanted >> 8 >> what & 1);
}

void g4_emu_note_event(struct g4_emu_events *events, uint32_t event)
{
	if (!is_wanted(events, event))
		return;
	events->waiting[event & 7] = event;
	events->waits[event & 7] = true;
}

bool g4_emu_take_event(struct g4_emu_events *events, uint32_t *event)
{
	for (uint32_t type = 0; type < G4_EMU_EVENT_TYPES; type++) {
		if (!events->waits[type] || events->log[type] != 0)
			continue;
		*event = events->waiting[type];
		events->waits[type] = false;
		events->log[type] = *event >> 16 & 255;
		return true;
	}
	return false;
}

static void log_firmware(struct g4_nvme_firmware_log *log)
{
	log->active = 1;
	pad(log->revisions[0], sizeof(log->revisions[0]), "1");
}

uint32_t g4_emu_log(const struct g4_emu_self *self, const struct g4_emu_deeds *deeds, uint32_t log, uint64_t bytes,
		    void *page)
{
	if (bytes > G4_PAGE_BYTES)
		return G4_NVME_BAD_FIELD | G4_NVME_DNR;
	has_read(self->events, log); /* also one that there is not */
	if (self->options->lies & G4_EMU_ODD_LOGS)
		memset(page, 0xff, bytes);
	else if (log == G4_NVME_LOG_ERRORS && bytes <= sizeof(deeds->last))
		log_errors(deeds, page);
	else if (log == G4_NVME_LOG_HEALTH)
		log_health(self, deeds, page);
	else if (log == G4_NVME_LOG_SPACES)
		log_spaces(self->events, page);
	else if (log == G4_NVME_LOG_FIRMWARE)
		log_firmware(page);
	else
		return G4_NVME_STATUS(1, 0x09) | G4_NVME_DNR; /* no such log */
	return G4_NVME_OK;
}
