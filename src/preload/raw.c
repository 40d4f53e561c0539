/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall(2): system calls that programs make by number, through the C library. Those that take descriptors get the kernel's; with a path
 * they go through the mount. io_uring is refused.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/preload.h"

#define FIRST 1u
#define SECOND 2u
#define THIRD 4u
#define FIFTH 16u

/* Which arguments are descriptors. */
static const struct {
	long number;
	unsigned int descriptors;
} known[] = {
	{SYS_read, FIRST},
	{SYS_write, FIRST},
	{SYS_pread64, FIRST},
	{SYS_pwrite64, FIRST},
	{SYS_readv, FIRST},
	{SYS_writev, FIRST},
	{SYS_preadv, FIRST},
	{SYS_pwritev, FIRST},
	{SYS_preadv2, FIRST},
	{SYS_pwritev2, FIRST},
	{SYS_fstat, FIRST},
	{SYS_newfstatat, FIRST},
	{SYS_statx, FIRST},
	{SYS_lseek, FIRST},
	{SYS_ftruncate, FIRST},
	{SYS_fallocate, FIRST},
	{SYS_fsync, FIRST},
	{SYS_fdatasync, FIRST},
	{SYS_syncfs, FIRST},
	{SYS_sync_file_range, FIRST},
	{SYS_readahead, FIRST},
	{SYS_fadvise64, FIRST},
	{SYS_fchmod, FIRST},
	{SYS_fchown, FIRST},
	{SYS_fchmodat, FIRST},
	{SYS_fchownat, FIRST},
	{SYS_utimensat, FIRST},
	{SYS_fgetxattr, FIRST},
	{SYS_fsetxattr, FIRST},
	{SYS_flistxattr, FIRST},
	{SYS_fremovexattr, FIRST},
	{SYS_getdents, FIRST},
	{SYS_getdents64, FIRST},
	{SYS_openat, FIRST},
	{SYS_openat2, FIRST},
	{SYS_mkdirat, FIRST},
	{SYS_unlinkat, FIRST},
	{SYS_symlinkat, SECOND},
	{SYS_readlinkat, FIRST},
	{SYS_faccessat, FIRST},
	{SYS_faccessat2, FIRST},
	{SYS_renameat, FIRST | THIRD},
	{SYS_renameat2, FIRST | THIRD},
	{SYS_linkat, FIRST | THIRD},
	{SYS_copy_file_range, FIRST | THIRD},
	{SYS_sendfile, FIRST | SECOND},
	{SYS_splice, FIRST | THIRD},
	{SYS_flock, FIRST},
	{SYS_fcntl, FIRST},
	{SYS_ioctl, FIRST},
	{SYS_fchdir, FIRST},
	{SYS_dup, FIRST},
	{SYS_dup2, FIRST},
	{SYS_dup3, FIRST},
	{SYS_mmap, FIFTH},
	{SYS_execveat, FIRST},
	{SYS_name_to_handle_at, FIRST},
};

static void settle_arguments(long number, const long arguments[6])
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		for (unsigned int k = 0; known[i].number == number && k < 6; k++)
			if (known[i].descriptors >> k & 1)
				g4p_settle((int)arguments[k], G4P_syscall);
}

long syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (!g4p_is_calm()) {
		if (number == SYS_close)
			return close((int)arguments[0]);
		if (number == SYS_close_range)
			return close_range((unsigned int)arguments[0], (unsigned int)arguments[1], (int)arguments[2]);
		if (number == SYS_io_uring_setup) {
			g4p_count(G4P_io_uring, G4P_UNSUPPORTED_ANSWER);
			errno = ENOSYS;
			return -1;
		}
		if (g4p_any_files())
			settle_arguments(number, arguments);
	}
	return G4P_NEXT(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
				 arguments[5]);
}
