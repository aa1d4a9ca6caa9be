//! The checkpoints of a job in a store: which there are, which are whole, which can go.

use crate::bytes::Damaged;
use crate::manifest::Manifest;
use crate::store::{Store, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// See the file's description.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    store: Arc<dyn Store>,
}

/// A checkpoint that is there.
#[derive(Debug)]
pub struct Listed {
    /// Its number.
    pub checkpoint: u64,
    /// Its manifest, or what is wrong with it.
    pub manifest: Result<Manifest, Damaged>,
}

impl Checkpoints {
    /// Of a store.
    pub fn new(store: Arc<dyn Store>) -> Checkpoints {
        Checkpoints { store }
    }

    /// Where they are.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The numbers of all checkpoints, the newest first. Manifests are not read.
    pub fn numbers(&self) -> io::Result<Vec<u64>> {
        let files = self.store.list()?;
        let mut numbers: Vec<u64> = files.iter().filter_map(|file| Manifest::number_of(&file.name)).collect();
        numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
        Ok(numbers)
    }

    /// All checkpoints, the newest first. What they name is not looked at.
    pub fn list(&self) -> io::Result<Vec<Listed>> {
        let files = self.store.list()?;
        let manifests = files.iter().filter_map(|file| Some((Manifest::number_of(&file.name)?, file)));
        let mut all: Vec<Listed> = manifests.map(|(checkpoint, file)| self.listed(checkpoint, file)).collect();
        all.sort_by_key(|listed| std::cmp::Reverse(listed.checkpoint));
        Ok(all)
    }

    fn listed(&self, checkpoint: u64, file: &StoredFile) -> Listed {
        let bytes = self.store.read(&file.name, 0..file.bytes).map_err(|e| Damaged(e.to_string()));
        let manifest = bytes.and_then(|bytes| Manifest::decode(&bytes)).and_then(|manifest| {
            match manifest.checkpoint == checkpoint {
                true => Ok(manifest),
                false => Err(Damaged(format!("it is that of checkpoint {}", manifest.checkpoint))),
            }
        });
        let manifest = manifest.map_err(|Damaged(what)| Damaged(format!("the manifest {}: {what}", file.name)));
        Listed { checkpoint, manifest }
    }

    /// Whether everything is there that the checkpoint names: its files with their sizes, and, if there are at most `most_bytes`
    /// of them, the contents of its blobs.
    pub fn verify(&self, manifest: &Manifest, most_bytes: u64) -> Result<(), Damaged> {
        let files = self.store.list().map_err(|e| Damaged(e.to_string()))?;
        let sizes: BTreeMap<&str, u64> = files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
        for blob in manifest.blobs() {
            let end = blob.offset.saturating_add(blob.bytes);
            match sizes.get(&*blob.file) {
                None => return Err(Damaged(format!("the file {} is missing", blob.file))),
                Some(&size) if size < end => {
                    return Err(Damaged(format!("the file {} has {size} bytes instead of {end}", blob.file)));
                }
                Some(_) => {}
            }
        }
        if manifest.state_bytes() <= most_bytes {
            manifest.blobs().try_for_each(|blob| blob.read(&*self.store).map(drop))?;
        }
        Ok(())
    }

    /// Writes a manifest, after everything that it names.
    pub fn write(&self, manifest: &Manifest) -> io::Result<()> {
        let mut file = self.store.create(&Manifest::file_name(manifest.checkpoint))?;
        file.write(&manifest.encode())?;
        file.finish()
    }

    /// Removes checkpoints, manifests first, and then all files of state that none of the others names and nobody reads. If a
    /// manifest that stays cannot be read, no files of state are removed.
    pub fn delete(&self, gone: impl Fn(u64) -> bool, read: BTreeSet<Arc<str>>) -> io::Result<Vec<u64>> {
        let (mut removed, mut needed, mut is_sure) = (Vec::new(), read, true);
        for Listed { checkpoint, manifest } in self.list()? {
            match manifest {
                _ if gone(checkpoint) => {
                    self.store.delete(&Manifest::file_name(checkpoint))?;
                    removed.push(checkpoint);
                }
                Ok(manifest) => needed.extend(manifest.files()),
                Err(_) => is_sure = false,
            }
        }
        let is_state = |file: &StoredFile| file.name.starts_with("state-");
        for file in self.store.list()?.iter().filter(|file| is_sure && is_state(file)) {
            if !needed.contains(file.name.as_str()) {
                self.store.delete(&file.name)?;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStore;
    use crate::manifest::{AggregationState, FORMAT, TableState};
    use crate::pack::PackWriter;

    fn checkpoints(directory: &std::path::Path) -> Checkpoints {
        Checkpoints::new(Arc::new(LocalStore::open(directory).unwrap()))
    }

    /// A checkpoint that has written a blob, and refers to those of others.
    fn write(checkpoints: &Checkpoints, checkpoint: u64, others: &[&Manifest]) -> Manifest {
        let mut pack = PackWriter::new(Arc::clone(&checkpoints.store), format!("state-{checkpoint:08}"));
        let own = pack.write(format!("the blob of {checkpoint}").as_bytes()).unwrap();
        let bytes_written = pack.finish().unwrap();
        let blobs = others.iter().flat_map(|manifest| manifest.blobs().cloned()).chain([own]).collect();
        let table = TableState { id: 1, entries: 1, partitions: vec![blobs] };
        let aggregation = AggregationState { watermark: 5, tables: vec![table], slices: vec![], swept: None };
        let manifest = Manifest {
            format: FORMAT,
            checkpoint,
            job: "j".into(),
            written_ms: 0,
            version: "0".into(),
            is_finished: false,
            plan: vec!["a line".into()],
            sources: vec![],
            aggregations: vec![aggregation],
            operators: vec![],
            sinks: vec![],
            bytes_written,
        };
        checkpoints.write(&manifest).unwrap();
        manifest
    }

    #[test]
    fn a_checkpoint_is_whole_or_found_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(directory.path());
        let manifest = write(&checkpoints, 3, &[]);
        assert_eq!(checkpoints.numbers().unwrap(), [3]);
        let listed = checkpoints.list().unwrap().remove(0);
        assert_eq!((listed.checkpoint, listed.manifest.unwrap()), (3, manifest.clone()));
        checkpoints.verify(&manifest, u64::MAX).unwrap();
        let path = directory.path().join(Manifest::file_name(3));
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, &bad).unwrap();
            assert!(checkpoints.list().unwrap()[0].manifest.is_err(), "byte {at}");
            std::fs::write(&path, &good[..at]).unwrap();
            assert!(checkpoints.list().unwrap()[0].manifest.is_err(), "{at} bytes");
        }
        let state = directory.path().join("state-00000003-0.bin");
        let mut bytes = std::fs::read(&state).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&state, &bytes).unwrap();
        assert!(checkpoints.verify(&manifest, u64::MAX).is_err());
        assert!(checkpoints.verify(&manifest, 1).is_ok(), "too large to be read beforehand");
        std::fs::write(&state, &bytes[..9]).unwrap();
        assert!(checkpoints.verify(&manifest, 1).is_err());
        std::fs::remove_file(&state).unwrap();
        assert!(checkpoints.verify(&manifest, 1).is_err());
    }

    #[test]
    fn files_go_with_the_last_checkpoint_that_needs_them() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(directory.path());
        let first = write(&checkpoints, 1, &[]);
        let second = write(&checkpoints, 2, &[]);
        write(&checkpoints, 3, &[&first]);
        assert_eq!(checkpoints.delete(|checkpoint| checkpoint < 3, BTreeSet::new()).unwrap(), [2, 1]);
        let names: Vec<String> = checkpoints.store.list().unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["checkpoint-00000003.json", "state-00000001-0.bin", "state-00000003-0.bin"]);
        assert!(checkpoints.verify(&second, 0).is_err());
        write(&checkpoints, 4, &[]);
        std::fs::write(directory.path().join(Manifest::file_name(3)), "damaged").unwrap();
        assert_eq!(checkpoints.delete(|_| false, BTreeSet::new()).unwrap(), [0; 0]);
        assert_eq!(checkpoints.store.list().unwrap().len(), 5, "nobody knows what the damaged one needs");
    }
}
