/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes as records in pages: where values lie, that space is given back, and what a crowded page or a full file does.
 * (Names, permissions and lists through the library: test_api_xattr_acl.c.)
 */
#include "rig.h"

#include "fs/fs.h"

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_inode_core *inode;
static uint32_t index_;
static uint64_t ino;
static uint8_t value[G4_XATTR_VALUE_MAX], found[G4_XATTR_VALUE_MAX];

static int setup(void **state)
{
	(void)state;
	rig_pattern(value, 3, sizeof(value));
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	wg = rig.wg;
	fs = rig.fs;
	index_ = rig_hold(&rig, "f", &ino);
	inode = g4_icache_at(fs, index_);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_icache_put(fs, index_);
	rig_end(&rig);
	return 0;
}

static int set(uint32_t space, const char *name, uint64_t bytes, uint32_t flags)
{
	struct g4_txn txn;

	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, G4_XATTR_CREDITS, &txn), 0);
	const struct g4_inode before = inode->disk;
	int rc = g4_xattr_set(wg, fs, &txn, inode, space, name, (uint32_t)strlen(name), value, bytes, flags);
	rc = g4_end(fs, &txn, g4_inode_settle(wg, fs, &txn, inode, &before, rc));
	g4_write_unlock(&inode->lock);
	return rc;
}

static int drop(uint32_t space, const char *name)
{
	struct g4_txn txn;

	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, G4_XATTR_CREDITS, &txn), 0);
	const struct g4_inode before = inode->disk;
	int rc = g4_xattr_remove(wg, fs, &txn, inode, space, name, (uint32_t)strlen(name));
	rc = g4_end(fs, &txn, g4_inode_settle(wg, fs, &txn, inode, &before, rc));
	g4_write_unlock(&inode->lock);
	return rc;
}

static int get(uint32_t space, const char *name, uint64_t room, uint64_t *bytes)
{
	g4_read_lock(&inode->lock);
	const int rc = g4_xattr_get(wg, fs, inode, space, name, (uint32_t)strlen(name), found, room, bytes);
	g4_read_unlock(&inode->lock);
	return rc;
}

static void expect(uint32_t space, const char *name, uint64_t bytes)
{
	uint64_t got = 0;

	memset(found, 0, sizeof(found));
	assert_int_equal(get(space, name, sizeof(found), &got), 0);
	assert_int_equal(got, bytes);
	assert_memory_equal(found, value, bytes);
}

static void small_values_lie_in_the_record_and_large_ones_in_pages(void **state)
{
	const struct {
		uint64_t bytes, pages;
	} sizes[] = {{0, 1},
		     {1, 1},
		     {G4_XATTR_INLINE_MAX, 1},
		     {G4_XATTR_INLINE_MAX + 1, 2},
		     {G4_XATTR_PAYLOAD, 2},
		     {G4_XATTR_PAYLOAD + 1, 3},
		     {G4_XATTR_VALUE_MAX, 1 + 17}};

	(void)state;
	for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		assert_int_equal(set(G4_XATTR_USER, "a", sizes[k].bytes, 0), 0);
		assert_int_equal(inode->disk.pages, sizes[k].pages);
		if (sizes[k].bytes)
			expect(G4_XATTR_USER, "a", sizes[k].bytes);
	}
	assert_int_equal(drop(G4_XATTR_USER, "a"), 0);
	assert_int_equal(inode->disk.pages, 0);
	assert_int_equal(inode->disk.xattr, 0);
	assert_int_equal(drop(G4_XATTR_USER, "a"), -G4_E_NODATA);
}

static void a_name_belongs_to_its_space(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_int_equal(set(G4_XATTR_USER, "name", 10, 0), 0);
	assert_int_equal(set(G4_XATTR_SECURITY, "name", 20, 0), 0);
	assert_int_equal(set(G4_XATTR_USER, "nam", 30, 0), 0);
	expect(G4_XATTR_USER, "name", 10);
	expect(G4_XATTR_SECURITY, "name", 20);
	expect(G4_XATTR_USER, "nam", 30);
	assert_int_equal(get(G4_XATTR_TRUSTED, "name", 0, &bytes), -G4_E_NODATA);
	assert_int_equal(get(G4_XATTR_USER, "names", 0, &bytes), -G4_E_NODATA);
	/* room 0 asks how much there is; too little is told */
	assert_int_equal(get(G4_XATTR_SECURITY, "name", 0, &bytes), 0);
	assert_int_equal(bytes, 20);
	assert_int_equal(get(G4_XATTR_SECURITY, "name", 19, &bytes), -G4_E_RANGE);
	assert_int_equal(set(G4_XATTR_USER, "name", 5, G4_XATTR_CREATE), -G4_E_EXIST);
	assert_int_equal(set(G4_XATTR_USER, "new", 5, G4_XATTR_REPLACE), -G4_E_NODATA);
	expect(G4_XATTR_USER, "name", 10);
}

/* Records grow and shrink at random among others in crowded pages. */
static void records_keep_apart_in_crowded_pages(void **state)
{
	enum { NAMES = 24 };
	uint64_t random = rig_setting("G4_SEED", 1), bytes[NAMES] = {0};
	bool there[NAMES] = {false};

	(void)state;
	for (uint32_t round = 0; round < (rig_slow() ? 300u : 2000u); round++) {
		const uint32_t k = (uint32_t)(rig_random(&random) % NAMES);
		char name[8];
		snprintf(name, sizeof(name), "n%u", k);
		if (rig_random(&random) % 4 == 0) {
			assert_int_equal(drop(G4_XATTR_USER, name), there[k] ? 0 : -G4_E_NODATA);
			there[k] = false;
		} else {
			bytes[k] = rig_random(&random) % (rig_random(&random) % 8 ? 900 : 9000);
			assert_int_equal(set(G4_XATTR_USER, name, bytes[k], 0), 0);
			there[k] = true;
		}
		const uint32_t look = (uint32_t)(rig_random(&random) % NAMES);
		uint64_t got;
		snprintf(name, sizeof(name), "n%u", look);
		if (there[look] && bytes[look])
			expect(G4_XATTR_USER, name, bytes[look]);
		else if (!there[look])
			assert_int_equal(get(G4_XATTR_USER, name, 0, &got), -G4_E_NODATA);
	}
	for (uint32_t k = 0; k < NAMES; k++) {
		char name[8];
		snprintf(name, sizeof(name), "n%u", k);
		if (there[k])
			assert_int_equal(drop(G4_XATTR_USER, name), 0);
	}
	assert_int_equal(inode->disk.pages, 0);
}

static void a_file_has_pages_for_attributes_up_to_a_limit(void **state)
{
	uint32_t count = 0;
	char name[200];
	int rc = 0;

	(void)state;
	memset(name, 'x', sizeof(name));
	for (; rc == 0; count += rc == 0) {
		snprintf(name, sizeof(name), "%0190u", count);
		rc = set(G4_XATTR_USER, name, G4_XATTR_INLINE_MAX, 0);
	}
	assert_int_equal(rc, -G4_E_XATTR_SPACE);
	assert_int_equal(inode->disk.pages, G4_XATTR_MAX_PAGES);
	assert_in_range(count, G4_XATTR_MAX_PAGES * 2, G4_XATTR_MAX_PAGES * 4);
	/* what is there can still be changed */
	snprintf(name, sizeof(name), "%0190u", 7u);
	assert_int_equal(set(G4_XATTR_USER, name, 10, 0), 0);
	expect(G4_XATTR_USER, name, 10);
}

static void capabilities_go_alone(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_int_equal(set(G4_XATTR_SECURITY, "selinux", 20, 0), 0);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_drop_capability(wg, fs, inode), 0); /* it has none */
	g4_write_unlock(&inode->lock);
	assert_int_equal(set(G4_XATTR_SECURITY, "capability", 20, 0), 0);
	assert_int_equal(set(G4_XATTR_USER, "capability", 20, 0), 0);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_drop_capability(wg, fs, inode), 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(get(G4_XATTR_SECURITY, "capability", 0, &bytes), -G4_E_NODATA);
	expect(G4_XATTR_SECURITY, "selinux", 20);
	expect(G4_XATTR_USER, "capability", 20);
}

#define xattr_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		xattr_test(small_values_lie_in_the_record_and_large_ones_in_pages),
		xattr_test(a_name_belongs_to_its_space),
		xattr_test(records_keep_apart_in_crowded_pages),
		xattr_test(a_file_has_pages_for_attributes_up_to_a_limit),
		xattr_test(capabilities_go_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
