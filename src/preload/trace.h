/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu4fs run --trace counts: for each function how often the engine answered, and why it did not. */
#ifndef G4_PRELOAD_TRACE_H
#define G4_PRELOAD_TRACE_H

#include <stdint.h>

#define G4P_TRACE_ENVIRONMENT "GPU4FS_PRELOAD_TRACE" /* path of a file that holds a struct g4p_trace */

/* Functions; names with 64, _2, __xstat and the like count as the plain one. */
#define G4P_FUNCTIONS(X)                                                                                               \
	X(open)                                                                                                        \
	X(openat)                                                                                                      \
	X(creat)                                                                                                       \
	X(close)                                                                                                       \
	X(read)                                                                                                        \
	X(write)                                                                                                       \
	X(pread)                                                                                                       \
	X(pwrite)                                                                                                      \
	X(readv)                                                                                                       \
	X(writev)                                                                                                      \
	X(preadv)                                                                                                      \
	X(pwritev)                                                                                                     \
	X(lseek)                                                                                                       \
	X(stat)                                                                                                        \
	X(lstat)                                                                                                       \
	X(fstat)                                                                                                       \
	X(fstatat)                                                                                                     \
	X(statx)                                                                                                       \
	X(access)                                                                                                      \
	X(faccessat)                                                                                                   \
	X(opendir)                                                                                                     \
	X(fdopendir)                                                                                                   \
	X(readdir)                                                                                                     \
	X(mkdir)                                                                                                       \
	X(mkdirat)                                                                                                     \
	X(rmdir)                                                                                                       \
	X(unlink)                                                                                                      \
	X(unlinkat)                                                                                                    \
	X(remove)                                                                                                      \
	X(rename)                                                                                                      \
	X(renameat)                                                                                                    \
	X(renameat2)                                                                                                   \
	X(link)                                                                                                        \
	X(linkat)                                                                                                      \
	X(symlink)                                                                                                     \
	X(symlinkat)                                                                                                   \
	X(readlink)                                                                                                    \
	X(readlinkat)                                                                                                  \
	X(chmod)                                                                                                       \
	X(fchmod)                                                                                                      \
	X(fchmodat)                                                                                                    \
	X(chown)                                                                                                       \
	X(lchown)                                                                                                      \
	X(fchown)                                                                                                      \
	X(fchownat)                                                                                                    \
	X(utimensat)                                                                                                   \
	X(futimens)                                                                                                    \
	X(utimes)                                                                                                      \
	X(truncate)                                                                                                    \
	X(ftruncate)                                                                                                   \
	X(fallocate)                                                                                                   \
	X(fsync)                                                                                                       \
	X(fdatasync)                                                                                                   \
	X(syncfs)                                                                                                      \
	X(copy_file_range)                                                                                             \
	X(ioctl)                                                                                                       \
	X(fcntl)                                                                                                       \
	X(flock)                                                                                                       \
	X(mmap)                                                                                                        \
	X(poll)                                                                                                        \
	X(select)                                                                                                      \
	X(sendfile)                                                                                                    \
	X(signalfd)                                                                                                    \
	X(splice)                                                                                                      \
	X(socket)                                                                                                      \
	X(sendmsg)                                                                                                     \
	X(dup)                                                                                                         \
	X(chdir)                                                                                                       \
	X(fchdir)                                                                                                      \
	X(fdopen)                                                                                                      \
	X(fopen)                                                                                                       \
	X(exec)                                                                                                        \
	X(spawn)                                                                                                       \
	X(fork)                                                                                                        \
	X(clone)                                                                                                       \
	X(credentials)                                                                                                 \
	X(mknodat)                                                                                                     \
	X(handle)                                                                                                      \
	X(aio)                                                                                                         \
	X(dprintf)                                                                                                     \
	X(getdents64)                                                                                                  \
	X(scandirat)                                                                                                   \
	X(getxattr)                                                                                                    \
	X(setxattr)                                                                                                    \
	X(listxattr)                                                                                                   \
	X(removexattr)                                                                                                 \
	X(fadvise)                                                                                                     \
	X(isatty)                                                                                                      \
	X(io_uring)                                                                                                    \
	X(mount)                                                                                                       \
	X(watch)                                                                                                       \
	X(proc)                                                                                                        \
	X(syscall)

enum g4p_number {
#define G4P_NUMBER(name) G4P_##name,
	G4P_FUNCTIONS(G4P_NUMBER)
#undef G4P_NUMBER
		G4P_FUNCTION_COUNT
};

/* What answered, or why the kernel did. */
#define G4P_ANSWERS(X)                                                                                                 \
	X(ENGINE, "engine")   /* it did */                                                                             \
	X(OUTSIDE, "outside") /* no path from or below a DIRECTORY, or the descriptor is the kernel's by now */        \
	X(LEAVES, "leaves")   /* the path leads out of the DIRECTORY */                                                \
	X(UNSUPPORTED, "unsupported") /* the engine's part of the library does not do that */                          \
	X(SETTLED, "handed over")     /* a descriptor became the kernel's for this */                                  \
	X(SERVER, "no server")	      /* there is none, or it has no place */

enum g4p_answer {
#define G4P_ANSWER(name, words) G4P_##name##_ANSWER,
	G4P_ANSWERS(G4P_ANSWER)
#undef G4P_ANSWER
		G4P_ANSWER_COUNT
};

struct g4p_trace {
	uint64_t counts[G4P_FUNCTION_COUNT][G4P_ANSWER_COUNT]; /* atomic: processes share it */
};

/* Finds the file, before anything is counted; without one nothing is. */
void g4p_trace_start(void);
void g4p_count(enum g4p_number number, enum g4p_answer answer);

#endif
