#!/bin/sh
# Builds the plugin and tests it: ./build.sh. No crate but std is needed, and no network.
#
# EFFECTD_TEST_DATABASE as for test.py; without it only loading is tested.
set -eu
cd "$(dirname "$0")"
export EFFECTD="${EFFECTD:-$(pkg-config --variable=effectd effectd)}"
cargo build --release --offline
install -m 0755 target/release/libexample.so example.so
"$EFFECTD" plugin show ./example.so
python3 test.py . || [ $? = 77 ]
