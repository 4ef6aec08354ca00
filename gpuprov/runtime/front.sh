# shellcheck shell=sh disable=SC2154
# What comes before is written by `gpuprov gate up`: FOLDER, LIBRARY, RUNC, PYTHON, LEASES.
# This is run in place of runc. It hands over to runc at once, unless a container is made that asks for GPUs.
[ -x "$RUNC" ] || RUNC=$(command -v runc) # a package may have moved it
verb='' id='' bundle=. root=/run/runc log='' takes=''
for word in "$@"; do
    if [ -n "$takes" ]; then
        case $takes in
        bundle) bundle=$word ;;
        root) root=$word ;;
        log) log=$word ;;
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
    --log-format | -log-format | --log-level | --criu | --rootless | --cgroup-manager) takes=other ;;
    --console-socket | --pid-file | --pidfd-socket | --preserve-fds | --config | -f) takes=other ;;
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$word; elif [ -z "$id" ]; then id=$word; fi ;;
    esac
done
case $verb:$id in
delete:*/* | delete:.*) exec "$RUNC" "$@" ;;
delete:?*)
    [ -e "$LEASES/$id" ] || exec "$RUNC" "$@"
    "$RUNC" "$@" || exit
    rm -f -- "$LEASES/$id"
    exit 0
    ;;
create:*) ;;
*) exec "$RUNC" "$@" ;;
esac
# $0 tells the two names apart: as default runtime, a variable that images set themselves is no request.
named=1 more='"NVIDIA_VISIBLE_DEVICES='
case $0 in *-default) named=0 more='"HOUDINI_ENABLED=' ;; esac
/bin/grep -qF -e '"HOUDINI_GPU_' -e '"HOUDINI_ENABLED=' -e '"GPUPROV_GPUS=' -e '"gpuprov.gpus"' \
    -e 'nvidia-container-runtime-hook' -e "$more" -- "$bundle/config.json" 2>/dev/null || exec "$RUNC" "$@"
status=126
[ -x "$PYTHON" ] && /usr/bin/env -i "$PYTHON" -I -S "$LIBRARY/gpuprov/runtime/start.py" \
    "$LIBRARY" "$FOLDER" "$$" "$bundle" "$root" "$id" "$log" "$named" && exec "$RUNC" "$@"
status=$?
[ "$status" = 3 ] && exit 1 # it has said why
why="gpuprov: the runtime failed (exit $status); look: gpuprov gate check"
[ -z "$log" ] || printf '{"level":"error","msg":"%s","time":"%s"}\n' "$why" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$log"
echo "$why" >&2
exit 1
