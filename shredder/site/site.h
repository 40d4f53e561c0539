/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent at a site: keeps repositories for clients that it knows by their keys, over HTTPS with TLS 1.3. It needs no password: it sees
 * names, sizes and protected bytes. docs/design/backup.md says what it promises and why it is made so.
 */
#ifndef SHREDDER_SITE_H
#define SHREDDER_SITE_H

#include "store/backend.h"

/* "sha256//" and 44 characters: of a public key, as libcurl writes it. */
#define SITE_KEY_BYTES 64

/* ---- identity.c: a private key and a certificate around it, in one file */
/* Makes one; what is there stays. EXISTS. */
int site_identity_make(const char *file);
int site_identity_key(const char *file, char key[SITE_KEY_BYTES]);

/* ---- clients.c: permissions of clients */
struct site_client {
	char *name, *repository;
	char key[SITE_KEY_BYTES];
	bool append_only;
	uint64_t quota_bytes; /* 0: none */
};
struct site_clients {
	struct site_client *list;
	size_t count;
};
/* One line each: NAME KEY REPOSITORY [append-only] [quota=SIZE]. INVAL and a sentence with the line's number. */
int site_clients_parse(const char *text, struct site_clients *clients);
int site_clients_read(const char *file, struct site_clients *clients);
void site_clients_free(struct site_clients *clients);
/* The line of that key and repository, whose name `url` begins with, with slashes around it. NULL: there is none. */
const struct site_client *site_client_find(const struct site_clients *clients, const char *key, const char *url);

/* ---- requests.c */
struct site_options {
	const char *root; /* repositories lie below it */
	const char *identity;
	const char *address;	     /* to listen at; NULL: everywhere */
	uint16_t port;		     /* 0: any */
	struct site_clients clients; /* the site's from then on */
	/* A sentence about a request that was refused; by any thread. */
	void (*note)(void *user, const char *client, const char *sentence);
	void *user;
};
struct site;
/* Takes the clients, after a failure, too. */
int site_start(const struct site_options *options, struct site **out);
/*
 * Others from now on, with their quotas; requests that have begun end by the old ones, which stay in memory until the site stops. `clients` is
 * the site's then.
 */
void site_take_clients(struct site *site, const struct site_clients *clients);
uint16_t site_port(const struct site *site);
/* Lets requests end that have begun. */
void site_stop(struct site *site);

#endif
