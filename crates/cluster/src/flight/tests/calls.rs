//! Calls: answers, diagnostics, tokens.

use super::*;
use millstream_types::Place;

struct Echo;

impl Control for Echo {
    fn handle(&self, action: &str, body: Bytes) -> Result<Bytes, Diagnostic> {
        match action {
            "echo" => Ok(body),
            "fail" => {
                let why = Diagnostic::new(code::UNKNOWN_TABLE, "there is no table \"t\"").advise("create it");
                Err(why.at(Place::Sql { line: 2, column: 3, length: 1 }))
            }
            _ => panic!("not even this harms anybody"),
        }
    }
}

fn echo() -> Listener {
    Listener::bind(ListenConfig { control: Some(Arc::new(Echo)), ..listen_config(None) }).unwrap()
}

#[test]
fn calls_are_answered() {
    let listener = echo();
    let address = listener.address().to_string();
    let caller = Caller::new(token(), None, false).unwrap();
    let call = |action: &str, body: &[u8]| caller.call(&address, action, Bytes::copy_from_slice(body), PATIENCE);
    assert_eq!(call("echo", b"{}").unwrap(), Bytes::from_static(b"{}"));
    let large = vec![b'x'; 3 << 20];
    assert_eq!(call("echo", &large).unwrap(), large);
    assert_eq!(call("echo", &vec![0; CONTROL_LIMIT + 1]).unwrap_err().code, code::BUG);
    let why = call("fail", b"").unwrap_err();
    assert_eq!(why.to_string(), Echo.handle("fail", Bytes::new()).unwrap_err().to_string());
    assert_eq!(call("panic", b"").unwrap_err().code, code::BUG);
    assert_eq!(listener.call(&token(), &address, "echo", Bytes::new(), PATIENCE).unwrap(), Bytes::new());
}

#[test]
fn who_has_another_token_is_not_answered() {
    let listener = echo();
    let stranger = Caller::new(Token::random().unwrap(), None, false).unwrap();
    let why = stranger.call(&listener.address().to_string(), "echo", Bytes::new(), PATIENCE).unwrap_err();
    assert_eq!(why.code, code::WRONG_TOKEN);
    let caller = Caller::new(token(), None, false).unwrap();
    assert!(!format!("{caller:?}").contains(TOKEN));
}

#[test]
fn nobody_answers() {
    let caller = Caller::new(token(), None, false).unwrap();
    let address = listeners(1, None)[0].address().to_string();
    let call = |address: &str| caller.call(address, "echo", Bytes::new(), Duration::from_millis(100)).unwrap_err().code;
    assert_eq!(call(&address), code::NODE_UNREACHABLE);
    assert_eq!(call("no port"), code::INVALID_CONFIG);
    assert_eq!(call("127.0.0.1"), code::INVALID_CONFIG);
    // An address that is nobody's: it is not even tried.
    assert_eq!(call("192.0.2.1:7420"), code::NOT_ENCRYPTED);
    let deaf = listeners(1, None);
    let answer = caller.call(&deaf[0].address().to_string(), "echo", Bytes::new(), PATIENCE);
    assert_eq!(answer.unwrap_err().code, code::REFUSED);
}
