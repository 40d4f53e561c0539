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
	"      --copy-chunker-params  cut files where the source cuts them, so that copies between the two share chunks\n" CLI_FROM_HELP
	"      --format N             older ones: 1, in which small files take more space, 2, in which packs alone have parity,\n"
	"                         3, in which a lost sector takes short files along, 4, without access times [5]\n"
	"      --parity N         behind each file, from which damage is mended: 0 to 4, 3 % of the size each [0]\n"
	"      --help             show this\n";

enum { OPT_COPY_PARAMS = CLI_OPT_REPO_FREE, OPT_FORMAT, OPT_PARITY };

/* Secret parameters stay secret: what is not encrypted does not get them. */
static int read_params(struct cli_repo *from, const struct cli_repo *repo, struct shredder_params *params)
{
	struct store *s;
	const int status = cli_repo_open(from, &s);

	if (status != G4_EXIT_OK)
		return status;
	const bool secret = s->encrypted && repo->plain;
	*params = s->params;
	cli_repo_close(from, s);
	return secret ? g4_cli_usage("init", "the source is encrypted and its parameters are secret: a repository "
					     "without encryption would tell them") :
			G4_EXIT_OK;
}

static void tell(const struct cli_repo *repo, const struct store *s)
{
	char uuid[G4_UUID_TEXT_BYTES];

	g4_uuid_format(s->uuid, uuid);
	if (repo->json) {
		printf("{\"repository\": ");
		cli_print_json_text(repo->path);
		printf(", \"id\": \"%s\", \"encrypted\": %s}\n", uuid, s->encrypted ? "true" : "false");
	} else if (!repo->quiet) {
		printf("made repository %s in %s%s\n", uuid, repo->path,
		       s->encrypted ? "; do not lose what opens it" : ", not encrypted");
	}
}

int cli_init(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FROM_LONG,
						     {"copy-chunker-params", no_argument, NULL, OPT_COPY_PARAMS},
						     {"format", required_argument, NULL, OPT_FORMAT},
						     {"parity", required_argument, NULL, OPT_PARITY},
						     {NULL, 0, NULL, 0}};
	struct store_form form = {.version = STORE_VERSION};
	struct shredder_params params;
	struct store_secret secret;
	struct cli_repo repo, from;
	struct store *s;
	bool copy = false;
	int option, status = G4_EXIT_OK;

	cli_repo_init(&repo, "init");
	cli_repo_init_from(&from, "init");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1) {
		if (option == OPT_COPY_PARAMS)
			copy = true;
		else if (option == OPT_FORMAT && optarg[0] >= '1' && optarg[0] <= '4' && optarg[1] == 0)
			form.version = (uint32_t)(optarg[0] - '0');
		else if (option == OPT_PARITY && optarg[0] >= '0' && optarg[0] <= '4' && optarg[1] == 0)
			form.parity = (uint32_t)(optarg[0] - '0');
		else if (option == OPT_PARITY)
			return g4_cli_usage("init", "'%s' is no parity: 0 to 4", optarg);
		else if (option == OPT_FORMAT)
			return g4_cli_usage("init", "'%s' is no format: 1 to 4", optarg);
		else if (!cli_repo_take(&repo, option, optarg) && !cli_repo_take_from(&from, option, optarg))
			return g4_cli_bad_option("init", option, argv);
	}
	if (optind != argc)
		return g4_cli_usage("init", "it takes no argument: the repository is --repo");
	if (repo.path == NULL)
		return g4_cli_usage("init", "which repository? Say --repo or set SHREDDER_REPOSITORY");
	if (form.version == 1 && form.parity > 0)
		return g4_cli_usage("init", "format 1 has no parity");
	if (copy && from.path == NULL)
		return g4_cli_usage("init", "whose parameters? Say --from-repo");
	if (copy)
		status = read_params(&from, &repo, &params);
	if (status == G4_EXIT_OK && !repo.plain)
		status = cli_repo_secret(&repo, true, &secret);
	if (status != G4_EXIT_OK)
		return status;
	struct store_place place;
	status = cli_repo_place(&repo, &place);
	if (status != G4_EXIT_OK) {
		cli_repo_close(&repo, NULL);
		return status;
	}
	const int rc = store_create_as(&place, repo.plain ? NULL : &secret, copy ? &params : NULL, &form, &s);
	if (rc != 0) {
		cli_repo_close(&repo, NULL);
		return cli_repo_failed(&repo, rc);
	}
	tell(&repo, s);
	cli_repo_close(&repo, s);
	return g4_cli_finish_output("init", G4_EXIT_OK);
}
