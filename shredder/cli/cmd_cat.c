/* SPDX-License-Identifier: Apache-2.0 */
/* shredder cat and list: what a repository consists of, for somebody who wants to know. Neither takes a lock: files never change. */
#include <stdlib.h>
#include <string.h>

#include "cli/repo.h"
#include "store/backend.h"
#include "store/blob.h"

const char cli_help_cat[] =
	"[OPTION]... config | snapshot ID | tree SNAPSHOT[:PATH] | pack ID | index ID | key ID | lock ID | blob ID\n\n"
	"Prints what a file of the repository says, as JSON: of a pack or an index the blobs in it, of a tree the entries with their\n"
	"chunks. Of a blob its bytes are printed as they are. An ID may be the beginning of one, but a blob's. The configuration of an\n"
	"encrypted repository has the secret by which files are cut.\n\n" CLI_REPO_HELP CLI_FILTER_HELP
	"      --help             show this\n";

const char cli_help_list[] = "[OPTION]... blobs | packs | index | snapshots | keys | locks\n\n"
			     "Lists them by their names, one a line; of blobs with their type.\n\n" CLI_REPO_HELP
			     "      --help             show this\n";

/* What they are called on the command line. */
static const struct {
	const char *one, *many;
	enum store_kind kind;
} kinds[] = {{"pack", "packs", STORE_PACK},
	     {"index", "index", STORE_INDEX},
	     {"snapshot", "snapshots", STORE_SNAPSHOT},
	     {"key", "keys", STORE_KEY},
	     {"lock", "locks", STORE_LOCK}};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* ------------------------------------------------------------------------------------------------------------------ cat */

static void print_config(const struct store *s)
{
	struct store_time created = {.seconds = s->created};

	fputs("{\"id\": \"", stdout);
	for (size_t i = 0; i < sizeof(s->uuid); i++)
		printf("%02x", s->uuid[i]);
	printf("\", \"version\": %u, \"encrypted\": %s, \"parity\": %u, \"created\": ", s->version,
	       s->encrypted ? "true" : "false", s->parity);
	cli_print_json_time(&created);
	fputs(", \"chunker\": ", stdout);
	cli_print_params(stdout, &s->params);
	puts("}");
}

/* The blobs that a header tells of; what is behind it in `in` stays there. */
static int print_header(const struct store *s, struct store_in *in, const struct store_id *name, uint64_t bytes)
{
	struct store_header header;
	struct store_header_entry entry;
	char hex[STORE_HEX_BYTES];
	bool first = true;

	printf("{\"pack\": \"%s\", \"bytes\": %llu, \"blobs\": [", store_hex(name, hex), (unsigned long long)bytes);
	store_header_open(&header, in, s->version);
	for (; store_header_next(&header, &entry); first = false) {
		printf("%s\n  {\"id\": \"%s\", \"type\": \"%s\", \"offset\": %u, \"stored\": %u, \"bytes\": %u",
		       first ? "" : ",", store_hex(&entry.id, hex), entry.type == STORE_TREE ? "tree" : "data",
		       entry.offset, entry.stored, entry.raw);
		if (entry.grouped)
			printf(", \"group_offset\": %u", entry.inner);
		putchar('}');
	}
	fputs("]}", stdout);
	return in->bad ? store_fail(STORE_E_DAMAGED, "the header of pack %.16s is damaged", store_hex(name, hex)) : 0;
}

static int print_pack(struct store *s, const struct store_id *name)
{
	struct store_buf header = {0};
	uint64_t bytes;
	int rc = s->backend->ops->size(s->backend, STORE_PACK, name, &bytes);

	if (rc == 0)
		rc = store_pack_header_get(s, name, bytes, &header);
	if (rc == 0) {
		struct store_in in = store_in_of(header.data, header.size);

		rc = print_header(s, &in, name, bytes);
		putchar('\n');
	}
	store_buf_free(&header);
	return rc;
}

static int print_index(struct store *s, const struct store_id *name)
{
	struct store_buf body = {0};
	int rc = store_file_get(s, STORE_INDEX, name, &body);
	struct store_in in = store_in_of(body.data, body.size);
	struct store_id pack;

	if (rc == 0)
		putchar('[');
	const uint64_t packs = rc == 0 ? store_in_count(&in, STORE_ID_BYTES + 2) : 0;
	for (uint64_t i = 0; i < packs && rc == 0 && !in.bad; i++) {
		const uint8_t *bytes = store_in_bytes(&in, STORE_ID_BYTES);
		const uint64_t size = store_in_limited(&in, STORE_PACK_MAX);

		if (in.bad)
			break;
		memcpy(pack.bytes, bytes, sizeof(pack.bytes));
		fputs(i == 0 ? "" : ",\n", stdout);
		rc = print_header(s, &in, &pack, size);
	}
	if (rc == 0)
		puts("]");
	if (rc == 0 && !store_in_done(&in))
		rc = store_fail(STORE_E_DAMAGED, "an index file is damaged");
	store_buf_free(&body);
	return rc;
}

static int print_key(struct store *s, const struct store_id *name)
{
	struct store_key_info *keys;
	size_t count;
	const int rc = store_key_list(s, &keys, &count);

	for (size_t i = 0; i < count; i++)
		if (store_id_equal(&keys[i].name, name)) {
			cli_print_json_key(&keys[i]);
			putchar('\n');
		}
	free(keys);
	return rc;
}

static int print_lock(struct store *s, const struct store_id *name)
{
	struct store_lock_info lock;
	char hex[STORE_HEX_BYTES];
	const int rc = store_lock_get(s, name, &lock);

	if (rc != 0)
		return rc;
	const struct store_time time = {.seconds = lock.time};
	printf("{\"id\": \"%s\", \"exclusive\": %s, \"time\": ", store_hex(name, hex),
	       lock.exclusive ? "true" : "false");
	cli_print_json_time(&time);
	printf(", \"process\": %llu, \"host\": ", (unsigned long long)lock.process);
	cli_print_json_text(lock.host);
	fputs(", \"user\": ", stdout);
	cli_print_json_text(lock.user);
	printf(", \"dead\": %s}\n", lock.dead ? "true" : "false");
	return 0;
}

static int print_snapshot(struct store *s, const struct cli_repo *repo, const char *text)
{
	const struct store_filter filter = cli_repo_filter(repo);
	struct store_snapshot snapshot;
	const int rc = store_snapshot_find(s, text, &filter, &snapshot);

	if (rc != 0)
		return rc;
	cli_print_json_snapshot(&snapshot);
	putchar('\n');
	store_snapshot_free(&snapshot);
	return 0;
}

static void print_content(const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_part part;
	char hex[STORE_HEX_BYTES];
	bool first = true;

	fputs("\"content\": [", stdout);
	for (; in.at != in.end && store_part_next(&in, &part); first = false) {
		fputs(first ? "" : ", ", stdout);
		if (part.hole)
			printf("{\"hole\": %llu}", (unsigned long long)part.bytes);
		else
			printf("{\"id\": \"%s\", \"bytes\": %llu}", store_hex(&part.id, hex),
			       (unsigned long long)part.bytes);
	}
	putchar(']');
}

static void print_entry(const struct store_node *node)
{
	char name[STORE_NAME_MAX + 1];

	memcpy(name, node->name, node->name_bytes);
	name[node->name_bytes] = 0;
	fputs("{\"entry\": ", stdout);
	cli_print_json_node(name, node);
	fputs(", ", stdout);
	print_content(&node->content);
	putchar('}');
}

/* A directory's entries, or that of something else. */
static int print_tree(struct store *s, const struct cli_repo *repo, const char *text)
{
	struct store_snapshot snapshot;
	struct store_codec codec;
	struct store_buf hold = {0};
	struct store_node node;
	struct store_dir dir;
	const char *path;
	int status = cli_snapshot_find(repo, s, text, &snapshot, &path), rc;
	bool first = true;

	if (status != G4_EXIT_OK)
		return status;
	const struct store_content root = store_snapshot_root(&snapshot);
	store_codec_init(&codec, 0);
	rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = store_path_find(s, &codec, &root, path, &node, &hold);
	if (rc == 0)
		putchar('[');
	if (rc == 0 && node.type != STORE_NODE_DIR) {
		print_entry(&node);
	} else if (rc == 0) {
		store_dir_open(&dir, s, &codec, &node.content);
		for (; (rc = store_dir_next(&dir, &node)) == 1; first = false) {
			fputs(first ? "" : ",\n", stdout);
			print_entry(&node);
		}
		store_dir_close(&dir);
	}
	if (rc == 0)
		puts("]");
	store_codec_free(&codec);
	store_buf_free(&hold);
	store_snapshot_free(&snapshot);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(repo, rc);
}

static int print_blob(struct store *s, const char *text)
{
	struct store_codec codec;
	struct store_buf bytes = {0};
	struct store_entry entry;
	struct store_id id;
	uint32_t number;

	if (!store_unhex(text, &id))
		return store_fail(STORE_E_INVAL, "'%s' is no name of a blob, which has 64 digits", text);
	int rc = store_index_load(s, NULL, NULL, NULL);
	if (rc == 0)
		rc = store_index_find(s, &id, &number, &entry);
	if (rc == STORE_E_NO_BLOB)
		rc = store_fail(rc, "the index does not know blob %.16s", text);
	store_codec_init(&codec, 0);
	if (rc == 0)
		rc = store_blob_get(s, &codec, (enum store_blob_type)entry.type, &id, &bytes);
	if (rc == 0)
		fwrite(bytes.data, 1, bytes.size, stdout);
	store_codec_free(&codec);
	store_buf_free(&bytes);
	return rc;
}

static int print_file(struct store *s, const struct cli_repo *repo, enum store_kind kind, const char *text)
{
	struct store_id name;

	if (kind == STORE_SNAPSHOT)
		return print_snapshot(s, repo, text);
	const int rc = store_find_name(s->backend, kind, text, &name);

	if (rc != 0)
		return rc;
	switch (kind) {
	case STORE_PACK:
		return print_pack(s, &name);
	case STORE_INDEX:
		return print_index(s, &name);
	case STORE_KEY:
		return print_key(s, &name);
	default:
		return print_lock(s, &name);
	}
}

static int cat(const struct cli_repo *repo, struct store *s, char **words)
{
	int rc = STORE_E_INVAL;

	if (strcmp(words[0], "tree") == 0)
		return print_tree(s, repo, words[1]);
	if (strcmp(words[0], "config") == 0) {
		print_config(s);
		return G4_EXIT_OK;
	}
	if (strcmp(words[0], "blob") == 0)
		rc = print_blob(s, words[1]);
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(words[0], kinds[i].one) == 0)
			rc = print_file(s, repo, kinds[i].kind, words[1]);
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(repo, rc);
}

static bool is_cat(char **words, int count)
{
	bool known = count > 0 && (strcmp(words[0], "tree") == 0 || strcmp(words[0], "blob") == 0);

	if (count > 0 && strcmp(words[0], "config") == 0)
		return count == 1;
	for (size_t i = 0; i < KINDS && count > 0; i++)
		known = known || strcmp(words[0], kinds[i].one) == 0;
	return known && count == 2;
}

int cli_cat(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, CLI_FILTER_LONG, {NULL, 0, NULL, 0}};
	struct cli_repo repo;
	struct store *s;
	int option, status;

	cli_repo_init(&repo, "cat");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT CLI_FILTER_SHORT, long_options, NULL)) != -1)
		if (!cli_repo_take(&repo, option, optarg))
			return g4_cli_bad_option("cat", option, argv);
	if (!is_cat(argv + optind, argc - optind))
		return g4_cli_usage("cat",
				    "it takes config, or snapshot, tree, pack, index, key, lock or blob with a name");
	if ((status = cli_repo_open(&repo, &s)) == G4_EXIT_OK) {
		status = cat(&repo, s, argv + optind);
		cli_repo_close(&repo, s);
	}
	return g4_cli_finish_output("cat", status);
}

/* ----------------------------------------------------------------------------------------------------------------- list */

static int list_blobs(const struct cli_repo *repo, struct store *s)
{
	struct store_entry entry;
	char hex[STORE_HEX_BYTES];
	int rc = store_index_load(s, NULL, NULL, NULL);
	const uint64_t count = rc == 0 ? store_index_count(s) : 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = store_index_at(s, i, &entry);
		if (rc != 0)
			break;
		const char *type = entry.type == STORE_TREE ? "tree" : "data";
		store_hex(&entry.id, hex);
		if (repo->json)
			printf("%s\n  {\"id\": \"%s\", \"type\": \"%s\", \"bytes\": %u}", i == 0 ? "" : ",", hex, type,
			       entry.raw);
		else
			printf("%s %s\n", type, hex);
	}
	return rc;
}

static int list_files(const struct cli_repo *repo, struct store *s, enum store_kind kind)
{
	struct store_listed *names;
	size_t count;
	char hex[STORE_HEX_BYTES];
	const int rc = store_list_all(s->backend, kind, &names, &count);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		store_hex(&names[i].name, hex);
		if (repo->json)
			printf("%s\n  {\"id\": \"%s\", \"bytes\": %llu}", i == 0 ? "" : ",", hex,
			       (unsigned long long)names[i].bytes);
		else
			puts(hex);
	}
	free(names);
	return 0;
}

static int list(const struct cli_repo *repo, struct store *s, const char *what)
{
	int rc = 0;

	if (repo->json)
		putchar('[');
	if (strcmp(what, "blobs") == 0)
		rc = list_blobs(repo, s);
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(what, kinds[i].many) == 0)
			rc = list_files(repo, s, kinds[i].kind);
	if (repo->json)
		puts("\n]");
	return rc == 0 ? G4_EXIT_OK : cli_repo_failed(repo, rc);
}

int cli_list(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, {NULL, 0, NULL, 0}};
	struct cli_repo repo;
	struct store *s;
	int option, status;

	cli_repo_init(&repo, "list");
	while ((option = getopt_long(argc, argv, CLI_REPO_SHORT, long_options, NULL)) != -1)
		if (!cli_repo_take(&repo, option, optarg))
			return g4_cli_bad_option("list", option, argv);
	bool known = argc - optind == 1 && strcmp(argv[optind], "blobs") == 0;
	for (size_t i = 0; i < KINDS && argc - optind == 1; i++)
		known = known || strcmp(argv[optind], kinds[i].many) == 0;
	if (!known)
		return g4_cli_usage("list", "it takes blobs, packs, index, snapshots, keys or locks");
	if ((status = cli_repo_open(&repo, &s)) == G4_EXIT_OK) {
		status = list(&repo, s, argv[optind]);
		cli_repo_close(&repo, s);
	}
	return g4_cli_finish_output("list", status);
}
