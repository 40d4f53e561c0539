/* SPDX-License-Identifier: Apache-2.0 */
/* What the device tests share: aligned memory, content that tells its place, temporary files. */
#ifndef G4_TEST_DEV_UTIL_H
#define G4_TEST_DEV_UTIL_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev/dev_host.h"
#include "simt/simt_host.h"

static inline uint8_t *pages(uint64_t bytes)
{
	uint8_t *memory = aligned_alloc(G4_PAGE_BYTES, bytes);
	assert_non_null(memory);
	memset(memory, 0, bytes);
	return memory;
}

static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ (x >> 33);
}

/* Content that tells its place and version: any misplaced, stale or torn word is seen. */
static inline void fill(void *buffer, uint64_t bytes, uint64_t offset, uint64_t version)
{
	uint64_t *words = buffer;
	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = mix(offset / 8 + i) ^ mix(version);
}

static inline void check(const void *buffer, uint64_t bytes, uint64_t offset, uint64_t version)
{
	const uint64_t *words = buffer;
	for (uint64_t i = 0; i < bytes / 8; i++)
		assert_int_equal(words[i], mix(offset / 8 + i) ^ mix(version));
}

static inline void temporary_path(char *path, size_t bytes, const char *directory)
{
	snprintf(path, bytes, "%s/gpu4fs-dev-XXXXXX", directory);
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
}

static inline const char *temporary_directory(void)
{
	const char *directory = getenv("TMPDIR");
	return directory && *directory ? directory : "/tmp";
}

/* Opens a device that must open. */
static inline struct g4_dev *open_device(const char *name)
{
	char message[256] = "";
	struct g4_dev *dev = NULL;
	int code = g4_dev_open(name, NULL, &dev, message, sizeof(message));
	if (code != 0)
		print_error("%s\n", message);
	assert_int_equal(code, 0);
	assert_non_null(dev);
	return dev;
}

/* Submits an array of requests together. */
static inline void submit_all(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *ios, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ios[i].next = i + 1 < count ? &ios[i + 1] : NULL;
	g4_dev_submit(wg, dev, ios);
	for (uint32_t i = 0; i < count; i++)
		ios[i].next = NULL;
}

#endif
