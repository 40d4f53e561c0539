/* SPDX-License-Identifier: Apache-2.0 */
/* Using a file system that another process serves. Behind the engine handle it is as a mounted one. */
#include "client/client.h"

#define CONNECT_OPTIONS_V1 sizeof(struct gpu4fs_connect_options)

int gpu4fs_connect(const char *socket, const struct gpu4fs_connect_options *options, gpu4fs **out)
{
	struct gpu4fs_connect_options own;
	struct g4_engine *engine;
	struct g4_cred cred;
	const char *cwd;
	size_t bytes;
	char *message = g4c_message(&bytes);
	int rc;

	message[0] = 0;
	rc = g4c_copy_versioned(&own, sizeof(own), options, CONNECT_OPTIONS_V1);
	if (rc)
		return g4c_say(rc, "the options of connect have an unknown size or field");
	if (!socket)
		return g4c_say(-EINVAL, "no socket was named");
	rc = g4c_credentials(own.credentials, &cred, &cwd);
	if (rc)
		return g4c_say(rc, "the credentials are not valid");
	rc = g4_engine_connect(socket, cred.umask, own.data_bytes, &engine, message, bytes);
	if (rc)
		return -g4_errno(rc);
	return g4c_open_engine(engine, own.async_threads, &cred, cwd, out);
}
