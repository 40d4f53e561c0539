/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of TALLY (tally.c). */
#ifndef G4_TALLY_H
#define G4_TALLY_H

#define G4_TALLY_MOST 1024u /* names that a command looks at: so long its directory is locked against changes */

#endif
