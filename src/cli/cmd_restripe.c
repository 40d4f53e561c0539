/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs restripe: moves pages of files to chunks of the level that the files' policies ask for. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "base/progress_host.h"
#include "base/units_host.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/dedup_files.h"
#include "print/report.h"

const char g4_help_restripe[] =
	"[--raid LEVEL|--dry-run] [--json] FILE|DIRECTORY...\n"
	"   or: gpu4fs restripe [--raid LEVEL|--dry-run] [--json]\n"
	"                    --image IMAGE|--socket PATH [FILE|DIRECTORY]...\n\n"
	"Moves pages of files, and of all files below directories, to chunks of the level that each\n"
	"file's policy asks for ('gpu4fs attr set raid='), where they lie in chunks of another: of a\n"
	"mounted file system, or with --image or --socket of one that is not mounted, or that\n"
	"'gpu4fs serve' has; then paths begin at its root, and without any all files are looked at.\n"
	"Contents, sizes and times stay as they are; others may read and write meanwhile. It may be\n"
	"ended at any time, and given again. A file for which there is no space is told, stays where\n"
	"it is as far as it was not moved, and others follow. Of a mounted file system it is for root and the user\n"
	"who did that.\n\n"
	"What stays where it is, and is counted: pages that several files share, and pages that\n"
	"can not be read or are not what their checksums say. Checksums are moved with what they\n"
	"are of. Directories, and targets of links, are of the file system's own level. After\n"
	"'gpu4fs disk add' nothing moves: what lies in chunks of its level is where it belongs.\n\n"
	"      --raid LEVEL    ask for this level first, for all of these files and directories, as\n"
	"                      'gpu4fs attr set raid=LEVEL' does\n"
	"  -n, --dry-run       move nothing, and say how much lies elsewhere; reading is enough for that\n"
	"      --image IMAGE   the device with the file system, which is not mounted\n"
	"      --socket PATH   where 'gpu4fs serve' serves it\n"
	"      --json          print one JSON object\n"
	"      --help          show this\n\n"
	"Exit status: 0 done; 1 it was ended early, or some pages or files could not be read, or moved;\n"
	"2 wrong usage.\n";

struct restripe {
	struct g4_dedup_place place;
	struct g4_progress progress;
	struct g4_cli_links links; /* files with several names that were dealt with */
	const char *raid;	   /* NULL: as it is */
	uint32_t flags;		   /* GPU4FS_RESTRIPE_LOOK */
	uint64_t files, left_out;
	struct gpu4fs_restriped done;
	int ended; /* by an error that all else would have, too, or by a signal; negative */
};

/* Of a path that could not be dealt with; what has gone meanwhile needs not be. */
static void tell(struct restripe *restripe, const char *path, int64_t result)
{
	if (result == -ENOENT || result == -ESTALE)
		return;
	if (result == -ENOSPC)
		g4_cli_error("restripe",
			     "%s: there is no space in chunks of its level; what is left of it stays where it is",
			     path);
	else if (result == -EPERM && restripe->place.fs == NULL)
		g4_cli_error("restripe", "%s: it is for root and the user who mounted it", path);
	else
		g4_cli_error("restripe", "%s: %s", path, g4_cli_why((int)-result));
	restripe->left_out++;
	/* without space for this file there may be some for a smaller one, or for one of another level */
	if (result == -EROFS || result == -ENOTCONN || result == -EPIPE)
		restripe->ended = (int)result;
}

static void show(struct restripe *restripe)
{
	char size[24], text[96];

	if (!g4_progress_wanted(&restripe->progress))
		return;
	g4_format_size(restripe->done.moved, size, sizeof(size));
	snprintf(text, sizeof(text), restripe->flags ? "%llu files, %s elsewhere" : "%llu files, %s moved",
		 (unsigned long long)restripe->files, size);
	g4_progress_text(&restripe->progress, text);
}

static void move_file(struct restripe *restripe, const char *path)
{
	struct gpu4fs_restriped done;
	struct g4_dedup_handle handle;
	int64_t next = g4_dedup_open(&restripe->place, path, restripe->flags == 0, &handle);

	if (next < 0) {
		tell(restripe, path, next);
		return;
	}
	do {
		next = g4_dedup_restripe(&handle, next, restripe->flags, &done);
		restripe->done.moved += done.moved;
		restripe->done.shared += done.shared;
		restripe->done.damaged += done.damaged;
		show(restripe);
		if (g4_cli_interrupted())
			restripe->ended = -EINTR;
	} while (next > 0 && restripe->ended == 0);
	g4_dedup_close(&handle);
	if (next < 0)
		tell(restripe, path, next);
	else if (next == 0)
		restripe->files++;
}

/* Whether a file is dealt with for the first time, by whatever name. */
static bool is_new(struct restripe *restripe, const char *path, const struct g4_dedup_entry *entry)
{
	if (entry->names < 2)
		return true;
	const uint64_t device = restripe->place.fs ? 0 : restripe->place.device; /* paths may be of several mounts */
	if (g4_cli_links_find(&restripe->links, device, entry->ino) != NULL)
		return false;
	(void)g4_cli_links_note(&restripe->links, device, entry->ino, path); /* without memory it is looked at again */
	return true;
}

static void walk(struct restripe *restripe, const char *path, const struct g4_dedup_entry *entry);

static void walk_directory(struct restripe *restripe, const char *path)
{
	struct g4_dedup_entry entry;
	struct g4_dedup_dir dir;
	int rc = g4_dedup_dir_open(&restripe->place, path, &dir);

	if (rc < 0) {
		tell(restripe, path, rc);
		return;
	}
	while (restripe->ended == 0 && (rc = g4_dedup_dir_next(&restripe->place, &dir, &entry)) > 0) {
		char *below;
		if (asprintf(&below, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry.name) < 0) {
			rc = -ENOMEM;
			break;
		}
		walk(restripe, below, &entry);
		free(below);
	}
	g4_dedup_dir_close(&dir);
	if (rc < 0)
		tell(restripe, path, rc);
}

static void walk(struct restripe *restripe, const char *path, const struct g4_dedup_entry *entry)
{
	const bool directory = S_ISDIR(entry->mode);

	if (g4_cli_interrupted())
		restripe->ended = -EINTR;
	if (restripe->ended != 0 || (!directory && !S_ISREG(entry->mode)))
		return;
	if (!directory && !is_new(restripe, path, entry))
		return;
	if (restripe->raid != NULL && !g4_cli_set_raid("restripe", restripe->place.fs, path, restripe->raid)) {
		restripe->left_out++;
		return;
	}
	if (directory)
		walk_directory(restripe, path);
	else
		move_file(restripe, path);
}

static void walk_path(struct restripe *restripe, const char *path)
{
	struct g4_dedup_entry entry;
	const int rc = g4_dedup_stat(&restripe->place, path, &entry);

	if (rc < 0) {
		g4_cli_error("restripe", "%s: %s", path, g4_cli_why(-rc));
		restripe->left_out++;
	} else {
		walk(restripe, path, &entry);
	}
}

static void print_result(const struct restripe *restripe, bool json)
{
	struct g4_report report;

	g4_report_start(&report, stdout, json);
	g4_report_bool(&report, "ended_early", restripe->ended != 0);
	g4_report_count(&report, "files", restripe->files);
	g4_report_count(&report, "files_left_out", restripe->left_out);
	g4_report_size(&report, restripe->flags ? "elsewhere_bytes" : "moved_bytes", restripe->done.moved);
	g4_report_size(&report, "left_shared_bytes", restripe->done.shared);
	g4_report_size(&report, "left_damaged_bytes", restripe->done.damaged);
	g4_report_finish(&report);
}

static int go(struct restripe *restripe, const char *image, const char *socket, char **paths, int count, bool json)
{
	const bool mounted = image == NULL && socket == NULL;
	int rc = 0;

	if (!mounted) {
		restripe->place.fs = restripe->flags ? g4_cli_attach_to_look("restripe", image, socket) :
						       g4_cli_attach("restripe", image, socket);
		if (restripe->place.fs == NULL)
			return G4_EXIT_FAILURE;
	}
	g4_cli_catch_interrupts();
	g4_cli_allow_open_files();
	g4_cli_links_begin(&restripe->links);
	g4_progress_start(&restripe->progress, "restripe");
	if (count == 0)
		walk_path(restripe, "/");
	for (int i = 0; i < count && restripe->ended == 0; i++) {
		char *real = mounted ? realpath(paths[i], NULL) : paths[i];
		rc = real == NULL ? -errno : 0;
		if (rc == 0 && mounted)
			rc = g4_dedup_place_mounted(&restripe->place, real);
		if (rc == 0) {
			walk_path(restripe, real);
		} else {
			restripe->left_out++;
			g4_cli_error("restripe", "%s: %s", paths[i],
				     rc == -ENOTTY ? "is on no gpu4fs file system, or its server is too old" :
						     g4_cli_why(-rc));
		}
		if (mounted && rc == 0 && restripe->done.moved > 0 &&
		    restripe->flags == 0) /* what was there before is free from then on */
			(void)g4_dedup_place_sync(&restripe->place);
		if (mounted && rc == 0)
			g4_dedup_place_close(&restripe->place);
		if (mounted)
			free(real);
	}
	g4_progress_clear(&restripe->progress);
	g4_cli_links_end(&restripe->links);
	rc = mounted ? 0 : gpu4fs_unmount(restripe->place.fs);
	print_result(restripe, json);
	if (rc < 0 || restripe->ended == -EINTR)
		g4_cli_error("restripe", "%s",
			     rc < 0 ? g4_cli_why(-rc) :
				      "interrupted; what was moved stays so, and it may be given again");
	return rc == 0 && restripe->ended == 0 && restripe->left_out == 0 && restripe->done.damaged == 0 ?
		       G4_EXIT_OK :
		       G4_EXIT_FAILURE;
}

int g4_cli_restripe(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"raid", required_argument, NULL, 'r'},	  {"image", required_argument, NULL, 'i'},
		{"socket", required_argument, NULL, 's'}, {"dry-run", no_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},	  {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	static struct restripe restripe;
	bool json = false;

	for (int answer; (answer = getopt_long(argc, argv, ":n", long_options, NULL)) != -1;) {
		if (answer == 'r')
			restripe.raid = optarg;
		else if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'n')
			restripe.flags = GPU4FS_RESTRIPE_LOOK;
		else if (answer == 'j')
			json = true;
		else
			return g4_cli_bad_option("restripe", answer, argv);
	}
	if (restripe.raid != NULL && restripe.flags != 0)
		return g4_cli_usage("restripe", "--raid changes what files ask for, and --dry-run changes nothing");
	if (image != NULL && socket != NULL)
		return g4_cli_usage("restripe", "one of --image and --socket will do");
	if (image == NULL && socket == NULL && optind == argc)
		return g4_cli_usage("restripe", "a mounted file or directory, --image or --socket is needed");
	return go(&restripe, image, socket, argv + optind, argc - optind, json);
}
