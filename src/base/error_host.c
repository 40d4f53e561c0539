/* SPDX-License-Identifier: Apache-2.0 */
/* What an error code means outside the engine: its errno and its sentence, both from the one list in error.h. */
#include "base/error.h"

int g4_errno(int code)
{
	switch (code) {
	case 0:
		return 0;
#define G4_ERROR_ERRNO(name, number, unix_errno, sentence)                                                             \
	case -(number):                                                                                                \
		return (unix_errno);
		G4_ERRORS(G4_ERROR_ERRNO)
#undef G4_ERROR_ERRNO
	default:
		return EIO;
	}
}

const char *g4_strerror(int code)
{
	switch (code) {
	case 0:
		return "success";
#define G4_ERROR_SENTENCE(name, number, unix_errno, sentence)                                                          \
	case -(number):                                                                                                \
		return sentence;
		G4_ERRORS(G4_ERROR_SENTENCE)
#undef G4_ERROR_SENTENCE
	default:
		return "unknown error";
	}
}
