/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebalancing while users work: see rebalance.h. A step is the set's and outside of any transaction. No address changes, so nothing that a
 * user could see does; a crash costs what the last step did at most, and the next one is chosen by what lies where then.
 *
 * What is in use is asked of the allocator's view in memory: a page is in it from its claim, which comes before any write, until the
 * transaction that frees it is durable. The look comes after the set has begun to notice who writes there.
 */
#include "fs/rebalance.h"

#define COPY_PAGES ((UINT64_C(16) * G4_CHUNK_PLACES << 20) / G4_PAGE_BYTES) /* more is not copied in a step */

G4_FN static int ask(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_space_order(wg, &fs->space, order);
}

/* Of `most` pages from there on: some are moved, and order->done tells how much. */
G4_FN static int move(struct g4_wg *wg, struct g4_fs *fs, uint64_t page, uint64_t most, struct g4_dev_order *order)
{
	const uint64_t idle = g4_alloc_count(wg, &fs->alloc, page, most, false);

	order->done = 0;
	if (idle > 0) {
		order->disk = 1;
		order->bytes = idle * G4_PAGE_BYTES;
		const int rc = ask(wg, fs, G4_ORDER_SPREAD_MOVE, order);
		if (rc < 0 || order->done > 0)
			return rc;
	}
	/* what is idle in front of it was too short, or was written to meanwhile */
	const uint64_t used = g4_alloc_count(wg, &fs->alloc, page + idle, g4_min64(most - idle, COPY_PAGES), true);
	order->disk = 0;
	order->bytes = (idle < COPY_PAGES ? idle + used : COPY_PAGES) * G4_PAGE_BYTES;
	return ask(wg, fs, G4_ORDER_SPREAD_MOVE, order);
}

G4_FN int g4_rebalance_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	int rc = ask(wg, fs, G4_ORDER_SPREAD_NEXT, &order);
	if (rc < 0)
		return rc;
	if (order.bytes == 0) {
		record->units = record->done;
		return 1;
	}
	const uint64_t left = order.all / G4_PAGE_BYTES;
	rc = move(wg, fs, order.done / G4_PAGE_BYTES, order.bytes / G4_PAGE_BYTES, &order);
	if (rc < 0)
		return rc;
	record->units = record->done + left;
	record->done += order.done / G4_PAGE_BYTES;
	record->bytes += order.bytes;
	return 0;
}

G4_FN int g4_rebalance_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record)
{
	struct g4_dev_order order;
	uint32_t length = 0;

	if (cmd->length == 0)
		return -G4_E_INVAL;
	memset(&order, 0, sizeof(order));
	order.text = (char *)cmd->data;
	order.text_bytes = cmd->length;
	order.text[0] = 0;
	const int rc = ask(wg, fs, G4_ORDER_SPREAD, &order);
	while (length < cmd->length && order.text[length])
		length++;
	cmd->value = length;
	record->units = order.all / G4_PAGE_BYTES;
	return rc;
}
