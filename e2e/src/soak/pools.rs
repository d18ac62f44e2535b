//! Edits of pools by admins, none of which may move an address.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{VirtualIPPool, VirtualIPPoolSpec};

use super::cast::{LATE, QUIET};
use super::edits::{Edits, refused_is_fine};

/// Pools among which the pieces of the address range are dealt out again and again.
const POOLS: [&str; 3] = ["pool-a", "pool-b", "pool-c"];
/// All names that they have when they were split and renamed.
const NAMES: [&str; 5] = ["pool-a", "pool-b", "pool-c", "pool-d", "pool-e"];

/// The pieces: of IPv4 by fives, of IPv6 among them one that begins with the subnet-router anycast address of the LAN, and
/// one of reserved anycast addresses only.
fn pieces() -> Vec<String> {
    let v4 = (100..160).step_by(5).map(|first| format!("192.0.2.{first}-192.0.2.{}", first + 4));
    let v6 = (1..5).map(|piece| format!("2001:db8::{piece}:0-2001:db8::{piece}:f"));
    let anycast = ["2001:db8::/124", "2001:db8::fdff:ffff:ffff:ff80/121"].map(str::to_owned);
    v4.chain(v6).chain(anycast).collect()
}

impl Edits<'_> {
    fn pools(&self) -> Api<VirtualIPPool> {
        Api::all(self.scene.lab.client())
    }

    pub(super) async fn make_quiet_pool(&self) -> anyhow::Result<()> {
        let spec = json!({"autoAssign": false, "quarantineSeconds": 60});
        self.scene.lab.pool_with(QUIET, &["192.0.2.170-192.0.2.189"], spec).await?;
        Ok(())
    }

    pub(super) async fn make_late_pool(&self) -> anyhow::Result<()> {
        self.scene.lab.pool_with(LATE, &["192.0.2.190-192.0.2.199"], json!({"autoAssign": false})).await?;
        Ok(())
    }

    /// Deals the pieces out to the pools, with settings by chance, which are such that all may use them where
    /// they are to be `open`. Between two of the writes they may overlap.
    pub(super) async fn deal_pools(&mut self, open: bool) -> anyhow::Result<()> {
        let mut dealt: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (index, piece) in pieces().into_iter().enumerate() {
            if open {
                dealt.entry(POOLS[index % POOLS.len()]).or_default().push(piece);
            } else if !self.random.once_in(12) {
                dealt.entry(self.random.one_of(&POOLS)).or_default().push(piece);
            }
        }
        self.scene.journal.note(&format!("pools dealt: {dealt:?}"));
        for name in &NAMES[POOLS.len()..] {
            refused_is_fine(self.pools().delete(name, &DeleteParams::default()).await)?;
        }
        for name in POOLS {
            // A pool to which nothing was dealt has an address that nobody will want.
            let none = || vec![format!("198.51.100.{}", name.as_bytes()[5])];
            let mut spec = self.settings(open);
            spec["addresses"] = json!(dealt.remove(name).unwrap_or_else(none));
            let pool = json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool", "metadata": {"name": name}, "spec": spec,
            });
            let apply = PatchParams::apply("soak").force();
            self.pools().patch(name, &apply, &Patch::Apply(pool)).await?;
        }
        Ok(())
    }

    fn settings(&mut self, open: bool) -> Value {
        let exclude = match self.random.below(3) {
            0 => vec![format!("192.0.2.{}", 100 + self.random.below(10))],
            _ => Vec::new(),
        };
        json!({
            "exclude": exclude,
            "disabled": !open && self.random.once_in(8),
            "autoAssign": open || !self.random.once_in(8),
            "priority": self.random.below(3),
            "quarantineSeconds": self.random.below(4),
            "allocationOrder": self.random.one_of(&["Lowest", "Highest", "LeastRecentlyUsed"]),
            "avoidReserved": self.random.one_of(&["None", "None", "Subnet", "SubnetAndClassC"]),
            "namespaces": if !open && self.random.once_in(8) { json!(["elsewhere"]) } else { json!([]) },
        })
    }

    /// One pool is made anew, renamed, split, shrunk, or gets other settings or families.
    pub(super) async fn edit_pool(&mut self) -> anyhow::Result<&'static str> {
        let all = self.pools().list(&ListParams::default()).await?.items;
        let all: Vec<_> = all.into_iter().filter(|pool| NAMES.contains(&&*pool.name_any())).collect();
        if all.is_empty() {
            return Ok("no pool");
        }
        let pool = all[self.random.index(all.len())].clone();
        let (name, spec) = (pool.name_any(), pool.spec);
        let absent: Vec<&str> =
            NAMES.into_iter().filter(|name| all.iter().all(|pool| pool.name_any() != *name)).collect();
        match self.random.below(7) {
            0 => {
                self.scene.journal.note(&format!("{name} is made anew"));
                self.replace_pool(&name, &name, spec).await?;
                Ok("pool made anew")
            }
            1 if !absent.is_empty() => {
                let other = self.random.one_of(&absent);
                self.scene.journal.note(&format!("{name} is renamed to {other}"));
                self.replace_pool(&name, other, spec).await?;
                Ok("pool renamed")
            }
            2 if !absent.is_empty() => {
                let other = self.random.one_of(&absent);
                self.split_pool(&name, other, spec).await?;
                Ok("pool split")
            }
            3 => {
                let left = spec.addresses.iter().filter(|_| !self.random.once_in(3)).cloned().collect();
                self.set_addresses(&name, left).await?;
                Ok("pool shrunk")
            }
            4 => {
                let v6 = self.random.once_in(2);
                let left = spec.addresses.iter().filter(|one| one.contains(':') == v6).cloned().collect();
                self.set_addresses(&name, left).await?;
                Ok("pool without a family")
            }
            5 => {
                let first = 100 + self.random.below(60);
                let exclude = json!([format!("192.0.2.{first}-192.0.2.{}", first + self.random.below(9))]);
                self.patch_pool(&name, json!({"exclude": exclude})).await?;
                Ok("pool with exclusions")
            }
            _ => {
                let settings = self.settings(false);
                self.patch_pool(&name, settings).await?;
                Ok("pool with other settings")
            }
        }
    }

    /// The upper half of its ranges goes to another pool, which is there before or after the first has let go of them.
    async fn split_pool(&mut self, name: &str, other: &str, spec: VirtualIPPoolSpec) -> anyhow::Result<()> {
        let mut lower = spec.addresses.clone();
        let upper = lower.split_off(lower.len() / 2);
        if lower.is_empty() {
            return Ok(());
        }
        let made_first = self.random.once_in(2);
        self.scene.journal.note(&format!("{name} is split, {other} has {upper:?}, at first {made_first}"));
        let half = VirtualIPPool::new(other, VirtualIPPoolSpec { addresses: upper, ..spec });
        if made_first {
            refused_is_fine(self.pools().create(&PostParams::default(), &half).await)?;
        }
        self.set_addresses(name, lower).await?;
        if !made_first {
            self.pause().await;
            refused_is_fine(self.pools().create(&PostParams::default(), &half).await)?;
        }
        Ok(())
    }

    async fn replace_pool(&mut self, old: &str, new: &str, spec: VirtualIPPoolSpec) -> anyhow::Result<()> {
        refused_is_fine(self.pools().delete(old, &DeleteParams::default()).await)?;
        self.pause().await;
        let made = self.pools().create(&PostParams::default(), &VirtualIPPool::new(new, spec)).await;
        refused_is_fine(made).with_context(|| format!("making {new}"))
    }

    async fn set_addresses(&self, name: &str, addresses: Vec<String>) -> anyhow::Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        self.patch_pool(name, json!({"addresses": addresses})).await
    }

    async fn patch_pool(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        self.scene.journal.note(&format!("{name}: {spec}"));
        let change = Patch::Merge(json!({"spec": spec}));
        refused_is_fine(self.pools().patch(name, &PatchParams::default(), &change).await)
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.random.below(300))).await;
    }
}
