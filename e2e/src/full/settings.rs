//! Configuration files of a node: containerd's, kubelet's, CNI's. Each node has a folder of its own in the lab's memory.

use serde_json::json;

use super::images::PAUSE;
use crate::tools::CNI_PLUGINS;

/// containerd's configuration.
pub(super) fn containerd(folder: &str) -> String {
    format!(
        "version = 3
root = '{folder}/containerd'
state = '{folder}/containerd-state'

[grpc]
address = '{folder}/containerd.sock'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE}'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = '{folder}/runc'

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{CNI_PLUGINS}']
conf_dir = '{folder}/cni'

# These would share a place with the other nodes, or make folders on the host.
[plugins.'io.containerd.nri.v1.nri']
disable = true

[plugins.'io.containerd.internal.v1.opt']
path = '{folder}/opt'
"
    )
}

/// The pods' network: a bridge and a range of addresses. MTU 0 is the kernel's default.
pub(super) fn cni(folder: &str, pods: &[String; 2], mtu: u16) -> String {
    json!({
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "mtu": mtu,
            "ipam": {
                "type": "host-local",
                "dataDir": format!("{folder}/cni-addresses"),
                "ranges": [[{"subnet": pods[0]}], [{"subnet": pods[1]}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            },
        }],
    })
    .to_string()
}

/// kubelet's configuration.
pub(super) fn kubelet(folder: &str) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // Only the lab reaches the port.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{folder}/containerd.sock"),
        "podLogsDir": format!("{folder}/pod-logs"),
        "volumePluginDir": format!("{folder}/volume-plugins"),
        // Hosts with cgroups of v1, with swap, within containers: whatever runs the lab.
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        // No DNS: a lab has no names, and must not ask the host's servers.
        "resolvConf": "",
        "maxPods": 25,
        // Pods have so long to end when the machine goes down; those that the node needs are the last.
        "shutdownGracePeriod": "20s",
        "shutdownGracePeriodCriticalPods": "15s",
        // The disk is the machine's: how full it is says nothing about the node.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
    })
    .to_string()
}
