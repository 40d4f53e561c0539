/* SPDX-License-Identifier: Apache-2.0 */
/* Partition tables: what a whole one says, the backup, and tables that lie: refused with a sentence, or the same partition as before. */
#include <stdlib.h>
#include <unistd.h>

#include "files/files.h"

#include "base/log_host.h"
#include "dev/gpt_host.h"
#include "files/dev/gpt_table.h"

#define BYTES (4 * G4_MIB)

static struct g4_dev *dev;
static struct gpt_table table;
static uint8_t *memory;
static char text[512];

/* ---- a device with blocks of 512 bytes that is memory, but is not mapped: nothing between the test and what is read ---- */

static uint8_t medium[BYTES];

static int execute(struct g4_wg *asking, struct g4_dev *of, struct g4_io *io)
{
	(void)asking;
	(void)of;
	if (io->op == G4_IO_READ)
		memcpy(io->iov[0].base, medium + io->offset_bytes, io->iov[0].bytes);
	else
		memcpy(medium + io->offset_bytes, io->iov[0].base, io->iov[0].bytes);
	return 0;
}

static const struct g4_dev_ops ops = {.execute = execute};
static struct g4_dev plain = {.props = {.size_bytes = BYTES, .sector_bytes = 512}, .ops = &ops};

static int begin(void **state)
{
	(void)state;
	dev = &plain;
	memset(medium, 0, sizeof(medium));
	memory = aligned_alloc(4096, 4096);
	memset(memory, 0, 4096);
	table = table_make(memory, BYTES / 512, 512);
	g4_log_set_level(G4_LOG_ERROR);
	return 0;
}

static int end(void **state)
{
	(void)state;
	g4_log_set_level(G4_LOG_WARN);
	free(memory);
	return 0;
}

static int find(uint32_t number, struct g4_partition *found)
{
	text[0] = '\0';
	return g4_gpt_find("it", dev, number, found, (struct g4_dev_message){text, sizeof(text)});
}

static void refused(const char *why)
{
	struct g4_partition found;

	assert_int_equal(table_write(&table, dev), 0);
	assert_int_equal(find(2, &found), -G4_E_DEV_OPEN);
	if (!strstr(text, why))
		fail_msg("%s, not: %s", text, why);
}

static void a_whole_table_tells_where_partitions_are(void **state)
{
	struct g4_partition found;

	(void)state;
	assert_int_equal(table_write(&table, dev), 0);
	assert_int_equal(find(1, &found), 0);
	assert_int_equal(found.offset_bytes, 8 * 512);
	assert_int_equal(found.bytes, 16 * 512);
	assert_int_equal(find(2, &found), 0);
	assert_int_equal(found.offset_bytes, 64 * 512);
	assert_int_equal(found.bytes, 256 * 512);
	assert_int_equal(find(4, &found), 0);
	assert_int_equal(found.offset_bytes + found.bytes, BYTES - 2 * 512);
	for (uint32_t none = 3; none < 10; none += none == 3 ? 2 : 1) {
		assert_int_equal(find(none, &found), -G4_E_DEV_OPEN);
		assert_non_null(strstr(text, "there is no partition"));
	}
	assert_int_equal(find(UINT32_MAX, &found), -G4_E_DEV_OPEN);
}

static void the_backup_stands_in(void **state)
{
	struct g4_partition found;

	(void)state;
	memory[512 + 20] ^= 1;
	assert_int_equal(table_write(&table, dev), 0);
	assert_int_equal(find(2, &found), 0);
	assert_int_equal(found.offset_bytes, 64 * 512);
	table.last[512] ^= 1;
	refused("its header's checksum does not match; nor can its backup: it has no signature");
}

static void what_is_no_table_is_refused(void **state)
{
	struct g4_partition found;

	(void)state;
	assert_int_equal(find(1, &found), -G4_E_DEV_OPEN);
	assert_non_null(strstr(text, "has no GUID partition table"));
	memory[446 + 4] = 0x83; /* an old table of another kind over it */
	refused("has no GUID partition table");
}

/* With checksums that match: who lies can compute them. */
static void tables_that_lie_are_refused(void **state)
{
	const struct {
		uint32_t at, bytes;
		uint64_t value;
		const char *why;
	} lies[] = {
		{8, 4, 0, "another form"},
		{12, 4, 91, "another form"},
		{12, 4, 513, "another form"},
		{12, 4, UINT32_MAX, "another form"},
		{24, 8, 2, "another block's"},
		{40, 8, 0, "usable blocks are none"},
		{40, 8, UINT64_MAX, "usable blocks are none"},
		{48, 8, 8192, "usable blocks are none"},
		{48, 8, UINT64_MAX, "usable blocks are none"},
		{72, 8, 0, "outside of the device"},
		{72, 8, 8192, "outside of the device"},
		{72, 8, UINT64_MAX, "outside of the device"},
		{72, 8, 100, "among the partitions"},
		{80, 4, 0, "another form"},
		{80, 4, UINT32_MAX, "another form"},
		{84, 4, 0, "another form"},
		{84, 4, 64, "another form"},
		{84, 4, 129, "another form"},
		{84, 4, UINT32_MAX, "another form"},
	};
	uint8_t *header = memory + 512;

	(void)state;
	memset(table.last, 0, 2 * 512);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t before[92];
		memcpy(before, header, sizeof(before));
		memcpy(header + lies[i].at, &lies[i].value, lies[i].bytes);
		table_seal(header, memory + 2 * 512);
		refused(lies[i].why);
		memcpy(header, before, sizeof(before));
	}
}

static void partitions_that_lie_are_refused(void **state)
{
	const struct {
		uint32_t number;
		uint64_t first, last;
		const char *why;
	} lies[] = {
		{2, 319, 64, "outside of the usable"},
		{2, 2, 100, "outside of the usable"},
		{2, 100, 8190, "outside of the usable"},
		{2, 100, UINT64_MAX, "outside of the usable"},
		{1, UINT64_MAX, UINT64_MAX, "outside of the usable"},
		{1, 0, UINT64_MAX, "outside of the usable"},
		{3, 319, 320, "overlap"},
		{3, 9, 9, "overlap"},
		{4, 8, 8189, "overlap"},
	};

	(void)state;
	memset(table.last, 0, 2 * 512);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t before[TABLE_ENTRIES * TABLE_ENTRY_BYTES];
		memcpy(before, memory + 2 * 512, sizeof(before));
		table_entry(memory + 2 * 512, lies[i].number, lies[i].first, lies[i].last);
		table_seal(memory + 512, memory + 2 * 512);
		refused(lies[i].why);
		memcpy(memory + 2 * 512, before, sizeof(before));
	}
}

/* Each bit of header and entries, without a backup: none gives another partition. */
static void no_flipped_bit_is_believed(void **state)
{
	uint32_t believed = 0;

	(void)state;
	memset(table.last, 0, 2 * 512);
	for (uint32_t bit = 0; bit < 2 * 512 * 8; bit++) {
		struct g4_partition found;
		memory[512 + bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(table_write(&table, dev), 0);
		if (find(2, &found) == 0) {
			believed++;
			assert_int_equal(found.offset_bytes, 64 * 512);
			assert_int_equal(found.bytes, 256 * 512);
		}
		memory[512 + bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(believed, (512 - 92) * 8); /* what is behind the header belongs to nothing */
}

static void small_partitions_are_refused(void **state)
{
	struct g4_partition found;

	(void)state;
	table_entry(memory + 2 * 512, 1, 8, 14);
	table_seal(memory + 512, memory + 2 * 512);
	assert_int_equal(table_write(&table, dev), 0);
	assert_int_equal(find(1, &found), -G4_E_DEV_SMALL);
}

/* By name: requests stay inside the partition, and nothing else is written. */
static void a_partition_is_a_device_of_its_own(void **state)
{
	static uint8_t page[4096] __attribute__((aligned(4096))), seen[4096] __attribute__((aligned(4096)));
	char path[] = "/tmp/gpt-XXXXXX", name[64];
	const int fd = mkstemp(path);
	struct g4_dev *part;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES), 0);
	close(fd);
	snprintf(name, sizeof(name), "emu:%s", path);
	assert_int_equal(g4_dev_open(name, NULL, &dev, text, sizeof(text)), 0);
	assert_int_equal(table_write(&table, dev), 0);
	g4_dev_close(dev);
	snprintf(name, sizeof(name), "emu:part=2:%s", path);
	assert_string_equal(g4_dev_path(name), path);
	assert_int_equal(g4_dev_open(name, NULL, &part, text, sizeof(text)), 0);
	assert_int_equal(g4_dev_props(part)->size_bytes, 256 * 512);
	memset(page, 0x5a, sizeof(page));
	assert_int_equal(g4_dev_write(NULL, part, 0, page, 4096, 0), 0);
	assert_int_equal(g4_dev_write(NULL, part, 255 * 512, page, 512, 0), 0);
	assert_int_equal(g4_dev_write(NULL, part, 255 * 512, page, 1024, 0), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_write(NULL, part, 256 * 512, page, 512, 0), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(NULL, part, 0, seen, 4096), 0);
	assert_memory_equal(seen, page, 4096);
	g4_dev_close(part);
	snprintf(name, sizeof(name), "emu:%s", path);
	assert_int_equal(g4_dev_open(name, NULL, &dev, text, sizeof(text)), 0);
	for (uint64_t block = 3; block < 400; block++) {
		assert_int_equal(g4_dev_read(NULL, dev, block * 512, seen, 512), 0);
		assert_int_equal(seen[0], (block >= 64 && block < 72) || block == 319 ? 0x5a : 0);
	}
	g4_dev_close(dev);
	const char *const bad[] = {"emu:part=3:", "emu:part=0:", "emu:part=:", "emu:part=2x:", "emu:part=-1:"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", bad[i], path);
		assert_int_equal(g4_dev_open(name, NULL, &part, text, sizeof(text)),
				 i == 0 ? -G4_E_DEV_OPEN : -G4_E_DEV_NAME);
	}
	unlink(path);
}

#define gpt_test(f) cmocka_unit_test_setup_teardown(f, begin, end)
RUN_TESTS(gpt_test(a_whole_table_tells_where_partitions_are), gpt_test(the_backup_stands_in),
	  gpt_test(what_is_no_table_is_refused), gpt_test(tables_that_lie_are_refused),
	  gpt_test(partitions_that_lie_are_refused), gpt_test(no_flipped_bit_is_believed),
	  gpt_test(small_partitions_are_refused), gpt_test(a_partition_is_a_device_of_its_own))
