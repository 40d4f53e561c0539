/* SPDX-License-Identifier: Apache-2.0 */
/* Making, mounting and unmounting through the public API, and what it says when that fails. */
#include "api_fixture.h"

#include <dirent.h>
#include <signal.h>

#include "format/format.h"

static const char image[] = "api_mount.img";

static int try_mount(const char *name, uint32_t flags)
{
	const struct gpu4fs_options options = {.size = sizeof(options), .flags = flags, .cache_bytes = 16 << 20};
	gpu4fs *mounted;
	int rc = gpu4fs_mount(&name, 1, &options, &mounted);

	return rc ? rc : gpu4fs_unmount(mounted);
}

static int try_mkfs(const char *name, uint32_t flags)
{
	const struct gpu4fs_mkfs_options options = {.size = sizeof(options), .flags = flags};

	return gpu4fs_mkfs(&name, 1, &options);
}

/* The call failed and left a sentence. */
#define explained(call, error)                                                                                         \
	do {                                                                                                           \
		fails(call, error);                                                                                    \
		assert_true(strlen(gpu4fs_last_message()) > 10);                                                       \
	} while (0)

static void mkfs_refuses_to_overwrite_what_it_knows(void **state)
{
	(void)state;
	api_image(image, 16 << 20);
	ok(try_mkfs(image, 0));
	assert_string_equal(gpu4fs_last_message(), "");
	explained(try_mkfs(image, 0), EEXIST);
	assert_non_null(strstr(gpu4fs_last_message(), image));
	ok(try_mkfs(image, GPU4FS_MKFS_FORCE));
	ok(try_mount(image, 0));
	unlink(image);
}

static void mkfs_takes_its_options(void **state)
{
	const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	const struct gpu4fs_mkfs_options options = {
		.size = sizeof(options),
		.create_bytes = 16 << 20,
		.label = "label",
		.uuid = uuid,
		.root_uid = 12,
		.root_gid = 34,
		.root_mode = 01770,
	};
	const char *name = image;
	struct gpu4fs_statfs statfs;
	struct gpu4fs_stat root;
	gpu4fs *memory = fs;

	(void)state;
	unlink(image);
	ok(gpu4fs_mkfs(&name, 1, &options));
	fs = api_mount(image, false);
	ok(gpu4fs_statfs(fs, &statfs));
	assert_memory_equal(statfs.uuid, uuid, 16);
	root = api_lstat("/");
	assert_int_equal(root.uid, 12);
	assert_int_equal(root.gid, 34);
	assert_int_equal(root.mode, S_IFDIR | 01770);
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

/* Of two files with the same contents the second one takes no space, without a word of whoever writes it. */
static void mkfs_takes_deduplication(void **state)
{
	static uint8_t data[64 * 4096];
	struct gpu4fs_dedup_stats stats;
	const char *name = image;
	gpu4fs *memory = fs;

	(void)state;
	for (uint32_t k = 0; k < sizeof(data); k++)
		data[k] = (uint8_t)(k / 4096 + k % 251 + 1);
	for (uint32_t flags = 0; flags <= GPU4FS_MKFS_DEDUP; flags += GPU4FS_MKFS_DEDUP) {
		const struct gpu4fs_mkfs_options options = {
			.size = sizeof(options), .create_bytes = 16 << 20, .flags = flags};
		unlink(image);
		ok(gpu4fs_mkfs(&name, 1, &options));
		fs = api_mount(image, false);
		for (uint32_t f = 0; f < 2; f++) {
			gpu4fs_file *file;
			ok(gpu4fs_open(fs, NULL, f ? "second" : "first", O_CREAT | O_WRONLY, 0644, &file));
			assert_int_equal(gpu4fs_pwrite(file, data, sizeof(data), 0), sizeof(data));
			ok(gpu4fs_fsync(file));
			ok(gpu4fs_close(file));
		}
		ok(gpu4fs_dedup_stats(api_in_process(), &stats));
		assert_int_equal(stats.hits, flags ? 64 : 0);
		assert_int_equal(stats.misses, flags ? 64 : 0);
		ok(gpu4fs_unmount(fs));
	}
	fs = memory;
	unlink(image);
}

/* How much may be listed is said by mkfs, and later while it is mounted; for what it refuses there is a count. */
static void mkfs_and_a_mount_take_a_quota_of_what_is_listed(void **state)
{
	static uint8_t data[256 * 4096]; /* at least two pages of sums */
	struct gpu4fs_mkfs_options options = {
		.size = sizeof(options), .create_bytes = 16 << 20, .flags = GPU4FS_MKFS_DEDUP, .dedup_quota = 4095};
	struct gpu4fs_dedup_stats stats, before = {0};
	const char *name = image;
	gpu4fs *memory = fs, *here;

	(void)state;
	for (uint32_t k = 0; k < sizeof(data); k++)
		data[k] = (uint8_t)(k / 4096 + k % 251 + 1);
	unlink(image);
	fails(gpu4fs_mkfs(&name, 1, &options), EINVAL);
	options.dedup_quota = 4096;
	ok(gpu4fs_mkfs(&name, 1, &options));
	fs = api_mount(image, false);
	here = api_in_process();
	do /* until it is known how much is listed */
		ok(gpu4fs_dedup_stats(here, &before));
	while (before.groups_counted < before.groups);
	for (uint32_t f = 0; f < 2; f++) {
		gpu4fs_file *file;
		for (uint32_t k = 0; f && k < sizeof(data); k++)
			data[k] ^=
				0x80; /* nothing is found: wherever the second file lies, it needs two pages of sums of its own */
		ok(gpu4fs_open(fs, NULL, f ? "second" : "first", O_CREAT | O_WRONLY, 0644, &file));
		assert_int_equal(gpu4fs_pwrite(file, data, sizeof(data), 0), sizeof(data));
		ok(gpu4fs_fsync(file));
		ok(gpu4fs_close(file));
		ok(gpu4fs_dedup_stats(here, &stats));
		assert_int_equal(stats.quota_bytes, f ? 0 : 4096);
		if (f == 0) {
			assert_int_equal(stats.listing_bytes, 4096);
			assert_true(stats.plain >= 128 && stats.plain < 256);
			before = stats;
			fails(gpu4fs_dedup_quota(here, 4095), EINVAL);
			ok(gpu4fs_dedup_quota(here, 8192));
			ok(gpu4fs_dedup_stats(here, &stats));
			assert_int_equal(stats.quota_bytes, 8192);
			ok(gpu4fs_dedup_quota(here, 0));
		} else {
			assert_int_equal(stats.plain, before.plain);
			assert_true(stats.listing_bytes > 8192);
		}
	}
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

/* The superblock says it, and so does each file that says nothing itself; without any there is no feature. */
static void mkfs_takes_the_sums(void **state)
{
	for (uint32_t checksum = GPU4FS_CHECKSUM_NONE; checksum <= GPU4FS_CHECKSUM_XXH3; checksum++) {
		const struct gpu4fs_mkfs_options options = {
			.size = sizeof(options), .create_bytes = 16 << 20, .checksum = checksum};
		const bool some = checksum != GPU4FS_CHECKSUM_NONE;
		const char *name = image;
		struct g4_superblock sb;
		char text[16] = "";
		gpu4fs *mounted = NULL;
		(void)state;
		unlink(image);
		ok(gpu4fs_mkfs(&name, 1, &options));
		FILE *file = fopen(image, "r");
		assert_non_null(file);
		assert_int_equal(fseek(file, G4_SUPERBLOCK_ADDRESS, SEEK_SET), 0);
		assert_int_equal(fread(&sb, sizeof(sb), 1, file), 1);
		fclose(file);
		assert_int_equal(sb.policy, some ? checksum : 0);
		assert_int_equal((sb.features_incompat & G4_FEATURE_INCOMPAT_SUMS) != 0, some);
		ok(gpu4fs_mount(&name, 1, NULL, &mounted));
		assert_int_equal(gpu4fs_lgetxattr(mounted, NULL, "/", "gpu4fs.checksum", text, sizeof(text)), 7);
		assert_string_equal(text, "default");
		ok(gpu4fs_lsetxattr(mounted, NULL, "/", "gpu4fs.checksum", "crc32c", 6, 0));
		assert_int_equal(gpu4fs_lgetxattr(mounted, NULL, "/", "gpu4fs.checksum", text, sizeof(text)), 6);
		ok(gpu4fs_unmount(mounted));
	}
	unlink(image);
}

static struct gpu4fs_health health_of(gpu4fs *mounted)
{
	struct gpu4fs_health health;

	memset(&health, 0xee, sizeof(health));
	ok(gpu4fs_health(mounted, &health));
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(health.reserved[i], 0);
	assert_int_equal(health.repaired_pages + health.reserved1, 0);
	struct gpu4fs_device_health device;
	memset(&device, 0xee, sizeof(device));
	assert_int_equal(health.devices, 1);
	ok(gpu4fs_device_health(mounted, 0, &device));
	assert_int_equal(device.damaged_pages, health.damaged_pages);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(device.reserved[i], 0);
	fails(gpu4fs_device_health(mounted, 1, &device), ENODEV);
	return health;
}

/* A program is told what its readers met, in this mount and before. */
static void damage_is_counted(void **state)
{
	const struct gpu4fs_mkfs_options options = {
		.size = sizeof(options), .create_bytes = 16 << 20, .checksum = GPU4FS_CHECKSUM_BLAKE3};
	const char *name = image;
	static uint8_t bytes[5 * 4096];
	gpu4fs *memory = fs;
	uint8_t page[4096];

	(void)state;
	unlink(image);
	ok(gpu4fs_mkfs(&name, 1, &options));
	fs = api_mount(image, false);
	api_write_pattern("/file", 77, sizeof(bytes));
	struct gpu4fs_health health = health_of(fs);
	assert_int_equal(health.damaged_pages + health.damaged_since_mount, 0);
	assert_int_equal(health.state, 0);
	assert_int_equal(health.last_kind, GPU4FS_DAMAGE_NONE);
	assert_int_equal(health.last_ino + health.last_offset + health.last_address, 0);
	ok(gpu4fs_unmount(fs));
	api_pattern(page, 77, 3 * sizeof(page), sizeof(page));
	const uint64_t address = api_flip_in_image(image, page);

	fs = api_mount(image, false);
	assert_int_equal(health_of(fs).damaged_pages, 0); /* nobody has read it */
	gpu4fs_file *file = api_open("/file", O_RDONLY, 0);
	fails(gpu4fs_pread(file, bytes, sizeof(page), 3 * sizeof(page)), EIO);
	health = health_of(fs);
	assert_true(health.damaged_pages > 0);
	assert_int_equal(health.damaged_since_mount, health.damaged_pages);
	assert_int_equal(health.state, 0); /* it can still be written */
	assert_int_equal(health.last_kind, GPU4FS_DAMAGE_DATA);
	assert_int_equal(health.last_ino, api_lstat("/file").ino);
	assert_int_equal(health.last_offset, 3 * sizeof(page));
	assert_int_equal(health.last_address, address);
	assert_int_equal(health.last_devices, 1);
	ok(gpu4fs_close(file));
	gpu4fs *user = api_session(1000, 1000, 0);
	assert_int_equal(health_of(user).damaged_pages, health.damaged_pages);
	ok(gpu4fs_session_close(user));
	ok(gpu4fs_unmount(fs));

	const uint64_t before = health.damaged_pages;
	const struct gpu4fs_options read_only = {.size = sizeof(read_only), .flags = GPU4FS_READ_ONLY};
	ok(gpu4fs_mount(&name, 1, &read_only, &fs));
	health = health_of(fs);
	assert_int_equal(health.damaged_pages, before);
	assert_int_equal(health.damaged_since_mount, 0);
	assert_int_equal(health.last_kind, GPU4FS_DAMAGE_NONE);
	assert_int_equal(health.state, GPU4FS_STATE_READ_ONLY);
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

static void bad_options_are_refused(void **state)
{
	struct gpu4fs_mkfs_options mkfs_options = {.size = sizeof(mkfs_options), .flags = 1u << 31};
	struct gpu4fs_options options = {.size = sizeof(options), .flags = 1u << 31};
	const char *names[2] = {image, image};
	char label[65];
	gpu4fs *mounted;

	(void)state;
	api_image(image, 16 << 20);
	explained(gpu4fs_mkfs(names, 1, &mkfs_options), EINVAL);
	mkfs_options.flags = 0;
	mkfs_options.checksum = GPU4FS_CHECKSUM_XXH3 + 1;
	explained(gpu4fs_mkfs(names, 1, &mkfs_options), EINVAL);
	mkfs_options.checksum = GPU4FS_CHECKSUM_NONE;
	mkfs_options.flags = GPU4FS_MKFS_DEDUP;
	explained(gpu4fs_mkfs(names, 1, &mkfs_options), EINVAL);
	mkfs_options.flags = 0;
	mkfs_options.checksum = 0;
	memset(label, 'l', 64);
	label[64] = 0;
	mkfs_options.label = label;
	explained(gpu4fs_mkfs(names, 1, &mkfs_options), EINVAL);
	mkfs_options.size = 3;
	explained(gpu4fs_mkfs(names, 1, &mkfs_options), EINVAL);
	explained(gpu4fs_mkfs(names, 0, NULL), EINVAL);
	explained(gpu4fs_mkfs(names, 2, NULL), EOPNOTSUPP);
	explained(gpu4fs_mount(names, 1, &options, &mounted), EINVAL);
	options.flags = GPU4FS_NO_REPLAY;
	explained(gpu4fs_mount(names, 1, &options, &mounted), EINVAL);
	options.flags = 0;
	options.size = 4;
	explained(gpu4fs_mount(names, 1, &options, &mounted), EINVAL);
	explained(gpu4fs_mount(names, 0, NULL, &mounted), EINVAL);
	unlink(image);
}

static void a_cache_beyond_the_memory_is_refused_before_formatting(void **state)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format)};
	struct gpu4fs_options options = {.size = sizeof(options), .cache_bytes = UINT64_C(1) << 60, .format = &format};
	const char *name = image;
	gpu4fs *mounted;

	(void)state;
	api_image(image, 16 << 20);
	explained(gpu4fs_mount(&name, 1, &options, &mounted), ENOMEM);
	options.engine = "auto";
	explained(gpu4fs_mount(&name, 1, &options, &mounted), ENOMEM);
	explained(try_mount(image, 0), EINVAL); /* still zeros */
	unlink(image);
}

static void the_engine_is_chosen_by_name(void **state)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format)};
	struct gpu4fs_options options = {
		.size = sizeof(options), .cache_bytes = 16 << 20, .engine = "steam", .format = &format};
	const char *name = image;
	struct gpu4fs_stat root;
	gpu4fs *mounted;

	(void)state;
	api_image(image, 64 << 20);
	explained(gpu4fs_mount(&name, 1, &options, &mounted), EINVAL);
	options.engine = "auto"; /* works everywhere */
	ok(gpu4fs_mount(&name, 1, &options, &mounted));
	ok(gpu4fs_stat(mounted, NULL, "/", &root));
	ok(gpu4fs_unmount(mounted));
	if (access("/dev/nvidiactl", F_OK) != 0) {
		options.engine = "cuda";
		options.format = NULL;
		explained(gpu4fs_mount(&name, 1, &options, &mounted), EOPNOTSUPP);
		assert_non_null(strstr(gpu4fs_last_message(), "CUDA"));
		ok(try_mount(image, 0));
	}
	unlink(image);
}

static void what_is_no_image_is_refused_with_a_sentence(void **state)
{
	(void)state;
	api_image(image, 16 << 20);
	explained(try_mount(image, 0), EINVAL); /* zeros */
	explained(try_mount("api_mount_none.img", 0), ENOENT);
	explained(try_mount("nonsense:thing", 0), ENOENT);
	explained(try_mount("mem:64Q", 0), EINVAL);
	explained(try_mkfs("mem:1M", 0), ENOSPC);
	ok(try_mkfs(image, 0));
	assert_int_equal(truncate(image, 8 << 20), 0);
	explained(try_mount(image, 0), EUCLEAN);
	assert_int_equal(truncate(image, 100), 0);
	assert_true(try_mount(image, 0) < 0);
	unlink(image);
}

static void an_image_is_mounted_once_at_a_time(void **state)
{
	gpu4fs *mounted;

	(void)state;
	api_image(image, 16 << 20);
	mounted = api_mount(image, true);
	explained(try_mount(image, 0), EBUSY);
	explained(try_mkfs(image, GPU4FS_MKFS_FORCE), EBUSY);
	ok(gpu4fs_unmount(mounted));
	ok(try_mount(image, 0));
	unlink(image);
}

static void a_read_only_file_system_changes_nothing(void **state)
{
	const struct gpu4fs_options options = {
		.size = sizeof(options), .flags = GPU4FS_READ_ONLY, .cache_bytes = 16 << 20};
	const char *name = image;
	struct gpu4fs_statfs statfs;
	gpu4fs *memory = fs;
	gpu4fs_file *file;

	(void)state;
	api_image(image, 16 << 20);
	fs = api_mount(image, true);
	api_write_text("/f", "content");
	ok(gpu4fs_unmount(fs));
	ok(gpu4fs_mount(&name, 1, &options, &fs));
	api_check_text("/f", "content");
	ok(gpu4fs_statfs(fs, &statfs));
	assert_int_equal(statfs.state, GPU4FS_STATE_READ_ONLY);
	fails(gpu4fs_open(fs, NULL, "/f", O_WRONLY, 0, &file), EROFS);
	fails(gpu4fs_open(fs, NULL, "/g", O_WRONLY | O_CREAT, 0644, &file), EROFS);
	fails(gpu4fs_mkdir(fs, NULL, "/d", 0755), EROFS);
	fails(gpu4fs_unlink(fs, NULL, "/f"), EROFS);
	fails(gpu4fs_chmod(fs, NULL, "/f", 0600), EROFS);
	fails(gpu4fs_truncate(fs, NULL, "/f", 0), EROFS);
	fails(gpu4fs_access(fs, NULL, "/f", W_OK), EROFS);
	ok(gpu4fs_access(fs, NULL, "/f", R_OK));
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

static void unmount_refuses_while_something_is_open(void **state)
{
	gpu4fs *session = api_session(1, 1, 0);
	gpu4fs_file *file;
	gpu4fs_dir *dir;

	(void)state;
	fails(gpu4fs_unmount(fs), EBUSY);
	fails(gpu4fs_unmount(session), EBUSY);
	fails(gpu4fs_session_close(fs), EBUSY);
	file = api_open_as(session, "/", O_RDONLY, 0);
	fails(gpu4fs_session_close(session), EBUSY);
	ok(gpu4fs_close(file));
	ok(gpu4fs_session_close(session));
	ok(gpu4fs_opendir(fs, NULL, "/", 0, &dir));
	fails(gpu4fs_unmount(fs), EBUSY);
	ok(gpu4fs_closedir(dir));
}

static void messages_belong_to_their_thread_and_errors_have_texts(void **state)
{
	(void)state;
	fails(try_mount("api_mount_none.img", 0), ENOENT);
	assert_non_null(strstr(gpu4fs_last_message(), "api_mount_none.img"));
	assert_string_equal(gpu4fs_strerror(-ENOENT), "No such file or directory");
	assert_string_equal(gpu4fs_strerror(0), "success");
	assert_string_equal(gpu4fs_strerror(-99999), "unknown error -99999");
	assert_true(strlen(gpu4fs_version()) >= 5);
}

/* The signals that a thread of this process blocks. */
static uint64_t blocked_in(const char *thread)
{
	unsigned long long blocked = 0;
	char path[320], line[256];

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
			break;
	fclose(file);
	return blocked;
}

static void no_thread_of_the_library_takes_the_programs_signals(void **state)
{
	const uint64_t wanted =
		UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGALRM - 1) | UINT64_C(1) << (SIGTERM - 1);
	uint32_t others = 0;

	(void)state;
	if (access("/dev/nvidiactl", F_OK) == 0) {
		print_message("skipped: CUDA's driver has threads of its own, which block no signals\n");
		skip();
	}
	DIR *threads = opendir("/proc/self/task");
	assert_non_null(threads);
	for (const struct dirent *entry; (entry = readdir(threads)) != NULL;) {
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid())
			continue;
		assert_int_equal(blocked_in(entry->d_name) & wanted, wanted);
		others++;
	}
	closedir(threads);
	assert_int_not_equal(others, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(mkfs_refuses_to_overwrite_what_it_knows),
		api_test(mkfs_takes_its_options),
		api_test(mkfs_takes_deduplication),
		api_test(mkfs_and_a_mount_take_a_quota_of_what_is_listed),
		api_test(mkfs_takes_the_sums),
		api_test(damage_is_counted),
		api_test(bad_options_are_refused),
		api_test(a_cache_beyond_the_memory_is_refused_before_formatting),
		api_test(the_engine_is_chosen_by_name),
		api_test(no_thread_of_the_library_takes_the_programs_signals),
		api_test(what_is_no_image_is_refused_with_a_sentence),
		api_test(an_image_is_mounted_once_at_a_time),
		api_test(a_read_only_file_system_changes_nothing),
		api_test(unmount_refuses_while_something_is_open),
		api_test(messages_belong_to_their_thread_and_errors_have_texts),
	};

	return cmocka_run_group_tests_name("api mount", tests, NULL, NULL);
}
