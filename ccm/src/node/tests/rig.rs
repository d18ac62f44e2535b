//! A controller of nodes that runs against an API server in memory, in virtual time, and may die.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fake::FakeProvider;
use crate::testing::apiserver::ApiServer;
use crate::testing::succession::with_successor;

/// Starts a controller.
pub(in crate::node) type Start = fn(Client, Arc<FakeProvider>, CancellationToken) -> JoinHandle<()>;

pub(in crate::node) struct Rig {
    pub(in crate::node) api: ApiServer,
    pub(in crate::node) provider: Arc<FakeProvider>,
    /// The client of the controller that was started last.
    pub(in crate::node) client: u64,
    controller: Start,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Rig {
    /// A controller for this cluster, running.
    pub(in crate::node) fn over(api: ApiServer, provider: Arc<FakeProvider>, controller: Start) -> Self {
        let mut rig = Self { api, provider, client: 0, controller, running: None };
        rig.start();
        rig
    }

    fn start(&mut self) {
        let token = CancellationToken::new();
        let (client, number) = self.api.numbered_client();
        self.client = number;
        let task = (self.controller)(client, Arc::clone(&self.provider), token.clone());
        self.running = Some((token, task));
    }

    async fn stop(&mut self) {
        if let Some((token, task)) = self.running.take() {
            token.cancel();
            task.await.expect("the controller ends");
        }
    }

    pub(in crate::node) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    /// Lives `life`, with another controller from the moment on at which this one is cut off. Returns whether it was.
    pub(in crate::node) async fn survives_cut_off(&self, life: impl Future<Output = ()>) -> bool {
        let successor = || Self::over(self.api.clone(), Arc::clone(&self.provider), self.controller);
        let successor = with_successor(&self.api, self.client, life, successor).await;
        let came = successor.is_some();
        if let Some(mut successor) = successor {
            successor.stop().await;
        }
        came
    }

    /// Lets ten virtual minutes pass: whatever was to come has come.
    pub(in crate::node) async fn idle(&self) {
        tokio::time::sleep(Duration::from_mins(10)).await;
    }

    /// Checks that ten idle minutes cost four calls at most, and that a restart writes nothing.
    pub(in crate::node) async fn rests(&mut self, what: &str) {
        let before = self.api.request_count();
        self.idle().await;
        let idle = self.api.request_count() - before;
        assert!(idle <= 4, "{what}: {idle} calls in ten idle minutes: {:?}", &self.api.requests()[before..]);
        self.api.take_writes();
        self.restart().await;
        self.idle().await;
        assert_eq!(self.api.take_writes(), [], "{what}: a restart writes nothing");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some((token, _)) = &self.running {
            token.cancel();
        }
    }
}
