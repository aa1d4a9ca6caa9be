//! `properties.*`: the properties of Kafka's clients in Java, as far as librdkafka has the same, and librdkafka's own.

use crate::option_table::option_fault;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

/// What a property of Java's clients becomes.
enum Translation {
    /// The same under another name.
    Name(&'static str),
    /// A number of bytes that librdkafka wants in KiB.
    Kilobytes(&'static str),
    /// It has no meaning here and does no harm.
    Ignored,
    /// It cannot be obeyed; what to do instead.
    Refused(&'static str),
}

const PEM: &str = "librdkafka reads PEM files: give 'properties.ssl.ca.location' (keytool -exportcert -rfc makes one of a \
    truststore), 'properties.ssl.certificate.location' and 'properties.ssl.key.location'; or a PKCS12 keystore with \
    'properties.ssl.keystore.location'";
const CLASS: &str = "it names a class of Java; remove it";

/// Properties that are named or meant otherwise in Java.
const TRANSLATIONS: &[(&str, Translation)] = &[
    ("max.request.size", Translation::Name("message.max.bytes")),
    ("fetch.max.wait.ms", Translation::Name("fetch.wait.max.ms")),
    ("send.buffer.bytes", Translation::Name("socket.send.buffer.bytes")),
    ("receive.buffer.bytes", Translation::Name("socket.receive.buffer.bytes")),
    ("buffer.memory", Translation::Kilobytes("queue.buffering.max.kbytes")),
    ("max.poll.records", Translation::Ignored),
    ("default.api.timeout.ms", Translation::Ignored),
    ("max.block.ms", Translation::Ignored),
    ("key.serializer", Translation::Ignored),
    ("value.serializer", Translation::Ignored),
    ("key.deserializer", Translation::Ignored),
    ("value.deserializer", Translation::Ignored),
    ("ssl.truststore.location", Translation::Refused(PEM)),
    ("ssl.truststore.password", Translation::Refused(PEM)),
    ("ssl.truststore.type", Translation::Refused(PEM)),
    ("ssl.keystore.type", Translation::Refused(PEM)),
    ("interceptor.classes", Translation::Refused(CLASS)),
    ("metric.reporters", Translation::Refused(CLASS)),
    ("partitioner.class", Translation::Refused("use 'sink.partitioner'")),
    ("partition.assignment.strategy", Translation::Refused("partitions are assigned without a group; remove it")),
    ("sasl.login.callback.handler.class", Translation::Refused(CLASS)),
    ("sasl.client.callback.handler.class", Translation::Refused(CLASS)),
    ("transactional.id", Translation::Refused("use 'sink.transactional-id-prefix'")),
    ("enable.auto.offset.store", Translation::Refused("offsets are committed with checkpoints; remove it")),
    ("enable.partition.eof", Translation::Refused("use 'scan.bounded.mode'; remove it")),
];

/// Properties that the connector obeys itself.
const OWN: &[&str] = &["auto.offset.reset", "enable.auto.commit", "auto.commit.interval.ms"];

/// The settings of a client, by the options of a table.
pub(super) fn client_config(options: &Options) -> Result<ClientConfig, Diagnostic> {
    options.require("properties.bootstrap.servers")?;
    let mut config = ClientConfig::new();
    // What is said of connections that were closed is on this level.
    config.set_log_level(RDKafkaLogLevel::Info);
    config.set("client.id", "millstream");
    for (key, value) in options.iter() {
        let Some(name) = key.strip_prefix("properties.") else { continue };
        if name == "sasl.jaas.config" {
            let (user, password) = jaas(value).ok_or_else(|| unknown_jaas(key))?;
            config.set("sasl.username", user);
            config.set("sasl.password", password);
            continue;
        }
        if OWN.contains(&name) {
            continue;
        }
        match TRANSLATIONS.iter().find(|(java, _)| *java == name).map(|(_, translation)| translation) {
            None => config.set(name, value_of(name, value)),
            Some(Translation::Name(ours)) => config.set(*ours, value),
            Some(Translation::Kilobytes(ours)) => {
                let bytes: u64 = value.trim().parse().map_err(|_| options.invalid(key, "a number of bytes"))?;
                config.set(*ours, (bytes >> 10).max(1).to_string())
            }
            Some(Translation::Ignored) => &mut config,
            Some(Translation::Refused(advice)) => {
                let message = format!("the property '{name}' of Kafka's clients in Java cannot be used");
                return Err(option_fault(code::INVALID_OPTION, key, message, *advice));
            }
        };
    }
    // OpenSSL inside the program looks where its builder kept authorities. librdkafka knows where systems keep them, but then does not look
    // at OpenSSL's own variables.
    if cfg!(feature = "static-libraries")
        && config.get("ssl.ca.pem").is_none()
        && ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().all(|name| std::env::var_os(name).is_none())
    {
        default(&mut config, "ssl.ca.location", "probe");
    }
    Ok(config)
}

/// The value as librdkafka writes it.
fn value_of(name: &str, value: &str) -> String {
    match name {
        "security.protocol" => value.to_ascii_lowercase(),
        // An empty algorithm is how Java's clients are told not to look at the host's name.
        "ssl.endpoint.identification.algorithm" if value.is_empty() => "none".into(),
        "auto.offset.reset" | "isolation.level" => value.to_ascii_lowercase(),
        _ => value.to_string(),
    }
}

/// User and password of `sasl.jaas.config`, if it has them: `….PlainLoginModule required username="u" password="p";`, or
/// the module of SCRAM.
fn jaas(text: &str) -> Option<(String, String)> {
    let module = text.split_whitespace().next()?;
    if !module.ends_with(".PlainLoginModule") && !module.ends_with(".ScramLoginModule") {
        return None;
    }
    Some((jaas_value(text, "username")?, jaas_value(text, "password")?))
}

fn jaas_value(text: &str, key: &str) -> Option<String> {
    let at = text.match_indices(key).map(|(at, _)| at).find(|at| {
        text[..*at].ends_with(char::is_whitespace) && text[at + key.len()..].trim_start().starts_with('=')
    })?;
    let rest = text[at + key.len()..].trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut value = String::new();
    let mut characters = rest[1..].chars();
    loop {
        match characters.next()? {
            '\\' => value.push(characters.next()?),
            c if c == quote => return Some(value),
            c => value.push(c),
        }
    }
}

fn unknown_jaas(key: &str) -> Diagnostic {
    let message = "the login module is not one of PLAIN or SCRAM with username and password";
    let advice = "give 'properties.sasl.mechanism' with 'properties.sasl.username' and 'properties.sasl.password', or the \
        properties of librdkafka for OAUTHBEARER ('properties.sasl.oauthbearer.…')";
    option_fault(code::INVALID_OPTION, key, message, advice)
}

/// Sets a property unless the table's options have.
pub(super) fn default(config: &mut ClientConfig, name: &str, value: &str) {
    if config.get(name).is_none() {
        config.set(name, value);
    }
}

/// The error for settings that librdkafka does not take.
pub(super) fn refused(error: &KafkaError) -> Diagnostic {
    match error {
        KafkaError::ClientConfig(kind, description, key, value) => {
            // What a misspelt property stands for is not known: its value may be a secret.
            let message = match kind {
                RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN => format!("librdkafka has no property '{key}'"),
                _ => format!("librdkafka does not take the property '{key}' with the value '{value}': {description}"),
            };
            let advice = "see the list of properties of librdkafka (CONFIGURATION.md)";
            option_fault(code::INVALID_OPTION, &format!("properties.{key}"), message, advice)
        }
        error => Diagnostic::new(code::INVALID_OPTION, format!("no client of Kafka can be made: {error}"))
            .advise("see the table's options 'properties.*'"),
    }
}
