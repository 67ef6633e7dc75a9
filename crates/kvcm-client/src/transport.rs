//! What carries calls to nodes: gRPC, or a cluster that is only modelled.

use std::{fmt, time::Duration};

use futures_util::{future::BoxFuture, stream::BoxStream};

use crate::{
    address::Address,
    channels::Channels,
    cluster_info::{self, ClusterInfo},
    rpc::{Failed, Incoming, Outgoing, exchange, subscribe},
    settings::Settings,
};

/// What one node says about the cluster, again with every change.
pub(crate) type Pushes = BoxStream<'static, Result<ClusterInfo, Failed>>;

/// Carries calls to nodes.
pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends to one node and waits for the answer.
    fn send<'a>(
        &'a self,
        address: &'a Address,
        outgoing: &'a Outgoing<'a>,
    ) -> BoxFuture<'a, Result<Incoming, Failed>>;

    /// Has a node tell who leads, until the stream ends. The first word comes within `timeout`.
    fn watch<'a>(
        &'a self,
        address: &'a Address,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Pushes, Failed>>;

    /// Gives the connection to `address` up.
    fn close(&self, address: &Address);

    /// Gives all connections up.
    fn close_all(&self);

    /// Connections that are kept.
    fn connections(&self) -> usize;

    /// Connections given up so far.
    fn evictions(&self) -> u64;
}

/// gRPC over HTTP/2.
#[derive(Debug)]
pub(crate) struct Grpc {
    channels: Channels,
    settings: Settings,
}

impl Grpc {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            channels: Channels::new(settings.clone()),
            settings,
        }
    }

    fn channel(&self, address: &Address) -> Result<crate::channels::Connection, Failed> {
        self.channels
            .get(address)
            .map_err(|why| Failed::local(crate::policy::Failure::Unreachable, why))
    }
}

impl Transport for Grpc {
    fn send<'a>(
        &'a self,
        address: &'a Address,
        outgoing: &'a Outgoing<'a>,
    ) -> BoxFuture<'a, Result<Incoming, Failed>> {
        Box::pin(async move {
            let connection = self.channel(address)?;
            let credentials = self.settings.credentials.as_ref();
            let result = exchange(connection.channel.clone(), outgoing, credentials).await;
            if let Err(failed) = &result
                && failed.failure.breaks_connection()
            {
                self.channels.evict(address, &connection);
            }
            result
        })
    }

    fn watch<'a>(
        &'a self,
        address: &'a Address,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Pushes, Failed>> {
        Box::pin(async move {
            let connection = self.channel(address)?;
            let outgoing = Outgoing {
                path: cluster_info::WATCH_PATH,
                body: cluster_info::watch_request(),
                request_id: None,
                min_epoch: 0,
                timeout,
                reply_bytes_max: self.settings.reply_bytes_max,
            };
            let credentials = self.settings.credentials.as_ref();
            let result = subscribe(connection.channel.clone(), &outgoing, credentials).await;
            match result {
                Ok(bodies) => Ok(cluster_info::read_all(address.clone(), bodies)),
                Err(failed) => {
                    if failed.failure.breaks_connection() {
                        self.channels.evict(address, &connection);
                    }
                    Err(failed)
                }
            }
        })
    }

    fn close(&self, address: &Address) {
        self.channels.close(address);
    }

    fn close_all(&self) {
        self.channels.close_all();
    }

    fn connections(&self) -> usize {
        self.channels.len()
    }

    fn evictions(&self) -> u64 {
        self.channels.evictions()
    }
}
