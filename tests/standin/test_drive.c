/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA engine on a drive whose queues its kernel fills and polls (src/gpu/io_host.c), on the stand-in for a GPU: emulated controllers that
 * behave as drives. By name, as a mount would; as a device with I/O memory at a distance; where CUDA does not take it, so that an agent does the
 * requests, and why is told; and where the system asks for the drive while the kernel has it.
 */
#include <sys/eventfd.h>
#include <time.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "client/client.h"
#include "dev/nvme/device_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "gpu/cuda_host.h"
#include "standin/stand_in_gpu.h"

#include "engine/api_fixture.h" /* its fs is a parameter's name there */

#define IMAGE "standin-drive.img"
#define IMAGE_BYTES (64 * G4_MIB)
#define ADDRESS "ffff:1f:1f.6" /* of no device */
#define ELSEWHERE (UINT64_C(1) << 40)
#define QUEUES 3u
#define FILE_BYTES (3 * G4_MIB + 777)
#define LOG_BYTES 65536u

/* ------------------------------------------------------------------ what is logged */

static FILE *lines; /* in the place of stderr */
static int saved_stderr;

static void catch_log(void)
{
	lines = tmpfile();
	assert_non_null(lines);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(saved_stderr >= 0);
	assert_true(dup2(fileno(lines), STDERR_FILENO) >= 0);
}

/* All of it until here. */
static const char *release_log(void)
{
	static char text[LOG_BYTES];

	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	const ssize_t bytes = pread(fileno(lines), text, sizeof(text) - 1, 0);
	assert_true(bytes >= 0);
	text[bytes] = 0;
	assert_int_equal(fclose(lines), 0);
	return text;
}

static void expect_words(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("not told: %s\n%s", words, text);
}

/* ------------------------------------------------------------------ mounts */

static int begin(void **state)
{
	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	api_image(IMAGE, IMAGE_BYTES);
	return 0;
}

static int nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(stand_in.running, 0);
	assert_int_equal(stand_in.registered, 0);
	assert_int_equal(stand_in.allocated, 0);
	unlink(IMAGE);
	return 0;
}
#define drive_test(f) cmocka_unit_test_setup_teardown(f, begin, nothing_is_left)

/* What one mount has written the next one finds. */
static void use_files(uint32_t round)
{
	char path[16];

	for (uint32_t i = 0; i < round; i++) {
		snprintf(path, sizeof(path), "/file%u", i);
		api_check_pattern(path, i, FILE_BYTES);
	}
	snprintf(path, sizeof(path), "/file%u", round);
	api_write_pattern(path, round, FILE_BYTES);
	ok(gpu4fs_syncfs(fs));
	api_check_pattern(path, round, FILE_BYTES);
}

static int try_mount(const char *name, const char *engine, uint32_t queues, bool format)
{
	const struct gpu4fs_mkfs_options mkfs = {.size = sizeof(mkfs), .flags = GPU4FS_MKFS_FORCE};
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .cache_bytes = 16 * G4_MIB,
					       .engine = engine,
					       .gpu_queues = queues,
					       .format = format ? &mkfs : NULL};

	return gpu4fs_mount(&name, 1, &options, &fs);
}

/* The log of a mount whose files can be used, and of its end. */
static const char *mount_and_use(const char *name, uint32_t queues, uint32_t round)
{
	catch_log();
	const int rc = try_mount(name, "cuda", queues, round == 0);
	if (rc == 0)
		use_files(round);
	const int end = rc == 0 ? gpu4fs_unmount(fs) : rc;
	const char *text = release_log();
	if (end != 0)
		fail_msg("%s: %s\n%s", name, gpu4fs_last_message(), text);
	return text;
}

/* ------------------------------------------------------------------ by name */

static void a_drives_queues_are_the_kernels_where_that_is_asked_for(void **state)
{
	(void)state;
	expect_words(mount_and_use("emu:drive:" IMAGE, QUEUES, 0), "the GPU uses 3 of its queues");
	expect_words(mount_and_use("emu:drive:" IMAGE, 1, 1), "the GPU uses 1 of its queues");
	const char *text = mount_and_use("emu:drive:" IMAGE, 0, 2);
	assert_null(strstr(text, "queues"));
	expect_words(mount_and_use("emu:" IMAGE, 0, 3), ""); /* by itself, and silently */
	expect_words(mount_and_use("emu:" IMAGE, QUEUES, 4), "the GPU uses 3 of its queues");
}

static void what_is_no_drive_goes_through_the_host(void **state)
{
	(void)state;
	expect_words(mount_and_use(IMAGE, QUEUES, 0),
		     IMAGE ": its requests go through the host, not queues of the GPU: it is no single NVMe drive");
	expect_words(mount_and_use("mem:64M", QUEUES, 0), "gpu_queues has no effect: the device is memory");
}

static void an_engine_without_a_gpu_has_no_use_for_queues(void **state)
{
	(void)state;
	fails(try_mount("emu:drive:" IMAGE, "cpu", QUEUES, true), EINVAL);
	expect_words(gpu4fs_last_message(), "gpu_queues= gives queues of a drive to an engine on a GPU");
	fails(try_mount("emu:drive:" IMAGE, NULL, QUEUES, true), EINVAL);
}

/* ------------------------------------------------------------------ as a device */

static struct drive {
	uint64_t shift, reaches_most; /* bytes of one piece */
	int asked;
	uint32_t gone;
	bool had_registers; /* the GPU, when it was let go of */
	void *obtained;
	uint64_t obtained_bytes;
} drive;

static bool reaches(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	errno = ENOMEM;
	return bytes <= drive.reaches_most;
}

static void let_go(void *context)
{
	(void)context;
	drive.had_registers = g4_load64_acq(&stand_in.registers) != 0;
	g4_store32_rel(&drive.gone, 1);
}

static void *obtain(void *context, uint64_t bytes, uint64_t *address)
{
	(void)context;
	assert_true(bytes <= drive.obtained_bytes);
	*address = (uintptr_t)drive.obtained;
	return drive.obtained;
}

/* An image as the drive at ADDRESS. */
static struct g4_dev *open_drive(void)
{
	const struct g4_emu_options emulated = {.drive = true, .shift = drive.shift};
	const struct g4_dev_open_options open = {.flags = G4_DEV_EXCLUSIVE, .lane_queues = QUEUES};
	const struct g4_nvme_where where = {.nsid = 1};
	const struct g4_dev_open_options synchronous = {.flags = G4_DEV_EXCLUSIVE | G4_DEV_SYNCHRONOUS};
	char message[512] = "";
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	struct g4_nvme_provider provider;
	struct g4_dev *medium, *dev = NULL;
	struct g4_emu *emu;

	assert_int_equal(g4_dev_open(IMAGE, &synchronous, &medium, message, sizeof(message)), 0);
	assert_int_equal(g4_emu_open(medium, &emulated, &emu, &provider), 0);
	provider.io_memory = true;
	provider.shift = drive.shift;
	provider.reach = reaches;
	provider.asked = drive.asked;
	provider.let_go = drive.asked >= 0 ? let_go : NULL;
	if (drive.obtained) {
		provider.obtain = obtain;
		provider.obtain_most_bytes = drive.obtained_bytes;
	}
	if (g4_nvme_drive_open("nvme:" ADDRESS, ADDRESS, &where, &open, &provider, &dev, sentence) < 0)
		fail_msg("%s", message);
	snprintf(dev->name, sizeof(dev->name), "nvme:%s", ADDRESS);
	return dev;
}

static void mount_drive(bool format)
{
	const struct g4_mount_options options = {
		.cache_bytes = 16 * G4_MIB, .kind = G4_ENGINE_CUDA, .gpu_queues = QUEUES};
	const struct g4_mkfs_options plain = {.label = NULL};
	const struct g4_cred cred = {.umask = 022};
	struct g4_dev *dev = open_drive();
	struct g4_superblock sb;
	struct g4_engine *engine;
	char message[512] = "";

	if (format)
		assert_int_equal(g4_mkfs(dev, &plain, &sb, message, sizeof(message)), 0);
	if (g4_engine_mount_device(dev, &options, &engine, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	ok(g4c_open_engine(engine, 0, &cred, NULL, &fs));
}

static const char *mount_drive_and_use(uint32_t round)
{
	catch_log();
	mount_drive(round == 0);
	use_files(round);
	const int rc = gpu4fs_unmount(fs);
	const char *text = release_log();
	if (rc != 0)
		fail_msg("%s\n%s", gpu4fs_strerror(rc), text);
	return text;
}

static int begin_drive(void **state)
{
	drive = (struct drive){.reaches_most = UINT64_MAX, .asked = -1};
	return begin(state);
}
#define device_test(f) cmocka_unit_test_setup_teardown(f, begin_drive, nothing_is_left)

static void registers_are_registered_as_what_they_are(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		drive.shift = round * ELSEWHERE;
		expect_words(mount_drive_and_use(round), "nvme:" ADDRESS ": the GPU uses 3 of its queues");
		assert_int_equal(g4_load32_acq(&stand_in.registered_io), round + 1);
	}
}

static void an_agent_does_what_cuda_does_not_take(void **state)
{
	(void)state;
	g4_store32_rel(&stand_in.refuse_io, 1);
	expect_words(mount_drive_and_use(0),
		     "nvme:" ADDRESS
		     ": its requests go through the host, not queues of the GPU: CUDA does not take its "
		     "registers (the stand-in takes no registers)");
	assert_int_equal(g4_load32_acq(&stand_in.registered_io), 0);
	g4_store32_rel(&stand_in.refuse_io, 0);
	g4_store32_rel(&stand_in.move_io, 1);
	expect_words(mount_drive_and_use(1), "CUDA has its registers at another address than the host");
	assert_int_equal(g4_load32_acq(&stand_in.registered_io), 1);
	g4_store32_rel(&stand_in.move_io, 0);
	drive.reaches_most = 16 * G4_MIB; /* chunks are more */
	expect_words(mount_drive_and_use(2), "MiB of memory for data can not be mapped for it: Cannot allocate memory");
	drive.reaches_most = UINT64_MAX;
	expect_words(mount_drive_and_use(3), "the GPU uses 3 of its queues");
}

/* Before the mount relies on them. */
static void an_agent_does_it_where_the_gpus_reads_do_not_work(void **state)
{
	(void)state;
	g4_store32_rel(&stand_in.lose_doorbells, 1);
	expect_words(mount_drive_and_use(0),
		     "a read that the GPU began had no answer: its doorbells do not reach the drive");
	g4_store32_rel(&stand_in.lose_doorbells, 0);
	g4_store32_rel(&stand_in.misread, 1);
	expect_words(mount_drive_and_use(1),
		     "what it reads for the GPU, by queue 0, is not what it reads for the host");
	g4_store32_rel(&stand_in.misread, 0);
	expect_words(mount_drive_and_use(2), "the GPU uses 3 of its queues");
}

static void an_agent_does_it_without_an_iommu(void **state)
{
	(void)state;
	drive.obtained_bytes = 8 * G4_MIB;
	drive.obtained = g4_memory_map(drive.obtained_bytes);
	assert_non_null(drive.obtained);
	drive.reaches_most = 0;
	expect_words(mount_drive_and_use(0), "without an IOMMU it reaches no memory but one page of the driver's");
	g4_memory_unmap(drive.obtained, drive.obtained_bytes);
}

/* ------------------------------------------------------------------ the system asks for it */

/* What was synchronised is there; the drive is given away when the kernel has gone and the GPU has nothing of it any more. */
static void one_that_is_asked_for_is_given_away_at_the_unmount(void **state)
{
	const uint64_t one = 1;
	gpu4fs_file *file;
	uint64_t n = 0;
	int64_t rc;

	(void)state;
	drive.asked = eventfd(0, EFD_CLOEXEC);
	assert_true(drive.asked >= 0);
	catch_log();
	mount_drive(true);
	use_files(0);
	file = api_open("/more", O_RDWR | O_CREAT, 0644);
	assert_int_equal(write(drive.asked, &one, sizeof(one)), sizeof(one));
	do { /* until that is heard, and its requests fail */
		rc = gpu4fs_pwrite(file, &n, sizeof(n), (int64_t)(n % 1024 * 4096));
		rc = rc < 0 ? rc : gpu4fs_fsync(file);
		n++;
	} while (rc >= 0);
	const bool was_gone = g4_load32_acq(&drive.gone), had_registers = g4_load64_acq(&stand_in.registers) != 0;
	(void)gpu4fs_close(file);
	const int end = gpu4fs_unmount(fs);
	const char *text = release_log();
	assert_true(rc == -EIO || rc == -EROFS);
	assert_false(was_gone);
	assert_true(had_registers);
	assert_int_equal(end, -EIO);
	expect_words(text, "the system asks for it: it is to be removed");
	expect_words(text, "the system waits for it until it is closed: a GPU has its registers");
	assert_int_equal(g4_load32_acq(&drive.gone), 1);
	assert_false(drive.had_registers);
	close(drive.asked);
	drive.asked = -1;
	expect_words(mount_drive_and_use(1), "the GPU uses 3 of its queues");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		drive_test(a_drives_queues_are_the_kernels_where_that_is_asked_for),
		drive_test(what_is_no_drive_goes_through_the_host),
		drive_test(an_engine_without_a_gpu_has_no_use_for_queues),
		device_test(registers_are_registered_as_what_they_are),
		device_test(an_agent_does_what_cuda_does_not_take),
		device_test(an_agent_does_it_where_the_gpus_reads_do_not_work),
		device_test(an_agent_does_it_without_an_iommu),
		device_test(one_that_is_asked_for_is_given_away_at_the_unmount),
	};

	if (setenv("G4_TEST_ENGINE", "cuda", 1) != 0 || unsetenv("G4_TEST_CONNECTED") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
