/* SPDX-License-Identifier: Apache-2.0 */
/* shredder key: the passwords and key files that open a repository. */
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"
#include "store/backend.h"

const char cli_help_key[] =
	"[OPTION]... list | add | passwd | remove ID\n\n"
	"Lists what opens a repository, adds a password or a key file, replaces the one that is used, or removes one.\n"
	"Who had a removed password and a copy of its key file from before can still read copies of the repository.\n\n" CLI_REPO_HELP
	"      --new-password-file FILE  the new password, the first line\n"
	"      --new-key-file FILE  a new key file instead\n"
	"      --help             show this\n";

enum { OPT_NEW_PASSWORD_FILE = CLI_OPT_REPO_FREE, OPT_NEW_KEY_FILE };

static int list(const struct cli_repo *repo, struct store *s)
{
	struct store_key_info *keys;
	size_t count;
	char hex[STORE_HEX_BYTES], time[32];
	const int rc = store_key_list(s, &keys, &count);

	if (repo->json)
		putchar('[');
	for (size_t i = 0; i < count; i++) {
		const struct store_time created = {.seconds = keys[i].created};

		store_hex(&keys[i].name, hex);
		if (repo->json) {
			fputs(i == 0 ? "" : ", ", stdout);
			cli_print_json_key(&keys[i]);
			continue;
		}
		printf("%c %.16s  %s  %-8s  ", keys[i].current ? '*' : ' ', hex, cli_format_time(&created, time),
		       keys[i].kdf == 1 ? "password" : "key file");
		cli_print_name(stdout, keys[i].label);
		putchar('\n');
	}
	if (repo->json)
		puts("]");
	free(keys);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(repo, rc);
}

static int add(const struct cli_repo *repo, struct cli_repo *fresh, struct store *s, bool replace)
{
	struct store_secret secret;
	struct store_id name;
	char hex[STORE_HEX_BYTES];
	int status = cli_repo_secret(fresh, true, &secret);

	if (status != G4_EXIT_OK)
		return status;
	const int rc = replace ? store_key_replace(s, &secret, &name) : store_key_add(s, &secret, &name);
	if (rc != 0)
		status = cli_repo_failed(repo, rc);
	else if (repo->json)
		printf("{\"id\": \"%s\"}\n", store_hex(&name, hex));
	else
		printf("key %.16s opens the repository%s\n", store_hex(&name, hex),
		       replace ? " instead of the one that was used" : ", too");
	cli_repo_close(fresh, NULL);
	return status;
}

static int remove_one(const struct cli_repo *repo, struct store *s, const char *text)
{
	struct store_id name;
	char hex[STORE_HEX_BYTES];
	int rc = store_find_name(s->backend, STORE_KEY, text, &name);

	if (rc == 0 && store_id_equal(&name, &s->key_name))
		rc = store_fail(STORE_E_INVAL, "this key is the one that is used now; use another one to remove it");
	if (rc == 0)
		rc = store_key_remove(s, &name);
	if (rc != 0)
		return cli_repo_failed(repo, rc);
	if (!repo->json)
		printf("removed key %.16s\n", store_hex(&name, hex));
	return G4_EXIT_OK;
}

static int work(const struct cli_repo *repo, struct cli_repo *fresh, struct store *s, char **words, int count)
{
	const bool removes = strcmp(words[0], "remove") == 0;
	const bool adds = strcmp(words[0], "add") == 0, replaces = strcmp(words[0], "passwd") == 0;

	if (!s->encrypted) {
		g4_cli_error("key", "%s is not encrypted: it has no keys", s->backend->path);
		return G4_EXIT_FAILURE;
	}
	if (count != (removes ? 2 : 1) || (!removes && !adds && !replaces && strcmp(words[0], "list") != 0))
		return g4_cli_usage("key", "it takes list, add, passwd, or remove with a key");
	if (removes || replaces) {
		int rc = cli_repo_lock(repo, s, true);

		if (rc == 0) /* passwd would leave a key at each refusal */
			rc = cli_may_remove(s);
		if (rc != 0)
			return cli_repo_failed(repo, rc);
	}
	return removes		? remove_one(repo, s, words[1]) :
	       adds || replaces ? add(repo, fresh, s, replaces) :
				  list(repo, s);
}

int cli_key(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG,
						     {"new-password-file", required_argument, NULL,
						      OPT_NEW_PASSWORD_FILE},
						     {"new-key-file", required_argument, NULL, OPT_NEW_KEY_FILE},
						     {NULL, 0, NULL, 0}};
	struct cli_repo repo, fresh = {.command = "key", .ways = "--new-password-file or --new-key-file"};
	struct store *s;
	int option;

	cli_repo_init(&repo, "key");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1) {
		if (option == OPT_NEW_PASSWORD_FILE)
			fresh.password_file = optarg;
		else if (option == OPT_NEW_KEY_FILE)
			fresh.key_file = optarg;
		else if (!cli_repo_take(&repo, option, optarg))
			return g4_cli_bad_option("key", option, argv);
	}
	if (optind == argc)
		return g4_cli_usage("key", "it takes list, add, passwd, or remove with a key");
	int status = cli_repo_open(&repo, &s);
	if (status == G4_EXIT_OK) {
		status = work(&repo, &fresh, s, argv + optind, argc - optind);
		cli_repo_close(&repo, s);
	}
	return g4_cli_finish_output("key", status);
}
