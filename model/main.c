// SPDX-License-Identifier: GPL-2.0
/*
 * moor-nic: the NIC as a process that QEMU attaches to. One thread: the work
 * of the NIC in quanta, and in between a look at the socket. With nothing to do
 * it naps for a while, then dozes (HWI DB-14) and blocks.
 */
#include <errno.h>
#include <linux/sched/types.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timer.h"
#include "control/control.h"
#include "options.h"
#include "pace.h"
#include "pci/vfio_user.h"

/* How long a message of the client may stay unread while the NIC works, or spins. */
#define LOOK_NS		20000u
#define SPIN_LOOK_NS	2000u
#define KNOCK_NS	100000000u	/* and a new client, or a control command */

/*
 * A nap leaves the processor to a vCPU, and a doorbell meanwhile costs the guest a
 * store only, no kick. With naps of 10 us and less the NIC takes so much of a
 * processor that the scheduler lets a vCPU finish its slice first: a round takes a
 * millisecond instead of 0.08.
 */
#define NAP_NS		40000u

/*
 * The slice to ask the scheduler for, the shortest there is: a thread that wakes
 * takes the processor at once from a thread with a longer slice. So a nap does not
 * last until a spinning vCPU has used up its slice, milliseconds later.
 */
#define SLICE_NS	100000u

/* The servers: for the guest's client and, with --control, for control clients. */
struct servers {
	struct vfio_user vfio;
	struct control *control;	/* or NULL */
};

static volatile sig_atomic_t stop;
static int stop_fd;

/* The eventfd ends a ppoll() that begins after run() has looked at @stop. */
static void on_stop(int sig)
{
	const uint64_t one = 1;
	int saved = errno;

	(void)sig;
	stop = 1;
	if (write(stop_fd, &one, sizeof(one)) < 0)
		_exit(1);
	errno = saved;
}

static int catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_stop };

	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0 || sigaction(SIGTERM, &action, NULL) ||
	    sigaction(SIGINT, &action, NULL))
		return errno;
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Waits for a client, a signal or @deadline. */
static void block(struct servers *servers, uint64_t deadline)
{
	struct vfio_user *server = &servers->vfio;
	struct pollfd fds[] = {
		{ .fd = stop_fd, .events = POLLIN },
		{ .fd = vfio_socket_listen_fd(server->sock), .events = POLLIN },
		{ .fd = vfio_socket_fd(server->sock), .events = POLLIN },
		{ .fd = servers->control ? control_fd(servers->control) : -1,
		  .events = POLLIN },
	};
	uint64_t now = timer_now(), wait = deadline > now ? deadline - now : 0;
	struct timespec timeout = {
		.tv_sec = (time_t)(wait / 1000000000u),
		.tv_nsec = (long)(wait % 1000000000u),
	};

	if (ppoll(fds, 4, deadline == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
		return;
	if (fds[1].revents)
		vfio_user_accept(server);
	if (fds[3].revents)
		control_serve(servers->control);
}

static void nap(struct servers *servers, uint64_t now)
{
	uint64_t timer = nic_next_deadline(endpoint_nic(servers->vfio.ep));

	block(servers, timer < now + NAP_NS ? timer : now + NAP_NS);
}

static bool drop_if_torn(struct vfio_user *server)
{
	bool torn = dma_map_torn();

	if (torn)
		vfio_user_drop(server, "it took mapped memory away");
	return torn;
}

/* Blocks if nic_doze() finds no work; its accesses may find a file cut short (torn). */
static void doze(struct servers *servers)
{
	struct nic *nic = endpoint_nic(servers->vfio.ep);

	if (nic_doze(nic) && !drop_if_torn(&servers->vfio))
		block(servers, nic_next_deadline(nic));
	nic_wake(nic);
}

static void rest(struct servers *servers, enum pace_step step, uint64_t now)
{
	switch (step) {
	case PACE_SPIN:
		break;
	case PACE_NAP:
		nap(servers, now);
		break;
	case PACE_DOZE:
		if (nic_dozes(endpoint_nic(servers->vfio.ep)))
			doze(servers);
		else
			nap(servers, now);
	}
}

/* For new clients and control commands, while the NIC works without a pause. */
static void look_for_clients(struct servers *servers)
{
	struct vfio_user *server = &servers->vfio;
	struct pollfd knock = {
		.fd = vfio_socket_listen_fd(server->sock),
		.events = POLLIN,
	};

	if (poll(&knock, 1, 0) > 0)
		vfio_user_accept(server);
	drop_if_torn(server);
	if (servers->control)
		control_serve(servers->control);
}

/*
 * The time between two reads of the client's socket; before each sleep: 0. A read takes
 * longer than a small message, and who waited for one message often posts the next at
 * once: so the NIC counts as busy for a moment after work.
 */
static uint64_t look_after(bool busy, uint64_t idle_ns, enum pace_step step)
{
	if (busy)
		return LOOK_NS;
	if (step != PACE_SPIN)
		return 0;
	return idle_ns < SPIN_LOOK_NS ? LOOK_NS : SPIN_LOOK_NS;
}

static void run(struct servers *servers)
{
	struct vfio_user *server = &servers->vfio;
	struct nic *nic = endpoint_nic(server->ep);
	uint64_t looked = 0, knocked = 0, idle_since = 0;
	enum pace_step step = PACE_NAP;
	struct pace_sources sources;
	bool worked = false;
	struct pace pace;

	pace_sources_open(&sources);
	pace_init(&pace, &sources, timer_now());
	while (!stop) {
		uint64_t now = timer_now();
		bool served = false;

		endpoint_trickle(server->ep);
		if (worked)
			idle_since = now;
		worked = nic_run(nic);
		if (now - looked >= look_after(worked, now - idle_since, step)) {
			looked = now;
			if (vfio_socket_fd(server->sock) >= 0)
				served = vfio_user_serve(server);
			if (now - knocked >= KNOCK_NS) {
				knocked = now;
				look_for_clients(servers);
			}
		}
		if (endpoint_has_interrupted(server->ep) || served)
			pace_woke(&pace, now);
		if (worked || served || nic_next_deadline(nic) <= now) {
			pace_worked(&pace, now);
		} else {
			step = pace_next(&pace, now);
			rest(servers, step, now);
		}
	}
	pace_sources_close(&sources);
}

/* Linux 6.12 and later honour the short slice; elsewhere the NIC is just slower. */
static void ask_for_short_slice(void)
{
	struct sched_attr attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0))
		return;
	attr.sched_runtime = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		log_info("no short time slices: %s", strerror(errno));
}

static int tell_ready(int fd)
{
	static const char text[] = "ready\n";

	if (fd < 0)
		return 0;
	if (write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1)
		return errno;
	close(fd);
	return 0;
}

/* Return: false, with a message on standard error, unless all sockets listen. */
static bool listen_on_all(struct servers *servers, const struct options *opts)
{
	char error[256];

	servers->vfio.sock = vfio_socket_listen(opts->socket, error,
						sizeof(error));
	if (!servers->vfio.sock) {
		fprintf(stderr, "moor-nic: %s\n", error);
		return false;
	}
	if (!opts->control)
		return true;
	servers->control = control_listen(opts->control, servers->vfio.ep,
					  error, sizeof(error));
	if (servers->control)
		return true;
	fprintf(stderr, "moor-nic: --control: %s\n", error);
	vfio_socket_close(servers->vfio.sock);
	return false;
}

static int serve(const struct options *opts)
{
	struct servers servers = { .vfio.dma = dma_map_create() };
	struct vfio_user *server = &servers.vfio;
	int err;

	if (!server->dma) {
		fprintf(stderr, "moor-nic: out of memory\n");
		return EXIT_FAILURE;
	}
	server->ep = endpoint_create(&opts->endpoint, server->dma);
	if (!server->ep) {
		fprintf(stderr, "moor-nic: cannot create the NIC: %s\n",
			strerror(errno));
		goto err_dma;
	}
	if (!listen_on_all(&servers, opts))
		goto err_endpoint;
	err = tell_ready(opts->ready_fd);
	if (err) {
		fprintf(stderr, "moor-nic: --ready-fd %d: %s\n", opts->ready_fd,
			strerror(err));
		goto err_sockets;
	}

	log_info("listening on %s", opts->socket);
	run(&servers);
	log_info("stopped by a signal, %llu DMA faults",
		 (unsigned long long)dma_map_faults(server->dma));
	log_flush();
	control_close(servers.control);
	vfio_socket_close(server->sock);
	endpoint_destroy(server->ep);
	dma_map_destroy(server->dma);
	return EXIT_SUCCESS;

err_sockets:
	control_close(servers.control);
	vfio_socket_close(server->sock);
err_endpoint:
	endpoint_destroy(server->ep);
err_dma:
	dma_map_destroy(server->dma);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options opts;
	int err;

	options_parse(&opts, argc, argv);
	err = log_open(opts.log);
	if (err) {
		fprintf(stderr, "moor-nic: --log %s: %s\n", opts.log,
			strerror(err));
		return EXIT_FAILURE;
	}
	err = catch_signals();
	if (err) {
		fprintf(stderr, "moor-nic: signals: %s\n", strerror(err));
		return EXIT_FAILURE;
	}
	/* Timers of the transport are a few microseconds long. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	ask_for_short_slice();
	return serve(&opts);
}
