/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "base/progress_host.h"

#define SHOW_AFTER_NS UINT64_C(1000000000)
#define SHOW_EVERY_NS UINT64_C(100000000)
#define BAR_CHARACTERS 40

void g4_progress_start(struct g4_progress *progress, const char *label)
{
	progress->label = isatty(STDERR_FILENO) ? label : NULL;
	progress->started_ns = progress->shown_ns = g4_clock_ns(CLOCK_MONOTONIC);
	progress->visible = false;
}

void g4_progress_step(struct g4_progress *progress, uint64_t done, uint64_t total)
{
	char bar[BAR_CHARACTERS + 1];

	if (progress->label == NULL)
		return;
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);
	if (now - progress->started_ns < SHOW_AFTER_NS || now - progress->shown_ns < SHOW_EVERY_NS)
		return;
	const double share = total == 0 ? 0 : done >= total ? 1 : (double)done / (double)total;
	const int full = (int)(share * BAR_CHARACTERS);
	memset(bar, '.', sizeof(bar));
	memset(bar, '#', (size_t)full);
	bar[BAR_CHARACTERS] = 0;
	fprintf(stderr, "\r%s [%s] %3d %%", progress->label, bar, (int)(share * 100));
	progress->shown_ns = now;
	progress->visible = true;
}

void g4_progress_clear(struct g4_progress *progress)
{
	if (progress->visible)
		fputs("\r\033[K", stderr);
	progress->visible = false;
}
