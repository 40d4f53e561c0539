/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall(2): system calls that programs make by number, through the C library. Those that take descriptors get the kernel's; with a path
 * they go through the mount, but for some. What changes the process is as if it had been called by name. io_uring is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/settle.h"

#define FIRST 1u
#define SECOND 2u
#define THIRD 4u
#define FOURTH 8u
#define FIFTH 16u
#define PATH 32u  /* the argument behind each is a path that begins there */
#define NAMED 64u /* the first argument is a path */
#define SECOND_NAMED 128u

/* Which arguments are descriptors. */
static const struct {
	long number;
	unsigned int descriptors;
} known[] = {
	{SYS_preadv, FIRST},
	{SYS_pwritev, FIRST},
	{SYS_preadv2, FIRST},
	{SYS_pwritev2, FIRST},
	{SYS_fstat, FIRST},
	{SYS_newfstatat, FIRST | PATH},
	{SYS_lseek, FIRST},
	{SYS_ftruncate, FIRST},
	{SYS_fsync, FIRST},
	{SYS_fdatasync, FIRST},
	{SYS_syncfs, FIRST},
	{SYS_sync_file_range, FIRST},
	{SYS_readahead, FIRST},
	{SYS_fadvise64, FIRST},
	{SYS_fchmod, FIRST},
	{SYS_fchown, FIRST},
	{SYS_fchmodat, FIRST | PATH},
	{SYS_mknodat, FIRST | PATH},
	{SYS_fchownat, FIRST | PATH},
	{SYS_utimensat, FIRST | PATH},
	{SYS_fgetxattr, FIRST},
	{SYS_fsetxattr, FIRST},
	{SYS_flistxattr, FIRST},
	{SYS_fremovexattr, FIRST},
	{SYS_getdents, FIRST},
	{SYS_getdents64, FIRST},
	{SYS_openat2, FIRST | PATH},
	{SYS_mkdirat, FIRST | PATH},
	{SYS_unlinkat, FIRST | PATH},
	{SYS_symlinkat, SECOND | PATH},
	{SYS_readlinkat, FIRST | PATH},
	{SYS_faccessat, FIRST | PATH},
	{SYS_faccessat2, FIRST | PATH},
	{SYS_renameat, FIRST | THIRD | PATH},
	{SYS_linkat, FIRST | THIRD | PATH},
	{SYS_sendfile, FIRST | SECOND},
	{SYS_splice, FIRST | THIRD},
	{SYS_flock, FIRST},
	{SYS_fcntl, FIRST},
	{SYS_ioctl, FIRST},
	{SYS_fchdir, FIRST},
	{SYS_dup, FIRST},
	{SYS_mmap, FIFTH},
	{SYS_execveat, FIRST | PATH},
	{SYS_name_to_handle_at, FIRST | PATH},
	{SYS_epoll_ctl, THIRD},
	{SYS_futimesat, FIRST | PATH},
	{SYS_fstatfs, FIRST},
	{SYS_open_by_handle_at, FIRST},
	{SYS_fanotify_mark, FOURTH | PATH},
	{SYS_finit_module, FIRST},
	{SYS_open, NAMED},
	{SYS_creat, NAMED},
	{SYS_stat, NAMED},
	{SYS_lstat, NAMED},
	{SYS_access, NAMED},
	{SYS_readlink, NAMED},
	{SYS_truncate, NAMED},
	{SYS_chmod, NAMED},
	{SYS_chown, NAMED},
	{SYS_lchown, NAMED},
	{SYS_statfs, NAMED},
	{SYS_chdir, NAMED},
	{SYS_chroot, NAMED},
	{SYS_execve, NAMED},
	{SYS_link, NAMED},
	{SYS_mkdir, NAMED},
	{SYS_rmdir, NAMED},
	{SYS_unlink, NAMED},
	{SYS_mknod, NAMED},
	{SYS_utime, NAMED},
	{SYS_utimes, NAMED},
	{SYS_getxattr, NAMED},
	{SYS_lgetxattr, NAMED},
	{SYS_setxattr, NAMED},
	{SYS_lsetxattr, NAMED},
	{SYS_listxattr, NAMED},
	{SYS_llistxattr, NAMED},
	{SYS_removexattr, NAMED},
	{SYS_lremovexattr, NAMED},
	{SYS_move_mount, FIRST | THIRD | PATH},
	{SYS_open_tree, FIRST | PATH},
	{SYS_mount_setattr, FIRST | PATH},
	{SYS_fspick, FIRST | PATH},
	{SYS_fsconfig, FIFTH},
	{SYS_inotify_add_watch, SECOND_NAMED},
	{SYS_umount2, NAMED},
	/* newer than some headers: cachestat, fchmodat2, setxattrat and its relatives, open_tree_attr, file_getattr, file_setattr */
	{451, FIRST},
	{452, FIRST | PATH},
	{463, FIRST | PATH},
	{464, FIRST | PATH},
	{465, FIRST | PATH},
	{466, FIRST | PATH},
	{467, FIRST | PATH},
	{468, FIRST | PATH},
	{469, FIRST | PATH},
	/* of sockets, so that the kernel says of a file that it is none */
	{SYS_bind, FIRST},
	{SYS_connect, FIRST},
	{SYS_listen, FIRST},
	{SYS_accept, FIRST},
	{SYS_accept4, FIRST},
	{SYS_getsockname, FIRST},
	{SYS_getpeername, FIRST},
	{SYS_getsockopt, FIRST},
	{SYS_setsockopt, FIRST},
	{SYS_shutdown, FIRST},
	{SYS_sendto, FIRST},
	{SYS_recvfrom, FIRST},
	{SYS_sendmsg, FIRST},
	{SYS_recvmsg, FIRST},
	{SYS_sendmmsg, FIRST},
	{SYS_recvmmsg, FIRST},
	{SYS_signalfd4, FIRST},
	{SYS_vmsplice, FIRST},
	{SYS_tee, FIRST | SECOND},
};

/* Descriptors that lie in what the arguments point to. False, with errno: one must not go where it is sent. */
static bool settle_pointed(long number, long arguments[6])
{
	unsigned int count = (unsigned int)arguments[2];

	switch (number) {
	case SYS_poll:
	case SYS_ppoll:
		g4p_settle_polled((const struct pollfd *)arguments[0], (nfds_t)arguments[1]);
		break;
	case SYS_select:
	case SYS_pselect6:
		g4p_settle_sets((int)arguments[0], (const fd_set *)arguments[1], (const fd_set *)arguments[2],
				(const fd_set *)arguments[3]);
		break;
	case SYS_sendmsg:
		return g4p_settle_rights((const struct msghdr *)arguments[1]);
	case SYS_sendmmsg:
		if (!g4p_settle_messages((const struct mmsghdr *)arguments[1], &count))
			return false;
		arguments[2] = (long)count;
		break;
	case SYS_io_submit:
		g4p_settle_blocks(arguments[1], (struct iocb **)arguments[2]);
		break;
	}
	return true;
}

/* False, with errno: one that matters cannot be the kernel's. */
static bool settle_arguments(long number, long arguments[6])
{
	if (!settle_pointed(number, arguments))
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].number == number && (known[i].descriptors & NAMED))
			g4p_settle_shown((const char *)arguments[0]);
		if (known[i].number == number && (known[i].descriptors & SECOND_NAMED))
			g4p_settle_shown((const char *)arguments[1]);
		for (unsigned int k = 0; known[i].number == number && k < 5; k++)
			if (known[i].descriptors >> k & 1 &&
			    !(known[i].descriptors & PATH ?
				      g4p_settle_start((int)arguments[k], (const char *)arguments[k + 1], G4P_syscall) :
				      g4p_settle((int)arguments[k], G4P_syscall)))
				return false;
	}
	return true;
}

#define CREDENTIALS 1u
#define DIRECTORY 2u
#define UMASK 4u
#define LIMITS 8u
#define MOUNTS 16u

/* What is another one when the call has succeeded. */
static const struct {
	long number;
	unsigned int what;
} changing[] = {
	{SYS_setuid, CREDENTIALS},
	{SYS_setgid, CREDENTIALS},
	{SYS_setreuid, CREDENTIALS},
	{SYS_setregid, CREDENTIALS},
	{SYS_setresuid, CREDENTIALS},
	{SYS_setresgid, CREDENTIALS},
	{SYS_setfsuid, CREDENTIALS},
	{SYS_setfsgid, CREDENTIALS},
	{SYS_setgroups, CREDENTIALS},
	{SYS_capset, CREDENTIALS},
	{SYS_setns, CREDENTIALS},
	{SYS_chroot, CREDENTIALS | DIRECTORY},
	{SYS_pivot_root, CREDENTIALS | DIRECTORY},
	{SYS_chdir, DIRECTORY},
	{SYS_fchdir, DIRECTORY},
	{SYS_umask, UMASK},
	{SYS_setrlimit, LIMITS},
	{SYS_prlimit64, LIMITS},
	{SYS_mount, MOUNTS},
	{SYS_move_mount, MOUNTS},
};

static void note_changes(long number, long argument)
{
	unsigned int what = 0;

	for (size_t i = 0; i < sizeof(changing) / sizeof(changing[0]); i++)
		if (changing[i].number == number)
			what = changing[i].what;
	if (what & MOUNTS)
		g4p_mounts_changed();
	if (what & LIMITS)
		g4p_limits_changed();
	if (what & DIRECTORY)
		g4p_directory_changed();
	if (what & CREDENTIALS)
		g4p_credentials_changed();
	if (what & UMASK)
		g4p_umask_changed((mode_t)argument);
}

/* What a new thread or process shares with this one; of other calls, all. */
static uint64_t shared_by(long number, const long arguments[6])
{
	if (number == SYS_clone3 && g4p_guarded && g4p_can_read((const void *)arguments[0], sizeof(uint64_t)))
		return *(const uint64_t *)arguments[0]; /* the first member of struct clone_args */
	if (number == SYS_clone)
		return (uint64_t)arguments[0];
	return number == SYS_fork ? 0 : CLONE_VM | CLONE_FILES;
}

static long fork_by_number(long number, const long arguments[6], bool shared)
{
	struct g4p_calm calm;

	g4p_calm(&calm);
	g4p_fork_begins(shared);
	long result = G4P_NEXT(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
					arguments[5]);
	if (result < 0)
		calm.error = errno;
	g4p_fork_ends(result == 0, shared);
	g4p_restless(&calm);
	return result;
}

/*
 * What programs and runtimes call by number because some C library had no function for it, and what moves data: as if by name, so that
 * the engine is asked. False: it is none of these.
 */
static bool call_by_name(long number, const long a[6], long *result)
{
	switch (number) {
	case SYS_close:
		*result = close((int)a[0]);
		return true;
	case SYS_close_range:
		*result = close_range((unsigned int)a[0], (unsigned int)a[1], (int)a[2]);
		return true;
	case SYS_dup2:
		*result = dup2((int)a[0], (int)a[1]);
		return true;
	case SYS_dup3:
		*result = dup3((int)a[0], (int)a[1], (int)a[2]);
		return true;
	case SYS_unshare:
		*result = unshare((int)a[0]);
		return true;
	case SYS_vfork:
		*result = vfork();
		return true;
	case SYS_openat:
		*result = openat((int)a[0], (const char *)a[1], (int)a[2], (mode_t)a[3]);
		return true;
	case SYS_rt_sigaction:
		return g4p_sigaction_by_number((int)a[0], (const void *)a[1], (void *)a[2], (size_t)a[3], result);
	case SYS_readv:
		*result = readv((int)a[0], (const struct iovec *)a[1], (int)a[2]);
		return true;
	case SYS_writev:
		*result = writev((int)a[0], (const struct iovec *)a[1], (int)a[2]);
		return true;
	case SYS_statx:
		*result = statx((int)a[0], (const char *)a[1], (int)a[2], (unsigned int)a[3], (struct statx *)a[4]);
		return true;
	case SYS_renameat2:
		*result = renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], (unsigned int)a[4]);
		return true;
	case SYS_read:
		*result = read((int)a[0], (void *)a[1], (size_t)a[2]);
		return true;
	case SYS_write:
		*result = write((int)a[0], (const void *)a[1], (size_t)a[2]);
		return true;
	case SYS_pread64:
		*result = pread((int)a[0], (void *)a[1], (size_t)a[2], a[3]);
		return true;
	case SYS_pwrite64:
		*result = pwrite((int)a[0], (const void *)a[1], (size_t)a[2], a[3]);
		return true;
	case SYS_mmap:
		*result = (long)mmap((void *)a[0], (size_t)a[1], (int)a[2], (int)a[3], (int)a[4], a[5]);
		return true;
	case SYS_munmap:
		*result = munmap((void *)a[0], (size_t)a[1]);
		return true;
	case SYS_madvise:
		*result = madvise((void *)a[0], (size_t)a[1], (int)a[2]);
		return true;
	case SYS_mremap:
		*result = (long)mremap((void *)a[0], (size_t)a[1], (size_t)a[2], (int)a[3], (void *)a[4]);
		return true;
	case SYS_fallocate:
		*result = fallocate((int)a[0], (int)a[1], a[2], a[3]);
		return true;
	case SYS_copy_file_range:
		*result = copy_file_range((int)a[0], (off_t *)a[1], (int)a[2], (off_t *)a[3], (size_t)a[4],
					  (unsigned int)a[5]);
		return true;
	}
	return false;
}

long syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	const bool calm = g4p_is_calm();
	if (!calm) {
		long result;
		if (call_by_name(number, arguments, &result))
			return result;
		if (number == SYS_io_uring_setup) {
			g4p_count(G4P_io_uring, G4P_UNSUPPORTED_ANSWER);
			errno = ENOSYS;
			return -1;
		}
		const int error = errno;
		if (g4p_any_files() && !settle_arguments(number, arguments))
			return -1;
		errno = error;
		if (number == SYS_fcntl && (arguments[1] == F_SETLK || arguments[1] == F_SETLKW))
			g4p_record_lock((int)arguments[0]);
		if (number == SYS_fcntl && (arguments[1] == F_NOTIFY || arguments[1] == F_SETLEASE))
			g4p_watches((int)arguments[0], "");
		if (number == SYS_inotify_add_watch)
			g4p_watches(AT_FDCWD, (const char *)arguments[1]);
		if (number == SYS_fanotify_mark)
			g4p_watches((int)arguments[3], arguments[4] ? (const char *)arguments[4] : "");
		if (number == SYS_execve || number == SYS_execveat)
			g4p_exec_begins("");
		const uint64_t shared = shared_by(number, arguments);
		if (!(shared & CLONE_VM))
			return fork_by_number(number, arguments, shared & CLONE_FILES);
		if (!(shared & CLONE_FILES) && g4p_any_files())
			g4p_settle_all(false, G4P_fork);
	}
	long result = G4P_NEXT(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
					arguments[5]);
	if (!calm && result != -1)
		note_changes(number, arguments[0]);
	return result;
}
