/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a controller (lent_host.h): one piece, with a page before it that describes it.
 *
 * The controller writes there whenever it likes. So the memory is nobody else's from before it is told until after it was stopped, whatever
 * it has answered; a reset ends its use of it, and it is told anew behind that.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "dev/nvme/lent_host.h"

static uint64_t lent_most = G4_NVME_LENT_BYTES;

void g4_nvme_lend_most(uint64_t bytes)
{
	g4_store64_rlx(&lent_most, bytes);
}

/* What it is to get; 0: nothing. */
static uint64_t wanted_bytes(const struct g4_nvme *nvme)
{
	const struct g4_nvme_identity *identity = &nvme->identity;
	const uint64_t most = g4_load64_rlx(&lent_most);
	const uint64_t bytes = g4_align_down(g4_min64(identity->wants_bytes, most), G4_PAGE_BYTES);

	if (identity->wants_bytes == 0 || most == 0 || nvme->provider.obtain)
		return 0;
	if (bytes == 0 || bytes < identity->wants_least_bytes) {
		g4_log(G4_LOG_INFO,
		       "%s: the controller wants %" PRIu64 " KiB of the host's memory at least, may have %" PRIu64
		       ", and gets none",
		       nvme->name, identity->wants_least_bytes / G4_KIB, most / G4_KIB);
		return 0;
	}
	return bytes;
}

/* Mapped for it, with a description. */
static bool find_memory(struct g4_nvme *nvme, uint64_t bytes)
{
	const struct g4_nvme_provider *provider = &nvme->provider;
	uint8_t *memory = g4_memory_map(G4_PAGE_BYTES + bytes);

	if (!memory)
		return false;
	if (provider->reach && !provider->reach(provider->context, memory, G4_PAGE_BYTES + bytes)) {
		g4_log(G4_LOG_INFO,
		       "%s: the controller goes without %" PRIu64 " KiB of the host's memory that it wants: %s",
		       nvme->name, bytes / G4_KIB, strerror(errno));
		g4_memory_unmap(memory, G4_PAGE_BYTES + bytes);
		return false;
	}
	nvme->lent = memory;
	nvme->lent_bytes = bytes;
	return true;
}

void g4_nvme_describe_lent(const struct g4_nvme *nvme, bool lends, struct g4_nvme_command *command)
{
	const uint64_t list = (uintptr_t)nvme->lent + nvme->provider.shift;

	memset(command, 0, sizeof(*command));
	command->opcode = G4_NVME_SET_FEATURES;
	command->dword10 = G4_NVME_FEATURE_MEMORY;
	if (!lends)
		return;
	struct g4_nvme_memory_piece *piece = (struct g4_nvme_memory_piece *)(void *)nvme->lent;
	memset(piece, 0, sizeof(*piece));
	piece->address = list + G4_PAGE_BYTES;
	piece->pages = (uint32_t)(nvme->lent_bytes / G4_PAGE_BYTES);
	command->dword11 = G4_NVME_MEMORY_ON;
	command->dword12 = piece->pages;
	command->dword13 = (uint32_t)list;
	command->dword14 = (uint32_t)(list >> 32);
	command->dword15 = 1;
}

bool g4_nvme_find_lent(struct g4_nvme *nvme)
{
	if (nvme->lent)
		return true;
	const uint64_t bytes = wanted_bytes(nvme);

	return bytes > 0 && find_memory(nvme, bytes);
}

void g4_nvme_free_lent(struct g4_nvme *nvme)
{
	if (nvme->lent)
		g4_memory_unmap(nvme->lent, G4_PAGE_BYTES + nvme->lent_bytes);
	nvme->lent = NULL;
}
