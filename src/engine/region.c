/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that layers above simt define (hashing, parity) are executed here, on every lane. Alone in its file, so that a
 * test of a lower layer can bring its own.
 */
#include "simt/simt.h"

G4_FN void g4_region_user(struct g4_wg *wg, uint32_t kind, void *args)
{
	(void)wg;
	(void)kind;
	(void)args;
}
