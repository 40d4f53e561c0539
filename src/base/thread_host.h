/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the program's own. */
#ifndef G4_THREAD_HOST_H
#define G4_THREAD_HOST_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a thread that leaves signals to the program: all are blocked in it. 0 or an errno, as pthread_create() has it. */
int g4_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

#ifdef __cplusplus
}
#endif

#endif
