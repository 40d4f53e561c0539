/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that a drive without an IOMMU has: it stays where it is when somebody orders the process's pages to other nodes. For root, and
 * where there are huge pages in the kernel's pool; of a machine with one node it can say nothing either. tests/nvme/guest.sh has two.
 */
#define _GNU_SOURCE 1
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dev/nvme/huge_host.h"
#include "unit/dev_util.h"

#define NODES_MOST 64

static struct g4_huge huge;
static char message[256];

/* False: there is no such node, with memory. */
static bool has_node(int node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages", node);
	return access(path, F_OK) == 0;
}

static void order_to(int node)
{
	void *pages[] = {huge.memory};
	int status[] = {0};

	/* whether it has been moved is seen by where it is */
	if (syscall(SYS_move_pages, 0, 1ul, pages, &node, status, MPOL_MF_MOVE) < 0)
		fail_msg("move_pages: %s", strerror(errno));
}

static void nobody_moves_it(void **state)
{
	const uint64_t first = huge.address;
	uint64_t now;

	(void)state;
	memset(huge.memory, 7, G4_HUGE_BYTES);
	for (int node = 0; node < NODES_MOST; node++) {
		if (!has_node(node))
			continue;
		order_to(node);
		assert_int_equal(g4_huge_find(huge.memory, &now), 0);
		assert_int_equal(now, first);
	}
	for (uint32_t i = 0; i < G4_HUGE_BYTES; i++)
		assert_int_equal(((uint8_t *)huge.memory)[i], 7);
}

/* The device's number is above them: docs/design/nvme.md, "Without an IOMMU". */
static void no_file_of_it_has_a_higher_number(void **state)
{
	(void)state;
	assert_true(huge.pinned);
	assert_true(huge.last_file >= huge.file && huge.last_file >= huge.pin.ring_fd);
}

int main(void)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_moves_it),
		cmocka_unit_test(no_file_of_it_has_a_higher_number),
	};

	if (!has_node(0) || !has_node(1) || g4_huge_map("it", &huge, sentence) < 0) {
		printf("skipped: %s\n", message[0] ? message : "one node");
		return 77;
	}
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);
	g4_huge_unmap(&huge);
	return failed;
}
