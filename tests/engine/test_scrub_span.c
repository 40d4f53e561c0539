/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrub whose pages several workgroups look at finds what one alone finds, on a device that is memory and on one that is not: damaged
 * contents, pages of sums and indirect pages; holes, fragments, large pages; beside writers, and with a rate.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (128 * G4_MIB)
#define FILE_BYTES (24 * G4_MIB)
#define HELPERS 3u
#define ROUNDS_MOST 2000u /* scrubs until a helper has come: only against tests that hang */

static struct rig rig;
static uint8_t *data;
static uint64_t ino, holes;
static struct g4_health health;
static const struct g4_fault queued = {.write_through = true};

/* ------------------------------------------------------------------ files */

static uint64_t make(const char *name)
{
	uint64_t made;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &made), 0);
	return made;
}

static void put(uint64_t file, uint64_t at, uint64_t bytes)
{
	for (uint64_t end = at + bytes, done; at < end; at += done)
		assert_int_equal(op_write(&rig, file, 0, at, data + at, end - at, &done), 0);
}

/* Of pages of 2 MiB, of 4 KiB in fragments with holes between them, and one that nothing is written to for long. */
static void populate(void)
{
	ino = make("large");
	put(ino, 0, FILE_BYTES);
	holes = make("holes");
	for (uint64_t at = 0; at < FILE_BYTES; at += 40 * G4_PAGE_BYTES)
		put(holes, at, 24 * G4_PAGE_BYTES);
	put(make("sparse"), FILE_BYTES - 4096, 4096);
	assert_int_equal(op_sync(&rig), 0);
}

static void begin(const struct g4_fault *fault)
{
	rig_begin(&rig, DEVICE_BYTES, 0, fault);
	data = rig_memory(FILE_BYTES, 5);
	populate();
}

static void end(void)
{
	rig_end(&rig);
	free(data);
}

static uint64_t place(uint64_t file, uint64_t page)
{
	struct g4_map_extent extent;
	uint32_t count;

	assert_int_equal(op_map(&rig, file, page * G4_PAGE_BYTES, &extent, 1, &count), 0);
	assert_int_equal(count, 1);
	return extent.address;
}

/* Below every cache. */
static void flip(uint64_t address)
{
	if (rig.fault)
		assert_int_equal(g4_dev_fault_flip(rig.fault, address, 1), 0);
	else
		rig.image[address] ^= 1;
}

/* ------------------------------------------------------------------ scrubs */

struct helper {
	pthread_t thread;
	struct g4_wg *wg;
	uint64_t pieces;
};
static struct helper helpers[HELPERS];
static uint32_t stop;

static void *help(void *argument)
{
	struct helper *helper = (struct helper *)argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_scrub_help(helper->wg, rig.fs))
			g4_add64(&helper->pieces, 1);
		else
			g4_pause();
	}
	return NULL;
}

static void start_helpers(void)
{
	g4_store32_rel(&stop, 0);
	rig.fs->jobs.scrub.helpers = HELPERS;
	for (uint32_t i = 0; i < HELPERS; i++) {
		helpers[i] = (struct helper){.wg = g4_wg_create_with(100 + i, rig.fs->scratch_bytes)};
		assert_int_equal(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]), 0);
	}
}

static uint64_t stop_helpers(void)
{
	uint64_t pieces = 0;

	g4_store32_rel(&stop, 1);
	for (uint32_t i = 0; i < HELPERS; i++) {
		pthread_join(helpers[i].thread, NULL);
		g4_wg_destroy(helpers[i].wg);
		pieces += helpers[i].pieces;
	}
	rig.fs->jobs.scrub.helpers = 0;
	return pieces;
}

/* To its end; with a rate it is not waited for what that says, for time is not what is tested. */
static const struct g4_job_record *scrub(uint64_t rate)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB, .rate = rate};

	assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
	const struct g4_job_record *job = rig_last_job(&rig, &health);
	while (job->state == G4_JOB_RUNNING) {
		for (uint32_t i = 0; i < G4_JOBS; i++)
			rig.fs->jobs.throttles[i].due_ns = 0;
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
		job = rig_last_job(&rig, &health);
	}
	assert_int_equal(job->state, G4_JOB_DONE);
	return job;
}

static int by_place(const void *a, const void *b)
{
	const struct g4_finding *x = (const struct g4_finding *)a, *y = (const struct g4_finding *)b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->page != y->page)
		return x->page < y->page ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* With helpers, until one has come, as without: the same findings, and as many pages looked at. */
static void expect_the_same(uint64_t errors)
{
	struct g4_finding alone[G4_FINDINGS];
	uint64_t pieces = 0;

	rig.fs->jobs.scrub.helpers = 0;
	assert_int_equal(scrub(0)->errors, errors);
	assert_int_equal(health.findings_lost, 0);
	memcpy(alone, health.findings, sizeof(alone));
	qsort(alone, G4_FINDINGS, sizeof(alone[0]), by_place);
	for (uint32_t round = 0; pieces == 0 && round < ROUNDS_MOST; round++) {
		start_helpers();
		assert_int_equal(scrub(0)->errors, errors);
		pieces = stop_helpers();
		qsort(health.findings, G4_FINDINGS, sizeof(alone[0]), by_place);
		assert_memory_equal(health.findings, alone, sizeof(alone));
	}
	assert_true(pieces > 0);
}

/* ------------------------------------------------------------------ tests */

static void find_it_all(const struct g4_fault *fault)
{
	begin(fault);
	expect_the_same(0);
	/* runs over the borders of pieces, single pages, the first and the last */
	static const uint64_t pages[] = {0, 31, 32, 33, 500, 511, 512, 513, 1023, 3000, FILE_BYTES / G4_PAGE_BYTES - 1};
	for (uint32_t k = 0; k < sizeof(pages) / sizeof(pages[0]); k++)
		flip(place(ino, pages[k]) + 7);
	for (uint64_t page = 400; page < 424; page++)
		flip(place(holes, page) + page);
	expect_the_same(sizeof(pages) / sizeof(pages[0]) + 24);
	for (uint32_t k = 0; k < sizeof(pages) / sizeof(pages[0]); k++)
		flip(place(ino, pages[k]) + 7);
	for (uint64_t page = 400; page < 424; page++)
		flip(place(holes, page) + page);
	expect_the_same(0);
	end();
}

static void where_the_device_is_memory(void **state)
{
	(void)state;
	find_it_all(NULL);
}

static void where_it_is_none(void **state)
{
	(void)state;
	find_it_all(&queued);
}

/* What 128 pages of the file can not be compared with, and an indirect page that leads to 512 others. */
static void damaged_metadata_is_found_once(void **state)
{
	struct g4_map_nodes nodes;

	(void)state;
	begin(NULL);
	uint32_t index;
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, holes, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), 600, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.count > 0 && nodes.sums_count > 1);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	const uint64_t sums = g4_address_stored(nodes.sums[1]), node = g4_address_stored(nodes.nodes[nodes.count - 1]);
	flip(sums + 1000);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_the_same(1 + 80); /* of 128 pages those that are no holes */
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	flip(sums + 1000);
	flip(node + 1000);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_the_same(1);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	flip(node + 1000);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_the_same(0);
	end();
}

static void *write_on(void *argument)
{
	struct helper *writer = (struct helper *)argument;

	for (uint64_t n = 0; !g4_load32_acq(&stop); n++) {
		const uint64_t at = n * 7919 % (FILE_BYTES / G4_PAGE_BYTES) * G4_PAGE_BYTES;
		struct g4_cmd cmd = {.op = G4_CMD_WRITE, .node = n % 2 ? ino : holes};
		cmd.offset = at;
		cmd.length = G4_PAGE_BYTES;
		cmd.data = data + at;
		g4_execute(writer->wg, rig.fs, &cmd);
		if (n % 50 == 0) {
			struct g4_cmd sync = {.op = G4_CMD_SYNCFS};
			g4_execute(writer->wg, rig.fs, &sync);
		}
	}
	return NULL;
}

static void beside_a_writer_nothing_is_found(void **state)
{
	struct helper writer = {0};

	(void)state;
	if (rig_lanes_are_watched()) /* a page of metadata is looked at while a checkpoint writes it, and then once more */
		skip();
	begin(NULL);
	for (uint64_t pieces = 0, round = 0; pieces == 0 && round < ROUNDS_MOST; round++) {
		start_helpers();
		writer.wg = g4_wg_create_with(50, rig.fs->scratch_bytes);
		assert_int_equal(pthread_create(&writer.thread, NULL, write_on, &writer), 0);
		for (uint32_t n = 0; n < 3; n++)
			assert_int_equal(scrub(0)->errors, 0);
		pieces = stop_helpers();
		pthread_join(writer.thread, NULL);
		g4_wg_destroy(writer.wg);
	}
	end();
}

/* With a rate a step is no more than a part of a second's bytes, however many help. */
static void a_rate_keeps_steps_small(void **state)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB, .rate = 8 * G4_MIB};
	uint64_t before = 0, most = 0;

	(void)state;
	begin(NULL);
	for (uint32_t limited = 0; limited < 2; limited++, most = 0) {
		rig.fs->jobs.scrub.helpers = 1000; /* who do not come: the owner waits for nobody */
		start.rate = limited ? 8 * G4_MIB : 0;
		assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
		const struct g4_job_record *job = rig_last_job(&rig, &health);
		while (job->state == G4_JOB_RUNNING) {
			for (uint32_t i = 0; i < G4_JOBS; i++)
				rig.fs->jobs.throttles[i].due_ns = 0;
			before = job->bytes;
			assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
			job = rig_last_job(&rig, &health);
			most = g4_max64(most, job->bytes - before);
		}
		if (limited)
			assert_in_range(most, 4096, 2 * G4_MIB);
		else
			assert_true(most > FILE_BYTES / 2);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_the_device_is_memory),	  cmocka_unit_test(where_it_is_none),
		cmocka_unit_test(damaged_metadata_is_found_once), cmocka_unit_test(beside_a_writer_nothing_is_found),
		cmocka_unit_test(a_rate_keeps_steps_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
