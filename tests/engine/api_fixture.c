/* SPDX-License-Identifier: Apache-2.0 */
#include "api_fixture.h"

#include "client/client.h"
#include "ring/serve_host.h"
#undef gpu4fs_unmount

gpu4fs *fs;

/* Servers that tests are connected to. */
#define SERVED_MAX 8
static struct served {
	gpu4fs *connection; /* NULL: the place is free */
	gpu4fs *mounted;
	struct g4_server *server;
} served[SERVED_MAX];

static const struct gpu4fs_credentials root_credentials = {.size = sizeof(root_credentials), .umask = 022};

static struct served *find_served(const gpu4fs *connection)
{
	for (int i = 0; i < SERVED_MAX; i++)
		if (served[i].connection == connection)
			return &served[i];
	return NULL;
}

static gpu4fs *connect_to(gpu4fs *mounted)
{
	struct served *entry = find_served(NULL);
	const struct gpu4fs_connect_options options = {.size = sizeof(options), .credentials = &root_credentials};
	char path[64], message[256] = "";
	const struct g4_server_options server_options = {.path = path, .handles = 1 << 16};
	int rc;

	assert_non_null(entry);
	snprintf(path, sizeof(path), "api.%d.%d.socket", (int)getpid(), (int)(entry - served));
	entry->mounted = mounted;
	rc = g4_server_start(g4_engine_sessions(mounted->mount->engine), &server_options, &entry->server, message,
			     sizeof(message));
	if (rc == 0)
		rc = gpu4fs_connect(path, &options, &entry->connection);
	if (rc) {
		print_error("%s: %s %s\n", path, message, gpu4fs_last_message());
		fail();
	}
	return entry->connection;
}

gpu4fs *api_mount(const char *name, bool format)
{
	const struct gpu4fs_mkfs_options mkfs_options = {.size = sizeof(mkfs_options), .flags = GPU4FS_MKFS_FORCE};
	const struct gpu4fs_options options = {
		.size = sizeof(options),
		.cache_bytes = 16 << 20,
		.credentials = &root_credentials,
		.format = format ? &mkfs_options : NULL,
		.engine = getenv("G4_TEST_ENGINE"),
	};
	gpu4fs *mounted;
	int rc = gpu4fs_mount(&name, 1, &options, &mounted);

	if (rc) {
		print_error("%s: %s (%s)\n", name, gpu4fs_last_message(), gpu4fs_strerror(rc));
		fail();
	}
	return getenv("G4_TEST_CONNECTED") ? connect_to(mounted) : mounted;
}

int api_unmount(gpu4fs *mounted)
{
	struct served *entry = find_served(mounted);
	int rc = gpu4fs_unmount(mounted);

	if (rc || !entry)
		return rc;
	g4_server_stop(entry->server);
	entry->connection = NULL;
	return gpu4fs_unmount(entry->mounted);
}

gpu4fs *api_in_process(void)
{
	const struct served *entry = find_served(fs);

	return entry ? entry->mounted : fs;
}

int api_setup(void **state)
{
	(void)state;
	fs = api_mount("mem:64M", true);
	return 0;
}

int api_teardown(void **state)
{
	int rc = api_unmount(fs);

	(void)state;
	if (rc)
		print_error("unmount: %s\n", gpu4fs_strerror(rc));
	return rc;
}

uint64_t api_flip_in_image(const char *name, const uint8_t *page)
{
	FILE *file = fopen(name, "r+");
	uint8_t found[4096];
	uint64_t at = UINT64_MAX;

	assert_non_null(file);
	for (uint64_t k = 0; at == UINT64_MAX && fread(found, sizeof(found), 1, file) == 1; k++)
		if (memcmp(found, page, sizeof(found)) == 0)
			at = k * sizeof(found);
	assert_true(at != UINT64_MAX);
	assert_int_equal(fseek(file, (long)at + 100, SEEK_SET), 0);
	assert_int_equal(fputc(page[100] ^ 1, file), page[100] ^ 1);
	assert_int_equal(fclose(file), 0);
	return at;
}

gpu4fs *api_session(uint32_t uid, uint32_t gid, uint32_t group)
{
	const struct gpu4fs_credentials credentials = {
		.size = sizeof(credentials),
		.uid = uid,
		.gid = gid,
		.umask = 022,
		.groups = &group,
		.group_count = group != 0,
	};
	gpu4fs *session;

	ok(gpu4fs_session(fs, &credentials, &session));
	return session;
}
