//! The nodes of a query over meshes: what the runtime sends is put on lanes, and what comes is put into its inbox.

use crate::flight::{Listener, Mesh, MeshConfig};
use crate::frame::MARK_LIMIT;
use crate::transport::{self, Inbound, Sent, Transport};
use bytes::Bytes;
use millstream_runtime::{Credit, LaneSnapshot, NodeInbox, Nodes, Peers};
use millstream_types::Diagnostic;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end of a run waits until the other nodes have what was sent to them.
const FAREWELL: Duration = Duration::from_secs(5);

/// By node: the mesh with the lane to it. One for all, or one for each.
struct Outbound(RwLock<Vec<Option<Arc<Mesh>>>>);

/// What comes from other nodes.
struct Delivery(NodeInbox);

impl Peers for Outbound {
    fn send(&self, to: usize, message: Vec<u8>, credit: Option<Credit>) {
        let mesh = self.0.read().get(to).cloned().flatten();
        let Some(mesh) = mesh else { return };
        let sent = if credit.is_some() || message.len() > MARK_LIMIT { Sent::Data } else { Sent::Mark };
        // A message that is too large is found by whoever makes it: frames are cut.
        let sent = mesh.send(to, Bytes::from(message), sent, credit);
        debug_assert!(sent.is_ok(), "{sent:?}");
    }

    fn lane(&self, to: usize) -> LaneSnapshot {
        let mesh = self.0.read().get(to).cloned().flatten();
        // There is none before a node is there.
        mesh.map_or(LaneSnapshot { to, ..LaneSnapshot::default() }, |mesh| LaneSnapshot {
            to,
            credit_bytes: mesh.window(),
            unfinished_bytes: mesh.unfinished_at(to),
            unsent_bytes: mesh.unsent_to(to),
        })
    }
}

impl Inbound for Delivery {
    fn receive(&self, from: usize, message: Bytes, credit: transport::Credit) {
        let credit = (credit.bytes() > 0).then(|| Box::new(credit) as Credit);
        self.0.deliver(from, message.into(), credit);
    }

    fn lost(&self, from: usize, why: Diagnostic) {
        self.0.lost(from, why);
    }
}

/// The place of this process in a run.
#[derive(Clone)]
pub(crate) struct Membership {
    outbound: Arc<Outbound>,
    delivery: Arc<Delivery>,
}

/// Dropped when the run has ended here: the others get what has been sent to them, then the connections are closed.
pub(crate) struct Farewell(Membership);

impl Membership {
    /// Of a node of so many, with the nodes as the runtime sees them. There is no lane yet.
    pub(crate) fn new(me: usize, count: usize) -> (Membership, Nodes) {
        let outbound = Arc::new(Outbound(RwLock::new(vec![None; count])));
        let (nodes, inbox) = Nodes::new(me, count, Arc::clone(&outbound) as Arc<dyn Peers>);
        (Membership { outbound, delivery: Arc::new(Delivery(inbox)) }, nodes)
    }

    /// Joins the mesh of an attempt: from now on its lanes lead to the nodes that it has any with.
    ///
    /// # Errors
    /// Those of [`Listener::mesh`].
    pub(crate) fn join(&self, listener: &Listener, config: MeshConfig) -> Result<(), Diagnostic> {
        let to: Vec<usize> = config.others().collect();
        let mesh = Arc::new(listener.mesh(config, Arc::clone(&self.delivery) as Arc<dyn Inbound>)?);
        let mut meshes = self.outbound.0.write();
        to.into_iter().for_each(|to| meshes[to] = Some(Arc::clone(&mesh)));
        Ok(())
    }

    /// What ends the run for the others.
    pub(crate) fn farewell(&self) -> Farewell {
        Farewell(self.clone())
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let meshes: Vec<Arc<Mesh>> = self.0.outbound.0.write().iter_mut().filter_map(Option::take).collect();
        meshes.iter().for_each(|mesh| mesh.begin_close());
        let until = Instant::now() + FAREWELL;
        for mesh in &meshes {
            mesh.close(until.saturating_duration_since(Instant::now()));
        }
    }
}
