/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines whose requests are recorded. Rehearsals and recoveries are always the CPU engine's, on the fault device
 * itself, or through the engine's driver where it has one:
 *
 *	cpu	file system -> fault device: requests one after the other, complete when they return
 *	remote	file system -> remote device -> I/O agent -> fault device: as the CUDA engine has it, on this thread
 *	cuda	the CUDA engine, which makes the same of the fault device
 *	nvme	file system -> NVMe driver -> emulated controller -> fault device: what a controller makes of the commands
 *	lanes	file system -> remote device -> lanes of the NVMe driver -> emulated controller -> fault device
 *	direct	file system -> memory of a set's disks, past the set; what is left goes through it, to fault devices
 *
 * Behind an agent requests take a moment, so that several are under way at a time, and what is longer than a chunk is cut.
 * The emulated controller does one command after the other, and those that are under way together in any order.
 */
#include "dev/agent_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "lab.h"

#define UNDER_WAY_NS 5000u /* long enough for an engine to post the next request */
#define REMOTE_SLOTS 16u
#define REMOTE_CHUNK_BYTES (16 * G4_KIB)
#define REMOTE_SET_CHUNK_BYTES (32 * G4_KIB) /* a set's own table fits (space/direct.h) */
#define CUDA_CACHE_BYTES (64 * G4_MIB)
#define CUDA_SMS 16u /* three threads at most have work for them */

const char *const engine_names[ENGINES] = {"cpu", "remote", "cuda", "nvme", "lanes", "direct"};

struct g4_dev *engine_driver(struct lab *lab)
{
	const struct g4_emu_options drive = {0};
	const struct g4_nvme_options options = {.queues = 1, .lanes = lab->engine == ENGINE_LANES};
	const struct g4_emu_faults habits = {.shuffle = lab->engine}; /* commands are executed in any order */
	struct g4_dev *host, *lanes;
	struct g4_emu *emu;
	char text[256];
	const struct g4_dev_message message = {text, sizeof(text)};

	if (lab->engine != ENGINE_NVME && lab->engine != ENGINE_LANES)
		return NULL;
	g4_dev_fault_share(lab->fault);
	if (g4_nvme_emu_device_open("emulated", lab->fault, &drive, &options, &host, &emu, message) < 0)
		abort();
	g4_emu_set(emu, &habits);
	if (lab->engine == ENGINE_NVME)
		return host;
	if (g4_dev_lanes_open(host, NULL, &lanes, (struct g4_dev_message){0}) < 0)
		abort();
	return lanes;
}

/*
 * Behind an agent a file system does not grow over a disk that is added (docs/design/redundancy.md, Adding disks): what is used of one that
 * goes finds no room, but for copies and rows, which can lie on the new one as they are.
 */
static bool fits_without_growth(const struct workload *w)
{
	for (uint32_t p = 0; p < w->party_count; p++)
		for (uint32_t k = 0; k < w->parties[p].count; k++)
			if (w->parties[p].parts[k].verb == ORDER && w->parties[p].parts[k].bytes == G4_DISK_REMOVE)
				return set_kinds[w->set].spare > 0;
	return true;
}

static bool gives_orders(const struct workload *w)
{
	for (uint32_t p = 0; p < w->party_count; p++)
		for (uint32_t k = 0; k < w->parties[p].count; k++)
			if (part_is_of_disks(&w->parties[p].parts[k]))
				return true;
	return false;
}

bool engine_takes(enum engine engine, const struct workload *w)
{
	const enum device_class class_ = w->class_;

	if (engine == ENGINE_DIRECT)
		return w->set > 0 && class_ == MEM && w->party_count == 1 && !gives_orders(w);
	if (w->set > 0) /* the others' requests come from one device */
		return engine == ENGINE_CPU || (engine == ENGINE_REMOTE && fits_without_growth(w));
	return (engine != ENGINE_NVME && engine != ENGINE_LANES) || class_ == DISK512 || class_ == DISK4K;
}

static int mount_remote(struct lab *lab, const struct g4_fault *settings, struct mounted *m, char *message, size_t room)
{
	const struct g4_agent_options queue = {.slots = REMOTE_SLOTS,
					       .chunk_bytes = lab->kind ? REMOTE_SET_CHUNK_BYTES : REMOTE_CHUNK_BYTES};
	const struct g4_fs_options options = lab_mount_options(lab);

	if (lab->kind != 0 && !(lab->set.device = set_mount_device(lab, settings, message, room)))
		return -G4_E_IO;
	int rc = g4_dev_remote_open(lab->kind ? lab->set.device : lab->fault, &queue, &m->remote);
	lab->set.is_agents = lab->kind != 0 && rc == 0;
	if (rc < 0)
		return rc;
	if (lab->kind == 0)
		g4_dev_fault_share(lab->fault);
	rc = g4_fs_mount(lab->wg[0], m->remote, &options, &m->fs, message, room);
	if (rc < 0)
		g4_dev_close(m->remote);
	return rc;
}

static int mount_cuda(struct lab *lab, struct mounted *m, char *message, size_t room)
{
	const struct g4_mount_options options = {
		.flags = G4_MOUNT_NOATIME,
		.commit_ms = 1000000,
		.cache_bytes = CUDA_CACHE_BYTES,
		.tier_bytes = lab_fs_options().tier_bytes,
		.kind = G4_ENGINE_CUDA,
		.sms = CUDA_SMS,
	};

	g4_dev_fault_share(lab->fault);
	return g4_engine_mount_device(lab->fault, &options, &m->engine, message, room);
}

static int mount_here(struct lab *lab, bool write_through, struct mounted *m, char *message, size_t room)
{
	if (lab->engine == ENGINE_DIRECT)
		set_lanes_begin(lab);
	m->fs = lab_mount(lab, write_through, message, room);
	return m->fs && (lab->engine != ENGINE_DIRECT || set_lanes_mounted(lab, m->fs)) ? 0 : -G4_E_IO;
}

bool engine_mount(struct lab *lab, bool write_through, struct mounted *m, char *message, size_t room)
{
	const struct g4_fault settings = {
		.write_through = write_through,
		.delay_ns =
			lab->engine == ENGINE_CPU || lab->engine == ENGINE_DIRECT || lab->driver ? 0 : UNDER_WAY_NS};
	int rc;

	memset(m, 0, sizeof(*m));
	message[0] = 0;
	lab_settle_drive(lab);
	g4_dev_fault_set(lab->fault, &settings);
	if (lab->engine == ENGINE_CUDA)
		rc = mount_cuda(lab, m, message, room);
	else if (lab->engine == ENGINE_REMOTE)
		rc = mount_remote(lab, &settings, m, message, room);
	else
		rc = mount_here(lab, write_through, m, message, room);
	return rc == 0;
}

void engine_actor(const struct mounted *m, struct g4_wg *wg, struct actor *actor)
{
	actor_start(actor, m->fs, wg);
	actor->rig.engine = m->engine;
}

bool engine_unmount(struct lab *lab, struct mounted *m, bool clean)
{
	int rc = 0;

	if (m->engine && clean)
		rc = g4_engine_unmount(m->engine);
	else if (m->engine)
		g4_engine_abandon(m->engine);
	else
		rc = lab_unmount(lab, m->fs, clean);
	if (lab->engine == ENGINE_DIRECT)
		set_lanes_end(lab);
	g4_dev_close(m->remote);
	return rc == 0;
}
