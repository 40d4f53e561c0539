/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "base/progress_host.h"

#define SHOW_AFTER_NS UINT64_C(1000000000)
#define SHOW_EVERY_NS UINT64_C(100000000)
#define LEFT_AFTER_NS UINT64_C(3000000000)
#define BAR_CHARACTERS 40

static bool on_screen; /* atomic; changes with the lock of stderr. There is one line, whoever shows it */

void g4_progress_start(struct g4_progress *progress, const char *label)
{
	progress->label = isatty(STDERR_FILENO) ? label : NULL;
	progress->started_ns = progress->shown_ns = g4_clock_ns(CLOCK_MONOTONIC);
}

/* Whether it is time for another line. */
static bool is_due(struct g4_progress *progress)
{
	if (progress->label == NULL)
		return false;
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);
	uint64_t shown = __atomic_load_n(&progress->shown_ns, __ATOMIC_RELAXED);
	if (now < progress->started_ns + SHOW_AFTER_NS || now < shown + SHOW_EVERY_NS)
		return false;
	/* of threads for which it is time one writes the line */
	if (!__atomic_compare_exchange_n(&progress->shown_ns, &shown, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	return true;
}

static void begin_line(void)
{
	flockfile(stderr);
	__atomic_store_n(&on_screen, true, __ATOMIC_RELAXED);
}

void g4_progress_step(struct g4_progress *progress, uint64_t done, uint64_t total)
{
	char bar[BAR_CHARACTERS + 1];

	if (!is_due(progress))
		return;
	const double share = total == 0 ? 0 : done >= total ? 1 : (double)done / (double)total;
	const int full = (int)(share * BAR_CHARACTERS);
	memset(bar, '.', sizeof(bar));
	memset(bar, '#', (size_t)full);
	bar[BAR_CHARACTERS] = 0;
	begin_line();
	fprintf(stderr, "\r%s [%s] %3d %%", progress->label, bar, (int)(share * 100));
	const uint64_t gone_ns = __atomic_load_n(&progress->shown_ns, __ATOMIC_RELAXED) - progress->started_ns;
	if (share >= 0.01 && gone_ns >= LEFT_AFTER_NS) {
		const uint64_t left = (uint64_t)((double)gone_ns / 1e9 * (1 - share) / share);

		fprintf(stderr, ", %llu:%02llu left\033[K", (unsigned long long)(left / 60),
			(unsigned long long)(left % 60));
	}
	funlockfile(stderr);
}

void g4_progress_text(struct g4_progress *progress, const char *text)
{
	if (!is_due(progress))
		return;
	begin_line();
	fprintf(stderr, "\r%s: %s\033[K", progress->label, text);
	funlockfile(stderr);
}

void g4_progress_tree(struct g4_progress *progress, uint64_t names, uint64_t bytes)
{
	char text[80];

	if (!g4_progress_wanted(progress))
		return;
	snprintf(text, sizeof(text), "%llu names, %llu MiB", (unsigned long long)names,
		 (unsigned long long)(bytes >> 20));
	g4_progress_text(progress, text);
}

void g4_progress_clear(struct g4_progress *progress)
{
	if (g4_progress_wanted(progress))
		g4_progress_make_way();
}

void g4_progress_make_way(void)
{
	if (!__atomic_load_n(&on_screen, __ATOMIC_RELAXED))
		return;
	flockfile(stderr);
	if (__atomic_exchange_n(&on_screen, false, __ATOMIC_RELAXED))
		fputs("\r\033[K", stderr);
	funlockfile(stderr);
}
