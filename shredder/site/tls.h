/* SPDX-License-Identifier: Apache-2.0 */
/* What of the site knows GnuTLS. */
#ifndef SHREDDER_SITE_TLS_H
#define SHREDDER_SITE_TLS_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "site/site.h"
#include "store/crypto.h"

int site_key_of(gnutls_x509_crt_t certificate, char key[SITE_KEY_BYTES]);
/* The text of a file, with a zero byte behind it; the caller frees it. */
int site_file_read(const char *file, size_t max, struct store_buf *out);
int site_identity_read(const char *file, struct store_buf *text);

#endif
