/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

#include <stddef.h>
#include <stdint.h>

/* What each target has for libFuzzer, and for replay.c. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* What the last input left behind, in a number: the same whenever and wherever it is run. */
uint32_t fuzz_outcome(void);

/* Runs it from memory of its own that ends where the input does, as libFuzzer's: a sanitizer sees who reads on. */
void replay_exactly(const uint8_t *data, size_t bytes);

/* What libFuzzer has for the targets. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

#endif
