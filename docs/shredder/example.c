/* SPDX-License-Identifier: Apache-2.0 */
/* cc example.c $(pkg-config --cflags --libs shredder) -o example && ./example FILE */
#include <shredder/shredder.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct shredder_params params = {.size = sizeof(params), .algorithm = SHREDDER_RABIN, .mask_bits = 14};
	struct shredder_options options = {.size = sizeof(options), .params = &params};
	struct shredder_chunk chunk;
	shredder *s;
	int rc = shredder_open(&options, &s);

	if (rc != 0) {
		fprintf(stderr, "%s\n", shredder_strerror(rc));
		return 1;
	}
	rc = argc > 1 ? shredder_begin_file(s, argv[1]) : shredder_begin_fd(s, 0);
	while (rc >= 0 && (rc = shredder_next(s, &chunk)) == 1) {
		printf("%10llu %8llu ", (unsigned long long)chunk.offset, (unsigned long long)chunk.length);
		for (int i = 0; i < SHREDDER_DIGEST_BYTES; i++) /* chunk.data has the bytes, until the next call */
			printf("%02x", chunk.digest[i]);
		putchar('\n');
	}
	if (rc != 0) /* what was printed is not the whole input */
		fprintf(stderr, "%s\n", shredder_last_message(s));
	shredder_close(s);
	return rc != 0;
}
