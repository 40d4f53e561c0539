/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "store/rest.h"

#define OBJECT_BYTES_MAX (4 * G4_KIB) /* of an entry of a list, whose names are shorter by far */

const char *store_rest_type(enum store_kind kind)
{
	return kind == STORE_PACK ? "data" : kind == STORE_CONFIG ? "" : store_kind_name(kind);
}

bool store_rest_kind(const char *type, size_t bytes, enum store_kind *kind)
{
	static const enum store_kind kinds[] = {STORE_KEY, STORE_PACK, STORE_INDEX, STORE_SNAPSHOT, STORE_LOCK};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const char *word = store_rest_type(kinds[i]);

		if (strlen(word) == bytes && memcmp(word, type, bytes) == 0) {
			*kind = kinds[i];
			return true;
		}
	}
	return false;
}

static void skip_space(struct store_in *in)
{
	while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\r' || *in->at == '\n'))
		in->at++;
}

static bool take(struct store_in *in, char c)
{
	skip_space(in);
	if (in->at == in->end || *in->at != (uint8_t)c)
		return false;
	in->at++;
	return true;
}

/* A string without escapes: keys and names have none. */
static bool take_string(struct store_in *in, char *to, size_t room)
{
	size_t used = 0;

	if (!take(in, '"'))
		return false;
	while (in->at < in->end && *in->at != '"') {
		if (*in->at == '\\' || *in->at < 32 || used + 1 >= room)
			return false;
		to[used++] = (char)*in->at++;
	}
	to[used] = 0;
	return take(in, '"');
}

static bool take_number(struct store_in *in, uint64_t *number)
{
	const uint8_t *begin;

	skip_space(in);
	begin = in->at;
	*number = 0;
	while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
		if (*number > (UINT64_MAX - 9) / 10)
			return false;
		*number = *number * 10 + (uint64_t)(*in->at++ - '0');
	}
	return in->at > begin;
}

static bool take_object(struct store_in *in, char name[128], uint64_t *size)
{
	bool has_name = false, has_size = false;
	char key[32], other[512];
	uint64_t number;

	if (!take(in, '{'))
		return false;
	do {
		if (!take_string(in, key, sizeof(key)) || !take(in, ':'))
			return false;
		skip_space(in);
		const bool text = in->at < in->end && *in->at == '"';
		if (strcmp(key, "name") == 0)
			has_name = take_string(in, name, 128);
		else if (strcmp(key, "size") == 0)
			has_size = take_number(in, size);
		else if (text ? !take_string(in, other, sizeof(other)) : !take_number(in, &number))
			return false;
	} while (take(in, ','));
	return take(in, '}') && has_name && has_size;
}

/* Where an object ends that begins at in->at; NULL: not here. */
static const uint8_t *object_end(const struct store_in *in)
{
	bool quoted = false;

	for (const uint8_t *at = in->at; at < in->end; at++) {
		quoted ^= *at == '"';
		if (*at == '}' && !quoted)
			return at + 1;
	}
	return NULL;
}

/* 0: *in is behind an object, or it has none as a whole yet. */
static int add_object(struct store_rest_list *list, struct store_in *in)
{
	struct store_listed entry = {.bytes = 0};
	char name[128] = "";

	if (*in->at != '{')
		return STORE_E_INVAL;
	const uint8_t *end = object_end(in);
	if (end == NULL)
		return 0;
	struct store_in object = store_in_of(in->at, (size_t)(end - in->at));
	if (!take_object(&object, name, &entry.bytes) || object.at != end)
		return STORE_E_INVAL;
	if (store_unhex(name, &entry.name))
		store_buf_add(&list->entries, &entry, sizeof(entry));
	in->at = end;
	list->expected = STORE_REST_NEXT;
	return 0;
}

int store_rest_list_add(struct store_rest_list *list, const void *text, size_t bytes)
{
	int rc = 0;

	if (bytes > list->most - list->bytes)
		return STORE_E_INVAL;
	list->bytes += bytes;
	store_buf_add(&list->text, text, bytes);
	struct store_in in = store_in_of(list->text.data, list->text.size);
	for (skip_space(&in); rc == 0 && in.at < in.end; skip_space(&in)) {
		const uint8_t *before = in.at;

		switch (list->expected) {
		case STORE_REST_BEGIN:
			rc = take(&in, '[') ? 0 : STORE_E_INVAL;
			list->expected = STORE_REST_FIRST;
			break;
		case STORE_REST_FIRST:
		case STORE_REST_NEXT:
			if (take(&in, ']'))
				list->expected = STORE_REST_END;
			else if (list->expected == STORE_REST_FIRST)
				rc = add_object(list, &in);
			else if (take(&in, ','))
				list->expected = STORE_REST_AFTER_COMMA;
			else
				rc = STORE_E_INVAL;
			break;
		case STORE_REST_AFTER_COMMA:
			rc = add_object(list, &in);
			break;
		default: /* nothing follows the end */
			rc = STORE_E_INVAL;
		}
		if (in.at == before)
			break;
	}
	list->text.size = store_in_left(&in);
	if (list->text.size > OBJECT_BYTES_MAX)
		rc = STORE_E_INVAL;
	if (list->text.size > 0)
		memmove(list->text.data, in.at, list->text.size);
	return rc;
}

int store_rest_list_end(const struct store_rest_list *list, store_list_fn *each, void *user)
{
	const struct store_listed *entries = (const struct store_listed *)(const void *)list->entries.data;
	int rc = list->expected == STORE_REST_END ? 0 : STORE_E_INVAL;

	for (size_t i = 0; rc == 0 && i < list->entries.size / sizeof(*entries); i++)
		rc = each(user, &entries[i].name, entries[i].bytes);
	return rc;
}

void store_rest_list_reset(struct store_rest_list *list)
{
	list->bytes = list->text.size = list->entries.size = 0;
	list->expected = STORE_REST_BEGIN;
}

void store_rest_list_free(struct store_rest_list *list)
{
	store_buf_free(&list->text);
	store_buf_free(&list->entries);
}

void store_rest_print(struct store_buf *out, const struct store_listed *names, size_t count)
{
	char hex[STORE_HEX_BYTES], text[160];

	store_buf_add(out, "[", 1);
	for (size_t i = 0; i < count; i++) {
		const int bytes = snprintf(text, sizeof(text), "%s{\"name\":\"%s\",\"size\":%llu}", i == 0 ? "" : ",",
					   store_hex(&names[i].name, hex), (unsigned long long)names[i].bytes);

		store_buf_add(out, text, (size_t)bytes);
	}
	store_buf_add(out, "]", 1);
}

bool store_rest_number(const char **text, uint64_t *number)
{
	const char *at = *text;

	*number = 0;
	for (; *at >= '0' && *at <= '9'; at++) {
		const uint64_t digit = (uint64_t)(*at - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	const bool some = at != *text;
	*text = at;
	return some;
}

char *store_rest_shown(const char *path)
{
	const char *scheme = strstr(path, "://");
	char *shown = store_strdup(path);

	if (scheme == NULL)
		return shown;
	const size_t authority = (size_t)(scheme + 3 - path);
	char *at = shown + authority + strcspn(shown + authority, "/");
	while (at > shown + authority && *at != '@') /* the last one before the path */
		at--;
	char *colon = (char *)memchr(shown + authority, ':', (size_t)(at - (shown + authority)));
	if (*at == '@' && colon != NULL)
		memmove(colon, at, strlen(at) + 1);
	return shown;
}
