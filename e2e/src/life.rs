//! The life of a lab: its beginning, the body, its end, and the words of a failure.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, anyhow, ensure};
use futures::{FutureExt as _, try_join};

use crate::{
    builder::{ControlPlaneNetwork, LabBuilder},
    cgroups::Cgroup,
    cni::Cni,
    command::{Interrupted, Interrupts},
    control_plane, dump,
    lab::Lab,
    lock::Lock,
    pki::Pki,
    rack_hosts,
    sandbox::Sandbox,
    tools::{self, Tools},
    topology::{self, Host},
};

impl Lab {
    /// Starts a lab, runs `body` in it and takes it down. The body runs on a thread of its own within the network
    /// namespace of the control plane, on a current-thread tokio runtime: what it connects to is the lab.
    /// When something fails, what the cluster and the logs show is printed on standard error first.
    pub fn run<T: Send>(
        name: &str,
        builder: LabBuilder,
        body: impl AsyncFnOnce(&mut Self) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn_scoped(scope, || Self::run_here(name, builder, body))?;
            thread.join().map_err(|panic| anyhow!("the lab {name} panicked: {}", panic_text(&*panic)))?
        })
    }

    fn run_here<T>(
        name: &str,
        builder: LabBuilder,
        body: impl AsyncFnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let valid = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        ensure!(valid && !name.is_empty(), "lab name {name:?}: use lower-case letters, digits and hyphens");
        let hosts =
            topology::hosts(builder.cluster, builder.control_plane_nodes, builder.nodes, &builder.clients)?;
        let hosts = match builder.control_plane_network {
            ControlPlaneNetwork::Lan => hosts,
            ControlPlaneNetwork::Racks => rack_hosts::hosts(hosts),
        };
        let tools = Tools::find(builder.light)?;

        let labs = tools::target().join("lab");
        let lock = Lock::take(&labs, name)?;
        let folder = labs.join(name);
        let interactive = builder.interactive;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Caught before there is anything to clean up. A test's owner simply dies, and the lab with it.
        let result = runtime.block_on(async {
            let mut interrupts = if interactive { Interrupts::catch()? } else { Interrupts::Left };
            let mut lab = match Self::make(name, builder, hosts, tools, folder.clone()).await {
                Ok(lab) => lab,
                Err(error) => return Err(interrupts.or(error).await),
            };
            let result = tokio::select! {
                result = lab.live(body) => result,
                interrupted = interrupts.next() => Err(interrupted.into()),
            };
            match result {
                Ok(value) => Ok(value),
                Err(error) => Err(lab.explained(interrupts.or(error).await).await),
            }
        });
        let unharmed = result.as_ref().map_or_else(anyhow::Error::is::<Interrupted>, |_| true);
        if interactive && unharmed {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        drop(lock);
        tools::give_back(&labs)?;
        result
    }

    /// Makes the namespaces, the LAN and the certificates, and moves this thread to the control plane.
    async fn make(
        name: &str,
        options: LabBuilder,
        hosts: Vec<Host>,
        tools: Tools,
        folder: PathBuf,
    ) -> anyhow::Result<Self> {
        let service_address = options.api_service_address()?;
        let logs = folder.join("logs");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&logs).with_context(|| format!("making {}", logs.display()))?;
        let cgroup = Cgroup::make(name, options.light)?;
        let sandbox = Arc::new(Sandbox::start(&logs, &cgroup)?);
        sandbox
            .script(&topology::script(&hosts, options.cni == Cni::Routed)?)
            .context("making the lab's LAN")?;
        if options.control_plane_network == ControlPlaneNetwork::Racks {
            sandbox.script(&rack_hosts::script(&hosts)).context("making the lab's racks")?;
        }
        let pki = Pki::make(
            folder.join("pki"),
            &hosts,
            options.api_address(&hosts)?,
            &service_address.to_string(),
        )?;
        sandbox.enter("cp")?;
        let client = control_plane::client(&pki.kubeconfig("admin")).await?;
        Ok(Self {
            name: name.to_owned(),
            options,
            hosts,
            tools,
            pki,
            daemons: Arc::default(),
            client,
            logind: Mutex::default(),
            servers: Mutex::default(),
            folder,
            sandbox,
            _cgroup: cgroup,
        })
    }

    /// Starts the cluster and runs the body.
    async fn live<T>(&mut self, body: impl AsyncFnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.start().await.with_context(|| format!("starting the lab {}", self.name))?;
        self.guarded(body).await
    }

    /// The error, after what the cluster and the logs show has been printed, or written to a file that the error then names.
    async fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        if error.is::<Interrupted>() {
            return error;
        }
        let text = dump::text(self, &error).await;
        if !self.options.interactive {
            eprint!("{text}");
            return error;
        }
        let file = self.folder.join("dump.txt");
        match fs::write(&file, text) {
            Ok(()) => anyhow!("{error:#} (what the cluster and the logs show is in {})", file.display()),
            Err(_) => error,
        }
    }

    async fn start(&self) -> anyhow::Result<()> {
        if self.options.control_plane_network == ControlPlaneNetwork::Racks {
            self.start_routers().await?;
        }
        if self.options.light {
            self.start_control_plane().await?;
            self.start_light_nodes().await
        } else {
            try_join!(self.start_control_plane(), self.start_containerds())?;
            self.start_full_nodes().await
        }
    }

    /// Runs the body, and keeps running what is to be kept; a panic (a failed assertion) and too long a time are errors.
    async fn guarded<T>(
        &mut self,
        body: impl AsyncFnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let limit = self.options.limit;
        let (daemons, sandbox) = (Arc::clone(&self.daemons), Arc::clone(&self.sandbox));
        let body = async {
            tokio::select! {
                result = body(self) => result,
                failed = daemons.keep_running(&sandbox) => Err(failed),
            }
        };
        let body = std::panic::AssertUnwindSafe(body).catch_unwind();
        let outcome = match limit {
            Some(limit) => tokio::time::timeout(limit, body)
                .await
                .map_err(|_| anyhow!("the scenario did not end within {} s", limit.as_secs()))?,
            None => body.await,
        };
        outcome.map_err(|panic| anyhow!("panicked: {}", panic_text(&*panic)))?
    }
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no text",
    }
}
