/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How several GPUs pass the beginning of the open chunk on: batch n leaves it in a baton, a few words of page-locked host
 * memory, and batch n + 1, on another GPU, waits for that baton before it resolves its candidates. No GPU needs to see
 * another one's memory, and a GPU that fails cannot hold up another for ever, since `stop` ends the wait.
 *
 * Deadlock: a batch waits for batches alone that were submitted before it, so it also ends when all kernels run one after
 * the other.
 */
#ifndef SHREDDER_CUDA_RELAY_CUH
#define SHREDDER_CUDA_RELAY_CUH

#include "chunk/cuda/resolve.cuh"

/* How long a waiting lane sleeps between two looks at the host's memory. */
#define LOOK_NS 500u

/* What batch n leaves for the next one. The stamp is written last and is never the same twice. */
struct baton {
	uint64_t stamp; /* n + 1 */
	uint64_t open;
	uint32_t poisoned; /* as in struct chain */
	uint32_t reserved;
};

struct relay {
	const struct baton *from; /* NULL: the GPU's own chain is right already */
	struct baton *to;	  /* NULL: there is one GPU */
	uint64_t stamp;		  /* of `to`; that of `from` is one less */
	const uint32_t *stop;	  /* the host has given up the batches */
};

__device__ __forceinline__ uint64_t load_stamp(const struct baton *baton)
{
	uint64_t stamp;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(stamp) : "l"(&baton->stamp) : "memory");
	return stamp;
}

/* One lane. */
__global__ void receive_kernel(const __grid_constant__ struct relay relay, struct chain *chain)
{
	while (load_stamp(relay.from) != relay.stamp - 1) {
		if (*(const volatile uint32_t *)relay.stop) {
			chain->poisoned = 1;
			return;
		}
		__nanosleep(LOOK_NS);
	}
	const volatile struct baton *from = relay.from;
	chain->open = from->open;
	chain->poisoned = from->poisoned;
}

/* One lane, when the batch is resolved. */
__global__ void send_kernel(const __grid_constant__ struct relay relay, const struct chain *chain,
			    const struct outcome *outcome)
{
	relay.to->open = outcome->failed ? chain->open : outcome->open;
	relay.to->poisoned = outcome->failed || chain->poisoned;
	asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(&relay.to->stamp), "l"(relay.stamp) : "memory");
}

#endif
