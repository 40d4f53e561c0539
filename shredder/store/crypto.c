/* SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>
#include <stdlib.h>
#include <zstd.h>

#include "hash/blake3.h"
#include "store/crypto.h"

#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES crypto_aead_xchacha20poly1305_ietf_ABYTES
#define CHECK_BYTES 16
#define BODY_HEAD_BYTES 9
#define BODY_LEVEL 3
enum { METHOD_PLAIN = 0, METHOD_ZSTD = 1 };

G4_STATIC_ASSERT(NONCE_BYTES + TAG_BYTES == STORE_PROTECTION_BYTES, "FORMAT.md says 40");

int store_crypto_init(void)
{
	return sodium_init() < 0 ? store_fail(STORE_E_IO, "the system gives no random numbers") : 0;
}

void store_random(void *to, size_t bytes)
{
	randombytes_buf(to, bytes);
}

void store_wipe(void *memory, size_t bytes)
{
	sodium_memzero(memory, bytes);
}

/* ------------------------------------------------------------------------------------------------------- protection */

size_t store_protection_bytes(bool encrypted)
{
	return encrypted ? STORE_PROTECTION_BYTES : CHECK_BYTES;
}

static void make_check(const void *associated, size_t associated_bytes, const void *data, size_t bytes,
		       uint8_t check[CHECK_BYTES])
{
	struct g4_blake3 hash;
	uint8_t digest[G4_BLAKE3_BYTES];

	g4_blake3_init(&hash);
	g4_blake3_update(&hash, associated, associated_bytes);
	g4_blake3_update(&hash, data, bytes);
	g4_blake3_final(&hash, digest);
	memcpy(check, digest, CHECK_BYTES);
}

void store_protect(const uint8_t *key, const void *associated, size_t associated_bytes, const void *data, size_t bytes,
		   uint8_t *out)
{
	if (key == NULL) {
		memcpy(out, data, bytes);
		make_check(associated, associated_bytes, data, bytes, out + bytes);
		return;
	}
	randombytes_buf(out, NONCE_BYTES);
	crypto_aead_xchacha20poly1305_ietf_encrypt(out + NONCE_BYTES, NULL, (const uint8_t *)data, bytes,
						   (const uint8_t *)associated, associated_bytes, NULL, out, key);
}

bool store_unprotect(const uint8_t *key, const void *associated, size_t associated_bytes, const uint8_t *protected_data,
		     size_t bytes, uint8_t *out)
{
	uint8_t check[CHECK_BYTES];

	if (bytes < store_protection_bytes(key != NULL))
		return false;
	if (key != NULL)
		return crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, protected_data + NONCE_BYTES,
								  bytes - NONCE_BYTES, (const uint8_t *)associated,
								  associated_bytes, protected_data, key) == 0;
	make_check(associated, associated_bytes, protected_data, bytes - CHECK_BYTES, check);
	if (memcmp(check, protected_data + bytes - CHECK_BYTES, CHECK_BYTES) != 0)
		return false;
	memcpy(out, protected_data, bytes - CHECK_BYTES);
	return true;
}

/* ---------------------------------------------------------------------------------------------------------- keys */

static void derive(const uint8_t master[STORE_KEY_BYTES], const char *label, uint8_t key[STORE_KEY_BYTES])
{
	g4_blake3_keyed(master, label, strlen(label), key);
}

void store_derive(struct store *s)
{
	derive(s->master, "shredder store 1 files", s->file_key);
	derive(s->master, "shredder store 1 blobs", s->blob_key);
	derive(s->master, "shredder store 1 names", s->name_key);
}

int store_password_key(const char *password, const uint8_t salt[STORE_SALT_BYTES], uint32_t passes, uint32_t memory_kib,
		       uint8_t key[STORE_KEY_BYTES])
{
	G4_STATIC_ASSERT(STORE_SALT_BYTES == crypto_pwhash_argon2id_SALTBYTES, "FORMAT.md says 16");
	if (passes < 1 || passes > 64 || memory_kib < 8 || memory_kib > 1024 * 1024)
		return store_fail(STORE_E_INVAL, "a key file asks for more work than is allowed");
	if (crypto_pwhash_argon2id(key, STORE_KEY_BYTES, password, strlen(password), salt, passes,
				   (size_t)memory_kib * 1024, crypto_pwhash_argon2id_ALG_ARGON2ID13) != 0)
		return store_fail(STORE_E_IO, "there is not enough memory to turn the password into a key (%u KiB)",
				  memory_kib);
	return 0;
}

void store_file_secret_key(const uint8_t *data, size_t bytes, const uint8_t salt[STORE_SALT_BYTES],
			   uint8_t key[STORE_KEY_BYTES])
{
	uint8_t digest[G4_BLAKE3_BYTES];

	g4_blake3(data, bytes, digest);
	g4_blake3_keyed(digest, salt, STORE_SALT_BYTES, key);
	store_wipe(digest, sizeof(digest));
}

void store_digest(const void *data, size_t bytes, uint8_t digest[32])
{
	g4_blake3(data, bytes, digest);
}

void store_mark_text(const struct store *s, const char *kind, const char *text, uint8_t mark[STORE_MARK_BYTES])
{
	uint8_t digest[G4_BLAKE3_BYTES];
	struct store_buf input = {0};

	store_buf_add(&input, kind, strlen(kind) + 1);
	store_buf_add(&input, text, strlen(text));
	if (s->encrypted)
		g4_blake3_keyed(s->name_key, input.data, input.size, digest);
	else
		g4_blake3(input.data, input.size, digest);
	memcpy(mark, digest, STORE_MARK_BYTES);
	store_buf_free(&input);
}

void store_name_blob(const struct store *s, enum store_blob_type type, const uint8_t digest[32], struct store_id *id)
{
	uint8_t input[1 + G4_BLAKE3_BYTES];

	input[0] = (uint8_t)type;
	memcpy(input + 1, digest, G4_BLAKE3_BYTES);
	if (s->encrypted)
		g4_blake3_keyed(s->name_key, input, sizeof(input), id->bytes);
	else
		g4_blake3(input, sizeof(input), id->bytes);
}

/* --------------------------------------------------------------------------------------------------- compression */

void store_codec_init(struct store_codec *codec, int level)
{
	memset(codec, 0, sizeof(*codec));
	codec->level = level;
}

void store_codec_free(struct store_codec *codec)
{
	ZSTD_freeCCtx((ZSTD_CCtx *)codec->compressor);
	ZSTD_freeDCtx((ZSTD_DCtx *)codec->decompressor);
	store_buf_free(&codec->plain);
	memset(codec, 0, sizeof(*codec));
}

int store_level_min(void)
{
	return ZSTD_minCLevel();
}

int store_level_max(void)
{
	return ZSTD_maxCLevel();
}

static ZSTD_CCtx *compressor(struct store_codec *codec)
{
	if (codec->compressor == NULL && (codec->compressor = ZSTD_createCCtx()) == NULL)
		store_alloc(SIZE_MAX);
	return (ZSTD_CCtx *)codec->compressor;
}

static ZSTD_DCtx *decompressor(struct store_codec *codec)
{
	if (codec->decompressor == NULL && (codec->decompressor = ZSTD_createDCtx()) == NULL)
		store_alloc(SIZE_MAX);
	return (ZSTD_DCtx *)codec->decompressor;
}

static void blob_associated(enum store_blob_type type, const struct store_id *id, uint8_t associated[33])
{
	associated[0] = (uint8_t)type;
	memcpy(associated + 1, id, STORE_ID_BYTES);
}

/* Into `to`, which has room for `bytes`; gives what there is. */
static size_t compress(struct store_codec *codec, int level, const void *data, size_t bytes, uint8_t *method,
		       uint8_t *to)
{
	/* room for less than the data: what does not get smaller ends early */
	const size_t packed = bytes < 2 ? 0 : ZSTD_compressCCtx(compressor(codec), to, bytes - 1, data, bytes, level);

	if (packed != 0 && !ZSTD_isError(packed)) {
		*method = METHOD_ZSTD;
		return packed;
	}
	*method = METHOD_PLAIN;
	memcpy(to, data, bytes);
	return bytes;
}

static bool decompress(struct store_codec *codec, uint8_t method, const uint8_t *data, size_t bytes, uint8_t *to,
		       size_t raw_bytes)
{
	if (method == METHOD_PLAIN && bytes == raw_bytes) {
		memcpy(to, data, raw_bytes);
		return true;
	}
	return method == METHOD_ZSTD &&
	       ZSTD_decompressDCtx(decompressor(codec), to, raw_bytes, data, bytes) == raw_bytes;
}

int store_blob_verify(const struct store *s, enum store_blob_type type, const struct store_id *id, const void *data,
		      size_t bytes)
{
	uint8_t digest[G4_BLAKE3_BYTES];
	char hex[STORE_HEX_BYTES];
	struct store_id found;

	g4_blake3(data, bytes, digest);
	store_name_blob(s, type, digest, &found);
	return store_id_equal(&found, id) ?
		       0 :
		       store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it holds something else",
				  store_hex(id, hex));
}

void store_blob_protect(const struct store *s, struct store_codec *codec, enum store_blob_type type,
			const struct store_id *id, const void *data, size_t bytes, struct store_buf *out)
{
	uint8_t associated[1 + STORE_ID_BYTES];

	codec->plain.size = 0;
	uint8_t *plain = store_buf_reserve(&codec->plain, 1 + bytes);
	const size_t packed = compress(codec, codec->level, data, bytes, plain, plain + 1);
	blob_associated(type, id, associated);
	uint8_t *to = store_buf_reserve(out, 1 + packed + STORE_PROTECTION_BYTES);
	store_protect(s->encrypted ? s->blob_key : NULL, associated, sizeof(associated), plain, 1 + packed, to);
	out->size += 1 + packed + store_protection_bytes(s->encrypted);
}

int store_blob_unprotect(const struct store *s, struct store_codec *codec, enum store_blob_type type,
			 const struct store_id *id, const uint8_t *stored, size_t stored_bytes, uint64_t raw_bytes,
			 struct store_buf *out)
{
	const size_t overhead = store_protection_bytes(s->encrypted);
	uint8_t associated[1 + STORE_ID_BYTES];
	char hex[STORE_HEX_BYTES];

	blob_associated(type, id, associated);
	codec->plain.size = 0;
	out->size = 0;
	if (stored_bytes <= overhead || raw_bytes == 0 || raw_bytes > STORE_BLOB_MAX)
		return store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it has an impossible size",
				  store_hex(id, hex));
	const size_t plain_bytes = stored_bytes - overhead - 1;
	uint8_t *plain = store_buf_reserve(&codec->plain, stored_bytes);
	if (!store_unprotect(s->encrypted ? s->blob_key : NULL, associated, sizeof(associated), stored, stored_bytes,
			     plain))
		return store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: its authentication fails",
				  store_hex(id, hex));
	uint8_t *to = store_buf_reserve(out, raw_bytes);
	if (!decompress(codec, plain[0], plain + 1, plain_bytes, to, raw_bytes))
		return store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it cannot be decompressed",
				  store_hex(id, hex));
	out->size = raw_bytes;
	return store_blob_verify(s, type, id, to, raw_bytes);
}

/* ---- groups: method | raw bytes (u32) | data, associated: the kind in a header */

static const uint8_t group_associated[1] = {3};
#define GROUP_HEAD_BYTES 5

/* Two levels less: what blobs have in common saves more than levels do, and takes no time. */
static int group_level(int level)
{
	return level > 2 ? level - 2 : level > 1 ? 1 : level;
}

void store_group_protect(const struct store *s, struct store_codec *codec, const void *data, size_t bytes,
			 struct store_buf *out)
{
	const uint32_t raw_bytes = (uint32_t)bytes;

	codec->plain.size = 0;
	uint8_t *plain = store_buf_reserve(&codec->plain, GROUP_HEAD_BYTES + bytes);
	const size_t packed = compress(codec, group_level(codec->level), data, bytes, plain, plain + GROUP_HEAD_BYTES);
	memcpy(plain + 1, &raw_bytes, sizeof(raw_bytes));
	uint8_t *to = store_buf_reserve(out, GROUP_HEAD_BYTES + packed + STORE_PROTECTION_BYTES);
	store_protect(s->encrypted ? s->blob_key : NULL, group_associated, sizeof(group_associated), plain,
		      GROUP_HEAD_BYTES + packed, to);
	out->size += GROUP_HEAD_BYTES + packed + store_protection_bytes(s->encrypted);
}

int store_group_unprotect(const struct store *s, struct store_codec *codec, const uint8_t *stored, size_t stored_bytes,
			  struct store_buf *out)
{
	const size_t overhead = store_protection_bytes(s->encrypted) + GROUP_HEAD_BYTES;
	uint32_t raw_bytes;

	codec->plain.size = 0;
	out->size = 0;
	if (stored_bytes <= overhead)
		return store_fail(STORE_E_DAMAGED, "a group of blobs is damaged: it has an impossible size");
	uint8_t *plain = store_buf_reserve(&codec->plain, stored_bytes);
	if (!store_unprotect(s->encrypted ? s->blob_key : NULL, group_associated, sizeof(group_associated), stored,
			     stored_bytes, plain))
		return store_fail(STORE_E_DAMAGED, "a group of blobs is damaged: its authentication fails");
	memcpy(&raw_bytes, plain + 1, sizeof(raw_bytes));
	if (raw_bytes == 0 || raw_bytes > STORE_GROUP_MAX)
		return store_fail(STORE_E_DAMAGED, "a group of blobs is damaged: it has an impossible size");
	if (!decompress(codec, plain[0], plain + GROUP_HEAD_BYTES, stored_bytes - overhead,
			store_buf_reserve(out, raw_bytes), raw_bytes))
		return store_fail(STORE_E_DAMAGED, "a group of blobs is damaged: it cannot be decompressed");
	out->size = raw_bytes;
	return 0;
}

void store_body_pack(const struct store_buf *body, struct store_buf *out)
{
	const size_t begin = out->size;

	store_buf_u8(out, METHOD_ZSTD);
	store_buf_u64(out, body->size);
	uint8_t *to = store_buf_reserve(out, body->size);
	const size_t packed =
		body->size < 2 ? 0 : ZSTD_compress(to, body->size - 1, body->data, body->size, BODY_LEVEL);
	if (packed != 0 && !ZSTD_isError(packed)) {
		out->size += packed;
		return;
	}
	out->data[begin] = METHOD_PLAIN;
	store_buf_add(out, body->data, body->size);
}

int store_body_unpack(const uint8_t *data, size_t bytes, struct store_buf *body)
{
	struct store_in in = store_in_of(data, bytes);
	const uint8_t method = store_in_u8(&in);
	const uint64_t raw = store_in_u64(&in);

	body->size = 0;
	if (in.bad || raw > STORE_BODY_MAX)
		return store_fail(STORE_E_DAMAGED, "its size is impossible");
	/* no frame holds more than that: nobody allocates a gigabyte for a few bytes */
	if (method == METHOD_ZSTD && raw / 100000 > bytes)
		return store_fail(STORE_E_DAMAGED, "its size is impossible");
	if (method == METHOD_PLAIN && raw == store_in_left(&in)) {
		store_buf_add(body, in.at, raw);
		return 0;
	}
	uint8_t *to = store_buf_reserve(body, raw);
	if (method != METHOD_ZSTD || ZSTD_decompress(to, raw, in.at, store_in_left(&in)) != raw)
		return store_fail(STORE_E_DAMAGED, "it cannot be decompressed");
	body->size = raw;
	return 0;
}
