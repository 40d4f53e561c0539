/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that are linked with g4_recycle_memory() (recycled.c). */
#ifndef RECYCLED_H
#define RECYCLED_H

#include <stdbool.h>

/* Under a sanitizer no byte of every so manieth kept mapping of a device can be touched, of others none of the first page. */
#define RECYCLED_WHOLE_EVERY 8u

/*
 * A program may define it: called before each mapping of memory or of a device, from any thread; false, with errno set: there is none to
 * be had.
 */
bool recycled_may_map(void);

#endif
