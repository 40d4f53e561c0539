/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the user of the program: one line each, to stderr or to the system log. */
#ifndef G4_LOG_HOST_H
#define G4_LOG_HOST_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, syslog priority, word in the line). The order is that of falling importance. */
#define G4_LOG_LEVELS(X)                                                                                               \
	X(ERROR, LOG_ERR, "error")	/* something failed that should not have */                                    \
	X(WARN, LOG_WARNING, "warning") /* something will need attention */                                            \
	X(INFO, LOG_INFO, "info")	/* what the program does, once per event of interest; the default */           \
	X(DEBUG, LOG_DEBUG, "debug")	/* for people who read the source */

enum g4_log_level {
#define G4_LOG_ENUM(name, priority, word) G4_LOG_##name,
	G4_LOG_LEVELS(G4_LOG_ENUM)
#undef G4_LOG_ENUM
};

/* Longest line, its NUL included; what is longer is cut. */
#define G4_LOG_LINE_BYTES 1024

/*
 * Writes "gpu4fs: error: ..." to stderr, or the message to the system log. No newline in the message. Messages less
 * important than the level are dropped. Each line is written in one piece. Thread-safe; keeps errno.
 */
void g4_log(enum g4_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The least important level that is still written. Thread-safe. */
void g4_log_set_level(enum g4_log_level level);
/* The level with this word ("error", "warning", "info", "debug"), or -G4_E_INVAL. */
int g4_log_parse_level(const char *word);

/*
 * Sends what follows to the system log under the name `ident`, which must stay valid; NULL: back to stderr. For daemons
 * once they have no terminal. Thread-safe.
 */
void g4_log_to_syslog(const char *ident);

#ifdef __cplusplus
}
#endif

#endif
