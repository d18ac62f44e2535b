//! Everything that people and machines do to Services, pools and claims, in random order: what a Service has it keeps,
//! and in the end nothing is doubled, leaked, or pending without a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::try_join;
use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{IPPool, VirtualIP, virtual_ip_name};
use windlass_e2e::{ControllerOptions, Lab, Signal, shown};

use super::crashes::Random;
use crate::setup::{LIMIT, services};

/// How many edits are made.
const EDITS: usize = 150;
/// Services that nobody edits, though their claims and status are.
pub(super) const STEADY: [&str; 6] = ["steady-0", "steady-1", "steady-2", "steady-3", "steady-4", "steady-5"];
/// Services that come, go and change.
const LOOSE: u64 = 10;
/// Pools among which the slices of the address range are dealt out again and again.
const POOLS: [&str; 3] = ["pool-a", "pool-b", "pool-c"];
/// Slices: `192.0.2.100-192.0.2.109` and so on, and as many of IPv6.
const SLICES: u64 = 6;

#[test]
fn random_edits_move_no_address_and_leave_everything_in_order() -> anyhow::Result<()> {
    windlass_e2e::scenario("random-edits", Lab::builder().nodes(2).light(), async |lab| {
        let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("random-edits: WINDLASS_SEED={seed}");
        lab.deploy_windlass(&["n1"]).await?;
        let mut edits = Edits { lab, random: Random(seed) };
        edits.deal_pools(true).await?;
        for name in STEADY {
            edits.make(name, name.ends_with(['4', '5'])).await?;
            lab.ingress(name, LIMIT).await?;
        }
        lab.await_order(LIMIT).await?;
        let over = AtomicBool::new(false);
        let ((), had) = try_join!(
            async {
                let made = edits.make_all().await;
                over.store(true, Ordering::Relaxed);
                made
            },
            watch(lab, &over),
        )?;
        lab.await_order(LIMIT).await?;
        for name in STEADY {
            let now = services(lab, "default").get(name).await?;
            let before = had.get(name).with_context(|| format!("{name} was never seen"))?;
            ensure!(&shown(&now) == before, "{name} had {before:?} and has {:?}", shown(&now));
        }
        Ok(())
    })
}

/// Looks all the time at what the steady Services show: never another address. What they have.
async fn watch(lab: &Lab, over: &AtomicBool) -> anyhow::Result<BTreeMap<String, BTreeSet<IpAddr>>> {
    let mut had: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        // (The API server is away from time to time.)
        let Ok(all) = services(lab, "default").list(&ListParams::default()).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        for service in all.items.iter().filter(|service| STEADY.contains(&&*service.name_any())) {
            let now = shown(service);
            let before = had.entry(service.name_any()).or_insert_with(|| now.clone());
            // (A hand may just have emptied its status.)
            ensure!(
                now.is_empty() || now == *before,
                "{} had {before:?} and has {now:?}",
                service.name_any()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(had)
}

/// What hands write into the status of Services.
const FORGED: &str = "192.0.2.109";

pub(super) struct Edits<'a> {
    pub(super) lab: &'a Lab,
    pub(super) random: Random,
}

impl Edits<'_> {
    async fn make_all(&mut self) -> anyhow::Result<()> {
        for _ in 0..EDITS {
            match self.random.below(20) {
                0 => self.trouble_controller().await?,
                1 if self.random.below(3) == 0 => {
                    self.lab.stop_api_server().await?;
                    self.lab.start_api_server().await?;
                }
                _ => self.make_one(Self::ALL).await?,
            }
            tokio::time::sleep(Duration::from_millis(self.random.below(200))).await;
        }
        Ok(())
    }

    /// For [`Self::make_one`].
    const ALL: u64 = 18;
    /// Those that leave the status of Services alone, by which they keep their addresses when all claims are lost.
    pub(super) const ALL_BUT_STATUS: u64 = Self::ALL - 1;

    /// One edit of an object, among these many kinds.
    pub(super) async fn make_one(&mut self, kinds: u64) -> anyhow::Result<()> {
        match self.random.below(kinds) {
            0..=2 => self.deal_pools(false).await,
            3 => self.remake_pool().await,
            4..=9 => self.edit_service().await,
            10 => self.retype().await,
            11..=13 => self.replace().await,
            14..=16 => self.edit_claim().await,
            _ => self.edit_status().await,
        }
    }

    /// Deals the slices out to the pools, with settings by chance, which are such that all may use them where
    /// they are to be `open`. Between two of the writes they may overlap.
    pub(super) async fn deal_pools(&mut self, open: bool) -> anyhow::Result<()> {
        let mut dealt: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for slice in 0..SLICES {
            let first = 100 + 10 * slice;
            let v4 = format!("192.0.2.{first}-192.0.2.{}", first + 9);
            let v6 = format!("2001:db8::{slice}:0-2001:db8::{slice}:f");
            for range in [v4, v6] {
                dealt.entry(self.one_of(&POOLS)).or_default().push(range);
            }
        }
        let pools: Api<IPPool> = Api::all(self.lab.client());
        for name in POOLS {
            // A pool to which nothing was dealt has an address that nobody will want.
            let none = || vec![format!("198.51.100.{}", name.as_bytes()[5])];
            let exclude = match self.random.below(3) {
                0 => vec![format!("192.0.2.{}", 100 + self.random.below(10))],
                _ => Vec::new(),
            };
            let spec = json!({
                "addresses": dealt.remove(name).unwrap_or_else(none),
                "exclude": exclude,
                "disabled": !open && self.random.below(8) == 0,
                "autoAssign": open || self.random.below(8) != 0,
                "priority": self.random.below(3),
                "quarantineSeconds": self.random.below(4),
                "allocationOrder": self.one_of(&["Lowest", "Highest", "LeastRecentlyUsed"]),
                "namespaces": if !open && self.random.below(8) == 0 { json!(["elsewhere"]) } else { json!([]) },
            });
            let pool = json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec,
            });
            let apply = PatchParams::apply("random-edits").force();
            pools.patch(name, &apply, &Patch::Apply(pool)).await?;
        }
        Ok(())
    }

    async fn remake_pool(&mut self) -> anyhow::Result<()> {
        let pools: Api<IPPool> = Api::all(self.lab.client());
        let name = self.one_of(&POOLS);
        let old = pools.get(name).await?;
        pools.delete(name, &DeleteParams::default()).await?;
        tokio::time::sleep(Duration::from_millis(self.random.below(300))).await;
        pools.create(&PostParams::default(), &IPPool::new(name, old.spec)).await?;
        Ok(())
    }

    pub(super) async fn make(&mut self, name: &str, both: bool) -> anyhow::Result<()> {
        let policy = if both { "PreferDualStack" } else { "SingleStack" };
        let service: Service = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "type": "LoadBalancer", "ports": [{"port": 80}], "allocateLoadBalancerNodePorts": false,
                "ipFamilyPolicy": policy,
            },
        }))?;
        services(self.lab, "default").create(&PostParams::default(), &service).await?;
        Ok(())
    }

    fn loose(&mut self) -> String {
        format!("loose-{}", self.random.below(LOOSE))
    }

    /// Changes one thing of a Service, if it is there.
    async fn edit_service(&mut self) -> anyhow::Result<()> {
        let name = self.loose();
        let port = 80 + self.random.below(3);
        let change = match self.random.below(8) {
            0 => annotations(&json!({"windlass.dev/sharing-key": self.one_of(&["k", "l"])})),
            1 => annotations(&json!({"windlass.dev/sharing-key": null, "windlass.dev/addresses": null})),
            2 => annotations(
                &json!({"windlass.dev/addresses": format!("192.0.2.{}", 100 + self.random.below(70))}),
            ),
            3 => annotations(&json!({"windlass.dev/pool": self.one_of(&["pool-a", "pool-b", "none"])})),
            4 => annotations(&json!({"windlass.dev/pool": null, "windlass.dev/address-count": null})),
            5 => annotations(&json!({"windlass.dev/address-count": self.one_of(&["1", "2", "3", "x"])})),
            6 => json!({"spec": {"externalTrafficPolicy": self.one_of(&["Local", "Cluster"])}}),
            _ => json!({"spec": {"ports": [{"port": port, "protocol": "TCP"}]}}),
        };
        self.patch(&name, change).await?;
        if self.random.below(4) == 0 {
            let families = match self.random.below(3) {
                0 => json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}),
                1 => json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
                _ => json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            };
            let name = self.loose();
            self.patch(&name, json!({"spec": families})).await?;
        }
        Ok(())
    }

    async fn retype(&mut self) -> anyhow::Result<()> {
        let name = self.loose();
        self.patch(&name, json!({"spec": {"type": "ClusterIP", "externalTrafficPolicy": null}})).await?;
        tokio::time::sleep(Duration::from_millis(self.random.below(100))).await;
        if self.random.below(2) == 0 {
            self.patch(&name, json!({"spec": {"type": "LoadBalancer"}})).await?;
        }
        Ok(())
    }

    /// Deletes a Service, or makes it, or both as fast as the finalizer lets it.
    async fn replace(&mut self) -> anyhow::Result<()> {
        let name = self.loose();
        let api = services(self.lab, "default");
        if api.get_opt(&name).await?.is_none() {
            let both = self.random.below(3) == 0;
            return self.make(&name, both).await;
        }
        api.delete(&name, &DeleteParams::default()).await?;
        if self.random.below(2) == 0 {
            windlass_e2e::await_that(&format!("{name} is gone"), LIMIT, async || {
                ensure!(api.get_opt(&name).await?.is_none(), "it is there");
                Ok(Some(()))
            })
            .await?;
            self.make(&name, false).await?;
        }
        Ok(())
    }

    /// A hand on a claim: deleted, put in quarantine, out of it, led astray, shared with a ghost, or made of nothing.
    async fn edit_claim(&mut self) -> anyhow::Result<()> {
        let api: Api<VirtualIP> = Api::all(self.lab.client());
        let all = api.list(&ListParams::default()).await?.items;
        let index = usize::try_from(self.random.below(all.len() as u64 + 1))?;
        let ghost = json!({"namespace": "default", "name": "ghost", "uid": "ghost"});
        let Some(claim) = all.get(index) else {
            let address: IpAddr = format!("192.0.2.{}", 100 + self.random.below(60)).parse()?;
            let name = virtual_ip_name(address);
            let forged: VirtualIP = serde_json::from_value(json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": name},
                "spec": {"address": address, "pool": "pool-a", "owners": [ghost]},
            }))?;
            return absent_is_fine(api.create(&PostParams::default(), &forged).await);
        };
        let name = claim.name_any();
        let edit = self.random.below(5);
        let change = match edit {
            0 => return absent_is_fine(api.delete(&name, &DeleteParams::default()).await),
            1 => json!({"spec": {"quarantine": {
                "reason": "Released",
                "until": Timestamp::now() + Duration::from_secs(2),
            }}}),
            2 => json!({"spec": {"quarantine": null}}),
            3 => json!({"spec": {"virtualRouter": "nowhere"}}),
            _ => {
                let mut owners = json!(claim.spec.owners);
                if let Value::Array(owners) = &mut owners {
                    owners.push(ghost);
                }
                json!({"spec": {"owners": owners}})
            }
        };
        absent_is_fine(api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await)
    }

    /// A hand in the status of a Service: emptied, or with an address that may be another's. (A Service of which neither
    /// the status nor a claim is left has nothing to keep its address by: not so for the steady ones.)
    async fn edit_status(&mut self) -> anyhow::Result<()> {
        let api = services(self.lab, "default");
        let (loose, steady) = (self.loose(), self.one_of(&STEADY));
        let is_steady = self.random.below(2) == 0;
        let name = if is_steady { steady } else { &loose };
        if is_steady {
            self.await_whole(name).await?;
        }
        let ingress = match self.random.below(3) {
            0 => json!([]),
            1 if !is_steady => json!([{"ip": FORGED}]),
            _ => json!([{"hostname": "example.com"}]),
        };
        let change = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        absent_is_fine(api.patch_status(name, &PatchParams::default(), &Patch::Merge(change)).await)?;
        if is_steady { self.await_whole(name).await } else { Ok(()) }
    }

    /// Waits until the Service shows an address and owns what it shows.
    async fn await_whole(&self, name: &str) -> anyhow::Result<()> {
        windlass_e2e::await_that(&format!("{name} has what it shows"), LIMIT, async || {
            let service = services(self.lab, "default").get(name).await?;
            let addresses = shown(&service);
            ensure!(!addresses.is_empty(), "it shows nothing: {:?}", service.status);
            for address in addresses {
                let claim =
                    self.lab.virtual_ip(address).await?.with_context(|| format!("no claim of {address}"))?;
                let owns = claim.spec.owners.iter().any(|owner| owner.name == name);
                ensure!(owns && claim.spec.quarantine.is_none(), "{:?}", claim.spec);
            }
            Ok(Some(()))
        })
        .await
    }

    async fn trouble_controller(&mut self) -> anyhow::Result<()> {
        if self.random.below(2) == 0 {
            self.lab.signal_controller("controller", Signal::SIGSTOP)?;
            tokio::time::sleep(Duration::from_millis(self.random.below(2000))).await;
            return self.lab.signal_controller("controller", Signal::SIGCONT);
        }
        self.lab.stop_controller("controller", Signal::SIGKILL).await?;
        self.lab.start_controller(ControllerOptions {
            flags: vec!["--leader-elect=false".into()],
            ..ControllerOptions::default()
        })
    }

    async fn patch(&mut self, name: &str, change: Value) -> anyhow::Result<()> {
        let api = services(self.lab, "default");
        absent_is_fine(api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let index = self.random.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap_or(0)]
    }
}

fn annotations(change: &Value) -> Value {
    json!({"metadata": {"annotations": change}})
}

/// Edits of what is not there, or may not be so, are part of life.
fn absent_is_fine<T>(result: kube::Result<T>) -> anyhow::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
        result => Ok(result.map(drop)?),
    }
}
