//! Jobs of `millstream serve` whose state is in the store.

use crate::job::{FAST, Job, SLOW, of_store};
use crate::serving::{Served, eventually};
use std::fs;

#[test]
fn jobs_of_a_service_have_their_state_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "service");
    let expected = job.expected();
    let mut served = Served::new(folder.path());
    let start = |served: &mut Served, rate: u64| {
        served.variables = of_store(job.server.port());
        let options = ["--state-dir", "s3://service/some", "--var", "OUT=out", "--var"];
        served.options = options.map(str::to_string).into_iter().chain([format!("RATE={rate}")]).collect();
        served.start();
    };
    fs::copy(folder.path().join("job.sql"), served.script("job")).unwrap();
    start(&mut served, SLOW / 5);
    eventually(&|| format!("checkpoints\n{}", served.log()), || (job.manifests().len() > 1).then_some(()));
    served.kill();
    // The process that has ended is the owner of the state no more.
    start(&mut served, SLOW / 5);
    served.tells("resuming from checkpoint");
    let (code, log) = served.terminate();
    assert!(code == Some(0) && log.contains("has all that it needs to resume"), "{log}");
    start(&mut served, FAST);
    served.until_is("job", "finished");
    job.assert_rows(&expected, "after a kill and a stop");
}
