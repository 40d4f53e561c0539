/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the C library on files, one after another in a directory: every_call DIRECTORY. Each line of the output is a call with its result,
 * errno and what it gave, so that two file systems, or two ways to one, can be compared. What differs between file systems
 * (inode numbers, times, sizes of blocks and of directories) is left out.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>
#include <wordexp.h>

extern char **environ;

static char here[PATH_MAX];
static char *bad;	/* a page that can neither be read nor written */
static char *read_only; /* a page that can be read */
static char *half;	/* a page that can be used, in front of the first */
static int flaws;

static void say(const char *format, ...)
{
	va_list list;
	char line[4096];

	va_start(list, format);
	const int bytes = vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (syscall(SYS_write, STDOUT_FILENO, line, (size_t)bytes) != bytes)
		flaws++;
}

/* The call as it stands, its result, and errno where it failed. */
#define CALL(call)                                                                                                     \
	({                                                                                                             \
		errno = 0;                                                                                             \
		const long result_ = (long)(call);                                                                     \
		const int error_ = errno;                                                                              \
		say("%s: %ld%s%s\n", #call, result_, result_ == -1 ? " " : "",                                         \
		    result_ == -1 ? strerrorname_np(error_) : "");                                                     \
		result_;                                                                                               \
	})
/* Of a call that gives a pointer or a descriptor: only whether it did. */
#define MADE(call)                                                                                                     \
	({                                                                                                             \
		errno = 0;                                                                                             \
		__typeof__(call) made_ = (call);                                                                       \
		const int error_ = errno;                                                                              \
		const bool is_ = (long)made_ != -1 && (long)made_ != 0;                                                \
		say("%s: %s\n", #call, is_ ? "made" : strerrorname_np(error_));                                        \
		made_;                                                                                                 \
	})

static void show_file(const char *name)
{
	char text[200] = "";
	struct stat st;
	const int fd = open(name, O_RDONLY);
	const ssize_t bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (lstat(name, &st) != 0) {
		say("  %s: %s\n", name, strerrorname_np(errno));
		return;
	}
	for (ssize_t i = 0; i < bytes; i++)
		if (text[i] < ' ')
			text[i] = '.';
	say("  %s: mode %o size %ld links %lu \"%.*s\"\n", name, st.st_mode, S_ISDIR(st.st_mode) ? 0 : (long)st.st_size,
	    S_ISDIR(st.st_mode) ? 0 : (unsigned long)st.st_nlink, (int)(bytes > 0 ? bytes : 0), text);
}

static int fresh(const char *name, const char *text)
{
	const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		flaws++;
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static const char *in_here(const char *name)
{
	static char paths[8][PATH_MAX];
	static unsigned int next;
	char *path = paths[next++ % 8];

	snprintf(path, PATH_MAX, "%.3000s/%.1000s", here, name);
	return path;
}

/* ------------------------------------------------------------------ */

int __open_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);

static void opens(void)
{
	struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_BENEATH};
	const int d = MADE(open(".", O_RDONLY | O_DIRECTORY));
	int fd;

	MADE(fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640));
	CALL(close(fd));
	CALL(open(in_here("a"), O_RDWR | O_CREAT | O_EXCL, 0640));
	CALL(open("none", O_RDONLY));
	CALL(open("a/b", O_RDONLY));
	CALL(open("a", O_DIRECTORY));
	CALL(open("", O_RDONLY));
	CALL(open(".", O_RDWR));
	CALL(open(".", O_CREAT | O_RDWR, 0600));
	CALL(open("none/", O_CREAT | O_RDWR, 0600));
	close(MADE(open64(in_here("a"), O_RDONLY)));
	close(MADE(openat(d, "b", O_WRONLY | O_CREAT, 0604)));
	close(MADE(openat64(AT_FDCWD, "b", O_WRONLY)));
	close(MADE(creat("c", 0600)));
	close(MADE(creat64(in_here("c"), 0600)));
	close(MADE(__open_2(in_here("a"), O_RDONLY)));
	close(MADE(__openat_2(d, "a", O_RDONLY)));
	close((int)MADE(syscall(SYS_open, in_here("a"), O_RDONLY)));
	close((int)MADE(syscall(SYS_openat, d, "a", O_RDONLY)));
	close((int)MADE(syscall(SYS_openat2, d, "e", &how, sizeof(how))));
	CALL(symlink("a", "l"));
	CALL(open("l", O_RDONLY | O_NOFOLLOW));
	close(MADE(open("l", O_PATH | O_NOFOLLOW)));
	close(MADE(open("a", O_PATH)));
	fd = MADE(open(".", O_TMPFILE | O_RDWR, 0600));
	CALL(write(fd, "nameless", 8));
	CALL(close(fd));
	fd = MADE(open("a", O_WRONLY | O_APPEND | O_SYNC | O_NONBLOCK | O_CLOEXEC));
	CALL(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_SYNC | O_NONBLOCK));
	CALL(fcntl(fd, F_GETFD));
	CALL(read(fd, here, 1));
	CALL(close(fd));
	CALL(close(fd));
	CALL(openat(fd, "a", O_RDONLY));
	CALL(openat(d, "none", O_RDONLY));
	CALL(close(d));
}

ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);

static void reads_and_writes(void)
{
	char one[8] = "", two[8] = "";
	struct iovec parts[3] = {{one, 3}, {NULL, 0}, {two, 4}}, words[2] = {{"front", 5}, {"-back", 5}};
	const int fd = fresh("f", "0123456789"), appends = open("g", O_RDWR | O_CREAT | O_APPEND, 0644);

	CALL(read(fd, one, 4));
	CALL(pread(fd, one, 4, 8));
	CALL(pread64(fd, one, 4, 20));
	CALL(pread(fd, one, 4, -1));
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(lseek(fd, -20, SEEK_CUR));
	CALL(lseek64(fd, 0, SEEK_END));
	CALL(lseek(fd, 0, 99));
	CALL(lseek(fd, 0, SEEK_HOLE));
	CALL(lseek(fd, 100, SEEK_DATA));
	CALL(pwrite(fd, "AB", 2, 2));
	CALL(pwrite64(fd, "CD", 2, 12));
	CALL(lseek(fd, 1, SEEK_SET));
	CALL(readv(fd, parts, 3));
	say("  %.3s %.4s\n", one, two);
	CALL(writev(fd, words, 2));
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(preadv(fd, parts, 3, 0));
	say("  %.3s %.4s\n", one, two);
	CALL(pwritev(fd, words, 2, 20));
	CALL(preadv2(fd, parts, 3, 18, 0));
	CALL(preadv2(fd, parts, 3, -1, 0));
	CALL(pwritev2(fd, words, 1, -1, 0));
	CALL(writev(fd, parts, 0));
	CALL(writev(appends, words, 2));
	CALL(lseek(appends, 0, SEEK_CUR));
	CALL(lseek(appends, 0, SEEK_SET));
	CALL(writev(appends, words, 1));
	CALL(lseek(appends, 0, SEEK_CUR));
	CALL(lseek(appends, 2, SEEK_SET));
	CALL(readv(appends, parts, 3));
	CALL(lseek(appends, 0, SEEK_CUR));
	CALL(__read_chk(fd, one, 2, sizeof(one)));
	CALL(__pread_chk(fd, one, 2, 1, sizeof(one)));
	CALL(__pread64_chk(fd, one, 2, 1, sizeof(one)));
	CALL(syscall(SYS_pread64, fd, one, 2, 3));
	CALL(syscall(SYS_readv, appends, parts, 3));
	CALL(read(fd, one, 0));
	CALL(write(fd, one, 0));
	CALL(readv(fd, parts, -1));
	CALL(readv(fd, parts, IOV_MAX + 1));
	CALL(pwritev2(fd, words, 2, 0, RWF_APPEND));
	CALL(syscall(SYS_lseek, fd, 3, SEEK_SET));
	CALL(syscall(SYS_read, fd, one, 3));
	CALL(read(fd, one, 0));
	CALL(write(fd, one, 0));
	show_file("f");
	show_file("g");
	CALL(close(fd));
	CALL(close(appends));
	const int d = open(".", O_RDONLY);
	CALL(read(d, one, 1));
	CALL(pread(d, one, 1, 0));
	CALL(write(d, one, 1));
	CALL(close(d));
}

static void bad_pointers(void)
{
	struct iovec parts[2] = {{half + 4090, 6}, {bad, 6}}, lost[2] = {{bad, 6}, {half, 6}};
	const int fd = fresh("f", "0123456789"), g = fresh("g", ""), h = fresh("h", "0123456789");
	struct stat st;
	char text[32];
	off_t at = 0;

	memset(half, 'h', 4096);
	CALL(open(bad, O_RDONLY));
	CALL(open(NULL, O_RDONLY));
	CALL(open((char *)-1, O_RDONLY));
	half[4095] = 'x';
	CALL(stat(half + 4095, &st)); /* a path without an end */
	CALL(stat("f", (struct stat *)bad));
	CALL(lstat("f", (struct stat *)read_only));
	CALL(fstat(fd, (struct stat *)bad));
	CALL(fstatat(AT_FDCWD, "f", (struct stat *)(half + 4000), 0));
	CALL(statx(AT_FDCWD, "f", 0, STATX_ALL, (struct statx *)bad));
	CALL(statx(AT_FDCWD, bad, 0, STATX_ALL, (struct statx *)text));
	CALL(read(fd, bad, 4));
	CALL(read(fd, read_only, 4));
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(pread(fd, NULL, 4, 0));
	CALL(write(g, bad, 4));
	CALL(write(g, (void *)-1, 4));
	CALL(pwrite(g, bad, 4, 0));
	CALL(write(g, half + 4092, 4));
	CALL(fstat(g, &st));
	say("  size %ld\n", (long)st.st_size);
	CALL(readv(h, lost, 2));
	CALL(lseek(h, 0, SEEK_CUR));
	CALL(readv(h, parts, 2));
	CALL(lseek(h, 0, SEEK_CUR));
	CALL(writev(h, lost, 2));
	CALL(writev(h, (struct iovec *)bad, 2));
	CALL(preadv(h, (struct iovec *)bad, 2, 0));
	CALL(pwritev(h, lost, 2, 0));
	CALL(close(h));
	CALL(mkdir(bad, 0700));
	CALL(rmdir(bad));
	CALL(unlink(bad));
	CALL(rename(bad, "x"));
	CALL(rename("f", bad));
	CALL(link("f", bad));
	CALL(link(bad, "x"));
	CALL(symlink(bad, "x"));
	CALL(symlink("x", bad));
	CALL(readlink(bad, text, sizeof(text)));
	CALL(symlink("target", "s"));
	CALL(readlink("s", bad, 10));
	CALL(readlink("s", read_only, 10));
	CALL(access(bad, R_OK));
	CALL(faccessat(AT_FDCWD, bad, R_OK, 0));
	CALL(chmod(bad, 0600));
	CALL(chown(bad, 0, 0));
	CALL(lchown(bad, 0, 0));
	CALL(truncate(bad, 0));
	CALL(utimensat(AT_FDCWD, bad, NULL, 0));
	CALL(utimensat(AT_FDCWD, "f", (struct timespec *)bad, 0));
	CALL(futimens(fd, (struct timespec *)bad));
	CALL(setxattr("f", bad, "v", 1, 0));
	CALL(setxattr("f", "user.a", bad, 1, 0));
	CALL(fsetxattr(fd, "user.a", bad, 1, 0));
	CALL(setxattr("f", "user.a", "v", 1, 0));
	CALL(getxattr("f", "user.a", bad, 10));
	CALL(fgetxattr(fd, "user.a", bad, 10));
	CALL(fgetxattr(fd, bad, text, 10));
	CALL(getxattr("f", bad, text, 10));
	CALL(listxattr("f", bad, 100));
	CALL(flistxattr(fd, bad, 100));
	CALL(removexattr("f", bad));
	CALL(fremovexattr(fd, bad));
	CALL(copy_file_range(fd, (off_t *)bad, g, NULL, 4, 0));
	CALL(copy_file_range(fd, &at, g, (off_t *)bad, 4, 0));
	CALL(sendfile(g, fd, (off_t *)bad, 4));
	CALL(chdir(bad));
	CALL(statfs(bad, NULL));
	CALL(poll((struct pollfd *)bad, 1, 0));
	CALL(sendmsg(fd, (struct msghdr *)bad, 0));
	CALL(syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY));
	CALL(syscall(SYS_newfstatat, AT_FDCWD, "f", bad, 0));
	CALL(syscall(SYS_statx, AT_FDCWD, NULL, 0, STATX_ALL, text));
	show_file("f");
	CALL(close(fd));
	CALL(close(g));
}

static sigjmp_buf back;
static volatile int came;

static void jump(int signal)
{
	came = signal;
	siglongjmp(back, 1);
}

static void count(int signal)
{
	came += signal;
}

static void expect_handler(int signal, void (*handler)(int))
{
	struct sigaction now;

	sigaction(signal, NULL, &now);
	say("  handler %d flags %#x\n", now.sa_handler == handler, (unsigned int)now.sa_flags & ~0x04000000u);
}

/* Notes its stack and writes nothing onto that, so that the first byte which is written below it is another's. */
#ifdef __x86_64__
char *bare_stack;
void bare_handler(int signal);
__asm__(".pushsection .text\n.type bare_handler, @function\nbare_handler: movq %rsp, bare_stack(%rip)\nret\n.size bare_handler, . - "
	"bare_handler\n.popsection\n");

static void on_a_stack_of_its_own(void)
{
	static char memory[65536];
	const stack_t own = {.ss_sp = memory, .ss_size = sizeof(memory)}, none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = bare_handler, .sa_flags = SA_ONSTACK};
	size_t written = 0;

	memset(memory, 'x', sizeof(memory));
	CALL(sigaltstack(&own, NULL));
	CALL(sigaction(SIGUSR1, &action, NULL));
	CALL(raise(SIGUSR1));
	CALL(bare_stack > memory && bare_stack < memory + sizeof(memory));
	for (const char *at = memory; at < bare_stack; at++)
		written += *at != 'x';
	say("  bytes that the handler did not write: %zu\n", written);
	CALL(sigaltstack(&none, NULL));
}
#else
static void on_a_stack_of_its_own(void)
{
}
#endif

static void handlers(void)
{
	struct sigaction action = {.sa_handler = count, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)}, old;
	struct stat st;
	const char *volatile nowhere = bad;

	expect_handler(SIGSEGV, SIG_DFL);
	if (sigsetjmp(back, 1) == 0) {
		MADE(signal(SIGSEGV, jump) == SIG_DFL);
		expect_handler(SIGSEGV, jump);
		came = *nowhere;
	}
	say("  came %d\n", came);
	CALL(stat(bad, &st)); /* is no fault of the program's all the same */
	MADE(signal(SIGSEGV, SIG_DFL) == jump);
	CALL(stat(bad, &st));
	CALL(sigaction(SIGUSR1, &action, NULL));
	expect_handler(SIGUSR1, count);
	came = 0;
	CALL(raise(SIGUSR1));
	say("  came %d\n", came);
	expect_handler(SIGUSR1, SIG_DFL);
	MADE(sysv_signal(SIGUSR2, count) == SIG_DFL);
	expect_handler(SIGUSR2, count);
	CALL(raise(SIGUSR2));
	expect_handler(SIGUSR2, SIG_DFL);
	MADE(sigset(SIGUSR2, count) == SIG_DFL);
	MADE(sigset(SIGUSR2, SIG_HOLD) == count);
	CALL(raise(SIGUSR2));
	MADE(sigset(SIGUSR2, SIG_IGN) == SIG_HOLD);
	expect_handler(SIGUSR2, SIG_IGN);
	MADE(signal(SIGALRM, count) == SIG_DFL);
	CALL(siginterrupt(SIGALRM, 1));
	expect_handler(SIGALRM, count);
	CALL(sigaction(SIGKILL, &action, &old));
	CALL(sigaction(0, &action, &old));
	CALL(sigaction(SIGALRM, NULL, &old));
	MADE(old.sa_handler == count);
	MADE(signal(SIGALRM, SIG_DFL) == count);
	CALL(syscall(SYS_rt_sigaction, SIGALRM, bad, NULL, 8));
	CALL(syscall(SYS_rt_sigaction, SIGALRM, NULL, bad, 8));
	CALL(syscall(SYS_rt_sigaction, SIGALRM, NULL, NULL, 9));
	const pid_t child = fork();
	if (child == 0) {
		came = *nowhere;
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	say("  a fault ends a program: signal %d\n", WTERMSIG(status));
	on_a_stack_of_its_own();
}

/* ------------------------------------------------------------------ handlers that come at any time, and call themselves */

static volatile sig_atomic_t alarms, wrong;
static int shared; /* a file that was opened before */

static void make_more(int number)
{
	struct iovec parts[2] = {{"a", 1}, {"b", 1}};
	struct stat st;
	char text[8];

	if (alarms == 300) /* one that was under way */
		return;
	const int fd = open("from-handler", O_RDWR | O_CREAT | O_APPEND, 0600);

	(void)number;
	wrong |= pread(shared, text, sizeof(text), 0) != 4;
	wrong |= fd < 0 || writev(fd, parts, 2) != 2 || fstat(fd, &st) != 0 || st.st_size != 2 * (alarms + 1) ||
		 close(fd) != 0;
	alarms++;
}

static volatile sig_atomic_t told, sum_told, last_told;
static volatile pid_t teller;

static void listen_to(int number, siginfo_t *info, void *context)
{
	(void)context;
	wrong |= number != SIGRTMIN || info->si_code != SI_QUEUE || info->si_pid != teller ||
		 info->si_value.sival_int != last_told + 1;
	last_told = info->si_value.sival_int;
	sum_told += last_told;
	told++;
}

static void interrupted(void)
{
	struct itimerval once = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_sigaction = listen_to, .sa_flags = SA_SIGINFO};
	struct stat st = {0};
	sigset_t one;
	char text[8];

	shared = fresh("shared", "text");
	signal(SIGALRM, make_more);
	for (int n = 0; alarms < 300; n++) {
		once.it_value.tv_usec = 20 + n * 37 % 500; /* so that it comes at other calls each time */
		setitimer(ITIMER_REAL, &once, NULL);
		const int locked = fresh("g", "text");
		wrong |= flock(locked, LOCK_EX) != 0; /* hands it over */
		close(locked);
		close(fresh("f", "text"));
		wrong |= stat("f", &st) != 0 || st.st_size != 4 || unlink("f") != 0;
	}
	stat("from-handler", &st);
	say("  %d alarms, wrong %d, bytes %ld\n", (int)alarms, (int)wrong, (long)st.st_size);

	signal(SIGALRM, jump);
	once.it_value.tv_usec = 300;
	for (int i = 0; i < 100; i++) {
		if (sigsetjmp(back, 1) == 0) {
			setitimer(ITIMER_REAL, &once, NULL);
			for (;;)
				stat("from-handler", &st);
		}
	}
	CALL(stat("from-handler", &st));
	CALL(pread(shared, text, sizeof(text), 0));
	signal(SIGALRM, SIG_DFL);

	/* those of one kind keep their order, and what they carry */
	sigaction(SIGRTMIN, &action, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &one, NULL);
	teller = fork();
	if (teller == 0) {
		for (int i = 1; i <= 200; i++)
			sigqueue(getppid(), SIGRTMIN, (union sigval){.sival_int = i});
		_exit(0);
	}
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	while (told < 200)
		wrong |= stat("from-handler", &st) != 0;
	while (waitpid(teller, NULL, 0) < 0 && errno == EINTR)
		;
	say("  %d told, sum %d, wrong %d\n", (int)told, (int)sum_told, (int)wrong);
	sigpending(&one);
	CALL(sigismember(&one, SIGRTMIN));
	sigprocmask(SIG_BLOCK, NULL, &one);
	CALL(sigismember(&one, SIGRTMIN) + sigismember(&one, SIGALRM) + sigismember(&one, SIGTERM));
}

static void show_stat(const char *how, const struct stat *st)
{
	say("  %s: %o %ld %d %d\n", how, st->st_mode, S_ISREG(st->st_mode) ? (long)st->st_size : 0, (int)st->st_uid,
	    (int)st->st_gid);
}

int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstatat(int version, int at, const char *path, struct stat *out, int flags);

static void attributes(void)
{
	const int fd = fresh("f", "0123456789"), d = open(".", O_RDONLY | O_DIRECTORY), o = open(".", O_PATH);
	const int by_number = open("f", O_RDWR), asked = open("f", O_RDWR);
	struct timespec times[2] = {{1000000000, 5}, {UTIME_NOW, UTIME_OMIT}};
	struct timeval micros[2] = {{1, 2}, {3, 4}}, wrong[2] = {{1, 2000000}, {3, 4}};
	struct utimbuf old = {5, 6};
	struct statvfs space;
	struct statfs more;
	struct statx x;
	struct stat st;

	CALL(symlink("f", "l"));
	CALL(stat("l", &st));
	show_stat("stat", &st);
	CALL(lstat("l", &st));
	show_stat("lstat", &st);
	CALL(fstat(fd, &st));
	show_stat("fstat", &st);
	CALL(fstat(d, &st));
	CALL(fstat(o, &st));
	CALL(stat64(in_here("f"), (struct stat64 *)&st));
	CALL(lstat64(in_here("l"), (struct stat64 *)&st));
	CALL(fstat64(fd, (struct stat64 *)&st));
	CALL(fstatat(d, "l", &st, AT_SYMLINK_NOFOLLOW));
	CALL(fstatat(fd, "", &st, AT_EMPTY_PATH));
	CALL(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
	CALL(fstatat(fd, "x", &st, 0));
	CALL(fstatat(d, "f", &st, 0x40000000));
	CALL(fstatat64(d, "none", (struct stat64 *)&st, 0));
	CALL(__xstat(1, "f", &st));
	CALL(__lxstat(1, "l", &st));
	CALL(__fxstat(1, fd, &st));
	CALL(__fxstatat(1, d, "f", &st, 0));
	CALL(statx(d, "f", AT_STATX_SYNC_AS_STAT, STATX_SIZE, &x));
	say("  size %lu\n", (unsigned long)x.stx_size);
	CALL(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &x));
	CALL(statx(AT_FDCWD, "f", 0, STATX_ALL | STATX__RESERVED, &x));
	CALL(statx(AT_FDCWD, "f", AT_STATX_SYNC_TYPE, STATX_ALL, &x));
	CALL(syscall(SYS_stat, "f", &st));
	CALL(syscall(SYS_fstat, by_number, &st));
	CALL(syscall(SYS_newfstatat, d, "f", &st, 0));
	CALL(access("f", R_OK | W_OK));
	CALL(access("f", 99));
	CALL(access("none", F_OK));
	CALL(faccessat(d, "f", R_OK, AT_EACCESS));
	CALL(faccessat(d, "l", F_OK, AT_SYMLINK_NOFOLLOW));
	CALL(euidaccess("f", R_OK));
	CALL(eaccess("f", R_OK));
	CALL(syscall(SYS_faccessat2, d, "f", R_OK, AT_EACCESS));
	CALL(chmod("f", 0640));
	CALL(fchmod(fd, 04755));
	CALL(fchmodat(d, "f", 0604, 0));
	CALL(lchmod("f", 0644));
	CALL(chmod("none", 0600));
	CALL(fchmod(o, 0700));
	CALL(chown("f", getuid(), getgid()));
	CALL(lchown("l", (uid_t)-1, (gid_t)-1));
	CALL(fchown(fd, (uid_t)-1, getgid()));
	CALL(fchownat(d, "l", getuid(), getgid(), AT_SYMLINK_NOFOLLOW));
	CALL(fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH));
	CALL(utimensat(d, "f", times, 0));
	stat("f", &st);
	say("  %ld.%09ld\n", st.st_atim.tv_sec, st.st_atim.tv_nsec);
	times[0].tv_nsec = 1000000000;
	CALL(utimensat(d, "f", times, 0));
	CALL(utimensat(d, "l", NULL, AT_SYMLINK_NOFOLLOW));
	CALL(futimens(fd, NULL));
	CALL(utimes("f", micros));
	stat("f", &st);
	say("  %ld.%09ld %ld.%09ld\n", st.st_atim.tv_sec, st.st_atim.tv_nsec, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	CALL(utimes("f", wrong));
	CALL(lutimes("l", micros));
	CALL(futimes(fd, micros));
	CALL(futimesat(d, "f", micros));
	CALL(utime("f", &old));
	stat("f", &st);
	say("  %ld %ld\n", st.st_atim.tv_sec, st.st_mtim.tv_sec);
	CALL(utime("f", NULL));
	CALL(truncate("f", 5));
	CALL(truncate64("f", 6));
	CALL(truncate("f", -1));
	CALL(truncate(".", 1));
	CALL(ftruncate(fd, 100));
	CALL(ftruncate64(fd, 8));
	CALL(ftruncate(d, 8));
	CALL(fallocate(fd, 0, 0, 5000));
	CALL(fallocate64(fd, FALLOC_FL_KEEP_SIZE, 0, 9000));
	CALL(fallocate(fd, 0, 0, 0));
	CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	CALL(posix_fallocate(fd, 0, 10000));
	CALL(posix_fallocate64(fd, -1, 10));
	CALL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	CALL(posix_fadvise(fd, 0, 0, 99));
	CALL(readahead(fd, 0, 4096));
	CALL(readahead(d, 0, 4096));
	CALL(fsync(fd));
	CALL(fdatasync(fd));
	CALL(fsync(d));
	CALL(syncfs(fd));
	CALL(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	CALL(statvfs(".", &space));
	say("  namemax %lu\n", space.f_namemax);
	CALL(fstatvfs(fd, &space));
	say("  namemax %lu\n", space.f_namemax);
	CALL(statfs("f", &more));
	CALL(fstatfs(fd, &more));
	CALL(statfs64(".", (struct statfs64 *)&more));
	CALL(pathconf("f", _PC_NAME_MAX));
	CALL(fpathconf(fd, _PC_NAME_MAX));
	CALL(fpathconf(fd, _PC_PATH_MAX));
	CALL(fpathconf(fd, _PC_PIPE_BUF));
	CALL(isatty(fd));
	struct termios terminal;
	CALL(tcgetattr(fd, &terminal));
	MADE(ttyname(fd));
	MADE(ptsname(fd));
	int size;
	CALL(ioctl(asked, FIONREAD, &size));
	CALL(ioctl(asked, TCGETS, &terminal));
	CALL(ioctl(asked, FIOCLEX));
	CALL(fcntl(asked, F_GETFD));
	CALL(fchmodat(d, "f", 0600, AT_SYMLINK_NOFOLLOW));
	show_file("f");
	CALL(close(fd));
	CALL(close(d));
	CALL(close(o));
	CALL(close(by_number));
	CALL(close(asked));
}

ssize_t __readlink_chk(const char *path, char *buffer, size_t bytes, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *buffer, size_t bytes, size_t room);
char *__realpath_chk(const char *path, char *out, size_t room);
char *__getcwd_chk(char *out, size_t bytes, size_t room);
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int at, const char *path, mode_t mode, dev_t *device);

static void show_path(const char *path)
{
	const size_t bytes = strlen(here);

	say("  %s\n", path && strncmp(path, here, bytes) == 0 ? path + bytes : path ? "elsewhere" : "none");
}

static void names(void)
{
	char text[PATH_MAX] = "", long_name[300];
	dev_t none = 0;
	const int d = open(".", O_RDONLY | O_DIRECTORY);

	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	close(fresh("f", "text"));
	CALL(mkdir("d", 0751));
	CALL(mkdir("d", 0751));
	CALL(mkdir("none/d", 0751));
	CALL(mkdir("d2/", 0751));
	CALL(mkdir("", 0751));
	CALL(mkdir(long_name, 0751));
	CALL(mkdirat(d, "d/e", 0700));
	CALL(mkdirat(-1, in_here("d/k"), 0700));
	CALL(mkdirat(-1, "d/k", 0700));
	CALL(rmdir("d"));
	CALL(rmdir("f"));
	CALL(rmdir("."));
	CALL(rmdir("d/e/.."));
	CALL(unlinkat(d, "d/k", AT_REMOVEDIR));
	CALL(unlinkat(d, "d/e", 0));
	CALL(unlinkat(d, "d/e", 0x4000));
	CALL(rename("f", "g"));
	CALL(rename("g", "d"));
	CALL(rename("d", "d/inside"));
	CALL(rename("d2", "d/d2"));
	CALL(rename("none", "x"));
	CALL(renameat(d, "g", d, "d/g"));
	CALL(renameat2(d, "d/g", AT_FDCWD, in_here("h"), RENAME_NOREPLACE));
	CALL(renameat2(d, "h", d, "d", RENAME_EXCHANGE));
	CALL(renameat2(d, "h", d, "d", RENAME_EXCHANGE));
	CALL(renameat2(d, "h", d, "d", 99));
	CALL(rename("h", "/proc/x"));
	CALL(link("h", "l1"));
	CALL(link("h", "l1"));
	CALL(link("d", "l2"));
	CALL(linkat(d, "h", d, "l2", 0));
	CALL(symlink("h", "s"));
	CALL(symlink("h", "s"));
	CALL(symlink("", "s2"));
	CALL(symlinkat("none", d, "dangling"));
	CALL(linkat(d, "s", d, "ls", 0));
	CALL(linkat(d, "s", d, "lf", AT_SYMLINK_FOLLOW));
	show_file("lf");
	CALL(readlink("s", text, sizeof(text)));
	say("  %.1s\n", text);
	CALL(readlink("h", text, sizeof(text)));
	CALL(readlinkat(d, "dangling", text, 2));
	CALL(readlinkat(d, "dangling", text, 0));
	CALL(__readlink_chk("s", text, 10, sizeof(text)));
	CALL(__readlinkat_chk(d, "s", text, 10, sizeof(text)));
	show_path(realpath("s", text));
	show_path(realpath("d/../d/./d2", text));
	MADE(realpath("dangling", text));
	show_path(__realpath_chk(in_here("s"), text, sizeof(text)));
	char *canonical = canonicalize_file_name("s");
	show_path(canonical);
	free(canonical);
	show_file("dangling");
	CALL(mknod("fifo", S_IFIFO | 0600, 0));
	CALL(mkfifo("fifo2", 0640));
	CALL(mkfifoat(d, "fifo3", 0640));
	CALL(mknodat(d, "plain", S_IFREG | 0640, 0));
	CALL(mknod("plain", S_IFREG | 0640, 0));
	CALL(__xmknod(0, "plain2", S_IFREG | 0600, &none));
	CALL(__xmknodat(0, d, "plain3", S_IFREG | 0600, &none));
	show_file("plain3");
	CALL(open("fifo", O_WRONLY | O_NONBLOCK));
	close(MADE(open("fifo2", O_RDONLY | O_NONBLOCK)));
	CALL(remove("fifo"));
	CALL(remove("d"));
	CALL(remove("d/e"));
	CALL(unlink("d"));
	CALL(unlink("none"));
	CALL(unlink("fifo2/"));
	CALL(unlink("fifo3"));
	CALL(syscall(SYS_mkdir, "by-number", 0700));
	CALL(syscall(SYS_unlinkat, d, "by-number", AT_REMOVEDIR));
	CALL(syscall(SYS_rename, "h", "h2"));
	CALL(syscall(SYS_linkat, d, "h2", d, "h3", 0));
	CALL(syscall(SYS_symlinkat, "h2", d, "s3"));
	CALL(chdir("d"));
	MADE(getcwd(text, sizeof(text)));
	show_path(text);
	MADE(getcwd(text, 2));
	__getcwd_chk(text, sizeof(text), sizeof(text));
	show_path(text);
	char *name = get_current_dir_name();
	show_path(name);
	free(name);
	CALL(access("d2", F_OK));
	CALL(access("../h2", F_OK));
	CALL(fchdir(d));
	CALL(access("d/d2", F_OK));
	CALL(chdir("h2"));
	CALL(chdir("none"));
	CALL(close(d));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int compare_fts(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static unsigned int walked, walked_files, seen_from_there;

static int walk(const char *path, const struct stat *st, int what)
{
	(void)path;
	walked++;
	walked_files += what == FTW_F && S_ISREG(st->st_mode);
	return 0;
}

static int walk_more(const char *path, const struct stat *st, int what, struct FTW *where)
{
	struct stat again;

	walked++;
	walked_files += what == FTW_F;
	seen_from_there +=
		lstat(path + where->base, &again) == 0 && again.st_ino == st->st_ino && again.st_dev == st->st_dev;
	return 0;
}

static int at_error(const char *path, int error)
{
	(void)path;
	(void)error;
	return 0;
}

static void trees(void)
{
	char *roots[] = {(char *)"t", NULL}, path[64];
	struct dirent **list, entry, *next;
	glob_t found;
	wordexp_t words;
	int n;

	mkdir("t", 0755);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "t/d%d", i);
		mkdir(path, 0755);
		for (int k = 0; k < 3; k++) {
			snprintf(path, sizeof(path), "t/d%d/f%d", i, k);
			close(fresh(path, "x"));
		}
	}
	CALL(n = scandir("t", &list, not_hidden, by_name));
	for (int i = 0; i < n; i++)
		say("  %s %d\n", list[i]->d_name, list[i]->d_type);
	CALL(scandir("none", &list, NULL, NULL));
	const int d = open("t", O_RDONLY | O_DIRECTORY);
	CALL(scandirat(d, "d1", &list, not_hidden, by_name));
	DIR *dir = MADE(opendir("t/d1"));
	unsigned int entries = 0;
	while ((next = readdir(dir)))
		entries++;
	say("  %u entries\n", entries);
	rewinddir(dir);
	readdir(dir);
	const long place = telldir(dir);
	strcpy(path, (next = readdir(dir)) ? next->d_name : "none");
	seekdir(dir, place);
	next = readdir(dir);
	say("  the same again: %d\n", next && strcmp(next->d_name, path) == 0);
	rewinddir(dir);
	for (entries = 0; readdir_r(dir, &entry, &next) == 0 && next;)
		entries++;
	say("  %u entries\n", entries);
	CALL(dirfd(dir) >= 0);
	CALL(fchmod(dirfd(dir), 0755));
	CALL(closedir(dir));
	MADE(opendir("t/d1/f1"));
	MADE(opendir("none"));
	MADE(fdopendir(-1));
	dir = MADE(fdopendir(d));
	CALL(closedir(dir));
	CALL(close(d));
	const int e = open("t/d1", O_RDONLY | O_DIRECTORY);
	char buffer[1024];
	MADE(getdents64(e, buffer, sizeof(buffer)));
	CALL(lseek(e, 0, SEEK_SET));
	CALL(syscall(SYS_getdents64, e, buffer, sizeof(buffer)) > 0);
	const int file = fresh("plain", "x");
	CALL(getdents64(file, buffer, sizeof(buffer)));
	MADE(fdopendir(file));
	close(e);
	close(file);
	CALL(ftw("t", walk, 5));
	say("  %u of which files %u\n", walked, walked_files);
	for (int flags = 0; flags < 3; flags++) {
		walked = walked_files = seen_from_there = 0;
		CALL(nftw("t", walk_more, 5,
			  (int[]){FTW_PHYS, FTW_PHYS | FTW_CHDIR, FTW_PHYS | FTW_CHDIR | FTW_DEPTH}[flags]));
		say("  %u of which files %u, seen by their names: %u\n", walked, walked_files,
		    flags ? seen_from_there : 0);
	}
	for (int flags = 0; flags < 2; flags++) {
		FTSENT *at;
		FTS *fts = MADE(fts_open(roots, FTS_PHYSICAL | (flags ? FTS_NOCHDIR : 0), compare_fts));
		while ((at = fts_read(fts))) {
			struct stat st;
			if (at->fts_info == FTS_F)
				say("  %s %d\n", at->fts_path, lstat(flags ? at->fts_path : at->fts_name, &st));
		}
		CALL(fts_close(fts));
		CALL(access("t/d1/f1", F_OK));
	}
	CALL(glob("t/*/f[12]", GLOB_ERR, at_error, &found));
	for (size_t i = 0; i < found.gl_pathc; i++)
		say("  %s\n", found.gl_pathv[i]);
	globfree(&found);
	CALL(glob(in_here("t/none*"), 0, NULL, &found));
	CALL(wordexp("t/d?", &words, 0));
	say("  %zu words\n", words.we_wordc);
	wordfree(&words);
	CALL(wordexp("$(cat t/d1/f1)", &words, 0));
	say("  %s\n", words.we_wordc ? words.we_wordv[0] : "none");
	wordfree(&words);
}

static void streams(void)
{
	char text[64] = "", name[64], *line = NULL;
	size_t room = 0;
	FILE *f = MADE(fopen("f", "w+"));

	CALL(fprintf(f, "one\ntwo\n"));
	rewind(f);
	CALL(getline(&line, &room, f));
	CALL(fseek(f, 0, SEEK_END));
	CALL(ftell(f));
	CALL(fflush(f));
	CALL(fsync(fileno(f)));
	CALL(fclose(f));
	free(line);
	f = MADE(fopen64(in_here("f"), "ae"));
	CALL(fputs("three\n", f) >= 0);
	f = MADE(freopen("g", "w", f));
	CALL(fputs("four\n", f) >= 0);
	CALL(fclose(f));
	f = MADE(fopen("f", "rx"));
	if (f)
		fclose(f);
	MADE(fopen("f", "wx"));
	MADE(fopen("none", "r"));
	const int fd = open("f", O_RDWR);
	CALL(read(fd, text, 4));
	f = MADE(fdopen(fd, "r+"));
	CALL(fread(text, 1, 3, f));
	say("  %.3s\n", text);
	CALL(fclose(f));
	CALL(close(fd));
	const int out = fresh("h", "");
	CALL(dprintf(out, "%d lines", 7));
	CALL(write(out, "!", 1));
	CALL(lseek(out, 0, SEEK_CUR));
	close(out);
	f = MADE(tmpfile());
	CALL(fclose(f));
	strcpy(name, "mXXXXXX");
	close(MADE(mkstemp(name)));
	CALL(access(name, R_OK));
	CALL(unlink(name));
	strcpy(name, "mXXXXXX.txt");
	close(MADE(mkostemps(name, 4, O_CLOEXEC)));
	CALL(unlink(name));
	strcpy(name, "mXXXXXX");
	close(MADE(mkostemp64(name, O_APPEND)));
	CALL(unlink(name));
	strcpy(name, "mXXXXXX.c");
	close(MADE(mkstemps(name, 2)));
	CALL(unlink(name));
	strcpy(name, "wrong");
	CALL(mkstemp(name));
	strcpy(name, "mXXXXXX");
	MADE(mkdtemp(name));
	CALL(rmdir(name));
	show_file("f");
	show_file("g");
	show_file("h");
	f = MADE(popen("cat f", "r"));
	CALL(fread(text, 1, sizeof(text), f));
	CALL(pclose(f));
	CALL(system("cat g >>h"));
	show_file("h");
}

static void two_files(void)
{
	const int a = fresh("a", "0123456789"), b = fresh("b", ""), o = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	int ends[2];
	off_t at = 2, to = 4;
	char text[32] = "";

	CALL(copy_file_range(a, &at, b, &to, 5, 0));
	say("  %ld %ld\n", (long)at, (long)to);
	CALL(copy_file_range(a, NULL, b, NULL, 3, 0));
	CALL(lseek(a, 0, SEEK_CUR));
	CALL(copy_file_range(a, NULL, b, NULL, 3, 1));
	CALL(copy_file_range(a, NULL, -1, NULL, 3, 0));
	CALL(copy_file_range(a, &at, a, &to, 9, 0));
	show_file("b");
	at = 0;
	CALL(sendfile(b, a, &at, 4));
	CALL(sendfile64(b, a, NULL, 4));
	CALL(pipe(ends));
	at = 1;
	CALL(splice(a, &at, ends[1], NULL, 5, 0));
	CALL(read(ends[0], text, sizeof(text)));
	CALL(write(ends[1], "piped", 5));
	at = 0;
	CALL(splice(ends[0], NULL, b, &at, 5, 0));
	CALL(tee(a, ends[1], 4, 0));
	struct iovec part = {text, 4};
	CALL(vmsplice(a, &part, 1, 0));
	CALL(sendfile(o, a, NULL, 2));
	show_file("b");
	close(ends[0]);
	close(ends[1]);
	close(a);
	close(b);
	close(o);
}

static void attributes_with_names(void)
{
	char value[16] = "", list[64] = "";
	const int fd = fresh("f", "");

	CALL(setxattr("f", "user.a", "1234", 4, XATTR_CREATE));
	CALL(setxattr("f", "user.a", "1234", 4, XATTR_CREATE));
	CALL(lsetxattr("f", "user.b", "56", 2, XATTR_REPLACE));
	CALL(fsetxattr(fd, "user.b", "", 0, 0));
	CALL(setxattr("f", "nothing.b", "", 0, 0));
	CALL(setxattr("f", "user.c", "", 0, 99));
	CALL(setxattr("f", "user.c", value, 70000, 0));
	CALL(getxattr("f", "user.a", value, sizeof(value)));
	CALL(getxattr("f", "user.a", value, 2));
	CALL(getxattr("f", "user.a", NULL, 0));
	CALL(lgetxattr("f", "user.none", value, 2));
	CALL(fgetxattr(fd, "user.b", value, sizeof(value)));
	CALL(listxattr("f", NULL, 0));
	CALL(llistxattr("f", list, 3));
	CALL(flistxattr(fd, list, sizeof(list)));
	CALL(removexattr("f", "user.a"));
	CALL(lremovexattr("f", "user.a"));
	CALL(fremovexattr(fd, "user.b"));
	CALL(fremovexattr(fd, ""));
	CALL(listxattr("f", list, sizeof(list)));
	close(fd);
}

static int can_lock(const char *name, int from)
{
	const pid_t child = fork();
	int status;

	if (child == 0) {
		struct flock all = {.l_type = F_WRLCK, .l_start = from, .l_len = 1};
		_exit(fcntl(open(name, O_RDWR), F_SETLK, &all) == 0);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void locks(void)
{
	struct flock part = {.l_type = F_WRLCK, .l_start = 2, .l_len = 3};
	const int fd = fresh("f", "0123456789"), other = open("f", O_RDWR);

	CALL(fcntl(fd, F_SETLK, &part));
	CALL(can_lock("f", 2));
	CALL(can_lock("f", 6));
	part.l_type = F_RDLCK;
	CALL(fcntl(other, F_GETLK, &part));
	say("  type %d\n", part.l_type);
	close(other);
	CALL(can_lock("f", 2));
	part = (struct flock){.l_type = F_WRLCK, .l_start = 2, .l_len = 3};
	CALL(fcntl(fd, F_OFD_SETLK, &part));
	const int third = open("f", O_RDWR);
	CALL(fcntl(third, F_OFD_SETLK, &part));
	CALL(fcntl(third, F_OFD_GETLK, &part));
	close(fd);
	CALL(fcntl(third, F_OFD_SETLKW, &part));
	CALL(lseek(third, 0, SEEK_SET));
	CALL(lockf(third, F_TLOCK, 4));
	CALL(lockf(third, F_TEST, 4));
	CALL(can_lock("f", 0));
	CALL(lockf64(third, F_ULOCK, 0));
	CALL(flock(third, LOCK_EX | LOCK_NB));
	const int fourth = open("f", O_RDWR);
	CALL(flock(fourth, LOCK_SH | LOCK_NB));
	CALL(flock(third, LOCK_UN));
	CALL(flock(fourth, 99));
	CALL(fcntl(fourth, F_SETLEASE, F_UNLCK));
	CALL(fcntl(fourth, 9999));
	close(third);
	close(fourth);
}

static void mappings(void)
{
	const int fd = fresh("f", "0123456789");
	char *one = MADE(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	char *two = MADE(mmap64(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));

	say("  %.10s %.10s\n", one, two);
	two[1] = 'x';
	CALL(msync(two, 4096, MS_SYNC));
	CALL(madvise(one, 4096, MADV_WILLNEED));
	CALL(munmap(one, 4096));
	two = MADE(mremap(two, 4096, 8192, MREMAP_MAYMOVE));
	CALL(munmap(two, 8192));
	MADE(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 3));
	MADE(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
	const int written = open("f", O_WRONLY), d = open(".", O_RDONLY);
	MADE(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, written, 0));
	MADE(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, d, 0));
	close(written);
	close(d);
	CALL(fsync(fd));
	show_file("f");
	close(fd);
}

static void waiting(void)
{
	const int fd = fresh("f", "x"), epoll = epoll_create1(0), watch = inotify_init1(IN_NONBLOCK);
	struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};
	struct timespec now = {0};
	struct timeval soon = {0};
	struct epoll_event event = {.events = EPOLLIN};
	fd_set set;

	CALL(poll(&polled, 1, 0));
	say("  %d\n", polled.revents);
	CALL(ppoll(&polled, 1, &now, NULL));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, &soon));
	CALL(pselect(fd + 1, &set, NULL, NULL, &now, NULL));
	MADE(inotify_add_watch(watch, "f", IN_MODIFY));
	CALL(inotify_add_watch(watch, "none", IN_MODIFY));
	/* a file system's files are not for epoll, only FUSE's are */
	say("  %d\n", epoll_ctl(epoll, EPOLL_CTL_ADD, -1, &event));
	close(fd);
	close(epoll);
	close(watch);
}

static int run_child(const char *path, int fd)
{
	posix_spawn_file_actions_t actions;
	char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"cat <&7; pwd >&2", NULL};
	pid_t child;
	int status = -1;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, 7);
	posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	const int rc = posix_spawnp(&child, path, &actions, NULL, arguments, environ);
	if (rc == 0)
		waitpid(child, &status, 0);
	posix_spawn_file_actions_destroy(&actions);
	return rc ? rc : status;
}

/* A program gets a number that is a directory's which is gone, but was nobody's when the actions named it. */
static void spawn_with_a_number_of_before(const char *top)
{
	char command[PATH_MAX];
	char *arguments[] = {(char *)"sh", (char *)"-c", command, NULL};
	posix_spawn_file_actions_t actions;
	pid_t child;
	int status = -1;

	posix_spawn_file_actions_init(&actions);
	CALL(posix_spawn_file_actions_adddup2(&actions, 60, 7));
	mkdir("gone", 0700);
	const int first = open("gone", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CALL(fcntl(first, F_DUPFD, 60));
	rmdir("gone");
	/* what lies in the root of a mount is no part of this one */
	snprintf(command, sizeof(command),
		 "test ! -e '/proc/self/fd/7/%.1000s' && test ! -e '/proc/self/fd/60/%.1000s'", top, top);
	CALL(posix_spawnp(&child, "sh", &actions, NULL, arguments, environ));
	waitpid(child, &status, 0);
	say("  status %d\n", status);
	CALL(faccessat(60, "none", F_OK, 0)); /* and here it goes on */
	CALL(close(60));
	CALL(close(first));
	posix_spawn_file_actions_destroy(&actions);
}

static int send_fd(int fd)
{
	int pair[2], got = -1;
	char byte = 'x', control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return -2;
	if (sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1)
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(got));
	close(pair[0]);
	close(pair[1]);
	return got;
}

static void descriptors(void)
{
	char text[16] = "";
	const int fd = fresh("f", "0123456789");
	int other, status;

	CALL(read(fd, text, 2));
	other = MADE(dup(fd));
	CALL(read(other, text, 2));
	say("  %.2s\n", text);
	CALL(dup2(fd, other) == other);
	CALL(dup2(fd, fd) == fd);
	CALL(dup3(fd, fd, 0));
	CALL(dup3(fd, other, O_CLOEXEC) == other);
	CALL(fcntl(other, F_GETFD));
	CALL(dup(-1));
	CALL(dup2(fd, -1));
	close(other);
	other = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	CALL(other >= 100);
	CALL(fcntl(other, F_SETFL, O_APPEND));
	CALL(fcntl(fd, F_GETFL) & O_APPEND);
	CALL(write(other, "!", 1));
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(close_range((unsigned int)other, (unsigned int)other, 0));
	CALL(fcntl(other, F_GETFD));
	lseek(fd, 3, SEEK_SET);
	CALL(run_child("sh", fd));
	show_file("spawned");
	lseek(fd, 3, SEEK_SET);
	other = MADE(send_fd(fd));
	CALL(read(other, text, 3));
	close(other);
	const pid_t child = fork();
	if (child == 0) {
		lseek(fd, 1, SEEK_SET);
		_exit(0);
	}
	waitpid(child, &status, 0);
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(close(fd));
	/* at the limit nothing is changed */
	const int kept = fresh("kept", "0123456789"), free_one = dup(kept);
	struct rlimit limit, few;
	close(free_one);
	getrlimit(RLIMIT_NOFILE, &limit);
	few = limit;
	few.rlim_cur = (rlim_t)free_one;
	setrlimit(RLIMIT_NOFILE, &few);
	CALL(open("kept", O_RDWR | O_TRUNC));
	CALL(open("new", O_RDWR | O_CREAT, 0600));
	CALL(open(".", O_TMPFILE | O_RDWR, 0600));
	setrlimit(RLIMIT_NOFILE, &limit);
	show_file("kept");
	show_file("new");
	close(kept);
	/* a directory that is gone */
	mkdir("gone", 0700);
	const int gone = open("gone", O_RDONLY | O_DIRECTORY);
	rmdir("gone");
	CALL(openat(gone, "x", O_CREAT | O_RDWR, 0600));
	CALL(symlinkat("kept", gone, "s"));
	CALL(linkat(AT_FDCWD, "kept", gone, "l", 0));
	CALL(linkat(gone, "x", AT_FDCWD, "l", 0));
	CALL(mkfifoat(gone, "p", 0600));
	other = send_fd(gone);
	CALL(openat(other, "kept", O_RDONLY) < 0); /* whatever came, paths do not begin somewhere else there */
	CALL(run_child("sh", gone) != 0);
	close(gone);
	if (other >= 0)
		close(other);
	/* here is below the directory that the program was given */
	char top[PATH_MAX];
	snprintf(top, sizeof(top), "%s", here);
	*strrchr(top, '/') = 0;
	spawn_with_a_number_of_before(strrchr(top, '/') + 1);
}

/* ------------------------------------------------------------------ sockets */

static void sockets(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	struct sockaddr *const at = (struct sockaddr *)&address;
	struct iovec part = {(char *)"x", 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct mmsghdr messages = {.msg_hdr = message};
	socklen_t bytes = sizeof(address);
	char text[16] = "";
	int value;

	/* a file is none */
	const int fd = fresh("f", "0123456789");
	CALL(bind(fd, at, bytes));
	CALL(connect(fd, at, bytes));
	CALL(listen(fd, 1));
	CALL(accept(fd, NULL, NULL));
	CALL(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
	CALL(getsockname(fd, at, &bytes));
	CALL(getpeername(fd, at, &bytes));
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &bytes));
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)));
	CALL(shutdown(fd, SHUT_RDWR));
	CALL(send(fd, "x", 1, 0));
	CALL(sendto(fd, "x", 1, 0, NULL, 0));
	CALL(recv(fd, text, 1, 0));
	CALL(recvfrom(fd, text, 1, 0, NULL, NULL));
	CALL(sendmsg(fd, &message, 0));
	CALL(recvmsg(fd, &message, 0));
	CALL(sendmmsg(fd, &messages, 1, 0));
	CALL(recvmmsg(fd, &messages, 1, 0, NULL));
	CALL(lseek(fd, 0, SEEK_CUR));
	CALL(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &value, &bytes));
	close(fd);
	const int directory = open(".", O_RDONLY | O_DIRECTORY);
	CALL(recv(directory, text, 1, 0));
	close(directory);
	CALL(recv(-1, text, 1, 0));
	/* nor a pipe, nor a descriptor for signals */
	int ends[2];
	sigset_t none;
	sigemptyset(&none);
	const int file = fresh("g", "0123456789");
	CALL(pipe(ends));
	CALL(tee(file, ends[1], 1, 0));
	CALL(vmsplice(file, &part, 1, 0));
	CALL(signalfd(file, &none, 0));
	mkdir("gone", 0700);
	const int gone = open("gone", O_RDONLY | O_DIRECTORY);
	rmdir("gone");
	CALL(splice(gone, NULL, ends[1], NULL, 1, 0));
	CALL(openat(gone, ".", O_RDONLY | O_DIRECTORY) >= 0);
	close(gone);
	close(file);
	close(ends[0]);
	close(ends[1]);
	const int nameless = open(".", O_TMPFILE | O_RDWR, 0600);
	CALL(linkat(nameless, "", AT_FDCWD, "named", AT_EMPTY_PATH));
	CALL(linkat(nameless, "", AT_FDCWD, "named", AT_EMPTY_PATH));
	close(nameless);
	show_file("named");

	/* a socket with a name */
	const int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	bytes = sizeof(address);
	CALL(connect(client, at, bytes));
	CALL(bind(server, at, bytes));
	CALL(connect(client, at, bytes));
	CALL(listen(server, 1));
	CALL(connect(client, at, bytes));
	const int peer = MADE(accept(server, NULL, NULL));
	CALL(send(client, "abc", 3, 0));
	CALL(recv(peer, text, sizeof(text), 0));
	say("  %s\n", text);
	struct stat st;
	CALL(stat("socket", &st));
	say("  %o\n", st.st_mode);
	CALL(open("socket", O_RDONLY));
	CALL(rename("socket", "renamed"));
	const int second = socket(AF_UNIX, SOCK_STREAM, 0);
	CALL(connect(second, at, sizeof(address)));
	snprintf(address.sun_path, sizeof(address.sun_path), "renamed");
	CALL(connect(second, at, sizeof(address)));
	CALL(unlink("renamed"));
	close(second);
	close(peer);
	close(client);
	close(server);
}

static void others(void)
{
	const int fd = fresh("f", "0123456789"), d = open(".", O_RDONLY | O_DIRECTORY);
	struct file_handle *handle = calloc(1, sizeof(*handle) + MAX_HANDLE_SZ);
	char text[16] = "";
	struct aiocb operation = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 4, .aio_offset = 2};
	const struct aiocb *list[] = {&operation};
	int mount;

	handle->handle_bytes = MAX_HANDLE_SZ;
	CALL(name_to_handle_at(d, "f", handle, &mount, 0));
	CALL(aio_read(&operation));
	CALL(aio_suspend(list, 1, NULL));
	CALL(aio_error(&operation));
	CALL(aio_return(&operation));
	say("  %.4s\n", text);
	CALL(mknodat(d, "n", S_IFREG | 0600, 0));
	socklen_t bytes = sizeof(mount);
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &mount, &bytes));
	CALL(recv(fd, text, 1, 0));
	CALL(send(fd, text, 1, 0));
	CALL(ftok("none", 1));
	MADE(ftok("f", 1));
	CALL(umask(022));
	umask(022);
	CALL(execl(in_here("f"), "f", (char *)NULL));
	CALL(execve("none", (char *[]){NULL}, environ));
	close(fd);
	close(d);
	free(handle);
	/* its child goes to / with the standard streams at /dev/null */
	int ends[2];
	CALL(pipe(ends));
	const pid_t child = fork();
	if (child == 0) {
		struct stat st;
		char answer = daemon(0, 0) == 0 && stat("proc", &st) == 0 && stat(in_here("f"), &st) == 0 &&
					      st.st_size == 10 ?
				      'y' :
				      'n';
		_exit(write(ends[1], &answer, 1) != 1);
	}
	int status;
	waitpid(child, &status, 0);
	CALL(read(ends[0], text, 1));
	say("  %c\n", text[0]);
	close(ends[0]);
	close(ends[1]);
}

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {{"opens", opens},
	      {"reads_and_writes", reads_and_writes},
	      {"bad_pointers", bad_pointers},
	      {"handlers", handlers},
	      {"interrupted", interrupted},
	      {"attributes", attributes},
	      {"names", names},
	      {"trees", trees},
	      {"streams", streams},
	      {"two_files", two_files},
	      {"attributes_with_names", attributes_with_names},
	      {"locks", locks},
	      {"mappings", mappings},
	      {"waiting", waiting},
	      {"descriptors", descriptors},
	      {"sockets", sockets},
	      {"others", others}};

/* Each in a process and a directory of its own. */
static void run(size_t i, const char *top)
{
	int status;
	const pid_t child = fork();

	if (child == 0) {
		snprintf(here, sizeof(here), "%.3000s/%s", top, groups[i].name);
		if (mkdir(here, 0755) != 0 || chdir(here) != 0)
			_exit(1);
		groups[i].run();
		_exit(flaws != 0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		say("%s: ended by signal %d\n", groups[i].name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		say("%s: failed\n", groups[i].name);
}

int main(int count_of, char **arguments)
{
	if (count_of < 2)
		return 1;
	char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	half = memory;
	bad = memory + 4096;
	read_only = memory + 8192;
	if (memory == MAP_FAILED || mprotect(bad, 4096, PROT_NONE) != 0 || mprotect(read_only, 4096, PROT_READ) != 0)
		return 1;
	umask(022);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (count_of > 2 && strcmp(arguments[2], groups[i].name) != 0)
			continue;
		say("== %s\n", groups[i].name);
		run(i, arguments[1]);
	}
	return 0;
}
