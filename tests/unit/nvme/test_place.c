/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a controller is, of a sysfs that the test has made: the IOMMU's group, limits, GPUs below the same switch and elsewhere, their BARs,
 * what ports do, in which pieces memory is pinned;
 * and the remedy for each of what stands in the way.
 */
#define _GNU_SOURCE 1
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dev/nvme/acs_host.h"
#include "dev/nvme/place_host.h"
#include "unit/dev_util.h"

#define DRIVE "0000:03:00.0"
#define ROOT_A "pci0000:00"
#define SWITCH ROOT_A "/0000:00:01.0/0000:01:00.0"
#define MOST UINT64_MAX

static char root[] = "/tmp/gpu4fs-place.XXXXXX";
static struct g4_place place;
static char sentence[G4_PLACE_REMEDY_BYTES];

/* Folders of a path below the root, up to its last part; *full: the path. */
static void make_way(const char *path, char full[1024])
{
	snprintf(full, 1024, "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)mkdir(full, 0700); /* it may be there */
		*at = '/';
	}
}

static void put(const char *path, const char *contents)
{
	char full[1024];

	make_way(path, full);
	FILE *file = fopen(full, "w");
	assert_non_null(file);
	fputs(contents, file);
	fclose(file);
}

static void put_link(const char *path, const char *to)
{
	char full[1024], target[1024];

	make_way(path, full);
	snprintf(target, sizeof(target), "%s/%s", root, to);
	assert_int_equal(symlink(target, full), 0);
}

static void put_device(const char *way, const char *class_code, const char *vendor)
{
	const char *name = strrchr(way, '/') + 1;
	char path[512], target[512];

	snprintf(path, sizeof(path), "sys/devices/%s/class", way);
	put(path, class_code);
	snprintf(path, sizeof(path), "sys/devices/%s/vendor", way);
	put(path, vendor);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", name);
	snprintf(target, sizeof(target), "sys/devices/%s", way);
	put_link(path, target);
}

static void put_gpu(const char *way, const char *resource, const char *resize)
{
	char path[512];

	put_device(way, "0x030200\n", "0x10de\n");
	snprintf(path, sizeof(path), "sys/devices/%s/resource", way);
	put(path, resource);
	snprintf(path, sizeof(path), "sys/devices/%s/resource1_resize", way);
	if (resize)
		put(path, resize);
}

/* Of 16 MiB and of 256 MiB; the third line is no memory. */
#define SMALL_BARS                                                                                                     \
	"0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n"                                                   \
	"0x0000000080000000 0x000000008fffffff 0x000000000014220c\n"                                                   \
	"0x0000000000001000 0x00000fffffffffff 0x0000000000040101\n"
#define LARGE_BARS                                                                                                     \
	"0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n"                                                   \
	"0x0000001000000000 0x00000017ffffffff 0x000000000014220c\n"

/* ---- ports: configuration with PCI Express at 0x40, and at 0x140, behind another capability, ACS ---- */

#define ROOT_PORT 4u
#define UPSTREAM 5u
#define DOWNSTREAM 6u
#define NO_ACS UINT32_MAX
#define ISOLATES 0x1du
#define REDIRECTS 0x04u

static void make_config(uint8_t config[G4_ACS_CONFIG_BYTES], uint32_t kind, uint32_t acs)
{
	memset(config, 0, G4_ACS_CONFIG_BYTES);
	config[0x06] = 0x10;
	config[0x34] = 0x50;
	config[0x50] = 0x01; /* power management */
	config[0x51] = 0x40;
	config[0x40] = 0x10;
	config[0x42] = (uint8_t)(kind << 4 | 2);
	config[0x100] = 0x01; /* error reporting; next: 0x140 */
	config[0x102] = 0x01;
	config[0x103] = 0x14;
	config[0x140] = acs == NO_ACS ? 0x03 : 0x0d;
	config[0x142] = 0x01;
	config[0x144] = 0x5f;
	config[0x146] = (uint8_t)acs;
}

static void put_config(const char *way, uint32_t kind, uint32_t acs, size_t bytes)
{
	uint8_t config[G4_ACS_CONFIG_BYTES];
	char path[512], full[1024], name[512];

	make_config(config, kind, acs);
	snprintf(path, sizeof(path), "sys/devices/%s/config", way);
	make_way(path, full);
	FILE *file = fopen(full, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(config, 1, bytes, file), bytes);
	fclose(file);
	snprintf(name, sizeof(name), "sys/bus/pci/devices/%s", strrchr(way, '/') + 1);
	make_way(name, full);
	if (access(full, F_OK) != 0) {
		snprintf(path, sizeof(path), "sys/devices/%s", way);
		put_link(name, path);
	}
}

static void in_group(const char *address)
{
	char path[256], to[256];

	snprintf(path, sizeof(path), "sys/kernel/iommu_groups/7/devices/%s", address);
	snprintf(to, sizeof(to), "sys/bus/pci/devices/%s", address);
	put_link(path, to);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/iommu_group", address);
	put_link(path, "sys/kernel/iommu_groups/7");
}

static void has_driver(const char *address, const char *driver)
{
	char path[512], to[256];

	snprintf(to, sizeof(to), "sys/bus/pci/drivers/%s", driver);
	snprintf(path, sizeof(path), "%s/bind", to);
	put(path, "");
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/driver", address);
	put_link(path, to);
}

static int begin_sysfs(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/gpu4fs-place.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put_device(SWITCH "/0000:02:01.0/" DRIVE, "0x010802\n", "0x144d\n");
	return 0;
}

static int forget(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	(void)stat;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int end_sysfs(void **state)
{
	(void)state;
	return nftw(root, forget, 16, FTW_DEPTH | FTW_PHYS);
}

static void has_iommu(void)
{
	put("sys/class/iommu/dmar0", "");
	in_group(DRIVE);
}

static void look(uint64_t locked_bytes)
{
	assert_true(g4_place_look(root, DRIVE, locked_bytes, &place));
}

static void remedies_are(uint32_t count)
{
	uint32_t found = 0;

	while (g4_place_remedy(&place, found, sentence))
		found++;
	assert_int_equal(found, count);
}

static void remedy_says(uint32_t index, const char *what)
{
	assert_true(g4_place_remedy(&place, index, sentence));
	if (!strstr(sentence, what))
		fail_msg("\"%s\" does not say \"%s\"", sentence, what);
}

/* ---- tests ---- */

static void a_device_that_is_not_there_is_nowhere(void **state)
{
	(void)state;
	assert_false(g4_place_look(root, "0000:04:00.0", MOST, &place));
}

static void without_an_iommu_it_is_said_how_to_turn_it_on(void **state)
{
	(void)state;
	look(MOST);
	assert_false(place.iommu);
	remedies_are(1);
	remedy_says(0, "intel_iommu=on");
	put("sys/class/iommu/dmar0", "");
	look(MOST);
	assert_true(place.iommu && !place.grouped);
	remedies_are(1);
	remedy_says(0, "does not use it for " DRIVE);
}

/* VFIO's unsafe mode has groups, too. */
static void a_group_that_vfio_has_made_up_is_no_iommu(void **state)
{
	(void)state;
	in_group(DRIVE);
	put("sys/kernel/iommu_groups/7/name", "vfio-noiommu\n");
	look(MOST);
	assert_false(place.grouped);
	remedies_are(1);
	remedy_says(0, "intel_iommu=on");
}

static void with_an_iommu_nothing_is_to_be_done(void **state)
{
	(void)state;
	has_iommu();
	look(MOST);
	assert_true(place.iommu && place.grouped);
	remedies_are(0);
}

/* Bridges, what nobody uses and what VFIO has are none. */
static void strangers_in_the_group_are_named(void **state)
{
	(void)state;
	has_iommu();
	put_device(ROOT_A "/0000:00:01.0", "0x060400\n", "0x8086\n");
	put_device(ROOT_A "/0000:00:1f.2", "0x010601\n", "0x8086\n");
	put_device(ROOT_A "/0000:00:1f.3", "0x040300\n", "0x8086\n");
	put_device(ROOT_A "/0000:00:1f.4", "0x0c0500\n", "0x8086\n");
	in_group("0000:00:01.0");
	in_group("0000:00:1f.2");
	in_group("0000:00:1f.3");
	in_group("0000:00:1f.4");
	has_driver("0000:00:01.0", "pcieport");
	has_driver("0000:00:1f.3", "vfio-pci");
	look(MOST);
	remedies_are(0);
	has_driver("0000:00:1f.2", "ahci");
	look(MOST);
	remedies_are(1);
	remedy_says(0, "from 0000:00:1f.2, which");
	has_driver("0000:00:1f.4", "i801_smbus");
	look(MOST);
	assert_int_equal(place.strangers, 2);
	remedy_says(0, "from 0000:00:1f.2 and others, which");
}

static void a_limit_of_locked_memory_is_compared(void **state)
{
	(void)state;
	has_iommu();
	look(64 * G4_MIB);
	remedies_are(0);
	look(8 * G4_MIB);
	remedies_are(1);
	remedy_says(0, "lock 8192 KiB");
	remedy_says(0, "ulimit -l");
}

static void gpus_are_found_with_their_way(void **state)
{
	(void)state;
	has_iommu();
	put_gpu(SWITCH "/0000:02:02.0/0000:04:00.0", LARGE_BARS, NULL);
	put_gpu(ROOT_A "/0000:00:02.0/0000:05:00.0", LARGE_BARS, "000000000000ff00\n");
	put_gpu("pci0000:80/0000:80:01.0/0000:81:00.0", LARGE_BARS, NULL);
	put_device(ROOT_A "/0000:00:03.0", "0x030000\n", "0x1a03\n"); /* of somebody else */
	put_device(ROOT_A "/0000:00:04.0", "0x040300\n", "0x10de\n"); /* its sound */
	look(MOST);
	assert_int_equal(place.gpu_count, 3);
	assert_string_equal(place.gpus[0].name, "0000:04:00.0");
	assert_int_equal(place.gpus[0].way, G4_PLACE_SWITCH);
	assert_string_equal(place.gpus[0].common, "0000:01:00.0");
	assert_int_equal(place.gpus[1].way, G4_PLACE_ROOT);
	assert_string_equal(place.gpus[1].common, ROOT_A);
	assert_int_equal(place.gpus[2].way, G4_PLACE_APART);
	assert_string_equal(place.gpus[2].common, "");
	assert_int_equal(place.gpus[1].bar_bytes, 32 * G4_GIB);
	remedies_are(1);
	remedy_says(0, "root complex of GPU 0000:81:00.0");
}

/* A switch with a drive and a GPU, whose ports and root port are as it is said. */
static void put_switch(uint32_t above, uint32_t drives, uint32_t gpus, size_t bytes)
{
	has_iommu();
	put_gpu(SWITCH "/0000:02:02.0/0000:04:00.0", LARGE_BARS, NULL);
	put_config(ROOT_A "/0000:00:01.0", ROOT_PORT, above, bytes);
	put_config(SWITCH, UPSTREAM, NO_ACS, bytes);
	put_config(SWITCH "/0000:02:01.0", DOWNSTREAM, drives, bytes);
	put_config(SWITCH "/0000:02:02.0", DOWNSTREAM, gpus, bytes);
	look(MOST);
}

static void ports_that_send_all_up_are_named(void **state)
{
	(void)state;
	put_switch(ISOLATES, ISOLATES, REDIRECTS, G4_ACS_CONFIG_BYTES);
	assert_true(place.gpus[0].ports_seen);
	assert_string_equal(place.gpus[0].redirects, "0000:02:01.0;0000:02:02.0");
	remedies_are(1);
	remedy_says(0, "pci=disable_acs_redir=0000:02:01.0;0000:02:02.0 on the kernel's");
	remedy_says(0, "GPU 0000:04:00.0");
}

/* The root port is above the switch: what it does is no matter of what the switch passes. */
static void ports_that_pass_it_need_no_remedy(void **state)
{
	(void)state;
	put_switch(ISOLATES, 0, NO_ACS, G4_ACS_CONFIG_BYTES);
	assert_true(place.gpus[0].ports_seen);
	assert_string_equal(place.gpus[0].redirects, "");
	assert_string_equal(place.open_port, "0000:02:01.0");
	remedies_are(0);
}

/* Who is not root sees 64 bytes. */
static void what_can_not_be_seen_of_ports_is_not_known(void **state)
{
	(void)state;
	put_switch(ISOLATES, ISOLATES, ISOLATES, 64);
	assert_false(place.gpus[0].ports_seen);
	assert_string_equal(place.gpus[0].redirects, "");
	assert_string_equal(place.open_port, "");
	remedies_are(0);
}

/* Why there are strangers in a group. */
static void a_port_that_keeps_nothing_apart_is_named_with_strangers(void **state)
{
	(void)state;
	put_switch(NO_ACS, ISOLATES, ISOLATES, G4_ACS_CONFIG_BYTES);
	assert_string_equal(place.open_port, "0000:00:01.0");
	put_device(ROOT_A "/0000:00:1f.2", "0x010601\n", "0x8086\n");
	in_group("0000:00:1f.2");
	has_driver("0000:00:1f.2", "ahci");
	look(MOST);
	remedies_are(2);
	remedy_says(0, "port 0000:00:01.0 on its way does not keep apart");
}

/* Lists that go round, or out of the configuration; and such of which nothing is left. */
static void nonsense_in_configurations_has_an_end(void **state)
{
	uint8_t config[G4_ACS_CONFIG_BYTES];

	(void)state;
	make_config(config, ROOT_PORT, ISOLATES);
	assert_int_equal(g4_acs_of(config, sizeof(config)), G4_ACS_ISOLATES);
	assert_int_equal(g4_acs_of(config, 256), G4_ACS_UNKNOWN);
	config[0x103] = 0x10; /* itself */
	assert_int_equal(g4_acs_of(config, sizeof(config)), G4_ACS_NONE);
	config[0x103] = 0xff;
	config[0x102] = 0xf1;
	assert_int_equal(g4_acs_of(config, sizeof(config)), G4_ACS_NONE);
	config[0x51] = 0x50; /* itself */
	assert_int_equal(g4_acs_of(config, sizeof(config)), G4_ACS_NO_PORT);
	memset(config, 0xff, sizeof(config));
	assert_int_equal(g4_acs_of(config, sizeof(config)), G4_ACS_NO_PORT);
	for (uint32_t bytes = 0; bytes < 64; bytes++)
		assert_int_equal(g4_acs_of(config, bytes), G4_ACS_UNKNOWN);
	for (uint32_t round = 0; round < 2000; round++) {
		make_config(config, DOWNSTREAM, 0);
		for (uint32_t i = 0; i < 40; i++)
			config[mix(100 * round + i) % (i % 2 ? 0x180 : sizeof(config))] = (uint8_t)mix(round + i);
		(void)g4_acs_of(config, sizeof(config));
	}
}

static void pieces_in_which_memory_is_pinned_are_looked_at(void **state)
{
	(void)state;
	has_iommu();
	put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	put("sys/module/vfio_iommu_type1/parameters/disable_hugepages", "N\n");
	put("sys/module/vfio_iommu_type1/parameters/dma_entry_limit", "65535\n");
	look(MOST);
	remedies_are(0);
	put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	put("sys/module/vfio_iommu_type1/parameters/dma_entry_limit", "100\n");
	look(MOST);
	remedies_are(2);
	remedy_says(0, "echo madvise");
	remedy_says(1, "100 pieces of memory for a program, 200 MiB in all");
	put("sys/module/vfio_iommu_type1/parameters/disable_hugepages", "Y\n");
	put("sys/module/vfio_iommu_type1/parameters/dma_entry_limit", "what\n");
	look(MOST);
	remedies_are(1);
	remedy_says(0, "without disable_hugepages=1");
}

/* A name that begins as another one does is another one. */
static void names_are_compared_as_a_whole(void **state)
{
	(void)state;
	has_iommu();
	put_gpu("pci0000:000/0000:00:01.0/0000:06:00.0", LARGE_BARS, NULL);
	look(MOST);
	assert_int_equal(place.gpus[0].way, G4_PLACE_APART);
}

static void a_bar_that_could_be_larger_is_named(void **state)
{
	(void)state;
	has_iommu();
	put_gpu(SWITCH "/0000:02:02.0/0000:04:00.0", SMALL_BARS, "000000000000ff00\n"); /* up to 2^15 MiB */
	look(MOST);
	assert_int_equal(place.gpus[0].bar_bytes, 256 * G4_MIB);
	assert_int_equal(place.gpus[0].bar_most_bytes, 32 * G4_GIB);
	remedies_are(1);
	remedy_says(0, "256 MiB, and could reach 32768");
	remedy_says(0, "write 15 to its resource1_resize");
}

static void a_small_bar_that_stays_so_is_named(void **state)
{
	(void)state;
	has_iommu();
	put_gpu(SWITCH "/0000:02:02.0/0000:04:00.0", SMALL_BARS, NULL);
	look(MOST);
	remedies_are(1);
	remedy_says(0, "256 MiB, which can not be changed");
}

/* What the files hold may be anything. */
static void nonsense_in_sysfs_is_no_gpu(void **state)
{
	(void)state;
	has_iommu();
	put_gpu(ROOT_A "/0000:00:02.0/0000:05:00.0", "nonsense\n", "ffffffffffffffff\n");
	put_gpu(ROOT_A "/0000:00:02.0/0000:05:00.1", "", "what\n");
	put_device(ROOT_A "/0000:00:06.0", "", "");
	look(MOST);
	assert_int_equal(place.gpu_count, 2);
	assert_int_equal(place.gpus[0].bar_bytes, 0);
	remedies_are(0);
}

/* Where there are more than are kept, the first ones are. */
static void many_gpus_are_not_too_many(void **state)
{
	char way[128];

	(void)state;
	has_iommu();
	for (uint32_t i = 0; i < G4_PLACE_GPUS_MOST + 4; i++) {
		snprintf(way, sizeof(way), ROOT_A "/0000:00:02.0/0000:%02x:00.0", 0x10 + i);
		put_gpu(way, LARGE_BARS, NULL);
	}
	look(MOST);
	assert_int_equal(place.gpu_count, G4_PLACE_GPUS_MOST);
	assert_string_equal(place.gpus[0].name, "0000:10:00.0");
}

/* ---- before lanes take a drive ---- */

/* What was said, and how much. */
static uint32_t say(const char *gpu, uint64_t locked_bytes, char *text, size_t bytes)
{
	const int before = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC);

	assert_true(before >= 0 && log >= 0 && dup2(log, STDERR_FILENO) >= 0);
	const uint32_t count = g4_place_say(root, "nvme:it", DRIVE, gpu, locked_bytes);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	const ssize_t length = pread(log, text, bytes - 1, 0);
	assert_true(length >= 0);
	text[length] = '\0';
	close(before);
	close(log);
	return count;
}

static uint32_t lines_of(const char *text)
{
	uint32_t count = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		count++;
	}
	return count;
}

static void remedies_are_said_before_lanes_take_a_drive(void **state)
{
	char text[4096];

	(void)state;
	assert_int_equal(say("", MOST, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "gpu4fs: warning: nvme:it: the kernel uses no IOMMU"));
	has_iommu();
	assert_int_equal(say("", MOST, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	/* chunks for lanes are locked as well: what is enough for the host's queues alone is not for them */
	look(100 * G4_MIB);
	remedies_are(0);
	assert_int_equal(say("", 100 * G4_MIB, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "nvme:it: you may lock 102400 KiB of memory, and queues and cache want 136 MiB"));
}

/* Others' bars and ways are of no interest. */
static void of_gpus_the_engines_is_spoken_of(void **state)
{
	char text[4096];

	(void)state;
	has_iommu();
	put_gpu(SWITCH "/0000:02:02.0/0000:04:00.0", SMALL_BARS, NULL);
	put_gpu("pci0000:80/0000:80:01.0/0000:8a:00.0", LARGE_BARS, NULL);
	assert_int_equal(say("0000:8A:00.0", MOST, text, sizeof(text)), 1);
	assert_int_equal(lines_of(text), 1);
	assert_non_null(strstr(text, "it is not below the root complex of GPU 0000:8a:00.0"));
	assert_int_equal(say("0000:04:00.0", MOST, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "of the memory of GPU 0000:04:00.0 PCI reaches 256 MiB"));
	assert_int_equal(say("", MOST, text, sizeof(text)), 2); /* which it is, is not known */
	assert_int_equal(lines_of(text), 2);
}

#define OF(name) cmocka_unit_test_setup_teardown(name, begin_sysfs, end_sysfs)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OF(a_device_that_is_not_there_is_nowhere),
		OF(without_an_iommu_it_is_said_how_to_turn_it_on),
		OF(a_group_that_vfio_has_made_up_is_no_iommu),
		OF(with_an_iommu_nothing_is_to_be_done),
		OF(strangers_in_the_group_are_named),
		OF(a_limit_of_locked_memory_is_compared),
		OF(gpus_are_found_with_their_way),
		OF(ports_that_send_all_up_are_named),
		OF(ports_that_pass_it_need_no_remedy),
		OF(what_can_not_be_seen_of_ports_is_not_known),
		OF(a_port_that_keeps_nothing_apart_is_named_with_strangers),
		OF(nonsense_in_configurations_has_an_end),
		OF(pieces_in_which_memory_is_pinned_are_looked_at),
		OF(names_are_compared_as_a_whole),
		OF(a_bar_that_could_be_larger_is_named),
		OF(a_small_bar_that_stays_so_is_named),
		OF(nonsense_in_sysfs_is_no_gpu),
		OF(many_gpus_are_not_too_many),
		OF(remedies_are_said_before_lanes_take_a_drive),
		OF(of_gpus_the_engines_is_spoken_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
