/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/engine: what serving rings and running the engine elsewhere need of an engine. Host only. */
#ifndef G4_ENGINE_OPS_HOST_H
#define G4_ENGINE_OPS_HOST_H

#include "engine/engine.h"
#include "engine/ring_host.h"
#include "fs/mount_host.h"

/* An engine that does not run on the calling thread: behind a connection, or on a GPU. */
struct g4_engine_backend {
	const char *name;	     /* see g4_engine_name() */
	struct g4_ring_client *ring; /* this process's way in */
	/* Ends it and frees the context; clean: after writing everything. */
	int (*close)(void *context, bool clean);
	/*
	 * Serves one more session, or ends that: returns when no command of the session runs and its handles are closed. NULL
	 * where the engine takes no sessions (a connection).
	 */
	int (*attach)(void *context, const struct g4_session *session, uint64_t ring_bytes, uint32_t *id);
	void (*detach)(void *context, uint32_t id);
	/* A client rang the doorbell. */
	void (*ring_doorbell)(void *context);
	void *context;
};

/* What the file system is told of mount options, defaults filled in. */
struct g4_fs_options g4_engine_fs_options(const struct g4_mount_options *options);
#define G4_ENGINE_COMMIT_MS 5000u

/* An engine handle over it, which owns it. NULL: no memory. */
struct g4_engine *g4_engine_over_ring(const struct g4_engine_backend *backend);
/* Its way in, where that is made after the handle. */
void g4_engine_set_ring(struct g4_engine *engine, struct g4_ring_client *ring);
/* NULL for an engine that runs on the calling threads. */
struct g4_engine_backend *g4_engine_backend(struct g4_engine *engine);

/*
 * Mounts on the GPU. On failure the device stays the caller's and holds what it held, so that the CPU engine can mount it.
 * -G4_E_NOTSUP: there is no GPU, or this build has no CUDA engine.
 */
int g4_cuda_mount(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out, char *message,
		  size_t message_bytes);

/* What host and kernel of a CUDA engine share, for benchmarks; NULL for any other. CUDA builds only. */
struct g4_gpu_control;
struct g4_gpu_control *g4_cuda_control(struct g4_engine *engine);

/* Where the kernels of this process find the file system of a CUDA engine; NULL for any other. CUDA builds only. */
void *g4_cuda_fs(struct g4_engine *engine);
/* Such an engine has callers of the device API from now on (engine/caller.h), or no more of this caller's: calls come in pairs. */
void g4_cuda_visit(struct g4_engine *engine, bool begin);

/* Runs a session's command on the calling thread. Fails only before it began, for want of memory. Thread-safe. */
int g4_engine_serve_command(struct g4_engine *engine, struct g4_session *session, uint32_t number,
			    struct g4_session_stage *stage);
/* Closes the handles of a session that nobody serves any more. */
int g4_engine_close_session(struct g4_engine *engine, struct g4_session *session);

#endif
