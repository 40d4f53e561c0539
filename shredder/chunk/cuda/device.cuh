/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of the CUDA engine share: the stretch of a stream that they look at, and asynchronous copies. */
#ifndef SHREDDER_CUDA_DEVICE_CUH
#define SHREDDER_CUDA_DEVICE_CUH

#include <cstdint>

#define WARP_LANES 32u
#define WARP_ALL 0xffffffffu
/* What an asynchronous copy moves; stretches begin at multiples of it in memory. */
#define PIECE_BYTES 16u

/*
 * Bytes of a stream in device memory. Offsets count from `data`; those from `low`, which is not positive and a multiple
 * of PIECE_BYTES, to `bytes` - 1 may be read. What lies before is zero (the stream had not begun) or not needed.
 */
struct stretch {
	const uint8_t *data; /* a multiple of PIECE_BYTES */
	int64_t low;
	uint32_t bytes;
};

/* `size` (0 to 16) bytes from global to shared memory, the rest of the 16 zeros. Both addresses are multiples of 16. */
__device__ __forceinline__ void copy_piece(uint32_t to_shared, const uint8_t *from, uint32_t size)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_shared), "l"(from), "r"(size) : "memory");
}

__device__ __forceinline__ void copies_commit()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` groups of this lane's copies are under way. */
template <int pending> __device__ __forceinline__ void copies_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* Bytes of the piece at `offset` that lie inside the stretch; they begin at its beginning. */
__device__ __forceinline__ uint32_t piece_bytes(const struct stretch &in, int64_t offset)
{
	if (offset < in.low || offset >= (int64_t)in.bytes)
		return 0;
	return (uint32_t)min((int64_t)PIECE_BYTES, (int64_t)in.bytes - offset);
}

#endif
