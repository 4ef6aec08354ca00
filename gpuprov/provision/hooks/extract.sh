#!/bin/sh
# Documentation and translations are a third of the files, and the number of files is what a copy or a start costs.
# dpkg is told here: as options of mmdebstrap, a program of its own would filter every archive, which takes longer than
# to unpack it.
set -eu
for folder in doc info locale man; do
    echo "path-exclude=/usr/share/$folder/*"
    [ ! -d "$1/usr/share/$folder" ] ||
        find "$1/usr/share/$folder" -mindepth 1 \( ! -type d ! -name copyright -o -type d -empty \) -delete
done >"$1/etc/dpkg/dpkg.cfg.d/99gpuprov"
echo 'path-include=/usr/share/doc/*/copyright' >>"$1/etc/dpkg/dpkg.cfg.d/99gpuprov"
