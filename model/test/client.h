/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A vfio-user client without a guest: it starts the model, talks to it, and has the
 * memory for the model's DMA. Any failure in here ends the test.
 */
#ifndef TEST_CLIENT_H
#define TEST_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/nic.h"
#include "pci/vfio_message.h"

/* TAP. */
void check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int check_done(void);
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die(const char *fmt, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

/* A model; its program is named by the environment variable MOOR_NIC. */
struct model {
	pid_t pid;
	char dir[64];
	char socket[96];
	char log[96];
};

/* @args: more options, ended by NULL, or NULL. Waits until the model listens. */
void model_start(struct model *model, const char *const *args);

/* As model_start(), on the socket that @model had. */
void model_restart(struct model *model, const char *const *args);

/* SIGKILL. */
void model_kill(struct model *model);

/* SIGTERM. Return: the exit status, or -1 when a signal ended it. */
int model_stop(struct model *model);

/* Runs the program to its end, stderr into @text. Return: the exit status. */
int model_run(const char *const *args, char *text, size_t size);

bool model_alive(const struct model *model);
/* Return: how many lines have @text in them. */
unsigned int model_logged(const struct model *model, const char *text);

/* User and system time that the model has used, in ms. */
unsigned int model_cpu_ms(const struct model *model);

uint64_t now_ns(void);

/* Where the guest's memory is for DMA, and how much there is of it. */
#define CLIENT_BASE	0x10000000ull
#define CLIENT_SIZE	(32u << 20)

struct client {
	int sock;			/* -1: not connected */
	uint16_t id;
	int mem_fd;
	uint8_t *mem;
	size_t used;			/* by guest_alloc() */
	uint8_t *bar2, *bar4;
	int irq[NIC_NUM_VECTORS];	/* eventfds */
};

/* Memory only; then a connection to @model without VERSION. */
void client_init(struct client *c);
void client_connect(struct client *c, const struct model *model);

/* VERSION, DMA_MAP of the memory, BARs, eventfds. */
void client_setup(struct client *c);
void client_disconnect(struct client *c);
void client_destroy(struct client *c);

struct client_reply {
	uint8_t data[65536 + 64];
	uint32_t size;
	int fd;			/* that came with the reply, or -1 */
};

#define CLIENT_CLOSED	(-1)

/* The pieces of a call; @fds may be NULL. Return: the message's ID. */
uint16_t client_send(struct client *c, unsigned int command, uint32_t flags,
		     const void *payload, size_t size, const int *fds,
		     unsigned int num_fds);
int client_receive(struct client *c, uint16_t id, struct client_reply *reply);

/* Return: errno of the reply, 0, or CLIENT_CLOSED. @reply may be NULL. */
int client_call(struct client *c, unsigned int command, const void *payload,
		size_t size, const int *fds, unsigned int num_fds,
		struct client_reply *reply);

int client_read(struct client *c, unsigned int region, uint64_t offset,
		void *data, uint32_t count);
int client_write(struct client *c, unsigned int region, uint64_t offset,
		 const void *data, uint32_t count);
int client_map(struct client *c, uint64_t addr, uint64_t size, uint64_t offset,
	       uint32_t flags, int fd);
int client_unmap(struct client *c, uint64_t addr, uint64_t size);

/* BAR0; a failure ends the test. */
uint32_t reg_read(struct client *c, uint32_t offset);
uint64_t reg_read64(struct client *c, uint32_t offset);
void reg_write(struct client *c, uint32_t offset, uint32_t value);
void reg_write64(struct client *c, uint32_t offset, uint64_t value);
uint16_t config_read16(struct client *c, uint32_t offset);
uint32_t config_read32(struct client *c, uint32_t offset);
void config_write16(struct client *c, uint32_t offset, uint16_t value);
void config_write32(struct client *c, uint32_t offset, uint32_t value);

/* Zeroed memory of the guest, 4 KiB aligned, and its DMA address. */
void *guest_alloc(struct client *c, size_t size, uint64_t *dma);

#endif /* TEST_CLIENT_H */
