#!/usr/bin/env bash
# Everything that `make test` checks, in the order in which a failure is cheapest. Goes on after a failed step; the last line counts.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin:/sbin

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()

step() {
    local name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee -a "$log" || failed+=("$name")
}

step format cargo fmt --all --check
step lints cargo clippy --workspace --all-targets -- -D warnings
step documentation env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --document-private-items
step library cargo build --release --package gpuio --package fio-shim
step "library with faults" cargo build --release --package gpuio --features faults --target-dir target/faults
for version in 3.25 3.33 3.39 3.41; do
    step "fio $version" cargo xtask fio "$version"
done
for version in 3.33 3.41; do
    step "source of fio $version" cargo xtask fio-src "$version"
done
step "HIP runtime" cargo xtask hip
step "fio 3.41 with libcufile" cargo xtask fio 3.41 --with-libcufile
step "tests of the parts" cargo test --workspace --exclude gpuio --no-fail-fast
# fio sleeps most of the time: more tests at once than there are cores.
step "tests of the engine" env RUST_TEST_THREADS="$(($(nproc) * 3))" cargo test --package gpuio --no-fail-fast

count() {
    grep -E '^test result:' "$log" | grep -oE "[0-9]+ $1" | awk '{ sum += $1 } END { print sum + 0 }'
}
summary="make test: $(count passed) passed, $(count failed) failed, $(count ignored) ignored, $(grep -c '^skipped: ' "$log") skipped"
if [ "${#failed[@]}" = 0 ]; then
    printf '\n%s\n' "$summary"
    exit 0
fi
printf '\nFailed:\n'
printf '  %s\n' "${failed[@]}"
grep -E '^test .* \.\.\. FAILED$' "$log"
printf '%s\n' "$summary"
exit 1
