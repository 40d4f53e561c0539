/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes a process: fork, exec and their relatives, credentials, the working directory; and io_uring, which is refused.
 *
 * Before another process may use a descriptor, it is the kernel's: at a fork all are settled, and so they are where the C library forks
 * by itself (posix_spawn, system, popen); at an exec those that stay open. vfork() is fork(): its child shares memory with the
 * parent, and so the table of descriptors, but not the descriptors.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ulimit.h>
#include <unistd.h>
#include <wordexp.h>

#include "preload/heap.h"
#include "preload/settle.h"

/* ------------------------------------------------------------------ fork */

void g4p_fork_begins(bool shared)
{
	if (g4p_any_files())
		g4p_settle_all(false, shared ? G4P_clone : G4P_fork);
	g4p_streams_lock(true);
	g4p_connect_lock(true);
	g4p_files_lock(true);
	g4p_heap_lock(true);
}

void g4p_fork_ends(bool child, bool shared)
{
	g4p_heap_lock(false);
	if (child) {
		g4p_files_forked(shared);
		g4p_connect_forked(shared);
	}
	g4p_files_lock(false);
	g4p_connect_lock(false);
	g4p_streams_lock(false);
}

static __thread struct g4p_calm
	forking; /* from before to in_parent or in_child, between which only the C library runs */
static __thread bool calmed_for_fork;

static void before(void)
{
	calmed_for_fork = g4p_calm(&forking);
	g4p_fork_begins(false);
}

static void in_parent(void)
{
	g4p_fork_ends(false, false);
	if (calmed_for_fork)
		g4p_restless(&forking);
}

static void in_child(void)
{
	g4p_fork_ends(true, false);
	if (calmed_for_fork)
		g4p_restless(&forking);
}

static __attribute__((constructor)) void begin(void)
{
	uint32_t count;

	g4p_mounts(&count);
	g4p_limits_changed();
	if (count)
		pthread_atfork(before, in_parent, in_child);
}

pid_t vfork(void)
{
	return fork();
}

/* Without the handlers of pthread_atfork(3), and with them ours. */
pid_t _Fork(void)
{
	struct g4p_calm calm;
	const bool calmed = g4p_calm(&calm);

	g4p_fork_begins(false);
	const pid_t child = G4P_NEXT(_Fork)();
	if (child < 0)
		calm.error = errno;
	g4p_fork_ends(child == 0, false);
	if (calmed)
		g4p_restless(&calm);
	return child;
}

struct cloned { /* on the parent's stack, of which the child has a copy */
	int (*function)(void *);
	void *argument;
	bool shared;
	struct g4p_calm calm;
};

static int in_clone(void *argument)
{
	struct cloned *cloned = argument;

	g4p_fork_ends(true, cloned->shared);
	g4p_restless(&cloned->calm);
	return cloned->function(cloned->argument);
}

/* A child with memory of its own is a fork's; one that shares it has the table as well, so nothing may be in that. */
int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	struct cloned cloned = {.function = function, .argument = argument, .shared = flags & CLONE_FILES};
	va_list list;

	va_start(list, argument);
	pid_t *parent = va_arg(list, pid_t *);
	void *tls = va_arg(list, void *);
	pid_t *child = va_arg(list, pid_t *);
	va_end(list);
	if (!(flags & CLONE_VM) && g4p_calm(&cloned.calm)) {
		g4p_fork_begins(cloned.shared);
		const int pid = G4P_NEXT(clone)(in_clone, stack, flags, &cloned, parent, tls, child);
		if (pid < 0)
			cloned.calm.error = errno;
		g4p_fork_ends(false, cloned.shared);
		g4p_restless(&cloned.calm);
		return pid;
	}
	if (!(flags & CLONE_FILES) && g4p_any_files())
		g4p_settle_all(false, G4P_fork);
	/* A child that its parent waits for in the same memory has the flag of calm, too: what it opens and closes is no entry of the table. */
	const bool calm = (flags & (CLONE_VFORK | CLONE_FILES | CLONE_SETTLS)) == CLONE_VFORK && g4p_calm(&cloned.calm);
	const int pid = G4P_NEXT(clone)(function, stack, flags, argument, parent, tls, child);
	if (calm) {
		if (pid < 0)
			cloned.calm.error = errno;
		g4p_restless(&cloned.calm);
	}
	return pid;
}

/* ------------------------------------------------------------------ exec */

/* path: of the program, which may be a descriptor's. */
void g4p_exec_begins(const char *path)
{
	g4p_settle_shown(path);
	if (g4p_any_files())
		g4p_settle_all(true, G4P_exec);
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
	g4p_exec_begins(path);
	return G4P_NEXT(execve)(path, arguments, environment);
}

int execv(const char *path, char *const arguments[])
{
	g4p_exec_begins(path);
	return G4P_NEXT(execv)(path, arguments);
}

int execvp(const char *file, char *const arguments[])
{
	g4p_exec_begins(file);
	return G4P_NEXT(execvp)(file, arguments);
}

int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	g4p_exec_begins(file);
	return G4P_NEXT(execvpe)(file, arguments, environment);
}

int fexecve(int fd, char *const arguments[], char *const environment[])
{
	if (!g4p_settle(fd, G4P_exec))
		return -1;
	g4p_exec_begins("");
	return G4P_NEXT(fexecve)(fd, arguments, environment);
}

int execveat(int at, const char *path, char *const arguments[], char *const environment[], int flags)
{
	if (!g4p_settle_start(at, path, G4P_exec))
		return -1;
	g4p_exec_begins(path);
	return G4P_NEXT(execveat)(at, path, arguments, environment, flags);
}

/* The arguments of an execl(), in a vector with their NULL; freed by nobody if the program is gone. */
static char **vector_of(const char *first, va_list list, char *const **environment)
{
	va_list again;
	size_t count = 1;

	va_copy(again, list);
	while (va_arg(again, char *))
		count++;
	va_end(again);
	char **vector = malloc((count + 1) * sizeof(*vector));
	if (!vector)
		return NULL;
	vector[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i <= count; i++)
		vector[i] = va_arg(list, char *);
	if (environment)
		*environment = va_arg(list, char *const *);
	return vector;
}

#define EXEC_LIST(call, first, environment)                                                                            \
	do {                                                                                                           \
		va_list list;                                                                                          \
		va_start(list, first);                                                                                 \
		char **vector = vector_of(first, list, environment);                                                   \
		va_end(list);                                                                                          \
		int rc = vector ? (call) : -1;                                                                         \
		free(vector);                                                                                          \
		return rc;                                                                                             \
	} while (0)

int execl(const char *path, const char *first, ...)
{
	EXEC_LIST(execv(path, vector), first, NULL);
}

int execlp(const char *file, const char *first, ...)
{
	EXEC_LIST(execvp(file, vector), first, NULL);
}

int execle(const char *path, const char *first, ...)
{
	char *const *environment = NULL;

	EXEC_LIST(execve(path, vector, environment), first, &environment);
}

int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,
		const posix_spawnattr_t *restrict attributes, char *const arguments[restrict],
		char *const environment[restrict])
{
	if (g4p_any_files())
		g4p_settle_all(false, G4P_spawn);
	return G4P_NEXT(posix_spawn)(pid, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *restrict actions,
		 const posix_spawnattr_t *restrict attributes, char *const arguments[restrict],
		 char *const environment[restrict])
{
	if (g4p_any_files())
		g4p_settle_all(false, G4P_spawn);
	return G4P_NEXT(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
}

/* A copy in another program: that must be the kernel's. Else the program would begin paths at the mount's root there. */
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	return g4p_settle(fd, G4P_spawn) ? G4P_NEXT(posix_spawn_file_actions_adddup2)(actions, fd, to) : errno;
}

int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *actions, int fd)
{
	return g4p_settle(fd, G4P_spawn) ? G4P_NEXT(posix_spawn_file_actions_addfchdir_np)(actions, fd) : errno;
}

int system(const char *command)
{
	if (g4p_any_files())
		g4p_settle_all(false, G4P_spawn);
	return G4P_NEXT(system)(command);
}

/* Which may run a shell. */
int wordexp(const char *restrict words, wordexp_t *restrict found, int flags)
{
	if (!(flags & WRDE_NOCMD) && g4p_any_files())
		g4p_settle_all(false, G4P_spawn);
	return G4P_NEXT(wordexp)(words, found, flags);
}

FILE *popen(const char *command, const char *mode)
{
	if (g4p_any_files())
		g4p_settle_all(false, G4P_spawn);
	return G4P_NEXT(popen)(command, mode);
}

/* ------------------------------------------------------------------ the process's own state */

int chdir(const char *path)
{
	g4p_settle_shown(path);
	int rc = G4P_NEXT(chdir)(path);

	if (rc == 0)
		g4p_directory_changed();
	return rc;
}

int fchdir(int fd)
{
	int rc = g4p_settle(fd, G4P_fchdir) ? G4P_NEXT(fchdir)(fd) : -1;

	if (rc == 0)
		g4p_directory_changed();
	return rc;
}

/* Paths begin somewhere else from now on. */
int chroot(const char *path)
{
	g4p_settle_shown(path);
	int rc = G4P_NEXT(chroot)(path);

	if (rc == 0) {
		g4p_directory_changed();
		g4p_credentials_changed();
	}
	return rc;
}

int pivot_root(const char *root, const char *old);
int pivot_root(const char *root, const char *old)
{
	g4p_settle_shown(root);
	g4p_settle_shown(old);
	const int rc = G4P_NEXT(pivot_root)(root, old);

	if (rc == 0) {
		g4p_directory_changed();
		g4p_credentials_changed();
	}
	return rc;
}

int mount(const char *what, const char *path, const char *type, unsigned long flags, const void *options)
{
	g4p_settle_shown(what);
	g4p_settle_shown(path);
	const int rc = G4P_NEXT(mount)(what, path, type, flags, options);

	if (rc == 0)
		g4p_mounts_changed();
	return rc;
}

int move_mount(int from, const char *from_path, int to, const char *to_path, unsigned int flags)
{
	if (!g4p_settle_start(from, from_path, G4P_mount) || !g4p_settle_start(to, to_path, G4P_mount))
		return -1;
	const int rc = G4P_NEXT(move_mount)(from, from_path, to, to_path, flags);
	if (rc == 0)
		g4p_mounts_changed();
	return rc;
}

/* ------------------------------------------------------------------ the limit of files */

static bool limited;

bool g4p_is_limited(void)
{
	return __atomic_load_n(&limited, __ATOMIC_RELAXED);
}

void g4p_limits_changed(void)
{
	struct rlimit limit;

	__atomic_store_n(&limited, getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY,
			 __ATOMIC_RELAXED);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	const int rc = G4P_NEXT(setrlimit)(resource, limit);

	g4p_limits_changed();
	return rc;
}

int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit, struct rlimit *old)
{
	const int rc = G4P_NEXT(prlimit)(pid, resource, limit, old);

	if (limit)
		g4p_limits_changed();
	return rc;
}

long ulimit(int command, ...)
{
	va_list list;

	va_start(list, command);
	const long value = va_arg(list, long);
	va_end(list);
	const long rc = G4P_NEXT(ulimit)(command, value);
	g4p_limits_changed();
	return rc;
}

mode_t umask(mode_t mask)
{
	g4p_umask_changed(mask);
	return G4P_NEXT(umask)(mask);
}

#define CREDENTIALS(call)                                                                                              \
	do {                                                                                                           \
		int rc = call;                                                                                         \
		if (rc == 0)                                                                                           \
			g4p_credentials_changed();                                                                     \
		return rc;                                                                                             \
	} while (0)

int setuid(uid_t uid)
{
	CREDENTIALS(G4P_NEXT(setuid)(uid));
}

int setgid(gid_t gid)
{
	CREDENTIALS(G4P_NEXT(setgid)(gid));
}

int seteuid(uid_t uid)
{
	CREDENTIALS(G4P_NEXT(seteuid)(uid));
}

int setegid(gid_t gid)
{
	CREDENTIALS(G4P_NEXT(setegid)(gid));
}

int setreuid(uid_t real, uid_t effective)
{
	CREDENTIALS(G4P_NEXT(setreuid)(real, effective));
}

int setregid(gid_t real, gid_t effective)
{
	CREDENTIALS(G4P_NEXT(setregid)(real, effective));
}

int setresuid(uid_t real, uid_t effective, uid_t saved)
{
	CREDENTIALS(G4P_NEXT(setresuid)(real, effective, saved));
}

int setresgid(gid_t real, gid_t effective, gid_t saved)
{
	CREDENTIALS(G4P_NEXT(setresgid)(real, effective, saved));
}

int setgroups(size_t count, const gid_t *groups)
{
	CREDENTIALS(G4P_NEXT(setgroups)(count, groups));
}

int initgroups(const char *user, gid_t group)
{
	CREDENTIALS(G4P_NEXT(initgroups)(user, group));
}

int setfsuid(uid_t uid)
{
	int before = G4P_NEXT(setfsuid)(uid);

	g4p_credentials_changed();
	return before;
}

int setfsgid(gid_t gid)
{
	int before = G4P_NEXT(setfsgid)(gid);

	g4p_credentials_changed();
	return before;
}

int capset(cap_user_header_t header, const cap_user_data_t data);
int capset(cap_user_header_t header, const cap_user_data_t data)
{
	CREDENTIALS(G4P_NEXT(capset)(header, data));
}

int unshare(int flags)
{
	if ((flags & CLONE_FILES) && g4p_any_files()) /* as long as the numbers are those of all threads */
		g4p_settle_all(false, G4P_clone);
	CREDENTIALS(G4P_NEXT(unshare)(flags));
}

int setns(int fd, int type)
{
	CREDENTIALS(G4P_NEXT(setns)(fd, type));
}

/* ------------------------------------------------------------------ io_uring */

/*
 * A ring of the kernel would take placeholders for files. Programs have other ways where there is no io_uring; those that make the
 * system call with instructions of their own are not stopped, and get EBADF.
 */
struct io_uring;
struct io_uring_params;

int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags);
int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	(void)entries;
	(void)ring;
	(void)flags;
	g4p_count(G4P_io_uring, G4P_UNSUPPORTED_ANSWER);
	return -ENOSYS;
}

int io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *params);
int io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *params)
{
	(void)params;
	return io_uring_queue_init(entries, ring, 0);
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("setrlimit64", "setrlimit") SAME("prlimit64", "prlimit"));
