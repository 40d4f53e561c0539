/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU shared with another process: what that keeps of its bandwidth and what the engine's clients wait, with the GPU
 * giving the two turns and under MPS. What is asserted: both work in every combination, the engine uses an MPS daemon
 * where one runs, and warns where one would help. The figures are for people.
 *
 * This program starts itself as two others, a copier and an engine, each with an environment of its own, since CUDA looks
 * for MPS once in a process. They are told what to do by lines on their standard input, and end with it. The MPS daemon
 * is the test's own, in a folder of its own, and has started its server before anybody is measured, since that takes
 * seconds. It is a child in a process group of its own, which is ended before the program ends, with what it started.
 * What the test does is told on standard error, with the time.
 *
 * Usage: share [-t SECONDS] [-s SMS,...] [-m] [-l LIMIT_SECONDS] [-o FILE.json]
 *      -s  as for -o sms=; 0: the engine's default
 *      -m  under MPS only
 *      -l  end after so long, as failed
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dev/dev_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "gpu/cuda_host.h"
#include "gpu/gpu.h"
#include "gpu/share.h"
#include "gpu/sharing_host.h"
#include "ring/session_host.h"

#define ENTRIES 64u
#define MOST_SAMPLES 1000000u
#define COPY_BYTES G4_GIB
#define ANSWER_S 40 /* a process that says nothing for so long hangs */
#define LIMIT_S 140 /* for all */
#define MPS_START_S 30
#define MPS_QUIT_S 10
#define MPS_ANSWER_S 10
#define MPS_CONTROL "nvidia-cuda-mps-control"
#define SKIPPED 77

/* ------------------------------------------------------------------ the copier */

static int be_copier(void)
{
	struct share_copier *copier = share_copier_open(COPY_BYTES);
	struct g4_gpu_description gpu;
	double seconds;

	if (!copier || !g4_gpu_describe(&gpu))
		return 1;
	printf("ready %d %s\n", gpu.mps, gpu.bus_id);
	fflush(stdout);
	while (scanf("%lf", &seconds) == 1) {
		printf("%.6g\n", share_copier_run(copier, seconds));
		fflush(stdout);
	}
	bool good = share_copier_is_good(copier);
	share_copier_close(copier);
	return good ? 0 : 1;
}

/* ------------------------------------------------------------------ the engine */

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* One null command after the other. False: one failed. */
static bool measure_nulls(struct g4_session_host *session, uint32_t *number, double seconds, uint64_t *ns,
			  uint32_t *count)
{
	struct g4_ring_header *header = g4_session_ring(session);
	const uint64_t until = g4_monotonic_ns() + (uint64_t)(seconds * 1e9);

	for (*count = 0; *count < MOST_SAMPLES && g4_monotonic_ns() < until; ++*count) {
		uint64_t begin = g4_monotonic_ns(), word;
		++*number;
		*g4_ring_slot_of(header, ENTRIES, *number) = (struct g4_ring_slot){
			.command = {.op = G4_CMD_NOP, .node = G4_NODE_ROOT, .text_at = G4_RING_TEXT_INLINE}};
		g4_store32_rel(&header->tail, *number);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (g4_load32_acq(&header->engine_waits) != G4_RING_AWAKE)
			g4_session_rung(session);
		do {
			word = g4_load64_acq(&g4_ring_result_of(header, ENTRIES, *number)->word);
			if (g4_load32_acq(&header->state) != G4_RING_RUNS)
				return false;
		} while ((word & G4_RING_NUMBER_MASK) != (*number & G4_RING_NUMBER_MASK));
		if ((int32_t)(word >> 32) < 0)
			return false;
		ns[*count] = g4_monotonic_ns() - begin;
	}
	return true;
}

static int on_proof(struct g4_engine *engine, uint32_t op)
{
	static const struct g4_cred root = {.umask = 022};
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = op,
			     .node = G4_NODE_ROOT,
			     .name = "proof",
			     .name_bytes = 5,
			     .mode = 0755,
			     .attr = &attr,
			     .cred = &root};

	return g4_engine_execute(engine, &cmd);
}

static int mount_engine(uint32_t sms, struct g4_engine **engine)
{
	const struct g4_dev_open_options open = {0};
	const struct g4_mkfs_options format = {.label = NULL};
	const struct g4_mount_options options = {.cache_bytes = 64 * G4_MIB, .kind = G4_ENGINE_CUDA, .sms = sms};
	struct g4_superblock sb;
	char message[512] = "";
	struct g4_dev *dev;
	int rc = g4_dev_open("mem:1G", &open, &dev, message, sizeof(message));

	if (rc == 0)
		rc = g4_mkfs(dev, &format, &sb, message, sizeof(message));
	if (rc == 0)
		rc = g4_engine_mount_device(dev, &options, engine, message, sizeof(message));
	if (rc < 0)
		fprintf(stderr, "share: %s\n", message);
	return rc;
}

static int be_engine(uint32_t sms)
{
	const struct g4_session_options options = {
		.cred = {.umask = 022}, .flags = G4_SESSION_IN_PROCESS, .entries = ENTRIES};
	uint64_t *ns = calloc(MOST_SAMPLES, sizeof(*ns));
	struct g4_gpu_description gpu;
	struct g4_session_host *session;
	struct g4_engine *engine;
	uint32_t number = 0, count;
	double seconds;
	bool good;

	if (!ns || mount_engine(sms, &engine) < 0) {
		free(ns);
		return 1;
	}
	g4_engine_cuda(engine)->control->stay = 1;
	good = on_proof(engine, G4_CMD_MKDIR) == 0 && g4_gpu_describe(&gpu) &&
	       g4_session_open(g4_engine_sessions(engine), &options, &session) == 0;
	if (!good) {
		free(ns);
		return 1;
	}
	printf("ready %d %s\n", gpu.mps, gpu.bus_id);
	fflush(stdout);
	while (good && scanf("%lf", &seconds) == 1) {
		good = measure_nulls(session, &number, seconds, ns, &count) && count > 0;
		qsort(ns, count, sizeof(*ns), by_value);
		if (good)
			printf("%.6g %.6g\n", (double)ns[count / 2] / 1e3, (double)ns[count * 99ull / 100] / 1e3);
		fflush(stdout);
	}
	good = good && on_proof(engine, G4_CMD_LOOKUP) == 0;
	g4_session_shut(session);
	good = g4_engine_unmount(engine) == 0 && good;
	free(ns);
	return good ? 0 : 1;
}

/* ------------------------------------------------------------------ starting and asking the two */

struct child {
	pid_t pid;
	int to;
	FILE *from;
	bool mps;
	char bus_id[64];
};

static char work[64];	 /* folder of this run */
static pid_t mps_daemon; /* 0: none */
static uint32_t wrong;
static uint64_t started_ns, until_ns;

/* Signals are taken where this process waits for others, so that it always ends them, and the daemon, itself. */
static volatile sig_atomic_t stopped;
static sigset_t signals_before;

static void note_signal(int number)
{
	stopped = number;
}

static void take_signals(void)
{
	const struct sigaction action = {.sa_handler = note_signal};
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGHUP);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigprocmask(SIG_BLOCK, &ours, &signals_before);
	signal(SIGPIPE, SIG_IGN); /* of processes that ended too early, which is told */
}

static void fail(const char *what)
{
	printf("FAILED: %s\n", what);
	fflush(stdout);
	wrong++;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "%6.1f s  ", (double)(g4_monotonic_ns() - started_ns) / 1e9);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static void in_work(char *path, size_t bytes, const char *name)
{
	snprintf(path, bytes, "%s/%s", work, name);
}

/* CUDA's way to the test's own daemon, or to none. */
static void set_environment(bool mps)
{
	char path[128];

	in_work(path, sizeof(path), mps ? "pipe" : "none");
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	in_work(path, sizeof(path), "log");
	setenv("CUDA_MPS_LOG_DIRECTORY", path, 1);
}

/* Waits for something to read or the end of it, for `most_s` at most and not beyond the end of the test. */
static bool await(int fd, uint64_t most_s)
{
	struct pollfd from = {.fd = fd, .events = POLLIN};
	uint64_t now = g4_monotonic_ns(), ns = now < until_ns ? until_ns - now : 0;
	struct timespec limit;

	ns = g4_min64(ns, most_s * 1000000000);
	limit = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	return !stopped && ppoll(&from, 1, &limit, &signals_before) > 0;
}

/* A line of the child, or false when it ended or hangs. */
static bool hear(struct child *c, char *line, int bytes)
{
	return await(fileno(c->from), ANSWER_S) && fgets(line, bytes, c->from) != NULL;
}

/* role: "copier", or "engine" and its multiprocessors. Its standard error goes to a file of that name. */
static bool start(struct child *c, const char *role, uint32_t sms, bool mps)
{
	int to[2], from[2], ready;
	char number[16], path[128], line[128];

	*c = (struct child){.to = -1};
	if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		return false;
	tell("starting the %s", role);
	fflush(stdout);
	c->pid = fork();
	if (c->pid == 0) {
		snprintf(number, sizeof(number), "%u", sms);
		in_work(path, sizeof(path), role);
		int errors = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		dup2(errors, STDERR_FILENO);
		set_environment(mps);
		sigprocmask(SIG_SETMASK, &signals_before, NULL);
		execl("/proc/self/exe", "share", "--role", role, number, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = fdopen(from[0], "r");
	if (c->pid < 0 || !c->from || !hear(c, line, sizeof(line)) ||
	    sscanf(line, "ready %d %63s", &ready, c->bus_id) != 2)
		return false;
	c->mps = ready != 0;
	return true;
}

/* Its standard error, copied to ours. */
static void read_errors(const char *role, char *text, size_t bytes)
{
	char path[128];
	size_t got = 0;
	FILE *file;

	in_work(path, sizeof(path), role);
	file = fopen(path, "re");
	if (file) {
		got = fread(text, 1, bytes - 1, file);
		fclose(file);
	}
	text[got] = 0;
	fputs(text, stderr);
}

static void stop(struct child *c, const char *role)
{
	char line[64], what[64];
	int status = -1;

	if (c->to >= 0)
		close(c->to);
	/* the end of its output is its end */
	if (c->from && hear(c, line, sizeof(line)))
		fail("a process says more than it was asked");
	if (c->from && !feof(c->from))
		kill(c->pid, SIGKILL);
	if (c->from)
		fclose(c->from);
	if (c->pid > 0)
		waitpid(c->pid, &status, 0);
	snprintf(what, sizeof(what), "the %s ended with status %d", role, status);
	if (status != 0)
		fail(what);
}

static void ask(struct child *c, double seconds)
{
	if (dprintf(c->to, "%.3f\n", seconds) < 0)
		fail("a process does not listen");
}

static double hear_bandwidth(struct child *c)
{
	char line[128];
	double bytes = 0;

	if (!hear(c, line, sizeof(line)) || sscanf(line, "%lf", &bytes) != 1 || bytes <= 0)
		fail("the copier did not copy");
	return bytes / 1e9;
}

static void hear_nulls(struct child *c, double *p50, double *p99)
{
	char line[128];

	*p50 = *p99 = 0;
	if (!hear(c, line, sizeof(line)) || sscanf(line, "%lf %lf", p50, p99) != 2)
		fail("null commands failed");
}

/* ------------------------------------------------------------------ MPS */

/* What the daemon answers to `words`, in text[bytes]; an empty answer where it does not. */
static void ask_mps(const char *words, char *text, size_t bytes)
{
	int in[2], out[2];
	size_t got = 0;
	ssize_t n = 1;

	text[0] = 0;
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		set_environment(true);
		sigprocmask(SIG_SETMASK, &signals_before, NULL);
		execlp(MPS_CONTROL, MPS_CONTROL, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	if (pid > 0 && dprintf(in[1], "%s\n", words) < 0)
		n = 0;
	close(in[1]);
	while (pid > 0 && n > 0 && got < bytes - 1 && await(out[0], MPS_ANSWER_S)) {
		n = read(out[0], text + got, bytes - 1 - got);
		got += n > 0 ? (size_t)n : 0;
	}
	close(out[0]);
	text[got] = 0;
	text[strcspn(text, "\n")] = 0;
	if (pid > 0) {
		kill(pid, SIGKILL); /* it has answered, or does not */
		waitpid(pid, NULL, 0);
	}
}

static void show_log(const char *name)
{
	char path[128], line[512];
	FILE *file;

	in_work(path, sizeof(path), name);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "  %s: %s", name, line);
	if (file)
		fclose(file);
}

static void show_mps_logs(void)
{
	show_log("daemon");
	show_log("log/control.log");
	show_log("log/server.log");
}

/* Ends the daemon, its server, and whatever else they started. */
static void stop_mps(void)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t until = g4_monotonic_ns() + MPS_QUIT_S * UINT64_C(1000000000);
	char answer[128];

	if (mps_daemon == 0)
		return;
	until_ns = g4_max64(until_ns, until); /* this is done in any case */
	stopped = 0;
	ask_mps("quit -t 5", answer, sizeof(answer));
	pid_t ended = 0;
	while ((ended = waitpid(mps_daemon, NULL, WNOHANG)) == 0 && g4_monotonic_ns() < until)
		nanosleep(&pause, NULL);
	tell(ended ? "the MPS daemon has ended" : "the MPS daemon does not end: killed");
	kill(-mps_daemon, SIGKILL);
	if (!ended)
		waitpid(mps_daemon, NULL, 0);
	mps_daemon = 0;
}

static bool mps_answers(char *answer, size_t bytes)
{
	char words[64];
	uint64_t until = g4_monotonic_ns() + MPS_START_S * UINT64_C(1000000000);
	const struct timespec pause = {.tv_nsec = 100000000};

	snprintf(words, sizeof(words), "start_server -uid %u", (unsigned)getuid());
	for (bool asked = false; g4_monotonic_ns() < until && !stopped; nanosleep(&pause, NULL)) {
		if (waitpid(mps_daemon, NULL, WNOHANG) != 0) {
			mps_daemon = 0;
			return false;
		}
		ask_mps(asked ? "get_server_list" : words, answer, bytes);
		if (asked && atoi(answer) > 0)
			return true;
		/* a daemon that is not there yet is told of by the control program in words */
		asked = asked || !strstr(answer, "annot find MPS control daemon");
	}
	return false;
}

/* Starts the daemon and its server. 1: done, 0: it failed, -1: there is no such program. */
static int start_mps(void)
{
	const pid_t parent = getpid();
	char path[128], answer[256] = "";
	int missing[2];
	char byte;

	if (pipe2(missing, O_CLOEXEC) != 0)
		return 0;
	tell("starting the MPS daemon");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		in_work(path, sizeof(path), "daemon");
		int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
		dup2(none, STDIN_FILENO);
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		set_environment(true);
		sigprocmask(SIG_SETMASK, &signals_before, NULL);
		signal(SIGPIPE, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* should this program be killed */
		if (getppid() == parent)
			execlp(MPS_CONTROL, MPS_CONTROL, "-f", (char *)NULL);
		if (write(missing[1], "", 1) != 1)
			_exit(126);
		_exit(127);
	}
	close(missing[1]);
	bool found = pid > 0 && read(missing[0], &byte, 1) == 0;
	close(missing[0]);
	if (!found) {
		if (pid > 0)
			waitpid(pid, NULL, 0);
		return -1;
	}
	mps_daemon = pid;
	if (mps_answers(answer, sizeof(answer))) {
		tell("MPS server %s runs", answer);
		return 1;
	}
	tell("no MPS server: %s", answer);
	show_mps_logs();
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void clean_up(void)
{
	stop_mps();
	if (work[0])
		nftw(work, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static bool make_work(void)
{
	const char *temporary = getenv("TMPDIR");
	char path[128];

	snprintf(work, sizeof(work), "%s/gpu4fs-share.XXXXXX",
		 temporary && strlen(temporary) < 30 ? temporary : "/tmp");
	if (!mkdtemp(work))
		return false;
	in_work(path, sizeof(path), "pipe");
	if (mkdir(path, 0700) != 0)
		return false;
	in_work(path, sizeof(path), "log");
	return mkdir(path, 0700) == 0;
}

/* ------------------------------------------------------------------ the measurement */

static FILE *json;
static int rows;
static double seconds = 2;

/* target 0: none; otherwise the least. */
static void report(const char *metric, const char *unit, double value, double target)
{
	bool met = target == 0 || value >= target;

	printf("%-72s %10.2f %-4s target %6.2f %s\n", metric, value, unit, target,
	       target == 0 ? "-" :
	       met	   ? "yes" :
			     "no");
	fflush(stdout);
	if (json)
		fprintf(json,
			"%s\n  {\"bench\": \"gpu-share\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g, "
			"\"peers\": {}, \"target\": %.6g, \"met\": %s, \"cpu_seconds\": 0}",
			rows++ ? "," : "", metric, unit, value, target, met ? "true" : "false");
}

/* What another process keeps beside the engine, and what the engine's clients wait beside it. */
static void measure(struct child *copier, uint32_t sms, bool mps, double alone)
{
	char metric[128], where[64], errors[4096];
	struct child engine;
	double p50, p99;
	bool warned;

	snprintf(where, sizeof(where), sms ? "%s, sms=%u" : "%s, sms by default", mps ? "MPS" : "in turns", sms);
	if (!start(&engine, "engine", sms, mps)) {
		fail("the engine did not start");
	} else {
		if (engine.mps != mps)
			fail(mps ? "the engine does not use MPS" : "the engine uses an MPS that it should not see");
		tell("measuring, %s", where);
		ask(copier, seconds);
		snprintf(metric, sizeof(metric), "copies beside an idle engine, %s", where);
		double beside = hear_bandwidth(copier);
		report(metric, "GB/s", beside, 0);
		snprintf(metric, sizeof(metric), "bandwidth kept beside an idle engine, %s", where);
		report(metric, "%", beside / alone * 100, mps ? 90 : 0);
		ask(&engine, seconds);
		hear_nulls(&engine, &p50, &p99);
		snprintf(metric, sizeof(metric), "null command, nothing beside it, p99, %s", where);
		report(metric, "us", p99, 0);
		ask(copier, seconds);
		ask(&engine, seconds / 2);
		hear_nulls(&engine, &p50, &p99);
		hear_bandwidth(copier);
		snprintf(metric, sizeof(metric), "null command beside copies, p50, %s", where);
		report(metric, "us", p50, 0);
		snprintf(metric, sizeof(metric), "null command beside copies, p99, %s", where);
		report(metric, "us", p99, 0);
	}
	stop(&engine, "engine");
	read_errors("engine", errors, sizeof(errors));
	warned = strstr(errors, MPS_CONTROL) != NULL;
	if (mps && warned)
		fail("the engine recommends MPS although it uses it");
	struct g4_gpu_sharing *neighbours = mps ? NULL : g4_gpu_sharing_open(G4_NVML_LIBRARY, copier->bus_id);
	if (neighbours && g4_gpu_sharing_disturb(neighbours, false, errors, sizeof(errors)) && !warned)
		fail("the engine does not say that MPS would help");
	if (!mps && !neighbours)
		printf("the processes on the GPU cannot be seen here: no warning is expected\n");
	g4_gpu_sharing_close(neighbours);
}

static void measure_all(const uint32_t *sms, uint32_t count, bool mps)
{
	struct child copier;
	char errors[4096];
	double alone = 0;

	if (!start(&copier, "copier", 0, mps)) {
		fail("the copier did not start");
	} else {
		if (copier.mps != mps)
			fail(mps ? "the copier does not use MPS" : "the copier uses an MPS that it should not see");
		ask(&copier, seconds);
		alone = hear_bandwidth(&copier);
		report(mps ? "copies alone, MPS" : "copies alone", "GB/s", alone, 0);
		for (uint32_t i = 0; i < count && alone > 0 && !stopped; i++)
			measure(&copier, sms[i], mps, alone);
	}
	stop(&copier, "copier");
	read_errors("copier", errors, sizeof(errors));
}

int main(int argc, char **argv)
{
	uint32_t sms[16] = {1, 8, 32, 0}, count = 4;
	uint64_t limit_s = LIMIT_S;
	bool mps_only = false;

	if (argc == 4 && strcmp(argv[1], "--role") == 0)
		return strcmp(argv[2], "copier") == 0 ? be_copier() : be_engine((uint32_t)atoi(argv[3]));
	started_ns = g4_monotonic_ns();
	for (int option; (option = getopt(argc, argv, "t:s:o:ml:")) != -1;) {
		if (option == 't') {
			seconds = atof(optarg);
		} else if (option == 'm') {
			mps_only = true;
		} else if (option == 'l') {
			limit_s = strtoul(optarg, NULL, 10);
		} else if (option == 'o') {
			json = fopen(optarg, "we");
		} else if (option == 's') {
			char *rest = optarg;
			for (count = 0; count < 16 && *rest; rest += *rest == ',')
				sms[count++] = (uint32_t)strtoul(rest, &rest, 10);
		} else {
			fprintf(stderr,
				"usage: share [-t SECONDS] [-s SMS,...] [-m] [-l LIMIT_SECONDS] [-o FILE.json]\n");
			return 2;
		}
	}
	until_ns = started_ns + limit_s * 1000000000;
	take_signals();
	if (!make_work()) {
		fprintf(stderr, "share: %s: %s\n", work, strerror(errno));
		return 1;
	}
	atexit(clean_up);
	if (json)
		fputs("[", json);
	if (!mps_only)
		measure_all(sms, count, false);
	int mps = stopped ? 0 : start_mps();
	if (mps > 0) {
		uint32_t before = wrong;
		measure_all(sms, count, true);
		if (wrong > before)
			show_mps_logs();
	} else if (mps < 0) {
		printf("skipped: " MPS_CONTROL " is not installed\n");
	} else {
		fail(stopped ? "interrupted" : "MPS did not start");
	}
	stop_mps();
	if (json) {
		fputs("\n]\n", json);
		fclose(json);
	}
	printf("%u failures\n", wrong);
	return wrong ? 1 : mps < 0 ? SKIPPED : 0;
}
