//! OpenTelemetry: the metrics of the inventory, and spans of what took its time, sent to a collector by OTLP over gRPC.
//!
//! Metrics have the names that Prometheus reads at `/metrics`, without `_total`, which the collector adds. Spans are `compile`, `checkpoint` (with its phases
//! as children), `trigger` (a sample: one in 100 ms of each job) and `commit`. A collector that does not answer costs a job nothing: what cannot be
//! sent is dropped, and it is told once.

use crate::jobs::{JobSnapshot, Jobs};
use crate::metrics::{self, Kind, Metric};
use millstream::{Diagnostic, SpanRecord, code};
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry::trace::{Span, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for spans: what a job does before the first one is not traced.
const SPANS_EVERY: Duration = Duration::from_millis(100);
/// Snapshots of one export are the same for all metrics.
const SAME: Duration = Duration::from_millis(500);

/// Sends as long as it lives.
pub struct Telemetry {
    meters: SdkMeterProvider,
    traces: SdkTracerProvider,
    /// Dropped, it ends the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Connections belong to it.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Telemetry {
    /// Sends to a collector, such as `http://127.0.0.1:4317`, at this interval. `tell` is told when that fails, once, and when it succeeds again.
    ///
    /// # Errors
    /// `USAGE` when the address is none.
    pub fn start(
        endpoint: &str,
        every: Duration,
        jobs: Arc<dyn Jobs>,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Telemetry, Diagnostic> {
        let wrong = |why: &dyn std::fmt::Display| {
            Diagnostic::new(code::USAGE, format!("--otlp {endpoint}: {why}"))
                .advise("give the address of a collector that takes OTLP over gRPC, such as http://127.0.0.1:4317")
        };
        if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(wrong(&"it does not begin with http:// or https://"));
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("otlp").build();
        let runtime = runtime.map_err(|error| wrong(&error))?;
        let entered = runtime.enter();
        let metrics = MetricExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(PATIENCE);
        let metrics = metrics.with_temporality(Temporality::Cumulative).build().map_err(|error| wrong(&error))?;
        let spans = SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(PATIENCE).build();
        let spans = spans.map_err(|error| wrong(&error))?;
        drop(entered);
        let attributes = [KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
        // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say more, or otherwise.
        let name = std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "millstream".into());
        let resource = Resource::builder().with_service_name(name).with_attributes(attributes).build();
        let told = Telling {
            exporter: metrics,
            endpoint: endpoint.into(),
            has_failed: AtomicBool::new(false),
            tell: Box::new(tell),
        };
        let reader = PeriodicReader::builder(told).with_interval(every).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource.clone()).build();
        let snapshots = Arc::new(Snapshots { jobs: Arc::clone(&jobs), last: Mutex::default() });
        metrics::METRICS.iter().for_each(|metric| observe(&meters.meter("millstream"), metric, &snapshots));
        let traces = SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource).build();
        let tracer = traces.tracer("millstream");
        let (end, ended) = mpsc::channel();
        let take = move || {
            for view in jobs.views() {
                let stats = view.monitor.as_ref().and_then(|monitor| monitor.stats());
                let spans = stats.map(|stats| stats.take_spans()).unwrap_or_default();
                spans.into_iter().for_each(|span| trace(&tracer, &view.name, span));
            }
        };
        let record = move || {
            take();
            while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(SPANS_EVERY) {
                take();
            }
            take();
        };
        let thread = std::thread::Builder::new().name("spans".into()).spawn(record).ok();
        Ok(Telemetry { meters, traces, end: Some(end), thread, runtime: Some(runtime) })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end = None;
        self.thread.take().into_iter().for_each(|thread| {
            // It has panicked, or ended: either way it is gone.
            let _ = thread.join();
        });
        // What is left is sent; what cannot be sent has been told of.
        let _ = self.traces.shutdown_with_timeout(PATIENCE);
        let _ = self.meters.shutdown_with_timeout(PATIENCE);
        self.runtime.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

/// The jobs as of one export.
struct Snapshots {
    jobs: Arc<dyn Jobs>,
    last: Mutex<Option<(Instant, Arc<Vec<JobSnapshot>>)>>,
}

impl Snapshots {
    fn now(&self) -> Arc<Vec<JobSnapshot>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = last.as_ref().filter(|(at, _)| at.elapsed() < SAME) {
            return Arc::clone(known);
        }
        let taken = Arc::new(JobSnapshot::all(&*self.jobs));
        *last = Some((Instant::now(), Arc::clone(&taken)));
        taken
    }
}

/// Makes the instruments of a metric: a summary is a gauge of its quantiles and two counters.
fn observe(meter: &Meter, metric: &'static Metric, snapshots: &Arc<Snapshots>) {
    let callback = |wanted: &'static str| {
        let snapshots = Arc::clone(snapshots);
        move |to: &dyn AsyncInstrument<f64>| {
            for job in snapshots.now().iter() {
                metric.samples(job, &mut |part, labels, value| {
                    if part == wanted {
                        let labels =
                            labels.iter().map(|(name, value)| KeyValue::new(name.to_string(), value.to_string()));
                        let attributes: Vec<KeyValue> =
                            labels.chain([KeyValue::new("job", job.view.name.clone())]).collect();
                        to.observe(value, &attributes);
                    }
                });
            }
        }
    };
    let name = format!("{}{}", metrics::PREFIX, metric.name);
    // The SDK keeps the instrument; what is returned is only a name of it.
    match metric.kind {
        Kind::Counter => {
            let name = name.trim_end_matches("_total").to_string();
            let _ =
                meter.f64_observable_counter(name).with_description(metric.help).with_callback(callback("")).build();
        }
        Kind::Gauge | Kind::Summary => {
            let _ = meter
                .f64_observable_gauge(name.clone())
                .with_description(metric.help)
                .with_callback(callback(""))
                .build();
        }
    }
    if metric.kind == Kind::Summary {
        for part in ["_sum", "_count"] {
            let counter = meter.f64_observable_counter(format!("{name}{part}")).with_description(metric.help);
            let _ = counter.with_callback(callback(part)).build();
        }
    }
}

/// Makes a span of what is over, with a child for each of its parts.
fn trace(tracer: &impl Tracer<Span: Send + Sync + 'static>, job: &str, record: SpanRecord) {
    let SpanRecord { kind, subject, ended, duration, parts } = record;
    let begun = ended.checked_sub(duration).unwrap_or(ended);
    let attributes = [KeyValue::new("job", job.to_string()), KeyValue::new("subject", subject)];
    let span = tracer.span_builder(kind.name()).with_start_time(begun).with_attributes(attributes).start(tracer);
    let context = Context::new().with_span(span);
    let mut at = begun;
    for (name, took) in parts {
        let mut part = tracer.span_builder(name).with_start_time(at).start_with_context(tracer, &context);
        at += took;
        part.end_with_timestamp(at);
    }
    context.span().end_with_timestamp(ended);
}

/// Tells when the collector does not answer.
struct Telling {
    exporter: MetricExporter,
    endpoint: String,
    has_failed: AtomicBool,
    tell: Box<dyn Fn(String) + Send + Sync>,
}

impl PushMetricExporter for Telling {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let exported = self.exporter.export(metrics).await;
        match &exported {
            Err(why) if !self.has_failed.swap(true, Relaxed) => {
                (self.tell)(format!("telemetry cannot be sent to {}: {why}; the job runs on without", self.endpoint));
            }
            Ok(()) if self.has_failed.swap(false, Relaxed) => {
                (self.tell)(format!("telemetry is sent to {} again", self.endpoint));
            }
            _ => {}
        }
        exported
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
