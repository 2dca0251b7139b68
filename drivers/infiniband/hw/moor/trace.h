/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of memory registration. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM moor

#if !defined(MOOR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define MOOR_TRACE_H

#include <linux/tracepoint.h>

#include "moor.h"

DECLARE_EVENT_CLASS(moor_mr_class,
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
		const struct moor_registration *reg = &mr->reg;

		__assign_str(name);
		__entry->key = mr->key;
		__entry->pdn = reg->pdn;
		__entry->start = reg->start;
		__entry->length = reg->length;
		__entry->iova = reg->iova;
		__entry->access = reg->access;
		__entry->levels = reg->table.xlat.levels;
		__entry->page_shift = reg->table.xlat.page_shift;
		__entry->nodes = reg->table.num_nodes;
	),
	TP_printk("%s key %#x pd %u start %#llx length %#llx iova %#llx access %#x levels %u page shift %u nodes %u",
		  __get_str(name), __entry->key, __entry->pdn, __entry->start,
		  __entry->length, __entry->iova, __entry->access,
		  __entry->levels, __entry->page_shift, __entry->nodes)
);

DEFINE_EVENT(moor_mr_class, moor_reg_mr,
	TP_PROTO(struct moor_dev *mdev, const struct moor_mr *mr),
	TP_ARGS(mdev, mr)
);

DEFINE_EVENT(moor_mr_class, moor_rereg_mr,
	TP_PROTO(struct moor_dev *mdev, const struct moor_mr *mr),
	TP_ARGS(mdev, mr)
);

TRACE_EVENT(moor_reg_refused,
	TP_PROTO(struct moor_dev *mdev, const struct moor_refusal *why),
	TP_ARGS(mdev, why),
	TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__string(reason, moor_refusal_name(why->reason))
		__field(int, error)
		__field(u64, value)
		__field(u64, limit)
		__field(u64, start)
		__field(u64, length)
		__field(u32, access)
	),
	TP_fast_assign(
		__assign_str(name);
		__assign_str(reason);
		__entry->error = why->error;
		__entry->value = why->value;
		__entry->limit = why->limit;
		__entry->start = why->start;
		__entry->length = why->length;
		__entry->access = why->access;
	),
	TP_printk("%s %s value %#llx limit %#llx: error %d start %#llx length %#llx access %#x",
		  __get_str(name), __get_str(reason), __entry->value,
		  __entry->limit, __entry->error, __entry->start,
		  __entry->length, __entry->access)
);

TRACE_EVENT(moor_dereg_mr,
	TP_PROTO(struct moor_dev *mdev, u32 key),
	TP_ARGS(mdev, key),
	TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, key)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->key = key;
	),
	TP_printk("%s key %#x", __get_str(name), __entry->key)
);

TRACE_EVENT(moor_dereg_mr_busy,
	TP_PROTO(struct moor_dev *mdev, u32 key, u32 windows),
	TP_ARGS(mdev, key, windows),
	TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, key)
		__field(u32, windows)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->key = key;
		__entry->windows = windows;
	),
	TP_printk("%s key %#x windows %u", __get_str(name), __entry->key,
		  __entry->windows)
);

TRACE_EVENT(moor_mr_holder,
	TP_PROTO(struct moor_dev *mdev, u32 key,
		 const struct moor_window *window),
	TP_ARGS(mdev, key, window),
	TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, key)
		__field(u32, rkey)
		__field(u32, type)
		__field(u32, qpn)
		__field(pid_t, pid)
		__field(u64, iova)
		__field(u64, length)
		__field(u32, access)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->key = key;
		__entry->rkey = window->rkey;
		__entry->type = window->type;
		__entry->qpn = window->qpn;
		__entry->pid = window->pid;
		__entry->iova = window->iova;
		__entry->length = window->length;
		__entry->access = window->access;
	),
	TP_printk("%s key %#x window %#x type %u qpn %#x pid %d iova %#llx length %#llx access %#x",
		  __get_str(name), __entry->key, __entry->rkey, __entry->type,
		  __entry->qpn, __entry->pid, __entry->iova, __entry->length,
		  __entry->access)
);

TRACE_EVENT(moor_page_fault,
	TP_PROTO(struct moor_dev *mdev, const struct moor_half *half,
		 const struct moor_page_fault *fault, int error),
	TP_ARGS(mdev, half, fault, error),
	TP_STRUCT__entry(
		__string(name, dev_name(&mdev->ibdev.dev))
		__field(u32, qpn)
		__field(bool, responder)
		__field(u32, token)
		__field(u32, key)
		__field(u64, addr)
		__field(u32, length)
		__field(bool, write)
		__field(u64, end)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->qpn = half->pager->qpn;
		__entry->responder = half != half->pager->half;
		__entry->token = fault->token;
		__entry->key = fault->key;
		__entry->addr = fault->addr;
		__entry->length = fault->length;
		__entry->write = fault->write;
		__entry->end = error || fault->kind == MOOR_FAULT_DMABUF ?
			       0 : half->next_addr;
		__entry->error = error;
	),
	TP_printk("%s qpn %#x %s token %#x key %#x addr %#llx length %#x %s: error %d, entered up to %#llx",
		  __get_str(name), __entry->qpn,
		  __entry->responder ? "responder" : "requester",
		  __entry->token, __entry->key, __entry->addr, __entry->length,
		  __entry->write ? "write" : "read", __entry->error,
		  __entry->end)
);

TRACE_EVENT(moor_odp_invalidate,
	TP_PROTO(const struct moor_odp *odp, u64 start, u64 end, u32 pages),
	TP_ARGS(odp, start, end, pages),
	TP_STRUCT__entry(
		__string(name, dev_name(&odp->mdev->ibdev.dev))
		__field(u32, key)
		__field(u64, start)
		__field(u64, end)
		__field(u32, pages)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->key = odp->key;
		__entry->start = start;
		__entry->end = end;
		__entry->pages = pages;
	),
	TP_printk("%s key %#x start %#llx end %#llx pages %u",
		  __get_str(name), __entry->key, __entry->start, __entry->end,
		  __entry->pages)
);

#endif /* MOOR_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
