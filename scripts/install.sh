#!/usr/bin/env bash
# Installs what `make run` or `make test` needs and this machine has not: packages of Debian and Ubuntu, by name.
# usage: install.sh run|test
set -euo pipefail

# What must be there, and the package that has it: a command, or a file by its full path.
needs=(fio=fio cc=gcc c++=g++)
if [ "${1:?run or test}" = test ]; then
    needs+=(make=make readelf=binutils strace=strace losetup=mount mount=mount setpriv=util-linux unshare=util-linux
        blockdev=util-linux cmp=diffutils gzip=gzip dpkg=dpkg python3=python3 pip3=python3-pip)
fi

command -v cargo > /dev/null || { echo "There is no Rust toolchain here (1.85 or later): get one from rustup.rs or your distribution" >&2; exit 1; }

missing=()
for need in "${needs[@]}"; do
    command -v "${need%%=*}" > /dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "${need%%=*}" > /dev/null || missing+=("${need#*=}")
done
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
if [ "$1" = test ]; then
    known=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)
    grep -q libclang <<< "$known" || ls /usr/lib/llvm-*/lib/libclang*.so* > /dev/null 2>&1 || missing+=(libclang-dev)
    # What NVIDIA's libcufile links to.
    for need in libudev.so.1=libudev1 libmount.so.1=libmount1 liburcu-bp.so.8=liburcu8; do
        grep -qF "${need%%=*}" <<< "$known" || missing+=("${need#*=}")
    done
fi
if [ "${#missing[@]}" = 0 ]; then
    echo "Nothing to install: all that make $1 needs is here"
    exit 0
fi

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
echo "Installing ${missing[*]}"
command -v apt-get > /dev/null || { echo "This machine has no apt-get: install these (or their like) by hand" >&2; exit 1; }
root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "Installing needs root, and there is no sudo here" >&2; exit 1; }
    root=(sudo)
fi
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
