/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that says which client may do what. A repository of two clients is a domain: they share its chunks, its keys and
 * what is in it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units_host.h"
#include "site/site.h"
#include "site/tls.h"

#define CLIENTS_BYTES_MAX (16 * G4_MIB)
#define WORDS_MAX 8

/* Letters, digits, "-", "_", "." within: a path below the root and nothing else. */
static bool repository_is_safe(const char *text)
{
	bool begins = true;

	if (text[0] == 0 || strlen(text) > 200)
		return false;
	for (const char *at = text; *at != 0; at++) {
		const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
				    (*at >= '0' && *at <= '9') || *at == '_' || *at == '-';

		if (*at == '/' ? begins : (!letter && (*at != '.' || begins)))
			return false;
		begins = *at == '/';
	}
	return !begins;
}

static bool key_is_one(const char *text)
{
	return strncmp(text, "sha256//", 8) == 0 && strlen(text) == 52 &&
	       strspn(text + 8, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"abcdefghijklmnopqrstuvwxyz0123456789+/=") == 44;
}

static int take_words(struct site_client *client, char **words, size_t count, size_t line)
{
	if (count < 3)
		return store_fail(STORE_E_INVAL, "line %zu has no NAME KEY REPOSITORY", line);
	if (!key_is_one(words[1]))
		return store_fail(STORE_E_INVAL, "line %zu: '%s' is no key: sha256// and 44 characters", line,
				  words[1]);
	if (!repository_is_safe(words[2]))
		return store_fail(STORE_E_INVAL,
				  "line %zu: '%s' is no repository: letters, digits, - _ . and / between them", line,
				  words[2]);
	for (size_t i = 3; i < count; i++) {
		if (strcmp(words[i], "append-only") == 0)
			client->append_only = true;
		else if (strncmp(words[i], "quota=", 6) != 0 ||
			 g4_parse_size(words[i] + 6, &client->quota_bytes) != 0 || client->quota_bytes == 0)
			return store_fail(STORE_E_INVAL, "line %zu: '%s' is neither append-only nor quota=SIZE", line,
					  words[i]);
	}
	client->name = store_strdup(words[0]);
	client->repository = store_strdup(words[2]);
	snprintf(client->key, sizeof(client->key), "%s", words[1]);
	return 0;
}

int site_clients_parse(const char *text, struct site_clients *clients)
{
	char *copy = store_strdup(text), *save = NULL, *from = copy;
	size_t number = 0;
	int rc = 0;

	memset(clients, 0, sizeof(*clients));
	for (char *line; rc == 0 && (line = strsep(&from, "\n")) != NULL;) {
		struct site_client client = {.name = NULL};
		char *words[WORDS_MAX];
		size_t count = 0;

		number++;
		line[strcspn(line, "#")] = 0;
		for (char *word = strtok_r(line, " \t\r", &save); word != NULL && rc == 0;
		     word = strtok_r(NULL, " \t\r", &save)) {
			if (count == WORDS_MAX)
				rc = store_fail(STORE_E_INVAL, "line %zu has too many words", number);
			else
				words[count++] = word;
		}
		if (rc != 0 || count == 0)
			continue;
		rc = take_words(&client, words, count, number);
		if (rc != 0)
			break;
		clients->list = (struct site_client *)store_realloc(clients->list,
								    (clients->count + 1) * sizeof(*clients->list));
		clients->list[clients->count++] = client;
	}
	free(copy);
	if (rc != 0)
		site_clients_free(clients);
	return rc;
}

int site_clients_read(const char *file, struct site_clients *clients)
{
	struct store_buf text = {0};
	int rc = site_file_read(file, CLIENTS_BYTES_MAX, &text);

	if (rc == 0 && (rc = site_clients_parse((const char *)text.data, clients)) != 0)
		rc = store_fail(rc, "%s: %s", file, store_message());
	store_buf_free(&text);
	return rc;
}

void site_clients_free(struct site_clients *clients)
{
	for (size_t i = 0; i < clients->count; i++) {
		free(clients->list[i].name);
		free(clients->list[i].repository);
	}
	free(clients->list);
	memset(clients, 0, sizeof(*clients));
}

const struct site_client *site_client_find(const struct site_clients *clients, const char *key, const char *url)
{
	const struct site_client *found = NULL;
	size_t longest = 0;

	for (size_t i = 0; i < clients->count; i++) {
		const struct site_client *client = &clients->list[i];
		const size_t bytes = strlen(client->repository);

		if (strcmp(client->key, key) == 0 && url[0] == '/' && bytes > longest &&
		    strncmp(url + 1, client->repository, bytes) == 0 && url[1 + bytes] == '/') {
			found = client;
			longest = bytes;
		}
	}
	return found;
}
