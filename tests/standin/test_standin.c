/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's half of the CUDA engine (src/gpu/cuda_host.c) on the stand-in for a GPU: clients that leave while others
 * keep the kernel busy, an agent that is late, kernels that fault, and the end.
 */
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include "client/client.h"
#include "dev/dev_types.h"
#include "engine/engine.h"
#include "gpu/cuda_host.h"
#include "inode/trail.h"
#include "ring/client_host.h"
#include "ring/session_host.h"
#include "standin/stand_in_gpu.h"

#include "engine/disks.h"

#include "engine/api_fixture.h" /* its fs is a parameter's name there */

#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000) /* only against tests that hang */
#define MORE 100u					 /* commands: the engine goes on */
#define POSTS 3000u
#define CLIENTS 3u
#define MOST_LAUNCHES                                                                                                  \
	4u /* of an unmount: handles are closed, everything is written; and one for each that crosses it */

#define await(condition)                                                                                               \
	do {                                                                                                           \
		uint64_t until = g4_monotonic_ns() + DEADLINE_NS;                                                      \
		while (!(condition)) {                                                                                 \
			assert_true(g4_monotonic_ns() < until);                                                        \
			sched_yield();                                                                                 \
		}                                                                                                      \
	} while (0)

/* ------------------------------------------------------------------ the agent's sleep */

static uint32_t agent_sleeps; /* nobody has rung, and the kernel is not there */
static uint32_t agent_is_late;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

/* Without a timeout the agent polls its doorbell, and nobody else. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (timeout != -1)
		return __real_poll(fds, count, timeout);
	if (__real_poll(fds, count, 0) == 0)
		g4_store32_rel(&agent_sleeps, 1);
	int rc = __real_poll(fds, count, timeout);
	while (g4_load32_acq(&agent_is_late))
		sched_yield();
	g4_store32_rel(&agent_sleeps, 0);
	return rc;
}

/* ------------------------------------------------------------------ clients */

static struct g4_gpu_control *control;

static struct g4_engine *engine(void)
{
	return fs->mount->engine;
}

static int mount_it(void **state)
{
	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	fs = api_mount("mem:64M", true);
	assert_non_null(g4_engine_cuda(engine()));
	control = g4_engine_cuda(engine())->control;
	return 0;
}

static int nothing_is_left(void **state)
{
	(void)state;
	assert_int_equal(stand_in.running, 0);
	assert_int_equal(stand_in.registered, 0);
	assert_int_equal(stand_in.allocated, 0);
	return 0;
}

struct client {
	struct g4_session_host *session;
	struct g4_ring_client *ring;
};

static void ring_session(void *session)
{
	g4_session_rung(session);
}

static const struct g4_session_options port_options = {.flags = G4_SESSION_MAY_ACT | G4_SESSION_IN_PROCESS,
						       .entries = 64,
						       .data_bytes = G4_RING_MIN_DATA_BYTES,
						       .handles = 16};

static struct client come(void)
{
	struct client client;

	assert_int_equal(g4_session_open(g4_engine_sessions(engine()), &port_options, &client.session), 0);
	client.ring = g4_ring_client_new(g4_session_ring(client.session), g4_session_data(client.session), -1, -1,
					 &port_options.cred);
	assert_non_null(client.ring);
	g4_ring_client_ring_by(client.ring, ring_session, client.session);
	return client;
}

static void *leave(void *client)
{
	g4_ring_client_free(((struct client *)client)->ring);
	g4_session_shut(((struct client *)client)->session);
	return NULL;
}

/* A command that needs a worker. ring: NULL for the engine's own. */
static int ask(struct g4_ring_client *ring)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = G4_NODE_ROOT, .attr = &attr};

	return ring ? g4_ring_client_execute(ring, &cmd) : g4_engine_execute(engine(), &cmd);
}

struct busy { /* a thread that asks until it is told to end, or something fails */
	pthread_t thread;
	uint32_t end, asked;
	int rc;
};

static void *keep_busy(void *argument)
{
	struct busy *busy = argument;

	while (busy->rc == 0 && !g4_load32_acq(&busy->end)) {
		busy->rc = ask(NULL);
		g4_add32(&busy->asked, 1);
	}
	return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	assert_int_equal(pthread_create(thread, NULL, function, argument), 0);
}

static void await_more(struct busy *busy)
{
	const uint32_t before = g4_load32_acq(&busy->asked);

	await(g4_load32_acq(&busy->asked) - before > MORE);
}

/* Its commands went on to the end. */
static void end_busy(struct busy *busy)
{
	await_more(busy);
	g4_store32_rel(&busy->end, 1);
	pthread_join(busy->thread, NULL);
	assert_int_equal(busy->rc, 0);
}

/* The kernel has left, and the agent waits for the doorbell. */
static void await_sleep(void)
{
	await(g4_load32_acq(&agent_sleeps));
}

/* ------------------------------------------------------------------ tests */

static void leave_beside_a_busy_one(uint32_t stay)
{
	struct busy busy = {0};
	struct client client = come();

	g4_store32_rel(&control->stay, stay);
	start(&busy.thread, keep_busy, &busy);
	assert_int_equal(ask(client.ring), 0);
	await_more(&busy);
	leave(&client);
	await_more(&busy);
	/* the place is free again, for a client that starts at number 1 */
	client = come();
	assert_int_equal(ask(client.ring), 0);
	leave(&client);
	end_busy(&busy);
	ok(gpu4fs_unmount(fs));
}

static void a_client_leaves_beside_a_busy_one(void **state)
{
	(void)state;
	leave_beside_a_busy_one(0);
}

static void a_client_leaves_a_kernel_that_stays(void **state)
{
	(void)state;
	leave_beside_a_busy_one(1);
}

static void a_client_leaves_while_the_kernel_sleeps(void **state)
{
	struct client client = come();

	(void)state;
	assert_int_equal(ask(client.ring), 0);
	await_sleep();
	leave(&client);
	assert_int_equal(ask(NULL), 0);
	await_sleep();
	/* what is kept of the place's last client, that it had given one command, is not this one's */
	client = come();
	assert_int_equal(ask(client.ring), 0);
	leave(&client);
	ok(gpu4fs_unmount(fs));
}

static void clients_leave_together(void **state)
{
	struct client clients[CLIENTS];
	pthread_t leavers[CLIENTS];
	struct busy busy = {0};

	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		clients[i] = come();
		assert_int_equal(ask(clients[i].ring), 0);
	}
	start(&busy.thread, keep_busy, &busy);
	await_more(&busy);
	for (uint32_t i = 0; i < CLIENTS; i++)
		start(&leavers[i], leave, &clients[i]);
	for (uint32_t i = 0; i < CLIENTS; i++)
		pthread_join(leavers[i], NULL);
	end_busy(&busy);
	ok(gpu4fs_unmount(fs));
}

/* Who rang has started the kernel; somebody sends it away before the agent has woken, and waits for the agent then. */
static void a_client_leaves_before_the_agent_woke(void **state)
{
	struct client client = come();
	pthread_t leaver;

	(void)state;
	assert_int_equal(ask(client.ring), 0);
	await_sleep();
	g4_store32_rel(&control->stay, 1);
	g4_store32_rel(&agent_is_late, 1);
	assert_int_equal(ask(NULL), 0);
	start(&leaver, leave, &client);
	await(g4_load32_acq(&control->stop));
	g4_store32_rel(&agent_is_late, 0);
	pthread_join(leaver, NULL);
	assert_int_equal(ask(NULL), 0);
	ok(gpu4fs_unmount(fs));
}

/* Nobody who asks or comes gets anything else, and everybody can leave. */
static void expect_the_end(struct client *client)
{
	struct g4_session_host *session;

	assert_int_equal(ask(NULL), -G4_E_IO);
	assert_int_equal(ask(client->ring), -G4_E_IO);
	assert_int_equal(g4_session_open(g4_engine_sessions(engine()), &port_options, &session), -G4_E_IO);
	leave(client);
	fails(gpu4fs_unmount(fs), EIO);
}

static void a_kernel_that_cannot_start_fails_every_call(void **state)
{
	struct client client = come();

	(void)state;
	assert_int_equal(ask(client.ring), 0);
	await_sleep();
	g4_store32_rel(&stand_in.refuse, 1);
	const int before = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC);
	char text[1024] = "";
	assert_true(before >= 0 && log >= 0 && dup2(log, STDERR_FILENO) >= 0);
	assert_int_equal(ask(NULL), -G4_E_IO); /* this thread launches, the agent's tells */
	expect_the_end(&client);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "stopped: the stand-in was told not to launch"));
	close(before);
	close(log);
}

static void a_kernel_that_faults_fails_every_call(void **state)
{
	struct client client = come();
	struct busy busy = {0};

	(void)state;
	start(&busy.thread, keep_busy, &busy);
	await_more(&busy);
	g4_store32_rel(&stand_in.fault, 1);
	pthread_join(busy.thread, NULL);
	assert_int_equal(busy.rc, -G4_E_IO);
	expect_the_end(&client);
}

/* ------------------------------------------------------------------ the end */

struct poster { /* another process: memory of its own, in which it posts NOPs as fast as they get results */
	pthread_t thread;
	struct g4_ring_header *header;
	uint64_t bytes;
	uint32_t end, posted;
};

static void *post(void *argument)
{
	struct poster *poster = argument;
	struct g4_ring_header *header = poster->header;
	uint32_t tail = 0;

	while (!g4_load32_acq(&poster->end)) {
		const uint32_t before = tail + 1 - header->entries;
		if (tail >= header->entries &&
		    (g4_load64_acq(&g4_ring_result_of(header, header->entries, before)->word) & G4_RING_NUMBER_MASK) !=
			    before) {
			sched_yield();
			continue;
		}
		g4_store32_rel(&header->tail, ++tail); /* the slot is all zeros: NOP */
		g4_store32_rel(&poster->posted, tail);
	}
	return NULL;
}

/* It posts before, during and after the end of its session; with what this process has posted, the engine ends all the same. */
static void the_end_comes_while_clients_post(void **state)
{
	struct poster poster = {0};
	struct g4_session_host *session;

	(void)state;
	assert_int_equal(g4_session_open(g4_engine_sessions(engine()), &port_options, &session), 0);
	poster.bytes = g4_session_ring_bytes(session);
	poster.header = mmap(NULL, poster.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g4_session_ring_fd(session), 0);
	assert_ptr_not_equal(poster.header, MAP_FAILED);
	g4_store32_rel(&control->stay, 1); /* the poster does not ring */
	assert_int_equal(ask(NULL), 0);
	start(&poster.thread, post, &poster);
	await(g4_load32_acq(&poster.posted) > POSTS);
	g4_session_shut(session);
	for (uint32_t i = 0; i < POSTS; i++) {
		struct g4_cmd nothing = {.op = G4_CMD_NOP};
		g4_engine_post(engine(), &nothing);
	}
	const uint32_t launches = g4_load32_acq(&stand_in.launches);
	ok(gpu4fs_unmount(fs));
	assert_in_range(g4_load32_acq(&stand_in.launches) - launches, 0, MOST_LAUNCHES);
	g4_store32_rel(&poster.end, 1);
	pthread_join(poster.thread, NULL);
	munmap(poster.header, poster.bytes);
}

/* ------------------------------------------------------------------ a controller's queue, used by the kernel itself */

static void a_controllers_queue_needs_no_agent(void **state)
{
	const char *const image = "emu:standin-emu.img";

	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	api_image("standin-emu.img", 64 * G4_MIB);
	for (uint32_t round = 0; round < 3; round++) { /* what one mount has written the next one finds */
		fs = api_mount(image, round == 0);
		assert_non_null(g4_engine_cuda(engine()));
		assert_true(g4_load32_acq(&stand_in.registered) >=
			    5); /* three pieces of the controller's, ring and data */
		for (uint32_t i = 0; i < round; i++) {
			char before[16];
			snprintf(before, sizeof(before), "/file%u", i);
			api_check_pattern(before, i, 3 * G4_MIB + 777);
		}
		char path[16];
		snprintf(path, sizeof(path), "/file%u", round);
		api_write_pattern(path, round, 3 * G4_MIB + 777);
		ok(gpu4fs_syncfs(fs));
		api_check_pattern(path, round, 3 * G4_MIB + 777);
		ok(gpu4fs_unmount(fs));
	}
	unlink("standin-emu.img");
}

/* ------------------------------------------------------------------ damage */

#define LOG_BYTES 65536u
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

static void release_log(void)
{
	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	assert_int_equal(fclose(lines), 0);
}

/* How many lines that were written have these words. */
static uint32_t count_lines(const char *words)
{
	static char text[LOG_BYTES];
	const ssize_t bytes = pread(fileno(lines), text, sizeof(text) - 1, 0);
	uint32_t count = 0;

	assert_true(bytes >= 0);
	text[bytes] = 0;
	for (const char *at = text; (at = strstr(at, words)); at++)
		count++;
	return count;
}

/* Where a page of a file lies in what the engine has as its device, by its contents. */
static uint8_t *find_in_device(const uint8_t *contents)
{
	const struct g4_fs *mounted = g4_engine_cuda(engine())->fs;
	const struct g4_dev *dev = mounted->space.disks[0];

	for (uint64_t at = 0; at < dev->props.size_bytes; at += 4096)
		if (memcmp(dev->map + at, contents, 4096) == 0)
			return dev->map + at;
	fail_msg("the page is not there");
	return NULL;
}

/* A file that goes past the cache, with `damaged` pages from the fourth on that are not what was written. */
static void write_damaged(uint32_t pages, uint32_t damaged)
{
	uint8_t page[4096];

	api_write_pattern("/damaged", 7, pages * 4096);
	for (uint32_t k = 3; k < 3 + damaged; k++) {
		api_pattern(page, 7, k * sizeof(page), sizeof(page));
		find_in_device(page)[100] ^= 1;
	}
}

static void read_damaged(gpu4fs_file *file, uint32_t damaged)
{
	uint8_t page[4096];

	for (uint32_t k = 3; k < 3 + damaged; k++)
		fails(gpu4fs_pread(file, page, sizeof(page), (int64_t)k * 4096), EIO);
}

static void damage_that_the_kernel_met_is_told(void **state)
{
	gpu4fs_file *file;
	uint8_t page[4096];

	(void)state;
	catch_log();
	write_damaged(64, 40);
	file = api_open("/damaged", O_RDONLY | O_DIRECT, 0);
	fails(gpu4fs_pread(file, page, sizeof(page), 3 * 4096), EIO);
	await(count_lines("damaged data: inode ") > 0); /* a reader may meet it more than once */
	assert_true(count_lines(", offset 12288, on mem:64M, at 0x") > 0);
	assert_true(count_lines(": blake3 expected ") > 0);
	/* more than ten in a second, or than the rings hold, come sooner or later */
	await((read_damaged(file, 40), count_lines(" more damaged pages were met on mem:64M") > 0));
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(fs));
	release_log();
}

static void what_is_met_last_is_told_before_the_end(void **state)
{
	gpu4fs_file *file;
	uint8_t page[4096];

	(void)state;
	catch_log();
	write_damaged(64, 1);
	file = api_open("/damaged", O_RDONLY | O_DIRECT, 0);
	fails(gpu4fs_pread(file, page, sizeof(page), 3 * 4096), EIO);
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(fs));
	assert_true(count_lines("damaged data: inode ") > 0);
	release_log();
}

/* What clients can do without does not fail a mount, and nothing of it is left. */
static void a_mount_does_without_epochs(void **state)
{
	const struct g4_session_engine *sessions;

	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	stand_in.refuse_bytes = 2 * G4_EPOCHS_BYTES;
	fs = api_mount("mem:64M", true);
	sessions = g4_engine_sessions(engine());
	assert_int_equal(sessions->epochs(sessions->context), -G4_E_NOTSUP);
	assert_null(g4_engine_epochs(engine()));
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_rmdir(fs, NULL, "/d"));
	ok(gpu4fs_unmount(fs));
}

/* ------------------------------------------------------------------ a tier in the host's memory */

#define TIERED_BYTES (8 * G4_MIB) /* twice the page cache */

static void read_tiered(gpu4fs_file *file, uint32_t seed)
{
	static uint8_t found[64 * 1024], expected[64 * 1024];

	for (uint64_t at = 0; at < TIERED_BYTES; at += sizeof(found)) {
		assert_int_equal(gpu4fs_pread(file, found, sizeof(found), (int64_t)at), sizeof(found));
		api_pattern(expected, seed, at, sizeof(expected));
		assert_memory_equal(found, expected, sizeof(found));
	}
}

static void what_the_gpus_cache_gives_up_lies_on_the_host(void **state)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE};
	const char *const image = "standin-tier.img";
	struct gpu4fs_options options = {.size = sizeof(options),
					 .cache_bytes = 4 * G4_MIB,
					 .tier_bytes = 32 * G4_MIB,
					 .engine = "cuda",
					 .format = &format};

	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	api_image(image, 64 * G4_MIB);
	for (uint32_t round = 0; round < 2; round++) {
		ok(gpu4fs_mount(&image, 1, &options, &fs));
		const struct g4_tier *tier = &((const struct g4_fs *)g4_engine_cuda(engine())->fs)->space.tier;
		assert_true(g4_engine_cuda(engine())->tier);
		for (uint32_t seed = 2 * round; seed < 2 * round + 2; seed++) {
			api_write_pattern("/file", seed, TIERED_BYTES);
			ok(gpu4fs_syncfs(fs));
			gpu4fs_file *file = api_open("/file", O_RDONLY, 0);
			for (uint32_t pass = 0; pass < 3; pass++) {
				/* a client knows what it has read for as long as nothing has changed */
				ok(gpu4fs_fchmod(file, 0600 + pass));
				read_tiered(file, seed);
			}
			ok(gpu4fs_close(file));
		}
		assert_true(g4_load64_rlx(&tier->counts.down) >= TIERED_BYTES / 2 / G4_PAGE_BYTES);
		assert_true(g4_load64_rlx(&tier->counts.up) >= TIERED_BYTES / 2 / G4_PAGE_BYTES);
		ok(gpu4fs_unmount(fs));
		options.format = NULL;
	}
	/* memory that is a device needs none, nor is there one that nobody asked for */
	const char *const memory = "mem:64M";
	options.format = &format;
	ok(gpu4fs_mount(&memory, 1, &options, &fs));
	assert_false(g4_engine_cuda(engine())->tier);
	ok(gpu4fs_unmount(fs));
	options.tier_bytes = 0;
	ok(gpu4fs_mount(&image, 1, &options, &fs));
	assert_false(g4_engine_cuda(engine())->tier);
	ok(gpu4fs_unmount(fs));
	unlink(image);
}

/* Memory of the host that can not be page-locked is not said to be the GPU's. */
static void a_tier_that_the_host_has_no_memory_for_is_told(void **state)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE};
	const char *const image = "standin-tier.img";
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .cache_bytes = 4 * G4_MIB,
					       .tier_bytes = 32 * G4_MIB,
					       .engine = "cuda",
					       .format = &format};

	(void)state;
	memset(&stand_in, 0, sizeof(stand_in));
	stand_in.refuse_to_lock = 32 * G4_MIB;
	api_image(image, 64 * G4_MIB);
	fails(gpu4fs_mount(&image, 1, &options, &fs), ENOMEM);
	assert_non_null(strstr(gpu4fs_last_message(), "a second tier of 32 MiB"));
	assert_non_null(strstr(gpu4fs_last_message(), "page-locked"));
	unlink(image);
}

/* ------------------------------------------------------------------ sets of mapped disks */

/* Its lanes have the disks that are there, also where the set was mounted without one. */
static void a_set_without_a_disk_is_read_by_lanes(void **state)
{
	(void)state;
	for (uint32_t parity = 0; parity < 2; parity++) {
		struct disks d;

		memset(&stand_in, 0, sizeof(stand_in));
		disks_make(&d, 3, NULL);
		if (parity)
			disks_format_rows(&d, parity, G4_CHECKSUM_BLAKE3);
		else
			disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_BLAKE3);
		for (uint32_t lost = 0; lost < 2; lost++) { /* none, then disk 0 */
			disks_mount(&d, 7 & ~lost);
			const struct g4_fs *mounted = g4_engine_cuda(d.rig.engine)->fs;
			const struct g4_direct *direct = &mounted->space.direct;
			assert_true(g4_direct_is_open(direct));
			assert_int_equal(direct->table.missing, lost);
			assert_int_equal(direct->table.disks[0] == 0, lost);
			assert_false(g4_dev_props(mounted->space.disks[0])->discard);
			if (lost)
				disks_expect_files(&d, 6, 1);
			for (uint32_t n = 0; n < 6; n++)
				assert_int_equal(disks_put(&d, n, 1 + lost), 0);
			disks_expect_files(&d, 6, 1 + lost);
			disks_unmount(&d);
		}
		disks_expect_clean(&d, 6);
		disks_free(&d);
	}
}

#define standin_test(f) cmocka_unit_test_setup_teardown(f, mount_it, nothing_is_left)

int main(void)
{
	const struct CMUnitTest tests[] = {
		standin_test(a_client_leaves_beside_a_busy_one),
		standin_test(a_client_leaves_a_kernel_that_stays),
		standin_test(a_client_leaves_while_the_kernel_sleeps),
		standin_test(clients_leave_together),
		standin_test(a_client_leaves_before_the_agent_woke),
		standin_test(a_kernel_that_cannot_start_fails_every_call),
		standin_test(a_kernel_that_faults_fails_every_call),
		standin_test(the_end_comes_while_clients_post),
		cmocka_unit_test_teardown(a_controllers_queue_needs_no_agent, nothing_is_left),
		standin_test(damage_that_the_kernel_met_is_told),
		standin_test(what_is_met_last_is_told_before_the_end),
		cmocka_unit_test_teardown(a_mount_does_without_epochs, nothing_is_left),
		cmocka_unit_test_teardown(what_the_gpus_cache_gives_up_lies_on_the_host, nothing_is_left),
		cmocka_unit_test_teardown(a_tier_that_the_host_has_no_memory_for_is_told, nothing_is_left),
		cmocka_unit_test_teardown(a_set_without_a_disk_is_read_by_lanes, nothing_is_left),
	};

	if (setenv("G4_TEST_ENGINE", "cuda", 1) != 0 || unsetenv("G4_TEST_CONNECTED") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
