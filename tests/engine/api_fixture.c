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

/* As a mount's socket has it (fuse/share.c), but for its kernel: inodes that lose their names stay until the unmount. */
#define HELD_IMAGE "api.held.image"
#define HELD_SOCKET "api.held.socket"
static struct {
	struct g4_engine *engine;
	struct g4_server *server;
} held;

int api_setup_held(void **state)
{
	const char *const name = HELD_IMAGE;
	const struct gpu4fs_mkfs_options mkfs_options = {.size = sizeof(mkfs_options), .flags = GPU4FS_MKFS_FORCE};
	const struct g4_mount_options options = {.flags = G4_MOUNT_HOLD_UNLINKED, .cache_bytes = 16 << 20};
	const struct gpu4fs_connect_options connect_options = {.size = sizeof(connect_options),
							       .credentials = &root_credentials};
	const struct g4_server_options server_options = {.path = HELD_SOCKET};
	char message[256] = "";

	(void)state;
	api_image(name, 64 << 20);
	ok(gpu4fs_mkfs(&name, 1, &mkfs_options));
	int rc = g4_engine_mount(&name, 1, &options, &held.engine, message, sizeof(message));
	if (rc == 0)
		rc = g4_server_start(g4_engine_sessions(held.engine), &server_options, &held.server, message,
				     sizeof(message));
	if (rc == 0)
		rc = gpu4fs_connect(HELD_SOCKET, &connect_options, &fs);
	if (rc)
		print_error("%d: %s %s\n", rc, message, gpu4fs_last_message());
	return rc;
}

int api_teardown_held(void **state)
{
	int rc = gpu4fs_unmount(fs);

	(void)state;
	g4_server_stop(held.server);
	const int unmounted = g4_engine_unmount(held.engine);
	(void)unlink(HELD_IMAGE);
	return rc ? rc : unmounted;
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
