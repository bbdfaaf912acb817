# libgpuio: `make help` says what there is.

PREFIX ?= /usr/local
LIBRARY := target/release/libgpuio.so
LIB := $(DESTDIR)$(PREFIX)/lib
SHARE := $(DESTDIR)$(PREFIX)/share/libgpuio

.PHONY: help run test build bench install install-aliases uninstall clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' Makefile

run: ## install what is missing, build, run a small verified job in host memory
	@scripts/install.sh run
	cargo build --release
	fio fio-jobs/quickstart.fio
	@echo "make run: done; the job's file is removed again"

test: ## install what the tests need, build, run all of them
	@scripts/install.sh test
	@scripts/test.sh

build: ## target/release/libgpuio.so
	cargo build --release

bench: ## compare with fio's own engines on this machine
	cargo build --release
	cargo xtask bench

install: ## the library to PREFIX/lib (PREFIX=/usr/local), the job files to PREFIX/share/libgpuio; DESTDIR is honoured
	@test -f $(LIBRARY) || { echo "$(LIBRARY) is not there: run make build first"; exit 1; }
	install -D -m 755 $(LIBRARY) $(LIB)/libgpuio.so
	install -d $(SHARE)
	for job in fio-jobs/*.fio; do sed 's|external:./$(LIBRARY)|external:$(PREFIX)/lib/libgpuio.so|' $$job > $(SHARE)/$${job##*/}; done

install-aliases: install ## also the links by which job files for fio's libcufile and libhipfile find the library
	ln -sf libgpuio.so $(LIB)/libcufile
	ln -sf libgpuio.so $(LIB)/libhipfile

uninstall: ## what install and install-aliases have made
	rm -f $(LIB)/libgpuio.so $(LIB)/libcufile $(LIB)/libhipfile
	rm -rf $(SHARE)

clean: ## everything built and downloaded
	cargo clean
