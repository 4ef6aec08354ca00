# shellcheck shell=sh disable=SC2154
# What comes before is written by `gpuprov gate up`: FOLDER, LIBRARY, RUNC, PYTHON, LEASES, REMOVALS, AFTER; of a
# policy, TOUCH and EXEC.
# This is run in place of runc. It hands over to runc at once, unless a container is made that asks for GPUs or that a
# policy touches, or a process with more capabilities than Docker's default ones enters a container.
[ -x "$RUNC" ] || RUNC=$(command -v runc) # a package may have moved it
root=/run/runc # where it keeps its state unless it is told
case ${RUNC##*/} in crun*) root=/run/crun ;; esac
verb='' id='' bundle=. log='' process='' sure='' takes=''
for word in "$@"; do
    if [ -n "$takes" ]; then
        case $takes in
        bundle) bundle=$word ;;
        root) root=$word ;;
        log) log=$word ;;
        process) process=$word ;;
        esac
        takes=''
        continue
    fi
    case $word in
    --bundle | -bundle | --b | -b) takes=bundle ;;
    --bundle=* | -bundle=* | --b=* | -b=*) bundle=${word#*=} ;;
    --root | -root) takes=root ;;
    --root=* | -root=*) root=${word#*=} ;;
    --log | -log) takes=log ;;
    --log=* | -log=*) log=${word#*=} ;;
    --process | -process | -p) takes=process ;;
    --process=* | -process=* | -p=*) process=${word#*=} ;;
    --log-format | -log-format | --log-level | --criu | --rootless | --cgroup-manager) takes=other ;;
    --console-socket | --pid-file | --pidfd-socket | --preserve-fds | --config | -f) takes=other ;;
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$word; elif [ -z "$id" ]; then id=$word; fi ;;
    esac
done
case $verb:$id in
delete:*/* | delete:.*) exec "$RUNC" "$@" ;;
delete:?*)
    [ -e "$LEASES/$id" ] || [ -e "$REMOVALS/$id" ] || exec "$RUNC" "$@"
    "$RUNC" "$@" || exit
    # one of the same id in another place may hold GPUs
    /bin/grep -qsF -e "\"state\": \"$root/$id\"" -- "$LEASES/$id" && rm -f -- "$LEASES/$id"
    [ -e "$REMOVALS/$id" ] && read -r judged state <"$REMOVALS/$id" && [ "$state" = "$root/$id" ] || exit 0
    rm -f -- "$REMOVALS/$id"
    ended=$(date -u +%Y-%m-%dT%H:%M:%S)
    # nobody waits for it, and nothing of it is left open in who started this
    (
        sleep "$AFTER"
        exec /usr/bin/env -i "$PYTHON" -I -S "$LIBRARY/gpuprov/runtime/remove.py" \
            "$LIBRARY" "$FOLDER" "$id" "$judged" "$ended"
    ) </dev/null >/dev/null 2>&1 &
    exit 0
    ;;
create:*)
    process=''
    case $id in
    '' | */* | .*) ;;
    *) [ ! -e "$REMOVALS/$id" ] || rm -f -- "$REMOVALS/$id" ;; # of an earlier start
    esac
    if [ "$TOUCH" = everything ]; then sure=1; fi
    ;;
exec:*)
    if [ -z "$EXEC" ] || [ -z "$process" ]; then exec "$RUNC" "$@"; fi
    sure=1
    usual='CHOWN|DAC_OVERRIDE|FOWNER|FSETID|KILL|MKNOD|NET_BIND_SERVICE|NET_RAW|AUDIT_WRITE'
    usual="\"CAP_($usual|SETFCAP|SETGID|SETPCAP|SETUID|SYS_CHROOT)\""
    /bin/grep -oE '"CAP_[A-Z_]*"' -- "$process" 2>/dev/null | /bin/grep -qvxE "$usual" || exec "$RUNC" "$@"
    ;;
*) exec "$RUNC" "$@" ;;
esac
# $0 tells the two names apart: as default runtime, a variable that images set themselves is no request.
named=1 more='"NVIDIA_VISIBLE_DEVICES='
case $0 in *-default) named=0 more='"HOUDINI_ENABLED=' ;; esac
[ -n "$sure" ] || /bin/grep -qF -e '"HOUDINI_GPU_' -e '"HOUDINI_ENABLED=' -e '"GPUPROV_GPUS=' -e '"gpuprov.gpus"' \
    -e 'nvidia-container-runtime-hook' -e "$more" -- "$bundle/config.json" 2>/dev/null || exec "$RUNC" "$@"
status=126
[ -x "$PYTHON" ] && /usr/bin/env -i "$PYTHON" -I -S "$LIBRARY/gpuprov/runtime/start.py" \
    "$LIBRARY" "$FOLDER" "$$" "$bundle" "$root" "$id" "$log" "$named" "$TOUCH" "$process" && exec "$RUNC" "$@"
status=$?
[ "$status" = 3 ] && exit 1 # it has said why
why="gpuprov: the runtime failed (exit $status); look: gpuprov gate check"
[ -z "$log" ] || printf '{"level":"error","msg":"%s","time":"%s"}\n' "$why" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$log"
echo "$why" >&2
exit 1
