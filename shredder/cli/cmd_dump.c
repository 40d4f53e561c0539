/* SPDX-License-Identifier: Apache-2.0 */
/* shredder dump: one file of a snapshot, or a directory as a tar archive, to standard output. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/repo.h"
#include "cli/tar.h"
#include "store/maintain.h"

const char cli_help_dump[] =
	"[OPTION]... SNAPSHOT:PATH\n"
	"       shredder dump [OPTION]... SNAPSHOT PATH\n\n"
	"Writes the contents of a file to standard output, or a directory as a tar archive (pax), whose names begin at the\n"
	"directory. Every chunk is authenticated. Exit status 1: what was written is not all.\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP "      --help             show this\n";

#define ZEROS_BYTES 65536

struct dump {
	struct cli_repo repo;
	struct store *s;
	struct store_codec codec;
	struct store_buf blob;
	struct cli_tar *tar; /* NULL: one file */
};

static int put_zeros(uint64_t bytes)
{
	static const uint8_t zeros[ZEROS_BYTES];

	while (bytes > 0 && !ferror(stdout)) {
		const size_t now = (size_t)g4_min64(bytes, sizeof(zeros));

		fwrite(zeros, 1, now, stdout);
		bytes -= now;
	}
	return ferror(stdout) ? STORE_E_STOPPED : 0;
}

static int put_contents(struct dump *d, const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_part part;
	int rc = 0;

	while (rc == 0 && in.at != in.end && store_part_next(&in, &part)) {
		if (part.hole) {
			rc = put_zeros(part.bytes);
			continue;
		}
		rc = store_blob_get(d->s, &d->codec, STORE_DATA, &part.id, &d->blob);
		if (rc == 0 && d->blob.size != part.bytes)
			rc = store_fail(STORE_E_DAMAGED, "a chunk does not have the size that its file says");
		if (rc == 0 && fwrite(d->blob.data, 1, d->blob.size, stdout) != d->blob.size)
			rc = STORE_E_STOPPED;
	}
	return rc;
}

/* One entry of the directory. */
static int put_entry(void *user, const char *path, const struct store_node *node)
{
	struct dump *d = (struct dump *)user;
	int rc;

	if (node->type == STORE_NODE_SOCKET) { /* tar has no such thing */
		cli_warn("dump", path, "a socket is left out");
		return 0;
	}
	if (cli_tar_header(d->tar, path[0] == '/' ? path + 1 : path, node)) {
		rc = put_contents(d, node);
		if (rc != 0)
			return rc;
		cli_tar_pad(node->size);
	}
	return ferror(stdout) ? STORE_E_STOPPED : 0;
}

static int put_directory(struct dump *d, const struct store_node *node)
{
	int rc = 0;

	d->tar = cli_tar_new();
	if (node->raw != NULL)
		cli_tar_header(d->tar, ".", node);
	rc = store_visit(d->s, &d->codec, &node->content, "", put_entry, d);
	if (rc == 0)
		cli_tar_end();
	cli_tar_free(d->tar);
	return rc;
}

static int dump(struct dump *d, char *const *words, int count)
{
	struct store_snapshot snapshot = {0};
	struct store_buf hold = {0};
	struct store_node node;
	const char *subpath;
	int status = cli_snapshot_find(&d->repo, d->s, words[0], &snapshot, &subpath);

	if (status != G4_EXIT_OK)
		return status;
	const struct store_content root = store_snapshot_root(&snapshot);
	int rc = store_index_load(d->s, NULL, NULL, NULL); /* has all that the snapshot needs */
	if (rc == 0)
		rc = store_path_find(d->s, &d->codec, &root, count == 2 ? words[1] : subpath, &node, &hold);
	if (rc == 0 && node.type == STORE_NODE_DIR && isatty(STDOUT_FILENO))
		rc = store_fail(STORE_E_INVAL,
				"a directory is written as a tar archive, which is nothing for a terminal");
	else if (rc == 0 && node.type != STORE_NODE_DIR && node.type != STORE_NODE_FILE)
		rc = store_fail(STORE_E_INVAL, "it is a %s: only files and directories have contents",
				store_node_word(node.type));
	if (rc == 0) {
		/* a file of which bytes are lost is unsettled */
		if (node.type == STORE_NODE_DIR || (node.flags & STORE_UNSETTLED) != 0)
			cli_warn_repaired("dump", &snapshot);
		rc = node.type == STORE_NODE_DIR ? put_directory(d, &node) : put_contents(d, &node);
	}
	if (rc != 0 && rc != STORE_E_STOPPED)
		status = cli_repo_failed(&d->repo, rc);
	store_buf_free(&hold);
	store_snapshot_free(&snapshot);
	return status;
}

int cli_dump(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, CLI_FILTER_LONG, {NULL, 0, NULL, 0}};
	struct dump d = {0};
	int option;

	cli_repo_init(&d.repo, "dump");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT, long_options, NULL)) != -1)
		if (!cli_repo_take(&d.repo, option, optarg))
			return g4_cli_bad_option("dump", option, argv);
	const int count = argc - optind;
	if (count < 1 || count > 2 || (count == 1) != (strchr(argv[optind], ':') != NULL))
		return g4_cli_usage("dump", "it takes SNAPSHOT:PATH, or a snapshot and a path");
	int status = cli_repo_open(&d.repo, &d.s);
	if (status != G4_EXIT_OK)
		return status;
	store_codec_init(&d.codec, 0);
	status = dump(&d, argv + optind, count);
	store_codec_free(&d.codec);
	store_buf_free(&d.blob);
	cli_repo_close(&d.repo, d.s);
	return g4_cli_finish_output("dump", status);
}
