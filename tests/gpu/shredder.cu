/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shredder's CUDA engine against the CPU's reference: the same chunks with the same fingerprints and digests for every
 * algorithm, parameter, kind of data and way to deliver it, by one GPU, by several, and by what is left when one fails. A
 * machine with one GPU takes it for several: the same one is named twice. Run on a machine with a GPU:
 *	shredder [MiB of each input [how many of the rules [from which on]]]
 * With some of the rules only, no GPU is made to fail.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "chunk/cuda/cuda_engine.h"
#include "gpu/shredder_host.h"

#define BUFFERS 5u

static uint32_t failures, checks;

static void need(cudaError_t error, const char *what)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
		exit(2);
	}
}

struct scene {
	const char *rule_name, *data_name;
	shredder_rule rule;
	const std::vector<uint8_t> *data;
	uint64_t bytes;
	uint64_t buffer_bytes;
	bool in_place, digests;
	uint32_t misaligned; /* of data in the GPU's memory */
	std::vector<uint32_t> gpus;
};

/* Lists of GPUs, all that this machine can be asked for. */
static std::vector<std::vector<uint32_t>> gpu_lists = {{0}, {0, 0}, {0, 0, 0}};

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fail(const scene &s, const char *what, uint64_t index)
{
	failures++;
	printf("FAILED: %s, %s, %llu bytes, buffers of %llu%s, %zu GPUs: %s %llu\n", s.rule_name, s.data_name,
	       (unsigned long long)s.bytes, (unsigned long long)s.buffer_bytes, s.in_place ? ", in place" : "",
	       s.gpus.size(), what, (unsigned long long)index);
}

static bool collect(const scene &s, shredder_device *device, shredder_batch *batch, std::vector<shredder_end> *chunks)
{
	std::vector<shredder_end> ends(500);

	do {
		batch->ends = ends.data();
		batch->room = ends.size();
		if (shredder_device_cuda.collect(device, batch) != 0) {
			fail(s, "collect() of chunk", chunks->size());
			return false;
		}
		chunks->insert(chunks->end(), ends.begin(), ends.begin() + (ptrdiff_t)batch->count);
	} while (batch->more);
	return true;
}

static uint32_t working_gpus(shredder_device *device)
{
	const char *trouble;
	uint32_t number;
	uint32_t working = 0;

	for (uint32_t i = 0; shredder_device_cuda.gpu(device, i, &number, &trouble); i++)
		working += trouble == NULL;
	return working;
}

/* A batch that CUDA refuses makes its GPU fail, if that is not the last one. */
static void lose_gpu(const scene &s, shredder_device *device, uint64_t position)
{
	uint32_t before = working_gpus(device);
	shredder_batch bad = {};

	if (before < 2)
		return;
	bad.position = position;
	bad.bytes = s.buffer_bytes;
	if (shredder_device_cuda.submit(device, &bad) == 0)
		fail(s, "submit() of nothing for batch", position / s.buffer_bytes);
	if (working_gpus(device) != before - 1)
		fail(s, "number of GPUs after an error", working_gpus(device));
}

/* Drops what is under way, and goes on behind `collected` batches as the pipeline does after an error. */
static void restart(const scene &s, shredder_device *device, const uint8_t *data, uint64_t collected,
		    const std::vector<shredder_end> &chunks)
{
	shredder_restart at = {};

	lose_gpu(s, device, collected * s.buffer_bytes);
	at.position = collected * s.buffer_bytes;
	at.open = chunks.empty() ? 0 : chunks.back().end;
	at.before_bytes = g4_max64(at.position - g4_min64(at.open, at.position), g4_min64(at.position, 48));
	at.before = s.in_place ? NULL : data + at.position - at.before_bytes;
	if (s.in_place)
		at.before_bytes = 0;
	if (shredder_device_cuda.restart(device, &at) != 0)
		fail(s, "restart() at batch", collected);
}

/* All batches through a ring of BUFFERS, with as many under way as fit; a restart in front of the one with that number. */
static bool chunk_stream(const scene &s, shredder_device *device, const uint8_t *data, uint64_t restart_at,
			 std::vector<shredder_end> *chunks)
{
	shredder_batch batches[BUFFERS] = {};
	uint64_t submitted = 0;
	uint64_t collected = 0;
	uint64_t total = s.bytes / s.buffer_bytes + 1;

	while (collected < total) {
		if (submitted < total && submitted - collected < BUFFERS) {
			shredder_batch *batch = &batches[submitted % BUFFERS];
			uint64_t at = submitted * s.buffer_bytes;

			batch->slot = (uint32_t)(submitted % BUFFERS);
			batch->data = data + at;
			batch->position = at;
			batch->bytes = g4_min64(s.buffer_bytes, s.bytes - at);
			batch->last = submitted + 1 == total;
			if (shredder_device_cuda.submit(device, batch) != 0) {
				fail(s, "submit() of batch", submitted);
				return false;
			}
			submitted++;
		} else {
			if (!collect(s, device, &batches[collected % BUFFERS], chunks))
				return false;
			collected++;
			if (collected == restart_at && collected < total) {
				restart(s, device, data, collected, *chunks);
				submitted = collected;
			}
		}
	}
	return true;
}

/* Starts a stream that nobody collects, and drops it. */
static void abandon_stream(const scene &s, shredder_device *device, const uint8_t *data)
{
	shredder_batch batches[2] = {};

	for (uint32_t i = 0; i < 2; i++) {
		batches[i].slot = i;
		batches[i].data = data + i * s.buffer_bytes;
		batches[i].position = i * s.buffer_bytes;
		batches[i].bytes = s.buffer_bytes;
		if (shredder_device_cuda.submit(device, &batches[i]) != 0)
			fail(s, "submit() of abandoned batch", i);
	}
	if (shredder_device_cuda.restart(device, NULL) != 0)
		fail(s, "restart() with batches under way", 2);
}

static void compare(const scene &s, const std::vector<shredder_end> &chunks, const shredder_end *wanted, uint64_t count)
{
	if (chunks.size() != count)
		fail(s, "number of chunks", chunks.size());
	for (uint64_t i = 0; i < chunks.size() && i < count; i++) {
		const char *what = NULL;

		if (chunks[i].end != wanted[i].end)
			what = "end of chunk";
		else if (chunks[i].fingerprint != wanted[i].fingerprint)
			what = "fingerprint of chunk";
		else if (chunks[i].cut != wanted[i].cut)
			what = "reason of chunk";
		else if (chunks[i].has_digest != (uint32_t)s.digests)
			what = "presence of the digest of chunk";
		else if (s.digests && memcmp(chunks[i].digest, wanted[i].digest, sizeof(wanted[i].digest)) != 0)
			what = "digest of chunk";
		if (what) {
			fail(s, what, i);
			return;
		}
	}
}

static void check_chunks(const scene &s, const shredder_end *wanted, uint64_t count)
{
	shredder_device_setup setup = {&s.rule,	      s.buffer_bytes,	       BUFFERS, true, s.digests,
				       s.gpus.data(), (uint32_t)s.gpus.size(), 0};
	std::vector<shredder_end> chunks;
	shredder_device *device = NULL;
	uint8_t *memory = NULL;
	const char *why = "";

	checks++;
	if (shredder_device_cuda.open(&setup, &device, &why) != 0) {
		fail(s, why, 0);
		return;
	}
	if (s.in_place) {
		need(cudaMalloc((void **)&memory, s.bytes + s.misaligned), "cudaMalloc");
		need(cudaMemcpy(memory + s.misaligned, s.data->data(), s.bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
	}
	/* Three times: a stream leaves nothing to the next, and in the third a GPU fails if there is another one. */
	for (int round = 0; round < 3; round++) {
		const uint8_t *data = s.in_place ? memory + s.misaligned : s.data->data();

		chunks.clear();
		if (shredder_device_cuda.restart(device, NULL) != 0)
			fail(s, "restart() in round", (uint64_t)round);
		if (s.bytes >= 2 * s.buffer_bytes)
			abandon_stream(s, device, data);
		if (!chunk_stream(s, device, data, round == 2 ? 1 + next_random() % 4 : UINT64_MAX, &chunks))
			break;
		compare(s, chunks, wanted, count);
	}
	shredder_device_cuda.close(device);
	need(cudaFree(memory), "cudaFree");
}

static void check_marks(const scene &s)
{
	shredder_device_setup setup = {&s.rule,	      s.buffer_bytes,	       BUFFERS, false, false,
				       s.gpus.data(), (uint32_t)s.gpus.size(), 0};
	std::vector<uint64_t> wanted(shredder_mark_words(s.bytes) + 1);
	std::vector<uint64_t> marks(shredder_mark_words(s.bytes) + 1);
	shredder_device *device = NULL;
	const char *why = "";

	checks++;
	reference_marks(&s.rule, s.data->data(), s.bytes, wanted.data());
	if (shredder_device_cuda.open(&setup, &device, &why) != 0) {
		fail(s, why, 0);
		return;
	}
	for (uint64_t at = 0; at < s.bytes; at += s.buffer_bytes) {
		shredder_batch batch = {};

		batch.data = s.data->data() + at;
		batch.position = at;
		batch.bytes = g4_min64(s.buffer_bytes, s.bytes - at);
		batch.last = at + batch.bytes == s.bytes;
		batch.marks = marks.data() + at / 64;
		if (shredder_device_cuda.submit(device, &batch) != 0 ||
		    shredder_device_cuda.collect(device, &batch) != 0)
			fail(s, "marks of the batch at", at);
	}
	for (uint64_t i = 0; i < shredder_mark_words(s.bytes); i++) {
		if (marks[i] != wanted[i]) {
			fail(s, "word of marks", i);
			break;
		}
	}
	shredder_device_cuda.close(device);
}

/* ------------------------------------------------------------------------------------------- rules and data */

static uint64_t irreducible(uint32_t degree)
{
	for (;;) {
		uint64_t p = (UINT64_C(1) << degree) | (next_random() & ((UINT64_C(1) << degree) - 1));

		if (shredder_polynomial_is_irreducible(p))
			return p;
	}
}

struct named_rule {
	const char *name;
	shredder_params params;
};

static shredder_params params_of(uint32_t algorithm, uint32_t bits, uint64_t min, uint64_t max)
{
	shredder_params params = {};

	params.size = sizeof(params);
	params.algorithm = algorithm;
	params.mask_bits = bits;
	params.min_bytes = min;
	params.max_bytes = max;
	return params;
}

static std::vector<named_rule> make_rules(void)
{
	std::vector<named_rule> rules = {
		{"rabin", params_of(SHREDDER_RABIN, 0, 0, 0)},
		{"rabin without minimum", params_of(SHREDDER_RABIN, 13, SHREDDER_NONE, 32768)},
		{"rabin, long chunks", params_of(SHREDDER_RABIN, 16, 60000, 1000000)},
		{"rabin, narrow", params_of(SHREDDER_RABIN, 13, 8000, 8192)},
		{"rabin, fixed", params_of(SHREDDER_RABIN, 13, 5000, 5000)},
		{"rabin, dense candidates", params_of(SHREDDER_RABIN, 3, 700, 3000)},
		{"rabin, tiny chunks", params_of(SHREDDER_RABIN, 4, SHREDDER_NONE, 40)},
		{"rabin, marker zero", params_of(SHREDDER_RABIN, 10, 100, 20000)},
		{"gear", params_of(SHREDDER_GEAR, 0, 0, 0)},
		{"gear, dense candidates", params_of(SHREDDER_GEAR, 4, 64, 4096)},
		{"gear, no normalization", params_of(SHREDDER_GEAR, 12, 0, 0)},
	};

	rules[7].params.marker = SHREDDER_ZERO_MARKER;
	rules[10].params.normalization = SHREDDER_NO_NORMALIZATION;
	for (uint32_t degree : {16u, 23u, 31u, 33u, 53u, 63u}) {
		named_rule rule = {"rabin, another degree", params_of(SHREDDER_RABIN, 11, 0, 0)};

		rule.params.polynomial = irreducible(degree);
		rules.push_back(rule);
	}
	return rules;
}

/* ------------------------------------------------------------------------------------------- batches alone */

#define BORDERS_MOST 1024u

/* A batch of several streams, and what they are by themselves. */
struct load {
	uint64_t begin, bytes; /* in the data */
	std::vector<uint32_t> borders;
	std::vector<shredder_end> wanted;
};

static load make_load(const scene &s, uint64_t begin, uint64_t bytes, uint64_t longest)
{
	load l = {begin, bytes, {}, {}};
	uint64_t at = 0;

	while (at < bytes) {
		uint64_t length = l.borders.size() == BORDERS_MOST ? bytes : 1 + next_random() % longest;
		uint64_t end = g4_min64(at + length, bytes);
		shredder_end *chunks = NULL;
		uint64_t count = reference_chunks(&s.rule, s.data->data() + begin + at, end - at, &chunks);

		for (uint64_t i = 0; i < count; i++) {
			chunks[i].end += at;
			l.wanted.push_back(chunks[i]);
		}
		free(chunks);
		at = end;
		if (at < bytes)
			l.borders.push_back((uint32_t)at);
	}
	return l;
}

/* Fingerprints of windows that reach over a border are the stream's. */
static void forget_fingerprints(std::vector<shredder_end> *chunks)
{
	for (shredder_end &chunk : *chunks)
		chunk.fingerprint = 0;
}

/* Loads of streams of at most `longest` bytes, several under way; one may be declined where there are many candidates. */
static void check_alone(const scene &s, uint64_t longest, bool may_decline)
{
	uint32_t gpu = 0;
	shredder_device_setup setup = {&s.rule, s.buffer_bytes, BUFFERS, true, true, &gpu, 1, BORDERS_MOST};
	shredder_device *device = NULL;
	const char *why = "";
	std::vector<load> loads;

	checks++;
	if (shredder_device_cuda.open(&setup, &device, &why) != 0) {
		fail(s, why, 0);
		return;
	}
	for (uint64_t at = 0; at < s.data->size(); at += s.buffer_bytes)
		loads.push_back(
			make_load(s, at, g4_min64(s.buffer_bytes - next_random() % 3, s.data->size() - at), longest));
	shredder_batch batches[BUFFERS] = {};
	size_t submitted = 0;
	for (size_t collected = 0; collected < loads.size(); collected++) {
		for (; submitted < loads.size() && submitted - collected < BUFFERS; submitted++) {
			shredder_batch *batch = &batches[submitted % BUFFERS];
			load &l = loads[submitted];

			*batch = {};
			batch->slot = (uint32_t)(submitted % BUFFERS);
			batch->data = s.data->data() + l.begin;
			batch->bytes = l.bytes;
			batch->last = batch->alone = true;
			batch->borders = l.borders.data();
			batch->borders_count = (uint32_t)l.borders.size();
			if (shredder_device_cuda.submit(device, batch) != 0)
				fail(s, "submit() of load", submitted);
		}
		std::vector<shredder_end> chunks;
		if (!collect(s, device, &batches[collected % BUFFERS], &chunks))
			break;
		if (batches[collected % BUFFERS].declined) {
			if (!may_decline || !chunks.empty())
				fail(s, "declined load", collected);
			continue;
		}
		forget_fingerprints(&chunks);
		forget_fingerprints(&loads[collected].wanted);
		compare(s, chunks, loads[collected].wanted.data(), loads[collected].wanted.size());
	}
	shredder_device_cuda.close(device);
}

static void check_all_alone(const std::vector<uint8_t> &data, const char *name)
{
	static const struct {
		const char *name;
		uint32_t algorithm, bits;
		uint64_t min, max, polynomial;
		bool may_decline;
	} rules[] = {
		{"alone, a backup's", SHREDDER_RABIN, 18, 0, 0, 0, false},
		{"alone, secret", SHREDDER_RABIN, 18, 0, 0, 1, false},
		{"alone, small chunks", SHREDDER_RABIN, 11, 64, 9000, 0, true},
		{"alone, fixed", SHREDDER_RABIN, 13, 5000, 5000, 0, false},
		{"alone, gear", SHREDDER_GEAR, 13, 0, 0, 0, false},
		{"alone, dense", SHREDDER_RABIN, 3, 48, 200, 0, true},
	};

	for (const auto &rule : rules) {
		for (uint64_t longest : {100ull, 5000ull, 70000ull, 3000000ull}) {
			scene s = {rule.name, name, {}, &data, data.size(), 1 << 20, false, true, 0, {0}};
			shredder_params params = params_of(rule.algorithm, rule.bits, rule.min, rule.max);

			if (rule.polynomial)
				params.polynomial = irreducible(63);
			shredder_params_complete(&params);
			shredder_rule_init(&s.rule, &params);
			if (longest == 3000000)
				s.buffer_bytes = 8 << 20;
			check_alone(s, longest, rule.may_decline);
		}
	}
}

struct named_data {
	const char *name;
	std::vector<uint8_t> bytes;
};

static std::vector<named_data> make_data(uint64_t bytes)
{
	std::vector<named_data> data = {{"random", {}}, {"zeros", {}}, {"periodic", {}}, {"mixed", {}}};

	for (named_data &d : data)
		d.bytes.resize(bytes);
	for (uint64_t i = 0; i < bytes; i++) {
		uint8_t random = (uint8_t)(next_random() >> 32);

		data[0].bytes[i] = random;
		data[2].bytes[i] = (uint8_t)(i % 5003 * 37 >> 3);
		/* stretches of zeros between stretches of random bytes */
		data[3].bytes[i] = i / 150001 % 2 ? random : 0;
	}
	return data;
}

static void check_rule(const named_rule &rule, const named_data &data)
{
	static const uint64_t buffers[] = {4096, 65536, 1048576, 16777216};
	scene s = {rule.name, data.name, {}, &data.bytes, 0, 0, false, true, 0, {0}};
	shredder_params params = rule.params;

	if (shredder_params_complete(&params) != 0) {
		fail(s, "parameters", 0);
		return;
	}
	shredder_rule_init(&s.rule, &params);
	for (uint64_t buffer : buffers) {
		uint64_t most = g4_min64(data.bytes.size(), buffer * 40);

		s.bytes = most - next_random() % g4_min64(most, 5000);
		shredder_end *wanted = NULL;
		uint64_t count = reference_chunks(&s.rule, data.bytes.data(), s.bytes, &wanted);

		s.buffer_bytes = buffer;
		for (const std::vector<uint32_t> &gpus : gpu_lists) {
			s.gpus = gpus;
			s.digests = true;
			s.in_place = false;
			check_chunks(s, wanted, count);
			s.in_place = true;
			s.misaligned = buffer == 65536 ? 5 : 0;
			check_chunks(s, wanted, count);
			s.digests = false;
			check_chunks(s, wanted, count);
			s.in_place = false;
			check_chunks(s, wanted, count);
			check_marks(s);
		}
		free(wanted);
	}
}

static void check_edges(const named_data &data)
{
	scene s = {"rabin", "random", {}, &data.bytes, 0, 4096, false, true, 0, {0}};
	shredder_params params = params_of(SHREDDER_RABIN, 0, 0, 0);

	shredder_params_complete(&params);
	shredder_rule_init(&s.rule, &params);
	for (uint64_t bytes :
	     {0ull, 1ull, 15ull, 16ull, 47ull, 48ull, 1024ull, 4095ull, 4096ull, 4097ull, 8192ull, 70000ull}) {
		shredder_end *wanted = NULL;

		s.bytes = bytes;
		uint64_t count = reference_chunks(&s.rule, data.bytes.data(), bytes, &wanted);

		for (const std::vector<uint32_t> &gpus : gpu_lists) {
			s.gpus = gpus;
			s.digests = true;
			s.in_place = false;
			check_chunks(s, wanted, count);
			s.in_place = true;
			check_chunks(s, wanted, count);
			/* buffers of 4 KiB are large enough for several GPUs */
			s.digests = false;
			s.in_place = false;
			check_chunks(s, wanted, count);
		}
		free(wanted);
	}
}

/* ------------------------------------------------------------------------------------------- through the library */

/* Reads the data, and at `kill_at` makes a GPU fail for good. */
struct reader {
	const std::vector<uint8_t> *data;
	uint64_t at, kill_at;
	int victim;
};

static __global__ void trap_kernel(void)
{
	asm volatile("trap;");
}

static int64_t read_data(void *user, void *to, uint64_t bytes)
{
	reader *r = (reader *)user;
	uint64_t part = g4_min64(bytes, r->data->size() - r->at);

	if (r->kill_at && r->at >= r->kill_at) {
		r->kill_at = 0;
		need(cudaSetDevice(r->victim), "cudaSetDevice");
		trap_kernel<<<1, 1>>>();
	}
	memcpy(to, r->data->data() + r->at, part);
	r->at += part;
	return (int64_t)part;
}

static void check_library(const named_data &data, const std::vector<uint32_t> &gpus, uint64_t kill_at)
{
	scene s = {"default", data.name, {}, &data.bytes, data.bytes.size(), 1 << 18, false, true, 0, gpus};
	reader r = {&data.bytes, 0, kill_at, (int)gpus.back()};
	shredder_params params = params_of(SHREDDER_RABIN, 0, 0, 0);
	shredder_options options = {};
	std::vector<shredder_end> chunks;
	shredder_end *wanted = NULL;
	shredder_chunk chunk;
	shredder *library = NULL;
	int rc;

	checks++;
	shredder_params_complete(&params);
	shredder_rule_init(&s.rule, &params);
	uint64_t count = reference_chunks(&s.rule, data.bytes.data(), s.bytes, &wanted);
	options.size = sizeof(options);
	options.engine = "cuda";
	options.buffer_bytes = s.buffer_bytes;
	options.gpus = gpus.data();
	options.gpus_count = (uint32_t)gpus.size();
	if (shredder_open(&options, &library) != 0 || shredder_begin_reader(library, read_data, &r) != 0) {
		fail(s, "opening", 0);
		return;
	}
	while ((rc = shredder_next(library, &chunk)) == 1) {
		shredder_end end = {chunk.offset + chunk.length, chunk.fingerprint, chunk.cut, 1, {}};

		memcpy(end.digest, chunk.digest, sizeof(end.digest));
		chunks.push_back(end);
	}
	if (rc != 0)
		fail(s, shredder_last_message(library), 0);
	compare(s, chunks, wanted, count);
	shredder_stats stats;
	shredder_get_stats(library, &stats);
	printf("%u GPUs, engine %s%s%s:", stats.gpus, stats.engine, stats.fell_back ? ", " : "",
	       stats.fell_back ? stats.fell_back : "");
	for (uint32_t i = 0; i < stats.gpus; i++) {
		shredder_gpu_stats gpu;

		shredder_get_gpu_stats(library, i, &gpu);
		printf(" GPU %u %llu buffers%s", gpu.number, (unsigned long long)gpu.buffers,
		       gpu.failed ? " and failed" : "");
		if (!kill_at && gpu.buffers < s.bytes / s.buffer_bytes / stats.gpus)
			fail(s, "buffers of GPU", i);
		if (kill_at && gpu.number == gpus.back() && !gpu.failed)
			fail(s, "failure of GPU", i);
	}
	printf("\n");
	if ((stats.fell_back != NULL) != (kill_at != 0))
		fail(s, "whether it says that a GPU failed", 0);
	shredder_close(library);
	free(wanted);
}

int main(int argc, char **argv)
{
	uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 24) << 20;
	uint64_t most = argc > 2 ? strtoull(argv[2], NULL, 0) : UINT64_MAX;
	uint64_t skip = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	std::vector<named_data> data = make_data(bytes);
	int devices = 0;

	need(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	if (devices > 1)
		gpu_lists.push_back({0, 1});
	check_edges(data[0]);
	for (const named_data &d : data)
		check_all_alone(d.bytes, d.name);
	for (const named_rule &rule : make_rules()) {
		if (skip > 0) {
			skip--;
			continue;
		}
		if (most-- == 0)
			break;
		for (const named_data &d : data)
			check_rule(rule, d);
	}
	for (const std::vector<uint32_t> &gpus : gpu_lists)
		check_library(data[0], gpus, 0);
	/* the last one: GPUs are of no use to this process any more. A part of the rules is for tools that watch every CUDA call */
	if (argc <= 2)
		check_library(data[0], gpu_lists.back(), bytes / 3);
	printf("shredder on the GPU: %u checks, %u failures\n", checks, failures);
	return failures != 0;
}
