/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for sockets. A file of the engine is none, which the kernel could not say: by the placeholder's number it says EBADF. Names of
 * sockets (AF_UNIX) are paths for the kernel, which finds them through the mount.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/uio.h>

#include "preload/settle.h"

static bool is_file(int fd, enum g4p_number number)
{
	if (!g4p_is_ours(fd) || g4p_is_calm())
		return false;
	g4p_count(number, G4P_ENGINE_ANSWER);
	errno = ENOTSOCK;
	return true;
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(bind)(fd, address, bytes);
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(connect)(fd, address, bytes);
}

int listen(int fd, int backlog)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(listen)(fd, backlog);
}

int accept(int fd, __SOCKADDR_ARG address, socklen_t *restrict bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(accept)(fd, address, bytes);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict bytes, int flags)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(accept4)(fd, address, bytes, flags);
}

int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *restrict bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(getsockname)(fd, address, bytes);
}

int getpeername(int fd, __SOCKADDR_ARG address, socklen_t *restrict bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(getpeername)(fd, address, bytes);
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(getsockopt)(fd, level, name, value, bytes);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(setsockopt)(fd, level, name, value, bytes);
}

int shutdown(int fd, int how)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(shutdown)(fd, how);
}

ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(send)(fd, from, bytes, flags);
}

ssize_t sendto(int fd, const void *from, size_t bytes, int flags, __CONST_SOCKADDR_ARG address, socklen_t address_bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(sendto)(fd, from, bytes, flags, address, address_bytes);
}

ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(recv)(fd, to, bytes, flags);
}

ssize_t recvfrom(int fd, void *restrict to, size_t bytes, int flags, __SOCKADDR_ARG address,
		 socklen_t *restrict address_bytes)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(recvfrom)(fd, to, bytes, flags, address, address_bytes);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(recvmsg)(fd, message, flags);
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *limit)
{
	return is_file(fd, G4P_socket) ? -1 : G4P_NEXT(recvmmsg)(fd, messages, count, flags, limit);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (is_file(fd, G4P_sendmsg) || !g4p_settle_rights(message))
		return -1;
	return G4P_NEXT(sendmsg)(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	if (is_file(fd, G4P_sendmsg) || !g4p_settle_messages(messages, &count))
		return -1;
	return G4P_NEXT(sendmmsg)(fd, messages, count, flags);
}
