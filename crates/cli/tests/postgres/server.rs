//! A private server: in a temporary directory, on a free port, gone when nobody uses it any more.

use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const USER: &str = "millstream";
pub const PASSWORD: &str = "a 'secret' word";

pub struct Server {
    programs: PathBuf,
    directory: TempDir,
    port: u16,
    /// Who runs it: the server refuses to be root.
    owner: Option<(u32, u32)>,
    process: Mutex<Option<Child>>,
}

/// A database of a test.
pub struct Database {
    pub server: Arc<Server>,
    pub name: String,
    client: Client,
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    /// The server of all tests that do not stop it.
    pub fn shared() -> Arc<Server> {
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let server = Server::new();
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub fn new() -> Arc<Server> {
        let server = Server::create();
        server.start();
        Arc::new(server)
    }

    /// A server with TLS. Its certificate, by its own authority, is for 127.0.0.1 and for no name. The database
    /// `secured` wants to see a certificate of the client.
    pub fn with_tls() -> Arc<Server> {
        let server = Server::create();
        let certificates = r#"
            key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365"
            for authority in ca other-ca; do
                openssl req -x509 $key -keyout $authority.key -out $authority.pem -subj "/CN=$authority of tests"
            done
            echo subjectAltName=IP:127.0.0.1 >names
            for name in server client; do
                openssl req $key -keyout $name.key -out $name.csr -subj "/CN=$name"
                openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -out $name.pem -extfile names
            done
            chmod 600 server.key
            echo "hostssl secured all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca" | cat - data/pg_hba.conf >hba
            cat hba >data/pg_hba.conf"#;
        let mut shell = server.command_in_directory("sh");
        let output = shell.args(["-e", "-c", certificates]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.start();
        Arc::new(server)
    }

    /// A directory for a server that does not run yet.
    fn create() -> Server {
        let directory = TempDir::new().unwrap();
        let owner = rustix::process::getuid().is_root().then(postgres_user);
        if let Some((user, group)) = owner {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server { programs: programs(), directory, port, owner, process: Mutex::new(None) };
        let secret = server.directory.path().join("password");
        fs::write(&secret, PASSWORD).unwrap();
        let mut initdb = server.command("initdb");
        initdb.args([
            "--username",
            USER,
            "--auth",
            "scram-sha-256",
            "--no-sync",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
        ]);
        let output = initdb.arg("--pwfile").arg(&secret).output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        server
    }

    /// A file of the server's directory: a certificate or key.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.command_in_directory(self.programs.join(program));
        command.arg("-D").arg(self.data());
        command
    }

    /// A command as the user that runs the server.
    fn command_in_directory(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    pub fn start(&self) {
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        let mut command = self.command("postgres");
        command.args(["-p", &self.port.to_string(), "-c", "fsync=off", "-c", "unix_socket_directories="]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60", "-c", "shared_buffers=16MB"]);
        if self.file("server.pem").exists() {
            let files = [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "ca.pem")];
            let settings = files.map(|(name, file)| format!("{name}={}", self.file(file).display()));
            command.args(settings.iter().flat_map(|setting| ["-c", setting])).args(["-c", "ssl=on"]);
        }
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let since = Instant::now();
        while let Err(e) = self.connect("postgres") {
            let ended = child.try_wait().unwrap();
            let patient = ended.is_none() && since.elapsed() < Duration::from_secs(60);
            assert!(patient, "the server does not start ({ended:?}): {e}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        *self.process.lock().unwrap() = Some(child);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Ends the server, with all its connections.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Ends the server at once, as a crash would: `pg_ctl stop -m immediate`.
    pub fn crash(&self) {
        self.end(Signal::QUIT);
    }

    fn end(&self, signal: Signal) {
        if let Some(mut child) = self.process.lock().unwrap().take() {
            kill_process(Pid::from_child(&child), signal).unwrap();
            child.wait().unwrap();
        }
    }

    fn connect(&self, database: &str) -> Result<Client, postgres::Error> {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.port).user(USER).password(PASSWORD).dbname(database);
        config.connect(NoTls)
    }

    /// A new database.
    pub fn database(self: &Arc<Server>, name: &str) -> Database {
        self.connect("postgres").unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Database { server: self.clone(), name: name.into(), client: self.connect(name).unwrap() }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Database {
    /// A new database of the shared server.
    pub fn new(name: &str) -> Database {
        Server::shared().database(name)
    }

    pub fn execute(&mut self, statements: &str) {
        self.client.batch_execute(statements).unwrap();
    }

    /// The rows of a query, columns as text with bars between them; `rest` begins with FROM.
    pub fn rows(&mut self, columns: &str, rest: &str) -> Vec<String> {
        let rows = self.client.query(&format!("SELECT CONCAT_WS('|', {columns}) {rest}"), &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// A number.
    pub fn number(&mut self, query: &str) -> i64 {
        self.client.query_one(query, &[]).unwrap().get(0)
    }

    pub fn reconnect(&mut self) {
        self.client = self.server.connect(&self.name).unwrap();
    }

    pub fn client(&self) -> Client {
        self.server.connect(&self.name).unwrap()
    }

    pub fn url(&self) -> String {
        format!("jdbc:postgresql://127.0.0.1:{}/{}", self.server.port, self.name)
    }

    /// The options of a table.
    pub fn options(&self, table: &str) -> Vec<(String, String)> {
        let options = [
            ("connector", "jdbc"),
            ("url", &self.url()),
            ("table-name", table),
            ("username", USER),
            ("password", PASSWORD),
            ("connection.max-retry-timeout", "30s"),
        ];
        options.map(|(key, value)| (key.to_string(), value.to_string())).to_vec()
    }

    /// The options as SQL has them.
    pub fn with(&self, table: &str) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let options = self.options(table).into_iter().map(|(k, v)| format!("{} = {}", quoted(&k), quoted(&v)));
        format!("WITH ({})", options.collect::<Vec<_>>().join(", "))
    }
}

/// Where the server's programs are.
fn programs() -> PathBuf {
    let all = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = all.map(|entry| entry.path().join("bin")).collect();
    versions.extend(std::env::var_os("MILLSTREAM_POSTGRES_BIN").map(PathBuf::from));
    versions.retain(|path| path.join("initdb").exists());
    versions.sort_by_key(|path| number_in(path));
    versions.pop().expect("PostgreSQL is installed: run scripts/postgres.sh, or set MILLSTREAM_POSTGRES_BIN")
}

/// The version in a path; the highest if it has none.
fn number_in(path: &Path) -> u64 {
    path.components().find_map(|part| part.as_os_str().to_str()?.parse().ok()).unwrap_or(u64::MAX)
}

/// User and group of Debian's package.
fn postgres_user() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == "postgres");
    let fields = fields.expect("there is a user 'postgres': run scripts/postgres.sh");
    (fields[2].parse().unwrap(), fields[3].parse().unwrap())
}
