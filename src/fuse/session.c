/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount from start to end: engine, session, worker threads, signals, the way out.
 *
 * The main thread mounts, answers INIT, starts the workers and then sleeps until a worker sees the end of the session
 * (somebody unmounted) or a signal asks for it. Signals are blocked everywhere and read through a signalfd, so they
 * interrupt nothing. On SIGTERM and SIGINT the main thread lets the workers serve while it makes the kernel write its
 * dirty pages back (syncfs), then has it unmounted; the workers' read() fails with ENODEV, or one of them reads DESTROY
 * (block.c), and they end. Only then is the engine unmounted, which commits everything and marks the image clean, and
 * DESTROY is answered. As umount(2) of a block device waits for that answer, a thread of its own calls it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "dev/nvme/leaving_host.h"
#include "dev/nvme/lent_host.h"
#include "fs/take_host.h"
#include "fuse/mounts.h"
#include "fuse/ops.h"
#include "fuse/server.h"
#include "fuse/share.h"
#include "space/set_host.h"

#define MESSAGE_BYTES 512
#define MIN_THREADS 8
#define MAX_DEFAULT_THREADS 32
#define THREADS_PER_PROCESSOR 4
#define WAKE_PERIOD_NS (20 * 1000 * 1000)
#define READ_AHEAD_KIB 4096
#define LOOK_PERIOD_MS 1000

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

/* The process's one mount; set before threads start. */
#define OPEN_FILES_MAX 65536u

struct serving {
	struct g4_fuse_host host;
	char *mountpoint;
	struct g4_fuse_mount_entry entry;
	int state_fd;
	int signal_fd;
	bool detached;		/* from the terminal */
	struct g4_dev *device;	/* the engine's */
	struct g4_taken drives; /* that the kernel gets back */
	bool block;		/* mounted as fuseblk */
	bool taken;		/* somebody else has claimed the device: nothing may be written to it any more */
	bool unmounting;	/* in a thread, after a signal */
	pthread_t unmounter;
	atomic_int unmount_error; /* of umount2() there: an errno */
	bool stopped;		  /* an error has ended writing, and that was said */
	bool shown_stopped;	  /* the mount's flags say so, or never will */
};

static bool log_to_system;

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
	char text[MESSAGE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (log_to_system)
		g4_log(G4_LOG_ERROR, "%s", text);
	else
		fprintf(stderr, "gpu4fs: %s\n", text);
}

__attribute__((format(printf, 2, 0))) static void libfuse_log(enum fuse_log_level level, const char *format,
							      va_list args)
{
	char text[MESSAGE_BYTES];
	size_t bytes;

	vsnprintf(text, sizeof(text), format, args);
	bytes = strlen(text);
	if (bytes > 0 && text[bytes - 1] == '\n')
		text[bytes - 1] = '\0';
	if (level == FUSE_LOG_DEBUG)
		fprintf(stderr, "%s\n", text);
	else
		complain("%s", text);
}

/* The engine's side. */

static int mount_engine(struct serving *s)
{
	const struct g4_fuse_options *o = &s->host.options;
	struct g4_mount_options options = {
		.flags = G4_MOUNT_HOLD_UNLINKED | G4_MOUNT_TICK_TIMES,
		.commit_ms = o->commit_ms,
		.cache_bytes = o->cache_bytes,
		.tier_bytes = o->tier_bytes,
		.dedup_bytes = o->dedup_bytes,
		.kind = o->engine,
		.sms = o->sms,
		.gpu_queues = o->gpu_queues,
	};
	char message[MESSAGE_BYTES] = "";
	struct g4_attr attr;
	struct g4_statfs state = {0};
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = G4_NODE_ROOT, .attr = &attr};
	struct g4_cmd ask = {.op = G4_CMD_STATFS, .length = sizeof(state), .data = &state};
	int result;

	if (o->read_only)
		options.flags |= G4_MOUNT_READ_ONLY;
	if (o->sync || o->dirsync)
		options.flags |= G4_MOUNT_SYNC;
	if (o->dedup_verify)
		options.flags |= G4_MOUNT_DEDUP_VERIFY;
	if (o->discard)
		options.flags |= G4_MOUNT_DISCARD;
	if (o->atime == G4_ATIME_NOATIME)
		options.flags |= G4_MOUNT_NOATIME;
	if (o->atime == G4_ATIME_STRICTATIME)
		options.flags |= G4_MOUNT_STRICTATIME;
	const struct g4_set_options open = {.open.flags = G4_DEV_EXCLUSIVE | (o->read_only ? G4_DEV_READ_ONLY : 0),
					    .open.lane_queues = o->gpu_queues,
					    .degraded = o->degraded,
					    .mounts = true};
	g4_nvme_lend_most(o->host_memory_bytes);
	result = g4c_check_options(&options, message, sizeof(message));
	for (uint32_t i = 0; i < o->device_count && result == 0; i++)
		result = g4_take_drives(o->devices[i], &s->drives,
					(struct g4_dev_message){.text = message, .bytes = sizeof(message)});
	if (result == 0) {
		result = g4_set_open(o->devices, o->device_count, &open, &s->device, message, sizeof(message));
		if (result == 0)
			result = g4_engine_mount_device(s->device, &options, &s->host.engine, message, sizeof(message));
		if (result < 0)
			g4c_explain(result, o->devices[0], message, sizeof(message));
	}
	if (result < 0) {
		complain("%s", message);
		return result;
	}
	result = g4_engine_execute(s->host.engine, &cmd);
	if (result < 0) {
		complain("%s: the root directory cannot be read: %s", o->devices[0], g4_strerror(result));
		g4_engine_unmount(s->host.engine);
		s->host.engine = NULL;
		return result;
	}
	s->host.root_ino = attr.ino;
	/* the engine may allow less than was asked for: the list of mounts says so */
	if (g4_engine_execute(s->host.engine, &ask) == 0 && (state.flags & 1) != 0)
		s->host.options.read_only = true;
	if (o->debug)
		fprintf(stderr, "gpu4fs: the engine is %s\n", g4_engine_name(s->host.engine));
	g4_fuse_mirror_start(&s->host);
	return 0;
}

/* The kernel's side. */

static int add_word(char **words, const char *word)
{
	return fuse_opt_add_opt_escaped(words, word);
}

static int session_words(const struct serving *s, char **words)
{
	const struct g4_fuse_options *o = &s->host.options;
	char *name;
	int result = 0;

	if (asprintf(&name, "fsname=%s", o->devices[0]) < 0)
		return -1;
	result |= add_word(words, name);
	free(name);
	result |= add_word(words, "subtype=gpu4fs");
	result |= add_word(words, "default_permissions");
	result |= add_word(words, o->read_only ? "ro" : "rw");
	result |= add_word(words, o->nosuid ? "nosuid" : "suid");
	result |= add_word(words, o->nodev ? "nodev" : "dev");
	if (o->noexec)
		result |= add_word(words, "noexec");
	if (o->atime == G4_ATIME_NOATIME)
		result |= add_word(words, "noatime");
	if (o->sync)
		result |= add_word(words, "sync");
	if (o->dirsync)
		result |= add_word(words, "dirsync");
	if (o->allow_other)
		result |= add_word(words, "allow_other");
	if (o->debug)
		result |= add_word(words, "debug");
	return result;
}

static struct fuse_session *new_session(struct serving *s)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char *words = NULL;

	if (session_words(s, &words) == 0 && fuse_opt_add_arg(&args, "gpu4fs") == 0 &&
	    fuse_opt_add_arg(&args, "-o") == 0 && fuse_opt_add_arg(&args, words) == 0)
		session = fuse_session_new(&args, &g4_fuse_ops, sizeof(g4_fuse_ops), &s->host);
	free(words);
	fuse_opt_free_args(&args);
	return session;
}

static int init_thread(struct g4_fuse_host *host, struct g4_fuse_thread *thread)
{
	int master = fuse_session_fd(host->session);
	unsigned master_number = (unsigned)master;

	*thread = (struct g4_fuse_thread){.host = host, .processor = -1};
	thread->data = g4_fuse_payload_take();
	if (!thread->data)
		return -ENOMEM;
	thread->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (thread->fd >= 0 && ioctl(thread->fd, FUSE_DEV_IOC_CLONE, &master_number) < 0) {
		close(thread->fd);
		thread->fd = -1;
	}
	if (thread->fd < 0)
		thread->fd = master;
	return 0;
}

static void free_thread(struct g4_fuse_host *host, struct g4_fuse_thread *thread)
{
	if (thread->fd != fuse_session_fd(host->session))
		close(thread->fd);
	g4_fuse_payload_give(thread->data);
}

/* Reads and answers requests until the session ends; INIT alone when that is what until_initialised asks for. */
static void serve_requests(struct g4_fuse_host *host, struct g4_fuse_thread *self, bool until_initialised)
{
	struct fuse_buf buf = {0};

	g4_fuse_self = self;
	while (!fuse_session_exited(host->session) && !atomic_load(&host->stopping)) {
		int result = fuse_session_receive_buf(host->session, &buf);

		if (result == -EINTR || result == -EAGAIN)
			continue;
		if (result <= 0) {
			if (result < 0)
				complain("reading from the kernel failed: %s", strerror(-result));
			break;
		}
		fuse_session_process_buf(host->session, &buf);
		if (until_initialised && host->initialised)
			break;
	}
	free(buf.mem);
	g4_fuse_self = NULL;
}

static void *worker_main(void *argument)
{
	struct g4_fuse_thread *self = argument;
	uint64_t one = 1;

	serve_requests(self->host, self, false);
	if (write(self->host->wake_fd, &one, sizeof(one)) != sizeof(one))
		complain("a worker could not report its end: %s", strerror(errno));
	return NULL;
}

static uint32_t default_threads(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t threads = processors > 0 ? (uint64_t)processors * THREADS_PER_PROCESSOR : MIN_THREADS;

	return (uint32_t)g4_max64(MIN_THREADS, g4_min64(threads, MAX_DEFAULT_THREADS));
}

/* A signal to a worker only interrupts its read(). */
static void ignore_signal(int number)
{
	(void)number;
}

static int start_workers(struct serving *s)
{
	struct g4_fuse_host *host = &s->host;
	uint32_t wanted = host->options.threads ? host->options.threads : default_threads();
	int error = 0;

	g4_fuse_affinity_init(host);
	host->threads = calloc(wanted, sizeof(*host->threads));
	if (!host->threads)
		return -ENOMEM;
	while (host->thread_count < wanted) {
		struct g4_fuse_thread *thread = &host->threads[host->thread_count];

		error = init_thread(host, thread);
		if (error == 0) {
			error = -pthread_create(&thread->thread, NULL, worker_main, thread);
			if (error)
				free_thread(host, thread);
		}
		if (error)
			break;
		pthread_setname_np(thread->thread, "gpu4fs-fuse");
		host->thread_count++;
	}
	return host->thread_count > 0 ? 0 : error;
}

/* Waits for every worker. One that sleeps in read() is interrupted until it looks at the stop flag. */
static void join_workers(struct g4_fuse_host *host)
{
	atomic_store(&host->stopping, true);
	for (uint32_t i = 0; i < host->thread_count; i++) {
		for (;;) {
			pthread_kill(host->threads[i].thread, SIGUSR1);
			const struct timespec deadline = g4_clock_after(CLOCK_REALTIME, WAKE_PERIOD_NS);
			if (pthread_timedjoin_np(host->threads[i].thread, NULL, &deadline) != ETIMEDOUT)
				break;
		}
	}
}

/*
 * What the protocol cannot ask for: read-ahead beyond 128 KiB, and more dirty pages than the 1 % that FUSE mounts get.
 * PR_SET_IO_FLUSHER is the other half of the latter: our own allocations must not wait for pages that only we can write.
 */
static void tune_kernel(struct serving *s)
{
	if (s->entry.type[0] == '\0')
		return; /* the mount was not found, and that has been said */
	(void)g4_fuse_tune(&s->host, "read_ahead_kb", READ_AHEAD_KIB); /* not root, or no sysfs: slower, not wrong */
	g4_fuse_limit_start(&s->host);
}

static int block_signals(struct serving *s)
{
	struct sigaction action = {.sa_handler = ignore_signal};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0)
		return -errno;
	sigdelset(&set, SIGPIPE);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return s->signal_fd < 0 ? -errno : 0;
}

static void run_fusermount(const char *mountpoint)
{
	const char *argv[] = {"fusermount3", "-u", "-z", "--", mountpoint, NULL};
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

/*
 * Makes the kernel write back the pages of all open files, and waits. syncfs(2) starts that but does not wait for it on a
 * FUSE mount: Linux takes such a mapping for one without data integrity.
 */
static void write_back_open_files(struct serving *s)
{
	struct g4_fuse_thread self = {.host = &s->host, .fd = fuse_session_fd(s->host.session), .processor = -1};
	uint64_t *inodes = calloc(OPEN_FILES_MAX, sizeof(*inodes));
	uint32_t count = inodes ? g4_engine_open_inodes(s->host.engine, inodes, OPEN_FILES_MAX) : 0;

	g4_fuse_self = &self;
	for (uint32_t i = 0; i < count; i++) /* fails only where the inode has left the kernel's cache */
		(void)fuse_lowlevel_notify_inval_inode(s->host.session, inodes[i], 0, 0);
	g4_fuse_self = NULL;
	free(inodes);
}

/* What is in the kernel's memory and in the engine's, before a drive leaves. */
static void save(void *context)
{
	struct serving *s = context;
	struct g4_cmd sync = {.op = G4_CMD_SYNCFS};
	int fd = open(s->mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		(void)syncfs(fd); /* begins it; what fails is told by the next one */
		close(fd);
	}
	write_back_open_files(s);
	const int result = g4_engine_execute(s->host.engine, &sync);
	if (result < 0)
		complain("%s: not everything could be written before a drive leaves: %s", s->mountpoint,
			 g4_strerror(result));
}

static void *unmount_main(void *argument)
{
	struct serving *s = argument;
	uint64_t one = 1;

	if (umount2(s->mountpoint, UMOUNT_NOFOLLOW) == 0)
		return NULL; /* the workers notice */
	atomic_store(&s->unmount_error, errno);
	if (write(s->host.wake_fd, &one, sizeof(one)) != sizeof(one))
		complain("the end of the mount could not be reported: %s", strerror(errno));
	return NULL;
}

/*
 * A signal asks for the end: the kernel's dirty pages first, while the workers serve. An idle mount is then unmounted as
 * umount(8) would. Does not wait for that.
 */
static void stop_mount(struct serving *s)
{
	int fd = open(s->mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t one = 1;

	if (fd >= 0) {
		if (syncfs(fd) < 0)
			complain("%s: writing back cached pages failed: %s", s->mountpoint, strerror(errno));
		close(fd);
	}
	s->unmounting = pthread_create(&s->unmounter, NULL, unmount_main, s) == 0;
	if (s->unmounting)
		return;
	atomic_store(&s->unmount_error, EBUSY);
	if (write(s->host.wake_fd, &one, sizeof(one)) != sizeof(one))
		complain("the end of the mount could not be reported: %s", strerror(errno));
}

/* A mount that is in use is taken away from its users, whose later calls fail. */
static void take_away(struct serving *s, int error)
{
	if (error == EBUSY) {
		write_back_open_files(s);
		if (umount2(s->mountpoint, MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
			return;
		error = errno;
	}
	if (error == EPERM)
		run_fusermount(s->mountpoint);
}

/*
 * When an error has ended writing, everybody may see it: the log says so, the state file, and the flags of the mount, which
 * the kernel changes as soon as no file is open for writing. Returns how long to sleep before the next look, as for poll(2).
 */
static int look_for_error(struct serving *s)
{
	struct g4_fuse_mount_entry top;
	struct g4_statfs state;
	struct g4_cmd ask = {.op = G4_CMD_STATFS, .length = sizeof(state), .data = &state};

	if (s->host.options.read_only || s->shown_stopped)
		return -1;
	if (!s->stopped) {
		s->stopped = g4_engine_execute(s->host.engine, &ask) == 0 && (state.flags & 2) != 0;
		if (!s->stopped)
			return LOOK_PERIOD_MS;
		complain("%s: an error has ended writing; the file system is read-only now", s->mountpoint);
		if (s->state_fd >= 0)
			g4_fuse_state_stopped(s->state_fd);
	}
	if (g4_fuse_find_mount(s->mountpoint, &top) < 0 || top.major != s->entry.major || top.minor != s->entry.minor)
		return LOOK_PERIOD_MS; /* another file system lies on it */
	s->shown_stopped = g4_fuse_make_read_only(s->mountpoint) != -EBUSY;
	return s->shown_stopped ? -1 : LOOK_PERIOD_MS;
}

/* Sleeps until the session is over. */
static void wait_for_end(struct serving *s)
{
	struct pollfd fds[2] = {{.fd = s->host.wake_fd, .events = POLLIN}, {.fd = s->signal_fd, .events = POLLIN}};

	for (;;) {
		struct signalfd_siginfo info;

		if (poll(fds, 2, look_for_error(s)) < 0) {
			if (errno == EINTR)
				continue;
			complain("waiting for the end of the mount failed: %s", strerror(errno));
			take_away(s, EBUSY);
			return;
		}
		if (fds[0].revents) {
			if (!fuse_session_exited(s->host.session))
				take_away(s, atomic_load(&s->unmount_error));
			return;
		}
		if (!(fds[1].revents & POLLIN) || read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
			continue;
		if ((info.ssi_signo == SIGHUP && s->detached) || s->unmounting)
			continue;
		stop_mount(s);
	}
}

/* Daemon: the caller learns the outcome through report_fd and the terminal is let go. */
static void report(int report_fd, int status)
{
	unsigned char byte = (unsigned char)status;

	if (report_fd < 0)
		return;
	if (write(report_fd, &byte, 1) != 1)
		complain("the caller could not be told about the mount: %s", strerror(errno));
	close(report_fd);
}

static void let_go_of_terminal(struct serving *s)
{
	int null_fd = open("/dev/null", O_RDWR);

	fflush(NULL);
	g4_log_to_syslog("gpu4fs");
	log_to_system = true;
	s->detached = true;
	if (chdir("/") < 0)
		complain("changing to the root directory failed: %s", strerror(errno));
	if (null_fd < 0)
		return;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null_fd, fd);
	if (null_fd > 2)
		close(null_fd);
}

/*
 * A block device of root becomes fuseblk where the kernel takes it so. It claims the device in place of us: the one that is faster in
 * between has it, and then it is no longer ours.
 */
static bool mount_session(struct serving *s)
{
	const struct g4_fuse_options *o = &s->host.options;
	char *device = geteuid() == 0 ? realpath(o->devices[0], NULL) : NULL;
	char path[32];
	int fd = -1;

	if (device && g4_dev_lend(s->device)) {
		fd = g4_fuse_block_mount(o, device, s->mountpoint);
		s->taken = fd < 0 && !g4_dev_take_back(s->device);
	}
	free(device);
	if (s->taken) {
		complain("%s: is in use by another program", o->devices[0]);
		return false;
	}
	s->block = fd >= 0;
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	return fuse_session_mount(s->host.session, s->block ? path : s->mountpoint) == 0; /* libfuse says why not */
}

static void unmount_session(struct serving *s)
{
	if (s->block)
		g4_fuse_block_unmount(&s->host, s->mountpoint);
	else
		fuse_session_unmount(s->host.session);
}

/* Mounts the session and answers INIT: 0, or an exit status with the reason printed. */
static int start_session(struct serving *s)
{
	struct g4_fuse_host *host = &s->host;
	struct g4_fuse_thread first;
	int error;

	host->session = new_session(s);
	if (!host->session) {
		complain("the FUSE session could not be created");
		return G4_MOUNT_EXIT_FAIL;
	}
	if (!mount_session(s))
		goto destroy;
	error = fuse_session_custom_io(host->session, &g4_fuse_wire, fuse_session_fd(host->session));
	if (error == 0)
		error = init_thread(host, &first);
	if (error) {
		complain("the FUSE session could not be started: %s", strerror(-error));
		goto unmount;
	}
	serve_requests(host, &first, true);
	free_thread(host, &first);
	if (!host->initialised || fuse_session_exited(host->session)) {
		complain("the kernel and this program do not agree on a FUSE protocol");
		goto unmount;
	}
	return 0;
unmount:
	unmount_session(s);
destroy:
	fuse_session_destroy(host->session);
	return G4_MOUNT_EXIT_FAIL;
}

static int start_threads(struct serving *s)
{
	struct g4_fuse_host *host = &s->host;
	int error;

	host->writers = calloc((size_t)1 << G4_FUSE_WRITERS_BITS, sizeof(*host->writers));
	host->wake_fd = eventfd(0, EFD_CLOEXEC);
	host->quiet = calloc((size_t)1 << G4_FUSE_QUIET_BITS, sizeof(*host->quiet));
	host->selinux = access("/sys/fs/selinux", F_OK) == 0;
	if (!host->writers || !host->quiet || host->wake_fd < 0) {
		complain("no memory for the FUSE session");
		return G4_MOUNT_EXIT_FAIL;
	}
	error = g4_fuse_seek_start(host);
	if (error) {
		complain("no thread could be started: %s", strerror(-error));
		return G4_MOUNT_EXIT_FAIL;
	}
	error = start_workers(s);
	if (error) {
		complain("no thread could be started: %s", strerror(-error));
		join_workers(host);
		g4_fuse_seek_stop(host);
		return G4_MOUNT_EXIT_FAIL;
	}
	return 0;
}

static void free_threads(struct g4_fuse_host *host)
{
	for (uint32_t i = 0; i < host->thread_count; i++)
		free_thread(host, &host->threads[i]);
	free(host->threads);
	free(host->writers);
	free(host->quiet);
	if (host->wake_fd >= 0)
		close(host->wake_fd);
}

static void create_state(struct serving *s)
{
	int result = g4_fuse_find_mount(s->mountpoint, &s->entry);

	if (result == 0)
		snprintf(s->host.bdi, sizeof(s->host.bdi), "/sys/class/bdi/%u:%u%s", s->entry.major, s->entry.minor,
			 strncmp(s->entry.type, "fuseblk", 7) == 0 ? "-fuseblk" : "");
	if (result == 0)
		s->state_fd = result = g4_fuse_state_create(&s->entry, g4_engine_name(s->host.engine));
	if (result < 0)
		complain("%s: 'gpu4fs umount' will not be able to wait for this mount: %s", s->mountpoint,
			 strerror(-result));
}

/* With socket=: before the kernel may ask, and when it has been answered. False: not so, and the reason has been printed. */
static bool prepare_socket(struct serving *s)
{
	struct g4_fuse_options *o = &s->host.options;
	char message[MESSAGE_BYTES] = "";

	if (o->socket[0] == 0)
		return true;
	if (o->socket[0] != '/') { /* the socket is removed by name when the process is somewhere else */
		char name[sizeof(o->socket)], *here = getcwd(NULL, 0);
		int bytes = snprintf(name, sizeof(name), "%s/%s", here ? here : "", o->socket);

		free(here);
		if (bytes >= (int)sizeof(name)) {
			complain("%s: the name is too long for a socket", o->socket);
			return false;
		}
		strcpy(o->socket, name);
	}
	o->writeback = false;
	o->attr_timeout_s = o->entry_timeout_s = o->negative_timeout_s = 0;
	if (g4_fuse_share_prepare(&s->host, message, sizeof(message)) == 0)
		return true;
	complain("%s", message);
	return false;
}

static bool start_socket(struct serving *s)
{
	char message[MESSAGE_BYTES] = "";

	if (!s->host.share || g4_fuse_share_start(&s->host, s->mountpoint, message, sizeof(message)) == 0)
		return true;
	complain("%s", message);
	return false;
}

/* The mount from INIT to its end. 0 or an exit status. */
static int serve_mount(struct serving *s, int report_fd)
{
	struct g4_fuse_host *host = &s->host;
	int status = start_threads(s);

	if (status == 0 && !start_socket(s)) {
		stop_mount(s);
		status = G4_MOUNT_EXIT_FAIL;
		report(report_fd, status);
		wait_for_end(s);
		join_workers(host);
		g4_fuse_seek_stop(host);
	} else if (status == 0) {
		create_state(s);
		tune_kernel(s);
		if (report_fd >= 0)
			let_go_of_terminal(s);
		report(report_fd, G4_MOUNT_EXIT_OK);
		g4_nvme_before_leaving(save, s);
		wait_for_end(s);
		g4_nvme_before_leaving(NULL, NULL);
		g4_fuse_share_stop(host);
		join_workers(host);
		g4_fuse_seek_stop(host);
	} else {
		report(report_fd, status);
	}
	free_threads(host);
	unmount_session(s);
	fuse_session_destroy(host->session);
	return status;
}

static int serve(const struct g4_fuse_options *options, char *mountpoint, int report_fd)
{
	struct serving s = {.mountpoint = mountpoint, .state_fd = -1, .signal_fd = -1};
	int status = G4_MOUNT_EXIT_FAIL;
	int result;

	s.host.options = *options;
	s.host.wake_fd = s.host.destroy_fd = -1;
	fuse_set_log_func(libfuse_log);
	/* Before the engine starts threads, which inherit both. */
	result = block_signals(&s);
	if (result < 0) {
		complain("signals cannot be set up: %s", strerror(-result));
		report(report_fd, status);
		return status;
	}
	(void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0); /* needs CAP_SYS_RESOURCE; see tune_kernel() */
	if (mount_engine(&s) < 0 || !prepare_socket(&s) || (status = start_session(&s)) != 0) {
		report(report_fd, status);
		g4_fuse_share_free(&s.host);
		g4_fuse_mirror_end(&s.host);
		if (s.host.engine && s.taken)
			g4_engine_abandon(s.host.engine);
		else if (s.host.engine)
			g4_engine_unmount(s.host.engine);
		g4_give_back(&s.drives);
		close(s.signal_fd);
		return status;
	}
	status = serve_mount(&s, report_fd);
	g4_fuse_share_free(&s.host);
	g4_fuse_mirror_end(&s.host);
	result = g4_engine_unmount(s.host.engine);
	if (result == 0)
		result = atomic_load(&s.host.lost);
	if (result < 0) {
		complain("%s: not everything could be written: %s", options->devices[0], g4_strerror(result));
		status = G4_MOUNT_EXIT_SYSTEM;
	}
	g4_give_back(&s.drives);
	if (s.state_fd >= 0 && atomic_load(&s.host.no_room))
		g4_fuse_state_no_room(s.state_fd);
	if (s.state_fd >= 0)
		g4_fuse_state_finish(&s.entry, s.state_fd, result);
	g4_fuse_destroy_done(&s.host);
	if (s.unmounting)
		pthread_join(s.unmounter, NULL);
	close(s.signal_fd);
	return status;
}

/* The caller's side of a daemon's start. */
static int await_report(int fd, pid_t child)
{
	unsigned char status;
	ssize_t bytes;

	while ((bytes = read(fd, &status, 1)) < 0 && errno == EINTR)
		;
	close(fd);
	if (bytes == 1 && status == G4_MOUNT_EXIT_OK)
		return G4_MOUNT_EXIT_OK;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (bytes == 1)
		return status;
	fprintf(stderr, "gpu4fs: the mounting process ended unexpectedly\n");
	return G4_MOUNT_EXIT_FAIL;
}

static int serve_detached(const struct g4_fuse_options *options, char *mountpoint)
{
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		complain("a pipe cannot be made: %s", strerror(errno));
		return G4_MOUNT_EXIT_FAIL;
	}
	fflush(NULL);
	child = fork();
	if (child < 0) {
		complain("a process cannot be started: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return G4_MOUNT_EXIT_FAIL;
	}
	if (child > 0) {
		close(fds[1]);
		return await_report(fds[0], child);
	}
	close(fds[0]);
	if (setsid() < 0)
		complain("a session cannot be started: %s", strerror(errno));
	return serve(options, mountpoint, fds[1]);
}

int g4_fuse_main(const struct g4_fuse_options *options)
{
	char *mountpoint;
	struct stat st;
	int status;

	if (options->device_count == 0) {
		complain("no device was given");
		return G4_MOUNT_EXIT_USAGE;
	}
	mountpoint = g4_fuse_mount_path(options->mountpoint);
	if (mountpoint && !g4_fuse_remove_dead_mounts(mountpoint, options->devices[0])) {
		free(mountpoint);
		return G4_MOUNT_EXIT_FAIL;
	}
	if (!mountpoint || stat(mountpoint, &st) < 0) {
		complain("%s: %s", options->mountpoint, strerror(errno));
		free(mountpoint);
		return G4_MOUNT_EXIT_FAIL;
	}
	if (!S_ISDIR(st.st_mode)) {
		complain("%s is not a directory", mountpoint);
		free(mountpoint);
		return G4_MOUNT_EXIT_FAIL;
	}
	for (uint32_t i = 0; i < options->device_count; i++)
		g4_fuse_wait_for_last_mount(options->devices[i]);
	if (options->foreground || options->debug)
		status = serve(options, mountpoint, -1);
	else
		status = serve_detached(options, mountpoint);
	free(mountpoint);
	return status;
}
