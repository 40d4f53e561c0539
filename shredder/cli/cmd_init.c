/* SPDX-License-Identifier: Apache-2.0 */
/* shredder init: a new repository. */
#include <stdlib.h>
#include <string.h>

#include "base/uuid_host.h"
#include "cli/repo.h"

const char cli_help_init[] =
	"[OPTION]...\n\n"
	"Makes a repository in a directory, which is made when it is not there. It is encrypted: without the\n"
	"password or the key file nobody can read it, and nobody can help.\n\n" CLI_REPO_HELP
	"      --help             show this\n";

int cli_init(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, {NULL, 0, NULL, 0}};
	char uuid[G4_UUID_TEXT_BYTES];
	struct store_secret secret;
	struct cli_repo repo;
	struct store *s;
	int option, status = G4_EXIT_OK;

	cli_repo_init(&repo, "init");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1)
		if (!cli_repo_take(&repo, option, optarg))
			return g4_cli_bad_option("init", option, argv);
	if (optind != argc)
		return g4_cli_usage("init", "it takes no argument: the repository is --repo");
	if (repo.path == NULL)
		return g4_cli_usage("init", "which repository? Say --repo or set SHREDDER_REPOSITORY");
	if (!repo.plain)
		status = cli_repo_secret(&repo, true, &secret);
	if (status != G4_EXIT_OK)
		return status;
	const int rc = store_create(repo.path, repo.plain ? NULL : &secret, &s);
	if (rc != 0) {
		cli_repo_close(&repo, NULL);
		return cli_repo_failed(&repo, rc);
	}
	g4_uuid_format(s->uuid, uuid);
	if (repo.json) {
		printf("{\"repository\": ");
		cli_print_json_text(repo.path);
		printf(", \"id\": \"%s\", \"encrypted\": %s}\n", uuid, s->encrypted ? "true" : "false");
	} else {
		printf("made repository %s in %s%s\n", uuid, repo.path,
		       s->encrypted ? "; do not lose what opens it" : ", not encrypted");
	}
	cli_repo_close(&repo, s);
	return g4_cli_finish_output("init", G4_EXIT_OK);
}
