/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a mount that is there before the first command asks for it. */
#include <sys/mman.h>

#include "files/files.h"

#include "fs/mount_host.h"

/* How many pages of memory in a row the kernel has given. */
static uint64_t given(const void *memory, uint64_t bytes)
{
	const uint64_t pages = bytes / G4_PAGE_BYTES;
	unsigned char *each = calloc(pages, 1);
	uint64_t count = 0;

	assert_non_null(each);
	assert_int_equal(mincore((void *)(uintptr_t)memory, bytes, each), 0);
	for (uint64_t k = 0; k < pages; k++)
		count += each[k] & 1;
	free(each);
	return count;
}

/* Zeros are what both tables have at first, so who takes the memory away leaves them empty. */
static void tables_of_names_have_their_memory(void **state)
{
	const uint64_t names = ((uint64_t)fs->lookup.mask + 1) * sizeof(struct g4_lookup_entry);
	const uint64_t keys = ((uint64_t)fs->icache.bucket_mask + 1) * G4_ICACHE_KEYS * sizeof(struct g4_icache_key);

	(void)state;
	assert_int_equal(names % G4_PAGE_BYTES, 0);
	assert_int_equal(keys % G4_PAGE_BYTES, 0);
	assert_int_equal(madvise(fs->lookup.entries, names, MADV_DONTNEED), 0);
	assert_int_equal(madvise(fs->icache.keys, keys, MADV_DONTNEED), 0);
	assert_int_equal(given(fs->lookup.entries, names), 0);
	assert_int_equal(given(fs->icache.keys, keys), 0);
	if (madvise(fs->icache.keys, G4_PAGE_BYTES, MADV_POPULATE_WRITE) != 0)
		skip(); /* Linux before 5.14 */
	g4_fs_touch(fs);
	assert_int_equal(given(fs->lookup.entries, names), names / G4_PAGE_BYTES);
	assert_int_equal(given(fs->icache.keys, keys), keys / G4_PAGE_BYTES);
	/* what is there is left alone */
	uint64_t ino;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "name", G4_S_IFREG | 0644, &ino), 0);
	g4_fs_touch(fs);
	struct g4_attr attr;
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "name", &attr), 0);
	assert_int_equal(attr.ino, ino);
}

RUN_TESTS(fs_test(tables_of_names_have_their_memory))
