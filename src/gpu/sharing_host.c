/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML is a part of the driver and not of CUDA, so it is loaded when it is needed. Declared here is what NVML's reference
 * manual says of four functions; that interface only grows.
 */
#include "gpu/sharing_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_PROCESSES 1024u
#define MPS_SERVER "nvidia-cuda-mps" /* as much of its name as the kernel keeps */

struct process_info { /* nvmlProcessInfo_t since its second version */
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};

struct g4_gpu_sharing {
	void *library;
	void *device;
	int (*shutdown)(void);
	int (*processes)(void *device, unsigned *count, struct process_info *infos);
	struct process_info infos[MOST_PROCESSES];
};

/* ISO C has no way from dlsym()'s pointer to a function but through its bytes. */
static bool find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

struct g4_gpu_sharing *g4_gpu_sharing_open(const char *library, const char *bus_id)
{
	struct g4_gpu_sharing *sharing = calloc(1, sizeof(*sharing));
	int (*init)(void);
	int (*device_by_bus_id)(const char *, void **);

	if (!sharing)
		return NULL;
	sharing->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!sharing->library)
		goto free_it;
	if (!find(sharing->library, "nvmlInit_v2", &init) ||
	    !find(sharing->library, "nvmlShutdown", &sharing->shutdown) ||
	    !find(sharing->library, "nvmlDeviceGetHandleByPciBusId_v2", &device_by_bus_id) ||
	    !find(sharing->library, "nvmlDeviceGetComputeRunningProcesses_v3", &sharing->processes) || init() != 0)
		goto close_library;
	if (device_by_bus_id(bus_id, &sharing->device) == 0)
		return sharing;
	sharing->shutdown();
close_library:
	dlclose(sharing->library);
free_it:
	free(sharing);
	return NULL;
}

void g4_gpu_sharing_close(struct g4_gpu_sharing *sharing)
{
	if (!sharing)
		return;
	sharing->shutdown();
	dlclose(sharing->library);
	free(sharing);
}

static void name_of(unsigned pid, char *name, size_t bytes)
{
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "re");
	if (!file || !fgets(name, (int)bytes, file))
		snprintf(name, bytes, "?");
	if (file)
		fclose(file);
	name[strcspn(name, "\n")] = 0;
}

static bool is_told(const struct g4_gpu_sharing *sharing, unsigned count, unsigned pid)
{
	for (unsigned i = 0; i < count; i++)
		if (sharing->infos[i].pid == pid)
			return true;
	return false;
}

static void say_who(unsigned pid, char *sentence, size_t bytes)
{
	char name[32];

	name_of(pid, name, sizeof(name));
	if (strncmp(name, MPS_SERVER, strlen(MPS_SERVER)) == 0)
		snprintf(sentence, bytes,
			 "other programs share the GPU through MPS and this one takes turns with them, which slows "
			 "all down: start it with their CUDA_MPS_PIPE_DIRECTORY");
	else
		snprintf(sentence, bytes,
			 "process %u (%s) computes on the same GPU and takes turns with the file system, which slows "
			 "both down: run 'nvidia-cuda-mps-control -d' before the two are started",
			 pid, name);
}

bool g4_gpu_sharing_disturb(struct g4_gpu_sharing *sharing, bool present, char *sentence, size_t bytes)
{
	const unsigned own = (unsigned)getpid();
	unsigned count = MOST_PROCESSES;

	if (sharing->processes(sharing->device, &count, sharing->infos) != 0)
		return false;
	if (present && count > 0 && !is_told(sharing, count, own)) {
		/* numbers of another PID namespace: one of them is ours, and none can be looked up here */
		if (count == 1)
			return false;
		snprintf(
			sentence, bytes,
			"another process, outside this container or in another, computes on the same GPU and takes turns "
			"with the file system, which slows both down: run them under one 'nvidia-cuda-mps-control -d'");
		return true;
	}
	for (unsigned i = 0; i < count; i++) {
		if (sharing->infos[i].pid == own)
			continue;
		say_who(sharing->infos[i].pid, sentence, bytes);
		return true;
	}
	return false;
}
