/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs dump --ddt: what the device knows of pages that have several owners, and of those that others find by their contents
 * (docs/design/deduplication.md, "Counts", "Listed pages"). The table of hints is in the memory of a mount alone.
 */
#ifndef G4_CLI_DUMP_DDT_H
#define G4_CLI_DUMP_DDT_H

#include "fsck/image.h"
#include "print/report.h"

/* All return 0, or what was wrong with the first page that is damaged, or -G4_E_NOMEM: the others are there. */

/* How much is listed. A damaged group is counted, and no error. */
int g4_dump_listed(struct g4_image *image, struct g4_report *report);
/* How many owners pages have, what all of it takes on the device, and each page of it. */
int g4_dump_ddt_tree(struct g4_image *image, struct g4_report *report);
/* The pages as a graph for Graphviz's dot. */
int g4_dump_ddt_dot(struct g4_image *image, FILE *out);

#endif
