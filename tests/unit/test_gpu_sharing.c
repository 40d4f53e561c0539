/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes on a GPU, told by an NVML that this program makes up: dlopen(3) of NULL finds the program's own functions
 * (which it exports, see cmake/G4Tests.cmake).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/sharing_host.h"

#define BUS_ID "0000:1b:00.0"
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_NOT_FOUND 6

struct process {
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes);

static int initialised;
static unsigned pids[4], pid_count;
static int answer;

int nvmlInit_v2(void)
{
	initialised++;
	return 0;
}

int nvmlShutdown(void)
{
	initialised--;
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
	*device = pids;
	return strcmp(bus_id, BUS_ID) == 0 ? 0 : NVML_ERROR_NOT_FOUND;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes)
{
	assert_ptr_equal(device, pids);
	assert_true(*count >= pid_count);
	*count = pid_count;
	for (unsigned i = 0; i < pid_count; i++)
		processes[i] = (struct process){.pid = pids[i]};
	return answer;
}

/* The sentence, "" for none. present: this process has a context on the GPU. */
static const char *sentence_if(bool present)
{
	static char text[512];
	struct g4_gpu_sharing *n = g4_gpu_sharing_open(NULL, BUS_ID);

	assert_non_null(n);
	text[0] = 0;
	bool disturb = g4_gpu_sharing_disturb(n, present, text, sizeof(text));
	assert_int_equal(disturb, text[0] != 0);
	g4_gpu_sharing_close(n);
	assert_int_equal(initialised, 0);
	return text;
}

static const char *sentence(void)
{
	return sentence_if(false);
}

/* A process with this name, which lives until the returned end of a pipe is closed. */
static int start(const char *name, unsigned *pid)
{
	int life[2], named[2];
	char byte;

	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	assert_int_equal(pipe2(named, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(life[1]);
		close(named[0]);
		prctl(PR_SET_NAME, name);
		close(named[1]);
		_exit(read(life[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(life[0]);
	close(named[1]);
	assert_int_equal(read(named[0], &byte, 1), 0); /* it has its name */
	close(named[0]);
	*pid = (unsigned)child;
	return life[1];
}

static void stop(int life, unsigned pid)
{
	close(life);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), (pid_t)pid);
}

static void without_the_library_nobody_is_there(void **state)
{
	(void)state;
	assert_null(g4_gpu_sharing_open("libno-such-library.so.1", BUS_ID));
	assert_null(g4_gpu_sharing_open("libm.so.6", BUS_ID)); /* a library that is not NVML */
	g4_gpu_sharing_close(NULL);
}

static void an_unknown_gpu_is_not_shared(void **state)
{
	(void)state;
	assert_null(g4_gpu_sharing_open(NULL, "0000:ff:00.0"));
	assert_int_equal(initialised, 0);
}

static void a_process_does_not_disturb_itself(void **state)
{
	(void)state;
	pid_count = 0;
	assert_string_equal(sentence(), "");
	pids[0] = (unsigned)getpid();
	pid_count = 1;
	assert_string_equal(sentence(), "");
}

static void another_process_is_named_and_mps_recommended(void **state)
{
	char wanted[64];
	int life;

	(void)state;
	pids[0] = (unsigned)getpid();
	life = start("trainer", &pids[1]);
	pid_count = 2;
	snprintf(wanted, sizeof(wanted), "process %u (trainer)", pids[1]);
	assert_non_null(strstr(sentence(), wanted));
	assert_non_null(strstr(sentence(), "nvidia-cuda-mps-control -d"));
	stop(life, pids[1]);
}

static void an_mps_that_this_process_does_not_use_is_recognised(void **state)
{
	int life;

	(void)state;
	life = start("nvidia-cuda-mps-server", &pids[0]);
	pid_count = 1;
	assert_non_null(strstr(sentence(), "CUDA_MPS_PIPE_DIRECTORY"));
	stop(life, pids[0]);
}

static void a_process_that_is_gone_or_hidden_has_no_name(void **state)
{
	(void)state;
	pids[0] = 0x7ffffffe;
	pid_count = 1;
	assert_non_null(strstr(sentence(), "process 2147483646 (?)"));
}

static void under_a_foreign_number_a_process_does_not_disturb_itself(void **state)
{
	(void)state;
	pids[0] = 0x7ffffffd;
	pid_count = 1;
	assert_string_equal(sentence_if(true), "");
	assert_string_not_equal(sentence_if(false), ""); /* it is not there: this is somebody */
}

static void among_foreign_numbers_somebody_is_told_but_not_named(void **state)
{
	(void)state;
	pids[0] = 0x7ffffffd;
	pids[1] = 0x7ffffffe;
	pid_count = 2;
	assert_non_null(strstr(sentence_if(true), "another process"));
	assert_null(strstr(sentence_if(true), "214748364"));
	pids[1] = (unsigned)getpid(); /* numbers of this namespace */
	assert_non_null(strstr(sentence_if(true), "process 2147483645"));
	pids[0] = (unsigned)getpid();
	pid_count = 1;
	assert_string_equal(sentence_if(true), "");
}

static void a_refusal_of_nvml_is_no_warning(void **state)
{
	(void)state;
	pid_count = 1;
	answer = NVML_ERROR_INSUFFICIENT_SIZE;
	assert_string_equal(sentence(), "");
	answer = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_library_nobody_is_there),
		cmocka_unit_test(an_unknown_gpu_is_not_shared),
		cmocka_unit_test(a_process_does_not_disturb_itself),
		cmocka_unit_test(another_process_is_named_and_mps_recommended),
		cmocka_unit_test(an_mps_that_this_process_does_not_use_is_recognised),
		cmocka_unit_test(a_process_that_is_gone_or_hidden_has_no_name),
		cmocka_unit_test(under_a_foreign_number_a_process_does_not_disturb_itself),
		cmocka_unit_test(among_foreign_numbers_somebody_is_told_but_not_named),
		cmocka_unit_test(a_refusal_of_nvml_is_no_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
