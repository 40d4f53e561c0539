/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance of tracefs is a directory that is made, and gone when it is removed: buffers, events and filters of its own. What it
 * writes is text for people, of which a line is
 *
 *   dd-23015   [000] ..... 63773.947719: block_bio_queue: 7,1 WS 263176 + 6144 [dd]
 *
 * The name of a program has 15 bytes at most, of any kind: the event's name fits, but not with the colons and spaces around it.
 *
 * An instance that a killed process left is removed by the next one. Which those are the kernel says: an instance cannot be removed
 * while its pipe is open. From its making until then whoever makes one holds a lock on the folder of instances. The number of the process
 * in the name is for people, since one of another namespace may have it too.
 *
 * Signals that would end this process are blocked or ignored as long as there is an instance: what is left to a killed one is SIGKILL, and
 * those of its own mistakes. They are let in again when the trace is written and the instance is gone.
 */
#include "trace/block.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/signals.h"

#define SECTOR_BYTES UINT64_C(512)
#define EVENT "block_bio_queue"
#define MARK ": " EVENT ": "
#define INSTANCE "gpu4fs." /* the process's number, and what makes it one of its own */
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

/*
 * The operation of a request: r, w, or 0 for a flush, a discard and others. In front of it may be F: a flush that comes first. Zeroes that
 * the device is asked to write (WZ, and N of kernels before) are no data of a cache. An append to a zone (ZA) is a write, of which the
 * kernel knows here only where the zone begins.
 */
static char operation(const char *flags, size_t length)
{
	const char *op = length > 1 && flags[0] == 'F' ? flags + 1 : flags;

	if (op[0] == 'Z')
		return op[1] == 'A' ? 'w' : 0;
	if (op[0] == 'W')
		return op[1] == 'Z' ? 0 : 'w';
	return op[0] == 'R' ? 'r' : 0;
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

static void add_lost(struct g4_block_text *text, uint64_t number)
{
	text->lost = number >= G4_BLOCK_LOST_SOME - text->lost ? G4_BLOCK_LOST_SOME : text->lost + number;
}

void g4_block_take_count(struct g4_block_text *text, const char *line)
{
	static const char *const names[] = {"commit overrun: ", "dropped events: "};
	uint64_t number;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *at = line + strlen(names[i]);
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			add_lost(text, take_number(&at, '\n', &number) ? number : G4_BLOCK_LOST_SOME);
	}
}

/* CPU:1 [LOST 27 EVENTS], or without the number. */
static void count_lost(struct g4_block_text *text, const char *line)
{
	const char *at = strstr(line, "[LOST ");
	uint64_t number;

	if (strncmp(line, "CPU:", 4) != 0 || !at || !strstr(at, "EVENTS]"))
		return;
	at += strlen("[LOST ");
	add_lost(text, take_number(&at, ' ', &number) ? number : G4_BLOCK_LOST_SOME);
}

static void take_line(struct g4_block_text *text)
{
	struct g4_trace_access access;
	bool some = false;

	const char *mark = strstr(text->line, MARK);
	if (!mark && !strstr(text->line, EVENT)) {
		count_lost(text, text->line);
		return; /* others are comments, and what is behind a line's end in the name of a program */
	}
	if (!mark || text->too_long || !parse_request(text, mark + strlen(MARK), &access, &some)) {
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
	char path[72];	  /* the instance's */
	bool made;
	int folder, pipe, signals; /* descriptors: of the instance, of what it prints, of signals */
	struct g4_trace_writer writer;
	struct g4_signals before;
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

/* All of ours that nobody reads. */
static void remove_old(const char *instances)
{
	DIR *folder = opendir(instances);

	if (!folder)
		return;
	for (const struct dirent *entry; (entry = readdir(folder));)
		if (strncmp(entry->d_name, INSTANCE, strlen(INSTANCE)) == 0)
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	closedir(folder);
}

/* *lock: a descriptor with the lock under which instances are made, to be closed; -1: there is none. */
static int make_instance(struct recorder *recorder, int *lock)
{
	static const char *const places[] = {"/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (access(places[i], F_OK) != 0)
			continue;
		*lock = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (*lock < 0 || flock(*lock, LOCK_EX) != 0)
			return fail(recorder, errno, "%s: %s", places[i], strerror(errno));
		remove_old(places[i]);
		snprintf(recorder->path, sizeof(recorder->path), "%s/" INSTANCE "%ld.XXXXXX", places[i],
			 (long)getpid());
		if (!mkdtemp(recorder->path))
			return fail(recorder, errno, "%s: %s", places[i], strerror(errno));
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

/* An instance has the flags that somebody set for all, so that all that change what is printed or kept are set. */
static int set_options(struct recorder *recorder)
{
	static const struct {
		const char *name, *value;
	} options[] = {
		{"options/overwrite", "1"}, /* what has no room is told at the place where it is missing */
		{"options/context-info", "1"}, {"options/raw", "0"},
		{"options/hex", "0"},	       {"options/bin", "0"},
		{"options/fields", "0"},       {"options/latency-format", "0"},
		{"options/stacktrace", "0"},   {"options/userstacktrace", "0"},
		{"buffer_percent", "10"}, /* when it wakes us */
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(options) / sizeof(options[0]); i++)
		if (faccessat(recorder->folder, options[i].name, F_OK, 0) == 0)
			rc = set(recorder, options[i].name, "%s", options[i].value);
	return rc;
}

static int set_up(struct recorder *recorder)
{
	const long processors = sysconf(_SC_NPROCESSORS_CONF);
	const long part = BUFFERS_KIB / (processors > 0 ? processors : 1);
	char filter[128];

	if (faccessat(recorder->folder, "events/block/" EVENT, F_OK, 0) != 0)
		return fail(recorder, ENOTSUP, "%s: this kernel does not tell what reaches a device (" EVENT ")",
			    recorder->path);
	if (recorder->sectors)
		snprintf(filter, sizeof(filter), "dev == %" PRIu64 " && sector >= %" PRIu64 " && sector < %" PRIu64,
			 recorder->dev, recorder->text.first_sector, recorder->text.first_sector + recorder->sectors);
	else
		snprintf(filter, sizeof(filter), "dev == %" PRIu64, recorder->dev);
	int rc = set_options(recorder);
	if (rc == 0)
		rc = set(recorder, "buffer_size_kb", "%ld", part > BUFFER_KIB ? part : BUFFER_KIB);
	if (rc == 0)
		rc = set(recorder, "events/block/" EVENT "/filter", "%s", filter);
	if (rc < 0)
		return rc;
	recorder->pipe = openat(recorder->folder, "trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (recorder->pipe < 0)
		return fail(recorder, errno, "%s/trace_pipe: %s", recorder->path, strerror(errno));
	return set(recorder, "events/block/" EVENT "/enable", "1");
}

static int begin(struct recorder *recorder)
{
	int lock = -1, rc = make_instance(recorder, &lock);

	if (rc == 0)
		rc = set_up(recorder);
	if (lock >= 0)
		close(lock);
	return rc;
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

/* What each processor's buffer had no room for, and what it prints says nothing of. */
static int count_dropped(struct recorder *recorder)
{
	const int fd = openat(recorder->folder, "per_cpu", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	int rc = 0;

	if (!folder)
		return fail(recorder, errno, "%s/per_cpu: %s", recorder->path, strerror(errno));
	for (const struct dirent *entry; rc == 0 && (entry = readdir(folder));) {
		char name[sizeof(entry->d_name) + sizeof("/stats")], line[128];
		if (strncmp(entry->d_name, "cpu", 3) != 0)
			continue;
		snprintf(name, sizeof(name), "%s/stats", entry->d_name);
		const int counts = openat(dirfd(folder), name, O_RDONLY | O_CLOEXEC);
		FILE *file = counts >= 0 ? fdopen(counts, "r") : NULL;
		if (!file) {
			rc = fail(recorder, errno, "%s/per_cpu/%s: %s", recorder->path, name, strerror(errno));
			break;
		}
		while (fgets(line, sizeof(line), file))
			g4_block_take_count(&recorder->text, line);
		fclose(file);
	}
	closedir(folder);
	return rc;
}

/* ------------------------------------------------------------------ signals and the output */

/* Before there is an instance: those that others send are handed on to the command. */
static int take_signals(struct recorder *recorder)
{
	sigset_t signals;

	g4_signals_take(&recorder->before);
	g4_signals_blocked(&signals);
	recorder->signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return recorder->signals < 0 ? fail(recorder, errno, "signalfd: %s", strerror(errno)) : 0;
}

static void give_signals_back(const struct recorder *recorder)
{
	if (recorder->signals >= 0)
		close(recorder->signals);
	g4_signals_forget();
	g4_signals_restore(&recorder->before);
}

/* A pipe with a name waits here for its reader, while signals still end us. What is in a file stays until empty_output(). */
static FILE *open_output(struct recorder *recorder, const char *name)
{
	const int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!out) {
		(void)fail(recorder, errno, "%s: %s", name, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	return out;
}

static int empty_output(struct recorder *recorder, FILE *out, const struct g4_block_record *record)
{
	struct stat st;

	if (fstat(fileno(out), &st) != 0 || (S_ISREG(st.st_mode) && ftruncate(fileno(out), 0) != 0))
		return fail(recorder, errno, "%s: %s", record->output, strerror(errno));
	g4_trace_write_begin(&recorder->writer, out, record->as_text);
	recorder->text.writer = &recorder->writer;
	return 0;
}

/* Says that it failed unless something else did. */
static int close_output(struct recorder *recorder, FILE *out, const char *name, int rc)
{
	const bool bad = ferror(out) != 0;

	if ((fclose(out) != 0 || bad) && !recorder->message[0])
		return bad ? fail(recorder, EIO, "%s: could not be written", name) :
			     fail(recorder, errno, "%s: %s", name, strerror(errno));
	return rc;
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
		g4_signals_restore(&recorder->before);
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
		const pid_t ended = waitpid(child, status, WNOHANG);
		if (ended == child)
			return rc;
		if (ended < 0)
			return fail(recorder, errno, "the command's status: %s", strerror(errno));
	}
}

static int finish(struct recorder *recorder, const char *device)
{
	const struct g4_block_text *text = &recorder->text;
	int rc = set(recorder, "tracing_on", "0");

	if (rc == 0)
		rc = drain(recorder);
	if (rc == 0)
		rc = count_dropped(recorder);
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

/* With signals blocked: everything that has to be undone before they are let in. */
static int record_command(struct recorder *recorder, struct g4_block_record *record, FILE *out, char **command,
			  bool *ran, int *status)
{
	int rc = begin(recorder);

	if (rc == 0)
		rc = empty_output(recorder, out, record);
	if (rc == 0)
		rc = start(recorder, command);
	if (rc > 0) {
		*ran = true;
		rc = follow(recorder, rc, status);
		if (rc == 0)
			rc = finish(recorder, record->device);
	}
	end(recorder);
	return rc;
}

int g4_block_command(struct g4_block_record *record, char **command, bool *ran, char message[G4_BLOCK_MESSAGE_BYTES])
{
	struct recorder recorder = {.folder = -1, .pipe = -1, .signals = -1, .message = message};
	int status = 0;

	*ran = false;
	message[0] = 0;
	record->accesses = 0;
	int rc = find_device(&recorder, record->device);
	if (rc < 0)
		return rc;
	FILE *out = open_output(&recorder, record->output);
	if (!out)
		return -EIO;
	rc = take_signals(&recorder);
	if (rc == 0)
		rc = record_command(&recorder, record, out, command, ran, &status);
	rc = close_output(&recorder, out, record->output, rc);
	give_signals_back(&recorder);
	record->accesses = recorder.text.accesses;
	if (rc < 0)
		return rc;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
