/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Differences between versions of rdma-core, whose interface to providers is private
 * and changes. The types of the functions tell the versions apart, not a version number:
 * distributions port changes back.
 */
#ifndef MOOR_PROVIDER_COMPAT_H
#define MOOR_PROVIDER_COMPAT_H

#include <infiniband/driver.h>

/*
 * IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, which older versions do not
 * declare: a leave to use memory outside of what the CPU encrypts, for devices that need it.
 */
#define MOOR_PARENT_DOMAIN_CC_UNPROTECTED	(1u << 2)

/* Calls @function through @yes if it is of @type, else through @no. */
#define MOOR_CALL(function, type, yes, no, ...) \
	(__builtin_choose_expr( \
		__builtin_types_compatible_p(__typeof__(function), type), \
		yes, no)(function, __VA_ARGS__))

/* Older versions of rdma-core do not declare these. */
struct ibv_fd_arr;
struct verbs_create_cq_prov_attr;

typedef int moor_get_context_fds(struct verbs_context *,
				 struct ibv_get_context *, size_t,
				 struct ibv_fd_arr *,
				 struct ib_uverbs_get_context_resp *,
				 size_t);
typedef int moor_get_context_plain(struct verbs_context *,
				   struct ibv_get_context *, size_t,
				   struct ib_uverbs_get_context_resp *,
				   size_t);

static inline int
moor_call_get_context_fds(moor_get_context_fds *get,
			  struct verbs_context *vctx,
			  struct ibv_get_context *cmd, size_t cmd_size,
			  struct ib_uverbs_get_context_resp *resp,
			  size_t resp_size)
{
	return get(vctx, cmd, cmd_size, NULL, resp, resp_size);
}

static inline int
moor_call_get_context_plain(moor_get_context_plain *get,
			    struct verbs_context *vctx,
			    struct ibv_get_context *cmd, size_t cmd_size,
			    struct ib_uverbs_get_context_resp *resp,
			    size_t resp_size)
{
	return get(vctx, cmd, cmd_size, resp, resp_size);
}

#define moor_cmd_get_context(...) \
	MOOR_CALL(ibv_cmd_get_context, moor_get_context_fds, \
		  moor_call_get_context_fds, \
		  moor_call_get_context_plain, __VA_ARGS__)

typedef int moor_create_cq_ex_buffer(struct ibv_context *,
				     const struct ibv_cq_init_attr_ex *,
				     struct verbs_create_cq_prov_attr *,
				     struct verbs_cq *,
				     struct ibv_create_cq_ex *, size_t,
				     struct ib_uverbs_ex_create_cq_resp *,
				     size_t, uint32_t);
typedef int moor_create_cq_ex_plain(struct ibv_context *,
				    const struct ibv_cq_init_attr_ex *,
				    struct verbs_cq *,
				    struct ibv_create_cq_ex *, size_t,
				    struct ib_uverbs_ex_create_cq_resp *,
				    size_t, uint32_t);

static inline int
moor_call_create_cq_ex_buffer(moor_create_cq_ex_buffer *create,
			      struct ibv_context *context,
			      const struct ibv_cq_init_attr_ex *attr,
			      struct verbs_cq *cq,
			      struct ibv_create_cq_ex *cmd, size_t cmd_size,
			      struct ib_uverbs_ex_create_cq_resp *resp,
			      size_t resp_size, uint32_t flags)
{
	return create(context, attr, NULL, cq, cmd, cmd_size, resp, resp_size,
		      flags);
}

static inline int
moor_call_create_cq_ex_plain(moor_create_cq_ex_plain *create,
			     struct ibv_context *context,
			     const struct ibv_cq_init_attr_ex *attr,
			     struct verbs_cq *cq,
			     struct ibv_create_cq_ex *cmd, size_t cmd_size,
			     struct ib_uverbs_ex_create_cq_resp *resp,
			     size_t resp_size, uint32_t flags)
{
	return create(context, attr, cq, cmd, cmd_size, resp, resp_size, flags);
}

#define moor_cmd_create_cq_ex(...) \
	MOOR_CALL(ibv_cmd_create_cq_ex, moor_create_cq_ex_buffer, \
		  moor_call_create_cq_ex_buffer, \
		  moor_call_create_cq_ex_plain, __VA_ARGS__)

#endif /* MOOR_PROVIDER_COMPAT_H */
