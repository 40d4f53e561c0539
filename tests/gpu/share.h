/* SPDX-License-Identifier: Apache-2.0 */
/* Between the halves of the sharing test: share_host.c has processes and MPS, share.cu what a program beside the engine does. */
#ifndef SHARE_H
#define SHARE_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct share_copier;

/* Two buffers on the GPU, one of them with a pattern. NULL: CUDA failed, and standard error says how. */
struct share_copier *share_copier_open(uint64_t bytes);
/* Copies one to the other for so long. Bytes a second, moved once; 0: CUDA failed. */
double share_copier_run(struct share_copier *copier, double seconds);
/* Whether the copy is the pattern. */
bool share_copier_is_good(struct share_copier *copier);
void share_copier_close(struct share_copier *copier);

#ifdef __cplusplus
}
#endif

#endif
