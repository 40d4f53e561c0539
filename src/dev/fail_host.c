/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of devices say and how they say it: sentences for users, and codes. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>

#include "dev/dev_ops_host.h"

int g4_dev_fail(struct g4_dev_message message, int code, const char *format, ...)
{
	int error = errno;
	va_list arguments;
	if (message.text && message.bytes > 0) {
		va_start(arguments, format);
		errno = error; /* for %m */
		vsnprintf(message.text, message.bytes, format, arguments);
		va_end(arguments);
	}
	return code;
}

int g4_dev_code(int unix_error)
{
	switch (unix_error) {
	case ENOSPC:
	case EDQUOT:
		return -G4_E_NOSPC;
	case EROFS:
	case EBADF:
	case EPERM:
		return -G4_E_DEV_READONLY;
	case EOPNOTSUPP:
	case ENOSYS:
		return -G4_E_NOTSUP;
	case ENOMEM:
		return -G4_E_NOMEM;
	default:
		return -G4_E_IO;
	}
}
