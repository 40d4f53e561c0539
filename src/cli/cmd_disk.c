/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs disk: disks of a file system of several, of a mounted one by its server, else here. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/units_host.h"
#include "cli/cli.h"
#include "cli/health.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "fs/probe_host.h"
#include "fs/rebuild_host.h"
#include "fs/resize_host.h"
#include "fuse/fuse.h"
#include "fuse/ioctl.h"
#include "space/set_host.h"
#include "task/job.h"

const char g4_help_disk[] =
	"rebuild DEVICE...\n"
	"       gpu4fs disk replace|add [-f] DEVICE... NEW\n"
	"       gpu4fs disk add --spare [-f] DEVICE... NEW\n"
	"       gpu4fs disk remove DEVICE... OLD|SPARE\n"
	"       gpu4fs disk rebalance DEVICE...\n"
	"       gpu4fs disk rebuild|online [--rate SIZE] [--now] [--wait] DIRECTORY DEVICE\n"
	"       gpu4fs disk replace [-f] [--rate SIZE] [--now] [--wait] DIRECTORY NEW\n"
	"       gpu4fs disk rebalance [--rate SIZE] [--now] [--wait] DIRECTORY\n"
	"       gpu4fs disk remove [--rate SIZE] [--now] [--wait] DIRECTORY OLD\n"
	"       gpu4fs disk pause|resume|cancel [--rate SIZE] [--wait] DIRECTORY\n"
	"       gpu4fs disk add [--spare] [-f] DIRECTORY NEW\n"
	"       gpu4fs disk remove DIRECTORY SPARE\n"
	"       gpu4fs disk assign --raid LEVEL [--size SIZE] DEVICE...|DIRECTORY\n"
	"       gpu4fs disk offline DIRECTORY DEVICE\n\n"
	"For file systems of several devices; all but 'add', 'remove', 'rebalance' and 'assign'\n"
	"for those with copies of everything, or parity.\n\n"
	"'rebuild' brings a disk up to date that missed writes; of a file system that is not\n"
	"mounted all are named. 'replace' lets NEW take the place of a disk that is missing;\n"
	"those that are there are named. The old one is refused from then on. One that was\n"
	"interrupted goes on where it was. Only what is in use is copied; of a file system that\n"
	"can not be mounted all of the disk.\n\n"
	"Of a file system that is mounted at DIRECTORY that is done in the background, while\n"
	"nobody else works, and goes on after a crash or an unmount; 'gpu4fs status DIRECTORY'\n"
	"says how far it is. 'pause' stops it until 'resume'; 'cancel' gives it up, and the disk is\n"
	"not used. 'offline' stops using a disk that the others can do without, 'online' rebuilds it.\n\n"
	"'add' makes NEW one disk more, mounted or not, and the file system grows over what that\n"
	"makes room for: without copies and parity all of it; with n copies n disks need room, so\n"
	"add as many; with parity one for each parity and two more. Files stay where they are.\n\n"
	"'remove' takes a disk out, whichever it is; all are named, it as the last. What lies on it is\n"
	"moved to the others first, in pieces of 2 MiB and more: it needs room there that nothing lies\n"
	"on, and with copies or parity disks that have no other part of the same. Else it is refused,\n"
	"and nothing is changed. Of a file system that is mounted at DIRECTORY it is done in the\n"
	"background as 'rebuild' is; what was moved until a 'cancel' stays where it is. Rows with\n"
	"parity stay as wide as they are: nothing in use may lie in some that have all disks.\n\n"
	"'rebalance' moves what lies on disks that are fuller than the rest to those that are less so,\n"
	"after disks were added or removed, and lays what is free anew over all of them. With copies\n"
	"a single disk that was added is of use then: 'assign' gives the room to the file system. All\n"
	"are named. Of a file system that is mounted at DIRECTORY it is done in the background as\n"
	"'rebuild' is. What a removal took comes back as far as there is room.\n\n"
	"'add --spare' makes NEW a spare, of a file system with copies or parity: it holds nothing,\n"
	"and takes the place of a disk that fails while the file system is mounted with the spare\n"
	"named, or is missing with -o degraded, as by 'replace'. 'remove' withdraws it, mounted or not.\n\n"
	"'assign' makes room for files of another level ('gpu4fs attr set raid=LEVEL') of what no\n"
	"level has of the disks: 'gpu4fs mkfs --unassigned' leaves some. Both bear the loss of as\n"
	"many disks as the rest: none and 0; 1, of two copies, and 5; of three, and 6; and so on.\n\n"
	"  -f, --force      overwrite what NEW holds\n"
	"      --spare      a spare, no disk more\n"
	"      --raid LEVEL none, 0, 1, 5, 6, triple or quadruple\n"
	"      --size SIZE  about as much, instead of all that there is\n"
	"      --rate SIZE  so many bytes a second, at most; with resume: from now on\n"
	"      --now        do not wait until nobody else works\n"
	"      --wait       return when it is over\n"
	"      --help       show this\n";

struct disk_options {
	uint64_t rate;
	bool has_rate, now, wait, force, spare;
	uint32_t level; /* 0: none was said */
	uint64_t size;
};

/* ------------------------------------------------------------------ of a mount */

struct mounted {
	const char *directory;
	int fd;
	struct g4_ioc_job job;
};

static bool failed(const char *name, const char *message)
{
	g4_cli_error("disk", "%s: %s", name, message);
	return false;
}

/* The command in m->job. False: it said why it could not be asked. */
static bool ask(struct mounted *m)
{
	if (ioctl(m->fd, G4_IOC_JOB, &m->job) == 0)
		return true;
	return failed(m->directory,
		      errno == ENOTTY || errno == EINVAL ? "its server is too old for that" : g4_cli_why(errno));
}

/* The newest job of a kind; NULL: there is none, or it said what is wrong. */
static const struct g4_job_record *newest(struct mounted *m, uint32_t kind)
{
	memset(&m->job, 0, sizeof(m->job));
	m->job.op = G4_CMD_JOB_LIST;
	if (!ask(m))
		return NULL;
	if (m->job.status < 0)
		failed(m->directory, g4_strerror(m->job.status));
	return m->job.status < 0 ? NULL : g4_cli_last_job(&m->job.health, kind);
}

/* What became of one that is over. */
static bool tell_end(const struct mounted *m, const struct g4_job_record *job)
{
	const bool done = job->state == G4_JOB_DONE;
	char text[24];

	if (job->kind == G4_JOB_REBUILD) {
		if (job->state == G4_JOB_FAILED)
			return failed(m->directory, g4_strerror(-(int)job->code));
		printf("disk %u is %s\n", (unsigned)job->arguments[0], done ? "up to date" : "not rebuilt any more");
		return done;
	}
	if (job->state == G4_JOB_FAILED && job->kind == G4_JOB_REMOVE && job->code == G4_E_NOSPC) {
		g4_format_size((job->units - job->done) * G4_PAGE_BYTES, text, sizeof(text));
		g4_cli_error(
			"disk",
			"%s: the other disks have no room for the last %s, or the table of chunks is full; what was "
			"moved stays, and the disk is one of the file system",
			m->directory, text);
		return false;
	}
	if (job->state == G4_JOB_FAILED && job->kind == G4_JOB_REMOVE && job->code == G4_E_PARITY)
		return failed(m->directory,
			      "rows that find no room in one piece do not fit their parity, and become no copies "
			      "as they are: scrub, and give the order again; what was moved stays, and the disk is "
			      "one of the file system");
	if (job->state == G4_JOB_FAILED)
		return failed(m->directory,
			      job->code == G4_E_BUSY  ? "a disk is missing, or being rebuilt" :
			      job->code == G4_E_NOSPC ? "the table of chunks is full; what was moved stays" :
							g4_strerror(-(int)job->code));
	if (job->kind == G4_JOB_REMOVE) {
		puts(done ? "the disk is no disk of the file system any more" :
			    "it was cancelled; the disk is one of the file system");
		return done;
	}
	g4_format_size(job->done * G4_PAGE_BYTES, text, sizeof(text));
	printf("%s of the disks' room %s elsewhere now%s\n", text, job->done == 0 ? "needed to be" : "lie",
	       done ? "" : "; it was cancelled");
	return done;
}

static bool wait_for_end(struct mounted *m, uint32_t kind)
{
	const struct timespec rest = {.tv_nsec = 100 * 1000 * 1000};
	const struct g4_job_record *job;

	while ((job = newest(m, kind)) != NULL && job->state == G4_JOB_RUNNING && !(m->job.health.flags & 2))
		nanosleep(&rest, NULL);
	if (job == NULL)
		return false;
	if (job->state == G4_JOB_RUNNING)
		return failed(m->directory, "has shut down after an error; that goes on with the next mount");
	return tell_end(m, job);
}

/* Names go to the server, which has another working directory. */
static void name_for_server(const char *name, char *to, size_t bytes)
{
	char *full = g4_set_full_name(name);

	snprintf(to, bytes, "%s", full != NULL ? full : name);
	free(full);
}

static int added(const char *name, uint64_t before, uint64_t after)
{
	char text[24];

	g4_format_size(after, text, sizeof(text));
	if (after > before)
		printf("%s is a disk of the file system; it has %s now\n", name, text);
	else
		printf("%s is a disk of the file system; it keeps its size, %s: its level needs more disks with room\n",
		       name, text);
	return G4_EXIT_OK;
}

static int was_assigned(const struct disk_options *options, uint64_t bytes)
{
	char text[24];

	g4_format_size(bytes, text, sizeof(text));
	printf("there is room for files of level %s; the file system has %s now\n", g4_level_name(options->level),
	       text);
	return G4_EXIT_OK;
}

static int spare_changed(const char *name, bool removed)
{
	printf(removed ? "%s is no spare of the file system any more\n" : "%s is a spare of the file system\n", name);
	return G4_EXIT_OK;
}

static uint64_t size_of(const struct mounted *m)
{
	struct statvfs s;

	return fstatvfs(m->fd, &s) == 0 ? (uint64_t)s.f_blocks * s.f_frsize : 0;
}

static uint32_t kind_of(uint32_t what)
{
	return what == G4_DISK_REBALANCE ? G4_JOB_REBALANCE : what == G4_DISK_REMOVE ? G4_JOB_REMOVE : G4_JOB_REBUILD;
}

static const char *why_busy(uint32_t what)
{
	return what == G4_DISK_REBALANCE || what == G4_DISK_REMOVE ?
		       "it is being rebalanced already, or a disk removed" :
		       "a disk is being rebuilt already";
}

static bool order(struct mounted *m, uint32_t what, const char *device, const struct disk_options *options)
{
	memset(&m->job, 0, sizeof(m->job));
	m->job.op = G4_CMD_DISK;
	m->job.mask = what;
	m->job.flags = options->now ? G4_JOB_EAGER : 0;
	m->job.rate = options->rate;
	const uint64_t before = size_of(m);
	if (what == G4_DISK_ASSIGN) {
		m->job.node2 = options->level;
		snprintf(m->job.path, sizeof(m->job.path), "%llu", (unsigned long long)options->size);
	} else if (what != G4_DISK_REBALANCE) {
		name_for_server(device, m->job.path, sizeof(m->job.path));
	}
	if (!ask(m))
		return false;
	if (m->job.status == 0 && what == G4_DISK_ASSIGN)
		return was_assigned(options, size_of(m)) == G4_EXIT_OK;
	if (m->job.status == 0 && what == G4_DISK_ADD)
		return added(device, before, size_of(m)) == G4_EXIT_OK;
	if (m->job.status == 0 && (what == G4_DISK_ADD_SPARE || what == G4_DISK_REMOVE_SPARE))
		return spare_changed(device, what == G4_DISK_REMOVE_SPARE) == G4_EXIT_OK;
	if (m->job.status == 0)
		return what == G4_DISK_OFFLINE || !options->wait || wait_for_end(m, kind_of(what));
	m->job.path[sizeof(m->job.path) - 1] = 0;
	if (m->job.value > 0)
		g4_cli_error("disk", "%s", m->job.path);
	else
		failed(m->directory, m->job.status == -G4_E_BUSY ?
					     why_busy(what) :
				     m->job.status == -G4_E_NOTSUP ?
					     what == G4_DISK_ADD || what == G4_DISK_ASSIGN ?
					     "has one disk, or an engine that can not let it grow; unmount it" :
					     "has one disk" :
					     g4_strerror(m->job.status));
	return false;
}

static bool set(struct mounted *m, uint64_t number, uint32_t what, uint64_t rate)
{
	memset(&m->job, 0, sizeof(m->job));
	m->job.op = G4_CMD_JOB_SET;
	m->job.node2 = number;
	m->job.mask = what;
	m->job.rate = rate;
	if (!ask(m))
		return false;
	return m->job.status == 0 || failed(m->directory, g4_strerror(m->job.status));
}

static bool tell(struct mounted *m, const char *word, const struct disk_options *options)
{
	const struct g4_job_record *job = newest(m, G4_JOB_REBUILD);
	const uint32_t what = strcmp(word, "pause") == 0  ? G4_JOB_PAUSE :
			      strcmp(word, "cancel") == 0 ? G4_JOB_CANCEL :
							    G4_JOB_RESUME;

	if (job == NULL || g4_cli_job_is_over(job)) /* they are not under way together for long */
		job = newest(m, G4_JOB_REBALANCE);
	if (job == NULL || g4_cli_job_is_over(job))
		job = newest(m, G4_JOB_REMOVE);
	if (job == NULL || g4_cli_job_is_over(job))
		return failed(m->directory, "no disk is being rebuilt or removed, and nothing rebalanced");
	const uint64_t number = job->number;
	const uint32_t kind = job->kind;
	if (what == G4_JOB_RESUME && options->has_rate && !set(m, number, G4_JOB_LIMIT, options->rate))
		return false;
	return set(m, number, what, 0) && (what != G4_JOB_RESUME || !options->wait || wait_for_end(m, kind));
}

/* The server can not open what it serves itself: it would wait for itself. True: it said so. */
static bool lies_inside(const struct mounted *m, const char *device)
{
	struct stat mount, file;

	if (!g4_dev_has_path(device) || fstat(m->fd, &mount) != 0 || stat(g4_dev_path(device), &file) != 0 ||
	    mount.st_dev != file.st_dev)
		return false;
	failed(device, "lies in that file system itself");
	return true;
}

/* Whether a device is a disk of the mounted set; else it may be a spare. */
static bool is_disk_of(struct mounted *m, const char *device)
{
	for (uint32_t disk = 0; disk < G4_MAX_DISKS; disk++) {
		memset(&m->job, 0, sizeof(m->job));
		m->job.op = G4_CMD_DISK;
		m->job.mask = G4_DISK_NAME;
		m->job.node2 = disk;
		if (ioctl(m->fd, G4_IOC_JOB, &m->job) != 0 || m->job.status < 0)
			return false;
		m->job.path[sizeof(m->job.path) - 1] = 0;
		if (g4_set_is_same_file(m->job.path, device))
			return true;
	}
	return false;
}

static bool holds_something(const char *device);

static uint32_t order_of(const char *word, bool spare)
{
	static const struct {
		const char *word;
		uint32_t order;
	} orders[] = {{"assign", G4_DISK_ASSIGN},      {"replace", G4_DISK_REPLACE}, {"remove", G4_DISK_REMOVE_SPARE},
		      {"offline", G4_DISK_OFFLINE},    {"add", G4_DISK_ADD},	     {"online", G4_DISK_REBUILD},
		      {"rebalance", G4_DISK_REBALANCE}};
	uint32_t what = G4_DISK_REBUILD;

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		if (strcmp(word, orders[i].word) == 0)
			what = orders[i].order;
	return spare ? G4_DISK_ADD_SPARE : what;
}

static int act_on_mount(const char *directory, const char *word, char **names, int count,
			const struct disk_options *options)
{
	static struct mounted m;
	const bool about_job = strcmp(word, "pause") == 0 || strcmp(word, "resume") == 0 || strcmp(word, "cancel") == 0;
	bool good;

	const bool assigns = strcmp(word, "assign") == 0;
	const bool no_device = about_job || assigns || strcmp(word, "rebalance") == 0;
	if (count != !no_device)
		return g4_cli_usage("disk", no_device ? "a directory is needed, and no device" :
							"a directory and one device are needed");
	const bool adds = strcmp(word, "add") == 0;
	if ((adds || assigns) && (options->has_rate || options->now || options->wait))
		return g4_cli_usage("disk", "--rate, --now and --wait are for what is done in the background");
	if ((adds || strcmp(word, "replace") == 0) && !options->force && holds_something(names[0]))
		return G4_EXIT_FAILURE;
	m.directory = directory;
	m.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m.fd < 0)
		good = failed(directory, g4_cli_why(errno));
	else if (about_job)
		good = tell(&m, word, options);
	else if (strcmp(word, "remove") == 0 && is_disk_of(&m, names[0]))
		good = order(&m, G4_DISK_REMOVE, names[0], options);
	else
		good = (no_device || !lies_inside(&m, names[0])) &&
		       order(&m, order_of(word, options->spare), no_device ? "" : names[0], options);
	if (m.fd >= 0)
		close(m.fd);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

/* ------------------------------------------------------------------ of one that is not mounted */

/* Whether a device may be used. */
static bool is_free(const char *device)
{
	char use[512];

	g4_fuse_wait_for_last_mount(device); /* umount(8) does not */
	if (!g4_probe_in_use(device, use, sizeof(use)))
		return true;
	g4_cli_error("disk", "%s is %s; unmount it first", device, use);
	return false;
}

/* Whether a new device holds something; that it can not be opened is for others to say. */
static bool holds_something(const char *device)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	char unused[512];
	struct g4_dev *dev;

	if (g4_dev_open(device, &open, &dev, unused, sizeof(unused)) < 0)
		return false;
	const char *foreign = g4_probe_foreign(dev);
	g4_dev_close(dev);
	if (foreign != NULL && g4_set_is_spare(device))
		foreign = "a spare of a file system";
	if (foreign != NULL)
		g4_cli_error("disk", "%s holds %s already; --force overwrites it", device, foreign);
	return foreign != NULL;
}

/* Of the size of a file system what some disk has. */
static uint64_t without_gone(const struct g4_dev *set, uint64_t bytes)
{
	struct g4_chunk chunk;

	for (uint32_t n = 0; g4_set_chunk(set, n, &chunk); n++)
		bytes -= g4_chunk_is_gone(&chunk) ? (uint64_t)chunk.bytes : 0;
	return bytes;
}

static int assign(const char *const *names, int count, const struct disk_options *options)
{
	char message[1024] = "";
	struct g4_dev *set = NULL;
	uint64_t bytes = 0;
	int rc = g4_fs_open_unused(names, (uint32_t)count, false, &set, message, sizeof(message));

	if (rc == 0)
		rc = g4_set_assign_to(set, options->level, options->size, message, sizeof(message));
	if (rc == 0)
		rc = g4_resize_device(set, 0, &bytes, message, sizeof(message));
	if (rc == 0)
		bytes = without_gone(set, bytes);
	g4_dev_close(set);
	if (rc == 0)
		return was_assigned(options, bytes);
	g4_cli_error("disk", "%s", message);
	return G4_EXIT_FAILURE;
}

/* The last name becomes a spare, or is one that goes. The others are only looked at, and one of them is enough. */
static int change_spare(const char *const *names, int count, bool removes)
{
	const struct g4_set_options options = {.open.flags = G4_DEV_EXCLUSIVE | G4_DEV_READ_ONLY, .open.queues = 1};
	const char *name = names[count - 1];
	char message[1024] = "";
	struct g4_dev *set = NULL;
	int rc = g4_set_open(names, (uint32_t)count - 1, &options, &set, message, sizeof(message));

	if (rc == 0)
		rc = removes ? g4_set_remove_spare(set, name, message, sizeof(message)) :
			       g4_set_add_spare(set, name, message, sizeof(message));
	g4_dev_close(set);
	if (rc == 0)
		return spare_changed(name, removes);
	g4_cli_error("disk", "%s", message);
	return G4_EXIT_FAILURE;
}

/* What a disk has goes to the others, and it with it; or, of NULL, what the fuller ones have too much of. *bytes as the engine tells it. False: it said why not. */
static bool move_places(const char *const *names, int count, const char *leaves, uint64_t *bytes)
{
	struct g4_progress progress = {0};
	struct g4_dev *set = NULL;
	char message[1024] = "";
	int rc = g4_fs_open_unused(names, (uint32_t)count, false, &set, message, sizeof(message));

	g4_progress_start(&progress, "moving");
	if (rc == 0)
		rc = leaves != NULL ? g4_remove_disk(set, leaves, &progress, bytes, message, sizeof(message)) :
				      g4_balance_disks(set, &progress, bytes, message, sizeof(message));
	g4_progress_clear(&progress);
	g4_dev_close(set);
	if (rc < 0)
		g4_cli_error("disk", "%s", message);
	return rc == 0;
}

/* The last name is the one that goes. */
static int remove_disk(const char *const *names, int count)
{
	uint64_t bytes = 0;
	char text[24];

	if (!move_places(names, count, names[count - 1], &bytes))
		return G4_EXIT_FAILURE;
	g4_format_size(bytes, text, sizeof(text));
	printf("%s is no disk of the file system any more; it has %s now\n", names[count - 1], text);
	return G4_EXIT_OK;
}

/* Room of disks that no chunk has, by their superblocks. */
static uint64_t unassigned(const char *const *names, int count)
{
	static struct g4_set_status status; /* too large for a stack */
	char message[1024];

	if (g4_set_examine(names, (uint32_t)count, &status, message, sizeof(message)) < 0 || !status.usable)
		return 0;
	return status.unassigned_bytes;
}

static int rebalance(const char *const *names, int count)
{
	uint64_t moved = 0;
	char text[24];

	if (!move_places(names, count, NULL, &moved))
		return G4_EXIT_FAILURE;
	g4_format_size(moved, text, sizeof(text));
	if (moved)
		printf("%s were moved; what lies on the disks is spread over all of them\n", text);
	else
		printf("nothing that lies on the disks can be moved to spread it better\n");
	const uint64_t room = unassigned(names, count);
	g4_format_size(room, text, sizeof(text));
	if (room >= 16 * G4_MIB)
		printf("%s of the disks belong to no level: 'gpu4fs disk assign' makes use of them\n", text);
	return G4_EXIT_OK;
}

/* The last name is the new one. */
static int add(const char *const *names, int count)
{
	const char *name = names[count - 1];
	char message[1024] = "";
	struct g4_dev *set = NULL;
	uint64_t before = 0, bytes = 0;
	int rc = g4_fs_open_unused(names, (uint32_t)count - 1, false, &set, message, sizeof(message));

	if (rc == 0) {
		before = without_gone(set, g4_dev_props(set)->size_bytes);
		rc = g4_set_add_to(set, NULL, name, message, sizeof(message));
	}
	if (rc == 0)
		rc = g4_resize_device(set, 0, &bytes, message, sizeof(message));
	if (rc == 0)
		bytes = without_gone(set, bytes);
	g4_dev_close(set);
	if (rc == 0)
		return added(name, before, bytes);
	g4_cli_error("disk", "%s", message);
	return G4_EXIT_FAILURE;
}

static int act_on_devices(const char *word, const char *const *names, int count, const struct disk_options *options)
{
	const bool rebuild = strcmp(word, "rebuild") == 0;
	struct g4_progress progress = {0};
	char message[1024] = "";
	uint32_t disk = 0;

	const bool adds = strcmp(word, "add") == 0, assigns = strcmp(word, "assign") == 0,
		   removes = strcmp(word, "remove") == 0, balances = strcmp(word, "rebalance") == 0;

	if (!rebuild && !adds && !assigns && !removes && !balances && strcmp(word, "replace") != 0)
		return g4_cli_usage("disk", "'%s' is for a file system that is mounted: a directory is needed", word);
	if (options->has_rate || options->now || options->wait)
		return g4_cli_usage("disk", "--rate, --now and --wait are for a file system that is mounted");
	if (count < 2)
		return g4_cli_usage("disk", "at least two devices are needed");
	for (int n = 0; n < count; n++)
		if (!is_free(names[n]))
			return G4_EXIT_FAILURE;
	if (balances)
		return rebalance(names, count);
	if (assigns)
		return assign(names, count, options);
	if (removes)
		return g4_set_is_spare(names[count - 1]) ? change_spare(names, count, true) : remove_disk(names, count);
	if (!rebuild && !options->force && holds_something(names[count - 1]))
		return G4_EXIT_FAILURE;
	if (adds)
		return options->spare ? change_spare(names, count, false) : add(names, count);
	g4_log_set_level(G4_LOG_WARN); /* what the log says at the end is said below */
	g4_progress_start(&progress, "copying");
	const int rc = g4_rebuild_offline(names, (uint32_t)count, rebuild, &progress, &disk, message, sizeof(message));
	g4_progress_clear(&progress);
	if (rc < 0) {
		g4_cli_error("disk", "%s", message);
		return G4_EXIT_FAILURE;
	}
	printf("disk %u is up to date\n", disk);
	return G4_EXIT_OK;
}

static bool is_order(const char *word)
{
	static const char *const words[] = {"rebuild", "replace", "add",   "remove", "rebalance", "assign",
					    "online",  "offline", "pause", "resume", "cancel"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

int g4_cli_disk(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"force", no_argument, NULL, 'f'},	{"rate", required_argument, NULL, 'r'},
		{"now", no_argument, NULL, 'n'},	{"wait", no_argument, NULL, 'w'},
		{"raid", required_argument, NULL, 'l'}, {"size", required_argument, NULL, 's'},
		{"spare", no_argument, NULL, 'p'},	{NULL, 0, NULL, 0}};
	struct disk_options options = {0};
	char source[4096];

	for (int answer; (answer = getopt_long(argc, argv, ":f", long_options, NULL)) != -1;) {
		if (answer == 'r') {
			options.has_rate = true;
			if (g4_parse_size(optarg, &options.rate) < 0)
				return g4_cli_usage("disk", "'%s' is no size", optarg);
		} else if (answer == 'l') {
			options.level = g4_level_of(optarg);
			if (options.level == G4_LEVELS)
				return g4_cli_usage("disk", "there is no level '%s'", optarg);
		} else if (answer == 's') {
			if (g4_parse_size(optarg, &options.size) < 0 || options.size == 0)
				return g4_cli_usage("disk", "'%s' is no size", optarg);
		} else if (answer == 'n') {
			options.now = true;
		} else if (answer == 'w') {
			options.wait = true;
		} else if (answer == 'f') {
			options.force = true;
		} else if (answer == 'p') {
			options.spare = true;
		} else {
			return g4_cli_bad_option("disk", answer, argv);
		}
	}
	const char *word = optind < argc ? argv[optind++] : "";
	if (word[0] == 0)
		return g4_cli_usage("disk", "say what to do, such as rebuild, replace, add or remove, then where");
	if (!is_order(word))
		return g4_cli_usage(
			"disk",
			"'%s' is no order: rebuild, replace, add, remove, rebalance, assign, online, offline, pause, resume and cancel are",
			word);
	const bool assigns = strcmp(word, "assign") == 0;
	if (assigns != (options.level != 0) || (!assigns && options.size != 0))
		return g4_cli_usage("disk",
				    assigns ? "a level is needed: --raid" : "--raid and --size are for 'assign'");
	if (options.spare && strcmp(word, "add") != 0)
		return g4_cli_usage("disk", "--spare is for 'add'");
	if (optind < argc && g4_probe_mount_source(argv[optind], true, source, sizeof(source)))
		return act_on_mount(argv[optind], word, argv + optind + 1, argc - optind - 1, &options);
	if (optind < argc && g4_cli_no_mount("disk", argv[optind]))
		return G4_EXIT_FAILURE;
	return act_on_devices(word, (const char *const *)argv + optind, argc - optind, &options);
}
