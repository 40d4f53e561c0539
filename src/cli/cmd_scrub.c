/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs scrub: of a mounted file system by its server, else here. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/units_host.h"
#include "cli/cli.h"
#include "cli/health.h"
#include "client/explain.h"
#include "engine/engine.h"
#include "fs/probe_host.h"
#include "fuse/fuse.h"
#include "fuse/ioctl.h"
#include "print/report.h"
#include "task/job.h"

const char g4_help_scrub[] =
	"start|pause|resume|cancel|status [--add-sums] [--only PATH] [--rate SIZE] [--now]\n"
	"                    [--wait] [--degraded] [--json] DEVICE|DIRECTORY\n\n"
	"Reads everything that is in use of the file system on DEVICE, or mounted at\n"
	"DIRECTORY, past the cache, and compares it with its checksums: metadata, and files\n"
	"that have sums. What is damaged is counted and named; of two copies (mkfs --raid 1)\n"
	"the good one is written over the bad one, else it changes nothing unless it adds sums.\n\n"
	"Of a mounted file system it runs in the background, while nobody else works, and\n"
	"goes on after a crash or an unmount. Of one that is not mounted it runs here, and\n"
	"'start' and 'resume' return when it is over.\n\n"
	"  start    begin a new one\n"
	"  pause    stop until it is resumed\n"
	"  resume   go on where it was\n"
	"  cancel   end it\n"
	"  status   say how far it is and what the last one has found\n\n"
	"      --add-sums   with start: files that were written before they were to have\n"
	"                   sums, or with another algorithm, get those of now\n"
	"                   (gpu4fs tune --checksum, gpu4fs attr set checksum=)\n"
	"      --only PATH  with start: this file or directory alone, with what is below it;\n"
	"                   the path begins at the file system's root\n"
	"      --rate SIZE  so many bytes a second, at most; with resume: from now on\n"
	"      --now        do not wait until nobody else works\n"
	"      --wait       return when it is over\n"
	"      --degraded   of one that is not mounted: although a disk is missing, where the\n"
	"                   others have a copy of everything\n"
	"      --json       print one JSON object\n"
	"      --help       show this\n\n"
	"Exit status: 0 nothing is damaged, as far as it is known; 1 something is, or it could\n"
	"not be done; 2 wrong usage.\n";

struct target { /* one of the two */
	int fd;
	struct g4_engine *engine;
	const char *name;
};

struct scrub_options {
	uint64_t rate;
	const char *only; /* NULL: everything */
	bool has_rate, add_sums, now, wait, degraded, json;
};

static bool failed(const struct target *target, const char *message)
{
	g4_cli_error("scrub", "%s: %s", target->name, message);
	return false;
}

/* Runs a command there; its status stands in the job. False: it said why it could not be asked. */
static bool ask(const struct target *target, struct g4_ioc_job *job)
{
	struct g4_cmd cmd;

	if (target->engine == NULL) {
		if (ioctl(target->fd, G4_IOC_JOB, job) == 0)
			return true;
		return failed(target, errno == ENOTTY ? "its server is too old to scrub it" : g4_cli_why(errno));
	}
	g4_ioc_job_command(job, &cmd);
	job->status = g4_engine_execute(target->engine, &cmd);
	job->value = cmd.value;
	return true;
}

static bool list(const struct target *target, struct g4_ioc_job *job)
{
	memset(job, 0, sizeof(*job));
	job->op = G4_CMD_JOB_LIST;
	if (!ask(target, job))
		return false;
	return job->status == 0 || failed(target, g4_strerror(job->status));
}

/* The scrub that was started last, or NULL. */
static const struct g4_job_record *last_scrub(const struct g4_health *health)
{
	return g4_cli_last_job(health, G4_JOB_SCRUB);
}

/* ------------------------------------------------------------------ printing */

static void print_finding(const struct target *target, struct g4_report *report, const struct g4_finding *finding)
{
	static struct g4_ioc_job job;
	const bool metadata = finding->page == G4_FINDING_METADATA, rows = finding->code == G4_E_PARITY;

	memset(&job, 0, sizeof(job));
	job.op = G4_CMD_PATH;
	job.node = finding->inode;
	job.node2 = finding->dir;
	const bool named = finding->inode != 0 && ask(target, &job) && job.status == 0;
	if (report->json) {
		g4_report_object(report, NULL);
		if (named)
			g4_report_name(report, "path", job.path, job.value);
		if (finding->inode != 0)
			g4_report_hex(report, "inode", finding->inode);
		g4_report_text(report, "what", rows ? "parity" : metadata ? "metadata" : "data");
		if (!metadata) {
			g4_report_count(report, "offset", finding->page * G4_PAGE_BYTES);
			g4_report_count(report, "bytes", finding->pages * G4_PAGE_BYTES);
		}
		g4_report_hex(report, "address", finding->address);
		g4_report_text(report, "text", g4_strerror(-(int)finding->code));
		g4_report_end(report);
		return;
	}
	printf("  ");
	if (named)
		g4_print_name(stdout, job.path, job.value);
	else if (finding->inode != 0)
		printf("inode 0x%" PRIx64, finding->inode);
	else
		printf("the file system's own");
	if (rows)
		printf(": rows from 0x%" PRIx64 " on", finding->address);
	else if (metadata)
		printf(": metadata at 0x%" PRIx64, finding->address);
	else
		printf(": bytes %" PRIu64 " to %" PRIu64, finding->page * G4_PAGE_BYTES,
		       (finding->page + finding->pages) * G4_PAGE_BYTES - 1);
	printf(": %s\n", g4_strerror(-(int)finding->code));
}

static void print_job(struct g4_report *report, const struct g4_job_record *job)
{
	const uint32_t progress = g4_job_progress(job->done, job->units, job->state == G4_JOB_DONE);
	const uint64_t left = g4_cli_job_is_over(job) ? 0 : g4_job_left_ns(job->done, job->units, job->run_ns);
	char bytes[24];

	if (report->json) {
		g4_report_object(report, "scrub");
		g4_report_count(report, "number", job->number);
		g4_report_text(report, "state", g4_cli_job_state(job));
		if (job->state == G4_JOB_FAILED)
			g4_report_text(report, "error", g4_strerror(-(int)job->code));
		g4_report_real(report, "percent", progress / 100.0);
		if (left != UINT64_MAX)
			g4_report_real(report, "seconds_left", (double)left / 1e9);
		g4_report_count(report, "bytes_read", job->bytes);
		g4_report_count(report, "rate", job->rate);
		g4_report_real(report, "seconds", (double)job->run_ns / 1e9);
		g4_report_count(report, "damaged_pages", job->errors);
		g4_report_count(report, "moved_and_not_read", job->skipped);
		g4_report_count(report, "pages_given_sums", job->summed);
		g4_report_bool(report, "of_everything", job->arguments[0] == 0);
		g4_report_time(report, "started_ns", job->started_ns);
		g4_report_end(report);
		return;
	}
	g4_format_size(job->bytes, bytes, sizeof(bytes));
	printf("scrub %" PRIu64 ": %s, %u.%02u %%, %s read", job->number, g4_cli_job_state(job), progress / 100,
	       progress % 100, bytes);
	if (!g4_cli_job_is_over(job) && left != UINT64_MAX)
		printf(", %" PRIu64 " s left", left / UINT64_C(1000000000));
	if (job->state == G4_JOB_FAILED)
		printf(": %s", g4_strerror(-(int)job->code));
	printf("\n%" PRIu64 " damaged page%s found\n", job->errors, job->errors == 1 ? "" : "s");
	if (job->flags & G4_JOB_ADD_SUMS)
		printf("%" PRIu64 " pages were given sums\n", job->summed);
	if (job->skipped > 0)
		printf("%" PRIu64 " names were moved while it ran and not read: only another scrub tells of them\n",
		       job->skipped);
}

/* Whether nothing is damaged, as far as it is known. */
static bool print_status(const struct target *target, const struct scrub_options *options)
{
	static struct g4_ioc_job job;
	struct g4_report report;

	if (!list(target, &job))
		return false;
	const struct g4_health *health = &job.health;
	const struct g4_job_record *last = last_scrub(health);
	g4_report_start(&report, stdout, options->json);
	if (last != NULL)
		print_job(&report, last);
	else if (!options->json)
		printf("there was no scrub\n");
	if (options->json) {
		g4_report_count(&report, "damaged_pages_met", health->damaged_pages);
		g4_report_count(&report, "damaged_pages_not_listed", health->findings_lost);
		g4_report_count(&report, "mended_pages_since_mount", health->mended_since_mount);
		g4_report_list(&report, "findings");
	} else {
		if (health->mended_since_mount > 0)
			printf("%" PRIu64 " pages of data and metadata were mended since it was mounted\n",
			       health->mended_since_mount);
		if (health->damaged_pages > 0)
			printf("%" PRIu64 " damaged pages were met since the file system was made\n",
			       health->damaged_pages);
	}
	for (uint32_t i = 0; i < G4_FINDINGS; i++)
		if (health->findings[i].code != 0)
			print_finding(target, &report, &health->findings[i]);
	if (options->json) {
		g4_report_end(&report);
		g4_report_finish(&report);
	} else if (health->findings_lost > 0) {
		printf("  and %" PRIu64 " more pages\n", health->findings_lost);
	}
	return last == NULL || (last->errors == 0 && last->state != G4_JOB_FAILED);
}

/* ------------------------------------------------------------------ doing */

static bool refused(const char *path, const char *message)
{
	g4_cli_error("scrub", "--only /%s: %s", path, message);
	return false;
}

/* The inode behind a path of the file system. False: there is none, which was said. */
static bool find_inode(const struct target *target, const char *path, uint64_t *ino)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE, .node = G4_NODE_ROOT, .flags = G4_RESOLVE_NOFOLLOW, .attr = &attr};
	struct stat root, st;
	int rc;

	path += strspn(path, "/");
	if (target->engine == NULL) {
		rc = fstatat(target->fd, path[0] != 0 ? path : ".", &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
		if (rc != 0 || fstat(target->fd, &root) < 0)
			return refused(path, g4_cli_why(rc != 0 ? rc : errno));
		*ino = st.st_ino;
		return st.st_dev == root.st_dev || failed(target, "another file system is mounted there");
	}
	cmd.name = path;
	cmd.name_bytes = (uint16_t)g4_min64(strlen(path), UINT16_MAX);
	if (cmd.name_bytes == 0)
		cmd.op = G4_CMD_GETATTR;
	rc = g4_engine_execute(target->engine, &cmd);
	*ino = attr.ino;
	return rc == 0 || refused(path, g4_strerror(rc));
}

static bool start(const struct target *target, const struct scrub_options *options)
{
	static struct g4_ioc_job job;

	memset(&job, 0, sizeof(job));
	job.op = G4_CMD_JOB_START;
	if (options->only != NULL && !find_inode(target, options->only, &job.node))
		return false;
	job.node2 = G4_JOB_SCRUB;
	job.flags = (options->now ? G4_JOB_EAGER : 0) | (options->add_sums ? G4_JOB_ADD_SUMS : 0);
	job.rate = options->rate;
	if (!ask(target, &job))
		return false;
	if (job.status == -G4_E_INVAL && options->add_sums)
		return failed(target, "its server is too old to add sums");
	if (job.status == -G4_E_BUSY)
		return failed(target, "a scrub is there already: pause, resume or cancel it");
	return job.status == 0 || failed(target, g4_strerror(job.status));
}

/* The number of the scrub that goes on. False: there is none, which was said. */
static bool find_one(const struct target *target, uint64_t *number)
{
	static struct g4_ioc_job job;

	if (!list(target, &job))
		return false;
	const struct g4_job_record *last = last_scrub(&job.health);
	if (last == NULL || g4_cli_job_is_over(last))
		return failed(target, "there is no scrub that goes on");
	*number = last->number;
	return true;
}

/* One that went on when it was looked for may be over by now: then there is nothing left to be done. */
static bool has_ended(const struct target *target, uint64_t number)
{
	static struct g4_ioc_job job;
	const struct g4_job_record *last = list(target, &job) ? last_scrub(&job.health) : NULL;

	return last != NULL && last->number >= number && (last->number > number || g4_cli_job_is_over(last));
}

static bool set(const struct target *target, uint64_t number, uint32_t order, uint64_t rate)
{
	static struct g4_ioc_job job;

	memset(&job, 0, sizeof(job));
	job.op = G4_CMD_JOB_SET;
	job.node2 = number;
	job.mask = order;
	job.rate = rate;
	if (!ask(target, &job))
		return false;
	return job.status == 0 ||
	       ((job.status == -G4_E_INVAL || job.status == -G4_E_NOENT) && has_ended(target, number)) ||
	       failed(target, g4_strerror(job.status));
}

static bool wait_for_end(const struct target *target)
{
	static struct g4_ioc_job job;
	const struct timespec rest = {.tv_nsec = 100 * 1000 * 1000};

	for (;;) {
		if (!list(target, &job))
			return false;
		const struct g4_job_record *last = last_scrub(&job.health);
		if (last == NULL || last->state != G4_JOB_RUNNING)
			return true;
		nanosleep(&rest, NULL);
	}
}

/* number: of the scrub that goes on, 0 for start and status. */
static bool act(const struct target *target, const char *what, uint64_t number, const struct scrub_options *options)
{
	bool good = true;

	if (strcmp(what, "start") == 0)
		good = start(target, options);
	else if (strcmp(what, "pause") == 0)
		good = set(target, number, G4_JOB_PAUSE, 0);
	else if (strcmp(what, "cancel") == 0)
		good = set(target, number, G4_JOB_CANCEL, 0);
	else if (strcmp(what, "resume") == 0)
		good = (!options->has_rate || set(target, number, G4_JOB_LIMIT, options->rate)) &&
		       set(target, number, G4_JOB_RESUME, 0);
	const bool goes_on = strcmp(what, "start") == 0 || strcmp(what, "resume") == 0;
	if (good && (options->wait || (goes_on && target->engine != NULL)))
		good = wait_for_end(target);
	return good && print_status(target, options);
}

static bool is_for_one(const char *what)
{
	return strcmp(what, "start") != 0 && strcmp(what, "status") != 0;
}

static bool act_on_mount(const char *directory, const char *what, const struct scrub_options *options)
{
	struct target target = {.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .name = directory};

	if (target.fd < 0)
		return failed(&target, g4_cli_why(errno));
	uint64_t number = 0;
	const bool good = (!is_for_one(what) || find_one(&target, &number)) && act(&target, what, number, options);
	close(target.fd);
	return good;
}

static bool mount_device(struct target *target, uint32_t flags)
{
	struct g4_mount_options mount = {.flags = flags};
	char message[512] = "";
	const int rc = g4_engine_mount(&target->name, 1, &mount, &target->engine, message, sizeof(message));

	if (rc == 0)
		return true;
	g4c_explain(rc, target->name, message, sizeof(message));
	g4_cli_error("scrub", "%s", message);
	return false;
}

/* A scrub that was not paused goes on as soon as it is mounted, and may be over before it is asked for: so it is looked for before. */
static bool act_on_device(const char *device, const char *what, const struct scrub_options *options)
{
	struct target target = {.fd = -1, .name = device};
	uint64_t number = 0;

	g4_fuse_wait_for_last_mount(device); /* umount(8) does not */
	if (is_for_one(what)) {
		if (!mount_device(&target, G4_MOUNT_READ_ONLY))
			return false;
		const bool found = find_one(&target, &number);
		(void)g4_engine_unmount(target.engine);
		if (!found)
			return false;
	}
	if (!mount_device(&target, strcmp(what, "status") == 0 ? G4_MOUNT_READ_ONLY :
				   options->degraded	       ? G4_MOUNT_DEGRADED :
								 0))
		return false;
	const bool good = act(&target, what, number, options);
	const int rc = g4_engine_unmount(target.engine);
	return rc == 0 ? good : failed(&target, g4_strerror(rc));
}

static bool is_action(const char *word)
{
	static const char *const words[] = {"start", "pause", "resume", "cancel", "status"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

int g4_cli_scrub(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"add-sums", no_argument, NULL, 'a'},	{"only", required_argument, NULL, 'o'},
		{"rate", required_argument, NULL, 'r'}, {"now", no_argument, NULL, 'n'},
		{"wait", no_argument, NULL, 'w'},	{"degraded", no_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},	{NULL, 0, NULL, 0}};
	struct scrub_options options = {0};
	char source[4096];

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer == 'r') {
			options.has_rate = true;
			if (g4_parse_size(optarg, &options.rate) < 0)
				return g4_cli_usage("scrub", "'%s' is no size", optarg);
		} else if (answer == 'a') {
			options.add_sums = true;
		} else if (answer == 'o') {
			options.only = optarg;
		} else if (answer == 'n') {
			options.now = true;
		} else if (answer == 'w') {
			options.wait = true;
		} else if (answer == 'd') {
			options.degraded = true;
		} else if (answer == 'j') {
			options.json = true;
		} else {
			return g4_cli_bad_option("scrub", answer, argv);
		}
	}
	if (argc - optind != 2)
		return g4_cli_usage(
			"scrub",
			"say what to do (start, status, pause, resume or cancel), then one device or directory");
	const char *what = argv[optind], *name = argv[optind + 1];
	if (!is_action(what))
		return g4_cli_usage("scrub", "'%s' is none of start, pause, resume, cancel and status", what);
	if (options.add_sums && strcmp(what, "start") != 0)
		return g4_cli_usage("scrub", "--add-sums is for 'start': one that is there keeps what it was told");
	if (options.only != NULL && strcmp(what, "start") != 0)
		return g4_cli_usage("scrub", "--only is for 'start': one that is there keeps what it was told");
	const bool mounted = g4_probe_mount_source(name, true, source, sizeof(source));
	if (!mounted && g4_cli_no_mount("scrub", name))
		return G4_EXIT_FAILURE;
	const bool good = mounted ? act_on_mount(name, what, &options) : act_on_device(name, what, &options);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
