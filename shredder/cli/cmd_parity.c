/* SPDX-License-Identifier: Apache-2.0 */
/* shredder parity: gives a repository that is there another parity. */
#include "cli/repo.h"
#include "store/maintain.h"

const char cli_help_parity[] =
	"[OPTION]... N\n\n"
	"Lets all files of the repository, and those that come, be followed by parity N, 0 to 4, as 'init --parity' does.\n"
	"Each file is written anew and has another name then, snapshots and keys, too. Needs the repository alone, and in\n"
	"its directory. One that was cut off is gone on with by the next. Exit status 1: some files are damaged or missing, and stay\n"
	"as they are.\n\n" CLI_REPO_HELP "      --help             show this\n";

struct parity {
	struct cli_repo repo;
	struct g4_progress progress;
};

static void tell_problem(void *user, const char *sentence)
{
	struct parity *p = (struct parity *)user;

	g4_progress_clear(&p->progress);
	cli_warn("parity", p->repo.path, sentence);
}

static void show(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct parity *)user)->progress, done, total);
}

static int change(struct parity *p, struct store *s, uint32_t parity)
{
	struct store_parity_change c = {.problem = tell_problem, .progress = show, .user = p};
	char bytes[G4_SIZE_TEXT_BYTES];
	int rc = cli_repo_lock(&p->repo, s, true);

	cli_progress_start(&p->repo, &p->progress, "writing parity");
	if (rc == 0)
		rc = store_parity_set(s, parity, &c);
	g4_progress_clear(&p->progress);
	if (rc != 0)
		return cli_repo_failed(&p->repo, rc);
	if (p->repo.json)
		printf("{\"parity\": %u, \"packs\": %llu, \"others\": %llu, \"bytes\": %llu, \"problems\": %llu}\n",
		       parity, (unsigned long long)c.packs, (unsigned long long)c.others, (unsigned long long)c.bytes,
		       (unsigned long long)c.problems);
	else if (!p->repo.quiet)
		printf("parity %u: %llu %s and %llu other %s were written anew, %s\n", parity,
		       (unsigned long long)c.packs, g4_counted(c.packs, "pack", "packs"), (unsigned long long)c.others,
		       g4_counted(c.others, "file", "files"), g4_format_size(c.bytes, bytes, sizeof(bytes)));
	if (c.problems > 0)
		g4_cli_error("parity", "%llu %s; 'shredder check' tells more", (unsigned long long)c.problems,
			     g4_counted(c.problems, "file is damaged or missing and stays as it is",
					"files are damaged or missing and stay as they are"));
	return c.problems > 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}

int cli_parity(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, {NULL, 0, NULL, 0}};
	struct parity p = {0};
	uint64_t number;
	struct store *s;
	int option;

	cli_repo_init(&p.repo, "parity");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1)
		if (!cli_repo_take(&p.repo, option, optarg))
			return g4_cli_bad_option("parity", option, argv);
	if (optind + 1 != argc || !cli_parse_number(argv[optind], STORE_PARITY_MOST, &number))
		return g4_cli_usage("parity", "it takes a number, 0 to 4");
	int status = cli_repo_open(&p.repo, &s);
	if (status == G4_EXIT_OK) {
		status = change(&p, s, (uint32_t)number);
		cli_repo_close(&p.repo, s);
	}
	return g4_cli_finish_output("parity", status);
}
