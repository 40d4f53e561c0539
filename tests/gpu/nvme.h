/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of NVMe controllers used by lanes of a GPU: what nvme.cu does for nvme_host.c. */
#ifndef G4_TEST_GPU_NVME_H
#define G4_TEST_GPU_NVME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NVME_GPU_QUEUES 64u
#define NVME_GPU_SAMPLES (UINT32_C(8) << 20)
#define NVME_GPU_CALLERS 8192u
#define NVME_GPU_BUFFERS_BYTES (UINT64_C(512) << 20) /* of all callers */

enum nvme_way {
	NVME_RAW,    /* one lane writes commands and doorbells by hand: no atomics, nothing shared */
	NVME_PAIR,   /* the same commands through dev/nvme/pair.c, which many lanes may share */
	NVME_DRIVER, /* requests, slots, retries: dev/nvme/requests.c */
	NVME_LANES, /* what the engine's lanes do: dev/nvme/lanes.c, with slots of dev/slots.c; data stays in the slot's chunk */
	NVME_CHECK /* the driver: each caller writes blocks of its own, reads them back and compares */
};

struct nvme_run {
	enum nvme_way way;
	uint32_t callers;	 /* lanes with requests; 1 for RAW and PAIR */
	uint32_t lanes_per_warp; /* of which are callers: 1 to 32 */
	uint32_t depth;		 /* commands under way by hand; the driver's callers have one request each */
	uint32_t queues;
	uint32_t bytes;	 /* of a request: 512 to 1 MiB */
	uint32_t writes; /* 0: it reads; no matter for CHECK */
	uint64_t blocks; /* of `bytes`, on the medium */
	double seconds;
	/* out: */
	uint64_t done, wrong;
	uint32_t error; /* 0; 1: a command failed; 2: no answer for 10 s */
	double elapsed_s;
	uint32_t sample_count;
	uint32_t *samples; /* NVME_GPU_SAMPLES: ns from before the submission until the caller has seen the end */
};

/* Memory for all runs. False: the GPU failed, and a line on stderr said why; so for all of these. */
bool nvme_gpu_open(void);
void nvme_gpu_close(void);
/* Makes memory of the host (queues, registers) the GPU's, too, at the same addresses. */
bool nvme_gpu_share(void *memory, uint64_t bytes);
void nvme_gpu_unshare(void *memory);
/* Copies queue `index`, a struct g4_nvme_queue that nobody has used, into the GPU's memory. */
bool nvme_gpu_put_queue(uint32_t index, const void *queue);
/* The same of struct g4_nvme_lanes, `pool` its slots. */
bool nvme_gpu_put_lanes(uint32_t index, const void *lanes, const void *pool);
bool nvme_gpu_run(struct nvme_run *run);
/* Memory of requests under way, whole pages each: that of caller `index`, or of the request with this index by hand. */
uint64_t nvme_gpu_buffer_bytes(const struct nvme_run *run);
void *nvme_gpu_buffer(const struct nvme_run *run, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
