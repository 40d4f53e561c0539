/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queued devices on files: what was written is read back through every path, requests of many threads on one device keep
 * their data, and the same holds without io_uring and without O_DIRECT.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev_util.h"

#define IMAGE_BYTES (UINT64_C(8) * G4_MIB)

struct fixture {
	char path[512];
	struct g4_wg *wg;
	struct g4_dev *dev;
	uint8_t *buffer; /* 1 MiB, page aligned */
};

static int open_fixture(struct fixture *f, const char *directory, uint32_t flags, uint32_t queues)
{
	char message[256] = "";
	struct g4_dev_open_options options = {
		.flags = flags | G4_DEV_CREATE, .queues = queues, .create_bytes = IMAGE_BYTES};
	temporary_path(f->path, sizeof(f->path), directory);
	f->wg = g4_wg_create(0);
	f->buffer = pages(G4_MIB);
	int code = g4_dev_open(f->path, &options, &f->dev, message, sizeof(message));
	if (code != 0)
		print_error("%s\n", message);
	return code;
}

static void close_fixture(struct fixture *f)
{
	g4_dev_close(f->dev);
	unlink(f->path);
	free(f->buffer);
	g4_wg_destroy(f->wg);
}

static int setup_with(void **state, uint32_t flags, uint32_t queues)
{
	struct fixture *f = calloc(1, sizeof(*f));
	*state = f;
	return f ? open_fixture(f, temporary_directory(), flags, queues) : -1;
}

static int setup(void **state)
{
	return setup_with(state, 0, 0);
}

static int setup_one_ring(void **state)
{
	return setup_with(state, 0, 1);
}

static int setup_synchronous(void **state)
{
	return setup_with(state, G4_DEV_SYNCHRONOUS, 0);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	close_fixture(f);
	free(f);
	return 0;
}

/* ---- one access ---- */

static void written_data_is_read_back(void **state)
{
	struct fixture *f = *state;
	fill(f->buffer, G4_MIB, 64 * G4_KIB, 1);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 64 * G4_KIB, f->buffer, G4_MIB, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	memset(f->buffer, 0, G4_MIB);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 64 * G4_KIB, f->buffer, G4_MIB), 0);
	check(f->buffer, G4_MIB, 64 * G4_KIB, 1);
}

static void a_new_file_is_sparse_and_reads_zeros(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_size, IMAGE_BYTES);
	assert_true((uint64_t)st.st_blocks * 512 < G4_MIB);
	memset(f->buffer, 0xff, G4_MIB);
	assert_int_equal(g4_dev_read(f->wg, f->dev, IMAGE_BYTES - G4_MIB, f->buffer, G4_MIB), 0);
	for (uint64_t i = 0; i < G4_MIB; i++)
		assert_int_equal(f->buffer[i], 0);
}

static void properties_are_those_of_a_queued_device(void **state)
{
	struct fixture *f = *state;
	const struct g4_dev_props *props = g4_dev_props(f->dev);
	assert_int_equal(props->size_bytes, IMAGE_BYTES);
	assert_true(props->sector_bytes == 512 || props->sector_bytes == 4096);
	assert_false(props->mapped);
	assert_false(props->read_only);
	assert_true(props->volatile_cache);
	assert_null(g4_dev_map(f->dev, 0));
}

/* What it does is the host's, and changes nothing here; also of a file with holes. */
static void a_file_is_the_same_when_its_pages_have_been_found(void **state)
{
	struct fixture *f = *state;
	struct g4_dev *memory;
	struct stat before, after;

	fill(f->buffer, G4_MIB, G4_MIB, 3);
	assert_int_equal(g4_dev_write(f->wg, f->dev, G4_MIB, f->buffer, G4_MIB, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(stat(f->path, &before), 0);
	g4_dev_find_pages(f->dev);
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_blocks, before.st_blocks);
	memset(f->buffer, 0, G4_MIB);
	assert_int_equal(g4_dev_read(f->wg, f->dev, G4_MIB, f->buffer, G4_MIB), 0);
	check(f->buffer, G4_MIB, G4_MIB, 3);
	/* what is no file has none */
	assert_int_equal(g4_dev_open("mem:1M", &(struct g4_dev_open_options){0}, &memory, NULL, 0), 0);
	g4_dev_find_pages(memory);
	g4_dev_close(memory);
}

static void accesses_beyond_the_end_are_refused(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov = {f->buffer, G4_PAGE_BYTES};
	struct g4_io io = {.op = G4_IO_READ, .offset_bytes = UINT64_MAX - 4095, .iov = &iov, .iov_count = 1};
	assert_int_equal(g4_dev_read(f->wg, f->dev, IMAGE_BYTES, f->buffer, 4096), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_write(f->wg, f->dev, IMAGE_BYTES - 4096, f->buffer, 8192, 0), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 4096, f->buffer, UINT64_MAX - 4095), -G4_E_DEV_RANGE);
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(f->wg, f->dev, IMAGE_BYTES, f->buffer, 0), 0);
}

static void unaligned_accesses_are_refused(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(g4_dev_read(f->wg, f->dev, 100, f->buffer, 4096), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 4095), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer + 8, 4096), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 4096, f->buffer + 1, 4096, G4_IO_FUA), -G4_E_DEV_ALIGN);
}

static void malformed_requests_are_refused(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov = {f->buffer, 4096};
	struct g4_io ios[3] = {
		{.op = 17, .iov = &iov, .iov_count = 1},
		{.op = G4_IO_READ, .flags = 64, .iov = &iov, .iov_count = 1},
		{.op = G4_IO_READ, .iov = &iov, .iov_count = G4_IO_MAX_IOV + 1},
	};
	submit_all(f->wg, f->dev, ios, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[i]), -G4_E_INVAL);
}

/* ---- requests ---- */

static void a_full_vector_of_sectors_is_transferred(void **state)
{
	struct fixture *f = *state;
	uint64_t sector = g4_dev_props(f->dev)->sector_bytes;
	struct g4_iov *iov = calloc(G4_IO_MAX_IOV, sizeof(*iov));
	uint8_t *scattered = pages(2 * sector * G4_IO_MAX_IOV);
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = sector, .iov = iov, .iov_count = G4_IO_MAX_IOV};
	assert_non_null(iov);
	for (uint64_t i = 0; i < G4_IO_MAX_IOV; i++) {
		iov[i] = (struct g4_iov){scattered + 2 * i * sector, sector};
		fill(iov[i].base, sector, (i + 1) * sector, 3);
	}
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
	memset(scattered, 0, 2 * sector * G4_IO_MAX_IOV);
	io.op = G4_IO_READ;
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
	for (uint64_t i = 0; i < G4_IO_MAX_IOV; i++)
		check(iov[i].base, sector, (i + 1) * sector, 3);
	free(scattered);
	free(iov);
}

static void empty_entries_and_empty_requests_complete(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov[4] = {{f->buffer, 0}, {f->buffer, 4096}, {f->buffer, 0}, {f->buffer + 4096, 4096}};
	struct g4_io ios[3] = {
		{.op = G4_IO_WRITE, .iov = iov, .iov_count = 4},
		{.op = G4_IO_WRITE, .iov = iov, .iov_count = 1},
		{.op = G4_IO_READ, .iov = NULL, .iov_count = 0},
	};
	fill(f->buffer, 8192, 0, 5);
	submit_all(f->wg, f->dev, ios, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[i]), 0);
	memset(f->buffer, 0, 8192);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 8192), 0);
	check(f->buffer, 8192, 0, 5);
}

/* More requests in one call than a ring holds, waited for in the opposite order. */
static void a_large_batch_completes(void **state)
{
	enum { COUNT = 1500 };
	struct fixture *f = *state;
	struct g4_iov *iov = calloc(COUNT, sizeof(*iov));
	struct g4_io *ios = calloc(COUNT, sizeof(*ios));
	uint8_t *memory = pages(COUNT * G4_PAGE_BYTES);
	assert_non_null(iov);
	assert_non_null(ios);
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < COUNT; i++) {
			iov[i] = (struct g4_iov){memory + i * 4096, 4096};
			ios[i] = (struct g4_io){.op = round ? G4_IO_READ : G4_IO_WRITE,
						.flags = round ? 0 : (i % 64 == 0 ? G4_IO_FUA : 0),
						.offset_bytes = i * 4096,
						.iov = &iov[i],
						.iov_count = 1};
			fill(iov[i].base, round ? 0 : 4096, i * 4096, 7);
		}
		submit_all(f->wg, f->dev, ios, COUNT);
		for (int i = COUNT - 1; i >= 0; i--)
			assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[i]), 0);
		if (round == 0)
			memset(memory, 0, COUNT * G4_PAGE_BYTES);
	}
	check(memory, COUNT * G4_PAGE_BYTES, 0, 7);
	free(memory);
	free(ios);
	free(iov);
}

static void polling_completes_a_request(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov = {f->buffer, 4096};
	struct g4_io io = {.op = G4_IO_WRITE, .iov = &iov, .iov_count = 1};
	g4_dev_submit(f->wg, f->dev, &io);
	while (!g4_dev_poll(f->wg, f->dev, &io))
		g4_pause();
	assert_int_equal(io.result, 0);
}

static void flush_and_discard_are_requests_too(void **state)
{
	struct fixture *f = *state;
	struct g4_io ios[2] = {{.op = G4_IO_DISCARD, .offset_bytes = 8192, .discard_bytes = 8192}, {.op = G4_IO_FLUSH}};
	fill(f->buffer, 32768, 0, 9);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer, 32768, 0), 0);
	submit_all(f->wg, f->dev, ios, 2);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[1]), 0);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[0]), g4_dev_props(f->dev)->discard ? 0 : -G4_E_NOTSUP);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 32768), 0);
	check(f->buffer, 8192, 0, 9);
	check(f->buffer + 16384, 16384, 16384, 9);
	for (int i = 8192; i < 16384 && g4_dev_props(f->dev)->discard; i++)
		assert_int_equal(f->buffer[i], 0);
}

static void a_file_cut_short_gives_an_error_not_old_data(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov = {f->buffer, 4096};
	struct g4_io io = {.op = G4_IO_READ, .offset_bytes = IMAGE_BYTES - 4096, .iov = &iov, .iov_count = 1};
	assert_int_equal(truncate(f->path, 4096), 0);
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), -G4_E_IO);
	assert_int_equal(g4_dev_read(f->wg, f->dev, IMAGE_BYTES - 4096, f->buffer, 4096), -G4_E_IO);
}

/* ---- many threads ---- */

#define THREADS 8
#define THREAD_PAGES 64
#define THREAD_ROUNDS 40
#define BATCH 16

struct worker {
	struct fixture *f;
	pthread_t thread;
	uint32_t index;
	uint64_t errors;
};

/* One batch of pages of the worker's own area: written or read, by requests waited for in any order. */
static uint64_t run_batch(struct worker *w, struct g4_wg *wg, uint8_t *memory, uint32_t op, uint64_t first)
{
	struct g4_iov iov[BATCH];
	struct g4_io ios[BATCH];
	uint64_t errors = 0;
	for (uint64_t i = 0; i < BATCH; i++) {
		uint64_t page = w->index * THREAD_PAGES + first + i;
		iov[i] = (struct g4_iov){memory + i * 4096, 4096};
		ios[i] = (struct g4_io){.op = op, .offset_bytes = page * 4096, .iov = &iov[i], .iov_count = 1};
	}
	submit_all(wg, w->f->dev, ios, BATCH);
	for (uint64_t i = 0; i < BATCH; i++)
		errors += g4_dev_wait(wg, w->f->dev, &ios[(i * 7 + first) % BATCH]) != 0;
	return errors;
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *wg = g4_wg_create(w->index);
	uint8_t *memory = aligned_alloc(4096, BATCH * 4096);
	uint8_t *expected = malloc(BATCH * 4096);
	for (uint64_t round = 0; round < THREAD_ROUNDS; round++) {
		uint64_t first = round * BATCH % THREAD_PAGES;
		uint64_t offset = (w->index * THREAD_PAGES + first) * 4096;
		fill(memory, BATCH * 4096, offset, round);
		memcpy(expected, memory, BATCH * 4096);
		w->errors += run_batch(w, wg, memory, G4_IO_WRITE, first);
		memset(memory, 0, BATCH * 4096);
		w->errors += run_batch(w, wg, memory, G4_IO_READ, first);
		w->errors += memcmp(memory, expected, BATCH * 4096) != 0;
		if (round % 8 == 0)
			w->errors += g4_dev_flush(wg, w->f->dev) != 0;
	}
	free(expected);
	free(memory);
	g4_wg_destroy(wg);
	return NULL;
}

static void threads_on_one_device_keep_their_data(void **state)
{
	struct fixture *f = *state;
	struct worker workers[THREADS];
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.f = f, .index = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].errors, 0);
	}
}

struct waiting {
	struct fixture *f;
	struct g4_io *io;
	int result;
};

static void *wait_elsewhere(void *argument)
{
	struct waiting *w = argument;
	struct g4_wg *wg = g4_wg_create(1);
	w->result = g4_dev_wait(wg, w->f->dev, w->io);
	g4_wg_destroy(wg);
	return NULL;
}

static void a_request_may_be_waited_for_by_several_threads(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[4];
	struct waiting waiting[4];
	for (int round = 0; round < 50; round++) {
		struct g4_iov iov = {f->buffer, 64 * 1024};
		struct g4_io io = {.op = G4_IO_WRITE, .flags = G4_IO_FUA, .iov = &iov, .iov_count = 1};
		g4_dev_submit(f->wg, f->dev, &io);
		for (int i = 0; i < 4; i++) {
			waiting[i] = (struct waiting){f, &io, 1};
			assert_int_equal(pthread_create(&threads[i], NULL, wait_elsewhere, &waiting[i]), 0);
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(waiting[i].result, 0);
		}
	}
}

/* ---- without O_DIRECT ---- */

static void a_file_on_tmpfs_works(void **state)
{
	struct fixture f;
	struct statfs fs;
	(void)state;
	if (statfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK) != 0)
		skip();
	memset(&f, 0, sizeof(f));
	assert_int_equal(open_fixture(&f, "/dev/shm", 0, 0), 0);
	void *fixture = &f;
	written_data_is_read_back(&fixture);
	a_large_batch_completes(&fixture);
	flush_and_discard_are_requests_too(&fixture);
	threads_on_one_device_keep_their_data(&fixture);
	close_fixture(&f);
}

/* ---- hosts that refuse or run out of something: in a child, which changes its own world ---- */

/* Runs `scenario` in a child: 0 it holds, 77 the machine does not allow it. */
static void in_child(int (*scenario)(void))
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(scenario());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static bool forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Opens twice with stderr in a pipe: one warning that names io_uring, and requests that work. */
static int scenario_without_io_uring(void)
{
	struct fixture f[2];
	void *fixture = &f[0];
	char text[1024] = "";
	int ends[2];
	int saved = dup(STDERR_FILENO);
	if (!forbid_io_uring())
		return 77;
	if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
		return 1;
	if (open_fixture(&f[0], temporary_directory(), 0, 0) != 0 ||
	    open_fixture(&f[1], temporary_directory(), 0, 0) != 0)
		return 2;
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	if (read(ends[0], text, sizeof(text) - 1) <= 0)
		return 3;
	const char *first = strstr(text, "io_uring");
	if (!first || strstr(first + 1, "io_uring"))
		return 4;
	a_large_batch_completes(&fixture);
	threads_on_one_device_keep_their_data(&fixture);
	close_fixture(&f[0]);
	close_fixture(&f[1]);
	return 0;
}

static void without_io_uring_requests_complete_and_it_is_said_once(void **state)
{
	(void)state;
	in_child(scenario_without_io_uring);
}

/* A sparse image on a file system of 1 MiB: the write that does not fit is short first and fails then. */
static int full_host(uint32_t flags)
{
	struct fixture f;
	char directory[512];
	snprintf(directory, sizeof(directory), "%s/gpu4fs-full-XXXXXX", temporary_directory());
	if (!mkdtemp(directory))
		return 1;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", directory, "tmpfs", 0, "size=1M") != 0) {
		rmdir(directory);
		return 77;
	}
	if (open_fixture(&f, directory, flags, 0) != 0)
		return 2;
	uint8_t *large = calloc(1, 2 * G4_MIB + 4096);
	uint8_t *memory = (uint8_t *)(uintptr_t)g4_align_up((uintptr_t)large, 4096);
	struct g4_iov iov = {memory, 2 * G4_MIB};
	struct g4_io io = {.op = G4_IO_WRITE, .iov = &iov, .iov_count = 1};
	g4_dev_submit(f.wg, f.dev, &io);
	int submitted = g4_dev_wait(f.wg, f.dev, &io);
	int direct = g4_dev_write(f.wg, f.dev, 0, memory, 2 * G4_MIB, 0);
	int small = g4_dev_write(f.wg, f.dev, 0, memory, 4096, 0);
	free(large);
	close_fixture(&f);
	umount(directory);
	rmdir(directory);
	return submitted == -G4_E_NOSPC && direct == -G4_E_NOSPC && small == 0 ? 0 : 3;
}

static int scenario_full_host(void)
{
	return full_host(0);
}

static int scenario_full_host_synchronous(void)
{
	return full_host(G4_DEV_SYNCHRONOUS);
}

static void a_full_host_file_system_is_told(void **state)
{
	(void)state;
	in_child(scenario_full_host);
	in_child(scenario_full_host_synchronous);
}

#define BOTH(test)                                                                                                     \
	cmocka_unit_test_setup_teardown(test, setup, teardown),                                                        \
		cmocka_unit_test_setup_teardown(test, setup_synchronous, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(written_data_is_read_back),
		BOTH(a_new_file_is_sparse_and_reads_zeros),
		BOTH(properties_are_those_of_a_queued_device),
		BOTH(a_file_is_the_same_when_its_pages_have_been_found),
		BOTH(accesses_beyond_the_end_are_refused),
		BOTH(unaligned_accesses_are_refused),
		BOTH(malformed_requests_are_refused),
		BOTH(a_full_vector_of_sectors_is_transferred),
		BOTH(empty_entries_and_empty_requests_complete),
		BOTH(a_large_batch_completes),
		BOTH(polling_completes_a_request),
		BOTH(flush_and_discard_are_requests_too),
		BOTH(a_file_cut_short_gives_an_error_not_old_data),
		BOTH(threads_on_one_device_keep_their_data),
		cmocka_unit_test_setup_teardown(threads_on_one_device_keep_their_data, setup_one_ring, teardown),
		cmocka_unit_test_setup_teardown(a_request_may_be_waited_for_by_several_threads, setup_one_ring,
						teardown),
		cmocka_unit_test(a_file_on_tmpfs_works),
		cmocka_unit_test(without_io_uring_requests_complete_and_it_is_said_once),
		cmocka_unit_test(a_full_host_file_system_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
