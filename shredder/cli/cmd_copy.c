/* SPDX-License-Identifier: Apache-2.0 */
/* shredder copy: snapshots of another repository. */
#include <stdlib.h>
#include <string.h>

#include "base/clock_host.h"
#include "cli/repo.h"
#include "store/copy.h"

const char cli_help_copy[] =
	"[OPTION]... --from-repo DIR [SNAPSHOT]...\n\n"
	"Copies snapshots, or all that match, from another repository into this one; those that are there already are left out.\n"
	"Data is encrypted again, with this repository's keys. Where both cut files at the same places (shredder init\n"
	"--copy-chunker-params), chunks stay what they are; else files are cut again.\n\n" CLI_REPO_HELP CLI_FROM_HELP
		CLI_FILTER_HELP "  -l, --level N          of zstd [3]\n"
	"  -t, --threads N        that read, compress and encrypt [one a processor]\n"
	"  -n, --dry-run          store nothing\n"
	"      --no-lock          a source that cannot be written: nobody may prune it meanwhile\n"
	"      --help             show this\n";

struct copying {
	struct cli_repo repo, from;
	struct store_copy_options options;
	struct g4_progress progress;
	uint64_t printed;
};

static void tell_copied(void *user, const struct store_snapshot *from, const struct store_id *to)
{
	struct copying *c = (struct copying *)user;
	char old[STORE_HEX_BYTES], hex[STORE_HEX_BYTES], time[32];

	g4_progress_clear(&c->progress);
	store_hex(&from->name, old);
	if (c->repo.json) {
		printf("%s\n  {\"from\": \"%s\", \"to\": ", c->printed++ == 0 ? "" : ",", old);
		if (to != NULL && !c->options.dry_run)
			printf("\"%s\"}", store_hex(to, hex));
		else
			fputs("null}", stdout);
		return;
	}
	if (c->repo.quiet)
		return;
	printf("%.16s  %s  ", old, cli_format_time(&from->time, time));
	if (to == NULL)
		puts("is there already");
	else if (c->options.dry_run)
		puts("would be copied");
	else
		printf("copied as %.16s\n", store_hex(to, hex));
}

static void show_copy(void *user, uint64_t done, uint64_t total)
{
	g4_progress_step(&((struct copying *)user)->progress, g4_min64(done, total), total);
}

static int copy(struct copying *c, struct store *from, struct store *to, char **names, int count)
{
	const uint64_t began = g4_clock_ns(CLOCK_MONOTONIC);
	struct store_snapshot *list = NULL;
	struct store_copy_result r = {0};
	char text[2][G4_SIZE_TEXT_BYTES];
	size_t found = 0;
	int rc = cli_repo_lock(&c->from, from, false);

	if (rc == 0)
		rc = cli_repo_lock(&c->repo, to, false);
	if (rc == 0 && memcmp(from->uuid, to->uuid, sizeof(to->uuid)) == 0)
		rc = store_fail(STORE_E_INVAL, "both are the same repository");
	if (rc == 0) /* before the index is loaded: that has all that they need then */
		rc = cli_snapshots_choose(&c->repo, from, names, count, &list, &found);
	if (rc == 0)
		rc = store_index_load(from, NULL, NULL, NULL);
	if (rc == 0)
		rc = store_index_load(to, NULL, NULL, NULL);
	if (rc == 0 && c->repo.json)
		printf("{\"snapshots\": [");
	cli_progress_start(&c->repo, &c->progress, "copying");
	const bool began_output = rc == 0;
	if (rc == 0)
		rc = store_copy(from, to, list, found, &c->options, &r);
	g4_progress_clear(&c->progress);
	const double seconds = (double)(g4_clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
	if (began_output && c->repo.json)
		printf("], \"complete\": %s, \"copied\": %llu, \"present\": %llu, \"read_bytes\": %llu, \"new_blobs\": %llu, "
		       "\"new_bytes\": %llu, \"stored_bytes\": %llu, \"same_cuts\": %s, \"seconds\": %.3f}\n",
		       rc == 0 ? "true" : "false", (unsigned long long)r.copied, (unsigned long long)r.present,
		       (unsigned long long)r.read_bytes, (unsigned long long)r.new_blobs,
		       (unsigned long long)r.new_bytes, (unsigned long long)r.stored_bytes,
		       store_same_cuts(from, to) ? "true" : "false", seconds);
	else if (began_output && !c->repo.quiet)
		printf("%llu %s %scopied, %llu %s there; read %s, stored %s, in %.1f s\n", (unsigned long long)r.copied,
		       g4_counted(r.copied, "snapshot", "snapshots"), c->options.dry_run ? "would be " : "",
		       (unsigned long long)r.present, g4_counted(r.present, "was", "were"),
		       g4_format_size(r.read_bytes, text[0], sizeof(text[0])),
		       g4_format_size(r.stored_bytes, text[1], sizeof(text[1])), seconds);
	store_snapshots_free(list, found);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(&c->repo, rc);
}

static int take(struct copying *c, int option, char **argv)
{
	uint64_t number;

	switch (option) {
	case 'l':
		return cli_parse_level(optarg, &c->options.level) ?
			       G4_EXIT_OK :
			       g4_cli_usage("copy", "'%s' is no level: -100 to 22", optarg);
	case 't':
		if (!cli_parse_number(optarg, CLI_THREADS_MAX, &number) || number == 0)
			return g4_cli_usage("copy", "'%s' is no number of threads", optarg);
		c->options.threads = (uint32_t)number;
		return G4_EXIT_OK;
	case 'n':
		c->options.dry_run = true;
		return G4_EXIT_OK;
	default:
		return g4_cli_bad_option("copy", option, argv);
	}
}

int cli_copy(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FROM_LONG,
						     CLI_FILTER_LONG,
						     CLI_NO_LOCK_LONG,
						     {"level", required_argument, NULL, 'l'},
						     {"threads", required_argument, NULL, 't'},
						     {"dry-run", no_argument, NULL, 'n'},
						     {NULL, 0, NULL, 0}};
	struct copying c = {.options = {.level = CLI_LEVEL, .copied = tell_copied, .progress = show_copy}};
	struct store *to, *from;
	int option, status = G4_EXIT_OK;

	c.options.user = &c;
	cli_repo_init(&c.repo, "copy");
	cli_repo_init_from(&c.from, "copy");
	c.from.reads = true;
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT "l:t:n", long_options, NULL)) != -1)
		if (!cli_repo_take(&c.repo, option, optarg) && !cli_repo_take_from(&c.from, option, optarg))
			status = take(&c, option, argv);
	if (status != G4_EXIT_OK)
		return status;
	if (c.from.path == NULL)
		return g4_cli_usage("copy", "from which repository? Say --from-repo or set SHREDDER_FROM_REPOSITORY");
	c.from.upload_limit = c.repo.upload_limit;
	c.from.download_limit = c.repo.download_limit;
	c.from.retry_lock = c.repo.retry_lock;
	c.from.quiet = c.repo.quiet;
	c.from.no_lock = c.repo.no_lock; /* this one is written */
	c.repo.no_lock = false;
	status = cli_repo_open(&c.from, &from);
	if (status != G4_EXIT_OK)
		return status;
	status = cli_repo_open(&c.repo, &to);
	if (status == G4_EXIT_OK) {
		status = copy(&c, from, to, argv + optind, argc - optind);
		cli_repo_close(&c.repo, to);
	}
	cli_repo_close(&c.from, from);
	return g4_cli_finish_output("copy", status);
}
