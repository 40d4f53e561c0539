/* SPDX-License-Identifier: Apache-2.0 */
/* What the processors of this machine did in an interval, for benchmarks. */
#ifndef CPU_USE_H
#define CPU_USE_H

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct cpu_use { /* seconds, of a moment or of an interval */
	double wall;
	double own;  /* processor time of this process */
	double busy; /* of everything that runs on this machine, kernel threads too; exact to 10 ms for each core */
};

/* Zero where /proc is missing. */
static inline double cpu_use_busy(void)
{
	unsigned long long user = 0, nice = 0, system = 0, irq = 0, softirq = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return 0;
	if (fscanf(file, "cpu %llu %llu %llu %*u %*u %llu %llu", &user, &nice, &system, &irq, &softirq) != 5)
		user = nice = system = irq = softirq = 0;
	fclose(file);
	return (double)(user + nice + system + irq + softirq) / (double)sysconf(_SC_CLK_TCK);
}

static inline double cpu_use_wall(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline struct cpu_use cpu_use_now(void)
{
	struct cpu_use use = {.busy = cpu_use_busy()};
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	use.own = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
		  ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6;
	use.wall = cpu_use_wall();
	return use;
}

static inline struct cpu_use cpu_use_since(const struct cpu_use *begin)
{
	const struct cpu_use now = cpu_use_now();

	return (struct cpu_use){now.wall - begin->wall, now.own - begin->own, now.busy - begin->busy};
}

#endif
