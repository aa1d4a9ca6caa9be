//! The nodes of a query over a mesh: what the runtime sends is put on lanes, and what comes is put into its inbox.

use crate::flight::{Listener, Mesh, MeshConfig};
use crate::frame::MARK_LIMIT;
use crate::transport::{self, Inbound, Sent, Transport};
use bytes::Bytes;
use millstream_runtime::{Credit, NodeInbox, Nodes, Peers};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the end of a run waits until the other nodes have what was sent to them.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the runtime sends.
#[derive(Default)]
struct Outbound(OnceLock<Arc<Mesh>>);

/// What comes from other nodes.
struct Delivery {
    inbox: NodeInbox,
    /// The first node that is lost says why.
    is_lost: Mutex<bool>,
}

impl Peers for Outbound {
    fn send(&self, to: usize, message: Vec<u8>, credit: Option<Credit>) {
        let Some(mesh) = self.0.get() else { return };
        let sent = if credit.is_some() || message.len() > MARK_LIMIT { Sent::Data } else { Sent::Mark };
        // A message that is too large is found by whoever makes it: frames are cut.
        let sent = mesh.send(to, Bytes::from(message), sent, credit);
        debug_assert!(sent.is_ok(), "{sent:?}");
    }
}

impl Inbound for Delivery {
    fn receive(&self, from: usize, message: Bytes, credit: transport::Credit) {
        let credit = (credit.bytes() > 0).then(|| Box::new(credit) as Credit);
        self.inbox.deliver(from, message.into(), credit);
    }

    fn lost(&self, _from: usize, why: Diagnostic) {
        if !std::mem::replace(&mut *self.is_lost.lock(), true) {
            self.inbox.lost(why);
        }
    }
}

/// The place of this process in a run.
pub(crate) struct Joined {
    pub(crate) nodes: Nodes,
    pub(crate) membership: Membership,
}

/// Dropped when the run has ended here: the others get what has been sent to them, then the connections are closed.
pub(crate) struct Membership(Arc<Mesh>);

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.close(FAREWELL);
    }
}

/// Joins the mesh of an attempt.
///
/// # Errors
/// Those of [`Listener::mesh`].
pub(crate) fn join(listener: &Listener, config: MeshConfig) -> Result<Joined, Diagnostic> {
    let (me, count) = (config.me, config.peers.len());
    let outbound = Arc::new(Outbound::default());
    let (nodes, inbox) = Nodes::new(me, count, Arc::clone(&outbound) as Arc<dyn Peers>);
    let mesh = listener.mesh(config, Arc::new(Delivery { inbox, is_lost: Mutex::new(false) }))?;
    let mesh = Arc::new(mesh);
    // Nothing is sent before the run begins.
    let _ = outbound.0.set(Arc::clone(&mesh));
    Ok(Joined { nodes, membership: Membership(mesh) })
}
