//! What nodes and callers prove that they belong together by.

use millstream_types::{Diagnostic, code, secret};
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// A shared secret. It is shown nowhere: Debug masks it, and so does every [`Diagnostic`].
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// The shortest that is taken, in characters.
    pub const SHORTEST: usize = 16;
    /// The longest, in characters.
    pub const LONGEST: usize = 1024;

    /// A given one.
    ///
    /// # Errors
    /// `INVALID_CONFIG` when it is too short or too long, or has other characters than visible ASCII ones.
    pub fn new(text: &str) -> Result<Token, Diagnostic> {
        let text = text.trim();
        let fits = (Token::SHORTEST..=Token::LONGEST).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let form = "the token of a cluster is 16 to 1,024 visible ASCII characters";
            return Err(Diagnostic::new(code::INVALID_CONFIG, form));
        }
        secret::remember(text);
        Ok(Token(text.into()))
    }

    /// A new one of 256 random bits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn random() -> Result<Token, Diagnostic> {
        let mut bits = [0u8; 32];
        let source = tokio_rustls::rustls::crypto::ring::default_provider().secure_random;
        source.fill(&mut bits).map_err(|_| Diagnostic::bug("the system gives no random numbers"))?;
        let digits: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Token::new(&digits)
    }

    /// Its text, to hand it on to another process.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is the same; takes as long whatever differs.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(text).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", secret::MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_hidden() {
        let token = Token::random().unwrap();
        assert_eq!(token.reveal().len(), 64);
        assert!(!format!("{token:?}").contains(token.reveal()));
        let shown = Diagnostic::new(code::WRONG_TOKEN, format!("it says {}", token.reveal())).to_string();
        assert!(!shown.contains(token.reveal()), "{shown}");
        assert!(token.is(token.reveal().as_bytes()) && !token.is(b"another") && !token.is(b""));
        assert_ne!(token.reveal(), Token::random().unwrap().reveal());
        for text in ["", "short", "with a space in the middle", "täglich-wechselnd-lang"] {
            assert_eq!(Token::new(text).unwrap_err().code, code::INVALID_CONFIG);
        }
    }
}
