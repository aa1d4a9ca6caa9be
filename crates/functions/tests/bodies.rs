//! Every string, regex, math and hash function against the examples of Flink's documentation and its edge cases,
//! called the way row programs call them.

use millstream_abi::{CallStatus, Phys, RuntimeFn, Slot, Str};
use millstream_functions::{FunctionContext, FunctionSettings, address};
use millstream_types::text::zone::Zone;
use std::ffi::c_void;

/// An argument or a result.
#[derive(Debug, Clone, PartialEq)]
enum V {
    /// STRING or BYTES.
    S(&'static str),
    /// BYTES that are not text.
    Bytes(&'static [u8]),
    Int(i128),
    Double(f64),
    Bool(bool),
    Null,
    Error,
}
use V::*;

fn slot(value: &V, phys: Phys) -> Slot {
    match (value, phys) {
        (S(text), _) => Slot(Str::new(text.as_bytes()).bits().to_le_bytes()),
        (Bytes(bytes), _) => Slot(Str::new(bytes).bits().to_le_bytes()),
        (Int(n), Phys::I32) => Slot::of((*n as i32).to_le_bytes()),
        (Int(n), Phys::I64) => Slot::of((*n as i64).to_le_bytes()),
        (Int(n), Phys::I128) => Slot::of(n.to_le_bytes()),
        (Double(x), Phys::F64) => Slot::of(x.to_le_bytes()),
        _ => panic!("{value:?} is not a {phys}"),
    }
}

fn call(context: &mut FunctionContext, function: RuntimeFn, arguments: &[V]) -> V {
    let types = function.arguments();
    assert_eq!(types.len(), arguments.len(), "arguments of {}", function.name());
    let slots: Vec<Slot> = arguments.iter().zip(types).map(|(value, phys)| slot(value, *phys)).collect();
    let mut out = Slot::ZERO;
    // SAFETY: the context is a `FunctionContext` and the slots are of the function's argument types.
    let status = unsafe { address(function)((&raw mut *context).cast::<c_void>(), slots.as_ptr(), &raw mut out) };
    if status == CallStatus::Null as u32 {
        return Null;
    }
    if status == CallStatus::Error as u32 {
        assert!(context.take_failure().is_some(), "{} fails with a reason", function.name());
        return Error;
    }
    match function.result() {
        Phys::Str => {
            let string = Str::from_bits(u128::from_le_bytes(out.0));
            // SAFETY: arguments are static and the context is alive.
            let bytes = unsafe { string.as_bytes() }.to_vec();
            // Leaked so that expectations can be written as literals.
            match String::from_utf8(bytes) {
                Ok(text) => S(text.leak()),
                Err(bad) => Bytes(bad.into_bytes().leak()),
            }
        }
        Phys::Bool => Bool(out.0[0] != 0),
        Phys::I32 => Int(i32::from_le_bytes(out.bytes()).into()),
        Phys::I64 => Int(i64::from_le_bytes(out.bytes()).into()),
        Phys::I128 => Int(i128::from_le_bytes(out.bytes())),
        Phys::F64 => Double(f64::from_le_bytes(out.bytes())),
        other => panic!("no function of these gives {other}"),
    }
}

/// Calls every row of a table twice (the second time with warm caches) and compares.
fn check(table: &[(RuntimeFn, &[V], V)]) {
    let mut context = FunctionContext::default();
    for (function, arguments, expected) in table {
        for _ in 0..2 {
            let got = call(&mut context, *function, arguments);
            assert_eq!(got, *expected, "{}{arguments:?}", function.name());
        }
    }
}

#[test]
fn case_length_and_trim() {
    use RuntimeFn::*;
    check(&[
        (Lower, &[S("Apple")], S("apple")),
        (Lower, &[S("already lower and long")], S("already lower and long")),
        (Lower, &[S("A LONGER TEXT THAN INLINE")], S("a longer text than inline")),
        (Lower, &[S("ÄÖÜ")], S("äöü")),
        (Upper, &[S("straße")], S("STRASSE")),
        (Upper, &[S("facebook")], S("FACEBOOK")),
        (CharLength, &[S("größe 😀")], Int(7)),
        (OctetLength, &[S("größe")], Int(7)),
        (TrimBoth, &[S("  This is a test String. "), S(" ")], S("This is a test String.")),
        (TrimLeading, &[S(" This is a test String."), S(" ")], S("This is a test String.")),
        (TrimTrailing, &[S("This is a test String. "), S(" ")], S("This is a test String.")),
        (TrimBoth, &[S("xyabcyx"), S("xy")], S("abc")),
        (TrimBoth, &[S("éabcé"), S("é")], S("abc")),
        (TrimBoth, &[S("abc"), S("")], S("abc")),
    ]);
}

#[test]
fn parts() {
    use RuntimeFn::*;
    const ALL: i128 = i32::MAX as i128;
    check(&[
        (Substring, &[S("abcdefghijklmnop"), Int(2), Int(3)], S("bcd")),
        (Substring, &[S("abcdefghijklmnop"), Int(2), Int(ALL)], S("bcdefghijklmnop")),
        (Substring, &[S("abc"), Int(0), Int(2)], S("ab")),
        (Substring, &[S("abc"), Int(-2), Int(ALL)], S("bc")),
        (Substring, &[S("abc"), Int(-4), Int(ALL)], S("")),
        (Substring, &[S("abc"), Int(4), Int(1)], S("")),
        (Substring, &[S("abc"), Int(1), Int(-1)], Null),
        (Substring, &[S("abc"), Int(i32::MIN as i128), Int(1)], S("")),
        (Substring, &[S("größe"), Int(3), Int(2)], S("öß")),
        (Substring, &[S("größe"), Int(-2), Int(1)], S("ß")),
        (Left, &[S("größe"), Int(3)], S("grö")),
        (Left, &[S("abc"), Int(-1)], S("")),
        (Left, &[S("abc"), Int(9)], S("abc")),
        (Right, &[S("größe"), Int(3)], S("öße")),
        (Right, &[S("abc"), Int(-1)], S("")),
        (Right, &[S("abc"), Int(9)], S("abc")),
    ]);
}

#[test]
fn padding_and_replacing() {
    use RuntimeFn::*;
    check(&[
        (Lpad, &[S("hi"), Int(4), S("??")], S("??hi")),
        (Lpad, &[S("hi"), Int(1), S("??")], S("h")),
        (Lpad, &[S("hi"), Int(5), S("ab")], S("abahi")),
        (Lpad, &[S("hi"), Int(-1), S("?")], Null),
        (Lpad, &[S("hi"), Int(5), S("")], Null),
        (Lpad, &[S("ß"), Int(3), S("ä")], S("ääß")),
        (Lpad, &[S("hi"), Int(i32::MAX as i128), S("?")], Error),
        (Rpad, &[S("hi"), Int(4), S("??")], S("hi??")),
        (Rpad, &[S("hi"), Int(1), S("??")], S("h")),
        (Rpad, &[S("hi"), Int(0), S("??")], S("")),
        (Repeat, &[S("This is a test String."), Int(2)], S("This is a test String.This is a test String.")),
        (Repeat, &[S("x"), Int(-2)], S("")),
        (Repeat, &[S("long text"), Int(i32::MAX as i128)], Error),
        (Replace, &[S("hello world"), S("world"), S("flink")], S("hello flink")),
        (Replace, &[S("ababab"), S("abab"), S("z")], S("zab")),
        (Replace, &[S("ab"), S(""), S("-")], S("-a-b-")),
        (Reverse, &[S("größe")], S("eßörg")),
        (Reverse, &[S("abcdefghijklmnop")], S("ponmlkjihgfedcba")),
        (InitCap, &[S("hello WORLD 2x-ray")], S("Hello World 2x-Ray")),
        (Overlay, &[S("xxxxxtest"), S("xxxx"), Int(6), Int(4)], S("xxxxxxxxx")),
        (Overlay, &[S("xxxxxtest"), S("xxxx"), Int(6), Int(2)], S("xxxxxxxxxst")),
        (Overlay, &[S("abc"), S("X"), Int(0), Int(1)], S("abc")),
        (Overlay, &[S("abc"), S("X"), Int(9), Int(1)], S("abc")),
        (Overlay, &[S("größe"), S("X"), Int(3), Int(1)], S("grXße")),
        (Translate, &[S("translate"), S("rnlt"), S("123")], S("1a2s3ae")),
        (Translate, &[S("aabb"), S("aab"), S("xyz")], S("xxzz")),
        (Concat2, &[S("AA"), S("BB")], S("AABB")),
        (Concat3, &[S("AA"), S("BB"), S("CC")], S("AABBCC")),
        (Concat4, &[S("one and "), S("two and "), S(""), S("four")], S("one and two and four")),
        (DropPrefix, &[S("~AA~BB~~CC"), S("~")], S("AA~BB~~CC")),
    ]);
}

#[test]
fn characters() {
    use RuntimeFn::*;
    check(&[
        (Ascii, &[S("abc")], Int(97)),
        (Ascii, &[S("")], Int(0)),
        (Chr, &[Int(97)], S("a")),
        (Chr, &[Int(353)], S("a")),
        (Chr, &[Int(-1)], S("")),
        (Chr, &[Int(0)], S("\0")),
        (IsAlpha, &[S("abcß")], Bool(true)),
        (IsAlpha, &[S("ab1")], Bool(false)),
        (IsAlpha, &[S("")], Bool(false)),
        (IsDigit, &[S("0123")], Bool(true)),
        (IsDigit, &[S("1.2")], Bool(false)),
        (IsDecimal, &[S("-12.5e3")], Bool(true)),
        (IsDecimal, &[S(".5")], Bool(true)),
        (IsDecimal, &[S("inf")], Bool(false)),
        (IsDecimal, &[S("1x")], Bool(false)),
        (IsDecimal, &[S("")], Bool(false)),
    ]);
}

#[test]
fn searching_and_splitting() {
    use RuntimeFn::*;
    const URL: V = S("https://www.nexmark.com/abo/jkl/mnop/item.htm?query=1");
    check(&[
        (Position, &[S("c"), S("abcabc"), Int(1)], Int(3)),
        (Position, &[S("c"), S("abcabc"), Int(4)], Int(6)),
        (Position, &[S("x"), S("abc"), Int(1)], Int(0)),
        (Position, &[S(""), S("abc"), Int(3)], Int(1)),
        (Position, &[S("e"), S("größe"), Int(-5)], Int(5)),
        (Position, &[S("a"), S("abc"), Int(99)], Int(0)),
        (SplitIndex, &[URL, S("/"), Int(3)], S("abo")),
        (SplitIndex, &[URL, S("/"), Int(6)], S("item.htm?query=1")),
        (SplitIndex, &[URL, S("/"), Int(7)], Null),
        (SplitIndex, &[URL, S("/"), Int(0)], S("https:")),
        (SplitIndex, &[URL, S("/"), Int(1)], S("")),
        (SplitIndex, &[URL, S("/"), Int(-1)], Null),
        (SplitIndex, &[S("a--b--"), S("--"), Int(1)], S("b")),
        (SplitIndex, &[S("a--b--"), S("--"), Int(2)], S("")),
        (SplitIndex, &[S("a--b--"), S("--"), Int(3)], Null),
        (SplitIndex, &[S(""), S("/"), Int(0)], Null),
        (SplitIndex, &[S("a b"), S(""), Int(1)], S("b")),
        (SplitIndexCode, &[S("AQIDBA=="), Int(73), Int(1)], S("DBA==")),
        (SplitIndexCode, &[S("a"), Int(256), Int(0)], Null),
        (StartsWith, &[S("millstream"), S("mill")], Bool(true)),
        (EndsWith, &[S("millstream"), S("mill")], Bool(false)),
        (EndsWith, &[S("x"), S("")], Bool(true)),
    ]);
}

#[test]
fn like_patterns() {
    use RuntimeFn::{Like, LikeEscape};
    let matching = [
        ("abc", "abc"),
        ("abc", "a%"),
        ("abc", "%c"),
        ("abc", "%b%"),
        ("abc", "_b_"),
        ("abc", "%"),
        ("", "%"),
        ("", ""),
        ("größe", "gr__e"),
        ("größe", "%_e"),
        ("a-b-c-d", "a%-c%d"),
        ("aXbXc", "a%X%c"),
        ("aab", "%ab"),
        ("abab", "ab%%ab"),
        ("mississippi", "m%iss%_ppi"),
        ("line\nbreak", "line%"),
        ("a\\b", "a\\b"),
    ];
    let failing =
        [("abc", "ABC"), ("abc", "ab"), ("abc", "b%"), ("ab", "ab%ab"), ("abc", "____"), ("", "_"), ("aba", "ab%ba")];
    let mut context = FunctionContext::default();
    for (expected, pairs) in [(true, &matching[..]), (false, &failing[..])] {
        for (text, pattern) in pairs {
            assert_eq!(call(&mut context, Like, &[S(text), S(pattern)]), Bool(expected), "{text} LIKE {pattern}");
        }
    }
    check(&[
        (LikeEscape, &[S("TE_ST"), S("TE$_ST"), S("$")], Bool(true)),
        (LikeEscape, &[S("TEXST"), S("TE$_ST"), S("$")], Bool(false)),
        (LikeEscape, &[S("50%"), S("%\\%"), S("\\")], Bool(true)),
        (LikeEscape, &[S("a$b"), S("a$$b"), S("$")], Bool(true)),
        (LikeEscape, &[S("ab"), S("a$b"), S("$")], Error),
        (LikeEscape, &[S("a"), S("a$"), S("$")], Error),
        (LikeEscape, &[S("a"), S("a"), S("xx")], Error),
    ]);
}

#[test]
fn like_patterns_without_case() {
    use RuntimeFn::{ILike, ILikeEscape};
    check(&[
        (ILike, &[S("Millstream"), S("mILL%")], Bool(true)),
        (ILike, &[S("Millstream"), S("mill")], Bool(false)),
        (ILike, &[S("GRÖSSE"), S("gr_sse")], Bool(true)),
        (ILike, &[S("ÄÖÜ"), S("%öü")], Bool(true)),
        // A letter whose small form is two characters, and a sigma at the end of a word.
        (ILike, &[S("İx"), S("_X")], Bool(true)),
        (ILike, &[S("ΟΔΟΣ"), S("οδοσ")], Bool(true)),
        (ILike, &[S(""), S("%")], Bool(true)),
        (ILikeEscape, &[S("50% OFF"), S("50!%%off"), S("!")], Bool(true)),
        (ILikeEscape, &[S("500 OFF"), S("50!%%off"), S("!")], Bool(false)),
        // The escape character is itself not folded.
        (ILikeEscape, &[S("X%"), S("xX%"), S("X")], Bool(true)),
        (ILikeEscape, &[S("xa"), S("xX%"), S("X")], Bool(false)),
        (ILikeEscape, &[S("a"), S("A"), S("")], Bool(true)),
        (ILikeEscape, &[S("a"), S("a!"), S("!")], Error),
        (ILikeEscape, &[S("a"), S("a"), S("xx")], Error),
    ]);
}

#[test]
fn regular_expressions() {
    use RuntimeFn::*;
    const CHANNEL: V = S("(&|^)channel_id=([^&]*)");
    check(&[
        (Regexp, &[S("foothebar"), S("o+")], Bool(true)),
        (Regexp, &[S("foothebar"), S("^bar")], Bool(false)),
        (Regexp, &[S("abc"), S("")], Bool(false)),
        (Regexp, &[S("abc"), S("(")], Bool(false)),
        (RegexpExtract, &[S("foothebar"), S("foo(.*?)(bar)"), Int(2)], S("bar")),
        (RegexpExtract, &[S("foothebar"), S("foo(.*?)(bar)"), Int(0)], S("foothebar")),
        (RegexpExtract, &[S("foothebar"), S("foo(.*?)(bar)"), Int(3)], Null),
        (RegexpExtract, &[S("foothebar"), S("foo(.*?)(bar)"), Int(-1)], Null),
        (RegexpExtract, &[S("abc"), S("x(y)"), Int(1)], Null),
        (RegexpExtract, &[S("abc"), S("(x)?abc"), Int(1)], Null),
        (
            RegexpExtract,
            &[S("https://x.com/item.htm?query=1&channel_id=1234567890123456"), CHANNEL, Int(2)],
            S("1234567890123456"),
        ),
        (RegexpExtract, &[S("https://x.com/item.htm?query=1&channel_id="), CHANNEL, Int(2)], S("")),
        (RegexpExtract, &[S("https://x.com/item.htm?query=1"), CHANNEL, Int(2)], Null),
        (RegexpExtract, &[S("12 ab"), S("(?<=\\d )(\\w+)"), Int(1)], S("ab")),
        (RegexpExtract, &[S("ü9"), S("\\w"), Int(0)], S("9")),
        (Regexp, &[S("aab"), S("a++ab")], Bool(false)),
        (RegexpExtract, &[S("aa"), S("(a)\\1"), Int(1)], S("a")),
        (RegexpReplace, &[S("foobar"), S("oo|ar"), S("")], S("fb")),
        (RegexpReplace, &[S("foobar"), S("o"), S("$1")], S("f$1$1bar")),
        (RegexpReplace, &[S("abc"), S("x*"), S("-")], S("-a-b-c-")),
        (RegexpReplace, &[S("abc"), S("["), S("-")], Null),
        (RegexpCount, &[S("abc123abc"), S("[a-c]+")], Int(2)),
        (RegexpCount, &[S("abc"), S("(")], Null),
        (RegexpInstr, &[S("größe 1"), S("\\d")], Int(7)),
        (RegexpInstr, &[S("abc"), S("\\d")], Int(0)),
        (RegexpSubstr, &[S("number 42!"), S("\\d+")], S("42")),
        (RegexpSubstr, &[S("none"), S("\\d+")], Null),
        (SimilarTo, &[S("abc"), S("(a|b)%c")], Bool(true)),
        (SimilarTo, &[S("a.c"), S("a.c")], Bool(true)),
        (SimilarTo, &[S("abc"), S("a.c")], Bool(false)),
        (SimilarTo, &[S("abcd"), S("a_c")], Bool(false)),
        (SimilarTo, &[S("x5"), S("x[[:DIGIT:]]")], Bool(true)),
        (SimilarTo, &[S("x"), S("(x")], Error),
        (SimilarToEscape, &[S("5%"), S("[0-9]!%"), S("!")], Bool(true)),
        (SimilarToEscape, &[S("5a"), S("[0-9]!%"), S("!")], Bool(false)),
    ]);
}

#[test]
fn encodings() {
    use RuntimeFn::*;
    const URL: V = S("http://user@facebook.com:80/path1/p.php?k1=v1&k2=v2#Ref1");
    check(&[
        (ToBase64, &[S("hello world")], S("aGVsbG8gd29ybGQ=")),
        (FromBase64, &[S("aGVsbG8gd29ybGQ=")], S("hello world")),
        (FromBase64, &[S("aGVsbG8gd29ybGQ")], S("hello world")),
        (FromBase64, &[S("?")], Error),
        (HexInteger, &[Int(20)], S("14")),
        (HexInteger, &[Int(-1)], S("FFFFFFFFFFFFFFFF")),
        (HexBytes, &[S("hello,world")], S("68656C6C6F2C776F726C64")),
        (Bin, &[Int(4)], S("100")),
        (Bin, &[Int(12)], S("1100")),
        (Unhex, &[S("466C696E6B")], S("Flink")),
        (Unhex, &[S("fFf")], Bytes(&[0, 0xFF])),
        (Unhex, &[S("zz")], Null),
        (Encode, &[S("aé😀"), S("utf-16be")], Bytes(&[0, 0x61, 0, 0xE9, 0xD8, 0x3D, 0xDE, 0])),
        (Encode, &[S("aé"), S("US-ASCII")], S("a?")),
        (Encode, &[S("a"), S("x")], Error),
        (Decode, &[Bytes(&[0x61, 0xE9]), S("ISO-8859-1")], S("aé")),
        (Decode, &[Bytes(&[0xFF, 0xFE, 0x61, 0]), S("UTF-16")], S("a")),
        (Decode, &[Bytes(&[0xFF]), S("UTF-8")], S("\u{FFFD}")),
        (UrlEncode, &[S("a b&ü")], S("a+b%26%C3%BC")),
        (UrlDecode, &[S("a+b%26%C3%BC")], S("a b&ü")),
        (UrlDecode, &[S("%4")], Null),
        (ParseUrl, &[URL, S("HOST")], S("facebook.com")),
        (ParseUrl, &[URL, S("PATH")], S("/path1/p.php")),
        (ParseUrl, &[URL, S("QUERY")], S("k1=v1&k2=v2")),
        (ParseUrl, &[URL, S("REF")], S("Ref1")),
        (ParseUrl, &[URL, S("PROTOCOL")], S("http")),
        (ParseUrl, &[URL, S("FILE")], S("/path1/p.php?k1=v1&k2=v2")),
        (ParseUrl, &[URL, S("AUTHORITY")], S("user@facebook.com:80")),
        (ParseUrl, &[URL, S("USERINFO")], S("user")),
        (ParseUrl, &[URL, S("host")], Null),
        (ParseUrl, &[S("no url"), S("HOST")], Null),
        (ParseUrl, &[S("http://a.b"), S("QUERY")], Null),
        (ParseUrlKey, &[URL, S("QUERY"), S("k1")], S("v1")),
        (ParseUrlKey, &[URL, S("QUERY"), S("k3")], Null),
        (ParseUrlKey, &[URL, S("HOST"), S("k1")], Null),
    ]);
}

#[test]
fn digests() {
    use RuntimeFn::*;
    check(&[
        (Md5, &[S("test")], S("098f6bcd4621d373cade4e832627b4f6")),
        (Sha1, &[S("test")], S("a94a8fe5ccb19ba61c4c0873d391e987982fbbd3")),
        (Sha224, &[S("test")], S("90a3ed9e32b2aaf4c61c410eb925426119e1a9dc53d4286ade99a809")),
        (Sha256, &[S("test")], S("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")),
        (Sha2, &[S("test"), Int(256)], S("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")),
        (Sha2, &[S("test"), Int(1)], Error),
    ]);
    let mut context = FunctionContext::default();
    for (function, length) in [(Sha384, 96), (Sha512, 128)] {
        let S(digits) = call(&mut context, function, &[S("")]) else { panic!("a digest is text") };
        assert_eq!(digits.len(), length);
    }
}

#[test]
fn rounding() {
    use RuntimeFn::*;
    check(&[
        (RoundDouble, &[Double(2.675), Int(2)], Double(2.68)),
        (RoundDouble, &[Double(-646.646), Int(2)], Double(-646.65)),
        (RoundDouble, &[Double(646.646), Int(-2)], Double(600.0)),
        (RoundDouble, &[Double(0.5), Int(0)], Double(1.0)),
        (RoundDouble, &[Double(0.49), Int(0)], Double(0.0)),
        (RoundDouble, &[Double(1e300), Int(2)], Double(1e300)),
        (RoundDouble, &[Double(1e-300), Int(2)], Double(0.0)),
        (RoundDouble, &[Double(5.0), Int(i32::MIN as i128)], Double(0.0)),
        (RoundDouble, &[Double(f64::INFINITY), Int(0)], Double(f64::INFINITY)),
        (TruncateDouble, &[Double(42.324), Int(2)], Double(42.32)),
        (TruncateDouble, &[Double(-42.999), Int(0)], Double(-42.0)),
        (TruncateDouble, &[Double(42.324), Int(-1)], Double(40.0)),
        (RoundInteger, &[Int(646), Int(-2)], Int(600)),
        (RoundInteger, &[Int(-650), Int(-2)], Int(-700)),
        (RoundInteger, &[Int(646), Int(2)], Int(646)),
        (RoundInteger, &[Int(646), Int(-50)], Int(0)),
        (TruncateInteger, &[Int(-199), Int(-2)], Int(-100)),
        // 646.646 to two places, to none, to hundreds.
        (RoundDecimal, &[Int(646_646), Int(3), Int(2), Int(2)], Int(64_665)),
        (RoundDecimal, &[Int(-646_646), Int(3), Int(0), Int(0)], Int(-647)),
        (RoundDecimal, &[Int(646_646), Int(3), Int(-2), Int(0)], Int(600)),
        (RoundDecimal, &[Int(646_646), Int(3), Int(1), Int(3)], Int(646_600)),
        (RoundDecimal, &[Int(646_646), Int(3), Int(5), Int(3)], Int(646_646)),
        (TruncateDecimal, &[Int(-646_649), Int(3), Int(2), Int(2)], Int(-64_664)),
        (FloorDecimal, &[Int(-1_001), Int(3)], Int(-2)),
        (FloorDecimal, &[Int(1_999), Int(3)], Int(1)),
        (CeilDecimal, &[Int(1_001), Int(3)], Int(2)),
        (CeilDecimal, &[Int(-1_999), Int(3)], Int(-1)),
        (FloorDouble, &[Double(-1.5)], Double(-2.0)),
        (CeilDouble, &[Double(1.2)], Double(2.0)),
    ]);
}

#[test]
fn mathematics() {
    use RuntimeFn::*;
    check(&[
        (AbsInteger, &[Int(-5)], Int(5)),
        (AbsDecimal, &[Int(-5)], Int(5)),
        (AbsDouble, &[Double(-0.5)], Double(0.5)),
        (SignDouble, &[Double(-3.5)], Double(-1.0)),
        (SignDouble, &[Double(0.0)], Double(0.0)),
        (Sqrt, &[Double(16.0)], Double(4.0)),
        (Exp, &[Double(0.0)], Double(1.0)),
        (Ln, &[Double(1.0)], Double(0.0)),
        (Ln, &[Double(0.0)], Double(f64::NEG_INFINITY)),
        (Log10, &[Double(1000.0)], Double(3.0)),
        (Power, &[Double(2.0), Double(10.0)], Double(1024.0)),
        (Atan2, &[Double(0.0), Double(1.0)], Double(0.0)),
        (Sin, &[Double(0.0)], Double(0.0)),
        (Cosh, &[Double(0.0)], Double(1.0)),
        (BitAnd, &[Int(12), Int(10)], Int(8)),
        (BitOr, &[Int(12), Int(10)], Int(14)),
        (BitXor, &[Int(12), Int(10)], Int(6)),
        (BitNot, &[Int(0)], Int(-1)),
    ]);
    let mut context = FunctionContext::default();
    let Double(root) = call(&mut context, Sqrt, &[Double(-1.0)]) else { panic!("a root is a double") };
    assert!(root.is_nan());
}

#[test]
fn random_values() {
    use RuntimeFn::*;
    let mut context = FunctionContext::default();
    // The first numbers of `new java.util.Random(42)`.
    assert_eq!(call(&mut context, RandSeed, &[Int(42)]), Double(0.727_563_680_032_868_1));
    assert_eq!(call(&mut context, RandIntegerSeed, &[Int(43), Int(0)]), Error);
    let mut fresh = FunctionContext::default();
    assert_eq!(call(&mut fresh, RandIntegerSeed, &[Int(42), Int(10)]), Int(0));
    assert_eq!(call(&mut fresh, RandIntegerSeed, &[Int(42), Int(10)]), Int(3));
    for _ in 0..100 {
        let Double(x) = call(&mut context, Rand, &[]) else { panic!("RAND is a double") };
        assert!((0.0..1.0).contains(&x));
        let Int(n) = call(&mut context, RandInteger, &[Int(7)]) else { panic!("RAND_INTEGER is an integer") };
        assert!((0..7).contains(&n));
    }
    let S(uuid) = call(&mut context, Uuid, &[]) else { panic!("UUID is text") };
    assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
    assert_ne!(call(&mut context, Uuid, &[]), S(uuid));
}

#[test]
fn parts_of_long_arguments_are_not_copied() {
    let text = "https://www.nexmark.com/a-long-directory-name/item.htm";
    let mut context = FunctionContext::default();
    let arguments = [slot(&S(text), Phys::Str), slot(&S("/"), Phys::Str), slot(&Int(3), Phys::I32)];
    let mut out = Slot::ZERO;
    // SAFETY: as in `call`.
    unsafe { address(RuntimeFn::SplitIndex)((&raw mut context).cast(), arguments.as_ptr(), &raw mut out) };
    let part = Str::from_bits(u128::from_le_bytes(out.0));
    assert_eq!(part.high, text[24..].as_ptr() as u64);
}

/// Calls `function` with many different arguments. Gives what each call makes of its result and its status.
fn sampled<T>(context: &mut FunctionContext, function: RuntimeFn, make: impl Fn(u32, Slot) -> T) -> Vec<T> {
    let strings = ["", "a", "%_\\", "[", "(a", "10", "straße", "2020-01-01", "http://h/p?q=1#f"];
    let numbers = [0, 1, -1, 3, i64::from(i32::MIN), i64::from(i32::MAX), i64::MAX, i64::MIN];
    let sample = |pick: usize| {
        let arguments = function.arguments().iter().enumerate().map(|(i, phys)| {
            let pick = pick >> (3 * i);
            match phys {
                Phys::Str => Slot(Str::new(strings[pick % strings.len()].as_bytes()).bits().to_le_bytes()),
                Phys::I32 => Slot::of((numbers[pick % numbers.len()] as i32).to_le_bytes()),
                Phys::F64 => Slot::of((numbers[pick % numbers.len()] as f64).to_le_bytes()),
                Phys::I128 => Slot::of(i128::from(numbers[pick % numbers.len()]).to_le_bytes()),
                Phys::Bool => Slot::of([(pick % 2) as u8]),
                _ => Slot::of(numbers[pick % numbers.len()].to_le_bytes()),
            }
        });
        let arguments: Vec<Slot> = arguments.collect();
        let mut out = Slot::ZERO;
        // SAFETY: the context is a `FunctionContext` and the slots are of the function's argument types.
        let status = unsafe { address(function)((&raw mut *context).cast(), arguments.as_ptr(), &raw mut out) };
        let made = make(status, out);
        context.take_failure();
        context.reset();
        made
    };
    (0..512).map(sample).collect()
}

/// Filters are put in another order when their calls are total: then a call is made for rows that it was not written for.
#[test]
fn total_functions_never_fail() {
    let mut context = FunctionContext::new(Default::default());
    for &function in RuntimeFn::ALL.iter().filter(|f| f.is_total()) {
        let fails = sampled(&mut context, function, |status, _| status == CallStatus::Error as u32);
        assert!(!fails.contains(&true), "{}", function.name());
    }
}

/// The result of a pure function is computed where there is no session yet.
#[test]
fn pure_functions_do_not_read_the_session() {
    // Allocations of 512 samples of 2 billion characters would take the test's time.
    let is_small = |f: &&RuntimeFn| f.result() != Phys::Str;
    let session = FunctionSettings { time_zone: Zone::Fixed(5400), query_start_ms: 4_102_444_800_000, run: 0 };
    for &function in RuntimeFn::ALL.iter().filter(|f| f.is_pure()).filter(is_small) {
        let results = [FunctionSettings::default(), session.clone()]
            .map(|settings| sampled(&mut FunctionContext::new(settings), function, |status, out| (status, out.0)));
        assert!(results[0] == results[1], "{}", function.name());
    }
}
