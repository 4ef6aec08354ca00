#!/bin/sh
# Sent to a host with a tar on stdin: unpack it unless the host has it, then make homes. `check` only looks.
set -e
umask 022
archive=$(mktemp)
trap 'rm -f "$archive"' EXIT
cat >"$archive"
for kind in passwd group; do
    tar --extract --to-stdout --file "$archive" "var/lib/extrausers/$kind" | awk -F: -v kind="$kind" '
        NR == FNR { number[$1] = $3; name[$3] = $1; next }
        $1 in number { print kind ": " $1 " has number " $3 " on this host, and " number[$1] " in the list"; next }
        $3 in name { print kind ": number " $3 " is that of " $1 " on this host, and of " name[$3] " in the list" }
    ' - "/etc/$kind"
done >"$archive.taken"
if [ -s "$archive.taken" ]; then
    sed 's/^/taken: /' "$archive.taken"
    rm -f "$archive.taken"
    exit 3
fi
rm -f "$archive.taken"
changed=no
tar --compare --file "$archive" --directory / >/dev/null 2>&1 || changed=yes
grep -q extrausers /etc/nsswitch.conf || changed=yes
if [ "$1" != check ]; then
    if [ "$changed" = yes ]; then
        tar --extract --preserve-permissions --numeric-owner --file "$archive" --directory /
        grep -q extrausers /etc/nsswitch.conf ||
            sed -i '/^\(passwd\|group\|shadow\):/s/$/ extrausers/' /etc/nsswitch.conf
        systemctl try-reload-or-restart ssh
    fi
    /usr/lib/gpuprov/settle-people --host | sed -n 's/^\(..*\)$/trouble: \1/p'
fi
echo "changed: $changed"
