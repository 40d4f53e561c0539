/* SPDX-License-Identifier: Apache-2.0 */
#include "files/files.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define SOURCES_MOST 64

struct rig rig;
struct g4_fs *fs;
struct g4_wg *wg;

static struct {
	const char *name;
	const struct CMUnitTest *tests;
	size_t count;
} sources[SOURCES_MOST];
static uint32_t source_count;

void files_begin_as(uint32_t checksum, uint32_t dedup)
{
	rig_begin_as(&rig, checksum, dedup, DEVICE_BYTES, 0, NULL);
	fs = rig.fs;
	wg = rig.wg;
}

int files_begin(void **state)
{
	(void)state;
	files_begin_as(RIG_AS_SET, RIG_AS_SET);
	return 0;
}

int files_end(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

struct held files_hold(const char *name)
{
	struct held held;

	held.index = rig_hold(&rig, name, &held.ino);
	held.inode = g4_icache_at(fs, held.index);
	return held;
}

void files_let_go(struct held held)
{
	g4_icache_put(fs, held.index);
}

void files_add(const char *source, const struct CMUnitTest *tests, size_t count)
{
	const char *slash = strrchr(source, '/');

	if (source_count == SOURCES_MOST)
		abort();
	sources[source_count].name = slash == NULL ? source : slash + 1;
	sources[source_count].tests = tests;
	sources[source_count++].count = count;
}

int main(void)
{
	int failed = 0;

	for (uint32_t i = 0; i < source_count; i++)
		failed += _cmocka_run_group_tests(sources[i].name, sources[i].tests, sources[i].count, NULL, NULL);
	return failed;
}
