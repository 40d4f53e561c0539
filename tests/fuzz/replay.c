/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inputs of a fuzz target in a build without libFuzzer, and prints what each left behind.
 *
 * Usage: fuzz_TARGET FILE...
 */
#include "replay.h"

#include <stdio.h>

#define INPUT_BYTES_MAX 65536

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
	(void)data;
	(void)room;
	return size; /* nothing mutates here */
}

int main(int argc, char **argv)
{
	static uint8_t input[INPUT_BYTES_MAX];

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		if (file == NULL) {
			perror(argv[i]);
			return 1;
		}
		const size_t bytes = fread(input, 1, sizeof(input), file);
		fclose(file);
		fprintf(stderr, "%s\n", argv[i]);
		LLVMFuzzerTestOneInput(input, bytes);
		printf("%s %08x\n", argv[i], fuzz_outcome());
	}
	return 0;
}
