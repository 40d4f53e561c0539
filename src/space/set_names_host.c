/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the disks of a set: one that stands for several, and two that stand for the same. */
#define _GNU_SOURCE 1

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "space/set_types_host.h"

int g4_set_names(const char *name, char ***out, uint32_t *count)
{
	const size_t bytes = strlen(name) + 1;
	uint32_t room = 1;

	for (const char *c = name; *c; c++)
		room += *c == ',';
	char **names = malloc(room * sizeof(*names) + bytes);
	if (!names)
		return -G4_E_NOMEM;
	char *to = (char *)(names + room);
	names[0] = to;
	*count = 1;
	*out = names;
	if (access(g4_dev_path(name), F_OK) == 0) {
		memcpy(to, name, bytes);
		return 0;
	}
	for (const char *c = name; *c; c++) {
		if (*c == '\\' && (c[1] == ',' || c[1] == '\\')) {
			*to++ = *++c;
		} else if (*c == ',') {
			*to++ = 0;
			names[(*count)++] = to;
		} else {
			*to++ = *c;
		}
	}
	*to = 0;
	return 0;
}

char *g4_set_join(const char *const *names, uint32_t count)
{
	size_t bytes = 1;

	for (uint32_t n = 0; n < count; n++)
		bytes += 2 * strlen(names[n]) + 1;
	char *joined = malloc(bytes), *to = joined;
	if (!joined)
		return NULL;
	for (uint32_t n = 0; n < count; n++) {
		if (n > 0)
			*to++ = ',';
		for (const char *c = names[n]; *c; c++) {
			if ((*c == ',' || *c == '\\') && count > 1)
				*to++ = '\\';
			*to++ = *c;
		}
	}
	*to = 0;
	return joined;
}

char *g4_set_full_name(const char *name)
{
	const char *path = g4_dev_path(name);
	char *real = g4_dev_has_path(name) ? realpath(path, NULL) : NULL, *full;

	if (!real)
		return strdup(name);
	if (asprintf(&full, "%.*s%s", (int)(path - name), name, real) < 0)
		full = NULL;
	free(real);
	return full;
}

bool g4_set_is_same_file(const char *a, const char *b)
{
	struct stat one, other;

	if (strcmp(a, b) == 0)
		return strncmp(a, "mem:", 4) != 0;
	if (stat(g4_dev_path(a), &one) != 0 || stat(g4_dev_path(b), &other) != 0)
		return false;
	return S_ISBLK(one.st_mode) && S_ISBLK(other.st_mode) ?
		       one.st_rdev == other.st_rdev :
		       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int g4_set_keep_name(struct g4_set *set, char *name)
{
	char **names = realloc(set->old_names, (set->old_name_count + 1) * sizeof(*names));

	if (!names)
		return -G4_E_NOMEM;
	set->old_names = names;
	set->old_names[set->old_name_count++] = name;
	return 0;
}
