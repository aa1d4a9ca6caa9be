use super::*;
use crate::guard::Access;
use crate::jobs::{Action, JobView, Mode, Refused, ScriptRefused, Scripts};
use crate::routes::ROUTES;
use millstream::RunMonitor;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};

/// One job, what was asked of it, and what was written down of that.
#[derive(Default)]
struct Asked(Mutex<Vec<Action>>, Mutex<Vec<String>>, Option<Taken>);

/// Scripts that have come, by name with their text; `None`: one was removed.
#[derive(Default)]
struct Taken(Mutex<Vec<(String, Option<String>)>>);

impl Scripts for Taken {
    fn submit(&self, name: &str, sql: &str) -> Result<String, ScriptRefused> {
        let error = |code, message: &str| Diagnostic::new(code, message);
        match name {
            "broken" => {
                let place = millstream::Place::Sql { line: 7, column: 22, length: 1 };
                return Err(ScriptRefused::Text(error(code::SYNTAX, "what is it").at(place).advise("look")));
            }
            "full" => return Err(ScriptRefused::File(error(code::WRITE_FAILED, "no room"))),
            _ => {}
        }
        self.0.lock().unwrap().push((name.into(), Some(sql.into())));
        Ok("taken".into())
    }

    fn remove(&self, name: &str) -> Result<String, ScriptRefused> {
        let error = |message: &str| Diagnostic::new(code::USAGE, message);
        match name {
            "nothing" => return Err(ScriptRefused::Missing(error("there is none"))),
            "../up" => return Err(ScriptRefused::Name(error("no name"))),
            _ => {}
        }
        self.0.lock().unwrap().push((name.into(), None));
        Ok("removed".into())
    }
}

impl Jobs for Asked {
    fn mode(&self) -> Mode {
        if self.2.is_some() { Mode::Serve } else { Mode::Run }
    }

    fn scripts(&self) -> Option<&dyn Scripts> {
        self.2.as_ref().map(|taken| taken as &dyn Scripts)
    }

    fn views(&self) -> Vec<JobView> {
        vec![JobView {
            monitor: Some(Arc::new(RunMonitor::new())),
            statement: "INSERT INTO b SELECT 1".into(),
            ..JobView::running("a <b>")
        }]
    }

    fn act(&self, job: &str, action: Action) -> Result<String, Refused> {
        assert_eq!(job, "a <b>");
        self.0.lock().unwrap().push(action);
        match action {
            Action::Stop => Err(Refused { message: "not now".into(), advice: Some("later".into()) }),
            _ => Ok("done".into()),
        }
    }

    fn audit(&self, line: &str) {
        self.1.lock().unwrap().push(line.into());
    }
}

/// Sends a request as it is; status, and the rest of the answer.
fn exchange(mut stream: impl Read + Write, request: impl AsRef<[u8]>) -> (u16, String) {
    stream.write_all(request.as_ref()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    // One that ends without a farewell, as TLS may, has said all the same what it has to.
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String) {
    let host = if headers.to_lowercase().contains("host:") { String::new() } else { format!("Host: {address}\r\n") };
    let request = format!("{} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n", method.to_uppercase());
    exchange(TcpStream::connect(("127.0.0.1", address.port())).unwrap(), &request)
}

fn start(config: &ServerConfig) -> (Server, Arc<Asked>) {
    let jobs = Arc::<Asked>::default();
    (Server::start(config, Arc::clone(&jobs) as Arc<dyn Jobs>).unwrap(), jobs)
}

fn at(address: &str) -> ServerConfig {
    ServerConfig { address: address.into(), ..ServerConfig::default() }
}

/// The path of a route for the job that there is.
fn path(route: &str) -> String {
    route.replace("{job}", "a%20%3Cb%3E").replace("{name}", "new")
}

#[test]
fn each_route_refuses_who_must_not_use_it() {
    let (here, asked) = start(&at("0"));
    let (everywhere, asked_everywhere) = start(&at("0.0.0.0:0"));
    assert!(here.has_dashboard && !everywhere.has_dashboard);
    for route in ROUTES {
        let path = path(route.path);
        let names = format!("{} {path}", route.method);
        // Under a name that somebody else has made this machine's, or under two.
        for host in [
            "Host: evil.example\r\n",
            "Host: 127.0.0.1.evil.example\r\n",
            "Host: localhost\r\nHost: evil.example\r\n",
            "Host: 0.0.0.0\r\n",
        ] {
            let (status, _) = ask(here.address, route.method, &path, &format!("{host}X-Millstream-Action: 1\r\n"));
            assert!([400, 421].contains(&status), "{names} as {host}: {status}");
        }
        // From elsewhere there are metrics and probes.
        let (status, _) = ask(everywhere.address, route.method, &path, "X-Millstream-Action: 1\r\n");
        assert_eq!(status == 403, route.access != Access::Open, "{names}: {status}");
        // What changes a job is not asked for by pages of others.
        if [Access::Act, Access::Submit].contains(&route.access) {
            for headers in [
                "",
                "X-Millstream-Action: 1\r\nOrigin: http://evil.example\r\n",
                "X-Millstream-Action: 1\r\nOrigin: null\r\n",
                "X-Millstream-Action: 1\r\nSec-Fetch-Site: cross-site\r\n",
                "X-Millstream-Action: 1\r\nSec-Fetch-Site: same-site\r\n",
            ] {
                let (status, _) = ask(here.address, route.method, &path, headers);
                assert_eq!(status, 403, "{names} with {headers}");
            }
            let (status, _) = ask(here.address, "get", &path, "X-Millstream-Action: 1\r\n");
            let refused = if route.access == Access::Act { 405 } else { 403 };
            assert_eq!(status, refused, "{names} by GET");
        }
        // Scripts are for a service that takes them, whatever comes along.
        if route.access == Access::Submit {
            let (status, answer) = ask(here.address, route.method, &path, "X-Millstream-Action: 1\r\n");
            assert!(status == 403 && answer.contains("--allow-submit"), "{names}: {answer}");
        }
    }
    assert!(asked.0.lock().unwrap().is_empty() && asked_everywhere.0.lock().unwrap().is_empty());
}

#[test]
fn actions_are_asked_of_the_job() {
    let (server, asked) = start(&at("0"));
    let ask = |path: &str, headers: &str, body: &str| {
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nX-Millstream-Action: 1\r\nOrigin: http://{}\r\n{headers}Connection: close\r\n\r\n{body}",
            path, server.address, server.address
        );
        exchange(TcpStream::connect(server.address).unwrap(), &request)
    };
    let job = path("/api/v1/jobs/{job}");
    let (status, answer) = ask(&format!("{job}/checkpoint"), "", "");
    assert!(status == 202 && answer.ends_with("{\"message\":\"done\"}"), "{answer}");
    let (status, answer) = ask(&format!("{job}/stop"), "", "");
    assert!(status == 409 && answer.contains("not now") && answer.contains("later"), "{answer}");
    let of_length = |body: &str| format!("Content-Length: {}\r\n", body.len());
    for body in ["{\"nodes\": 3}", "{\"nodes\":null}", "{}"] {
        assert_eq!(ask(&format!("{job}/rescale"), &of_length(body), body).0, 202, "{body}");
    }
    for body in ["{\"nodes\": 0}", "{\"nodes\": -1}", "{\"sql\": \"INSERT\"}", "", "[", "\u{feff}"] {
        let (status, answer) = ask(&format!("{job}/rescale"), &of_length(body), body);
        assert!(status == 400 && answer.contains("send {"), "{body}: {answer}");
    }
    assert_eq!(ask(&format!("{job}/rescale"), "Content-Length: 10000000000\r\n", "{").0, 413);
    let huge = "x".repeat(100_000);
    assert_eq!(ask(&format!("{job}/rescale"), &of_length(&huge), &huge).0, 413);
    assert_eq!(ask("/api/v1/jobs/other/stop", "", "").0, 404);
    let nodes = |nodes: usize| Action::Rescale(std::num::NonZeroUsize::new(nodes));
    assert_eq!(*asked.0.lock().unwrap(), [Action::Checkpoint, Action::Stop, nodes(3), nodes(0), nodes(0)]);
    let audited = asked.1.lock().unwrap();
    assert_eq!(audited.len(), 5);
    assert!(
        audited[0].starts_with("HTTP request of 127.0.0.1:")
            && audited[0].ends_with("checkpoint of job \"a <b>\": done")
    );
    assert!(audited[1].ends_with("stop of job \"a <b>\": refused: not now"), "{audited:?}");
}

/// A server that takes scripts, and one that does not, both with a token.
fn scripted() -> (Server, Server, Arc<Asked>) {
    let config = ServerConfig { token: Some("0123456789abcdef".into()), ..at("0") };
    let takes = Arc::new(Asked(Mutex::default(), Mutex::default(), Some(Taken::default())));
    let server = Server::start(&config, Arc::clone(&takes) as Arc<dyn Jobs>).unwrap();
    (server, start(&config).0, takes)
}

const TOKEN: &str = "Authorization: Bearer 0123456789abcdef\r\n";

#[test]
fn scripts_need_the_token_on_this_machine_too() {
    let (server, without, asked) = scripted();
    let routes = || ROUTES.iter().filter(|route| route.access == Access::Submit);
    assert_eq!(routes().count(), 2);
    for route in routes() {
        let (path, names) = (path(route.path), format!("{} {}", route.method, route.path));
        for (headers, status) in [
            (String::new(), 401),
            ("X-Millstream-Action: 1\r\n".into(), 401),
            ("X-Millstream-Action: 1\r\nAuthorization: Bearer 0123456789abcdeF\r\n".into(), 401),
            (TOKEN.into(), 403),
            (format!("{TOKEN}X-Millstream-Action: 1\r\nOrigin: http://evil.example\r\n"), 403),
            (format!("{TOKEN}X-Millstream-Action: 1\r\nSec-Fetch-Site: cross-site\r\n"), 403),
        ] {
            let (given, answer) = ask(server.address, route.method, &path, &headers);
            assert_eq!(given, status, "{names} with {headers}: {answer}");
        }
        let allowed = format!("{TOKEN}X-Millstream-Action: 1\r\n");
        let (status, answer) = ask(without.address, route.method, &path, &allowed);
        assert!(status == 403 && answer.contains("takes no scripts"), "{names}: {answer}");
    }
    assert!(asked.1.lock().unwrap().is_empty() && asked.2.as_ref().unwrap().0.lock().unwrap().is_empty());
    // Without a token there is no such server.
    for address in ["0", "0.0.0.0:0"] {
        let takes = Asked(Mutex::default(), Mutex::default(), Some(Taken::default()));
        let error = Server::start(&at(address), Arc::new(takes) as Arc<dyn Jobs>).unwrap_err().to_string();
        assert!(error.contains("MS1006") && error.contains("--allow-submit without a token"), "{error}");
    }
}

#[test]
fn scripts_are_texts_of_bounded_size_and_are_not_written_down() {
    let (server, _without, asked) = scripted();
    let send = |method: &str, name: &str, kind: &str, body: &[u8]| {
        let head = format!(
            "{method} /api/v1/scripts/{name} HTTP/1.1\r\nHost: x\r\n{TOKEN}X-Millstream-Action: 1\r\n{kind}Content-Length: {}\r\nConnection: \
             close\r\n\r\n",
            body.len()
        );
        exchange(TcpStream::connect(server.address).unwrap(), [head.as_bytes(), body].concat())
    };
    let kind = "Content-Type: application/sql\r\n";
    let sql = "INSERT INTO b SELECT 'hunter2'";
    let full = "-".repeat(1 << 20);
    for (kind, sql) in [(kind, sql), ("Content-Type: text/plain; charset=utf-8\r\n", "ü"), (kind, &full)] {
        let (status, answer) = send("PUT", "a%20%3Cb%3E", kind, sql.as_bytes());
        assert!(status == 202 && answer.ends_with("{\"message\":\"taken\"}"), "{answer}");
    }
    for (kind, body, refused) in [
        ("", sql.as_bytes(), 415),
        ("Content-Type: application/json\r\n", sql.as_bytes(), 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n", sql.as_bytes(), 415),
        (kind, &[0xff, 0xfe], 400),
        (kind, &vec![b'-'; (1 << 20) + 1], 413),
        (kind, &vec![b'-'; 2 << 20], 413),
    ] {
        let (status, answer) = send("PUT", "big", kind, body);
        assert_eq!(status, refused, "{kind}: {answer}");
    }
    let (status, answer) = send("PUT", "broken", kind, sql.as_bytes());
    let error = r#"{"error":{"code":"MS2001","message":"what is it (line 7, column 22)","advice":"look"}}"#;
    assert!(status == 422 && answer.trim_end().ends_with(error), "{answer}");
    assert_eq!(send("PUT", "full", kind, b"").0, 500);
    assert_eq!(send("DELETE", "nothing", "", b"").0, 404);
    assert_eq!(send("DELETE", "..%2Fup", "", b"").0, 400);
    assert_eq!(send("DELETE", "old", "", b"").0, 202);
    let names: Vec<(String, usize)> = {
        let taken = asked.2.as_ref().unwrap().0.lock().unwrap();
        taken.iter().map(|(name, sql)| (name.clone(), sql.as_ref().map_or(0, String::len))).collect()
    };
    let script = |bytes| ("a <b>".to_string(), bytes);
    assert_eq!(names, [script(sql.len()), script(2), script(1 << 20), ("old".into(), 0)]);
    let audited = asked.1.lock().unwrap();
    assert_eq!(audited.len(), 14, "{audited:?}");
    assert!(audited[0].starts_with("HTTP request of 127.0.0.1:"), "{audited:?}");
    assert!(audited[0].ends_with("submit script \"a <b>\": taken"), "{audited:?}");
    assert!(audited[3].ends_with("submit script \"big\": refused: 415"), "{audited:?}");
    assert!(audited[9].ends_with("submit script \"broken\": refused: MS2001"), "{audited:?}");
    assert!(audited[13].ends_with("remove script \"old\": removed"), "{audited:?}");
    assert!(!audited.iter().any(|line| line.contains("hunter2") || line.contains("what is it")), "{audited:?}");
}

#[test]
fn answers_are_guarded_and_paths_stay_within() {
    let (server, _) = start(&at("0"));
    for path in ["/", "/api/v1", "/api/v1/jobs", "/nowhere", "/metrics", "/jobs.html"] {
        let (_, answer) = ask(server.address, "get", path, "");
        for header in
            ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "x-frame-options: DENY"]
        {
            assert!(answer.contains(header), "{path}: {answer}");
        }
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{path}: {answer}");
    }
    let (_, page) = ask(server.address, "get", "/jobs.html", "");
    assert!(page.contains("<th scope=\"row\">a &lt;b&gt;</th>") && !page.contains("<b>"), "{page}");
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/app.js/../../Cargo.toml",
        "/api/v1/jobs/..%2F..%2Fetc",
        "//etc/passwd",
    ] {
        let (status, answer) = ask(server.address, "get", path, "");
        assert!([400, 404].contains(&status) && !answer.contains("root:"), "{path}: {answer}");
    }
    // The head of a request is bounded.
    let (status, _) = ask(server.address, "get", "/health", &format!("X-Long: {}\r\n", "x".repeat(200_000)));
    assert!([0, 431].contains(&status), "{status}");
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    let (status, answer) = ask(server.address, "options", &path("/api/v1/jobs/{job}/stop"), preflight);
    assert!([403, 405].contains(&status) && !answer.contains("access-control"), "{answer}");
}

#[test]
fn a_server_of_a_name_answers_to_it() {
    let (server, _) = start(&ServerConfig { names: vec!["dash.example".into()], ..at("0") });
    assert_eq!(ask(server.address, "get", "/api/v1", "Host: dash.example\r\n").0, 200);
    assert_eq!(ask(server.address, "get", "/api/v1", "Host: evil.example\r\n").0, 421);
}

#[test]
fn others_need_the_token_under_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let files = Certificate { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
    std::fs::write(&files.certificate, certified.cert.pem()).unwrap();
    std::fs::write(&files.key, certified.signing_key.serialize_pem()).unwrap();
    let token = "0123456789abcdef";
    let config = ServerConfig { token: Some(token.into()), certificate: Some(files.clone()), ..at("0.0.0.0:0") };
    let (server, asked) = start(&config);
    assert_eq!((server.scheme, server.has_dashboard), ("https", true));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.certificate).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let client =
        client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let client = Arc::new(client);
    let ask = |method: &str, path: &str, headers: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", server.address.port())).unwrap();
        let request = format!(
            "{} {path} HTTP/1.1\r\nHost: whatever\r\n{headers}Connection: close\r\n\r\n",
            method.to_uppercase()
        );
        exchange(StreamOwned::new(connection, socket), &request)
    };
    for route in ROUTES {
        let path = path(route.path);
        for headers in
            ["", "Authorization: Bearer wrong\r\n", "Authorization: Bearer \r\n", "Authorization: Basic MDEyMzQ=\r\n"]
        {
            let (status, answer) = ask(route.method, &path, &format!("{headers}X-Millstream-Action: 1\r\n"));
            let is_free = [Access::Open, Access::Page].contains(&route.access);
            assert_eq!(status == 401, !is_free, "{path} with {headers}: {answer}");
        }
    }
    assert!(asked.0.lock().unwrap().is_empty());
    let authorised = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(ask("get", "/api/v1/jobs", &authorised).0, 200);
    assert_eq!(
        ask("post", &path("/api/v1/jobs/{job}/checkpoint"), &authorised).0,
        403,
        "also without a cookie there is a header"
    );
    let acting = format!("{authorised}X-Millstream-Action: 1\r\n");
    assert_eq!(ask("post", &path("/api/v1/jobs/{job}/checkpoint"), &acting).0, 202);
    // Without TLS there is no answer.
    let plain = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_ne!(exchange(TcpStream::connect(("127.0.0.1", server.address.port())).unwrap(), plain).0, 200);
}

#[test]
fn what_is_incomplete_or_unusable_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let token = Some("0123456789abcdef".to_string());
    let files =
        |certificate: &std::path::Path| Some(Certificate { certificate: certificate.into(), key: empty.clone() });
    let refused = |config: ServerConfig| {
        let started = Server::start(&config, Arc::<Asked>::default() as Arc<dyn Jobs>);
        started.map(drop).unwrap_err().to_string()
    };
    for (config, what) in [
        (ServerConfig { token: token.clone(), ..at("0.0.0.0:0") }, "without TLS"),
        (ServerConfig { certificate: files(&empty), ..at("0.0.0.0:0") }, "without a token"),
        (ServerConfig { token: Some("short".into()), ..at("0") }, "too short"),
        (ServerConfig { token: token.clone(), certificate: files(&empty), ..at("0.0.0.0:0") }, "no certificate"),
        (
            ServerConfig { token, certificate: files(std::path::Path::new("/nowhere.pem")), ..at("0.0.0.0:0") },
            "nowhere.pem",
        ),
        (at("no such host:1"), "give a port"),
        (at("x"), "give a port"),
    ] {
        let error = refused(config);
        assert!(error.contains(what) && !error.contains("0123456789abcdef"), "{what}: {error}");
    }
}

#[test]
fn clients_that_are_silent_keep_nobody_out() {
    let (server, _) = start(&at("0"));
    let silent: Vec<TcpStream> =
        (0..MOST_CONNECTIONS + 50).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    drop(silent);
    let since = std::time::Instant::now();
    // Their connections are given back as soon as it is seen that they have gone.
    let is_served = || {
        TcpStream::connect(server.address).is_ok_and(|stream| {
            let request = format!("GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange(stream, &request).0))
                .is_ok_and(|s| s == 200)
        })
    };
    while !is_served() {
        assert!(since.elapsed() < Duration::from_secs(30), "it answers nobody");
    }
}

#[test]
fn clients_that_do_not_read_lose_their_places() {
    let (server, _) = start(&at("0"));
    let request = format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).repeat(400);
    let mut deaf: Vec<TcpStream> = (0..MOST_OF_ADDRESS).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut deaf {
        stream.set_nonblocking(true).unwrap();
        // As much as goes in: the answers to it fill what there is between the two.
        let _ = stream.write_all(request.as_bytes());
    }
    let since = std::time::Instant::now();
    let health = format!("GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    let is_served = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let mut answer = String::new();
        stream.write_all(health.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.ends_with("ok\n")
    };
    while !is_served() {
        assert!(since.elapsed() < 4 * PATIENCE, "it answers nobody");
    }
    drop(deaf);
}

#[test]
fn the_description_has_every_route() {
    let description: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
    let described = description["paths"].as_object().unwrap();
    let mut listed: Vec<(String, String)> = Vec::new();
    for (path, methods) in described {
        listed.extend(
            methods
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "parameters")
                .map(|method| (path.clone(), method.clone())),
        );
    }
    let mut routes: Vec<(String, String)> = ROUTES
        .iter()
        .filter(|route| route.access != Access::Page || route.path.contains("api"))
        .map(|r| (r.path.to_string(), r.method.to_string()))
        .collect();
    routes.retain(|(path, _)| path != "/jobs.html");
    listed.sort();
    routes.sort();
    assert_eq!(listed, routes);
}
