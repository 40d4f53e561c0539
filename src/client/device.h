/* SPDX-License-Identifier: Apache-2.0 */
/* Between the host half of the device API, which nvcc compiles (cuda/device.cu), and the rest of the client. */
#ifndef G4_CLIENT_DEVICE_H
#define G4_CLIENT_DEVICE_H

#include "fs/command.h"
#include "gpu4fs/gpu4fs_device.h"

#define G4C_DEVICE_MOST_WARPS 16384u

#ifdef __cplusplus
extern "C" {
#endif

struct g4_fs;

/* A session as kernels are to have it. */
struct g4c_device_session {
	struct g4_fs *fs; /* in device memory */
	struct g4_cred cred;
	uint64_t start;		/* the working directory */
	uint32_t scratch_bytes; /* of a workgroup */
	uint32_t warps;		/* that the options ask for; 0: the default */
};

/*
 * Lets kernels in: the session counts them as a user, the engine knows that there are changes it does not see. 0 or a
 * negative errno value.
 */
int g4c_device_begin(gpu4fs *fs, const struct gpu4fs_device_options *options, struct g4c_device_session *out);
void g4c_device_end(gpu4fs *fs);

#ifdef __cplusplus
}
#endif

#endif
