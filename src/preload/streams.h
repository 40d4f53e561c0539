/* SPDX-License-Identifier: Apache-2.0 */
/* Directory streams that the engine serves. */
#ifndef G4_PRELOAD_STREAMS_H
#define G4_PRELOAD_STREAMS_H

#include <dirent.h>

#include "preload/preload.h"

#define G4P_STREAM_MAGIC                                                                                               \
	UINT64_C(0xd1b5f46705f4d1b5) /* a DIR of the C library begins with a descriptor, which is no negative number */

struct g4p_stream {
	uint64_t magic;
	struct g4p_stream *next, **link;
	struct g4p_file *file; /* with a reference */
	gpu4fs_dir *dir;
	DIR *real; /* what it has become; then the two above are NULL */
	int fd;
	long position; /* behind the entry delivered last */
	struct dirent entry;
};

void g4p_stream_add(struct g4p_stream *stream);
void g4p_stream_remove(struct g4p_stream *stream);

#endif
