/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance of tracefs is a directory that is made, and gone when it is removed: buffers, events and filters of its own. What it
 * writes is text for people, of which a line is
 *
 *   dd-23015   [000] ..... 63773.947719: block_bio_queue: 7,1 WS 263176 + 6144 [dd]
 *
 * The name of a program has 15 bytes at most, of any kind, so that it cannot have the event's name in it. An instance that a killed
 * process left is removed by the next one: its name has the process's number, and it cannot be removed while its pipe is open.
 */
#include "trace/block.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECTOR_BYTES UINT64_C(512)
#define EVENT "block_bio_queue"
#define MARK ": " EVENT ": "
#define INSTANCE "gpu4fs." /* and the process's number */
/* Of all processors' buffers, and at least of one: a request takes some 60 bytes. */
#define BUFFERS_KIB 65536l
#define BUFFER_KIB 512l

/* ------------------------------------------------------------------ text */

static bool take_number(const char **at, char behind, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*number = strtoull(*at, &end, 10);
	if (errno != 0 || *end != behind)
		return false;
	*at = end + 1;
	return true;
}

/* The operation of a request: r, w, or 0 for a flush, a discard and others. In front of it may be F: a flush that comes first. */
static char operation(const char *flags, size_t length)
{
	const char op = length > 1 && flags[0] == 'F' ? flags[1] : flags[0];

	return op == 'R' ? 'r' : op == 'W' ? 'w' : 0;
}

/* What follows the mark: MAJOR,MINOR FLAGS SECTOR + SECTORS [PROGRAM]. False: it is no such thing. *some: it is an access. */
static bool parse_request(const struct g4_block_text *text, const char *at, struct g4_trace_access *access, bool *some)
{
	uint64_t number, sector, sectors;

	*some = false;
	if (!take_number(&at, ',', &number) || !take_number(&at, ' ', &number))
		return false;
	const size_t length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	const char op = operation(at, length);
	if (length == 0 || at[length] != ' ')
		return false;
	at += length + 1;
	if (!take_number(&at, ' ', &sector) || strncmp(at, "+ ", 2) != 0)
		return false;
	at += 2;
	if (!take_number(&at, ' ', &sectors) || *at != '[')
		return false;
	if (op == 0 || sectors == 0)
		return true;
	*some = true;
	return sector >= text->first_sector && sector - text->first_sector <= G4_TRACE_MAX_BYTES / SECTOR_BYTES &&
	       sectors <= G4_TRACE_MAX_BYTES / SECTOR_BYTES &&
	       g4_trace_access_of(0, (sector - text->first_sector) * SECTOR_BYTES, sectors * SECTOR_BYTES, op == 'w',
				  access);
}

/* CPU:1 [LOST 27 EVENTS], or without the number. */
static void count_lost(struct g4_block_text *text, const char *line)
{
	const char *at = strstr(line, "[LOST ");
	uint64_t number;

	if (strncmp(line, "CPU:", 4) != 0 || !at || !strstr(at, "EVENTS]"))
		return;
	at += strlen("[LOST ");
	if (!take_number(&at, ' ', &number) || number >= G4_BLOCK_LOST_SOME - text->lost)
		text->lost = G4_BLOCK_LOST_SOME;
	else
		text->lost += number;
}

static void take_line(struct g4_block_text *text)
{
	struct g4_trace_access access;
	bool some = false;

	const char *mark = strstr(text->line, MARK);
	if (!mark) {
		count_lost(text, text->line);
		return; /* others are comments, and what is behind a line's end in the name of a program */
	}
	if (text->too_long || !parse_request(text, mark + strlen(MARK), &access, &some)) {
		if (text->bad++ == 0)
			memcpy(text->bad_line, text->line, sizeof(text->bad_line));
	} else if (some) {
		g4_trace_write(text->writer, &access);
		text->accesses++;
	}
}

void g4_block_take(struct g4_block_text *text, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n') {
			text->line[text->length] = 0;
			take_line(text);
			text->length = 0;
			text->too_long = false;
		} else if (text->length == sizeof(text->line) - 1) {
			text->too_long = true;
		} else {
			text->line[text->length++] = bytes[i] ? bytes[i] : '?';
		}
	}
}

/* ------------------------------------------------------------------ tracefs */

struct recorder {
	struct g4_block_text text;
	uint64_t dev;	  /* of the whole disk, as filters have it */
	uint64_t sectors; /* of a partition; 0: it is a disk */
	char path[64];	  /* the instance's */
	bool made;
	int folder, pipe, signals; /* descriptors: of the instance, of what it prints, of signals */
	sigset_t before;
	char *message;
};

__attribute__((format(printf, 3, 4))) static int fail(struct recorder *recorder, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(recorder->message, G4_BLOCK_MESSAGE_BYTES, format, arguments);
	va_end(arguments);
	return -error;
}

/* A number in a file of sysfs below the device's folder; false: there is none. */
static bool read_number(dev_t dev, const char *name, char behind, uint64_t *number)
{
	char path[96], line[64] = "";
	const char *at = line;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(dev), minor(dev), name);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	const bool good = fgets(line, sizeof(line), file) && take_number(&at, behind, number);
	fclose(file);
	return good;
}

/* A partition's disk: MAJOR:MINOR. */
static bool read_disk(dev_t dev, uint64_t *disk)
{
	char path[96];
	uint64_t minor_number;
	int end = 0;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", major(dev), minor(dev));
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	const bool good = fscanf(file, "%" SCNu64 ":%" SCNu64 "%n", disk, &minor_number, &end) == 2 && end > 0;
	fclose(file);
	*disk = *disk << 20 | minor_number;
	return good;
}

static int find_device(struct recorder *recorder, const char *name)
{
	struct stat st;
	uint64_t partition;

	if (stat(name, &st) != 0)
		return fail(recorder, errno, "%s: %s", name, strerror(errno));
	if (!S_ISBLK(st.st_mode))
		return fail(recorder, ENOTBLK, "%s: is no block device", name);
	recorder->dev = (uint64_t)major(st.st_rdev) << 20 | minor(st.st_rdev);
	if (!read_number(st.st_rdev, "partition", '\n', &partition))
		return 0;
	if (!read_number(st.st_rdev, "start", '\n', &recorder->text.first_sector) ||
	    !read_number(st.st_rdev, "size", '\n', &recorder->sectors) || !read_disk(st.st_rdev, &recorder->dev))
		return fail(recorder, EIO, "%s: /sys does not say where this partition begins", name);
	return 0;
}

static void remove_old(const char *instances)
{
	DIR *folder = opendir(instances);

	if (!folder)
		return;
	for (const struct dirent *entry; (entry = readdir(folder));) {
		if (strncmp(entry->d_name, INSTANCE, strlen(INSTANCE)) != 0)
			continue;
		const long pid = strtol(entry->d_name + strlen(INSTANCE), NULL, 10);
		if (pid > 0 && pid <= INT_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	}
	closedir(folder);
}

static int make_instance(struct recorder *recorder)
{
	static const char *const places[] = {"/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (access(places[i], F_OK) != 0)
			continue;
		remove_old(places[i]);
		snprintf(recorder->path, sizeof(recorder->path), "%s/" INSTANCE "%ld", places[i], (long)getpid());
		if (mkdir(recorder->path, 0700) != 0)
			return fail(recorder, errno, "%s: %s", recorder->path, strerror(errno));
		recorder->made = true;
		recorder->folder = open(recorder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (recorder->folder < 0)
			return fail(recorder, errno, "%s: %s", recorder->path, strerror(errno));
		return 0;
	}
	if (geteuid() != 0)
		return fail(recorder, EPERM, "the kernel tells root alone what reaches a device");
	return fail(recorder, ENOENT,
		    "/sys/kernel/tracing: tracefs is not there (mount -t tracefs none /sys/kernel/tracing)");
}

__attribute__((format(printf, 3, 4))) static int set(struct recorder *recorder, const char *name, const char *format,
						     ...)
{
	char value[128];
	va_list arguments;
	int error = 0;

	va_start(arguments, format);
	const int length = vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	const int fd = openat(recorder->folder, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, (size_t)length) != length)
		error = errno ? errno : EIO;
	if (fd >= 0)
		close(fd);
	return error ? fail(recorder, error, "%s/%s: %s", recorder->path, name, strerror(error)) : 0;
}

static int begin(struct recorder *recorder)
{
	const long processors = sysconf(_SC_NPROCESSORS_CONF);
	const long part = BUFFERS_KIB / (processors > 0 ? processors : 1);
	char filter[128];
	int rc = make_instance(recorder);

	if (rc < 0)
		return rc;
	if (faccessat(recorder->folder, "events/block/" EVENT, F_OK, 0) != 0)
		return fail(recorder, ENOTSUP, "%s: this kernel does not tell what reaches a device (" EVENT ")",
			    recorder->path);
	if (recorder->sectors)
		snprintf(filter, sizeof(filter), "dev == %" PRIu64 " && sector >= %" PRIu64 " && sector < %" PRIu64,
			 recorder->dev, recorder->text.first_sector, recorder->text.first_sector + recorder->sectors);
	else
		snprintf(filter, sizeof(filter), "dev == %" PRIu64, recorder->dev);
	rc = set(recorder, "buffer_size_kb", "%ld", part > BUFFER_KIB ? part : BUFFER_KIB);
	if (rc == 0 && faccessat(recorder->folder, "buffer_percent", F_OK, 0) == 0)
		rc = set(recorder, "buffer_percent", "10"); /* when it wakes us */
	if (rc == 0)
		rc = set(recorder, "events/block/" EVENT "/filter", "%s", filter);
	if (rc < 0)
		return rc;
	recorder->pipe = openat(recorder->folder, "trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (recorder->pipe < 0)
		return fail(recorder, errno, "%s/trace_pipe: %s", recorder->path, strerror(errno));
	return set(recorder, "events/block/" EVENT "/enable", "1");
}

static void end(struct recorder *recorder)
{
	if (recorder->pipe >= 0)
		close(recorder->pipe);
	if (recorder->folder >= 0)
		close(recorder->folder);
	if (recorder->made)
		rmdir(recorder->path);
}

/* All that is there at the moment. */
static int drain(struct recorder *recorder)
{
	char bytes[16384];

	for (;;) {
		const ssize_t count = read(recorder->pipe, bytes, sizeof(bytes));
		if (count > 0)
			g4_block_take(&recorder->text, bytes, (size_t)count);
		else if (count == 0 || errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			return fail(recorder, errno, "%s/trace_pipe: %s", recorder->path, strerror(errno));
	}
}

/* ------------------------------------------------------------------ the command */

/* The child's number, or a negative errno of the command: it could not be run. */
static int start(const struct recorder *recorder, char **command)
{
	int failed[2], error;

	if (pipe2(failed, O_CLOEXEC) != 0)
		return -errno;
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		sigprocmask(SIG_SETMASK, &recorder->before, NULL);
		execvp(command[0], command);
		error = errno;
		(void)!write(failed[1], &error, sizeof(error));
		_exit(127);
	}
	error = child < 0 ? errno : 0;
	close(failed[1]);
	if (child > 0 && read(failed[0], &error, sizeof(error)) == (ssize_t)sizeof(error))
		waitpid(child, NULL, 0);
	close(failed[0]);
	return error ? -error : child;
}

/* Until the command has ended: its status as of waitpid(2). What is read in vain goes on to be waited for. */
static int follow(struct recorder *recorder, pid_t child, int *status)
{
	struct pollfd wanted[2] = {{.fd = recorder->pipe, .events = POLLIN},
				   {.fd = recorder->signals, .events = POLLIN}};
	int rc = 0;

	for (;;) {
		struct signalfd_siginfo told;
		if (poll(wanted, 2, -1) < 0 && errno != EINTR)
			return fail(recorder, errno, "poll: %s", strerror(errno));
		if (rc == 0 && wanted[0].revents)
			rc = drain(recorder);
		if (rc < 0)
			wanted[0].fd = -1; /* the command goes on without us */
		while (read(recorder->signals, &told, sizeof(told)) == (ssize_t)sizeof(told))
			if (told.ssi_signo != SIGCHLD)
				kill(child, (int)told.ssi_signo);
		if (waitpid(child, status, WNOHANG) == child)
			return rc;
	}
}

static int finish(struct recorder *recorder, const char *device)
{
	const struct g4_block_text *text = &recorder->text;
	int rc = set(recorder, "tracing_on", "0");

	if (rc == 0)
		rc = drain(recorder);
	if (rc < 0)
		return rc;
	if (text->lost == G4_BLOCK_LOST_SOME)
		return fail(recorder, EIO, "%s: the kernel had no room for some requests, which are missing", device);
	if (text->lost)
		return fail(recorder, EIO, "%s: the kernel had no room for %" PRIu64 " requests, which are missing",
			    device, text->lost);
	if (text->bad)
		return fail(recorder, EIO, "%s: %" PRIu64 " requests are not understood, the first of them: %.200s",
			    device, text->bad, text->bad_line);
	return 0;
}

int g4_block_command(struct g4_block_record *record, char **command, bool *ran, char message[G4_BLOCK_MESSAGE_BYTES])
{
	struct recorder recorder = {
		.text.writer = record->writer, .folder = -1, .pipe = -1, .signals = -1, .message = message};
	sigset_t signals;
	int status = 0;

	*ran = false;
	message[0] = 0;
	record->accesses = 0;
	int rc = find_device(&recorder, record->device);
	if (rc == 0)
		rc = begin(&recorder);
	if (rc < 0) {
		end(&recorder);
		return rc;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &recorder.before);
	recorder.signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	rc = recorder.signals < 0 ? fail(&recorder, errno, "signalfd: %s", strerror(errno)) : start(&recorder, command);
	if (rc > 0) {
		*ran = true;
		rc = follow(&recorder, rc, &status);
		if (rc == 0)
			rc = finish(&recorder, record->device);
	}
	if (recorder.signals >= 0)
		close(recorder.signals);
	sigprocmask(SIG_SETMASK, &recorder.before, NULL);
	end(&recorder);
	record->accesses = recorder.text.accesses;
	if (rc < 0)
		return rc;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
