//! Several clusters on one LAN: each is a lab of its own, on a thread of its own, and cables join their LANs.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Hopeless, Lab, LabBuilder,
    answering::{Answering, Rhythm},
    may_run, topology,
    turns::Turn,
    wait::await_that,
};

/// Limit of a cluster's wait for the other clusters at a meeting point.
const LIMIT: Duration = Duration::from_mins(4);

/// One of several clusters, with its access to the values of all.
#[derive(Debug)]
pub struct Cluster<'a> {
    nth: u8,
    all: &'a Mutex<Told>,
}

/// Values that the clusters have exchanged.
#[derive(Debug)]
struct Told {
    /// Values of each cluster, in the order in which it published them.
    by_cluster: Vec<Vec<Value>>,
    /// True once one has failed: the others stop waiting for it.
    failed: bool,
}

/// A test on so many labs, whose LANs are one; all of them have the same body. As [`crate::scenario`] otherwise.
pub fn clusters(
    name: &str,
    count: u8,
    builder: &LabBuilder,
    body: impl AsyncFn(&mut Lab, &Cluster<'_>) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    if !may_run(name)? {
        return Ok(());
    }
    let _turn = Turn::wait_for(count, builder);
    let all = Mutex::new(Told { by_cluster: vec![Vec::new(); count.into()], failed: false });
    let run = |nth: u8| {
        let cluster = Cluster { nth, all: &all };
        let result = Lab::run(&format!("{name}-{nth}"), builder.clone().cluster(nth), async |lab| {
            let labs: Vec<i32> = cluster.meet(&lab.init()).await?;
            if nth > 0 {
                join(labs[0], lab.init()).with_context(|| format!("joining cluster {nth} to the LAN"))?;
            }
            body(lab, &cluster).await?;
            // None of them is taken down while another looks at it.
            cluster.meet(&()).await.map(drop)
        });
        cluster.told().failed |= result.is_err();
        result.with_context(|| format!("cluster {nth}"))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|nth| scope.spawn(move || run(nth))).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of a cluster panicked"))));
        // Those that waited for one that failed have less to tell.
        let failed = results.filter_map(Result::err).min_by_key(anyhow::Error::is::<Hopeless>);
        failed.map_or(Ok(()), Err)
    })
}

impl Cluster<'_> {
    /// Returns the number of the cluster, from 0.
    pub fn nth(&self) -> u8 {
        self.nth
    }

    /// Publishes `own`, waits until each other cluster has published as often, and returns the values of all clusters, in their order.
    pub async fn meet<T: Serialize + DeserializeOwned>(&self, own: &T) -> anyhow::Result<Vec<T>> {
        let own = serde_json::to_value(own)?;
        let meeting = {
            let mut told = self.told();
            let before = &mut told.by_cluster[usize::from(self.nth)];
            before.push(own);
            before.len() - 1
        };
        let all = await_that("the other clusters have come as far", LIMIT, async || {
            let told = self.told();
            let all: Option<Vec<Value>> =
                told.by_cluster.iter().map(|one| one.get(meeting).cloned()).collect();
            if all.is_none() && told.failed {
                return Err(anyhow!("another cluster has failed").context(Hopeless));
            }
            Ok(all)
        });
        let all = all.await?;
        Ok(all.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?)
    }

    /// Samples, from a client of this cluster's `lab`, the answers for each of these addresses, as [`Lab::answering`] does, of the nodes of
    /// all clusters: `1/n2` is node `n2` of the second.
    pub fn answering(&self, lab: &Lab, client: &str, addresses: &[IpAddr]) -> anyhow::Result<Answering> {
        let mut nodes = BTreeMap::new();
        for (nth, _) in (0..).zip(&self.told().by_cluster) {
            let hosts = topology::hosts(nth, lab.options.control_plane_nodes, lab.options.nodes, &[])?;
            nodes.extend(hosts.iter().map(|host| (host.mac(), format!("{nth}/{}", host.name))));
        }
        lab.answering_of(client, addresses, nodes, Rhythm::all_at_once(addresses))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lays a cable from the LAN of one lab to that of another, by the process ids of their inits.
fn join(first: i32, other: i32) -> anyhow::Result<()> {
    let lan = |init: i32| format!("/proc/{init}/root/run/netns/lan");
    let (port, here, there) = (format!("lab-{other}"), lan(first), lan(other));
    // Interface names have at most 15 characters, process ids seven digits.
    let script = format!(
        "nsenter --net={here} ip link add {port} type veth peer name uplink netns {there}\n\
         nsenter --net={here} ip link set {port} master br0 up\n\
         nsenter --net={there} ip link set uplink master br0 up"
    );
    let output = Command::new("sh").args(["-ec", &script]).output().context("starting sh")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
