/* SPDX-License-Identifier: Apache-2.0 */
/* Opening devices: what each kind of name gives, and the sentence for everything that can be wrong with one. */
#define _GNU_SOURCE 1
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "dev_util.h"
#include "trace/trace.h"

#define IMAGE_BYTES G4_MIB

static char message[512];

static int try_open(const char *name, uint32_t flags, uint64_t create_bytes, struct g4_dev **dev)
{
	struct g4_dev_open_options options = {.flags = flags, .create_bytes = create_bytes};
	memset(message, 0, sizeof(message));
	return g4_dev_open(name, &options, dev, message, sizeof(message));
}

/* The open fails with this code; the sentence has the name and the words in it and is one line. */
static void refuses(const char *name, uint32_t flags, uint64_t create_bytes, int code, const char *words)
{
	struct g4_dev *dev = (struct g4_dev *)&dev;
	assert_int_equal(try_open(name, flags, create_bytes, &dev), code);
	assert_null(dev);
	if (!strstr(message, name) || !strstr(message, words) || strchr(message, '\n'))
		fail_msg("the sentence is: %s", message);
}

static void make_file(char *path, size_t path_bytes, uint64_t bytes)
{
	temporary_path(path, path_bytes, temporary_directory());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

static void memory_sizes_are_understood(void **state)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} cases[] = {{"mem:65536", 65536},   {"mem:64K", 65536}, {"mem:3M", 3 * G4_MIB},
		     {"mem:2G", 2 * G4_GIB}, {"mem:1T", G4_TIB}, {"mem:16m", 16 * G4_MIB}};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct g4_dev *dev = open_device(cases[i].name);
		assert_int_equal(g4_dev_props(dev)->size_bytes, cases[i].bytes);
		g4_dev_close(dev);
	}
}

static void bad_memory_sizes_are_refused(void **state)
{
	static const char *const names[] = {"mem:",    "mem:abc", "mem:12X",   "mem:-4K",
					    "mem: 4K", "mem:4KK", "mem:0x1000"};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		refuses(names[i], 0, 0, -G4_E_DEV_NAME, "takes a size");
	refuses("mem:1000", 0, 0, -G4_E_DEV_NAME, "multiple of 4096");
	refuses("mem:0", 0, 0, -G4_E_DEV_SMALL, "too small");
	refuses("mem:8388608T", 0, 0, -G4_E_NOMEM, "no room");
	refuses("mem:99999999999999999999999999", 0, 0, -G4_E_NOMEM, "no room");
}

static void names_without_a_device_are_refused(void **state)
{
	struct g4_dev *dev;
	(void)state;
	assert_int_equal(try_open("", 0, 0, &dev), -G4_E_DEV_NAME);
	assert_non_null(strstr(message, "empty"));
	refuses("dax:", 0, 0, -G4_E_DEV_NAME, "path");
	refuses("emu:", 0, 0, -G4_E_DEV_NAME, "another device");
	refuses("emu:emu:mem:4M", 0, 0, -G4_E_DEV_NAME, "another device");
	refuses("emu:/no/such/file", 0, 0, -G4_E_NOENT, "no such file");
	refuses("emu:mem:1000", 0, 0, -G4_E_DEV_NAME, "multiple of 4096");
	refuses("trace:", 0, 0, -G4_E_DEV_NAME, "trace:FILE:DEVICE");
	refuses("trace:/tmp/x", 0, 0, -G4_E_DEV_NAME, "trace:FILE:DEVICE");
	refuses("trace::/tmp/x", 0, 0, -G4_E_DEV_NAME, "trace:FILE:DEVICE");
	refuses("trace:/tmp/x:", 0, 0, -G4_E_DEV_NAME, "trace:FILE:DEVICE");
	refuses("trace:/tmp/x:trace:/tmp/y:/tmp/z", 0, 0, -G4_E_DEV_NAME, "trace:FILE:DEVICE");
	refuses("trace:/tmp/x:/no/such/file", 0, 0, -G4_E_NOENT, "no such file");
	refuses("trace:/no/such/folder/x:mem:4M", 0, 0, -G4_E_NOTSUP, "memory");
	refuses("nvme:", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:0000:03:00.0/0", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:0000:03:00.0/1/0", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:0000:03:00.0/1/", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:0000:03:00.0/1/2/3", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:ffff:ff:1f.7/1/2", 0, 0, -G4_E_NOENT, "no such PCI device");
	refuses("emu:drive:", 0, 0, -G4_E_DEV_NAME, "another device");
	refuses("emu:drive:emu:mem:4M", 0, 0, -G4_E_DEV_NAME, "another device");
	refuses("emu:drive:part=1:mem:4M", 0, 0, -G4_E_DEV_OPEN, "no GUID partition table");
	refuses("emu:part=1:", 0, 0, -G4_E_DEV_NAME, "another device");
	refuses("emu:part=1:mem:4M", 0, 0, -G4_E_DEV_OPEN, "no GUID partition table");
	refuses("nvme:0000:03:20.0", 0, 0, -G4_E_DEV_NAME, "PCI address");
	refuses("nvme:ffff:ff:1f.7/2", 0, 0, -G4_E_NOENT, "no such PCI device");
	refuses("/dev/null", 0, 0, -G4_E_DEV_OPEN, "neither a regular file nor a block device");
	refuses("dax:/dev/null", 0, 0, -G4_E_DEV_OPEN, "neither a regular file nor a block device");
	refuses("/tmp", 0, 0, -G4_E_ISDIR, "is a directory");
	refuses("/no/such/file", 0, 0, -G4_E_NOENT, "no such file");
	refuses("dax:/no/such/file", 0, 0, -G4_E_NOENT, "no such file");
	refuses("/no/such/file", G4_DEV_CREATE, IMAGE_BYTES, -G4_E_NOENT, "directory does not exist");
}

static void a_traced_device_records_what_reaches_it(void **state)
{
	static uint8_t data[4 * G4_PAGE_BYTES] __attribute__((aligned(4096)));
	char path[512], trace_path[520], name[1100], wrong[1100], text[G4_TRACE_MESSAGE_BYTES];
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_trace trace = {0};
	struct g4_dev *dev;

	(void)state;
	assert_non_null(wg);
	make_file(path, sizeof(path), IMAGE_BYTES);
	snprintf(trace_path, sizeof(trace_path), "%s.trace", path);
	snprintf(name, sizeof(name), "trace:%s:%s", trace_path, path);
	assert_string_equal(g4_dev_path(name), path);
	assert_true(g4_dev_has_path(name));
	assert_false(g4_dev_has_path("trace:x:mem:4M"));
	assert_string_equal(g4_dev_path("emu:drive:disk.img"), "disk.img");
	assert_string_equal(g4_dev_path("emu:drive:part=2:disk.img"), "disk.img");
	snprintf(wrong, sizeof(wrong), "trace:/no/such/folder/x:%s", path);
	refuses(wrong, 0, 0, -G4_E_IO, "cannot be written");
	snprintf(wrong, sizeof(wrong), "trace:%s:%s", path, path); /* in the wrong order, an image would be gone */
	refuses(wrong, 0, 0, -G4_E_INVAL, "not overwritten");

	assert_int_equal(try_open(name, G4_DEV_EXCLUSIVE, 0, &dev), 0);
	assert_int_equal(g4_dev_props(dev)->size_bytes, IMAGE_BYTES);
	memset(data, 7, sizeof(data));
	assert_int_equal(g4_dev_write(wg, dev, 2 * G4_PAGE_BYTES, data, sizeof(data), G4_IO_FUA), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	memset(data, 0, sizeof(data));
	struct g4_iov parts[2] = {{data + G4_PAGE_BYTES, G4_PAGE_BYTES}, {data, G4_PAGE_BYTES}};
	struct g4_io second = {.op = G4_IO_READ, .offset_bytes = 0, .iov = parts, .iov_count = 1};
	struct g4_io first = {
		.op = G4_IO_READ, .offset_bytes = 4 * G4_PAGE_BYTES, .iov = parts, .iov_count = 2, .next = &second};
	g4_dev_submit(wg, dev, &first);
	assert_int_equal(g4_dev_wait(wg, dev, &first), 0);
	assert_int_equal(g4_dev_wait(wg, dev, &second), 0);
	assert_int_equal(data[0], 7);
	assert_int_equal(g4_dev_set_size(dev, 2 * IMAGE_BYTES), 0);
	assert_int_equal(g4_dev_props(dev)->size_bytes, 2 * IMAGE_BYTES);
	/* who only looks at it meanwhile leaves the trace alone */
	struct g4_dev *other;
	assert_int_equal(try_open(name, G4_DEV_READ_ONLY, 0, &other), 0);
	assert_int_equal(g4_dev_read(wg, other, 0, data, G4_PAGE_BYTES), 0);
	g4_dev_close(other);
	g4_dev_close(dev);
	/* a program that opens it more than once, such as one that mounts again, records everything */
	assert_int_equal(try_open(name, 0, 0, &dev), 0);
	assert_int_equal(g4_dev_read(wg, dev, G4_PAGE_BYTES, data, G4_PAGE_BYTES), 0);
	g4_dev_close(dev);

	FILE *in = fopen(trace_path, "r");
	assert_non_null(in);
	assert_int_equal(g4_trace_read(in, &trace, text), 0);
	fclose(in);
	assert_int_equal(trace.count, 4);
	const struct g4_trace_access *a = trace.accesses;
	assert_true(a[0].write && a[0].page == 2 && a[0].pages == 4);
	assert_true(!a[1].write && a[1].page == 4 && a[1].pages == 2);
	assert_true(!a[2].write && a[2].page == 0 && a[2].pages == 1);
	assert_true(!a[3].write && a[3].page == 1 && a[3].pages == 1);
	g4_trace_free(&trace);
	g4_wg_destroy(wg);
	unlink(trace_path);
	unlink(path);
}

static void small_files_are_refused(void **state)
{
	char path[512];
	(void)state;
	make_file(path, sizeof(path), 4095);
	refuses(path, 0, 0, -G4_E_DEV_SMALL, "too small (4095 bytes)");
	unlink(path);
	refuses(path, G4_DEV_CREATE, 4095, -G4_E_DEV_SMALL, "too small");
	refuses(path, G4_DEV_CREATE, UINT64_MAX, -G4_E_FBIG, "too large");
	assert_int_equal(access(path, F_OK), -1);
}

static void a_file_that_cannot_be_created_leaves_nothing_behind(void **state)
{
	char path[512];
	(void)state;
	temporary_path(path, sizeof(path), temporary_directory());
	refuses(path, G4_DEV_CREATE, UINT64_C(1) << 62, -G4_E_FBIG, "cannot be created");
	assert_int_equal(access(path, F_OK), -1);
	refuses(path, G4_DEV_CREATE | G4_DEV_READ_ONLY, IMAGE_BYTES, -G4_E_NOENT, "no such file");
}

static void create_leaves_an_existing_file_as_it_is(void **state)
{
	char path[512];
	struct g4_dev *dev;
	(void)state;
	make_file(path, sizeof(path), 2 * IMAGE_BYTES);
	assert_int_equal(try_open(path, G4_DEV_CREATE, IMAGE_BYTES, &dev), 0);
	assert_int_equal(g4_dev_props(dev)->size_bytes, 2 * IMAGE_BYTES);
	g4_dev_close(dev);
	unlink(path);
}

static void a_created_file_is_private_to_its_owner(void **state)
{
	char path[512];
	struct g4_dev *dev;
	struct stat st;
	(void)state;
	temporary_path(path, sizeof(path), temporary_directory());
	assert_int_equal(try_open(path, G4_DEV_CREATE, IMAGE_BYTES, &dev), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 077, 0);
	g4_dev_close(dev);
	unlink(path);
}

static void the_tail_of_an_odd_sized_file_is_not_used(void **state)
{
	char path[512];
	struct g4_dev *dev;
	(void)state;
	make_file(path, sizeof(path), IMAGE_BYTES + 100);
	assert_int_equal(try_open(path, 0, 0, &dev), 0);
	assert_int_equal(g4_dev_props(dev)->size_bytes, IMAGE_BYTES);
	g4_dev_close(dev);
	unlink(path);
}

static void an_exclusive_device_is_busy_for_others(void **state)
{
	char path[512];
	char dax[520];
	struct g4_dev *dev;
	struct g4_dev *reader;
	(void)state;
	make_file(path, sizeof(path), IMAGE_BYTES);
	snprintf(dax, sizeof(dax), "dax:%s", path);
	assert_int_equal(try_open(path, G4_DEV_EXCLUSIVE, 0, &dev), 0);
	refuses(path, G4_DEV_EXCLUSIVE, 0, -G4_E_DEV_BUSY, "is in use");
	refuses(dax, G4_DEV_EXCLUSIVE, 0, -G4_E_DEV_BUSY, "is in use");
	refuses(path, G4_DEV_EXCLUSIVE | G4_DEV_READ_ONLY, 0, -G4_E_DEV_BUSY, "is in use");
	g4_dev_close(dev);
	assert_int_equal(try_open(path, G4_DEV_EXCLUSIVE | G4_DEV_READ_ONLY, 0, &dev), 0);
	assert_int_equal(try_open(path, G4_DEV_EXCLUSIVE | G4_DEV_READ_ONLY, 0, &reader), 0);
	refuses(path, G4_DEV_EXCLUSIVE, 0, -G4_E_DEV_BUSY, "is in use");
	g4_dev_close(reader);
	g4_dev_close(dev);
	assert_int_equal(try_open(path, G4_DEV_EXCLUSIVE, 0, &dev), 0);
	g4_dev_close(dev);
	unlink(path);
}

/* What the kernel does when a process with requests under way is killed on a busy machine: its lock outlives it. */
static void the_lock_of_a_killed_process_is_waited_for(void **state)
{
	const struct timespec longer_than_busy = {.tv_nsec = 700000000};
	char path[512];
	struct g4_dev *dev;
	int locked[2], end[2], status;
	pid_t keeper = 0;

	(void)state;
	make_file(path, sizeof(path), IMAGE_BYTES);
	assert_int_equal(pipe(locked), 0);
	assert_int_equal(pipe(end), 0);
	const pid_t owner = fork();
	assert_true(owner >= 0);
	if (owner == 0) {
		const int fd = open(path, O_RDWR);
		if (fd < 0 || flock(fd, LOCK_EX) != 0)
			_exit(1);
		keeper = fork();
		if (keeper == 0) {
			char byte;
			close(end[1]);
			(void)!read(end[0], &byte, 1);
			nanosleep(&longer_than_busy, NULL);
			_exit(0);
		}
		_exit(write(locked[1], &keeper, sizeof(keeper)) == sizeof(keeper) ? 0 : 1);
	}
	assert_int_equal(read(locked[0], &keeper, sizeof(keeper)), (ssize_t)sizeof(keeper));
	close(end[1]);							/* now the keeper goes, too, but not at once */
	assert_int_equal(try_open(path, G4_DEV_EXCLUSIVE, 0, &dev), 0); /* nobody has waited for the owner yet */
	assert_int_equal(waitpid(owner, &status, 0), owner);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	refuses(path, G4_DEV_EXCLUSIVE, 0, -G4_E_DEV_BUSY, "is in use");
	g4_dev_close(dev);
	close(end[0]);
	close(locked[0]);
	close(locked[1]);
	unlink(path);
}

static void a_read_only_file_refuses_writes(void **state)
{
	char path[512];
	struct g4_dev *dev;
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *buffer = pages(4096);
	(void)state;
	make_file(path, sizeof(path), IMAGE_BYTES);
	assert_int_equal(try_open(path, G4_DEV_READ_ONLY, 0, &dev), 0);
	assert_true(g4_dev_props(dev)->read_only);
	assert_false(g4_dev_props(dev)->discard);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_DEV_READONLY);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
	free(buffer);
	g4_wg_destroy(wg);
	unlink(path);
}

/* As a user without rights: root may open everything. */
static void a_file_without_permission_is_refused(void **state)
{
	char path[512];
	int status;
	(void)state;
	make_file(path, sizeof(path), IMAGE_BYTES);
	assert_int_equal(chmod(path, 0400), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct g4_dev *dev;
		if (geteuid() == 0 && (chown(path, 65534, 65534) != 0 || setuid(65534) != 0))
			_exit(2);
		_exit(try_open(path, 0, 0, &dev) != -G4_E_ACCES || !strstr(message, "no permission"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(path);
	assert_int_equal(status, 0);
}

static void a_short_message_buffer_is_respected(void **state)
{
	struct g4_dev *dev;
	char text[8] = "*******";
	(void)state;
	assert_int_equal(g4_dev_open("/no/such/file", NULL, &dev, text, 4), -G4_E_NOENT);
	assert_string_equal(text, "/no");
	assert_int_equal(text[4], '*');
	assert_int_equal(g4_dev_open("/no/such/file", NULL, &dev, NULL, 0), -G4_E_NOENT);
}

static void closing_nothing_is_allowed(void **state)
{
	(void)state;
	g4_dev_close(NULL);
}

/* ---- block devices, where the machine lets us make a loop device ---- */

static bool run_line(const char *command, char *line, size_t bytes)
{
	/* NOLINTNEXTLINE(cert-env33-c): a fixed command of a test */
	FILE *stream = popen(command, "r");
	if (!stream)
		return false;
	bool read = fgets(line, (int)bytes, stream) != NULL;
	line[strcspn(line, "\n")] = '\0';
	return pclose(stream) == 0 && read;
}

static bool attach_loop(const char *options, const char *path, char *loop, size_t bytes)
{
	char command[700];
	snprintf(command, sizeof(command), "losetup --find --show %s %s 2>/dev/null", options, path);
	return run_line(command, loop, bytes);
}

static void detach_loop(const char *loop)
{
	char command[300];
	char line[8];
	snprintf(command, sizeof(command), "losetup --detach %s", loop);
	(void)run_line(command, line, sizeof(line));
}

static void a_block_device_works_and_can_be_claimed(void **state)
{
	char path[512];
	char loop[256];
	struct g4_dev *dev;
	(void)state;
	make_file(path, sizeof(path), 8 * G4_MIB);
	if (!attach_loop("--sector-size 4096", path, loop, sizeof(loop))) {
		unlink(path);
		skip();
	}
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *buffer = pages(65536);
	struct g4_iov iov = {buffer, 65536};
	struct g4_io ios[3] = {{.op = G4_IO_WRITE, .flags = G4_IO_FUA, .iov = &iov, .iov_count = 1},
			       {.op = G4_IO_DISCARD, .offset_bytes = G4_MIB, .discard_bytes = G4_MIB},
			       {.op = G4_IO_FLUSH}};
	assert_int_equal(try_open(loop, G4_DEV_EXCLUSIVE, 0, &dev), 0);
	assert_int_equal(g4_dev_props(dev)->size_bytes, 8 * G4_MIB);
	assert_int_equal(g4_dev_props(dev)->sector_bytes, 4096);
	refuses(loop, G4_DEV_EXCLUSIVE, 0, -G4_E_DEV_BUSY, "is in use");
	fill(buffer, 65536, 0, 1);
	submit_all(wg, dev, ios, 3);
	assert_int_equal(g4_dev_wait(wg, dev, &ios[0]), 0);
	assert_int_equal(g4_dev_wait(wg, dev, &ios[1]), g4_dev_props(dev)->discard ? 0 : -G4_E_NOTSUP);
	assert_int_equal(g4_dev_wait(wg, dev, &ios[2]), 0);
	memset(buffer, 0, 65536);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 65536), 0);
	check(buffer, 65536, 0, 1);
	assert_int_equal(g4_dev_read(wg, dev, 512, buffer, 4096), -G4_E_DEV_ALIGN);
	g4_dev_close(dev);
	detach_loop(loop);
	free(buffer);
	g4_wg_destroy(wg);
	unlink(path);
}

static void a_write_protected_block_device_is_refused_unless_read_only(void **state)
{
	char path[512];
	char loop[256];
	struct g4_dev *dev;
	(void)state;
	make_file(path, sizeof(path), 8 * G4_MIB);
	if (!attach_loop("--read-only", path, loop, sizeof(loop))) {
		unlink(path);
		skip();
	}
	refuses(loop, 0, 0, -G4_E_DEV_READONLY, "is read-only");
	assert_int_equal(try_open(loop, G4_DEV_READ_ONLY, 0, &dev), 0);
	g4_dev_close(dev);
	detach_loop(loop);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_sizes_are_understood),
		cmocka_unit_test(bad_memory_sizes_are_refused),
		cmocka_unit_test(names_without_a_device_are_refused),
		cmocka_unit_test(a_traced_device_records_what_reaches_it),
		cmocka_unit_test(small_files_are_refused),
		cmocka_unit_test(a_file_that_cannot_be_created_leaves_nothing_behind),
		cmocka_unit_test(create_leaves_an_existing_file_as_it_is),
		cmocka_unit_test(a_created_file_is_private_to_its_owner),
		cmocka_unit_test(the_tail_of_an_odd_sized_file_is_not_used),
		cmocka_unit_test(an_exclusive_device_is_busy_for_others),
		cmocka_unit_test(the_lock_of_a_killed_process_is_waited_for),
		cmocka_unit_test(a_read_only_file_refuses_writes),
		cmocka_unit_test(a_file_without_permission_is_refused),
		cmocka_unit_test(a_short_message_buffer_is_respected),
		cmocka_unit_test(closing_nothing_is_allowed),
		cmocka_unit_test(a_block_device_works_and_can_be_claimed),
		cmocka_unit_test(a_write_protected_block_device_is_refused_unless_read_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
