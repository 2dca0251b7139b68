# SPDX-License-Identifier: GPL-2.0
# 'make help' lists the targets. What the VM and the tests use is built inside
# the Debian root that 'make setup' makes; what is installed on this machine,
# with this machine's compiler.

ifneq ($(words $(CURDIR)),1)
$(error the folder of this checkout is '$(CURDIR)', and make cannot name files in a folder with white space: \
	move the checkout to another one)
endif

KDIR	?= /lib/modules/$(shell uname -r)/build
prefix	?= /usr
bindir	?= $(prefix)/bin
mandir	?= $(prefix)/share/man
includedir ?= $(prefix)/include

# rdma-core's source, for the provider (see provider/Makefile): as apt-get fetches it,
# or as 'make setup' has it
RDMA_CORE	?= $(firstword $(wildcard rdma-core_*.orig.tar.* build/rdma-core/src))

jobs	:= -j$(shell nproc)
in_root	:= scripts/in-root --
root_kernel = $(shell cat build/root/etc/moor/kernel-$(1))
# Inside the root, what is warned about is an error.
module_flags := W=1 KCFLAGS=-Werror MOOR_TESTS=m

module: ## build moor.ko for the running kernel, or for the headers in KDIR=
	@scripts/build-module $(KDIR) build/host/module
	@echo "build/host/module/moor.ko"

compiler:
	@command -v $(CC) >/dev/null || { echo "no compiler: '$(CC)' is not there; install one (Debian: gcc libc6-dev)," \
		"or use what 'make nic' builds in the root" >&2; exit 1; }

model: compiler ## build NIC model and conformance suite with this machine's compiler: build/host/
	@$(MAKE) --no-print-directory $(jobs) -C model O=$(CURDIR)/build/host
	@$(MAKE) --no-print-directory $(jobs) -C tests/conformance O=$(CURDIR)/build/host

provider_host = $(MAKE) --no-print-directory -C provider O=$(CURDIR)/build/host/provider \
	RDMA_CORE=$(abspath $(RDMA_CORE)) RDMA_CORE_BUILD=$(abspath $(RDMA_CORE_BUILD)) prefix=$(prefix) DESTDIR=$(DESTDIR)

provider-host: compiler ## build the libibverbs provider with this machine's compiler (RDMA_CORE=, see provider/Makefile)
	@$(provider_host) $(jobs)

install: install-module install-provider install-model ## install all three (DESTDIR=, prefix=, libdir=)

# Not by kbuild's modules_install: against packaged headers its depmod stops for want of a
# System.map, and it complains of a key to sign with that is not there.
install-module: module ## install moor.ko for the running kernel, or for KDIR=
	release=$$(cat $(KDIR)/include/config/kernel.release) && \
	install -D -m 644 build/host/module/moor.ko $(DESTDIR)/lib/modules/$$release/updates/moor.ko && \
	$(if $(DESTDIR),:,depmod $$release)

install-provider: provider-host ## install the provider, its manual pages and headers
	$(provider_host) install

install-model: model ## install moor-nic, moor-conformance, and the headers of the hardware interface
	install -D -m 755 -t $(DESTDIR)$(bindir) build/host/moor-nic build/host/moor-conformance
	install -D -m 644 -t $(DESTDIR)$(mandir)/man1 model/moor-nic.1 tests/conformance/moor-conformance.1
	install -D -m 644 -t $(DESTDIR)$(includedir)/moor include/moor/*.h

uninstall: ## remove what install put there, the module of all kernels (same DESTDIR=, prefix=, libdir=)
	rm -f $(patsubst %,$(DESTDIR)$(bindir)/%,moor-nic moor-conformance)
	rm -f $(patsubst %,$(DESTDIR)$(mandir)/man1/%.1,moor-nic moor-conformance)
	rm -rf $(DESTDIR)$(includedir)/moor
	$(provider_host) uninstall
	for module in $(wildcard $(DESTDIR)/lib/modules/*/updates/moor.ko); do \
		tree=$${module%/updates/*} && rm "$$module" && \
		{ rmdir --ignore-fail-on-non-empty "$$tree/updates"; $(if $(DESTDIR),:,depmod "$${tree##*/}"); } || exit; \
	done

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

bench: vm-parts conformance-nic ## Moor beside rxe and the floor: table, CSV and plots in build/bench/ (scripts/bench --help)
	@scripts/bench

lint: setup ## static analysis of everything: sparse, W=1, checkpatch, cppcheck, shellcheck ...
	@scripts/lint

kunit: setup ## KUnit suites of the driver under User-Mode Linux, on both kernels (once: builds them)
	@scripts/kunit --kernel lts
	@scripts/kunit

mutants: debug-kernel ## seed mistakes into a copy and see that the tests catch them (tests/mutants/)
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

# That may refuse, and then nothing is removed.
clean-cache: ## remove the root too, and everything that was downloaded
	@scripts/setup --remove
	@$(MAKE) --no-print-directory clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  scripts/vm --help   the VM runner"

.DEFAULT_GOAL := module
.PHONY: compiler conformance conformance-nic module model provider-host install install-module install-provider install-model uninstall \
	setup modules provider provider-unstable nic tests vm-parts \
	debug-kernel kcsan-kernel sparse demo bench lint kunit coverage fuzz nic-asan nic-tsan mutants check check-full \
	clean clean-cache help
