/* SPDX-License-Identifier: Apache-2.0 */
/* shredder mount: the snapshots as directories. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/mounted.h"

const char cli_help_mount[] =
	"[OPTION]... DIR\n\n"
	"Shows the snapshots as directories below DIR, and the newest one as 'latest', until Ctrl-C or 'umount DIR'.\n"
	"Nothing can be changed. Data is fetched when it is read, and verified; what is damaged is an input/output error.\n"
	"Snapshots that are made meanwhile appear.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
	"      --allow-other      for all users, each with his rights; as user_allow_other of fuse.conf permits\n"
	"      --help             show this\n";

enum { OPT_ALLOW_OTHER = CLI_OPT_REPO_FREE };

struct mounting {
	struct cli_repo repo;
	const char *place;
};

static void tell_ready(void *user)
{
	const struct mounting *m = (const struct mounting *)user;

	if (m->repo.json) {
		printf("{\"mounted\": ");
		cli_print_json_text(m->place);
		puts("}");
	} else {
		printf("mounted at %s; Ctrl-C or 'umount %s' ends it\n", m->place, m->place);
	}
	fflush(stdout);
}

int cli_mount(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     {"allow-other", no_argument, NULL, OPT_ALLOW_OTHER},
						     {NULL, 0, NULL, 0}};
	struct mounting m;
	bool allow_other = false;
	struct store *s;
	int option;

	cli_repo_init(&m.repo, "mount");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT, long_options, NULL)) != -1) {
		if (option == OPT_ALLOW_OTHER)
			allow_other = true;
		else if (!cli_repo_take(&m.repo, option, optarg))
			return g4_cli_bad_option("mount", option, argv);
	}
	if (optind + 1 != argc)
		return g4_cli_usage("mount", "it takes one directory");
	m.place = argv[optind];
	struct stat there;
	const int error = stat(m.place, &there) != 0 ? errno : S_ISDIR(there.st_mode) ? 0 : ENOTDIR;
	if (error != 0) {
		g4_cli_error("mount", "%s: %s", m.place, strerror(error));
		return G4_EXIT_FAILURE;
	}
	int status = cli_repo_open(&m.repo, &s);
	if (status != G4_EXIT_OK)
		return status;
	const struct store_filter filter = cli_repo_filter(&m.repo);
	const int rc = cli_mounted_serve(s, &filter, m.place, allow_other, tell_ready, &m);
	if (rc != 0)
		status = cli_repo_failed(&m.repo, rc);
	cli_repo_close(&m.repo, s);
	return g4_cli_finish_output("mount", status);
}
