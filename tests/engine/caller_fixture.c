/* SPDX-License-Identifier: Apache-2.0 */
#include "caller_fixture.h"

#include "simt/simt_host.h"

struct rig rig;
struct g4_wg *wg;
struct g4_caller places[PLACES];
struct g4_callers callers;
uint8_t *data, *buffer;
static struct g4_wg *wgs[PLACES];

const struct g4_caller_open to_read = {.flags = G4_OPEN_READ};
const struct g4_caller_open to_write = {.flags = G4_OPEN_READ | G4_OPEN_WRITE};
const struct g4_caller_open to_create = {.flags = G4_OPEN_READ | G4_OPEN_WRITE, .mode = 0666, .create = true};

int caller_setup(void **state)
{
	(void)state;
	data = rig_memory(FILE_BYTES, 7);
	buffer = rig_memory(FILE_BYTES, 0);
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	wg = rig.wg;
	memset(&callers, 0, sizeof(callers));
	memset(places, 0, sizeof(places));
	callers.fs = rig.fs;
	callers.caller = places;
	callers.count = PLACES;
	callers.start = G4_NODE_ROOT;
	callers.cred.umask = 022;
	for (uint32_t i = 0; i < PLACES; i++) {
		wgs[i] = g4_wg_create(1 + i);
		assert_non_null(wgs[i]);
		places[i].callers = &callers;
		places[i].wg = wgs[i];
	}
	return 0;
}

int caller_teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PLACES; i++) {
		assert_int_equal(places[i].busy, 0);
		g4_wg_destroy(wgs[i]);
	}
	assert_int_equal(rig.fs->cache.pins, 0);
	rig_end(&rig);
	free(data);
	free(buffer);
	return 0;
}

int open_at(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
	    const struct g4_caller_open *how, struct g4_caller_file *file)
{
	int rc = g4_caller_open(caller, at, path, strlen(path), how);

	*file = rc == 0 ? caller->file : (struct g4_caller_file){0};
	return rc;
}

struct g4_caller_file make_file(struct g4_caller *caller, const char *path, uint64_t bytes)
{
	struct g4_caller_file file;

	assert_int_equal(open_at(caller, NULL, path, &to_create, &file), 0);
	assert_int_equal(g4_caller_write(caller, &file, 0, data, bytes), bytes);
	return file;
}

void expect_contents(struct g4_caller *caller, const struct g4_caller_file *file, const uint8_t *wanted, uint64_t bytes)
{
	assert_int_equal(g4_caller_read(caller, file, 0, buffer, FILE_BYTES), bytes);
	assert_memory_equal(buffer, wanted, bytes);
}
