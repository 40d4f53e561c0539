/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for inputs by itself, where there is no libFuzzer (README.md). */
#ifndef MUTATE_H
#define MUTATE_H

#include <stddef.h>
#include <stdint.h>

struct mutate_options {
	uint64_t seconds, seed;
	size_t bytes_max;
	const char *
		corpus; /* a folder: inputs that reach something new are kept there, and those of others are taken from there; NULL: none */
	const char *current; /* a file that has the input that is being run; it goes when all is well. NULL: none */
};

/* Inputs to begin with are files, or folders of such. 0, or an exit status after a message; what breaks a promise ends the process. */
int mutate_run(const struct mutate_options *options, char **inputs, int count);

#endif
