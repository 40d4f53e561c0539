/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository behind restic's REST protocol, version 2: what `shredder serve` speaks, and `rclone serve restic` for any object store.
 *
 *	HEAD, GET, POST, DELETE  URL/TYPE/NAME   (URL/config)     GET with a range
 *	GET                      URL/TYPE/       [{"name": "...", "size": 1}, ...]
 *	POST                     URL/?create=true
 *
 * Every request can be sent again: a name has one content, so putting twice and removing twice are once. What a cut connection or a server
 * that starts again breaks off is tried again for two minutes. A server may be hostile: nothing that it sends is longer than what was asked
 * for, and what it says is shown without control characters.
 *
 * A site of ours keeps for a while what came of an upload that was cut off, and answers how much that is in "Shredder-Received" when it is
 * asked for the file. Then the rest is sent, with "Content-Range", and nothing that another server would not understand before.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "base/clock_host.h"
#include "store/backend.h"
#include "store/gate.h"
#include "store/rest.h"

#ifdef SHREDDER_REMOTE
#include <curl/curl.h>

#define URL_BYTES 1024
#define ANSWER_BYTES 200
#define LIST_BYTES_MAX G4_GIB
#define UNASKED_BYTES_MAX (64 * G4_KIB) /* of the answer to a request that asks for none: it is not looked at */
#define PATIENCE_NS (UINT64_C(120) * 1000000000)
#define FIRST_WAIT_NS (UINT64_C(250) * 1000000)
#define LAST_WAIT_NS (UINT64_C(15) * 1000000000)
#define SILENCE_S 60L
/* As much of a body as is sent at a time where there is a limit: a second, of the least one. */
#define PIECE_BYTES STORE_LIMIT_MIN
/* What is shorter is sent again as a whole. */
#define RESUMED_BYTES (64 * G4_KIB)

/* A connection that nobody uses at the moment. */
struct line {
	CURL *curl;
	struct line *next;
};

/* What may be sent or received a second. */
struct rate {
	uint64_t limit;	  /* 0: anything */
	uint64_t next_ns; /* when all that came before has had its time; guarded by `mutex` */
};

struct rest {
	struct store_backend base;
	char *url; /* ends with a slash */
	char *identity, *site_key;
	pthread_mutex_t mutex;
	struct line *lines;
	struct rate up, down;
	bool spoken; /* the server answered once: then it is worth waiting for */
};

/* What is sent and what comes back. */
struct request {
	const char *method;
	const uint8_t *send;
	size_t send_bytes;
	size_t sent;
	size_t skip;		      /* of these the server has so many from an upload that was cut off */
	const char *range;	      /* NULL: none */
	struct store_rest_list *list; /* where the answer goes, or NULL */
	uint8_t *to;		      /* the same; both NULL: nothing is asked for */
	size_t room, have;
	bool no_list;		   /* what came is no list */
	char answer[ANSWER_BYTES]; /* the beginning of an error's text */
	long status;
	curl_off_t length;
	uint64_t received; /* what a site of ours says that it has of a file that is not there */
	CURL *curl;
	struct rest *rest;
};

/* ------------------------------------------------------------------------------------------------------ one request */

/* Waits until so many bytes more are within the limit; requests side by side share it. */
static void wait_for_rate(struct rest *rest, struct rate *rate, uint64_t bytes)
{
	if (rate->limit == 0 || bytes == 0)
		return;
	pthread_mutex_lock(&rest->mutex);
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);
	if (rate->next_ns < now)
		rate->next_ns = now;
	rate->next_ns += (uint64_t)((double)bytes * 1e9 / (double)rate->limit);
	const struct timespec until = {(time_t)(rate->next_ns / 1000000000), (long)(rate->next_ns % 1000000000)};
	pthread_mutex_unlock(&rest->mutex);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static size_t receive(char *data, size_t one, size_t count, void *user)
{
	struct request *r = (struct request *)user;
	const size_t bytes = one * count;
	long status = 0;

	wait_for_rate(r->rest, &r->rest->down, bytes);
	curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 300) { /* words, of which some are shown */
		const size_t used = strlen(r->answer);

		for (size_t i = 0; i < bytes && used + i + 1 < sizeof(r->answer); i++)
			r->answer[used + i] = data[i] >= 32 && data[i] < 127 ? data[i] : ' ';
		return bytes;
	}
	if (r->list != NULL) {
		r->no_list = store_rest_list_add(r->list, data, bytes) != 0;
		return r->no_list ? 0 : bytes;
	}
	if (bytes > (r->to != NULL ? r->room : UNASKED_BYTES_MAX) - r->have)
		return 0;
	if (r->to != NULL)
		memcpy(r->to + r->have, data, bytes);
	r->have += bytes;
	return bytes;
}

static size_t give(char *to, size_t one, size_t count, void *user)
{
	struct request *r = (struct request *)user;
	const uint64_t most = r->rest->up.limit == 0 ? one * count : g4_min64(one * count, PIECE_BYTES);
	const size_t bytes = (size_t)g4_min64(most, r->send_bytes - r->sent);

	wait_for_rate(r->rest, &r->rest->up, bytes);
	memcpy(to, r->send + r->sent, bytes);
	r->sent += bytes;
	return bytes;
}

static CURL *take_line(struct rest *rest)
{
	pthread_mutex_lock(&rest->mutex);
	struct line *line = rest->lines;
	if (line != NULL)
		rest->lines = line->next;
	pthread_mutex_unlock(&rest->mutex);
	CURL *curl = line != NULL ? line->curl : curl_easy_init();
	free(line);
	return curl;
}

static void give_line(struct rest *rest, CURL *curl)
{
	struct line *line = (struct line *)store_alloc(sizeof(*line));

	line->curl = curl;
	pthread_mutex_lock(&rest->mutex);
	line->next = rest->lines;
	rest->lines = line;
	pthread_mutex_unlock(&rest->mutex);
}

static void prepare(const struct rest *rest, CURL *curl, const char *path, struct request *r)
{
	char url[URL_BYTES + 128];

	snprintf(url, sizeof(url), "%s%s", rest->url, path);
	curl_easy_reset(curl); /* connections stay */
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
	if (rest->site_key != NULL) { /* this key and no other, whatever certificate it comes in */
		curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, rest->site_key);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (rest->identity != NULL) {
		curl_easy_setopt(curl, CURLOPT_SSLCERT, rest->identity);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, rest->identity);
	}
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, r);
	if (strcmp(r->method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	if (strcmp(r->method, "POST") == 0) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		if (r->send_bytes < RESUMED_BYTES) {
			curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->send != NULL ? (const char *)r->send : "");
		} else { /* which libcurl cannot begin anew by itself */
			curl_easy_setopt(curl, CURLOPT_READFUNCTION, give);
			curl_easy_setopt(curl, CURLOPT_READDATA, r);
		}
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(r->send_bytes - r->skip));
	}
	if (strcmp(r->method, "DELETE") == 0)
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
	if (r->range != NULL)
		curl_easy_setopt(curl, CURLOPT_RANGE, r->range);
}

static uint64_t received_of(CURL *curl)
{
	struct curl_header *header;
	uint64_t bytes;

	if (curl_easy_header(curl, "Shredder-Received", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return 0;
	const char *text = header->value;
	return store_rest_number(&text, &bytes) && *text == 0 ? bytes : 0;
}

/* libcurl's code; with CURLE_OK there is a status. */
static CURLcode perform(struct rest *rest, const char *path, struct request *r)
{
	struct curl_slist *headers = NULL;
	CURL *curl = take_line(rest);

	if (curl == NULL)
		return CURLE_OUT_OF_MEMORY;
	prepare(rest, curl, path, r);
	headers = curl_slist_append(headers, "Expect:"); /* no round trip before a body */
	headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
	if (r->list != NULL)
		headers = curl_slist_append(headers, "Accept: application/vnd.x.restic.rest.v2");
	if (r->skip > 0) {
		char text[96];

		snprintf(text, sizeof(text), "Content-Range: bytes %zu-%zu/%zu", r->skip, r->send_bytes - 1,
			 r->send_bytes);
		headers = curl_slist_append(headers, text);
	}
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	r->have = 0;
	r->sent = r->skip;
	if (r->list != NULL)
		store_rest_list_reset(r->list);
	memset(r->answer, 0, sizeof(r->answer));
	r->status = 0;
	r->length = -1;
	r->curl = curl;
	r->rest = rest;
	if (r->send_bytes < RESUMED_BYTES) /* which does not come by give() */
		wait_for_rate(rest, &rest->up, r->send_bytes);
	const CURLcode code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &r->status);
	curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &r->length);
	r->received = received_of(curl);
	curl_slist_free_all(headers);
	give_line(rest, curl);
	return code;
}

/* What may be otherwise the next time. A wrong key stays wrong. */
static bool worth_trying_again(CURLcode code, long status)
{
	switch (code) {
	case CURLE_OK: /* 409: what came before is not there any more */
		return status == 409 || status == 429 || status == 500 || status == 502 || status == 503 ||
		       status == 504;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_GOT_NOTHING:
	case CURLE_SSL_CONNECT_ERROR: /* it goes down while TLS begins */
	case CURLE_SEND_ERROR:
	case CURLE_SEND_FAIL_REWIND:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		return true;
	default:
		return false;
	}
}

/* Before a long upload is sent again: what of it is there. */
static void ask_received(struct rest *rest, const char *path, struct request *r)
{
	struct request head = {.method = "HEAD"};

	r->skip = 0;
	if (r->send_bytes >= RESUMED_BYTES && perform(rest, path, &head) == CURLE_OK && head.status == 404 &&
	    head.received < r->send_bytes)
		r->skip = (size_t)head.received;
}

/* What may have to be said besides for a request that came to no answer; "": nothing is known. */
static const char *advice(const struct rest *rest, CURLcode code)
{
	const bool tls = strncasecmp(rest->url, "https:", 6) == 0;

	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return rest->site_key == NULL ?
			       "; a site of 'shredder serve' is known by its key: give it with --site-key" :
			       "";
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL: /* what came is no HTTP of a version that is known */
		if (!tls)
			return "; the site may speak TLS alone: use https://";
		return rest->identity == NULL && !rest->spoken ?
			       "; the site may want to know who asks: give --identity" :
			       "";
	case CURLE_SSL_CONNECT_ERROR:
		return rest->identity == NULL && !rest->spoken ?
			       "; the site may want to know who asks (--identity), or speak no TLS (http://)" :
			       "";
	default:
		return "";
	}
}

/* 0 and a status below 300, ABSENT for 404, FULL for 507, or IO with a sentence. */
static int ask(struct rest *rest, const char *path, struct request *r)
{
	const uint64_t began = g4_clock_ns(CLOCK_MONOTONIC);
	uint64_t wait = FIRST_WAIT_NS;
	CURLcode code;

	for (;;) {
		code = perform(rest, path, r);
		pthread_mutex_lock(&rest->mutex);
		rest->spoken = rest->spoken || code == CURLE_OK;
		const bool known = rest->spoken;
		pthread_mutex_unlock(&rest->mutex);
		if (!known || !worth_trying_again(code, r->status) ||
		    g4_clock_ns(CLOCK_MONOTONIC) - began > PATIENCE_NS)
			break;
		const struct timespec pause = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
		nanosleep(&pause, NULL);
		ask_received(rest, path, r);
		wait = g4_min64(2 * wait, LAST_WAIT_NS);
	}
	if (code == CURLE_SSL_PINNEDPUBKEYNOTMATCH)
		return store_fail(STORE_E_IO, "%s: the site has another key than --site-key says; it is not used",
				  rest->base.path);
	if (r->no_list)
		return store_fail(STORE_E_IO, "%s sends no list of version 2 for %s", rest->base.path, path);
	if (code == CURLE_WRITE_ERROR)
		return store_fail(STORE_E_DAMAGED, "%s sends more than it was asked for (%s)", rest->base.path, path);
	if (code != CURLE_OK)
		return store_fail(STORE_E_IO, "%s: %s%s", rest->base.path, curl_easy_strerror(code),
				  advice(rest, code));
	if (r->status == 404)
		return store_fail(STORE_E_ABSENT, "%s has no %s", rest->base.path, path);
	if (r->status < 200 || r->status >= 300)
		return store_fail(r->status == 507 ? STORE_E_FULL : STORE_E_IO, "%s refuses %s %s: status %ld%s%s",
				  rest->base.path, r->method, path, r->status, r->answer[0] != 0 ? ", " : "",
				  r->answer);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------ operations */

static void path_of(enum store_kind kind, const struct store_id *name, char path[96])
{
	char hex[STORE_HEX_BYTES];

	if (kind == STORE_CONFIG)
		snprintf(path, 96, "config");
	else
		snprintf(path, 96, "%s/%s", store_rest_type(kind), store_hex(name, hex));
}

static int rest_size(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t *bytes)
{
	struct request r = {.method = "HEAD"};
	char path[96];

	path_of(kind, name, path);
	const int rc = ask((struct rest *)b, path, &r);
	if (rc == 0 && r.length < 0)
		return store_fail(STORE_E_IO, "%s does not tell the size of %s", b->path, path);
	*bytes = rc == 0 ? (uint64_t)r.length : 0;
	return rc;
}

/* A request that gives a file its name, or removes one. */
static int change(struct rest *rest, const char *path, struct request *r)
{
	store_gate_enter();
	const int rc = ask(rest, path, r);
	store_gate_leave();
	return rc;
}

static int rest_put(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		    size_t bytes)
{
	struct request r = {.method = "POST", .send = (const uint8_t *)data, .send_bytes = bytes};
	char path[96], text[STORE_TEXT_BYTES];
	uint64_t there;

	path_of(kind, name, path);
	const int rc = change((struct rest *)b, path, &r);
	if (rc == 0 || r.status != 403 || kind == STORE_CONFIG)
		return rc;
	/* some servers refuse what they have: after a cut connection it may be ours, and a name has one content */
	snprintf(text, sizeof(text), "%s", store_message());
	if (rest_size(b, kind, name, &there) == 0 && there == bytes)
		return 0;
	return store_fail(rc, "%s", text);
}

static int rest_get(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		    void *to, size_t bytes)
{
	struct request r = {.method = "GET", .to = (uint8_t *)to, .room = bytes};
	char path[96], range[64];

	if (bytes == 0)
		return 0;
	path_of(kind, name, path);
	snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)offset,
		 (unsigned long long)(offset + bytes - 1));
	r.range = range;
	const int rc = ask((struct rest *)b, path, &r);
	if (rc == STORE_E_IO && r.status == 416)
		return store_fail(STORE_E_DAMAGED, "%s/%s is shorter than it was", b->path, path);
	if (rc != 0)
		return rc;
	if (r.status != 206 && offset != 0)
		return store_fail(STORE_E_IO, "%s does not send parts of files", b->path);
	if (r.have != bytes)
		return store_fail(STORE_E_DAMAGED, "%s/%s is shorter than it was", b->path, path);
	return 0;
}

/* With a GET, since a refusal of HEAD has no words. */
static int rest_open(struct store_backend *b)
{
	const struct store_id none = {{0}};
	uint8_t first;
	const int rc = rest_get(b, STORE_CONFIG, &none, 0, &first, 1);

	return rc == STORE_E_ABSENT ? store_fail(STORE_E_NO_STORE, "%s: there is no repository here", b->path) : rc;
}

static int rest_create(struct store_backend *b)
{
	struct request r = {.method = "POST"};
	const struct store_id none = {{0}};
	uint8_t first;
	const int rc = rest_get(b, STORE_CONFIG, &none, 0, &first, 1);

	if (rc == 0)
		return store_fail(STORE_E_EXISTS, "%s: there is a repository already", b->path);
	return rc == STORE_E_ABSENT ? ask((struct rest *)b, "?create=true", &r) : rc;
}

/*
 * A site of ours takes what has the right name in the place of what has not; other servers may keep what they have, so what they have is looked
 * at. It is never removed before: what would be lost is all that there is to mend.
 */
static int rest_replace(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
			size_t bytes)
{
	struct request r = {.method = "POST", .send = (const uint8_t *)data, .send_bytes = bytes};
	char path[96];
	uint64_t there = 0;

	path_of(kind, name, path);
	const int rc = change((struct rest *)b, path, &r);
	if (rc != 0 && r.status != 403)
		return rc;
	bool same = rest_size(b, kind, name, &there) == 0 && there == bytes;
	if (same) {
		uint8_t *found = (uint8_t *)store_alloc(bytes);

		same = rest_get(b, kind, name, 0, found, bytes) == 0 && memcmp(found, data, bytes) == 0;
		free(found);
	}
	return same ? 0 : store_fail(STORE_E_INVAL, "%s keeps %s as it is", b->path, path);
}

static int rest_list(struct store_backend *b, enum store_kind kind, store_list_fn *each, void *user)
{
	struct store_rest_list list = {.most = LIST_BYTES_MAX};
	struct request r = {.method = "GET", .list = &list};
	char path[96];

	snprintf(path, sizeof(path), "%s/", store_rest_type(kind));
	int rc = ask((struct rest *)b, path, &r);
	if (rc == STORE_E_ABSENT)
		rc = 0; /* an object store has no empty folders */
	else if (rc == 0 && (rc = store_rest_list_end(&list, each, user)) == STORE_E_INVAL)
		rc = store_fail(STORE_E_IO, "%s sends no list of version 2 for %s", b->path, path);
	store_rest_list_free(&list);
	return rc;
}

static int rest_remove(struct store_backend *b, enum store_kind kind, const struct store_id *name)
{
	struct request r = {.method = "DELETE"};
	char path[96];

	path_of(kind, name, path);
	const int rc = change((struct rest *)b, path, &r);
	/* whatever the name: cli_may_remove() asks with one that is nobody's */
	if (rc == STORE_E_IO && r.status == 403 && kind != STORE_LOCK)
		return store_fail(rc, "%s refuses to remove or replace snapshots, keys and packs: status 403%s%s",
				  b->path, r.answer[0] != 0 ? ", " : "", r.answer);
	return rc == STORE_E_ABSENT ? 0 : rc;
}

/* A site of ours answers a removal when it is durable; of other servers nobody can ask it. */
static int rest_settle(struct store_backend *b, enum store_kind kind)
{
	(void)b;
	(void)kind;
	return 0;
}

/* What puts leave that never ended is the server's to remove. */
static int rest_clean(struct store_backend *b)
{
	(void)b;
	return 0;
}

static void rest_close(struct store_backend *b)
{
	struct rest *rest = (struct rest *)b;

	while (rest->lines != NULL) {
		struct line *next = rest->lines->next;

		curl_easy_cleanup(rest->lines->curl);
		free(rest->lines);
		rest->lines = next;
	}
	pthread_mutex_destroy(&rest->mutex);
	free(rest->url);
	free(rest->identity);
	free(rest->site_key);
	free(b->path);
	free(b);
}

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

int store_backend_rest(const struct store_place *place, struct store_backend **out)
{
	static const struct store_backend_ops ops = {.remote = true,
						     .create = rest_create,
						     .open = rest_open,
						     .put = rest_put,
						     .get = rest_get,
						     .size = rest_size,
						     .list = rest_list,
						     .replace = rest_replace,
						     .remove = rest_remove,
						     .settle = rest_settle,
						     .clean = rest_clean,
						     .close = rest_close};
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *url = place->path + strlen(STORE_REST_PREFIX);

	if ((strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0) || strlen(url) >= URL_BYTES)
		return store_fail(STORE_E_INVAL, "'%s' is no address as in rest:https://HOST:PORT/NAME", place->path);
	pthread_once(&once, init_curl);
	struct rest *rest = (struct rest *)store_alloc(sizeof(*rest));
	rest->base.ops = &ops;
	rest->url = (char *)store_alloc(strlen(url) + 2);
	sprintf(rest->url, "%s%s", url, url[strlen(url) - 1] == '/' ? "" : "/");
	rest->base.path = store_rest_shown(place->path);
	rest->identity = place->identity != NULL ? store_strdup(place->identity) : NULL;
	rest->site_key = place->site_key != NULL ? store_strdup(place->site_key) : NULL;
	rest->up.limit = place->upload_limit;
	rest->down.limit = place->download_limit;
	pthread_mutex_init(&rest->mutex, NULL);
	*out = &rest->base;
	return 0;
}

#else

int store_backend_rest(const struct store_place *place, struct store_backend **out)
{
	(void)out;
	return store_fail(STORE_E_INVAL, "%s: this shredder was built without libcurl, and has no remote repositories",
			  place->path);
}

#endif
