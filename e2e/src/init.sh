# First process (PID 1) of a lab's PID and mount namespaces, run by bash. It obeys the lines on its standard input, a
# pipe held by the process that owns the lab. When that process ends, however it ends, the pipe closes, this loop ends,
# and the kernel kills every process of the PID namespace and drops its mounts and network namespaces.
set -u

# What is written goes to memory and vanishes with the mount namespace. The folder of the logs ($1) stays the host's.
mount -t tmpfs -o mode=755 windlass-lab /run || exit 1
mkdir -p /run/netns /run/lab/var /run/lab/var-work /run/lab/out /run/lock || exit 1
mount --bind "$1" /run/lab/out || exit 1

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
