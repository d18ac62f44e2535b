//! keepalived's side: Debian's, one instance on n1 and one on n2, with Windlass' priorities.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::DeleteParams};
use windlass_e2e::{Lab, Signal};

use crate::{Contender, foreign_service};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 190));
const VRID: u8 = 250;
const SERVICE: &str = "keepalived";

/// Starts both, with the priorities that Windlass' router `like` gives to the two nodes.
pub(crate) async fn start(lab: &Lab, interval_ms: u32, like: &Contender) -> anyhow::Result<Contender> {
    foreign_service(lab, SERVICE, ADDRESS).await?;
    for node in ["n1", "n2"] {
        let priority = if node == like.preferred { like.preferred_priority } else { like.backup_priority };
        let file = lab.folder().join(format!("keepalived-{node}.conf"));
        fs::write(&file, configuration(interval_ms, priority))
            .with_context(|| format!("writing {}", file.display()))?;
        let file = file.display().to_string();
        let pid = format!("/run/lab/keepalived-{node}");
        let command = [
            "keepalived",
            "--dont-fork",
            "--vrrp",
            "--log-console",
            "--use-file",
            &file,
            "--pid",
            &format!("{pid}.pid"),
            "--vrrp_pid",
            &format!("{pid}-vrrp.pid"),
        ];
        lab.start_process(node, SERVICE, &command)?;
    }
    Ok(Contender {
        system: "keepalived",
        address: ADDRESS,
        vrid: VRID,
        preferred: like.preferred.clone(),
        backup_priority: like.backup_priority,
        preferred_priority: like.preferred_priority,
    })
}

/// Ends both and removes the Service.
pub(crate) async fn stop(lab: &Lab) -> anyhow::Result<()> {
    for node in ["n1", "n2"] {
        lab.end_process(node, SERVICE, Signal::SIGTERM).await?;
    }
    let services: Api<Service> = Api::default_namespaced(lab.client());
    services.delete(SERVICE, &DeleteParams::default()).await?;
    Ok(())
}

fn configuration(interval_ms: u32, priority: u8) -> String {
    format!(
        "global_defs {{
             router_id bench
             vrrp_version 3
         }}
         vrrp_instance bench {{
             state BACKUP
             interface eth0
             virtual_router_id {VRID}
             priority {priority}
             advert_int {}.{:03}
             virtual_ipaddress {{ {ADDRESS}/32 dev eth0 }}
         }}\n",
        interval_ms / 1000,
        interval_ms % 1000
    )
}
