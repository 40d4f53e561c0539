/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call stops when it begins (the filter) and when it ends. In between its arguments are kept; at the end its result says how
 * much was moved, and /proc/PID/fdinfo where the file's offset is then. Mapped files count as read, all that is mapped of them.
 * A file is what has its device, inode number and birth, or where there is none (FUSE) its handle: numbers are given again.
 */
#include "trace/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/signals.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#define OUR_ARCH 0 /* no call of another machine's is known by its number */
#endif

struct call { /* of a process, under way */
	pid_t pid;
	uint64_t number, arguments[6];
};

struct file {
	uint64_t dev, ino, birth;
};

struct recorder {
	struct g4_record *record;
	struct call *calls;
	size_t call_count, call_room;
	struct file *files; /* their numbers are their places and 1 */
	uint32_t *table;    /* numbers by hash, 0: free */
	size_t file_count, table_mask;
	bool no_memory;
};

/* ------------------------------------------------------------------ files */

static size_t find_file(const struct recorder *recorder, const struct file *file)
{
	uint64_t at = (file->dev * 31 + file->ino) * UINT64_C(0x9e3779b97f4a7c15) + file->birth;

	for (at ^= at >> 32;; at++) {
		const uint32_t number = recorder->table[at & recorder->table_mask];
		if (number == 0 || memcmp(&recorder->files[number - 1], file, sizeof(*file)) == 0)
			return at & recorder->table_mask;
	}
}

static bool grow_files(struct recorder *recorder)
{
	const size_t mask = recorder->table ? 2 * recorder->table_mask + 1 : 1023;
	struct file *files = realloc(recorder->files, (mask + 1) / 2 * sizeof(*files));

	if (files)
		recorder->files = files;
	uint32_t *table = calloc(mask + 1, sizeof(*table));
	if (!files || !table) {
		free(table);
		return false;
	}
	free(recorder->table);
	recorder->table = table;
	recorder->table_mask = mask;
	for (size_t i = 0; i < recorder->file_count; i++)
		table[find_file(recorder, &recorder->files[i])] = (uint32_t)i + 1;
	return true;
}

/* Something else for each file that had an inode number: its birth in ns, or what open_by_handle_at(2) would know it by. */
static uint64_t birth_of(const char *path, const struct statx *st)
{
	union {
		struct file_handle handle;
		uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} found = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
	uint64_t birth = 0;
	int mount;

	if (st->stx_mask & STATX_BTIME)
		return (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec;
	if (name_to_handle_at(AT_FDCWD, path, &found.handle, &mount, AT_SYMLINK_FOLLOW) == 0)
		for (unsigned i = 0; i < found.handle.handle_bytes; i++)
			birth = (birth ^ found.handle.f_handle[i]) * UINT64_C(0x100000001b3);
	return birth;
}

/* 0: it is not to be recorded. */
static uint64_t file_number(struct recorder *recorder, const char *path, uint64_t *size)
{
	struct statx st;

	/* a server that is traced itself may be the one to ask: its kernel's cache answers */
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME, &st) != 0 ||
	    (!S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode)))
		return 0;
	const bool device = S_ISBLK(st.stx_mode);
	const dev_t dev =
		device ? makedev(st.stx_rdev_major, st.stx_rdev_minor) : makedev(st.stx_dev_major, st.stx_dev_minor);
	if (recorder->record->one_file_system && (device || dev != recorder->record->dev))
		return 0;
	*size = device ? INT64_MAX : st.stx_size;
	if (2 * (recorder->file_count + 1) > recorder->table_mask && !grow_files(recorder)) {
		recorder->no_memory = true;
		return 0;
	}
	const struct file file = {
		.dev = dev,
		.ino = device ? UINT64_MAX : st.stx_ino,
		.birth = device ? 0 : birth_of(path, &st),
	};
	uint32_t *number = &recorder->table[find_file(recorder, &file)];
	if (*number == 0) {
		recorder->files[recorder->file_count++] = file;
		*number = (uint32_t)recorder->file_count;
	}
	return *number;
}

static void add(struct recorder *recorder, uint64_t file, uint64_t offset, uint64_t bytes, bool write)
{
	struct g4_trace_access access;

	if (!g4_trace_access_of(file, offset, bytes, write, &access))
		return;
	g4_trace_write(recorder->record->writer, &access);
	recorder->record->accesses++;
}

/* ------------------------------------------------------------------ calls */

/* Where the offset of an open file is. */
static bool offset_of(pid_t pid, int fd, uint64_t *offset)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
	const int info = open(path, O_RDONLY | O_CLOEXEC);
	const bool got = info >= 0 && read(info, text, sizeof(text) - 1) > 0;
	if (info >= 0)
		close(info);
	return got && sscanf(text, "pos: %" SCNu64, offset) == 1;
}

/* `bytes` were moved, and the offset in the file is behind them. at: where the caller has the offset; 0: the file's own. */
static void moved_before(struct recorder *recorder, pid_t pid, int fd, uint64_t at, uint64_t bytes, bool write)
{
	uint64_t size, behind = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	const uint64_t file = file_number(recorder, path, &size);
	const struct iovec to = {&behind, sizeof(behind)}, from = {(void *)(uintptr_t)at, sizeof(behind)};
	if (file == 0 ||
	    (at ? process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof(behind) : !offset_of(pid, fd, &behind)))
		return;
	if (behind >= bytes)
		add(recorder, file, behind - bytes, bytes, write);
}

static void moved_at(struct recorder *recorder, pid_t pid, int fd, uint64_t offset, uint64_t bytes, bool write)
{
	uint64_t size;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	const uint64_t file = file_number(recorder, path, &size);
	if (file)
		add(recorder, file, offset, bytes, write);
}

static void mapped(struct recorder *recorder, const char *path, uint64_t offset, uint64_t bytes)
{
	uint64_t size;
	const uint64_t file = file_number(recorder, path, &size);

	if (file && offset < size)
		add(recorder, file, offset, bytes < size - offset ? bytes : size - offset, false);
}

static void call_ended(struct recorder *recorder, const struct call *call, int64_t result)
{
	const uint64_t *a = call->arguments, moved = (uint64_t)result;
	const pid_t pid = call->pid;
	char path[64];

	switch (call->number) {
	case SYS_read:
	case SYS_readv:
		moved_before(recorder, pid, (int)a[0], 0, moved, false);
		break;
	case SYS_write:
	case SYS_writev:
		moved_before(recorder, pid, (int)a[0], 0, moved, true);
		break;
	case SYS_pread64:
	case SYS_preadv:
		moved_at(recorder, pid, (int)a[0], a[3], moved, false);
		break;
	case SYS_pwrite64:
	case SYS_pwritev:
		moved_at(recorder, pid, (int)a[0], a[3], moved, true);
		break;
	case SYS_preadv2:
	case SYS_pwritev2:
		if (a[3] == UINT64_MAX)
			moved_before(recorder, pid, (int)a[0], 0, moved, call->number == SYS_pwritev2);
		else
			moved_at(recorder, pid, (int)a[0], a[3], moved, call->number == SYS_pwritev2);
		break;
	case SYS_sendfile:
		moved_before(recorder, pid, (int)a[1], a[2], moved, false);
		moved_before(recorder, pid, (int)a[0], 0, moved, true);
		break;
	case SYS_splice:
	case SYS_copy_file_range:
		moved_before(recorder, pid, (int)a[0], a[1], moved, false);
		moved_before(recorder, pid, (int)a[2], a[3], moved, true);
		break;
	case SYS_mmap:
		if (a[3] & MAP_ANONYMOUS)
			break;
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)a[4]);
		mapped(recorder, path, a[5], a[1]);
		break;
	default:
		break;
	}
}

/* What the kernel has mapped of a new program and its loader. */
static void program_began(struct recorder *recorder, pid_t pid)
{
	char path[64], *line = NULL;
	size_t room = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	while (maps && getline(&line, &room, maps) > 0) {
		uint64_t begin, end, offset;
		int at = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &begin, &end, &offset, &at) != 3)
			continue;
		line[strcspn(line, "\n")] = 0;
		if (at > 0 && line[at] == '/')
			mapped(recorder, line + at, offset, end - begin);
	}
	free(line);
	if (maps)
		fclose(maps);
}

/* ------------------------------------------------------------------ following */

static struct call *find_call(struct recorder *recorder, pid_t pid)
{
	for (size_t i = 0; i < recorder->call_count; i++)
		if (recorder->calls[i].pid == pid)
			return &recorder->calls[i];
	return NULL;
}

static void forget_call(struct recorder *recorder, pid_t pid)
{
	struct call *call = find_call(recorder, pid);

	if (call)
		*call = recorder->calls[--recorder->call_count];
}

/* False: its end is not of interest. */
static bool call_begins(struct recorder *recorder, pid_t pid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0 || info.op != PTRACE_SYSCALL_INFO_SECCOMP)
		return false;
	forget_call(recorder, pid); /* of a process that had this number before */
	if (recorder->call_count == recorder->call_room) {
		const size_t room = recorder->call_room ? 2 * recorder->call_room : 64;
		struct call *larger = realloc(recorder->calls, room * sizeof(*larger));
		if (!larger) {
			recorder->no_memory = true;
			return false;
		}
		recorder->calls = larger;
		recorder->call_room = room;
	}
	struct call *call = &recorder->calls[recorder->call_count++];
	call->pid = pid;
	call->number = info.seccomp.nr;
	for (int i = 0; i < 6; i++)
		call->arguments[i] = info.seccomp.args[i];
	return true;
}

static void call_ends(struct recorder *recorder, pid_t pid)
{
	const struct call *call = find_call(recorder, pid);
	struct __ptrace_syscall_info info;

	if (call && ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) >= 0 &&
	    info.op == PTRACE_SYSCALL_INFO_EXIT && !info.exit.is_error && info.exit.rval != 0)
		call_ended(recorder, call, info.exit.rval);
	forget_call(recorder, pid);
}

static void go_on(struct recorder *recorder, pid_t pid, int status)
{
	const int number = WSTOPSIG(status), event = status >> 16;

	switch (event) {
	case PTRACE_EVENT_SECCOMP:
		(void)ptrace(call_begins(recorder, pid) ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, 0);
		return;
	case PTRACE_EVENT_STOP: /* a new process, or one that was stopped, which stays so */
		(void)ptrace(number == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, pid, 0, 0);
		return;
	case PTRACE_EVENT_EXEC:
		program_began(recorder, pid);
		(void)ptrace(PTRACE_CONT, pid, 0, 0);
		return;
	case 0:
		if (number == (SIGTRAP | 0x80)) {
			call_ends(recorder, pid);
			(void)ptrace(PTRACE_CONT, pid, 0, 0);
		} else {
			(void)ptrace(PTRACE_CONT, pid, 0, number);
		}
		return;
	default:
		(void)ptrace(PTRACE_CONT, pid, 0, 0);
	}
}

/*
 * The next one that has stopped or ended, as of waitpid(2). Who wants us to end wants that of the command; 0: of what that has left behind, its
 * number being 0 then.
 */
static pid_t next_event(pid_t command, int *status)
{
	sigset_t signals;
	pid_t pid;

	g4_signals_blocked(&signals);
	while ((pid = waitpid(-1, status, __WALL | WNOHANG)) == 0) {
		const int number = sigwaitinfo(&signals, NULL);
		if (number < 0 || number == SIGCHLD)
			continue;
		if (command == 0)
			return 0;
		kill(command, number);
	}
	return pid;
}

/* Until nobody is left, or those who are not the command are to be: they end with us. The status of `command`. */
static int follow(struct recorder *recorder, pid_t command)
{
	int status, own = -ECHILD;

	for (;;) {
		const pid_t pid = next_event(command, &status);
		if (pid <= 0)
			return own;
		if (WIFSTOPPED(status)) {
			go_on(recorder, pid, status);
			continue;
		}
		forget_call(recorder, pid);
		if (pid == command) {
			own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			command = 0;
		}
	}
}

/* ------------------------------------------------------------------ starting */

static bool install_filter(void)
{
	static const uint16_t numbers[] = {SYS_read,	 SYS_write,  SYS_readv,		  SYS_writev,  SYS_pread64,
					   SYS_pwrite64, SYS_preadv, SYS_pwritev,	  SYS_preadv2, SYS_pwritev2,
					   SYS_sendfile, SYS_splice, SYS_copy_file_range, SYS_mmap};
	enum { COUNT = sizeof(numbers) / sizeof(numbers[0]), HEAD = 3 };
	struct sock_filter code[HEAD + COUNT + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 0, COUNT + 1),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	for (int i = 0; i < COUNT; i++)
		code[HEAD + i] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], (uint8_t)(COUNT - i), 0);
	code[HEAD + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[HEAD + COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return true;
	/* without root's rights a filter is for programs that gain none; a traced one would not anyway */
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In the child: waits until it is followed. Says its errno through `failed` when the command does not run. */
static _Noreturn void become(char **command, const struct g4_signals *before, int followed, int failed)
{
	char one;

	g4_signals_restore(before);
	if (read(followed, &one, 1) == 1 && install_filter())
		execvp(command[0], command);
	const int error = errno;
	_exit(write(failed, &error, sizeof(error)) == (ssize_t)sizeof(error) ? 127 : 126);
}

static int start(char **command, const struct g4_signals *before, const int followed[2], const int failed[2])
{
	static const uintptr_t options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP |
					 PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
					 PTRACE_O_TRACEEXEC;
	const pid_t pid = fork();

	if (pid == 0) {
		close(followed[1]);
		become(command, before, followed[0], failed[1]);
	}
	if (pid < 0)
		return -errno;
	if (ptrace(PTRACE_SEIZE, pid, 0, options) != 0 || write(followed[1], "", 1) != 1) {
		const int error = errno;
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return -error;
	}
	return pid;
}

int g4_record_command(struct g4_record *record, char **command, bool *ran)
{
	struct recorder recorder = {.record = record};
	int followed[2] = {-1, -1}, failed[2] = {-1, -1}, error, rc;
	struct g4_signals before;

	*ran = false;
	g4_signals_take(&before);
	if (pipe2(followed, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0)
		rc = -errno;
	else
		rc = start(command, &before, followed, failed);
	if (failed[1] >= 0)
		close(failed[1]);
	if (rc > 0) {
		rc = follow(&recorder, rc);
		*ran = read(failed[0], &error, sizeof(error)) != (ssize_t)sizeof(error);
		rc = !*ran ? -error : recorder.no_memory ? -ENOMEM : rc;
	}
	for (int i = 0; i < 2; i++)
		if (followed[i] >= 0)
			close(followed[i]);
	if (failed[0] >= 0)
		close(failed[0]);
	record->files = recorder.file_count;
	free(recorder.calls);
	free(recorder.files);
	free(recorder.table);
	fflush(record->writer->out); /* what fails is told by who closes it */
	g4_signals_forget();
	g4_signals_restore(&before);
	return rc;
}
