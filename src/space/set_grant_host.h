/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that others write by themselves (set_grant_host.c). Of the files of this folder alone. */
#ifndef G4_SET_GRANT_HOST_H
#define G4_SET_GRANT_HOST_H

#include "space/set_types_host.h"

/* g4_dev_grant(). Thread-safe. */
int g4_set_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number);
/* What dev_ops_host.h asks for. */
uint32_t *g4_set_words(const struct g4_dev *dev);
void g4_set_use_words(struct g4_dev *dev, uint32_t *words);

#endif
