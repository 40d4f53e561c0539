/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository of backups: FORMAT.md says every byte of it and why. From below:
 *
 *	bytes.h     buffers that grow, and parsing that cannot read past an end
 *	crypto.h    keys, protection, names, compression
 *	backend.h   where files lie; a file appears whole or not at all
 *	store.h     this: errors, opening, protected files, locks
 *	index.h     where blobs lie; index files (table.h); the layout of packs (pack.h)
 *	mend.h      what is damaged, mended while it is read (pack_parity.h)
 *	blob.h      reading blobs; packer.h writes them, group.h collects small ones
 *	tree.h      directories and snapshots
 *	backup.h, restore.h, maintain.h   what the commands do
 *
 * Errors: functions give 0 or a negative code and leave a sentence for their thread, store_message(). A thread that hands a failure to
 * another copies the sentence.
 *
 * Memory: what cannot be allocated ends the process after a sentence (store_alloc()). That is as safe as being killed, which every
 * step here must survive anyway, and no step has to survive anything else.
 *
 * Threads: an open repository may be used by several; index.h says what it locks.
 */
#ifndef SHREDDER_STORE_H
#define SHREDDER_STORE_H

#include "base/base.h"
#include "store/bytes.h"
#include <shredder/shredder.h>

#define STORE_VERSION 5
/* From which on all files but locks have parity, not packs alone. */
#define STORE_VERSION_PARITY 3
/* From which on a sector that is lost takes no short file along (pack_parity.h). */
#define STORE_VERSION_APART 4
/* From which on snapshots name owners (owners.h). */
#define STORE_VERSION_OWNERS 4
/* From which on entries may have access times. */
#define STORE_VERSION_ATIME 5
#define STORE_ID_BYTES 32
#define STORE_HEX_BYTES (2 * STORE_ID_BYTES + 1)
#define STORE_KEY_BYTES 32
#define STORE_PREFIX_BYTES 16
/* What a blob can be, and what the body of a file can be, before compression. */
#define STORE_BLOB_MAX (64 * G4_MIB)
#define STORE_BODY_MAX G4_GIB
#define STORE_PACK_MAX G4_GIB
#define STORE_GROUP_MAX (4 * G4_MIB) /* what one group holds */
#define STORE_PARITY_MOST 4
#define STORE_TEXT_BYTES 1024

/* X(NAME, number, sentence) */
#define STORE_ERRORS(X)                                                                                                \
	X(IO, 1, "an input or output error")                                                                           \
	X(ABSENT, 2, "a file of the repository is missing")                                                            \
	X(DAMAGED, 3, "a file of the repository is damaged")                                                           \
	X(VERSION, 4, "the repository is of a newer version")                                                          \
	X(NO_STORE, 5, "there is no repository")                                                                       \
	X(EXISTS, 6, "there is a repository already")                                                                  \
	X(PASSWORD, 7, "wrong password or key file")                                                                   \
	X(LOCKED, 8, "the repository is locked")                                                                       \
	X(INVAL, 9, "invalid argument")                                                                                \
	X(NO_BLOB, 10, "the index does not know a blob")                                                               \
	X(NONE, 11, "nothing matches")                                                                                 \
	X(CHUNKER, 12, "the chunker failed")                                                                           \
	X(STOPPED, 13, "stopped")                                                                                      \
	X(FULL, 14, "there is no room left")

enum store_code {
#define STORE_ERROR_ENUM(name, number, sentence) STORE_E_##name = -(number),
	STORE_ERRORS(STORE_ERROR_ENUM)
#undef STORE_ERROR_ENUM
};

/* Notes a sentence for this thread and gives `code`. */
__attribute__((format(printf, 2, 3))) int store_fail(int code, const char *format, ...);
/* This thread's last sentence. */
const char *store_message(void);

struct store_id {
	uint8_t bytes[STORE_ID_BYTES];
};
static inline bool store_id_equal(const struct store_id *a, const struct store_id *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}
/* For qsort() and bsearch() of names, and of what begins with one. */
static inline int store_id_order(const void *a, const void *b)
{
	return memcmp(a, b, STORE_ID_BYTES);
}
/* Returns text. */
const char *store_hex(const struct store_id *id, char text[STORE_HEX_BYTES]);
/* False: these are not 64 lower-case digits. */
bool store_unhex(const char *text, struct store_id *id);

/* X(NAME, number, folder, what a sentence calls it) */
#define STORE_KINDS(X)                                                                                                 \
	X(CONFIG, 1, "config", "the configuration")                                                                    \
	X(KEY, 2, "keys", "key")                                                                                       \
	X(PACK, 3, "packs", "pack")                                                                                    \
	X(INDEX, 4, "index", "index file")                                                                             \
	X(SNAPSHOT, 5, "snapshots", "snapshot")                                                                        \
	X(LOCK, 6, "locks", "lock")
enum store_kind {
#define STORE_KIND_ENUM(name, number, folder, what) STORE_##name = (number),
	STORE_KINDS(STORE_KIND_ENUM)
#undef STORE_KIND_ENUM
};
const char *store_kind_name(enum store_kind kind);
/* What a sentence calls it. */
const char *store_kind_word(enum store_kind kind);

enum store_blob_type { STORE_DATA = 1, STORE_TREE = 2 };

struct store_backend;
struct store_index;
struct store_groups;
struct store_mends;
struct store_lock;

/* Constant after opening, but for what the pointers lead to, and parity where it is changed (parity_change.c). */
struct store {
	struct store_backend *backend;
	uint32_t version; /* of the format, of all its files */
	uint32_t parity;  /* that new packs get */
	bool encrypted;
	uint8_t master[STORE_KEY_BYTES];
	uint8_t file_key[STORE_KEY_BYTES], blob_key[STORE_KEY_BYTES], name_key[STORE_KEY_BYTES];
	struct store_id key_name; /* of the key file that opened it; encrypted only */
	uint8_t key_digest[32];	  /* of what is in it before parity; zeros: it was made, not opened */
	uint8_t uuid[16];
	int64_t created;
	struct shredder_params params;
	struct store_index *index; /* NULL until store_index_load() */
	struct store_groups *groups;
	struct store_mends *mends;
	uint64_t index_bytes; /* of memory for entries, set before loading; 0: STORE_INDEX_BYTES */
	struct store_lock *lock;
};

/* Where a repository is. */
struct store_place {
	const char *path;     /* a directory, or "rest:https://HOST:PORT/NAME" */
	const char *identity; /* remote ones: a file with this client's key and certificate; NULL: none */
	const char *
		site_key; /* and the only key that the site may have, "sha256//..."; NULL: a certificate as browsers take it */
	uint64_t upload_limit, download_limit; /* remote ones: bytes a second, of all requests together; 0: none */
};
#define STORE_REST_PREFIX "rest:"
/* The least limit: below it, a request would be silent for so long that it looks broken. */
#define STORE_LIMIT_MIN (UINT64_C(16) * 1024)

/* What opens or makes a key: one of both. */
struct store_secret {
	const char *password; /* NULL: none */
	const uint8_t *key;   /* contents of a key file; NULL: none */
	size_t key_bytes;
};

/*
 * secret == NULL: no encryption. params: where to cut; NULL: secret and random with encryption, else the library's. Makes folders as
 * needed; EXISTS.
 */
int store_create(const struct store_place *place, const struct store_secret *secret,
		 const struct shredder_params *params, struct store **out);
/* The same with what is otherwise chosen. */
struct store_form {
	uint32_t version; /* 1 to STORE_VERSION */
	uint32_t parity;  /* behind packs, and from version 3 on other files: 0 to STORE_PARITY_MOST; 0 in version 1 */
};
int store_create_as(const struct store_place *place, const struct store_secret *secret,
		    const struct shredder_params *params, const struct store_form *form, struct store **out);
/* Of a repository that is being made: its configuration, last of all files. */
int store_config_put(struct store *s);
/* What the configuration says now. */
int store_config_get(struct store *s);
/* New files get this much parity from now on, whoever writes them. INVAL: not from here. Files that are there: store_parity_set() (maintain.h). */
int store_config_parity(struct store *s, uint32_t parity);
/*
 * `ask` is called when the repository turns out to be there and encrypted; it gives 0 and fills *secret, or fails. NULL: a repository
 * without encryption is wanted. The other kind is refused either way: the repository's host could have put another
 * `config` in the place of the encrypted one, and the next backup would be in the clear.
 */
typedef int store_ask_fn(void *user, struct store_secret *secret);
int store_open(const struct store_place *place, store_ask_fn *ask, void *user, struct store **out);
/* Of a backend that is made already; it goes with the repository, after a failure, too. */
int store_open_backend(struct store_backend *backend, store_ask_fn *ask, void *user, struct store **out);
/* Gives the lock back, if there is one. NULL is allowed. */
void store_close(struct store *s);

/* ---- protected files */
/* The bytes of a file of that kind, which the caller frees, and its name; config's is zeros. */
int store_file_make(struct store *s, enum store_kind kind, const struct store_buf *body, struct store_buf *out,
		    struct store_id *name);
/* Writes one and gives its name. */
int store_file_put(struct store *s, enum store_kind kind, const struct store_buf *body, struct store_id *name);
/* Puts a configuration with this body in the place of the one that is there, whole or not at all. */
int store_config_replace(struct store *s, const struct store_buf *body);
/* Reads, authenticates and decompresses one; `body` is the caller's to free. */
int store_file_get(struct store *s, enum store_kind kind, const struct store_id *name, struct store_buf *body);
/* The bytes of a whole file, its parity with them, whose name was compared with them; prefix checked. */
int store_raw_get(struct store_backend *backend, enum store_kind kind, const struct store_id *name,
		  struct store_buf *bytes);
/* The same without its parity, by which it is mended first if it must be. Of files that are no packs. */
int store_own_get(struct store *s, enum store_kind kind, const struct store_id *name, struct store_buf *bytes);
/* "snapshot 0123456789abcdef"; returns text. */
const char *store_describe(enum store_kind kind, const struct store_id *name, char text[80]);
/* Checks a prefix and tells its version and whether the file is encrypted. */
int store_prefix_check(const uint8_t *prefix, enum store_kind kind, const char *what, uint32_t *version,
		       bool *encrypted);
void store_prefix_make(uint8_t prefix[STORE_PREFIX_BYTES], enum store_kind kind, uint32_t version, bool encrypted);

/* ---- keys */
struct store_key_info {
	struct store_id name;
	uint32_t kdf;
	int64_t created;
	char label[65];
	bool current;
};
int store_key_add(struct store *s, const struct store_secret *secret, struct store_id *name);
int store_key_list(struct store *s, struct store_key_info **list, size_t *count);
/* Another one instead of that which opened the repository: it is there before the old one goes, so a crash leaves both. PASSWORD: that is gone. */
int store_key_replace(struct store *s, const struct store_secret *secret, struct store_id *name);
/* Looks where the key is that opened the repository: a change of parity gives it another name. One that is gone keeps its old name. */
int store_key_again(struct store *s);
/* With what a change of parity that was cut off has left of it. Refuses the last one. */
int store_key_remove(struct store *s, const struct store_id *name);

/* ---- locks */
struct store_lock_info {
	struct store_id name;
	bool exclusive;
	int64_t time;
	uint64_t process;
	char host[65], user[65];
	bool dead; /* of this host and its process is gone */
};
/* What a lock says. */
int store_lock_get(struct store *s, const struct store_id *name, struct store_lock_info *info);
/*
 * One lock at a time; kept alive by a thread of its own until store_unlock(). LOCKED. The configuration and, with an exclusive lock, the key's name
 * are what they are now.
 */
int store_lock(struct store *s, bool exclusive);
void store_unlock(struct store *s);
/*
 * The process is about to end: from here on only the caller changes a repository, and all locks are given back, unless a change of somebody does not
 * end in 10 seconds. Others stop where they would change something.
 */
void store_locks_end(void);
/* Removes dead ones and those older than 30 minutes of which nobody can tell here, as of other hosts, or all. An error: of the first that stays for it. */
int store_locks_clear(struct store *s, bool all, uint64_t *removed, uint64_t *left);

/* Nanoseconds of wall-clock time. */
struct store_time {
	int64_t seconds;
	uint32_t ns;
};
struct store_time store_now(void);
void store_host(char host[65]);
/* Which namespace's processes this one sees; 0: the machine's. Containers of one name have one each. */
uint64_t store_process_space(void);
void store_user(char user[65]);

#endif
