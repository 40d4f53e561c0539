/* SPDX-License-Identifier: Apache-2.0 */
/* What mkfs and fsck ask before they touch a device; g4_probe_foreign() is in mkfs_host.h. Host only. */
#ifndef G4_PROBE_HOST_H
#define G4_PROBE_HOST_H

#include "base/base.h"

/*
 * True when the device or image that `name` (dev_host.h) stands for is in use: writes how to use[bytes], as in "mounted
 * on /mnt", "in use as swap space", "attached to /dev/loop0", "in use by process 7 (gpu4fs)". Of mounts it sees this namespace only.
 */
bool g4_probe_in_use(const char *name, char *use, size_t bytes);
/*
 * The device or image behind the gpu4fs mount that `path` lies on: true, and its name in source[bytes]. With `exact`
 * path must be the mount point itself.
 */
bool g4_probe_mount_source(const char *path, bool exact, char *source, size_t bytes);
/* Whether a mount of this type, as /proc/mounts has it, is one of gpu4fs. */
bool g4_probe_is_mount_type(const char *type);

#endif
