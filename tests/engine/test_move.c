/* SPDX-License-Identifier: Apache-2.0 */
/* A mounted file system is copied to other memory and used there, as an engine on a GPU does with its own memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>

#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define FILES 300u

static const struct g4_cred root = {.umask = 022};

static int command(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, const char *name, uint64_t *handle)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = op,
			     .node = G4_NODE_ROOT,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .mode = 0644,
			     .flags = op == G4_CMD_CREATE ? G4_OPEN_READ | G4_OPEN_WRITE : 0,
			     .attr = &attr,
			     .cred = &root};
	int rc = g4_execute(wg, fs, &cmd);

	if (handle)
		*handle = cmd.handle;
	return rc;
}

static void release(struct g4_wg *wg, struct g4_fs *fs, uint64_t handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = handle};
	assert_int_equal(g4_execute(wg, fs, &cmd), 0);
}

static void make_files(struct g4_wg *wg, struct g4_fs *fs, char prefix)
{
	for (uint32_t i = 0; i < FILES; i++) {
		char name[32], text[600];
		struct g4_cmd write = {.op = G4_CMD_WRITE, .data = text, .length = i * 2, .cred = &root};

		snprintf(name, sizeof(name), "%c%u", prefix, i);
		memset(text, (int)i, sizeof(text));
		assert_int_equal(command(wg, fs, G4_CMD_CREATE, name, &write.handle), 0);
		assert_int_equal(g4_execute(wg, fs, &write), 0);
		assert_int_equal(write.value, i * 2);
		release(wg, fs, write.handle);
	}
}

static void check_files(struct g4_wg *wg, struct g4_fs *fs, char prefix)
{
	for (uint32_t i = 0; i < FILES; i++) {
		char name[32], text[600], wanted[600];
		struct g4_cmd read = {.op = G4_CMD_READ, .data = text, .length = sizeof(text)};

		snprintf(name, sizeof(name), "%c%u", prefix, i);
		memset(wanted, (int)i, sizeof(wanted));
		assert_int_equal(command(wg, fs, G4_CMD_CREATE, name, &read.handle), 0);
		assert_int_equal(g4_execute(wg, fs, &read), 0);
		assert_int_equal(read.value, i * 2);
		assert_memory_equal(text, wanted, i * 2);
		release(wg, fs, read.handle);
	}
}

/* No word of the structure still leads to memory that was left. */
static void check_pointers(const struct g4_fs *fs, const void *left, uint64_t bytes)
{
	for (size_t at = 0; at + sizeof(uint64_t) <= sizeof(*fs); at += sizeof(uint64_t)) {
		uint64_t word;
		memcpy(&word, (const uint8_t *)fs + at, sizeof(word));
		if (word - (uintptr_t)left < bytes)
			fail_msg("the word at offset %zu of struct g4_fs was not moved", at);
	}
}

static struct g4_fs *mount(struct g4_wg *wg, struct g4_dev *dev)
{
	struct g4_fs_options options = {.cache_bytes = 8 * G4_MIB};
	struct g4_fs *fs;
	char message[256];

	assert_int_equal(g4_fs_mount(wg, dev, &options, &fs, message, sizeof(message)), 0);
	return fs;
}

static void works_in_other_memory_and_back(void **state)
{
	struct g4_dev_open_options open = {0};
	struct g4_mkfs_options mkfs = {0};
	struct g4_superblock sb;
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;
	char message[256];

	(void)state;
	assert_non_null(wg);
	assert_int_equal(g4_dev_open("mem:64M", &open, &dev, message, sizeof(message)), 0);
	assert_int_equal(g4_mkfs(dev, &mkfs, &sb, message, sizeof(message)), 0);
	struct g4_fs *home = mount(wg, dev);
	make_files(wg, home, 'a');

	uint64_t bytes = home->memory_bytes;
	struct g4_fs *away = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(away, MAP_FAILED);
	intptr_t by = (intptr_t)away - (intptr_t)home;
	memcpy(away, home, bytes);
	g4_fs_moved(away, by, dev);
	check_pointers(away, home, bytes);
	assert_int_equal(mprotect(home, bytes, PROT_NONE), 0);
	check_files(wg, away, 'a');
	make_files(wg, away, 'b');
	assert_int_equal(g4_sync_all(wg, away, true), 0);
	make_files(wg, away, 'c');

	assert_int_equal(mprotect(home, bytes, PROT_READ | PROT_WRITE), 0);
	memcpy(home, away, bytes);
	g4_fs_moved(home, -by, dev);
	check_pointers(home, away, bytes);
	assert_int_equal(munmap(away, bytes), 0);
	check_files(wg, home, 'c');
	assert_int_equal(g4_fs_unmount(wg, home, true), 0);

	struct g4_fs *again = mount(wg, dev);
	check_files(wg, again, 'a');
	check_files(wg, again, 'b');
	check_files(wg, again, 'c');
	assert_int_equal(g4_fs_unmount(wg, again, true), 0);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(works_in_other_memory_and_back)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
