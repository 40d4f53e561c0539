/* SPDX-License-Identifier: Apache-2.0 */
/* The shredder program: finds the subcommand. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/repo.h"

static const struct {
	const char *name;
	const char *summary;
	const char *help;
	int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND_ROW(function, name, summary) {name, summary, cli_help_##function, cli_##function},
	CLI_COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(*commands))

static void print_overview(FILE *to)
{
	fputs("usage: shredder COMMAND [OPTION]... [ARGUMENT]...\n\nDeduplicating backup, and content-defined chunking at memory speed.\n\n",
	      to);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
	fputs("  help         show the help of a command\n  version      show the version\n\n"
	      "'shredder COMMAND --help' shows the options of a command; shredder(1) tells the whole.\n",
	      to);
}

static size_t find_command(const char *name)
{
	size_t i = 0;

	while (i < COMMAND_COUNT && strcmp(commands[i].name, name) != 0)
		i++;
	return i;
}

static int show_help(size_t command)
{
	g4_cli_print_help(commands[command].name, commands[command].help);
	return g4_cli_finish_output(NULL, G4_EXIT_OK);
}

/* The first word behind options that all commands of the backup have; argc: there is none, or another option is in front of it. */
static int find_word(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_REPO_LONG, {NULL, 0, NULL, 0}};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "+" CLI_REPO_SHORT, long_options, NULL)) != -1)
		if (option == '?' || option == ':')
			return argc;
	const int place = optind;
	optind = 0; /* begin anew */
	return place;
}

/* Anything that asks for help before "--". */
static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0)
			return true;
	return false;
}

/*
 * A standard stream that the caller closed would be the number of the next file that is opened. What takes its place cannot
 * be used, so that attempts fail.
 */
static bool keep_standard_streams(void)
{
	int fd = 0;

	while (fd >= 0 && fd <= STDERR_FILENO) {
		fd = open("/dev/null", O_PATH);
		if (fd > STDERR_FILENO)
			close(fd);
	}
	return fd >= 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	size_t command;

	g4_program = "shredder";
	if (!keep_standard_streams())
		return G4_EXIT_FAILURE;
	if (argc < 2) {
		print_overview(stderr);
		return G4_EXIT_USAGE;
	}
	if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
		printf("shredder %d.%d.%d\n", SHREDDER_VERSION_MAJOR, SHREDDER_VERSION_MINOR, SHREDDER_VERSION_PATCH);
		return g4_cli_finish_output(NULL, G4_EXIT_OK);
	}
	if (strcmp(name, "--help") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
		print_overview(stdout);
		return g4_cli_finish_output(NULL, G4_EXIT_OK);
	}
	if (strcmp(name, "help") == 0) {
		command = find_command(argv[2]);
		return command == COMMAND_COUNT ? g4_cli_usage(NULL, "there is no command '%s'", argv[2]) :
						  show_help(command);
	}
	const int place = name[0] == '-' ? find_word(argc, argv) : 1;
	if (place < argc)
		name = argv[place];
	else if (wants_help(argc, argv)) { /* behind options alone */
		print_overview(stdout);
		return g4_cli_finish_output(NULL, G4_EXIT_OK);
	}
	command = find_command(name);
	if (command == COMMAND_COUNT)
		return g4_cli_usage(NULL, "there is no command '%s'", name);
	for (int i = place; i > 1; i--) /* options of the repository may stand before the command, too */
		argv[i] = argv[i - 1];
	argv[1] = (char *)name;
	if (wants_help(argc - 1, argv + 1))
		return show_help(command);
	opterr = 0;
	return commands[command].run(argc - 1, argv + 1);
}
