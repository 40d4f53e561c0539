/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the public API share: a fresh file system in memory for every test, and checks that say what
 * failed. Teardown unmounts and expects that to work, so a test that leaks a handle fails.
 */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu4fs/gpu4fs.h"

/* The file system of the running test; the session is uid 0, gid 0, umask 022. */
extern gpu4fs *fs;

/* cmocka set-up and teardown: 64 MiB in memory. */
int api_setup(void **state);
int api_teardown(void **state);
#define api_test(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)
/* The same behind the socket of a mount, whose host has to hear of each inode that loses its last name. */
int api_setup_held(void **state);
int api_teardown_held(void **state);
#define api_held_test(f)                                                                                               \
	{                                                                                                              \
#f ", at a mount's socket", f, api_setup_held, api_teardown_held, NULL                                 \
	}

/*
 * Mounts a new file system on `name`, or what is on it already. With G4_TEST_CONNECTED in the environment a server is
 * started for it, and what comes back is a connection: all these tests hold there, too. G4_TEST_ENGINE names the engine.
 */
gpu4fs *api_mount(const char *name, bool format);
/* What tests call for gpu4fs_unmount(): ends the server as well. */
int api_unmount(gpu4fs *mounted);
#define gpu4fs_unmount api_unmount
/* The file system of the running test without a connection: for what a test needs many of. */
gpu4fs *api_in_process(void);
/* A session of fs with these ids, umask 022, and at most one supplementary group (0: none). */
gpu4fs *api_session(uint32_t uid, uint32_t gid, uint32_t group);
/* A file of `bytes` bytes in the working directory for an image; removes what was there. */
void api_image(const char *name, uint64_t bytes);
/* Flips a bit of the image's page that holds these 4096 bytes, while it is not mounted; its address. */
uint64_t api_flip_in_image(const char *name, const uint8_t *page);

/* Expects 0, a given negative errno, a given count. */
#define ok(call) api_expect((int64_t)(call), 0, #call, __FILE__, __LINE__)
#define fails(call, error) api_expect((int64_t)(call), -(int64_t)(error), #call, __FILE__, __LINE__)
#define gives(call, count) api_expect((int64_t)(call), (int64_t)(count), #call, __FILE__, __LINE__)
void api_expect(int64_t result, int64_t wanted, const char *text, const char *file, int line);

/* Opens or fails the test. */
gpu4fs_file *api_open(const char *path, int flags, uint32_t mode);
gpu4fs_file *api_open_as(gpu4fs *session, const char *path, int flags, uint32_t mode);
/* Makes an empty file; a file with pattern bytes; a file with a string. */
void api_touch(const char *path, uint32_t mode);
void api_write_pattern(const char *path, uint64_t seed, size_t bytes);
void api_write_text(const char *path, const char *text);
/* Expects a file to have exactly this content. */
void api_check_pattern(const char *path, uint64_t seed, size_t bytes);
void api_check_text(const char *path, const char *text);
void api_check_bytes(gpu4fs_file *file, const void *wanted, size_t bytes);
/* Attributes of what is at a path, links not followed. */
struct gpu4fs_stat api_lstat(const char *path);
bool api_exists(const char *path);
/* Number of names in a directory. */
uint32_t api_count_names(const char *path);

/* Bytes that depend on seed and position only, without pages alike. */
void api_pattern(void *to, uint64_t seed, uint64_t offset, size_t bytes);
/* A small generator for the tests' own choices. */
uint64_t api_random(uint64_t *state);

#endif
