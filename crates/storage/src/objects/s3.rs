//! S3, and whatever speaks its protocol, through the crate `object_store`.
//!
//! An object is there as a whole or not at all, as the files of a [`Store`] are: small ones are put at once, large ones part by
//! part. What a crash leaves of the latter is not seen, but paid for, until a rule of the bucket removes incomplete uploads.
//! Requests that fail for a while are sent again by `object_store`, a moment later each time.

mod client;

use super::{Entries, endpoint, failure, is_unavailable};
use crate::store::{Store, StoreWriter, StoredFile};
use bytes::Bytes;
use client::{Connector, Sha256Signatures};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig, WriteMultipart};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Bytes of the parts of a large object, and of what is read at once.
const PART: usize = 8 << 20;
/// Bytes of a window: so much is read at least, because blobs lie one behind the other and are read in this order.
const WINDOW: u64 = 1 << 20;
/// Windows that are kept.
const WINDOWS: usize = 32;
/// Parts that are under way at a time.
const AT_ONCE: usize = 4;
/// How long a request is tried again and again, and the longest pause in between.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(3);

/// A prefix of an object store, as a directory.
#[derive(Debug, Clone)]
pub(crate) struct ObjectDirectory {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    /// For messages.
    place: String,
    /// What was read lately; objects do not change.
    windows: Arc<Mutex<VecDeque<Window>>>,
    runtime: &'static Runtime,
}

/// A part of an object.
#[derive(Debug)]
struct Window {
    path: Path,
    start: u64,
    bytes: Bytes,
}

impl ObjectDirectory {
    /// A prefix of a bucket. Credentials, region and endpoint are those of the environment (`AWS_…`). Nothing is sent yet.
    pub(crate) fn s3(bucket: &str, prefix: &str) -> io::Result<ObjectDirectory> {
        let place = format!("s3://{bucket}/{prefix}");
        let backoff = BackoffConfig { max_backoff: PAUSE, ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: PATIENCE };
        let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
        let builder = builder.with_http_connector(Connector).with_crypto_provider(Arc::new(Sha256Signatures));
        // Requests that remove one object each are understood by everything that calls itself S3.
        let builder = builder.with_disable_bulk_delete(true);
        let builder = match endpoint() {
            Some(url) => builder.with_allow_http(url.starts_with("http://")).with_endpoint(url),
            None => builder,
        };
        let objects = builder.build().map_err(|e| failure::io_error(&place, &e))?;
        ObjectDirectory::new(Arc::new(objects), prefix, place)
    }

    fn new(objects: Arc<dyn ObjectStore>, prefix: &str, place: String) -> io::Result<ObjectDirectory> {
        let prefix = Path::parse(prefix).map_err(io::Error::other)?;
        let place = place.trim_end_matches('/').to_string();
        Ok(ObjectDirectory { objects, prefix, place, windows: Arc::default(), runtime: runtime()? })
    }

    /// In memory, for tests.
    #[cfg(test)]
    pub(crate) fn in_memory() -> ObjectDirectory {
        let objects = Arc::new(object_store::memory::InMemory::new());
        ObjectDirectory::new(objects, "some/prefix", "memory://some/prefix".into()).unwrap()
    }

    /// A directory in this one.
    pub(crate) fn directory(&self, name: &str) -> ObjectDirectory {
        ObjectDirectory { prefix: self.at(name), place: format!("{}/{name}", self.place), ..self.clone() }
    }

    fn at(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        self.runtime.block_on(request).map_err(|e| failure::io_error(&self.place, &e))
    }

    /// What is in it.
    pub(crate) fn entries(&self) -> io::Result<Entries> {
        let listed = self.wait(self.objects.list_with_delimiter(Some(&self.prefix)))?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_string();
        let file = |object: &object_store::ObjectMeta| StoredFile { name: name(&object.location), bytes: object.size };
        let mut files: Vec<StoredFile> = listed.objects.iter().map(file).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Entries { files, directories: listed.common_prefixes.iter().map(name).collect() })
    }

    /// Writes a small file as a whole. With `is_new` it fails with [`io::ErrorKind::AlreadyExists`] if it is there: of
    /// several that try at the same time one succeeds.
    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>, is_new: bool) -> io::Result<()> {
        let mode = if is_new { PutMode::Create } else { PutMode::Overwrite };
        let (path, options) = (self.at(name), PutOptions { mode, ..PutOptions::default() });
        self.wait(self.objects.put_opts(&path, bytes.into(), options)).map(drop)
    }

    /// Bytes of an object, of which those behind are kept for the next; fewer if it ends before.
    fn read_in_window(&self, path: Path, range: Range<u64>) -> io::Result<Vec<u8>> {
        let in_window = |window: &Window| {
            let end = window.start + window.bytes.len() as u64;
            let is_in = window.path == path && window.start <= range.start && range.end <= end;
            // A window is no longer than a mebibyte, so what is in it has a place in memory.
            is_in
                .then(|| window.bytes.slice((range.start - window.start) as usize..(range.end - window.start) as usize))
        };
        let found = self.windows().iter().find_map(in_window);
        if let Some(bytes) = found {
            return Ok(bytes.to_vec());
        }
        let end = range.start.saturating_add(WINDOW);
        let bytes = self.wait(self.objects.get_range(&path, range.start..end))?;
        let wanted = bytes.slice(..bytes.len().min((range.end - range.start) as usize)).to_vec();
        let mut windows = self.windows();
        if windows.len() == WINDOWS {
            windows.pop_front();
        }
        windows.push_back(Window { path, start: range.start, bytes });
        Ok(wanted)
    }

    fn windows(&self) -> MutexGuard<'_, VecDeque<Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Many bytes of an object; fewer if it ends before.
    fn read_in_parts(&self, path: &Path, range: Range<u64>) -> io::Result<Vec<u8>> {
        let part = |start: u64| {
            let end = range.end.min(start.saturating_add(PART as u64));
            let read = self.objects.get_range(path, start..end);
            async move { read.await.map(|bytes| (bytes, end - start)) }
        };
        self.wait(async {
            let mut bytes = Vec::new();
            let mut parts = stream::iter((range.start..range.end).step_by(PART).map(part)).buffered(AT_ONCE);
            // What is asked for may be nonsense: it ends where the object does.
            while let Some((part, length)) = parts.try_next().await? {
                bytes.extend_from_slice(&part);
                if part.len() as u64 != length {
                    break;
                }
            }
            Ok(bytes)
        })
    }

    /// The whole of a small file.
    pub(crate) fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.at(name);
        self.wait(async { self.objects.get(&path).await?.bytes().await }).map(|bytes| bytes.to_vec())
    }
}

/// Where requests are under way, for all stores of the process.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(1).thread_name("object-store").enable_time().build();
    RUNTIME.get_or_init(build).as_ref().map_err(|e| io::Error::new(e.kind(), e.to_string()))
}

impl Store for ObjectDirectory {
    fn create(&self, name: &str) -> io::Result<Box<dyn StoreWriter>> {
        Ok(Box::new(ObjectWriter { directory: self.clone(), name: name.into(), begun: Vec::new(), upload: None }))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (path, wanted) = (self.at(name), range.end.checked_sub(range.start).ok_or(io::ErrorKind::UnexpectedEof)?);
        let bytes = match wanted {
            0 => Vec::new(),
            _ if wanted <= WINDOW => self.read_in_window(path, range)?,
            _ => self.read_in_parts(&path, range)?,
        };
        if bytes.len() as u64 == wanted { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn list(&self) -> io::Result<Vec<StoredFile>> {
        Ok(self.entries()?.files)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.at(name);
        self.windows().retain(|window| window.path != path);
        match self.wait(self.objects.delete(&path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !is_unavailable(&e) => Ok(()),
            other => other,
        }
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

/// An object that is being written.
struct ObjectWriter {
    directory: ObjectDirectory,
    name: String,
    /// What it has while it is small.
    begun: Vec<u8>,
    upload: Option<WriteMultipart>,
}

impl StoreWriter for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let ObjectWriter { directory, name, begun, upload } = self;
        if upload.is_none() && begun.len() + bytes.len() <= PART {
            begun.extend_from_slice(bytes);
            return Ok(());
        }
        directory.wait(async {
            let upload = match upload {
                Some(upload) => upload,
                None => {
                    let begun_upload = directory.objects.put_multipart(&directory.at(name)).await?;
                    upload.insert(WriteMultipart::new_with_chunk_size(begun_upload, PART))
                }
            };
            upload.write(&std::mem::take(begun));
            for piece in bytes.chunks(PART) {
                upload.wait_for_capacity(AT_ONCE).await?;
                upload.write(piece);
            }
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        match self.upload.take() {
            Some(upload) => self.directory.wait(upload.finish()).map(drop),
            None => self.directory.put(&self.name, std::mem::take(&mut self.begun), false),
        }
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // What cannot be removed now is as what a crash leaves.
            let _ = self.directory.wait(upload.abort());
        }
    }
}

#[cfg(test)]
mod tests;
