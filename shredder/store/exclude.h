/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns as in gitignore(5): "*", "?", "[...]" within a component, two stars for any number of components, "!" takes back, "/" at
 * the end for directories only; the last pattern that matches decides. One that begins with "/" is a path from the root; any other matches
 * at any depth.
 */
#ifndef SHREDDER_STORE_EXCLUDE_H
#define SHREDDER_STORE_EXCLUDE_H

#include "store/bytes.h"

struct store_pattern;
struct store_excludes {
	struct store_pattern *patterns;
	size_t count;
};
/* A line of a file: an empty one or one that begins with "#" is none; "\#" and "\!" are the characters. */
void store_exclude_add(struct store_excludes *excludes, const char *line);
/* The same, with letters (of ASCII) of either case alike. */
void store_exclude_add_folded(struct store_excludes *excludes, const char *line);
/* What somebody has typed: "#" is a character. */
void store_exclude_add_typed(struct store_excludes *excludes, const char *pattern, bool folded);
/* And what is looked for by that: "!" is one as well, as are spaces at the end, for nothing is taken back. */
void store_exclude_add_sought(struct store_excludes *excludes, const char *pattern, bool folded);
/* What the last pattern that matches says; false: none does. Also of patterns that are looked for. */
bool store_excluded(const struct store_excludes *excludes, const char *path, bool directory);
void store_excludes_free(struct store_excludes *excludes);

#endif
