// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/pci_regs.h>

#include "holdings.h"
#include "nic.h"
#include "tap.h"

#define PCI		"/sys/bus/pci/"
#define DEADLINE_S	60

static char slot[64];	/* the NIC's PCI address, once it has been found */

static const char *where(void)
{
	if (!slot[0])
		snprintf(slot, sizeof(slot), "%s", nic_address());
	return slot;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		tap_bail("%s: %s", path, strerror(errno));
	close(fd);
}

static void put_function(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), PCI "devices/%s/%s", where(), name);
	put(path, text);
}

bool nic_is_bound(void)
{
	char path[256];

	snprintf(path, sizeof(path), PCI "drivers/moor/%s", where());
	return !access(path, F_OK);
}

void nic_unbind(void)
{
	put(PCI "drivers/moor/unbind", where());
}

void nic_bind(void)
{
	put(PCI "drivers/moor/bind", where());
}

void nic_remove(void)
{
	where();
	holdings_close();
	put_function("remove", "1");
}

void nic_rescan(void)
{
	put(PCI "rescan", "1");
}

void nic_reset(void)
{
	put_function("reset", "1");
}

bool nic_is_stopped(void)
{
	unsigned char command = 0;
	char path[256];
	int fd;

	snprintf(path, sizeof(path), PCI "devices/%s/config", where());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &command, 1, PCI_COMMAND) != 1)
		tap_bail("%s: %s", path, strerror(errno));
	close(fd);
	return !(command & PCI_COMMAND_MASTER);
}

void nic_keep_dead(void)
{
	put("/sys/module/moor/parameters/recover", "N");
}

/* ---- coming up ---- */

static void set_up(const char *netdev)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_flags = IFF_UP };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", netdev);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
		tap_bail("%s: cannot be brought up: %s", netdev, strerror(errno));
	close(fd);
}

static bool has_gid(void)
{
	bool found = false;
	char line[32];
	glob_t types;
	size_t i;
	FILE *file;

	if (glob("/sys/class/infiniband/moor*/ports/1/gid_attrs/types/*", 0, NULL, &types))
		return false;
	for (i = 0; i < types.gl_pathc && !found; i++) {
		file = fopen(types.gl_pathv[i], "r");
		found = file && fgets(line, sizeof(line), file) &&
			!strcmp(line, "RoCE v2\n");
		if (file)
			fclose(file);
	}
	globfree(&types);
	return found;
}

/* Does the network stack see a carrier? Without one it routes nothing. */
static bool has_link(const char *netdev)
{
	char path[320], state[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/operstate", netdev);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(state, sizeof(state), file))
		state[0] = 0;
	fclose(file);
	return !strcmp(state, "up\n");
}

void nic_bring_up(void)
{
	time_t end = time(NULL) + DEADLINE_S;
	glob_t netdevs;
	char path[256];

	snprintf(path, sizeof(path), PCI "devices/%s/net/*", where());
	if (glob(path, 0, NULL, &netdevs))
		tap_bail("%s: the NIC has no interface", path);
	set_up(strrchr(netdevs.gl_pathv[0], '/') + 1);
	while (!has_gid() || !has_link(netdevs.gl_pathv[0])) {
		if (time(NULL) > end)
			tap_bail("no RoCE v2 GID, or no link, %d s after the interface is up",
				 DEADLINE_S);
		poll(NULL, 0, 10);
	}
	globfree(&netdevs);
	holdings_close();
	holdings_open();
}

/* ---- the control socket ---- */

/* Opens the port of the control socket; exec() closes it. Negative: there is none. */
static int control_port(void)
{
	static int port = -1;
	char path[300], name[64];
	glob_t names;
	FILE *file;
	size_t i;

	if (port >= 0 || glob("/sys/class/virtio-ports/*/name", 0, NULL, &names))
		return port;
	for (i = 0; i < names.gl_pathc && port < 0; i++) {
		file = fopen(names.gl_pathv[i], "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strcmp(name, "moor.control.0\n")) {
			*strrchr(names.gl_pathv[i], '/') = 0;
			snprintf(path, sizeof(path), "/dev/%s",
				 strrchr(names.gl_pathv[i], '/') + 1);
			port = open(path, O_RDWR | O_CLOEXEC);
		}
		fclose(file);
	}
	globfree(&names);
	return port;
}

bool nic_has_control(void)
{
	return control_port() >= 0;
}

void nic_control(const char *format, ...)
{
	char line[256], answer[2048] = "";
	size_t used = 0;
	va_list args;
	int length;
	ssize_t n;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[length] = '\n';
	if (write(control_port(), line, length + 1) != length + 1)
		tap_bail("control socket: %s", strerror(errno));
	while (!strchr(answer, '\n') && used < sizeof(answer) - 1) {
		n = read(control_port(), answer + used, sizeof(answer) - 1 - used);
		if (n <= 0)
			tap_bail("control socket: %s", strerror(errno));
		used += n;
	}
	if (strncmp(answer, "ok", 2))
		tap_bail("control socket: %.*s: %s", length, line, answer);
}
