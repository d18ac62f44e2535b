# First process (PID 1) of a lab's PID and mount namespaces, run by bash. It obeys the lines on its standard input, a
# pipe held by the process that owns the lab. When that process ends, however it ends, the pipe closes, this loop ends,
# and the kernel kills every process of the PID namespace and drops its mounts and network namespaces.
set -u

# What is written goes to memory and vanishes with the mount namespace. The folder of the logs ($1) stays the host's.
mount -t tmpfs -o mode=755 windlass-lab /run || exit 1
mkdir -p /run/netns /run/lab/var /run/lab/var-work /run/lab/out /run/lock || exit 1
mount --bind "$1" /run/lab/out || exit 1

# In a cgroup namespace of its own (the full variant) the lab sees only its own cgroups, as / of each hierarchy.
if [ "$(readlink /proc/self/ns/cgroup)" != "$2" ]; then
  while IFS= read -r line; do
    [[ $line =~ ^[^\ ]+\ [^\ ]+\ [^\ ]+\ [^\ ]+\ ([^\ ]+)\ .*\ -\ (cgroup2?)\ [^\ ]+\ ([^\ ]+)$ ]] || continue
    point=${BASH_REMATCH[1]} type=${BASH_REMATCH[2]} options=
    if [ "$type" = cgroup ]; then
      # Which hierarchy: its controllers, or its name. The rest of the options is not ours to set.
      IFS=, read -ra words <<<"${BASH_REMATCH[3]}"
      for word in "${words[@]}"; do
        case $word in
          rw | ro | xattr | clone_children | noprefix | release_agent=*) ;;
          name=*) options+=,none,$word ;;
          *) options+=,$word ;;
        esac
      done
    fi
    umount --lazy "$point" && mount -t "$type" ${options:+-o "${options#,}"} cgroup "$point" || exit 1
  done < <(cat /proc/self/mountinfo)
fi

# start NETNS LOG COMMAND...: run COMMAND in the network namespace and answer with its process id.
# With only --net, nsenter executes COMMAND in its own place: the id is COMMAND's.
start() {
  local netns=$1 log=$2
  shift 2
  nsenter --net="/run/netns/$netns" -- "$@" </dev/null >>"/run/lab/out/$log" 2>&1 &
  echo "$!"
}

echo ready
while IFS= read -r line; do eval "$line"; done
