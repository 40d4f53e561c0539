/* SPDX-License-Identifier: Apache-2.0 */
/* The explorer's command line: which workloads, by whom, and the counts at the end. README.md has the design. */
#include <errno.h>
#include <getopt.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#define MAX_JOBS 64u
#define MAX_VIOLATIONS 10u /* of one job, which then stops */
#define COMBINATIONS (DEVICE_CLASSES * 36u * 2u)
#define MAX_MATCHES 16u
#define GROUP_MAX 8u /* workloads; groups are what processes share out */

struct options {
	enum engine engine;
	uint32_t sample; /* of all workloads; 0: all */
	double seconds;	 /* then no more are begun; 0: never */
	double start_s;
	bool thorough;
	uint64_t seed;
	uint32_t jobs, slice, slices;
	uint32_t
		per_pair; /* --long: syncs, ends and devices tried for each pair of operations; else pairs in a hundred */
	uint32_t singles; /* in a hundred of those of one operation */
	uint32_t mixes;	  /* of each kind */
	const char *workload, *record;
	const char *matches[MAX_MATCHES]; /* one of them in the names of all; none: any */
	uint32_t match_count;
	uint64_t state, inner;
	bool list, sets;
	uint32_t losses, moments, after, rot, singles_most;
	const char *drive; /* instead of memory; NULL: none */
	bool each;	   /* a line for each workload: what it cost */
	const char *keep;
};

#define SYNCS 6u
static const char *const syncs[SYNCS] = {"-", "fsync", "fdatasync", "syncfs", "fsyncdir", "other"};

/* ------------------------------------------------------------------ the list of workloads */

struct work {
	char **names;
	uint32_t count, room;
	uint32_t *group; /* workloads of one group share what is learnt about states */
	const struct options *options;
	uint32_t groups;
	uint32_t set; /* of what is added, in set_kinds */
};

static bool is_wanted(const struct options *o, const char *name)
{
	bool wanted = o->match_count == 0;

	for (uint32_t k = 0; k < o->match_count; k++)
		wanted = wanted || strstr(name, o->matches[k]);
	return wanted;
}

static void add(struct work *work, const char *name)
{
	struct workload *w = (struct workload *)malloc(sizeof(*w));

	if (work->count == work->room) {
		work->room = work->room ? 2 * work->room : 1024;
		work->names = (char **)realloc(work->names, work->room * sizeof(char *));
		work->group = (uint32_t *)realloc(work->group, work->room * sizeof(uint32_t));
	}
	if (!w || !work->names || !work->group)
		abort();
	if (is_wanted(work->options, name) && workload_parse(name, w) /* an fsync of what is gone is none */ &&
	    engine_takes(work->options->engine, w)) {
		if (work->count >= GROUP_MAX && work->group[work->count - GROUP_MAX] == work->groups)
			work->groups++;
		work->group[work->count] = work->groups;
		work->names[work->count++] = strdup(name);
	}
	free(w);
}

static const char *tree_name(const struct work *work, enum tree_kind tree)
{
	static char name[32];

	snprintf(name, sizeof(name), "%s%s%s", tree_names[tree], work->set > 0 ? "+" : "", set_kinds[work->set].name);
	return name;
}

/* The n-th of all ways to put devices, syncs and an end around two operations. Without a sync it ends with an unmount. */
static void add_combination(struct work *work, enum tree_kind tree, const char *first, const char *second, uint32_t n)
{
	uint32_t class_ = n % DEVICE_CLASSES, a = n / DEVICE_CLASSES % SYNCS, b = n / DEVICE_CLASSES / SYNCS % SYNCS;
	bool unmount = n / DEVICE_CLASSES / (SYNCS * SYNCS) % 2;
	char name[96];

	if (!unmount && a == 0 && b == 0)
		return;
	snprintf(name, sizeof(name), "%s/%s/%s/%s/%s/%s/%s", class_names[class_], tree_name(work, tree), first,
		 syncs[a], second, syncs[b], unmount ? "unmount" : "crash");
	add(work, name);
}

static void add_singles(struct work *work, const struct options *o, enum tree_kind tree, const char *operation)
{
	for (uint32_t n = 0; n < COMBINATIONS; n++) {
		uint64_t dice = hash_bytes(operation, strlen(operation), o->seed + n);
		if (n / DEVICE_CLASSES / SYNCS % SYNCS == 0 && dice % 100 < o->singles)
			add_combination(work, tree, operation, "-", n);
	}
}

static void add_pairs(struct work *work, const struct options *o, enum tree_kind tree, const char *operation,
		      uint32_t times)
{
	for (uint32_t k = 0; k < operation_count && times > 0; k++) {
		uint64_t start = hash_bytes(operation, strlen(operation), o->seed * 1000 + tree * 100 + k);
		if (operation_is_of_disks(&operations[k]))
			continue;
		if (!o->thorough && start / COMBINATIONS % 100 >= o->per_pair)
			continue; /* the short run takes a share of the pairs */
		for (uint32_t n = 0; n < times; n++)
			add_combination(work, tree, operation, operations[k].name,
					(uint32_t)((start + n * 67) % COMBINATIONS));
	}
}

/* What a mount writes and the first transactions behind it, without a flush between. On one kind of device each, by the operation. */
static void add_mounted(struct work *work, const struct options *o, enum tree_kind tree, const char *operation)
{
	const uint64_t dice = hash_bytes(operation, strlen(operation), o->seed + tree);
	char name[96];

	if (tree == DUE || tree == FULL || (tree != SMALL && !o->thorough))
		return;
	snprintf(name, sizeof(name), "%s/%s/mount/%s/%s/%s", class_names[dice % DEVICE_CLASSES], tree_name(work, tree),
		 operation, dice / 4 % 2 ? "syncfs" : "other", dice / 8 % 2 ? "unmount" : "crash");
	add(work, name);
}

static void add_mixes(struct work *work, const struct options *o, enum tree_kind tree, uint32_t threads)
{
	char name[96];

	for (uint32_t n = 0; n < o->mixes; n++) {
		snprintf(name, sizeof(name), "%s/%s/mix/%u/%u/%lu/%s", class_names[n % DEVICE_CLASSES],
			 tree_name(work, tree), threads, threads == 1 ? 24 : 14,
			 (unsigned long)(o->seed * 1000000 + n * 10 + threads),
			 n / DEVICE_CLASSES % 2 ? "unmount" : "crash");
		add(work, name);
	}
	work->groups++;
}

/* Several threads write beside what an operation orders. */
static void add_mixed_orders(struct work *work, const struct options *o, const char *operation)
{
	char name[96];

	for (uint32_t n = 0; n < o->mixes; n++) {
		snprintf(name, sizeof(name), "%s/%s/mix-%s/%u/14/%lu/%s", class_names[n % DEVICE_CLASSES],
			 tree_name(work, SMALL), operation, 1 + n / 2 % 3, (unsigned long)(o->seed * 1000 + n),
			 n / DEVICE_CLASSES % 2 ? "unmount" : "crash");
		add(work, name);
	}
}

static void free_work(struct work *work)
{
	for (uint32_t k = 0; k < work->count; k++)
		free(work->names[k]);
	free(work->names);
	free(work->group);
}

static void list_workloads(struct work *work, const struct options *o)
{
	operations_check();
	char name[96];

	for (uint32_t class_ = 0; class_ < DEVICE_CLASSES; class_++)
		for (uint32_t tree = 0; tree < TREE_KINDS; tree++) {
			snprintf(name, sizeof(name), "%s/%s/mount/unmount", class_names[class_], tree_names[tree]);
			if (tree != DUE && tree != FULL) /* what makes these is done when the record begins */
				add(work, name);
		}
	work->groups++;
	for (uint32_t tree = TREE_KINDS; tree-- > 0;) /* what takes longest first, so that no process ends late */
		for (uint32_t k = 0; k < operation_count; k++) {
			if (!operation_is_for(&operations[k], (enum tree_kind)tree)) /* others would take longer */
				continue;
			add_singles(work, o, (enum tree_kind)tree, operations[k].name);
			add_mounted(work, o, (enum tree_kind)tree, operations[k].name);
			if (tree == SMALL)
				add_pairs(work, o, SMALL, operations[k].name, o->thorough ? o->per_pair : 1);
			else
				add_pairs(work, o, (enum tree_kind)tree, operations[k].name, o->thorough ? 1 : 0);
			work->groups++;
		}
	for (uint32_t tree = 0; tree < LARGE; tree++)
		for (uint32_t threads = 1; threads <= 3; threads++)
			add_mixes(work, o, (enum tree_kind)tree, threads);
}

/*
 * The same on sets of disks: of each kind in turn those of one operation, from another operation on with each seed, so that what is done
 * when time runs out is of all kinds.
 */
static void list_sets(struct work *work, const struct options *o)
{
	static const enum tree_kind trees[] = {SMALL, DUE};

	operations_check();
	for (uint32_t k = 0; k < operation_count; k++)
		for (uint32_t t = 0; t < 2; t++)
			for (work->set = 1; work->set < SET_KINDS; work->set++) {
				const struct operation *operation = &operations[(k + o->seed) % operation_count];
				if (!set_can(&set_kinds[work->set], operation, trees[t]))
					continue;
				add_singles(work, o, trees[t], operation->name);
				add_mounted(work, o, trees[t], operation->name);
				if (o->thorough)
					add_pairs(work, o, trees[t], operation->name, 1);
				if (operation_is_of_disks(operation) && t == 0)
					add_mixed_orders(work, o, operation->name);
				if (k < 3 && t == 0)
					add_mixes(work, o, SMALL, 1 + k);
				work->groups++;
			}
	work->set = 0;
}

/* So many of them, by the seed, and in no order: where time runs out, what was done is a sample, too. */
static void take_sample(struct work *work, const struct options *o)
{
	uint64_t random = o->seed;

	for (uint32_t k = 0; k < work->count && k < o->sample; k++) {
		uint32_t other = k + (uint32_t)(rig_random(&random) % (work->count - k));
		char *name = work->names[k];
		work->names[k] = work->names[other];
		work->names[other] = name;
		work->group[k] = k;
	}
	while (work->count > o->sample)
		free(work->names[--work->count]);
}

/* ------------------------------------------------------------------ doing them */

static double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double now_s(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

static double end_s;

static bool is_late(void)
{
	return now_s() > end_s;
}

static void set_up(struct lab *lab, const struct options *o, struct counts *counts)
{
	lab_open(lab, counts, o->engine, o->drive);
	lab->seed = o->seed;
	lab->exhaustive = o->thorough ? 8 : 5;
	lab->samples = o->thorough ? 8 : 4;
	lab->singles = o->singles_most;
	lab->tears = o->thorough ? 32 : 6;
	lab->losses = o->losses;
	lab->rot = o->rot ? o->rot : o->thorough ? 8 : 32;
	lab->after = o->after;
	lab->moments = o->moments ? o->moments : o->thorough ? 0 : 24;
	end_s = o->seconds > 0 ? o->start_s + o->seconds : 0;
	lab->is_late = o->seconds > 0 ? is_late : NULL;
	lab->only_state = o->state;
	lab->only_inner = o->inner;
	lab->trace_path = o->keep;
}

/* Explores it and says, if that is wanted, what it cost: states, distinct ones, seconds of processor time. */
static void do_one(struct lab *lab, struct workload *w, const struct options *o)
{
	const struct counts before = *lab->counts;
	const double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

	explore(lab, w);
	if (!o->each)
		return;
	printf("%s %lu %lu %.3f\n", w->name, (unsigned long)(lab->counts->states - before.states),
	       (unsigned long)(lab->counts->distinct - before.distinct), seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start);
	fflush(stdout);
}

/* Does groups of the slice, always the next one that no other process has taken, until none is left. */
static void do_share(const struct work *work, const struct options *o, _Atomic uint32_t *taken, struct counts *counts)
{
	struct lab *lab = (struct lab *)malloc(sizeof(*lab));
	struct workload *w = (struct workload *)malloc(sizeof(*w));
	uint32_t group = UINT32_MAX, mine = atomic_fetch_add(taken, 1);

	if (!lab || !w)
		abort();
	set_up(lab, o, counts);
	for (uint32_t k = 0; k < work->count && counts->violations < MAX_VIOLATIONS; k++) {
		if (work->group[k] % o->slices != o->slice)
			continue;
		while (mine < work->group[k] / o->slices)
			mine = atomic_fetch_add(taken, 1);
		if (mine > work->group[k] / o->slices)
			continue;
		if (o->seconds > 0 && now_s() - o->start_s > o->seconds)
			break;
		workload_parse(work->names[k], w);
		if (work->group[k] != group || w->tree != (enum tree_kind)lab->tree || w->set != lab->kind)
			lab_load(lab, w->set, w->tree);
		group = work->group[k];
		do_one(lab, w, o);
		workload_free(w);
	}
	free(w);
	lab_close(lab);
	free(lab);
}

static void add_up(struct counts *sum, const struct counts *part)
{
	const uint64_t *from = (const uint64_t *)part;
	uint64_t *to = (uint64_t *)sum;

	for (size_t k = 0; k < sizeof(*sum) / sizeof(uint64_t); k++)
		to[k] += from[k];
}

static bool do_all(const struct work *work, const struct options *o, struct counts *sum)
{
	struct shared {
		struct counts counts[MAX_JOBS];
		_Atomic uint32_t taken; /* groups of the slice */
	} *shared =
		(struct shared *)mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t children[MAX_JOBS];
	bool good = shared != MAP_FAILED;

	fflush(stdout);
	for (uint32_t job = 0; good && job < o->jobs; job++) {
		children[job] = fork();
		if (children[job] == 0) {
			do_share(work, o, &shared->taken, &shared->counts[job]);
			fflush(stdout);
			_exit(0);
		}
		good = children[job] > 0;
	}
	for (uint32_t job = 0; good && job < o->jobs; job++) {
		int status;
		while (waitpid(children[job], &status, 0) < 0)
			if (errno != EINTR)
				abort();
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			printf("job %u ended with status %x\n", job, (unsigned)status);
			good = false;
		}
		add_up(sum, &shared->counts[job]);
	}
	return good;
}

/* ------------------------------------------------------------------ the command */

static const char usage[] =
	"usage: crash [--engine cpu|remote|cuda|nvme|lanes|direct] [--sample N] [--seconds S] [--long] [--seed N] [--jobs N] [--slice I/N]\n"
	"             [--per-pair N] [--mixes N] [--match TEXT]... [--keep FOLDER] [--each] [--list]\n"
	"             [--sets: workloads of sets of disks] [--losses N: of lost disks so many combinations at each state]\n"
	"             [--rot N: at one crash state in so many disks rot]\n"
	"             [--moments N: of a record on a set so many]\n"
	"             [--alone N: of writes that may be lost so many are looked at alone at a moment]\n"
	"             [--after N: of so many distinct states of a set one lives on, an eighth of that where disks come and go; 0: none]\n"
	"             [--drive DEVICE, of which the first 8 MiB are overwritten]\n"
	"       crash --workload NAME [--engine ENGINE] [--long] [--seed N] [--state N [--inner N]]\n"
	"       crash --record FILE [--engine ENGINE] [--long] [--seed N] [--state N [--inner N]]\n";

static enum engine find_engine(const char *name)
{
	uint32_t engine = 0;

	while (engine < ENGINES && strcmp(name, engine_names[engine]) != 0)
		engine++;
	return (enum engine)engine;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option long_options[] = {
		{"engine", required_argument, NULL, 'e'},
		{"sample", required_argument, NULL, 'a'},
		{"seconds", required_argument, NULL, 't'},
		{"long", no_argument, NULL, 'l'},
		{"seed", required_argument, NULL, 's'},
		{"jobs", required_argument, NULL, 'j'},
		{"slice", required_argument, NULL, 'i'},
		{"per-pair", required_argument, NULL, 'p'},
		{"mixes", required_argument, NULL, 'm'},
		{"keep", required_argument, NULL, 'k'},
		{"list", no_argument, NULL, 'L'},
		{"each", no_argument, NULL, 'E'},
		{"workload", required_argument, NULL, 'w'},
		{"state", required_argument, NULL, 'n'},
		{"inner", required_argument, NULL, 'I'},
		{"record", required_argument, NULL, 'r'},
		{"match", required_argument, NULL, 'M'},
		{"drive", required_argument, NULL, 'd'},
		{"sets", no_argument, NULL, 'S'},
		{"losses", required_argument, NULL, 'o'},
		{"rot", required_argument, NULL, 'b'},
		{"moments", required_argument, NULL, 'O'},
		{"after", required_argument, NULL, 'A'},
		{"alone", required_argument, NULL, '1'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct options){.seed = 1,
			      .slices = 1,
			      .state = UINT64_MAX,
			      .inner = UINT64_MAX,
			      .keep = "",
			      .after = 128,
			      .singles_most = 64};
	o->start_s = now_s();
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'e':
			o->engine = find_engine(optarg);
			break;
		case 'a':
			o->sample = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 't':
			o->seconds = strtod(optarg, NULL);
			break;
		case 'l':
			o->thorough = true;
			break;
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'j':
			o->jobs = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'i':
			if (sscanf(optarg, "%u/%u", &o->slice, &o->slices) != 2)
				o->slices = 0;
			o->slice--;
			break;
		case 'p':
			o->per_pair = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'm':
			o->mixes = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'k':
			o->keep = optarg;
			break;
		case 'd':
			o->drive = optarg;
			break;
		case 'S':
			o->sets = true;
			break;
		case 'O':
			o->moments = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'A':
			o->after = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case '1':
			o->singles_most = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'o':
			o->losses = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'b':
			o->rot = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'M':
			if (o->match_count == MAX_MATCHES) {
				fprintf(stderr, "crash: at most %u --match\n", MAX_MATCHES);
				exit(2);
			}
			o->matches[o->match_count++] = optarg;
			break;
		case 'L':
			o->list = true;
			break;
		case 'E':
			o->each = true;
			break;
		case 'w':
			o->workload = optarg;
			break;
		case 'n':
			o->state = strtoull(optarg, NULL, 0);
			break;
		case 'I':
			o->inner = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			o->record = optarg;
			break;
		default:
			o->slices = 0;
			break;
		}
	}
	if (o->drive)
		o->jobs = 1; /* it is one process's */
	if (o->jobs == 0) {
		const long processors = sysconf(_SC_NPROCESSORS_ONLN);
		o->jobs = processors < 1 ? 1 : processors > (long)MAX_JOBS ? MAX_JOBS : (uint32_t)processors;
	}
	if (o->engine == ENGINES || o->slices == 0 || o->slice >= o->slices || o->jobs == 0 || o->jobs > MAX_JOBS ||
	    optind != argc) {
		fputs(usage, stderr);
		exit(2);
	}
	o->sample = (uint32_t)((o->sample + rig_every(5) - 1) / rig_every(5));
	o->singles = o->thorough ? 50 : rig_slow() ? 1 : 15;
	o->per_pair = o->per_pair ? o->per_pair : o->thorough ? 3 : rig_slow() ? 1 : 25;
	o->mixes = o->mixes ? o->mixes : o->thorough ? 60 : rig_slow() ? 1 : 8;
}

static void print_counts(const struct counts *c, double seconds)
{
	printf("%lu workloads, %lu crash states, %lu of them distinct, %lu mounts, %lu crashes in recoveries, "
	       "%lu different trees, %lu fsck runs, %lu violations\n",
	       (unsigned long)c->workloads, (unsigned long)c->states, (unsigned long)c->distinct,
	       (unsigned long)c->mounts, (unsigned long)c->recoveries, (unsigned long)c->trees, (unsigned long)c->fscks,
	       (unsigned long)c->violations);
	for (uint32_t k = 0; k < DEVICE_CLASSES; k++)
		printf("  %-8s %lu states\n", class_names[k], (unsigned long)c->by_class[k]);
	for (uint32_t k = 1; k < SET_KINDS; k++) {
		if (c->by_set[k].states > 0)
			printf("  %-8s %lu crash-and-fault states, %lu of them distinct, %lu with disks lost, "
			       "%lu with rotten ones; %lu with too many lost, %lu violations\n",
			       set_kinds[k].name, (unsigned long)c->by_set[k].states,
			       (unsigned long)c->by_set[k].distinct, (unsigned long)c->by_set[k].lost,
			       (unsigned long)c->by_set[k].rotten, (unsigned long)c->by_set[k].refused,
			       (unsigned long)c->by_set[k].violations);
		if (c->by_set[k].lived_on > 0)
			printf("           %lu lived on, %lu disks made again, %lu looks with others lost then, %lu with some rotten, %lu with more rotten than can be made good, %lu pages were errors\n",
			       (unsigned long)c->by_set[k].lived_on, (unsigned long)c->by_set[k].remade,
			       (unsigned long)c->by_set[k].then_lost, (unsigned long)c->by_set[k].mended,
			       (unsigned long)c->by_set[k].worn, (unsigned long)c->by_set[k].pages_lost);
	}
	printf("  %lu distinct states mounted, %lu recover as one that was mounted does; %lu of these mounted to compare\n",
	       (unsigned long)(c->distinct - c->recalled), (unsigned long)c->recalled, (unsigned long)c->compared);
	printf("  %lu requests recorded, %lu made while the one before was under way\n", (unsigned long)c->requests,
	       (unsigned long)c->overlaps);
	if (c->beside_kept > 0)
		printf("  %lu stores while parts of stripes were kept, %lu stripes made whole with such a part\n",
		       (unsigned long)c->beside_kept, (unsigned long)c->made_whole);
	printf("  %.1f s\n", seconds);
}

/* One workload, of a name or of a record that was kept. */
static void do_named(const struct options *o, struct counts *counts)
{
	struct lab *lab = (struct lab *)malloc(sizeof(*lab));
	struct workload *w = (struct workload *)malloc(sizeof(*w));
	FILE *file = o->record ? fopen(o->record, "rb") : NULL;
	char name[sizeof(w->name)] = "";

	if (!lab || !w)
		abort();
	if (o->record && (!file || fread(name, sizeof(name), 1, file) != 1)) {
		printf("%s cannot be read\n", o->record);
		exit(2);
	}
	name[sizeof(name) - 1] = 0;
	if (!workload_parse(o->record ? name : o->workload, w)) {
		printf("%s is no workload\n", o->record ? name : o->workload);
		exit(2);
	}
	if (!engine_takes(o->engine, w)) {
		printf("%s is no workload of %s\n", w->name, engine_names[o->engine]);
		exit(2);
	}
	set_up(lab, o, counts);
	lab_load(lab, w->set, w->tree);
	if (file)
		explore_kept(lab, w, file);
	else
		explore(lab, w);
	if (file)
		fclose(file);
	workload_free(w);
	free(w);
	lab_close(lab);
	free(lab);
}

int main(int argc, char **argv)
{
	struct work work = {0};
	struct counts counts = {0};
	struct options options;
	bool good = true;

	parse(argc, argv, &options);
	if (options.workload || options.record) {
		do_named(&options, &counts);
	} else {
		work.options = &options;
		if (options.sets)
			list_sets(&work, &options);
		else
			list_workloads(&work, &options);
		if (options.sample > 0)
			take_sample(&work, &options);
		for (uint32_t k = 0; options.list && k < work.count; k++)
			puts(work.names[k]);
		good = options.list || do_all(&work, &options, &counts);
		free_work(&work);
	}
	if (options.list)
		return 0;
	print_counts(&counts, now_s() - options.start_s);
	if (options.engine == ENGINE_DIRECT && !options.workload && !options.record && counts.made_whole == 0) {
		printf("no part of a stripe was kept until that was whole\n");
		good = false;
	}
	return good && counts.violations == 0 && counts.states > 0 ? 0 : 1;
}
