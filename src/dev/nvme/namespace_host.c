/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of a namespace (namespace_host.h). All fields count blocks less 1, but NABO and NOIOB. */
#include "dev/nvme/namespace_host.h"

#define DISCARD_GRANULE_MOST_BYTES                                                                                     \
	(2 * G4_MIB) /* a region of the allocator: a longer one would not be discarded ever */

const char *const g4_nvme_unheeded[G4_NVME_UNHEEDED_COUNT] = {
#define X(name, sentence) sentence,
	G4_NVME_UNHEEDED(X)
#undef X
};

/* Without NSABP the controller's units are the namespace's. They hold for any place, boundaries or not. */
static bool are_units_odd(struct g4_nvme_atomics controller, const struct g4_nvme_namespace_data *data)
{
	if (controller.power_fail > controller.normal)
		return true;
	return (data->features & G4_NVME_FEATURES_ATOMIC) &&
	       (data->atomic_power_fail > data->atomic_normal || data->atomic_normal < controller.normal ||
		data->atomic_power_fail < controller.power_fail);
}

static bool is_boundary_odd(const struct g4_nvme_namespace_data *data, uint32_t boundary, uint32_t unit)
{
	return boundary != 0 &&
	       (((data->features & G4_NVME_FEATURES_ATOMIC) && boundary < unit) || data->atomic_offset > boundary);
}

static void see_atomics(struct g4_nvme_atomics controller, const struct g4_nvme_namespace_data *data,
			struct g4_nvme_sizes *sizes, uint32_t *unheeded)
{
	if (are_units_odd(controller, data))
		*unheeded |= 1u << G4_NVME_UNHEEDED_ATOMIC_UNITS;
	if (is_boundary_odd(data, data->atomic_boundary_normal, data->atomic_normal) ||
	    is_boundary_odd(data, data->atomic_boundary_power_fail, data->atomic_power_fail))
		*unheeded |= 1u << G4_NVME_UNHEEDED_ATOMIC_BOUNDARIES;
	if (*unheeded != 0 || !(data->features & G4_NVME_FEATURES_ATOMIC) || data->atomic_boundary_power_fail == 0)
		return;
	sizes->whole = data->atomic_power_fail + 1u;
	sizes->whole_anywhere = controller.power_fail + 1u;
	sizes->whole_boundary = data->atomic_boundary_power_fail + 1u;
	sizes->whole_offset = data->atomic_offset;
}

static void see_preferred(const struct g4_nvme_namespace_data *data, uint32_t lba_shift, struct g4_nvme_sizes *sizes,
			  uint32_t *unheeded)
{
	const uint64_t discard = data->discard_granularity + UINT64_C(1), start = data->discard_alignment + UINT64_C(1);

	sizes->write = data->write_granularity + 1u;
	if (sizes->write % (data->write_alignment + 1u) == 0)
		sizes->write_start = data->write_alignment + 1u;
	else
		*unheeded |= 1u << G4_NVME_UNHEEDED_WRITE_ALIGNMENT;
	if ((data->optimal_write + 1u) % sizes->write == 0)
		sizes->write_optimal = data->optimal_write + 1u;
	else if (data->optimal_write != 0) /* 0 is also what is there where nothing is said */
		*unheeded |= 1u << G4_NVME_UNHEEDED_OPTIMAL_WRITE;
	if (discard << lba_shift <= DISCARD_GRANULE_MOST_BYTES && start << lba_shift <= DISCARD_GRANULE_MOST_BYTES) {
		sizes->discard = (uint32_t)discard;
		sizes->discard_start = (uint32_t)start;
	} else {
		*unheeded |= 1u << G4_NVME_UNHEEDED_DISCARD;
	}
}

struct g4_nvme_sizes g4_nvme_sizes_of(struct g4_nvme_atomics controller, const struct g4_nvme_namespace_data *data,
				      uint32_t lba_shift, uint32_t *unheeded)
{
	struct g4_nvme_sizes sizes = {.boundary = data->boundary};

	*unheeded = 0;
	see_atomics(controller, data, &sizes, unheeded);
	if (data->features & G4_NVME_FEATURES_SIZES)
		see_preferred(data, lba_shift, &sizes, unheeded);
	return sizes;
}

struct g4_nvme_discards g4_nvme_discards_of(const struct g4_nvme_commands_data *data)
{
	return (struct g4_nvme_discards){data->ranges, data->range_blocks, data->blocks};
}

void g4_nvme_limit_discards(struct g4_nvme_discards limits, struct g4_nvme_sizes *sizes, uint32_t *unheeded)
{
	uint64_t range = limits.range_blocks;

	if (limits.blocks && (range == 0 || limits.blocks < range))
		range = g4_min64(limits.blocks, UINT32_MAX);
	sizes->ranges = limits.ranges;
	sizes->range = (uint32_t)range;
	sizes->discard_most = limits.blocks;
	if (range == 0 || sizes->discard <= range)
		return;
	*unheeded |= 1u << G4_NVME_UNHEEDED_DISCARD;
	sizes->discard = sizes->discard_start = 0;
}

static bool is_taken(const struct g4_nvme_format *format)
{
	return (format->lba_shift == 9 || format->lba_shift == 12) && format->metadata_bytes == 0;
}

uint32_t g4_nvme_faster_format(const struct g4_nvme_namespace_data *data)
{
	uint32_t best = g4_nvme_format_index(data), found = UINT32_MAX;

	for (uint32_t i = 0; i <= data->formats && i < G4_NVME_FORMATS_MOST; i++)
		if (is_taken(&data->format_list[i]) &&
		    (data->format_list[i].performance & 3) < (data->format_list[best].performance & 3))
			best = found = i;
	return found;
}
