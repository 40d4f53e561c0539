/* SPDX-License-Identifier: Apache-2.0 */
/* Protection, names, keys from passwords, compression: FORMAT.md, sections 2 and 3. */
#ifndef SHREDDER_STORE_CRYPTO_H
#define SHREDDER_STORE_CRYPTO_H

#include "store/store.h"

/* What protection adds at most. */
#define STORE_PROTECTION_BYTES 40
#define STORE_SALT_BYTES 16

/* Once before anything else here. */
int store_crypto_init(void);
void store_random(void *to, size_t bytes);
void store_wipe(void *memory, size_t bytes);

/* Bytes that protection adds. */
size_t store_protection_bytes(bool encrypted);
/* key == NULL: not encrypted. Writes bytes + store_protection_bytes() to `out`. Thread-safe. */
void store_protect(const uint8_t *key, const void *associated, size_t associated_bytes, const void *data, size_t bytes,
		   uint8_t *out);
/* Opens `bytes` protected ones into `out`, which has room for bytes - store_protection_bytes(). False: they are not what was protected. */
bool store_unprotect(const uint8_t *key, const void *associated, size_t associated_bytes, const uint8_t *protected_data,
		     size_t bytes, uint8_t *out);

/* The three keys from s->master. */
void store_derive(struct store *s);
/* Argon2id. INVAL beyond the limits of FORMAT.md; IO when memory is short. */
int store_password_key(const char *password, const uint8_t salt[STORE_SALT_BYTES], uint32_t passes, uint32_t memory_kib,
		       uint8_t key[STORE_KEY_BYTES]);
void store_file_secret_key(const uint8_t *data, size_t bytes, const uint8_t salt[STORE_SALT_BYTES],
			   uint8_t key[STORE_KEY_BYTES]);

/* A blob's id from the BLAKE3-256 of its bytes. */
void store_name_blob(const struct store *s, enum store_blob_type type, const uint8_t digest[32], struct store_id *id);
void store_digest(const void *data, size_t bytes, uint8_t digest[32]);
/* 8 bytes that tell whether two texts of one kind are equal, and without the key no more: FORMAT.md, section 9. */
#define STORE_MARK_BYTES 8
void store_mark_text(const struct store *s, const char *kind, const char *text, uint8_t mark[STORE_MARK_BYTES]);

/* A thread's compressor. */
struct store_codec {
	void *compressor, *decompressor;
	int level;
	struct store_buf plain; /* what is protected or was unprotected */
};
void store_codec_init(struct store_codec *codec, int level);
void store_codec_free(struct store_codec *codec);
int store_level_min(void);
int store_level_max(void);

/* Appends the stored form of a blob to `out`. */
void store_blob_protect(const struct store *s, struct store_codec *codec, enum store_blob_type type,
			const struct store_id *id, const void *data, size_t bytes, struct store_buf *out);
/* Opens one into `out`, which gets raw_bytes bytes; its id is compared with what it holds. DAMAGED. */
int store_blob_unprotect(const struct store *s, struct store_codec *codec, enum store_blob_type type,
			 const struct store_id *id, const uint8_t *stored, size_t stored_bytes, uint64_t raw_bytes,
			 struct store_buf *out);

/*
 * A group: blobs one after the other, compressed and protected as one. What it holds is compared with ids when a blob of it is read.
 */
void store_group_protect(const struct store *s, struct store_codec *codec, const void *data, size_t bytes,
			 struct store_buf *out);
int store_group_unprotect(const struct store *s, struct store_codec *codec, const uint8_t *stored, size_t stored_bytes,
			  struct store_buf *out);
/* These bytes are what `id` names; else DAMAGED. */
int store_blob_verify(const struct store *s, enum store_blob_type type, const struct store_id *id, const void *data,
		      size_t bytes);

/* method | raw length | data, compressed when that is shorter. */
void store_body_pack(const struct store_buf *body, struct store_buf *out);
int store_body_unpack(const uint8_t *data, size_t bytes, struct store_buf *body);

#endif
