/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs du: what trees take, inside a file system that is not mounted, or that gpu4fs serve has: sums come from the engine. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/attach.h"
#include "print/report.h"

const char g4_help_du[] = "[-h] [-j N] [--json] --image IMAGE|--socket PATH NAME...\n\n"
			  "Says how much space each NAME takes, with all that is below it, how long its files are\n"
			  "together, and how many they are, in a file system that is not mounted, or that\n"
			  "'gpu4fs serve' has. Names begin at its root. Files with several names below one NAME\n"
			  "count once. On a mounted file system use du(1).\n\n"
			  "      --image IMAGE  the device with the file system, which is not mounted\n"
			  "      --socket PATH  where 'gpu4fs serve' serves it\n"
			  "  -j, --jobs=N       use N threads, not as many as there are processors\n"
			  "  -h                 accepted, as of du(1): behind bytes there is a unit anyway\n"
			  "      --json         print one JSON object\n"
			  "      --help         show this\n";

static int show_progress(void *context, const struct gpu4fs_usage *so_far)
{
	struct g4_progress *progress = context;
	char text[80];

	if (g4_progress_wanted(progress)) {
		snprintf(text, sizeof(text), "%llu %s, %llu %s", (unsigned long long)so_far->files,
			 g4_counted(so_far->files, "file", "files"), (unsigned long long)so_far->directories,
			 g4_counted(so_far->directories, "directory", "directories"));
		g4_progress_text(progress, text);
	}
	return g4_cli_interrupted();
}

static bool show(struct g4_report *report, gpu4fs *fs, const char *name, long jobs)
{
	struct g4_progress progress = {0};
	struct gpu4fs_usage usage;

	g4_progress_start(&progress, "du");
	const int rc = gpu4fs_usage_by(fs, NULL, name, (uint32_t)jobs, &usage, show_progress, &progress);
	g4_progress_clear(&progress);
	if (rc < 0) {
		g4_cli_failed("du", name, rc);
		return false;
	}
	g4_report_object(report, NULL);
	g4_report_name(report, "name", name, strlen(name));
	g4_report_size(report, "space_bytes", usage.blocks * 512);
	g4_report_size(report, "size_bytes", usage.bytes);
	g4_report_count(report, "files", usage.files);
	g4_report_count(report, "directories", usage.directories);
	g4_report_count(report, "links", usage.links);
	g4_report_count(report, "others", usage.others);
	g4_report_end(report);
	if (usage.unread == 0)
		return true;
	g4_cli_error("du", "%s: %llu %s not counted; 'gpu4fs find' says which, and why", name,
		     (unsigned long long)usage.unread,
		     g4_counted(usage.unread, "directory below it could not be read, and is",
				"directories below it could not be read, and are"));
	return false;
}

int g4_cli_du(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"jobs", required_argument, NULL, 'j'},
						     {"json", no_argument, NULL, 'J'},
						     {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	struct g4_report report;
	bool json = false, good = true;
	long jobs = g4_cli_jobs();

	for (int answer; (answer = getopt_long(argc, argv, ":hj:", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'J')
			json = true;
		else if (answer == 'j' && !g4_cli_parse_jobs(optarg, &jobs))
			return g4_cli_usage("du", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS, optarg);
		else if (answer != 'j' && answer != 'h')
			return g4_cli_bad_option("du", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("du", "one of --image and --socket is needed: on a mounted file system use du(1)");
	if (optind == argc)
		return g4_cli_usage("du", "a name is needed");
	gpu4fs *fs = g4_cli_attach("du", image, socket);
	if (fs == NULL)
		return G4_EXIT_FAILURE;
	g4_cli_catch_interrupts();
	g4_report_start(&report, stdout, json);
	g4_report_list(&report, "names");
	for (int i = optind; i < argc && !g4_cli_interrupted(); i++)
		good = show(&report, fs, argv[i], jobs) && good;
	g4_report_end(&report);
	g4_report_finish(&report);
	const int rc = g4_cli_detach("du", fs, image != NULL ? image : socket);
	good = !g4_cli_ended_early("du") && good;
	return good && rc == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
