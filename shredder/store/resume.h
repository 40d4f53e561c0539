/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes about large files that are being read, so that a backup that was cut off goes on inside them: which file, and the chunks so far.
 * They lie on the machine whose files are saved, not in the repository, where nothing counts before a snapshot:
 *
 *	FOLDER/ID-NAME    ID: the repository's; NAME: a hash of which file it is
 *	bytes (u32) | protected(parts as in a content) | bytes | protected | ...
 *
 * Each record is protected with the repository's key, bound to the file (its device, inode, size and times) and to its place in the row; what is
 * torn or of something else ends the row. So a note needs no fsync, and a user that writes into FOLDER cannot make chunks of
 * another file
 * out of it. A part counts only when the index has its blob; the first one that it does not have ends what is known, and there the file
 * is read again.
 */
#ifndef SHREDDER_STORE_RESUME_H
#define SHREDDER_STORE_RESUME_H

#include <sys/stat.h>

#include "store/tree.h"

struct store_resume {
	int fd; /* -1: no notes are taken */
	uint8_t identity[32];
	uint64_t records;
	size_t noted;	 /* bytes of the content that are noted */
	uint64_t due_ns; /* of the next note */
};

/*
 * Begins the notes about a file, and fills `content` with what is known of it: *bytes, a stretch of its beginning that ends with a chunk or a
 * hole. folder == NULL: nothing; else it is made when it is not
 * there. When notes cannot be written, there are none.
 */
void store_resume_begin(struct store_resume *r, struct store *s, const char *folder, const struct stat *st,
			struct store_buf *content, uint64_t *count, uint64_t *bytes);
/* Every so often, or with `last`, notes what is new in the content. */
void store_resume_note(struct store_resume *r, struct store *s, const struct store_buf *content, bool last);
void store_resume_end(struct store_resume *r);
/* Removes all notes of this repository: what they were for is in a snapshot. */
void store_resume_clear(struct store *s, const char *folder);

#endif
