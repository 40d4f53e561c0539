/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of the cuda build. The leader and the serving lanes call one function, take_part(), from different places. It
 * is never inlined and begins with a warp barrier: after that all 32 lanes run the same instructions together, which is
 * what makes their loads and stores coalesce. What the leader brings travels in its registers, by shuffles, not
 * through memory. The functions of the regions of layers above begin in the same way.
 *
 * A lane's stack is its own: an address on the leader's stack means other memory to the other lanes. Transfers with
 * such an address are the leader's alone.
 */
#include "simt/simt.h"

/* Below this many bytes a region costs more than it saves. */
#define ALONE_BYTES 64
/* Vectors of 16 bytes that a lane has in flight: 8 times 32 lanes are a 4 KiB page. */
#define BATCH 8

enum region_kind { REGION_DISMISS, REGION_COPY, REGION_ZERO, REGION_EQUAL };

enum outcome { DISMISSED, DONE, DIFFERENT, USERS };

/* Returned in registers. */
struct part {
	uint32_t outcome; /* enum outcome */
	uint32_t kind;	  /* of a user region; else 0 */
	void *args;
};

/* Bytes up to the next 16-byte boundary. */
G4_FN static uint64_t bytes_to_boundary(const uint8_t *p)
{
	return -(uintptr_t)p & 15;
}

/*
 * The little-endian 32-bit word i at p, which need not be aligned: two aligned loads and a funnel shift. Each of the
 * aligned words holds at least one byte of the result, so neither leaves the memory that p points to.
 */
G4_FN static uint32_t word_at(const uint8_t *p, uint64_t i)
{
	const uint32_t *aligned = (const uint32_t *)((uintptr_t)p & ~(uintptr_t)3) + i;
	uint32_t shift = ((uintptr_t)p & 3) * 8;

	return shift ? __funnelshift_r(aligned[0], aligned[1], shift) : aligned[0];
}

/* The loops below give item i to lane i mod width; `lane` 0 and `width` 1 is the leader alone. */

/* Both 16-byte aligned. */
G4_FN static void copy_vectors(uint4 *to, const uint4 *from, uint64_t count, uint32_t lane, uint32_t width)
{
	uint64_t i = lane;

#pragma unroll 1
	for (; i + (BATCH - 1) * width < count; i += BATCH * width) {
		uint4 batch[BATCH];

#pragma unroll
		for (uint32_t k = 0; k < BATCH; k++)
			batch[k] = from[i + k * width];
#pragma unroll
		for (uint32_t k = 0; k < BATCH; k++)
			to[i + k * width] = batch[k];
	}
	for (; i < count; i += width)
		to[i] = from[i];
}

/* `to` is 4-byte aligned. */
G4_FN static void copy_words(uint32_t *to, const uint8_t *from, uint64_t count, uint32_t lane, uint32_t width)
{
	uint64_t i = lane;

#pragma unroll 1
	for (; i + (BATCH - 1) * width < count; i += BATCH * width) {
		uint32_t batch[BATCH];

#pragma unroll
		for (uint32_t k = 0; k < BATCH; k++)
			batch[k] = word_at(from, i + k * width);
#pragma unroll
		for (uint32_t k = 0; k < BATCH; k++)
			to[i + k * width] = batch[k];
	}
	for (; i < count; i += width)
		to[i] = word_at(from, i);
}

/* At most a few bytes: up to an alignment boundary, and what is left at the end. */
G4_FN static void copy_bytes(uint8_t *to, const uint8_t *from, uint64_t bytes, uint32_t lane, uint32_t width)
{
	for (uint64_t i = lane; i < bytes; i += width)
		to[i] = from[i];
}

G4_FN static void copy_part(uint8_t *to, const uint8_t *from, uint64_t bytes, uint32_t lane, uint32_t width)
{
	uint64_t head = g4_min64(bytes, bytes_to_boundary(to));
	uint64_t body = (bytes - head) & ~UINT64_C(15);

	copy_bytes(to, from, head, lane, width);
	to += head;
	from += head;
	if (((uintptr_t)from & 15) == 0)
		copy_vectors((uint4 *)to, (const uint4 *)from, body / 16, lane, width);
	else
		copy_words((uint32_t *)to, from, body / 4, lane, width);
	copy_bytes(to + body, from + body, bytes - head - body, lane, width);
}

G4_FN static void zero_bytes(uint8_t *to, uint64_t bytes, uint32_t lane, uint32_t width)
{
	for (uint64_t i = lane; i < bytes; i += width)
		to[i] = 0;
}

G4_FN static void zero_part(uint8_t *to, uint64_t bytes, uint32_t lane, uint32_t width)
{
	uint64_t head = g4_min64(bytes, bytes_to_boundary(to));
	uint64_t body = (bytes - head) & ~UINT64_C(15);
	uint4 *vectors = (uint4 *)(to + head);

	zero_bytes(to, head, lane, width);
	for (uint64_t i = lane; i < body / 16; i += width)
		vectors[i] = make_uint4(0, 0, 0, 0);
	zero_bytes(to + head + body, bytes - head - body, lane, width);
}

/* Both 16-byte aligned. */
G4_FN static uint32_t vectors_differ(const uint4 *a, const uint4 *b, uint64_t count, uint32_t lane, uint32_t width)
{
	uint32_t difference = 0;

#pragma unroll 4
	for (uint64_t i = lane; i < count; i += width) {
		uint4 x = a[i];
		uint4 y = b[i];

		difference |= (x.x ^ y.x) | (x.y ^ y.y) | (x.z ^ y.z) | (x.w ^ y.w);
	}
	return difference;
}

G4_FN static uint32_t bytes_differ(const uint8_t *a, const uint8_t *b, uint64_t bytes, uint32_t lane, uint32_t width)
{
	uint32_t difference = 0;

	for (uint64_t i = lane; i < bytes; i += width)
		difference |= (uint32_t)(a[i] ^ b[i]);
	return difference;
}

/* 0 when this lane's part is equal. */
G4_FN static uint32_t differ_part(const uint8_t *a, const uint8_t *b, uint64_t bytes, uint32_t lane, uint32_t width)
{
	uint64_t head = g4_min64(bytes, bytes_to_boundary(a));
	uint64_t body = (bytes - head) & ~UINT64_C(15);
	uint32_t difference = bytes_differ(a, b, head, lane, width);

	a += head;
	b += head;
	if (((uintptr_t)b & 15) == 0) {
		difference |= vectors_differ((const uint4 *)a, (const uint4 *)b, body / 16, lane, width);
	} else {
#pragma unroll 4
		for (uint64_t i = lane; i < body / 4; i += width)
			difference |= word_at(a, i) ^ word_at(b, i);
	}
	return difference | bytes_differ(a + body, b + body, bytes - head - body, lane, width);
}

G4_FN static uint64_t from_leader(uint64_t value)
{
	return __shfl_sync(G4_WARP_ALL, value, 0);
}

/*
 * One region, collective; of a user's only that it begins. The leader brings all arguments, the others bring anything. `to` is
 * the argument of a user region. Every lane gets the same outcome.
 */
G4_FN static __noinline__ struct part take_part(struct g4_wg *wg, uint32_t kind, void *to, const void *from,
						uint64_t bytes)
{
	uint32_t lane = g4_wg_lane(wg);
	uint32_t difference = 0;
	struct part part = {DISMISSED, 0, NULL};

	__syncwarp();
	kind = (uint32_t)from_leader(kind);
	if (kind == REGION_DISMISS)
		return part;
	to = (void *)from_leader((uint64_t)to);
	if (kind >= G4_REGION_USER) {
		part.outcome = USERS;
		part.kind = kind;
		part.args = to;
		return part;
	}
	from = (const void *)from_leader((uint64_t)from);
	bytes = from_leader(bytes);
	if (kind == REGION_COPY)
		copy_part((uint8_t *)to, (const uint8_t *)from, bytes, lane, G4_WARP_LANES);
	else if (kind == REGION_ZERO)
		zero_part((uint8_t *)to, bytes, lane, G4_WARP_LANES);
	else
		difference = differ_part((const uint8_t *)to, (const uint8_t *)from, bytes, lane, G4_WARP_LANES);
	/* What the lanes wrote is the leader's to read. */
	__syncwarp();
	part.outcome = g4_any(wg, difference != 0) ? DIFFERENT : DONE;
	return part;
}

/* True when the other lanes could not help. */
G4_FN static bool is_leaders_alone(const void *a, const void *b, uint64_t bytes)
{
	return bytes < ALONE_BYTES || __isLocal(a) || __isLocal(b);
}

G4_FN void g4_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	if (is_leaders_alone(to, from, bytes))
		copy_part((uint8_t *)to, (const uint8_t *)from, bytes, 0, 1);
	else
		take_part(wg, REGION_COPY, to, from, bytes);
}

G4_FN void g4_zero(struct g4_wg *wg, void *to, uint64_t bytes)
{
	if (is_leaders_alone(to, to, bytes))
		zero_part((uint8_t *)to, bytes, 0, 1);
	else
		take_part(wg, REGION_ZERO, to, NULL, bytes);
}

G4_FN bool g4_equal(struct g4_wg *wg, const void *a, const void *b, uint64_t bytes)
{
	if (is_leaders_alone(a, b, bytes))
		return differ_part((const uint8_t *)a, (const uint8_t *)b, bytes, 0, 1) == 0;
	return take_part(wg, REGION_EQUAL, const_cast<void *>(a), b, bytes).outcome == DONE;
}

/* An argument on the leader's stack is a mistake that the lanes build reports; here it must not pass unseen either. */
G4_FN void g4_region_begin(struct g4_wg *wg, uint32_t kind, void *args)
{
	if (kind < G4_REGION_USER || __isLocal(args))
		__trap();
	take_part(wg, kind, args, NULL, 0);
}

G4_FN struct g4_wg_region g4_wg_take(struct g4_wg *wg)
{
	struct g4_wg_region region;
	struct part part;

	do
		part = take_part(wg, REGION_DISMISS, NULL, NULL, 0);
	while (part.outcome == DONE || part.outcome == DIFFERENT);
	region.kind = part.kind;
	region.args = part.args;
	return region;
}

G4_FN void g4_wg_dismiss(struct g4_wg *wg)
{
	take_part(wg, REGION_DISMISS, NULL, NULL, 0);
}

G4_FN void g4_copy_in_region(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	copy_part((uint8_t *)to, (const uint8_t *)from, bytes, g4_wg_lane(wg), G4_WARP_LANES);
}
