/* SPDX-License-Identifier: Apache-2.0 */
/* Many makers in one directory (test_makers.c) whose names have one hash, so that they lie in several leaves which that hash has alone. */
#include "equal_names.h"

#define NAME_PREFIX "=m"
#define STEPS 20000u
#define SLOW_STEPS 1500u
#include "test_makers.c" /* NOLINT(bugprone-suspicious-include) */
