/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs serve: a file system for the programs of this machine that use libgpu4fs, over a socket. */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/units_host.h"
#include "cli/cli.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "dev/nvme/lent_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "ring/client_host.h"
#include "ring/serve_host.h"

const char g4_help_serve[] = "--socket PATH [-o OPTION,...] DEVICE...\n\n"
			     "Serves the file system on DEVICE to programs that use gpu4fs_connect(), until it is\n"
			     "stopped by SIGTERM or SIGINT; then it writes everything. mem:SIZE is formatted first.\n"
			     "Who a program is, the socket tells; the engine checks what it may do.\n\n"
			     "  -s, --socket PATH  where programs find it\n"
			     "  -m, --mode MODE    permissions of the socket, octal; 666\n"
			     "  -o OPTION,...      ro, degraded, discard, cache=SIZE, tier=SIZE,\n"
			     "                     dedup_memory=SIZE, dedup_verify, commit=SECONDS,\n"
			     "                     engine=cpu|cuda|auto, sms=N (multiprocessors at most),\n"
			     "                     gpu_queues=N (of an NVMe drive, for the GPU),\n"
			     "                     host_memory=SIZE (that such a drive may have; 64M),\n"
			     "                     clients=N (64; half of them for one user but root),\n"
			     "                     files=N (open files of a client),\n"
			     "                     data=SIZE (memory shared with a client, at most; 128M)\n"
			     "      --help         show this\n";

struct options {
	const char *socket;
	const char *device;
	struct g4_mount_options mount;
	struct g4_server_options server;
};

static bool parse_number(const char *text, uint64_t most, uint32_t *out)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != 0 || number == 0 || number > most)
		return false;
	*out = (uint32_t)number;
	return true;
}

/* One word of -o; false when it is not understood. */
static bool parse_word(const char *word, struct options *options)
{
	uint32_t seconds;
	uint64_t bytes;

	if (strcmp(word, "ro") == 0) {
		options->mount.flags |= G4_MOUNT_READ_ONLY;
		return true;
	}
	if (strcmp(word, "degraded") == 0) {
		options->mount.flags |= G4_MOUNT_DEGRADED;
		return true;
	}
	if (strcmp(word, "dedup_verify") == 0) {
		options->mount.flags |= G4_MOUNT_DEDUP_VERIFY;
		return true;
	}
	if (strcmp(word, "discard") == 0) {
		options->mount.flags |= G4_MOUNT_DISCARD;
		return true;
	}
	if (strncmp(word, "cache=", 6) == 0)
		return g4_parse_size(word + 6, &options->mount.cache_bytes) == 0;
	if (strncmp(word, "tier=", 5) == 0) {
		if (g4_parse_size(word + 5, &options->mount.tier_bytes) != 0)
			return false;
		options->mount.tier_bytes = options->mount.tier_bytes ? options->mount.tier_bytes : G4_NO_TIER;
		return true;
	}
	if (strncmp(word, "dedup_memory=", 13) == 0)
		return g4_parse_size(word + 13, &options->mount.dedup_bytes) == 0;
	if (strncmp(word, "commit=", 7) == 0) {
		if (!parse_number(word + 7, 3600, &seconds))
			return false;
		options->mount.commit_ms = seconds * 1000;
		return true;
	}
	if (strncmp(word, "engine=", 7) == 0)
		return g4_engine_parse_kind(word + 7, &options->mount.kind) == 0;
	if (strncmp(word, "sms=", 4) == 0)
		return parse_number(word + 4, UINT32_MAX, &options->mount.sms);
	if (strncmp(word, "gpu_queues=", 11) == 0)
		return parse_number(word + 11, G4_GPU_QUEUES_MOST, &options->mount.gpu_queues);
	if (strncmp(word, "host_memory=", 12) == 0) {
		if (g4_parse_size(word + 12, &bytes) != 0)
			return false;
		g4_nvme_lend_most(bytes);
		return true;
	}
	if (strncmp(word, "clients=", 8) == 0)
		return parse_number(word + 8, 4096, &options->server.max_clients);
	if (strncmp(word, "data=", 5) == 0)
		return g4_parse_size(word + 5, &options->server.max_data_bytes) == 0 &&
		       options->server.max_data_bytes >= G4_RING_MIN_DATA_BYTES;
	if (strncmp(word, "files=", 6) == 0)
		return parse_number(word + 6, 1 << 20, &options->server.handles);
	return false;
}

static int parse_words(char *words, struct options *options)
{
	char *rest = NULL;

	for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
		if (!parse_word(word, options))
			return g4_cli_usage("serve", "the option '%s' is not understood", word);
	return 0;
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{"socket", required_argument, NULL, 's'}, {"mode", required_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
	char *end;
	int status = 0;

	for (int answer; status == 0 && (answer = getopt_long(argc, argv, ":s:m:o:", long_options, NULL)) != -1;) {
		switch (answer) {
		case 's':
			options->socket = optarg;
			break;
		case 'm':
			options->server.mode = (uint32_t)strtoul(optarg, &end, 8);
			if (*end != 0 || options->server.mode == 0 || options->server.mode > 0777)
				status = g4_cli_usage("serve", "'%s' is no mode", optarg);
			break;
		case 'o':
			status = parse_words(optarg, options);
			break;
		default:
			status = g4_cli_bad_option("serve", answer, argv);
		}
	}
	if (status == 0 && !options->socket)
		status = g4_cli_usage("serve", "a socket is needed: --socket PATH");
	if (status == 0 && argc == optind)
		status = g4_cli_usage("serve", "a device is needed");
	if (status == 0)
		options->device = g4_cli_disks(argv + optind, argc - optind);
	return status;
}

/* What "mem:" holds lives as long as it is open: it is formatted in the same open. */
static int mount_all(const struct options *options, struct g4_engine **engine, char *message, size_t message_bytes)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_EXCLUSIVE};
	const struct g4_mkfs_options format = {.label = NULL};
	struct g4_superblock sb;
	struct g4_dev *dev;
	int rc = g4c_check_options(&options->mount, message, message_bytes);

	if (rc < 0)
		return rc;
	if (strncmp(options->device, "mem:", 4) != 0)
		return g4_engine_mount(&options->device, 1, &options->mount, engine, message, message_bytes);
	rc = g4_dev_open(options->device, &open, &dev, message, message_bytes);
	if (rc < 0)
		return rc;
	rc = g4_mkfs(dev, &format, &sb, message, message_bytes);
	if (rc < 0) {
		g4_dev_close(dev);
		return rc;
	}
	return g4_engine_mount_device(dev, &options->mount, engine, message, message_bytes);
}

int g4_cli_serve(int argc, char **argv)
{
	struct options options = {0};
	struct g4_engine *engine;
	struct g4_server *server;
	char message[512] = "";
	sigset_t stop;
	int status = parse(argc, argv, &options), signal_number, rc;

	if (status != 0)
		return status;
	/* before there are threads, which inherit it: the signals are for sigwait() below */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	pthread_sigmask(SIG_BLOCK, &stop, NULL);
	rc = mount_all(&options, &engine, message, sizeof(message));
	if (rc < 0) {
		g4c_explain(rc, options.device, message, sizeof(message));
		g4_cli_error("serve", "%s", message);
		return G4_EXIT_FAILURE;
	}
	options.server.path = options.socket;
	rc = g4_server_start(g4_engine_sessions(engine), &options.server, &server, message, sizeof(message));
	if (rc < 0) {
		g4_cli_error("serve", "%s", message);
		g4_engine_unmount(engine);
		return G4_EXIT_FAILURE;
	}
	printf("serving %s at %s, engine %s\n", options.device, options.socket, g4_engine_name(engine));
	fflush(stdout);
	while (sigwait(&stop, &signal_number) != 0)
		;
	g4_server_stop(server);
	rc = g4_engine_unmount(engine);
	if (rc < 0)
		g4_cli_error("serve", "%s: %s", options.device, g4_strerror(rc));
	return rc < 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}
