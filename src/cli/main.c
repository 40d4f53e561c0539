/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gpu4fs program: finds the subcommand by its first argument or, called as mkfs.gpu4fs, fsck.gpu4fs, mount.gpu4fs, or
 * the last two with fuse. or fuseblk. in front of gpu4fs, by its own name.
 */
#include <getopt.h>
#include <stdarg.h>

#include "cli/cli.h"

struct command {
	const char *name;
	const char *summary;
	const char *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define COMMAND_ROW(name, summary) {#name, summary, g4_help_##name, g4_cli_##name},
	G4_CLI_COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* "mkfs.gpu4fs" -> mkfs; NULL for any other name. */
static const struct command *command_of_program(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *program = slash == NULL ? path : slash + 1;
	char name[16];

	const char *dot = strchr(program, '.');
	if (dot == NULL || (size_t)(dot - program) >= sizeof(name) ||
	    (strcmp(dot, ".gpu4fs") != 0 && strcmp(dot, ".fuse.gpu4fs") != 0 && strcmp(dot, ".fuseblk.gpu4fs") != 0))
		return NULL;
	memcpy(name, program, (size_t)(dot - program));
	name[dot - program] = 0;
	return find_command(name);
}

static void print_overview(FILE *out)
{
	fputs("usage: gpu4fs COMMAND [OPTION...] ARGUMENT...\n\n", out);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].summary);
	fputs("  help      show the help of a command\n"
	      "  version   show the version\n\n"
	      "'gpu4fs COMMAND --help' tells more. A device is an image file, a block device,\n"
	      "dax:PATH for memory that is mapped, or mem:SIZE for memory that is not kept;\n"
	      "nvme:ADDRESS is a drive that 'gpu4fs nvme bind' has taken from the kernel;\n"
	      "emu: before one of these is an emulated NVMe controller over it, for tests;\n"
	      "trace:FILE: before one records its reads and writes for 'gpu4fs trace'.\n",
	      out);
}

static int help(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		print_overview(stdout);
		return G4_EXIT_OK;
	}
	const struct command *command = find_command(argv[1]);
	if (command == NULL)
		return g4_cli_usage("help", "there is no command '%s'", argv[1]);
	g4_cli_print_help(command->name, command->help);
	return G4_EXIT_OK;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
	const struct command *command = command_of_program(argc > 0 ? argv[0] : "gpu4fs");

	if (command == NULL) {
		if (argc < 2) {
			print_overview(stderr);
			return G4_EXIT_USAGE;
		}
		argc--;
		argv++;
		if (is_one_of(argv[0], "help", "--help", "-h"))
			return help(argc, argv);
		if (is_one_of(argv[0], "version", "--version", "-V")) {
			puts("gpu4fs " G4_VERSION);
			return G4_EXIT_OK;
		}
		command = find_command(argv[0]);
		if (command == NULL) {
			g4_cli_error(NULL, "there is no command '%s'; 'gpu4fs help' lists them", argv[0]);
			return G4_EXIT_USAGE;
		}
	}
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			g4_cli_print_help(command->name, command->help);
			return G4_EXIT_OK;
		}
		if (strcmp(argv[i], "--version") == 0) {
			puts("gpu4fs " G4_VERSION);
			return G4_EXIT_OK;
		}
	}
	opterr = 0; /* the subcommands say it in our words */
	return g4_cli_finish_output(command->name, command->run(argc, argv));
}
