# Stands in for kvcm-server in tests/process.rs: writes the ports file that its arguments name and
# waits. `-e fake=exit` makes it end at once, `-e fake=mute` makes it never serve.
for word in "$@"; do
    case $word in
        kvcm.service.ports_file=*) ports=${word#*=} ;;
        kvcm.service.rpc_port=*) rpc=${word#*=} ;;
        fake=*) fake=${word#*=} ;;
    esac
done
echo "started with $fake"
if [ "$fake" = exit ]; then
    echo "bad value" >&2
    exit 2
fi
[ "$rpc" = 0 ] && rpc=4001
if [ "$fake" != mute ]; then
    echo "{\"rpc_port\":$rpc,\"http_port\":4002,\"admin_rpc_port\":$rpc,\"admin_http_port\":4004}" >"$ports.new"
    mv "$ports.new" "$ports"
fi
exec sleep 600
