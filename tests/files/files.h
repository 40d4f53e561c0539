/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that are named for a source: tests/files/FOLDER/test_NAME.c is about what src/FOLDER/NAME.c owns. Those of a folder are one
 * program. tests/named.py says which sources need one.
 */
#ifndef FILES_H
#define FILES_H

#include "engine/rig.h"

#include "fs/fs.h"
#include "simt/simt_host.h"

/* Mounted, without an engine around it, for each fs_test(). */
extern struct rig rig;
extern struct g4_fs *fs;
extern struct g4_wg *wg;
int files_begin(void **state);
/* The same on an image made as rig_begin_as() says. */
void files_begin_as(uint32_t checksum, uint32_t dedup);
int files_end(void **state);
#define fs_test(f) cmocka_unit_test_setup_teardown(f, files_begin, files_end)

/* A file in the root, its in-core inode referenced by the first until the last. */
struct held {
	struct g4_inode_core *inode;
	uint32_t index;
	uint64_t ino;
};
struct held files_hold(const char *name);
void files_let_go(struct held held);

void files_add(const char *source, const struct CMUnitTest *tests, size_t count);
/* At the end of a source: what main() runs of it. */
#define RUN_TESTS(...)                                                                                                 \
	__attribute__((constructor)) static void add_tests(void)                                                       \
	{                                                                                                              \
		static const struct CMUnitTest tests[] = {__VA_ARGS__};                                                \
		files_add(__FILE__, tests, sizeof(tests) / sizeof(tests[0]));                                          \
	}

#endif
