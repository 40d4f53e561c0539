/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shredder tag: other tags for snapshots. A snapshot's name is that of its bytes, so it gets a new one: the new file comes first, and a crash
 * between the two leaves both.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"

const char cli_help_tag[] =
	"[OPTION]... [SNAPSHOT]...\n\n"
	"Changes the tags of the snapshots that are named, or of all that match. They have other names afterwards.\n\n" CLI_REPO_HELP
		CLI_FILTER_HELP "      --set TAG,...      these instead of those that it has; \"\" for none\n"
	"      --add TAG,...      these, too; may come several times\n"
	"      --remove TAG,...   not these; may come several times\n"
	"      --help             show this\n";

enum { OPT_SET = CLI_OPT_REPO_FREE, OPT_ADD, OPT_REMOVE };

struct tagging {
	struct cli_repo repo;
	struct cli_texts set, add, remove;
	bool sets;
	uint64_t changed;
};

static void append_all(struct cli_texts *list, char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cli_texts_add(list, texts[i]);
}

static int change(struct tagging *t, struct store *s, struct store_snapshot *snapshot)
{
	const struct store_id old = snapshot->name;
	char before[STORE_HEX_BYTES], after[STORE_HEX_BYTES];
	struct cli_texts tags = {0}, old_tags = {snapshot->tags, snapshot->tags_count};

	if (t->sets)
		append_all(&tags, t->set.texts, t->set.count);
	for (size_t i = 0; i < old_tags.count && !t->sets; i++)
		if (!cli_texts_have(t->remove.texts, t->remove.count, old_tags.texts[i]))
			cli_texts_add(&tags, old_tags.texts[i]);
	append_all(&tags, t->add.texts, t->add.count);
	bool same = tags.count == old_tags.count;
	for (size_t i = 0; i < tags.count && same; i++)
		same = strcmp(tags.texts[i], old_tags.texts[i]) == 0;
	if (same) {
		cli_texts_free(&tags);
		return 0;
	}
	snapshot->tags = tags.texts;
	snapshot->tags_count = tags.count;
	cli_texts_free(&old_tags);
	const int rc = store_snapshot_replace(s, snapshot);
	if (rc != 0)
		return rc;
	store_hex(&old, before);
	store_hex(&snapshot->name, after);
	if (t->repo.json)
		printf("%s\n  {\"old\": \"%s\", \"snapshot\": \"%s\"}", t->changed == 0 ? "" : ",", before, after);
	else if (!t->repo.quiet)
		printf("%.16s is %.16s now\n", before, after);
	t->changed++;
	return 0;
}

/* All are found before the first one changes. */
static int change_all(struct tagging *t, struct store *s, char **names, int count)
{
	struct store_snapshot *list = NULL;
	size_t found = 0;
	/* two at once would leave a snapshot each, and forget counts both */
	int rc = cli_repo_lock(&t->repo, s, true);

	if (rc == 0)
		rc = cli_snapshots_choose(&t->repo, s, names, count, &list, &found);
	if (rc == 0 && found > 0)
		rc = cli_may_remove(s);
	if (t->repo.json)
		putchar('[');
	for (size_t i = 0; i < found && rc == 0; i++)
		rc = change(t, s, &list[i]);
	if (t->repo.json)
		puts("\n]");
	else if (rc == 0 && !t->repo.quiet)
		printf("%llu of %zu snapshots changed\n", (unsigned long long)t->changed, found);
	store_snapshots_free(list, found);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(&t->repo, rc);
}

int cli_tag(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     CLI_FILTER_LONG,
						     {"set", required_argument, NULL, OPT_SET},
						     {"add", required_argument, NULL, OPT_ADD},
						     {"remove", required_argument, NULL, OPT_REMOVE},
						     {NULL, 0, NULL, 0}};
	struct tagging t = {0};
	struct store *s;
	int option, status = G4_EXIT_OK;

	cli_repo_init(&t.repo, "tag");
	while (status == G4_EXIT_OK &&
	       (option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT, long_options, NULL)) != -1) {
		if (cli_repo_take(&t.repo, option, optarg))
			continue;
		if (option == OPT_SET || option == OPT_ADD || option == OPT_REMOVE)
			cli_texts_split(option == OPT_SET ? &t.set : option == OPT_ADD ? &t.add : &t.remove, optarg);
		else
			status = g4_cli_bad_option("tag", option, argv);
		t.sets = t.sets || option == OPT_SET;
	}
	if (status == G4_EXIT_OK && t.sets == (t.add.count + t.remove.count > 0))
		status = g4_cli_usage("tag", t.sets ? "it takes --set, or --add and --remove" :
						      "which tags? Say --set, --add or --remove");
	if (status == G4_EXIT_OK && (status = cli_repo_open(&t.repo, &s)) == G4_EXIT_OK) {
		status = change_all(&t, s, argv + optind, argc - optind);
		cli_repo_close(&t.repo, s);
	}
	cli_texts_free(&t.set);
	cli_texts_free(&t.add);
	cli_texts_free(&t.remove);
	return g4_cli_finish_output("tag", status);
}
