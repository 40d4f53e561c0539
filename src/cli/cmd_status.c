/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs status: the disks of a file system, mounted or not. */
#include <getopt.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/health.h"
#include "cli/layout.h"
#include "client/explain.h"
#include "fs/probe_host.h"
#include "fuse/fuse.h"
#include "print/report.h"
#include "space/set_host.h"
#include "task/job.h"

const char g4_help_status[] =
	"[--layout] [--json] DEVICE...|DIRECTORY\n\n"
	"Shows the disks of the file system on DEVICE..., or mounted at DIRECTORY, by what they say\n"
	"themselves: which are active, missing, stale because they missed writes, being rebuilt,\n"
	"and how far, or written apart from the others, how many damaged pages of each were\n"
	"mended, and how many could not be; the spares; and the level in words, with how many\n"
	"disks may be lost.\n\n"
	"      --layout  what lies where: a picture of each disk, of 64 parts. A part is one of level\n"
	"                none, 0, 1, 5, 6, triple or quadruple, by its first letter, or . nobody's, or\n"
	"                - of the disk itself; in JSON a list of all places of chunks\n"
	"      --json    print one JSON object\n"
	"      --help    show this\n\n"
	"Exit status: 0 all disks are there and have everything; 1 not so; 2 wrong usage.\n";

/* Of a mount as its server knows it; else as the disks say, which may be a little less. */
static void show_rebuild(struct g4_report *report, const struct g4_disk_info *disk, const struct g4_health *health)
{
	const struct g4_job_record *job = health != NULL ? g4_cli_last_job(health, G4_JOB_REBUILD) : NULL;

	if (job == NULL || g4_cli_job_is_over(job)) {
		g4_report_real(report, "rebuilt_percent", g4_job_progress(disk->position, disk->bytes, false) / 100.0);
		return;
	}
	const uint64_t left = g4_job_left_ns(job->done, job->units, job->run_ns);
	g4_report_real(report, "rebuilt_percent", g4_job_progress(job->done, job->units, false) / 100.0);
	g4_report_text(report, "rebuild", g4_cli_job_state(job));
	g4_report_count(report, "rebuild_rate", job->rate);
	if (left != UINT64_MAX)
		g4_report_real(report, "rebuild_seconds_left", (double)left / 1e9);
}

static void show_disk(struct g4_report *report, uint32_t number, const struct g4_disk_info *disk,
		      const struct g4_health *health)
{
	g4_report_object(report, NULL);
	g4_report_count(report, "disk", number);
	g4_report_uuid(report, "uuid", disk->uuid);
	g4_report_text(report, "device", disk->name != NULL ? disk->name : "-");
	g4_report_text(report, "state", g4_disk_state_name(disk->state));
	if (report->json || disk->since != 0)
		g4_report_count(report, "missed_since_generation", disk->since);
	if (report->json || disk->by_hand)
		g4_report_bool(report, "taken_out", disk->by_hand);
	g4_report_size(report, "size_bytes", disk->bytes);
	if (disk->state == G4_DISK_REBUILDING)
		show_rebuild(report, disk, health);
	g4_report_count(report, "mended_pages", disk->mended);
	g4_report_count(report, "damaged_pages_met", health != NULL ? health->disk_damaged[number] : disk->damaged);
	g4_report_end(report);
}

static const char *state_of(const struct g4_set_status *status)
{
	return status->whole ? "whole" : status->usable ? "degraded" : "incomplete";
}

/* Whether a spare is as large as a disk that is missing, of which an order said so or not. */
static bool has_spare_for_one(const struct g4_set_status *status, bool by_hand)
{
	for (uint32_t d = 0; d < status->count; d++) {
		const struct g4_disk_info *disk = &status->disks[d];
		for (uint32_t n = 0; n < status->spare_count; n++)
			if (disk->state == G4_DISK_MISSING && disk->by_hand == by_hand &&
			    status->spares[n].bytes >= disk->bytes)
				return true;
	}
	return false;
}

/* What brings it back. */
static const char *advice_on(const struct g4_set_status *status)
{
	bool stale = false, missing = false;

	for (uint32_t d = 0; d < status->count; d++) {
		if (status->disks[d].state == G4_DISK_APART)
			return "disks were written apart: use those alone that count, and 'gpu4fs disk replace' for the rest";
		stale = stale || status->disks[d].state == G4_DISK_STALE;
		missing = missing || status->disks[d].state == G4_DISK_MISSING;
	}
	for (uint32_t d = 0; d < status->count; d++)
		if (status->disks[d].state == G4_DISK_REBUILDING)
			return "a disk is being rebuilt: a mount goes on with it, or 'gpu4fs disk rebuild'";
	if (missing && status->usable && has_spare_for_one(status, false))
		return "a spare is there: a mount that writes lets it take the place of the disk that is missing";
	if (missing && status->usable && has_spare_for_one(status, true))
		return "a spare is there, but the disk was set offline or given up: 'gpu4fs disk replace' lets it take the place";
	return stale && status->usable	 ? "'gpu4fs disk rebuild' brings stale disks up to date" :
	       missing && status->usable ? "'gpu4fs disk replace' puts a new disk in the place of a missing one" :
	       missing ? "missing disks alone have some of it: name all, as DISK DISK... or DISK,DISK,..." :
			 NULL;
}

/* A rebalancing that goes on. */
static void show_rebalance(struct g4_report *report, const struct g4_health *health)
{
	const struct g4_job_record *job = health != NULL ? g4_cli_last_job(health, G4_JOB_REBALANCE) : NULL;

	if (job == NULL || g4_cli_job_is_over(job))
		return;
	const uint64_t left = g4_job_left_ns(job->done, job->units, job->run_ns);
	g4_report_text(report, "rebalance", g4_cli_job_state(job));
	g4_report_real(report, "rebalanced_percent", g4_job_progress(job->done, job->units, false) / 100.0);
	g4_report_count(report, "rebalance_rate", job->rate);
	if (left != UINT64_MAX)
		g4_report_real(report, "rebalance_seconds_left", (double)left / 1e9);
}

/* A removal that goes on; the record has the disk's UUID. */
static void show_removal(struct g4_report *report, const struct g4_set_status *status, const struct g4_health *health)
{
	const struct g4_job_record *job = health != NULL ? g4_cli_last_job(health, G4_JOB_REMOVE) : NULL;
	uint32_t disk = 0;

	if (job == NULL || g4_cli_job_is_over(job))
		return;
	while (disk < status->count && memcmp(status->disks[disk].uuid, job->arguments, G4_UUID_BYTES) != 0)
		disk++;
	const uint64_t left = g4_job_left_ns(job->done, job->units, job->run_ns);
	g4_report_text(report, "removal", g4_cli_job_state(job));
	if (disk < status->count)
		g4_report_count(report, "removed_disk", disk);
	g4_report_real(report, "removed_percent", g4_job_progress(job->done, job->units, false) / 100.0);
	g4_report_size(report, "removal_left_bytes", (job->units - job->done) * G4_PAGE_BYTES);
	g4_report_count(report, "removal_rate", job->rate);
	if (left != UINT64_MAX)
		g4_report_real(report, "removal_seconds_left", (double)left / 1e9);
}

/* What is there of each level, the file system's own first; and what could become more. */
static void show_levels(struct g4_report *report, const struct g4_set_status *status, const struct g4_health *health)
{
	g4_report_list(report, "levels");
	for (uint32_t level = 0; level < G4_LEVELS; level++) {
		if (status->level_bytes[level] == 0)
			continue;
		g4_report_object(report, NULL);
		g4_report_text(report, "level", g4_level_name(level == G4_LEVEL_OWN ? status->own_level : level));
		g4_report_size(report, "size_bytes", status->level_bytes[level]);
		if (health != NULL)
			g4_report_size(report, "free_bytes", health->level_free[level] * G4_PAGE_BYTES);
		g4_report_end(report);
	}
	g4_report_end(report);
	if (report->json || status->unassigned_bytes != 0)
		g4_report_size(report, "unassigned_bytes", status->unassigned_bytes);
	if (report->json || status->gone_bytes != 0)
		g4_report_size(report, "gone_bytes", status->gone_bytes);
}

static void show(const struct g4_set_status *status, const char *directory, const char *why, bool layout, bool json)
{
	const char *advice = advice_on(status);
	struct g4_health of_mount;
	const struct g4_health *health = g4_cli_mount_health(directory, &of_mount) ? &of_mount : NULL;
	struct g4_report report;

	g4_report_start(&report, stdout, json);
	if (directory != NULL)
		g4_report_text(&report, "mounted_on", directory);
	if (directory != NULL && g4_fuse_mount_access(directory) != NULL)
		g4_report_text(&report, "access", g4_fuse_mount_access(directory));
	g4_report_text(&report, "state", state_of(status));
	if (!status->usable && why[0] != 0)
		g4_report_text(&report, "reason", why);
	g4_cli_show_redundancy(&report, status);
	if (json)
		g4_report_count(&report, "copies", status->copies);
	if (status->count > 0)
		g4_report_count(&report, "generation", status->generation);
	else if (health != NULL)
		g4_report_count(&report, "damaged_pages_met", health->damaged_pages);
	if (advice != NULL)
		g4_report_text(&report, "advice", advice);
	show_rebalance(&report, health);
	show_removal(&report, status, health);
	if (status->usable && status->count > 0)
		show_levels(&report, status, health);
	g4_report_list(&report, "disks");
	for (uint32_t d = 0; d < status->count; d++)
		show_disk(&report, d, &status->disks[d], health);
	g4_report_end(&report);
	if (layout && status->usable && status->count > 0)
		g4_cli_show_layout(&report, status);
	g4_report_list(&report, "spares");
	for (uint32_t n = 0; n < status->spare_count; n++) {
		g4_report_object(&report, NULL);
		g4_report_text(&report, "device", status->spares[n].name);
		g4_report_text(&report, "state", g4_disk_state_name(G4_DISK_SPARE));
		g4_report_size(&report, "size_bytes", status->spares[n].bytes);
		g4_report_end(&report);
	}
	g4_report_end(&report);
	g4_report_list(&report, "others");
	for (uint32_t n = 0; n < status->other_count; n++) {
		g4_report_object(&report, NULL);
		g4_report_text(&report, "device", status->others[n].name);
		g4_report_text(&report, "reason", status->others[n].reason);
		g4_report_end(&report);
	}
	g4_report_end(&report);
	g4_report_finish(&report);
}

/* A spare that was taken and failed says still that it is one: what the server of a mount does not have waits for nothing. */
static void drop_unused_spares(struct g4_set_status *status, const char *directory)
{
	uint32_t kept = 0;

	for (uint32_t n = 0; n < status->spare_count; n++) {
		if (g4_cli_mount_uses(directory, status->spares[n].name)) {
			status->spares[kept++] = status->spares[n];
		} else if (status->other_count < G4_MAX_DISKS) {
			status->others[status->other_count].name = status->spares[n].name;
			snprintf(
				status->others[status->other_count++].reason, sizeof(status->others[0].reason),
				"is a spare that this mount does not have: it failed when it was to take a place, or could "
				"not be opened");
		}
	}
	status->spare_count = kept;
}

int g4_cli_status(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"layout", no_argument, NULL, 'l'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	char message[1024] = "", device[4096], **names = NULL;
	static struct g4_set_status status;
	uint32_t count = 0;
	bool json = false, layout = false;

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer == 'j')
			json = true;
		else if (answer == 'l')
			layout = true;
		else
			return g4_cli_bad_option("status", answer, argv);
	}
	if (optind == argc)
		return g4_cli_usage("status", "a device or a directory is needed");
	const char *name = g4_cli_disks(argv + optind, argc - optind), *directory = NULL;
	if (g4_probe_mount_source(name, true, device, sizeof(device))) {
		directory = name;
		name = g4_cli_mount_disks(directory, device, true);
	} else if (g4_cli_no_mount("status", name)) {
		return G4_EXIT_FAILURE;
	} else {
		g4_fuse_wait_for_last_mount(name); /* umount(8) does not */
	}
	int rc = g4_set_names(name, &names, &count);
	if (rc < 0)
		snprintf(message, sizeof(message), "%.512s: %s", name, g4_strerror(rc));
	else
		rc = g4_set_examine((const char *const *)names, count, &status, message, sizeof(message));
	if (rc == 0 && directory != NULL)
		drop_unused_spares(&status, directory);
	if (rc < 0)
		g4_cli_error("status", "%s%s", message, g4c_advice(rc));
	else
		show(&status, directory, message, layout, json);
	free(names);
	return rc == 0 && status.whole && status.other_count == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
