/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a repository's files lie. A backend knows no keys and no formats. It promises: put() makes a file appear whole and
 * durable, or not at all; files never change; what was put is listed.
 */
#ifndef SHREDDER_STORE_BACKEND_H
#define SHREDDER_STORE_BACKEND_H

#include "store/store.h"

/* Anything but 0 ends the listing, which gives it. */
typedef int store_list_fn(void *user, const struct store_id *name, uint64_t bytes);

struct store_incoming; /* each backend's own */

struct store_backend_ops {
	bool remote; /* IO may be the connection's fault, and then it is all files' */
	/* Makes the folders. EXISTS when there is a config. */
	int (*create)(struct store_backend *b);
	/* NO_STORE when there is none. */
	int (*open)(struct store_backend *b);
	/* `name` is of no matter for CONFIG. A name that is there already has the same bytes: nothing happens. */
	int (*put)(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		   size_t bytes);
	/*
	 * The same of a file that comes in pieces and has its name at the end; name == NULL: it is given up. end() frees `in`. begin == NULL:
	 * this backend takes whole files only (upload.h).
	 */
	int (*begin)(struct store_backend *b, struct store_incoming **in);
	int (*add)(struct store_backend *b, struct store_incoming *in, const void *data, size_t bytes);
	int (*end)(struct store_backend *b, struct store_incoming *in, enum store_kind kind,
		   const struct store_id *name);
	/* Exactly `bytes` bytes from `offset`; ABSENT, DAMAGED when the file is shorter. */
	int (*get)(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		   void *to, size_t bytes);
	int (*size)(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t *bytes);
	/* Names that are none are left out. Any order. */
	int (*list)(struct store_backend *b, enum store_kind kind, store_list_fn *each, void *user);
	/*
	 * Puts what a file of that name should be in the place of what it is, whole or not at all. NULL, or INVAL: that cannot be done
	 * from here.
	 */
	int (*replace)(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		       size_t bytes);
	/* What is not there is no error. A crash may bring it back until settle(). */
	int (*remove)(struct store_backend *b, enum store_kind kind, const struct store_id *name);
	/* What was removed of a kind, by whomever, stays removed. */
	int (*settle)(struct store_backend *b, enum store_kind kind);
	/* Removes what puts that never ended have left, not what others write at the moment. */
	int (*clean)(struct store_backend *b);
	void (*close)(struct store_backend *b);
};

/* All functions may be called by several threads at a time. */
struct store_backend {
	const struct store_backend_ops *ops;
	char *path; /* what messages call it */
};

/* A directory of this machine. */
struct store_backend *store_backend_local(const char *path);
/* Of such a one: a file's descriptor, which the caller closes, and its size. ABSENT. */
int store_local_open_file(struct store_backend *b, enum store_kind kind, const struct store_id *name, int *fd,
			  uint64_t *bytes);

/* One behind restic's REST protocol. INVAL: the address is none, or this program cannot do that. */
int store_backend_rest(const struct store_place *place, struct store_backend **out);
/* One of both. */
int store_backend_at(const struct store_place *place, struct store_backend **out);

/* All names of a kind, sorted; the caller frees *names. */
struct store_listed {
	struct store_id name; /* first: store_id_order() */
	uint64_t bytes;
};
int store_list_all(struct store_backend *b, enum store_kind kind, struct store_listed **names, size_t *count);
/* The one name of a kind that begins with `text`. NONE: there is none, or several. */
int store_find_name(struct store_backend *b, enum store_kind kind, const char *text, struct store_id *name);

#endif
