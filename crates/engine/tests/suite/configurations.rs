//! The configurations of `tests/configs`: each file is a table of session settings.

use crate::tests_dir;
use millstream::{Session, SessionConfig};
use std::collections::BTreeMap;

/// A configuration under which all queries must give the same rows.
pub(crate) struct Configuration {
    pub(crate) name: String,
    settings: BTreeMap<String, String>,
}

impl Configuration {
    /// With these settings.
    pub(crate) fn new(name: &str, settings: &[(&str, &str)]) -> Configuration {
        let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Configuration { name: name.into(), settings }
    }

    /// What it says of a setting.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// A fresh session with the settings. Code is kept on disk from one configuration, and one run of the tests, to the next:
    /// compiling is most of their time, and every query so runs code that came from disk.
    pub(crate) fn session(&self) -> Session {
        let code_directory = Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/code").into());
        let mut session = Session::new(SessionConfig { code_directory, ..SessionConfig::default() });
        for (key, value) in &self.settings {
            session.set(key, value).unwrap_or_else(|e| panic!("configuration {}: {e}", self.name));
        }
        session
    }
}

/// All configurations, in order of name; with `MILLSTREAM_SHUFFLE=N` instead of them N orders of tasks (`make shuffle`), with
/// `MILLSTREAM_CHAOS=N` N ways to switch variants of code (`make chaos`).
pub(crate) fn all() -> Vec<Configuration> {
    let seeds = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seeds) = seeds("MILLSTREAM_SHUFFLE") {
        return (1..=seeds).map(shuffled).collect();
    }
    if let Some(seeds) = seeds("MILLSTREAM_CHAOS") {
        return (1..=seeds).map(chaotic).collect();
    }
    let mut all: Vec<Configuration> = std::fs::read_dir(tests_dir().join("configs"))
        .expect("tests/configs is there")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| Configuration {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            settings: toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap(),
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 5, "the corpus must run under several configurations");
    all
}

/// A configuration in which tasks come in an order drawn from a seed.
fn shuffled(seed: u64) -> Configuration {
    let (workers, rows) = ([1, 2, 3, 4][seed as usize % 4], [1, 2, 5, 64][seed as usize / 4 % 4]);
    let settings = [
        ("pipeline.tier", "interpreted".to_string()),
        ("parallelism.default", workers.to_string()),
        ("pipeline.buffer-rows", rows.to_string()),
        ("pipeline.shuffle-seed", seed.to_string()),
        ("pipeline.cut-every", (seed % 3 * 2).to_string()),
        ("pipeline.numa-nodes", (seed % 2 + 1).to_string()),
    ];
    let settings = settings.map(|(key, value)| (key.to_string(), value)).into();
    Configuration { name: format!("shuffled-{seed}"), settings }
}

/// A configuration in which variants of code are switched at random, as a seed says: by interpreters, and every fourth compiled.
fn chaotic(seed: u64) -> Configuration {
    let (workers, rows) = ([1, 2, 3, 4][seed as usize % 4], [0, 3, 7, 64][seed as usize / 4 % 4]);
    let merge = ["auto", "local", "global", "partition"][seed as usize / 2 % 4];
    let settings = [
        ("pipeline.chaos-seed", seed.to_string()),
        ("pipeline.tier", if seed % 4 == 3 { "compiled" } else { "interpreted" }.to_string()),
        ("pipeline.merge", merge.to_string()),
        ("parallelism.default", workers.to_string()),
        ("pipeline.buffer-rows", rows.to_string()),
        ("pipeline.cut-every", (seed % 3).to_string()),
    ];
    let settings = settings.map(|(key, value)| (key.to_string(), value)).into();
    Configuration { name: format!("chaotic-{seed}"), settings }
}
