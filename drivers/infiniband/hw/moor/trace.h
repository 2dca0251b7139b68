/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of memory registration. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM moor

#if !defined(MOOR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define MOOR_TRACE_H

#include <linux/tracepoint.h>

#include "moor.h"

TRACE_EVENT(moor_reg_mr,
	    TP_PROTO(struct moor_dev *mdev, const struct moor_mr *mr),
	    TP_ARGS(mdev, mr),
	    TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, key)
		__field(u32, pdn)
		__field(u64, start)
		__field(u64, length)
		__field(u64, iova)
		__field(u32, access)
		__field(u8, levels)
		__field(u8, page_shift)
		__field(u32, nodes)
	    ),
	    TP_fast_assign(
		__assign_str(name);
		__entry->key = mr->key;
		__entry->pdn = mr->pdn;
		__entry->start = mr->start;
		__entry->length = mr->length;
		__entry->iova = mr->iova;
		__entry->access = mr->access;
		__entry->levels = mr->table.xlat.levels;
		__entry->page_shift = mr->table.xlat.page_shift;
		__entry->nodes = mr->table.num_nodes;
	    ),
	    TP_printk("%s key %#x pd %u start %#llx length %#llx iova %#llx access %#x levels %u page shift %u nodes %u",
		      __get_str(name), __entry->key, __entry->pdn, __entry->start,
		      __entry->length, __entry->iova, __entry->access,
		      __entry->levels, __entry->page_shift, __entry->nodes)
);

TRACE_EVENT(moor_dereg_mr,
	    TP_PROTO(struct moor_dev *mdev, const struct moor_mr *mr, int err),
	    TP_ARGS(mdev, mr, err),
	    TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, key)
		__field(int, err)
	    ),
	    TP_fast_assign(
		__assign_str(name);
		__entry->key = mr->key;
		__entry->err = err;
	    ),
	    TP_printk("%s key %#x: %d", __get_str(name), __entry->key,
		      __entry->err)
);

#endif /* MOOR_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
