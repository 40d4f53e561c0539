/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server as a reader of the mirror (docs/design/mirror.md): lookups and attributes that the kernel asks for again, since it has dropped
 * them or was told to keep nothing, are answered from the server's memory. With an engine on a GPU that spares a command, which takes
 * ten times as long as the rest of the request.
 *
 * The kernel checks permissions, so answers are nobody's in particular, and one table is for all. An answer that is found is that of a
 * command which ran at that moment: what the reply does after it (an inode is counted as known, or stays for its FORGET) is as
 * far from it as from a command's.
 */
#include "client/mirror.h"
#include "base/log_host.h"
#include "fuse/ops.h"
#include "ring/epochs_host.h"
#include "ring/session_host.h"

#define ENTRIES 65536u /* at most 32 MiB: the server asks for all programs of the machine */

static bool is_wanted(const struct g4_fuse_host *host)
{
	const enum g4_fuse_mirror wish = host->options.mirror;

	return wish == G4_MIRROR_ALWAYS || (wish == G4_MIRROR_AUTO && g4_engine_cuda(host->engine));
}

/* Without memory, or an engine that tells no epochs, the engine is asked each time. */
void g4_fuse_mirror_start(struct g4_fuse_host *host)
{
	const struct g4_session_engine *sessions = g4_engine_sessions(host->engine);

	if (!is_wanted(host))
		return;
	const int fd = sessions->epochs ? sessions->epochs(sessions->context) : -G4_E_NOTSUP;
	host->epochs = fd >= 0 ? g4_epochs_map(fd) : NULL;
	host->mirror = host->epochs ? g4c_mirror_new(host->epochs, ENTRIES) : NULL;
	if (!host->mirror) {
		g4_log(G4_LOG_WARN, "no mirror: each lookup is a command");
		g4_fuse_mirror_end(host);
	}
}

void g4_fuse_mirror_end(struct g4_fuse_host *host)
{
	g4c_mirror_free(host->mirror);
	g4_epochs_unmap(host->epochs);
	host->mirror = NULL;
	host->epochs = NULL;
}

int g4_fuse_ask(struct g4_fuse_host *host, struct g4_cmd *cmd)
{
	const struct g4c_question question = {.start = cmd->node,
					      .asks = cmd->op == G4_CMD_GETATTR ? G4C_ASKS_NODE : G4C_ASKS_PATH,
					      .path_bytes = cmd->name_bytes,
					      .path = cmd->name};
	struct g4_trail trail;
	int rc;

	if (!host->mirror)
		return g4_engine_execute(host->engine, cmd);
	if (g4c_mirror_find(host->mirror, &question, &rc, cmd->attr, NULL))
		return cmd->status = rc;
	g4_trail_begin(&trail);
	cmd->flags |= G4_LOOK_TRAIL;
	cmd->data = &trail;
	rc = g4_engine_execute(host->engine, cmd);
	if (rc == 0 || rc == -G4_E_NOENT)
		g4c_mirror_put(host->mirror, &question, rc, rc == 0 ? cmd->attr : NULL, &trail);
	return rc;
}
