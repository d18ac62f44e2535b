//! The command line, and how the process begins and ends.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use windlass_ccm::apiserver::sentence;
use windlass_ccm::app::{self, ApiServerConfig, BoxError, Flags, ServingFlags, logging};
use windlass_cli::{StatusPage, convert, inspect, uninstall};
use windlass_common::{http, probe};
use windlass_controller as controller;
use windlass_engine::{ConnectionForwarding, ConnectionReplication, MarkMask};
use windlass_node::agent::GuardMode;
use windlass_node::{agent, vip};

use crate::version;

#[cfg(test)]
mod tests;

/// Socket on which an agent answers its probes.
const SOCKET: &str = "/run/windlass/agent.sock";

/// LoadBalancer Services for bare-metal Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, long_version = version::LONG.as_str(), propagate_version = true,
          disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Gives addresses to Services and decides which nodes may announce them (cloud-controller-manager)
    Controller(Box<ControllerArgs>),
    /// Announces this node's addresses, for which it takes part in VRRP elections
    Agent(Box<AgentArgs>),
    /// Prints a page of the agent or of `windlass vip`, in its container; exit code 1 unless it is healthy
    Probe(ProbeArgs),
    /// Holds addresses of this host's own programs, such as the API server's, by VRRP; needs no cluster
    Vip(Box<VipArgs>),
    /// Converts another load balancer's configuration from standard input to standard output. Exit code 0: all was converted; 1: an object
    /// was left out, or there is none; 3: a setting was left out. Standard error has a line for each, with its consequence and a remedy
    #[command(subcommand)]
    Convert(convert::Source),
    /// Removes the remains of Windlass after controller and agents are gone: finalizers and addresses of Services, and its own objects
    /// except pools and Announcements
    Uninstall(UninstallArgs),
    /// Prints version, commit and its time, compiler and target
    Version(VersionArgs),
    /// Prints the completion of a shell for this program: `source <(windlass completion bash)`
    Completion(CompletionArgs),
    #[command(flatten)]
    Inspect(inspect::Command),
}

#[derive(Debug, Args)]
struct VersionArgs {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = version::Output::Text, value_name = "FORMAT")]
    output: version::Output,
}

#[derive(Debug, Args)]
struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Shells that can be completed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
struct VipArgs {
    #[command(subcommand)]
    command: Option<VipCommand>,
    #[command(flatten)]
    log: LogArgs,
    /// Unix socket for `windlass probe`
    #[arg(long, default_value = vip::SOCKET, value_name = "FILE")]
    socket: PathBuf,
    #[command(flatten)]
    settings: vip::SettingsFlags,
}

#[derive(Debug, Args)]
struct UninstallArgs {
    /// Kubeconfig of an admin [default: the pod's service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only print the changes
    #[arg(long)]
    dry_run: bool,
    /// Continue although a program renews the lease kube-system/cloud-controller-manager or windlass-system/windlass-controller
    #[arg(long)]
    even_so: bool,
}

#[derive(Debug, Subcommand)]
enum VipCommand {
    /// Prints a static pod or a systemd unit that runs `windlass vip`, with comments that explain its use
    Manifest(Box<vip::ManifestArgs>),
}

#[derive(Debug, Args)]
struct ProbeArgs {
    /// /livez, /readyz, /healthz or /metrics
    #[arg(default_value = "/livez")]
    page: String,
    /// Socket of the program: that of `windlass vip` is /run/windlass/vip.sock
    #[arg(long, default_value = SOCKET, value_name = "FILE")]
    socket: PathBuf,
}

#[derive(Debug, Args)]
struct LogArgs {
    /// Format of the log lines
    #[arg(long, value_enum, default_value_t = logging::LogFormat::Text, value_name = "FORMAT")]
    log_format: logging::LogFormat,
    /// Least severe level logged: error, warn, info, debug or trace, also per module as in info,kube_client=debug
    /// [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = log_filter)]
    log_level: Option<String>,
}

#[derive(Debug, Args)]
struct ControllerArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Serve Services without loadBalancerClass. Those of class windlass.dev/windlass are always served, other classes never
    #[arg(long, default_value = "true", value_parser = app::go_bool, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    classless_services: bool,
    /// Read the address annotations of MetalLB (metallb.io/, metallb.universe.tf/) and kube-vip (kube-vip.io/) where
    /// those of Windlass are not set
    #[arg(long, default_value = "false", value_parser = app::go_bool, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    compat_annotations: bool,
    /// Time for which a node must be ready before it gets its share of addresses; a tenth of it passes between two moves
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    rebalance_settle_seconds: u32,
    /// Serve the read-only status page at /status
    #[arg(long, default_value = "false", value_parser = app::go_bool, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    status_page: bool,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Args)]
struct AgentArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Kubeconfig of the API server [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the Node that the agent runs on
    #[arg(long, env = "NODE_NAME", value_name = "NAME", value_parser = node_name)]
    node_name: String,
    /// Folder of the last known state, from which the agent starts without the API server
    #[arg(long, default_value = "/var/lib/windlass", value_name = "FOLDER")]
    state_dir: PathBuf,
    /// Mount point of the Secret windlass-vrrp-keys with the keys that sign adverts: each file is a key, named by its id. It may be
    /// missing
    #[arg(long, default_value = "/etc/windlass/vrrp-keys", value_name = "FOLDER")]
    vrrp_keys_dir: PathBuf,
    /// Unix socket for `windlass probe`
    #[arg(long, default_value = SOCKET, value_name = "FILE")]
    socket: PathBuf,
    #[command(flatten)]
    serving: ServingFlags,
    /// Run the VRRP timers with real-time priority, if the system allows it
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    realtime: bool,
    /// Guard: answer ping to virtual IPs and refuse packets that no Service takes, by an nftables table. auto: not beside IPVS; not
    /// relied on beside eBPF proxies, which take packets before it
    #[arg(long, default_value = "auto", num_args = 0..=1, default_missing_value = "true", value_name = "auto|true|false",
          value_parser = guard_mode)]
    guard: GuardMode,
    /// Time after a move for which the node forwards unknown established connections to the previous node; 0: never. Without a
    /// forwarded packet for that long, forwarding stops. Needs the guard
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    forwarding_window_seconds: u32,
    /// Bits of packet and connection marks that identify previous nodes, 15 at a time by default. Not those of kube-proxy (0xc000),
    /// Cilium (0xffff0f00), Calico (0xffff0000), Tailscale (0xff0000)
    #[arg(long, default_value_t, value_name = "BITS", value_parser = mark_mask)]
    forwarding_mark_mask: MarkMask,
    /// UDP port on which nodes exchange established connections for connections: Replicate; the same on all nodes
    #[arg(long, default_value_t = ConnectionReplication::default().port, value_name = "PORT",
          value_parser = clap::value_parser!(u16).range(1..))]
    replication_port: u16,
    /// Address of kube-proxy's health check (its --healthz-bind-address); empty: not checked
    #[arg(long, default_value = "127.0.0.1:10256", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    kube_proxy_healthz_address: OptionalAddress,
    /// Address at which kube-proxy reports its mode (its --metrics-bind-address); empty: not read
    #[arg(long, default_value = "127.0.0.1:10249", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    kube_proxy_metrics_address: OptionalAddress,
    /// kube-proxy's masqueradeBit, if kube-proxy does not answer at /configz [default: from kube-proxy's configuration]
    #[arg(long, value_name = "BIT", value_parser = clap::value_parser!(u8).range(..32))]
    kube_proxy_masquerade_bit: Option<u8>,
    /// Time for which the node announces addresses whose VirtualIPs or VirtualRouters vanish together, not by the controller:
    /// definitions deleted, or database lost; 0: not at all
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    deletion_hold_seconds: u32,
}

/// An address and port, or nothing.
#[derive(Debug, Clone, Copy)]
struct OptionalAddress(Option<SocketAddr>);

fn guard_mode(value: &str) -> Result<GuardMode, &'static str> {
    match value {
        "auto" => Ok(GuardMode::Auto),
        "true" => Ok(GuardMode::On),
        "false" => Ok(GuardMode::Off),
        _ => Err("auto, true or false"),
    }
}

fn optional_address(value: &str) -> Result<OptionalAddress, std::net::AddrParseError> {
    if value.is_empty() { Ok(OptionalAddress(None)) } else { value.parse().map(Some).map(OptionalAddress) }
}

fn mark_mask(value: &str) -> Result<MarkMask, String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let mask = number.map_err(|_| format!("'{value}' is no number of 32 bits; use for example 0xf0"))?;
    MarkMask::new(mask).map_err(|error| error.to_string())
}

fn log_filter(value: &str) -> Result<String, logging::LoggingError> {
    logging::check(value).map(|_| value.to_owned())
}

/// A Node's name is a DNS subdomain (RFC 1123): what is none names no Node, and would only fail later and less clearly.
fn node_name(value: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if value.len() <= 253
        && value.chars().all(legal)
        && ends(value.chars().next())
        && ends(value.chars().last())
    {
        Ok(value.to_owned())
    } else {
        Err("no Node can have this name; give the name that `kubectl get nodes` shows".to_owned())
    }
}

/// Services are worked on eight at a time: unlike a cloud's, the provider waits for the API server and for nodes that
/// announce, not for quotas of its own, and a Service that waits must not hold up the others.
const SERVICE_SYNCS: &str = "8";

/// The agent shares the node's network, where 10258 is the controller's.
const AGENT_PORT: &str = "9859";

/// Times for which an agent believes the API server's reviews of its callers, as the kubelet does. By the 10 s of a controller each
/// scrape of each node costs the API server two reviews.
const AGENT_REVIEWS: [(&str, &str); 3] = [
    ("authentication_token_webhook_cache_ttl", "2m"),
    ("authorization_webhook_cache_authorized_ttl", "5m"),
    ("authorization_webhook_cache_unauthorized_ttl", "30s"),
];

/// Returns the definition of the command line, as `--help` shows it.
pub fn command() -> Command {
    let cli = Cli::command().mut_subcommand("controller", |controller| {
        controller.mut_arg("concurrent_service_syncs", |flag| flag.default_value(SERVICE_SYNCS))
    });
    cli.mut_subcommand("agent", |agent| {
        let agent = agent.mut_arg("bind_address", |flag| flag.default_value("127.0.0.1"));
        let agent = agent.mut_arg("secure_port", |flag| flag.default_value(AGENT_PORT));
        AGENT_REVIEWS
            .into_iter()
            .fold(agent, |agent, (flag, default)| agent.mut_arg(flag, |flag| flag.default_value(default)))
    })
}

/// Returns the command line for a program of this name: as `kubectl-windlass` it is a plugin of kubectl, and its help shows that.
fn named(program: &str) -> Command {
    match Path::new(program).file_name().and_then(|name| name.to_str()) {
        Some("kubectl-windlass") => command().bin_name("kubectl windlass"),
        Some(_) | None => command().bin_name("windlass"),
    }
}

/// Flags that kubectl takes before its command as well: each has a value.
const KUBECTL_GLOBAL: [&str; 4] = ["--kubeconfig", "--context", "--namespace", "-n"];

/// Moves flags of kubectl that precede the command behind it, where each command defines those it has: `windlass --kubeconfig F status`
/// is `windlass status --kubeconfig F`.
fn subcommand_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(flag) = args.get(end).and_then(|flag| flag.to_str()) {
        end += match flag.split_once('=') {
            Some((name, _)) if KUBECTL_GLOBAL.contains(&name) => 1,
            None if KUBECTL_GLOBAL.contains(&flag) => 2,
            Some(_) | None => break,
        };
    }
    // A command follows, and no other flag.
    let is_command = |arg: &OsString| !arg.to_string_lossy().starts_with('-');
    if args.get(end).is_some_and(is_command)
        && let Some(leading) = args.get_mut(1..=end)
    {
        leading.rotate_right(1);
    }
    args
}

/// Returns the script that completes the command line in a shell.
fn completion(shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "windlass", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Runs the command line. Exit code 0: asked to stop and did; 1: failed, with one sentence on stderr; 2: bad usage; more: see
/// [`windlass_cli::inspect`].
pub fn run() -> ExitCode {
    let args = subcommand_first(std::env::args_os().collect());
    let program = args.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let cli = match Cli::from_arg_matches(&named(&program).get_matches_from(args)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let ended = match cli.role {
        Role::Controller(args) => return run_controller(*args),
        Role::Agent(args) => run_agent(*args),
        Role::Vip(args) => run_vip(*args),
        Role::Probe(ProbeArgs { page, socket }) => {
            probe::ask(&socket, &page).map(|answer| show(&answer)).map_err(Into::into)
        }
        Role::Completion(CompletionArgs { shell }) => {
            show(&completion(shell));
            Ok(())
        }
        Role::Convert(source) => return code(convert::run(&source).map_err(Into::into)),
        Role::Inspect(command) => return run_inspect(command),
        Role::Uninstall(args) => app::until_signal(|token| run_uninstall(args, token)),
        Role::Version(VersionArgs { output }) => {
            version::Build::this().print(output).map(|text| show(&text)).map_err(Into::into)
        }
    };
    code(ended.map(|()| ExitCode::SUCCESS))
}

/// Prints the text. A closed standard output is no error: no `println!`, which panics.
fn show(text: &str) {
    drop(writeln!(io::stdout(), "{}", text.trim_end()));
}

/// Prints a failure as one sentence, and returns the exit code.
fn code(ended: Result<ExitCode, BoxError>) -> ExitCode {
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windlass: {}", sentence(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run_inspect(command: inspect::Command) -> ExitCode {
    let mut answered = ExitCode::SUCCESS;
    let ended = app::until_signal(|token| async {
        answered = inspect::run(command, token).await?;
        anyhow::Ok(())
    });
    code(ended.map(|()| answered))
}

fn run_controller(args: ControllerArgs) -> ExitCode {
    let ControllerArgs {
        log,
        classless_services,
        compat_annotations,
        rebalance_settle_seconds,
        status_page,
        mut flags,
    } = args;
    // Our own flags say more than -v does.
    flags.logging.filter = log.log_level;
    if log.log_format == logging::LogFormat::Json {
        flags.logging.logging_format = log.log_format;
    }
    // A standby says so too, before it is needed.
    if let Some(path) = flags.cloud_config.as_deref().filter(|path| !path.is_empty())
        && let Err(error) = controller::ConfigFile::open(Path::new(path))
    {
        eprintln!("windlass: {error}");
        return ExitCode::FAILURE;
    }
    let settling = Duration::from_secs(rebalance_settle_seconds.into());
    let settings = controller::Settings { classless_services, compat_annotations, settling };
    let windlass = controller::Windlass::new(settings);
    let windlass =
        if status_page { windlass.with_status_pages(Box::new(StatusPage::default())) } else { windlass };
    app::main(windlass, &flags)
}

fn run_agent(args: AgentArgs) -> Result<(), BoxError> {
    let level = args.log.log_level.as_deref().unwrap_or_else(|| logging::filter(0));
    logging::init(args.log.log_format, level)?;
    app::until_signal(|token| agent(args, token))
}

fn run_vip(args: VipArgs) -> Result<(), BoxError> {
    let VipArgs { command, log, socket, settings } = args;
    match command {
        Some(VipCommand::Manifest(args)) => {
            print!("{}", vip::manifest(&args)?);
            return Ok(());
        }
        None => {}
    }
    let level = log.log_level.as_deref().unwrap_or_else(|| logging::filter(0));
    logging::init(log.log_format, level)?;
    let registry = Registry::new();
    http::register_build(&registry, "vip")?;
    app::until_signal(|token| vip::run(settings, socket, registry, token))
}

async fn run_uninstall(args: UninstallArgs, token: CancellationToken) -> anyhow::Result<()> {
    let UninstallArgs { kubeconfig, dry_run, even_so } = args;
    let (_, calls) = http::registry()?;
    let client = ApiServerConfig::find(kubeconfig.as_deref(), None).await?.client(None, &calls)?;
    let work = uninstall::run(client, uninstall::Options { dry_run, even_so });
    token.run_until_cancelled(work).await.context("ended by a signal before it was done; run it again")?
}

async fn agent(args: AgentArgs, token: CancellationToken) -> anyhow::Result<()> {
    let AgentArgs {
        log: _,
        kubeconfig,
        node_name,
        state_dir,
        vrrp_keys_dir,
        socket,
        serving,
        realtime,
        guard,
        forwarding_window_seconds,
        forwarding_mark_mask: marks,
        replication_port,
        kube_proxy_healthz_address: OptionalAddress(kube_proxy),
        kube_proxy_metrics_address: OptionalAddress(kube_proxy_metrics),
        kube_proxy_masquerade_bit,
        deletion_hold_seconds,
    } = args;
    let window = Duration::from_secs(forwarding_window_seconds.into());
    let connection_forwarding = (!window.is_zero()).then_some(ConnectionForwarding { window, marks });
    let (registry, calls) = http::registry()?;
    let client = ApiServerConfig::find(kubeconfig.as_deref(), None).await?.client(None, &calls)?;
    let options = agent::Options {
        node_name,
        state_dir,
        vrrp_keys_dir,
        endpoints: http::Endpoints { https: serving.options()?, socket },
        realtime,
        guard,
        connection_forwarding,
        connection_replication: ConnectionReplication { port: replication_port },
        kube_proxy,
        kube_proxy_metrics,
        masquerade_mark: agent::MasqueradeMark::given(kube_proxy_masquerade_bit),
        deletion_hold: Duration::from_secs(deletion_hold_seconds.into()),
    };
    agent::run(client, options, registry, token).await
}
