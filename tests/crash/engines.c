/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines whose requests are recorded. Rehearsals and recoveries are always the CPU engine's, on the fault device
 * itself:
 *
 *	cpu	file system -> fault device: requests one after the other, complete when they return
 *	remote	file system -> remote device -> I/O agent -> fault device: as the CUDA engine has it, on this thread
 *	cuda	the CUDA engine, which makes the same of the fault device
 *
 * Behind an agent requests take a moment, so that several are under way at a time, and what is longer than a chunk is cut.
 */
#include "dev/agent_host.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "lab.h"

#define UNDER_WAY_NS 5000u /* long enough for an engine to post the next request */
#define REMOTE_SLOTS 16u
#define REMOTE_CHUNK_BYTES (16 * G4_KIB)
#define CUDA_CACHE_BYTES (64 * G4_MIB)
#define CUDA_SMS 16u /* three threads at most have work for them */

const char *const engine_names[ENGINES] = {"cpu", "remote", "cuda"};

static int mount_remote(struct lab *lab, struct mounted *m, char *message, size_t room)
{
	const struct g4_agent_options queue = {.slots = REMOTE_SLOTS, .chunk_bytes = REMOTE_CHUNK_BYTES};
	int rc = g4_dev_remote_open(lab->fault, &queue, &m->remote);

	if (rc < 0)
		return rc;
	g4_dev_fault_share(lab->fault);
	rc = g4_fs_mount(lab->wg[0], m->remote, &lab_fs_options, &m->fs, message, room);
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
		.kind = G4_ENGINE_CUDA,
		.sms = CUDA_SMS,
	};

	g4_dev_fault_share(lab->fault);
	return g4_engine_mount_device(lab->fault, &options, &m->engine, message, room);
}

bool engine_mount(struct lab *lab, bool write_through, struct mounted *m, char *message, size_t room)
{
	const struct g4_fault settings = {.write_through = write_through,
					  .delay_ns = lab->engine == ENGINE_CPU ? 0 : UNDER_WAY_NS};
	int rc;

	memset(m, 0, sizeof(*m));
	message[0] = 0;
	g4_dev_fault_set(lab->fault, &settings);
	if (lab->engine == ENGINE_CUDA)
		rc = mount_cuda(lab, m, message, room);
	else if (lab->engine == ENGINE_REMOTE)
		rc = mount_remote(lab, m, message, room);
	else
		rc = g4_fs_mount(lab->wg[0], lab->fault, &lab_fs_options, &m->fs, message, room);
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
		rc = g4_fs_unmount(lab->wg[0], m->fs, clean);
	g4_dev_close(m->remote);
	return rc == 0;
}
