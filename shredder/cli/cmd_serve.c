/* SPDX-License-Identifier: Apache-2.0 */
/* shredder serve, shredder identity: the agent at a site, and how both sides know each other. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/repo.h"
#include "site/site.h"

const char cli_help_serve[] =
	"[OPTION]... --identity FILE --clients FILE DIR\n\n"
	"Keeps repositories below DIR for other machines, over HTTPS with TLS 1.3, until Ctrl-C. It needs no password and sees\n"
	"no contents. A line of the clients' file is: NAME KEY REPOSITORY [append-only] [quota=SIZE]. SIGHUP: it is read again.\n\n"
	"      --identity FILE    this site's key, made by 'shredder identity' [SHREDDER_IDENTITY]\n"
	"  -c, --clients FILE     who may do what\n"
	"  -l, --listen ADDRESS   [everywhere]\n"
	"  -p, --port N           0 is any that is free [8448]\n"
	"  -j, --json             JSON instead of text\n"
	"      --help             show this\n";
const char cli_help_identity[] =
	"[OPTION]... FILE\n\n"
	"Makes a private key and a certificate around it when FILE is not there, and prints the key that the other side must\n"
	"know: a site's for --site-key, a client's for the file that 'shredder serve' reads.\n\n"
	"  -j, --json             JSON instead of text\n"
	"      --help             show this\n";

#define DEFAULT_PORT 8448
enum { OPT_IDENTITY = CLI_OPT_REPO_FREE };

#ifdef SHREDDER_REMOTE

static int failed(const char *command)
{
	g4_cli_error(command, "%s", store_message());
	return G4_EXIT_FAILURE;
}

static void tell_refused(void *user, const char *client, const char *sentence)
{
	pthread_mutex_t *mutex = (pthread_mutex_t *)user;

	pthread_mutex_lock(mutex);
	cli_warn("serve", client, sentence);
	pthread_mutex_unlock(mutex);
}

/* The old ones stay when the file is wrong. */
static void read_clients(struct site *site, const char *file)
{
	struct site_clients clients;

	if (site_clients_read(file, &clients) != 0) {
		(void)failed("serve");
		return;
	}
	const size_t count = clients.count;
	site_take_clients(site, &clients);
	fprintf(stderr, "%s serve: %s was read again: %zu lines\n", g4_program, file, count);
}

static int serve(struct site_options *options, const char *file, bool json)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	char key[SITE_KEY_BYTES];
	struct site *site;
	sigset_t ending;
	int number;

	options->note = tell_refused;
	options->user = &mutex;
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ending, NULL); /* before there are threads */
	signal(SIGPIPE, SIG_IGN);
	if (site_clients_read(file, &options->clients) != 0)
		return failed("serve");
	if (site_identity_key(options->identity, key) != 0) {
		site_clients_free(&options->clients);
		return failed("serve");
	}
	if (site_start(options, &site) != 0)
		return failed("serve");
	if (json)
		printf("{\"port\": %u, \"key\": \"%s\"}\n", site_port(site), key);
	else
		printf("serving %s at port %u; clients say --site-key %s\n", options->root, site_port(site), key);
	fflush(stdout);
	for (;;) {
		if (sigwait(&ending, &number) != 0)
			continue;
		if (number != SIGHUP)
			break;
		read_clients(site, file);
	}
	site_stop(site);
	return G4_EXIT_OK;
}

int cli_serve(int argc, char **argv)
{
	static const struct option long_options[] = {{"identity", required_argument, NULL, OPT_IDENTITY},
						     {"clients", required_argument, NULL, 'c'},
						     {"listen", required_argument, NULL, 'l'},
						     {"port", required_argument, NULL, 'p'},
						     {"json", no_argument, NULL, 'j'},
						     {NULL, 0, NULL, 0}};
	struct site_options options = {.identity = getenv("SHREDDER_IDENTITY"), .port = DEFAULT_PORT};
	const char *file = NULL;
	uint64_t number;
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, ":c:l:p:j", long_options, NULL)) != -1) {
		if (option == OPT_IDENTITY)
			options.identity = optarg;
		else if (option == 'c')
			file = optarg;
		else if (option == 'l')
			options.address = optarg;
		else if (option == 'j')
			json = true;
		else if (option != 'p')
			return g4_cli_bad_option("serve", option, argv);
		else if (!cli_parse_number(optarg, UINT16_MAX, &number))
			return g4_cli_usage("serve", "'%s' is no port", optarg);
		else
			options.port = (uint16_t)number;
	}
	if (optind + 1 != argc)
		return g4_cli_usage("serve", "it takes one directory");
	if (options.identity == NULL || file == NULL)
		return g4_cli_usage("serve", "say --identity and --clients");
	options.root = argv[optind];
	const int status = serve(&options, file, json);
	return g4_cli_finish_output("serve", status);
}

int cli_identity(int argc, char **argv)
{
	static const struct option long_options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	char key[SITE_KEY_BYTES];
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, ":j", long_options, NULL)) != -1) {
		if (option != 'j')
			return g4_cli_bad_option("identity", option, argv);
		json = true;
	}
	if (optind + 1 != argc)
		return g4_cli_usage("identity", "it takes one file");
	int rc = store_crypto_init();
	if (rc == 0)
		rc = site_identity_make(argv[optind]);
	if (rc == 0 || rc == STORE_E_EXISTS)
		rc = site_identity_key(argv[optind], key);
	if (rc != 0)
		return failed("identity");
	printf(json ? "{\"key\": \"%s\"}\n" : "%s\n", key);
	return g4_cli_finish_output("identity", G4_EXIT_OK);
}

#else

int cli_serve(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	g4_cli_error("serve", "this shredder was built without libmicrohttpd and GnuTLS");
	return G4_EXIT_FAILURE;
}

int cli_identity(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	g4_cli_error("identity", "this shredder was built without GnuTLS");
	return G4_EXIT_FAILURE;
}

#endif
