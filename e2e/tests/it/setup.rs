//! What most scenarios begin with.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::fs::symlink,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt as _};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, VirtualRouter};
use windlass_e2e::{
    KeptConnections, KeptOptions, Lab, LabBuilder, SERVICE_PORT, await_that, target, workspace,
};

/// How long something may take that takes a fraction of a second when all is well.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Its connections to the API server go nowhere, and nothing tells it so.
pub(crate) const CUT_OFF: &str =
    "table inet cut-off { chain out { type filter hook output priority filter; tcp dport 6443 drop; }; }";

/// Two nodes with agents, `n1` and `n2`; a third, `n3`, whose backends outlive the faults of the other two; a client.
pub(crate) fn lab() -> LabBuilder {
    Lab::builder().nodes(3).client("c1").light()
}

/// Windlass with a pool, and the Service `web` behind one of its addresses, answered by `n3`'s backend.
pub(crate) async fn served(lab: &Lab) -> anyhow::Result<IpAddr> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |_| ()).await?;
    let vip = lab.ingress("web", LIMIT).await?;
    await_answer(lab, vip).await?;
    settled_owner(lab, vip).await?;
    Ok(vip)
}

/// Waits until the node that ranks first has the address, and returns its name. Agents that start together may begin in another order: the
/// first one then takes the address from another, ten seconds later where no kube-proxy tells of connections.
pub(crate) async fn settled_owner(lab: &Lab, vip: IpAddr) -> anyhow::Result<String> {
    await_that(&format!("the node that ranks first has {vip}"), LIMIT, async || {
        let ranked = router_of(lab, vip).await?.spec.nodes;
        let first = ranked.into_iter().next().context("no node is ranked")?.name;
        let owner = lab.await_owner("c1", vip).await?;
        ensure!(owner == first, "{owner} has it, not {first}");
        Ok(Some(first))
    })
    .await
}

/// Lets a Service have addresses of both families, IPv4 first.
pub(crate) fn dual_stack(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    spec.ip_family_policy = Some("RequireDualStack".into());
    spec.ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
}

/// The Services of a namespace.
pub(crate) fn services(lab: &Lab, namespace: &str) -> Api<Service> {
    Api::namespaced(lab.client(), namespace)
}

/// Sets an annotation of a Service that is about to be made.
pub(crate) fn annotate(service: &mut Service, annotation: &str, value: &str) {
    service.annotations_mut().insert(annotation.to_owned(), value.to_owned());
}

/// The addresses that the Service of namespace `default` shows, in order.
pub(crate) async fn ingresses(lab: &Lab, name: &str) -> anyhow::Result<Vec<IpAddr>> {
    let status = services(lab, "default").get(name).await?.status.and_then(|status| status.load_balancer);
    let entries = status.and_then(|status| status.ingress).unwrap_or_default();
    Ok(entries.into_iter().filter_map(|entry| entry.ip).map(|ip| ip.parse()).collect::<Result<_, _>>()?)
}

/// Waits until the Service shows this many addresses.
pub(crate) async fn await_ingresses(lab: &Lab, name: &str, count: usize) -> anyhow::Result<Vec<IpAddr>> {
    await_that(&format!("Service {name} shows {count} addresses"), LIMIT, async || {
        let shown = ingresses(lab, name).await?;
        ensure!(shown.len() == count, "it shows {shown:?}");
        Ok(Some(shown))
    })
    .await
}

/// Waits until the condition on a Service's addresses is `verdict`, as `False NoFreeAddress`, with a message that says all
/// of `words`.
pub(crate) async fn await_verdict(
    lab: &Lab,
    namespace: &str,
    name: &str,
    verdict: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    let api = services(lab, namespace);
    await_that(&format!("the addresses of Service {name} are {verdict}, {words:?}"), LIMIT, async || {
        let conditions = api.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = conditions.iter().find(|c| c.type_ == CONDITION_ADDRESS_ALLOCATED);
        let condition = condition.with_context(|| format!("its conditions are {conditions:?}"))?;
        let told = format!("{} {}", condition.status, condition.reason) == verdict
            && words.iter().all(|word| condition.message.contains(word));
        ensure!(told, "they are {condition:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until an event on the Service of namespace `default` has this reason and says all of `words`.
pub(crate) async fn await_event(
    lab: &Lab,
    service: &str,
    reason: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    await_event_on(lab, "Service", service, reason, words).await
}

/// The same on an object of this kind.
pub(crate) async fn await_event_on(
    lab: &Lab,
    kind: &str,
    name: &str,
    reason: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    await_that(&format!("an event {reason} on {kind} {name} says {words:?}"), LIMIT, async || {
        let events = lab.events_of(kind, name).await?;
        let told = events.iter().any(|event| {
            event
                .split_once(": ")
                .is_some_and(|(of, said)| of == reason && words.iter().all(|w| said.contains(w)))
        });
        ensure!(told, "events: {events:?}");
        Ok(Some(()))
    })
    .await
}

/// The folder of the custom resource definitions.
pub(crate) fn definitions() -> String {
    workspace().join("manifests/crds").display().to_string()
}

/// Waits until the backend answers the client over `vip`.
pub(crate) async fn await_answer(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("web-n3 answers the client over {vip}"), LIMIT, async || {
        let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
        anyhow::ensure!(answer == "web-n3", "{answer:?} answered");
        Ok(Some(()))
    })
    .await
}

/// Opens a connection from `c1` to each address; the client asks on it all the time.
pub(crate) async fn keep_open(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<KeptConnections> {
    let busy = KeptOptions { connections: 1, pause: Duration::from_millis(100) };
    let targets: Vec<SocketAddr> = vips.iter().map(|vip| (*vip, SERVICE_PORT).into()).collect();
    lab.keep_connections("c1", &targets, busy).await
}

/// Fails unless each of the connections is reset.
pub(crate) fn all_reset(kept: KeptConnections) -> anyhow::Result<()> {
    let ends = kept.stop()?.into_iter().flatten().map(|kept| kept.stall).collect::<Vec<_>>();
    let is_reset = |end: &Result<_, String>| end.as_ref().is_err_and(|why| why.contains("reset by peer"));
    ensure!(!ends.is_empty() && ends.iter().all(is_reset), "an open connection is not reset: {ends:?}");
    Ok(())
}

/// The virtual router that carries an address.
pub(crate) async fn router_of(lab: &Lab, vip: IpAddr) -> anyhow::Result<VirtualRouter> {
    let name = lab.virtual_ip(vip).await?.and_then(|vip| vip.spec.virtual_router);
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    Ok(routers.get(&name.with_context(|| format!("{vip} is on no virtual router"))?).await?)
}

/// How often the address' virtual router has had another Active.
pub(crate) async fn moves(lab: &Lab, vip: IpAddr) -> anyhow::Result<i64> {
    Ok(router_of(lab, vip).await?.status.context("its virtual router has no status")?.transitions)
}

/// The other of the two nodes that have an agent.
pub(crate) fn other(node: &str) -> &'static str {
    if node == "n1" { "n2" } else { "n1" }
}

/// The blocks of a language within a page of the repository.
pub(crate) fn code_blocks(page: &str, language: &str) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(workspace().join(page)).with_context(|| format!("reading {page}"))?;
    let begin = format!("```{language}\n");
    let blocks = text.split(&*begin).skip(1).filter_map(|rest| rest.split_once("```"));
    Ok(blocks.map(|(block, _)| block.to_owned()).collect())
}

/// Lines within the `sh` blocks of a page of the repository.
pub(crate) fn code_lines(page: &str) -> anyhow::Result<Vec<String>> {
    Ok(code_blocks(page, "sh")?.iter().flat_map(|block| block.lines()).map(str::to_owned).collect())
}

/// Installs Windlass as `docs/cloud-controller-manager.md` says where kube-proxy waits for it, by its kustomization and its commands, with the API server at this
/// address.
pub(crate) async fn install_by_page(lab: &Lab, api_server: &str) -> anyhow::Result<()> {
    let commands = code_lines("docs/cloud-controller-manager.md")?;
    let commands: Vec<_> = commands.iter().filter_map(|line| line.strip_prefix("kubectl ")).collect();
    ensure!(commands.len() == 2, "docs/cloud-controller-manager.md has other commands: {commands:?}");
    let mut kustomizations = code_blocks("docs/cloud-controller-manager.md", "yaml")?;
    kustomizations
        .retain(|block| block.contains("components/api-server") && block.contains("[host=192.0.2.10,"));
    let kustomization = kustomizations
        .first()
        .context("docs/cloud-controller-manager.md has no kustomization that names the API server")?;
    let folder = target().join(format!("lab-deploy-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    symlink(workspace().join("manifests"), folder.join("manifests"))?;
    let kustomization = kustomization.replace("192.0.2.10", api_server);
    fs::write(folder.join("kustomization.yaml"), kustomization)?;
    run_commands_in(&folder, lab, "docs/cloud-controller-manager.md", &[]).await?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// The words of a line of shell without anything but single quotes.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in line.split('\'').enumerate() {
        // What is between quotes belongs to the word around it, with its blanks.
        let mut pieces = if index % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter();
        words.last_mut().expect("one at least").push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The words of a line that is run in this folder: where it names files, their paths.
pub(crate) fn words_in(folder: &Path, line: &str) -> Vec<String> {
    let path = |word: String| match &*word {
        "." => folder.display().to_string(),
        file if file == "manifests" || file.starts_with("manifests/") => {
            folder.join(file).display().to_string()
        }
        _ => word,
    };
    words(line).into_iter().map(path).collect()
}

/// Runs each kubectl command of a page, as an admin in the folder of the repository, with `names` in the place of what the page has
/// in capitals.
pub(crate) async fn run_commands(lab: &Lab, page: &str, names: &[(&str, &str)]) -> anyhow::Result<()> {
    run_commands_in(&workspace(), lab, page, names).await
}

async fn run_commands_in(folder: &Path, lab: &Lab, page: &str, names: &[(&str, &str)]) -> anyhow::Result<()> {
    let lines = code_lines(page)?;
    let commands: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("kubectl ")).collect();
    ensure!(!commands.is_empty(), "{page} has lost its commands");
    for command in commands {
        let words = words_in(folder, command);
        let value_of = |word: &String| names.iter().find(|(name, _)| name == word).map(|(_, value)| *value);
        let words: Vec<&str> = words.iter().map(|word| value_of(word).unwrap_or(word)).collect();
        let what = format!("`kubectl {command}` of {page}");
        await_that(&what, LIMIT, async || match lab.kubectl(&words).await {
            Err(error) if words[0] == "apply" && is_cut_off(&error) => Err(error),
            outcome => Ok(Some(outcome)),
        })
        .await?
        .context(what)?;
    }
    Ok(())
}

/// Whether the API server has gone in the middle, or its address to another one: whoever applies does so again then.
fn is_cut_off(error: &anyhow::Error) -> bool {
    let told = format!("{error:#}");
    ["connection reset by peer", "connection refused"].iter().any(|sign| told.contains(sign))
}

#[test]
fn quotes_keep_words_together() {
    assert_eq!(words("get x  -o jsonpath='{a b}' -A"), ["get", "x", "-o", "jsonpath={a b}", "-A"]);
}
