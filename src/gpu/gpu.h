/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two halves of the CUDA engine: cuda_host.c, which is C and decides, and kernel.cu, which nvcc compiles.
 * Functions return 0 or a negative code; what CUDA said is in g4_gpu_error().
 */
#ifndef G4_GPU_H
#define G4_GPU_H

#include "gpu/told.h"
#include "ring/ring.h"

#ifdef __cplusplus
extern "C" {
#endif

#define G4_GPU_SESSIONS 63u /* clients at a time: two a lane of the dispatcher, one place is for control */

/*
 * In host memory that the GPU reads; only the dispatcher does, in each of its rounds. Each side writes its own line.
 */
struct g4_gpu_control {
	/* host */
	uint64_t active; /* bit i: session i is served */
	uint32_t stop;	 /* finish what was taken, and leave */
	uint32_t close;	 /* handles of a session are to be closed: 1 + its number, above that (<< 8) a count; 0: none */
	uint32_t stay;	 /* do not leave when idle */
	uint32_t once;	 /* leave as soon as everything is written; constant while the kernel runs */
	/* of the last launch, for benchmarks, by CLOCK_REALTIME */
	int64_t wanted_ns;   /* the agent knew that it is wanted */
	int64_t launch_ns;   /* it asked CUDA */
	int64_t launched_ns; /* CUDA returned */
	uint8_t padding0[80];
	/* GPU */
	uint64_t seen_active; /* the `active` that the dispatcher goes by */
	uint32_t closed;      /* the last `close` that was done */
	uint32_t left;	      /* the kernel has decided to leave; what it knew of the tails: */
	uint32_t tails[G4_GPU_SESSIONS];
	uint32_t error;	    /* positive code of the last background write that failed */
	int64_t started_ns; /* the kernel's first instruction, as above */
	uint8_t padding1[100];
	struct g4_gpu_told told; /* damage that was met */
};

struct g4_gpu;

struct g4_gpu_options {
	uint32_t sms;		/* multiprocessors to use at most; 0: all */
	uint32_t commit_ms;	/* longest time that a change stays uncommitted */
	uint32_t idle_us;	/* without work for so long, the kernel writes back and leaves */
	uint32_t scratch_bytes; /* of a workgroup */
};

/* Devices that the engine can run on; 0 without a driver. */
int g4_gpu_count(void);

struct g4_gpu_description {
	char name[256];
	char bus_id[32];
	uint32_t multiprocessors; /* as many as this process may use */
	bool mps;		  /* contexts that this process makes run beside those of others, in an MPS server */
	bool context;		  /* this process has one there, as CUDA's runtime makes them; or nobody can tell */
};
/* The device that g4_gpu_open() takes. Makes no context there. False: CUDA does not say. */
bool g4_gpu_describe(struct g4_gpu_description *out);
/* After g4_gpu_open(), by the same thread: ends this process's context there, with everything in it, whichever library made that. */
void g4_gpu_leave(void);
int g4_gpu_open(const struct g4_gpu_options *options, struct g4_gpu **out);
/* The kernel has ended. */
void g4_gpu_close(struct g4_gpu *gpu);
/* The sentence for the calling thread's last failure; good until its next one. */
const char *g4_gpu_error(void);
uint32_t g4_gpu_workers(const struct g4_gpu *gpu);
struct g4_gpu_control *g4_gpu_control(struct g4_gpu *gpu);

/* Device memory, zeroed. It is freed with the gpu. NULL: none left. */
void *g4_gpu_alloc(struct g4_gpu *gpu, uint64_t bytes);
void g4_gpu_free(struct g4_gpu *gpu, void *memory);
/* Copies that may run beside the kernel. */
int g4_gpu_put(struct g4_gpu *gpu, void *device, const void *host, uint64_t bytes);
int g4_gpu_get(struct g4_gpu *gpu, void *host, const void *device, uint64_t bytes);
/* Lets the GPU use host memory; *device is its address there. */
int g4_gpu_register(struct g4_gpu *gpu, void *host, uint64_t bytes, void **device);
/* The same of the registers of another device of the machine, which this process has mapped and used. */
int g4_gpu_register_io(struct g4_gpu *gpu, void *registers, uint64_t bytes, void **device);
void g4_gpu_unregister(struct g4_gpu *gpu, void *host);

/*
 * g4_nvme_lanes_try() of `count` queues in device memory, one after the other, by a kernel; the first error. -G4_E_IO may be CUDA's: g4_gpu_error().
 */
struct g4_nvme_lanes;
int g4_gpu_try_lanes(struct g4_gpu *gpu, struct g4_nvme_lanes *lanes, uint32_t count, uint64_t ns);

/* The engine's view of a session, in device memory. */
int g4_gpu_set_session(struct g4_gpu *gpu, uint32_t id, const struct g4_session *session);
int g4_gpu_get_session(struct g4_gpu *gpu, uint32_t id, struct g4_session *session);

/* Starts the kernel on the mounted file system at `fs`, in device memory; returns at once. */
int g4_gpu_launch(struct g4_gpu *gpu, void *fs);
/* Sleeps until it has left. -G4_E_IO when it ended by a fault: no call but close is of use then. */
int g4_gpu_wait(struct g4_gpu *gpu);
/* Makes warps that wait for locks or words fault: the last means against a kernel that does not stop. */
void g4_gpu_abort(struct g4_gpu *gpu);

#ifdef __cplusplus
}
#endif

#endif
