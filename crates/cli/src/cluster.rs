//! Runs on several processes: `--cluster`, and `millstream node`.

use crate::arguments::{ClusterAction, ClusterArguments, ClusterSecurity, Common, RayArguments};
use crate::failure::Failure;
use crate::output::print;
use crate::{checkpoints, control, log};
use millstream::{Diagnostic, Place, code};
use std::num::NonZeroUsize;

/// Ray is a matter of the Python package, whose command asks the engine for a run on a list of nodes.
pub(crate) fn refuse_ray(arguments: &ClusterArguments, ray: &RayArguments) -> Result<(), Failure> {
    let is_ray = arguments.cluster.as_ref().is_some_and(|cluster| cluster == "ray" || cluster.starts_with("ray://"));
    if is_ray {
        return Err(needs_python("millstream run …"));
    }
    if arguments.nodes.is_some() && arguments.cluster.is_none() {
        let place = Place::Option("--nodes".into());
        return Err(Failure::usage(
            Diagnostic::new(code::USAGE, "this option is for a cluster").at(place).advise("add --cluster"),
        ));
    }
    let only_for_ray = |option: &str| {
        let place = Place::Option(option.into());
        Failure::usage(Diagnostic::new(code::USAGE, "this option is for Ray").at(place).advise("add --cluster ray"))
    };
    ray.given().map_or(Ok(()), |option| Err(only_for_ray(option)))
}

/// `millstream cluster`: of a job whose first node is a process of this machine, which its state directory tells from others.
pub(crate) fn of_job(action: ClusterAction, nodes: Option<NonZeroUsize>, common: &Common) -> Result<(), Failure> {
    if nodes.is_some() && !matches!(action, ClusterAction::Rescale) {
        let place = Place::Option("--nodes".into());
        return Err(Failure::usage(Diagnostic::new(code::USAGE, "this option is for rescaling").at(place)));
    }
    let place = checkpoints::place(common)?;
    match action {
        ClusterAction::Stop => return checkpoints::stop(None, common),
        ClusterAction::Status => {
            let nodes = control::request(&place, "nodes")?;
            return print(&format!("{nodes}\n")).map_err(Failure::usage);
        }
        ClusterAction::Rescale => {
            let nodes = nodes.map_or_else(String::new, |nodes| format!(" {nodes}"));
            log::info(&control::request(&place, &format!("rescale{nodes}"))?);
        }
    }
    Ok(())
}

/// What the command of the Python package does instead of this one.
pub(crate) fn needs_python(command: &str) -> Failure {
    let advice = format!("pip install 'millstream[ray]', and use its command: python -m {command}");
    Failure::usage(Diagnostic::new(code::USAGE, "Ray needs the Python package").advise(advice))
}

#[cfg(not(feature = "cluster"))]
mod absent {
    use super::{ClusterArguments, ClusterSecurity, Common, Diagnostic, Failure, code};
    use crate::context::Context;
    use millstream::cluster::Loader;
    use std::sync::Arc;

    fn absent() -> Failure {
        let message = "this build runs on one process only";
        Failure::usage(
            Diagnostic::new(code::UNSUPPORTED, message).advise("build with the feature `cluster`: make release"),
        )
    }

    pub(crate) fn join(context: &mut Context, arguments: &ClusterArguments) -> Result<(), Failure> {
        let _ = context;
        arguments.cluster.as_ref().map_or(Ok(()), |_| Err(absent()))
    }

    pub(crate) fn node(_: &str, _: &ClusterSecurity, _: &Common, _: Option<Arc<dyn Loader>>) -> Result<(), Failure> {
        Err(absent())
    }
}

#[cfg(feature = "cluster")]
mod present {
    use super::{ClusterArguments, ClusterSecurity, Common, Diagnostic, Failure, Place, code};
    use crate::arguments::LogArgument;
    use crate::config::Config;
    use crate::context::Context;
    use crate::log;
    use millstream::cluster::Loader;
    use millstream::{SessionConfig, user_code_directory};
    use millstream_cluster::coordinator::{Addresses, Coordinator, StaticNodes};
    use millstream_cluster::flight::{ListenConfig, TlsPaths, Token};
    use millstream_cluster::node::{Node, Notice};
    use std::sync::Arc;
    use std::time::Duration;

    /// Where the token of the cluster is, if no file has it.
    const TOKEN: &str = "MILLSTREAM_CLUSTER_TOKEN";

    fn token(security: &ClusterSecurity) -> Result<Token, Diagnostic> {
        let text = match &security.cluster_token_file {
            Some(file) => std::fs::read_to_string(file).map_err(|e| {
                let message = format!("the token of the cluster cannot be read from {}: {e}", file.display());
                Diagnostic::new(code::INVALID_CONFIG, message)
            })?,
            None => std::env::var(TOKEN).map_err(|_| {
                let advice = format!(
                    "make one for all processes of the cluster, such as by `openssl rand -hex 32`, and put it into {TOKEN} or \
                     --cluster-token-file"
                );
                Diagnostic::new(code::INVALID_CONFIG, "the cluster has no token").advise(advice)
            })?,
        };
        Token::new(&text)
    }

    fn tls(security: &ClusterSecurity) -> Option<TlsPaths> {
        let ClusterSecurity { cluster_ca, cluster_cert, cluster_key, cluster_server_name: server_name, .. } =
            security.clone();
        let (ca, certificate, key) = (cluster_ca?, cluster_cert?, cluster_key?);
        Some(TlsPaths { ca, certificate, key, server_name })
    }

    /// Has the nodes of a cluster take part in what is run, if there is one.
    pub(crate) fn join(context: &mut Context, arguments: &ClusterArguments) -> Result<(), Failure> {
        let Some(cluster) = &arguments.cluster else { return Ok(()) };
        let config = || {
            let security = &arguments.security;
            Ok(StaticNodes {
                nodes: Addresses::parse(cluster)?,
                listen: arguments.cluster_listen.clone(),
                tls: tls(security),
                insecure: security.insecure_cluster,
                token: token(security)?,
                replacement_timeout: Duration::from_secs(arguments.cluster_replacement_timeout),
                most: arguments.nodes.map(usize::from),
            })
        };
        let refused = |d: Diagnostic| Failure::usage(d.at(Place::Option("--cluster".into())));
        context.session.join_cluster(Arc::new(Coordinator::new(config().map_err(refused)?)));
        Ok(())
    }

    /// `millstream node`
    pub(crate) fn node(
        listen: &str,
        security: &ClusterSecurity,
        common: &Common,
        loader: Option<Arc<dyn Loader>>,
    ) -> Result<(), Failure> {
        let config = Config::load(common)?;
        log::set_form(config.log_format.unwrap_or(LogArgument::Text));
        let is_quiet = config.quiet;
        let notices = move |notice: Notice| match notice {
            Notice::Begun(job, attempt, me, count) if !is_quiet => {
                log::info(&format!("job {job}, attempt {attempt}: node {me} of {count}"));
            }
            Notice::Ended(job, Ok(())) if !is_quiet => log::info(&format!("job {job} has ended")),
            Notice::Ended(job, Err(why)) if !is_quiet && why.code == code::SUSPENDED => {
                log::info(&format!("job {job} was stopped"));
            }
            Notice::Ended(job, Err(why)) if !is_quiet => log::note(&format!("job {job} has ended here: {why}")),
            Notice::Begun(..) | Notice::Ended(..) => {}
        };
        let session = SessionConfig { pin: config.pin, code_directory: user_code_directory() };
        let listening = ListenConfig {
            address: listen.to_string(),
            tls: tls(security),
            insecure: security.insecure_cluster,
            token: token(security).map_err(Failure::usage)?,
            control: None,
        };
        let node = Node::listen(listening, session, loader, Arc::new(notices)).map_err(Failure::usage)?;
        if !is_quiet {
            log::info(&format!("waiting for runs at {}", node.address()));
        }
        // Until a signal ends the process: it has nothing that has to be kept.
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(feature = "cluster"))]
pub(crate) use absent::{join, node};
#[cfg(feature = "cluster")]
pub(crate) use present::{join, node};
