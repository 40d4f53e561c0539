/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inputs of a fuzz target in a build without libFuzzer, and prints what each left behind; or with --seconds looks for more (mutate.h).
 *
 * Usage: fuzz_TARGET FILE...
 *        fuzz_TARGET --seconds N [--seed N] [--max-bytes N] [--corpus FOLDER] [--current FILE] FILE|FOLDER...
 *        fuzz_TARGET --cut FILE OUT       what --current has left behind, as an input
 */
#include "replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

#define INPUT_BYTES_MAX 65536

void replay_exactly(const uint8_t *data, size_t bytes)
{
	uint8_t *const own = (uint8_t *)malloc(bytes);

	if (own == NULL && bytes > 0) {
		perror("memory");
		exit(1);
	}
	if (bytes > 0)
		memcpy(own, data, bytes);
	LLVMFuzzerTestOneInput(own, bytes);
	free(own);
}

static size_t read_file(const char *path, uint8_t *data, size_t room)
{
	FILE *file = fopen(path, "rb");

	if (file == NULL) {
		perror(path);
		exit(1);
	}
	const size_t bytes = fread(data, 1, room, file);
	fclose(file);
	return bytes;
}

static int cut(const char *from, const char *to)
{
	static uint8_t data[4 + INPUT_BYTES_MAX];
	const size_t have = read_file(from, data, sizeof(data));
	FILE *file = fopen(to, "wb");
	uint32_t bytes = 0;

	memcpy(&bytes, data, sizeof(bytes));
	if (have < sizeof(bytes) || bytes > have - sizeof(bytes)) {
		fprintf(stderr, "%s has no input\n", from);
		return 1;
	}
	if (file == NULL || fwrite(data + sizeof(bytes), 1, bytes, file) != bytes || fclose(file) != 0) {
		perror(to);
		return 1;
	}
	return 0;
}

static int replay(char **files, int count)
{
	static uint8_t input[INPUT_BYTES_MAX];

	for (int i = 0; i < count; i++) {
		const size_t bytes = read_file(files[i], input, sizeof(input));

		fprintf(stderr, "%s\n", files[i]);
		replay_exactly(input, bytes);
		printf("%s %08x\n", files[i], fuzz_outcome());
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {{"seconds", required_argument, NULL, 's'},
						     {"seed", required_argument, NULL, 'n'},
						     {"max-bytes", required_argument, NULL, 'm'},
						     {"corpus", required_argument, NULL, 'c'},
						     {"current", required_argument, NULL, 'i'},
						     {"cut", no_argument, NULL, 'o'},
						     {NULL, 0, NULL, 0}};
	struct mutate_options options = {.bytes_max = 512};
	int option;

	LLVMFuzzerInitialize(&argc, &argv);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 's':
			options.seconds = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			options.seed = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			options.bytes_max = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			options.corpus = optarg;
			break;
		case 'i':
			options.current = optarg;
			break;
		case 'o':
			return optind + 2 == argc ? cut(argv[optind], argv[optind + 1]) : 2;
		default:
			return 2;
		}
	}
	return options.seconds > 0 ? mutate_run(&options, argv + optind, argc - optind) :
				     replay(argv + optind, argc - optind);
}
