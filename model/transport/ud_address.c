// SPDX-License-Identifier: GPL-2.0
/*
 * Where a datagram goes (HWI 12.4): the segment that says so, and the header of
 * the network layer as its receiver sees it.
 */
#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include "base/layout.h"
#include "transport/gid.h"
#include "transport/transport.h"
#include "transport/ud.h"

#define MAX_PRIORITY	7
#define MAX_FLOW_LABEL	0xfffffu

#define NEXT_HEADER_BTH	0x1b
#define IP_VERSION_6	(6u << 28)
#define IP_VERSION_4	0x45		/* and five words of header */
#define IP_NO_FRAGMENTS	0x4000
#define IPV4_HEADER	20u
#define UDP_HEADER	8u
#define BTH_SIZE	12u
#define DETH_SIZE	8u
#define IMM_SIZE	4u
#define ICRC_SIZE	4u

bool ud_fetch_address(const struct nic *nic, struct address *to,
		      const uint8_t *from)
{
	static const uint8_t empty[sizeof(to->dgid)];
	const struct gid_entry *source;
	struct moor_wqe_ud raw;

	fetch(&raw, from, sizeof(raw));
	memcpy(to->dgid, raw.dgid, sizeof(to->dgid));
	to->flow_label = le32toh(raw.flow_label);
	to->dest_qpn = le32toh(raw.dest_qpn);
	to->qkey = le32toh(raw.qkey);
	to->sgid_index = raw.sgid_index;
	to->hop_limit = raw.hop_limit;
	to->traffic_class = raw.traffic_class;
	to->priority = raw.priority;
	if (raw.reserved1 || raw.reserved2 ||
	    to->sgid_index >= NIC_MAX_GID ||
	    le16toh(raw.pkey_index) >= NIC_NUM_PKEY ||
	    to->flow_label > MAX_FLOW_LABEL ||
	    to->dest_qpn > NIC_NUMBER_MASK || to->priority > MAX_PRIORITY)
		return false;
	source = &nic->gids->entry[to->sgid_index];
	return source->type && memcmp(to->dgid, empty, sizeof(empty)) &&
	       (source->type != MOOR_GID_ROCE_V2 ||
		gid_is_ipv4(source->gid) == gid_is_ipv4(to->dgid));
}

static void put16(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

static void put32(uint8_t *to, uint32_t value)
{
	put16(to, value >> 16);
	put16(to + 2, value & 0xffff);
}

/* RFC 1071, of a whole number of pairs. */
static uint16_t check_sum(const uint8_t *from, unsigned int len)
{
	uint32_t sum = 0;

	for (; len; from += 2, len -= 2)
		sum += from[0] << 8 | from[1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* An IPv4 header, in the last bytes of the forty (HWI UD-15). */
static void put_ipv4(uint8_t *header, const struct address *to,
		     const uint8_t *sgid, uint32_t behind)
{
	uint8_t *ip = header + MOOR_GRH_SIZE - IPV4_HEADER;

	memset(header, 0, MOOR_GRH_SIZE);
	ip[0] = IP_VERSION_4;
	ip[1] = to->traffic_class;
	put16(ip + 2, IPV4_HEADER + behind);
	put16(ip + 6, IP_NO_FRAGMENTS);
	ip[8] = to->hop_limit;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, sgid + 12, 4);
	memcpy(ip + 16, to->dgid + 12, 4);
	put16(ip + 10, check_sum(ip, IPV4_HEADER));
}

/* An IPv6 header, which has the form of a GRH too. */
static void put_ipv6(uint8_t *header, const struct address *to,
		     const uint8_t *sgid, uint32_t behind, uint8_t next)
{
	put32(header, IP_VERSION_6 | (uint32_t)to->traffic_class << 20 |
		      to->flow_label);
	put16(header + 4, behind);
	header[6] = next;
	header[7] = to->hop_limit;
	memcpy(header + 8, sgid, 16);
	memcpy(header + 24, to->dgid, 16);
}

static uint32_t bytes_behind(const struct packet *p)
{
	return BTH_SIZE + DETH_SIZE + ICRC_SIZE + ((p->length + 3) & ~3u) +
	       (packet_form(p)->headers & PACKET_HAS_IMM ? IMM_SIZE : 0);
}

void ud_address(const struct nic *nic, const struct qp *qp, struct request *r,
		struct packet *p, uint32_t *budget)
{
	const struct address *to = &r->wqe.to;
	const struct gid_entry *source = &nic->gids->entry[to->sgid_index];
	struct datagram *d = &r->datagram;
	uint32_t behind = bytes_behind(p);

	if (gid_is_multicast(to->dgid))
		*budget = 0;
	p->ack_request = false;
	p->dest_qpn = to->dest_qpn;
	p->dgid = to->dgid;
	/* If the GID is gone since the WQE was fetched, the datagram is lost. */
	p->sgid = source->type ? source->gid : NULL;
	p->qkey = to->qkey & MOOR_QKEY_OF_QP ? qp->qkey : to->qkey;
	p->datagram = d;
	d->priority = to->priority;
	memcpy(d->smac, source->smac, sizeof(d->smac));
	d->vlan = source->vlan;
	if (source->type == MOOR_GID_ROCE_V1) {
		d->network = MOOR_NETWORK_ROCE_V1;
		put_ipv6(d->header, to, source->gid, behind, NEXT_HEADER_BTH);
	} else if (gid_is_ipv4(to->dgid)) {
		d->network = MOOR_NETWORK_IPV4;
		put_ipv4(d->header, to, source->gid, UDP_HEADER + behind);
	} else {
		d->network = MOOR_NETWORK_IPV6;
		put_ipv6(d->header, to, source->gid, UDP_HEADER + behind,
			 IPPROTO_UDP);
	}
}
