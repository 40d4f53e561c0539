/* SPDX-License-Identifier: Apache-2.0 */
/* What an NVMe controller says about itself (nvme_show.h). */
#include <inttypes.h>

#include "cli/nvme_show.h"

/* Text of a field without the blanks at its end. */
static void put_field(struct g4_report *report, const char *key, const char *field, size_t bytes)
{
	while (bytes > 0 && (field[bytes - 1] == ' ' || field[bytes - 1] == '\0'))
		bytes--;
	g4_report_name(report, key, field, bytes);
}

/* ---- id ---- */

/* Who formats a namespace, by other tools, wants the fastest one. */
static void put_format(struct g4_report *report, const struct g4_nvme_format *format)
{
	static const char *const performance[] = {"best", "better", "good", "degraded"};

	g4_report_format(report, NULL, "2^%u+%u %s", format->lba_shift, format->metadata_bytes,
			 performance[format->performance & 3]);
}

/* Of fields that are one less, or nothing where they are 0. */
static void put_distance(struct g4_report *report, const char *key, uint32_t field)
{
	if (field != 0)
		g4_report_count(report, key, field + 1);
}

static void put_atomics(struct g4_report *report, struct g4_nvme_atomics controller,
			const struct g4_nvme_namespace_data *data)
{
	const bool own = data->features & G4_NVME_FEATURES_ATOMIC;

	g4_report_count(report, "atomic_blocks", (own ? data->atomic_power_fail : controller.power_fail) + 1u);
	g4_report_count(report, "atomic_normal_blocks", (own ? data->atomic_normal : controller.normal) + 1u);
	if (own)
		g4_report_count(report, "atomic_compare_blocks", data->atomic_compare + 1u);
	put_distance(report, "atomic_boundary_blocks", data->atomic_boundary_power_fail);
	put_distance(report, "atomic_boundary_normal_blocks", data->atomic_boundary_normal);
	if (data->atomic_offset != 0)
		g4_report_count(report, "atomic_offset_blocks", data->atomic_offset);
}

static void put_preferred(struct g4_report *report, const struct g4_nvme_namespace_data *data)
{
	if (data->boundary != 0)
		g4_report_count(report, "boundary_blocks", data->boundary);
	if (!(data->features & G4_NVME_FEATURES_SIZES))
		return;
	g4_report_count(report, "write_granularity_blocks", data->write_granularity + 1u);
	g4_report_count(report, "write_alignment_blocks", data->write_alignment + 1u);
	g4_report_count(report, "write_optimal_blocks", data->optimal_write + 1u);
	g4_report_count(report, "discard_granularity_blocks", data->discard_granularity + 1u);
	g4_report_count(report, "discard_alignment_blocks", data->discard_alignment + 1u);
}

static void put_limits(struct g4_report *report, struct g4_nvme_discards discards)
{
	if (discards.ranges != 0)
		g4_report_count(report, "discard_ranges", discards.ranges);
	if (discards.range_blocks != 0)
		g4_report_count(report, "discard_range_blocks", discards.range_blocks);
	if (discards.blocks != 0)
		g4_report_count(report, "discard_blocks", discards.blocks);
}

static void put_namespace(struct g4_report *report, uint32_t nsid, struct g4_nvme_atomics controller,
			  struct g4_nvme_discards discards, const struct g4_nvme_namespace_data *data)
{
	const uint32_t index = g4_nvme_format_index(data), faster = g4_nvme_faster_format(data);
	const struct g4_nvme_format *format = &data->format_list[index];
	uint32_t unheeded;

	struct g4_nvme_sizes sizes =
		g4_nvme_sizes_of(controller, data, (uint32_t)g4_min64(format->lba_shift, 16), &unheeded);
	g4_nvme_limit_discards(discards, &sizes, &unheeded);
	g4_report_object(report, NULL);
	g4_report_count(report, "namespace", nsid);
	g4_report_count(report, "blocks", data->blocks);
	if (format->lba_shift >= 9 && format->lba_shift < 32)
		g4_report_count(report, "block_bytes", UINT64_C(1) << format->lba_shift);
	g4_report_count(report, "metadata_bytes", format->metadata_bytes);
	put_atomics(report, controller, data);
	put_preferred(report, data);
	g4_report_list(report, "not_gone_by");
	for (uint32_t i = 0; i < G4_NVME_UNHEEDED_COUNT; i++)
		if (unheeded >> i & 1)
			g4_report_text(report, NULL, g4_nvme_unheeded[i]);
	g4_report_end(report);
	g4_report_count(report, "format", index);
	if (faster != UINT32_MAX)
		g4_report_count(report, "faster_format", faster);
	g4_report_list(report, "formats");
	for (uint32_t i = 0; i <= data->formats && i < G4_NVME_FORMATS_MOST; i++)
		put_format(report, &data->format_list[i]);
	g4_report_end(report);
	g4_report_end(report);
}

int g4_nvme_show_id(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message)
{
	union {
		struct g4_nvme_controller_data controller;
		struct g4_nvme_namespace_data space;
	} page;
	uint32_t active[G4_PAGE_BYTES / sizeof(uint32_t)];
	int rc = g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_CONTROLLER, &page, "identify controller", message);

	if (rc < 0)
		return rc;
	const struct g4_nvme_atomics atomics = {page.controller.awun, page.controller.awupf};
	put_field(report, "model", page.controller.model, sizeof(page.controller.model));
	put_field(report, "serial", page.controller.serial, sizeof(page.controller.serial));
	put_field(report, "firmware", page.controller.firmware, sizeof(page.controller.firmware));
	g4_report_bool(report, "volatile_cache", page.controller.vwc & 1);
	g4_report_bool(report, "discard", page.controller.oncs & G4_NVME_ONCS_DSM);
	put_limits(report, nvme->identity.discards);
	if (page.controller.memory != 0) /* that it wants of the host */
		g4_report_size(report, "host_memory_bytes", page.controller.memory * G4_PAGE_BYTES);
	g4_report_count(report, "queue_entries", G4_NVME_CAP_MQES(nvme->cap) + 1);
	if (page.controller.mdts != 0 && page.controller.mdts < 32)
		g4_report_size(report, "largest_transfer_bytes", G4_PAGE_BYTES << page.controller.mdts);
	g4_report_count(report, "atomic_blocks", page.controller.awupf + 1u);
	g4_report_count(report, "atomic_normal_blocks", page.controller.awun + 1u);
	g4_report_count(report, "atomic_compare_blocks", page.controller.acwu + 1u);
	rc = g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_ACTIVE, active, "list namespaces", message);
	g4_report_list(report, "namespaces");
	for (uint32_t i = 0; rc == 0 && i < sizeof(active) / sizeof(active[0]) && active[i] != 0; i++) {
		rc = g4_nvme_ask(nvme, G4_NVME_IDENTIFY, active[i], G4_NVME_CNS_NAMESPACE, &page, "identify namespace",
				 message);
		if (rc == 0)
			put_namespace(report, active[i], atomics, nvme->identity.discards, &page.space);
	}
	g4_report_end(report);
	return rc;
}

/* ---- log ---- */

/* Counters have 128 bits; nobody has seen one that needs more than 64. */
static void put_counter(struct g4_report *report, const char *key, const g4_le64 counter[2])
{
	g4_report_count(report, key, counter[1] ? UINT64_MAX : counter[0]);
}

/* A log page of the controller, so many bytes of it, into a page of memory. */
static int get_log(struct g4_nvme *nvme, uint32_t log, uint32_t bytes, void *page, const char *what,
		   struct g4_dev_message message)
{
	return g4_nvme_ask(nvme, G4_NVME_GET_LOG, G4_NVME_ALL_NAMESPACES, G4_NVME_LOG_DWORD(log, bytes), page, what,
			   message);
}

static int show_health(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message)
{
	union {
		struct g4_nvme_health_log health;
		uint8_t bytes[G4_PAGE_BYTES];
	} page;
	const struct g4_nvme_health_log *log = &page.health;
	const int rc = get_log(nvme, G4_NVME_LOG_HEALTH, sizeof(*log), &page, "get the log of its health", message);

	if (rc < 0)
		return rc;
	g4_report_hex(report, "warnings", log->warnings);
	g4_report_count(report, "temperature_kelvin", log->temperature[0] | (uint32_t)log->temperature[1] << 8);
	g4_report_count(report, "spare_percent", log->spare);
	g4_report_count(report, "spare_least_percent", log->spare_least);
	g4_report_count(report, "used_percent", log->used);
	put_counter(report, "units_read", log->units_read);
	put_counter(report, "units_written", log->units_written);
	put_counter(report, "reads", log->reads);
	put_counter(report, "writes", log->writes);
	put_counter(report, "busy_minutes", log->busy_minutes);
	put_counter(report, "power_cycles", log->power_cycles);
	put_counter(report, "power_hours", log->power_hours);
	put_counter(report, "unsafe_shutdowns", log->unsafe_shutdowns);
	put_counter(report, "media_errors", log->media_errors);
	put_counter(report, "error_log_entries", log->errors);
	return 0;
}

static int show_firmware(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message)
{
	union {
		struct g4_nvme_firmware_log firmware;
		uint8_t bytes[G4_PAGE_BYTES];
	} page;
	const struct g4_nvme_firmware_log *log = &page.firmware;
	const uint32_t slots = sizeof(log->revisions) / sizeof(log->revisions[0]);
	const int rc = get_log(nvme, G4_NVME_LOG_FIRMWARE, sizeof(*log), &page, "get the log of its firmware", message);

	if (rc < 0)
		return rc;
	g4_report_count(report, "firmware_slot", log->active & 7);
	if (log->active >> 4 & 7)
		g4_report_count(report, "firmware_next_slot", log->active >> 4 & 7);
	g4_report_list(report, "firmware");
	for (uint32_t i = 0; i < slots; i++) {
		if (log->revisions[i][0] == '\0')
			continue;
		g4_report_object(report, NULL);
		g4_report_count(report, "slot", i + 1);
		put_field(report, "revision", log->revisions[i], sizeof(log->revisions[i]));
		g4_report_end(report);
	}
	g4_report_end(report);
	return 0;
}

#define NOT_SAID UINT16_MAX

static void put_error(struct g4_report *report, const struct g4_nvme_error_entry *entry)
{
	const uint32_t status = entry->status >> 1;

	g4_report_object(report, NULL);
	g4_report_count(report, "error", entry->count);
	g4_report_hex(report, "status", status & G4_NVME_STATUS_MASK);
	g4_report_bool(report, "retry", !(status & G4_NVME_DNR));
	if (entry->queue != NOT_SAID)
		g4_report_count(report, "queue", entry->queue);
	if (entry->id != NOT_SAID)
		g4_report_count(report, "command", entry->id);
	if (entry->location != NOT_SAID)
		g4_report_format(report, "wrong_field", "byte %u bit %u", entry->location & 255u,
				 entry->location >> 8 & 7u);
	g4_report_count(report, "namespace", entry->nsid);
	g4_report_count(report, "block", entry->lba);
	g4_report_end(report);
}

/* As many as there are, 64 at most: what fits into a page. Those behind an empty one are not looked at. */
static int show_errors(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message)
{
	union {
		struct g4_nvme_controller_data controller;
		struct g4_nvme_error_entry entries[G4_PAGE_BYTES / sizeof(struct g4_nvme_error_entry)];
	} page;
	int rc = g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_CONTROLLER, &page, "identify controller", message);

	if (rc < 0)
		return rc;
	const uint64_t most = sizeof(page.entries) / sizeof(page.entries[0]);
	const uint32_t count = (uint32_t)g4_min64(page.controller.error_entries + UINT64_C(1), most);
	rc = get_log(nvme, G4_NVME_LOG_ERRORS, count * (uint32_t)sizeof(page.entries[0]), &page,
		     "get the log of its errors", message);
	if (rc < 0)
		return rc;
	g4_report_list(report, "errors");
	for (uint32_t i = 0; i < count && page.entries[i].count != 0; i++)
		put_error(report, &page.entries[i]);
	g4_report_end(report);
	return 0;
}

int g4_nvme_show_log(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message)
{
	int rc = show_health(nvme, report, message);

	if (rc == 0)
		rc = show_firmware(nvme, report, message);
	return rc < 0 ? rc : show_errors(nvme, report, message);
}

/* ---- where it is ---- */

void g4_nvme_show_place(const struct g4_place *place, struct g4_report *report)
{
	static const char *const ways[] = {"below the same bridge", "below the same root complex",
					   "below another root complex"};

	g4_report_list(report, "gpus");
	for (uint32_t i = 0; i < place->gpu_count; i++) {
		const struct g4_place_gpu *gpu = &place->gpus[i];
		const char *acs = gpu->way != G4_PLACE_SWITCH ? "" :
				  gpu->redirects[0]	      ? ", by the root complex for ACS" :
				  gpu->ports_seen	      ? ", ACS lets it pass" :
								", ACS not known";
		g4_report_format(report, NULL, "%s (%s%s%s%s, PCI reaches %" PRIu64 " MiB)", gpu->name, ways[gpu->way],
				 gpu->common[0] ? " " : "", gpu->common, acs, gpu->bar_bytes / G4_MIB);
	}
	g4_report_end(report);
}

void g4_nvme_show_remedies(const struct g4_place *place, struct g4_report *report)
{
	char text[G4_PLACE_REMEDY_BYTES];

	for (uint32_t i = 0; g4_place_remedy(place, i, text); i++) {
		g4_report_object(report, NULL);
		g4_report_text(report, "address", place->name);
		g4_report_text(report, "remedy", text);
		g4_report_end(report);
	}
}
