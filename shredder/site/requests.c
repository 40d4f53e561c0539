/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of clients: restic's REST protocol, version 2 (store/rest.h), with a thread for each connection.
 *
 * A connection's key is asked of TLS at each request, and with the first words of the address it must stand in the list of clients; all that
 * follows happens in that client's repository. What is put must have the name of its content, and begin as a file of its kind: a broken
 * upload is never kept, and nothing that is kept is ever changed, unless it is damaged: then it becomes what its name says.
 *
 * What came of a long upload that was cut off stays in memory, for the same client to send the rest (parts.h).
 *
 * Append only: nothing is removed but locks, and of these its own: a client that may remove another one's lock could let a
 * prune run beside a backup. Whose
 * a lock is stands in a file beside the repositories, for repositories hold no files but their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "site/heads.h"
#include "site/parts.h"
#include "site/tls.h"
#include "store/pack_parity.h"
#include "store/rest.h"

#define CONNECTIONS_MAX 1024
#define SILENCE_S 300
/* A pack with the largest blob in it; larger files there are none. */
#define BODY_MAX (128 * G4_MIB)
/* Of all requests together. */
#define BODIES_MAX G4_GIB
#define PATH_BYTES 4096

/* One directory below the root, whichever client uses it. */
struct repository {
	char *name;
	struct store_backend *backend;
	pthread_mutex_t mutex;
	bool counted;
	uint64_t bytes; /* of all its files */
	struct repository *next;
};

struct site {
	struct site_options options;
	struct site_generation
		*generations; /* of lists of clients, the newest first: requests have pointers into any of them */
	struct site_parts *parts;
	struct MHD_Daemon *daemon;
	struct store_buf identity;
	pthread_mutex_t mutex;
	struct repository *repositories;
	uint64_t bodies;
};

struct site_generation {
	struct site_clients clients;
	struct site_generation *next;
};

/* A request whose body is coming. */
struct request {
	const struct site_client *client;
	struct site_part *part; /* of a POST, while it comes; NULL: there is none */
	uint64_t bytes;		/* of it */
	struct store_buf body;	/* all of it */
	bool too_much, given_up;
	uint64_t counted; /* in site.bodies */
};

/* What an address means, for a client that may use it. */
struct target {
	const struct site_client *client;
	struct repository *repository;
	struct site_address address;
};

/* --------------------------------------------------------------------------------------------------------- answers */

static enum MHD_Result answer_bytes(struct MHD_Connection *connection, unsigned int status, const void *data,
				    size_t bytes)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(bytes, (void *)data, MHD_RESPMEM_MUST_COPY);

	if (response == NULL)
		return MHD_NO;
	const enum MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status, const char *sentence)
{
	return answer_bytes(connection, status, sentence, strlen(sentence));
}

static enum MHD_Result refuse(struct site *site, struct MHD_Connection *connection, const char *client,
			      unsigned int status, const char *sentence)
{
	if (site->options.note != NULL)
		site->options.note(site->options.user, client, sentence);
	return answer(connection, status, sentence);
}

/* What a failure of the repository means for the client: its sentence has paths of the site, which are nobody's business. */
static enum MHD_Result answer_failure(struct site *site, struct MHD_Connection *connection, const struct target *t,
				      int rc)
{
	if (rc == STORE_E_ABSENT || rc == STORE_E_NO_STORE)
		return answer(connection, MHD_HTTP_NOT_FOUND, "there is none");
	if (site->options.note != NULL)
		site->options.note(site->options.user, t->client->name, store_message());
	return answer(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "the site cannot do that now");
}

/* ---------------------------------------------------------------------------------------------------- repositories */

/* Makes the directories of a name with slashes. */
static int make_parents(const char *root, const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = 0;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return store_fail(STORE_E_IO, "cannot make %s: %s", path, strerror(errno));
		*at = '/';
	}
	return 0;
}

/* 0 and the repository, which may be there or, with `create`, is made. */
static int open_repository(struct site *site, const char *name, bool create, struct repository **out)
{
	char path[PATH_BYTES];
	struct repository *r;
	int rc = 0;

	pthread_mutex_lock(&site->mutex);
	for (r = site->repositories; r != NULL && strcmp(r->name, name) != 0; r = r->next)
		;
	if (r == NULL) {
		snprintf(path, sizeof(path), "%s/%s", site->options.root, name);
		struct store_backend *backend = store_backend_local(path);
		if (create && (rc = make_parents(site->options.root, name)) == 0)
			rc = backend->ops->create(backend);
		else if (rc == 0)
			rc = backend->ops->open(backend);
		if (rc == STORE_E_EXISTS)
			rc = 0;
		/* what an agent removed that was killed before it had made it durable */
		if (rc == 0)
			rc = backend->ops->settle(backend, STORE_SNAPSHOT);
		if (rc == 0)
			rc = backend->ops->settle(backend, STORE_INDEX);
		if (rc != 0) {
			backend->ops->close(backend);
		} else {
			r = (struct repository *)store_alloc(sizeof(*r));
			r->name = store_strdup(name);
			r->backend = backend;
			pthread_mutex_init(&r->mutex, NULL);
			r->next = site->repositories;
			site->repositories = r;
		}
	}
	pthread_mutex_unlock(&site->mutex);
	*out = r;
	return rc;
}

static int add_bytes(void *user, const struct store_id *name, uint64_t bytes)
{
	(void)name;
	*(uint64_t *)user += bytes;
	return 0;
}

/* With the repository's mutex held. The site's owner may have pruned meanwhile, so a full one is counted again. */
static int count_bytes(struct repository *r)
{
	static const enum store_kind kinds[] = {STORE_KEY, STORE_PACK, STORE_INDEX, STORE_SNAPSHOT, STORE_LOCK};
	int rc = 0;

	r->bytes = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && rc == 0; i++)
		rc = r->backend->ops->list(r->backend, kinds[i], add_bytes, &r->bytes);
	r->counted = rc == 0;
	return rc;
}

/* True when the bytes may come, and are counted. */
static bool reserve(struct repository *r, uint64_t quota, uint64_t bytes)
{
	bool may = true;

	pthread_mutex_lock(&r->mutex);
	if (quota > 0) {
		const bool again = r->counted && r->bytes + bytes > quota;

		if ((!r->counted || again) && count_bytes(r) != 0)
			may = false;
		may = may && r->bytes + bytes <= quota;
	}
	if (may)
		r->bytes += bytes;
	pthread_mutex_unlock(&r->mutex);
	return may;
}

/*
 * A lock, or an index beside the old one, which a prune writes before it removes anything: not much of it, by who may remove. A backup's index passes as well:
 * docs/design/backup.md, "A full quota".
 */
static bool makes_room(const struct target *t, uint64_t bytes)
{
	struct store_backend *backend = t->repository->backend;
	uint64_t total = bytes;

	if (t->client->append_only || (t->address.kind != STORE_LOCK && t->address.kind != STORE_INDEX) ||
	    backend->ops->list(backend, t->address.kind, add_bytes, &total) != 0)
		return false;
	pthread_mutex_lock(&t->repository->mutex);
	const bool may = total <= t->repository->bytes / 8 + G4_MIB;
	pthread_mutex_unlock(&t->repository->mutex);
	return may;
}

static void give_back(struct repository *r, uint64_t bytes)
{
	pthread_mutex_lock(&r->mutex);
	r->bytes -= g4_min64(r->bytes, bytes);
	pthread_mutex_unlock(&r->mutex);
}

/* ----------------------------------------------------------------------------------------------------------- locks */

/* ROOT/.locks/HEX: HEX of repository and lock. */
static void owner_path(const struct site *site, const struct target *t, char path[PATH_BYTES])
{
	char text[STORE_HEX_BYTES + 512], hex[STORE_HEX_BYTES];
	struct store_id id;

	snprintf(text, sizeof(text), "%s %s", t->repository->name, store_hex(&t->address.name, hex));
	store_digest(text, strlen(text), id.bytes);
	snprintf(path, PATH_BYTES, "%s/.locks/%s", site->options.root, store_hex(&id, hex));
}

/* Before the lock is there; what is there already stays whose it is. */
static int note_owner(const struct site *site, const struct target *t)
{
	char path[PATH_BYTES];
	const size_t bytes = strlen(t->client->key);

	snprintf(path, sizeof(path), "%s/.locks", site->options.root);
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return store_fail(STORE_E_IO, "cannot make %s: %s", path, strerror(errno));
	owner_path(site, t, path);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : store_fail(STORE_E_IO, "cannot make %s: %s", path, strerror(errno));
	const bool right = write(fd, t->client->key, bytes) == (ssize_t)bytes;
	if (close(fd) == 0 && right)
		return 0;
	unlink(path);
	return store_fail(STORE_E_IO, "cannot write %s: %s", path, strerror(errno));
}

static bool is_owner(const struct site *site, const struct target *t)
{
	char path[PATH_BYTES], key[SITE_KEY_BYTES] = "";

	owner_path(site, t, path);
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	const ssize_t got = read(fd, key, sizeof(key) - 1);
	close(fd);
	return got > 0 && strcmp(key, t->client->key) == 0;
}

/* -------------------------------------------------------------------------------------------------------- requests */

static enum MHD_Result do_list(struct site *site, struct MHD_Connection *connection, const struct target *t)
{
	struct store_listed *names;
	struct store_buf text = {0};
	size_t count;
	const int rc = store_list_all(t->repository->backend, t->address.kind, &names, &count);

	if (rc != 0)
		return answer_failure(site, connection, t, rc);
	store_rest_print(&text, names, count);
	free(names);
	const enum MHD_Result result = answer_bytes(connection, MHD_HTTP_OK, text.data, text.size);
	store_buf_free(&text);
	return result;
}

/* A client that asks for what it could not send to its end learns how much of it is here. */
static enum MHD_Result answer_absent(struct site *site, struct MHD_Connection *connection, const struct target *t,
				     const char *url)
{
	static const char sentence[] = "there is none";
	const size_t bytes = site_part_bytes(site->parts, t->client->key, url);
	struct MHD_Response *response =
		MHD_create_response_from_buffer(sizeof(sentence) - 1, (void *)sentence, MHD_RESPMEM_PERSISTENT);
	char text[32];

	if (response == NULL)
		return MHD_NO;
	snprintf(text, sizeof(text), "%zu", bytes);
	if (bytes > 0)
		MHD_add_response_header(response, "Shredder-Received", text);
	const enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result do_get(struct site *site, struct MHD_Connection *connection, const struct target *t,
			      const char *url)
{
	uint64_t size, from = 0, bytes;
	int fd, rc = store_local_open_file(t->repository->backend, t->address.kind, &t->address.name, &fd, &size);

	if (rc == STORE_E_ABSENT)
		return answer_absent(site, connection, t, url);
	if (rc != 0)
		return answer_failure(site, connection, t, rc);
	bytes = size;
	const bool part = site_parse_range(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Range"), size,
					   &from, &bytes);
	if (part && bytes == 0) {
		close(fd);
		return answer(connection, MHD_HTTP_RANGE_NOT_SATISFIABLE, "the file is shorter");
	}
	/* the response closes it; of HEAD the body is left out */
	struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(bytes, fd, from);
	if (response == NULL) {
		close(fd);
		return MHD_NO;
	}
	if (part) {
		char text[96];

		snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)from,
			 (unsigned long long)(from + bytes - 1), (unsigned long long)size);
		MHD_add_response_header(response, "Content-Range", text);
	}
	const enum MHD_Result result =
		MHD_queue_response(connection, part ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return result;
}

/*
 * Whether a file that is there is damaged and `body`, which has its name, is what it should be. The configuration's name says nothing: what it
 * should be is what its own parity makes of it.
 */
static bool mends_file(const struct target *t, const struct store_buf *body)
{
	struct store_buf file = {0};
	const int rc = store_raw_get(t->repository->backend, t->address.kind, &t->address.name, &file);
	bool mends = rc == STORE_E_DAMAGED || rc == STORE_E_VERSION || rc == STORE_E_IO;

	if (t->address.kind == STORE_CONFIG)
		mends = file.size == body->size && !store_parity_fits(file.data, file.size) &&
			store_parity_mend(file.data, file.size, NULL) == STORE_MENDED &&
			memcmp(file.data, body->data, body->size) == 0;
	store_buf_free(&file);
	return mends;
}

/* Puts it in the place of what is there. */
static enum MHD_Result do_mend(struct site *site, struct MHD_Connection *connection, const struct target *t,
			       const struct store_buf *body)
{
	struct store_backend *backend = t->repository->backend;
	const int rc = backend->ops->replace(backend, t->address.kind, &t->address.name, body->data, body->size);

	pthread_mutex_lock(&t->repository->mutex);
	t->repository->counted = false; /* its size may have been another one */
	pthread_mutex_unlock(&t->repository->mutex);
	return rc == 0 ? answer(connection, MHD_HTTP_OK, "") : answer_failure(site, connection, t, rc);
}

static enum MHD_Result do_put(struct site *site, struct MHD_Connection *connection, const struct target *t,
			      const struct store_buf *body)
{
	struct store_backend *backend = t->repository->backend;
	struct store_id digest;
	uint64_t there;
	uint32_t version;
	bool encrypted;
	int rc;

	if (body->size < STORE_PREFIX_BYTES ||
	    store_prefix_check(body->data, t->address.kind, "what was sent", &version, &encrypted) != 0)
		return refuse(site, connection, t->client->name, MHD_HTTP_BAD_REQUEST,
			      "this is no such file of a repository");
	store_digest(body->data, body->size, digest.bytes);
	if (t->address.kind != STORE_CONFIG && !store_id_equal(&digest, &t->address.name))
		return refuse(site, connection, t->client->name, MHD_HTTP_BAD_REQUEST,
			      "the bytes do not have that name");
	if (backend->ops->size(backend, t->address.kind, &t->address.name, &there) == 0) {
		if (mends_file(t, body))
			return do_mend(site, connection, t, body);
		if (t->address.kind == STORE_CONFIG)
			return refuse(site, connection, t->client->name, MHD_HTTP_FORBIDDEN,
				      "there is a configuration already");
		return answer(connection, MHD_HTTP_OK, "");
	}
	if (!reserve(t->repository, t->client->quota_bytes, body->size) &&
	    !(makes_room(t, body->size) && reserve(t->repository, 0, body->size)))
		return refuse(site, connection, t->client->name, MHD_HTTP_INSUFFICIENT_STORAGE, "the quota is used up");
	rc = t->address.kind == STORE_LOCK ? note_owner(site, t) : 0;
	if (rc == 0)
		rc = backend->ops->put(backend, t->address.kind, &t->address.name, body->data, body->size);
	if (rc == 0)
		return answer(connection, MHD_HTTP_OK, "");
	give_back(t->repository, body->size);
	return rc == STORE_E_FULL ? refuse(site, connection, t->client->name, MHD_HTTP_INSUFFICIENT_STORAGE,
					   "the site's disk is full") :
				    answer_failure(site, connection, t, rc);
}

static enum MHD_Result do_remove(struct site *site, struct MHD_Connection *connection, const struct target *t)
{
	struct store_backend *backend = t->repository->backend;
	char path[PATH_BYTES];
	uint64_t bytes;
	int rc;

	if (t->address.kind == STORE_CONFIG ||
	    (t->client->append_only && (t->address.kind != STORE_LOCK || !is_owner(site, t))))
		return refuse(site, connection, t->client->name, MHD_HTTP_FORBIDDEN,
			      t->address.kind == STORE_LOCK ? "this lock is another client's" :
							      "this client may append only: nothing is removed");
	rc = backend->ops->size(backend, t->address.kind, &t->address.name, &bytes);
	if (rc == 0)
		rc = backend->ops->remove(backend, t->address.kind, &t->address.name);
	if (rc == 0 && t->address.kind != STORE_LOCK && t->address.kind != STORE_PACK) /* a prune relies on it */
		rc = backend->ops->settle(backend, t->address.kind);
	if (rc != 0)
		return answer_failure(site, connection, t, rc);
	give_back(t->repository, bytes);
	if (t->address.kind == STORE_LOCK) {
		owner_path(site, t, path);
		unlink(path);
	}
	return answer(connection, MHD_HTTP_OK, "");
}

static enum MHD_Result do_request(struct site *site, struct MHD_Connection *connection, const char *url,
				  const char *method, const struct target *t, const struct store_buf *body)
{
	const bool head = strcmp(method, "HEAD") == 0;

	if (t->address.whole)
		return strcmp(method, "POST") == 0 ? answer(connection, MHD_HTTP_OK, "") :
						     answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "POST only");
	if (t->address.list)
		return head || strcmp(method, "GET") == 0 ? do_list(site, connection, t) :
							    answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only");
	if (head || strcmp(method, "GET") == 0)
		return do_get(site, connection, t, url);
	if (strcmp(method, "POST") == 0)
		return do_put(site, connection, t, body);
	if (strcmp(method, "DELETE") == 0)
		return do_remove(site, connection, t);
	return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET, HEAD, POST and DELETE only");
}

/* The key of the client's certificate; its private key was proved when the connection began. */
static bool client_key(struct MHD_Connection *connection, char key[SITE_KEY_BYTES])
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	const gnutls_datum_t *chain;
	gnutls_x509_crt_t certificate;
	unsigned int count = 0;
	bool right;

	if (info == NULL || info->tls_session == NULL)
		return false;
	chain = gnutls_certificate_get_peers((gnutls_session_t)info->tls_session, &count);
	if (chain == NULL || count == 0 || gnutls_x509_crt_init(&certificate) < 0)
		return false;
	right = gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) >= 0 &&
		site_key_of(certificate, key) == 0;
	gnutls_x509_crt_deinit(certificate);
	return right;
}

/* --------------------------------------------------------------------------------------------------------- libmicrohttpd */

static bool room_for(struct site *site, struct request *request, size_t bytes)
{
	if (request->too_much || request->bytes + bytes > BODY_MAX)
		return false;
	pthread_mutex_lock(&site->mutex);
	const bool may = site->bodies + bytes <= BODIES_MAX;
	if (may)
		site->bodies += bytes;
	pthread_mutex_unlock(&site->mutex);
	request->counted += may ? bytes : 0;
	request->bytes += may ? bytes : 0;
	return may;
}

static const struct site_client *find_client(struct site *site, const char *key, const char *url)
{
	pthread_mutex_lock(&site->mutex);
	const struct site_clients *clients = &site->generations->clients;
	pthread_mutex_unlock(&site->mutex);
	return site_client_find(clients, key, url);
}

/* An upload that goes on takes what came before. False: that is not here. */
static bool begin_upload(struct site *site, struct MHD_Connection *connection, const char *url, struct request *request)
{
	const char *range = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Range");
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
	const char *key = request->client->key;
	uint64_t from, wanted;

	if (range == NULL) {
		wanted = length != NULL ? strtoull(length, NULL, 10) : 0;
		request->part = site_part_begin(site->parts, key, url, wanted);
		return true;
	}
	if (!site_parse_rest(range, &from, &wanted))
		return false;
	request->part = site_part_resume(site->parts, key, url, from, wanted);
	if (request->part == NULL)
		return false;
	pthread_mutex_lock(&site->mutex);
	site->bodies += from;
	pthread_mutex_unlock(&site->mutex);
	request->counted = from;
	request->bytes = from;
	return true;
}

/* The next piece of a body. */
static void take_piece(struct site *site, struct request *request, const char *data, size_t bytes)
{
	if (request->part == NULL || !room_for(site, request, bytes))
		request->too_much = true;
	else if (!site_part_add(site->parts, request->part, data, bytes))
		request->given_up = true;
}

/* Called when the head of a request is there, with pieces of its body, and when all of it is there. */
static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *upload, size_t *upload_bytes, void **state)
{
	struct site *site = (struct site *)user;
	struct request *request = (struct request *)*state;
	struct target t = {.client = NULL};
	char key[SITE_KEY_BYTES];

	(void)version;
	if (request == NULL) { /* before anything of a body is kept */
		if (!client_key(connection, key))
			return refuse(site, connection, "?", MHD_HTTP_FORBIDDEN, "who are you? Say --identity");
		t.client = find_client(site, key, url);
		if (t.client == NULL)
			return refuse(site, connection, key, MHD_HTTP_FORBIDDEN,
				      "this key may not use this repository");
		request = (struct request *)store_alloc(sizeof(*request));
		request->client = t.client;
		*state = request;
		if (strcmp(method, "POST") == 0 && !begin_upload(site, connection, url, request))
			return answer(connection, MHD_HTTP_CONFLICT, "what came before is not here any more");
		return MHD_YES;
	}
	t.client = request->client;
	if (*upload_bytes > 0) {
		take_piece(site, request, upload, *upload_bytes);
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (request->too_much)
		return answer(connection,
			      request->bytes > BODY_MAX / 2 ? MHD_HTTP_CONTENT_TOO_LARGE : MHD_HTTP_SERVICE_UNAVAILABLE,
			      "that is too much at a time");
	if (request->given_up)
		return answer(connection, MHD_HTTP_CONFLICT, "another connection goes on with this");
	if (request->part != NULL)
		site_part_take(site->parts, request->part, &request->body);
	request->part = NULL;
	const char *create = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "create");
	if (!site_parse_address(url + strlen(t.client->repository) + 2, create != NULL && strcmp(create, "true") == 0,
				&t.address))
		return answer(connection, MHD_HTTP_NOT_FOUND, "there is no such thing");
	const bool makes = t.address.whole || (t.address.kind == STORE_CONFIG && strcmp(method, "POST") == 0);
	const int rc = open_repository(site, t.client->repository, makes || strcmp(method, "POST") == 0, &t.repository);
	return rc != 0 ? answer_failure(site, connection, &t, rc) :
			 do_request(site, connection, url, method, &t, &request->body);
}

static void completed(void *user, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct site *site = (struct site *)user;
	struct request *request = (struct request *)*state;

	(void)connection;
	(void)code;
	if (request == NULL)
		return;
	if (request->part != NULL)
		site_part_leave(site->parts, request->part);
	pthread_mutex_lock(&site->mutex);
	site->bodies -= request->counted;
	pthread_mutex_unlock(&site->mutex);
	store_buf_free(&request->body);
	free(request);
	*state = NULL;
}

/* A connection begins: TLS must ask for the client's certificate. Authorities are not named, since there are none. */
static void connected(void *user, struct MHD_Connection *connection, void **state,
		      enum MHD_ConnectionNotificationCode code)
{
	(void)user;
	(void)state;
	if (code != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	if (info == NULL || info->tls_session == NULL)
		return;
	gnutls_certificate_server_set_request((gnutls_session_t)info->tls_session, GNUTLS_CERT_REQUIRE);
	gnutls_certificate_send_x509_rdn_sequence((gnutls_session_t)info->tls_session, 1);
}

static int resolve(const struct site_options *options, struct addrinfo **found)
{
	const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	char port[16];

	snprintf(port, sizeof(port), "%u", options->port);
	const int error = getaddrinfo(options->address, port, &wanted, found);
	return error == 0 ?
		       0 :
		       store_fail(STORE_E_INVAL, "cannot listen at %s: %s",
				  options->address != NULL ? options->address : "any address", gai_strerror(error));
}

int site_start(const struct site_options *options, struct site **out)
{
	struct site *site = (struct site *)store_alloc(sizeof(*site));
	struct addrinfo *found = NULL;
	struct stat st;
	int rc = store_crypto_init();

	site->options = *options;
	site->parts = site_parts_new();
	site->generations = (struct site_generation *)store_alloc(sizeof(*site->generations));
	site->generations->clients = options->clients;
	pthread_mutex_init(&site->mutex, NULL);
	if (rc == 0 && (stat(options->root, &st) != 0 || !S_ISDIR(st.st_mode)))
		rc = store_fail(STORE_E_NO_STORE, "%s is no directory: repositories would lie below it", options->root);
	if (rc == 0)
		rc = site_identity_read(options->identity, &site->identity);
	if (rc == 0)
		rc = resolve(options, &found);
	if (rc == 0) {
		const unsigned int flags = MHD_USE_TLS | MHD_USE_INTERNAL_POLLING_THREAD |
					   MHD_USE_THREAD_PER_CONNECTION |
					   (found->ai_family == AF_INET6 ? MHD_USE_DUAL_STACK : 0);

		site->daemon =
			MHD_start_daemon(flags, options->port, NULL, NULL, handle, site, MHD_OPTION_SOCK_ADDR,
					 found->ai_addr, MHD_OPTION_HTTPS_MEM_KEY, (const char *)site->identity.data,
					 MHD_OPTION_HTTPS_MEM_CERT, (const char *)site->identity.data,
					 MHD_OPTION_HTTPS_PRIORITIES, "NORMAL:-VERS-ALL:+VERS-TLS1.3",
					 MHD_OPTION_NOTIFY_CONNECTION, connected, site, MHD_OPTION_NOTIFY_COMPLETED,
					 completed, site, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS_MAX,
					 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SILENCE_S, MHD_OPTION_END);
		if (site->daemon == NULL)
			rc = store_fail(STORE_E_IO, "cannot listen at port %u: %s", options->port,
					errno != 0 ? strerror(errno) : "the identity cannot be used");
	}
	if (found != NULL)
		freeaddrinfo(found);
	if (rc != 0) {
		site_stop(site);
		return rc;
	}
	*out = site;
	return 0;
}

void site_take_clients(struct site *site, const struct site_clients *clients)
{
	struct site_generation *generation = (struct site_generation *)store_alloc(sizeof(*generation));

	generation->clients = *clients;
	pthread_mutex_lock(&site->mutex);
	generation->next = site->generations;
	site->generations = generation;
	pthread_mutex_unlock(&site->mutex);
}

uint16_t site_port(const struct site *site)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(site->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info != NULL ? info->port : 0;
}

void site_stop(struct site *site)
{
	if (site->daemon != NULL)
		MHD_stop_daemon(site->daemon);
	while (site->repositories != NULL) {
		struct repository *next = site->repositories->next;

		site->repositories->backend->ops->close(site->repositories->backend);
		pthread_mutex_destroy(&site->repositories->mutex);
		free(site->repositories->name);
		free(site->repositories);
		site->repositories = next;
	}
	while (site->generations != NULL) {
		struct site_generation *next = site->generations->next;

		site_clients_free(&site->generations->clients);
		free(site->generations);
		site->generations = next;
	}
	site_parts_free(site->parts);
	if (site->identity.size > 0)
		store_wipe(site->identity.data, site->identity.size);
	store_buf_free(&site->identity);
	pthread_mutex_destroy(&site->mutex);
	free(site);
}
