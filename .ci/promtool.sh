#!/usr/bin/env bash
# Put promtool, which checks alerts, into a folder.
#
#   .ci/promtool.sh BIN
#
# Debian has it in the package of the server, whose installation would start one: it is unpacked.
set -euo pipefail

bin=$(cd "$1" && pwd)
command -v promtool > /dev/null && exit
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# apt gives up its rights for the download, and then has to write here.
chmod 777 .
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
apt-get download -q prometheus || { as_root apt-get update -q && apt-get download -q prometheus; }
dpkg-deb --extract prometheus_*.deb .
install usr/bin/promtool "$bin"
