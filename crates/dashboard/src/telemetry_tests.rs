use super::*;
use crate::jobs::{Action, JobView, Mode, Refused};
use millstream::{RunMonitor, Session, SessionConfig};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::metrics::v1::{Metric as SentMetric, metric::Data, number_data_point::Value};
use opentelemetry_proto::tonic::trace::v1::Span as SentSpan;
use std::net::SocketAddr;
use tonic::{Request, Response, Status};

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector {
    metrics: Arc<Mutex<Vec<SentMetric>>>,
    spans: Arc<Mutex<Vec<SentSpan>>>,
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let scopes = request.into_inner().resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
        self.metrics.lock().unwrap().extend(scopes.flat_map(|scope| scope.metrics));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|of| of.scope_spans);
        self.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// One job.
struct One(Arc<RunMonitor>);

impl Jobs for One {
    fn mode(&self) -> Mode {
        Mode::Run
    }

    fn views(&self) -> Vec<JobView> {
        vec![JobView { monitor: Some(Arc::clone(&self.0)), ..JobView::running("counts") }]
    }

    fn act(&self, _: &str, _: Action) -> Result<String, Refused> {
        unreachable!("nobody asks")
    }

    fn audit(&self, _: &str) {}
}

/// The collector, served until the runtime is dropped.
fn serve(runtime: &tokio::runtime::Runtime) -> (SocketAddr, Collector) {
    let collector = Collector::default();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = tonic::transport::Server::builder()
        .add_service(MetricsServiceServer::new(collector.clone()))
        .add_service(TraceServiceServer::new(collector.clone()));
    runtime.spawn(server.serve(address));
    (address, collector)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn metrics_and_spans_come_to_a_collector() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (address, collector) = serve(&runtime);
    let mut session = Session::new(SessionConfig::default());
    for sql in [
        &format!("SET 'execution.checkpointing.dir' = '{}'", folder.path().display()),
        "SET 'execution.checkpointing.interval' = '100 ms'",
        "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
         'rows-per-second' = '5000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000')",
        "CREATE TABLE counts (w TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole')",
    ] {
        session.run(sql).unwrap();
    }
    let insert = "INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
         GROUP BY window_start, window_end";
    let statement = session.parse(insert).unwrap().remove(0);
    let run = session.prepare(&statement).unwrap();
    let monitor = run.monitor();
    let job = run.submit().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let telemetry = Telemetry::start(
        &format!("http://{address}"),
        Duration::from_millis(100),
        Arc::new(One(Arc::clone(&monitor))),
        move |what| tell.lock().unwrap().push(what),
    )
    .unwrap();
    let has_metric = |name: &str| collector.metrics.lock().unwrap().iter().any(|metric| metric.name == name);
    until("rows, and the times of checkpoints", || {
        has_metric("millstream_rows_in") && has_metric("millstream_checkpoint_duration_seconds_count")
    });
    until("checkpoints are complete", || {
        monitor.stats().is_some_and(|stats| stats.counters().checkpoints.complete > 10)
    });
    monitor.cancel().stop();
    let _ = job.wait();
    drop(telemetry);
    let metrics = collector.metrics.lock().unwrap().clone();
    let rows = metrics.iter().rev().find(|metric| metric.name == "millstream_rows_in").unwrap();
    let Some(Data::Sum(sum)) = &rows.data else { panic!("it is a counter: {rows:?}") };
    assert!(sum.is_monotonic && matches!(sum.data_points[0].value, Some(Value::AsDouble(rows)) if rows > 0.0));
    assert!(sum.data_points[0].attributes.iter().any(|attribute| attribute.key == "job"));
    let state = metrics.iter().find(|metric| metric.name == "millstream_memory_class_bytes").unwrap();
    assert!(matches!(&state.data, Some(Data::Gauge(gauge)) if gauge.data_points.len() > 3));
    let spans = collector.spans.lock().unwrap().clone();
    let checkpoint = spans.iter().find(|span| span.name == "checkpoint").unwrap();
    let parts: Vec<&SentSpan> = spans.iter().filter(|span| span.parent_span_id == checkpoint.span_id).collect();
    assert_eq!(parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["cut", "write", "commit"]);
    assert!(parts.iter().all(
        |part| part.trace_id == checkpoint.trace_id && part.start_time_unix_nano >= checkpoint.start_time_unix_nano
    ));
    assert!(spans.iter().any(|span| span.name == "trigger" && span.end_time_unix_nano > span.start_time_unix_nano));
    assert_eq!(*told.lock().unwrap(), [""; 0]);
}

#[test]
fn a_collector_that_is_not_there_is_told_of_once() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let told = Arc::new(Mutex::new(Vec::<String>::new()));
    let tell = Arc::clone(&told);
    let jobs = Arc::new(One(Arc::new(RunMonitor::new())));
    let telemetry = Telemetry::start(&format!("http://{free}"), Duration::from_millis(20), jobs.clone(), move |what| {
        tell.lock().unwrap().push(what);
    })
    .unwrap();
    until("it is told", || !told.lock().unwrap().is_empty());
    drop(telemetry);
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains(&free.to_string()) && told[0].contains("runs on without"), "{told:?}");
    for wrong in ["127.0.0.1:4317", "", "http://"] {
        let error = Telemetry::start(wrong, Duration::from_secs(1), jobs.clone(), |_| ()).map(drop);
        assert!(error.is_err_and(|error| error.to_string().contains("--otlp")), "{wrong}");
    }
}
