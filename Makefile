# SPDX-License-Identifier: GPL-2.0
# 'make help' lists the targets. What the VM and the tests use is built inside
# the Debian root that 'make setup' makes; what is installed on this machine,
# with this machine's compiler.

KDIR	?= /lib/modules/$(shell uname -r)/build
prefix	?= /usr
bindir	?= $(prefix)/bin
mandir	?= $(prefix)/share/man
includedir ?= $(prefix)/include

# rdma-core's source, for the provider: see provider/Makefile
RDMA_CORE	?= $(wildcard $(CURDIR)/build/rdma-core/src)

jobs	:= -j$(shell nproc)
in_root	:= scripts/in-root --
root_kernel = $(shell cat build/root/etc/moor/kernel-$(1))
# Inside the root, what is warned about is an error.
module_flags := W=1 KCFLAGS=-Werror

module: ## build moor.ko for the running kernel, or for the headers in KDIR=
	@scripts/build-module $(KDIR) build/host/module
	@echo "build/host/module/moor.ko"

compiler:
	@command -v $(CC) >/dev/null || { echo "no compiler: '$(CC)' is not there; install one (Debian: gcc libc6-dev)," \
		"or use what 'make nic' builds in the root" >&2; exit 1; }

model: compiler ## build NIC model and conformance suite with this machine's compiler: build/host/
	@$(MAKE) --no-print-directory $(jobs) -C model O=$(CURDIR)/build/host
	@$(MAKE) --no-print-directory $(jobs) -C tests/conformance O=$(CURDIR)/build/host

provider-host: compiler ## build the libibverbs provider with this machine's compiler
	@$(MAKE) --no-print-directory $(jobs) -C provider O=$(CURDIR)/build/host/provider \
		RDMA_CORE=$(RDMA_CORE)

install: module model provider-host ## install module, provider, model and headers (DESTDIR=, prefix=)
	$(MAKE) -C $(KDIR) M=$(CURDIR)/build/host/module/tree INSTALL_MOD_DIR=updates \
		INSTALL_MOD_PATH=$(DESTDIR) $(if $(DESTDIR),DEPMOD=true) modules_install
	$(MAKE) -C provider O=$(CURDIR)/build/host/provider DESTDIR=$(DESTDIR) prefix=$(prefix) \
		RDMA_CORE=$(RDMA_CORE) RDMA_CORE_BUILD=$(RDMA_CORE_BUILD) install
	install -D -m 755 -t $(DESTDIR)$(bindir) build/host/moor-nic build/host/moor-conformance
	install -D -m 644 -t $(DESTDIR)$(mandir)/man1 model/moor-nic.1 tests/conformance/moor-conformance.1
	install -D -m 644 -t $(DESTDIR)$(includedir)/moor include/moor/*.h
	install -D -m 644 -t $(DESTDIR)$(includedir)/rdma include/uapi/rdma/*.h

uninstall: ## remove what install put there (same DESTDIR=, prefix=, KDIR=)
	rm -f $(DESTDIR)$(bindir)/moor-nic $(DESTDIR)$(mandir)/man1/moor-nic.1
	rm -f $(DESTDIR)$(bindir)/moor-conformance $(DESTDIR)$(mandir)/man1/moor-conformance.1
	rm -f $(DESTDIR)$(includedir)/rdma/moor-abi.h $(DESTDIR)$(includedir)/rdma/moor_user_ioctl_cmds.h
	rm -rf $(DESTDIR)$(includedir)/moor
	find $(DESTDIR)/lib/modules/*/updates -name 'moor.ko*' -delete
	$(MAKE) -C provider O=$(CURDIR)/build/host/provider DESTDIR=$(DESTDIR) prefix=$(prefix) \
		RDMA_CORE=$(RDMA_CORE) RDMA_CORE_BUILD=$(RDMA_CORE_BUILD) uninstall
	$(if $(DESTDIR),,depmod)

setup: ## build the Debian root that everything else runs in (once a machine)
	@scripts/setup

modules: setup ## build moor.ko in the root for its three kernels: build/modules/
	@for kind in newest lts headers; do \
		kernel=$$(cat build/root/etc/moor/kernel-$$kind) && \
		$(in_root) scripts/build-module /lib/modules/$$kernel/build build/modules/$$kernel $(module_flags) || exit; \
	done

provider: setup ## build the libibverbs provider in the root: build/provider/
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C provider O=$(CURDIR)/build/provider \
		RDMA_CORE_BUILD=$(CURDIR)/build/rdma-core/build CFLAGS='-O2 -g -Werror'

provider-unstable: setup ## the same for Debian unstable's rdma-core, with its libibverbs: build/provider-unstable/
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C provider O=$(CURDIR)/build/provider-unstable \
		RDMA_CORE_BUILD=$(CURDIR)/build/rdma-core-unstable/build CFLAGS='-O2 -g -Werror'
	@cp -u build/rdma-core-unstable/build/lib/libibverbs.so.1 build/rdma-core-unstable/build/bin/ibv_* \
		build/provider-unstable/

nic: setup ## build the NIC model in the root: build/model/moor-nic
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C model O=$(CURDIR)/build/model

conformance-nic: nic
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C tests/conformance O=$(CURDIR)/build/model

conformance: conformance-nic ## hold the NIC model against the rules of the hardware interface
	@$(in_root) build/model/moor-conformance --nic build/model/moor-nic

tests: provider ## build the test programs of tests/ in the root: build/tests/
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C tests O=$(CURDIR)/build/tests

vm-parts: modules provider nic tests ## build everything that scripts/vm and the tests use

sparse: modules ## check the driver with sparse, against the newest headers
	@kernel=$$(cat build/root/etc/moor/kernel-headers) && \
	$(in_root) scripts/build-module --sparse /lib/modules/$$kernel/build build/modules/$$kernel $(module_flags)

debug-kernel: ## build the guest's debug kernel (KASAN, lockdep ...) and the driver for it
kcsan-kernel: ## build the guest's KCSAN kernel and the driver for it
# The driver with the compiler that the kernel was built with.
debug-kernel kcsan-kernel: %-kernel: setup
	@scripts/setup-tools --$*
	@dir=$$(readlink -e build/$*) && scripts/lib/enter-tools scripts/build-module "$$dir" \
		build/modules/$$(cat $$dir/include/config/kernel.release) $(module_flags)

demo: vm-parts ## boot the VM with the NIC in it and show what it does
	@scripts/demo

lint: setup ## static analysis of everything: sparse, W=1, checkpatch, cppcheck, shellcheck ...
	@scripts/lint

kunit: setup ## KUnit suites of the driver under User-Mode Linux, on both kernels (once: builds them)
	@scripts/kunit --kernel lts
	@scripts/kunit

mutants: setup ## seed mistakes into a copy and see that the tests catch them (tests/mutants/)
	@scripts/setup-tools --uml
	@scripts/mutants

coverage: setup ## the KUnit suites with the driver's lines counted: what is executed, what is not
	@scripts/coverage

fuzz: setup ## fuzz the NIC model with libFuzzer, a minute a target (scripts/fuzz --help)
	@scripts/fuzz

nic-asan: ## build the NIC model with ASan and UBSan; then MOOR_NIC=build/model-asan/moor-nic scripts/vm
nic-tsan: ## the same with TSan: build/model-tsan/moor-nic
nic-asan: sanitize := address,undefined
nic-tsan: sanitize := thread
nic-asan nic-tsan: nic-%: setup
	@$(in_root) $(MAKE) --no-print-directory -s $(jobs) -C model O=$(CURDIR)/build/model-$* \
		SANITIZE=$(sanitize)

check: ## run every test meant for every change; the last line is the totals
	@scripts/check

check-full: ## everything else as well, for hours; resumable (scripts/check-full --help)
	@scripts/check-full

clean: ## remove what was built; the root and its cache stay
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -type l -exec rm -rf --one-file-system {} +

clean-cache: clean ## remove the root too, and everything that was downloaded
	@scripts/setup --remove

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  scripts/vm --help   the VM runner"

.DEFAULT_GOAL := module
.PHONY: compiler conformance conformance-nic module model provider-host install uninstall setup modules provider nic tests vm-parts \
	debug-kernel kcsan-kernel sparse demo lint kunit coverage fuzz nic-asan nic-tsan mutants check check-full \
	clean clean-cache help
