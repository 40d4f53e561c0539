/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate says nothing here but which key it holds: both sides know each other's key, as with ssh, so there is no authority, nothing
 * expires, and nothing has to be renewed in time.
 */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "site/site.h"
#include "site/tls.h"

#define FILE_BYTES_MAX 65536
/* 9999-12-31, which RFC 5280 has for "never". */
#define NEVER 253402300799

static int failed(const char *what, int rc)
{
	return store_fail(STORE_E_IO, "%s: %s", what, gnutls_strerror(rc));
}

int site_key_of(const gnutls_x509_crt_t certificate, char key[SITE_KEY_BYTES])
{
	gnutls_datum_t der = {NULL, 0}, text = {NULL, 0};
	uint8_t digest[32];
	gnutls_pubkey_t public_key;
	int rc = gnutls_pubkey_init(&public_key);

	if (rc < 0)
		return failed("a key cannot be read", rc);
	rc = gnutls_pubkey_import_x509(public_key, certificate, 0);
	if (rc >= 0)
		rc = gnutls_pubkey_export2(public_key, GNUTLS_X509_FMT_DER, &der);
	if (rc >= 0)
		rc = gnutls_hash_fast(GNUTLS_DIG_SHA256, der.data, der.size, digest);
	if (rc >= 0) {
		const gnutls_datum_t raw = {digest, sizeof(digest)};

		rc = gnutls_base64_encode2(&raw, &text);
	}
	if (rc >= 0)
		snprintf(key, SITE_KEY_BYTES, "sha256//%.*s", (int)text.size, (const char *)text.data);
	gnutls_free(der.data);
	gnutls_free(text.data);
	gnutls_pubkey_deinit(public_key);
	return rc < 0 ? failed("a key cannot be read", rc) : 0;
}

/* A self-signed certificate. */
static int make_certificate(gnutls_x509_privkey_t key, gnutls_x509_crt_t certificate)
{
	uint8_t serial[16];
	int rc;

	store_random(serial, sizeof(serial));
	serial[0] &= 0x7f; /* a positive number */
	rc = gnutls_x509_crt_set_version(certificate, 3);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_serial(certificate, serial, sizeof(serial));
	if (rc >= 0)
		rc = gnutls_x509_crt_set_activation_time(certificate, 0);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_expiration_time(certificate, NEVER);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_dn(certificate, "CN=shredder", NULL);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_key(certificate, key);
	if (rc >= 0)
		rc = gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA512, 0);
	return rc;
}

static int write_file(const char *file, const gnutls_datum_t *key, const gnutls_datum_t *certificate)
{
	const int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return store_fail(errno == EEXIST ? STORE_E_EXISTS : STORE_E_IO, "cannot make %s: %s", file,
				  strerror(errno));
	FILE *out = fdopen(fd, "w");
	if (out == NULL) {
		close(fd);
		return store_fail(STORE_E_IO, "cannot make %s: %s", file, strerror(errno));
	}
	fwrite(key->data, 1, key->size, out);
	fwrite(certificate->data, 1, certificate->size, out);
	bool right = fflush(out) == 0 && fsync(fd) == 0;
	right = fclose(out) == 0 && right;
	if (right)
		return 0;
	const int rc = store_fail(STORE_E_IO, "cannot write %s: %s", file, strerror(errno));
	unlink(file);
	return rc;
}

int site_identity_make(const char *file)
{
	gnutls_datum_t key_text = {NULL, 0}, text = {NULL, 0};
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t certificate;
	int rc = gnutls_x509_privkey_init(&key);

	if (rc < 0)
		return failed("no key can be made", rc);
	if ((rc = gnutls_x509_crt_init(&certificate)) < 0) {
		gnutls_x509_privkey_deinit(key);
		return failed("no key can be made", rc);
	}
	rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, 256, 0);
	if (rc >= 0)
		rc = make_certificate(key, certificate);
	if (rc >= 0)
		rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &key_text);
	if (rc >= 0)
		rc = gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text);
	rc = rc < 0 ? failed("no key can be made", rc) : write_file(file, &key_text, &text);
	if (key_text.data != NULL)
		gnutls_memset(key_text.data, 0, key_text.size);
	gnutls_free(key_text.data);
	gnutls_free(text.data);
	gnutls_x509_crt_deinit(certificate);
	gnutls_x509_privkey_deinit(key);
	return rc;
}

int site_file_read(const char *file, size_t max, struct store_buf *out)
{
	FILE *in = fopen(file, "re");
	size_t got;

	out->size = 0;
	if (in == NULL)
		return store_fail(STORE_E_IO, "cannot read %s: %s", file, strerror(errno));
	while (out->size <= max && (got = fread(store_buf_reserve(out, 4096), 1, 4096, in)) > 0)
		out->size += got;
	const bool right = ferror(in) == 0;
	fclose(in);
	if (!right)
		return store_fail(STORE_E_IO, "cannot read %s: %s", file, strerror(errno));
	if (out->size > max)
		return store_fail(STORE_E_INVAL, "%s is too large to be what it should be", file);
	store_buf_u8(out, 0); /* it is text */
	return 0;
}

int site_identity_read(const char *file, struct store_buf *text)
{
	return site_file_read(file, FILE_BYTES_MAX, text);
}

int site_identity_key(const char *file, char key[SITE_KEY_BYTES])
{
	struct store_buf text = {0};
	gnutls_x509_crt_t certificate;
	int rc = site_identity_read(file, &text);

	if (rc == 0 && gnutls_x509_crt_init(&certificate) >= 0) {
		const gnutls_datum_t pem = {text.data, (unsigned int)text.size - 1};

		if (gnutls_x509_crt_import(certificate, &pem, GNUTLS_X509_FMT_PEM) < 0)
			rc = store_fail(STORE_E_INVAL, "%s is no identity: it has no certificate", file);
		else
			rc = site_key_of(certificate, key);
		gnutls_x509_crt_deinit(certificate);
	}
	if (text.size > 0)
		store_wipe(text.data, text.size);
	store_buf_free(&text);
	return rc;
}
