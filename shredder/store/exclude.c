/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <fnmatch.h>
#include <stdlib.h>

#include "store/exclude.h"

struct store_pattern {
	char *text; /* components, without slashes at the ends */
	bool anchored, directory, back;
	int flags; /* of fnmatch() */
};

enum origin { OF_FILE, TYPED, SOUGHT };

static void add(struct store_excludes *excludes, const char *line, enum origin origin, bool folded)
{
	struct store_pattern pattern = {.flags = folded ? FNM_CASEFOLD : 0};

	if (line[0] == 0 || (origin == OF_FILE && line[0] == '#'))
		return;
	pattern.back = origin != SOUGHT && line[0] == '!';
	line += pattern.back;
	pattern.anchored = line[0] == '/';
	line += pattern.anchored;
	pattern.text = store_strdup(line);
	size_t bytes = strlen(pattern.text);
	while (origin != SOUGHT && bytes > 0 && pattern.text[bytes - 1] == ' ' &&
	       !(bytes > 1 && pattern.text[bytes - 2] == '\\'))
		pattern.text[--bytes] = 0;
	pattern.directory = bytes > 0 && pattern.text[bytes - 1] == '/';
	if (pattern.directory)
		pattern.text[bytes - 1] = 0;
	if (pattern.text[0] == 0) {
		free(pattern.text);
		return;
	}
	excludes->patterns =
		(struct store_pattern *)store_realloc(excludes->patterns, (excludes->count + 1) * sizeof(pattern));
	excludes->patterns[excludes->count++] = pattern;
}

void store_exclude_add(struct store_excludes *excludes, const char *line)
{
	add(excludes, line, OF_FILE, false);
}

void store_exclude_add_folded(struct store_excludes *excludes, const char *line)
{
	add(excludes, line, OF_FILE, true);
}

void store_exclude_add_typed(struct store_excludes *excludes, const char *pattern, bool folded)
{
	add(excludes, pattern, TYPED, folded);
}

void store_exclude_add_sought(struct store_excludes *excludes, const char *pattern, bool folded)
{
	add(excludes, pattern, SOUGHT, folded);
}

/* One component, which ends at a slash or at the end. */
static bool component_matches(const char *pattern, size_t pattern_bytes, const char *path, size_t path_bytes, int flags)
{
	char left[4096], right[256];

	if (pattern_bytes >= sizeof(left) || path_bytes >= sizeof(right))
		return false;
	memcpy(left, pattern, pattern_bytes);
	left[pattern_bytes] = 0;
	memcpy(right, path, path_bytes);
	right[path_bytes] = 0;
	return fnmatch(left, right, flags) == 0;
}

/* Components against components; after "**" the path may go on at any of them. Where two "**" are, the first match of the part
   between them is as good as a later one, so going back to the last one is enough. */
static bool path_matches(const char *pattern, const char *path, int flags)
{
	const char *again_pattern = NULL, *again_path = NULL;

	for (;;) {
		const size_t pattern_bytes = strcspn(pattern, "/"), path_bytes = strcspn(path, "/");

		if (pattern_bytes == 2 && pattern[0] == '*' && pattern[1] == '*') {
			if (pattern[2] == 0)
				return path[0] != 0; /* everything below */
			again_pattern = pattern + 3;
			again_path = path;
			pattern += 3;
			continue;
		}
		if (pattern[0] == 0 && path[0] == 0)
			return true;
		if (pattern[0] != 0 && path[0] != 0 &&
		    component_matches(pattern, pattern_bytes, path, path_bytes, flags)) {
			pattern += pattern_bytes + (pattern[pattern_bytes] == '/');
			path += path_bytes + (path[path_bytes] == '/');
			continue;
		}
		if (again_pattern == NULL || again_path[0] == 0)
			return false;
		again_path += strcspn(again_path, "/");
		again_path += again_path[0] == '/';
		pattern = again_pattern;
		path = again_path;
	}
}

static bool matches_anywhere(const char *pattern, bool anchored, const char *path, int flags)
{
	if (anchored)
		return path_matches(pattern, path, flags);
	for (; path[0] != 0; path += path[0] == '/') {
		if (path_matches(pattern, path, flags))
			return true;
		path += strcspn(path, "/");
	}
	return false;
}

bool store_excluded(const struct store_excludes *excludes, const char *path, bool directory)
{
	path += path[0] == '/';
	for (size_t i = excludes->count; i-- > 0;) {
		const struct store_pattern *pattern = &excludes->patterns[i];

		if ((!pattern->directory || directory) &&
		    matches_anywhere(pattern->text, pattern->anchored, path, pattern->flags))
			return !pattern->back;
	}
	return false;
}

void store_excludes_free(struct store_excludes *excludes)
{
	for (size_t i = 0; i < excludes->count; i++)
		free(excludes->patterns[i].text);
	free(excludes->patterns);
	memset(excludes, 0, sizeof(*excludes));
}
