/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before every C file: the C library shows everything it has, whether or not the file defines _GNU_SOURCE, and
 * in whichever way it does.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#include <features.h>
#undef _GNU_SOURCE
#endif
