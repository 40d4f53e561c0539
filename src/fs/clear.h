/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of CLEAR (clear.c). */
#ifndef G4_CLEAR_H
#define G4_CLEAR_H

#define G4_CLEAR_MOST 65536u /* names that a command removes, whatever it was given: others wait for the workgroup */
#define G4_CLEAR_WAY 64u     /* directories above the one at hand that are remembered */
#define G4_CLEAR_TRIES                                                                                                 \
	1000000u /* beside four for each name that may go: a chain of so many directories is gone through */

#endif
