/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small fuzzer for builds of gcc, which has no libFuzzer: it changes inputs at random, and keeps those that go a way that none before has gone. Ways
 * are pairs of blocks that come one after the other, with how often, as AFL counts them (https://lcamtuf.coredump.cx/afl/technical_details.txt, 1 and
 * 2); gcc's -fsanitize-coverage=trace-pc calls for each block (preset fuzz-gcc). In a build without that nothing is kept but what it was given.
 *
 * Several processes share a folder: each looks there now and then for what others have kept. Each runs one input at a time, and ends a process that takes a minute for one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mutate.h"
#include "replay.h"

#define WAYS 65536u
#define INPUT_MAX 65536u
#define SLOW_S 60u
#define RELOAD_S 20
#define PATH_BYTES 4096

/* ------------------------------------------------------------------------------------------------------------- ways */

static uint8_t ways[WAYS], seen[WAYS]; /* of this input; of all, a bit for each class of counts */
static bool recording;
static uint64_t before;

#ifdef __clang__
#define UNTRACED __attribute__((no_sanitize("address", "undefined", "coverage")))
#else
#define UNTRACED __attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage))
#endif

void __sanitizer_cov_trace_pc(void);
UNTRACED void __sanitizer_cov_trace_pc(void)
{
	if (!recording)
		return;
	const uint64_t here = ((uint64_t)(uintptr_t)__builtin_return_address(0) * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
	uint8_t *const count = &ways[(here ^ before) % WAYS];

	*count = (uint8_t)(*count + (*count < 255));
	before = here >> 1;
}

static uint8_t class_of(uint8_t count)
{
	return count < 4   ? (uint8_t)(1u << (count - 1)) :
	       count < 8   ? 8 :
	       count < 16  ? 16 :
	       count < 32  ? 32 :
	       count < 128 ? 64 :
			     128;
}

/* Runs it; true when it went a new way. */
static bool run(const uint8_t *data, size_t bytes)
{
	bool fresh = false;

	memset(ways, 0, sizeof(ways));
	before = 0;
	alarm(SLOW_S);
	recording = true;
	replay_exactly(data, bytes);
	recording = false;
	for (size_t i = 0; i < WAYS; i += 8) {
		uint64_t eight;

		memcpy(&eight, &ways[i], sizeof(eight));
		for (size_t k = i; eight != 0 && k < i + 8; k++) {
			const uint8_t class = ways[k] == 0 ? 0 : class_of(ways[k]);

			fresh = fresh || (class & ~seen[k]) != 0;
			seen[k] |= class;
		}
	}
	return fresh;
}

/* ----------------------------------------------------------------------------------------------------------- inputs */

struct input {
	uint8_t *data;
	size_t bytes;
};

struct mutating {
	const struct mutate_options *options;
	struct input *inputs;
	size_t count, room;
	uint64_t *names; /* of inputs that are known, by hash; 0: free */
	size_t names_count, names_room;
	uint64_t random;
	uint8_t *current; /* the file of that name: bytes (u32), then the input */
	uint64_t runs;
};

static uint64_t next_random(struct mutating *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static size_t below(struct mutating *m, size_t n)
{
	return n == 0 ? 0 : (size_t)(next_random(m) % n);
}

static void *must(void *memory)
{
	if (memory == NULL) {
		perror("memory");
		exit(1);
	}
	return memory;
}

/* FNV-1a. */
static uint64_t name_of(const uint8_t *data, size_t bytes)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
	return hash == 0 ? 1 : hash;
}

static size_t row_of(const struct mutating *m, uint64_t name)
{
	size_t row = name % m->names_room;

	while (m->names[row] != 0 && m->names[row] != name)
		row = (row + 1) % m->names_room;
	return row;
}

/* True: it was not known before. */
static bool note_name(struct mutating *m, uint64_t name)
{
	if (2 * m->names_count >= m->names_room) {
		uint64_t *const old = m->names;
		const size_t old_room = m->names_room;

		m->names_room = old_room == 0 ? 1024 : 2 * old_room;
		m->names = (uint64_t *)must(calloc(m->names_room, sizeof(*m->names)));
		for (size_t i = 0; i < old_room; i++)
			if (old[i] != 0)
				m->names[row_of(m, old[i])] = old[i];
		free(old);
	}
	const size_t row = row_of(m, name);
	if (m->names[row] == name)
		return false;
	m->names[row] = name;
	m->names_count++;
	return true;
}

static void keep(struct mutating *m, const uint8_t *data, size_t bytes)
{
	if (m->count == m->room) {
		m->room = m->room == 0 ? 256 : 2 * m->room;
		m->inputs = (struct input *)must(realloc(m->inputs, m->room * sizeof(*m->inputs)));
	}
	struct input *const input = &m->inputs[m->count++];
	input->data = (uint8_t *)must(malloc(bytes + 1));
	input->bytes = bytes;
	memcpy(input->data, data, bytes);
}

/* Under a name that is there when all of it is. */
static void publish(const struct mutating *m, const uint8_t *data, size_t bytes, uint64_t name)
{
	char path[PATH_BYTES], whole[PATH_BYTES];

	if (m->options->corpus == NULL)
		return;
	snprintf(path, sizeof(path), "%s/.%016" PRIx64 ".%d", m->options->corpus, name, (int)getpid());
	snprintf(whole, sizeof(whole), "%s/%016" PRIx64, m->options->corpus, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd) != 0 || rename(path, whole) != 0) {
		perror(path);
		exit(1);
	}
}

/* Runs one, and keeps it where it is worth it. `always`: it was given. */
static void try_input(struct mutating *m, const uint8_t *data, size_t bytes, bool always)
{
	const uint32_t noted = (uint32_t)bytes;

	if (m->current != NULL) {
		memcpy(m->current + sizeof(noted), data, bytes);
		memcpy(m->current, &noted, sizeof(noted));
	}
	m->runs++;
	const bool fresh = run(data, bytes);
	if (!fresh && !always)
		return;
	const uint64_t name = name_of(data, bytes);
	if (!note_name(m, name))
		return;
	keep(m, data, bytes);
	if (fresh)
		publish(m, data, bytes, name);
}

static void take_file(struct mutating *m, const char *path)
{
	static uint8_t data[INPUT_MAX];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t bytes = fd < 0 ? -1 : read(fd, data, m->options->bytes_max);

	if (bytes < 0 && errno != ENOENT) { /* others remove what they were writing */
		perror(path);
		exit(1);
	}
	if (fd >= 0)
		close(fd);
	if (bytes >= 0)
		try_input(m, data, (size_t)bytes, true);
}

/* Of the folder that all share those whose names are not known yet. */
static void take_folder(struct mutating *m, const char *path, bool shared)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	char name[PATH_BYTES];

	if (folder == NULL) {
		perror(path);
		exit(1);
	}
	while ((entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (shared && m->names_room > 0) {
			const uint64_t hash = strtoull(entry->d_name, NULL, 16);

			if (hash != 0 && m->names[row_of(m, hash)] == hash)
				continue;
		}
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		take_file(m, name);
	}
	closedir(folder);
}

static void take(struct mutating *m, const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		take_folder(m, path, false);
	else
		take_file(m, path);
}

/* ---------------------------------------------------------------------------------------------------------- changes */

static void put_number(struct mutating *m, uint8_t *data, size_t bytes)
{
	static const uint64_t liked[] = {0,	1,	  2,	     7,		 16,	    32,	       64,
					 127,	128,	  255,	     256,	 4095,	    4096,      65535,
					 65536, 1u << 20, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
	const size_t width = (size_t)1 << below(m, 4);
	uint64_t number = liked[below(m, sizeof(liked) / sizeof(*liked))];

	if (width > bytes)
		return;
	const size_t at = below(m, bytes - width + 1);
	if (below(m, 2) == 0) { /* near what was there */
		memcpy(&number, data + at, width);
		number += below(m, 33) - 16;
	}
	memcpy(data + at, &number, width);
}

/* A stretch of `from` over one of `data`, or between two of its bytes. */
static size_t put_stretch(struct mutating *m, uint8_t *data, size_t bytes, size_t room, const uint8_t *from,
			  size_t from_bytes)
{
	if (from_bytes == 0)
		return bytes;
	const size_t at = below(m, bytes + 1), first = below(m, from_bytes);
	size_t part = 1 + below(m, below(m, 4) == 0 ? from_bytes - first : 1 + (from_bytes - first) / 8);
	uint8_t copy[INPUT_MAX];

	part = part > from_bytes - first ? from_bytes - first : part;
	if (below(m, 2) == 0) {
		part = part > bytes - at ? bytes - at : part;
		memcpy(copy, from + first, part);
		memcpy(data + at, copy, part);
		return bytes;
	}
	part = part > room - bytes ? room - bytes : part;
	memcpy(copy, from + first, part);
	memmove(data + at + part, data + at, bytes - at);
	memcpy(data + at, copy, part);
	return bytes + part;
}

static size_t cut_out(struct mutating *m, uint8_t *data, size_t bytes)
{
	if (bytes < 2)
		return bytes;
	const size_t part = 1 + below(m, below(m, 4) == 0 ? bytes - 1 : 1 + bytes / 16);
	const size_t at = below(m, bytes - part + 1);

	memmove(data + at, data + at + part, bytes - at - part);
	return bytes - part;
}

static size_t change(struct mutating *m, uint8_t *data, size_t bytes, size_t room)
{
	const struct input *other = m->count == 0 ? NULL : &m->inputs[below(m, m->count)];

	switch (below(m, 8)) {
	case 0:
		if (bytes > 0)
			data[below(m, bytes)] ^= (uint8_t)(1u << below(m, 8));
		return bytes;
	case 1:
	case 2:
		put_number(m, data, bytes);
		return bytes;
	case 3:
		if (bytes > 0)
			data[below(m, bytes)] = (uint8_t)next_random(m);
		return bytes;
	case 4:
		return cut_out(m, data, bytes);
	case 5:
		return put_stretch(m, data, bytes, room, data, bytes);
	case 6:
		if (bytes < room)
			data[bytes++] = (uint8_t)next_random(m);
		return bytes;
	default:
		return other == NULL ? bytes : put_stretch(m, data, bytes, room, other->data, other->bytes);
	}
}

/* Targets that make their own changes may call it, as libFuzzer's. */
static struct mutating *mutating;

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
	return mutating == NULL ? size : change(mutating, data, size, room);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed) __attribute__((weak));

static void mutate_one(struct mutating *m)
{
	static uint8_t data[INPUT_MAX];
	/* newer ones more often */
	const size_t from = below(m, 2) == 0 ? below(m, m->count) : m->count - 1 - below(m, 1 + m->count / 8);
	size_t bytes = m->inputs[from].bytes;

	memcpy(data, m->inputs[from].data, bytes);
	for (size_t left = (size_t)1 << below(m, 5); left > 0; left--)
		bytes = LLVMFuzzerCustomMutator != NULL ? LLVMFuzzerCustomMutator(data, bytes, m->options->bytes_max,
										  (unsigned int)next_random(m)) :
							  change(m, data, bytes, m->options->bytes_max);
	try_input(m, data, bytes, false);
}

/* --------------------------------------------------------------------------------------------------------- together */

/* Not by clock_gettime(), which may be the target's own. */
static uint64_t now_s(void)
{
	return (uint64_t)time(NULL);
}

static int map_current(struct mutating *m)
{
	const size_t bytes = sizeof(uint32_t) + m->options->bytes_max;
	const int fd = open(m->options->current, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0) {
		void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		m->current = memory == MAP_FAILED ? NULL : (uint8_t *)memory;
	}
	if (m->current == NULL)
		perror(m->options->current);
	if (fd >= 0)
		close(fd);
	return m->current == NULL ? 1 : 0;
}

int mutate_run(const struct mutate_options *options, char **inputs, int count)
{
	struct mutating m = {.options = options, .random = options->seed * UINT64_C(0x9e3779b97f4a7c15) + 1};

	if (options->bytes_max == 0 || options->bytes_max > INPUT_MAX) {
		fprintf(stderr, "inputs have 1 to %u bytes\n", INPUT_MAX);
		return 1;
	}
	if (options->current != NULL && map_current(&m) != 0)
		return 1;
	mutating = &m;
	for (int i = 0; i < count; i++)
		take(&m, inputs[i]);
	if (m.count == 0)
		try_input(&m, (const uint8_t *)"", 0, true);
	const uint64_t begin = now_s();
	uint64_t reload = begin;
	for (uint64_t now = begin; now < begin + options->seconds; now = now_s()) {
		if (options->corpus != NULL && now >= reload) {
			take_folder(&m, options->corpus, true);
			reload = now + RELOAD_S;
		}
		for (int i = 0; i < 16; i++)
			mutate_one(&m);
	}
	alarm(0);
	size_t reached = 0;
	for (size_t i = 0; i < WAYS; i++)
		reached += seen[i] != 0;
	printf("inputs: %" PRIu64 ", kept: %zu, ways: %zu\n", m.runs, m.count, reached);
	for (size_t i = 0; i < m.count; i++)
		free(m.inputs[i].data);
	free(m.inputs);
	free(m.names);
	mutating = NULL;
	if (options->current != NULL)
		unlink(options->current);
	return 0;
}
