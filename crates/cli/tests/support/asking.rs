//! The REST interface of a command that runs with `--http`.

use crate::watching::{Watching, eventually, status_and_body};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The answer to an action, as a program asks for it.
pub fn post(job: &Watching, path: &str, body: &str) -> (u16, String) {
    let stream = TcpStream::connect(&job.address);
    let mut stream = stream.unwrap_or_else(|e| panic!("{e}: it has ended\n{}", job.log()));
    let (address, length) = (&job.address, body.len());
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nX-Millstream-Action: 1\r\nContent-Length: {length}");
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    status_and_body(&answer)
}

/// Until the answer to a path is as it should be; that.
pub fn answers(job: &Watching, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let answer = || serde_json::from_str::<Value>(&job.get(path).1).ok();
    let what = || format!("{path} is {:#}\n{}", answer().unwrap_or_default(), job.log());
    eventually(&what, || answer().filter(&is_so))
}
